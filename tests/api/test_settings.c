/* Which store a program gets that names none: environment, config file,
 * default; and what else the file sets. */
#include "config_driver.h"

static const char of_machine[] = "sqlite:/var/lib/simba/simba.db";

/* In a home of root's: whether it is there on this machine is not ours to
 * decide. */
static bool has_former_file(void)
{
    return access("/root/.local/state/simba/simba.db", F_OK) == 0;
}

/* Sets us among the users for as long as it is true. */
static void be_a_user(bool is_user)
{
    assert_int_equal(
        geteuid() == 0 || getuid() == 0 ? seteuid(is_user ? 65534 : 0) : 0, 0);
}

CONFIG_TEST(test_settings__nothing_configured_is_sqlite)
{
    char url[300];

    setenv("SIMBA_CONFIG", "/dev/null", 1); /* whatever /etc says */
    snprintf(url, sizeof url, "sqlite:%s/simba/simba.db", directory);
    be_a_user(true);
    assert_string_equal(chosen(NULL), url);
    be_a_user(false);
}

/* sudo, cron and units give root different homes. */
CONFIG_TEST(test_settings__file_of_root_is_the_machines)
{
    if (geteuid() != 0 || has_former_file()) {
        skip();
    }
    setenv("SIMBA_CONFIG", "/dev/null", 1);
    assert_string_equal(chosen(NULL), of_machine);
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", directory, 1);
    assert_string_equal(chosen(NULL), of_machine);
}

CONFIG_TEST(test_settings__refuses_two_files_of_root)
{
    const char *path;

    if (geteuid() != 0 || has_former_file()) {
        skip();
    }
    setenv("SIMBA_CONFIG", "/dev/null", 1);
    assert_int_equal(mkdir(in_directory("simba"), 0755), 0);
    path = write_file("simba/simba.db", "", 0600);
    assert_says(refusal(SIMBA_EMISCONFIG), path);
    assert_says(refusal(SIMBA_EMISCONFIG), of_machine + strlen("sqlite:"));
    assert_int_equal(chown(path, 65534, 0), 0); /* it is somebody else's */
    assert_string_equal(chosen(NULL), of_machine);
    unlink(path);
    rmdir(in_directory("simba"));
}

CONFIG_TEST(test_settings__may_forbid_the_default)
{
    configure("ttl = 2s\nstore_required = yes\n");
    assert_says(refusal(SIMBA_EMISCONFIG), "simba.conf:2: store_required");
    assert_string_equal(chosen("memory:a"), "memory:a");
    setenv("SIMBA_STORE", "memory:b", 1);
    assert_string_equal(chosen(NULL), "memory:b");
    unsetenv("SIMBA_STORE");
    configure("store = memory:c\nstore_required = yes\n");
    assert_string_equal(chosen(NULL), "memory:c");
}

/* It asks the next one instead. */
CONFIG_TEST(test_settings__required_is_no_store)
{
    setenv("SIMBA_CONFIG", "/dev/null", 1);
    setenv("SIMBA_STORE", "required", 1);
    assert_says(refusal(SIMBA_EMISCONFIG), "which store?");
    configure("store = memory:file\n");
    assert_string_equal(chosen(NULL), "memory:file");
    assert_string_equal(chosen("required"), "memory:file");
    setenv("SIMBA_STORE", "memory:environment", 1);
    assert_string_equal(chosen("required"), "memory:environment");
    configure("[store required]\nurl = memory:file\n");
    unsetenv("SIMBA_STORE");
    assert_says(refusal(SIMBA_EMISCONFIG), "simba.conf:1: no section");
}

static void expect_origin(const char *url, const char *origin)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    struct log_counter counter = {SIMBA_LOG_INFO, origin, 0};
    simba_store *store;

    options.log = count_log;
    options.log_user = &counter;
    options.log_level = SIMBA_LOG_INFO;
    assert_int_equal(simba_store_open(url, &options, &store, NULL), SIMBA_OK);
    simba_store_close(store);
    assert_int_equal(atomic_load(&counter.count), 1);
}

CONFIG_TEST(test_settings__tells_which_store_and_why)
{
    char origin[300];

    configure("# ours\nstore = memory:file\n[store a]\nurl = memory:a\n");
    expect_origin("memory:b", "store memory:b, as given");
    snprintf(origin, sizeof origin, "store memory:a, as given, %s:3",
             getenv("SIMBA_CONFIG"));
    expect_origin("a", origin);
    snprintf(origin, sizeof origin, "store memory:file, from %s:2",
             getenv("SIMBA_CONFIG"));
    expect_origin(NULL, origin);
    setenv("SIMBA_STORE", "memory:c", 1);
    expect_origin(NULL, "store memory:c, from $SIMBA_STORE");
}

CONFIG_TEST(test_settings__goes_from_caller_to_environment_to_file)
{
    configure("store = memory:file\n");
    assert_string_equal(chosen(NULL), "memory:file");
    setenv("SIMBA_STORE", "memory:environment", 1);
    assert_string_equal(chosen(NULL), "memory:environment");
    assert_string_equal(chosen("memory:caller"), "memory:caller");
    setenv("SIMBA_STORE", "", 1); /* as if it were not there */
    assert_string_equal(chosen(NULL), "memory:file");
}

CONFIG_TEST(test_settings__finds_the_file_of_the_user)
{
    assert_int_equal(mkdir(in_directory("simba"), 0700), 0);
    write_file("simba/simba.conf", "store = memory:mine\n", 0600);
    assert_string_equal(chosen(NULL), "memory:mine");
    configure("store = memory:named\n"); /* $SIMBA_CONFIG comes first */
    assert_string_equal(chosen(NULL), "memory:named");
    unlink(in_directory("simba/simba.conf"));
    rmdir(in_directory("simba"));
}

CONFIG_TEST(test_settings__a_named_file_must_be_there)
{
    setenv("SIMBA_CONFIG", in_directory("missing.conf"), 1);
    assert_says(refusal(SIMBA_EMISCONFIG), "missing.conf");
}

CONFIG_TEST(test_settings__a_url_needs_no_file)
{
    simba_store *store;

    configure("nonsense\n");
    assert_string_equal(chosen("memory:caller"), "memory:caller");
    assert_int_equal(simba_store_open("memory:a", NULL, &store, NULL),
                     SIMBA_OK);
    simba_store_close(store);
}

CONFIG_TEST(test_settings__names_lead_to_sections)
{
    configure("store = prod\n[store prod]\nurl = memory:p\n"
              "[store test]\nurl=memory:t\n");
    assert_string_equal(chosen(NULL), "memory:p");
    assert_string_equal(chosen("test"), "memory:t");
    setenv("SIMBA_STORE", "test", 1);
    assert_string_equal(chosen(NULL), "memory:t");
    setenv("SIMBA_STORE", "other", 1);
    assert_says(refusal(SIMBA_EINVAL), "other");
}

CONFIG_TEST(test_settings__looking_makes_no_file)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_store *store;
    simba_error error;
    struct stat about;
    char url[300];

    snprintf(url, sizeof url, "stat::sqlite:%s", in_directory("none/a.db"));
    options.look = true;
    assert_int_equal(simba_store_open(url, &options, &store, &error),
                     SIMBA_ENOTINIT);
    assert_non_null(strstr(error.message, "none/a.db: is not there yet"));
    assert_int_not_equal(stat(in_directory("none"), &about), 0);

    assert_int_equal(simba_store_open(url, NULL, &store, NULL), SIMBA_OK);
    simba_store_close(store);
    assert_int_equal(simba_store_open(url, &options, &store, NULL), SIMBA_OK);
    simba_store_close(store);
}

/* --- what else it sets --------------------------------------------------- */

static void open_with(const char *url,
                      enum simba_config_use use,
                      simba_store **store)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_error error;

    options.config = use;
    if (simba_store_open(url, &options, store, &error) != SIMBA_OK) {
        fail_msg("%s", error.message);
    }
}

static void expect_lease(const char *url,
                         enum simba_config_use use,
                         int64_t ttl_ms,
                         int64_t transition_ms)
{
    int64_t ttl, transition;
    simba_store *store;

    open_with(url, use, &store);
    simba_store_lease(store, &ttl, &transition);
    assert_int_equal(ttl, ttl_ms);
    assert_int_equal(transition, transition_ms);
    simba_store_close(store);
}

CONFIG_TEST(test_settings__times_are_defaults_of_contenders)
{
    configure("store = memory:a\nttl = 2.5s\ntransition = 500ms\n"
              "[store short]\nurl = memory:b\nttl = 200ms\n");
    expect_lease(NULL, SIMBA_CONFIG_WHEN_ASKED, 2500, 500);
    expect_lease("short", SIMBA_CONFIG_WHEN_ASKED, 200, 500);
    expect_lease("memory:c", SIMBA_CONFIG_WHEN_ASKED, 10000, 6000);
    expect_lease("memory:c", SIMBA_CONFIG_ALWAYS, 2500, 500);
    expect_lease("memory:c", SIMBA_CONFIG_NEVER, 10000, 6000);
}

/* How long the lease of a fresh tenure runs. */
static int64_t lease_left(simba_store *store, int64_t ttl_ms)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;
    int64_t hard;

    options.mutex = fresh_mutex();
    options.times.ttl_ms = ttl_ms;
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    simba_locker_deadlines(locker, NULL, &hard);
    hard -= now_ms();
    simba_locker_close(locker);
    return hard;
}

CONFIG_TEST(test_settings__contenders_that_set_none_get_them)
{
    simba_store *store;

    configure("store = memory:a\nttl = 1h\ntransition = 1h\n");
    open_with(NULL, SIMBA_CONFIG_WHEN_ASKED, &store);
    assert_true(lease_left(store, 0) > 6000000);
    assert_true(lease_left(store, 60000) < 3700000);
    simba_store_close(store);
}

/* How many messages a tenure is worth. */
static int infos_logged(enum simba_log_level level)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    struct log_counter counter = {SIMBA_LOG_INFO, "", 0};
    simba_service *service;
    simba_store *store;

    options.log = count_log;
    options.log_user = &counter;
    options.log_level = level;
    contender.mutex = fresh_mutex();
    assert_int_equal(simba_store_open(NULL, &options, &store, NULL), SIMBA_OK);
    service = must_open_service(store, &contender);
    assert_int_equal(simba_service_start(service, NULL), SIMBA_OK);
    await(simba_service_is_owner(service));
    simba_service_close(service);
    simba_store_close(store);
    return atomic_load(&counter.count);
}

CONFIG_TEST(test_settings__sets_the_log_level)
{
    configure("store = memory:a\nlog_level = info\n");
    assert_true(infos_logged(SIMBA_LOG_DEFAULT) > 0);
    assert_int_equal(infos_logged(SIMBA_LOG_ERROR), 0); /* the program's word */
    configure("store = memory:a\n");
    assert_int_equal(infos_logged(SIMBA_LOG_DEFAULT), 0);
}

/* It is the library's, whatever the store. */
CONFIG_TEST(test_settings__takes_spin_out_of_the_url)
{
    assert_string_equal(chosen("sqlite:/a?spin=off&fs=trust"),
                        "sqlite:/a?fs=*");
    assert_string_equal(chosen("redis://a/1?db=2&spin=50"),
                        "redis://a/1?db=*&");
    assert_string_equal(chosen("memory:a"), "memory:a");
    configure("store = redis://a/?spin=10001\n");
    assert_says(refusal(SIMBA_EINVAL), "spin must be off or a number");
    configure("store = redis://a/?spin=on\n");
    assert_says(refusal(SIMBA_EINVAL), "simba.conf:1: ");
}

int main(void)
{
    return run_unit_tests(make_directory, remove_directory);
}
