/* The engine of the stores on SQL servers. Requests wait in queues for one of a
 * few sessions, and each is served by one to three statements:
 *
 *                done                        nothing to write
 *     QUIET, FAST ------------> answered <------------------ LOAD
 *     or OFFER                    ^                         |  ^
 *      |                          | written          decided|  | somebody
 *      '--------------------------|-------> LOAD        in C v  | was faster
 *        refused, or contended    '--------------------- APPLY
 *
 * A dialect knows the client library and the texts of the statements.
 * Everything here happens inside the loop, except simba__sql_drive(). */
#ifndef SIMBA_SQL_H
#define SIMBA_SQL_H

#include "core/mutex_record.h"
#include "core/rng.h"
#include "kit/backoff.h"
#include "kit/deadline.h"
#include "kit/log.h"
#include "kit/lookup.h"
#include "util/hash.h"

#include <simba/sys/backend.h>

struct simba__sql;
struct simba__sql_session;
struct simba__sql_request;

struct simba__sql_queue {
    struct simba__sql_request *first, **last;
};

/* --- statements ---------------------------------------------------------- */

/* X(name, text); the first six are the fast path: worth preparing. */
#define SIMBA__SQL_EACH_STATEMENT(X)                                           \
    X(QUIET_ACQUIRE, QUIET_ACQUIRE)                                            \
    X(QUIET_RENEW, QUIET_RENEW)                                                \
    X(QUIET_RELEASE, QUIET_RELEASE)                                            \
    X(FAST_ACQUIRE, FAST_ACQUIRE)                                              \
    X(FAST_RENEW, FAST_RENEW)                                                  \
    X(FAST_RELEASE, FAST_RELEASE)                                              \
    X(SLOT_RENEW, SLOT_RENEW) /* of one of several owners */                   \
    X(OFFER, OFFER)           /* a release that is waited for */               \
    X(LOAD, LOAD)                                                              \
    X(LOAD_ALL, LOAD)         /* the queue to its end */                       \
    X(LOAD_SLOTS, LOAD_SLOTS) /* what else simba_slot says of it */            \
    X(APPLY, APPLY)                                                            \
    X(APPLY_SLOTS, APPLY)         /* there, too */                             \
    X(RECORD_BREAK, RECORD_BREAK) /* that a tenure will be ended by force */   \
    X(INSERT_MUTEX, INSERT_MUTEX)                                              \
    X(SCHEMA, SCHEMA)                                                          \
    X(UPGRADE, UPGRADE) /* tables of others, to what ours are */               \
    X(POLL, POLL)       /* which mutexes should our waiters ask for? */        \
    X(HEARTBEAT, HEARTBEAT)                                                    \
    X(TELL, TELL)                                                              \
    X(TOLD, TOLD)                                                              \
    X(BREAKS, BREAKS)                                                          \
    X(LIST, LIST)                                                              \
    X(LIST_SLOTS, LIST)     /* the oldest where several own one */             \
    X(LIST_BARE, LIST_BARE) /* likewise, where there is simba_mutex at most */ \
    X(DOCTOR, DOCTOR)                                                          \
    X(DOCTOR_TABLES, DOCTOR_TABLES)

enum simba__sql_statement {
#define X(name, text) SIMBA__SQL_##name,
    SIMBA__SQL_EACH_STATEMENT(X)
#undef X
        SIMBA__SQL_FAST_PATH = SIMBA__SQL_SLOT_RENEW
};

/** Does it write what was decided? */
static inline bool simba__sql_is_apply(enum simba__sql_statement statement)
{
    return statement == SIMBA__SQL_APPLY || statement == SIMBA__SQL_APPLY_SLOTS;
}

/** May it change anything that was asked for? */
static inline bool simba__sql_is_write(enum simba__sql_statement statement)
{
    return statement <= SIMBA__SQL_OFFER || simba__sql_is_apply(statement);
}

/** Most parameters of a statement. */
enum { SIMBA__SQL_PARAMS = 63 };

/** Length of a process's name and of an attempt, in hexadecimal. */
enum { SIMBA__SQL_HEX = 32 };

/* Values of parameters and the memory they lie in. */
struct simba__sql_params {
    int count;
    const char *values[SIMBA__SQL_PARAMS];
    bool is_number[SIMBA__SQL_PARAMS];
    int list; /* which of them is a list, with commas between; 0: none */
    int64_t numbers[SIMBA__SQL_PARAMS];
    char texts[SIMBA__SQL_PARAMS][SIMBA__SQL_HEX + 1]; /* numbers, attempts */
    char *gone;                                        /* to be freed */
};

enum simba__sql_verdict {
    SIMBA__SQL_FINE,
    SIMBA__SQL_AGAIN,     /* a deadlock or the like: surely without effect */
    SIMBA__SQL_NO_TABLE,  /* likewise */
    SIMBA__SQL_NO_COLUMN, /* simba_mutex is not of our make */
    SIMBA__SQL_READ_ONLY, /* another may be primary; surely without effect */
    SIMBA__SQL_REFUSED    /* the server says why; surely without effect */
};

/** The rows that a statement has answered: `cell` gives a text or NULL. */
struct simba__sql_rows {
    int count;
    const char *(*cell)(const struct simba__sql_rows *rows,
                        int row,
                        int column);
    void *result; /* the client library's */
};

/** How a statement ended. */
struct simba__sql_result {
    enum simba__sql_verdict verdict;
    struct simba__sql_rows rows;
    int status; /* REFUSED: for simba_request_done() */
    simba_error error;
};

/* --- one mutex, between the tables and the model ------------------------- */

/** Stands for the token of a tenure that is not ours, where it is told which
 * came before which. */
enum { SIMBA__SQL_ANOTHER = 1 };

/** The version in simba_tenure when it says nothing, for the mutex is quiet. */
enum { SIMBA__SQL_SILENT = -2 };

/** Versions of rows go round before they leave what `int` can hold. */
#define SIMBA__SQL_VERSIONS INT64_C(2147483647)

/* The columns of `load`, in their order; the fast path answers the first three,
 * `slot_renew` and `offer` three more. */
enum simba__sql_column {
    SIMBA__SQL_DONE_US, /* NULL: the fast path has done nothing */
    SIMBA__SQL_DONE_TOKEN,
    SIMBA__SQL_DONE_ACQUIRED_AT,
    SIMBA__SQL_NOW_US,
    SIMBA__SQL_DONE_SLOT = SIMBA__SQL_NOW_US,
    SIMBA__SQL_DONE_TO = SIMBA__SQL_NOW_US,      /* whom it is offered to, */
    SIMBA__SQL_OWNER_ID,                         /* NULL: no such row */
    SIMBA__SQL_DONE_SLOTS = SIMBA__SQL_OWNER_ID, /* the least of all */
    SIMBA__SQL_DONE_FIRST = SIMBA__SQL_OWNER_ID, /* through which process, */
    SIMBA__SQL_ACQUIRED_AT,
    SIMBA__SQL_DONE_OWNED = SIMBA__SQL_ACQUIRED_AT,
    SIMBA__SQL_DONE_SECOND = SIMBA__SQL_ACQUIRED_AT, /* and who is behind it */
    SIMBA__SQL_TTL_AT,
    SIMBA__SQL_TRANSITION_AT,
    SIMBA__SQL_FENCING_TOKEN,
    SIMBA__SQL_VERSION,
    SIMBA__SQL_TENURE_VERSION, /* NULL: no such row */
    SIMBA__SQL_TENURE_TOKEN,
    SIMBA__SQL_ATTEMPT,
    SIMBA__SQL_BROKEN,
    SIMBA__SQL_WAITING,
    SIMBA__SQL_OFFERED, /* a waiter: attempt, id, process, whether it can be
                         * notified, position, end of its lease */
    SIMBA__SQL_OFFERED_UNTIL = SIMBA__SQL_OFFERED + 6,
    SIMBA__SQL_OFFERED_LIVE,
    SIMBA__SQL_TOMBS_UNTIL,
    SIMBA__SQL_TOMB_UNTIL,
    SIMBA__SQL_WAITER, /* likewise; NULL: nobody is in the queue */
    SIMBA__SQL_WAITER_LIVE = SIMBA__SQL_WAITER + 6,
    SIMBA__SQL_LAST_POSITION,
    SIMBA__SQL_SELF, /* likewise; NULL: who asks is not in the queue */
    SIMBA__SQL_SELF_LIVE = SIMBA__SQL_SELF + 6,
    SIMBA__SQL_FORMER_TOKEN,
    SIMBA__SQL_FOREIGN, /* who owns it may not notify us */
    SIMBA__SQL_QUIET,   /* the version: simba_tenure says nothing of it */
    SIMBA__SQL_QUIET_ATTEMPT,
    SIMBA__SQL_QUIET_FORMER,
    SIMBA__SQL_TENURE_ACCOUNT,
    SIMBA__SQL_HAS_TOKENS, /* simba_mutex has a column for them */
    SIMBA__SQL_WAITER_SLOTS,
    SIMBA__SQL_SELF_SLOTS,
    SIMBA__SQL_MORE /* "": simba_slot says nothing of it */
};

/* Through which process somebody waits. A waiter's `connection` is an index of
 * these; 0 is our own process. */
struct simba__sql_peer {
    char process[SIMBA__SQL_HEX + 1];
    bool can_notify; /* it can be woken, and its death be seen */
    bool is_live;
    uint64_t notify_id; /* what the server calls its connection, if it tells */
};

struct simba__sql_record {
    struct simba__mutex_record was, mutex; /* as loaded; as it is to be */
    int64_t now_us;
    uint64_t token; /* the last one, also of a free mutex */
    int64_t version;
    int64_t transition_at_ms; /* of the table, also when nobody owns it */
    bool is_quiet;            /* simba_mutex alone says it all */
    bool is_foreign;          /* nobody will notify us when its owner is done */
    bool is_waiting;          /* the mark that somebody may be in the queue */
    int64_t tombs_until_ms;   /* of all attempts */
    int64_t account;          /* whose tenure it is, if that matters */
    simba_owner row;  /* who owns it by simba_mutex; several: "slots@" */
    bool is_crowd;    /* by that, several may */
    bool has_slots;   /* simba_slot says more of it, */
    size_t slot_rows; /* in so many rows */
    struct simba__waiter jvm; /* jvm.c: it is known until that lapses */
    bool has_jvm;             /* it was in the queue */
    bool is_jvm_noted;        /* and is to be, anew */
    bool is_jvm_seen;
    struct simba__sql_peer *peers;
    size_t peer_count, peer_room;
};

struct simba__sql_change {
    bool is_any;
    bool is_quiet; /* then simba_mutex alone will say it all */
    int64_t version;
    simba_owner shown;     /* whom simba_mutex shall name */
    int64_t tomb_until_ms; /* 0: no tombstone is to be left */
    bool has_slots;        /* simba_slot changes, too */
    bool is_slot_gone;     /* it says something no more */
    bool is_beside;       /* it is of no matter that others renewed meanwhile */
    bool is_slot_offered; /* it says anew whom the mutex is offered to */
    const struct simba__tenure *slot;    /* what it shall say anew, or NULL */
    const struct simba__waiter *come[2]; /* in the queue anew, or moved */
    size_t come_count;
    simba_attempt *gone; /* out of the queue */
    size_t gone_count, gone_room;
    uint64_t gone_first, gone_last; /* their positions */
    size_t wakes[2];                /* peers to notify after the commit */
    size_t wake_count;
};

enum simba__sql_loaded {
    SIMBA__SQL_LOADED,
    SIMBA__SQL_NO_ROW,    /* nobody ever had it */
    SIMBA__SQL_NO_TENURE, /* none of ours ever had it, but somebody else may */
    SIMBA__SQL_IN_PART,   /* among the first in the queue too few are alive */
    SIMBA__SQL_NO_MEMORY
};

/* --- requests, sessions, the store --------------------------------------- */

/** What an engine asks of the code for one kind of server. */
struct simba__sql_dialect {
    const char *name; /* for messages */
    const simba_backend_ops *ops;
    size_t store_size, session_size;
    /** Read the URL, name the server in `shown`; undone by `forget`. */
    int (*configure)(struct simba__sql *self,
                     const simba_backend_config *config,
                     simba_error *error);
    void (*forget)(struct simba__sql *self);
    /** What it is to connect to: hosts, with commas between, or NULL. */
    const char *(*hosts)(const struct simba__sql *self);
    /** Their names are known. Begin to connect: simba__sql_connected() or
     * simba__sql_lost(). */
    void (*connect)(struct simba__sql_session *session);
    /** Send a statement: simba__sql_answered() or simba__sql_lost(), not before
     * it has returned. */
    void (*send)(struct simba__sql_session *session,
                 enum simba__sql_statement statement);
    /** The descriptor is ready, or is to be tried. */
    void (*proceed)(struct simba__sql_session *session, uint32_t events);
    /** Hang up; the memory is the engine's. */
    void (*disconnect)(struct simba__sql_session *session);
    /** In a forked child: close the descriptor, tell the server nothing. */
    void (*abandon)(struct simba__sql_session *session);
    /** Connected: begin to listen for wake-ups; simba__sql_notify_settled()
     * when that is settled, or simba__sql_lost(). */
    void (*start_notify)(struct simba__sql_session *session);
    /** May others be able to notify us? */
    bool (*can_notify)(const struct simba__sql_session *session);
    /** MAY be NULL. The store is being closed: make the server notice that the
     * notify session is gone, through an idle session, if there is one; may
     * block shortly. */
    void (*stop_notify)(struct simba__sql_session *notify,
                        struct simba__sql_session *idle);
};

enum simba__sql_state {
    SIMBA__SQL_CLOSED,
    SIMBA__SQL_CONNECTING,
    SIMBA__SQL_IDLE,
    SIMBA__SQL_BUSY
};

/** One session with the server, by a connection of its own. A dialect's own
 * struct begins with it. */
struct simba__sql_session {
    simba_io io;
    simba_timer timer; /* when no answer is waited for any longer */
    int fd;            /* the library's; io waits on a copy of it */
    struct simba__sql *self;
    struct simba__sql_request *request; /* that it serves, or NULL */
    simba__lookup *lookup;              /* under way, or NULL */
    char *hosts, *next_host;            /* to be looked up; freed after */
    int not_found;                      /* why one was not; gai_strerror(3) */
    bool is_found;                      /* one was */
    enum simba__sql_state state;
    uint32_t wanted;   /* events, while its request is not driven */
    bool is_notify;    /* it listens, and serves no requests */
    bool was_lost;     /* the next connection is made anew */
    bool was_used;     /* since the last search for needless ones */
    bool is_needed;    /* by the notify session, as long as it is connected */
    uint64_t received; /* bytes, since it was asked something or spoke itself */
};

/** One request under way. */
struct simba__sql_request {
    simba_request *asked; /* what the core asks for */
    simba_timer deadline;
    struct simba__sql *self;
    struct simba__sql_session *session; /* NULL: in a queue */
    struct simba__sql_request *next;
    struct simba__sql_queue behind; /* acquires of its mutex that wait for it */
    enum simba__sql_statement statement; /* under way */
    int missing;      /* of simba_mutex, as was known when it was sent */
    bool is_written;  /* a change was sent and not answered: may take effect */
    bool is_slow;     /* begin with LOAD */
    bool is_driven;   /* a caller's thread waits for the descriptor */
    bool was_created; /* has tried to make the tables */
    bool was_ensured; /* has tried to make the rows */
    bool was_booked;  /* the break is written down */
    bool was_learnt;  /* that simba_mutex is of our make */
    bool is_woken;    /* a wake-up for its mutex came since it was sent */
    bool is_put_off;  /* its `deadline` is the end of that */
    int64_t begun_ms; /* when what it decides by was asked for */
    struct simba__sql_record record;
    struct simba__sql_change change;
};

enum simba__sql_notify {
    SIMBA__SQL_NOTIFY_NONE,
    SIMBA__SQL_NOTIFY_STARTING,
    SIMBA__SQL_NOTIFY_READY,
    SIMBA__SQL_NOTIFY_REFUSED /* no wake-ups here: who waits, asks */
};

/** So much of a process's name is its account, if there is one. */
enum { SIMBA__SQL_ACCOUNT = 8 };

/** Sessions that serve requests; of these so many may serve acquires. */
enum { SIMBA__SQL_SESSIONS = 6, SIMBA__SQL_ACQUIRERS = 3 };

/** How many mutexes share a mark. */
enum { SIMBA__SQL_MARKS = 256 };

/** One open store. A dialect's own struct begins with it. */
struct simba__sql {
    simba_backend base;
    const struct simba__sql_dialect *dialect;
    struct simba__log log;
    char process[SIMBA__SQL_HEX + 1]; /* our name, random */
    uint32_t account;   /* the name begins with it, if only who has the same can
                         * notify; else 0 */
    char shown[96];     /* the server, for messages */
    bool is_unverified; /* whoever answers is taken for it, over a network */

    struct simba__sql_session *sessions[SIMBA__SQL_SESSIONS];
    int session_count;
    struct simba__sql_queue urgent, other;
    struct simba__sql_queue parked; /* until the notify session is settled */
    struct simba__sql_queue late;   /* others were faster: put off */
    struct simba__rng rng;
    struct simba__sql_request *spare;
    int spare_count;
    struct simba__sql_request *driven; /* a caller's thread waits for it */
    simba_timer idle_timer;            /* to close needless sessions */

    /* The last failure to connect; nobody tries again before that time. */
    simba_error failure;
    int64_t retry_at_ms;
    struct simba__backoff backoff;
    int64_t patience_ms;     /* more, to connect */
    int64_t asked_ms;        /* when a request came last */
    bool has_failed;         /* some have failed for want of a session */
    simba_timer retry_timer; /* so it is connected for those who ask again */

    struct simba__sql_session *notify_session;
    enum simba__sql_notify notify;
    bool was_notified; /* it was ready once: there may be some who rely on it */
    char notify_name[SIMBA__SQL_HEX + 1]; /* our name when it was, or "" */
    simba_timer notify_timer;             /* to connect it again */
    struct simba__backoff notify_backoff;

    /* Of mutexes, by a hash: they had a queue when we last freed them, so the
     * fast release is not worth trying; were not quiet when we last heard; had
     * JVM contenders; how often in a row others were faster. So nobody who
     * comes anew asks for the last, by another hash, before that time. */
    bool has_queue[SIMBA__SQL_MARKS], is_loud[SIMBA__SQL_MARKS];
    bool is_shared[SIMBA__SQL_MARKS];
    uint8_t offers[SIMBA__SQL_MARKS]; /* so many releases in a row, or more */
    uint8_t races_lost[SIMBA__SQL_MARKS];
    uint64_t late_for;
    int64_t late_until_ms;
    bool is_jvm_possible; /* they know such servers */
    bool is_jvm_expected; /* room is left for them, seen or not */

    struct simba__hash subscriptions; /* by mutex */
    struct simba__hash names;         /* of owners */
    size_t waiter_count;
    const char *waking; /* a wake-up for this mutex is being passed on */
    int64_t waking_ms;  /* and it is offered to another process for so long */

    /* The heartbeat for all who wait. */
    simba_timer heartbeat_timer;
    simba_request heartbeat;
    bool is_beating; /* it is under way */
    bool is_poll;    /* and merely asks for news */
    bool has_lost_positions;
    bool has_foreign; /* of what we wait for, something must be polled */
    int64_t heartbeat_sent_ms, heartbeat_due_ms, poll_due_ms;
    int64_t foreign_since_ms; /* when that was last news */
    struct simba__backoff heartbeat_backoff;
    int64_t life_ms; /* the longest of their waiter leases */

    bool has_no_quiet;         /* simba_mutex is of another make */
    bool has_no_token;         /* and an old one */
    bool has_no_slots;         /* simba_line and simba_tenure are old ones */
    bool cannot_offer;         /* the server cannot do it by one statement */
    int64_t look_for_slots_ms; /* then it is tried again if they are */
    bool was_primary;          /* the server has taken a change of ours */
    bool is_detached;
};

/* --- sql.c: the store, and how requests wait and end --------------------- */

/** For a dialect's own `open`. */
int simba__sql_open(const struct simba__sql_dialect *dialect,
                    const simba_backend_config *config,
                    simba_backend **out,
                    simba_error *error);

void simba__sql_close(simba_backend *self);
void simba__sql_submit(simba_backend *self, simba_request *asked);
void simba__sql_detach(simba_backend *self);
void simba__sql_forked(simba_backend *self);
bool simba__sql_drive(simba_backend *self, int64_t until_ms);
void simba__sql_subscribe(simba_backend *self,
                          const char *mutex,
                          enum simba_subscription subscription);

/* What the tables of both modules have in common. */
#define SIMBA__SQL_FUNCTIONS                                                   \
    .abi = SIMBA_BACKEND_ABI, .submit = simba__sql_submit,                     \
    .close = simba__sql_close, .detach = simba__sql_detach,                    \
    .forked = simba__sql_forked, .subscription = simba__sql_subscribe,         \
    .drive = simba__sql_drive,                                                 \
    .capabilities = SIMBA_CAN_PUSH | SIMBA_CAN_LIST | SIMBA_CAN_BREAK |        \
                    SIMBA_CAN_DOCTOR | SIMBA_CAN_INIT | SIMBA_TELLS_ENDED |    \
                    SIMBA_HAS_SERVER | SIMBA_CAN_SLOTS | SIMBA_NUMBERS_SLOTS | \
                    SIMBA_CAN_HAND_OVER | SIMBA_CAN_TELL | SIMBA_TELLS_BREAKS

/** Complete the request, and let its session go on with others. */
void simba__sql_end(struct simba__sql_request *request,
                    int status,
                    const simba_error *error);
/** Complete all in a queue. */
void simba__sql_end_all(struct simba__sql_queue *queue,
                        int status,
                        const simba_error *error);
/** Give the session back and wait for the notify session. */
void simba__sql_park(struct simba__sql_request *request);
/** Give the session back, and begin anew at that time, before its deadline. */
void simba__sql_put_off(struct simba__sql_request *request, int64_t until_ms);
/** The notify session is settled: parked requests begin anew. */
void simba__sql_unpark(struct simba__sql *self);
/** Give waiting requests to sessions. */
void simba__sql_pump(struct simba__sql *self);

/* --- connection.c -------------------------------------------------------- */

/** Has the server said more than the statement under way can be answered with,
 * having said so many bytes? It is mad then, or means harm. */
bool simba__sql_is_too_much(const struct simba__sql_session *session,
                            uint64_t received);
/** So it has: give it up. */
void simba__sql_flooded(struct simba__sql_session *session);
/** Said by a dialect: connected; the statement was answered; the connection is
 * gone or never was, and what was under way may have taken effect. */
void simba__sql_connected(struct simba__sql_session *session);
void simba__sql_lost(struct simba__sql_session *session,
                     int status,
                     const simba_error *error);

/** The library speaks through this descriptor from now on. */
void simba__sql_attach(struct simba__sql_session *session, int fd);
/** Wait for these events on it. */
void simba__sql_want(struct simba__sql_session *session, uint32_t events);

struct simba__sql_session *simba__sql_session_make(struct simba__sql *self);
/** It serves nobody any more, but is still to be answered. */
bool simba__sql_is_overdue(const struct simba__sql_session *session);
void simba__sql_session_connect(struct simba__sql_session *session);
/** An idle session, or NULL; a new one is opened then if that can help. */
struct simba__sql_session *simba__sql_session_get(struct simba__sql *self);
struct simba__sql_session *simba__sql_session_find(
    const struct simba__sql *self,
    enum simba__sql_state state);
/** Hang up, and forget what was under way there. */
void simba__sql_session_close(struct simba__sql_session *session);
/** Hang up wherever nothing is under way, also at the notify session: the
 * next request may be served elsewhere. */
void simba__sql_session_leave(struct simba__sql *self,
                              const simba_error *error);
/** Look up no names any more. */
void simba__sql_session_cancel(struct simba__sql_session *session);
void simba__sql_close_idle(simba_timer *timer);
void simba__sql_reconnect(simba_timer *timer);

/* --- notify.c ------------------------------------------------------------ */

void simba__sql_name_process(struct simba__sql *self);
/** See to it that there is a notify session. */
void simba__sql_notify_start(struct simba__sql *self);
void simba__sql_notify_retry(simba_timer *timer);
/** It was lost. */
void simba__sql_notify_lost(struct simba__sql *self, const simba_error *error);
/** Said by a dialect: it listens, or cannot. */
void simba__sql_notify_settled(struct simba__sql *self,
                               enum simba__sql_notify notify);
/** Said by a dialect: who waits for this mutex (NULL: any) is to ask. */
void simba__sql_wake(struct simba__sql *self, const char *mutex);
/** Likewise for one mutex; not 0: it is offered for so long to another process,
 * and nobody here need ask the server before. */
void simba__sql_wake_until(struct simba__sql *self,
                           const char *mutex,
                           int64_t offered_ms);
/** Likewise for one who was offered it, if it still waits. */
void simba__sql_wake_offered(struct simba__sql *self,
                             const char *mutex,
                             simba_attempt attempt);

/* --- request.c ----------------------------------------------------------- */

void simba__sql_start(struct simba__sql_request *request);
/** Others were faster before, and it is not the next to have the mutex. */
bool simba__sql_is_one_of_many(const struct simba__sql_request *request);
/** It was too late, or nobody knows: how long it is to wait until it tries. */
int64_t simba__sql_lose_race(const struct simba__sql_request *request);
/** Said by a dialect: the statement under way has been answered. */
void simba__sql_answered(struct simba__sql_session *session,
                         const struct simba__sql_result *result);

/* --- record.c ------------------------------------------------------------ */

/** The parameters of a statement for this request. False: out of memory. */
bool simba__sql_bind(struct simba__sql_params *params,
                     const struct simba__sql_request *request,
                     enum simba__sql_statement statement);

/** Read the answer of `load`. */
enum simba__sql_loaded simba__sql_record_load(
    struct simba__sql_record *record,
    const struct simba__sql_rows *rows,
    const simba_request *asked);
void simba__sql_record_fini(struct simba__sql_record *record);
/** Find what has changed. False when memory ran out. */
bool simba__sql_change_find(struct simba__sql_change *change,
                            const struct simba__sql_record *record,
                            const simba_request *asked);
/** How long the lease of who asks will last, if it does not ask again. */
int64_t simba__sql_change_life(const struct simba__sql_change *change,
                               const simba_request *asked,
                               const struct simba__sql_record *record);

/** An attempt as it stands in the tables; "" for none. */
void simba__sql_write_attempt(simba_attempt attempt,
                              char text[SIMBA__SQL_HEX + 1]);
simba_attempt simba__sql_read_attempt(const char *text);

/* Values of the next parameter. */
void simba__sql_add_text(struct simba__sql_params *params, const char *text);
void simba__sql_add_number(struct simba__sql_params *params, int64_t number);
void simba__sql_add_attempt(struct simba__sql_params *params,
                            simba_attempt attempt);

/** The text of a cell; "" for NULL. */
const char *simba__sql_text(const struct simba__sql_rows *rows,
                            int row,
                            int column);
/** Copy a text from the tables. What does not fit was not written by us; cut,
 * it equals nothing. */
void simba__sql_copy(char *to, size_t room, const char *text);

/* The columns that `list` and `heartbeat` have in common. */
enum simba__sql_summary {
    SIMBA__SQL_MUTEX,
    SIMBA__SQL_MUTEX_OWNER,
    SIMBA__SQL_MUTEX_ACQUIRED_AT,
    SIMBA__SQL_MUTEX_TTL_AT,
    SIMBA__SQL_MUTEX_TRANSITION_AT,
    SIMBA__SQL_MUTEX_TOKEN,
    SIMBA__SQL_MUTEX_BROKEN,
    SIMBA__SQL_MUTEX_NOW,
    SIMBA__SQL_MUTEX_WAITING,
    SIMBA__SQL_MUTEX_MORE, /* of `list_slots`: how many the owner suffers */
    SIMBA__SQL_MUTEX_SLOT
};

/** The owner in a row of these; none, if nobody has it. */
simba_owner simba__sql_read_owner(const struct simba__sql_rows *rows, int row);

/** A number in a cell; 0 for NULL. */
int64_t simba__sql_number(const struct simba__sql_rows *rows,
                          int row,
                          int column);

/** One text for another. */
struct simba__sql_edit {
    const char *from, *to;
};

/** Make all changes in a statement, wherever they fit; the last has NULL.
 * `room` is that of the text. */
void simba__sql_edit(char *text,
                     size_t room,
                     const struct simba__sql_edit *edits);

/** In `load`, for tables that have no tokens as far as is known: have they any
 * by now? In the inner query the name means the column of simba_mutex if there
 * is one, else that of `none`. */
#define SIMBA__SQL_ASK_FOR_TOKENS                                              \
    {"1 AS has_tokens",                                                        \
     "(SELECT CASE WHEN fencing_token = -1 THEN 0 ELSE 1 END "                 \
     "FROM simba_mutex n WHERE n.mutex = $1)"},                                \
    {                                                                          \
        "FROM simba_mutex m\nLEFT JOIN simba_tenure t ON t.mutex = $1",        \
            "FROM (SELECT -1 AS fencing_token) none CROSS JOIN simba_mutex m " \
            "LEFT JOIN simba_tenure t ON t.mutex = $1"                         \
    }

/** What stands in comments between "slots" is for statements with slots. */
void simba__sql_edit_slots(char *text, enum simba__sql_statement statement);
/** In `load`, for tables that have no columns for them. */
#define SIMBA__SQL_WITHOUT_SLOTS                                               \
    {                                                                          \
        "w.slots, i.slots, t.asked", "0, 0, ''"                                \
    }

/* --- slots.c ------------------------------------------------------------- */

/** Read the answer of `load_slots`, after that of `load`. */
enum simba__sql_loaded simba__sql_load_slots(
    struct simba__sql_request *request,
    const struct simba__sql_rows *rows);
/** Several may own it. */
bool simba__sql_is_crowd(const struct simba__mutex_record *mutex);
/** simba_mutex and simba_tenure alone cannot say it. */
bool simba__sql_needs_slots(const struct simba__mutex_record *mutex);
/** Find what has changed of the tenures. True: something has. */
bool simba__sql_change_tenures(struct simba__sql_change *change,
                               const struct simba__sql_record *record,
                               const simba_request *asked);
/** The parameters that only `apply_slots` has. `kept` has room for the attempts
 * of all tenures and one more, with commas between. */
void simba__sql_bind_slots(struct simba__sql_params *params,
                           const struct simba__sql_request *request,
                           char *kept);

/* --- offer.c ------------------------------------------------------------- */

/** Is it worth trying, by how many releases in a row came to that? */
bool simba__sql_can_offer(const struct simba__sql_request *request,
                          unsigned offers);
/** A release was decided: has it come to nothing but what `offer` does? */
void simba__sql_count_offers(const struct simba__sql_request *request,
                             uint8_t *offers);
/** `offer` has done it: tell to whom, and wake who waits here. */
void simba__sql_offered(struct simba__sql_request *request,
                        const struct simba__sql_rows *rows);
/** Is somebody else being woken by what is under way? Then its answer is not
 * looked for: who is woken needs the CPU. */
bool simba__sql_wakes_others(const struct simba__sql_request *request);

/* --- jvm.c --------------------------------------------------------------- */

/** Is this row of the queue, or this offer, not one of ours? */
bool simba__sql_is_jvm(const struct simba__waiter *waiter);
/** Loaded, and not decided yet: are there any, and is it time to leave room? */
void simba__sql_jvm_look(struct simba__sql_request *request);
/** Decided: a lease that was given ends when they ask. */
void simba__sql_jvm_align(struct simba__sql_request *request);

/* --- admin.c ------------------------------------------------------------- */

/** Do several own one of the mutexes of `list`? */
bool simba__sql_lists_crowd(const struct simba__sql_rows *rows);
/** Add the mutexes of `list` to a reply. */
void simba__sql_add_list(struct simba__sql_request *request,
                         const struct simba__sql_rows *rows);
/** The answer of `list_bare` for the one mutex. True: it has an owner. */
bool simba__sql_read_bare(struct simba__sql_request *request,
                          const struct simba__sql_rows *rows);
/** Add what `told` or `breaks` has found. */
void simba__sql_add_notes(struct simba__sql_request *request,
                          const struct simba__sql_rows *rows);
/** Add what one of the doctor's statements has found. */
void simba__sql_add_findings(struct simba__sql_request *request,
                             const struct simba__sql_rows *rows);
/** Statements for people; as simba_backend_ops has it.
 *
 * @param rest  of the URL: who is to use the tables, so that the rights are
 * told that it needs; NULL: nothing is said of that */
char *simba__sql_schema_text(const char *statements,
                             const char *rest,
                             simba_error *error);

/** What to do about a right that is missing. */
#define SIMBA__SQL_GRANT                                                       \
    "'simba init --print' prints the GRANT, for somebody who may"

#endif
