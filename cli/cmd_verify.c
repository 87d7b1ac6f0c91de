/* simba verify: tells what is found in event logs. */
#define _GNU_SOURCE
#include "cmd_verify.h"
#include "command.h"
#include "exit.h"
#include "json.h"
#include "say.h"

#include <simba/sys/verify.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

static const char help[] =
    "usage: simba verify [--json] FILE…\n"
    "\n"
    "Read event logs and find what must never be. A FILE holds lines of JSON:\n"
    "what a store opened as trace:FILE:URL wrote, or what simba --json lock,\n"
    "lead or every told on stderr, and break on stdout; '-' is stdin. Give\n"
    "all logs of one store at once: they are merged by the boot clock, and\n"
    "only those of one boot are compared.\n"
    "\n"
    "  overlap        two owners at once\n"
    "  token-back     a token that is not above those before it\n"
    "  token-twice    one token for two tenures\n"
    "  token-changed  another token within one tenure\n"
    "  after-end      a tenure was renewed after it was lost or released\n"
    "  after-break    a tenure was renewed after it was broken\n"
    "  unfair         a waiter was passed by one who came later\n"
    "  run-overlap    lead, every: two runs of CMD at once, on one host or "
    "two\n"
    "  beat-twice     every --rate: a beat that was run before\n"
    "\n"
    "Ownership is counted from when the yes was heard to when the owner must\n"
    "be out: the lease from when it asked, less the drift margin, or when it\n"
    "sent the release. What is freed by force (break --now) may overlap for\n"
    "that time. A waiter whose connection was down may be passed rightly; a\n"
    "log does not tell.\n"
    "\n"
    "The last line counts events, mutexes and findings. Logs of several boots\n"
    "are told on stderr, and counted in JSON (boots).\n"
    "\n"
    "exit codes: 0 nothing found; 1 something; 64 usage; 65 nothing found, "
    "but\n"
    "a line is no event; 66 a file cannot be read\n";

static const struct option options[] = {SIMBA__OPT_SHARED_LONG,
                                        {NULL, 0, NULL, 0}};

/* --- telling ------------------------------------------------------------- */

static void print_text(const char *key, const char *text)
{
    printf("\"%s\":", key);
    simba__json_string(stdout, text);
}

static void print_json(const simba_breach *breach)
{
    putchar('{');
    print_text("finding", breach->kind);
    putchar(',');
    print_text("mutex", breach->mutex);
    putchar(',');
    print_text("file", breach->file);
    printf(",\"line\":%" PRIu64 ",", breach->line);
    print_text("id", breach->id);
    printf(",\"token\":%" PRIu64, breach->token);
    if (breach->other_file != NULL) {
        putchar(',');
        print_text("other_file", breach->other_file);
        printf(",\"other_line\":%" PRIu64 ",", breach->other_line);
        print_text("other_id", breach->other_id);
        printf(",\"other_token\":%" PRIu64, breach->other_token);
    }
    puts("}");
}

static void print_line(const simba_breach *breach)
{
    printf("%s:%" PRIu64 ": %s: '%s': '%s'", breach->file, breach->line,
           breach->kind, breach->mutex, breach->id);
    if (breach->token != 0) {
        printf(" (token %" PRIu64 ")", breach->token);
    }
    printf(" %s", breach->words);
    if (breach->other_file != NULL) {
        printf(" '%s' (token %" PRIu64 ") at %s:%" PRIu64 "\n",
               breach->other_id, breach->other_token, breach->other_file,
               breach->other_line);
    } else {
        puts(" one before");
    }
}

static void on_breach(void *user, const simba_breach *breach)
{
    const struct simba__cli *cli = user;

    if (cli->is_json) {
        print_json(breach);
    } else {
        print_line(breach);
    }
}

static void on_malformed(void *user,
                         const char *file,
                         uint64_t line,
                         const char *problem)
{
    (void)user;
    simba__say("%s:%" PRIu64 ": %s", file, line, problem);
}

static int tell_end(const struct simba__cli *cli,
                    const simba_verify_summary *summary)
{
    int rc;

    if (cli->is_json) {
        printf("{\"events\":%" PRIu64 ",\"mutexes\":%zu,\"findings\":%" PRIu64
               ",\"malformed\":%" PRIu64 ",\"boots\":%zu}\n",
               summary->events, summary->mutexes, summary->breaches,
               summary->malformed, summary->boots);
    } else {
        printf("%" PRIu64 " event%s, %zu mutex%s, %" PRIu64 " finding%s\n",
               summary->events, summary->events == 1 ? "" : "s",
               summary->mutexes, summary->mutexes == 1 ? "" : "es",
               summary->breaches, summary->breaches == 1 ? "" : "s");
    }
    if (summary->boots > 1) {
        simba__say("the logs are of %zu boots; what happened in different ones "
                   "was not compared",
                   summary->boots);
    }
    rc = simba__command_end();
    if (rc != 0) {
        return rc;
    }
    if (summary->breaches > 0) {
        return 1;
    }
    return summary->malformed > 0 ? SIMBA__EXIT_DATA : 0;
}

/* --- the command --------------------------------------------------------- */

static int verify(const struct simba__cli *cli, int count, char **names)
{
    simba_verify_options wish = SIMBA_VERIFY_OPTIONS_INIT;
    simba_verify_summary summary;
    simba_error error = {0};
    int rc;

    wish.files = (const char *const *)names;
    wish.count = (size_t)count;
    wish.on_breach = on_breach;
    wish.on_malformed = on_malformed;
    wish.user = (void *)cli;
    rc = simba_verify(&wish, &summary, &error);
    if (rc == SIMBA_OK) {
        return tell_end(cli, &summary);
    }
    return simba__command_fail_with(cli, "verify", &error,
                                    rc == SIMBA_EUNAVAIL ? SIMBA__EXIT_NO_INPUT
                                                         : SIMBA__EXIT_FAULT);
}

int simba__cmd_verify(struct simba__cli *cli, int argc, char **argv)
{
    int choice;

    opterr = 0;
    optind = 1;
    while ((choice = getopt_long(argc, argv, ":" SIMBA__OPT_SHARED_SHORT,
                                 options, NULL)) != -1) {
        if (choice == 'h') {
            (void)fputs(help, stdout);
            return simba__command_end();
        }
        if (!simba__opt_take_shared(cli, choice, optarg)) {
            simba__opt_complain("verify", options, choice, argv);
            return SIMBA__EXIT_USAGE;
        }
    }
    if (optind == argc) {
        simba__say("verify needs a FILE; see 'simba verify --help'");
        return SIMBA__EXIT_USAGE;
    }
    return verify(cli, argc - optind, argv + optind);
}
