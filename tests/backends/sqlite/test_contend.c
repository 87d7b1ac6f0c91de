/* Eight processes want one mutex, as fast as they can; some are killed while
 * they have it. Nobody may ever be inside with another. */
#define _GNU_SOURCE
#include <simba/error.h>

/* Whoever has the database's lock may be kept from running meanwhile. */
#define MAY_PASS(status) ((status) == SIMBA_EUNAVAIL)
#include "other_process.h"

#include <sys/mman.h>

/* They are let for so long, and until so many tenures came of it. */
enum { CROWD = 8, RUN_MS = 2000, ENTRIES = 100 };

/* On a busy machine: far less than the lease of 16 s; what only a fault takes;
 * and when one that nobody ended ends itself. */
enum { SOON_MS = 8000, SLOW_MS = 60000, ALONE_MS = 120000 };

/* In a file that all of them map. */
struct arena {
    _Atomic int inside;
    _Atomic int collisions;
    _Atomic long entries;
    _Atomic uint64_t last_token;
    _Atomic int unordered;
    _Atomic bool is_over; /* all shall end */
};

static struct arena *map_arena(void)
{
    char path[128];
    struct arena *arena;
    int fd;

    snprintf(path, sizeof path, "%s.arena", database);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, sizeof *arena), 0);
    arena =
        mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    assert_ptr_not_equal(arena, MAP_FAILED);
    return arena;
}

/* Who dies inside stays counted: the number says whose process it is, and a
 * successor takes it over from one that is gone. */
static void enter(struct arena *arena)
{
    int nobody = 0;

    if (!__atomic_compare_exchange_n((int *)&arena->inside, &nobody, getpid(),
                                     false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST)) {
        char path[64], state = '?';
        FILE *file;

        snprintf(path, sizeof path, "/proc/%d/stat", nobody);
        file = fopen(path, "r");
        if (file != NULL) {
            if (fscanf(file, "%*d %*s %c", &state) != 1) {
                state = '?';
            }
            fclose(file);
        }
        /* A zombie's threads have all ended. */
        if (file != NULL && state != 'Z' && state != 'X') {
            arena->collisions++;
        }
        arena->inside = getpid();
    }
    arena->entries++;
    if (got.token <= arena->last_token) {
        arena->unordered++;
    }
    arena->last_token = got.token;
}

/* On a busy machine many may pass who is called and does not come in time. */
static bool contend_long(struct who *who)
{
    int64_t until_ms = simba_loop_now_ms() + SLOW_MS;
    bool is_granted = contend(who);

    while (!is_granted && simba_loop_now_ms() < until_ms) {
        is_granted = contend(who);
    }
    return is_granted;
}

static int crowd(int argc, char **argv)
{
    int64_t until_ms = simba_loop_now_ms() + ALONE_MS;
    struct arena *arena;

    if (argc < 5 || strcmp(argv[1], "crowd") != 0) {
        return -1;
    }
    snprintf(database, sizeof database, "%s", argv[2]);
    arena = map_arena();
    must_open(&first, argv[3]);
    while (!arena->is_over && simba_loop_now_ms() < until_ms) {
        struct who who = person(&first, argv[4]);

        if (!contend_long(&who)) {
            return 1;
        }
        enter(arena);
        nap_ms(arena->entries % 7 == 0);
        arena->inside = 0;
        release(&who);
    }
    handle_close(&first);
    return 0;
}

static void expect_exclusion(const struct arena *arena)
{
    print_message("%ld tenures\n", arena->entries);
    assert_int_equal(arena->collisions, 0);
    assert_int_equal(arena->unordered, 0);
}

static void await_entries(const struct arena *arena, long count, int most_ms)
{
    int64_t until_ms = simba_loop_now_ms() + most_ms;

    while (arena->entries < count && simba_loop_now_ms() < until_ms) {
        nap_ms(1);
    }
    assert_true(arena->entries >= count);
}

SQLITE_TEST(test_sqlite_contend__one_at_a_time)
{
    struct arena *arena = map_arena();
    struct child children[CROWD];

    for (int i = 0; i < CROWD; i++) {
        children[i] = start("crowd", "", "somebody");
    }
    nap_ms(RUN_MS);
    await_entries(arena, ENTRIES + 1, SLOW_MS);
    arena->is_over = true;
    for (int i = 0; i < CROWD; i++) {
        finish(&children[i], 0);
    }
    expect_exclusion(arena);
    assert_int_equal(count_files(""), 0);
    munmap(arena, sizeof *arena);
}

SQLITE_TEST(test_sqlite_contend__killed_ones_do_not_stop_it)
{
    struct arena *arena = map_arena();
    struct child children[CROWD];

    for (int i = 0; i < CROWD; i++) {
        children[i] = start("crowd", "", "somebody");
    }
    await_entries(arena, CROWD, SLOW_MS);
    for (int i = 0; i < CROWD - 2; i++) {
        nap_ms(50); /* so that each is killed at another point */
        finish(&children[i], SIGKILL);
        await_entries(arena, arena->entries + 5, SOON_MS);
    }
    arena->is_over = true;
    finish(&children[CROWD - 2], 0);
    finish(&children[CROWD - 1], 0);
    expect_exclusion(arena);
    munmap(arena, sizeof *arena);
}

/* All come to an empty directory at once. */
SQLITE_TEST(test_sqlite_contend__first_use_by_all_at_once)
{
    for (int round = 0; round < 5; round++) {
        struct child children[CROWD];
        int lines = 0;

        snprintf(database, sizeof database, "%s/%d/simba.db", directory, round);
        for (int i = 0; i < CROWD; i++) {
            children[i] = start("stand", "", "somebody");
        }
        for (int i = 0; i < CROWD; i++) {
            char line[64] = "";

            assert_non_null(fgets(line, sizeof line, children[i].says));
            lines += strcmp(line, "queued\n") == 0;
        }
        for (int i = 0; i < CROWD; i++) {
            finish(&children[i], SIGKILL);
        }
        assert_int_equal(lines, CROWD - 1);
    }
}

int main(int argc, char **argv)
{
    int rc = crowd(argc, argv);

    if (rc < 0) {
        rc = play(argc, argv);
    }
    return rc >= 0 ? rc : run_unit_tests(NULL, NULL);
}
