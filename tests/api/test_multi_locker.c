/* Several mutexes at once, on any store. */
#include "fixtures/api_harness.h"

#include <pthread.h>
#include <string.h>

enum { MOST = 3 };

/* Fresh names that sort as a < b < c. */
struct names {
    char text[MOST][80];
    const char *list[MOST];
};

static void fresh_names(struct names *names)
{
    const char *base = fresh_mutex();

    for (int i = 0; i < MOST; i++) {
        snprintf(names->text[i], sizeof names->text[i], "%s/%c", base, 'a' + i);
        names->list[i] = names->text[i];
    }
}

static simba_multi_locker *open_with(simba_store *store,
                                     simba_multi_locker_options *options)
{
    simba_multi_locker *multi;
    simba_error error;

    if (simba_multi_locker_open(store, options, &multi, &error) != SIMBA_OK) {
        fail_msg("%s", error.message);
    }
    return multi;
}

static simba_multi_locker *open_multi(simba_store *store,
                                      const char *const *mutexes,
                                      size_t count)
{
    simba_multi_locker_options options = SIMBA_MULTI_LOCKER_OPTIONS_INIT;

    options.mutexes = mutexes;
    options.count = count;
    return open_with(store, &options);
}

static simba_locker *open_single(simba_store *store, const char *mutex)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = mutex;
    return must_open_locker(store, &options);
}

static bool is_free(simba_store *store, const char *mutex)
{
    simba_locker *locker = open_single(store, mutex);
    bool is_free = simba_locker_acquire(locker, 0, NULL, NULL) == SIMBA_OK;

    simba_locker_close(locker);
    return is_free;
}

TEST(test_multi__acquires_all_and_releases_all)
{
    simba_store *store = open_store();
    uint64_t first[MOST], second[MOST];
    simba_multi_locker *multi;
    struct names names;

    fresh_names(&names);
    multi = open_multi(store, names.list, MOST);
    assert_false(simba_multi_locker_is_owner(multi));
    assert_int_equal(simba_multi_locker_acquire(multi, -1, first, NULL), 0);
    assert_true(simba_multi_locker_is_owner(multi));
    for (int i = 0; i < MOST; i++) {
        assert_false(is_free(store, names.list[i]));
        assert_int_equal(simba_multi_locker_token(multi, names.list[i]),
                         first[i]);
    }
    assert_int_equal(simba_multi_locker_token(multi, "another"), 0);
    assert_int_equal(simba_multi_locker_release(multi, NULL), SIMBA_OK);
    assert_false(simba_multi_locker_is_owner(multi));
    for (int i = 0; i < MOST; i++) {
        assert_true(is_free(store, names.list[i]));
    }
    assert_int_equal(simba_multi_locker_acquire(multi, 0, second, NULL), 0);
    for (int i = 0; i < MOST; i++) {
        assert_true(second[i] > first[i]);
    }
    simba_multi_locker_close(multi);
    assert_true(is_free(store, names.list[0]));
    simba_store_close(store);
}

/* Tokens come in the order of the names given, whatever was acquired first. */
TEST(test_multi__gives_tokens_in_the_order_given)
{
    simba_store *store = open_store();
    simba_multi_locker *multi;
    struct names names;
    const char *order[MOST];
    uint64_t tokens[MOST];

    fresh_names(&names);
    order[0] = names.list[2];
    order[1] = names.list[0];
    order[2] = names.list[1];
    multi = open_multi(store, order, MOST);
    assert_int_equal(simba_multi_locker_acquire(multi, -1, tokens, NULL), 0);
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(simba_multi_locker_token(multi, order[i]), tokens[i]);
    }
    simba_multi_locker_close(multi);
    simba_store_close(store);
}

TEST(test_multi__takes_none_when_one_is_busy)
{
    simba_store *store = open_store();
    simba_multi_locker *multi;
    simba_locker *other;
    struct names names;
    simba_error error;
    int64_t start;

    fresh_names(&names);
    other = open_single(store, names.list[2]);
    multi = open_multi(store, names.list, MOST);
    assert_int_equal(simba_locker_acquire(other, -1, NULL, NULL), SIMBA_OK);
    assert_int_equal(simba_multi_locker_acquire(multi, 0, NULL, &error),
                     SIMBA_EBUSY);
    assert_int_equal(error.code, SIMBA_EBUSY);
    assert_true(is_free(store, names.list[0]));
    start = now_ms();
    assert_int_equal(simba_multi_locker_acquire(multi, 120, NULL, NULL),
                     SIMBA_ETIMEDOUT);
    assert_true(now_ms() - start >= 115);
    assert_true(is_free(store, names.list[0]));
    assert_true(is_free(store, names.list[1]));
    simba_locker_close(other);
    assert_int_equal(simba_multi_locker_acquire(multi, 0, NULL, NULL), 0);
    simba_multi_locker_close(multi);
    simba_store_close(store);
}

TEST(test_multi__refuses_what_makes_no_sense)
{
    const char *const twice[] = {"b", "a", "b"};
    const char *const bad[] = {"a", ""};
    const char *const hole[] = {"a", NULL};
    simba_multi_locker_options options = SIMBA_MULTI_LOCKER_OPTIONS_INIT;
    simba_store *store = open_store();
    simba_multi_locker *multi;
    simba_error error;

    assert_int_equal(simba_multi_locker_open(store, &options, &multi, NULL),
                     SIMBA_EINVAL);
    options.mutexes = twice;
    options.count = 3;
    assert_int_equal(simba_multi_locker_open(store, &options, &multi, &error),
                     SIMBA_EINVAL);
    assert_non_null(strstr(error.message, "'b' is given twice"));
    options.mutexes = bad;
    options.count = 2;
    assert_int_equal(simba_multi_locker_open(store, &options, &multi, NULL),
                     SIMBA_EINVAL);
    options.mutexes = hole;
    assert_int_equal(simba_multi_locker_open(store, &options, &multi, NULL),
                     SIMBA_EINVAL);
    assert_null(multi);
    simba_multi_locker_close(NULL);
    simba_store_close(store);
}

/* --- several threads ----------------------------------------------------- */

struct philosopher {
    simba_multi_locker *multi;
    _Atomic int *inside; /* how many hold them all; more than one is a fault */
    int rounds, rc;
    pthread_t thread;
};

static void *dine(void *argument)
{
    struct philosopher *p = argument;

    for (int i = 0; i < p->rounds && p->rc == SIMBA_OK; i++) {
        p->rc = simba_multi_locker_acquire(p->multi, PATIENCE_MS, NULL, NULL);
        if (p->rc == SIMBA_OK) {
            if (atomic_fetch_add(p->inside, 1) != 0) {
                p->rc = SIMBA_EINTERNAL;
            }
            atomic_fetch_sub(p->inside, 1);
            (void)simba_multi_locker_release(p->multi, NULL);
        }
    }
    return NULL;
}

TEST(test_multi__opposite_orders_never_deadlock)
{
    simba_store *stores[2] = {open_store(), open_store()};
    struct philosopher p[2];
    _Atomic int inside = 0;
    struct names names;
    const char *reverse[2];

    fresh_names(&names);
    reverse[0] = names.list[1];
    reverse[1] = names.list[0];
    for (int i = 0; i < 2; i++) {
        p[i] = (struct philosopher){
            .multi = open_multi(stores[i], i == 0 ? names.list : reverse, 2),
            .inside = &inside,
            .rounds = 40};
        pthread_create(&p[i].thread, NULL, dine, &p[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(p[i].thread, NULL);
        assert_int_equal(p[i].rc, SIMBA_OK);
        simba_multi_locker_close(p[i].multi);
        simba_store_close(stores[i]);
    }
}

struct waiter {
    simba_multi_locker *multi;
    int rc;
    simba_error error;
    _Atomic bool is_back;
    pthread_t thread;
};

static void *wait_for_all(void *argument)
{
    struct waiter *w = argument;

    w->rc = simba_multi_locker_acquire(w->multi, -1, NULL, &w->error);
    atomic_store(&w->is_back, true);
    return NULL;
}

static void start_waiter(struct waiter *w, simba_multi_locker *multi)
{
    *w = (struct waiter){.multi = multi};
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_all, w), 0);
}

TEST(test_multi__is_cancelled_from_another_thread)
{
    simba_store *store = open_store();
    simba_multi_locker *multi;
    simba_locker *other;
    struct names names;
    struct waiter w;

    fresh_names(&names);
    other = open_single(store, names.list[1]);
    multi = open_multi(store, names.list, 2);
    simba_multi_locker_cancel(multi); /* without a wait, nothing happens */
    assert_int_equal(simba_locker_acquire(other, -1, NULL, NULL), SIMBA_OK);
    start_waiter(&w, multi);
    await((simba_multi_locker_cancel(multi), atomic_load(&w.is_back)));
    pthread_join(w.thread, NULL);
    assert_int_equal(w.rc, SIMBA_ECANCELED);
    assert_true(is_free(store, names.list[0]));
    simba_locker_close(other);
    simba_multi_locker_close(multi);
    simba_store_close(store);
}

/* --- loss ---------------------------------------------------------------- */

struct losses {
    _Atomic int count;
    _Atomic bool may_return;
    char mutex[80];
    simba_multi_locker *multi;
    _Atomic int release_rc;
};

static void on_lost(void *user, const char *mutex, const simba_error *why)
{
    struct losses *losses = user;

    snprintf(losses->mutex, sizeof losses->mutex, "%s", mutex);
    atomic_store(&losses->release_rc,
                 why->code == SIMBA_ELOST
                     ? simba_multi_locker_release(losses->multi, NULL)
                     : SIMBA_EINTERNAL);
    atomic_fetch_add(&losses->count, 1);
}

/* The first is held and lost while the second is still waited for. */
TEST(test_multi__losing_one_ends_the_wait_for_another)
{
    simba_multi_locker_options options = SIMBA_MULTI_LOCKER_OPTIONS_INIT;
    simba_store *store = open_store();
    struct losses losses = {.count = 0};
    simba_multi_locker *multi;
    simba_locker *other;
    struct names names;
    struct waiter w;

    fresh_names(&names);
    other = open_single(store, names.list[1]);
    assert_int_equal(simba_locker_acquire(other, -1, NULL, NULL), SIMBA_OK);
    options.mutexes = names.list;
    options.count = 2;
    options.times.max_hold_ms = 60;
    options.on_lost = on_lost;
    options.user = &losses;
    multi = open_with(store, &options);
    start_waiter(&w, multi);
    await(atomic_load(&w.is_back));
    pthread_join(w.thread, NULL);
    assert_int_equal(w.rc, SIMBA_ELOST);
    assert_int_equal(w.error.code, SIMBA_ELOST);
    assert_int_equal(atomic_load(&losses.count), 0); /* it was never held */
    assert_true(is_free(store, names.list[0]));
    simba_locker_close(other);
    /* On a slow machine max_hold may pass before the last is acquired. */
    await(simba_multi_locker_acquire(multi, -1, NULL, NULL) == SIMBA_OK);
    simba_multi_locker_close(multi);
    simba_store_close(store);
}

TEST(test_multi__tells_a_loss_once_and_is_no_owner)
{
    simba_multi_locker_options options = SIMBA_MULTI_LOCKER_OPTIONS_INIT;
    simba_store *store = open_store();
    struct losses losses = {.count = 0};
    simba_multi_locker *multi;
    struct names names;

    fresh_names(&names);
    options.mutexes = names.list;
    options.count = MOST;
    options.times.max_hold_ms = 300; /* ends the tenures of all, one by one */
    options.on_lost = on_lost;
    options.user = &losses;
    losses.multi = multi = open_with(store, &options);
    await(simba_multi_locker_acquire(multi, -1, NULL, NULL) == SIMBA_OK);
    assert_int_equal(simba_multi_locker_acquire(multi, 0, NULL, NULL),
                     SIMBA_EMISUSE);
    await(atomic_load(&losses.count) > 0);
    assert_false(simba_multi_locker_is_owner(multi));
    assert_int_equal(atomic_load(&losses.release_rc), SIMBA_EMISUSE);
    assert_int_equal(
        strncmp(losses.mutex, names.list[0], strlen(names.list[0]) - 1), 0);
    assert_int_equal(simba_multi_locker_release(multi, NULL), SIMBA_ELOST);
    assert_int_equal(atomic_load(&losses.count), 1);
    assert_int_equal(simba_multi_locker_release(multi, NULL), SIMBA_OK);
    /* On a slow machine max_hold may pass before the last is acquired. */
    await(simba_multi_locker_acquire(multi, -1, NULL, NULL) == SIMBA_OK);
    simba_multi_locker_close(multi);
    simba_store_close(store);
}
