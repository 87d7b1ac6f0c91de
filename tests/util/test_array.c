#include "no_memory.h"
#include "util/array.h"

#include "fixtures/unit_test.h"

TEST(test_array__keeps_what_is_in_it)
{
    int *items = NULL;
    size_t room = 0, moves = 0;

    for (int i = 0; i < 1000; i++) {
        size_t before = room;

        assert_true(
            simba__array_reserve(&items, &room, (size_t)i + 1, sizeof *items));
        moves += room != before;
        items[i] = i;
    }
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(items[i], i);
    }
    assert_in_range(room, 1000, 2000);
    assert_in_range(moves, 1, 10); /* it doubles */
    free(items);
}

TEST(test_array__grows_to_what_is_wanted_at_once)
{
    char *items = NULL;
    size_t room = 0;

    assert_true(simba__array_reserve(&items, &room, 5000, 1));
    assert_in_range(room, 5000, 10000);
    memset(items, 1, room);
    free(items);
}

TEST(test_array__without_memory_nothing_changes)
{
    int *items = NULL;
    size_t room = 0;
    const int *before;

    assert_true(simba__array_reserve(&items, &room, 1, sizeof *items));
    before = items;
    no_memory = true;
    assert_false(simba__array_reserve(&items, &room, room + 1, sizeof *items));
    no_memory = false;
    assert_false(simba__array_reserve(&items, &room, SIZE_MAX / sizeof *items,
                                      sizeof *items));
    assert_int_equal(room, 8);
    assert_ptr_equal(items, before);
    free(items);
}
