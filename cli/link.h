/* The line between front and guardian: short messages, in order, each whole.
 * Nothing here blocks; when one end dies the other one sees the end of file. */
#ifndef SIMBA_CLI_LINK_H
#define SIMBA_CLI_LINK_H

#include <stdbool.h>
#include <stdint.h>

enum simba__note_kind {
    /* guardian to front */
    SIMBA__NOTE_BORN,     /* CMD's process exists: number = its id */
    SIMBA__NOTE_ACQUIRED, /* carries the store's life descriptor, if any */
    SIMBA__NOTE_WAITING,  /* for a second: text = id of the owner, if known */
    SIMBA__NOTE_STOPPED,  /* CMD stopped: number = signal, seen = resumes */
    SIMBA__NOTE_LOST,     /* text = why; number = whether CMD ran, or
                             SIMBA__EXIT_LOST when this is our end */
    SIMBA__NOTE_RELEASED,
    SIMBA__NOTE_STARTED, /* a run of CMD began; lead and every only */
    SIMBA__NOTE_ENDED,   /* nothing of it is left: number = exit code, seen =
                            the signal it died of; 0: none */
    SIMBA__NOTE_SKIPPED, /* number = how many beats, text = why */
    SIMBA__NOTE_FAILED,  /* number = exit code, status and text = why */
    SIMBA__NOTE_KEPT,    /* CMD has ended, but --min-hold lasts until_ms */
    SIMBA__NOTE_LOG,     /* number = level, text = who: message, seen = where
                            the message begins */
    /* front to guardian */
    SIMBA__NOTE_SIGNAL,  /* number = signal; SIGCONT: seen = resumes */
    SIMBA__NOTE_ANCHORED /* CMD's process group has its anchor: number as in
                            BORN */
};

struct simba__note {
    int kind;
    int number;
    int status;
    int seen;
    int64_t boot_ms;
    int64_t until_ms; /* LOST: when it ceased to be relied on; ACQUIRED: when
                         the first run of every is due, else 0 */
    uint64_t token;   /* of the tenure; 0: none */
    uint64_t run;     /* STARTED, ENDED: counted from 1 */
    int64_t beat_ms;  /* STARTED, SKIPPED: when it was due, or the first of
                         those skipped; 0: it has no beat */
    char text[320];
};

/** Both ends of a new line, close-on-exec; false with errno. */
bool simba__link_open(int ends[2]);

/** Send, with a descriptor unless it is -1. A full line drops the note: the
 * other end is stopped, and all that must not be lost is in the shared page. */
void simba__link_send(int end, const struct simba__note *note, int descriptor);

/**
 * Receive one note.
 *
 * @param[out] descriptor  what came with it, else -1; NULL: none is expected
 * @return 1; 0 when there is none now; -1 when the other end is gone
 */
int simba__link_receive(int end, struct simba__note *note, int *descriptor);

#endif
