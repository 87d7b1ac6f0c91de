/* The MySQL and MariaDB store: what its files share. */
#ifndef SIMBA_MYSQL_H
#define SIMBA_MYSQL_H

#include "backends/sql/engine.h"
#include "kit/url.h"

#include <mysql.h>

/** The table of functions, under the name by which modules are looked at. */
extern SIMBA_API const simba_backend_ops simba_module;

/* What the URL says; texts are empty when it says nothing. */
struct simba__my_settings {
    struct simba__url url;
    struct simba__tls_settings tls;
    const char *host, *user, *password, *database, *socket;
    const char *option_file, *tls_ca, *tls_cert, *tls_key;
    unsigned port;
    bool has_tls;
    bool is_unverified; /* TLS with whoever answers */
};

struct simba__my {
    struct simba__sql sql;
    struct simba__my_settings settings;
    bool is_mysql; /* not MariaDB */
};

/* What a session is doing. */
enum simba__my_phase {
    SIMBA__MY_IDLE,
    SIMBA__MY_CONNECT,
    SIMBA__MY_GREET,
    SIMBA__MY_PREPARE,
    SIMBA__MY_EXECUTE,
    SIMBA__MY_QUERY,
    SIMBA__MY_STORE,
    SIMBA__MY_NEXT,
    SIMBA__MY_ROLLBACK
};

/* What the session of the bell is doing. */
enum simba__my_bell_step {
    SIMBA__MY_BELL_HANG,
    SIMBA__MY_BELL_LOOK,
    SIMBA__MY_BELL_MOVE,
    SIMBA__MY_BELL_SLEEP
};

enum { SIMBA__MY_FAST = 6 }; /* statements that are prepared */

struct simba__my_session {
    struct simba__sql_session base;
    MYSQL mysql;
    bool is_open; /* mysql is initialised */
    enum simba__my_phase phase;
    enum simba__sql_statement statement;
    struct simba__sql_params params;
    char *text; /* of the query under way, to be freed */

    MYSQL_STMT *fast[SIMBA__MY_FAST];             /* NULL: not prepared yet */
    int order[SIMBA__MY_FAST][SIMBA__SQL_PARAMS]; /* which parameter is where */
    int positions[SIMBA__MY_FAST];                /* how many there are */
    MYSQL_BIND binds[SIMBA__SQL_PARAMS];
    unsigned long lengths[SIMBA__SQL_PARAMS];

    int batch;         /* statements of the query that must go well */
    int answered;      /* so many have */
    int64_t found;     /* rows that the second of a change was about */
    MYSQL_RES *result; /* the last that had rows */
    unsigned failure;  /* of a query: error number, 0 when all went well */
    char words[160];   /* what the server said about it */

    /* What the functions of the library answer when they are done. */
    MYSQL *connected;
    MYSQL_RES *stored;
    int rc;

    enum simba__my_bell_step bell_step;
    char *seen;             /* calls told already, or NULL */
    int64_t again_until_ms; /* deadlocks are put up with; 0: there is none */
};

/* settings.c */
int simba__my_settings_read(struct simba__my_settings *settings,
                            const char *rest,
                            simba_error *error);
void simba__my_settings_fini(struct simba__my_settings *settings);

/* statements.c */

/** The text of a query with its parameters, to be freed; NULL: no memory. */
char *simba__my_render(struct simba__my_session *session,
                       enum simba__sql_statement statement);
/** The text to prepare, to be freed; fills order and places. */
char *simba__my_prepared(struct simba__my_session *session,
                         enum simba__sql_statement statement);
/** A query of the bell. */
char *simba__my_render_bell(struct simba__my_session *session,
                            enum simba__my_bell_step step);
const char *simba__my_greeting(void);
/** As simba_backend_ops has it; in the words of MariaDB. */
char *simba__my_schema(const simba_backend_config *config,
                       bool upgrade,
                       simba_error *error);

/* errors.c */

/** What an error number means to us. */
void simba__my_judge(const struct simba__my_session *session,
                     struct simba__sql_answer *answer);
/** Is the connection gone? */
bool simba__my_is_lost(unsigned number);
/** Why there is no connection. */
int simba__my_explain(const struct simba__my_session *session,
                      simba_error *error);

/* steps.c */

/** What a step answers when there is nothing more to wait for. */
enum { SIMBA__MY_ANSWERED = -1 };

/** Go on as far as it goes without waiting. */
void simba__my_run(struct simba__my_session *session, int waits);
/** The second half of the call that was started. */
int simba__my_go_on(struct simba__my_session *session, int status);
/** Start a query. */
int simba__my_start(struct simba__my_session *session,
                    enum simba__my_phase phase,
                    const char *text);
void simba__my_free_query(struct simba__my_session *session);
void simba__my_give_up(struct simba__my_session *session);

/* connection.c */
const char *simba__my_hosts(const struct simba__sql *self);
void simba__my_dial(struct simba__sql_session *session);
void simba__my_send(struct simba__sql_session *session,
                    enum simba__sql_statement statement);
void simba__my_proceed(struct simba__sql_session *session, uint32_t events);
void simba__my_disconnect(struct simba__sql_session *session);
void simba__my_abandon(struct simba__sql_session *session);
void simba__my_query(struct simba__my_session *session, char *text);
int simba__my_execute(struct simba__my_session *session);

/* bell.c */
void simba__my_hang_bell(struct simba__sql_session *session);
void simba__my_take_down_bell(struct simba__sql_session *bell,
                              struct simba__sql_session *idle);
/** A query of the bell has been answered. */
void simba__my_bell_answered(struct simba__my_session *session);

#endif
