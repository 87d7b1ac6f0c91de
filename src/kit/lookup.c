/* Host names to addresses; see lookup.h. A name server may take its time, so a
 * thread of its own asks it. */
#define _GNU_SOURCE
#include "kit/lookup.h"

#include <assert.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct simba__lookup {
    simba_loop *loop;
    char *host;
    int port;
    struct simba__asker asker;
    struct addrinfo *list;
    int problem;

    pthread_mutex_t lock; /* guards what follows */
    bool is_cancelled;    /* nothing may be posted any more */
};

static int look_up(const char *host,
                   int number,
                   int flags,
                   struct addrinfo **list)
{
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_NUMERICSERV | flags};
    char port[16];

    snprintf(port, sizeof port, "%d", number);
    return getaddrinfo(host, port, &wanted, list);
}

static void discard(simba__lookup *lookup)
{
    if (lookup->list != NULL) {
        freeaddrinfo(lookup->list);
    }
    pthread_mutex_destroy(&lookup->lock);
    free(lookup->host);
    free(lookup);
}

static void answer(void *argument)
{
    simba__lookup *lookup = argument;
    struct addrinfo *list = lookup->list;

    /* Who has posted this may not have let go of the lock yet. */
    pthread_mutex_lock(&lookup->lock);
    pthread_mutex_unlock(&lookup->lock);
    if (!lookup->is_cancelled) { /* only changed inside the loop, as we are */
        lookup->list = NULL;
        lookup->asker.found(lookup->asker.self, list, lookup->problem);
    }
    discard(lookup);
}

static void *work(void *argument)
{
    simba__lookup *lookup = argument;
    bool is_cancelled;

    pthread_detach(pthread_self());
    pthread_setname_np(pthread_self(), "simba-lookup");
    lookup->problem =
        look_up(lookup->host, lookup->port, AI_ADDRCONFIG, &lookup->list);
    pthread_mutex_lock(&lookup->lock);
    is_cancelled = lookup->is_cancelled;
    if (!is_cancelled) { /* under the lock: the loop cannot end meanwhile */
        simba_loop_post(lookup->loop, answer, lookup);
    }
    pthread_mutex_unlock(&lookup->lock);
    if (is_cancelled) {
        discard(lookup);
    }
    return NULL;
}

static bool start_thread(simba__lookup *lookup)
{
    sigset_t all, old;
    pthread_t thread;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are for the program */
    rc = pthread_create(&thread, NULL, work, lookup);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc == 0;
}

simba__lookup *simba__lookup_start(simba_loop *loop,
                                   const char *host,
                                   int port,
                                   struct simba__asker asker)
{
    struct addrinfo *list = NULL;
    simba__lookup *lookup;

    assert(asker.found != NULL && port >= 0 && port <= 65535);
    if (look_up(host, port, AI_NUMERICHOST, &list) == 0) {
        asker.found(asker.self, list, 0);
        return NULL;
    }
    lookup = calloc(1, sizeof *lookup);
    if (lookup != NULL) {
        lookup->loop = loop;
        lookup->host = strdup(host);
        lookup->port = port;
        lookup->asker = asker;
        pthread_mutex_init(&lookup->lock, NULL);
        if (lookup->host != NULL && start_thread(lookup)) {
            return lookup;
        }
        discard(lookup);
    }
    asker.found(asker.self, NULL, EAI_MEMORY);
    return NULL;
}

/* A name server that cannot be asked just now is EAI_AGAIN, one that has failed
 * EAI_FAIL: the host may be there all the same. */
int simba__lookup_native(int problem)
{
    _Static_assert(SIMBA__UNKNOWN_HOST == EAI_NONAME, "the system's number");
    return problem == EAI_NONAME || problem == EAI_NODATA ? SIMBA__UNKNOWN_HOST
                                                          : 0;
}

void simba__lookup_cancel(simba__lookup *lookup)
{
    if (lookup != NULL) {
        pthread_mutex_lock(&lookup->lock);
        lookup->is_cancelled = true;
        pthread_mutex_unlock(&lookup->lock);
    }
}
