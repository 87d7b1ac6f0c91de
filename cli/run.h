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

/** Help of lead and every: what they share with each other, in three parts. */
#define SIMBA__RUN_HELP_LEAD \
    "  -w, --wait DUR      end when we did not lead for so long; default:\n" \
    "                      stand by for ever\n" \
    "  -n, --no-wait       end unless we lead at once\n" \
    "  -E, --conflict-exit-code N\n" \
    "                      exit code of these two; default: 75\n" \
    "  -c, --command 'shell line'\n" \
    "                      run this by /bin/sh instead of CMD\n" \
    "      --ttl DUR       the leader renews within this time; default: 10s\n" \
    "      --transition DUR\n" \
    "                      and may be so late; default: 6s. Others wait\n" \
    "                      for both when the machine of the leader dies\n" \
    "      --id ID         owner id; default: made of process and host\n"
/** Of all three of them. */
#define SIMBA__RUN_HELP_KILL \
    "      --kill-after DUR\n" \
    "                      from TERM to KILL when CMD must stop; default:\n" \
    "                      1.75s, less with a shorter lease. At once when\n" \
    "                      simba itself is killed\n"
/** Of lead and every again. */
#define SIMBA__RUN_HELP_READY \
    "      --ready WHEN    when systemd is told that the service is ready:\n" \
    "                      leading (default) or standby\n" \
    "      --metrics-file FILE\n" \
    "                      keep figures there, for Prometheus\n" \
    "      --store URL, --json, -v, -q, --help\n" \
    "                      see 'simba --help'; events of --json go to\n" \
    "                      stderr, for stdout is CMD's\n"
/** And their end. */
#define SIMBA__RUN_HELP_EXITS \
    "exit codes: CMD's own, or 128 + n when signal n ended it; 128 + n when\n" \
    "signal n ended simba while no CMD ran; 126, 127 CMD cannot be run, is\n" \
    "not found; 64 usage; 69 store unreachable; 70 a fault of simba; 75 not\n" \
    "leading within --wait; 76 simba's guardian was killed or stuck, and\n" \
    "CMD was stopped; 77 access denied; 78 wrong configuration, URL or name\n"
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
