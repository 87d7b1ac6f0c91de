/* The turn of one operation: which statement comes next, and what its answer
 * means. */
#include "backends/sql/engine.h"

#include <string.h>

/* --- deciding ------------------------------------------------------------ */

static bool is_connected(void *argument, uint64_t connection)
{
    const struct simba__sql_turn *turn = argument;

    return connection == SIMBA__SQL_SELF ||
           turn->record.peers[connection].is_live;
}

static void ring_later(void *argument, const struct simba__waiter *waiter)
{
    struct simba__sql_turn *turn = argument;
    struct simba__sql_change *change = &turn->change;

    if (change->ring_count < sizeof change->rings / sizeof change->rings[0]) {
        change->rings[change->ring_count++] = (size_t)waiter->connection;
    }
}

static bool serve_row(struct simba__sql_turn *turn)
{
    struct simba__mutex_host host = {turn, is_connected, ring_later};
    struct simba__mutex_call call = {
        .request = turn->request,
        .connection = SIMBA__SQL_SELF,
        .now_ms = turn->record.now_us / 1000,
    };

    turn->change.ring_count = 0;
    return simba__mutex_serve(&turn->record.row, &host, &call,
                              &turn->request->reply);
}

/* Where simba_mutex has no column for it, the token is the version that the
 * acquire leaves. */
static void take_version_for_token(struct simba__sql_turn *turn)
{
    struct simba__mutex_record *row = &turn->record.row;

    if (turn->request->reply.mine &&
        row->owner.token != turn->record.owner.token) {
        row->owner.token = row->last_token = (uint64_t)turn->change.version;
        row->tenure_token = row->last_token;
        turn->request->reply.token = row->owner.token;
    }
}

/* --- steps --------------------------------------------------------------- */

static void send(struct simba__sql_turn *turn,
                 enum simba__sql_statement statement)
{
    struct simba__sql_session *session = turn->session;

    turn->statement = statement;
    turn->missing = simba__sql_missing(turn->self);
    if (statement <= SIMBA__SQL_FAST_RELEASE || statement == SIMBA__SQL_APPLY) {
        turn->is_written = true;
    }
    session->self->dialect->send(session, statement);
}

void simba__sql_turn_start(struct simba__sql_turn *turn)
{
    const simba_request *request = turn->request;

    turn->is_written = false;
    if (request == &turn->self->beat_op) {
        send(turn,
             turn->self->is_look ? SIMBA__SQL_POLL : SIMBA__SQL_HEARTBEAT);
    } else if (request->kind == SIMBA_INIT) {
        send(turn, SIMBA__SQL_SCHEMA);
    } else if (request->kind == SIMBA_LIST || request->kind == SIMBA_DOCTOR) {
        send(turn,
             request->kind == SIMBA_LIST ? SIMBA__SQL_LIST : SIMBA__SQL_DOCTOR);
    } else {
        send(turn, simba__sql_first_try(turn));
    }
}

/* Nobody may call us before we can hear it. */
static bool must_park(const struct simba__sql_turn *turn)
{
    enum simba__sql_bell bell = turn->session->self->bell;

    return turn->request->reply.is_queued &&
           (bell == SIMBA__SQL_BELL_NONE || bell == SIMBA__SQL_BELL_HANGING);
}

/* No break without its audit, so that comes first. */
static bool must_book(const struct simba__sql_turn *turn)
{
    return turn->request->kind == SIMBA_BREAK && turn->request->reply.mine &&
           !turn->was_booked;
}

static void decide(struct simba__sql_turn *turn)
{
    struct simba__sql *self = turn->session->self;
    struct simba__sql_peer *me = &turn->record.peers[SIMBA__SQL_SELF];

    memcpy(me->process, self->process, sizeof me->process);
    me->has_bell = self->bell == SIMBA__SQL_BELL_HUNG;
    if (!serve_row(turn) ||
        !simba__sql_change_find(&turn->change, &turn->record, turn->request)) {
        simba__sql_turn_end(turn, SIMBA_ENOMEM, NULL);
        return;
    }
    if (self->has_no_token) {
        take_version_for_token(turn);
    }
    if (turn->request->kind == SIMBA_RELEASE) {
        simba__sql_mark_line(turn, turn->record.line_count > 0);
    }
    simba__sql_mark_loud(turn, !turn->record.is_quiet);
    if (must_park(turn)) {
        simba__sql_turn_park(turn);
    } else if (turn->request->kind == SIMBA_READ || !turn->change.is_any) {
        simba__sql_reply_fill(turn);
        simba__sql_turn_end(turn, SIMBA_OK, NULL);
    } else if (must_book(turn)) {
        turn->was_booked = true;
        send(turn, SIMBA__SQL_RECORD_BREAK);
    } else {
        send(turn, SIMBA__SQL_APPLY);
    }
}

/* A row that is there for the server's insert and not for our search bears
 * another name, which the server takes for the same (S14). */
static void make_rows(struct simba__sql_turn *turn)
{
    simba_error error;

    if (!turn->was_ensured) {
        turn->was_ensured = true;
        send(turn, SIMBA__SQL_INSERT_MUTEX);
    } else {
        simba_error_set(&error, SIMBA_EMISCONFIG, 0,
                        "%s: simba_mutex does not tell this name from another: "
                        "its collation or its character set",
                        turn->self->shown);
        simba__sql_turn_end(turn, SIMBA_EMISCONFIG, &error);
    }
}

/* Who looks makes nothing; nor does who breaks, before there is something to
 * break. */
static bool is_looking(const struct simba__sql_turn *turn)
{
    enum simba_request_kind kind = turn->request->kind;

    return kind == SIMBA_READ || kind == SIMBA_LIST ||
           (kind == SIMBA_BREAK && turn->statement != SIMBA__SQL_RECORD_BREAK);
}

static void loaded(struct simba__sql_turn *turn,
                   const struct simba__sql_rows *rows)
{
    bool is_whole = turn->statement == SIMBA__SQL_LOAD_ALL;

    if (simba__sql_learn(turn, rows)) {
        return;
    }
    switch (simba__sql_record_load(&turn->record, rows, turn->request)) {
    case SIMBA__SQL_LOADED:
        if (turn->request->want_queue && !is_whole) {
            send(turn, SIMBA__SQL_LOAD_ALL);
        } else {
            decide(turn);
        }
        break;
    case SIMBA__SQL_IN_PART:
        if (!is_whole) {
            send(turn, SIMBA__SQL_LOAD_ALL);
        } else {
            decide(turn);
        }
        break;
    case SIMBA__SQL_NO_ROW:
        if (is_looking(turn)) {
            simba__sql_turn_end(turn, SIMBA_OK, NULL);
        } else {
            make_rows(turn);
        }
        break;
    case SIMBA__SQL_NO_TENURE:
        make_rows(turn);
        break;
    case SIMBA__SQL_NO_MEMORY:
        simba__sql_turn_end(turn, SIMBA_ENOMEM, NULL);
        break;
    }
}

/* Wake-ups to contenders of our own need no server. */
static void wake_own(struct simba__sql_turn *turn)
{
    struct simba__sql *self = turn->self;

    for (size_t i = 0; i < turn->change.ring_count; i++) {
        size_t peer = turn->change.rings[i];

        if (strcmp(turn->record.peers[peer].process, self->process) == 0) {
            simba__sql_wake(self, turn->request->mutex);
        }
    }
}

static void applied(struct simba__sql_turn *turn,
                    const struct simba__sql_rows *rows)
{
    turn->is_written = false;
    if (rows->count == 0) {
        send(turn, SIMBA__SQL_LOAD); /* somebody was faster */
        return;
    }
    turn->self->was_primary = true;
    simba__sql_mark_loud(turn, !turn->change.is_quiet);
    simba__sql_reply_fill(turn);
    wake_own(turn);
    simba__sql_turn_end(turn, SIMBA_OK, NULL);
}

static void make_tables(struct simba__sql_turn *turn)
{
    turn->was_created = true;
    turn->was_booked = false;
    turn->is_written = false;
    send(turn, SIMBA__SQL_SCHEMA);
}

static void glanced(struct simba__sql_turn *turn,
                    const struct simba__sql_rows *rows)
{
    if (turn->request->kind == SIMBA_LIST) {
        simba__sql_listed(turn, rows);
    } else if (simba__sql_glanced(turn, rows) &&
               turn->request->kind == SIMBA_BREAK) {
        turn->request->reply.owner.id[0] = '\0';
        make_tables(turn);
    } else {
        simba__sql_turn_end(turn, SIMBA_OK, NULL);
    }
}

/* False: there is nothing to be done about it. */
static bool do_without_table(struct simba__sql_turn *turn)
{
    if (turn->statement == SIMBA__SQL_LIST_BARE) {
        simba__sql_turn_end(turn, SIMBA_OK, NULL); /* nobody ever had any */
    } else if (turn->was_created) {
        return false;
    } else if (is_looking(turn)) {
        send(turn, SIMBA__SQL_LIST_BARE);
    } else {
        make_tables(turn);
    }
    return true;
}

/* Who owns a mutex that is no longer quiet renews in one round trip still. */
static void tried(struct simba__sql_turn *turn,
                  const struct simba__sql_rows *rows)
{
    turn->is_written = false;
    if (rows->count > 0 && rows->cell(rows, 0, SIMBA__SQL_DONE_US) != NULL) {
        turn->self->was_primary = true;
        simba__sql_reply_fast(turn, rows);
        simba__sql_turn_end(turn, SIMBA_OK, NULL);
    } else if (turn->statement == SIMBA__SQL_QUIET_RENEW) {
        simba__sql_mark_loud(turn, true);
        send(turn, SIMBA__SQL_FAST_RENEW);
    } else {
        send(turn, SIMBA__SQL_LOAD);
    }
}

static void fine(struct simba__sql_turn *turn,
                 const struct simba__sql_rows *rows)
{
    switch (turn->statement) {
    case SIMBA__SQL_QUIET_ACQUIRE:
    case SIMBA__SQL_QUIET_RENEW:
    case SIMBA__SQL_QUIET_RELEASE:
    case SIMBA__SQL_FAST_ACQUIRE:
    case SIMBA__SQL_FAST_RENEW:
    case SIMBA__SQL_FAST_RELEASE:
        tried(turn, rows);
        break;
    case SIMBA__SQL_LOAD:
    case SIMBA__SQL_LOAD_ALL:
        loaded(turn, rows);
        break;
    case SIMBA__SQL_APPLY:
        applied(turn, rows);
        break;
    case SIMBA__SQL_RECORD_BREAK:
        send(turn,
             simba__sql_is_news(turn) ? SIMBA__SQL_LOAD : SIMBA__SQL_APPLY);
        break;
    case SIMBA__SQL_INSERT_MUTEX:
        send(turn, SIMBA__SQL_LOAD);
        break;
    case SIMBA__SQL_SCHEMA:
        if (turn->request->kind != SIMBA_INIT) {
            simba__sql_turn_start(turn);
        } else {
            send(turn, turn->request->upgrade ? SIMBA__SQL_UPGRADE
                                              : SIMBA__SQL_DOCTOR_TABLES);
        }
        break;
    case SIMBA__SQL_UPGRADE:
        send(turn, SIMBA__SQL_DOCTOR_TABLES);
        break;
    case SIMBA__SQL_LIST:
        simba__sql_listed(turn, rows);
        break;
    case SIMBA__SQL_LIST_BARE:
        glanced(turn, rows);
        break;
    case SIMBA__SQL_DOCTOR:
        simba__sql_examined(turn, rows);
        send(turn, SIMBA__SQL_DOCTOR_TABLES);
        break;
    case SIMBA__SQL_DOCTOR_TABLES:
        simba__sql_examined(turn, rows);
        simba__sql_turn_end(turn, SIMBA_OK, NULL);
        break;
    case SIMBA__SQL_POLL:
        simba__sql_looked(turn, rows);
        break;
    case SIMBA__SQL_HEARTBEAT:
        simba__sql_beaten(turn, rows);
        break;
    default:
        simba__sql_turn_end(turn, SIMBA_OK, NULL);
        break;
    }
}

/* Who may use the tables need not be one who may make them. */
static void refused(struct simba__sql_turn *turn,
                    const struct simba__sql_answer *answer)
{
    simba_error error = answer->error;
    int status = answer->status;

    if (turn->statement == SIMBA__SQL_SCHEMA && status == SIMBA_EDENIED &&
        turn->request->kind != SIMBA_INIT) {
        status = simba_error_set(
            &error, SIMBA_ENOTINIT, answer->error.native,
            "%s: no table simba_mutex, or not all that belong to it, and no "
            "right to make them: run `simba init` as somebody who may",
            turn->self->shown);
    }
    simba__sql_turn_end(turn, status, &error);
}

/* A server that took changes before has stepped down: there will be another, or
 * it comes back. Who never did is not the one that is meant. */
static void stepped_down(struct simba__sql_turn *turn,
                         const struct simba__sql_answer *answer)
{
    struct simba__sql *self = turn->self;
    struct simba__sql_session *session = turn->session;
    simba_error error = answer->error;

    error.code = self->was_primary ? SIMBA_EUNAVAIL : answer->status;
    turn->is_written = false;
    simba__sql_session_leave(self, &error);
    simba__sql_broken(session, error.code, &error);
}

void simba__sql_turn_answered(struct simba__sql_turn *turn,
                              const struct simba__sql_answer *answer)
{
    switch (answer->verdict) {
    case SIMBA__SQL_FINE:
        fine(turn, &answer->rows);
        return;
    case SIMBA__SQL_AGAIN:
        if (turn->statement == SIMBA__SQL_APPLY) {
            turn->is_written = false;
            send(turn, SIMBA__SQL_LOAD);
        } else {
            send(turn, turn->statement);
        }
        return;
    case SIMBA__SQL_NO_COLUMN:
        if (simba__sql_note_missing(turn)) {
            simba__sql_turn_start(turn);
            return;
        }
        break;
    case SIMBA__SQL_NO_TABLE:
        if (do_without_table(turn)) {
            return;
        }
        break;
    case SIMBA__SQL_READ_ONLY:
        stepped_down(turn, answer);
        return;
    case SIMBA__SQL_REFUSED:
        break;
    }
    refused(turn, answer);
}
