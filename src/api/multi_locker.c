/* Several mutexes at once: lockers in a canonical order, and what one of them
 * means for the others. */
#define _GNU_SOURCE
#include <simba/multi_locker.h>

#include "api/locker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct member {
    simba_multi_locker *multi;
    simba_locker *locker;
    const char *mutex; /* the locker's */
    size_t index;      /* where the user gave it */
    uint64_t token;    /* of the newest acquire */
};

enum loss { LOSS_UNTOLD, LOSS_IN_TELLING, LOSS_TOLD };

struct simba_multi_locker {
    simba_store *store;
    void (*on_lost)(void *user, const char *mutex, const simba_error *why);
    void *user;

    /* Given to the lockers: an acquire that sees it set gives up. */
    _Atomic bool veto;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct member *acquiring; /* the one that is being waited for */
    bool is_acquiring;        /* a thread is inside acquire */
    bool is_cancelled;
    bool is_lost; /* one of those acquired is not ours any more */
    bool is_held; /* all are, since when a loss is told */
    enum loss telling;
    pthread_t teller; /* while it is LOSS_IN_TELLING */
    simba_error why;

    size_t count;
    struct member members[]; /* in the order of their bytes */
};

/* --- loss and cancellation ----------------------------------------------- */

/* With the lock held. Whoever waits for the next mutex shall wait no more; the
 * veto is for the one who is only about to wait. */
static void stop_acquiring(simba_multi_locker *m)
{
    atomic_store(&m->veto, true);
    if (m->acquiring != NULL) {
        simba_locker_cancel(m->acquiring->locker);
    }
}

/* The store gets a mutex back when this returns, so a second loss waits for the
 * callback of the first as well (S6). */
static void member_lost(void *user, const simba_error *why)
{
    struct member *member = user;
    simba_multi_locker *m = member->multi;

    pthread_mutex_lock(&m->lock);
    if (!m->is_lost) {
        m->is_lost = true;
        m->why = *why;
    }
    if (!m->is_held) {
        stop_acquiring(m);
    } else if (m->telling == LOSS_UNTOLD) {
        m->telling = LOSS_IN_TELLING;
        m->teller = pthread_self();
        pthread_mutex_unlock(&m->lock); /* S9: never under a lock of ours */
        if (m->on_lost != NULL) {
            m->on_lost(m->user, member->mutex, why);
        }
        pthread_mutex_lock(&m->lock);
        m->telling = LOSS_TOLD;
        pthread_cond_broadcast(&m->changed);
    }
    /* Unless it is told here, by a callback that runs others. */
    while (m->is_held && m->telling == LOSS_IN_TELLING &&
           !pthread_equal(m->teller, pthread_self())) {
        pthread_cond_wait(&m->changed, &m->lock);
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

    assert(count <= m->count);
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

/* One after the other, so that others can end the wait for the one in hand. */
int simba_multi_locker_acquire(simba_multi_locker *m,
                               int64_t timeout_ms,
                               uint64_t *tokens,
                               simba_error *error)
{
    int64_t until_ms = simba_loop_now_ms() + timeout_ms, left_ms;
    size_t held = 0;
    int rc = simba__store_check(m->store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    pthread_mutex_lock(&m->lock);
    if (m->is_acquiring || m->is_held) {
        pthread_mutex_unlock(&m->lock);
        return simba_error_set(error, SIMBA_EMISUSE, 0,
                               "the multi locker is in use already");
    }
    assert(m->acquiring == NULL);
    m->is_acquiring = true;
    m->is_cancelled = m->is_lost = false;
    m->telling = LOSS_UNTOLD;
    atomic_store(&m->veto, false);
    while (held < m->count && rc == SIMBA_OK) {
        struct member *member = m->acquiring = &m->members[held];

        pthread_mutex_unlock(&m->lock);
        left_ms = until_ms - simba_loop_now_ms();
        left_ms =
            left_ms > 1 ? left_ms : 1; /* 0 would not stand in the queue */
        rc = simba_locker_acquire(member->locker,
                                  timeout_ms > 0 ? left_ms : timeout_ms,
                                  &member->token, error);
        pthread_mutex_lock(&m->lock);
        m->acquiring = NULL;
        held += rc == SIMBA_OK ? 1 : 0;
    }
    /* From here on a loss is told, unless there was one already, or a wait that
     * was ended by one. */
    m->is_acquiring = false;
    for (size_t i = 0; i < held && rc == SIMBA_OK && !m->is_lost; i++) {
        if (!simba_locker_is_owner(m->members[i].locker)) {
            m->is_lost = true; /* its on_lost is still to be run */
            simba_error_set(&m->why, SIMBA_ELOST, 0, "%s: lost",
                            m->members[i].mutex);
        }
    }
    if (m->is_lost && (rc == SIMBA_OK || rc == SIMBA_ECANCELED)) {
        rc = simba_error_set(error, SIMBA_ELOST, 0, "%s", m->why.message);
    } else if (rc == SIMBA_OK && m->is_cancelled) {
        rc = simba_error_set(error, SIMBA_ECANCELED, 0, "%s",
                             simba_strerror(SIMBA_ECANCELED));
    }
    m->is_held = rc == SIMBA_OK;
    pthread_mutex_unlock(&m->lock);
    if (rc != SIMBA_OK) {
        (void)release_members(m, held, NULL);
    }
    for (size_t i = 0; rc == SIMBA_OK && tokens != NULL && i < m->count; i++) {
        tokens[m->members[i].index] = m->members[i].token;
    }
    return rc;
}

int simba_multi_locker_release(simba_multi_locker *m, simba_error *error)
{
    int rc = simba__store_check(m->store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    for (size_t i = 0; i < m->count; i++) {
        if (simba__serial_queue_is_mine(&m->members[i].locker->serial_queue)) {
            return simba_error_set(error, SIMBA_EMISUSE, 0,
                                   "release was called from its own callback");
        }
    }
    rc = release_members(m, m->count, error);
    pthread_mutex_lock(&m->lock);
    m->is_held = false;
    pthread_mutex_unlock(&m->lock);
    return rc;
}

/* --- life ---------------------------------------------------------------- */

void simba_multi_locker_close(simba_multi_locker *m)
{
    if (m == NULL) {
        return;
    }
    while (m->count > 0) {
        simba_locker_close(m->members[--m->count].locker);
    }
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const struct member *)a)->mutex,
                  ((const struct member *)b)->mutex);
}

/* Puts the names into the members, in order; they are still the user's. */
static int take_names(struct member *members,
                      const simba_multi_locker_options *options,
                      simba_error *error)
{
    for (size_t i = 0; i < options->count; i++) {
        if (options->mutexes[i] == NULL) {
            return simba_error_set(error, SIMBA_EINVAL, 0,
                                   "a mutex needs a name");
        }
        members[i].mutex = options->mutexes[i];
        members[i].index = i;
    }
    qsort(members, options->count, sizeof *members, by_bytes);
    for (size_t i = 1; i < options->count; i++) {
        if (strcmp(members[i - 1].mutex, members[i].mutex) == 0) {
            return simba_error_set(error, SIMBA_EINVAL, 0,
                                   "'%s' is given twice", members[i].mutex);
        }
    }
    return SIMBA_OK;
}

static int open_members(simba_multi_locker *m,
                        const simba_multi_locker_options *options,
                        simba_error *error)
{
    simba_locker_options one = SIMBA_LOCKER_OPTIONS_INIT;
    char id[SIMBA_ID_MAX + 1];
    int rc = SIMBA_OK;

    assert(m->count == 0);
    simba_id_host(id);
    one.id = options->id != NULL ? options->id : id;
    one.times = options->times;
    one.on_lost = member_lost;
    for (; m->count < options->count && rc == SIMBA_OK;) {
        struct member *member = &m->members[m->count];

        member->multi = m;
        one.mutex = member->mutex;
        one.user = member;
        rc = simba_locker_open(m->store, &one, &member->locker, error);
        if (rc == SIMBA_OK) {
            member->mutex =
                simba__contention_mutex(&member->locker->base.contention);
            member->locker->veto = &m->veto;
            m->count++;
        }
    }
    return rc;
}

int simba_multi_locker_open(simba_store *store,
                            const simba_multi_locker_options *given,
                            simba_multi_locker **out,
                            simba_error *error)
{
    simba_multi_locker_options options = SIMBA_MULTI_LOCKER_OPTIONS_INIT;
    simba_multi_locker *m;
    const struct simba__given take = {given, "SIMBA_MULTI_LOCKER_OPTIONS_INIT",
                                      &options, sizeof options, 0};
    int rc = simba__given_take(store, &take, error);

    *out = NULL;
    if (rc == SIMBA_OK && (options.mutexes == NULL || options.count == 0)) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "at least one mutex must be named");
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    m = options.count > SIZE_MAX / 2 / sizeof *m->members
            ? NULL
            : calloc(1, sizeof *m + options.count * sizeof *m->members);
    if (m == NULL) {
        return simba__fail_memory(error);
    }
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    m->store = store;
    m->on_lost = options.on_lost;
    m->user = options.user;
    rc = take_names(m->members, &options, error);
    rc = rc == SIMBA_OK ? open_members(m, &options, error) : rc;
    if (rc != SIMBA_OK) {
        simba_multi_locker_close(m);
        return rc;
    }
    *out = m;
    return SIMBA_OK;
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
