/* Watches: a node that vanished, a mutex that is observed. A watch only wakes:
 * what is true is asked for. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "util/container.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WATCH_DELAY_MS = 3, /* one read less for who holds it shorter than this */
    WATCHES_MOST = 256  /* that are set together */
};

/* --- our own nodes ------------------------------------------------------- */

static void on_watch_due(simba_timer *timer);

/* The first that is due; those of one moment are asked for together. */
static void set_timer(simba__zk *self)
{
    bool is_idle = self->due == NULL || self->own.exchange.connection != NULL;

    self->watching.fire = on_watch_due;
    simba_timer_set(self->base.base.loop, &self->watching,
                    is_idle ? INT64_MAX : self->due->at_ms);
}

static simba__zk_latch *take_due(simba__zk *self)
{
    struct simba__zk_due *due = self->due;
    simba__zk_latch *latch = due->latch;

    self->due = due->next;
    latch->is_due = false;
    free(due);
    return latch;
}

/* Is it still there, and has nobody who stands behind it set the watch? */
static bool has_to_be_watched(const simba__zk_latch *latch)
{
    return latch->base.mutex != NULL && !latch->base.is_leaving &&
           latch->base.state == SIMBA_KEY_PRESENT && !latch->is_watched;
}

static void on_owns(simba__zk_batch *batch)
{
    simba__zk *self = batch->self;

    for (int i = 0; i < batch->count; i++) {
        simba__zk_latch *latch = self->owns[i];
        int rc =
            batch->status == SIMBA_OK ? batch->replies[i].rc : SIMBA__ZK_SYSTEM;

        latch->is_watched = rc == SIMBA__ZK_OK;
        if (rc == SIMBA__ZK_NO_NODE) {
            simba_entry_vanished(&latch->base);
        }
        simba_entry_drop(&latch->base);
    }
    free(self->owns);
    self->owns = NULL;
    simba__zk_batch_fini(batch); /* it is long until the next */
    set_timer(self);
}

static void on_watch_due(simba_timer *timer)
{
    simba__zk *self = container_of(timer, simba__zk, watching);
    bool is_ready = self->base.ops->is_ready(&self->base);
    int64_t now_ms = simba_loop_now_ms();

    self->owns = calloc(WATCHES_MOST, sizeof(simba__zk_latch *));
    simba__zk_begin(&self->own, self);
    while (self->due != NULL && self->due->at_ms <= now_ms &&
           self->own.count < WATCHES_MOST) {
        simba__zk_latch *latch = take_due(self);
        char node[SIMBA__ZK_NODE_SIZE];

        if (is_ready && self->owns != NULL && has_to_be_watched(latch)) {
            self->owns[self->own.count] = latch;
            simba__zk_node(latch, node);
            simba__zk_ask(&self->own, SIMBA__ZK_GET_DATA | SIMBA__ZK_WATCH,
                          simba_session_mutex_name(latch->base.mutex), node);
        } else {
            simba_entry_drop(&latch->base);
        }
    }
    simba__zk_send(&self->own, self->session, NULL, on_owns);
    set_timer(self);
}

void simba__zk_watch_own(simba__zk_latch *latch)
{
    simba__zk *self = SIMBA__ZK(latch->base.store);
    struct simba__zk_due *due =
        latch->is_watched || latch->is_due ? NULL : malloc(sizeof *due);

    if (due == NULL) { /* or no memory: it is seen at the next look */
        return;
    }
    simba_entry_hold(&latch->base);
    latch->is_due = true;
    *due = (struct simba__zk_due){
        .latch = latch, .at_ms = simba_loop_now_ms() + WATCH_DELAY_MS};
    if (self->due == NULL) {
        self->last_due = &self->due;
    }
    *self->last_due = due;
    self->last_due = &due->next;
    if (self->due == due) {
        set_timer(self);
    }
}

void simba__zk_own_fini(simba__zk *self)
{
    simba_timer_clear(self->base.base.loop, &self->watching);
    for (int i = 0; self->owns != NULL && i < self->own.count; i++) {
        simba_entry_drop(&self->owns[i]->base);
    }
    free(self->owns);
    self->owns = NULL;
    simba__zk_batch_fini(&self->own);
    while (self->due != NULL) {
        simba_entry_drop(&take_due(self)->base);
    }
}

/* --- observers ----------------------------------------------------------- */

static void send_observe(simba__zk_mutex *mutex);

/* The children; or nobody has used it, or it was reaped, and its making is
 * watched. */
static void on_observed(simba__zk_batch *batch)
{
    simba__zk_mutex *mutex = batch->user;
    const simba__zk_reply *replies = batch->replies;
    simba__zk_view found = {0};

    mutex->observing->is_watched = false;
    if (batch->status != SIMBA_OK || !simba__zk_is_by_quorum(replies[0].rc)) {
        return; /* set anew with the next connection */
    }
    if (replies[0].rc != replies[1].rc) {
        send_observe(mutex); /* it was made or reaped in between */
        return;
    }
    if (replies[0].rc == SIMBA__ZK_OK) {
        found.czxid = replies[0].stat.czxid;
        found.latches_made = simba__zk_children_made(&replies[0].stat);
    }
    mutex->observing->is_watched = true;
    simba__zk_serials_watched(&mutex->observing->serials, &found);
}

static void send_observe(simba__zk_mutex *mutex)
{
    simba__zk *self = SIMBA__ZK(mutex->base.store);
    const char *name = simba_session_mutex_name(&mutex->base);
    simba__zk_batch *batch = &mutex->observing->batch;

    mutex->observing->is_watched = true;
    batch->user = mutex;
    simba__zk_begin(batch, self);
    simba__zk_ask(batch, SIMBA__ZK_GET_CHILDREN | SIMBA__ZK_WATCH, name, NULL);
    simba__zk_ask(batch, SIMBA__ZK_EXISTS | SIMBA__ZK_WATCH, name, NULL);
    simba__zk_send(batch, self->session, NULL, on_observed);
}

/* True: it is watched only from now on. */
static bool observe(simba_session_mutex *base)
{
    simba__zk_mutex *mutex = SIMBA__ZK_MUTEX(base);

    if (mutex->observing == NULL || mutex->observing->is_watched ||
        !base->store->ops->is_ready(base->store)) {
        return false;
    }
    simba_exchange_cancel(&mutex->observing->batch.exchange);
    send_observe(mutex);
    return true;
}

void simba__zk_observe(simba_session_mutex *base)
{
    simba__zk_mutex *mutex = SIMBA__ZK_MUTEX(base);

    if (mutex->observing != NULL) {
        simba__zk_batch_fini(&mutex->observing->batch);
        free(mutex->observing);
        mutex->observing = NULL;
    }
    if (base->is_observed) { /* without memory its observers only poll */
        mutex->observing = calloc(1, sizeof *mutex->observing);
        simba__zk_want_any(SIMBA__ZK(base->store));
        (void)observe(base);
    }
}

/* --- events -------------------------------------------------------------- */

char *simba__zk_before(char *before, const char *node)
{
    while (before != NULL && *before != '\0' && strcmp(before, node) != 0) {
        before += strlen(before) + 1;
    }
    return before == NULL || *before == '\0' ? NULL : before;
}

/* Is it one before this latch? Then its watch has served; the others stay. */
static bool take_before(simba__zk_latch *latch,
                        const char *node,
                        uint64_t position)
{
    char *found = simba__zk_before(latch->before, node), *rest, *end;

    if (found != NULL && latch->are_watched) {
        rest = end = found + strlen(found) + 1;
        while (*end != '\0') {
            end += strlen(end) + 1;
        }
        memmove(found, rest, (size_t)(end - rest) + 1);
    }
    return found != NULL ||
           (latch->before == NULL && latch->before_from == position);
}

/* One of ours leaves the queue. Whoever stood behind it stands behind the one
 * before it now, and that one is watched already: nobody has to look. */
static bool inherit(simba__zk_latch *latch, uint64_t position)
{
    simba__zk_latch *left = simba__zk_previous(latch);

    if (latch->before != NULL || latch->before_from != position ||
        !latch->are_watched || left == NULL || !left->are_watched ||
        left->base.is_unwatched || left->base.slots != 0) {
        return false;
    }
    latch->before = left->before;
    latch->before_from = left->before_from;
    latch->base.is_head = left->base.is_head;
    left->before = NULL;
    left->are_watched = false;
    return true;
}

/* It may be a latch of ours, or one before it. Of thousands that wait most have
 * nothing to do with it: their positions tell, before names are compared. */
static bool take_node(simba_session_mutex *mutex, int type, const char *node)
{
    uint64_t position = simba__zk_position(node);
    bool is_news = false, is_gone = type == SIMBA__ZK_EVENT_DELETED;

    for (simba_entry *e = mutex->entries; e != NULL; e = e->next) {
        simba__zk_latch *latch = (simba__zk_latch *)e;
        char own[SIMBA__ZK_NODE_SIZE];
        bool is_own, is_watched;

        if (position > e->position ||
            (position < e->position && position < latch->before_from) ||
            (is_gone && inherit(latch, position))) {
            continue;
        }
        simba__zk_node(latch, own);
        is_own = e->state == SIMBA_KEY_PRESENT && strcmp(own, node) == 0;
        is_watched = take_before(latch, node, position);
        if (is_watched) {
            simba_entry_unwatched(e);
        }
        if (is_watched && latch->task != NULL) {
            latch->task->has_gone = true;
        }
        latch->is_watched &= !is_own;
        if (is_own && is_gone && !e->is_leaving) {
            e->state = e->is_doubted ? SIMBA_KEY_DOUBTFUL : SIMBA_KEY_ABSENT;
        }
        is_news |= (is_own && !e->is_leaving) || is_watched;
    }
    if (is_gone && simba__zk_sequence(node) != NULL) {
        simba__zk_gone(SIMBA__ZK_MUTEX(mutex), position);
    }
    return is_news;
}

void simba__zk_event(simba__zk *self, int type, const char *path)
{
    size_t length = strlen(self->settings.base);
    char escaped[SIMBA__ZK_ESCAPED_SIZE], name[SIMBA_MUTEX_MAX_BYTES + 1];
    struct simba__zk_observing *observing;
    simba_session_mutex *mutex;
    const char *node;
    bool is_news;

    if (strncmp(path, self->settings.base, length) != 0 ||
        path[length] != '/') {
        return; /* none of ours */
    }
    path += length + 1;
    node = strchr(path, '/');
    snprintf(escaped, sizeof escaped, "%.*s", (int)strcspn(path, "/"), path);
    mutex = simba__zk_unescape(escaped, name)
                ? simba_session_mutex_get(&self->base, name, false)
                : NULL;
    if (mutex == NULL) {
        return;
    }
    is_news =
        node == NULL ? mutex->is_observed : take_node(mutex, type, node + 1);
    observing = SIMBA__ZK_MUTEX(mutex)->observing;
    if (is_news && node == NULL && observing != NULL) {
        simba__zk_serials_changed(&observing->serials,
                                  type == SIMBA__ZK_EVENT_DELETED);
        observing->is_watched = false;
        (void)observe(mutex);
    }
    if (is_news) {
        simba_wake(self->base.base.loop, name);
    }
}

/* --- after a connection was lost ----------------------------------------- */

/* Watches those before a latch anew, and our own node. False: the one of ours
 * before it is forgotten, so it went. */
static bool ask_before(simba__zk *self, const simba__zk_latch *latch)
{
    const simba__zk_latch *previous = simba__zk_previous(latch);
    const char *mutex = simba_session_mutex_name(latch->base.mutex);
    const char *name = latch->before;
    char node[SIMBA__ZK_NODE_SIZE + 1];

    if (name == NULL) {
        if (previous == NULL ||
            (previous->is_watched && !previous->base.is_leaving)) {
            return previous != NULL; /* it is asked for by itself */
        }
        simba__zk_node(previous, node);
        node[strlen(node) + 1] = '\0';
        name = node;
    }
    for (; *name != '\0'; name += strlen(name) + 1) {
        simba__zk_ask(&self->watches, SIMBA__ZK_SET_WATCHES, mutex, name);
    }
    return true;
}

/* The server tells at once of what has happened since the last that we have
 * heard of. */
static bool ask_watches(simba__zk *self, const simba_session_mutex *mutex)
{
    bool is_news = false;

    for (simba_entry *e = mutex->entries; e != NULL; e = e->next) {
        simba__zk_latch *latch = (simba__zk_latch *)e;
        char own[SIMBA__ZK_NODE_SIZE];

        if (e->state != SIMBA_KEY_PRESENT || e->is_leaving) {
            continue;
        }
        if (latch->are_watched && !ask_before(self, latch)) {
            latch->are_watched = false;
            simba_entry_unwatched(e);
            is_news = true;
        }
        if (latch->is_watched) {
            simba__zk_node(latch, own);
            simba__zk_ask(&self->watches, SIMBA__ZK_SET_WATCHES,
                          simba_session_mutex_name(mutex), own);
        }
    }
    return is_news;
}

/* One that could not be set would tell nothing: who wanted it looks for itself.
 */
static void on_watches_set(simba__zk_batch *batch)
{
    simba_session_mutex *mutex = NULL;
    bool is_set = true;

    for (int i = 0; batch->status == SIMBA_OK && i < batch->count; i++) {
        is_set &= batch->replies[i].rc == SIMBA__ZK_OK;
    }
    if (is_set) {
        return;
    }
    while ((mutex = simba_session_mutex_next(&batch->self->base, mutex)) !=
           NULL) {
        for (simba_entry *e = mutex->entries; e != NULL; e = e->next) {
            ((simba__zk_latch *)e)->is_watched = false;
            ((simba__zk_latch *)e)->are_watched = false;
            simba_entry_unwatched(e);
            e->confirmed_ms = 0;
        }
    }
    simba_wake(batch->self->base.base.loop, NULL);
}

void simba__zk_watches_set(simba__zk *self, bool is_new)
{
    simba_session_mutex *mutex = NULL;
    bool is_news = false;

    simba_exchange_cancel(&self->watches.exchange);
    simba__zk_begin(&self->watches, self);
    while ((mutex = simba_session_mutex_next(&self->base, mutex)) != NULL) {
        is_news |= !is_new && ask_watches(self, mutex);
        is_news |= observe(mutex);
    }
    simba__zk_send(&self->watches, self->session, NULL, on_watches_set);
    if (is_news) { /* what happened meanwhile was told to nobody */
        simba_wake(self->base.base.loop, NULL);
    }
}

void simba__zk_watches_lost(simba__zk *self)
{
    simba_session_mutex *mutex = NULL;

    while ((mutex = simba_session_mutex_next(&self->base, mutex)) != NULL) {
        struct simba__zk_observing *observing =
            SIMBA__ZK_MUTEX(mutex)->observing;

        if (observing != NULL) {
            simba_exchange_cancel(&observing->batch.exchange);
            simba__zk_serials_changed(&observing->serials, false);
            observing->is_watched = false; /* to be set anew */
        }
    }
}
