/* Two mutexes at once, all or none, in an order that cannot deadlock: a
 * transfer between accounts, whichever way it goes.
 *
 *     transfer alice bob      transfer bob alice */
#include <simba.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    simba_multi_locker_options options = SIMBA_MULTI_LOCKER_OPTIONS_INIT;
    SIMBA_STORE_SCOPE simba_store *store = NULL;
    SIMBA_MULTI_LOCKER_SCOPE simba_multi_locker *both = NULL;
    const char *accounts[2];
    simba_error error;

    if (argc != 3)
        return fprintf(stderr, "usage: transfer FROM TO\n"), 64;
    accounts[0] = argv[1];
    accounts[1] = argv[2];
    options.mutexes = accounts;
    options.count = 2;
    if (simba_store_open(NULL, NULL, &store, &error) != SIMBA_OK ||
        simba_multi_locker_open(store, &options, &both, &error) != SIMBA_OK)
        return fprintf(stderr, "%s\n", error.message), 78;
    if (simba_multi_locker_acquire(both, 30000, NULL, &error) != SIMBA_OK)
        return fprintf(stderr, "%s\n", error.message), 75;
    printf("from %s to %s\n", argv[1], argv[2]);
    return 0; /* the scope's end releases both */
}
