/* Names: what is accepted as a mutex name and as a contender id, and what is
 * said of the rest (safety.md S14). */
#include "core/name.h"

#include <simba/owner.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fixtures/unit_test.h"

/* For literals, so that a NUL inside counts. */
#define MUTEX(text) simba__name_check_mutex(text, sizeof(text) - 1)
#define ID(text)    simba__name_check_id(text, sizeof(text) - 1)

#define assert_mutex(text, problem)                                            \
    assert_int_equal(MUTEX(text), SIMBA__NAME_##problem)
#define assert_id(text, problem)                                               \
    assert_int_equal(ID(text), SIMBA__NAME_##problem)
/* What holds for both. */
#define assert_both(text, problem)                                             \
    do {                                                                       \
        assert_mutex(text, problem);                                           \
        assert_id(text, problem);                                              \
    } while (0)

TEST(test_name__ordinary_names_are_fine)
{
    assert_both("a", FINE);
    assert_both("nightly-report", FINE);
    assert_id("0:12345@192.168.1.100", FINE);
    assert_id("b8d2a7c06e7f4f0f9d1b3c5a7e9f1d3b", FINE);
}

TEST(test_name__punctuation_and_spaces_are_fine)
{
    assert_both(" / { } % : ' \" ` \\ $ ; -- ? * ~", FINE);
    assert_mutex("@@", FINE);
    assert_mutex("a@", FINE);
    assert_mutex("{}", FINE);
    assert_id("}", FINE);
}

TEST(test_name__empty_is_refused)
{
    assert_both("", EMPTY);
}

TEST(test_name__text_ends_where_the_length_says)
{
    assert_int_equal(simba__name_check_mutex("ab\x01", 2), SIMBA__NAME_FINE);
    assert_int_equal(simba__name_check_id("a@@", 1), SIMBA__NAME_FINE);
    assert_int_equal(simba__name_check_id("\xc3\xa9", 1), SIMBA__NAME_NOT_UTF8);
}

TEST(test_name__control_characters_are_refused)
{
    assert_both("a\0b", CONTROL);
    assert_both("\0", CONTROL);
    assert_both("a\tb", CONTROL);
    assert_both("a\n", CONTROL);
    assert_both("\x1f", CONTROL);
    assert_both("\x7f", CONTROL);
    assert_both("\xc2\x80", CONTROL); /* U+0080 */
    assert_both("\xc2\x9f", CONTROL); /* U+009F */
}

TEST(test_name__neighbours_of_controls_are_fine)
{
    assert_both("\x20", FINE);
    assert_both("\x7e", FINE);
    assert_both("\xc2\xa0", FINE); /* U+00A0 */
}

TEST(test_name__ends_of_each_utf8_length_are_fine)
{
    assert_both("\xdf\xbf", FINE);         /* U+07FF */
    assert_both("\xe0\xa0\x80", FINE);     /* U+0800 */
    assert_both("\xef\xbf\xbf", FINE);     /* U+FFFF */
    assert_both("\xf0\x90\x80\x80", FINE); /* U+10000 */
    assert_both("\xf4\x8f\xbf\xbf", FINE); /* U+10FFFF */
}

TEST(test_name__overlong_forms_are_refused)
{
    assert_both("\xc0\x80", NOT_UTF8);
    assert_both("\xc1\xbf", NOT_UTF8);
    assert_both("\xe0\x9f\xbf", NOT_UTF8);
    assert_both("\xf0\x8f\xbf\xbf", NOT_UTF8);
}

TEST(test_name__surrogates_are_refused)
{
    assert_both("\xed\x9f\xbf", FINE); /* U+D7FF */
    assert_both("\xed\xa0\x80", NOT_UTF8);
    assert_both("\xed\xbf\xbf", NOT_UTF8);
    assert_both("\xee\x80\x80", FINE); /* U+E000 */
}

TEST(test_name__beyond_unicode_is_refused)
{
    assert_both("\xf4\x90\x80\x80", NOT_UTF8);
    assert_both("\xf5\x80\x80\x80", NOT_UTF8);
    assert_both("\xff", NOT_UTF8);
}

TEST(test_name__broken_sequences_are_refused)
{
    assert_both("\x80", NOT_UTF8);         /* continues nothing */
    assert_both("a\xbf", NOT_UTF8);        /* continues nothing */
    assert_both("\xc3", NOT_UTF8);         /* ends early */
    assert_both("\xe2\x82", NOT_UTF8);     /* ends early */
    assert_both("\xc3\x28", NOT_UTF8);     /* no continuation */
    assert_both("\xe2\x82\x28", NOT_UTF8); /* no continuation */
    assert_both("\xe2\xc3\xa9", NOT_UTF8); /* another one begins */
}

/* Every code point once, against rules written down another way. */
TEST(test_name__every_code_point_is_judged_rightly)
{
    for (uint32_t point = 0x80; point <= 0x1FFFFF; point++) {
        unsigned char text[4];
        size_t len = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        enum simba__name_problem expected = SIMBA__NAME_FINE;

        for (size_t i = len - 1; i > 0; i--) {
            text[i] =
                (unsigned char)(0x80 | ((point >> (6 * (len - 1 - i))) & 0x3F));
        }
        text[0] = (unsigned char)((0xF00u >> len) | (point >> (6 * (len - 1))));
        if (point < 0xA0) {
            expected = SIMBA__NAME_CONTROL;
        } else if (point >> 11 == 0x1B || point >> 16 > 0x10) {
            expected = SIMBA__NAME_NOT_UTF8;
        }
        if (simba__name_check_id((const char *)text, len) != expected) {
            fail_msg("U+%04X", (unsigned)point);
        }
    }
}

TEST(test_name__mutex_may_not_start_with_closing_brace)
{
    assert_mutex("}", STARTS_WITH_BRACE);
    assert_mutex("}a", STARTS_WITH_BRACE);
    assert_mutex("a}", FINE);
}

TEST(test_name__mutex_length_counts_characters)
{
    char text[SIMBA_MUTEX_MAX_BYTES + 4];

    memset(text, 'm', sizeof text);
    assert_int_equal(simba__name_check_mutex(text, 66), SIMBA__NAME_FINE);
    assert_int_equal(simba__name_check_mutex(text, 67),
                     SIMBA__NAME_MUTEX_TOO_LONG);
    for (size_t i = 0; i < sizeof text; i += 4) {
        memcpy(text + i, "\xf0\x9f\xa6\x81", 4); /* a lion's face */
    }
    assert_int_equal(simba__name_check_mutex(text, 4 * 66), SIMBA__NAME_FINE);
    assert_int_equal(simba__name_check_mutex(text, 4 * 66 + 1),
                     SIMBA__NAME_MUTEX_TOO_LONG);
    assert_int_equal(simba__name_check_mutex(text, 4 * 67),
                     SIMBA__NAME_MUTEX_TOO_LONG);
}

TEST(test_name__id_length_counts_bytes)
{
    char text[SIMBA_ID_MAX + 2];

    for (size_t i = 0; i < sizeof text; i += 2) {
        memcpy(text + i, "\xc3\xa9", 2);
    }
    assert_int_equal(simba__name_check_id(text, 128), SIMBA__NAME_FINE);
    assert_int_equal(simba__name_check_id(text, 129), SIMBA__NAME_ID_TOO_LONG);
    assert_int_equal(simba__name_check_id(text, 130), SIMBA__NAME_ID_TOO_LONG);
}

TEST(test_name__id_keeps_clear_of_the_separator)
{
    assert_id("a@@b", DOUBLE_AT);
    assert_id("@@a", DOUBLE_AT);
    assert_id("a@@", DOUBLE_AT);
    assert_id("a@", ENDS_WITH_AT);
    assert_id("@", ENDS_WITH_AT);
    assert_id("@a", FINE);
    assert_id("a@b@c", FINE);
}

TEST(test_name__problems_read_well_after_a_name)
{
    assert_string_equal(simba__name_problem_texts[SIMBA__NAME_MUTEX_TOO_LONG],
                        "is longer than 66 characters");
    assert_string_equal(simba__name_problem_texts[SIMBA__NAME_ID_TOO_LONG],
                        "is longer than 128 bytes");
    assert_string_equal(simba__name_problem_texts[SIMBA__NAME_DOUBLE_AT],
                        "contains \"@@\"");
}

TEST(test_name__every_problem_has_its_own_text)
{
    for (unsigned i = 0; i < SIMBA__NAME_PROBLEM_COUNT; i++) {
        const char *text = simba__name_problem_texts[i];

        assert_true(strlen(text) > 0);
        for (unsigned j = 0; j < i; j++) {
            assert_string_not_equal(text, simba__name_problem_texts[j]);
        }
    }
}
