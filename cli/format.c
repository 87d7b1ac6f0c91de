/* Times and lengths as people and programs read them, texts of others, and what
 * a terminal can show. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "cli/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SECOND = 1000, MINUTE = 60000, HOUR = 3600000, DAY = 86400000 };
enum { BAR = 10, TENTHS_TO = 10000 };

void simba__format_duration(int64_t ms, char text[SIMBA__FORMAT_ROOM])
{
    static const struct {
        int64_t below, unit, part;
        char letters[2];
    } scales[] = {{HOUR, MINUTE, SECOND, {'m', 's'}},
                  {DAY, HOUR, MINUTE, {'h', 'm'}},
                  {INT64_MAX, DAY, HOUR, {'d', 'h'}}};
    size_t i = 0;

    if (ms < SECOND) {
        (void)snprintf(text, SIMBA__FORMAT_ROOM, "%" PRId64 "ms",
                       ms < 0 ? 0 : ms);
    } else if (ms < MINUTE) {
        (void)snprintf(text, SIMBA__FORMAT_ROOM,
                       ms < TENTHS_TO ? "%" PRId64 ".%" PRId64 "s"
                                      : "%" PRId64 "s",
                       ms / SECOND, ms % SECOND / 100);
    } else {
        while (ms >= scales[i].below) {
            i++;
        }
        (void)snprintf(text, SIMBA__FORMAT_ROOM, "%" PRId64 "%c%02" PRId64 "%c",
                       ms / scales[i].unit, scales[i].letters[0],
                       ms % scales[i].unit / scales[i].part,
                       scales[i].letters[1]);
    }
}

void simba__format_time(int64_t unix_ms,
                        bool has_ms,
                        char text[SIMBA__FORMAT_ROOM])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    size_t length;

    if (localtime_r(&seconds, &parts) == NULL) {
        (void)snprintf(text, SIMBA__FORMAT_ROOM, "?");
        return;
    }
    length = strftime(text, SIMBA__FORMAT_ROOM, "%Y-%m-%d %H:%M:%S", &parts);
    if (has_ms) {
        (void)snprintf(text + length, SIMBA__FORMAT_ROOM - length, ".%03d",
                       (int)(unix_ms % 1000));
    }
}

void simba__format_bar(int64_t part,
                       int64_t whole,
                       char text[SIMBA__FORMAT_ROOM])
{
    int full = whole <= 0 || part >= whole ? BAR
               : part <= 0                 ? 0
                           : (int)((part * BAR + whole - 1) / whole);

    (void)snprintf(text, SIMBA__FORMAT_ROOM, "[%.*s%.*s]", full, "##########",
                   BAR - full, "----------");
}

int64_t simba__unix_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool simba__is_live(int fd)
{
    const char *term = secure_getenv("TERM");

    return isatty(fd) == 1 && (term == NULL || strcmp(term, "dumb") != 0);
}

bool simba__has_colour(int fd)
{
    const char *no_colour = secure_getenv("NO_COLOR");

    return simba__is_live(fd) && (no_colour == NULL || *no_colour == '\0');
}

void simba__put_ms(struct simba__json *json, const char *key, int64_t ms)
{
    if (ms == SIMBA__UNKNOWN) {
        simba__json_text(json, key, NULL);
    } else {
        simba__json_number(json, key, ms);
    }
}

void simba__put_times(struct simba__json *json, int64_t boot_ms)
{
    char boot[SIMBA__CLOCK_BOOT];
    int64_t ago_ms = simba__clock_ms() - boot_ms;

    simba__json_number(json, "unix_ms", simba__unix_ms() - ago_ms);
    simba__json_number(json, "boot_ms", boot_ms);
    simba__json_text(json, "boot", simba__clock_boot(boot) ? boot : NULL);
}

/* C0, DEL, and C1 as UTF-8 has it: what a terminal may obey. */
void simba__calm(char *text)
{
    char *to = text;

    while (*text != '\0') {
        unsigned char first = (unsigned char)text[0];
        unsigned char second = (unsigned char)text[1];
        bool is_c1 = first == 0xc2 && second >= 0x80 && second < 0xa0;

        *to++ = (char)(first < 0x20 || first == 0x7f || is_c1 ? '?' : *text);
        text += is_c1 ? 2 : 1;
    }
    *to = '\0';
}

void simba__print_calm(FILE *out, const char *text)
{
    char *copy = strdup(text);

    if (copy != NULL) {
        simba__calm(copy);
        (void)fputs(copy, out);
        free(copy);
    }
}
