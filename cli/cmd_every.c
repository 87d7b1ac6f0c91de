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
    "      --rate          at multiples of PERIOD of the store's clock, so\n"
    "                      that a change of leader keeps the beat (SQLite\n"
    "                      counts from boot, not from midnight); a run that\n"
    "                      is due while CMD still runs is skipped (default)\n"
    "      --delay         PERIOD after the end of the run before\n"
    "      --initial-delay DUR\n"
    "                      no run so long after we began to "
    "lead\n" SIMBA__RUN_HELP_LEAD
    "      --max-hold DUR  lead no longer at a stretch: another has its "
    "turn\n" SIMBA__RUN_HELP_KILL SIMBA__RUN_HELP_READY "\n"
    "DUR and PERIOD are 250ms, 1.5s, 5m or 1h. NAME has at most 66 characters\n"
    "and does not begin with '}'; ID has at most 128 bytes and no '@@'.\n"
    "\n"
    "CMD sees SIMBA_MUTEX, SIMBA_TOKEN and SIMBA_OWNER_ID; what it leaves\n"
    "running gets TERM, and KILL after --kill-after. When CMD fails that is\n"
    "told, and the schedule is kept. A beat that came while nobody led is not\n"
    "made up for. With --json each run is logged as 'started' and 'ended',\n"
    "for 'simba verify'.\n"
    "\n"
    "simba runs until INT, QUIT or TERM ends it, or HUP if there is a\n"
    "terminal; while CMD runs it gets the signal, and its end is simba's.\n"
    "\n"
    "Under systemd (Type=notify) simba tells READY, STATUS and STOPPING, and\n"
    "feeds the watchdog while its guardian is well.\n"
    "\n"
    "examples:\n"
    "    simba every 5m cleanup -- ./cleanup.sh\n"
    "    simba every 10s poll --delay --initial-delay 1m -- ./poll.sh\n"
    "\n" SIMBA__RUN_HELP_EXITS;

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
