/* A thousand waiters for one mutex on a real single server: a release wakes
 * one. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"
#include "driver.h"

enum { CROWD = 1000 };

static struct who crowd[CROWD];

/* They stand in the queue by turns, so that the next is always another
 * process's. */
static void queue_up(struct who *owner, int count)
{
    for (int i = 0; i < count; i++) {
        simba_request request;

        crowd[i] = person(i % 2 == 0 ? &first : &second, "waiter");
        request = asking(&crowd[i]);
        request.waiter_ms = 600000; /* nobody asks again for them */
        run(&crowd[i], request);
        expect_queued(i == 0, "owner");
        crowd[i].position = got.position;
        if (i % 10 == 0) {
            renew(owner);
            expect_mine(owner);
        }
    }
}

/* What the server has been sent; its own numbers, so checks are counted. */
static long received(void)
{
    return server_received(&servers, 0);
}

/* How often a handle has asked for the names of all who are there. */
static int lists(struct handle *handle)
{
    simba__zk *self = (simba__zk *)handle->backend;
    int count;

    simba_loop_enter(handle->loop);
    count =
        (int)SIMBA__ZK_MUTEX(simba_session_mutex_get(&self->base, mutex, false))
            ->lists;
    simba_loop_leave(handle->loop);
    return count;
}

ZK_TEST(test_many__release_wakes_one)
{
    struct who owner = person(&second, "owner");
    int first_wakes, second_wakes, lists_before;
    long before, after;

    open_handles();
    ask(&owner);
    queue_up(&owner, CROWD);
    for (int i = 0; i < 4; i++) {
        first_wakes = handle_wakes(&first);
        second_wakes = handle_wakes(&second);
        lists_before = lists(crowd[i].at);
        before = received();
        release(i == 0 ? &owner : &crowd[i - 1]);
        await(handle_wakes(crowd[i].at) >
              (i % 2 == 0 ? first_wakes : second_wakes));
        ask(&crowd[i]);
        expect_mine(&crowd[i]);
        after = received();
        /* Whoever it was that left, nobody is below: it needs no names. */
        assert_int_equal(lists(crowd[i].at), lists_before);
        /* One heard of it, once; the others heard and asked nothing. */
        assert_int_equal(handle_wakes(&first) - first_wakes, i % 2 == 0);
        assert_int_equal(handle_wakes(&second) - second_wakes, i % 2 == 1);
        /* Delete, check, children, watch; and a few checks, pings, questions
         * of ours, if the machine is slow. */
        assert_true(after - before < 50);
    }
    for (int i = 4; i < CROWD; i++) { /* the queue is whole */
        assert_true(i == 4 || crowd[i].position > crowd[i - 1].position);
    }
    assert_int_equal(count_children(mutex_path), CROWD - 3);
}

/* They come at once, in their order, and the first of them alone makes what the
 * others need; then one list tells all of them where they stand. */
ZK_TEST(test_many__those_who_come_together_list_once)
{
    struct who owner = person(&second, "owner");
    simba_request *requests = calloc(CROWD, sizeof *requests), *all[CROWD];
    int before, wakes;

    open_handles();
    ask(&owner);
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = person(&first, "waiter");
        requests[i] = asking(&crowd[i]);
        fill_request(&crowd[i], &requests[i]);
        all[i] = &requests[i];
    }
    handle_start_all(&first, all, CROWD);
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(handle_join(&first, all[i], &why), SIMBA_OK);
        got = requests[i].reply;
        expect_queued(i == 0, "owner");
        assert_true(i == 0 ||
                    got.position == requests[i - 1].reply.position + 1);
    }
    assert_true(lists(&first) <= 4);
    before = lists(&first);
    wakes = handle_wakes(&first);
    leave(&crowd[1]); /* the next two stand behind those before them now */
    leave(&crowd[0]);
    assert_int_equal(handle_wakes(&first), wakes);
    release(&owner);
    await(handle_wakes(&first) > wakes);
    ask(&crowd[2]);
    expect_mine(&crowd[2]);
    assert_int_equal(lists(&first), before);
    free(requests);
}

/* --- several owners ------------------------------------------------------ */

enum { SLOTS = 20, PROCESSES = 25 };

/* The newest owner goes, which most of those who wait watch: they need to watch
 * one more each, and not all of them anew. */
ZK_TEST(test_many__release_of_one_of_several_is_no_herd)
{
    static struct handle processes[PROCESSES];
    struct who owners[SLOTS];
    int granted = 0;
    long before;

    open_handles();
    for (int i = 0; i < SLOTS; i++) {
        owners[i] = person(&second, "owner");
        owners[i].slots = SLOTS;
        ask(&owners[i]);
        expect_mine(&owners[i]);
    }
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(try_open(&processes[i], "//%s", servers.hosts),
                         SIMBA_OK);
        crowd[i] = person(&processes[i], "waiter");
        crowd[i].slots = SLOTS;
        ask(&crowd[i]);
        assert_true(got.is_queued);
    }
    before = received();
    release(&owners[SLOTS - 1]);
    for (int i = 0; i < PROCESSES; i++) {
        if (handle_woken(&processes[i], mutex, i < SLOTS ? PATIENCE_MS : 0)) {
            ask(&crowd[i]);
            granted += got.mine;
        }
    }
    print_message("# %ld packets\n", received() - before);
    assert_true(received() - before < 150); /* pings and renewals included */
    assert_int_equal(granted, 1);
    /* Who was not granted is told again. */
    release(&owners[SLOTS - 2]);
    assert_true(handle_woken(&processes[1], mutex, PATIENCE_MS));
    ask(&crowd[1]);
    assert_true(got.mine);
    for (int i = 0; i < PROCESSES; i++) {
        handle_close(&processes[i]);
    }
}

/* --- the backstop -------------------------------------------------------- */

enum { FEW = 200 };

/* Asks as one who was told nothing since, all at once. */
static void ask_in_case(simba_request *requests, int from)
{
    for (int i = from; i < FEW; i++) {
        requests[i] = asking(&crowd[i]);
        requests[i].waiter_ms = 600000;
        requests[i].is_backstop = true;
        fill_request(&crowd[i], &requests[i]);
        handle_start(crowd[i].at, &requests[i]);
    }
}

static void expect_answers(simba_request *requests, int from, const char *owner)
{
    for (int i = from; i < FEW; i++) {
        assert_int_equal(handle_join(crowd[i].at, &requests[i], &why),
                         SIMBA_OK);
        got = requests[i].reply;
        expect_queued(i == from, owner);
        assert_int_equal(got.position, crowd[i].position);
    }
}

/* One look of each process serves all its waiters, and they learn who owns. */
ZK_TEST(test_many__backstop_is_one_look_for_all)
{
    static simba_request requests[FEW];
    struct who owner = person(&second, "owner");
    long before;

    open_handles();
    ask(&owner);
    queue_up(&owner, FEW);
    before = received();
    ask_in_case(requests, 0);
    expect_answers(requests, 0, "owner");
    assert_true(received() - before < 50);
    release(&owner);
    await((ask(&crowd[0]), got.mine));
    nap_ms(LEASE / 4 + 1); /* what was seen is too old now */
    renew(&crowd[0]);
    before = received();
    ask_in_case(requests, 1);
    expect_answers(requests, 1, "waiter");
    assert_true(received() - before < 50);
}

/* Who asks by the backstop only becomes the owner all the same. */
ZK_TEST(test_many__backstop_grants_to_the_first)
{
    static simba_request requests[FEW];
    struct who owner = person(&second, "owner");
    simba_request request;

    open_handles();
    ask(&owner);
    queue_up(&owner, FEW);
    ask_in_case(requests, 0);
    expect_answers(requests, 0, "owner");
    release(&owner);
    request = asking(&crowd[0]);
    request.is_backstop = true;
    await((run(&crowd[0], request), got.mine));
    expect_mine(&crowd[0]);
    release(&crowd[0]);
    request = asking(&crowd[1]);
    request.is_backstop = true;
    await((run(&crowd[1], request), got.mine));
}

int main(void)
{
    return run_beside_server();
}
