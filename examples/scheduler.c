#include <simba.h>
#include <stdio.h>
static int work(void *none, const simba_run *run, simba_error *error)
{
    (void)none, (void)error;
    return printf("run %d\n", (int)run->number) > 0 ? SIMBA_OK : SIMBA_EUNAVAIL;
}
int main(void)
{
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    SIMBA_STORE_SCOPE simba_store *store = NULL;
    simba_scheduler *scheduler = NULL;
    setvbuf(stdout, NULL, _IONBF, 0);
    options.mutex = "sweep", options.work = work, options.period_ms = 1000;
    if (simba_store_open(NULL, NULL, &store, NULL) != SIMBA_OK ||
        simba_scheduler_open(store, &options, &scheduler, NULL) != SIMBA_OK ||
        simba_scheduler_start(scheduler, NULL) != SIMBA_OK)
        return 1;
    getchar(); /* work every second where we lead, until Enter */
    return simba_scheduler_close(scheduler), 0;
}
