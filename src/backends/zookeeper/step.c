/* The steps of a latch: what it has asked for, and how that ends; one list of
 * the children for all who want one; who stands before it. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef simba__zk_latch latch_t;

/* --- its node ------------------------------------------------------------ */

void simba__zk_latch_prefix(const latch_t *latch,
                            char prefix[SIMBA__ZK_PREFIX_SIZE])
{
    simba__zk_prefix(latch->base.attempt, latch->base.slots, prefix);
}

/* As servers write it, also where the number has wrapped. */
void simba__zk_node(const latch_t *latch, char node[SIMBA__ZK_NODE_SIZE])
{
    char prefix[SIMBA__ZK_PREFIX_SIZE];

    simba__zk_latch_prefix(latch, prefix);
    snprintf(node, SIMBA__ZK_NODE_SIZE, "%s%010d", prefix,
             (int)(int32_t)(uint32_t)(latch->base.position - 1));
}

/* --- steps --------------------------------------------------------------- */

void simba__zk_step_free(simba__zk_task *task)
{
    simba__zk_batch_fini(&task->batch);
    free(task->lowest);
    free(task);
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
    simba__zk_step_free(task);
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
void simba__zk_step_send_listed(latch_t *latch, void (*taken)(latch_t *latch))
{
    simba__zk_mutex *mutex = SIMBA__ZK_MUTEX(latch->base.mutex);

    latch->task->list = mutex->lists + 1;
    if (mutex->lister == NULL) {
        mutex->lister = latch;
        mutex->lists++;
        simba__zk_step_ask(latch, SIMBA__ZK_GET_CHILDREN, NULL);
    }
    simba__zk_step_send(latch, taken);
}

static void await_list(latch_t *latch);

/* Those who await one have no batch of their own on its way. */
static void send_list(simba__zk_mutex *mutex)
{
    latch_t *first = mutex->awaiting;

    if (first != NULL && mutex->lister == NULL && !mutex->is_serving) {
        mutex->awaiting = first->task->next;
        simba__zk_step_clear(first);
        simba__zk_step_send_listed(first, await_list);
    }
}

static void await_list(latch_t *latch)
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

/* `listed` comes when the children are known. */
void simba__zk_step_await(latch_t *latch, void (*listed)(latch_t *latch))
{
    latch->task->listed = listed;
    await_list(latch);
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
    latch->before_count = 0;
    latch->before_from = UINT64_MAX;
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
static bool is_behind_ours(const latch_t *latch,
                           const simba__zk_standing *where)
{
    const simba_entry *previous = latch->base.previous;

    return latch->base.slots == 0 && previous != NULL &&
           previous->state == SIMBA_KEY_PRESENT && !previous->is_leaving &&
           previous->position == where->before_at;
}

/* Who is to be watched; without memory nobody. After one of several went the
 * others are watched still: they stand last here, and are not asked for again.
 */
static void keep_before(latch_t *latch,
                        const simba__zk_standing *where,
                        char *const *names)
{
    const simba_crowd_watched *watched = &where->watched;
    int count = (int)(watched->end - watched->begin) + 1;
    char *was = latch->before;
    int kept = latch->are_watched && latch->base.is_unwatched && was != NULL
                   ? latch->before_count
                   : 0;
    struct simba__text texts[2] = {{0}, {0}}; /* to be asked for, and kept */

    latch->before = NULL;
    simba__zk_forget_others(latch);
    for (int i = 1; i <= count; i++) {
        const char *name =
            names[i < count ? watched->end - (uint32_t)i : watched->other];
        bool is_kept = simba__zk_before(was, kept, name) != NULL;
        uint64_t position = simba__zk_position(name);

        if (position < latch->before_from) {
            latch->before_from = position;
        }
        latch->task->asked_count += !is_kept;
        latch->before_count++;
        simba__text_add(&texts[is_kept], name, strlen(name) + 1);
    }
    if (texts[1].length > 0) {
        simba__text_add(&texts[0], texts[1].bytes, texts[1].length);
    }
    if (!texts[0].is_failed && !texts[1].is_failed && texts[0].length > 0) {
        latch->before = malloc(texts[0].length);
    }
    if (latch->before != NULL) {
        memcpy(latch->before, texts[0].bytes, texts[0].length);
    } else {
        simba__zk_forget_others(latch);
    }
    simba__text_fini(&texts[0]);
    simba__text_fini(&texts[1]);
    free(was);
}

static void keep_others(latch_t *latch,
                        const simba__zk_standing *where,
                        char *const *names)
{
    simba__zk_task *task = latch->task;

    free(task->lowest);
    task->lowest = where->lowest < 0 ? NULL : strdup(names[where->lowest]);
    task->lowest_at = where->lowest_at;
    task->asked_count = 0;
    if (where->before < 0 || where->is_owner) {
        simba__zk_forget_others(latch);
    } else if (is_behind_ours(latch, where)) {
        simba__zk_forget_others(latch);
        latch->before_from = where->before_at;
        latch->before_count = task->asked_count = 1;
    } else {
        keep_before(latch, where, names);
    }
}

/* --- what a list tells --------------------------------------------------- */

/* A list, and what was made of it. */
struct list {
    const simba__zk_reply *all;
    uint64_t *positions; /* of the latches, in their order; NULL: no memory */
    int position_count;
    uint32_t owned;
    latch_t *served; /* those of whom it tells, how many, where they stand */
    int count;
    simba__zk_standing *places;
};

static int by_position(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

    return (one > other) - (one < other);
}

static void sort_positions(struct list *list)
{
    const simba__zk_reply *all = list->all;

    list->positions = calloc((size_t)all->count + 1, sizeof(uint64_t));
    for (int i = 0; list->positions != NULL && i < all->count; i++) {
        if (simba__zk_sequence(all->names[i]) != NULL) {
            list->positions[list->position_count++] =
                simba__zk_position(all->names[i]);
        }
    }
    if (list->positions != NULL) {
        qsort(list->positions, (size_t)list->position_count, sizeof(uint64_t),
              by_position);
    }
}

static int find(const struct list *list, uint64_t position)
{
    const uint64_t *found =
        list->positions == NULL
            ? NULL
            : bsearch(&position, list->positions, (size_t)list->position_count,
                      sizeof position, by_position);

    return found == NULL ? -1 : (int)(found - list->positions);
}

/* Who is still there, behind the same ones, waits on. Who is not has missed
 * something, and looks for itself. */
static bool is_confirmed(const simba_entry *entry, void *user)
{
    const latch_t *latch = (const latch_t *)entry;
    const struct list *list = user;
    int own = find(list, entry->position);
    bool are_there = latch->before_count > 0;
    const char *name = latch->before;

    if (name == NULL) {
        are_there &= find(list, latch->before_from) >= 0;
    }
    for (int i = 0; name != NULL && i < latch->before_count; i++) {
        are_there &= find(list, simba__zk_position(name)) >= 0;
        name += strlen(name) + 1;
    }
    ((simba_entry *)entry)->is_head = own >= 0 && (uint32_t)own == list->owned;
    return own >= 0 && are_there;
}

static void take_place(latch_t *latch,
                       const simba__zk_standing *where,
                       struct list *list)
{
    simba__zk_task *task = latch->task;

    task->is_found = where->own >= 0;
    task->is_owner = where->is_owner;
    latch->base.is_head = where->is_head;
    latch->base.owned = where->owned;
    latch->base.least = where->slots;
    keep_others(latch, where, list->all->names);
    if (task->is_found && latch->base.state != SIMBA_KEY_PRESENT) {
        latch->base.position = simba__zk_position(list->all->names[where->own]);
    }
    if (latch->base.mutex->looker == &latch->base && list->all->count > 0) {
        list->owned = where->owned;
        sort_positions(list);
        simba_session_confirm(latch->base.mutex, is_confirmed, list);
        free(list->positions);
        list->positions = NULL;
        list->position_count = 0;
    }
}

static void find_place(const latch_t *latch,
                       const simba__zk_reply *all,
                       simba__zk_standing *place)
{
    char own[SIMBA__ZK_NODE_SIZE];

    if (latch->base.state == SIMBA_KEY_PRESENT) {
        simba__zk_node(latch, own);
    } else {
        simba__zk_latch_prefix(latch, own);
    }
    simba__zk_stand(all->names, all->count, own, place);
}

/* Where each of them stands: by its position or, if that is not known, by how
 * its name begins. */
static void find_places(simba__zk_mutex *mutex, struct list *list)
{
    const simba__zk_reply *all = list->all;
    simba__zk_standing *place = list->places;
    bool is_plain, are_known = true;

    for (latch_t *l = list->served; l != NULL; l = l->task->next, place++) {
        place->own_at = l->base.position;
        are_known &=
            l->base.state == SIMBA_KEY_PRESENT &&
            (place == list->places || place->own_at > place[-1].own_at);
    }
    is_plain = simba__zk_stand_all(all->names, all->count, list->places,
                                   are_known ? list->count : 0);
    mutex->floor = 0;
    mutex->told_at = is_plain ? mutex->told_at : 0;
    place = list->places;
    for (latch_t *l = list->served; l != NULL; l = l->task->next, place++) {
        if (!is_plain || !are_known) {
            find_place(l, all, place);
        }
        if (is_plain && place->lowest >= 0) {
            mutex->floor = place->lowest_at;
        }
        take_place(l, place, list);
    }
}

/* Those of whom a list tells no longer await one. Since they are in a step,
 * none of them goes before it is served. */
static void take_awaiting(simba__zk_mutex *mutex,
                          uint64_t number,
                          struct list *list)
{
    latch_t **at = &mutex->awaiting, **last = &list->served, *latch;

    while ((latch = *at) != NULL) {
        if (latch->task->list > number) {
            at = &latch->task->next;
        } else {
            *at = latch->task->next;
            latch->task->next = NULL;
            *last = latch;
            last = &latch->task->next;
            list->count++;
        }
    }
    mutex->last = at;
}

/* The children are known. */
static void serve(simba__zk_mutex *mutex,
                  uint64_t number,
                  const simba__zk_reply *all)
{
    struct list list = {.all = all};
    latch_t *latch, *next;

    take_awaiting(mutex, number, &list);
    list.places = calloc((size_t)list.count + 1, sizeof *list.places);
    if (list.places != NULL && simba__zk_is_by_quorum(all->rc)) {
        find_places(mutex, &list);
    }
    for (latch = list.served; latch != NULL; latch = next) {
        next = latch->task->next;
        if (list.places == NULL) {
            simba__zk_step_fail(latch, SIMBA__ZK_NO_MEMORY);
        } else if (!simba__zk_is_by_quorum(all->rc)) {
            simba__zk_step_fail(latch, all->rc);
        } else {
            latch->task->listed(latch);
        }
    }
    free(list.places);
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
    simba_session_store *store = latch->base.store;
    simba__zk_mutex *mutex = SIMBA__ZK_MUTEX(latch->base.mutex);
    bool is_lister = mutex->lister == latch;
    uint64_t number = latch->task->list;
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
    if (status == SIMBA_OK) {
        latch->task->taken(latch);
    } else {
        simba__zk_step_finish(latch, status, error);
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
