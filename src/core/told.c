#include "core/told.h"

#include "util/text.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

static const char more[] = "\xe2\x80\xa6"; /* an ellipsis */

/* Copies so many bytes; see simba__told_copy(). */
static void copy(char *to, size_t room, const char *from, size_t length)
{
    size_t used = 0, fits = 0; /* with room for the ellipsis behind */

    assert(room >= sizeof more);
    for (size_t at = 0; at < length && from[at] != '\0';) {
        size_t bytes = simba__text_sequence(from + at, length - at);

        if (used + (bytes == 0 ? 1 : bytes) >= room) {
            memcpy(to + fits, more, sizeof more);
            return;
        }
        if (bytes == 0) {
            to[used++] = '?';
            at++;
        } else {
            memcpy(to + used, from + at, bytes);
            used += bytes;
            at += bytes;
        }
        fits = used + sizeof more <= room ? used : fits;
    }
    to[used] = '\0';
}

void simba__told_copy(char *to, size_t room, const char *from)
{
    copy(to, room, from, strlen(from));
}

/* --- the text ------------------------------------------------------------ */

static size_t put(char *to, const char *text)
{
    size_t length = strlen(text);

    for (size_t i = 0; i < length; i++) {
        to[i] = text[i];
        if (text[i] == '\n') {
            to[i] = ' ';
        }
    }
    return length;
}

static size_t put_line(char *to, const char *name, const char *value)
{
    size_t used;

    if (value[0] == '\0') {
        return 0;
    }
    used = put(to, name);
    to[used++] = ' ';
    used += put(to + used, value);
    to[used++] = '\n';
    return used;
}

void simba__told_write(char text[SIMBA__TOLD_ROOM], const simba_told *told)
{
    char digits[24] = "", *first = digits + sizeof digits - 1;
    size_t used = 0;

    for (int64_t pid = told->pid; pid > 0; pid /= 10) {
        *--first = (char)('0' + pid % 10);
    }
    used += put_line(text + used, "host", told->host);
    used += put_line(text + used, "pid", first);
    used += put_line(text + used, "user", told->user);
    used += put_line(text + used, "command", told->command);
    assert(used < SIMBA__TOLD_ROOM);
    text[used] = '\0';
}

static bool is_name(const char *name, const char *line, size_t length)
{
    return strlen(name) == length && memcmp(name, line, length) == 0;
}

static int64_t read_number(const char *digits, size_t length)
{
    int64_t number = 0;

    for (size_t i = 0; i < length; i++) {
        if (digits[i] < '0' || digits[i] > '9' || number > INT64_MAX / 100) {
            return 0;
        }
        number = number * 10 + (digits[i] - '0');
    }
    return number;
}

void simba__told_read(simba_told *told, const char *text)
{
    while (*text != '\0') {
        const char *end = memchr(text, '\n', strlen(text));
        size_t length = end == NULL ? strlen(text) : (size_t)(end - text);
        const char *blank = memchr(text, ' ', length);

        if (blank != NULL) {
            size_t name = (size_t)(blank - text);
            size_t value = length - name - 1;

            if (is_name("host", text, name)) {
                copy(told->host, sizeof told->host, blank + 1, value);
            } else if (is_name("pid", text, name)) {
                told->pid = read_number(blank + 1, value);
            } else if (is_name("user", text, name)) {
                copy(told->user, sizeof told->user, blank + 1, value);
            } else if (is_name("command", text, name)) {
                copy(told->command, sizeof told->command, blank + 1, value);
            }
        }
        text += length + (text[length] == '\n');
    }
}
