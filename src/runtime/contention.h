/* One contender on the loop: the pure machine, its timer, its subscription to
 * wake-ups, and the requests it has with the backend. Services and lockers are
 * made of it and say, through hooks, what users see. */
#ifndef SIMBA_RUNTIME_CONTENTION_H
#define SIMBA_RUNTIME_CONTENTION_H

#include "core/contend.h"
#include "runtime/loop.h"
#include "runtime/request.h"

#include <stdatomic.h>

struct simba__contention;

/* All called inside the loop. */
struct simba__contention_hooks {
    /* The machine has something to tell (never 0). After TELL_RELEASED the
     * hook must see to it that simba__contention_returned() is called. */
    void (*told)(struct simba__contention *self,
                 const struct simba__contend_update *update);
    /* A request came to its end; the machine knows already. May be NULL. */
    void (*answered)(struct simba__contention *self,
                     const simba_request *request,
                     int status,
                     const simba_error *error);
    /* An acquire is to be sent, so it may own the mutex soon: false when there
     * is no memory for what must be told then. May be NULL. */
    bool (*prepare)(struct simba__contention *self);
    /* What others may read was brought up to date. May be NULL. */
    void (*published)(struct simba__contention *self);
    size_t id_at; /* where its id is: so many bytes behind its first */
    /* Each answer is wanted, for the owner it tells: no look spares it one. */
    bool hears_owners;
};

/* Who tells about the owner, to those who look; nothing hangs on it. */
struct simba__teller {
    struct simba__caller caller;
    struct simba__contention *contention;
    /* What is told was not kept; called for the first failure of several. */
    void (*untold)(struct simba__contention *contention,
                   int status,
                   const simba_error *error);
    uint64_t token;  /* of the tenure that was told of last; 0: forgotten */
    bool is_failing; /* and that was said */
    char text[];
};

/* There may be 100,000 of them: every byte counts. */
struct simba__contention {
    simba_loop *loop;
    const struct simba__contention_hooks *hooks;
    struct simba__contend core;
    simba_timer timer; /* held while an acquire waits for room */
    struct simba__subscriber subscriber;
    struct simba__caller caller;  /* of requests */
    struct simba__teller *teller; /* NULL: nothing is told */
    struct simba__contender_metrics metrics;

    /* Read from any thread (S3). */
    _Atomic int64_t owner_until_ms;
    _Atomic uint64_t token;
    _Atomic bool is_heard;

    uint8_t look; /* enum simba__look_state; the loop's */

    /* What is said on any thread. */
    _Atomic bool is_returned;    /* on_released is back */
    _Atomic bool is_held_back;   /* a renewal waits for a sign of progress */
    _Atomic bool is_message_due; /* it was sent, and has not run */
    _Atomic int64_t progress_ms;
    struct simba__message message;
};

/* --- looks.c: one look for many who wait --------------------------------- */

enum simba__look_state {
    SIMBA__NO_LOOK,
    SIMBA__LOOK_LATER, /* its timer is in the wheel */
    SIMBA__LOOKING     /* it is among those who are looked for just now */
};

/** Need it not ask for itself when its backstop is due? */
bool simba__look_suits(const struct simba__contention *c);

/** Look for it then. Its timer must not be set. */
void simba__look_later(struct simba__contention *c, int64_t at_ms);

/** Do not. */
void simba__look_forget(struct simba__contention *c);

/* --- */

/** Of which mutex, in a copy that lives as long as it; and who it is. */
static inline const char *simba__contention_mutex(
    const struct simba__contention *c)
{
    return c->subscriber.of->link.key;
}

static inline const char *simba__contention_id(
    const struct simba__contention *c)
{
    return (const char *)c + c->hooks->id_at;
}

/** Prepare it, and let it hear wake-ups. Inside the loop.
 *
 * @param mutex  copied */
int simba__contention_open(struct simba__contention *c,
                           const struct simba__contend_config *config,
                           const char *mutex,
                           simba_error *error);

/** Forget it; the machine must be idle. Inside the loop. */
void simba__contention_close(struct simba__contention *c);

/** Start or stop. Inside the loop. */
void simba__contention_start(struct simba__contention *c, bool join);
void simba__contention_stop(struct simba__contention *c);

/** End the tenure so that another can have it, by preference the contender with
 * this id, if not NULL; then contend anew. False: there is none. Inside the
 * loop. */
bool simba__contention_hand_over(struct simba__contention *c, const char *to);

/** on_released is back. Any thread, once for each TELL_RELEASED. */
void simba__contention_returned(struct simba__contention *c);

/** From now on renew only so long after the last sign of progress, of which
 * this is one, as its config says; or without any. Inside the loop. */
void simba__contention_ask_progress(struct simba__contention *c, bool is_asked);

/** The owner, as it was just answered; NULL but while hooks hear of that, and
 * then if they have heard of a newer answer already. Inside the loop. */
const simba_owner *simba__contention_heard(const struct simba__contention *c);

/** In hooks->told: has somebody ended by force what this tells the end of? */
bool simba__contention_was_broken(const struct simba__contention *c,
                                  const struct simba__contend_update *update);

/** How long its positions in queues live, by its last acquire. */
int64_t simba__contention_waiter_ms(const struct simba__contention *c);

/** Does it only wait, so that nothing can be told before the next acquire is
 * sent, and is all back that was told before? */
bool simba__contention_rests(const struct simba__contention *c);

/** A sign of progress. Any thread. */
void simba__contention_progress(struct simba__contention *c);

/** Wait-free answers for any thread. */
bool simba__contention_is_owner(const struct simba__contention *c);
uint64_t simba__contention_token(const struct simba__contention *c);

#endif
