#define _GNU_SOURCE
#include "no_memory.h"
#include "util/text.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/unit_test.h"

TEST(test_text__knows_hexadecimal_digits)
{
    static const char others[] = {'\0', '/', ':', '@', 'G', '`', 'g', '\x80'};

    for (int i = 0; i < 16; i++) {
        assert_int_equal(simba__text_hex("0123456789abcdef"[i]), i);
        assert_int_equal(simba__text_hex("0123456789ABCDEF"[i]), i);
    }
    for (size_t i = 0; i < sizeof others; i++) {
        assert_int_equal(simba__text_hex(others[i]), -1);
    }
}

static void becomes(const char *escaped, const char *plain)
{
    char text[32];

    snprintf(text, sizeof text, "%s", escaped);
    assert_true(simba__text_unescape(text));
    assert_string_equal(text, plain);
}

TEST(test_text__escapes_are_decoded)
{
    becomes("", "");
    becomes("plain", "plain");
    becomes("%61%2F%2f%7E", "a//~");
    becomes("100%25", "100%");
    becomes("%2525", "%25"); /* once */
    becomes("%C3%a9 %ff", "\xc3\xa9 \xff");
}

TEST(test_text__broken_escapes_are_refused)
{
    static const char *const broken[] = {"%",   "a%",   "%6",  "%6g",
                                         "%g6", "%%61", "%00", "a%00b"};

    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char text[32];

        snprintf(text, sizeof text, "%s", broken[i]);
        assert_false(simba__text_unescape(text));
    }
}

TEST(test_text__grows)
{
    struct simba__text text = {0};
    char *taken;

    for (int i = 0; i < 500; i++) {
        simba__text_printf(&text, "%d,", i % 10);
    }
    simba__text_printf(&text, "%0300d", 7);
    simba__text_add(&text, "xyz", 2);
    simba__text_put(&text, ".");
    assert_int_equal(text.length, 1000 + 300 + 3);
    taken = simba__text_take(&text);
    assert_int_equal(strlen(taken), 1303);
    assert_memory_equal(taken, "0,1,2,3,4,5,6,7,8,9,0,", 22);
    assert_string_equal(taken + 1299, "7xy.");
    assert_int_equal(text.length, 0);
    free(taken);
    taken = simba__text_take(&text);
    assert_string_equal(taken, "");
    free(taken);
}

TEST(test_text__fixed_room_cuts_and_says_so)
{
    char room[8];
    struct simba__text text = simba__text_fixed(room, sizeof room);

    assert_string_equal(room, "");
    simba__text_put(&text, "1234567");
    assert_false(text.is_failed);
    simba__text_put(&text, "8");
    assert_true(text.is_failed);
    assert_string_equal(room, "1234567");
    text = simba__text_fixed(room, sizeof room);
    simba__text_printf(&text, "%d", 123456789);
    simba__text_put(&text, "0");
    assert_true(text.is_failed);
    assert_string_equal(room, "1234567");
}

TEST(test_text__goes_to_a_file)
{
    char *written = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&written, &size);
    struct simba__text text = simba__text_file(file);

    simba__text_put(&text, "a");
    simba__text_printf(&text, "%d", 12);
    fclose(file);
    assert_string_equal(written, "a12");
    free(written);
}

TEST(test_text__without_memory_it_is_none)
{
    struct simba__text text = {0};

    simba__text_put(&text, "a");
    no_memory = true;
    simba__text_printf(&text, "%01000d", 5);
    no_memory = false;
    simba__text_put(&text, "b");
    assert_true(text.is_failed);
    assert_null(simba__text_take(&text));
}

TEST(test_text__escapes_what_urls_are_made_of)
{
    char room[64];
    struct simba__text text = simba__text_fixed(room, sizeof room);

    simba__text_escape(&text, "aZ09-._~ /?#@:%\xc3\xa9");
    assert_string_equal(room, "aZ09-._~%20%2F%3F%23%40%3A%25%C3%A9");
    assert_true(simba__text_unescape(room));
    assert_string_equal(room, "aZ09-._~ /?#@:%\xc3\xa9");
}

TEST(test_text__numbers_have_no_signs_and_no_end)
{
    static const char *const none[] = {
        "", "-1", "+1", " 1", "1 ", "0x1", "101", "99999999999999999999"};
    uint64_t number = 0;

    assert_true(simba__text_number("0", 100, &number));
    assert_int_equal(number, 0);
    assert_true(simba__text_number("0100", 100, &number));
    assert_int_equal(number, 100);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_false(simba__text_number(none[i], 100, &number));
    }
}
