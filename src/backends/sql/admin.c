/* What admins ask: which mutexes there are, and what can be relied on. */
#define _GNU_SOURCE
#include "backends/sql/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The columns of list.sql. */
enum column {
    MUTEX,
    OWNER_ID,
    ACQUIRED_AT,
    TTL_AT,
    TRANSITION_AT,
    TOKEN,
    WAITING,
    IS_HELD,
    NOW,
    IS_BROKEN,
    VERSION /* of glance.sql only */
};

/* None, if it has no owner. */
static simba_owner read_owner(const struct simba__sql_rows *rows, int row)
{
    const char *id = rows->cell(rows, row, OWNER_ID);
    simba_owner owner = {.id = ""};

    if (simba__sql_number(rows, row, IS_HELD) != 0 && id != NULL &&
        strlen(id) <= SIMBA_ID_MAX) {
        memcpy(owner.id, id, strlen(id) + 1);
        owner.acquired_at_ms = simba__sql_number(rows, row, ACQUIRED_AT);
        owner.ttl_at_ms = simba__sql_number(rows, row, TTL_AT);
        owner.transition_at_ms = simba__sql_number(rows, row, TRANSITION_AT);
        owner.token = (uint64_t)simba__sql_number(rows, row, TOKEN);
        owner.is_broken = simba__sql_number(rows, row, IS_BROKEN) != 0;
    }
    return owner;
}

bool simba__sql_glanced(struct simba__sql_turn *turn,
                        const struct simba__sql_rows *rows)
{
    simba_reply *reply = &turn->request->reply;

    for (int i = 0; i < rows->count; i++) {
        const char *name = rows->cell(rows, i, MUTEX);

        if (name != NULL && strcmp(name, turn->request->mutex) == 0) { /* S14 */
            reply->owner = read_owner(rows, i);
            reply->store_ms = simba__sql_number(rows, i, NOW);
            reply->ended = simba__sql_number(rows, i, VERSION) == 0
                               ? 0
                               : SIMBA__SQL_ANOTHER;
        }
    }
    return reply->owner.id[0] != '\0';
}

void simba__sql_listed(struct simba__sql_turn *turn,
                       const struct simba__sql_rows *rows)
{
    for (int i = 0; i < rows->count; i++) {
        simba_owner owner = read_owner(rows, i);

        turn->request->reply.store_ms = simba__sql_number(rows, i, NOW);
        simba_request_add_mutex(turn->request, rows->cell(rows, i, MUTEX),
                                &owner,
                                (int)simba__sql_number(rows, i, WAITING));
    }
    simba__sql_turn_end(turn, SIMBA_OK, NULL);
}

static void add_finding(const struct simba__sql_turn *turn,
                        const struct simba__sql_rows *rows,
                        int row)
{
    const char *name = rows->cell(rows, row, 1);
    const char *text = rows->cell(rows, row, 2);

    simba_request_add_finding(
        turn->request, (enum simba_gravity)simba__sql_number(rows, row, 0),
        name == NULL ? "unknown" : name, "%s", text == NULL ? "" : text);
}

char *simba__sql_tell(const char *statements, simba_error *error)
{
    char *text = NULL;

    if (asprintf(&text, "%.*s;\n", (int)(strlen(statements) - 1), statements) <
        0) {
        simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
        return NULL;
    }
    return text;
}

/* How we are woken, only we know. */
static void add_push(const struct simba__sql_turn *turn)
{
    const struct simba__sql *self = turn->self;

    if (self->dialect->can_push(turn->session) &&
        self->bell != SIMBA__SQL_BELL_REFUSED) {
        simba_request_add_finding(turn->request, SIMBA_FINDING_OK, "push",
                                  "who is called is woken");
    } else {
        simba_request_add_finding(
            turn->request, SIMBA_FINDING_NOTE, "push",
            "not through this pooler, proxy or cluster: who "
            "waits asks every 100 ms, and a dead waiter may "
            "cost 300 ms");
    }
}

/* The judgement is in doctor.sql and doctor_tables.sql. */
void simba__sql_examined(struct simba__sql_turn *turn,
                         const struct simba__sql_rows *rows)
{
    for (int i = 0; i < rows->count; i++) {
        add_finding(turn, rows, i);
    }
    if (turn->statement == SIMBA__SQL_DOCTOR) {
        add_push(turn);
    }
}
