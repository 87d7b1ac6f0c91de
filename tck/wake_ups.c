/* wake-ups: a push from the store wakes those who wait, and does nothing else
 * (S7, S10). */
#include "contender.h"
#include "topics.h"
#include "witness.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Far below the long lease, at whose end a waiter would ask by itself. */
enum {
    WAKE_MOST_MS = 10000,
    SETTLED_MS = 50,
    REST_MS = 200,
    UNOFFERED_MS = 150
};

static int64_t soon(const struct tck *t)
{
    int64_t most =
        t->patience_ms < WAKE_MOST_MS ? t->patience_ms : WAKE_MOST_MS;

    return simba_loop_now_ms() + most;
}

static void release_wakes_the_next(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_witness *w = tck_witness(t);

    EXPECT_GRANTED(a);
    tck_contend(w, tck_store(t));
    AWAIT(t, simba_service_status(w->service) == SIMBA_RUNNING);
    tck_release(a);
    AWAIT_UNTIL(t, atomic_load(&w->acquired) == 1, soon(t));
}

/* On the short lease asking again is as near as it can be. That it was not by
 * this is seen in the end, as of all tests where nothing lapses. */
static void release_is_not_waited_out(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_witness *w[2];

    a->times = t->short_lease;
    EXPECT_GRANTED(a);
    for (int i = 0; i < 2; i++) {
        w[i] = tck_witness(t);
        w[i]->contender.times.ttl_ms = t->short_lease.ttl_ms;
        w[i]->contender.times.transition_ms = t->short_lease.transition_ms;
        tck_contend(w[i], tck_store(t));
        AWAIT(t, simba_service_status(w[i]->service) == SIMBA_RUNNING);
    }
    tck_release(a);
    AWAIT(t, atomic_load(&w[0]->acquired) + atomic_load(&w[1]->acquired) > 0);
    tck_stop(w[atomic_load(&w[0]->acquired) > 0 ? 0 : 1]);
    AWAIT(t, atomic_load(&w[0]->acquired) + atomic_load(&w[1]->acquired) > 1);
}

static void release_wakes_one_after_the_other(struct tck *t)
{
    struct tck_witness *w[6];
    int64_t until;

    for (int i = 0; i < 6; i++) {
        w[i] = tck_witness(t);
        tck_contend(w[i], tck_store(t));
        AWAIT(t, simba_service_status(w[i]->service) == SIMBA_RUNNING);
    }
    until = soon(t) + soon(t) - simba_loop_now_ms();
    for (int i = 0; i < 6; i++) {
        AWAIT_UNTIL(t, atomic_load(&w[i]->acquired) == 1, until);
        tck_stop(w[i]);
    }
}

/* Several contenders of one handle wait: the right one is woken. */
static void handle_wakes_its_contenders_in_order(struct tck *t)
{
    simba_store *store = tck_store(t);
    struct tck_witness *w[4];
    int64_t until;

    for (int i = 0; i < 4; i++) {
        w[i] = tck_witness(t);
        tck_contend(w[i], store);
        AWAIT(t, simba_service_status(w[i]->service) == SIMBA_RUNNING);
    }
    until = soon(t) + soon(t) - simba_loop_now_ms();
    for (int i = 0; i < 4; i++) {
        AWAIT_UNTIL(t, atomic_load(&w[i]->acquired) == 1, until);
        tck_close(w[i]);
    }
}

enum { HANDOVERS = 9, HANDOVER_MS = 60, REQUESTS = 20 };

static int64_t median(int64_t *of)
{
    for (int i = 1; i < HANDOVERS; i++) {
        for (int j = i; j > 0 && of[j] < of[j - 1]; j--) {
            int64_t less = of[j];

            of[j] = of[j - 1];
            of[j - 1] = less;
        }
    }
    return of[HANDOVERS / 2];
}

/* A store that asks its server now and then, and calls that a push, is slower
 * than this. So is a busy machine, but its requests are slow as well. */
static void come_at_once(struct tck *t)
{
    struct tck_contender *reader = tck_stranger(t);
    struct tck_witness *w[2] = {tck_witness(t), tck_witness(t)};
    int64_t took[HANDOVERS], asked[HANDOVERS];

    tck_contend(w[0], tck_store(t));
    AWAIT(t, atomic_load(&w[0]->acquired) == 1);
    tck_open(w[1], tck_store(t));
    for (int i = 0; i < HANDOVERS; i++) {
        struct tck_witness *next = w[(i + 1) % 2];
        int before = atomic_load(&next->acquired);
        int64_t since;

        tck_start(next);
        AWAIT(t, tck_count_line(reader) == 1);
        since = simba_loop_now_ms();
        tck_read(reader);
        asked[i] = simba_loop_now_ms() - since;
        since = simba_loop_now_ms();
        tck_stop(w[i % 2]);
        AWAIT(t, atomic_load(&next->acquired) > before);
        took[i] = simba_loop_now_ms() - since;
    }
    if (median(took) > HANDOVER_MS + REQUESTS * median(asked)) {
        tck_too_slow(t, TCK_HERE);
    }
}

static int64_t cpu_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Measured by the processor, so that a busy machine is no excuse. */
static void waiting_is_resting(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_witness *w = tck_witness(t);
    int64_t before;

    EXPECT_GRANTED(a);
    tck_contend(w, tck_store(t));
    AWAIT(t, tck_count_line(a) == 1);
    tck_sleep_until(simba_loop_now_ms() + SETTLED_MS);
    before = cpu_ms();
    tck_sleep_until(simba_loop_now_ms() + REST_MS);
    EXPECT(t, cpu_ms() - before < REST_MS / 3);
    tck_release(a);
    AWAIT(t, atomic_load(&w->acquired) == 1);
}

/* Others come and go around it, the owner renews: whatever it hears of that, it
 * still hears of the release. */
static void nothing_uses_them_up(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *before = tck_stranger(t);
    struct tck_contender *behind = tck_stranger(t);
    struct tck_witness *w = tck_witness(t);

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(before);
    tck_contend(w, tck_store(t));
    AWAIT(t, tck_count_line(a) == 2);
    for (int i = 0; i < 3; i++) {
        EXPECT_QUEUED(behind);
        EXPECT(t, tck_renew(a)->mine);
        tck_leave(behind);
        tck_begin_anew(behind);
    }
    tck_leave(before);
    AWAIT(t, tck_count_line(a) == 1);
    EXPECT(t, tck_renew(a)->mine);
    tck_sleep_until(simba_loop_now_ms() + SETTLED_MS);
    tck_release(a);
    AWAIT_UNTIL(t, atomic_load(&w->acquired) == 1, soon(t));
}

/* The one that was offered it goes away instead of coming. */
static void leaving_wakes_the_next(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_witness *w = tck_witness(t);
    int64_t since;

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    tck_contend(w, tck_store(t));
    AWAIT(t, simba_service_status(w->service) == SIMBA_RUNNING);
    tck_release(a);
    /* It was told of the offer, and rests until that would be over. */
    tck_sleep_until(simba_loop_now_ms() + SETTLED_MS);
    since = simba_loop_now_ms();
    tck_leave(b);
    AWAIT_UNTIL(t, atomic_load(&w->acquired) == 1, soon(t));
    EXPECT_SWIFT(t, since, UNOFFERED_MS);
}

/* The first was told, and is silent: the second shall not need the backstop. */
static void second_in_the_queue_is_woken_too(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *silent = tck_stranger(t);
    struct tck_witness *w = tck_witness(t);

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(silent);
    tck_contend(w, tck_store(t));
    AWAIT(t, tck_count_line(a) == 2);
    tck_release(a);
    if (strcmp(tck_read(a)->owner.id, silent->id) == 0) {
        tck_skip(t, "where the first does not own without asking");
    }
    AWAIT_UNTIL(t, atomic_load(&w->acquired) == 1, soon(t));
}

/* First and second in the queue are told of a release; only one may own it. A
 * backend that believes its wake-up grants both. */
static void wake_alone_grants_nothing(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    EXPECT_QUEUED(c);
    tck_release(a);
    AWAIT(t, tck_ask(b)->mine || tck_ask(c)->mine);
    for (int i = 0; i < 20; i++) {
        struct tck_contender *owner = b->token > c->token ? b : c;
        struct tck_contender *other = owner == b ? c : b;

        EXPECT(t, !tck_ask(other)->mine);
        EXPECT_TEXT(t, tck_read(other)->owner.id, owner->id);
        tck_sleep_until(simba_loop_now_ms() + 2);
    }
}

/* --- through the shim `fault` -------------------------------------------- */

/* A handle on the store under test that does this to its wake-ups. */
static simba_store *with_wakes(struct tck *t, const char *fate)
{
    char *url;

    if (t->url == NULL) {
        tck_skip(t, "where the store is given by URL");
    }
    url = tck_alloc(t, strlen(t->url) + 64);

    snprintf(url, strlen(t->url) + 64, "fault:%s=100:%s", fate, t->url);
    return tck_store_at(t, url);
}

static struct tck_witness *waiting_with_wakes(struct tck *t, const char *fate)
{
    struct tck_witness *w = tck_witness(t);

    w->contender.times.ttl_ms = t->short_lease.ttl_ms;
    w->contender.times.transition_ms = t->short_lease.transition_ms;
    tck_contend(w, with_wakes(t, fate));
    return w;
}

/* The backstop: who waits asks again when the owner's lease would end. */
static void all_lost_somebody_is_granted(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_witness *w[2];

    a->times = t->short_lease;
    EXPECT_GRANTED(a);
    for (int i = 0; i < 2; i++) {
        w[i] = waiting_with_wakes(t, "wake_lose");
    }
    tck_release(a);
    for (int i = 0; i < 2; i++) {
        AWAIT(t,
              atomic_load(&w[0]->acquired) + atomic_load(&w[1]->acquired) > i);
        tck_stop(w[atomic_load(&w[0]->acquired) > i ? 0 : 1]);
    }
    EXPECT_ORDERLY(w[0]);
    EXPECT_ORDERLY(w[1]);
}

static void all_doubled_nobody_is_granted_twice(struct tck *t)
{
    struct tck_witness *w[3];

    for (int i = 0; i < 3; i++) {
        w[i] = waiting_with_wakes(t, "wake_double");
    }
    tck_pass_around(w, 3, 3);
    for (int i = 0; i < 3; i++) {
        EXPECT_ORDERLY(w[i]);
    }
}

static const struct tck_case cases[] = {
    {"wake_ups.release_wakes_the_next",
     "After a release the next in the queue owns the mutex long before the "
     "lease "
     "would have ended (S10).",
     release_wakes_the_next, TCK_QUICK | TCK_PUSH},
    {"wake_ups.release_is_not_waited_out",
     "It is woken, and does not get the mutex by asking again when a lease or "
     "an offer ends; nor does anybody in other tests where none lapses (S10).",
     release_is_not_waited_out, TCK_QUICK | TCK_PUSH},
    {"wake_ups.release_wakes_one_after_the_other",
     "So do those behind it, each on a handle of its own.",
     release_wakes_one_after_the_other, TCK_PUSH},
    {"wake_ups.handle_wakes_its_contenders_in_order",
     "So do several contenders that wait on one handle.",
     handle_wakes_its_contenders_in_order, TCK_PUSH},
    {"wake_ups.leaving_wakes_the_next",
     "When the one that was offered it leaves, the one behind it is woken.",
     leaving_wakes_the_next, TCK_PUSH},
    {"wake_ups.second_in_the_queue_is_woken_too",
     "When the one that was offered it does not come, the one behind it owns "
     "the "
     "mutex long before the lease would have ended (S10).",
     second_in_the_queue_is_woken_too, TCK_PUSH | TCK_LAPSES},
    {"wake_ups.nothing_uses_them_up",
     "Renewals, and others who come and go, cost nobody its wake-up (S10).",
     nothing_uses_them_up, TCK_PUSH},
    {"wake_ups.waiting_is_resting",
     "Who waits to be woken leaves the processor to others.",
     waiting_is_resting, TCK_PUSH},
    {"wake_ups.come_at_once",
     "A hand-over takes a few requests, not the interval of a poll (S10).",
     come_at_once, TCK_QUICK | TCK_PUSH},
    {"wake_ups.wake_up_alone_grants_nothing",
     "Of those who are told of a release one owns the mutex, and a read names "
     "it (S7).",
     wake_alone_grants_nothing, 0},
    {"wake_ups.all_lost_somebody_is_granted",
     "With every wake-up lost, those who wait are granted all the same (S10).",
     all_lost_somebody_is_granted, TCK_LAPSES},
    {"wake_ups.all_doubled_nobody_is_granted_twice",
     "With every wake-up doubled, tenures and callbacks stay as they are (S7).",
     all_doubled_nobody_is_granted_twice, 0},
};

const struct tck_topic tck_topic_wake_ups = TCK_TOPIC(cases);
