/* turn: who is called has 300 ms to come, no less and no more (S10, S11). */
#include "person.h"
#include "topics.h"

enum {
    TURN_MS = 300,
    /* Who comes by then is in time, also if the store's clock is fast. */
    IN_TIME_MS = 280,
    /* Who is kept out longer waits for more than a turn. */
    OVER_MS = 400
};

/* A owns the mutex; the one that will be called and another wait in the queue.
 */
struct scene {
    struct tck_person *a, *called, *other;
};

static struct scene set_scene(struct tck *t)
{
    struct scene s = {tck_stranger(t), tck_stranger(t), tck_stranger(t)};

    EXPECT_GRANTED(s.a);
    EXPECT_IN_LINE(s.called);
    EXPECT_IN_LINE(s.other);
    return s;
}

static void called_one_has_its_time(struct tck *t)
{
    struct scene s = set_scene(t);
    int64_t since = simba_loop_now_ms();

    tck_release(s.a);
    while (simba_loop_now_ms() < since + IN_TIME_MS - 40) {
        bool is_mine = tck_ask(s.other)->mine;

        EXPECT_SWIFT(t, since, IN_TIME_MS);
        EXPECT(t, !is_mine);
        EXPECT(t, s.other->reply.wait_ms >= 0 &&
                      s.other->reply.wait_ms <= TURN_MS + 1);
        tck_sleep_until(simba_loop_now_ms() + 10);
    }
    tck_ask(s.called);
    EXPECT_SWIFT(t, since, IN_TIME_MS);
    EXPECT(t, s.called->reply.mine);
}

/* Asks until it is granted; a refusal of what was asked after the turn was over
 * fails. */
static void expect_turn_over(struct tck_person *p, int64_t called_ms)
{
    int64_t asked_ms = simba_loop_now_ms();

    while (!tck_ask(p)->mine) {
        EXPECT(p->t, asked_ms <= called_ms + OVER_MS);
        tck_sleep_until(simba_loop_now_ms() + 5);
        asked_ms = simba_loop_now_ms();
    }
}

static void is_over_in_time(struct tck *t)
{
    struct scene s = set_scene(t);

    tck_release(s.a);
    expect_turn_over(s.other, simba_loop_now_ms());
    EXPECT(t, !tck_ask(s.called)->mine);
}

static void missed_one_costs_the_place(struct tck *t)
{
    struct scene s = set_scene(t);
    struct tck_person *last = tck_stranger(t);
    int64_t since;

    EXPECT_IN_LINE(last);
    tck_release(s.a);
    expect_turn_over(s.other, simba_loop_now_ms());
    EXPECT_IN_LINE(s.called);
    EXPECT_IN_LINE(last);
    EXPECT(t, last->reply.is_head);
    since = simba_loop_now_ms();
    tck_release(s.other);
    tck_ask(s.called);
    tck_ask(last);
    EXPECT_SWIFT(t, since, IN_TIME_MS);
    EXPECT(t, !s.called->reply.mine);
    EXPECT(t, last->reply.mine);
}

static const struct tck_case cases[] = {
    {"turn.called_one_has_its_time",
     "Who is called and comes within 300 ms is granted, whoever asks "
     "meanwhile (S11).",
     called_one_has_its_time, TCK_TENURE_LEASE},
    {"turn.is_over_in_time",
     "When the 300 ms are over, the next in line is granted (S10).",
     is_over_in_time, TCK_TENURE_LEASE},
    {"turn.missed_one_costs_the_place",
     "Who was called and did not come stands at the end of the line (S10).",
     missed_one_costs_the_place, TCK_TENURE_LEASE},
};

const struct tck_topic tck_topic_turn = TCK_TOPIC(cases);
