/* transition: the window behind the ttl in which only the owner may renew. */
#include "contender.h"
#include "topics.h"

/* Owns the mutex, its ttl over and half of its transition left. The store's
 * clock tells where it stands, if it is told. */
static struct tck_contender *owner_in_transition(struct tck *t,
                                                 int64_t *began_ms)
{
    struct tck_contender *a = tck_stranger(t);

    a->times = t->short_lease;
    *began_ms = simba_loop_now_ms();
    EXPECT_GRANTED(a);
    tck_sleep_until(simba_loop_now_ms() + a->times.ttl_ms +
                    a->times.transition_ms / 4);
    EXPECT_SWIFT(t, *began_ms, a->times.ttl_ms + a->times.transition_ms / 2);
    return a;
}

/* What follows must have happened within the lease. */
static void expect_in_time(struct tck *t,
                           const struct tck_contender *a,
                           int64_t began_ms)
{
    EXPECT_SWIFT(t, began_ms,
                 tck_lease_ms(&a->times) - tck_lease_ms(&a->times) / 20 - 10);
}

static void owner_may_still_renew(struct tck *t)
{
    int64_t began;
    struct tck_contender *a = owner_in_transition(t, &began);

    tck_renew(a);
    expect_in_time(t, a, began);
    EXPECT(t, a->reply.mine);
    EXPECT_NUMBER(t, a->reply.token, a->token);
}

static void others_are_refused(struct tck *t)
{
    struct tck_contender *b = tck_stranger(t);
    int64_t began;
    struct tck_contender *a = owner_in_transition(t, &began);

    tck_ask(b);
    expect_in_time(t, a, began);
    EXPECT(t, !b->reply.mine);
    EXPECT_TEXT(t, b->reply.owner.id, a->id);
}

static void owner_is_still_shown(struct tck *t)
{
    struct tck_contender *b = tck_stranger(t);
    int64_t began;
    struct tck_contender *a = owner_in_transition(t, &began);
    const simba_reply *reply = tck_read(b);

    expect_in_time(t, a, began);
    EXPECT_TEXT(t, reply->owner.id, a->id);
    EXPECT(t, reply->store_ms == 0 ||
                  !simba_owner_is_in_ttl(&reply->owner, reply->store_ms));
    EXPECT(t, reply->store_ms == 0 ||
                  simba_owner_has_owner(&reply->owner, reply->store_ms));
}

static void none_is_needed(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    int64_t sent = simba_loop_now_ms();

    a->times.ttl_ms = tck_lease_ms(&t->short_lease);
    a->times.transition_ms = 0;
    b->times = a->times;
    EXPECT_GRANTED(a);
    EXPECT_NUMBER(t, a->reply.owner.ttl_at_ms, a->reply.owner.transition_at_ms);
    AWAIT(t, tck_ask(b)->mine);
    EXPECT_LEASE_PASSED(t, sent, tck_lease_ms(&a->times));
}

static const struct tck_case cases[] = {
    {"transition.owner_may_still_renew",
     "Behind the ttl, within the transition, the owner renews as before.",
     owner_may_still_renew, TCK_TENURE_LEASE},
    {"transition.others_are_refused",
     "Behind the ttl, within the transition, nobody else is granted.",
     others_are_refused, TCK_TENURE_LEASE},
    {"transition.owner_is_still_shown",
     "A read within the transition shows the owner, out of its ttl.",
     owner_is_still_shown, TCK_TENURE_LEASE},
    {"transition.none_is_needed",
     "With a transition of 0 the lease is the ttl.", none_is_needed,
     TCK_TENURE_LEASE},
};

const struct tck_topic tck_topic_transition = TCK_TOPIC(cases);
