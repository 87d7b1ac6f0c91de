/* simba doctor: what this store, set up as it is, can and cannot promise. */
#define _GNU_SOURCE
#include "cmd_admin.h"
#include "command.h"
#include "finding.h"
#include "object.h"
#include "table.h"

#include <simba/admin.h>

#include <stdio.h>

static const char help[] =
    "usage: simba doctor [OPTION…]\n"
    "\n"
    "Tell what this store, configured as it is, guarantees, and name every\n"
    "weakness:\n"
    "\n"
    "  ok       a guarantee that holds\n"
    "  note     good to know\n"
    "  weak     a guarantee that holds only mostly\n"
    "  serious  two may own a mutex at once: mend it before you rely on it\n"
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
    "configuration or URL, or nothing is there yet ('simba init' makes it)\n";

static const struct option options[] = {SIMBA__OPT_SHARED_LONG,
                                        {NULL, 0, NULL, 0}};

enum { EXIT_SERIOUS = 1 };

/* --- for programs -------------------------------------------------------- */

static void print_offers(struct simba__object *object, unsigned offers)
{
    static const struct {
        const char *key;
        unsigned offer;
    } known[] = {{"push", SIMBA_CAN_PUSH},
                 {"crash", SIMBA_CAN_SEE_CRASH},
                 {"steady_clock", SIMBA_HAS_STEADY_CLOCK},
                 {"list", SIMBA_CAN_LIST},
                 {"break", SIMBA_CAN_BREAK}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        simba__object_flag(object, known[i].key,
                           (offers & known[i].offer) != 0);
    }
}

static void print_objects(const simba_report *report,
                          const char *shown,
                          unsigned offers)
{
    struct simba__object object;

    simba__finding_objects(report);
    simba__object_begin(&object, stdout);
    simba__object_text(&object, "store", shown);
    simba__object_text(&object, "gravity",
                       simba__gravity_word(simba_report_gravity(report)));
    simba__object_number(&object, "findings",
                         (int64_t)simba_report_finding_count(report));
    print_offers(&object, offers);
    simba__object_end(&object);
}

/* --- for people ---------------------------------------------------------- */

static void print_all(const simba_report *report, const char *shown)
{
    static const char *const verdicts[] = {
        "all is well",
        "nothing is weak",
        "no serious weakness",
        "do not rely on this store before what is serious is mended",
    };

    printf("store: ");
    simba__table_text(stdout, shown);
    (void)fputc('\n', stdout);
    simba__finding_table(report, SIMBA_FINDING_OK);
    printf("%s\n", verdicts[simba_report_gravity(report)]);
}

/* --- the command --------------------------------------------------------- */

static int examine(const struct simba__command *command,
                   const struct simba__words *words,
                   simba_store *store)
{
    simba_report *report = NULL;
    simba_error error = {0};
    char shown[512];
    int rc;

    if (simba_admin_doctor(store, &report, &error) != SIMBA_OK) {
        return simba__command_fail(&words->cli, command->name, &error);
    }
    simba__opt_show_url(words->cli.store, shown, sizeof(shown));
    if (words->cli.is_json) {
        print_objects(report, shown, simba_store_capabilities(store));
    } else if (words->cli.verbosity < 0) {
        simba__finding_table(report, SIMBA_FINDING_WEAK);
    } else {
        print_all(report, shown);
    }
    rc = simba__command_end();
    if (rc == 0 && simba_report_gravity(report) == SIMBA_FINDING_SERIOUS) {
        rc = EXIT_SERIOUS;
    }
    simba_report_close(report);
    return rc;
}

int simba__cmd_doctor(struct simba__cli *cli, int argc, char **argv)
{
    static const struct simba__command command = {
        .name = "doctor",
        .reach = SIMBA__REACH_NEED,
        .help = help,
        .options = options,
        .letters = "",
        .wanted = "no word",
    };
    struct simba__words words = {*cli, argc, argv};

    return simba__command_run(&command, &words, examine);
}
