/* Who is to hear of what happens in a space: waiters, and those who observe. */
#include "backends/memory/instance.h"

#include <stdlib.h>
#include <string.h>

struct ring {
    simba_loop *loop;
    bool is_change; /* for observers */
    struct simba__memory_change change;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

static void run_ring(void *argument)
{
    struct ring *ring = argument;

    if (ring->is_change) {
        simba_observed(ring->loop, ring->mutex, &ring->change.owner,
                       ring->change.ended);
    } else {
        simba_wake(ring->loop, ring->mutex);
    }
    free(ring);
}

void simba__memory_ring(const struct simba__memory *m,
                        const char *mutex,
                        const struct simba__memory_change *change)
{
    struct ring *ring = calloc(1, sizeof *ring);

    if (ring == NULL) {
        return;
    }
    ring->loop = m->base.loop;
    memcpy(ring->mutex, mutex, strlen(mutex) + 1);
    if (change != NULL) {
        ring->is_change = true;
        ring->change = *change;
    }
    simba_loop_post(m->base.loop, run_ring, ring);
}

static struct simba__memory_eye **find_eye(struct simba__memory *m,
                                           const char *mutex)
{
    struct simba__memory_eye **eye = &m->eyes;

    while (*eye != NULL && strcmp((*eye)->mutex, mutex) != 0) {
        eye = &(*eye)->next;
    }
    return eye;
}

void simba__memory_tell(struct simba__memory *self, const char *mutex)
{
    for (struct simba__memory *m = self->space->handles; m != NULL;
         m = m->next) {
        if (m->eyes == NULL || *find_eye(m, mutex) == NULL) {
            continue;
        }
        if (m == self) {
            self->change.is_seen = true;
        } else {
            simba__memory_ring(m, mutex, &self->change);
        }
    }
}

void simba__memory_subscription(simba_backend *self,
                                const char *mutex,
                                enum simba_subscription subscription)
{
    struct simba__memory *m = (struct simba__memory *)self;
    struct simba__memory_eye **eye, *gone = NULL;

    pthread_mutex_lock(&m->space->lock);
    eye = find_eye(m, mutex);
    if (*eye != NULL && subscription != SIMBA_SUBSCRIBE_OBSERVE) {
        gone = *eye;
        *eye = gone->next;
    } else if (*eye == NULL && subscription == SIMBA_SUBSCRIBE_OBSERVE) {
        *eye = calloc(1, sizeof **eye); /* without it: it polls */
        if (*eye != NULL) {
            memcpy((*eye)->mutex, mutex, strlen(mutex) + 1);
        }
    }
    pthread_mutex_unlock(&m->space->lock);
    free(gone);
}
