/* Requests under way. One outlives a caller that does not wait for it, so it
 * has copies of its texts. */
#ifndef SIMBA_RUNTIME_REQUEST_H
#define SIMBA_RUNTIME_REQUEST_H

#include <simba/sys/backend.h>

/* Items of one kind; `size` bytes each. */
struct simba__items {
    void *first;
    size_t count, room, size;
};

struct simba_report {
    struct simba__items mutexes, owners, waiters, findings, told, broken;
    simba_owner owner;
    int64_t store_ms;
    bool is_short; /* something did not fit: it tells less than there is */
};

/** An empty one; NULL: no memory. */
simba_report *simba__report_make(void);

/** Append copies of all items of one to another, or mark it as short. */
void simba__report_add(simba_report *to, const simba_report *from);

/** Order the mutexes by name, and keep those that match; NULL: all. */
void simba__report_sort(simba_report *report, const char *glob);

/** Order what was told by mutex and token, and the breaks by time. */
void simba__report_sort_told(simba_report *report);
void simba__report_sort_breaks(simba_report *report);

struct simba__pending;

/* Who sends requests and hears what came of them, inside the loop. */
struct simba__caller {
    void (*done)(struct simba__caller *self,
                 const struct simba__pending *pending,
                 int status,
                 const simba_error *error);
    struct simba__pending *pending; /* under way */
};

struct simba__pending {
    simba_request request;
    struct simba__caller *caller; /* NULL: nobody waits any more */
    struct simba__pending *next;
    simba_loop *loop;     /* where its reply is awaited; NULL: it is a shim's */
    int64_t sent_ms;      /* of an acquire; set by who sends it */
    bool is_in_window;    /* it counts among the acquires under way */
    simba_report *report; /* list, queue, findings; NULL: none */
    bool is_report_short; /* there was no memory for it */
    char *reason, *to;
    char id[SIMBA_ID_MAX + 1];
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

/** Make one like this, with its own copies of the texts, unanswered; NULL: no
 * memory. An `id` of NULL is nobody's. */
struct simba__pending *simba__request_make(const simba_request *request);

/** What the runtime sent, of which this may be a copy by a backend. */
struct simba__pending *simba__request_first(simba_request *request);

/** Where a backend puts what it lists; NULL and marked when memory is out. */
simba_report *simba__request_report(simba_request *request);

/** Free one that was not sent; NULL is a no-op. */
void simba__request_free(struct simba__pending *pending);

/** Give it to the backend, which may complete it at once. */
void simba__request_send(struct simba__pending *pending,
                         struct simba__caller *caller,
                         simba_backend *backend);

/** Are so many acquires under way, or held, that another must be held? */
bool simba__request_is_full(const simba_loop *loop);

/** Have a timer that is not set fire when there is room, in the order of
 * coming; or no more: then it can be set. Both may be said twice. */
void simba__request_hold(simba_loop *loop, simba_timer *held);
void simba__request_unhold(simba_loop *loop, simba_timer *held);

/** The caller is going: what is under way ends unheard. */
void simba__caller_leave(struct simba__caller *caller);

#endif
