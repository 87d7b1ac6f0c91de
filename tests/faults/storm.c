/* A storm of real faults over contenders of several mutexes.
 *
 *   storm STORE FAULTS SECONDS SEED [LIMIT]
 *   storm --nemeses
 *
 * The second tells which nemesis can be on which store, as docs/faults.md has
 * it. The first ends after so many faults or so many seconds, whichever is
 * first. What befalls them is drawn from the seed; what becomes of it, the
 * oracle says. LIMIT is one nemesis that shows what no lock can keep
 * (docs/faults.md): then a breach must be seen. SIMBA, GUARDED, CONTENDER and
 * STEP_CLOCK are set at build time; FAULTS_DIR is where the run is left, else
 * it is removed. Prints TAP. */
#define _GNU_SOURCE
#include "storm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    OUTLIVE_MS = 5000, /* of leases, at the end */
    HEAL_LEASES = 20,
    HEAL_MS =
        20000, /* a Redis server that was restarted is not asked at once */
};

static const char *const mutexes[] = {"bare", "set", "fenced"};
enum { MUTEXES = sizeof mutexes / sizeof mutexes[0] };

struct storm storm;

void storm_die(const char *what)
{
    fprintf(stderr, "storm: %s: %s\n", what, strerror(errno));
    abort();
}

/* --- contenders ---------------------------------------------------------- */

int storm_lease_ms(void)
{
    return storm.store->ttl_ms + storm.store->transition_ms;
}

static void become_contender(const struct contender *c, uint64_t chance)
{
    char url[2048], seed[128] = "", trace[300] = "", ttl[16], transition[16],
                    length[16], err[300];
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Messages are delayed and doubled for half of them. One that comes for
     * the second time when all is over may queue for nobody, which costs an
     * offer of 300 ms at each turn: so these are few. */
    if (chance % 2 == 0) {
        snprintf(seed, sizeof seed,
                 "fault:seed=%" PRIu64
                 ",delay=6,double=4,nth=90,as=echo,late=200:",
                 chance % 1000000);
    }
    if (!storm.is_short) {
        snprintf(trace, sizeof trace, "trace:%s/trace.jsonl:", storm.directory);
    }
    snprintf(url, sizeof url, "%s%s%s", trace, seed, store_urls[c->side]);
    snprintf(err, sizeof err, "%s/err", storm.directory);
    fd = open(err, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    snprintf(err, sizeof err, "%s/clock", storm.directory);
    setenv("SIMBA_SERVER_CLOCK", err, 1);
    setenv("LD_PRELOAD", STEP_CLOCK, 1);
    setenv("SIMBA_STORE", url, 1);
    snprintf(length, sizeof length, "%d",
             section_length_ms(chance / 2 & ~storm.longer, storm_lease_ms()));
    if (c->is_command) {
        snprintf(ttl, sizeof ttl, "%dms", storm.store->ttl_ms);
        snprintf(transition, sizeof transition, "%dms",
                 storm.store->transition_ms);
        /* CMD itself dies with its guardian; what it started need not. */
        bool is_child = storm.longer != 0 || chance >> 40 & 1;

        execl(SIMBA, SIMBA, "-q", "lock", mutexes[c->mutex], "--ttl", ttl,
              "--transition", transition, "-w", "10s", "--", "sh", "-c",
              is_child ? "\"$@\"; :" : "exec \"$@\"", "sh", GUARDED,
              storm.directory, length, (char *)NULL);
    } else {
        snprintf(ttl, sizeof ttl, "%d", storm.store->ttl_ms);
        snprintf(transition, sizeof transition, "%d",
                 storm.store->transition_ms);
        execl(CONTENDER, CONTENDER, url, mutexes[c->mutex], storm.directory,
              ttl, transition, (char *)NULL);
    }
    _exit(127);
}

static bool is_crash(int signal)
{
    return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS ||
           signal == SIGILL || signal == SIGFPE;
}

/* Who has ended comes again, unless all is over. */
static void tend(uint64_t *chance)
{
    struct fleet *fleet = storm.fleet;
    pid_t ended;
    int status;

    while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
        fleet->crashed += WIFSIGNALED(status) && is_crash(WTERMSIG(status));
        for (int i = 0; i < fleet->count; i++) {
            if (fleet->contenders[i].pid == ended) {
                fleet->contenders[i].pid = 0;
            }
        }
    }
    for (int i = 0; i < fleet->count && !fleet->is_over; i++) {
        struct contender *c = &fleet->contenders[i];

        if (c->pid == 0) {
            uint64_t drawn = nemesis_draw_by(chance);
            pid_t pid;

            c->side = (int)(drawn >> 41) % SIDES;
            pid = fork();

            if (pid == 0) {
                become_contender(c, drawn);
            }
            c->pid = pid;
        }
    }
}

void storm_rest_ms(int64_t ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

int storm_find_tree(pid_t root, pid_t *pids, int count)
{
    char path[64], text[1024];
    FILE *file;
    size_t length;

    if (count == TREE_MOST) {
        return count;
    }
    pids[count++] = root;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)root,
             (int)root);
    file = fopen(path, "re");
    if (file == NULL) {
        return count;
    }
    length = fread(text, 1, sizeof text - 1, file);
    text[length] = '\0';
    fclose(file);
    for (char *at = text, *end; *at != '\0'; at = end) {
        long pid = strtol(at, &end, 10);

        if (end == at) {
            break;
        }
        count = storm_find_tree((pid_t)pid, pids, count);
    }
    return count;
}

/* What is left below us ends, whoever its parent was. */
static void end_all(void)
{
    pid_t pids[TREE_MOST];

    for (int i = 0; i < storm.fleet->count; i++) {
        if (storm.fleet->contenders[i].pid > 0) {
            (void)kill(storm.fleet->contenders[i].pid, SIGTERM);
        }
    }
    for (int tries = 0; tries < 40; tries++) {
        int count = storm_find_tree(getpid(), pids, 0);

        if (count == 1) {
            break;
        }
        for (int i = 1; i < count && tries >= 20; i++) {
            (void)kill(pids[i], SIGKILL);
        }
        storm_rest_ms(100);
        tend(NULL);
    }
}

/* The keeper of the contenders: all that they start is below it, and nothing
 * else is. */
static pid_t start_keeper(uint64_t chance)
{
    pid_t pid = fork();

    if (pid != 0) {
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    close_range(3, ~0U, 0); /* a proxy is to hear alone on its port */
    while (!storm.fleet->is_over) {
        tend(&chance);
        storm_rest_ms(5);
    }
    end_all();
    _exit(0);
}

/* --- the run ------------------------------------------------------------- */

static void stop(int signal)
{
    storm.stopped_by = signal;
}

static bool has_keeper(void)
{
    siginfo_t ended = {.si_pid = 0};

    return waitid(P_PID, (id_t)storm.keeper, &ended,
                  WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0;
}

bool storm_goes_on(void)
{
    return storm.stopped_by == 0 && has_keeper();
}

static int test_count, failed_count;

static void ok(bool is_good, const char *what)
{
    printf("%sok %d - %s: %s\n", is_good ? "" : "not ", ++test_count,
           storm.store->name, what);
    failed_count += !is_good;
}

static void begin(uint64_t chance)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    char path[300];

    if (file == NULL || fscanf(file, "%36s", storm.boot) != 1) {
        storm_die("boot_id");
    }
    fclose(file);
    snprintf(path, sizeof path, "%s/faults.jsonl", storm.directory);
    storm.faults = fopen(path, "we");
    if (storm.faults == NULL) {
        storm_die(path);
    }
    shell("echo 0 >'%s/clock'", storm.directory);
    storm.store->open(storm.directory);
    shell("SIMBA_STORE='%s' timeout 20 '%s' init", store_urls[0], SIMBA);
    storm.fleet = mmap(NULL, sizeof *storm.fleet, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (storm.fleet == MAP_FAILED) {
        storm_die("mmap");
    }
    for (int i = 0; i < MUTEXES; i++) {
        for (int k = 0; k < (storm.is_short ? 3 : 4); k++) {
            storm.fleet->contenders[storm.fleet->count++] =
                (struct contender){.is_command = k % 2 == 0, .mutex = i};
        }
    }
    storm.keeper = start_keeper(chance);
}

/* How long all may take to go on, from now. */
static int64_t heal_end_us(void)
{
    return section_now_us() +
           (HEAL_MS + storm_lease_ms() * HEAL_LEASES) * INT64_C(1000);
}

/* When all is well again, every mutex changes hands. */
static bool is_healed(void)
{
    int64_t since = section_now_us();
    int64_t end = heal_end_us();

    for (int i = 0; i < MUTEXES; i++) {
        while (oracle_count_since(storm.directory, mutexes[i], since) < 2) {
            if (section_now_us() > end || !has_keeper()) {
                printf("# nobody gets %s\n", mutexes[i]);
                return false;
            }
            storm_rest_ms(100);
        }
    }
    printf("# healed after %" PRId64 " ms\n",
           (section_now_us() - since) / 1000);
    return true;
}

static double percent(int64_t part, int64_t whole)
{
    return whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
}

/* For how long, and each reason once. A storm in which everything is excused
 * proves nothing. */
static void tell_excuses(const struct verdict *v)
{
    printf("# excused: %.1f %% of the time for all, and a process in %.1f %% "
           "more\n",
           percent(v->excused_us, v->span_us),
           percent(v->partly_us, v->span_us));
    for (size_t i = 0; i < storm.excuse_count; i++) {
        const char *why = storm.excuses[i].why;
        size_t times = 0, overlaps = 0, first = i;

        for (size_t k = 0; k < storm.excuse_count; k++) {
            if (strcmp(storm.excuses[k].why, why) == 0) {
                first = k < first ? k : first;
                times++;
                overlaps += storm.excuses[k].count;
            }
        }
        if (first == i) {
            printf("# excuse: %s, %zu times, %zu overlaps\n", why, times,
                   overlaps);
        }
    }
}

/* Why no more faults struck. */
static void tell_end(int faults)
{
    if (storm.stopped_by != 0) {
        printf("# stopped by signal %d before the %d faults had struck\n",
               (int)storm.stopped_by, faults);
    } else if (has_keeper() && nemesis_count_faults() < faults) {
        printf("# the time was up before the %d faults had struck\n", faults);
    }
}

/* The keeper ends when it is told to, or contenders were missing. */
static void end_keeper(void)
{
    int status;

    storm.fleet->is_over = true;
    if (waitpid(storm.keeper, &status, 0) != storm.keeper) {
        storm_die("the keeper of the contenders");
    }
    if (WIFSIGNALED(status)) {
        printf("# the keeper of the contenders was killed by signal %d\n",
               WTERMSIG(status));
    }
    ok(status == 0, "contenders were there until the end");
    ok(storm.fleet->crashed == 0, "no contender crashed");
}

static void report(int64_t began_us, uint64_t seed, const char *limit)
{
    struct verdict v =
        oracle_judge(storm.directory, storm.excuses, storm.excuse_count);

    printf("# %s, seed %" PRIu64 ": %d faults in %" PRId64 " s;",
           storm.store->name, seed, nemesis_count_faults(),
           (section_now_us() - began_us) / 1000000);
    for (int i = 0; nemeses[i].name != NULL; i++) {
        if (nemeses[i].count > 0) {
            printf(" %s %d,", nemeses[i].name, nemeses[i].count);
        }
    }
    printf(
        "\n# %zu sections, %zu overlaps, %zu excused, %zu tokens back; longest "
        "without an owner %" PRId64 " ms\n",
        v.sections, v.overlaps, v.excused, v.tokens_back, v.longest_us / 1000);
    printf(
        "# set by the lock alone: %zu added, %zu lost; set by the token: %zu "
        "added, %zu lost\n",
        v.added[0], v.lost[0], v.added[1], v.lost[1]);
    tell_excuses(&v);
    if (limit != NULL) {
        ok(v.excused + v.overlaps > 0, "the limit shows: two are inside");
    } else {
        ok(v.overlaps == 0, "no two were inside (S1)");
        ok(v.tokens_back == 0, "tokens grew (S4)");
        ok(storm.stopped_by != 0 || v.lost[0] > 0,
           "the set guarded by the lock alone is seen to lose updates");
    }
    ok(v.lost[1] == 0 && v.added[1] > 0,
       "the set guarded by the token lost none");
}

/* Which nemesis can be on which store; "limit": if it is named only. */
static void tell_nemeses(void)
{
    const struct store *store;

    fputs("| nemesis |", stdout);
    for (size_t n = 0; (store = store_at(n)) != NULL; n++) {
        printf(" %s |", store->name);
    }
    fputs("\n|---|", stdout);
    for (size_t n = 0; store_at(n) != NULL; n++) {
        fputs("---|", stdout);
    }
    putchar('\n');
    for (const struct nemesis *it = nemeses; it->name != NULL; it++) {
        printf("| %s |", it->name);
        for (size_t n = 0; (store = store_at(n)) != NULL; n++) {
            printf(" %s |", !nemesis_is_possible(it, store) ? "–"
                            : it->weight == 0               ? "limit"
                                                            : "yes");
        }
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    int faults = argc > 2 ? atoi(argv[2]) : 0;
    int64_t began_us = section_now_us(), end_us;
    const char *keep = getenv("FAULTS_DIR");
    struct nemesis *limit = NULL;
    size_t added;
    uint64_t seed;

    if (argc == 2 && strcmp(argv[1], "--nemeses") == 0) {
        tell_nemeses();
        return 0;
    }
    storm.store = argc >= 5 ? store_find(argv[1]) : NULL;
    if (storm.store == NULL) {
        fputs("usage: storm STORE FAULTS SECONDS SEED [LIMIT]\n", stderr);
        return 64;
    }
    if (argc > 5) {
        limit = nemesis_find(argv[5]);
        storm.longer = 7;
        if (limit == NULL) {
            fprintf(stderr, "storm: %s has no nemesis '%s'\n", argv[1],
                    argv[5]);
            return 64;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    signal(SIGHUP, stop);
    seed = strtoull(argv[4], NULL, 10);
    snprintf(storm.directory, sizeof storm.directory, "%s",
             keep != NULL ? keep : "/tmp/simba-faults-XXXXXX");
    if (keep == NULL && mkdtemp(storm.directory) == NULL) {
        storm_die(storm.directory);
    }
    storm.is_short = keep == NULL;
    begin(~seed);
    end_us = section_now_us() + atoll(argv[3]) * 1000000;
    storm_rest_ms(500);
    nemesis_strike_all(faults, end_us, seed, limit);
    tell_end(faults);
    /* Or it would prove nothing: somebody's lease is outlived. */
    for (int64_t late_us = heal_end_us();
         limit == NULL && storm_goes_on() && section_now_us() < late_us &&
         oracle_count_lost(storm.directory, "set", &added) == 0;) {
        (void)nemesis_stop_whole(1);
    }
    /* And who does not notice that is seen now at the latest. */
    for (int ms = storm_lease_ms();
         ms <= OUTLIVE_MS && limit == NULL && storm_goes_on();
         ms += storm_lease_ms()) {
        nemesis_outlive();
    }
    ok(is_healed(), "all go on after the faults");
    end_keeper();
    if (limit == NULL && storm.store->agree != NULL) {
        ok(storm.store->agree(), "the servers agree, as (b) of S1 asks");
    }
    store_close_proxies();
    if (storm.store->close != NULL) {
        storm.store->close();
    }
    report(began_us, seed, limit == NULL ? NULL : limit->name);
    fclose(storm.faults);
    printf("1..%d\n", test_count);
    if (keep == NULL) {
        shell("rm -rf '%s'", storm.directory);
    }
    return failed_count > 0;
}
