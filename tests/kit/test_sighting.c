/* What one who waits has seen of an owner: when it may take over. */
#define _GNU_SOURCE
#include "fixtures/unit_test.h"

#include <simba/sys/session_store.h>

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEASE = 3000, FREE_AT = LEASE + SIMBA_SIGHTING_MARGIN_MS };

static int64_t left(const simba_sighting *seen, int64_t owner, int64_t now_ms)
{
    return simba_sighting_left_ms(seen, owner, LEASE, now_ms);
}

TEST(test_sighting__counts_from_when_it_saw_the_last_change)
{
    simba_sighting seen = {0};

    simba_sighting_note(&seen, 5, 7, 1000);
    simba_sighting_note(&seen, 5, 7, 2000); /* nothing new */
    assert_int_equal(left(&seen, 5, 2000), FREE_AT - 1000);
    assert_true(left(&seen, 5, 1000 + FREE_AT) <= 0);
    simba_sighting_note(&seen, 5, 8, 3000); /* a renewal */
    assert_int_equal(left(&seen, 5, 3500), FREE_AT - 500);
    simba_sighting_note(&seen, 5, 0, 4000); /* its session is gone */
    assert_int_equal(left(&seen, 5, 4000), FREE_AT);
    simba_sighting_note(&seen, 9, 0, 5000); /* another owner */
    assert_int_equal(left(&seen, 9, 5000), FREE_AT);
}

TEST(test_sighting__says_nothing_of_what_was_not_seen)
{
    simba_sighting seen = {0};

    simba_sighting_note(&seen, 5, -1, 1000);
    assert_int_equal(left(&seen, 5, 900000), FREE_AT);
    simba_sighting_note(&seen, 5, 7, 1000);
    assert_int_equal(left(&seen, 6, 900000), FREE_AT);
}

TEST(test_sighting__is_counted_on_by_a_later_process)
{
    simba_sighting seen = {5, 7, 1000}, later = {5, 7, 3000};
    char text[SIMBA_SIGHTING_TEXT];

    simba_sighting_write(&seen, text);
    assert_true(simba_sighting_read(&later, text, strlen(text)));
    assert_int_equal(later.since_ms, 1000);
    later = (simba_sighting){5, 8, 3000};
    assert_false(simba_sighting_read(&later, text, strlen(text)));
    later = (simba_sighting){6, 7, 3000};
    assert_false(simba_sighting_read(&later, text, strlen(text)));
    later = (simba_sighting){5, 7, 500}; /* it was kept in the future */
    assert_false(simba_sighting_read(&later, text, strlen(text)));
    assert_false(simba_sighting_read(&later, "5 7", 3));
    assert_false(simba_sighting_read(&later, NULL, 0));
    assert_int_equal(later.since_ms, 500);
}

TEST(test_sighting__clock_has_a_name_that_stays)
{
    char one[SIMBA_CLOCK_ID], again[SIMBA_CLOCK_ID];

    simba_clock_id(one);
    simba_clock_id(again);
    assert_string_equal(one, again);
    assert_true(strlen(one) > 36);
}

static bool has_no_boot_id;
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

FILE *__wrap_fopen(const char *path, const char *mode)
{
    return has_no_boot_id && strstr(path, "boot_id") != NULL
               ? NULL
               : __real_fopen(path, mode);
}

/* Else each process would keep what it has seen under a name of its own. */
TEST(test_sighting__clock_without_a_boot_id_has_no_name)
{
    char id[SIMBA_CLOCK_ID];

    has_no_boot_id = true;
    simba_clock_id(id);
    has_no_boot_id = false;
    assert_string_equal(id, "");
}

/* The name of the clock in a new time namespace. Not root: false. */
static bool clock_in_namespace(int offset_s, char id[SIMBA_CLOCK_ID])
{
    int pipes[2], status = 1;
    ssize_t length = 0;
    FILE *offsets;
    pid_t child;

    assert_int_equal(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWTIME) != 0 ||
            (offsets = fopen("/proc/self/timens_offsets", "w")) == NULL ||
            fprintf(offsets, "boottime %d 0", offset_s) < 0 ||
            fclose(offsets) != 0) {
            _exit(1);
        }
        child = fork();
        if (child == 0) {
            simba_clock_id(id);
            _exit(write(pipes[1], id, SIMBA_CLOCK_ID) != SIMBA_CLOCK_ID);
        }
        _exit(waitpid(child, &status, 0) != child || status != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status == 0) {
        length = read(pipes[0], id, SIMBA_CLOCK_ID);
    }
    close(pipes[0]);
    close(pipes[1]);
    return length == SIMBA_CLOCK_ID;
}

/* The number of a namespace is given to another one when it has ended. */
TEST(test_sighting__namespaces_are_told_apart_by_their_clocks)
{
    char ours[SIMBA_CLOCK_ID], later[SIMBA_CLOCK_ID] = "";
    char same[SIMBA_CLOCK_ID] = "", other[SIMBA_CLOCK_ID] = "";

    if (!clock_in_namespace(100, later)) {
        skip();
    }
    simba_clock_id(ours);
    assert_true(clock_in_namespace(100, same));
    assert_true(clock_in_namespace(200, other));
    assert_string_equal(later, same);
    assert_string_not_equal(later, other);
    assert_string_not_equal(later, ours);
}
