/* Reading the command line of those that run a CMD: lock, lead, every. */
#ifndef SIMBA_CLI_RUN_H
#define SIMBA_CLI_RUN_H

#include "job.h"

#include <getopt.h>

/** What getopt_long() returns for their options. */
enum {
    SIMBA__RUN_TTL = SIMBA__OPT_OWN,
    SIMBA__RUN_TRANSITION,
    SIMBA__RUN_ID,
    SIMBA__RUN_MAX_HOLD,
    SIMBA__RUN_MIN_HOLD,
    SIMBA__RUN_KILL_AFTER,
    SIMBA__RUN_METRICS_FILE,
    SIMBA__RUN_RESTART,
    SIMBA__RUN_READY,
    SIMBA__RUN_RATE,
    SIMBA__RUN_DELAY,
    SIMBA__RUN_INITIAL_DELAY
};

/* clang-format off */
/** Of all three of them. */
#define SIMBA__RUN_SHARED_LONG                                                 \
    {"wait", required_argument, NULL, 'w'},                                    \
    {"no-wait", no_argument, NULL, 'n'},                                       \
    {"conflict-exit-code", required_argument, NULL, 'E'},                      \
    {"command", required_argument, NULL, 'c'},                                 \
    {"ttl", required_argument, NULL, SIMBA__RUN_TTL},                          \
    {"transition", required_argument, NULL, SIMBA__RUN_TRANSITION},            \
    {"id", required_argument, NULL, SIMBA__RUN_ID},                            \
    {"max-hold", required_argument, NULL, SIMBA__RUN_MAX_HOLD},                \
    {"kill-after", required_argument, NULL, SIMBA__RUN_KILL_AFTER},            \
    {"metrics-file", required_argument, NULL, SIMBA__RUN_METRICS_FILE}
/** Of lock and lead. */
#define SIMBA__RUN_HOLD_LONG                                                   \
    {"min-hold", required_argument, NULL, SIMBA__RUN_MIN_HOLD}
/** Of lead and every. */
#define SIMBA__RUN_LEAD_LONG                                                   \
    {"ready", required_argument, NULL, SIMBA__RUN_READY}
/* clang-format on */

struct simba__run_command {
    const char *name;
    const char *help;
    const struct option *options;
    enum simba__job_kind kind;
};

/** Read it, run it; returns simba's exit code. */
int simba__run(const struct simba__run_command *command,
               const struct simba__cli *cli,
               int argc,
               char **argv);

#endif
