/* The PostgreSQL store: what its files share. */
#ifndef SIMBA_POSTGRES_H
#define SIMBA_POSTGRES_H

#include "backends/sql/sql.h"
#include "kit/url.h"

#include <libpq-fe.h>

/** The table of functions, under the name by which modules are looked at. */
extern SIMBA_API const simba_backend_ops simba_module;

struct simba__pg {
    struct simba__sql sql;
    struct simba__url url;     /* user and password that it does not name */
    PQconninfoOption *options; /* of the URL */
    bool is_pooled;            /* between us and the server is a pooler */
    const char *sslmode, *sslrootcert; /* where nothing is said, or NULL */
    char *hosts;                       /* names to look up, or NULL */
    const char *target; /* which of several servers, or NULL; static */
};

/** Most that the library is told. */
enum { SIMBA__PG_PARAMETERS = 80 };

/* As the library wants it: both end with NULL. */
struct simba__pg_parameters {
    int count;
    const char *keywords[SIMBA__PG_PARAMETERS + 1];
    const char *values[SIMBA__PG_PARAMETERS + 1];
};

struct simba__pg_session {
    struct simba__sql_session base;
    PGconn *conn;
    PGresult *result;    /* of the statement under way, the first that failed */
    bool is_waiting;     /* for results */
    bool is_setup;       /* of the first statement, which sets the session up */
    uint32_t prepared;   /* statements that the server knows, by bits */
    unsigned generation; /* grows when they are to be prepared anew */
    bool is_old;         /* they are for a simba_mutex without tokens, */
    bool is_another;     /* or of another make, */
    bool is_plain;       /* or for a simba_line without slots */
};

/* errors.c */

/** What a result that is not good says. `session` may have prepared statements
 * forgotten. */
void simba__pg_classify(struct simba__pg_session *session,
                        struct simba__sql_result *result);
/** The connection is gone, or never was: say why, and close the session. */
void simba__pg_give_up(struct simba__pg_session *session);

/* settings.c */
int simba__pg_settings_read(struct simba__pg *pg,
                            const char *url,
                            simba_error *error);
const char *simba__pg_hosts(const struct simba__sql *self);
void simba__pg_settings_fini(struct simba__pg *pg);
/** As simba_backend_ops has it. */
char *simba__pg_help(void);
void simba__pg_settings_list(const struct simba__pg *pg,
                             struct simba__pg_parameters *all);

/* connection.c */

/** From now on count again what the server says. */
void simba__pg_note_received(struct simba__pg_session *session);
void simba__pg_connect(struct simba__sql_session *session);
void simba__pg_send(struct simba__sql_session *session,
                    enum simba__sql_statement statement);
void simba__pg_proceed(struct simba__sql_session *session, uint32_t events);
void simba__pg_disconnect(struct simba__sql_session *session);
void simba__pg_abandon(struct simba__sql_session *session);
/** Add a statement to a batch. False when the library could not take it. */
bool simba__pg_add(struct simba__pg_session *session,
                   const char *text,
                   int count,
                   const char *const *values);
/** Send a batch, unless the library could not even take it. */
void simba__pg_dispatch(struct simba__pg_session *session, bool is_taken);

/* notify.c */
void simba__pg_start_notify(struct simba__sql_session *session);
/** The batch of simba__pg_start_notify() has been answered. */
void simba__pg_notify_answered(struct simba__pg_session *session, bool is_good);
/** Take in the wake-ups that have come. */
void simba__pg_notifications(struct simba__pg_session *session);

#endif
