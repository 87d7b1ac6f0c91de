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

/* Of a long queue fewer are read where that will do. */
enum { QUEUE_HEAD = 4, QUEUE_MORE = 32 };

/* Tombstones of other boots go when they are this old. */
#define STALE_US (UINT64_C(24) * 3600 * 1000000)

void simba__sqlite_record_fini(struct simba__sqlite_record *record)
{
    simba__mutex_fini(&record->before);
    simba__mutex_fini(&record->after);
    free(record->peers);
    memset(record, 0, sizeof *record);
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

static struct simba__tenure *add_tenure(struct simba__mutex_record *mutex)
{
    if (mutex->owner.id[0] == '\0') {
        return &mutex->first;
    }
    return simba__array_reserve(&mutex->others, &mutex->other_room,
                                mutex->other_count + 1, sizeof *mutex->others)
               ? &mutex->others[mutex->other_count++]
               : NULL;
}

/* The tenures of a mutex that several may own. */
static int load_slots(struct simba__sqlite *self,
                      const char *mutex,
                      simba_error *error)
{
    struct simba__sqlite_record *record = &self->record;
    sqlite3_stmt *row = simba__sqlite_prepare(self, SIMBA__SQLITE_LOAD_SLOTS,
                                              error, "t", mutex);
    int rc;

    if (row == NULL) {
        return error->code;
    }
    while ((rc = sqlite3_step(row)) == SQLITE_ROW) {
        struct simba__tenure *tenure = add_tenure(&record->before);
        size_t connection = record->before.other_count == 0
                                ? SIMBA__SQLITE_OWNER
                                : add_peer(record);
        struct simba__sqlite_peer *peer;
        simba_owner *owner;

        if (tenure == NULL || connection == SIZE_MAX) {
            rc = SQLITE_NOMEM;
            break;
        }
        memset(tenure, 0, sizeof *tenure);
        owner = &tenure->owner;
        peer = &record->peers[connection];
        tenure->connection = connection;
        tenure->attempt = read_attempt(row, 1);
        owner->token = (uint64_t)sqlite3_column_int64(row, 0);
        read_text(row, 2, owner->id, sizeof owner->id);
        owner->slot = (uint32_t)sqlite3_column_int64(row, 3);
        owner->slots = (uint32_t)sqlite3_column_int64(row, 4);
        owner->acquired_at_ms = sqlite3_column_int64(row, 5);
        owner->ttl_at_ms = sqlite3_column_int64(row, 6);
        owner->transition_at_ms = sqlite3_column_int64(row, 7);
        read_text(row, 8, peer->boot, sizeof peer->boot);
        read_text(row, 9, peer->process, sizeof peer->process);
        peer->is_handover = sqlite3_column_int(row, 10) != 0;
        owner->is_broken = sqlite3_column_int(row, 11) != 0;
        read_text(row, 12, tenure->asked, sizeof tenure->asked);
        owner->is_asked = tenure->asked[0] != '\0';
        owner->former = (uint64_t)sqlite3_column_int64(row, 13);
    }
    sqlite3_reset(row);
    return simba__sqlite_result(self, rc, error);
}

static int load_owner(struct simba__sqlite *self,
                      const char *mutex,
                      simba_error *error)
{
    struct simba__sqlite_record *record = &self->record;
    struct simba__sqlite_peer *peer = &record->peers[SIMBA__SQLITE_OWNER];
    struct simba__mutex_record *before = &record->before;
    simba_owner *owner = &before->owner;
    sqlite3_stmt *row = simba__sqlite_prepare(self, SIMBA__SQLITE_LOAD_MUTEX,
                                              error, "t", mutex);
    int rc;

    if (row == NULL) {
        return error->code;
    }
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
        owner->former = before->former_token =
            (uint64_t)sqlite3_column_int64(row, 12);
        read_text(row, 13, before->first.asked, sizeof before->first.asked);
        owner->is_asked = before->first.asked[0] != '\0';
        before->first.connection = SIMBA__SQLITE_OWNER;
    }
    before->tenure_token = before->last_token;
    record->row = *owner;
    /* With fs=trust there are no slots, and the rows of others cannot be judged
     * one by one: their locks may not be visible here. Their row in simba_mutex
     * is watched as that of one owner. */
    record->is_crowd =
        !self->settings.is_trusted && strcmp(owner->id, SIMBA__CROWD_ID) == 0;
    sqlite3_reset(row);
    rc = simba__sqlite_result(self, rc == SQLITE_ROW ? SQLITE_DONE : rc, error);
    if (rc == SIMBA_OK && record->is_crowd) {
        memset(&before->first, 0, sizeof before->first);
        rc = load_slots(self, mutex, error);
    }
    return rc;
}

/* As the tables have it, to be changed by the model. */
static bool copy_tenures(struct simba__mutex_record *to,
                         const struct simba__mutex_record *from)
{
    if (from->other_count > 0 &&
        !simba__array_reserve(&to->others, &to->other_room, from->other_count,
                              sizeof *to->others)) {
        return false;
    }
    to->first = from->first;
    to->other_count = from->other_count;
    if (from->other_count > 0) {
        memcpy(to->others, from->others,
               from->other_count * sizeof *to->others);
    }
    return true;
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
        .slots = (uint32_t)sqlite3_column_int64(row, 7),
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
    is_gone = is_gone && simba__sqlite_life_seen(self, peer->process) !=
                             SIMBA__SQLITE_ALIVE;
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

/* Does the beginning of a long queue tell who comes next? It does for an owner
 * that leaves, and for who asks while it is owned or offered: an offer goes to
 * the first who lives, and the second is told. Who missed its offer goes to the
 * end, a named successor may be anywhere, and so may one that fits beside other
 * owners. `is_me`: who asks was read as well, or needs no position. */
static bool is_enough(struct simba__sqlite *self,
                      const simba_request *request,
                      bool *is_me)
{
    const struct simba__sqlite_record *record = &self->record;
    const struct simba__mutex_record *after = &record->after;
    bool is_owner = simba__attempt_equal(after->attempt, request->attempt);
    bool is_held = simba__mutex_is_held(after, record->now_ms) &&
                   !record->before.is_offered;
    bool is_offered =
        after->is_offered && after->offered_until_ms >= record->now_ms;
    bool is_known =
        request->kind == SIMBA_RELEASE
            ? is_held && is_owner
            : request->kind == SIMBA_ACQUIRE && (is_held || is_offered);
    int live = 0;

    *is_me = is_owner ||
             (is_offered &&
              simba__attempt_equal(after->offered.attempt, request->attempt));
    if (!is_known || self->settings.is_trusted || record->is_crowd ||
        request->to != NULL || request->slots > 1) {
        return false;
    }
    for (size_t i = 0; i < after->queue_count; i++) {
        const struct simba__waiter *waiter = &after->queue[i];
        const char *process = record->peers[waiter->connection].process;

        if (waiter->slots > 1) {
            return false;
        }
        if (simba__attempt_equal(waiter->attempt, request->attempt)) {
            *is_me = true;
        } else if (live < 2 && waiter->lapses_ms >= record->now_ms) {
            live +=
                simba__sqlite_life_seen(self, process) != SIMBA__SQLITE_DEAD;
        }
    }
    return live == 2;
}

/* From where on the queue must be read for one who asks, and stands behind its
 * beginning: from the one that it watches, the nearest before it that lives.
 * Who comes anew stands behind all, and has to know the last position. 0: from
 * the beginning, because it does not stand where it should. */
static int find_before(struct simba__sqlite *self,
                       const simba_request *request,
                       uint64_t *from,
                       simba_error *error)
{
    int64_t now_ms = self->record.now_ms;
    bool is_new =
        request->position == 0 && !simba__sqlite_watch_has(self, request);
    sqlite3_stmt *row = simba__sqlite_prepare(
        self, SIMBA__SQLITE_LOAD_BEFORE, error, "tn", request->mutex,
        is_new ? INT64_MAX : (int64_t)request->position);
    bool is_found = is_new;
    int rc;

    *from = 0;
    if (row == NULL) {
        return error->code;
    }
    while ((rc = sqlite3_step(row)) == SQLITE_ROW && *from == 0) {
        char boot[SIMBA__SQLITE_BOOT + 1], process[SIMBA__SQLITE_PROCESS + 1];
        enum simba__sqlite_life life;

        if (!is_found) {
            is_found =
                simba__attempt_equal(read_attempt(row, 1), request->attempt);
            if (!is_found) {
                break;
            }
            continue;
        }
        read_text(row, 2, boot, sizeof boot);
        read_text(row, 3, process, sizeof process);
        life = simba__sqlite_life_seen(self, process);
        if (sqlite3_column_int64(row, 4) >= now_ms &&
            (strcmp(boot, self->boot) == 0 ? life != SIMBA__SQLITE_DEAD
                                           : life == SIMBA__SQLITE_ALIVE)) {
            *from = (uint64_t)sqlite3_column_int64(row, 0);
        }
    }
    sqlite3_reset(row);
    return simba__sqlite_result(self, rc == SQLITE_ROW ? SQLITE_DONE : rc,
                                error);
}

/* All of it; or its beginning, and where who asks stands. */
static int load_queue(struct simba__sqlite *self,
                      const simba_request *request,
                      simba_error *error)
{
    sqlite3_stmt *row = simba__sqlite_prepare(
        self, SIMBA__SQLITE_LOAD_QUEUE, error, "tn", request->mutex, INT64_MIN);
    int rc = SIMBA_OK, step = SQLITE_DONE, count = 0;
    bool is_over = false, is_me;
    uint64_t from = 0;

    if (row == NULL) {
        return error->code;
    }
    while (!is_over && rc == SIMBA_OK &&
           (step = sqlite3_step(row)) == SQLITE_ROW) {
        count++;
        if (from == 0 && (count == QUEUE_HEAD || count == QUEUE_MORE) &&
            is_enough(self, request, &is_me)) {
            is_over = is_me;
            if (!is_me) {
                rc = find_before(self, request, &from, error);
            }
            if (rc == SIMBA_OK &&
                from > (uint64_t)sqlite3_column_int64(row, 0)) {
                sqlite3_reset(row);
                row = simba__sqlite_prepare(self, SIMBA__SQLITE_LOAD_QUEUE,
                                            error, "tn", request->mutex, from);
                continue;
            }
        }
        if (rc == SIMBA_OK && !is_over && !read_waiter(self, row)) {
            rc = simba__sqlite_result(self, SQLITE_NOMEM, error);
        }
        is_over |= from != 0 &&
                   simba__attempt_equal(read_attempt(row, 1), request->attempt);
    }
    sqlite3_reset(row);
    if (rc == SIMBA_OK && step != SQLITE_ROW) {
        rc = simba__sqlite_result(self, step, error);
    }
    return rc;
}

/* Of this attempt only: no other matters to it. */
static int load_tombstone(struct simba__sqlite *self,
                          simba_attempt attempt,
                          simba_error *error)
{
    struct simba__mutex_record *after = &self->record.after;
    sqlite3_stmt *row = simba__sqlite_prepare(
        self, SIMBA__SQLITE_LOAD_TOMBSTONE, error, "at", attempt, self->boot);
    int rc;

    if (row == NULL) {
        return error->code;
    }
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
    const struct simba__tenure *mine;
    struct simba__sqlite_peer *peer;
    int rc;

    assert(!sqlite3_get_autocommit(self->db.handle));
    simba__mutex_clear(&record->before);
    simba__mutex_clear(&record->after);
    record->is_owner_only = is_owner_only;
    record->is_handover = record->is_sighted = false;
    record->version = record->lease_ms = 0;
    record->peer_count = record->seen_count = 0;
    if (add_peer(record) != SIMBA__SQLITE_SELF ||
        add_peer(record) != SIMBA__SQLITE_OWNER) {
        return simba__sqlite_result(self, SQLITE_NOMEM, error);
    }
    peer = &record->peers[SIMBA__SQLITE_SELF];
    memcpy(peer->process, self->process, sizeof self->process);
    memcpy(peer->boot, self->boot, sizeof self->boot);
    rc = load_owner(self, request->mutex, error);
    if (!copy_tenures(&record->after, &record->before)) {
        return simba__sqlite_result(self, SQLITE_NOMEM, error);
    }
    /* A renewal that lets more in offers it to them. */
    mine = simba__mutex_find_tenure(&record->before, request->attempt);
    if (request->kind == SIMBA_RENEW && request->slots > 1 && mine != NULL &&
        request->slots > mine->owner.slots) {
        record->is_owner_only = is_owner_only = false;
    }
    record->after.last_token = record->before.last_token;
    record->after.tenure_token = record->before.tenure_token;
    record->after.former_token = record->before.former_token;
    if (rc == SIMBA_OK && !is_owner_only) {
        rc = load_queue(self, request, error);
    }
    if (rc == SIMBA_OK && !is_owner_only) {
        rc = load_tombstone(self, request->attempt, error);
    }
    /* Of several owners the others' lives do not matter to one that goes on, or
     * leaves when nobody waits; each costs a look at its file. */
    if (rc == SIMBA_OK && record->is_crowd && !record->after.is_offered &&
        record->after.queue_count == 0 &&
        (request->kind == SIMBA_RENEW || request->kind == SIMBA_RELEASE)) {
        return SIMBA_OK;
    }
    if (rc == SIMBA_OK &&
        (record->after.owner.id[0] != '\0' || record->after.is_offered)) {
        rc = simba__sqlite_correct(self, request->mutex, error);
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

/* Nothing else of a tenure changes. */
static bool is_same_slot(const struct simba__tenure *was,
                         const struct simba__tenure *is)
{
    return was->owner.ttl_at_ms == is->owner.ttl_at_ms &&
           was->owner.transition_at_ms == is->owner.transition_at_ms &&
           was->owner.slots == is->owner.slots &&
           was->owner.is_broken == is->owner.is_broken &&
           strcmp(was->asked, is->asked) == 0;
}

static void store_slot(struct writing *w, const struct simba__tenure *is)
{
    struct simba__sqlite *self = w->self;
    const simba_owner *owner = &is->owner;
    const struct simba__sqlite_peer *peer = &self->record.peers[is->connection];
    bool is_ours = is->connection == SIMBA__SQLITE_SELF;

    w->is_changed = true;
    w->rc = simba__sqlite_execute(
        self, SIMBA__SQLITE_STORE_SLOT, w->error, "tnatnnnnnttnntn",
        w->request->mutex, owner->token, is->attempt, owner->id,
        (int64_t)owner->slot, (int64_t)owner->slots, owner->acquired_at_ms,
        owner->ttl_at_ms, owner->transition_at_ms, peer->boot, peer->process,
        (int64_t)(is_ours ? self->settings.is_handover : peer->is_handover),
        (int64_t)owner->is_broken, is->asked, owner->former);
}

/* The tenures of a mutex that several may own, or did. Both are in the order
 * of tokens, so one walk along them finds what has changed. */
static void store_slots(struct writing *w, bool is_crowd)
{
    struct simba__sqlite *self = w->self;
    const struct simba__sqlite_record *record = &self->record;
    size_t i = 0, j = 0;

    if (is_crowd && !record->is_crowd) {
        w->rc =
            simba__sqlite_execute(self, SIMBA__SQLITE_SLOT_TABLE, w->error, "");
        /* A program that knows of one owner only ends the tenures of several
         * without their rows here. They must not count beside the new ones. */
        if (w->rc == SIMBA_OK) {
            w->rc = simba__sqlite_execute(self, SIMBA__SQLITE_CLEAR_SLOTS,
                                          w->error, "t", w->request->mutex);
        }
    }
    while (w->rc == SIMBA_OK) {
        const struct simba__tenure *was =
            record->is_crowd ? simba__mutex_tenure(&record->before, i) : NULL;
        const struct simba__tenure *is =
            is_crowd ? simba__mutex_tenure(&record->after, j) : NULL;
        bool is_gone =
            was != NULL && (is == NULL || was->owner.token < is->owner.token);
        bool is_old = was != NULL && !is_gone;

        if (was == NULL && is == NULL) {
            return;
        }
        assert(!is_old || was->owner.token == is->owner.token);
        if (is_gone) {
            w->is_changed = true;
            w->rc = simba__sqlite_execute(self, SIMBA__SQLITE_DROP_SLOT,
                                          w->error, "tn", w->request->mutex,
                                          was->owner.token);
        } else if (!is_old || !is_same_slot(was, is)) {
            store_slot(w, is);
        }
        i += was != NULL;
        j += !is_gone;
    }
}

/* How long the row of several must be seen unchanged before it is over: the
 * longest of their leases. How long the oldest has been there says nothing. */
static int64_t lease_of_crowd(const struct writing *w)
{
    const struct simba__sqlite_record *record = &w->self->record;
    const simba_request *request = w->request;
    bool is_lease = request->reply.mine && (request->kind == SIMBA_ACQUIRE ||
                                            request->kind == SIMBA_RENEW);
    bool is_old = record->is_crowd &&
                  record->after.owner.token <= record->before.last_token;
    int64_t lease_ms = is_lease ? request->ttl_ms + request->transition_ms : 0;

    return is_old && record->lease_ms > lease_ms ? record->lease_ms : lease_ms;
}

/* Others see the owner 'slots@' until the last of several ends, under the
 * newest token, with a tenure that is nobody's and that no death ends: if it
 * named the process that was the last to come in, its death would seem to be
 * that of all to who knows of one owner only and is of another boot. */
static void store_crowd(struct writing *w)
{
    static const simba_attempt nobody;
    struct simba__sqlite *self = w->self;
    const struct simba__sqlite_record *record = &self->record;
    simba_owner shown = simba__mutex_shown(&record->after, record->now_ms);
    uint64_t token = record->after.tenure_token;
    int64_t lease_ms = lease_of_crowd(w);

    memcpy(shown.id, SIMBA__CROWD_ID, sizeof SIMBA__CROWD_ID);
    if (record->is_crowd && token == record->before.last_token &&
        shown.ttl_at_ms == record->row.ttl_at_ms &&
        shown.transition_at_ms == record->row.transition_at_ms) {
        return;
    }
    w->is_changed = true;
    w->rc = simba__sqlite_execute(self, SIMBA__SQLITE_STORE_MUTEX, w->error,
                                  "tnnntn", w->request->mutex,
                                  shown.acquired_at_ms, shown.ttl_at_ms,
                                  shown.transition_at_ms, shown.id, token);
    if (w->rc == SIMBA_OK &&
        (!record->is_crowd || token != record->before.last_token ||
         lease_ms != record->lease_ms)) {
        w->rc = simba__sqlite_execute(
            self, SIMBA__SQLITE_STORE_TENURE, w->error, "tnattnnnnt",
            w->request->mutex, token, nobody, self->boot, "", lease_ms,
            (int64_t)0, (int64_t)0, record->after.former_token, "");
    }
}

static void store_owner(struct writing *w)
{
    struct simba__sqlite *self = w->self;
    const struct simba__sqlite_record *record = &self->record;
    const simba_owner *owner = &record->after.owner;
    const simba_owner *before =
        record->is_crowd ? &record->row : &record->before.owner;
    bool is_free = owner->id[0] == '\0';
    bool is_crowd = owner->slots > 1;
    int64_t lease_ms = w->request->ttl_ms + w->request->transition_ms;

    if (is_crowd || record->is_crowd) {
        store_slots(w, is_crowd);
    }
    if (is_crowd || w->rc != SIMBA_OK) {
        if (w->rc == SIMBA_OK) {
            store_crowd(w);
        }
        return;
    }

    if (owner->token == before->token &&
        owner->acquired_at_ms == before->acquired_at_ms &&
        owner->ttl_at_ms == before->ttl_at_ms &&
        owner->transition_at_ms == before->transition_at_ms &&
        strcmp(owner->id, before->id) == 0) {
        return;
    }
    w->is_changed = true;
    w->rc = simba__sqlite_execute(
        self, SIMBA__SQLITE_STORE_MUTEX, w->error, "tnnntn", w->request->mutex,
        owner->acquired_at_ms, owner->ttl_at_ms, owner->transition_at_ms,
        owner->id, is_free ? record->before.last_token : owner->token);
    if (w->rc != SIMBA_OK || is_free ||
        (owner->token == before->token && record->lease_ms == lease_ms)) {
        return;
    }
    /* Only ever our own: nobody else's tenure gets a new beginning or lease. */
    w->rc = simba__sqlite_execute(
        self, SIMBA__SQLITE_STORE_TENURE, w->error, "tnattnnnnt",
        w->request->mutex, owner->token, record->after.attempt, self->boot,
        self->process, lease_ms, (int64_t)self->settings.is_handover,
        (int64_t)owner->is_broken, record->after.former_token,
        record->after.first.asked);
}

static void drop_waiter(struct writing *w, const struct simba__waiter *waiter)
{
    if (w->rc == SIMBA_OK) {
        w->is_changed = true;
        w->rc = simba__sqlite_execute(w->self, SIMBA__SQLITE_DROP_WAITER,
                                      w->error, "tna", w->request->mutex,
                                      waiter->position, waiter->attempt);
    }
}

static void store_waiter(struct writing *w,
                         const struct simba__waiter *waiter,
                         int64_t offered_until_ms)
{
    const struct simba__sqlite_peer *peer =
        &w->self->record.peers[waiter->connection];

    assert(waiter->connection < w->self->record.peer_count);
    if (w->rc == SIMBA_OK) {
        w->is_changed = true;
        w->rc = simba__sqlite_execute(
            w->self, SIMBA__SQLITE_STORE_WAITER, w->error, "tnatttnnn",
            w->request->mutex, waiter->position, waiter->attempt, waiter->id,
            peer->boot, peer->process, waiter->lapses_ms, offered_until_ms,
            (int64_t)waiter->slots);
    }
}

/* A longer waiter lease alone is no reason to write while as much of the old
 * one is left as who asks now must have (S11). It was stored with half as much
 * again. */
static bool is_stale(const struct writing *w,
                     const struct simba__waiter *before,
                     const struct simba__waiter *after)
{
    const struct simba__sqlite_record *record = &w->self->record;

    return strcmp(before->id, after->id) != 0 ||
           before->slots != after->slots ||
           strcmp(record->peers[before->connection].process,
                  record->peers[after->connection].process) != 0 ||
           (before->lapses_ms != after->lapses_ms &&
            before->lapses_ms - record->now_ms < w->request->waiter_ms);
}

/* The row of an old offer is dropped first, because its waiter may be in the
 * queue again; that of a new one is stored last, because its waiter was in the
 * queue before. Both queues are in the order of positions, so one walk along
 * them finds who has gone, who has come, and who must be written again. */
static void store_queue(struct writing *w)
{
    const struct simba__mutex_record *before = &w->self->record.before;
    const struct simba__mutex_record *after = &w->self->record.after;
    bool is_same_offer = simba__mutex_is_same_offer(before, after);
    size_t i = 0, j = 0;

    if (before->is_offered && !is_same_offer) {
        drop_waiter(w, &before->offered);
    }
    while (i < before->queue_count || j < after->queue_count) {
        const struct simba__waiter *was =
            i < before->queue_count ? &before->queue[i] : NULL;
        const struct simba__waiter *is =
            j < after->queue_count ? &after->queue[j] : NULL;
        bool are_both = was != NULL && is != NULL;

        assert(was != NULL || is != NULL);
        if (are_both && was->position == is->position &&
            simba__attempt_equal(was->attempt, is->attempt)) {
            if (is_stale(w, was, is)) {
                store_waiter(w, is, 0);
            }
            i++;
            j++;
        } else if (is == NULL || (are_both && was->position <= is->position)) {
            drop_waiter(w, was);
            i++;
        } else {
            store_waiter(w, is, 0);
            j++;
        }
    }
    if (after->is_offered && !is_same_offer) {
        store_waiter(w, &after->offered, after->offered_until_ms);
    }
}

int simba__sqlite_record_store(struct simba__sqlite *self,
                               const simba_request *request,
                               bool *is_changed,
                               simba_error *error)
{
    struct writing w = {self, request, error, self->record.is_sighted,
                        SIMBA_OK};
    const struct simba__sqlite_record *record = &self->record;
    const struct simba__mutex_record *after = &record->after;
    uint64_t wall_us;

    assert(!sqlite3_get_autocommit(self->db.handle));
    store_owner(&w);
    if (!record->is_owner_only) {
        store_queue(&w);
    }
    /* The waiters of other machines (fs=trust) are not in the record. With each
     * tenure their rows are swept out; those that live join again. */
    if (w.rc == SIMBA_OK && !record->is_owner_only &&
        self->settings.is_trusted && after->owner.id[0] != '\0' &&
        after->owner.token > record->before.owner.token) {
        w.is_changed = true;
        w.rc = simba__sqlite_execute(self, SIMBA__SQLITE_DROP_STRANGERS, error,
                                     "tt", request->mutex, self->boot);
    }
    if (w.rc == SIMBA_OK && !record->is_owner_only &&
        request->tombstone_ms != 0 && after->tombstone_count > 0) {
        wall_us = simba__sqlite_wall_us();
        w.is_changed = true;
        w.rc = simba__sqlite_execute(
            self, SIMBA__SQLITE_DROP_TOMBSTONES, error, "tnn", self->boot,
            record->now_ms, wall_us > STALE_US ? wall_us - STALE_US : 0);
        if (w.rc == SIMBA_OK) {
            w.rc = simba__sqlite_execute(
                self, SIMBA__SQLITE_STORE_TOMBSTONE, error, "atnn",
                after->tombstones[0].attempt, self->boot,
                after->tombstones[0].until_ms, wall_us);
        }
    }
    *is_changed = w.is_changed;
    return w.rc;
}
