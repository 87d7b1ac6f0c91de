/* Whether to look for a reply before sleeping: by times that are made up. */
#include "core/spin.h"

#include "fixtures/unit_test.h"

/* A machine: how long a reply takes, for who sleeps and for who looks. */
struct machine {
    struct simba__spin spin;
    int64_t now_ns, asleep_ns, looking_ns;
    int64_t looked_ns, vain_ns;
    int waits, looks;
    int slow_every; /* each so many replies takes ten times as long; 0: none */
    unsigned takings; /* so often the CPU is taken away in each look */
};

static void set_up(struct machine *m, int64_t asleep_us, int64_t looking_us)
{
    *m = (struct machine){.now_ns = 1000000000,
                          .asleep_ns = asleep_us * 1000,
                          .looking_ns = looking_us * 1000};
    simba__spin_init(&m->spin, SIMBA__SPIN_ADAPTS);
}

static void wait_once(struct machine *m)
{
    int64_t allowed = simba__spin_allow(&m->spin, m->now_ns);
    bool is_slow = m->slow_every > 0 && ++m->waits % m->slow_every == 0;
    int64_t asleep = m->asleep_ns * (is_slow ? 10 : 1);
    int64_t looking = m->looking_ns == INT64_MAX
                          ? INT64_MAX
                          : m->looking_ns * (is_slow ? 10 : 1);
    bool is_found = allowed >= looking;
    int64_t waited = allowed == 0       ? asleep
                     : is_found         ? looking
                     : asleep > allowed ? asleep
                                        : allowed;
    int64_t looked = is_found ? waited : allowed;

    m->now_ns += waited;
    m->looks += allowed > 0;
    m->looked_ns += looked;
    m->vain_ns += is_found ? 0 : looked;
    simba__spin_learn(&m->spin, m->now_ns,
                      &(struct simba__spin_wait){waited, looked,
                                                 allowed > 0 && !is_found,
                                                 allowed > 0 ? m->takings : 0});
}

static void wait_often(struct machine *m, int count)
{
    m->looks = 0;
    m->looked_ns = m->vain_ns = 0;
    while (count-- > 0) {
        wait_once(m);
    }
}

TEST(test_spin__sleeps_first)
{
    struct machine m;

    set_up(&m, 60, 20);
    wait_often(&m, SIMBA__SPIN_TRIAL);
    assert_int_equal(m.looks, 0);
}

TEST(test_spin__looks_where_waking_takes_long)
{
    struct machine m;

    set_up(&m, 60, 20);
    wait_often(&m, 100);
    wait_often(&m, 10000);
    assert_in_range(m.looks, 9600, 10000);
}

TEST(test_spin__sleeps_where_the_cpu_is_warm)
{
    struct machine m;

    set_up(&m, 12, 30);
    wait_often(&m, 10000);
    assert_in_range(m.looks, SIMBA__SPIN_TRIAL, 200);
    wait_often(&m, 100000); /* and tries it more and more seldom */
    assert_in_range(m.looks, 0, 150);
}

TEST(test_spin__sleeps_where_both_take_the_same_time)
{
    struct machine m;

    set_up(&m, 30, 29);
    wait_often(&m, 10000);
    assert_in_range(m.looks, SIMBA__SPIN_TRIAL, 200);
}

TEST(test_spin__sleeps_where_replies_take_longer_than_it_looks)
{
    struct machine m;

    set_up(&m, 600, 550);
    wait_often(&m, 10000);
    assert_in_range(m.looks, SIMBA__SPIN_TRIAL, 200);
    assert_in_range(m.vain_ns, 0, 60000000);
}

TEST(test_spin__follows_what_changes)
{
    struct machine m;

    set_up(&m, 60, 20);
    wait_often(&m, 2000);
    m.asleep_ns = 12000;
    m.looking_ns = 30000;
    wait_often(&m, 2000);
    wait_often(&m, 2000);
    assert_in_range(m.looks, 0, 200);
    m.asleep_ns = 60000;
    m.looking_ns = 20000;
    wait_often(&m, 4000);
    wait_often(&m, 2000);
    assert_in_range(m.looks, 1900, 2000);
}

TEST(test_spin__looks_little_longer_than_it_takes_as_a_rule)
{
    struct machine m;

    set_up(&m, 60, 20);
    wait_often(&m, 400);
    assert_in_range(simba__spin_allow(&m.spin, m.now_ns), 20000, 51000);
}

TEST(test_spin__looks_in_vain_for_a_small_share_of_time)
{
    struct machine m;

    set_up(&m, 60, 20);
    wait_often(&m, 400);
    m.looking_ns = INT64_MAX; /* of a sudden nothing comes to who looks, */
    m.asleep_ns = 200000;
    m.spin.left = 1000000; /* and it is not even tried what is better */
    wait_often(&m, 10000);
    assert_in_range(m.vain_ns, 0, 2100000 + 2000000000 / 8);
}

/* Half of all replies wait for who looks to leave the CPU. */
TEST(test_spin__sleeps_where_half_is_looked_for_in_vain)
{
    struct machine m;

    set_up(&m, 30, 20);
    m.slow_every = 2;
    wait_often(&m, 10000);
    wait_often(&m, 10000);
    assert_in_range(m.looks, 0, 200);
}

TEST(test_spin__never_looks_when_it_is_off)
{
    struct machine m;

    set_up(&m, 60, 20);
    simba__spin_init(&m.spin, 0);
    wait_often(&m, 10000);
    assert_int_equal(m.looks, 0);
}

TEST(test_spin__pauses_when_others_wait_for_the_cpu)
{
    struct machine m;
    int64_t first, begun;

    set_up(&m, 60, 20);
    wait_often(&m, 2000);
    assert_true(simba__spin_allow(&m.spin, m.now_ns) > 0);

    m.takings = 2;
    wait_once(&m);
    first = m.spin.resume_ns - m.now_ns;
    wait_often(&m, 100);
    assert_int_equal(m.looks, 0);
    m.now_ns = m.spin.resume_ns;
    wait_once(&m); /* and longer each time */
    assert_int_equal(m.spin.resume_ns - m.now_ns, 2 * first);
    for (int i = 0; i < 20; i++) {
        m.now_ns = m.spin.resume_ns;
        wait_once(&m);
    }
    assert_in_range(m.spin.resume_ns - m.now_ns, 10 * first, 200 * first);

    m.now_ns = m.spin.resume_ns;
    m.takings = 0;
    wait_often(&m, 2000);
    m.takings = 2;
    begun = m.spin.resume_ns;
    for (int i = 0; i < 100 && m.spin.resume_ns == begun; i++) {
        wait_once(&m); /* the first that looks, not one of a trial */
    }
    assert_int_equal(m.spin.resume_ns - m.now_ns, first);
}

/* A kernel thread, an interrupt: that is not others who wait. */
TEST(test_spin__goes_on_when_the_cpu_is_taken_away_now_and_then)
{
    struct machine m;

    set_up(&m, 60, 20);
    wait_often(&m, 2000);
    for (int i = 0; i < 20; i++) {
        m.takings = 1;
        wait_once(&m);
        m.takings = 0;
        wait_often(&m, 1000);
        assert_in_range(m.looks, 900, 1000);
    }
}

TEST(test_spin__looks_although_some_replies_are_slow)
{
    struct machine m;

    set_up(&m, 100, 44);
    m.slow_every = 33;
    wait_often(&m, 2000);
    wait_often(&m, 10000);
    assert_in_range(m.looks, 9000, 10000);
}

TEST(test_spin__sleeps_although_some_replies_are_slow)
{
    struct machine m;

    set_up(&m, 36, 35);
    m.slow_every = 9;
    wait_often(&m, 10000);
    assert_in_range(m.looks, SIMBA__SPIN_TRIAL, 200);
}

/* How long one must look may be more than how long what comes has waited. */
TEST(test_spin__looks_longer_when_it_was_in_vain)
{
    struct machine m;

    set_up(&m, 90, 20);
    wait_often(&m, 400);
    m.looking_ns = 70000; /* more than twice what it took, and a little */
    wait_often(&m, 2000);
    wait_often(&m, 2000);
    assert_in_range(m.looks, 1900, 2000);
}

/* A sleeping CPU takes 300 us to wake, and replies 150 to come. */
TEST(test_spin__looks_longer_where_sleeping_takes_very_long)
{
    struct machine m;

    set_up(&m, 450, 150);
    wait_often(&m, 100);
    wait_often(&m, 10000);
    assert_in_range(m.looks, 9600, 10000);
    assert_int_equal(m.vain_ns, 0);
}

TEST(test_spin__looks_longer_although_some_replies_are_slow)
{
    struct machine m;

    set_up(&m, 450, 150);
    m.slow_every = 33;
    wait_often(&m, 2000);
    wait_often(&m, 10000);
    assert_in_range(m.looks, 9000, 10000);
    assert_in_range(m.vain_ns, 0, 2100000 + INT64_C(10000) * 450000 / 8);
}

/* A network, and not a CPU that sleeps: the reply itself takes so long. */
TEST(test_spin__sleeps_where_looking_longer_saves_little)
{
    static const int64_t us[][2] = {
        {200, 150}, {350, 300}, {450, 310}, {450, 430}, {2000, 1900}};

    for (size_t i = 0; i < sizeof us / sizeof us[0]; i++) {
        struct machine m;

        set_up(&m, us[i][0], us[i][1]);
        wait_often(&m, 10000);
        assert_in_range(m.looks, SIMBA__SPIN_TRIAL / 4, 200);
        assert_in_range(m.vain_ns, 0, 60000000);
    }
}

TEST(test_spin__looks_never_longer_than_the_url_says)
{
    struct machine m;

    set_up(&m, 450, 150);
    simba__spin_init(&m.spin, SIMBA__SPIN_MOST_US);
    wait_often(&m, 10000);
    assert_in_range(m.looks, SIMBA__SPIN_TRIAL, 200);
    assert_in_range(m.looked_ns, 0,
                    (int64_t)m.looks * SIMBA__SPIN_MOST_US * 1000);
}

TEST(test_spin__follows_the_moods_of_a_machine)
{
    struct machine m;

    set_up(&m, 60, 20);
    for (int i = 0; i < 5; i++) {
        m.asleep_ns = 450000;
        m.looking_ns = 150000;
        wait_often(&m, 3000);
        wait_often(&m, 3000);
        assert_in_range(m.looks, 2800, 3000);
        m.asleep_ns = 60000;
        m.looking_ns = 20000;
        wait_often(&m, 3000);
        wait_often(&m, 3000);
        assert_in_range(m.looks, 2800, 3000);
        m.asleep_ns = 12000; /* others keep the CPUs awake */
        m.looking_ns = 30000;
        wait_often(&m, 3000);
        wait_often(&m, 3000);
        assert_in_range(m.looks, 0, 200);
    }
}
