/* Lockers: a contender that one thread waits for. Nothing of the way to it
 * passes through a callback thread; only on_lost runs there. */
#define _GNU_SOURCE
#include "api/locker.h"

#include "kit/lookup.h"
#include "util/container.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

/* How long a caller whose time is up still waits for the store to hear that it
 * has left; after that the leaving goes on behind its back. */
enum { LEAVE_PATIENCE_MS = 1000, SILENCE_MS = 500 };

/* A hundred years: longer, and sums of times could overflow. */
#define FOR_EVER_MS (INT64_C(100) * 365 * 24 * 3600 * 1000)

/* --- inside the loop ----------------------------------------------------- */

static void run_lost(struct simba__task *task)
{
    simba_locker *l = container_of(task, simba_locker, lost_task);

    l->on_lost(l->user, &l->why);
    simba__contention_returned(&l->base.contention);
}

static void stop(simba_locker *l)
{
    assert(simba__loop_is_inside(l->base.store->loop));
    if (l->is_started && !l->is_stopping) {
        l->is_stopping = true;
        simba__contention_stop(&l->base.contention);
    }
}

/* The machine is in the midst of telling the loss: stop it right after. */
static void stop_soon(struct simba__message *message)
{
    stop(container_of(message, simba_locker, stopping));
}

/* Whoever waits for this locker, asleep or driving. */
static void wake_waiter(simba_locker *l)
{
    l->wakes++;
    pthread_cond_broadcast(&l->changed);
    simba__loop_nudge(l->base.store->loop);
}

static void told(struct simba__contention *c,
                 const struct simba__contend_update *update)
{
    simba_locker *l = (simba_locker *)c;
    simba_store *store = l->base.store;
    bool is_end = (update->tell & SIMBA__TELL_RELEASED) != 0;
    enum simba_cause cause =
        is_end ? simba__contender_cause(&l->base, update) : SIMBA_CAUSE_NONE;
    bool is_loss = is_end && cause != SIMBA_CAUSE_STOPPED;
    /* What the caller learns anyway is for debugging; a loss is not, where
     * nobody is called. */
    enum simba_log_level level =
        is_loss && l->on_lost == NULL ? SIMBA_LOG_WARN : SIMBA_LOG_DEBUG;

    if (is_loss) {
        assert(l->is_granted && !l->is_lost);
        simba_error_set(&l->why, SIMBA_ELOST, (int)cause, "%s: lost: %s",
                        simba__contention_mutex(c), simba__cause_text(cause));
        l->is_held = false;
        l->is_lost = true;
        /* A locker does not contend anew by itself. */
        simba__loop_send(store->loop, &l->stopping);
    }
    if (is_loss && l->on_lost != NULL) {
        simba__serial_queue_push(&store->pool, &l->serial_queue, &l->lost_task);
    } else if (is_end) { /* the user let go, or is not called: all is done */
        simba__contention_returned(c);
    }
    if (update->tell & SIMBA__TELL_ACQUIRED) {
        assert(l->is_started && !l->is_held);
        l->is_granted = l->is_held = true;
        l->token = update->token;
        atomic_store(&l->granted_ms, c->core.is_clock_known
                                         ? c->core.now_ms + c->core.clock_low_ms
                                         : INT64_MIN);
    }
    if (update->tell & SIMBA__TELL_STOPPED) {
        l->is_started = l->is_stopping = l->is_held = false;
        l->stops++;
        l->is_unreleased = (update->tell & SIMBA__TELL_UNRELEASED) != 0;
    }
    wake_waiter(l);
    if ((is_end || (update->tell & SIMBA__TELL_ACQUIRED)) &&
        level <= store->log_level) {
        simba__contender_log(
            &l->base,
            (struct simba__log_entry){.level = level,
                                      .token = update->token,
                                      .cause = is_end ? simba_cause_name(cause)
                                                      : NULL},
            "%s, token %" PRIu64,
            is_loss  ? "lost"
            : is_end ? "released"
                     : "acquired",
            update->token);
    }
    if (update->tell & SIMBA__TELL_OVERRUN) { /* S6 */
        simba__contender_warn(
            &l->base, "what used it has not ended in time: another may own it");
    }
    simba__contender_warn_clock(&l->base, update);
}

static void answered(struct simba__contention *c,
                     const simba_request *request,
                     int status,
                     const simba_error *error)
{
    simba_locker *l = (simba_locker *)c;
    /* Who waits, or holds, hears of an outage at once and each minute: nothing
     * else would tell why nothing happens. */
    bool is_outage = (l->is_patient || l->is_held) &&
                     (status == SIMBA_EUNAVAIL || status == SIMBA_EUNKNOWN ||
                      status == SIMBA_EBUSY);

    l->failure = status;
    if (status != SIMBA_OK) {
        simba_error_set(&l->error, status, error == NULL ? 0 : error->native,
                        "%s", simba__error_text(status, error));
    } else if (request->kind == SIMBA_ACQUIRE && !request->reply.mine) {
        l->is_refused = true;
    } else if (request->kind == SIMBA_ACQUIRE) {
        atomic_store(&l->session_ms, request->reply.session_ms);
    }
    simba__contender_log_answer(&l->base, is_outage, status, error);
    wake_waiter(l);
}

static void published(struct simba__contention *c)
{
    simba_locker *l = (simba_locker *)c;

    atomic_store(&l->slot, l->tenure.slot);
    atomic_store(&l->store_ahead_ms,
                 c->core.is_clock_known ? c->core.clock_low_ms : INT64_MIN);
}

/* --- waiting ------------------------------------------------------------- */

static struct timespec in_ms(int64_t ms)
{
    struct timespec at;

    assert(ms >= 0);
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(ms / 1000);
    at.tv_nsec += (long)(ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

static int64_t in_boot_ms(const struct timespec *until)
{
    struct timespec now;

    if (until == NULL) {
        return INT64_MAX;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    return simba_loop_now_ms() + (int64_t)(until->tv_sec - now.tv_sec) * 1000 +
           (until->tv_nsec - now.tv_nsec) / 1000000;
}

/* --- driving ------------------------------------------------------------- */

static void begin_driving(simba_locker *l)
{
    if (l->base.store->backend->ops->drive != NULL) {
        simba__loop_drive(l->base.store->loop);
    }
}

/* One step of the backend's work; until_ms 0 is the last. False when there is
 * none for us. */
static bool drive(simba_locker *l, int64_t until_ms)
{
    simba_backend *backend = l->base.store->backend;
    bool goes_on;

    assert(until_ms == 0 || simba__loop_is_driver(l->base.store->loop));
    /* What leaving has settled may have been the change. */
    goes_on = !simba__loop_step_out(l->base.store->loop) && until_ms != 0;
    goes_on = goes_on || backend->ops->drive(backend, until_ms);
    simba_loop_enter(l->base.store->loop);
    /* What another thread has settled for us meanwhile is a step as well. */
    return simba__loop_calm(l->base.store->loop) || goes_on;
}

/* The messages that are run on leaving may bring requests of others, and
 * nobody would come for these. */
static void end_driving(simba_locker *l)
{
    if (simba__loop_is_driver(l->base.store->loop)) {
        simba__loop_part(l->base.store->loop);
        drive(l, 0);
        simba__loop_undrive(l->base.store->loop);
    }
}

/* Waits for a change, or has it come about: whom the mutex is offered to asks
 * for it from here, without a way through other threads. False when the time
 * is up. */
static bool wait_change(simba_locker *l, const struct timespec *until)
{
    uint64_t wakes = l->wakes;

    begin_driving(l);
    if (!simba__loop_is_driver(l->base.store->loop)) {
        return simba__loop_wait(l->base.store->loop, &l->changed, until);
    }
    /* What came about while there was nothing to drive wakes nobody. */
    if (!drive(l, in_boot_ms(until)) && l->wakes == wakes) {
        simba__loop_lead(l->base.store->loop, in_boot_ms(until));
    }
    return until == NULL || in_boot_ms(until) > simba_loop_now_ms();
}

static int fail(simba_locker *l, int code, simba_error *error)
{
    /* That a store grants nothing yet says more than that time is up. */
    if (error != NULL && (code == l->failure || (code == SIMBA_ETIMEDOUT &&
                                                 l->failure == SIMBA_EBUSY))) {
        *error = l->error;
        error->code = code;
        return code;
    }
    return simba_error_set(error, code, 0, "%s: %s",
                           simba__contention_mutex(&l->base.contention),
                           simba_strerror(code));
}

/* Has the newest request failed in a way that waiting longer will not mend? */
static bool is_hopeless(const simba_locker *l)
{
    return l->failure == SIMBA_EDENIED || l->failure == SIMBA_EINVAL ||
           l->failure == SIMBA_EMISCONFIG || l->failure == SIMBA_ENOTINIT ||
           l->failure == SIMBA_ENOMEM ||
           (l->failure == SIMBA_EUNAVAIL &&
            l->error.native == SIMBA__UNKNOWN_HOST);
}

/* Has the store been away for so long that it is not merely this request? */
static bool is_away(const simba_locker *l)
{
    return l->failure != SIMBA_OK && l->failure != SIMBA_EBUSY &&
           l->base.trouble != NULL &&
           simba_loop_now_ms() - l->base.trouble->outage.since_ms >= SILENCE_MS;
}

/* SIMBA_OK, or why waiting ends without the mutex. */
static int wait_until_held(simba_locker *l,
                           const struct timespec *until,
                           int64_t timeout_ms)
{
    bool tries_once = timeout_ms == 0, is_late = false;
    int rc = SIMBA_OK;

    while (!l->is_granted && rc == SIMBA_OK) {
        if (l->is_cancelled || !l->is_started ||
            (l->veto != NULL && atomic_load(l->veto))) {
            rc = SIMBA_ECANCELED; /* perhaps by a release on another thread */
        } else if (is_hopeless(l)) {
            rc = l->failure;
        } else if (tries_once) {
            rc = l->is_refused ? SIMBA_EBUSY : l->failure;
        }
        if (rc == SIMBA_OK && !is_late) {
            is_late = !wait_change(l, until);
        } else if (rc == SIMBA_OK &&
                   (l->is_refused || l->failure == SIMBA_EBUSY) &&
                   !is_away(l)) {
            rc = SIMBA_ETIMEDOUT;
        } else if (rc == SIMBA_OK && l->failure == SIMBA_OK) {
            /* A store that was silent for as long as this is not there. */
            rc = timeout_ms >= SILENCE_MS ? SIMBA_EUNAVAIL : SIMBA_ETIMEDOUT;
        } else if (rc == SIMBA_OK) {
            rc = l->failure == SIMBA_EUNKNOWN ? SIMBA_EUNAVAIL : l->failure;
        }
    }
    /* Who lost it before it looked hears that from release, and on_lost. */
    return l->is_granted ? SIMBA_OK : rc;
}

/* An on_lost that nobody else may be there to run: the store waits for it. */
static void run_callbacks(simba_locker *l)
{
    while (simba__serial_queue_run(&l->base.store->pool, &l->serial_queue)) {
    }
}

/* Waits until the machine rests; a loss may come about on the way. */
static bool wait_until_stopped(simba_locker *l, const struct timespec *until)
{
    uint64_t stops = l->stops; /* it may be started again before we look */

    while (l->is_started && l->stops == stops) {
        if (l->is_lost && simba__loop_is_driver(l->base.store->loop)) {
            end_driving(l); /* others may, while on_lost runs */
        }
        run_callbacks(l);
        if (!(l->is_started && l->stops == stops)) {
            break;
        }
        if (!wait_change(l, until) && l->is_started && l->stops == stops) {
            return false;
        }
    }
    return true;
}

static int acquire(simba_locker *l,
                   int64_t timeout_ms,
                   uint64_t *token,
                   simba_error *error)
{
    bool is_limited = timeout_ms > 0 && timeout_ms < FOR_EVER_MS;
    struct timespec until = in_ms(is_limited ? timeout_ms : 0);
    /* To try once takes as long as the store takes, at most one try. */
    const struct timespec *limit = is_limited ? &until : NULL;
    struct timespec grace;
    int rc;

    assert(l->is_acquiring && !l->is_held);
    if (!wait_until_stopped(l, limit)) {
        return fail(l, SIMBA_ETIMEDOUT, error);
    }
    l->is_started = true;
    l->is_granted = l->is_held = l->is_lost = false;
    l->is_refused = l->is_unreleased = false;
    l->is_patient = timeout_ms != 0;
    l->failure = SIMBA_OK;
    simba__contender_forget_trouble(&l->base);
    begin_driving(l);
    simba__contention_start(&l->base.contention, l->is_patient);
    rc = wait_until_held(l, limit, timeout_ms);
    if (rc == SIMBA_OK) {
        if (token != NULL) {
            *token = l->token;
        }
        return SIMBA_OK;
    }
    fail(l, rc, error);
    /* One that failed us will not listen to our leaving either. */
    grace =
        in_ms(l->is_refused && l->failure == SIMBA_OK ? LEAVE_PATIENCE_MS : 0);
    stop(l);
    wait_until_stopped(l, &grace);
    return rc;
}

int simba_locker_acquire(simba_locker *l,
                         int64_t timeout_ms,
                         uint64_t *token,
                         simba_error *error)
{
    int rc = simba__store_check(l->base.store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    simba__callback_pool_block(&l->base.store->pool);
    simba_loop_enter(l->base.store->loop);
    if (l->is_acquiring || l->is_held ||
        simba__serial_queue_is_mine(&l->serial_queue)) {
        rc = simba_error_set(error, SIMBA_EMISUSE, 0,
                             "%s: the locker is in use already",
                             simba__contention_mutex(&l->base.contention));
    } else {
        l->is_acquiring = true;
        l->is_cancelled = false;
        run_callbacks(l);
        rc = acquire(l, timeout_ms, token, error);
        end_driving(l);
        l->is_acquiring = false;
    }
    simba_loop_leave(l->base.store->loop);
    simba__callback_pool_unblock(&l->base.store->pool);
    return rc;
}

int simba_locker_release(simba_locker *l, simba_error *error)
{
    int rc = simba__store_check(l->base.store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (simba__serial_queue_is_mine(&l->serial_queue)) {
        return simba_error_set(error, SIMBA_EMISUSE, 0,
                               "%s: release was called from its own callback",
                               simba__contention_mutex(&l->base.contention));
    }
    simba__callback_pool_block(&l->base.store->pool);
    simba_loop_enter(l->base.store->loop);
    run_callbacks(l);
    begin_driving(l);
    stop(l);
    wait_until_stopped(l, NULL);
    end_driving(l);
    if (l->is_lost) {
        l->is_lost = false;
        rc = simba_error_set(error, SIMBA_ELOST, l->why.native, "%s",
                             l->why.message);
    } else if (l->is_unreleased) {
        l->is_unreleased = false;
        rc = simba_error_set(error, SIMBA_EUNKNOWN, 0,
                             "%s: the store did not answer the release; the "
                             "lease lapses by itself",
                             simba__contention_mutex(&l->base.contention));
    }
    simba_loop_leave(l->base.store->loop);
    simba__serial_queue_wait(&l->base.store->pool, &l->serial_queue);
    simba__callback_pool_unblock(&l->base.store->pool);
    return rc;
}

void simba_locker_cancel(simba_locker *l)
{
    if (simba__is_forked(l->base.store->mark)) {
        return;
    }
    simba_loop_enter(l->base.store->loop);
    if (l->is_acquiring) {
        l->is_cancelled = true;
        wake_waiter(l);
    }
    simba_loop_leave(l->base.store->loop);
}

/* --- life ---------------------------------------------------------------- */

static void free_locker(simba_locker *l)
{
    pthread_cond_destroy(&l->changed);
    free(l);
}

int simba_locker_open(simba_store *store,
                      const simba_locker_options *given,
                      simba_locker **out,
                      simba_error *error)
{
    static const struct simba__contender_kind kind = {
        {.told = told,
         .answered = answered,
         .published = published,
         .id_at = sizeof(simba_locker)},
        "locker",
        "callback"};
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    struct simba__contender *base;
    simba_locker *l;
    const struct simba__given take = {given, "SIMBA_LOCKER_OPTIONS_INIT",
                                      &options, sizeof options,
                                      offsetof(simba_locker_options, reserved)};
    int rc = simba__given_take(store, &take, error);

    *out = NULL;
    if (rc != SIMBA_OK) {
        return rc;
    }
    rc = simba__contender_make(&kind, options.id, &base, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    l = (simba_locker *)base;
    l->on_lost = options.on_lost;
    l->user = options.user;
    l->lost_task.run = run_lost;
    l->stopping.run = stop_soon;
    atomic_init(&l->granted_ms, INT64_MIN);
    atomic_init(&l->store_ahead_ms, INT64_MIN);
    simba__serial_queue_init(&l->serial_queue);
    pthread_cond_init(&l->changed, NULL);
    contender.mutex = options.mutex;
    contender.times = options.times;
    contender.slots = options.slots;
    contender.command = options.command;
    contender.tell = options.tell;
    rc = simba__contender_open(base, store, &contender, error);
    if (rc != SIMBA_OK) {
        free_locker(l);
        return rc;
    }
    simba_loop_enter(store->loop); /* others may wake it already */
    base->contention.core.tenure = &l->tenure;
    simba_loop_leave(store->loop);
    *out = l;
    return SIMBA_OK;
}

void simba_locker_close(simba_locker *l)
{
    if (l == NULL) {
        return;
    }
    if (!simba__contender_may_close(
            &l->base, simba__serial_queue_is_mine(&l->serial_queue))) {
        free(l);
        return;
    }
    simba__contender_close(&l->base, simba_locker_release(l, NULL));
    free_locker(l);
}

/* --- questions ----------------------------------------------------------- */

void simba_locker_progress(simba_locker *l)
{
    simba__contention_progress(&l->base.contention);
}

bool simba_locker_is_owner(const simba_locker *l)
{
    return simba__contention_is_owner(&l->base.contention);
}

uint64_t simba_locker_token(const simba_locker *l)
{
    return simba__contention_token(&l->base.contention);
}

void simba_locker_deadlines(const simba_locker *l,
                            int64_t *use_until_ms,
                            int64_t *hard_until_ms)
{
    const struct simba__contention *c = &l->base.contention;
    int64_t until_ms = simba__is_forked(l->base.store->mark)
                           ? 0
                           : atomic_load(&c->owner_until_ms);

    if (use_until_ms != NULL) {
        *use_until_ms = until_ms;
    }
    if (hard_until_ms != NULL) {
        /* B after U, also when max_hold comes first: then the store is told at
         * that time, although the lease would run longer. */
        *hard_until_ms =
            until_ms == 0 ? 0 : until_ms + c->core.config->lease.budget_ms;
    }
}

uint32_t simba_locker_slot(const simba_locker *l)
{
    return atomic_load(&l->slot);
}

/* The release is on its way when it returns, and on stores that block it is
 * done: a thread more to wake would make who follows wait for it. */
int simba_locker_hand_over(simba_locker *l, const char *to, simba_error *error)
{
    simba_loop *loop = l->base.store->loop;
    int rc = simba__contender_may_hand_over(&l->base, to, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    simba_loop_enter(loop);
    begin_driving(l);
    rc = simba__contender_hand_over(&l->base, to, error);
    if (simba__loop_is_driver(loop)) {
        (void)drive(l, simba_loop_now_ms());
    }
    end_driving(l);
    simba_loop_leave(loop);
    return rc;
}

int64_t simba_locker_session_ms(const simba_locker *l)
{
    return simba__is_forked(l->base.store->mark)
               ? 0
               : (int64_t)atomic_load(&l->session_ms);
}

/* A millisecond for the rounding of both clocks: nobody is to be early. */
bool simba_locker_clock(const simba_locker *l,
                        int64_t *ahead_ms,
                        int64_t *granted_ms)
{
    int64_t known_ms = atomic_load(&l->store_ahead_ms);
    int64_t begun_ms = atomic_load(&l->granted_ms);

    if (simba__is_forked(l->base.store->mark) || known_ms == INT64_MIN ||
        begun_ms == INT64_MIN) {
        return false;
    }
    if (ahead_ms != NULL) {
        *ahead_ms = known_ms - 1;
    }
    if (granted_ms != NULL) {
        *granted_ms = begun_ms;
    }
    return true;
}
