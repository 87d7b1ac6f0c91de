/* What owners tell about themselves, as the text that stores keep. */
#include "core/told.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fixtures/unit_test.h"

TEST(test_told__is_read_as_it_was_written)
{
    simba_told told = {.pid = 4711}, read = {.pid = 0};
    char text[SIMBA__TOLD_ROOM];

    simba__told_copy(told.host, sizeof told.host, "web1");
    simba__told_copy(told.user, sizeof told.user, "ann");
    simba__told_copy(told.command, sizeof told.command, "sh -c 'a\nb' \t\x01");
    simba__told_write(text, &told);
    simba__told_read(&read, text);
    assert_string_equal(read.host, "web1");
    assert_string_equal(read.user, "ann");
    assert_int_equal(read.pid, 4711);
    assert_string_equal(read.command, "sh -c 'a b' \t\x01");
}

TEST(test_told__what_is_not_told_is_not_written)
{
    char text[SIMBA__TOLD_ROOM];

    simba__told_write(text, &(simba_told){.pid = 7});
    assert_string_equal(text, "pid 7\n");
}

TEST(test_told__anything_can_be_read)
{
    static const char *const odd[] = {"",
                                      "\n\n",
                                      "host",
                                      "host ",
                                      "pid x\n",
                                      "pid -1",
                                      "pid 99999999999999999999999999",
                                      "\xff\xfe",
                                      "host\nuser",
                                      " host a"};

    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        simba_told read = {.pid = 0};

        simba__told_read(&read, odd[i]);
        assert_int_equal(read.pid, 0);
        assert_string_equal(read.host, "");
        assert_string_equal(read.user, "");
    }
}

/* Whoever wrote it: no byte beyond the room, and nothing but UTF-8. */
TEST(test_told__long_ones_are_cut_between_characters)
{
    char text[4096] = "command ";
    simba_told read = {.pid = 0};

    for (size_t i = strlen(text); i + 4 < sizeof text; i += 3) {
        memcpy(text + i, "\xe2\x82\xac", 4);
    }
    simba__told_read(&read, text);
    assert_true(strlen(read.command) <= SIMBA_TOLD_COMMAND_MAX);
    assert_true(strlen(read.command) > SIMBA_TOLD_COMMAND_MAX - 6);
    assert_int_equal(strlen(read.command) % 3, 0);
    assert_string_equal(read.command + strlen(read.command) - 3,
                        "\xe2\x80\xa6");
    simba__told_read(&read, "host a\xff\xc3z\n");
    assert_string_equal(read.host, "a??z");
}

/* The longest of all fits. */
TEST(test_told__all_there_can_be_has_room)
{
    simba_told told = {.pid = INT64_MAX}, read = {.pid = 0};
    char text[SIMBA__TOLD_ROOM];

    memset(told.host, 'h', SIMBA_TOLD_WORD_MAX);
    memset(told.user, 'u', SIMBA_TOLD_WORD_MAX);
    memset(told.command, 'c', SIMBA_TOLD_COMMAND_MAX);
    simba__told_write(text, &told);
    simba__told_read(&read, text);
    assert_string_equal(read.command, told.command);
    assert_string_equal(read.user, told.user);
}
