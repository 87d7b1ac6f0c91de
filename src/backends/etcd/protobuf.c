#include "backends/etcd/protobuf.h"

#include <string.h>

/* How a field is written on the wire. */
enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

/* --- writing ------------------------------------------------------------- */

static size_t put_varint(char bytes[10], uint64_t value)
{
    size_t count = 0;

    for (; value >= 0x80; value >>= 7) {
        bytes[count++] = (char)(value | 0x80);
    }
    bytes[count++] = (char)value;
    return count;
}

static void add_varint(struct simba__text *to, uint64_t value)
{
    char bytes[10];

    simba__text_add(to, bytes, put_varint(bytes, value));
}

void simba__pb_number(struct simba__text *to, int field, int64_t number)
{
    if (number != 0) {
        add_varint(to, (uint64_t)field << 3 | VARINT);
        add_varint(to, (uint64_t)number);
    }
}

void simba__pb_text(struct simba__text *to, int field, const char *text)
{
    if (text[0] != '\0') {
        add_varint(to, (uint64_t)field << 3 | LENGTH);
        add_varint(to, strlen(text));
        simba__text_put(to, text);
    }
}

size_t simba__pb_begin(struct simba__text *to, int field)
{
    add_varint(to, (uint64_t)field << 3 | LENGTH);
    return to->length;
}

/* Its length comes before it, but is known after it. */
void simba__pb_end(struct simba__text *to, size_t began)
{
    char bytes[10];
    size_t length = to->length - began, count = put_varint(bytes, length);

    simba__text_add(to, bytes, count);
    if (!to->is_failed) {
        memmove(to->bytes + began + count, to->bytes + began, length);
        memcpy(to->bytes + began, bytes, count);
    }
}

/* --- reading ------------------------------------------------------------- */

/* The next bytes; false: there are not so many. */
static bool take(simba__pb_bytes *in, uint64_t count, simba__pb_bytes *out)
{
    if (count > in->length) {
        return false;
    }
    *out = (simba__pb_bytes){in->at, (size_t)count};
    in->at += count;
    in->length -= (size_t)count;
    return true;
}

static bool take_varint(simba__pb_bytes *in, uint64_t *value)
{
    simba__pb_bytes one;

    *value = 0;
    for (int shift = 0; shift < 64 && take(in, 1, &one); shift += 7) {
        uint64_t bits = (unsigned char)*one.at;

        if (shift == 63 && bits > 1) {
            return false;
        }
        *value |= (bits & 0x7f) << shift;
        if (bits < 0x80) {
            return true;
        }
    }
    return false;
}

/* One field: its tag, and its value or its bytes. */
static bool take_field(simba__pb_bytes *in,
                       uint64_t *tag,
                       uint64_t *value,
                       simba__pb_bytes *part)
{
    *part = (simba__pb_bytes){"", 0};
    if (!take_varint(in, tag) || *tag >> 3 == 0 || *tag >> 32 != 0) {
        return false;
    }
    switch (*tag & 7) {
    case VARINT:
        return take_varint(in, value);
    case FIXED64:
        return take(in, 8, part);
    case LENGTH:
        return take_varint(in, value) && take(in, *value, part);
    case FIXED32:
        return take(in, 4, part);
    default:
        return false;
    }
}

simba__pb_fields simba__pb_read(simba__pb_bytes message)
{
    simba__pb_fields fields = {0};
    uint64_t tag, value = 0;
    simba__pb_bytes part;

    while (message.length > 0 && !fields.is_broken) {
        fields.is_broken = !take_field(&message, &tag, &value, &part);
        if (!fields.is_broken && tag >> 3 < SIMBA__PB_FIELDS) {
            fields.number[tag >> 3] = (tag & 7) == VARINT ? (int64_t)value : 0;
            fields.bytes[tag >> 3] = part;
            fields.count[tag >> 3]++;
        }
    }
    return fields;
}

bool simba__pb_next(simba__pb_bytes *rest, int field, simba__pb_bytes *item)
{
    uint64_t tag, value;

    while (rest->length > 0 && take_field(rest, &tag, &value, item)) {
        if (tag == ((uint64_t)field << 3 | LENGTH)) {
            return true;
        }
    }
    return false;
}
