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
 * It has the mutex at its second try, then, unless another of its kind comes in
 * the same window and owns it just then. Who was refused by that one reads a
 * lease that is not on the grid, and waits for three windows. So where there
 * are two of them each has every other window for itself: whoever of ours
 * follows one decides when it comes again, by the end of the lease that it
 * finds.
 *
 *   windows   [1]          [2]          [1]          [2]
 *              '- owns it, is refused by who follows: asks in the next [1]
 *
 * Seen is who owned it within the last ten leases; a row in the queue says so,
 * whose id no contender can have, and its position is the step of the grid.
 * While it is there nothing is quiet or fast, so that all of ours see it. */
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

/* Leases become longer by up to a step, or two. */
enum { STEP_LEAST_MS = 1000, STEP_MOST_MS = 20000, REMEMBERED_LEASES = 10 };

/* What is known of how many they are, in the lowest bits of the step. */
enum {
    PAIRED = 1,       /* there may be two: each has every other window */
    CROWDED = 2,      /* two have come in one window, and are to be parted */
    FOLLOWED = 4,     /* one was followed ten leases before it lapses, if all of
                       * ours have the same lease; or it means nothing */
    MISSED = 8,       /* so often in a row none came in the window between, */
    MISSED_MOST = 24, /* and then there is but one */
    STATE = 31
};

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

static int64_t step_ms(const struct simba__waiter *jvm)
{
    return (int64_t)(jvm->position & ~(uint64_t)STATE);
}

/* One alone asks again up to LATE_MS after the end of a lease, and the one that
 * follows it must have a lease until the next window. Two windows instead of
 * one cost ours nine hundredths of their time: so long are two steps then. But
 * one of two in the same window must have time to come in the other instead:
 * three steps later, within two of its polls of a lease and a second each; or
 * else in the next, which may be no nearer than a lease. */
static uint64_t choose_step(int64_t lease_ms, bool is_paired)
{
    int64_t step =
        lease_ms + LATE_MS < STEP_MOST_MS ? lease_ms + LATE_MS : STEP_MOST_MS;
    int64_t window_ms = EARLY_MS + LATE_MS;

    if (is_paired) {
        step = 100 * window_ms * step / (9 * step + 91 * window_ms);
        if (3 * step + EARLY_MS > 2 * lease_ms + 1000 &&
            step < lease_ms + 300) {
            step = lease_ms + 300;
        }
    }
    return (uint64_t)(step + STATE) & ~(uint64_t)STATE;
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
        jvm->position = choose_step(lease_ms, true) | PAIRED;
    }
    if (asked->kind == SIMBA_ACQUIRE &&
        jvm->lapses_ms - now_ms < REMEMBERED_LEASES / 4 * lease_ms) {
        jvm->position &= ~(uint64_t)FOLLOWED;
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
    int64_t since_ms = (now_ms + lead_ms + EARLY_MS) % step_ms(&record->jvm);

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
        lead_ms = (step_ms(&request->record.jvm) - EARLY_MS - LATE_MS) / 2;
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

/* Who follows one of them has seen it, and in which window it came: the same as
 * another, the one after another's, or with an empty one in between. */
static void count_them(struct simba__waiter *jvm,
                       int64_t now_ms,
                       int64_t lease_ms)
{
    int64_t last_ms = jvm->lapses_ms - REMEMBERED_LEASES * lease_ms;
    int64_t windows = (now_ms + EARLY_MS) / step_ms(jvm) -
                      (last_ms + EARLY_MS) / step_ms(jvm);
    bool is_known = (jvm->position & FOLLOWED) != 0 && last_ms <= now_ms;

    if (is_known && (jvm->position & PAIRED) == 0) {
        if (windows == 0) {
            jvm->position = choose_step(lease_ms, true) | PAIRED;
        }
    } else if (is_known && windows <= 1) {
        jvm->position &= ~(uint64_t)(CROWDED | MISSED_MOST);
        jvm->position |= windows == 0 ? CROWDED : 0;
    } else if (is_known && (jvm->position & MISSED_MOST) == MISSED_MOST) {
        jvm->position = choose_step(lease_ms, false);
    } else if (is_known) {
        jvm->position += MISSED;
    }
    jvm->position |= FOLLOWED;
    jvm->lapses_ms = now_ms + REMEMBERED_LEASES * lease_ms;
}

/* When the lease of the one that follows one of two ends: in the next but one
 * window. Of two in the same window one is sent to the other, if it need not
 * wait for longer than for two of its polls, of a lease and a second each. */
static int64_t choose_end(struct simba__waiter *jvm,
                          int64_t now_ms,
                          int64_t lease_ms)
{
    int64_t step = step_ms(jvm);
    int64_t window_ms = (now_ms + EARLY_MS) / step * step;
    int64_t other_ms = window_ms + step, end_ms = window_ms + 2 * step;

    while (other_ms < now_ms + lease_ms) {
        other_ms += 2 * step;
    }
    if ((jvm->position & CROWDED) != 0 &&
        other_ms - now_ms <= 2 * lease_ms + 1000) {
        jvm->position &= ~(uint64_t)CROWDED;
        return other_ms;
    }
    while (end_ms < now_ms + lease_ms) {
        end_ms += 2 * step;
    }
    return end_ms;
}

void simba__sql_jvm_align(struct simba__sql_request *request)
{
    struct simba__sql_record *record = &request->record;
    const simba_request *asked = request->asked;
    struct simba__tenure *mine =
        simba__mutex_find_tenure(&record->mutex, asked->attempt);
    bool is_following = asked->kind == SIMBA_ACQUIRE && has_gone(&record->was);
    int64_t lease_ms = asked->ttl_ms + asked->transition_ms;
    int64_t now_ms = record->now_us / 1000, step;
    simba_owner *owner;

    if (!record->is_jvm_seen || !asked->reply.mine || mine == NULL ||
        (asked->kind != SIMBA_ACQUIRE && asked->kind != SIMBA_RENEW)) {
        return;
    }
    if (is_following) {
        count_them(&record->jvm, now_ms, lease_ms);
        record->is_jvm_noted = true;
    }
    owner = &mine->owner;
    step = step_ms(&record->jvm);
    owner->transition_at_ms += (step - owner->transition_at_ms % step) % step;
    if (is_following && (record->jvm.position & PAIRED) != 0) {
        owner->transition_at_ms = choose_end(&record->jvm, now_ms, lease_ms);
    }
    owner->ttl_at_ms = owner->transition_at_ms - asked->transition_ms;
}
