#define _GNU_SOURCE
#include "kit/connection_driver.h"

#include "fixtures/directory.h"
#include "kit/tls.h"

#include <dlfcn.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <sys/wait.h>

/* --- sending and replies ------------------------------------------------- */

TEST(test_connection__greets_and_then_sends_what_waited)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask first, second, before;

    prepare(&before, "before", 0);
    client.in_ready = &before;
    client_open(&client);
    submit(&client, &first, "first");
    submit(&client, &second, "second");
    fd = admit(listener);
    expect(fd, "hello\n");
    assert_int_equal(client.readies, 0);
    say(fd, "welcome\n");
    expect(fd, "before\nfirst\nsecond\n");
    say(fd, "0\n1\n2\n");
    await(second.status == SIMBA_OK);
    assert_string_equal(before.reply, "0");
    assert_string_equal(first.reply, "1");
    assert_string_equal(second.reply, "2");
    assert_int_equal(client.readies, 1);
    client_close(&client);
    expect_hang_up(fd);
    close(listener);
}

TEST(test_connection__sends_at_once_what_is_written_in_one_entry)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask asks[8];
    char bytes[256];

    client_open(&client);
    fd = admit_greeted(listener);
    await(client.readies == 1);
    simba_loop_enter(client.loop);
    for (int i = 0; i < 8; i++) {
        prepare(&asks[i], "line", 0);
        simba_connection_submit(client.connection, &asks[i].exchange);
    }
    assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT), -1);
    simba_loop_leave(client.loop);
    assert_int_equal(recv(fd, bytes, sizeof bytes, 0), 8 * 5);
    client_close(&client);
    close(fd);
    close(listener);
}

TEST(test_connection__puts_pieces_of_replies_together)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask first, second;

    client_open(&client);
    fd = admit(listener);
    for (const char *c = "welcome\n"; *c != '\0'; c++) {
        say(fd, (char[]){*c, '\0'});
        nap_ms(1);
    }
    submit(&client, &first, "a");
    submit(&client, &second, "b");
    expect(fd, "hello\na\nb\n");
    say(fd, "one\ntw");
    await(first.status == SIMBA_OK);
    assert_int_equal(second.status, OPEN);
    say(fd, "o\n");
    await(second.status == SIMBA_OK);
    assert_string_equal(second.reply, "two");
    client_close(&client);
    close(fd);
    close(listener);
}

TEST(test_connection__finds_by_tag_in_any_order)
{
    struct client client = {.by_tag = true};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask asks[3];

    client_open(&client);
    fd = admit(listener);
    simba_loop_enter(client.loop);
    for (uint64_t i = 0; i < 3; i++) {
        prepare(&asks[i], "x", 0);
        asks[i].exchange.tag = i;
        simba_connection_submit(client.connection, &asks[i].exchange);
    }
    simba_exchange_cancel(&asks[1].exchange);
    simba_exchange_cancel(&asks[1].exchange); /* does no harm */
    simba_loop_leave(client.loop);
    say(fd, "2 c\n1 b\n9 z\n0 a\n");
    await(asks[0].status == SIMBA_OK);
    assert_string_equal(asks[2].reply, "2 c");
    assert_int_equal(asks[1].status, OPEN);
    client_close(&client);
    assert_int_equal(asks[1].status, OPEN);
    close(fd);
    close(listener);
}

TEST(test_connection__reply_that_nobody_awaits_is_up_to_the_store)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;

    client_open(&client);
    fd = admit_greeted(listener);
    say(fd, "surprise\n");
    await(client.downs == 1);
    assert_int_equal(client.why.code, SIMBA_EMISCONFIG);
    assert_int_equal(client.why.native, 7);
    assert_non_null(strstr(client.why.message, "nobody asked for surprise"));
    client_close(&client);
    close(fd);
    close(listener);
}

/* --- deadlines ----------------------------------------------------------- */

TEST(test_connection__deadline_of_what_was_not_sent_tells_why)
{
    struct client client = {0};
    struct ask ask;

    close(listen_on(&client.hosts[0])); /* nobody listens there */
    client_open(&client);
    prepare(&ask, "late", 100);
    inside(&client, simba_connection_submit(client.connection, &ask.exchange));
    await(ask.status != OPEN);
    assert_int_equal(ask.status, SIMBA_EUNAVAIL);
    assert_non_null(strstr(ask.error.message, "lines 127.0.0.1:"));
    assert_non_null(strstr(ask.error.message, "refused"));
    assert_int_equal(ask.sends, 0);
    client_close(&client);
}

TEST(test_connection__late_reply_is_dropped_and_the_next_one_is_not)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask late, later, next;

    client_open(&client);
    fd = admit_greeted(listener);
    await(client.readies == 1);
    prepare(&late, "late", 20);
    prepare(&later, "later", 40);
    simba_loop_enter(client.loop);
    simba_connection_submit(client.connection, &late.exchange);
    simba_connection_submit(client.connection, &later.exchange);
    simba_loop_leave(client.loop);
    await(later.status != OPEN);
    assert_int_equal(late.status, SIMBA_EUNKNOWN);
    assert_int_equal(later.status, SIMBA_EUNKNOWN);
    assert_non_null(strstr(late.error.message, "no answer in time"));
    submit(&client, &next, "next");
    say(fd, "too late\nthis too\nin time\n");
    await(next.status == SIMBA_OK);
    assert_string_equal(next.reply, "in time");
    assert_int_equal(client.downs, 0);
    client_close(&client);
    close(fd);
    close(listener);
}

/* --- breaks -------------------------------------------------------------- */

TEST(test_connection__break_fails_what_was_sent_and_keeps_the_rest)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask sent, written, unsent;

    client_open(&client);
    fd = admit_greeted(listener);
    submit(&client, &sent, "sent");
    expect(fd, "sent\n");
    prepare(&written, "written", 0);
    prepare(&unsent, "unsent", 0);
    simba_loop_enter(client.loop);
    simba_connection_submit(client.connection, &written.exchange);
    simba_connection_break(client.connection, SIMBA_EUNAVAIL, 0, "a %s",
                           "whim");
    simba_connection_submit(client.connection, &unsent.exchange);
    simba_loop_leave(client.loop);
    assert_int_equal(sent.status, SIMBA_EUNKNOWN);
    assert_non_null(strstr(sent.error.message, ": a whim"));
    expect_hang_up(fd);
    fd = admit_greeted(listener);
    expect(fd, "written\nunsent\n");
    say(fd, "1\n2\n");
    await(unsent.status == SIMBA_OK);
    assert_string_equal(written.reply, "1");
    assert_int_equal(written.sends, 2);
    assert_int_equal(sent.sends, 1);
    assert_int_equal(client.loop->metrics.reconnects, 1);
    client_close(&client);
    close(fd);
    close(listener);
}

static bool break_and_send(simba_exchange *e, simba_connection *c)
{
    struct ask *ask = (struct ask *)e;

    if (ask->sends == 0) {
        simba_connection_break(c, SIMBA_EUNAVAIL, 0, "not like this");
    }
    return send_ask(e, c);
}

TEST(test_connection__order_is_kept_over_a_break)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask first, second;

    client_open(&client);
    prepare(&first, "first", 0);
    prepare(&second, "second", 0);
    first.exchange.send = break_and_send;
    inside(&client, {
        simba_connection_submit(client.connection, &first.exchange);
        simba_connection_submit(client.connection, &second.exchange);
    });
    expect_hang_up(admit_greeted(listener));
    fd = admit_greeted(listener);
    expect(fd, "first\nsecond\n");
    assert_int_equal(first.sends, 2);
    client_close(&client);
    close(fd);
    close(listener);
}

static void fail_and_submit_again(simba_exchange *e,
                                  int status,
                                  const simba_error *error)
{
    struct ask *ask = (struct ask *)e;

    (void)error;
    if (status == SIMBA_EUNKNOWN) {
        simba_connection_submit((simba_connection *)(uintptr_t)e->tag, e);
    } else {
        ask->status = status;
    }
}

TEST(test_connection__failed_one_can_be_submitted_again_from_within)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask ask;

    client_open(&client);
    fd = admit_greeted(listener);
    prepare(&ask, "again", 0);
    ask.exchange.failed = fail_and_submit_again;
    ask.exchange.tag = (uintptr_t)client.connection;
    inside(&client, simba_connection_submit(client.connection, &ask.exchange));
    expect(fd, "again\n");
    close(fd);
    fd = admit_greeted(listener);
    expect(fd, "again\n");
    say(fd, "at last\n");
    await(ask.status == SIMBA_OK);
    client_close(&client);
    close(fd);
    close(listener);
}

TEST(test_connection__greeting_is_sent_before_it_is_ready_and_fails_with_it)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask ask;

    client_open(&client);
    fd = admit(listener);
    expect(fd, "hello\n");
    prepare(&ask, "who are you", 0);
    ask.exchange.is_greeting = true;
    inside(&client, simba_connection_submit(client.connection, &ask.exchange));
    expect(fd, "who are you\n");
    close(fd);
    await(ask.status == SIMBA_EUNKNOWN);

    /* The next server is greeted anew. */
    fd = admit(listener);
    expect(fd, "hello\n");
    prepare(&ask, "and you", 0);
    ask.exchange.is_greeting = true;
    simba_loop_enter(client.loop);
    simba_connection_submit(client.connection, &ask.exchange);
    simba_connection_break(client.connection, SIMBA_EDENIED, 0, "go away");
    assert_int_equal(ask.status, SIMBA_EDENIED);
    simba_loop_leave(client.loop);
    client_close(&client);
    close(fd);
    close(listener);
}

/* --- other servers ------------------------------------------------------- */

TEST(test_connection__goes_on_to_the_next_server)
{
    struct client client = {.greets = true, .config.host_count = 3};
    int mute, listener, fd;
    struct ask ask;

    client.config.come_up_ms = 300;
    close(listen_on(&client.hosts[0]));
    mute = listen_on(&client.hosts[1]);
    listener = listen_on(&client.hosts[2]);
    client_open(&client);
    submit(&client, &ask, "anybody?");
    fd = admit_greeted(listener); /* when the others have failed */
    expect(fd, "anybody?\n");
    assert_int_equal(client.downs, 2);
    assert_non_null(strstr(client.why.message, "no answer within 100 ms"));
    inside(&client,
           assert_int_equal(simba_connection_host_index(client.connection), 2));
    client_close(&client);
    close(fd);
    close(mute);
    close(listener);
}

TEST(test_connection__pauses_grow_with_failures)
{
    struct client client = {0};
    int64_t first, last;

    client.config.pause_first_ms = 4;
    client.config.pause_most_ms = 64;
    close(listen_on(&client.hosts[0]));
    client_open(&client);
    await(client.downs >= 7);
    first = client.down_at_ms[1] - client.down_at_ms[0];
    last = client.down_at_ms[6] - client.down_at_ms[5];
    assert_true(first >= 3 && last >= 63 && last >= first);
    client_close(&client);
}

TEST(test_connection__pauses_grow_also_if_it_breaks_when_it_is_ready)
{
    struct client client = {0};
    int listener = listen_on(&client.hosts[0]);
    int64_t begun;

    client_open(&client);
    begun = now_ms();
    for (int i = 0; i < 5; i++) {
        close(admit(listener));
        await(client.downs == i + 1);
    }
    assert_true(now_ms() - begun >= 10 + 20 + 40 + 80);
    client_close(&client);
    close(listener);
}

TEST(test_connection__silent_server_is_left_when_a_reply_is_due)
{
    struct client client = {.greets = true, .config.host_count = 2};
    int listener = listen_on(&client.hosts[0]), fd;
    int other = listen_on(&client.hosts[1]);
    struct ask ask, brief, slow[3];

    client.config.silence_ms = 300;
    client_open(&client);
    fd = admit_greeted(listener);
    for (int i = 0; i < 3; i++) {
        submit(&client, &slow[i], "slow");
        expect(fd, "slow\n");
    }
    for (int i = 0; i < 3; i++) {
        nap_ms(110);
        say(fd, "sorry\n");
    }
    await(slow[2].status == SIMBA_OK);
    nap_ms(310); /* nothing is due */
    assert_int_equal(client.downs, 0);
    prepare(&brief, "brief", 10);
    prepare(&ask, "mute?", 0);
    inside(&client, {
        simba_connection_submit(client.connection, &brief.exchange);
        simba_connection_submit(client.connection, &ask.exchange);
    });
    await(ask.status != OPEN);
    assert_int_equal(ask.status, SIMBA_EUNKNOWN);
    assert_non_null(strstr(ask.error.message, "silent for"));
    expect(fd, "brief\nmute?\n");
    expect_hang_up(fd);
    close(admit_greeted(other));
    client_close(&client);
    close(listener);
    close(other);
}

TEST(test_connection__await_tells_when_it_is_ready_or_hopeless)
{
    struct client client = {.greets = true, .config.host_count = 2};
    struct client hopeless = {.config.host_count = 2};
    int listener, fd;
    simba_error error;

    close(listen_on(&client.hosts[0]));
    listener = listen_on(&client.hosts[1]);
    client_open(&client);
    assert_int_equal(
        simba_connection_await(client.connection, now_ms() + 30, &error),
        SIMBA_EUNAVAIL);
    fd = admit_greeted(listener);
    assert_int_equal(
        simba_connection_await(client.connection, now_ms() + 9000, &error),
        SIMBA_OK);
    client_close(&client);
    close(fd);
    close(listener);

    close(listen_on(&hopeless.hosts[0]));
    close(listen_on(&hopeless.hosts[1]));
    client_open(&hopeless);
    assert_int_equal(
        simba_connection_await(hopeless.connection, now_ms() + 9000, &error),
        SIMBA_EUNAVAIL);
    assert_non_null(strstr(error.message, "refused"));
    assert_int_equal(hopeless.downs, 2);
    client_close(&hopeless);
}

/* A name with two addresses, and nobody is at the first. */
static int dead_port;

int getaddrinfo(const char *host,
                const char *port,
                const struct addrinfo *wanted,
                struct addrinfo **list)
{
    static const char two[] = "two.invalid";
    int (*real)(const char *, const char *, const struct addrinfo *,
                struct addrinfo **);
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
    char dead[16];
    int rc;

    memcpy(&real, &symbol, sizeof real);
    if (strcmp(host, two) != 0 || (wanted->ai_flags & AI_NUMERICHOST) != 0) {
        return real(host, port, wanted, list);
    }
    snprintf(dead, sizeof dead, "%d", dead_port);
    rc = real("127.0.0.1", dead, wanted, list);
    return rc == 0 ? real("127.0.0.1", port, wanted, &(*list)->ai_next) : rc;
}

TEST(test_connection__names_are_looked_up)
{
    struct client client = {.greets = true, .config.host_count = 2};
    int listener = listen_on(&client.hosts[1]), fd;

    client.hosts[0] = (simba_connection_host){"nowhere.invalid", 1};
    client.hosts[1].name = "localhost"; /* also ::1, where nobody is */
    client_open(&client);
    fd = admit_greeted(listener);
    await(client.readies == 1);
    assert_non_null(strstr(client.why.message, "nowhere.invalid:1"));
    inside(&client,
           assert_non_null(strstr(simba_connection_where(client.connection),
                                  "localhost:")));
    client_close(&client);
    close(fd);
    close(listener);
}

TEST(test_connection__tries_all_addresses_of_a_name)
{
    struct client client = {.greets = true};
    int listener, fd;

    close(listen_on(&client.hosts[0]));
    dead_port = client.hosts[0].port;
    listener = listen_on(&client.hosts[0]);
    client.hosts[0].name = "two.invalid";
    client_open(&client);
    fd = admit_greeted(listener);
    await(client.readies == 1);
    assert_int_equal(client.downs, 0);
    client_close(&client);
    close(fd);
    close(listener);
}

TEST(test_connection__path_is_a_unix_socket)
{
    struct client client = {.greets = true};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

    client.hosts[0].name = in_directory("socket");
    snprintf(address.sun_path, sizeof address.sun_path, "%s",
             client.hosts[0].name);
    assert_int_equal(
        bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 8), 0);
    client_open(&client);
    fd = admit_greeted(listener);
    await(client.readies == 1);
    client_close(&client);
    close(fd);
    close(listener);
}

/* --- limits -------------------------------------------------------------- */

TEST(test_connection__flood_is_refused)
{
    struct client client = {.greets = true, .config.input_most = 1000};
    int listener = listen_on(&client.hosts[0]), fd;
    char flood[4096];

    memset(flood, 'x', sizeof flood);
    client_open(&client);
    fd = admit_greeted(listener);
    while (client.downs == 0) {
        if (send(fd, flood, sizeof flood, MSG_NOSIGNAL) < 0) {
            await(client.downs > 0);
        }
    }
    assert_int_equal(client.why.code, SIMBA_EMISCONFIG);
    assert_non_null(strstr(client.why.message, "more than 1000 bytes"));
    client_close(&client);
    close(fd);
    close(listener);
}

TEST(test_connection__what_has_no_room_fails_as_not_sent)
{
    struct client client = {.greets = true, .config.output_most = 20};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask fits, large, after, broken;

    client_open(&client);
    fd = admit_greeted(listener);
    await(client.readies == 1);
    prepare(&fits, "it fits", 0);
    prepare(&large, "it does not fit in", 0);
    prepare(&after, "this does", 0);
    prepare(&broken, "", 0);
    simba_loop_enter(client.loop);
    simba_connection_submit(client.connection, &fits.exchange);
    simba_connection_submit(client.connection, &large.exchange);
    simba_connection_submit(client.connection, &broken.exchange);
    simba_connection_submit(client.connection, &after.exchange);
    assert_int_equal(large.status, OPEN); /* not from within */
    simba_loop_leave(client.loop);
    assert_int_equal(large.status, SIMBA_EUNAVAIL);
    assert_int_equal(broken.status, SIMBA_ENOMEM);
    expect(fd, "it fits\nthis does\n");
    say(fd, "1\n2\n");
    await(after.status == SIMBA_OK);
    assert_string_equal(after.reply, "2");
    /* Elsewhere a connection that lacks bytes is broken. */
    inside(&client, assert_false(simba_connection_write(
                        client.connection, "more than twenty bytes", 22)));
    assert_int_equal(client.downs, 1);
    client_close(&client);
    close(fd);
    close(listener);
}

/* --- TLS ----------------------------------------------------------------- */

static SSL *accept_tls(int listener, int *fd)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    SSL *ssl;

    assert_int_equal(
        SSL_CTX_use_certificate_chain_file(context, in_directory("server.pem")),
        1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(
                         context, in_directory("server.key"), SSL_FILETYPE_PEM),
                     1);
    ssl = SSL_new(context);
    SSL_CTX_free(context);
    *fd = admit(listener);
    SSL_set_fd(ssl, *fd);
    return ssl;
}

static simba__tls_context *use_tls(struct client *client, const char *ca)
{
    struct simba__tls_settings settings = SIMBA__TLS_DEFAULTS;
    simba__tls_context *context;
    simba_error error;

    settings.is_on = true;
    settings.ca = in_directory(ca);
    assert_int_equal(
        simba__tls_context_open(&settings, "lines", &context, &error),
        SIMBA_OK);
    client->config.filter = &simba__tls_filter;
    client->config.filter_context = context;
    return context;
}

TEST(test_connection__speaks_tls)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    simba__tls_context *context = use_tls(&client, "ca.pem");
    struct ask ask;
    char bytes[64] = "";
    SSL *ssl;

    client_open(&client);
    ssl = accept_tls(listener, &fd);
    assert_int_equal(SSL_accept(ssl), 1);
    assert_int_equal(SSL_read(ssl, bytes, sizeof bytes), 6);
    assert_string_equal(bytes, "hello\n");
    assert_int_equal(SSL_write(ssl, "welcome\n", 8), 8);
    submit(&client, &ask, "secret");
    assert_int_equal(SSL_read(ssl, bytes, sizeof bytes), 7);
    assert_int_equal(SSL_write(ssl, "it is\n", 6), 6);
    await(ask.status == SIMBA_OK);
    SSL_shutdown(ssl);
    await(client.downs == 1);
    assert_non_null(strstr(client.why.message, "closed the connection"));
    client_close(&client);
    SSL_free(ssl);
    simba__tls_context_close(context);
    close(fd);
    close(listener);
}

TEST(test_connection__certificate_that_is_not_trusted_is_refused)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    simba__tls_context *context = use_tls(&client, "other.pem");
    simba_error error;
    SSL *ssl;

    client_open(&client);
    ssl = accept_tls(listener, &fd);
    SSL_accept(ssl);
    assert_int_equal(
        simba_connection_await(client.connection, now_ms() + 9000, &error),
        SIMBA_EMISCONFIG);
    assert_non_null(strstr(error.message, "certificate is not trusted"));
    client_close(&client);
    SSL_free(ssl);
    close(fd);

    /* Nor does one that speaks no TLS get anything. */
    client = (struct client){.greets = true};
    close(listener);
    listener = listen_on(&client.hosts[0]);
    client.config.filter = &simba__tls_filter;
    client.config.filter_context = context;
    client_open(&client);
    fd = admit(listener);
    say(fd, "welcome, whoever you are\n");
    await(client.downs == 1);
    assert_non_null(strstr(client.why.message, "does not speak TLS"));
    client_close(&client);
    simba__tls_context_close(context);
    close(fd);
    close(listener);
}

/* --- callers that drive -------------------------------------------------- */

static void drive_one(struct client *client, int fd, bool has_pushes)
{
    struct ask ask;

    prepare(&ask, "mine", 0);
    ask.exchange.is_driven = true;
    inside(client, simba_connection_submit(client->connection, &ask.exchange));
    expect(fd, "mine\n");
    say(fd, "yours\n");
    nap_ms(20);
    assert_int_equal(ask.status, OPEN); /* the loop leaves it alone */
    while (ask.status == OPEN) {
        assert_true(
            simba_connection_drive(client->connection, NULL, now_ms() + 9000));
    }
    assert_true(pthread_equal(client->reader, pthread_self()));
    if (has_pushes) { /* which are read also while nothing is due */
        assert_true(
            simba_connection_drive(client->connection, NULL, now_ms() + 1));
    }
    assert_false(simba_connection_drive(client->connection, NULL, 0));
    if (has_pushes) { /* the loop reads again */
        say(fd, "!push\n");
        await(client->pushes == 1);
    }
}

TEST(test_connection__caller_that_drives_reads_its_reply_itself)
{
    for (int has_pushes = 0; has_pushes < 2; has_pushes++) {
        struct client client = {.greets = true,
                                .config.has_pushes = has_pushes == 1};
        int listener = listen_on(&client.hosts[0]), fd;
        struct ask first, second;

        client_open(&client);
        fd = admit_greeted(listener);
        await(client.readies == 1);
        drive_one(&client, fd, has_pushes == 1);

        /* What overlaps is read by the loop. */
        submit(&client, &first, "other");
        prepare(&second, "mine", 0);
        second.exchange.is_driven = true;
        inside(&client,
               simba_connection_submit(client.connection, &second.exchange));
        assert_false(
            simba_connection_drive(client.connection, NULL, now_ms() + 9000));
        expect(fd, "other\nmine\n");
        say(fd, "1\n2\n");
        await(second.status == SIMBA_OK);
        client_close(&client);
        close(fd);
        close(listener);
    }
}

TEST(test_connection__driver_sees_the_end_of_the_connection)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask ask;

    client_open(&client);
    fd = admit_greeted(listener);
    await(client.readies == 1);
    prepare(&ask, "mine", 0);
    ask.exchange.is_driven = true;
    inside(&client, simba_connection_submit(client.connection, &ask.exchange));
    expect(fd, "mine\n");
    close(fd);
    while (simba_connection_drive(client.connection, NULL, now_ms() + 20)) {
    }
    await(ask.status == SIMBA_EUNKNOWN);
    client_close(&client);
    close(listener);
}

/* --- the end ------------------------------------------------------------- */

TEST(test_connection__close_fails_what_is_open)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask sent, written, never;

    client_open(&client);
    fd = admit_greeted(listener);
    submit(&client, &sent, "sent");
    expect(fd, "sent\n");
    prepare(&written, "written", 0);
    prepare(&never, "", 0);
    simba_loop_enter(client.loop);
    simba_connection_submit(client.connection, &written.exchange);
    simba_connection_submit(client.connection, &never.exchange);
    simba_connection_close(client.connection);
    client.is_closed = true;
    assert_int_equal(sent.status, SIMBA_EUNKNOWN);
    assert_int_equal(written.status, SIMBA_EUNAVAIL);
    assert_int_equal(never.status, SIMBA_ENOMEM);
    simba_loop_leave(client.loop);
    assert_int_equal(client.downs, 0);
    expect_hang_up(fd);
    client_close(&client);
    close(listener);
}

TEST(test_connection__store_may_close_it_from_within)
{
    struct client client = {.greets = true, .closes_on = "bye"};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask ask;

    client_open(&client);
    fd = admit_greeted(listener);
    submit(&client, &ask, "go on");
    expect(fd, "go on\n");
    say(fd, "bye\nand more\n");
    await(client.is_closed);
    await(ask.status == SIMBA_EUNKNOWN);
    client_close(&client);
    close(fd);
    close(listener);
}

TEST(test_connection__forked_child_closes_its_copy_only)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd, status;
    struct ask ask;
    pid_t child;

    client_open(&client);
    fd = admit_greeted(listener);
    await(client.readies == 1);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int before = dup(fd), after;

        close(before);
        simba_connection_forked(client.connection);
        simba_connection_forked(client.connection); /* does no harm */
        after = dup(fd);
        _exit(after < before ? 0 : 1); /* a descriptor has become free */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    submit(&client, &ask, "still there?");
    expect(fd, "still there?\n");
    say(fd, "yes\n");
    await(ask.status == SIMBA_OK);
    assert_int_equal(client.downs, 0);
    client_close(&client);
    close(fd);
    close(listener);
}

TEST(test_connection__what_is_no_config_is_refused)
{
    simba_connection_host host = {"localhost", 1};
    simba_connection_config config = {.size = sizeof config,
                                      .store = "lines",
                                      .hosts = &host,
                                      .received = received};
    simba_connection *connection;
    simba_error error;

    /* There is no loop. */
    assert_int_equal(simba_connection_open(&config, &connection, &error),
                     SIMBA_EMISUSE);
    assert_null(connection);
    simba_connection_close(NULL);
    simba_connection_forked(NULL);
}

static int set_up(void **state)
{
    char command[512];

    if (make_directory(state) != 0) {
        return 1;
    }
    snprintf(command, sizeof command, "'%s' '%s'", MAKE_CERTIFICATES,
             directory);
    return system(command);
}

int main(void)
{
    return run_unit_tests(set_up, remove_directory);
}
