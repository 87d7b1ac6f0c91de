#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <stdlib.h>
#include <string.h>

/* Requests of a latch to the server. What belongs together is sent together:
 * the server answers in order. */

/* Three refusals for want of a parent: the server knows no containers. */
enum { CONTAINER_ROUNDS = 4 };

/* One read less for a mutex that is held shorter than this. */
enum { WATCH_DELAY_MS = 3 };

/* --- sending ------------------------------------------------------------- */

/* Counts a request that was sent; returns what became of the sending. */
static int sent(struct simba__zk_latch *latch,
                struct simba__zk_call *call,
                int rc)
{
    if (rc != ZOK) {
        simba__zk_call_stay(call);
    } else {
        latch->calls++;
    }
    return rc;
}

static void send_parent(struct simba__zk_latch *latch, const char *path)
{
    struct simba__zk *self = latch->self;
    bool is_plain = strlen(path) <= strlen(self->settings.chroot) ||
                    latch->rounds > CONTAINER_ROUNDS;
    struct simba__zk_call *call = simba__zk_call_depart(latch);

    /* The flight does not wait for it: the create that comes next will tell. */
    if (call == NULL ||
        zoo_acreate(self->handle, path, "", 0, simba__zk_acl(self),
                    is_plain ? ZOO_PERSISTENT : ZOO_CONTAINER,
                    simba__zk_on_parent, call) != ZOK) {
        simba__zk_call_stay(call);
    }
}

/* Parents above /simba are plain nodes, the others vanish when empty. */
static void send_parents(struct simba__zk_latch *latch)
{
    char *path = strdup(latch->room->path);

    for (char *end = path == NULL ? NULL : strchr(path + 1, '/'); end != NULL;
         end = strchr(end + 1, '/')) {
        *end = '\0';
        send_parent(latch, path);
        *end = '/';
    }
    free(path);
    send_parent(latch, latch->room->path);
}

/* The first try to make a mutex takes /simba for granted, if it was there. */
static void send_missing(struct simba__zk_latch *latch)
{
    if (latch->self->is_base_made && latch->rounds == 2) {
        send_parent(latch, latch->room->path);
    } else {
        send_parents(latch);
    }
}

static int send_create(struct simba__zk_latch *latch)
{
    struct simba__zk *self = latch->self;
    struct simba__zk_call *call = simba__zk_call_depart(latch);
    char *path = simba__zk_join(latch->room->path, latch->prefix);
    int rc = call == NULL || path == NULL ? ZSYSTEMERROR : ZOK;

    latch->is_barred = false;
    if (latch->write_rc == ZNONODE) {
        send_missing(latch);
    }
    if (rc == ZOK) {
        rc = zoo_acreate2(self->handle, path, latch->id, (int)strlen(latch->id),
                          simba__zk_acl(self), ZOO_EPHEMERAL_SEQUENTIAL,
                          simba__zk_on_created, call);
    }
    free(path);
    return sent(latch, call, rc);
}

static int send_children(struct simba__zk_latch *latch)
{
    struct simba__zk_call *call = simba__zk_call_depart(latch);
    int rc = call == NULL
                 ? ZSYSTEMERROR
                 : zoo_aget_children(latch->self->handle, latch->room->path, 0,
                                     simba__zk_on_children, call);

    return sent(latch, call, rc);
}

/* A multi of one check: a quorum write that fires no watch. */
static int send_guard(struct simba__zk_latch *latch)
{
    struct simba__zk *self = latch->self;
    bool is_known = latch->position == SIMBA__ZK_STANDING;
    struct simba__zk_call *call = simba__zk_call_depart(latch);
    char *path = is_known ? simba__zk_join(latch->room->path, latch->node)
                          : strdup(latch->room->path);
    int rc = call == NULL || path == NULL ? ZSYSTEMERROR : ZOK;
    zoo_op_t check;

    if (rc == ZOK) {
        zoo_check_op_init(&check, path, -1);
        rc = zoo_amulti(self->handle, 1, &check, &call->result,
                        simba__zk_on_guarded, call);
    }
    free(path);
    return sent(latch, call, rc);
}

/* A request about one node. */
static int send_about(struct simba__zk_latch *latch,
                      const char *node,
                      int (*send)(struct simba__zk_latch *latch,
                                  const char *path,
                                  struct simba__zk_call *call))
{
    struct simba__zk_call *call = simba__zk_call_depart(latch);
    char *path = node == NULL ? NULL : simba__zk_join(latch->room->path, node);
    int rc =
        call == NULL || path == NULL ? ZSYSTEMERROR : send(latch, path, call);

    free(path);
    return sent(latch, call, rc);
}

static int send_exists(struct simba__zk_latch *latch,
                       const char *path,
                       struct simba__zk_call *call)
{
    return zoo_aexists(latch->self->handle, path, 0, simba__zk_on_identified,
                       call);
}

static int send_delete(struct simba__zk_latch *latch,
                       const char *path,
                       struct simba__zk_call *call)
{
    return zoo_adelete(latch->self->handle, path, -1, simba__zk_on_removed,
                       call);
}

/* By its data, not its existence: a watch on what is gone is never set. */
static int send_watch(struct simba__zk_latch *latch,
                      const char *path,
                      struct simba__zk_call *call)
{
    return zoo_awget(latch->self->handle, path, simba__zk_on_node, latch->self,
                     simba__zk_on_before, call);
}

static int send_owner(struct simba__zk_latch *latch,
                      const char *path,
                      struct simba__zk_call *call)
{
    return zoo_aget(latch->self->handle, path, 0, simba__zk_on_owner, call);
}

static void send_line(struct simba__zk_latch *latch)
{
    bool joins = latch->asking != NULL && latch->asking->join;

    latch->owner = simba_owner_none();
    latch->read_rc = ZOK;
    if (joins) {
        latch->read_rc = send_about(latch, latch->before, send_watch);
    }
    if (!joins || !latch->is_second) {
        latch->owner_rc = send_about(latch, latch->lowest, send_owner);
    }
}

static void send_flight(struct simba__zk_latch *latch)
{
    switch (latch->flight) {
    case SIMBA__ZK_CREATE:
        latch->write_rc = send_create(latch);
        latch->read_rc = send_children(latch);
        break;
    case SIMBA__ZK_LOOK:
    case SIMBA__ZK_FIND:
        latch->write_rc = send_guard(latch);
        latch->read_rc = send_children(latch);
        break;
    case SIMBA__ZK_IDENTIFY:
        latch->read_rc = send_about(latch, latch->node, send_exists);
        break;
    case SIMBA__ZK_LINE:
        send_line(latch);
        break;
    case SIMBA__ZK_REMOVE:
        latch->write_rc = send_about(latch, latch->node, send_delete);
        break;
    case SIMBA__ZK_NOTHING:
        break;
    }
}

static bool is_guard(enum simba__zk_flight flight)
{
    return flight == SIMBA__ZK_CREATE || flight == SIMBA__ZK_LOOK ||
           flight == SIMBA__ZK_FIND;
}

void simba__zk_fly(struct simba__zk_latch *latch, enum simba__zk_flight flight)
{
    struct simba__zk *self = latch->self;

    latch->flight = flight;
    latch->sent_ms = simba_loop_now_ms();
    if (is_guard(flight)) {
        self->guarded_ms = latch->sent_ms;
    }
    latch->references++;
    send_flight(latch);
    if (latch->calls == 0) {
        simba__zk_latch_landed(latch);
    }
    simba__zk_latch_unref(latch);
    simba__zk_guard_schedule(self);
}

/* --- our own node -------------------------------------------------------- */

/* NOLINTNEXTLINE(readability-function-size): the client library's signature */
static void on_own(int rc,
                   const char *value,
                   int length,
                   const struct Stat *stat,
                   const void *data)
{
    struct simba__zk_latch *latch = simba__zk_call_arrive(data, rc);

    (void)value;
    (void)length;
    (void)stat;
    if (latch == NULL) {
        return;
    }
    if (rc == ZNONODE && latch->room != NULL && !latch->is_doomed) {
        latch->position = SIMBA__ZK_ABSENT;
        simba_wake(latch->self->base.loop, latch->room->mutex);
    } else if (rc != ZOK) {
        latch->is_watched = false;
    }
    simba__zk_call_leave(latch);
}

static void on_watch_due(simba_timer *timer)
{
    struct simba__zk_latch *latch =
        (struct simba__zk_latch *)(void *)((char *)timer -
                                           offsetof(struct simba__zk_latch,
                                                    watching));
    bool is_wanted = latch->self->is_connected && !latch->is_doomed &&
                     latch->position == SIMBA__ZK_STANDING;
    struct simba__zk_call *call =
        is_wanted ? simba__zk_call_depart(latch) : NULL;
    char *path =
        call == NULL ? NULL : simba__zk_join(latch->room->path, latch->node);

    if (path == NULL || zoo_awget(latch->self->handle, path, simba__zk_on_node,
                                  latch->self, on_own, call) != ZOK) {
        latch->is_watched = false;
        simba__zk_call_stay(call);
    }
    free(path);
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

/* What the server answers to the requests of a latch. */

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
