/* The set of watches: which keys are watched over one stream. A watch begins at
 * the present: one that began at an old revision would be served by the
 * server's loop for those that lag, every 100 ms. Whoever sets one looks after
 * that, and is told when it is confirmed at a later revision than was seen: so
 * nothing is missed between. After a connection was lost all are set again, and
 * all are told. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include "util/array.h"
#include "util/container.h"

#include <stdlib.h>
#include <string.h>

enum { REFUSED_MS = 10000 }; /* a watch is refused in earnest, not by a token */

enum { SILENCE_MS = 1000 }; /* in which one should be confirmed */

/* --- by their ids -------------------------------------------------------- */

/* An id has its place in the lower bits and is not used again, for what comes
 * late of a watch that was cleared is not of another. */
enum { PLACE_BITS = 24 };

static size_t place_of(int64_t id)
{
    return (size_t)id & (((size_t)1 << PLACE_BITS) - 1);
}

static simba__etcd_watch *find(const simba__etcd *self, int64_t id)
{
    simba__etcd_watch *watch =
        place_of(id) < self->watch_room ? self->watches[place_of(id)] : NULL;

    return watch != NULL && watch->id == id ? watch : NULL;
}

static void take_out(simba__etcd *self, const simba__etcd_watch *watch)
{
    size_t place = place_of(watch->id);

    self->watches[place] = NULL;
    if (place < self->watch_free) {
        self->watch_free = place;
    }
}

/* False: no memory. */
static bool put_in(simba__etcd *self, simba__etcd_watch *watch)
{
    size_t *at = &self->watch_free, room = self->watch_room;

    while (*at < room && self->watches[*at] != NULL) {
        ++*at;
    }
    if (place_of((int64_t)*at + 1) == 0 ||
        !simba__array_reserve(&self->watches, &self->watch_room, *at + 1,
                              sizeof(simba__etcd_watch *))) {
        return false;
    }
    memset(self->watches + room, 0,
           (self->watch_room - room) * sizeof(simba__etcd_watch *));
    watch->id = ++self->watch_uses << PLACE_BITS | (int64_t)*at;
    self->watches[*at] = watch;
    return true;
}

/* --- on the stream ------------------------------------------------------- */

/* A server that answers and confirms no watch is left for another; one that is
 * slow, or was asked only now, is not: all others have this connection, too. */
static void on_unconfirmed(simba_timer *timer)
{
    simba__etcd *self = container_of(timer, simba__etcd, confirming);

    if (simba_connection_is_ready(self->grpc.connection)) {
        (void)simba__grpc_give_up(&self->grpc, SIMBA_EUNAVAIL, 0,
                                  "no watch is confirmed in time");
    }
}

static void await_confirmed(simba__etcd *self)
{
    self->confirming.fire = on_unconfirmed;
    simba_timer_set(self->base.base.loop, &self->confirming,
                    self->unconfirmed > 0 ? simba_loop_now_ms() + SILENCE_MS
                                          : INT64_MAX);
}

/* WatchRequest: 1 create, 2 cancel. WatchCreateRequest: 1 key, 3 revision to
 * start at, 7 id. WatchCancelRequest: 1 id. */
static void send(simba__etcd *self, simba__etcd_watch *watch, bool is_create)
{
    struct simba__text *text = simba__rpc_begin(&self->watch_stream);
    size_t began = simba__pb_begin(text, is_create ? 1 : 2);
    simba__etcd_txn names;
    char key[SIMBA__ETCD_KEY_SIZE];

    if (is_create) {
        names = watch->kind->names(watch);
        simba__pb_text(text, 1,
                       simba__etcd_key(&names, watch->kind->letter, key));
        simba__pb_number(text, 3, watch->next_revision);
    }
    simba__pb_number(text, is_create ? 7 : 1, watch->id);
    simba__pb_end(text, began);
    (void)simba__rpc_send(&self->grpc, &self->watch_stream);
}

static void create(simba__etcd *self, simba__etcd_watch *watch)
{
    watch->sure_revision = 0;
    if (self->unconfirmed++ == 0) {
        await_confirmed(self);
    }
    if (self->is_watching) {
        send(self, watch, true);
    }
}

void simba__etcd_watch_clear(simba__etcd *self, simba__etcd_watch *watch)
{
    if (watch->kind == NULL) {
        return;
    }
    if (self->is_watching) {
        send(self, watch, false);
    }
    take_out(self, watch);
    watch->kind = NULL;
    watch->sure_revision = watch->next_revision = 0;
    watch->has_gap = false;
}

enum simba__etcd_set simba__etcd_watch_set(simba__etcd *self,
                                           simba__etcd_watch *watch,
                                           const simba__etcd_watch_kind *kind)
{
    if (watch->kind != NULL) {
        return WAS_SET;
    }
    if (!put_in(self, watch)) {
        return NOT_SET;
    }
    watch->kind = kind;
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
            watch->kind->changed(watch, &kv);
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

/* What happened meanwhile is not known any more. The server may know the id
 * still. */
static void take_compacted(simba__etcd *self, simba__etcd_watch *watch)
{
    watch->next_revision = 0;
    watch->has_gap = true;
    take_out(self, watch);
    (void)put_in(self, watch); /* into the room that it had */
    create(self, watch);
}

/* One that begins where it was interrupted is told nothing by that. */
static void take_confirmed(simba__etcd_watch *watch, int64_t revision)
{
    watch->sure_revision = revision;
    if (watch->next_revision == 0) {
        watch->next_revision = watch->is_history ? revision + 1 : 0;
        watch->kind->changed(watch,
                             &(simba__etcd_kv){.is_gone = watch->has_gap});
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
    if (reply.number[3] != 0 && self->unconfirmed > 0) {
        self->unconfirmed--; /* also if it was cleared meanwhile */
        await_confirmed(self);
    }
    watch = find(self, reply.number[2]);
    if (watch == NULL && reply.number[2] >= 0) {
        return; /* cleared meanwhile */
    }
    if (reply.number[4] != 0 && (watch == NULL || reply.number[5] == 0)) {
        take_refusal(self);
    } else if (watch == NULL) {
        /* of none */
    } else if (reply.number[4] != 0) {
        take_compacted(self, watch);
    } else if (reply.number[3] == 0) {
        take_events(self, rpc->reply, watch->id);
    } else {
        take_confirmed(watch, simba__pb_read(reply.bytes[1]).number[3]);
    }
}

void simba__etcd_watches_begin(simba__etcd *self)
{
    self->watch_stream.method = SIMBA__ETCD_METHOD("Watch/Watch");
    self->watch_stream.is_stream = true;
    self->watch_stream.done = on_message;
    self->is_watching = true;
    self->unconfirmed = 0;
    await_confirmed(self);
    for (size_t i = 0; i < self->watch_room; i++) {
        if (self->watches[i] != NULL) {
            create(self, self->watches[i]); /* a new stream knows no ids */
        }
    }
}

void simba__etcd_watches_lost(simba__etcd *self)
{
    self->is_watching = false;
    for (size_t i = 0; i < self->watch_room; i++) {
        if (self->watches[i] != NULL) {
            self->watches[i]->sure_revision = 0;
            self->watches[i]->has_gap = true;
        }
    }
}
