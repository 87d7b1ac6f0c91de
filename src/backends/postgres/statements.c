/* The texts of the statements of the PostgreSQL store. */
#define _GNU_SOURCE
#include "backends/postgres/postgres.h"

#include "backends/postgres/schema.h"
#include "backends/postgres/statements.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const texts[SIMBA__SQL_STATEMENTS] = {
    [SIMBA__SQL_QUIET_ACQUIRE] = SIMBA__PG_QUIET_ACQUIRE,
    [SIMBA__SQL_QUIET_RENEW] = SIMBA__PG_QUIET_RENEW,
    [SIMBA__SQL_QUIET_RELEASE] = SIMBA__PG_QUIET_RELEASE,
    [SIMBA__SQL_FAST_ACQUIRE] = SIMBA__PG_FAST_ACQUIRE,
    [SIMBA__SQL_FAST_RENEW] = SIMBA__PG_FAST_RENEW,
    [SIMBA__SQL_FAST_RELEASE] = SIMBA__PG_FAST_RELEASE,
    [SIMBA__SQL_LOAD] = SIMBA__PG_LOAD,
    [SIMBA__SQL_LOAD_ALL] = SIMBA__PG_LOAD,
    [SIMBA__SQL_APPLY] = SIMBA__PG_APPLY,
    [SIMBA__SQL_RECORD_BREAK] = SIMBA__PG_RECORD_BREAK,
    [SIMBA__SQL_INSERT_MUTEX] = SIMBA__PG_INSERT_MUTEX,
    [SIMBA__SQL_SCHEMA] = SIMBA__PG_SCHEMA,
    [SIMBA__SQL_UPGRADE] = SIMBA__PG_UPGRADE,
    [SIMBA__SQL_POLL] = SIMBA__PG_POLL,
    [SIMBA__SQL_HEARTBEAT] = SIMBA__PG_HEARTBEAT,
    [SIMBA__SQL_DOCTOR] = SIMBA__PG_DOCTOR,
    [SIMBA__SQL_DOCTOR_TABLES] = SIMBA__PG_DOCTOR_TABLES,
    [SIMBA__SQL_LIST] = SIMBA__PG_LIST,
    [SIMBA__SQL_LIST_BARE] = SIMBA__PG_LIST_BARE,
};

/* A statement differs a little from its text when the whole line is asked for,
 * and on tables of another make. */
const char *simba__pg_text(const struct simba__pg *pg,
                           enum simba__sql_statement statement,
                           char *room)
{
    static const struct simba__sql_edit whole[] = {{"LIMIT 32", ""},
                                                   {NULL, NULL}};
    static const struct simba__sql_edit another[] = {
        {"m.quiet, m.attempt, m.former", "-1, '', 0"},
        {", quiet = $41::bigint, attempt = $11, former = $39::bigint", ""},
        {"CASE $41::bigint WHEN -1 THEN $9::bigint ELSE -2 END", "$9::bigint"},
        {NULL, NULL}};
    static const struct simba__sql_edit old[] = {
        {", fencing_token = $10::bigint", ""},
        {"m.fencing_token", "m.version"},
        SIMBA__SQL_ASK_FOR_TOKENS,
        {NULL, NULL}};

    assert(strlen(texts[statement]) < SIMBA__PG_TEXT);
    snprintf(room, SIMBA__PG_TEXT, "%s", texts[statement]);
    if (statement == SIMBA__SQL_LOAD_ALL) {
        simba__sql_edit(room, SIMBA__PG_TEXT, whole);
    }
    if (pg->sql.has_no_quiet) {
        simba__sql_edit(room, SIMBA__PG_TEXT, another);
    }
    if (pg->sql.has_no_token) {
        simba__sql_edit(room, SIMBA__PG_TEXT, old);
    }
    return room;
}

char *simba__pg_schema(const simba_backend_config *config,
                       bool upgrade,
                       simba_error *error)
{
    (void)config;
    return simba__sql_tell(upgrade ? SIMBA__PG_UPGRADE : SIMBA__PG_SCHEMA,
                           error);
}
