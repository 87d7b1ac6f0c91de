/* Reads a mutex out of the tables; see record.h. */
#include "backends/sqlite/record.h"

#include "backends/sqlite/instance.h"

#include <stdlib.h>
#include <string.h>

bool simba__sqlite_grow(void **items, size_t count, size_t *room, size_t size)
{
    size_t wanted = *room == 0 ? 8 : *room * 2;
    void *grown;

    if (count < *room) {
        return true;
    }
    grown = realloc(*items, wanted * size);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *room = wanted;
    return true;
}

void simba__sqlite_record_fini(struct simba__sqlite_record *record)
{
    simba__mutex_fini(&record->row);
    free(record->line);
    free(record->peers);
    memset(record, 0, sizeof *record);
}

/* Empties it, but keeps the room it has. */
static void clear(struct simba__sqlite_record *record)
{
    struct simba__sqlite_record kept = *record;

    memset(record, 0, sizeof *record);
    record->row.queue = kept.row.queue;
    record->row.queue_room = kept.row.queue_room;
    record->row.tombstones = kept.row.tombstones;
    record->row.tombstone_room = kept.row.tombstone_room;
    record->line = kept.line;
    record->line_room = kept.line_room;
    record->peers = kept.peers;
    record->peer_room = kept.peer_room;
}

/* --- columns ------------------------------------------------------------- */

/* A text that does not fit was not written by us; cut, it equals nothing. */
static void read_text(sqlite3_stmt *row, int column, char *to, size_t room)
{
    const unsigned char *text = sqlite3_column_text(row, column);
    size_t length = (size_t)sqlite3_column_bytes(row, column);

    if (text == NULL || length >= room) {
        length = 0;
    }
    if (length > 0) {
        memcpy(to, text, length);
    }
    to[length] = '\0';
}

static uint64_t read_big_endian(const unsigned char *bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++) {
        value = value << 8 | bytes[i];
    }
    return value;
}

static struct simba__attempt read_attempt(sqlite3_stmt *row, int column)
{
    struct simba__attempt attempt = {0, 0};
    const unsigned char *bytes = sqlite3_column_blob(row, column);

    if (bytes != NULL && sqlite3_column_bytes(row, column) == 16) {
        attempt.high = read_big_endian(bytes);
        attempt.low = read_big_endian(bytes + 8);
    }
    return attempt;
}

/* Returns the new one's index, or SIZE_MAX. */
static size_t add_peer(struct simba__sqlite_record *record)
{
    if (!simba__sqlite_grow((void **)&record->peers, record->peer_count,
                            &record->peer_room, sizeof *record->peers)) {
        return SIZE_MAX;
    }
    memset(&record->peers[record->peer_count], 0, sizeof *record->peers);
    return record->peer_count++;
}

/* --- the owner ----------------------------------------------------------- */

static void read_owner(struct simba__sqlite_record *record, sqlite3_stmt *row)
{
    struct simba__sqlite_peer *peer = &record->peers[SIMBA__SQLITE_OWNER];
    simba_owner *owner = &record->owner;

    record->token = (uint64_t)sqlite3_column_int64(row, 4);
    record->version = sqlite3_column_int64(row, 5);
    read_text(row, 0, owner->id, sizeof owner->id);
    if (owner->id[0] == '\0') {
        return; /* what is left in simba_tenure is of no tenure any more */
    }
    owner->acquired_at_ms = sqlite3_column_int64(row, 1);
    owner->ttl_at_ms = sqlite3_column_int64(row, 2);
    owner->transition_at_ms = sqlite3_column_int64(row, 3);
    owner->token = record->token;
    record->attempt = read_attempt(row, 6);
    read_text(row, 7, peer->boot, sizeof peer->boot);
    read_text(row, 8, peer->process, sizeof peer->process);
    record->lease_ms = sqlite3_column_int64(row, 9);
    record->is_handover = sqlite3_column_int(row, 10) != 0;
    owner->is_broken = sqlite3_column_int(row, 11) != 0;
    record->former = (uint64_t)sqlite3_column_int64(row, 12);
}

static int load_owner(struct simba__sqlite *self,
                      const char *mutex,
                      simba_error *error)
{
    struct simba__sqlite_record *record = &self->record;
    sqlite3_stmt *row =
        simba__sqlite_db_statement(&self->db, SIMBA__SQLITE_LOAD_MUTEX, error);
    int rc;

    if (row == NULL) {
        return error->code;
    }
    sqlite3_bind_text(row, 1, mutex, -1, SQLITE_STATIC);
    rc = sqlite3_step(row);
    if (rc == SQLITE_ROW) {
        read_owner(record, row);
        rc = SQLITE_DONE;
    }
    sqlite3_reset(row);
    record->row.owner = record->owner;
    record->row.attempt = record->attempt;
    record->row.last_token = record->token;
    record->row.tenure_token = record->token;
    record->row.former_token = record->former;
    return rc == SQLITE_DONE ? SIMBA_OK
                             : simba__sqlite_db_fail(&self->db, rc, error);
}

/* --- the line ------------------------------------------------------------ */

static bool append(struct simba__waiter **line,
                   size_t *count,
                   size_t *room,
                   const struct simba__waiter *waiter)
{
    if (!simba__sqlite_grow((void **)line, *count, room, sizeof **line)) {
        return false;
    }
    (*line)[(*count)++] = *waiter;
    return true;
}

/* The last place given need not be kept: who comes when nobody waits gets one
 * by the clock, which has gone on. */
static void raise_last_place(struct simba__mutex_record *row,
                             const struct simba__waiter *waiter)
{
    if (waiter->position > row->last_position) {
        row->last_position = waiter->position;
    }
}

static bool put_called(struct simba__sqlite_record *record,
                       const struct simba__waiter *waiter,
                       int64_t until_ms,
                       bool is_gone)
{
    record->is_offered = true;
    record->called = *waiter;
    record->called_until_ms = until_ms;
    record->row.is_offered = !is_gone;
    record->row.offered = *waiter;
    record->row.offered_until_ms = until_ms;
    raise_last_place(&record->row, waiter);
    return true;
}

/* `is_gone`: in the table, but not in the row, so that it will be dropped. */
static bool put_waiter(struct simba__sqlite_record *record,
                       const struct simba__waiter *waiter,
                       bool is_gone)
{
    struct simba__mutex_record *row = &record->row;

    if (!append(&record->line, &record->line_count, &record->line_room,
                waiter)) {
        return false;
    }
    if (is_gone) {
        return true;
    }
    raise_last_place(row, waiter);
    return append(&row->queue, &row->queue_count, &row->queue_room, waiter);
}

/* The times of another boot mean nothing to us — unless its process is alive
 * on this very kernel: there are containers that are given a boot id of their
 * own. Where files may be shared between machines a lock proves no kernel. */
static bool is_stranger(const struct simba__sqlite *self,
                        const struct simba__sqlite_peer *peer)
{
    return strcmp(peer->boot, self->clock.boot) != 0 &&
           (self->settings.is_trusted ||
            simba__sqlite_presence_look(&self->presence, peer->process) !=
                SIMBA__SQLITE_ALIVE);
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
    int64_t called_until_ms = sqlite3_column_int64(row, 6);
    struct simba__sqlite_peer *peer;
    bool is_gone;

    if (waiter.connection == SIZE_MAX) {
        return false;
    }
    peer = &record->peers[waiter.connection];
    read_text(row, 2, waiter.id, sizeof waiter.id);
    read_text(row, 3, peer->boot, sizeof peer->boot);
    read_text(row, 4, peer->process, sizeof peer->process);
    is_gone = is_stranger(self, peer);
    if (is_gone && self->settings.is_trusted) {
        return true; /* another machine's: it polls, and we leave it alone */
    }
    if (called_until_ms != 0 && !record->is_offered) {
        return put_called(record, &waiter, called_until_ms, is_gone);
    }
    return put_waiter(record, &waiter, is_gone);
}

static int load_line(struct simba__sqlite *self,
                     const char *mutex,
                     simba_error *error)
{
    sqlite3_stmt *row =
        simba__sqlite_db_statement(&self->db, SIMBA__SQLITE_LOAD_LINE, error);
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
    return rc == SQLITE_DONE ? SIMBA_OK
                             : simba__sqlite_db_fail(&self->db, rc, error);
}

/* --- the tombstone ------------------------------------------------------- */

static bool put_tomb(struct simba__sqlite_record *record,
                     struct simba__attempt attempt,
                     int64_t until_ms)
{
    struct simba__mutex_record *row = &record->row;

    record->tomb_until_ms = until_ms;
    if (!simba__sqlite_grow((void **)&row->tombstones, 0, &row->tombstone_room,
                            sizeof *row->tombstones)) {
        return false;
    }
    row->tombstones[0] = (struct simba__tombstone){attempt, until_ms};
    row->tombstone_count = 1;
    return true;
}

static void write_big_endian(unsigned char *bytes, uint64_t value)
{
    for (int i = 7; i >= 0; i--, value >>= 8) {
        bytes[i] = (unsigned char)value;
    }
}

void simba__sqlite_bind_attempt(sqlite3_stmt *statement,
                                int index,
                                struct simba__attempt attempt,
                                unsigned char *bytes)
{
    write_big_endian(bytes, attempt.high);
    write_big_endian(bytes + 8, attempt.low);
    sqlite3_bind_blob(statement, index, bytes, SIMBA__SQLITE_ATTEMPT,
                      SQLITE_STATIC);
}

struct simba__attempt simba__sqlite_attempt(const simba_request *request)
{
    struct simba__attempt attempt = {request->attempt.high,
                                     request->attempt.low};

    return attempt;
}

/* Of this attempt only: no other matters to it. */
static int load_tomb(struct simba__sqlite *self,
                     struct simba__attempt attempt,
                     simba_error *error)
{
    sqlite3_stmt *row = simba__sqlite_db_statement(
        &self->db, SIMBA__SQLITE_LOAD_TOMBSTONE, error);
    unsigned char bytes[SIMBA__SQLITE_ATTEMPT];
    int rc;

    if (row == NULL) {
        return error->code;
    }
    simba__sqlite_bind_attempt(row, 1, attempt, bytes);
    sqlite3_bind_text(row, 2, self->clock.boot, -1, SQLITE_STATIC);
    rc = sqlite3_step(row);
    if (rc == SQLITE_ROW) {
        rc = put_tomb(&self->record, attempt, sqlite3_column_int64(row, 0))
                 ? SQLITE_DONE
                 : SQLITE_NOMEM;
    }
    sqlite3_reset(row);
    return rc == SQLITE_DONE ? SIMBA_OK
                             : simba__sqlite_db_fail(&self->db, rc, error);
}

/* --- the whole ----------------------------------------------------------- */

int simba__sqlite_record_load(struct simba__sqlite *self,
                              const struct simba__sqlite_wish *wish,
                              simba_error *error)
{
    struct simba__sqlite_record *record = &self->record;
    int rc;

    clear(record);
    if (add_peer(record) != SIMBA__SQLITE_SELF ||
        add_peer(record) != SIMBA__SQLITE_OWNER) {
        return simba__sqlite_db_fail(&self->db, SQLITE_NOMEM, error);
    }
    memcpy(record->peers[SIMBA__SQLITE_SELF].process, self->presence.process,
           sizeof self->presence.process);
    memcpy(record->peers[SIMBA__SQLITE_SELF].boot, self->clock.boot,
           sizeof self->clock.boot);
    rc = load_owner(self, wish->request->mutex, error);
    if (rc != SIMBA_OK || wish->is_owner_only) {
        return rc;
    }
    rc = load_line(self, wish->request->mutex, error);
    return rc == SIMBA_OK
               ? load_tomb(self, simba__sqlite_attempt(wish->request), error)
               : rc;
}
