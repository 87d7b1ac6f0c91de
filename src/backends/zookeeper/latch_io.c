/* What a latch sends to the servers, and their replies. What belongs together
 * is sent together: the servers answer in order. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "util/container.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Three refusals for want of a parent: the server knows no containers. */
enum { CONTAINER_ROUNDS = 4 };

/* One read less for a mutex that is held shorter than this. */
enum { WATCH_DELAY_MS = 3 };

/* Whose data is asked for. */
enum whose { WHOSE_BEFORE, WHOSE_OWNER, WHOSE_FOUND, WHOSE_OWN };

/* One request under way. */
struct sent_request {
    struct simba__zk_latch *latch;
    uint64_t generation;
    zoo_op_result_t result; /* of a multi */
    enum whose whose;
    char path[];
};

/* --- under way ----------------------------------------------------------- */

/* A request about to be sent, with a hold on the latch, about a child of its
 * mutex, or with "" the mutex itself. NULL: no memory. */
static struct sent_request *prepare(struct simba__zk_latch *latch,
                                    const char *node)
{
    const char *parent = latch->mutex->path;
    size_t size = node == NULL ? 0 : strlen(parent) + strlen(node) + 2;
    struct sent_request *p =
        node == NULL ? NULL : calloc(1, sizeof *p + size); /* none was kept */

    if (p != NULL) {
        snprintf(p->path, size, "%s%s%s", parent, *node == '\0' ? "" : "/",
                 node);
        p->latch = latch;
        p->generation = latch->self->generation;
        latch->references++;
    }
    return p;
}

/* Counts a request that was sent, or forgets one that was not; returns what
 * became of the sending. No batch waits for the watch on our own node. */
static int sent(struct simba__zk_latch *latch, struct sent_request *p, int rc)
{
    if (rc == ZOK) {
        latch->replies_due += p->whose != WHOSE_OWN;
    } else if (p != NULL) {
        latch->references--;
        free(p);
    }
    return rc;
}

/* Enters the loop with a reply. NULL: it is of an earlier session, or says that
 * this one is over, and the loop is left again. */
static struct simba__zk_latch *arrive(const void *data, int rc)
{
    struct sent_request *p = (struct sent_request *)data;
    struct simba__zk_latch *latch = p->latch;
    struct simba__zk *self = latch->self;
    bool is_current;

    simba_loop_enter(self->base.loop);
    is_current =
        p->generation == self->generation && simba__zk_session_lives(self, rc);
    free(p);
    if (is_current) {
        return latch;
    }
    simba__zk_latch_unref(latch);
    simba_loop_leave(self->base.loop);
    return NULL;
}

/* Lets go of the latch, and leaves the loop. */
static void leave(struct simba__zk_latch *latch)
{
    struct simba__zk *self = latch->self;

    simba__zk_latch_unref(latch);
    simba_loop_leave(self->base.loop);
}

/* The same, with a reply that the batch waited for. */
static void settle(struct simba__zk_latch *latch)
{
    assert(latch->replies_due > 0);
    if (--latch->replies_due == 0) {
        simba__zk_latch_replied(latch);
    }
    leave(latch);
}

/* --- replies: the node itself -------------------------------------------- */

static void node_is_there(struct simba__zk_latch *latch,
                          const struct Stat *stat)
{
    latch->state = SIMBA__ZK_PRESENT;
    latch->czxid = stat->czxid;
    latch->ctime_ms = stat->ctime;
    latch->is_watched = false;
}

/* Parents are made from the top down. Who may not make children of a node hears
 * so even of one that is there, so the next reply may show that nothing is
 * missing. */
static void on_parent(int rc, const char *path, const void *data)
{
    struct simba__zk_latch *latch = arrive(data, rc);

    (void)path;
    if (latch != NULL) {
        latch->is_parent_denied =
            rc == ZNOAUTH || (rc == ZNONODE && latch->is_parent_denied);
        settle(latch);
    }
}

static void on_created(int rc,
                       const char *path,
                       const struct Stat *stat,
                       const void *data)
{
    struct simba__zk_latch *latch = arrive(data, rc);

    if (latch == NULL) {
        return;
    }
    latch->write_rc = rc == ZNONODE && latch->is_parent_denied ? ZNOAUTH : rc;
    simba__zk_certainty_answered(&latch->self->certainty, rc, latch->sent_ms,
                                 simba_loop_now_ms());
    if (rc == ZOK) {
        snprintf(latch->node, sizeof latch->node, "%s", strrchr(path, '/') + 1);
        node_is_there(latch, stat);
    } else if (simba__zk_is_lost(rc)) {
        latch->state = SIMBA__ZK_DOUBTFUL;
    }
    settle(latch);
}

/* Of a check or a delete. */
static void on_written(int rc, const void *data)
{
    struct simba__zk_latch *latch = arrive(data, rc);

    if (latch == NULL) {
        return;
    }
    latch->write_rc = rc;
    if (latch->batch == SIMBA__ZK_REMOVE) {
        if (rc == ZOK || rc == ZNONODE) {
            latch->state = SIMBA__ZK_ABSENT;
        }
    } else {
        simba__zk_certainty_answered(&latch->self->certainty, rc,
                                     latch->sent_ms, simba_loop_now_ms());
        if (latch->batch == SIMBA__ZK_CHECK && rc == ZNONODE) {
            latch->state = SIMBA__ZK_ABSENT;
        }
    }
    settle(latch);
}

/* --- replies: who else is there ------------------------------------------ */

static void keep_node(char **node,
                      const struct String_vector *children,
                      int index)
{
    free(*node);
    *node = index < 0 ? NULL : strdup(children->data[index]);
}

/* The reply to the write before it has come already. */
static void on_children(int rc,
                        const struct String_vector *children,
                        const void *data)
{
    struct simba__zk_latch *latch = arrive(data, rc);
    struct simba__zk_standing where;

    if (latch == NULL) {
        return;
    }
    latch->read_rc = rc;
    if (rc == ZOK) {
        bool is_known = latch->state == SIMBA__ZK_PRESENT;

        simba__zk_stand(children->data, children->count,
                        is_known ? latch->node : latch->prefix, &where);
        latch->is_lowest = where.own >= 0 && where.own == where.lowest;
        latch->is_second = where.own >= 0 && where.before == where.lowest;
        keep_node(&latch->before, children, where.before);
        keep_node(&latch->lowest, children, where.lowest);
        if (where.own < 0 && latch->batch != SIMBA__ZK_CREATE) {
            latch->state = SIMBA__ZK_ABSENT;
        } else if (where.own >= 0 && !is_known) {
            snprintf(latch->node, sizeof latch->node, "%s",
                     children->data[where.own]);
        }
        if (latch->mutex != NULL && latch->mutex->looker == latch) {
            simba__zk_backstop_heard(latch, children);
        }
    } else if (rc == ZNONODE && latch->batch != SIMBA__ZK_CREATE) {
        latch->state = SIMBA__ZK_ABSENT;
    }
    settle(latch);
}

/* NOLINTNEXTLINE(readability-function-size): the client library's signature */
static void on_data(int rc,
                    const char *value,
                    int length,
                    const struct Stat *stat,
                    const void *data)
{
    enum whose whose = ((const struct sent_request *)data)->whose;
    struct simba__zk_latch *latch = arrive(data, rc);

    if (latch == NULL) {
        return;
    }
    if (whose == WHOSE_OWN) {
        if (rc == ZNONODE && latch->mutex != NULL && !latch->is_leaving) {
            latch->state = SIMBA__ZK_ABSENT;
            simba_wake(latch->self->base.loop, latch->mutex->name);
        } else if (rc != ZOK) {
            latch->is_watched = false;
        }
        leave(latch);
        return;
    }
    if (whose == WHOSE_OWNER) {
        latch->owner_rc = rc;
    } else {
        latch->read_rc = rc;
    }
    if (whose == WHOSE_FOUND) {
        /* A latch found by its prefix is ours if its session is. */
        if (rc == ZOK && stat->ephemeralOwner ==
                             zoo_client_id(latch->self->handle)->client_id) {
            node_is_there(latch, stat);
        } else if (!simba__zk_is_lost(rc)) {
            latch->state = SIMBA__ZK_ABSENT;
        }
    } else if (rc == ZOK && (whose == WHOSE_OWNER || latch->is_second)) {
        latch->owner = simba__zk_owner_of(value, length, stat);
    }
    if (whose == WHOSE_BEFORE) {
        latch->is_unwatched = rc != ZOK;
    }
    settle(latch);
}

/* --- sending ------------------------------------------------------------- */

/* Parents above /simba are plain nodes, the others vanish when empty. The first
 * try to make a mutex takes /simba for granted, if it was there. */
static void send_parents(struct simba__zk_latch *latch)
{
    const struct simba__zk *self = latch->self;
    const char *path = latch->mutex->path, *end = path;
    size_t chroot_length = strlen(self->settings.chroot), length;
    bool is_base_there = self->is_base_made && latch->rounds == 2;

    do {
        struct sent_request *p;
        bool is_plain;

        end = strchr(end + 1, '/');
        if (end != NULL && is_base_there) {
            continue;
        }
        length = end == NULL ? strlen(path) : (size_t)(end - path);
        is_plain = length <= chroot_length || latch->rounds > CONTAINER_ROUNDS;
        p = prepare(latch, "");
        if (p != NULL) {
            p->path[length] = '\0';
            (void)sent(latch, p,
                       zoo_acreate(self->handle, p->path, "", 0,
                                   simba__zk_acl(self),
                                   is_plain ? ZOO_PERSISTENT : ZOO_CONTAINER,
                                   on_parent, p));
        }
    } while (end != NULL);
}

static int send_children(struct simba__zk_latch *latch)
{
    struct sent_request *p = prepare(latch, "");

    return sent(latch, p,
                p == NULL ? ZSYSTEMERROR
                          : zoo_aget_children(latch->self->handle, p->path, 0,
                                              on_children, p));
}

/* The data of a node, with a watch on the one before and on our own. A watch on
 * existence would be set on what is gone, too. */
static int send_data(struct simba__zk_latch *latch,
                     const char *node,
                     enum whose whose)
{
    struct simba__zk *self = latch->self;
    struct sent_request *p = prepare(latch, node);

    if (p == NULL) {
        return ZSYSTEMERROR;
    }
    p->whose = whose;
    return sent(latch, p,
                zoo_awget(self->handle, p->path,
                          whose == WHOSE_BEFORE || whose == WHOSE_OWN
                              ? simba__zk_on_node
                              : NULL,
                          self, on_data, p));
}

void simba__zk_send(struct simba__zk_latch *latch, enum simba__zk_batch batch)
{
    struct simba__zk *self = latch->self;
    bool joins = latch->acquire != NULL && latch->acquire->join;
    struct sent_request *p;
    zoo_op_t check;

    assert(latch->mutex != NULL && latch->replies_due == 0);
    latch->batch = batch;
    latch->sent_ms = simba_loop_now_ms();
    latch->references++;
    switch (batch) {
    case SIMBA__ZK_CREATE:
        self->written_ms = latch->sent_ms;
        latch->is_parent_denied = false;
        if (latch->write_rc == ZNONODE) {
            send_parents(latch);
        }
        p = prepare(latch, latch->prefix);
        latch->write_rc =
            sent(latch, p,
                 p == NULL
                     ? ZSYSTEMERROR
                     : zoo_acreate2(self->handle, p->path, latch->id,
                                    (int)strlen(latch->id), simba__zk_acl(self),
                                    ZOO_EPHEMERAL_SEQUENTIAL, on_created, p));
        latch->read_rc = send_children(latch);
        break;
    case SIMBA__ZK_CHECK:
    case SIMBA__ZK_FIND:
        /* A multi of one check: a quorum write that fires no watch. */
        self->written_ms = latch->sent_ms;
        p = prepare(latch,
                    latch->state == SIMBA__ZK_PRESENT ? latch->node : "");
        zoo_check_op_init(&check, p == NULL ? "" : p->path, -1);
        latch->write_rc =
            sent(latch, p,
                 p == NULL ? ZSYSTEMERROR
                           : zoo_amulti(self->handle, 1, &check, &p->result,
                                        on_written, p));
        latch->read_rc = send_children(latch);
        break;
    case SIMBA__ZK_IDENTIFY:
        latch->read_rc = send_data(latch, latch->node, WHOSE_FOUND);
        break;
    case SIMBA__ZK_QUEUE:
        latch->owner = simba_owner_none();
        latch->read_rc = ZOK;
        if (joins) {
            latch->read_rc = send_data(latch, latch->before, WHOSE_BEFORE);
        }
        if (!joins || !latch->is_second) {
            latch->owner_rc = send_data(latch, latch->lowest, WHOSE_OWNER);
        }
        break;
    case SIMBA__ZK_REMOVE:
        p = prepare(latch, latch->node);
        latch->write_rc = sent(
            latch, p,
            p == NULL ? ZSYSTEMERROR
                      : zoo_adelete(self->handle, p->path, -1, on_written, p));
        break;
    case SIMBA__ZK_NONE:
        break;
    }
    if (latch->replies_due == 0) {
        simba__zk_latch_replied(latch);
    }
    simba__zk_latch_unref(latch);
    simba__zk_check(self);
}

/* --- the watch on our own node ------------------------------------------- */

static void on_watch_due(simba_timer *timer)
{
    struct simba__zk_latch *latch =
        container_of(timer, struct simba__zk_latch, watching);

    if (!latch->self->is_connected || latch->is_leaving ||
        latch->state != SIMBA__ZK_PRESENT ||
        send_data(latch, latch->node, WHOSE_OWN) != ZOK) {
        latch->is_watched = false;
    }
}

void simba__zk_watch_own(struct simba__zk_latch *latch)
{
    if (!latch->is_watched) {
        latch->is_watched = true;
        latch->watching.fire = on_watch_due;
        simba_timer_set(latch->self->base.loop, &latch->watching,
                        simba_loop_now_ms() + WATCH_DELAY_MS);
    }
}
