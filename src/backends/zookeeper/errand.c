#define _GNU_SOURCE
#include "backends/zookeeper/errand.h"

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
