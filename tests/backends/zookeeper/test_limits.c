/* A server that is mad, or means harm: what it says has no end, and must cost
 * neither time nor memory. */
#define _GNU_SOURCE
#include "fixtures/lying_server.h"

#include <stdio.h>

#include "fixtures/unit_test.h"

/* A session of ten seconds is granted. */
#define WELCOME                                                                \
    "\0\0\0\45\0\0\0\0\0\0\47\20\0\0\0\0\0\0\0\1\0\0\0\20abcdefghijklmnop\0"

enum { MOST_KIB = 128 * 1024 };

static struct handle handle;

static int tear_down(void **state)
{
    (void)state;
    lying_server_stop();
    handle_close(&handle);
    return 0;
}

static void hears_from(enum simba_request_kind kind,
                       const struct lying_server *server)
{
    simba_error error;
    char url[64];

    snprintf(url, sizeof url, "//127.0.0.1:%d", lying_server_start(server));
    if (handle_open(&handle, &simba_module, url, &error) != SIMBA_OK) {
        fail_msg("%s", error.message);
    }
    lying_server_expect_failure(&handle, kind, MOST_KIB);
}

static void hears(enum simba_request_kind kind, struct lie first)
{
    const struct lie lies[] = {LIE(WELCOME), first, {NULL, 0}};
    const struct lying_server server = {.lies = lies, .flood = LIE("xxxxxxxx")};

    hears_from(kind, &server);
}

#define LIMITS_TEST(name) TEST_AROUND(name, NULL, tear_down)

LIMITS_TEST(test_limits__answer_of_two_gigabytes)
{
    hears(SIMBA_ACQUIRE, (struct lie)LIE("\177\377\377\377"));
}

LIMITS_TEST(test_limits__answer_of_less_than_nothing)
{
    hears(SIMBA_ACQUIRE, (struct lie)LIE("\377\377\377\377"));
}

LIMITS_TEST(test_limits__list_of_two_gigabytes)
{
    hears(SIMBA_LIST, (struct lie)LIE("\177\377\377\377"));
}

/* The client library would abort the process. */
LIMITS_TEST(test_limits__answer_that_nobody_asked_for)
{
    const struct lie lies[] = {LIE(WELCOME), {NULL, 0}};
    const struct lying_server server = {
        .lies = lies,
        .flood = LIE("\0\0\0\20\0\0\0\7\0\0\0\0\0\0\0\1\0\0\0\0")};

    hears_from(SIMBA_ACQUIRE, &server);
}

LIMITS_TEST(test_limits__answer_without_a_number)
{
    const struct lie lies[] = {LIE(WELCOME), {NULL, 0}};
    const struct lying_server server = {.lies = lies,
                                        .flood = LIE("\0\0\0\1x")};

    hears_from(SIMBA_ACQUIRE, &server);
}

LIMITS_TEST(test_limits__answer_to_something_else)
{
    hears(SIMBA_ACQUIRE,
          (struct lie)LIE("\0\0\0\20\0\0\0\7\0\0\0\0\0\0\0\1\0\0\0\0"));
}

static void expect_no_answer(simba_request *request)
{
    simba_error error;

    assert_int_equal(handle_join(&handle, request, &error), SIMBA_EUNKNOWN);
    if (strstr(error.message, "no answer in time") == NULL) {
        fail_msg("%s", error.message);
    }
}

/* Whoever asks again, or leaves, got no answer: that is what people are told.
 */
LIMITS_TEST(test_limits__who_gives_up_got_no_answer)
{
    const struct lie lies[] = {LIE(WELCOME), {NULL, 0}};
    const struct lying_server server = {.lies = lies};
    simba_request requests[3];
    simba_error error;
    char url[64];

    snprintf(url, sizeof url, "//127.0.0.1:%d", lying_server_start(&server));
    assert_int_equal(handle_open(&handle, &simba_module, url, &error),
                     SIMBA_OK);
    for (int i = 0; i < 3; i++) {
        requests[i] = (simba_request)SIMBA_REQUEST_INIT;
        requests[i].kind = i < 2 ? SIMBA_ACQUIRE : SIMBA_RELEASE;
        requests[i].mutex = "m";
        requests[i].id = "me";
        requests[i].attempt = (simba_attempt){1, 2};
        requests[i].ttl_ms = requests[i].transition_ms = 5000;
        requests[i].deadline_ms = simba_loop_now_ms() + (i < 2 ? 60000 : 100);
        handle_start(&handle, &requests[i]);
    }
    expect_no_answer(&requests[0]);
    expect_no_answer(&requests[1]);
    (void)handle_join(&handle, &requests[2], &error);
}

/* The first answer decides whether there is anything to examine. */
LIMITS_TEST(test_limits__doctor_examines_no_nonsense)
{
    hears(SIMBA_DOCTOR,
          (struct lie)LIE("\0\0\0\20\0\0\0\7\0\0\0\0\0\0\0\1\0\0\0\0"));
    assert_int_equal(told.finding_count, 0);
}
