#define _GNU_SOURCE
#include "runtime/poll.h"

#include "util/file.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CPUS = 2, FILE_MOST = 4096 };

/* How long what was seen of the machine counts: quotas change. */
#define ASK_NS INT64_C(10000000000)

static int64_t read_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- may it look? -------------------------------------------------------- */

/* One or two numbers of a cgroup's file; false: there are none, as in "max". */
static bool read_numbers(const char *group,
                         const char *name,
                         int64_t *first,
                         int64_t *second)
{
    char path[PATH_MAX];
    struct simba__file file;
    char *end, *last;
    int64_t number;

    if (snprintf(path, sizeof path, "%s/%s", group, name) >= (int)sizeof path ||
        simba__file_read(&file, path, FILE_MOST) != 0) {
        return false;
    }
    number = strtoll(file.bytes, &end, 10);
    if (end == file.bytes) {
        simba__file_fini(&file);
        return false;
    }
    *first = number;
    number = strtoll(end, &last, 10);
    *second = last == end ? *second : number;
    simba__file_fini(&file);
    return true;
}

/* Of this group alone: version 2, and version 1, where the controller has a
 * directory of its own. */
static bool has_cpus(const char *root, const char *group, int cpus)
{
    int64_t quota = -1, period = 100000, none = 0;
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s%s", root, group) < (int)sizeof path &&
        !read_numbers(path, "cpu.max", &quota, &period) &&
        snprintf(path, sizeof path, "%s/cpu%s", root, group) <
            (int)sizeof path &&
        read_numbers(path, "cpu.cfs_quota_us", &quota, &none)) {
        (void)read_numbers(path, "cpu.cfs_period_us", &period, &none);
    }
    return quota < 0 || quota / cpus >= period;
}

/* Of version 2, or of version 1 and the controller of CPU time? */
static bool is_of_cpu(const char *line)
{
    return strstr(line, "::") != NULL || strstr(line, ":cpu:") != NULL ||
           strstr(line, ":cpu,") != NULL || strstr(line, ",cpu,") != NULL ||
           strstr(line, ",cpu:") != NULL;
}

bool simba__cgroups_have_cpus(const char *list, const char *root, int cpus)
{
    struct simba__file file;
    bool is_enough = true;
    char *line, *rest;

    if (simba__file_read(&file, list, FILE_MOST) != 0) {
        return true;
    }
    rest = file.bytes;
    while (is_enough && (line = strsep(&rest, "\n")) != NULL) {
        char *group = is_of_cpu(line) ? strchr(line, '/') : NULL;

        /* The group and all above it, up to the root. */
        while (is_enough && group != NULL) {
            char *end = strrchr(group, '/');

            is_enough = has_cpus(root, group, cpus);
            group = *group == '\0' ? NULL : group;
            if (end != NULL) {
                *end = '\0';
            }
        }
    }
    simba__file_fini(&file);
    return is_enough;
}

/* Neither on one CPU nor in a real-time class, where nobody else would run, nor
 * in the class of those who run when nobody else wants to. */
static bool is_fit_thread(void)
{
    int class = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    cpu_set_t cpus;

    return (class == SCHED_OTHER || class == SCHED_BATCH) &&
           (sched_getaffinity(0, sizeof cpus, &cpus) != 0 ||
            CPU_COUNT(&cpus) >= CPUS);
}

static bool may_look(struct simba__poll *self, int64_t now)
{
    bool is_due = self->asked_ns == 0 || now - self->asked_ns >= ASK_NS;

    if (is_due) {
        self->asked_ns = now;
        self->has_cpus = simba__cgroups_have_cpus("/proc/self/cgroup",
                                                  "/sys/fs/cgroup", CPUS);
    }
    if (is_due || !pthread_equal(self->thread, pthread_self())) {
        self->thread = pthread_self();
        self->is_fit = is_fit_thread();
    }
    return self->has_cpus && self->is_fit;
}

/* --- waiting ------------------------------------------------------------- */

static int64_t look(struct simba__poll *self, int64_t now_ns)
{
    int64_t allowed = simba__spin_allow(&self->spin, now_ns);

    return allowed > 0 && may_look(self, now_ns) ? allowed : 0;
}

static void learn(struct simba__poll *self, const struct simba__spin_wait *wait)
{
    if (wait->looked_ns > 0) {
        atomic_fetch_add(&self->metrics->spins, 1);
        atomic_fetch_add(&self->metrics->spins_in_vain, wait->is_vain);
        atomic_fetch_add(&self->metrics->spin_ns, (uint64_t)wait->looked_ns);
    }
    simba__spin_learn(&self->spin, read_clock(), wait);
}

int simba__poll(struct simba__poll *self,
                struct pollfd *set,
                nfds_t count,
                int timeout_ms)
{
    struct simba__spin_wait wait = {0};
    int64_t begun, allowed, last;
    int ready = 0;

    if (self->spin.most_ns == 0 || timeout_ms == 0) {
        return poll(set, count, timeout_ms);
    }
    begun = read_clock();
    allowed = look(self, begun);
    last = allowed > 0 ? read_clock() : begun; /* it may have read files */
    while (ready == 0 && wait.looked_ns < allowed) {
        int64_t now;

        ready = poll(set, count, 0);
        if (ready == 0) { /* who was woken here may be whom we wait for */
            sched_yield();
        }
        now = read_clock();
        wait.takings += now - last >= SIMBA__SPIN_TAKEN_NS;
        wait.looked_ns += now - last;
        last = now;
    }
    wait.is_vain = ready == 0;
    if (ready == 0) {
        ready = poll(set, count, timeout_ms);
    }
    wait.waited_ns = read_clock() - begun;
    learn(self, &wait);
    return ready;
}
