/* ZooKeeper's requests and replies as bytes. See messages.h. */
#include "backends/zookeeper/messages.h"

#include <stdlib.h>
#include <string.h>

const char *simba__zk_words(int rc)
{
#define WORDS(name, value, words)                                              \
    case value:                                                                \
        return words;
    switch (rc) {
        SIMBA__ZK_CODES(WORDS)
    default:
        return "unknown error";
    }
#undef WORDS
}

/* --- writing ------------------------------------------------------------- */

static void write_int(char *to, int32_t value)
{
    for (int i = 0; i < 4; i++) {
        to[i] = (char)((uint32_t)value >> (24 - 8 * i));
    }
}

void simba__zk_put_int(struct simba__text *to, int32_t value)
{
    char bytes[4];

    write_int(bytes, value);
    simba__text_add(to, bytes, sizeof bytes);
}

void simba__zk_put_long(struct simba__text *to, int64_t value)
{
    simba__zk_put_int(to, (int32_t)((uint64_t)value >> 32));
    simba__zk_put_int(to, (int32_t)(uint32_t)value);
}

void simba__zk_put_bytes(struct simba__text *to, const char *bytes, size_t size)
{
    simba__zk_put_int(to, (int32_t)size);
    simba__text_add(to, bytes, size);
}

void simba__zk_put_length(struct simba__text *to, size_t begin)
{
    if (!to->is_failed) {
        write_int(to->bytes + begin, (int32_t)(to->length - begin - 4));
    }
}

void simba__zk_number(const struct simba__text *packets, int32_t xid)
{
    for (size_t at = 0; at < packets->length; xid++) {
        simba__zk_input in = {packets->bytes + at, 4, false};

        write_int(packets->bytes + at + 4, xid);
        at += 4 + (size_t)simba__zk_get_int(&in);
    }
}

/* --- reading ------------------------------------------------------------- */

/* NULL: there are not so many. */
static const char *take(simba__zk_input *from, size_t size)
{
    const char *at = from->at;

    if (size > from->left) {
        from->is_broken = true;
        from->left = 0;
        return NULL;
    }
    from->at += size;
    from->left -= size;
    return at;
}

int32_t simba__zk_get_int(simba__zk_input *from)
{
    const unsigned char *at = (const unsigned char *)take(from, 4);

    return at == NULL
               ? 0
               : (int32_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
                           (uint32_t)at[2] << 8 | (uint32_t)at[3]);
}

int64_t simba__zk_get_long(simba__zk_input *from)
{
    uint64_t high = (uint32_t)simba__zk_get_int(from);

    return (int64_t)(high << 32 | (uint32_t)simba__zk_get_int(from));
}

const char *simba__zk_get_bytes(simba__zk_input *from, int *length)
{
    const char *at;

    *length = simba__zk_get_int(from);
    at = *length <= 0 ? NULL : take(from, (size_t)*length);
    *length = at == NULL ? 0 : *length;
    return at;
}

static void get_stat(simba__zk_input *from, simba__zk_stat *stat)
{
    stat->czxid = simba__zk_get_long(from);
    (void)take(from, 8); /* mzxid */
    stat->ctime_ms = simba__zk_get_long(from);
    (void)take(from, 12); /* mtime, version */
    stat->cversion = simba__zk_get_int(from);
    (void)take(from, 4); /* aversion */
    stat->session = simba__zk_get_long(from);
    (void)take(from, 4); /* length of its data */
    stat->child_count = simba__zk_get_int(from);
    (void)take(from, 8); /* pzxid */
}

/* One block: the list, and behind it the texts, each with a NUL. */
static void get_names(simba__zk_input *from, simba__zk_reply *reply)
{
    int32_t said = simba__zk_get_int(from);
    size_t count = said < 0 ? 0 : (size_t)said;
    char *to;

    if (count > from->left / 4) { /* each has its length */
        from->is_broken = true;
        return;
    }
    reply->names = malloc((count + 1) * sizeof(char *) + from->left + 1);
    if (reply->names == NULL) {
        reply->rc = SIMBA__ZK_NO_MEMORY;
        return;
    }
    to = (char *)(reply->names + count + 1);
    for (size_t i = 0; i < count && !from->is_broken; i++) {
        int length;
        const char *name = simba__zk_get_bytes(from, &length);

        reply->names[i] = to;
        if (length > 0) {
            memcpy(to, name, (size_t)length);
        }
        to[length] = '\0';
        to += length + 1;
    }
    reply->count = (int)count;
}

static void get_data(simba__zk_input *from, simba__zk_reply *reply)
{
    const char *data = simba__zk_get_bytes(from, &reply->length);

    reply->data = calloc(1, (size_t)reply->length + 1);
    if (reply->data == NULL) {
        reply->rc = SIMBA__ZK_NO_MEMORY;
    } else if (data != NULL) {
        memcpy(reply->data, data, (size_t)reply->length);
    }
}

/* Of a list of ACLs, what anybody may do. */
static int get_anyone(simba__zk_input *from)
{
    int perms = 0;

    for (int count = simba__zk_get_int(from); count > 0 && !from->is_broken;
         count--) {
        int length, its = simba__zk_get_int(from);
        const char *scheme = simba__zk_get_bytes(from, &length);

        perms |= length == 5 && memcmp(scheme, "world", 5) == 0 ? its : 0;
        (void)simba__zk_get_bytes(from, &length);
    }
    return perms;
}

/* Of a multi that failed, one part tells why; those before it were undone,
 * those behind it were not tried. */
static void get_multi(simba__zk_input *from, simba__zk_reply *reply)
{
    enum { HEADER = 9 };
    int type, length;
    const char *is_end;

    reply->codes = calloc(from->left / HEADER + 1, sizeof reply->codes[0]);
    if (reply->codes == NULL) {
        reply->rc = SIMBA__ZK_NO_MEMORY;
        return;
    }
    while (type = simba__zk_get_int(from), is_end = take(from, 1),
           (void)take(from, 4), is_end != NULL && *is_end == 0) {
        int rc = type == -1 ? simba__zk_get_int(from) : SIMBA__ZK_OK;

        reply->codes[reply->count++] = rc;
        if (reply->rc == SIMBA__ZK_OK && rc != SIMBA__ZK_UNTRIED) {
            reply->rc = rc;
        }
        if (type == SIMBA__ZK_CREATE) {
            (void)simba__zk_get_bytes(from, &length); /* its path */
        }
    }
    for (int i = 0; reply->rc != SIMBA__ZK_OK && i < reply->count; i++) {
        reply->codes[i] = reply->codes[i] == SIMBA__ZK_OK ? SIMBA__ZK_UNTRIED
                                                          : reply->codes[i];
    }
}

void simba__zk_reply_read(simba__zk_reply *reply, simba__zk_input *from)
{
    switch (reply->op) {
    case SIMBA__ZK_CREATE2:
    case SIMBA__ZK_GET_DATA:
        get_data(from, reply);
        get_stat(from, &reply->stat);
        break;
    case SIMBA__ZK_GET_CHILDREN:
        get_names(from, reply);
        get_stat(from, &reply->stat);
        break;
    case SIMBA__ZK_EXISTS:
        get_stat(from, &reply->stat);
        break;
    case SIMBA__ZK_GET_ACL:
        reply->perms = get_anyone(from);
        break;
    case SIMBA__ZK_MULTI:
        get_multi(from, reply);
        break;
    default: /* that it was done is all */
        break;
    }
}

void simba__zk_reply_fini(simba__zk_reply *reply)
{
    free(reply->data);
    free(reply->names);
    free(reply->codes);
    *reply = (simba__zk_reply){0};
}
