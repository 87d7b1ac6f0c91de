#define _GNU_SOURCE
#include "kit/connection_driver.h"

static bool drive(struct client *client, int64_t until_ms)
{
    bool goes_on;

    simba_loop_enter(client->loop);
    goes_on = simba_connection_drive(client->connection, NULL, until_ms);
    simba_loop_leave(client->loop);
    return goes_on;
}

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
        assert_true(drive(client, now_ms() + 9000));
    }
    assert_true(pthread_equal(client->reader, pthread_self()));
    if (has_pushes) { /* which are read also while nothing is due */
        assert_true(drive(client, now_ms() + 1));
    }
    assert_false(drive(client, 0));
    if (has_pushes) { /* the loop reads again */
        say(fd, "!push\n");
        await(client->pushes == 1);
    }
}

TEST(test_caller_thread__caller_that_drives_reads_its_reply_itself)
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
        assert_false(drive(&client, now_ms() + 9000));
        expect(fd, "other\nmine\n");
        say(fd, "1\n2\n");
        await(second.status == SIMBA_OK);
        client_close(&client);
        close(fd);
        close(listener);
    }
}

/* What a store writes down on the way, beside the first request of all: the
 * caller of the next one drives all the same. */
TEST(test_caller_thread__what_nobody_hears_keeps_no_caller_from_driving)
{
    struct client client = {.greets = true};
    int listener = listen_on(&client.hosts[0]), fd;
    struct ask note, first;

    client_open(&client);
    fd = admit_greeted(listener);
    await(client.readies == 1);
    prepare(&note, "note", 0);
    note.exchange.is_unheard = true;
    prepare(&first, "first", 0);
    first.exchange.is_driven = true;
    inside(&client, {
        simba_connection_submit(client.connection, &note.exchange);
        simba_connection_submit(client.connection, &first.exchange);
    });
    expect(fd, "note\nfirst\n");
    say(fd, "1\n2\n");
    await(first.status == SIMBA_OK);
    drive_one(&client, fd, false);
    client_close(&client);
    close(fd);
    close(listener);
}

TEST(test_caller_thread__driver_sees_the_end_of_the_connection)
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
    while (drive(&client, now_ms() + 20)) {
    }
    await(ask.status == SIMBA_EUNKNOWN);
    client_close(&client);
    close(listener);
}
