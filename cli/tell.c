/* What the user is told about one run: lines for people, or JSON. The guardian
 * only reports; the front speaks, as it may wait for a slow reader. */
#define _GNU_SOURCE
#include "exit.h"
#include "front.h"
#include "say.h"
#include "table.h"
#include "words.h"

#include <simba/error.h>

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* How long something takes that people are told of, in ms. */
enum { WORTH_TELLING = 2000 };

/* It may be noticed late, after a stop; but from U on nobody relied on it. */
static int64_t relied_until(const struct simba__note *note)
{
    return note->until_ms != 0 && note->until_ms < note->boot_ms
               ? note->until_ms
               : note->boot_ms;
}

static bool is_lock(const struct simba__front *front)
{
    return front->job->kind == SIMBA__JOB_LOCK;
}

static void tell_json(const struct simba__front *front,
                      const char *name,
                      const struct simba__note *note)
{
    struct simba__event event = {.name = name,
                                 .mutex = front->job->mutex,
                                 .token = note->token,
                                 .boot_ms = note->boot_ms,
                                 .run = note->run,
                                 .beat_ms = note->beat_ms,
                                 .exit_code = -1};

    if (front->was_acquired) {
        event.id = front->share->id;
    }
    if (note->kind == SIMBA__NOTE_FAILED || note->kind == SIMBA__NOTE_ENDED) {
        event.exit_code = note->number;
    }
    if (note->kind == SIMBA__NOTE_LOST) {
        event.until_ms = relied_until(note);
    }
    if (note->kind == SIMBA__NOTE_SKIPPED) {
        event.skipped = note->number;
    }
    if (note->status != SIMBA_OK) {
        event.status = simba_status_name(note->status);
    }
    if (note->text[0] != '\0') {
        *(note->kind == SIMBA__NOTE_WAITING ? &event.owner : &event.message) =
            note->text;
    }
    simba__say_json(&event);
}

/* What to do about it, after what it was. */
static const char *advice(const struct simba__front *front,
                          const struct simba__note *note)
{
    switch (simba__exit_of_status(note->status)) {
    case SIMBA__EXIT_NOT_ACQUIRED:
        return front->job->wait_ms == 0
                   ? "; -w DUR would wait for it, 'simba show' tells who has it"
                   : "; give a longer one, or ask 'simba show' who has it";
    case SIMBA__EXIT_UNAVAILABLE:
        return "; try again later, or look after the store";
    case SIMBA__EXIT_DENIED:
        return "; check user, password and rights";
    case SIMBA__EXIT_FAULT:
        return "; try again, with -v -v to see more";
    default:
        return "";
    }
}

static void tell_failed(const struct simba__front *front,
                        const struct simba__note *note)
{
    bool is_silent =
        front->job->cli.verbosity < 0 &&
        simba__exit_of_status(note->status) == SIMBA__EXIT_NOT_ACQUIRED;

    if (front->job->cli.is_json) {
        tell_json(front, "failed", note);
    } else if (simba__has_said(note->text)) {
        simba__say("%s: not acquired%s", front->job->mutex,
                   advice(front, note));
    } else if (note->status == SIMBA_ETIMEDOUT && !is_silent) {
        simba__say("%s: it was not free within --wait%s", front->job->mutex,
                   advice(front, note));
    } else if (!is_silent) {
        simba__say("%s%s", note->text, advice(front, note));
    }
}

static void tell_lost(const struct simba__front *front,
                      const struct simba__note *note)
{
    if (front->job->cli.is_json) {
        tell_json(front, "lost", note);
    } else if (is_lock(front) || note->number == SIMBA__EXIT_LOST) {
        simba__say("%s; %s is stopped", note->text, front->job->argv[0]);
    } else if (note->number != 0) {
        simba__say("%s; %s is stopped, and we contend again", note->text,
                   front->job->argv[0]);
    } else {
        simba__say("%s; we contend again", note->text);
    }
}

static void say_ended(const struct simba__front *front,
                      const struct simba__note *note)
{
    const char *name = front->job->argv[0];

    if (note->seen != 0) {
        simba__say("%s: run %" PRIu64 " of %s was ended by signal %d (%s)",
                   front->job->mutex, note->run, name, note->seen,
                   strsignal(note->seen));
    } else {
        simba__say("%s: run %" PRIu64 " of %s ended with exit code %d",
                   front->job->mutex, note->run, name, note->number);
    }
}

static void tell_ended(const struct simba__front *front,
                       const struct simba__note *note)
{
    /* One that is our own answer is told by that. */
    bool is_failure =
        note->number != 0 && (front->job->kind == SIMBA__JOB_EVERY ||
                              front->job->restart != SIMBA__RESTART_NEVER);

    if (front->job->cli.is_json) {
        tell_json(front, "ended", note);
    } else if (front->job->cli.verbosity >= (is_failure ? 0 : 1)) {
        say_ended(front, note);
    }
}

static void say_skipped(const struct simba__front *front,
                        int count,
                        const char *why)
{
    if (front->job->cli.verbosity >= 0) {
        simba__say("%s: %d run%s skipped: %s", front->job->mutex, count,
                   count == 1 ? "" : "s", why);
    }
}

/* People are told of the first one while CMD runs, for it may hang, and of all
 * together when it has ended. */
static void tell_skipped(struct simba__front *front,
                         const struct simba__note *note)
{
    if (front->job->cli.is_json) {
        tell_json(front, "skipped", note);
    } else if (front->run == 0 || front->skipped == 0) {
        say_skipped(front, note->number, note->text);
        front->skips_told = note->number;
    }
    front->skipped += note->number;
}

static void tell_all_skipped(struct simba__front *front)
{
    if (!front->job->cli.is_json && front->job->cli.verbosity >= 0 &&
        front->skipped > front->skips_told) {
        simba__say("%s: %d runs skipped in all while that run went on",
                   front->job->mutex, front->skipped);
    }
    front->run = 0;
}

static void tell_waiting(const struct simba__front *front,
                         const struct simba__note *note)
{
    const char *mutex = front->job->mutex;
    char owner[sizeof(note->text)];

    if (front->job->cli.is_json) {
        tell_json(front, "waiting", note);
        return;
    }
    memcpy(owner, note->text, sizeof(owner));
    simba__table_calm(owner);
    simba__say("waiting for '%s'%s%s", mutex,
               *owner == '\0' ? "" : ", owned by ", owner);
}

/* A mutex that was given back before CMD started is nobody's concern. */
static void tell_progress(const struct simba__front *front,
                          const char *name,
                          const struct simba__note *note)
{
    if (!front->was_acquired) {
        return;
    }
    if (front->job->cli.is_json) {
        tell_json(front, name, note);
    } else if (front->job->cli.verbosity > 0) {
        simba__say("%s '%s', token %" PRIu64, name, front->job->mutex,
                   note->token);
    }
}

/* Whoever sits before it would else take the silence for a fault. */
static void tell_time_left(const struct simba__front *front,
                           const struct simba__note *note,
                           const char *what)
{
    int verbosity = front->job->cli.verbosity;
    bool is_watched = verbosity > 0 ||
                      (verbosity == 0 && simba__words_is_live(STDERR_FILENO));
    int64_t length_ms = note->until_ms - note->boot_ms;
    char length[SIMBA__WORDS_ROOM];

    if (is_watched && !front->job->cli.is_json && length_ms >= WORTH_TELLING) {
        simba__words_duration(length_ms, length);
        simba__say("%s: %s %s", front->job->mutex, what, length);
    }
}

/* A store and who uses it may both complain of the same, over and over. */
static void tell_message(const struct simba__front *front,
                         const struct simba__note *note)
{
    const char *message = note->text + note->seen; /* behind who says it */

    if (front->job->cli.verbosity < 0) {
        return;
    }
    if (front->job->cli.is_json) {
        tell_json(front, "log", note);
    } else if (!simba__has_said(message)) {
        simba__say("%s", note->text);
    }
}

void simba__tell(struct simba__front *front, const struct simba__note *note)
{
    switch (note->kind) {
    case SIMBA__NOTE_ACQUIRED:
        tell_progress(front, "acquired", note);
        tell_time_left(front, note, "this host leads; the first run is due in");
        break;
    case SIMBA__NOTE_WAITING:
        tell_waiting(front, note);
        break;
    case SIMBA__NOTE_KEPT:
        tell_time_left(front, note, "--min-hold keeps it for another");
        break;
    case SIMBA__NOTE_RELEASED:
        tell_progress(front, "released", note);
        break;
    case SIMBA__NOTE_LOST:
        tell_lost(front, note);
        break;
    case SIMBA__NOTE_STARTED:
        front->run = note->run;
        front->skipped = front->skips_told = 0;
        tell_progress(front, "started", note);
        break;
    case SIMBA__NOTE_ENDED:
        tell_all_skipped(front);
        tell_ended(front, note);
        break;
    case SIMBA__NOTE_SKIPPED:
        tell_skipped(front, note);
        break;
    case SIMBA__NOTE_FAILED:
        tell_failed(front, note);
        break;
    default:
        tell_message(front, note);
        break;
    }
}
