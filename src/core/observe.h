/* The observation machine: it looks at one mutex and tells when its owners have
 * changed. It never contends.
 *
 * A change that was missed cannot be told, but that it was missed is: a store
 * that says which tenure came before the present one lets us see it for sure;
 * of others it is guessed, rather too often than too seldom.
 *
 * Pure, like the contention machine: events carry the time, the update says
 * whether to read and whether to tell. */
#ifndef SIMBA_CORE_OBSERVE_H
#define SIMBA_CORE_OBSERVE_H

#include <simba/owner.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIMBA__ENDED_UNKNOWN UINT64_MAX

enum simba__observe_event_type {
    SIMBA__OBSERVE_START,
    SIMBA__OBSERVE_STOP,
    SIMBA__OBSERVE_TIMER, /* simba__observe_wake_at() has come */
    SIMBA__OBSERVE_READ,  /* a read was answered */
    SIMBA__OBSERVE_FAILED,
    SIMBA__OBSERVE_WAKE,
    SIMBA__OBSERVE_PUSHED, /* the store says what a read would have answered
                            * right after a change */
};

struct simba__observe_event {
    enum simba__observe_event_type type;
    int64_t now_ms; /* boot clock */
    uint64_t seq;   /* READ, FAILED: of the request */
    /* READ, PUSHED: who owns it, in the order of tokens. They stay where they
     * are while the machine has them: until it takes others, or starts. */
    const simba_owner *owners;
    size_t owner_count;
    uint32_t owned;  /* READ: how many there are; more than were told: look
                      * again, and ask for all; 0: not told */
    uint64_t ended;  /* READ, PUSHED: token of the tenure before; 0: none, or
                      * the store never knows; SIMBA__ENDED_UNKNOWN: not this
                      * time */
    uint64_t serial; /* READ: number of the owner, or if there is none, of the
                      * next that will be; 0: not numbered */
    uint64_t next_serial; /* READ: number of who is next */
};

struct simba__observe_update {
    bool read;      /* send a read, numbered `seq` */
    bool wants_all; /* of all owners */
    uint64_t seq;
    int64_t timeout_ms;
    bool changed; /* tell; the machine has the event's owners now */
    bool has_gap; /* owners in between may have been missed; with it those
                   * before and after may be the same */
};

struct simba__observe {
    int64_t poll_ms;  /* at least this often */
    bool knows_ended; /* the store tells which tenure was before; 0: none */
    bool is_running;
    bool is_reading;
    bool is_woken;  /* while reading: read once more */
    bool is_heard;  /* the store has answered since start */
    bool is_cut;    /* a read failed since the last that did not */
    bool is_ahead;  /* a push was taken in while reading */
    bool wants_all; /* there are several owners: ask for all */
    unsigned failures;
    uint64_t seq;
    int64_t now_ms, next_ms, timeout_at_ms;
    uint64_t known;       /* token of the newest tenure we know of; 0: none */
    uint64_t next_serial; /* as of the last read; 0: not numbered */
    const simba_owner *seen; /* the caller's */
    size_t seen_count;
};

void simba__observe_init(struct simba__observe *o,
                         int64_t poll_ms,
                         bool knows_ended);
void simba__observe_step(struct simba__observe *o,
                         const struct simba__observe_event *event,
                         struct simba__observe_update *update);
int64_t simba__observe_wake_at(const struct simba__observe *o);

/* Owners in the order of their tokens. */
struct simba__owners {
    simba_owner *all;
    size_t count, room;
};

/**
 * Make the next step from the owners that were told to those that are there, a
 * tenure at a time: those that ended, with who succeeded them in their slots;
 * then the others that began.
 *
 * @param told         changed by the step; must have room for all
 * @param[out] before  who ended, or none
 * @param[out] after   who began, or none
 * @return false when they are the same: nothing has changed
 */
bool simba__owners_step(struct simba__owners *told,
                        const struct simba__owners *now,
                        simba_owner *before,
                        simba_owner *after);

#endif
