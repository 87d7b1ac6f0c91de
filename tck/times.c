/* times: what is told of since when, until when, and how long to wait. */
#include "contender.h"
#include "topics.h"

/* Of a wall clock, whichever it is: seconds and microseconds are far off. */
#define YEAR_2001_MS INT64_C(1000000000000)

static void expect_ordered(struct tck_contender *p)
{
    const simba_owner *owner = &p->reply.owner;

    EXPECT(p->t, owner->acquired_at_ms > 0);
    EXPECT(p->t, owner->acquired_at_ms <= owner->ttl_at_ms);
    EXPECT(p->t, owner->ttl_at_ms <= owner->transition_at_ms);
    if ((p->t->ops.capabilities & SIMBA_HAS_SESSION_LEASE) != 0) {
        EXPECT(p->t, owner->acquired_at_ms > YEAR_2001_MS &&
                         owner->acquired_at_ms / 10 < YEAR_2001_MS);
    }
    if (p->reply.store_ms != 0) {
        EXPECT(p->t, owner->acquired_at_ms <= p->reply.store_ms + 2);
        EXPECT(p->t, owner->transition_at_ms >= p->reply.store_ms - 2);
    }
}

static void stand_in_order(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    expect_ordered(a);
    EXPECT(t, tck_renew(a)->mine);
    expect_ordered(a);
    EXPECT_GRANTED(a); /* again */
    expect_ordered(a);
    EXPECT(t, !tck_try(b)->mine);
    expect_ordered(b);
    EXPECT_QUEUED(b);
    expect_ordered(b);
    tck_read(b);
    expect_ordered(b);
}

/* This one is told the same of the owner as the owner was. */
static void expect_same(struct tck_contender *p, const simba_owner *granted)
{
    const simba_owner *told = &p->reply.owner;

    EXPECT(p->t, tck_is_about(told->acquired_at_ms, granted->acquired_at_ms));
    EXPECT(p->t, tck_is_about(told->ttl_at_ms, granted->ttl_at_ms));
    EXPECT(p->t,
           tck_is_about(told->transition_at_ms, granted->transition_at_ms));
}

static void are_told_alike_to_everybody(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    /* So long that a store which takes its own time for another's is seen. */
    tck_sleep_until(simba_loop_now_ms() + 20);
    EXPECT(t, !tck_try(b)->mine);
    expect_same(b, &a->reply.owner);
    EXPECT_QUEUED(b);
    expect_same(b, &a->reply.owner);
    tck_read(b);
    expect_same(b, &a->reply.owner);
}

static void expect_moved(struct tck_contender *p, const simba_owner *first)
{
    const simba_owner *owner = &p->reply.owner;
    int64_t ttl_ms = owner->ttl_at_ms - p->reply.store_ms;

    EXPECT_NUMBER(p->t, owner->acquired_at_ms, first->acquired_at_ms);
    EXPECT(p->t,
           p->reply.store_ms == 0 || tck_is_about(ttl_ms, p->times.ttl_ms));
    EXPECT(p->t, tck_is_about(owner->transition_at_ms - owner->ttl_at_ms,
                              p->times.transition_ms));
}

/* It is the same tenure, with a new end. */
static void only_the_end_moves(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    simba_owner first;

    EXPECT_GRANTED(a);
    first = a->reply.owner;
    tck_sleep_until(simba_loop_now_ms() + 20);
    EXPECT(t, tck_renew(a)->mine);
    expect_moved(a, &first);
    tck_sleep_until(simba_loop_now_ms() + 20);
    EXPECT_GRANTED(a);
    expect_moved(a, &first);
    EXPECT_NUMBER(t, tck_read(a)->owner.acquired_at_ms, first.acquired_at_ms);
}

/* Less would have those who wait ask for nothing, more would leave a free mutex
 * alone. Both bounds hold however slow this machine is. */
static void wait_is_what_is_left(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    int64_t lease = tck_lease_ms(&t->short_lease);
    int64_t sent = simba_loop_now_ms();
    int64_t told, asked, most;

    a->times = t->short_lease;
    EXPECT_GRANTED(a);
    told = simba_loop_now_ms();
    tck_sleep_until(sent + lease / 2);
    asked = simba_loop_now_ms();
    if (tck_try(b)->mine) {
        tck_too_slow(t, TCK_HERE);
    }
    most = tck_at_most_ms(lease - (asked - told));
    EXPECT(t, b->reply.wait_ms <= most);
    EXPECT(t, b->reply.wait_ms >=
                  tck_at_least_ms(lease - (simba_loop_now_ms() - sent)));
}

static const struct tck_case cases[] = {
    {"times.stand_in_order",
     "Wherever an owner is told, acquired_at has come, transition_at has not, "
     "and ttl_at is between.",
     stand_in_order, TCK_QUICK},
    {"times.are_told_alike_to_everybody",
     "A refusal and a read tell the same times as the grant.",
     are_told_alike_to_everybody, 0},
    {"times.only_the_end_moves",
     "Renewing and asking again move the end of the lease, and leave its "
     "beginning.",
     only_the_end_moves, TCK_TENURE_LEASE},
    {"times.wait_is_what_is_left",
     "A refusal tells to wait for what is left of the lease, no less and no "
     "more.",
     wait_is_what_is_left, TCK_TENURE_LEASE},
};

const struct tck_topic tck_topic_times = TCK_TOPIC(cases);
