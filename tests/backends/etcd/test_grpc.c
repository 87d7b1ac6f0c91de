/* gRPC with a real etcd, which with_etcd has started: plain or with TLS, with
 * users or without. */
#define _GNU_SOURCE
#include "rpc_driver.h"

#include "kit/tls.h"

#include <stdio.h>

static struct client client;
static simba__tls_context *tls;
static bool has_users, has_tls;
static const char *control;

/* --- set-up -------------------------------------------------------------- */

static void read_hosts(void)
{
    static char hosts[256];
    char *rest = hosts;

    snprintf(hosts, sizeof hosts, "%s", getenv("SIMBA_SERVER_HOSTS"));
    client.config.host_count = 0;
    for (char *host; (host = strsep(&rest, ",")) != NULL;) {
        client.hosts[client.config.host_count].name = strsep(&host, ":");
        client.hosts[client.config.host_count++].port = atoi(host);
    }
}

static void read_certificates(const char *authority, bool is_verified)
{
    static char files[3][256];
    const char *const names[] = {authority, "client.pem", "client.key"};
    struct simba__tls_settings settings = {.is_on = true,
                                           .is_verified = is_verified,
                                           .ca = files[0],
                                           .cert = files[1],
                                           .key = files[2],
                                           .protocol = "h2"};
    simba_error error;

    for (int i = 0; i < 3; i++) {
        snprintf(files[i], sizeof files[i], "%s/%s", getenv("SIMBA_SERVER_DIR"),
                 names[i]);
    }
    simba__tls_context_close(tls);
    assert_int_equal(simba__tls_context_open(&settings, "etcd", &tls, &error),
                     SIMBA_OK);
    client.config.filter = &simba__tls_filter;
    client.config.filter_context = tls;
}

static int open_client(void **state)
{
    (void)state;
    memset(&client, 0, sizeof client);
    read_hosts();
    if (has_tls) {
        read_certificates("ca.pem", true);
    }
    if (has_users) {
        client.grpc.user = "simba";
        client.grpc.password = "secret";
    }
    client_open(&client);
    return 0;
}

static int close_client(void **state)
{
    (void)state;
    client_close(&client);
    return 0;
}

#define GRPC_TEST(name) TEST_AROUND(name, open_client, close_client)

/* --- requests ------------------------------------------------------------ */

enum { IF = 1, THEN, ELSE }; /* fields of a transaction */

static void add_put(struct simba__text *txn,
                    int branch,
                    const char *key,
                    const char *value,
                    int64_t lease)
{
    size_t op = simba__pb_begin(txn, branch), began = simba__pb_begin(txn, 2);

    simba__pb_text(txn, 1, key);
    simba__pb_text(txn, 2, value);
    simba__pb_number(txn, 3, lease);
    simba__pb_end(txn, began);
    simba__pb_end(txn, op);
}

/* A range, 1, or a deletion, 3. */
static void add_key(struct simba__text *txn,
                    int branch,
                    int kind,
                    const char *key)
{
    size_t op = simba__pb_begin(txn, branch),
           began = simba__pb_begin(txn, kind);

    simba__pb_text(txn, 1, key);
    simba__pb_end(txn, began);
    simba__pb_end(txn, op);
}

static void add_get(struct simba__text *txn, int branch, const char *key)
{
    add_key(txn, branch, 1, key);
}

/* Its create revision is 0. */
static void add_absent(struct simba__text *txn, const char *key)
{
    size_t began = simba__pb_begin(txn, IF);

    simba__pb_number(txn, 2, 1);
    simba__pb_text(txn, 3, key);
    simba__pb_end(txn, began);
}

/* Whether it succeeded, and the value of what it got. */
static void look_txn(struct ask *ask)
{
    simba__pb_bytes rest = ask->rpc.reply, response, range, item;

    ask->flag = ask->fields.number[2] != 0;
    while (simba__pb_next(&rest, 3, &response)) {
        range = simba__pb_read(response).bytes[1];
        if (simba__pb_next(&range, 2, &item)) {
            simba__pb_fields kv = simba__pb_read(item);

            snprintf(ask->text, sizeof ask->text, "%.*s",
                     (int)kv.bytes[5].length, kv.bytes[5].at);
            ask->number = kv.number[2];
        }
    }
}

static int put(const char *key, const char *value, int64_t lease)
{
    struct ask ask;

    add_put(begin(&ask, TXN), THEN, key, value, lease);
    return run(&client, &ask);
}

static int64_t grant(int64_t ttl)
{
    struct ask ask;

    simba__pb_number(begin(&ask, SIMBA__ETCD_METHOD("Lease/LeaseGrant")), 1,
                     ttl);
    assert_int_equal(run(&client, &ask), SIMBA_OK);
    assert_true(ask.fields.number[3] >= ttl);
    return ask.fields.number[2];
}

GRPC_TEST(test_grpc__transaction_decides_and_answers)
{
    struct ask ask;
    struct simba__text *txn;

    for (int i = 0; i < 2; i++) {
        txn = begin(&ask, TXN);
        ask.look = look_txn;
        add_absent(txn, "simba/txn");
        add_put(txn, THEN, "simba/txn", i == 0 ? "one" : "two", 0);
        add_get(txn, ELSE, "simba/txn");
        assert_int_equal(run(&client, &ask), SIMBA_OK);
        assert_true(ask.revision > 1);
        assert_int_equal(ask.flag, i == 0);
        assert_string_equal(ask.text, i == 0 ? "" : "one");
    }
}

GRPC_TEST(test_grpc__hundred_requests_at_a_time)
{
    static struct ask asks[100];
    char key[32];

    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "simba/many/%d", i);
        add_put(begin(&asks[i], TXN), THEN, key, key, 0);
        inside(&client, simba__rpc_submit(&client.grpc, &asks[i].rpc));
    }
    for (int i = 0; i < 100; i++) {
        finish(&client, &asks[i]);
        assert_int_equal(asks[i].status, SIMBA_OK);
    }
}

/* More than any window or frame, both ways. */
GRPC_TEST(test_grpc__long_values_pass)
{
    static char value[1200001];
    struct ask ask;

    memset(value, 'x', sizeof value - 1);
    assert_int_equal(put("simba/long", value, 0), SIMBA_OK);
    for (int i = 0; i < 3; i++) {
        add_get(begin(&ask, TXN), THEN, "simba/long");
        ask.look = look_txn;
        assert_int_equal(run(&client, &ask), SIMBA_OK);
        assert_int_equal(strlen(ask.text), sizeof ask.text - 1);
    }
}

GRPC_TEST(test_grpc__lease_takes_its_keys_along)
{
    struct ask ask;
    int64_t lease = grant(60);

    assert_int_equal(put("simba/leased", "x", lease), SIMBA_OK);
    simba__pb_number(begin(&ask, SIMBA__ETCD_METHOD("Lease/LeaseTimeToLive")),
                     1, lease);
    assert_int_equal(run(&client, &ask), SIMBA_OK);
    assert_int_equal(ask.fields.number[4], 60);
    simba__pb_number(begin(&ask, SIMBA__ETCD_METHOD("Lease/LeaseRevoke")), 1,
                     lease);
    assert_int_equal(run(&client, &ask), SIMBA_OK);
    add_get(begin(&ask, TXN), THEN, "simba/leased");
    ask.look = look_txn;
    assert_int_equal(run(&client, &ask), SIMBA_OK);
    assert_string_equal(ask.text, "");
    /* Now it is not there: surely nothing was done. */
    assert_int_equal(put("simba/leased", "x", lease), SIMBA_EUNAVAIL);
}

GRPC_TEST(test_grpc__keep_alive_is_a_stream)
{
    struct ask ask;
    int64_t lease = grant(60);

    simba__pb_number(begin(&ask, SIMBA__ETCD_METHOD("Lease/LeaseKeepAlive")), 1,
                     lease);
    ask.rpc.is_stream = true;
    for (int i = 1; i <= 3; i++) {
        if (i > 1) {
            inside(&client,
                   simba__pb_number(simba__rpc_begin(&ask.rpc), 1, lease));
        }
        inside(&client, assert_true(simba__rpc_send(&client.grpc, &ask.rpc)));
        await(ask.messages == i);
        assert_int_equal(ask.fields.number[3], 60);
    }
    inside(&client, simba__rpc_fini(&ask.rpc));
}

/* --- watches ------------------------------------------------------------- */

/* Puts, deletions, and what the watch itself has to say. */
static void look_watch(struct ask *ask)
{
    simba__pb_bytes rest = ask->rpc.reply, event;

    if (ask->fields.number[3] != 0 || ask->fields.number[4] != 0) {
        ask->number = ask->fields.number[5];
        strcat(ask->text, ask->fields.number[3] != 0 ? "+" : "-");
    }
    while (simba__pb_next(&rest, 11, &event)) {
        simba__pb_fields fields = simba__pb_read(event);
        simba__pb_bytes value = simba__pb_read(fields.bytes[2]).bytes[5];
        size_t length = strlen(ask->text);

        snprintf(ask->text + length, sizeof ask->text - length, "%s%.*s ",
                 fields.number[1] == 0 ? "put " : "del ", (int)value.length,
                 value.length == 0 ? "" : value.at);
    }
}

static void start_watch(struct ask *ask, const char *key, int64_t revision)
{
    struct simba__text *text = begin(ask, SIMBA__ETCD_METHOD("Watch/Watch"));
    size_t began = simba__pb_begin(text, 1);

    simba__pb_text(text, 1, key);
    simba__pb_number(text, 3, revision);
    simba__pb_end(text, began);
    ask->rpc.is_stream = true;
    ask->look = look_watch;
    await(client.readies > 0);
    inside(&client, assert_true(simba__rpc_send(&client.grpc, &ask->rpc)));
    await(ask->messages > 0);
}

GRPC_TEST(test_grpc__watch_tells_of_changes)
{
    struct ask watch, ask;
    struct simba__text *text;

    start_watch(&watch, "simba/w", 0);
    assert_int_equal(put("simba/w", "1", 0), SIMBA_OK);
    add_key(begin(&ask, TXN), THEN, 3, "simba/w");
    assert_int_equal(run(&client, &ask), SIMBA_OK);
    await(watch.messages == 3);
    assert_string_equal(watch.text, "+put 1 del  ");
    inside(&client, {
        text = simba__rpc_begin(&watch.rpc);
        simba__pb_end(text, simba__pb_begin(text, 2)); /* id 0 */
        assert_true(simba__rpc_send(&client.grpc, &watch.rpc));
    });
    await(watch.messages == 4);
    assert_string_equal(watch.text, "+put 1 del  -");
    inside(&client, simba__rpc_fini(&watch.rpc));
}

GRPC_TEST(test_grpc__compacted_watch_is_told)
{
    struct ask watch, ask;
    char command[64];

    assert_int_equal(put("simba/c", "1", 0), SIMBA_OK);
    add_put(begin(&ask, TXN), THEN, "simba/c", "2", 0);
    assert_int_equal(run(&client, &ask), SIMBA_OK);
    snprintf(command, sizeof command, "etcdctl compact %d >/dev/null 2>&1",
             (int)ask.revision);
    assert_int_equal(system(command), 0);
    start_watch(&watch, "simba/c", 1);
    await(watch.messages == 2);
    assert_string_equal(watch.text, "+-");
    assert_true(watch.number > 1);
    inside(&client, simba__rpc_fini(&watch.rpc));
}

/* --- what the doctor asks ------------------------------------------------ */

GRPC_TEST(test_grpc__server_tells_of_itself)
{
    static const char *const methods[] = {
        SIMBA__ETCD_METHOD("Maintenance/Status"),
        SIMBA__ETCD_METHOD("Cluster/MemberList"),
        SIMBA__ETCD_METHOD("Maintenance/Alarm")};
    struct ask ask;

    for (int i = 0; i < 3; i++) {
        begin(&ask, methods[i]);
        ask.rpc.is_leaderless = true;
        if (run(&client, &ask) == SIMBA_EDENIED && has_users) {
            continue; /* for root only, in newer versions */
        }
        assert_int_equal(ask.status, SIMBA_OK);
        if (i == 0) {
            assert_true(ask.fields.number[4] != 0); /* the leader */
        } else if (i == 1) {
            assert_int_equal(ask.fields.count[2], client.config.host_count);
        }
    }
}

/* --- refusals ------------------------------------------------------------ */

GRPC_TEST(test_grpc__nonsense_is_refused)
{
    struct ask ask;

    assert_int_equal(put("", "x", 0), SIMBA_EMISCONFIG);
    add_put(begin(&ask, TXN), THEN, "simba/x", "1", 0);
    add_put(&ask.rpc.output, THEN, "simba/x", "2", 0);
    assert_int_equal(run(&client, &ask), SIMBA_EMISCONFIG);
    assert_non_null(strstr(ask.error.message, "duplicate key"));
    assert_int_equal(ask.error.native, 3);
}

GRPC_TEST(test_grpc__users_are_held_to_their_rights)
{
    if (!has_users) {
        skip();
    }
    assert_int_equal(put("other", "x", 0), SIMBA_EDENIED);
    assert_int_equal(put("simba/mine", "x", 0), SIMBA_OK);
}

static void expect_down(int code, const char *words)
{
    const simba_error *why;
    struct ask ask;

    client_open(&client);
    why = why_down(&client);
    if (why->code != code || strstr(why->message, words) == NULL) {
        fail_msg("%d %s", why->code, why->message);
    }
    assert_null(strstr(why->message, "wrong"));
    begin(&ask, TXN);
    ask.rpc.exchange.deadline_ms = now_ms() + 20;
    assert_int_equal(run(&client, &ask), code);
}

GRPC_TEST(test_grpc__wrong_password_is_denied)
{
    close_client(NULL);
    memset(&client, 0, sizeof client);
    read_hosts();
    if (has_tls) {
        read_certificates("ca.pem", true);
    }
    client.grpc.user = "simba";
    client.grpc.password = "wrong";
    if (has_users) {
        expect_down(SIMBA_EDENIED, "authentication failed");
    } else { /* nobody asks */
        client_open(&client);
        assert_int_equal(put("simba/x", "x", 0), SIMBA_OK);
    }
}

GRPC_TEST(test_grpc__stranger_is_denied)
{
    if (!has_users || has_tls) { /* a certificate names a user, too */
        skip();
    }
    close_client(NULL);
    memset(&client, 0, sizeof client);
    read_hosts();
    client_open(&client);
    assert_int_equal(put("simba/x", "x", 0), SIMBA_EDENIED);
}

GRPC_TEST(test_grpc__other_authority_is_refused)
{
    if (!has_tls) {
        skip();
    }
    close_client(NULL);
    memset(&client, 0, sizeof client);
    read_hosts();
    read_certificates("other.pem", true);
    expect_down(SIMBA_EMISCONFIG, "certificate is not trusted");
}

GRPC_TEST(test_grpc__plain_and_tls_do_not_mix)
{
    if (!has_tls) {
        skip();
    }
    close_client(NULL);
    memset(&client, 0, sizeof client);
    read_hosts();
    client_open(&client);
    await(client.downs > 0);
    assert_int_equal(client.readies, 0);
}

/* --- servers that come and go -------------------------------------------- */

static void control_server(const char *what, int member)
{
    char command[256];

    snprintf(command, sizeof command, "%s %s %d", control, what, member);
    assert_int_equal(system(command), 0);
}

/* A server that is started again knows no tokens, and its streams have ended.
 */
GRPC_TEST(test_grpc__restart_is_survived)
{
    static struct ask watch;
    int rc;

    start_watch(&watch, "simba/r", 0);
    for (size_t i = 1; i <= client.config.host_count; i++) {
        control_server("--stop", (int)i);
        control_server("--start", (int)i);
        /* Sent before the end of the old one was noticed, it is unknown. */
        await((rc = put("simba/r", "x", 0)) != SIMBA_EUNKNOWN);
        assert_int_equal(rc, SIMBA_OK);
    }
    assert_true(client.readies > 1);
    watch.text[0] = '\0';
    inside(&client, {
        struct simba__text *text = simba__rpc_begin(&watch.rpc);
        size_t began = simba__pb_begin(text, 1);

        simba__pb_text(text, 1, "simba/r");
        simba__pb_end(text, began);
        assert_true(simba__rpc_send(&client.grpc, &watch.rpc));
    });
    await(watch.text[0] != '\0'); /* one, and nothing of the old one's */
    assert_int_equal(put("simba/r", "y", 0), SIMBA_OK);
    await(strstr(watch.text, "put y ") != NULL);
    assert_string_equal(watch.text, "+put y ");
    inside(&client, simba__rpc_fini(&watch.rpc));
}

/* A token that the server does not know is asked for once more, and nobody
 * notices. */
GRPC_TEST(test_grpc__invalid_token_is_renewed)
{
    if (!has_users) {
        skip();
    }
    assert_int_equal(put("simba/t", "x", 0), SIMBA_OK);
    inside(&client, memset(client.grpc.token, 'x', 4));
    assert_int_equal(put("simba/t", "y", 0), SIMBA_OK);
    assert_int_equal(client.downs, 1);
    assert_non_null(strstr(why_down(&client)->message, "invalid auth token"));
}

/* Without a quorum a member has no leader, and the deadline says why. */
GRPC_TEST(test_grpc__no_leader_is_not_sent)
{
    struct ask ask;

    if (client.config.host_count == 1) {
        skip();
    }
    control_server("--stop", 2);
    control_server("--stop", 3);
    do { /* until it has noticed, nobody knows */
        add_put(begin(&ask, TXN), THEN, "simba/n", "y", 0);
        ask.rpc.exchange.deadline_ms = now_ms() + 300;
    } while (run(&client, &ask) != SIMBA_EUNAVAIL);
    if (!has_users) { /* whom nobody can authenticate now */
        begin(&ask, SIMBA__ETCD_METHOD("Maintenance/Status"));
        ask.rpc.is_leaderless = true;
        assert_int_equal(run(&client, &ask), SIMBA_OK);
        assert_int_equal(ask.fields.number[4], 0);
    }
    control_server("--start", 2);
    control_server("--start", 3);
    await(put("simba/n", "z", 0) == SIMBA_OK);
}

int main(void)
{
    int rc;

    has_tls = getenv("SIMBA_SERVER_TLS") != NULL;
    has_users = getenv("SIMBA_SERVER_AUTH") != NULL;
    control = getenv("SIMBA_SERVER_CONTROL");
    rc = run_unit_tests(NULL, NULL);
    simba__tls_context_close(tls);
    return rc;
}
