/* expire: who is gone does not keep the mutex, and who is not keeps it. */
#include "child.h"
#include "contender.h"
#include "topics.h"
#include "witness.h"

#include <simba/admin.h>

#include <signal.h>
#include <stdio.h>

static void unrenewed_mutex_passes_on(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    a->times = b->times = t->short_lease;
    EXPECT_GRANTED(a);
    AWAIT(t, tck_ask(b)->mine);
    tck_release(a); /* late, and to nobody's harm (S5) */
    EXPECT_OWNS(b);
}

static void not_before_its_time(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    int64_t sent = simba_loop_now_ms();

    a->times = b->times = t->short_lease;
    EXPECT_GRANTED(a);
    AWAIT(t, tck_try(b)->mine);
    EXPECT_LEASE_PASSED(t, sent, tck_lease_ms(&a->times));
}

/* Neither a whole number of seconds nor of tenths. */
static void lease_is_not_rounded(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    int64_t sent = simba_loop_now_ms();

    a->times = t->short_lease;
    a->times.ttl_ms += 73;
    a->times.transition_ms += 117;
    EXPECT_GRANTED(a);
    tck_expect_lease_between(b, sent, tck_lease_ms(&a->times));
}

static void lapsed_mutex_has_no_owner(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    bool is_listed;

    a->times = t->short_lease;
    EXPECT_GRANTED(a);
    AWAIT(t, tck_read(a)->owner.id[0] == '\0');
    EXPECT_NUMBER(t, a->reply.owner.token, 0);
    if ((t->ops.capabilities & SIMBA_CAN_LIST) != 0) {
        simba_report *report;

        EXPECT_DONE(t, simba_admin_list, a->store, t->mutex, &report);
        is_listed = simba_report_mutex_count(report) > 0 &&
                    simba_report_mutex(report, 0)->owner.id[0] != '\0';
        simba_report_close(report);
        EXPECT(t, !is_listed);
    }
}

/* Its end is known to those who wait: no longer than the lease. */
static void refusal_tells_how_long_to_wait(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a); /* nor so short that who waits would ask all the time */
    EXPECT_QUEUED(b);
    EXPECT(t, b->reply.wait_ms >= 1000);
    tck_leave(b);
    tck_release(a);
    tck_begin_anew(a);
    tck_begin_anew(b);

    a->times = b->times = t->short_lease;
    EXPECT_GRANTED(a);
    tck_try(b);
    EXPECT(t,
           b->reply.mine || (b->reply.wait_ms >= 0 &&
                             b->reply.wait_ms <= tck_lease_ms(&a->times) + 1));
}

static void queue_goes_before_newcomers(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *late = tck_stranger(t);
    int64_t since;

    a->times = b->times = late->times = t->short_lease;
    EXPECT_GRANTED(a);
    tck_ask(b);
    if (b->reply.mine) {
        tck_too_slow(t, TCK_HERE);
    }
    AWAIT(t, tck_read(a)->owner.id[0] == '\0');
    since = simba_loop_now_ms();
    tck_ask(late);
    tck_ask(b);
    EXPECT_SWIFT(t, since, 280); /* then b would have lost its offer */
    EXPECT(t, !late->reply.mine);
    EXPECT(t, b->reply.mine);
}

static void lapsed_owner_waits_like_anybody(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    a->times = t->short_lease; /* and b has a long one */
    EXPECT_GRANTED(a);
    AWAIT(t, tck_ask(b)->mine);
    EXPECT(t, !tck_renew(a)->mine);
    EXPECT_QUEUED(a);
    tck_release(b);
    EXPECT_GRANTED(a);
    EXPECT(t, a->token > b->token);
}

/* Nobody came meanwhile, and nobody looked: it is another tenure all the same,
 * for its owner has been told that the first is over. */
static void lapsed_attempt_gets_a_new_token(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    uint64_t token;

    a->times = t->short_lease;
    EXPECT_GRANTED(a);
    token = a->token;
    tck_sleep_until(simba_loop_now_ms() +
                    tck_at_most_ms(tck_lease_ms(&a->times)));
    EXPECT_GRANTED(a);
    EXPECT(t, a->token > token);
}

enum { SEVERAL = 3 };

/* A running service outlives many leases while somebody waits for it, and that
 * one its session; so do several of one handle, whose renewals may go together.
 */
static void service_keeps_its_mutex(struct tck *t)
{
    simba_store *store = tck_store(t), *other = tck_store(t);
    struct tck_witness *w[SEVERAL];
    struct tck_contender *b[SEVERAL];
    int64_t lease = tck_lease_ms(&t->short_lease);
    int64_t until;

    for (int i = 0; i < SEVERAL; i++) {
        char name[64];

        snprintf(name, sizeof name, "%s %d", t->mutex, i);
        w[i] = tck_witness(t);
        w[i]->contender.mutex = name;
        w[i]->contender.times.ttl_ms = t->short_lease.ttl_ms;
        w[i]->contender.times.transition_ms = t->short_lease.transition_ms;
        b[i] = tck_contender(t, other);
        b[i]->times = t->short_lease;
        tck_at(b[i], name);
        tck_contend(w[i], store);
        AWAIT(t, atomic_load(&w[i]->acquired) == 1);
    }
    for (until = simba_loop_now_ms() + 2 * lease + lease / 2;
         simba_loop_now_ms() < until;) {
        for (int i = 0; i < SEVERAL; i++) {
            tck_ask(b[i]);
            if (b[i]->reply.mine) {
                EXPECT(t, !simba_service_is_owner(w[i]->service));
                tck_too_slow(t, TCK_HERE); /* it could not renew in time */
            }
            EXPECT_NUMBER(t, b[i]->reply.position, b[i]->position);
        }
        tck_sleep_until(simba_loop_now_ms() + lease / 20);
    }
    for (int i = 0; i < SEVERAL; i++) {
        EXPECT(t, simba_service_is_owner(w[i]->service));
        EXPECT_NUMBER(t, atomic_load(&w[i]->acquired), 1);
        tck_close(w[i]);
        EXPECT_ORDERLY(w[i]);
    }
}

/* --- processes ----------------------------------------------------------- */

enum { OWNS = 1, LOOK_AGAIN = 2, LOOKED = 3 };

static void own_for_ever(struct tck *t, struct tck_child *self)
{
    struct tck_witness *w = tck_witness(t);

    w->contender.times.ttl_ms = t->short_lease.ttl_ms;
    w->contender.times.transition_ms = t->short_lease.transition_ms;
    tck_contend(w, tck_store(t));
    AWAIT(t, simba_service_is_owner(w->service));
    atomic_store(&self->numbers[0], simba_service_token(w->service));
    atomic_store(&self->step, OWNS);
    tck_child_obey(t, self, LOOK_AGAIN);
    /* The first thing it does when it runs again (S3). */
    atomic_store(&self->numbers[1], simba_service_token(w->service));
    atomic_store(&self->step, LOOKED);
    tck_child_obey(t, self, LOOKED);
}

static void killed_process_passes_on(struct tck *t)
{
    struct tck_child *child = tck_child(t, own_for_ever);
    struct tck_witness *w = tck_witness(t);

    w->contender.times.ttl_ms = t->short_lease.ttl_ms;
    w->contender.times.transition_ms = t->short_lease.transition_ms;
    tck_child_await(t, child, OWNS);
    tck_contend(w, tck_store(t));
    AWAIT(t, simba_service_status(w->service) == SIMBA_RUNNING);
    tck_child_signal(t, child, SIGKILL);
    AWAIT(t, simba_service_is_owner(w->service));
    EXPECT(t,
           simba_service_token(w->service) > atomic_load(&child->numbers[0]));
    tck_close(w);
    EXPECT_ORDERLY(w);
}

static void stopped_process_knows_it_lost(struct tck *t)
{
    struct tck_child *child = tck_child(t, own_for_ever);
    struct tck_witness *w = tck_witness(t);

    w->contender.times.ttl_ms = t->short_lease.ttl_ms;
    w->contender.times.transition_ms = t->short_lease.transition_ms;
    tck_child_await(t, child, OWNS);
    tck_contend(w, tck_store(t));
    tck_child_signal(t, child, SIGSTOP);
    AWAIT(t, simba_service_is_owner(w->service));
    atomic_store(&child->order, LOOK_AGAIN);
    tck_child_signal(t, child, SIGCONT);
    tck_child_await(t, child, LOOKED);
    EXPECT(t, atomic_load(&child->numbers[1]) == 0 ||
                  !simba_service_is_owner(w->service));
    atomic_store(&child->order, LOOKED);
    tck_child_join(t, child);
}

static const struct tck_case cases[] = {
    {"expire.unrenewed_mutex_passes_on",
     "A mutex that is not renewed goes to the next when its lease is over.",
     unrenewed_mutex_passes_on, TCK_TENURE_LEASE},
    {"expire.not_before_its_time",
     "Nobody else is granted before ttl and transition have passed (S1).",
     not_before_its_time, TCK_TENURE_LEASE},
    {"expire.lease_is_not_rounded",
     "A lease of an odd length ends at its time: not before, and not at the "
     "next full second.",
     lease_is_not_rounded, TCK_TENURE_LEASE},
    {"expire.lapsed_mutex_has_no_owner",
     "After its lease a read and a list show no owner and no token.",
     lapsed_mutex_has_no_owner, TCK_TENURE_LEASE},
    {"expire.refusal_tells_how_long_to_wait",
     "A refusal says after which time asking again makes sense: at most the "
     "owner's lease.",
     refusal_tells_how_long_to_wait, 0},
    {"expire.queue_goes_before_newcomers",
     "When a lease lapses the queue is served, not who comes by (S11).",
     queue_goes_before_newcomers, TCK_TENURE_LEASE},
    {"expire.lapsed_owner_waits_like_anybody",
     "Who lost the mutex gets it back only as a new tenure.",
     lapsed_owner_waits_like_anybody, TCK_TENURE_LEASE},
    {"expire.lapsed_attempt_gets_a_new_token",
     "An attempt that asks again after its lease is a new tenure, also when "
     "nobody came between (S4, S5).",
     lapsed_attempt_gets_a_new_token, TCK_TENURE_LEASE},
    {"expire.service_keeps_its_mutex",
     "Running services own their mutexes for many leases while others wait.",
     service_keeps_its_mutex, 0},
    {"expire.killed_process_passes_on",
     "What a killed process owned goes to the next, with a greater token.",
     killed_process_passes_on, TCK_PROCESSES | TCK_LAPSES},
    {"expire.stopped_process_knows_it_lost",
     "A process that was stopped over its lease answers no when it runs again "
     "(S3).",
     stopped_process_knows_it_lost, TCK_PROCESSES | TCK_LAPSES},
};

const struct tck_topic tck_topic_expire = TCK_TOPIC(cases);
