/* Reading one line of JSON: an object whose members matter one by one. Objects
 * and arrays inside it are checked and passed over. */
#ifndef SIMBA_VERIFY_JSON_LINE_H
#define SIMBA_VERIFY_JSON_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum simba__flat_kind {
    SIMBA__FLAT_TEXT,
    SIMBA__FLAT_NUMBER,
    SIMBA__FLAT_TRUE,
    SIMBA__FLAT_FALSE,
    SIMBA__FLAT_OTHER /* null, an object, an array */
};

struct simba__flat_member {
    const char *key;
    enum simba__flat_kind kind;
    const char *text; /* TEXT: decoded, without NUL in it */
    uint64_t number;  /* NUMBER, when is_whole */
    bool is_whole;    /* neither sign, fraction nor exponent, and it fits */
};

typedef void (*simba__flat_fn)(void *user,
                               const struct simba__flat_member *member);

/**
 * Read a line, changing it; its texts live as long as it.
 *
 * @param line  `length` bytes and a NUL
 * @return NULL; else what is wrong, static
 */
const char *simba__flat_read(char *line,
                             size_t length,
                             simba__flat_fn member,
                             void *user);

#endif
