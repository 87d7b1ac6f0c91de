/* simba tck: the contract every store keeps, run against this one. */
#define _GNU_SOURCE
#include "cli/command.h"
#include "cli/exit.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/say.h"

#include <simba/sys/tck.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: simba tck [OPTION…] [GLOB]\n"
    "\n"
    "Run the contract that every store keeps against this one. Each test uses\n"
    "mutexes of its own and leaves nothing owned behind, so it can be run on\n"
    "a server that others use. GLOB chooses tests by name, such as 'queue.*'.\n"
    "\n"
    "      --quick      only a small choice, in a few seconds\n"
    "      --list       tell which tests there are, and what they ask for\n"
    "      --faulty     the store loses and delays what it is asked: only\n"
    "                   what must hold even then\n"
    "      --seed N     draw the same lots as the run that told this number\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                   see 'simba --help'\n"
    "\n"
    "A line for each test, then 'N passed, N failed'. With --json an object\n"
    "for each: name, result (passed, failed, skipped), ms, message; and a "
    "last\n"
    "one that counts them. With -q only failures are told.\n"
    "\n"
    "Ctrl-C ends it after what the test under way owns has been released.\n"
    "\n"
    "exit codes: 0 all passed; 1 some failed; 64 usage; 69 store unreachable;\n"
    "70 a fault of simba; 77 access denied; 78 wrong configuration or URL;\n"
    "128 + N ended by signal N\n";

enum { OPT_QUICK = SIMBA__OPT_OWN, OPT_LIST, OPT_FAULTY, OPT_SEED };

static const struct option options[] = {
    {"quick", no_argument, NULL, OPT_QUICK},
    {"list", no_argument, NULL, OPT_LIST},
    {"faulty", no_argument, NULL, OPT_FAULTY},
    {"seed", required_argument, NULL, OPT_SEED},
    SIMBA__OPT_SHARED_LONG,
    {NULL, 0, NULL, 0}};

enum { EXIT_FAILED = 1 };

/* What the options ask for. */
struct wish {
    simba_tck_options tck;
    bool is_list;
};

/* Who is told, and how. */
struct audience {
    const struct simba__cli *cli;
    bool is_terminal; /* stderr: show what runs */
};

/* --- telling ------------------------------------------------------------- */

static void print_text(const char *key, const char *text)
{
    printf("\"%s\":", key);
    simba__json_string(stdout, text);
}

static const char *word(enum simba_tck_verdict verdict)
{
    static const char *const words[] = {"started", "passed", "failed",
                                        "skipped"};

    return words[verdict];
}

static void tell_json(const simba_tck_result *result)
{
    printf("{");
    print_text("name", result->test->name);
    printf(",");
    print_text("result", word(result->verdict));
    printf(",\"ms\":%" PRId64 ",", result->elapsed_ms);
    print_text("message", result->message);
    printf("}\n");
}

static void tell_people(const struct audience *audience,
                        const simba_tck_result *result)
{
    if (audience->cli->verbosity < 0 && result->verdict != SIMBA_TCK_FAILED) {
        return;
    }
    printf("%-7s %6" PRId64 " ms  %s\n", word(result->verdict),
           result->elapsed_ms, result->test->name);
    if (result->verdict == SIMBA_TCK_FAILED) {
        printf("        %s\n        it says: %s\n", result->message,
               result->test->says);
    } else if (result->verdict == SIMBA_TCK_SKIPPED) {
        printf("        only %s\n", result->message);
    }
}

/* What runs now, on one line that is wiped when it has ended. */
static void show_progress(const struct audience *audience,
                          const simba_tck_result *result)
{
    if (!audience->is_terminal) {
        return;
    }
    if (result->verdict == SIMBA_TCK_STARTED) {
        fprintf(stderr, "[%zu/%zu] %s", result->index + 1, result->count,
                result->test->name);
    } else {
        fputs("\r\033[K", stderr);
    }
    (void)fflush(stderr);
}

static void report(void *user, const simba_tck_result *result)
{
    const struct audience *audience = user;

    show_progress(audience, result);
    if (result->verdict == SIMBA_TCK_STARTED) {
        return;
    }
    if (audience->cli->is_json) {
        tell_json(result);
    } else {
        tell_people(audience, result);
    }
    (void)fflush(stdout); /* before a test forks, and for who reads along */
}

static void tell_summary(const struct simba__cli *cli,
                         const simba_tck_summary *summary)
{
    if (cli->is_json) {
        printf("{\"passed\":%zu,\"failed\":%zu,\"skipped\":%zu,\"ms\":%" PRId64
               ",\"seed\":%" PRIu64 "}\n",
               summary->passed, summary->failed, summary->skipped,
               summary->elapsed_ms, summary->seed);
        return;
    }
    if (cli->verbosity >= 0) {
        printf("%" PRId64 ".%03d s, seed %" PRIu64 "\n",
               summary->elapsed_ms / 1000, (int)(summary->elapsed_ms % 1000),
               summary->seed);
    }
    if (summary->skipped > 0 && cli->verbosity >= 0) {
        printf("%zu skipped: this store does not offer what they ask for\n",
               summary->skipped);
    }
    printf("%zu passed, %zu failed\n", summary->passed, summary->failed);
}

static void list_one(const struct simba__cli *cli, const simba_tck_case *test)
{
    if (!cli->is_json) {
        printf("%s\n    %s%s%s%s\n", test->name, test->says,
               *test->only == '\0' ? "" : " Only ", test->only,
               *test->only == '\0' ? "" : ".");
        return;
    }
    printf("{");
    print_text("name", test->name);
    printf(",");
    print_text("says", test->says);
    printf(",");
    print_text("only", test->only);
    printf(",\"quick\":%s,\"safety\":%s}\n", test->is_quick ? "true" : "false",
           test->is_safety ? "true" : "false");
}

/* How many tests are chosen; told, if they are to be listed. */
static size_t list(const struct simba__cli *cli, const struct wish *wish)
{
    const simba_tck_case *test;
    size_t count = 0;

    for (size_t i = 0; (test = simba_tck_case_at(i)) != NULL; i++) {
        if (simba_tck_is_chosen(&wish->tck, test)) {
            count++;
            if (wish->is_list) {
                list_one(cli, test);
            }
        }
    }
    return count;
}

/* --- the command --------------------------------------------------------- */

static bool take(void *user, int choice, char *value)
{
    struct wish *wish = user;
    char *end = NULL;

    switch (choice) {
    case OPT_QUICK:
        wish->tck.is_quick = true;
        return true;
    case OPT_LIST:
        wish->is_list = true;
        return true;
    case OPT_FAULTY:
        wish->tck.is_faulty = true;
        return true;
    default:
        errno = 0;
        wish->tck.seed = strtoull(value, &end, 10);
        if (*value < '0' || *value > '9' || *end != '\0' || errno != 0 ||
            wish->tck.seed == 0) {
            simba__say("--seed: '%s' is no number from 1 on", value);
            return false;
        }
        return true;
    }
}

static bool is_interrupted(void *user)
{
    (void)user;
    return simba__interrupt() != 0;
}

/* The line of what was under way is still there. */
static int leave_early(const struct audience *audience,
                       const simba_tck_summary *summary,
                       simba_error *error)
{
    if (audience->is_terminal) {
        fputs("\r\033[K", stderr);
    }
    tell_summary(audience->cli, summary);
    (void)simba_error_set(error, SIMBA_ECANCELED, 0,
                          "interrupted: what the test under way had is given "
                          "back");
    return simba__command_fail_with(audience->cli, "tck", error,
                                    SIMBA__EXIT_SIGNAL + simba__interrupt());
}

static int run_tests(const struct simba__cli *cli, simba_tck_options *tck)
{
    struct audience audience = {
        .cli = cli,
        .is_terminal = isatty(STDERR_FILENO) == 1 && cli->verbosity >= 0,
    };
    simba_tck_summary summary;
    simba_error error = {0};
    int rc;

    tck->report = report;
    tck->user = &audience;
    tck->is_cancelled = is_interrupted;
    simba__interrupt_catch();
    rc = simba_tck_run(tck, &summary, &error);
    if (rc == SIMBA_ECANCELED) {
        return leave_early(&audience, &summary, &error);
    }
    if (rc != SIMBA_OK) {
        return simba__command_fail(cli, "tck", &error);
    }
    tell_summary(cli, &summary);
    rc = simba__command_end();
    return rc == 0 && summary.failed > 0 ? EXIT_FAILED : rc;
}

static int run(int argc, char **argv)
{
    struct wish wish = {.tck = SIMBA_TCK_OPTIONS_INIT};
    const struct simba__command command = {.name = "tck",
                                           .help = help,
                                           .options = options,
                                           .letters = "",
                                           .take = take,
                                           .user = &wish,
                                           .most = 1,
                                           .wanted =
                                               "one GLOB; put it in quotes"};
    struct simba__words words = {.count = argc, .words = argv};
    int code;

    simba__command_begin(&words.cli);
    code = simba__command_read(&command, &words);
    if (code != SIMBA__COMMAND_GO_ON) {
        return code;
    }
    wish.tck.pattern = words.words[0]; /* NULL when there is none */
    wish.tck.store = words.cli.store;
    if (list(&words.cli, &wish) == 0) {
        simba__say("no test has such a name; see 'simba tck --list'");
        return SIMBA__EXIT_USAGE;
    }
    return wish.is_list ? simba__command_end()
                        : run_tests(&words.cli, &wish.tck);
}

int main(int argc, char **argv)
{
    _exit(run(argc, argv));
}
