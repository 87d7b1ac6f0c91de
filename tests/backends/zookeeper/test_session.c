/* How long a session is certain; and sessions on a server that does what real
 * ones do once in a year. */
#define _GNU_SOURCE
#include "acted_server.h"

/* --- certainty ----------------------------------------------------------- */

enum { T = 16000, QUARTER = T / 4 };

static simba_certainty certainty;

static void begin(int64_t made_ms)
{
    certainty = (simba_certainty){
        .timeout_ms = T, .apart_ms = QUARTER, .since_ms = made_ms};
}

TEST(test_certainty__new_session_is_certain_at_once)
{
    begin(1000);
    assert_int_equal(simba_certainty_lease(&certainty, 1000), T);
    assert_int_equal(simba_certainty_lease(&certainty, 2000), T - 1000 - 21);
    assert_int_equal(simba_certainty_lease(&certainty, 1000 + T), 1);
}

TEST(test_certainty__one_alone_promises_nothing)
{
    begin(0);
    simba_certainty_answered(&certainty, 9000, 9010);
    assert_int_equal(simba_certainty_lease(&certainty, 9000), T - 9000 - 189);
}

TEST(test_certainty__two_count_from_the_first)
{
    begin(0);
    simba_certainty_answered(&certainty, 9000, 9010);
    simba_certainty_answered(&certainty, 9010 + QUARTER - 1, 9020 + QUARTER);
    assert_int_equal(certainty.since_ms, 0); /* not far enough apart */
    simba_certainty_answered(&certainty, 9010 + QUARTER, 9020 + QUARTER);
    assert_int_equal(certainty.since_ms, 9000);
}

TEST(test_certainty__slow_answer_is_counted_from_when_it_came)
{
    begin(0);
    simba_certainty_answered(&certainty, 9000, 9000 + QUARTER);
    simba_certainty_answered(&certainty, 9000 + QUARTER, 9001 + QUARTER);
    assert_int_equal(certainty.since_ms, 0);
}

/* However often writes come, what is certain is what the best pair says, less
 * the distance of two marks. */
TEST(test_certainty__many_are_as_good_as_few)
{
    begin(0);
    for (int64_t at = 0; at < 100000; at += 7) {
        simba_certainty_answered(&certainty, at, at + 3);
        if (at > QUARTER + 10) {
            assert_true(certainty.since_ms <= at - QUARTER - 3);
            assert_true(certainty.since_ms >= at - QUARTER - T / 16 - 20);
        }
    }
}

/* Quorum writes every T/4 leave who becomes the lowest at any time with enough.
 */
TEST(test_certainty__every_quarter_leaves_three_eighths)
{
    for (int64_t late = 0; late < QUARTER; late += 50) {
        int64_t now;

        begin(-10 * T);
        for (int i = 0; i <= 8; i++) {
            simba_certainty_answered(&certainty, i * QUARTER, i * QUARTER + 2);
        }
        now = 8 * QUARTER + late;
        simba_certainty_answered(&certainty, now, now + 2);
        assert_true(simba_certainty_lease(&certainty, now) >= T * 3 / 8);
    }
}

/* With the default budget, sessions must last for 5.5 s. */
TEST(test_certainty__budget_fits_into_the_shortest_grant)
{
    assert_int_equal(simba__zk_budget_most_ms(T), 5863);
    assert_true(simba__zk_budget_most_ms(5480) >= 2000);
    assert_true(simba__zk_budget_most_ms(5460) < 2000);
    assert_int_equal(simba__zk_budget_most_ms(2000), 723);
    assert_true(simba__zk_budget_most_ms(300) >= 1);
}

/* A follower says so by itself, however long it has been cut off. */
TEST(test_certainty__only_what_the_leader_answers_counts)
{
    static const int others[] = {
        SIMBA__ZK_THROTTLED,     SIMBA__ZK_NOT_READ_ONLY,
        SIMBA__ZK_SESSION_MOVED, SIMBA__ZK_MARSHALLING,
        SIMBA__ZK_AUTH_FAILED,   SIMBA__ZK_UNIMPLEMENTED};

    assert_true(simba__zk_is_by_quorum(SIMBA__ZK_OK));
    assert_true(simba__zk_is_by_quorum(SIMBA__ZK_NO_NODE));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(simba__zk_is_by_quorum(others[i]));
    }
}

/* --- sessions that go wrong ---------------------------------------------- */

static int sessions(void)
{
    int count;

    WITH_ACTED(count = (int)acted.session);
    return count;
}

static int nodes(void)
{
    return acted_sees(&acted.node_count);
}

/* Who only looks; returns the status. */
static int look(int64_t patience_ms)
{
    struct who eve = person(&first, "eve");

    return try_run(&eve, (simba_request){.kind = SIMBA_READ,
                                         .deadline_ms = simba_loop_now_ms() +
                                                        patience_ms});
}

static void expect_mine(void)
{
    assert_true(got.mine);
}

/* A latch of this attempt, made by a session that was. */
static void make_latch(const struct who *who, int64_t session)
{
    char path[SIMBA__ZK_PREFIX_SIZE + 1] = "/";

    simba__zk_prefix(who->attempt, 0, path + 1);
    WITH_ACTED(acted_make(path, session));
}

static void lose_create(struct who *who)
{
    WITH_ACTED(acted.cut = SIMBA__ZK_CREATE2);
    assert_int_equal(try_run(who, asking(who)), SIMBA_EUNKNOWN);
}

/* The servers keep the latch of a session that was given up until it has ended;
 * the one of the same attempt made since, and whose reply was lost, is ours. */
ACTED_TEST(test_session__latch_of_a_former_session_hides_none)
{
    struct who ann = person(&first, "ann");

    make_latch(&ann, 77);
    lose_create(&ann);
    ask(&ann);
    assert_int_equal(nodes(), 2);
    assert_true(got.is_queued && got.is_head);
    assert_int_equal(got.position, 2);
}

/* A follower is busy just when a latch is looked at that may be ours. */
ACTED_TEST(test_session__doubt_outlasts_a_failed_look)
{
    struct who ann = person(&first, "ann");

    lose_create(&ann);
    WITH_ACTED(acted.lie =
                   (struct lie){SIMBA__ZK_GET_DATA, SIMBA__ZK_THROTTLED, 1});
    assert_int_equal(try_run(&ann, asking(&ann)), SIMBA_EUNAVAIL);
    ask(&ann);
    expect_mine();
    assert_int_equal(nodes(), 1);
}

/* It would be the lowest, whoever owns the mutex. */
ACTED_TEST(test_session__wrapped_number_of_a_lost_reply_is_refused)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob");

    WITH_ACTED(acted.sequence = INT32_MAX);
    make_latch(&bob, 77);
    lose_create(&ann);
    assert_int_equal(try_run(&ann, asking(&ann)), SIMBA_EMISCONFIG);
    await(nodes() == 1);
}

ACTED_TEST(test_session__system_error_leaves_doubt)
{
    struct who ann = person(&first, "ann");

    WITH_ACTED(acted.lie =
                   (struct lie){SIMBA__ZK_CREATE2, SIMBA__ZK_SYSTEM, 1});
    assert_int_equal(try_run(&ann, asking(&ann)), SIMBA_EUNKNOWN);
    ask(&ann);
    expect_mine();
}

ACTED_TEST(test_session__expiry_told_within_a_multi_is_one)
{
    struct who ann = person(&first, "ann");

    ask(&ann);
    expect_mine();
    WITH_ACTED(acted.lie =
                   (struct lie){SIMBA__ZK_CHECK, SIMBA__ZK_SESSION_EXPIRED, 1});
    renew(&ann);
    assert_false(got.mine);
    await(sessions() == 2);
}

/* Owners were told of more than the session keeps from now on. */
ACTED_TEST(test_session__shorter_one_on_another_server_is_lost)
{
    struct who ann = person(&first, "ann");

    ask(&ann);
    expect_mine();
    WITH_ACTED(acted.timeout_ms = LEASE / 2);
    acted_cut();
    await(sessions() == 2);
    renew(&ann);
    assert_false(got.mine);
}

/* Asked for are 16 s, for which a server may be silent for 5 s. */
ACTED_TEST(test_session__silence_is_judged_by_what_was_agreed)
{
    int64_t begun_ms = simba_loop_now_ms();

    WITH_ACTED(acted.timeout_ms = 1500);
    assert_int_equal(look(ANSWER_MS), SIMBA_OK);
    WITH_ACTED(acted.is_mute = true);
    (void)look(500);
    await(acted_sees(&acted.connections) >= 2);
    assert_true(simba_loop_now_ms() - begun_ms < 4000);
}

/* Nobody writes through it, and it breaks now and then: pings are answered. */
ACTED_TEST(test_session__pings_are_answers)
{
    WITH_ACTED(acted.timeout_ms = 150);
    assert_int_equal(look(ANSWER_MS), SIMBA_OK);
    nap_ms(150); /* nothing is certain by it any more */
    for (int i = 1; i <= 5; i++) {
        int pings = acted_sees(&acted.asked[SIMBA__ZK_PING]);

        await(acted_sees(&acted.asked[SIMBA__ZK_PING]) > pings);
        nap_ms(10); /* the answer comes */
        acted_cut();
        await(acted_sees(&acted.connections) > i);
    }
    assert_int_equal(look(ANSWER_MS), SIMBA_OK);
    assert_int_equal(sessions(), 1);
}

static bool is_watched(void)
{
    simba__zk *self = (simba__zk *)first.backend;
    bool is_so;

    simba_loop_enter(first.loop);
    is_so = ((const simba__zk_mutex *)simba_session_mutex_get(&self->base,
                                                              MUTEX, false))
                ->observing->serials.is_watched;
    simba_loop_leave(first.loop);
    return is_so;
}

/* Nobody contends, and the watch of who observes is answered each time. */
ACTED_TEST(test_session__of_observers_is_kept)
{
    simba_loop_enter(first.loop);
    first.backend->ops->subscription(first.backend, MUTEX,
                                     SIMBA_SUBSCRIBE_OBSERVE);
    simba_loop_leave(first.loop);
    for (int i = 1; i <= 6; i++) {
        await(acted_sees(&acted.asked[SIMBA__ZK_EXISTS]) >= i && is_watched());
        simba_loop_enter(first.loop); /* it was made long ago */
        ((simba__zk *)first.backend)->base.certainty.since_ms = -LEASE;
        simba_loop_leave(first.loop);
        acted_cut();
    }
    assert_int_equal(look(ANSWER_MS), SIMBA_OK);
    assert_int_equal(sessions(), 1);
}

/* No server says so, unless its clock ticks every millisecond. */
ACTED_TEST(test_session__of_two_milliseconds_is_not_pinged_all_the_time)
{
    clock_t begun;

    WITH_ACTED(acted.timeout_ms = 2);
    assert_int_equal(look(ANSWER_MS), SIMBA_OK);
    begun = clock();
    nap_ms(100);
    assert_true(clock() - begun < CLOCKS_PER_SEC / 100);
}

ACTED_TEST(test_session__server_that_ends_each_is_not_stormed)
{
    int looks = 0;

    WITH_ACTED(acted.lie = (struct lie){-1, SIMBA__ZK_SESSION_EXPIRED, -1});
    do { /* how often it tries is a matter of the machine, that it does is not
          */
        assert_int_equal(look(500), SIMBA_EUNAVAIL);
        assert_true(++looks <= 20 && sessions() <= 20 * looks);
    } while (sessions() < 3);
}

ACTED_TEST(test_session__server_that_has_no_room_for_the_doctor_is_not_stormed)
{
    struct who eve = person(&first, "eve");
    int connections;

    assert_int_equal(look(ANSWER_MS), SIMBA_OK);
    WITH_ACTED(acted.is_full = true);
    assert_int_equal(
        try_run(&eve,
                (simba_request){.kind = SIMBA_DOCTOR,
                                .mutex = "",
                                .deadline_ms = simba_loop_now_ms() + 500}),
        SIMBA_EUNAVAIL);
    connections = acted_sees(&acted.connections);
    assert_true(connections > 2 && connections < 20);
    assert_int_equal(acted_sees(&acted.asked[SIMBA__ZK_CREATE_CONTAINER]), 1);
}

/* Asks, stands behind somebody, and watches that one and its own node. */
static void queue_up(struct who *who)
{
    int asked = acted_sees(&acted.asked[SIMBA__ZK_GET_DATA]);

    ask(who);
    assert_true(got.is_queued);
    await(acted_sees(&acted.asked[SIMBA__ZK_GET_DATA]) == asked + 2);
    (void)handle_woken(&first, MUTEX, 0);
}

/* Who waits would hear of nothing: of our own node, and of the one before. */
ACTED_TEST(test_session__watch_that_is_not_set_again_wakes)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob");

    make_latch(&bob, 77);
    for (int times = 1; times <= 2; times++) {
        queue_up(&ann);
        WITH_ACTED(acted.lie = (struct lie){SIMBA__ZK_GET_DATA,
                                            SIMBA__ZK_THROTTLED, times});
        acted_cut();
        assert_true(handle_woken(&first, MUTEX, 3000));
    }
}

/* No watch tells of what happened without a connection. */
ACTED_TEST(test_session__what_went_without_a_connection_wakes)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob");

    make_latch(&bob, 77);
    queue_up(&ann);
    WITH_ACTED(acted.nodes[0] = acted.nodes[--acted.node_count]);
    acted_cut();
    assert_true(handle_woken(&first, MUTEX, 3000));
    ask(&ann);
    assert_true(got.mine);
}

/* A reply that nobody awaits any more has a number of before they began again.
 */
ACTED_TEST(test_session__late_reply_of_a_former_round_is_passed_over)
{
    assert_int_equal(look(ANSWER_MS), SIMBA_OK);
    simba_loop_enter(first.loop);
    ((simba__zk *)first.backend)->session->xid = INT32_MAX - 3;
    simba_loop_leave(first.loop);
    WITH_ACTED(acted.hold = SIMBA__ZK_GET_CHILDREN);
    (void)look(100);
    assert_int_equal(look(ANSWER_MS), SIMBA_OK);
    assert_int_equal(look(ANSWER_MS), SIMBA_OK);
    assert_int_equal(acted_sees(&acted.connections), 1);
}

/* What follows from a broken connection is not sent over it. */
ACTED_TEST(test_session__step_waits_for_the_next_connection)
{
    struct who ann = person(&first, "ann");
    simba_request asked = asking(&ann), left = {.kind = SIMBA_RELEASE};

    assert_int_equal(look(ANSWER_MS), SIMBA_OK);
    ask(&ann);
    release(&ann);
    ann.attempt.low += 1000000;
    WITH_ACTED(acted.is_mute = true);
    fill_request(&ann, &asked);
    fill_request(&ann, &left);
    handle_start(&first, &asked);
    await(acted_sees(&acted.asked[SIMBA__ZK_CREATE2]) == 2);
    handle_start(&first, &left);
    WITH_ACTED(acted.is_mute = false);
    acted_cut();
    (void)handle_join(&first, &asked, &why);
    assert_int_equal(handle_join(&first, &left, &why), SIMBA_OK);
}

/* Many names are said, and there is one, longer than the packet. */
TEST(test_messages__names_end_with_their_packet)
{
    enum { SIZE = 4096 };
    struct simba__text packet = {0};
    simba__zk_reply reply = {.op = SIMBA__ZK_GET_CHILDREN};
    simba__zk_input in = {NULL, 0, false};
    char *behind, *name = calloc(1, SIZE);

    assert_non_null(name);
    simba__zk_put_int(&packet, SIZE / 4 - 1);
    simba__zk_put_bytes(&packet, name, SIZE - 8);
    in.at = packet.bytes;
    in.left = packet.length;
    simba__zk_reply_read(&reply, &in);
    behind = malloc(SIZE); /* the allocator sees what was written past it */
    assert_true(in.is_broken);
    simba__zk_reply_fini(&reply);
    simba__text_fini(&packet);
    free(behind);
    free(name);
}
