/* What administrators ask: which mutexes there are, and what can be relied on.
 * What the doctor finds is decided in the dialects' statements. */
#define _GNU_SOURCE
#include "backends/sql/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool simba__sql_read_bare(struct simba__sql_request *request,
                          const struct simba__sql_rows *rows)
{
    simba_reply *reply = &request->asked->reply;

    for (int i = 0; i < rows->count; i++) {
        const char *name = rows->cell(rows, i, SIMBA__SQL_MUTEX);

        if (name != NULL &&
            strcmp(name, request->asked->mutex) == 0) { /* S14 */
            reply->owner = simba__sql_read_owner(rows, i);
            reply->store_ms = simba__sql_number(rows, i, SIMBA__SQL_MUTEX_NOW);
            /* `list_bare` tells the version, too. */
            reply->ended =
                simba__sql_number(rows, i, SIMBA__SQL_MUTEX_MORE) == 0
                    ? 0
                    : SIMBA__SQL_ANOTHER;
        }
    }
    return reply->owner.id[0] != '\0';
}

void simba__sql_add_list(struct simba__sql_request *request,
                         const struct simba__sql_rows *rows)
{
    for (int i = 0; i < rows->count; i++) {
        simba_owner owner = simba__sql_read_owner(rows, i);

        request->asked->reply.store_ms =
            simba__sql_number(rows, i, SIMBA__SQL_MUTEX_NOW);
        simba_request_add_mutex(
            request->asked, rows->cell(rows, i, SIMBA__SQL_MUTEX), &owner,
            (int)simba__sql_number(rows, i, SIMBA__SQL_MUTEX_WAITING));
    }
}

void simba__sql_add_findings(struct simba__sql_request *request,
                             const struct simba__sql_rows *rows)
{
    const struct simba__sql *self = request->self;

    for (int i = 0; i < rows->count; i++) {
        const char *name = rows->cell(rows, i, 1);
        const char *text = rows->cell(rows, i, 2);

        simba_request_add_finding(
            request->asked, (enum simba_gravity)simba__sql_number(rows, i, 0),
            name == NULL ? "unknown" : name, "%s", text == NULL ? "" : text);
    }
    if (request->statement != SIMBA__SQL_DOCTOR) {
        return;
    }
    /* How we are woken, only we know. */
    if (self->dialect->can_notify(request->session) &&
        self->notify != SIMBA__SQL_NOTIFY_REFUSED) {
        simba_request_add_finding(request->asked, SIMBA_FINDING_OK, "push",
                                  "who is offered the mutex is woken");
    } else {
        simba_request_add_finding(
            request->asked, SIMBA_FINDING_NOTE, "push",
            "not through this pooler, proxy or cluster: who "
            "waits asks every 100 ms, and a dead waiter may "
            "cost 300 ms");
    }
}

char *simba__sql_schema_text(const char *statements, simba_error *error)
{
    char *text = NULL;

    if (asprintf(&text, "%.*s;\n", (int)(strlen(statements) - 1), statements) <
        0) {
        simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
        return NULL;
    }
    return text;
}
