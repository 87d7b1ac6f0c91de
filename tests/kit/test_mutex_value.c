/* A mutex as one value: what it answers is what the record in memory answers,
 * and no text that somebody else has written harms it. */
#define _GNU_SOURCE
#include <simba/sys/mutex_value.h>

#include "core/mutex_record.h"
#include "core/rng.h"
#include "fixtures/unit_test.h"

#include <stdlib.h>
#include <string.h>

enum { PEOPLE = 6 };

/* The store: one value, and the record that it must be equal to. */
static char *stored;
static size_t stored_size;
static struct simba__mutex_record record;
static int64_t now_ms;
static simba_value_change change;

static int prepare(void **state)
{
    (void)state;
    stored = NULL;
    stored_size = 0;
    now_ms = 1000;
    return 0;
}

static int clear(void **state)
{
    (void)state;
    free(stored);
    simba__mutex_fini(&record);
    return 0;
}

#define VALUE_TEST(test) TEST_AROUND(test_mutex_value__##test, prepare, clear)

static uint64_t asker; /* is there, whoever it is */

static bool is_odd(void *self, uint64_t connection)
{
    (void)self;
    return connection % 2 == 1 || connection == asker;
}

static void wake_nobody(void *self, const struct simba__waiter *waiter)
{
    (void)self;
    (void)waiter;
}

static simba_request asking(enum simba_request_kind kind, uint64_t who)
{
    simba_request request = SIMBA_REQUEST_INIT;

    request.kind = kind;
    request.mutex = "m";
    request.id = "a contender, with blanks";
    request.attempt = (simba_attempt){who, ~who};
    request.ttl_ms = 300;
    request.transition_ms = 100;
    request.waiter_ms = 900;
    request.join = true;
    return request;
}

static int serve(simba_request *request, uint64_t connection)
{
    simba_value_host host = {stored,     stored_size, now_ms,
                             connection, is_odd,      NULL};
    simba_error error;
    int rc;

    asker = connection;
    rc = simba_value_serve(&host, request, &change, &error);
    if (rc == SIMBA_OK && change.bytes != NULL) {
        free(stored);
        stored = change.bytes;
        stored_size = change.size;
    }
    return rc;
}

static void compare(const simba_reply *value, const simba_reply *model)
{
    assert_int_equal(value->mine, model->mine);
    assert_int_equal(value->token, model->token);
    assert_int_equal(value->is_queued, model->is_queued);
    assert_int_equal(value->is_head, model->is_head);
    assert_int_equal(value->position, model->position);
    assert_int_equal(value->wait_ms, model->wait_ms);
    assert_int_equal(value->ended, model->ended);
    assert_int_equal(value->store_ms, model->store_ms);
    assert_string_equal(value->owner.id, model->owner.id);
    assert_int_equal(value->owner.token, model->owner.token);
    assert_int_equal(value->owner.transition_at_ms,
                     model->owner.transition_at_ms);
}

VALUE_TEST(answers_as_the_record_does)
{
    static const enum simba_request_kind kinds[] = {
        SIMBA_ACQUIRE, SIMBA_ACQUIRE, SIMBA_ACQUIRE, SIMBA_ACQUIRE,
        SIMBA_RENEW,   SIMBA_RELEASE, SIMBA_RELEASE, SIMBA_LEAVE,
        SIMBA_LEAVE,   SIMBA_BREAK};
    struct simba__mutex_host host = {NULL, is_odd, wake_nobody};
    struct simba__rng rng;

    simba__rng_seed(&rng, 7);
    for (int i = 0; i < 20000; i++) {
        uint64_t dice = simba__rng_next(&rng);
        uint64_t connection = 1 + dice / 1000 % PEOPLE;
        simba_request request = asking(kinds[dice % 10], 1 + dice / 10 % 6);
        struct simba__mutex_request given = {.request = &request,
                                             .connection = connection};
        simba_reply reply = SIMBA_REPLY_INIT;

        now_ms += (int64_t)(dice / 100000 % 60);
        request.join = dice / 7 % 5 != 0;
        request.tombstone_ms = dice / 11 % 3 == 0 ? 200 : 0;
        request.now = dice / 13 % 2 == 0;
        request.token = record.owner.token;
        given.now_ms = now_ms;
        assert_int_equal(serve(&request, connection), SIMBA_OK);
        assert_true(simba__mutex_serve(&record, &host, &given, &reply));
        compare(&request.reply, &reply);
    }
}

VALUE_TEST(what_changes_nothing_is_not_written)
{
    simba_request owner = asking(SIMBA_ACQUIRE, 1);
    simba_request other = asking(SIMBA_ACQUIRE, 2);
    simba_request reader = asking(SIMBA_READ, 3);

    assert_int_equal(serve(&owner, 1), SIMBA_OK);
    assert_true(owner.reply.mine);
    assert_true(change.is_owner_changed);
    other.join = false;
    assert_int_equal(serve(&other, 3), SIMBA_OK);
    assert_false(other.reply.mine);
    assert_null(change.bytes);
    assert_int_equal(serve(&reader, 3), SIMBA_OK);
    assert_null(change.bytes);
    assert_string_equal(reader.reply.owner.id, owner.id);
}

VALUE_TEST(tells_whom_to_wake)
{
    simba_request owner = asking(SIMBA_ACQUIRE, 1);
    simba_request release = asking(SIMBA_RELEASE, 1);

    assert_int_equal(serve(&owner, 1), SIMBA_OK);
    for (uint64_t who = 2; who <= 5; who++) { /* 2 and 4 are not connected */
        simba_request waiter = asking(SIMBA_ACQUIRE, who);

        assert_int_equal(serve(&waiter, 10 + who), SIMBA_OK);
        assert_int_equal(change.wake_count, 0);
    }
    assert_int_equal(serve(&release, 1), SIMBA_OK);
    assert_int_equal(change.wake_count, 2);
    assert_int_equal(change.wake[0], 13);
    assert_int_equal(change.wake[1], 15);
}

VALUE_TEST(refuses_what_is_not_its_own)
{
    static const char *const values[] = {
        "hello\n",
        "simba 2\n",
        "simba 1",
        "simba 1\nlast 1 2 3\n",
        "simba 1\nlast 1 2 3 99999999999999999999\n",
        "simba 1\nfuture 1\n",
        "simba 1\nowner 00 1 1 1 1 0 x\n",
        ("simba 1\nwaiter 0000000000000001fffffffffffffffe 5 1 9 0 a\n"
         "waiter 0000000000000002fffffffffffffffd 4 1 9 0 b\n"),
    };

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        simba_value_host host = {values[i], strlen(values[i]), now_ms, 1, NULL,
                                 NULL};
        simba_request request = asking(SIMBA_ACQUIRE, 1);
        simba_error error;

        assert_int_equal(simba_value_serve(&host, &request, &change, &error),
                         SIMBA_EMISCONFIG);
        assert_null(change.bytes);
        assert_false(request.reply.mine);
    }
}

/* Whatever one byte is changed to, it is refused or served; nothing else. */
VALUE_TEST(bears_any_text)
{
    struct simba__rng rng;

    simba__rng_seed(&rng, 3);
    for (uint64_t who = 1; who < 6; who++) {
        simba_request request = asking(SIMBA_ACQUIRE, who);

        assert_int_equal(serve(&request, who), SIMBA_OK);
    }
    for (int i = 0; i < 20000; i++) {
        char *copy = strndup(stored, stored_size);
        uint64_t dice = simba__rng_next(&rng);
        simba_value_host host = {
            copy, stored_size - dice / 7 % 2, now_ms, 1, NULL, NULL};
        simba_request request = asking(SIMBA_RELEASE, 1);
        simba_error error;

        assert_non_null(copy);
        copy[dice % stored_size] = (char)(dice >> 32);
        if (simba_value_serve(&host, &request, &change, &error) == SIMBA_OK) {
            free(change.bytes);
        }
        free(copy);
    }
}
