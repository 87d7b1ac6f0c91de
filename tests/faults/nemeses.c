/* The faults of a storm: of our processes, of servers, of the network. */
#define _GNU_SOURCE
#include "storm.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* --- chance -------------------------------------------------------------- */

/* splitmix64 */
uint64_t nemesis_draw_by(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t nemesis_draw(uint64_t below)
{
    return nemesis_draw_by(&storm.state) % below;
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
    int first = (int)nemesis_draw((uint64_t)storm.contender_count);

    for (int tries = 0; tries < 400; tries++) {
        const struct contender *c =
            &storm.contenders[(first + tries) % storm.contender_count];

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
    uint64_t lease = (uint64_t)storm_lease_ms();

    return (int64_t)(nemesis_draw(5) < 3 ? nemesis_draw(lease / 4)
                                         : nemesis_draw(lease * 3 / 2));
}

static int any_node(void)
{
    return storm.store->nodes == 0 ? 0
           : storm.store->leader != NULL && nemesis_draw(2) == 0
               ? storm.store->leader()
               : (int)nemesis_draw((uint64_t)storm.store->nodes);
}

/* One process of a contender: of a lock that may be its front, its guardian, or
 * the command. */
static pid_t any_process(void)
{
    pid_t pids[TREE_MOST];
    const struct contender *c =
        &storm.contenders[nemesis_draw((uint64_t)storm.contender_count)];
    int count = c->pid > 0 ? storm_find_tree(c->pid, pids, 0) : 0;

    return count == 0 ? 0 : pids[nemesis_draw((uint64_t)count)];
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
                  (int64_t)nemesis_draw((uint64_t)storm_lease_ms()));
    (void)kill(pids[count - 1], SIGCONT);
    storm_rest_ms(100);
    signal_all(pids, count, SIGCONT);
    excuse("a whole machine stopped", pids[count - 1], from, 2000);
    storm.outlived++;
    return true;
}

static bool stop_machine(void)
{
    return nemesis_stop_whole(nemesis_draw(2) == 0 ? 1 : 2);
}

static bool take_descriptors(void)
{
    const struct contender *c =
        &storm.contenders[nemesis_draw((uint64_t)storm.contender_count)];
    struct rlimit old, few = {3 + nemesis_draw(12), 0};

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
                 (long)nemesis_draw(20000) - 10000, storm.directory,
                 storm.directory, storm.directory);
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
        storm_rest_ms(some_ms());
    }
    /* A master that is back before it is succeeded has forgotten everything. */
    for (int i = 0; i < 300 && storm.store->settle != NULL &&
                    storm.store->leader() == node;
         i++) {
        storm_rest_ms(100);
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
    storm_rest_ms(some_ms() / 2);
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
    storm_rest_ms(some_ms());
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
    storm_rest_ms(storm_lease_ms() * 2);
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
    storm.store->step_clock((long)nemesis_draw(6000) - 3000);
    excuse("(a) the server's clock", 0, from, storm_lease_ms() + 300);
    storm_rest_ms(some_ms());
    from = section_now_us();
    storm.store->step_clock(0);
    excuse("(a) the server's clock", 0, from, storm_lease_ms() + 300);
    return true;
}

static bool forget(void)
{
    int64_t from = section_now_us();

    if (storm.store->forget == NULL) {
        return false;
    }
    storm.store->forget();
    excuse("(b) rows deleted", 0, from, storm_lease_ms() + 300);
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
    storm_rest_ms(some_ms());
    storm.store->set_read_only(false);
    return true;
}

static bool fill_disk(void)
{
    if (storm.store->fill_disk == NULL) {
        return false;
    }
    storm.store->fill_disk(true);
    storm_rest_ms(some_ms());
    storm.store->fill_disk(false);
    return true;
}

/* --- nemeses: of the network --------------------------------------------- */

static struct proxy *any_proxy(void)
{
    return store_proxy_count == 0
               ? NULL
               : store_proxies[nemesis_draw((uint64_t)store_proxy_count)];
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
        storm_rest_ms(some_ms());
        proxy_refuse(proxy, false);
    }
    return proxy != NULL;
}

static bool half_open(void)
{
    struct proxy *proxy = any_proxy();

    if (proxy != NULL) {
        proxy_half_open(proxy);
        storm_rest_ms(some_ms() / 2);
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
    storm_rest_ms(some_ms());
    if (nemesis_draw(2) == 0) {
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
            proxy_hold(store_proxies[k], true, nemesis_draw(2) == 0);
        }
        storm_rest_ms((int64_t)nemesis_draw(60));
        for (int k = 0; k < store_proxy_count; k++) {
            proxy_hold(store_proxies[k], false, false);
        }
        storm_rest_ms((int64_t)nemesis_draw(20));
    }
    return store_proxy_count > 0;
}

/* --- limits: what no lock can keep --------------------------------------- */

/* The database file is removed: who comes next makes a new one. */
static bool remove_file(void)
{
    int64_t from = section_now_us();

    shell("rm -f '%s'/disk/store.db*", storm.directory);
    excuse("(b) the file removed", 0, from, storm_lease_ms() * 4);
    return true;
}

struct nemesis nemeses[] = {{"kill -9 of a process", kill_one, 8, 0},
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
                            {"file removed", remove_file, 0, 0},
                            {NULL, NULL, 0, 0}};

void nemesis_strike(struct nemesis *nemesis)
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

struct nemesis *nemesis_draw_any(void)
{
    int total = 0, left;

    for (int i = 0; nemeses[i].name != NULL; i++) {
        total += nemeses[i].weight;
    }
    left = (int)nemesis_draw((uint64_t)total);
    for (int i = 0; nemeses[i].name != NULL; i++) {
        left -= nemeses[i].weight;
        if (left < 0) {
            return &nemeses[i];
        }
    }
    return &nemeses[0];
}

int nemesis_count_faults(void)
{
    int count = 0;

    for (int i = 0; nemeses[i].name != NULL; i++) {
        count += nemeses[i].count;
    }
    return count;
}
