/* The observation machine: it looks at one mutex and tells when its owner has
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
    int64_t now_ms;           /* boot clock */
    uint64_t seq;             /* READ, FAILED: of the request */
    const simba_owner *owner; /* READ, PUSHED: who owns it, or none */
    uint64_t ended;  /* READ, PUSHED: token of the tenure before; 0: none, or
                      * the store never knows; SIMBA__ENDED_UNKNOWN: not this
                      * time */
    uint64_t serial; /* READ: number of the owner, or if there is none, of the
                      * next that will be; 0: not numbered */
    uint64_t next_serial; /* READ: number of who is next */
};

struct simba__observe_update {
    bool read; /* send a read, numbered `seq` */
    uint64_t seq;
    int64_t timeout_ms;
    bool changed; /* tell: from `before` to `after` */
    bool has_gap; /* owners in between may have been missed; with it `before`
                   * and `after` may be the same: nobody */
    simba_owner before, after;
};

struct simba__observe {
    int64_t poll_ms;  /* at least this often */
    bool knows_ended; /* the store tells which tenure was before; 0: none */
    bool is_running;
    bool is_reading;
    bool is_woken; /* while reading: read once more */
    bool is_heard; /* the store has answered since start */
    bool is_cut;   /* a read failed since the last that did not */
    bool is_ahead; /* a push was taken in while reading */
    unsigned failures;
    uint64_t seq;
    int64_t now_ms, next_ms, timeout_at_ms;
    uint64_t known;       /* token of the newest tenure we know of; 0: none */
    uint64_t next_serial; /* as of the last read; 0: not numbered */
    simba_owner seen;
};

void simba__observe_init(struct simba__observe *o,
                         int64_t poll_ms,
                         bool knows_ended);
void simba__observe_step(struct simba__observe *o,
                         const struct simba__observe_event *event,
                         struct simba__observe_update *update);
int64_t simba__observe_wake_at(const struct simba__observe *o);

#endif
