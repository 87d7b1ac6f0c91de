/* The runtime's loop and worker without contentions and the public functions
 * above them, so that a backend can be driven one operation at a time. */
#ifndef TESTS_BACKENDS_DOUBLE_H
#define TESTS_BACKENDS_DOUBLE_H

#include <simba/sys/backend.h>

/** One open store with its loop. */
struct handle {
    simba_loop *loop;
    simba_backend *backend;
};

/** Open a store; `rest` is the URL behind its scheme. */
int handle_open(struct handle *handle,
                const simba_backend_ops *ops,
                const char *rest,
                simba_error *error);

void handle_close(struct handle *handle);

/** Carry out an operation; returns its status. */
int handle_run(struct handle *handle,
               simba_request *request,
               simba_error *error);

/** The same in two steps: submit it, and wait for its end. */
void handle_start(struct handle *handle, simba_request *request);
int handle_join(struct handle *handle,
                simba_request *request,
                simba_error *error);

/** Wait until there is a wake-up for this mutex or time is up, and forget
 * the wake-ups for it. False: there was none. A wake-up for observers only is
 * noted with a tab before the name. */
bool handle_woken(struct handle *handle, const char *mutex, int timeout_ms);

/** What observers were told last: the owner, and the token that ended. */
uint64_t handle_observed(const struct handle *handle, simba_owner *owner);

/** How many wake-ups there were since opening. */
int handle_wakes(const struct handle *handle);

/* What operations of any handle have listed; the test empties it. */
enum { TOLD_MOST = 64 };

struct told {
    simba_listed mutexes[TOLD_MOST];
    simba_waiter waiters[TOLD_MOST];
    simba_finding findings[TOLD_MOST];
    int mutex_count, waiter_count, finding_count;
};

extern struct told told;

#endif
