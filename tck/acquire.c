/* acquire: who gets a mutex, and what is answered. */
#include "contender.h"
#include "topics.h"

#include <string.h>

static void free_mutex_is_granted(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT(t, a->reply.token != 0);
    EXPECT_OWNS(a);
}

static void answer_names_the_new_owner(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_TEXT(t, a->reply.owner.id, a->id);
    EXPECT_NUMBER(t, a->reply.owner.token, a->reply.token);
}

static void held_mutex_is_refused(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT(t, !tck_try(b)->mine);
    EXPECT_QUEUED(b);
    EXPECT_OWNS(a);
}

static void refusal_names_the_owner(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    EXPECT_TEXT(t, b->reply.owner.id, a->id);
    EXPECT_NUMBER(t, b->reply.owner.token, a->token);
    tck_leave(b);
    tck_begin_anew(b);
    tck_release(a);
    EXPECT_GRANTED(c); /* it is not the one of before that is told */
    EXPECT(t, !tck_try(b)->mine);
    EXPECT_TEXT(t, b->reply.owner.id, c->id);
    EXPECT_NUMBER(t, b->reply.owner.token, c->token);
    EXPECT_TEXT(t, tck_read(b)->owner.id, c->id);
}

static void two_on_one_handle_exclude_each_other(struct tck *t)
{
    simba_store *store = tck_store(t);
    struct tck_contender *a = tck_contender(t, store);
    struct tck_contender *b = tck_contender(t, store);

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    tck_release(a);
    EXPECT_GRANTED(b);
}

static void same_attempt_is_granted_again(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    uint64_t token;

    EXPECT_GRANTED(a);
    token = a->token;
    EXPECT_GRANTED(a);
    EXPECT_NUMBER(t, a->reply.token, token);
    tck_release(a);
    EXPECT_FREE(a);
}

/* Else who asks again could not tell from when its lease runs (S8). */
static void asking_again_extends_the_lease(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    int64_t first;

    EXPECT_GRANTED(a);
    first = a->reply.owner.transition_at_ms;
    do {
        tck_sleep_until(simba_loop_now_ms() + 2); /* let the clock move */
        EXPECT_GRANTED(a);
    } while (a->reply.store_ms != 0 &&
             a->reply.store_ms + tck_lease_ms(&a->times) <= first);
    EXPECT(t, a->reply.owner.transition_at_ms > first);
}

static void lease_runs_from_asking_again(struct tck *t)
{
    tck_expect_lease_from(t, tck_ask);
}

static void other_attempt_of_one_id_is_refused(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    tck_as(b, a->id);
    EXPECT_GRANTED(a);
    EXPECT(t, !tck_try(b)->mine);
    EXPECT_QUEUED(b);
    tck_release(a);
    EXPECT_GRANTED(b);
}

static void trying_takes_no_position(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT(t, !tck_try(b)->mine);
    EXPECT(t, !b->reply.is_queued);
    tck_release(a);
    EXPECT_GRANTED(c);
}

static void mutexes_are_independent(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    char other[40];

    tck_fresh(other);
    tck_at(b, other);
    EXPECT_GRANTED(a);
    EXPECT_GRANTED(b);
    tck_release(b);
    EXPECT_OWNS(a);
    EXPECT_FREE(b);
}

static void reading_changes_nothing(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_FREE(b);
    EXPECT_GRANTED(a);
    EXPECT_TEXT(t, tck_read(b)->owner.id, a->id);
    EXPECT(t, tck_is_about(b->reply.owner.transition_at_ms,
                           a->reply.owner.transition_at_ms));
    EXPECT(t, !b->reply.mine);
    EXPECT_OWNS(a);
}

static void owner_has_the_times_asked_for(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    const simba_owner *owner = &a->reply.owner;

    EXPECT_GRANTED(a);
    EXPECT(t, tck_is_about(owner->ttl_at_ms - owner->acquired_at_ms,
                           a->times.ttl_ms));
    EXPECT(t, tck_is_about(owner->transition_at_ms - owner->ttl_at_ms,
                           a->times.transition_ms));
    EXPECT(t, a->reply.store_ms == 0 ||
                  tck_is_about(owner->acquired_at_ms, a->reply.store_ms));
}

/* What the store has, not what it answered to the one who asked. A server that
 * stood still between two of its clock readings is off by that; a length that
 * was cut, or has overflowed, by far more than a hundredth. */
static void expect_time_left(struct tck_contender *p, int64_t left_ms)
{
    const simba_owner *owner = &tck_read(p)->owner;
    int64_t off_ms = owner->transition_at_ms - owner->acquired_at_ms - left_ms;

    EXPECT(p->t, off_ms < left_ms / 100 && off_ms > -left_ms / 100);
    EXPECT(p->t, !tck_try(p)->mine);
    EXPECT(p->t, p->reply.wait_ms > left_ms - left_ms / 10);
}

/* Nobody can wait for its end: what is told of it must do. */
static void long_lease_is_kept(struct tck *t)
{
    static const int64_t lengths[] = {90000, 3600000, 86400000, 31622400000};
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        tck_begin_anew(a);
        a->times.ttl_ms = lengths[i] / 3 * 2;
        a->times.transition_ms = lengths[i] - a->times.ttl_ms;
        EXPECT_GRANTED(a);
        /* But a store may make less of it certain, if it says so. */
        EXPECT(t, a->reply.lease_ms == 0 || t->ops.certain_ms != NULL);
        expect_time_left(b, lengths[i]);
        tck_release(a);
    }
}

/* An attempt that is another by one bit is another (S5). */
static void whole_attempt_counts(struct tck *t)
{
    static const simba_attempt bits[] = {{.high = 1},
                                         {.high = UINT64_C(1) << 63},
                                         {.low = 1},
                                         {.low = UINT64_C(1) << 63}};
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        b->attempt.high = a->attempt.high ^ bits[i].high;
        b->attempt.low = a->attempt.low ^ bits[i].low;
        EXPECT(t, !tck_try(b)->mine);
        EXPECT(t, !tck_renew(b)->mine);
        tck_release(b);
        EXPECT_OWNS(a);
    }
}

static const struct tck_case cases[] = {
    {"acquire.free_mutex_is_granted",
     "Who asks for a free mutex gets it, with a token other than 0.",
     free_mutex_is_granted, TCK_QUICK | TCK_SAFETY},
    {"acquire.answer_names_the_new_owner",
     "A grant carries the owner: the id asked with, and the token granted.",
     answer_names_the_new_owner, TCK_SAFETY},
    {"acquire.held_mutex_is_refused",
     "Who asks for a held mutex is refused, and the owner keeps it.",
     held_mutex_is_refused, TCK_QUICK | TCK_SAFETY},
    {"acquire.refusal_names_the_owner",
     "A refusal tells who owns the mutex, and under which token.",
     refusal_names_the_owner, TCK_SAFETY},
    {"acquire.two_on_one_handle_exclude_each_other",
     "Two contenders of one handle exclude each other like strangers.",
     two_on_one_handle_exclude_each_other, TCK_SAFETY},
    {"acquire.same_attempt_is_granted_again",
     "The attempt that has the mutex gets the same token when it asks again, "
     "and one release frees it (S5).",
     same_attempt_is_granted_again, TCK_QUICK | TCK_SAFETY},
    {"acquire.asking_again_extends_the_lease",
     "Asking again as the owner extends the lease from that request (S8).",
     asking_again_extends_the_lease, TCK_TENURE_LEASE},
    {"acquire.lease_runs_from_asking_again",
     "Nobody else is granted a whole lease long after an owner asked again and "
     "was told yes (S1, S2, S8).",
     lease_runs_from_asking_again, TCK_TENURE_LEASE},
    {"acquire.other_attempt_of_one_id_is_refused",
     "An id proves nothing: another attempt of the owner's id waits (S5).",
     other_attempt_of_one_id_is_refused, TCK_SAFETY},
    {"acquire.whole_attempt_counts",
     "An attempt that differs in one of its 128 bits is another one (S5).",
     whole_attempt_counts, TCK_SAFETY},
    {"acquire.trying_takes_no_position",
     "Who asks without joining is refused without a position in the queue.",
     trying_takes_no_position, 0},
    {"acquire.mutexes_are_independent",
     "Owning or releasing one mutex does nothing to another.",
     mutexes_are_independent, TCK_SAFETY},
    {"acquire.reading_changes_nothing",
     "A read tells the owner and moves neither ownership nor lease.",
     reading_changes_nothing, 0},
    {"acquire.owner_has_the_times_asked_for",
     "ttl_at is acquired_at + ttl, and transition_at is ttl_at + transition.",
     owner_has_the_times_asked_for, TCK_TENURE_LEASE},
    {"acquire.long_lease_is_kept",
     "A lease of minutes, of a day or of a year is not cut; it is granted as "
     "it was asked for.",
     long_lease_is_kept, TCK_TENURE_LEASE},
};

const struct tck_topic tck_topic_acquire = TCK_TOPIC(cases);
