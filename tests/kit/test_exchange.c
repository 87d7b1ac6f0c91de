#define _GNU_SOURCE
#include "kit/connection_driver.h"
#include "util/no_memory.h"

/* --- sending and replies ------------------------------------------------- */

TEST(test_exchange__greets_and_then_sends_what_waited)
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

TEST(test_exchange__sends_at_once_what_is_written_in_one_entry)
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

TEST(test_exchange__puts_pieces_of_replies_together)
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

TEST(test_exchange__finds_by_tag_in_any_order)
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

TEST(test_exchange__reply_that_nobody_awaits_is_up_to_the_store)
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

TEST(test_exchange__what_has_no_room_fails_as_not_sent)
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

/* --- deadlines ----------------------------------------------------------- */

TEST(test_exchange__deadline_of_what_was_not_sent_tells_why)
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

TEST(test_exchange__late_reply_is_dropped_and_the_next_one_is_not)
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

TEST(test_exchange__break_fails_what_was_sent_and_keeps_the_rest)
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

TEST(test_exchange__order_is_kept_over_a_break)
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

TEST(test_exchange__failed_one_can_be_submitted_again_from_within)
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

TEST(test_exchange__greeting_is_sent_before_it_is_ready_and_fails_with_it)
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

TEST(test_exchange__close_fails_what_is_open)
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

/* A cluster has many, and all of them have something to tell the loop then. */
TEST(test_exchange__connections_without_memory_break_and_the_process_lives)
{
    enum { MANY = 12 };
    struct client client = {0};
    int listener = listen_on(&client.hosts[0]), fds[MANY + 1];
    simba_connection *others[MANY];
    simba_error error;

    client_open(&client);
    simba_loop_enter(client.loop);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(
            simba_connection_open(&client.config, &others[i], &error),
            SIMBA_OK);
    }
    simba_loop_leave(client.loop);
    for (int i = 0; i <= MANY; i++) {
        fds[i] = admit(listener);
    }
    await(client.readies == MANY + 1);
    simba_loop_enter(client.loop);
    no_memory = true;
    for (int i = 0; i < MANY; i++) {
        assert_false(simba_connection_write(others[i], "line\n", 5));
    }
    no_memory = false;
    simba_loop_leave(client.loop);
    assert_int_equal(client.downs, MANY);
    assert_int_equal(client.why.code, SIMBA_ENOMEM);
    simba_loop_enter(client.loop);
    for (int i = 0; i < MANY; i++) {
        simba_connection_close(others[i]);
    }
    simba_loop_leave(client.loop);
    client_close(&client);
    for (int i = 0; i <= MANY; i++) {
        close(fds[i]);
    }
    close(listener);
}
