/* CLOCK_BOOTTIME and timers on it. poll()'s own timeout stands still while the
 * machine sleeps, so no deadline may rest on it. */
#define _GNU_SOURCE
#include "cli/clock.h"

#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int64_t simba__clock_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool simba__clock_boot(char boot[SIMBA__CLOCK_BOOT])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = -1;

    if (fd >= 0) {
        length = read(fd, boot, SIMBA__CLOCK_BOOT - 1);
        (void)close(fd);
    }
    boot[SIMBA__CLOCK_BOOT - 1] = '\0';
    return length == SIMBA__CLOCK_BOOT - 1;
}

int simba__clock_timer(void)
{
    return timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
}

void simba__clock_arm(int timer, int64_t at_ms)
{
    struct itimerspec spec = {{0, 0}, {0, 0}};

    if (at_ms != SIMBA__CLOCK_NEVER) {
        at_ms = at_ms < 1 ? 1 : at_ms; /* zero would disarm */
        spec.it_value.tv_sec = at_ms / 1000;
        spec.it_value.tv_nsec = at_ms % 1000 * 1000000;
    }
    (void)timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

void simba__clock_calm(int timer)
{
    uint64_t fired;
    ssize_t ignored = read(timer, &fired, sizeof fired);

    (void)ignored;
}

void simba__clock_pause(int64_t ms)
{
    struct timespec length = {ms / 1000, (long)(ms % 1000) * 1000000};

    assert(ms >= 0);
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL);
}

void simba__flag_set(bool *flag, pthread_mutex_t *lock, pthread_cond_t *told)
{
    (void)pthread_mutex_lock(lock);
    *flag = true;
    (void)pthread_cond_broadcast(told);
    (void)pthread_mutex_unlock(lock);
}

bool simba__flag_wait(const bool *flag,
                      pthread_mutex_t *lock,
                      pthread_cond_t *told,
                      int64_t most_ms)
{
    struct timespec until;
    bool is_set;
    int rc = 0;

    assert(most_ms >= 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += most_ms % 1000 * 1000000;
    until.tv_sec += most_ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(lock);
    while (!*flag && rc == 0) {
        rc = pthread_cond_clockwait(told, lock, CLOCK_MONOTONIC, &until);
    }
    is_set = *flag;
    (void)pthread_mutex_unlock(lock);
    return is_set;
}
