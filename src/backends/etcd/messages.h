/* The messages of etcd's v3 API that we use, between C structs and protobuf.
 *
 * A list says which field has which number, type and name; structs and tables
 * are made of it, and one encoder and one decoder serve them all. Both are
 * pure, and what was decoded points into the bytes it was decoded from. Numbers
 * and meanings are those of etcd's rpc.proto and kv.proto. */
#ifndef SIMBA_BACKENDS_ETCD_MESSAGES_H
#define SIMBA_BACKENDS_ETCD_MESSAGES_H

#include "util/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Types of fields that are no messages. */
typedef int64_t simba__etcd_number;
typedef bool simba__etcd_flag;

/** Not ended by a NUL. */
typedef struct simba__etcd_bytes {
    const char *at;
    size_t length;
} simba__etcd_bytes;

/** What is repeated in a message; simba__etcd_next() takes it one by one. */
typedef struct simba__etcd_list {
    size_t count;
    simba__etcd_bytes rest;
    uint32_t number, type;
} simba__etcd_list;

/* F(number, type, name) is a field, L(…) a list of such. */
/* clang-format off */
#define SIMBA__ETCD_FIELDS_header(F, L)                                        \
    F(1, number, cluster_id) F(2, number, member_id) F(3, number, revision)    \
    F(4, number, raft_term)
#define SIMBA__ETCD_FIELDS_none(F, L) F(1, header, header)
#define SIMBA__ETCD_FIELDS_kv(F, L)                                            \
    F(1, bytes, key) F(2, number, create_revision) F(3, number, mod_revision)  \
    F(4, number, version) F(5, bytes, value) F(6, number, lease)

/* From key to range_end, without that; no end: the key alone. sort_order: 1 up,
 * 2 down. sort_target: 0 key, 1 version, 2 create, 3 mod, 4 value. The count is
 * of all keys in the range, beyond the limit too. */
#define SIMBA__ETCD_FIELDS_range(F, L)                                         \
    F(1, bytes, key) F(2, bytes, range_end) F(3, number, limit)                \
    F(4, number, revision) F(5, number, sort_order) F(6, number, sort_target)  \
    F(7, flag, serializable) F(8, flag, keys_only) F(9, flag, count_only)      \
    F(13, number, max_create_revision)
#define SIMBA__ETCD_FIELDS_range_reply(F, L)                                   \
    F(1, header, header) L(2, kv, kvs) F(3, flag, more) F(4, number, count)
#define SIMBA__ETCD_FIELDS_put(F, L)                                           \
    F(1, bytes, key) F(2, bytes, value) F(3, number, lease)
#define SIMBA__ETCD_FIELDS_delete_range(F, L)                                  \
    F(1, bytes, key) F(2, bytes, range_end)
#define SIMBA__ETCD_FIELDS_delete_reply(F, L)                                  \
    F(1, header, header) F(2, number, deleted)

/* Holds if it does for all keys of the range. A key that is absent has 0 in all
 * its numbers, and what compares its value does not hold. */
#define SIMBA__ETCD_FIELDS_compare(F, L)                                       \
    F(1, number, result) F(2, number, target) F(3, bytes, key)                 \
    F(4, number, version) F(5, number, create_revision)                        \
    F(6, number, mod_revision) F(7, bytes, value) F(64, bytes, range_end)
enum { SIMBA__ETCD_EQUAL, SIMBA__ETCD_GREATER, SIMBA__ETCD_LESS };
enum {
    SIMBA__ETCD_VERSION, SIMBA__ETCD_CREATE, SIMBA__ETCD_MOD, SIMBA__ETCD_VALUE
};

/* What a transaction does: one of the three. It is put together with
 * simba__etcd_add(), by the numbers IF, THEN and ELSE. */
#define SIMBA__ETCD_FIELDS_op(F, L)                                            \
    F(1, range, range) F(2, put, put) F(3, delete_range, delete_range)
#define SIMBA__ETCD_FIELDS_op_reply(F, L)                                      \
    F(1, range_reply, range) F(2, none, put)                                   \
    F(3, delete_reply, delete_range)
#define SIMBA__ETCD_FIELDS_txn(F, L)                                           \
    L(1, compare, compare) L(2, op, success) L(3, op, failure)
enum { SIMBA__ETCD_IF = 1, SIMBA__ETCD_THEN, SIMBA__ETCD_ELSE };
#define SIMBA__ETCD_FIELDS_txn_reply(F, L)                                     \
    F(1, header, header) F(2, flag, succeeded) L(3, op_reply, responses)

/* What is asked on the stream of watches: one of the three. Progress is told by
 * the revision that all watches are at. start_revision 0: from now on;
 * watch_id 0: the server chooses one; filter 0, if it is there: no puts, 1: no
 * deletions. */
#define SIMBA__ETCD_FIELDS_watch_create(F, L)                                  \
    F(1, bytes, key) F(2, bytes, range_end) F(3, number, start_revision)       \
    F(4, flag, progress_notify) F(5, number, filter) F(6, flag, prev_kv)       \
    F(7, number, watch_id) F(8, flag, fragment)
#define SIMBA__ETCD_FIELDS_watch_cancel(F, L) F(1, number, watch_id)
#define SIMBA__ETCD_FIELDS_watch(F, L)                                         \
    F(1, watch_create, create) F(2, watch_cancel, cancel) F(3, none, progress)

/* Event type 0: put, 1: deletion. watch_id -1: all of the stream.
 * compact_revision not 0: the watch began before it. fragment: more events of
 * this revision will follow. */
#define SIMBA__ETCD_FIELDS_event(F, L)                                         \
    F(1, number, type) F(2, kv, kv) F(3, kv, prev_kv)
#define SIMBA__ETCD_FIELDS_watch_reply(F, L)                                   \
    F(1, header, header) F(2, number, watch_id) F(3, flag, created)            \
    F(4, flag, canceled) F(5, number, compact_revision)                        \
    F(6, bytes, cancel_reason) F(7, flag, fragment) L(11, event, events)

/* Times to live are in seconds; 0 or -1 in a reply: there is no such lease. */
#define SIMBA__ETCD_FIELDS_lease_grant(F, L) F(1, number, ttl) F(2, number, id)
#define SIMBA__ETCD_FIELDS_lease(F, L) F(1, number, id)
#define SIMBA__ETCD_FIELDS_lease_reply(F, L)                                   \
    F(1, header, header) F(2, number, id) F(3, number, ttl)                    \
    F(4, number, granted_ttl)

#define SIMBA__ETCD_FIELDS_authenticate(F, L)                                  \
    F(1, bytes, name) F(2, bytes, password)
#define SIMBA__ETCD_FIELDS_authenticate_reply(F, L)                            \
    F(1, header, header) F(2, bytes, token)

/* For the doctor. leader 0: there is none; alarm 1: no space, 2: corrupt. */
#define SIMBA__ETCD_FIELDS_status_reply(F, L)                                  \
    F(1, header, header) F(2, bytes, version) F(3, number, db_size)            \
    F(4, number, leader) F(5, number, raft_index) F(6, number, raft_term)      \
    F(7, number, raft_applied_index) L(8, bytes, errors)                       \
    F(9, number, db_size_in_use) F(10, flag, is_learner)
#define SIMBA__ETCD_FIELDS_member(F, L)                                        \
    F(1, number, id) F(2, bytes, name) L(3, bytes, peer_urls)                  \
    L(4, bytes, client_urls) F(5, flag, is_learner)
#define SIMBA__ETCD_FIELDS_members_reply(F, L)                                 \
    F(1, header, header) L(2, member, members)
#define SIMBA__ETCD_FIELDS_alarm(F, L)                                         \
    F(1, number, member_id) F(2, number, alarm)
#define SIMBA__ETCD_FIELDS_alarms_reply(F, L)                                  \
    F(1, header, header) L(2, alarm, alarms)

/* Each after those that are in it. */
#define SIMBA__ETCD_MESSAGES(X)                                                \
    X(header) X(none) X(kv) X(range) X(range_reply) X(put)                     \
    X(delete_range) X(delete_reply) X(compare) X(op) X(op_reply) X(txn)        \
    X(txn_reply) X(watch_create) X(watch_cancel) X(watch) X(event)             \
    X(watch_reply) X(lease_grant) X(lease) X(lease_reply) X(authenticate)      \
    X(authenticate_reply) X(status_reply) X(member) X(members_reply) X(alarm)  \
    X(alarms_reply)
/* clang-format on */

/* The structs: simba__etcd_kv with key, create_revision, and so on. `has` says
 * which fields are there, a bit for each number below 64: to be sent, a message
 * in a message needs it, and a number that is 0. */
#define SIMBA__ETCD_HAS(number)                  (UINT64_C(1) << (number))
#define SIMBA__ETCD_MEMBER(number, type, name)   simba__etcd_##type name;
#define SIMBA__ETCD_REPEATED(number, type, name) simba__etcd_list name;
#define SIMBA__ETCD_STRUCT(type)                                               \
    typedef struct simba__etcd_##type {                                        \
        uint64_t has;                                                          \
        SIMBA__ETCD_FIELDS_##type(SIMBA__ETCD_MEMBER, SIMBA__ETCD_REPEATED)    \
    } simba__etcd_##type;
SIMBA__ETCD_MESSAGES(SIMBA__ETCD_STRUCT)

#define SIMBA__ETCD_ENUM(type) SIMBA__ETCD_##type,
enum simba__etcd_type {
    SIMBA__ETCD_MESSAGES(SIMBA__ETCD_ENUM)
    /* Not messages. */
    SIMBA__ETCD_number,
    SIMBA__ETCD_flag,
    SIMBA__ETCD_bytes
};

/* X(name, path, request, reply): what can be called. */
#define SIMBA__ETCD_METHODS(X)                                                 \
    X(RANGE, "KV/Range", range, range_reply)                                   \
    X(PUT, "KV/Put", put, none)                                                \
    X(DELETE, "KV/DeleteRange", delete_range, delete_reply)                    \
    X(TXN, "KV/Txn", txn, txn_reply)                                           \
    X(WATCH, "Watch/Watch", watch, watch_reply) /* a stream */                 \
    X(LEASE_GRANT, "Lease/LeaseGrant", lease_grant, lease_reply)               \
    X(LEASE_REVOKE, "Lease/LeaseRevoke", lease, none)                          \
    X(KEEP_ALIVE, "Lease/LeaseKeepAlive", lease, lease_reply) /* a stream */   \
    X(LEASE_TTL, "Lease/LeaseTimeToLive", lease, lease_reply)                  \
    X(AUTHENTICATE, "Auth/Authenticate", authenticate, authenticate_reply)     \
    X(STATUS, "Maintenance/Status", none, status_reply)                        \
    X(MEMBERS, "Cluster/MemberList", none, members_reply)                      \
    X(ALARMS, "Maintenance/Alarm", none, alarms_reply)

#define SIMBA__ETCD_METHOD_ENUM(name, path, request, reply) SIMBA__ETCD_##name,
enum simba__etcd_method {
    SIMBA__ETCD_METHODS(SIMBA__ETCD_METHOD_ENUM) SIMBA__ETCD_METHOD_COUNT
};

extern const struct simba__etcd_method_info {
    const char *path;
    enum simba__etcd_type request, reply;
} simba__etcd_methods[SIMBA__ETCD_METHOD_COUNT];

/** Add a message to what has been written; a text without memory fails. Lists
 * are left out; simba__etcd_add() writes them one by one. */
void simba__etcd_encode(struct simba__text *text,
                        enum simba__etcd_type type,
                        const void *message);

/** Add a field of this number to the message that is being written. */
void simba__etcd_add(struct simba__text *text,
                     uint32_t number,
                     enum simba__etcd_type type,
                     const void *message);

/**
 * Read a message with all that is in it. Unknown fields are passed over; of a
 * field that comes twice the last one counts.
 *
 * @param message  the struct of the type; what is not in the message is 0
 * @return false: this is no such message, and the struct is of no use
 */
bool simba__etcd_decode(simba__etcd_bytes bytes,
                        enum simba__etcd_type type,
                        void *message);

/** Take the next of a list, a struct of its type. False: there is none. */
bool simba__etcd_next(simba__etcd_list *list, void *item);

/** The bytes of a text. */
simba__etcd_bytes simba__etcd_text(const char *text);

#endif
