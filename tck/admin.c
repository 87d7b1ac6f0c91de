/* list and break: what an admin sees and may end, where it is offered. */
#include "contender.h"
#include "topics.h"
#include "witness.h"

#include <simba/admin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Who is offered the mutex has 300 ms to come. */
enum { OFFER_MS = 280, HOUR_MS = 3600000 };

static void close_report(void *what)
{
    simba_report_close(what);
}

static simba_report *show(struct tck *t, simba_store *store)
{
    simba_report *report;

    EXPECT_DONE(t, simba_admin_show, store, t->mutex, &report);
    tck_later(t, close_report, report);
    return report;
}

/* The test's mutex as the list has it; NULL: it is not there. */
static const simba_listed *find(struct tck *t, simba_store *store)
{
    simba_report *report;

    EXPECT_DONE(t, simba_admin_list, store, NULL, &report);
    tck_later(t, close_report, report);
    for (size_t i = 0; i < simba_report_mutex_count(report); i++) {
        if (strcmp(simba_report_mutex(report, i)->mutex, t->mutex) == 0) {
            return simba_report_mutex(report, i);
        }
    }
    return NULL;
}

static void list_shows_who_owns(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);
    const simba_listed *listed;

    EXPECT(t, find(t, b->store) == NULL);
    EXPECT_GRANTED(a);
    listed = find(t, b->store);
    EXPECT(t, listed != NULL);
    EXPECT_TEXT(t, listed->owner.id, a->id);
    EXPECT_NUMBER(t, listed->owner.token, a->token);
    EXPECT_QUEUED(b);
    listed = find(t, a->store);
    EXPECT(t, listed != NULL && listed->waiting != 0);
    EXPECT_QUEUED(c);
    tck_release(a);
    listed = find(t, a->store); /* it is free, but not forgotten */
    EXPECT(t, listed != NULL && listed->waiting != 0);
}

enum { SEVERAL = 5 };

/* Each of them has its owner, and as many who wait as its number says. */
static void line_up_several(struct tck *t, struct tck_contender **owners)
{
    char name[sizeof t->mutex + 12]; /* a number */

    for (int i = 0; i < SEVERAL; i++) {
        snprintf(name, sizeof name, "%s %d", t->mutex, i);
        owners[i] = tck_stranger(t);
        tck_at(owners[i], name);
        EXPECT_GRANTED(owners[i]);
        for (int waiter = 0; waiter < i % 3; waiter++) {
            struct tck_contender *p = tck_contender(t, owners[0]->store);

            tck_at(p, name);
            EXPECT_QUEUED(p);
        }
    }
}

static void expect_listed(struct tck_contender *owner,
                          const simba_listed *listed,
                          int waiting)
{
    EXPECT_TEXT(owner->t, listed->owner.id, owner->id);
    EXPECT_NUMBER(owner->t, listed->owner.token, owner->token);
    EXPECT(owner->t, listed->waiting == -1 || listed->waiting == waiting);
}

static void list_shows_all_of_them(struct tck *t)
{
    struct tck_contender *owners[SEVERAL];
    simba_report *report;
    char glob[48];

    line_up_several(t, owners);
    snprintf(glob, sizeof glob, "%s *", t->mutex);
    EXPECT_DONE(t, simba_admin_list, owners[0]->store, glob, &report);
    tck_later(t, close_report, report);
    EXPECT_NUMBER(t, simba_report_mutex_count(report), SEVERAL);
    for (int i = 0; i < SEVERAL; i++) {
        size_t at = 0;

        while (at < SEVERAL && strcmp(simba_report_mutex(report, at)->mutex,
                                      owners[i]->mutex) != 0) {
            at++;
        }
        EXPECT(t, at < SEVERAL);
        expect_listed(owners[i], simba_report_mutex(report, at), i % 3);
    }
}

static void list_tells_names_as_given(struct tck *t)
{
    static const char *const odd[] = {"/a//b", "%2F%", " {x}:'\"\\ ", "*?[a]",
                                      "\xc3\xa9"};
    simba_report *report;
    size_t count = 0;

    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct tck_contender *p = tck_stranger(t);
        char name[SIMBA_MUTEX_MAX_BYTES + 1];

        snprintf(name, sizeof name, "%s%s", t->mutex, odd[i]);
        tck_at(p, name);
        EXPECT_GRANTED(p);
        EXPECT_DONE(t, simba_admin_list, p->store, NULL, &report);
        tck_later(t, close_report, report);
        for (size_t at = 0; at < simba_report_mutex_count(report); at++) {
            const simba_listed *listed = simba_report_mutex(report, at);

            count += strcmp(listed->mutex, name) == 0 &&
                     strcmp(listed->owner.id, p->id) == 0;
        }
        EXPECT_NUMBER(t, count, i + 1);
    }
}

static void list_forgets_the_free(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    const simba_listed *listed;

    EXPECT_GRANTED(a);
    tck_release(a);
    listed = find(t, a->store);
    EXPECT(t, listed == NULL || listed->owner.id[0] == '\0');
}

static void list_chooses_by_pattern(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    simba_report *report;
    char glob[64];

    EXPECT_GRANTED(a);
    snprintf(glob, sizeof glob, "?ck %.10s*", t->mutex + 4);
    EXPECT_DONE(t, simba_admin_list, a->store, glob, &report);
    tck_later(t, close_report, report);
    EXPECT_NUMBER(t, simba_report_mutex_count(report), 1);
    EXPECT_TEXT(t, simba_report_mutex(report, 0)->mutex, t->mutex);
}

static void show_tells_the_queue_in_order(struct tck *t)
{
    struct tck_contender *who[4];
    simba_report *report;

    for (int i = 0; i < 4; i++) {
        who[i] = tck_stranger(t);
        tck_ask(who[i]);
    }
    report = show(t, who[0]->store);
    EXPECT_TEXT(t, simba_report_owner(report)->id, who[0]->id);
    EXPECT_NUMBER(t, simba_report_waiter_count(report), 3);
    for (size_t i = 0; i < 3; i++) {
        EXPECT_TEXT(t, simba_report_waiter(report, i)->id, who[i + 1]->id);
    }
    tck_leave(who[1]);
    report = show(t, who[0]->store);
    EXPECT_NUMBER(t, simba_report_waiter_count(report), 2);
    EXPECT_TEXT(t, simba_report_waiter(report, 0)->id, who[2]->id);
}

/* --- break --------------------------------------------------------------- */

static int end_tenure(struct tck *t,
                      simba_store *store,
                      uint64_t token,
                      bool now)
{
    simba_break wish = SIMBA_BREAK_INIT;
    simba_error error = {0};
    int64_t since_ms = simba_loop_now_ms();
    int rc;

    wish.mutex = t->mutex;
    wish.token = token;
    wish.reason = "the contract's test";
    wish.now = now;
    rc = simba_admin_break(store, &wish, NULL, &error);
    tck_check_slow(t, TCK_HERE, since_ms, &error);
    return rc;
}

static void break_now_frees_at_once(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_STATUS(t, end_tenure(t, b->store, a->token, true), SIMBA_OK);
    EXPECT_FREE(b);
    EXPECT(t, !tck_renew(a)->mine);
    EXPECT_GRANTED(b);
    EXPECT(t, b->token > a->token);
}

/* Neither the session it is of, nor another tenure of that. */
static void break_ends_one_tenure(struct tck *t)
{
    simba_store *store = tck_store(t);
    struct tck_contender *a = tck_contender(t, store);
    struct tck_contender *other = tck_contender(t, store);
    struct tck_contender *waiter = tck_contender(t, store);
    struct tck_contender *b = tck_stranger(t);
    char name[sizeof t->mutex + 8];

    snprintf(name, sizeof name, "%s other", t->mutex);
    tck_at(other, name);
    tck_at(waiter, name);
    EXPECT_GRANTED(a);
    EXPECT_GRANTED(other);
    EXPECT_QUEUED(waiter);
    EXPECT_STATUS(t, end_tenure(t, b->store, a->token, true), SIMBA_OK);
    EXPECT(t, !tck_renew(a)->mine);
    EXPECT(t, tck_renew(other)->mine);
    EXPECT_QUEUED(waiter);
    EXPECT_NUMBER(t, waiter->reply.position, waiter->position);
    EXPECT_OWNS(other);
}

static void break_wakes_the_next(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_witness *w = tck_witness(t);

    EXPECT_GRANTED(a);
    tck_contend(w, tck_store(t));
    AWAIT(t, tck_count_line(a) == 1);
    EXPECT_STATUS(t, end_tenure(t, a->store, a->token, true), SIMBA_OK);
    AWAIT(t, atomic_load(&w->acquired) == 1);
}

/* The order of those who wait is none of the tenure's (S11). */
static void break_keeps_the_queue(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);
    int64_t since;

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    EXPECT_QUEUED(c);
    since = simba_loop_now_ms();
    EXPECT_STATUS(t, end_tenure(t, c->store, a->token, true), SIMBA_OK);
    tck_ask(c);
    tck_ask(b);
    EXPECT_SWIFT(t, since, OFFER_MS);
    EXPECT(t, !c->reply.mine);
    EXPECT(t, b->reply.mine);
}

static void break_ends_with_the_lease(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    int64_t sent = simba_loop_now_ms();
    bool is_mine;
    int rc;

    a->times = b->times = t->short_lease;
    EXPECT_GRANTED(a);
    rc = end_tenure(t, b->store, a->token, false);
    if (rc == SIMBA_EINVAL &&
        (t->ops.capabilities & SIMBA_HAS_SESSION_LEASE) != 0) {
        tck_skip(t, "where a tenure can be told to end");
    }
    tck_renew(a);
    is_mine = a->reply.mine;
    tck_try(a); /* nor by asking again */
    EXPECT_SWIFT(t, sent, tck_lease_ms(&a->times) * 9 / 10);
    EXPECT_STATUS(t, rc, SIMBA_OK);
    EXPECT(t, !is_mine && !a->reply.mine);
    AWAIT(t, tck_ask(b)->mine);
    EXPECT_LEASE_PASSED(t, sent, tck_lease_ms(&a->times));
}

static void break_of_another_tenure_is_refused(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_STATUS(t, end_tenure(t, b->store, a->token + 1, true), SIMBA_ELOST);
    EXPECT_OWNS(a);
    tck_release(a);
    EXPECT_STATUS(t, end_tenure(t, b->store, a->token, true), SIMBA_ELOST);
    EXPECT_GRANTED(b);
}

static void broken_service_hears_of_it(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);
    struct tck_contender *b = tck_stranger(t);
    uint64_t token;

    w->contender.times.ttl_ms = t->short_lease.ttl_ms;
    w->contender.times.transition_ms = t->short_lease.transition_ms;
    tck_contend(w, tck_store(t));
    AWAIT(t, atomic_load(&w->acquired) == 1);
    token = atomic_load(&w->token);
    EXPECT_STATUS(t, end_tenure(t, b->store, token, true), SIMBA_OK);
    AWAIT(t, atomic_load(&w->released) >= 1);
    AWAIT(t, atomic_load(&w->acquired) >= 2); /* and contends anew */
    tck_close(w);
    EXPECT_ORDERLY(w);
}

/* And of one that ends with its lease that it was so. */
static void expect_written_as_ending(struct tck_contender *p)
{
    struct tck *t = p->t;
    simba_report *report;
    int rc = end_tenure(t, p->store, p->token, false);
    size_t count = 0;

    if (rc == SIMBA_EINVAL) {
        return; /* a session store may know no such break */
    }
    EXPECT_STATUS(t, rc, SIMBA_OK);
    EXPECT_DONE(t, simba_admin_breaks, p->store, t->mutex, &report);
    tck_later(t, close_report, report);
    EXPECT_NUMBER(t, simba_report_broken_count(report), 2);
    for (size_t i = 0; i < 2; i++) {
        const simba_broken *broken = simba_report_broken(report, i);

        count += broken->token == p->token && !broken->now;
    }
    EXPECT_NUMBER(t, count, 1);
}

static void breaks_are_written_down(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t), *b = tck_stranger(t);
    simba_report *report;
    const simba_broken *broken;

    snprintf(a->id + strlen(a->id), sizeof a->id - strlen(a->id), "%s",
             ": !\"'\\ "); /* it may hold anything */
    EXPECT_GRANTED(a);
    EXPECT_STATUS(t, end_tenure(t, b->store, a->token + 1, true), SIMBA_ELOST);
    EXPECT_STATUS(t, end_tenure(t, b->store, a->token, true), SIMBA_OK);
    EXPECT_GRANTED(b);
    EXPECT_DONE(t, simba_admin_breaks, a->store, t->mutex, &report);
    tck_later(t, close_report, report);
    EXPECT_NUMBER(t, simba_report_broken_count(report), 1);
    broken = simba_report_broken(report, 0);
    EXPECT_TEXT(t, broken->mutex, t->mutex);
    EXPECT_TEXT(t, broken->id, a->id);
    EXPECT_NUMBER(t, broken->token, a->token);
    EXPECT_TEXT(t, broken->reason, "the contract's test");
    EXPECT(t, broken->now);
    EXPECT(t,
           broken->unix_ms == 0 ||
               llabs(broken->unix_ms - time(NULL) * INT64_C(1000)) < HOUR_MS);
    EXPECT_DONE(t, simba_admin_breaks, a->store, NULL, &report);
    tck_later(t, close_report, report);
    EXPECT(t, simba_report_broken_count(report) >= 1);
    expect_written_as_ending(b);
}

static const struct tck_case cases[] = {
    {"admin.list_shows_who_owns",
     "A list names a mutex with its owner and token, and that somebody waits.",
     list_shows_who_owns, TCK_LIST},
    {"admin.list_shows_all_of_them",
     "A list names every mutex, each with its own owner, token and number of "
     "those who wait.",
     list_shows_all_of_them, TCK_LIST},
    {"admin.list_tells_names_as_given", "A list tells each name byte for byte.",
     list_tells_names_as_given, TCK_LIST},
    {"admin.list_forgets_the_free", "A list shows no owner of a free mutex.",
     list_forgets_the_free, TCK_LIST},
    {"admin.list_chooses_by_pattern", "A list can be limited by a pattern.",
     list_chooses_by_pattern, TCK_LIST},
    {"admin.show_tells_the_queue_in_order",
     "Those who wait are told in the order of the queue.",
     show_tells_the_queue_in_order, TCK_LIST},
    {"admin.break_now_frees_at_once",
     "A tenure broken at once is free, its token never comes again, and it "
     "cannot be renewed.",
     break_now_frees_at_once, TCK_BREAK},
    {"admin.break_ends_one_tenure",
     "What else its handle owns and waits for is left as it is.",
     break_ends_one_tenure, TCK_BREAK},
    {"admin.break_wakes_the_next",
     "Who is next in the queue of a tenure broken at once is woken (S10).",
     break_wakes_the_next, TCK_BREAK},
    {"admin.break_keeps_the_queue",
     "After a tenure was broken at once, those who wait are granted in their "
     "order (S11).",
     break_keeps_the_queue, TCK_BREAK},
    {"admin.break_ends_with_the_lease",
     "A tenure that is broken is not renewed any more, and free when its lease "
     "is over, not before.",
     break_ends_with_the_lease, TCK_BREAK},
    {"admin.break_of_another_tenure_is_refused",
     "A break names its tenure by token; another one is left alone.",
     break_of_another_tenure_is_refused, TCK_BREAK},
    {"admin.broken_service_hears_of_it",
     "The contender whose tenure was broken is told, and contends anew.",
     broken_service_hears_of_it, TCK_BREAK},
    {"admin.breaks_are_written_down",
     "Who asks later is told which tenure was broken, whose it was and why, "
     "and of none that was not.",
     breaks_are_written_down, TCK_BREAK | TCK_BOOK},
};

const struct tck_topic tck_topic_admin = TCK_TOPIC(cases);
