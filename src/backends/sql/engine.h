/* What the stores on SQL servers have in common: operations wait in a queue
 * for one of a few sessions, and go through a turn of one to three statements.
 *
 *                done                        nothing to write
 *     QUICK ------------------> answered <------------------ LOAD
 *     or FAST                     ^                         |  ^
 *      |                          | written          decided|  | somebody
 *      '--------------------------|-------> LOAD        in C v  | was faster
 *        refused, or contended    '--------------------- APPLY
 *
 * A dialect knows the client library and the texts. Everything here happens
 * inside the loop, except simba__sql_drive(). */
#ifndef SIMBA_SQL_ENGINE_H
#define SIMBA_SQL_ENGINE_H

#include "backends/sql/record.h"
#include "kit/lookup.h"

#include <simba/sys/backend.h>

struct simba__sql;
struct simba__sql_session;
struct simba__sql_turn;

enum simba__sql_statement {
    SIMBA__SQL_QUIET_ACQUIRE,
    SIMBA__SQL_QUIET_RENEW,
    SIMBA__SQL_QUIET_RELEASE,
    SIMBA__SQL_FAST_ACQUIRE,
    SIMBA__SQL_FAST_RENEW,
    SIMBA__SQL_FAST_RELEASE,
    SIMBA__SQL_LOAD,
    SIMBA__SQL_LOAD_ALL, /* the line to its end */
    SIMBA__SQL_APPLY,
    SIMBA__SQL_RECORD_BREAK, /* that a tenure will be ended by force */
    SIMBA__SQL_INSERT_MUTEX, /* the rows of a new mutex */
    SIMBA__SQL_SCHEMA,       /* the tables of a new database */
    SIMBA__SQL_UPGRADE,      /* those of others, to what ours are */
    SIMBA__SQL_POLL,         /* what should those of us who wait hear of? */
    SIMBA__SQL_HEARTBEAT,    /* likewise; keeps their places, and tells more */
    SIMBA__SQL_LIST,
    SIMBA__SQL_LIST_BARE, /* likewise, where there is simba_mutex at most */
    SIMBA__SQL_DOCTOR,
    SIMBA__SQL_DOCTOR_TABLES,
    SIMBA__SQL_STATEMENTS
};

enum simba__sql_verdict {
    SIMBA__SQL_FINE,
    SIMBA__SQL_AGAIN,     /* a deadlock or the like: surely without effect */
    SIMBA__SQL_NO_TABLE,  /* likewise */
    SIMBA__SQL_NO_COLUMN, /* simba_mutex is not of our make */
    SIMBA__SQL_READ_ONLY, /* another may be primary; surely without effect */
    SIMBA__SQL_REFUSED    /* the server says why; surely without effect */
};

/** How a statement ended. */
struct simba__sql_answer {
    enum simba__sql_verdict verdict;
    struct simba__sql_rows rows;
    int status; /* REFUSED: for simba_request_done() */
    simba_error error;
};

/** What an engine asks of the code for one kind of server. */
struct simba__sql_dialect {
    const char *name; /* for messages */
    size_t session_size;
    /** What it is to connect to: hosts, with commas between, or NULL. */
    const char *(*hosts)(const struct simba__sql *self);
    /** Their names are known. Begin to connect: simba__sql_connected() or
     * simba__sql_broken(). */
    void (*dial)(struct simba__sql_session *session);
    /** Send a statement: simba__sql_answered() or simba__sql_broken(), not
     * before it has returned. */
    void (*send)(struct simba__sql_session *session,
                 enum simba__sql_statement statement);
    /** The descriptor is ready, or is to be tried. */
    void (*proceed)(struct simba__sql_session *session, uint32_t events);
    /** Hang up; the memory is the engine's. */
    void (*disconnect)(struct simba__sql_session *session);
    /** In a forked child: close the descriptor, tell the server nothing. */
    void (*abandon)(struct simba__sql_session *session);
    /** Connected: begin to listen for rings; simba__sql_bell_hung() when that
     * is settled, or simba__sql_broken(). */
    void (*hang_bell)(struct simba__sql_session *session);
    /** Is there any hope for a bell? */
    bool (*can_push)(const struct simba__sql_session *session);
    /** MAY be NULL. The store is being closed: make the server notice that the
     * bell is gone, through an idle session, if there is one; may block
     * shortly. */
    void (*take_down_bell)(struct simba__sql_session *bell,
                           struct simba__sql_session *idle);
};

enum simba__sql_state {
    SIMBA__SQL_CLOSED,
    SIMBA__SQL_CONNECTING,
    SIMBA__SQL_IDLE,
    SIMBA__SQL_BUSY
};

/** One connection. A dialect's own struct begins with it. */
struct simba__sql_session {
    simba_io io;
    simba_timer timer; /* the end of our patience */
    int fd;            /* the library's; io waits on a copy of it */
    struct simba__sql *self;
    struct simba__sql_turn *turn; /* that it serves, or NULL */
    simba__lookup *lookup;        /* under way, or NULL */
    char *hosts, *next_host;      /* to be asked for; freed after */
    const char *not_found;        /* why one was not; static */
    bool is_found;                /* one was */
    enum simba__sql_state state;
    uint32_t wanted; /* events, while its turn is not driven */
    bool is_bell;    /* it listens, and serves no turns */
    bool was_lost;   /* the next connection is made anew */
    bool was_used;   /* since idle.c has looked last */
    bool is_needed;  /* by the bell, as long as it is connected */
};

/** One operation on its way. */
struct simba__sql_turn {
    simba_request *request;
    struct simba__sql *self;
    struct simba__sql_session *session; /* NULL: in the queue, or parked */
    struct simba__sql_turn *next;
    enum simba__sql_statement statement; /* under way */
    int missing;      /* of simba_mutex, as was known when it was sent */
    bool is_written;  /* a change was sent and not answered: may take effect */
    bool is_slow;     /* begin with LOAD */
    bool is_driven;   /* a caller's thread waits for the descriptor */
    bool was_created; /* has tried to make the tables */
    bool was_ensured; /* has tried to make the rows */
    bool was_booked;  /* the break is written down */
    bool was_learnt;  /* that simba_mutex is of our make */
    bool is_woken;    /* since it was sent, somebody was rung for */
    struct simba__sql_record record;
    struct simba__sql_change change;
};

enum simba__sql_bell {
    SIMBA__SQL_BELL_NONE,
    SIMBA__SQL_BELL_HANGING,
    SIMBA__SQL_BELL_HUNG,
    SIMBA__SQL_BELL_REFUSED /* no push here: who waits, asks */
};

/** So much of a process's name is its account, if there is one. */
enum { SIMBA__SQL_ACCOUNT = 8 };

/** Sessions that serve turns; of these so many may serve acquires. */
enum { SIMBA__SQL_SESSIONS = 6, SIMBA__SQL_ACQUIRERS = 3 };

struct simba__sql_queue {
    struct simba__sql_turn *first, **last;
};

/** How many mutexes share a mark. */
enum { SIMBA__SQL_MARKS = 256 };

/** One of us who is in the queue, as the server has told. */
struct simba__sql_waiter {
    struct simba__sql_waiter *next; /* at the same mutex */
    simba_attempt attempt;
    uint64_t position;
    int64_t life_ms;     /* of its place, unless it asks again */
    int64_t lapses_ms;   /* so its place is to be kept by then; boot clock */
    uint32_t since_beat; /* it came after so many */
    bool is_head;
    bool must_ask;           /* there is news for it */
    bool has_asked, is_kept; /* since the last heartbeat; by the present one */
};

/** A mutex that somebody here waits for or watches. */
struct simba__sql_wish {
    struct simba__sql_wish *next;
    enum simba_subscription subscription;
    struct simba__sql_waiter *waiters;
    simba_owner owner;     /* as last told, to those who wait */
    int64_t held_until_ms; /* likewise: asking earlier makes no sense */
    bool is_foreign;       /* somebody there cannot ring us */
    uint32_t seen_beat;    /* the newest heartbeat that knew of us here */
    int64_t seen_waiting;  /* and how many */
    char mutex[];          /* its name */
};

/** All of them. */
struct simba__sql_wishes {
    struct simba__sql_wish **buckets;
    size_t bucket_count, count;
};

/** One open store. A dialect's own struct begins with it. */
struct simba__sql {
    simba_backend base;
    const struct simba__sql_dialect *dialect;
    simba_log_fn log;
    void *log_user;
    char process[SIMBA__SQL_HEX + 1]; /* our name, random */
    uint32_t account; /* the name begins with it, if only who has the same can
                       * ring; else 0 */
    char hung_as[SIMBA__SQL_HEX + 1]; /* the name our bell had when it was hung
                                       * last, or "" */
    char shown[96];                   /* the server, for messages */

    struct simba__sql_session *sessions[SIMBA__SQL_SESSIONS];
    struct simba__sql_queue urgent, other;
    struct simba__sql_queue parked; /* until the bell is hung */
    struct simba__sql_turn *spare;
    struct simba__sql_turn *driven; /* a caller's thread waits for it */
    simba_timer queue_timer;        /* the first deadline in the queues */

    simba_timer idle_timer; /* to close sessions that nobody needs */

    /* The last failure to connect; nobody tries again before that time. */
    simba_error failure;
    int64_t retry_at_ms;
    int64_t backoff_ms;

    struct simba__sql_session *bell_session;
    enum simba__sql_bell bell;
    bool was_hung;          /* there may be some who rely on it */
    simba_timer bell_timer; /* to hang it again */
    int64_t bell_backoff_ms;

    /* Mutexes, by a hash of their names, that had a line when we last freed
     * them: there, the fast statement is not worth trying. */
    bool has_line[SIMBA__SQL_MARKS];
    /* Likewise, that were not quiet when we last heard of them: there, the
     * quick statement is not. */
    bool is_loud[SIMBA__SQL_MARKS];

    struct simba__sql_wishes wishes;
    size_t waiter_count;

    /* The heartbeat for all who wait. */
    simba_timer beat_timer;
    simba_request beat_op;
    bool is_beating; /* beat_op is under way */
    bool is_look;    /* and is a mere look */
    bool has_lost_places;
    bool has_foreign; /* of what we wait for, something must be looked at */
    uint32_t beat_number;
    int64_t beat_sent_ms, beat_due_ms, look_due_ms;
    int64_t life_ms; /* the longest of their waiter leases */

    bool has_no_quiet; /* simba_mutex is of another make */
    bool has_no_token; /* and an old one */
    bool was_primary;  /* the server has taken a change of ours */
    bool is_detached;
};

/** After the dialect has filled its part. */
void simba__sql_init(struct simba__sql *self,
                     const struct simba__sql_dialect *dialect,
                     const simba_backend_config *config);
/** Hang up everywhere, free everything but self. */
void simba__sql_fini(struct simba__sql *self);

/* The functions of a backend. */
void simba__sql_submit(simba_backend *self, simba_request *request);
void simba__sql_detach(simba_backend *self);
void simba__sql_forked(simba_backend *self);
bool simba__sql_drive(simba_backend *self, int64_t until_ms);
void simba__sql_subscription(simba_backend *self,
                             const char *mutex,
                             enum simba_subscription subscription);

/* --- said by a dialect --------------------------------------------------- */

void simba__sql_connected(struct simba__sql_session *session);

/** The connection is gone or never was; what was under way may have taken
 * effect. The session is closed. */
void simba__sql_broken(struct simba__sql_session *session,
                       int status,
                       const simba_error *error);

void simba__sql_answered(struct simba__sql_session *session,
                         const struct simba__sql_answer *answer);

/** The library speaks through this descriptor from now on. */
void simba__sql_attach(struct simba__sql_session *session, int fd);

/** Wait for these events on it. */
void simba__sql_want(struct simba__sql_session *session, uint32_t events);

/** The bell is hung, or cannot be. */
void simba__sql_bell_hung(struct simba__sql *self, enum simba__sql_bell bell);

/** Somebody was rung for: who waits for this mutex, or for any (NULL), is to
 * ask. */
void simba__sql_wake(struct simba__sql *self, const char *mutex);

/** Send a heartbeat, without waiting until it is due. */
void simba__sql_beat_now(struct simba__sql *self);

/* --- for a dialect ------------------------------------------------------- */

/** Most parameters of a statement. */
enum { SIMBA__SQL_PARAMS = 44 };

/* Values of parameters and the memory they lie in. */
struct simba__sql_params {
    int count;
    const char *values[SIMBA__SQL_PARAMS];
    bool is_number[SIMBA__SQL_PARAMS];
    int list; /* which of them is a list, with commas between; 0: none */
    int64_t numbers[SIMBA__SQL_PARAMS];
    char texts[SIMBA__SQL_PARAMS][24]; /* of the numbers */
    char attempts[4][SIMBA__SQL_HEX + 1];
    char op_attempt[SIMBA__SQL_HEX + 1];
    char *gone; /* to be freed */
};

/** The parameters of a statement for this turn. False: out of memory. */
bool simba__sql_bind(struct simba__sql_params *params,
                     const struct simba__sql_turn *turn,
                     enum simba__sql_statement statement);

/** Are all of these hosts, with commas between, this very machine? */
bool simba__sql_is_local(const char *hosts);

/** The mutex that somebody here waits for, if it is only one; else NULL. */
const char *simba__sql_only_wish(const struct simba__sql *self);

/* --- between the files of the engine ------------------------------------- */

/* turn.c */
void simba__sql_turn_start(struct simba__sql_turn *turn);
void simba__sql_turn_answered(struct simba__sql_turn *turn,
                              const struct simba__sql_answer *answer);

/* reply.c */
void simba__sql_reply_fill(struct simba__sql_turn *turn);
/** The quick or the fast statement has done it. */
void simba__sql_reply_fast(struct simba__sql_turn *turn,
                           const struct simba__sql_rows *rows);

/* first.c */

/** One round trip, for what is uncontended; LOAD: it is not to be tried. */
enum simba__sql_statement simba__sql_first_try(
    const struct simba__sql_turn *turn);
/** Is its mutex not quiet? */
void simba__sql_mark_loud(const struct simba__sql_turn *turn, bool is_loud);
/** Is anybody in the queue for it? */
void simba__sql_mark_line(const struct simba__sql_turn *turn, bool has_line);

/* make.c */

/** How much of what ours has is known to be missing in simba_mutex. */
int simba__sql_missing(const struct simba__sql *self);
/** Has another turn learnt more of that since this one was sent? */
bool simba__sql_is_news(const struct simba__sql_turn *turn);
/** A column is missing. False: nothing more can be. */
bool simba__sql_note_missing(const struct simba__sql_turn *turn);
/** If it is known by now, or by these rows, that simba_mutex is of another make
 * than what was asked for, the turn begins anew, or ends: true. */
bool simba__sql_learn(struct simba__sql_turn *turn,
                      const struct simba__sql_rows *rows);

/* interest.c */
struct simba__sql_wish *simba__sql_wish_find(
    const struct simba__sql_wishes *all,
    const char *mutex);
/** Find it or make it; NULL: no memory. */
struct simba__sql_wish *simba__sql_wish_add(struct simba__sql_wishes *all,
                                            const char *mutex);
/** Unless somebody still wishes it. */
void simba__sql_wish_drop(struct simba__sql_wishes *all,
                          struct simba__sql_wish *wish);
void simba__sql_wish_each(const struct simba__sql *self,
                          void (*visit)(void *context,
                                        struct simba__sql_wish *wish),
                          void *context);
void simba__sql_wishes_fini(struct simba__sql *self);

/* waiters.c */

/** An acquire has been answered: in the queue. */
void simba__sql_waiter_note(const struct simba__sql_turn *turn);
/** Answer an acquire by what is known; false: ask the server. */
bool simba__sql_waiter_answer(struct simba__sql *self, simba_request *request);
/** It is in the queue no more, or will not be. */
void simba__sql_waiter_forget(struct simba__sql *self,
                              const simba_request *request);
/** Those whose places this heartbeat is to keep: attempts, with commas between;
 * to be freed. NULL: no memory. */
char *simba__sql_waiters_kept(const struct simba__sql *self);

/* beat.c */
void simba__sql_beat_plan(struct simba__sql *self);
void simba__sql_beat_fired(simba_timer *timer);
/** Somebody is in the queue anew, or still wants to be. */
void simba__sql_beat_asked(struct simba__sql *self,
                           const struct simba__sql_waiter *waiter,
                           const struct simba__sql_wish *wish);
void simba__sql_beaten(struct simba__sql_turn *turn,
                       const struct simba__sql_rows *rows);
void simba__sql_looked(struct simba__sql_turn *turn,
                       const struct simba__sql_rows *rows);
void simba__sql_beat_done(struct simba__sql *self, int status);

/** Hang up wherever nothing is under way, also at the bell: what is asked for
 * next may be served elsewhere. */
void simba__sql_session_leave(struct simba__sql *self,
                              const simba_error *error);

/* names.c */

/** Ask for the names of these hosts, then dial. */
void simba__sql_names_ask(struct simba__sql_session *session,
                          const char *hosts);
/** Do not dial. */
void simba__sql_names_cancel(struct simba__sql_session *session);

/* idle.c */

/** A session was opened: look after a while whether it is still needed. */
void simba__sql_idle_plan(struct simba__sql *self);
void simba__sql_idle_fired(simba_timer *timer);

/* edit.c */

/** One text for another. */
struct simba__sql_edit {
    const char *from, *to;
};

/** Make all changes, wherever they fit; the last has NULL. `room` is that of
 * the text. */
void simba__sql_edit(char *text,
                     size_t room,
                     const struct simba__sql_edit *edits);

/** In load.sql, for tables that have no tokens as far as is known: have they
 * any by now? In the inner query the name means the column of simba_mutex if
 * there is one, else that of `none`. */
#define SIMBA__SQL_ASK_FOR_TOKENS                                              \
    {"1 AS has_tokens",                                                        \
     "(SELECT CASE WHEN fencing_token = -1 THEN 0 ELSE 1 END "                 \
     "FROM simba_mutex n WHERE n.mutex = $1)"},                                \
    {                                                                          \
        "FROM simba_mutex m\nLEFT JOIN simba_tenure t ON t.mutex = $1",        \
            "FROM (SELECT -1 AS fencing_token) none CROSS JOIN simba_mutex m " \
            "LEFT JOIN simba_tenure t ON t.mutex = $1"                         \
    }

/* admin.c */
void simba__sql_listed(struct simba__sql_turn *turn,
                       const struct simba__sql_rows *rows);
/** The answer of glance.sql for the one mutex. True: it has an owner. */
bool simba__sql_glanced(struct simba__sql_turn *turn,
                        const struct simba__sql_rows *rows);
/** Add what one of the doctor's statements has found. */
void simba__sql_examined(struct simba__sql_turn *turn,
                         const struct simba__sql_rows *rows);
/** Statements for people; as simba_backend_ops has it. */
char *simba__sql_tell(const char *statements, simba_error *error);

/* queue.c */

void simba__sql_queues_init(struct simba__sql *self);
void simba__sql_queues_fini(struct simba__sql *self);
void simba__sql_turn_free(struct simba__sql_turn *turn);

/** The store is closed: end what nobody waits for any more, and free it. */
void simba__sql_turn_drop(struct simba__sql_turn *turn);

/** Complete the operation, and let its session go on with others. */
void simba__sql_turn_end(struct simba__sql_turn *turn,
                         int status,
                         const simba_error *error);
/** Give the session back and wait for the bell. */
void simba__sql_turn_park(struct simba__sql_turn *turn);
/** The bell is settled: parked operations begin anew. */
void simba__sql_unpark(struct simba__sql *self);
/** Complete all in a queue. */
void simba__sql_fail_all(struct simba__sql_queue *queue,
                         int status,
                         const simba_error *error);
/** Give waiting operations to sessions. */
void simba__sql_pump(struct simba__sql *self);

/* session.c */

/** An idle session, or NULL; a new one is opened then if that can help. */
struct simba__sql_session *simba__sql_session_get(struct simba__sql *self);
/** Hang up, and forget what was under way there. */
void simba__sql_session_close(struct simba__sql_session *session);
/** See to it that the bell is hung. */
void simba__sql_bell_start(struct simba__sql *self);
void simba__sql_bell_retry(simba_timer *timer);

#endif
