/* What a config file may say, and what is told of one that says something
 * else; its secrets, which are never told. */
#include "config_driver.h"

CONFIG_TEST(test_config_file__names_file_line_and_key)
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
        {"store = \"memory:a\"\n",
         "simba.conf:1: store: values are not quoted"},
        {"store = a\n[store a]\nurl = 'memory:a'\n",
         "simba.conf:3: url: values are not quoted"},
        {"ttl = \"10s\"\n", "simba.conf:1: ttl: values are not quoted"},
        {"store = memory:a # ours\n", "simba.conf:1: store: a comment"},
        {"stor = memory:a\n", "no such key; did you mean store?"},
        {"store_required = maybe\n", "simba.conf:1: store_required: must be"},
        {"ttl = 99ms\n", "simba.conf:1: ttl: shorter"},
        {"\nttl = 99999999999999999999s\n", "simba.conf:2: ttl: no duration"},
        {"\nstore = elsewhere\n", "simba.conf:2: store: neither"},
        {"[store a]\nurl = redis://h\npassword_file = x\n",
         "simba.conf:3: password_file: must be"},
        {"store = redis://h\npassword_file = /nowhere/password\n",
         "simba.conf:2: password_file: /nowhere/password: No such file"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        configure(cases[i].text);
        assert_says(refusal(SIMBA_EMISCONFIG), cases[i].says);
    }
}

/* As an editor elsewhere leaves it. */
CONFIG_TEST(test_config_file__takes_other_peoples_text_files)
{
    configure("\xef\xbb\xbfstore = memory:a\r\nttl = 2s\r\n\r\n# end");
    assert_string_equal(chosen(NULL), "memory:a");
    configure("store = memory:a\nttl = \xef\xbb\xbf\n");
    assert_says(refusal(SIMBA_EMISCONFIG), "simba.conf:2: ttl");
}

CONFIG_TEST(test_config_file__duration_is_read_as_people_write_it)
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

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(simba_duration_parse(good[i].text, &ms, NULL), 0);
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(simba_duration_parse(bad[i], &ms, NULL), SIMBA_EINVAL);
    }
}

/* --- secrets ------------------------------------------------------------- */

CONFIG_TEST(test_config_file__takes_passwords_from_files)
{
    simba_store *store;
    simba_error error;
    char text[400];

    snprintf(text, sizeof text,
             "store = db\n[store db]\nurl = echo://h/d\nuser = u\n"
             "password_file = %s\n",
             write_file("password", "se:cr@et\n", 0600));
    configure(text);
    assert_string_equal(chosen(NULL), "echo://h/d");
    assert_int_equal(simba_store_open(NULL, NULL, &store, &error),
                     SIMBA_EINVAL);
    snprintf(text, sizeof text, "%s:3: url: echo://u:se%%3Acr%%40et@h/d",
             getenv("SIMBA_CONFIG"));
    assert_string_equal(error.message, text);
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
CONFIG_TEST(test_config_file__refuses_password_files_without_one)
{
    refuses_password("", "first line is empty");
    refuses_password("\nsecret\n", "first line is empty");
}

CONFIG_TEST(test_config_file__refuses_secrets_that_others_can_read)
{
    char text[400];

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

CONFIG_TEST(test_config_file__urls_are_shown_without_secrets)
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

CONFIG_TEST(test_config_file__tells_no_secret)
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

int main(void)
{
    return run_unit_tests(make_directory, remove_directory);
}
