/* An environment in which nothing is configured but what a test writes, and
 * what becomes of it. */
#ifndef TESTS_API_CONFIG_DRIVER_H
#define TESTS_API_CONFIG_DRIVER_H

#include "fixtures/api_harness.h"
#include "fixtures/directory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* An environment in which nothing is configured. */
static inline int set_up(void **state)
{
    (void)state;
    unsetenv("SIMBA_STORE");
    unsetenv("SIMBA_CONFIG");
    setenv("XDG_CONFIG_HOME", directory, 1);
    setenv("XDG_STATE_HOME", directory, 1);
    return 0;
}

static inline const char *write_file(const char *name,
                                     const char *text,
                                     mode_t mode)
{
    const char *path = in_directory(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return path;
}

static inline void configure(const char *text)
{
    setenv("SIMBA_CONFIG", write_file("simba.conf", text, 0600), 1);
}

/* What simba_store_open() would open. */
static inline const char *chosen(const char *url)
{
    static char shown[512];
    simba_error error;

    if (simba_store_describe(url, shown, sizeof shown, &error) != SIMBA_OK) {
        fail_msg("%s", error.message);
    }
    return shown;
}

/* The message of what must fail. */
static inline const char *refusal(int code)
{
    static simba_error error;
    char shown[64];

    memset(&error, 0, sizeof error);
    assert_int_equal(simba_store_describe(NULL, shown, sizeof shown, &error),
                     code);
    assert_int_equal(error.code, code);
    return error.message;
}

static inline void assert_says(const char *message, const char *part)
{
    if (strstr(message, part) == NULL) {
        fail_msg("'%s' does not say '%s'", message, part);
    }
}

#define CONFIG_TEST(test) TEST_AROUND(test, set_up, NULL)

#endif
