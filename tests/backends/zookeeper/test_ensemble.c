/* Contenders on a real ensemble of three while servers die and are cut off.
 * argv[1] is simba. */
#define _GNU_SOURCE
#include "stories.h"

/* Each speaks to one server only, or to all of them. */
static void reach(bool only_own)
{
    for (int i = 0; i < MANY; i++) {
        snprintf(contenders[i].hosts, sizeof contenders[i].hosts, "%s",
                 servers.hosts);
        if (only_own) {
            snprintf(contenders[i].hosts, sizeof contenders[i].hosts,
                     "127.0.0.1:%d", servers.one[i].client_port);
        }
    }
}

static int follower(void)
{
    int leader;

    await((leader = servers_leader(&servers)) >= 0);
    return (leader + 1) % MANY;
}

/* The very thing quorum writes are for: the follower goes on answering reads
 * and pings, while the leader has ended the session. */
TEST_AROUND(test_ensemble__owner_on_a_follower_cut_off, NULL, close_story)
{
    int cut = follower();

    reach(true);
    begin("cut off", cut);
    start_others(cut);
    server_freeze(&servers, cut, true);
    await(owner() >= 0 && owner() != cut);
    await(atomic_load(&contenders[cut].released) > 0);
    server_freeze(&servers, cut, false);
    server_await(&servers, cut);
    /* and it is of use again */
    stop_others(cut);
    await(owner() == cut);
    end();
}

TEST_AROUND(test_ensemble__leader_killed, NULL, close_story)
{
    int leader, last;

    await((leader = servers_leader(&servers)) >= 0);
    reach(false);
    begin("leader killed", 0);
    start_others(0);
    server_kill(&servers, leader);
    await(servers_leader(&servers) >= 0);
    await(owner() >= 0);
    server_start(&servers, leader);
    server_await(&servers, leader);
    await((last = owner()) >= 0);
    stop(last);
    await(owner() >= 0);
    end();
}

/* An instant at which there still was one. */
static void await_no_owner(int64_t *seen_at)
{
    int64_t now = now_ms();

    while (owner() >= 0) {
        *seen_at = now;
        nap_ms(2);
        now = now_ms();
    }
}

TEST_AROUND(test_ensemble__quorum_lost_and_back, NULL, close_story)
{
    int64_t lost_at, seen_at = 0;
    uint64_t token;

    reach(false);
    begin("quorum lost", 1);
    start_others(1);
    token = simba_service_token(contenders[1].service);
    server_kill(&servers, 0);
    server_kill(&servers, 1);
    lost_at = now_ms();
    await_no_owner(&seen_at); /* by our own clock, at U */
    assert_true(seen_at - lost_at < TTL_MS + TRANSITION_MS);
    while (now_ms() - lost_at < 2 * (TTL_MS + TRANSITION_MS)) {
        assert_int_equal(owner(), -1);
        nap_ms(10);
    }
    server_start(&servers, 0);
    server_start(&servers, 1);
    await(owner() >= 0);
    await(atomic_load(&watchman.token) > token); /* it looks by turns */
    server_await(&servers, 0);
    server_await(&servers, 1);
    end();
}

/* Curator says nothing then, for ever. */
TEST(test_ensemble__unreachable_at_start_is_said)
{
    struct proxy *proxy = proxy_open(servers.one[0].client_port);
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    struct log_counter complaints = {SIMBA_LOG_WARN, "no server answers", 0};
    struct contender *c = &contenders[0];
    char url[64];

    proxy_hold(proxy, true, true);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d", proxy_port(proxy));
    options.log = count_log;
    options.log_user = &complaints;
    options.log_level = SIMBA_LOG_WARN;
    contender.mutex = "unreachable";
    assert_int_equal(simba_store_open(url, &options, &c->store, NULL),
                     SIMBA_OK);
    c->service = must_open_service(c->store, &contender);
    assert_int_equal(simba_service_start(c->service, NULL), SIMBA_OK);
    await(atomic_load(&complaints.count) > 0);
    assert_int_equal(simba_service_status(c->service), SIMBA_STARTING);
    proxy_hold(proxy, false, false);
    proxy_cut(proxy);
    await(simba_service_is_owner(c->service));
    simba_service_close(c->service);
    simba_store_close(c->store);
    proxy_close(proxy);
}

static int start_ensemble(void **state)
{
    (void)state;
    servers_start(&servers, MANY);
    return 0;
}

static int stop_ensemble(void **state)
{
    (void)state;
    servers_stop(&servers);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2 || !servers_installed()) {
        puts("1..0 # SKIP no ZooKeeper server is installed");
        return 77;
    }
    simba = argv[1];
    return run_unit_tests(start_ensemble, stop_ensemble);
}
