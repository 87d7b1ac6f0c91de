/* The steps of a latch: what it has asked for, and how that ends; one list of
 * the children for all who want one; who stands before it. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef simba__zk_latch latch_t;

/* --- its node ------------------------------------------------------------ */

void simba__zk_node(const latch_t *latch, char node[SIMBA__ZK_NODE_SIZE])
{
    simba__zk_prefix(latch->base.attempt, latch->base.slots, node);
    simba__zk_sequence_of(latch->base.position, node + strlen(node));
}

/* --- steps --------------------------------------------------------------- */

static void free_task(simba__zk_task *task)
{
    if (task != NULL) {
        simba__zk_batch_fini(&task->batch);
        free(task);
    }
}

void simba__zk_forget(simba_entry *entry)
{
    latch_t *latch = (latch_t *)entry;

    free_task(latch->task);
    latch->task = NULL;
    simba__zk_forget_others(latch);
}

/* The end of a step; the next may begin from within. */
static void done(latch_t *latch,
                 int status,
                 const simba_error *error,
                 enum simba_standing standing)
{
    simba__zk_task *task = latch->task;

    latch->task = NULL;
    simba_entry_done(&latch->base, status, error, standing);
    free_task(task);
}

void simba__zk_step_finish(latch_t *latch, int status, const simba_error *error)
{
    /* What a put has left goes again. */
    bool is_there = latch->base.step == SIMBA_STEP_PUT &&
                    latch->base.state == SIMBA_KEY_PRESENT;

    done(latch, status, error,
         is_there ? SIMBA_STANDS_BEHIND : SIMBA_STANDS_NOWHERE);
}

void simba__zk_step_fail(latch_t *latch, int rc)
{
    simba_error error;
    int status = simba__zk_fail(SIMBA__ZK(latch->base.store), rc, &error);

    if (latch->base.step == SIMBA_STEP_REMOVE) {
        simba__log(&SIMBA__ZK(latch->base.store)->log, SIMBA_LOG_ERROR,
                   "cannot remove a latch: %s", error.message);
    }
    simba__zk_step_finish(latch, status, &error);
}

void simba__zk_step_stands(latch_t *latch, enum simba_standing standing)
{
    done(latch, SIMBA_OK, NULL, standing);
}

/* False: no memory, and the step is done. */
bool simba__zk_step_begin(latch_t *latch)
{
    simba_error error;

    assert(latch->task == NULL);
    latch->task = calloc(1, sizeof *latch->task);
    if (latch->task == NULL) {
        simba__zk_fail(SIMBA__ZK(latch->base.store), SIMBA__ZK_NO_MEMORY,
                       &error);
        simba_entry_done(&latch->base, SIMBA_ENOMEM, &error,
                         SIMBA_STANDS_NOWHERE);
    }
    return latch->task != NULL;
}

void simba__zk_step_clear(latch_t *latch)
{
    simba__zk_begin(&latch->task->batch, SIMBA__ZK(latch->base.store));
    latch->task->is_asking = false;
}

void simba__zk_step_ask(latch_t *latch, int op, const char *node)
{
    simba__zk_ask(&latch->task->batch, op,
                  simba_session_mutex_name(latch->base.mutex), node);
}

static void on_done(simba__zk_batch *batch);

void simba__zk_step_send(latch_t *latch, void (*taken)(latch_t *latch))
{
    const simba_entry *entry = &latch->base;
    simba__zk_task *task = latch->task;

    task->taken = taken;
    task->batch.user = latch;
    simba__zk_send(&task->batch, SIMBA__ZK(latch->base.store)->session,
                   entry->acquire != NULL ? entry->acquire : entry->release,
                   on_done);
}

const simba__zk_reply *simba__zk_step_reply(const latch_t *latch)
{
    const simba__zk_batch *batch = &latch->task->batch;

    return &batch->replies[batch->count - 1];
}

/* --- one list for all ---------------------------------------------------- */

/* What is to be asked of a latch, and then the children. If a list is on its
 * way, the next one tells of it: of thousands who come, each would list them
 * all. A server answers in order, so whatever list is asked for after this
 * tells of what it has done. */
void simba__zk_step_send_listed(latch_t *latch,
                                void (*taken)(latch_t *latch),
                                simba__zk_listed *listed)
{
    simba__zk_mutex *mutex = SIMBA__ZK_MUTEX(latch->base.mutex);

    latch->task->listed = listed;
    latch->task->list = mutex->lists + 1;
    if (mutex->lister == NULL) {
        mutex->lister = latch;
        mutex->lists++;
        simba__zk_step_ask(latch, SIMBA__ZK_GET_CHILDREN, NULL);
    }
    simba__zk_step_send(latch, taken);
}

/* Those who await one have no batch of their own on its way. */
static void send_list(simba__zk_mutex *mutex)
{
    latch_t *first = mutex->awaiting;

    if (first != NULL && mutex->lister == NULL && !mutex->is_serving) {
        mutex->awaiting = first->task->next;
        simba__zk_step_clear(first);
        simba__zk_step_send_listed(first, NULL, first->task->listed);
    }
}

void simba__zk_step_await(latch_t *latch)
{
    simba__zk_mutex *mutex = SIMBA__ZK_MUTEX(latch->base.mutex);

    if (mutex->awaiting == NULL) {
        mutex->last = &mutex->awaiting;
    }
    latch->task->next = NULL;
    *mutex->last = latch;
    mutex->last = &latch->task->next;
    send_list(mutex);
}

/* Those of whom a list tells no longer await one, and are told; its names are
 * still there then. Since they are in a step, none of them goes before. */
static void serve(simba__zk_mutex *mutex,
                  uint32_t number,
                  const simba__zk_reply *all)
{
    latch_t **at = &mutex->awaiting, *served = NULL, **last = &served, *latch;
    simba__zk_queue queue;

    while ((latch = *at) != NULL) {
        if (latch->task->list > number) {
            at = &latch->task->next;
        } else {
            *at = latch->task->next;
            *last = latch;
            last = &latch->task->next;
        }
    }
    mutex->last = at;
    *last = NULL;
    simba__zk_queue_read(&queue, all->names, all->count);
    if (!queue.is_plain) {
        mutex->told_at = 0;
    }
    mutex->floor = queue.is_plain && queue.count > 0
                       ? (uint32_t)simba__zk_position(queue.nodes[0])
                       : 0;
    while ((latch = served) != NULL) {
        served = latch->task->next;
        if (simba__zk_is_by_quorum(all->rc)) {
            latch->task->listed(latch, &queue);
        } else {
            simba__zk_step_fail(latch, all->rc);
        }
    }
}

/* The connection went with it: those who await it have no other. */
static void fail_awaiting(simba__zk_mutex *mutex,
                          int status,
                          const simba_error *error)
{
    latch_t *latch = mutex->awaiting, *next;

    mutex->awaiting = NULL;
    for (; latch != NULL; latch = next) {
        next = latch->task->next;
        simba__zk_step_finish(latch, status, error);
    }
}

static void on_done(simba__zk_batch *batch)
{
    latch_t *latch = batch->user;
    simba__zk_task *task = latch->task;
    simba_session_store *store = latch->base.store;
    simba__zk_mutex *mutex = SIMBA__ZK_MUTEX(latch->base.mutex);
    bool is_lister = mutex->lister == latch;
    uint32_t number = task->list;
    int status = batch->status;
    const simba_error *error = batch->error;
    simba__zk_reply all = {0};

    mutex->base.holds++;
    if (is_lister) {
        mutex->lister = NULL;
        mutex->is_serving = true;
    }
    if (is_lister && status == SIMBA_OK) {
        all = batch->replies[--batch->count];
    }
    if (status != SIMBA_OK) {
        simba__zk_step_finish(latch, status, error);
    } else if (batch->count > 0 && !task->is_asking &&
               !simba__zk_is_by_quorum(simba__zk_step_reply(latch)->rc)) {
        simba__zk_step_fail(latch, simba__zk_step_reply(latch)->rc);
    } else if (task->taken != NULL) {
        task->taken(latch);
    } else {
        simba__zk_step_await(latch);
    }
    if (is_lister && status == SIMBA_OK) {
        serve(mutex, number, &all);
        simba__zk_reply_fini(&all);
    } else if (is_lister) {
        fail_awaiting(mutex, status, error);
    }
    if (is_lister) {
        mutex->is_serving = false;
        send_list(mutex);
    }
    mutex->base.holds--;
    simba_session_mutex_tidy(store, &mutex->base);
}

/* --- who else is there --------------------------------------------------- */

void simba__zk_gone(simba__zk_mutex *mutex, uint64_t position)
{
    mutex->floor += mutex->floor == position;
}

/* Nobody comes before those who are there: so once the one before it has gone,
 * and nobody was below that, it is the lowest, and need not ask for the
 * children. (The servers' numbers wrap at their end.) */
bool simba__zk_is_lowest(const latch_t *latch)
{
    enum { NEAR_THE_END = 2000000000 };

    return latch->base.slots == 0 && latch->base.position < NEAR_THE_END &&
           latch->before_from < SIMBA__ZK_MUTEX(latch->base.mutex)->floor;
}

void simba__zk_forget_others(latch_t *latch)
{
    free(latch->before);
    latch->before = NULL;
    latch->before_from = UINT32_MAX;
    latch->are_watched = false;
}

latch_t *simba__zk_previous(const latch_t *latch)
{
    simba_entry *previous = latch->base.previous;

    return previous != NULL && previous->state == SIMBA_KEY_PRESENT &&
                   previous->position == latch->before_from
               ? (latch_t *)previous
               : NULL;
}

/* Is the one before it of this process, and told of by its own watch? */
static bool is_behind_ours(const latch_t *latch, const char *before)
{
    const simba_entry *previous = latch->base.previous;

    return latch->base.slots == 0 && previous != NULL &&
           previous->state == SIMBA_KEY_PRESENT && !previous->is_leaving &&
           previous->position == simba__zk_position(before);
}

static const char *watched_node(const simba__zk_queue *queue,
                                const simba_crowd_watched *watched,
                                uint32_t i)
{
    uint32_t nearest = watched->end - i;

    return queue
        ->nodes[nearest > watched->begin ? nearest - 1 : watched->other];
}

/* After one of several went the others are watched still: they stand last here,
 * and are not asked for again. */
static bool keep_before(latch_t *latch,
                        const simba__zk_queue *queue,
                        simba_crowd_watched watched)
{
    uint32_t count = watched.end - watched.begin + 1;
    bool are_kept = latch->are_watched && latch->base.is_unwatched;
    char *was = latch->before, *asked, *kept;
    size_t size = 1; /* an empty name is the end */

    for (uint32_t i = 0; i < count; i++) {
        size += strlen(watched_node(queue, &watched, i)) + 1;
    }
    latch->before = NULL;
    simba__zk_forget_others(latch);
    latch->before = calloc(1, size);
    if (latch->before == NULL) {
        free(was);
        return false;
    }
    asked = latch->before;
    kept = asked + size - 1;
    for (uint32_t i = 0; i < count; i++) {
        const char *node = watched_node(queue, &watched, i);
        uint32_t position = (uint32_t)simba__zk_position(node);

        size = strlen(node) + 1;
        if (position < latch->before_from) {
            latch->before_from = position;
        }
        if (are_kept && simba__zk_before(was, node) != NULL) {
            kept -= size;
            memcpy(kept, node, size);
        } else {
            memcpy(asked, node, size);
            asked += size;
            latch->task->asked_count++;
        }
    }
    free(was);
    return true;
}

bool simba__zk_keep_others(latch_t *latch,
                           const simba__zk_queue *queue,
                           int own)
{
    const char *before;

    latch->task->asked_count = 0;
    if (own < queue->owned) {
        simba__zk_forget_others(latch);
        return true;
    }
    before = queue->nodes[own - 1];
    if (!is_behind_ours(latch, before)) {
        return keep_before(latch, queue, simba__zk_watched(queue, own));
    }
    simba__zk_forget_others(latch);
    latch->before_from = (uint32_t)simba__zk_position(before);
    latch->task->asked_count = 1;
    return true;
}

/* Who is still there, behind the same ones, waits on. Who is not has missed
 * something, and looks for itself. */
static bool is_confirmed(const simba_entry *entry, void *user)
{
    const latch_t *latch = (const latch_t *)entry;
    const simba__zk_queue *queue = user;
    int own = simba__zk_find(queue, entry->position);
    const char *node = latch->before;
    bool are_there = node != NULL
                         ? *node != '\0'
                         : simba__zk_find(queue, latch->before_from) >= 0;

    for (; node != NULL && *node != '\0'; node += strlen(node) + 1) {
        are_there &= simba__zk_find(queue, simba__zk_position(node)) >= 0;
    }
    ((simba_entry *)entry)->is_head = own >= 0 && own == queue->owned;
    return own >= 0 && are_there;
}

void simba__zk_confirm(const latch_t *latch, simba__zk_queue *queue)
{
    if (latch->base.mutex->looker == &latch->base && queue->count > 0) {
        simba_session_confirm(latch->base.mutex, is_confirmed, queue);
    }
}
