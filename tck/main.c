/* simba tck: the contract every store keeps, run against this one. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "cli/output.h"

#include <simba/sys/tck.h>

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

static const char *word(enum simba_tck_verdict verdict)
{
    static const char *const words[] = {"started", "passed", "failed",
                                        "skipped"};

    return words[verdict];
}

static void tell_json(const simba_tck_result *result)
{
    struct simba__json json;

    simba__json_print(&json, stdout);
    simba__json_text(&json, "name", result->test->name);
    simba__json_text(&json, "result", word(result->verdict));
    simba__json_number(&json, "ms", result->elapsed_ms);
    simba__json_text(&json, "message", result->message);
    simba__json_line(&json);
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
    struct simba__json json;

    if (cli->is_json) {
        simba__json_print(&json, stdout);
        simba__json_unsigned(&json, "passed", summary->passed);
        simba__json_unsigned(&json, "failed", summary->failed);
        simba__json_unsigned(&json, "skipped", summary->skipped);
        simba__json_number(&json, "ms", summary->elapsed_ms);
        simba__json_unsigned(&json, "seed", summary->seed);
        simba__json_line(&json);
        return;
    }
    if (cli->verbosity >= 0) {
        printf("%" PRId64 ".%03d s, seed %" PRIu64 "\n",
               summary->elapsed_ms / 1000, (int)(summary->elapsed_ms % 1000),
               summary->seed);
    }
    if (summary->skipped > 0 && cli->verbosity >= 0) {
        printf("%zu skipped: this store cannot do what they ask for\n",
               summary->skipped);
    }
    printf("%zu passed, %zu failed\n", summary->passed, summary->failed);
}

static void list_one(const struct simba__cli *cli, const simba_tck_case *test)
{
    struct simba__json json;

    if (!cli->is_json) {
        printf("%s\n    %s%s%s%s\n", test->name, test->says,
               *test->only == '\0' ? "" : " Only ", test->only,
               *test->only == '\0' ? "" : ".");
        return;
    }
    simba__json_print(&json, stdout);
    simba__json_text(&json, "name", test->name);
    simba__json_text(&json, "says", test->says);
    simba__json_text(&json, "only", test->only);
    simba__json_flag(&json, "quick", test->is_quick);
    simba__json_flag(&json, "safety", test->is_safety);
    simba__json_line(&json);
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
                (void)simba__command_flush(); /* the first failure is told */
            }
        }
    }
    return count;
}

/* --- the command --------------------------------------------------------- */

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

static int run_tests(const struct simba__cli *cli, simba_tck_options tck)
{
    struct audience audience = {
        .cli = cli,
        .is_terminal = isatty(STDERR_FILENO) == 1 && cli->verbosity >= 0,
    };
    simba_tck_summary summary;
    simba_error error = {0};
    int rc;

    tck.report = report;
    tck.user = &audience;
    tck.is_cancelled = is_interrupted;
    simba__interrupt_catch();
    simba__command_await_grants(cli);
    rc = simba_tck_run(&tck, &summary, &error);
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
    const struct simba__option options[] = {
        {.name = "quick", .kind = SIMBA__FLAG, .to = &wish.tck.is_quick},
        {.name = "list", .kind = SIMBA__FLAG, .to = &wish.is_list},
        {.name = "faulty", .kind = SIMBA__FLAG, .to = &wish.tck.is_faulty},
        {.name = "seed", .kind = SIMBA__NUMBER, .to = &wish.tck.seed},
        {.name = NULL}};
    const struct simba__command command = {.name = "tck",
                                           .help = help,
                                           .options = options,
                                           .most = 1,
                                           .wanted =
                                               "one GLOB; put it in quotes"};
    struct simba__words words = {.count = argc, .words = argv};
    int code;

    simba__command_begin(&words.cli);
    code = simba__command_read(&command, &words);
    if (code != SIMBA__GO_ON) {
        return code;
    }
    wish.tck.pattern = words.words[0]; /* NULL when there is none */
    wish.tck.store = words.cli.store;
    if (list(&words.cli, &wish) == 0) {
        simba__say("no test has such a name; see 'simba tck --list'");
        return SIMBA__EXIT_USAGE;
    }
    return wish.is_list ? simba__command_end()
                        : run_tests(&words.cli, wish.tck);
}

int main(int argc, char **argv)
{
    _exit(run(argc, argv));
}
