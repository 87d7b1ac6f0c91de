/* Mutexes that are watched; see sight.h. Each has a retrieval of the library,
 * whose callbacks tell its changes in order, each once. */
#define _GNU_SOURCE
#include "sight.h"
#include "clock.h"
#include "object.h"
#include "table.h"
#include "words.h"

#include <simba/retrieval.h>

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct watched {
    const char *mutex; /* first: what the tree compares; points to `name` */
    struct simba__sight *sight;
    simba_retrieval *retrieval;
    char name[];
};

/* --- telling ------------------------------------------------------------- */

static const char *event_of(const simba_state *state)
{
    return state->after.id[0] == '\0' ? "free" : "owned";
}

static void print_owner(FILE *out, const char *what, const simba_owner *owner)
{
    fprintf(out, "%s", what);
    simba__table_text(out, owner->id);
    if (owner->token != 0) {
        fprintf(out, " (token %" PRIu64 ")", owner->token);
    }
}

/* A gap has no state. */
static void print_line(FILE *out, const char *mutex, const simba_state *state)
{
    char when[SIMBA__WORDS_ROOM];

    simba__words_time(simba__words_unix_ms(), true, when);
    fprintf(out, "%s  ", when);
    simba__table_text(out, mutex);
    if (state == NULL) {
        fprintf(out, "  gap: there may have been owners that were missed");
        return;
    }
    fprintf(out, "  %s", event_of(state));
    if (state->after.id[0] != '\0') {
        print_owner(out, " by ", &state->after);
    }
    if (state->before.id[0] != '\0') {
        print_owner(out, ", was ", &state->before);
    }
}

static void put_owner(struct simba__object *object,
                      const char *const keys[2],
                      const simba_owner *owner)
{
    bool is_free = owner->id[0] == '\0';

    simba__object_text(object, keys[0], is_free ? NULL : owner->id);
    simba__object_token(object, keys[1], is_free ? 0 : owner->token);
}

static void print_object(FILE *out, const char *mutex, const simba_state *state)
{
    static const char *const after[] = {"id", "token"};
    static const char *const before[] = {"before_id", "before_token"};
    struct simba__object object;

    simba__object_begin(&object, out);
    object.is_nested = true; /* the newline is the live view's */
    simba__object_text(&object, "event",
                       state == NULL ? "gap" : event_of(state));
    simba__object_text(&object, "mutex", mutex);
    if (state != NULL) {
        put_owner(&object, after, &state->after);
        put_owner(&object, before, &state->before);
    }
    simba__object_times(&object, simba__clock_ms());
    simba__object_end(&object);
}

static bool tell(struct simba__sight *sight,
                 const char *mutex,
                 const simba_state *state)
{
    char *line = NULL;
    size_t length = 0;
    bool is_told = false;
    FILE *out = open_memstream(&line, &length);

    if (out == NULL) {
        return false;
    }
    if (sight->is_json) {
        print_object(out, mutex, state);
    } else {
        print_line(out, mutex, state);
    }
    if (fclose(out) == 0) {
        is_told = simba__live_line(sight->live, line);
    }
    free(line);
    return is_told;
}

/* All lines go through here, so that there are never more than wanted. */
static void tell_one(struct watched *watched, const simba_state *state)
{
    struct simba__sight *sight = watched->sight;

    (void)pthread_mutex_lock(&sight->lock);
    if (!sight->is_over) {
        sight->is_over =
            !tell(sight, watched->mutex, state) || ++sight->told == sight->most;
        if (sight->is_over) {
            (void)pthread_cond_signal(&sight->ended);
        }
    }
    (void)pthread_mutex_unlock(&sight->lock);
}

static void on_changed(void *user, const simba_state *state)
{
    if (state->has_gap) {
        tell_one(user, NULL);
    }
    if (simba_state_is_changed(state)) {
        tell_one(user, state);
    }
}

/* --- watching ------------------------------------------------------------ */

void simba__sight_init(struct simba__sight *sight)
{
    pthread_condattr_t attributes;

    (void)pthread_mutex_init(&sight->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&sight->ended, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

static int by_name(const void *a, const void *b)
{
    const struct watched *one = a, *other = b;

    return strcmp(one->mutex, other->mutex);
}

static void free_watched(void *node)
{
    struct watched *watched = node;

    simba_retrieval_close(watched->retrieval);
    free(watched);
}

static int start(struct watched *watched, simba_error *error)
{
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    int rc;

    retriever.mutex = watched->mutex;
    retriever.poll_ms = watched->sight->interval_ms;
    retriever.on_changed = on_changed;
    retriever.user = watched;
    rc = simba_retrieval_open(watched->sight->store, &retriever,
                              &watched->retrieval, error);
    return rc == SIMBA_OK ? simba_retrieval_start(watched->retrieval, error)
                          : rc;
}

int simba__sight_add(struct simba__sight *sight,
                     const char *mutex,
                     simba_error *error)
{
    struct watched wanted = {.mutex = mutex};
    size_t room = strlen(mutex) + 1;
    struct watched *watched;
    int rc;

    if (tfind(&wanted, &sight->watched, by_name) != NULL) {
        return SIMBA_OK;
    }
    watched = calloc(1, sizeof(*watched) + room);
    if (watched == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    memcpy(watched->name, mutex, room);
    watched->mutex = watched->name;
    watched->sight = sight;
    rc = start(watched, error);
    if (rc == SIMBA_OK && tsearch(watched, &sight->watched, by_name) == NULL) {
        rc = simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    if (rc != SIMBA_OK) {
        free_watched(watched);
    }
    return rc;
}

bool simba__sight_wait(struct simba__sight *sight, int64_t most_ms)
{
    struct timespec until;
    bool is_over;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += most_ms % 1000 * 1000000;
    until.tv_sec += most_ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&sight->lock);
    while (!sight->is_over &&
           pthread_cond_timedwait(&sight->ended, &sight->lock, &until) == 0) {
    }
    is_over = sight->is_over;
    (void)pthread_mutex_unlock(&sight->lock);
    return is_over;
}

void simba__sight_fini(struct simba__sight *sight)
{
    tdestroy(sight->watched, free_watched);
    sight->watched = NULL;
    (void)pthread_cond_destroy(&sight->ended);
    (void)pthread_mutex_destroy(&sight->lock);
}
