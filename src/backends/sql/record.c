/* Reads a mutex out of an answer; see record.h. */
#include "backends/sql/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void simba__sql_record_fini(struct simba__sql_record *record)
{
    simba__mutex_fini(&record->row);
    free(record->line);
    free(record->peers);
    memset(record, 0, sizeof *record);
}

/* Empties it, but keeps the room it has. */
static void clear(struct simba__sql_record *record)
{
    struct simba__sql_record kept = *record;

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

/* Room for one more; false when memory ran out. */
static bool grow(void **items, size_t count, size_t *room, size_t size)
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

/* --- cells --------------------------------------------------------------- */

static const char *text_of(const struct simba__sql_rows *rows,
                           int row,
                           int column)
{
    const char *text = rows->cell(rows, row, column);

    return text == NULL ? "" : text;
}

int64_t simba__sql_number(const struct simba__sql_rows *rows,
                          int row,
                          int column)
{
    return (int64_t)strtoll(text_of(rows, row, column), NULL, 10);
}

/* A text that does not fit was not written by us; cut, it equals nothing. */
static void copy(char *to, size_t room, const char *text)
{
    size_t length = strlen(text);

    if (length >= room) {
        length = 0;
    }
    memcpy(to, text, length);
    to[length] = '\0';
}

static simba_attempt read_attempt(const char *text)
{
    simba_attempt attempt = {0, 0};
    char half[17] = "";

    if (strlen(text) == SIMBA__SQL_HEX) {
        memcpy(half, text, 16);
        attempt.high = strtoull(half, NULL, 16);
        attempt.low = strtoull(text + 16, NULL, 16);
    }
    return attempt;
}

void simba__sql_write_attempt(simba_attempt attempt,
                              char text[SIMBA__SQL_HEX + 1])
{
    text[0] = '\0';
    if (attempt.high != 0 || attempt.low != 0) {
        snprintf(text, SIMBA__SQL_HEX + 1, "%016" PRIx64 "%016" PRIx64,
                 attempt.high, attempt.low);
    }
}

/* --- waiters ------------------------------------------------------------- */

/* Returns the new one's index, or SIZE_MAX. */
static size_t add_peer(struct simba__sql_record *record)
{
    if (!grow((void **)&record->peers, record->peer_count, &record->peer_room,
              sizeof *record->peers)) {
        return SIZE_MAX;
    }
    memset(&record->peers[record->peer_count], 0, sizeof *record->peers);
    return record->peer_count++;
}

/* The last place given need not be kept: who comes when nobody waits gets one
 * by the clock, which has gone on. */
static void raise_last_place(struct simba__sql_record *record,
                             uint64_t position)
{
    if (position > record->row.last_position) {
        record->row.last_position = position;
    }
}

/* Where the columns of a waiter begin, the called one's or another's. */
struct position {
    int row;
    int first;
    int live;
};

static bool read_waiter(struct simba__sql_record *record,
                        const struct simba__sql_rows *rows,
                        const struct position *at,
                        struct simba__waiter *waiter)
{
    size_t index = add_peer(record);
    struct simba__sql_peer *peer;

    if (index == SIZE_MAX) {
        return false;
    }
    memset(waiter, 0, sizeof *waiter);
    waiter->connection = index;
    waiter->attempt = read_attempt(text_of(rows, at->row, at->first));
    copy(waiter->id, sizeof waiter->id, text_of(rows, at->row, at->first + 1));
    waiter->position =
        (uint64_t)simba__sql_number(rows, at->row, at->first + 4);
    waiter->lapses_ms = simba__sql_number(rows, at->row, at->first + 5);
    peer = &record->peers[index];
    copy(peer->process, sizeof peer->process,
         text_of(rows, at->row, at->first + 2));
    peer->has_bell = simba__sql_number(rows, at->row, at->first + 3) != 0;
    peer->bell = (uint64_t)simba__sql_number(rows, at->row, at->live);
    peer->is_live = peer->bell != 0;
    raise_last_place(record, waiter->position);
    return true;
}

static bool load_called(struct simba__sql_record *record,
                        const struct simba__sql_rows *rows)
{
    static const struct position at = {0, SIMBA__SQL_CALLED_ATTEMPT,
                                       SIMBA__SQL_CALLED_LIVE};

    if (record->is_quiet ||
        text_of(rows, 0, SIMBA__SQL_CALLED_ATTEMPT)[0] == '\0') {
        return true;
    }
    record->is_offered = true;
    record->called_until_ms =
        simba__sql_number(rows, 0, SIMBA__SQL_CALLED_UNTIL);
    return read_waiter(record, rows, &at, &record->called);
}

static bool append(struct simba__sql_record *record,
                   const struct simba__sql_rows *rows,
                   const struct position *at)
{
    struct simba__mutex_record *row = &record->row;
    struct simba__waiter waiter;

    if (!read_waiter(record, rows, at, &waiter) ||
        !grow((void **)&record->line, record->line_count, &record->line_room,
              sizeof waiter) ||
        !grow((void **)&row->queue, row->queue_count, &row->queue_room,
              sizeof waiter)) {
        return false;
    }
    record->line[record->line_count++] = waiter;
    row->queue[row->queue_count++] = waiter;
    return true;
}

/* Who asks may stand further behind than what was loaded. */
static bool append_self(struct simba__sql_record *record,
                        const struct simba__sql_rows *rows)
{
    static const struct position at = {0, SIMBA__SQL_SELF_ATTEMPT,
                                       SIMBA__SQL_SELF_LIVE};
    simba_attempt self;

    if (rows->cell(rows, 0, SIMBA__SQL_SELF_ATTEMPT) == NULL) {
        return true;
    }
    self = read_attempt(text_of(rows, 0, SIMBA__SQL_SELF_ATTEMPT));
    for (size_t i = 0; i < record->line_count; i++) {
        if (simba__attempt_equal(record->line[i].attempt, self)) {
            return true;
        }
    }
    return append(record, rows, &at);
}

static bool load_line(struct simba__sql_record *record,
                      const struct simba__sql_rows *rows)
{
    for (int i = 0; i < rows->count; i++) {
        struct position at = {i, SIMBA__SQL_WAITER, SIMBA__SQL_WAITER_LIVE};

        if (rows->cell(rows, i, SIMBA__SQL_WAITER) == NULL) {
            break;
        }
        if (!append(record, rows, &at)) {
            return false;
        }
    }
    raise_last_place(
        record, (uint64_t)simba__sql_number(rows, 0, SIMBA__SQL_LAST_PLACE));
    return append_self(record, rows);
}

/* A call goes to the first who is alive, and the second is told. */
static bool is_enough(const struct simba__sql_record *record)
{
    int64_t now_ms = record->now_us / 1000;
    int live = 0;

    for (size_t i = 0; i < record->line_count; i++) {
        const struct simba__waiter *waiter = &record->line[i];

        live += waiter->lapses_ms >= now_ms &&
                record->peers[waiter->connection].is_live;
    }
    /* One of them may be the one who asks, from further behind. */
    return record->line_count < SIMBA__SQL_FIRST || live >= 3;
}

/* --- the rest ------------------------------------------------------------ */

static bool has_tenure(const struct simba__sql_rows *rows)
{
    return rows->cell(rows, 0, SIMBA__SQL_TENURE_VERSION) != NULL;
}

static void load_owner(struct simba__sql_record *record,
                       const struct simba__sql_rows *rows)
{
    simba_owner *owner = &record->owner;

    record->now_us = simba__sql_number(rows, 0, SIMBA__SQL_NOW_US);
    record->token =
        (uint64_t)simba__sql_number(rows, 0, SIMBA__SQL_FENCING_TOKEN);
    record->version = simba__sql_number(rows, 0, SIMBA__SQL_VERSION);
    record->transition_at_ms =
        simba__sql_number(rows, 0, SIMBA__SQL_TRANSITION_AT);
    record->is_ours =
        record->is_quiet ||
        (has_tenure(rows) &&
         record->version ==
             simba__sql_number(rows, 0, SIMBA__SQL_TENURE_VERSION));
    record->is_waiting = !record->is_quiet &&
                         simba__sql_number(rows, 0, SIMBA__SQL_WAITING) != 0;
    record->account = simba__sql_number(rows, 0, SIMBA__SQL_TENURE_ACCOUNT);
    copy(owner->id, sizeof owner->id, text_of(rows, 0, SIMBA__SQL_OWNER_ID));
    if (owner->id[0] == '\0') {
        return;
    }
    owner->acquired_at_ms = simba__sql_number(rows, 0, SIMBA__SQL_ACQUIRED_AT);
    owner->ttl_at_ms = simba__sql_number(rows, 0, SIMBA__SQL_TTL_AT);
    owner->transition_at_ms = record->transition_at_ms;
    owner->token = record->token;
    if (record->is_quiet) {
        record->attempt =
            read_attempt(text_of(rows, 0, SIMBA__SQL_QUICK_ATTEMPT));
    } else if (record->is_ours) {
        owner->token =
            (uint64_t)simba__sql_number(rows, 0, SIMBA__SQL_TENURE_TOKEN);
        record->attempt = read_attempt(text_of(rows, 0, SIMBA__SQL_ATTEMPT));
        owner->is_broken = simba__sql_number(rows, 0, SIMBA__SQL_BROKEN) != 0;
    }
}

static bool load_tomb(struct simba__sql_record *record,
                      const struct simba__sql_rows *rows,
                      const simba_request *request)
{
    struct simba__mutex_record *row = &record->row;

    record->tomb_until_ms = simba__sql_number(rows, 0, SIMBA__SQL_TOMB_UNTIL);
    record->tombs_until_ms = simba__sql_number(rows, 0, SIMBA__SQL_TOMBS_UNTIL);
    if (record->tomb_until_ms == 0) {
        return true;
    }
    if (!grow((void **)&row->tombstones, 0, &row->tombstone_room,
              sizeof *row->tombstones)) {
        return false;
    }
    row->tombstones[0] = (struct simba__tombstone){
        {request->attempt.high, request->attempt.low}, record->tomb_until_ms};
    row->tombstone_count = 1;
    return true;
}

/* For observers: which tenure came before which. Of those who do not know us
 * it is not known. */
static void load_former(struct simba__sql_record *record,
                        const struct simba__sql_rows *rows)
{
    struct simba__mutex_record *row = &record->row;

    if (record->is_quiet) {
        row->tenure_token = record->token;
        row->former_token =
            (uint64_t)simba__sql_number(rows, 0, SIMBA__SQL_QUICK_FORMER);
    } else if (record->is_ours) {
        row->tenure_token =
            (uint64_t)simba__sql_number(rows, 0, SIMBA__SQL_TENURE_TOKEN);
        row->former_token =
            (uint64_t)simba__sql_number(rows, 0, SIMBA__SQL_FORMER_TOKEN);
    } else if (record->version != 0) { /* somebody had it ever */
        row->tenure_token = row->former_token = SIMBA__SQL_ANOTHER;
    }
}

/* Does nobody ring when its owner is done? Other implementations do not, and
 * have no attempt. */
static bool is_foreign(const struct simba__sql_record *record,
                       const struct simba__sql_rows *rows)
{
    bool is_held = record->transition_at_ms >= record->now_us / 1000;
    bool is_theirs = record->attempt.high == 0 && record->attempt.low == 0;

    return is_held &&
           (is_theirs || simba__sql_number(rows, 0, SIMBA__SQL_FOREIGN) != 0);
}

/* S4: the clock carries the token over lost data; the version over the tokens
 * of implementations that take it for one. */
static void raise_token(struct simba__sql_record *record)
{
    struct simba__mutex_record *row = &record->row;

    row->last_token = record->token;
    if (row->last_token < (uint64_t)record->version) {
        row->last_token = (uint64_t)record->version;
    }
    if (row->last_token + 1 < (uint64_t)record->now_us) {
        row->last_token = (uint64_t)record->now_us - 1;
    }
}

enum simba__sql_loaded simba__sql_record_load(
    struct simba__sql_record *record,
    const struct simba__sql_rows *rows,
    const simba_request *request)
{
    clear(record);
    if (rows->count == 0 || rows->cell(rows, 0, SIMBA__SQL_OWNER_ID) == NULL) {
        return SIMBA__SQL_NO_ROW;
    }
    if (!has_tenure(rows) && request->kind != SIMBA_READ) {
        return SIMBA__SQL_NO_TENURE;
    }
    record->is_quiet = simba__sql_number(rows, 0, SIMBA__SQL_QUIET) ==
                       simba__sql_number(rows, 0, SIMBA__SQL_VERSION);
    if (add_peer(record) != SIMBA__SQL_SELF || !load_called(record, rows) ||
        !load_line(record, rows) || !load_tomb(record, rows, request)) {
        return SIMBA__SQL_NO_MEMORY;
    }
    load_owner(record, rows);
    load_former(record, rows);
    record->is_foreign = is_foreign(record, rows);
    raise_token(record);
    record->row.owner = record->owner;
    record->row.attempt = record->attempt;
    record->row.is_offered = record->is_offered;
    record->row.offered = record->called;
    record->row.offered_until_ms = record->called_until_ms;
    return is_enough(record) ? SIMBA__SQL_LOADED : SIMBA__SQL_IN_PART;
}
