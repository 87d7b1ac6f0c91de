/* Callbacks within the program's own event loop: the executor puts them into a
 * pipe, and the loop takes them out between other things. Leads until the input
 * ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <simba.h>
#include <stdio.h>
#include <unistd.h>

struct task {
    void (*run)(void *argument);
    void *argument;
};

/* On a thread of simba's. A pipe takes so few bytes whole or not at all. */
static bool post(void *user, void (*run)(void *argument), void *argument)
{
    struct task task = {run, argument};

    return write(*(int *)user, &task, sizeof task) == sizeof task;
}

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
    (void)state;
    puts("stepped down");
}

/* False when there will be none any more. */
static bool run_one(int fd)
{
    struct task task;

    if (read(fd, &task, sizeof task) != sizeof task || task.run == NULL)
        return false;
    task.run(task.argument);
    return true;
}

static bool has_input(void)
{
    char byte;

    return read(STDIN_FILENO, &byte, 1) == 1;
}

struct end {
    simba_service *service;
    int fd;
};

/* To close is to wait for the last callbacks, so the loop must not do it. */
static void *close_service(void *argument)
{
    struct end *end = argument;

    simba_service_close(end->service);
    post(&end->fd, NULL, NULL);
    return NULL;
}

int main(void)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    SIMBA_STORE_SCOPE simba_store *store = NULL;
    simba_service *service = NULL;
    simba_error error;
    pthread_t closer;
    struct end end;
    int ends[2];
    struct pollfd set[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.events = POLLIN}};

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return perror("pipe"), 1;
    loop_thread = pthread_self();
    set[1].fd = ends[0];
    options.executor = post;
    options.executor_user = &ends[1];
    contender.mutex = "event loop";
    contender.on_acquired = lead;
    contender.on_released = step_down;
    if (simba_store_open(NULL, &options, &store, &error) != SIMBA_OK ||
        simba_service_open(store, &contender, &service, &error) != SIMBA_OK ||
        simba_service_start(service, &error) != SIMBA_OK)
        return fprintf(stderr, "%s\n", error.message), 78;
    while (!set[0].revents || has_input()) {
        poll(set, 2, -1);
        if (set[1].revents)
            run_one(set[1].fd);
    }
    end = (struct end){service, ends[1]};
    if (pthread_create(&closer, NULL, close_service, &end) != 0)
        return 1;
    while (run_one(ends[0]))
        continue;
    pthread_join(closer, NULL);
    return 0;
}
