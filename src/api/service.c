/* Services: a contention whose callbacks run on notifier threads. */
#define _GNU_SOURCE
#include <simba/service.h>

#include "api/course.h"
#include "api/enlist.h"
#include "api/given.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many changes wait for an on_changed that takes its time. */
enum { CHANGES_MOST = 1000 };

/* One callback on its way to a notifier thread. */
struct note {
    struct simba__task task;
    simba_service *service;
    simba_contender_fn call;
    simba_state state;
};

struct simba_service {
    struct simba__contention base; /* first: hooks get this */
    simba_store *store;
    struct simba__strand strand;
    simba_contender_fn on_acquired, on_released, on_changed;
    void *user;
    struct simba__course course;

    /* Changed inside the loop only. */
    simba_owner seen;    /* what the user was told last */
    _Atomic int changes; /* on their way to on_changed */

    /* They must be told whatever happens (S9), so there is memory for them.
     * One each will do: the next tenure does not begin before on_released is
     * back, and on_acquired comes before that. */
    struct note acquired, released;
};

static void call_back(const struct note *note)
{
    if (note->call != NULL) {
        note->call(note->service->user, &note->state);
    }
}

static void run_acquired(struct simba__task *task)
{
    call_back((struct note *)task);
}

static void run_released(struct simba__task *task)
{
    struct note *note = (struct note *)task;

    call_back(note);
    simba__contention_returned(&note->service->base);
}

static void run_changed(struct simba__task *task)
{
    struct note *note = (struct note *)task;

    call_back(note);
    atomic_fetch_sub(&note->service->changes, 1);
    free(note);
}

/* Moves what the user knows to `after` and queues the callback. */
static void push_note(simba_service *s,
                      struct note *note,
                      simba_contender_fn call,
                      const simba_owner *after)
{
    note->service = s;
    note->call = call;
    note->state.before = s->seen;
    note->state.after = *after;
    s->seen = *after;
    simba__strand_push(&s->store->pool, &s->strand, &note->task);
}

static void push_change(simba_service *s, const simba_owner *after)
{
    struct note *note = NULL;

    if (atomic_load(&s->changes) < CHANGES_MOST) {
        note = calloc(1, sizeof *note);
    }
    if (note == NULL) {
        return; /* the next change is told from what the user knows */
    }
    atomic_fetch_add(&s->changes, 1);
    note->task.run = run_changed;
    push_note(s, note, s->on_changed, after);
}

static const char *cause_text(enum simba__cause cause)
{
    static const char *const texts[] = {
        "stopped", "no renewal was answered in time", "the store says so",
        "max_hold_ms was reached", "no progress was made"};

    return texts[cause];
}

static void log_tenure(const simba_service *s,
                       const struct simba__update *update)
{
    struct simba__log_entry entry =
        simba__about(&s->base, SIMBA_LOG_INFO, "service");

    entry.token = update->token;
    if (update->tell & SIMBA__TELL_RELEASED) {
        entry.cause = simba__cause_name(update->cause);
        simba__store_tell(s->store, &entry, "released, token %" PRIu64 ": %s",
                          update->token, cause_text(update->cause));
    } else {
        simba__store_tell(s->store, &entry, "acquired, token %" PRIu64,
                          update->token);
    }
}

static void log_trouble(const simba_service *s, const char *what)
{
    struct simba__log_entry entry =
        simba__about(&s->base, SIMBA_LOG_WARN, "service");

    simba__store_tell(s->store, &entry, "%s", what);
}

static void told(struct simba__contention *c,
                 const struct simba__update *update)
{
    simba_service *s = (simba_service *)c;
    simba_owner none = simba_owner_none();

    if (update->tell & (SIMBA__TELL_RELEASED | SIMBA__TELL_ACQUIRED)) {
        log_tenure(s, update);
    }
    if (update->tell & SIMBA__TELL_RELEASED) {
        push_note(s, &s->released, s->on_released, &none);
    }
    if (update->tell & SIMBA__TELL_ACQUIRED) {
        push_note(s, &s->acquired, s->on_acquired, &c->owner);
    }
    if (update->tell & SIMBA__TELL_OVERRUN) {
        log_trouble(s, "on_released took longer than its budget");
    }
    if (update->tell & SIMBA__TELL_CLOCK_JUMP) {
        log_trouble(s, "the store's clock made a step");
    }
    if (update->tell & SIMBA__TELL_STOPPED) {
        simba__course_end(&s->course, update);
        simba__course_rest(&s->course);
    }
}

static void answered(struct simba__contention *c,
                     const simba_request *request,
                     int status,
                     const simba_error *error)
{
    simba_service *s = (simba_service *)c;
    simba_state state = {.before = s->seen, .after = c->owner};

    if (status != SIMBA_OK) {
        struct simba__log_entry entry =
            simba__about(c, SIMBA_LOG_WARN, "service");

        entry.status = status;
        simba__store_tell(s->store, &entry, "%s",
                          error != NULL && error->message[0] != '\0'
                              ? error->message
                              : simba_strerror(status));
        return;
    }
    /* A change between others; our own are told as acquired and released. */
    if (request->kind == SIMBA_ACQUIRE && !request->reply.mine &&
        s->on_changed != NULL && simba_state_is_changed(&state)) {
        push_change(s, &c->owner);
    }
}

static const struct simba__contention_hooks hooks = {.told = told,
                                                     .answered = answered};

/* --- life ---------------------------------------------------------------- */

static void free_service(simba_service *s)
{
    simba__course_fini(&s->course);
    free(s);
}

static simba_service *make_service(simba_store *store,
                                   const simba_contender *contender)
{
    simba_service *s = calloc(1, sizeof *s);

    if (s == NULL) {
        return NULL;
    }
    s->store = store;
    s->base.hooks = &hooks;
    s->on_acquired = contender->on_acquired;
    s->on_released = contender->on_released;
    s->on_changed = contender->on_changed;
    s->user = contender->user;
    s->acquired.task.run = run_acquired;
    s->released.task.run = run_released;
    simba__strand_init(&s->strand);
    simba__course_init(&s->course, &s->base);
    return s;
}

int simba_service_open(simba_store *store,
                       const simba_contender *given,
                       simba_service **out,
                       simba_error *error)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_service *s;
    int rc = simba__store_check(store, error);

    *out = NULL;
    if (rc == SIMBA_OK) {
        rc = simba__given_take(
            &(struct simba__given){given, "SIMBA_CONTENDER_INIT"}, &contender,
            sizeof contender, error);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    s = make_service(store, &contender);
    if (s == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    rc = simba__enlist(store, &s->base, &contender, error);
    if (rc != SIMBA_OK) {
        free_service(s);
        return rc;
    }
    *out = s;
    return SIMBA_OK;
}

int simba_service_start(simba_service *s, simba_error *error)
{
    int rc = simba__store_check(s->store, error);

    return rc == SIMBA_OK
               ? simba__course_start(&s->course, "the service", error)
               : rc;
}

int simba_service_stop(simba_service *s, simba_error *error)
{
    int rc = simba__store_check(s->store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (simba__strand_is_mine(&s->strand)) {
        return simba_error_set(error, SIMBA_EMISUSE, 0,
                               "%s: stop was called from its own callback",
                               s->base.mutex);
    }
    simba__pool_block(&s->store->pool);
    rc = simba__course_stop(&s->course, error);
    simba__strand_wait(&s->store->pool, &s->strand);
    simba__pool_unblock(&s->store->pool);
    return rc;
}

void simba_service_close(simba_service *s)
{
    if (s == NULL) {
        return;
    }
    if (simba__is_forked(s->store->mark)) {
        free(s->base.mutex);
        free(s);
        return;
    }
    if (simba__strand_is_mine(&s->strand)) {
        fputs("simba: a service was closed by its own callback\n", stderr);
        abort();
    }
    if (simba_service_stop(s, NULL) == SIMBA_EUNKNOWN) {
        log_trouble(s, "closed, but the store did not answer");
    }
    simba__delist(s->store, &s->base);
    free_service(s);
}

/* --- questions ----------------------------------------------------------- */

bool simba_service_is_owner(const simba_service *s)
{
    return simba__contention_is_owner(&s->base);
}

uint64_t simba_service_token(const simba_service *s)
{
    return simba__contention_token(&s->base);
}

enum simba_service_status simba_service_status(const simba_service *s)
{
    return simba__course_status(&s->course);
}

void simba_service_progress(simba_service *s)
{
    simba__contention_progress(&s->base);
}
