/* Contenders on a single real server, each through a proxy of its own, while
 * their sessions end, their connections break, and admins meddle. argv[1] is
 * simba. */
#define _GNU_SOURCE
#include "stories.h"

#include <simba/admin.h>
#include <simba/metrics.h>

#define THREADED
#include <zookeeper/zookeeper.h>

#include <signal.h>

/* Of requests: making a node and being told its times. */
enum { CREATE2 = 15 };

static struct proxy *proxies[MANY];
static zhandle_t *admin;

static void say_nothing(const char *message)
{
    (void)message;
}

static int start_server(void **state)
{
    (void)state;
    servers_start(&servers, 1);
    for (int i = 0; i < MANY; i++) {
        proxies[i] = proxy_open(servers.one[0].client_port);
        snprintf(contenders[i].hosts, sizeof contenders[i].hosts,
                 "127.0.0.1:%d", proxy_port(proxies[i]));
    }
    admin = zookeeper_init2(servers.hosts, NULL, 30000, NULL, NULL,
                            ZOO_NO_LOG_CLIENTENV, say_nothing);
    return admin == NULL ? -1 : 0;
}

static int stop_server(void **state)
{
    (void)state;
    zookeeper_close(admin);
    for (int i = 0; i < MANY; i++) {
        proxy_close(proxies[i]);
    }
    servers_stop(&servers);
    return 0;
}

/* --- looking ------------------------------------------------------------- */

static uint64_t reconnects(int i)
{
    simba_metrics *metrics = NULL;
    uint64_t count;

    assert_int_equal(simba_metrics_read(contenders[i].store, &metrics, NULL),
                     SIMBA_OK);
    count = simba_metrics_store(metrics)->reconnects;
    simba_metrics_free(metrics);
    return count;
}

/* Who waits, as the store tells it; -1: it could not be asked. */
static int waiting(int through, const char *mutex)
{
    simba_report *report = NULL;
    int rc = simba_admin_show(contenders[through].store, mutex, &report, NULL);
    int count = rc == SIMBA_OK ? (int)simba_report_waiter_count(report) : -1;

    simba_report_close(report);
    return count;
}

/* --- sessions and connections -------------------------------------------- */

static int leave_story(void **state)
{
    for (int i = 0; i < MANY; i++) {
        proxy_trap(proxies[i], 0);
        proxy_hold(proxies[i], false, false);
    }
    return close_story(state);
}

#define STORY(test) TEST_AROUND(test, NULL, leave_story)

/* Cut off until the server has ended the session. */
STORY(test_story__session_ended)
{
    uint64_t token, before;

    begin("session ended", 0);
    start_others(0);
    token = simba_service_token(contenders[0].service);
    before = reconnects(0);
    proxy_hold(proxies[0], true, true);
    await(owner() > 0);
    await(atomic_load(&contenders[0].released) > 0);
    proxy_hold(proxies[0], false, false);
    stop_others(0);
    await(owner() == 0);
    assert_true(simba_service_token(contenders[0].service) > token);
    await(reconnects(0) > before);
    end();
}

/* The session survives, and so does the tenure. */
STORY(test_story__connections_cut_again_and_again)
{
    begin("cut again", 0);
    start_others(0);
    for (int i = 0; i < 12; i++) {
        uint64_t before = reconnects(i % MANY);

        proxy_cut(proxies[i % MANY]);
        await(reconnects(i % MANY) > before);
        await(owner() >= 0);
    }
    stop(0);
    await(owner() > 0);
    end();
}

/* A create was carried out and not answered: it is found again, not repeated.
 */
STORY(test_story__connection_cut_on_the_first_create)
{
    begin("first create", 0);
    for (int i = 1; i < MANY; i++) {
        proxy_trap(proxies[i], CREATE2);
        start(i);
        await(proxy_has_sprung(proxies[i]));
        await(waiting(0, "first create") == i);
        proxy_cut(proxies[i]);
        proxy_hold(proxies[i], false, false);
        await(simba_service_status(contenders[i].service) == SIMBA_RUNNING);
        assert_int_equal(waiting(0, "first create"), i);
    }
    stop(0);
    await(owner() == 1);
    stop(1);
    await(owner() == 2);
    end();
}

STORY(test_story__server_killed_and_back)
{
    begin("server killed", 0);
    start_others(0);
    server_kill(&servers, 0);
    server_start(&servers, 0);
    server_await(&servers, 0);
    await(owner() >= 0);
    stop(0);
    await(owner() > 0);
    end();
}

/* Stopped for longer than a session lasts, with everything still connected: by
 * its own clock the owner is none any more when the server goes on. */
STORY(test_story__server_stopped_for_long)
{
    int64_t stopped_at;
    uint64_t token;

    begin("server stopped", 0);
    start_others(0);
    token = atomic_load(&watchman.token);
    assert_int_equal(kill(servers.one[0].pid, SIGSTOP), 0);
    stopped_at = now_ms();
    await(owner() < 0);
    while (now_ms() - stopped_at < (TTL_MS + TRANSITION_MS) * 3 / 2) {
        assert_int_equal(owner(), -1);
        nap_ms(10);
    }
    assert_int_equal(kill(servers.one[0].pid, SIGCONT), 0);
    await(owner() >= 0);
    await(atomic_load(&watchman.token) > token);
    end();
}

/* --- admins -------------------------------------------------------------- */

STORY(test_story__parents_reaped)
{
    struct Stat stat;
    uint64_t token;

    begin("reaped", 0);
    token = simba_service_token(contenders[0].service);
    stop(0);
    await(zoo_exists(admin, "/simba/reaped", 0, &stat) == ZNONODE);
    start(1);
    await(owner() == 1);
    assert_true(simba_service_token(contenders[1].service) > token);
    start(2);
    await(waiting(0, "reaped") == 1);
    stop(1);
    await(owner() == 2);
    end();
}

STORY(test_story__stray_child)
{
    begin("stray", 0);
    assert_int_equal(zoo_create(admin, "/simba/stray/000", "", 0,
                                &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0),
                     ZOK);
    start_others(0);
    stop(0);
    await(owner() > 0);
    end();
    assert_int_equal(zoo_delete(admin, "/simba/stray/000", -1), ZOK);
}

/* The one latch that there is. */
static void delete_latch(const char *mutex_path)
{
    struct String_vector children = {0, NULL};
    char path[256];

    assert_int_equal(zoo_get_children(admin, mutex_path, 0, &children), ZOK);
    assert_int_equal(children.count, 1);
    snprintf(path, sizeof path, "%s/%s", mutex_path, children.data[0]);
    deallocate_String_vector(&children);
    assert_int_equal(zoo_delete(admin, path, -1), ZOK);
}

static void become_owner(simba_contender *contender,
                         const simba_store_options *options)
{
    struct contender *c = &contenders[0];
    char url[160];

    snprintf(url, sizeof url, "zookeeper://%s", servers.hosts);
    contender->on_released = on_released;
    contender->user = c;
    atomic_store(&c->released, 0);
    assert_int_equal(simba_store_open(url, options, &c->store, NULL), SIMBA_OK);
    assert_int_equal(simba_service_open(c->store, contender, &c->service, NULL),
                     SIMBA_OK);
    start(0);
    await(simba_service_is_owner(c->service));
}

static void end_alone(void)
{
    simba_service_close(contenders[0].service);
    simba_store_close(contenders[0].store);
}

/* Long before it would have renewed: that is after 13 s. */
STORY(test_story__own_node_deleted_is_told)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    int64_t deleted_at;

    contender.mutex = "deleted";
    contender.times.ttl_ms = 20000;
    contender.times.transition_ms = 10000;
    become_owner(&contender, NULL);
    delete_latch("/simba/deleted");
    deleted_at = now_ms();
    await(atomic_load(&contenders[0].released) > 0);
    assert_true(now_ms() - deleted_at < 6000);
    end_alone();
}

static char audit[512];

static void hear_audit(void *user,
                       enum simba_log_level level,
                       const char *component,
                       const char *message)
{
    (void)user;
    if (level == SIMBA_LOG_WARN && strcmp(component, "zookeeper") == 0) {
        snprintf(audit, sizeof audit, "%s", message);
    }
}

STORY(test_story__break_is_audited)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_break wish = SIMBA_BREAK_INIT;
    simba_owner present;
    simba_error error;

    options.log = hear_audit;
    options.log_level = SIMBA_LOG_WARN;
    contender.mutex = wish.mutex = "broken";
    contender.id = "ann";
    become_owner(&contender, &options);
    wish.now = true;
    wish.token = 1;
    wish.reason = "on fire";
    assert_int_equal(
        simba_admin_break(contenders[0].store, &wish, &present, &error),
        SIMBA_ELOST);
    assert_string_equal(present.id, "ann");
    assert_string_equal(audit, "");
    wish.token = present.token;
    wish.now = false;
    assert_int_equal(
        simba_admin_break(contenders[0].store, &wish, &present, &error),
        SIMBA_EINVAL);
    assert_string_equal(audit, "");
    wish.now = true;
    assert_int_equal(
        simba_admin_break(contenders[0].store, &wish, &present, &error),
        SIMBA_OK);
    assert_non_null(strstr(audit, "\"broken\": on fire"));
    await(atomic_load(&contenders[0].released) > 0);
    end_alone();
}

/* --- nobody there -------------------------------------------------------- */

/* In time, and saying so: 69 is the exit code for an unreachable store. */
STORY(test_story__waiting_for_nobody_ends_in_time)
{
    struct proxy *proxy = proxy_open(servers.one[0].client_port);
    int64_t begun_at = now_ms();
    char command[512];

    proxy_hold(proxy, true, true);
    snprintf(command, sizeof command,
             "'%s' --store zookeeper://127.0.0.1:%d lock m --wait 1s -- true "
             "2>'%s'/said; test $? = 69 && grep -q unreachable '%s'/said",
             simba, proxy_port(proxy), servers.directory, servers.directory);
    assert_int_equal(system(command), 0);
    assert_true(now_ms() - begun_at >= 1000);
    assert_true(now_ms() - begun_at < PATIENCE_MS);
    proxy_close(proxy);
}

int main(int argc, char **argv)
{
    if (argc < 2 || !servers_installed()) {
        puts("1..0 # SKIP no ZooKeeper server is installed");
        return 77;
    }
    simba = argv[1];
    return run_unit_tests(start_server, stop_server);
}
