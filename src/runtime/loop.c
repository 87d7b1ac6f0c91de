/* The loop: a lock that is held inside, a mailbox, and a thread that waits on
 * an epoll set without holding the lock.
 *
 * epoll is used directly: a caller that enters must be able to add descriptors
 * while the thread waits, which the kernel allows without waking it. The clock
 * is a timerfd on CLOCK_BOOTTIME: other clocks stand still while the machine
 * sleeps, and leases do not. */
#define _GNU_SOURCE
#include "runtime/loop.h"

#include "util/container.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64 };

/* How long the loop thread lets an event be that a caller is to see to. */
enum { NAPS = 10, NAP_NS = 1000000 };

static _Thread_local const simba_loop *inside;

int64_t simba__loop_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t simba_loop_now_ms(void)
{
    return simba__loop_now_us() / 1000;
}

bool simba__loop_is_inside(const simba_loop *loop)
{
    return inside == loop;
}

/* --- timers -------------------------------------------------------------- */

/* A pairing heap whose nodes live in their users' memory, so that setting one
 * cannot fail, and 100,000 of them cost nothing here. */

/* The earlier of two heaps, with the other below it. */
static simba_timer *meld(simba_timer *a, simba_timer *b)
{
    if (a == NULL || b == NULL) {
        return a != NULL ? a : b;
    }
    if (b->at_ms < a->at_ms) {
        simba_timer *earlier = b;
        b = a;
        a = earlier;
    }
    b->before = a;
    b->sibling = a->child;
    if (a->child != NULL) {
        a->child->before = b;
    }
    a->child = b;
    return a;
}

/* Siblings become one heap: melded in pairs from the left, then the pairs from
 * the right. Without recursion: there may be very many. */
static simba_timer *meld_siblings(simba_timer *first)
{
    simba_timer *pairs = NULL, *heap = NULL, *next;

    while (first != NULL) {
        simba_timer *second = first->sibling;

        next = second == NULL ? NULL : second->sibling;
        first->sibling = NULL;
        if (second != NULL) {
            second->sibling = NULL;
        }
        first = meld(first, second);
        first->sibling = pairs;
        pairs = first;
        first = next;
    }
    for (; pairs != NULL; pairs = next) {
        next = pairs->sibling;
        pairs->sibling = NULL;
        heap = meld(heap, pairs);
    }
    return heap;
}

void simba__heap_add(simba_timer **heap, simba_timer *timer)
{
    assert(!timer->is_set);
    timer->is_set = true;
    *heap = meld(*heap, timer);
}

void simba__heap_remove(simba_timer **heap, simba_timer *timer)
{
    simba_timer *below;

    if (!timer->is_set) {
        return;
    }
    below = meld_siblings(timer->child);
    if (*heap == timer) {
        *heap = below;
    } else {
        if (timer->before->child == timer) {
            timer->before->child = timer->sibling;
        } else {
            timer->before->sibling = timer->sibling;
        }
        if (timer->sibling != NULL) {
            timer->sibling->before = timer->before;
        }
        *heap = meld(*heap, below);
    }
    timer->child = timer->sibling = timer->before = NULL;
    timer->is_set = false;
}

/* Down if it can; else to the next sibling, its own or a parent's. `before` is
 * the sibling before it, or of the first one the parent. */
simba_timer *simba__heap_next(simba_timer *timer)
{
    if (timer->child != NULL) {
        return timer->child;
    }
    while (timer != NULL && timer->sibling == NULL) {
        while (timer->before != NULL && timer->before->child != timer) {
            timer = timer->before;
        }
        timer = timer->before;
    }
    return timer == NULL ? NULL : timer->sibling;
}

void simba__ring_add(simba_timer **ring, simba_timer *timer)
{
    simba_timer *first = *ring == NULL ? timer : *ring;

    assert(!timer->is_set && !simba__ring_has(timer));
    timer->before = *ring == NULL ? timer : first->before;
    timer->sibling = first;
    timer->before->sibling = timer;
    first->before = timer;
    *ring = first;
}

void simba__ring_remove(simba_timer **ring, simba_timer *timer)
{
    assert(simba__ring_has(timer));
    if (*ring == timer) {
        *ring = timer->sibling == timer ? NULL : timer->sibling;
    }
    timer->before->sibling = timer->sibling;
    timer->sibling->before = timer->before;
    timer->before = timer->sibling = NULL;
}

void simba_timer_clear(simba_loop *loop, simba_timer *timer)
{
    simba__heap_remove(&loop->timers, timer);
}

void simba_timer_set(simba_loop *loop, simba_timer *timer, int64_t at_ms)
{
    assert(timer->fire != NULL);
    if (timer->is_set && timer->at_ms == at_ms) {
        return;
    }
    simba_timer_clear(loop, timer);
    if (at_ms > INT64_MAX / 2) {
        return; /* never */
    }
    simba__timer_at(timer, at_ms);
    simba__heap_add(&loop->timers, timer);
}

int64_t simba__timers_next(const simba_loop *loop)
{
    return loop->timers == NULL ? INT64_MAX : loop->timers->at_ms;
}

void simba__timers_fire(simba_loop *loop, int64_t now_ms)
{
    while (simba__timers_next(loop) <= now_ms) {
        simba_timer *timer = loop->timers;

        simba_timer_clear(loop, timer);
        timer->fire(timer);
    }
}

/* --- mailbox ------------------------------------------------------------- */

static void signal_fd(int fd)
{
    uint64_t one = 1;

    if (write(fd, &one, sizeof one) < 0) {
        assert(errno == EAGAIN); /* it is awake enough */
    }
}

static void quiet(int fd)
{
    uint64_t count;

    if (read(fd, &count, sizeof count) < 0) {
        assert(errno == EAGAIN || errno == EINTR);
    }
}

void simba__loop_send(simba_loop *loop, struct simba__message *message)
{
    bool was_empty;

    assert(message->run != NULL);
    message->next = NULL;
    pthread_mutex_lock(&loop->mail_lock);
    was_empty = loop->first == NULL;
    *loop->last = message;
    loop->last = &message->next;
    pthread_mutex_unlock(&loop->mail_lock);
    if (was_empty && inside != loop) {
        signal_fd(loop->mail_fd);
    }
}

/* True when there was something to run. */
static bool drain(simba_loop *loop)
{
    struct simba__message *message, *next;
    bool has_run = false;

    assert(inside == loop);
    for (;;) {
        pthread_mutex_lock(&loop->mail_lock);
        message = loop->first;
        loop->first = NULL;
        loop->last = &loop->first;
        pthread_mutex_unlock(&loop->mail_lock);
        if (message == NULL) {
            return has_run;
        }
        has_run = true;
        for (; message != NULL; message = next) {
            next = message->next; /* run() may free it */
            message->run(message);
        }
    }
}

static void run_call(struct simba__message *message)
{
    struct simba__call *call = (struct simba__call *)message;
    simba_loop *loop = call->reserve_of;
    void (*run)(void *argument) = call->run;
    void *argument = call->argument;

    if (loop == NULL) {
        free(call);
    } else {
        pthread_mutex_lock(&loop->mail_lock);
        call->reserve_of = NULL;
        pthread_mutex_unlock(&loop->mail_lock);
    }
    run(argument);
}

void simba_loop_post(simba_loop *loop,
                     void (*run)(void *argument),
                     void *argument)
{
    struct simba__call *call = malloc(sizeof *call);

    if (call != NULL) {
        call->reserve_of = NULL;
    } else { /* one of those kept for this */
        pthread_mutex_lock(&loop->mail_lock);
        for (int i = 0; i < SIMBA__RESERVE && call == NULL; i++) {
            if (loop->reserve[i].reserve_of == NULL) {
                call = &loop->reserve[i];
                call->reserve_of = loop;
            }
        }
        pthread_mutex_unlock(&loop->mail_lock);
    }
    if (call == NULL) {
        abort(); /* a completion that cannot be told would hang its owner */
    }
    call->message.run = run_call;
    call->run = run;
    call->argument = argument;
    simba__loop_send(loop, &call->message);
}

void simba_count_reconnect(simba_loop *loop)
{
    atomic_fetch_add(&loop->metrics.reconnects, 1);
}

/* --- inside -------------------------------------------------------------- */

/* Set the clock for the earliest timer. One that is set too early already is
 * left alone: it will be set anew when it has fired for nothing, and most
 * timers are moved on before. */
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
                       : pthread_cond_clockwait(change, &loop->lock,
                                                CLOCK_MONOTONIC, until);
    inside = loop;
    return rc != ETIMEDOUT;
}

/* --- descriptors --------------------------------------------------------- */

bool simba_io_set(simba_loop *loop, simba_io *io, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLRDHUP, .data.ptr = io};
    int what = io->is_set ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    assert(io->fd >= 0 && io->ready != NULL);
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

    assert(inside == loop && loop->ready == NULL);
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

static void on_mail(simba_io *io, uint32_t events)
{
    (void)events;
    quiet(io->fd); /* the messages are run when the loop is left */
}

static void on_clock(simba_io *io, uint32_t events)
{
    simba_loop *loop = container_of(io, simba_loop, clock_io);

    (void)events;
    quiet(io->fd);
    loop->armed_ms = INT64_MAX;
}

/* --- callers who drive --------------------------------------------------- */

int simba_loop_nudge_fd(const simba_loop *loop)
{
    return loop->nudge_fd;
}

void simba__loop_drive(simba_loop *loop)
{
    assert(inside == loop);
    if (!loop->is_driven) {
        loop->is_driven = true;
        loop->driver = pthread_self();
    }
}

void simba__loop_part(simba_loop *loop)
{
    assert(inside == loop && loop->is_driven);
    loop->is_parting = true;
}

void simba__loop_undrive(simba_loop *loop)
{
    assert(inside == loop && loop->is_driven);
    (void)simba__loop_calm(loop);
    loop->is_driven = loop->is_parting = false;
}

bool simba__loop_is_driver(const simba_loop *loop)
{
    return loop->is_driven && !loop->is_parting &&
           pthread_equal(loop->driver, pthread_self());
}

void simba__loop_nudge(simba_loop *loop)
{
    assert(inside == loop);
    if (simba__loop_is_driver(loop)) {
        loop->is_settled = true;
    } else if (loop->is_driven && !loop->is_nudged) {
        loop->is_nudged = true;
        signal_fd(loop->nudge_fd);
    }
}

bool simba__loop_calm(simba_loop *loop)
{
    bool was_nudged = loop->is_nudged;

    if (was_nudged) {
        loop->is_nudged = false;
        quiet(loop->nudge_fd);
    }
    return was_nudged;
}

bool simba__loop_step_out(simba_loop *loop)
{
    loop->is_settled = false;
    simba_loop_leave(loop);
    return !loop->is_settled;
}

int simba_loop_poll(simba_loop *loop,
                    struct pollfd *set,
                    size_t count,
                    int timeout_ms)
{
    return atomic_load(&loop->due) > 0
               ? simba__poll(&loop->driver_poll, set, count, timeout_ms)
               : poll(set, count, timeout_ms);
}

void simba__loop_spin(simba_loop *loop, int most_us)
{
    simba__spin_init(&loop->driver_poll.spin, most_us);
    simba__spin_init(&loop->own_poll.spin, most_us);
}

/* The caller's thread is woken by the event itself, where the loop thread would
 * have to wake it in turn. */
void simba__loop_lead(simba_loop *loop, int64_t until_ms)
{
    struct pollfd set[2] = {{.fd = loop->epoll_fd, .events = POLLIN},
                            {.fd = loop->nudge_fd, .events = POLLIN}};
    int64_t left_ms = until_ms - simba_loop_now_ms();
    int wait_ms = left_ms > INT_MAX ? -1 : (int)(left_ms < 0 ? 0 : left_ms + 1);

    assert(simba__loop_is_driver(loop));
    atomic_store(&loop->is_led, true);
    if (simba__loop_step_out(loop)) {
        simba_loop_poll(loop, set, 2, wait_ms);
    }
    simba_loop_enter(loop);
    atomic_store(&loop->is_led, false);
    (void)simba__loop_calm(loop);
    dispatch(loop);
}

/* --- threads ------------------------------------------------------------- */

bool simba__thread_start(pthread_t *thread,
                         void *(*run)(void *),
                         void *argument)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        errno = rc;
    }
    return rc == 0;
}

void simba__thread_name(const char *name)
{
    prctl(PR_SET_NAME, name);
}

/* What happens is left to who leads, unless it does not come to it: a thread of
 * the user may be kept in a signal handler. */
static void wait_for_event(simba_loop *loop)
{
    struct pollfd set = {.fd = loop->epoll_fd, .events = POLLIN};
    struct timespec nap = {0, NAP_NS};

    do {
        if (!atomic_load(&loop->is_led) && atomic_load(&loop->due) > 0) {
            simba__poll(&loop->own_poll, &set, 1, -1);
        } else {
            poll(&set, 1, -1);
        }
        for (int i = 0;
             i < NAPS && atomic_load(&loop->is_led) && poll(&set, 1, 0) > 0;
             i++) {
            nanosleep(&nap, NULL);
        }
    } while (atomic_load(&loop->is_led) && poll(&set, 1, 0) == 0);
}

static void *run_loop(void *argument)
{
    simba_loop *loop = argument;

    simba__thread_name("simba-loop");
    for (;;) {
        wait_for_event(loop);
        simba_loop_enter(loop);
        if (loop->is_ended) {
            break;
        }
        dispatch(loop);
        simba_loop_leave(loop);
    }
    /* Messages that are left are to those who are being freed. */
    inside = NULL;
    pthread_mutex_unlock(&loop->lock);
    return NULL;
}

static void close_fds(void *self)
{
    simba_loop *loop = self;
    int *fds[] = {&loop->epoll_fd, &loop->mail_fd, &loop->clock_fd,
                  &loop->nudge_fd};

    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (*fds[i] >= 0) {
            close(*fds[i]);
        }
        *fds[i] = -1;
    }
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

static bool load_rng(simba_loop *loop)
{
    uint64_t entropy[4];

    if (getrandom(entropy, sizeof entropy, 0) != (ssize_t)sizeof entropy) {
        return false;
    }
    simba__rng_load(&loop->rng, entropy);
    return true;
}

static void free_loop(simba_loop *loop)
{
    close_fds(loop);
    pthread_mutex_destroy(&loop->mail_lock);
    pthread_mutex_destroy(&loop->lock);
    simba__hash_fini(&loop->subscribers);
    free(loop->wheel);
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
    simba__window_init(&loop->window);
    loop->driver_poll.metrics = loop->own_poll.metrics = &loop->metrics;
    if (!open_fds(loop) || !load_rng(loop) ||
        !simba__thread_start(&loop->thread, run_loop, loop)) {
        int cause = errno;
        free_loop(loop);
        return simba_error_set(error, SIMBA_EINTERNAL, cause,
                               "cannot start the loop: %s", strerror(cause));
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
    assert(!loop->is_ended);
    dispatch(loop);
    on_end(argument);
    loop->is_ended = true;
    simba_loop_leave(loop);
    signal_fd(loop->mail_fd);
}

void simba__loop_close(simba_loop *loop)
{
    pthread_join(loop->thread, NULL);
    simba__fork_remove(&loop->fork_entry);
    free_loop(loop);
}
