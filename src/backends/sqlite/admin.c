/* What an admin asks of an SQLite store: list, break, and what is noted of
 * breaks and by owners. */
#include "backends/sqlite/sqlite.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void simba__sqlite_add_owners(const struct simba__sqlite *self,
                              simba_request *request,
                              uint32_t owned)
{
    const struct simba__sqlite_record *record = &self->record;
    const simba_owner *owner;
    size_t i = 0;

    while (owned > 1 && (owner = simba__mutex_next_owner(
                             &record->after, record->now_ms, &i)) != NULL) {
        simba_request_add_owner(request, owner);
    }
}

int simba__sqlite_list(struct simba__sqlite *self,
                       simba_request *request,
                       simba_error *error)
{
    struct simba__mutex_host host = simba__sqlite_host(self);
    const struct simba__mutex_record *after = &self->record.after;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
    sqlite3_stmt *row;
    int step = SQLITE_DONE;
    int rc = simba__sqlite_begin(self, SIMBA__SQLITE_BEGIN_READ,
                                 request->deadline_ms, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    self->record.now_ms = simba__sqlite_now_ms(self);
    request->reply.store_ms = self->record.now_ms;
    row = simba__sqlite_prepare(self, SIMBA__SQLITE_LIST_MUTEXES, error, "");
    rc = row == NULL ? error->code : SIMBA_OK;
    while (rc == SIMBA_OK && (step = sqlite3_step(row)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(row, 0);
        simba_request probe = SIMBA_REQUEST_INIT;
        struct simba__waiter_walk walk = {after, &host, self->record.now_ms, 0};
        int waiting = 0;

        if (text == NULL || strlen(text) >= sizeof mutex) {
            continue;
        }
        memcpy(mutex, text, strlen(text) + 1);
        probe.kind = SIMBA_READ;
        probe.mutex = mutex;
        rc = simba__sqlite_record_load(self, &probe, false, error);
        if (rc != SIMBA_OK) {
            break;
        }
        while (simba__mutex_next_waiter(&walk, NULL)) {
            waiting++;
        }
        simba__mutex_read(after, self->record.now_ms, &probe.reply);
        if (probe.reply.owner.id[0] != '\0' || waiting > 0) {
            simba_request_add_mutex(request, mutex, &probe.reply.owner,
                                    waiting);
            simba__sqlite_add_owners(self, request, probe.reply.owned);
        }
    }
    sqlite3_reset(row);
    if (rc == SIMBA_OK) {
        rc = simba__sqlite_result(self, step, error);
    }
    simba__sqlite_rollback(self);
    return rc;
}

/* --- what is noted ------------------------------------------------------- */

/* A file in which nobody ever noted such a thing has no table for it. */
static int find_table(struct simba__sqlite *self,
                      const char *table,
                      bool *is_there,
                      simba_error *error)
{
    sqlite3_stmt *row = simba__sqlite_prepare(self, SIMBA__SQLITE_FIND_TABLE,
                                              error, "t", table);
    int step;

    if (row == NULL) {
        return error->code;
    }
    step = sqlite3_step(row);
    sqlite3_reset(row);
    *is_there = step == SQLITE_ROW;
    return *is_there ? SIMBA_OK : simba__sqlite_result(self, step, error);
}

static void add_note(simba_request *request, sqlite3_stmt *row)
{
    const char *mutex = (const char *)sqlite3_column_text(row, 0);
    const char *texts[2]; /* what is told; or whose tenure, and why */
    simba_broken broken = {.unix_ms = sqlite3_column_int64(row, 1) / 1000};

    if (request->kind == SIMBA_TOLD) {
        texts[0] = (const char *)sqlite3_column_text(row, 2);
        simba_request_add_told(request, mutex == NULL ? "" : mutex,
                               (uint64_t)sqlite3_column_int64(row, 1),
                               texts[0] == NULL ? "" : texts[0]);
        return;
    }
    texts[0] = (const char *)sqlite3_column_text(row, 3);
    texts[1] = (const char *)sqlite3_column_text(row, 5);
    broken.token = (uint64_t)sqlite3_column_int64(row, 2);
    broken.now = sqlite3_column_int(row, 4) != 0;
    (void)snprintf(broken.mutex, sizeof broken.mutex, "%s",
                   mutex == NULL ? "" : mutex);
    (void)snprintf(broken.id, sizeof broken.id, "%s",
                   texts[0] == NULL ? "" : texts[0]);
    (void)snprintf(broken.reason, sizeof broken.reason, "%s",
                   texts[1] == NULL ? "" : texts[1]);
    simba_request_add_broken(request, &broken);
}

int simba__sqlite_notes(struct simba__sqlite *self,
                        simba_request *request,
                        simba_error *error)
{
    bool is_told = request->kind == SIMBA_TOLD, is_there = false;
    sqlite3_stmt *row = NULL;
    int step = SQLITE_DONE;
    int rc = simba__sqlite_begin(self, SIMBA__SQLITE_BEGIN_READ,
                                 request->deadline_ms, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    rc = find_table(self, is_told ? "simba_told" : "simba_broken", &is_there,
                    error);
    if (rc == SIMBA_OK && is_there) {
        row = is_told
                  ? simba__sqlite_prepare(self, SIMBA__SQLITE_LIST_TOLD, error,
                                          "ttn", request->mutex, self->boot,
                                          simba__sqlite_now_ms(self))
                  : simba__sqlite_prepare(self, SIMBA__SQLITE_LIST_AUDIT, error,
                                          "t", request->mutex);
        rc = row == NULL ? error->code : SIMBA_OK;
    }
    while (row != NULL && (step = sqlite3_step(row)) == SQLITE_ROW) {
        add_note(request, row);
    }
    if (row != NULL) {
        sqlite3_reset(row);
        rc = simba__sqlite_result(self, step, error);
    }
    simba__sqlite_rollback(self);
    return rc;
}

int simba__sqlite_tell(struct simba__sqlite *self,
                       const simba_request *request,
                       simba_error *error)
{
    int64_t now_ms;
    int rc = simba__sqlite_begin(self, SIMBA__SQLITE_BEGIN,
                                 request->deadline_ms, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    now_ms = simba__sqlite_now_ms(self);
    rc = simba__sqlite_execute(self, SIMBA__SQLITE_TOLD_TABLE, error, "");
    if (rc == SIMBA_OK) {
        rc = simba__sqlite_execute(self, SIMBA__SQLITE_DROP_TOLD, error, "tntn",
                                   request->mutex, request->token, self->boot,
                                   now_ms);
    }
    if (rc == SIMBA_OK && request->reason != NULL) {
        rc = simba__sqlite_execute(
            self, SIMBA__SQLITE_STORE_TOLD, error, "tntnt", request->mutex,
            request->token, self->boot,
            now_ms + request->ttl_ms + request->transition_ms, request->reason);
    }
    if (rc == SIMBA_OK) {
        return simba__sqlite_commit(self, request->deadline_ms, error);
    }
    simba__sqlite_rollback(self);
    return rc;
}

static const struct simba__tenure *find_token(
    const struct simba__mutex_record *mutex,
    uint64_t token)
{
    const struct simba__tenure *tenure;
    size_t i = 0;

    while ((tenure = simba__mutex_tenure(mutex, i)) != NULL &&
           tenure->owner.token != token) {
        i++;
    }
    return tenure;
}

/* --- breaking ------------------------------------------------------------ */

/* Whose tenure was broken: of several owners not always the oldest. */
static const char *name_broken(const struct simba__sqlite *self,
                               const simba_request *request)
{
    const struct simba__tenure *tenure =
        find_token(&self->record.before, request->token);

    return tenure == NULL ? "" : tenure->owner.id;
}

/* The audit is in one transaction with the end of the tenure: there is no break
 * without it. Its table is made with the first break. */
int simba__sqlite_break(struct simba__sqlite *self,
                        const simba_request *request,
                        simba_error *error)
{
    const char *reason = request->reason == NULL ? "" : request->reason;
    int rc = SIMBA_OK;

    if (!request->now && !self->record.is_crowd) {
        rc = simba__sqlite_execute(self, SIMBA__SQLITE_BREAK_TENURE, error,
                                   "tn", request->mutex, request->token);
    }
    if (rc == SIMBA_OK) {
        rc = simba__sqlite_execute(self, SIMBA__SQLITE_AUDIT_TABLE, error, "");
    }
    if (rc == SIMBA_OK) {
        rc = simba__sqlite_execute(
            self, SIMBA__SQLITE_STORE_AUDIT, error, "tnntnnt", request->mutex,
            simba__sqlite_wall_us(), request->token, name_broken(self, request),
            (int64_t)request->now, (int64_t)getuid(), reason);
    }
    return rc;
}

void simba__sqlite_log_break(struct simba__sqlite *self,
                             const simba_request *request)
{
    const char *reason = request->reason == NULL ? "" : request->reason;

    simba__log(&self->log, SIMBA_LOG_WARN,
               "%s: tenure %llu of '%s' was broken%s%s%.128s", request->mutex,
               (unsigned long long)request->token, name_broken(self, request),
               request->now ? " at once" : "", reason[0] == '\0' ? "" : ": ",
               reason);
}
