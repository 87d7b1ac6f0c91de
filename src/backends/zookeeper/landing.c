/* What the server answers to the requests of a latch. */
#define _GNU_SOURCE
#include "backends/zookeeper/flight.h"

#include <stdlib.h>
#include <string.h>

struct simba__zk_call *simba__zk_call_depart(struct simba__zk_latch *latch)
{
    struct simba__zk_call *call = calloc(1, sizeof *call);

    if (call != NULL) {
        call->latch = latch;
        call->generation = latch->self->generation;
        latch->references++;
    }
    return call;
}

/* What could not even be sent. */
void simba__zk_call_stay(struct simba__zk_call *call)
{
    if (call != NULL) {
        call->latch->references--;
        free(call);
    }
}

/* Enters the loop. NULL: of an earlier session, and the loop is left again. */
struct simba__zk_latch *simba__zk_call_arrive(const void *data, int rc)
{
    struct simba__zk_call *call = (struct simba__zk_call *)data;
    struct simba__zk_latch *latch = call->latch;
    struct simba__zk *self = latch->self;
    bool is_current;

    simba_loop_enter(self->base.loop);
    is_current = call->generation == self->generation &&
                 simba__zk_session_lives(self, rc);
    free(call);
    if (is_current) {
        return latch;
    }
    simba__zk_latch_unref(latch);
    simba_loop_leave(self->base.loop);
    return NULL;
}

void simba__zk_call_leave(struct simba__zk_latch *latch)
{
    struct simba__zk *self = latch->self;

    simba__zk_latch_unref(latch);
    simba_loop_leave(self->base.loop);
}

static void settle(struct simba__zk_latch *latch)
{
    latch->calls--;
    if (latch->calls == 0) {
        simba__zk_latch_landed(latch);
    }
    simba__zk_call_leave(latch);
}

static void note_guard(struct simba__zk_latch *latch, int rc)
{
    if (simba__zk_guard_counts(rc)) {
        simba__zk_guard_heard(&latch->self->guard, latch->sent_ms,
                              simba_loop_now_ms());
    }
}

/* --- the node itself ----------------------------------------------------- */

static void stand(struct simba__zk_latch *latch, const struct Stat *stat)
{
    latch->position = SIMBA__ZK_STANDING;
    latch->czxid = stat->czxid;
    latch->ctime_ms = stat->ctime;
    latch->is_watched = false;
}

static void take_node(struct simba__zk_latch *latch, const char *node)
{
    size_t length = strnlen(node, sizeof latch->node - 1);

    memcpy(latch->node, node, length);
    latch->node[length] = '\0';
}

/* From the top down. Who may not make children of a node hears so even of one
 * that is there, so the next answer may show that nothing is missing. */
void simba__zk_on_parent(int rc, const char *path, const void *data)
{
    struct simba__zk_latch *latch = simba__zk_call_arrive(data, rc);

    (void)path;
    if (latch != NULL) {
        latch->is_barred = rc == ZNOAUTH || (rc == ZNONODE && latch->is_barred);
        simba__zk_call_leave(latch);
    }
}

void simba__zk_on_created(int rc,
                          const char *path,
                          const struct Stat *stat,
                          const void *data)
{
    struct simba__zk_latch *latch = simba__zk_call_arrive(data, rc);

    if (latch == NULL) {
        return;
    }
    latch->write_rc = rc == ZNONODE && latch->is_barred ? ZNOAUTH : rc;
    note_guard(latch, rc);
    if (rc == ZOK) {
        take_node(latch, strrchr(path, '/') + 1);
        stand(latch, stat);
    } else if (simba__zk_is_lost(rc)) {
        latch->position = SIMBA__ZK_DOUBTFUL;
    }
    settle(latch);
}

void simba__zk_on_guarded(int rc, const void *data)
{
    struct simba__zk_latch *latch = simba__zk_call_arrive(data, rc);

    if (latch == NULL) {
        return;
    }
    latch->write_rc = rc;
    note_guard(latch, rc);
    if (latch->flight == SIMBA__ZK_LOOK && rc == ZNONODE) {
        latch->position = SIMBA__ZK_ABSENT;
    }
    settle(latch);
}

/* A latch found by its prefix is ours if its session is. */
void simba__zk_on_identified(int rc, const struct Stat *stat, const void *data)
{
    struct simba__zk_latch *latch = simba__zk_call_arrive(data, rc);

    if (latch == NULL) {
        return;
    }
    latch->read_rc = rc;
    if (rc == ZOK &&
        stat->ephemeralOwner == zoo_client_id(latch->self->handle)->client_id) {
        stand(latch, stat);
    } else if (!simba__zk_is_lost(rc)) {
        latch->position = SIMBA__ZK_ABSENT;
    }
    settle(latch);
}

void simba__zk_on_removed(int rc, const void *data)
{
    struct simba__zk_latch *latch = simba__zk_call_arrive(data, rc);

    if (latch != NULL) {
        latch->write_rc = rc;
        if (rc == ZOK || rc == ZNONODE) {
            latch->position = SIMBA__ZK_ABSENT;
        }
        settle(latch);
    }
}

/* --- who else is there --------------------------------------------------- */

static void keep(char **to, const struct String_vector *children, int index)
{
    free(*to);
    *to = index < 0 ? NULL : strdup(children->data[index]);
}

static void find_standing(struct simba__zk_latch *latch,
                          const struct String_vector *children)
{
    bool is_known = latch->position == SIMBA__ZK_STANDING;
    struct simba__zk_standing where;

    simba__zk_stand(children->data, children->count,
                    is_known ? latch->node : latch->prefix, &where);
    latch->is_lowest = where.own >= 0 && where.own == where.lowest;
    latch->is_second = where.own >= 0 && where.before == where.lowest;
    keep(&latch->before, children, where.before);
    keep(&latch->lowest, children, where.lowest);
    if (where.own < 0 && latch->flight != SIMBA__ZK_CREATE) {
        latch->position = SIMBA__ZK_ABSENT;
    } else if (where.own >= 0 && !is_known) {
        take_node(latch, children->data[where.own]);
    }
}

/* The completion of the write before it has come already. */
void simba__zk_on_children(int rc,
                           const struct String_vector *children,
                           const void *data)
{
    struct simba__zk_latch *latch = simba__zk_call_arrive(data, rc);

    if (latch == NULL) {
        return;
    }
    latch->read_rc = rc;
    if (rc == ZOK) {
        find_standing(latch, children);
        simba__zk_backstop_heard(latch, children);
    } else if (rc == ZNONODE && latch->flight != SIMBA__ZK_CREATE) {
        latch->position = SIMBA__ZK_ABSENT;
    }
    settle(latch);
}

/* NOLINTNEXTLINE(readability-function-size): the client library's signature */
void simba__zk_on_before(int rc,
                         const char *value,
                         int length,
                         const struct Stat *stat,
                         const void *data)
{
    struct simba__zk_latch *latch = simba__zk_call_arrive(data, rc);

    if (latch != NULL) {
        latch->read_rc = rc;
        latch->is_blind = rc != ZOK;
        if (rc == ZOK && latch->is_second) {
            latch->owner = simba__zk_owner_of(value, length, stat);
        }
        settle(latch);
    }
}

/* NOLINTNEXTLINE(readability-function-size): the client library's signature */
void simba__zk_on_owner(int rc,
                        const char *value,
                        int length,
                        const struct Stat *stat,
                        const void *data)
{
    struct simba__zk_latch *latch = simba__zk_call_arrive(data, rc);

    if (latch != NULL) {
        latch->owner_rc = rc;
        if (rc == ZOK) {
            latch->owner = simba__zk_owner_of(value, length, stat);
        }
        settle(latch);
    }
}
