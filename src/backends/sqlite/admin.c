/* What an admin asks of an SQLite store: list and break. */
#include "backends/memory/row_tell.h"
#include "backends/sqlite/instance.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- list ---------------------------------------------------------------- */

static bool is_connected(void *argument, uint64_t connection)
{
    struct simba__sqlite *self = argument;

    return simba__sqlite_presence_look(
               &self->presence, self->record.peers[connection].process) !=
           SIMBA__SQLITE_DEAD;
}

static int list_one(struct simba__sqlite *self,
                    simba_request *request,
                    const char *mutex,
                    simba_error *error)
{
    simba_request probe = {.kind = SIMBA_READ, .mutex = mutex};
    struct simba__sqlite_wish wish = {.request = &probe,
                                      .now_ms = request->reply.store_ms};
    struct simba__mutex_host host = {.self = self,
                                     .is_connected = is_connected};
    const struct simba__mutex_record *row = &self->record.row;
    simba_owner owner = simba_owner_none();
    int waiting, rc;

    rc = simba__sqlite_record_load(self, &wish, error);
    if (rc == SIMBA_OK) {
        rc = simba__sqlite_judge(self, mutex, wish.now_ms);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    waiting = simba__row_tell_line(row, &host, wish.now_ms, NULL);
    if (simba__mutex_is_held(row, wish.now_ms)) {
        owner = row->owner;
    }
    if (owner.id[0] != '\0' || waiting > 0) {
        simba_request_add_mutex(request, mutex, &owner, waiting);
    }
    return SIMBA_OK;
}

static int list_all(struct simba__sqlite *self,
                    simba_request *request,
                    simba_error *error)
{
    sqlite3_stmt *row = simba__sqlite_db_statement(
        &self->db, SIMBA__SQLITE_LIST_MUTEXES, error);
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
    int rc = SIMBA_OK;
    int step = SQLITE_DONE;

    if (row == NULL) {
        return error->code;
    }
    while (rc == SIMBA_OK && (step = sqlite3_step(row)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(row, 0);

        if (text != NULL && strlen(text) < sizeof mutex) {
            memcpy(mutex, text, strlen(text) + 1);
            rc = list_one(self, request, mutex, error);
        }
    }
    sqlite3_reset(row);
    if (rc == SIMBA_OK && step != SQLITE_DONE) {
        rc = simba__sqlite_db_fail(&self->db, step, error);
    }
    return rc;
}

int simba__sqlite_list(struct simba__sqlite *self,
                       simba_request *request,
                       simba_error *error)
{
    int rc =
        simba__sqlite_db_begin_read(&self->db, request->deadline_ms, error);

    if (rc == SIMBA_OK) {
        request->reply.store_ms = simba__sqlite_clock_now_ms(&self->clock);
        rc = list_all(self, request, error);
        simba__sqlite_db_rollback(&self->db);
    }
    return rc;
}

/* --- break --------------------------------------------------------------- */

static int execute(struct simba__sqlite *self,
                   sqlite3_stmt *statement,
                   simba_error *error)
{
    return statement == NULL
               ? error->code
               : simba__sqlite_db_execute(&self->db, statement, error);
}

static int mark_broken(struct simba__sqlite *self,
                       const simba_request *request,
                       simba_error *error)
{
    sqlite3_stmt *statement = simba__sqlite_db_statement(
        &self->db, SIMBA__SQLITE_BREAK_TENURE, error);

    if (statement != NULL) {
        sqlite3_bind_text(statement, 1, request->mutex, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 2, (int64_t)request->token);
    }
    return execute(self, statement, error);
}

/* With the tenure, in one transaction: no break without its audit. */
static int audit(struct simba__sqlite *self,
                 const simba_request *request,
                 simba_error *error)
{
    sqlite3_stmt *statement =
        simba__sqlite_db_statement(&self->db, SIMBA__SQLITE_AUDIT_TABLE, error);
    int rc = execute(self, statement, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    statement =
        simba__sqlite_db_statement(&self->db, SIMBA__SQLITE_STORE_AUDIT, error);
    if (statement != NULL) {
        sqlite3_bind_text(statement, 1, request->mutex, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 2,
                           (int64_t)simba__sqlite_clock_wall_us());
        sqlite3_bind_int64(statement, 3, (int64_t)request->token);
        sqlite3_bind_text(statement, 4, self->record.owner.id, -1,
                          SQLITE_STATIC);
        sqlite3_bind_int(statement, 5, request->now);
        sqlite3_bind_int64(statement, 6, (int64_t)getuid());
        sqlite3_bind_text(statement, 7,
                          request->reason == NULL ? "" : request->reason, -1,
                          SQLITE_STATIC);
    }
    return execute(self, statement, error);
}

void simba__sqlite_log_break(struct simba__sqlite *self,
                             const simba_request *request)
{
    char line[SIMBA_MUTEX_MAX_BYTES + SIMBA_ID_MAX + 256];

    snprintf(line, sizeof line, "%s: tenure %llu of '%s' was broken%s%s%.128s",
             request->mutex, (unsigned long long)request->token,
             self->record.owner.id, request->now ? " at once" : "",
             request->reason == NULL || request->reason[0] == '\0' ? "" : ": ",
             request->reason == NULL ? "" : request->reason);
    self->log(self->log_user, SIMBA_LOG_WARN, "sqlite", line);
}

int simba__sqlite_break(struct simba__sqlite *self,
                        const struct simba__mutex_host *host,
                        simba_request *request,
                        simba_error *error)
{
    struct simba__mutex_break wish = {.token = request->token,
                                      .at_once = request->now,
                                      .now_ms = request->reply.store_ms};
    int rc;

    request->reply.mine = simba__mutex_break(&self->record.row, host, &wish);
    if (!request->reply.mine) {
        return SIMBA_OK;
    }
    rc = request->now ? SIMBA_OK : mark_broken(self, request, error);
    return rc == SIMBA_OK ? audit(self, request, error) : rc;
}
