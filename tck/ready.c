/* A first look at a store: does it grant anything, and does it complete what it
 * is asked? Better to find out here than in every test. */
#include "contender.h"

enum { READY_MS = 10000, READY_PAUSE_MS = 50 };

/* Acquire, and what is asked of a tenure then. */
static const enum simba_request_kind looks[] = {
    SIMBA_ACQUIRE, SIMBA_RENEW, SIMBA_READ, SIMBA_RELEASE, SIMBA_LEAVE,
};

static int look(struct tck *t,
                simba_store *store,
                enum simba_request_kind kind,
                simba_error *error)
{
    simba_request request = {.size = sizeof request,
                             .kind = kind,
                             .mutex = t->mutex,
                             .id = t->mutex,
                             .attempt = {.high = 1, .low = 1},
                             .ttl_ms = t->long_lease.ttl_ms,
                             .transition_ms = t->long_lease.transition_ms,
                             .reply = SIMBA_REPLY_INIT};
    int rc = tck_probe(t, store, &request, error);

    t->tells_time |= rc == SIMBA_OK && request.reply.store_ms != 0;
    return rc;
}

/* A store may refuse to grant anything for a while, such as one that was just
 * started and may have lost what it knew. */
static int await_grant(struct tck *t, simba_store *store, simba_error *error)
{
    int64_t until =
        simba_loop_now_ms() + READY_MS + tck_lease_ms(&t->long_lease);
    int rc = look(t, store, SIMBA_ACQUIRE, error);

    while ((rc == SIMBA_EUNAVAIL || rc == SIMBA_EBUSY) &&
           simba_loop_now_ms() < until &&
           (t->is_cancelled == NULL || !t->is_cancelled(t->user))) {
        tck_sleep_until(simba_loop_now_ms() + READY_PAUSE_MS);
        rc = look(t, store, SIMBA_ACQUIRE, error);
    }
    return rc;
}

/* What is left open fails the tests that need it, by its name. */
int tck_await_ready(struct tck *t, simba_store *store, simba_error *error)
{
    size_t count = sizeof looks / sizeof looks[0];
    int rc = await_grant(t, store, error);

    if (t->stuck != 0) { /* without an acquire there is nothing to see */
        for (size_t i = 0; i < count; i++) {
            t->stuck |= 1U << looks[i];
        }
        return SIMBA_OK;
    }
    for (size_t i = 1; i < count && rc == SIMBA_OK; i++) {
        (void)look(t, store, looks[i], NULL); /* the tests report failures */
    }
    return rc;
}
