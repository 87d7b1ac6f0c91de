#include "resource.h"

#include <simba.h>

#include <libpq-fe.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *dial(void)
{
    PGconn *pg = PQconnectdb(server_url());

    if (PQstatus(pg) != CONNECTION_OK) {
        fputs(PQerrorMessage(pg), stderr);
        abort();
    }
    return pg;
}

/* A statement that must not fail; what it answered is the caller's. */
static PGresult *run(PGconn *pg,
                     const char *text,
                     int count,
                     const char *const *values)
{
    PGresult *result =
        PQexecParams(pg, text, count, NULL, values, NULL, NULL, 0);

    if (PQresultStatus(result) != PGRES_COMMAND_OK &&
        PQresultStatus(result) != PGRES_TUPLES_OK) {
        fputs(PQerrorMessage(pg), stderr);
        abort();
    }
    return result;
}

static void tell(PGconn *pg, const char *text)
{
    PQclear(run(pg, text, 0, NULL));
}

static bool passes(PGconn *pg, uint64_t token)
{
    char number[24];
    const char *raise_values[] = {"data", number},
               *ask_values[] = {number, "data"};
    PGresult *answer;
    bool is_one;

    snprintf(number, sizeof number, "%" PRIu64, token);
    PQclear(run(pg, simba_guard_sql(SIMBA_GUARD_POSTGRES, SIMBA_GUARD_RAISE), 2,
                raise_values));
    answer = run(pg, simba_guard_sql(SIMBA_GUARD_POSTGRES, SIMBA_GUARD_ASK), 2,
                 ask_values);
    is_one = strcmp(PQgetvalue(answer, 0, 0), "1") == 0;
    PQclear(answer);
    return is_one;
}

static int write_once(uint64_t token, const char *text)
{
    PGconn *pg = dial();
    bool is_fresh;

    tell(pg, "SET client_min_messages = error");
    tell(pg, simba_guard_sql(SIMBA_GUARD_POSTGRES, SIMBA_GUARD_CREATE));
    tell(pg, "CREATE TABLE IF NOT EXISTS data (id int PRIMARY KEY, t text)");
    tell(pg, "BEGIN");
    is_fresh = passes(pg, token);
    if (is_fresh) {
        PQclear(run(pg,
                    "INSERT INTO data VALUES (1, $1) "
                    "ON CONFLICT (id) DO UPDATE SET t = excluded.t",
                    1, &text));
    }
    tell(pg, is_fresh ? "COMMIT" : "ROLLBACK");
    PQfinish(pg);
    return is_fresh ? SIMBA_OK : SIMBA_ELOST;
}

static void read_back(char *text, size_t room)
{
    PGconn *pg = dial();
    PGresult *result = run(pg, "SELECT t FROM data", 0, NULL);

    snprintf(text, room, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    PQfinish(pg);
}

const struct way ways[] = {
    {"test_guard_postgres__refuses_a_paused_owner", write_once, read_back},
    {NULL, NULL, NULL},
};
