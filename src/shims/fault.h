/* The inside of the fault shim, shared by its operations (fault.c) and its
 * wake-ups (fault_hint.c). */
#ifndef SIMBA_SHIMS_FAULT_H
#define SIMBA_SHIMS_FAULT_H

#include "shims/fault_options.h"
#include "shims/shim.h"

struct simba__delivery;
struct simba__late_wake;

struct simba__fault_shim {
    struct simba__shim shim;
    struct simba__fault_options options;
    struct simba__delivery *deliveries; /* not yet at their end */
    struct simba__late_wake *wakes;     /* not yet passed on */
    uint64_t op_count, wake_count;
    uint64_t counts[SIMBA__FAULTS]; /* of operations */
    uint64_t wake_faults;
    simba_log_fn log;
    void *log_user;
};

/** A wake-up comes by. */
void simba__fault_wake(struct simba__wake_filter *filter, const char *mutex);

/** Forget those that are late. */
void simba__fault_drop_wakes(struct simba__fault_shim *fault);

#define SIMBA__CONTAINER(pointer, type, member)                                \
    ((type *)((char *)(pointer)-offsetof(type, member)))

#endif
