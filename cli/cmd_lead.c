/* simba lead: what it takes; run.c reads it, front.c does it. */
#define _GNU_SOURCE
#include "cmd_lead.h"
#include "run.h"

static const char help[] =
    "usage: simba lead NAME [OPTION…] [--] CMD [ARG…]\n"
    "       simba lead NAME [OPTION…] -c 'shell line'\n"
    "\n"
    "Keep CMD running while this host leads, that is, owns the mutex NAME. "
    "When\n"
    "it does not lead any more CMD and all its descendants are stopped, "
    "before\n"
    "another can lead; simba stands by, and starts CMD again when it leads\n"
    "again.\n"
    "\n"
    "      --restart WHEN  when CMD ends by itself while we lead:\n"
    "                      never: simba ends too, with its exit code "
    "(default);\n"
    "                      on-failure: unless that is 0, CMD is started "
    "again;\n"
    "                      always: it is started again. After 1 s at first, "
    "60\n"
    "                      s at most; leadership is kept meanwhile\n"
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
    "      --max-hold DUR  lead no longer at a stretch: CMD is stopped, and "
    "we\n"
    "                      stand at the end of the line\n"
    "      --min-hold DUR  lead no shorter, even when CMD ends early\n"
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
    "DUR is 250ms, 1.5s, 5m or 1h. NAME has at most 66 characters and does "
    "not\n"
    "begin with '}'; ID has at most 128 bytes and no '@@'.\n"
    "\n"
    "CMD sees SIMBA_MUTEX, SIMBA_TOKEN and SIMBA_OWNER_ID. Signals are passed "
    "on to CMD. After INT, QUIT or TERM, "
    "or\n"
    "when CMD dies of a signal that was passed on, it is not started again.\n"
    "While no CMD runs, these three end simba, and so does HUP if there is a\n"
    "terminal; others are dropped.\n"
    "\n"
    "Under systemd (Type=notify) simba tells READY, STATUS and STOPPING, and\n"
    "feeds the watchdog while its guardian is well.\n"
    "\n"
    "examples:\n"
    "    simba lead billing --kill-after 1s -- ./billing-worker\n"
    "    simba lead vip -c 'ip addr add 10.0.0.9/24 dev eth0; sleep infinity'\n"
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
