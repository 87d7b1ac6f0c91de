/* The guardian's thread that talks to the store. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "cli/guardian.h"

#include <simba/admin.h>
#include <simba/contender.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Between two tries to open a file that is not there, and to say so. */
enum { REOPEN_MS = 500, SAY_AGAIN_MS = 60000 };

/* To find a lease that is long enough. */
enum { ROUNDS = 16 };

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

    assert(!atomic_load(&holder->is_lost));
    holder->why = *why;
    atomic_store(&holder->is_lost, true);
    (void)pthread_kill(holder->guardian, SIGUSR1);
    (void)pthread_mutex_lock(&holder->lock);
    while (!holder->is_all_gone) {
        (void)pthread_cond_wait(&holder->told, &holder->lock);
    }
    (void)pthread_mutex_unlock(&holder->lock);
}

static void on_log(void *user,
                   enum simba_log_level level,
                   const char *component,
                   const char *message)
{
    struct simba__holder *holder = user;
    const struct simba__job *job = holder->job;
    struct simba__note note = {.kind = SIMBA__NOTE_LOG,
                               .number = (int)level,
                               .boot_ms = simba__clock_ms()};
    char who[SIMBA__SAY_WHO];

    /* Who tries once and fails says why: a warning would say it twice. */
    if (level == SIMBA_LOG_WARN && job->wait_ms == 0 &&
        job->cli.verbosity == 0 && !job->cli.is_json &&
        !atomic_load(&holder->was_held)) {
        return;
    }
    (void)simba__say_who(component, message, who);
    note.seen = (int)strlen(who);
    (void)snprintf(note.text, sizeof note.text, "%s%s", who, message);
    simba__link_send(holder->link, &note, -1);
}

/* A length of time as it can be written again. */
static const char *write_down(int64_t ms, char text[SIMBA__FORMAT_ROOM])
{
    (void)snprintf(text, SIMBA__FORMAT_ROOM, "%.16gs", (double)ms / 1000);
    return text;
}

/* Does --kill-after fit into the lease? Told in the words of the options; the
 * library checks it too, but calls it otherwise. */
static int check_kill_after(struct simba__holder *holder,
                            int64_t ttl_ms,
                            int64_t transition_ms)
{
    int64_t kill_ms = holder->job->kill_after_ms, longer_ms = transition_ms;
    int64_t most_ms =
        simba_times_budget_most_ms(ttl_ms, transition_ms) - SIMBA__KILL_MS;
    int64_t lacking_ms = 1;
    char given[SIMBA__FORMAT_ROOM], whole[SIMBA__FORMAT_ROOM];
    char most[SIMBA__FORMAT_ROOM], longer[SIMBA__FORMAT_ROOM];

    if (kill_ms < 0 || kill_ms <= most_ms) {
        return SIMBA_OK;
    }
    /* How long the transition would have to be for the budget to fit: it costs
     * nothing while all is well. Each round leaves a fiftieth of what was
     * lacking. */
    for (int i = 0; i < ROUNDS && lacking_ms > 0; i++) {
        lacking_ms = kill_ms + SIMBA__KILL_MS -
                     simba_times_budget_most_ms(ttl_ms, longer_ms);
        longer_ms += lacking_ms > 0 ? lacking_ms : 0;
    }
    return simba_error_set(
        &holder->error, SIMBA_EINVAL, 0,
        "--kill-after %s does not fit into a lease of %s: write %s%s%s%s",
        write_down(kill_ms, given), write_down(ttl_ms + transition_ms, whole),
        most_ms < 0 ? "none" : "at most ",
        most_ms < 0 ? "" : write_down(most_ms, most),
        lacking_ms > 0 ? "" : " or give a longer lease, as by --transition ",
        lacking_ms > 0 ? ""
                       : write_down((longer_ms + 999) / 1000 * 1000, longer));
}

static int open_locker(struct simba__holder *holder)
{
    const struct simba__job *job = holder->job;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    int64_t ttl_ms, transition_ms;
    int rc;

    if (job->id == NULL) {
        simba_id_host(job->share->id);
    } else {
        (void)snprintf(job->share->id, sizeof job->share->id, "%s", job->id);
    }
    options.mutex = job->mutex;
    options.id = job->id == NULL ? job->share->id : job->id;
    options.times.ttl_ms = job->ttl_ms;
    options.times.transition_ms = job->transition_ms;
    options.times.max_hold_ms = job->max_hold_ms;
    options.times.min_hold_ms = job->min_hold_ms;
    options.slots = job->slots;
    options.tell = job->tell;
    options.command = job->command;
    if (job->kill_after_ms >= 0) {
        options.times.budget_ms = job->kill_after_ms + SIMBA__KILL_MS;
    }
    options.on_lost = on_lost;
    options.user = holder;
    simba_store_lease(holder->store, &ttl_ms, &transition_ms);
    ttl_ms = job->ttl_ms > 0 ? job->ttl_ms : ttl_ms;
    transition_ms =
        job->transition_ms >= 0 ? job->transition_ms : transition_ms;
    holder->lease_ms =
        ttl_ms + transition_ms; /* the guardian reckons with it */
    rc = check_kill_after(holder, ttl_ms, transition_ms);
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

    (void)snprintf(note.text, sizeof note.text, "%s", holder->owner.id);
    simba__link_send(holder->link, &note, -1);
}

/* The store is asked first: if nobody waits, CMD need not end. */
static void hand_over(struct simba__holder *holder)
{
    simba_hand_over wish = SIMBA_HAND_OVER_INIT;
    simba_error error = {0};

    wish.mutex = holder->job->mutex;
    wish.token = holder->job->share->token;
    if (simba_admin_hand_over(holder->store, &wish, NULL, &error) != SIMBA_OK ||
        simba_locker_hand_over(atomic_load(&holder->locker), NULL, &error) !=
            SIMBA_OK) {
        on_log(holder, SIMBA_LOG_WARN, "hand-over", error.message);
    }
}

static enum simba__holder_order next_order(struct simba__holder *holder)
{
    enum simba__holder_order order;

    (void)pthread_mutex_lock(&holder->lock);
    while (holder->order == SIMBA__HOLDER_WAIT) {
        if (holder->is_handing_over) {
            holder->is_handing_over = false;
            (void)pthread_mutex_unlock(&holder->lock);
            hand_over(holder);
            (void)pthread_mutex_lock(&holder->lock);
        } else {
            (void)pthread_cond_wait(&holder->told, &holder->lock);
        }
    }
    holder->is_handing_over = false;
    order = holder->order;
    holder->order = SIMBA__HOLDER_WAIT;
    (void)pthread_mutex_unlock(&holder->lock);
    return order;
}

/* A cancelled wait may be taken up again: the user stopped us for a while, and
 * a process that is stopped must not get a mutex that others wait for. */
static int acquire(struct simba__holder *holder)
{
    const struct simba__cli *cli = &holder->job->cli;
    struct simba__wait_notice *notice = &holder->notice;
    int64_t asked_ms = simba__clock_ms();
    int rc;

    assert(atomic_load(&holder->locker) != NULL);
    simba__wait_notice_end(notice); /* of an earlier tenure */
    /* Not in the logs of those who did not ask for it. */
    if (holder->job->wait_ms != 0 &&
        (cli->is_json || cli->verbosity > 0 ||
         (cli->verbosity == 0 && isatty(STDERR_FILENO) == 1))) {
        notice->look = look_for_owner;
        notice->say = tell_waiting;
        notice->user = holder;
        simba__wait_notice_start(notice);
    }
    while ((rc = simba_locker_acquire(atomic_load(&holder->locker),
                                      time_left(holder),
                                      &holder->job->share->token,
                                      &holder->error)) == SIMBA_ECANCELED) {
        report(holder, SIMBA__HOLDER_PAUSED);
        if (next_order(holder) == SIMBA__HOLDER_RELEASE) {
            break;
        }
    }
    atomic_store(&holder->metrics.runs.waited_ms, simba__clock_ms() - asked_ms);
    holder->job->share->slot = simba_locker_slot(atomic_load(&holder->locker));
    simba__wait_notice_over(notice);
    return rc;
}

/* Is this tenure of our mutex one of the simbas above us? */
static bool is_above(const struct simba__job *job, const simba_owner *owner)
{
    const char *all = secure_getenv(SIMBA__HELD), *at = all;
    char *held = simba__job_held(job->mutex, owner->id, owner->token);
    bool is_found = false;

    while (held != NULL && !is_found && (at = strstr(at, held)) != NULL) {
        is_found = (at == all || at[-1] == ' ') &&
                   strchr(" ", at[strlen(held)]) != NULL;
        at++;
    }
    free(held);
    return is_found;
}

/* How many may own it beside others that suffer so many. */
static uint32_t limit(uint32_t slots, uint32_t least)
{
    slots = slots == 0 ? 1 : slots;
    return slots < least ? slots : least;
}

/* Do simbas above us own the mutex, and leave us no place beside them? They
 * wait for our end, and we would wait for theirs; so we would behind somebody
 * in the queue who has no place beside them. The store says who owns it, so
 * that another store's mutex of this name is none of ours. */
static bool waits_for_itself(struct simba__holder *holder)
{
    const struct simba__job *job = holder->job;
    const char *all = secure_getenv(SIMBA__HELD);
    char *held = simba__job_held(job->mutex, NULL, 0);
    uint32_t above = 0, least = limit(job->slots, SIMBA_SHARED);
    simba_report *report = NULL;
    bool is_asked = all != NULL && held != NULL && strstr(all, held) != NULL;

    free(held); /* nobody of this name: the store need not be asked */
    if (!is_asked || simba_admin_show(holder->store, job->mutex, &report,
                                      NULL) != SIMBA_OK) {
        return false;
    }
    for (size_t i = 0; i < simba_report_owner_count(report); i++) {
        const simba_owner *owner = simba_report_owner_at(report, i);

        if (is_above(job, owner)) {
            holder->owner = *owner;
            least = limit(owner->slots, least);
            above++;
        }
    }
    for (size_t i = 0; i < simba_report_waiter_count(report); i++) {
        least = limit(simba_report_waiter(report, i)->slots, least);
    }
    simba_report_close(report);
    return above > 0 && above >= least;
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
        atomic_store(&holder->was_held, true);
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
        /* No callback of the earlier tenure runs any more. */
        holder->wait_until_ms = simba__clock_ms() + holder->job->wait_ms;
        atomic_store(&holder->is_lost, false);
        (void)pthread_mutex_lock(&holder->lock);
        holder->is_all_gone = false;
        (void)pthread_mutex_unlock(&holder->lock);
    }
}

/* A server is waited for when the mutex is asked for. A file is there when it
 * is opened, or is not: who leads may be started with the machine, before its
 * disk is; a lock says so at once. */
static int open_patiently(struct simba__holder *holder)
{
    const struct simba__opening opening = {.log = on_log, .user = holder};
    int64_t begun_ms = simba__clock_ms(), told_ms = 0;

    for (;;) {
        int rc = simba__command_open(&holder->job->cli, &opening,
                                     &holder->store, &holder->error);
        int64_t left_ms = time_left(holder), now_ms = simba__clock_ms();
        char words[sizeof holder->error.message + 64];

        if (rc != SIMBA_EUNAVAIL || left_ms == 0 ||
            holder->job->kind == SIMBA__JOB_LOCK) {
            return rc;
        }
        if (told_ms == 0 || now_ms - told_ms >= SAY_AGAIN_MS) {
            told_ms = now_ms;
            (void)snprintf(words, sizeof words, "%s; waiting for it (%lld s)",
                           holder->error.message,
                           (long long)(now_ms - begun_ms) / 1000);
            on_log(holder, SIMBA_LOG_WARN, "store", words);
        }
        if (simba__flag_wait(
                &holder->is_called_off, &holder->lock, &holder->told,
                left_ms > 0 && left_ms < REOPEN_MS ? left_ms : REOPEN_MS)) {
            report(holder, SIMBA__HOLDER_PAUSED);
            if (next_order(holder) == SIMBA__HOLDER_RELEASE) {
                return SIMBA_ECANCELED;
            }
            (void)pthread_mutex_lock(&holder->lock);
            holder->is_called_off = false;
            (void)pthread_mutex_unlock(&holder->lock);
        }
    }
}

/* Closed in the end though the process will be gone: a store that is left
 * open leaves marks behind that others have to clear away. */
static void close_store(struct simba__holder *holder)
{
    simba_locker_close(atomic_exchange(&holder->locker, NULL));
    simba__wait_notice_end(&holder->notice);
    simba_store_close(holder->store);
    simba__flag_set(&holder->is_closed, &holder->lock, &holder->told);
}

/* For those who watch over cron jobs. */
static const char *result_of(struct simba__holder *holder, int rc)
{
    return rc == SIMBA_EBUSY || rc == SIMBA_ETIMEDOUT ? "not_acquired"
           : rc == SIMBA_ECANCELED                    ? "cancelled"
           : rc != SIMBA_OK                           ? "error"
           : atomic_load(&holder->is_lost)            ? "lost"
           : holder->metrics.runs.exit_code == 0      ? "ok"
                                                      : "failed";
}

/* A failure is told first: a store that does not answer would keep us waiting
 * for a lease. */
static void *hold(void *argument)
{
    struct simba__holder *holder = argument;
    struct simba__metrics_file *metrics = &holder->metrics;
    int rc = open_patiently(holder);

    if (rc == SIMBA_OK) {
        rc = open_locker(holder);
    }
    if (rc == SIMBA_OK && waits_for_itself(holder)) {
        rc = simba_error_set(&holder->error, SIMBA_EBUSY, EDEADLK,
                             "%s: it would wait for itself: its owner '%s', "
                             "token %" PRIu64 ", runs this command",
                             holder->job->mutex, holder->owner.id,
                             holder->owner.token);
    }
    metrics->store = holder->store;
    metrics->path = holder->job->metrics_file;
    metrics->mutex = holder->job->mutex;
    metrics->complain = complain;
    metrics->user = holder;
    if (rc == SIMBA_OK) {
        /* A lock leaves its figures at its end; who leads is there for long. */
        if (metrics->path != NULL && holder->job->kind != SIMBA__JOB_LOCK) {
            simba__metrics_file_start(metrics);
        }
        rc = hold_all(holder);
    }
    if (rc == SIMBA_ECANCELED) {
        holder->error.code = SIMBA_OK; /* as was asked for */
    }
    /* Only when the store knows of the end: a disk that hangs must not keep the
     * mutex from others. */
    simba__metrics_file_stop(metrics);
    metrics->result = result_of(holder, rc);
    if (metrics->path != NULL) {
        simba__metrics_file_save(metrics);
    }
    if (rc == SIMBA_OK || rc == SIMBA_ECANCELED) {
        close_store(holder);
        report(holder, SIMBA__HOLDER_RELEASED);
    } else {
        report(holder, SIMBA__HOLDER_FAILED);
        close_store(holder);
    }
    return NULL;
}

bool simba__holder_start(struct simba__holder *holder)
{
    pthread_t thread;
    int rc;

    assert(holder->job != NULL && holder->link >= 0);
    holder->guardian = pthread_self();
    holder->wait_until_ms = simba__clock_ms() + holder->job->wait_ms;
    (void)pthread_mutex_init(&holder->lock, NULL);
    (void)pthread_cond_init(&holder->told, NULL);
    /* An arena for each thread costs a short command more than it saves. */
    (void)mallopt(M_ARENA_MAX, 1);
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

    if (atomic_load(&holder->state) != SIMBA__HOLDER_BUSY) {
        return;
    }
    if (locker != NULL) {
        simba_locker_cancel(locker);
    } else {
        simba__flag_set(&holder->is_called_off, &holder->lock, &holder->told);
    }
}

void simba__holder_order(struct simba__holder *holder,
                         enum simba__holder_order order)
{
    assert(order != SIMBA__HOLDER_WAIT);
    atomic_store(&holder->state, SIMBA__HOLDER_BUSY);
    (void)pthread_mutex_lock(&holder->lock);
    assert(holder->order == SIMBA__HOLDER_WAIT); /* one at a time */
    holder->order = order;
    (void)pthread_cond_broadcast(&holder->told);
    (void)pthread_mutex_unlock(&holder->lock);
}

void simba__holder_hand_over(struct simba__holder *holder)
{
    if (atomic_load(&holder->state) == SIMBA__HOLDER_HELD) {
        simba__flag_set(&holder->is_handing_over, &holder->lock, &holder->told);
    }
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

void simba__holder_clock(const struct simba__holder *holder,
                         int64_t *offset_ms,
                         int64_t *granted_ms)
{
    if (!simba_locker_clock(atomic_load(&holder->locker), offset_ms,
                            granted_ms)) {
        *granted_ms = simba__unix_ms();
        *offset_ms = *granted_ms - simba__clock_ms();
    }
}
