/* What a fault shim does to whom, and how often; a function of its seed. */
#ifndef SIMBA_SHIMS_FAULT_OPTIONS_H
#define SIMBA_SHIMS_FAULT_OPTIONS_H

#include "core/rng.h"

#include <simba/sys/backend.h>

enum simba__fault {
    SIMBA__FAULT_NONE,
    SIMBA__FAULT_FAIL,   /* refused, surely without effect */
    SIMBA__FAULT_LOSE,   /* the request never arrives */
    SIMBA__FAULT_MUTE,   /* it arrives, the answer does not */
    SIMBA__FAULT_DELAY,  /* the request arrives later, others pass it */
    SIMBA__FAULT_SLOW,   /* the answer comes later */
    SIMBA__FAULT_DOUBLE, /* it is carried out twice */
    SIMBA__FAULT_ECHO,   /* and the second time late */
    SIMBA__FAULTS
};

struct simba__fault_options {
    uint64_t seed;
    /* Percent of operations. `lose` is half requests, half answers; `delay`
     * likewise. */
    unsigned lose, delay, twice, fail, echo;
    unsigned wake_lose, wake_late, wake_double; /* percent of wake-ups */
    int64_t late_ms;                            /* the longest delay */
    uint64_t nth;                 /* only the n-th operation, from 1; 0: off */
    enum simba__fault as;         /* what befalls the n-th */
    enum simba_request_kind only; /* of this kind; 0: all of the contention */
};

/** Read "seed=7,lose=5,…"; `text` is torn apart. */
int simba__fault_options_read(struct simba__fault_options *options,
                              char *text,
                              simba_error *error);

/** What befalls one. */
struct simba__fate {
    enum simba__fault fault;
    int64_t late_ms; /* for those that are late, from 1 */
};

/** The fate of the n-th operation, from 1. */
struct simba__fate simba__fault_draw(const struct simba__fault_options *options,
                                     uint64_t n);

/** The fate of the n-th wake-up: NONE, LOSE, DELAY or DOUBLE (and late). */
struct simba__fate simba__fault_draw_wake(
    const struct simba__fault_options *options,
    uint64_t n);

#endif
