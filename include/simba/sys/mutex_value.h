/**
 * @file simba/sys/mutex_value.h
 * For authors of backends: a mutex as one value, for stores that can write a
 * value on the condition that it has not changed, and that have a clock.
 *
 * The author reads the value, lets simba_value_serve() say what it becomes,
 * writes that if the value is still the one that was read, begins again if it
 * is not, and notifies whom it is told to. All rules of a mutex (leases,
 * tokens, the queue, offers, tombstones) are kept by that: it is the model that
 * the simulator proves, and that Simba's own stores run.
 *
 * The value is text, one line for each thing, and begins with its version. It
 * has at most 700 bytes, 250 more for each who waits and 70 for each tombstone.
 *
 * What stands for "still the one that was read" must not come again, not even
 * if the server loses its data: a version that begins anew at 1 lets a write be
 * done on what it was not decided for.
 */
#ifndef SIMBA_SYS_MUTEX_VALUE_H
#define SIMBA_SYS_MUTEX_VALUE_H

#include <simba/sys/request.h>

SIMBA_BEGIN_DECLS

/** What only the store knows about a request. */
typedef struct simba_value_host {
    /** What is stored of the mutex, no NUL behind it needed; "" or NULL:
     * nothing. */
    const char *value;
    size_t size;
    /** The store's clock, read no earlier than the value. All who use a store
     * must be told the same one: the server's, not the machine's. Tokens are
     * made from it, so a server that can lose its data has one that goes on
     * over that: one that begins at 0 with each boot does not. */
    int64_t now_ms;
    /** Who asks: a number for each open handle, in which no two are alike; not
     * 0. It is kept beside a waiter and given back to be notified. */
    uint64_t connection;
    /** Is the handle with this number still there? Who is not keeps its
     * position, and is passed over at once, instead of after an offer (S11).
     * Answered on the spot, by what the server told together with the value;
     * not asked about `connection`. A yes that is out of date costs an offer, a
     * no that is out of date costs a living waiter its offer: in doubt yes.
     * MAY be NULL: everybody is; the contract asks for better. */
    bool (*is_connected)(void *self, uint64_t connection);
    void *self;
} simba_value_host;

/** What comes of a request. All is 0 if nothing needs to be written. */
typedef struct simba_value_change {
    /** The value to be written instead, with a NUL behind it, to be freed;
     * NULL: it stays as it is, and nothing needs to be written. */
    char *bytes;
    size_t size;
    /** Once it is written: in which handles simba_wake() has to be called, also
     * if one is this handle. A server that can notify does so best as part of
     * the write, which then cannot come without it. */
    uint64_t wake[2];
    int wake_count;
    /** Once it is written: handles that observe the mutex call simba_observed()
     * with `reply.owner` and `reply.ended`, or with NULL to look. */
    bool is_owner_changed;
} simba_value_change;

/**
 * Decide a request: acquire, renew, release, leave, read or break. If the write
 * is refused it is called once more for the same request, with what is there
 * now. (A read needs no write: with `want_queue` it adds those who wait each
 * time it is called.)
 *
 * @param request  its reply is filled anew, which counts only once the change
 *                 is written
 * @param change   filled anew; what it held is not freed
 * @return SIMBA_OK; SIMBA_EMISCONFIG: the value is not one of ours, or of a
 *         newer version; SIMBA_ENOMEM
 *
 * Threads: any thread; pure but for malloc().
 */
SIMBA_API SIMBA_MUST_USE int simba_value_serve(const simba_value_host *host,
                                               simba_request *request,
                                               simba_value_change *change,
                                               simba_error *error);

/**
 * Add a mutex to what a list answers, if it has an owner or a queue; a value
 * that is not ours is passed over. Who waits is counted if it is connected, so
 * `host` is filled in as for a request.
 *
 * Threads: any thread.
 */
SIMBA_API void simba_value_list(const char *mutex,
                                const simba_value_host *host,
                                simba_request *request);

SIMBA_END_DECLS

#endif
