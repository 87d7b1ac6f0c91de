/* The set of watches: which keys are watched over one stream. A watch begins at
 * the present: one that began at an old revision would be served by the
 * server's loop for those that lag, every 100 ms. Whoever sets one is told when
 * it is sure, and looks then: so nothing is missed between. After a connection
 * was lost all are set again, and all are told. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include "util/container.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void send_message(struct simba__etcd *self,
                         const simba__etcd_watch *message)
{
    simba__etcd_encode(simba__rpc_begin(&self->watch_stream), SIMBA__ETCD_watch,
                       message);
    (void)simba__rpc_send(&self->grpc, &self->watch_stream);
}

static void send_create(struct simba__etcd *self,
                        struct simba__etcd_watched *watch)
{
    simba__etcd_watch message = {.has = SIMBA__ETCD_HAS(1)};

    watch->id = ++self->watch_id;
    watch->is_sure = false;
    message.create.key = simba__etcd_text(watch->key);
    message.create.watch_id = watch->id;
    message.create.start_revision = watch->next_revision;
    send_message(self, &message);
}

bool simba__etcd_watch_set(struct simba__etcd *self,
                           struct simba__etcd_watched *watch,
                           const char *key)
{
    if (key != NULL && watch->key != NULL && strcmp(key, watch->key) == 0) {
        return true;
    }
    simba__etcd_watch_clear(self, watch);
    if (key == NULL) {
        return true;
    }
    watch->key = strdup(key);
    if (watch->key == NULL) {
        return false;
    }
    watch->next = self->watches;
    self->watches = watch;
    if (self->is_watching) {
        send_create(self, watch);
    }
    return true;
}

void simba__etcd_watch_clear(struct simba__etcd *self,
                             struct simba__etcd_watched *watch)
{
    struct simba__etcd_watched **at = &self->watches;
    simba__etcd_watch message = {.has = SIMBA__ETCD_HAS(2)};

    if (watch->key == NULL) {
        return;
    }
    while (*at != watch) {
        at = &(*at)->next;
    }
    *at = watch->next;
    free(watch->key);
    watch->key = NULL;
    watch->is_sure = false;
    watch->next_revision = 0;
    if (self->is_watching) {
        message.cancel.watch_id = watch->id;
        send_message(self, &message);
    }
}

static struct simba__etcd_watched *find(const struct simba__etcd *self,
                                        int64_t id)
{
    struct simba__etcd_watched *watch = self->watches;

    while (watch != NULL && watch->id != id) {
        watch = watch->next;
    }
    return watch;
}

/* Whoever is told may set and clear watches, this one among them. */
static void take_events(struct simba__etcd *self,
                        simba__etcd_watch_reply *reply)
{
    struct simba__etcd_watched *watch;
    simba__etcd_event event;

    while ((watch = find(self, reply->watch_id)) != NULL &&
           simba__etcd_next(&reply->events, &event)) {
        if (watch->is_history) {
            watch->next_revision = event.kv.mod_revision + 1;
        }
        watch->changed(watch, &event);
    }
}

static void on_message(struct simba__rpc *rpc,
                       int status,
                       const simba_error *error)
{
    struct simba__etcd *self =
        container_of(rpc, struct simba__etcd, watch_stream);
    simba__etcd_watch_reply reply = self->watch_reply;
    struct simba__etcd_watched *watch;

    (void)error;
    if (status != SIMBA_OK) { /* set anew with the next connection */
        simba__etcd_watches_lost(self);
        return;
    }
    watch = find(self, reply.watch_id);
    if (watch == NULL) {
        return; /* cleared meanwhile */
    }
    if (reply.canceled) {
        /* Compacted: what happened meanwhile is not known any more. */
        watch->next_revision = 0;
        send_create(self, watch);
    } else if (reply.created) {
        bool is_gap = watch->next_revision == 0;

        watch->is_sure = true;
        if (watch->is_history && is_gap) {
            watch->next_revision = reply.header.revision + 1;
        }
        if (is_gap) {
            watch->changed(watch, NULL);
        }
    } else {
        take_events(self, &reply);
    }
}

void simba__etcd_watches_begin(struct simba__etcd *self)
{
    self->watch_stream.method = SIMBA__ETCD_WATCH;
    self->watch_stream.is_stream = true;
    self->watch_stream.answer = &self->watch_reply;
    self->watch_stream.done = on_message;
    self->is_watching = true;
    for (struct simba__etcd_watched *w = self->watches; w != NULL;
         w = w->next) {
        send_create(self, w);
    }
}

void simba__etcd_watches_lost(struct simba__etcd *self)
{
    self->is_watching = false;
    for (struct simba__etcd_watched *w = self->watches; w != NULL;
         w = w->next) {
        w->is_sure = false;
    }
}
