/* The SQLite store: mutexes of the processes of one machine, kept in one file.
 * README.md here tells how. Outside of this folder only the table is used.
 *
 * One thread at a time works on the database: the one that opens the store,
 * then its worker. What runs in the loop is marked. */
#ifndef SIMBA_SQLITE_H
#define SIMBA_SQLITE_H

#include "core/mutex_record.h"
#include "kit/log.h"
#include "kit/url.h"
#include "util/hash.h"

#include <simba/sys/backend.h>

#include <sqlite3.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

extern const simba_backend_ops simba__sqlite_ops;

enum {
    SIMBA__SQLITE_BOOT = 36,    /* the length of a boot id */
    SIMBA__SQLITE_PROCESS = 32, /* of a process's name: hexadecimal digits */
    SIMBA__SQLITE_ATTEMPT = 16, /* of an attempt in the tables, in bytes */
};

/* X(name, text) */
#define SIMBA__SQLITE_STATEMENTS(X)                                            \
    X(BEGIN, "BEGIN IMMEDIATE")                                                \
    X(BEGIN_READ, "BEGIN")                                                     \
    X(COMMIT, "COMMIT")                                                        \
    X(ROLLBACK, "ROLLBACK")                                                    \
    X(LOAD_MUTEX, SIMBA__SQL_LOAD_MUTEX)                                       \
    X(LOAD_QUEUE, SIMBA__SQL_LOAD_QUEUE)                                       \
    X(LOAD_BEFORE, SIMBA__SQL_LOAD_BEFORE)                                     \
    X(LOAD_TOMBSTONE, SIMBA__SQL_LOAD_TOMBSTONE)                               \
    X(STORE_MUTEX, SIMBA__SQL_STORE_MUTEX)                                     \
    X(STORE_TENURE, SIMBA__SQL_STORE_TENURE)                                   \
    X(STORE_WAITER, SIMBA__SQL_STORE_WAITER)                                   \
    X(SLOT_TABLE, SIMBA__SQL_SLOT_TABLE)                                       \
    X(LOAD_SLOTS, SIMBA__SQL_LOAD_SLOTS)                                       \
    X(STORE_SLOT, SIMBA__SQL_STORE_SLOT)                                       \
    X(DROP_SLOT, SIMBA__SQL_DROP_SLOT)                                         \
    X(CLEAR_SLOTS, SIMBA__SQL_CLEAR_SLOTS)                                     \
    X(FREE_SLOTS, SIMBA__SQL_FREE_SLOTS)                                       \
    X(ASK_TENURE, SIMBA__SQL_ASK_TENURE)                                       \
    X(DROP_WAITER, SIMBA__SQL_DROP_WAITER)                                     \
    X(DROP_STRANGERS, SIMBA__SQL_DROP_STRANGERS)                               \
    X(STORE_TOMBSTONE, SIMBA__SQL_STORE_TOMBSTONE)                             \
    X(DROP_TOMBSTONES, SIMBA__SQL_DROP_TOMBSTONES)                             \
    X(FREE_PROCESS, SIMBA__SQL_FREE_PROCESS)                                   \
    X(DROP_PROCESS, SIMBA__SQL_DROP_PROCESS)                                   \
    X(BREAK_TENURE, SIMBA__SQL_BREAK_TENURE)                                   \
    X(AUDIT_TABLE, SIMBA__SQL_AUDIT_TABLE)                                     \
    X(STORE_AUDIT, SIMBA__SQL_STORE_AUDIT)                                     \
    X(LIST_AUDIT, SIMBA__SQL_LIST_AUDIT)                                       \
    X(TOLD_TABLE, SIMBA__SQL_TOLD_TABLE)                                       \
    X(STORE_TOLD, SIMBA__SQL_STORE_TOLD)                                       \
    X(DROP_TOLD, SIMBA__SQL_DROP_TOLD)                                         \
    X(LIST_TOLD, SIMBA__SQL_LIST_TOLD)                                         \
    X(FIND_TABLE, SIMBA__SQL_FIND_TABLE)                                       \
    X(LIST_MUTEXES, SIMBA__SQL_LIST_MUTEXES)                                   \
    X(SIGHTING_TABLE, SIMBA__SQL_SIGHTING_TABLE)                               \
    X(LOAD_SIGHTING, SIMBA__SQL_LOAD_SIGHTING)                                 \
    X(STORE_SIGHTING, SIMBA__SQL_STORE_SIGHTING)                               \
    X(DROP_SIGHTINGS, SIMBA__SQL_DROP_SIGHTINGS)                               \
    X(LOAD_RESERVE, SIMBA__SQL_LOAD_RESERVE)                                   \
    X(STORE_RESERVE, SIMBA__SQL_STORE_RESERVE)                                 \
    X(STORE_FLUSHED, SIMBA__SQL_STORE_FLUSHED)                                 \
    X(BEGIN_LOG, SIMBA__SQL_BEGIN_LOG)

enum simba__sqlite_statement {
#define X(name, text) SIMBA__SQLITE_##name,
    SIMBA__SQLITE_STATEMENTS(X)
#undef X
        SIMBA__SQLITE_STATEMENT_COUNT
};

/* --- one open store ------------------------------------------------------ */

/* settings.c: what the URL says. */
struct simba__sqlite_settings {
    struct simba__url url;
    char *path;       /* as given, then canonical */
    char shown[161];  /* as much of it as fits into a message */
    bool is_trusted;  /* fs=trust: any file system will do, even a shared one */
    bool is_handover; /* our death frees what we own at once */
    bool is_full;     /* synchronous=full */
};

/* connection.c, durability.c */
struct simba__sqlite_db {
    sqlite3 *handle; /* NULL: not open */
    sqlite3_stmt *statements[SIMBA__SQLITE_STATEMENT_COUNT];
    int log_fd;           /* of the log; -1: SQLite flushes, or nobody does */
    int log_pages;        /* in the log, as of our last commit */
    bool is_log_doubtful; /* a flush of it has failed */
    int cut_pages; /* in a log that others must wait for, to be shortened */
    unsigned char attempt[SIMBA__SQLITE_ATTEMPT]; /* of the statement bound */
};

/* durability.c: tokens that can be given out without a flush. */
struct simba__sqlite_reserve {
    /* As this transaction has it. */
    uint64_t floor;
    uint64_t reserved;
    uint64_t flushed;
    bool is_ours; /* was written in this boot */

    uint64_t seen_flushed; /* by ourselves; need not be in the table yet */
    bool is_untold;        /* and is not */
};

/* The handle through which somebody owns or waits. A waiter's `connection` is
 * an index of these. */
struct simba__sqlite_peer {
    char process[SIMBA__SQLITE_PROCESS + 1];
    char boot[SIMBA__SQLITE_BOOT + 1];
    bool is_handover; /* of an owner with slots: its death frees its slot */
};

enum { SIMBA__SQLITE_SELF = 0, SIMBA__SQLITE_OWNER = 1 };

/* liveness.c: what is known of a process. */
enum simba__sqlite_life {
    SIMBA__SQLITE_ALIVE,
    SIMBA__SQLITE_DEAD,
    SIMBA__SQLITE_UNSURE,
};

/* record.c: one mutex, as the tables have it and as it is to be. */
struct simba__sqlite_record {
    int64_t now_ms;     /* the store's clock, read when the lock is held */
    bool is_owner_only; /* without the queue and the tombstone */
    struct simba__mutex_record before, after;

    /* Of the tenure, as it was. */
    int64_t version;
    int64_t lease_ms;
    bool is_handover;
    bool is_sighted; /* something was written of it */
    simba_owner row; /* the owner in simba_mutex, as it was */
    bool is_crowd;   /* and its tenures are in simba_slot */

    struct simba__sqlite_peer *peers;
    size_t peer_count, peer_room;

    /* The peers to notify after the commit: the one that is offered the mutex,
     * the second in the queue, and one behind a change that reaches nobody else
     * (request.c). */
    size_t wakes[3];
    size_t wake_count;

    /* Processes that were looked at for this request: each look is three calls
     * of the kernel, and those who wait are of few processes. */
    struct {
        char process[SIMBA__SQLITE_PROCESS + 1];
        enum simba__sqlite_life life;
    } seen[4];
    size_t seen_count;
};

/* liveness.c: a tenure of another boot, as long as we see it unchanged. */
struct simba__sqlite_sighting {
    struct simba__hash_link link; /* by mutex */
    uint64_t token;
    int64_t version;
    int64_t since_ms; /* by our clock */
    bool is_shared;   /* it is in the database, for others of this boot */
};

/* notify.c: a process that is in the way of waiters of this handle. */
struct simba__sqlite_obstacle {
    struct simba__hash_link link; /* by its name; "" is nobody's */
    size_t waiters;
    int wd;    /* the watch on its file, or -1 */
    int looks; /* left, to see whether it is really dead */
};

/* notify.c: a waiter of this handle. */
struct simba__sqlite_waiting {
    struct simba__hash_link link; /* by mutex */
    simba_attempt attempt;
    struct simba__sqlite_obstacle *obstacle; /* NULL: not known yet */
    int64_t lapses_ms; /* by our clock: forgotten if it did not ask since */
    bool is_head;      /* of the queue */
    bool is_due;       /* for a wake-up */
    bool is_shared;    /* it has slots */
};

struct simba__sqlite_watch {
    pthread_mutex_t lock;

    /* Under the lock. Entries come and go by the worker's hand only. */
    struct simba__hash waiting, obstacles;
    size_t due;       /* so many of the first are */
    size_t shared;    /* so many of them have slots */
    int64_t swept_ms; /* when the first were last looked through, for those
                       * that have lapsed */
    int fd;           /* inotify; -1 until somebody waits */
    int wake_fd;      /* our wake-up file */
    int wake_wd;
    int64_t wake_read;  /* how much of it */
    bool lacks_inotify; /* there was no descriptor or watch left */
    bool is_polling;    /* and therefore the loop makes up wake-ups */
    bool is_new;        /* the loop does not read fd yet; the worker's alone */

    /* The loop's alone. */
    simba_io readable;
    simba_timer again;
    simba_timer poll;
    bool is_detached;
};

/* observers.c: a mutex that somebody of this handle observes. */
struct simba__sqlite_observed {
    struct simba__sqlite_observed *next;
    bool is_wanted;
    bool is_due;  /* for a made-up wake-up; the loop's alone */
    bool is_open; /* our file is there; the worker's alone */
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

struct simba__sqlite_observers {
    _Atomic bool is_unsettled; /* what is wanted and what is there differ */
    pthread_mutex_t lock;      /* guards the list */
    struct simba__sqlite_observed *first;
    bool lacks_wake_file; /* there is no inotify; the worker's alone */

    /* The loop's alone. */
    simba_timer again;
    bool is_detached;
};

/* file.c: a database that was open in the parent of a forked process. */
struct simba__sqlite_inherited {
    struct stat file;
    struct simba__sqlite_inherited *next;
};

struct simba__sqlite {
    simba_backend base;
    struct simba__log log;
    struct simba__sqlite_settings settings;
    simba_backend_ops trusted; /* the table with fs=trust: less is offered */
    simba_worker *worker;
    bool is_absent; /* there is no file, and only the doctor may come */
    struct simba__sqlite_inherited inherited; /* used in a forked child */

    int64_t clock_offset_ns; /* of this process's time namespace */
    char boot[SIMBA__SQLITE_BOOT + 1];

    int dir_fd;  /* the directory beside the database */
    int life_fd; /* our file there, locked for as long as we live */
    char process[SIMBA__SQLITE_PROCESS + 1]; /* its name, and ours */

    struct simba__sqlite_watch watch;
    struct simba__sqlite_observers observers;

    /* The worker's alone. */
    struct simba__sqlite_db db;
    struct simba__sqlite_record record;
    struct simba__sqlite_reserve reserve;
    struct simba__hash sightings;
    bool has_dead; /* a process was found dead, with rows and files left */
    bool is_poll_logged; /* it was logged that waiters poll */
};

/* --- sqlite.c ------------------------------------------------------------ */

/** Nobody made the file yet, and looking makes none. */
int simba__sqlite_fail_absent(const struct simba__sqlite *self,
                              simba_error *error);

/* --- settings.c ---------------------------------------------------------- */

/**
 * Read what follows "sqlite:" in a URL.
 *
 * @param[out] settings  to be given to simba__sqlite_settings_fini(), also
 *                       after a failure
 * @return SIMBA_OK, SIMBA_EINVAL or SIMBA_ENOMEM
 */
int simba__sqlite_settings_init(struct simba__sqlite_settings *settings,
                                const char *rest,
                                simba_error *error);

void simba__sqlite_settings_fini(struct simba__sqlite_settings *settings);
/** As simba_backend_ops has it. */
char *simba__sqlite_help(void);

/** Replace the path; takes it over. It came from malloc(). */
void simba__sqlite_settings_take_path(struct simba__sqlite_settings *settings,
                                      char *path);

/* --- file.c: where the database lies ------------------------------------- */

/**
 * Make sure that the file exists, for us alone when we made it, that nothing
 * else stands in its place, and that its file system keeps the promises SQLite
 * and our locks need. Makes the path canonical.
 *
 * @return SIMBA_OK, SIMBA_EDENIED, SIMBA_EMISCONFIG, SIMBA_EUNAVAIL,
 *         SIMBA_ENOMEM
 */
int simba__sqlite_file_prepare(struct simba__sqlite_settings *settings,
                               simba_error *error);

/** The name of the file system, static; "unknown" when it is not listed.
 *
 * @param[out] is_local  whether it is one that belongs to one kernel.
 *     If not, and trusted by the user, it may be shared between machines */
const char *simba__sqlite_file_system(const char *path, bool *is_local);

/** What a failed system call means: denied, disk full, or else. */
int simba__sqlite_errno_code(int errno_value);

/** The same in words, static. */
const char *simba__sqlite_errno_words(int errno_value);

/** Both as an error, of what has just failed. */
int simba__sqlite_fail_errno(const struct simba__sqlite_settings *settings,
                             const char *what,
                             simba_error *error);

/** In a forked child: close the descriptors behind SQLite's back, and remember
 * the file. The entry must stay. */
void simba__sqlite_file_forked(const struct simba__sqlite_settings *settings,
                               struct simba__sqlite_inherited *entry);

/** Was this database open in the parent when this process was forked? */
bool simba__sqlite_file_is_inherited(
    const struct simba__sqlite_settings *settings);

/* --- connection.c: statements, transactions, schema ---------------------- */

/**
 * Connect, and make or check the schema. The file exists.
 *
 * @param deadline_ms  boot clock; how long to wait for others, but no longer
 *                     than a second while nobody else commits
 * @return SIMBA_OK, SIMBA_EDENIED, SIMBA_EMISCONFIG, SIMBA_EUNAVAIL,
 *         SIMBA_ENOMEM
 */
int simba__sqlite_connect(struct simba__sqlite *self,
                          int64_t deadline_ms,
                          simba_error *error);

/** Disconnect. Leaves the log to whoever writes next. */
void simba__sqlite_disconnect(struct simba__sqlite *self);

/** Begin to write (SIMBA__SQLITE_BEGIN), once nobody else does, or to read
 * (SIMBA__SQLITE_BEGIN_READ). */
int simba__sqlite_begin(struct simba__sqlite *self,
                        enum simba__sqlite_statement which,
                        int64_t deadline_ms,
                        simba_error *error);

/** Others see it then, but a loss of power may undo it: see
 * simba__sqlite_wal_flush().
 *
 * @return also SIMBA_EUNKNOWN, when it may be found committed later */
int simba__sqlite_commit(struct simba__sqlite *self,
                         int64_t deadline_ms,
                         simba_error *error);

/** End the transaction, if there is one, without effect. */
void simba__sqlite_rollback(struct simba__sqlite *self);

/** A statement to step, with its parameters bound in their order: `types` has a
 * letter for each, n for an int64_t, t for a text that lives until then, a for
 * a simba_attempt. NULL: `error` says why there is none. */
sqlite3_stmt *simba__sqlite_prepare(struct simba__sqlite *self,
                                    enum simba__sqlite_statement which,
                                    simba_error *error,
                                    const char *types,
                                    ...);

/** Likewise, and run it: it gives no rows. */
int simba__sqlite_execute(struct simba__sqlite *self,
                          enum simba__sqlite_statement which,
                          simba_error *error,
                          const char *types,
                          ...);

/** What a result code of SQLite means, in our codes and words. SQLITE_DONE is
 * SIMBA_OK. */
int simba__sqlite_result(const struct simba__sqlite *self,
                         int rc,
                         simba_error *error);

/** Does this result code of SQLite mean that others are in the way? */
bool simba__sqlite_is_busy(int rc);

/** Somebody else is writing: sleep a little, longer after many tries. False
 * after the deadline. */
bool simba__sqlite_nap(int64_t deadline_ms, unsigned tries);

/** What is run on an empty file, or with `upgrade` on an older one; as
 * simba_backend_ops has it. */
char *simba__sqlite_schema_text(const simba_backend_config *config,
                                bool upgrade,
                                simba_error *error);

/* --- durability.c: the log ----------------------------------------------- */

/** A part of simba__sqlite_connect(). */
int simba__sqlite_wal_open(struct simba__sqlite *self, simba_error *error);

/** What was committed stays from now on, whatever happens to the power.
 *
 * @return SIMBA_OK or SIMBA_EUNKNOWN */
int simba__sqlite_wal_flush(struct simba__sqlite *self, simba_error *error);

/* The log is not copied back when a store is closed, and whoever opens the
 * database next reads it through: keep it short. Where nobody ever releases or
 * renews, acquires must do it. */
enum { SIMBA__SQLITE_LOG_PAGES = 64, SIMBA__SQLITE_LOG_PAGES_MOST = 512 };

/** The log has become long: copy it back. Between transactions. */
void simba__sqlite_wal_shorten(struct simba__sqlite *self);

/* --- durability.c: tokens that need no flush ----------------------------- */

/** Read it. Within a transaction, before a token is chosen: that must be above
 * `floor`. */
int simba__sqlite_reserve_load(struct simba__sqlite *self, simba_error *error);

/**
 * This token is to be given out: take care that no later boot gives it again.
 * Within the transaction that loaded.
 *
 * @param[out] is_changed  set when something was written
 */
int simba__sqlite_reserve_cover(struct simba__sqlite *self,
                                uint64_t token,
                                bool *is_changed,
                                simba_error *error);

/** Flush, once that is committed, if this token needs it. */
int simba__sqlite_reserve_flush(struct simba__sqlite *self,
                                uint64_t token,
                                simba_error *error);

/** Tell the others what we have flushed, in a transaction that writes anyway.
 * Once that is committed, clear reserve.is_untold. */
int simba__sqlite_reserve_tell(struct simba__sqlite *self, simba_error *error);

/* --- clock.c: the boot, and request.c: the time since then --------------- */

/** @return SIMBA_OK, or SIMBA_EMISCONFIG where the kernel does not tell */
int simba__sqlite_clock_init(struct simba__sqlite *self, simba_error *error);

/** Milliseconds since boot, rounded down: the store's time. */
int64_t simba__sqlite_now_ms(const struct simba__sqlite *self);

/** Microseconds since 1970: for tokens only, never for leases. */
uint64_t simba__sqlite_wall_us(void);

/* --- liveness.c: who is dead --------------------------------------------- */

/**
 * Make the directory if need be, and our file in it. Again, after the
 * directory was deleted, keeps the name and the number of life_fd.
 */
int simba__sqlite_life_open(struct simba__sqlite *self, simba_error *error);

/** Take our files away. */
void simba__sqlite_life_close(struct simba__sqlite *self);

/** In a forked child: close the descriptors and nothing else. */
void simba__sqlite_life_forked(struct simba__sqlite *self);

/** Is the process of this name alive? We ourselves are. */
enum simba__sqlite_life simba__sqlite_life_of(const struct simba__sqlite *self,
                                              const char *process);

/** The same, as it was when this request asked first. */
enum simba__sqlite_life simba__sqlite_life_seen(struct simba__sqlite *self,
                                                const char *process);

/** Do so many processes use the database that they hinder each other? */
bool simba__sqlite_is_crowded(const struct simba__sqlite *self);

/** Is this how processes are named? */
bool simba__sqlite_is_process(const char *name);

/** Give a new file the owner and the mode of the directory, as far as we can.
 */
void simba__sqlite_share(const struct simba__sqlite *self, int fd);

/**
 * Correct the loaded record by what the kernel knows: the mutex is free when
 * its owner is dead or of an earlier boot, and nobody dead has an offer. A part
 * of simba__sqlite_record_load().
 *
 * Of a tenure whose life nobody can know it keeps since when it is seen.
 */
int simba__sqlite_correct(struct simba__sqlite *self,
                          const char *mutex,
                          simba_error *error);

/** Take away what dead processes have left, rows and files. */
void simba__sqlite_remove_dead(struct simba__sqlite *self);

/* --- notify.c: wake-ups -------------------------------------------------- */

/** A line in a wake-up file is the name of a mutex to ask for. One that begins
 * with a tab tells observers of a change of owner; tabs divide its parts, for
 * no name and no id contains one. */
#define SIMBA__SQLITE_CHANGED '\t'

/** The longest line: a change, with both names and five numbers. */
enum { SIMBA__SQLITE_LINE = SIMBA_MUTEX_MAX_BYTES + SIMBA_ID_MAX + 128 };

/** Append a line to a process's wake-up file. May fail silently. */
void simba__sqlite_notify(const struct simba__sqlite *self,
                          const char *process,
                          const char *line);

/** The name of a process's wake-up file in the directory. */
void simba__sqlite_wake_name(const char *process, char *name);
enum { SIMBA__SQLITE_WAKE_NAME = SIMBA__SQLITE_PROCESS + 6 };

/** After the loop has ended. */
void simba__sqlite_watch_fini(struct simba__sqlite *self);

/** Inside the loop: no wake-up after this. */
void simba__sqlite_watch_detach(struct simba__sqlite *self);

/** In a forked child: close the descriptors and nothing else. */
void simba__sqlite_watch_forked(struct simba__sqlite *self);

/**
 * The worker, within the transaction: this request was refused because of that
 * process ("": because of none that is to be watched); is_head: nobody alive
 * stands before it in the queue.
 *
 * @return false when wake-ups are not to be had, and it must poll
 */
bool simba__sqlite_watch_wait(struct simba__sqlite *self,
                              const simba_request *request,
                              const char *process,
                              bool is_head);

/** The worker: make our wake-up file, if it is not there, and listen.
 *
 * @return false when it cannot be */
bool simba__sqlite_watch_start(struct simba__sqlite *self);

/** The worker: does this attempt wait, or may it, as far as this handle knows?
 */
bool simba__sqlite_watch_has(struct simba__sqlite *self,
                             const simba_request *request);

/** The worker: this attempt waits no more. */
void simba__sqlite_watch_forget(struct simba__sqlite *self,
                                const simba_request *request);

/** The worker: the directory was made anew. */
void simba__sqlite_watch_renew(struct simba__sqlite *self);

/* --- observers.c: who only watches --------------------------------------- */

/** Inside the loop: no wake-up after this. */
void simba__sqlite_observers_detach(struct simba__sqlite *self);

/** Observe nothing any more. While the directory is still open, after the
 * worker. */
void simba__sqlite_observers_fini(struct simba__sqlite *self);

/** The loop: observe this mutex, or no more; as simba_backend_ops has it. */
void simba__sqlite_observe(simba_backend *base,
                           const char *mutex,
                           enum simba_subscription subscription);

/** The worker, before a request, if is_unsettled or lacks_wake_file: do what is
 * wanted. */
void simba__sqlite_observers_settle(struct simba__sqlite *self);

/** The worker: the directory was made anew, without our files. */
void simba__sqlite_observers_renew(struct simba__sqlite *self);

/** The worker: by this request, as its reply says, the owner has changed. Tells
 * the observers, and takes away the files of dead ones. */
void simba__sqlite_observers_notify(const struct simba__sqlite *self,
                                    const simba_request *request);

/** The loop: a line about a change, without the first tab; taken apart. */
void simba__sqlite_observers_tell(const struct simba__sqlite *self, char *line);

/* --- record.c: one mutex between the tables and the model ---------------- */

void simba__sqlite_record_fini(struct simba__sqlite_record *record);

/** Read the mutex of a request, and correct it by who is dead. Within a
 * transaction, after record.now_ms was set. */
int simba__sqlite_record_load(struct simba__sqlite *self,
                              const simba_request *request,
                              bool is_owner_only,
                              simba_error *error);

/**
 * Write what is new. Within a transaction.
 *
 * @param[out] is_changed  whether anything was
 */
int simba__sqlite_record_store(struct simba__sqlite *self,
                               const simba_request *request,
                               bool *is_changed,
                               simba_error *error);

/* --- request.c, admin.c, doctor.c ---------------------------------------- */

/** Carry out one request; for simba_worker_open(). */
int simba__sqlite_serve(void *self, simba_request *request, simba_error *error);

/** What the model asks of the store, and says to it. */
struct simba__mutex_host simba__sqlite_host(struct simba__sqlite *self);

/** Tell all owners of the record at hand if they are several. */
void simba__sqlite_add_owners(const struct simba__sqlite *self,
                              simba_request *request,
                              uint32_t owned);

/** Carry out a list. */
int simba__sqlite_list(struct simba__sqlite *self,
                       simba_request *request,
                       simba_error *error);

/** What owners tell, or which tenures were broken. */
int simba__sqlite_notes(struct simba__sqlite *self,
                        simba_request *request,
                        simba_error *error);
int simba__sqlite_tell(struct simba__sqlite *self,
                       const simba_request *request,
                       simba_error *error);

/** The loaded record says that a tenure was ended by force: say so in the
 * tables it does not cover. Within a transaction, before
 * simba__sqlite_record_store(). */
int simba__sqlite_break(struct simba__sqlite *self,
                        const simba_request *request,
                        simba_error *error);

/** Log it, when it is committed. */
void simba__sqlite_log_break(struct simba__sqlite *self,
                             const simba_request *request);

/** Tell what this store, set up as it is, can and cannot promise. */
int simba__sqlite_doctor(struct simba__sqlite *self, simba_request *request);

#endif
