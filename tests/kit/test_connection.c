#define _GNU_SOURCE
#include "kit/connection_driver.h"

#include "fixtures/directory.h"
#include "kit/tls.h"

#include <dlfcn.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

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

static void count_message(void *count,
                          enum simba_log_level level,
                          const char *component,
                          const char *message)
{
    (void)level, (void)component, (void)message;
    ++*(_Atomic int *)count;
}

/* What fails says so already, and once is enough. */
TEST(test_connection__warns_of_a_server_that_was_there)
{
    _Atomic int messages = 0;
    struct client client = {
        .config = {.log = count_message, .log_user = &messages}};
    simba_connection_host *host = &client.hosts[0];
    int listener = listen_on(host);

    close(listener);
    client_open(&client);
    await(client.downs >= 2);
    assert_int_equal(messages, 0);
    client_close(&client);
    listener = listen_on(host);
    client_open(&client);
    close(admit(listener));
    await(messages == 1);
    client_close(&client);
    close(listener);
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

static void aim(void *self, simba_connection *c)
{
    struct client *client = self;

    if (client->pushes++ > 0) { /* the second time it knows better */
        simba_connection_aim(c, &client->hosts[1]);
    }
}

TEST(test_connection__store_may_say_where_to)
{
    struct client client = {.greets = true, .config.aim = aim};
    simba_connection_host told;
    int listener, fd;

    close(listen_on(&client.hosts[0]));
    listener = listen_on(&client.hosts[1]);
    client_open(&client);
    await(client.pushes == 1);
    close(listen_on(&told));
    inside(&client, {
        simba_connection_aim(client.connection, &told);
        simba_connection_aim(client.connection, &told); /* it tries already */
    });
    fd = admit_greeted(listener);
    await(client.readies == 1);
    assert_int_equal(client.downs, 1);
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

static int waiting_bytes(int fd)
{
    int count = 0;

    assert_int_equal(ioctl(fd, FIONREAD, &count), 0);
    return count;
}

TEST(test_connection__certificate_that_is_not_trusted_is_refused)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    simba__tls_context *context = use_tls(&client, "other.pem");
    SSL *ssl;

    client_open(&client);
    ssl = accept_tls(listener, &fd);
    SSL_accept(ssl);
    await(client.downs == 1);
    assert_int_equal(client.why.code, SIMBA_EMISCONFIG);
    assert_non_null(strstr(client.why.message, "certificate is not trusted"));
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
    close(fd);

    /* One that hangs up may not either, but who knows. */
    client = (struct client){.greets = true};
    close(listener);
    listener = listen_on(&client.hosts[0]);
    client.config.filter = &simba__tls_filter;
    client.config.filter_context = context;
    client_open(&client);
    fd = admit(listener);
    await(waiting_bytes(fd) > 0);
    shutdown(fd, SHUT_RDWR);
    await(client.downs >= 1);
    assert_int_equal(client.why.code, SIMBA_EUNAVAIL);
    assert_non_null(strstr(client.why.message, "does it speak TLS?"));
    client_close(&client);
    simba__tls_context_close(context);
    close(fd);
    close(listener);
}

/* It speaks TLS, and so refuses what it was sent meanwhile in case it does not.
 * The next time it may be in time. */
TEST(test_connection__who_is_slow_to_speak_tls_refuses_nothing)
{
    struct client client = {.greets = true,
                            .config = {.come_up_ms = 100, .bare_size = 65536}};
    int listener = listen_on(&client.hosts[0]), fd;
    simba__tls_context *context = use_tls(&client, "ca.pem");
    SSL *ssl;

    client_open(&client);
    ssl = accept_tls(listener, &fd);
    await(waiting_bytes(fd) > 10000);
    assert_true(SSL_accept(ssl) <= 0);
    await(client.downs >= 1);
    if (client.why.code != SIMBA_EUNAVAIL) {
        fail_msg("%s", client.why.message);
    }
    client_close(&client);
    SSL_free(ssl);
    simba__tls_context_close(context);
    close(fd);
    close(listener);
}

/* --- the end ------------------------------------------------------------- */

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
