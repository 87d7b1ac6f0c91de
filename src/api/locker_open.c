/* Making and closing lockers, and asking them. */
#define _GNU_SOURCE
#include "api/enlist.h"
#include "api/given.h"
#include "api/locker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void free_locker(simba_locker *l)
{
    pthread_cond_destroy(&l->changed);
    free(l);
}

static simba_locker *make_locker(simba_store *store,
                                 const simba_locker_options *options)
{
    simba_locker *l = calloc(1, sizeof *l);
    pthread_condattr_t attributes;

    if (l == NULL) {
        return NULL;
    }
    l->store = store;
    l->on_lost = options->on_lost;
    l->user = options->user;
    simba__locker_init(l);
    simba__strand_init(&l->strand);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&l->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return l;
}

int simba_locker_open(simba_store *store,
                      const simba_locker_options *given,
                      simba_locker **out,
                      simba_error *error)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_contender contender;
    simba_locker *l;
    int rc = simba__store_check(store, error);

    *out = NULL;
    if (rc == SIMBA_OK) {
        rc = simba__given_take(
            &(struct simba__given){given, "SIMBA_LOCKER_OPTIONS_INIT"},
            &options, sizeof options, error);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    l = make_locker(store, &options);
    if (l == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    contender = (simba_contender)SIMBA__CONTENDER_OF(&options);
    rc = simba__enlist(store, &l->base, &contender, error);
    if (rc != SIMBA_OK) {
        free_locker(l);
        return rc;
    }
    *out = l;
    return SIMBA_OK;
}

void simba_locker_close(simba_locker *l)
{
    if (l == NULL) {
        return;
    }
    if (simba__is_forked(l->store->mark)) {
        free(l->base.mutex);
        free(l);
        return;
    }
    if (simba__strand_is_mine(&l->strand)) {
        fputs("simba: a locker was closed by its own callback\n", stderr);
        abort();
    }
    if (simba_locker_release(l, NULL) == SIMBA_EUNKNOWN) {
        struct simba__log_entry entry =
            simba__about(&l->base, SIMBA_LOG_WARN, "locker");

        simba__store_tell(l->store, &entry,
                          "closed, but the store did not answer");
    }
    simba__delist(l->store, &l->base);
    free_locker(l);
}

/* --- questions ----------------------------------------------------------- */

void simba_locker_progress(simba_locker *l)
{
    simba__contention_progress(&l->base);
}

bool simba_locker_is_owner(const simba_locker *l)
{
    return simba__contention_is_owner(&l->base);
}

uint64_t simba_locker_token(const simba_locker *l)
{
    return simba__contention_token(&l->base);
}

void simba_locker_deadlines(const simba_locker *l,
                            int64_t *use_until_ms,
                            int64_t *hard_until_ms)
{
    bool is_ours = !simba__is_forked(l->store->mark);

    if (use_until_ms != NULL) {
        *use_until_ms = is_ours ? atomic_load(&l->base.owner_until_ms) : 0;
    }
    if (hard_until_ms != NULL) {
        *hard_until_ms = is_ours ? atomic_load(&l->base.hard_until_ms) : 0;
    }
}

/* A millisecond for the rounding of both clocks: nobody is to be early. */
bool simba_locker_clock(const simba_locker *l,
                        int64_t *ahead_ms,
                        int64_t *granted_ms)
{
    int64_t known_ms = atomic_load(&l->base.store_ahead_ms);
    int64_t begun_ms = atomic_load(&l->granted_ms);

    if (simba__is_forked(l->store->mark) || known_ms == INT64_MIN ||
        begun_ms == INT64_MIN) {
        return false;
    }
    if (ahead_ms != NULL) {
        *ahead_ms = known_ms - 1;
    }
    if (granted_ms != NULL) {
        *granted_ms = begun_ms;
    }
    return true;
}
