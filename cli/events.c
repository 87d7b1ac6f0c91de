/* What the user is told about one run: lines for people, or JSON. The guardian
 * only reports; the front speaks, as it may wait for a slow reader. */
#define _GNU_SOURCE
#include "cli/front.h"
#include "cli/mutex_view.h"
#include "cli/output.h"

#include <simba/contender.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* How long something takes that people are told of, in ms. */
enum { WORTH_TELLING = 2000 };

static void tell_json(const struct simba__front *front,
                      const char *name,
                      const struct simba__note *note)
{
    char bytes[PIPE_BUF];
    struct simba__text line = simba__text_fixed(bytes, sizeof bytes);
    bool is_waiting = note->kind == SIMBA__NOTE_WAITING;
    struct simba__json json;

    simba__json_begin(&json, &line);
    simba__json_text(&json, "event", name);
    simba__json_text(&json, "mutex", front->job->mutex);
    if (front->was_acquired) {
        simba__json_text(&json, "id", front->share->id);
    }
    if (note->token != 0) {
        simba__json_token(&json, "token", note->token);
    }
    if (note->token != 0 && front->job->slots > 0) {
        simba__put_slots(&json, front->job->slots);
    }
    if (note->token != 0 && front->job->slots > 0 &&
        front->share->slot != SIMBA_NO_SLOT) {
        simba__json_unsigned(&json, "slot", front->share->slot);
    }
    simba__json_text_if(&json, "owner_id", is_waiting ? note->text : NULL);
    simba__json_text_if(
        &json, "status",
        note->status == SIMBA_OK ? NULL : simba_status_name(note->status));
    if (note->kind == SIMBA__NOTE_FAILED || note->kind == SIMBA__NOTE_ENDED) {
        simba__json_number(&json, "exit", note->number);
    }
    if (note->run != 0) {
        simba__json_unsigned(&json, "run", note->run);
    }
    simba__json_number_if(&json, "beat_ms", note->beat_ms);
    simba__json_number_if(&json, "store_ms", note->store_ms);
    if (note->kind == SIMBA__NOTE_SKIPPED) {
        simba__json_number(&json, "skipped", note->number);
    }
    simba__put_times(&json, note->boot_ms);
    if (note->kind == SIMBA__NOTE_LOST) {
        /* It may be noticed late, after a stop; but from U on nobody relied on
         * it. */
        simba__json_number(&json, "until_ms",
                           note->until_ms != 0 && note->until_ms < note->boot_ms
                               ? note->until_ms
                               : note->boot_ms);
    }
    simba__json_text_if(&json, "message", is_waiting ? NULL : note->text);
    simba__json_end(&json);
    simba__say_json(&line);
}

/* Nobody owns it, but the store grants nothing yet and says why: what is said
 * of the mutex begins with its name. */
static bool is_not_yet(const struct simba__front *front,
                       const struct simba__note *note)
{
    const char *mutex = front->job->mutex;

    return (note->status == SIMBA_EBUSY || note->status == SIMBA_ETIMEDOUT) &&
           strncmp(note->text, mutex, strlen(mutex)) != 0;
}

/* What to do about it, after what it was. */
static const char *advice(const struct simba__front *front,
                          const struct simba__note *note)
{
    switch (simba__exit_of_status(note->status)) {
    case SIMBA__EXIT_NOT_ACQUIRED:
        if (is_not_yet(front, note)) {
            return front->job->wait_ms == 0 ? "; -w DUR would wait for it"
                                            : "; give a longer --wait";
        }
        return note->seen == EDEADLK ? ""
               : front->job->wait_ms == 0
                   ? "; -w DUR would wait for it, 'simba show' tells who has it"
                   : "; give a longer one, or ask 'simba show' who has it";
    case SIMBA__EXIT_UNAVAILABLE:
        return note->status == SIMBA_EUNKNOWN
                   ? "; whether it was granted is not known: if so, it is free "
                     "again when the lease is over"
               : simba__is_unknown_host(note->text)
                   ? "; is the name of the host right?"
                   : "; try again later, or look after the store";
    case SIMBA__EXIT_DENIED:
        return "; check user, password and rights";
    case SIMBA__EXIT_FAULT:
        return "; try again, with -v -v to see more";
    default:
        return "";
    }
}

static void say_failed(const struct simba__front *front,
                       const struct simba__note *note)
{
    const char *mutex = front->job->mutex;

    if (simba__has_said(note->text)) {
        simba__say("%s: not acquired%s", mutex, advice(front, note));
    } else if (front->job->cli.verbosity < 0 &&
               simba__exit_of_status(note->status) ==
                   SIMBA__EXIT_NOT_ACQUIRED) {
        return;
    } else if (note->status == SIMBA_ETIMEDOUT && !is_not_yet(front, note)) {
        simba__say("%s: it was not free within --wait%s", mutex,
                   advice(front, note));
    } else {
        simba__say("%s%s", note->text, advice(front, note));
    }
}

/* A message of the library begins with the mutex. */
static void say_lost(const struct simba__front *front,
                     const struct simba__note *note)
{
    const struct simba__job *job = front->job;
    size_t length = strlen(job->mutex);
    bool is_named = strncmp(note->text, job->mutex, length) == 0 &&
                    strncmp(note->text + length, ": ", 2) == 0;

    if (job->kind == SIMBA__JOB_LOCK) {
        simba__say("%s; %s is stopped", note->text, job->argv[0]);
        return;
    }
    simba__say("%s: no longer leads, token %" PRIu64 ": %s%s%s%s", job->mutex,
               note->token, is_named ? note->text + length + 2 : note->text,
               note->number == 0 ? "" : "; ",
               note->number == 0 ? "" : job->argv[0],
               note->number == 0                  ? "; we contend again"
               : note->number == SIMBA__EXIT_LOST ? " is stopped"
                                                  : " is stopped, and we "
                                                    "contend again");
}

static void say_ended(const struct simba__front *front,
                      const struct simba__note *note)
{
    const struct simba__job *job = front->job;
    /* One that is our own answer is told by that. */
    bool is_failure =
        note->number != 0 &&
        (job->kind == SIMBA__JOB_EVERY || job->restart != SIMBA__RESTART_NEVER);

    if (job->cli.verbosity >= 0 && front->skipped > front->skips_told) {
        simba__say("%s: %d runs skipped in all while that run went on",
                   job->mutex, front->skipped);
    }
    if (job->cli.verbosity < (is_failure ? 0 : 1)) {
        return;
    }
    if (note->seen != 0) {
        simba__say("%s: run %" PRIu64 " of %s was ended by signal %d (%s)",
                   job->mutex, note->run, job->argv[0], note->seen,
                   strsignal(note->seen));
    } else {
        simba__say("%s: run %" PRIu64 " of %s ended with exit code %d",
                   job->mutex, note->run, job->argv[0], note->number);
    }
}

/* People are told of the first one while CMD runs, for it may hang, and of all
 * together when it has ended. */
static void say_skipped(struct simba__front *front,
                        const struct simba__note *note)
{
    if (front->run == 0 || front->skipped == 0) {
        if (front->job->cli.verbosity >= 0) {
            simba__say("%s: %d run%s skipped: %s", front->job->mutex,
                       note->number, note->number == 1 ? "" : "s", note->text);
        }
        front->skips_told = note->number;
    }
    front->skipped += note->number;
}

/* Whoever sits before it would else take the silence for a fault. */
static void say_time_left(const struct simba__front *front,
                          const struct simba__note *note,
                          const char *what)
{
    int verbosity = front->job->cli.verbosity;
    int64_t length_ms = note->until_ms - note->boot_ms;
    char length[SIMBA__FORMAT_ROOM];

    if ((note->number != 0 && verbosity >= 0) ||
        (length_ms >= WORTH_TELLING &&
         (verbosity > 0 ||
          (verbosity == 0 && simba__is_live(STDERR_FILENO))))) {
        simba__format_duration(length_ms, length);
        simba__say("%s: %s %s%s", front->job->mutex, what, length,
                   note->number == 0 ? ""
                                     : "; a second signal ends simba, and then "
                                       "it is free when the lease ends");
    }
}

void simba__events_tell(struct simba__front *front,
                        const struct simba__note *note)
{
    static const char *const names[] = {[SIMBA__NOTE_ACQUIRED] = "acquired",
                                        [SIMBA__NOTE_WAITING] = "waiting",
                                        [SIMBA__NOTE_LOST] = "lost",
                                        [SIMBA__NOTE_RELEASED] = "released",
                                        [SIMBA__NOTE_STARTED] = "started",
                                        [SIMBA__NOTE_ENDED] = "ended",
                                        [SIMBA__NOTE_SKIPPED] = "skipped",
                                        [SIMBA__NOTE_FAILED] = "failed",
                                        [SIMBA__NOTE_LOG] = "log"};
    const struct simba__job *job = front->job;
    const char *name = names[note->kind];
    bool is_lock = job->kind == SIMBA__JOB_LOCK;
    bool is_progress = note->kind == SIMBA__NOTE_ACQUIRED ||
                       note->kind == SIMBA__NOTE_RELEASED ||
                       note->kind == SIMBA__NOTE_STARTED;
    char owner[sizeof note->text];

    assert(note->kind <= SIMBA__NOTE_LOG); /* none that we send */
    /* A mutex that was given back before CMD started is nobody's concern. */
    if ((is_progress && !front->was_acquired) ||
        (note->kind == SIMBA__NOTE_LOG && job->cli.verbosity < 0)) {
        return;
    }
    if (job->cli.is_json) {
        if (name != NULL) {
            tell_json(front, name, note);
        }
        return;
    }
    if (is_progress && (note->kind == SIMBA__NOTE_STARTED || is_lock) &&
        job->cli.verbosity > 0) {
        simba__say("%s '%s', token %" PRIu64, name, job->mutex, note->token);
    }
    switch (note->kind) {
    case SIMBA__NOTE_ACQUIRED:
        if (!is_lock && job->cli.verbosity >= 0) {
            simba__say("%s: leads, token %" PRIu64, job->mutex, note->token);
        }
        say_time_left(front, note, "the first run is due in");
        break;
    case SIMBA__NOTE_RELEASED:
        if (!is_lock && job->cli.verbosity >= 0) {
            simba__say("%s: no longer leads, token %" PRIu64 ": %s", job->mutex,
                       note->token, note->text);
        }
        break;
    case SIMBA__NOTE_WAITING:
        memcpy(owner, note->text, sizeof owner);
        simba__calm(owner);
        simba__say("waiting for '%s'%s%s", job->mutex,
                   *owner == '\0' ? "" : ", owned by ", owner);
        break;
    case SIMBA__NOTE_KEPT:
        say_time_left(front, note, "--min-hold keeps it for another");
        break;
    case SIMBA__NOTE_LOST:
        say_lost(front, note);
        break;
    case SIMBA__NOTE_STARTED:
        front->run = note->run;
        front->skipped = front->skips_told = 0;
        break;
    case SIMBA__NOTE_ENDED:
        say_ended(front, note);
        front->run = 0;
        break;
    case SIMBA__NOTE_SKIPPED:
        say_skipped(front, note);
        break;
    case SIMBA__NOTE_FAILED:
        say_failed(front, note);
        break;
    case SIMBA__NOTE_LOG:
        /* A store and who uses it may both complain of the same, over and over;
         * what is compared stands behind who says it. */
        if (!simba__has_said(note->text + note->seen)) {
            simba__say("%s", note->text);
        }
        break;
    default:
        break;
    }
}
