/* Counting what happens, where it happens: inside the loop, so that no other
 * lock is needed. */
#ifndef SIMBA_RUNTIME_METRICS_H
#define SIMBA_RUNTIME_METRICS_H

#include <simba/metrics.h>
#include <simba/sys/backend.h>

#include "core/contend.h"
#include "util/hash.h"

#include <stdatomic.h>

/* Of one mutex; lives until the loop is closed. */
struct simba__mutex_counts {
    struct simba__hash_link link;
    simba_counts counts;
};

enum { SIMBA__METRICS_MOST = 1000 };

/* A loop's. */
struct simba__loop_metrics {
    struct simba__hash mutexes; /* of the first thousand */
    simba_counts others;        /* of all beyond */
    bool has_others;
    uint64_t requests; /* sent to the backend that contenders ask */
    _Atomic uint64_t reconnects;
    _Atomic uint64_t callback_waits;
    _Atomic uint64_t spins, spins_in_vain, spin_ns;
    uint64_t contenders, owned;
};

/* One contender's, kept small: there may be 100,000. */
struct simba__contender_metrics {
    simba_counts *counts;   /* of its mutex; NULL: not looked for yet */
    uint64_t since_us : 56; /* when it asked, or was granted */
    bool is_waiting : 1;    /* asked, and not granted yet */
    bool was_refused : 1;   /* since then */
    bool is_owner : 1;      /* granted, and not ended */
    bool was_broken : 1;    /* what ends now is ended by force */
};

/** Find where its mutex is counted; before anything is told. Late: a thousand
 * who only wait need no memory for it. */
void simba__metrics_find(struct simba__contender_metrics *self,
                         struct simba__loop_metrics *loop,
                         const char *mutex);

/** An acquire goes out, at that time of the boot clock. */
void simba__metrics_ask(struct simba__contender_metrics *self, int64_t now_us);

/** What the machine told the user. Whether a tenure `was_broken` is set before:
 * the machine knows only that the store said that it has ended. */
void simba__metrics_tell(struct simba__contender_metrics *self,
                         struct simba__loop_metrics *loop,
                         const struct simba__contend_update *update,
                         int64_t now_us);

/** A renewal came to its end; `margin_ms` is what was left. */
void simba__metrics_renewed(struct simba__contender_metrics *self,
                            bool is_granted,
                            int64_t margin_ms);

/** Only when no contender is left. */
void simba__loop_metrics_fini(struct simba__loop_metrics *loop);

/** Which bucket of a histogram a duration falls into. */
size_t simba__histogram_bucket(uint64_t us);

#endif
