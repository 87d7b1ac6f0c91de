/* token: grows strictly with each tenure of a mutex (S4). */
#include "contender.h"
#include "topics.h"
#include "witness.h"

static void grows_with_every_tenure(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    uint64_t last = 0;

    for (int i = 0; i < 5; i++) {
        tck_begin_anew(a);
        EXPECT_GRANTED(a);
        EXPECT(t, a->token > last);
        last = a->token;
        tck_release(a);
    }
}

static void grows_from_owner_to_owner(struct tck *t)
{
    struct tck_contender *who[3];
    uint64_t last = 0;

    for (int i = 0; i < 3; i++) {
        who[i] = tck_stranger(t);
    }
    for (int i = 0; i < 9; i++) {
        struct tck_contender *p = who[i % 3];

        tck_begin_anew(p);
        EXPECT_GRANTED(p);
        EXPECT(t, p->token > last);
        last = p->token;
        tck_release(p);
    }
}

static void grows_over_a_reopening(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b;
    uint64_t last;

    EXPECT_GRANTED(a);
    last = a->token;
    tck_release(a);
    tck_gone(a);
    b = tck_stranger(t);
    EXPECT_GRANTED(b);
    EXPECT(t, b->token > last);
}

static void grows_over_the_end_of_a_lease(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    a->times = b->times = t->short_lease;
    EXPECT_GRANTED(a);
    AWAIT(t, tck_ask(b)->mine);
    EXPECT(t, b->token > a->token);
}

static void grows_over_an_undoing(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    tck_undo(a, tck_lease_ms(&a->times));
    EXPECT_GRANTED(b);
    EXPECT(t, b->token > a->token);
}

/* An hour ahead of every clock: what was granted last counts, not the time. */
static void grows_ahead_of_the_clock(struct tck *t)
{
    static const uint64_t hour_us = UINT64_C(3600000000);
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    tck_release(a);
    a->token_above = a->token + hour_us;
    tck_begin_anew(a);
    EXPECT_GRANTED(a);
    if (a->token <= a->token_above) {
        tck_skip(t, "where tenures are not numbered by the server");
    }
    tck_release(a);
    EXPECT_GRANTED(b);
    EXPECT(t, b->token > a->token);
}

/* The clock carries it over lost data: a counter would begin anew. */
static void follows_the_clock(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    int64_t began_ms;

    EXPECT_GRANTED(a);
    began_ms = a->reply.owner.acquired_at_ms;
    EXPECT(t, began_ms > 0);
    EXPECT(t, a->reply.token / 1000 + 1 >= (uint64_t)began_ms);
}

static void is_told_to_the_contender(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);
    struct tck_contender *reader = tck_stranger(t);
    uint64_t token;

    tck_contend(w, tck_store(t));
    AWAIT(t, atomic_load(&w->acquired) == 1);
    token = simba_service_token(w->service);
    EXPECT(t, token != 0);
    EXPECT_NUMBER(t, atomic_load(&w->token), token);
    EXPECT_NUMBER(t, tck_read(reader)->owner.token, token);
    tck_stop(w);
    EXPECT_NUMBER(t, simba_service_token(w->service), 0);
    EXPECT_ORDERLY(w);
}

static const struct tck_case cases[] = {
    {"token.grows_with_every_tenure",
     "Each tenure has a greater token than the one before (S4).",
     grows_with_every_tenure, TCK_QUICK | TCK_SAFETY},
    {"token.grows_from_owner_to_owner",
     "Tokens grow also when the owner changes from handle to handle.",
     grows_from_owner_to_owner, TCK_SAFETY},
    {"token.grows_over_a_reopening",
     "Tokens grow also when the handle of the last owner is closed.",
     grows_over_a_reopening, TCK_SAFETY},
    {"token.grows_over_the_end_of_a_lease",
     "Who takes over after a lease has lapsed has a greater token.",
     grows_over_the_end_of_a_lease, TCK_TENURE_LEASE},
    {"token.grows_over_an_undoing",
     "A tenure that was undone has used up its token.", grows_over_an_undoing,
     TCK_SAFETY},
    {"token.grows_ahead_of_the_clock",
     "Tokens grow also when the last one is greater than the clock says.",
     grows_ahead_of_the_clock, 0},
    {"token.follows_the_clock",
     "A token is no less than the store's time in microseconds, so that it "
     "grows over lost data too (S4).",
     follows_the_clock, TCK_QUICK | TCK_TENURE_LEASE},
    {"token.is_told_to_the_contender",
     "Callback, service and a read tell the same token.",
     is_told_to_the_contender, TCK_QUICK},
};

const struct tck_topic tck_topic_token = TCK_TOPIC(cases);
