/* Eight processes want one mutex for two seconds, as fast as they can; some are
 * killed while they have it. Nobody may ever be inside with another. */
#define _GNU_SOURCE
#include "other_process.h"

#include <sys/mman.h>

enum { CROWD = 8, RUN_MS = 2000 };

/* In a file that all of them map. */
struct arena {
    _Atomic int inside;
    _Atomic int collisions;
    _Atomic long entries;
    _Atomic uint64_t last_token;
    _Atomic int unordered;
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

static int crowd(int argc, char **argv)
{
    int64_t until_ms = simba_loop_now_ms() + RUN_MS;
    struct arena *arena;

    if (argc < 5 || strcmp(argv[1], "crowd") != 0) {
        return -1;
    }
    snprintf(database, sizeof database, "%s", argv[2]);
    arena = map_arena();
    must_open(&first, argv[3]);
    while (simba_loop_now_ms() < until_ms) {
        struct who who = person(&first, argv[4]);

        if (!contend(&who)) {
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

SQLITE_TEST(test_sqlite_contend__one_at_a_time)
{
    struct arena *arena = map_arena();
    struct child children[CROWD];

    for (int i = 0; i < CROWD; i++) {
        children[i] = start("crowd", "", "somebody");
    }
    for (int i = 0; i < CROWD; i++) {
        finish(&children[i], 0);
    }
    expect_exclusion(arena);
    assert_true(arena->entries > 100);
    assert_int_equal(count_files(""), 0);
    munmap(arena, sizeof *arena);
}

SQLITE_TEST(test_sqlite_contend__killed_ones_do_not_stop_it)
{
    struct arena *arena = map_arena();
    struct child children[CROWD];
    int64_t until_ms;
    long before;

    for (int i = 0; i < CROWD; i++) {
        children[i] = start("crowd", "", "somebody");
    }
    nap_ms(300);
    for (int i = 0; i < CROWD - 2; i++) {
        nap_ms(50);
        finish(&children[i], SIGKILL);
        before = arena->entries;
        until_ms = simba_loop_now_ms() + 1000; /* a lease would be 16 s */
        while (arena->entries < before + 5 && simba_loop_now_ms() < until_ms) {
            nap_ms(1);
        }
        assert_true(arena->entries >= before + 5);
    }
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
