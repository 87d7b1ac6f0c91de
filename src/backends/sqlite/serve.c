/* One operation: one transaction. Runs on the store's worker.
 *
 * The clock is read when the write lock is held, so that the order of times is
 * the order of commits; then the mutex is read, judged, served by the rules of
 * row.c, and written back. Bells ring after the commit. */
#include "backends/memory/row_tell.h"
#include "backends/sqlite/file.h"
#include "backends/sqlite/instance.h"

#include <string.h>

/* Whom to ring after the commit: the called one, the second in line, and who
 * stands behind a change that nobody else tells of. */
enum { RINGS = 3 };

/* How long an operation that is driven waits for other writers. */
enum { DRIVEN_PATIENCE_MS = 2 };

struct turn {
    struct simba__sqlite *self;
    simba_op *op;
    struct simba__sqlite_wish wish;
    struct simba__reply reply;
    size_t rings[RINGS]; /* peers */
    size_t ring_count;
};

/* --- what the row asks for ----------------------------------------------- */

static bool is_connected(void *argument, uint64_t connection)
{
    struct turn *turn = argument;
    struct simba__sqlite *self = turn->self;
    enum simba__sqlite_life life = simba__sqlite_presence_look(
        &self->presence, self->record.peers[connection].process);

    self->is_burial_due |= life == SIMBA__SQLITE_DEAD;
    return life != SIMBA__SQLITE_DEAD;
}

static void ring_later(void *argument, const struct simba__row_waiter *waiter)
{
    struct turn *turn = argument;

    if (turn->ring_count < RINGS) {
        turn->rings[turn->ring_count++] = (size_t)waiter->connection;
    }
}

static void ring_now(const struct turn *turn)
{
    const struct simba__sqlite *self = turn->self;

    for (size_t i = 0; i < turn->ring_count; i++) {
        simba__sqlite_presence_ring(&self->presence,
                                    self->record.peers[turn->rings[i]].process,
                                    turn->op->mutex);
    }
}

/* --- serving ------------------------------------------------------------- */

static enum simba__request_kind request_kind(enum simba_op_kind kind)
{
    switch (kind) {
    case SIMBA_OP_ACQUIRE:
        return SIMBA__ACQUIRE;
    case SIMBA_OP_RENEW:
        return SIMBA__RENEW;
    case SIMBA_OP_RELEASE:
        return SIMBA__RELEASE;
    case SIMBA_OP_LEAVE:
        return SIMBA__LEAVE;
    default:
        return SIMBA__NOTHING;
    }
}

static bool serve_row(struct turn *turn)
{
    const simba_op *op = turn->op;
    struct simba__row_host host = {turn, is_connected, ring_later};
    struct simba__request request = {
        .kind = request_kind(op->kind),
        .attempt = simba__sqlite_attempt(op),
        .token = op->token,
        .place = op->place,
        .waiter_ms = op->waiter_ms,
        .tombstone_ms = op->tombstone_ms,
        .join = op->join,
    };
    struct simba__row_call call = {
        .request = &request,
        .id = op->id,
        .ttl_ms = op->ttl_ms,
        .transition_ms = op->transition_ms,
        .connection = SIMBA__SQLITE_SELF,
        .now_ms = turn->wish.now_ms,
    };

    return simba__row_serve(&turn->self->record.row, &host, &call,
                            &turn->reply);
}

/* S4: tokens grow also over a lost file. The boot clock begins anew with every
 * boot, so the wall clock must carry them; it is compared with other tokens
 * only, never with a lease, and when it steps back the counter goes on. They
 * grow over a loss of power, too: see reserve.c. */
static int raise_token(struct turn *turn, simba_error *error)
{
    struct simba__sqlite *self = turn->self;
    struct simba__row *row = &self->record.row;
    uint64_t wall_us = simba__sqlite_clock_wall_us();
    int rc;

    if (turn->op->kind != SIMBA_OP_ACQUIRE) {
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

static bool is_live(struct turn *turn, const struct simba__row_waiter *waiter)
{
    return waiter->lapses_ms >= turn->wish.now_ms &&
           is_connected(turn, waiter->connection);
}

/* Some changes nobody in line hears of, and yet who is before whom is another:
 * somebody took the mutex without having been called, because its owner is dead
 * or late; or somebody went out of the line. Who is then the first behind that
 * place asks again, and so comes to watch the right one. */
static void wake_behind(struct turn *turn, uint64_t place)
{
    const struct simba__row *row = &turn->self->record.row;

    for (size_t i = 0; i < row->line_count; i++) {
        if (row->line[i].place >= place && is_live(turn, &row->line[i])) {
            ring_later(turn, &row->line[i]);
            return;
        }
    }
}

static bool is_taken_uncalled(const struct turn *turn)
{
    const struct simba__sqlite_record *record = &turn->self->record;
    bool is_called = record->is_called &&
                     simba__attempt_equal(record->called.attempt,
                                          simba__sqlite_attempt(turn->op));

    return turn->reply.mine && !is_called &&
           record->row.owner.token != record->owner.token;
}

static void wake_successor(struct turn *turn)
{
    const struct simba__sqlite_record *record = &turn->self->record;
    struct simba__attempt me = simba__sqlite_attempt(turn->op);

    if (is_taken_uncalled(turn)) {
        wake_behind(turn, 0);
    }
    if (turn->op->kind != SIMBA_OP_RELEASE &&
        turn->op->kind != SIMBA_OP_LEAVE) {
        return;
    }
    for (size_t i = 0; i < record->line_count; i++) {
        if (simba__attempt_equal(record->line[i].attempt, me)) {
            wake_behind(turn, record->line[i].place);
        }
    }
}

/* Who is refused watches the one before it in line: the death of an owner then
 * wakes one waiter and not all of them, and who was before us and became the
 * owner is watched already. The first watches the owner, unless its death is
 * not to be used, or the called one, who will be the owner. */
static const char *find_obstacle(struct turn *turn)
{
    const struct simba__sqlite_record *record = &turn->self->record;
    const struct simba__row *row = &record->row;
    size_t i = row->line_count;

    while (i > 0 && row->line[i - 1].place >= turn->reply.place) {
        i--;
    }
    for (; i > 0; i--) {
        if (is_live(turn, &row->line[i - 1])) {
            return record->peers[row->line[i - 1].connection].process;
        }
    }
    if (!simba__row_is_held(row, turn->wish.now_ms)) {
        return row->is_called ? record->peers[row->called.connection].process
                              : "";
    }
    return record->is_handover ? record->peers[SIMBA__SQLITE_OWNER].process
                               : "";
}

static void watch_or_forget(struct turn *turn)
{
    struct simba__sqlite *self = turn->self;

    if (turn->op->kind == SIMBA_OP_RENEW) {
        return;
    }
    if (turn->op->kind != SIMBA_OP_ACQUIRE || !turn->reply.in_line) {
        simba__sqlite_watch_forget(&self->watch, turn->op);
        return;
    }
    if (!simba__sqlite_watch_wait(&self->watch, turn->op, find_obstacle(turn),
                                  turn->reply.is_head) &&
        !self->is_deaf) {
        self->is_deaf = true;
        self->log(self->log_user, SIMBA_LOG_INFO, "sqlite",
                  "no hints: inotify or the bell cannot be had; waiters poll");
    }
}

static void fill_reply(const struct turn *turn)
{
    const struct simba__row *row = &turn->self->record.row;
    simba_op_reply *reply = &turn->op->reply;

    reply->mine = turn->reply.mine;
    reply->token = turn->reply.token;
    reply->in_line = turn->reply.in_line;
    reply->is_head = turn->reply.is_head;
    reply->place = turn->reply.place;
    reply->wait_ms = turn->reply.wait_ms;
    reply->store_ms = turn->wish.now_ms;
    reply->ended = simba__row_ended(row, turn->wish.now_ms);
    if (simba__row_is_held(row, turn->wish.now_ms)) {
        reply->owner = row->owner;
    }
}

static int serve_break(struct turn *turn, simba_error *error)
{
    struct simba__row_host host = {turn, is_connected, ring_later};
    int rc;

    if (turn->op->kind != SIMBA_OP_BREAK) {
        return SIMBA_OK;
    }
    turn->op->reply.store_ms = turn->wish.now_ms;
    rc = simba__sqlite_break(turn->self, &host, turn->op, error);
    turn->reply.mine = turn->op->reply.mine;
    return rc;
}

static bool is_broken(const struct turn *turn)
{
    return turn->op->kind == SIMBA_OP_BREAK && turn->reply.mine;
}

static bool is_granted(const struct turn *turn)
{
    return turn->op->kind == SIMBA_OP_ACQUIRE && turn->reply.mine;
}

static int store(struct turn *turn, bool *is_changed, simba_error *error)
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
static int serve_inside(struct turn *turn, bool *is_changed, simba_error *error)
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
    if (simba__sqlite_judge(self, turn->op->mutex, turn->wish.now_ms) !=
            SIMBA_OK ||
        !serve_row(turn)) {
        return simba__sqlite_db_fail(&self->db, SQLITE_NOMEM, error);
    }
    rc = serve_break(turn, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    wake_successor(turn);
    watch_or_forget(turn);
    return store(turn, is_changed, error);
}

static bool is_owner_changed(const struct turn *turn)
{
    const struct simba__sqlite_record *record = &turn->self->record;

    return record->row.owner.token != record->owner.token;
}

/* A caller that lends its thread is not kept waiting for other writers. */
static int begin(const struct turn *turn, simba_error *error)
{
    const simba_op *op = turn->op;
    int64_t soon_ms = simba_loop_now_ms() + DRIVEN_PATIENCE_MS;
    bool is_short = op->is_driven && soon_ms < op->deadline_ms;
    int rc = simba__sqlite_db_begin(
        &turn->self->db, is_short ? soon_ms : op->deadline_ms, error);

    return is_short && rc != SIMBA_OK &&
                   simba__sqlite_db_is_busy((int)error->native)
               ? SIMBA_EBUSY
               : rc;
}

/* What must outlast a loss of power: see keep.c. A token also when an acquire
 * finds its tenure there already: an earlier one was not sure of it. */
static int keep(const struct turn *turn, simba_error *error)
{
    if (is_broken(turn)) {
        return simba__sqlite_db_keep(&turn->self->db, error);
    }
    return is_granted(turn) ? simba__sqlite_reserve_keep(
                                  turn->self, turn->reply.token, error)
                            : SIMBA_OK;
}

static int commit(const struct turn *turn, simba_error *error)
{
    struct simba__sqlite *self = turn->self;
    int rc = simba__sqlite_db_commit(&self->db, turn->op->deadline_ms, error);

    if (rc == SIMBA_OK) {
        simba__sqlite_reserve_told(self);
    }
    return rc;
}

static int serve_change(struct turn *turn, simba_error *error)
{
    struct simba__sqlite *self = turn->self;
    bool is_changed = false;
    int rc = begin(turn, error);

    turn->wish.is_owner_only = turn->op->kind == SIMBA_OP_RENEW;
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
        ring_now(turn);
        fill_reply(turn);
        if (is_broken(turn)) {
            simba__sqlite_log_break(self, turn->op);
        }
    }
    if (rc == SIMBA_OK && is_owner_changed(turn)) {
        simba__sqlite_eyes_ring(&self->eyes, turn->op);
    }
    return rc;
}

static int serve_read(struct turn *turn, simba_error *error)
{
    struct simba__sqlite *self = turn->self;
    struct simba__row_host host = {turn, is_connected, ring_later};
    int rc =
        simba__sqlite_db_begin_read(&self->db, turn->op->deadline_ms, error);

    turn->wish.is_owner_only = !turn->op->want_line;
    if (rc != SIMBA_OK) {
        return rc;
    }
    turn->wish.now_ms = simba__sqlite_clock_now_ms(&self->clock);
    rc = simba__sqlite_record_load(self, &turn->wish, error);
    simba__sqlite_db_rollback(&self->db);
    if (rc == SIMBA_OK) {
        rc = simba__sqlite_judge(self, turn->op->mutex, turn->wish.now_ms);
    }
    if (rc == SIMBA_OK) {
        fill_reply(turn);
        (void)simba__row_tell_line(&self->record.row, &host, turn->wish.now_ms,
                                   turn->op);
    }
    return rc;
}

/* --- the whole ----------------------------------------------------------- */

/* Somebody deleted or replaced the file, or our directory. On the old one we
 * could go on alone, beside others who own the same mutexes on the new one. */
static int follow_file(struct simba__sqlite *self,
                       int64_t deadline_ms,
                       simba_error *error)
{
    bool is_moved = simba__sqlite_db_is_moved(&self->db);
    int rc = SIMBA_OK;

    if (!is_moved && !simba__sqlite_presence_is_lost(&self->presence)) {
        return SIMBA_OK;
    }
    self->log(self->log_user, SIMBA_LOG_WARN, "sqlite",
              is_moved ? "the database was deleted or replaced: opening it anew"
                       : "the directory beside the database was cleaned up");
    if (is_moved) {
        simba__sqlite_db_close(&self->db);
        self->reserve = (struct simba__sqlite_reserve){0};
        rc = simba__sqlite_file_prepare(&self->settings, error);
        if (rc == SIMBA_OK) {
            rc = simba__sqlite_db_open(&self->db, &self->settings, deadline_ms,
                                       error);
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
static void clean_up(struct simba__sqlite *self, enum simba_op_kind kind)
{
    bool is_urgent = kind == SIMBA_OP_ACQUIRE;

    if (self->is_burial_due && !is_urgent) {
        simba__sqlite_bury(self);
    }
    simba__sqlite_db_shorten_log(&self->db, is_urgent);
}

int simba__sqlite_serve(void *argument, simba_op *op, simba_error *error)
{
    struct simba__sqlite *self = argument;
    struct turn turn = {.self = self, .op = op, .wish.op = op};
    int rc = follow_file(self, op->deadline_ms, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    simba__sqlite_eyes_settle(&self->eyes);
    switch (op->kind) {
    case SIMBA_OP_READ:
        return serve_read(&turn, error);
    case SIMBA_OP_LIST:
        return simba__sqlite_list(self, op, error);
    case SIMBA_OP_DOCTOR:
        return simba__sqlite_doctor(self, op, error);
    case SIMBA_OP_INIT:
        return simba__sqlite_tell_schema(self, op);
    default:
        break;
    }
    rc = serve_change(&turn, error);
    clean_up(self, op->kind);
    return rc;
}
