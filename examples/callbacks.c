#include <simba.h>
#include <stdio.h>
static void on_acquired(void *none, const simba_state *state)
{
    (void)none;
    printf("leading, token %llu\n", (unsigned long long)state->after.token);
}
int main(void)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    SIMBA_STORE_SCOPE simba_store *store = NULL;
    simba_service *service = NULL;
    setvbuf(stdout, NULL, _IONBF, 0);
    contender.mutex = "leadership", contender.on_acquired = on_acquired;
    if (simba_store_open(NULL, NULL, &store, NULL) != SIMBA_OK ||
        simba_service_open(store, &contender, &service, NULL) != SIMBA_OK ||
        simba_service_start(service, NULL) != SIMBA_OK)
        return 1;
    getchar(); /* contend until Enter, or until the input ends */
    return simba_service_close(service), 0;
}
