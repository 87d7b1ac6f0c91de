/* simba doctor: what this store, set up as it is, can and cannot promise; and
 * simba init: make what a store needs, or tell how. Both answer with findings.
 */
#define _GNU_SOURCE
#include "cli/admin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char doctor_help[] =
    "usage: simba doctor [OPTION…]\n"
    "\n"
    "Tell what this store, configured as it is, guarantees, and name every\n"
    "weakness:\n"
    "\n"
    "  ok       a guarantee that holds\n"
    "  note     good to know, or cannot be seen from here\n"
    "  weak     a guarantee that holds until something else goes wrong\n"
    "  serious  two may own a mutex at once, or nobody can: mend it before\n"
    "           you rely on it\n"
    "\n"
    "  -q, --quiet      tell only what is weak or serious\n"
    "      --store URL, --json, -v, --help\n"
    "                   see 'simba --help'\n"
    "\n"
    "With --json an object for each finding: finding, gravity, text; and a\n"
    "last one: store, gravity (the gravest), findings (how many), push,\n"
    "crash, steady_clock, list, break.\n"
    "\n"
    "exit codes: 0 nothing serious; 1 something serious; 64 usage; 69 store\n"
    "unreachable; 70 a fault of simba; 77 access denied; 78 wrong\n"
    "configuration or URL\n";

static const char init_help[] =
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
    "                   store, in its own language, for somebody who may,\n"
    "                   with the rights that others then need\n"
    "      --upgrade    also change what is there, if it was made by an older\n"
    "                   version or by Simba on the JVM (four columns, or "
    "five,\n"
    "                   are added to its table); all programs that use it go\n"
    "                   on working. With --print: just the changes\n"
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

enum { EXIT_SERIOUS = 1 };

/* --- findings ------------------------------------------------------------ */

/* Each as an object, and the beginning of a last one: store, gravity (the
 * gravest), findings (how many). */
static void print_objects(const struct simba__cli *cli,
                          const simba_report *report,
                          struct simba__json *json)
{
    const simba_finding *finding;
    char shown[512];

    for (size_t i = 0; (finding = simba_report_finding(report, i)) != NULL;
         i++) {
        simba__json_print(json, stdout);
        simba__admin_put_finding(json, finding);
        simba__json_line(json);
    }
    simba__show_url(cli->store, shown, sizeof shown);
    simba__json_print(json, stdout);
    simba__json_text(json, "store", shown);
    simba__json_text(json, "gravity",
                     simba__admin_gravity(simba_report_gravity(report)));
    simba__json_number(json, "findings",
                       (int64_t)simba_report_finding_count(report));
}

/* For people; of those who want it quiet, only what is wrong. */
static void print_table(const struct simba__cli *cli,
                        const simba_report *report)
{
    static const enum simba__tint tints[] = {
        SIMBA__TINT_GREEN, SIMBA__TINT_NONE, SIMBA__TINT_YELLOW,
        SIMBA__TINT_RED};
    struct simba__table table = {.columns = 3,
                                 .has_words = true,
                                 .has_colour =
                                     simba__has_colour(STDOUT_FILENO)};
    const simba_finding *finding;
    size_t lines;

    for (size_t i = 0; (finding = simba_report_finding(report, i)) != NULL;
         i++) {
        const char *texts[] = {simba__admin_gravity(finding->gravity),
                               finding->name, finding->text};

        if (cli->verbosity >= 0 || finding->gravity >= SIMBA_FINDING_WEAK) {
            simba__table_add(&table, tints[finding->gravity], texts);
        }
    }
    simba__live_size(&lines, &table.room_most);
    simba__table_print(&table, stdout, table.count);
    simba__table_fini(&table);
}

/* --- doctor -------------------------------------------------------------- */

static int examine(const struct simba__command *command,
                   const struct simba__words *words,
                   simba_store *store)
{
    static const char *const verdicts[] = {
        "all is well",
        "nothing is weak",
        "no serious weakness",
        "do not rely on this store before what is serious is mended",
    };
    const struct simba__cli *cli = &words->cli;
    simba_report *report = NULL;
    simba_error error = {0};
    struct simba__json json;
    char shown[512];
    int rc;

    if (simba_admin_doctor(store, &report, &error) != SIMBA_OK) {
        return simba__command_fail(cli, command->name, &error);
    }
    if (cli->is_json) {
        print_objects(cli, report, &json);
        simba__admin_put_capabilities(&json, store);
        simba__json_line(&json);
    } else if (cli->verbosity < 0) {
        print_table(cli, report);
    } else {
        simba__show_url(cli->store, shown, sizeof shown);
        simba__calm(shown);
        printf("store: %s\n", shown);
        print_table(cli, report);
        printf("%s\n", verdicts[simba_report_gravity(report)]);
    }
    rc = simba__command_end();
    if (rc == 0 && simba_report_gravity(report) == SIMBA_FINDING_SERIOUS) {
        rc = EXIT_SERIOUS;
    }
    simba_report_close(report);
    return rc;
}

int simba__cmd_doctor(struct simba__words *words)
{
    static const struct simba__command command = {
        .name = "doctor", .help = doctor_help, .reach = SIMBA__REACH_EXAMINE};

    return simba__command_run(&command, words, examine);
}

/* --- init ---------------------------------------------------------------- */

static int print_schema(const struct simba__cli *cli, bool is_upgrade)
{
    char *text = NULL;
    simba_error error = {0};
    struct simba__json json;
    char shown[512];
    size_t length;

    if (simba_admin_schema(cli->store, is_upgrade, &text, &error) != SIMBA_OK) {
        return simba__command_fail(cli, "init", &error);
    }
    length = strlen(text);
    if (cli->is_json) {
        simba__show_url(cli->store, shown, sizeof shown);
        simba__json_print(&json, stdout);
        simba__json_text(&json, "store", shown);
        simba__json_text(&json, "schema", text);
        simba__json_line(&json);
    } else if (length > 0) {
        printf("%s%s", text, text[length - 1] == '\n' ? "" : "\n");
    } else if (cli->verbosity >= 0) {
        simba__say("nothing has to be made for this store");
    }
    free(text);
    return simba__command_end();
}

static int make(const struct simba__command *command,
                const struct simba__words *words,
                simba_store *store)
{
    const struct simba__cli *cli = &words->cli;
    const bool *is_upgrade = command->user;
    simba_report *report = NULL, *seen = NULL;
    simba_error error = {0};
    struct simba__json json;
    int rc = simba_admin_init(store, *is_upgrade, &report, &error);

    if (rc == SIMBA_OK && simba_report_finding_count(report) == 0) {
        /* It needs nothing and was not asked anything: is it there? */
        rc = simba_admin_show(store, "init", &seen, &error);
        simba_report_close(seen);
    }
    if (rc != SIMBA_OK) {
        rc = simba__command_fail(cli, command->name, &error);
    } else if (cli->is_json) {
        print_objects(cli, report, &json);
        simba__json_line(&json);
        rc = simba__command_end();
    } else {
        print_table(cli, report);
        if (cli->verbosity >= 0 && simba_report_finding_count(report) == 0) {
            simba__say("nothing has to be made for this store");
        }
        if (simba_report_gravity(report) >= SIMBA_FINDING_WEAK) {
            simba__say("'simba init --upgrade' mends what is weak");
        }
        rc = simba__command_end();
    }
    simba_report_close(report);
    return rc;
}

int simba__cmd_init(struct simba__words *words)
{
    bool is_print = false, is_upgrade = false;
    const struct simba__option options[] = {
        {.name = "print", .kind = SIMBA__FLAG, .to = &is_print},
        {.name = "upgrade", .kind = SIMBA__FLAG, .to = &is_upgrade},
        {.name = NULL}};
    const struct simba__command command = {.name = "init",
                                           .help = init_help,
                                           .options = options,
                                           .user = &is_upgrade};
    int rc = simba__command_read(&command, words);

    if (rc != SIMBA__GO_ON) {
        return rc;
    }
    return is_print ? print_schema(&words->cli, is_upgrade)
                    : simba__command_serve(&command, words, make);
}
