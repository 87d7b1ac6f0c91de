/* Hints under the fault shim: lost, late, doubled. */
#include "shims/fault.h"

#include <stdlib.h>
#include <string.h>

struct simba__late_hint {
    simba_timer timer;
    struct simba__fault_shim *fault;
    struct simba__late_hint *next;
    bool is_any;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

static void unlink_hint(struct simba__late_hint *hint)
{
    struct simba__late_hint **h = &hint->fault->hints;

    while (*h != hint) {
        h = &(*h)->next;
    }
    *h = hint->next;
}

static void pass_late(simba_timer *timer)
{
    struct simba__late_hint *hint =
        SIMBA__CONTAINER(timer, struct simba__late_hint, timer);
    struct simba__shim *shim = &hint->fault->shim;

    unlink_hint(hint);
    simba__hint_pass(shim->base.loop, &shim->filter,
                     hint->is_any ? NULL : hint->mutex);
    free(hint);
}

static void put_off(struct simba__fault_shim *fault,
                    const char *mutex,
                    int64_t late_ms)
{
    struct simba__late_hint *hint = calloc(1, sizeof *hint);

    if (hint == NULL) {
        return; /* a lost hint does no harm (S7) */
    }
    hint->fault = fault;
    hint->timer.fire = pass_late;
    hint->is_any = mutex == NULL;
    if (mutex != NULL) {
        memcpy(hint->mutex, mutex, strlen(mutex) + 1);
    }
    hint->next = fault->hints;
    fault->hints = hint;
    simba_timer_set(fault->shim.base.loop, &hint->timer,
                    simba_loop_now_ms() + late_ms);
}

void simba__fault_hint(struct simba__hint_filter *filter, const char *mutex)
{
    struct simba__shim *shim =
        SIMBA__CONTAINER(filter, struct simba__shim, filter);
    struct simba__fault_shim *fault = (struct simba__fault_shim *)shim;
    struct simba__fate fate =
        simba__fault_draw_hint(&fault->options, ++fault->hint_count);

    fault->hint_faults += fate.fault != SIMBA__FAULT_NONE;
    if (fate.fault == SIMBA__FAULT_DELAY || fate.fault == SIMBA__FAULT_DOUBLE) {
        put_off(fault, mutex, fate.late_ms);
    }
    if (fate.fault == SIMBA__FAULT_NONE || fate.fault == SIMBA__FAULT_DOUBLE) {
        simba__hint_pass(shim->base.loop, filter, mutex);
    }
}

void simba__fault_drop_hints(struct simba__fault_shim *fault)
{
    while (fault->hints != NULL) {
        struct simba__late_hint *hint = fault->hints;

        fault->hints = hint->next;
        simba_timer_clear(fault->shim.base.loop, &hint->timer);
        free(hint);
    }
}
