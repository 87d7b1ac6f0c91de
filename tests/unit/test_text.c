/* Texts: hashes, digits, and the percent-escapes of URLs. */
#include "core/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

/* Figures of the authors of the hash: other processes must find the same. */
static void test_text__hash_is_the_same_everywhere(void **state)
{
    (void)state;
    assert_true(simba__text_hash("") == UINT64_C(0xcbf29ce484222325));
    assert_true(simba__text_hash("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(simba__text_hash("foobar") == UINT64_C(0x85944171f73967e8));
    assert_true(simba__text_hash("\xff") != simba__text_hash("\x7f"));
}

static void test_text__knows_hexadecimal_digits(void **state)
{
    static const char others[] = {'\0', '/', ':', '@', 'G', '`', 'g', '\x80'};

    (void)state;
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

static void test_text__escapes_are_decoded(void **state)
{
    (void)state;
    becomes("", "");
    becomes("plain", "plain");
    becomes("%61%2F%2f%7E", "a//~");
    becomes("100%25", "100%");
    becomes("%2525", "%25"); /* once */
    becomes("%C3%a9 %ff", "\xc3\xa9 \xff");
}

static void test_text__broken_escapes_are_refused(void **state)
{
    static const char *const broken[] = {"%",   "a%",   "%6",  "%6g",
                                         "%g6", "%%61", "%00", "a%00b"};

    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char text[32];

        snprintf(text, sizeof text, "%s", broken[i]);
        assert_false(simba__text_unescape(text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text__hash_is_the_same_everywhere),
        cmocka_unit_test(test_text__knows_hexadecimal_digits),
        cmocka_unit_test(test_text__escapes_are_decoded),
        cmocka_unit_test(test_text__broken_escapes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
