/* Messages of etcd. The bytes were made by etcd's own code, go.etcd.io/etcd/api
 * v3.5.17; revision 300, member 7 and term 2 are in all their headers. */
#include "backends/etcd/messages.h"
#include "core/rng.h"
#include "fixtures/unit_test.h"
#include "util/array.h"

#include <string.h>

#define HEADER "0a12 0890e4d0b287d3aeeefe01 1007 18ac02 2002 "
#define KV     "0a03612f62 1005 18c0843d 2003 2a03760077 30ef9baf8589cf959a12 "

static const char a_txn[] =
    "0a05 1001 1a016f 0a09 0801 1002 1a0173 304d"
    "0a11 0802 1003 1a0174 3a0430306666 82040175"
    "1214 1212 0a016f 12026d65 18ffffffffffffffffff01"
    "1205 1a03 0a0171 1a12 0a10 0a02712f 12027130 1802 2801 3002 4001";
static const char a_txn_reply[] =
    HEADER "1001 1a56 0a54" HEADER "121c" KV "121c" KV "1801 2009"
           "1a20 121e 121c" KV "1a04 1a02 1002";
static const char a_watch[] = "0a10 0a016f 120170 180c 2001 3001 3804 4001";
static const char a_watch_reply[] =
    HEADER "10ffffffffffffffffff01 1801 2001 2808 3203776879"
           "5a3e 0801 121c" KV "1a1c" KV "5a1e 121c" KV;
static const char a_ttl_reply[] =
    HEADER "1063 18ffffffffffffffffff01 200a 2a016b";
static const char a_status_reply[] =
    HEADER "1206332e352e3137 188020 2007 2805 3002 3804"
           "42036f6e65 420374776f 488010 5001";
static const char a_members_reply[] =
    "1226 0807 12027331 1a08687474703a2f2f70 2208687474703a2f2f63"
    "2208687474703a2f2f64 2801 1202 0808";
static const char an_alarms_reply[] = "1204 0807 1001";

/* The bytes that these digits are. */
static simba__etcd_bytes bytes_of(const char *digits, char *room)
{
    size_t length = 0;

    for (const char *at = digits; *at != '\0'; at++) {
        if (*at != ' ') {
            room[length++] =
                (char)(simba__text_hex(at[0]) << 4 | simba__text_hex(at[1]));
            at++;
        }
    }
    return (simba__etcd_bytes){room, length};
}

#define assert_bytes(bytes, text)                                              \
    do {                                                                       \
        assert_int_equal((bytes).length, sizeof(text) - 1);                    \
        assert_memory_equal((bytes).at, text, sizeof(text) - 1);               \
    } while (0)

static void assert_written(struct simba__text *text, const char *digits)
{
    char room[512];
    simba__etcd_bytes wanted = bytes_of(digits, room);

    assert_false(text->is_failed);
    assert_int_equal(text->length, wanted.length);
    assert_memory_equal(text->bytes, wanted.at, wanted.length);
    simba__text_fini(text);
}

static void assert_header(simba__etcd_header header)
{
    assert_int_equal((uint64_t)header.cluster_id, 0xfedcba9876543210u);
    assert_int_equal(header.member_id, 7);
    assert_int_equal(header.revision, 300);
    assert_int_equal(header.raft_term, 2);
}

static void assert_kv(simba__etcd_kv kv)
{
    assert_bytes(kv.key, "a/b");
    assert_int_equal(kv.create_revision, 5);
    assert_int_equal(kv.mod_revision, 1000000);
    assert_int_equal(kv.version, 3);
    assert_bytes(kv.value, "v\0w");
    assert_int_equal(kv.lease, 0x1234567890abcdef);
}

/* --- requests ------------------------------------------------------------ */

TEST(test_messages__transaction_is_written_as_etcd_writes_it)
{
    struct simba__text text = {0};
    simba__etcd_compare created = {.target = SIMBA__ETCD_CREATE,
                                   .key = simba__etcd_text("o")};
    simba__etcd_compare changed = {.target = SIMBA__ETCD_MOD,
                                   .result = SIMBA__ETCD_GREATER,
                                   .key = simba__etcd_text("s"),
                                   .mod_revision = 77};
    simba__etcd_compare less = {.target = SIMBA__ETCD_VALUE,
                                .result = SIMBA__ETCD_LESS,
                                .key = simba__etcd_text("t"),
                                .range_end = simba__etcd_text("u"),
                                .value = simba__etcd_text("00ff")};
    simba__etcd_op put = {.has = SIMBA__ETCD_HAS(2),
                          .put = {.key = simba__etcd_text("o"),
                                  .value = simba__etcd_text("me"),
                                  .lease = -1}};
    simba__etcd_op delete = {.has = SIMBA__ETCD_HAS(3),
                             .delete_range = {.key = simba__etcd_text("q")}};
    simba__etcd_op get = {.has = SIMBA__ETCD_HAS(1),
                          .range = {.key = simba__etcd_text("q/"),
                                    .range_end = simba__etcd_text("q0"),
                                    .limit = 2,
                                    .sort_order = 1,
                                    .sort_target = 2,
                                    .keys_only = true}};

    simba__etcd_add(&text, SIMBA__ETCD_IF, SIMBA__ETCD_compare, &created);
    simba__etcd_add(&text, SIMBA__ETCD_IF, SIMBA__ETCD_compare, &changed);
    simba__etcd_add(&text, SIMBA__ETCD_IF, SIMBA__ETCD_compare, &less);
    simba__etcd_add(&text, SIMBA__ETCD_THEN, SIMBA__ETCD_op, &put);
    simba__etcd_add(&text, SIMBA__ETCD_THEN, SIMBA__ETCD_op, &delete);
    simba__etcd_add(&text, SIMBA__ETCD_ELSE, SIMBA__ETCD_op, &get);
    assert_written(&text, a_txn);
}

TEST(test_messages__watches_are_written_as_etcd_writes_them)
{
    struct simba__text text = {0};
    simba__etcd_watch watch = {.has = SIMBA__ETCD_HAS(1),
                               .create = {.key = simba__etcd_text("o"),
                                          .range_end = simba__etcd_text("p"),
                                          .start_revision = 12,
                                          .progress_notify = true,
                                          .prev_kv = true,
                                          .fragment = true,
                                          .watch_id = 4}};

    simba__etcd_encode(&text, SIMBA__ETCD_watch, &watch);
    assert_written(&text, a_watch);
    watch = (simba__etcd_watch){.has = SIMBA__ETCD_HAS(2)};
    simba__etcd_encode(&text, SIMBA__ETCD_watch, &watch);
    assert_written(&text, "1200");
    watch = (simba__etcd_watch){.has = SIMBA__ETCD_HAS(3)};
    simba__etcd_encode(&text, SIMBA__ETCD_watch, &watch);
    assert_written(&text, "1a00");
    /* A filter of 0 is one. */
    watch = (simba__etcd_watch){.has = SIMBA__ETCD_HAS(1),
                                .create.has = SIMBA__ETCD_HAS(5)};
    simba__etcd_encode(&text, SIMBA__ETCD_watch, &watch);
    assert_written(&text, "0a02 2800");
}

TEST(test_messages__short_requests_are_written_as_etcd_writes_them)
{
    struct simba__text text = {0};
    simba__etcd_lease_grant grant = {.ttl = 10, .id = 99};
    simba__etcd_authenticate who = {.name = simba__etcd_text("root"),
                                    .password = simba__etcd_text("pw")};

    simba__etcd_encode(&text, SIMBA__ETCD_lease_grant, &grant);
    assert_written(&text, "080a 1063");
    simba__etcd_encode(&text, SIMBA__ETCD_authenticate, &who);
    assert_written(&text, "0a04726f6f74 12027077");
}

TEST(test_messages__length_of_two_bytes_stands_before_a_long_message)
{
    struct simba__text text = {0};
    char value[200];
    simba__etcd_op op = {.has = SIMBA__ETCD_HAS(2),
                         .put.value = {value, sizeof value}},
                   again;
    simba__etcd_txn txn;

    memset(value, 'x', sizeof value);
    simba__etcd_add(&text, SIMBA__ETCD_THEN, SIMBA__ETCD_op, &op);
    assert_int_equal(text.length, 200 + 3 + 3 + 3);
    assert_true(simba__etcd_decode((simba__etcd_bytes){text.bytes, text.length},
                                   SIMBA__ETCD_txn, &txn));
    assert_true(simba__etcd_next(&txn.success, &again));
    assert_int_equal(again.put.value.length, sizeof value);
    assert_memory_equal(again.put.value.at, value, sizeof value);
    simba__text_fini(&text);
}

/* --- replies ------------------------------------------------------------- */

TEST(test_messages__transaction_reply_is_read)
{
    char room[512];
    simba__etcd_txn_reply reply;
    simba__etcd_op_reply op;
    simba__etcd_kv kv;

    assert_true(simba__etcd_decode(bytes_of(a_txn_reply, room),
                                   SIMBA__ETCD_txn_reply, &reply));
    assert_header(reply.header);
    assert_true(reply.succeeded);
    assert_int_equal(reply.responses.count, 3);
    assert_true(simba__etcd_next(&reply.responses, &op));
    assert_int_equal(op.has, SIMBA__ETCD_HAS(1));
    assert_int_equal(op.range.count, 9);
    assert_true(op.range.more);
    assert_true(simba__etcd_next(&op.range.kvs, &kv));
    assert_kv(kv);
    assert_true(simba__etcd_next(&op.range.kvs, &kv));
    assert_kv(kv);
    assert_false(simba__etcd_next(&op.range.kvs, &kv));
    assert_true(simba__etcd_next(&reply.responses, &op));
    assert_int_equal(op.has, SIMBA__ETCD_HAS(2));
    assert_true(simba__etcd_next(&reply.responses, &op));
    assert_int_equal(op.has, SIMBA__ETCD_HAS(3));
    assert_int_equal(op.delete_range.deleted, 2);
    assert_false(simba__etcd_next(&reply.responses, &op));
}

TEST(test_messages__watch_reply_is_read)
{
    char room[512];
    simba__etcd_watch_reply reply;
    simba__etcd_event event;

    assert_true(simba__etcd_decode(bytes_of(a_watch_reply, room),
                                   SIMBA__ETCD_watch_reply, &reply));
    assert_header(reply.header);
    assert_int_equal(reply.watch_id, -1);
    assert_true(reply.created && reply.canceled && !reply.fragment);
    assert_int_equal(reply.compact_revision, 8);
    assert_bytes(reply.cancel_reason, "why");
    assert_int_equal(reply.events.count, 2);
    assert_true(simba__etcd_next(&reply.events, &event));
    assert_int_equal(event.type, 1);
    assert_kv(event.kv);
    assert_kv(event.prev_kv);
    assert_true(simba__etcd_next(&reply.events, &event));
    assert_int_equal(event.type, 0);
    assert_kv(event.kv);
    assert_int_equal(event.has, SIMBA__ETCD_HAS(2));
}

TEST(test_messages__replies_for_the_doctor_are_read)
{
    char room[512];
    simba__etcd_lease_reply lease;
    simba__etcd_status_reply status;
    simba__etcd_members_reply members;
    simba__etcd_alarms_reply alarms;
    simba__etcd_member member;
    simba__etcd_alarm alarm;
    simba__etcd_bytes text;

    assert_true(simba__etcd_decode(bytes_of(a_ttl_reply, room),
                                   SIMBA__ETCD_lease_reply, &lease));
    assert_int_equal(lease.id, 99);
    assert_int_equal(lease.ttl, -1);
    assert_int_equal(lease.granted_ttl, 10);

    assert_true(simba__etcd_decode(bytes_of(a_status_reply, room),
                                   SIMBA__ETCD_status_reply, &status));
    assert_header(status.header);
    assert_bytes(status.version, "3.5.17");
    assert_int_equal(status.db_size, 4096);
    assert_int_equal(status.db_size_in_use, 2048);
    assert_int_equal(status.leader, 7);
    assert_true(status.is_learner);
    assert_true(simba__etcd_next(&status.errors, &text));
    assert_bytes(text, "one");
    assert_true(simba__etcd_next(&status.errors, &text));
    assert_bytes(text, "two");
    assert_false(simba__etcd_next(&status.errors, &text));

    assert_true(simba__etcd_decode(bytes_of(a_members_reply, room),
                                   SIMBA__ETCD_members_reply, &members));
    assert_int_equal(members.members.count, 2);
    assert_true(simba__etcd_next(&members.members, &member));
    assert_bytes(member.name, "s1");
    assert_true(member.is_learner);
    assert_int_equal(member.peer_urls.count, 1);
    assert_true(simba__etcd_next(&member.client_urls, &text));
    assert_bytes(text, "http://c");
    assert_true(simba__etcd_next(&member.client_urls, &text));
    assert_bytes(text, "http://d");

    assert_true(simba__etcd_decode(bytes_of(an_alarms_reply, room),
                                   SIMBA__ETCD_alarms_reply, &alarms));
    assert_true(simba__etcd_next(&alarms.alarms, &alarm));
    assert_int_equal(alarm.member_id, 7);
    assert_int_equal(alarm.alarm, 1);
}

TEST(test_messages__unknown_fields_are_passed_over)
{
    char room[64];
    simba__etcd_lease_reply reply;

    /* Of numbers 15 and 2000, in the four forms there are. */
    assert_true(simba__etcd_decode(
        bytes_of("7801 820103616263 81010102030405060708 857d01020304 1063",
                 room),
        SIMBA__ETCD_lease_reply, &reply));
    assert_int_equal(reply.id, 99);
    assert_int_equal(reply.has, SIMBA__ETCD_HAS(2));
}

TEST(test_messages__malformed_bytes_are_refused)
{
    static const char *const malformed[] = {
        "10",                        /* no value */
        "1080",                      /* an unfinished one */
        "10ffffffffffffffffff02",    /* of more than 64 bits */
        "1080808080808080808080 00", /* of eleven bytes */
        "0000",                      /* of number 0 */
        "80808080808001 00",         /* of a number beyond all */
        "0a05 0800",                 /* longer than the message */
        "0affffffffffffffffff01",    /* longer than memory */
        "0a02 0880",                 /* malformed inside */
        "1201 00",                   /* a number that is a text */
        "0801",                      /* a message that is a number */
        "0b0c",
        "0e",
        "0f",                /* forms that there are not */
        "79 01020304050607", /* seven of eight bytes */
        "7d 010203",         /* three of four */
    };
    char room[64];
    simba__etcd_lease_reply reply;

    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        if (simba__etcd_decode(bytes_of(malformed[i], room),
                               SIMBA__ETCD_lease_reply, &reply)) {
            fail_msg("%s was taken for a message", malformed[i]);
        }
    }
}

/* --- anything ------------------------------------------------------------ */

union item {
    simba__etcd_bytes bytes;
    simba__etcd_kv kv;
    simba__etcd_op_reply op;
    simba__etcd_event event;
    simba__etcd_member member;
    simba__etcd_alarm alarm;
};

/* Takes all of a list; what was once read can be read again. */
static size_t count_all(simba__etcd_list list)
{
    union item item;
    size_t count = 0;

    while (simba__etcd_next(&list, &item)) {
        count++;
        if (list.type == SIMBA__ETCD_op_reply) {
            assert_int_equal(count_all(item.op.range.kvs),
                             item.op.range.kvs.count);
        }
    }
    return count;
}

/* Whatever it is, nothing but the bytes is read; the sanitizers look. */
static void read_as_anything(const char *data, size_t length)
{
    union {
        simba__etcd_range_reply range;
        simba__etcd_txn_reply txn;
        simba__etcd_watch_reply watch;
        simba__etcd_status_reply status;
        simba__etcd_members_reply members;
        simba__etcd_alarms_reply alarms;
        simba__etcd_lease_reply lease;
        simba__etcd_authenticate_reply token;
    } reply;
    char *copy =
        malloc(length == 0 ? 1 : length); /* nothing stands behind it */

    memcpy(copy, data, length);
    for (int i = 0; i < SIMBA__ETCD_METHOD_COUNT; i++) {
        if (!simba__etcd_decode((simba__etcd_bytes){copy, length},
                                simba__etcd_methods[i].reply, &reply)) {
            continue;
        }
        switch (i) {
        case SIMBA__ETCD_RANGE:
            assert_int_equal(count_all(reply.range.kvs), reply.range.kvs.count);
            break;
        case SIMBA__ETCD_TXN:
            assert_int_equal(count_all(reply.txn.responses),
                             reply.txn.responses.count);
            break;
        case SIMBA__ETCD_WATCH:
            assert_int_equal(count_all(reply.watch.events),
                             reply.watch.events.count);
            break;
        case SIMBA__ETCD_MEMBERS:
            assert_int_equal(count_all(reply.members.members),
                             reply.members.members.count);
            break;
        default:
            break;
        }
    }
    free(copy);
}

TEST(test_messages__broken_messages_do_no_harm)
{
    static const char *const whole[] = {
        a_txn_reply,    a_watch_reply,   a_ttl_reply,
        a_status_reply, a_members_reply, an_alarms_reply,
    };
    struct simba__rng rng = {{1, 2, 3, 4}};
    char room[512], broken[512];

    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        simba__etcd_bytes bytes = bytes_of(whole[i], room);

        for (size_t length = 0; length <= bytes.length; length++) {
            read_as_anything(bytes.at, length);
        }
        for (int round = 0; round < 3000; round++) {
            memcpy(broken, bytes.at, bytes.length);
            for (int j = 0; j < 1 + round % 4; j++) {
                broken[simba__rng_below(&rng, bytes.length)] =
                    (char)simba__rng_next(&rng);
            }
            read_as_anything(broken, bytes.length);
        }
    }
}
