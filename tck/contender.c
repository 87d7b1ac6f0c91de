#include "contender.h"

#include <simba/admin.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Long enough to outlive every test. */
enum {
    WAITER_LIFE_MS = 120000,
    LIFE_TTL_MS = 20000,
    LIFE_TRANSITION_MS = 10000
};

/* On a faulty store a request is given up soon and repeated, as the
 * contention machine does it; and a release leaves a tombstone behind, for one
 * that was given up may still be on its way (S8). */
enum { FAULTY_TRY_MS = 150, FAULTY_TOMBSTONE_MS = 10000 };

/* What a request has, unless there is less patience. */
enum { REQUEST_MS = 10000 };

static void draw_attempt(struct tck_contender *p)
{
    p->attempt.high = tck_random(p->t);
    p->attempt.low = tck_random(p->t);
}

static bool is_stuck(const struct tck *t, const simba_request *request)
{
    assert(request->kind < 32); /* bits of `stuck` */
    return (t->stuck & 1U << request->kind) != 0;
}

static int send(struct tck_contender *p,
                simba_request request,
                simba_error *error)
{
    int rc;

    assert(p->store != NULL);
    request.size = sizeof request;
    request.reply = (simba_reply)SIMBA_REPLY_INIT;
    request.mutex = p->mutex;
    request.id = p->id;
    request.attempt = p->attempt;
    request.token = p->token;
    request.token_above = p->token_above;
    request.slots = p->slots;
    request.ttl_ms = p->times.ttl_ms;
    request.transition_ms = p->times.transition_ms;
    request.waiter_ms = p->waiter_ms;
    if (p->t->is_faulty) {
        request.deadline_ms = simba_loop_now_ms() + FAULTY_TRY_MS;
    }
    if (p->t->is_faulty && request.kind == SIMBA_RELEASE) {
        request.tombstone_ms = FAULTY_TOMBSTONE_MS;
    }
    rc = tck_probe(p->t, p->store, &request, error);
    p->reply = request.reply;
    return rc;
}

int tck_probe(struct tck *t,
              simba_store *store,
              simba_request *request,
              simba_error *error)
{
    int rc;

    if (is_stuck(t, request)) {
        return simba_error_set(error, SIMBA_EUNKNOWN, 0,
                               "the backend did not complete one before; it is "
                               "not tried again");
    }
    if (request->deadline_ms == 0 && t->patience_ms < REQUEST_MS) {
        request->deadline_ms = simba_loop_now_ms() + t->patience_ms;
    }
    rc = simba_probe(store, request, error);
    if (rc == SIMBA_EUNKNOWN &&
        simba_loop_now_ms() >= request->deadline_ms + SIMBA_PROBE_GRACE_MS) {
        t->stuck |= 1U << request->kind;
    }
    return rc;
}

static const simba_reply *run(struct tck_contender *p, simba_request request)
{
    simba_error error = {0};
    int64_t until = tck_patience(p->t), since = simba_loop_now_ms();
    int rc;

    tck_check_wanted(p->t);
    rc = send(p, request, &error);
    while (rc != SIMBA_OK && p->t->is_faulty && !is_stuck(p->t, &request) &&
           simba_loop_now_ms() < until) {
        rc = send(p, request, &error);
    }
    if (rc != SIMBA_OK) {
        tck_check_slow(p->t, TCK_HERE, since, &error);
        tck_fail(p->t, TCK_HERE, "%s of \"%s\": %s: %s",
                 tck_request_name(request.kind), p->mutex,
                 simba_status_name(rc), error.message);
    }
    return &p->reply;
}

static void part(void *what)
{
    struct tck_contender *p = what;

    if (p->t->child == NULL && p->store != NULL) {
        /* A store that fails now has failed the test before. */
        (void)send(p, (simba_request){.kind = SIMBA_RELEASE}, NULL);
        simba_probe_subscription(p->store, p->mutex, SIMBA_SUBSCRIBE_NONE);
    }
}

struct tck_contender *tck_contender(struct tck *t, simba_store *store)
{
    struct tck_contender *p = tck_alloc(t, sizeof *p);

    p->t = t;
    p->store = store;
    tck_at(p, t->mutex);
    tck_as(p, "tck-");
    tck_fresh(p->id + strlen(p->id));
    p->times.ttl_ms = LIFE_TTL_MS;
    p->times.transition_ms = LIFE_TRANSITION_MS;
    p->waiter_ms = WAITER_LIFE_MS;
    draw_attempt(p);
    tck_later(t, part, p);
    return p;
}

void tck_at(struct tck_contender *p, const char *mutex)
{
    snprintf(p->mutex, sizeof p->mutex, "%s", mutex);
}

void tck_as(struct tck_contender *p, const char *id)
{
    snprintf(p->id, sizeof p->id, "%s", id);
}

struct tck_contender *tck_stranger(struct tck *t)
{
    return tck_contender(t, tck_store(t));
}

void tck_gone(struct tck_contender *p)
{
    simba_store *store = p->store;

    assert(store != NULL);
    p->store = NULL;
    tck_now(p->t, store);
}

void tck_begin_anew(struct tck_contender *p)
{
    draw_attempt(p);
    p->token = 0;
    p->position = 0;
}

static const simba_reply *acquire(struct tck_contender *p, bool join)
{
    run(p, (simba_request){
               .kind = SIMBA_ACQUIRE, .position = p->position, .join = join});
    if (p->reply.mine) {
        p->token = p->reply.token;
    }
    if (p->position == 0) {
        p->position = p->reply.position;
    }
    return &p->reply;
}

const simba_reply *tck_ask(struct tck_contender *p)
{
    /* A store may tell the living by what they listen to. */
    simba_probe_subscription(p->store, p->mutex, SIMBA_SUBSCRIBE_WAIT);
    return acquire(p, true);
}

const simba_reply *tck_try(struct tck_contender *p)
{
    return acquire(p, false);
}

const simba_reply *tck_renew(struct tck_contender *p)
{
    return run(p, (simba_request){.kind = SIMBA_RENEW});
}

const simba_reply *tck_release(struct tck_contender *p)
{
    return run(p, (simba_request){.kind = SIMBA_RELEASE});
}

const simba_reply *tck_release_to(struct tck_contender *p, const char *id)
{
    return run(p, (simba_request){.kind = SIMBA_RELEASE, .to = id});
}

const simba_reply *tck_hand_over(struct tck_contender *p, const char *id)
{
    assert(p->token == 0);
    return run(p, (simba_request){.kind = SIMBA_HAND_OVER, .to = id});
}

const simba_reply *tck_tell(struct tck_contender *p, const char *text)
{
    return run(p, (simba_request){.kind = SIMBA_TELL, .reason = text});
}

const simba_reply *tck_undo(struct tck_contender *p, int64_t tombstone_ms)
{
    assert(tombstone_ms >= 0);
    return run(p, (simba_request){.kind = SIMBA_RELEASE,
                                  .tombstone_ms = tombstone_ms});
}

const simba_reply *tck_leave(struct tck_contender *p)
{
    return run(p, (simba_request){.kind = SIMBA_LEAVE});
}

const simba_reply *tck_read(struct tck_contender *p)
{
    return run(p, (simba_request){.kind = SIMBA_READ});
}

size_t tck_count_line(struct tck_contender *p)
{
    simba_report *report;
    size_t count;

    EXPECT_DONE(p->t, simba_admin_show, p->store, p->mutex, &report);
    count = simba_report_waiter_count(report);
    simba_report_close(report);
    return count;
}

/* --- leases -------------------------------------------------------------- */

/* S2 relies on it: the lease is there until its whole length after the request
 * was sent. A backend that answers out of what it knows, without the store
 * having moved the end of the lease, is found here. */
void tck_expect_lease_from(struct tck *t,
                           const simba_reply *(*again)(struct tck_contender *))
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    int64_t lease, began, sent;

    a->times = b->times = t->short_lease;
    lease = tck_lease_ms(&a->times);
    began = simba_loop_now_ms();
    EXPECT_GRANTED(a);
    tck_sleep_until(began + lease / 2);
    sent = simba_loop_now_ms();
    again(a);
    EXPECT_SWIFT(t, began, lease * 9 / 10);
    EXPECT(t, a->reply.mine);
    tck_expect_lease_between(b, sent, lease);
}

void tck_expect_lease_between(struct tck_contender *p,
                              int64_t sent_ms,
                              int64_t lease_ms)
{
    int64_t over_ms = simba_loop_now_ms() + tck_at_most_ms(lease_ms);
    int64_t until_ms = over_ms + p->t->patience_ms;
    int64_t begun_ms = simba_loop_now_ms();

    assert(lease_ms > 0 && sent_ms <= begun_ms);
    while (!tck_try(p)->mine) {
        if (begun_ms > over_ms) {
            tck_fail(p->t, TCK_HERE,
                     "refused %" PRId64 " ms after the end of a lease of "
                     "%" PRId64 " ms",
                     begun_ms - over_ms, lease_ms);
        }
        tck_pause(p->t, until_ms, TCK_HERE, "the end of a lease");
        begun_ms = simba_loop_now_ms();
    }
    EXPECT_LEASE_PASSED(p->t, sent_ms, lease_ms);
}

bool tck_is_granted(struct tck_contender *p)
{
    int64_t until_ms = simba_loop_now_ms() + p->t->patience_ms;

    while (!tck_ask(p)->mine && p->t->is_faulty &&
           p->reply.owner.id[0] == '\0' && simba_loop_now_ms() < until_ms) {
        tck_sleep_until(simba_loop_now_ms() + 10);
    }
    return p->reply.mine;
}
