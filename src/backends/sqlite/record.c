/* One mutex between the tables and the model that knows the rules.
 *
 * What a store does with a request is said once, in core/mutex_model.c, where
 * the simulator proves it. Here the rows of the tables are made into such a
 * record, and what has changed in it afterwards is written back. What has not
 * changed is not written, so that those who merely wait cost no disk. */
#include "backends/sqlite/sqlite.h"

#include "util/array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Tombstones of other boots go when they are this old. */
#define STALE_US (UINT64_C(24) * 3600 * 1000000)

void simba__sqlite_record_fini(struct simba__sqlite_record *record)
{
    simba__mutex_fini(&record->before);
    simba__mutex_fini(&record->after);
    free(record->peers);
    memset(record, 0, sizeof *record);
}

/* Empties it, but keeps the room it has. */
static void clear_mutex(struct simba__mutex_record *mutex)
{
    struct simba__mutex_record kept = *mutex;

    memset(mutex, 0, sizeof *mutex);
    mutex->queue = kept.queue;
    mutex->queue_room = kept.queue_room;
    mutex->tombstones = kept.tombstones;
    mutex->tombstone_room = kept.tombstone_room;
}

/* --- columns ------------------------------------------------------------- */

/* A text that does not fit was not written by us: it is taken for "". */
static void read_text(sqlite3_stmt *row, int column, char *to, size_t room)
{
    const unsigned char *text = sqlite3_column_text(row, column);
    size_t length = (size_t)sqlite3_column_bytes(row, column);

    to[0] = '\0';
    if (text != NULL && length < room) {
        memcpy(to, text, length + 1); /* SQLite's texts end with a NUL */
    }
}

static simba_attempt read_attempt(sqlite3_stmt *row, int column)
{
    simba_attempt attempt = {0, 0};
    const unsigned char *bytes = sqlite3_column_blob(row, column);

    if (bytes != NULL &&
        sqlite3_column_bytes(row, column) == SIMBA__SQLITE_ATTEMPT) {
        for (int i = 0; i < 8; i++) { /* big endian */
            attempt.high = attempt.high << 8 | bytes[i];
            attempt.low = attempt.low << 8 | bytes[8 + i];
        }
    }
    return attempt;
}

/* The bytes must live until the statement was stepped. SQLite's own copy could
 * fail for want of memory; then NULL would be bound, which no tombstone equals.
 */
static void bind_attempt(sqlite3_stmt *statement,
                         int index,
                         simba_attempt attempt,
                         unsigned char bytes[SIMBA__SQLITE_ATTEMPT])
{
    for (int i = 7; i >= 0; i--) {
        bytes[i] = (unsigned char)attempt.high;
        bytes[8 + i] = (unsigned char)attempt.low;
        attempt.high >>= 8;
        attempt.low >>= 8;
    }
    sqlite3_bind_blob(statement, index, bytes, SIMBA__SQLITE_ATTEMPT,
                      SQLITE_STATIC);
}

/* --- loading ------------------------------------------------------------- */

/* Returns the new one's index, or SIZE_MAX. */
static size_t add_peer(struct simba__sqlite_record *record)
{
    if (record->peer_count == record->peer_room &&
        !simba__array_reserve(&record->peers, &record->peer_room,
                              record->peer_count + 1, sizeof *record->peers)) {
        return SIZE_MAX;
    }
    memset(&record->peers[record->peer_count], 0, sizeof *record->peers);
    return record->peer_count++;
}

static int load_owner(struct simba__sqlite *self,
                      const char *mutex,
                      simba_error *error)
{
    struct simba__sqlite_record *record = &self->record;
    struct simba__sqlite_peer *peer = &record->peers[SIMBA__SQLITE_OWNER];
    struct simba__mutex_record *before = &record->before;
    simba_owner *owner = &before->owner;
    sqlite3_stmt *row =
        simba__sqlite_prepare(self, SIMBA__SQLITE_LOAD_MUTEX, error);
    int rc;

    if (row == NULL) {
        return error->code;
    }
    sqlite3_bind_text(row, 1, mutex, -1, SQLITE_STATIC);
    rc = sqlite3_step(row);
    if (rc == SQLITE_ROW) {
        before->last_token = (uint64_t)sqlite3_column_int64(row, 4);
        record->version = sqlite3_column_int64(row, 5);
        read_text(row, 0, owner->id, sizeof owner->id);
    }
    /* What is left in simba_tenure of a free mutex is of no tenure any more. */
    if (rc == SQLITE_ROW && owner->id[0] != '\0') {
        owner->acquired_at_ms = sqlite3_column_int64(row, 1);
        owner->ttl_at_ms = sqlite3_column_int64(row, 2);
        owner->transition_at_ms = sqlite3_column_int64(row, 3);
        owner->token = before->last_token;
        before->attempt = read_attempt(row, 6);
        read_text(row, 7, peer->boot, sizeof peer->boot);
        read_text(row, 8, peer->process, sizeof peer->process);
        record->lease_ms = sqlite3_column_int64(row, 9);
        record->is_handover = sqlite3_column_int(row, 10) != 0;
        owner->is_broken = sqlite3_column_int(row, 11) != 0;
        before->former_token = (uint64_t)sqlite3_column_int64(row, 12);
    }
    before->tenure_token = before->last_token;
    sqlite3_reset(row);
    return simba__sqlite_result(self, rc == SQLITE_ROW ? SQLITE_DONE : rc,
                                error);
}

static bool append(struct simba__mutex_record *mutex,
                   const struct simba__waiter *waiter)
{
    if (!simba__array_reserve(&mutex->queue, &mutex->queue_room,
                              mutex->queue_count + 1, sizeof *mutex->queue)) {
        return false;
    }
    mutex->queue[mutex->queue_count++] = *waiter;
    return true;
}

static bool read_waiter(struct simba__sqlite *self, sqlite3_stmt *row)
{
    struct simba__sqlite_record *record = &self->record;
    struct simba__waiter waiter = {
        .position = (uint64_t)sqlite3_column_int64(row, 0),
        .attempt = read_attempt(row, 1),
        .connection = add_peer(record),
        .lapses_ms = sqlite3_column_int64(row, 5),
    };
    int64_t offered_until_ms = sqlite3_column_int64(row, 6);
    struct simba__sqlite_peer *peer;
    bool is_gone, is_offer;

    if (waiter.connection == SIZE_MAX) {
        return false;
    }
    peer = &record->peers[waiter.connection];
    read_text(row, 2, waiter.id, sizeof waiter.id);
    read_text(row, 3, peer->boot, sizeof peer->boot);
    read_text(row, 4, peer->process, sizeof peer->process);
    is_gone = strcmp(peer->boot, self->boot) != 0;
    if (is_gone && self->settings.is_trusted) {
        return true; /* another machine's: it polls, and we leave it alone */
    }
    /* The times of another boot mean nothing to us — unless its process is
     * alive on this very kernel: there are containers that are given a boot id
     * of their own. One that is gone is in the tables, but not in the record as
     * it is to be, so that it will be dropped. */
    is_gone = is_gone &&
              simba__sqlite_life_of(self, peer->process) != SIMBA__SQLITE_ALIVE;
    is_offer = offered_until_ms != 0 && !record->before.is_offered;
    /* The last position given is not kept elsewhere: when nobody waits, the
     * next comes from the clock, which has gone on. */
    if (waiter.position > record->after.last_position &&
        (is_offer || !is_gone)) {
        record->after.last_position = waiter.position;
    }
    if (is_offer) {
        record->before.is_offered = true;
        record->before.offered = record->after.offered = waiter;
        record->before.offered_until_ms = offered_until_ms;
        record->after.offered_until_ms = offered_until_ms;
        record->after.is_offered = !is_gone;
        return true;
    }
    return append(&record->before, &waiter) &&
           (is_gone || append(&record->after, &waiter));
}

static int load_queue(struct simba__sqlite *self,
                      const char *mutex,
                      simba_error *error)
{
    sqlite3_stmt *row =
        simba__sqlite_prepare(self, SIMBA__SQLITE_LOAD_QUEUE, error);
    int rc;

    if (row == NULL) {
        return error->code;
    }
    sqlite3_bind_text(row, 1, mutex, -1, SQLITE_STATIC);
    while ((rc = sqlite3_step(row)) == SQLITE_ROW) {
        if (!read_waiter(self, row)) {
            rc = SQLITE_NOMEM;
            break;
        }
    }
    sqlite3_reset(row);
    return simba__sqlite_result(self, rc, error);
}

/* Of this attempt only: no other matters to it. */
static int load_tombstone(struct simba__sqlite *self,
                          simba_attempt attempt,
                          simba_error *error)
{
    struct simba__mutex_record *after = &self->record.after;
    sqlite3_stmt *row =
        simba__sqlite_prepare(self, SIMBA__SQLITE_LOAD_TOMBSTONE, error);
    unsigned char bytes[SIMBA__SQLITE_ATTEMPT];
    int rc;

    if (row == NULL) {
        return error->code;
    }
    bind_attempt(row, 1, attempt, bytes);
    sqlite3_bind_text(row, 2, self->boot, -1, SQLITE_STATIC);
    rc = sqlite3_step(row);
    if (rc == SQLITE_ROW &&
        !simba__array_reserve(&after->tombstones, &after->tombstone_room, 1,
                              sizeof *after->tombstones)) {
        rc = SQLITE_NOMEM;
    } else if (rc == SQLITE_ROW) {
        after->tombstones[0] =
            (struct simba__tombstone){attempt, sqlite3_column_int64(row, 0)};
        after->tombstone_count = 1;
        rc = SQLITE_DONE;
    }
    sqlite3_reset(row);
    return simba__sqlite_result(self, rc, error);
}

int simba__sqlite_record_load(struct simba__sqlite *self,
                              const simba_request *request,
                              bool is_owner_only,
                              simba_error *error)
{
    struct simba__sqlite_record *record = &self->record;
    struct simba__sqlite_peer *peer;
    int rc;

    assert(!sqlite3_get_autocommit(self->db.handle));
    clear_mutex(&record->before);
    clear_mutex(&record->after);
    record->is_owner_only = is_owner_only;
    record->is_handover = false;
    record->version = record->lease_ms = 0;
    record->peer_count = 0;
    if (add_peer(record) != SIMBA__SQLITE_SELF ||
        add_peer(record) != SIMBA__SQLITE_OWNER) {
        return simba__sqlite_result(self, SQLITE_NOMEM, error);
    }
    peer = &record->peers[SIMBA__SQLITE_SELF];
    memcpy(peer->process, self->process, sizeof self->process);
    memcpy(peer->boot, self->boot, sizeof self->boot);
    rc = load_owner(self, request->mutex, error);
    record->after.owner = record->before.owner;
    record->after.attempt = record->before.attempt;
    record->after.last_token = record->before.last_token;
    record->after.tenure_token = record->before.tenure_token;
    record->after.former_token = record->before.former_token;
    if (rc == SIMBA_OK && !is_owner_only) {
        rc = load_queue(self, request->mutex, error);
    }
    if (rc == SIMBA_OK && !is_owner_only) {
        rc = load_tombstone(self, request->attempt, error);
    }
    if (rc == SIMBA_OK &&
        (record->after.owner.id[0] != '\0' || record->after.is_offered) &&
        !simba__sqlite_correct(self, request->mutex)) {
        rc = simba__sqlite_result(self, SQLITE_NOMEM, error);
    }
    return rc;
}

/* --- storing ------------------------------------------------------------- */

struct writing {
    struct simba__sqlite *self;
    const simba_request *request;
    simba_error *error;
    bool is_changed;
    int rc;
};

/* The statement with the mutex bound as its first parameter; NULL when an
 * earlier one has failed. */
static sqlite3_stmt *prepare(struct writing *w,
                             enum simba__sqlite_statement which)
{
    sqlite3_stmt *statement;

    if (w->rc != SIMBA_OK) {
        return NULL;
    }
    statement = simba__sqlite_prepare(w->self, which, w->error);
    if (statement == NULL) {
        w->rc = w->error->code;
    } else {
        sqlite3_bind_text(statement, 1, w->request->mutex, -1, SQLITE_STATIC);
    }
    return statement;
}

static void execute(struct writing *w, sqlite3_stmt *statement)
{
    w->rc = simba__sqlite_execute(w->self, statement, w->error);
    w->is_changed = true;
}

static void store_owner(struct writing *w)
{
    const struct simba__sqlite *self = w->self;
    const struct simba__sqlite_record *record = &self->record;
    const simba_owner *owner = &record->after.owner;
    const simba_owner *before = &record->before.owner;
    int64_t lease_ms = w->request->ttl_ms + w->request->transition_ms;
    unsigned char bytes[SIMBA__SQLITE_ATTEMPT];
    sqlite3_stmt *statement;

    if (owner->token == before->token &&
        owner->acquired_at_ms == before->acquired_at_ms &&
        owner->ttl_at_ms == before->ttl_at_ms &&
        owner->transition_at_ms == before->transition_at_ms &&
        strcmp(owner->id, before->id) == 0) {
        return;
    }
    statement = prepare(w, SIMBA__SQLITE_STORE_MUTEX);
    if (statement != NULL) {
        sqlite3_bind_int64(statement, 2, owner->acquired_at_ms);
        sqlite3_bind_int64(statement, 3, owner->ttl_at_ms);
        sqlite3_bind_int64(statement, 4, owner->transition_at_ms);
        sqlite3_bind_text(statement, 5, owner->id, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 6,
                           (int64_t)(owner->id[0] != '\0'
                                         ? owner->token
                                         : record->before.last_token));
        execute(w, statement);
    }
    if (owner->id[0] == '\0' ||
        (owner->token == before->token && record->lease_ms == lease_ms)) {
        return;
    }
    /* Only ever our own: nobody else's tenure gets a new beginning or lease. */
    statement = prepare(w, SIMBA__SQLITE_STORE_TENURE);
    if (statement != NULL) {
        sqlite3_bind_int64(statement, 2, (int64_t)owner->token);
        bind_attempt(statement, 3, record->after.attempt, bytes);
        sqlite3_bind_text(statement, 4, self->boot, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 5, self->process, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 6, lease_ms);
        sqlite3_bind_int(statement, 7, self->settings.is_handover);
        sqlite3_bind_int(statement, 8, owner->is_broken);
        sqlite3_bind_int64(statement, 9, (int64_t)record->after.former_token);
        execute(w, statement);
    }
}

static void drop_waiter(struct writing *w, const struct simba__waiter *waiter)
{
    sqlite3_stmt *statement = prepare(w, SIMBA__SQLITE_DROP_WAITER);
    unsigned char bytes[SIMBA__SQLITE_ATTEMPT];

    if (statement != NULL) {
        sqlite3_bind_int64(statement, 2, (int64_t)waiter->position);
        bind_attempt(statement, 3, waiter->attempt, bytes);
        execute(w, statement);
    }
}

static void store_waiter(struct writing *w,
                         const struct simba__waiter *waiter,
                         int64_t offered_until_ms)
{
    const struct simba__sqlite_peer *peer =
        &w->self->record.peers[waiter->connection];
    sqlite3_stmt *statement = prepare(w, SIMBA__SQLITE_STORE_WAITER);
    unsigned char bytes[SIMBA__SQLITE_ATTEMPT];

    if (statement != NULL) {
        sqlite3_bind_int64(statement, 2, (int64_t)waiter->position);
        bind_attempt(statement, 3, waiter->attempt, bytes);
        sqlite3_bind_text(statement, 4, waiter->id, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 5, peer->boot, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 6, peer->process, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 7, waiter->lapses_ms);
        sqlite3_bind_int64(statement, 8, offered_until_ms);
        execute(w, statement);
    }
}

static const struct simba__waiter *find(const struct simba__mutex_record *mutex,
                                        simba_attempt attempt)
{
    for (size_t i = 0; i < mutex->queue_count; i++) {
        if (simba__attempt_equal(mutex->queue[i].attempt, attempt)) {
            return &mutex->queue[i];
        }
    }
    return NULL;
}

static void store_mover(struct writing *w, simba_attempt attempt)
{
    const struct simba__sqlite_record *record = &w->self->record;
    const struct simba__waiter *before = find(&record->before, attempt);
    const struct simba__waiter *after = find(&record->after, attempt);

    if (before != NULL &&
        (after == NULL || before->position != after->position)) {
        drop_waiter(w, before);
        before = NULL;
    }
    /* A longer waiter lease alone is no reason to write while more than half of
     * the old one is left: the waiter will ask again before it ends. */
    if (after != NULL &&
        (before == NULL || strcmp(before->id, after->id) != 0 ||
         strcmp(record->peers[before->connection].process,
                record->peers[after->connection].process) != 0 ||
         (before->lapses_ms != after->lapses_ms &&
          before->lapses_ms - record->now_ms <= w->request->waiter_ms / 2))) {
        store_waiter(w, after, 0);
    }
}

/* Only two waiters can come or change their position: the one that asks, and
 * the one that was offered the mutex and did not come. */
static bool is_mover(const struct writing *w, simba_attempt attempt)
{
    const struct simba__mutex_record *before = &w->self->record.before;

    return simba__attempt_equal(attempt, w->request->attempt) ||
           (before->is_offered &&
            simba__attempt_equal(attempt, before->offered.attempt));
}

/* The row of an old offer is dropped first, because its waiter may be in the
 * queue again; that of a new one is stored last, because its waiter was in the
 * queue before. */
static void store_queue(struct writing *w)
{
    const struct simba__mutex_record *before = &w->self->record.before;
    const struct simba__mutex_record *after = &w->self->record.after;
    simba_attempt me = w->request->attempt;
    bool is_same_offer =
        before->is_offered == after->is_offered &&
        (!after->is_offered ||
         (simba__attempt_equal(before->offered.attempt,
                               after->offered.attempt) &&
          before->offered_until_ms == after->offered_until_ms));
    size_t j = 0;

    if (before->is_offered && !is_same_offer) {
        drop_waiter(w, &before->offered);
    }
    /* All others can only have gone: those that are left are in the same order.
     */
    for (size_t i = 0; i < before->queue_count; i++) {
        if (is_mover(w, before->queue[i].attempt)) {
            continue;
        }
        while (j < after->queue_count && is_mover(w, after->queue[j].attempt)) {
            j++;
        }
        if (j < after->queue_count &&
            simba__attempt_equal(after->queue[j].attempt,
                                 before->queue[i].attempt)) {
            j++;
        } else {
            drop_waiter(w, &before->queue[i]);
        }
    }
    store_mover(w, me);
    if (before->is_offered &&
        !simba__attempt_equal(before->offered.attempt, me)) {
        store_mover(w, before->offered.attempt);
    }
    if (after->is_offered && !is_same_offer) {
        store_waiter(w, &after->offered, after->offered_until_ms);
    }
}

/* The waiters of other machines (fs=trust) are not in the record. With each
 * tenure their rows are swept out; those that live join again. */
static void drop_strangers(struct writing *w)
{
    const struct simba__sqlite *self = w->self;
    sqlite3_stmt *statement;

    if (!self->settings.is_trusted ||
        self->record.after.owner.token <= self->record.before.owner.token ||
        self->record.after.owner.id[0] == '\0') {
        return;
    }
    statement = prepare(w, SIMBA__SQLITE_DROP_STRANGERS);
    if (statement != NULL) {
        sqlite3_bind_text(statement, 2, self->boot, -1, SQLITE_STATIC);
        execute(w, statement);
    }
}

static void store_tombstone(struct writing *w)
{
    const struct simba__sqlite *self = w->self;
    const struct simba__mutex_record *after = &self->record.after;
    unsigned char bytes[SIMBA__SQLITE_ATTEMPT];
    sqlite3_stmt *statement;
    uint64_t wall_us;

    if (w->request->tombstone_ms == 0 || after->tombstone_count == 0) {
        return;
    }
    wall_us = simba__sqlite_wall_us();
    statement = prepare(w, SIMBA__SQLITE_DROP_TOMBSTONES);
    if (statement != NULL) {
        sqlite3_bind_text(statement, 1, self->boot, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 2, self->record.now_ms);
        sqlite3_bind_int64(statement, 3,
                           wall_us > STALE_US ? (int64_t)(wall_us - STALE_US)
                                              : 0);
        execute(w, statement);
    }
    statement = prepare(w, SIMBA__SQLITE_STORE_TOMBSTONE);
    if (statement != NULL) {
        bind_attempt(statement, 1, after->tombstones[0].attempt, bytes);
        sqlite3_bind_text(statement, 2, self->boot, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 3, after->tombstones[0].until_ms);
        sqlite3_bind_int64(statement, 4, (int64_t)wall_us);
        execute(w, statement);
    }
}

int simba__sqlite_record_store(struct simba__sqlite *self,
                               const simba_request *request,
                               bool *is_changed,
                               simba_error *error)
{
    struct writing w = {self, request, error, false, SIMBA_OK};

    assert(!sqlite3_get_autocommit(self->db.handle));
    store_owner(&w);
    if (!self->record.is_owner_only) {
        store_queue(&w);
        drop_strangers(&w);
        store_tombstone(&w);
    }
    *is_changed = w.is_changed;
    return w.rc;
}
