/* Writes back what has changed in a mutex; see record.h. What has not changed
 * is not written, so that those who merely wait cost no disk. */
#include "backends/sqlite/instance.h"

#include <string.h>

/* Tombstones of other boots go when they are this old. */
#define STALE_US (UINT64_C(24) * 3600 * 1000000)

struct writing {
    struct simba__sqlite *self;
    const struct simba__sqlite_wish *wish;
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
    statement = simba__sqlite_db_statement(&w->self->db, which, w->error);
    if (statement == NULL) {
        w->rc = w->error->code;
        return NULL;
    }
    sqlite3_bind_text(statement, 1, w->wish->request->mutex, -1, SQLITE_STATIC);
    return statement;
}

static void execute(struct writing *w, sqlite3_stmt *statement)
{
    w->rc = simba__sqlite_db_execute(&w->self->db, statement, w->error);
    w->is_changed = true;
}

/* --- the owner ----------------------------------------------------------- */

static bool is_same_owner(const simba_owner *a, const simba_owner *b)
{
    return a->token == b->token && a->acquired_at_ms == b->acquired_at_ms &&
           a->ttl_at_ms == b->ttl_at_ms &&
           a->transition_at_ms == b->transition_at_ms &&
           strcmp(a->id, b->id) == 0;
}

static void store_mutex(struct writing *w)
{
    const struct simba__sqlite_record *record = &w->self->record;
    const simba_owner *owner = &record->row.owner;
    bool is_owned = owner->id[0] != '\0';
    sqlite3_stmt *statement = prepare(w, SIMBA__SQLITE_STORE_MUTEX);

    if (statement == NULL) {
        return;
    }
    sqlite3_bind_int64(statement, 2, owner->acquired_at_ms);
    sqlite3_bind_int64(statement, 3, owner->ttl_at_ms);
    sqlite3_bind_int64(statement, 4, owner->transition_at_ms);
    sqlite3_bind_text(statement, 5, owner->id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 6,
                       (int64_t)(is_owned ? owner->token : record->token));
    execute(w, statement);
}

/* Only ever our own: nobody else's tenure gets a new beginning or lease. */
static void store_tenure(struct writing *w)
{
    const struct simba__sqlite *self = w->self;
    const struct simba__mutex_record *row = &self->record.row;
    const simba_request *request = w->wish->request;
    sqlite3_stmt *statement = prepare(w, SIMBA__SQLITE_STORE_TENURE);
    unsigned char bytes[SIMBA__SQLITE_ATTEMPT];

    if (statement == NULL) {
        return;
    }
    sqlite3_bind_int64(statement, 2, (int64_t)row->owner.token);
    simba__sqlite_bind_attempt(statement, 3, row->attempt, bytes);
    sqlite3_bind_text(statement, 4, self->clock.boot, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 5, self->presence.process, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 6, request->ttl_ms + request->transition_ms);
    sqlite3_bind_int(statement, 7, self->settings.is_handover);
    sqlite3_bind_int(statement, 8, row->owner.is_broken);
    sqlite3_bind_int64(statement, 9, (int64_t)row->former_token);
    execute(w, statement);
}

static void store_owner(struct writing *w)
{
    const struct simba__sqlite_record *record = &w->self->record;
    const simba_owner *owner = &record->row.owner;
    const simba_request *request = w->wish->request;
    bool is_new = owner->token != record->owner.token;
    bool is_longer =
        record->lease_ms != request->ttl_ms + request->transition_ms;

    if (is_same_owner(owner, &record->owner)) {
        return;
    }
    store_mutex(w);
    if (owner->id[0] != '\0' && (is_new || is_longer)) {
        store_tenure(w);
    }
}

/* --- the line ------------------------------------------------------------ */

static void drop_waiter(struct writing *w, const struct simba__waiter *waiter)
{
    sqlite3_stmt *statement = prepare(w, SIMBA__SQLITE_DROP_WAITER);
    unsigned char bytes[SIMBA__SQLITE_ATTEMPT];

    if (statement != NULL) {
        sqlite3_bind_int64(statement, 2, (int64_t)waiter->position);
        simba__sqlite_bind_attempt(statement, 3, waiter->attempt, bytes);
        execute(w, statement);
    }
}

static void store_waiter(struct writing *w,
                         const struct simba__waiter *waiter,
                         int64_t called_until_ms)
{
    const struct simba__sqlite_record *record = &w->self->record;
    const struct simba__sqlite_peer *peer = &record->peers[waiter->connection];
    sqlite3_stmt *statement = prepare(w, SIMBA__SQLITE_STORE_WAITER);
    unsigned char bytes[SIMBA__SQLITE_ATTEMPT];

    if (statement == NULL) {
        return;
    }
    sqlite3_bind_int64(statement, 2, (int64_t)waiter->position);
    simba__sqlite_bind_attempt(statement, 3, waiter->attempt, bytes);
    sqlite3_bind_text(statement, 4, waiter->id, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 5, peer->boot, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 6, peer->process, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 7, waiter->lapses_ms);
    sqlite3_bind_int64(statement, 8, called_until_ms);
    execute(w, statement);
}

/* A longer waiter lease alone is no reason to write while more than half of
 * the old one is left: the waiter will ask again before it ends. */
static bool is_same_waiter(const struct writing *w,
                           const struct simba__waiter *before,
                           const struct simba__waiter *after)
{
    const struct simba__sqlite_peer *peers = w->self->record.peers;
    int64_t left_ms = before->lapses_ms - w->wish->now_ms;

    return before->position == after->position &&
           strcmp(before->id, after->id) == 0 &&
           strcmp(peers[before->connection].process,
                  peers[after->connection].process) == 0 &&
           (before->lapses_ms == after->lapses_ms ||
            left_ms > w->wish->request->waiter_ms / 2);
}

static const struct simba__waiter *find_in(const struct simba__waiter *line,
                                           size_t count,
                                           struct simba__attempt attempt)
{
    for (size_t i = 0; i < count; i++) {
        if (simba__attempt_equal(line[i].attempt, attempt)) {
            return &line[i];
        }
    }
    return NULL;
}

static void store_mover(struct writing *w, struct simba__attempt attempt)
{
    const struct simba__sqlite_record *record = &w->self->record;
    const struct simba__waiter *before =
        find_in(record->line, record->line_count, attempt);
    const struct simba__waiter *after =
        find_in(record->row.queue, record->row.queue_count, attempt);

    if (before != NULL &&
        (after == NULL || before->position != after->position)) {
        drop_waiter(w, before);
        before = NULL;
    }
    if (after != NULL &&
        (before == NULL || !is_same_waiter(w, before, after))) {
        store_waiter(w, after, 0);
    }
}

/* Who may come, go and change its place: the one who asks, and the one who was
 * called and did not come. */
static bool is_mover(const struct writing *w, struct simba__attempt attempt)
{
    const struct simba__sqlite_record *record = &w->self->record;
    struct simba__attempt me = simba__sqlite_attempt(w->wish->request);

    return simba__attempt_equal(attempt, me) ||
           (record->is_offered &&
            simba__attempt_equal(attempt, record->called.attempt));
}

/* The others can only have gone: who is left stands in the same order. */
static void store_line(struct writing *w)
{
    const struct simba__sqlite_record *record = &w->self->record;
    const struct simba__mutex_record *row = &record->row;
    struct simba__attempt me = simba__sqlite_attempt(w->wish->request);
    size_t j = 0;

    for (size_t i = 0; i < record->line_count; i++) {
        const struct simba__waiter *before = &record->line[i];

        if (is_mover(w, before->attempt)) {
            continue;
        }
        while (j < row->queue_count && is_mover(w, row->queue[j].attempt)) {
            j++;
        }
        if (j < row->queue_count &&
            simba__attempt_equal(row->queue[j].attempt, before->attempt)) {
            j++;
        } else {
            drop_waiter(w, before);
        }
    }
    store_mover(w, me);
    if (record->is_offered &&
        !simba__attempt_equal(record->called.attempt, me)) {
        store_mover(w, record->called.attempt);
    }
}

/* The row of the called one goes first, and comes last: who is called was in
 * line before, and who came too late may stand in the queue again. */
static void store_called(struct writing *w)
{
    const struct simba__sqlite_record *record = &w->self->record;
    const struct simba__mutex_record *row = &record->row;
    bool is_same =
        record->is_offered == row->is_offered &&
        (!row->is_offered ||
         (simba__attempt_equal(record->called.attempt, row->offered.attempt) &&
          record->called_until_ms == row->offered_until_ms));

    if (record->is_offered && !is_same) {
        drop_waiter(w, &record->called);
    }
    store_line(w);
    if (row->is_offered && !is_same) {
        store_waiter(w, &row->offered, row->offered_until_ms);
    }
}

/* Waiters of other machines on a trusted file system are not in the row; with
 * each tenure what they left is swept out, and who lives joins again. */
static void drop_strangers(struct writing *w)
{
    const struct simba__sqlite *self = w->self;
    bool is_granted = self->record.row.owner.token > self->record.owner.token &&
                      self->record.row.owner.id[0] != '\0';
    sqlite3_stmt *statement;

    if (!self->settings.is_trusted || !is_granted) {
        return;
    }
    statement = prepare(w, SIMBA__SQLITE_DROP_STRANGERS);
    if (statement != NULL) {
        sqlite3_bind_text(statement, 2, self->clock.boot, -1, SQLITE_STATIC);
        execute(w, statement);
    }
}

/* --- tombstones ---------------------------------------------------------- */

static void store_tomb(struct writing *w)
{
    const struct simba__sqlite *self = w->self;
    const struct simba__mutex_record *row = &self->record.row;
    uint64_t wall_us = simba__sqlite_clock_wall_us();
    sqlite3_stmt *statement;
    unsigned char bytes[SIMBA__SQLITE_ATTEMPT];

    if (w->wish->request->tombstone_ms == 0 || row->tombstone_count == 0) {
        return;
    }
    statement = prepare(w, SIMBA__SQLITE_DROP_TOMBSTONES);
    if (statement != NULL) {
        sqlite3_bind_text(statement, 1, self->clock.boot, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 2, w->wish->now_ms);
        sqlite3_bind_int64(statement, 3,
                           wall_us > STALE_US ? (int64_t)(wall_us - STALE_US)
                                              : 0);
        execute(w, statement);
    }
    statement = prepare(w, SIMBA__SQLITE_STORE_TOMBSTONE);
    if (statement != NULL) {
        simba__sqlite_bind_attempt(statement, 1, row->tombstones[0].attempt,
                                   bytes);
        sqlite3_bind_text(statement, 2, self->clock.boot, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 3, row->tombstones[0].until_ms);
        sqlite3_bind_int64(statement, 4, (int64_t)wall_us);
        execute(w, statement);
    }
}

int simba__sqlite_record_store(struct simba__sqlite *self,
                               const struct simba__sqlite_wish *wish,
                               bool *is_changed,
                               simba_error *error)
{
    struct writing w = {self, wish, error, false, SIMBA_OK};

    store_owner(&w);
    if (!wish->is_owner_only) {
        store_called(&w);
        drop_strangers(&w);
        store_tomb(&w);
    }
    *is_changed = w.is_changed;
    return w.rc;
}
