/* slots and shared: several own a mutex, as many as each of them allows (S1).
 */
#include "contender.h"
#include "topics.h"
#include "witness.h"

#include <simba/admin.h>

/* Far below the long lease, at whose end a waiter would ask by itself. */
enum { WAKE_MOST_MS = 10000 };

static void close_report(void *what)
{
    simba_report_close(what);
}

static struct tck_contender *with_slots(struct tck *t, uint32_t slots)
{
    struct tck_contender *p = tck_stranger(t);

    p->slots = slots;
    return p;
}

static void so_many_own_it(struct tck *t)
{
    struct tck_contender *p[4];
    uint64_t last = 0;

    for (int i = 0; i < 4; i++) {
        p[i] = with_slots(t, 3);
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_GRANTED(p[i]);
        EXPECT(t, p[i]->token > last);
        EXPECT_NUMBER(t, p[i]->reply.owned, i + 1);
        last = p[i]->token;
    }
    EXPECT_QUEUED(p[3]);
    EXPECT_NUMBER(t, tck_read(p[3])->owned, 3);
    EXPECT_NUMBER(t, p[3]->reply.slots, 3);
    EXPECT(t, tck_ask(p[0])->owned <= 3); /* it is one of them */
    tck_release(p[1]);
    EXPECT_GRANTED(p[3]);
    for (int i = 0; i < 4; i++) {
        EXPECT_NUMBER(t, tck_renew(p[i])->mine, i != 1);
    }
    tck_begin_anew(p[1]);
    p[1]->slots = UINT32_MAX; /* theirs counts, also when it was renewed */
    EXPECT(t, !tck_try(p[1])->mine);
}

static void least_limit_counts(struct tck *t)
{
    struct tck_contender *a = with_slots(t, 2), *b = with_slots(t, 5);
    struct tck_contender *c = with_slots(t, 5), *d = with_slots(t, 2);

    EXPECT_GRANTED(a);
    EXPECT_GRANTED(b);
    EXPECT(t, !tck_try(c)->mine);
    tck_release(a);
    EXPECT_GRANTED(c);
    EXPECT(t, !tck_try(d)->mine);
    tck_release(b);
    EXPECT_GRANTED(d);
}

static void each_has_a_number_of_its_own(struct tck *t)
{
    struct tck_contender *p[4];

    for (int i = 0; i < 4; i++) {
        p[i] = with_slots(t, 3);
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_GRANTED(p[i]);
        EXPECT_NUMBER(t, p[i]->reply.slot, i);
        EXPECT_NUMBER(t, p[i]->reply.owner.slot, i);
    }
    tck_release(p[0]);
    EXPECT_GRANTED(p[3]);
    EXPECT_NUMBER(t, p[3]->reply.slot, 0);
    EXPECT_NUMBER(t, tck_renew(p[2])->slot, 2);
    EXPECT_NUMBER(t, tck_ask(p[1])->slot, 1);
}

static void each_lease_ends_by_itself(struct tck *t)
{
    struct tck_contender *a = with_slots(t, 2), *b = with_slots(t, 2);
    struct tck_contender *c = with_slots(t, 2);
    int64_t sent;

    EXPECT_GRANTED(a);
    b->times = t->short_lease;
    sent = simba_loop_now_ms();
    EXPECT_GRANTED(b);
    tck_expect_lease_between(c, sent, tck_lease_ms(&b->times));
    EXPECT(t, tck_renew(a)->mine);
    EXPECT(t, !tck_renew(b)->mine);
}

/* Who waits is told when the first of them ends, and who looks of none that has
 * ended. */
static void first_that_ends_makes_room(struct tck *t)
{
    struct tck_contender *a = with_slots(t, 2), *b = with_slots(t, 2);
    struct tck_contender *c = with_slots(t, 2);

    b->times = t->short_lease;
    EXPECT_GRANTED(a);
    EXPECT_GRANTED(b);
    EXPECT(t, !tck_try(c)->mine);
    EXPECT(t, c->reply.wait_ms <= tck_lease_ms(&b->times) + 1);
    AWAIT(t, tck_read(c)->owned == 1);
    EXPECT_OWNS(a);
}

static void break_ends_the_one_that_is_named(struct tck *t)
{
    struct tck_contender *a = with_slots(t, 2), *b = with_slots(t, 2);
    simba_break wish = SIMBA_BREAK_INIT;

    EXPECT_GRANTED(a);
    EXPECT_GRANTED(b);
    wish.mutex = t->mutex;
    wish.token = b->token;
    wish.now = true;
    EXPECT_DONE(t, simba_admin_break, a->store, &wish, NULL);
    EXPECT(t, tck_renew(a)->mine);
    EXPECT(t, !tck_renew(b)->mine);
}

static void list_tells_each_owner(struct tck *t)
{
    struct tck_contender *p[2] = {with_slots(t, 2), with_slots(t, 2)};
    const simba_owner *owner = NULL;
    simba_report *report = NULL;

    EXPECT_GRANTED(p[0]);
    EXPECT_GRANTED(p[1]);
    EXPECT_DONE(t, simba_admin_list, p[0]->store, t->mutex, &report);
    tck_later(t, close_report, report);
    EXPECT_NUMBER(t, simba_report_mutex_count(report), 1);
    EXPECT_NUMBER(t, simba_report_mutex(report, 0)->owned, 2);
    for (size_t i = 0; i < 2; i++) {
        owner = simba_report_mutex_owner(report, 0, i);
        EXPECT_TEXT(t, owner->id, p[i]->id);
        EXPECT_NUMBER(t, owner->token, p[i]->token);
    }
}

static void exclusive_owner_is_alone(struct tck *t)
{
    struct tck_contender *reader = with_slots(t, UINT32_MAX);
    struct tck_contender *other = with_slots(t, UINT32_MAX);
    struct tck_contender *writer = tck_stranger(t);

    EXPECT_GRANTED(reader);
    EXPECT_GRANTED(other);
    EXPECT(t, !tck_try(writer)->mine);
    tck_release(reader);
    EXPECT(t, !tck_try(writer)->mine);
    tck_release(other);
    EXPECT_GRANTED(writer);
    tck_begin_anew(reader);
    EXPECT(t, !tck_try(reader)->mine);
}

static void nobody_passes(struct tck *t)
{
    struct tck_contender *reader = with_slots(t, UINT32_MAX);
    struct tck_contender *writer = tck_stranger(t);
    struct tck_contender *late = with_slots(t, UINT32_MAX);

    EXPECT_GRANTED(reader);
    EXPECT_QUEUED(writer);
    EXPECT_QUEUED(late);
    tck_release(reader);
    EXPECT(t, !tck_ask(late)->mine);
    EXPECT_GRANTED(writer);
    EXPECT(t, !tck_ask(late)->mine);
    tck_release(writer);
    EXPECT_GRANTED(late);
}

static void who_leaves_is_in_nobodys_way(struct tck *t)
{
    struct tck_contender *reader = with_slots(t, UINT32_MAX);
    struct tck_contender *writer = tck_stranger(t);
    struct tck_contender *late = with_slots(t, UINT32_MAX);

    EXPECT_GRANTED(reader);
    EXPECT_QUEUED(writer);
    EXPECT_QUEUED(late);
    tck_leave(writer);
    EXPECT_GRANTED(late);
    EXPECT(t, tck_renew(reader)->mine);
}

/* Those who wait, by one handle or each by its own. */
static struct tck_witness *waits(struct tck *t,
                                 simba_store *store,
                                 uint32_t slots)
{
    struct tck_witness *w = tck_witness(t);

    w->contender.slots = slots;
    tck_contend(w, store);
    AWAIT(t, simba_service_status(w->service) == SIMBA_RUNNING);
    return w;
}

static void expect_soon(struct tck *t, const struct tck_witness *w)
{
    AWAIT_UNTIL(t, atomic_load(&w->acquired) == 1,
                simba_loop_now_ms() + (t->patience_ms < WAKE_MOST_MS
                                           ? t->patience_ms
                                           : WAKE_MOST_MS));
}

/* None of three is the one whose going is waited for. */
static void whoever_goes_wakes_the_next(struct tck *t)
{
    struct tck_contender *owners[3];
    struct tck_witness *w[3];

    for (int i = 0; i < 3; i++) {
        owners[i] = with_slots(t, 3);
        EXPECT_GRANTED(owners[i]);
    }
    for (int i = 0; i < 3; i++) {
        w[i] = waits(t, tck_store(t), 3);
    }
    AWAIT(t, tck_count_line(owners[0]) == 3);
    for (int i = 0; i < 3; i++) {
        tck_release(owners[(i + 1) % 3]);
        expect_soon(t, w[i]);
    }
}

static void all_who_fit_are_woken(struct tck *t)
{
    struct tck_contender *writer = tck_stranger(t);
    simba_store *store = tck_store(t);
    struct tck_witness *w[5];

    EXPECT_GRANTED(writer);
    for (int i = 0; i < 5; i++) { /* two of one handle */
        w[i] = waits(t, i < 2 ? store : tck_store(t), UINT32_MAX);
    }
    AWAIT(t, tck_count_line(writer) == 5);
    tck_release(writer);
    for (int i = 0; i < 5; i++) {
        expect_soon(t, w[i]);
    }
}

static void show_tells_how_many_each_suffers(struct tck *t)
{
    static const uint32_t slots[] = {0, 3, UINT32_MAX};
    struct tck_contender *owner = tck_stranger(t), *waiter;
    simba_report *report = NULL;

    EXPECT_GRANTED(owner);
    for (size_t i = 0; i < 3; i++) {
        waiter = with_slots(t, slots[i]);
        EXPECT_QUEUED(waiter);
    }
    EXPECT_DONE(t, simba_admin_show, owner->store, t->mutex, &report);
    EXPECT_NUMBER(t, simba_report_waiter_count(report), 3);
    for (size_t i = 0; i < 3; i++) {
        EXPECT_NUMBER(t, simba_report_waiter(report, i)->slots, slots[i]);
    }
    simba_report_close(report);
}

static const struct tck_case cases[] = {
    {"slots.so_many_own_it",
     "As many own a mutex as they allow, each under a token of its own, and no "
     "more (S1).",
     so_many_own_it, TCK_SLOTS},
    {"slots.least_limit_counts",
     "If they do not agree, the least of their limits counts, whoever came "
     "first (S1).",
     least_limit_counts, TCK_SLOTS},
    {"slots.each_has_a_number_of_its_own",
     "An owner is told the lowest slot that is free, and keeps it (S1).",
     each_has_a_number_of_its_own, TCK_NUMBERS_SLOTS},
    {"slots.each_lease_ends_by_itself",
     "The lease of one owner ends whatever others do, and leaves theirs alone.",
     each_lease_ends_by_itself, TCK_SLOTS},
    {"slots.first_that_ends_makes_room",
     "Who is refused is told to wait for the first of several leases to end, "
     "and then that owner is told no more.",
     first_that_ends_makes_room, TCK_SLOTS | TCK_TENURE_LEASE},
    {"slots.break_ends_the_one_that_is_named",
     "Of several owners the one ends whose token a break names.",
     break_ends_the_one_that_is_named, TCK_SLOTS | TCK_BREAK},
    {"slots.list_tells_each_owner",
     "A list tells each of several owners, the oldest first.",
     list_tells_each_owner, TCK_SLOTS | TCK_LIST},
    {"slots.show_tells_how_many_each_suffers",
     "Of each that waits it is told how many owners it suffers.",
     show_tells_how_many_each_suffers, TCK_SLOTS},
    {"slots.whoever_goes_wakes_the_next",
     "Whichever owner releases, the first in the queue is woken, and nobody "
     "waits for another (S10).",
     whoever_goes_wakes_the_next, TCK_SLOTS | TCK_PUSH},
    {"shared.all_who_fit_are_woken",
     "When one that was alone releases, all are woken who share and stand next "
     "(S10).",
     all_who_fit_are_woken, TCK_SLOTS | TCK_PUSH},
    {"shared.exclusive_owner_is_alone",
     "Any number share a mutex; who wants it alone waits for all of them (S1).",
     exclusive_owner_is_alone, TCK_SLOTS},
    {"shared.nobody_passes",
     "Who shares does not pass one that waits to be alone (S11).",
     nobody_passes, TCK_SLOTS},
    {"shared.who_leaves_is_in_nobodys_way",
     "When one that waits to be alone leaves the queue, those behind it are "
     "granted.",
     who_leaves_is_in_nobodys_way, TCK_SLOTS},
};

const struct tck_topic tck_topic_slots = TCK_TOPIC(cases);
