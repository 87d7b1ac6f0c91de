/* Finding and ending everything below a process, however it was started and
 * whatever it ignores. */
#ifndef SIMBA_CLI_REAPER_H
#define SIMBA_CLI_REAPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SIMBA__REAPER_SPARED = 8 };

/* What a guardian calls itself, so that another one above it can tell. */
#define SIMBA__REAPER_GUARDIAN "simba-guardian"

/** Whose descendants, and which of them are none of our business. */
struct simba__reaper {
    pid_t root;
    /* Not these and not what is below them; 0 ends the list. */
    pid_t spared[SIMBA__REAPER_SPARED + 1];
    bool is_hurried; /* those who are found at once will do, with any signal */
    /* Until when KILL spares guardians of locks within ours, though not what is
     * below them: one that is killed lets go of its mutex, and others get it
     * while we still kill. So for longer while anybody else lives. */
    int64_t spare_ms, spare_most_ms;
};

/** Is there a /proc, and is it that of our PID namespace? */
bool simba__reaper_has_proc(void);

/**
 * Send a signal to every living descendant of the root.
 *
 * One pass can miss a process that is being orphaned or born meanwhile: who
 * wants all of them gone calls again until none is left. KILL is in a hurry and
 * will be sent again, so it may reach only some; it is not said that none is
 * left before the whole machine was searched.
 *
 * @param skipped  a process group that has got the signal already; 0: none
 * @return how many of them were seen, spared ones apart; -1 when there is no
 *         /proc of ours
 */
int simba__reaper_signal(const struct simba__reaper *reaper,
                         int signal,
                         pid_t skipped);

/**
 * Spare guardians.
 *
 * @param since_ms  when KILL was sent first
 * @param until_ms  when nothing may be left
 */
void simba__reaper_spare(struct simba__reaper *reaper,
                         int64_t since_ms,
                         int64_t until_ms);

/** The parent of a process; 0 when it can't be told. */
pid_t simba__reaper_parent(pid_t pid);

/** Has a member of this group, one of our session, a parent in another group of
 * the session? */
bool simba__reaper_is_anchored(pid_t group);

/** Spare the children the root has now. */
void simba__reaper_spare_children(struct simba__reaper *reaper);

#endif
