/* What PostgreSQL's words mean to us. */
#define _GNU_SOURCE
#include "backends/postgres/postgres.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_LENGTH = 5 };

struct postgres_meaning {
    const char *state; /* SQLSTATE, or how it begins */
    enum simba__sql_verdict verdict;
    int status;
    const char *words;  /* instead of the server's, or NULL */
    const char *advice; /* what to do about it, or NULL */
};

static const struct postgres_meaning meanings[] = {
    {"40001", SIMBA__SQL_AGAIN, SIMBA_EUNAVAIL, NULL, NULL},
    {"40P01", SIMBA__SQL_AGAIN, SIMBA_EUNAVAIL, NULL, NULL},
    /* Our prepared statements were discarded, or a table was changed. */
    {"26000", SIMBA__SQL_AGAIN, SIMBA_EUNAVAIL, NULL, NULL},
    {"0A000", SIMBA__SQL_AGAIN, SIMBA_EUNAVAIL, NULL, NULL},
    {"42P01", SIMBA__SQL_NO_TABLE, SIMBA_ENOTINIT, NULL, NULL},
    {"42703", SIMBA__SQL_NO_COLUMN, SIMBA_EMISCONFIG, NULL, NULL},
    {"42501", SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL, SIMBA__SQL_GRANT},
    {"28", SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL, NULL},
    {"3D000", SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG, NULL,
     "create it, or name another in the URL"},
    {"3F000", SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG, NULL, NULL},
    {"25006", SIMBA__SQL_READ_ONLY, SIMBA_EMISCONFIG,
     "the server is read-only: a standby, or set so", "name the primary"},
    {"22001", SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG,
     "a column of simba_mutex is too short for this name or id",
     "`simba init --upgrade` widens it"},
    {"22P05", SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG,
     "the encoding of the database cannot hold this name or id",
     "use one in UTF8"},
    {"42", SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG, NULL, NULL},
    {"53300", SIMBA__SQL_REFUSED, SIMBA_EUNAVAIL, NULL,
     "it takes no more connections: raise the limit there, or run fewer "
     "processes"},
    {"55P03", SIMBA__SQL_REFUSED, SIMBA_EUNAVAIL,
     "somebody else keeps the table or the row locked", NULL},
    {"57014", SIMBA__SQL_REFUSED, SIMBA_EUNAVAIL, "the statement took too long",
     NULL},
};

static const struct postgres_meaning *find_meaning(const char *state)
{
    static const struct postgres_meaning unknown = {"", SIMBA__SQL_REFUSED,
                                                    SIMBA_EUNAVAIL, NULL, NULL};

    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (strncmp(meanings[i].state, state, strlen(meanings[i].state)) == 0) {
            return &meanings[i];
        }
    }
    return &unknown;
}

/* "error 3D000: database "x" does not exist; create it". Of what may be several
 * lines the first. The five characters are also a number, so that it can be
 * told again. */
static int say(const struct simba__pg_session *session,
               const char *state,
               const char *words,
               simba_error *error)
{
    const struct postgres_meaning *meaning = find_meaning(state);
    const char *said = meaning->words == NULL ? words : meaning->words;

    return simba_error_set(
        error, meaning->status, (int)strtol(state, NULL, 36),
        "%s: %s%s%s%.*s%s%s", session->base.self->shown,
        state[0] == '\0' ? "" : "error ", state, state[0] == '\0' ? "" : ": ",
        (int)strcspn(said, "\n"), said, meaning->advice == NULL ? "" : "; ",
        meaning->advice == NULL ? "" : meaning->advice);
}

void simba__pg_classify(struct simba__pg_session *session,
                        struct simba__sql_result *result)
{
    const struct simba__sql_request *request = session->base.request;
    const char *state = PQresultErrorField(session->result, PG_DIAG_SQLSTATE);
    const char *words =
        PQresultErrorField(session->result, PG_DIAG_MESSAGE_PRIMARY);

    state = state == NULL ? "" : state;
    result->verdict = find_meaning(state)->verdict;
    /* Two who make the tables at once are in each other's way, and many wait
     * for each other for longer than is good for any other lock. */
    if (request != NULL &&
        ((request->statement == SIMBA__SQL_SCHEMA &&
          (strcmp(state, "42P07") == 0 || strcmp(state, "42710") == 0 ||
           strcmp(state, "23505") == 0)) ||
         (request->was_created && strcmp(state, "55P03") == 0))) {
        result->verdict = SIMBA__SQL_AGAIN;
    }
    if (strncmp(state, "42", 2) == 0 || strcmp(state, "26000") == 0 ||
        strcmp(state, "0A000") == 0) {
        /* It could not be prepared, or is not known any more, or not as it was.
         * Other failures leave it prepared. */
        session->prepared = 0;
        session->generation++;
    }
    result->status =
        say(session, state,
            words == NULL ? PQresultErrorMessage(session->result) : words,
            &result->error);
}

/* Before there is a session the server's SQLSTATE is to be had from the text
 * only: "FATAL:  28P01: password authentication failed". */
static const char *find_state(const char *message, char *state)
{
    const char *at = message;

    while ((at = strstr(at, ":  ")) != NULL) {
        int i = 0;

        at += 3;
        while (i < STATE_LENGTH && (isdigit((unsigned char)at[i]) ||
                                    isupper((unsigned char)at[i]))) {
            i++;
        }
        if (i == STATE_LENGTH && at[i] == ':') {
            memcpy(state, at, STATE_LENGTH);
            state[STATE_LENGTH] = '\0';
            return at + STATE_LENGTH + 2;
        }
    }
    state[0] = '\0';
    return message;
}

/* About TLS only the library's words tell. What is cut short is an error, too,
 * but none of whom we speak to. */
static bool is_of_tls(const char *words)
{
    return strstr(words, "certificate") != NULL ||
           strstr(words, "does not support SSL") != NULL ||
           strstr(words, "to SSL negotiation") != NULL ||
           (strstr(words, "SSL error: ") != NULL &&
            strstr(words, "unexpected eof") == NULL);
}

/* What the library refuses by itself, and who speaks another language. */
static bool is_of_settings(const char *words)
{
    return strstr(words, "invalid ") != NULL ||
           strstr(words, "expected authentication request") != NULL ||
           strstr(words, "could not match ") != NULL ||
           strstr(words, "definition of service") != NULL ||
           strstr(words, "service file") != NULL;
}

void simba__pg_give_up(struct simba__pg_session *session)
{
    const char *message =
        session->conn == NULL ? "out of memory" : PQerrorMessage(session->conn);
    char state[STATE_LENGTH + 1];
    const char *words = find_state(message, state);
    simba_error error;

    if (session->conn != NULL &&
        PQconnectionNeedsPassword(session->conn) == 1) {
        simba_error_set(&error, SIMBA_EDENIED, 0,
                        "%s: the server asks for a password; it goes in the "
                        "URL, PGPASSWORD or ~/.pgpass",
                        session->base.self->shown);
    } else if (session->base.state == SIMBA__SQL_CONNECTING &&
               is_of_tls(words)) {
        simba_error_set(
            &error, SIMBA_EMISCONFIG, 0,
            "%s: %.*s; sslrootcert=FILE says whom to trust, sslmode=disable "
            "does without TLS",
            session->base.self->shown, (int)strcspn(words, "\n"), words);
    } else {
        say(session, state, words, &error);
        if (state[0] == '\0' && is_of_settings(words)) {
            error.code = SIMBA_EMISCONFIG;
        }
    }
    simba__sql_lost(&session->base, error.code, &error);
}
