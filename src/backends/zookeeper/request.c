/* Put, look and remove: what is sent for a latch, and what follows from the
 * replies. What belongs together is sent together.
 *
 *   put     create + children; after a lost reply it is looked for first
 *   look    check of our own node + children
 *   both    if it is not the lowest: data of the one before it, with a watch,
 *           and of the owner
 *   remove  delete */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS_MOST = 8,     /* so often parents do not vanish by accident */
    CONTAINER_ROUNDS = 4 /* three refusals for want of a parent: the server
                          * knows no containers */
};

typedef simba__zk_latch latch_t;

static simba__zk *store_of(const latch_t *latch)
{
    return SIMBA__ZK(latch->base.store);
}

static const char *mutex_of(const latch_t *latch)
{
    return simba_session_mutex_name(latch->base.mutex);
}

/* --- steps --------------------------------------------------------------- */

static void finish(latch_t *latch, int status, const simba_error *error)
{
    /* What a put has left goes again. */
    bool is_there = latch->base.step == SIMBA_STEP_PUT &&
                    latch->base.state == SIMBA_KEY_PRESENT;

    simba_entry_done(&latch->base, status, error,
                     is_there ? SIMBA_STANDS_BEHIND : SIMBA_STANDS_NOWHERE);
}

static void fail(latch_t *latch, int rc)
{
    simba_error error;
    int status = simba__zk_fail(store_of(latch), rc, &error);

    if (latch->base.step == SIMBA_STEP_REMOVE) {
        simba__log(&store_of(latch)->log, SIMBA_LOG_ERROR,
                   "cannot remove a latch: %s", error.message);
    }
    finish(latch, status, &error);
}

static void stands(latch_t *latch, enum simba_standing standing)
{
    simba_entry_done(&latch->base, SIMBA_OK, NULL, standing);
}

/* Thousands may wait: who does keeps nothing of what it has asked. */
static void on_done(simba__zk_batch *batch)
{
    latch_t *latch = batch->user;

    simba_entry_hold(&latch->base);
    if (batch->status == SIMBA_OK) {
        latch->taken(latch);
    } else {
        finish(latch, batch->status, batch->error);
    }
    if (!latch->is_owner && batch->exchange.connection == NULL) {
        simba__zk_batch_fini(batch);
    }
    simba_entry_drop(&latch->base);
}

static void begin(latch_t *latch)
{
    simba__zk_begin(&latch->batch, store_of(latch));
}

static void ask(latch_t *latch, int op, const char *node)
{
    simba__zk_ask(&latch->batch, op, mutex_of(latch), node);
}

static void send(latch_t *latch, void (*taken)(latch_t *latch))
{
    const simba_entry *entry = &latch->base;

    latch->taken = taken;
    latch->batch.user = latch;
    simba__zk_send(&latch->batch, store_of(latch)->session,
                   entry->acquire != NULL ? entry->acquire : entry->release,
                   on_done);
}

/* The last reply, and those before it. */
static const simba__zk_reply *reply(const latch_t *latch, int before)
{
    return &latch->batch.replies[latch->batch.count - 1 - before];
}

/* The first failure of a write and the read behind it, unless they fail for
 * want of a node. */
static int failure(const latch_t *latch)
{
    int read_rc = reply(latch, 0)->rc;

    return simba__zk_is_by_quorum(read_rc) ? reply(latch, 1)->rc : read_rc;
}

/* --- who else is there --------------------------------------------------- */

static void free_names(char **names, int count)
{
    while (count > 0) {
        free(names[--count]);
    }
    free(names);
}

static void forget_others(latch_t *latch)
{
    free(latch->lowest);
    free_names(latch->before, latch->before_count);
    latch->lowest = NULL;
    latch->before = NULL;
    latch->before_count = 0;
    latch->are_watched = false;
}

/* Who is to be watched, and the lowest; without memory nobody. After one of
 * several went the others are watched still: they stand last here, and are not
 * asked for again. */
static void keep_others(latch_t *latch, const simba__zk_standing *where)
{
    char *const *names = reply(latch, 0)->names;
    const simba_crowd_watched *watched = &where->watched;
    int count = (int)(watched->end - watched->begin) + 1;
    char **was = latch->before;
    int was_count = latch->before_count, last = count;
    int kept = latch->are_watched && latch->base.is_unwatched ? was_count : 0;
    bool is_whole = true;

    latch->before = NULL;
    latch->before_count = latch->asked_count = 0;
    latch->before_from = UINT64_MAX;
    forget_others(latch);
    latch->lowest = where->lowest < 0 ? NULL : strdup(names[where->lowest]);
    latch->before = where->before < 0 || where->is_owner
                        ? NULL
                        : calloc((size_t)count, sizeof latch->before[0]);
    for (int i = 1; latch->before != NULL && i <= count; i++) {
        const char *name =
            names[i < count ? watched->end - (uint32_t)i : watched->other];
        bool is_kept = simba__zk_before(was, kept, name) >= 0;
        int at = is_kept ? --last : latch->asked_count++;
        uint64_t position = simba__zk_position(name);

        if (position < latch->before_from) {
            latch->before_from = position;
        }
        latch->before[at] = strdup(name);
        is_whole &= latch->before[at] != NULL;
        latch->before_count++;
    }
    if (!is_whole) {
        forget_others(latch);
    }
    free_names(was, was_count);
}

static int find(const simba__zk_reply *all, const char *name)
{
    char **found = bsearch(&name, all->names, (size_t)all->count,
                           sizeof all->names[0], simba__zk_by_sequence);

    return found == NULL ? -1 : (int)(found - all->names);
}

/* Who is still there, behind the same ones, waits on. Who is not has missed
 * something, and looks for itself. */
static bool is_confirmed(const simba_entry *entry, void *looker)
{
    const latch_t *latch = (const latch_t *)entry;
    const simba__zk_reply *all = reply(looker, 0);
    int own = find(all, latch->node), there = 0;

    while (there < latch->before_count &&
           find(all, latch->before[there]) >= 0) {
        there++;
    }
    ((simba_entry *)entry)->is_head =
        own >= 0 && (uint32_t)own == ((latch_t *)looker)->base.owned;
    return own >= 0 && there > 0 && there == latch->before_count;
}

/* By the children, which are the last reply: where we stand, by our name or, if
 * that is not known, by how it begins. */
static void take_children(latch_t *latch)
{
    const simba__zk_reply *all = reply(latch, 0);
    bool is_known = latch->base.state == SIMBA_KEY_PRESENT;
    simba__zk_standing where;

    simba__zk_stand(all->names, all->count,
                    is_known ? latch->node : latch->prefix, &where);
    latch->is_found = where.own >= 0;
    latch->is_owner = where.is_owner;
    latch->base.is_head = where.is_head;
    latch->base.owned = where.owned;
    latch->base.least = where.slots;
    keep_others(latch, &where);
    if (latch->is_found && !is_known) {
        snprintf(latch->node, sizeof latch->node, "%s", all->names[where.own]);
    }
    if (latch->base.mutex->looker == &latch->base && all->count > 0) {
        qsort(all->names, (size_t)all->count, sizeof all->names[0],
              simba__zk_by_sequence);
        simba_session_confirm(latch->base.mutex, is_confirmed, latch);
    }
}

/* --- the queue ----------------------------------------------------------- */

static void send_look(latch_t *latch);

static bool joins(const latch_t *latch)
{
    return latch->base.acquire != NULL && latch->base.acquire->join;
}

/* Of those before us, if we join, then of the owner, unless it is the last of
 * them. */
static void take_queue(latch_t *latch)
{
    bool is_asking = latch->is_asking;
    int rc = is_asking ? SIMBA__ZK_OK : latch->batch.replies[0].rc;

    for (int i = 0; is_asking && i < latch->asked_count; i++) {
        rc = rc == SIMBA__ZK_OK ? latch->batch.replies[i].rc : rc;
    }
    latch->are_watched = is_asking && rc == SIMBA__ZK_OK && !latch->has_gone;
    latch->base.is_unwatched &= !latch->are_watched;
    if (rc != SIMBA__ZK_OK) {
        simba_entry_unwatched(&latch->base);
    }
    if (joins(latch) &&
        (rc == SIMBA__ZK_NO_NODE || latch->has_gone || !is_asking)) {
        send_look(latch); /* it went before it could be watched, or the one
                           * who joins came after that was asked for */
    } else if (joins(latch) && rc != SIMBA__ZK_OK) {
        fail(latch, rc);
    } else {
        latch->base.owner =
            reply(latch, 0)->rc == SIMBA__ZK_OK
                ? simba__zk_owner_of(reply(latch, 0), latch->lowest)
                : simba_owner_none();
        latch->base.wait_ms = simba__zk_full_lease_ms(&latch->base);
        simba__zk_watch_own(latch);
        stands(latch, SIMBA_STANDS_BEHIND);
    }
}

/* A latch whose number has wrapped would be the lowest, whoever owns the mutex:
 * it is given back. */
static void refuse_wrapped(latch_t *latch)
{
    simba_error error;

    simba_error_set(&error, SIMBA_EMISCONFIG, 0,
                    "zookeeper: %.200s/%.200s has used up its sequence "
                    "numbers; delete the node when nobody contends for it",
                    store_of(latch)->settings.base, mutex_of(latch));
    finish(latch, SIMBA_EMISCONFIG, &error);
}

/* Where it stands among the children. */
static void take_standing(latch_t *latch)
{
    simba__zk_reply self = {
        .stat = {.czxid = latch->czxid, .ctime_ms = latch->ctime_ms},
        .data = latch->base.id,
        .length = (int)strlen(latch->base.id)};
    int asked = joins(latch) ? latch->asked_count : 0;

    if (latch->czxid <= 0 || latch->base.position == 0) {
        latch->is_found = latch->is_owner = false; /* no server made that */
    }
    if (latch->is_found && latch->base.step == SIMBA_STEP_PUT &&
        simba__zk_is_wrapped(latch->node)) {
        refuse_wrapped(latch);
    } else if (latch->is_owner) {
        simba__zk_watch_own(latch);
        latch->base.token = (uint64_t)latch->czxid;
        latch->base.owner = simba__zk_owner_of(&self, latch->node);
        stands(latch, SIMBA_STANDS_FIRST);
    } else if (!latch->is_found) {
        /* Vanished; or not among the children right after it was made, so gone
         * again. */
        stands(latch, SIMBA_STANDS_VANISHED);
    } else if (latch->before_count == 0 || latch->lowest == NULL) {
        fail(latch, SIMBA__ZK_NO_MEMORY);
    } else {
        begin(latch);
        /* One on existence would be set on what is gone. */
        for (int i = 0; i < asked; i++) {
            ask(latch, SIMBA__ZK_GET_DATA | SIMBA__ZK_WATCH, latch->before[i]);
        }
        if (asked == 0 ||
            strcmp(latch->before[asked - 1], latch->lowest) != 0) {
            ask(latch, SIMBA__ZK_GET_DATA, latch->lowest);
        }
        /* Until the reply has come nobody watches them, whatever ends it. */
        latch->is_asking = joins(latch);
        latch->asked_count = asked;
        latch->has_gone = false;
        if (latch->is_asking) {
            simba_entry_unwatched(&latch->base);
        }
        send(latch, take_queue);
    }
}

/* --- looking ------------------------------------------------------------- */

/* A quorum write that fires no watch, so that the server we have reached has
 * seen all there was; then the children. */
static void send_check(latch_t *latch,
                       const char *node,
                       void (*taken)(latch_t *latch))
{
    begin(latch);
    simba__zk_multi_begin(&latch->batch);
    ask(latch, SIMBA__ZK_CHECK, node);
    simba__zk_multi_end(&latch->batch);
    ask(latch, SIMBA__ZK_GET_CHILDREN, NULL);
    send(latch, taken);
}

static void take_look(latch_t *latch)
{
    int rc = failure(latch);

    if (!simba__zk_is_by_quorum(rc)) {
        fail(latch, rc);
    } else {
        take_children(latch);
        latch->is_found &= rc == SIMBA__ZK_OK;
        latch->is_owner &= rc == SIMBA__ZK_OK;
        take_standing(latch);
    }
}

static void send_look(latch_t *latch)
{
    if (++latch->rounds > ROUNDS_MOST) {
        fail(latch, SIMBA__ZK_NO_NODE);
    } else {
        send_check(latch, latch->node, take_look);
    }
}

void simba__zk_look(simba_entry *entry)
{
    latch_t *latch = (latch_t *)entry;

    latch->rounds = 0;
    send_look(latch);
}

/* --- making the node ----------------------------------------------------- */

static void send_create(latch_t *latch);

static void node_is_there(latch_t *latch, const simba__zk_reply *found)
{
    latch->base.state = SIMBA_KEY_PRESENT;
    latch->base.position = simba__zk_position(latch->node);
    latch->czxid = found->stat.czxid;
    latch->ctime_ms = found->stat.ctime_ms;
    latch->is_watched = false;
}

/* Of the parents, each made and asked for, of our node, then the children. */
static void take_created(latch_t *latch)
{
    const simba__zk_reply *made = reply(latch, 1), *parent;
    int rc = made->rc;
    const char *name = rc == SIMBA__ZK_OK ? strrchr(made->data, '/') : NULL;

    for (int i = 0; rc == SIMBA__ZK_NO_NODE && i + 3 < latch->batch.count;
         i += 2) {
        parent = &latch->batch.replies[i];
        if (parent[0].rc == SIMBA__ZK_NO_AUTH &&
            parent[1].rc == SIMBA__ZK_NO_NODE) {
            rc = SIMBA__ZK_NO_AUTH; /* it is missing, and we may not make it */
        }
    }
    if (name != NULL) {
        snprintf(latch->node, sizeof latch->node, "%s", name + 1);
        node_is_there(latch, made);
        store_of(latch)->is_base_made = true;
        rc = reply(latch, 0)->rc;
    }
    if (rc == SIMBA__ZK_NO_NODE && latch->rounds < ROUNDS_MOST) {
        send_create(latch); /* with its parents */
    } else if (rc != SIMBA__ZK_OK || name == NULL) {
        fail(latch, rc);
    } else {
        take_children(latch);
        take_standing(latch);
    }
}

/* The first try takes the parents for granted, the second /simba, if it was
 * there. */
static void send_create(latch_t *latch)
{
    begin(latch);
    if (++latch->rounds == 2 && store_of(latch)->is_base_made) {
        ask(latch, SIMBA__ZK_CREATE_CONTAINER, NULL);
        ask(latch, SIMBA__ZK_EXISTS, NULL);
    } else if (latch->rounds > 1) {
        simba__zk_ask_parents(&latch->batch, mutex_of(latch),
                              latch->rounds > CONTAINER_ROUNDS);
    }
    latch->batch.data = latch->base.id;
    ask(latch, SIMBA__ZK_CREATE2, latch->prefix);
    ask(latch, SIMBA__ZK_GET_CHILDREN, NULL);
    send(latch, take_created);
}

/* --- finding it again ---------------------------------------------------- */

/* A latch found by its prefix is ours if its session is. */
static void take_identity(latch_t *latch)
{
    const simba__zk_reply *found = reply(latch, 0);

    if (!simba__zk_is_by_quorum(found->rc)) {
        fail(latch, found->rc);
    } else if (found->rc == SIMBA__ZK_OK &&
               found->stat.session == latch->batch.session->id) {
        node_is_there(latch, found);
        send_look(latch);
    } else {
        latch->base.state = SIMBA_KEY_ABSENT;
        send_create(latch);
    }
}

static void take_deleted(latch_t *latch)
{
    if (simba__zk_is_by_quorum(reply(latch, 0)->rc)) {
        stands(latch, SIMBA_STANDS_NOWHERE);
    } else {
        fail(latch, reply(latch, 0)->rc);
    }
}

/* About our node alone. */
static void send_node(latch_t *latch, int op, void (*taken)(latch_t *latch))
{
    begin(latch);
    ask(latch, op, latch->node);
    send(latch, taken);
}

static void take_found(latch_t *latch)
{
    bool is_removal = latch->base.step == SIMBA_STEP_REMOVE;
    int rc = failure(latch);

    if (!simba__zk_is_by_quorum(rc)) {
        fail(latch, rc);
        return;
    }
    take_children(latch);
    if (latch->is_found && is_removal) { /* its name is enough */
        send_node(latch, SIMBA__ZK_DELETE, take_deleted);
    } else if (latch->is_found) {
        send_node(latch, SIMBA__ZK_GET_DATA, take_identity);
    } else if (is_removal) {
        stands(latch, SIMBA_STANDS_NOWHERE);
    } else {
        latch->base.state = SIMBA_KEY_ABSENT;
        send_create(latch);
    }
}

/* --- put and remove ------------------------------------------------------ */

/* Servers with short sessions can grant nothing that outlasts the release
 * budget: every grant would be given back, for ever. */
static bool is_too_short(latch_t *latch)
{
    const simba__zk *self = store_of(latch);
    long long lease_ms = latch->base.lease_ms;
    long long budget_ms = latch->base.acquire->budget_ms;
    long long most_ms =
        simba__zk_budget_most_ms(simba__zk_full_lease_ms(&latch->base));
    simba_error error;

    if (budget_ms <= most_ms) {
        return false;
    }
    simba_error_set(
        &error, SIMBA_EMISCONFIG, 0,
        "zookeeper %s: a session lasts %lld ms there, too short for a "
        "lease of %lld ms with a release budget of %lld ms; set "
        "maxSessionTimeout (20 times tickTime unless set) to %lld ms or more, "
        "or give a release budget of at most %lld ms",
        simba__zk_where(self), (long long)self->base.certainty.timeout_ms,
        lease_ms, budget_ms, lease_ms, most_ms > 0 ? most_ms : 0);
    finish(latch, SIMBA_EMISCONFIG, &error);
    return true;
}

void simba__zk_put(simba_entry *entry)
{
    latch_t *latch = (latch_t *)entry;

    latch->rounds = 0;
    simba__zk_prefix(entry->attempt, entry->slots, latch->prefix);
    if (entry->state == SIMBA_KEY_DOUBTFUL) {
        send_check(latch, NULL, take_found);
    } else if (!is_too_short(latch)) {
        send_create(latch);
    }
}

void simba__zk_remove(simba_entry *entry)
{
    latch_t *latch = (latch_t *)entry;

    if (entry->state == SIMBA_KEY_DOUBTFUL) {
        send_check(latch, NULL, take_found);
    } else {
        send_node(latch, SIMBA__ZK_DELETE, take_deleted);
    }
}

void simba__zk_forget(simba_entry *entry)
{
    latch_t *latch = (latch_t *)entry;

    simba_timer_clear(entry->store->base.loop, &latch->watching);
    simba__zk_batch_fini(&latch->batch);
    simba__zk_batch_fini(&latch->own);
    forget_others(latch);
}
