/* observer: who only watches sees every change, in order, none twice. */
#include "contender.h"
#include "topics.h"
#include "witness.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { BOOK_MOST = 64, POLL_MS = 20, SEVERAL_POLLS_MS = 100 };

/* What an observer was told. */
struct observer {
    struct tck *t;
    simba_retrieval *retrieval;
    pthread_mutex_t lock; /* guards what follows */
    simba_state book[BOOK_MOST];
    int count;
};

static void on_changed(void *user, const simba_state *state)
{
    struct observer *o = user;

    pthread_mutex_lock(&o->lock);
    if (o->count < BOOK_MOST) {
        o->book[o->count++] = *state;
    }
    pthread_mutex_unlock(&o->lock);
}

static void close_report(void *what)
{
    simba_report_close(what);
}

static void close_retrieval(void *what)
{
    simba_retrieval_close(what);
}

static struct observer *observe_at(struct tck *t,
                                   simba_store *store,
                                   const char *mutex)
{
    struct observer *o = tck_alloc(t, sizeof *o);
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;

    tck_need_all(t);
    retriever.mutex = mutex;
    /* It must hear, where it is told and no shim loses that. */
    retriever.poll_ms =
        t->must_wake && (t->ops.capabilities & SIMBA_CAN_OBSERVE) != 0
            ? 10 * t->patience_ms
            : POLL_MS;
    retriever.on_changed = on_changed;
    retriever.user = o;
    o->t = t;
    pthread_mutex_init(&o->lock, NULL);
    EXPECT_STATUS(t,
                  simba_retrieval_open(store, &retriever, &o->retrieval, NULL),
                  SIMBA_OK);
    tck_later(t, close_retrieval, o->retrieval);
    EXPECT_STATUS(t, simba_retrieval_start(o->retrieval, NULL), SIMBA_OK);
    AWAIT(t, simba_retrieval_status(o->retrieval) == SIMBA_RUNNING);
    return o;
}

static struct observer *observe(struct tck *t)
{
    return observe_at(t, tck_store(t), t->mutex);
}

static int count(struct observer *o)
{
    int n;

    pthread_mutex_lock(&o->lock);
    n = o->count;
    pthread_mutex_unlock(&o->lock);
    return n;
}

/* Waits for the n-th change, and expects it to lead to this owner. */
static void expect_change(struct observer *o, int n, const char *id)
{
    simba_state last;

    AWAIT(o->t, count(o) >= n);
    EXPECT_NUMBER(o->t, count(o), n);
    pthread_mutex_lock(&o->lock);
    last = o->book[n - 1];
    pthread_mutex_unlock(&o->lock);
    EXPECT_TEXT(o->t, last.after.id, id);
}

/* Each change begins where the one before it ended. */
static void expect_chained(struct observer *o)
{
    int n = count(o);

    for (int i = 1; i < n; i++) {
        EXPECT_TEXT(o->t, o->book[i].before.id, o->book[i - 1].after.id);
        EXPECT_NUMBER(o->t, o->book[i].before.token,
                      o->book[i - 1].after.token);
        EXPECT(o->t, simba_state_is_changed(&o->book[i]));
    }
}

static void sees_every_change_in_order(struct tck *t)
{
    struct observer *o = observe(t);
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    expect_change(o, 1, a->id);
    tck_release(a);
    expect_change(o, 2, "");
    EXPECT_GRANTED(b);
    expect_change(o, 3, b->id);
    EXPECT_NUMBER(t, o->book[2].after.token, b->token);
    tck_release(b);
    expect_change(o, 4, "");
    expect_chained(o);
}

static void begins_with_the_present_owner(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct observer *o;

    EXPECT_GRANTED(a);
    o = observe(t);
    expect_change(o, 1, a->id);
    EXPECT_TEXT(t, o->book[0].before.id, "");
}

static void renewals_are_no_change(struct tck *t)
{
    struct observer *o = observe(t);
    struct tck_contender *a = tck_stranger(t);
    int64_t until;

    EXPECT_GRANTED(a);
    expect_change(o, 1, a->id);
    for (until = simba_loop_now_ms() + SEVERAL_POLLS_MS;
         simba_loop_now_ms() < until;) {
        EXPECT(t, tck_renew(a)->mine);
    }
    tck_release(a);
    expect_change(o, 2, "");
}

/* The same id owns it twice: two tenures, two tokens (S5). */
static void new_tenure_of_one_id_is_a_change(struct tck *t)
{
    struct observer *o = observe(t);
    struct tck_contender *a = tck_stranger(t);
    uint64_t first;

    EXPECT_GRANTED(a);
    expect_change(o, 1, a->id);
    first = a->token;
    tck_release(a);
    tck_begin_anew(a);
    EXPECT_GRANTED(a);
    AWAIT(t, count(o) >= 2 && o->book[count(o) - 1].after.token == a->token);
    EXPECT_NUMBER(t, o->book[0].after.token, first);
    expect_chained(o);
}

static void sees_nothing_after_stop(struct tck *t)
{
    struct observer *o = observe(t);
    struct observer *witness = observe(t);
    struct tck_contender *a = tck_stranger(t);

    EXPECT_STATUS(t, simba_retrieval_start(o->retrieval, NULL), SIMBA_EMISUSE);
    EXPECT_STATUS(t, simba_retrieval_stop(o->retrieval, NULL), SIMBA_OK);
    EXPECT_NUMBER(t, simba_retrieval_status(o->retrieval), SIMBA_INITIAL);
    EXPECT_GRANTED(a);
    expect_change(witness, 1, a->id);
    EXPECT_NUMBER(t, count(o), 0);
    EXPECT_STATUS(t, simba_retrieval_start(o->retrieval, NULL), SIMBA_OK);
    expect_change(o, 1, a->id);
}

/* Of one handle: neither one that observes the same mutex, nor one of another
 * has stopped with it. */
static void stop_of_one_is_no_other_s(struct tck *t)
{
    simba_store *store = tck_store(t);
    struct tck_contender *a = tck_stranger(t), *b = tck_stranger(t);
    struct observer *same = observe_at(t, store, t->mutex), *other, *last;
    char name[sizeof t->mutex + 8];

    snprintf(name, sizeof name, "%s other", t->mutex);
    tck_at(b, name);
    other = observe_at(t, store, name);
    last = observe_at(t, store, t->mutex);
    EXPECT_STATUS(t, simba_retrieval_stop(last->retrieval, NULL), SIMBA_OK);
    EXPECT_GRANTED(a);
    expect_change(same, 1, a->id);
    EXPECT_STATUS(t, simba_retrieval_stop(same->retrieval, NULL), SIMBA_OK);
    EXPECT_GRANTED(b);
    expect_change(other, 1, b->id);
}

static void takes_nothing(struct tck *t)
{
    struct observer *o = observe(t);
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_FREE(a);
    EXPECT_GRANTED(a);
    expect_change(o, 1, a->id);
    EXPECT_QUEUED(b);
    EXPECT(t, b->reply.is_head); /* it does not wait */
}

static void waiting_contender_hears_who_owns(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_witness *w = tck_witness(t);

    EXPECT_GRANTED(a);
    tck_contend(w, tck_store(t));
    AWAIT(t, atomic_load(&w->changed) >= 1);
    tck_release(a);
    AWAIT_UNTIL(t, atomic_load(&w->acquired) == 1,
                tck_patience(t) + tck_lease_ms(&t->long_lease));
    EXPECT_ORDERLY(w);
}

/* Observers see by it whether they missed a tenure. */
static void read_tells_what_ended(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_NUMBER(t, tck_read(b)->ended, 0);
    EXPECT_GRANTED(a);
    EXPECT_NUMBER(t, tck_read(b)->ended, 0);
    tck_release(a);
    EXPECT_NUMBER(t, tck_read(b)->ended, a->token);
    b->times = t->short_lease;
    EXPECT_GRANTED(b);
    EXPECT(t, tck_read(a)->ended == a->token || a->reply.owner.token == 0);
    AWAIT(t, tck_read(a)->owner.token == 0);
    EXPECT_NUMBER(t, a->reply.ended, b->token);
}

/* Waits until so many tenures were told to begin and to end, and expects no
 * more of them, none missed, and that it was told each time how many are left.
 */
static void expect_tenures(struct observer *o, int most_began, int most_ended)
{
    int began = 0, ended = 0, n = 0;
    simba_state one;

    while (began < most_began || ended < most_ended) {
        AWAIT(o->t, count(o) > n);
        pthread_mutex_lock(&o->lock);
        one = o->book[n++];
        pthread_mutex_unlock(&o->lock);
        began += one.after.id[0] != '\0';
        ended += one.before.id[0] != '\0';
        EXPECT_NUMBER(o->t, one.owned, began - ended);
        EXPECT(o->t, simba_state_is_changed(&one));
        EXPECT(o->t, !one.has_gap ||
                         (o->t->ops.capabilities & SIMBA_TELLS_ENDED) == 0);
    }
    EXPECT_NUMBER(o->t, began, most_began);
    EXPECT_NUMBER(o->t, ended, most_ended);
    EXPECT_NUMBER(o->t, count(o), n);
}

/* It lapses, is handed over, is broken, is released. */
static void tells_each_tenure_of_several(struct tck *t)
{
    struct observer *o = observe(t);
    simba_break wish = SIMBA_BREAK_INIT;
    struct tck_contender *p[4];

    for (int i = 0; i < 4; i++) {
        p[i] = tck_stranger(t);
        p[i]->slots = 2;
    }
    EXPECT_GRANTED(p[0]);
    expect_tenures(o, 1, 0);
    p[1]->times = t->short_lease;
    EXPECT_GRANTED(p[1]);
    expect_tenures(o, 2, 0);
    if ((t->ops.capabilities & SIMBA_HAS_SESSION_LEASE) != 0) {
        tck_release(p[1]);
    }
    AWAIT(t, tck_try(p[2])->mine);
    expect_tenures(o, 3, 1);
    EXPECT_QUEUED(p[3]);
    if ((t->ops.capabilities & SIMBA_CAN_HAND_OVER) != 0) {
        tck_release_to(p[0], p[3]->id);
    } else {
        tck_release(p[0]);
    }
    EXPECT_GRANTED(p[3]);
    expect_tenures(o, 4, 2);
    wish.mutex = t->mutex;
    wish.token = p[2]->token;
    wish.now = true;
    EXPECT_DONE(t, simba_admin_break, p[0]->store, &wish, NULL);
    expect_tenures(o, 4, 3);
    tck_release(p[3]);
    expect_tenures(o, 4, 4);
}

/* Observers see by it whether they missed one beside others. */
static void owners_tell_who_began_before(struct tck *t)
{
    struct tck_contender *p[3], *before = tck_stranger(t);
    simba_report *report;

    EXPECT_GRANTED(before);
    tck_release(before);
    for (int i = 0; i < 3; i++) {
        p[i] = tck_stranger(t);
        p[i]->slots = i == 0 ? 0 : 3;
        EXPECT_GRANTED(p[i]);
        p[i]->slots = 3; /* one was alone before it let others in */
        EXPECT(t, tck_renew(p[i])->mine);
    }
    tck_release(p[1]);
    EXPECT_NUMBER(t, tck_read(p[1])->ended, p[1]->token);
    EXPECT_DONE(t, simba_admin_show, p[1]->store, t->mutex, &report);
    tck_later(t, close_report, report);
    EXPECT_NUMBER(t, simba_report_owner_count(report), 2);
    for (size_t i = 0; i < 2; i++) {
        const simba_owner *owner = simba_report_owner_at(report, i);

        EXPECT_NUMBER(t, owner->token, p[2 * i]->token);
        EXPECT_NUMBER(t, owner->former, i == 0 ? before->token : p[1]->token);
    }
    tck_release(p[2]);
    EXPECT_NUMBER(t, tck_read(p[1])->ended, p[2]->token);
}

static const struct tck_case cases[] = {
    {"observer.sees_every_change_in_order",
     "A retrieval tells each change of owner once, each beginning where the "
     "last one ended.",
     sees_every_change_in_order, TCK_QUICK},
    {"observer.begins_with_the_present_owner",
     "The owner it finds is its first change, from nobody.",
     begins_with_the_present_owner, 0},
    {"observer.renewals_are_no_change", "Renewals are not told as changes.",
     renewals_are_no_change, 0},
    {"observer.new_tenure_of_one_id_is_a_change",
     "The same id under another token is another owner (S5).",
     new_tenure_of_one_id_is_a_change, 0},
    {"observer.sees_nothing_after_stop",
     "A stopped retrieval tells nothing; started again it begins anew.",
     sees_nothing_after_stop, 0},
    {"observer.stop_of_one_is_no_other_s",
     "When one of a handle is stopped, its others are told as before.",
     stop_of_one_is_no_other_s, 0},
    {"observer.takes_nothing",
     "Watching takes neither mutex nor position in the queue.", takes_nothing,
     0},
    {"observer.waiting_contender_hears_who_owns",
     "A contender that waits is told who owns the mutex.",
     waiting_contender_hears_who_owns, 0},
    {"observer.read_tells_what_ended",
     "A read tells the token of the tenure before the present one, or of the "
     "last one.",
     read_tells_what_ended, TCK_ENDED},
    {"observer.tells_each_tenure_of_several",
     "Of several owners each is told when it begins and when it ends, however "
     "that may be, with how many are left.",
     tells_each_tenure_of_several, TCK_SLOTS | TCK_BREAK},
    {"observer.owners_tell_who_began_before",
     "Each of several owners tells the token of the tenure that began before "
     "it, and a read which began last, if that has ended.",
     owners_tell_who_began_before, TCK_SLOTS | TCK_ENDED},
};

const struct tck_topic tck_topic_observer = TCK_TOPIC(cases);
