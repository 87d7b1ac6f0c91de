/* One process at a time, on any machine that shares the store. */
#include <simba.h>
#include <stdio.h>

int main(void)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    SIMBA_STORE_SCOPE simba_store *store = NULL;
    SIMBA_LOCKER_SCOPE simba_locker *locker = NULL;
    simba_error error;
    uint64_t token;

    options.mutex = "nightly-report";
    if (simba_store_open(NULL, NULL, &store, &error) != SIMBA_OK ||
        simba_locker_open(store, &options, &locker, &error) != SIMBA_OK ||
        simba_locker_acquire(locker, 30000, &token, &error) != SIMBA_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    printf("mine, with token %llu\n", (unsigned long long)token);
    return 0;
}
