/* gRPC with a server that says what it should not; the test plays it. */
#define _GNU_SOURCE
#include "rpc_driver.h"

#include "core/rng.h"
#include "fixtures/free_port.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, GOAWAY = 7 };
enum { END_STREAM = 1, END_HEADERS = 4 };
enum { REFUSED = 7, INTERNAL = 2 };

static struct client client;
static struct ask ask;
static int listener = -1, server = -1;

/* --- the server ---------------------------------------------------------- */

static void add_frame(struct simba__text *out,
                      int type,
                      int flags,
                      int32_t id,
                      simba__pb_bytes payload)
{
    size_t length = payload.length;
    char header[9] = {
        (char)(length >> 16), (char)(length >> 8), (char)length,
        (char)type,           (char)flags,         (char)(id >> 24),
        (char)(id >> 16),     (char)(id >> 8),     (char)id};

    simba__text_add(out, header, sizeof header);
    simba__text_add(out, payload.at, length);
}

/* "name value name value …" as headers that nobody is to remember. */
static void add_headers(struct simba__text *out,
                        int flags,
                        int32_t id,
                        const char *words)
{
    struct simba__text block = {0};
    char copy[256], *rest = copy;
    char length[2] = {0};
    bool is_name = true;

    snprintf(copy, sizeof copy, "%s", words);
    for (char *word; (word = strsep(&rest, "|")) != NULL; is_name = !is_name) {
        length[1] = (char)strlen(word);
        simba__text_add(&block, is_name ? length : length + 1, is_name ? 2 : 1);
        simba__text_put(&block, word);
    }
    add_frame(out, HEADERS, flags | END_HEADERS, id,
              (simba__pb_bytes){block.bytes, block.length});
    simba__text_fini(&block);
}

static void add_code(struct simba__text *out, int type, int32_t id, int code)
{
    char payload[8] = {0};
    size_t size = type == GOAWAY ? 8 : 4;

    payload[size - 1] = (char)code;
    add_frame(out, type, 0, type == GOAWAY ? 0 : id,
              (simba__pb_bytes){payload, size});
}

static void add_message(struct simba__text *out, int32_t id, const char *digits)
{
    char bytes[64];
    size_t length = 0;

    for (; *digits != '\0'; digits += 2) {
        bytes[length++] = (char)(simba__text_hex(digits[0]) << 4 |
                                 simba__text_hex(digits[1]));
    }
    add_frame(out, DATA, 0, id, (simba__pb_bytes){bytes, length});
}

#define OK_HEADERS ":status|200|content-type|application/grpc"

/* A transaction has succeeded at revision 300. */
static void add_good_answer(struct simba__text *out, int32_t id)
{
    add_headers(out, 0, id, OK_HEADERS);
    add_message(out, id, "00000000070a0318ac021001");
    add_headers(out, END_STREAM, id, "grpc-status|0|grpc-message|");
}

static void tell(struct simba__text *out)
{
    (void)!send(server, out->bytes, out->length, MSG_NOSIGNAL);
    simba__text_fini(out);
}

static int patience_ms = 5000;

static void accept_client(void)
{
    struct timeval patience = {patience_ms / 1000, patience_ms % 1000 * 1000};

    if (server >= 0) {
        close(server);
    }
    server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(server >= 0);
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

static void greet_client(void)
{
    struct simba__text out = {0};

    add_frame(&out, SETTINGS, 0, 0, (simba__pb_bytes){"", 0});
    tell(&out);
}

static bool read_whole(void *room, size_t size)
{
    return size == 0 || recv(server, room, size, MSG_WAITALL) == (ssize_t)size;
}

static int opened; /* streams, since it was set */

/* The stream of the next request that has come whole; 0: none comes. */
static int32_t await_request(bool is_new)
{
    unsigned char header[9], rest[65536];
    size_t length;

    if (is_new && !read_whole(rest, 24)) { /* PRI * HTTP/2.0 … */
        return 0;
    }
    while (read_whole(header, sizeof header)) {
        length = (size_t)header[0] << 16 | (size_t)header[1] << 8 | header[2];
        if (length > sizeof rest || !read_whole(rest, length)) {
            return 0;
        }
        opened += header[3] == HEADERS;
        if (header[3] == DATA) {
            return header[7] << 8 | header[8];
        }
    }
    return 0;
}

/* --- set-up -------------------------------------------------------------- */

static int open_client(void **state)
{
    int port = free_port(&listener);

    (void)state;
    assert_true(port > 0 && listen(listener, 8) == 0);
    memset(&client, 0, sizeof client);
    client.hosts[0] = (simba_connection_host){"127.0.0.1", port};
    client.config.host_count = 1;
    client.config.pause_most_ms = client.config.pause_first_ms = 1;
    client_open(&client);
    return 0;
}

static int close_client(void **state)
{
    (void)state;
    client_close(&client);
    close(server);
    close(listener);
    server = listener = -1;
    return 0;
}

static void submit(void)
{
    begin(&ask, TXN);
    inside(&client, simba__rpc_submit(&client.grpc, &ask.rpc));
}

/* A request is on its way, and its stream is the server's to answer. */
static int32_t start(void)
{
    submit();
    accept_client();
    greet_client();
    return await_request(true);
}

static void expect(int status, const char *words)
{
    finish(&client, &ask);
    if (ask.status != status || strstr(ask.error.message, words) == NULL) {
        fail_msg("%d %s, not %d %s", ask.status, ask.error.message, status,
                 words);
    }
}

#define LIE_TEST(name) TEST_AROUND(name, open_client, close_client)

/* --- unknown ------------------------------------------------------------- */

LIE_TEST(test_grpc__answer_is_understood)
{
    struct simba__text out = {0};

    add_good_answer(&out, start());
    tell(&out);
    expect(SIMBA_OK, "");
    assert_int_equal(ask.revision, 300);
    assert_true(ask.fields.number[2] == 1);
}

/* What is sent and badly answered is unknown. */
LIE_TEST(test_grpc__bad_answers_are_unknown)
{
    static const struct {
        const char *headers, *message, *trailers, *words;
    } lies[] = {
        {OK_HEADERS, "000000000708ff", "grpc-status|0", ""}, /* cut */
        {OK_HEADERS, "0000000002ffff", "grpc-status|0", ""}, /* no message */
        {OK_HEADERS, "01000000021001", "grpc-status|0", ""}, /* compressed */
        {OK_HEADERS, "00ffffffff1001", "grpc-status|0", ""}, /* endless */
        {OK_HEADERS, "", "grpc-status|0", ""},
        {OK_HEADERS, "00000000021001", "other|0", ""},
        {OK_HEADERS, "00000000021001", "grpc-status|x", ""},
        {OK_HEADERS, "00000000021001", "grpc-status|-1", ""},
        {":status|503", "00000000021001", "grpc-status|0", ""},
        {OK_HEADERS, "",
         "grpc-status|14|grpc-message|etcdserver: leader changed",
         "leader changed"},
        {OK_HEADERS, "",
         "grpc-status|14|grpc-message|etcdserver: request timed out",
         "timed out"},
        {OK_HEADERS, "",
         "grpc-status|8|grpc-message|etcdserver: mvcc: database space exceeded",
         "space exceeded"},
        {OK_HEADERS, "", "grpc-status|13|grpc-message|etcdserver: no leader",
         "no leader"}, /* by another code than etcd's */
        {OK_HEADERS, "", "grpc-status|777", ""},
    };

    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct simba__text out = {0};
        int32_t id;

        submit();
        if (i == 0) {
            accept_client();
            greet_client();
        }
        id = await_request(i == 0);
        add_headers(&out, 0, id, lies[i].headers);
        if (lies[i].message[0] != '\0') {
            add_message(&out, id, lies[i].message);
        }
        add_headers(&out, END_STREAM, id, lies[i].trailers);
        tell(&out);
        expect(SIMBA_EUNKNOWN, lies[i].words);
    }
    assert_int_equal(client.downs, 0);
}

LIE_TEST(test_grpc__reset_and_hang_up_are_unknown)
{
    struct simba__text out = {0};

    add_code(&out, RST_STREAM, start(), INTERNAL);
    tell(&out);
    expect(SIMBA_EUNKNOWN, "no answer");
    submit();
    assert_true(await_request(false) > 0);
    shutdown(server, SHUT_RDWR);
    expect(SIMBA_EUNKNOWN, "etcd 127.0.0.1:");
}

LIE_TEST(test_grpc__silence_ends_at_the_deadline)
{
    char byte;

    begin(&ask, TXN);
    ask.rpc.exchange.deadline_ms = now_ms() + 50;
    inside(&client, simba__rpc_submit(&client.grpc, &ask.rpc));
    accept_client();
    greet_client();
    assert_int_equal(await_request(true), 1);
    expect(SIMBA_EUNKNOWN, "no answer in time");
    /* The server is told that nobody waits: a frame, RST_STREAM. */
    assert_true(recv(server, &byte, 1, 0) == 1);
}

/* --- surely nothing ------------------------------------------------------ */

/* The next server, here the same one, is asked. */
LIE_TEST(test_grpc__what_was_not_looked_at_is_sent_again)
{
    static const char *const trailers[] = {
        "grpc-status|14|grpc-message|etcdserver: no leader",
        "grpc-status|16|grpc-message|etcdserver: invalid auth token",
        "grpc-status|2|grpc-message|raft proposal dropped",
    };
    struct simba__text out = {0};
    int32_t id = start();

    for (size_t i = 0; i < 5; i++) {
        if (i == 3) {
            add_code(&out, RST_STREAM, id, REFUSED);
        } else if (i == 4) {
            add_code(&out, GOAWAY, id, 0); /* it has looked at none */
        } else {
            add_headers(&out, 0, id, OK_HEADERS);
            add_headers(&out, END_STREAM, id, trailers[i]);
        }
        tell(&out);
        accept_client();
        greet_client();
        id = await_request(true);
        assert_int_equal(id, 1);
        assert_int_equal(ask.status, OPEN);
    }
    add_good_answer(&out, id);
    tell(&out);
    expect(SIMBA_OK, "");
    assert_int_equal(client.downs, 5);
}

LIE_TEST(test_grpc__no_leader_is_told_at_the_deadline)
{
    struct simba__text out = {0};
    int32_t id;

    begin(&ask, TXN);
    ask.rpc.exchange.deadline_ms = now_ms() + 300;
    inside(&client, simba__rpc_submit(&client.grpc, &ask.rpc));
    accept_client();
    greet_client();
    id = await_request(true);
    close(listener); /* and then it is gone */
    listener = -1;
    add_headers(&out, 0, id, OK_HEADERS);
    add_headers(&out, END_STREAM, id,
                "grpc-status|14|grpc-message|etcdserver: no leader");
    tell(&out);
    expect(SIMBA_EUNAVAIL, "etcd 127.0.0.1:");
}

LIE_TEST(test_grpc__what_is_no_http_2_is_refused)
{
    struct simba__text out = {0};

    begin(&ask, TXN);
    ask.rpc.exchange.deadline_ms = now_ms() + 300;
    inside(&client, simba__rpc_submit(&client.grpc, &ask.rpc));
    accept_client();
    simba__text_put(&out, "HTTP/1.1 400 Bad Request\r\n\r\n");
    tell(&out);
    assert_non_null(
        strstr(why_down(&client)->message, "does not speak HTTP/2"));
    accept_client();
    close(listener);
    listener = -1;
    shutdown(server, SHUT_RDWR);
    expect(SIMBA_EUNAVAIL, "etcd 127.0.0.1:");
    assert_int_equal(client.readies, 0);
}

/* What a server said of one request is not what became of another. */
LIE_TEST(test_grpc__status_of_one_request_is_not_of_another)
{
    struct simba__text out = {0};
    struct ask other;
    int32_t id = start();

    begin(&other, TXN);
    other.rpc.exchange.deadline_ms = now_ms() + 200;
    inside(&client, simba__rpc_submit(&client.grpc, &other.rpc));
    assert_true(await_request(false) > id);
    add_headers(&out, 0, id, OK_HEADERS);
    add_headers(&out, END_STREAM, id,
                "grpc-status|8|grpc-message|etcdserver: too many requests");
    tell(&out);
    finish(&client, &other);
    assert_int_equal(other.status, SIMBA_EUNKNOWN);
    assert_int_equal(other.error.native, 0);
    accept_client();
    greet_client();
    add_good_answer(&out, await_request(true));
    tell(&out);
    expect(SIMBA_OK, "");
}

/* Whoever has ended it may have freed it, and it is still to be sent. */
LIE_TEST(test_grpc__what_nobody_awaits_is_not_sent)
{
    struct simba__text out = {0};
    struct ask other;

    add_good_answer(&out, start());
    tell(&out);
    expect(SIMBA_OK, "");
    opened = 0;
    begin(&other, TXN);
    begin(&ask, TXN);
    inside(&client, {
        simba__rpc_submit(&client.grpc, &other.rpc);
        simba__rpc_fini(&other.rpc);
        simba__rpc_submit(&client.grpc, &ask.rpc);
    });
    add_good_answer(&out, await_request(false));
    tell(&out);
    expect(SIMBA_OK, "");
    assert_int_equal(opened, 1);
}

/* --- anything ------------------------------------------------------------ */

static void submit_again(simba__rpc *rpc, int status, const simba_error *error)
{
    struct ask *self = (struct ask *)rpc;

    (void)status;
    (void)error;
    self->messages++;
    if (self->messages < 1000) {
        simba__rpc_begin(rpc);
        simba__rpc_submit(&client.grpc, rpc);
    }
}

/* Garbled answers: nothing breaks but connections, and each is made again. */
LIE_TEST(test_grpc__garbled_answers_do_no_harm)
{
    struct simba__rng rng = {{1, 2, 3, 4}};

    patience_ms = 20; /* some answers leave the client waiting for more */
    begin(&ask, TXN);
    ask.rpc.done = submit_again;
    ask.rpc.exchange.deadline_ms = 0;
    inside(&client, simba__rpc_submit(&client.grpc, &ask.rpc));
    for (int i = 0; i < 200; i++) {
        struct simba__text out = {0};
        int32_t id;

        accept_client();
        greet_client();
        id = await_request(true);
        for (int j = 0; j < 5 && id > 0; j++) {
            add_good_answer(&out, id);
            for (int k = 0; k < j; k++) {
                out.bytes[simba__rng_below(&rng, out.length)] =
                    (char)simba__rng_next(&rng);
            }
            tell(&out);
            if (j < 2) {
                id = await_request(false);
            }
        }
        shutdown(server, SHUT_WR);
    }
    assert_true(ask.messages > 0);
    inside(&client, simba__rpc_fini(&ask.rpc));
}

TEST(test_grpc__outcome_is_unknown_unless_etcd_says_otherwise)
{
    assert_int_equal(simba__grpc_outcome(1, "etcdserver: request canceled"),
                     SIMBA_EUNKNOWN);
    assert_int_equal(simba__grpc_outcome(14, "etcdserver: server stopped"),
                     SIMBA_EUNKNOWN);
    assert_int_equal(simba__grpc_outcome(14, ""), SIMBA_EUNKNOWN);
    assert_int_equal(simba__grpc_outcome(2, "anything"), SIMBA_EUNKNOWN);
    assert_int_equal(simba__grpc_outcome(15, "etcdserver: corrupt cluster"),
                     SIMBA_EUNKNOWN);
    assert_int_equal(simba__grpc_outcome(7, "etcdserver: permission denied"),
                     SIMBA_EDENIED);
    assert_int_equal(
        simba__grpc_outcome(3, "etcdserver: too many operations in txn "
                               "request"),
        SIMBA_EMISCONFIG);
    assert_int_equal(simba__grpc_outcome(3, "etcdserver: user name is empty"),
                     SIMBA_EDENIED);
    assert_int_equal(
        simba__grpc_outcome(5, "etcdserver: requested lease not found"),
        SIMBA_EUNAVAIL);
    assert_int_equal(
        simba__grpc_outcome(9, "etcdserver: rpc not supported for learner"),
        SIMBA__GRPC_ELSEWHERE);
    assert_int_equal(simba__grpc_outcome(8, "etcdserver: too many requests"),
                     SIMBA__GRPC_ELSEWHERE);
}
