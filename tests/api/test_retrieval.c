/* Watching a mutex, on any store. */
#include "retrieval_driver.h"

#include <simba/sys/probe.h>

#include <stdlib.h>

static simba_retrieval *watch(simba_store *store,
                              const char *mutex,
                              struct sight *sight)
{
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_retrieval *retrieval;

    *sight = (struct sight){.lock = PTHREAD_MUTEX_INITIALIZER};
    retriever.mutex = mutex;
    retriever.poll_ms = 10;
    retriever.on_changed = on_changed;
    retriever.user = sight;
    retrieval = must_open_retrieval(store, &retriever);
    assert_int_equal(simba_retrieval_status(retrieval), SIMBA_INITIAL);
    assert_int_equal(simba_retrieval_start(retrieval, NULL), SIMBA_OK);
    assert_int_equal(simba_retrieval_start(retrieval, NULL), SIMBA_EMISUSE);
    return retrieval;
}

TEST(test_retrieval__sees_owners_come_and_go)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    struct sight sight;
    simba_retrieval *retrieval = watch(store, mutex, &sight);

    await(simba_retrieval_status(retrieval) == SIMBA_RUNNING);
    for (int i = 0; i < 3; i++) {
        simba_locker *locker = acquire(store, mutex, i % 2 ? "odd" : "even");
        await(heard(&sight, i % 2 ? "odd" : "even"));
        simba_locker_close(locker);
        await(heard(&sight, ""));
    }
    assert_int_equal(simba_retrieval_stop(retrieval, NULL), SIMBA_OK);
    assert_int_equal(simba_retrieval_status(retrieval), SIMBA_INITIAL);
    assert_false(sight.is_broken);
    assert_int_equal(sight.changes, 6);
    assert_int_equal(sight.gaps, 0);
    simba_retrieval_close(retrieval);
    simba_store_close(store);
}

TEST(test_retrieval__never_contends)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    struct sight sight;
    simba_retrieval *retrieval = watch(store, mutex, &sight);
    simba_locker *locker;

    await(simba_retrieval_status(retrieval) == SIMBA_RUNNING);
    locker = acquire(store, mutex, "alone");
    await(heard(&sight, "alone"));
    simba_locker_close(locker);
    simba_retrieval_close(retrieval); /* while it runs */
    simba_store_close(store);
}

/* --- push and gaps ------------------------------------------------------- */

enum { BOOK_MOST = 2000 };

/* What was told, and what was. */
struct book {
    pthread_mutex_t lock;
    simba_state told[BOOK_MOST];
    int count;
    uint64_t tokens[BOOK_MOST]; /* of all tenures */
    int tenures;
};

static void write_down(void *user, const simba_state *change)
{
    struct book *book = user;

    pthread_mutex_lock(&book->lock);
    if (book->count < BOOK_MOST) {
        book->told[book->count++] = *change;
    }
    pthread_mutex_unlock(&book->lock);
}

static simba_retrieval *watch_by_push(simba_store *store,
                                      const char *mutex,
                                      struct book *book)
{
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_retrieval *retrieval;

    pthread_mutex_init(&book->lock, NULL);
    retriever.mutex = mutex;
    retriever.poll_ms =
        (simba_store_capabilities(store) & SIMBA_CAN_OBSERVE) != 0
            ? INT64_C(3600) * 1000 /* of no help */
            : 20;
    retriever.on_changed = write_down;
    retriever.user = book;
    retrieval = must_open_retrieval(store, &retriever);
    assert_int_equal(simba_retrieval_start(retrieval, NULL), SIMBA_OK);
    await(simba_retrieval_status(retrieval) == SIMBA_RUNNING);
    return retrieval;
}

static bool has_come_to(struct book *book, uint64_t token)
{
    bool is_so;

    pthread_mutex_lock(&book->lock);
    is_so = book->count > 0 && book->told[book->count - 1].after.token == token;
    pthread_mutex_unlock(&book->lock);
    return is_so;
}

/* Each of them, the oldest first. */
static void expect_listed(simba_store *store,
                          const char *mutex,
                          const uint64_t *tokens,
                          size_t count)
{
    simba_report *report;
    const simba_owner *owner;

    assert_int_equal(simba_admin_list(store, mutex, &report, NULL), SIMBA_OK);
    assert_int_equal(simba_report_mutex_count(report), 1);
    assert_int_equal(simba_report_mutex(report, 0)->owned, count);
    for (size_t i = 0; i < count; i++) {
        owner = simba_report_mutex_owner(report, 0, i);
        assert_non_null(owner);
        assert_int_equal(owner->token, tokens[i]);
        assert_int_equal(owner->slots, count);
    }
    simba_report_close(report);
    assert_int_equal(simba_admin_show(store, mutex, &report, NULL), SIMBA_OK);
    assert_int_equal(simba_report_owner_count(report), count);
    for (size_t i = 0; i < count; i++) {
        owner = simba_report_owner_at(report, i);
        assert_int_equal(owner->token, tokens[i]);
    }
    simba_report_close(report);
}

/* Of several owners each tenure is told when it begins and when it ends. */
TEST(test_retrieval__tells_each_tenure_of_several_owners)
{
    enum { OWNERS = 3 };
    simba_store *store = open_store();
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *lockers[OWNERS + 1];
    uint64_t tokens[OWNERS + 1];
    struct book *book = calloc(1, sizeof *book);
    simba_retrieval *retrieval;

    options.mutex = fresh_mutex();
    options.slots = OWNERS;
    if ((simba_store_capabilities(store) & SIMBA_CAN_SLOTS) == 0) {
        free(book);
        simba_store_close(store);
        skip();
    }
    retrieval = watch_by_push(store, options.mutex, book);
    for (int i = 0; i <= OWNERS; i++) {
        options.slots = i < OWNERS ? OWNERS : 0;
        lockers[i] = must_open_locker(store, &options);
    }
    for (int i = 0; i < OWNERS; i++) {
        assert_int_equal(simba_locker_acquire(lockers[i], 0, &tokens[i], NULL),
                         SIMBA_OK);
    }
    await(has_come_to(book, tokens[OWNERS - 1]));
    expect_listed(store, options.mutex, tokens, OWNERS);
    /* The oldest goes: no other has come. */
    assert_int_equal(simba_locker_release(lockers[0], NULL), SIMBA_OK);
    await(has_come_to(book, 0));
    assert_int_equal(simba_locker_acquire(lockers[0], 0, &tokens[0], NULL),
                     SIMBA_OK);
    await(has_come_to(book, tokens[0]));
    for (int i = 0; i < OWNERS; i++) {
        assert_int_equal(simba_locker_release(lockers[i], NULL), SIMBA_OK);
    }
    assert_int_equal(
        simba_locker_acquire(lockers[OWNERS], 0, &tokens[OWNERS], NULL),
        SIMBA_OK);
    await(has_come_to(book, tokens[OWNERS]));
    simba_retrieval_close(retrieval);

    /* Three began, one ended and came back, three ended, one began. */
    int began = 0, ended = 0, owned = 0;

    for (int i = 0; i < book->count; i++) {
        const simba_state *one = &book->told[i];

        began += one->after.id[0] != '\0';
        ended += one->before.id[0] != '\0';
        owned += (one->after.id[0] != '\0') - (one->before.id[0] != '\0');
        assert_false(one->has_gap);
        assert_true(simba_state_is_changed(one));
        assert_int_equal(one->owned, owned);
    }
    assert_int_equal(began, OWNERS + 2);
    assert_int_equal(ended, OWNERS + 1);
    assert_int_equal(owned, 1);
    for (int i = 0; i <= OWNERS; i++) {
        simba_locker_close(lockers[i]);
    }
    free(book);
    simba_store_close(store);
}

/* One who gets the mutex and gives it back, time and again. */
struct owner {
    simba_store *store;
    const char *mutex;
    int often;
    uint32_t slots;
    uint64_t tokens[BOOK_MOST];
};

static void *own_often(void *argument)
{
    struct owner *owner = argument;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    SIMBA_LOCKER_SCOPE simba_locker *locker = NULL;

    options.mutex = owner->mutex;
    options.slots = owner->slots;
    if (simba_locker_open(owner->store, &options, &locker, NULL) != SIMBA_OK) {
        return NULL;
    }
    for (int i = 0; i < owner->often; i++) {
        if (simba_locker_acquire(locker, -1, &owner->tokens[i], NULL) !=
                SIMBA_OK ||
            simba_locker_release(locker, NULL) != SIMBA_OK) {
            return NULL;
        }
    }
    return owner;
}

static uint32_t capabilities; /* of the store */

static bool can(uint32_t capability)
{
    return (capabilities & capability) != 0;
}

/* Stores that tell nobody are polled: the tests of push are not for them. */
static void need_push(simba_store *store)
{
    capabilities = simba_probe_ops(store)->capabilities;
    if (!can(SIMBA_CAN_OBSERVE)) {
        simba_store_close(store);
        skip();
    }
}

static bool is_store(const char *scheme)
{
    return strncmp(store_url, scheme, strlen(scheme)) == 0;
}

static int compare_tokens(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

static void note_tenures(struct book *book, const struct owner *owner)
{
    memcpy(&book->tokens[book->tenures], owner->tokens,
           (size_t)owner->often * sizeof owner->tokens[0]);
    book->tenures += owner->often;
    qsort(book->tokens, (size_t)book->tenures, sizeof book->tokens[0],
          compare_tokens);
}

/* One more, so slowly that nobody can miss it. */
static void own_slowly(simba_store *store, const char *mutex, struct book *book)
{
    simba_locker *locker = acquire(store, mutex, "slow");
    uint64_t token = simba_locker_token(locker);

    book->tokens[book->tenures++] = token;
    await(has_come_to(book, token));
    simba_locker_close(locker);
    await(has_come_to(book, 0));
}

static int tenure_of(const struct book *book, uint64_t token)
{
    int i = 0;

    while (i < book->tenures && book->tokens[i] != token) {
        i++;
    }
    assert_true(i < book->tenures); /* nobody was made up */
    return i;
}

/* Told in order, none twice; where one was missed there is a gap. Returns how
 * many were seen. */
static int check_book(const struct book *book)
{
    int last = -1, seen = 0;
    bool has_gap = false;

    for (int i = 0; i < book->count; i++) {
        const simba_state *told = &book->told[i];
        int next;

        assert_true(told->has_gap || simba_state_is_changed(told));
        has_gap |= told->has_gap;
        if (i > 0) {
            assert_int_equal(told->before.token, book->told[i - 1].after.token);
        }
        if (told->after.token == 0) {
            continue;
        }
        next = tenure_of(book, told->after.token);
        assert_true(next > last);
        assert_true(next == last + 1 || has_gap);
        if (can(SIMBA_TELLS_ENDED)) {
            assert_int_equal(next == last + 1, !has_gap);
        }
        has_gap = false;
        seen++;
        last = next;
    }
    return seen;
}

TEST(test_retrieval__is_told_by_push)
{
    simba_store *store = open_store(), *other;
    struct book *book;
    char mutex[64];
    simba_retrieval *retrieval;

    need_push(store);
    other = open_store();
    book = calloc(1, sizeof *book);
    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    retrieval = watch_by_push(store, mutex, book);
    for (int i = 0; i < 5; i++) {
        own_slowly(i % 2 ? store : other, mutex, book); /* or in an hour */
    }
    simba_retrieval_close(retrieval);
    assert_int_equal(check_book(book), 5);
    free(book);
    simba_store_close(other);
    simba_store_close(store);
}

/* In memory no push is lost. A file of wake-ups is emptied now and then, and
 * one can be lost by it. What goes through shims comes as wake-ups, after which
 * one looks.
 */
static int least_seen(int tenures)
{
    if (is_store("memory:")) {
        return tenures;
    }
    return is_store("sqlite:") ? tenures / 2 : 1;
}

static void check_sequence(simba_store *store, simba_store *other)
{
    struct book *book = calloc(1, sizeof *book);
    struct owner *owner = calloc(1, sizeof *owner);
    char mutex[64];
    simba_retrieval *retrieval;

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    *owner = (struct owner){.store = other, .mutex = mutex, .often = 300};
    retrieval = watch_by_push(store, mutex, book);
    assert_ptr_equal(own_often(owner), owner);
    note_tenures(book, owner);
    own_slowly(other, mutex, book);
    simba_retrieval_close(retrieval);
    assert_true(check_book(book) >= least_seen(301));
    free(owner);
    free(book);
}

TEST(test_retrieval__sees_each_of_a_fast_sequence)
{
    simba_store *store = open_store(), *other;

    need_push(store);
    other = open_store();
    check_sequence(store, store);
    check_sequence(store, other);
    simba_store_close(other);
    simba_store_close(store);
}

/* Changes by several handles, of which the wake-ups may overtake each other. */
TEST(test_retrieval__sees_how_owners_alternate)
{
    enum { MANY = 3 };
    simba_store *store = open_store(), *stores[MANY];
    struct book *book;
    struct owner *owners;
    pthread_t threads[MANY];
    char mutex[64];
    simba_retrieval *retrieval;

    need_push(store);
    book = calloc(1, sizeof *book);
    owners = calloc(MANY, sizeof *owners);
    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    retrieval = watch_by_push(store, mutex, book);
    for (int i = 0; i < MANY; i++) {
        stores[i] = open_store();
        owners[i] =
            (struct owner){.store = stores[i], .mutex = mutex, .often = 60};
        pthread_create(&threads[i], NULL, own_often, &owners[i]);
    }
    for (int i = 0; i < MANY; i++) {
        void *result;

        pthread_join(threads[i], &result);
        assert_ptr_equal(result, &owners[i]);
        note_tenures(book, &owners[i]);
    }
    own_slowly(store, mutex, book);
    simba_retrieval_close(retrieval);
    assert_true(check_book(book) >= least_seen(MANY * 60 + 1));
    for (int i = 0; i < MANY; i++) {
        simba_store_close(stores[i]);
    }
    free(owners);
    free(book);
    simba_store_close(store);
}

/* None is made up or told twice, none ends that did not begin; and there is a
 * gap where one was missed, and only there if the store knows. */
static void check_several(const struct book *book)
{
    int begun[BOOK_MOST] = {0}, missed = book->tenures, gaps = 0, owned = 0;

    for (int i = 0; i < book->count; i++) {
        const simba_state *told = &book->told[i];

        gaps += told->has_gap;
        if (!simba_state_is_changed(told)) {
            assert_true(told->has_gap);
            continue;
        }
        if (told->before.token != 0) {
            assert_int_equal(begun[tenure_of(book, told->before.token)]++, 1);
            owned--;
        }
        if (told->after.token != 0) {
            assert_int_equal(begun[tenure_of(book, told->after.token)]++, 0);
            owned++;
            missed--;
        }
        assert_int_equal(told->owned, owned);
    }
    assert_int_equal(owned, 0);
    assert_true(missed == 0 || gaps > 0);
    assert_true(gaps <= missed || !can(SIMBA_TELLS_ENDED));
}

TEST(test_retrieval__misses_none_of_several_in_silence)
{
    enum { MANY = 3, OFTEN = 20 };
    simba_store *store = open_store(), *stores[MANY];
    struct book *book = calloc(1, sizeof *book);
    struct owner *owners = calloc(MANY, sizeof *owners);
    pthread_t threads[MANY];
    char mutex[64];
    simba_retrieval *retrieval;
    void *result;

    capabilities = simba_probe_ops(store)->capabilities;
    if (!can(SIMBA_CAN_SLOTS)) {
        free(owners);
        free(book);
        simba_store_close(store);
        skip();
    }
    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    retrieval = watch_by_push(store, mutex, book);
    for (int i = 0; i < MANY; i++) {
        stores[i] = open_store();
        owners[i] = (struct owner){.store = stores[i],
                                   .mutex = mutex,
                                   .often = OFTEN,
                                   .slots = MANY - 1};
        pthread_create(&threads[i], NULL, own_often, &owners[i]);
    }
    for (int i = 0; i < MANY; i++) {
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, &owners[i]);
        note_tenures(book, &owners[i]);
    }
    own_slowly(store, mutex, book);
    simba_retrieval_close(retrieval);
    check_several(book);
    for (int i = 0; i < MANY; i++) {
        simba_store_close(stores[i]);
    }
    free(owners);
    free(book);
    simba_store_close(store);
}
