/* The front's inside, shared by its loop (front.c), its watch over the
 * guardian (guardian_watch.c), its dealings with the terminal (terminal.c),
 * what it tells the user (events.c) and systemd (systemd.c). */
#ifndef SIMBA_CLI_FRONT_H
#define SIMBA_CLI_FRONT_H

#include "cli/job.h"
#include "cli/reaper.h"

#include <termios.h>

struct simba__front {
    struct simba__job *job;
    struct simba__share *share;
    struct simba__reaper reaper;
    pid_t guardian;
    pid_t anchor; /* 0: none */
    int anchored; /* of the CMD with this process id */
    int link;
    int signals;
    int timer;
    int life; /* the store's life descriptor, or -1 */

    bool is_guardian_gone;
    bool was_acquired;
    int cancelled; /* this signal came while waiting for the mutex */
    int64_t cancel_until_ms;
    int64_t armed_ms;
    int resumes; /* how often we were continued */
    struct termios modes;
    bool has_modes;
    int64_t feed_every_ms; /* systemd's watchdog; 0: it has none */
    int64_t fed_ms;
    bool is_stopping; /* systemd was told */
    uint64_t run;     /* of CMD that goes on; 0: none */
    int skipped;      /* runs that were due meanwhile */
    int skips_told;   /* how many of them people know of */
};

/* terminal.c */

/** Find the controlling terminal, and whether CMD is to have it. */
void simba__terminal_find(struct simba__front *front);

/** Give CMD's process group an anchor, so that it can be stopped. */
void simba__terminal_anchor(struct simba__front *front);

/** CMD was stopped by this signal: stop too, and continue both after that. */
void simba__terminal_on_stopped(struct simba__front *front, int number);

/** Stop this process, or with 0 its group, until somebody continues it. */
void simba__terminal_sleep(struct simba__front *front, pid_t whom, int number);

/** We were continued: so is CMD, with the terminal when it is ours to give. */
void simba__terminal_on_continued(struct simba__front *front);

/** CMD has ended, and we will answer with this code: take the terminal back,
 * and remove the anchor. */
void simba__terminal_leave(struct simba__front *front, int code);

/* guardian_watch.c */

/** When to look at the guardian though nothing happens. */
int64_t simba__watch_next(const struct simba__front *front);

/**
 * Is the guardian doing its duty? When it is not, do it in its place.
 *
 * @return -1, or the exit code when the front had to take over
 */
int simba__watch_guardian(struct simba__front *front);

/* events.c */

/** Tell the user what the guardian reports, in the form that was chosen. */
void simba__events_tell(struct simba__front *front,
                        const struct simba__note *note);

/* systemd.c; nothing happens for a lock, or without systemd */

/** The service begins: say so, and find the watchdog. */
void simba__systemd_begin(struct simba__front *front);

/** The guardian tells something: so do we. */
void simba__systemd_note(const struct simba__front *front,
                         const struct simba__note *note);

/** The service is on its way out. */
void simba__systemd_end(struct simba__front *front);

/** When the watchdog wants to be fed. */
int64_t simba__systemd_next(const struct simba__front *front);

/** Feed it if it is time, and all is well. */
void simba__systemd_feed(struct simba__front *front);

/* front.c */

/** Send a signal note to the guardian. */
void simba__front_send_signal(const struct simba__front *front, int number);

#endif
