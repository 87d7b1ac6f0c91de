#define _GNU_SOURCE
#include "stores.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef HAS_REDIS
#include "fixtures/redis_shapes.h"
#endif
#ifdef HAS_ZOOKEEPER
#include "fixtures/zookeeper_servers.h"
#endif

char store_urls[SIDES][1200];
struct proxy *store_proxies[PROXIES_MOST];
int store_proxy_count;

/* --- what they share ----------------------------------------------------- */

bool shell(const char *format, ...)
{
    char line[2048], whole[2200];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    snprintf(whole, sizeof whole, "exec >/dev/null 2>&1; %s", line);
    return system(whole) == 0;
}

/* All go the same way. */
static void set_url(const char *url)
{
    for (int i = 0; i < SIDES; i++) {
        snprintf(store_urls[i], sizeof store_urls[i], "%s", url);
    }
}

static int through_proxy(int port)
{
    store_proxies[store_proxy_count] = proxy_open(port);
    return proxy_port(store_proxies[store_proxy_count++]);
}

void store_close_proxies(void)
{
    while (store_proxy_count > 0) {
        proxy_close(store_proxies[--store_proxy_count]);
    }
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    if (value == NULL) {
        fprintf(stderr, "faults: %s is not set\n", name);
        exit(64);
    }
    return value;
}

/* A disk of its own is filled by a file; 4 MB at a time, as it may be small. */
static void fill(const char *directory, bool is_full)
{
    char path[512];
    static char zeros[1 << 16];
    int fd;

    snprintf(path, sizeof path, "%s/filler", directory);
    if (!is_full) {
        (void)unlink(path);
        return;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    while (write(fd, zeros, sizeof zeros) == (ssize_t)sizeof zeros) {
    }
    close(fd);
}

/* --- SQLite -------------------------------------------------------------- */

static char sqlite_directory[256];

static void sqlite_open(const char *directory)
{
    char url[300];

    snprintf(sqlite_directory, sizeof sqlite_directory, "%s/disk", directory);
    shell("mkdir '%s' && mount -t tmpfs -o size=4m,mode=700 simba-faults '%s'",
          sqlite_directory, sqlite_directory);
    snprintf(url, sizeof url, "sqlite:%s/store.db?fs=trust", sqlite_directory);
    set_url(url);
}

static void sqlite_close(void)
{
    shell("umount -l '%s'", sqlite_directory);
}

static void sqlite_fill(int node, bool is_full)
{
    (void)node;
    fill(sqlite_directory, is_full);
}

/* For who opens it from now on: who has it open may write, and keeps the kernel
 * from making the disk itself so. */
static void sqlite_set_read_only(bool is_on)
{
    shell(is_on ? "mount --bind '%s' '%s' && mount -o remount,bind,ro '%s'"
                : "umount -l '%s'",
          sqlite_directory, sqlite_directory, sqlite_directory);
}

static void sqlite_remove(void)
{
    shell("rm -f '%s'/store.db*", sqlite_directory);
}

static void sqlite_forget(void)
{
    shell("timeout 5 sqlite3 '%s/store.db' '.timeout 3000' 'DELETE FROM "
          "simba_tenure; DELETE FROM simba_line;'",
          sqlite_directory);
}

/* --- SQL servers --------------------------------------------------------- */

static bool sql(const char *text)
{
    return getenv("SIMBA_SERVER_SOCKET") != NULL
               ? shell("timeout 10 mariadb --no-defaults -S '%s' -u root simba "
                       "-e \"%s\"",
                       variable("SIMBA_SERVER_SOCKET"), text)
               : shell("PGOPTIONS='-c default_transaction_read_only=off' "
                       "timeout 10 psql '%s' -c \"%s\"",
                       variable("SIMBA_SERVER_URL"), text);
}

static void sql_open(const char *directory)
{
    int port = atoi(variable("SIMBA_SERVER_PORT"));
    bool is_mysql = getenv("SIMBA_SERVER_SOCKET") != NULL;

    (void)directory;
    for (int i = 0; i < SIDES; i++) {
        snprintf(store_urls[i], sizeof store_urls[i],
                 is_mysql
                     ? "mysql://simba@127.0.0.1:%d/simba?tls=off"
                     : "postgres://simba@127.0.0.1:%d/postgres?sslmode=disable",
                 through_proxy(port));
    }
}

static void sql_kill(int node)
{
    (void)node;
    shell("\"$SIMBA_SERVER_CONTROL\" --stop");
}

static void sql_stop(int node)
{
    (void)node;
    shell("\"$SIMBA_SERVER_CONTROL\" --shutdown");
}

static void sql_run(int node)
{
    bool is_up = false;

    (void)node;
    /* One that is slow to answer ends before another is started. */
    for (int i = 0; i < 20 && !is_up; i++) {
        shell("\"$SIMBA_SERVER_CONTROL\" --%s", i == 0 ? "start" : "restart");
        is_up = sql("SELECT 1");
    }
}

/* PostgreSQL is many processes. */
static void sql_pause(int node, bool is_on)
{
    (void)node;
    shell("cd \"$SIMBA_SERVER_DIR\"; p=$(head -n 1 data/postmaster.pid || cat "
          "pid); kill -%s $p $(pgrep -P $p)",
          is_on ? "STOP" : "CONT");
}

static void sql_step_clock(long ahead_ms)
{
    shell("echo %ld >\"$SIMBA_SERVER_CLOCK.new\" && chmod 644 "
          "\"$SIMBA_SERVER_CLOCK.new\" && mv \"$SIMBA_SERVER_CLOCK.new\" "
          "\"$SIMBA_SERVER_CLOCK\"",
          ahead_ms);
}

static void sql_fill(int node, bool is_full)
{
    char path[512];

    (void)node;
    snprintf(path, sizeof path, "%s/data", variable("SIMBA_SERVER_DIR"));
    fill(path, is_full);
}

static void sql_forget(void)
{
    sql("DELETE FROM simba_tenure");
    sql("DELETE FROM simba_line");
}

static void mysql_end_sessions(void)
{
    shell("m=\"timeout 10 mariadb --no-defaults -N -S $SIMBA_SERVER_SOCKET -u "
          "root\"; $m -e \"SELECT CONCAT('KILL ', id, ';') FROM "
          "information_schema.processlist WHERE user = 'simba'\" | $m -f");
}

static void postgres_end_sessions(void)
{
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> "
        "pg_backend_pid()");
}

static void mysql_set_read_only(bool is_on)
{
    sql(is_on ? "SET GLOBAL read_only = 1" : "SET GLOBAL read_only = 0");
}

static void postgres_set_read_only(bool is_on)
{
    sql(is_on ? "ALTER SYSTEM SET default_transaction_read_only = on"
              : "ALTER SYSTEM RESET default_transaction_read_only");
    sql("SELECT pg_reload_conf()");
}

/* --- etcd ---------------------------------------------------------------- */

static void etcd_open(const char *directory)
{
    (void)directory;
    for (int i = 0; i < SIDES; i++) {
        char hosts[256], *rest = hosts, *end = store_urls[i];
        size_t room = sizeof store_urls[i], length;

        snprintf(hosts, sizeof hosts, "%s", variable("SIMBA_SERVER_HOSTS"));
        length = (size_t)snprintf(end, room, "etcd://");
        for (char *host; (host = strsep(&rest, ",")) != NULL;) {
            length +=
                (size_t)snprintf(end + length, room - length, "%s127.0.0.1:%d",
                                 end[length - 1] == '/' ? "" : ",",
                                 through_proxy(atoi(strchr(host, ':') + 1)));
        }
    }
}

static void etcd_kill(int node)
{
    shell("\"$SIMBA_SERVER_CONTROL\" --stop %d", node + 1);
}

static void etcd_stop(int node)
{
    shell("\"$SIMBA_SERVER_CONTROL\" --shutdown %d", node + 1);
}

static void etcd_run(int node)
{
    shell("\"$SIMBA_SERVER_CONTROL\" --start %d", node + 1);
}

static void etcd_pause(int node, bool is_on)
{
    shell("kill -%s $(cat \"$SIMBA_SERVER_DIR/%d.pid\")",
          is_on ? "STOP" : "CONT", node + 1);
}

static void etcd_set_read_only(bool is_on)
{
    shell("\"$SIMBA_SERVER_CONTROL\" --%s", is_on ? "alarm" : "disarm");
}

static void etcd_fill(int node, bool is_full)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%d.data", variable("SIMBA_SERVER_DIR"),
             node + 1);
    fill(path, is_full);
}

static void etcd_disagree(int node)
{
    shell("\"$SIMBA_SERVER_CONTROL\" --disagree %d", node + 1);
}

static bool etcd_agree(void)
{
    return shell("\"$SIMBA_SERVER_CONTROL\" --agree");
}

static int etcd_leader(void)
{
    for (int i = 0; i < NODES_MOST; i++) {
        if (shell("ETCDCTL_ENDPOINTS=$(echo \"$ETCDCTL_ENDPOINTS\" | cut -d, "
                  "-f%d) timeout 2 etcdctl endpoint status -w fields | awk -F' "
                  ": ' '/\"MemberID\"/ { m = $2 } /\"Leader\"/ { l = $2 } END "
                  "{ exit m == \"\" || m != l }'",
                  i + 1)) {
            return i;
        }
    }
    return -1;
}

/* One lease is revoked, and what was is forgotten. */
static void etcd_end_sessions(void)
{
    shell(
        "timeout 5 etcdctl compact $(timeout 5 etcdctl get x -w fields | sed "
        "-n 's/\"Revision\" : //p'); timeout 5 etcdctl lease list | sed -n 2p "
        "| timeout 5 xargs -r etcdctl lease revoke");
}

static void etcd_forget(void)
{
    shell("timeout 5 etcdctl del --prefix simba");
}

/* --- Redis --------------------------------------------------------------- */

#ifdef HAS_REDIS
static struct redis_shape redis;

static void redis_open(const char *directory)
{
    struct redis *node = &redis.nodes[0];

    (void)directory;
    memset(&redis, 0, sizeof redis);
    redis.node_count = 1;
    redis_prepare(node);
    shell("mount -t tmpfs -o size=64m,mode=700 simba-faults '%s'",
          node->directory);
    redis_option(node, "--auto-aof-rewrite-min-size", "4mb");
    node->has_own_clock = true;
    redis_step_clock(node, 0);
    redis_option(node, "--appendonly", "yes");
    redis_option(node, "--appendfsync", "always");
    redis_run(node);
    for (int i = 0; i < SIDES; i++) {
        snprintf(store_urls[i], sizeof store_urls[i], "redis://127.0.0.1:%d/0",
                 through_proxy(node->port));
    }
}

static void redis_fill(int node, bool is_full)
{
    fill(redis.nodes[node].directory, is_full);
}

/* Both of its replicas, as fewer are no promise: one that acknowledges to a
 * master which was succeeded forgets it when it follows the next. Sentinels,
 * replicas and contenders all come through the proxies. */
static void redis_sentinel_open(const char *directory)
{
    const char *replicas = getenv("FAULTS_REPLICAS");
    char url[1200];

    (void)directory;
    redis_shape_start_behind(&redis, through_proxy);
    snprintf(url, sizeof url, "%s&replicas=%.8s", redis.url,
             replicas == NULL ? "2" : replicas);
    set_url(url);
}

static void redis_close(void)
{
    shell("umount -l '%s'", redis.nodes[0].directory);
    redis_shape_remove(&redis);
}

static void redis_node_kill(int node)
{
    redis_kill(&redis.nodes[node]);
}

static void redis_node_run(int node)
{
    redis_run(&redis.nodes[node]);
}

static void redis_node_stop(int node)
{
    redis_stop(&redis.nodes[node]);
}

static void redis_node_pause(int node, bool is_on)
{
    redis_pause(&redis.nodes[node], is_on);
}

static void redis_node_step(long ahead_ms)
{
    redis_step_clock(&redis.nodes[0], ahead_ms);
}

/* It follows somebody who is not there, and takes no changes. */
static void redis_set_read_only(bool is_on)
{
    redis_number(&redis.nodes[0],
                 is_on ? "REPLICAOF 127.0.0.1 1" : "REPLICAOF NO ONE");
}

/* Of one, or of all servers behind sentinels. */
static void redis_end_sessions(void)
{
    for (int i = 0; i < NODES_MOST && redis.nodes[i].pid != 0; i++) {
        shell(
            "for t in normal pubsub; do timeout 2 redis-cli -p %d client kill "
            "type $t; done",
            redis.nodes[i].port);
    }
}

static void redis_forget(void)
{
    shell("redis-cli -p %d flushall", redis.nodes[0].port);
}

static int redis_master(void)
{
    for (int i = 0; i < NODES_MOST; i++) {
        if (shell("timeout 2 redis-cli -p %d SENTINEL "
                  "get-master-addr-by-name simba | grep -qx %d",
                  redis.nodes[3].port, proxy_port(store_proxies[i]))) {
            return i;
        }
    }
    return -1;
}

/* The master wants more replicas than there are. */
static void redis_sentinel_set_read_only(bool is_on)
{
    int master = redis_master();

    for (int i = 0; i < NODES_MOST; i++) {
        if (i == master || !is_on) {
            shell("timeout 2 redis-cli -p %d CONFIG SET min-replicas-to-write "
                  "%d",
                  redis.nodes[i].port, is_on ? 9 : 0);
        }
    }
}

static void redis_sentinel_forget(void)
{
    int master = redis_master();

    if (master >= 0) {
        shell("timeout 5 redis-cli -p %d flushall", redis.nodes[master].port);
    }
}

/* Until one is master by all sentinels and by itself, and two follow it. */
static void redis_settle(void)
{
    for (int i = 0; i < 300; i++) {
        int master = redis_master();

        if (master >= 0 && redis.nodes[master].pid != 0 &&
            shell("timeout 2 redis-cli -p %d INFO replication | tr -d '\\r' | "
                  "grep -c 'role:master\\|connected_slaves:2' | grep -qx 2",
                  redis.nodes[master].port)) {
            return;
        }
        redis_nap_ms(100);
    }
}
#endif

/* --- ZooKeeper ----------------------------------------------------------- */

#ifdef HAS_ZOOKEEPER
static struct servers zookeeper;

static void zookeeper_open(const char *directory)
{
    (void)directory;
    servers_tick(200);
    servers_small(200);
    servers_start(&zookeeper, NODES_MOST);
    for (int i = 0; i < SIDES; i++) {
        char *end = store_urls[i];
        size_t room = sizeof store_urls[i];
        size_t length = (size_t)snprintf(end, room, "zookeeper://");

        for (int k = 0; k < NODES_MOST; k++) {
            length += (size_t)snprintf(
                end + length, room - length, "%s127.0.0.1:%d",
                k == 0 ? "" : ",", through_proxy(zookeeper.one[k].client_port));
        }
    }
}

static void zookeeper_close(void)
{
    servers_stop(&zookeeper);
}

static void zookeeper_kill(int node)
{
    server_kill(&zookeeper, node);
}

static void zookeeper_stop(int node)
{
    server_stop(&zookeeper, node);
}

static void zookeeper_run(int node)
{
    server_start(&zookeeper, node);
    server_await(&zookeeper, node);
}

static void zookeeper_pause(int node, bool is_on)
{
    kill(zookeeper.one[node].pid, is_on ? SIGSTOP : SIGCONT);
}

static void zookeeper_fill(int node, bool is_full)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%d", zookeeper.directory, node);
    fill(path, is_full);
}

/* The nodes of owners, as an administrator may. */
static void zookeeper_forget(void)
{
    shell("export SIMBA_STORE=zookeeper://127.0.0.1:%d,127.0.0.1:%d,"
          "127.0.0.1:%d; for m in bare set fenced; do t=$(timeout 5 '" SIMBA
          "' --json show $m | grep -o '\"token\":[0-9]*' | head -n 1) && "
          "timeout 5 '" SIMBA "' -q break $m --token ${t#*:} --now --reason "
          "storm; done",
          zookeeper.one[0].client_port, zookeeper.one[1].client_port,
          zookeeper.one[2].client_port);
}

static int zookeeper_leader(void)
{
    return servers_leader(&zookeeper);
}
#endif

/* --- all ----------------------------------------------------------------- */

static const struct store stores[] = {
    {.name = "sqlite",
     .ttl_ms = 600,
     .transition_ms = 400,
     .open = sqlite_open,
     .close = sqlite_close,
     .set_read_only = sqlite_set_read_only,
     .fill_disk = sqlite_fill,
     .forget = sqlite_forget,
     .remove = sqlite_remove},
    {.name = "mysql",
     .ttl_ms = 2000,
     .transition_ms = 1000,
     .nodes = 1,
     .sides = SIDES,
     .open = sql_open,
     .kill = sql_kill,
     .run = sql_run,
     .stop = sql_stop,
     .pause = sql_pause,
     .step_clock = sql_step_clock,
     .set_read_only = mysql_set_read_only,
     .fill_disk = sql_fill,
     .end_sessions = mysql_end_sessions,
     .forget = sql_forget},
    {.name = "postgres",
     .ttl_ms = 2000,
     .transition_ms = 1000,
     .nodes = 1,
     .sides = SIDES,
     .open = sql_open,
     .kill = sql_kill,
     .run = sql_run,
     .stop = sql_stop,
     .pause = sql_pause,
     .step_clock = sql_step_clock,
     .set_read_only = postgres_set_read_only,
     .fill_disk = sql_fill,
     .end_sessions = postgres_end_sessions,
     .forget = sql_forget},
    {.name = "etcd",
     .ttl_ms = 2000,
     .transition_ms = 1000,
     .nodes = 3,
     .sides = SIDES,
     .open = etcd_open,
     .kill = etcd_kill,
     .run = etcd_run,
     .stop = etcd_stop,
     .pause = etcd_pause,
     .leader = etcd_leader,
     .set_read_only = etcd_set_read_only,
     .fill_disk = etcd_fill,
     .end_sessions = etcd_end_sessions,
     .forget = etcd_forget,
     .disagree = etcd_disagree,
     .agree = etcd_agree},
#ifdef HAS_REDIS
    {.name = "redis",
     .ttl_ms = 600,
     .transition_ms = 400,
     .nodes = 1,
     .sides = SIDES,
     .open = redis_open,
     .close = redis_close,
     .kill = redis_node_kill,
     .run = redis_node_run,
     .stop = redis_node_stop,
     .pause = redis_node_pause,
     .step_clock = redis_node_step,
     .set_read_only = redis_set_read_only,
     .fill_disk = redis_fill,
     .end_sessions = redis_end_sessions,
     .forget = redis_forget},
    {.name = "sentinel",
     .ttl_ms = 600,
     .transition_ms = 400,
     .nodes = 3,
     .open = redis_sentinel_open,
     .close = redis_close,
     .kill = redis_node_kill,
     .run = redis_node_run,
     .stop = redis_node_stop,
     .pause = redis_node_pause,
     .leader = redis_master,
     .settle = redis_settle,
     .set_read_only = redis_sentinel_set_read_only,
     .end_sessions = redis_end_sessions,
     .forget = redis_sentinel_forget},
#endif
#ifdef HAS_ZOOKEEPER
    {.name = "zookeeper",
     .ttl_ms = 2500,
     .transition_ms = 1500,
     .nodes = 3,
     .sides = SIDES,
     .open = zookeeper_open,
     .close = zookeeper_close,
     .kill = zookeeper_kill,
     .run = zookeeper_run,
     .stop = zookeeper_stop,
     .pause = zookeeper_pause,
     .leader = zookeeper_leader,
     .fill_disk = zookeeper_fill,
     .forget = zookeeper_forget},
#endif
};

const struct store *store_at(size_t n)
{
    return n < sizeof stores / sizeof stores[0] ? &stores[n] : NULL;
}

const struct store *store_find(const char *name)
{
    const struct store *store;

    for (size_t i = 0; (store = store_at(i)) != NULL; i++) {
        if (strcmp(store->name, name) == 0) {
            break;
        }
    }
    return store;
}
