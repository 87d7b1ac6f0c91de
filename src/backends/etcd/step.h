/* One step of an entry, between request.c and queue.c: its transactions, and
 * how it ends. */
#ifndef SIMBA_BACKENDS_ETCD_STEP_H
#define SIMBA_BACKENDS_ETCD_STEP_H

#include "backends/etcd/etcd.h"

#include "core/mutex_model.h"

#define THEN SIMBA__ETCD_THEN
#define ELSE SIMBA__ETCD_ELSE

typedef struct simba__etcd_entry entry_t;

static inline entry_t *of(simba_entry *entry)
{
    return (entry_t *)entry;
}

static inline struct simba__etcd *store_of(const entry_t *e)
{
    return SIMBA__ETCD(e->base.store);
}

static inline struct simba__etcd_mutex *mutex_of(const entry_t *e)
{
    return (struct simba__etcd_mutex *)e->base.mutex;
}

static inline void wake(const entry_t *e)
{
    simba_wake(e->base.store->base.loop,
               simba_session_mutex_name(e->base.mutex));
}

static inline bool is_mine(const entry_t *e,
                           const struct simba__etcd_owner *owner)
{
    return owner->is_there &&
           simba__attempt_equal(owner->attempt, e->base.attempt);
}

/* --- request.c ----------------------------------------------------------- */

/** Begin a transaction; send what was written, whose reply is `taken`. */
struct simba__etcd_transaction *simba__etcd_step_begin_txn(entry_t *e);
void simba__etcd_step_send(entry_t *e, void (*taken)(entry_t *e));
/** The conditions that all writes of an attempt share. */
void simba__etcd_step_if_alive(entry_t *e);
/** By what was seen last: take it, join the queue, wait, or be refused. */
void simba__etcd_step_decide(entry_t *e);
/** The ends: as a waiter; neither waiter nor owner; the same, with the owner.
 */
void simba__etcd_step_finish(entry_t *e, int standing);
void simba__etcd_step_stands(entry_t *e, int standing);
void simba__etcd_step_refuse(entry_t *e, int64_t wait_ms);

/* --- queue.c ------------------------------------------------------------- */

void simba__etcd_step_join(entry_t *e);
/** Where do we stand? By the whole queue, or by the keys that matter to us. */
void simba__etcd_step_look(entry_t *e);
void simba__etcd_step_glance(entry_t *e);
void simba__etcd_step_settle(entry_t *e, int64_t wait_ms);
/** Who only tries: look whether the owner lives, and keep what was seen. */
void simba__etcd_step_try(entry_t *e);
void simba__etcd_step_keep_sighting(entry_t *e);

#endif
