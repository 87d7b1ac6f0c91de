/* Whom a wake-up reaches, and that nothing looks at all who hear of a mutex. */
#include "runtime/loop.h"

#include <stdlib.h>

#include "fixtures/unit_test.h"

struct listener {
    struct simba__subscriber subscriber;
    int woken;
    int turn;               /* its number among all wake-ups */
    struct listener *moves; /* to this position when this one is woken */
    uint64_t to;
};

static simba_loop *loop;
static int changes, turns;
static enum simba_subscription wanted;

static void on_wake(simba_timer *place)
{
    struct listener *listener = (struct listener *)place;

    listener->woken++;
    listener->turn = ++turns;
    if (listener->moves != NULL) {
        simba__subscriber_move(&listener->moves->subscriber, listener->to);
    }
}

static void on_subscription(void *self,
                            const char *mutex,
                            enum simba_subscription subscription)
{
    (void)self;
    assert_string_equal(mutex, "m");
    changes++;
    wanted = subscription;
}

static int set_up(void **state)
{
    (void)state;
    changes = turns = 0;
    assert_int_equal(simba__loop_open(&loop, NULL), SIMBA_OK);
    simba_loop_enter(loop);
    loop->on_subscription = on_subscription;
    return 0;
}

static void end(void *argument)
{
    (void)argument;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(loop->subscribers.count, 0);
    simba_loop_leave(loop);
    simba__loop_end(loop, end, NULL);
    simba__loop_close(loop);
    return 0;
}

static void add(struct listener *listener, const char *mutex, uint64_t position)
{
    *listener = (struct listener){.subscriber.place.fire = on_wake};
    assert_true(simba__subscriber_add(loop, &listener->subscriber, mutex));
    simba__subscriber_move(&listener->subscriber, position);
}

static void remove_all(struct listener *listeners, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        simba__subscriber_remove(loop, &listeners[i].subscriber);
    }
}

TEST_AROUND(test_subscribers__wakes_the_first_two_and_who_has_no_position,
            set_up,
            tear_down)
{
    static const uint64_t positions[] = {7, 0, 5, 9, 0, 6};
    static const int woken[] = {0, 1, 1, 0, 1, 1};
    struct listener listeners[6], other;

    add(&other, "n", 1);
    for (size_t i = 0; i < 6; i++) {
        add(&listeners[i], "m", positions[i]);
    }
    simba_wake(loop, "m");
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(listeners[i].woken, woken[i]);
    }
    assert_int_equal(other.woken, 0);
    simba__subscriber_move(&listeners[2].subscriber, 0);
    simba_wake(loop, "m");
    assert_int_equal(listeners[0].woken, 1); /* it is the second now */
    assert_int_equal(listeners[2].woken, 2);
    simba_wake(loop, NULL);
    assert_int_equal(listeners[3].woken, 1);
    assert_int_equal(other.woken, 1);
    remove_all(listeners, 6);
    remove_all(&other, 1);
}

TEST_AROUND(test_subscribers__wakes_one_that_is_meant_if_it_is_the_first,
            set_up,
            tear_down)
{
    static const uint64_t positions[] = {7, 0, 5, 9};
    struct listener listeners[4];

    for (size_t i = 0; i < 4; i++) {
        add(&listeners[i], "m", positions[i]);
    }
    simba_wake_waiter(loop, "m", 5);
    assert_int_equal(listeners[2].woken, 1);
    assert_int_equal(
        listeners[0].woken + listeners[1].woken + listeners[3].woken, 0);
    /* A successor by name, perhaps, or one whose position is not known. */
    simba_wake_waiter(loop, "m", 9);
    simba_wake_waiter(loop, "m", 0);
    simba_wake_waiter(loop, "n", 5);
    assert_int_equal(listeners[0].woken, 2);
    assert_int_equal(listeners[1].woken, 2);
    assert_int_equal(listeners[2].woken, 3);
    assert_int_equal(listeners[3].woken, 0);
    remove_all(listeners, 4);
}

TEST_AROUND(test_subscribers__wakes_the_first_and_who_has_no_position,
            set_up,
            tear_down)
{
    static const uint64_t positions[] = {7, 0, 5, 9};
    static const int woken[] = {0, 1, 1, 0};
    struct listener listeners[4];

    for (size_t i = 0; i < 4; i++) {
        add(&listeners[i], "m", positions[i]);
    }
    simba_wake_first(loop, "m");
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(listeners[i].woken, woken[i]);
    }
    remove_all(listeners, 4);
}

/* S10: none is passed over. */
TEST_AROUND(test_subscribers__wakes_all_though_one_moves_another,
            set_up,
            tear_down)
{
    struct listener listeners[4];

    for (size_t i = 0; i < 4; i++) {
        add(&listeners[i], "m", 0);
    }
    listeners[0].moves = &listeners[1];
    listeners[0].to = 3;
    simba_wake(loop, NULL);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(listeners[i].woken, 1);
    }
    remove_all(listeners, 4);
}

/* As after a connection was lost: all may have to ask. */
TEST_AROUND(test_subscribers__wakes_the_whole_queue_in_its_order,
            set_up,
            tear_down)
{
    static const uint64_t positions[] = {7, 3, 9, 5, 4, 8};
    static const int turn[] = {4, 1, 6, 3, 2, 5};
    struct listener listeners[6];

    for (size_t i = 0; i < 6; i++) {
        add(&listeners[i], "m", positions[i]);
        listeners[i].moves = &listeners[i]; /* finds its place again */
        listeners[i].to = positions[i];
    }
    simba_wake(loop, NULL);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(listeners[i].woken, 1);
        assert_int_equal(listeners[i].turn, turn[i]);
    }
    simba_wake(loop, "m");
    assert_int_equal(turns, 8);
    assert_int_equal(listeners[1].turn, 7);
    assert_int_equal(listeners[4].turn, 8);
    remove_all(listeners, 6);
}

TEST_AROUND(test_subscribers__tells_the_store_only_what_changes,
            set_up,
            tear_down)
{
    struct listener listeners[2];

    add(&listeners[0], "m", 0);
    add(&listeners[1], "m", 0);
    simba__subscribe(loop, &listeners[0].subscriber, SIMBA_SUBSCRIBE_WAIT);
    simba__subscribe(loop, &listeners[1].subscriber, SIMBA_SUBSCRIBE_WAIT);
    assert_int_equal(changes, 1);
    simba__subscribe(loop, &listeners[1].subscriber, SIMBA_SUBSCRIBE_OBSERVE);
    assert_int_equal(wanted, SIMBA_SUBSCRIBE_OBSERVE);
    remove_all(listeners, 2);
    assert_int_equal(wanted, SIMBA_SUBSCRIBE_NONE);
    assert_int_equal(changes, 3);
}

/* What looks at all of them takes minutes here. */
TEST_AROUND(test_subscribers__does_not_grow_with_the_queue, set_up, tear_down)
{
    enum { COUNT = 100000 };
    struct listener *listeners = calloc(COUNT, sizeof *listeners);
    uint64_t at = 1;

    assert_non_null(listeners);
    for (size_t i = 0; i < COUNT; i++) {
        at = at * 7919 % 1000003; /* in no order */
        add(&listeners[i], "m", at);
        simba__subscribe(loop, &listeners[i].subscriber, SIMBA_SUBSCRIBE_WAIT);
        simba_wake(loop, "m");
    }
    assert_int_equal(changes, 1);
    remove_all(listeners, COUNT);
    free(listeners);
}
