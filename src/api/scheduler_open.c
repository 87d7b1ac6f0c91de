/* Making, starting, stopping and closing schedulers, and asking them. */
#define _GNU_SOURCE
#include "api/enlist.h"
#include "api/given.h"
#include "api/scheduler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- making -------------------------------------------------------------- */

static void free_scheduler(simba_scheduler *s)
{
    simba__scheduler_close_fd(s);
    simba__course_fini(&s->course);
    free(s);
}

static struct simba__schedule_config config_of(
    const simba_scheduler_options *options)
{
    return (struct simba__schedule_config){
        .kind = (enum simba__schedule_kind)options->schedule,
        .period_ms = options->period_ms,
        .initial_delay_ms = options->initial_delay_ms};
}

static int make_scheduler(simba_store *store,
                          const simba_scheduler_options *options,
                          simba_scheduler **out,
                          simba_error *error)
{
    simba_scheduler *s = calloc(1, sizeof *s);
    int rc;

    if (s == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    rc = simba__scheduler_open_fd(s, error);
    if (rc != SIMBA_OK) {
        free(s);
        return rc;
    }
    s->store = store;
    s->work = options->work;
    s->user = options->user;
    s->config = config_of(options);
    s->progress_ms = options->times.progress_ms;
    simba__scheduler_init(s);
    simba__course_init(&s->course, &s->base);
    *out = s;
    return SIMBA_OK;
}

static int check_schedule(const simba_scheduler_options *options,
                          simba_error *error)
{
    struct simba__schedule_config config = config_of(options);
    enum simba__schedule_problem problem;

    if (options->work == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "a scheduler needs work to do");
    }
    problem = simba__schedule_config_check(&config);
    if (problem != SIMBA__SCHEDULE_FINE) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "%s: period %" PRId64 " ms, initial delay "
                               "%" PRId64 " ms",
                               simba__schedule_problem_text(problem),
                               config.period_ms, config.initial_delay_ms);
    }
    return SIMBA_OK;
}

static int open_checked(simba_store *store,
                        const simba_scheduler_options *options,
                        simba_scheduler **out,
                        simba_error *error)
{
    simba_contender contender = SIMBA__CONTENDER_OF(options);
    simba_scheduler *s = NULL;
    int rc = check_schedule(options, error);

    if (rc == SIMBA_OK) {
        rc = make_scheduler(store, options, &s, error);
    }
    if (s == NULL) {
        return rc;
    }
    rc = simba__enlist(store, &s->base, &contender, error);
    if (rc != SIMBA_OK) {
        free_scheduler(s);
        return rc;
    }
    simba_loop_enter(store->loop);
    simba__contention_ask_progress(&s->base, 0); /* no work runs */
    simba_loop_leave(store->loop);
    *out = s;
    return SIMBA_OK;
}

int simba_scheduler_open(simba_store *store,
                         const simba_scheduler_options *given,
                         simba_scheduler **out,
                         simba_error *error)
{
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    int rc = simba__store_check(store, error);

    *out = NULL;
    if (rc == SIMBA_OK) {
        rc = simba__given_take(
            &(struct simba__given){given, "SIMBA_SCHEDULER_OPTIONS_INIT"},
            &options, sizeof options, error);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    return open_checked(store, &options, out, error);
}

/* --- starting and stopping ----------------------------------------------- */

int simba_scheduler_start(simba_scheduler *s, simba_error *error)
{
    int rc = simba__store_check(s->store, error);

    return rc == SIMBA_OK
               ? simba__course_start(&s->course, "the scheduler", error)
               : rc;
}

int simba_scheduler_stop(simba_scheduler *s, simba_error *error)
{
    int rc = simba__store_check(s->store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (simba__scheduler_is_mine(s)) {
        return simba_error_set(error, SIMBA_EMISUSE, 0,
                               "%s: stop was called from its own work",
                               s->base.mutex);
    }
    simba__pool_block(&s->store->pool);
    rc = simba__course_stop(&s->course, error);
    simba__pool_unblock(&s->store->pool);
    simba__scheduler_bury(s);
    return rc;
}

void simba_scheduler_close(simba_scheduler *s)
{
    if (s == NULL) {
        return;
    }
    if (simba__is_forked(s->store->mark)) {
        free(s->base.mutex);
        free(s);
        return;
    }
    if (simba__scheduler_is_mine(s)) {
        fputs("simba: a scheduler was closed by its own work\n", stderr);
        abort();
    }
    if (simba_scheduler_stop(s, NULL) == SIMBA_EUNKNOWN) {
        struct simba__log_entry entry =
            simba__about(&s->base, SIMBA_LOG_WARN, "scheduler");

        simba__store_tell(s->store, &entry,
                          "closed, but the store did not answer");
    }
    simba_loop_enter(s->store->loop);
    simba_timer_clear(s->store->loop, &s->timer);
    simba_loop_leave(s->store->loop);
    simba__delist(s->store, &s->base);
    free_scheduler(s);
}

/* --- questions ----------------------------------------------------------- */

bool simba_scheduler_is_owner(const simba_scheduler *s)
{
    return simba__contention_is_owner(&s->base);
}

uint64_t simba_scheduler_token(const simba_scheduler *s)
{
    return simba__contention_token(&s->base);
}

enum simba_service_status simba_scheduler_status(const simba_scheduler *s)
{
    return simba__course_status(&s->course);
}

int simba_scheduler_count(simba_scheduler *s, simba_scheduler_counts *counts)
{
    uint32_t size = counts->size;
    int rc = simba__store_check(s->store, NULL);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (size < sizeof size) {
        return SIMBA_EINVAL;
    }
    simba_loop_enter(s->store->loop);
    memcpy(counts, &s->counts, size < sizeof *counts ? size : sizeof *counts);
    simba_loop_leave(s->store->loop);
    counts->size = size;
    return SIMBA_OK;
}
