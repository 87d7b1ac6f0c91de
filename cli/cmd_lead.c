/* simba lead: what it takes; run.c reads it, front.c does it. */
#define _GNU_SOURCE
#include "cmd_lead.h"
#include "run.h"

static const char help[] =
    "usage: simba lead NAME [OPTION…] [--] CMD [ARG…]\n"
    "       simba lead NAME [OPTION…] -c 'shell line'\n"
    "\n"
    "Keep CMD running while this host leads, that is, owns the mutex NAME.\n"
    "When it does not lead any more CMD and all its descendants are stopped,\n"
    "before another can lead; simba stands by, and starts CMD again when it\n"
    "leads again.\n"
    "\n"
    "      --restart WHEN  when CMD ends by itself while we lead:\n"
    "                      never: simba ends too, with its exit code\n"
    "                      (default); on-failure: unless that is 0, CMD is\n"
    "                      started again; always: it is started again. After\n"
    "                      1 s at first, 60 s at most; leadership is kept\n"
    "                      meanwhile\n" SIMBA__RUN_HELP_LEAD
    "      --max-hold DUR  lead no longer at a stretch: CMD is stopped, and\n"
    "                      we stand at the end of the line\n"
    "      --min-hold DUR  lead no shorter, even when CMD ends "
    "early\n" SIMBA__RUN_HELP_KILL SIMBA__RUN_HELP_READY "\n"
    "DUR is 250ms, 1.5s, 5m or 1h. NAME has at most 66 characters and does\n"
    "not begin with '}'; ID has at most 128 bytes and no '@@'.\n"
    "\n"
    "CMD sees SIMBA_MUTEX, SIMBA_TOKEN and SIMBA_OWNER_ID. It stays in the\n"
    "foreground: what it leaves running when it ends gets TERM, and KILL "
    "after\n"
    "--kill-after. Signals are passed on to CMD. After INT, QUIT or TERM, or\n"
    "when CMD dies of a signal that was passed on, it is not started again.\n"
    "While no CMD runs, these three end simba, and so does HUP if there is a\n"
    "terminal; others are dropped.\n"
    "\n"
    "Under systemd (Type=notify) simba tells READY, STATUS and STOPPING, and\n"
    "feeds the watchdog while its guardian is well.\n"
    "\n"
    "examples:\n"
    "    simba lead billing --kill-after 1s -- ./billing-worker\n"
    "    simba lead web --restart on-failure -- ./serve --port 80\n"
    "\n" SIMBA__RUN_HELP_EXITS;

static const struct option options[] = {
    SIMBA__RUN_SHARED_LONG,
    SIMBA__RUN_HOLD_LONG,
    SIMBA__RUN_LEAD_LONG,
    {"restart", required_argument, NULL, SIMBA__RUN_RESTART},
    SIMBA__OPT_SHARED_LONG,
    {NULL, 0, NULL, 0}};

int simba__cmd_lead(struct simba__cli *cli, int argc, char **argv)
{
    static const struct simba__run_command command = {.name = "lead",
                                                      .help = help,
                                                      .options = options,
                                                      .kind = SIMBA__JOB_LEAD};

    return simba__run(&command, cli, argc, argv);
}
