/* simba verify: reads event logs, merged by time, and tells what the history
 * checker finds in them. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "cli/clock.h"
#include "cli/output.h"
#include "verify/log.h"
#include "verify/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "usage: simba verify [--json] [--timeline PICTURE] FILE…\n"
    "\n"
    "Read event logs and find what must never be. A FILE holds lines of JSON:\n"
    "what a store opened as trace:FILE:URL wrote, or what simba --json lock,\n"
    "lead or every told on stderr, and break on stdout; '-' is stdin. Give\n"
    "all logs of one store at once, of all its hosts: tokens and beats are\n"
    "compared whatever the clocks, times within a boot by its clock, and\n"
    "across boots and hosts by the store's, where it was told.\n"
    "\n"
    "  overlap        two owners at once\n"
    "  token-back     a token that is not above those before it\n"
    "  token-twice    one token for two tenures\n"
    "  token-changed  another token within one tenure\n"
    "  after-end      a tenure was renewed after it was lost or released\n"
    "  after-break    a tenure was renewed after it was broken\n"
    "  unfair         a waiter was passed by one who came later\n"
    "  run-overlap    lead, every: two runs of CMD at once\n"
    "  beat-twice     every --rate: a beat that was run before\n"
    "\n"
    "Ownership is counted from when the yes was heard to when the owner must\n"
    "be out: the lease from when it asked, less the drift margin, or when it\n"
    "sent the release. What is freed by force (break --now) may overlap for\n"
    "that time. A waiter whose connection was down may be passed rightly; a\n"
    "log does not tell.\n"
    "\n"
    "Across boots there are overlap, token-back, token-twice and beat-twice;\n"
    "they are told last. An owner's time begins when the store said yes "
    "there,\n"
    "and ends with its last sign of life. A store's clock that was seen to\n"
    "make a step is not believed; a step back that no log shows looks like\n"
    "token-back. Logs of several stores look like two owners.\n"
    "\n"
    "  --timeline PICTURE  draw who owned what when, who waited, renewals,\n"
    "                      faults and findings: a page that can be zoomed if\n"
    "                      the name ends in .html, a drawing if in .svg\n"
    "\n"
    "The last line counts events, mutexes and findings. Of how many tenures\n"
    "the times were not compared with those of other boots is told on stderr,\n"
    "and counted in JSON (untimed). On a terminal stderr shows how far it is.\n"
    "\n"
    "exit codes: 0 nothing found; 1 something; 64 usage; 65 nothing found, "
    "but\n"
    "a line is no event; 66 a file cannot be read; 74 what it prints or sorts\n"
    "cannot be written\n";

/* On a terminal: how far it is. */
struct progress {
    bool is_shown;
    int64_t size; /* of all files; 0: not known */
    uint64_t deeds;
    int64_t next_ms; /* when to look again */
};

struct verification {
    const struct simba__cli *cli;
    struct simba__trace_log *logs;
    size_t count;
    struct simba__history *history;
    struct simba__boots boots;
    struct progress progress;
    const char *picture; /* NULL: none is wanted */
    struct simba__timeline timeline;
    simba_error error;
};

/* --- progress ------------------------------------------------------------ */

/* How often it is looked at the clock, and shown. */
enum { DEEDS_A_LOOK = 4096, SHOWN_EVERY_MS = 500 };

static int64_t size_of(FILE *file)
{
    struct stat status;

    return fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode)
               ? (int64_t)status.st_size
               : 0;
}

static void hide_progress(struct verification *v)
{
    if (v->progress.is_shown) {
        fputs("\r\033[K", stderr);
        v->progress.is_shown = false;
    }
}

/* How much of it a pipe still has is not known. */
static void show_progress(struct verification *v)
{
    struct progress *p = &v->progress;
    int64_t now_ms, at = 0;
    uint64_t lines = 0;

    if (p->deeds++ % DEEDS_A_LOOK != 0 || !simba__is_live(STDERR_FILENO)) {
        return;
    }
    now_ms = simba__clock_ms();
    if (now_ms < p->next_ms) {
        return;
    }
    for (size_t i = 0; i < v->count; i++) {
        lines += v->logs[i].line;
        at += size_of(v->logs[i].file) > 0 ? ftello(v->logs[i].file) : 0;
    }
    hide_progress(v);
    if (p->next_ms != 0) { /* a short log needs none */
        if (p->size > 0) {
            fprintf(stderr, "[%3d %%] ", (int)(at * 100 / p->size));
        }
        fprintf(stderr, "%" PRIu64 " lines", lines);
        (void)fflush(stderr);
        p->is_shown = true;
    }
    p->next_ms = now_ms + SHOWN_EVERY_MS;
}

/* --- telling ------------------------------------------------------------- */

/* For people: what stands between the two of a finding. */
static const char *const relations[SIMBA__FINDING_KINDS] = {
    [SIMBA__OVERLAP] = "owns it at the same time as",
    [SIMBA__TOKEN_BACK] = "has a token that is not above that of",
    [SIMBA__TOKEN_TWICE] = "has the same token as",
    [SIMBA__TOKEN_CHANGED] = "has another token than it had as",
    [SIMBA__AFTER_END] = "goes on with a tenure that has ended, of",
    [SIMBA__AFTER_BREAK] = "goes on with a tenure that was broken, of",
    [SIMBA__UNFAIR] = "waits in its old position, and was passed by",
    [SIMBA__RUN_OVERLAP] = "still ran when there began the run of",
    [SIMBA__BEAT_TWICE] = "runs a beat that is not above that of",
};

static void print_object(const struct simba__history_finding *finding,
                         const char *file,
                         const char *other_file)
{
    const struct simba__deed *deed = finding->deed;
    struct simba__json json;

    simba__json_print(&json, stdout);
    simba__json_text(&json, "finding", simba__finding_word(finding->kind));
    simba__json_text(&json, "mutex", deed->mutex);
    simba__json_text(&json, "file", file);
    simba__json_number(&json, "line", (int64_t)deed->where.line);
    simba__json_text(&json, "id", deed->id);
    simba__json_unsigned(&json, "token", finding->token);
    if (other_file != NULL) {
        simba__json_text(&json, "other_file", other_file);
        simba__json_number(&json, "other_line", (int64_t)finding->other.line);
        simba__json_text(&json, "other_id", finding->other_id);
        simba__json_unsigned(&json, "other_token", finding->other_token);
    }
    simba__json_line(&json);
}

static void draw_finding(struct verification *v,
                         const struct simba__history_finding *finding)
{
    const struct simba__deed *deed = finding->deed;
    struct simba__text text = {.bytes = NULL};

    simba__text_printf(&text, "%s: '%s': '%s' (token %" PRIu64 ") %s",
                       simba__finding_word(finding->kind), deed->mutex,
                       deed->id, finding->token, relations[finding->kind]);
    if (finding->other.line != 0) {
        simba__text_printf(&text, " '%s' (token %" PRIu64 ")",
                           finding->other_id, finding->other_token);
    } else {
        simba__text_put(&text, " one before");
    }
    simba__timeline_found(&v->timeline, finding,
                          text.bytes == NULL ? "" : text.bytes);
    simba__text_fini(&text);
}

static void on_found(void *user, const struct simba__history_finding *finding)
{
    struct verification *v = user;
    const struct simba__deed *deed = finding->deed;
    const char *file = v->logs[deed->where.file].name;
    const char *other_file =
        finding->other.line == 0 ? NULL : v->logs[finding->other.file].name;

    hide_progress(v);
    if (v->picture != NULL) {
        draw_finding(v, finding);
    }
    if (v->cli->is_json) {
        print_object(finding, file, other_file);
        return;
    }
    printf("%s:%" PRIu64 ": %s: '%s': '%s'", file, deed->where.line,
           simba__finding_word(finding->kind), deed->mutex, deed->id);
    if (finding->token != 0) {
        printf(" (token %" PRIu64 ")", finding->token);
    }
    printf(" %s", relations[finding->kind]);
    if (other_file != NULL) {
        printf(" '%s' (token %" PRIu64 ") at %s:%" PRIu64 "\n",
               finding->other_id, finding->other_token, other_file,
               finding->other.line);
    } else {
        puts(" one before");
    }
}

static void on_malformed(const struct simba__trace_log *log,
                         const char *problem)
{
    hide_progress(log->user);
    simba__say("%s:%" PRIu64 ": %s", log->name, log->line, problem);
}

/* The last line, and the exit code. */
static int sum_up(const struct verification *v)
{
    uint64_t events = 0, malformed = 0;
    uint64_t findings = simba__history_findings(v->history);
    size_t mutexes = simba__history_mutexes(v->history);
    uint64_t untimed =
        v->boots.count > 1 ? simba__history_untimed(v->history) : 0;
    struct simba__json json;
    int rc;

    for (size_t i = 0; i < v->count; i++) {
        events += v->logs[i].events;
        malformed += v->logs[i].malformed;
    }
    if (v->cli->is_json) {
        simba__json_print(&json, stdout);
        simba__json_unsigned(&json, "events", events);
        simba__json_unsigned(&json, "mutexes", mutexes);
        simba__json_unsigned(&json, "findings", findings);
        simba__json_unsigned(&json, "malformed", malformed);
        simba__json_unsigned(&json, "boots", v->boots.count);
        simba__json_unsigned(&json, "untimed", untimed);
        simba__json_line(&json);
    } else {
        printf("%" PRIu64 " event%s, %zu mutex%s, %" PRIu64 " finding%s\n",
               events, events == 1 ? "" : "s", mutexes,
               mutexes == 1 ? "" : "es", findings, findings == 1 ? "" : "s");
    }
    if (untimed > 0) {
        simba__say("the logs are of %zu boots; the times of %" PRIu64
                   " tenure%s were not compared across them, for want of the "
                   "store's clock",
                   v->boots.count, untimed, untimed == 1 ? "" : "s");
    }
    rc = simba__command_end();
    if (rc != 0) {
        return rc;
    }
    return findings > 0 ? 1 : malformed > 0 ? SIMBA__EXIT_DATA : 0;
}

/* --- reading ------------------------------------------------------------- */

/* By errno. */
static int fail(struct verification *v, const char *name)
{
    if (errno == ENOMEM) {
        return simba_error_set(&v->error, SIMBA_ENOMEM, 0, "out of memory");
    }
    return simba_error_set(&v->error, SIMBA_EUNAVAIL, errno,
                           "%.120s: cannot be read: %s", name,
                           strerrordesc_np(errno));
}

/* By errno: the history's own. */
static int fail_to_sort(struct verification *v)
{
    if (errno == ENOMEM) {
        return fail(v, "");
    }
    return simba_error_set(&v->error, SIMBA_EINTERNAL, errno,
                           "a temporary file (TMPDIR) cannot be written: %s",
                           strerrordesc_np(errno));
}

/* What became of it as an exit code. */
static int exit_of(int rc)
{
    return rc == SIMBA_EUNAVAIL    ? SIMBA__EXIT_NO_INPUT
           : rc == SIMBA_EINTERNAL ? SIMBA__EXIT_OUTPUT
                                   : SIMBA__EXIT_FAULT;
}

static int open_all(struct verification *v, char **names)
{
    v->logs = calloc(v->count, sizeof *v->logs);
    v->history = simba__history_open(on_found, v);
    if (v->logs == NULL || v->history == NULL) {
        errno = ENOMEM;
        return fail(v, "");
    }
    for (size_t i = 0; i < v->count; i++) {
        v->logs[i].complain = on_malformed;
        v->logs[i].user = v;
        v->logs[i].boots = &v->boots;
        if (!simba__log_open(&v->logs[i], names[i], (int)i)) {
            return fail(v, names[i]);
        }
        v->progress.size += size_of(v->logs[i].file);
    }
    return SIMBA_OK;
}

/* The log whose next deed is the earliest; NULL: all are at their end. */
static int choose(struct verification *v, struct simba__trace_log **chosen)
{
    const struct simba__deed *first = NULL;

    *chosen = NULL;
    for (size_t i = 0; i < v->count; i++) {
        const struct simba__deed *deed;

        if (!simba__log_peek(&v->logs[i], &deed)) {
            return fail(v, v->logs[i].name);
        }
        if (deed != NULL &&
            (first == NULL || simba__deed_is_before(deed, first))) {
            first = deed;
            *chosen = &v->logs[i];
        }
    }
    return SIMBA_OK;
}

static int feed(struct verification *v)
{
    struct simba__trace_log *log;
    int rc;

    while ((rc = choose(v, &log)) == SIMBA_OK && log != NULL) {
        const struct simba__deed *deed = NULL;

        show_progress(v);
        if (!simba__log_peek(log, &deed) || deed == NULL ||
            !simba__history_add(v->history, deed)) {
            rc = fail_to_sort(v);
            break;
        }
        if (v->picture != NULL) {
            simba__timeline_add(&v->timeline, deed);
        }
        simba__log_take(log);
    }
    if (rc == SIMBA_OK && !simba__history_finish(v->history)) {
        rc = fail_to_sort(v);
    }
    hide_progress(v);
    return rc;
}

static bool is_page(const char *name)
{
    size_t length = strlen(name);

    return length > 5 && strcmp(name + length - 5, ".html") == 0;
}

/* The picture appears whole, in the place of an older one. */
static int draw(struct verification *v)
{
    char *part = NULL;
    FILE *file;
    bool is_written;

    if (!simba__timeline_finish(&v->timeline) ||
        asprintf(&part, "%s.%ld", v->picture, (long)getpid()) < 0) {
        errno = ENOMEM;
        return fail(v, "");
    }
    file = fopen(part, "wxe");
    if (file != NULL) {
        (is_page(v->picture) ? simba__timeline_write_html
                             : simba__timeline_write_svg)(&v->timeline, file);
    }
    is_written = file != NULL && !ferror(file);
    is_written = file != NULL && fclose(file) == 0 && is_written &&
                 rename(part, v->picture) == 0;
    if (!is_written) {
        (void)simba_error_set(&v->error, SIMBA_EINTERNAL, errno,
                              "%.120s: cannot be written: %s", v->picture,
                              strerrordesc_np(errno));
        (void)unlink(part);
    }
    free(part);
    return is_written ? SIMBA_OK : SIMBA_EINTERNAL;
}

static void close_all(struct verification *v)
{
    for (size_t i = 0; v->logs != NULL && i < v->count; i++) {
        simba__log_close(&v->logs[i]);
    }
    simba__boots_fini(&v->boots);
    simba__history_close(v->history);
    simba__timeline_fini(&v->timeline);
    free(v->logs);
}

/* --- the command --------------------------------------------------------- */

static bool check_picture(const void *user)
{
    const struct verification *v = user;
    size_t length = v->picture == NULL ? 0 : strlen(v->picture);

    if (v->picture == NULL || is_page(v->picture) ||
        (length > 4 && strcmp(v->picture + length - 4, ".svg") == 0)) {
        return true;
    }
    simba__say("--timeline takes a name that ends in .html or .svg, not '%s'",
               v->picture);
    return false;
}

static int run(int argc, char **argv)
{
    struct simba__words words = {.count = argc, .words = argv};
    struct verification v = {.cli = &words.cli};
    const struct simba__option options[] = {
        {"timeline", 0, SIMBA__TEXT, &v.picture, .wrong = NULL},
        {.name = NULL}};
    const struct simba__command command = {.name = "verify",
                                           .help = help,
                                           .options = options,
                                           .check = check_picture,
                                           .user = &v,
                                           .least = 1,
                                           .most = -1,
                                           .wanted = "a FILE"};
    int code;
    int rc;

    simba__command_begin(&words.cli);
    code = simba__command_read(&command, &words);
    if (code != SIMBA__GO_ON) {
        return code;
    }
    v.count = (size_t)words.count;
    rc = open_all(&v, words.words);
    if (rc == SIMBA_OK) {
        rc = feed(&v);
    }
    if (rc == SIMBA_OK && v.picture != NULL) {
        rc = draw(&v);
    }
    code = rc == SIMBA_OK ? sum_up(&v)
                          : simba__command_fail_with(&words.cli, command.name,
                                                     &v.error, exit_of(rc));
    close_all(&v);
    return code;
}

int main(int argc, char **argv)
{
    _exit(run(argc, argv));
}
