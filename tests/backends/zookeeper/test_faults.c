/* The ZooKeeper store on a single real server when things go wrong: lost
 * answers, lost sessions. */
#define _GNU_SOURCE
#include "proxy_faults.h"

/* Kinds of requests. */
enum { DELETE = 2, SYNC = 9 };

/* --- a request whose answer is lost -------------------------------------- */

/* Bob owns the mutex; ann's session is there, and her create goes unanswered
 * until the connection breaks. */
static void lose_create(struct who *ann, struct who *bob)
{
    struct who eve = person(&first, "eve");
    simba_request request = asking(&eve);
    struct background b;

    open_through_proxy();
    request.mutex = "of no interest";
    run(&eve, request);
    ask(bob);
    proxy_hold(proxy, false, true);
    start(&b, ann, asking(ann));
    await(count_children(mutex_path) == 2);
    proxy_cut(proxy);
    proxy_hold(proxy, false, false);
    finish(&b);
    assert_int_equal(b.status, SIMBA_EUNKNOWN);
}

FAULT_TEST(test_faults__lost_create_is_found_again)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");

    lose_create(&ann, &bob);
    ask(&ann);
    expect_queued(true, "bob");
    assert_int_equal(count_children(mutex_path), 2);
    release(&bob);
    ask(&ann);
    expect_mine(&ann);
}

FAULT_TEST(test_faults__lost_create_is_undone)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");

    lose_create(&ann, &bob);
    run(&ann, (simba_request){.kind = SIMBA_RELEASE, .tombstone_ms = LEASE});
    assert_int_equal(count_children(mutex_path), 1);
}

FAULT_TEST(test_faults__lost_release_is_repeated)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");
    struct background b;

    open_through_proxy();
    ask(&ann);
    ask(&bob);
    proxy_hold(proxy, true, true);
    start(&b, &ann, (simba_request){.kind = SIMBA_RELEASE});
    proxy_cut(proxy);
    proxy_hold(proxy, false, false);
    finish(&b);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    ask(&bob);
    expect_mine(&bob);
}

FAULT_TEST(test_faults__reconnected_session_keeps_its_latches)
{
    struct who ann = person(&first, "ann");

    open_through_proxy();
    ask(&ann);
    proxy_cut(proxy);
    await(try_run(&ann, (simba_request){.kind = SIMBA_RENEW}) == SIMBA_OK);
    expect_mine(&ann);
    assert_int_equal(got.token, ann.token);
}

/* Who only looks waits for the next connection. */
FAULT_TEST(test_faults__lost_read_is_repeated)
{
    struct who ann = person(&second, "ann"), eve = person(&first, "eve");
    struct background b;

    open_through_proxy();
    ask(&ann);
    look(&eve);
    proxy_trap(proxy, SYNC);
    start(&b, &eve, (simba_request){.kind = SIMBA_READ});
    await(proxy_has_sprung(proxy));
    proxy_cut(proxy);
    proxy_hold(proxy, false, false);
    finish(&b);
    assert_int_equal(b.status, SIMBA_OK);
    assert_string_equal(b.request.reply.owner.id, "ann");
}

FAULT_TEST(test_faults__lost_break_is_found_done)
{
    struct who ann = person(&second, "ann"), eve = person(&first, "eve");
    struct background b;

    open_through_proxy();
    ask(&ann);
    look(&eve);
    proxy_trap(proxy, DELETE);
    eve.token = ann.token;
    start(&b, &eve, (simba_request){.kind = SIMBA_BREAK, .now = true});
    await(count_children(mutex_path) <= 0);
    proxy_cut(proxy);
    proxy_hold(proxy, false, false);
    finish(&b);
    assert_int_equal(b.status, SIMBA_OK);
    assert_true(b.request.reply.mine);
}

/* --- a session that ends ------------------------------------------------- */

/* Somebody who shows the id and password of a session may end it. He is given
 * the connection then; the one who had it must not get it back before. */
static void end_session_of_first(void)
{
    const simba__zk *self = (const simba__zk *)first.backend;
    clientid_t id = {.client_id = self->session->id};
    zhandle_t *twin;

    memcpy(id.passwd, self->session->password, sizeof id.passwd);
    proxy_hold(proxy, true, true);
    twin = dial(LEASE, &id);
    zookeeper_close(twin);
    proxy_hold(proxy, false, false);
}

FAULT_TEST(test_faults__ended_session_loses_and_begins_anew)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob"),
               cid = person(&second, "cid");

    open_through_proxy();
    ask(&ann);
    ask(&bob); /* of the same session */
    ask(&cid);
    end_session_of_first();
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    await(try_run(&ann, (simba_request){.kind = SIMBA_RENEW}) == SIMBA_OK &&
          !got.mine);
    /* A server says that a session is over before its nodes are gone. */
    await((ask(&cid), got.mine));
    expect_mine(&cid);
    ask(&bob); /* the same attempt, a new latch behind cid's */
    expect_queued(true, "cid");
    assert_true(cid.token > ann.token);
}

/* --- sessions that nobody writes through --------------------------------- */

static int64_t session_of(const struct handle *handle)
{
    return ((const simba__zk *)handle->backend)->session->id;
}

FAULT_TEST(test_faults__idle_session_is_made_anew)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob");
    int64_t before;

    open_through_proxy();
    ask(&ann);
    release(&ann);
    before = session_of(&first);
    nap_ms(LEASE * 3 / 4); /* nobody writes through it */
    /* At the first try, though the old session has to be closed. */
    assert_int_equal(try_run(&bob, asking(&bob)), SIMBA_OK);
    expect_mine(&bob);
    assert_true(session_of(&first) != before);
    assert_true(got.lease_ms > LEASE * 3 / 4);
}

/* Only the quorum writes that nobody asked for make this so. */
FAULT_TEST(test_faults__waiter_is_granted_at_once_after_long)
{
    struct who ann = person(&second, "ann"), bob = person(&first, "bob");
    int64_t before;

    open_through_proxy();
    ask(&ann);
    ask(&bob);
    before = session_of(&first);
    for (int i = 0; i < 7; i++) { /* a lease and a bit */
        nap_ms(LEASE / 5);
        renew(&ann);
    }
    release(&ann);
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    ask(&bob);
    expect_mine(&bob);
    assert_true(got.lease_ms >= LEASE * 3 / 8);
    assert_int_equal(session_of(&first), before);
}

/* Frozen, not closed: what was granted ends by our own clock, and what is told
 * of the lease never reaches beyond what the server keeps. */
FAULT_TEST(test_faults__frozen_owner_is_not_renewed)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");
    int64_t asked_at, certain_until = 0, granted_at;

    open_through_proxy();
    ask(&ann);
    ask(&bob);
    for (int i = 0; i < 5; i++) {
        nap_ms(LEASE / 5);
        asked_at = simba_loop_now_ms();
        renew(&ann);
        expect_mine(&ann);
        certain_until = asked_at + got.lease_ms;
    }
    ask(&bob); /* or its position lapses */
    proxy_hold(proxy, true, true);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    granted_at = simba_loop_now_ms();
    ask(&bob);
    expect_mine(&bob);
    assert_true(granted_at > certain_until - 10);
}

/* What it says arrives, what it is answered does not: by connecting again and
 * again it would keep the session, and with it the mutex, for ever. */
FAULT_TEST(test_faults__owner_who_hears_nothing_is_succeeded)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");

    open_through_proxy();
    ask(&ann);
    expect_mine(&ann);
    proxy_hold(proxy, false, true);
    await((ask(&bob), got.mine));
}

FAULT_TEST(test_faults__restarted_server_keeps_the_session)
{
    struct who ann = person(&first, "ann");

    open_through_proxy();
    ask(&ann);
    server_kill(&servers, 0);
    server_start(&servers, 0);
    server_await(&servers, 0);
    await(try_run(&ann, (simba_request){.kind = SIMBA_RENEW}) == SIMBA_OK);
    if (!got.mine) { /* it took too long: then it is free for anybody */
        ann.attempt.low += 1000000;
        await((ask(&ann), got.mine));
    }
}

int main(void)
{
    return run_beside_server();
}
