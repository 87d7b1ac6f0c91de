/* renew: extends this very tenure; never creates, never steals (S5). */
#include "contender.h"
#include "topics.h"

static void own_tenure_is_extended(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    int64_t first;

    EXPECT_GRANTED(a);
    first = a->reply.owner.transition_at_ms;
    AWAIT(t, tck_renew(a)->owner.transition_at_ms > first);
    EXPECT(t, a->reply.mine);
}

static void token_is_kept(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);

    EXPECT_GRANTED(a);
    for (int i = 0; i < 3; i++) {
        EXPECT(t, tck_renew(a)->mine);
        EXPECT_NUMBER(t, a->reply.token, a->token);
        EXPECT_OWNS(a);
    }
}

static void beginning_of_the_tenure_is_kept(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    int64_t began;

    EXPECT_GRANTED(a);
    began = a->reply.owner.acquired_at_ms;
    EXPECT(t, tck_renew(a)->mine);
    EXPECT_NUMBER(t, tck_read(a)->owner.acquired_at_ms, began);
}

static void other_attempt_of_one_id_is_refused(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    tck_as(b, a->id);
    EXPECT_GRANTED(a);
    EXPECT(t, !tck_renew(b)->mine);
    b->token = a->token; /* nor does the token help */
    EXPECT(t, !tck_renew(b)->mine);
    EXPECT_OWNS(a);
}

static void nothing_is_stolen(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT(t, !tck_renew(b)->mine);
    EXPECT_OWNS(a);
    EXPECT(t, tck_renew(a)->mine);
}

static void nothing_is_created(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT(t, !tck_renew(a)->mine);
    EXPECT_FREE(a);
    EXPECT_GRANTED(b);
}

static void released_tenure_stays_released(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);

    EXPECT_GRANTED(a);
    tck_release(a);
    EXPECT(t, !tck_renew(a)->mine);
    EXPECT_FREE(a);
}

static void waiting_is_not_owning(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    EXPECT(t, !tck_renew(b)->mine);
    tck_release(a);
    EXPECT(t, !tck_renew(b)->mine); /* offered it, but it has not come */
    EXPECT_GRANTED(b);
}

static void lapsed_tenure_is_over(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);

    a->times = t->short_lease;
    EXPECT_GRANTED(a);
    AWAIT(t, tck_read(a)->owner.id[0] == '\0');
    EXPECT(t, !tck_renew(a)->mine);
    EXPECT_FREE(a);
}

static void lease_runs_from_the_renewal(struct tck *t)
{
    tck_expect_lease_from(t, tck_renew);
}

static const struct tck_case cases[] = {
    {"renew.own_tenure_is_extended",
     "A renewal by the owner's attempt moves the end of its lease.",
     own_tenure_is_extended, TCK_QUICK | TCK_TENURE_LEASE},
    {"renew.token_is_kept", "Renewals keep the token (S4).", token_is_kept,
     TCK_QUICK | TCK_SAFETY},
    {"renew.beginning_of_the_tenure_is_kept",
     "Renewals keep acquired_at: they are the same tenure.",
     beginning_of_the_tenure_is_kept, TCK_SAFETY},
    {"renew.other_attempt_of_one_id_is_refused",
     "An id and a token prove no tenure: only its attempt renews it (S5).",
     other_attempt_of_one_id_is_refused, TCK_QUICK | TCK_SAFETY},
    {"renew.nothing_is_stolen",
     "A renewal by somebody else is refused and leaves the owner alone (S5).",
     nothing_is_stolen, TCK_SAFETY},
    {"renew.nothing_is_created",
     "A renewal of a free mutex is refused and leaves it free (S5).",
     nothing_is_created, TCK_SAFETY},
    {"renew.released_tenure_stays_released",
     "A renewal that comes after the release is refused (S5).",
     released_tenure_stays_released, TCK_SAFETY},
    {"renew.waiting_is_not_owning",
     "Neither a position in the queue nor an offer can be renewed into a "
     "tenure.",
     waiting_is_not_owning, 0},
    {"renew.lapsed_tenure_is_over",
     "A renewal that comes after the lease is refused, even if nobody took "
     "the mutex.",
     lapsed_tenure_is_over, TCK_TENURE_LEASE},
    {"renew.lease_runs_from_the_renewal",
     "Nobody else is granted a whole lease long after a renewal was sent that "
     "was answered yes (S1, S2).",
     lease_runs_from_the_renewal, TCK_TENURE_LEASE},
};

const struct tck_topic tck_topic_renew = TCK_TOPIC(cases);
