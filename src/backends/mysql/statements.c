/* The statements of the MySQL and MariaDB store: texts with their parameters.
 *
 * What is uncontended is prepared; the rest is text, several statements at a
 * time, so that a change takes one round trip. */
#define _GNU_SOURCE
#include "backends/mysql/mysql.h"

#include "backends/mysql/schema.h"
#include "backends/mysql/statements.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest text of a statement, without its parameters. */
enum { TEXT_MOST = 8192, NAMED_MOST = 2 * TEXT_MOST };

static const char *const texts[] = {
#define X(name, text) SIMBA__MY_##text,
    SIMBA__SQL_EACH_STATEMENT(X)
#undef X
};

/* The text of a statement, with $1 and so on for its parameters. It differs a
 * little when the whole queue is asked for, on tables of another make, and on
 * MySQL. */
static void write_text(const struct simba__my_session *session,
                       enum simba__sql_statement statement,
                       char room[TEXT_MOST])
{
    static const struct simba__sql_edit whole[] = {{"LIMIT 5", ""},
                                                   {NULL, NULL}};
    static const struct simba__sql_edit without[] = {
        SIMBA__SQL_WITHOUT_SLOTS, {", l.slots", ""}, {NULL, NULL}};
    static const struct simba__sql_edit another[] = {
        {"if(m.quiet = m.version, m.account, t.account)", "t.account"},
        {"m.quiet, m.attempt, m.former", "-1, '', 0"},
        {", m.quiet = $41, m.attempt = $11, m.former = $39, m.account = "
         "if($42 < 0, crc32(substring_index(user(), '@', 1)), $42)",
         ""},
        {"if($41 < 0, $9, -2)", "$9"},
        {NULL, NULL}};
    static const struct simba__sql_edit old[] = {
        {", m.fencing_token = $10", ""},
        {"m.fencing_token", "m.version"},
        SIMBA__SQL_ASK_FOR_TOKENS,
        {NULL, NULL}};
    static const struct simba__sql_edit mysql[] = {
        {"utf8mb4_nopad_bin", "utf8mb4_0900_bin"},
        {"ADD COLUMN IF NOT EXISTS", "ADD COLUMN"},
        {NULL, NULL}};
    static const struct simba__sql_edit at_once[] = {
        {"START TRANSACTION;",
         "START TRANSACTION;\n"
         "/*M! SET STATEMENT innodb_lock_wait_timeout = 0 FOR */"},
        {NULL, NULL}};
    const struct simba__sql *self = session->base.self;
    const struct simba__sql_change *change = &session->base.request->change;
    const struct simba__sql_record *record = &session->base.request->record;
    bool is_apply = simba__sql_is_apply(statement);
    bool is_slots = statement == SIMBA__SQL_APPLY_SLOTS;
    bool is_broken = record->is_crowd && record->row.is_broken;
    /* A session that serves us keeps the notify session from getting the
     * lock it waits for. */
    bool is_locked = statement == SIMBA__SQL_HEARTBEAT &&
                     self->notify != SIMBA__SQL_NOTIFY_REFUSED;
    const char *const parts[] = {
        is_locked ? SIMBA__MY_HEARTBEAT_LOCK : "",
        texts[statement],
        is_apply && change->gone_count > 0 ? SIMBA__MY_APPLY_GONE : "",
        is_apply && change->come_count > 0 ? SIMBA__MY_APPLY_COME : "",
        is_apply && change->come_count > 1 ? SIMBA__MY_APPLY_COME_TOO : "",
        is_apply && change->tomb_until_ms > 0 ? SIMBA__MY_APPLY_UNDONE : "",
        is_slots && change->is_slot_gone ? SIMBA__MY_APPLY_SLOT_GONE : "",
        is_slots && is_broken ? SIMBA__MY_APPLY_SLOTS_BROKEN : "",
        is_slots && change->slot != NULL ? SIMBA__MY_APPLY_SLOT : "",
        is_slots && change->is_slot_offered ? SIMBA__MY_APPLY_SLOT_OFFERED : "",
        is_apply ? SIMBA__MY_APPLY_END : ""};
    char *end = room;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        assert(strlen(parts[i]) < (size_t)(room + TEXT_MOST - end));
        end = stpcpy(end, parts[i]);
    }
    if (statement == SIMBA__SQL_LOAD_ALL) {
        simba__sql_edit(room, TEXT_MOST, whole);
    }
    simba__sql_edit_slots(room, statement);
    if (self->has_no_slots) {
        simba__sql_edit(room, TEXT_MOST, without);
    }
    if (self->has_no_quiet) {
        simba__sql_edit(room, TEXT_MOST, another);
    }
    if (self->has_no_token) {
        simba__sql_edit(room, TEXT_MOST, old);
    }
    if (is_apply && simba__sql_is_one_of_many(session->base.request)) {
        simba__sql_edit(room, TEXT_MOST, at_once);
    }
    if (((const struct simba__my *)self)->is_mysql) {
        simba__sql_edit(room, TEXT_MOST, mysql);
    }
}

/* --- parameters ---------------------------------------------------------- */

/* Reads "$12"; 0 when there is none. */
static int read_number(const char **at)
{
    int number = 0;

    if (**at != '$') {
        return 0;
    }
    for (++*at; isdigit((unsigned char)**at); ++*at) {
        number = number * 10 + (**at - '0');
    }
    return number;
}

/* Each of a list in quotes. They are hexadecimal. */
static char *quote_list(const char *list, char *to)
{
    *to++ = '\'';
    for (; *list != '\0'; list++) {
        if (*list == ',') {
            to = stpcpy(to, "','");
        } else {
            *to++ = *list;
        }
    }
    *to++ = '\'';
    return to;
}

/* The text with all parameters in their places, to be freed. */
static char *substitute(struct simba__my_session *session, const char *template)
{
    const struct simba__sql_params *params = &session->params;
    size_t room = strlen(template) + 1;
    char *text, *to;

    for (const char *at = template; (at = strchr(at, '$')) != NULL;) {
        room += 2 * strlen(params->values[read_number(&at) - 1]) + 2;
    }
    text = to = malloc(room);
    while (text != NULL && *template != '\0') {
        int number = read_number(&template);
        const char *value = number == 0 ? "" : params->values[number - 1];

        if (number == 0) {
            *to++ = *template ++;
        } else if (params->is_number[number - 1]) {
            to = stpcpy(to, value);
        } else if (params->list != 0 && params->list == number - 1) {
            to = quote_list(value, to);
        } else {
            *to++ = '\'';
            to += mysql_real_escape_string(&session->mysql, to, value,
                                           strlen(value));
            *to++ = '\'';
        }
    }
    if (text != NULL) {
        *to = '\0';
    }
    return text;
}

/* Most of what `load` costs a server is to read and to understand it: so that
 * is done once for a session. Not where the text changes with what is learnt of
 * the tables. */
static bool is_named(const struct simba__my_session *session,
                     enum simba__sql_statement statement)
{
    const struct simba__sql *self = session->base.self;

    return statement == SIMBA__SQL_OFFER ||
           (statement == SIMBA__SQL_LOAD &&
            !((const struct simba__my *)self)->is_mysql &&
            !self->has_no_slots && !self->has_no_quiet && !self->has_no_token);
}

/* "PREPARE name FROM 'text'; EXECUTE name USING $1, $2", for substitute(). */
static void write_named(struct simba__my_session *session,
                        enum simba__sql_statement statement,
                        char room[NAMED_MOST])
{
    char text[TEXT_MOST], list[TEXT_MOST / 4] = "";
    const char *from = text;
    char *to = room;
    size_t used = 0;

    write_text(session, statement, text);
    snprintf(to, TEXT_MOST, "PREPARE simba_%d FROM '", (int)statement);
    to += strlen(to);
    while (*from != '\0') {
        int number = read_number(&from);

        assert((size_t)(to - room) < NAMED_MOST - sizeof list - 64 &&
               used < sizeof list - 8);
        if (number != 0) {
            *to++ = '?';
            snprintf(list + used, sizeof list - used, "%s$%d",
                     used == 0 ? "" : ", ", number);
            used += strlen(list + used);
        } else {
            if (*from == '\'') {
                *to++ = '\'';
            }
            *to++ = *from++;
        }
    }
    session->is_naming = (session->named & UINT32_C(1) << statement) == 0;
    session->batch = session->is_naming ? 2 : 1;
    to = session->is_naming ? stpcpy(to, "'; ") : room;
    snprintf(to, sizeof list + 64, "EXECUTE simba_%d USING %s", (int)statement,
             list);
}

static char *render_named(struct simba__my_session *session,
                          enum simba__sql_statement statement)
{
    char template[NAMED_MOST];

    write_named(session, statement, template);
    (void)simba__sql_bind(&session->params, session->base.request, statement);
    return substitute(session, template);
}

char *simba__my_render(struct simba__my_session *session,
                       enum simba__sql_statement statement)
{
    const struct simba__sql_request *request = session->base.request;
    const struct simba__sql_change *change = &request->change;
    char template[TEXT_MOST];
    char *text = NULL;
    size_t length;

    session->is_naming = false;
    if (is_named(session, statement)) {
        return render_named(session, statement);
    }
    write_text(session, statement, template);
    /* Semicolons are between statements only, until parameters come in. */
    session->batch = 1;
    for (const char *at = template; (at = strchr(at, ';')) != NULL; at++) {
        session->batch++;
    }
    /* S10: the commit first, then the wake-ups of those it made offers to. Who
     * was too late has offered nothing: a hundred who find a mutex free would
     * all wake the same one. */
    for (size_t i = 0; simba__sql_is_apply(statement) && i < change->wake_count;
         i++) {
        const struct simba__sql_peer *peer =
            &request->record.peers[change->wakes[i]];

        if (peer->can_notify && peer->notify_id != 0 &&
            strcmp(peer->process, request->self->process) != 0) {
            length = strlen(template);
            snprintf(template + length, TEXT_MOST - length,
                     "; KILL QUERY if(@simba > 0, %llu, 0)",
                     (unsigned long long)peer->notify_id);
        }
    }
    if (simba__sql_bind(&session->params, request, statement)) {
        text = substitute(session, template);
    }
    free(session->params.gone);
    return text;
}

char *simba__my_render_prepared(struct simba__my_session *session,
                                enum simba__sql_statement statement)
{
    char text[TEXT_MOST];
    const char *from = text;
    char *to = text;
    int count = 0;

    write_text(session, statement, text);
    while (*from != '\0') {
        int number = read_number(&from);

        if (number == 0) {
            *to++ = *from++;
        } else {
            session->order[statement][count++] = number - 1;
            *to++ = '?';
        }
    }
    *to = '\0';
    session->order_count[statement] = count;
    return strdup(text);
}

char *simba__my_render_notify(struct simba__my_session *session,
                              enum simba__my_notify_step step)
{
    static const char *const steps[] = {
        [SIMBA__MY_STEP_LOCK] = SIMBA__MY_NOTIFY_LOCK,
        [SIMBA__MY_STEP_POLL] = SIMBA__MY_POLL,
        [SIMBA__MY_STEP_OFFERS] = SIMBA__MY_NOTIFY_OFFERS,
        [SIMBA__MY_STEP_RENAME] = SIMBA__MY_NOTIFY_RENAME,
        [SIMBA__MY_STEP_WAIT] = SIMBA__MY_NOTIFY_WAIT,
    };
    const struct simba__my *my = (const struct simba__my *)session->base.self;
    struct simba__sql_params *params = &session->params;

    params->count = 4;
    params->list = 0;
    memset(params->is_number, 0, sizeof params->is_number);
    params->is_number[1] = true;
    snprintf(params->texts[1], sizeof params->texts[1], "%lu",
             mysql_thread_id(&session->mysql));
    params->values[0] = my->sql.process;
    params->values[1] = params->texts[1];
    params->values[2] = session->seen == NULL ? "" : session->seen;
    params->values[3] = my->sql.notify_name;
    return substitute(session, my->is_mysql && step == SIMBA__MY_STEP_WAIT
                                   ? SIMBA__MY_NOTIFY_WAIT_MYSQL
                                   : steps[step]);
}
