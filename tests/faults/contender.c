/* contender URL MUTEX DIRECTORY TTL TRANSITION: a program of the API that locks
 * again and again, until it is ended. */
#define _GNU_SOURCE
#include "section.h"

#include <simba/locker.h>
#include <simba/store.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t is_ending;

static void end(int signal)
{
    (void)signal;
    is_ending = 1;
}

static bool is_owner(void *user)
{
    return simba_locker_is_owner(user);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

int main(int argc, char **argv)
{
    simba_store_options store_options = SIMBA_STORE_OPTIONS_INIT;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_store *store = NULL;
    simba_locker *locker = NULL;
    simba_error error;
    int64_t wait_ms;

    if (argc != 6) {
        return 64;
    }
    signal(SIGTERM, end);
    store_options.wait_ms = 5000;
    options.mutex = argv[2];
    options.times.ttl_ms = atoi(argv[4]);
    options.times.transition_ms = atoi(argv[5]);
    if (simba_store_open(argv[1], &store_options, &store, &error) != SIMBA_OK ||
        simba_locker_open(store, &options, &locker, &error) != SIMBA_OK) {
        fprintf(stderr, "contender: %s\n", error.message);
        simba_store_close(store);
        pause_ms(100);
        return 1;
    }
    wait_ms = 3 * (options.times.ttl_ms + options.times.transition_ms);
    srand((unsigned)getpid());
    while (!is_ending) {
        struct section section = {
            .directory = argv[3],
            .mutex = argv[2],
            .length_ms = section_length_ms((uint64_t)rand(),
                                           atoi(argv[4]) + atoi(argv[5])),
            .is_owner = is_owner,
            .user = locker};

        if (simba_locker_acquire(locker, wait_ms, &section.token, &error) !=
            SIMBA_OK) {
            pause_ms(20);
            continue;
        }
        section_run(&section);
        (void)simba_locker_release(locker, &error);
    }
    simba_locker_close(locker);
    simba_store_close(store);
    return 0;
}
