#include "shims/line.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put(struct simba__line *line, const char *text, size_t length)
{
    assert(length <= sizeof line->text - line->length);
    memcpy(line->text + line->length, text, length);
    line->length += length;
}

static void put_key(struct simba__line *line, const char *key)
{
    put(line, line->length == 1 ? "\"" : ",\"", line->length == 1 ? 1 : 2);
    put(line, key, strlen(key));
    put(line, "\":", 2);
}

void simba__line_begin(struct simba__line *line)
{
    line->length = 0;
    put(line, "{", 1);
}

/* Names are valid UTF-8 without control characters (S14), but what a store
 * answers was written by others. */
void simba__line_text(struct simba__line *line,
                      const char *key,
                      const char *value)
{
    char escaped[8];

    put_key(line, key);
    put(line, "\"", 1);
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\') {
            put(line, "\\", 1);
            put(line, value, 1);
        } else if ((unsigned char)*value < 0x20 || *value == 0x7f) {
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)*value);
            put(line, escaped, 6);
        } else {
            put(line, value, 1);
        }
    }
    put(line, "\"", 1);
}

void simba__line_number(struct simba__line *line, const char *key, int64_t n)
{
    char text[24];
    int length = snprintf(text, sizeof text, "%" PRId64, n);

    put_key(line, key);
    put(line, text, (size_t)length);
}

void simba__line_unsigned(struct simba__line *line, const char *key, uint64_t n)
{
    char text[24];
    int length = snprintf(text, sizeof text, "%" PRIu64, n);

    put_key(line, key);
    put(line, text, (size_t)length);
}

void simba__line_true(struct simba__line *line, const char *key)
{
    put_key(line, key);
    put(line, "true", 4);
}

void simba__line_end(struct simba__line *line)
{
    put(line, "}\n", 2);
}
