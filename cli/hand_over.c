/* simba hand-over: ask an owner to let another have the mutex. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "cli/mutex_view.h"

#include <inttypes.h>
#include <stdio.h>

static const char help[] =
    "usage: simba hand-over [OPTION…] NAME [--to ID]\n"
    "\n"
    "Ask the owner of the mutex NAME to hand it over to the first who waits,\n"
    "or to the one with the id ID. The owner ends what it runs, as when it is\n"
    "stopped, and stands at the end of the queue: 'simba lead' starts its CMD\n"
    "again when it leads again, 'simba lock' ends with 76. --min-hold is "
    "kept.\n"
    "Nothing is asked if nobody waits, or not ID, or if ID wants NAME alone "
    "and\n"
    "others own it as well. This ends when the owner was asked, not when it "
    "has\n"
    "done so; 'simba show NAME' tells. If ID is gone by then, the first has "
    "it.\n"
    "\n"
    "    simba hand-over billing --to web-2\n"
    "\n"
    "      --to ID       who is to have it; default: whoever waits first\n"
    "      --token N     the tenure that is meant, if several own NAME;\n"
    "                    default: the oldest\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                    see 'simba --help'\n"
    "\n"
    "With --json an object: event (asked), mutex, id, token, to, unix_ms,\n"
    "boot_ms, boot.\n"
    "\n"
    "exit codes: 0 asked; 64 usage; 69 store unreachable, or it did not\n"
    "answer and may have done it; 70 a fault of simba; 76 nobody owns it, or\n"
    "there is no such tenure; 77 access denied; 78 nobody waits, or not ID,\n"
    "or it does not fit; wrong configuration, URL or name, or not offered\n";

static int ask(const struct simba__command *command,
               const struct simba__words *words,
               simba_store *store)
{
    simba_hand_over wish = *(const simba_hand_over *)command->user;
    simba_error error = {0};
    struct simba__json json;
    simba_asked asked = SIMBA_ASKED_INIT;

    wish.mutex = words->words[0];
    if (simba_admin_hand_over(store, &wish, &asked, &error) != SIMBA_OK) {
        int rc = simba__command_fail(&words->cli, command->name, &error);

        if (error.code == SIMBA_EINVAL && asked.owner.id[0] != '\0') {
            simba__say("nobody was asked; 'simba show %s' tells who owns it "
                       "and who waits",
                       wish.mutex);
        }
        return rc;
    }
    if (words->cli.is_json) {
        simba__json_print(&json, stdout);
        simba__json_text(&json, "event", "asked");
        simba__json_text(&json, "mutex", wish.mutex);
        simba__json_text(&json, "id", asked.owner.id);
        simba__json_token(&json, "token", asked.owner.token);
        simba__json_text(&json, "to", asked.to);
        simba__put_times(&json, simba__clock_ms());
        simba__json_line(&json);
    } else if (words->cli.verbosity >= 0) {
        simba__print_calm(stdout, wish.mutex);
        printf(": asked '");
        simba__print_calm(stdout, asked.owner.id);
        printf("', token %" PRIu64 ", to hand over to '", asked.owner.token);
        simba__print_calm(stdout, asked.to);
        printf("'\n");
    }
    return simba__command_end();
}

int simba__cmd_hand_over(struct simba__words *words)
{
    simba_hand_over wish = SIMBA_HAND_OVER_INIT;
    const struct simba__option options[] = {
        {.name = "to", .kind = SIMBA__TEXT, .to = &wish.to},
        {.name = "token",
         .kind = SIMBA__NUMBER,
         .to = &wish.token,
         .wrong = "no token; 'simba show NAME' tells it"},
        {.name = NULL}};
    const struct simba__command command = {.name = "hand-over",
                                           .help = help,
                                           .reach = SIMBA__REACH_LOOK,
                                           .options = options,
                                           .user = &wish,
                                           .least = 1,
                                           .most = 1,
                                           .wanted = "the NAME of one mutex"};

    return simba__command_run(&command, words, ask);
}
