/* The thread that the work of a scheduler runs on.
 *
 * It is made for the first run of a tenure and ends with the tenure, so that
 * who does not lead has none. */
#define _GNU_SOURCE
#include "api/scheduler.h"

#include "api/enlist.h"
#include "runtime/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static _Thread_local const simba_scheduler *working;

bool simba__scheduler_is_mine(const simba_scheduler *s)
{
    return working == s;
}

/* --- the descriptor ------------------------------------------------------ */

static void close_in_child(void *self)
{
    simba_scheduler *s = self;

    close(s->stop_fd);
}

int simba__scheduler_open_fd(simba_scheduler *s, simba_error *error)
{
    simba__fork_hold_off();
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->stop_fd >= 0) {
        s->fork_entry.forked = close_in_child;
        s->fork_entry.self = s;
        simba__fork_add(&s->fork_entry);
    }
    simba__fork_let_go();
    return s->stop_fd >= 0
               ? SIMBA_OK
               : simba_error_set(error, SIMBA_EINTERNAL, errno,
                                 "the system gives no descriptor: %s",
                                 strerror(errno));
}

void simba__scheduler_close_fd(simba_scheduler *s)
{
    simba__fork_hold_off();
    simba__fork_remove(&s->fork_entry);
    close(s->stop_fd);
    simba__fork_let_go();
}

void simba__scheduler_tell(simba_scheduler *s)
{
    atomic_store(&s->is_told, true);
    eventfd_write(s->stop_fd, 1);
    pthread_cond_broadcast(&s->course.changed);
}

void simba__scheduler_untell(simba_scheduler *s)
{
    eventfd_t none;

    (void)eventfd_read(s->stop_fd, &none);
    atomic_store(&s->is_told, false);
}

/* --- one run ------------------------------------------------------------- */

static void log_failure(simba_scheduler *s,
                        const simba_run *run,
                        int rc,
                        const simba_error *error)
{
    struct simba__log_entry entry =
        simba__about(&s->base, SIMBA_LOG_WARN, "scheduler");

    entry.token = run->token;
    entry.status = rc;
    simba__store_tell(
        s->store, &entry, "run %" PRIu64 " failed: %s (%d)", run->number,
        error->message[0] != '\0' ? error->message : simba_strerror(rc), rc);
}

/* Outside the loop. True when the work did not fail. */
static bool carry_out(simba_scheduler *s, const simba_run *run)
{
    simba_error error = {0};
    int rc;

    working = s;
    rc = s->work(s->user, run, &error);
    working = NULL;
    if (rc != SIMBA_OK) {
        log_failure(s, run, rc, &error);
    }
    return rc == SIMBA_OK;
}

/* S3: the timer that began this run may have been seen before the loss. A
 * process that slept hears of it next, and then the thread ends. */
static bool is_still_ours(const simba_scheduler *s)
{
    return simba__contention_token(&s->base) == s->run.token;
}

/* Inside the loop; leaves it while the work runs. */
static void do_run(simba_scheduler *s)
{
    simba_run run;
    bool is_fine;

    s->has_run = false;
    s->run.number++;
    s->run.stop_fd = s->stop_fd;
    s->run.scheduler = s;
    run = s->run;
    s->run.skipped = 0;
    s->counts.runs++;
    simba__contention_ask_progress(&s->base, s->progress_ms);
    simba_loop_leave(s->store->loop);
    is_fine = carry_out(s, &run);
    simba_loop_enter(s->store->loop);
    simba__contention_ask_progress(&s->base, 0);
    s->counts.failures += is_fine ? 0 : 1;
    simba__scheduler_feed(
        s, (struct simba__schedule_event){.type = SIMBA__SCHEDULE_DONE});
    if (s->is_release_due) {
        s->is_release_due = false;
        simba__contention_returned(&s->base);
    }
}

/* --- the thread ---------------------------------------------------------- */

static void *run_thread(void *argument)
{
    simba_scheduler *s = argument;

    simba__thread_name("simba-schedule");
    simba__scheduler_bury(s);
    simba_loop_enter(s->store->loop);
    while (s->is_leading) {
        if (s->has_run && is_still_ours(s)) {
            do_run(s);
        } else {
            simba__loop_wait(s->store->loop, &s->course.changed, NULL);
        }
    }
    s->has_thread = false;
    s->is_thread_over = true;
    s->ended = s->thread;
    simba__scheduler_settle(s);
    simba_loop_leave(s->store->loop);
    return NULL;
}

bool simba__scheduler_wake(simba_scheduler *s)
{
    if (s->has_thread) {
        pthread_cond_broadcast(&s->course.changed);
        return true;
    }
    s->has_thread = simba__thread_start(&s->thread, run_thread, s);
    return s->has_thread;
}

/* Not inside the loop: what the user hung on the end of the thread may want to
 * enter it. */
void simba__scheduler_bury(simba_scheduler *s)
{
    pthread_t ended;
    bool is_over;

    simba_loop_enter(s->store->loop);
    is_over = s->is_thread_over;
    ended = s->ended;
    s->is_thread_over = false;
    simba_loop_leave(s->store->loop);
    if (is_over) {
        pthread_join(ended, NULL);
    }
}

bool simba_run_is_stopped(const simba_run *run)
{
    const simba_scheduler *s = run->scheduler;

    return atomic_load(&s->is_told) ||
           simba__contention_token(&s->base) != run->token;
}

void simba_run_progress(const simba_run *run)
{
    simba__contention_progress(&run->scheduler->base);
}
