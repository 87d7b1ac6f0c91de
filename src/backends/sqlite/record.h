/* One mutex between the database and the row that knows the rules.
 *
 * What a store does with a request is said once, in core/mutex_record.c,
 * where the simulator proves it. Here the rows of the tables are made into such
 * a row, and what has changed in it afterwards is written back. */
#ifndef SIMBA_SQLITE_RECORD_H
#define SIMBA_SQLITE_RECORD_H

#include "backends/sqlite/clock.h"
#include "backends/sqlite/presence.h"
#include "core/mutex_record.h"

#include <simba/sys/backend.h>

struct simba__sqlite;
struct sqlite3_stmt;

/* Through which handle somebody owns or waits. A waiter's `connection` is an
 * index of these. */
struct simba__sqlite_peer {
    char process[SIMBA__SQLITE_PROCESS + 1];
    char boot[SIMBA__SQLITE_BOOT + 1];
};

enum { SIMBA__SQLITE_SELF = 0, SIMBA__SQLITE_OWNER = 1 };

struct simba__sqlite_record {
    struct simba__mutex_record row; /* as it is to be */

    /* As it was. */
    simba_owner owner;
    struct simba__attempt attempt;
    uint64_t token;  /* the last one, also of a free mutex */
    uint64_t former; /* of the tenure before the owner's; 0: not known */
    int64_t version;
    int64_t lease_ms;
    bool is_handover;
    bool is_offered;
    struct simba__waiter called;
    int64_t called_until_ms;
    struct simba__waiter *line;
    size_t line_count, line_room;
    int64_t tomb_until_ms; /* of this attempt; 0: none */

    struct simba__sqlite_peer *peers;
    size_t peer_count, peer_room;
};

/** What is read of a mutex, for whom. */
struct simba__sqlite_wish {
    const simba_request *request;
    int64_t now_ms;     /* the store's clock */
    bool is_owner_only; /* leave out the line and the tombstone */
};

void simba__sqlite_record_fini(struct simba__sqlite_record *record);

/** Read. Within a transaction. */
int simba__sqlite_record_load(struct simba__sqlite *self,
                              const struct simba__sqlite_wish *wish,
                              simba_error *error);

/**
 * Write what is new. Within a transaction.
 *
 * @param[out] is_changed  whether anything was
 */
int simba__sqlite_record_store(struct simba__sqlite *self,
                               const struct simba__sqlite_wish *wish,
                               bool *is_changed,
                               simba_error *error);

/** The attempt of an operation, as the row has it. */
struct simba__attempt simba__sqlite_attempt(const simba_request *request);

enum { SIMBA__SQLITE_ATTEMPT = 16 };

/** Bind an attempt, written to `bytes`, SIMBA__SQLITE_ATTEMPT of them, which
 * must live until the statement was stepped. A copy could fail for want of
 * memory, and what is not bound is NULL, which no tombstone equals. */
void simba__sqlite_bind_attempt(struct sqlite3_stmt *statement,
                                int index,
                                struct simba__attempt attempt,
                                unsigned char *bytes);

/** Room for one more; false when memory ran out. */
bool simba__sqlite_grow(void **items, size_t count, size_t *room, size_t size);

#endif
