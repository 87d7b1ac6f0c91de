/* simba init: make what a store needs, or tell how. */
#define _GNU_SOURCE
#include "cmd_admin.h"
#include "command.h"
#include "exit.h"
#include "finding.h"
#include "object.h"
#include "say.h"

#include <simba/admin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: simba init [OPTION…]\n"
    "\n"
    "Make what this store needs and has not got, such as tables; what is "
    "there\n"
    "stays as it is. Stores do so by themselves when they are first used: "
    "this\n"
    "is for programs that have not the right to.\n"
    "\n"
    "    simba --store postgres://db/locks init --print | psql locks\n"
    "\n"
    "      --print      do nothing: print what would be done to an empty\n"
    "                   store, in its own language, for somebody who may\n"
    "      --upgrade    also change what is there, if it was made by an older\n"
    "                   version or by Simba on the JVM; all programs that use\n"
    "                   it go on working. With --print: just the changes\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                   see 'simba --help'\n"
    "\n"
    "With --json an object for each thing: finding, gravity (ok, or weak when\n"
    "only --upgrade would help), text; and a last one: store, gravity (the\n"
    "gravest), findings (how many). With --print: store, schema.\n"
    "\n"
    "exit codes: 0 all is there; 64 usage; 69 store unreachable, or it did "
    "not\n"
    "answer and may have done it; 70 a fault of simba; 77 access denied; 78\n"
    "wrong configuration or URL\n";

enum { OPT_PRINT = SIMBA__OPT_OWN, OPT_UPGRADE };

static const struct option options[] = {
    {"print", no_argument, NULL, OPT_PRINT},
    {"upgrade", no_argument, NULL, OPT_UPGRADE},
    SIMBA__OPT_SHARED_LONG,
    {NULL, 0, NULL, 0}};

struct wish {
    bool is_print, is_upgrade;
};

static bool take(void *user, int choice, char *value)
{
    struct wish *wish = user;

    (void)value;
    if (choice == OPT_PRINT) {
        wish->is_print = true;
    } else {
        wish->is_upgrade = true;
    }
    return true;
}

static void begin_object(struct simba__object *object,
                         const struct simba__cli *cli)
{
    char shown[512];

    simba__opt_show_url(cli->store, shown, sizeof(shown));
    simba__object_begin(object, stdout);
    simba__object_text(object, "store", shown);
}

/* --- telling how --------------------------------------------------------- */

static void print_text(const struct simba__cli *cli, const char *text)
{
    size_t length = strlen(text);
    struct simba__object object;

    if (cli->is_json) {
        begin_object(&object, cli);
        simba__object_text(&object, "schema", text);
        simba__object_end(&object);
    } else if (length > 0) {
        printf("%s%s", text, text[length - 1] == '\n' ? "" : "\n");
    } else if (cli->verbosity >= 0) {
        simba__say("nothing has to be made for this store");
    }
}

static int print_schema(const struct simba__words *words, bool is_upgrade)
{
    char *text = NULL;
    simba_error error = {0};

    if (simba_admin_schema(words->cli.store, is_upgrade, &text, &error) !=
        SIMBA_OK) {
        return simba__command_fail(&words->cli, "init", &error);
    }
    print_text(&words->cli, text);
    free(text);
    return simba__command_end();
}

/* --- doing it ------------------------------------------------------------ */

static void print_summary(const struct simba__cli *cli,
                          const simba_report *report)
{
    struct simba__object object;

    begin_object(&object, cli);
    simba__object_text(&object, "gravity",
                       simba__gravity_word(simba_report_gravity(report)));
    simba__object_number(&object, "findings",
                         (int64_t)simba_report_finding_count(report));
    simba__object_end(&object);
}

static void tell(const struct simba__cli *cli, const simba_report *report)
{
    if (cli->is_json) {
        simba__finding_objects(report);
        print_summary(cli, report);
        return;
    }
    simba__finding_table(report, cli->verbosity < 0 ? SIMBA_FINDING_WEAK
                                                    : SIMBA_FINDING_OK);
    if (cli->verbosity >= 0 && simba_report_finding_count(report) == 0) {
        simba__say("nothing has to be made for this store");
    }
    if (simba_report_gravity(report) >= SIMBA_FINDING_WEAK) {
        simba__say("'simba init --upgrade' mends what is weak");
    }
}

/* A store that needs nothing has not been asked anything: is it there? */
static int make_sure(simba_store *store,
                     const simba_report *report,
                     simba_error *error)
{
    simba_report *seen = NULL;
    int rc = SIMBA_OK;

    if (simba_report_finding_count(report) == 0) {
        rc = simba_admin_show(store, "init", &seen, error);
        simba_report_close(seen);
    }
    return rc;
}

static int make(const struct simba__command *command,
                const struct simba__words *words,
                simba_store *store)
{
    const struct wish *wish = command->user;
    simba_report *report = NULL;
    simba_error error = {0};
    int rc = simba_admin_init(store, wish->is_upgrade, &report, &error);

    if (rc == SIMBA_OK) {
        rc = make_sure(store, report, &error);
    }
    if (rc == SIMBA_OK) {
        tell(&words->cli, report);
        rc = simba__command_end();
    } else {
        rc = simba__command_fail(&words->cli, command->name, &error);
    }
    simba_report_close(report);
    return rc;
}

int simba__cmd_init(struct simba__cli *cli, int argc, char **argv)
{
    struct wish wish = {0};
    const struct simba__command command = {
        .name = "init",
        .help = help,
        .options = options,
        .letters = "",
        .take = take,
        .user = &wish,
        .wanted = "no word",
    };
    struct simba__words words = {*cli, argc, argv};
    int rc = simba__command_read(&command, &words);

    if (rc != SIMBA__COMMAND_GO_ON) {
        return rc;
    }
    return wish.is_print ? print_schema(&words, wish.is_upgrade)
                         : simba__command_serve(&command, &words, make);
}
