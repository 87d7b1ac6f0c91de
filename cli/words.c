/* Times and lengths as people read them; see words.h. */
#define _GNU_SOURCE
#include "words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SECOND = 1000, MINUTE = 60000, HOUR = 3600000, DAY = 86400000 };
enum { BAR = 10, TENTHS_TO = 10000 };

void simba__words_duration(int64_t ms, char text[SIMBA__WORDS_ROOM])
{
    if (ms < SECOND) {
        snprintf(text, SIMBA__WORDS_ROOM, "%" PRId64 "ms", ms < 0 ? 0 : ms);
    } else if (ms < TENTHS_TO) {
        snprintf(text, SIMBA__WORDS_ROOM, "%" PRId64 ".%" PRId64 "s",
                 ms / SECOND, ms % SECOND / 100);
    } else if (ms < MINUTE) {
        snprintf(text, SIMBA__WORDS_ROOM, "%" PRId64 "s", ms / SECOND);
    } else if (ms < HOUR) {
        snprintf(text, SIMBA__WORDS_ROOM, "%" PRId64 "m%02" PRId64 "s",
                 ms / MINUTE, ms % MINUTE / SECOND);
    } else if (ms < DAY) {
        snprintf(text, SIMBA__WORDS_ROOM, "%" PRId64 "h%02" PRId64 "m",
                 ms / HOUR, ms % HOUR / MINUTE);
    } else {
        snprintf(text, SIMBA__WORDS_ROOM, "%" PRId64 "d%02" PRId64 "h",
                 ms / DAY, ms % DAY / HOUR);
    }
}

void simba__words_time(int64_t unix_ms,
                       bool has_ms,
                       char text[SIMBA__WORDS_ROOM])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    size_t length;

    if (localtime_r(&seconds, &parts) == NULL) {
        snprintf(text, SIMBA__WORDS_ROOM, "?");
        return;
    }
    length = strftime(text, SIMBA__WORDS_ROOM, "%Y-%m-%d %H:%M:%S", &parts);
    if (has_ms) {
        snprintf(text + length, SIMBA__WORDS_ROOM - length, ".%03d",
                 (int)(unix_ms % 1000));
    }
}

void simba__words_bar(int64_t part, int64_t whole, char text[SIMBA__WORDS_ROOM])
{
    int full = whole <= 0 || part >= whole ? BAR
               : part <= 0                 ? 0
                           : (int)((part * BAR + whole - 1) / whole);

    snprintf(text, SIMBA__WORDS_ROOM, "[%.*s%.*s]", full, "##########",
             BAR - full, "----------");
}

int64_t simba__words_unix_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool simba__words_is_live(int fd)
{
    const char *term = getenv("TERM");

    return isatty(fd) == 1 && (term == NULL || strcmp(term, "dumb") != 0);
}

bool simba__words_has_colour(int fd)
{
    const char *no_colour = getenv("NO_COLOR");

    return simba__words_is_live(fd) &&
           (no_colour == NULL || *no_colour == '\0');
}

/* Characters, not bytes; that some are wide is not known here. */
size_t simba__words_width(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}
