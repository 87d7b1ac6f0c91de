/* Requests without an entry: each sends in steps and answers once; one whose
 * connection is lost begins again on the next. Here are read, list and break;
 * what examines and makes is in doctor.c and init.c. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "core/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The owner may go between two steps; this often is no accident. */
enum { ROUNDS_MOST = 16 };

/* Which step has what. */
enum { CHILDREN, DATA, LATCHES = DATA, OWNERS, DELETED = OWNERS };

typedef simba__zk_admin admin_t;

/* --- life ---------------------------------------------------------------- */

static void finish(admin_t *admin, int status, const simba_error *error)
{
    simba_error why = {0};

    if (error != NULL) { /* it may be of a batch */
        why = *error;
    }
    simba__zk_doctor_end(admin);
    admin->self->admins--;
    for (int i = 0; i < SIMBA__ZK_STEPS; i++) {
        simba__zk_batch_fini(&admin->batches[i]);
    }
    simba__admin_end(&admin->base, status, &why);
}

void simba__zk_admin_finish(admin_t *admin, int rc)
{
    simba_error error;

    if (rc == SIMBA__ZK_OK) {
        finish(admin, SIMBA_OK, NULL);
    } else {
        finish(admin, simba__zk_fail(admin->self, rc, &error), &error);
    }
}

/* An ensemble that was there is waited for to the deadline: an election takes a
 * while. One that has never answered may have another address. */
static void on_done(simba__zk_batch *batch)
{
    admin_t *admin = batch->user;
    simba__zk *self = admin->self;
    int status = batch->status;
    bool may_pass = status == SIMBA_EUNKNOWN || status == SIMBA_EUNAVAIL;
    simba_error why;

    if (status == SIMBA_OK) {
        admin->step(admin);
    } else if (may_pass && self->session != NULL &&
               (self->was_answered || batch->session != self->session) &&
               simba_loop_now_ms() < admin->base.request->deadline_ms) {
        admin->rounds = 0;
        if (admin->probe == NULL) {
            admin->begin(admin);
        } else { /* which connects again by itself, after a pause */
            simba__zk_admin_send(admin, batch, admin->step);
        }
    } else if (may_pass) {
        (void)simba__zk_unanswered(self, batch->error, &why);
        finish(admin, status, &why);
    } else {
        finish(admin, status, batch->error);
    }
}

simba__zk_batch *simba__zk_admin_begin(admin_t *admin, int which)
{
    simba__zk_batch *batch = &admin->batches[which];

    batch->user = admin;
    simba__zk_begin(batch, admin->self);
    return batch;
}

void simba__zk_admin_send(admin_t *admin,
                          simba__zk_batch *batch,
                          simba__zk_admin_step *step)
{
    admin->step = step;
    batch->exchange.deadline_ms = admin->base.request->deadline_ms;
    simba__zk_send(batch,
                   admin->probe != NULL ? admin->probe : admin->self->session,
                   admin->base.request, on_done);
}

/* --- what is asked about a mutex, or about all --------------------------- */

static void read_latches(admin_t *admin);
static void list_mutexes(admin_t *admin);

static const simba__zk_reply *last_of(const admin_t *admin, int which)
{
    const simba__zk_batch *batch = &admin->batches[which];

    return &batch->replies[batch->count - 1];
}

static simba__zk_mutex *observed(const admin_t *admin)
{
    simba_session_mutex *mutex = simba_session_mutex_get(
        &admin->self->base, admin->base.request->mutex, false);

    return mutex != NULL && mutex->is_observed ? (simba__zk_mutex *)mutex
                                               : NULL;
}

static void reached(admin_t *admin)
{
    simba__zk_admin_finish(admin, SIMBA__ZK_OK);
}

/* Begins with the children. Our server may lag behind the leader: what is asked
 * after a sync, in the same session, is answered with all that was written
 * before the sync. */
static void start(admin_t *admin)
{
    const simba_request *request = admin->base.request;
    bool is_list = request->kind == SIMBA_LIST;
    simba__zk_batch *batch = simba__zk_admin_begin(admin, CHILDREN);

    if (++admin->rounds > ROUNDS_MOST) {
        simba__zk_admin_finish(admin, SIMBA__ZK_NO_NODE);
        return;
    }
    admin->is_numbered =
        !is_list && request->kind != SIMBA_REACH && observed(admin) != NULL;
    simba__zk_ask(batch, SIMBA__ZK_SYNC, NULL, "/");
    if (admin->is_numbered) {
        simba__zk_ask(batch, SIMBA__ZK_EXISTS, NULL, NULL);
    }
    if (request->kind == SIMBA_REACH) {
        simba__zk_admin_send(admin, batch, reached);
    } else {
        simba__zk_ask(batch, SIMBA__ZK_GET_CHILDREN,
                      is_list ? NULL : request->mutex, NULL);
        simba__zk_admin_send(admin, batch,
                             is_list ? list_mutexes : read_latches);
    }
}

/* --- read and break ------------------------------------------------------ */

/* Who owns the mutex now is told as well. */
static void take_deleted(admin_t *admin)
{
    int rc = last_of(admin, DELETED)->rc;

    admin->base.writes--; /* the outcome of this one is known */
    if (!simba__zk_is_by_quorum(rc)) {
        simba__zk_admin_finish(admin, rc);
        return;
    }
    if (rc == SIMBA__ZK_OK) {
        simba__admin_broke(&admin->base, &admin->self->log);
    }
    start(admin);
}

/* The owners are known: that is all, but for a break, which deletes the node
 * whose czxid is the token. If it is gone, and a delete was sent on a
 * connection that was lost before the reply came, it was that. */
static void take_owners(admin_t *admin,
                        const simba__zk_reply *owners,
                        int count)
{
    simba_request *request = admin->base.request;
    char *const *names = last_of(admin, CHILDREN)->names;
    bool breaks = request->kind == SIMBA_BREAK && !request->reply.mine;
    simba__zk_batch *batch;
    simba_owner who;

    for (int i = 0; i < count; i++) {
        who = simba__zk_owner_of(&owners[i], simba__zk_slots(names[i]));
        if (breaks && who.token == request->token) {
            batch = simba__zk_admin_begin(admin, DELETED);
            simba__zk_ask(batch, SIMBA__ZK_DELETE, request->mutex, names[i]);
            admin->base.writes++;
            simba__zk_admin_send(admin, batch, take_deleted);
            return;
        }
        if (i == 0) {
            request->reply.owner = who;
        }
        if (count > 1) {
            simba_request_add_owner(request, &who);
        }
    }
    if (breaks && admin->base.writes > 0) {
        simba__admin_broke(&admin->base, &admin->self->log);
    }
    simba__zk_admin_finish(admin, SIMBA__ZK_OK);
}

static void read_data(admin_t *admin)
{
    const simba__zk_batch *batch = &admin->batches[DATA];
    const simba__zk_reply *replies = batch->replies;
    char *const *names = last_of(admin, CHILDREN)->names;
    int owned = (int)admin->base.request->reply.owned;

    owned = owned < batch->count ? owned : batch->count;
    for (int i = 0; i < owned; i++) {
        if (replies[i].rc == SIMBA__ZK_NO_NODE) {
            start(admin); /* an owner went meanwhile */
            return;
        }
        if (replies[i].rc != SIMBA__ZK_OK) {
            simba__zk_admin_finish(admin, replies[i].rc);
            return;
        }
    }
    for (int i = owned; i < batch->count; i++) {
        simba_owner who =
            simba__zk_owner_of(&replies[i], simba__zk_slots(names[i]));
        simba_waiter waiter = {.position = simba__zk_position(names[i]),
                               .joined_at_ms = who.acquired_at_ms,
                               .slots = who.slots};

        if (replies[i].rc == SIMBA__ZK_OK) {
            memcpy(waiter.id, who.id, sizeof waiter.id);
            simba_request_add_waiter(admin->base.request, &waiter);
        }
    }
    take_owners(admin, replies, owned);
}

/* Of /simba there may be nothing yet, nor of the mutex. */
static void tell_serials(const admin_t *admin,
                         simba__zk_serials *serials,
                         const simba__zk_queue *queue)
{
    const simba__zk_reply *reply = last_of(admin, CHILDREN);
    simba_reply *told = &admin->base.request->reply;
    char *const *nodes = queue->nodes;
    simba__zk_view view = {
        .czxid = reply->stat.czxid,
        .latches_made = simba__zk_children_made(&reply->stat),
        .mutexes_made = simba__zk_children_made(&reply[-1].stat)};
    uint64_t next = view.latches_made + 1;

    simba__zk_serials_read(serials, &view);
    told->serial = serials->base +
                   (queue->count > 0 ? simba__zk_position(nodes[0]) : next);
    told->next_serial =
        serials->base + (queue->count > queue->owned
                             ? simba__zk_position(nodes[queue->owned])
                             : next);
}

/* The first of the children are made its latches, in their order. */
static void read_latches(admin_t *admin)
{
    const simba__zk_reply *all = last_of(admin, CHILDREN);
    simba__zk_mutex *mutex = observed(admin);
    simba_request *request = admin->base.request;
    simba__zk_queue queue;
    simba__zk_batch *batch;
    int count;

    if (!simba__zk_is_by_quorum(all->rc)) {
        simba__zk_admin_finish(admin, all->rc);
        return;
    }
    simba__zk_queue_read(&queue, all->names, all->count);
    request->reply.owned = (uint32_t)queue.owned;
    request->reply.slots = queue.slots;
    if (admin->is_numbered && mutex != NULL && mutex->observing != NULL) {
        tell_serials(admin, &mutex->observing->serials, &queue);
    }
    if (queue.count == 0) {
        take_owners(admin, NULL, 0);
        return;
    }
    batch = simba__zk_admin_begin(admin, DATA);
    count = request->want_queue ? queue.count : queue.owned;
    for (int i = 0; i < count; i++) {
        simba__zk_ask(batch, SIMBA__ZK_GET_DATA, request->mutex,
                      queue.nodes[i]);
    }
    simba__zk_admin_send(admin, batch, read_data);
}

/* --- list: which mutexes there are --------------------------------------- */

/* A mutex that went meanwhile is not listed. */
static void list_owners(admin_t *admin)
{
    const simba__zk_reply *all = last_of(admin, CHILDREN);
    const simba__zk_reply *latches = admin->batches[LATCHES].replies;
    const simba__zk_reply *owner = admin->batches[OWNERS].replies;
    char name[SIMBA_MUTEX_MAX_BYTES + 1];
    simba__zk_queue queue;

    for (int i = 0; i < all->count; i++) {
        bool is_ours =
            simba__zk_unescape(all->names[i], name) &&
            simba__name_check_mutex(name, strlen(name)) == SIMBA__NAME_FINE;
        bool is_listed = false;

        simba__zk_queue_read(&queue, latches[i].names, latches[i].count);
        for (int k = 0; k < queue.owned; k++, owner++) {
            simba_owner who =
                simba__zk_owner_of(owner, simba__zk_slots(queue.nodes[k]));

            if (owner->rc != SIMBA__ZK_OK || !is_ours) {
                continue;
            }
            if (!is_listed) {
                simba_request_add_mutex(admin->base.request, name, &who,
                                        queue.count - queue.owned);
            }
            is_listed = true;
            simba_request_add_owner(admin->base.request, &who);
        }
    }
    simba__zk_admin_finish(admin, SIMBA__ZK_OK);
}

static void list_latches(admin_t *admin)
{
    simba__zk_batch *batch = simba__zk_admin_begin(admin, OWNERS);
    const simba__zk_reply *all = last_of(admin, CHILDREN);
    const simba__zk_reply *latches = admin->batches[LATCHES].replies;
    simba__zk_queue queue;
    char *path;

    for (int i = 0; i < all->count; i++) {
        simba__zk_queue_read(&queue, latches[i].names, latches[i].count);
        for (int k = 0; k < queue.owned; k++) {
            if (asprintf(&path, "%s/%s", all->names[i], queue.nodes[k]) < 0) {
                path = NULL;
            }
            batch->packets.is_failed |= path == NULL;
            simba__zk_ask(batch, SIMBA__ZK_GET_DATA, NULL, path);
            free(path);
        }
    }
    simba__zk_admin_send(admin, batch, list_owners);
}

static void list_mutexes(admin_t *admin)
{
    const simba__zk_reply *all = last_of(admin, CHILDREN);
    simba__zk_batch *batch;

    if (!simba__zk_is_by_quorum(all->rc)) {
        simba__zk_admin_finish(admin, all->rc);
        return;
    }
    batch = simba__zk_admin_begin(admin, LATCHES);
    for (int i = 0; i < all->count; i++) {
        simba__zk_ask(batch, SIMBA__ZK_GET_CHILDREN, NULL, all->names[i]);
    }
    simba__zk_admin_send(admin, batch, list_latches);
}

/* --- requests ------------------------------------------------------------ */

void simba__zk_serve(simba_session_store *store, simba_request *request)
{
    simba__zk *self = SIMBA__ZK(store);
    /* A latch stands or is gone: there is no lease that could run out. */
    bool is_refused = request->kind == SIMBA_BREAK && !request->now;
    admin_t *admin;
    simba_error error;

    if (is_refused) {
        simba_error_set(&error, SIMBA_EINVAL, 0,
                        "zookeeper: on this store a tenure can only be broken "
                        "at once (--now)");
        simba_request_done(request, SIMBA_EINVAL, &error);
        return;
    }
    admin = simba__admin_begin(store, request, sizeof *admin);
    if (admin == NULL) {
        return;
    }
    admin->self = self;
    admin->begin = request->kind == SIMBA_DOCTOR ? simba__zk_doctor
                   : request->kind == SIMBA_INIT ? simba__zk_init
                                                 : start;
    self->admins++;
    simba__zk_want_any(self);
    admin->begin(admin);
}
