/* The ZooKeeper store when no server answers, and what is closed meanwhile. */
#define _GNU_SOURCE
#include "proxy_faults.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

FAULT_TEST(test_connection__unreachable_is_said_at_the_deadline)
{
    struct who ann = person(&first, "ann");
    simba_request request = asking(&ann);

    open_through_proxy();
    proxy_hold(proxy, true, true);
    request.deadline_ms = simba_loop_now_ms() + 300;
    assert_int_equal(try_run(&ann, request), SIMBA_EUNAVAIL);
    assert_non_null(strstr(why.message, "no server answers"));
    proxy_hold(proxy, false, false);
    proxy_cut(proxy);
    ask(&ann);
    expect_mine(&ann);
}

/* Who was never answered is told long before the deadline, not at it. */
FAULT_TEST(test_connection__unreachable_from_the_start_is_said_soon)
{
    static const enum simba_request_kind kinds[] = {SIMBA_ACQUIRE, SIMBA_READ,
                                                    SIMBA_DOCTOR};
    struct who ann = person(&first, "ann");
    simba_request requests[3];

    open_through_proxy();
    proxy_hold(proxy, true, true);
    for (int i = 0; i < 3; i++) {
        requests[i] = asking(&ann);
        requests[i].kind = kinds[i];
        requests[i].deadline_ms = simba_loop_now_ms() + PATIENCE_MS;
        fill_request(&ann, &requests[i]);
        handle_start(&first, &requests[i]);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(handle_join(&first, &requests[i], &why),
                         SIMBA_EUNAVAIL);
        assert_non_null(strstr(why.message, "127.0.0.1:"));
        assert_non_null(strstr(why.message, "no server answers"));
    }
    assert_true(simba_loop_now_ms() <
                requests[0].deadline_ms - PATIENCE_MS / 3);
    nap_ms(LEASE / 2); /* a session of then would be old now */
    proxy_hold(proxy, false, false);
    ask(&ann);
    expect_mine(&ann);
    assert_true(got.lease_ms > LEASE / 2);
}

/* A server that grants a session and then answers nothing has no findings. */
FAULT_TEST(test_connection__doctor_of_a_mute_server_fails)
{
    struct who ann = person(&first, "ann");
    simba_request request = {.kind = SIMBA_DOCTOR, .mutex = ""};
    int64_t begun_ms = simba_loop_now_ms();

    open_through_proxy();
    proxy_mute(proxy);
    request.deadline_ms = begun_ms + PATIENCE_MS;
    assert_int_equal(try_run(&ann, request), SIMBA_EUNAVAIL);
    assert_non_null(strstr(why.message, "no server answers"));
    assert_string_equal(noted, "");
    assert_true(simba_loop_now_ms() - begun_ms < PATIENCE_MS / 3);
}

/* Every grant would have to be given back, for ever. */
FAULT_TEST(test_connection__session_too_short_for_the_budget_is_refused)
{
    static struct servers hasty;
    struct who ann = person(&first, "ann");
    simba_request request = asking(&ann);

    servers_tick(100);
    servers_start(&hasty, 1);
    assert_int_equal(try_open(&first, "//%s", hasty.hosts), SIMBA_OK);
    request.budget_ms = 2000;
    assert_int_equal(try_run(&ann, request), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "a session lasts 2000 ms"));
    assert_non_null(strstr(why.message, "set maxSessionTimeout"));
    request.budget_ms = 500;
    run(&ann, request);
    assert_true(got.mine);
    noted[0] = '\0';
    run(&ann, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    assert_non_null(strstr(noted, "[session 3]"));
    close_handles(NULL);
    servers_stop(&hasty);
}

/* Two of three servers are silent, as machines without power are. Who has a
 * long lease is not to wait for a part of it. */
FAULT_TEST(test_connection__silent_servers_are_passed_by)
{
    proxy = proxy_open(servers.one[0].client_port);
    proxy_hold(proxy, true, true);
    for (int i = 0; i < 4; i++) { /* whichever it begins with */
        struct who ann = person(&first, "ann");
        int64_t begun_ms = simba_loop_now_ms();

        ann.ttl_ms = 50000;
        assert_int_equal(try_open(&first, "//127.0.0.1:%d,%s,127.0.0.1:%d",
                                  proxy_port(proxy), servers.hosts,
                                  proxy_port(proxy)),
                         SIMBA_OK);
        ask(&ann);
        assert_true(got.mine);
        assert_true(simba_loop_now_ms() - begun_ms < PATIENCE_MS / 3);
        handle_close(&first);
    }
}

/* A connection that was lost is waited for as long as the deadline allows. */
FAULT_TEST(test_connection__reading_outlasts_an_election)
{
    struct who ann = person(&first, "ann");
    simba_request request = {.kind = SIMBA_READ};

    open_through_proxy();
    ask(&ann);
    proxy_hold(proxy, true, true);
    proxy_cut(proxy);
    request.mutex = mutex;
    request.id = "";
    request.deadline_ms = simba_loop_now_ms() + PATIENCE_MS;
    handle_start(&first, &request);
    nap_ms(3000); /* longer than who was never answered would wait */
    proxy_hold(proxy, false, false);
    assert_int_equal(handle_join(&first, &request, &why), SIMBA_OK);
}

FAULT_TEST(test_connection__unknown_host_is_said_at_the_deadline)
{
    struct who ann = person(&first, "ann");
    simba_request request = asking(&ann);

    assert_int_equal(try_open(&first, "//no-such-host.invalid"), SIMBA_OK);
    request.deadline_ms = simba_loop_now_ms() + 500;
    assert_int_equal(try_run(&ann, request), SIMBA_EUNAVAIL);
}

/* Closes the store under its requests. */
static void handle_end(struct handle *handle)
{
    simba_loop_enter(handle->loop);
    handle->backend->ops->detach(handle->backend);
    simba_loop_leave(handle->loop);
    handle->backend->ops->close(handle->backend);
    handle->backend = NULL;
}

static int listen_on_ipv6(int *port)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                   .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&address, length) != 0 ||
        listen(fd, 5) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        close(fd);
        return -1;
    }
    *port = ntohs(address.sin6_port);
    return fd;
}

FAULT_TEST(test_connection__ipv6_address_is_reached)
{
    struct who ann = person(&first, "ann");
    simba_request request = {.kind = SIMBA_READ};
    struct pollfd set = {.events = POLLIN};
    struct background b;
    int port = 0;

    set.fd = listen_on_ipv6(&port);
    if (set.fd < 0) {
        skip(); /* there is no IPv6 here */
    }
    assert_int_equal(try_open(&first, "//[::1]:%d", port), SIMBA_OK);
    start(&b, &ann, request);
    assert_int_equal(poll(&set, 1, PATIENCE_MS / 2), 1);
    handle_end(&first);
    finish(&b);
    close(set.fd);
}

static bool has_both_open(void)
{
    const simba__zk *self = (simba__zk *)first.backend;
    bool has_both;

    simba_loop_enter(first.loop);
    has_both = self->base.entry_count == 1 && self->admins == 1;
    simba_loop_leave(first.loop);
    return has_both;
}

/* As a caller does that has left: the store is closed under its request. */
FAULT_TEST(test_connection__closing_ends_what_is_open)
{
    struct who ann = person(&first, "ann");
    struct background asked, read;

    open_through_proxy();
    proxy_hold(proxy, true, true);
    start(&asked, &ann, asking(&ann));
    start(&read, &ann, (simba_request){.kind = SIMBA_READ});
    await(has_both_open());
    handle_end(&first);
    finish(&asked);
    finish(&read);
    assert_true(asked.status != SIMBA_OK && read.status != SIMBA_OK);
}

int main(void)
{
    return run_beside_server();
}
