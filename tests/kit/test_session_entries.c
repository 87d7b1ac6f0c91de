/* The list of entries: a server is played, whose replies and losses are random,
 * and after each of them the list is compared with what all who are in it say.
 * In the end everybody has had the mutex. */
#define _GNU_SOURCE
#include "kit/session_entries.h"

#include "core/rng.h"
#include "runtime/loop.h"

#include <stddef.h>

#include "fixtures/unit_test.h"

#include <string.h>

enum { WHO = 10, SEEDS = 300, EVENTS = 300, ROUNDS = 1000, KEYS = 64 };

struct played_entry {
    simba_entry base;
    uint64_t watched; /* the position of the one before it; 0: none */
};

struct contender {
    simba_request request; /* first */
    enum { AWAY, WAITS, OWNS } state;
    bool is_open; /* its request */
};

struct step {
    simba_entry *entry;
    enum simba_entry_step step;
};

struct key {
    uint64_t position;
    uint64_t attempt; /* 0: of another process */
};

static struct simba__rng rng;
static simba_session_store store;
static struct contender contenders[WHO];
static struct step steps[KEYS];
static struct key keys[KEYS];
static int step_count, key_count;
static uint64_t positions, attempts;
static bool is_ready, is_healed;

static bool one_in(uint64_t many)
{
    return simba__rng_below(&rng, many) == 0;
}

/* --- the list ------------------------------------------------------------ */

static bool is_placed(const simba_entry *entry)
{
    return entry->rank != UINT64_MAX;
}

static bool is_sought(const simba_entry *e, enum simba__sought sought)
{
    switch (sought) {
    case SIMBA__ENTRY_COMING:
        return simba__session_is_coming(e) && !is_placed(e) && !e->is_passed;
    case SIMBA__ENTRY_QUEUED:
        return e->state == SIMBA_KEY_PRESENT && !e->is_leaving &&
               !e->was_granted && e->position != 0;
    default:
        return e->is_unwatched && e->state == SIMBA_KEY_PRESENT && is_placed(e);
    }
}

static void check_order(const simba_session_mutex *mutex)
{
    const simba_entry *previous = NULL, *placed = NULL;

    for (const simba_entry *e = mutex->entries; e != NULL; e = e->next) {
        assert_ptr_equal(e->previous, previous);
        assert_true(previous == NULL || previous->rank <= e->rank);
        placed = is_placed(e) ? e : placed;
        previous = e;
    }
    assert_ptr_equal(mutex->last, previous);
    assert_ptr_equal(mutex->placed, placed);
}

/* Who is sought is neither before `from` nor behind where one looks. */
static void check_sought(simba_session_mutex *mutex, enum simba__sought sought)
{
    const simba_entry *first = NULL;
    bool is_from = false;

    for (const simba_entry *e = mutex->entries; e != NULL; e = e->next) {
        is_from |= e == mutex->from[sought];
        assert_true(is_from || !is_sought(e, sought));
        first = first == NULL && is_sought(e, sought) ? e : first;
    }
    assert_true(is_from || mutex->from[sought] == NULL);
    /* Who does not come is passed; and what is found is kept. */
    if (sought != SIMBA__ENTRY_COMING && one_in(8)) {
        assert_ptr_equal(simba__session_first(mutex, sought), first);
    }
}

static void check(void)
{
    simba_session_mutex *mutex = simba_session_mutex_get(&store, "m", false);

    if (mutex != NULL) {
        check_order(mutex);
        for (int i = 0; i < SIMBA__ENTRIES_SOUGHT; i++) {
            check_sought(mutex, (enum simba__sought)i);
        }
    }
}

/* --- the server ---------------------------------------------------------- */

static int find_key(uint64_t attempt)
{
    int i = 0;

    while (i < key_count && keys[i].attempt != attempt) {
        i++;
    }
    return i < key_count ? i : -1;
}

static void add_key(uint64_t attempt)
{
    assert_true(key_count < KEYS);
    keys[key_count++] = (struct key){++positions, attempt};
}

/* Who watches it is told. */
static void remove_key(int i)
{
    simba_session_mutex *mutex = simba_session_mutex_get(&store, "m", false);
    uint64_t position = keys[i].position;

    key_count--;
    memmove(&keys[i], &keys[i + 1], sizeof keys[0] * (size_t)(key_count - i));
    for (simba_entry *e = mutex == NULL ? NULL : mutex->entries; e != NULL;
         e = e->next) {
        struct played_entry *entry = (struct played_entry *)e;

        if (entry->watched == position) {
            entry->watched = 0;
            simba_entry_unwatched(e);
        }
    }
}

static void take_step(simba_entry *entry)
{
    assert_true(step_count < KEYS);
    simba_entry_hold(entry);
    steps[step_count++] = (struct step){entry, entry->step};
}

static enum simba_standing standing_of(simba_entry *entry, int i)
{
    struct played_entry *played = (struct played_entry *)entry;
    simba_owner owner = simba_session_owner("somebody", 1, 1);

    if (i < 0) {
        return SIMBA_STANDS_VANISHED;
    }
    entry->position = entry->token = keys[i].position;
    simba_entry_owner(entry, &owner);
    if (i == 0) {
        return SIMBA_STANDS_FIRST;
    }
    entry->is_head = i == 1;
    entry->is_unwatched = false;
    played->watched = keys[i - 1].position;
    if (!is_healed && one_in(6)) { /* it has gone before the reply came */
        played->watched = 0;
        simba_entry_unwatched(entry);
    }
    return SIMBA_STANDS_BEHIND;
}

/* A reply may be lost, whether or not it had its effect, and a step may fail
 * without one. Removals do not: they are repeated by the clock. */
static void answer(int which)
{
    simba_entry *entry = steps[which].entry;
    enum simba_entry_step step = steps[which].step;
    bool fails = !is_healed && step != SIMBA_STEP_REMOVE && one_in(12);
    bool is_unknown = fails && one_in(2);
    simba_error error;
    int i = find_key(entry->attempt.low);

    step_count--;
    memmove(&steps[which], &steps[which + 1],
            sizeof steps[0] * (size_t)(step_count - which));
    if (entry->mutex == NULL || entry->step != step) {
        simba_entry_drop(entry); /* of a session that was lost */
        return;
    }
    if (step == SIMBA_STEP_PUT && i < 0 &&
        (!fails || (is_unknown && one_in(2)))) {
        add_key(entry->attempt.low);
        i = key_count - 1;
    } else if (step == SIMBA_STEP_REMOVE && i >= 0) {
        remove_key(i);
    }
    if (fails) {
        int status = is_unknown ? SIMBA_EUNKNOWN : SIMBA_EUNAVAIL;

        simba_error_set(&error, status, 0, "played");
        simba_entry_done(entry, status, &error, SIMBA_STANDS_NOWHERE);
    } else {
        simba_entry_done(entry, SIMBA_OK, NULL,
                         step == SIMBA_STEP_REMOVE ? SIMBA_STANDS_NOWHERE
                                                   : standing_of(entry, i));
    }
    simba_entry_drop(entry);
}

static void lose_session(void)
{
    simba_session_mutex *mutex = simba_session_mutex_get(&store, "m", false);
    int kept = 0;

    while (step_count > 0) {
        simba_entry_drop(steps[--step_count].entry);
    }
    for (int i = 0; i < key_count; i++) {
        if (keys[i].attempt == 0) {
            keys[kept++] = keys[i];
        }
    }
    key_count = kept;
    for (simba_entry *e = mutex == NULL ? NULL : mutex->entries; e != NULL;
         e = e->next) {
        ((struct played_entry *)e)->watched = 0;
    }
    simba_session_lost(&store);
}

static void change_others(void)
{
    int i = find_key(0);

    if (i < 0 || one_in(3)) {
        add_key(0);
    } else {
        remove_key(i);
    }
}

/* The key of one that waits for no reply. */
static void vanish_one(void)
{
    simba_session_mutex *mutex = simba_session_mutex_get(&store, "m", false);
    simba_entry *e = mutex == NULL ? NULL : mutex->entries;
    int i;

    while (e != NULL && (e->state != SIMBA_KEY_PRESENT ||
                         e->step != SIMBA_STEP_NONE || !one_in(3))) {
        e = e->next;
    }
    i = e == NULL ? -1 : find_key(e->attempt.low);
    if (i >= 0) {
        remove_key(i);
        simba_entry_vanished(e);
    }
}

static int want(simba_session_store *self,
                const simba_request *request,
                simba_error *error)
{
    (void)self, (void)request, (void)error;
    return SIMBA_OK;
}

static bool is_store_ready(const simba_session_store *self)
{
    (void)self;
    return is_ready;
}

static int64_t lease_ms(const simba_entry *entry,
                        int64_t since_ms,
                        int64_t *wait_ms)
{
    (void)entry, (void)since_ms, (void)wait_ms;
    return 60000;
}

/* --- who contends -------------------------------------------------------- */

static void on_done(simba_request *request, int status, const simba_error *e)
{
    struct contender *one = (struct contender *)request;

    (void)e;
    one->is_open = false;
    if (request->kind != SIMBA_ACQUIRE) {
        one->state = AWAY;
    } else if (status == SIMBA_OK && request->reply.mine) {
        one->state = OWNS;
    }
}

static void ask(struct contender *one, enum simba_request_kind kind)
{
    simba_attempt attempt = one->request.attempt;

    one->request = (simba_request)SIMBA_REQUEST_INIT;
    one->request.kind = kind;
    one->request.mutex = "m";
    one->request.id = "me";
    one->request.attempt =
        one->state == AWAY ? (simba_attempt){1, ++attempts} : attempt;
    one->request.join = true;
    one->request.is_backstop = one_in(2);
    one->request.ttl_ms = 60000;
    one->request.deadline_ms = simba_loop_now_ms() + 60000;
    one->request.done = on_done;
    one->state = one->state == AWAY ? WAITS : one->state;
    one->is_open = true;
    simba_session_submit(&store.base, &one->request);
}

static void go_on(struct contender *one)
{
    if (one->is_open || (is_healed && one->state == AWAY)) {
        return;
    }
    ask(one, one->state == OWNS                              ? SIMBA_RELEASE
             : one->state == AWAY || is_healed || !one_in(8) ? SIMBA_ACQUIRE
                                                             : SIMBA_LEAVE);
}

static void happen(void)
{
    uint64_t what = simba__rng_below(&rng, 100);

    if (what < 45 && step_count > 0) {
        answer(store.ops->is_ordered
                   ? 0
                   : (int)simba__rng_below(&rng, (uint64_t)step_count));
    } else if (what < 85) {
        go_on(&contenders[simba__rng_below(&rng, WHO)]);
    } else if (what < 92) {
        change_others();
    } else if (what < 94) {
        vanish_one();
    } else if (what < 99) {
        is_ready = !is_ready || !one_in(3);
        if (is_ready) {
            simba_session_ready(&store);
        }
    } else {
        lose_session();
    }
}

/* Whoever asks is answered, and gets it, one after the other. */
static void heal(void)
{
    int i;

    is_healed = is_ready = true;
    simba_session_ready(&store);
    while ((i = find_key(0)) >= 0) {
        remove_key(i);
    }
    for (int round = 0; round < ROUNDS && store.entry_count > 0; round++) {
        while (step_count > 0) {
            answer(0);
            check();
        }
        for (i = 0; i < WHO; i++) {
            assert_false(contenders[i].is_open);
        }
        for (i = 0; i < WHO; i++) {
            go_on(&contenders[i]);
            check();
        }
    }
    for (i = 0; i < WHO; i++) {
        assert_true(contenders[i].state == AWAY && !contenders[i].is_open);
    }
    assert_int_equal(store.entry_count, 0);
}

static void play(simba_loop *loop, uint64_t seed)
{
    simba_session_ops ops = {.size = sizeof ops,
                             .name = "played",
                             .entry_size = sizeof(struct played_entry),
                             .mutex_size = sizeof(simba_session_mutex),
                             .is_ordered = seed % 2 == 0,
                             .want = want,
                             .is_ready = is_store_ready,
                             .lease_ms = lease_ms,
                             .put = take_step,
                             .look = take_step,
                             .remove = take_step};

    simba__rng_seed(&rng, seed);
    store = (simba_session_store){.base.loop = loop, .ops = &ops};
    store.fresh_ms = 100;
    memset(contenders, 0, sizeof contenders);
    step_count = key_count = 0;
    is_healed = false;
    is_ready = true;
    simba_loop_enter(loop);
    for (int i = 0; i < EVENTS; i++) {
        happen();
        check();
    }
    heal();
    simba_session_fini(&store);
    simba_loop_leave(loop);
}

static void end_it(void *unused)
{
    (void)unused;
}

TEST(test_session_entries__list_is_what_its_entries_say)
{
    simba_loop *loop;
    simba_error error;

    assert_int_equal(simba__loop_open(&loop, &error), SIMBA_OK);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        play(loop, seed);
    }
    simba__loop_end(loop, end_it, NULL);
    simba__loop_close(loop);
}
