/* Owners by their position: every queue of up to six, with limits that agree
 * and that do not, and whoever goes from it. */
#include <stddef.h>
#include <stdint.h>

#include "fixtures/unit_test.h"

#include <simba/sys/session_store.h>

#include <string.h>

enum { MOST = 6, LIMITS = 4 };

static const uint32_t limits[LIMITS] = {0, 2, 3, UINT32_MAX};
static uint32_t queue[MOST];

/* Does the last own it when these have gone? */
static bool owns(int count, unsigned gone)
{
    simba_crowd crowd = {0};

    for (int i = 0; i < count; i++) {
        if ((gone >> i & 1) == 0) {
            simba_crowd_add(&crowd, queue[i]);
        }
    }
    return crowd.owned == crowd.count;
}

static unsigned watched_by_last(int count)
{
    simba_crowd crowd = {0};
    simba_crowd_watched watched;
    unsigned set = 0;

    for (int i = 0; i < count; i++) {
        simba_crowd_add(&crowd, queue[i]);
    }
    simba_crowd_watch(&crowd, &watched);
    set = 1U << watched.other;
    for (uint32_t i = watched.begin; i < watched.end; i++) {
        set |= 1U << i;
    }
    assert_int_equal(__builtin_popcount(set), crowd.least);
    assert_true(set < 1U << (count - 1));
    return set;
}

/* Whether it may own it although none of these has gone. */
static bool is_missed(int count, unsigned watched)
{
    for (unsigned gone = 0; gone < 1U << (count - 1); gone++) {
        if ((gone & watched) == 0 && owns(count, gone)) {
            return true;
        }
    }
    return false;
}

/* Returns how many queues there are. */
static int each_queue(void (*check)(int count))
{
    int queues = 0;

    for (int count = 1; count <= MOST; count++) {
        for (int code = 0; code < 1 << (2 * count); code++) {
            for (int i = 0; i < count; i++) {
                queue[i] = limits[code >> (2 * i) & 3];
            }
            check(count);
            queues++;
        }
    }
    return queues;
}

/* S1: none of the first `owned` suffers fewer, and the next one does, or one of
 * them would with it. S11: nobody passes. */
static void check_owners(int count)
{
    simba_crowd crowd = {0};

    for (int i = 0; i < count; i++) {
        simba_crowd_add(&crowd, queue[i]);
        assert_int_equal(owns(i + 1, 0), (uint32_t)i < crowd.owned);
    }
    assert_true(crowd.owned >= 1);
    for (uint32_t i = 0; i < crowd.owned; i++) {
        assert_true((queue[i] == 0 ? 1 : queue[i]) >= crowd.owned);
    }
    if (crowd.owned < crowd.count) {
        bool is_full = false;

        for (uint32_t i = 0; i <= crowd.owned; i++) {
            is_full |= (queue[i] == 0 ? 1 : queue[i]) <= crowd.owned;
        }
        assert_true(is_full);
    }
}

TEST(test_crowd__as_many_own_it_as_all_of_them_suffer)
{
    assert_int_equal(each_queue(check_owners), 5460);
}

static void check_stays(int count)
{
    for (unsigned gone = 0; owns(count, 0) && gone < 1U << (count - 1);
         gone++) {
        assert_true(owns(count, gone));
    }
}

TEST(test_crowd__who_owns_it_does_whoever_goes)
{
    each_queue(check_stays);
}

static int missed;

static void check_watched(int count)
{
    if (!owns(count, 0)) {
        assert_false(is_missed(count, watched_by_last(count)));
        missed += is_missed(count, 1U << (count - 2));
    }
}

/* The one before is enough for exclusive ones, and not for others. */
TEST(test_crowd__nobody_comes_to_own_it_before_one_it_watches_has_gone)
{
    missed = 0;
    each_queue(check_watched);
    assert_true(missed > 0);
}

TEST(test_crowd__exclusive_ones_watch_the_one_before)
{
    memset(queue, 0, sizeof queue);
    for (int count = 2; count <= MOST; count++) {
        assert_int_equal(watched_by_last(count), 1U << (count - 2));
    }
}
