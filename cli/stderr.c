/* Lines on stderr, each written by one call so that they do not mix with what
 * CMD writes there; and the line that something is waited for. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "cli/output.h"

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* How long a reader of stderr may be busy before we go on without it. */
enum { PATIENCE_MS = 200 };

enum { LATEST_MOST = 512 };

/* What takes longer than this is said to be waited for. */
enum { NOTICE_MS = 1000 };

/* The beginning of the latest line. Threads of the library speak, too. */
static pthread_mutex_t latest_lock = PTHREAD_MUTEX_INITIALIZER;
static char latest[LATEST_MOST];

/* The newline takes the place of the NUL. */
static void write_line(char *line, size_t length)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

    assert(length < PIPE_BUF);
    line[length++] = '\n';
    if (poll(&out, 1, PATIENCE_MS) == 1 && (out.revents & POLLOUT) != 0) {
        /* Nobody is left to be told of a failure. */
        ssize_t ignored = write(STDERR_FILENO, line, length);
        (void)ignored;
    }
}

void simba__say_json(struct simba__text *line)
{
    write_line(line->bytes, line->length);
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
    char line[PIPE_BUF] = "simba: ";
    size_t length = strlen(line);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line + length, sizeof line - length, format, args);
    va_end(args);
    length = strlen(line);
    for (size_t i = 0; i < length; i++) {
        /* A line is one line, whatever the names in it are. */
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
    (void)pthread_mutex_lock(&latest_lock);
    (void)snprintf(latest, sizeof latest, "%.*s", LATEST_MOST - 1, line);
    (void)pthread_mutex_unlock(&latest_lock);
    write_line(line, length);
}

const char *simba__say_who(const char *component,
                           const char *message,
                           char room[SIMBA__SAY_WHO])
{
    /* Parts of the library, which mean nothing to who did not write it. */
    static const char *const parts[] = {"callback", "locker", "retrieval",
                                        "store"};
    size_t length = strlen(component);
    bool is_said = strncmp(message, component, length) == 0 &&
                   (message[length] == ' ' || message[length] == ':');

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        is_said |= strcmp(component, parts[i]) == 0;
    }
    (void)snprintf(room, SIMBA__SAY_WHO, "%s%s", is_said ? "" : component,
                   is_said ? "" : ": ");
    return room;
}

/* --- what is waited for -------------------------------------------------- */

static void *give_notice(void *user)
{
    struct simba__wait_notice *notice = user;

    if (!simba__flag_wait(&notice->is_over, &notice->lock, &notice->told,
                          NOTICE_MS) &&
        notice->look != NULL) {
        notice->look(notice->user);
    }
    (void)pthread_mutex_lock(&notice->lock);
    if (!notice->is_over) {
        notice->say(notice->user);
    }
    (void)pthread_mutex_unlock(&notice->lock);
    return NULL;
}

/* Without a thread nobody is told, which does no harm. */
void simba__wait_notice_start(struct simba__wait_notice *notice)
{
    assert(!notice->is_running && notice->say != NULL);
    notice->is_over = false;
    (void)pthread_mutex_init(&notice->lock, NULL);
    (void)pthread_cond_init(&notice->told, NULL);
    notice->is_running =
        pthread_create(&notice->thread, NULL, give_notice, notice) == 0;
}

static void say_store(void *user)
{
    simba__say("waiting for %s", ((struct simba__wait_notice *)user)->shown);
}

void simba__wait_notice_begin(struct simba__wait_notice *notice,
                              const struct simba__cli *cli)
{
    *notice = (struct simba__wait_notice){.say = say_store, .user = notice};
    if (cli != NULL && cli->verbosity >= 0 && simba__is_live(STDERR_FILENO)) {
        simba__show_url(cli->store, notice->shown, sizeof notice->shown);
        simba__wait_notice_start(notice);
    }
}

void simba__wait_notice_over(struct simba__wait_notice *notice)
{
    if (notice->is_running) {
        simba__flag_set(&notice->is_over, &notice->lock, &notice->told);
    }
}

void simba__wait_notice_end(struct simba__wait_notice *notice)
{
    if (notice->is_running) {
        simba__wait_notice_over(notice);
        (void)pthread_join(notice->thread, NULL);
        (void)pthread_cond_destroy(&notice->told);
        (void)pthread_mutex_destroy(&notice->lock);
        notice->is_running = false;
    }
}
