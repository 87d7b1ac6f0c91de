/* WAITING: asking for the mutex, the position in the queue, the backstop behind
 * the store's wake-ups. */
#include "core/contend_internal.h"
#include "core/mutex_record.h"
#include "core/plant.h"

#include <assert.h>

/* Asking again after a failure. */
enum { BACKOFF_FIRST_MS = 50, BACKOFF_MOST_MS = 5000 };

/* The seed's jitter for those without a position in the queue. */
enum { JITTER_LOW_MS = -200, JITTER_HIGH_MS = 1000 };

/* However little the store says is left, ask no oftener than this. */
enum { ASK_SPACING_MS = 5, WAKE_SPACING_MS = 2 };

/* A new attempt, the first request of which is due at `at_ms`. */
void simba__contend_begin(struct simba__contend *c, int64_t at_ms)
{
    c->phase = SIMBA__WAITING;
    c->attempt.high = simba__rng_next(&c->rng);
    c->attempt.low = simba__rng_next(&c->rng);
    c->is_doubtful = false;
    c->is_queued = false;
    c->is_woken = false;
    c->is_backstop = false;
    c->is_gone = false;
    c->position = 0;
    c->token = 0;
    c->last_claim_ms = -1;
    c->next_ms = at_ms;
}

/* The same attempt asks again and again until it is granted or given up, so
 * that an earlier request whose answer was lost is found, not repeated (S8). */
void simba__contend_ask(struct simba__contend *c,
                        struct simba__contend_update *up)
{
    const struct simba__lease *lease = &c->config.lease;
    int64_t backstop = simba__lease_length_ms(lease) + JITTER_HIGH_MS;

    assert(c->phase == SIMBA__WAITING && !c->is_calling);
    c->is_woken = false;
    simba__contend_send(c, SIMBA_ACQUIRE,
                        simba__contend_try_ms(simba__lease_use_ms(lease)), up);
    up->send.position = c->position;
    up->send.join = c->config.join;
    up->send.is_backstop = c->is_backstop;
    up->send.waiter_ms = 2 * backstop;
}

static int64_t jitter_ms(struct simba__contend *c)
{
    int64_t low = c->config.lease.transition_ms == 0 ? 0 : JITTER_LOW_MS;

    return low +
           (int64_t)simba__rng_below(&c->rng, (uint64_t)(JITTER_HIGH_MS - low));
}

/* The backstop: with every wake-up lost, a waiter asks when the owner's lease
 * ends. The head of the line right then; who stands behind it one reservation
 * later, in case the head is dead; who has no place some time around it. */
static int64_t backstop_ms(struct simba__contend *c, const simba_reply *reply)
{
    int64_t most = simba__lease_length_ms(&c->config.lease);
    int64_t wait = reply->wait_ms < most ? reply->wait_ms : most;

    if (wait < 0) {
        wait = 0;
    }
    if (!reply->is_queued) {
        wait += jitter_ms(c);
    } else if (!reply->is_head) {
        wait += SIMBA__OFFER_MS;
    } else {
        wait += 1; /* the store frees a lease after its last millisecond */
    }
    return wait > ASK_SPACING_MS ? wait : ASK_SPACING_MS;
}

/* A wake-up is followed at once, but a storm of wake-ups must not become a
 * storm of questions. */
int64_t simba__contend_woken_at(const struct simba__contend *c)
{
    int64_t soon = simba__contend_later(c->sent_ms, WAKE_SPACING_MS);

    return soon > c->now_ms ? soon : c->now_ms;
}

static void refused(struct simba__contend *c, const simba_reply *reply)
{
    c->failures = 0;
    c->is_queued = reply->is_queued;
    c->is_backstop = reply->is_queued && !c->is_woken;
    if (reply->is_queued) {
        c->position = reply->position;
    }
    c->next_ms = c->is_woken
                     ? simba__contend_woken_at(c)
                     : simba__contend_later(c->now_ms, backstop_ms(c, reply));
}

static void failed(struct simba__contend *c, enum simba__outcome outcome)
{
    int64_t most = simba__lease_length_ms(&c->config.lease) / 4;
    int64_t delay = simba__contend_backoff_ms(
        c, BACKOFF_FIRST_MS, most < BACKOFF_MOST_MS ? most : BACKOFF_MOST_MS);
    int64_t at = simba__contend_later(c->sent_ms, delay);

    c->is_backstop = false;
    if (outcome == SIMBA__UNKNOWN) {
        c->is_doubtful = true;
    }
    c->next_ms = at > c->now_ms ? at : c->now_ms;
    if (c->is_woken) {
        c->next_ms = simba__contend_woken_at(c);
    }
    if (PLANTED(NO_RETRY)) {
        c->next_ms = SIMBA__NEVER;
    }
}

void simba__contend_asked(struct simba__contend *c,
                          enum simba__outcome outcome,
                          const simba_reply *reply,
                          struct simba__contend_update *up)
{
    if (reply == NULL) {
        failed(c, outcome);
    } else if (!reply->mine) {
        refused(c, reply);
    } else {
        simba__contend_own(c, reply, up);
    }
}

/* Stop while waiting: take back what the store may know of us. */
void simba__contend_quit(struct simba__contend *c,
                         struct simba__contend_update *up)
{
    bool is_asking = c->inflight == SIMBA_ACQUIRE;

    c->is_doubtful |= is_asking && !PLANTED(FORGET_ON_STOP);
    if (c->is_doubtful) {
        simba__contend_part(c, SIMBA_RELEASE, up);
    } else if (c->is_queued) {
        simba__contend_part(c, SIMBA_LEAVE, up);
    } else {
        simba__contend_finish(c, up);
    }
}
