/* A contender of ours in a mixed group:
 *
 *   interop_ours URL MUTEX ID TTL_MS TRANSITION_MS HOLD_MS SECONDS [SLOTS] */
#define _GNU_SOURCE
#include "contender.h"

#include <simba.h>

static bool is_owner(void *locker)
{
    return simba_locker_is_owner(locker);
}

int main(int argc, char **argv)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    SIMBA_STORE_SCOPE simba_store *store = NULL;
    SIMBA_LOCKER_SCOPE simba_locker *locker = NULL;
    struct plan plan;
    simba_error error;

    if (argc != 8 && argc != 9) {
        return 64;
    }
#ifdef SIMBA_SHARED /* or it is compiled with a version without slots */
    options.slots = argc == 9 ? (uint32_t)atoi(argv[8]) : 0;
#endif
    plan = read_plan(argv + 1);
    options.mutex = plan.mutex;
    options.id = plan.id;
    options.times.ttl_ms = plan.ttl_ms;
    options.times.transition_ms = plan.transition_ms;
    if (simba_store_open(plan.url, NULL, &store, &error) != SIMBA_OK ||
        simba_locker_open(store, &options, &locker, &error) != SIMBA_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    while (is_time_left(&plan)) {
        say('W');
        if (simba_locker_acquire(locker, (plan.until_ns - now_ns()) / 1000000,
                                 NULL, &error) == SIMBA_OK) {
            work(&plan, is_owner, locker);
            simba_locker_release(locker, NULL);
            nap_ms(5);
        } else if (is_time_left(&plan)) {
            fprintf(stderr, "%s\n", error.message);
            nap_ms(100);
        }
    }
    say('E');
    return 0;
}
