/* The loop thread: mailbox and clock as two descriptors of a libevent base.
 *
 * The base is touched by the loop thread only, so libevent needs no locks. The
 * clock is a timerfd on CLOCK_BOOTTIME: libevent's own timers stand still while
 * the machine sleeps, and leases do not. */
#define _GNU_SOURCE
#include "runtime/loop.h"

#include "runtime/thread.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int64_t simba_loop_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- mailbox ------------------------------------------------------------- */

void simba__loop_send(simba_loop *loop, struct simba__letter *letter)
{
    uint64_t one = 1;
    bool was_empty;

    letter->next = NULL;
    pthread_mutex_lock(&loop->lock);
    was_empty = loop->first == NULL;
    *loop->last = letter;
    loop->last = &letter->next;
    pthread_mutex_unlock(&loop->lock);
    if (was_empty && write(loop->mail_fd, &one, sizeof one) < 0) {
        assert(errno == EAGAIN); /* it is awake enough */
    }
}

static struct simba__letter *take_all(simba_loop *loop)
{
    struct simba__letter *letters;

    pthread_mutex_lock(&loop->lock);
    letters = loop->first;
    loop->first = NULL;
    loop->last = &loop->first;
    pthread_mutex_unlock(&loop->lock);
    return letters;
}

void simba__loop_drain(simba_loop *loop)
{
    struct simba__letter *letter, *next;

    while ((letter = take_all(loop)) != NULL) {
        for (; letter != NULL; letter = next) {
            next = letter->next; /* run() may free it */
            letter->run(letter);
        }
    }
}

struct call {
    struct simba__letter letter;
    void (*run)(void *argument);
    void *argument;
};

static void run_call(struct simba__letter *letter)
{
    struct call *call = (struct call *)letter;

    call->run(call->argument);
    free(call);
}

void simba_loop_post(simba_loop *loop,
                     void (*run)(void *argument),
                     void *argument)
{
    struct call *call = malloc(sizeof *call);

    if (call == NULL) {
        abort(); /* a completion that cannot be told would hang its owner */
    }
    call->letter.run = run_call;
    call->run = run;
    call->argument = argument;
    simba__loop_send(loop, &call->letter);
}

/* --- the thread ---------------------------------------------------------- */

/* Set the clock for the earliest timer, if it is not set for it already. */
static void arm_clock(simba_loop *loop)
{
    int64_t at = simba__timers_next(loop);
    struct itimerspec when = {0};

    if (at == loop->armed_ms) {
        return;
    }
    loop->armed_ms = at;
    if (at != INT64_MAX) {
        when.it_value.tv_sec = at / 1000;
        when.it_value.tv_nsec = at % 1000 * 1000000;
        if (at <= 0) {
            when.it_value.tv_nsec = 1; /* all zero would disarm it */
        }
    }
    timerfd_settime(loop->clock_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void turn(evutil_socket_t fd, short what, void *argument)
{
    simba_loop *loop = argument;
    uint64_t count;

    (void)what;
    if (read(fd, &count, sizeof count) < 0) {
        assert(errno == EAGAIN || errno == EINTR);
    }
    if (fd == loop->clock_fd) {
        loop->armed_ms = INT64_MAX;
    }
    simba__loop_drain(loop);
    simba__timers_fire(loop, simba_loop_now_ms());
}

static void *run_loop(void *argument)
{
    simba_loop *loop = argument;

    while (!loop->is_ending) {
        arm_clock(loop);
        event_base_loop(loop->base, EVLOOP_ONCE);
    }
    loop->on_end(loop->on_end_argument);
    event_free(loop->mail_event);
    event_free(loop->clock_event);
    event_base_free(loop->base);
    return NULL;
}

struct event_base *simba_loop_base(simba_loop *loop)
{
    return loop->base;
}

bool simba__loop_is_mine(const simba_loop *loop)
{
    return pthread_equal(loop->thread, pthread_self());
}

/* In a forked child. The base is left alone: to free it would take its events
 * out of the epoll set we share with the parent. */
static void close_in_child(void *self)
{
    simba_loop *loop = self;

    close(loop->mail_fd);
    close(loop->clock_fd);
}

static bool open_events(simba_loop *loop)
{
    struct event_config *config = event_config_new();

    if (config == NULL) {
        return false;
    }
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV);
    loop->base = event_base_new_with_config(config);
    event_config_free(config);
    if (loop->base == NULL) {
        return false;
    }
    loop->mail_event =
        event_new(loop->base, loop->mail_fd, EV_READ | EV_PERSIST, turn, loop);
    loop->clock_event =
        event_new(loop->base, loop->clock_fd, EV_READ | EV_PERSIST, turn, loop);
    return loop->mail_event != NULL && loop->clock_event != NULL &&
           event_add(loop->mail_event, NULL) == 0 &&
           event_add(loop->clock_event, NULL) == 0;
}

static void free_loop(simba_loop *loop)
{
    if (loop->mail_fd >= 0) {
        close(loop->mail_fd);
    }
    if (loop->clock_fd >= 0) {
        close(loop->clock_fd);
    }
    pthread_mutex_destroy(&loop->lock);
    free(loop->heap);
    free(loop->buckets);
    free(loop);
}

int simba__loop_open(simba_loop **out, simba_error *error)
{
    simba_loop *loop = calloc(1, sizeof *loop);

    *out = NULL;
    if (loop == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    pthread_mutex_init(&loop->lock, NULL);
    loop->last = &loop->first;
    loop->armed_ms = INT64_MAX;
    loop->mail_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->clock_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (loop->mail_fd < 0 || loop->clock_fd < 0 || !open_events(loop) ||
        !simba__timer_reserve(loop, 1) || /* the notifier pool's own */
        !simba__thread_start(&loop->thread, "simba-loop", run_loop, loop)) {
        int cause = errno;
        free_loop(loop);
        return simba_error_set(error, SIMBA_EINTERNAL, cause,
                               "cannot start the loop thread: %s",
                               strerror(cause));
    }
    loop->fork_entry.forked = close_in_child;
    loop->fork_entry.self = loop;
    simba__fork_add(&loop->fork_entry);
    *out = loop;
    return SIMBA_OK;
}

struct ending {
    struct simba__letter letter;
    simba_loop *loop;
};

static void run_ending(struct simba__letter *letter)
{
    ((struct ending *)letter)->loop->is_ending = true;
}

void simba__loop_end(simba_loop *loop,
                     void (*on_end)(void *argument),
                     void *argument)
{
    struct ending ending = {.letter.run = run_ending, .loop = loop};

    assert(!simba__loop_is_mine(loop));
    loop->on_end = on_end;
    loop->on_end_argument = argument;
    simba__loop_send(loop, &ending.letter);
    pthread_join(loop->thread, NULL);
    simba__loop_drain(loop);
}

void simba__loop_close(simba_loop *loop)
{
    simba__fork_remove(&loop->fork_entry);
    free_loop(loop);
}
