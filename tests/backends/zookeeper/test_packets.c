/* A server that takes only small packets, as a server of its own size looks to
 * who has ten thousand latches: the client library asks for all its watches in
 * one packet when it connects again, and the server closes the connection. */
#define _GNU_SOURCE
#include "driver.h"

enum { CROWD = 200 }; /* their nodes are 16 KiB of names */

static struct proxy *proxy;

static int close_all(void **state)
{
    int rc = close_handles(state);

    proxy_close(proxy);
    proxy = NULL;
    return rc;
}

static void queue_up(void)
{
    for (int i = 0; i < CROWD; i++) {
        struct who who = person(&first, "waiter");
        simba_request request = asking(&who);

        request.waiter_ms = 600000;
        run(&who, request);
        assert_true(got.is_queued);
    }
}

static bool is_renewed(struct who *who)
{
    simba_request request = {.kind = SIMBA_RENEW};

    request.deadline_ms = simba_loop_now_ms() + LEASE;
    return try_run(who, request) != SIMBA_OK || got.mine;
}

#define PACKETS_TEST(test) TEST_AROUND(test, new_mutex, close_all)

/* The session lives as long as it connects again; so it has to be given up. */
PACKETS_TEST(test_packets__session_of_no_use_is_given_up)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");

    proxy = proxy_open(servers.one[0].client_port);
    assert_int_equal(try_open(&first, "//127.0.0.1:%d", proxy_port(proxy)),
                     SIMBA_OK);
    assert_int_equal(try_open(&second, "//%s", servers.hosts), SIMBA_OK);
    ask(&ann);
    expect_mine(&ann);
    queue_up();
    proxy_cut(proxy);
    await(!is_renewed(&ann));
    await((ask(&bob), got.mine)); /* all of its nodes are gone */
    assert_int_equal(count_children(mutex_path), 1);
    release(&bob);
    await((ask(&ann), got.mine)); /* it contends again, in another session */
}

static bool is_watched(void)
{
    struct simba__zk *self = (struct simba__zk *)first.backend;
    bool is_so;

    simba_loop_enter(first.loop);
    is_so = simba__zk_mutex_at(self, mutex_path, strlen(mutex_path))
                ->serials.is_watched;
    simba_loop_leave(first.loop);
    return is_so;
}

/* Nobody contends, and the watch of who observes is answered each time. */
PACKETS_TEST(test_packets__session_of_observers_is_kept)
{
    struct who ann = person(&first, "ann");
    uint64_t session;

    proxy = proxy_open(servers.one[0].client_port);
    assert_int_equal(try_open(&first, "//127.0.0.1:%d", proxy_port(proxy)),
                     SIMBA_OK);
    ask(&ann);
    release(&ann);
    simba_loop_enter(first.loop);
    first.backend->ops->subscription(first.backend, mutex,
                                     SIMBA_SUBSCRIBE_OBSERVE);
    simba_loop_leave(first.loop);
    session = ((const struct simba__zk *)first.backend)->generation;
    nap_ms(LEASE + LEASE / 4); /* nothing is certain by it any more */
    for (int i = 0; i < 6; i++) {
        proxy_hold(proxy, true, true);
        proxy_cut(proxy);
        await(!is_watched());
        proxy_hold(proxy, false, false);
        await(is_watched());
    }
    assert_int_equal(((const struct simba__zk *)first.backend)->generation,
                     session);
}

int main(void)
{
    if (!servers_installed()) {
        puts("1..0 # SKIP no ZooKeeper server is installed");
        return 77;
    }
    servers_with("-Djute.maxbuffer=8192");
    return run_unit_tests(start_server, stop_server);
}
