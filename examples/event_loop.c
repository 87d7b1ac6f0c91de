/* Callbacks within the program's own poll loop, and no thread of the program's
 * beside it: the store's descriptor is one more among those that are polled.
 * Leads until the input ends, then stops without holding up the loop. */
#include <poll.h>
#include <pthread.h>
#include <simba.h>
#include <stdio.h>
#include <unistd.h>

static pthread_t loop_thread;

static void lead(void *user, const simba_state *state)
{
    (void)user;
    printf("leading, token %llu, on the loop's thread: %s\n",
           (unsigned long long)state->after.token,
           pthread_equal(pthread_self(), loop_thread) ? "yes" : "no");
}

static void step_down(void *user, const simba_state *state)
{
    (void)user;
    printf("stepped down: %s\n", simba_cause_name(state->cause));
}

static void end(void *user, int status)
{
    (void)status; /* SIMBA_EUNKNOWN: the store did not answer */
    *(bool *)user = true;
}

static bool has_input(void)
{
    char byte;

    return read(STDIN_FILENO, &byte, 1) == 1;
}

int main(void)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    SIMBA_STORE_SCOPE simba_store *store = NULL;
    SIMBA_SERVICE_SCOPE simba_service *service = NULL;
    simba_error error;
    bool is_over = false;
    struct pollfd set[2] = {{.events = POLLIN},
                            {.fd = STDIN_FILENO, .events = POLLIN}};

    setvbuf(stdout, NULL, _IOLBF, 0);
    loop_thread = pthread_self();
    options.dispatch = true;
    contender.mutex = "event loop";
    contender.on_acquired = lead;
    contender.on_released = step_down;
    if (simba_store_open(NULL, &options, &store, &error) != SIMBA_OK ||
        simba_service_open(store, &contender, &service, &error) != SIMBA_OK ||
        simba_service_start(service, &error) != SIMBA_OK)
        return fprintf(stderr, "%s\n", error.message), 78;
    set[0].fd = simba_store_fd(store);
    while (!is_over && poll(set, 2, -1) > 0) {
        if (set[0].revents)
            simba_store_dispatch(store, NULL);
        if (set[1].revents && !has_input()) {
            set[1].fd = -1; /* once */
            if (simba_service_stop_async(service, end, &is_over, &error) !=
                SIMBA_OK)
                return fprintf(stderr, "%s\n", error.message), 70;
        }
    }
    return 0;
}
