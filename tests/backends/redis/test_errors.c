/* Bad input: each gets the right code and a message that helps, and what is
 * not ours is left alone. */
#define _GNU_SOURCE
#include "driver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>

static void expect_refusal(const char *url, int code, const char *words)
{
    int rc;

    handle_close(&first);
    rc = try_open(&first, url);
    if (rc != code || strcasestr(why.message, words) == NULL) {
        fail_msg("%s: %d %s", url, rc, why.message);
    }
    assert_null(strstr(why.message, "s3cret")); /* S13 */
}

REDIS_TEST(test_redis_errors__wrong_urls)
{
    expect_refusal("redis:x", SIMBA_EINVAL, "redis://host");
    expect_refusal("redis://h:0", SIMBA_EINVAL, "port");
    expect_refusal("redis://h:99999", SIMBA_EINVAL, "port");
    expect_refusal("redis://h/x", SIMBA_EINVAL, "database");
    expect_refusal("redis://h?colour=red", SIMBA_EINVAL, "colour");
    expect_refusal("redis://h?replicas=-1", SIMBA_EINVAL, "replicas");
    expect_refusal("redis://h?db", SIMBA_EINVAL, "value");
    expect_refusal("redis://u:s3cret%4@h", SIMBA_EINVAL, "escape");
    expect_refusal("redis://:a?s3cret@h", SIMBA_EINVAL, "%3F");
    expect_refusal("redis://:s3cret?a@h", SIMBA_EINVAL, "%3F");
    expect_refusal("redis://user:123?s3cret@h", SIMBA_EINVAL, "%3F");
    expect_refusal("redis://user:123?a=s3cret@h", SIMBA_EINVAL, "%3F");
    expect_refusal("redis://[::1", SIMBA_EINVAL, "address");
    expect_refusal("redis://[::1]x:3", SIMBA_EINVAL, "port");
    expect_refusal("redis+unix:///x?tls=on", SIMBA_EINVAL, "TLS");
    expect_refusal("redis://user@h", SIMBA_EINVAL, "password");
    expect_refusal("redis://h1,h2", SIMBA_EINVAL, "one server");
    expect_refusal("redis://h?ca=/x", SIMBA_EINVAL, "TLS");
    expect_refusal("rediss://h?cert=/x", SIMBA_EINVAL, "key");
    expect_refusal("redis+sentinel://h", SIMBA_EINVAL, "master");
    expect_refusal("redis+cluster://h/3", SIMBA_EINVAL, "database 0");
    expect_refusal("redis+unix://x", SIMBA_EINVAL, "socket");
    expect_refusal("rediss://h?ca=/nonexistent", SIMBA_EMISCONFIG,
                   "/nonexistent");
    expect_refusal("redis://h?password_file=/nonexistent", SIMBA_EMISCONFIG,
                   "/nonexistent");
}

REDIS_TEST(test_redis_errors__password_files)
{
    static const char *const texts[] = {"", "\nright\n", "right\nleft\n"};
    char path[128], url[256];

    snprintf(path, sizeof path, "%s/password", server.directory);
    snprintf(url, sizeof url, "%s%s", redis_url(&server, "?password_file="),
             path);
    for (int i = 0; i < 3; i++) {
        FILE *file = fopen(path, "we");

        fputs(texts[i], file);
        fclose(file);
        chmod(path, 0644);
        expect_refusal(url, SIMBA_EMISCONFIG, "chmod");
        chmod(path, 0640);
        if (i < 2) {
            expect_refusal(url, SIMBA_EMISCONFIG, "empty");
        }
    }
    redis_number(&server, "CONFIG SET requirepass right");
    assert_int_equal(try_open(&first, url), SIMBA_OK);
    server.password = "right";
    redis_number(&server, "CONFIG SET requirepass %s", "");
    server.password = NULL;
    expect_refusal("redis://h?password_file=/tmp", SIMBA_EMISCONFIG,
                   "directory");
}

REDIS_TEST(test_redis_errors__nobody_there)
{
    char url[64];

    snprintf(url, sizeof url, "redis://127.0.0.1:%d", redis_free_port());
    expect_refusal(url, SIMBA_EUNAVAIL, "refused");
    expect_refusal("redis+unix:///nonexistent/socket", SIMBA_EUNAVAIL,
                   "No such file");
    expect_refusal("redis://no.such.host.invalid", SIMBA_EUNAVAIL,
                   "no.such.host");
}

REDIS_TEST(test_redis_errors__wrong_password)
{
    char url[128];

    snprintf(url, sizeof url, "redis://:s3cret@127.0.0.1:%d", server.port);
    expect_refusal(url, SIMBA_EDENIED, "password");
    redis_number(&server, "CONFIG SET requirepass right");
    expect_refusal(url, SIMBA_EDENIED, "wrong");
    expect_refusal(redis_url(&server, ""), SIMBA_EDENIED, "password");
    snprintf(url, sizeof url, "redis://:right@127.0.0.1:%d", server.port);
    assert_int_equal(try_open(&first, url), SIMBA_OK);
    handle_close(&first);
    setenv("SIMBA_REDIS_PASSWORD", "right", 1);
    assert_int_equal(try_open(&first, redis_url(&server, "")), SIMBA_OK);
    unsetenv("SIMBA_REDIS_PASSWORD");
    server.password = "right";
    redis_number(&server, "CONFIG SET requirepass %s", "");
    server.password = NULL;
}

REDIS_TEST(test_redis_errors__wrong_database)
{
    expect_refusal(redis_url(&server, "/99"), SIMBA_EMISCONFIG, "database");
}

REDIS_TEST(test_redis_errors__no_cluster)
{
    char url[64];

    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", server.port);
    expect_refusal(url, SIMBA_EMISCONFIG, "cluster");
}

/* --- not a Redis server -------------------------------------------------- */

static int stranger_fd;
static const char *stranger_says;

static void *be_a_stranger(void *argument)
{
    int fd = accept(stranger_fd, NULL, NULL);
    char words[256];

    (void)argument;
    if (fd >= 0) {
        (void)!read(fd, words, sizeof words);
        (void)!write(fd, stranger_says, strlen(stranger_says));
        (void)!read(fd, words, sizeof words);
        close(fd);
    }
    return NULL;
}

static void expect_stranger(const char *scheme, const char *says, int code)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    pthread_t thread;
    char url[64];

    stranger_says = says;
    stranger_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(stranger_fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(stranger_fd, 5), 0);
    getsockname(stranger_fd, (struct sockaddr *)&at, &size);
    pthread_create(&thread, NULL, be_a_stranger, NULL);
    snprintf(url, sizeof url, "%s://127.0.0.1:%d", scheme, ntohs(at.sin_port));
    expect_refusal(url, code, "redis");
    shutdown(stranger_fd, SHUT_RDWR);
    close(stranger_fd);
    pthread_join(thread, NULL);
}

REDIS_TEST(test_redis_errors__not_a_redis_server)
{
    expect_stranger("redis", "HTTP/1.1 400 Bad Request\r\n\r\n",
                    SIMBA_EMISCONFIG);
    expect_stranger("redis", "+OK\r\n+OK\r\n+OK\r\n", SIMBA_EMISCONFIG);
    expect_stranger("redis", "$4\r\nabcd\r\n", SIMBA_EMISCONFIG);
    expect_stranger("redis", "$999999999999999999999\r\n", SIMBA_EMISCONFIG);
    expect_stranger("redis", "-ERR unknown command\r\n", SIMBA_EMISCONFIG);
    expect_stranger("rediss", "HTTP/1.1 400 Bad Request\r\n\r\n",
                    SIMBA_EMISCONFIG);
    expect_stranger("rediss", "\x16\x03\x03\x7f\x7fxxxxxx", SIMBA_EMISCONFIG);
}

/* It waits for the end of what it takes for a line; and one that asks for a
 * password does not give us PONG. */
REDIS_TEST(test_redis_errors__server_without_tls)
{
    char url[64];

    snprintf(url, sizeof url, "rediss://127.0.0.1:%d", server.port);
    redis_number(&server, "CONFIG SET requirepass right");
    expect_refusal(url, SIMBA_EMISCONFIG, "does not speak TLS");
    server.password = "right";
    redis_number(&server, "CONFIG SET requirepass %s", "");
    server.password = NULL;
}

/* The beginning of TLS and then nothing, as when the network is cut; or not
 * even that. */
REDIS_TEST(test_redis_errors__tls_that_is_cut_is_no_mistake)
{
    expect_stranger("rediss", "\x16\x03\x03", SIMBA_EUNAVAIL);
    expect_stranger("rediss", "", SIMBA_EUNAVAIL);
}

/* As Valkey 9 tells it; Redis says redis_mode. */
REDIS_TEST(test_redis_errors__cluster_is_named)
{
    static const char server_info[] = "redis_version:7.2.4\r\n"
                                      "server_name:valkey\r\n"
                                      "valkey_version:9.1.2\r\n"
                                      "server_mode:cluster\r\n";
    char says[512];

    snprintf(says, sizeof says,
             "$%zu\r\n%s\r\n$11\r\nloading:0\r\n\r\n"
             "$13\r\nrole:master\r\n\r\n",
             strlen(server_info), server_info);
    expect_stranger("redis", says, SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "redis+cluster://"));
}

/* --- refusals of a server that is there ---------------------------------- */

REDIS_TEST(test_redis_errors__foreign_key_is_untouched)
{
    struct who alice = person(&first, "alice");

    must_open(&first);
    redis_number(&server, "RPUSH %s one two", KEY);
    assert_int_equal(try_run(&alice, asking(&alice)), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "WRONGTYPE"));
    assert_int_equal(try_run(&alice, (simba_request){.kind = SIMBA_READ}),
                     SIMBA_EMISCONFIG);
    release(&alice);
    renew(&alice);
    assert_false(got.mine);
    assert_int_equal(redis_number(&server, "LLEN %s", KEY), 2);
    assert_int_equal(redis_number(&server, "PTTL %s", KEY), -1);
}

REDIS_TEST(test_redis_errors__foreign_text_is_an_owner)
{
    struct who alice = person(&first, "alice");

    must_open(&first);
    redis_number(&server, "SET %s somebody", KEY);
    ask(&alice);
    expect_queued(true);
    assert_string_equal(got.owner.id, "somebody");
    assert_true(got.owner.transition_at_ms == INT64_MAX);
}

REDIS_TEST(test_redis_errors__out_of_memory)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first);
    ask(&alice);
    ask(&bob);
    redis_number(&server, "CONFIG SET maxmemory 1");
    assert_int_equal(try_run(&bob, asking(&bob)), SIMBA_EUNAVAIL);
    assert_non_null(strstr(why.message, "OOM"));
    release(&alice); /* what makes room is allowed */
    redis_number(&server, "CONFIG SET maxmemory 0");
    ask(&bob);
    expect_mine(&bob);
}

REDIS_TEST(test_redis_errors__replica_takes_no_writes)
{
    redis_number(&server, "REPLICAOF 127.0.0.1 1");
    expect_refusal(redis_url(&server, ""), SIMBA_EMISCONFIG, "replica");
    redis_number(&server, "REPLICAOF NO ONE");
    must_open(&first);
}

REDIS_TEST(test_redis_errors__demoted_server_is_noticed)
{
    struct who alice = person(&first, "alice");
    simba_request soon = asking(&alice);

    must_open(&first);
    ask(&alice);
    redis_number(&server, "REPLICAOF 127.0.0.1 1");
    soon.deadline_ms = simba_loop_now_ms() + 500;
    assert_int_not_equal(try_run(&alice, soon), SIMBA_OK);
    assert_non_null(strstr(why.message, "replica"));
    redis_number(&server, "REPLICAOF NO ONE");
    await(try_run(&alice, asking(&alice)) == SIMBA_OK);
}

REDIS_TEST(test_redis_errors__missing_permission)
{
    struct who alice = person(&first, "alice");
    char url[128];

    redis_number(&server,
                 "ACL SETUSER poor on >pw +@all ~simba:* resetchannels");
    snprintf(url, sizeof url, "redis://poor:pw@127.0.0.1:%d?restart_grace=0",
             server.port);
    assert_int_equal(try_open(&first, url), SIMBA_OK);
    assert_int_equal(try_run(&alice, asking(&alice)), SIMBA_EDENIED);
    assert_non_null(strstr(why.message, "permission"));
    assert_int_equal(redis_number(&server, "EXISTS %s", KEY), 0);
    handle_close(&first);
    redis_number(&server, "ACL SETUSER poor &simba:* resetkeys ~other:*");
    assert_int_equal(try_open(&first, url), SIMBA_OK);
    assert_int_equal(try_run(&alice, asking(&alice)), SIMBA_EDENIED);
    redis_number(&server, "ACL SETUSER poor allkeys -info");
    expect_refusal(url, SIMBA_EDENIED, "INFO");
}

static const char *finding_of(const char *name, enum simba_gravity gravity)
{
    for (int i = 0; i < told.finding_count; i++) {
        if (strcmp(told.findings[i].name, name) == 0 &&
            told.findings[i].gravity == gravity) {
            return told.findings[i].text;
        }
    }
    return NULL;
}

REDIS_TEST(test_redis_errors__doctor_names_missing_permissions)
{
    struct who nobody = person(&first, "nobody");
    char url[128];
    const char *found;

    redis_number(&server, "ACL SETUSER poor reset on >pw +@all -publish -hdel "
                          "~simba:* resetchannels &simba:*");
    snprintf(url, sizeof url, "redis://poor:pw@127.0.0.1:%d?restart_grace=0",
             server.port);
    assert_int_equal(try_open(&first, url), SIMBA_OK);
    run(&nobody, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    found = finding_of("acl", SIMBA_FINDING_SERIOUS);
    assert_non_null(found);
    assert_non_null(strstr(found, "+hdel +publish"));
    redis_number(&server, "ACL SETUSER poor +publish +hdel");
    memset(&told, 0, sizeof told);
    run(&nobody, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    assert_null(finding_of("acl", SIMBA_FINDING_SERIOUS));
    assert_int_equal(redis_number(&server, "DBSIZE"), 0); /* it left nothing */
}

REDIS_TEST(test_redis_errors__subscribing_may_be_denied)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    char url[128];

    must_open(&first);
    ask(&alice);
    redis_number(&server, "ACL SETUSER deaf on >pw +@all -subscribe ~* &*");
    snprintf(url, sizeof url, "redis://deaf:pw@127.0.0.1:%d?restart_grace=0",
             server.port);
    assert_int_equal(try_open(&second, url), SIMBA_OK);
    assert_int_equal(try_run(&bob, asking(&bob)), SIMBA_EDENIED);
    assert_int_equal(try_run(&bob, asking(&bob)), SIMBA_EDENIED); /* again */
    redis_number(&server, "ACL SETUSER deaf +subscribe");
    ask(&bob);
    expect_queued(true);
}

/* A field of INFO, over a connection that is there already. */
static long long told_by(redisContext *admin, const char *field)
{
    redisReply *reply = redisCommand(admin, "INFO");
    const char *found = strstr(reply->str, field);
    long long number = found == NULL ? -1 : atoll(found + strlen(field));

    freeReplyObject(reply);
    return number;
}

REDIS_TEST(test_redis_errors__too_many_clients)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    redisContext *admin = redisConnect("127.0.0.1", server.port);
    simba_request soon;
    long long before;

    must_open(&first);
    must_open(&second);
    ask(&alice);
    await(told_by(admin, "connected_clients:") == 3);
    freeReplyObject(redisCommand(admin, "CONFIG SET maxclients 3"));
    soon = asking(&bob); /* has to subscribe, by a connection more */
    soon.deadline_ms = simba_loop_now_ms() + 3000;
    assert_int_equal(try_run(&bob, soon), SIMBA_EUNAVAIL);
    assert_non_null(strstr(why.message, "clients"));
    before = told_by(admin, "rejected_connections:");
    redis_nap_ms(1000); /* and does not storm a server that has no room */
    assert_in_range(told_by(admin, "rejected_connections:") - before, 0, 20);
    freeReplyObject(redisCommand(admin, "CONFIG SET maxclients 1000"));
    redisFree(admin);
    ask(&bob);
    expect_queued(true);
}

int main(void)
{
    return run_unit_tests(start_server, remove_server);
}
