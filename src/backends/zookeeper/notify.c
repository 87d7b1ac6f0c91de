/* Watches: a node that vanished, a mutex that is observed. A watch only wakes:
 * what is true is asked for. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "util/container.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One read less for who holds it shorter than this. */
enum { WATCH_DELAY_MS = 3 };

/* --- watches of a latch -------------------------------------------------- */

/* Those that are to be set, or are being set: on our own node, and after a
 * connection was lost on those before it. */
struct simba__zk_watching {
    simba__zk_batch batch; /* first; its user is the latch */
    simba_timer timer;
    struct simba__zk_watching *next, **link; /* of the store's */
    bool is_anew;
};

static void end_watching(struct simba__zk_watching *watching)
{
    simba__zk_latch *latch = watching->batch.user;

    latch->is_due = false;
    simba_timer_clear(latch->base.store->base.loop, &watching->timer);
    simba__zk_batch_fini(&watching->batch);
    *watching->link = watching->next;
    if (watching->next != NULL) {
        watching->next->link = watching->link;
    }
    free(watching);
    simba_entry_drop(&latch->base);
}

/* Who would be told of nothing looks for itself. */
static void lose_watches(simba__zk_latch *latch)
{
    latch->are_watched = false;
    latch->base.confirmed_ms = 0;
    simba_entry_unwatched(&latch->base);
}

static void node_changed(simba_session_mutex *mutex,
                         int type,
                         const char *node);

/* What has gone meanwhile is told as a watch would have told it. */
static void on_watched(simba__zk_batch *batch)
{
    struct simba__zk_watching *watching = (struct simba__zk_watching *)batch;
    simba__zk_latch *latch = batch->user;
    simba_session_mutex *mutex = latch->base.mutex;
    char node[SIMBA__ZK_NODE_SIZE];
    int rc;

    if (batch->status == SIMBA_OK && mutex != NULL) {
        for (int i = 1; i < batch->count; i++) {
            if (batch->replies[i].rc != SIMBA__ZK_OK) {
                lose_watches(latch);
                simba_wake(mutex->store->base.loop,
                           simba_session_mutex_name(mutex));
            }
        }
        rc = batch->replies[0].rc;
        latch->is_watched = rc == SIMBA__ZK_OK;
        if (rc == SIMBA__ZK_NO_NODE ||
            (rc != SIMBA__ZK_OK && watching->is_anew)) {
            simba__zk_node(latch, node);
            node_changed(mutex,
                         rc == SIMBA__ZK_NO_NODE ? SIMBA__ZK_EVENT_DELETED : 0,
                         node);
        }
    }
    end_watching(watching);
}

/* Unless it has left, or somebody who stands behind it has set the watch. */
static void send_watching(struct simba__zk_watching *watching)
{
    simba__zk_batch *batch = &watching->batch;
    simba__zk_latch *latch = batch->user;
    simba__zk *self = SIMBA__ZK(latch->base.store);
    const char *before = latch->before, *mutex;
    char node[SIMBA__ZK_NODE_SIZE];

    if (latch->base.mutex == NULL || latch->base.is_leaving ||
        latch->base.state != SIMBA_KEY_PRESENT || latch->is_watched ||
        !self->base.ops->is_ready(&self->base)) {
        end_watching(watching);
        return;
    }
    mutex = simba_session_mutex_name(latch->base.mutex);
    simba__zk_node(latch, node);
    simba__zk_begin(batch, self);
    simba__zk_ask(batch, SIMBA__ZK_GET_DATA | SIMBA__ZK_WATCH, mutex, node);
    while (watching->is_anew && latch->are_watched && before != NULL &&
           *before != '\0') {
        simba__zk_ask(batch, SIMBA__ZK_GET_DATA | SIMBA__ZK_WATCH, mutex,
                      before);
        before += strlen(before) + 1;
    }
    simba__zk_send(batch, self->session, NULL, on_watched);
}

static void on_watch_due(simba_timer *timer)
{
    send_watching(container_of(timer, struct simba__zk_watching, timer));
}

/* NULL: no memory; what happens is seen at the next look. */
static struct simba__zk_watching *begin_watching(simba__zk_latch *latch)
{
    simba__zk *self = SIMBA__ZK(latch->base.store);
    struct simba__zk_watching *watching = calloc(1, sizeof *watching);

    if (watching != NULL) {
        simba_entry_hold(&latch->base);
        watching->batch.user = latch;
        watching->timer.fire = on_watch_due;
        watching->next = self->watching;
        watching->link = &self->watching;
        if (self->watching != NULL) {
            self->watching->link = &watching->next;
        }
        self->watching = watching;
    }
    return watching;
}

void simba__zk_watch_own(simba__zk_latch *latch)
{
    struct simba__zk_watching *watching =
        latch->is_watched || latch->is_due ? NULL : begin_watching(latch);

    if (watching != NULL) {
        latch->is_due = true;
        simba_timer_set(latch->base.store->base.loop, &watching->timer,
                        simba_loop_now_ms() + WATCH_DELAY_MS);
    }
}

/* Whoever stands behind one of ours is told by that one's watch. False: it may
 * have gone already. */
static bool watch_anew(simba__zk_latch *latch)
{
    const simba__zk_latch *previous = simba__zk_previous(latch);
    bool has_gone = latch->are_watched && latch->before == NULL &&
                    (previous == NULL || previous->base.is_leaving);
    struct simba__zk_watching *watching;

    if (latch->base.state != SIMBA_KEY_PRESENT || latch->base.is_leaving) {
        return true;
    }
    if (has_gone) {
        lose_watches(latch);
    }
    latch->is_watched = false;
    watching = begin_watching(latch);
    if (watching != NULL) {
        watching->is_anew = true;
        send_watching(watching);
    }
    return !has_gone;
}

void simba__zk_watching_fini(simba__zk *self)
{
    struct simba__zk_watching *watching = self->watching, *next;

    for (; watching != NULL; watching = next) {
        next = watching->next;
        end_watching(watching);
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
static void node_changed(simba_session_mutex *mutex, int type, const char *node)
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
    if (is_news) {
        simba_wake(mutex->store->base.loop, simba_session_mutex_name(mutex));
    }
}

void simba__zk_event(simba__zk *self, int type, const char *path)
{
    size_t length = strlen(self->settings.base);
    char escaped[SIMBA__ZK_ESCAPED_SIZE], name[SIMBA_MUTEX_MAX_BYTES + 1];
    struct simba__zk_observing *observing;
    simba_session_mutex *mutex;
    const char *node;

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
    if (mutex != NULL && node != NULL) {
        node_changed(mutex, type, node + 1);
    } else if (mutex != NULL && mutex->is_observed) {
        observing = SIMBA__ZK_MUTEX(mutex)->observing;
        if (observing != NULL) {
            simba__zk_serials_changed(&observing->serials,
                                      type == SIMBA__ZK_EVENT_DELETED);
            observing->is_watched = false;
            (void)observe(mutex);
        }
        simba_wake(self->base.base.loop, name);
    }
}

/* --- connections --------------------------------------------------------- */

void simba__zk_watches_set(simba__zk *self, bool is_new)
{
    simba_session_mutex *mutex = NULL;
    bool is_news = false;

    while ((mutex = simba_session_mutex_next(&self->base, mutex)) != NULL) {
        for (simba_entry *e = mutex->entries; !is_new && e != NULL;
             e = e->next) {
            is_news |= !watch_anew((simba__zk_latch *)e);
        }
        is_news |= observe(mutex);
    }
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
