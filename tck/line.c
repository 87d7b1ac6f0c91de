/* line: first come, first served, and nobody waits for the dead (S10, S11). */
#include "child.h"
#include "person.h"
#include "topics.h"

#include <signal.h>

/* Who is called has 300 ms to come; a test that took longer has seen a waiter
 * lose its turn by the rules, and starts again. */
enum { TURN_MS = 280 };

/* A owns the mutex; B, C and D wait in this order. */
struct queue {
    struct tck_person *a, *b, *c, *d;
};

static struct queue line_up(struct tck *t)
{
    struct queue q = {tck_stranger(t), tck_stranger(t), tck_stranger(t),
                      tck_stranger(t)};

    EXPECT_GRANTED(q.a);
    EXPECT_IN_LINE(q.b);
    EXPECT_IN_LINE(q.c);
    EXPECT_IN_LINE(q.d);
    return q;
}

/* `from` releases. Then those behind ask, the last first, and only `to` gets
 * it. */
static void expect_passed(struct tck_person *from,
                          struct tck_person *to,
                          struct tck_person *other)
{
    int64_t since = simba_loop_now_ms();

    tck_release(from);
    tck_ask(other);
    tck_ask(to);
    EXPECT_SWIFT(to->t, since, TURN_MS);
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

static void newcomer_does_not_pass(struct tck *t)
{
    struct tck_person *a = tck_stranger(t);
    struct tck_person *b = tck_stranger(t);
    struct tck_person *late = tck_stranger(t);
    int64_t since;

    EXPECT_GRANTED(a);
    EXPECT_IN_LINE(b);
    since = simba_loop_now_ms();
    tck_release(a);
    tck_try(late);
    tck_ask(b);
    EXPECT_SWIFT(t, since, TURN_MS);
    EXPECT(t, !late->reply.mine);
    EXPECT(t, b->reply.mine);
}

static void only_the_first_is_head(struct tck *t)
{
    struct queue q = line_up(t);

    EXPECT_IN_LINE(q.c);
    EXPECT(t, !q.c->reply.is_head);
    EXPECT_IN_LINE(q.b);
    EXPECT(t, q.b->reply.is_head);
    tck_leave(q.b);
    EXPECT_IN_LINE(q.c);
    EXPECT(t, q.c->reply.is_head);
}

static void asking_again_keeps_the_place(struct tck *t)
{
    struct queue q = line_up(t);

    for (int i = 0; i < 3; i++) {
        EXPECT_IN_LINE(q.d);
        EXPECT_NUMBER(t, q.d->reply.position, q.d->position);
        EXPECT_IN_LINE(q.c);
        EXPECT_IN_LINE(q.b);
        EXPECT_NUMBER(t, q.b->reply.position, q.b->position);
    }
    EXPECT(t, q.b->position < q.c->position && q.c->position < q.d->position);
    expect_passed(q.a, q.b, q.c);
}

/* As after the line was lost: the store has forgotten it, it has not. */
static void place_is_brought_back(struct tck *t)
{
    struct queue q = line_up(t);

    tck_leave(q.b);
    EXPECT_IN_LINE(q.c);
    EXPECT(t, q.c->reply.is_head);
    EXPECT_IN_LINE(q.b);
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

static void leaving_twice_does_no_harm(struct tck *t)
{
    struct queue q = line_up(t);

    tck_leave(q.b);
    tck_leave(q.b);
    expect_passed(q.a, q.c, q.d);
    tck_leave(q.b);
    EXPECT_OWNS(q.c);
}

/* Called, it goes away instead of coming. */
static void called_one_that_leaves_passes_it_on(struct tck *t)
{
    struct queue q = line_up(t);
    int64_t since = simba_loop_now_ms();

    tck_release(q.a);
    tck_leave(q.b);
    tck_ask(q.d);
    tck_ask(q.c);
    EXPECT_SWIFT(t, since, TURN_MS);
    EXPECT(t, !q.d->reply.mine);
    EXPECT(t, q.c->reply.mine);
}

static void leaving_leaves_the_owner_alone(struct tck *t)
{
    struct tck_person *a = tck_stranger(t);
    struct tck_person *b = tck_stranger(t);

    tck_as(b, a->id); /* another attempt of the owner's id */
    EXPECT_GRANTED(a);
    EXPECT_IN_LINE(b);
    tck_leave(b);
    EXPECT_OWNS(a);
    EXPECT(t, tck_renew(a)->mine);
}

/* A waiter restarted under its id stands at the end, and its former life's
 * leaving does not cost it that place. */
static void places_belong_to_attempts(struct tck *t)
{
    struct tck_person *a = tck_stranger(t);
    struct tck_person *old = tck_stranger(t);
    struct tck_person *again = tck_stranger(t);

    tck_as(again, old->id);
    EXPECT_GRANTED(a);
    EXPECT_IN_LINE(old);
    EXPECT_IN_LINE(again);
    tck_leave(old);
    tck_release(a);
    EXPECT_GRANTED(again);
}

/* Nothing is left of it but its place. */
static void closed_handle_holds_nobody_up(struct tck *t)
{
    struct tck_person *a = tck_stranger(t);
    struct tck_person *b = tck_stranger(t);
    struct tck_person *c = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_IN_LINE(b);
    EXPECT_IN_LINE(c);
    tck_gone(b);
    tck_release(a);
    AWAIT(t, tck_ask(c)->mine);
}

static void lapsed_place_is_skipped(struct tck *t)
{
    struct tck_person *a = tck_stranger(t);
    struct tck_person *b = tck_stranger(t);
    struct tck_person *c = tck_stranger(t);

    b->waiter_ms = 300;
    EXPECT_GRANTED(a);
    EXPECT_IN_LINE(b);
    EXPECT_IN_LINE(c);
    AWAIT(t, tck_ask(c)->is_head);
    tck_release(a);
    EXPECT_GRANTED(c);
}

/* S10: it costs one reservation and its place, no more. */
static void silent_waiter_holds_nobody_up(struct tck *t)
{
    struct tck_person *a = tck_stranger(t);
    struct tck_person *silent = tck_stranger(t);
    struct tck_person *c = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_IN_LINE(silent);
    EXPECT_IN_LINE(c);
    tck_release(a);
    AWAIT(t, tck_ask(c)->mine);
    EXPECT(t, !tck_ask(silent)->mine);
}

/* --- death --------------------------------------------------------------- */

enum { WAITS = 1, JOIN = 1, NEVER = 99 };

static void wait_for_ever(struct tck *t, struct tck_child *self)
{
    struct tck_person *p;

    tck_child_obey(t, self, JOIN);
    p = tck_stranger(t);
    p->times = t->short_lease; /* where its death is known when that is over */
    EXPECT_IN_LINE(p);
    atomic_store(&self->step, WAITS);
    tck_child_obey(t, self, NEVER);
}

/* One who waits and can be made to die: a process; or, on a store that lives in
 * one process, a handle. */
struct mortal {
    struct tck_child *child;
    struct tck_person *person;
};

static struct mortal make_mortal(struct tck *t)
{
    struct mortal m = {NULL, NULL};

    if ((t->ops.capabilities & SIMBA_IN_ONE_PROCESS) != 0) {
        m.person = tck_stranger(t);
    } else {
        m.child = tck_child(t, wait_for_ever);
    }
    return m;
}

static void line_up_mortal(struct tck *t, struct mortal *m)
{
    if (m->person != NULL) {
        EXPECT_IN_LINE(m->person);
        return;
    }
    atomic_store(&m->child->order, JOIN);
    tck_child_await(t, m->child, WAITS);
}

static void die(struct tck *t, struct mortal *m)
{
    if (m->person != NULL) {
        tck_gone(m->person);
    } else {
        tck_child_signal(t, m->child, SIGKILL);
    }
}

static void dead_waiter_is_skipped(struct tck *t)
{
    struct mortal b = make_mortal(t); /* before any handle is open here */
    struct tck_person *a = tck_stranger(t);
    struct tck_person *c = tck_stranger(t);

    EXPECT_GRANTED(a);
    line_up_mortal(t, &b);
    EXPECT_IN_LINE(c);
    EXPECT(t, !c->reply.is_head);
    die(t, &b);
    AWAIT(t, tck_ask(c)->is_head);
    tck_release(a);
    EXPECT_GRANTED(c);
}

/* It dies after it was called: its reservation is all it costs. */
static void dead_one_that_was_called_is_passed(struct tck *t)
{
    struct mortal b = make_mortal(t);
    struct tck_person *a = tck_stranger(t);
    struct tck_person *c = tck_stranger(t);

    EXPECT_GRANTED(a);
    line_up_mortal(t, &b);
    EXPECT_IN_LINE(c);
    tck_release(a);
    die(t, &b);
    AWAIT(t, tck_ask(c)->mine);
}

static const struct tck_case cases[] = {
    {"line.first_come_first_served",
     "Those who wait are granted in the order in which they came (S11).",
     first_come_first_served, TCK_QUICK},
    {"line.newcomer_does_not_pass",
     "A free mutex is kept for the head of the line, whoever asks (S11).",
     newcomer_does_not_pass, TCK_QUICK},
    {"line.only_the_first_is_head",
     "Only the first in line is told that nobody stands before it.",
     only_the_first_is_head, 0},
    {"line.asking_again_keeps_the_place",
     "Who asks again keeps its place, however often others ask.",
     asking_again_keeps_the_place, 0},
    {"line.place_is_brought_back",
     "Who comes with a place that the store has forgotten gets it back.",
     place_is_brought_back, TCK_TENURE_LEASE},
    {"line.who_left_is_skipped", "Who left the line is not waited for.",
     who_left_is_skipped, 0},
    {"line.leaving_twice_does_no_harm",
     "Leaving can be repeated, and does nothing to others.",
     leaving_twice_does_no_harm, 0},
    {"line.called_one_that_leaves_passes_it_on",
     "Who leaves when it is its turn passes the turn on (S10).",
     called_one_that_leaves_passes_it_on, 0},
    {"line.leaving_leaves_the_owner_alone",
     "Leaving never frees the mutex, not even under the owner's id (S5).",
     leaving_leaves_the_owner_alone, 0},
    {"line.places_belong_to_attempts",
     "The late leaving of an earlier start costs the next one no place.",
     places_belong_to_attempts, 0},
    {"line.dead_waiter_is_skipped",
     "Who died while it waited is skipped at once (S11).",
     dead_waiter_is_skipped, TCK_QUICK},
    {"line.dead_one_that_was_called_is_passed",
     "Who dies when it is its turn costs a reservation, not a lease (S10).",
     dead_one_that_was_called_is_passed, 0},
    {"line.closed_handle_holds_nobody_up",
     "Who waited through a handle that is closed holds nobody up.",
     closed_handle_holds_nobody_up, 0},
    {"line.lapsed_place_is_skipped",
     "Who has not asked again within its waiter lease is skipped (S11).",
     lapsed_place_is_skipped, TCK_TENURE_LEASE},
    {"line.silent_waiter_holds_nobody_up",
     "Who is called and does not come costs a reservation, not a lease (S10).",
     silent_waiter_holds_nobody_up, TCK_TENURE_LEASE},
};

const struct tck_topic tck_topic_line = TCK_TOPIC(cases);
