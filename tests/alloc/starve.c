#include "starve.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static atomic_long countdown; /* 0: nothing fails */
static atomic_bool is_starved, has_no_threads;
static atomic_long refused;

void starve_at(long n)
{
    atomic_store(&is_starved, false);
    atomic_store(&countdown, n);
}

bool has_starved(void)
{
    return atomic_load(&is_starved);
}

long starve_threads(bool is_on)
{
    atomic_store(&has_no_threads, is_on);
    return is_on ? atomic_exchange(&refused, 0) : atomic_load(&refused);
}

/* Whose turn it is fails; later ones do not. */
static bool is_to_fail(void)
{
    long left = atomic_load(&countdown);

    while (left > 0 &&
           !atomic_compare_exchange_weak(&countdown, &left, left - 1)) {
    }
    if (left == 1) {
        atomic_store(&is_starved, true);
    }
    return left == 1;
}

/* What the linker makes of the functions' own names. */
int __real_pthread_create(pthread_t *thread,
                          const pthread_attr_t *attributes,
                          void *(*run)(void *),
                          void *argument);
int __real_eventfd(unsigned count, int flags);
int __real_epoll_create1(int flags);
int __real_timerfd_create(clockid_t clock, int flags);
int __real_inotify_init1(int flags);
int __wrap_pthread_create(pthread_t *thread,
                          const pthread_attr_t *attributes,
                          void *(*run)(void *),
                          void *argument);
int __wrap_eventfd(unsigned count, int flags);
int __wrap_epoll_create1(int flags);
int __wrap_timerfd_create(clockid_t clock, int flags);
int __wrap_inotify_init1(int flags);

/* It says why by its result, and leaves errno as it was. */
int __wrap_pthread_create(pthread_t *thread,
                          const pthread_attr_t *attributes,
                          void *(*run)(void *),
                          void *argument)
{
    if (atomic_load(&has_no_threads)) {
        atomic_fetch_add(&refused, 1);
        return EAGAIN;
    }
    return is_to_fail()
               ? EAGAIN
               : __real_pthread_create(thread, attributes, run, argument);
}

static int no_descriptor(void)
{
    errno = EMFILE;
    return -1;
}

int __wrap_eventfd(unsigned count, int flags)
{
    return is_to_fail() ? no_descriptor() : __real_eventfd(count, flags);
}

int __wrap_epoll_create1(int flags)
{
    return is_to_fail() ? no_descriptor() : __real_epoll_create1(flags);
}

int __wrap_timerfd_create(clockid_t clock, int flags)
{
    return is_to_fail() ? no_descriptor() : __real_timerfd_create(clock, flags);
}

int __wrap_inotify_init1(int flags)
{
    return is_to_fail() ? no_descriptor() : __real_inotify_init1(flags);
}
