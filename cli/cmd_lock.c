/* simba lock: what it takes; run.c reads it, front.c does it. */
#define _GNU_SOURCE
#include "cmd_lock.h"
#include "run.h"

static const char help[] =
    "usage: simba lock NAME [OPTION…] [--] CMD [ARG…]\n"
    "       simba lock NAME [OPTION…] -c 'shell line'\n"
    "\n"
    "Run CMD while holding the mutex NAME, and answer with its exit code.\n"
    "\n"
    "  -w, --wait DUR      wait so long for the mutex; default: for ever\n"
    "  -n, --no-wait       do not wait\n"
    "  -E, --conflict-exit-code N\n"
    "                      exit code when it was not acquired; default: 75\n"
    "  -c, --command 'shell line'\n"
    "                      run this by /bin/sh instead of CMD\n"
    "      --ttl DUR       the owner renews within this time; default: 10s\n"
    "      --transition DUR\n"
    "                      and may be so late; default: 6s. Others wait for\n"
    "                      both when the machine of the owner dies\n"
    "      --id ID         owner id; default: made of process and host\n"
    "      --max-hold DUR  hold no longer: CMD is stopped\n"
    "      --min-hold DUR  hold no shorter, even when CMD ends early; no "
    "signal\n"
    "                      cuts it short\n" SIMBA__RUN_HELP_KILL
    "      --metrics-file FILE\n"
    "                      leave figures of this run there, for Prometheus\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                      see 'simba --help'; events of --json go to stderr,\n"
    "                      for stdout is CMD's\n"
    "\n"
    "DUR is 250ms, 1.5s, 5m or 1h. NAME has at most 66 characters and does\n"
    "not begin with '}'; ID has at most 128 bytes and no '@@'.\n"
    "\n"
    "CMD sees SIMBA_MUTEX, SIMBA_TOKEN and SIMBA_OWNER_ID, has the terminal,\n"
    "and gets every signal that simba gets. When the mutex is lost, CMD and\n"
    "all its descendants are stopped before another can get it. When CMD\n"
    "ends, what it left running gets TERM, and KILL after --kill-after, and\n"
    "then the mutex is released: run daemons in the foreground. Ctrl-Z stops\n"
    "CMD, but the mutex is kept, for --max-hold at most; 'fg' goes on.\n"
    "\n"
    "examples:\n"
    "    simba lock nightly-report --wait 30s -- ./report.sh --all\n"
    "    # cron, on many hosts: one runs it, the others say nothing\n"
    "    simba -q lock backup -n -E 0 --min-hold 1m -- ./backup.sh\n"
    "\n"
    "exit codes: CMD's own, or 128 + n when signal n ended it; 126, 127 CMD\n"
    "cannot be run, is not found; 64 usage; 69 store unreachable; 70 a fault\n"
    "of simba; 75 not acquired; 76 lost while CMD ran; 77 access denied;\n"
    "78 wrong configuration, URL or name\n";

static const struct option options[] = {SIMBA__RUN_SHARED_LONG,
                                        SIMBA__RUN_HOLD_LONG,
                                        SIMBA__OPT_SHARED_LONG,
                                        {NULL, 0, NULL, 0}};

int simba__cmd_lock(struct simba__cli *cli, int argc, char **argv)
{
    static const struct simba__run_command command = {.name = "lock",
                                                      .help = help,
                                                      .options = options,
                                                      .kind = SIMBA__JOB_LOCK};

    return simba__run(&command, cli, argc, argv);
}
