/* A cron job that is installed on many machines and runs on one of them:
 *
 *     0 3 * * *   run_once nightly-report 300000
 *
 * Whoever comes first gets the mutex and keeps it for at least the given
 * milliseconds, also when the job is done sooner, so that a machine whose clock
 * is late finds it taken. */
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>

static void make_report(void)
{
    puts("it is on us");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    SIMBA_STORE_SCOPE simba_store *store = NULL;
    SIMBA_LOCKER_SCOPE simba_locker *locker = NULL;
    simba_error error;
    int rc;

    if (argc != 3)
        return fprintf(stderr, "usage: run_once MUTEX MILLISECONDS\n"), 64;
    options.mutex = argv[1];
    options.times.min_hold_ms = atoll(argv[2]);
    if ((rc = simba_store_open(NULL, NULL, &store, &error)) != SIMBA_OK ||
        (rc = simba_locker_open(store, &options, &locker, &error)) != SIMBA_OK)
        return fprintf(stderr, "%s\n", error.message), 78;
    rc = simba_locker_acquire(locker, 0, NULL, &error); /* try once */
    if (rc == SIMBA_EBUSY)
        return puts("another machine does it"), 75;
    if (rc != SIMBA_OK)
        return fprintf(stderr, "%s\n", error.message), 69;
    make_report();
    return 0; /* the scope's end releases, when min_hold has passed */
}
