/* Put, look and remove: what is sent for a latch, and what follows from the
 * replies. What belongs together is sent together.
 *
 *   put     create + children; after a lost reply it is looked for first
 *   look    check of our own node + children, unless it must be the lowest
 *   both    if it is not the lowest: data of the one before it, with a watch,
 *           and of the owner, unless that is known
 *   remove  delete
 *
 * One list of the children serves all who have asked before it was sent. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <string.h>

enum {
    ROUNDS_MOST = 8,     /* so often parents do not vanish by accident */
    CONTAINER_ROUNDS = 4 /* three refusals for want of a parent: the server
                          * knows no containers */
};

typedef simba__zk_latch latch_t;

/* --- the queue ----------------------------------------------------------- */

static void send_look(latch_t *latch);

static bool joins(const latch_t *latch)
{
    return latch->base.acquire != NULL && latch->base.acquire->join;
}

static void tell_owner(latch_t *latch, const simba_owner *owner, uint32_t at)
{
    simba_entry_owner(&latch->base, owner);
    if (owner->id[0] != '\0') {
        SIMBA__ZK_MUTEX(latch->base.mutex)->told_at = at;
    }
}

/* Its own watch tells whoever stands behind it. */
static void note_previous(latch_t *latch)
{
    latch_t *previous = simba__zk_previous(latch);

    if (latch->are_watched && latch->before == NULL && previous != NULL) {
        previous->is_watched = true;
    }
}

/* Of those before us, if we join, then of the owner, unless it is the last of
 * them or was told before. */
static void take_queue(latch_t *latch)
{
    simba__zk_task *task = latch->task;
    const simba__zk_reply *replies = task->batch.replies;
    const simba__zk_reply *last = simba__zk_step_reply(latch);
    int rc = SIMBA__ZK_OK;
    simba_owner owner;

    for (int i = 0; i < task->asked_count && rc == SIMBA__ZK_OK; i++) {
        rc = replies[i].rc;
    }
    latch->are_watched =
        task->is_joining && rc == SIMBA__ZK_OK && !task->has_gone;
    latch->base.is_unwatched &= !latch->are_watched;
    note_previous(latch);
    if (joins(latch) &&
        (rc == SIMBA__ZK_NO_NODE || task->has_gone || !task->is_joining)) {
        send_look(latch); /* it went before it could be watched, or the one
                           * who joins came after that was asked for */
    } else if (joins(latch) && rc != SIMBA__ZK_OK) {
        simba__zk_step_fail(latch, rc);
    } else {
        owner = task->is_told ? simba_told_owner_read(latch->base.mutex->owner)
                : last->rc == SIMBA__ZK_OK
                    ? simba__zk_owner_of(last, task->lowest_slots)
                    : simba_owner_none();
        tell_owner(latch, &owner, task->lowest_at);
        latch->base.wait_ms = simba__zk_full_lease_ms(&latch->base);
        simba__zk_watch_own(latch);
        simba__zk_step_stands(latch, SIMBA_STANDS_BEHIND);
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
                    SIMBA__ZK(latch->base.store)->settings.base,
                    simba_session_mutex_name(latch->base.mutex));
    simba__zk_step_finish(latch, SIMBA_EMISCONFIG, &error);
}

static void owns(latch_t *latch)
{
    const simba_request *acquire = latch->base.acquire;
    simba__zk_reply self = {.stat = {.czxid = (int64_t)latch->base.token,
                                     .ctime_ms = latch->ctime_ms}};
    simba_owner owner;

    simba__zk_watch_own(latch);
    if (acquire != NULL) {
        self.data = (char *)acquire->id;
        self.length = (int)strlen(acquire->id);
        owner = simba__zk_owner_of(&self, latch->base.slots);
        tell_owner(latch, &owner,
                   latch->base.slots == 0 ? (uint32_t)latch->base.position : 0);
    }
    simba__zk_step_stands(latch, SIMBA_STANDS_FIRST);
}

/* Watches those before it, which are the first names of `before`, or the one of
 * ours; and asks who owns the mutex, unless that was told. One on existence
 * would be set on what is gone. */
static void send_queue(latch_t *latch, const char *lowest)
{
    simba__zk_task *task = latch->task;
    const simba__zk_mutex *mutex = SIMBA__ZK_MUTEX(latch->base.mutex);
    char previous[SIMBA__ZK_NODE_SIZE];
    const char *node = latch->before, *last = "";

    if (node == NULL) {
        simba__zk_node((const latch_t *)latch->base.previous, previous);
        node = previous;
    }
    simba__zk_step_clear(latch);
    task->is_joining = joins(latch);
    task->asked_count = task->is_joining ? task->asked_count : 0;
    for (int i = 0; i < task->asked_count; i++) {
        simba__zk_step_ask(latch, SIMBA__ZK_GET_DATA | SIMBA__ZK_WATCH, node);
        last = node;
        node += strlen(node) + 1;
    }
    task->lowest_at = (uint32_t)simba__zk_position(lowest);
    task->lowest_slots = simba__zk_slots(lowest);
    task->is_told = task->asked_count > 0 && mutex->base.owner != NULL &&
                    mutex->told_at == task->lowest_at;
    if (!task->is_told && strcmp(last, lowest) != 0) {
        simba__zk_step_ask(latch, SIMBA__ZK_GET_DATA, lowest);
    }
    /* Until the reply has come nobody watches them, whatever ends it. */
    task->has_gone = false;
    if (task->is_joining) {
        simba_entry_unwatched(&latch->base);
    }
    task->is_asking = true;
    simba__zk_step_send(latch, take_queue);
}

/* Where it stands among the children. */
static void take_standing(latch_t *latch, simba__zk_queue *queue)
{
    simba_entry *entry = &latch->base;
    bool is_made = (int64_t)entry->token > 0 && entry->position != 0;
    int own = is_made ? simba__zk_find(queue, entry->position) : -1;
    bool are_kept = simba__zk_keep_others(latch, queue, own);

    entry->is_head = own >= 0 && own == queue->owned;
    entry->owned = (uint32_t)queue->owned;
    entry->least = queue->slots;
    simba__zk_confirm(latch, queue);
    if (own < 0) {
        /* Vanished; or not among the children right after it was made, so gone
         * again; or no server made that. */
        simba__zk_step_stands(latch, SIMBA_STANDS_VANISHED);
    } else if (entry->step == SIMBA_STEP_PUT &&
               entry->position > (uint64_t)INT32_MAX + 1) {
        refuse_wrapped(latch);
    } else if (own < queue->owned) {
        owns(latch);
    } else if (!are_kept) {
        simba__zk_step_fail(latch, SIMBA__ZK_NO_MEMORY);
    } else {
        send_queue(latch, queue->nodes[0]);
    }
}

/* --- looking ------------------------------------------------------------- */

/* A quorum write that fires no watch, so that the server we have reached has
 * seen all there was. */
static void ask_check(latch_t *latch, const char *node)
{
    simba__zk_step_clear(latch);
    simba__zk_multi_begin(&latch->task->batch);
    simba__zk_step_ask(latch, SIMBA__ZK_CHECK, node);
    simba__zk_multi_end(&latch->task->batch);
}

/* It is the lowest, if it is there. */
static void take_lowest(latch_t *latch)
{
    if (simba__zk_step_reply(latch)->rc != SIMBA__ZK_OK) {
        simba__zk_step_stands(latch, SIMBA_STANDS_VANISHED);
        return;
    }
    SIMBA__ZK_MUTEX(latch->base.mutex)->floor = (uint32_t)latch->base.position;
    latch->base.is_head = false;
    latch->base.owned = 1;
    latch->base.least = 0;
    simba__zk_forget_others(latch);
    owns(latch);
}

static void send_look(latch_t *latch)
{
    char node[SIMBA__ZK_NODE_SIZE];

    if (++latch->task->rounds > ROUNDS_MOST) {
        simba__zk_step_fail(latch, SIMBA__ZK_NO_NODE);
        return;
    }
    simba__zk_node(latch, node);
    ask_check(latch, node);
    if (simba__zk_is_lowest(latch)) {
        simba__zk_step_send(latch, take_lowest);
    } else {
        simba__zk_step_send_listed(latch, NULL, take_standing);
    }
}

/* --- making the node ----------------------------------------------------- */

static void send_create(latch_t *latch);

/* By the name that a server has given it; if none can have, by no position. */
static void set_position(latch_t *latch, const char *name)
{
    char node[SIMBA__ZK_NODE_SIZE];

    latch->base.position = simba__zk_position(name);
    simba__zk_node(latch, node);
    if (strcmp(node, name) != 0) {
        latch->base.position = 0;
    }
}

static void node_is_there(latch_t *latch, const simba__zk_reply *found)
{
    latch->base.state = SIMBA_KEY_PRESENT;
    latch->base.token = (uint64_t)found->stat.czxid;
    latch->ctime_ms = found->stat.ctime_ms;
    latch->is_watched = false;
    simba__zk_forget_others(latch);
}

/* Of the parents, each made and asked for, then of our node. */
static void take_created(latch_t *latch)
{
    const simba__zk_batch *batch = &latch->task->batch;
    const simba__zk_reply *made = simba__zk_step_reply(latch), *parent;
    int rc = made->rc;
    const char *name = rc == SIMBA__ZK_OK ? strrchr(made->data, '/') : NULL;

    for (int i = 0; rc == SIMBA__ZK_NO_NODE && i + 2 < batch->count; i += 2) {
        parent = &batch->replies[i];
        if (parent[0].rc == SIMBA__ZK_NO_AUTH &&
            parent[1].rc == SIMBA__ZK_NO_NODE) {
            rc = SIMBA__ZK_NO_AUTH; /* it is missing, and we may not make it */
        }
    }
    if (name != NULL) {
        set_position(latch, name + 1);
        node_is_there(latch, made);
        SIMBA__ZK(latch->base.store)->is_base_made = true;
        simba__zk_step_await(latch);
    } else if (rc == SIMBA__ZK_NO_NODE && latch->task->rounds < ROUNDS_MOST) {
        send_create(latch); /* with its parents */
    } else {
        simba__zk_step_fail(latch, rc);
    }
}

/* The first try takes the parents for granted, the second /simba, if it was
 * there. Nobody may want it any more. */
static void send_create(latch_t *latch)
{
    simba__zk_task *task = latch->task;
    char prefix[SIMBA__ZK_PREFIX_SIZE];

    if (latch->base.acquire == NULL) {
        simba__zk_step_stands(latch, SIMBA_STANDS_NOWHERE);
        return;
    }
    simba__zk_step_clear(latch);
    if (++task->rounds == 2 && SIMBA__ZK(latch->base.store)->is_base_made) {
        simba__zk_step_ask(latch, SIMBA__ZK_CREATE_CONTAINER, NULL);
        simba__zk_step_ask(latch, SIMBA__ZK_EXISTS, NULL);
    } else if (task->rounds > 1) {
        simba__zk_ask_parents(&task->batch,
                              simba_session_mutex_name(latch->base.mutex),
                              task->rounds > CONTAINER_ROUNDS);
    }
    task->batch.data = latch->base.acquire->id;
    simba__zk_prefix(latch->base.attempt, latch->base.slots, prefix);
    simba__zk_step_ask(latch, SIMBA__ZK_CREATE2, prefix);
    task->batch.data = NULL; /* is written, and the request's */
    simba__zk_step_send_listed(latch, take_created, take_standing);
}

/* --- finding it again ---------------------------------------------------- */

/* A latch found by its prefix is ours if its session is. */
static void take_identity(latch_t *latch)
{
    const simba__zk_reply *found = simba__zk_step_reply(latch);

    if (found->rc == SIMBA__ZK_OK &&
        found->stat.session == latch->task->batch.session->id) {
        node_is_there(latch, found);
        send_look(latch);
    } else {
        latch->base.state = SIMBA_KEY_ABSENT;
        send_create(latch);
    }
}

static void take_deleted(latch_t *latch)
{
    simba__zk_gone(SIMBA__ZK_MUTEX(latch->base.mutex), latch->base.position);
    simba__zk_step_stands(latch, SIMBA_STANDS_NOWHERE);
}

/* About our node alone. */
static void send_node(latch_t *latch, int op, void (*taken)(latch_t *latch))
{
    char node[SIMBA__ZK_NODE_SIZE];

    simba__zk_step_clear(latch);
    simba__zk_node(latch, node);
    simba__zk_step_ask(latch, op, node);
    simba__zk_step_send(latch, taken);
}

/* By how its name begins. */
static void take_found(latch_t *latch, simba__zk_queue *queue)
{
    bool is_removal = latch->base.step == SIMBA_STEP_REMOVE;
    char prefix[SIMBA__ZK_PREFIX_SIZE];
    int own;

    simba__zk_prefix(latch->base.attempt, latch->base.slots, prefix);
    own = simba__zk_find_prefix(queue, prefix);
    if (own >= 0) {
        latch->base.position = simba__zk_position(queue->nodes[own]);
    }
    if (own >= 0 && is_removal) { /* its name is enough */
        send_node(latch, SIMBA__ZK_DELETE, take_deleted);
    } else if (own >= 0) {
        send_node(latch, SIMBA__ZK_GET_DATA, take_identity);
    } else if (is_removal) {
        simba__zk_step_stands(latch, SIMBA_STANDS_NOWHERE);
    } else {
        latch->base.state = SIMBA_KEY_ABSENT;
        send_create(latch);
    }
}

static void send_find(latch_t *latch)
{
    ask_check(latch, NULL);
    simba__zk_step_send_listed(latch, NULL, take_found);
}

/* --- steps --------------------------------------------------------------- */

/* Servers with short sessions can grant nothing that outlasts the release
 * budget: every grant would be given back, for ever. */
static bool is_too_short(latch_t *latch)
{
    const simba__zk *self = SIMBA__ZK(latch->base.store);
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
    simba__zk_step_finish(latch, SIMBA_EMISCONFIG, &error);
    return true;
}

void simba__zk_step(simba_entry *entry)
{
    latch_t *latch = (latch_t *)entry;

    if (!simba__zk_step_begin(latch)) {
        return;
    }
    if (entry->step == SIMBA_STEP_LOOK) {
        send_look(latch);
    } else if (entry->state == SIMBA_KEY_DOUBTFUL) {
        send_find(latch);
    } else if (entry->step == SIMBA_STEP_REMOVE) {
        send_node(latch, SIMBA__ZK_DELETE, take_deleted);
    } else if (!is_too_short(latch)) {
        send_create(latch);
    }
}
