/* scheduler: periodic work runs where the mutex is owned, and nowhere else. */
#include "child.h"
#include "contender.h"
#include "topics.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PERIOD_MS = 20, TOLD_MOST_MS = 10000 };

enum { CREW_MOST = 4 };

struct worker;

/* What the schedulers of one test share. */
struct shop {
    pthread_mutex_t door; /* who comes or goes, one at a time */
    pthread_cond_t came;
    int entries; /* behind the door */
    struct worker *crew[CREW_MOST];
    int count;
    uint64_t newest; /* token; behind the door */
    int64_t beat_ms; /* the last; behind the door */
    const char *_Atomic offence;
};

/* A scheduler, its work, and what the work saw. */
struct worker {
    struct tck *t;
    struct shop *shop;
    simba_scheduler_options options; /* to be changed before it is opened */
    simba_scheduler *scheduler;
    bool until_told;      /* a run lasts until it must end */
    _Atomic bool is_deaf; /* or longer */
    _Atomic int begun, ended, told;
    _Atomic int tenures; /* in which it worked */
    _Atomic int rc;      /* of a run */
    _Atomic uint64_t token;
    const simba_run *run; /* while inside; behind the door */
};

/* --- the work ------------------------------------------------------------ */

static void object(struct worker *w, const char *offence)
{
    atomic_store(&w->shop->offence, offence);
}

/* A thread may be kept from running for a lease, before it comes here or while
 * it is inside; then its run knows that it is over (S3), and only this one
 * counts. */
static bool is_crowded(const struct shop *shop)
{
    int at_work = 0;

    for (int i = 0; i < shop->count; i++) {
        const simba_run *run = shop->crew[i]->run;

        at_work += run != NULL && !simba_run_is_stopped(run);
    }
    return at_work > 1;
}

/* The beats of one leader grow. Those of two are on one grid if the store tells
 * the time; else each leader counts from its own grant, and two grants may fall
 * into one millisecond. */
static bool is_new_beat(const struct worker *w, const simba_run *run)
{
    const struct shop *shop = w->shop;
    bool is_on_one_grid = w->t->tells_time || run->token == shop->newest;

    return run->beat_ms > shop->beat_ms ||
           (!is_on_one_grid && run->beat_ms == shop->beat_ms);
}

/* Behind the door. */
static void check_run(struct worker *w, const simba_run *run)
{
    struct shop *shop = w->shop;
    bool is_old = run->token < shop->newest;

    if (is_crowded(shop)) {
        object(w, "work of two schedulers ran at once");
    }
    if (run->token == 0 || (is_old && !simba_run_is_stopped(run))) {
        object(w, "work ran with an old token");
    }
    if (is_old) {
        return; /* nor is its beat one of the present */
    }
    if (w->options.schedule == SIMBA_FIXED_RATE && !is_new_beat(w, run)) {
        object(w, "a beat was run twice");
    }
    shop->newest = run->token;
    shop->beat_ms = run->beat_ms;
}

static void enter(struct worker *w, const simba_run *run)
{
    pthread_mutex_lock(&w->shop->door);
    w->run = run;
    check_run(w, run);
    if (atomic_exchange(&w->token, run->token) != run->token) {
        atomic_fetch_add(&w->tenures, 1);
    }
    atomic_fetch_add(&w->begun, 1);
    w->shop->entries++;
    pthread_cond_broadcast(&w->shop->came);
    pthread_mutex_unlock(&w->shop->door);
}

static void leave(struct worker *w)
{
    pthread_mutex_lock(&w->shop->door);
    w->run = NULL;
    pthread_mutex_unlock(&w->shop->door);
}

static void stay(struct worker *w, const simba_run *run)
{
    struct pollfd stop = {.fd = run->stop_fd, .events = POLLIN};
    int64_t until = simba_loop_now_ms() + TOLD_MOST_MS;

    if (w->until_told && poll(&stop, 1, TOLD_MOST_MS) > 0 &&
        simba_run_is_stopped(run)) {
        atomic_fetch_add(&w->told, 1);
    }
    while (atomic_load(&w->is_deaf) && simba_loop_now_ms() < until) {
        tck_sleep_until(simba_loop_now_ms() + 1);
    }
}

static int work(void *user, const simba_run *run, simba_error *error)
{
    struct worker *w = user;

    (void)error;
    enter(w, run);
    stay(w, run);
    leave(w);
    atomic_fetch_add(&w->ended, 1);
    return atomic_load(&w->rc);
}

/* --- schedulers ---------------------------------------------------------- */

static struct worker *make_worker(struct tck *t, struct shop *shop)
{
    struct worker *w = tck_alloc(t, sizeof *w);
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;

    tck_need_all(t);
    options.mutex = t->mutex;
    options.schedule = SIMBA_FIXED_DELAY;
    options.period_ms = PERIOD_MS;
    options.times.ttl_ms = t->long_lease.ttl_ms;
    options.times.transition_ms = t->long_lease.transition_ms;
    options.work = work;
    options.user = w;
    w->t = t;
    w->shop = shop;
    w->options = options;
    shop->crew[shop->count++] = w;
    return w;
}

static struct shop *make_shop(struct tck *t)
{
    struct shop *shop = tck_alloc(t, sizeof *shop);

    pthread_mutex_init(&shop->door, NULL);
    pthread_cond_init(&shop->came, NULL);
    return shop;
}

/* Known by the address of its handle, as the worker's own is taken. */
static void close_scheduler(void *what)
{
    simba_scheduler **handle = what;
    struct worker *w =
        (struct worker *)((char *)handle - offsetof(struct worker, scheduler));

    atomic_store(&w->is_deaf, false);
    simba_scheduler_close(w->scheduler);
    w->scheduler = NULL;
}

static void start(struct worker *w, simba_store *store)
{
    simba_error error = {0};

    if (simba_scheduler_open(store, &w->options, &w->scheduler, &error) !=
        SIMBA_OK) {
        tck_fail(w->t, TCK_HERE, "cannot open a scheduler: %s", error.message);
    }
    tck_later(w->t, close_scheduler, &w->scheduler);
    EXPECT_STATUS(w->t, simba_scheduler_start(w->scheduler, NULL), SIMBA_OK);
}

/* On a faulty store the last release may stay unanswered. */
static void stop(struct worker *w)
{
    int rc = simba_scheduler_stop(w->scheduler, NULL);

    if (rc != SIMBA_OK && !(w->t->is_faulty && rc == SIMBA_EUNKNOWN)) {
        tck_expect_status(w->t, TCK_HERE, rc, SIMBA_OK);
    }
    EXPECT_NUMBER(w->t, atomic_load(&w->ended), atomic_load(&w->begun));
}

static void expect_orderly(struct tck *t, const struct shop *shop)
{
    const char *offence = atomic_load(&shop->offence);

    if (offence != NULL) {
        tck_fail(t, TCK_HERE, "%s", offence);
    }
}

/* --- the contract -------------------------------------------------------- */

static void works_where_it_leads(struct tck *t)
{
    struct shop *shop = make_shop(t);
    struct worker *a = make_worker(t, shop), *b = make_worker(t, shop);

    start(a, tck_store(t));
    AWAIT(t, atomic_load(&a->ended) >= 3);
    start(b, tck_store(t));
    AWAIT(t, simba_scheduler_status(b->scheduler) == SIMBA_RUNNING);
    EXPECT_NUMBER(t, atomic_load(&a->token),
                  simba_scheduler_token(a->scheduler));
    EXPECT_NUMBER(t, atomic_load(&b->begun), 0);
    stop(a);
    AWAIT(t, atomic_load(&b->ended) >= 3);
    EXPECT(t, atomic_load(&b->token) > atomic_load(&a->token));
    expect_orderly(t, shop);
}

/* Has it worked in the tenure that it has now? */
static bool is_at_work(struct worker *w)
{
    uint64_t token = simba_scheduler_token(w->scheduler);

    return token != 0 && token == atomic_load(&w->token);
}

/* Until somebody has come to work since, but a moment at most. */
static void await_entry(struct shop *shop, int *seen)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    pthread_mutex_lock(&shop->door);
    while (shop->entries == *seen &&
           pthread_cond_timedwait(&shop->came, &shop->door, &until) == 0) {
    }
    *seen = shop->entries;
    pthread_mutex_unlock(&shop->door);
}

/* Whoever leads steps back at once, until both have worked in so many tenures.
 */
static void pass_around(struct worker **w, int times)
{
    struct tck *t = w[0]->t;
    int64_t until = tck_patience(t) + tck_lease_ms(&t->long_lease);
    int seen = 0;

    while (atomic_load(&w[0]->tenures) < times ||
           atomic_load(&w[1]->tenures) < times) {
        for (int i = 0; i < 2; i++) {
            if (is_at_work(w[i])) {
                stop(w[i]);
                EXPECT_STATUS(t, simba_scheduler_start(w[i]->scheduler, NULL),
                              SIMBA_OK);
            }
        }
        tck_check_wanted(t);
        if (simba_loop_now_ms() > until) {
            tck_fail(t, TCK_HERE, "waited in vain for both schedulers to work");
        }
        await_entry(w[0]->shop, &seen);
    }
}

static void start_two(struct worker **w, struct tck *t)
{
    for (int i = 0; i < 2; i++) {
        start(w[i], tck_store(t));
        AWAIT(t, simba_scheduler_status(w[i]->scheduler) == SIMBA_RUNNING);
    }
}

static void work_never_overlaps(struct tck *t)
{
    struct shop *shop = make_shop(t);
    struct worker *w[2] = {make_worker(t, shop), make_worker(t, shop)};

    w[0]->options.period_ms = w[1]->options.period_ms = 0;
    start_two(w, t);
    pass_around(w, 3);
    expect_orderly(t, shop);
}

static void keeps_the_beat(struct tck *t)
{
    struct shop *shop = make_shop(t);
    struct worker *w[2] = {make_worker(t, shop), make_worker(t, shop)};

    for (int i = 0; i < 2; i++) {
        w[i]->options.schedule = SIMBA_FIXED_RATE;
    }
    start_two(w, t);
    pass_around(w, 3);
    expect_orderly(t, shop);
}

static void running_work_is_told(struct tck *t)
{
    struct shop *shop = make_shop(t);
    struct worker *a = make_worker(t, shop);

    a->until_told = true;
    start(a, tck_store(t));
    AWAIT(t, atomic_load(&a->begun) == 1);
    stop(a);
    EXPECT_NUMBER(t, atomic_load(&a->told), 1);
    EXPECT_STATUS(t, simba_scheduler_start(a->scheduler, NULL), SIMBA_OK);
    AWAIT(t, atomic_load(&a->begun) == 2);
    EXPECT_NUMBER(t, atomic_load(&a->ended), 1); /* and not told at once */
    expect_orderly(t, shop);
}

static void stop_aside(void *what)
{
    struct worker *w = what;

    if (simba_scheduler_stop(w->scheduler, NULL) != SIMBA_OK) {
        object(w, "the stop failed");
    }
}

/* The store still has the old leader while its work has not ended. */
static void next_waits_for_the_work(struct tck *t)
{
    struct shop *shop = make_shop(t);
    struct worker *a = make_worker(t, shop), *b = make_worker(t, shop);
    struct tck_aside *stopping;
    int64_t until;

    a->options.times.budget_ms = 2000;
    atomic_store(&a->is_deaf, true);
    start(a, tck_store(t));
    AWAIT(t, atomic_load(&a->begun) == 1);
    start(b, tck_store(t));
    AWAIT(t, simba_scheduler_status(b->scheduler) == SIMBA_RUNNING);
    stopping = tck_aside(t, stop_aside, a);
    AWAIT(t, !simba_scheduler_is_owner(a->scheduler));
    for (until = simba_loop_now_ms() + 50; simba_loop_now_ms() < until;) {
        EXPECT_NUMBER(t, atomic_load(&b->begun), 0);
        tck_sleep_until(simba_loop_now_ms() + 5);
    }
    atomic_store(&a->is_deaf, false);
    tck_aside_join(t, stopping);
    AWAIT(t, atomic_load(&b->begun) >= 1);
    expect_orderly(t, shop);
}

static void errors_keep_the_schedule(struct tck *t)
{
    struct shop *shop = make_shop(t);
    struct worker *a = make_worker(t, shop);
    simba_scheduler_counts counts = SIMBA_SCHEDULER_COUNTS_INIT;

    atomic_store(&a->rc, SIMBA_EUNAVAIL);
    start(a, tck_store(t));
    AWAIT(t, atomic_load(&a->ended) >= 3);
    stop(a);
    EXPECT_STATUS(t, simba_scheduler_count(a->scheduler, &counts), SIMBA_OK);
    EXPECT_NUMBER(t, counts.failures, counts.runs);
    EXPECT_NUMBER(t, counts.runs, atomic_load(&a->begun));
    expect_orderly(t, shop);
}

static void live_as_leader(struct tck *t, struct tck_child *self)
{
    struct worker *w = make_worker(t, make_shop(t));

    w->options.times.ttl_ms = t->short_lease.ttl_ms;
    w->options.times.transition_ms = t->short_lease.transition_ms;
    start(w, tck_store(t));
    AWAIT(t, atomic_load(&w->begun) >= 1);
    atomic_store(&self->numbers[0], atomic_load(&w->token));
    atomic_store(&self->step, 1);
    tck_child_obey(t, self, 1); /* which never comes */
}

static void follows_a_killed_leader(struct tck *t)
{
    struct tck_child *child = tck_child(t, live_as_leader);
    struct shop *shop = make_shop(t);
    struct worker *a = make_worker(t, shop);

    tck_child_await(t, child, 1);
    start(a, tck_store(t));
    AWAIT(t, simba_scheduler_status(a->scheduler) == SIMBA_RUNNING);
    tck_child_signal(t, child, SIGKILL);
    AWAIT_UNTIL(t, atomic_load(&a->begun) >= 1,
                tck_patience(t) + tck_lease_ms(&t->short_lease));
    EXPECT(t, atomic_load(&a->token) > atomic_load(&child->numbers[0]));
    expect_orderly(t, shop);
}

static const struct tck_case cases[] = {
    {"scheduler.works_where_it_leads",
     "The work runs on the owner alone, and is given its token.",
     works_where_it_leads, TCK_QUICK},
    {"scheduler.work_never_overlaps",
     "Over changes of leader no two runs overlap, and tokens only grow.",
     work_never_overlaps, TCK_SAFETY},
    {"scheduler.keeps_the_beat",
     "At a fixed rate no beat is run twice, whoever leads.", keeps_the_beat,
     TCK_SAFETY},
    {"scheduler.running_work_is_told",
     "Work that runs when the scheduler stops is told by flag and descriptor.",
     running_work_is_told, 0},
    {"scheduler.next_waits_for_the_work",
     "The next leader does not work before our work has ended (S6).",
     next_waits_for_the_work, 0},
    {"scheduler.errors_keep_the_schedule",
     "Work that fails is run again at its time.", errors_keep_the_schedule, 0},
    {"scheduler.follows_a_killed_leader",
     "When the leader's process is killed, another leads and works.",
     follows_a_killed_leader, TCK_PROCESSES | TCK_LAPSES},
};

const struct tck_topic tck_topic_scheduler = TCK_TOPIC(cases);
