/* Wake-ups under the fault shim: lost, late, doubled. */
#include "shims/fault.h"

#include <stdlib.h>
#include <string.h>

struct simba__late_wake {
    simba_timer timer;
    struct simba__fault_shim *fault;
    struct simba__late_wake *next;
    bool is_any;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

static void unlink_wake(struct simba__late_wake *wake)
{
    struct simba__late_wake **h = &wake->fault->wakes;

    while (*h != wake) {
        h = &(*h)->next;
    }
    *h = wake->next;
}

static void pass_late(simba_timer *timer)
{
    struct simba__late_wake *wake =
        SIMBA__CONTAINER(timer, struct simba__late_wake, timer);
    struct simba__shim *shim = &wake->fault->shim;

    unlink_wake(wake);
    simba__wake_pass(shim->base.loop, &shim->filter,
                     wake->is_any ? NULL : wake->mutex);
    free(wake);
}

static void put_off(struct simba__fault_shim *fault,
                    const char *mutex,
                    int64_t late_ms)
{
    struct simba__late_wake *wake = calloc(1, sizeof *wake);

    if (wake == NULL) {
        return; /* a lost wake-up does no harm (S7) */
    }
    wake->fault = fault;
    wake->timer.fire = pass_late;
    wake->is_any = mutex == NULL;
    if (mutex != NULL) {
        memcpy(wake->mutex, mutex, strlen(mutex) + 1);
    }
    wake->next = fault->wakes;
    fault->wakes = wake;
    simba_timer_set(fault->shim.base.loop, &wake->timer,
                    simba_loop_now_ms() + late_ms);
}

void simba__fault_wake(struct simba__wake_filter *filter, const char *mutex)
{
    struct simba__shim *shim =
        SIMBA__CONTAINER(filter, struct simba__shim, filter);
    struct simba__fault_shim *fault = (struct simba__fault_shim *)shim;
    struct simba__fate fate =
        simba__fault_draw_wake(&fault->options, ++fault->wake_count);

    fault->wake_faults += fate.fault != SIMBA__FAULT_NONE;
    if (fate.fault == SIMBA__FAULT_DELAY || fate.fault == SIMBA__FAULT_DOUBLE) {
        put_off(fault, mutex, fate.late_ms);
    }
    if (fate.fault == SIMBA__FAULT_NONE || fate.fault == SIMBA__FAULT_DOUBLE) {
        simba__wake_pass(shim->base.loop, filter, mutex);
    }
}

void simba__fault_drop_wakes(struct simba__fault_shim *fault)
{
    while (fault->wakes != NULL) {
        struct simba__late_wake *wake = fault->wakes;

        fault->wakes = wake->next;
        simba_timer_clear(fault->shim.base.loop, &wake->timer);
        free(wake);
    }
}
