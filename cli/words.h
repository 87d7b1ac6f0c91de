/* Times and lengths as people read them, and what a terminal can show. */
#ifndef SIMBA_CLI_WORDS_H
#define SIMBA_CLI_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Room for what these write. */
enum { SIMBA__WORDS_ROOM = 64 };

/** A length of time: 250ms, 9.8s, 42s, 3m12s, 5h03m, 2d07h. */
void simba__words_duration(int64_t ms, char text[SIMBA__WORDS_ROOM]);

/** Local time: 2026-11-16 06:43:12.123, without milliseconds if not wanted. */
void simba__words_time(int64_t unix_ms,
                       bool has_ms,
                       char text[SIMBA__WORDS_ROOM]);

/** [######----]: so much of the whole. */
void simba__words_bar(int64_t part,
                      int64_t whole,
                      char text[SIMBA__WORDS_ROOM]);

/** The time of day, milliseconds since 1970. */
int64_t simba__words_unix_ms(void);

/** Can what is written there be moved over again? It is a terminal. */
bool simba__words_is_live(int fd);

/** And is colour welcome ($NO_COLOR, $TERM)? */
bool simba__words_has_colour(int fd);

/** How many columns a text takes, near enough. */
size_t simba__words_width(const char *text);

#endif
