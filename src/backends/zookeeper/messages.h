/* ZooKeeper's requests and replies as bytes. Pure.
 *
 * A packet is a length and so many bytes: numbers with their highest byte
 * first, texts with their length before them. What a server says may be
 * anything: reading stops at the end of the packet, and is broken then. */
#ifndef SIMBA_ZOOKEEPER_MESSAGES_H
#define SIMBA_ZOOKEEPER_MESSAGES_H

#include "util/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds of requests. */
enum simba__zk_op {
    SIMBA__ZK_CREATE = 1,
    SIMBA__ZK_DELETE = 2,
    SIMBA__ZK_EXISTS = 3,
    SIMBA__ZK_GET_DATA = 4,
    SIMBA__ZK_GET_ACL = 6,
    SIMBA__ZK_SET_ACL = 7,
    SIMBA__ZK_SYNC = 9,
    SIMBA__ZK_PING = 11,
    SIMBA__ZK_GET_CHILDREN = 12, /* and their Stat */
    SIMBA__ZK_CHECK = 13,        /* within a multi */
    SIMBA__ZK_MULTI = 14,
    SIMBA__ZK_CREATE2 = 15, /* and tell its Stat */
    SIMBA__ZK_CREATE_CONTAINER = 19,
    SIMBA__ZK_AUTH = 100,
    SIMBA__ZK_CLOSE = -11,
    SIMBA__ZK_WATCH = 1 << 16 /* with data, exists, children */
};

/* Numbers of packets that are no requests of ours. */
enum { SIMBA__ZK_XID_EVENT = -1, SIMBA__ZK_XID_PING = -2 };

/* What has happened to a node. */
enum { SIMBA__ZK_EVENT_DELETED = 2 };

/* What a server answers; others are failures of which nobody knows more. */
#define SIMBA__ZK_CODES(X)                                                     \
    X(NO_MEMORY, 1, "no memory") /* ours, which no server says */              \
    X(OK, 0, "ok")                                                             \
    X(SYSTEM, -1, "system error")                                              \
    X(UNTRIED, -2, "not tried") /* within a multi */                           \
    X(CONNECTION_LOSS, -4, "connection loss")                                  \
    X(MARSHALLING, -5, "marshalling error")                                    \
    X(UNIMPLEMENTED, -6, "unimplemented")                                      \
    X(TIMED_OUT, -7, "operation timeout")                                      \
    X(BAD_ARGUMENTS, -8, "bad arguments")                                      \
    X(NO_NODE, -101, "no node")                                                \
    X(NO_AUTH, -102, "not authenticated")                                      \
    X(NODE_EXISTS, -110, "node exists")                                        \
    X(NOT_EMPTY, -111, "not empty")                                            \
    X(SESSION_EXPIRED, -112, "session expired")                                \
    X(INVALID_ACL, -114, "invalid acl")                                        \
    X(AUTH_FAILED, -115, "authentication failed")                              \
    X(SESSION_MOVED, -118, "session moved")                                    \
    X(NOT_READ_ONLY, -119, "the server is read-only")                          \
    X(NEEDS_SASL, -124, "the server wants SASL")                               \
    X(THROTTLED, -127, "throttled")

#define SIMBA__ZK_CODE(name, value, words) SIMBA__ZK_##name = (value),
enum simba__zk_code { SIMBA__ZK_CODES(SIMBA__ZK_CODE) };

/** In words. */
const char *simba__zk_words(int rc);

enum { SIMBA__ZK_PASSWORD = 16 };

/* --- writing ------------------------------------------------------------- */

void simba__zk_put_int(struct simba__text *to, int32_t value);
void simba__zk_put_long(struct simba__text *to, int64_t value);
void simba__zk_put_bytes(struct simba__text *to,
                         const char *bytes,
                         size_t size);
/** What was put since `begin`, where a 0 was, has its length there. */
void simba__zk_put_length(struct simba__text *to, size_t begin);

/** Number these packets, from `xid` on. */
void simba__zk_number(const struct simba__text *packets, int32_t xid);

/* --- reading ------------------------------------------------------------- */

typedef struct simba__zk_input {
    const char *at;
    size_t left;
    bool is_broken; /* it was shorter than it said */
} simba__zk_input;

int32_t simba__zk_get_int(simba__zk_input *from);
int64_t simba__zk_get_long(simba__zk_input *from);
/** Bytes within the packet; NULL: none, and the length is 0. */
const char *simba__zk_get_bytes(simba__zk_input *from, int *length);

/* What is known of a node. */
typedef struct simba__zk_stat {
    int64_t czxid, ctime_ms, session;
    int32_t cversion, child_count;
} simba__zk_stat;

/* A reply, and what it says if its code is SIMBA__ZK_OK. */
typedef struct simba__zk_reply {
    int op, rc; /* of a multi: the first failure */
    simba__zk_stat stat;
    char *data; /* of a get; of a create2, its path */
    int length;
    char **names; /* of children: one block */
    int *codes;   /* of a multi */
    int count;    /* of names or codes */
    int perms;    /* of anybody */
} simba__zk_reply;

/** Read what a reply to this kind of request says. */
void simba__zk_reply_read(simba__zk_reply *reply, simba__zk_input *from);
void simba__zk_reply_fini(simba__zk_reply *reply);

#endif
