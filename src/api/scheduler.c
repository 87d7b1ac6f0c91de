/* Schedulers: the contention says when we lead, the schedule machine when the
 * work is due, and a thread of our own does it. The thread is made for the
 * first run of a tenure and ends with the tenure, so that who does not lead has
 * none. */
#define _GNU_SOURCE
#include <simba/scheduler.h>

#include "api/contender.h"
#include "core/schedule.h"
#include "util/container.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* When the system gave no thread for the work, try again after this. */
enum { STARVED_MS = 1000 };

struct simba_scheduler {
    struct simba__lifecycle lifecycle; /* first: hooks get this */
    simba_work_fn work;
    void *user;
    struct simba__schedule_config config;

    _Atomic bool is_told; /* S6: the run must end; cleared by a new tenure */

    /* Inside the loop only. */
    struct simba__schedule machine;
    simba_timer timer;
    bool is_leading;     /* between acquired and released */
    bool is_release_due; /* on_released is back when the work is done */
    bool has_run;        /* the thread shall begin `run` */
    simba_run run;
    int64_t granted_ms; /* store's time of the grant; INT64_MIN: not told */
    simba_scheduler_counts counts;

    /* The thread, from the first run of a tenure to its end. */
    pthread_t thread;
    pthread_cond_t changed; /* what it is to do did */
    bool has_thread;
    bool is_thread_over; /* it has ended, and is to be joined */
    pthread_t ended;

    int stop_fd;                         /* for the life of the handle */
    struct simba__contend_tenure tenure; /* the machine's */
    struct simba__fork_entry fork_entry;
};

static _Thread_local const simba_scheduler *working;

static void feed(simba_scheduler *s, struct simba__schedule_event event);

/* --- the thread ---------------------------------------------------------- */

/* Joins the thread that has ended, if any. Not inside the loop: what the user
 * hung on the end of the thread may want to enter it. */
static void join_ended(simba_scheduler *s)
{
    pthread_t ended;
    bool is_over;

    assert(!simba__loop_is_inside(s->lifecycle.base.store->loop));
    simba_loop_enter(s->lifecycle.base.store->loop);
    is_over = s->is_thread_over;
    ended = s->ended;
    s->is_thread_over = false;
    simba_loop_leave(s->lifecycle.base.store->loop);
    if (is_over) {
        pthread_join(ended, NULL);
    }
}

/* Inside the loop; leaves it while the work runs. */
static void do_run(simba_scheduler *s)
{
    struct simba__contention *contention = &s->lifecycle.base.contention;
    simba_error error = {0};
    simba_run run;
    int rc;

    assert(working == NULL && s->is_leading);
    s->has_run = false;
    s->run.number++;
    s->run.stop_fd = s->stop_fd;
    s->run.scheduler = s;
    run = s->run;
    s->run.skipped = 0;
    s->counts.runs++;
    simba__contention_ask_progress(contention, true);
    simba_loop_leave(s->lifecycle.base.store->loop);
    working = s;
    rc = s->work(s->user, &run, &error);
    working = NULL;
    if (rc != SIMBA_OK) {
        simba__contender_log(&s->lifecycle.base,
                             (struct simba__log_entry){.level = SIMBA_LOG_WARN,
                                                       .token = run.token,
                                                       .status = rc},
                             "run %" PRIu64 " failed: %s (%d)", run.number,
                             simba__error_text(rc, &error), rc);
    }
    simba_loop_enter(s->lifecycle.base.store->loop);
    simba__contention_ask_progress(contention, false);
    s->counts.failures += rc == SIMBA_OK ? 0 : 1;
    feed(s, (struct simba__schedule_event){.type = SIMBA__SCHEDULE_DONE});
    if (s->is_release_due) {
        s->is_release_due = false;
        simba__contention_returned(contention);
    }
}

/* At rest when neither the machine nor a thread is left. Inside the loop. */
static void settle(simba_scheduler *s)
{
    if (!s->lifecycle.is_contending && !s->has_thread) {
        simba__lifecycle_rest(&s->lifecycle);
    }
}

static void *run_thread(void *argument)
{
    simba_scheduler *s = argument;

    simba__thread_name("simba-schedule");
    join_ended(s);
    simba_loop_enter(s->lifecycle.base.store->loop);
    while (s->is_leading) {
        /* S3: the timer that began this run may have been seen before the loss.
         * A process that slept hears of it next, and then the thread ends. */
        if (s->has_run && simba__contention_token(
                              &s->lifecycle.base.contention) == s->run.token) {
            do_run(s);
        } else {
            simba__loop_wait(s->lifecycle.base.store->loop, &s->changed, NULL);
        }
    }
    assert(s->has_thread && !s->is_thread_over);
    s->has_thread = false;
    s->is_thread_over = true;
    s->ended = s->thread;
    settle(s);
    simba_loop_leave(s->lifecycle.base.store->loop);
    return NULL;
}

/* Makes a thread for the run that is due, or wakes the one that waits. False:
 * the system gives none now. Inside the loop. */
static bool wake_thread(simba_scheduler *s)
{
    assert(s->has_run);
    if (s->has_thread) {
        pthread_cond_broadcast(&s->changed);
        return true;
    }
    s->has_thread = simba__thread_start(&s->thread, run_thread, s);
    return s->has_thread;
}

bool simba_run_is_stopped(const simba_run *run)
{
    const simba_scheduler *s = run->scheduler;

    return atomic_load(&s->is_told) ||
           simba__contention_token(&s->lifecycle.base.contention) != run->token;
}

void simba_run_progress(const simba_run *run)
{
    simba__contention_progress(&run->scheduler->lifecycle.base.contention);
}

/* --- the schedule, inside the loop --------------------------------------- */

static void set_timer(simba_scheduler *s)
{
    bool is_starved = s->has_run && !s->has_thread;

    simba_timer_set(s->lifecycle.base.store->loop, &s->timer,
                    is_starved ? simba_loop_now_ms() + STARVED_MS
                               : simba__schedule_wake_at(&s->machine));
}

/* Feeds the machine and does what it says. */
static void feed(simba_scheduler *s, struct simba__schedule_event event)
{
    struct simba__schedule_update update;

    assert(simba__loop_is_inside(s->lifecycle.base.store->loop));
    event.now_ms = simba_loop_now_ms();
    simba__schedule_step(&s->machine, &event, &update);
    s->counts.skipped += update.skipped;
    s->run.skipped += update.skipped;
    /* A beat of the very millisecond of the grant, or before, may have been run
     * by the leader before us: offsets are taken low, so that nobody is
     * early. */
    if ((update.flags & SIMBA__SCHEDULE_RUN) &&
        s->config.kind == SIMBA__SCHEDULE_FIXED_RATE &&
        update.beat_ms <= s->granted_ms) {
        event = (struct simba__schedule_event){.type = SIMBA__SCHEDULE_DONE,
                                               .now_ms = event.now_ms};
        simba__schedule_step(&s->machine, &event, &update);
    }
    if (update.flags & SIMBA__SCHEDULE_RUN) {
        s->has_run = true;
        s->run.token = update.token;
        s->run.beat_ms = update.beat_ms;
        if (!wake_thread(s)) {
            simba__contender_log(
                &s->lifecycle.base,
                (struct simba__log_entry){.level = SIMBA_LOG_ERROR},
                "the system gives no thread for the work; it is tried again");
        }
    }
    set_timer(s);
}

static void on_timer(simba_timer *timer)
{
    simba_scheduler *s = container_of(timer, simba_scheduler, timer);

    if (s->has_run && !s->has_thread) {
        wake_thread(s);
        set_timer(s);
        return;
    }
    feed(s, (struct simba__schedule_event){.type = SIMBA__SCHEDULE_TIMER});
}

/* --- what the contention tells, inside the loop -------------------------- */

/* The store's time less ours: what it is at least, and a millisecond for the
 * rounding of both. A beat is then late by a round trip, but never early. */
static int64_t offset_ms(const simba_scheduler *s)
{
    return s->lifecycle.base.contention.core.clock_low_ms - 1;
}

static void told(struct simba__contention *c,
                 const struct simba__contend_update *update)
{
    simba_scheduler *s = (simba_scheduler *)c;
    struct simba__log_entry entry = {.level = SIMBA_LOG_INFO,
                                     .token = update->token};
    eventfd_t none;

    if (update->tell & SIMBA__TELL_ACQUIRED) {
        simba__contender_log(&s->lifecycle.base, entry, "leads, token %" PRIu64,
                             update->token);
    } else if (update->tell & SIMBA__TELL_RELEASED) {
        entry.cause = simba_cause_name(
            simba__contender_cause(&s->lifecycle.base, update));
        simba__contender_log(&s->lifecycle.base, entry,
                             "leads no more, token %" PRIu64 ": %s",
                             update->token, entry.cause);
    }
    if (update->tell & SIMBA__TELL_RELEASED) {
        assert(s->is_leading && !s->is_release_due);
        s->is_leading = false;
        feed(s,
             (struct simba__schedule_event){.type = SIMBA__SCHEDULE_RELEASED});
        if (s->has_run) { /* due, but not begun */
            s->has_run = false;
            feed(s,
                 (struct simba__schedule_event){.type = SIMBA__SCHEDULE_DONE});
        }
        atomic_store(&s->is_told, true);
        eventfd_write(s->stop_fd, 1);
        pthread_cond_broadcast(&s->changed);
        /* S6: the release is back when no work runs, at once or by its DONE. */
        s->is_release_due = simba__schedule_is_working(&s->machine);
        if (!s->is_release_due) {
            simba__contention_returned(c);
        }
    }
    if (update->tell & SIMBA__TELL_ACQUIRED) {
        assert(!s->is_leading && !s->is_release_due && update->token != 0);
        s->is_leading = true;
        s->counts.tenures++;
        s->granted_ms = c->core.is_clock_known
                            ? c->core.now_ms + c->core.clock_low_ms
                            : INT64_MIN;
        (void)eventfd_read(s->stop_fd, &none);
        atomic_store(&s->is_told, false);
        feed(s,
             (struct simba__schedule_event){
                 .type = SIMBA__SCHEDULE_ACQUIRED,
                 .token = update->token,
                 .aligned = c->core.is_clock_known,
                 .store_offset_ms = c->core.is_clock_known ? offset_ms(s) : 0});
    }
    if (update->tell & SIMBA__TELL_OVERRUN) {
        s->counts.overruns++;
        simba__contender_log(&s->lifecycle.base,
                             (struct simba__log_entry){.level = SIMBA_LOG_WARN,
                                                       .token = s->run.token},
                             "run %" PRIu64 " was told to end and has overrun "
                             "its budget: the next leader may begin",
                             s->run.number);
    }
    simba__contender_warn_clock(&s->lifecycle.base, update);
    if (update->tell & SIMBA__TELL_STOPPED) {
        simba__lifecycle_end(&s->lifecycle, update);
        settle(s);
    }
}

static void answered(struct simba__contention *c,
                     const simba_request *request,
                     int status,
                     const simba_error *error)
{
    simba_scheduler *s = (simba_scheduler *)c;

    (void)request;
    simba__contender_log_answer(&s->lifecycle.base, true, status, error);
    if (status == SIMBA_OK && s->is_leading && c->core.is_clock_known) {
        feed(s,
             (struct simba__schedule_event){.type = SIMBA__SCHEDULE_OFFSET,
                                            .store_offset_ms = offset_ms(s)});
    }
}

/* --- life ---------------------------------------------------------------- */

static void close_in_child(void *self)
{
    close(((simba_scheduler *)self)->stop_fd);
}

static void free_scheduler(simba_scheduler *s)
{
    simba__fork_hold_off();
    simba__fork_remove(&s->fork_entry);
    close(s->stop_fd);
    simba__fork_let_go();
    pthread_cond_destroy(&s->changed);
    free(s);
}

static int check_schedule(const simba_scheduler_options *options,
                          struct simba__schedule_config *config,
                          simba_error *error)
{
    enum simba__schedule_problem problem;

    if (options->work == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "a scheduler needs work to do");
    }
    *config = (struct simba__schedule_config){
        .kind = (enum simba__schedule_kind)options->schedule,
        .period_ms = options->period_ms,
        .initial_delay_ms = options->initial_delay_ms};
    problem = simba__schedule_config_check(config);
    if (problem != SIMBA__SCHEDULE_FINE) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "%s: period %" PRId64 " ms, initial delay "
                               "%" PRId64 " ms",
                               simba__schedule_problem_texts[problem],
                               config->period_ms, config->initial_delay_ms);
    }
    return SIMBA_OK;
}

int simba_scheduler_open(simba_store *store,
                         const simba_scheduler_options *given,
                         simba_scheduler **out,
                         simba_error *error)
{
    static const struct simba__contender_kind kind = {
        {.told = told, .answered = answered, .id_at = sizeof(simba_scheduler)},
        "scheduler",
        "work"};
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    struct simba__schedule_config config;
    struct simba__contender *base;
    simba_scheduler *s;
    const struct simba__given take = {given, "SIMBA_SCHEDULER_OPTIONS_INIT",
                                      &options, sizeof options, 0};
    int rc = simba__given_take(store, &take, error);

    *out = NULL;
    if (rc == SIMBA_OK) {
        rc = check_schedule(&options, &config, error);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    rc = simba__contender_make(&kind, options.id, &base, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    s = (simba_scheduler *)base;
    s->fork_entry.forked = close_in_child;
    s->fork_entry.self = s;
    simba__fork_hold_off();
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->stop_fd >= 0) {
        simba__fork_add(&s->fork_entry);
    }
    simba__fork_let_go();
    if (s->stop_fd < 0) {
        rc = simba_error_set(error, SIMBA_EINTERNAL, errno,
                             "the system gives no descriptor: %s",
                             strerror(errno));
        free(s);
        return rc;
    }
    s->work = options.work;
    s->user = options.user;
    s->config = config;
    s->timer.fire = on_timer;
    simba__schedule_init(&s->machine, &s->config);
    pthread_cond_init(&s->changed, NULL);
    contender.mutex = options.mutex;
    contender.times = options.times;
    rc = simba__contender_open(base, store, &contender, error);
    if (rc != SIMBA_OK) {
        free_scheduler(s);
        return rc;
    }
    simba_loop_enter(store->loop);
    simba__contention_ask_progress(&s->lifecycle.base.contention,
                                   false); /* no work */
    base->contention.core.tenure = &s->tenure;
    simba_loop_leave(store->loop);
    *out = s;
    return SIMBA_OK;
}

int simba_scheduler_start(simba_scheduler *s, simba_error *error)
{
    return simba__lifecycle_start(&s->lifecycle, error);
}

int simba_scheduler_stop(simba_scheduler *s, simba_error *error)
{
    int rc = simba__lifecycle_stop(&s->lifecycle, NULL, working == s, error);

    if (rc == SIMBA_OK || rc == SIMBA_EUNKNOWN) {
        join_ended(s);
    }
    return rc;
}

void simba_scheduler_close(simba_scheduler *s)
{
    int rc;

    if (s == NULL) {
        return;
    }
    if (!simba__contender_may_close(&s->lifecycle.base, working == s)) {
        free(s);
        return;
    }
    rc = simba_scheduler_stop(s, NULL);
    simba_loop_enter(s->lifecycle.base.store->loop);
    simba_timer_clear(s->lifecycle.base.store->loop, &s->timer);
    simba_loop_leave(s->lifecycle.base.store->loop);
    simba__contender_close(&s->lifecycle.base, rc);
    free_scheduler(s);
}

/* --- questions ----------------------------------------------------------- */

bool simba_scheduler_is_owner(const simba_scheduler *s)
{
    return simba__contention_is_owner(&s->lifecycle.base.contention);
}

uint64_t simba_scheduler_token(const simba_scheduler *s)
{
    return simba__contention_token(&s->lifecycle.base.contention);
}

enum simba_service_status simba_scheduler_status(const simba_scheduler *s)
{
    return simba__lifecycle_status(&s->lifecycle);
}

int simba_scheduler_count(simba_scheduler *s, simba_scheduler_counts *counts)
{
    uint32_t size = counts->size;
    int rc = simba__store_check(s->lifecycle.base.store, NULL);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (size < sizeof size) {
        return SIMBA_EINVAL;
    }
    simba_loop_enter(s->lifecycle.base.store->loop);
    memcpy(counts, &s->counts, size < sizeof *counts ? size : sizeof *counts);
    simba_loop_leave(s->lifecycle.base.store->loop);
    counts->size = size;
    return SIMBA_OK;
}
