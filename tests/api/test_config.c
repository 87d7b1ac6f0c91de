/* Which store a program gets that names none: environment, config file,
 * default; and what the file may say. */
#include "harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char directory[] = "/tmp/simba-config.XXXXXX";

/* An environment in which nothing is configured. */
static int set_up(void **state)
{
    (void)state;
    unsetenv("SIMBA_STORE");
    unsetenv("SIMBA_CONFIG");
    setenv("XDG_CONFIG_HOME", directory, 1);
    setenv("XDG_STATE_HOME", directory, 1);
    return 0;
}

static const char *in_directory(const char *name)
{
    static char paths[4][256];
    static int turn;
    char *path = paths[turn++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static const char *write_file(const char *name, const char *text, mode_t mode)
{
    const char *path = in_directory(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return path;
}

static void configure(const char *text)
{
    setenv("SIMBA_CONFIG", write_file("simba.conf", text, 0600), 1);
}

/* What simba_store_open() would open. */
static const char *chosen(const char *url)
{
    static char shown[512];
    simba_error error;

    if (simba_store_describe(url, shown, sizeof shown, &error) != SIMBA_OK) {
        fail_msg("%s", error.message);
    }
    return shown;
}

/* The message of what must fail. */
static const char *refusal(int code)
{
    static simba_error error;
    char shown[64];

    memset(&error, 0, sizeof error);
    assert_int_equal(simba_store_describe(NULL, shown, sizeof shown, &error),
                     code);
    assert_int_equal(error.code, code);
    return error.message;
}

static void assert_says(const char *message, const char *part)
{
    if (strstr(message, part) == NULL) {
        fail_msg("'%s' does not say '%s'", message, part);
    }
}

/* --- precedence ---------------------------------------------------------- */

static void test_config__nothing_configured_is_sqlite(void **state)
{
    char url[300];

    (void)state;
    setenv("SIMBA_CONFIG", "/dev/null", 1); /* whatever /etc says */
    snprintf(url, sizeof url, "sqlite:%s/simba/simba.db", directory);
    assert_string_equal(chosen(NULL), url);
}

static void test_config__goes_from_caller_to_environment_to_file(void **state)
{
    (void)state;
    configure("store = memory:file\n");
    assert_string_equal(chosen(NULL), "memory:file");
    setenv("SIMBA_STORE", "memory:environment", 1);
    assert_string_equal(chosen(NULL), "memory:environment");
    assert_string_equal(chosen("memory:caller"), "memory:caller");
    setenv("SIMBA_STORE", "", 1); /* as if it were not there */
    assert_string_equal(chosen(NULL), "memory:file");
}

static void test_config__finds_the_file_of_the_user(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_directory("simba"), 0700), 0);
    write_file("simba/simba.conf", "store = memory:mine\n", 0600);
    assert_string_equal(chosen(NULL), "memory:mine");
    configure("store = memory:named\n"); /* $SIMBA_CONFIG comes first */
    assert_string_equal(chosen(NULL), "memory:named");
    unlink(in_directory("simba/simba.conf"));
    rmdir(in_directory("simba"));
}

static void test_config__a_named_file_must_be_there(void **state)
{
    (void)state;
    setenv("SIMBA_CONFIG", in_directory("missing.conf"), 1);
    assert_says(refusal(SIMBA_EMISCONFIG), "missing.conf");
}

static void test_config__a_url_needs_no_file(void **state)
{
    simba_store *store;

    (void)state;
    configure("nonsense\n");
    assert_string_equal(chosen("memory:caller"), "memory:caller");
    assert_int_equal(simba_store_open("memory:a", NULL, &store, NULL),
                     SIMBA_OK);
    simba_store_close(store);
}

static void test_config__names_lead_to_sections(void **state)
{
    (void)state;
    configure("store = prod\n[store prod]\nurl = memory:p\n"
              "[store test]\nurl=memory:t\n");
    assert_string_equal(chosen(NULL), "memory:p");
    assert_string_equal(chosen("test"), "memory:t");
    setenv("SIMBA_STORE", "test", 1);
    assert_string_equal(chosen(NULL), "memory:t");
    setenv("SIMBA_STORE", "other", 1);
    assert_says(refusal(SIMBA_EINVAL), "other");
}

/* --- what it is for ------------------------------------------------------ */

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

static void test_config__times_are_defaults_of_contenders(void **state)
{
    (void)state;
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
    options.ttl_ms = ttl_ms;
    assert_int_equal(simba_locker_open(store, &options, &locker, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    simba_locker_deadlines(locker, NULL, &hard);
    hard -= now_ms();
    simba_locker_close(locker);
    return hard;
}

static void test_config__contenders_that_set_none_get_them(void **state)
{
    simba_store *store;

    (void)state;
    configure("store = memory:a\nttl = 1h\ntransition = 1h\n");
    open_with(NULL, SIMBA_CONFIG_WHEN_ASKED, &store);
    assert_true(lease_left(store, 0) > 6000000);
    assert_true(lease_left(store, 60000) < 3700000);
    simba_store_close(store);
}

static void count_messages(void *user,
                           enum simba_log_level level,
                           const char *component,
                           const char *message)
{
    (void)component;
    (void)message;
    if (level == SIMBA_LOG_INFO) {
        atomic_fetch_add((_Atomic int *)user, 1);
    }
}

/* --- who only looks ------------------------------------------------------ */

static void test_config__looking_makes_no_file(void **state)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_store *store;
    simba_error error;
    struct stat about;
    char url[300];

    (void)state;
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

/* How many messages a tenure is worth. */
static int infos_logged(enum simba_log_level level)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    _Atomic int count = 0;
    simba_service *service;
    simba_store *store;

    options.log = count_messages;
    options.log_user = &count;
    options.log_level = level;
    contender.mutex = fresh_mutex();
    assert_int_equal(simba_store_open(NULL, &options, &store, NULL), SIMBA_OK);
    assert_int_equal(simba_service_open(store, &contender, &service, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_service_start(service, NULL), SIMBA_OK);
    await(simba_service_is_owner(service));
    simba_service_close(service);
    simba_store_close(store);
    return atomic_load(&count);
}

static void test_config__sets_the_log_level(void **state)
{
    (void)state;
    configure("store = memory:a\nlog_level = info\n");
    assert_true(infos_logged(SIMBA_LOG_DEFAULT) > 0);
    assert_int_equal(infos_logged(SIMBA_LOG_ERROR), 0); /* the program's word */
    configure("store = memory:a\n");
    assert_int_equal(infos_logged(SIMBA_LOG_DEFAULT), 0);
}

/* --- what is wrong with it ----------------------------------------------- */

static void test_config__names_file_line_and_key(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"store = memory:a\n\ncolour = red\n", "simba.conf:3: colour"},
        {"# fine\nttl = 10\n", "simba.conf:2: ttl"},
        {"ttl = 0\n", "simba.conf:1: ttl"},
        {"transition = soon\n", "simba.conf:1: transition"},
        {"log_level = loud\n", "simba.conf:1: log_level"},
        {"store =\n", "simba.conf:1: store"},
        {"url = memory:a\n", "simba.conf:1: url"},
        {"store = memory:a\nstore = memory:b\n", "simba.conf:2: store"},
        {"[store a]\nurl = memory:a\n[store a]\n", "simba.conf:3:"},
        {"[store a]\nttl = 10s\n", "simba.conf:1:"},
        {"[store a]\nurl = a\n", "simba.conf:2: url"},
        {"[store a]\nurl = memory:a\nstore = a\n", "simba.conf:3: store"},
        {"[redis]\n", "simba.conf:1:"},
        {"[store a\n", "simba.conf:1:"},
        {"\n\nhello\n", "simba.conf:3:"},
        {"= 1\n", "simba.conf:1:"},
        {"[store a]\nurl = redis://h\npassword = x\npassword_file = y\n",
         "simba.conf:4: password_file"},
        {"store = memory:a\nuser = me\n", "simba.conf:1: "},
        {"ttl = 99ms\n", "simba.conf:1: ttl: shorter"},
        {"\nttl = 99999999999999999999s\n", "simba.conf:2: ttl: no duration"},
        {"\nstore = elsewhere\n", "simba.conf:2: store: neither"},
        {"[store a]\nurl = redis://h\npassword_file = x\n",
         "simba.conf:3: password_file: must be"},
        {"store = redis://h\npassword_file = /nowhere/password\n",
         "simba.conf:2: password_file: /nowhere/password: No such file"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        configure(cases[i].text);
        assert_says(refusal(SIMBA_EMISCONFIG), cases[i].says);
    }
}

/* As an editor elsewhere leaves it. */
static void test_config__takes_other_peoples_text_files(void **state)
{
    (void)state;
    configure("\xef\xbb\xbfstore = memory:a\r\nttl = 2s\r\n\r\n# end");
    assert_string_equal(chosen(NULL), "memory:a");
    configure("store = memory:a\nttl = \xef\xbb\xbf\n");
    assert_says(refusal(SIMBA_EMISCONFIG), "simba.conf:2: ttl");
}

/* --- secrets ------------------------------------------------------------- */

static void test_config__takes_passwords_from_files(void **state)
{
    simba_store *store;
    simba_error error;
    char text[400];

    (void)state;
    snprintf(text, sizeof text,
             "store = db\n[store db]\nurl = echo://h/d\nuser = u\n"
             "password_file = %s\n",
             write_file("password", "se:cr@et\n", 0600));
    configure(text);
    assert_string_equal(chosen(NULL), "echo://h/d");
    assert_int_equal(simba_store_open(NULL, NULL, &store, &error),
                     SIMBA_EINVAL);
    assert_string_equal(error.message, "echo://u:se%3Acr%40et@h/d");
}

static void refuses_password(const char *content, const char *why)
{
    char text[400];

    snprintf(text, sizeof text,
             "store = db\n[store db]\nurl = postgres://h\npassword_file = %s\n",
             write_file("password", content, 0600));
    configure(text);
    assert_says(refusal(SIMBA_EMISCONFIG), "simba.conf:4: password_file: /");
    assert_says(refusal(SIMBA_EMISCONFIG), why);
}

/* To log in without a password because of it would be worse than to fail. */
static void test_config__refuses_password_files_without_one(void **state)
{
    (void)state;
    refuses_password("", "first line is empty");
    refuses_password("\nsecret\n", "first line is empty");
}

static void test_config__refuses_secrets_that_others_can_read(void **state)
{
    char text[400];

    (void)state;
    snprintf(text, sizeof text,
             "store = db\n[store db]\nurl = postgres://h\npassword_file = %s\n",
             write_file("password", "secret\n", 0644));
    configure(text);
    assert_says(refusal(SIMBA_EMISCONFIG), "password; chmod");
    configure("store = redis://:hunter2@h\n");
    assert_string_equal(chosen(NULL), "redis://h");
    chmod(getenv("SIMBA_CONFIG"), 0644);
    assert_says(refusal(SIMBA_EMISCONFIG), "simba.conf:1: a password");
    configure("store = redis://h\n");
    chmod(getenv("SIMBA_CONFIG"), 0644); /* nothing secret: fine */
    assert_string_equal(chosen(NULL), "redis://h");
    chmod(getenv("SIMBA_CONFIG"), 0646);
    assert_says(refusal(SIMBA_EMISCONFIG), "anybody can write");
}

static void test_config__urls_are_shown_without_secrets(void **state)
{
    static const char *const urls[][2] = {
        {"redis://h:1", "redis://h:1"},
        {"redis://u:pw@h:1/2", "redis://h:1/2"},
        {"redis://u:longer-one@h:1/2", "redis://h:1/2"},
        {"mysql://u@/db?socket=/a/b&password=pw",
         "mysql:///db?socket=*&password=*"},
        {"postgres://h/db?secret", "postgres://h/db?*"},
        {"postgres://h/db?a=&b=c&", "postgres://h/db?a=&b=*&"},
        {"redis://u:p/w@h", "redis://h"},
        {"redis://u:p?w@h", "redis://h"},
        {"redis://u:p@w@h", "redis://h"},
        {"sqlite:/a@b/c.db?fs=trust", "sqlite:/a@b/c.db?fs=*"},
        {"zookeeper://h/a@b", "zookeeper://h/a@b"},
        {"", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        char url[64] = "";
        size_t length = strlen(urls[i][0]);

        memcpy(url, urls[i][0], length);
        simba_url_hide_secrets(url);
        assert_string_equal(url, urls[i][1]);
        for (size_t k = strlen(url); k < length; k++) {
            assert_int_equal(url[k], '\0'); /* ps(1) shows it all */
        }
    }
}

static void test_config__tells_no_secret(void **state)
{
    static const char *const texts[] = {
        "store = redis://:hunter2@h\ncolour = hunter2\n",
        "redis://:hunter2@h\n",
        "redis://:hunter2@h?a=b\n",
        "[store hunter2@]\n",
        "store = hunter2@\n",
        "ttl = hunter2\n",
        "log_level = hunter2\n",
        "store = redis://u:hunter2@h\npassword = hunter2\n",
        "store = nostore://u:hunter2@h\n",
    };
    simba_store *store;
    simba_error error;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        configure(texts[i]);
        memset(&error, 0, sizeof error);
        assert_int_not_equal(simba_store_open(NULL, NULL, &store, &error),
                             SIMBA_OK);
        assert_null(store);
        assert_true(error.message[0] != '\0');
        assert_null(strstr(error.message, "hunter2"));
    }
}

static void test_duration__is_read_as_people_write_it(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"0", 0},       {"250ms", 250},  {"1.5s", 1500},
                {"5m", 300000}, {"1h", 3600000}, {"0.25h", 900000},
                {"0.0004s", 0}, {"0.0006s", 1},  {"87600h", 315360000000}};
    static const char *const bad[] = {"",    "5",   "s",     "-1s",  "1.s",
                                      ".5s", "1 s", "inf",   "0x1s", "1e3s",
                                      "1d",  "1s ", "87601h"};
    int64_t ms;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(simba_duration_parse(good[i].text, &ms, NULL), 0);
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(simba_duration_parse(bad[i], &ms, NULL), SIMBA_EINVAL);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_config__nothing_configured_is_sqlite,
                               set_up),
        cmocka_unit_test_setup(
            test_config__goes_from_caller_to_environment_to_file, set_up),
        cmocka_unit_test_setup(test_config__finds_the_file_of_the_user, set_up),
        cmocka_unit_test_setup(test_config__a_named_file_must_be_there, set_up),
        cmocka_unit_test_setup(test_config__a_url_needs_no_file, set_up),
        cmocka_unit_test_setup(test_config__names_lead_to_sections, set_up),
        cmocka_unit_test_setup(test_config__times_are_defaults_of_contenders,
                               set_up),
        cmocka_unit_test_setup(test_config__contenders_that_set_none_get_them,
                               set_up),
        cmocka_unit_test_setup(test_config__sets_the_log_level, set_up),
        cmocka_unit_test_setup(test_config__names_file_line_and_key, set_up),
        cmocka_unit_test_setup(test_config__takes_other_peoples_text_files,
                               set_up),
        cmocka_unit_test_setup(test_config__takes_passwords_from_files, set_up),
        cmocka_unit_test_setup(test_config__refuses_password_files_without_one,
                               set_up),
        cmocka_unit_test_setup(
            test_config__refuses_secrets_that_others_can_read, set_up),
        cmocka_unit_test(test_config__looking_makes_no_file),
        cmocka_unit_test(test_config__urls_are_shown_without_secrets),
        cmocka_unit_test_setup(test_config__tells_no_secret, set_up),
        cmocka_unit_test(test_duration__is_read_as_people_write_it),
    };
    char command[sizeof directory + 16];
    int rc;

    assert_non_null(mkdtemp(directory));
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) == 0 ? rc : 1;
}
