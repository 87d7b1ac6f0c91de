#include "backends/etcd/messages.h"

#include <assert.h>
#include <string.h>

/* How a field is written on the wire. */
enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

struct field {
    uint8_t number, type;
    uint16_t offset;
    bool is_list;
};

struct table {
    size_t size; /* of the struct */
    const struct field *fields;
    size_t count;
};

/* --- the tables ---------------------------------------------------------- */

#define FIELD(number, type, name)                                              \
    {number, SIMBA__ETCD_##type, offsetof(OWNER, name), false},
#define REPEATED(number, type, name)                                           \
    {number, SIMBA__ETCD_##type, offsetof(OWNER, name), true},
#define TABLE(message)                                                         \
    static const struct table *table_of_##message(void)                        \
    {                                                                          \
        typedef simba__etcd_##message OWNER;                                   \
        static const struct field fields[] = {                                 \
            SIMBA__ETCD_FIELDS_##message(FIELD, REPEATED)};                    \
        static const struct table table = {sizeof(OWNER), fields,              \
                                           sizeof fields / sizeof *fields};    \
                                                                               \
        return &table;                                                         \
    }
SIMBA__ETCD_MESSAGES(TABLE)

#define TABLE_OF(message) table_of_##message,
static const struct table *(*const tables[])(void) = {
    SIMBA__ETCD_MESSAGES(TABLE_OF)};

/* Room for any of them. */
#define ANY(message) simba__etcd_##message message;
union any {
    SIMBA__ETCD_MESSAGES(ANY)
};

#define METHOD(name, path, request, reply)                                     \
    {"/etcdserverpb." path, SIMBA__ETCD_##request, SIMBA__ETCD_##reply},
const struct simba__etcd_method_info simba__etcd_methods[] = {
    SIMBA__ETCD_METHODS(METHOD)};

static bool is_message(uint32_t type)
{
    return type < SIMBA__ETCD_number;
}

/* --- writing ------------------------------------------------------------- */

static size_t put_varint(char *bytes, uint64_t value)
{
    size_t count = 0;

    for (; value >= 0x80; value >>= 7) {
        bytes[count++] = (char)(value | 0x80);
    }
    bytes[count++] = (char)value;
    return count;
}

static void add_varint(struct simba__text *text, uint64_t value)
{
    char bytes[10];

    simba__text_add(text, bytes, put_varint(bytes, value));
}

void simba__etcd_encode(struct simba__text *text,
                        enum simba__etcd_type type,
                        const void *message)
{
    const struct table *table = tables[type]();
    uint64_t has, value;
    simba__etcd_bytes bytes;

    memcpy(&has, message, sizeof has);
    for (size_t i = 0; i < table->count; i++) {
        const struct field *field = &table->fields[i];
        const char *member = (const char *)message + field->offset;
        bool wanted = field->number < 64 && has >> field->number & 1;

        if (field->is_list) {
            continue;
        }
        if (is_message(field->type)) {
            if (wanted) {
                simba__etcd_add(text, field->number, field->type, member);
            }
        } else if (field->type == SIMBA__ETCD_bytes) {
            memcpy(&bytes, member, sizeof bytes);
            if (wanted || bytes.length > 0) {
                add_varint(text, (uint64_t)field->number << 3 | LENGTH);
                add_varint(text, bytes.length);
                simba__text_add(text, bytes.length == 0 ? "" : bytes.at,
                                bytes.length);
            }
        } else {
            value = (unsigned char)*member;
            if (field->type == SIMBA__ETCD_number) {
                memcpy(&value, member, sizeof value);
            }
            if (wanted || value != 0) {
                add_varint(text, (uint64_t)field->number << 3 | VARINT);
                add_varint(text, value);
            }
        }
    }
}

/* Its length comes before it, but is known after it. */
void simba__etcd_add(struct simba__text *text,
                     uint32_t number,
                     enum simba__etcd_type type,
                     const void *message)
{
    char bytes[10];
    size_t start, length, count;

    add_varint(text, (uint64_t)number << 3 | LENGTH);
    start = text->length;
    simba__etcd_encode(text, type, message);
    length = text->length - start;
    count = put_varint(bytes, length);
    simba__text_add(text, bytes, count);
    if (!text->is_failed) {
        memmove(text->bytes + start + count, text->bytes + start, length);
        memcpy(text->bytes + start, bytes, count);
    }
}

simba__etcd_bytes simba__etcd_text(const char *text)
{
    return (simba__etcd_bytes){text, strlen(text)};
}

/* --- reading ------------------------------------------------------------- */

/* The next bytes; false: there are not so many. */
static bool take(simba__etcd_bytes *in, uint64_t count, simba__etcd_bytes *out)
{
    if (count > in->length) {
        return false;
    }
    *out = (simba__etcd_bytes){in->at, (size_t)count};
    in->at += count;
    in->length -= (size_t)count;
    return true;
}

static bool take_varint(simba__etcd_bytes *in, uint64_t *value)
{
    simba__etcd_bytes one;

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
static bool take_field(simba__etcd_bytes *in,
                       uint64_t *tag,
                       uint64_t *value,
                       simba__etcd_bytes *part)
{
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

static const struct field *find(const struct table *table, uint64_t number)
{
    for (size_t i = 0; i < table->count; i++) {
        if (table->fields[i].number == number) {
            return &table->fields[i];
        }
    }
    return NULL;
}

bool simba__etcd_decode(simba__etcd_bytes bytes,
                        enum simba__etcd_type type,
                        void *message)
{
    const struct table *table = tables[type]();
    uint64_t tag, value = 0, has = 0;
    simba__etcd_bytes part = {"", 0};
    union any scratch;

    memset(message, 0, table->size);
    while (bytes.length > 0) {
        simba__etcd_bytes here = bytes;
        const struct field *field;
        char *member;
        bool flag;

        if (!take_field(&bytes, &tag, &value, &part)) {
            return false;
        }
        field = find(table, tag >> 3);
        if (field == NULL) {
            continue;
        }
        member = (char *)message + field->offset;
        has |= field->number < 64 ? SIMBA__ETCD_HAS(field->number) : 0;
        if ((tag & 7) != (field->type == SIMBA__ETCD_number ||
                                  field->type == SIMBA__ETCD_flag
                              ? VARINT
                              : LENGTH)) {
            return false;
        }
        if (field->is_list) {
            simba__etcd_list *list = (simba__etcd_list *)(void *)member;

            if (list->count++ == 0) {
                *list = (simba__etcd_list){1, here, field->number, field->type};
            }
            member = (char *)&scratch;
        }
        if (is_message(field->type)) {
            if (!simba__etcd_decode(part, field->type, member)) {
                return false;
            }
        } else if (field->type == SIMBA__ETCD_bytes) {
            memcpy(member, &part, sizeof part);
        } else if (field->type == SIMBA__ETCD_number) {
            memcpy(member, &value, sizeof value);
        } else {
            flag = value != 0;
            memcpy(member, &flag, sizeof flag);
        }
    }
    memcpy(message, &has, sizeof has);
    return true;
}

bool simba__etcd_next(simba__etcd_list *list, void *item)
{
    uint64_t tag, value;
    simba__etcd_bytes part = {"", 0};

    if (list->count == 0) {
        return false;
    }
    list->count--;
    do {
        bool ok = take_field(&list->rest, &tag, &value, &part);

        assert(ok); /* it was read once already */
        (void)ok;
    } while (tag >> 3 != list->number);
    if (is_message(list->type)) {
        return simba__etcd_decode(part, list->type, item);
    }
    memcpy(item, &part, sizeof part);
    return true;
}
