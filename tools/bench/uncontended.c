/* simba bench pair: one locker, alone.
 *
 * simba bench throughput: many mutexes at once through one store handle; with
 * several processes, through one of each. Their contenders are services, whose
 * callbacks one thread runs. The floor are bare connections that
 * exchange at the same time, one or sixteen of them, whichever is faster: on
 * some stores one writes at a time. What is compared are rates, as a hundred at
 * once wait for each other on both sides. */
#define _GNU_SOURCE
#include "bench/bench.h"
#include "cli/cli.h"

#include <simba/service.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LOOK_UP_MS = 5000, LOOK_UP_OVER_MS = 100 };

/* Fewer and longer rounds than elsewhere: at the end of each, those who are not
 * done yet are fewer and fewer. */
enum { ROUNDS = 15 };

enum {
    FLOORS_MOST = 16,
    WARM_UP = 1000, /* exchanges at most, */
    WARM_UP_MS = 100,
    CHOICES = 3, /* so often with few and with many connections */
    ROOM = 1 << 20,
    PROCESSES_MOST = 64
};

/* --- pair ---------------------------------------------------------------- */

int simba__bench_acquire(simba_locker *locker,
                         int64_t look_up_ms,
                         simba_error *error)
{
    int rc = simba_locker_acquire(locker, look_up_ms, NULL, error);

    while (rc == SIMBA_ETIMEDOUT && simba__interrupt() == 0) {
        rc = simba_locker_acquire(locker, look_up_ms, NULL, error);
    }
    return rc == SIMBA_ETIMEDOUT ? simba__bench_cancel(error) : rc;
}

static int lock_once(void *self, int64_t *ns, simba_error *error)
{
    int64_t begun_ns = simba__bench_now_ns();
    int rc = simba__bench_acquire(self, LOOK_UP_MS, error);

    if (rc == SIMBA_OK) {
        rc = simba_locker_release(self, error);
    }
    *ns = simba__bench_now_ns() - begun_ns;
    return rc;
}

static int exchange_once(void *self, int64_t *ns, simba_error *error)
{
    int64_t begun_ns = simba__bench_now_ns();
    int rc = simba__floor_step(self, SIMBA_FLOOR_PAIR, error);

    *ns = simba__bench_now_ns() - begun_ns;
    return rc;
}

static int exchange_spinning(void *self, int64_t *ns, simba_error *error)
{
    int rc;

    simba__floor_spin(true);
    rc = exchange_once(self, ns, error);
    simba__floor_spin(false);
    return rc;
}

int simba__bench_pair(const struct simba__bench_job *job,
                      struct simba__bench_result *result,
                      simba_error *error)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_store *store = NULL;
    simba_locker *locker = NULL;
    struct simba__floor *floor = NULL;
    int rc = simba_store_open(job->url, NULL, &store, error);

    options.mutex = job->mutex;
    if (rc == SIMBA_OK) {
        rc = simba_locker_open(store, &options, &locker, error);
    }
    if (rc == SIMBA_OK) {
        rc = simba__floor_open(job->url, job->mutex, &floor, error);
    }
    if (rc == SIMBA_OK) {
        bool is_remote = floor != NULL && simba__floor_is_remote(floor);
        struct simba__bench_side sides[SIMBA__BENCH_SIDES] = {
            {lock_once, locker},
            {exchange_once, floor},
            {exchange_spinning, is_remote ? floor : NULL}};

        rc = simba__bench_run(&job->plan, sides, result, error);
    }
    simba__floor_close(floor);
    simba_locker_close(locker);
    simba_store_close(store);
    return rc;
}

int simba__bench_bare(const char *url, simba_error *error)
{
    struct simba__bench_job job = {.url = url};
    struct simba__floor *floor = NULL;
    int rc;

    simba__bench_name(&job);
    rc = simba__floor_open(url, job.mutex, &floor, error);
    if (rc == SIMBA_OK && floor == NULL) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0, "this store has no floor");
    }
    if (rc == SIMBA_OK) {
        rc = simba__floor_step(floor, SIMBA_FLOOR_PAIR, error);
    }
    simba__floor_close(floor);
    return rc;
}

/* --- throughput: a child, services of one handle ------------------------- */

/* What the processes have in common. */
struct common {
    _Atomic int is_over;
    int64_t ns[ROOM];
};

/* All of a child, which one thread drives: a program with thousands of mutexes
 * has no thousands of threads either. */
struct contenders {
    const struct simba__bench_job *job;
    simba_store *store;
    struct contender *all;
    int64_t until_ns;
    size_t left;    /* exchanges of this slice that may begin */
    size_t working; /* contenders that have begun one */
    struct simba__crew_tally tally;
};

struct contender {
    struct contenders *together;
    simba_service *service;
    struct simba__bench_times times;
    int64_t begun_ns;
};

static void fail(struct contenders *c, int rc, const simba_error *error)
{
    if (c->tally.rc == SIMBA_OK) {
        c->tally.rc = rc;
        c->tally.error = *error;
    }
}

static bool is_over(const struct contenders *c)
{
    return atomic_load(c->job->is_over) != 0 || c->tally.rc != SIMBA_OK;
}

static void begin(struct contender *one)
{
    struct contenders *c = one->together;
    simba_error error;
    int rc;

    one->begun_ns = simba__bench_now_ns();
    if (c->left == 0 || one->begun_ns >= c->until_ns || is_over(c)) {
        return;
    }
    c->left--;
    rc = simba_service_start(one->service, &error);
    if (rc == SIMBA_OK) {
        c->working++;
    } else {
        fail(c, rc, &error);
    }
}

static void on_stopped(void *user, int status)
{
    struct contender *one = user;
    struct contenders *c = one->together;
    simba_error error;

    c->working--;
    if (status == SIMBA_OK && !is_over(c)) {
        simba__bench_note_time(&one->times,
                               simba__bench_now_ns() - one->begun_ns);
        c->tally.count++;
    } else if (status != SIMBA_OK) {
        (void)simba_error_set(&error, status, 0, "%s", simba_strerror(status));
        fail(c, status, &error);
    }
    begin(one);
}

static void on_acquired(void *user, const simba_state *state)
{
    struct contender *one = user;
    simba_error error;
    int rc = simba_service_stop_async(one->service, on_stopped, one, &error);

    (void)state;
    if (rc != SIMBA_OK) {
        fail(one->together, rc, &error);
    }
}

static int open_contenders(struct contenders *c, simba_error *error)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    const struct simba__bench_job *job = c->job;
    size_t share = ROOM / job->processes / job->contenders;
    int rc;

    c->all = calloc(job->contenders, sizeof *c->all);
    if (c->all == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    options.dispatch = true;
    rc = simba_store_open(job->url, &options, &c->store, error);
    for (size_t i = 0; i < job->contenders && rc == SIMBA_OK; i++) {
        simba_contender contender = SIMBA_CONTENDER_INIT;
        struct contender *one = &c->all[i];
        char mutex[128];

        (void)snprintf(mutex, sizeof mutex, "%s#%zu.%zu", job->mutex,
                       job->index, i);
        one->together = c;
        one->times.ns = job->room + i * share;
        one->times.room = share;
        contender.mutex = mutex;
        contender.on_acquired = on_acquired;
        contender.user = one;
        rc = simba_service_open(c->store, &contender, &one->service, error);
    }
    return rc;
}

static void close_contenders(struct contenders *c)
{
    for (size_t i = 0; c->all != NULL && i < c->job->contenders; i++) {
        simba_service_close(c->all[i].service);
    }
    simba_store_close(c->store);
    free(c->all);
}

/* Until the time or the exchanges of the slice are used up, and all that were
 * begun have ended; or until it is over. */
static void run_slice(struct contenders *c,
                      const struct simba__crew_slice *slice)
{
    struct pollfd callbacks = {simba_store_fd(c->store), POLLIN, 0};
    int64_t begun_ns = simba__bench_now_ns();

    c->until_ns = begun_ns + slice->length_ns;
    c->left = slice->most;
    c->tally = (struct simba__crew_tally){.rc = SIMBA_OK};
    for (size_t i = 0; i < c->job->contenders; i++) {
        begin(&c->all[i]);
    }
    while (c->working > 0 && !is_over(c)) {
        (void)poll(&callbacks, 1, LOOK_UP_OVER_MS);
        (void)simba_store_dispatch(c->store, NULL);
    }
    c->tally.elapsed_ns = simba__bench_now_ns() - begun_ns;
}

static void live(const struct simba__bench_job *job,
                 struct simba__bench_child *self)
{
    struct contenders contenders = {.job = job};
    struct simba__crew_tally *tally = &contenders.tally;
    struct simba__crew_slice slice;

    tally->rc = open_contenders(&contenders, &tally->error);
    while (simba__bench_tell(self->out, tally, sizeof *tally) &&
           tally->rc == SIMBA_OK &&
           simba__bench_hear(self->in, &slice, sizeof slice, NULL) ==
               SIMBA_OK) {
        run_slice(&contenders, &slice);
    }
    close_contenders(&contenders);
}

/* --- the floor ----------------------------------------------------------- */

struct floors {
    struct simba__floor *all[FLOORS_MOST];
    struct simba__bench_side sides[FLOORS_MOST];
    struct simba__crew crew;
    int64_t *ns;
    size_t count, active;
};

static int open_floors(struct floors *f,
                       const struct simba__bench_job *job,
                       simba_error *error)
{
    size_t wanted = job->contenders * job->processes;
    int rc = SIMBA_OK;

    wanted = wanted < FLOORS_MOST ? wanted : FLOORS_MOST;
    while (f->count < wanted && rc == SIMBA_OK) {
        char mutex[128];

        (void)snprintf(mutex, sizeof mutex, "%s#%zu", job->mutex, f->count);
        rc = simba__floor_open(job->url, mutex, &f->all[f->count], error);
        if (rc == SIMBA_OK && f->all[f->count] == NULL) {
            return SIMBA_OK; /* a store without a floor */
        }
        if (rc == SIMBA_OK) {
            f->sides[f->count] =
                (struct simba__bench_side){exchange_once, f->all[f->count]};
            f->count++;
        }
    }
    f->ns = calloc(ROOM, sizeof *f->ns);
    if (rc == SIMBA_OK && f->ns == NULL) {
        rc = simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    f->crew = (struct simba__crew){
        .sides = f->sides, .count = f->count, .ns = f->ns, .room = ROOM};
    return rc == SIMBA_OK ? simba__crew_start(&f->crew, error) : rc;
}

static void close_floors(struct floors *f)
{
    simba__crew_stop(&f->crew);
    for (size_t i = 0; i < f->count; i++) {
        simba__floor_close(f->all[i]);
    }
    free(f->ns);
}

/* --- rounds -------------------------------------------------------------- */

struct uncontended {
    const struct simba__bench_job *job;
    struct simba__bench_child children[PROCESSES_MOST];
    struct floors floors;
    struct simba__crew_slice slice;
    struct simba__crew_tally sums[2]; /* ours, the floor's */
    double ratios[ROUNDS];
    size_t rounds;
};

static double rate(const struct simba__crew_tally *tally)
{
    return tally->elapsed_ns == 0
               ? 0
               : (double)tally->count * 1e9 / (double)tally->elapsed_ns;
}

static int hear_all(struct uncontended *c,
                    struct simba__crew_tally *sum,
                    simba_error *error)
{
    int rc = SIMBA_OK;

    *sum = (struct simba__crew_tally){.rc = SIMBA_OK};
    for (size_t i = 0; i < c->job->processes && rc == SIMBA_OK; i++) {
        struct simba__crew_tally one;

        rc = simba__bench_hear(c->children[i].in, &one, sizeof one, error);
        if (rc == SIMBA_OK && one.rc != SIMBA_OK) {
            rc = one.rc;
            *error = one.error;
        }
        sum->count += one.count;
        if (one.elapsed_ns > sum->elapsed_ns) {
            sum->elapsed_ns = one.elapsed_ns;
        }
    }
    return rc;
}

/* `most` exchanges, shared out among the processes. */
static int run_ours(struct uncontended *c,
                    size_t most,
                    struct simba__crew_tally *tally,
                    simba_error *error)
{
    size_t processes = c->job->processes;

    for (size_t i = 0; i < processes; i++) {
        struct simba__crew_slice slice = c->slice;

        slice.most = most / processes + (i < most % processes ? 1 : 0);
        (void)simba__bench_tell(c->children[i].out, &slice, sizeof slice);
    }
    return hear_all(c, tally, error);
}

static void run_floor(struct uncontended *c,
                      size_t most,
                      struct simba__crew_tally *tally)
{
    struct simba__crew_slice slice = c->slice;

    slice.active = c->floors.active;
    slice.most = most;
    simba__crew_run(&c->floors.crew, &slice, tally);
}

static void add(struct simba__crew_tally *sum,
                const struct simba__crew_tally *tally)
{
    sum->count += tally->count;
    sum->elapsed_ns += tally->elapsed_ns;
}

/* How many bare connections are the fastest, in turns; many may be in each
 * other's way so much that it fails. */
static int choose_floor(struct uncontended *c, simba_error *error)
{
    struct simba__crew_tally sums[2] = {{.rc = SIMBA_OK}, {.rc = SIMBA_OK}};

    for (int i = 0; i < 2 * CHOICES && sums[0].rc == SIMBA_OK; i++) {
        struct simba__crew_tally tally;
        struct simba__crew_tally *sum = &sums[i % 2];

        c->floors.active = i % 2 == 0 ? 1 : c->floors.count;
        run_floor(c, WARM_UP, &tally);
        add(sum, &tally);
        if (tally.rc != SIMBA_OK) {
            sum->rc = tally.rc;
            *error = tally.error;
        }
    }
    if (sums[1].rc != SIMBA_OK || rate(&sums[1]) < rate(&sums[0])) {
        c->floors.active = 1;
    }
    return sums[0].rc;
}

static int warm_up(struct uncontended *c, simba_error *error)
{
    struct simba__crew_tally tally;
    int rc = run_ours(c, c->job->contenders * c->job->processes, &tally, error);

    if (rc == SIMBA_OK && c->floors.count > 0) {
        rc = choose_floor(c, error);
    }
    memset(c->job->room, 0, ROOM * sizeof(int64_t));
    if (c->floors.ns != NULL) {
        memset(c->floors.ns, 0, ROOM * sizeof(int64_t));
    }
    return rc;
}

static int run_round(struct uncontended *c, size_t most, simba_error *error)
{
    struct simba__crew_tally tallies[2] = {{.rc = SIMBA_OK}, {.rc = SIMBA_OK}};
    int rc = SIMBA_OK;

    for (size_t turn = 0; turn < 2 && rc == SIMBA_OK; turn++) {
        if ((turn ^ (c->rounds % 2)) == 0) {
            rc = run_ours(c, most, &tallies[0], error);
        } else if (c->floors.count > 0) {
            run_floor(c, most, &tallies[1]);
            rc = tallies[1].rc;
            *error = rc == SIMBA_OK ? *error : tallies[1].error;
        }
    }
    add(&c->sums[0], &tallies[0]);
    add(&c->sums[1], &tallies[1]);
    if (c->floors.count > 0 && tallies[0].count > 0) {
        c->ratios[c->rounds] = rate(&tallies[1]) / rate(&tallies[0]);
    }
    c->rounds++;
    return simba__interrupt() == 0 ? rc : simba__bench_cancel(error);
}

static int run_rounds(struct uncontended *c, simba_error *error)
{
    const struct simba__bench_plan *plan = &c->job->plan;
    size_t fitting = simba__bench_round_count(plan);
    size_t rounds = fitting < ROUNDS ? fitting : ROUNDS;
    int rc;

    c->slice.length_ns = WARM_UP_MS * INT64_C(1000000);
    rc = warm_up(c, error);
    c->slice.length_ns = plan->length_ms * 1000000 / (int64_t)rounds / 2;
    while (rc == SIMBA_OK && c->rounds < rounds) {
        size_t most =
            plan->most / rounds + (c->rounds < plan->most % rounds ? 1 : 0);

        rc = run_round(c, plan->most == 0 ? SIZE_MAX / 2 : most, error);
        plan->progress(plan->user, (int)(c->rounds * 100 / rounds));
    }
    return rc;
}

static void sum_up(struct uncontended *c, struct simba__bench_result *result)
{
    *result = (struct simba__bench_result){
        .count = c->sums[0].count,
        .seconds = (double)c->sums[0].elapsed_ns / 1e9,
        .per_second = rate(&c->sums[0]),
        .contenders = c->job->contenders,
        .processes = c->job->processes,
        .rounds = c->rounds,
    };
    simba__bench_put_times(result, c->job->room,
                           simba__crew_gather(c->job->room, ROOM));
    if (c->floors.count > 0) {
        size_t count = simba__crew_gather(c->floors.ns, ROOM);

        simba__bench_sort(c->floors.ns, count);
        simba__bench_put_spread(&result->spreads[1], c->floors.ns, count);
        result->floor_p50 = simba__bench_percentile(c->floors.ns, count, 500);
        result->floor_per_second = rate(&c->sums[1]);
        simba__bench_put_ratios(result, c->ratios, c->rounds);
    }
}

/* --- the whole ----------------------------------------------------------- */

static int start_children(struct uncontended *c, simba_error *error)
{
    int rc = SIMBA_OK;

    for (size_t i = 0; i < c->job->processes && rc == SIMBA_OK; i++) {
        struct simba__bench_job job = *c->job;

        job.index = i;
        job.room += i * (ROOM / job.processes);
        rc = simba__bench_child_start(&c->children[i], live, &job, error);
    }
    return rc == SIMBA_OK ? hear_all(c, &c->sums[0], error) : rc;
}

static int measure(const struct simba__bench_job *job,
                   struct simba__bench_result *result,
                   simba_error *error)
{
    struct uncontended *c = calloc(1, sizeof *c);
    int rc;

    if (c == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    c->job = job;
    rc = start_children(c, error);
    if (rc == SIMBA_OK) {
        rc = open_floors(&c->floors, job, error);
    }
    if (rc == SIMBA_OK) {
        rc = run_rounds(c, error);
    }
    if (rc == SIMBA_OK) {
        sum_up(c, result);
    }
    atomic_store(job->is_over, 1);
    /* The last first: it has the pipes of those before it as well. */
    for (size_t i = job->processes; i-- > 0;) {
        simba__bench_child_end(&c->children[i]);
    }
    close_floors(&c->floors);
    free(c);
    return rc;
}

int simba__bench_throughput(const struct simba__bench_job *job,
                            struct simba__bench_result *result,
                            simba_error *error)
{
    struct simba__bench_job own = *job;
    struct common *common;
    int rc;

    if (own.processes > PROCESSES_MOST) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "at most %d processes",
                               PROCESSES_MOST);
    }
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    own.room = common->ns;
    own.is_over = &common->is_over;
    rc = measure(&own, result, error);
    (void)munmap(common, sizeof *common);
    return rc;
}
