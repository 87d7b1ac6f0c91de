/* Whether an observer of a mutex on a real server has missed somebody, by the
 * serial numbers it is told. The servers' reaper sleeps; the admin removes
 * unused nodes when it is time for that. */
#define _GNU_SOURCE
#include "driver.h"

static struct who eve;
static uint64_t next_serial; /* as of the last look */

static void observe(void)
{
    open_handles();
    eve = person(&second, "eve");
    simba_loop_enter(second.loop);
    second.backend->ops->subscription(second.backend, mutex,
                                      SIMBA_SUBSCRIBE_OBSERVE);
    simba_loop_leave(second.loop);
}

/* Looks, and tells whether somebody may have come and gone since. */
static bool has_missed(const char *owner)
{
    bool is_missed;

    look(&eve);
    assert_string_equal(got.owner.id, owner);
    assert_true(got.serial != 0 && got.next_serial >= got.serial);
    is_missed = got.serial != next_serial;
    next_serial = got.next_serial;
    return is_missed;
}

/* What a look has brought comes before the answer to the next: the watch has
 * been set anew by then. */
static void settle_down(const char *owner)
{
    (void)has_missed(owner);
    (void)has_missed(owner);
}

ZK_TEST(test_observers__neighbours_are_no_gap)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob"),
               cid = person(&second, "cid");

    observe();
    settle_down("");
    ask(&ann);
    assert_false(has_missed("ann"));
    ask(&bob);
    ask(&cid);
    release(&ann); /* four changes since */
    assert_false(has_missed("bob"));
    release(&bob);
    assert_false(has_missed("cid"));
    release(&cid);
    assert_false(has_missed(""));
}

ZK_TEST(test_observers__who_left_the_queue_is_no_gap)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob"),
               cid = person(&first, "cid");

    observe();
    ask(&ann);
    settle_down("ann");
    ask(&bob);
    leave(&bob);
    ask(&cid);
    (void)has_missed("ann");
    release(&ann);
    assert_false(has_missed("cid"));
}

ZK_TEST(test_observers__who_was_not_seen_is_a_gap)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob"),
               cid = person(&first, "cid");

    observe();
    settle_down("");
    ask(&ann);
    release(&ann);
    assert_true(has_missed(""));
    ask(&bob);
    release(&bob);
    ask(&cid);
    assert_true(has_missed("cid"));
}

static void remove_node(void)
{
    assert_int_equal(zoo_delete(admin.handle, mutex_path, -1), ZOK);
}

ZK_TEST(test_observers__unused_node_removed_is_no_gap)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob");

    observe();
    settle_down(""); /* there is no node yet */
    ask(&ann);
    assert_false(has_missed("ann"));
    release(&ann);
    assert_false(has_missed(""));
    settle_down("");
    remove_node();
    assert_false(has_missed(""));
    settle_down("");
    ask(&bob);
    assert_false(has_missed("bob"));
}

ZK_TEST(test_observers__node_made_and_removed_unseen_is_a_gap)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob"),
               cid = person(&first, "cid");

    observe();
    ask(&ann);
    release(&ann);
    settle_down("");
    remove_node();
    settle_down("");
    ask(&bob);
    release(&bob);
    remove_node();
    ask(&cid);
    assert_true(has_missed("cid"));
}

int main(void)
{
    if (!servers_installed()) {
        puts("1..0 # SKIP no ZooKeeper server is installed");
        return 77;
    }
    servers_reap_every(3600000);
    return run_unit_tests(start_server, stop_server);
}
