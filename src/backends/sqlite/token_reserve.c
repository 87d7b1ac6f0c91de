/* Tokens without a flush.
 *
 * No token may come again, also not after a loss of power that took along the
 * row it was in, while the wall clock went back (S4). To flush each would do,
 * but a disk takes its time just when a mutex changes hands. So a minute of
 * tokens is reserved with one flush: those up to `reserved` can be given out
 * without another, because a later boot begins above it.
 *
 * Between the commit that raises `reserved` and its flush other processes see a
 * value that is not on disk yet. Therefore `flushed` says how much is. The
 * process that has flushed writes it, with whatever it writes next. A process
 * that needs a token above it flushes for itself.
 *
 * After a loss of power `reserved` may be an older one, but not below any
 * `flushed` that was ever seen. It only grows, so what we flushed ourselves
 * stays true, too.
 *
 * Containers may have boot ids of their own. Then each raises the floor over
 * the other's reserve and has to flush: slow, but right. As the reserve follows
 * the wall clock and not the floor, they do not drive each other on. */
#include "backends/sqlite/sqlite.h"

#include <string.h>

/* How far the reserve is ahead of the wall clock. After a reboot tokens may be
 * ahead of it by as much; if the file is lost then, a new one begins at the
 * clock. */
#define SPAN_US UINT64_C(60000000)

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

int simba__sqlite_reserve_load(struct simba__sqlite *self, simba_error *error)
{
    struct simba__sqlite_reserve *reserve = &self->reserve;
    sqlite3_stmt *row =
        simba__sqlite_prepare(self, SIMBA__SQLITE_LOAD_RESERVE, error);
    int rc;

    if (row == NULL) {
        return error->code;
    }
    reserve->floor = reserve->reserved = reserve->flushed = 0;
    reserve->is_ours = false;
    rc = sqlite3_step(row);
    if (rc == SQLITE_ROW) {
        const char *boot = (const char *)sqlite3_column_text(row, 0);

        reserve->floor = (uint64_t)sqlite3_column_int64(row, 1);
        reserve->reserved = (uint64_t)sqlite3_column_int64(row, 2);
        reserve->flushed = (uint64_t)sqlite3_column_int64(row, 3);
        reserve->is_ours = boot != NULL && strcmp(boot, self->boot) == 0;
        rc = SQLITE_DONE;
    }
    sqlite3_reset(row);
    if (reserve->reserved < reserve->seen_flushed) {
        reserve->seen_flushed = 0; /* lost, or a backup was written back */
        reserve->is_untold = false;
    }
    if (!reserve->is_ours) {
        reserve->floor = greater(reserve->floor, reserve->reserved);
    }
    return simba__sqlite_result(self, rc, error);
}

static bool is_flush_due(const struct simba__sqlite *self, uint64_t token)
{
    const struct simba__sqlite_reserve *reserve = &self->reserve;

    return self->db.log_fd >= 0 &&
           token > greater(reserve->flushed, reserve->seen_flushed);
}

int simba__sqlite_reserve_cover(struct simba__sqlite *self,
                                uint64_t token,
                                bool *is_changed,
                                simba_error *error)
{
    struct simba__sqlite_reserve *reserve = &self->reserve;
    uint64_t wall_us = simba__sqlite_wall_us();
    bool is_raised = false;
    sqlite3_stmt *statement;

    /* A deleted row begins again at the clock. While that is behind the floor,
     * the floor must go on with every token it has chosen (S4). */
    if (token > wall_us && token == reserve->floor + 1) {
        reserve->floor = token;
        is_raised = true;
    }
    if (is_flush_due(self, token) &&
        (!reserve->is_ours || token > reserve->reserved)) {
        reserve->reserved =
            greater(greater(reserve->reserved, token), wall_us + SPAN_US);
        is_raised = true;
    }
    if (!is_raised) {
        return SIMBA_OK;
    }
    *is_changed = true;
    statement = simba__sqlite_prepare(self, SIMBA__SQLITE_STORE_RESERVE, error);
    if (statement != NULL) {
        sqlite3_bind_text(statement, 1, self->boot, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 2, (int64_t)reserve->floor);
        sqlite3_bind_int64(statement, 3, (int64_t)reserve->reserved);
        sqlite3_bind_int64(statement, 4, (int64_t)reserve->flushed);
    }
    return simba__sqlite_execute(self, statement, error);
}

int simba__sqlite_reserve_flush(struct simba__sqlite *self,
                                uint64_t token,
                                simba_error *error)
{
    int rc;

    if (!is_flush_due(self, token)) {
        return SIMBA_OK;
    }
    rc = simba__sqlite_wal_flush(self, error);
    if (rc == SIMBA_OK) {
        self->reserve.seen_flushed = self->reserve.reserved;
        self->reserve.is_untold = true;
    }
    return rc;
}

int simba__sqlite_reserve_tell(struct simba__sqlite *self, simba_error *error)
{
    sqlite3_stmt *statement;

    if (!self->reserve.is_untold) {
        return SIMBA_OK;
    }
    statement = simba__sqlite_prepare(self, SIMBA__SQLITE_STORE_FLUSHED, error);
    if (statement != NULL) {
        sqlite3_bind_int64(statement, 1, (int64_t)self->reserve.seen_flushed);
    }
    return simba__sqlite_execute(self, statement, error);
}
