/* What services, lockers and schedulers have in common: a contention on the
 * loop of their store, made from what the user gave, with lines in its log. */
#ifndef SIMBA_API_CONTENDER_H
#define SIMBA_API_CONTENDER_H

#include <simba/contender.h>
#include <simba/service.h>

#include "api/store.h"
#include "kit/backoff.h"
#include "runtime/contention.h"

/* --- what users give ----------------------------------------------------- */

/* A struct of the user's that begins with its size, by which those of an older
 * header are known, and where it is taken over to. */
struct simba__given {
    const void *from; /* may be NULL */
    const char *init; /* the name of the macro that sets it up */
    void *to;         /* has its defaults: they stay where `from` ends */
    size_t size;      /* of `to` */
    size_t reserved;  /* where in it what is reserved begins; 0: nothing is */
};

/**
 * What every function that opens something begins with: refuse a store of the
 * parent process, and take over what was given.
 *
 * @param store  NULL: there is none yet
 * @return SIMBA_OK; SIMBA_EFORKED; SIMBA_EINVAL when it was not set up, or
 *         when it asks for what is not here yet
 */
int simba__given_take(const simba_store *store,
                      const struct simba__given *given,
                      simba_error *error);

/** Check the name of a mutex (S14). */
int simba__config_mutex(const char *mutex, simba_error *error);

/** Does this store let so many own a mutex? */
int simba__config_slots(const simba_store *store,
                        uint32_t slots,
                        simba_error *error);

/** Find out what is to be told, if anything, and make who tells it, for
 * free(). */
int simba__config_tell(const simba_store *store,
                       const simba_contender *given,
                       struct simba__teller **teller,
                       simba_error *error);

/** Copy the id given, or make one. */
int simba__config_id(const char *given, char *id, simba_error *error);

/* --- a contender --------------------------------------------------------- */

struct simba__contender_kind {
    /* First: contenders point to it. Their ids follow their handles, which
     * begin with their contenders. */
    struct simba__contention_hooks hooks;
    const char *what; /* "service": the log's component, and for messages */
    const char *own;  /* what of the user's it runs: "callback", "work" */
};

struct simba__contender {
    struct simba__contention contention; /* first: hooks get this */
    simba_store *store;
    struct simba__trouble *trouble; /* of its requests; inside the loop only */
};

/* They fail, again and again. NULL: they do not, or there is no memory. */
struct simba__trouble {
    struct simba__outage outage;
    int status;
};

/** Make a handle, zeroed, which is followed by its id. To be freed by its user.
 *
 * @param id  copied; NULL: one is made */
int simba__contender_make(const struct simba__contender_kind *kind,
                          const char *id,
                          struct simba__contender **made,
                          simba_error *error);

/** Check what the user gave, and put the contention on the loop. On failure
 * nothing is left to be closed. */
int simba__contender_open(struct simba__contender *c,
                          simba_store *store,
                          const simba_contender *given,
                          simba_error *error);

/** Take it off the loop; the machine must rest.
 *
 * @param stopped  what the stop before it answered; doubt is logged */
void simba__contender_close(struct simba__contender *c, int stopped);

/**
 * What every close begins with. False in a forked child: all but the memory is
 * the parent's, so the caller frees that and touches nothing else.
 *
 * @param is_own  it is called from its own callback, which aborts
 */
bool simba__contender_may_close(struct simba__contender *c, bool is_own);

/** Write a line to the store's log; who it is about is filled in here. */
void simba__contender_log(const struct simba__contender *c,
                          struct simba__log_entry entry,
                          const char *format,
                          ...) __attribute__((format(printf, 3, 4)));

/** The same for a warning of a few words. */
void simba__contender_warn(const struct simba__contender *c, const char *what);

/** The same if the update tells of a step of the store's clock. */
void simba__contender_warn_clock(const struct simba__contender *c,
                                 const struct simba__contend_update *update);

/** The same for a request that came to its end: a failure that goes on is
 * logged at once and each minute, what lies between for debugging only.
 *
 * @param is_wanted  somebody waits for it: else it is for debugging at all */
void simba__contender_log_answer(struct simba__contender *c,
                                 bool is_wanted,
                                 int status,
                                 const simba_error *error);

/** A failure from now on is the first one. */
void simba__contender_forget_trouble(struct simba__contender *c);

/** With TELL_RELEASED: why the tenure ended, for users. */
enum simba_cause simba__contender_cause(
    const struct simba__contender *c,
    const struct simba__contend_update *update);

/** The same in words. */
const char *simba__cause_text(enum simba_cause cause);

/* --- from start to stop, as often as the user likes ---------------------- */

/* The same for services and schedulers, which begin with it. */
struct simba__lifecycle {
    struct simba__contender base; /* first: hooks get this */
    _Atomic uint8_t wish; /* what the user wants; changed inside the loop */

    /* Inside the loop only. */
    bool is_contending; /* from START until STOPPED */
    bool is_unreleased; /* the store did not answer the last release */
    uint32_t rests;     /* counted: it may be started again before a stopper
                           looks */
};

/** Contend. SIMBA_EMISUSE when that was asked for already. Outside the loop. */
int simba__lifecycle_start(struct simba__lifecycle *lifecycle,
                           simba_error *error);

/** Ask for the stop, once. False: it rested before. Inside the loop. */
bool simba__lifecycle_ask_stop(struct simba__lifecycle *lifecycle);

/** Ask for the stop, once, and wait until it rests; whoever does may have to
 * run its callbacks, if it has any. SIMBA_EUNKNOWN when the store did not
 * answer the release, SIMBA_EMISUSE when it `is_own` callback that asks.
 * Outside the loop. */
int simba__lifecycle_stop(struct simba__lifecycle *lifecycle,
                          struct simba__serial_queue *callbacks,
                          bool is_own,
                          simba_error *error);

/** The machine has told that it is stopped. Inside the loop. */
void simba__lifecycle_end(struct simba__lifecycle *lifecycle,
                          const struct simba__contend_update *update);

/** Nothing of it is under way any more. Inside the loop. */
void simba__lifecycle_rest(struct simba__lifecycle *lifecycle);

enum simba_service_status simba__lifecycle_status(
    const struct simba__lifecycle *lifecycle);

/** Is this a successor, and has the store hand-over? Before the next one. */
int simba__contender_may_hand_over(const struct simba__contender *contender,
                                   const char *to,
                                   simba_error *error);

/** Give up what it owns to a successor; NULL: to whoever is first. Inside the
 * loop. */
int simba__contender_hand_over(struct simba__contender *contender,
                               const char *to,
                               simba_error *error);

#endif
