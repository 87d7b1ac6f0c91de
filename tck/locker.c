/* locker: the blocking way. */
#include "contender.h"
#include "topics.h"
#include "witness.h"

/* A wait that only ends for a reason. */
enum { LONG_WAIT_MS = 30000 };

static void acquires_and_releases(struct tck *t)
{
    simba_locker *locker = tck_locker(t, tck_store(t));
    struct tck_contender *b = tck_stranger(t);
    uint64_t token = 0;

    EXPECT(t, !simba_locker_is_owner(locker));
    EXPECT_STATUS(t, simba_locker_acquire(locker, LONG_WAIT_MS, &token, NULL),
                  SIMBA_OK);
    EXPECT(t, simba_locker_is_owner(locker));
    EXPECT_NUMBER(t, simba_locker_token(locker), token);
    EXPECT_NUMBER(t, tck_read(b)->owner.token, token);
    EXPECT_STATUS(t, simba_locker_release(locker, NULL), SIMBA_OK);
    EXPECT(t, !simba_locker_is_owner(locker));
    EXPECT_FREE(b);
}

static void try_of_a_held_mutex_is_busy(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    simba_locker *locker = tck_locker(t, tck_store(t));

    EXPECT_GRANTED(a);
    EXPECT_STATUS(t, simba_locker_acquire(locker, 0, NULL, NULL), SIMBA_EBUSY);
    tck_release(a);
    EXPECT_STATUS(t, simba_locker_acquire(locker, 0, NULL, NULL), SIMBA_OK);
}

static void timeout_leaves_the_queue(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);
    simba_locker *locker = tck_locker(t, tck_store(t));
    int64_t began = simba_loop_now_ms();

    EXPECT_GRANTED(a);
    EXPECT_STATUS(t, simba_locker_acquire(locker, 200, NULL, NULL),
                  SIMBA_ETIMEDOUT);
    EXPECT(t, simba_loop_now_ms() - began >= 199);
    EXPECT(t, !simba_locker_is_owner(locker));
    EXPECT_QUEUED(c);
    EXPECT(t, c->reply.is_head);
    tck_release(a);
    EXPECT_GRANTED(c);
}

/* A locker that waits on a thread of its own. */
struct waiting {
    simba_locker *locker;
    _Atomic int rc;
    _Atomic uint64_t token;
};

static void wait_long(void *what)
{
    struct waiting *w = what;
    uint64_t token = 0;

    atomic_store(&w->rc,
                 simba_locker_acquire(w->locker, LONG_WAIT_MS, &token, NULL));
    atomic_store(&w->token, token);
}

/* Is there anybody in the queue? Asks as a newcomer, and leaves again. */
static bool is_behind_another(struct tck_contender *p)
{
    bool is_head;

    tck_begin_anew(p);
    EXPECT_QUEUED(p);
    is_head = p->reply.is_head;
    tck_leave(p);
    return !is_head;
}

static void cancel_ends_the_wait(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);
    struct waiting *w = tck_alloc(t, sizeof *w);
    struct tck_aside *aside;

    EXPECT_GRANTED(a);
    w->locker = tck_locker(t, tck_store(t));
    simba_locker_cancel(w->locker); /* nobody waits: nothing happens */
    aside = tck_aside(t, wait_long, w);
    AWAIT(t, is_behind_another(c));
    while (!tck_aside_is_done(aside)) {
        simba_locker_cancel(w->locker);
        tck_sleep_until(simba_loop_now_ms() + 1);
    }
    tck_aside_join(t, aside);
    EXPECT_STATUS(t, atomic_load(&w->rc), SIMBA_ECANCELED);
    /* Soon: who was not refused yet does not wait for its undoing. */
    AWAIT(t, !is_behind_another(c));
}

static void waits_until_it_is_free(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *reader = tck_stranger(t);
    struct waiting *w = tck_alloc(t, sizeof *w);
    struct tck_aside *aside;

    EXPECT_GRANTED(a);
    w->locker = tck_locker(t, tck_store(t));
    aside = tck_aside(t, wait_long, w);
    for (int i = 0; i < 10; i++) {
        EXPECT_OWNS(a);
        EXPECT(t, !tck_aside_is_done(aside));
    }
    tck_release(a);
    AWAIT_UNTIL(t, tck_aside_is_done(aside),
                simba_loop_now_ms() + LONG_WAIT_MS);
    tck_aside_join(t, aside);
    EXPECT_STATUS(t, atomic_load(&w->rc), SIMBA_OK);
    EXPECT(t, atomic_load(&w->token) > a->token);
    EXPECT_NUMBER(t, tck_read(reader)->owner.token, atomic_load(&w->token));
}

static void second_acquire_is_misuse(struct tck *t)
{
    simba_locker *locker = tck_locker(t, tck_store(t));

    EXPECT_STATUS(t, simba_locker_acquire(locker, LONG_WAIT_MS, NULL, NULL),
                  SIMBA_OK);
    EXPECT_STATUS(t, simba_locker_acquire(locker, 0, NULL, NULL),
                  SIMBA_EMISUSE);
    EXPECT(t, simba_locker_is_owner(locker));
    EXPECT_STATUS(t, simba_locker_release(locker, NULL), SIMBA_OK);
}

static void can_be_used_again(struct tck *t)
{
    simba_locker *locker = tck_locker(t, tck_store(t));
    uint64_t last = 0;

    for (int i = 0; i < 5; i++) {
        uint64_t token = 0;
        int rc;

        AWAIT(t, (rc = simba_locker_acquire(locker, LONG_WAIT_MS, &token,
                                            NULL)) == SIMBA_OK ||
                     !t->is_faulty);
        EXPECT_STATUS(t, rc, SIMBA_OK);
        EXPECT(t, token > last);
        last = token;
        rc = simba_locker_release(locker, NULL);
        EXPECT(t, rc == SIMBA_OK || t->is_faulty);
    }
}

static void release_without_acquire_is_fine(struct tck *t)
{
    simba_locker *locker = tck_locker(t, tck_store(t));
    struct tck_contender *a = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_STATUS(t, simba_locker_release(locker, NULL), SIMBA_OK);
    EXPECT_OWNS(a);
}

static void close_releases(struct tck *t)
{
    simba_locker *locker = tck_locker(t, tck_store(t));
    struct tck_contender *b = tck_stranger(t);

    EXPECT_STATUS(t, simba_locker_acquire(locker, LONG_WAIT_MS, NULL, NULL),
                  SIMBA_OK);
    tck_now(t, locker);
    EXPECT_FREE(b);
    EXPECT_GRANTED(b);
}

struct seen_loss {
    _Atomic int count, code;
};

static void on_lost(void *user, const simba_error *why)
{
    struct seen_loss *loss = user;

    atomic_store(&loss->code, why->code);
    atomic_fetch_add(&loss->count, 1);
}

static void loss_is_told(struct tck *t)
{
    simba_locker_options options = tck_locker_options(t);
    struct seen_loss *loss = tck_alloc(t, sizeof *loss);
    simba_locker *locker;

    options.times.max_hold_ms = 300;
    options.times.budget_ms = 100;
    options.on_lost = on_lost;
    options.user = loss;
    locker = tck_locker_with(t, tck_store(t), &options);
    EXPECT_STATUS(t, simba_locker_acquire(locker, LONG_WAIT_MS, NULL, NULL),
                  SIMBA_OK);
    AWAIT(t, atomic_load(&loss->count) == 1);
    EXPECT_STATUS(t, atomic_load(&loss->code), SIMBA_ELOST);
    EXPECT(t, !simba_locker_is_owner(locker));
    EXPECT_STATUS(t, simba_locker_release(locker, NULL), SIMBA_ELOST);
    EXPECT_STATUS(t, simba_locker_acquire(locker, LONG_WAIT_MS, NULL, NULL),
                  SIMBA_OK);
}

static void min_hold_keeps_others_out(struct tck *t)
{
    simba_locker_options options = tck_locker_options(t);
    struct tck_contender *b = tck_stranger(t);
    simba_locker *locker;
    int64_t began;

    options.times.min_hold_ms = 300;
    locker = tck_locker_with(t, tck_store(t), &options);
    began = simba_loop_now_ms();
    EXPECT_STATUS(t, simba_locker_acquire(locker, LONG_WAIT_MS, NULL, NULL),
                  SIMBA_OK);
    EXPECT_STATUS(t, simba_locker_release(locker, NULL), SIMBA_OK);
    AWAIT(t, tck_ask(b)->mine);
    EXPECT(t, simba_loop_now_ms() - began >= 299);
}

static const struct tck_case cases[] = {
    {"locker.acquires_and_releases",
     "A locker acquires a free mutex with a token, and lets go of it.",
     acquires_and_releases, TCK_QUICK},
    {"locker.try_of_a_held_mutex_is_busy",
     "Trying once answers busy at once, and leaves no position behind.",
     try_of_a_held_mutex_is_busy, TCK_QUICK},
    {"locker.timeout_leaves_the_queue",
     "A wait that timed out is over: nothing is owned, no position is kept.",
     timeout_leaves_the_queue, TCK_QUICK},
    {"locker.cancel_ends_the_wait",
     "Another thread can end a wait, and no position is kept.",
     cancel_ends_the_wait, 0},
    {"locker.waits_until_it_is_free",
     "A waiting locker gets the mutex when it is released.",
     waits_until_it_is_free, 0},
    {"locker.second_acquire_is_misuse",
     "A locker that holds the mutex cannot acquire it once more.",
     second_acquire_is_misuse, 0},
    {"locker.can_be_used_again",
     "A locker can be used again and again, with growing tokens.",
     can_be_used_again, TCK_SAFETY},
    {"locker.release_without_acquire_is_fine",
     "A release by a locker that holds nothing frees nobody's mutex.",
     release_without_acquire_is_fine, 0},
    {"locker.close_releases", "Closing a locker releases what it holds.",
     close_releases, 0},
    {"locker.loss_is_told",
     "A loss is told once, release answers it, and the locker can go on.",
     loss_is_told, 0},
    {"locker.min_hold_keeps_others_out",
     "min_hold keeps others out also when the work ends early.",
     min_hold_keeps_others_out, 0},
};

const struct tck_topic tck_topic_locker = TCK_TOPIC(cases);
