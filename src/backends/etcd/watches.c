/* The set of watches: which keys are watched over one stream. A watch begins at
 * the present: one that began at an old revision would be served by the
 * server's loop for those that lag, every 100 ms. Whoever sets one looks after
 * that, and is told when it is confirmed at a later revision than was seen: so
 * nothing is missed between. After a connection was lost all are set again, and
 * all are told. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include "util/container.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

enum { REFUSED_MS = 10000 }; /* a watch is refused in earnest, not by a token */

/* A server that answers and confirms no watch is left for another; one that is
 * slow, or was asked only now, is not: all others have this connection, too. */
enum { SILENCE_MS = 1000 };

static void on_unconfirmed(simba_timer *timer)
{
    simba__etcd *self = container_of(timer, simba__etcd, confirming);
    const simba__etcd_watch *watch = self->watches;
    int64_t due_ms;

    while (watch != NULL && watch->sure_revision != 0) {
        watch = watch->next; /* the first that is not has waited longest */
    }
    if (watch == NULL || !simba_connection_is_ready(self->grpc.connection)) {
        return;
    }
    due_ms = SILENCE_MS +
             (watch->set_ms > self->sure_ms ? watch->set_ms : self->sure_ms);
    if (due_ms > simba_loop_now_ms()) {
        simba_timer_set(self->base.base.loop, timer, due_ms);
    } else {
        (void)simba__grpc_give_up(&self->grpc, SIMBA_EUNAVAIL, 0,
                                  "no watch is confirmed in time");
    }
}

/* --- by their ids -------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    int64_t one = ((const simba__etcd_watch *)a)->id;
    int64_t other = ((const simba__etcd_watch *)b)->id;

    return (one > other) - (one < other);
}

static simba__etcd_watch *find(const simba__etcd *self, int64_t id)
{
    simba__etcd_watch wanted = {.id = id};
    void *at = tfind(&wanted, &self->watches_by_id, by_id);

    return at == NULL ? NULL : *(simba__etcd_watch **)at;
}

/* Without memory it is not found, and so never confirmed. */
static void set_id(simba__etcd *self, simba__etcd_watch *watch, int64_t id)
{
    if (find(self, watch->id) == watch) {
        tdelete(watch, &self->watches_by_id, by_id);
    }
    watch->id = id;
    if (id != 0) {
        (void)tsearch(watch, &self->watches_by_id, by_id);
    }
}

/* --- on the stream ------------------------------------------------------- */

/* WatchRequest: 1 create, 2 cancel. WatchCreateRequest: 1 key, 3 revision to
 * start at, 7 id. WatchCancelRequest: 1 id. */
static void send(simba__etcd *self, simba__etcd_watch *watch, bool is_create)
{
    struct simba__text *text = simba__rpc_begin(&self->watch_stream);
    size_t began = simba__pb_begin(text, is_create ? 1 : 2);

    if (is_create) {
        simba__pb_text(text, 1, watch->key);
        simba__pb_number(text, 3, watch->next_revision);
    }
    simba__pb_number(text, is_create ? 7 : 1, watch->id);
    simba__pb_end(text, began);
    (void)simba__rpc_send(&self->grpc, &self->watch_stream);
}

static void create(simba__etcd *self, simba__etcd_watch *watch)
{
    set_id(self, watch, ++self->watch_id);
    watch->sure_revision = 0;
    watch->set_ms = simba_loop_now_ms();
    self->confirming.fire = on_unconfirmed;
    if (!self->confirming.is_set) {
        simba_timer_set(self->base.base.loop, &self->confirming,
                        watch->set_ms + SILENCE_MS);
    }
    if (self->is_watching) {
        send(self, watch, true);
    }
}

static void clear(simba__etcd *self, simba__etcd_watch *watch)
{
    if (self->is_watching) {
        send(self, watch, false);
    }
    *(watch->previous == NULL ? &self->watches : &watch->previous->next) =
        watch->next;
    *(watch->next == NULL ? &self->last_watch : &watch->next->previous) =
        watch->previous;
    set_id(self, watch, 0);
    free(watch->key);
    watch->key = NULL;
    watch->sure_revision = watch->next_revision = 0;
    watch->has_gap = false;
}

enum simba__etcd_set simba__etcd_watch_set(simba__etcd *self,
                                           simba__etcd_watch *watch,
                                           const char *key)
{
    if (key != NULL && watch->key != NULL && strcmp(key, watch->key) == 0) {
        return WAS_SET;
    }
    if (watch->key != NULL) {
        clear(self, watch);
    }
    watch->key = key == NULL ? NULL : strdup(key);
    if (watch->key == NULL) {
        return key == NULL ? WAS_SET : NOT_SET;
    }
    watch->next = NULL; /* who has waited for long is found soon */
    watch->previous = self->last_watch;
    *(self->last_watch == NULL ? &self->watches : &self->last_watch->next) =
        watch;
    self->last_watch = watch;
    create(self, watch);
    return IS_SET;
}

/* Event: 1 type, 1: deletion; 2 key. Whoever is told may set and clear watches,
 * this one among them. */
static void take_events(simba__etcd *self, simba__pb_bytes reply, int64_t id)
{
    simba__etcd_watch *watch;
    simba__pb_bytes event;
    simba__etcd_kv kv;

    while ((watch = find(self, id)) != NULL &&
           simba__pb_next(&reply, 11, &event)) {
        bool is_gone = simba__pb_read(event).number[1] == 1;

        if (simba__etcd_next_kv(&event, &kv)) {
            kv.is_gone = is_gone;
            watch->next_revision = watch->is_history ? kv.mod + 1 : 0;
            watch->changed(watch, &kv);
        }
    }
}

/* One that the server does not let us have: our token may be no longer known,
 * and with another connection comes another. If that does not help, who looks
 * now and then has to do without. */
static void take_refusal(simba__etcd *self)
{
    int64_t now_ms = simba_loop_now_ms();

    if (self->refused_ms == 0 || now_ms - self->refused_ms > REFUSED_MS) {
        self->refused_ms = now_ms;
        (void)simba__grpc_give_up(&self->grpc, SIMBA_EUNAVAIL, 0,
                                  "a watch is refused");
    }
}

/* WatchResponse: 1 header, which has 3 the revision; 2 id, -1: of none; 3
 * created; 4 canceled; 5 the revision it was compacted at; 11 events. */
static void on_message(simba__rpc *rpc,
                       int status,
                       __attribute__((unused)) const simba_error *error)
{
    simba__etcd *self = container_of(rpc, simba__etcd, watch_stream);
    simba__etcd_watch *watch;
    simba__pb_fields reply;

    if (status != SIMBA_OK) { /* set anew with the next connection */
        simba__etcd_watches_lost(self);
        return;
    }
    reply = simba__pb_read(rpc->reply);
    watch = find(self, reply.number[2]);
    if (watch == NULL && reply.number[2] >= 0) {
        return; /* cleared meanwhile */
    }
    if (reply.number[4] != 0 && (watch == NULL || reply.number[5] == 0)) {
        take_refusal(self);
    } else if (watch == NULL) {
        /* of none */
    } else if (reply.number[4] != 0) {
        /* Compacted: what happened meanwhile is not known any more. */
        watch->next_revision = 0;
        watch->has_gap = true;
        create(self, watch);
    } else if (reply.number[3] == 0) {
        take_events(self, rpc->reply, watch->id);
    } else {
        watch->sure_revision = simba__pb_read(reply.bytes[1]).number[3];
        self->sure_ms = simba_loop_now_ms();
        if (watch->next_revision == 0) {
            watch->next_revision =
                watch->is_history ? watch->sure_revision + 1 : 0;
            watch->changed(watch, &(simba__etcd_kv){.is_gone = watch->has_gap});
        }
    }
}

void simba__etcd_watches_begin(simba__etcd *self)
{
    self->watch_stream.method = SIMBA__ETCD_METHOD("Watch/Watch");
    self->watch_stream.is_stream = true;
    self->watch_stream.done = on_message;
    self->is_watching = true;
    for (simba__etcd_watch *w = self->watches; w != NULL; w = w->next) {
        create(self, w);
    }
}

void simba__etcd_watches_lost(simba__etcd *self)
{
    self->is_watching = false;
    for (simba__etcd_watch *w = self->watches; w != NULL; w = w->next) {
        w->sure_revision = 0;
        w->has_gap = true;
    }
}
