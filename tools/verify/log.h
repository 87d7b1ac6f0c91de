/* An event log, read deed by deed in the order of time: within a boot by the
 * boot clock, and from boot to boot about as it was by the time of day.
 *
 * Lines come almost in that order: processes that share a file take the time
 * first and write then. So some lines are read ahead. No more than these are
 * ever in memory, however long the log is. */
#ifndef SIMBA_VERIFY_LOG_H
#define SIMBA_VERIFY_LOG_H

#include "verify/history.h"

#include <stdio.h>

struct simba__log_slot;

/* One boot of a machine, in whichever logs. */
struct simba__boot {
    struct simba__boot *next;
    char id[sizeof((struct simba__deed *)NULL)->scope];
    int64_t ahead_us; /* what merge_us is ahead of its boot clock */
    int64_t taken_us; /* of the last deed that was taken, by the boot clock */
};

/* There are few: a log begins anew with a boot. Zeroed, there are none. */
struct simba__boots {
    struct simba__boot *first;
    size_t count;
};

void simba__boots_fini(struct simba__boots *boots);

struct simba__trace_log {
    const char *name;
    int index;
    FILE *file;
    struct simba__boots *boots; /* of all logs */
    char *buffer;               /* the line that was read last */
    uint64_t line;
    uint64_t events;    /* lines that were understood */
    uint64_t malformed; /* and that were not */
    bool is_ended;
    struct simba__log_slot **heap; /* read ahead, the earliest on top */
    size_t count;
    int64_t newest_us; /* the greatest merge_us so far */
    /* Told of each line that is no event. */
    void (*complain)(const struct simba__trace_log *log, const char *problem);
    void *user;
};

/** Open it; "-" is stdin. `boots` and `complain` are set. False with errno. */
bool simba__log_open(struct simba__trace_log *log, const char *name, int index);
void simba__log_close(struct simba__trace_log *log);

/** The next deed, or NULL at the end; valid until simba__log_take(). False
 * with errno: it cannot be read on. */
bool simba__log_peek(struct simba__trace_log *log,
                     const struct simba__deed **deed);

/** Done with the deed that was peeked. */
void simba__log_take(struct simba__trace_log *log);

/** Is one deed to be fed before the other? */
bool simba__deed_is_before(const struct simba__deed *a,
                           const struct simba__deed *b);

/** What a line says. NULL, or what is wrong with it; `is_deed` is false for
 * events that say nothing about ownership. The line is changed. */
const char *simba__log_parse(char *line,
                             size_t length,
                             struct simba__deed *deed,
                             bool *is_deed);

#endif
