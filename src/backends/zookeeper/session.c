/* How long the session is certain, and renewals.
 *
 * A check is a multi of `check`: a quorum write that fires no watch. One serves
 * all renewals that have come since the last, and while there are latches there
 * is a quorum write every T/4 even if nobody asks, so that who becomes the
 * lowest is owner at once. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "core/lease.h"
#include "util/container.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- certainty ----------------------------------------------------------- */

void simba__zk_certainty_init(struct simba__zk_certainty *certainty,
                              int64_t timeout_ms,
                              int64_t made_ms)
{
    *certainty = (struct simba__zk_certainty){.timeout_ms = timeout_ms,
                                              .since_ms = made_ms};
}

/* What fails for want of a node is agreed upon like what succeeds. */
bool simba__zk_is_by_quorum(int rc)
{
    return rc == ZOK || rc == ZNONODE;
}

/* How far apart two writes must be: what a late ping may take, rounded up. */
static int64_t apart_ms(const struct simba__zk_certainty *certainty)
{
    return (certainty->timeout_ms + 3) / 4;
}

void simba__zk_certainty_answered(struct simba__zk_certainty *certainty,
                                  int rc,
                                  int64_t sent_ms,
                                  int64_t now_ms)
{
    struct simba__zk_write *writes = certainty->writes;
    int last = certainty->count - 1;

    assert(certainty->count <= SIMBA__ZK_WRITES_KEPT && sent_ms <= now_ms);
    if (!simba__zk_is_by_quorum(rc)) {
        return;
    }
    for (int i = last; i >= 0; i--) {
        if (sent_ms - writes[i].answered_ms >= apart_ms(certainty)) {
            if (writes[i].sent_ms > certainty->since_ms) {
                certainty->since_ms = writes[i].sent_ms;
            }
            break;
        }
    }
    if (last >= 0 && sent_ms - writes[last].sent_ms <
                         certainty->timeout_ms / SIMBA__ZK_WRITES_KEPT) {
        return; /* as good as the last one */
    }
    if (certainty->count == SIMBA__ZK_WRITES_KEPT) {
        memmove(writes, writes + 1, sizeof certainty->writes - sizeof *writes);
        certainty->count--;
    }
    writes[certainty->count++] = (struct simba__zk_write){sent_ms, now_ms};
}

int64_t simba__zk_certainty_lease(const struct simba__zk_certainty *certainty,
                                  int64_t sent_ms)
{
    /* A request may be older than the session it waited for. */
    int64_t elapsed =
        sent_ms > certainty->since_ms ? sent_ms - certainty->since_ms : 0;
    int64_t drift = (elapsed * 21 + 999) / 1000;
    int64_t lease = certainty->timeout_ms - elapsed - drift;

    return lease > 1 ? lease : 1;
}

int64_t simba__zk_lease_least_ms(int64_t lease_ms)
{
    return lease_ms * 3 / 8;
}

int64_t simba__zk_budget_most_ms(int64_t lease_ms)
{
    struct simba__lease granted = {.ttl_ms =
                                       simba__zk_lease_least_ms(lease_ms)};

    return simba__lease_hard_ms(&granted) - 1;
}

int64_t simba__zk_certainty_next(const struct simba__zk_certainty *certainty)
{
    int64_t newest = certainty->count > 0
                         ? certainty->writes[certainty->count - 1].answered_ms
                         : certainty->since_ms;

    return newest + apart_ms(certainty);
}

/* --- replies to renewals ------------------------------------------------- */

void simba__zk_renew_refuse(struct simba__zk_latch *latch)
{
    simba_request *request = latch->renewal;

    assert(request != NULL);
    latch->renewal = NULL;
    latch->was_granted = false;
    if (latch->acquire == NULL && latch->release == NULL) {
        simba__zk_latch_forget(latch);
    }
    simba_request_done(request, SIMBA_OK, NULL);
}

static void fail_renewal(struct simba__zk_latch *latch, int rc)
{
    simba_error error;
    int status = simba__zk_fail(latch->self, rc, &error);

    simba__deadline_complete(&latch->renewal, status, &error);
}

static void queue_renewal(struct simba__zk_latch *latch)
{
    struct simba__zk *self = latch->self;

    if (latch->is_renewal_queued) {
        return;
    }
    if (self->renewals == NULL) {
        self->last_renewal = &self->renewals;
    }
    latch->is_renewal_queued = true;
    latch->references++;
    latch->next_renewal = NULL;
    *self->last_renewal = latch;
    self->last_renewal = &latch->next_renewal;
}

static void grant_renewal(struct simba__zk_latch *latch)
{
    simba_reply *reply = &latch->renewal->reply;

    latch->lapses_ms = latch->renewal_ms + latch->lease_ms;
    simba__zk_watch_own(latch); /* a change of its data uses up the watch */
    reply->mine = true;
    reply->token = (uint64_t)latch->czxid;
    reply->lease_ms =
        simba__zk_certainty_lease(&latch->self->certainty, latch->renewal_ms);
    reply->owner = simba__zk_owner_self(latch);
    simba__deadline_complete(&latch->renewal, SIMBA_OK, NULL);
}

/* --- checks -------------------------------------------------------------- */

/* A multi must fit into a packet, 1 MiB by default. */
enum { CHECKS_MOST = 256 };

/* One check under way, and whose renewals it carries. */
struct check {
    struct simba__zk *self;
    uint64_t generation;
    int64_t sent_ms;
    int count;
    struct simba__zk_latch *latches[CHECKS_MOST];
    simba_request *renewals[CHECKS_MOST]; /* as they were when it was sent */
    char *paths[CHECKS_MOST];
    zoo_op_result_t results[CHECKS_MOST];
};

/* Of a multi that failed, one result tells why; those before it were undone,
 * those behind it were not tried. */
static bool is_untried(int error)
{
    return error == ZOK || error == ZRUNTIMEINCONSISTENCY;
}

static void take_reply(struct check *check, int rc)
{
    struct simba__zk *self = check->self;
    bool is_current = check->generation == self->generation;
    bool is_whole = !simba__zk_is_by_quorum(rc); /* refused, none tells why */

    for (int i = 0; i < check->count; i++) {
        is_whole &= is_untried(check->results[i].err);
    }
    if (is_current) {
        assert(self->checks > 0);
        self->checks--;
        is_current = simba__zk_session_lives(self, rc);
    }
    if (is_current) {
        simba__zk_certainty_answered(&self->certainty, rc, check->sent_ms,
                                     simba_loop_now_ms());
    }
    for (int i = 0; i < check->count; i++) {
        struct simba__zk_latch *latch = check->latches[i];
        int error = is_whole ? rc : check->results[i].err;

        if (!is_current || latch->renewal != check->renewals[i] ||
            latch->mutex == NULL) {
            /* of an earlier session, or answered already */
        } else if (rc == ZOK) {
            grant_renewal(latch);
        } else if (simba__zk_is_lost(rc)) {
            fail_renewal(latch, rc);
        } else if (is_untried(error)) {
            queue_renewal(latch);
        } else if (error == ZNONODE) {
            latch->state = SIMBA__ZK_ABSENT;
            simba__zk_renew_refuse(latch);
        } else {
            fail_renewal(latch, error);
        }
        simba__zk_latch_unref(latch);
        free(check->paths[i]);
    }
}

static void on_checked(int rc, const void *data)
{
    struct check *check = (struct check *)data;
    struct simba__zk *self = check->self;

    simba_loop_enter(self->base.loop);
    take_reply(check, rc);
    simba__zk_check(self);
    simba_loop_leave(self->base.loop);
    free(check);
}

/* With what renewals wait, as many as fit; without any it checks /simba. */
static void send_check(struct simba__zk *self)
{
    struct check *check = calloc(1, sizeof *check);
    zoo_op_t ops[CHECKS_MOST];
    struct simba__zk_latch *latch;

    if (check == NULL) {
        return;
    }
    assert(self->is_connected && self->handle != NULL);
    check->self = self;
    check->generation = self->generation;
    check->sent_ms = self->written_ms = simba_loop_now_ms();
    zoo_check_op_init(&ops[0], self->settings.base, -1);
    while (check->count < CHECKS_MOST && (latch = self->renewals) != NULL) {
        int i = check->count;

        self->renewals = latch->next_renewal;
        latch->is_renewal_queued = false;
        if (latch->renewal != NULL && latch->mutex != NULL) {
            check->paths[i] = simba__zk_join(latch->mutex->path, latch->node);
        }
        if (check->paths[i] == NULL) { /* answered; or its deadline will tell */
            simba__zk_latch_unref(latch);
            continue;
        }
        check->latches[i] = latch;
        check->renewals[i] = latch->renewal;
        zoo_check_op_init(&ops[i], check->paths[i], -1);
        check->count++;
    }
    self->checks++;
    if (zoo_amulti(self->handle, check->count > 0 ? check->count : 1, ops,
                   check->results, on_checked, check) != ZOK) {
        take_reply(check, ZCONNECTIONLOSS);
        free(check);
    }
}

static void on_check_due(simba_timer *timer)
{
    struct simba__zk *self = container_of(timer, struct simba__zk, checking);

    if (self->is_connected && self->latch_count > 0) {
        send_check(self);
        simba__zk_check(self);
    }
}

void simba__zk_check(struct simba__zk *self)
{
    bool is_able = self->is_connected && !self->is_closing;

    if (is_able && self->checks == 0 && self->renewals != NULL) {
        send_check(self);
    }
    self->checking.fire = on_check_due;
    simba_timer_set(self->base.loop, &self->checking,
                    is_able && self->latch_count > 0
                        ? self->written_ms + self->certainty.timeout_ms / 4
                        : INT64_MAX);
}

/* --- the request --------------------------------------------------------- */

void simba__zk_renew(struct simba__zk *self, simba_request *request)
{
    struct simba__zk_latch *latch = simba__zk_latch_find(self, request);
    simba_request *earlier = latch == NULL ? NULL : latch->renewal;

    if (latch == NULL || latch->is_leaving || !latch->was_granted) {
        simba_request_done(request, SIMBA_OK, NULL);
        return;
    }
    latch->renewal = request;
    latch->renewal_ms = simba_loop_now_ms();
    if (latch->state == SIMBA__ZK_ABSENT) {
        simba__zk_renew_refuse(latch);
    } else {
        simba__zk_latch_arm(latch);
        queue_renewal(latch);
        simba__zk_check(self);
    }
    simba__deadline_complete(&earlier, SIMBA_EUNKNOWN, NULL);
}
