/* What a request answers beyond its reply: a list, a queue, findings. It is
 * kept with the request until whoever asked takes it. */
#ifndef SIMBA_RUNTIME_REPORT_H
#define SIMBA_RUNTIME_REPORT_H

#include <simba/sys/backend.h>

/* Items of one kind; `size` bytes each. */
struct simba__items {
    void *first;
    size_t count, room, size;
};

struct simba_report {
    struct simba__items mutexes, waiters, findings;
    simba_owner owner;
    int64_t store_ms;
    bool is_short; /* something did not fit: it tells less than there is */
};

/** An empty one; NULL: no memory. */
simba_report *simba__report_make(void);

/** Append copies of all items of one to another, or mark it as short. */
void simba__report_add(simba_report *to, const simba_report *from);

/** Order the mutexes by name, and keep those that `wants` wants. */
void simba__report_sort(simba_report *report,
                        bool (*wants)(const char *glob, const char *mutex),
                        const char *glob);

#endif
