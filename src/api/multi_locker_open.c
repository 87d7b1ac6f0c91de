/* Making and closing lockers of several mutexes. */
#define _GNU_SOURCE
#include <simba/contender.h>

#include "api/given.h"
#include "api/multi_locker.h"

#include <stdlib.h>
#include <string.h>

void simba_multi_locker_close(simba_multi_locker *m)
{
    if (m == NULL) {
        return;
    }
    while (m->count > 0) {
        simba_locker_close(m->members[--m->count].locker);
    }
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const struct simba__member *)a)->mutex,
                  ((const struct simba__member *)b)->mutex);
}

/* Puts the names into the members, in order; they are still the user's. */
static int take_names(struct simba__member *members,
                      const simba_multi_locker_options *options,
                      simba_error *error)
{
    for (size_t i = 0; i < options->count; i++) {
        if (options->mutexes[i] == NULL) {
            return simba_error_set(error, SIMBA_EINVAL, 0,
                                   "a mutex needs a name");
        }
        members[i].mutex = options->mutexes[i];
        members[i].index = i;
    }
    qsort(members, options->count, sizeof *members, by_bytes);
    for (size_t i = 1; i < options->count; i++) {
        if (strcmp(members[i - 1].mutex, members[i].mutex) == 0) {
            return simba_error_set(error, SIMBA_EINVAL, 0,
                                   "'%s' is given twice", members[i].mutex);
        }
    }
    return SIMBA_OK;
}

static int open_members(simba_multi_locker *m,
                        const simba_multi_locker_options *options,
                        simba_error *error)
{
    simba_locker_options one = SIMBA_LOCKER_OPTIONS_INIT;
    char id[SIMBA_ID_MAX + 1];
    int rc = SIMBA_OK;

    simba_id_host(id);
    one.id = options->id != NULL ? options->id : id;
    one.times = options->times;
    one.on_lost = simba__member_lost;
    for (; m->count < options->count && rc == SIMBA_OK;) {
        struct simba__member *member = &m->members[m->count];

        member->multi = m;
        one.mutex = member->mutex;
        one.user = member;
        rc = simba_locker_open(m->store, &one, &member->locker, error);
        if (rc == SIMBA_OK) {
            member->mutex = member->locker->base.mutex;
            member->locker->veto = &m->veto;
            m->count++;
        }
    }
    return rc;
}

static simba_multi_locker *make(simba_store *store, size_t count)
{
    simba_multi_locker *m =
        count > SIZE_MAX / 2 / sizeof *m->members
            ? NULL
            : calloc(1, sizeof *m + count * sizeof *m->members);

    if (m != NULL) {
        m->store = store;
        pthread_mutex_init(&m->lock, NULL);
        pthread_cond_init(&m->changed, NULL);
    }
    return m;
}

int simba_multi_locker_open(simba_store *store,
                            const simba_multi_locker_options *given,
                            simba_multi_locker **out,
                            simba_error *error)
{
    simba_multi_locker_options options = SIMBA_MULTI_LOCKER_OPTIONS_INIT;
    simba_multi_locker *m;
    int rc = simba__store_check(store, error);

    *out = NULL;
    if (rc == SIMBA_OK) {
        rc = simba__given_take(
            &(struct simba__given){given, "SIMBA_MULTI_LOCKER_OPTIONS_INIT"},
            &options, sizeof options, error);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    if (options.mutexes == NULL || options.count == 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "at least one mutex must be named");
    }
    m = make(store, options.count);
    if (m == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    m->on_lost = options.on_lost;
    m->user = options.user;
    rc = take_names(m->members, &options, error);
    rc = rc == SIMBA_OK ? open_members(m, &options, error) : rc;
    if (rc != SIMBA_OK) {
        simba_multi_locker_close(m);
        return rc;
    }
    *out = m;
    return SIMBA_OK;
}
