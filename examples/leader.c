/* A daemon of which many run and one works: the leader. The others wait to take
 * over. Ends on SIGTERM or SIGINT. */
#define _GNU_SOURCE
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <time.h>

static volatile sig_atomic_t is_ending;

static void end(int number)
{
    (void)number;
    is_ending = 1;
}

static void lead(void *user, const simba_state *state)
{
    (void)user;
    printf("leading, token %llu\n", (unsigned long long)state->after.token);
}

/* Nobody else leads before this has returned, or its time is up. */
static void step_down(void *user, const simba_state *state)
{
    (void)user;
    printf("stepped down, token %llu\n",
           (unsigned long long)state->before.token);
}

int main(void)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    SIMBA_STORE_SCOPE simba_store *store = NULL;
    simba_service *service = NULL;
    simba_error error;

    setvbuf(stdout, NULL, _IOLBF, 0);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = end}, NULL);
    sigaction(SIGINT, &(struct sigaction){.sa_handler = end}, NULL);
    contender.mutex = "leader";
    contender.on_acquired = lead;
    contender.on_released = step_down;
    if (simba_store_open(NULL, NULL, &store, &error) != SIMBA_OK ||
        simba_service_open(store, &contender, &service, &error) != SIMBA_OK ||
        simba_service_start(service, &error) != SIMBA_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    while (!is_ending) {
        if (simba_service_is_owner(service)) {
            /* one short piece of work; ask again before the next */
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    simba_service_close(service); /* steps down, and lets the next one lead */
    return 0;
}
