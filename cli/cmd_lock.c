/* simba lock: the options, and then front.c. */
#define _GNU_SOURCE
#include "cmd_lock.h"
#include "exit.h"
#include "job.h"
#include "say.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

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
    "  -c 'shell line'     run this by /bin/sh instead of CMD\n"
    "      --ttl DUR       the owner renews within this time; default: 10s\n"
    "      --transition DUR\n"
    "                      and may be so late; default: 6s\n"
    "      --id ID         owner id; default: made of process and host\n"
    "      --max-hold DUR  hold no longer: CMD is stopped\n"
    "      --min-hold DUR  hold no shorter, even when CMD ends early\n"
    "      --kill-after DUR\n"
    "                      from TERM to KILL when CMD must stop; at once when\n"
    "                      simba itself is killed\n"
    "      --metrics-file FILE\n"
    "                      leave figures of this run there, for Prometheus\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                      see 'simba --help'\n"
    "\n"
    "DUR is 250ms, 10s, 5m or 1h. CMD sees SIMBA_MUTEX, SIMBA_TOKEN and\n"
    "SIMBA_OWNER_ID. When the mutex is lost, CMD and all its descendants are\n"
    "stopped before another can get it.\n"
    "\n"
    "exit codes: CMD's own, or 128 + n when signal n ended it; 126, 127 CMD\n"
    "cannot be run, is not found; 64 usage; 69 store unreachable; 70 a fault\n"
    "of simba; 75 not acquired; 76 lost while CMD ran; 77 access denied;\n"
    "78 wrong configuration, URL or name\n";

enum {
    OPT_TTL = SIMBA__OPT_OWN,
    OPT_TRANSITION,
    OPT_ID,
    OPT_MAX_HOLD,
    OPT_MIN_HOLD,
    OPT_KILL_AFTER,
    OPT_METRICS_FILE
};

static const struct option options[] = {
    {"wait", required_argument, NULL, 'w'},
    {"no-wait", no_argument, NULL, 'n'},
    {"conflict-exit-code", required_argument, NULL, 'E'},
    {"command", required_argument, NULL, 'c'},
    {"ttl", required_argument, NULL, OPT_TTL},
    {"transition", required_argument, NULL, OPT_TRANSITION},
    {"id", required_argument, NULL, OPT_ID},
    {"max-hold", required_argument, NULL, OPT_MAX_HOLD},
    {"min-hold", required_argument, NULL, OPT_MIN_HOLD},
    {"kill-after", required_argument, NULL, OPT_KILL_AFTER},
    {"metrics-file", required_argument, NULL, OPT_METRICS_FILE},
    SIMBA__OPT_SHARED_LONG,
    {NULL, 0, NULL, 0}};

/* What parsing has found. */
struct parsed {
    struct simba__job job;
    char *line[4]; /* for -c */
    bool has_line;
    bool is_help;
};

/* 0 would mean the default to the library. */
static bool take_ttl(struct simba__job *job, const char *text)
{
    if (!simba__opt_duration("--ttl", text, &job->ttl_ms)) {
        return false;
    }
    if (job->ttl_ms == 0) {
        simba__say("--ttl: a lease must last longer than '%s'", text);
        return false;
    }
    return true;
}

static bool take_duration(struct simba__job *job, int choice, const char *text)
{
    switch (choice) {
    case 'w':
        return simba__opt_duration("--wait", text, &job->wait_ms);
    case OPT_TTL:
        return take_ttl(job, text);
    case OPT_TRANSITION:
        return simba__opt_duration("--transition", text, &job->transition_ms);
    case OPT_MAX_HOLD:
        return simba__opt_duration("--max-hold", text, &job->max_hold_ms);
    case OPT_MIN_HOLD:
        return simba__opt_duration("--min-hold", text, &job->min_hold_ms);
    default:
        return simba__opt_duration("--kill-after", text, &job->kill_after_ms);
    }
}

static void take_line(struct parsed *parsed, char *line)
{
    static char shell[] = "/bin/sh";
    static char flag[] = "-c";

    parsed->line[0] = shell;
    parsed->line[1] = flag;
    parsed->line[2] = line;
    parsed->line[3] = NULL;
    parsed->has_line = true;
}

/* False after telling what is wrong. */
static bool take_option(struct parsed *parsed, int choice, char **argv)
{
    switch (choice) {
    case 'n':
        parsed->job.wait_ms = 0;
        return true;
    case 'E':
        return simba__opt_exit_code("-E", optarg, &parsed->job.conflict_code);
    case 'c':
        take_line(parsed, optarg);
        return true;
    case 'h':
        parsed->is_help = true;
        return true;
    case OPT_ID:
        parsed->job.id = optarg;
        return true;
    case OPT_METRICS_FILE:
        parsed->job.metrics_file = optarg;
        return true;
    case '?':
    case ':':
        simba__opt_complain("lock", choice, argv);
        return false;
    default:
        return simba__opt_take_shared(&parsed->job.cli, choice, optarg) ||
               take_duration(&parsed->job, choice, optarg);
    }
}

/* Options up to the first word that is none, or up to "--". */
static bool take_options(struct parsed *parsed, int argc, char **argv)
{
    int choice;

    while (
        !parsed->is_help &&
        (choice = getopt_long(argc, argv, "+:w:nE:c:" SIMBA__OPT_SHARED_SHORT,
                              options, NULL)) != -1) {
        if (!take_option(parsed, choice, argv)) {
            return false;
        }
    }
    return true;
}

/* Options may stand before NAME and after it; the first word after those is
 * CMD, whose options are its own. */
static bool parse(struct parsed *parsed, int argc, char **argv)
{
    bool is_closed;

    opterr = 0;
    optind = 1;
    if (!take_options(parsed, argc, argv) || parsed->is_help) {
        return parsed->is_help;
    }
    if (optind == argc) {
        simba__say("lock needs the NAME of a mutex; see 'simba lock --help'");
        return false;
    }
    is_closed = strcmp(argv[optind - 1], "--") == 0;
    parsed->job.mutex = argv[optind++];
    if (!is_closed && !take_options(parsed, argc, argv)) {
        return false;
    }
    if (parsed->has_line == (optind < argc) && !parsed->is_help) {
        simba__say("lock needs a command to run, either CMD or -c; see 'simba "
                   "lock --help'");
        return false;
    }
    parsed->job.argv = parsed->has_line ? parsed->line : argv + optind;
    return true;
}

int simba__cmd_lock(struct simba__cli *cli, int argc, char **argv)
{
    struct parsed parsed = {.job = {.cli = *cli,
                                    .wait_ms = -1,
                                    .transition_ms = -1,
                                    .kill_after_ms = -1,
                                    .conflict_code = SIMBA__EXIT_NOT_ACQUIRED,
                                    .tty = -1}};

    if (!parse(&parsed, argc, argv)) {
        return SIMBA__EXIT_USAGE;
    }
    if (parsed.is_help) {
        (void)fputs(help, stdout);
        return fflush(stdout) == 0 ? 0 : SIMBA__EXIT_FAULT;
    }
    return simba__front_run(&parsed.job);
}
