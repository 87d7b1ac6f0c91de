/* What simba says on stderr: a line for people, or a line of JSON.
 *
 * stderr is shared with CMD and may be a pipe that nobody reads. A message is
 * given up rather than waited for: the one who talks also passes on signals. */
#ifndef SIMBA_CLI_SAY_H
#define SIMBA_CLI_SAY_H

#include <stdbool.h>
#include <stdint.h>

/** Something happened to a mutex. */
struct simba__event {
    const char *name;    /* "acquired", "released", "lost", "failed" */
    const char *mutex;   /* NULL when no mutex is concerned yet */
    const char *id;      /* owner id, or NULL */
    const char *owner;   /* waiting: id of who has it, or NULL */
    const char *status;  /* short name of a status code, or NULL */
    const char *message; /* for people, or NULL */
    uint64_t token;      /* 0: none */
    int64_t boot_ms;     /* when, on CLOCK_BOOTTIME */
    int64_t until_ms;    /* lost: when it ceased to be relied on; 0: none */
    int exit_code;       /* -1: the process goes on */
    uint64_t run;        /* number of a run; 0: none */
    int64_t beat_ms;     /* when it was due, by the store's clock; 0: none */
    int skipped;         /* how many runs were; 0: none */
};

/** "simba: …" and a newline, cut when it is too long. */
void simba__say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Was this said by the latest of these lines, perhaps among other words? */
bool simba__has_said(const char *text);

/** An event as one JSON object on one line. */
void simba__say_json(const struct simba__event *event);

/** Room for who says something. */
enum { SIMBA__SAY_WHO = 64 };

/** Who says it, as it stands before a message of the library: "core: ", or
 * nothing where the message begins with the same word. */
const char *simba__say_who(const char *component,
                           const char *message,
                           char room[SIMBA__SAY_WHO]);

#endif
