/* The guardian's thread that talks to the store. */
#define _GNU_SOURCE
#include "holder.h"
#include "clock.h"
#include "command.h"
#include "link.h"
#include "say.h"
#include "times.h"

#include <simba/admin.h>
#include <simba/contender.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long a failure waits for the store to be closed. */
enum { SETTLE_MS = 200 };

/* Between two tries to open a store that is not there. */
enum { REOPEN_LEAST_MS = 500, REOPEN_MOST_MS = 30000 };

static void report(struct simba__holder *holder, int state)
{
    atomic_store(&holder->state, state);
    (void)pthread_kill(holder->guardian, SIGUSR1);
}

/* Called by the library on a thread of its own. It tells the store that the
 * mutex is free only when this has returned (S6), so it waits for the end of
 * all that used it. */
static void on_lost(void *user, const simba_error *why)
{
    struct simba__holder *holder = user;

    holder->why = *why;
    atomic_store(&holder->is_lost, true);
    (void)pthread_kill(holder->guardian, SIGUSR1);
    (void)pthread_mutex_lock(&holder->lock);
    while (!holder->is_all_gone) {
        (void)pthread_cond_wait(&holder->told, &holder->lock);
    }
    (void)pthread_mutex_unlock(&holder->lock);
}

/* Who tries once and fails says why: a warning would say it twice. */
static bool is_told_anyway(const struct simba__holder *holder,
                           enum simba_log_level level)
{
    const struct simba__job *job = holder->job;

    return level == SIMBA_LOG_WARN && job->wait_ms == 0 &&
           job->cli.verbosity == 0 && !job->cli.is_json &&
           atomic_load(&holder->state) != SIMBA__HOLDER_HELD;
}

static void on_log(void *user,
                   enum simba_log_level level,
                   const char *component,
                   const char *message)
{
    struct simba__holder *holder = user;
    struct simba__note note = {.kind = SIMBA__NOTE_LOG,
                               .number = (int)level,
                               .boot_ms = simba__clock_ms()};
    char who[SIMBA__SAY_WHO];

    if (is_told_anyway(holder, level)) {
        return;
    }
    (void)simba__say_who(component, message, who);
    note.seen = (int)strlen(who);
    (void)snprintf(note.text, sizeof(note.text), "%s%s", who, message);
    simba__link_send(holder->link, &note, -1);
}

static int open_store(struct simba__holder *holder)
{
    struct simba__command_log subscriber = {on_log, holder};

    return simba__command_open(&holder->job->cli, &subscriber, &holder->store,
                               &holder->error);
}

static void choose_id(const struct simba__job *job)
{
    if (job->id == NULL) {
        simba_id_host(job->share->id);
    } else {
        (void)snprintf(job->share->id, sizeof(job->share->id), "%s", job->id);
    }
}

/* What the guardian reckons with. */
static void take_lease(struct simba__holder *holder)
{
    const struct simba__job *job = holder->job;
    int64_t ttl_ms, transition_ms;

    simba_store_lease(holder->store, &ttl_ms, &transition_ms);
    holder->lease_ms =
        (job->ttl_ms > 0 ? job->ttl_ms : ttl_ms) +
        (job->transition_ms >= 0 ? job->transition_ms : transition_ms);
}

static int open_locker(struct simba__holder *holder)
{
    const struct simba__job *job = holder->job;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    int rc;

    choose_id(job);
    options.mutex = job->mutex;
    options.id = job->id == NULL ? job->share->id : job->id;
    options.times.ttl_ms = job->ttl_ms;
    options.times.transition_ms = job->transition_ms;
    options.times.max_hold_ms = job->max_hold_ms;
    options.times.min_hold_ms = job->min_hold_ms;
    if (job->kill_after_ms >= 0) {
        options.times.budget_ms = job->kill_after_ms + SIMBA__KILL_MS;
    }
    options.on_lost = on_lost;
    options.user = holder;
    take_lease(holder);
    rc = simba__times_fit(job, holder->store, &holder->error);
    if (rc == SIMBA_OK) {
        rc =
            simba_locker_open(holder->store, &options, &locker, &holder->error);
    }
    atomic_store(&holder->locker, locker);
    return rc;
}

static void complain(void *user, const simba_error *error)
{
    on_log(user, SIMBA_LOG_WARN, "metrics", error->message);
}

/* A lock leaves its figures at its end; who leads is there for long. */
static void start_gauge(struct simba__holder *holder)
{
    struct simba__gauge *gauge = &holder->gauge;

    gauge->store = holder->store;
    gauge->path = holder->job->metrics_file;
    gauge->complain = complain;
    gauge->user = holder;
    if (gauge->path != NULL && holder->job->kind != SIMBA__JOB_LOCK) {
        gauge->mutex = holder->job->mutex;
        simba__gauge_start(gauge);
    }
}

/* Only when the store knows of the end: a disk that hangs must not keep the
 * mutex from others. */
static void end_gauge(struct simba__holder *holder)
{
    simba__gauge_stop(&holder->gauge);
    if (holder->gauge.path != NULL) {
        simba__gauge_save(&holder->gauge);
    }
}

static int64_t time_left(const struct simba__holder *holder)
{
    int64_t left_ms;

    if (holder->job->wait_ms < 0) {
        return -1;
    }
    left_ms = holder->wait_until_ms - simba__clock_ms();
    return left_ms > 0 ? left_ms : 0;
}

/* One read, by which nothing is kept waiting: whoever does not hear of it is
 * told no name. */
static void look_for_owner(void *user)
{
    struct simba__holder *holder = user;
    simba_report *report = NULL;

    holder->owner = simba_owner_none();
    if (simba_admin_show(holder->store, holder->job->mutex, &report, NULL) ==
        SIMBA_OK) {
        holder->owner = *simba_report_owner(report);
        simba_report_close(report);
    }
}

static void tell_waiting(void *user)
{
    const struct simba__holder *holder = user;
    struct simba__note note = {.kind = SIMBA__NOTE_WAITING,
                               .boot_ms = simba__clock_ms()};

    (void)snprintf(note.text, sizeof(note.text), "%s", holder->owner.id);
    simba__link_send(holder->link, &note, -1);
}

/* Not in the logs of those who did not ask for it. */
static void start_patience(struct simba__holder *holder)
{
    const struct simba__cli *cli = &holder->job->cli;
    const struct simba__patience_plan plan = {look_for_owner, tell_waiting,
                                              holder};

    simba__patience_end(&holder->patience); /* of an earlier tenure */
    if (holder->job->wait_ms != 0 &&
        (cli->is_json || cli->verbosity > 0 ||
         (cli->verbosity == 0 && isatty(STDERR_FILENO) == 1))) {
        simba__patience_start(&holder->patience, &plan);
    }
}

static enum simba__holder_order next_order(struct simba__holder *holder)
{
    enum simba__holder_order order;

    (void)pthread_mutex_lock(&holder->lock);
    while (holder->order == SIMBA__HOLDER_WAIT) {
        (void)pthread_cond_wait(&holder->told, &holder->lock);
    }
    order = holder->order;
    holder->order = SIMBA__HOLDER_WAIT;
    (void)pthread_mutex_unlock(&holder->lock);
    return order;
}

/* A cancelled wait may be taken up again: the user stopped us for a while, and
 * a process that is stopped must not get a mutex that others wait for. */
static int acquire_or_leave(struct simba__holder *holder)
{
    simba_locker *locker = atomic_load(&holder->locker);
    uint64_t *token = &holder->job->share->token;
    int rc;

    for (;;) {
        rc = simba_locker_acquire(locker, time_left(holder), token,
                                  &holder->error);
        if (rc != SIMBA_ECANCELED) {
            return rc;
        }
        report(holder, SIMBA__HOLDER_PAUSED);
        if (next_order(holder) == SIMBA__HOLDER_RELEASE) {
            return rc;
        }
    }
}

static int acquire(struct simba__holder *holder)
{
    int rc;

    start_patience(holder);
    rc = acquire_or_leave(holder);
    simba__patience_over(&holder->patience);
    return rc;
}

/* No callback of an earlier tenure runs any more. */
static void begin_anew(struct simba__holder *holder)
{
    holder->wait_until_ms = simba__clock_ms() + holder->job->wait_ms;
    atomic_store(&holder->is_lost, false);
    (void)pthread_mutex_lock(&holder->lock);
    holder->is_all_gone = false;
    (void)pthread_mutex_unlock(&holder->lock);
}

/* Tenure after tenure, as ordered; to where it turns out that there is none. */
static int hold_all(struct simba__holder *holder)
{
    enum simba__holder_order order;
    int rc;

    for (;;) {
        rc = acquire(holder);
        if (rc != SIMBA_OK) {
            return rc;
        }
        report(holder, SIMBA__HOLDER_HELD);
        order = next_order(holder);
        holder->error.code = SIMBA_OK;
        (void)simba_locker_release(atomic_load(&holder->locker),
                                   &holder->error);
        if (order == SIMBA__HOLDER_RELEASE) {
            return SIMBA_OK;
        }
        report(holder, SIMBA__HOLDER_PAUSED);
        if (next_order(holder) == SIMBA__HOLDER_RELEASE) {
            return SIMBA_ECANCELED;
        }
        begin_anew(holder);
    }
}

static void pause_ms(int64_t ms)
{
    struct timespec length = {ms / 1000, (long)(ms % 1000) * 1000000};

    (void)nanosleep(&length, NULL);
}

/* Some stores are not opened before they are there. Who leads may be started
 * with the machine, before its store is; a lock says so at once. */
static int open_patiently(struct simba__holder *holder)
{
    int64_t length_ms = REOPEN_LEAST_MS;
    int64_t left_ms;
    int rc;

    for (;;) {
        rc = open_store(holder);
        left_ms = time_left(holder);
        if (rc != SIMBA_EUNAVAIL || left_ms == 0 ||
            holder->job->kind == SIMBA__JOB_LOCK) {
            return rc;
        }
        pause_ms(left_ms > 0 && left_ms < length_ms ? left_ms : length_ms);
        length_ms =
            length_ms < REOPEN_MOST_MS / 2 ? length_ms * 2 : REOPEN_MOST_MS;
    }
}

static int hold_from_start(struct simba__holder *holder)
{
    int rc = open_patiently(holder);

    if (rc == SIMBA_OK) {
        rc = open_locker(holder);
    }
    if (rc == SIMBA_OK) {
        start_gauge(holder);
        rc = hold_all(holder);
    }
    if (rc == SIMBA_ECANCELED) {
        holder->error.code = SIMBA_OK; /* as was asked for */
    }
    return rc;
}

/* Closed in the end though the process will be gone: a store that is left
 * open leaves marks behind that others have to clear away. */
static void close_store(struct simba__holder *holder)
{
    simba_locker_close(atomic_exchange(&holder->locker, NULL));
    simba__patience_end(&holder->patience);
    simba_store_close(holder->store);
    (void)pthread_mutex_lock(&holder->lock);
    holder->is_closed = true;
    (void)pthread_cond_broadcast(&holder->told);
    (void)pthread_mutex_unlock(&holder->lock);
}

/* A failure is told first: a store that does not answer would keep us waiting
 * for a lease. */
static void *hold(void *argument)
{
    struct simba__holder *holder = argument;
    int rc = hold_from_start(holder);

    end_gauge(holder);
    if (rc == SIMBA_OK || rc == SIMBA_ECANCELED) {
        close_store(holder);
        report(holder, SIMBA__HOLDER_RELEASED);
    } else {
        report(holder, SIMBA__HOLDER_FAILED);
        close_store(holder);
    }
    return NULL;
}

void simba__holder_settle(struct simba__holder *holder)
{
    struct timespec until;
    int rc = 0;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += SETTLE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    (void)pthread_mutex_lock(&holder->lock);
    while (!holder->is_closed && rc == 0) {
        rc = pthread_cond_timedwait(&holder->told, &holder->lock, &until);
    }
    (void)pthread_mutex_unlock(&holder->lock);
}

bool simba__holder_start(struct simba__holder *holder)
{
    pthread_t thread;
    int rc;

    holder->guardian = pthread_self();
    holder->wait_until_ms = simba__clock_ms() + holder->job->wait_ms;
    (void)pthread_mutex_init(&holder->lock, NULL);
    (void)pthread_cond_init(&holder->told, NULL);
    rc = pthread_create(&thread, NULL, hold, holder);
    if (rc != 0) {
        errno = rc;
        return false;
    }
    (void)pthread_detach(thread); /* it ends with the process */
    return true;
}

void simba__holder_cancel(struct simba__holder *holder)
{
    simba_locker *locker = atomic_load(&holder->locker);

    if (locker != NULL && atomic_load(&holder->state) == SIMBA__HOLDER_BUSY) {
        simba_locker_cancel(locker);
    }
}

void simba__holder_order(struct simba__holder *holder,
                         enum simba__holder_order order)
{
    atomic_store(&holder->state, SIMBA__HOLDER_BUSY);
    (void)pthread_mutex_lock(&holder->lock);
    holder->order = order;
    (void)pthread_cond_broadcast(&holder->told);
    (void)pthread_mutex_unlock(&holder->lock);
}

void simba__holder_all_gone(struct simba__holder *holder)
{
    (void)pthread_mutex_lock(&holder->lock);
    holder->is_all_gone = true;
    (void)pthread_cond_broadcast(&holder->told);
    (void)pthread_mutex_unlock(&holder->lock);
}

void simba__holder_publish(struct simba__holder *holder)
{
    struct simba__share *share = holder->job->share;
    int64_t use_until_ms = 0;
    int64_t hard_until_ms = 0;

    /* Only while the mutex is held, so the locker is there. */
    simba_locker_deadlines(atomic_load(&holder->locker), &use_until_ms,
                           &hard_until_ms);
    if (hard_until_ms != 0) {
        atomic_store(&share->use_until_ms, use_until_ms);
        atomic_store(&share->hard_until_ms, hard_until_ms);
    }
}

static int64_t wall_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void simba__holder_clock(const struct simba__holder *holder,
                         int64_t *offset_ms,
                         int64_t *granted_ms)
{
    if (!simba_locker_clock(atomic_load(&holder->locker), offset_ms,
                            granted_ms)) {
        *granted_ms = wall_ms();
        *offset_ms = *granted_ms - simba__clock_ms();
    }
}
