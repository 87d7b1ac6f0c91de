/* simba(1): global options, and which command. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "cli/output.h"
#include "util/guess.h"

#include <simba/admin.h>
#include <simba/version.h>

#include <dirent.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: simba [--store URL] [--json] [-v | -q] COMMAND …\n"
    "\n"
    "Run one thing at a time, on one machine or on many: a mutex is a name "
    "that\n"
    "at most one process owns, and the others wait for in a queue.\n"
    "\n"
    "  lock NAME [--] CMD…   run CMD while holding the mutex NAME\n"
    "  lead NAME [--] CMD…   run CMD on the one host that leads NAME, and "
    "stop\n"
    "                        it when another may lead\n"
    "  every PERIOD NAME …   run CMD periodically on the host that leads NAME\n"
    "  list [GLOB]           who owns what; -f: over and over\n"
    "  show NAME             who owns NAME, and who waits in which order\n"
    "  held NAME             does anybody own it? For scripts: 0 yes, 1 no\n"
    "  watch [NAME…]         tell every change of owner\n"
    "  break NAME …          end a tenure by force\n"
    "  hand-over NAME        ask its owner to let the next have it\n"
    "  doctor                what this store guarantees, and what it does not\n"
    "  init                  make what this store needs, or print how\n"
    "  bench SCENARIO        measure this store against its floor\n"
    "  verify FILE…          find breaches of the rules in event logs\n"
    "  tck [GLOB]            run the contract of all stores on this one\n"
    "  serve                 a live page, JSON and figures of stores\n"
    "\n"
    "  --store URL           where mutexes live, or the name of a store in "
    "the\n"
    "                        config file; else $SIMBA_STORE, else what the\n"
    "                        config file says ($SIMBA_CONFIG,\n"
    "                        ~/.config/simba/simba.conf, /etc/simba.conf),\n"
    "                        else an SQLite file of this user, of root the\n"
    "                        machine's; 'required': not that last one\n"
    "  --json                events as JSON, one object a line\n"
    "  -v, --verbose         tell more, as which store; twice: everything\n"
    "  -q, --quiet           tell failures only\n"
    "  -V, --version         tell which version this is\n"
    "  -h, --help            tell this\n"
    "\n"
    "'simba help COMMAND', or 'simba COMMAND --help', tells more about a\n"
    "command; 'simba help stores' tells what URLs may say. 'simba NAME' runs\n"
    "the program simba-NAME, if there is one: bench, verify and tck are such\n"
    "programs, of the package simba-tools, serve of simba-serve, and those in\n"
    "$PATH are found as well.\n"
    "\n"
    "examples:\n"
    "    simba lock nightly-report --wait 30s -- ./report.sh --all\n"
    "    simba --store redis://cache.example lead billing -- ./worker\n"
    "    simba list\n";

static const char version[] = "simba " SIMBA_VERSION_STRING "\n";

static const struct command {
    const char *name;
    int (*run)(struct simba__words *words);
} commands[] = {{"lock", simba__cmd_run},
                {"lead", simba__cmd_run},
                {"every", simba__cmd_run},
                {"list", simba__cmd_list},
                {"show", simba__cmd_show},
                {"held", simba__cmd_held},
                {"watch", simba__cmd_watch},
                {"break", simba__cmd_break},
                {"hand-over", simba__cmd_hand_over},
                {"doctor", simba__cmd_doctor},
                {"init", simba__cmd_init}};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int print(const char *text)
{
    (void)fputs(text, stdout);
    return simba__command_end();
}

/* --- help ---------------------------------------------------------------- */

/* Programs of others that are found, which no help of ours knows. */
/* One that is found by another's name is never run; it is not listed. */
static bool print_other(void *user, const char *name, const char *path)
{
    bool *is_any = user;
    bool is_known = strcmp(name, "help") == 0 || strcmp(name, "version") == 0;

    for (size_t i = 0; simba__external_ours[i] != NULL; i++) {
        is_known |= strcmp(name, simba__external_ours[i]) == 0;
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        is_known |= strcmp(name, commands[i].name) == 0;
    }
    if (is_known) {
        return false;
    }
    if (!*is_any) {
        (void)fputs("\nothers that are installed here:\n", stdout);
    }
    *is_any = true;
    (void)printf("  %-21s %s\n", name, path);
    return false;
}

static int print_help(void)
{
    bool is_any = false;

    (void)fputs(help, stdout);
    simba__external_list(print_other, &is_any);
    return simba__command_end();
}

static const char *const stores[] = {"sqlite",   "redis",     "mysql",
                                     "postgres", "zookeeper", "etcd"};

static void print_store(const char *name)
{
    char url[64], *text;

    (void)snprintf(url, sizeof url, "%s:", name);
    if (simba_admin_help(url, &text, NULL) == SIMBA_OK) {
        (void)printf("%s%s", name == stores[0] || *text == '\0' ? "" : "\n",
                     text);
        free(text);
    }
}

/* Of files simba-NAME.so those that are not ours, nor floors of the bench. */
static int is_other_module(const struct dirent *entry)
{
    const char *file = entry->d_name, *end = strrchr(file, '.');
    bool is_ours = strncmp(file, "simba-floor-", strlen("simba-floor-")) == 0;
    char ours[64];

    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++) {
        (void)snprintf(ours, sizeof ours, "simba-%s.so", stores[i]);
        is_ours = is_ours || strcmp(file, ours) == 0;
    }
    return strncmp(file, "simba-", strlen("simba-")) == 0 && end != NULL &&
           strcmp(end, ".so") == 0 && !is_ours;
}

/* The stores that are installed or in $SIMBA_MODULE_PATH, and what their URLs
 * may say. */
static int print_stores(void)
{
    const char *variable = secure_getenv("SIMBA_MODULE_PATH");
    char *path = strdup(variable == NULL ? "" : variable), *rest = path;
    const char *directory;

    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++) {
        print_store(stores[i]);
    }
    while ((directory = strsep(&rest, ":")) != NULL) {
        struct dirent **entries = NULL;
        int count = scandir(directory, &entries, is_other_module, alphasort);

        for (int i = 0; i < count; i++) {
            *strrchr(entries[i]->d_name, '.') = '\0';
            print_store(entries[i]->d_name + strlen("simba-"));
            free(entries[i]);
        }
        free(entries);
    }
    free(path);
    return simba__command_end();
}

/* --- which command ------------------------------------------------------- */

struct guess {
    const char *name;
    char near[64];
};

static bool guess_one(void *user, const char *name, const char *path)
{
    struct guess *guess = user;

    (void)path;
    if (simba__guess_is_near(guess->name, name)) {
        (void)snprintf(guess->near, sizeof guess->near, "%s", name);
    }
    return guess->near[0] != '\0';
}

/* There is none of this name; which one may be meant? It may be a URL whose
 * --store was forgotten. */
static int refuse(char *name)
{
    static const char *const more[] = {"help", "version", NULL};
    const char *const *const lists[] = {simba__external_ours, more};
    /* What other programs that lock, elect or watch call it. */
    static const char *const words[][2] = {
        {"acquire", "lock"}, {"check", "doctor"},   {"cron", "every"},
        {"elect", "lead"},   {"exec", "lock"},      {"flock", "lock"},
        {"get", "show"},     {"info", "show"},      {"leader", "lead"},
        {"ls", "list"},      {"monitor", "watch"},  {"release", "break"},
        {"run", "lock"},     {"schedule", "every"}, {"status", "list"},
        {"test", "tck"},     {"ui", "serve"},       {"unlock", "break"},
        {"web", "serve"}};
    struct guess guess = {.name = name};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(name, words[i][0]) == 0) {
            (void)snprintf(guess.near, sizeof guess.near, "%s", words[i][1]);
        }
    }
    for (size_t i = 0; i < COMMANDS && guess.near[0] == '\0'; i++) {
        (void)guess_one(&guess, commands[i].name, NULL);
    }
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; lists[i][j] != NULL && guess.near[0] == '\0'; j++) {
            (void)guess_one(&guess, lists[i][j], NULL);
        }
    }
    if (guess.near[0] == '\0') {
        simba__external_list(guess_one, &guess);
    }
    simba_url_hide_secrets(name);
    if (guess.near[0] != '\0') {
        simba__say("there is no command '%s'; did you mean '%s'?", name,
                   guess.near);
    } else {
        simba__say("there is no command '%s'; 'simba --help' lists them", name);
    }
    return SIMBA__EXIT_USAGE;
}

static int run_command(const struct simba__cli *cli, int argc, char **argv)
{
    int code;

    for (size_t i = 0; argc > 0 && i < COMMANDS; i++) {
        if (strcmp(argv[0], commands[i].name) == 0) {
            return commands[i].run(&(struct simba__words){*cli, argc, argv});
        }
    }
    if (argc == 0) {
        simba__say("which command? 'simba --help' lists them");
        return SIMBA__EXIT_USAGE;
    }
    if (strcmp(argv[0], "version") == 0) {
        return print(version);
    }
    if (strcmp(argv[0], "help") == 0 && (argc == 1 || argv[1][0] == '-')) {
        return print_help();
    }
    if (strcmp(argv[0], "help") == 0 && strcmp(argv[1], "stores") == 0) {
        return print_stores();
    }
    if (strcmp(argv[0], "help") == 0 && strcmp(argv[1], "help") != 0) {
        static char option[] = "--help";

        return run_command(cli, 2, (char *[]){argv[1], option, NULL});
    }
    code = simba__external_run(cli, argc, argv);
    return code < 0 ? refuse(argv[0]) : code;
}

static int run(int argc, char **argv)
{
    bool is_version = false;
    const struct simba__option options[] = {
        {"version", 'V', SIMBA__FLAG, .to = &is_version}, {.name = NULL}};
    const struct simba__command simba = {.name = "", .options = options};
    struct simba__words words = {.count = argc, .words = argv};
    int code;

    simba__command_begin(&words.cli);
    code = simba__options_read(&simba, &words, true);
    if (code == SIMBA__HELP) {
        return print_help();
    }
    if (code != SIMBA__GO_ON) {
        return code;
    }
    if (words.cli.verbosity >= 0) {
        simba__options_check_variables();
    }
    return is_version ? print(version)
                      : run_command(&words.cli, argc - optind, argv + optind);
}

/* Everything is written by now, so nothing is left to do at exit. */
int main(int argc, char **argv)
{
    _exit(run(argc, argv));
}
