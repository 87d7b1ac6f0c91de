/* many: ten contenders of one mutex, in one process and in several; a thousand
 * mutexes on one handle. */
#include "child.h"
#include "contender.h"
#include "topics.h"
#include "witness.h"

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
    {"many.processes_take_turns",
     "So do processes: what they count one at a time comes to the right sum, "
     "under growing tokens.",
     processes_take_turns, TCK_PROCESSES},
    {"many.thousand_mutexes_on_one_handle",
     "A thousand mutexes are owned through one handle at once, and freed.",
     thousand_mutexes_on_one_handle, 0},
};

const struct tck_topic tck_topic_many = TCK_TOPIC(cases);
