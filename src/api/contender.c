#define _GNU_SOURCE
#include "api/contender.h"

#include "core/name.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* --- what users give ----------------------------------------------------- */

/* None of any version comes near it: what is larger was never set up. */
#define GIVEN_MOST 4096

/* A newer caller's struct is longer, or gives a meaning to what is reserved
 * here. What it does not ask for is 0. */
static bool asks_for_more(const struct simba__given *given, size_t known)
{
    const unsigned char *bytes = given->from;
    size_t begin = given->reserved != 0 ? given->reserved : given->size;

    for (size_t i = begin; i < known; i++) {
        if (bytes[i] != 0) {
            return true;
        }
    }
    return false;
}

int simba__given_take(const simba_store *store,
                      const struct simba__given *given,
                      simba_error *error)
{
    const uint32_t *known = given->from; /* the first member of them all */
    int rc = store == NULL ? SIMBA_OK : simba__store_check(store, error);

    assert(given->size >= sizeof *known);
    if (rc != SIMBA_OK) {
        return rc;
    }
    if (known == NULL || *known == 0 || *known > GIVEN_MOST) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "what is given must be set up by %s",
                               given->init);
    }
    if (asks_for_more(given, *known)) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "what was set up by %s asks for what only a "
                               "newer libsimba has",
                               given->init);
    }
    memcpy(given->to, given->from, *known < given->size ? *known : given->size);
    return SIMBA_OK;
}

int simba__config_mutex(const char *mutex, simba_error *error)
{
    enum simba__name_problem problem;

    if (mutex == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "a mutex needs a name");
    }
    problem = simba__name_check_mutex(mutex, strlen(mutex));
    if (problem != SIMBA__NAME_FINE) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "the mutex name %s",
                               simba__name_problem_texts[problem]);
    }
    return SIMBA_OK;
}

int simba__config_id(const char *given, char *id, simba_error *error)
{
    enum simba__name_problem problem;

    if (given == NULL) {
        simba_id_host(id);
        return SIMBA_OK;
    }
    problem = simba__name_check_id(given, strlen(given));
    if (problem != SIMBA__NAME_FINE) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "the contender id %s",
                               simba__name_problem_texts[problem]);
    }
    memcpy(id, given, strlen(given) + 1);
    return SIMBA_OK;
}

int simba__config_slots(const simba_store *store,
                        uint32_t slots,
                        simba_error *error)
{
    if (slots > 1 && !(store->backend->ops->capabilities & SIMBA_CAN_SLOTS)) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "slots are not offered by this store: a mutex "
                               "has one owner at a time");
    }
    return SIMBA_OK;
}

/* Else the arithmetic of leases would overflow. */
static bool is_in_range(const struct simba__lease *lease)
{
    return lease->ttl_ms > 0 && lease->ttl_ms <= SIMBA__LEASE_MOST_MS &&
           lease->transition_ms <= SIMBA__LEASE_MOST_MS;
}

int64_t simba_times_budget_most_ms(int64_t ttl_ms, int64_t transition_ms)
{
    const struct simba__lease lease = {ttl_ms, transition_ms, 0};

    return transition_ms >= 0 && is_in_range(&lease)
               ? simba__lease_budget_most_ms(&lease)
               : 0;
}

/* What is wrong with the times, and which of them it is. */
struct complaint {
    const char *what;
    size_t offset; /* in struct simba__contend_config */
};

#define OFFSET(member) offsetof(struct simba__contend_config, member)

static const struct complaint of_lease[] = {
    [SIMBA__LEASE_TTL_SHORT] = {"ttl is shorter than 100 ms",
                                OFFSET(lease.ttl_ms)},
    [SIMBA__LEASE_TTL_LONG] = {"ttl is longer than ten years",
                               OFFSET(lease.ttl_ms)},
    [SIMBA__LEASE_TRANSITION_LONG] = {"transition is longer than ten years",
                                      OFFSET(lease.transition_ms)},
    [SIMBA__LEASE_BUDGET_SHORT] = {"budget_ms is below 1 ms",
                                   OFFSET(lease.budget_ms)},
};

static const struct complaint of_config[] = {
    [SIMBA__CONTEND_INITIAL_DELAY] = {"initial_delay_ms is negative or too "
                                      "long",
                                      OFFSET(initial_delay_ms)},
    [SIMBA__CONTEND_MAX_HOLD] = {"max_hold_ms is negative or too long",
                                 OFFSET(max_hold_ms)},
    [SIMBA__CONTEND_MIN_HOLD] = {"min_hold_ms is negative or too long",
                                 OFFSET(min_hold_ms)},
    [SIMBA__CONTEND_HOLD_ORDER] = {"min_hold_ms is longer than max_hold_ms",
                                   OFFSET(min_hold_ms)},
    [SIMBA__CONTEND_PROGRESS] = {"progress_ms is negative or too long",
                                 OFFSET(progress_ms)},
};

static int complain(const struct complaint *complaint,
                    const struct simba__contend_config *config,
                    simba_error *error)
{
    const void *ms = (const char *)config + complaint->offset;

    return simba_error_set(error, SIMBA_EINVAL, 0, "%s: %" PRId64 " ms",
                           complaint->what, *(const int64_t *)ms);
}

/* A budget that was not given fits into what the store makes certain of a
 * lease, also if it turns out later that it does. One that was given is judged
 * by the store, when it knows its server (simba_request.budget_ms). */
static int64_t default_budget_ms(const simba_store *store,
                                 const struct simba__lease *lease)
{
    const simba_backend_ops *ops = store->backend->ops;
    struct simba__lease certain = simba__lease_shorten(
        lease, ops->certain_ms == NULL ? 0 : ops->certain_ms(store->backend));

    return simba__lease_budget_default_ms(&certain);
}

/* Checks names and times together and fills in the defaults. */
static int make_config(const simba_store *store,
                       const simba_contender *given,
                       struct simba__contend_config *config,
                       simba_error *error)
{
    const simba_times *times = &given->times;
    const int64_t *reserved = times->reserved;
    int64_t least_ms = store->backend->ops->least_lease_ms;
    struct simba__lease *lease = &config->lease;
    enum simba__contend_problem problem;
    enum simba__lease_problem lease_problem;
    int rc = simba__config_mutex(given->mutex, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (reserved[0] != 0 || reserved[1] != 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "times.reserved is not 0: that asks for what "
                               "only a newer libsimba has");
    }
    *config = (struct simba__contend_config){.initial_delay_ms =
                                                 given->initial_delay_ms,
                                             .max_hold_ms = times->max_hold_ms,
                                             .min_hold_ms = times->min_hold_ms,
                                             .progress_ms = times->progress_ms,
                                             .join = true,
                                             .slots = given->slots};
    rc = simba__config_slots(store, given->slots, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    simba_store_lease(store, &lease->ttl_ms, &lease->transition_ms);
    lease->ttl_ms = times->ttl_ms == 0 ? lease->ttl_ms : times->ttl_ms;
    lease->transition_ms =
        times->transition_ms < 0 ? lease->transition_ms : times->transition_ms;
    lease->budget_ms = times->budget_ms == 0 && is_in_range(lease)
                           ? default_budget_ms(store, lease)
                           : times->budget_ms;
    lease_problem = simba__lease_check(lease);
    if (lease_problem == SIMBA__LEASE_BUDGET_LONG) {
        return simba_error_set(
            error, SIMBA_EINVAL, 0,
            "budget_ms is %" PRId64 ", but a lease of %" PRId64 " ms leaves "
            "at most %" PRId64 " ms; give less, or a longer transition_ms",
            lease->budget_ms, simba__lease_length_ms(lease),
            simba__lease_budget_most_ms(lease));
    }
    if (lease_problem != SIMBA__LEASE_FINE) {
        return complain(&of_lease[lease_problem], config, error);
    }
    if (simba__lease_length_ms(lease) < least_ms) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "ttl + transition is %" PRId64 " ms: this store "
                               "needs %" PRId64 " ms or more",
                               simba__lease_length_ms(lease), least_ms);
    }
    problem = simba__contend_config_check(config);
    return problem == SIMBA__CONTEND_FINE
               ? SIMBA_OK
               : complain(&of_config[problem], config, error);
}

/* --- ids ----------------------------------------------------------------- */

static void random_hex(char *to, size_t bytes)
{
    unsigned char random[16];

    assert(bytes <= sizeof random);
    if (getrandom(random, bytes, 0) != (ssize_t)bytes) {
        abort(); /* ids that repeat would be worse than none */
    }
    for (size_t i = 0; i < bytes; i++) {
        snprintf(to + 2 * i, 3, "%02x", random[i]);
    }
}

/* Two containers may share pid and host name, so randomness follows. The id
 * must be valid by S14 whatever the host is called. */
void simba_id_host(char *id)
{
    static _Atomic unsigned long counter;
    char host[65] = ""; /* host names end at 64 bytes on Linux */
    char random[13];

    if (gethostname(host, sizeof host) != 0 || host[0] == '\0') {
        memcpy(host, "localhost", sizeof "localhost");
    }
    host[sizeof host - 1] = '\0';
    for (char *c = host; *c != '\0'; c++) {
        if (*c == '@' || *c < ' ' || *c > '~') {
            *c = '-';
        }
    }
    random_hex(random, 6);
    snprintf(id, SIMBA_ID_MAX + 1, "%lu:%ld@%s-%s",
             atomic_fetch_add(&counter, 1), (long)getpid(), host, random);
}

void simba_id_uuid(char *id)
{
    random_hex(id, 16);
}

/* --- a contender --------------------------------------------------------- */

static const struct simba__contender_kind *kind_of(
    const struct simba__contender *c)
{
    return (const struct simba__contender_kind *)c->contention.hooks;
}

int simba__contender_make(const struct simba__contender_kind *kind,
                          const char *id,
                          struct simba__contender **made,
                          simba_error *error)
{
    char text[SIMBA_ID_MAX + 1];
    int rc = simba__config_id(id, text, error);
    struct simba__contender *c;

    assert(kind->hooks.id_at >= sizeof *c);
    if (rc != SIMBA_OK) {
        return rc;
    }
    c = calloc(1, kind->hooks.id_at + strlen(text) + 1);
    if (c == NULL) {
        return simba__fail_memory(error);
    }
    c->contention.hooks = &kind->hooks;
    memcpy((char *)c + kind->hooks.id_at, text, strlen(text) + 1);
    *made = c;
    return SIMBA_OK;
}

/* That people cannot be told who we are must not go unseen either. */
static void untold(struct simba__contention *contention,
                   int status,
                   const simba_error *error)
{
    simba__contender_log((struct simba__contender *)contention,
                         (struct simba__log_entry){.level = SIMBA_LOG_WARN},
                         "the store does not keep what we tell about "
                         "ourselves: %s",
                         error != NULL && error->message[0] != '\0'
                             ? error->message
                             : simba_strerror(status));
}

int simba__contender_open(struct simba__contender *c,
                          simba_store *store,
                          const simba_contender *given,
                          simba_error *error)
{
    struct simba__contention *contention = &c->contention;
    struct simba__contend_config config;
    int rc = make_config(store, given, &config, error);

    assert(contention->hooks != NULL && c->store == NULL);
    c->store = store;
    contention->loop = store->loop;
    if (rc == SIMBA_OK) {
        rc = simba__config_tell(store, given, &contention->teller, error);
    }
    if (rc == SIMBA_OK && contention->teller != NULL) {
        contention->teller->untold = untold;
    }
    if (rc == SIMBA_OK) {
        simba_loop_enter(store->loop);
        rc = simba__contention_open(contention, &config, given->mutex, error);
        simba_loop_leave(store->loop);
    }
    if (rc == SIMBA_OK) {
        atomic_fetch_add(&store->handles, 1);
    } else {
        free(contention->teller);
    }
    return rc;
}

void simba__contender_close(struct simba__contender *c, int stopped)
{
    assert(atomic_load(&c->store->handles) > 0);
    if (stopped == SIMBA_EUNKNOWN) {
        simba__contender_warn(c, "closed, but the store did not answer");
    }
    simba_loop_enter(c->store->loop);
    simba__contention_close(&c->contention);
    simba__contender_forget_trouble(c);
    simba_loop_leave(c->store->loop);
    atomic_fetch_sub(&c->store->handles, 1);
}

bool simba__contender_may_close(struct simba__contender *c, bool is_own)
{
    if (simba__is_forked(c->store->mark)) {
        free(c->contention.teller);
        free(c->trouble);
        return false;
    }
    if (is_own) {
        fprintf(stderr, "simba: a %s was closed by its own %s\n",
                kind_of(c)->what, kind_of(c)->own);
        abort();
    }
    return true;
}

void simba__contender_log(const struct simba__contender *c,
                          struct simba__log_entry entry,
                          const char *format,
                          ...)
{
    va_list args;

    entry.component = kind_of(c)->what;
    entry.mutex = simba__contention_mutex(&c->contention);
    entry.id = simba__contention_id(&c->contention);
    va_start(args, format);
    simba__store_vlog(c->store, &entry, format, args);
    va_end(args);
}

void simba__contender_warn(const struct simba__contender *c, const char *what)
{
    simba__contender_log(c, (struct simba__log_entry){.level = SIMBA_LOG_WARN},
                         "%s", what);
}

void simba__contender_warn_clock(const struct simba__contender *c,
                                 const struct simba__contend_update *update)
{
    int64_t step_ms = update->clock_step_ms;

    if (update->tell & SIMBA__TELL_CLOCK_JUMP) {
        simba__contender_log(
            c, (struct simba__log_entry){.level = SIMBA_LOG_WARN},
            "the store's clock made a step: it went %s by %.1f s, so leases "
            "may end too %s",
            step_ms < 0 ? "back" : "forward",
            (double)(step_ms < 0 ? -step_ms : step_ms) / 1000,
            step_ms < 0 ? "late" : "early");
    }
}

void simba__contender_forget_trouble(struct simba__contender *c)
{
    free(c->trouble);
    c->trouble = NULL;
}

void simba__contender_log_answer(struct simba__contender *c,
                                 bool is_wanted,
                                 int status,
                                 const simba_error *error)
{
    struct simba__log_entry entry = {.level = SIMBA_LOG_WARN, .status = status};
    int64_t seconds = -1;

    /* A server that is away is silent at one time and refuses at another. */
    if (status == SIMBA_EUNKNOWN) {
        status = SIMBA_EUNAVAIL;
    }
    if (c->trouble != NULL && (!is_wanted || status != c->trouble->status)) {
        simba__contender_forget_trouble(c);
    }
    if (status == SIMBA_OK) {
        return;
    }
    if (is_wanted && c->trouble == NULL) {
        c->trouble = calloc(1, sizeof *c->trouble);
    }
    if (is_wanted && c->trouble != NULL) {
        c->trouble->status = status;
        seconds = simba__outage_news(&c->trouble->outage, simba_loop_now_ms());
    } else if (is_wanted) {
        seconds = 0; /* rather too often than never */
    }
    if (seconds > 0) {
        simba__contender_log(c, entry, "%s for %" PRId64 " s: %s",
                             status == SIMBA_EBUSY      ? "waiting"
                             : status == SIMBA_EUNAVAIL ? "unreachable"
                                                        : "in vain",
                             seconds, simba__error_text(entry.status, error));
        return;
    }
    entry.level = seconds == 0 ? SIMBA_LOG_WARN : SIMBA_LOG_DEBUG;
    simba__contender_log(c, entry, "%s",
                         simba__error_text(entry.status, error));
}

/* --- why a tenure ended -------------------------------------------------- */

static const struct {
    const char *name, *text;
} causes[] = {
    [SIMBA_CAUSE_NONE] = {"none", "it did not end"},
    [SIMBA_CAUSE_STOPPED] = {"stopped", "it was given back"},
    [SIMBA_CAUSE_EXPIRED] = {"expired", "no renewal was answered in time"},
    [SIMBA_CAUSE_TAKEN] = {"taken", "the store ended it: by force, or its "
                                    "lease ran out there"},
    [SIMBA_CAUSE_BROKEN] = {"broken", "it was ended by force"},
    [SIMBA_CAUSE_MAX_HOLD] = {"max_hold", "it was held for max_hold_ms"},
    [SIMBA_CAUSE_STALLED] = {"stalled", "no progress was made"},
    [SIMBA_CAUSE_ASKED] = {"asked", "it was asked to hand over"},
};

const char *simba_cause_name(enum simba_cause cause)
{
    return (size_t)cause < sizeof causes / sizeof causes[0] ? causes[cause].name
                                                            : "unknown";
}

const char *simba__cause_text(enum simba_cause cause)
{
    assert((size_t)cause < sizeof causes / sizeof causes[0]);
    return causes[cause].text;
}

enum simba_cause simba__contender_cause(
    const struct simba__contender *c,
    const struct simba__contend_update *update)
{
    static const enum simba_cause of_core[] = {
        [SIMBA__CAUSE_STOP] = SIMBA_CAUSE_STOPPED,
        [SIMBA__CAUSE_EXPIRED] = SIMBA_CAUSE_EXPIRED,
        [SIMBA__CAUSE_GONE] = SIMBA_CAUSE_TAKEN,
        [SIMBA__CAUSE_MAX_HOLD] = SIMBA_CAUSE_MAX_HOLD,
        [SIMBA__CAUSE_STALLED] = SIMBA_CAUSE_STALLED,
        [SIMBA__CAUSE_ASKED] = SIMBA_CAUSE_ASKED};

    assert(update->tell & SIMBA__TELL_RELEASED);
    return simba__contention_was_broken(&c->contention, update)
               ? SIMBA_CAUSE_BROKEN
               : of_core[update->cause];
}

/* --- from start to stop -------------------------------------------------- */

enum contender_wish { WISH_REST, WISH_STARTED, WISH_STOPPED };

int simba__lifecycle_start(struct simba__lifecycle *lifecycle,
                           simba_error *error)
{
    struct simba__contender *c = &lifecycle->base;
    int rc = simba__store_check(c->store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    simba_loop_enter(c->store->loop);
    if (atomic_load(&lifecycle->wish) != WISH_REST) {
        rc = simba_error_set(
            error, SIMBA_EMISUSE, 0, "%s: the %s is started already",
            simba__contention_mutex(&c->contention), kind_of(c)->what);
    } else {
        atomic_store(&lifecycle->wish, WISH_STARTED);
        lifecycle->is_contending = true;
        lifecycle->is_unreleased = false;
        simba__contention_start(&c->contention, true);
    }
    simba_loop_leave(c->store->loop);
    return rc;
}

bool simba__lifecycle_ask_stop(struct simba__lifecycle *lifecycle)
{
    int wish = atomic_load(&lifecycle->wish);

    if (wish == WISH_STARTED) {
        atomic_store(&lifecycle->wish, WISH_STOPPED);
        simba__contention_stop(&lifecycle->base.contention);
    }
    return wish != WISH_REST;
}

int simba__lifecycle_stop(struct simba__lifecycle *lifecycle,
                          struct simba__serial_queue *callbacks,
                          bool is_own,
                          simba_error *error)
{
    struct simba__contender *c = &lifecycle->base;
    uint32_t rests;
    bool is_unreleased;
    int rc = simba__store_check(c->store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (is_own) {
        return simba_error_set(
            error, SIMBA_EMISUSE, 0, "%s: stop was called from its own %s",
            simba__contention_mutex(&c->contention), kind_of(c)->own);
    }
    simba__callback_pool_block(&c->store->pool);
    simba_loop_enter(c->store->loop);
    rests = lifecycle->rests;
    (void)simba__lifecycle_ask_stop(lifecycle);
    while (atomic_load(&lifecycle->wish) != WISH_REST &&
           lifecycle->rests == rests) {
        if (callbacks == NULL ||
            !simba__serial_queue_run(&c->store->pool, callbacks)) {
            simba__loop_wait(c->store->loop, &c->store->pool.changed, NULL);
        }
    }
    is_unreleased = lifecycle->is_unreleased;
    simba_loop_leave(c->store->loop);
    simba__callback_pool_unblock(&c->store->pool);
    if (is_unreleased) {
        return simba_error_set(error, SIMBA_EUNKNOWN, 0,
                               "%s: the store did not answer the release; "
                               "the lease lapses by itself",
                               simba__contention_mutex(&c->contention));
    }
    return SIMBA_OK;
}

void simba__lifecycle_end(struct simba__lifecycle *lifecycle,
                          const struct simba__contend_update *update)
{
    assert(lifecycle->is_contending);
    assert(update->tell & SIMBA__TELL_STOPPED);
    lifecycle->is_contending = false;
    lifecycle->is_unreleased = (update->tell & SIMBA__TELL_UNRELEASED) != 0;
}

void simba__lifecycle_rest(struct simba__lifecycle *lifecycle)
{
    assert(!lifecycle->is_contending);
    atomic_store(&lifecycle->wish, WISH_REST);
    lifecycle->rests++;
    pthread_cond_broadcast(&lifecycle->base.store->pool.changed);
}

enum simba_service_status simba__lifecycle_status(
    const struct simba__lifecycle *lifecycle)
{
    switch (atomic_load(&lifecycle->wish)) {
    case WISH_REST:
        return SIMBA_INITIAL;
    case WISH_STOPPED:
        return SIMBA_STOPPING;
    default:
        return atomic_load(&lifecycle->base.contention.is_heard)
                   ? SIMBA_RUNNING
                   : SIMBA_STARTING;
    }
}

int simba__contender_may_hand_over(const struct simba__contender *contender,
                                   const char *to,
                                   simba_error *error)
{
    const simba_store *store = contender->store;
    char id[SIMBA_ID_MAX + 1];
    int rc = simba__store_check(store, error);

    if (rc == SIMBA_OK &&
        !(store->backend->ops->capabilities & SIMBA_CAN_HAND_OVER)) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "hand-over is not offered by this store");
    }
    if (rc == SIMBA_OK && to != NULL) {
        rc = simba__config_id(to, id, error);
    }
    return rc;
}

int simba__contender_hand_over(struct simba__contender *contender,
                               const char *to,
                               simba_error *error)
{
    struct simba__contention *c = &contender->contention;

    return simba__contention_hand_over(c, to)
               ? SIMBA_OK
               : simba_error_set(
                     error, SIMBA_ELOST, 0,
                     "%s: not owned, so there is nothing to hand over",
                     simba__contention_mutex(c));
}
