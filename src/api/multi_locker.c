/* Several mutexes at once: lockers in a canonical order, and what one of them
 * means for the others. */
#define _GNU_SOURCE
#include "api/multi_locker.h"

#include <string.h>

/* --- loss and cancellation ----------------------------------------------- */

/* With the lock held. Whoever waits for the next mutex shall wait no more; the
 * veto is for the one who is only about to wait. */
static void stop_acquiring(simba_multi_locker *m)
{
    struct simba__member *acquiring = m->acquiring;

    atomic_store(&m->veto, true);
    if (acquiring != NULL) {
        simba_locker_cancel(acquiring->locker);
    }
}

/* With the lock held. The store gets a mutex back when this returns, so a
 * second loss waits for the callback of the first as well (S6). */
static void tell(simba_multi_locker *m,
                 const struct simba__member *member,
                 const simba_error *why)
{
    if (m->telling == SIMBA__LOSS_UNTOLD) {
        m->telling = SIMBA__LOSS_IN_TELLING;
        pthread_mutex_unlock(&m->lock); /* S9: never under a lock of ours */
        if (m->on_lost != NULL) {
            m->on_lost(m->user, member->mutex, why);
        }
        pthread_mutex_lock(&m->lock);
        m->telling = SIMBA__LOSS_TOLD;
        pthread_cond_broadcast(&m->changed);
    }
    while (m->telling == SIMBA__LOSS_IN_TELLING) {
        pthread_cond_wait(&m->changed, &m->lock);
    }
}

void simba__member_lost(void *user, const simba_error *why)
{
    struct simba__member *member = user;
    simba_multi_locker *m = member->multi;

    pthread_mutex_lock(&m->lock);
    if (!m->is_lost) {
        m->is_lost = true;
        m->why = *why;
    }
    if (m->is_held) {
        tell(m, member, why);
    } else {
        stop_acquiring(m);
    }
    pthread_mutex_unlock(&m->lock);
}

void simba_multi_locker_cancel(simba_multi_locker *m)
{
    if (simba__is_forked(m->store->mark)) {
        return;
    }
    pthread_mutex_lock(&m->lock);
    if (m->is_acquiring) {
        m->is_cancelled = true;
        stop_acquiring(m);
    }
    pthread_mutex_unlock(&m->lock);
}

/* --- acquire and release ------------------------------------------------- */

/* In the opposite order; the first trouble is what counts. */
static int release_members(simba_multi_locker *m,
                           size_t count,
                           simba_error *error)
{
    int rc = SIMBA_OK;

    while (count-- > 0) {
        simba_error why;
        int one = simba_locker_release(m->members[count].locker, &why);

        m->members[count].token = 0;
        if (one != SIMBA_OK && (rc == SIMBA_OK || one == SIMBA_ELOST)) {
            rc = simba_error_set(error, one, why.native, "%s", why.message);
        }
    }
    return rc;
}

static int64_t time_left(int64_t timeout_ms, int64_t until_ms)
{
    int64_t left_ms = until_ms - simba_loop_now_ms();

    if (timeout_ms <= 0) {
        return timeout_ms;
    }
    return left_ms > 1 ? left_ms : 1; /* 0 would not even stand in the queue */
}

/* Who is being waited for, so that others can end the wait. */
static void set_acquiring(simba_multi_locker *m, struct simba__member *member)
{
    pthread_mutex_lock(&m->lock);
    m->acquiring = member;
    pthread_mutex_unlock(&m->lock);
}

/* One after the other; *held says how many are ours now. */
static int acquire_members(simba_multi_locker *m,
                           int64_t timeout_ms,
                           size_t *held,
                           simba_error *error)
{
    int64_t until_ms = simba_loop_now_ms() + timeout_ms;
    int rc = SIMBA_OK;

    for (*held = 0; *held < m->count && rc == SIMBA_OK;) {
        struct simba__member *member = &m->members[*held];

        set_acquiring(m, member);
        rc = simba_locker_acquire(member->locker,
                                  time_left(timeout_ms, until_ms),
                                  &member->token, error);
        set_acquiring(m, NULL);
        *held += rc == SIMBA_OK ? 1 : 0;
    }
    return rc;
}

/* What came of it: from here on a loss is told, unless there was one already,
 * or a wait that was ended by one. */
static int judge(simba_multi_locker *m, int rc, simba_error *error)
{
    pthread_mutex_lock(&m->lock);
    m->is_acquiring = false;
    if (m->is_lost && (rc == SIMBA_OK || rc == SIMBA_ECANCELED)) {
        rc = simba_error_set(error, SIMBA_ELOST, 0, "%s", m->why.message);
    } else if (rc == SIMBA_OK && m->is_cancelled) {
        rc = simba_error_set(error, SIMBA_ECANCELED, 0, "%s",
                             simba_strerror(SIMBA_ECANCELED));
    }
    m->is_held = rc == SIMBA_OK;
    pthread_mutex_unlock(&m->lock);
    return rc;
}

/* True when this thread may go on to acquire. */
static bool begin(simba_multi_locker *m)
{
    bool is_free;

    pthread_mutex_lock(&m->lock);
    is_free = !m->is_acquiring && !m->is_held;
    if (is_free) {
        m->is_acquiring = true;
        m->is_cancelled = m->is_lost = false;
        m->telling = SIMBA__LOSS_UNTOLD;
        atomic_store(&m->veto, false);
    }
    pthread_mutex_unlock(&m->lock);
    return is_free;
}

static void give_tokens(const simba_multi_locker *m, uint64_t *tokens)
{
    for (size_t i = 0; tokens != NULL && i < m->count; i++) {
        tokens[m->members[i].index] = m->members[i].token;
    }
}

int simba_multi_locker_acquire(simba_multi_locker *m,
                               int64_t timeout_ms,
                               uint64_t *tokens,
                               simba_error *error)
{
    size_t held;
    int rc = simba__store_check(m->store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (!begin(m)) {
        return simba_error_set(error, SIMBA_EMISUSE, 0,
                               "the multi locker is in use already");
    }
    rc = acquire_members(m, timeout_ms, &held, error);
    rc = judge(m, rc, error);
    if (rc != SIMBA_OK) {
        (void)release_members(m, held, NULL);
        return rc;
    }
    give_tokens(m, tokens);
    return SIMBA_OK;
}

static bool is_in_callback(const simba_multi_locker *m)
{
    for (size_t i = 0; i < m->count; i++) {
        if (simba__strand_is_mine(&m->members[i].locker->strand)) {
            return true;
        }
    }
    return false;
}

int simba_multi_locker_release(simba_multi_locker *m, simba_error *error)
{
    int rc = simba__store_check(m->store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (is_in_callback(m)) {
        return simba_error_set(error, SIMBA_EMISUSE, 0,
                               "release was called from its own callback");
    }
    rc = release_members(m, m->count, error);
    pthread_mutex_lock(&m->lock);
    m->is_held = false;
    pthread_mutex_unlock(&m->lock);
    return rc;
}

/* --- questions ----------------------------------------------------------- */

bool simba_multi_locker_is_owner(const simba_multi_locker *m)
{
    for (size_t i = 0; i < m->count; i++) {
        if (!simba_locker_is_owner(m->members[i].locker)) {
            return false;
        }
    }
    return true;
}

uint64_t simba_multi_locker_token(const simba_multi_locker *m,
                                  const char *mutex)
{
    for (size_t i = 0; i < m->count; i++) {
        if (strcmp(m->members[i].mutex, mutex) == 0) {
            return simba_locker_token(m->members[i].locker);
        }
    }
    return 0;
}

void simba_multi_locker_progress(simba_multi_locker *m)
{
    for (size_t i = 0; i < m->count; i++) {
        simba_locker_progress(m->members[i].locker);
    }
}
