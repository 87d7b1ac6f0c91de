/* A server that takes only small packets, as a server of its own size looks to
 * who has ten thousand latches: who asked for all its watches in one packet
 * when it connects again would be disconnected, for ever. */
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

/* Nobody renews meanwhile, on a machine that may have other work. */
static struct who lasting_person(struct handle *at, const char *id)
{
    struct who who = person(at, id);

    who.ttl_ms = PATIENCE_MS - who.transition_ms;
    return who;
}

static void queue_up(void)
{
    for (int i = 0; i < CROWD; i++) {
        struct who who = lasting_person(&first, "waiter");
        simba_request request = asking(&who);

        request.waiter_ms = 600000;
        run(&who, request);
        assert_true(got.is_queued);
    }
}

#define PACKETS_TEST(test) TEST_AROUND(test, new_mutex, close_all)

PACKETS_TEST(test_packets__session_with_many_watches_is_kept)
{
    struct who ann = lasting_person(&first, "ann"),
               bob = lasting_person(&second, "bob");

    proxy = proxy_open(servers.one[0].client_port);
    assert_int_equal(try_open(&first, "//127.0.0.1:%d", proxy_port(proxy)),
                     SIMBA_OK);
    assert_int_equal(try_open(&second, "//%s", servers.hosts), SIMBA_OK);
    ask(&bob);
    assert_true(got.mine);
    queue_up();
    ask(&ann);
    proxy_cut(proxy);
    await(try_run(&ann, asking(&ann)) == SIMBA_OK);
    expect_queued(false, "bob");
    assert_int_equal(count_children(mutex_path), CROWD + 2);
    (void)handle_woken(&first, mutex, 0);
    release(&bob); /* the watches are there */
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
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
