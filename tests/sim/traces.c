/* Golden traces of simple scenarios: what happens, and exactly
 * when. ttl 2 s, transition 1 s, so L = 3 s, m = 73 ms, B = 375 ms; the network
 * takes 5 ms each way, callbacks 20 ms. */
#include <stddef.h>
#include <stdlib.h>

#include "fixtures/unit_test.h"

#include "sim/story.h"

#include <string.h>

struct telling {
    struct world w;
    char *text;
    size_t length;
    size_t read; /* up to here the trace was compared */
    FILE *stream;
};

static void begin(struct telling *t, int node_count)
{
    memset(t, 0, sizeof *t);
    t->stream = open_memstream(&t->text, &t->length);
    assert_non_null(t->stream);
    story_begin(&t->w, node_count, t->stream);
}

/* What happened since the last time it was asked. */
static void expect(struct telling *t, const char *trace)
{
    fflush(t->stream);
    assert_string_equal(t->text + t->read, trace);
    t->read = t->length;
}

static void end(struct telling *t)
{
    for (int i = 0; i < RULES; i++) {
        assert_int_equal(t->w.violations[i], 0);
    }
    world_fini(&t->w);
    fclose(t->stream);
    free(t->text);
}

TEST(test_trace__acquire)
{
    struct telling t;

    begin(&t, 2);
    story_start(&t.w, 0);
    story_run_to(&t.w, 100);
    expect(&t, "[     0] n0 boots\n"
               "[     0] n0 -> acquire\n"
               "[     5] store grants to n0\n"
               "[    10] n0 acquired, token 5000\n");
    story_start(&t.w, 1);
    story_run_to(&t.w, 1000);
    expect(&t, "[   100] n1 boots\n"
               "[   100] n1 -> acquire\n"
               "[   105] n1 waits at 105000\n");
    end(&t);
}

TEST(test_trace__renew)
{
    struct telling t;

    begin(&t, 1);
    story_start(&t.w, 0);
    story_run_to(&t.w, 3000);
    expect(&t, "[     0] n0 boots\n"
               "[     0] n0 -> acquire\n"
               "[     5] store grants to n0\n"
               "[    10] n0 acquired, token 5000\n"
               "[  1333] n0 -> renew\n"
               "[  2666] n0 -> renew\n");
    end(&t);
}

TEST(test_trace__expiry_and_hand_over)
{
    struct telling t;

    begin(&t, 3);
    story_start(&t.w, 0);
    story_run_to(&t.w, 100);
    story_start(&t.w, 1);
    story_run_to(&t.w, 200);
    story_start(&t.w, 2);
    story_run_to(&t.w, 500);
    expect(&t, "[     0] n0 boots\n"
               "[     0] n0 -> acquire\n"
               "[     5] store grants to n0\n"
               "[    10] n0 acquired, token 5000\n"
               "[   100] n1 boots\n"
               "[   100] n1 -> acquire\n"
               "[   105] n1 waits at 105000\n"
               "[   200] n2 boots\n"
               "[   200] n2 -> acquire\n"
               "[   205] n2 waits at 205000\n");
    story_kill(&t.w, 0);
    story_run_to(&t.w, 4000);
    expect(&t, "[   500] n0 is killed\n"
               "[  3011] n1 -> acquire\n"
               "[  3016] store grants to n1\n"
               "[  3021] n1 acquired, token 3016000\n"
               "[  3310] n2 -> acquire\n"
               "[  3315] n2 waits at 205000\n");
    end(&t);
}

TEST(test_trace__timeout_of_renewals)
{
    struct telling t;

    begin(&t, 1);
    story_start(&t.w, 0);
    story_run_to(&t.w, 1000);
    expect(&t, "[     0] n0 boots\n"
               "[     0] n0 -> acquire\n"
               "[     5] store grants to n0\n"
               "[    10] n0 acquired, token 5000\n");
    story_cut(&t.w, true);
    story_run_to(&t.w, 3200);
    expect(&t, "[  1000] the network is cut\n"
               "[  1333] n0 -> renew\n"
               "[  1637] n0 -> renew\n"
               "[  1865] n0 -> renew\n"
               "[  2036] n0 -> renew\n"
               "[  2165] n0 -> renew\n"
               "[  2261] n0 -> renew\n"
               "[  2333] n0 -> renew\n"
               "[  2394] n0 -> renew\n"
               "[  2450] n0 -> renew\n"
               "[  2500] n0 -> renew\n"
               "[  2550] n0 -> renew\n"
               "[  2552] n0 released (expired)\n"
               "[  2572] n0 -> release\n");
    story_cut(&t.w, false);
    story_run_to(&t.w, 4000);
    expect(&t, "[  3200] the network is back\n"
               "[  3334] n0 -> release\n"
               "[  3344] n0 -> acquire\n"
               "[  3349] store grants to n0\n"
               "[  3354] n0 acquired, token 3349000\n");
    end(&t);
}

TEST(test_trace__stop_hands_over_in_the_queue)
{
    struct telling t;

    begin(&t, 3);
    for (int i = 0; i < 3; i++) {
        story_start(&t.w, i);
        story_run_to(&t.w, (i + 1) * 100);
    }
    expect(&t, "[     0] n0 boots\n"
               "[     0] n0 -> acquire\n"
               "[     5] store grants to n0\n"
               "[    10] n0 acquired, token 5000\n"
               "[   100] n1 boots\n"
               "[   100] n1 -> acquire\n"
               "[   105] n1 waits at 105000\n"
               "[   200] n2 boots\n"
               "[   200] n2 -> acquire\n"
               "[   205] n2 waits at 205000\n");
    story_stop(&t.w, 0);
    story_run_to(&t.w, 500);
    expect(&t, "[   300] n0 is asked to stop\n"
               "[   300] n0 released (stop)\n"
               "[   320] n0 -> release\n"
               "[   325] store offers it to n1\n"
               "[   330] n1 -> acquire\n"
               "[   330] n2 -> acquire\n"
               "[   330] n0 stopped\n"
               "[   335] store grants to n1\n"
               "[   335] n2 waits at 205000\n"
               "[   340] n1 acquired, token 335000\n");
    story_stop(&t.w, 1);
    story_run_to(&t.w, 1000);
    expect(&t, "[   500] n1 is asked to stop\n"
               "[   500] n1 released (stop)\n"
               "[   520] n1 -> release\n"
               "[   525] store offers it to n2\n"
               "[   530] n2 -> acquire\n"
               "[   530] n1 stopped\n"
               "[   535] store grants to n2\n"
               "[   540] n2 acquired, token 535000\n");
    end(&t);
}

TEST(test_trace__stop_while_waiting)
{
    struct telling t;

    begin(&t, 2);
    story_start(&t.w, 0);
    story_run_to(&t.w, 100);
    story_start(&t.w, 1);
    story_run_to(&t.w, 200);
    expect(&t, "[     0] n0 boots\n"
               "[     0] n0 -> acquire\n"
               "[     5] store grants to n0\n"
               "[    10] n0 acquired, token 5000\n"
               "[   100] n1 boots\n"
               "[   100] n1 -> acquire\n"
               "[   105] n1 waits at 105000\n");
    story_stop(&t.w, 1);
    story_run_to(&t.w, 300);
    expect(&t, "[   200] n1 is asked to stop\n"
               "[   200] n1 -> leave\n"
               "[   210] n1 stopped\n");
    end(&t);
}

TEST(test_trace__stop_while_asking)
{
    struct telling t;

    begin(&t, 1);
    story_start(&t.w, 0);
    story_run_to(&t.w, 3);
    story_stop(&t.w, 0);
    story_run_to(&t.w, 100);
    expect(&t, "[     0] n0 boots\n"
               "[     0] n0 -> acquire\n"
               "[     3] n0 is asked to stop\n"
               "[     3] n0 -> release with tombstone\n"
               "[     5] store grants to n0\n"
               "[    13] n0 stopped\n");
    end(&t);
}

TEST(test_trace__restart)
{
    struct telling t;

    begin(&t, 1);
    story_start(&t.w, 0);
    story_run_to(&t.w, 100);
    story_stop(&t.w, 0);
    story_run_to(&t.w, 200);
    story_start_again(&t.w, 0);
    story_run_to(&t.w, 300);
    expect(&t, "[     0] n0 boots\n"
               "[     0] n0 -> acquire\n"
               "[     5] store grants to n0\n"
               "[    10] n0 acquired, token 5000\n"
               "[   100] n0 is asked to stop\n"
               "[   100] n0 released (stop)\n"
               "[   120] n0 -> release\n"
               "[   130] n0 stopped\n"
               "[   200] n0 is asked to start\n"
               "[   200] n0 -> acquire\n"
               "[   205] store grants to n0\n"
               "[   210] n0 acquired, token 205000\n");
    end(&t);
}

TEST(test_trace__pause_over_the_lease)
{
    struct telling t;

    begin(&t, 2);
    story_start(&t.w, 0);
    story_run_to(&t.w, 100);
    story_start(&t.w, 1);
    story_run_to(&t.w, 500);
    expect(&t, "[     0] n0 boots\n"
               "[     0] n0 -> acquire\n"
               "[     5] store grants to n0\n"
               "[    10] n0 acquired, token 5000\n"
               "[   100] n1 boots\n"
               "[   100] n1 -> acquire\n"
               "[   105] n1 waits at 105000\n");
    t.w.node[0].paused_until_us = 5000000;
    t.w.node[0].is_excused = true;
    story_run_to(&t.w, 5100);
    expect(&t, "[  3011] n1 -> acquire\n"
               "[  3016] store grants to n1\n"
               "[  3021] n1 acquired, token 3016000\n"
               "[  4344] n1 -> renew\n"
               "[  5000] n0 released (expired)\n"
               "[  5020] n0 -> acquire\n"
               "[  5025] n0 waits at 5025000\n");
    end(&t);
}
