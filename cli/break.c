/* simba break: end a tenure by force, and say who did it and why. */
#define _GNU_SOURCE
#include "cli/admin.h"

#include <inttypes.h>

static const char help[] =
    "usage: simba break [OPTION…] NAME --token N --reason TEXT\n"
    "\n"
    "End the tenure of the mutex NAME that has the fencing token N, whoever\n"
    "has it: it can be renewed no more and is free at the end of its lease.\n"
    "'simba show NAME' tells the token; one that is over breaks nothing, and\n"
    "none ever comes again. Who did this, when and why is written down: in\n"
    "syslog here, and in the store (table simba_broken, on Redis the hash\n"
    "simba:{NAME}:broken, on etcd keys b/NAME/; ZooKeeper has no place for\n"
    "it).\n"
    "\n"
    "    simba break nightly --token 1794812114026301 --reason 'hangs on NFS'\n"
    "\n"
    "      --token N      required: which tenure is meant\n"
    "      --reason TEXT  required: why, for those who ask later\n"
    "      --now          free it at once. Its owner may still believe that\n"
    "                     it owns NAME, for as long as its lease would have\n"
    "                     run: exclusion does not hold meanwhile, only tokens\n"
    "                     protect. On ZooKeeper there is no other way\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                     see 'simba --help'\n"
    "\n"
    "With --json an object: event (broken), mutex, id, token, now, by, "
    "reason,\n"
    "free_in_ms, believes_ms, unix_ms, boot_ms, boot.\n"
    "\n"
    "exit codes: 0 broken; 64 usage; 69 store unreachable, or it did not\n"
    "answer and may have done it; 70 a fault of simba; 76 there is no such\n"
    "tenure (any more), the message names the present token; 77 access\n"
    "denied; 78 wrong configuration, URL or name, or not offered there\n";

static bool is_complete(const void *user)
{
    const struct simba__break_wish *wish = user;
    const char *problem;

    if (wish->token == 0 || wish->reason == NULL) {
        simba__say("break needs --token and --reason; 'simba show NAME' tells "
                   "the token; see 'simba break --help'");
        return false;
    }
    problem = simba__break_problem(wish->reason);
    if (problem != NULL) {
        simba__say("--reason: %s", problem);
    }
    return problem == NULL;
}

static void print_object(const struct simba__broken *broken)
{
    struct simba__json json;

    simba__json_print(&json, stdout);
    simba__break_members(&json, broken);
    simba__json_line(&json);
}

static void print_line(const struct simba__broken *broken)
{
    char left[SIMBA__FORMAT_ROOM] = "one lease";

    if (broken->lease_left_ms != SIMBA__UNKNOWN) {
        simba__format_duration(broken->lease_left_ms, left);
    }
    simba__print_calm(stdout, broken->wish->mutex);
    printf(": broke the tenure %" PRIu64 " of '", broken->wish->token);
    simba__print_calm(stdout, broken->owner.id);
    if (broken->wish->is_now) {
        printf("'; free now, but it may still believe that it is the owner, "
               "for up to %s\n",
               left);
    } else {
        printf("'; free in %s at most, at the end of its lease\n", left);
    }
}

static int break_it(const struct simba__command *command,
                    const struct simba__words *words,
                    simba_store *store)
{
    const struct simba__break_wish *given = command->user;
    struct simba__break_wish wish = *given;
    struct simba__broken broken;
    simba_error error = {0};

    wish.mutex = words->words[0];
    simba__break_by(wish.by);
    if (simba__break_do(store, &wish, &broken, &error) != SIMBA_OK) {
        return simba__command_fail(&words->cli, command->name, &error);
    }
    if (words->cli.is_json) {
        print_object(&broken);
    } else if (words->cli.verbosity >= 0) {
        print_line(&broken);
    }
    return simba__command_end();
}

int simba__cmd_break(struct simba__words *words)
{
    struct simba__break_wish wish = {0};
    const struct simba__option options[] = {
        {.name = "token",
         .kind = SIMBA__NUMBER,
         .to = &wish.token,
         .wrong = "no token; 'simba show NAME' tells it"},
        {.name = "reason", .kind = SIMBA__TEXT, .to = &wish.reason},
        {.name = "now", .kind = SIMBA__FLAG, .to = &wish.is_now},
        {.name = NULL}};
    const struct simba__command command = {.name = "break",
                                           .help = help,
                                           .reach = SIMBA__REACH_LOOK,
                                           .options = options,
                                           .check = is_complete,
                                           .user = &wish,
                                           .least = 1,
                                           .most = 1,
                                           .wanted = "the NAME of one mutex"};

    return simba__command_run(&command, words, break_it);
}
