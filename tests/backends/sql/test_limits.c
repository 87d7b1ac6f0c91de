/* A server that is mad, or means harm: what it says has no end, and must cost
 * neither time nor memory. */
#define _GNU_SOURCE
#include "fixtures/lying_server.h"
#include "fixtures/sql_server.h"

#include <stdio.h>

#include "fixtures/unit_test.h"

enum { MOST_KIB = 64 * 1024, LONG_KIB = 1024 * 1024 };

#define LIMITS_TEST(name) TEST_AROUND(name, NULL, lying_server_tear_down)

#ifdef SERVER_IS_POSTGRES

#define SERVER_BEGINS false
#define URL           "postgres://u:s3cret@127.0.0.1:%d/d?%s"
#define TLS_OFF       "sslmode=disable"
#define TLS_ON        "sslmode=require"
#define TLS_BEGINS    LIE("S")
#define READY         "Z\0\0\0\5I"
#define PARSED        "1\0\0\0\4"
#define BOUND         "2\0\0\0\4"
#define WELCOME       LIE("R\0\0\0\10\0\0\0\0" READY)
#define SET_UP        LIE(PARSED BOUND "n\0\0\0\4C\0\0\0\15SELECT 0\0" READY)
/* One column, named a. */
#define COLUMN                                                                 \
    "T\0\0\0\32\0\1a\0\0\0\0\0\0\0\0\0\0\31\377\377\377\377\377\377\0\0"
#define ROWS  LIE(PARSED BOUND COLUMN)
#define VALUE LIE(PARSED BOUND COLUMN "D\1\377\377\377\0\1\1\377\377\370")
#define DONE  "C\0\0\0\15SELECT 1\0" READY
#define ROW   "D\0\0\0\12\0\1\377\377\377\377"
#define TEXT  LIE("E\1\377\377\377SERROR\0M")

static struct lie row(void)
{
    return (struct lie)LIE("D\0\0\0\12\0\1\377\377\377\377");
}

#else

#define SERVER_BEGINS true
#define URL           "//u:s3cret@127.0.0.1:%d/d?%s&option_file=/dev/null"
#define TLS_OFF       "tls=off"
#define TLS_ON        "tls=unverified"
/* What it is capable of; 8 is TLS. */
#define GREETING(capable)                                                      \
    LIE("W\0\0\0\n5.5.5-10.11-MariaDB\0\7\0\0\0abcdefgh\0\376" capable         \
        "\10\2\0\377\201\25\0\0\0\0\0\0\35\0\0\0abcdefghijkl\0mysql_native_"   \
        "password\0")
#define TLS_BEGINS GREETING("\377")
#define WELCOME    GREETING("\367"), LIE("\7\0\0\2\0\0\0\2\0\0\0")
#define SET_UP     LIE("\7\0\0\1\0\0\0\2\0\0\0")
#define COLUMN                                                                 \
    "\1\0\0\1\1\30\0\0\2\3def\0\0\0\1a\0\0\14\77\0\0\1\0\0\375\0\0\0\0\0"      \
    "\5\0\0\3\376\0\0\2\0"
#define ROWS  LIE(COLUMN)
#define VALUE LIE(COLUMN "\377\377\377\4")
#define ROW   "\1\0\0\4\373"
#define DONE  "\5\0\0\5\376\0\0\2\0"
#define TEXT  LIE("\377\377\377\1\377\2\4#42000")

/* Packets are counted. */
static struct lie row(void)
{
    static char rows[256][5];

    for (int i = 0; i < 256; i++) {
        memcpy(rows[i], (char[]){1, 0, 0, (char)(i + 4), '\373'}, 5);
    }
    return (struct lie){rows[0], sizeof rows};
}

#endif

/* What follows the handshake, and then goes on and on. */
static void open_to(struct lie first, struct lie flood)
{
    const struct lie lies[] = {WELCOME, SET_UP, first, {NULL, 0}};
    const struct lying_server server = {
        .lies = lies, .begins = SERVER_BEGINS, .flood = flood};
    char url[128];

    snprintf(url, sizeof url, URL, lying_server_start(&server), TLS_OFF);
    lying_server_open_store(SERVER_OPS, url);
}

static void hears(enum simba_request_kind kind,
                  struct lie first,
                  struct lie flood,
                  long most_kib)
{
    open_to(first, flood);
    lying_server_expect_failure(&lied_to, kind, most_kib);
}

LIMITS_TEST(test_sql_limits__rows_without_an_end)
{
    hears(SIMBA_ACQUIRE, (struct lie)ROWS, row(), MOST_KIB);
}

LIMITS_TEST(test_sql_limits__value_without_an_end)
{
    hears(SIMBA_ACQUIRE, (struct lie)VALUE, (struct lie)LIE("xxxxxxxx"),
          MOST_KIB);
}

LIMITS_TEST(test_sql_limits__text_without_an_end)
{
    hears(SIMBA_ACQUIRE, (struct lie)TEXT, (struct lie)LIE("xxxxxxxx"),
          MOST_KIB);
}

/* A list may be long, but not for ever. */
LIMITS_TEST(test_sql_limits__list_without_an_end)
{
    hears(SIMBA_LIST, (struct lie)ROWS, row(), LONG_KIB);
}

/* A list has more columns than one, and each mutex has a name. */
LIMITS_TEST(test_sql_limits__columns_that_are_not_there)
{
    simba_request request = SIMBA_REQUEST_INIT;
    simba_error error;

#ifdef SERVER_IS_POSTGRES
    open_to((struct lie)LIE(PARSED BOUND COLUMN ROW DONE), (struct lie){0});
#else
    open_to((struct lie)LIE(COLUMN ROW DONE), (struct lie){0});
#endif
    request.kind = SIMBA_LIST;
    request.mutex = "";
    request.deadline_ms = simba_loop_now_ms() + 1000;
    told.mutex_count = 0;
    assert_int_equal(handle_run(&lied_to, &request, &error), SIMBA_OK);
    assert_int_equal(told.mutex_count, 0);
}

#ifndef SERVER_IS_POSTGRES
/* More parameters than the statement has. */
LIMITS_TEST(test_sql_limits__parameters_that_are_not_there)
{
    hears(SIMBA_ACQUIRE,
          (struct lie)LIE("\14\0\0\1\0\1\0\0\0\0\0\377\377\0\0\0"
                          "\30\0\0\2\3def\0\0\0\1?\0\0\14\77\0\0\0\0\0\6\200"
                          "\0\0\0\0\5\0\0\3\376\0\0\2\0"),
          (struct lie){0}, MOST_KIB);
}
#endif

/* --- TLS ------------------------------------------------------------------ */

static void expect_end(const char *tls,
                       const struct lying_server *server,
                       int code,
                       const char *words)
{
    simba_request request = SIMBA_REQUEST_INIT;
    simba_error error = {0};
    char url[128];
    int status;

    snprintf(url, sizeof url, URL, lying_server_start(server), tls);
    lying_server_open_store(SERVER_OPS, url);
    request.kind = SIMBA_READ;
    request.mutex = "m";
    request.deadline_ms = simba_loop_now_ms() + 5000;
    status = handle_run(&lied_to, &request, &error);
    if (status != code || strstr(error.message, words) == NULL) {
        fail_msg("%d: %s", status, error.message);
    }
}

LIMITS_TEST(test_sql_limits__other_words_in_place_of_tls)
{
    static const struct lie lies[] = {
        TLS_BEGINS, LIE("HTTP/1.1 400 No\r\n"), {NULL, 0}};
    const struct lying_server server = {.lies = lies, .begins = SERVER_BEGINS};

    expect_end(TLS_ON, &server, SIMBA_EMISCONFIG, "does without TLS");
}

/* What is cut may be whole the next time. */
LIMITS_TEST(test_sql_limits__tls_that_is_cut_is_no_mistake)
{
    static const struct lie lies[] = {
        TLS_BEGINS, LIE("\26\3\3\0\172\2\0\0"), {NULL, 0}};
    const struct lying_server server = {
        .lies = lies, .begins = SERVER_BEGINS, .hangs_up = true};

    expect_end(TLS_ON, &server, SIMBA_EUNAVAIL, "");
}

#ifdef SERVER_IS_POSTGRES
LIMITS_TEST(test_sql_limits__answer_to_tls_that_is_none)
{
    static const struct lie lies[] = {LIE("HTTP/1.1 400 No\r\n"), {NULL, 0}};
    const struct lying_server server = {.lies = lies};

    expect_end(TLS_ON, &server, SIMBA_EMISCONFIG, "does without TLS");
}

/* It knows before it goes anywhere, and waiting does not mend it. */
LIMITS_TEST(test_sql_limits__what_the_library_refuses_is_a_mistake)
{
    static const char *const parameters[] = {
        "sslmode=bogus", "target_session_attrs=x", "keepalives=x", "service=x",
        "hostaddr=127.0.0.1,127.0.0.2"};
    static const struct lie lies[] = {{NULL, 0}};
    const struct lying_server server = {.lies = lies};

    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
        expect_end(parameters[i], &server, SIMBA_EMISCONFIG, "");
        lying_server_tear_down(NULL);
    }
}

LIMITS_TEST(test_sql_limits__another_kind_of_server_is_a_mistake)
{
    static const struct lie lies[] = {LIE("HTTP/1.1 400 No\r\n"), {NULL, 0}};
    const struct lying_server server = {.lies = lies};

    expect_end(TLS_OFF, &server, SIMBA_EMISCONFIG, "");
}
#else
/* Whoever listens on a port of this machine could ask for it. */
LIMITS_TEST(test_sql_limits__password_is_not_given_in_clear)
{
    static const struct lie plugins[] = {
        LIE("\26\0\0\2\376mysql_clear_password\0"),
        LIE("\10\0\0\2\376dialog\0")};

    for (int i = 0; i < 2; i++) {
        const struct lie lies[] = {GREETING("\367"),
                                   plugins[i],
                                   LIE("\7\0\0\4\0\0\0\2\0\0\0"),
                                   {NULL, 0}};
        const struct lying_server server = {.lies = lies, .begins = true};

        expect_end(TLS_OFF, &server, SIMBA_EMISCONFIG, "tls=on");
        lying_server_tear_down(NULL);
    }
}

/* It would send the password in clear, as if there were TLS. */
LIMITS_TEST(test_sql_limits__server_without_tls_gets_no_password)
{
    static const struct lie lies[] = {
        LIE("W\0\0\0\n5.5.5-10.11-MariaDB\0\7\0\0\0abcdefgh\0\376\367"
            "\10\2\0\377\201\25\0\0\0\0\0\0\35\0\0\0abcdefghijkl\0caching_"
            "sha2_password\0"),
        LIE("\2\0\0\2\1\4"), /* all of it is needed */
        {NULL, 0}};
    const struct lying_server server = {.lies = lies, .begins = true};

    expect_end(TLS_ON, &server, SIMBA_EMISCONFIG, "does without TLS");
}

/* The library goes on without, unless it is to verify. */
LIMITS_TEST(test_sql_limits__server_without_tls_is_not_taken)
{
    static const struct lie lies[] = {WELCOME, SET_UP, {NULL, 0}};
    const struct lying_server server = {.lies = lies, .begins = true};

    expect_end(TLS_ON, &server, SIMBA_EMISCONFIG, "does without TLS");
}

/* The library takes it for a report of progress, and looks which server this
 * is before anybody has told it. */
LIMITS_TEST(test_sql_limits__progress_in_place_of_a_greeting)
{
    static const struct lie lies[] = {
        LIE("\14\0\0\0\377\377\377\1\1\1\0\0\0\0\1x"), {NULL, 0}};
    const struct lying_server server = {.lies = lies, .begins = true};

    expect_end(TLS_OFF, &server, SIMBA_EUNAVAIL, "");
}
#endif
