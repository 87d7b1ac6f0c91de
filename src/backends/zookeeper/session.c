#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <stdlib.h>
#include <string.h>

void simba__zk_guard_init(struct simba__zk_guard *guard,
                          int64_t timeout_ms,
                          int64_t born_ms)
{
    *guard =
        (struct simba__zk_guard){.timeout_ms = timeout_ms, .since_ms = born_ms};
}

/* Of a create or a multi of checks. What fails for want of a node is agreed
 * upon like what succeeds. */
bool simba__zk_guard_counts(int rc)
{
    return rc == ZOK || rc == ZNONODE;
}

/* Rounded up: a quarter is what a late ping may take. */
static int64_t apart_ms(const struct simba__zk_guard *guard)
{
    return (guard->timeout_ms + 3) / 4;
}

static void remember(struct simba__zk_guard *guard, struct simba__zk_mark mark)
{
    int last = guard->count - 1;

    if (last >= 0 && mark.sent_ms - guard->marks[last].sent_ms <
                         guard->timeout_ms / SIMBA__ZK_MARKS) {
        return; /* as good as the last one */
    }
    if (guard->count == SIMBA__ZK_MARKS) {
        memmove(guard->marks, guard->marks + 1,
                sizeof guard->marks - sizeof guard->marks[0]);
        guard->count--;
    }
    guard->marks[guard->count++] = mark;
}

void simba__zk_guard_heard(struct simba__zk_guard *guard,
                           int64_t sent_ms,
                           int64_t heard_ms)
{
    struct simba__zk_mark mark = {sent_ms, heard_ms};

    for (int i = guard->count - 1; i >= 0; i--) {
        if (sent_ms - guard->marks[i].heard_ms >= apart_ms(guard)) {
            if (guard->marks[i].sent_ms > guard->since_ms) {
                guard->since_ms = guard->marks[i].sent_ms;
            }
            break;
        }
    }
    remember(guard, mark);
}

int64_t simba__zk_guard_lease(const struct simba__zk_guard *guard,
                              int64_t sent_ms)
{
    /* An operation may be older than the session it waited for. */
    int64_t elapsed = sent_ms > guard->since_ms ? sent_ms - guard->since_ms : 0;
    int64_t drift = (elapsed * 21 + 999) / 1000;
    int64_t lease = guard->timeout_ms - elapsed - drift;

    return lease > 1 ? lease : 1;
}

int64_t simba__zk_guard_next(const struct simba__zk_guard *guard)
{
    int64_t newest = guard->count > 0 ? guard->marks[guard->count - 1].heard_ms
                                      : guard->since_ms;

    return newest + apart_ms(guard);
}

/* Guards: quorum writes that fire no watch. One serves all renewals that have
 * come since the last, and while there are latches there is one every T/4 even
 * if nobody asks, so that who becomes the lowest is owner at once. */

/* A multi must fit into a packet, 1 MiB by default. */
enum { CHECKS_MOST = 256 };

/* One guard under way, and whose renewals it carries. */
struct guard_call {
    struct simba__zk *self;
    uint64_t generation;
    int64_t sent_ms;
    int count;
    struct simba__zk_latch *latches[CHECKS_MOST];
    simba_request *renewals[CHECKS_MOST]; /* as they were when it was sent */
    char *paths[CHECKS_MOST];
    zoo_op_result_t results[CHECKS_MOST];
};

/* --- answers ------------------------------------------------------------- */

static void answer(struct simba__zk_latch *latch)
{
    simba_request *request = latch->renewing;
    simba_reply *reply = &request->reply;

    latch->renewing = NULL;
    latch->lapses_ms = latch->renewed_ms + latch->lease_ms;
    simba__zk_watch_own(latch); /* a change of its data uses up the watch */
    reply->mine = true;
    reply->token = (uint64_t)latch->czxid;
    reply->lease_ms =
        simba__zk_guard_lease(&latch->self->guard, latch->renewed_ms);
    reply->owner = simba__zk_owner_self(latch);
    simba_request_done(request, SIMBA_OK, NULL);
}

void simba__zk_renew_refuse(struct simba__zk_latch *latch)
{
    simba_request *request = latch->renewing;

    latch->renewing = NULL;
    latch->was_granted = false;
    if (latch->asking == NULL && latch->parting == NULL) {
        simba__zk_latch_forget(latch);
    }
    simba_request_done(request, SIMBA_OK, NULL);
}

static void fail(struct simba__zk_latch *latch, int rc)
{
    simba_request *request = latch->renewing;
    simba_error error;
    int status = simba__zk_fail(latch->self, rc, &error);

    latch->renewing = NULL;
    simba_request_done(request, status, &error);
}

/* --- the queue ----------------------------------------------------------- */

static void enqueue(struct simba__zk_latch *latch)
{
    struct simba__zk *self = latch->self;

    if (latch->is_queued) {
        return;
    }
    if (self->renewals == NULL) {
        self->last_renewal = &self->renewals;
    }
    latch->is_queued = true;
    latch->references++;
    latch->next_renewing = NULL;
    *self->last_renewal = latch;
    self->last_renewal = &latch->next_renewing;
}

/* The next that still wants to be renewed; its reference is the caller's. */
static struct simba__zk_latch *dequeue(struct simba__zk *self)
{
    struct simba__zk_latch *latch;

    while ((latch = self->renewals) != NULL) {
        self->renewals = latch->next_renewing;
        latch->is_queued = false;
        if (latch->renewing != NULL && latch->room != NULL) {
            return latch;
        }
        simba__zk_latch_unref(latch);
    }
    return NULL;
}

/* --- landing ------------------------------------------------------------- */

static bool is_innocent(int error)
{
    return error == ZOK || error == ZRUNTIMEINCONSISTENCY;
}

/* A multi may be refused as a whole, and then none of its checks tells why. */
static bool has_culprit(const struct guard_call *call)
{
    for (int i = 0; i < call->count; i++) {
        if (!is_innocent(call->results[i].err)) {
            return true;
        }
    }
    return false;
}

/* Of a multi that failed, one check tells why; those before it were undone,
 * those behind it were not tried: both are sent again. */
static void land_one(struct simba__zk_latch *latch, int rc, int error)
{
    if (rc == ZOK) {
        answer(latch);
    } else if (simba__zk_is_lost(rc)) {
        fail(latch, rc);
    } else if (is_innocent(error)) {
        enqueue(latch);
    } else if (error == ZNONODE) {
        latch->position = SIMBA__ZK_ABSENT;
        simba__zk_renew_refuse(latch);
    } else {
        fail(latch, error);
    }
}

static void land(struct guard_call *call, int rc)
{
    struct simba__zk *self = call->self;
    bool is_current = call->generation == self->generation;
    bool is_refused = !simba__zk_guard_counts(rc) && !has_culprit(call);

    if (is_current) {
        self->guards--;
        is_current = simba__zk_session_lives(self, rc);
    }
    if (is_current && simba__zk_guard_counts(rc)) {
        simba__zk_guard_heard(&self->guard, call->sent_ms, simba_loop_now_ms());
    }
    for (int i = 0; i < call->count; i++) {
        struct simba__zk_latch *latch = call->latches[i];

        if (is_current && latch->renewing == call->renewals[i] &&
            latch->room != NULL) {
            land_one(latch, rc, is_refused ? rc : call->results[i].err);
        }
        simba__zk_latch_unref(latch);
    }
}

static void free_call(struct guard_call *call)
{
    for (int i = 0; i < call->count; i++) {
        free(call->paths[i]);
    }
    free(call);
}

static void on_guarded(int rc, const void *data)
{
    struct guard_call *call = (struct guard_call *)data;
    struct simba__zk *self = call->self;

    simba_loop_enter(self->base.loop);
    land(call, rc);
    simba__zk_guard_flush(self);
    simba_loop_leave(self->base.loop);
    free_call(call);
}

/* --- sending ------------------------------------------------------------- */

static void load(struct guard_call *call)
{
    struct simba__zk_latch *latch;

    while (call->count < CHECKS_MOST && (latch = dequeue(call->self)) != NULL) {
        int i = call->count;

        call->paths[i] = simba__zk_join(latch->room->path, latch->node);
        if (call->paths[i] == NULL) {
            simba__zk_latch_unref(latch); /* its deadline will tell */
            continue;
        }
        call->latches[i] = latch;
        call->renewals[i] = latch->renewing;
        call->count++;
    }
}

static void send_guard(struct simba__zk *self)
{
    struct guard_call *call = calloc(1, sizeof *call);
    zoo_op_t checks[CHECKS_MOST];
    int count = 1, rc;

    if (call == NULL) {
        return;
    }
    call->self = self;
    call->generation = self->generation;
    call->sent_ms = self->guarded_ms = simba_loop_now_ms();
    load(call);
    zoo_check_op_init(&checks[0], self->settings.base, -1);
    for (int i = 0; i < call->count; i++) {
        zoo_check_op_init(&checks[i], call->paths[i], -1);
        count = i + 1;
    }
    self->guards++;
    rc = zoo_amulti(self->handle, count, checks, call->results, on_guarded,
                    call);
    if (rc != ZOK) {
        land(call, ZCONNECTIONLOSS);
        free_call(call);
    }
}

void simba__zk_guard_flush(struct simba__zk *self)
{
    if (self->is_connected && !self->is_closing && self->guards == 0 &&
        self->renewals != NULL) {
        send_guard(self);
        simba__zk_guard_schedule(self);
    }
}

static void on_guard_due(simba_timer *timer)
{
    struct simba__zk *self =
        (struct simba__zk *)(void *)((char *)timer -
                                     offsetof(struct simba__zk, guarding));

    if (self->is_connected && self->latch_count > 0) {
        send_guard(self);
        simba__zk_guard_schedule(self);
    }
}

void simba__zk_guard_schedule(struct simba__zk *self)
{
    bool is_due = self->is_connected && self->latch_count > 0;
    int64_t at = self->guarded_ms + self->guard.timeout_ms / 4;

    self->guarding.fire = on_guard_due;
    simba_timer_set(self->base.loop, &self->guarding,
                    is_due && !self->is_closing ? at : INT64_MAX);
}

/* --- the operation ------------------------------------------------------- */

void simba__zk_renew(struct simba__zk *self, simba_request *request)
{
    struct simba__zk_room *room = simba__zk_room(self, request->mutex);
    struct simba__zk_latch *latch =
        room == NULL ? NULL : simba__zk_latch_find(room, request->attempt);
    simba_request *earlier;

    if (latch == NULL || latch->is_doomed || !latch->was_granted) {
        if (room != NULL) {
            simba__zk_room_tidy(self, room);
        }
        simba_request_done(request, SIMBA_OK, NULL);
        return;
    }
    earlier = latch->renewing;
    latch->renewing = request;
    latch->renewed_ms = simba_loop_now_ms();
    if (latch->position == SIMBA__ZK_ABSENT) {
        simba__zk_renew_refuse(latch);
    } else {
        simba__zk_latch_arm(latch);
        enqueue(latch);
        simba__zk_guard_flush(self);
    }
    if (earlier != NULL) {
        simba_request_done(earlier, SIMBA_EUNKNOWN, NULL);
    }
}
