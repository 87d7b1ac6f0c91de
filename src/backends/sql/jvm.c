/* Room for contenders of Simba on the JVM, which share simba_mutex with us and
 * know of no queue. One that was refused asks again at the end of the lease
 * that it saw, give or take a spread, and never hears of a release; its tries
 * leave no trace. Beside two of ours that hand the mutex on to each other it
 * would find it owned for ever.
 *
 * So while one is seen the leases of ours end on a grid of times, and around
 * each of these none of ours is granted that follows one of ours:
 *
 *      refused: owned                      asks again here and finds it free
 *            |                                   |
 *   ---------'-----------------------------[ EARLY | LATE ]------------------
 *            '- lease, rounded up to the grid ---->'
 *
 * It has the mutex at its second try, then. Seen is who owned it within the
 * last ten leases; a row in the queue says so, whose id no contender can have,
 * and its position is the step of the grid. While it is there nothing is quiet
 * or fast, so that all of ours see it. */
#include "backends/sql/sql.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define JVM_ID "@"

/* The spread of the JVM is 200 ms before to 1000 ms after the end; the rest is
 * for machines that are slow. */
enum { EARLY_MS = 200, LATE_MS = 1300 };

/* The mutex is left early to them by whose tenure would otherwise reach into
 * the window: as long as the one before, but not longer than this. */
enum { LEAD_MOST_MS = 1000 };

/* Leases become longer by up to a step. */
enum { STEP_LEAST_MS = 1000, STEP_MOST_MS = 20000, REMEMBERED_LEASES = 10 };

bool simba__sql_is_jvm(const struct simba__waiter *waiter)
{
    return strcmp(waiter->id, JVM_ID) == 0;
}

static bool is_no_attempt(simba_attempt attempt)
{
    return attempt.high == 0 && attempt.low == 0;
}

/* One of them had it last, and has released it. Where versions are tokens, the
 * first tenure of ours has that token, too, but none before it. */
static bool has_gone(const struct simba__mutex_record *was)
{
    return was->tenure_token == SIMBA__SQL_ANOTHER &&
           was->former_token == SIMBA__SQL_ANOTHER;
}

/* One of them has it, or had it and none of ours since. */
static bool was_there(const struct simba__mutex_record *was)
{
    return has_gone(was) ||
           (was->owner.id[0] != '\0' && is_no_attempt(was->attempt));
}

/* An earlier version may have moved it within the queue. */
static bool has_step(const struct simba__waiter *jvm)
{
    return jvm->position >= STEP_LEAST_MS && jvm->position <= STEP_MOST_MS;
}

/* Write down that one is seen; rarely, and not by those who merely leave. */
static void note(struct simba__sql_request *request)
{
    struct simba__sql_record *record = &request->record;
    struct simba__waiter *jvm = &record->jvm;
    const simba_request *asked = request->asked;
    int64_t lease_ms = asked->ttl_ms + asked->transition_ms;
    int64_t now_ms = record->now_us / 1000;

    if (!has_step(jvm)) {
        jvm->position = lease_ms + LATE_MS < STEP_MOST_MS
                            ? (uint64_t)(lease_ms + LATE_MS)
                            : STEP_MOST_MS;
    }
    if (asked->kind == SIMBA_ACQUIRE &&
        jvm->lapses_ms - now_ms < (REMEMBERED_LEASES - 1) * lease_ms) {
        jvm->lapses_ms = now_ms + REMEMBERED_LEASES * lease_ms;
        record->is_jvm_noted = true;
    }
}

/* The end of the window that it is time for now, or 0. */
static int64_t window_end_ms(const struct simba__sql_record *record,
                             int64_t lead_ms)
{
    int64_t now_ms = record->now_us / 1000;
    int64_t length_ms = lead_ms + EARLY_MS + LATE_MS;
    int64_t since_ms =
        (now_ms + lead_ms + EARLY_MS) % (int64_t)record->jvm.position;

    return since_ms < length_ms ? now_ms - since_ms + length_ms : 0;
}

/* If the mutex is free, or about to be, and one of ours had it last, it is left
 * to them while it is time for that. */
static void leave_room(struct simba__sql_request *request)
{
    struct simba__mutex_record *mutex = &request->record.mutex;
    int64_t now_ms = request->record.now_us / 1000;
    int64_t lead_ms = 0, end_ms;
    bool is_held = simba__mutex_is_held(mutex, now_ms);
    bool is_joining =
        simba__sql_is_crowd(mutex) &&
        simba__mutex_find_tenure(mutex, request->asked->attempt) == NULL;

    if (request->asked->kind == SIMBA_RELEASE) {
        if (mutex->other_count > 0 ||
            !simba__attempt_equal(mutex->attempt, request->asked->attempt) ||
            is_no_attempt(mutex->attempt)) {
            return;
        }
        lead_ms = now_ms - mutex->owner.acquired_at_ms;
        lead_ms = lead_ms > LEAD_MOST_MS ? LEAD_MOST_MS : lead_ms;
        lead_ms = lead_ms < 0 ? 0 : lead_ms;
    } else if (request->asked->kind != SIMBA_ACQUIRE ||
               (is_held && !is_joining)) {
        return;
    } else if (is_held) {
        /* Nobody joins those who own it: one of them would be there at any
         * time. */
        lead_ms =
            ((int64_t)request->record.jvm.position - EARLY_MS - LATE_MS) / 2;
    }
    end_ms = window_end_ms(&request->record, lead_ms);
    if (end_ms != 0 && !mutex->is_offered) {
        mutex->is_offered = true;
        mutex->offered = request->record.jvm;
        mutex->offered.lapses_ms = 0; /* no position is kept for it */
        mutex->offered_until_ms = end_ms;
    }
}

void simba__sql_jvm_look(struct simba__sql_request *request)
{
    struct simba__sql *self = request->self;
    struct simba__sql_record *record = &request->record;
    const struct simba__mutex_record *was = &record->was;
    struct simba__mutex_record *mutex = &record->mutex;
    struct simba__sql_peer *peer = &record->peers[record->peer_count];
    int64_t now_ms = record->now_us / 1000;

    if (!self->is_jvm_possible) {
        return;
    }
    *peer = (struct simba__sql_peer){0};
    memcpy(peer->process, self->process, SIMBA__SQL_ACCOUNT);
    memcpy(record->jvm.id, JVM_ID, sizeof JVM_ID);
    record->jvm.attempt = (simba_attempt){UINT64_MAX, UINT64_MAX};
    record->jvm.connection = record->peer_count++;
    if (was_there(was) || self->is_jvm_expected) {
        note(request);
    }
    record->is_jvm_seen =
        record->jvm.lapses_ms >= now_ms && has_step(&record->jvm);
    if (mutex->is_offered && simba__sql_is_jvm(&mutex->offered) &&
        (has_gone(was) || (simba__mutex_is_held(mutex, now_ms) &&
                           !simba__sql_is_crowd(mutex)))) {
        mutex->is_offered = false; /* it has come */
    } else if (record->is_jvm_seen && !has_gone(was)) {
        leave_room(request);
    }
}

void simba__sql_jvm_align(struct simba__sql_request *request)
{
    const struct simba__sql_record *record = &request->record;
    const simba_request *asked = request->asked;
    struct simba__tenure *mine =
        simba__mutex_find_tenure(&record->mutex, asked->attempt);
    int64_t step_ms = (int64_t)record->jvm.position;
    simba_owner *owner;

    if (record->is_jvm_seen && asked->reply.mine && mine != NULL &&
        (asked->kind == SIMBA_ACQUIRE || asked->kind == SIMBA_RENEW)) {
        owner = &mine->owner;
        owner->transition_at_ms +=
            (step_ms - owner->transition_at_ms % step_ms) % step_ms;
        owner->ttl_at_ms = owner->transition_at_ms - asked->transition_ms;
    }
}
