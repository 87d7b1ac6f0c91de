/* Store handles on a real server, people who contend through them, and an admin
 * who looks at the nodes directly. */
#ifndef TESTS_BACKENDS_ZOOKEEPER_DRIVER_H
#define TESTS_BACKENDS_ZOOKEEPER_DRIVER_H

#include "backends/zookeeper/zookeeper.h"
#include "fixtures/zookeeper_servers.h"

#define THREADED /* the blocking calls as well */
#include <zookeeper/zookeeper.h>

#include <stdio.h>
#include <stdlib.h>

static struct servers servers;
static char mutex[64];

#define MUTEX       mutex
#define TTL         2500
#define LEASE       4000
#define WAITER_MS   (2 * LEASE)
#define PATIENCE_MS 60000
#define ANSWER_MS   20000
/* As the contention machine does: what failed for want of a connection, or
 * went unanswered, is tried again. A busy machine loses connections. */
#define MAY_PASS(status)                                                       \
    ((status) == SIMBA_EUNAVAIL || (status) == SIMBA_EUNKNOWN)
#include "fixtures/contenders.h"

static struct handle first, second;
static struct {
    zhandle_t *handle;
} admin;
static char mutex_path[128]; /* its node */

/* --- what the runtime notes ---------------------------------------------- */

static char noted[8192];

static inline void note(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
static inline void note(const char *format, ...)
{
    size_t length = strlen(noted);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(noted + length, sizeof noted - length, format, arguments);
    va_end(arguments);
}

void simba_request_add_waiter(simba_request *request,
                              const simba_waiter *waiter)
{
    (void)request;
    note("[%s]", waiter->id);
}

void simba_request_add_owner(simba_request *request, const simba_owner *owner)
{
    (void)request;
    note("{%s %u}", owner->id, owner->slots);
}

void simba_request_add_mutex(simba_request *request,
                             const char *name,
                             const simba_owner *owner,
                             int waiting)
{
    (void)request;
    note("[%s %s %d]", name, owner->id, waiting);
}

void simba_request_add_finding(simba_request *request,
                               enum simba_gravity gravity,
                               const char *name,
                               const char *format,
                               ...)
{
    (void)request;
    (void)format;
    note("[%s %d]", name, (int)gravity);
}

/* --- places -------------------------------------------------------------- */

static inline void say_nothing(const char *message)
{
    (void)message;
}

static inline zhandle_t *dial(int timeout_ms, const clientid_t *id)
{
    zhandle_t *handle;

    zoo_set_debug_level((ZooLogLevel)0);
    handle = zookeeper_init2(servers.hosts, NULL, timeout_ms, id, NULL,
                             ZOO_NO_LOG_CLIENTENV, say_nothing);
    await(zoo_state(handle) == ZOO_CONNECTED_STATE);
    return handle;
}

static inline int start_server(void **state)
{
    (void)state;
    servers_start(&servers, 1);
    admin.handle = dial(30000, NULL);
    return 0;
}

static inline int stop_server(void **state)
{
    (void)state;
    if (admin.handle != NULL) {
        zookeeper_close(admin.handle);
    }
    servers_stop(&servers);
    return 0;
}

static inline int new_mutex(void **state)
{
    static int count;

    (void)state;
    snprintf(mutex, sizeof mutex, "m%d", count++);
    snprintf(mutex_path, sizeof mutex_path, "/simba/%s", mutex);
    noted[0] = '\0';
    return 0;
}

static inline int close_handles(void **state)
{
    (void)state;
    handle_close(&first);
    handle_close(&second);
    return 0;
}

static inline int try_open(struct handle *handle, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline int try_open(struct handle *handle, const char *format, ...)
{
    char rest[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(rest, sizeof rest, format, arguments);
    va_end(arguments);
    return handle_open(handle, &simba_module, rest, &why);
}

static inline void open_handles(void)
{
    assert_int_equal(try_open(&first, "//%s", servers.hosts), SIMBA_OK);
    assert_int_equal(try_open(&second, "//%s", servers.hosts), SIMBA_OK);
}

/* --- people -------------------------------------------------------------- */

static inline void look(struct who *who)
{
    noted[0] = '\0';
    run(who, (simba_request){.kind = SIMBA_READ, .want_queue = true});
}

static inline void expect_mine(const struct who *who)
{
    assert_true(got.mine);
    assert_true(got.token != 0);
    assert_true(got.lease_ms > LEASE / 4);
    assert_true(got.lease_ms <= LEASE);
    assert_string_equal(got.owner.id, who->id);
    assert_int_equal(got.owner.token, got.token);
}

static inline void expect_queued(bool is_head, const char *owner)
{
    assert_false(got.mine);
    assert_true(got.is_queued);
    assert_int_equal(got.is_head, is_head);
    assert_true(got.position != 0);
    assert_string_equal(got.owner.id, owner);
}

/* --- the admin ----------------------------------------------------------- */

static inline int count_children(const char *path)
{
    struct String_vector children = {0, NULL};
    int rc = zoo_get_children(admin.handle, path, 0, &children);
    int count = rc == ZOK ? children.count : rc;

    if (rc == ZOK) {
        deallocate_String_vector(&children);
    }
    return count;
}

/* The reaper may have taken the mutex already. */
static inline bool is_empty(const char *path)
{
    int count = count_children(path);

    return count == 0 || count == ZNONODE;
}

/* The node of the attempt's latch; its text lives until the next call. */
static inline const char *node_of(const struct who *who)
{
    static char path[256];
    char prefix[SIMBA__ZK_PREFIX_SIZE];
    struct String_vector children = {0, NULL};
    simba__zk_queue queue;
    int own;

    assert_int_equal(zoo_get_children(admin.handle, mutex_path, 0, &children),
                     ZOK);
    simba__zk_prefix(who->attempt, 0, prefix);
    simba__zk_queue_read(&queue, children.data, children.count);
    own = simba__zk_find_prefix(&queue, prefix);
    assert_true(own >= 0);
    snprintf(path, sizeof path, "%s/%s", mutex_path, queue.nodes[own]);
    deallocate_String_vector(&children);
    return path;
}

static inline int tell_no_server(void)
{
    puts("1..0 # SKIP no ZooKeeper server is installed");
    return 77;
}

/* What main() returns: the tests run beside one server, if there is one. */
#define run_beside_server()                                                    \
    (servers_installed() ? run_unit_tests(start_server, stop_server)           \
                         : tell_no_server())

#define ZK_TEST(test) TEST_AROUND(test, new_mutex, close_handles)

#endif
