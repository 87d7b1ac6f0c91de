/* Schedulers inside the loop: the contention says when we lead, the schedule
 * machine when the work is due. The work itself is in scheduler_work.c. */
#define _GNU_SOURCE
#include "api/scheduler.h"

#include "api/enlist.h"

#include <inttypes.h>
#include <stddef.h>

/* When the system gave no thread for the work, try again after this. */
enum { STARVED_MS = 1000 };

static void log_trouble(const simba_scheduler *s,
                        enum simba_log_level level,
                        const char *what)
{
    struct simba__log_entry entry = simba__about(&s->base, level, "scheduler");

    simba__store_tell(s->store, &entry, "%s", what);
}

/* --- the schedule -------------------------------------------------------- */

static void set_timer(simba_scheduler *s)
{
    bool is_starved = s->has_run && !s->has_thread;

    simba_timer_set(s->store->loop, &s->timer,
                    is_starved ? simba_loop_now_ms() + STARVED_MS
                               : simba__schedule_wake_at(&s->machine));
}

/* A beat of the very millisecond of the grant, or before, may have been run by
 * the leader before us: offsets are taken low, so that nobody is early. */
static bool is_anothers(const simba_scheduler *s,
                        const struct simba__schedule_update *update)
{
    return s->config.kind == SIMBA__SCHEDULE_FIXED_RATE &&
           update->beat_ms <= s->granted_ms;
}

static void begin_run(simba_scheduler *s,
                      const struct simba__schedule_update *update)
{
    s->has_run = true;
    s->run.token = update->token;
    s->run.beat_ms = update->beat_ms;
    if (!simba__scheduler_wake(s)) {
        log_trouble(s, SIMBA_LOG_ERROR,
                    "the system gives no thread for the work; it is tried "
                    "again");
    }
}

void simba__scheduler_feed(simba_scheduler *s,
                           struct simba__schedule_event event)
{
    struct simba__schedule_update update;

    event.now_ms = simba_loop_now_ms();
    simba__schedule_step(&s->machine, &event, &update);
    s->counts.skipped += update.skipped;
    s->run.skipped += update.skipped;
    if ((update.flags & SIMBA__SCHEDULE_RUN) && is_anothers(s, &update)) {
        event = (struct simba__schedule_event){.type = SIMBA__SCHEDULE_DONE,
                                               .now_ms = event.now_ms};
        simba__schedule_step(&s->machine, &event, &update);
    }
    if (update.flags & SIMBA__SCHEDULE_RUN) {
        begin_run(s, &update);
    }
    set_timer(s);
}

static void on_timer(simba_timer *timer)
{
    simba_scheduler *s =
        (simba_scheduler *)((char *)timer - offsetof(simba_scheduler, timer));

    if (s->has_run && !s->has_thread) {
        simba__scheduler_wake(s);
        set_timer(s);
        return;
    }
    simba__scheduler_feed(
        s, (struct simba__schedule_event){.type = SIMBA__SCHEDULE_TIMER});
}

/* --- what the contention tells ------------------------------------------- */

/* The store's time less ours: what it is at least, and a millisecond for the
 * rounding of both. A beat is then late by a round trip, but never early. */
static int64_t offset_of(const simba_scheduler *s)
{
    return s->base.core.clock_low_ms - 1;
}

static void begin_tenure(simba_scheduler *s, uint64_t token)
{
    bool is_clock_known = s->base.core.is_clock_known;

    s->is_leading = true;
    s->counts.tenures++;
    s->granted_ms = INT64_MIN;
    if (is_clock_known) {
        s->granted_ms = s->base.core.now_ms + s->base.core.clock_low_ms;
    }
    simba__scheduler_untell(s);
    simba__scheduler_feed(
        s, (struct simba__schedule_event){
               .type = SIMBA__SCHEDULE_ACQUIRED,
               .token = token,
               .aligned = is_clock_known,
               .store_offset_ms = is_clock_known ? offset_of(s) : 0});
}

/* S6: the release is back when no work runs, at once or by its DONE. */
static void end_tenure(simba_scheduler *s)
{
    s->is_leading = false;
    simba__scheduler_feed(
        s, (struct simba__schedule_event){.type = SIMBA__SCHEDULE_RELEASED});
    if (s->has_run) { /* due, but not begun */
        s->has_run = false;
        simba__scheduler_feed(
            s, (struct simba__schedule_event){.type = SIMBA__SCHEDULE_DONE});
    }
    simba__scheduler_tell(s);
    if (simba__schedule_is_working(&s->machine)) {
        s->is_release_due = true;
    } else {
        simba__contention_returned(&s->base);
    }
}

void simba__scheduler_settle(simba_scheduler *s)
{
    if (!s->course.is_contending && !s->has_thread) {
        simba__course_rest(&s->course);
    }
}

static void log_tenure(const simba_scheduler *s,
                       const struct simba__update *update)
{
    struct simba__log_entry entry =
        simba__about(&s->base, SIMBA_LOG_INFO, "scheduler");

    entry.token = update->token;
    if (update->tell & SIMBA__TELL_ACQUIRED) {
        simba__store_tell(s->store, &entry, "leads, token %" PRIu64,
                          update->token);
    } else {
        entry.cause = simba__cause_name(update->cause);
        simba__store_tell(s->store, &entry,
                          "leads no more, token %" PRIu64 ": %s", update->token,
                          entry.cause);
    }
}

static void tell_overrun(simba_scheduler *s)
{
    struct simba__log_entry entry =
        simba__about(&s->base, SIMBA_LOG_WARN, "scheduler");

    s->counts.overruns++;
    entry.token = s->run.token;
    simba__store_tell(s->store, &entry,
                      "run %" PRIu64 " was told to end and has overrun its "
                      "budget: the next leader may begin",
                      s->run.number);
}

static void told(struct simba__contention *c,
                 const struct simba__update *update)
{
    simba_scheduler *s = (simba_scheduler *)c;

    if (update->tell & (SIMBA__TELL_RELEASED | SIMBA__TELL_ACQUIRED)) {
        log_tenure(s, update);
    }
    if (update->tell & SIMBA__TELL_RELEASED) {
        end_tenure(s);
    }
    if (update->tell & SIMBA__TELL_ACQUIRED) {
        begin_tenure(s, update->token);
    }
    if (update->tell & SIMBA__TELL_OVERRUN) {
        tell_overrun(s);
    }
    if (update->tell & SIMBA__TELL_CLOCK_JUMP) {
        log_trouble(s, SIMBA_LOG_WARN, "the store's clock made a step");
    }
    if (update->tell & SIMBA__TELL_STOPPED) {
        simba__course_end(&s->course, update);
        simba__scheduler_settle(s);
    }
}

static void answered(struct simba__contention *c,
                     const simba_request *request,
                     int status,
                     const simba_error *error)
{
    simba_scheduler *s = (simba_scheduler *)c;

    (void)request;
    if (status != SIMBA_OK) {
        struct simba__log_entry entry =
            simba__about(c, SIMBA_LOG_WARN, "scheduler");

        entry.status = status;
        simba__store_tell(s->store, &entry, "%s",
                          error != NULL && error->message[0] != '\0'
                              ? error->message
                              : simba_strerror(status));
    } else if (s->is_leading && c->core.is_clock_known) {
        simba__scheduler_feed(
            s, (struct simba__schedule_event){.type = SIMBA__SCHEDULE_OFFSET,
                                              .store_offset_ms = offset_of(s)});
    }
}

void simba__scheduler_init(simba_scheduler *s)
{
    static const struct simba__contention_hooks hooks = {.told = told,
                                                         .answered = answered};

    s->base.hooks = &hooks;
    s->timer.fire = on_timer;
    simba__schedule_init(&s->machine, &s->config);
}
