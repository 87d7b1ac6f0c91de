/* simba every: what it takes; run.c reads it, front.c does it. */
#define _GNU_SOURCE
#include "cmd_every.h"
#include "run.h"

static const char help[] =
    "usage: simba every PERIOD NAME [OPTION…] [--] CMD [ARG…]\n"
    "       simba every PERIOD NAME [OPTION…] -c 'shell line'\n"
    "\n"
    "Run CMD again and again on the one host that leads, that is, owns the\n"
    "mutex NAME. Two runs never overlap, not on two hosts either. When this\n"
    "host does not lead any more, CMD and all its descendants are stopped\n"
    "before another can lead, and simba stands by.\n"
    "\n"
    "      --rate          at multiples of PERIOD of the store's clock, so "
    "that\n"
    "                      a change of leader keeps the beat; a run that is "
    "due\n"
    "                      while CMD still runs is skipped (default)\n"
    "      --delay         PERIOD after the end of the run before\n"
    "      --initial-delay DUR\n"
    "                      no run so long after we began to lead\n"
    "  -w, --wait DUR      end when we did not lead for so long; default: "
    "stand\n"
    "                      by for ever\n"
    "  -n, --no-wait       end unless we lead at once\n"
    "  -E, --conflict-exit-code N\n"
    "                      exit code of these two; default: 75\n"
    "  -c 'shell line'     run this by /bin/sh instead of CMD\n"
    "      --ttl DUR       the leader renews within this time; default: 10s\n"
    "      --transition DUR\n"
    "                      and may be so late; default: 6s\n"
    "      --id ID         owner id; default: made of process and host\n"
    "      --max-hold DUR  lead no longer at a stretch: another has its turn\n"
    "      --kill-after DUR\n"
    "                      from TERM to KILL when CMD must stop; at once when\n"
    "                      simba itself is killed\n"
    "      --ready WHEN    when systemd is told that the service is ready:\n"
    "                      leading (default) or standby\n"
    "      --metrics-file FILE\n"
    "                      keep figures there, for Prometheus\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                      see 'simba --help'\n"
    "\n"
    "DUR and PERIOD are 250ms, 1.5s, 5m or 1h. NAME has at most 66 characters\n"
    "and does not begin with '}'; ID has at most 128 bytes and no '@@'.\n"
    "\n"
    "CMD sees SIMBA_MUTEX, SIMBA_TOKEN and SIMBA_OWNER_ID. When CMD fails that "
    "is told, and the schedule is "
    "kept.\n"
    "A beat that came while nobody led is not made up for. With --json each\n"
    "run is logged as 'started' and 'ended', for 'simba verify'.\n"
    "\n"
    "simba runs until INT, QUIT or TERM ends it, or HUP if there is a "
    "terminal;\n"
    "while CMD runs it gets the signal, and its end is simba's.\n"
    "\n"
    "examples:\n"
    "    simba every 5m cleanup -- ./cleanup.sh\n"
    "    simba every 10s poll --delay --initial-delay 1m -- ./poll.sh\n"
    "\n"
    "exit codes: CMD's own, or 128 + n when signal n ended it; 128 + n when\n"
    "signal n ended simba while no CMD ran; 126, 127 CMD cannot be run, is "
    "not\n"
    "found; 64 usage; 69 store unreachable; 70 a fault of simba; 75 not "
    "leading\n"
    "within --wait; 76 simba's guardian was killed or stuck, and CMD was\n"
    "stopped; 77 access denied; 78 wrong configuration, URL or name\n";

static const struct option options[] = {
    SIMBA__RUN_SHARED_LONG,
    SIMBA__RUN_LEAD_LONG,
    {"rate", no_argument, NULL, SIMBA__RUN_RATE},
    {"delay", no_argument, NULL, SIMBA__RUN_DELAY},
    {"initial-delay", required_argument, NULL, SIMBA__RUN_INITIAL_DELAY},
    SIMBA__OPT_SHARED_LONG,
    {NULL, 0, NULL, 0}};

int simba__cmd_every(struct simba__cli *cli, int argc, char **argv)
{
    static const struct simba__run_command command = {.name = "every",
                                                      .help = help,
                                                      .options = options,
                                                      .kind = SIMBA__JOB_EVERY};

    return simba__run(&command, cli, argc, argv);
}
