/* Schedulers that follow one another: no work overlaps, the beat is kept,
 * whoever stops, reaches its cap, is killed or is stopped over its lease. */
#include "scheduler_driver.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* One of those that are not closed, and leads; -1: none. */
static int find_leader(simba_scheduler *const *s, int many)
{
    for (int i = 0; i < many; i++) {
        if (s[i] != NULL && simba_scheduler_is_owner(s[i])) {
            return i;
        }
    }
    return -1;
}

TEST(test_scheduler_change__work_never_overlaps)
{
    enum { MANY = 3, ROUNDS = 12 };
    simba_store *stores[MANY];
    simba_scheduler *s[MANY];
    struct shared shared = {0};
    struct job jobs[MANY] = {{0}};
    char mutex[64];

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    for (int i = 0; i < MANY; i++) {
        simba_scheduler_options options = options_of(mutex, &jobs[i]);

        jobs[i].shared = &shared;
        jobs[i].lasts_ms = i; /* with and without a rest */
        options.period_ms = 0;
        stores[i] = open_store();
        s[i] = start_scheduler(stores[i], &options);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MANY; i++) { /* the leader is among them */
            assert_int_equal(simba_scheduler_stop(s[i], NULL), SIMBA_OK);
            assert_int_equal(simba_scheduler_start(s[i], NULL), SIMBA_OK);
        }
    }
    for (int i = 0; i < MANY; i++) {
        int leader, begun;

        await((leader = find_leader(s, MANY)) >= 0);
        begun = atomic_load(&jobs[leader].begun);
        await(atomic_load(&jobs[leader].begun) > begun);
        simba_scheduler_close(s[leader]); /* the next leads */
        s[leader] = NULL;
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(atomic_load(&jobs[i].begun),
                         atomic_load(&jobs[i].ended));
        simba_store_close(stores[i]);
    }
    assert_false(atomic_load(&shared.is_broken));
}

/* A beat, and by whom; both may only grow. */
static int work_on_beat(void *user, const simba_run *run, simba_error *error)
{
    struct job *job = user;

    if (run->beat_ms <= atomic_load(&job->shared->beat_ms) ||
        run->beat_ms % 20 != 0) {
        atomic_store(&job->shared->is_broken, true); /* twice, or off beat */
    }
    atomic_store(&job->shared->beat_ms, run->beat_ms);
    return work(user, run, error);
}

TEST(test_scheduler_change__keeps_the_beat)
{
    enum { CHANGES = 12 };
    simba_store *stores[2] = {open_store(), open_store()};
    simba_scheduler *s[2];
    struct shared shared = {0};
    struct job jobs[2] = {{.shared = &shared}, {.shared = &shared}};
    char mutex[64];

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    for (int i = 0; i < 2; i++) {
        simba_scheduler_options options = options_of(mutex, &jobs[i]);

        options.schedule = SIMBA_FIXED_RATE;
        options.period_ms = 20;
        options.work = work_on_beat;
        s[i] = start_scheduler(stores[i], &options);
        await(simba_scheduler_status(s[i]) == SIMBA_RUNNING);
    }
    for (int i = 0; i < CHANGES; i++) {
        struct job *leader = &jobs[i % 2];
        int begun = atomic_load(&leader->begun);

        await(atomic_load(&leader->begun) > begun + 1);
        assert_int_equal(simba_scheduler_stop(s[i % 2], NULL), SIMBA_OK);
        assert_int_equal(simba_scheduler_start(s[i % 2], NULL), SIMBA_OK);
    }
    for (int i = 0; i < 2; i++) {
        simba_scheduler_close(s[i]);
        simba_store_close(stores[i]);
    }
    assert_false(atomic_load(&shared.is_broken));
}

TEST(test_scheduler_change__leadership_is_capped)
{
    simba_store *store = open_store();
    simba_scheduler *s[2];
    struct shared shared = {0};
    struct job jobs[2] = {{.shared = &shared, .until_told = true},
                          {.shared = &shared, .until_told = true}};
    char mutex[64];

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    for (int i = 0; i < 2; i++) {
        simba_scheduler_options options = options_of(mutex, &jobs[i]);

        options.times.max_hold_ms = 60;
        s[i] = start_scheduler(store, &options);
    }
    for (int i = 0; i < 2; i++) { /* it goes to and fro by itself */
        await(atomic_load(&jobs[i].told) >= 3);
    }
    for (int i = 0; i < 2; i++) {
        simba_scheduler_close(s[i]);
        assert_int_equal(atomic_load(&jobs[i].begun),
                         atomic_load(&jobs[i].ended));
    }
    assert_false(atomic_load(&shared.is_broken));
    simba_store_close(store);
}

/* --- with another process ------------------------------------------------ */

/* What parent and child share. */
struct stage {
    struct shared shared;
    struct job job;             /* of the child */
    _Atomic int late_runs;      /* begun after the parent had taken over */
    _Atomic bool is_taken_over; /* the parent works */
    _Atomic bool was_unaware;   /* the child worked on after that */
};

static bool has_processes(void)
{
    return strncmp(store_url, "memory:", 7) != 0;
}

static struct stage *make_stage(void)
{
    struct stage *stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(stage != MAP_FAILED);
    stage->job.shared = &stage->shared;
    return stage;
}

/* Works in small steps until it is told; each step sees whether the next leader
 * works already. */
static int step_by_step(void *user, const simba_run *run, simba_error *error)
{
    struct stage *stage = user;

    (void)error;
    if (atomic_load(&stage->is_taken_over)) {
        atomic_fetch_add(&stage->late_runs, 1);
    }
    atomic_store(&stage->job.token, run->token);
    atomic_fetch_add(&stage->job.begun, 1);
    while (!simba_run_is_stopped(run)) {
        if (atomic_load(&stage->is_taken_over) && !simba_run_is_stopped(run)) {
            atomic_store(&stage->was_unaware, true);
        }
    }
    atomic_fetch_add(&stage->job.ended, 1);
    return SIMBA_OK;
}

static simba_scheduler_options short_lease(const char *mutex, void *user)
{
    simba_scheduler_options options = options_of(mutex, user);

    options.times.ttl_ms = 1000;
    options.times.transition_ms = 1000;
    return options;
}

/* Leads until the end of the process. */
static pid_t fork_leader(struct stage *stage, const char *mutex)
{
    simba_scheduler_options options = short_lease(mutex, stage);
    simba_store *store;
    simba_scheduler *s;
    pid_t child = fork();

    if (child != 0) {
        return child;
    }
    options.work = step_by_step;
    if (simba_store_open(store_url, NULL, &store, NULL) == SIMBA_OK &&
        simba_scheduler_open(store, &options, &s, NULL) == SIMBA_OK &&
        simba_scheduler_start(s, NULL) == SIMBA_OK) {
        for (;;) {
            pause();
        }
    }
    _exit(1);
}

static int take_over(void *user, const simba_run *run, simba_error *error)
{
    struct stage *stage = user;

    (void)error;
    if (run->token <= atomic_load(&stage->job.token)) {
        atomic_store(&stage->shared.is_broken, true);
    }
    atomic_store(&stage->is_taken_over, true);
    return SIMBA_OK;
}

static void reap(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* A leader in a child, and a scheduler here that stands by. */
struct succession {
    struct stage *stage;
    simba_store *store;
    simba_scheduler *scheduler;
    pid_t child;
};

static void begin_succession(struct succession *s)
{
    simba_scheduler_options options;
    char mutex[64];

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    s->stage = make_stage();
    s->child = fork_leader(s->stage, mutex);
    await(atomic_load(&s->stage->job.begun) == 1);
    s->store = open_store();
    options = short_lease(mutex, s->stage);
    options.work = take_over;
    s->scheduler = start_scheduler(s->store, &options);
    await(simba_scheduler_status(s->scheduler) == SIMBA_RUNNING);
}

static void end_succession(struct succession *s)
{
    assert_false(atomic_load(&s->stage->shared.is_broken));
    simba_scheduler_close(s->scheduler);
    simba_store_close(s->store);
    munmap(s->stage, sizeof *s->stage);
}

TEST(test_scheduler_change__follows_a_leader_that_was_killed)
{
    struct succession s;

    if (!has_processes()) {
        skip();
    }
    begin_succession(&s);
    assert_false(atomic_load(&s.stage->is_taken_over));
    reap(s.child);
    await(atomic_load(&s.stage->is_taken_over));
    end_succession(&s);
}

/* S3, S6: stopped over its lease, it knows the moment it runs again. */
TEST(test_scheduler_change__a_paused_leader_knows_when_it_wakes)
{
    struct succession s;

    if (!has_processes()) {
        skip();
    }
    begin_succession(&s);
    assert_int_equal(kill(s.child, SIGSTOP), 0);
    await(atomic_load(&s.stage->is_taken_over));
    assert_int_equal(kill(s.child, SIGCONT), 0);
    await(atomic_load(&s.stage->job.ended) == 1);
    assert_false(atomic_load(&s.stage->was_unaware));
    assert_int_equal(atomic_load(&s.stage->late_runs), 0);
    assert_true(simba_scheduler_is_owner(s.scheduler));
    reap(s.child);
    end_succession(&s);
}
