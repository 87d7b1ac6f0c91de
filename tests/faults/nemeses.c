/* The faults of a storm: of our processes, of servers, of the network. */
#define _GNU_SOURCE
#include "storm.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { OWNER_US = 10000 }; /* who wrote since then is inside */

/* --- chance -------------------------------------------------------------- */

/* splitmix64 */
uint64_t nemesis_draw_by(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static _Thread_local uint64_t chance;

static uint64_t draw(uint64_t below)
{
    return nemesis_draw_by(&chance) % below;
}

/* --- who is hit ----------------------------------------------------------- */

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
    int first = (int)draw((uint64_t)storm.fleet->count);

    for (int tries = 0; tries < 400; tries++) {
        const struct contender *c =
            &storm.fleet->contenders[(first + tries) % storm.fleet->count];

        if (c->is_command && c->pid > 0 && (mutex < 0 || c->mutex == mutex)) {
            *count = storm_find_tree(c->pid, pids, 0);
            for (int i = 1; i < *count; i++) {
                if (is_guarded(pids[i])) {
                    pid_t command = pids[i];

                    pids[i] = pids[*count - 1];
                    pids[*count - 1] = command;
                    return true;
                }
            }
        }
        storm_rest_ms(1);
    }
    return false;
}

static void signal_all(const pid_t *pids, int count, int signal)
{
    for (int i = 0; i < count; i++) {
        (void)kill(pids[i], signal);
    }
}

static pthread_mutex_t book = PTHREAD_MUTEX_INITIALIZER;

/* Until so many ms from now; 0: only tokens that begin anew. */
static void excuse(const char *why, pid_t pid, int64_t from_us, int64_t ms)
{
    int64_t until_us = ms == 0 ? 0 : section_now_us() + ms * 1000;

    pthread_mutex_lock(&book);
    if (storm.excuse_count == storm.excuse_room) {
        storm.excuse_room = storm.excuse_room == 0 ? 64 : 2 * storm.excuse_room;
        storm.excuses =
            realloc(storm.excuses, storm.excuse_room * sizeof *storm.excuses);
        if (storm.excuses == NULL) {
            storm_die("excuses");
        }
    }
    storm.excuses[storm.excuse_count++] =
        (struct excuse){why, from_us, until_us, pid, 0};
    pthread_mutex_unlock(&book);
}

/* --- nemeses: of our processes ------------------------------------------- */

/* A short time within the lease, or one that may be beyond it. */
static int64_t some_ms(void)
{
    uint64_t lease = (uint64_t)storm_lease_ms();

    return (int64_t)(draw(5) < 3 ? draw(lease / 4) : draw(lease * 3 / 2));
}

/* About as long as a lease, which began up to two thirds of its ttl ago: so it
 * has mostly been over for a moment, and who is late to notice is seen. */
static int64_t outlive_ms(void)
{
    int64_t lease = storm_lease_ms();

    return lease * 7 / 8 + (int64_t)draw((uint64_t)lease * 3 / 8);
}

static int any_node(void)
{
    int leader = storm.store->leader != NULL && draw(2) == 0
                     ? storm.store->leader()
                     : -1;

    return leader >= 0              ? leader
           : storm.store->nodes > 0 ? (int)draw((uint64_t)storm.store->nodes)
                                    : 0;
}

/* One process of a contender: of a lock that may be its front, its guardian, or
 * the command. */
static pid_t any_process(void)
{
    pid_t pids[TREE_MOST];
    const struct contender *c =
        &storm.fleet->contenders[draw((uint64_t)storm.fleet->count)];
    int count = c->pid > 0 ? storm_find_tree(c->pid, pids, 0) : 0;

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
    storm_rest_ms(some_ms());
    (void)kill(pid, SIGCONT);
    return true;
}

/* Of which contender of the API is this line, and is it inside a long section?
 */
static const struct contender *read_line(const char *line)
{
    int64_t now = section_now_us(), started, until;
    int pid;

    if (sscanf(line, "%d %" SCNd64 " %*s %*s %*s %" SCNd64 " .", &pid, &started,
               &until) != 3 ||
        until < now - OWNER_US || started > now - SECTION_SHORT_US) {
        return NULL;
    }
    for (int i = 0; i < storm.fleet->count; i++) {
        const struct contender *c = &storm.fleet->contenders[i];

        if (c->pid == pid && !c->is_command) {
            return c;
        }
    }
    return NULL;
}

/* A program of the API that is inside, by what it wrote, and stays there if it
 * can; NULL: there is none. */
static const struct contender *find_owner(void)
{
    const struct contender *owner = NULL, *one;
    char path[300], text[4096];

    snprintf(path, sizeof path, "%s/sections", storm.directory);
    for (int tries = 0; tries < 400 && owner == NULL; tries++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
        off_t from = end < (off_t)sizeof text ? 0 : end - (off_t)sizeof text;
        ssize_t length = fd < 0 ? 0 : pread(fd, text, sizeof text - 1, from);

        if (fd >= 0) {
            close(fd);
        }
        text[length < 0 ? 0 : length] = '\0';
        for (const char *at = text; (at = strchr(at, '\n')) != NULL;) {
            one = read_line(++at);
            owner = one != NULL ? one : owner;
        }
        storm_rest_ms(1);
    }
    return owner;
}

/* If its lease is over, it must know that when it goes on, before anything else
 * (S3). */
static bool stop_owner(void)
{
    const struct contender *owner = find_owner();
    pid_t pid = owner == NULL ? 0 : owner->pid;

    if (pid == 0 || kill(pid, SIGSTOP) != 0) {
        return false;
    }
    storm_rest_ms(outlive_ms());
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
           SECTION_LEASES * storm_lease_ms());
    return true;
}

/* The whole machine stops, and goes on when its lease is over: the command may
 * run on for a moment (S6). Only tokens protect the resource then. */
bool nemesis_stop_whole(int mutex)
{
    pid_t pids[TREE_MOST];
    int64_t from = section_now_us();
    int count;

    if (!find_inside(mutex, pids, &count)) {
        return false;
    }
    signal_all(pids, count, SIGSTOP);
    storm_rest_ms(storm_lease_ms() + 100 +
                  (int64_t)draw((uint64_t)storm_lease_ms()));
    (void)kill(pids[count - 1], SIGCONT);
    storm_rest_ms(100);
    signal_all(pids, count, SIGCONT);
    excuse("a whole machine stopped", pids[count - 1], from, 2000);
    return true;
}

static bool stop_machine(void)
{
    return nemesis_stop_whole(draw(2) == 0 ? 1 : 2);
}

static bool take_descriptors(void)
{
    const struct contender *c =
        &storm.fleet->contenders[draw((uint64_t)storm.fleet->count)];
    struct rlimit old, few = {3 + draw(12), 0};

    if (c->pid <= 0 || prlimit(c->pid, RLIMIT_NOFILE, NULL, &old) != 0) {
        return false;
    }
    few.rlim_max = old.rlim_max;
    if (prlimit(c->pid, RLIMIT_NOFILE, &few, NULL) != 0) {
        return false;
    }
    storm_rest_ms(some_ms());
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

/* Run one that has ended again, after a while; but a master that is back before
 * it is succeeded has forgotten everything. */
static void run_again(int node, int64_t ms)
{
    int leader;

    if (storm.store->settle == NULL) {
        storm_rest_ms(ms);
    }
    while (storm.store->settle != NULL && storm_goes_on() &&
           ((leader = storm.store->leader()) == node || leader < 0)) {
        storm_rest_ms(100);
    }
    storm.store->run(node);
    settle();
}

static bool kill_server(void)
{
    int node = any_node();

    storm.store->kill(node);
    run_again(node, some_ms());
    return true;
}

static bool restart_server(void)
{
    int node = any_node();

    storm.store->stop(node);
    run_again(node, some_ms() / 2);
    return true;
}

static bool pause_server(void)
{
    int node = any_node();

    storm.store->pause(node, true);
    storm_rest_ms(some_ms());
    storm.store->pause(node, false);
    settle();
    return true;
}

static bool fail_over(void)
{
    int node = storm.store->leader();

    if (node < 0) {
        return false;
    }
    storm.store->pause(node, true);
    storm_rest_ms(storm_lease_ms() * 2);
    storm.store->pause(node, false);
    settle();
    return true;
}

/* A step forward of the server's clock voids (a); one back breaks nothing, but
 * where what was granted is forgotten as well tokens may begin anew. */
static void step_clock_to(long ahead_ms, bool is_forward)
{
    int64_t from = section_now_us();

    storm.store->step_clock(ahead_ms);
    excuse("(a) the server's clock", 0, from,
           is_forward ? storm_lease_ms() + 300 : 0);
}

static bool step_server_clock(void)
{
    long ahead_ms = (long)draw(6000) - 3000;

    step_clock_to(ahead_ms, ahead_ms > 0);
    storm_rest_ms(some_ms());
    step_clock_to(0, ahead_ms < 0);
    return true;
}

static bool forget(void)
{
    int64_t from = section_now_us();

    storm.store->forget();
    excuse("(b) rows deleted", 0, from, storm_lease_ms() + 300);
    return true;
}

static bool end_sessions(void)
{
    storm.store->end_sessions();
    return true;
}

static bool make_read_only(void)
{
    storm.store->set_read_only(true);
    storm_rest_ms(some_ms());
    storm.store->set_read_only(false);
    return true;
}

/* Servers end by it, or (MariaDB) wait for a minute before they write again,
 * with their locks: each is started anew. */
static bool fill_disk(void)
{
    int node = any_node();

    storm.store->fill_disk(node, true);
    storm_rest_ms(some_ms());
    storm.store->fill_disk(node, false);
    if (storm.store->kill != NULL) {
        storm.store->kill(node);
        run_again(node, 0);
    }
    return true;
}

/* --- nemeses: of the network --------------------------------------------- */

static struct proxy *any_proxy(void)
{
    return store_proxies[draw((uint64_t)store_proxy_count)];
}

static bool cut(void)
{
    proxy_cut(any_proxy());
    return true;
}

static bool refuse(void)
{
    struct proxy *proxy = any_proxy();

    proxy_refuse(proxy, true);
    storm_rest_ms(some_ms());
    proxy_refuse(proxy, false);
    return true;
}

static bool half_open(void)
{
    struct proxy *proxy = any_proxy();

    proxy_half_open(proxy);
    storm_rest_ms(some_ms() / 2);
    proxy_cut(proxy);
    return true;
}

/* Held one way or both, for a moment or beyond the lease; then what was held
 * arrives late, or is lost. */
static bool hold(bool forth, bool back)
{
    struct proxy *proxy = any_proxy();

    proxy_hold(proxy, forth, back);
    storm_rest_ms(some_ms());
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

/* Half of the contenders, and not the others, so that these may succeed an
 * owner that runs and cannot renew. */
static bool cut_side_off(void)
{
    const struct contender *owner = find_owner();
    int count = store_proxy_count / SIDES;
    int first = (owner == NULL ? (int)draw(SIDES) : owner->side) * count;
    bool is_lost = draw(2) == 0;

    for (int i = first; i < first + count; i++) {
        proxy_hold(store_proxies[i], true, true);
    }
    storm_rest_ms(outlive_ms());
    for (int i = first; i < first + count; i++) {
        if (is_lost) {
            proxy_cut(store_proxies[i]);
        }
        proxy_hold(store_proxies[i], false, false);
    }
    return true;
}

/* All ways at once, many times, each for a short while. */
static bool slow_down(void)
{
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < store_proxy_count; k++) {
            proxy_hold(store_proxies[k], true, draw(2) == 0);
        }
        storm_rest_ms((int64_t)draw(60));
        for (int k = 0; k < store_proxy_count; k++) {
            proxy_hold(store_proxies[k], false, false);
        }
        storm_rest_ms((int64_t)draw(20));
    }
    return true;
}

/* --- limits: what no lock can keep --------------------------------------- */

/* The database file is removed: who comes next makes a new one. */
static bool remove_file(void)
{
    int64_t from = section_now_us();

    storm.store->remove();
    excuse("(b) the file removed", 0, from, storm_lease_ms() * 4);
    return true;
}

/* A member has other keys than the rest from here on. */
static bool disagree(void)
{
    int64_t from = section_now_us();

    storm.store->disagree(any_node());
    excuse("(b) members disagree", 0, from, 3600 * 1000);
    return true;
}

#define NEEDS(what) offsetof(struct store, what)

struct nemesis nemeses[] = {
    {"kill -9 of a process", kill_one, 8, OF_PROCESSES, NEEDS(name), 0},
    {"front and guardian killed", kill_both, 2, OF_PROCESSES, NEEDS(name), 0},
    {"a process stopped", stop_one, 6, OF_PROCESSES, NEEDS(name), 0},
    {"an owner stopped", stop_owner, 3, OF_PROCESSES, NEEDS(name), 0},
    {"a machine stopped", stop_machine, 3, OF_PROCESSES, NEEDS(name), 0},
    {"no descriptors", take_descriptors, 2, OF_PROCESSES, NEEDS(name), 0},
    {"client clock stepped", step_client_clock, 3, OF_PROCESSES, NEEDS(name),
     0},
    {"server killed", kill_server, 3, OF_SERVERS, NEEDS(kill), 0},
    {"server restarted", restart_server, 2, OF_SERVERS, NEEDS(stop), 0},
    {"server stopped", pause_server, 4, OF_SERVERS, NEEDS(pause), 0},
    {"failover", fail_over, 2, OF_SERVERS, NEEDS(leader), 0},
    {"server clock stepped", step_server_clock, 2, OF_SERVERS,
     NEEDS(step_clock), 0},
    {"rows deleted", forget, 1, OF_SERVERS, NEEDS(forget), 0},
    {"sessions ended", end_sessions, 2, OF_SERVERS, NEEDS(end_sessions), 0},
    {"read-only", make_read_only, 2, OF_SERVERS, NEEDS(set_read_only), 0},
    {"disk full", fill_disk, 2, OF_SERVERS, NEEDS(fill_disk), 0},
    {"connections cut", cut, 5, OF_NETWORK, NEEDS(name), 0},
    {"connections refused", refuse, 3, OF_NETWORK, NEEDS(name), 0},
    {"half-open", half_open, 3, OF_NETWORK, NEEDS(name), 0},
    {"requests held", hold_requests, 4, OF_NETWORK, NEEDS(name), 0},
    {"replies held", hold_replies, 4, OF_NETWORK, NEEDS(name), 0},
    {"all held", hold_all, 3, OF_NETWORK, NEEDS(name), 0},
    {"one side cut off", cut_side_off, 3, OF_NETWORK, NEEDS(sides), 0},
    {"slow", slow_down, 2, OF_NETWORK, NEEDS(name), 0},
    {"file removed", remove_file, 0, OF_SERVERS, NEEDS(remove), 0},
    {"members disagree", disagree, 0, OF_SERVERS, NEEDS(disagree), 0},
    {NULL, NULL, 0, OF_PROCESSES, 0, 0}};

/* --- side by side --------------------------------------------------------- */

/* How far a kind may run ahead of its share, by weight, of all that have
 * struck: a storm is not to be one of what is quickly done. */
enum { AHEAD_MOST = 8 };

/* What nemeses of one kind strike, one after the other. */
struct rank {
    pthread_t thread;
    enum nemesis_kind kind;
    struct nemesis *only;
    uint64_t seed;
    int faults;
    int64_t end_us;
};

bool nemesis_is_possible(const struct nemesis *nemesis,
                         const struct store *store)
{
    static const char none[sizeof(void (*)(void))];
    const char *needed = (const char *)store + nemesis->needs;

    return memcmp(needed, none, sizeof none) != 0 &&
           (nemesis->kind != OF_NETWORK || store->nodes > 0);
}

static bool is_possible(const struct nemesis *nemesis)
{
    return nemesis_is_possible(nemesis, storm.store);
}

struct nemesis *nemesis_find(const char *name)
{
    for (int i = 0; nemeses[i].name != NULL; i++) {
        if (strcmp(nemeses[i].name, name) == 0 && is_possible(&nemeses[i])) {
            return &nemeses[i];
        }
    }
    return NULL;
}

static int count_weights(enum nemesis_kind kind)
{
    int total = 0;

    for (int i = 0; nemeses[i].name != NULL; i++) {
        total += nemeses[i].kind == kind && is_possible(&nemeses[i])
                     ? nemeses[i].weight
                     : 0;
    }
    return total;
}

static struct nemesis *draw_any(enum nemesis_kind kind)
{
    int left = (int)draw((uint64_t)count_weights(kind)), i = 0;

    for (;; i++) {
        if (nemeses[i].kind == kind && is_possible(&nemeses[i])) {
            left -= nemeses[i].weight;
            if (left < 0) {
                return &nemeses[i];
            }
        }
    }
}

int nemesis_count_faults(void)
{
    int count = 0;

    pthread_mutex_lock(&book);
    for (int i = 0; nemeses[i].name != NULL; i++) {
        count += nemeses[i].count;
    }
    pthread_mutex_unlock(&book);
    return count;
}

static bool is_ahead(enum nemesis_kind kind)
{
    int all = 0, mine = 0, weights = 0;

    pthread_mutex_lock(&book);
    for (int i = 0; nemeses[i].name != NULL; i++) {
        all += nemeses[i].count;
        mine += nemeses[i].kind == kind ? nemeses[i].count : 0;
    }
    pthread_mutex_unlock(&book);
    for (int i = 0; i < NEMESIS_KINDS; i++) {
        weights += count_weights((enum nemesis_kind)i);
    }
    return (mine - AHEAD_MOST) * weights > all * count_weights(kind);
}

/* Who outlives its lease must be succeeded meanwhile, for which servers have to
 * answer; or nothing would be seen. */
static bool is_alone(const struct nemesis *nemesis)
{
    return nemesis->kind == OF_SERVERS || nemesis->strike == stop_owner ||
           nemesis->strike == cut_side_off;
}

static void strike(struct nemesis *nemesis)
{
    static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
    int64_t from;
    bool has_struck;

    if (is_alone(nemesis)) {
        pthread_mutex_lock(&alone);
    }
    from = section_now_us();
    has_struck = nemesis->strike();
    if (is_alone(nemesis)) {
        pthread_mutex_unlock(&alone);
    }
    if (!has_struck) {
        return;
    }
    pthread_mutex_lock(&book);
    nemesis->count++;
    fprintf(storm.faults,
            "{\"event\":\"fault\",\"fault\":\"%s\",\"boot_ms\":%" PRId64
            ",\"until_ms\":%" PRId64 ",\"boot\":\"%s\"}\n",
            nemesis->name, from / 1000, section_now_us() / 1000, storm.boot);
    fflush(storm.faults);
    pthread_mutex_unlock(&book);
}

void nemesis_outlive(void)
{
    for (int i = 0; nemeses[i].name != NULL; i++) {
        if (nemeses[i].kind != OF_SERVERS && is_alone(&nemeses[i]) &&
            is_possible(&nemeses[i])) {
            strike(&nemeses[i]);
        }
    }
}

/* What the n-th of a kind is follows from the seed and n, however long others
 * took. */
static void *strike_kind(void *user)
{
    const struct rank *rank = user;

    for (uint64_t n = 0; nemesis_count_faults() < rank->faults &&
                         section_now_us() < rank->end_us && storm_goes_on();) {
        if (rank->only == NULL && is_ahead(rank->kind)) {
            storm_rest_ms(20);
            continue;
        }
        chance = rank->seed ^ n++ << 32 ^ (uint64_t)rank->kind << 60;
        strike(rank->only != NULL ? rank->only : draw_any(rank->kind));
        storm_rest_ms((int64_t)draw(300));
    }
    return NULL;
}

void nemesis_strike_all(int faults,
                        int64_t end_us,
                        uint64_t seed,
                        struct nemesis *only)
{
    struct rank ranks[NEMESIS_KINDS];
    bool is_busy[NEMESIS_KINDS];

    for (int i = 0; i < NEMESIS_KINDS; i++) {
        enum nemesis_kind kind = (enum nemesis_kind)i;

        is_busy[i] =
            only != NULL ? only->kind == kind : count_weights(kind) > 0;
        ranks[i] = (struct rank){.kind = kind,
                                 .only = only,
                                 .seed = seed,
                                 .faults = faults,
                                 .end_us = end_us};
        if (is_busy[i] && kind != OF_SERVERS &&
            pthread_create(&ranks[i].thread, NULL, strike_kind, &ranks[i]) !=
                0) {
            storm_die("threads of nemeses");
        }
    }
    /* A server dies with the thread that started it: that is ours. */
    if (is_busy[OF_SERVERS]) {
        strike_kind(&ranks[OF_SERVERS]);
    }
    for (int i = 0; i < NEMESIS_KINDS; i++) {
        if (is_busy[i] && i != OF_SERVERS) {
            pthread_join(ranks[i].thread, NULL);
        }
    }
}
