/* Those who wait: joining the queue, looking where one stands, watching, and
 * what who only tries has seen. */
#define _GNU_SOURCE
#include "backends/etcd/step.h"

#include "util/container.h"

#include <stdlib.h>
#include <string.h>

/* --- waiting ------------------------------------------------------------- */

static void take_join(entry_t *e)
{
    const simba__etcd_kv *waiter = simba__etcd_got(&e->txn, 'q');
    struct simba__etcd_owner who = simba__etcd_owner_read(waiter);

    if (e->txn.reply.succeeded) {
        e->txn.create = e->txn.reply.header.revision;
        simba__etcd_step_look(e);
    } else if (simba__etcd_got(&e->txn, 'x')->mod_revision != 0) {
        simba__etcd_step_refuse(e, 0);
    } else if (is_mine(e, &who)) { /* and we were not told */
        e->txn.create = waiter->create_revision;
        simba__etcd_step_look(e);
    } else { /* one that came late has our number */
        e->txn.waiter = simba__etcd_free_number(&e->base);
        simba__etcd_step_join(e);
    }
}

/* Under the number of an earlier join that was not answered. */
void simba__etcd_step_join(entry_t *e)
{
    struct simba__etcd_transaction *txn = simba__etcd_step_begin_txn(e);
    struct simba__etcd_owner waiter = {.attempt = e->base.attempt,
                                       .acquired_at_ms =
                                           simba__etcd_wall_us() / 1000};
    char value[SIMBA__ETCD_KEY_SIZE];

    memcpy(waiter.id, e->base.id, sizeof waiter.id);
    simba__etcd_owner_write(&waiter, value);
    txn->waiter =
        txn->waiter != 0 ? txn->waiter : simba__etcd_free_number(&e->base);
    simba__etcd_if(txn, 'q', SIMBA__ETCD_CREATE, 0);
    simba__etcd_step_if_alive(e);
    simba__etcd_do_put(txn, THEN, 'q', value);
    simba__etcd_do_put(txn, THEN, 'w', "");
    simba__etcd_do_get(txn, ELSE, "qxs");
    simba__etcd_step_send(e, take_join);
}

/* Where we stand, by the keys made up to ours, the newest first. False: ours is
 * not there. */
static bool take_order(entry_t *e)
{
    simba__etcd_kv mine, before = {0}, first;
    simba__etcd_list *order = &e->txn.ranges[0];

    if (!simba__etcd_next(order, &mine) ||
        mine.create_revision != e->txn.create) {
        return false;
    }
    e->base.is_head = !simba__etcd_next(order, &before);
    e->is_second = !e->base.is_head && !simba__etcd_next(order, &first);
    e->before_create = before.create_revision;
    e->before_attempt = simba__etcd_owner_read(&before).attempt;
    e->base.position = (uint64_t)e->txn.create;
    free(e->before);
    e->before =
        e->base.is_head ? NULL : strndup(before.key.at, before.key.length);
    return e->base.is_head || e->before != NULL;
}

/* A key of a living session that is not the first stays, and who goes from
 * before it is told. The foremost of this process looks for itself. */
static bool is_confirmed(const simba_entry *entry, void *foremost)
{
    return entry != foremost && !entry->is_head &&
           ((const entry_t *)entry)->watches[SIMBA__ETCD_BEFORE].is_sure;
}

static void note_sighting(entry_t *e, int64_t beat_mod)
{
    simba__etcd_sighting_note(&mutex_of(e)->sighting, &e->owner, beat_mod);
}

/* It is in the queue, and knows where. */
static void take_owner(entry_t *e)
{
    simba_entry *foremost = e->base.mutex->entries;

    while (of(foremost)->txn.create == 0) { /* ours is not 0 */
        foremost = foremost->next;
    }
    simba_session_confirm(e->base.mutex, is_confirmed, foremost);
    e->base.is_unwatched = e->is_before_gone;
    if (e->owner.is_there) {
        note_sighting(e, (int64_t)e->owner.session == e->txn.session
                             ? simba__etcd_got(&e->txn, 'S')->mod_revision
                             : -1);
    }
    simba__etcd_step_decide(e);
}

static void take_look(entry_t *e)
{
    if (take_order(e)) {
        take_owner(e);
    } else {
        simba__etcd_step_stands(e, SIMBA_STANDS_VANISHED);
    }
}

/* By the whole queue, which a server reads from end to end. Who goes from
 * before us while this is under way makes us look again. */
void simba__etcd_step_look(entry_t *e)
{
    struct simba__etcd_transaction *txn = simba__etcd_step_begin_txn(e);

    e->base.is_unwatched = e->is_before_gone = false;
    txn->session = (int64_t)e->owner.session;
    simba__etcd_do_get(txn, THEN, "RsoS");
    simba__etcd_step_send(e, take_look);
}

/* Who was granted stood first, and nobody comes before those who wait. */
static void take_glance(entry_t *e)
{
    if (simba__etcd_got(&e->txn, 'q')->create_revision != e->txn.create) {
        simba__etcd_step_stands(e, SIMBA_STANDS_VANISHED);
    } else if (e->before == NULL ||
               e->before_create ==
                   simba__etcd_got(&e->txn, 'p')->create_revision) {
        take_owner(e);
    } else if (e->owner.is_there &&
               simba__attempt_equal(e->owner.attempt, e->before_attempt)) {
        e->base.is_head = true;
        e->is_second = false;
        free(e->before);
        e->before = NULL;
        take_owner(e);
    } else {
        simba__etcd_step_look(e);
    }
}

/* By the keys that matter to us alone. */
void simba__etcd_step_glance(entry_t *e)
{
    struct simba__etcd_transaction *txn = simba__etcd_step_begin_txn(e);

    e->base.is_unwatched = e->is_before_gone = false;
    txn->session = (int64_t)e->owner.session;
    simba__etcd_do_get(txn, THEN, e->before == NULL ? "qsoS" : "qpsoS");
    simba__etcd_step_send(e, take_glance);
}

/* All watches that it needs are confirmed: a look now misses nothing. */
static bool is_watching(const entry_t *e)
{
    bool is_sure = true;

    for (int i = 0; i < SIMBA__ETCD_WATCHES; i++) {
        is_sure &= e->watches[i].key == NULL || e->watches[i].is_sure;
    }
    return is_sure;
}

/* A watch was set: go on, or if it was set again after a gap, ask. */
static void on_sure(entry_t *e)
{
    if (!e->is_settling) {
        wake(e);
    } else if (is_watching(e)) {
        e->is_settling = false;
        simba__etcd_step_glance(e);
        simba_entry_drop(&e->base);
    }
}

static void on_evicting(simba_timer *timer)
{
    wake(container_of(timer, entry_t, evicting));
}

/* The first asks when the mutex becomes free. The second lets it go first, and
 * asks when that has not come in its time (S10). */
static void on_owner(entry_t *e, bool is_freed)
{
    if (e->base.is_head) {
        wake(e);
    } else {
        e->free_ms = is_freed ? simba_loop_now_ms() : 0;
        e->evicting.fire = on_evicting;
        simba_timer_set(e->base.store->base.loop, &e->evicting,
                        is_freed ? e->free_ms + SIMBA__OFFER_MS : INT64_MAX);
    }
}

static void on_change(struct simba__etcd_watched *watch,
                      const simba__etcd_event *event)
{
    entry_t *e = watch->user;
    bool is_gone = event != NULL && event->type == 1;

    if (event == NULL) {
        e->free_ms = 0;
        on_sure(e);
    } else if (watch == &e->watches[SIMBA__ETCD_BEAT]) {
        note_sighting(e, is_gone ? 0 : event->kv.mod_revision);
    } else if (watch == &e->watches[SIMBA__ETCD_OWNER]) {
        on_owner(e, is_gone);
    } else if (is_gone) {
        e->base.is_unwatched = e->is_before_gone = true;
        wake(e);
    }
}

/* In the queue, and not to be granted now: watch what has to be watched, look
 * once more when that is sure, and wait. */
void simba__etcd_step_settle(entry_t *e, int64_t wait_ms)
{
    bool is_near = e->base.is_head || e->is_second;
    bool has_beat = e->base.is_head && e->owner.is_there && !e->owner.is_broken;
    char owner[SIMBA__ETCD_KEY_SIZE], beat[SIMBA__ETCD_KEY_SIZE];
    const char *const keys[] = {
        [SIMBA__ETCD_BEFORE] = e->before,
        [SIMBA__ETCD_OWNER] = is_near ? owner : NULL,
        [SIMBA__ETCD_BEAT] = has_beat ? beat : NULL,
    };

    e->txn.session = (int64_t)e->owner.session;
    simba__etcd_key(&e->txn, 'o', owner);
    simba__etcd_key(&e->txn, 'S', beat);
    for (int i = 0; i < SIMBA__ETCD_WATCHES; i++) {
        e->watches[i].changed = on_change;
        e->watches[i].user = e;
        if (!simba__etcd_watch_set(store_of(e), &e->watches[i], keys[i])) {
            wait_ms = SIMBA__OFFER_MS; /* no memory: by looking, then */
        }
    }
    if (!is_watching(e)) {
        e->is_settling = true;
        simba_entry_hold(&e->base);
    } else {
        e->base.owner = simba__etcd_owner_told(&e->owner);
        e->base.wait_ms = wait_ms > 0 ? wait_ms : 1;
        simba__etcd_step_finish(e, SIMBA_STANDS_BEHIND);
    }
}

/* --- who only tries ------------------------------------------------------ */

static void take_tried(entry_t *e)
{
    e->was_tried = true;
    note_sighting(e, simba__etcd_got(&e->txn, 'S')->mod_revision);
    e->is_sighting_kept = simba__etcd_sighting_read(
        &mutex_of(e)->sighting, simba__etcd_got(&e->txn, 'v'));
    simba__etcd_step_decide(e);
}

/* Nobody must be held up by the dead: look whether the owner lives. */
void simba__etcd_step_try(entry_t *e)
{
    struct simba__etcd_transaction *txn = simba__etcd_step_begin_txn(e);

    txn->session = (int64_t)e->owner.session;
    simba__etcd_do_get(txn, THEN, "Sv");
    simba__etcd_step_send(e, take_tried);
}

static void take_kept(entry_t *e)
{
    e->is_sighting_kept = true;
    simba__etcd_step_decide(e);
}

void simba__etcd_step_keep_sighting(entry_t *e)
{
    char value[SIMBA__ETCD_SIGHTING];

    simba__etcd_sighting_write(&mutex_of(e)->sighting, value);
    simba__etcd_do_put(simba__etcd_step_begin_txn(e), THEN, 'v', value);
    simba__etcd_step_send(e, take_kept);
}
