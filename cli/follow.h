/* Mutexes that are looked at over and over: a table that is drawn anew, or a
 * line for each that has changed. */
#ifndef SIMBA_CLI_FOLLOW_H
#define SIMBA_CLI_FOLLOW_H

#include "command.h"
#include "live.h"
#include "standing.h"

#include <simba/admin.h>

struct simba__follow {
    const struct simba__cli *cli;
    simba_store *store;
    struct simba__live *live;
    const char *glob; /* which mutexes; NULL: all */
    bool was_up;      /* a look has succeeded */
    bool is_down;     /* the last one has not, which was told */
};

/** Read --interval; false after telling what is wrong with it. */
bool simba__follow_interval(const char *text, int64_t *ms);

/** A listed mutex as a line of JSON on stdout. */
void simba__follow_object(const simba_listed *listed, int64_t store_ms);

/** The table of a list on stdout. */
void simba__follow_print(const simba_report *report, simba_store *store);

/** Some mutexes as a block for the live view, not taller than it may be; NULL:
 * out of memory. */
char *simba__follow_block(const struct simba__standing *rows,
                          size_t count,
                          simba_store *store);

/** Draw the table of a list anew. */
void simba__follow_draw(struct simba__follow *follow,
                        const simba_report *report);

/**
 * List. A store that cannot be reached any more is told once, and waited for.
 *
 * @param[out] report  NULL when there is none this time
 * @return SIMBA_OK, or what time does not mend; `error` says it
 */
int simba__follow_look(struct simba__follow *follow,
                       simba_report **report,
                       simba_error *error);

/** Open the store; wait for one that is not there yet, after saying so. */
int simba__follow_open(struct simba__follow *follow,
                       int64_t interval_ms,
                       simba_error *error);

/** Look every so often, until it is of no use; answers the exit code. */
int simba__follow_run(struct simba__follow *follow, int64_t interval_ms);

#endif
