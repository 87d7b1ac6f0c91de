#define _GNU_SOURCE
#include "bench_crew.h"
#include "interrupt.h"

#include <stdlib.h>

enum { STACK_BYTES = 256 * 1024 };

struct simba__crew_member {
    struct simba__crew *crew;
    const struct simba__bench_side *side;
    pthread_t thread;
    size_t index;
    size_t done; /* exchanges, in all slices */
};

static void note_time(struct simba__crew_member *m, int64_t ns)
{
    struct simba__crew *crew = m->crew;
    size_t share = crew->room / crew->count;

    if (share > 0) {
        crew->ns[m->index * share + m->done % share] = ns > 0 ? ns : 1;
    }
    m->done++;
}

static bool is_wanted(const struct simba__crew *crew)
{
    return simba__interrupt() == 0 &&
           (crew->is_cancelled == NULL || atomic_load(crew->is_cancelled) == 0);
}

/* Until the time or the exchanges of the slice are used up. */
static int work(struct simba__crew_member *m, size_t *count, simba_error *error)
{
    struct simba__crew *crew = m->crew;
    int rc = SIMBA_OK;

    while (rc == SIMBA_OK && is_wanted(crew) &&
           simba__bench_now_ns() < crew->until_ns &&
           atomic_fetch_sub(&crew->left, 1) > 0) {
        int64_t ns = 0;

        rc = m->side->once(m->side->self, &ns, error);
        if (rc == SIMBA_OK) {
            note_time(m, ns);
            *count += 1;
        }
    }
    return rc;
}

/* With the lock held, but for the work. */
static void take_part(struct simba__crew_member *m)
{
    struct simba__crew *crew = m->crew;
    simba_error error = {0};
    size_t count = 0;
    int rc;

    pthread_mutex_unlock(&crew->lock);
    rc = work(m, &count, &error);
    pthread_mutex_lock(&crew->lock);
    crew->tally.count += count;
    if (rc != SIMBA_OK && crew->tally.rc == SIMBA_OK) {
        crew->tally.rc = rc;
        crew->tally.error = error;
    }
    if (--crew->working == 0) {
        pthread_cond_signal(&crew->ended);
    }
}

static void *run_member(void *argument)
{
    struct simba__crew_member *m = argument;
    struct simba__crew *crew = m->crew;
    uint64_t seen = 0;

    pthread_mutex_lock(&crew->lock);
    while (!crew->is_over) {
        if (seen == crew->slices) {
            pthread_cond_wait(&crew->begun, &crew->lock);
            continue;
        }
        seen = crew->slices;
        if (m->index < crew->slice.active) {
            take_part(m);
        }
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

int simba__crew_start(struct simba__crew *crew, simba_error *error)
{
    pthread_attr_t attributes;

    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->begun, NULL);
    pthread_cond_init(&crew->ended, NULL);
    crew->members = calloc(crew->count, sizeof(*crew->members));
    if (crew->members == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (size_t i = 0; i < crew->count; i++) {
        struct simba__crew_member *m = &crew->members[i];

        m->crew = crew;
        m->side = &crew->sides[i];
        m->index = i;
        if (pthread_create(&m->thread, &attributes, run_member, m) != 0) {
            break;
        }
        crew->started++;
    }
    pthread_attr_destroy(&attributes);
    if (crew->started < crew->count) {
        return simba_error_set(error, SIMBA_EINTERNAL, 0,
                               "no more than %zu threads", crew->started);
    }
    return SIMBA_OK;
}

void simba__crew_run(struct simba__crew *crew,
                     const struct simba__crew_slice *slice,
                     struct simba__crew_tally *tally)
{
    int64_t begun_ns = simba__bench_now_ns();

    pthread_mutex_lock(&crew->lock);
    crew->slice = *slice;
    crew->until_ns = begun_ns + slice->length_ns;
    atomic_store(&crew->left, (int64_t)slice->most);
    crew->tally = (struct simba__crew_tally){.rc = SIMBA_OK};
    crew->working = slice->active;
    crew->slices++;
    pthread_cond_broadcast(&crew->begun);
    while (crew->working > 0) {
        pthread_cond_wait(&crew->ended, &crew->lock);
    }
    crew->tally.elapsed_ns = simba__bench_now_ns() - begun_ns;
    *tally = crew->tally;
    pthread_mutex_unlock(&crew->lock);
}

void simba__crew_stop(struct simba__crew *crew)
{
    if (crew->members == NULL) {
        return;
    }
    pthread_mutex_lock(&crew->lock);
    crew->is_over = true;
    pthread_cond_broadcast(&crew->begun);
    pthread_mutex_unlock(&crew->lock);
    for (size_t i = 0; i < crew->started; i++) {
        pthread_join(crew->members[i].thread, NULL);
    }
    free(crew->members);
    crew->members = NULL;
    pthread_cond_destroy(&crew->begun);
    pthread_cond_destroy(&crew->ended);
    pthread_mutex_destroy(&crew->lock);
}

size_t simba__crew_gather(int64_t *ns, size_t room)
{
    size_t count = 0;

    for (size_t i = 0; i < room; i++) {
        if (ns[i] != 0) {
            ns[count++] = ns[i];
        }
    }
    return count;
}
