/* Counting what happens, where it happens: inside the loop, so that no other
 * lock is needed. */
#ifndef SIMBA_RUNTIME_METER_H
#define SIMBA_RUNTIME_METER_H

#include <simba/metrics.h>
#include <simba/sys/backend.h>

#include "core/contend.h"
#include "util/hash.h"

#include <stdatomic.h>

/* Of one mutex; lives until the loop is closed. */
struct simba__tally {
    struct simba__hash_link link; /* its key is the mutex */
    simba_counts counts;
};

enum { SIMBA__TALLY_MOST = 1000 };

/* A loop's. */
struct simba__tallies {
    struct simba__hash mutexes;
    simba_counts others; /* of all beyond the first thousand */
    bool has_others;
    const simba_backend *front; /* what is sent to this one is counted: */
    uint64_t operations;
    _Atomic uint64_t reconnects;
    _Atomic uint64_t callback_waits;
    uint64_t contenders, owned;
};

/* One contender's. */
struct simba__meter {
    struct simba__tallies *tallies;
    simba_counts *counts; /* of its mutex, found when first needed */
    const char *mutex;
    bool is_waiting;  /* asked, and not granted yet */
    bool was_refused; /* since then */
    bool is_owner;    /* granted, and not ended */
    int64_t since_us; /* when it asked, or was granted */
};

/** A contender came, or goes. */
void simba__meter_open(struct simba__meter *meter,
                       struct simba__tallies *tallies,
                       const char *mutex);
void simba__meter_close(struct simba__meter *meter);

/** An acquire goes out. */
void simba__meter_ask(struct simba__meter *meter);

/** What the machine told the user. */
void simba__meter_tell(struct simba__meter *meter,
                       const struct simba__contend_update *update);

/** A renewal came to its end; `margin_ms` is what was left. */
void simba__meter_renewed(struct simba__meter *meter,
                          bool is_granted,
                          int64_t margin_ms);

/** Only when no contender is left. */
void simba__tallies_free(struct simba__tallies *tallies);

/** Which bucket of a histogram a duration falls into. */
size_t simba__histogram_bucket(uint64_t us);

#endif
