/* A thousand waiters for one mutex on a real single server: a release wakes
 * one. */
#define _GNU_SOURCE
#include "driver.h"

enum { CROWD = 1000 };

static struct who crowd[CROWD];

/* They stand in line by turns, so that the next is always another process's. */
static void line_up(struct who *owner)
{
    for (int i = 0; i < CROWD; i++) {
        simba_op op;

        crowd[i] = person(i % 2 == 0 ? &first : &second, "waiter");
        op = asking(&crowd[i]);
        op.waiter_ms = 600000; /* nobody asks again for them */
        run(&crowd[i], op);
        expect_in_line(i == 0, "owner");
        crowd[i].place = got.place;
        if (i % 10 == 0) {
            renew(owner);
            expect_mine(owner);
        }
    }
}

/* What the server has been sent; its own numbers, so guards are counted. */
static long received(void)
{
    return server_received(&servers, 0);
}

static void test_many__release_wakes_one(void **state)
{
    struct who owner = person(&second, "owner");
    int first_hints, second_hints;
    long before, after;

    (void)state;
    open_handles();
    ask(&owner);
    line_up(&owner);
    for (int i = 0; i < 4; i++) {
        first_hints = handle_hints(&first);
        second_hints = handle_hints(&second);
        before = received();
        release(i == 0 ? &owner : &crowd[i - 1]);
        await(handle_hints(crowd[i].at) >
              (i % 2 == 0 ? first_hints : second_hints));
        ask(&crowd[i]);
        expect_mine(&crowd[i]);
        after = received();
        /* One heard of it, once; the others heard and asked nothing. */
        assert_int_equal(handle_hints(&first) - first_hints, i % 2 == 0);
        assert_int_equal(handle_hints(&second) - second_hints, i % 2 == 1);
        /* Delete, check, children, watch; and a few guards, pings, questions
         * of ours, if the machine is slow. */
        assert_true(after - before < 50);
    }
    for (int i = 4; i < CROWD; i++) { /* the line is whole */
        assert_true(i == 4 || crowd[i].place > crowd[i - 1].place);
    }
    assert_int_equal(count_children(room), CROWD - 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {ZK_TEST(test_many__release_wakes_one)};

    if (!servers_installed()) {
        puts("1..0 # SKIP no ZooKeeper server is installed");
        return 77;
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
