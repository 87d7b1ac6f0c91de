/* Checks mutex names and contender ids (safety.md S14: the same names and ids
 * are accepted on every store).
 *
 * Escaping a valid name for a key, a path or a statement is the business of
 * the backend that needs it. */
#include "core/name.h"

#include "util/text.h"

#include <simba/owner.h>

#include <assert.h>

_Static_assert(SIMBA_MUTEX_MAX_BYTES == SIMBA_MUTEX_MAX * 4,
               "a character of UTF-8 has four bytes at most");
_Static_assert(SIMBA_MUTEX_MAX == 66 && SIMBA_ID_MAX == 128,
               "the texts of SIMBA__NAME_PROBLEM_MAP name these numbers");

/* What ids and mutex names have in common; counts the characters. */
static enum simba__name_problem check_characters(const char *text,
                                                 size_t len,
                                                 size_t *count)
{
    size_t at = 0;

    *count = 0;
    while (at < len) {
        unsigned char first = (unsigned char)text[at];
        size_t n = simba__text_sequence(text + at, len - at);

        if (n == 0) {
            return SIMBA__NAME_NOT_UTF8;
        }
        /* C0 with NUL, DEL, and C1. */
        if (first < 0x20 || first == 0x7f ||
            (first == 0xc2 && (unsigned char)text[at + 1] < 0xa0)) {
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
    /* A message of the wire format shared with other implementations is an
     * event, "@@" and an id; a client that finds any other number of "@@" in it
     * throws. So an id neither contains one nor ends with half of one. */
    for (size_t i = 1; i < len && problem == SIMBA__NAME_FINE; i++) {
        if (text[i - 1] == '@' && text[i] == '@') {
            problem = SIMBA__NAME_DOUBLE_AT;
        }
    }
    if (problem == SIMBA__NAME_FINE && text[len - 1] == '@') {
        problem = SIMBA__NAME_ENDS_WITH_AT;
    }
    return problem;
}

const char *const simba__name_problem_texts[] = {
#define X(name, text) text,
    SIMBA__NAME_PROBLEM_MAP(X)
#undef X
};
