/* offer: who is offered the mutex has 300 ms to come, no less and no more (S10,
 * S11). */
#include "contender.h"
#include "topics.h"

enum {
    OFFER_MS = 300,
    /* Who comes by then is in time, also if the store's clock is fast. */
    IN_TIME_MS = 280,
    /* Who is kept out longer waits for more than an offer. */
    OVER_MS = 400
};

/* A owns the mutex; the one that will be offered it and another wait in the
 * queue.
 */
struct scene {
    struct tck_contender *a, *offered, *other;
};

static struct scene set_scene(struct tck *t)
{
    struct scene s = {tck_stranger(t), tck_stranger(t), tck_stranger(t)};

    EXPECT_GRANTED(s.a);
    EXPECT_QUEUED(s.offered);
    EXPECT_QUEUED(s.other);
    return s;
}

static void offered_one_has_its_time(struct tck *t)
{
    struct scene s = set_scene(t);
    int64_t since = simba_loop_now_ms();

    tck_release(s.a);
    while (simba_loop_now_ms() < since + IN_TIME_MS - 40) {
        bool is_mine = tck_ask(s.other)->mine;

        EXPECT_SWIFT(t, since, IN_TIME_MS);
        EXPECT(t, !is_mine);
        EXPECT(t, s.other->reply.wait_ms >= 0 &&
                      s.other->reply.wait_ms <= OFFER_MS + 1);
        EXPECT_FREE(s.a); /* nobody owns it before it has asked */
        tck_sleep_until(simba_loop_now_ms() + 10);
    }
    tck_ask(s.offered);
    EXPECT_SWIFT(t, since, IN_TIME_MS);
    EXPECT(t, s.offered->reply.mine);
}

/* Asks until it is granted; a refusal of what was asked after the offer was
 * over fails. */
static void expect_offer_over(struct tck_contender *p, int64_t offered_ms)
{
    int64_t asked_ms = simba_loop_now_ms();

    while (!tck_ask(p)->mine) {
        EXPECT(p->t, asked_ms <= offered_ms + OVER_MS);
        tck_sleep_until(simba_loop_now_ms() + 5);
        asked_ms = simba_loop_now_ms();
    }
}

static void is_over_in_time(struct tck *t)
{
    struct scene s = set_scene(t);

    tck_release(s.a);
    expect_offer_over(s.other, simba_loop_now_ms());
    EXPECT(t, !tck_ask(s.offered)->mine);
}

static void missed_one_costs_the_position(struct tck *t)
{
    struct scene s = set_scene(t);
    struct tck_contender *last = tck_stranger(t);
    int64_t since;

    EXPECT_QUEUED(last);
    tck_release(s.a);
    expect_offer_over(s.other, simba_loop_now_ms());
    EXPECT_QUEUED(s.offered);
    EXPECT_QUEUED(last);
    EXPECT(t, last->reply.is_head);
    since = simba_loop_now_ms();
    tck_release(s.other);
    tck_ask(s.offered);
    tck_ask(last);
    EXPECT_SWIFT(t, since, IN_TIME_MS);
    EXPECT(t, !s.offered->reply.mine);
    EXPECT(t, last->reply.mine);
}

static const struct tck_case cases[] = {
    {"offer.offered_one_has_its_time",
     "Who is offered the mutex and comes within 300 ms is granted, whoever "
     "asks "
     "meanwhile (S11).",
     offered_one_has_its_time, TCK_TENURE_LEASE},
    {"offer.is_over_in_time",
     "When the 300 ms are over, the next in the queue is granted (S10).",
     is_over_in_time, TCK_TENURE_LEASE},
    {"offer.missed_one_costs_the_position",
     "Who was offered it and did not come is at the end of the queue (S10).",
     missed_one_costs_the_position, TCK_TENURE_LEASE},
};

const struct tck_topic tck_topic_offer = TCK_TOPIC(cases);
