/* One line of JSON, built up without allocation: an object of members that are
 * text, numbers or true. */
#ifndef SIMBA_SHIMS_LINE_H
#define SIMBA_SHIMS_LINE_H

#include <stddef.h>
#include <stdint.h>

/* The longest line has three names of full length, each byte escaped. */
enum { SIMBA__LINE_ROOM = 4096 };

struct simba__line {
    size_t length;
    char text[SIMBA__LINE_ROOM];
};

void simba__line_begin(struct simba__line *line);
void simba__line_text(struct simba__line *line,
                      const char *key,
                      const char *value);
void simba__line_number(struct simba__line *line, const char *key, int64_t n);
void simba__line_unsigned(struct simba__line *line,
                          const char *key,
                          uint64_t n);
void simba__line_true(struct simba__line *line, const char *key);

/** Close the object and end the line. */
void simba__line_end(struct simba__line *line);

#endif
