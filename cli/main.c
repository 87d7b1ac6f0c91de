/* simba(1): global options, and which command. */
#define _GNU_SOURCE
#include "cmd_admin.h"
#include "cmd_bench.h"
#include "cmd_every.h"
#include "cmd_lead.h"
#include "cmd_lock.h"
#include "cmd_tck.h"
#include "cmd_verify.h"
#include "command.h"
#include "exit.h"
#include "guess.h"
#include "opt.h"
#include "say.h"

#include <simba/version.h>

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: simba [--store URL] [--json] [-v | -q] COMMAND …\n"
    "\n"
    "Run one thing at a time, on one machine or on many: a mutex is a name "
    "that\n"
    "at most one process owns, and the others wait for in line.\n"
    "\n"
    "  lock NAME [--] CMD…   run CMD while holding the mutex NAME\n"
    "  lead NAME [--] CMD…   keep CMD running while this host leads NAME\n"
    "  every PERIOD NAME …   run CMD periodically on the host that leads NAME\n"
    "  list [GLOB]           who owns what; -f: over and over\n"
    "  show NAME             who owns NAME, and who waits in which order\n"
    "  watch [NAME…]         tell every change of owner\n"
    "  break NAME …          end a tenure by force\n"
    "  doctor                what this store guarantees, and what it does not\n"
    "  init                  make what this store needs, or print how\n"
    "  bench SCENARIO        measure this store against its floor\n"
    "  verify FILE…          find breaches of the rules in event logs\n"
    "  tck [GLOB]            run the contract of all stores on this one\n"
    "\n"
    "  --store URL           where mutexes live, or the name of a store in "
    "the\n"
    "                        config file; else $SIMBA_STORE, else what the\n"
    "                        config file says ($SIMBA_CONFIG,\n"
    "                        ~/.config/simba/simba.conf, /etc/simba.conf),\n"
    "                        else an SQLite file of this user\n"
    "  --json                events as JSON, one object a line\n"
    "  -v, --verbose         tell more; twice: everything\n"
    "  -q, --quiet           tell failures only\n"
    "  -V, --version         tell which version this is\n"
    "  -h, --help            tell this\n"
    "\n"
    "'simba help COMMAND', or 'simba COMMAND --help', tells more about a\n"
    "command.\n"
    "\n"
    "examples:\n"
    "    simba lock nightly-report --wait 30s -- ./report.sh --all\n"
    "    simba --store redis://cache.example lead billing -- ./worker\n"
    "    simba list\n";

static const char version[] = "simba " SIMBA_VERSION_STRING "\n";

static const struct option options[] = {{"version", no_argument, NULL, 'V'},
                                        SIMBA__OPT_SHARED_LONG,
                                        {NULL, 0, NULL, 0}};

static const struct command {
    const char *name;
    int (*run)(struct simba__cli *cli, int argc, char **argv);
} commands[] = {{"lock", simba__cmd_lock},     {"lead", simba__cmd_lead},
                {"every", simba__cmd_every},   {"list", simba__cmd_list},
                {"show", simba__cmd_show},     {"watch", simba__cmd_watch},
                {"break", simba__cmd_break},   {"doctor", simba__cmd_doctor},
                {"init", simba__cmd_init},     {"bench", simba__cmd_bench},
                {"verify", simba__cmd_verify}, {"tck", simba__cmd_tck}};

/* A descriptor opened later must not become somebody's stderr. What was closed
 * stays closed for CMD, and reads and writes fail here as they would. */
static void fill_standard_descriptors(void)
{
    int i;

    for (i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
        if (fcntl(i, F_GETFD) < 0) {
            (void)open("/", O_PATH | O_CLOEXEC);
        }
    }
}

static int print(const char *text)
{
    (void)fputs(text, stdout);
    return simba__command_end();
}

/* Which one may be meant; NULL: nobody knows. */
static const char *guess(const char *name)
{
    static const char *const more[] = {"help", "version"};
    const char *other = simba__guess_of_others(name);
    size_t count = sizeof(commands) / sizeof(commands[0]);

    for (size_t i = 0; i < count && other == NULL; i++) {
        other = simba__guess_is_near(name, commands[i].name) ? commands[i].name
                                                             : NULL;
    }
    for (size_t i = 0; i < 2 && other == NULL; i++) {
        other = simba__guess_is_near(name, more[i]) ? more[i] : NULL;
    }
    return other;
}

/* NULL after telling that there is none, and which one may be meant. */
static const struct command *find_command(const char *name)
{
    const char *near = guess(name);

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return &commands[i];
        }
    }
    if (near != NULL) {
        simba__say("there is no command '%s'; did you mean '%s'?", name, near);
    } else {
        simba__say("there is no command '%s'; 'simba --help' lists them", name);
    }
    return NULL;
}

/* simba help [COMMAND] */
static int show_help(struct simba__cli *cli, int argc, char **argv)
{
    static char option[] = "--help";
    const struct command *command;

    if (argc == 1 || argv[1][0] == '-') {
        return print(help);
    }
    command = find_command(argv[1]);
    if (command == NULL) {
        return SIMBA__EXIT_USAGE;
    }
    return command->run(cli, 2, (char *[]){argv[1], option, NULL});
}

static int run_command(struct simba__cli *cli, int argc, char **argv)
{
    const struct command *command;

    if (argc == 0) {
        simba__say("which command? 'simba --help' lists them");
        return SIMBA__EXIT_USAGE;
    }
    if (strcmp(argv[0], "help") == 0) {
        return show_help(cli, argc, argv);
    }
    if (strcmp(argv[0], "version") == 0) {
        return print(version);
    }
    command = find_command(argv[0]);
    return command == NULL ? SIMBA__EXIT_USAGE : command->run(cli, argc, argv);
}

static int run(int argc, char **argv)
{
    struct simba__cli cli = {NULL, false, 0};
    int choice;

    opterr = 0;
    while ((choice = getopt_long(argc, argv, "+:V" SIMBA__OPT_SHARED_SHORT,
                                 options, NULL)) != -1) {
        if (choice == 'h') {
            return print(help);
        }
        if (choice == 'V') {
            return print(version);
        }
        if (!simba__opt_take_shared(&cli, choice, optarg)) {
            simba__opt_complain("", options, choice, argv);
            return SIMBA__EXIT_USAGE;
        }
    }
    return run_command(&cli, argc - optind, argv + optind);
}

/* Everything is written by now, so nothing is left to do at exit. */
int main(int argc, char **argv)
{
    fill_standard_descriptors();
    _exit(run(argc, argv));
}
