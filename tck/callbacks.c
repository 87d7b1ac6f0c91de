/* callbacks: in turn, in order, never late (S6, S9). */
#include "contender.h"
#include "topics.h"
#include "witness.h"

#include <time.h>

static void alternate(struct tck *t)
{
    struct tck_witness *w[2];
    simba_store *store = tck_store(t);

    for (int i = 0; i < 2; i++) {
        w[i] = tck_witness(t);
        tck_contend(w[i], store);
    }
    tck_pass_around(w, 2, 4);
    for (int i = 0; i < 2; i++) {
        tck_close(w[i]);
        EXPECT_ORDERLY(w[i]);
    }
}

static void stop_service(void *what)
{
    struct tck_witness *w = what;

    if (simba_service_stop(w->service, NULL) != SIMBA_OK) {
        atomic_store(&w->offence, "the stop failed");
    }
}

/* The first's on_released is still running: the second must not be inside. */
static void released_returns_before_the_next_is_inside(struct tck *t)
{
    struct tck_witness *a = tck_witness(t);
    struct tck_witness *b = tck_witness(t);
    struct tck_contender *reader = tck_stranger(t);
    struct timespec moment = {.tv_nsec = 2000000};
    struct tck_aside *stop;

    a->contender.times.budget_ms = 2000;
    tck_contend(a, tck_store(t));
    AWAIT(t, atomic_load(&a->acquired) == 1);
    tck_contend(b, tck_store(t));
    AWAIT(t, simba_service_status(b->service) == SIMBA_RUNNING);
    atomic_store(&a->is_held_up, true);
    stop = tck_aside(t, stop_service, a);
    AWAIT(t, atomic_load(&a->is_busy));
    for (int i = 0; i < 20; i++) {
        EXPECT(t, !simba_service_is_owner(a->service));
        EXPECT_TEXT(t, tck_read(reader)->owner.id, a->id);
        EXPECT_NUMBER(t, atomic_load(&b->acquired), 0);
        nanosleep(&moment, NULL);
    }
    atomic_store(&a->is_held_up, false);
    tck_aside_join(t, stop);
    AWAIT(t, atomic_load(&b->acquired) == 1);
    EXPECT_NUMBER(t, atomic_load(&a->released), 1);
    EXPECT_ORDERLY(a);
}

enum { CLOSED = 12 };

static void none_comes_after_close(struct tck *t)
{
    simba_store *store = tck_store(t);
    struct tck_witness *w[CLOSED + 1];
    int calls[CLOSED];

    for (int i = 0; i < CLOSED; i++) {
        w[i] = tck_witness(t);
        tck_contend(w[i], store);
        if (i % 2 == 0) {
            AWAIT(t, simba_service_status(w[i]->service) == SIMBA_RUNNING);
        }
        tck_close(w[i]);
        EXPECT(t, !atomic_load(&w[i]->is_busy));
        calls[i] = atomic_load(&w[i]->acquired);
        EXPECT_NUMBER(t, atomic_load(&w[i]->released), calls[i]);
    }
    w[CLOSED] = tck_witness(t); /* and life goes on */
    tck_contend(w[CLOSED], store);
    AWAIT(t, atomic_load(&w[CLOSED]->acquired) >= 1);
    for (int i = 0; i < CLOSED; i++) {
        EXPECT_NUMBER(t, atomic_load(&w[i]->acquired), calls[i]);
        EXPECT_NUMBER(t, atomic_load(&w[i]->released), calls[i]);
        EXPECT_ORDERLY(w[i]);
    }
}

static void slow_one_delays_no_other(struct tck *t)
{
    simba_store *store = tck_store(t);
    struct tck_witness *slow = tck_witness(t);
    struct tck_witness *quick = tck_witness(t);
    char other[40];

    tck_fresh(other);
    quick->contender.mutex = other;
    atomic_store(&slow->is_held_up, true);
    tck_contend(slow, store);
    AWAIT(t, atomic_load(&slow->is_busy));
    tck_contend(quick, store);
    AWAIT(t, atomic_load(&quick->acquired) == 1);
    tck_stop(quick);
    EXPECT_NUMBER(t, atomic_load(&quick->released), 1);
    EXPECT_NUMBER(t, atomic_load(&slow->acquired), 0);
    EXPECT(t, simba_service_is_owner(slow->service));
    atomic_store(&slow->is_held_up, false);
    AWAIT(t, atomic_load(&slow->acquired) == 1);
}

struct misuser {
    simba_service *service;
    _Atomic int rc;
};

static void stop_yourself(void *user, const simba_state *state)
{
    struct misuser *m = user;

    (void)state;
    atomic_store(&m->rc, simba_service_stop(m->service, NULL));
}

static void stopping_inside_is_misuse(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);
    struct misuser *m = tck_alloc(t, sizeof *m);

    w->contender.on_acquired = stop_yourself;
    w->contender.on_released = NULL;
    w->contender.user = m;
    tck_open(w, tck_store(t));
    m->service = w->service;
    tck_start(w);
    AWAIT(t, atomic_load(&m->rc) == SIMBA_EMISUSE);
    tck_close(w);
}

static void none_are_needed(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);

    w->contender.on_acquired = NULL;
    w->contender.on_released = NULL;
    w->contender.on_changed = NULL;
    tck_contend(w, tck_store(t));
    AWAIT(t, simba_service_is_owner(w->service));
    tck_stop(w);
    EXPECT(t, !simba_service_is_owner(w->service));
}

/* max_hold ends a tenure without anybody's doing; the contender comes back. */
static void loss_is_told_and_made_good(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);

    w->contender.times.max_hold_ms = 500;
    w->contender.times.budget_ms = 100;
    tck_contend(w, tck_store(t));
    AWAIT(t, atomic_load(&w->released) >= 1);
    AWAIT(t, atomic_load(&w->acquired) >= 2);
    tck_close(w);
    EXPECT_NUMBER(t, atomic_load(&w->acquired), atomic_load(&w->released));
    EXPECT_ORDERLY(w);
}

static const struct tck_case cases[] = {
    {"callbacks.alternate",
     "on_acquired and on_released strictly alternate for one contender (S9).",
     alternate, TCK_QUICK | TCK_SAFETY},
    {"callbacks.released_returns_before_the_next_is_inside",
     "On stop the store is told when on_released has returned, not before "
     "(S6).",
     released_returns_before_the_next_is_inside, 0},
    {"callbacks.none_comes_after_close",
     "When close has returned no callback runs or begins (S9).",
     none_comes_after_close, TCK_SAFETY},
    {"callbacks.slow_one_delays_no_other",
     "A callback that takes long delays neither another contender's nor the "
     "renewal (S9).",
     slow_one_delays_no_other, 0},
    {"callbacks.stopping_inside_is_misuse",
     "A callback that stops its own service is told that this is misuse.",
     stopping_inside_is_misuse, 0},
    {"callbacks.none_are_needed", "A contender without callbacks contends too.",
     none_are_needed, 0},
    {"callbacks.loss_is_told_and_made_good",
     "A tenure that ends by max_hold is told, and the contender contends anew.",
     loss_is_told_and_made_good, TCK_SAFETY},
};

const struct tck_topic tck_topic_callbacks = TCK_TOPIC(cases);
