/* The ZooKeeper store on a single real server when things go wrong: lost
 * answers, lost sessions, a server that is away. */
#define _GNU_SOURCE
#include "driver.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

/* Kinds of requests. */
enum { DELETE = 2, SYNC = 9 };

static struct proxy *proxy; /* before the server, for `first` */

static void open_through_proxy(void)
{
    proxy = proxy_open(servers.one[0].client_port);
    assert_int_equal(try_open(&first, "//127.0.0.1:%d", proxy_port(proxy)),
                     SIMBA_OK);
    assert_int_equal(try_open(&second, "//%s", servers.hosts), SIMBA_OK);
}

static int close_all(void **state)
{
    close_handles(state);
    proxy_close(proxy);
    proxy = NULL;
    return 0;
}

/* --- an operation whose answer is lost ----------------------------------- */

struct background {
    pthread_t thread;
    struct who *who;
    simba_op op;
    int status;
};

static void *run_in_background(void *argument)
{
    struct background *b = argument;
    simba_error error;

    b->op.mutex = mutex;
    b->op.id = b->who->id;
    b->op.attempt = b->who->attempt;
    b->op.token = b->who->token;
    b->op.ttl_ms = TTL;
    b->op.transition_ms = LEASE - TTL;
    b->op.deadline_ms = simba_loop_now_ms() + PATIENCE_MS;
    b->status = handle_run(b->who->at, &b->op, &error);
    return NULL;
}

static void start(struct background *b, struct who *who, simba_op op)
{
    *b = (struct background){.who = who, .op = op};
    assert_int_equal(pthread_create(&b->thread, NULL, run_in_background, b), 0);
}

static void finish(struct background *b)
{
    pthread_join(b->thread, NULL);
}

/* Bob owns the mutex; ann's session is there, and her create goes unanswered
 * until the connection breaks. */
static void lose_create(struct who *ann, struct who *bob)
{
    struct who eve = person(&first, "eve");
    simba_op op = asking(&eve);
    struct background b;

    open_through_proxy();
    op.mutex = "of no interest";
    run(&eve, op);
    ask(bob);
    proxy_hold(proxy, false, true);
    start(&b, ann, asking(ann));
    await(count_children(room) == 2);
    proxy_cut(proxy);
    proxy_hold(proxy, false, false);
    finish(&b);
    assert_int_equal(b.status, SIMBA_EUNKNOWN);
}

static void test_faults__lost_create_is_found_again(void **state)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");

    (void)state;
    lose_create(&ann, &bob);
    ask(&ann);
    expect_in_line(true, "bob");
    assert_int_equal(count_children(room), 2);
    release(&bob);
    ask(&ann);
    expect_mine(&ann);
}

static void test_faults__lost_create_is_undone(void **state)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");

    (void)state;
    lose_create(&ann, &bob);
    run(&ann, (simba_op){.kind = SIMBA_OP_RELEASE, .tombstone_ms = LEASE});
    assert_int_equal(count_children(room), 1);
}

static void test_faults__lost_release_is_repeated(void **state)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");
    struct background b;

    (void)state;
    open_through_proxy();
    ask(&ann);
    ask(&bob);
    proxy_hold(proxy, true, true);
    start(&b, &ann, (simba_op){.kind = SIMBA_OP_RELEASE});
    proxy_cut(proxy);
    proxy_hold(proxy, false, false);
    finish(&b);
    assert_true(handle_hinted(&second, mutex, PATIENCE_MS));
    ask(&bob);
    expect_mine(&bob);
}

static void test_faults__reconnected_session_keeps_its_latches(void **state)
{
    struct who ann = person(&first, "ann");

    (void)state;
    open_through_proxy();
    ask(&ann);
    proxy_cut(proxy);
    await(try_run(&ann, (simba_op){.kind = SIMBA_OP_RENEW}) == SIMBA_OK);
    expect_mine(&ann);
    assert_int_equal(got.token, ann.token);
}

/* Who only looks waits for the next connection. */
static void test_faults__lost_read_is_repeated(void **state)
{
    struct who ann = person(&second, "ann"), eve = person(&first, "eve");
    struct background b;

    (void)state;
    open_through_proxy();
    ask(&ann);
    look(&eve);
    proxy_trap(proxy, SYNC);
    start(&b, &eve, (simba_op){.kind = SIMBA_OP_READ});
    await(proxy_has_sprung(proxy));
    proxy_cut(proxy);
    proxy_hold(proxy, false, false);
    finish(&b);
    assert_int_equal(b.status, SIMBA_OK);
    assert_string_equal(b.op.reply.owner.id, "ann");
}

static void test_faults__lost_break_is_found_done(void **state)
{
    struct who ann = person(&second, "ann"), eve = person(&first, "eve");
    struct background b;

    (void)state;
    open_through_proxy();
    ask(&ann);
    look(&eve);
    proxy_trap(proxy, DELETE);
    eve.token = ann.token;
    start(&b, &eve, (simba_op){.kind = SIMBA_OP_BREAK, .now = true});
    await(count_children(room) <= 0);
    proxy_cut(proxy);
    proxy_hold(proxy, false, false);
    finish(&b);
    assert_int_equal(b.status, SIMBA_OK);
    assert_true(b.op.reply.mine);
}

/* --- a session that ends ------------------------------------------------- */

static void say_nothing(const char *message)
{
    (void)message;
}

/* Somebody who shows the id and password of a session may end it. He is given
 * the connection then; the one who had it must not get it back before. */
static void end_session_of_first(void)
{
    const struct simba__zk *self = (const struct simba__zk *)first.backend;
    clientid_t id = *zoo_client_id(self->handle);
    zhandle_t *twin;

    proxy_hold(proxy, true, true);
    twin = zookeeper_init2(servers.hosts, NULL, LEASE, &id, NULL,
                           ZOO_NO_LOG_CLIENTENV, say_nothing);
    await(zoo_state(twin) == ZOO_CONNECTED_STATE);
    zookeeper_close(twin);
    proxy_hold(proxy, false, false);
}

static void test_faults__ended_session_loses_and_begins_anew(void **state)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob"),
               cid = person(&second, "cid");

    (void)state;
    open_through_proxy();
    ask(&ann);
    ask(&bob); /* of the same session */
    ask(&cid);
    end_session_of_first();
    assert_true(handle_hinted(&first, mutex, PATIENCE_MS));
    await(try_run(&ann, (simba_op){.kind = SIMBA_OP_RENEW}) == SIMBA_OK &&
          !got.mine);
    /* A server says that a session is over before its nodes are gone. */
    await((ask(&cid), got.mine));
    expect_mine(&cid);
    ask(&bob); /* the same attempt, a new latch behind cid's */
    expect_in_line(true, "cid");
    assert_true(cid.token > ann.token);
}

/* --- sessions that nobody guarded ---------------------------------------- */

static uint64_t session_of(const struct handle *handle)
{
    return ((const struct simba__zk *)handle->backend)->generation;
}

static void test_faults__idle_session_is_made_anew(void **state)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob");
    uint64_t before;

    (void)state;
    open_through_proxy();
    ask(&ann);
    release(&ann);
    before = session_of(&first);
    pause_ms(LEASE * 3 / 4); /* nobody guards it */
    /* At the first try, though the old one has to be buried. */
    assert_int_equal(try_run(&bob, asking(&bob)), SIMBA_OK);
    expect_mine(&bob);
    assert_true(session_of(&first) != before);
    assert_true(got.lease_ms > LEASE * 3 / 4);
}

/* Only the guards that nobody asked for make this so. */
static void test_faults__waiter_is_granted_at_once_after_long(void **state)
{
    struct who ann = person(&second, "ann"), bob = person(&first, "bob");
    uint64_t before;

    (void)state;
    open_through_proxy();
    ask(&ann);
    ask(&bob);
    before = session_of(&first);
    for (int i = 0; i < 7; i++) { /* a lease and a bit */
        pause_ms(LEASE / 5);
        renew(&ann);
    }
    release(&ann);
    assert_true(handle_hinted(&first, mutex, PATIENCE_MS));
    ask(&bob);
    expect_mine(&bob);
    assert_true(got.lease_ms >= LEASE * 3 / 8);
    assert_int_equal(session_of(&first), before);
}

/* --- no server ----------------------------------------------------------- */

static void test_faults__unreachable_is_said_at_the_deadline(void **state)
{
    struct who ann = person(&first, "ann");
    simba_op op = asking(&ann);

    (void)state;
    open_through_proxy();
    proxy_hold(proxy, true, true);
    op.deadline_ms = simba_loop_now_ms() + 300;
    assert_int_equal(try_run(&ann, op), SIMBA_EUNAVAIL);
    assert_non_null(strstr(why.message, "no server answers"));
    proxy_hold(proxy, false, false);
    proxy_cut(proxy);
    ask(&ann);
    expect_mine(&ann);
}

/* Who was never answered is told long before the deadline, not at it. */
static void test_faults__unreachable_from_the_start_is_said_soon(void **state)
{
    static const enum simba_op_kind kinds[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_READ,
                                               SIMBA_OP_DOCTOR};
    struct who ann = person(&first, "ann");
    simba_op ops[3];

    (void)state;
    open_through_proxy();
    proxy_hold(proxy, true, true);
    for (int i = 0; i < 3; i++) {
        ops[i] = asking(&ann);
        ops[i].kind = kinds[i];
        ops[i].deadline_ms = simba_loop_now_ms() + PATIENCE_MS;
        fill_op(&ann, &ops[i]);
        handle_start(&first, &ops[i]);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(handle_join(&first, &ops[i], &why), SIMBA_EUNAVAIL);
        assert_non_null(strstr(why.message, "127.0.0.1:"));
        assert_non_null(strstr(why.message, "no server answers"));
    }
    assert_true(simba_loop_now_ms() < ops[0].deadline_ms - PATIENCE_MS / 3);
    pause_ms(LEASE / 2); /* a session of then would be old now */
    proxy_hold(proxy, false, false);
    ask(&ann);
    expect_mine(&ann);
    assert_true(got.lease_ms > LEASE / 2);
}

/* Two of three servers are silent, as machines without power are. Who has a
 * long lease is not to wait for a part of it. */
static void test_faults__silent_servers_are_passed_by(void **state)
{
    (void)state;
    proxy = proxy_open(servers.one[0].client_port);
    proxy_hold(proxy, true, true);
    for (int i = 0; i < 4; i++) { /* whichever it begins with */
        struct who ann = person(&first, "ann");
        simba_op op = asking(&ann);
        int64_t begun_ms = simba_loop_now_ms();

        op.ttl_ms = 50000;
        assert_int_equal(try_open(&first, "//127.0.0.1:%d,%s,127.0.0.1:%d",
                                  proxy_port(proxy), servers.hosts,
                                  proxy_port(proxy)),
                         SIMBA_OK);
        run(&ann, op);
        assert_true(got.mine);
        assert_true(simba_loop_now_ms() - begun_ms < PATIENCE_MS / 3);
        handle_close(&first);
    }
}

/* A connection that was lost is waited for as long as the deadline allows. */
static void test_faults__reading_outlasts_an_election(void **state)
{
    struct who ann = person(&first, "ann");
    simba_op op = {.kind = SIMBA_OP_READ};

    (void)state;
    open_through_proxy();
    ask(&ann);
    proxy_hold(proxy, true, true);
    proxy_cut(proxy);
    op.mutex = mutex;
    op.id = "";
    op.deadline_ms = simba_loop_now_ms() + PATIENCE_MS;
    handle_start(&first, &op);
    pause_ms(3000); /* longer than who was never answered would wait */
    proxy_hold(proxy, false, false);
    assert_int_equal(handle_join(&first, &op, &why), SIMBA_OK);
}

static void test_faults__unknown_host_is_said_at_the_deadline(void **state)
{
    struct who ann = person(&first, "ann");
    simba_op op = asking(&ann);

    (void)state;
    assert_int_equal(try_open(&first, "//no-such-host.invalid"), SIMBA_OK);
    op.deadline_ms = simba_loop_now_ms() + 500;
    assert_int_equal(try_run(&ann, op), SIMBA_EUNAVAIL);
}

/* Closes the store under its operations. */
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

static void test_faults__ipv6_address_is_reached(void **state)
{
    struct who ann = person(&first, "ann");
    simba_op op = {.kind = SIMBA_OP_READ};
    struct pollfd set = {.events = POLLIN};
    struct background b;
    int port = 0;

    (void)state;
    set.fd = listen_on_ipv6(&port);
    if (set.fd < 0) {
        skip(); /* there is no IPv6 here */
    }
    assert_int_equal(try_open(&first, "//[::1]:%d", port), SIMBA_OK);
    start(&b, &ann, op);
    assert_int_equal(poll(&set, 1, PATIENCE_MS / 2), 1);
    handle_end(&first);
    finish(&b);
    close(set.fd);
}

static bool has_both_open(void)
{
    const struct simba__zk *self = (struct simba__zk *)first.backend;
    bool has_both;

    simba_loop_enter(first.loop);
    has_both = self->latch_count == 1 && self->parked != NULL;
    simba_loop_leave(first.loop);
    return has_both;
}

/* As a caller does that has left: the store is closed under its operation. */
static void test_faults__closing_ends_what_is_open(void **state)
{
    struct who ann = person(&first, "ann");
    struct background asked, read;

    (void)state;
    open_through_proxy();
    proxy_hold(proxy, true, true);
    start(&asked, &ann, asking(&ann));
    start(&read, &ann, (simba_op){.kind = SIMBA_OP_READ});
    await(has_both_open());
    handle_end(&first);
    finish(&asked);
    finish(&read);
    assert_true(asked.status != SIMBA_OK && read.status != SIMBA_OK);
}

/* Frozen, not closed: what was granted ends by our own clock, and what is told
 * of the lease never reaches beyond what the server keeps. */
static void test_faults__frozen_owner_is_not_renewed(void **state)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");
    int64_t asked_at, certain_until = 0, granted_at;

    (void)state;
    open_through_proxy();
    ask(&ann);
    ask(&bob);
    for (int i = 0; i < 5; i++) {
        pause_ms(LEASE / 5);
        asked_at = simba_loop_now_ms();
        renew(&ann);
        expect_mine(&ann);
        certain_until = asked_at + got.lease_ms;
    }
    ask(&bob); /* or its place lapses */
    proxy_hold(proxy, true, true);
    assert_true(handle_hinted(&second, mutex, PATIENCE_MS));
    granted_at = simba_loop_now_ms();
    ask(&bob);
    expect_mine(&bob);
    assert_true(granted_at > certain_until - 10);
}

static void test_faults__restarted_server_keeps_the_session(void **state)
{
    struct who ann = person(&first, "ann");

    (void)state;
    open_through_proxy();
    ask(&ann);
    server_kill(&servers, 0);
    server_start(&servers, 0);
    server_await(&servers, 0);
    await(try_run(&ann, (simba_op){.kind = SIMBA_OP_RENEW}) == SIMBA_OK);
    if (!got.mine) { /* it took too long: then it is free for anybody */
        ann.attempt.low += 1000000;
        await((ask(&ann), got.mine));
    }
}

#define FAULT_TEST(test)                                                       \
    cmocka_unit_test_setup_teardown(test, new_mutex, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_faults__lost_create_is_found_again),
        FAULT_TEST(test_faults__lost_create_is_undone),
        FAULT_TEST(test_faults__lost_release_is_repeated),
        FAULT_TEST(test_faults__reconnected_session_keeps_its_latches),
        FAULT_TEST(test_faults__lost_read_is_repeated),
        FAULT_TEST(test_faults__lost_break_is_found_done),
        FAULT_TEST(test_faults__ended_session_loses_and_begins_anew),
        FAULT_TEST(test_faults__idle_session_is_made_anew),
        FAULT_TEST(test_faults__waiter_is_granted_at_once_after_long),
        FAULT_TEST(test_faults__unreachable_is_said_at_the_deadline),
        FAULT_TEST(test_faults__unreachable_from_the_start_is_said_soon),
        FAULT_TEST(test_faults__silent_servers_are_passed_by),
        FAULT_TEST(test_faults__reading_outlasts_an_election),
        FAULT_TEST(test_faults__unknown_host_is_said_at_the_deadline),
        FAULT_TEST(test_faults__ipv6_address_is_reached),
        FAULT_TEST(test_faults__closing_ends_what_is_open),
        FAULT_TEST(test_faults__frozen_owner_is_not_renewed),
        FAULT_TEST(test_faults__restarted_server_keeps_the_session),
    };

    if (!servers_installed()) {
        puts("1..0 # SKIP no ZooKeeper server is installed");
        return 77;
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
