/* Operations of a latch: how they come, and how long they wait. */
#include "backends/zookeeper/instance.h"

#include <stdlib.h>

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
