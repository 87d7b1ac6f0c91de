/* Messages of etcd, and what they are made of. The bytes were made by etcd's
 * own code, go.etcd.io/etcd/api v3.5.17; revision 300, member 7 and term 2 are
 * in all their headers. */
#include "backends/etcd/etcd.h"
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
static simba__pb_bytes bytes_of(const char *digits, char *room)
{
    size_t length = 0;

    for (const char *at = digits; *at != '\0'; at++) {
        if (*at != ' ') {
            room[length++] =
                (char)(simba__text_hex(at[0]) << 4 | simba__text_hex(at[1]));
            at++;
        }
    }
    return (simba__pb_bytes){room, length};
}

#define assert_bytes(bytes, text)                                              \
    do {                                                                       \
        assert_int_equal((bytes).length, sizeof(text) - 1);                    \
        assert_memory_equal((bytes).at, text, sizeof(text) - 1);               \
    } while (0)

static void assert_written(struct simba__text *text, const char *digits)
{
    char room[512];
    simba__pb_bytes wanted = bytes_of(digits, room);

    assert_false(text->is_failed);
    assert_int_equal(text->length, wanted.length);
    assert_memory_equal(text->bytes, wanted.at, wanted.length);
    simba__text_fini(text);
}

static void assert_header(simba__pb_bytes bytes)
{
    simba__pb_fields header = simba__pb_read(bytes);

    assert_int_equal((uint64_t)header.number[1], 0xfedcba9876543210u);
    assert_int_equal(header.number[2], 7);
    assert_int_equal(header.number[3], 300);
    assert_int_equal(header.number[4], 2);
}

static void assert_kv(const simba__etcd_kv *kv)
{
    assert_bytes(kv->key, "a/b");
    assert_int_equal(kv->create, 5);
    assert_int_equal(kv->mod, 1000000);
    assert_int_equal(kv->version, 3);
    assert_bytes(kv->value, "v\0w");
}

/* --- requests ------------------------------------------------------------ */

TEST(test_protobuf__transaction_is_written_as_etcd_writes_it)
{
    struct simba__text text = {0};
    size_t began, op;

    began = simba__pb_begin(&text, 1); /* o was never created */
    simba__pb_number(&text, 2, 1);
    simba__pb_text(&text, 3, "o");
    simba__pb_number(&text, 5, 0);
    simba__pb_end(&text, began);
    began = simba__pb_begin(&text, 1); /* s changed after 77 */
    simba__pb_number(&text, 1, 1);
    simba__pb_number(&text, 2, 2);
    simba__pb_text(&text, 3, "s");
    simba__pb_number(&text, 6, 77);
    simba__pb_end(&text, began);
    began = simba__pb_begin(&text, 1); /* t to u is below 00ff */
    simba__pb_number(&text, 1, 2);
    simba__pb_number(&text, 2, 3);
    simba__pb_text(&text, 3, "t");
    simba__pb_text(&text, 7, "00ff");
    simba__pb_text(&text, 64, "u");
    simba__pb_end(&text, began);
    began = simba__pb_begin(&text, 2); /* put */
    op = simba__pb_begin(&text, 2);
    simba__pb_text(&text, 1, "o");
    simba__pb_text(&text, 2, "me");
    simba__pb_number(&text, 3, -1);
    simba__pb_end(&text, op);
    simba__pb_end(&text, began);
    began = simba__pb_begin(&text, 2); /* delete */
    op = simba__pb_begin(&text, 3);
    simba__pb_text(&text, 1, "q");
    simba__pb_end(&text, op);
    simba__pb_end(&text, began);
    began = simba__pb_begin(&text, 3); /* get */
    op = simba__pb_begin(&text, 1);
    simba__pb_text(&text, 1, "q/");
    simba__pb_text(&text, 2, "q0");
    simba__pb_number(&text, 3, 2);
    simba__pb_number(&text, 5, 1);
    simba__pb_number(&text, 6, 2);
    simba__pb_number(&text, 8, 1);
    simba__pb_end(&text, op);
    simba__pb_end(&text, began);
    assert_written(&text, a_txn);
}

TEST(test_protobuf__watches_are_written_as_etcd_writes_them)
{
    struct simba__text text = {0};
    size_t began = simba__pb_begin(&text, 1);

    simba__pb_text(&text, 1, "o");
    simba__pb_text(&text, 2, "p");
    simba__pb_number(&text, 3, 12);
    simba__pb_number(&text, 4, true);
    simba__pb_number(&text, 6, true);
    simba__pb_number(&text, 7, 4);
    simba__pb_number(&text, 8, true);
    simba__pb_end(&text, began);
    assert_written(&text, a_watch);
    simba__pb_end(&text, simba__pb_begin(&text, 2));
    assert_written(&text, "1200");
}

TEST(test_protobuf__short_requests_are_written_as_etcd_writes_them)
{
    struct simba__text text = {0};

    simba__pb_number(&text, 1, 10);
    simba__pb_number(&text, 2, 99);
    assert_written(&text, "080a 1063");
    simba__pb_text(&text, 1, "root");
    simba__pb_text(&text, 2, "pw");
    simba__pb_text(&text, 3, "");
    assert_written(&text, "0a04726f6f74 12027077");
}

TEST(test_protobuf__length_of_two_bytes_stands_before_a_long_message)
{
    struct simba__text text = {0};
    simba__pb_bytes again;
    char value[201] = "";
    size_t began, put;

    memset(value, 'x', sizeof value - 1);
    began = simba__pb_begin(&text, 2);
    put = simba__pb_begin(&text, 2);
    simba__pb_text(&text, 2, value);
    simba__pb_end(&text, put);
    simba__pb_end(&text, began);
    assert_int_equal(text.length, 200 + 3 + 3 + 3);
    again = (simba__pb_bytes){text.bytes, text.length};
    for (int i = 0; i < 3; i++) {
        again = simba__pb_read(again).bytes[2];
    }
    assert_int_equal(again.length, sizeof value - 1);
    assert_memory_equal(again.at, value, sizeof value - 1);
    simba__text_fini(&text);
}

/* --- replies ------------------------------------------------------------- */

TEST(test_protobuf__transaction_reply_is_read)
{
    char room[512];
    simba__pb_bytes rest = bytes_of(a_txn_reply, room);
    simba__pb_fields reply = simba__pb_read(rest);
    simba__etcd_got got;
    simba__etcd_kv kv;

    assert_false(reply.is_broken);
    assert_header(reply.bytes[1]);
    assert_int_equal(reply.number[2], true);
    assert_int_equal(reply.count[3], 3);
    assert_true(simba__etcd_next_got(&rest, &got));
    assert_int_equal(got.count, 9);
    assert_kv(&got.kv);
    assert_true(simba__etcd_next_kv(&got.all, &kv));
    assert_kv(&kv);
    assert_true(simba__etcd_next_kv(&got.all, &kv));
    assert_kv(&kv);
    assert_false(simba__etcd_next_kv(&got.all, &kv));
    /* Of the put and the deletion nothing was got. */
    assert_false(simba__etcd_next_got(&rest, &got));
}

TEST(test_protobuf__watch_reply_is_read)
{
    char room[512];
    simba__pb_bytes rest = bytes_of(a_watch_reply, room), event;
    simba__pb_fields reply = simba__pb_read(rest);
    simba__etcd_kv kv;

    assert_header(reply.bytes[1]);
    assert_int_equal(reply.number[2], -1);
    assert_true(reply.number[3] && reply.number[4] && !reply.number[7]);
    assert_int_equal(reply.number[5], 8);
    assert_bytes(reply.bytes[6], "why");
    assert_int_equal(reply.count[11], 2);
    for (int i = 0; i < 2; i++) {
        assert_true(simba__pb_next(&rest, 11, &event));
        assert_int_equal(simba__pb_read(event).number[1], i == 0);
        assert_true(simba__etcd_next_kv(&event, &kv));
        assert_kv(&kv);
    }
    assert_false(simba__pb_next(&rest, 11, &event));
}

TEST(test_protobuf__replies_for_the_doctor_are_read)
{
    char room[512];
    simba__pb_bytes rest, item;
    simba__pb_fields fields = simba__pb_read(bytes_of(a_ttl_reply, room));

    assert_int_equal(fields.number[2], 99);
    assert_int_equal(fields.number[3], -1);
    assert_int_equal(fields.number[4], 10);

    rest = bytes_of(a_status_reply, room);
    fields = simba__pb_read(rest);
    assert_header(fields.bytes[1]);
    assert_bytes(fields.bytes[2], "3.5.17");
    assert_int_equal(fields.number[3], 4096);
    assert_int_equal(fields.number[9], 2048);
    assert_int_equal(fields.number[4], 7);
    assert_true(fields.number[10]);
    assert_true(simba__pb_next(&rest, 8, &item));
    assert_bytes(item, "one");
    assert_true(simba__pb_next(&rest, 8, &item));
    assert_bytes(item, "two");
    assert_false(simba__pb_next(&rest, 8, &item));

    rest = bytes_of(a_members_reply, room);
    assert_int_equal(simba__pb_read(rest).count[2], 2);
    assert_true(simba__pb_next(&rest, 2, &item));
    fields = simba__pb_read(item);
    assert_bytes(fields.bytes[2], "s1");
    assert_true(fields.number[5]);
    assert_int_equal(fields.count[3], 1);
    assert_int_equal(fields.count[4], 2);

    rest = bytes_of(an_alarms_reply, room);
    assert_true(simba__pb_next(&rest, 2, &item));
    assert_int_equal(simba__pb_read(item).number[1], 7);
    assert_int_equal(simba__pb_read(item).number[2], 1);
}

TEST(test_protobuf__unknown_fields_are_passed_over)
{
    char room[64];
    simba__pb_fields reply;

    /* Of numbers 15 and 2000, in the four forms there are. */
    reply = simba__pb_read(bytes_of(
        "7801 820103616263 81010102030405060708 857d01020304 1063", room));
    assert_false(reply.is_broken);
    assert_int_equal(reply.number[2], 99);
}

TEST(test_protobuf__malformed_bytes_are_refused)
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
        "0b0c",
        "0e",
        "0f",                /* forms that there are not */
        "79 01020304050607", /* seven of eight bytes */
        "7d 010203",         /* three of four */
    };
    char room[64];

    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        if (!simba__pb_read(bytes_of(malformed[i], room)).is_broken) {
            fail_msg("%s was taken for a message", malformed[i]);
        }
    }
}

/* What is malformed inside is no key that is absent; a number where a text
 * should be is none, and a text where a number should be is 0. */
TEST(test_protobuf__malformed_inside_is_not_got)
{
    static const char *const malformed[] = {
        "1a02 0a80",           /* a response */
        "1a04 0a02 1280",      /* a range */
        "1a06 0a04 1202 0880", /* a key */
        "1a05 0a03 1201 08",   /* a number that ends */
    };
    char room[64];
    simba__etcd_got got;

    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        simba__pb_bytes rest = bytes_of(malformed[i], room);

        if (simba__etcd_next_got(&rest, &got)) {
            fail_msg("%s was taken for a key", malformed[i]);
        }
    }
    assert_int_equal(simba__pb_read(bytes_of("0801", room)).bytes[1].length, 0);
    assert_int_equal(simba__pb_read(bytes_of("1201 05", room)).number[2], 0);
}

/* --- anything ------------------------------------------------------------ */

/* Whatever it is, nothing but the bytes is read; the sanitizers look. */
static void read_as_anything(const char *data, size_t length)
{
    char *copy =
        malloc(length == 0 ? 1 : length); /* nothing stands behind it */
    simba__pb_bytes rest = {copy, length}, inside, deeper;
    simba__etcd_got got;
    simba__etcd_kv kv;
    size_t count = 0;

    memcpy(copy, data, length);
    for (int field = 1; field < SIMBA__PB_FIELDS; field++) {
        rest = (simba__pb_bytes){copy, length};
        while (simba__pb_next(&rest, field, &inside)) {
            deeper = simba__pb_read(inside).bytes[field];
            count += simba__pb_read(deeper).count[1];
        }
    }
    rest = (simba__pb_bytes){copy, length};
    while (simba__etcd_next_got(&rest, &got)) {
        while (simba__etcd_next_kv(&got.all, &kv)) {
            count += simba__etcd_owner_read(&kv).is_there;
        }
    }
    assert_true(count <= 100 * length);
    free(copy);
}

TEST(test_protobuf__broken_messages_do_no_harm)
{
    static const char *const whole[] = {
        a_txn_reply,    a_watch_reply,   a_ttl_reply,
        a_status_reply, a_members_reply, an_alarms_reply,
    };
    struct simba__rng rng = {{1, 2, 3, 4}};
    char room[512], broken[512];

    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        simba__pb_bytes bytes = bytes_of(whole[i], room);

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
