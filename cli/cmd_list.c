/* simba list: who owns what, once or for as long as it is wanted. */
#define _GNU_SOURCE
#include "cmd_admin.h"
#include "command.h"
#include "exit.h"
#include "follow.h"
#include "say.h"
#include "standing.h"
#include "words.h"

#include <simba/admin.h>

#include <unistd.h>

static const char help[] =
    "usage: simba list [OPTION…] [GLOB]\n"
    "\n"
    "List the mutexes that somebody owns or waits for: owner, token, age of\n"
    "the tenure, how long the lease still runs if it is not renewed, and how\n"
    "many wait. GLOB chooses by name; quote it. A store that is not there yet\n"
    "is not made: it is taken for an empty one.\n"
    "\n"
    "    simba list -f 'nightly-*'\n"
    "\n"
    "  -f, --follow         look again and again: on a terminal the table is\n"
    "                       drawn anew in place, with the lease as a bar;\n"
    "                       elsewhere there is a line for each mutex whose\n"
    "                       owner or line has changed. Ctrl-C ends it\n"
    "      --interval DUR   how often --follow looks: 250ms, 5m; default: 1s\n"
    "  -q, --quiet          names only, one a line\n"
    "      --store URL, --json, -v, --help\n"
    "                       see 'simba --help'\n"
    "\n"
    "With --json an object for each: mutex, id, token, age_ms, ttl_left_ms,\n"
    "lease_left_ms, broken, waiting; what is not known is null.\n"
    "\n"
    "exit codes: 0 listed, even if there are none; 64 usage; 69 store\n"
    "unreachable; 70 a fault of simba; 77 access denied; 78 wrong\n"
    "configuration or URL; 128 + N ended by signal N, so 130 by Ctrl-C\n";

enum { OPT_INTERVAL = SIMBA__OPT_OWN };

static const struct option options[] = {
    {"follow", no_argument, NULL, 'f'},
    {"interval", required_argument, NULL, OPT_INTERVAL},
    SIMBA__OPT_SHARED_LONG,
    {NULL, 0, NULL, 0}};

struct wish {
    bool is_follow;
    int64_t interval_ms;
};

static bool take(void *user, int choice, char *value)
{
    struct wish *wish = user;

    if (choice == 'f') {
        wish->is_follow = true;
        return true;
    }
    return simba__follow_interval(value, &wish->interval_ms);
}

/* --- once ---------------------------------------------------------------- */

static void print_names(const simba_report *report)
{
    const simba_listed *listed;

    for (size_t i = 0; (listed = simba_report_mutex(report, i)) != NULL; i++) {
        simba__table_text(stdout, listed->mutex);
        (void)fputc('\n', stdout);
    }
}

static void print_objects(const simba_report *report)
{
    const simba_listed *listed;

    for (size_t i = 0; (listed = simba_report_mutex(report, i)) != NULL; i++) {
        simba__follow_object(listed, simba_report_store_ms(report));
    }
}

static int list_once(const struct simba__command *command,
                     const struct simba__words *words,
                     simba_store *store)
{
    simba_report *report = NULL;
    simba_error error = {0};

    if (simba_admin_list(store, words->words[0], &report, &error) != SIMBA_OK) {
        return simba__command_fail(&words->cli, command->name, &error);
    }
    if (words->cli.is_json) {
        print_objects(report);
    } else if (words->cli.verbosity < 0) {
        print_names(report);
    } else if (simba_report_mutex_count(report) == 0) {
        simba__say("no mutex%s is owned or waited for",
                   words->count > 0 ? " of that name" : "");
    } else {
        simba__follow_print(report, store);
    }
    simba_report_close(report);
    return simba__command_end();
}

/* --- over and over ------------------------------------------------------- */

static int follow(const struct simba__words *words, const struct wish *wish)
{
    struct simba__live live;
    struct simba__follow follow = {
        .cli = &words->cli, .live = &live, .glob = words->words[0]};
    simba_error error = {0};
    int rc;

    simba__live_init(&live, !words->cli.is_json && words->cli.verbosity >= 0);
    rc = simba__follow_open(&follow, wish->interval_ms, &error);
    rc = rc == SIMBA_OK ? simba__follow_run(&follow, wish->interval_ms)
                        : simba__command_fail(&words->cli, "list", &error);
    simba_store_close(follow.store);
    simba__live_fini(&live);
    return rc;
}

int simba__cmd_list(struct simba__cli *cli, int argc, char **argv)
{
    struct wish wish = {.interval_ms = 1000};
    const struct simba__command command = {
        .name = "list",
        .reach = SIMBA__REACH_LOOK,
        .help = help,
        .options = options,
        .letters = "f",
        .take = take,
        .user = &wish,
        .most = 1,
        .wanted = "one GLOB; put it in quotes",
    };
    struct simba__words words = {*cli, argc, argv};
    int rc = simba__command_read(&command, &words);

    if (rc != SIMBA__COMMAND_GO_ON) {
        return rc;
    }
    return wish.is_follow ? follow(&words, &wish)
                          : simba__command_serve(&command, &words, list_once);
}
