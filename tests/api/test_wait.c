/* A server that is down, comes up, or dies while somebody waits in the queue:
 * the same on every store. The server of the first argument is behind a proxy,
 * which is down when it is meant to be. */
#define _GNU_SOURCE
#include "fixtures/api_harness.h"
#include "fixtures/name_server.h"
#include "fixtures/tcp_proxy.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    SHORT_MS = 3000, /* a ttl; the least lease of all stores is 4 s */
    TRANSITION_MS = 1000,
    SOON_MS = 1500,     /* a second, and what a busy machine takes */
    AT_ONCE_MS = 2000,  /* what is not waited for, on a busy machine */
    FOR_EVER_MS = 60000 /* but this is known to be */
};

static struct proxy *proxy;
static char url[256];
static struct log_counter told = {.level = SIMBA_LOG_WARN, .text = ""};

/* --- names --------------------------------------------------------------- */

static _Atomic int name_problem; /* of db.example */

static int be_asked_for_name(void)
{
    return atomic_load(&name_problem);
}

/* --- the server ---------------------------------------------------------- */

/* The store as it is reached by this host and the proxy's port. */
static const char *url_at(const char *host)
{
    static const struct {
        const char *scheme, *before, *after;
    } forms[] = {
        {"postgres", "postgres://simba@", "/postgres?sslmode=disable"},
        {"mysql", "mysql://simba@", "/simba?option_file=/dev/null&tls=off"},
        {"zookeeper", "zookeeper://", ""},
        {"etcd", "etcd://", ""},
        {"redis:", "redis://", "?restart_grace=0"},
        {"redis+cluster", "redis+cluster://", "?restart_grace=0"},
        {"redis+sentinel", "redis+sentinel://", "/simba?restart_grace=0"},
    };
    size_t i = 0;

    while (strncmp(store_url, forms[i].scheme, strlen(forms[i].scheme)) != 0) {
        i++;
    }
    snprintf(url, sizeof url, "%s%s:%d%s", forms[i].before, host,
             proxy_port(proxy), forms[i].after);
    return url;
}

static int target_port(void)
{
    const char *port = getenv("SIMBA_SERVER_PORT");
    const char *colon = strchr(strstr(store_url, "://") + 3, ':');

    return (int)strtol(port != NULL ? port : colon + 1, NULL, 10);
}

static int begin(void **state)
{
    (void)state;
    proxy = proxy_open(target_port());
    proxy_refuse(proxy, true);
    atomic_store(&told.count, 0);
    atomic_store(&name_problem, 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    proxy_close(proxy);
    return 0;
}

#define WAIT_TEST(test) TEST_AROUND(test, begin, end)

static int try_open(const char *at, int64_t wait_ms, simba_store **store)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;

    options.wait_ms = wait_ms;
    options.log = count_log;
    options.log_user = &told;
    return simba_store_open(at, &options, store, NULL);
}

/* The shorter the lease, the sooner a request fails; 0: as it comes. */
static simba_locker *open_locker(simba_store *store,
                                 const char *mutex,
                                 int64_t ttl_ms)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = mutex;
    options.times.ttl_ms = ttl_ms;
    options.times.transition_ms = ttl_ms == 0 ? -1 : TRANSITION_MS;
    return must_open_locker(store, &options);
}

/* --- somebody who waits -------------------------------------------------- */

struct waiting {
    pthread_t thread;
    simba_store *store; /* NULL: it is opened, for `wait_ms` */
    simba_locker *locker;
    int64_t wait_ms;
    _Atomic int64_t ended_ms;
    int rc;
};

static void *wait_for_it(void *argument)
{
    struct waiting *w = argument;

    w->rc = w->locker == NULL
                ? try_open(url, w->wait_ms, &w->store)
                : simba_locker_acquire(w->locker, w->wait_ms, NULL, NULL);
    atomic_store(&w->ended_ms, now_ms());
    return NULL;
}

static void start_waiting(struct waiting *w)
{
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_it, w), 0);
}

/* How long after `since_ms` it came to its end. */
static int64_t join(struct waiting *w, int64_t since_ms)
{
    pthread_join(w->thread, NULL);
    return atomic_load(&w->ended_ms) - since_ms;
}

static void close_waiting(struct waiting *w)
{
    simba_locker_close(w->locker);
    simba_store_close(w->store);
}

/* --- tests --------------------------------------------------------------- */

WAIT_TEST(test_wait__a_store_is_opened_without_its_server)
{
    int64_t since_ms = now_ms();
    simba_locker *locker;
    simba_store *store;

    assert_int_equal(try_open(url_at("127.0.0.1"), 0, &store), SIMBA_OK);
    locker = open_locker(store, fresh_mutex(), 0);
    assert_int_equal(simba_locker_acquire(locker, 0, NULL, NULL),
                     SIMBA_EUNAVAIL);
    assert_true(now_ms() - since_ms < AT_ONCE_MS);
    simba_locker_close(locker);
    simba_store_close(store);
}

WAIT_TEST(test_wait__opening_waits_as_long_as_it_is_told)
{
    int64_t since_ms = now_ms();
    simba_store *store;

    assert_int_equal(try_open(url_at("127.0.0.1"), 1, &store), SIMBA_EUNAVAIL);
    assert_null(store);
    assert_true(now_ms() - since_ms < AT_ONCE_MS);
    atomic_store(&told.count, 0);
    since_ms = now_ms();
    assert_int_equal(try_open(url, 500, &store), SIMBA_EUNAVAIL);
    assert_in_range(now_ms() - since_ms, 500, 500 + AT_ONCE_MS);
    assert_int_equal(atomic_load(&told.count), 1);
}

WAIT_TEST(test_wait__opening_ends_when_the_server_is_up)
{
    struct waiting w = {.wait_ms = -1};
    int64_t up_ms;

    (void)url_at("127.0.0.1");
    start_waiting(&w);
    await(atomic_load(&told.count) == 1);
    nap_ms(300);
    assert_int_equal(atomic_load(&w.ended_ms), 0);
    up_ms = now_ms();
    proxy_refuse(proxy, false);
    assert_in_range(join(&w, up_ms), 0, SOON_MS);
    assert_int_equal(w.rc, SIMBA_OK);
    close_waiting(&w);
}

/* After so long that who fails again and again comes back at his slowest. */
WAIT_TEST(test_wait__who_waits_for_a_mutex_waits_for_its_server)
{
    struct waiting w = {.wait_ms = FOR_EVER_MS};
    int64_t up_ms;

    assert_int_equal(try_open(url_at("127.0.0.1"), 0, &w.store), SIMBA_OK);
    w.locker = open_locker(w.store, fresh_mutex(), 0);
    start_waiting(&w);
    await(atomic_load(&told.count) > 0);
    nap_ms(1700);
    assert_int_equal(atomic_load(&told.count), 1); /* and not each time */
    up_ms = now_ms();
    proxy_refuse(proxy, false);
    assert_in_range(join(&w, up_ms), 0, SOON_MS);
    assert_int_equal(w.rc, SIMBA_OK);
    close_waiting(&w);
}

WAIT_TEST(test_wait__an_unknown_host_is_not_waited_for)
{
    int64_t since_ms = now_ms();
    simba_locker *locker;
    simba_store *store;

    atomic_store(&name_problem, EAI_NONAME);
    assert_int_equal(try_open(url_at("db.example"), -1, &store),
                     SIMBA_EUNAVAIL);
    assert_int_equal(try_open(url, 0, &store), SIMBA_OK);
    locker = open_locker(store, fresh_mutex(), 0);
    assert_int_equal(simba_locker_acquire(locker, FOR_EVER_MS, NULL, NULL),
                     SIMBA_EUNAVAIL);
    assert_true(now_ms() - since_ms < AT_ONCE_MS);
    simba_locker_close(locker);
    simba_store_close(store);
}

WAIT_TEST(test_wait__a_name_server_that_fails_is_waited_for)
{
    struct waiting w = {.wait_ms = FOR_EVER_MS};
    int64_t up_ms;

    proxy_refuse(proxy, false);
    atomic_store(&name_problem, EAI_AGAIN);
    assert_int_equal(try_open(url_at("db.example"), 0, &w.store), SIMBA_OK);
    w.locker = open_locker(w.store, fresh_mutex(), 0);
    start_waiting(&w);
    await(atomic_load(&told.count) > 0);
    nap_ms(300);
    assert_int_equal(atomic_load(&w.ended_ms), 0);
    up_ms = now_ms();
    atomic_store(&name_problem, 0);
    assert_in_range(join(&w, up_ms), 0, SOON_MS);
    assert_int_equal(w.rc, SIMBA_OK);
    close_waiting(&w);
}

/* The owner has another way to the server. Sentinels and clusters tell the
 * waiter one, too. */
WAIT_TEST(test_wait__a_server_that_dies_is_no_mutex_that_is_owned)
{
    struct waiting w = {.wait_ms = 4500};
    const char *mutex = fresh_mutex();
    int64_t since_ms;
    simba_store *store;
    simba_locker *owner;
    simba_report *report = NULL;

    if (strncmp(store_url, "redis+", 6) == 0) {
        skip();
    }
    proxy_refuse(proxy, false);
    assert_int_equal(try_open(url_at("127.0.0.1"), 0, &w.store), SIMBA_OK);
    w.locker = open_locker(w.store, mutex, SHORT_MS);
    store = open_store();
    owner = open_locker(store, mutex, SHORT_MS);
    assert_int_equal(simba_locker_acquire(owner, FOR_EVER_MS, NULL, NULL),
                     SIMBA_OK);
    start_waiting(&w);
    do {
        simba_report_close(report);
        assert_int_equal(simba_admin_show(store, mutex, &report, NULL),
                         SIMBA_OK);
    } while (simba_report_waiter_count(report) == 0);
    simba_report_close(report);
    atomic_store(&told.count, 0);
    proxy_refuse(proxy, true);
    since_ms = now_ms();
    await(atomic_load(&told.count) > 0);
    assert_true(now_ms() - since_ms < 3000); /* ZooKeeper takes two of them */
    (void)join(&w, 0);
    assert_int_equal(w.rc, SIMBA_EUNAVAIL);
    simba_locker_close(owner);
    simba_store_close(store);
    close_waiting(&w);
}
