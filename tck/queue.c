/* queue: first come, first served, and nobody waits for the dead (S10, S11). */
#include "child.h"
#include "contender.h"
#include "proxy.h"
#include "topics.h"

#include <simba/admin.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Who is offered the mutex has 300 ms to come; a test that took longer has seen
 * a waiter lose its offer by the rules, and starts again. */
enum { OFFER_MS = 280 };

/* What costs an offer, or nothing, does not take so long; on a busy machine
 * either. */
enum { SLOW_MS = 5000 };

/* A owns the mutex; B, C and D wait in this order. */
struct queue {
    struct tck_contender *a, *b, *c, *d;
};

static void close_report(void *report)
{
    simba_report_close(report);
}

static struct queue line_up(struct tck *t)
{
    struct queue q = {tck_stranger(t), tck_stranger(t), tck_stranger(t),
                      tck_stranger(t)};

    EXPECT_GRANTED(q.a);
    EXPECT_QUEUED(q.b);
    EXPECT_QUEUED(q.c);
    EXPECT_QUEUED(q.d);
    return q;
}

/* `from` releases. Then those behind ask, the last first, and only `to` gets
 * it. */
static void expect_passed(struct tck_contender *from,
                          struct tck_contender *to,
                          struct tck_contender *other)
{
    int64_t since = simba_loop_now_ms();

    tck_release(from);
    tck_ask(other);
    tck_ask(to);
    EXPECT_SWIFT(to->t, since, OFFER_MS);
    EXPECT(to->t, !other->reply.mine);
    EXPECT(to->t, to->reply.mine);
}

static void first_come_first_served(struct tck *t)
{
    struct queue q = line_up(t);

    expect_passed(q.a, q.b, q.d);
    expect_passed(q.b, q.c, q.d);
    tck_release(q.c);
    EXPECT_GRANTED(q.d);
}

enum { TWELVE = 12 };

/* Of the handles one has every second of them. Numbers of several digits have
 * an order of their own. */
static void many_stand_in_order(struct tck *t)
{
    simba_store *stores[2] = {tck_store(t), tck_store(t)};
    struct tck_contender *who[TWELVE + 2];
    simba_report *report;

    for (int i = 0; i < TWELVE + 2; i++) {
        who[i] = tck_contender(t, stores[i % 2]);
        tck_ask(who[i]);
        EXPECT(t, who[i]->reply.mine == (i == 0));
        EXPECT(t, i < 2 || who[i]->position > who[i - 1]->position);
    }
    EXPECT_DONE(t, simba_admin_show, stores[0], t->mutex, &report);
    tck_later(t, close_report, report);
    EXPECT_NUMBER(t, simba_report_waiter_count(report), TWELVE + 1);
    for (size_t i = 0; i <= TWELVE; i++) {
        EXPECT_TEXT(t, simba_report_waiter(report, i)->id, who[i + 1]->id);
    }
    for (int i = 0; i < TWELVE; i++) {
        expect_passed(who[i], who[i + 1], who[i + 2]);
    }
}

static void newcomer_does_not_pass(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *late = tck_stranger(t);
    int64_t since;

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    since = simba_loop_now_ms();
    tck_release(a);
    tck_try(late);
    tck_ask(b);
    EXPECT_SWIFT(t, since, OFFER_MS);
    EXPECT(t, !late->reply.mine);
    EXPECT(t, b->reply.mine);
}

static void only_the_first_is_head(struct tck *t)
{
    struct queue q = line_up(t);

    EXPECT_QUEUED(q.c);
    EXPECT(t, !q.c->reply.is_head);
    EXPECT_QUEUED(q.b);
    EXPECT(t, q.b->reply.is_head);
    tck_leave(q.b);
    EXPECT_QUEUED(q.c);
    EXPECT(t, q.c->reply.is_head);
}

static void asking_again_keeps_the_position(struct tck *t)
{
    struct queue q = line_up(t);

    for (int i = 0; i < 3; i++) {
        EXPECT_QUEUED(q.d);
        EXPECT_NUMBER(t, q.d->reply.position, q.d->position);
        EXPECT_QUEUED(q.c);
        EXPECT_QUEUED(q.b);
        EXPECT_NUMBER(t, q.b->reply.position, q.b->position);
    }
    EXPECT(t, q.b->position < q.c->position && q.c->position < q.d->position);
    tck_leave(q.b); /* whoever goes before it */
    EXPECT_QUEUED(q.c);
    EXPECT_NUMBER(t, q.c->reply.position, q.c->position);
    expect_passed(q.a, q.c, q.d);
}

/* Whatever the owner does, those who wait are none of its business. */
static void owner_leaves_them_alone(struct tck *t)
{
    struct queue q = line_up(t);

    EXPECT_GRANTED(q.a);
    EXPECT_NUMBER(t, tck_count_line(q.a), 3);
    EXPECT(t, tck_renew(q.a)->mine);
    EXPECT_NUMBER(t, tck_count_line(q.a), 3);
    expect_passed(q.a, q.b, q.c);
}

enum { LIFE_MS = 300, ROUND_MS = 80, LIVES_MS = 480 };

/* Its position lives from when it asked last, not from when it came. */
static void asking_again_keeps_it_alive(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);
    int64_t since = simba_loop_now_ms(), asked;

    b->waiter_ms = LIFE_MS;
    EXPECT_GRANTED(a);
    do {
        asked = simba_loop_now_ms();
        EXPECT_QUEUED(b);
        tck_sleep_until(asked + ROUND_MS);
        EXPECT_QUEUED(c);
        EXPECT_SWIFT(t, asked, LIFE_MS * 9 / 10);
        EXPECT(t, !c->reply.is_head);
    } while (simba_loop_now_ms() < since + LIVES_MS);
}

/* As after the queue was lost: the store has forgotten it, it has not. */
static void position_is_brought_back(struct tck *t)
{
    struct queue q = line_up(t);

    tck_leave(q.b);
    EXPECT_QUEUED(q.c);
    EXPECT(t, q.c->reply.is_head);
    EXPECT_QUEUED(q.b);
    EXPECT_NUMBER(t, q.b->reply.position, q.b->position);
    EXPECT(t, q.b->reply.is_head);
    expect_passed(q.a, q.b, q.c);
}

static void who_left_is_skipped(struct tck *t)
{
    struct queue q = line_up(t);

    tck_leave(q.b);
    expect_passed(q.a, q.c, q.d);
}

/* Neither who was the first and has left, nor who was the last, leaves a place
 * that somebody could take before those who are there (S11). */
static void who_comes_after_one_that_left_is_last(struct tck *t)
{
    struct queue q = line_up(t);
    struct tck_contender *late = tck_stranger(t);

    tck_leave(q.b);
    tck_leave(q.d);
    EXPECT_QUEUED(late);
    EXPECT(t, late->position > q.c->position);
    expect_passed(q.a, q.c, late);
    tck_release(q.c);
    EXPECT_GRANTED(late);
}

/* Not of the one that owned it when they came. */
static void who_waits_hears_of_the_new_owner(struct tck *t)
{
    struct queue q = line_up(t);
    int64_t since = simba_loop_now_ms();

    tck_release(q.a);
    tck_ask(q.b);
    EXPECT_SWIFT(t, since, OFFER_MS);
    EXPECT_OWNS(q.b);
    EXPECT_QUEUED(q.d);
    EXPECT_TEXT(t, q.d->reply.owner.id, q.b->id);
    EXPECT_NUMBER(t, q.d->reply.owner.token, q.b->token);
}

static void leaving_twice_does_no_harm(struct tck *t)
{
    struct queue q = line_up(t);

    tck_leave(q.b);
    tck_leave(q.b);
    expect_passed(q.a, q.c, q.d);
    tck_leave(q.b);
    EXPECT_OWNS(q.c);
}

/* Offered the mutex, it gives up instead of asking. */
static void expect_passed_on(
    struct tck *t,
    const simba_reply *(*give_up)(struct tck_contender *p))
{
    struct queue q = line_up(t);
    int64_t since = simba_loop_now_ms();

    tck_release(q.a);
    give_up(q.b);
    tck_ask(q.d);
    tck_ask(q.c);
    EXPECT_SWIFT(t, since, OFFER_MS);
    EXPECT(t, !q.d->reply.mine);
    EXPECT(t, q.c->reply.mine);
}

static void offered_one_that_leaves_passes_it_on(struct tck *t)
{
    expect_passed_on(t, tck_leave);
}

static void offered_one_that_releases_passes_it_on(struct tck *t)
{
    expect_passed_on(t, tck_release);
}

/* Who goes is not the one that it was offered to. */
static void offer_outlives_who_leaves(struct tck *t)
{
    struct queue q = line_up(t);
    int64_t since = simba_loop_now_ms();

    tck_release(q.a);
    tck_leave(q.d);
    tck_ask(q.c);
    tck_ask(q.b);
    EXPECT_SWIFT(t, since, OFFER_MS);
    EXPECT(t, !q.c->reply.mine);
    EXPECT(t, q.b->reply.mine);
}

static void leaving_leaves_the_owner_alone(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    tck_as(b, a->id); /* another attempt of the owner's id */
    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    tck_leave(b);
    EXPECT_OWNS(a);
    EXPECT(t, tck_renew(a)->mine);
}

/* A waiter restarted under its id stands at the end, and its former life's
 * leaving does not cost it that position. */
static void positions_belong_to_attempts(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *old = tck_stranger(t);
    struct tck_contender *again = tck_stranger(t);

    tck_as(again, old->id);
    EXPECT_GRANTED(a);
    EXPECT_QUEUED(old);
    EXPECT_QUEUED(again);
    tck_leave(old);
    EXPECT_NUMBER(t, tck_count_line(a), 1);
    tck_release(a);
    EXPECT_GRANTED(again);
}

/* Nothing is left of it but its position. */
static void closed_handle_holds_nobody_up(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    EXPECT_QUEUED(c);
    tck_gone(b);
    tck_release(a);
    AWAIT(t, tck_ask(c)->mine);
}

static void lapsed_position_is_skipped(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);

    b->waiter_ms = 300;
    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    EXPECT_QUEUED(c);
    AWAIT(t, tck_ask(c)->is_head);
    tck_release(a);
    EXPECT_GRANTED(c);
}

/* S10: it costs one offer and its position, no more. */
static void silent_waiter_holds_nobody_up(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *silent = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);
    int64_t since;

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(silent);
    EXPECT_QUEUED(c);
    tck_release(a);
    since = simba_loop_now_ms();
    AWAIT(t, tck_ask(c)->mine);
    EXPECT_SWIFT(t, since, SLOW_MS);
    EXPECT(t, !tck_ask(silent)->mine);
}

/* One who owns the mutex, one behind it who never comes, and one behind that.
 */
struct silence {
    struct tck_contender *a, *silent, *c;
};

static struct silence stand_behind_silent(struct tck *t,
                                          simba_store *store,
                                          const char *mutex,
                                          int64_t waiter_ms)
{
    struct silence s = {tck_stranger(t), tck_contender(t, store),
                        tck_stranger(t)};

    tck_at(s.a, mutex);
    tck_at(s.silent, mutex);
    tck_at(s.c, mutex);
    if (waiter_ms > 0) {
        s.silent->times = t->short_lease;
        s.silent->waiter_ms = waiter_ms;
    }
    EXPECT_GRANTED(s.a);
    EXPECT_QUEUED(s.silent);
    EXPECT_QUEUED(s.c);
    return s;
}

/* Where the first owns without asking it is an owner that does not renew, and
 * is waited for until the end of its lease, or of its session if it is cut off;
 * else it has an offer, which does not take as long as its position lasts. */
static void silent_head_is_passed(struct tck *t)
{
    struct tck_proxy *proxy = tck_can_proxy(t) ? tck_proxy(t) : NULL;
    int64_t waiter_ms = tck_lease_ms(&t->short_lease);
    struct silence lives = stand_behind_silent(t, tck_store(t), t->mutex, 0);
    struct silence cut = {NULL, NULL, NULL};
    int64_t since = simba_loop_now_ms();
    bool owns = false; /* the first, without asking */
    char other[2][64];

    snprintf(other[0], sizeof other[0], "%s again", t->mutex);
    snprintf(other[1], sizeof other[1], "%s cut off", t->mutex);
    tck_release(lives.a);
    owns = strcmp(tck_read(lives.c)->owner.id, lives.silent->id) == 0;
    if (owns) {
        lives = stand_behind_silent(t, tck_store(t), other[0], waiter_ms);
        tck_release(lives.a);
    }
    if (proxy != NULL) {
        cut = stand_behind_silent(t, tck_store_through(t, proxy), other[1],
                                  waiter_ms);
        tck_proxy_set(proxy, TCK_STALLED);
        tck_release(cut.a);
    }
    AWAIT(t, tck_ask(lives.c)->mine);
    if (!owns) {
        EXPECT_SWIFT(t, since, SLOW_MS);
    }
    if (proxy != NULL) {
        AWAIT(t, tck_ask(cut.c)->mine);
        tck_proxy_set(proxy, TCK_FAIR);
    }
}

/* Its session ends with it, not when it runs out; nobody is offered anything
 * meanwhile, so that nobody is passed either. */
static void closed_handle_is_gone_at_once(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);
    int64_t since;

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    EXPECT_QUEUED(c);
    EXPECT(t, !c->reply.is_head);
    tck_gone(b);
    since = simba_loop_now_ms();
    AWAIT(t, tck_ask(c)->is_head);
    EXPECT_SWIFT(t, since, SLOW_MS);
}

/* Its handle sees to it that the session lives on. */
static void quiet_waiter_keeps_its_session(struct tck *t)
{
    struct queue q = {tck_stranger(t), tck_stranger(t), tck_stranger(t), NULL};

    q.b->times = t->short_lease;
    EXPECT_GRANTED(q.a);
    EXPECT_QUEUED(q.b);
    EXPECT_QUEUED(q.c);
    tck_sleep_until(simba_loop_now_ms() +
                    tck_lease_ms(&t->short_lease) * 3 / 2);
    EXPECT_NUMBER(t, tck_count_line(q.a), 2);
    expect_passed(q.a, q.b, q.c);
}

/* --- death --------------------------------------------------------------- */

enum { WAITS = 1, JOIN = 1, NEVER = 99 };

static void wait_for_ever(struct tck *t, struct tck_child *self)
{
    struct tck_contender *p;

    tck_child_obey(t, self, JOIN);
    p = tck_stranger(t);
    p->times = t->short_lease; /* where its death is known when that is over */
    EXPECT_QUEUED(p);
    atomic_store(&self->step, WAITS);
    tck_child_obey(t, self, NEVER);
}

/* One who waits and can be made to die: a process; or, on a store that lives in
 * one process, a handle. */
struct mortal {
    struct tck_child *child;
    struct tck_contender *contender;
};

static struct mortal make_mortal(struct tck *t)
{
    struct mortal m = {NULL, NULL};

    if ((t->ops.capabilities & SIMBA_IN_ONE_PROCESS) != 0) {
        m.contender = tck_stranger(t);
    } else {
        m.child = tck_child(t, wait_for_ever);
    }
    return m;
}

static void line_up_mortal(struct tck *t, struct mortal *m)
{
    if (m->contender != NULL) {
        EXPECT_QUEUED(m->contender);
        return;
    }
    atomic_store(&m->child->order, JOIN);
    tck_child_await(t, m->child, WAITS);
}

static void die(struct tck *t, struct mortal *m)
{
    if (m->contender != NULL) {
        tck_gone(m->contender);
    } else {
        tck_child_signal(t, m->child, SIGKILL);
    }
}

static void dead_waiter_is_skipped(struct tck *t)
{
    struct mortal b = make_mortal(t); /* before any handle is open here */
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);

    EXPECT_GRANTED(a);
    line_up_mortal(t, &b);
    EXPECT_QUEUED(c);
    EXPECT(t, !c->reply.is_head);
    die(t, &b);
    AWAIT(t, tck_ask(c)->is_head);
    if ((t->ops.capabilities & SIMBA_HAS_SERVER) == 0) {
        EXPECT_NUMBER(t, tck_count_line(c), 1); /* nor is it told any more */
    }
    tck_release(a);
    EXPECT_GRANTED(c);
}

/* It dies after it was offered the mutex: that offer is all it costs. */
static void dead_one_that_was_offered_it_is_passed(struct tck *t)
{
    struct mortal b = make_mortal(t);
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);

    EXPECT_GRANTED(a);
    line_up_mortal(t, &b);
    EXPECT_QUEUED(c);
    tck_release(a);
    die(t, &b);
    AWAIT(t, tck_ask(c)->mine);
}

static const struct tck_case cases[] = {
    {"queue.first_come_first_served",
     "Those who wait are granted in the order in which they came (S11).",
     first_come_first_served, TCK_QUICK},
    {"queue.many_stand_in_order",
     "So are more than ten of them, and a read tells them in that order.",
     many_stand_in_order, 0},
    {"queue.newcomer_does_not_pass",
     "A free mutex is kept for the head of the queue, whoever asks (S11).",
     newcomer_does_not_pass, TCK_QUICK},
    {"queue.only_the_first_is_head",
     "Only the first in the queue is told that nobody stands before it.",
     only_the_first_is_head, 0},
    {"queue.asking_again_keeps_the_position",
     "Who asks again keeps its position, however often others ask.",
     asking_again_keeps_the_position, 0},
    {"queue.asking_again_keeps_it_alive",
     "Who asks again within its waiter lease is not passed, however long it "
     "waits (S11).",
     asking_again_keeps_it_alive, TCK_TENURE_LEASE},
    {"queue.owner_leaves_them_alone",
     "An owner that asks again or renews costs nobody a position.",
     owner_leaves_them_alone, 0},
    {"queue.position_is_brought_back",
     "Who comes with a position that the store has forgotten gets it back.",
     position_is_brought_back, TCK_TENURE_LEASE},
    {"queue.who_left_is_skipped", "Who left the queue is not waited for.",
     who_left_is_skipped, 0},
    {"queue.who_comes_after_one_that_left_is_last",
     "Who left makes no place before those who are there (S11).",
     who_comes_after_one_that_left_is_last, 0},
    {"queue.who_waits_hears_of_the_new_owner",
     "Who asks again is told who owns it now, not who did when it came.",
     who_waits_hears_of_the_new_owner, 0},
    {"queue.leaving_twice_does_no_harm",
     "Leaving can be repeated, and does nothing to others.",
     leaving_twice_does_no_harm, 0},
    {"queue.offered_one_that_leaves_passes_it_on",
     "Who leaves when it is offered the mutex passes the offer on (S10).",
     offered_one_that_leaves_passes_it_on, 0},
    {"queue.offered_one_that_releases_passes_it_on",
     "So does who releases when it is offered the mutex.",
     offered_one_that_releases_passes_it_on, 0},
    {"queue.offer_outlives_who_leaves",
     "Who leaves the queue behind it takes nothing from who was offered it "
     "(S11).",
     offer_outlives_who_leaves, 0},
    {"queue.leaving_leaves_the_owner_alone",
     "Leaving never frees the mutex, not even under the owner's id (S5).",
     leaving_leaves_the_owner_alone, 0},
    {"queue.positions_belong_to_attempts",
     "The late leaving of an earlier start costs the next one no position.",
     positions_belong_to_attempts, 0},
    {"queue.dead_waiter_is_skipped",
     "Who died while it waited is skipped at once (S11).",
     dead_waiter_is_skipped, TCK_QUICK},
    {"queue.dead_one_that_was_offered_it_is_passed",
     "Who dies when it is offered the mutex costs an offer, not a lease (S10).",
     dead_one_that_was_offered_it_is_passed, 0},
    {"queue.closed_handle_holds_nobody_up",
     "Who waited through a handle that is closed holds nobody up.",
     closed_handle_holds_nobody_up, 0},
    {"queue.closed_handle_is_gone_at_once",
     "Closing a handle ends its session: nobody waits until it runs out.",
     closed_handle_is_gone_at_once, TCK_QUICK | TCK_SESSION},
    {"queue.quiet_waiter_keeps_its_session",
     "Who waits and asks for nothing has its position for longer than its "
     "session would live without a sign of life (S11).",
     quiet_waiter_keeps_its_session, TCK_SESSION},
    {"queue.silent_head_is_passed",
     "Who is first and never comes is passed: after an offer, or where the "
     "first "
     "owns without asking, after its lease (S10).",
     silent_head_is_passed, 0},
    {"queue.lapsed_position_is_skipped",
     "Who has not asked again within its waiter lease is skipped (S11).",
     lapsed_position_is_skipped, TCK_TENURE_LEASE},
    {"queue.silent_waiter_holds_nobody_up",
     "Who is offered it and does not come costs an offer, not a lease (S10).",
     silent_waiter_holds_nobody_up, TCK_TENURE_LEASE},
};

const struct tck_topic tck_topic_queue = TCK_TOPIC(cases);
