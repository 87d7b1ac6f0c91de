#define _GNU_SOURCE
#include "kit/parameters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixtures/unit_test.h"

struct settings {
    const char *text;
    int colour;
    bool is_loud;
    int number;
    uint64_t seed;
    struct simba__tls_settings tls;
};

static const struct simba__parameter parameters[] = {
    {"text", SIMBA__PARAMETER_TEXT, offsetof(struct settings, text), NULL, 0,
     "some text"},
    {"old_text", SIMBA__PARAMETER_TEXT, offsetof(struct settings, text), NULL,
     0, NULL},
    {"colour", SIMBA__PARAMETER_CHOICE, offsetof(struct settings, colour),
     "red green|verde blue", 0, "a colour"},
    {"loud", SIMBA__PARAMETER_FLAG, offsetof(struct settings, is_loud),
     SIMBA__OFF_ON, 0, "a flag"},
    {"number", SIMBA__PARAMETER_INT, offsetof(struct settings, number), NULL,
     12, "a number"},
    {"seed", SIMBA__PARAMETER_U64, offsetof(struct settings, seed), NULL,
     UINT64_MAX, "a large one"},
    {0}};

static const struct simba__url_form form = {.store = "toy",
                                            .example = "toy:x",
                                            .parameters = parameters,
                                            .tls_offset =
                                                offsetof(struct settings, tls)};

static char list[128];
static struct settings settings;
static simba_error error;

static int read_list(const char *text)
{
    snprintf(list, sizeof list, "%s", text);
    settings = (struct settings){.tls = SIMBA__TLS_DEFAULTS};
    return simba__parameters_read(&form, list, &settings, &error);
}

static void refused(const char *text, const char *words)
{
    if (read_list(text) != SIMBA_EINVAL ||
        strstr(error.message, words) == NULL ||
        strncmp(error.message, "toy: ", 5) != 0) {
        fail_msg("%s: %s", text, error.message);
    }
}

TEST(test_parameters__each_type_is_read)
{
    assert_int_equal(read_list("text=a%26b&&colour=blue&loud=Yes&number=12&"
                               "seed=18446744073709551615&"),
                     SIMBA_OK);
    assert_string_equal(settings.text, "a&b");
    assert_int_equal(settings.colour, 2);
    assert_true(settings.is_loud);
    assert_int_equal(settings.number, 12);
    assert_true(settings.seed == UINT64_MAX);
    assert_int_equal(read_list("colour=verde&loud=0&old_text=b&text="),
                     SIMBA_OK);
    assert_int_equal(settings.colour, 1);
    assert_false(settings.is_loud);
    assert_string_equal(settings.text, "");
    assert_int_equal(read_list(""), SIMBA_OK);
}

TEST(test_parameters__wrong_values_are_told_what_is_right)
{
    refused("colour=yellow", "colour must be red, green or blue");
    refused("colour=", "colour must be red, green or blue");
    refused("loud=maybe", "loud must be off or on");
    refused("number=13", "number must be a number up to 12");
    refused("number=-1", "number must be");
    refused("number=1x", "number must be");
    refused("text", "text has no value");
    refused("text=%4", "escape");
}

TEST(test_parameters__unknown_names_are_told_near_ones)
{
    refused("color=red", "\"color\"; is colour meant?");
    refused("shape=round", "\"shape\"; there are text, colour, loud, number");
    assert_null(strstr(error.message, "old_text"));
    refused("p/w=hunter2", "\"?\""); /* may be a part of a secret */
    assert_null(strstr(error.message, "hunter2"));
}

TEST(test_parameters__another_separator_may_do)
{
    struct simba__url_form commas = form;

    commas.separator = ',';
    snprintf(list, sizeof list, "number=3,text=a&b");
    assert_int_equal(simba__parameters_read(&commas, list, &settings, &error),
                     SIMBA_OK);
    assert_int_equal(settings.number, 3);
    assert_string_equal(settings.text, "a&b");
}

TEST(test_parameters__help_names_all_but_old_ones)
{
    char *help = simba__parameters_help(&form);

    assert_non_null(strstr(help, "toy:x\n"));
    assert_non_null(strstr(help, "a colour (red, green or blue)\n"));
    assert_non_null(strstr(help, "a number (a number up to 12)\n"));
    assert_non_null(strstr(help, "  verify  "));
    assert_null(strstr(help, "old_text"));
    free(help);
}

/* --- TLS ----------------------------------------------------------------- */

static int settle(const char *text, bool otherwise)
{
    assert_int_equal(read_list(text), SIMBA_OK);
    return simba__tls_settle(&settings.tls, &form, otherwise, &error);
}

TEST(test_parameters__tls_is_settled)
{
    assert_int_equal(settle("", true), SIMBA_OK);
    assert_int_equal(settings.tls.use, SIMBA__TLS_ON);
    assert_true(settings.tls.is_verified);
    assert_int_equal(settle("", false), SIMBA_OK);
    assert_int_equal(settings.tls.use, SIMBA__TLS_OFF);
    assert_int_equal(settle("tls=off", true), SIMBA_OK);
    assert_int_equal(settings.tls.use, SIMBA__TLS_OFF);
    assert_int_equal(settle("tls=1&cert=c&key=k&ca=a", false), SIMBA_OK);
    assert_int_equal(settings.tls.use, SIMBA__TLS_ON);
    assert_int_equal(settle("verify=off", true), SIMBA_OK);
    assert_int_equal(settings.tls.use, SIMBA__TLS_UNVERIFIED);
    assert_int_equal(settle("tls=unverified", false), SIMBA_OK);
    assert_false(settings.tls.is_verified);
}

TEST(test_parameters__tls_must_fit_together)
{
    assert_int_equal(settle("cert=c", true), SIMBA_EINVAL);
    assert_int_equal(settle("key=c", true), SIMBA_EINVAL);
    assert_int_equal(settle("ca=c", false), SIMBA_EINVAL);
    assert_int_equal(settle("ca=c&tls=off", true), SIMBA_EINVAL);
}

/* A certificate is for all to see. */
TEST(test_parameters__tls_key_is_for_its_owner_only)
{
    char path[] = "/tmp/simba-key-XXXXXX", text[128];
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    snprintf(text, sizeof text, "tls=on&ca=%s&cert=%s&key=no-such-file", path,
             path);
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(settle(text, true), SIMBA_OK);
    snprintf(text, sizeof text, "tls=on&cert=%s&key=%s", path, path);
    assert_int_equal(settle(text, true), SIMBA_EMISCONFIG);
    assert_non_null(strstr(error.message, "others can read this key"));
    assert_int_equal(fchmod(fd, 0640), 0);
    assert_int_equal(settle(text, true), SIMBA_OK);
    close(fd);
    unlink(path);
}
