/* A storm of real faults over contenders of several mutexes.
 *
 *   storm STORE FAULTS SECONDS SEED [LIMIT]
 *
 * ends after so many faults or so many seconds, whichever is first. What
 * befalls them is drawn from the seed; what becomes of it, the oracle says.
 * LIMIT is one nemesis that shows what no lock can keep (docs/faults.md): then
 * a breach must be seen. SIMBA, GUARDED, CONTENDER and STEP_CLOCK are set at
 * build time; FAULTS_DIR is where the run is left, else it is removed. Prints
 * TAP. */
#define _GNU_SOURCE
#include "oracle.h"
#include "section.h"
#include "stores.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    CONTENDERS_MOST = 16,
    TREE_MOST = 64,
    HEAL_LEASES = 20,
    HEAL_MS =
        20000, /* a Redis server that was restarted is not asked at once */
};

static const char *const mutexes[] = {"bare", "set", "fenced"};
enum { MUTEXES = sizeof mutexes / sizeof mutexes[0] };

struct contender {
    pid_t pid;
    bool is_command; /* of the command line, else of the API */
    int mutex;
};

static struct storm {
    const struct store *store;
    char directory[256], boot[40];
    uint64_t state, contenders_state; /* of chance */
    struct contender contenders[CONTENDERS_MOST];
    int contender_count;
    bool is_over;
    bool is_short;   /* with few contenders and no trace: nobody keeps it */
    uint64_t longer; /* 7: all sections are long, to be seen in a limit */
    struct excuse *excuses;
    size_t excuse_count, excuse_room;
    int outlived; /* leases that were outlived by a stopped command */
    FILE *faults; /* a log that simba verify reads */
} storm;

/* --- chance and time ----------------------------------------------------- */

/* splitmix64 */
static uint64_t draw_by(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* For the nemesis. */
static uint64_t draw(uint64_t below)
{
    return draw_by(&storm.state) % below;
}

static int lease_ms(void)
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
    snprintf(url, sizeof url, "%s%s%s", trace, seed, store_url);
    snprintf(err, sizeof err, "%s/err", storm.directory);
    fd = open(err, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    snprintf(err, sizeof err, "%s/clock", storm.directory);
    setenv("SIMBA_SERVER_CLOCK", err, 1);
    setenv("LD_PRELOAD", STEP_CLOCK, 1);
    setenv("SIMBA_STORE", url, 1);
    snprintf(length, sizeof length, "%d",
             section_length_ms(chance / 2 & ~storm.longer, lease_ms()));
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

/* Who has ended comes again, unless all is over. */
static void tend(void)
{
    int status;
    pid_t ended;

    while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int i = 0; i < storm.contender_count; i++) {
            if (storm.contenders[i].pid == ended) {
                storm.contenders[i].pid = 0;
            }
        }
    }
    for (int i = 0; i < storm.contender_count && !storm.is_over; i++) {
        struct contender *c = &storm.contenders[i];

        if (c->pid == 0) {
            uint64_t chance = draw_by(&storm.contenders_state);

            c->pid = fork();
            if (c->pid == 0) {
                become_contender(c, chance);
            }
        }
    }
}

static void rest_ms(int64_t ms)
{
    int64_t end = section_now_us() + ms * 1000;

    do {
        tend();
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    } while (section_now_us() < end);
}

/* --- processes ----------------------------------------------------------- */

/* A process and all below it, itself first. */
static int find_tree(pid_t root, pid_t *pids, int count)
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
        count = find_tree((pid_t)pid, pids, count);
    }
    return count;
}

static bool is_guarded(pid_t pid)
{
    char path[64], name[32] = "";
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    if (fgets(name, sizeof name, file) == NULL) {
        name[0] = '\0';
    }
    fclose(file);
    return strncmp(name, "faults_guarded", 14) == 0;
}

/* The processes of a simba lock whose command runs, its command last; of any
 * mutex, or of this one. False: there is none just now. */
static bool find_inside(int mutex, pid_t *pids, int *count)
{
    int first = (int)draw((uint64_t)storm.contender_count);

    for (int tries = 0; tries < 400; tries++) {
        const struct contender *c =
            &storm.contenders[(first + tries) % storm.contender_count];

        if (c->is_command && c->pid > 0 && (mutex < 0 || c->mutex == mutex)) {
            *count = find_tree(c->pid, pids, 0);
            for (int i = 1; i < *count; i++) {
                if (is_guarded(pids[i])) {
                    pid_t command = pids[i];

                    pids[i] = pids[*count - 1];
                    pids[*count - 1] = command;
                    return true;
                }
            }
        }
        rest_ms(1);
    }
    return false;
}

static void signal_all(const pid_t *pids, int count, int signal)
{
    for (int i = 0; i < count; i++) {
        (void)kill(pids[i], signal);
    }
}

static void excuse(const char *why, pid_t pid, int64_t from_us, int64_t ms)
{
    if (storm.excuse_count == storm.excuse_room) {
        storm.excuse_room = storm.excuse_room == 0 ? 64 : 2 * storm.excuse_room;
        storm.excuses =
            realloc(storm.excuses, storm.excuse_room * sizeof *storm.excuses);
        if (storm.excuses == NULL) {
            abort();
        }
    }
    storm.excuses[storm.excuse_count++] =
        (struct excuse){why, from_us, section_now_us() + ms * 1000, pid, 0};
}

/* --- nemeses: of our processes ------------------------------------------- */

/* A short time within the lease, or one that may be beyond it. */
static int64_t some_ms(void)
{
    uint64_t lease = (uint64_t)lease_ms();

    return (int64_t)(draw(5) < 3 ? draw(lease / 4) : draw(lease * 3 / 2));
}

static int any_node(void)
{
    return storm.store->nodes == 0 ? 0
           : storm.store->leader != NULL && draw(2) == 0
               ? storm.store->leader()
               : (int)draw((uint64_t)storm.store->nodes);
}

/* One process of a contender: of a lock that may be its front, its guardian, or
 * the command. */
static pid_t any_process(void)
{
    pid_t pids[TREE_MOST];
    const struct contender *c =
        &storm.contenders[draw((uint64_t)storm.contender_count)];
    int count = c->pid > 0 ? find_tree(c->pid, pids, 0) : 0;

    return count == 0 ? 0 : pids[draw((uint64_t)count)];
}

static bool kill_one(void)
{
    pid_t pid = any_process();

    return pid > 0 && kill(pid, SIGKILL) == 0;
}

static bool stop_one(void)
{
    pid_t pid = any_process();

    if (pid <= 0 || kill(pid, SIGSTOP) != 0) {
        return false;
    }
    rest_ms(some_ms());
    (void)kill(pid, SIGCONT);
    return true;
}

/* Nobody is left who could end the command: a limit (S6). */
static bool kill_both(void)
{
    pid_t pids[TREE_MOST];
    int64_t from = section_now_us();
    int count;

    if (!find_inside(-1, pids, &count)) {
        return false;
    }
    signal_all(pids, count - 1, SIGKILL);
    excuse("front and guardian killed", pids[count - 1], from,
           SECTION_LEASES * lease_ms());
    return true;
}

/* The whole machine stops, and goes on when its lease is over: the command may
 * run on for a moment (S6). Only tokens protect the resource then. */
static bool stop_whole(int mutex)
{
    pid_t pids[TREE_MOST];
    int64_t from = section_now_us();
    int count;

    if (!find_inside(mutex, pids, &count)) {
        return false;
    }
    signal_all(pids, count, SIGSTOP);
    rest_ms(lease_ms() + 100 + (int64_t)draw((uint64_t)lease_ms()));
    (void)kill(pids[count - 1], SIGCONT);
    rest_ms(100);
    signal_all(pids, count, SIGCONT);
    excuse("a whole machine stopped", pids[count - 1], from, 2000);
    storm.outlived++;
    return true;
}

static bool stop_machine(void)
{
    return stop_whole(draw(2) == 0 ? 1 : 2);
}

static bool take_descriptors(void)
{
    const struct contender *c =
        &storm.contenders[draw((uint64_t)storm.contender_count)];
    struct rlimit old, few = {3 + draw(12), 0};

    if (c->pid <= 0 || prlimit(c->pid, RLIMIT_NOFILE, NULL, &old) != 0) {
        return false;
    }
    few.rlim_max = old.rlim_max;
    if (prlimit(c->pid, RLIMIT_NOFILE, &few, NULL) != 0) {
        return false;
    }
    rest_ms(some_ms());
    (void)prlimit(c->pid, RLIMIT_NOFILE, &old, NULL);
    return true;
}

/* Ownership goes by the boot clock: no excuse. */
static bool step_client_clock(void)
{
    return shell("echo %ld >'%s/clock.new' && mv '%s/clock.new' '%s/clock'",
                 (long)draw(20000) - 10000, storm.directory, storm.directory,
                 storm.directory);
}

/* --- nemeses: of servers ------------------------------------------------- */

static void settle(void)
{
    if (storm.store->settle != NULL) {
        storm.store->settle();
    }
}

static bool kill_server(void)
{
    int node = any_node();

    if (storm.store->kill == NULL) {
        return false;
    }
    storm.store->kill(node);
    if (storm.store->settle == NULL) {
        rest_ms(some_ms());
    }
    /* A master that is back before it is succeeded has forgotten everything. */
    for (int i = 0; i < 300 && storm.store->settle != NULL &&
                    storm.store->leader() == node;
         i++) {
        rest_ms(100);
    }
    storm.store->run(node);
    settle();
    return true;
}

static bool restart_server(void)
{
    int node = any_node();

    if (storm.store->stop == NULL) {
        return false;
    }
    storm.store->stop(node);
    rest_ms(some_ms() / 2);
    storm.store->run(node);
    settle();
    return true;
}

static bool pause_server(void)
{
    int node = any_node();

    if (storm.store->pause == NULL) {
        return false;
    }
    storm.store->pause(node, true);
    rest_ms(some_ms());
    storm.store->pause(node, false);
    settle();
    return true;
}

static bool fail_over(void)
{
    int node;

    if (storm.store->leader == NULL) {
        return false;
    }
    node = storm.store->leader();
    storm.store->pause(node, true);
    rest_ms(lease_ms() * 2);
    storm.store->pause(node, false);
    settle();
    return true;
}

/* A step forward of the server's clock voids (a); one back breaks nothing, but
 * coming back from it is a step forward. */
static bool step_server_clock(void)
{
    int64_t from;

    if (storm.store->step_clock == NULL) {
        return false;
    }
    from = section_now_us();
    storm.store->step_clock((long)draw(6000) - 3000);
    excuse("(a) the server's clock", 0, from, lease_ms() + 300);
    rest_ms(some_ms());
    from = section_now_us();
    storm.store->step_clock(0);
    excuse("(a) the server's clock", 0, from, lease_ms() + 300);
    return true;
}

static bool forget(void)
{
    int64_t from = section_now_us();

    if (storm.store->forget == NULL) {
        return false;
    }
    storm.store->forget();
    excuse("(b) rows deleted", 0, from, lease_ms() + 300);
    return true;
}

static bool end_sessions(void)
{
    if (storm.store->end_sessions == NULL) {
        return false;
    }
    storm.store->end_sessions();
    return true;
}

static bool make_read_only(void)
{
    if (storm.store->set_read_only == NULL) {
        return false;
    }
    storm.store->set_read_only(true);
    rest_ms(some_ms());
    storm.store->set_read_only(false);
    return true;
}

static bool fill_disk(void)
{
    if (storm.store->fill_disk == NULL) {
        return false;
    }
    storm.store->fill_disk(true);
    rest_ms(some_ms());
    storm.store->fill_disk(false);
    return true;
}

/* --- nemeses: of the network --------------------------------------------- */

static struct proxy *any_proxy(void)
{
    return store_proxy_count == 0
               ? NULL
               : store_proxies[draw((uint64_t)store_proxy_count)];
}

static bool cut(void)
{
    struct proxy *proxy = any_proxy();

    if (proxy != NULL) {
        proxy_cut(proxy);
    }
    return proxy != NULL;
}

static bool refuse(void)
{
    struct proxy *proxy = any_proxy();

    if (proxy != NULL) {
        proxy_refuse(proxy, true);
        rest_ms(some_ms());
        proxy_refuse(proxy, false);
    }
    return proxy != NULL;
}

static bool half_open(void)
{
    struct proxy *proxy = any_proxy();

    if (proxy != NULL) {
        proxy_half_open(proxy);
        rest_ms(some_ms() / 2);
        proxy_cut(proxy);
    }
    return proxy != NULL;
}

/* Held one way or both, for a moment or beyond the lease; then what was held
 * arrives late, or is lost. */
static bool hold(bool forth, bool back)
{
    struct proxy *proxy = any_proxy();

    if (proxy == NULL) {
        return false;
    }
    proxy_hold(proxy, forth, back);
    rest_ms(some_ms());
    if (draw(2) == 0) {
        proxy_cut(proxy);
    }
    proxy_hold(proxy, false, false);
    return true;
}

static bool hold_requests(void)
{
    return hold(true, false);
}

static bool hold_replies(void)
{
    return hold(false, true);
}

static bool hold_all(void)
{
    return hold(true, true);
}

/* All ways at once, many times, each for a short while. */
static bool slow_down(void)
{
    for (int i = 0; i < 10 && store_proxy_count > 0; i++) {
        for (int k = 0; k < store_proxy_count; k++) {
            proxy_hold(store_proxies[k], true, draw(2) == 0);
        }
        rest_ms((int64_t)draw(60));
        for (int k = 0; k < store_proxy_count; k++) {
            proxy_hold(store_proxies[k], false, false);
        }
        rest_ms((int64_t)draw(20));
    }
    return store_proxy_count > 0;
}

/* --- limits: what no lock can keep --------------------------------------- */

/* The database file is removed: who comes next makes a new one. */
static bool remove_file(void)
{
    int64_t from = section_now_us();

    shell("rm -f '%s'/disk/store.db*", storm.directory);
    excuse("(b) the file removed", 0, from, lease_ms() * 4);
    return true;
}

static struct nemesis {
    const char *name;
    bool (*strike)(void); /* false: this store has none, or nobody was there */
    int weight;           /* 0: a limit, by its name only */
    int count;
} nemeses[] = {{"kill -9 of a process", kill_one, 8, 0},
               {"front and guardian killed", kill_both, 2, 0},
               {"a process stopped", stop_one, 6, 0},
               {"a machine stopped", stop_machine, 3, 0},
               {"no descriptors", take_descriptors, 2, 0},
               {"client clock stepped", step_client_clock, 3, 0},
               {"server killed", kill_server, 3, 0},
               {"server restarted", restart_server, 2, 0},
               {"server stopped", pause_server, 4, 0},
               {"failover", fail_over, 2, 0},
               {"server clock stepped", step_server_clock, 2, 0},
               {"rows deleted", forget, 1, 0},
               {"sessions ended", end_sessions, 2, 0},
               {"read-only", make_read_only, 2, 0},
               {"disk full", fill_disk, 2, 0},
               {"connections cut", cut, 5, 0},
               {"connections refused", refuse, 3, 0},
               {"half-open", half_open, 3, 0},
               {"requests held", hold_requests, 4, 0},
               {"replies held", hold_replies, 4, 0},
               {"all held", hold_all, 3, 0},
               {"slow", slow_down, 2, 0},
               {"file removed", remove_file, 0, 0}};
enum { NEMESES = sizeof nemeses / sizeof nemeses[0] };

static void strike(struct nemesis *nemesis)
{
    int64_t from = section_now_us();

    if (!nemesis->strike()) {
        return;
    }
    nemesis->count++;
    fprintf(storm.faults,
            "{\"event\":\"fault\",\"fault\":\"%s\",\"boot_ms\":%" PRId64
            ",\"until_ms\":%" PRId64 ",\"boot\":\"%s\"}\n",
            nemesis->name, from / 1000, section_now_us() / 1000, storm.boot);
    fflush(storm.faults);
}

static struct nemesis *any_nemesis(void)
{
    int total = 0, left;

    for (int i = 0; i < NEMESES; i++) {
        total += nemeses[i].weight;
    }
    left = (int)draw((uint64_t)total);
    for (int i = 0; i < NEMESES; i++) {
        left -= nemeses[i].weight;
        if (left < 0) {
            return &nemeses[i];
        }
    }
    return &nemeses[0];
}

static int count_faults(void)
{
    int count = 0;

    for (int i = 0; i < NEMESES; i++) {
        count += nemeses[i].count;
    }
    return count;
}

/* --- the run ------------------------------------------------------------- */

static volatile sig_atomic_t is_stopped;

static void stop(int signal)
{
    (void)signal;
    is_stopped = 1;
}

static int test_count, failed_count;

static void ok(bool is_good, const char *what)
{
    printf("%sok %d - %s: %s\n", is_good ? "" : "not ", ++test_count,
           storm.store->name, what);
    failed_count += !is_good;
}

static void begin(void)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    char path[300];

    if (file == NULL || fscanf(file, "%36s", storm.boot) != 1) {
        abort();
    }
    fclose(file);
    snprintf(path, sizeof path, "%s/faults.jsonl", storm.directory);
    storm.faults = fopen(path, "we");
    shell("echo 0 >'%s/clock'", storm.directory);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    storm.store->open(storm.directory);
    shell("SIMBA_STORE='%s' timeout 20 '%s' init", store_url, SIMBA);
    for (int i = 0; i < MUTEXES; i++) {
        for (int k = 0; k < (storm.is_short ? 3 : 4); k++) {
            storm.contenders[storm.contender_count++] =
                (struct contender){.is_command = k % 2 == 0, .mutex = i};
        }
    }
    tend();
}

/* When all is well again, every mutex changes hands. */
static bool is_healed(void)
{
    int64_t since = section_now_us();
    int64_t end = since + (HEAL_MS + lease_ms() * HEAL_LEASES) * INT64_C(1000);

    for (int i = 0; i < MUTEXES; i++) {
        while (oracle_count_since(storm.directory, mutexes[i], since) < 2) {
            if (section_now_us() > end) {
                printf("# nobody gets %s\n", mutexes[i]);
                return false;
            }
            rest_ms(100);
        }
    }
    printf("# healed after %" PRId64 " ms\n",
           (section_now_us() - since) / 1000);
    return true;
}

/* What is left below us ends, whoever its parent was. */
static void end_all(void)
{
    pid_t pids[TREE_MOST];

    storm.is_over = true;
    for (int i = 0; i < storm.contender_count; i++) {
        if (storm.contenders[i].pid > 0) {
            (void)kill(storm.contenders[i].pid, SIGTERM);
        }
    }
    rest_ms(2000);
    for (int tries = 0; tries < 20; tries++) {
        int count = find_tree(getpid(), pids, 0), ours = 0;

        for (int i = 1; i < count; i++) {
            char path[64], name[32] = "";
            FILE *file;

            snprintf(path, sizeof path, "/proc/%d/comm", (int)pids[i]);
            file = fopen(path, "re");
            if (file != NULL && fgets(name, sizeof name, file) != NULL &&
                (strncmp(name, "simba", 5) == 0 ||
                 strncmp(name, "faults_", 7) == 0)) {
                (void)kill(pids[i], SIGKILL);
                ours++;
            }
            if (file != NULL) {
                fclose(file);
            }
        }
        if (ours == 0) {
            break;
        }
        rest_ms(50);
    }
}

/* Each reason once. */
static void tell_excuses(void)
{
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

static void report(int64_t began_us, uint64_t seed, const char *limit)
{
    struct verdict v =
        oracle_judge(storm.directory, storm.excuses, storm.excuse_count);

    printf("# %s, seed %" PRIu64 ": %d faults in %" PRId64 " s;",
           storm.store->name, seed, count_faults(),
           (section_now_us() - began_us) / 1000000);
    for (int i = 0; i < NEMESES; i++) {
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
    tell_excuses();
    if (limit != NULL) {
        ok(v.excused + v.overlaps > 0, "the limit shows: two are inside");
    } else {
        ok(v.overlaps == 0, "no two were inside (S1)");
        ok(v.tokens_back == 0, "tokens grew (S4)");
        ok(storm.outlived == 0 || v.lost[0] > 0,
           "the set guarded by the lock alone is seen to lose updates");
    }
    ok(v.lost[1] == 0 && v.added[1] > 0,
       "the set guarded by the token lost none");
}

int main(int argc, char **argv)
{
    int faults = argc > 2 ? atoi(argv[2]) : 0;
    int64_t began_us = section_now_us(), end_us;
    const char *keep = getenv("FAULTS_DIR");
    struct nemesis *limit = NULL;
    size_t added;
    uint64_t seed;

    storm.store = argc >= 5 ? store_find(argv[1]) : NULL;
    if (storm.store == NULL) {
        fputs("usage: storm STORE FAULTS SECONDS SEED [LIMIT]\n", stderr);
        return 64;
    }
    for (int i = 0; argc > 5 && i < NEMESES; i++) {
        if (strcmp(nemeses[i].name, argv[5]) == 0) {
            limit = &nemeses[i];
            storm.longer = 7;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    seed = strtoull(argv[4], NULL, 10);
    storm.contenders_state = ~seed;
    snprintf(storm.directory, sizeof storm.directory, "%s",
             keep != NULL ? keep : "/tmp/simba-faults-XXXXXX");
    if (keep == NULL && mkdtemp(storm.directory) == NULL) {
        return 1;
    }
    storm.is_short = keep == NULL;
    begin();
    end_us = section_now_us() + atoll(argv[3]) * 1000000;
    rest_ms(500);
    /* What the n-th is follows from the seed and n, however long others took.
     */
    for (uint64_t n = 0;
         count_faults() < faults && section_now_us() < end_us && !is_stopped;
         n++) {
        storm.state = seed ^ n << 32;
        strike(limit != NULL ? limit : any_nemesis());
        rest_ms((int64_t)draw(300));
    }
    /* Or it would prove nothing: somebody's lease is outlived. */
    for (int i = 0; i < 8 && limit == NULL && !is_stopped &&
                    oracle_count_lost(storm.directory, "set", &added) == 0;
         i++) {
        (void)stop_whole(1);
    }
    ok(is_healed(), "all go on after the faults");
    end_all();
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
