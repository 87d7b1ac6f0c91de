/* The loop: a lock that is held inside, a mailbox, and a thread that waits on
 * an epoll set without holding the lock.
 *
 * epoll is used directly: a caller that enters must be able to add descriptors
 * while the thread waits, which the kernel allows without waking it. The clock
 * is a timerfd on CLOCK_BOOTTIME: other clocks stand still while the machine
 * sleeps, and leases do not. */
#define _GNU_SOURCE
#include "runtime/loop.h"

#include "runtime/thread.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64 };

/* How long the loop thread lets an event be that a caller is to see to. */
enum { NAPS = 10, NAP_NS = 1000000 };

static _Thread_local const simba_loop *inside;

int64_t simba_loop_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool simba__loop_is_inside(const simba_loop *loop)
{
    return inside == loop;
}

/* --- mailbox ------------------------------------------------------------- */

void simba__loop_ring(int fd)
{
    uint64_t one = 1;

    if (write(fd, &one, sizeof one) < 0) {
        assert(errno == EAGAIN); /* it is awake enough */
    }
}

void simba__loop_quiet(int fd)
{
    uint64_t count;

    if (read(fd, &count, sizeof count) < 0) {
        assert(errno == EAGAIN || errno == EINTR);
    }
}

void simba__loop_send(simba_loop *loop, struct simba__letter *letter)
{
    bool was_empty;

    letter->next = NULL;
    pthread_mutex_lock(&loop->mail_lock);
    was_empty = loop->first == NULL;
    *loop->last = letter;
    loop->last = &letter->next;
    pthread_mutex_unlock(&loop->mail_lock);
    if (was_empty && !simba__loop_is_inside(loop)) {
        simba__loop_ring(loop->mail_fd);
    }
}

static struct simba__letter *take_all(simba_loop *loop)
{
    struct simba__letter *letters;

    pthread_mutex_lock(&loop->mail_lock);
    letters = loop->first;
    loop->first = NULL;
    loop->last = &loop->first;
    pthread_mutex_unlock(&loop->mail_lock);
    return letters;
}

/* True when there was something to run. */
static bool drain(simba_loop *loop)
{
    struct simba__letter *letter, *next;
    bool has_run = false;

    while ((letter = take_all(loop)) != NULL) {
        for (; letter != NULL; letter = next) {
            next = letter->next; /* run() may free it */
            letter->run(letter);
            has_run = true;
        }
    }
    return has_run;
}

/* One of those kept for when there is no memory, or NULL. */
static struct simba__call *take_reserve(simba_loop *loop)
{
    struct simba__call *call = NULL;

    pthread_mutex_lock(&loop->mail_lock);
    for (int i = 0; i < SIMBA__RESERVE && call == NULL; i++) {
        if (loop->reserve[i].reserve_of == NULL) {
            call = &loop->reserve[i];
            call->reserve_of = loop;
        }
    }
    pthread_mutex_unlock(&loop->mail_lock);
    return call;
}

static void free_call(struct simba__call *call)
{
    simba_loop *loop = call->reserve_of;

    if (loop == NULL) {
        free(call);
        return;
    }
    pthread_mutex_lock(&loop->mail_lock);
    call->reserve_of = NULL;
    pthread_mutex_unlock(&loop->mail_lock);
}

static void run_call(struct simba__letter *letter)
{
    struct simba__call *call = (struct simba__call *)letter;
    void (*run)(void *argument) = call->run;
    void *argument = call->argument;

    free_call(call);
    run(argument);
}

void simba_loop_post(simba_loop *loop,
                     void (*run)(void *argument),
                     void *argument)
{
    struct simba__call *call = malloc(sizeof *call);

    if (call != NULL) {
        call->reserve_of = NULL;
    } else {
        call = take_reserve(loop);
    }
    if (call == NULL) {
        abort(); /* a completion that cannot be told would hang its owner */
    }
    call->letter.run = run_call;
    call->run = run;
    call->argument = argument;
    simba__loop_send(loop, &call->letter);
}

void simba_count_reconnect(simba_loop *loop)
{
    atomic_fetch_add(&loop->tallies.reconnects, 1);
}

/* --- inside -------------------------------------------------------------- */

/* Set the clock for the earliest timer. One that is set too early already is
 * left alone: it will be set anew when it has rung for nothing, and most timers
 * are moved on before. */
static void arm_clock(simba_loop *loop)
{
    int64_t at = simba__timers_next(loop);
    struct itimerspec when = {0};

    if (at >= loop->armed_ms) {
        return;
    }
    loop->armed_ms = at;
    when.it_value.tv_sec = at / 1000;
    when.it_value.tv_nsec = at % 1000 * 1000000;
    if (at <= 0) {
        when.it_value.tv_nsec = 1; /* all zero would disarm it */
    }
    timerfd_settime(loop->clock_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void simba_loop_enter(simba_loop *loop)
{
    assert(inside == NULL);
    pthread_mutex_lock(&loop->lock);
    inside = loop;
}

void simba_loop_leave(simba_loop *loop)
{
    assert(inside == loop);
    drain(loop);
    arm_clock(loop);
    inside = NULL;
    pthread_mutex_unlock(&loop->lock);
}

bool simba__loop_wait(simba_loop *loop,
                      pthread_cond_t *change,
                      const struct timespec *until)
{
    int rc;

    assert(inside == loop);
    if (drain(loop)) {
        return true; /* that may have been the change */
    }
    arm_clock(loop);
    inside = NULL;
    rc = until == NULL ? pthread_cond_wait(change, &loop->lock)
                       : pthread_cond_timedwait(change, &loop->lock, until);
    inside = loop;
    return rc != ETIMEDOUT;
}

/* --- descriptors --------------------------------------------------------- */

bool simba_io_set(simba_loop *loop, simba_io *io, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLRDHUP, .data.ptr = io};
    int what = io->is_set ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (io->is_set && io->events == events) {
        return true;
    }
    if (epoll_ctl(loop->epoll_fd, what, io->fd, &event) != 0) {
        return false;
    }
    io->is_set = true;
    io->events = events;
    return true;
}

void simba_io_clear(simba_loop *loop, simba_io *io)
{
    if (!io->is_set) {
        return;
    }
    io->is_set = false;
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
    for (int i = 0; i < loop->ready_count; i++) {
        if (loop->ready[i].data.ptr == io) {
            loop->ready[i].data.ptr = NULL;
        }
    }
}

/* What is ready is asked for inside only: what was seen ready outside may be
 * cleared by the time one has entered. */
static void dispatch(simba_loop *loop)
{
    struct epoll_event ready[BATCH];

    loop->ready = ready;
    loop->ready_count = epoll_wait(loop->epoll_fd, ready, BATCH, 0);
    for (int i = 0; i < loop->ready_count; i++) {
        simba_io *io = ready[i].data.ptr;

        if (io != NULL) {
            io->ready(io, ready[i].events);
        }
    }
    loop->ready = NULL;
    loop->ready_count = 0;
    simba__timers_fire(loop, simba_loop_now_ms());
}

/* The caller's thread is woken by the event itself, where the loop thread would
 * have to wake it in turn. */
void simba__loop_lead(simba_loop *loop, int64_t until_ms)
{
    struct pollfd set[2] = {{.fd = loop->epoll_fd, .events = POLLIN},
                            {.fd = loop->nudge_fd, .events = POLLIN}};
    int64_t left_ms = until_ms - simba_loop_now_ms();
    int wait_ms = left_ms > INT_MAX ? -1 : (int)(left_ms < 0 ? 0 : left_ms + 1);

    atomic_store(&loop->is_led, true);
    if (simba__loop_step_out(loop)) {
        poll(set, 2, wait_ms);
    }
    simba_loop_enter(loop);
    atomic_store(&loop->is_led, false);
    (void)simba__loop_calm(loop);
    dispatch(loop);
}

static void on_mail(simba_io *io, uint32_t events)
{
    (void)events;
    simba__loop_quiet(io->fd); /* the letters are run when the loop is left */
}

static void on_clock(simba_io *io, uint32_t events)
{
    simba_loop *loop =
        (simba_loop *)((char *)io - offsetof(simba_loop, clock_io));

    (void)events;
    simba__loop_quiet(io->fd);
    loop->armed_ms = INT64_MAX;
}

/* --- the thread ---------------------------------------------------------- */

/* What happens is left to who leads, unless it does not come to it: a thread of
 * the user may be kept in a signal handler. */
static void wait_for_event(simba_loop *loop)
{
    struct pollfd set = {.fd = loop->epoll_fd, .events = POLLIN};
    struct timespec nap = {0, NAP_NS};

    do {
        poll(&set, 1, -1);
        for (int i = 0;
             i < NAPS && atomic_load(&loop->is_led) && poll(&set, 1, 0) > 0;
             i++) {
            nanosleep(&nap, NULL);
        }
    } while (atomic_load(&loop->is_led) && poll(&set, 1, 0) == 0);
}

/* After the end there may be letters left, to those who are being freed. */
static bool enter_unless_ended(simba_loop *loop)
{
    simba_loop_enter(loop);
    if (loop->is_ended) {
        inside = NULL;
        pthread_mutex_unlock(&loop->lock);
    }
    return !loop->is_ended;
}

static void *run_loop(void *argument)
{
    simba_loop *loop = argument;

    simba__thread_name("simba-loop");
    wait_for_event(loop);
    while (enter_unless_ended(loop)) {
        dispatch(loop);
        simba_loop_leave(loop);
        wait_for_event(loop);
    }
    return NULL;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

static void close_fds(void *self)
{
    simba_loop *loop = self;

    close_fd(&loop->epoll_fd);
    close_fd(&loop->mail_fd);
    close_fd(&loop->clock_fd);
    close_fd(&loop->nudge_fd);
}

static bool open_fds(simba_loop *loop)
{
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->mail_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->clock_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (loop->epoll_fd < 0 || loop->mail_fd < 0 || loop->nudge_fd < 0 ||
        loop->clock_fd < 0) {
        return false;
    }
    loop->mail_io = (simba_io){.ready = on_mail, .fd = loop->mail_fd};
    loop->clock_io = (simba_io){.ready = on_clock, .fd = loop->clock_fd};
    return simba_io_set(loop, &loop->mail_io, EPOLLIN) &&
           simba_io_set(loop, &loop->clock_io, EPOLLIN);
}

static void free_loop(simba_loop *loop)
{
    close_fds(loop);
    pthread_mutex_destroy(&loop->mail_lock);
    pthread_mutex_destroy(&loop->lock);
    simba__hash_fini(&loop->subscribers);
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
    pthread_mutex_init(&loop->mail_lock, NULL);
    loop->last = &loop->first;
    loop->armed_ms = INT64_MAX;
    if (!open_fds(loop) ||
        !simba__thread_start(&loop->thread, run_loop, loop)) {
        int cause = errno;
        free_loop(loop);
        return simba_error_set(error, SIMBA_EINTERNAL, cause,
                               "cannot start the loop thread: %s",
                               strerror(cause));
    }
    loop->fork_entry.forked = close_fds;
    loop->fork_entry.self = loop;
    simba__fork_add(&loop->fork_entry);
    *out = loop;
    return SIMBA_OK;
}

/* Here and not by the thread: it finds its own way out while the caller goes on
 * closing. */
void simba__loop_end(simba_loop *loop,
                     void (*on_end)(void *argument),
                     void *argument)
{
    simba_loop_enter(loop);
    dispatch(loop);
    on_end(argument);
    loop->is_ended = true;
    simba_loop_leave(loop);
    simba__loop_ring(loop->mail_fd);
}

void simba__loop_close(simba_loop *loop)
{
    pthread_join(loop->thread, NULL);
    simba__fork_remove(&loop->fork_entry);
    free_loop(loop);
}
