/* Logs of real runs: merged by time, and fed to the history checker. */
#define _GNU_SOURCE
#include <simba/sys/verify.h>

#include "api/given.h"
#include "api/verify_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Which boot some deed was of. */
struct boot {
    struct boot *next;
    char id[sizeof((struct simba__deed *)NULL)->scope];
};

struct verification {
    simba_verify_options options;
    simba_verify_summary *summary;
    simba_error *error;
    struct simba__log *logs;
    struct simba__history *history;
    struct boot *boots;
};

/* --- telling ------------------------------------------------------------- */

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
        "still ran when there began the run of",
        "runs a beat that is not above that of",
    };

    return words[kind];
}

static void on_found(void *user, const struct simba__history_finding *finding)
{
    const struct verification *v = user;
    const struct simba__deed *deed = finding->deed;
    simba_breach breach = {.kind = simba__finding_word(finding->kind),
                           .words = words_of(finding->kind),
                           .mutex = deed->mutex,
                           .file = v->logs[deed->where.file].name,
                           .line = deed->where.line,
                           .id = deed->id,
                           .token = finding->token};

    if (finding->other.line != 0) {
        breach.other_file = v->logs[finding->other.file].name;
        breach.other_line = finding->other.line;
        breach.other_id = finding->other_id;
        breach.other_token = finding->other_token;
    }
    if (v->options.on_breach != NULL) {
        v->options.on_breach(v->options.user, &breach);
    }
}

static void complain(const struct simba__log *log, const char *problem)
{
    const struct verification *v = log->user;

    if (v->options.on_malformed != NULL) {
        v->options.on_malformed(v->options.user, log->name, log->line, problem);
    }
}

/* --- reading ------------------------------------------------------------- */

static int fail(const struct verification *v, const char *name)
{
    if (errno == ENOMEM) {
        return simba_error_set(v->error, SIMBA_ENOMEM, 0, "out of memory");
    }
    return simba_error_set(v->error, SIMBA_EUNAVAIL, errno,
                           "%.120s: cannot be read: %s", name,
                           strerrordesc_np(errno));
}

static int open_all(struct verification *v)
{
    v->logs = calloc(v->options.count, sizeof *v->logs);
    v->history = simba__history_open(on_found, v);
    if (v->logs == NULL || v->history == NULL) {
        errno = ENOMEM;
        return fail(v, "");
    }
    for (size_t i = 0; i < v->options.count; i++) {
        v->logs[i].complain = complain;
        v->logs[i].user = v;
        if (!simba__log_open(&v->logs[i], v->options.files[i], (int)i)) {
            return fail(v, v->options.files[i]);
        }
    }
    return SIMBA_OK;
}

static void close_all(struct verification *v)
{
    for (size_t i = 0; v->logs != NULL && i < v->options.count; i++) {
        simba__log_close(&v->logs[i]);
    }
    for (struct boot *b = v->boots, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    simba__history_close(v->history);
    free(v->logs);
}

/* The log whose next deed is the earliest; NULL: all are at their end. */
static int choose(struct verification *v, struct simba__log **chosen)
{
    const struct simba__deed *first = NULL;

    *chosen = NULL;
    for (size_t i = 0; i < v->options.count; i++) {
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

/* There are few: a log begins anew with a boot. */
static bool note_boot(struct verification *v, const struct simba__deed *deed)
{
    struct boot *boot = v->boots;

    while (boot != NULL && strcmp(boot->id, deed->scope) != 0) {
        boot = boot->next;
    }
    if (boot == NULL) {
        boot = calloc(1, sizeof *boot);
        if (boot == NULL) {
            return false;
        }
        memcpy(boot->id, deed->scope, sizeof boot->id);
        boot->next = v->boots;
        v->boots = boot;
        v->summary->boots++;
    }
    return true;
}

static int feed(struct verification *v)
{
    struct simba__log *log;
    int rc;

    while ((rc = choose(v, &log)) == SIMBA_OK && log != NULL) {
        const struct simba__deed *deed = NULL;

        if (!simba__log_peek(log, &deed) || deed == NULL ||
            !note_boot(v, deed) || !simba__history_add(v->history, deed)) {
            errno = ENOMEM;
            return fail(v, "");
        }
        simba__log_take(log);
    }
    return rc;
}

static void sum_up(struct verification *v)
{
    for (size_t i = 0; i < v->options.count; i++) {
        v->summary->events += v->logs[i].events;
        v->summary->malformed += v->logs[i].malformed;
    }
    v->summary->breaches = simba__history_findings(v->history);
    v->summary->mutexes = simba__history_mutexes(v->history);
}

int simba_verify(const simba_verify_options *given,
                 simba_verify_summary *summary,
                 simba_error *error)
{
    simba_verify_options options = SIMBA_VERIFY_OPTIONS_INIT;
    struct verification v = {.summary = summary, .error = error};
    int rc;

    memset(summary, 0, sizeof *summary);
    rc = simba__given_take(
        &(struct simba__given){given, "SIMBA_VERIFY_OPTIONS_INIT"}, &options,
        sizeof options, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    if (options.files == NULL || options.count == 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "the options must name a log");
    }
    v.options = options;
    rc = open_all(&v);
    if (rc == SIMBA_OK) {
        rc = feed(&v);
    }
    if (rc == SIMBA_OK) {
        sum_up(&v);
    }
    close_all(&v);
    return rc;
}
