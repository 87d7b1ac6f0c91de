/* The statements of the MySQL and MariaDB store: texts with their parameters.
 *
 * What is uncontended is prepared; the rest is text, several statements at a
 * time, so that a change takes one round trip. */
#define _GNU_SOURCE
#include "backends/mysql/mysql.h"

#include "backends/mysql/schema.h"
#include "backends/mysql/statements.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const texts[SIMBA__SQL_STATEMENTS] = {
    [SIMBA__SQL_QUIET_ACQUIRE] = SIMBA__MY_QUIET_ACQUIRE,
    [SIMBA__SQL_QUIET_RENEW] = SIMBA__MY_QUIET_RENEW,
    [SIMBA__SQL_QUIET_RELEASE] = SIMBA__MY_QUIET_RELEASE,
    [SIMBA__SQL_FAST_ACQUIRE] = SIMBA__MY_FAST_ACQUIRE,
    [SIMBA__SQL_FAST_RENEW] = SIMBA__MY_FAST_RENEW,
    [SIMBA__SQL_FAST_RELEASE] = SIMBA__MY_FAST_RELEASE,
    [SIMBA__SQL_LOAD] = SIMBA__MY_LOAD,
    [SIMBA__SQL_LOAD_ALL] = SIMBA__MY_LOAD,
    [SIMBA__SQL_RECORD_BREAK] = SIMBA__MY_RECORD_BREAK,
    [SIMBA__SQL_INSERT_MUTEX] = SIMBA__MY_INSERT_MUTEX,
    [SIMBA__SQL_SCHEMA] = SIMBA__MY_SCHEMA,
    [SIMBA__SQL_UPGRADE] = SIMBA__MY_UPGRADE,
    [SIMBA__SQL_POLL] = SIMBA__MY_POLL,
    [SIMBA__SQL_HEARTBEAT] = SIMBA__MY_HEARTBEAT,
    [SIMBA__SQL_DOCTOR] = SIMBA__MY_DOCTOR,
    [SIMBA__SQL_DOCTOR_TABLES] = SIMBA__MY_DOCTOR_TABLES,
    [SIMBA__SQL_LIST] = SIMBA__MY_LIST,
    [SIMBA__SQL_LIST_BARE] = SIMBA__MY_LIST_BARE,
};

const char *simba__my_greeting(void)
{
    return SIMBA__MY_SESSION_SETUP;
}

/* By so much a text becomes longer at most. */
enum { MOST_MORE = 256 };

/* Takes the text, which may be NULL, and gives another, or NULL. */
static char *edit(const struct simba__my *my,
                  enum simba__sql_statement statement,
                  char *text)
{
    static const struct simba__sql_edit whole[] = {{"LIMIT 32", ""},
                                                   {NULL, NULL}};
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

    size_t room = text == NULL ? 0 : strlen(text) + MOST_MORE;
    char *roomy = text == NULL ? NULL : realloc(text, room);

    if (roomy == NULL) {
        free(text);
        return NULL;
    }
    if (statement == SIMBA__SQL_LOAD_ALL) {
        simba__sql_edit(roomy, room, whole);
    }
    if (my->sql.has_no_quiet) {
        simba__sql_edit(roomy, room, another);
    }
    if (my->sql.has_no_token) {
        simba__sql_edit(roomy, room, old);
    }
    if (my->is_mysql) {
        simba__sql_edit(roomy, room, mysql);
    }
    return roomy;
}

/* Only what there is need for. */
static char *apply_text(const struct simba__sql_turn *turn)
{
    const struct simba__sql_change *change = &turn->change;
    char *text = NULL;

    if (asprintf(&text, "%s%s%s%s%s%s", SIMBA__MY_APPLY,
                 change->gone_count > 0 ? SIMBA__MY_APPLY_GONE : "",
                 change->come_count > 0 ? SIMBA__MY_APPLY_COME : "",
                 change->come_count > 1 ? SIMBA__MY_APPLY_COME_TOO : "",
                 change->tomb_until_ms > 0 ? SIMBA__MY_APPLY_UNDONE : "",
                 SIMBA__MY_APPLY_END) < 0) {
        return NULL;
    }
    return text;
}

/* A session that serves us keeps the bell from getting the lock it waits for;
 * see bell.c. */
static char *beat_text(const struct simba__sql_turn *turn)
{
    return strdup(turn->self->bell == SIMBA__SQL_BELL_REFUSED
                      ? SIMBA__MY_HEARTBEAT
                      : SIMBA__MY_HEARTBEAT_LOCK SIMBA__MY_HEARTBEAT);
}

static char *template_of(const struct simba__sql_turn *turn,
                         enum simba__sql_statement statement)
{
    if (statement == SIMBA__SQL_APPLY) {
        return apply_text(turn);
    }
    return statement == SIMBA__SQL_HEARTBEAT ? beat_text(turn)
                                             : strdup(texts[statement]);
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

static size_t quote(struct simba__my_session *session,
                    const char *value,
                    char *to)
{
    size_t length;

    *to = '\'';
    length =
        mysql_real_escape_string(&session->mysql, to + 1, value, strlen(value));
    to[length + 1] = '\'';
    return length + 2;
}

/* Each of a list in quotes. They are hexadecimal. */
static size_t quote_list(const char *list, char *to)
{
    const char *start = to;

    *to++ = '\'';
    for (; *list != '\0'; list++) {
        if (*list == ',') {
            to = stpcpy(to, "','");
        } else {
            *to++ = *list;
        }
    }
    *to++ = '\'';
    return (size_t)(to - start);
}

static size_t most_room(const struct simba__my_session *session,
                        const char *template)
{
    size_t room = 1;

    while (*template != '\0') {
        int number = read_number(&template);

        if (number > 0) {
            room += 2 * strlen(session->params.values[number - 1]) + 2;
        } else {
            room++;
            template ++;
        }
    }
    return room;
}

/* The text with all parameters in their places. */
static char *substitute(struct simba__my_session *session, const char *template)
{
    const struct simba__sql_params *params = &session->params;
    char *text = malloc(most_room(session, template));
    char *to = text;

    if (text == NULL) {
        return NULL;
    }
    while (*template != '\0') {
        int number = read_number(&template);

        if (number == 0) {
            *to++ = *template ++;
        } else if (params->is_number[number - 1]) {
            to = stpcpy(to, params->values[number - 1]);
        } else if (params->list != 0 && params->list == number - 1) {
            to += quote_list(params->values[number - 1], to);
        } else {
            to += quote(session, params->values[number - 1], to);
        }
    }
    *to = '\0';
    return text;
}

/* S10: the commit first, then the bells of those it has called. */
static char *add_rings(char *text, const struct simba__sql_turn *turn)
{
    const struct simba__sql_change *change = &turn->change;

    for (size_t i = 0; i < change->ring_count && text != NULL; i++) {
        const struct simba__sql_peer *peer =
            &turn->record.peers[change->rings[i]];
        char *more = NULL;

        if (!peer->has_bell || peer->bell == 0 ||
            strcmp(peer->process, turn->self->process) == 0) {
            continue;
        }
        if (asprintf(&more, "%s; KILL QUERY %llu", text,
                     (unsigned long long)peer->bell) < 0) {
            more = NULL;
        }
        free(text);
        text = more;
    }
    return text;
}

/* Semicolons are between statements only, until parameters come in. */
static int count_statements(const char *template)
{
    int count = 1;

    for (; *template != '\0'; template ++) {
        count += *template == ';';
    }
    return count;
}

char *simba__my_render(struct simba__my_session *session,
                       enum simba__sql_statement statement)
{
    const struct simba__sql_turn *turn = session->base.turn;
    bool is_apply = statement == SIMBA__SQL_APPLY;
    char *template = edit((const struct simba__my *)session->base.self,
                          statement, template_of(turn, statement));
    char *text = NULL;

    if (template != NULL &&
        simba__sql_bind(&session->params, turn, statement)) {
        session->batch = count_statements(template);
        text = substitute(session, template);
        free(session->params.gone);
    }
    free(template);
    return is_apply ? add_rings(text, turn) : text;
}

char *simba__my_prepared(struct simba__my_session *session,
                         enum simba__sql_statement statement)
{
    char *text = edit((const struct simba__my *)session->base.self, statement,
                      strdup(texts[statement]));
    const char *from = text;
    char *to = text;
    int count = 0;

    while (text != NULL && *from != '\0') {
        int number = read_number(&from);

        if (number == 0) {
            *to++ = *from++;
        } else {
            session->order[statement][count++] = number - 1;
            *to++ = '?';
        }
    }
    if (text != NULL) {
        *to = '\0';
        session->positions[statement] = count;
    }
    return text;
}

char *simba__my_render_bell(struct simba__my_session *session,
                            enum simba__my_bell_step step)
{
    static const char *const steps[] = {
        [SIMBA__MY_BELL_HANG] = SIMBA__MY_NOTIFY_LOCK,
        [SIMBA__MY_BELL_LOOK] = SIMBA__MY_POLL,
        [SIMBA__MY_BELL_MOVE] = SIMBA__MY_NOTIFY_RENAME,
        [SIMBA__MY_BELL_SLEEP] = SIMBA__MY_NOTIFY_WAIT,
    };
    const struct simba__my *my = (const struct simba__my *)session->base.self;
    bool is_other = my->is_mysql && step == SIMBA__MY_BELL_SLEEP;
    struct simba__sql_params *params = &session->params;

    params->count = 4;
    params->list = 0;
    params->values[0] = session->base.self->process;
    params->is_number[0] = false;
    params->values[1] = params->texts[1];
    params->is_number[1] = true;
    snprintf(params->texts[1], sizeof params->texts[1], "%lu",
             mysql_thread_id(&session->mysql));
    params->values[2] = session->seen == NULL ? "" : session->seen;
    params->is_number[2] = false;
    params->values[3] = session->base.self->hung_as;
    params->is_number[3] = false;
    return substitute(session,
                      is_other ? SIMBA__MY_NOTIFY_WAIT_MYSQL : steps[step]);
}

char *simba__my_schema(const simba_backend_config *config,
                       bool upgrade,
                       simba_error *error)
{
    (void)config;
    return simba__sql_tell(upgrade ? SIMBA__MY_UPGRADE : SIMBA__MY_SCHEMA,
                           error);
}
