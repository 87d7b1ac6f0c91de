#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "core/name.h"

#include <stdlib.h>
#include <string.h>

/* One request of an errand. */
struct call {
    struct simba__zk_errand *errand;
    int index;
    void (*heard)(struct simba__zk_errand *errand,
                  int index,
                  const struct String_vector *list);
};

/* --- life ---------------------------------------------------------------- */

static void free_items(struct simba__zk_errand *errand)
{
    for (int i = 0; i < errand->count; i++) {
        free(errand->items[i].path);
        free(errand->items[i].lowest);
    }
    free(errand->items);
    errand->items = NULL;
    errand->count = 0;
}

bool simba__zk_errand_items(struct simba__zk_errand *errand, int count)
{
    free_items(errand);
    errand->items = calloc((size_t)count + 1, sizeof errand->items[0]);
    errand->count = errand->items == NULL ? 0 : count;
    return errand->items != NULL;
}

static void unpark(struct simba__zk_errand *errand)
{
    struct simba__zk_errand **at = &errand->self->parked;

    if (!errand->is_parked) {
        return;
    }
    while (*at != errand) {
        at = &(*at)->next;
    }
    *at = errand->next;
    errand->is_parked = false;
}

/* Frees it when nobody comes back to it any more. */
static void tidy(struct simba__zk_errand *errand)
{
    if (errand->request == NULL && errand->calls == 0) {
        free_items(errand);
        free(errand->path);
        free(errand);
    }
}

static void finish(struct simba__zk_errand *errand,
                   int status,
                   const simba_error *error)
{
    simba_request *request = errand->request;
    bool is_done =
        request->reply.mine; /* broken, and only not told who is next */

    errand->request = NULL;
    unpark(errand);
    simba_timer_clear(errand->self->base.loop, &errand->deadline);
    tidy(errand);
    simba_request_done(request, is_done ? SIMBA_OK : status,
                       is_done ? NULL : error);
}

void simba__zk_errand_done(struct simba__zk_errand *errand)
{
    finish(errand, SIMBA_OK, NULL);
}

void simba__zk_errand_fail(struct simba__zk_errand *errand, int rc)
{
    simba_error error;
    int status = simba__zk_fail(errand->self, rc, &error);

    /* What only read has no outcome to be in doubt about. */
    if (status == SIMBA_EUNKNOWN && errand->strikes == 0) {
        status = error.code = SIMBA_EUNAVAIL;
    }
    finish(errand, status, &error);
}

/* --- the queue ----------------------------------------------------------- */

static void park(struct simba__zk_errand *errand)
{
    struct simba__zk_errand **at = &errand->self->parked;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    errand->next = NULL;
    *at = errand;
    errand->is_parked = true;
}

static void start(struct simba__zk_errand *errand)
{
    errand->generation = errand->self->generation;
    if (errand->request->kind == SIMBA_READ || errand->request->reply.mine) {
        simba__zk_read_start(errand);
    } else if (errand->request->kind == SIMBA_LIST) {
        simba__zk_list_start(errand);
    } else {
        simba__zk_break_start(errand);
    }
}

void simba__zk_errands_go(struct simba__zk *self)
{
    while (self->is_connected && self->parked != NULL) {
        struct simba__zk_errand *errand = self->parked;

        unpark(errand);
        start(errand);
    }
}

/* On the next connection, as long as its deadline allows. */
static void go_when_connected(struct simba__zk_errand *errand)
{
    struct simba__zk *self = errand->self;
    simba_error error;

    park(errand);
    if (simba__zk_session_want(self, errand->request, &error) == SIMBA_OK) {
        simba__zk_errands_go(self);
    }
}

/* --- completions --------------------------------------------------------- */

static struct simba__zk_errand *arrive(const void *data, struct call *call)
{
    *call = *(const struct call *)data;
    free((void *)data);
    simba_loop_enter(call->errand->self->base.loop);
    call->errand->calls--;
    return call->errand;
}

static void settle(struct simba__zk_errand *errand, int rc)
{
    struct simba__zk *self = errand->self;

    if (errand->generation == self->generation) {
        (void)simba__zk_session_lives(self, rc);
    }
    errand->is_lost |=
        simba__zk_is_lost(rc) || errand->generation != self->generation;
    if (errand->request == NULL) {
        tidy(errand);
    } else if (self->is_closing) {
        simba__zk_errand_fail(errand, ZCLOSING);
    } else if (errand->calls == 0 && errand->is_lost) {
        errand->is_lost = false;
        go_when_connected(errand);
    } else if (errand->calls == 0) {
        errand->step(errand, rc);
    }
    simba_loop_leave(self->base.loop);
}

static void on_children(int rc,
                        const struct String_vector *list,
                        const struct Stat *stat,
                        const void *data)
{
    struct call call;
    struct simba__zk_errand *errand = arrive(data, &call);

    if (errand->request != NULL && rc == ZOK) {
        if (call.index < 0) {
            errand->look.life = stat->czxid;
            errand->look.made =
                simba__zk_ever(stat->cversion, stat->numChildren);
        }
        call.heard(errand, call.index, list);
    }
    settle(errand, rc);
}

/* NOLINTNEXTLINE(readability-function-size): the client library's signature */
static void on_data(int rc,
                    const char *value,
                    int length,
                    const struct Stat *stat,
                    const void *data)
{
    struct call call;
    struct simba__zk_errand *errand = arrive(data, &call);

    if (errand->request != NULL && call.index < errand->count) {
        struct simba__zk_item *item = &errand->items[call.index];

        item->rc = rc;
        if (rc == ZOK) {
            item->owner = simba__zk_owner_of(value, length, stat);
        }
    }
    settle(errand, rc);
}

static void on_deleted(int rc, const void *data)
{
    struct call call;

    settle(arrive(data, &call), rc);
}

/* There is nothing of ours yet, or what there was is gone: 0. */
static void on_births(int rc, const struct Stat *stat, const void *data)
{
    struct call call;
    struct simba__zk_errand *errand = arrive(data, &call);

    errand->look.births =
        rc == ZOK ? simba__zk_ever(stat->cversion, stat->numChildren) : 0;
    settle(errand, rc);
}

static void on_synced(int rc, const char *value, const void *data)
{
    struct call call;

    (void)value;
    settle(arrive(data, &call), rc);
}

/* --- sending ------------------------------------------------------------- */

static struct call *depart(struct simba__zk_errand *errand, int index)
{
    struct call *call = calloc(1, sizeof *call);

    if (call != NULL) {
        call->errand = errand;
        call->index = index;
    }
    return call;
}

static bool sent(struct simba__zk_errand *errand, struct call *call, int rc)
{
    if (rc != ZOK) {
        free(call);
        return false;
    }
    errand->calls++;
    return true;
}

/* Our server may lag behind the leader. What is asked after a sync, in the same
 * session, is answered with all that was written before the sync. */
static bool catch_up(struct simba__zk_errand *errand)
{
    struct call *call = depart(errand, 0);

    return call != NULL &&
           sent(errand, call,
                zoo_async(errand->self->handle, "/", on_synced, call));
}

static bool count_births(struct simba__zk_errand *errand)
{
    struct call *call = depart(errand, 0);

    return call != NULL &&
           sent(errand, call,
                zoo_aexists(errand->self->handle, errand->self->settings.base,
                            0, on_births, call));
}

bool simba__zk_errand_children(struct simba__zk_errand *errand,
                               int index,
                               void (*heard)(struct simba__zk_errand *errand,
                                             int index,
                                             const struct String_vector *list))
{
    const char *path = index < 0 ? errand->path : errand->items[index].path;
    struct call *call;

    if (index < 0 && !catch_up(errand)) {
        return false;
    }
    if (index < 0 && errand->is_numbered && !count_births(errand)) {
        return false;
    }
    call = depart(errand, index);
    if (call == NULL) {
        return false;
    }
    call->heard = heard;
    return sent(
        errand, call,
        zoo_aget_children2(errand->self->handle, path, 0, on_children, call));
}

bool simba__zk_errand_data(struct simba__zk_errand *errand, int index)
{
    struct call *call = depart(errand, index);
    const struct simba__zk_item *item = &errand->items[index];
    const char *path = item->lowest == NULL ? item->path : item->lowest;

    return call != NULL &&
           sent(errand, call,
                zoo_aget(errand->self->handle, path, 0, on_data, call));
}

bool simba__zk_errand_delete(struct simba__zk_errand *errand, const char *path)
{
    struct call *call = depart(errand, 0);

    return call != NULL &&
           sent(errand, call,
                zoo_adelete(errand->self->handle, path, -1, on_deleted, call));
}

/* --- the way of an operation --------------------------------------------- */

/* Sets the timer; false: its time is up. */
static bool arm(struct simba__zk_errand *errand)
{
    int64_t until_ms =
        simba__zk_waits_until(errand->self, errand->request, errand->since_ms);

    simba_timer_set(errand->self->base.loop, &errand->deadline, until_ms);
    return until_ms > simba_loop_now_ms();
}

static void on_deadline(simba_timer *timer)
{
    struct simba__zk_errand *errand =
        (struct simba__zk_errand *)(void *)((char *)timer -
                                            offsetof(struct simba__zk_errand,
                                                     deadline));
    simba_error error;
    int status;

    if (arm(errand)) {
        return; /* connected meanwhile: there is more time */
    }
    status = simba__zk_unanswered(errand->self, &error);
    finish(errand, errand->strikes > 0 ? SIMBA_EUNKNOWN : status, &error);
}

static char *path_for(struct simba__zk *self, const simba_request *request)
{
    char escaped[SIMBA__ZK_ESCAPED_SIZE];

    if (request->kind == SIMBA_LIST) {
        return strdup(self->settings.base);
    }
    simba__zk_escape(request->mutex, escaped);
    return simba__zk_join(self->settings.base, escaped);
}

void simba__zk_errand(struct simba__zk *self, simba_request *request)
{
    struct simba__zk_errand *errand = calloc(1, sizeof *errand);
    simba_error error;

    if (errand != NULL) {
        errand->path = path_for(self, request);
    }
    if (errand == NULL || errand->path == NULL) {
        free(errand);
        simba_error_set(&error, SIMBA_ENOMEM, 0, "zookeeper: no memory");
        simba_request_done(request, SIMBA_ENOMEM, &error);
        return;
    }
    errand->self = self;
    errand->request = request;
    errand->deadline.fire = on_deadline;
    errand->since_ms = simba_loop_now_ms();
    (void)arm(errand);
    go_when_connected(errand);
}

/* Who owns a mutex, and who waits. */

/* The owner may go between two requests; this often is no accident. */
enum { ROUNDS_MOST = 16 };

static int by_sequence(const void *a, const void *b)
{
    const struct simba__zk_item *one = a, *other = b;

    return strcmp(simba__zk_sequence(one->path),
                  simba__zk_sequence(other->path));
}

/* Takes the latches of the errand's mutex, in the order of the line. */
static void heard(struct simba__zk_errand *errand,
                  int index,
                  const struct String_vector *list)
{
    int count = 0;

    (void)index;
    if (!simba__zk_errand_items(errand, list->count)) {
        return;
    }
    for (int i = 0; i < list->count; i++) {
        if (simba__zk_sequence(list->data[i]) != NULL) {
            errand->items[count].path =
                simba__zk_join(errand->path, list->data[i]);
            count += errand->items[count].path != NULL;
        }
    }
    errand->count = count;
    qsort(errand->items, (size_t)count, sizeof errand->items[0], by_sequence);
}

bool simba__zk_errand_line(struct simba__zk_errand *errand)
{
    return ++errand->rounds <= ROUNDS_MOST &&
           simba__zk_errand_children(errand, -1, heard);
}

/* Whose turn it is, for those who observe the mutex. */
static void number(const struct simba__zk_errand *errand,
                   struct simba__zk_room *room)
{
    simba_reply *reply = &errand->request->reply;
    const struct simba__zk_item *items = errand->items;
    struct simba__zk_turns *turns = &room->turns;

    simba__zk_turns_look(turns, &errand->look);
    reply->turn = reply->next_turn = simba__zk_turn_next(turns);
    if (errand->count > 0) {
        reply->turn = simba__zk_turn(turns, simba__zk_place(items[0].path));
    }
    if (errand->count > 1) {
        reply->next_turn =
            simba__zk_turn(turns, simba__zk_place(items[1].path));
    }
}

static struct simba__zk_room *observed(const struct simba__zk_errand *errand)
{
    struct simba__zk_room *room = simba__zk_room_at(errand->self, errand->path);

    return room != NULL && room->is_observed ? room : NULL;
}

static void answer_read(struct simba__zk_errand *errand)
{
    simba_request *request = errand->request;

    request->reply.owner = errand->items[0].owner;
    for (int i = 1; request->want_queue && i < errand->count; i++) {
        const struct simba__zk_item *item = &errand->items[i];
        simba_waiter waiter = {.position = simba__zk_place(item->path),
                               .joined_at_ms = item->owner.acquired_at_ms};

        if (item->rc == ZOK) {
            memcpy(waiter.id, item->owner.id, sizeof waiter.id);
            simba_request_add_waiter(request, &waiter);
        }
    }
    simba__zk_errand_done(errand);
}

static void read_data(struct simba__zk_errand *errand, int rc)
{
    if (errand->items[0].rc == ZOK) {
        answer_read(errand);
    } else if (errand->items[0].rc == ZNONODE) {
        simba__zk_read_start(errand); /* the owner went meanwhile */
    } else {
        simba__zk_errand_fail(errand, rc == ZOK ? errand->items[0].rc : rc);
    }
}

static void read_children(struct simba__zk_errand *errand, int rc)
{
    int wanted = errand->request->want_queue ? errand->count : 1;
    bool is_sent = true;

    if ((rc != ZOK && rc != ZNONODE) || (rc == ZOK && errand->items == NULL)) {
        simba__zk_errand_fail(errand, rc == ZOK ? ZSYSTEMERROR : rc);
        return;
    }
    if (errand->is_numbered && observed(errand) != NULL) {
        number(errand, observed(errand));
    }
    if (rc == ZNONODE || errand->count == 0) {
        simba__zk_errand_done(errand); /* nobody owns it */
        return;
    }
    errand->step = read_data;
    for (int i = 0; is_sent && i < wanted; i++) {
        is_sent = simba__zk_errand_data(errand, i);
    }
    if (!is_sent) {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    }
}

void simba__zk_read_start(struct simba__zk_errand *errand)
{
    errand->step = read_children;
    errand->is_numbered = observed(errand) != NULL;
    errand->look = (struct simba__zk_look){0};
    if (!simba__zk_errand_line(errand)) {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    }
}

/* Which mutexes are there: the children of /simba, for each its latches, for
 * each the data of the lowest. */

static void heard_mutexes(struct simba__zk_errand *errand,
                          int index,
                          const struct String_vector *list)
{
    (void)index;
    if (!simba__zk_errand_items(errand, list->count)) {
        return;
    }
    for (int i = 0; i < list->count; i++) {
        errand->items[i].path = simba__zk_join(errand->path, list->data[i]);
        errand->items[i].rc = ZNONODE;
    }
}

static void heard_latches(struct simba__zk_errand *errand,
                          int index,
                          const struct String_vector *list)
{
    struct simba__zk_item *item = &errand->items[index];
    struct simba__zk_standing where;

    simba__zk_stand(list->data, list->count, NULL, &where);
    item->latches = where.latches;
    if (where.lowest >= 0) {
        item->lowest = simba__zk_join(item->path, list->data[where.lowest]);
    }
}

static void answer_list(struct simba__zk_errand *errand, int rc)
{
    size_t skip = strlen(errand->path) + 1;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];

    (void)rc; /* a mutex that went meanwhile is not listed */
    for (int i = 0; i < errand->count; i++) {
        const struct simba__zk_item *item = &errand->items[i];

        if (item->rc == ZOK && simba__zk_unescape(item->path + skip, mutex) &&
            simba__name_check_mutex(mutex, strlen(mutex)) == SIMBA__NAME_FINE) {
            simba_request_add_mutex(errand->request, mutex, &item->owner,
                                    item->latches - 1);
        }
    }
    simba__zk_errand_done(errand);
}

static void ask_owners(struct simba__zk_errand *errand, int rc)
{
    bool is_sent = true;

    (void)rc;
    errand->step = answer_list;
    for (int i = 0; is_sent && i < errand->count; i++) {
        if (errand->items[i].lowest != NULL) {
            is_sent = simba__zk_errand_data(errand, i);
        }
    }
    if (!is_sent) {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    } else if (errand->calls == 0) {
        simba__zk_errand_done(errand);
    }
}

static void ask_latches(struct simba__zk_errand *errand, int rc)
{
    bool is_sent = true;

    if (rc != ZOK && rc != ZNONODE) {
        simba__zk_errand_fail(errand, rc);
        return;
    }
    errand->step = ask_owners;
    for (int i = 0; is_sent && i < errand->count; i++) {
        if (errand->items[i].path != NULL) {
            is_sent = simba__zk_errand_children(errand, i, heard_latches);
        }
    }
    if (!is_sent) {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    } else if (errand->calls == 0) {
        simba__zk_errand_done(errand);
    }
}

void simba__zk_list_start(struct simba__zk_errand *errand)
{
    errand->step = ask_latches;
    if (!simba__zk_errand_children(errand, -1, heard_mutexes)) {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    }
}

/* Ending a tenure by force: the node whose czxid is the token is deleted. */

/* Audited where it is done. Who owns the mutex now is told as well. */
static void broken(struct simba__zk_errand *errand)
{
    simba_request *request = errand->request;
    bool has_reason = request->reason != NULL && request->reason[0] != '\0';

    request->reply.mine = true;
    simba__zk_log(errand->self, SIMBA_LOG_WARN,
                  "broke the tenure %llu of \"%s\": %s",
                  (unsigned long long)request->token, request->mutex,
                  has_reason ? request->reason : "no reason given");
    simba__zk_read_start(errand);
}

/* That tenure is over; by our doing, if we struck on a connection that was
 * lost before the answer came. */
static void is_over(struct simba__zk_errand *errand)
{
    if (errand->strikes > 0) {
        broken(errand);
    } else {
        simba__zk_read_start(errand);
    }
}

static void struck(struct simba__zk_errand *errand, int rc)
{
    if (rc == ZOK) {
        broken(errand);
    } else if (rc == ZNONODE) {
        errand->strikes--; /* not by this one */
        is_over(errand);
    } else {
        errand->strikes--;
        simba__zk_errand_fail(errand, rc);
    }
}

static void strike(struct simba__zk_errand *errand)
{
    errand->step = struck;
    if (simba__zk_errand_delete(errand, errand->items[0].path)) {
        errand->strikes++;
    } else {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    }
}

static void heard_owner(struct simba__zk_errand *errand, int rc)
{
    if (rc == ZNONODE) {
        simba__zk_break_start(errand); /* it went meanwhile: who is next? */
    } else if (rc != ZOK) {
        simba__zk_errand_fail(errand, rc);
    } else if (errand->items[0].owner.token == errand->request->token) {
        strike(errand);
    } else {
        is_over(errand);
    }
}

static void heard_line(struct simba__zk_errand *errand, int rc)
{
    if (rc != ZOK && rc != ZNONODE) {
        simba__zk_errand_fail(errand, rc);
    } else if (rc == ZNONODE || errand->count == 0) {
        is_over(errand);
    } else {
        errand->step = heard_owner;
        if (!simba__zk_errand_data(errand, 0)) {
            simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
        }
    }
}

void simba__zk_break_start(struct simba__zk_errand *errand)
{
    errand->step = heard_line;
    if (!simba__zk_errand_line(errand)) {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    }
}

/* A latch stands or is gone: there is no lease that could run out. */
void simba__zk_break(struct simba__zk *self, simba_request *request)
{
    simba_error error;

    if (request->now) {
        simba__zk_errand(self, request);
        return;
    }
    simba_error_set(
        &error, SIMBA_EINVAL, 0,
        "zookeeper: a tenure cannot be left to the end of its lease "
        "here; break it at once (now)");
    simba_request_done(request, SIMBA_EINVAL, &error);
}
