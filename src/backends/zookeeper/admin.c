/* Requests without a latch. Read, list and break wait for a
 * connection, send in steps, and answer once; one whose connection is lost
 * begins again on the next. Doctor and init block, on a worker's thread. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "core/name.h"
#include "util/container.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The owner may go between two steps; this often is no accident. */
enum { ROUNDS_MOST = 16 };

/* Of the session of doctor and init: longer than any of their calls. */
enum { BLOCKING_SESSION_MS = 16000 };

/* One node that is asked about: a latch, a mutex of a list, or the parent of
 * either. It is what the client library gives back with a reply, so items stay
 * where they are while replies are due. */
struct item {
    struct simba__zk_admin_request *admin;
    char *path;
    int rc;
    simba_owner owner; /* of a latch: who waits or owns there */
    int latches;       /* of a mutex */
    char *lowest;      /* of a mutex: path of its lowest latch */
};

/* A read, list or break under way. */
struct simba__zk_admin_request {
    struct simba__zk_admin_request *next; /* while parked */
    struct simba__zk *self;
    simba_request *request; /* NULL: answered; only replies are due */
    uint64_t generation;
    int64_t since_ms; /* when it came */
    simba_timer deadline;
    bool is_lost;   /* with its connection: it begins again */
    bool is_unsent; /* something of this step could not be sent */
    int replies_due;
    int rounds;  /* how often it began again */
    int deletes; /* break: sent, of which one may have been it */
    void (*step)(struct simba__zk_admin_request *admin, int rc);
    struct item parent; /* its mutex, or /simba */
    struct item *items; /* latches in the order of the queue, or mutexes */
    int count;
    bool is_numbered; /* the view tells of all mutexes made as well */
    struct simba__zk_view view;
};

typedef void step_fn(struct simba__zk_admin_request *admin, int rc);

static void start(struct simba__zk_admin_request *admin, step_fn *step);
static step_fn read_latches, list_mutexes, break_latches;

/* --- life ---------------------------------------------------------------- */

static void free_items(struct simba__zk_admin_request *admin)
{
    for (int i = 0; i < admin->count; i++) {
        free(admin->items[i].path);
        free(admin->items[i].lowest);
    }
    free(admin->items);
    admin->items = NULL;
    admin->count = 0;
}

/* Frees it when nobody comes back to it any more. */
static void tidy(struct simba__zk_admin_request *admin)
{
    if (admin->request == NULL && admin->replies_due == 0) {
        free_items(admin);
        free(admin->parent.path);
        free(admin);
    }
}

/* Answers; after that it is gone. */
static void finish(struct simba__zk_admin_request *admin,
                   int status,
                   const simba_error *error)
{
    struct simba__zk_admin_request **at = &admin->self->parked;
    simba_request *request = admin->request;

    assert(request != NULL);
    while (*at != NULL && *at != admin) {
        at = &(*at)->next;
    }
    if (*at == admin) {
        *at = admin->next;
    }
    admin->request = NULL;
    simba_timer_clear(admin->self->base.loop, &admin->deadline);
    tidy(admin);
    if (request->reply.mine) { /* broken, and only not told who is next */
        status = SIMBA_OK;
    }
    simba_request_done(request, status, status == SIMBA_OK ? NULL : error);
}

static void fail(struct simba__zk_admin_request *admin, int rc)
{
    simba_error error;
    int status = simba__zk_fail(admin->self, rc, &error);

    /* What only read has no outcome to be in doubt about. */
    if (status == SIMBA_EUNKNOWN && admin->deletes == 0) {
        status = error.code = SIMBA_EUNAVAIL;
    }
    finish(admin, status, &error);
}

void simba__zk_admin_go(struct simba__zk *self)
{
    while (self->is_connected && self->parked != NULL) {
        struct simba__zk_admin_request *admin = self->parked;
        const simba_request *request = admin->request;
        bool is_read = request->kind == SIMBA_READ || request->reply.mine;

        self->parked = admin->next;
        if (request->kind == SIMBA_REACH) {
            finish(admin, SIMBA_OK, NULL);
            continue;
        }
        admin->generation = self->generation;
        start(admin, is_read                       ? read_latches
                     : request->kind == SIMBA_LIST ? list_mutexes
                                                   : break_latches);
    }
}

void simba__zk_admin_fail(struct simba__zk *self)
{
    simba_error error;
    int status = simba__zk_unanswered(self, &error);

    while (self->parked != NULL) {
        finish(self->parked,
               self->parked->deletes > 0 ? SIMBA_EUNKNOWN : status, &error);
    }
}

/* It starts on the next connection, as long as its deadline allows. */
static void park(struct simba__zk_admin_request *admin)
{
    struct simba__zk *self = admin->self;
    struct simba__zk_admin_request **at = &self->parked;
    simba_error error;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    admin->next = NULL;
    *at = admin;
    if (simba__zk_session_want(self, admin->request, &error) == SIMBA_OK) {
        simba__zk_admin_go(self);
    }
}

/* --- replies ------------------------------------------------------------- */

/* Enters the loop with a reply. */
static struct item *arrive(const void *data)
{
    struct item *item = (struct item *)data;

    simba_loop_enter(item->admin->self->base.loop);
    assert(item->admin->replies_due > 0);
    item->admin->replies_due--;
    return item;
}

/* Leaves the loop; before that, with the last reply, the next step. */
static void settle(struct simba__zk_admin_request *admin, int rc)
{
    struct simba__zk *self = admin->self;

    if (admin->generation == self->generation) {
        (void)simba__zk_session_lives(self, rc);
    }
    admin->is_lost |=
        simba__zk_is_lost(rc) || admin->generation != self->generation;
    if (admin->request == NULL) {
        tidy(admin);
    } else if (self->is_closing) {
        fail(admin, ZCLOSING);
    } else if (admin->replies_due == 0 && admin->is_lost) {
        admin->is_lost = false;
        park(admin);
    } else if (admin->replies_due == 0) {
        admin->step(admin, rc);
    }
    simba_loop_leave(self->base.loop);
}

static int by_sequence(const void *a, const void *b)
{
    const struct item *one = a, *other = b;

    return strcmp(simba__zk_sequence(one->path),
                  simba__zk_sequence(other->path));
}

/* Takes the children of the parent: mutexes, or the latches of one in the order
 * of the queue. */
static void take_items(struct simba__zk_admin_request *admin,
                       const struct String_vector *list)
{
    bool is_list = admin->request->kind == SIMBA_LIST;
    int count = 0;

    admin->items = calloc((size_t)list->count + 1, sizeof(struct item));
    for (int i = 0; admin->items != NULL && i < list->count; i++) {
        if (is_list || simba__zk_sequence(list->data[i]) != NULL) {
            struct item *item = &admin->items[count];

            item->admin = admin;
            item->rc = ZNONODE;
            item->path = simba__zk_join(admin->parent.path, list->data[i]);
            count += item->path != NULL;
        }
    }
    admin->count = count;
    if (count > 0 && !is_list) {
        qsort(admin->items, (size_t)count, sizeof(struct item), by_sequence);
    }
}

static void on_children(int rc,
                        const struct String_vector *list,
                        const struct Stat *stat,
                        const void *data)
{
    struct item *item = arrive(data);
    struct simba__zk_admin_request *admin = item->admin;
    struct simba__zk_standing where;

    if (admin->request != NULL && rc == ZOK && item == &admin->parent) {
        admin->view.czxid = stat->czxid;
        admin->view.latches_made = simba__zk_children_made(stat);
        take_items(admin, list);
    } else if (admin->request != NULL && rc == ZOK) {
        simba__zk_stand(list->data, list->count, NULL, &where);
        item->latches = where.latches;
        if (where.lowest >= 0) {
            item->lowest = simba__zk_join(item->path, list->data[where.lowest]);
        }
    }
    settle(admin, rc);
}

/* NOLINTNEXTLINE(readability-function-size): the client library's signature */
static void on_data(int rc,
                    const char *value,
                    int length,
                    const struct Stat *stat,
                    const void *data)
{
    struct item *item = arrive(data);

    item->rc = rc;
    if (rc == ZOK) {
        item->owner = simba__zk_owner_of(value, length, stat);
    }
    settle(item->admin, rc);
}

static void on_deleted(int rc, const void *data)
{
    settle(arrive(data)->admin, rc);
}

/* Of /simba: there may be nothing of ours yet, or not any more. */
static void on_base(int rc, const struct Stat *stat, const void *data)
{
    struct simba__zk_admin_request *admin = arrive(data)->admin;

    admin->view.mutexes_made = rc == ZOK ? simba__zk_children_made(stat) : 0;
    settle(admin, rc);
}

static void on_synced(int rc, const char *value, const void *data)
{
    (void)value;
    settle(arrive(data)->admin, rc);
}

/* --- sending ------------------------------------------------------------- */

static void sent(struct simba__zk_admin_request *admin, int rc)
{
    if (rc == ZOK) {
        admin->replies_due++;
    } else {
        admin->is_unsent = true;
    }
}

/* What follows when all that was sent is answered. */
static void await(struct simba__zk_admin_request *admin, step_fn *step)
{
    admin->step = step;
    if (admin->is_unsent) {
        fail(admin, ZCONNECTIONLOSS);
    } else if (admin->replies_due == 0) {
        step(admin, ZOK);
    }
}

static void send_children(struct item *item)
{
    sent(item->admin, zoo_aget_children2(item->admin->self->handle, item->path,
                                         0, on_children, item));
}

/* Of a latch, or of the lowest latch of a mutex. */
static void send_data(struct item *item)
{
    const char *path = item->lowest == NULL ? item->path : item->lowest;

    sent(item->admin,
         zoo_aget(item->admin->self->handle, path, 0, on_data, item));
}

static struct simba__zk_mutex *observed(
    const struct simba__zk_admin_request *admin)
{
    const char *path = admin->parent.path;
    struct simba__zk_mutex *mutex =
        simba__zk_mutex_at(admin->self, path, strlen(path));

    return mutex != NULL && mutex->is_observed ? mutex : NULL;
}

/* Begins with the children of the parent. Our server may lag behind the leader:
 * what is asked after a sync, in the same session, is answered with all that
 * was written before the sync. */
static void start(struct simba__zk_admin_request *admin, step_fn *step)
{
    const struct simba__zk *self = admin->self;
    struct item *parent = &admin->parent;

    free_items(admin);
    admin->view = (struct simba__zk_view){0};
    admin->is_unsent = ++admin->rounds > ROUNDS_MOST;
    admin->is_numbered = step == read_latches && observed(admin) != NULL;
    sent(admin, zoo_async(self->handle, "/", on_synced, parent));
    if (admin->is_numbered) {
        sent(admin, zoo_aexists(self->handle, self->settings.base, 0, on_base,
                                parent));
    }
    send_children(parent);
    await(admin, step);
}

/* --- read: who owns, and who waits --------------------------------------- */

static void read_data(struct simba__zk_admin_request *admin, int rc)
{
    simba_request *request = admin->request;
    const struct item *items = admin->items;

    if (items[0].rc == ZNONODE) {
        start(admin, read_latches); /* the owner went meanwhile */
        return;
    }
    if (items[0].rc != ZOK) {
        fail(admin, rc == ZOK ? items[0].rc : rc);
        return;
    }
    request->reply.owner = items[0].owner;
    for (int i = 1; request->want_queue && i < admin->count; i++) {
        simba_waiter waiter = {.position = simba__zk_position(items[i].path),
                               .joined_at_ms = items[i].owner.acquired_at_ms};

        if (items[i].rc == ZOK) {
            memcpy(waiter.id, items[i].owner.id, sizeof waiter.id);
            simba_request_add_waiter(request, &waiter);
        }
    }
    finish(admin, SIMBA_OK, NULL);
}

static void read_latches(struct simba__zk_admin_request *admin, int rc)
{
    struct simba__zk_mutex *mutex = observed(admin);
    simba_reply *reply = &admin->request->reply;
    int count = rc == ZOK ? admin->count : 0;
    int wanted = admin->request->want_queue || count < 1 ? count : 1;

    if ((rc != ZOK && rc != ZNONODE) || (rc == ZOK && admin->items == NULL)) {
        fail(admin, rc == ZOK ? ZSYSTEMERROR : rc);
        return;
    }
    if (admin->is_numbered && mutex != NULL) {
        struct simba__zk_serials *serials = &mutex->serials;

        simba__zk_serials_read(serials, &admin->view);
        reply->serial = reply->next_serial =
            simba__zk_serial(serials, serials->seen.latches_made + 1);
        if (count > 0) {
            reply->serial = simba__zk_serial(
                serials, simba__zk_position(admin->items[0].path));
        }
        if (count > 1) {
            reply->next_serial = simba__zk_serial(
                serials, simba__zk_position(admin->items[1].path));
        }
    }
    if (count == 0) {
        finish(admin, SIMBA_OK, NULL); /* nobody owns it */
        return;
    }
    for (int i = 0; i < wanted; i++) {
        send_data(&admin->items[i]);
    }
    await(admin, read_data);
}

/* --- list: which mutexes there are --------------------------------------- */

/* A mutex that went meanwhile is not listed. */
static void list_owners(struct simba__zk_admin_request *admin, int rc)
{
    size_t skip = strlen(admin->parent.path) + 1;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];

    (void)rc;
    for (int i = 0; i < admin->count; i++) {
        const struct item *item = &admin->items[i];

        if (item->rc == ZOK && simba__zk_unescape(item->path + skip, mutex) &&
            simba__name_check_mutex(mutex, strlen(mutex)) == SIMBA__NAME_FINE) {
            simba_request_add_mutex(admin->request, mutex, &item->owner,
                                    item->latches - 1);
        }
    }
    finish(admin, SIMBA_OK, NULL);
}

static void list_latches(struct simba__zk_admin_request *admin, int rc)
{
    (void)rc;
    for (int i = 0; i < admin->count; i++) {
        if (admin->items[i].lowest != NULL) {
            send_data(&admin->items[i]);
        }
    }
    await(admin, list_owners);
}

static void list_mutexes(struct simba__zk_admin_request *admin, int rc)
{
    if (rc != ZOK && rc != ZNONODE) {
        fail(admin, rc);
        return;
    }
    for (int i = 0; i < admin->count; i++) {
        send_children(&admin->items[i]);
    }
    await(admin, list_latches);
}

/* --- break: the node whose czxid is the token is deleted ----------------- */

/* That tenure is over: by our doing, with `is_ours` or if a delete was sent on
 * a connection that was lost before the reply came. Audited where it is done.
 * Who owns the mutex now is told as well. */
static void break_over(struct simba__zk_admin_request *admin, bool is_ours)
{
    simba_request *request = admin->request;
    bool has_reason = request->reason != NULL && request->reason[0] != '\0';

    if (is_ours || admin->deletes > 0) {
        request->reply.mine = true;
        simba__log(&admin->self->log, SIMBA_LOG_WARN,
                   "broke the tenure %llu of \"%s\": %s",
                   (unsigned long long)request->token, request->mutex,
                   has_reason ? request->reason : "no reason given");
    }
    start(admin, read_latches);
}

static void break_deleted(struct simba__zk_admin_request *admin, int rc)
{
    admin->deletes--; /* its outcome is known */
    if (rc == ZOK || rc == ZNONODE) {
        break_over(admin, rc == ZOK);
    } else {
        fail(admin, rc);
    }
}

static void break_owner(struct simba__zk_admin_request *admin, int rc)
{
    if (rc == ZNONODE) {
        start(admin, break_latches); /* it went meanwhile: who is next? */
        return;
    }
    if (rc != ZOK) {
        fail(admin, rc);
        return;
    }
    if (admin->items[0].owner.token != admin->request->token) {
        break_over(admin, false);
        return;
    }
    sent(admin, zoo_adelete(admin->self->handle, admin->items[0].path, -1,
                            on_deleted, &admin->items[0]));
    admin->deletes += !admin->is_unsent;
    await(admin, break_deleted);
}

static void break_latches(struct simba__zk_admin_request *admin, int rc)
{
    if (rc != ZOK && rc != ZNONODE) {
        fail(admin, rc);
    } else if (rc == ZNONODE || admin->count == 0) {
        break_over(admin, false);
    } else {
        send_data(&admin->items[0]);
        await(admin, break_owner);
    }
}

/* --- doctor and init ----------------------------------------------------- */

/* On the worker's thread, with a session of its own. */
static int serve(void *argument, simba_request *request, simba_error *error)
{
    struct simba__zk *self = argument;
    zhandle_t *handle;
    int64_t until_ms;
    int status;

    simba_loop_enter(self->base.loop);
    until_ms = simba__zk_waits_until(self, request, simba_loop_now_ms());
    simba_loop_leave(self->base.loop);
    handle = simba__zk_connect(&self->settings, BLOCKING_SESSION_MS, until_ms);
    if (handle == NULL) {
        return simba_error_set(error, SIMBA_EUNAVAIL, 0,
                               "zookeeper %.120s: no server answers",
                               self->settings.hosts);
    }
    status = request->kind == SIMBA_INIT
                 ? simba__zk_init(self, handle, request, error)
                 : simba__zk_examine(self, handle, request, error);
    zookeeper_close(handle);
    return status;
}

/* --- requests ------------------------------------------------------------ */

static void on_deadline(simba_timer *timer)
{
    struct simba__zk_admin_request *admin =
        container_of(timer, struct simba__zk_admin_request, deadline);
    struct simba__zk *self = admin->self;
    int64_t until_ms =
        simba__zk_waits_until(self, admin->request, admin->since_ms);
    simba_error error;
    int status;

    if (until_ms > simba_loop_now_ms()) { /* connected meanwhile: more time */
        simba_timer_set(self->base.loop, &admin->deadline, until_ms);
        return;
    }
    status = simba__zk_unanswered(self, &error);
    finish(admin, admin->deletes > 0 ? SIMBA_EUNKNOWN : status, &error);
}

void simba__zk_admin(struct simba__zk *self, simba_request *request)
{
    char escaped[SIMBA__ZK_ESCAPED_SIZE];
    struct simba__zk_admin_request *admin;

    /* A latch stands or is gone: there is no lease that could run out. */
    if (request->kind == SIMBA_BREAK && !request->now) {
        simba__zk_give_up(&request, SIMBA_EINVAL,
                          "on this store a tenure can only be broken at once "
                          "(--now)");
        return;
    }
    if (request->kind == SIMBA_DOCTOR || request->kind == SIMBA_INIT) {
        if (self->worker == NULL &&
            simba_worker_open(self->base.loop, serve, self, &self->worker) !=
                SIMBA_OK) {
            simba__zk_give_up(&request, SIMBA_ENOMEM, "no memory");
            return;
        }
        simba_worker_submit(self->worker, request);
        return;
    }
    admin = calloc(1, sizeof *admin);
    if (admin != NULL) {
        simba__zk_escape(request->mutex, escaped);
        admin->parent.admin = admin;
        admin->parent.path = request->kind == SIMBA_LIST
                                 ? strdup(self->settings.base)
                                 : simba__zk_join(self->settings.base, escaped);
    }
    if (admin == NULL || admin->parent.path == NULL) {
        free(admin);
        simba__zk_give_up(&request, SIMBA_ENOMEM, "no memory");
        return;
    }
    admin->self = self;
    admin->request = request;
    admin->since_ms = simba_loop_now_ms();
    admin->deadline.fire = on_deadline;
    simba_timer_set(self->base.loop, &admin->deadline,
                    simba__zk_waits_until(self, request, admin->since_ms));
    park(admin);
}

void simba__zk_admin_close(struct simba__zk *self)
{
    struct simba__zk_admin_request *admin;

    if (self->worker != NULL) {
        simba_worker_close(self->worker);
    }
    simba_loop_enter(self->base.loop);
    while ((admin = self->parked) != NULL) {
        self->parked = admin->next;
        fail(admin, ZCLOSING);
    }
    simba_loop_leave(self->base.loop);
}
