/* network: what befalls the way to the servers costs time, never a promise (S1,
 * S7, S8, S10, S12). A proxy stands between one handle and the servers; others
 * go past it. */
#include "child.h"
#include "contender.h"
#include "proxy.h"
#include "topics.h"
#include "witness.h"

#include <stdio.h>
#include <string.h>

/* --- owners that are cut off --------------------------------------------- */

/* An owner behind a proxy, and one who waits and is not. */
struct duel {
    struct tck_proxy *proxy; /* of the owner */
    simba_store *store;      /* its handle */
    struct tck_witness *owner, *rival;
    char mutex[64];
    const char *what; /* befalls it */
    bool is_over;     /* the owner has answered no */
};

enum {
    BUDGET_MS = 20,
    POLL_MS = 20,
    DELAY_MS = 100
}; /* little, so that much is left to be owner */

static struct tck_witness *contend(struct duel *d,
                                   const struct tck_times *times,
                                   struct tck *t,
                                   simba_store *store)
{
    struct tck_witness *w = tck_witness(t);

    w->contender.mutex = d->mutex;
    w->contender.times.ttl_ms = times->ttl_ms;
    w->contender.times.transition_ms = times->transition_ms;
    w->contender.times.budget_ms = BUDGET_MS;
    tck_contend(w, store);
    return w;
}

/* That its owner answers no is asked when the rival has answered yes, so that a
 * slow machine sees less, and nothing that is not so. */
static bool is_passed_on(struct tck *t, struct duel *d, bool is_awaited)
{
    bool is_rivals = simba_service_is_owner(d->rival->service);
    bool is_owners = simba_service_is_owner(d->owner->service);

    if (is_rivals && is_owners) {
        tck_fail(t, TCK_HERE,
                 "%s: the owner that is cut off and the one who was granted "
                 "both answer yes",
                 d->what);
    }
    d->is_over |= !is_owners;
    return is_rivals || (d->is_over && !is_awaited);
}

enum { DUELS = 6, HEARD = 2, SLOW = DUELS - 1, MERCY_MS = 1000 };

static const struct {
    const char *name;
    enum tck_weather weather;
} faults[DUELS + 1] = {{"stalled", TCK_STALLED},
                       {"requests lost", TCK_NO_REQUESTS},
                       {"replies lost", TCK_NO_REPLIES},
                       {"half open", TCK_HALF_OPEN},
                       {"cut", TCK_CUT},
                       {"granted late", TCK_NO_REQUESTS},
                       {"a longer lease on the same handle", TCK_STALLED}};

/* Granted by a reply that comes late, and nothing is heard of it any more: it
 * counts from when it asked. A store that asks several times for one grant may
 * be too slow for that. */
static void grant_late(struct tck *t, struct duel *d, simba_store *store)
{
    struct tck_contender *first = tck_contender(t, store);
    struct tck_contender *reader = tck_stranger(t);
    int64_t until;

    first->times = t->short_lease;
    tck_at(reader, d->mutex);
    EXPECT_GRANTED(first); /* so there is a session, and a connection */
    tck_release(first);
    tck_proxy_delay(d->proxy, tck_lease_ms(&t->short_lease) / 16);
    d->owner = contend(d, &t->short_lease, t, store);
    until = simba_loop_now_ms() + MERCY_MS;
    while (strcmp(tck_read(reader)->owner.id, d->owner->id) != 0 &&
           simba_loop_now_ms() < until) {
        tck_sleep_until(simba_loop_now_ms() + 1);
    }
    if (reader->reply.owner.id[0] == '\0') {
        tck_proxy_delay(d->proxy, 0);
        AWAIT(t, atomic_load(&d->owner->acquired) > 0);
    }
    tck_proxy_set(d->proxy, TCK_NO_REQUESTS);
}

/* The last has a longer lease, on a handle that began with a shorter one: a
 * session may be made for that, and not grant what it cannot keep. */
static void start_duels(struct tck *t, struct duel *duels, simba_store *direct)
{
    struct tck_times longer = {t->short_lease.ttl_ms * 3 / 2,
                               t->short_lease.transition_ms * 3 / 2};
    struct duel *last = &duels[DUELS];
    int64_t until;

    for (int i = 0; i <= DUELS; i++) {
        duels[i].what = faults[i].name;
        snprintf(duels[i].mutex, sizeof duels[i].mutex, "%s %d", t->mutex, i);
    }
    for (int i = 0; i < DUELS; i++) {
        duels[i].proxy = tck_proxy(t);
        duels[i].store = tck_store_through(t, duels[i].proxy);
        if (i != SLOW) {
            duels[i].owner =
                contend(&duels[i], &t->short_lease, t, duels[i].store);
        }
    }
    for (int i = 0; i < SLOW; i++) {
        AWAIT(t, atomic_load(&duels[i].owner->acquired) > 0);
    }
    last->owner = contend(last, &longer, t, duels[0].store);
    until = simba_loop_now_ms() + MERCY_MS;
    while (atomic_load(&last->owner->acquired) == 0 &&
           simba_loop_now_ms() < until) {
        tck_sleep_until(simba_loop_now_ms() + 1);
    }
    grant_late(t, &duels[SLOW], duels[SLOW].store);
    for (int i = DUELS; i >= 0; i--) {
        duels[i].rival = contend(&duels[i], &t->short_lease, t, direct);
    }
}

/* What the owner says and undoes late does nothing to who was granted. */
static void expect_left_alone(struct tck *t, struct duel *duels)
{
    bool was_granted[DUELS];

    for (int i = 0; i < DUELS; i++) {
        was_granted[i] = simba_service_is_owner(duels[i].rival->service);
        tck_await_answer(t, duels[i].store);
    }
    tck_proxy_await_quiet(duels[DUELS - 1].proxy);
    for (int i = 0; i < DUELS; i++) {
        struct tck_contender *reader = tck_contender(t, duels[i].store);

        tck_at(reader, duels[i].mutex);
        tck_read(reader);
        if (was_granted[i] && simba_service_is_owner(duels[i].rival->service) &&
            strcmp(reader->reply.owner.id, duels[i].rival->id) != 0) {
            tck_fail(t, TCK_HERE,
                     "%s: the one who was granted lost it to the owner that "
                     "was cut off",
                     duels[i].what);
        }
        if (was_granted[i] && atomic_load(&duels[i].rival->released) > 0) {
            tck_too_slow(t, TCK_HERE);
        }
    }
}

/* All at once, for each takes a lease. */
static void owner_cut_off_answers_no_in_time(struct tck *t)
{
    struct duel duels[DUELS + 1] = {0};
    /* One that is heard, and hears nothing, may keep its session. */
    bool is_session = (t->ops.capabilities & SIMBA_HAS_SESSION_LEASE) != 0;
    const char *open = "";
    int64_t until;

    start_duels(t, duels, tck_store(t));
    for (int i = 0; i < DUELS; i++) {
        tck_proxy_set(duels[i].proxy, faults[i].weather);
    }
    until = tck_patience(t);
    while (open != NULL) {
        open = NULL;
        for (int i = 0; i <= DUELS; i++) {
            bool is_awaited = i < DUELS && (i != HEARD || !is_session);

            open =
                is_passed_on(t, &duels[i], is_awaited) ? open : duels[i].what;
        }
        tck_pause(t, until, TCK_HERE, open == NULL ? "" : open);
    }
    for (int i = 0; i < DUELS; i++) {
        tck_proxy_delay(duels[i].proxy, 0);
        tck_proxy_set(duels[i].proxy, TCK_FAIR);
    }
    expect_left_alone(t, duels);
    for (int i = 0; i < DUELS; i++) {
        tck_close(duels[i].rival);
    }
    for (int i = 0; i < DUELS; i++) { /* they contend again */
        AWAIT(t, simba_service_is_owner(duels[i].owner->service));
        EXPECT_ORDERLY(duels[i].owner);
    }
}

/* --- wake-ups over a reconnection ---------------------------------------- */

/* A owns the mutex; a service waits through the proxy. On the long lease, which
 * ends long after patience does. */
struct wait {
    struct tck_proxy *proxy;
    simba_store *store;
    struct tck_contender *a;
    struct tck_witness *w;
};

static struct wait wait_through(struct tck *t)
{
    struct wait wait = {.proxy = tck_proxy(t)};

    wait.store = tck_store_through(t, wait.proxy);
    wait.a = tck_stranger(t);
    wait.w = tck_witness(t);
    EXPECT_GRANTED(wait.a);
    tck_contend(wait.w, wait.store);
    AWAIT(t, tck_count_line(wait.a) == 1);
    return wait;
}

/* And it has kept its position. */
static void waiter_is_woken_after_a_reconnection(struct tck *t)
{
    struct wait wait = wait_through(t);
    struct tck_contender *behind = tck_stranger(t);

    EXPECT_QUEUED(behind);
    tck_proxy_await_quiet(wait.proxy);
    tck_proxy_cut(wait.proxy);
    tck_await_answer(t, wait.store);
    AWAIT(t, tck_count_line(wait.a) == 2);
    AWAIT(t, !tck_ask(behind)->is_head);
    tck_proxy_await_quiet(wait.proxy);
    tck_release(wait.a);
    AWAIT(t, atomic_load(&wait.w->acquired) == 1);
}

/* What was told meanwhile has reached nobody. */
static void release_in_an_outage_is_heard_of(struct tck *t)
{
    struct wait wait = wait_through(t);

    tck_proxy_await_quiet(wait.proxy);
    tck_proxy_set(wait.proxy, TCK_CUT);
    tck_release(wait.a);
    tck_proxy_await_quiet(wait.proxy);
    tck_proxy_set(wait.proxy, TCK_FAIR);
    AWAIT(t, atomic_load(&wait.w->acquired) == 1);
}

enum { MOMENTS = 10 };

struct moment {
    struct tck_contender *a; /* owns the mutex */
    struct tck_witness *w;
    char mutex[64];
    int64_t at_ms; /* it releases then; 0: the other does not wait yet */
    bool is_over;
};

/* False: it is over. */
static bool pass(struct moment *moment, int number)
{
    if (moment->at_ms == 0 && tck_count_line(moment->a) == 1) {
        moment->at_ms = simba_loop_now_ms() + number * DELAY_MS / 2;
    }
    if (!moment->is_over && moment->at_ms != 0 &&
        simba_loop_now_ms() >= moment->at_ms) {
        tck_release(moment->a);
        moment->is_over = true;
    }
    return !moment->is_over;
}

static struct moment *make_moments(struct tck *t)
{
    struct moment *moments = tck_alloc(t, MOMENTS * sizeof *moments);
    simba_store *direct = tck_store(t);

    for (int i = 0; i < MOMENTS; i++) {
        struct moment *m = &moments[i];

        snprintf(m->mutex, sizeof m->mutex, "%s %d", t->mutex, i);
        m->a = tck_contender(t, direct);
        tck_at(m->a, m->mutex);
        EXPECT_GRANTED(m->a);
        m->w = tck_witness(t);
        m->w->contender.mutex = m->mutex;
    }
    return moments;
}

static void release_each(struct tck *t, struct moment *moments)
{
    int64_t until = tck_patience(t);
    bool is_open = true;

    while (is_open) {
        is_open = false;
        for (int i = 0; i < MOMENTS; i++) {
            is_open |= pass(&moments[i], i);
        }
        tck_pause(t, until, TCK_HERE, "a position in the queue");
    }
    for (int i = 0; i < MOMENTS; i++) {
        AWAIT(t, atomic_load(&moments[i].w->acquired) == 1);
    }
}

/* Replies take so long that there is a moment between any two things that a
 * store does until the refusal is told: to join, to look, to watch. Whoever is
 * refused must be able to hear before. */
static void release_before_the_refusal_is_heard_of(struct tck *t)
{
    struct tck_proxy *proxy = tck_proxy(t);
    simba_store *store = tck_store_through(t, proxy);
    struct moment *moments = make_moments(t);

    tck_await_answer(t, store);
    tck_proxy_delay(proxy, DELAY_MS);
    for (int i = 0; i < MOMENTS; i++) {
        tck_contend(moments[i].w, store);
    }
    release_each(t, moments);
    tck_proxy_delay(proxy, 0);
}

/* Nor is there such a moment when the connection is made again. */
static void release_at_a_reconnection_is_heard_of(struct tck *t)
{
    struct tck_proxy *proxy = tck_proxy(t);
    simba_store *store = tck_store_through(t, proxy);
    struct moment *moments = make_moments(t);
    int64_t now_ms;

    for (int i = 0; i < MOMENTS; i++) {
        tck_contend(moments[i].w, store);
        AWAIT(t, tck_count_line(moments[i].a) == 1);
    }
    tck_proxy_await_quiet(proxy);
    tck_proxy_delay(proxy, DELAY_MS);
    tck_proxy_cut(proxy);
    now_ms = simba_loop_now_ms();
    for (int i = 0; i < MOMENTS; i++) {
        moments[i].at_ms = now_ms + (i + 1) * DELAY_MS / 2;
    }
    release_each(t, moments);
    tck_proxy_delay(proxy, 0);
}

/* What it hears after the connection was cut is what it heard before: the
 * owners, each once. */
struct seen {
    _Atomic int changes;
    _Atomic uint64_t token;
    uint64_t most;        /* the callback's own */
    _Atomic bool is_past; /* an owner was told after a later one */
};

static void on_changed(void *user, const simba_state *state)
{
    struct seen *seen = user;

    if (state->after.token != 0 && state->after.token < seen->most) {
        atomic_store(&seen->is_past, true);
    } else if (state->after.token != 0) {
        seen->most = state->after.token;
    }
    atomic_store(&seen->token, state->after.token);
    atomic_fetch_add(&seen->changes, 1);
}

static void close_retrieval(void *retrieval)
{
    simba_retrieval_close(retrieval);
}

static void observer_sees_on_after_a_reconnection(struct tck *t)
{
    struct tck_proxy *proxy = tck_proxy(t);
    simba_store *store = tck_store_through(t, proxy);
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct seen *seen = tck_alloc(t, sizeof *seen);
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_retrieval *retrieval;

    retriever.poll_ms = (t->ops.capabilities & SIMBA_CAN_OBSERVE) != 0
                            ? 10 * t->patience_ms /* it must hear */
                            : POLL_MS;
    retriever.mutex = t->mutex;
    retriever.on_changed = on_changed;
    retriever.user = seen;
    EXPECT_STATUS(t, simba_retrieval_open(store, &retriever, &retrieval, NULL),
                  SIMBA_OK);
    tck_later(t, close_retrieval, retrieval);
    EXPECT_STATUS(t, simba_retrieval_start(retrieval, NULL), SIMBA_OK);
    EXPECT_GRANTED(a);
    AWAIT(t, atomic_load(&seen->token) == a->token);
    tck_proxy_set(proxy, TCK_CUT);
    tck_release(a);
    EXPECT_GRANTED(b);
    tck_proxy_set(proxy, TCK_FAIR);
    AWAIT(t, atomic_load(&seen->token) == b->token);
    tck_release(b);
    EXPECT_GRANTED(a);
    AWAIT(t, atomic_load(&seen->token) == a->token);
    EXPECT(t, !atomic_load(&seen->is_past));
}

/* --- connections --------------------------------------------------------- */

enum { LIVES = 1, END = 1 };

static void live_on(struct tck *t, struct tck_child *self)
{
    atomic_store(&self->step, LIVES);
    tck_child_obey(t, self, END);
}

/* A child that had a copy of the connection would keep it open, and its parent
 * alive in the eyes of the servers. */
static void forked_child_keeps_no_connection(struct tck *t)
{
    struct tck_proxy *proxy = tck_proxy(t);
    struct tck_contender *a = tck_contender(t, tck_store_through(t, proxy));
    struct tck_child *child;

    EXPECT_GRANTED(a);
    EXPECT(t, tck_proxy_count(proxy) > 0);
    child = tck_child(t, live_on);
    tck_child_await(t, child, LIVES);
    tck_release(a);
    tck_gone(a);
    AWAIT(t, tck_proxy_count(proxy) == 0);
    atomic_store(&child->order, END);
    tck_child_join(t, child);
}

/* Neither of the owner nor of the queue behind it is anything left. */
static void short_cut_costs_no_tenure(struct tck *t)
{
    struct tck_proxy *proxy = tck_proxy(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_witness *w = tck_witness(t);
    uint64_t token;

    tck_contend(w, tck_store_through(t, proxy));
    AWAIT(t, simba_service_is_owner(w->service));
    token = simba_service_token(w->service);
    EXPECT_QUEUED(b);
    tck_proxy_cut(proxy);
    tck_proxy_await_quiet(proxy);
    EXPECT(t, !tck_ask(b)->mine);
    EXPECT_NUMBER(t, simba_service_token(w->service), token);
    tck_close(w);
    AWAIT(t, tck_ask(b)->mine);
    EXPECT_ORDERLY(w);
}

/* Nobody has to begin again. */
static void server_that_comes_later_is_found(struct tck *t)
{
    struct tck_proxy *proxy = tck_proxy(t);
    struct tck_witness *w = tck_witness(t);

    if ((t->ops.capabilities & SIMBA_HAS_SERVER) == 0) {
        tck_skip(t, "where a store is opened though its server is down");
    }
    tck_proxy_set(proxy, TCK_CUT);
    tck_contend(w, tck_store_through(t, proxy));
    tck_proxy_await_quiet(proxy);
    EXPECT_NUMBER(t, atomic_load(&w->acquired), 0);
    tck_proxy_set(proxy, TCK_FAIR);
    AWAIT(t, atomic_load(&w->acquired) == 1);
}

static const struct tck_case cases[] = {
    {"network.owner_cut_off_answers_no_in_time",
     "An owner whose way to the servers is stalled, cut, half open, one-way or "
     "slow answers no before another is granted, which is then and stays so; "
     "when it is fair again it contends again (S1, S5).",
     owner_cut_off_answers_no_in_time, TCK_NETWORK | TCK_LAPSES},
    {"network.short_cut_costs_no_tenure",
     "A connection that is made again leaves the tenure as it was.",
     short_cut_costs_no_tenure, TCK_NETWORK},
    {"network.waiter_is_woken_after_a_reconnection",
     "Who waits keeps its position and is woken by a release also over a "
     "connection that was made again (S10, S11).",
     waiter_is_woken_after_a_reconnection, TCK_NETWORK | TCK_PUSH},
    {"network.release_in_an_outage_is_heard_of",
     "A release while the connection of who waits was cut is heard of when it "
     "is "
     "there again (S10).",
     release_in_an_outage_is_heard_of, TCK_NETWORK | TCK_PUSH},
    {"network.release_before_the_refusal_is_heard_of",
     "A release at any moment after a position was taken wakes its contender, "
     "also if the refusal is still on the way (S10).",
     release_before_the_refusal_is_heard_of, TCK_NETWORK | TCK_PUSH},
    {"network.release_at_a_reconnection_is_heard_of",
     "So does one at any moment around a reconnection (S10).",
     release_at_a_reconnection_is_heard_of, TCK_NETWORK | TCK_PUSH},
    {"network.observer_sees_on_after_a_reconnection",
     "An observer sees who owns the mutex also over a connection that was made "
     "again.",
     observer_sees_on_after_a_reconnection, TCK_NETWORK},
    {"network.server_that_comes_later_is_found",
     "Who contends while the server is down is granted when it is there.",
     server_that_comes_later_is_found, TCK_NETWORK},
    {"network.forked_child_keeps_no_connection",
     "A forked child has no copy of its parent's connections (S12).",
     forked_child_keeps_no_connection, TCK_NETWORK},
};

const struct tck_topic tck_topic_network = TCK_TOPIC(cases);
