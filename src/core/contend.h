/* The contention machine: one contender's way to, through and out of the
 * ownership of one mutex.
 *
 * Pure: no I/O, no clock, no threads, no allocation, no globals. The caller
 * feeds events stamped with the boot clock and carries out the update: send
 * one request, tell the user, wake again at simba__contend_wake_at().
 *
 *              start                granted                 stop, loss
 *     IDLE ----------> WAITING ----------------> OWNER ----------------.
 *      ^                 |  ^                                          v
 *      |  stop: nothing  |  | not stopping    on_released returned  LEAVING
 *      |<----------------'  |                 or its time is up        |
 *      |                    '------------.                             |
 *      |       stopping                  |                             |
 *      '-------------------------- RELEASING <-------------------------'
 *                 (answered, or the lease is over by itself)
 *
 * The rules S1 to S11 are stated in docs/safety.md. */
#ifndef SIMBA_CORE_CONTEND_H
#define SIMBA_CORE_CONTEND_H

#include "core/lease.h"
#include "core/rng.h"

#include <simba/sys/request.h>

#include <stdbool.h>
#include <stdint.h>

#define SIMBA__NEVER INT64_MAX

struct simba__contend_config {
    struct simba__lease lease;
    int64_t initial_delay_ms; /* from start to the first request */
    int64_t max_hold_ms;      /* 0: no cap; else a tenure ends by then */
    int64_t min_hold_ms;      /* 0: none; else a stop keeps others out */
    int64_t progress_ms;      /* 0: off; else renew only this long after the
                               * user's last sign of progress */
    bool join;                /* take a position in the queue when refused */
    uint32_t slots;           /* how many may own it beside and with us; 0: we
                               * alone */
};

enum simba__contend_problem {
    SIMBA__CONTEND_FINE,
    SIMBA__CONTEND_LEASE,         /* ask simba__lease_check() */
    SIMBA__CONTEND_INITIAL_DELAY, /* negative, or over ten years */
    SIMBA__CONTEND_MAX_HOLD,      /* negative, or over ten years */
    SIMBA__CONTEND_MIN_HOLD,      /* negative, or over ten years */
    SIMBA__CONTEND_HOLD_ORDER,    /* min_hold is longer than max_hold */
    SIMBA__CONTEND_PROGRESS,      /* negative, or over ten years */
};

/** Say what is wrong with a configuration, if anything. */
enum simba__contend_problem simba__contend_config_check(
    const struct simba__contend_config *config);

/** Do both ask for the same? */
bool simba__contend_config_is_same(const struct simba__contend_config *a,
                                   const struct simba__contend_config *b);

enum simba__contend_phase {
    SIMBA__IDLE,      /* not started, or stopped for good */
    SIMBA__WAITING,   /* wants the mutex */
    SIMBA__OWNER,     /* owns it, as long as the clock says so */
    SIMBA__LEAVING,   /* owns it no more; on_released is running */
    SIMBA__RELEASING, /* telling the store */
};

enum simba__outcome {
    SIMBA__ANSWERED,
    SIMBA__FAILED,  /* surely without effect */
    SIMBA__UNKNOWN, /* may have taken effect, now or later */
};

enum simba__contend_event_type {
    SIMBA__START,    /* only in IDLE */
    SIMBA__STOP,     /* any time; a second one changes nothing */
    SIMBA__TIMER,    /* simba__contend_wake_at() has come */
    SIMBA__REPLIED,  /* a request came to its end */
    SIMBA__WAKE_UP,  /* the store thinks we should ask again */
    SIMBA__RETURNED, /* the user's on_released has returned */
    SIMBA__PROGRESS, /* the user says: I am getting on */
    SIMBA__HAND_OVER /* the user says: let another have it, now */
};

struct simba__contend_event {
    enum simba__contend_event_type type;
    int64_t now_ms;         /* boot clock, rounded down */
    struct simba__rng *rng; /* where attempts and jitter come from */
    bool is_full;           /* too many acquires are under way for another */
    int64_t progress_ms;    /* PROGRESS: when the sign was given; 0: now */
    const char *to;         /* HAND_OVER: the successor's id; NULL: anybody */
    /* REPLIED: to the request with this number. */
    uint64_t seq;
    enum simba__outcome outcome;
    const simba_reply *reply; /* when ANSWERED; borrowed for the step */
};

enum simba__cause {
    SIMBA__CAUSE_STOP,     /* the user asked */
    SIMBA__CAUSE_EXPIRED,  /* no renewal was answered in time */
    SIMBA__CAUSE_GONE,     /* the store says: not yours */
    SIMBA__CAUSE_MAX_HOLD, /* the cap was reached */
    SIMBA__CAUSE_STALLED,  /* the user made no progress */
    SIMBA__CAUSE_ASKED,    /* somebody asked us to hand over */
};

/* What to tell the user: update.tell is a set of these. */
enum simba__telling {
    SIMBA__TELL_ACQUIRED = 1,    /* call on_acquired */
    SIMBA__TELL_RELEASED = 2,    /* call on_released, then feed RETURNED */
    SIMBA__TELL_OVERRUN = 4,     /* on_released is not back in time */
    SIMBA__TELL_STOPPED = 8,     /* back in IDLE */
    SIMBA__TELL_CLOCK_JUMP = 16, /* the store's clock made a step */
    SIMBA__TELL_UNRELEASED = 32, /* gave up releasing: the lease must lapse */
    SIMBA__TELL_BACKSTOP = 64    /* with ACQUIRED: no wake-up has led to it */
};

struct simba__contend_update {
    struct simba__rng *rng; /* the event's */
    unsigned tell;
    enum simba__cause cause; /* with TELL_RELEASED */
    uint64_t token;          /* with TELL_ACQUIRED, TELL_RELEASED */
    uint32_t slot;           /* likewise */
    int64_t deadline_ms;     /* with TELL_RELEASED: when it overruns */
    int64_t clock_step_ms;   /* with TELL_CLOCK_JUMP: so far at least; below 0:
                              * back */
    /* What to send, complete but for the names and is_driven; the deadline is
     * when its outcome is taken as unknown. SIMBA_NO_REQUEST: nothing. Last:
     * of its reply nothing is set but the size. */
    simba_request send;
};

/* What is known of a tenure, while there may be one. */
struct simba__contend_tenure {
    uint64_t token;
    int64_t granted_ms;     /* the store said; 0: the lease of the config */
    int64_t lease_from_ms;  /* s: newest request answered yes was sent */
    int64_t owner_until_ms; /* U or the cap; 0 while not owner */
    int64_t held_since_ms;  /* the grant was heard */
    int64_t progress_ms;    /* last sign of progress */
    uint32_t slot;
    char to[SIMBA_ID_MAX + 1]; /* the successor we were asked for, or "" */
};

/* There may be 100,000 of them, and most of them wait: it is kept small. */
struct simba__contend {
    const struct simba__contend_config *config; /* the caller's */
    int64_t now_ms; /* of the newest event: time never runs backwards */

    /* Requests. */
    uint64_t seq;    /* of the newest */
    int64_t sent_ms; /* it was; in OWNER and LEAVING it is a claim */
    int64_t due_ms;  /* under way: when its outcome is taken as unknown; else:
                      * when the phase's next request is due */

    /* The attempt. */
    simba_attempt attempt;
    uint64_t position; /* the first one the store gave us */

    /* The caller's, zeroed, from when it sends an acquire until it is WAITING
     * again with nothing under way; then it may be NULL. */
    struct simba__contend_tenure *tenure;

    /* The way out. */
    int64_t until_ms; /* LEAVING: on_released should be back by then;
                       * RELEASING: the store needs no telling any more */

    /* Where the store's clock stands against ours: an interval, because the
     * answer was given somewhere between sending and hearing. */
    int64_t clock_seen_ms;
    int64_t clock_low_ms;
    int64_t clock_high_ms;

    uint8_t phase;      /* enum simba__contend_phase */
    uint8_t inflight;   /* enum simba_request_kind: the one under way, if any;
                         * other replies are stale */
    uint8_t parting;    /* likewise: RELEASE or LEAVE */
    uint8_t failures;   /* in a row, for the backoff */
    uint8_t hurries;    /* wake-ups since it was calm */
    uint8_t vain_wakes; /* in a row that told us nothing */

    bool join : 1;              /* as in the config, until the caller says
                                 * otherwise before START */
    bool is_progress_asked : 1; /* the config's, until the caller changes it */
    bool stopping : 1;
    bool is_heard : 1;    /* the store has answered since start */
    bool has_claimed : 1; /* this attempt has sent an acquire */
    bool is_doubtful : 1; /* an acquire of it may still take effect */
    bool is_queued : 1;
    bool is_woken : 1;    /* a wake-up came while asking: ask once more */
    bool is_backstop : 1; /* refused, and nothing has happened since */
    bool is_urgent : 1;   /* woken: the next acquire is not held back */
    bool is_held : 1;     /* an acquire is due and it was full: feed TIMER
                           * when there is room */
    bool is_kept : 1;     /* LEAVING: min_hold keeps others out */
    bool is_gone : 1;     /* the store freed it already */
    bool is_calling : 1;  /* on_released has not returned */
    bool is_overrun : 1;
    bool is_clock_known : 1;
    bool was_jump : 1; /* the last answer showed one: two clocks, or a flapping
                        */
};

/** Prepare a contender in IDLE. The config must pass its check, and stay where
 * it is for as long as the contender is used; several may share it. */
void simba__contend_init(struct simba__contend *c,
                         const struct simba__contend_config *config);

/** Take in one event and say what to do about it. */
void simba__contend_step(struct simba__contend *c,
                         const struct simba__contend_event *event,
                         struct simba__contend_update *update);

/** Until when it is the owner; 0: it is not. And the token of the present or
 * last tenure, or 0. */
static inline int64_t simba__contend_owner_until(const struct simba__contend *c)
{
    return c->tenure == NULL ? 0 : c->tenure->owner_until_ms;
}

static inline uint64_t simba__contend_token(const struct simba__contend *c)
{
    return c->tenure == NULL ? 0 : c->tenure->token;
}

/** Ownership is a function of time, never a stored flag (S3). */
bool simba__contend_is_owner(const struct simba__contend *c, int64_t now_ms);

/** When the next SIMBA__TIMER is due, or SIMBA__NEVER. */
int64_t simba__contend_wake_at(const struct simba__contend *c);

#endif
