/* What administrators ask: which mutexes there are, and what can be relied on.
 * What the doctor finds is decided in the dialects' statements. */
#define _GNU_SOURCE
#include "backends/sql/sql.h"

#include "util/text.h"

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

bool simba__sql_lists_crowd(const struct simba__sql_rows *rows)
{
    int i = 0;

    while (i < rows->count &&
           strcmp(simba__sql_text(rows, i, SIMBA__SQL_MUTEX_OWNER),
                  SIMBA__CROWD_ID) != 0) {
        i++;
    }
    return i < rows->count;
}

/* `list_slots` has a row for each of several owners, the oldest first. */
void simba__sql_add_list(struct simba__sql_request *request,
                         const struct simba__sql_rows *rows)
{
    const char *name, *last = NULL;

    for (int i = 0; i < rows->count; i++, last = name) {
        simba_owner owner = simba__sql_read_owner(rows, i);

        name = rows->cell(rows, i, SIMBA__SQL_MUTEX);
        request->asked->reply.store_ms =
            simba__sql_number(rows, i, SIMBA__SQL_MUTEX_NOW);
        if (request->statement == SIMBA__SQL_LIST_SLOTS) {
            owner.slots =
                (uint32_t)simba__sql_number(rows, i, SIMBA__SQL_MUTEX_MORE);
            owner.slot =
                (uint32_t)simba__sql_number(rows, i, SIMBA__SQL_MUTEX_SLOT);
        }
        if (name != NULL && (last == NULL || strcmp(name, last) != 0)) {
            simba_request_add_mutex(
                request->asked, name, &owner,
                (int)simba__sql_number(rows, i, SIMBA__SQL_MUTEX_WAITING));
        }
        if (name != NULL && owner.slots > 1) {
            simba_request_add_owner(request->asked, &owner);
        }
    }
}

void simba__sql_add_notes(struct simba__sql_request *request,
                          const struct simba__sql_rows *rows)
{
    for (int i = 0; i < rows->count; i++) {
        const char *mutex = simba__sql_text(rows, i, 0);
        simba_broken broken = {.unix_ms = simba__sql_number(rows, i, 1)};

        if (request->statement == SIMBA__SQL_TOLD) {
            simba_request_add_told(request->asked, mutex,
                                   (uint64_t)simba__sql_number(rows, i, 1),
                                   simba__sql_text(rows, i, 2));
            continue;
        }
        broken.token = (uint64_t)simba__sql_number(rows, i, 2);
        broken.now = simba__sql_number(rows, i, 4) != 0;
        (void)snprintf(broken.mutex, sizeof broken.mutex, "%s", mutex);
        (void)snprintf(broken.id, sizeof broken.id, "%s",
                       simba__sql_text(rows, i, 3));
        (void)snprintf(broken.reason, sizeof broken.reason, "%s",
                       simba__sql_text(rows, i, 5));
        simba_request_add_broken(request->asked, &broken);
    }
}

void simba__sql_add_findings(struct simba__sql_request *request,
                             const struct simba__sql_rows *rows)
{
    const struct simba__sql *self = request->self;

    for (int i = 0; i < rows->count; i++) {
        const char *name = rows->cell(rows, i, 1);
        const char *text = rows->cell(rows, i, 2);
        int64_t gravity = simba__sql_number(rows, i, 0);
        /* Whom we asked to prove that it is the server, only we know. */
        bool is_doubtful = self->is_unverified && gravity == SIMBA_FINDING_OK &&
                           name != NULL && strcmp(name, "tls") == 0;

        simba_request_add_finding(
            request->asked,
            is_doubtful ? SIMBA_FINDING_WEAK : (enum simba_gravity)gravity,
            name == NULL ? "unknown" : name, "%s%s", text == NULL ? "" : text,
            is_doubtful ? ", but anybody could be the server" : "");
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

/* Whom the URL names, if that can be shown as it is. */
static int user_of(const char *rest, const char **user)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t length;

    *user = strncmp(rest, "//", 2) == 0 ? rest + 2 : "";
    length = strspn(*user, plain);
    return length > 0 && strchr(":@", (*user)[length]) != NULL &&
                   memchr(*user, '@', strcspn(*user, "/?")) != NULL
               ? (int)length
               : 0;
}

/* The GRANT is told and not made: a server may have another account of this
 * name for each host. */
char *simba__sql_schema_text(const char *statements,
                             const char *rest,
                             simba_error *error)
{
    static const char *const tables[] = {
        "simba_mutex",  "simba_tenure", "simba_line", "simba_tombstone",
        "simba_broken", "simba_slot",   "simba_told"};
    struct simba__text text = {0};
    const char *user = "";
    int length = rest == NULL ? 0 : user_of(rest, &user);
    char *whole;

    simba__text_printf(&text, "%.*s;\n", (int)(strlen(statements) - 1),
                       statements);
    if (rest != NULL) {
        simba__text_put(&text, "\n-- An account that has not made them needs "
                               "this:\n");
    }
    for (size_t i = 0; rest != NULL && i < sizeof tables / sizeof tables[0];
         i++) {
        simba__text_printf(&text,
                           "-- GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO "
                           "%.*s;\n",
                           tables[i], length == 0 ? 7 : length,
                           length == 0 ? "ACCOUNT" : user);
    }
    whole = simba__text_take(&text);
    if (whole == NULL) {
        simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    return whole;
}
