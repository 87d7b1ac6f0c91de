/* simba verify: merges event logs by time, feeds them to the history checker,
 * and tells what it finds. */
#define _GNU_SOURCE
#include "cmd_verify.h"
#include "exit.h"
#include "say.h"
#include "verify_log.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: simba verify [--json] FILE…\n"
    "\n"
    "Read event logs and find what must never be. A FILE holds lines of JSON:\n"
    "what a store opened as trace:FILE:URL wrote, or what 'simba --json lock'\n"
    "told on stderr; '-' is stdin. Give all logs of one store at once: they\n"
    "are merged by the boot clock, and only those of one boot are compared.\n"
    "\n"
    "  overlap        two owners at once\n"
    "  token-back     a token that is not above those before it\n"
    "  token-twice    one token for two tenures\n"
    "  token-changed  another token within one tenure\n"
    "  after-end      a tenure was renewed after it was lost or released\n"
    "  after-break    a tenure was renewed after it was broken\n"
    "  unfair         a waiter was passed by one who came later\n"
    "\n"
    "Ownership is counted from when the yes was heard to when the owner must\n"
    "be out: the lease from when it asked, less the drift margin, or when it\n"
    "sent the release. What is freed by force (break --now) may overlap for\n"
    "that time. A waiter whose connection was down may be passed rightly; a\n"
    "log does not tell.\n"
    "\n"
    "The last line counts events, mutexes and findings.\n"
    "\n"
    "exit codes: 0 nothing found; 1 something; 64 usage; 65 nothing found, "
    "but\n"
    "a line is no event; 66 a file cannot be read\n";

static const struct option options[] = {SIMBA__OPT_SHARED_LONG,
                                        {NULL, 0, NULL, 0}};

struct verification {
    const struct simba__cli *cli;
    struct simba__log *logs;
    int count;
    struct simba__history *history;
};

/* --- telling ------------------------------------------------------------- */

/* Texts in a log are valid, but names of files need not be. */
static void print_text(const char *key, const char *text)
{
    printf("\"%s\":\"", key);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            printf("\\%c", *text);
        } else if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            printf("\\u%04x", (unsigned)*text);
        } else {
            putchar(*text);
        }
    }
    putchar('"');
}

static void print_json(const struct verification *v,
                       const struct simba__history_finding *finding)
{
    const struct simba__deed *deed = finding->deed;

    putchar('{');
    print_text("finding", simba__finding_word(finding->kind));
    putchar(',');
    print_text("mutex", deed->mutex);
    putchar(',');
    print_text("file", v->logs[deed->where.file].name);
    printf(",\"line\":%" PRIu64 ",", deed->where.line);
    print_text("id", deed->id);
    printf(",\"token\":%" PRIu64, finding->token);
    if (finding->other.line != 0) {
        putchar(',');
        print_text("other_file", v->logs[finding->other.file].name);
        printf(",\"other_line\":%" PRIu64 ",", finding->other.line);
        print_text("other_id", finding->other_id);
        printf(",\"other_token\":%" PRIu64, finding->other_token);
    }
    puts("}");
}

/* What stands between the two, in words. */
static const char *words_of(enum simba__finding_kind kind)
{
    static const char *const words[SIMBA__FINDING_KINDS] = {
        "owns it at the same time as",
        "has a token that is not above that of",
        "has the same token as",
        "has another token than it had as",
        "goes on with a tenure that has ended, of",
        "goes on with a tenure that was broken, of",
        "waits in its old place, and was passed by",
    };

    return words[kind];
}

static void print_line(const struct verification *v,
                       const struct simba__history_finding *finding)
{
    const struct simba__deed *deed = finding->deed;

    printf("%s:%" PRIu64 ": %s: '%s': '%s'", v->logs[deed->where.file].name,
           deed->where.line, simba__finding_word(finding->kind), deed->mutex,
           deed->id);
    if (finding->token != 0) {
        printf(" (token %" PRIu64 ")", finding->token);
    }
    printf(" %s", words_of(finding->kind));
    if (finding->other.line != 0) {
        printf(" '%s' (token %" PRIu64 ") at %s:%" PRIu64 "\n",
               finding->other_id, finding->other_token,
               v->logs[finding->other.file].name, finding->other.line);
    } else {
        puts(" one before");
    }
}

static void on_found(void *user, const struct simba__history_finding *finding)
{
    const struct verification *v = user;

    if (v->cli->is_json) {
        print_json(v, finding);
    } else {
        print_line(v, finding);
    }
}

static void complain(const struct simba__log *log, const char *problem)
{
    simba__say("%s:%" PRIu64 ": %s", log->name, log->line, problem);
}

static int tell_end(const struct verification *v)
{
    uint64_t events = 0, malformed = 0;
    uint64_t findings = simba__history_findings(v->history);

    assert(v->logs != NULL);
    for (int i = 0; i < v->count; i++) {
        events += v->logs[i].events;
        malformed += v->logs[i].malformed;
    }
    printf(v->cli->is_json
               ? "{\"events\":%" PRIu64 ",\"mutexes\":%zu,\"findings\":%" PRIu64
                 ",\"malformed\":%" PRIu64 "}\n"
               : "%" PRIu64 " events, %zu mutexes, %" PRIu64 " findings\n",
           events, simba__history_mutexes(v->history), findings, malformed);
    if (fflush(stdout) != 0) {
        return SIMBA__EXIT_FAULT;
    }
    if (findings > 0) {
        return 1;
    }
    return malformed > 0 ? SIMBA__EXIT_DATA : 0;
}

/* --- reading ------------------------------------------------------------- */

static int cannot_read(const char *name)
{
    simba__say("%s: cannot be read: %s", name, strerror(errno));
    return SIMBA__EXIT_NO_INPUT;
}

/* The log whose next deed is the earliest; NULL: all are at their end. */
static int choose(struct verification *v, struct simba__log **chosen)
{
    const struct simba__deed *first = NULL;

    *chosen = NULL;
    for (int i = 0; i < v->count; i++) {
        const struct simba__deed *deed;

        if (!simba__log_peek(&v->logs[i], &deed)) {
            return cannot_read(v->logs[i].name);
        }
        if (deed != NULL &&
            (first == NULL || simba__deed_is_before(deed, first))) {
            first = deed;
            *chosen = &v->logs[i];
        }
    }
    return 0;
}

static int feed(struct verification *v)
{
    struct simba__log *log;
    int rc;

    while ((rc = choose(v, &log)) == 0 && log != NULL) {
        const struct simba__deed *deed = NULL;

        if (!simba__log_peek(log, &deed) || deed == NULL ||
            !simba__history_add(v->history, deed)) {
            simba__say("out of memory");
            return SIMBA__EXIT_FAULT;
        }
        simba__log_take(log);
    }
    return rc == 0 ? tell_end(v) : rc;
}

static int open_all(struct verification *v, char **names)
{
    for (int i = 0; i < v->count; i++) {
        v->logs[i].complain = complain;
        if (!simba__log_open(&v->logs[i], names[i], i)) {
            return cannot_read(names[i]);
        }
    }
    return 0;
}

static int verify(const struct simba__cli *cli, int count, char **names)
{
    struct verification v = {.cli = cli, .count = count};
    int rc = SIMBA__EXIT_FAULT;

    v.logs = calloc((size_t)count, sizeof(*v.logs));
    v.history = simba__history_open(on_found, &v);
    if (v.logs == NULL || v.history == NULL) {
        simba__say("out of memory");
    } else {
        rc = open_all(&v, names);
        rc = rc == 0 ? feed(&v) : rc;
    }
    for (int i = 0; v.logs != NULL && i < count; i++) {
        simba__log_close(&v.logs[i]);
    }
    simba__history_close(v.history);
    free(v.logs);
    return rc;
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
            return fflush(stdout) == 0 ? 0 : SIMBA__EXIT_FAULT;
        }
        if (!simba__opt_take_shared(cli, choice, optarg)) {
            simba__opt_complain("verify", choice, argv);
            return SIMBA__EXIT_USAGE;
        }
    }
    if (optind == argc) {
        simba__say("verify needs a FILE; see 'simba verify --help'");
        return SIMBA__EXIT_USAGE;
    }
    return verify(cli, argc - optind, argv + optind);
}
