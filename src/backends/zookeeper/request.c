#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <assert.h>
#include <stdlib.h>

/* Operations of a latch: how they come, and how long they wait. */

/* --- deadlines ----------------------------------------------------------- */

static void expire(simba_request **slot)
{
    if (*slot != NULL && (*slot)->deadline_ms <= simba_loop_now_ms()) {
        simba__zk_give_up(slot, SIMBA_EUNKNOWN, "no answer in time");
    }
}

/* Nothing was sent yet: it surely had no effect. */
static bool is_unsent(const struct simba__zk_latch *latch)
{
    return latch->flight == SIMBA__ZK_NOTHING &&
           latch->position == SIMBA__ZK_ABSENT;
}

static int64_t asks_until(const struct simba__zk_latch *latch)
{
    if (latch->asking == NULL) {
        return INT64_MAX;
    }
    return simba__zk_waits_until(latch->self, latch->asking, latch->asked_ms);
}

static void expire_asking(struct simba__zk_latch *latch)
{
    simba_error error;
    int status;

    if (asks_until(latch) > simba_loop_now_ms()) {
        return;
    }
    if (!is_unsent(latch)) {
        expire(&latch->asking);
        return;
    }
    status = simba__zk_unanswered(latch->self, &error);
    simba__zk_finish(&latch->asking, status, &error);
}

/* The node of a living session does not vanish by itself: of a tenure that
 * nobody renews, and of a place that nobody asks for, it is removed. */
static void lapse(struct simba__zk_latch *latch)
{
    if (latch->room != NULL && latch->asking == NULL &&
        latch->renewing == NULL && latch->parting == NULL &&
        latch->lapses_ms <= simba_loop_now_ms()) {
        latch->is_doomed = true;
        simba__zk_latch_go(latch);
    }
}

static void on_deadline(simba_timer *timer)
{
    struct simba__zk_latch *latch =
        (struct simba__zk_latch *)(void *)((char *)timer -
                                           offsetof(struct simba__zk_latch,
                                                    deadline));

    latch->references++;
    expire_asking(latch);
    expire(&latch->renewing);
    expire(&latch->parting);
    if (latch->room != NULL) {
        simba__zk_latch_tidy(latch);
    }
    lapse(latch);
    if (latch->room != NULL) {
        simba__zk_latch_arm(latch);
    }
    simba__zk_latch_unref(latch);
}

static int64_t earlier(int64_t at_ms, const simba_request *request)
{
    return request != NULL && request->deadline_ms < at_ms
               ? request->deadline_ms
               : at_ms;
}

void simba__zk_latch_arm(struct simba__zk_latch *latch)
{
    bool is_idle = latch->asking == NULL && latch->renewing == NULL &&
                   latch->parting == NULL &&
                   latch->position == SIMBA__ZK_STANDING && !latch->is_doomed;
    int64_t at = is_idle ? latch->lapses_ms : asks_until(latch);

    at = earlier(at, latch->renewing);
    at = earlier(at, latch->parting);

    latch->deadline.fire = on_deadline;
    simba_timer_set(latch->self->base.loop, &latch->deadline, at);
}

/* --- tombstones ---------------------------------------------------------- */

/* Of an attempt that this process has undone itself: no other can bring it. */
static void entomb(struct simba__zk *self, const simba_request *request)
{
    struct simba__zk_tomb *tomb =
        request->tombstone_ms > 0 ? malloc(sizeof *tomb) : NULL;

    if (tomb != NULL) {
        *tomb = (struct simba__zk_tomb){.next = self->tombs,
                                        .attempt = request->attempt,
                                        .until_ms = simba_loop_now_ms() +
                                                    request->tombstone_ms};
        self->tombs = tomb;
    }
}

static bool is_entombed(struct simba__zk *self, simba_attempt attempt)
{
    struct simba__zk_tomb **at = &self->tombs, *tomb;
    int64_t now_ms = simba_loop_now_ms();
    bool is_found = false;

    while ((tomb = *at) != NULL) {
        if (tomb->until_ms < now_ms) {
            *at = tomb->next;
            free(tomb);
            continue;
        }
        is_found |= tomb->attempt.high == attempt.high &&
                    tomb->attempt.low == attempt.low;
        at = &tomb->next;
    }
    return is_found;
}

/* --- operations ---------------------------------------------------------- */

static void ask(struct simba__zk_latch *latch, simba_request *request)
{
    latch->references++;
    simba__zk_give_up(&latch->asking, SIMBA_EUNKNOWN, "asked again");
    if (latch->is_doomed) {
        simba__zk_finish(&request, SIMBA_OK, NULL); /* this attempt is over */
    } else {
        latch->asking = request;
        latch->asked_ms = simba_loop_now_ms();
        latch->lease_ms = request->ttl_ms + request->transition_ms;
        latch->lapses_ms =
            latch->asked_ms + (request->waiter_ms > latch->lease_ms
                                   ? request->waiter_ms
                                   : latch->lease_ms);
        latch->rounds = 0;
        simba__zk_latch_arm(latch);
        simba__zk_latch_go(latch);
    }
    simba__zk_latch_unref(latch);
}

void simba__zk_acquire(struct simba__zk *self, simba_request *request)
{
    struct simba__zk_room *room;
    struct simba__zk_latch *latch = NULL;
    simba_error error;
    int rc = simba__zk_session_want(self, request, &error);

    if (rc == SIMBA_OK && self->handle == NULL &&
        self->trouble.code == SIMBA_EDENIED) {
        rc = simba__zk_unanswered(self, &error);
    }
    if (rc != SIMBA_OK || is_entombed(self, request->attempt)) {
        simba_request_done(request, rc, rc == SIMBA_OK ? NULL : &error);
        return;
    }
    room = simba__zk_room(self, request->mutex);
    if (room != NULL) {
        latch = simba__zk_latch_find(room, request->attempt);
    }
    if (latch == NULL && room != NULL) {
        latch = simba__zk_latch_make(self, room, request);
    }
    if (latch == NULL) {
        simba__zk_give_up(&request, SIMBA_ENOMEM, "no memory");
        return;
    }
    ask(latch, request);
}

/* The end of an attempt: of its position in the queue, and with a release also
 * of its tenure. Once it has begun it goes on until the node is gone, however
 * long the operation waits: the node of a living session does not vanish by
 * itself. */
static void part(struct simba__zk_latch *latch, simba_request *request)
{
    latch->references++;
    latch->is_doomed = true;
    simba__zk_give_up(&latch->asking, SIMBA_EUNKNOWN, "given up");
    simba__zk_give_up(&latch->renewing, SIMBA_EUNKNOWN, "given up");
    simba__zk_give_up(&latch->parting, SIMBA_EUNKNOWN, "asked again");
    latch->parting = request;
    simba__zk_latch_arm(latch);
    simba__zk_latch_go(latch);
    simba__zk_latch_unref(latch);
}

void simba__zk_part(struct simba__zk *self, simba_request *request)
{
    struct simba__zk_room *room = simba__zk_room(self, request->mutex);
    struct simba__zk_latch *latch =
        room == NULL ? NULL : simba__zk_latch_find(room, request->attempt);

    if (request->kind == SIMBA_RELEASE) {
        entomb(self, request);
    }
    if (latch == NULL || (request->kind == SIMBA_LEAVE && latch->was_granted)) {
        if (room != NULL) {
            simba__zk_room_tidy(self, room);
        }
        simba_request_done(request, SIMBA_OK, NULL);
        return;
    }
    part(latch, request);
}

/* One latch: what is asked of it, and what follows from what the flights
 * bring.
 *
 *             CREATE             lowest
 *   ABSENT ------------> STANDING -----> mine
 *     ^  \                 |  ^  \
 *     |   \ unanswered     |  |   \ not lowest
 *     |    v               |  |    v
 *     |  DOUBTFUL --FIND---'  '-- LINE: watch the one before, answer
 *     |                    |
 *     '------ REMOVE, vanished, session lost */

/* A mutex whose parents vanish so often between two requests is no mutex. */
enum { ROUNDS_MOST = 8 };

/* --- answers ------------------------------------------------------------- */

/* Takes the operation first: who hears the answer may come with the next. */
void simba__zk_finish(simba_request **slot,
                      int status,
                      const simba_error *error)
{
    simba_request *request = *slot;

    *slot = NULL;
    if (request != NULL) {
        simba_request_done(request, status, error);
    }
}

void simba__zk_give_up(simba_request **slot, int status, const char *why)
{
    simba_error error;

    simba_error_set(&error, status, 0, "zookeeper: %s", why);
    simba__zk_finish(slot, status, &error);
}

/* A latch that is not there, of which nothing is asked, is forgotten; unless
 * its tenure was told, for then its end has to be told as well. */
void simba__zk_latch_tidy(struct simba__zk_latch *latch)
{
    if (latch->asking == NULL && latch->parting == NULL &&
        latch->renewing == NULL && latch->calls == 0 &&
        latch->position == SIMBA__ZK_ABSENT && !latch->was_granted) {
        simba__zk_latch_forget(latch);
    }
}

static void fail_asking(struct simba__zk_latch *latch, int rc)
{
    simba_error error;
    int status = simba__zk_fail(latch->self, rc, &error);

    simba__zk_finish(&latch->asking, status, &error);
    simba__zk_latch_tidy(latch);
}

static void refuse(struct simba__zk_latch *latch, int64_t wait_ms)
{
    simba_reply *reply = &latch->asking->reply;

    reply->is_queued = latch->position == SIMBA__ZK_STANDING;
    reply->is_head = latch->is_lowest || latch->is_second;
    reply->position = reply->is_queued ? simba__zk_place(latch->node) : 0;
    reply->wait_ms = wait_ms;
    reply->owner = latch->owner;
    simba__zk_finish(&latch->asking, SIMBA_OK, NULL);
}

/* --- the lowest owns ----------------------------------------------------- */

/* The lease asked for, or the session's if that is shorter. */
static int64_t full_lease_ms(const struct simba__zk_latch *latch)
{
    int64_t asked = latch->asking->ttl_ms + latch->asking->transition_ms;
    int64_t timeout = latch->self->guard.timeout_ms;

    return asked < timeout ? asked : timeout;
}

/* Enough to work with: what guards every T/4 leave at least. */
static bool is_enough(const struct simba__zk_latch *latch, int64_t lease_ms)
{
    return lease_ms >= full_lease_ms(latch) * 3 / 8;
}

static void grant(struct simba__zk_latch *latch)
{
    const struct simba__zk_guard *guard = &latch->self->guard;
    int64_t lease_ms = simba__zk_guard_lease(guard, latch->asked_ms);
    simba_reply *reply = &latch->asking->reply;

    latch->owner = simba__zk_owner_self(latch);
    simba__zk_watch_own(latch);
    if (!is_enough(latch, lease_ms)) {
        int64_t wait = simba__zk_guard_next(guard) - simba_loop_now_ms();

        latch->owner = simba_owner_none(); /* nobody can have it but us */
        refuse(latch, wait > 1 ? wait : 1);
        return;
    }
    latch->was_granted = true;
    latch->lapses_ms = latch->asked_ms + latch->lease_ms;
    reply->mine = true;
    reply->token = (uint64_t)latch->czxid;
    reply->lease_ms = lease_ms;
    reply->owner = latch->owner;
    simba__zk_finish(&latch->asking, SIMBA_OK, NULL);
}

/* --- what the flights bring ---------------------------------------------- */

static void judge(struct simba__zk_latch *latch)
{
    if (latch->position != SIMBA__ZK_STANDING) {
        simba__zk_latch_go(latch); /* vanished: make another */
    } else if (latch->is_lowest) {
        grant(latch);
    } else if (latch->before == NULL) {
        /* Not among the children right after it was made: gone again. */
        latch->position = SIMBA__ZK_ABSENT;
        simba__zk_latch_go(latch);
    } else {
        simba__zk_fly(latch, SIMBA__ZK_LINE);
    }
}

/* It would be the lowest, whoever owns the mutex. */
static void give_back(struct simba__zk_latch *latch)
{
    simba_error error;

    simba_error_set(&error, SIMBA_EMISCONFIG, 0,
                    "zookeeper: %.200s has used up its sequence numbers; "
                    "delete the node when nobody contends for it",
                    latch->room->path);
    latch->is_doomed = true;
    simba__zk_finish(&latch->asking, SIMBA_EMISCONFIG, &error);
    simba__zk_latch_go(latch);
}

static void created(struct simba__zk_latch *latch)
{
    if (latch->write_rc == ZNONODE) {
        simba__zk_latch_go(latch); /* with its parents */
    } else if (latch->write_rc != ZOK || latch->read_rc != ZOK) {
        fail_asking(latch,
                    latch->write_rc != ZOK ? latch->write_rc : latch->read_rc);
    } else if (simba__zk_is_wrapped(latch->node)) {
        give_back(latch);
    } else {
        judge(latch);
    }
}

static void looked(struct simba__zk_latch *latch)
{
    if (latch->read_rc != ZOK && latch->read_rc != ZNONODE) {
        fail_asking(latch, latch->read_rc);
    } else if (latch->write_rc != ZOK && latch->write_rc != ZNONODE) {
        fail_asking(latch, latch->write_rc);
    } else {
        judge(latch);
    }
}

static void found(struct simba__zk_latch *latch)
{
    if (latch->position == SIMBA__ZK_ABSENT) {
        simba__zk_latch_go(latch);
    } else {
        simba__zk_fly(latch, SIMBA__ZK_IDENTIFY);
    }
}

static void lined_up(struct simba__zk_latch *latch)
{
    if (latch->read_rc == ZNONODE) {
        simba__zk_latch_go(latch); /* it went before it could be watched */
    } else if (latch->read_rc != ZOK) {
        fail_asking(latch, latch->read_rc);
    } else if (!latch->asking->join) {
        latch->is_doomed = true; /* answered when the node is gone */
        simba__zk_latch_go(latch);
    } else {
        simba__zk_watch_own(latch);
        refuse(latch, full_lease_ms(latch));
    }
}

/* Whatever brought us here, the node is not there any more. */
static void removed(struct simba__zk_latch *latch)
{
    simba_error error;
    int status = SIMBA_OK;

    if (latch->position != SIMBA__ZK_ABSENT) { /* not allowed to */
        status = simba__zk_fail(latch->self, latch->write_rc, &error);
        simba__zk_log(latch->self, SIMBA_LOG_ERROR, "cannot remove a latch: %s",
                      error.message);
    }
    latch->position = SIMBA__ZK_ABSENT;
    latch->was_granted = false;
    if (latch->asking != NULL) {
        refuse(latch, full_lease_ms(latch));
    }
    simba__zk_finish(&latch->parting, status,
                     status == SIMBA_OK ? NULL : &error);
    if (latch->room != NULL) {
        simba__zk_look_behind(latch->self, latch->room);
        simba__zk_latch_tidy(latch);
    }
}

static bool was_lost(const struct simba__zk_latch *latch)
{
    return simba__zk_is_lost(latch->write_rc) ||
           simba__zk_is_lost(latch->read_rc) ||
           simba__zk_is_lost(latch->owner_rc);
}

static void land(struct simba__zk_latch *latch, enum simba__zk_flight flight)
{
    if (was_lost(latch)) { /* what is doomed waits for the next connection */
        if (latch->asking != NULL) {
            fail_asking(latch, ZCONNECTIONLOSS);
        }
    } else if (flight == SIMBA__ZK_REMOVE) {
        removed(latch);
    } else if (latch->is_doomed) {
        if (flight == SIMBA__ZK_FIND && latch->position == SIMBA__ZK_DOUBTFUL) {
            latch->position = SIMBA__ZK_STANDING; /* enough to remove it */
        }
        simba__zk_latch_go(latch);
    } else if (latch->asking == NULL) {
        simba__zk_latch_tidy(latch);
    } else if (flight == SIMBA__ZK_CREATE) {
        created(latch);
    } else if (flight == SIMBA__ZK_LINE) {
        lined_up(latch);
    } else if (flight == SIMBA__ZK_FIND) {
        found(latch);
    } else if (flight == SIMBA__ZK_IDENTIFY) {
        simba__zk_latch_go(latch);
    } else {
        looked(latch);
    }
}

/* Whether the mutex has a node; if so, those who waited for it go on. */
static void open_room(struct simba__zk_latch *latch, bool was_making)
{
    struct simba__zk_room *room = latch->room;

    if (room != NULL && was_making && !room->is_making) {
        simba__zk_room_each(latch->self, room, simba__zk_latch_go);
    }
}

void simba__zk_latch_landed(struct simba__zk_latch *latch)
{
    enum simba__zk_flight flight = latch->flight;
    struct simba__zk_room *held = simba__zk_backstop_hold(latch);
    bool was_making = false;

    latch->flight = SIMBA__ZK_NOTHING;
    if (latch->room != NULL && flight == SIMBA__ZK_CREATE) {
        was_making = latch->room->is_making;
        latch->room->is_making = false;
        latch->room->is_made = latch->write_rc == ZOK;
        latch->self->is_base_made |= latch->room->is_made;
    }
    if (latch->room != NULL) {
        land(latch, flight);
    }
    open_room(latch, was_making);
    simba__zk_backstop_free(latch, held);
    latch->owner_rc = ZOK;
    if (latch->room != NULL && latch->flight == SIMBA__ZK_NOTHING) {
        latch->read_rc = ZOK;
        latch->write_rc = ZOK;
    }
}

static void go_look(struct simba__zk_latch *latch)
{
    switch (simba__zk_backstop(latch)) {
    case SIMBA__ZK_LOOKS:
        simba__zk_fly(latch, SIMBA__ZK_LOOK);
        break;
    case SIMBA__ZK_CONFIRMED:
        refuse(latch, full_lease_ms(latch));
        break;
    case SIMBA__ZK_WAITS:
        break;
    }
}

static void go_ask(struct simba__zk_latch *latch)
{
    if (latch->position == SIMBA__ZK_ABSENT && !latch->room->is_made) {
        /* A thousand who are told that there is no such mutex would come back
         * in another order. */
        if (latch->room->is_making) {
            return;
        }
        latch->room->is_making = true;
    }
    if (++latch->rounds > ROUNDS_MOST) {
        latch->room->is_making = false;
        fail_asking(latch, ZNONODE);
        return;
    }
    if (latch->position == SIMBA__ZK_STANDING) {
        go_look(latch);
    } else {
        simba__zk_fly(latch, latch->position == SIMBA__ZK_ABSENT
                                 ? SIMBA__ZK_CREATE
                                 : SIMBA__ZK_FIND);
    }
}

void simba__zk_latch_go(struct simba__zk_latch *latch)
{
    struct simba__zk *self = latch->self;

    if (latch->calls > 0 || latch->flight != SIMBA__ZK_NOTHING) {
        return;
    }
    if (latch->is_doomed && latch->position == SIMBA__ZK_ABSENT) {
        removed(latch);
    } else if (!self->is_connected || self->is_closing) {
        return;
    } else if (latch->is_doomed) {
        simba__zk_fly(latch, latch->position == SIMBA__ZK_DOUBTFUL
                                 ? SIMBA__ZK_FIND
                                 : SIMBA__ZK_REMOVE);
    } else if (latch->asking != NULL) {
        go_ask(latch);
    }
}

void simba__zk_latch_lost(struct simba__zk_latch *latch)
{
    latch->calls = 0;
    latch->flight = SIMBA__ZK_NOTHING;
    latch->position = SIMBA__ZK_ABSENT;
    latch->is_watched = false;
    latch->confirmed_ms = 0;
    latch->write_rc = latch->read_rc = latch->owner_rc = ZOK;
    if (latch->renewing != NULL) {
        simba__zk_renew_refuse(latch);
    } else {
        simba__zk_latch_go(latch); /* doomed: done */
    }
}
