/* Lines on stderr, each written by one call so that they do not mix with what
 * CMD writes there. */
#define _GNU_SOURCE
#include "say.h"
#include "clock.h"
#include "json.h"

#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long a reader of stderr may be busy before we go on without it. */
enum { PATIENCE_MS = 200 };

enum { LATEST_MOST = 512 };

/* No line is longer than PIPE_BUF: a pipe that poll() calls writable takes so
 * much without blocking, and in one piece. */
struct line {
    size_t length;
    char text[PIPE_BUF];
};

static void put(struct line *line, const char *text, size_t length)
{
    size_t room = sizeof(line->text) - 1 - line->length; /* 1 for newline */

    if (length > room) {
        length = room;
    }
    memcpy(line->text + line->length, text, length);
    line->length += length;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

__attribute__((format(printf, 2, 0))) static void put_format(struct line *line,
                                                             const char *format,
                                                             va_list args)
{
    char *end = line->text + line->length;
    size_t room = sizeof(line->text) - line->length;
    int length = vsnprintf(end, room, format, args);

    if (length > 0) {
        line->length += (size_t)length < room ? (size_t)length : room - 1;
    }
}

/* A line is one line, whatever the names in it are. */
static void make_plain(struct line *line)
{
    for (size_t i = 0; i < line->length; i++) {
        if ((unsigned char)line->text[i] < ' ' || line->text[i] == 0x7f) {
            line->text[i] = '?';
        }
    }
}

static void finish(struct line *line)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

    line->text[line->length++] = '\n';
    if (poll(&out, 1, PATIENCE_MS) == 1 && (out.revents & POLLOUT) != 0) {
        /* Nobody is left to be told of a failure. */
        ssize_t ignored = write(STDERR_FILENO, line->text, line->length);
        (void)ignored;
    }
}

/* The beginning of the latest line. Threads of the library speak, too. */
static pthread_mutex_t latest_lock = PTHREAD_MUTEX_INITIALIZER;
static char latest[LATEST_MOST];

static void remember(const struct line *line)
{
    size_t length =
        line->length < sizeof(latest) ? line->length : sizeof(latest) - 1;

    (void)pthread_mutex_lock(&latest_lock);
    memcpy(latest, line->text, length);
    latest[length] = '\0';
    (void)pthread_mutex_unlock(&latest_lock);
}

bool simba__has_said(const char *text)
{
    bool has_said;

    (void)pthread_mutex_lock(&latest_lock);
    has_said = strstr(latest, text) != NULL;
    (void)pthread_mutex_unlock(&latest_lock);
    return has_said;
}

void simba__say(const char *format, ...)
{
    struct line line = {.length = 0};
    va_list args;

    put_text(&line, "simba: ");
    va_start(args, format);
    put_format(&line, format, args);
    va_end(args);
    make_plain(&line);
    remember(&line);
    finish(&line);
}

const char *simba__say_who(const char *component,
                           const char *message,
                           char room[SIMBA__SAY_WHO])
{
    size_t length = strlen(component);
    bool is_said = strncmp(message, component, length) == 0 &&
                   (message[length] == ' ' || message[length] == ':');

    (void)snprintf(room, SIMBA__SAY_WHO, "%s%s", is_said ? "" : component,
                   is_said ? "" : ": ");
    return room;
}

static void put_member(struct line *line, const char *key, const char *value)
{
    if (value == NULL) {
        return;
    }
    put_text(line, line->length == 0 ? "{\"" : ",\"");
    put_text(line, key);
    put_text(line, "\":\"");
    while (*value != '\0') {
        char escaped[SIMBA__JSON_ESCAPED];

        value += simba__json_escape(value, escaped);
        put_text(line, escaped);
    }
    put_text(line, "\"");
}

static void put_number(struct line *line, const char *key, int64_t value)
{
    char text[64];

    (void)snprintf(text, sizeof(text), ",\"%s\":%" PRId64, key, value);
    put_text(line, text);
}

static void put_boot(struct line *line)
{
    char boot[SIMBA__CLOCK_BOOT];

    if (simba__clock_boot(boot)) {
        put_member(line, "boot", boot);
    }
}

/* Both clocks: the boot clock orders events on one machine, the other one is
 * for people. */
static void put_times(struct line *line, int64_t boot_ms)
{
    struct timespec now;
    int64_t unix_ms;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    unix_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    put_number(line, "unix_ms", unix_ms - (simba__clock_ms() - boot_ms));
    put_number(line, "boot_ms", boot_ms);
}

void simba__say_json(const struct simba__event *event)
{
    struct line line = {.length = 0};

    put_member(&line, "event", event->name);
    put_member(&line, "mutex", event->mutex);
    put_member(&line, "id", event->id);
    if (event->token != 0) {
        put_number(&line, "token", (int64_t)event->token);
    }
    put_member(&line, "owner_id", event->owner);
    put_member(&line, "status", event->status);
    if (event->exit_code >= 0) {
        put_number(&line, "exit", event->exit_code);
    }
    if (event->run != 0) {
        put_number(&line, "run", (int64_t)event->run);
    }
    if (event->beat_ms != 0) {
        put_number(&line, "beat_ms", event->beat_ms);
    }
    if (event->skipped != 0) {
        put_number(&line, "skipped", event->skipped);
    }
    put_times(&line, event->boot_ms);
    if (event->until_ms != 0) {
        put_number(&line, "until_ms", event->until_ms);
    }
    put_boot(&line);
    put_member(&line, "message", event->message);
    put_text(&line, "}");
    finish(&line);
}
