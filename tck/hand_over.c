/* hand_over: an owner names its successor, and is asked to (S10, S11). */
#include "contender.h"
#include "topics.h"
#include "witness.h"

static void successor_is_the_next(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t), *b = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    EXPECT_QUEUED(c);
    EXPECT_TEXT(t, tck_release_to(a, c->id)->to, c->id);
    EXPECT(t, !tck_ask(b)->mine);
    EXPECT_GRANTED(c);
    EXPECT(t, !tck_ask(b)->mine);
    EXPECT_TEXT(t, tck_release_to(c, "tck-nobody")->to, b->id);
    EXPECT_GRANTED(b);
}

static void dead_successor_is_passed(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t), *b = tck_stranger(t);
    struct tck_contender *dead = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    EXPECT_QUEUED(dead);
    tck_gone(dead);
    tck_release_to(a, dead->id);
    /* Whose process lives may look alive for an offer. */
    if ((t->ops.capabilities & SIMBA_IN_ONE_PROCESS) != 0) {
        EXPECT_GRANTED(b);
    }
    AWAIT(t, tck_ask(b)->mine);
}

static void owner_is_told(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t), *b = tck_stranger(t);
    struct tck_contender *admin = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    EXPECT_TEXT(t, tck_renew(a)->asked, "");
    EXPECT_TEXT(t, tck_hand_over(admin, b->id)->to, b->id);
    EXPECT(t, admin->reply.mine);
    EXPECT_TEXT(t, tck_renew(a)->asked, b->id);
    EXPECT(t, a->reply.mine);
    EXPECT(t, tck_read(admin)->owner.is_asked);
    tck_release_to(a, a->reply.asked);
    EXPECT_GRANTED(b);
    EXPECT_TEXT(t, tck_renew(b)->asked, ""); /* it was another tenure's */
}

static void nobody_is_asked_in_vain(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t), *b = tck_stranger(t);
    struct tck_contender *admin = tck_stranger(t);

    EXPECT(t, !tck_hand_over(admin, NULL)->mine);
    EXPECT_GRANTED(a);
    EXPECT_TEXT(t, tck_hand_over(admin, NULL)->to, "");
    EXPECT(t, admin->reply.mine);
    EXPECT_QUEUED(b);
    EXPECT_TEXT(t, tck_hand_over(admin, "tck-nobody")->to, "");
    EXPECT_TEXT(t, tck_renew(a)->asked, "");
    EXPECT_TEXT(t, tck_hand_over(admin, NULL)->to, b->id);
    EXPECT_TEXT(t, tck_renew(a)->asked, "@");
}

/* Beside the other owners there is no place for one that wants to be alone. */
static void who_does_not_fit_is_not_asked_for(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t), *b = tck_stranger(t);
    struct tck_contender *alone = tck_stranger(t), *sharer = tck_stranger(t);
    struct tck_contender *admin = tck_stranger(t);

    a->slots = b->slots = sharer->slots = 2;
    EXPECT_GRANTED(a);
    EXPECT_GRANTED(b);
    EXPECT_QUEUED(alone);
    EXPECT_QUEUED(sharer);
    EXPECT_TEXT(t, tck_hand_over(admin, alone->id)->to, "");
    EXPECT(t, admin->reply.mine);
    EXPECT_TEXT(t, tck_hand_over(admin, NULL)->to, ""); /* it is the first */
    EXPECT_TEXT(t, tck_renew(a)->asked, "");
    EXPECT_TEXT(t, tck_hand_over(admin, sharer->id)->to, sharer->id);
    EXPECT_TEXT(t, tck_renew(a)->asked, sharer->id);
    EXPECT_TEXT(t, tck_renew(b)->asked, ""); /* one makes room for it */
}

/* Far less than the time until it would renew. */
enum { WOKEN_MS = 5000, SETTLED_MS = 50 };

static void owner_is_woken(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);
    struct tck_contender *a = tck_stranger(t), *b = tck_stranger(t);
    struct tck_contender *admin = tck_stranger(t);

    if ((t->ops.capabilities & SIMBA_HAS_SERVER) != 0) {
        tck_skip(t, "where no server stands between: behind one an owner may "
                    "hear of it by its next renewal");
    }
    EXPECT_GRANTED(a); /* so that it waits, and listens */
    tck_contend(w, tck_store(t));
    AWAIT(t, tck_count_line(a) == 1);
    tck_release(a);
    AWAIT(t, atomic_load(&w->acquired) == 1);
    EXPECT_QUEUED(b);
    tck_sleep_until(simba_loop_now_ms() + SETTLED_MS);
    EXPECT_TEXT(t, tck_hand_over(admin, b->id)->to, b->id);
    AWAIT_UNTIL(t, atomic_load(&w->released) == 1,
                simba_loop_now_ms() + WOKEN_MS);
}

static const struct tck_case cases[] = {
    {"hand_over.successor_is_the_next",
     "Whom a release names is the next, if it waits, before all others (S11).",
     successor_is_the_next, TCK_HAND_OVER},
    {"hand_over.dead_successor_is_passed",
     "A successor that is dead is not waited for (S10).",
     dead_successor_is_passed, TCK_HAND_OVER | TCK_LAPSES},
    {"hand_over.owner_is_told",
     "A renewal tells an owner that it is asked to hand over, and to whom "
     "(S10).",
     owner_is_told, TCK_HAND_OVER},
    {"hand_over.owner_is_woken",
     "It is woken for that, and does not hear of it by its next renewal (S10).",
     owner_is_woken, TCK_HAND_OVER | TCK_PUSH},
    {"hand_over.nobody_is_asked_in_vain",
     "Nobody is asked to hand over if nobody waits, or not the one that was "
     "named.",
     nobody_is_asked_in_vain, TCK_HAND_OVER},
    {"hand_over.who_does_not_fit_is_not_asked_for",
     "Nobody is asked to hand over to one that would not fit in beside the "
     "owners that stay.",
     who_does_not_fit_is_not_asked_for, TCK_HAND_OVER | TCK_NUMBERS_SLOTS},
};

const struct tck_topic tck_topic_hand_over = TCK_TOPIC(cases);
