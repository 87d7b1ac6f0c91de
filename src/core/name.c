/* Checks mutex names and contender ids (safety.md S14: the same names and ids
 * are accepted on every store).
 *
 * Escaping a valid name for a key, a path or a statement is the business of
 * the backend that needs it. */
#include "core/name.h"

#include <simba/owner.h>

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

_Static_assert(SIMBA_MUTEX_MAX_BYTES == SIMBA_MUTEX_MAX * 4,
               "a character of UTF-8 has four bytes at most");
_Static_assert(SIMBA_MUTEX_MAX == 66 && SIMBA_ID_MAX == 128,
               "the texts of SIMBA__NAME_PROBLEM_MAP name these numbers");

/* Number of bytes of the character that starts with `lead`, 0 for a byte that
 * starts none. */
static size_t sequence_length(unsigned char lead)
{
    if ((lead & 0x80) == 0) {
        return 1;
    }
    if ((lead & 0xE0) == 0xC0) {
        return 2;
    }
    if ((lead & 0xF0) == 0xE0) {
        return 3;
    }
    return (lead & 0xF8) == 0xF0 ? 4 : 0;
}

/* Overlong forms would let two spellings name one mutex, and surrogates are
 * what some stores refuse and others repair: both break byte for byte
 * comparison. */
static bool is_scalar_value(uint32_t point, size_t len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    bool is_surrogate = point >= 0xD800 && point <= 0xDFFF;

    assert(len >= 1 && len <= 4);
    return point >= least[len] && point <= 0x10FFFF && !is_surrogate;
}

/* Read one character from `len` bytes, at least one. Returns how many it took,
 * or 0 when they do not start with a valid one. */
static size_t read_character(const char *text, size_t len, uint32_t *point)
{
    unsigned char lead = (unsigned char)text[0];
    size_t n = sequence_length(lead);

    assert(len > 0);
    if (n == 0 || n > len) {
        return 0;
    }
    *point = n == 1 ? lead : lead & (0xFFu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        unsigned char next = (unsigned char)text[i];

        if ((next & 0xC0) != 0x80) {
            return 0;
        }
        *point = (*point << 6) | (next & 0x3Fu);
    }
    return is_scalar_value(*point, n) ? n : 0;
}

/* C0 with NUL, DEL, and C1. */
static bool is_control(uint32_t point)
{
    return point < 0x20 || (point >= 0x7F && point <= 0x9F);
}

/* What ids and mutex names have in common; counts the characters. */
static enum simba__name_problem check_characters(const char *text,
                                                 size_t len,
                                                 size_t *count)
{
    size_t at = 0;

    *count = 0;
    while (at < len) {
        uint32_t point = 0;
        size_t n = read_character(text + at, len - at, &point);

        if (n == 0) {
            return SIMBA__NAME_NOT_UTF8;
        }
        if (is_control(point)) {
            return SIMBA__NAME_CONTROL;
        }
        at += n;
        (*count)++;
    }
    return SIMBA__NAME_FINE;
}

enum simba__name_problem simba__name_check_mutex(const char *text, size_t len)
{
    enum simba__name_problem problem;
    size_t count;

    assert(text != NULL);
    if (len == 0) {
        return SIMBA__NAME_EMPTY;
    }
    if (len > SIMBA_MUTEX_MAX_BYTES) { /* bounds the work, whatever is given */
        return SIMBA__NAME_MUTEX_TOO_LONG;
    }
    if (text[0] == '}') { /* "{}" is not a hash tag to a Redis cluster */
        return SIMBA__NAME_STARTS_WITH_BRACE;
    }
    problem = check_characters(text, len, &count);
    if (problem == SIMBA__NAME_FINE && count > SIMBA_MUTEX_MAX) {
        problem = SIMBA__NAME_MUTEX_TOO_LONG;
    }
    return problem;
}

/* A message of the wire format shared with other implementations is an event,
 * "@@" and an id; a client that finds any other number of "@@" in it throws. So
 * an id neither contains one nor ends with half of one. */
static enum simba__name_problem check_separator(const char *text, size_t len)
{
    assert(len > 0);
    for (size_t i = 1; i < len; i++) {
        if (text[i - 1] == '@' && text[i] == '@') {
            return SIMBA__NAME_DOUBLE_AT;
        }
    }
    return text[len - 1] == '@' ? SIMBA__NAME_ENDS_WITH_AT : SIMBA__NAME_FINE;
}

enum simba__name_problem simba__name_check_id(const char *text, size_t len)
{
    enum simba__name_problem problem;
    size_t count;

    assert(text != NULL);
    if (len == 0) {
        return SIMBA__NAME_EMPTY;
    }
    if (len > SIMBA_ID_MAX) {
        return SIMBA__NAME_ID_TOO_LONG;
    }
    problem = check_characters(text, len, &count);
    if (problem == SIMBA__NAME_FINE) {
        problem = check_separator(text, len);
    }
    return problem;
}

const char *simba__name_problem_text(enum simba__name_problem problem)
{
    static const char *const texts[] = {
#define X(name, text) text,
        SIMBA__NAME_PROBLEM_MAP(X)
#undef X
    };

    assert((size_t)problem < sizeof texts / sizeof texts[0]);
    return texts[problem];
}
