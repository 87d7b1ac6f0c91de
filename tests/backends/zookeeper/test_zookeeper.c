/* The ZooKeeper store on a single real server, one request at a time. */
#define _GNU_SOURCE
#include "driver.h"

/* --- acquiring and renewing ---------------------------------------------- */

ZK_TEST(test_zookeeper__grants_when_free_and_renews)
{
    struct who ann = person(&first, "ann");

    open_handles();
    ask(&ann);
    expect_mine(&ann);
    assert_int_equal(count_children(mutex_path), 1);
    renew(&ann);
    expect_mine(&ann);
    assert_int_equal(got.token, ann.token);
    release(&ann);
    assert_true(is_empty(mutex_path));
    renew(&ann);
    assert_false(got.mine);
}

ZK_TEST(test_zookeeper__asking_again_finds_the_same_tenure)
{
    struct who ann = person(&first, "ann");
    uint64_t token;

    open_handles();
    ask(&ann);
    token = ann.token;
    ask(&ann);
    expect_mine(&ann);
    assert_int_equal(got.token, token);
    assert_int_equal(count_children(mutex_path), 1);
}

ZK_TEST(test_zookeeper__refuses_and_queues)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob"),
               cid = person(&first, "cid");

    open_handles();
    ask(&ann);
    ask(&bob);
    expect_queued(true, "ann");
    ask(&cid);
    expect_queued(false, "ann");
    assert_true(cid.position > bob.position);
    ask(&cid); /* keeps its position */
    expect_queued(false, "ann");
    assert_int_equal(got.position, cid.position);
    assert_int_equal(count_children(mutex_path), 3);
}

ZK_TEST(test_zookeeper__release_wakes_the_next)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");

    open_handles();
    ask(&ann);
    ask(&bob);
    assert_false(handle_woken(&second, mutex, 0));
    release(&ann);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    ask(&bob);
    expect_mine(&bob);
    assert_true(bob.token > ann.token);
}

ZK_TEST(test_zookeeper__who_leaves_is_passed)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob"),
               cid = person(&first, "cid");

    open_handles();
    ask(&ann);
    ask(&bob);
    ask(&cid);
    leave(&bob);
    assert_int_equal(count_children(mutex_path), 2);
    leave(
        &ann); /* no position in the queue: a tenure is not left but released */
    renew(&ann);
    expect_mine(&ann);
    release(&ann);
    ask(&cid);
    expect_mine(&cid);
}

/* A wake-up makes the two foremost of a process look, no others. */
ZK_TEST(test_zookeeper__waiter_behind_is_woken_in_its_turn)
{
    struct who ann = person(&second, "ann"), bob = person(&first, "bob"),
               cid = person(&first, "cid"), dan = person(&second, "dan"),
               eve = person(&first, "eve");

    open_handles();
    ask(&ann);
    ask(&bob);
    ask(&cid);
    ask(&dan);
    ask(&eve);
    leave(&dan);
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    ask(&bob);
    ask(&cid);
    leave(&cid);
    leave(&bob);
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    ask(&eve);
    expect_queued(true, "ann");
    (void)handle_woken(&first, mutex, 0);
    release(&ann);
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    ask(&eve);
    expect_mine(&eve);
}

ZK_TEST(test_zookeeper__try_without_joining_leaves_nothing)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");
    simba_request request = asking(&bob);

    open_handles();
    request.join = false;
    ask(&ann);
    run(&bob, request);
    assert_false(got.mine);
    assert_false(got.is_queued);
    assert_string_equal(got.owner.id, "ann");
    assert_int_equal(count_children(mutex_path), 1);
}

ZK_TEST(test_zookeeper__undone_attempt_stays_undone)
{
    struct who ann = person(&first, "ann");

    open_handles();
    ask(&ann);
    run(&ann, (simba_request){.kind = SIMBA_RELEASE, .tombstone_ms = 60000});
    ask(&ann);
    assert_false(got.mine);
    assert_false(got.is_queued);
    assert_true(is_empty(mutex_path));
}

ZK_TEST(test_zookeeper__one_handle_has_one_lease)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob");

    open_handles();
    bob.ttl_ms = TTL + 1000;
    ask(&ann);
    assert_int_equal(try_run(&bob, asking(&bob)), SIMBA_EINVAL);
    release(&ann); /* nobody contends with the old one any more */
    ask(&bob);
    assert_true(got.mine);
    assert_true(got.lease_ms > LEASE);
}

/* The session lives on; the tenure does not. */
ZK_TEST(test_zookeeper__unrenewed_tenure_lapses)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob");
    simba_request request = asking(&ann);
    int64_t asked;

    open_handles();
    look(&ann); /* so that it is connected */
    do {        /* it may lapse when nobody waits for its answer any more */
        asked = simba_loop_now_ms();
        request.deadline_ms = asked + LEASE / 2;
    } while (try_run(&ann, request) != SIMBA_OK);
    expect_mine(&ann);
    ask(&bob);
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    assert_true(simba_loop_now_ms() - asked >= LEASE);
    ask(&bob);
    expect_mine(&bob);
    renew(&ann);
    assert_false(got.mine);
}

/* --- force --------------------------------------------------------------- */

ZK_TEST(test_zookeeper__own_node_deleted_is_told)
{
    struct who ann = person(&first, "ann");

    open_handles();
    ask(&ann);
    assert_int_equal(zoo_delete(admin.handle, node_of(&ann), -1), ZOK);
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    renew(&ann);
    assert_false(got.mine);
}

ZK_TEST(test_zookeeper__waiter_whose_node_vanished_queues_anew)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");

    open_handles();
    ask(&ann);
    ask(&bob);
    assert_int_equal(zoo_delete(admin.handle, node_of(&bob), -1), ZOK);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    ask(&bob);
    expect_queued(true, "ann");
    assert_int_equal(count_children(mutex_path), 2);
}

ZK_TEST(test_zookeeper__stray_child_is_ignored)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");
    char stray[160];

    open_handles();
    ask(&ann);
    snprintf(stray, sizeof stray, "%s/000", mutex_path);
    assert_int_equal(zoo_create(admin.handle, stray, "", 0,
                                &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0),
                     ZOK);
    ask(&bob);
    expect_queued(true, "ann");
    release(&ann);
    ask(&bob);
    expect_mine(&bob);
    assert_int_equal(zoo_delete(admin.handle, stray, -1), ZOK);
}

ZK_TEST(test_zookeeper__reaped_parents_are_made_anew)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob");

    open_handles();
    ask(&ann);
    release(&ann);
    await(count_children(mutex_path) == ZNONODE);
    ask(&bob);
    expect_mine(&bob);
    assert_true(bob.token > ann.token); /* though the sequence restarts */
}

ZK_TEST(test_zookeeper__credentials_keep_others_out)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");

    assert_int_equal(try_open(&first, "//ann:secret@%s/private", servers.hosts),
                     SIMBA_OK);
    assert_int_equal(try_open(&second, "//%s/private", servers.hosts),
                     SIMBA_OK);
    ask(&ann);
    expect_mine(&ann);
    assert_int_equal(try_run(&bob, asking(&bob)), SIMBA_EDENIED);
    assert_null(strstr(why.message, "secret"));
    handle_close(&second);
    assert_int_equal(
        try_open(&second, "//ann:secret@%s/private", servers.hosts), SIMBA_OK);
    ask(&bob);
    expect_queued(true, "ann");
}

/* Parents that are missing are made, above all those of the chroot. */
ZK_TEST(test_zookeeper__chroots_are_made_and_kept_apart)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");
    char path[160];

    assert_int_equal(try_open(&first, "//%s/deep/er", servers.hosts), SIMBA_OK);
    assert_int_equal(try_open(&second, "//%s/deep", servers.hosts), SIMBA_OK);
    ask(&ann);
    expect_mine(&ann);
    snprintf(path, sizeof path, "/deep/er/simba/%s", mutex);
    assert_int_equal(count_children(path), 1);
    ask(&bob);
    expect_mine(&bob);
    snprintf(path, sizeof path, "/deep/simba/%s", mutex);
    assert_int_equal(count_children(path), 1);
    assert_int_equal(count_children(mutex_path), ZNONODE);
}

static int64_t session_behind(const struct who *who)
{
    struct Stat stat;

    assert_int_equal(zoo_exists(admin.handle, node_of(who), 0, &stat), ZOK);
    return stat.ephemeralOwner;
}

ZK_TEST(test_zookeeper__one_handle_has_one_session)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob"),
               cid = person(&second, "cid");

    open_handles();
    ask(&ann);
    ask(&bob);
    ask(&cid);
    assert_true(session_behind(&ann) != 0);
    assert_true(session_behind(&ann) == session_behind(&bob));
    assert_true(session_behind(&ann) != session_behind(&cid));
}

int main(void)
{
    return run_beside_server();
}
