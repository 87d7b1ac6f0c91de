/* A session store with one connection, and its server, played by the test: a
 * line is a step, and its reply is one word. */
#define _GNU_SOURCE
#include "kit/connection_driver.h"

#include <simba/sys/session_store.h>

#include "fixtures/log_nothing.h"

struct one_entry {
    simba_entry base;
    simba_exchange exchange;
    char line[32];
};

struct one_store {
    simba_session_store base;
    simba_exchange renewal;
    simba_entry *renewed;
    _Atomic int puts, pings;
};

static struct one_store *opened;
static atomic_bool is_unsendable; /* what removes */
static bool is_ordered;           /* the server is; puts tell their numbers */
static atomic_bool is_held;       /* the session is not ready */

static void step_failed(simba_exchange *e, int status, const simba_error *error)
{
    struct one_entry *entry =
        (struct one_entry *)((char *)e - offsetof(struct one_entry, exchange));

    simba_entry_done(&entry->base, status, error, SIMBA_STANDS_NOWHERE);
}

static void send_step(simba_entry *base, const char *verb)
{
    struct one_entry *entry = (struct one_entry *)base;

    snprintf(entry->line, sizeof entry->line, "%s\n", verb);
    entry->exchange =
        (simba_exchange){.text = entry->line,
                         .failed = step_failed,
                         .deadline_ms = simba_entry_until_ms(base)};
    base->exchange = &entry->exchange;
    simba_connection_submit(base->store->connection, &entry->exchange);
}

static void put(simba_entry *entry)
{
    char verb[16] = "put";

    if (is_ordered) {
        snprintf(verb, sizeof verb, "put%u", entry->number);
    }
    opened->puts++;
    send_step(entry, verb);
}

static void look(simba_entry *entry)
{
    send_step(entry, "look");
}

static void remove_key(simba_entry *entry)
{
    simba_error error;

    if (is_unsendable) {
        simba_error_set(&error, SIMBA_EUNAVAIL, 0, "not sent");
        simba_entry_done(entry, SIMBA_EUNAVAIL, &error, SIMBA_STANDS_NOWHERE);
    } else {
        send_step(entry, "remove");
    }
}

static void renewal_failed(simba_exchange *e,
                           int status,
                           const simba_error *error)
{
    (void)e;
    simba_entry_renewed(opened->renewed, status, error, false);
    simba_session_renewed(&opened->base);
}

static void renew(simba_session_store *store,
                  simba_entry *const *entries,
                  int count)
{
    assert_int_equal(count, 1);
    opened->renewed = entries[0];
    opened->renewal =
        (simba_exchange){.text = "renew\n", .failed = renewal_failed};
    store->exchange = &opened->renewal;
    simba_connection_submit(store->connection, &opened->renewal);
}

static bool is_ready_now(const simba_session_store *store)
{
    return !is_held && simba_connection_is_ready(store->connection);
}

static void ping(simba_session_store *store)
{
    (void)store;
    opened->pings++;
}

/* "first", "behind", "nowhere" or "vanished" answers a step. */
static size_t take_word(void *store,
                        simba_connection *connection,
                        const char *bytes,
                        size_t size)
{
    static const char words[] = "fbnv"; /* in the order of the standings */
    simba_exchange *e = NULL;
    struct one_entry *entry;
    simba_owner owner;

    (void)store;
    if (memchr(bytes, '\n', size) == NULL) {
        return 0;
    }
    assert_true(simba_connection_take(connection, &e));
    if (e != NULL) { /* NULL: it was cancelled */
        assert_true(e != &opened->renewal);
        entry = (struct one_entry *)((char *)e -
                                     offsetof(struct one_entry, exchange));
        entry->base.token = 7;
        entry->base.position = 3;
        owner = simba_session_owner("me", 7, 1);
        simba_entry_owner(&entry->base, &owner);
        simba_entry_done(
            &entry->base, SIMBA_OK, NULL,
            (enum simba_standing)(strchr(words, bytes[0]) - words));
    }
    return (size_t)((const char *)memchr(bytes, '\n', size) + 1 - bytes);
}

static int open_one(const simba_backend_config *config,
                    simba_backend **backend,
                    simba_error *error);
static const simba_backend_ops one_table = {
    SIMBA_SESSION_TABLE, .scheme = "one", .least_lease_ms = 100,
    .open = open_one};
static const simba_connection_config hooks = {.size = sizeof hooks,
                                              .received = take_word};
static const simba_session_ops ops = {.size = sizeof ops,
                                      .store_size = sizeof(struct one_store),
                                      .entry_size = sizeof(struct one_entry),
                                      .mutex_size = sizeof(simba_session_mutex),
                                      .name = "one",
                                      .url = "one://host:4321",
                                      .table = &one_table,
                                      .connection = &hooks,
                                      .is_ready = is_ready_now,
                                      .put = put,
                                      .look = look,
                                      .remove = remove_key,
                                      .renew = renew,
                                      .renew_most = 1,
                                      .ping = ping};

static int open_one(const simba_backend_config *config,
                    simba_backend **backend,
                    simba_error *error)
{
    simba_session_ops with = ops;
    int rc;

    with.is_ordered = is_ordered;
    rc = simba_session_open(config, &with, backend, error);
    opened = (struct one_store *)*backend;
    return rc;
}

static simba_loop *open_store(const char *rest, int wanted, simba_error *error)
{
    simba_backend_config config = {.rest = rest, .log = log_nothing};
    simba_backend *backend;

    assert_int_equal(simba__loop_open(&config.loop, error), SIMBA_OK);
    assert_int_equal(one_table.open(&config, &backend, error), wanted);
    return config.loop;
}

static void detach_store(void *backend)
{
    if (backend != NULL) {
        one_table.detach(backend);
    }
}

static void close_store(simba_loop *loop)
{
    simba__loop_end(loop, detach_store, opened);
    if (opened != NULL) {
        one_table.close(&opened->base.base);
    }
    simba__loop_close(loop);
}

/* --- requests ------------------------------------------------------------ */

static _Atomic int answered, last_status;

static void on_done(simba_request *copy, int status, const simba_error *error)
{
    (void)copy, (void)error;
    last_status = status;
    answered++;
}

static void ask_as(simba_request *request,
                   enum simba_request_kind kind,
                   uint64_t attempt)
{
    *request = (simba_request)SIMBA_REQUEST_INIT;
    request->kind = kind;
    request->mutex = "m";
    request->id = "me";
    request->attempt = (simba_attempt){1, attempt};
    request->join = true;
    request->ttl_ms = 60000;
    request->transition_ms = 1;
    request->deadline_ms = now_ms() + PATIENCE_MS;
    request->done = on_done;
    simba_loop_enter(opened->base.base.loop);
    one_table.submit(&opened->base.base, request);
    simba_loop_leave(opened->base.base.loop);
}

static void ask_for(simba_request *request, enum simba_request_kind kind)
{
    ask_as(request, kind, 2);
}

static simba_loop *open_at(int *listener, int *fd)
{
    simba_connection_host host = {0};
    simba_error error;
    simba_loop *loop;
    char rest[64];

    *listener = listen_on(&host);
    snprintf(rest, sizeof rest, "//127.0.0.1:%d", host.port);
    loop = open_store(rest, SIMBA_OK, &error);
    *fd = admit(*listener);
    answered = 0;
    return loop;
}

static void close_at(simba_loop *loop, int listener, int fd)
{
    close_store(loop);
    expect_hang_up(fd);
    close(listener);
}

/* Thousands wait: more is a decision, not an accident. */
TEST(test_session_open__who_waits_takes_few_bytes)
{
    assert_in_range(sizeof(simba_entry), 1, 232);
    assert_in_range(sizeof(simba_session_mutex), 1, 104);
}

TEST(test_session_open__refuses_a_url_without_hosts)
{
    simba_error error;

    close_store(open_store("nonsense", SIMBA_EINVAL, &error));
    assert_non_null(strstr(error.message, "one://host:4321"));
    close_store(open_store("//", SIMBA_EINVAL, &error));
    assert_non_null(strstr(error.message, "one://host:4321"));
}

TEST(test_session_open__has_a_port_where_none_is_named)
{
    simba_error error;
    simba_loop *loop = open_store("//127.0.0.1", SIMBA_OK, &error);

    assert_string_equal(simba_connection_where(opened->base.connection),
                        "127.0.0.1:4321");
    close_store(loop);
}

/* What was sent for the session that is over is of no use: its reply neither
 * answers the step that is begun anew nor a renewal that was refused. */
TEST(test_session_open__lost_session_cancels_what_is_under_way)
{
    int listener, fd;
    simba_loop *loop = open_at(&listener, &fd);
    simba_request acquire, renewal;

    ask_for(&acquire, SIMBA_ACQUIRE);
    expect(fd, "put\n");
    simba_loop_enter(loop);
    simba_session_lost(&opened->base);
    simba_loop_leave(loop);
    expect(fd, "put\n");
    assert_int_equal(opened->puts, 2);
    say(fd, "first\n"); /* of the first */
    nap_ms(20);
    assert_int_equal(answered, 0);
    say(fd, "first\n");
    await(answered == 1);
    assert_true(acquire.reply.mine && acquire.reply.token == 7);
    assert_true(acquire.reply.lease_ms > 0);
    assert_int_equal(opened->pings, 1);

    ask_for(&renewal, SIMBA_RENEW);
    expect(fd, "renew\n");
    simba_loop_enter(loop);
    simba_session_lost(&opened->base);
    simba_loop_leave(loop);
    await(answered == 2);
    assert_true(last_status == SIMBA_OK && !renewal.reply.mine);
    say(fd, "first\n");
    nap_ms(20);
    close_at(loop, listener, fd);
}

/* S8: what was not answered may come late, also when the attempt was refused
 * since. */
TEST(test_session_store__refusal_does_not_end_a_doubt)
{
    int listener, fd;
    simba_loop *loop = open_at(&listener, &fd);
    simba_request acquire, release;

    ask_for(&acquire, SIMBA_ACQUIRE);
    expect(fd, "put\n");
    close(fd);
    await(answered == 1);
    assert_int_equal(last_status, SIMBA_EUNKNOWN);
    fd = admit(listener);
    ask_for(&acquire, SIMBA_ACQUIRE);
    expect(fd, "put\n");
    say(fd, "nowhere\n");
    await(answered == 2);
    assert_true(last_status == SIMBA_OK && !acquire.reply.mine);
    ask_for(&release, SIMBA_RELEASE);
    expect(fd, "remove\n");
    say(fd, "nowhere\n");
    await(answered == 3);
    close_at(loop, listener, fd);
}

/* Its tenure is over then, and who waits anew can leave the queue. */
TEST(test_session_store__vanished_tenure_waits_as_others_do)
{
    int listener, fd;
    simba_loop *loop = open_at(&listener, &fd);
    simba_request acquire, leave;

    ask_for(&acquire, SIMBA_ACQUIRE);
    expect(fd, "put\n");
    say(fd, "first\n");
    await(answered == 1);
    ask_for(&acquire, SIMBA_ACQUIRE);
    expect(fd, "look\n");
    say(fd, "vanished\n");
    expect(fd, "put\n");
    say(fd, "behind\n");
    await(answered == 2);
    assert_true(acquire.reply.is_queued);
    ask_for(&leave, SIMBA_LEAVE);
    expect(fd, "remove\n");
    say(fd, "nowhere\n");
    await(answered == 3);
    close_at(loop, listener, fd);
}

TEST(test_session_store__removal_that_was_not_sent_is_sent_again)
{
    int listener, fd;
    simba_loop *loop = open_at(&listener, &fd);
    simba_request acquire, release;

    ask_for(&acquire, SIMBA_ACQUIRE);
    expect(fd, "put\n");
    say(fd, "first\n");
    await(answered == 1);
    is_unsendable = true;
    ask_for(&release, SIMBA_RELEASE);
    await(answered == 2);
    assert_int_equal(last_status, SIMBA_EUNAVAIL);
    is_unsendable = false;
    expect(fd, "remove\n");
    say(fd, "nowhere\n");
    close_at(loop, listener, fd);
}

/* --- several of one process ---------------------------------------------- */

static void come(simba_request requests[], int from, int count)
{
    for (int i = from; i < from + count; i++) {
        ask_as(&requests[i], SIMBA_ACQUIRE, (uint64_t)i + 1);
    }
}

/* Who waits keeps no owner, and the mutex has the one that was told last. */
static bool is_owner_shared(void)
{
    const simba_session_mutex *mutex;
    bool is_so;

    simba_loop_enter(opened->base.base.loop);
    mutex = simba_session_mutex_get(&opened->base, "m", false);
    is_so = mutex->entries->owner != NULL && mutex->last->owner == NULL &&
            mutex->owner == mutex->entries->owner;
    simba_loop_leave(opened->base.base.loop);
    return is_so;
}

/* S11: where a server may carry them out in another order, each waits for the
 * reply to the one before. */
TEST(test_session_store__puts_wait_for_each_other)
{
    int listener, fd;
    simba_loop *loop = open_at(&listener, &fd);
    simba_request requests[3];

    come(requests, 0, 3);
    for (int i = 0; i < 3; i++) {
        expect(fd, "put\n");
        assert_int_equal(opened->puts, i + 1);
        say(fd, i == 0 ? "first\n" : "behind\n");
        await(answered == i + 1);
    }
    assert_string_equal(requests[2].reply.owner.id, "me");
    assert_true(is_owner_shared());
    close_at(loop, listener, fd);
}

/* The first alone, for it may have to make what all need. */
TEST(test_session_store__puts_follow_the_first_side_by_side)
{
    int listener, fd;
    simba_loop *loop;
    simba_request requests[4];

    is_ordered = true;
    loop = open_at(&listener, &fd);
    come(requests, 0, 3);
    expect(fd, "put1\n");
    assert_int_equal(opened->puts, 1);
    say(fd, "first\n");
    expect(fd, "put2\nput3\n");
    come(requests, 3, 1);
    expect(fd, "put4\n");
    say(fd, "behind\nbehind\nbehind\n");
    await(answered == 4);
    close_at(loop, listener, fd);
    is_ordered = false;
}

static simba_request once_more;

static void come_again(simba_request *told,
                       int status,
                       const simba_error *error)
{
    once_more = *told;
    once_more.done = on_done;
    on_done(told, status, error);
    one_table.submit(&opened->base.base, &once_more);
}

/* One takes the place of another, whose sender hears of it and comes again. */
TEST(test_session_store__answers_each_of_two_that_meet)
{
    int listener, fd;
    simba_loop *loop = open_at(&listener, &fd);
    simba_request requests[2];

    ask_for(&requests[0], SIMBA_ACQUIRE);
    expect(fd, "put\n");
    requests[0].done = come_again;
    ask_for(&requests[1], SIMBA_ACQUIRE);
    assert_int_equal(answered, 2);
    assert_int_equal(last_status, SIMBA_EUNKNOWN);
    say(fd, "first\n");
    await(answered == 3);
    assert_int_equal(last_status, SIMBA_OK);
    close_at(loop, listener, fd);
}

/* What became of them has to be found out first: the next would pass. */
TEST(test_session_store__puts_follow_none_in_doubt)
{
    int listener, fd;
    simba_loop *loop;
    simba_request requests[4];

    is_ordered = true;
    loop = open_at(&listener, &fd);
    come(requests, 0, 1);
    expect(fd, "put1\n");
    say(fd, "first\n");
    await(answered == 1);
    come(requests, 1, 2);
    expect(fd, "put2\nput3\n");
    close(fd);
    await(answered == 3);
    fd = admit(listener);
    come(requests, 1, 3);
    expect(fd, "put2\n");
    assert_int_equal(opened->puts, 4);
    say(fd, "behind\n");
    await(answered == 4);
    expect(fd, "put3\n");
    assert_int_equal(opened->puts, 5);
    say(fd, "behind\n");
    await(answered == 5);
    expect(fd, "put4\n");
    say(fd, "behind\n");
    await(answered == 6);
    close_at(loop, listener, fd);
    is_ordered = false;
}

/* Who was in doubt and passed, and asks again before there is a session, comes
 * before one that asks after it. */
TEST(test_session_store__puts_keep_their_order_until_it_is_ready)
{
    int listener, fd;
    simba_loop *loop;
    simba_request requests[4];

    is_ordered = true;
    loop = open_at(&listener, &fd);
    come(requests, 0, 1);
    expect(fd, "put1\n");
    say(fd, "first\n");
    await(answered == 1);
    come(requests, 1, 2);
    expect(fd, "put2\nput3\n");
    close(fd);
    await(answered == 3);
    fd = admit(listener);
    come(requests, 0, 1);
    expect(fd, "look\n");
    say(fd, "first\n"); /* and neither of them comes */
    await(answered == 4);
    is_held = true;
    come(requests, 1, 3);
    is_held = false;
    simba_loop_enter(loop);
    simba_session_ready(&opened->base);
    simba_loop_leave(loop);
    expect(fd, "put2\n");
    say(fd, "behind\n");
    expect(fd, "put3\n");
    say(fd, "behind\n");
    expect(fd, "put4\n");
    say(fd, "behind\n");
    await(answered == 7);
    close_at(loop, listener, fd);
    is_ordered = false;
}

/* Who waits between two requests when the session ends keeps its place, also if
 * another leaves before there is one again. */
TEST(test_session_store__puts_keep_their_order_when_an_owner_leaves)
{
    int listener, fd;
    simba_loop *loop;
    simba_request requests[3], release;

    is_ordered = true;
    loop = open_at(&listener, &fd);
    come(requests, 0, 1);
    expect(fd, "put1\n");
    say(fd, "first\n");
    await(answered == 1);
    come(requests, 1, 2);
    expect(fd, "put2\nput3\n");
    say(fd, "behind\nbehind\n");
    await(answered == 3);
    ask_as(&release, SIMBA_RELEASE, 1);
    expect(fd, "remove\n");
    is_held = true;
    simba_loop_enter(loop);
    simba_session_lost(&opened->base);
    simba_loop_leave(loop);
    await(answered == 4);
    come(requests, 2, 1);
    come(requests, 1, 1);
    is_held = false;
    simba_loop_enter(loop);
    simba_session_ready(&opened->base);
    simba_loop_leave(loop);
    expect(fd, "put2\n");
    close_at(loop, listener, fd);
    is_ordered = false;
}
