/* One operation: one transaction. Runs on the store's worker.
 *
 * The clock is read when the write lock is held, so that the order of times is
 * the order of commits; then the mutex is read, judged, served by the rules of
 * row.c, and written back. Bells ring after the commit. */
#include "backends/memory/row_tell.h"
#include "backends/sqlite/file.h"
#include "backends/sqlite/turn.h"

#include <string.h>

/* How long an operation that is driven waits for other writers. */
enum { DRIVEN_PATIENCE_MS = 2 };

/* --- serving ------------------------------------------------------------- */

static enum simba__request_kind request_kind(enum simba_request_kind kind)
{
    switch (kind) {
    case SIMBA_ACQUIRE:
        return SIMBA__ACQUIRE;
    case SIMBA_RENEW:
        return SIMBA__RENEW;
    case SIMBA_RELEASE:
        return SIMBA__RELEASE;
    case SIMBA_LEAVE:
        return SIMBA__LEAVE;
    default:
        return SIMBA__NOTHING;
    }
}

static bool serve_row(struct simba__sqlite_turn *turn)
{
    const simba_request *request = turn->request;
    struct simba__mutex_host host = {turn, simba__sqlite_is_connected,
                                     simba__sqlite_ring_later};
    struct simba__request asked = {
        .kind = request_kind(request->kind),
        .attempt = simba__sqlite_attempt(request),
        .token = request->token,
        .position = request->position,
        .waiter_ms = request->waiter_ms,
        .tombstone_ms = request->tombstone_ms,
        .join = request->join,
    };
    struct simba__mutex_call call = {
        .request = &asked,
        .id = request->id,
        .ttl_ms = request->ttl_ms,
        .transition_ms = request->transition_ms,
        .connection = SIMBA__SQLITE_SELF,
        .now_ms = turn->wish.now_ms,
    };

    return simba__mutex_serve(&turn->self->record.row, &host, &call,
                              &turn->reply);
}

/* S4: tokens grow also over a lost file. The boot clock begins anew with every
 * boot, so the wall clock must carry them; it is compared with other tokens
 * only, never with a lease, and when it steps back the counter goes on. They
 * grow over a loss of power, too: see reserve.c. */
static int raise_token(struct simba__sqlite_turn *turn, simba_error *error)
{
    struct simba__sqlite *self = turn->self;
    struct simba__mutex_record *row = &self->record.row;
    uint64_t wall_us = simba__sqlite_clock_wall_us();
    int rc;

    if (turn->request->kind != SIMBA_ACQUIRE) {
        return SIMBA_OK;
    }
    rc = simba__sqlite_reserve_load(self, error);
    if (row->last_token + 1 < wall_us) {
        row->last_token = wall_us - 1;
    }
    if (row->last_token < self->reserve.floor) {
        row->last_token = self->reserve.floor;
    }
    return rc;
}

static void fill_reply(const struct simba__sqlite_turn *turn)
{
    const struct simba__mutex_record *row = &turn->self->record.row;
    simba_reply *reply = &turn->request->reply;

    reply->mine = turn->reply.mine;
    reply->token = turn->reply.token;
    reply->is_queued = turn->reply.is_queued;
    reply->is_head = turn->reply.is_head;
    reply->position = turn->reply.position;
    reply->wait_ms = turn->reply.wait_ms;
    reply->store_ms = turn->wish.now_ms;
    reply->ended = simba__mutex_ended(row, turn->wish.now_ms);
    if (simba__mutex_is_held(row, turn->wish.now_ms)) {
        reply->owner = row->owner;
    }
}

static int serve_break(struct simba__sqlite_turn *turn, simba_error *error)
{
    struct simba__mutex_host host = {turn, simba__sqlite_is_connected,
                                     simba__sqlite_ring_later};
    int rc;

    if (turn->request->kind != SIMBA_BREAK) {
        return SIMBA_OK;
    }
    turn->request->reply.store_ms = turn->wish.now_ms;
    rc = simba__sqlite_break(turn->self, &host, turn->request, error);
    turn->reply.mine = turn->request->reply.mine;
    return rc;
}

static bool is_broken(const struct simba__sqlite_turn *turn)
{
    return turn->request->kind == SIMBA_BREAK && turn->reply.mine;
}

static bool is_granted(const struct simba__sqlite_turn *turn)
{
    return turn->request->kind == SIMBA_ACQUIRE && turn->reply.mine;
}

static int store(struct simba__sqlite_turn *turn,
                 bool *is_changed,
                 simba_error *error)
{
    struct simba__sqlite *self = turn->self;
    int rc = simba__sqlite_record_store(self, &turn->wish, is_changed, error);

    if (rc == SIMBA_OK && is_granted(turn)) {
        rc = simba__sqlite_reserve_cover(self, turn->reply.token, is_changed,
                                         error);
    }
    *is_changed |= is_broken(turn);
    return rc == SIMBA_OK && *is_changed
               ? simba__sqlite_reserve_tell(self, error)
               : rc;
}

/* Within the transaction: everything up to the commit. */
static int serve_inside(struct simba__sqlite_turn *turn,
                        bool *is_changed,
                        simba_error *error)
{
    struct simba__sqlite *self = turn->self;
    int rc;

    turn->wish.now_ms = simba__sqlite_clock_now_ms(&self->clock);
    rc = simba__sqlite_record_load(self, &turn->wish, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    rc = raise_token(turn, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    if (simba__sqlite_judge(self, turn->request->mutex, turn->wish.now_ms) !=
            SIMBA_OK ||
        !serve_row(turn)) {
        return simba__sqlite_db_fail(&self->db, SQLITE_NOMEM, error);
    }
    rc = serve_break(turn, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    simba__sqlite_wake_successor(turn);
    simba__sqlite_watch_or_forget(turn);
    return store(turn, is_changed, error);
}

static bool is_owner_changed(const struct simba__sqlite_turn *turn)
{
    const struct simba__sqlite_record *record = &turn->self->record;

    return record->row.owner.token != record->owner.token;
}

/* A caller that lends its thread is not kept waiting for other writers. */
static int64_t patience(const simba_request *request)
{
    int64_t soon_ms = simba_loop_now_ms() + DRIVEN_PATIENCE_MS;

    return request->is_driven && soon_ms < request->deadline_ms
               ? soon_ms
               : request->deadline_ms;
}

/* What these are in the way of is put off for the worker then. */
static int put_off(const simba_request *request,
                   int rc,
                   const simba_error *error)
{
    return request->is_driven && rc == SIMBA_EUNAVAIL &&
                   simba__sqlite_db_is_busy(error->native)
               ? SIMBA_EBUSY
               : rc;
}

static int begin(const struct simba__sqlite_turn *turn, simba_error *error)
{
    const simba_request *request = turn->request;
    int rc = simba__sqlite_db_begin(&turn->self->db, patience(request), error);

    return put_off(request, rc, error);
}

/* What must outlast a loss of power: see keep.c. A token also when an acquire
 * finds its tenure there already: an earlier one was not sure of it. */
static int keep(const struct simba__sqlite_turn *turn, simba_error *error)
{
    if (is_broken(turn)) {
        return simba__sqlite_db_keep(&turn->self->db, error);
    }
    return is_granted(turn) ? simba__sqlite_reserve_keep(
                                  turn->self, turn->reply.token, error)
                            : SIMBA_OK;
}

static int commit(const struct simba__sqlite_turn *turn, simba_error *error)
{
    struct simba__sqlite *self = turn->self;
    int rc =
        simba__sqlite_db_commit(&self->db, turn->request->deadline_ms, error);

    if (rc == SIMBA_OK) {
        simba__sqlite_reserve_told(self);
    }
    return rc;
}

static int serve_change(struct simba__sqlite_turn *turn, simba_error *error)
{
    struct simba__sqlite *self = turn->self;
    bool is_changed = false;
    int rc = begin(turn, error);

    turn->wish.is_owner_only = turn->request->kind == SIMBA_RENEW;
    if (rc != SIMBA_OK) {
        return rc;
    }
    rc = serve_inside(turn, &is_changed, error);
    if (rc == SIMBA_OK && is_changed) {
        rc = commit(turn, error);
    } else {
        simba__sqlite_db_rollback(&self->db);
    }
    if (rc == SIMBA_OK) {
        rc = keep(turn, error);
    }
    if (rc == SIMBA_OK) {
        simba__sqlite_ring_now(turn);
        fill_reply(turn);
        if (is_broken(turn)) {
            simba__sqlite_log_break(self, turn->request);
        }
    }
    if (rc == SIMBA_OK && is_owner_changed(turn)) {
        simba__sqlite_eyes_ring(&self->eyes, turn->request);
    }
    return rc;
}

static int serve_read(struct simba__sqlite_turn *turn, simba_error *error)
{
    struct simba__sqlite *self = turn->self;
    struct simba__mutex_host host = {turn, simba__sqlite_is_connected,
                                     simba__sqlite_ring_later};
    int rc = simba__sqlite_db_begin_read(&self->db, turn->request->deadline_ms,
                                         error);

    turn->wish.is_owner_only = !turn->request->want_queue;
    if (rc != SIMBA_OK) {
        return rc;
    }
    turn->wish.now_ms = simba__sqlite_clock_now_ms(&self->clock);
    rc = simba__sqlite_record_load(self, &turn->wish, error);
    simba__sqlite_db_rollback(&self->db);
    if (rc == SIMBA_OK) {
        rc = simba__sqlite_judge(self, turn->request->mutex, turn->wish.now_ms);
    }
    if (rc == SIMBA_OK) {
        fill_reply(turn);
        (void)simba__row_tell_line(&self->record.row, &host, turn->wish.now_ms,
                                   turn->request);
    }
    return rc;
}

/* --- the whole ----------------------------------------------------------- */

/* Somebody deleted or replaced the file, or our directory. On the old one we
 * could go on alone, beside others who own the same mutexes on the new one. Or
 * the file could not be opened before, because it was kept locked. */
static int follow_file(struct simba__sqlite *self,
                       const simba_request *request,
                       simba_error *error)
{
    bool was_open = self->db.handle != NULL;
    bool is_moved = simba__sqlite_db_is_moved(&self->db);
    int rc = SIMBA_OK;

    if (!is_moved && !simba__sqlite_presence_is_lost(&self->presence)) {
        return SIMBA_OK;
    }
    if (was_open) {
        self->log(self->log_user, SIMBA_LOG_WARN, "sqlite",
                  is_moved
                      ? "the database was deleted or replaced: opening it anew"
                      : "the directory beside the database was cleaned up");
    }
    if (is_moved) {
        simba__sqlite_db_close(&self->db);
        self->reserve = (struct simba__sqlite_reserve){0};
        rc = simba__sqlite_file_prepare(&self->settings, error);
        if (rc == SIMBA_OK) {
            rc = simba__sqlite_db_open(&self->db, &self->settings,
                                       patience(request), error);
            rc = put_off(request, rc, error);
        }
    }
    if (rc == SIMBA_OK) {
        rc = simba__sqlite_presence_open(&self->presence, &self->settings,
                                         error);
        simba__sqlite_watch_renew(&self->watch);
        simba__sqlite_eyes_renew(&self->eyes);
    }
    return rc;
}

/* Not while somebody waits for the answer to an acquire, if it can wait. */
static void clean_up(struct simba__sqlite *self, enum simba_request_kind kind)
{
    bool is_urgent = kind == SIMBA_ACQUIRE;

    if (self->is_burial_due && !is_urgent) {
        simba__sqlite_bury(self);
    }
    simba__sqlite_db_shorten_log(&self->db, is_urgent);
}

int simba__sqlite_serve(void *argument,
                        simba_request *request,
                        simba_error *error)
{
    struct simba__sqlite *self = argument;
    struct simba__sqlite_turn turn = {
        .self = self, .request = request, .wish.request = request};
    int rc = follow_file(self, request, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    simba__sqlite_eyes_settle(&self->eyes);
    switch (request->kind) {
    case SIMBA_READ:
        return serve_read(&turn, error);
    case SIMBA_LIST:
        return simba__sqlite_list(self, request, error);
    case SIMBA_DOCTOR:
        return simba__sqlite_doctor(self, request, error);
    case SIMBA_INIT:
        return simba__sqlite_tell_schema(self, request);
    default:
        break;
    }
    rc = serve_change(&turn, error);
    clean_up(self, request->kind);
    return rc;
}
