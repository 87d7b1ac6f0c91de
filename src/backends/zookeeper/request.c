/* Acquire, release and leave: how they come, how long they wait, and what
 * follows from the replies of the servers. Renewals are in session.c.
 *
 *             CREATE             lowest
 *   ABSENT ------------> PRESENT -----> mine
 *     ^  \                 |  ^  \
 *     |   \ unanswered     |  |   \ not lowest
 *     |    v               |  |    v
 *     |  DOUBTFUL --FIND---'  '-- QUEUE: watch the one before, answer
 *     |                    |
 *     '------ REMOVE, vanished, session lost */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "core/mutex_model.h"
#include "util/container.h"

#include <assert.h>
#include <stdlib.h>

/* A mutex whose parents vanish so often between two requests is no mutex. */
enum { ROUNDS_MOST = 8 };

/* --- replies to an acquire ----------------------------------------------- */

static bool is_idle(const struct simba__zk_latch *latch)
{
    return latch->acquire == NULL && latch->release == NULL &&
           latch->renewal == NULL;
}

/* A latch that is not there, of which nothing is asked, is forgotten; unless
 * its tenure was told, for then its end has to be told as well. */
static void tidy(struct simba__zk_latch *latch)
{
    if (is_idle(latch) && latch->replies_due == 0 &&
        latch->state == SIMBA__ZK_ABSENT && !latch->was_granted) {
        simba__zk_latch_forget(latch);
    }
}

static void fail_acquire(struct simba__zk_latch *latch, int rc)
{
    simba_error error;
    int status = simba__zk_fail(latch->self, rc, &error);

    simba__deadline_complete(&latch->acquire, status, &error);
    tidy(latch);
}

/* The lease asked for, or the session's if that is shorter. */
static int64_t full_lease_ms(const struct simba__zk_latch *latch)
{
    int64_t asked = latch->acquire->ttl_ms + latch->acquire->transition_ms;
    int64_t timeout = latch->self->certainty.timeout_ms;

    return asked < timeout ? asked : timeout;
}

static void refuse(struct simba__zk_latch *latch, int64_t wait_ms)
{
    simba_reply *reply = &latch->acquire->reply;

    assert(latch->batch == SIMBA__ZK_NONE);
    reply->is_queued = latch->state == SIMBA__ZK_PRESENT;
    reply->is_head = latch->is_lowest || latch->is_second;
    reply->position = reply->is_queued ? simba__zk_position(latch->node) : 0;
    reply->wait_ms = wait_ms;
    reply->owner = latch->owner;
    simba__deadline_complete(&latch->acquire, SIMBA_OK, NULL);
}

/* Servers with short sessions can grant nothing that outlasts the release
 * budget: every grant would be given back, for ever. */
static bool is_too_short(struct simba__zk_latch *latch)
{
    const struct simba__zk *self = latch->self;
    int64_t lease_ms = full_lease_ms(latch);
    int64_t budget_ms = latch->acquire->budget_ms;
    int64_t most_ms = simba__zk_budget_most_ms(lease_ms);
    simba_error error;

    if (budget_ms <= most_ms) {
        return false;
    }
    simba_error_set(
        &error, SIMBA_EMISCONFIG, 0,
        "zookeeper %.120s: a session lasts %lld ms there, too short for a "
        "lease of %lld ms with a release budget of %lld ms; set "
        "maxSessionTimeout (20 times tickTime unless set) to %lld ms or more, "
        "or give a release budget of at most %lld ms",
        self->settings.hosts, (long long)self->certainty.timeout_ms,
        (long long)latch->lease_ms, (long long)budget_ms,
        (long long)latch->lease_ms, (long long)(most_ms > 0 ? most_ms : 0));
    simba__deadline_complete(&latch->acquire, SIMBA_EMISCONFIG, &error);
    tidy(latch);
    return true;
}

/* The lowest owns, if the session is certain for long enough to work with. */
static void grant(struct simba__zk_latch *latch)
{
    const struct simba__zk_certainty *certainty = &latch->self->certainty;
    int64_t lease_ms = simba__zk_certainty_lease(certainty, latch->acquire_ms);
    simba_reply *reply = &latch->acquire->reply;

    assert(latch->state == SIMBA__ZK_PRESENT && !latch->is_leaving);
    simba__zk_watch_own(latch);
    if (lease_ms < simba__zk_lease_least_ms(full_lease_ms(latch))) {
        int64_t wait_ms =
            simba__zk_certainty_next(certainty) - simba_loop_now_ms();

        latch->owner = simba_owner_none(); /* nobody can have it but us */
        refuse(latch, wait_ms > 1 ? wait_ms : 1);
        return;
    }
    latch->owner = simba__zk_owner_self(latch);
    latch->was_granted = true;
    latch->lapses_ms = latch->acquire_ms + latch->lease_ms;
    reply->mine = true;
    reply->token = (uint64_t)latch->czxid;
    reply->lease_ms = lease_ms;
    reply->session_ms = (uint32_t)certainty->timeout_ms;
    reply->owner = latch->owner;
    simba__deadline_complete(&latch->acquire, SIMBA_OK, NULL);
}

/* --- what follows from the replies of the servers ------------------------ */

/* The node is gone, whatever removed it; or the servers do not let us. */
static void has_left(struct simba__zk_latch *latch)
{
    simba_error error;
    int status = SIMBA_OK;

    if (latch->state != SIMBA__ZK_ABSENT) {
        status = simba__zk_fail(latch->self, latch->write_rc, &error);
        simba__log(&latch->self->log, SIMBA_LOG_ERROR,
                   "cannot remove a latch: %s", error.message);
    }
    latch->state = SIMBA__ZK_ABSENT;
    latch->was_granted = false;
    if (latch->acquire != NULL) {
        refuse(latch, full_lease_ms(latch));
    }
    simba__deadline_complete(&latch->release, status, &error);
    if (latch->mutex != NULL) {
        simba__zk_wake_next(latch->self, latch->mutex);
        tidy(latch);
    }
}

/* A latch whose number has wrapped would be the lowest, whoever owns the mutex:
 * it is given back. */
static void refuse_wrapped(struct simba__zk_latch *latch)
{
    simba_error error;

    simba_error_set(&error, SIMBA_EMISCONFIG, 0,
                    "zookeeper: %.200s has used up its sequence numbers; "
                    "delete the node when nobody contends for it",
                    latch->mutex->path);
    latch->is_leaving = true;
    simba__deadline_complete(&latch->acquire, SIMBA_EMISCONFIG, &error);
    simba__zk_latch_go(latch);
}

static void decide(struct simba__zk_latch *latch, enum simba__zk_batch batch)
{
    int write_rc = latch->write_rc, read_rc = latch->read_rc;

    if (simba__zk_is_lost(write_rc) || simba__zk_is_lost(read_rc) ||
        simba__zk_is_lost(latch->owner_rc)) {
        if (latch->acquire != NULL) { /* who leaves waits for a connection */
            fail_acquire(latch, ZCONNECTIONLOSS);
        }
        return;
    }
    if (batch == SIMBA__ZK_REMOVE) {
        has_left(latch);
        return;
    }
    if (latch->is_leaving) {
        if (batch == SIMBA__ZK_FIND && latch->state == SIMBA__ZK_DOUBTFUL) {
            latch->state = SIMBA__ZK_PRESENT; /* its name is enough */
        }
        simba__zk_latch_go(latch);
        return;
    }
    if (latch->acquire == NULL) {
        tidy(latch);
        return;
    }
    switch (batch) {
    case SIMBA__ZK_CREATE:
        if (write_rc == ZNONODE) {
            simba__zk_latch_go(latch); /* with its parents */
            return;
        }
        if (write_rc != ZOK || read_rc != ZOK) {
            fail_acquire(latch, write_rc != ZOK ? write_rc : read_rc);
            return;
        }
        if (simba__zk_is_wrapped(latch->node)) {
            refuse_wrapped(latch);
            return;
        }
        break;
    case SIMBA__ZK_CHECK:
        if (!simba__zk_is_by_quorum(read_rc) ||
            !simba__zk_is_by_quorum(write_rc)) {
            fail_acquire(latch,
                         simba__zk_is_by_quorum(read_rc) ? write_rc : read_rc);
            return;
        }
        break;
    case SIMBA__ZK_FIND:
        if (latch->state != SIMBA__ZK_ABSENT) {
            simba__zk_send(latch, SIMBA__ZK_IDENTIFY);
            return;
        }
        break;
    case SIMBA__ZK_QUEUE:
        if (read_rc == ZNONODE) {
            simba__zk_latch_go(latch); /* it went before it could be watched */
        } else if (read_rc != ZOK) {
            fail_acquire(latch, read_rc);
        } else if (!latch->acquire->join) {
            latch->is_leaving = true; /* answered when the node is gone */
            simba__zk_latch_go(latch);
        } else {
            simba__zk_watch_own(latch);
            refuse(latch, full_lease_ms(latch));
        }
        return;
    case SIMBA__ZK_IDENTIFY:
    case SIMBA__ZK_REMOVE:
    case SIMBA__ZK_NONE:
        simba__zk_latch_go(latch);
        return;
    }
    /* Where it stands among the children. */
    if (latch->state == SIMBA__ZK_PRESENT && latch->is_lowest) {
        grant(latch);
    } else if (latch->state == SIMBA__ZK_PRESENT && latch->before != NULL) {
        simba__zk_send(latch, SIMBA__ZK_QUEUE);
    } else {
        /* Vanished; or not among the children right after it was made, so gone
         * again: make another. */
        latch->state = SIMBA__ZK_ABSENT;
        simba__zk_latch_go(latch);
    }
}

void simba__zk_latch_replied(struct simba__zk_latch *latch)
{
    enum simba__zk_batch batch = latch->batch;
    struct simba__zk_mutex *mutex = latch->mutex;
    bool was_making = false, was_looker;

    latch->batch = SIMBA__ZK_NONE;
    if (mutex == NULL) {
        return;
    }
    mutex->holds++; /* the latch may be forgotten while others wait in there */
    was_looker = mutex->looker == latch;
    if (batch == SIMBA__ZK_CREATE) {
        was_making = mutex->is_making;
        mutex->is_making = false;
        mutex->is_made = latch->write_rc == ZOK;
        latch->self->is_base_made |= mutex->is_made;
    }
    decide(latch, batch);
    if (was_making && !mutex->is_making && latch->mutex != NULL) {
        simba__zk_latches_each(latch->self, mutex, simba__zk_latch_go);
    }
    if (was_looker) {
        simba__zk_backstop_end(latch, mutex);
    }
    latch->owner_rc = ZOK;
    if (latch->batch == SIMBA__ZK_NONE) {
        latch->read_rc = latch->write_rc = ZOK;
    }
    mutex->holds--;
    simba__zk_mutex_tidy(latch->self, mutex);
}

void simba__zk_latch_go(struct simba__zk_latch *latch)
{
    const struct simba__zk *self = latch->self;
    struct simba__zk_mutex *mutex = latch->mutex;

    if (latch->replies_due > 0 || latch->batch != SIMBA__ZK_NONE) {
        return;
    }
    if (latch->is_leaving && latch->state == SIMBA__ZK_ABSENT) {
        has_left(latch);
        return;
    }
    if (!self->is_connected || self->is_closing) {
        return;
    }
    if (latch->is_leaving) {
        simba__zk_send(latch, latch->state == SIMBA__ZK_DOUBTFUL
                                  ? SIMBA__ZK_FIND
                                  : SIMBA__ZK_REMOVE);
        return;
    }
    if (latch->acquire == NULL) {
        return;
    }
    assert(mutex != NULL);
    if (latch->state == SIMBA__ZK_ABSENT && is_too_short(latch)) {
        return;
    }
    if (latch->state == SIMBA__ZK_ABSENT && !mutex->is_made) {
        /* A thousand who are told that there is no such mutex would come back
         * in another order: one makes it, the others wait for that. */
        if (mutex->is_making) {
            return;
        }
        mutex->is_making = true;
    }
    if (++latch->rounds > ROUNDS_MOST) {
        mutex->is_making = false;
        fail_acquire(latch, ZNONODE);
        return;
    }
    if (latch->state == SIMBA__ZK_ABSENT) {
        simba__zk_send(latch, SIMBA__ZK_CREATE);
        return;
    }
    if (latch->state == SIMBA__ZK_DOUBTFUL) {
        simba__zk_send(latch, SIMBA__ZK_FIND);
        return;
    }
    switch (simba__zk_backstop(latch)) {
    case SIMBA__ZK_LOOKS:
        simba__zk_send(latch, SIMBA__ZK_CHECK);
        break;
    case SIMBA__ZK_CONFIRMED:
        refuse(latch, full_lease_ms(latch));
        break;
    case SIMBA__ZK_WAITS:
        break;
    }
}

void simba__zk_latch_lost(struct simba__zk_latch *latch)
{
    latch->replies_due = 0;
    latch->batch = SIMBA__ZK_NONE;
    latch->state = SIMBA__ZK_ABSENT;
    latch->is_watched = false;
    latch->confirmed_ms = 0;
    latch->write_rc = latch->read_rc = latch->owner_rc = ZOK;
    if (latch->renewal != NULL) {
        simba__zk_renew_refuse(latch);
    } else {
        simba__zk_latch_go(latch); /* if it was to leave, it has left */
    }
}

/* --- deadlines ----------------------------------------------------------- */

static int64_t acquire_until_ms(const struct simba__zk_latch *latch)
{
    return latch->acquire == NULL
               ? INT64_MAX
               : simba__zk_waits_until(latch->self, latch->acquire,
                                       latch->acquire_ms);
}

void simba__zk_latch_fail_unsent(struct simba__zk_latch *latch)
{
    simba_error error;

    if (latch->acquire != NULL && latch->batch == SIMBA__ZK_NONE &&
        latch->state == SIMBA__ZK_ABSENT) { /* had no effect */
        int status = simba__zk_unanswered(latch->self, &error);

        simba__deadline_complete(&latch->acquire, status, &error);
        tidy(latch);
    }
}

static void on_deadline(simba_timer *timer)
{
    struct simba__zk_latch *latch =
        container_of(timer, struct simba__zk_latch, deadline);
    const char *hosts = latch->self->settings.hosts;

    latch->references++;
    if (acquire_until_ms(latch) <= simba_loop_now_ms()) {
        simba__zk_latch_fail_unsent(latch);
    }
    simba__deadline_expire(&latch->acquire, "zookeeper", hosts);
    simba__deadline_expire(&latch->renewal, "zookeeper", hosts);
    simba__deadline_expire(&latch->release, "zookeeper", hosts);
    if (latch->mutex != NULL) {
        tidy(latch);
    }
    /* The node of a living session does not vanish by itself: of a tenure that
     * nobody renews, and of a position that nobody asks for, it is removed. */
    if (latch->mutex != NULL && is_idle(latch) &&
        latch->lapses_ms <= simba_loop_now_ms()) {
        latch->is_leaving = true;
        simba__zk_latch_go(latch);
    }
    if (latch->mutex != NULL) {
        simba__zk_latch_arm(latch);
    }
    simba__zk_latch_unref(latch);
}

void simba__zk_latch_arm(struct simba__zk_latch *latch)
{
    bool lapses = is_idle(latch) && latch->state == SIMBA__ZK_PRESENT &&
                  !latch->is_leaving;
    int64_t at_ms = lapses ? latch->lapses_ms : acquire_until_ms(latch);

    if (latch->renewal != NULL && latch->renewal->deadline_ms < at_ms) {
        at_ms = latch->renewal->deadline_ms;
    }
    if (latch->release != NULL && latch->release->deadline_ms < at_ms) {
        at_ms = latch->release->deadline_ms;
    }
    latch->deadline.fire = on_deadline;
    simba_timer_set(latch->self->base.loop, &latch->deadline, at_ms);
}

/* --- the requests -------------------------------------------------------- */

/* Tombstones are of attempts that this process has undone itself: no other can
 * bring them. */
static bool is_entombed(struct simba__zk *self, simba_attempt attempt)
{
    struct simba__zk_tombstone **at = &self->tombstones, *tombstone;
    int64_t now_ms = simba_loop_now_ms();
    bool is_found = false;

    while ((tombstone = *at) != NULL) {
        if (tombstone->until_ms < now_ms) {
            *at = tombstone->next;
            free(tombstone);
            continue;
        }
        is_found |= simba__attempt_equal(tombstone->attempt, attempt);
        at = &tombstone->next;
    }
    return is_found;
}

void simba__zk_acquire(struct simba__zk *self, simba_request *request)
{
    struct simba__zk_latch *latch;
    simba_error error;
    int rc = simba__zk_session_want(self, request, &error);

    if (rc == SIMBA_OK && self->handle == NULL &&
        (self->failure.code == SIMBA_EDENIED ||
         self->failure.native == SIMBA__UNKNOWN_HOST)) {
        rc = simba__zk_unanswered(self, &error);
    }
    if (rc != SIMBA_OK || is_entombed(self, request->attempt)) {
        simba_request_done(request, rc, rc == SIMBA_OK ? NULL : &error);
        return;
    }
    latch = simba__zk_latch_get(self, request);
    if (latch == NULL) {
        simba__zk_give_up(&request, SIMBA_ENOMEM, "no memory");
        return;
    }
    latch->references++;
    simba__zk_give_up(&latch->acquire, SIMBA_EUNKNOWN, "no answer in time");
    if (latch->is_leaving) {
        simba_request_done(request, SIMBA_OK, NULL); /* this attempt is over */
    } else {
        int64_t lease_ms = request->ttl_ms + request->transition_ms;

        latch->acquire = request;
        latch->acquire_ms = simba_loop_now_ms();
        latch->lease_ms = lease_ms;
        latch->lapses_ms =
            latch->acquire_ms +
            (request->waiter_ms > lease_ms ? request->waiter_ms : lease_ms);
        latch->rounds = 0;
        simba__zk_latch_arm(latch);
        simba__zk_latch_go(latch);
    }
    simba__zk_latch_unref(latch);
}

/* The end of an attempt: of its position in the queue, and with a release also
 * of its tenure. Once it has begun it goes on until the node is gone, however
 * long the request waits: the node of a living session does not vanish by
 * itself. */
void simba__zk_release(struct simba__zk *self, simba_request *request)
{
    struct simba__zk_latch *latch = simba__zk_latch_find(self, request);
    bool is_release = request->kind == SIMBA_RELEASE;
    struct simba__zk_tombstone *tombstone =
        is_release && request->tombstone_ms > 0 ? malloc(sizeof *tombstone)
                                                : NULL;

    if (tombstone != NULL) {
        *tombstone = (struct simba__zk_tombstone){
            .next = self->tombstones,
            .attempt = request->attempt,
            .until_ms = simba_loop_now_ms() + request->tombstone_ms};
        self->tombstones = tombstone;
    }
    if (latch == NULL || (!is_release && latch->was_granted)) {
        simba_request_done(request, SIMBA_OK, NULL);
        return;
    }
    latch->references++;
    latch->is_leaving = true;
    simba__zk_give_up(&latch->acquire, SIMBA_EUNKNOWN, "no answer in time");
    simba__zk_give_up(&latch->renewal, SIMBA_EUNKNOWN, "no answer in time");
    simba__zk_give_up(&latch->release, SIMBA_EUNKNOWN, "no answer in time");
    latch->release = request;
    simba__zk_latch_arm(latch);
    simba__zk_latch_go(latch);
    simba__zk_latch_unref(latch);
}
