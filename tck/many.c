/* many: ten contenders of one mutex, in one process and in several; a thousand
 * mutexes on one handle. */
#include "child.h"
#include "contender.h"
#include "topics.h"
#include "witness.h"

#include <simba/admin.h>

#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>

enum { TEN = 10, THOUSAND = 1000 };

/* Of two contenders that say they own it within one moment, one lies: A said
 * so before and after B did, in one tenure. */
static void expect_one_owner(struct tck *t,
                             struct tck_witness **w,
                             size_t count)
{
    for (size_t a = 0; a < count; a++) {
        uint64_t token = simba_service_token(w[a]->service);

        for (size_t b = 0; token != 0 && b < count; b++) {
            if (b != a && simba_service_is_owner(w[b]->service) &&
                simba_service_token(w[a]->service) == token) {
                tck_fail(t, TCK_HERE, "two contenders owned the mutex at once");
            }
        }
    }
}

/* Each gets it once and goes. */
static void take_turns(struct tck *t, struct tck_witness **w)
{
    int64_t until = tck_patience(t) + tck_lease_ms(&t->long_lease);
    int left = TEN;

    while (left > 0) {
        expect_one_owner(t, w, TEN);
        for (int i = 0; i < TEN; i++) {
            if (simba_service_status(w[i]->service) != SIMBA_INITIAL &&
                atomic_load(&w[i]->acquired) > 0) {
                tck_stop(w[i]);
                left--;
            }
        }
        tck_pause(t, until, TCK_HERE, "ten contenders to own it once");
    }
}

static void ten_contenders_on_one_handle(struct tck *t)
{
    simba_store *store = tck_store(t);
    struct tck_witness *w[TEN];

    for (int i = 0; i < TEN; i++) {
        w[i] = tck_witness(t);
        tck_contend(w[i], store);
    }
    take_turns(t, w);
    for (int i = 0; i < TEN; i++) {
        EXPECT_ORDERLY(w[i]);
    }
}

static void ten_contenders_on_ten_handles(struct tck *t)
{
    struct tck_witness *w[TEN];

    for (int i = 0; i < TEN; i++) {
        w[i] = tck_witness(t);
        tck_contend(w[i], tck_store(t));
    }
    take_turns(t, w);
    for (int i = 0; i < TEN; i++) {
        EXPECT_ORDERLY(w[i]);
    }
}

/* --- at once ------------------------------------------------------------- */

enum { RUNNERS = 5, RACES = 20 };

struct race {
    struct tck *t;
    simba_store *stores[RUNNERS];
    char mutex[64];
    _Atomic int number; /* of the race that is on */
    _Atomic int runners, arrived, granted, refused;
    _Atomic bool is_over;
};

/* All of them ask for a free mutex in the same moment. */
static void run_races(void *what)
{
    struct race *race = what;
    int self = atomic_fetch_add(&race->runners, 1);
    uint64_t lots = (uint64_t)self;

    for (int i = 1; i <= RACES; i++) {
        simba_request request = SIMBA_REQUEST_INIT;
        char id[16];

        snprintf(id, sizeof id, "runner %d", self);
        request.kind = SIMBA_ACQUIRE;
        request.mutex = race->mutex;
        request.id = id;
        request.attempt.high = tck_draw(&lots);
        request.attempt.low = (uint64_t)self;
        request.ttl_ms = race->t->long_lease.ttl_ms;
        request.transition_ms = race->t->long_lease.transition_ms;
        while (atomic_load(&race->number) < i) {
            if (atomic_load(&race->is_over)) {
                return;
            }
            (void)sched_yield();
        }
        if (simba_probe(race->stores[self], &request, NULL) == SIMBA_OK) {
            atomic_fetch_add(
                request.reply.mine ? &race->granted : &race->refused, 1);
        }
        atomic_fetch_add(&race->arrived, 1);
    }
}

static void end_races(void *what)
{
    atomic_store((_Atomic bool *)what, true);
}

static void one_of_those_who_come_at_once(struct tck *t)
{
    struct race *race = tck_alloc(t, sizeof *race);

    race->t = t;
    for (int i = 0; i < RUNNERS; i++) {
        race->stores[i] = tck_store(t);
    }
    for (int i = 0; i < RUNNERS; i++) {
        (void)tck_aside(t, run_races, race);
    }
    tck_later(t, end_races, &race->is_over);
    for (int i = 1; i <= RACES; i++) {
        snprintf(race->mutex, sizeof race->mutex, "%s %d", t->mutex, i);
        atomic_store(&race->number, i);
        AWAIT(t, atomic_load(&race->arrived) == i * RUNNERS);
        EXPECT(t, atomic_load(&race->granted) <= i);
        EXPECT(t, atomic_load(&race->refused) <= i * (RUNNERS - 1));
    }
}

/* --- processes ----------------------------------------------------------- */

enum { PROCESSES = 4, ROUNDS = 15 };

/* What the processes do one at a time. */
struct shared {
    _Atomic uint64_t sum, last_token;
    _Atomic int inside;
};

static struct shared *shared;

static void count_alone(struct tck *t, uint64_t token)
{
    uint64_t sum = atomic_load(&shared->sum);

    EXPECT_NUMBER(t, atomic_fetch_add(&shared->inside, 1), 0);
    EXPECT(t, token > atomic_load(&shared->last_token));
    atomic_store(&shared->last_token, token);
    (void)sched_yield();
    atomic_store(&shared->sum, sum + 1);
    EXPECT_NUMBER(t, atomic_fetch_sub(&shared->inside, 1), 1);
}

static void work(struct tck *t, struct tck_child *self)
{
    simba_locker *locker = tck_locker(t, tck_store(t));

    (void)self;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t token = 0;

        EXPECT_STATUS(t, simba_locker_acquire(locker, 60000, &token, NULL),
                      SIMBA_OK);
        count_alone(t, token);
        EXPECT_STATUS(t, simba_locker_release(locker, NULL), SIMBA_OK);
    }
}

static void unmap_shared(void *what)
{
    (void)munmap(what, sizeof(struct shared));
}

static void processes_take_turns(struct tck *t)
{
    struct tck_child *children[PROCESSES];

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(t, shared != MAP_FAILED);
    tck_later(t, unmap_shared, shared);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = tck_child(t, work);
    }
    for (int i = 0; i < PROCESSES; i++) {
        tck_child_join(t, children[i]);
    }
    EXPECT_NUMBER(t, atomic_load(&shared->sum), PROCESSES * ROUNDS);
}

/* --- mutexes ------------------------------------------------------------- */

static size_t count_listed(struct tck *t, simba_store *store, const char *glob)
{
    simba_report *report;
    size_t count;

    EXPECT_DONE(t, simba_admin_list, store, glob, &report);
    count = simba_report_mutex_count(report);
    simba_report_close(report);
    return count;
}

static void thousand_mutexes_on_one_handle(struct tck *t)
{
    simba_store *store = tck_store(t);
    struct tck_witness **w = tck_alloc(t, THOUSAND * sizeof(void *));
    struct tck_contender *reader = tck_stranger(t);
    int64_t until = tck_patience(t) + tck_patience(t) - simba_loop_now_ms();
    char name[80];

    for (int i = 0; i < THOUSAND; i++) {
        snprintf(name, sizeof name, "%s/%d", t->mutex, i);
        w[i] = tck_witness(t);
        w[i]->contender.mutex = name;
        tck_contend(w[i], store);
    }
    for (int i = 0; i < THOUSAND; i++) {
        AWAIT_UNTIL(t, atomic_load(&w[i]->acquired) == 1, until);
        EXPECT(t, simba_service_is_owner(w[i]->service));
    }
    tck_at(reader, name);
    EXPECT_TEXT(t, tck_read(reader)->owner.id, w[THOUSAND - 1]->id);
    if ((t->ops.capabilities & SIMBA_CAN_LIST) != 0) {
        snprintf(name, sizeof name, "%s/*", t->mutex);
        EXPECT_NUMBER(t, count_listed(t, store, name), THOUSAND);
    }
    for (int i = 0; i < THOUSAND; i++) {
        tck_close(w[i]);
        EXPECT_NUMBER(t, atomic_load(&w[i]->released), 1);
        EXPECT_ORDERLY(w[i]);
    }
    EXPECT_FREE(reader);
}

static const struct tck_case cases[] = {
    {"many.ten_contenders_on_one_handle",
     "Ten contenders of one handle own the mutex one at a time, each in turn.",
     ten_contenders_on_one_handle, TCK_QUICK | TCK_SAFETY},
    {"many.ten_contenders_on_ten_handles",
     "So do ten contenders on handles of their own.",
     ten_contenders_on_ten_handles, TCK_SAFETY},
    {"many.one_of_those_who_come_at_once",
     "Of several who ask for a free mutex in the same moment one is granted.",
     one_of_those_who_come_at_once, TCK_QUICK},
    {"many.processes_take_turns",
     "So do processes: what they count one at a time comes to the right sum, "
     "under growing tokens.",
     processes_take_turns, TCK_PROCESSES},
    {"many.thousand_mutexes_on_one_handle",
     "A thousand mutexes are owned through one handle at once, listed where "
     "they can be, and freed.",
     thousand_mutexes_on_one_handle, 0},
};

const struct tck_topic tck_topic_many = TCK_TOPIC(cases);
