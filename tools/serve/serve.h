/* simba serve: what its parts know of each other.
 *
 *   watch.c    asks the stores and observes their mutexes
 *   board.c    what is known of them, and what has changed
 *   stream.c   the changes, as events for open pages
 *   http.c     connections, their limits, and who is answered what
 *   access.c   who may ask
 *   api.c      answers as JSON, and breaking a tenure
 *   figures.c  answers for Prometheus
 *
 * Threads: two for each store (watch.c), one that sends changes on (stream.c),
 * one for passwords (access.c), and one of libmicrohttpd that answers. That one
 * never waits for a store: what needs one is a job, and the connection is
 * suspended until it is done. */
#ifndef SIMBA_SERVE_SERVE_H
#define SIMBA_SERVE_SERVE_H

#include "cli/mutex_view.h"
#include "util/hash.h"

#include <simba/admin.h>
#include <simba/retrieval.h>

#include <pthread.h>
#include <stdatomic.h>

struct MHD_Connection;
struct MHD_Response;

/* --- what is known: board.c ---------------------------------------------- */

enum {
    /* Tenures that are kept of a mutex, and of all together. */
    SIMBA__TENURES_MOST = 200,
    SIMBA__TENURES_LEAST = 20,
    SIMBA__TENURES_ALL = 200000,
    SIMBA__ROWS_MOST = 100000, /* mutexes of a store */
    SIMBA__HAND_OVER_BUCKETS = 12
};

/** Upper bounds of hand-over times; the last bucket has none. */
extern const int64_t simba__hand_over_bounds_ms[SIMBA__HAND_OVER_BUCKETS - 1];

struct simba__tenure {
    char *id;
    uint64_t token;
    int64_t began_ms;  /* time of day here */
    int64_t ended_ms;  /* 0: it goes on */
    int64_t handed_ms; /* how long who waited for it waited since the tenure
                          before; SIMBA__UNKNOWN */
    char *broken;      /* by whom and why, if it was broken here; or NULL */
    uint32_t slot;     /* SIMBA_NO_SLOT: it has none */
    bool is_broken;
    bool has_gap; /* before it others may have been missed */
};

struct simba__row {
    struct simba__hash_link link; /* by name */
    struct simba__source *source;
    simba_owner owner;
    size_t owned;        /* how many own it; the owner is the oldest */
    uint64_t told_token; /* of the tenure whose words pages were told */
    int waiting;         /* SIMBA__UNKNOWN */
    int64_t lease_ms;    /* the longest that was seen to be left of it */
    int64_t changed_ms;  /* boot clock: when another owner was seen */
    int64_t begun_ms;    /* likewise: when a tenure was seen to begin */
    uint64_t token_seen; /* the highest */
    uint64_t look;       /* the last one that listed it */
    bool is_waited;      /* somebody waited when it became free */
    bool has_gap;        /* before the next tenure */
    bool is_dirty;       /* to be told to pages */
    struct simba__row *next_dirty;
    simba_retrieval *retrieval;    /* the watching thread's */
    struct simba__tenure *tenures; /* the oldest first */
    size_t count, room;
    uint64_t tenure_count, break_count, gap_count;
    uint64_t hand_overs[SIMBA__HAND_OVER_BUCKETS];
    uint64_t hand_over_sum_ms;
};

/** One store. */
struct simba__source {
    struct simba__board *board;
    const struct simba__cli *cli; /* with its URL */
    size_t index;
    char shown[512];
    simba_store *store; /* NULL: it is not there yet */
    /* Under the board's lock: */
    struct simba__hash rows;
    bool is_up, was_up;
    char problem[256];      /* why it is not up */
    int64_t since_unix_ms;  /* it is up or down */
    int64_t listed_unix_ms; /* the last answer */
    int64_t list_ms;        /* how long that took */
    int64_t skew_ms;        /* time of day here less the store's clock */
    uint64_t failure_count;
    simba_report *doctor; /* its last answer; or NULL */
    simba_report *told;   /* what owners tell about themselves; or NULL */
    int64_t changed_ms;   /* boot clock: when an owner was last seen to come */
    /* The watching thread's: */
    uint64_t look;
    int64_t told_ms; /* boot clock: when owners' words were asked for last */
    int64_t told_pause_ms; /* how long not again */
    int untold;            /* lists since then */
    size_t observed;
    pthread_t watcher;
    struct simba__worker *worker;
};

/** A mutex that is not shown any more. */
struct simba__gone {
    struct simba__gone *next;
    size_t source;
    char mutex[];
};

struct simba__board {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct simba__source *sources;
    size_t count;
    struct simba__row *dirty;
    struct simba__gone *gone;
    bool has_news; /* of a store */
    size_t rows;   /* of all stores */
};

/* All under the lock. */

/** What the store said of a mutex; SIMBA__UNKNOWN for waiting: as before.
 *  @param since_ms  boot clock: nothing that happened before is news */
void simba__board_see(struct simba__row *row,
                      const simba_owner *owner,
                      int64_t since_ms);

/** One of several owners has come, or is there. */
void simba__board_begin(struct simba__row *row, const simba_owner *owner);

/** The tenure of this one is over, whoever else owns it. */
void simba__board_end(struct simba__row *row, const simba_owner *owner);

/** So many own it. */
void simba__board_count(struct simba__row *row, size_t owned);

/** End tenures that go on by what is known, but whose owners are not among
 * those of the report.
 *  @param index  which of its mutexes it is */
void simba__board_end_others(struct simba__row *row,
                             const simba_report *report,
                             size_t index);

/** What owners tell about themselves is known anew; taken over. */
void simba__board_tell(struct simba__source *source, simba_report *told);

/** To be told to pages. */
void simba__board_touch(struct simba__row *row);

/** The row of a mutex, made if need be; NULL: no memory, or too many. */
struct simba__row *simba__board_row(struct simba__source *source,
                                    const char *mutex);

/** Forget it; its retrieval is closed. */
void simba__board_drop(struct simba__row *row);

/** Note who broke the present tenure, and why. */
void simba__board_note_break(struct simba__row *row,
                             uint64_t token,
                             const char *words);

/** It is reachable, or not. */
void simba__board_set_up(struct simba__source *source,
                         bool is_up,
                         const char *problem);

/** A time of the store's clock by the time of day here; SIMBA__UNKNOWN. */
int64_t simba__board_unix(const struct simba__source *source, int64_t store_ms);

/* --- jobs: watch.c ------------------------------------------------------- */

struct simba__job {
    struct simba__job *next;
    void (*run)(struct simba__job *job);
};

struct simba__worker {
    pthread_mutex_t lock;
    pthread_cond_t told;
    struct simba__job *first, *last;
    size_t count;
    pthread_t thread;
    /* When nothing is to be done; answers when to come again, boot clock. */
    int64_t (*idle)(void *user);
    void *user;
};

/** Wait for it, so long at most. */
void simba__serve_wait(pthread_cond_t *told, pthread_mutex_t *lock, int64_t ms);

/** NULL: no memory, or no thread. */
struct simba__worker *simba__worker_open(int64_t (*idle)(void *user),
                                         void *user);

/** Have it done; false: too many wait already. */
bool simba__worker_post(struct simba__worker *worker, struct simba__job *job);

/** Watch all stores from now on; 0, else the exit code, after telling why. */
int simba__watch_start(struct simba__board *board);

/* --- open pages: stream.c ------------------------------------------------ */

/** Send changes on from now on, and look after connections. */
bool simba__stream_start(struct simba__board *board, size_t most);

/** The reply for a page that wants events; NULL: there are too many. */
struct MHD_Response *simba__stream_open(struct MHD_Connection *connection);

/** How many are open. */
size_t simba__stream_count(void);

/** Were changes sent on lately? */
bool simba__stream_is_alive(void);

/** Add members of a mutex as pages want them: a list. */
void simba__stream_put_row(struct simba__text *out,
                           const struct simba__row *row);

/* --- who may ask: access.c ----------------------------------------------- */

struct simba__access {
    const char *auth_file;   /* or NULL */
    const char *auth_header; /* what a proxy calls its user; or NULL */
    const char *hosts;       /* further names of this server; or NULL */
    bool may_break;
};

enum { SIMBA__USER_ROOM = 128 };

/** Read the file, begin; false after telling what is wrong. */
bool simba__access_start(const struct simba__access *access);

/** May users break tenures? */
bool simba__access_may_break(void);

/** Is this server meant, and not a name that somebody let point here? */
bool simba__access_is_host(const char *host);

/** Does a request that changes something come from a page of ours? */
bool simba__access_is_ours(struct MHD_Connection *connection);

/** The key that a page sends with such a request. */
const char *simba__access_key(void);

enum simba__access_verdict {
    SIMBA__ACCESS_YES,
    SIMBA__ACCESS_NO,
    SIMBA__ACCESS_CHECK /* simba__access_check() tells; it takes long */
};

/** Who asks? */
enum simba__access_verdict simba__access_of(struct MHD_Connection *connection,
                                            char user[SIMBA__USER_ROOM]);

/** The same, with the hash computed. */
bool simba__access_check(struct MHD_Connection *connection,
                         char user[SIMBA__USER_ROOM]);

/* --- HTTP: http.c -------------------------------------------------------- */

enum { SIMBA__BODY_MOST = 4096 };

/** One request, and its reply. */
struct simba__ask {
    struct simba__job job;
    struct MHD_Connection *connection;
    struct simba__board *board;
    char user[SIMBA__USER_ROOM];
    char body[SIMBA__BODY_MOST + 1];
    size_t length;
    bool is_begun;
    bool is_too_long;
    bool is_allowed;
    bool is_posted; /* a job has it; only the answering thread looks */
    int status;     /* of the reply; 0: not known yet */
    const char *type;
    struct simba__text reply;
};

struct simba__listening {
    const char *listen; /* address:port, or unix:path */
    const char *tls_cert, *tls_key;
};

/** Listen; false after telling what is wrong.
 *  @param[out] url  where the page is */
bool simba__http_start(struct simba__board *board,
                       const struct simba__listening *listening,
                       char *url,
                       size_t room);

/** Can this be listened on at all? */
bool simba__http_is_address(const char *listen);

/** Is this address of this machine only? */
bool simba__http_is_local(const char *listen);

/** End connections that have had their time. */
void simba__http_sweep(void);

/** How many connections there are. */
size_t simba__http_count(void);

/** A header of the request; NULL: there is none. Of several "", which nobody
 * accepts: one of them may be of a client whose proxy added its own. */
const char *simba__http_header(struct MHD_Connection *connection,
                               const char *name);

/** The reply is made: go on with the request. Any thread. */
void simba__http_resume(struct simba__ask *ask);

/* --- answers: api.c, figures.c ------------------------------------------- */

/* Each sets status and reply, or posts its job. */
void simba__api_session(struct simba__ask *ask);
void simba__api_stores(struct simba__ask *ask);
void simba__api_mutexes(struct simba__ask *ask);
void simba__api_mutex(struct simba__ask *ask);
void simba__api_break(struct simba__ask *ask);
void simba__api_ready(struct simba__ask *ask);
void simba__figures(struct simba__ask *ask);

/** Refuse, and say why. */
void simba__api_fail(struct simba__ask *ask, int status, const char *message);

/** A store as pages and programs are told of it: members of an object. */
void simba__api_put_store(struct simba__json *json,
                          const struct simba__source *source);

#endif
