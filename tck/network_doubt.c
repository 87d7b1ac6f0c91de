/* network: what was lost on the way is not known, whatever it was; it is asked
 * again or undone, and nothing of it is left (S8). */
#include "contender.h"
#include "proxy.h"
#include "topics.h"
#include "witness.h"

#include <stdio.h>
#include <string.h>

/* Long enough for a request, short enough to wait for its deadline. */
enum { LOST_MS = 500, SENT_MS = 20, LATE_MOST_MS = 1500 };

/* A request on a thread of its own, with a deadline that is near. */
struct lost {
    struct tck_proxy *proxy;
    struct tck_contender *contender;
    const char *what;
    struct tck_aside *aside;
    simba_request request;
    int64_t late_ms; /* how long after its deadline it was completed */
    bool is_stuck;   /* it was not */
    int status;
};

static void ask_in_vain(void *what)
{
    struct lost *lost = what;
    int64_t deadline_ms = lost->request.deadline_ms;

    lost->status = simba_probe(lost->contender->store, &lost->request, NULL);
    lost->late_ms = simba_loop_now_ms() - deadline_ms;
    lost->is_stuck = lost->late_ms >= SIMBA_PROBE_GRACE_MS;
}

static void start(struct tck *t,
                  struct lost *lost,
                  enum simba_request_kind kind,
                  bool join)
{
    const struct tck_contender *p = lost->contender;
    simba_request request = SIMBA_REQUEST_INIT;

    request.kind = kind;
    request.mutex = p->mutex;
    request.id = p->id;
    request.attempt = p->attempt;
    request.token = p->token;
    request.position = p->position;
    request.ttl_ms = p->times.ttl_ms;
    request.transition_ms = p->times.transition_ms;
    request.waiter_ms = p->waiter_ms;
    request.join = join;
    request.deadline_ms = simba_loop_now_ms() + LOST_MS;
    lost->request = request;
    lost->aside = tck_aside(t, ask_in_vain, lost);
}

static void finish(struct tck *t, struct lost *lost)
{
    tck_aside_join(t, lost->aside);
    if (lost->is_stuck) {
        tck_fail(t, TCK_HERE, "%s: not completed by its deadline", lost->what);
    }
    if (lost->late_ms > LATE_MOST_MS) { /* of the store, or of this machine */
        tck_too_slow(t, TCK_HERE);
    }
}

/* --- replies that are lost ----------------------------------------------- */

static void lose(struct tck *t, struct lost *lost, bool join)
{
    struct tck_contender *p;

    lost->proxy = tck_proxy(t);
    lost->what = "an acquire whose reply was lost";
    p = tck_contender(t, tck_store_through(t, lost->proxy));
    lost->contender = p;
    tck_at(p, join ? t->mutex : p->id); /* one of its own: nobody's */
    EXPECT(t, !join || !tck_try(p)->mine);
    if (!join) { /* so there is a session, and a connection */
        EXPECT_GRANTED(p);
        tck_release(p);
        tck_begin_anew(p);
    }
    tck_proxy_await_quiet(lost->proxy);
    tck_proxy_set(lost->proxy, TCK_NO_REPLIES);
    start(t, lost, SIMBA_ACQUIRE, join);
}

/* Only by what it has come to: what never was sent may have failed. */
static void judge(struct tck *t, struct lost *lost, struct tck_contender *a)
{
    struct tck_contender *look = tck_contender(t, a->store);
    bool has_effect;

    finish(t, lost);
    if (lost->status == SIMBA_EUNKNOWN || lost->status == SIMBA_OK) {
        return;
    }
    tck_at(look, lost->contender->mutex);
    has_effect = lost->request.join ? tck_count_line(look) > 0
                                    : strcmp(tck_read(look)->owner.id,
                                             lost->contender->id) == 0;
    if (has_effect) {
        tck_fail(
            t, TCK_HERE,
            "an acquire whose reply was lost was said to have failed (%s), "
            "and took effect",
            simba_status_name(lost->status));
    }
}

/* Asked while the reply to another request is still on its way, which is not
 * for this one. */
static struct lost *read_behind(struct tck *t, const struct lost *lost)
{
    struct lost *reading = tck_alloc(t, sizeof *reading);

    reading->contender = tck_contender(t, lost->contender->store);
    reading->what = "a read behind a reply that is late";
    start(t, reading, SIMBA_READ, false);
    return reading;
}

/* One of them is told that the connection has gone, the others nothing. */
static struct lost *lose_three(struct tck *t, struct tck_contender *a)
{
    struct lost *lost = tck_alloc(t, 3 * sizeof *lost), *reading;

    EXPECT_GRANTED(a);
    for (int i = 0; i < 3; i++) {
        lose(t, &lost[i], i == 1);
    }
    tck_sleep_until(simba_loop_now_ms() + LOST_MS / 4);
    tck_proxy_set(lost[2].proxy, TCK_CUT);
    for (int i = 0; i < 3; i++) {
        judge(t, &lost[i], a);
    }
    for (int i = 0; i < 3; i++) {
        reading = read_behind(t, &lost[i]);
        tck_sleep_until(simba_loop_now_ms() + SENT_MS);
        tck_proxy_set(lost[i].proxy, TCK_FAIR);
        finish(t, reading);
        if (reading->status == SIMBA_OK) {
            EXPECT_TEXT(t, reading->request.reply.owner.id, a->id);
        }
        tck_await_answer(t, lost[i].contender->store);
    }
    return lost;
}

/* The same attempt asks again, and has one tenure or one position, of which one
 * release leaves nothing. */
static void lost_reply_is_unknown(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct lost *lost = lose_three(t, a);

    for (int i = 0; i < 3; i++) {
        struct tck_contender *p = lost[i].contender;
        struct tck_contender *reader = tck_contender(t, p->store);
        struct tck_contender *next = tck_contender(t, a->store);

        tck_at(next, p->mutex);
        EXPECT_TEXT(t, tck_read(reader)->owner.id, a->id);
        if (lost[i].request.join) {
            EXPECT_QUEUED(p);
            EXPECT_NUMBER(t, tck_count_line(reader), 1);
            tck_leave(p);
            EXPECT_NUMBER(t, tck_count_line(reader), 0);
        } else {
            EXPECT_GRANTED(p);
            tck_release(p);
            EXPECT_GRANTED(next);
        }
    }
}

/* --- requests that arrive late ------------------------------------------- */

enum { TAKES, JOINS, RENEWS, RELEASES, LATE };

static const struct {
    const char *what;
    enum simba_request_kind kind;
} late[LATE] = {{"an acquire that is late", SIMBA_ACQUIRE},
                {"a join that is late", SIMBA_ACQUIRE},
                {"a renewal that is late", SIMBA_RENEW},
                {"a release that is late", SIMBA_RELEASE}};

/* What is asked of a mutex each is kept back, and the connection is cut. */
static struct lost *keep_back(struct tck *t, struct tck_contender *a)
{
    struct lost *lost = tck_alloc(t, LATE * sizeof *lost);
    struct tck_proxy *proxy = tck_proxy(t);
    simba_store *store = tck_store_through(t, proxy);

    for (int i = 0; i < LATE; i++) {
        struct tck_contender *p = tck_contender(t, store);

        lost[i].proxy = proxy;
        lost[i].what = late[i].what;
        lost[i].contender = p;
        tck_at(p, i == JOINS ? a->mutex : p->id); /* one of its own */
        if (i >= RENEWS) {
            EXPECT_GRANTED(p);
        }
    }
    tck_proxy_await_quiet(proxy);
    tck_proxy_set(proxy, TCK_NO_REQUESTS);
    for (int i = 0; i < LATE; i++) {
        start(t, &lost[i], late[i].kind, i == JOINS);
    }
    tck_sleep_until(simba_loop_now_ms() + LOST_MS / 4);
    tck_proxy_keep_back(proxy);
    for (int i = 0; i < LATE; i++) {
        finish(t, &lost[i]);
    }
    tck_await_answer(t, store);
    return lost;
}

/* Over another connection what was lost is undone or done again before it
 * arrives, and others have come: it is of no effect then. */
static void late_requests_have_no_effect(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *next = tck_contender(t, a->store);
    struct tck_contender *free = tck_contender(t, a->store);
    struct lost *lost;
    int64_t until;

    EXPECT_GRANTED(a);
    lost = keep_back(t, a);
    tck_undo(lost[TAKES].contender, tck_lease_ms(&a->times));
    tck_undo(lost[JOINS].contender, tck_lease_ms(&a->times));
    tck_release(lost[RENEWS].contender);
    tck_release(lost[RELEASES].contender);
    tck_begin_anew(lost[RELEASES].contender);
    EXPECT_GRANTED(lost[RELEASES].contender);
    tck_at(next, lost[RENEWS].contender->mutex);
    EXPECT_GRANTED(next);
    tck_at(free, lost[TAKES].contender->mutex);
    tck_proxy_let_go(lost[0].proxy);
    for (until = simba_loop_now_ms() + LOST_MS / 4;
         simba_loop_now_ms() < until;) {
        EXPECT_FREE(free);
        EXPECT_NUMBER(t, tck_count_line(a), 0);
        EXPECT_OWNS(next);
        EXPECT_OWNS(lost[RELEASES].contender);
        tck_sleep_until(simba_loop_now_ms() + 5);
    }
    EXPECT(t, tck_renew(lost[RELEASES].contender)->mine);
    EXPECT_GRANTED(free);
}

/* --- nothing gets through ------------------------------------------------ */

enum { OWNS, OWNS_ON, FREES, WAITS, LEAVES, COMES, READS, VAIN };

static const struct {
    const char *what;
    enum simba_request_kind kind;
    bool waits; /* behind the owner of the test's mutex */
} vain[VAIN] = {{"a renewal", SIMBA_RENEW, false},
                {"an acquire of the owner", SIMBA_ACQUIRE, false},
                {"a release", SIMBA_RELEASE, false},
                {"an acquire of one who waits", SIMBA_ACQUIRE, true},
                {"a leave", SIMBA_LEAVE, true},
                {"an acquire", SIMBA_ACQUIRE, false},
                {"a read", SIMBA_READ, false}};

static void prepare(struct tck *t, struct lost *lost, simba_store *store, int i)
{
    struct tck_contender *p = tck_contender(t, store);
    char name[64];

    snprintf(name, sizeof name, "%s %d", t->mutex, i);
    lost->contender = p;
    lost->what = vain[i].what;
    if (vain[i].waits) {
        EXPECT_QUEUED(p);
        return;
    }
    tck_at(p, name);
    if (i < WAITS) {
        EXPECT_GRANTED(p);
    }
}

/* Nobody but the servers can say yes. */
static void silence_is_no_answer(struct tck *t)
{
    struct tck_proxy *proxy = tck_proxy(t);
    simba_store *store = tck_store_through(t, proxy);
    struct tck_contender *a = tck_stranger(t);
    struct lost *lost = tck_alloc(t, VAIN * sizeof *lost);

    EXPECT_GRANTED(a);
    for (int i = 0; i < VAIN; i++) {
        prepare(t, &lost[i], store, i);
    }
    tck_proxy_await_quiet(proxy);
    tck_proxy_set(proxy, TCK_STALLED);
    for (int i = 0; i < VAIN; i++) {
        start(t, &lost[i], vain[i].kind, vain[i].waits);
    }
    for (int i = 0; i < VAIN; i++) {
        finish(t, &lost[i]);
        if (lost[i].status == SIMBA_OK) {
            tck_fail(t, TCK_HERE,
                     "%s was answered while nothing reached the servers",
                     vain[i].what);
        }
    }
    tck_proxy_set(proxy, TCK_FAIR);
}

/* --- stopping in an outage ----------------------------------------------- */

struct stopping {
    struct tck_witness *w;
    int status;
};

static void stop(void *what)
{
    struct stopping *stopping = what;

    stopping->status = simba_service_stop(stopping->w->service, NULL);
}

/* The lease is long: who has to wait for its end is not granted in time. */
static void release_in_an_outage_is_made_good(struct tck *t)
{
    struct tck_proxy *proxy = tck_proxy(t);
    struct stopping *stopping = tck_alloc(t, sizeof *stopping);
    struct tck_contender *b = tck_stranger(t);
    struct tck_aside *aside;

    stopping->w = tck_witness(t);
    tck_contend(stopping->w, tck_store_through(t, proxy));
    AWAIT(t, atomic_load(&stopping->w->acquired) == 1);
    EXPECT_QUEUED(b);
    tck_proxy_set(proxy, TCK_CUT);
    aside = tck_aside(t, stop, stopping);
    AWAIT(t, atomic_load(&stopping->w->released) == 1);
    tck_sleep_until(simba_loop_now_ms() + LOST_MS / 4);
    EXPECT(t, !tck_ask(b)->mine);
    tck_proxy_set(proxy, TCK_FAIR);
    tck_aside_join(t, aside);
    if (stopping->status == SIMBA_OK) {
        EXPECT_GRANTED(b);
    }
    AWAIT(t, tck_ask(b)->mine);
}

static const struct tck_case cases[] = {
    {"network.lost_reply_is_unknown",
     "An acquire that took effect and whose reply was lost is unknown, never "
     "failed; asked again, it has one tenure or one position (S8).",
     lost_reply_is_unknown, TCK_NETWORK},
    {"network.late_requests_have_no_effect",
     "What was undone or done again over another connection, and arrives after "
     "that, takes, keeps and frees nothing (S5, S8).",
     late_requests_have_no_effect, TCK_NETWORK},
    {"network.silence_is_no_answer",
     "While nothing reaches the servers nobody is told yes, done or who owns "
     "it, and every request is completed soon after its deadline (S1, S8).",
     silence_is_no_answer, TCK_NETWORK},
    {"network.release_in_an_outage_is_made_good",
     "A release that did not get through is repeated, and not said to be done "
     "before (S8).",
     release_in_an_outage_is_made_good, TCK_NETWORK},
};

const struct tck_topic tck_topic_network_doubt = TCK_TOPIC(cases);
