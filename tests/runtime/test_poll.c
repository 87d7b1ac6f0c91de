/* Waiting for descriptors: may it look, and what it counts. */
#define _GNU_SOURCE
#include "runtime/poll.h"

#include "fixtures/directory.h"
#include "fixtures/unit_test.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- cgroups ------------------------------------------------------------- */

static void put(const char *name, const char *text)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    for (char *c = path + strlen(directory) + 1; (c = strchr(c, '/')) != NULL;
         c++) {
        *c = '\0';
        (void)mkdir(path, 0700);
        *c = '/';
    }
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* An empty directory, so that none sees files of another. */
static void begin(void)
{
    (void)remove_directory(NULL);
    assert_int_equal(mkdir(directory, 0700), 0);
}

static bool have_cpus(int cpus)
{
    char list[128];

    (void)snprintf(list, sizeof list, "%s/list", directory);
    return simba__cgroups_have_cpus(list, directory, cpus);
}

TEST(test_poll__cgroups_without_files_limit_nothing)
{
    begin();
    assert_true(have_cpus(2));
    put("list", "0::/a/b\n");
    assert_true(have_cpus(2));
}

TEST(test_poll__reads_the_quota_of_a_cgroup_and_of_all_above_it)
{
    begin();
    put("list", "0::/a/b\n");
    put("a/b/cpu.max", "max 100000\n");
    assert_true(have_cpus(2));
    put("a/b/cpu.max", "200000 100000\n");
    assert_true(have_cpus(2));
    put("a/b/cpu.max", "150000 100000\n");
    assert_false(have_cpus(2));
    put("a/b/cpu.max", "max 100000\n");
    put("a/cpu.max", "50000 50000\n");
    assert_false(have_cpus(2));
    put("a/cpu.max", "max 100000\n");
    put("cpu.max", "10000 100000\n"); /* in a container, its own */
    assert_false(have_cpus(2));
}

TEST(test_poll__reads_the_quota_of_version_1)
{
    begin();
    put("list", "12:memory:/x\n5:cpu,cpuacct:/docker/1\n");
    put("cpu/docker/1/cpu.cfs_quota_us", "-1\n");
    put("cpu/docker/1/cpu.cfs_period_us", "100000\n");
    assert_true(have_cpus(2));
    put("cpu/docker/1/cpu.cfs_quota_us", "100000\n");
    assert_false(have_cpus(2));
    put("cpu/docker/1/cpu.cfs_period_us", "10000\n");
    assert_true(have_cpus(2));
}

/* --- waiting ------------------------------------------------------------- */

struct pipe {
    struct simba__loop_metrics metrics;
    struct simba__poll poll;
    struct pollfd set;
    int to;
};

/* Whatever it has seen so far: on a busy machine, that it does not pay. */
static void look_next(struct pipe *p)
{
    simba__spin_init(&p->poll.spin, 1000);
    p->poll.spin.is_looking = true;
}

static void set_up(struct pipe *p)
{
    int ends[2];

    *p = (struct pipe){.poll.metrics = &p->metrics};
    assert_int_equal(pipe(ends), 0);
    p->set = (struct pollfd){.fd = ends[0], .events = POLLIN};
    p->to = ends[1];
    look_next(p);
    /* Whatever this machine is: */
    p->poll.asked_ns = INT64_MAX / 2;
    p->poll.thread = pthread_self();
    p->poll.has_cpus = p->poll.is_fit = true;
}

static void tear_down(const struct pipe *p)
{
    (void)close(p->set.fd);
    (void)close(p->to);
}

TEST(test_poll__counts_what_it_looked)
{
    struct pipe p;

    set_up(&p);
    assert_int_equal(simba__poll(&p.poll, &p.set, 1, 2), 0);
    assert_int_equal(p.metrics.spins, 1);
    assert_int_equal(p.metrics.spins_in_vain, 1);
    assert_true(p.metrics.spin_ns >= 1000000);
    look_next(&p);
    assert_int_equal(write(p.to, "x", 1), 1);
    assert_int_equal(simba__poll(&p.poll, &p.set, 1, 2), 1);
    assert_int_equal(p.set.revents, POLLIN);
    assert_int_equal(p.metrics.spins, 2);
    assert_int_equal(p.metrics.spins_in_vain, 1);
    tear_down(&p);
}

TEST(test_poll__sleeps_when_it_is_off)
{
    struct pipe p;

    set_up(&p);
    simba__spin_init(&p.poll.spin, 0);
    p.poll.spin.is_looking = true;
    assert_int_equal(simba__poll(&p.poll, &p.set, 1, 2), 0);
    assert_int_equal(p.metrics.spins, 0);
    tear_down(&p);
}

TEST(test_poll__never_looks_on_one_cpu)
{
    struct pipe p;
    cpu_set_t all, one;

    set_up(&p);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
        }
    }
    p.poll.asked_ns = 0;
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(simba__poll(&p.poll, &p.set, 1, 2), 0);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(p.metrics.spins, 0);
    tear_down(&p);
}

TEST(test_poll__never_looks_in_another_class)
{
    struct pipe p;
    const struct sched_param none = {0};

    set_up(&p);
    p.poll.asked_ns = 0;
    assert_int_equal(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    assert_int_equal(simba__poll(&p.poll, &p.set, 1, 2), 0);
    assert_int_equal(p.metrics.spins, 0);
    tear_down(&p); /* and the program is at its end: there is no way back */
}

int main(void)
{
    return run_unit_tests(make_directory, remove_directory);
}
