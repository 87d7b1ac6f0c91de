/* Watches: a node that vanished, a mutex that is observed. A watch only wakes:
 * what is true is asked for. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "util/container.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WATCH_DELAY_MS = 3 /* one read less for who holds it shorter than this */
};

/* --- our own node -------------------------------------------------------- */

static void on_own(simba__zk_batch *batch)
{
    simba__zk_latch *latch = batch->user;
    int rc =
        batch->status == SIMBA_OK ? batch->replies[0].rc : SIMBA__ZK_SYSTEM;

    latch->is_watched = rc == SIMBA__ZK_OK;
    simba__zk_batch_fini(batch); /* it is long until the next */
    if (rc == SIMBA__ZK_NO_NODE) {
        simba_entry_vanished(&latch->base);
    }
}

static void on_watch_due(simba_timer *timer)
{
    simba__zk_latch *latch = container_of(timer, simba__zk_latch, watching);
    simba__zk *self = SIMBA__ZK(latch->base.store);

    if (!self->base.ops->is_ready(&self->base) || latch->base.is_leaving ||
        latch->base.state != SIMBA_KEY_PRESENT ||
        latch->own.exchange.connection != NULL) {
        latch->is_watched = false;
        return;
    }
    simba__zk_begin(&latch->own, self);
    simba__zk_ask(&latch->own, SIMBA__ZK_GET_DATA | SIMBA__ZK_WATCH,
                  simba_session_mutex_name(latch->base.mutex), latch->node);
    latch->own.user = latch;
    simba__zk_send(&latch->own, self->session, NULL, on_own);
}

void simba__zk_watch_own(simba__zk_latch *latch)
{
    if (!latch->is_watched) {
        latch->is_watched = true;
        latch->watching.fire = on_watch_due;
        simba_timer_set(latch->base.store->base.loop, &latch->watching,
                        simba_loop_now_ms() + WATCH_DELAY_MS);
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

    mutex->is_watched = false;
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
    mutex->is_watched = true;
    simba__zk_serials_watched(&mutex->serials, &found);
}

static void send_observe(simba__zk_mutex *mutex)
{
    simba__zk *self = SIMBA__ZK(mutex->base.store);
    const char *name = simba_session_mutex_name(&mutex->base);

    mutex->is_watched = true;
    mutex->observing.user = mutex;
    simba__zk_begin(&mutex->observing, self);
    simba__zk_ask(&mutex->observing, SIMBA__ZK_GET_CHILDREN | SIMBA__ZK_WATCH,
                  name, NULL);
    simba__zk_ask(&mutex->observing, SIMBA__ZK_EXISTS | SIMBA__ZK_WATCH, name,
                  NULL);
    simba__zk_send(&mutex->observing, self->session, NULL, on_observed);
}

/* True: it is watched only from now on. */
static bool observe(simba_session_mutex *base)
{
    simba__zk_mutex *mutex = (simba__zk_mutex *)base;

    if (!base->is_observed || mutex->is_watched ||
        !base->store->ops->is_ready(base->store)) {
        return false;
    }
    simba_exchange_cancel(&mutex->observing.exchange);
    send_observe(mutex);
    return true;
}

void simba__zk_observe(simba_session_mutex *base)
{
    simba__zk_mutex *mutex = (simba__zk_mutex *)base;

    simba__zk_batch_fini(&mutex->observing);
    mutex->is_watched = false;
    mutex->serials = (simba__zk_serials){0};
    if (base->is_observed) {
        simba__zk_want_any(SIMBA__ZK(base->store));
        (void)observe(base);
    }
}

/* --- events -------------------------------------------------------------- */

int simba__zk_before(char *const *before, int count, const char *node)
{
    while (count > 0 && strcmp(before[count - 1], node) != 0) {
        count--;
    }
    return count - 1;
}

/* Is it one before this latch? Then its watch has served; the others stay. */
static bool take_before(simba__zk_latch *latch, const char *node)
{
    int i = simba__zk_before(latch->before, latch->before_count, node);

    if (i >= 0 && latch->are_watched) {
        free(latch->before[i]);
        latch->before[i] = latch->before[--latch->before_count];
    }
    return i >= 0;
}

/* It may be a latch of ours, or one before it. Of thousands that wait most have
 * nothing to do with it: their positions tell, before names are compared. */
static bool take_node(const simba_session_mutex *mutex,
                      int type,
                      const char *node)
{
    uint64_t position = simba__zk_position(node);
    bool is_news = false;

    for (simba_entry *e = mutex->entries; e != NULL; e = e->next) {
        simba__zk_latch *latch = (simba__zk_latch *)e;
        bool is_own, is_watched;

        if (position > e->position ||
            (position < e->position && position < latch->before_from)) {
            continue;
        }
        is_own =
            e->state == SIMBA_KEY_PRESENT && strcmp(latch->node, node) == 0;
        is_watched = take_before(latch, node);
        if (is_watched) {
            latch->has_gone = true;
            simba_entry_unwatched(e);
        }
        latch->is_watched &= !is_own;
        if (is_own && type == SIMBA__ZK_EVENT_DELETED && !e->is_leaving) {
            e->state = e->is_doubted ? SIMBA_KEY_DOUBTFUL : SIMBA_KEY_ABSENT;
        }
        is_news |= (is_own && !e->is_leaving) || is_watched;
    }
    return is_news;
}

void simba__zk_event(simba__zk *self, int type, const char *path)
{
    size_t length = strlen(self->settings.base);
    char escaped[SIMBA__ZK_ESCAPED_SIZE], name[SIMBA_MUTEX_MAX_BYTES + 1];
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
    if (is_news && node == NULL) {
        simba__zk_serials_changed(&((simba__zk_mutex *)mutex)->serials,
                                  type == SIMBA__ZK_EVENT_DELETED);
        ((simba__zk_mutex *)mutex)->is_watched = false;
        (void)observe(mutex);
    }
    if (is_news) {
        simba_wake(self->base.base.loop, name);
    }
}

/* --- after a connection was lost ----------------------------------------- */

/* The server tells at once of what has happened since the last that we have
 * heard of. */
static void ask_watches(simba__zk *self, const simba_session_mutex *mutex)
{
    const char *name = simba_session_mutex_name(mutex);

    for (simba_entry *e = mutex->entries; e != NULL; e = e->next) {
        const simba__zk_latch *latch = (const simba__zk_latch *)e;

        if (e->state == SIMBA_KEY_PRESENT && !e->is_leaving) {
            for (int i = 0; i < latch->before_count && latch->are_watched;
                 i++) {
                simba__zk_ask(&self->watches, SIMBA__ZK_SET_WATCHES, name,
                              latch->before[i]);
            }
            if (latch->is_watched) {
                simba__zk_ask(&self->watches, SIMBA__ZK_SET_WATCHES, name,
                              latch->node);
            }
        }
    }
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
        if (!is_new) {
            ask_watches(self, mutex);
        }
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
        simba__zk_mutex *observed = (simba__zk_mutex *)mutex;

        simba_exchange_cancel(&observed->observing.exchange);
        simba__zk_serials_changed(&observed->serials, false);
        observed->is_watched = false; /* to be set anew */
    }
}
