/* Names: which mutex names and contender ids are accepted (safety.md S14).
 *
 * The rules are the same whatever the store, so that a program can change its
 * store by changing a URL. They are the narrowest of all stores and of the wire
 * formats shared with other implementations, and are checked before any I/O. */
#ifndef SIMBA_CORE_NAME_H
#define SIMBA_CORE_NAME_H

#include <stddef.h>

/* What is wrong, and the words that follow the name in a message. */
#define SIMBA__NAME_PROBLEM_MAP(X)                                             \
    X(FINE, "is valid")                                                        \
    X(EMPTY, "is empty")                                                       \
    X(MUTEX_TOO_LONG, "is longer than 66 characters")                          \
    X(ID_TOO_LONG, "is longer than 128 bytes")                                 \
    X(NOT_UTF8, "is not valid UTF-8")                                          \
    X(CONTROL, "contains a control character")                                 \
    X(STARTS_WITH_BRACE, "starts with '}'")                                    \
    X(DOUBLE_AT, "contains \"@@\"")                                            \
    X(ENDS_WITH_AT, "ends with '@'")

enum simba__name_problem {
#define X(name, text) SIMBA__NAME_##name,
    SIMBA__NAME_PROBLEM_MAP(X)
#undef X
        SIMBA__NAME_PROBLEM_COUNT
};

/**
 * Check a mutex name of `len` bytes: 1 to 66 characters of UTF-8, no control
 * characters (a NUL is one), not starting with '}'. `text` needs no NUL at its
 * end. Returns SIMBA__NAME_FINE or the first problem found.
 */
enum simba__name_problem simba__name_check_mutex(const char *text, size_t len);

/**
 * Check a contender id of `len` bytes: 1 to 128 bytes of UTF-8, no control
 * characters, no "@@" and no '@' at its end. Returns SIMBA__NAME_FINE or the
 * first problem found.
 */
enum simba__name_problem simba__name_check_id(const char *text, size_t len);

/** The problems in words, to follow the name: "is empty". */
extern const char *const simba__name_problem_texts[];

#endif
