/* The burial of processes that were found dead. */
#include "backends/sqlite/instance.h"

/* How many are buried at a time, and how long that may wait for others who
 * write. */
enum { BURIALS = 32, BURIAL_PATIENCE_MS = 5 };

static int forget_process(struct simba__sqlite *self, const char *process)
{
    static const enum simba__sqlite_statement steps[] = {
        SIMBA__SQLITE_FREE_PROCESS, SIMBA__SQLITE_DROP_PROCESS};
    simba_error error;

    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        sqlite3_stmt *statement =
            simba__sqlite_db_statement(&self->db, steps[i], &error);

        if (statement == NULL) {
            return error.code;
        }
        sqlite3_bind_text(statement, 1, process, -1, SQLITE_STATIC);
        if (simba__sqlite_db_execute(&self->db, statement, &error) !=
            SIMBA_OK) {
            return error.code;
        }
    }
    return SIMBA_OK;
}

/* Takes away what the dead have left: first their rows, so that a missing file
 * never stands for a dead owner, then their files. All of it can wait, and what
 * fails is left to the next. */
void simba__sqlite_bury(struct simba__sqlite *self)
{
    struct simba__sqlite_dead dead[BURIALS];
    simba_error error;
    size_t n;
    int rc;

    self->is_burial_due = false;
    if (self->settings.is_trusted) {
        return; /* the locks of another machine may not be visible here */
    }
    rc = simba__sqlite_db_begin(
        &self->db, simba_loop_now_ms() + BURIAL_PATIENCE_MS, &error);
    if (rc != SIMBA_OK) {
        self->is_burial_due = true;
        return;
    }
    n = simba__sqlite_presence_find_dead(&self->presence, dead, BURIALS);
    for (size_t i = 0; i < n && rc == SIMBA_OK; i++) {
        rc = forget_process(self, dead[i].process);
    }
    if (rc == SIMBA_OK && n > 0) {
        rc = simba__sqlite_db_commit(
            &self->db, simba_loop_now_ms() + BURIAL_PATIENCE_MS, &error);
    }
    simba__sqlite_db_rollback(&self->db);
    for (size_t i = 0; i < n; i++) {
        simba__sqlite_presence_bury(&self->presence, &dead[i], rc == SIMBA_OK);
    }
}
