/* A server that is mad, or means harm: what it says has no end, and must cost
 * neither time nor memory. */
#define _GNU_SOURCE
#include "fixtures/lying_server.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fixtures/unit_test.h"

#define SERVER                                                                 \
    "redis_version:7.0\r\nredis_mode:standalone\r\nuptime_in_seconds:999\r\n"
#define INFO(length, text) "$" #length "\r\n" text "\r\n"
#define REST                                                                   \
    INFO(26, "loading:0\r\naof_enabled:1\r\n") INFO(13, "role:master\r\n")
#define HANDSHAKE INFO(65, SERVER) REST

enum { MOST_KIB = 64 * 1024, LARGE_KIB = 512 * 1024 };

/* What follows the handshake, and then goes on and on. */
static void hears(enum simba_request_kind kind,
                  const char *first,
                  const char *flood,
                  long most_kib)
{
    const struct lie lies[] = {
        LIE(HANDSHAKE), {first, strlen(first)}, {NULL, 0}};
    const struct lying_server server = {.lies = lies,
                                        .flood = {flood, strlen(flood)}};
    char url[64];

    snprintf(url, sizeof url, "redis://127.0.0.1:%d",
             lying_server_start(&server));
    lying_server_open_store(&simba_module, url);
    lying_server_expect_failure(&lied_to, kind, most_kib);
}

#define LIMITS_TEST(name) TEST_AROUND(name, NULL, lying_server_tear_down)

LIMITS_TEST(test_limits__array_of_two_billion)
{
    hears(SIMBA_ACQUIRE, "*2147483647\r\n", "", MOST_KIB);
}

LIMITS_TEST(test_limits__arrays_in_arrays)
{
    hears(SIMBA_ACQUIRE, "*1000\r\n", "*1000\r\n*-1\r\n", MOST_KIB);
}

LIMITS_TEST(test_limits__array_without_an_end)
{
    hears(SIMBA_ACQUIRE, "*1000000000\r\n", ":1\r\n", MOST_KIB);
}

LIMITS_TEST(test_limits__text_of_two_gigabytes)
{
    hears(SIMBA_ACQUIRE, "$2000000000\r\n", "xxxxxxxx", MOST_KIB);
}

LIMITS_TEST(test_limits__line_without_an_end)
{
    hears(SIMBA_ACQUIRE, "+", "xxxxxxxx", MOST_KIB);
}

/* A queue may be long, but not for ever. */
LIMITS_TEST(test_limits__queue_without_an_end)
{
    hears(SIMBA_READ, "*2000000000\r\n", "$3\r\nbob\r\n:1\r\n", LARGE_KIB);
}

LIMITS_TEST(test_limits__line_in_a_queue)
{
    hears(SIMBA_READ, "*100\r\n+", "xxxxxxxx", LARGE_KIB);
}

LIMITS_TEST(test_limits__list_of_too_many)
{
    hears(SIMBA_LIST, "*2\r\n$1\r\n1\r\n*200000\r\n", "$9\r\nsimba:{a}\r\n",
          MOST_KIB);
}

/* A server that claims to be older than the world is one that was not restarted
 * just now. */
LIMITS_TEST(test_limits__uptime_of_ages)
{
    static const struct lie lies[] = {
        LIE(INFO(58, "redis_version:7.0\r\n"
                     "uptime_in_seconds:9223372036854775807\r\n") REST),
        {NULL, 0}};
    const struct lying_server server = {.lies = lies};
    char url[64];

    snprintf(url, sizeof url, "redis://127.0.0.1:%d",
             lying_server_start(&server));
    lying_server_open_store(&simba_module, url);
}

/* A cluster that sends us to a port that is none, or to a socket of this
 * machine. */
LIMITS_TEST(test_limits__moved_to_nowhere)
{
    static const char *const ports[] = {"-1", "0", "99999", "x"};

    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        char map[64], moved[64], url[64];
        const struct lie lies[] = {
            LIE(INFO(62, "redis_version:7.0\r\nredis_mode:cluster\r\n"
                         "uptime_in_seconds:999\r\n") REST),
            {map,
             (size_t)snprintf(map, sizeof map,
                              "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n"
                              ":%d\r\n",
                              lying_server_listen())},
            {moved, (size_t)snprintf(moved, sizeof moved,
                                     "-MOVED 999 /run/x:%s\r\n", ports[i])},
            {NULL, 0}};
        const struct lying_server server = {.lies = lies};

        snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d",
                 lying_server_start(&server));
        lying_server_open_store(&simba_module, url);
        lying_server_expect_failure(&lied_to, SIMBA_READ, MOST_KIB);
        lying_server_tear_down(NULL);
    }
}
