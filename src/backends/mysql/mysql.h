/* The MySQL and MariaDB store: what its files share. */
#ifndef SIMBA_MYSQL_H
#define SIMBA_MYSQL_H

#include "backends/sql/sql.h"
#include "kit/url.h"

#include <mysql.h>

/** The table of functions, under the name by which modules are looked at. */
extern SIMBA_API const simba_backend_ops simba_module;

/* What the URL says; texts are NULL when it says nothing. */
struct simba__my_settings {
    struct simba__url url; /* where the texts lie */
    struct simba__tls_settings tls;
    const char *host, *user, *password, *database, *socket, *option_file;
    unsigned port;
    bool is_jvm_expected; /* room is left for JVM contenders, seen or not */
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
    SIMBA__MY_SETUP,
    SIMBA__MY_PREPARE,
    SIMBA__MY_EXECUTE,
    SIMBA__MY_QUERY,
    SIMBA__MY_STORE,
    SIMBA__MY_NEXT,
    SIMBA__MY_ROLLBACK
};

/* What the notify session is doing. */
enum simba__my_notify_step {
    SIMBA__MY_STEP_LOCK,
    SIMBA__MY_STEP_POLL,
    SIMBA__MY_STEP_OFFERS,
    SIMBA__MY_STEP_RENAME,
    SIMBA__MY_STEP_WAIT
};

struct simba__my_session {
    struct simba__sql_session base;
    MYSQL mysql;
    bool is_open;                /* mysql is initialised */
    unsigned char greeting[256]; /* how the server began */
    size_t greeted;              /* so much of it is known */
    bool is_bare;                /* it knows no TLS */
    unsigned number;             /* grows with each connection */
    enum simba__my_phase phase;
    enum simba__sql_statement statement;
    struct simba__sql_params params;
    char *text; /* of the query under way, to be freed */

    /* The fast path is prepared; NULL: not yet. */
    MYSQL_STMT *prepared[SIMBA__SQL_FAST_PATH];
    int order[SIMBA__SQL_FAST_PATH][SIMBA__SQL_PARAMS]; /* which parameter is
                                                         * where */
    int order_count[SIMBA__SQL_FAST_PATH];
    /* What has rows is prepared by a name, and executed by a query; which are,
     * by a bit for each. Is the one under way being prepared? */
    uint32_t named;
    bool is_naming;

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

    enum simba__my_notify_step step;
    char *seen;             /* offers told already, or NULL */
    int64_t again_until_ms; /* deadlocks are put up with; 0: there is none */
};

/* settings.c */
int simba__my_settings_read(struct simba__my_settings *settings,
                            const char *rest,
                            simba_error *error);
void simba__my_settings_fini(struct simba__my_settings *settings);
/** As simba_backend_ops has it. */
char *simba__my_help(void);

/* statements.c */

/** The text of a query with its parameters, to be freed; NULL: no memory. */
char *simba__my_render(struct simba__my_session *session,
                       enum simba__sql_statement statement);
/** The text to prepare, to be freed; fills order. NULL: no memory. */
char *simba__my_render_prepared(struct simba__my_session *session,
                                enum simba__sql_statement statement);
/** A query of the notify session. */
char *simba__my_render_notify(struct simba__my_session *session,
                              enum simba__my_notify_step step);

/* errors.c */

/** What the failure of a session means to us. */
void simba__my_classify(const struct simba__my_session *session,
                        struct simba__sql_result *result);
/** Is the connection gone? */
bool simba__my_is_lost(unsigned number);
/** The connection is gone, or never was: say why, and close the session. */
void simba__my_give_up(struct simba__my_session *session);

/* connection.c */
void simba__my_connect(struct simba__sql_session *session);
void simba__my_send(struct simba__sql_session *session,
                    enum simba__sql_statement statement);
void simba__my_proceed(struct simba__sql_session *session, uint32_t events);
void simba__my_disconnect(struct simba__sql_session *session);
void simba__my_abandon(struct simba__sql_session *session);
/** Send a query; takes the text, NULL: no memory. */
void simba__my_query(struct simba__my_session *session, char *text);

/* notify.c */
void simba__my_start_notify(struct simba__sql_session *session);
void simba__my_stop_notify(struct simba__sql_session *notify,
                           struct simba__sql_session *idle);
/** A query of the notify session has been answered. */
void simba__my_notify_answered(struct simba__my_session *session);

#endif
