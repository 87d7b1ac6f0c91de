/* What the user is told about one run: lines for people, or JSON. The guardian
 * only reports; the front speaks, as it may wait for a slow reader. */
#define _GNU_SOURCE
#include "exit.h"
#include "front.h"
#include "say.h"

#include <simba/error.h>

#include <inttypes.h>

/* It may be noticed late, after a stop; but from U on nobody relied on it. */
static int64_t relied_until(const struct simba__front *front,
                            const struct simba__note *note)
{
    int64_t use_ms = atomic_load(&front->share->use_until_ms);

    return use_ms != 0 && use_ms < note->boot_ms ? use_ms : note->boot_ms;
}

static void tell_json(const struct simba__front *front,
                      const char *name,
                      const struct simba__note *note)
{
    struct simba__event event = {.name = name,
                                 .mutex = front->job->mutex,
                                 .boot_ms = note->boot_ms,
                                 .exit_code = -1};

    if (front->was_acquired) {
        event.id = front->share->id;
        event.token = front->share->token;
    }
    if (note->kind == SIMBA__NOTE_FAILED) {
        event.exit_code = note->number;
    }
    if (note->kind == SIMBA__NOTE_LOST) {
        event.until_ms = relied_until(front, note);
    }
    if (note->status != SIMBA_OK) {
        event.status = simba_status_name(note->status);
    }
    event.message = note->text[0] == '\0' ? NULL : note->text;
    simba__say_json(&event);
}

/* What to do about it, after what it was. */
static const char *advice(const struct simba__front *front,
                          const struct simba__note *note)
{
    switch (simba__exit_of_status(note->status)) {
    case SIMBA__EXIT_NOT_ACQUIRED:
        return front->job->wait_ms == 0 ? "; -w DUR would wait for it"
                                        : "; a longer --wait may help";
    case SIMBA__EXIT_UNAVAILABLE:
        return "; try again later, or look after the store";
    case SIMBA__EXIT_DENIED:
        return "; check who may use this store";
    case SIMBA__EXIT_FAULT:
        return "; try again, with -v -v to see more";
    default:
        return "";
    }
}

static void tell_failed(const struct simba__front *front,
                        const struct simba__note *note)
{
    bool is_conflict =
        simba__exit_of_status(note->status) == SIMBA__EXIT_NOT_ACQUIRED;

    if (front->job->cli.is_json) {
        tell_json(front, "failed", note);
    } else if (!is_conflict || front->job->cli.verbosity >= 0) {
        simba__say("%s%s", note->text, advice(front, note));
    }
}

static void tell_lost(const struct simba__front *front,
                      const struct simba__note *note)
{
    if (front->job->cli.is_json) {
        tell_json(front, "lost", note);
    } else {
        simba__say("%s; %s is stopped", note->text, front->job->argv[0]);
    }
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
                   front->share->token);
    }
}

static void tell_message(const struct simba__front *front,
                         const struct simba__note *note)
{
    if (front->job->cli.verbosity < 0) {
        return;
    }
    if (front->job->cli.is_json) {
        tell_json(front, "log", note);
    } else {
        simba__say("%s", note->text);
    }
}

void simba__tell(const struct simba__front *front,
                 const struct simba__note *note)
{
    switch (note->kind) {
    case SIMBA__NOTE_ACQUIRED:
        tell_progress(front, "acquired", note);
        break;
    case SIMBA__NOTE_RELEASED:
        tell_progress(front, "released", note);
        break;
    case SIMBA__NOTE_LOST:
        tell_lost(front, note);
        break;
    case SIMBA__NOTE_FAILED:
        tell_failed(front, note);
        break;
    default:
        tell_message(front, note);
        break;
    }
}
