/* The connection to the database: statements, transactions, the schema, and who
 * is in the way. */
#define _GNU_SOURCE
#include "backends/sqlite/schema.h"
#include "backends/sqlite/sqlite.h"
#include "backends/sqlite/statements.h"

#include "util/file.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

/* SQLite's own busy handler backs off to steps of 100 ms. These naps keep the
 * delay of a writer near the length of one transaction. They grow only when so
 * many processes want to write that their tries alone would load the machine.
 */
enum { NAP_LEAST_US = 50, NAP_SPAN_US = 450, NAP_DOUBLINGS = 8 };
enum { TRIES_PER_SPAN = 8 };

/* One of our transactions takes a moment. If the database stays locked for
 * longer and nobody commits meanwhile, a request does not wait for the one who
 * locked it, but names him. */
enum { STUCK_MS = 1000 };

/* --- failures ------------------------------------------------------------ */

int simba__sqlite_result(const struct simba__sqlite *self,
                         int rc,
                         simba_error *error)
{
    static const struct {
        int rc;
        int code;
        const char *words;
    } known[] = {
        {SQLITE_BUSY, SIMBA_EUNAVAIL, "busy: others are writing"},
        {SQLITE_LOCKED, SIMBA_EUNAVAIL, "busy: others are writing"},
        {SQLITE_PROTOCOL, SIMBA_EUNAVAIL, "busy: others are opening it"},
        {SQLITE_FULL, SIMBA_EUNAVAIL, "disk full"},
        {SQLITE_NOTADB, SIMBA_EMISCONFIG, "is not an SQLite database"},
        {SQLITE_CORRUPT, SIMBA_EMISCONFIG, "the database is corrupt"},
        {SQLITE_FORMAT, SIMBA_EMISCONFIG, "the database is corrupt"},
        {SQLITE_READONLY, SIMBA_EDENIED, "may be read but not written"},
        {SQLITE_PERM, SIMBA_EDENIED, "may not be opened"},
        {SQLITE_AUTH, SIMBA_EDENIED, "may not be opened"},
        {SQLITE_NOMEM, SIMBA_ENOMEM, "out of memory"},
    };
    int why;

    if (rc == SQLITE_OK || rc == SQLITE_DONE) {
        return SIMBA_OK;
    }
    if (rc == SQLITE_CONSTRAINT_NOTNULL) {
        rc = SQLITE_NOMEM; /* what we bind is NULL only for want of memory */
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].rc == (rc & 0xff)) {
            return simba_error_set(error, known[i].code, rc, "sqlite %s: %s",
                                   self->settings.shown, known[i].words);
        }
    }
    if ((rc & 0xff) != SQLITE_IOERR && (rc & 0xff) != SQLITE_CANTOPEN) {
        return simba_error_set(error, SIMBA_EMISCONFIG, rc, "sqlite %s: %s",
                               self->settings.shown,
                               sqlite3_errmsg(self->db.handle));
    }
    why = sqlite3_system_errno(self->db.handle);
    if (why == 0) {
        return simba_error_set(error, SIMBA_EUNAVAIL, rc, "sqlite %s: %s",
                               self->settings.shown, sqlite3_errstr(rc));
    }
    /* A file that vanished under us is not a matter of configuration. */
    return simba_error_set(
        error, why == ENOENT ? SIMBA_EUNAVAIL : simba__sqlite_errno_code(why),
        rc, "sqlite %s: %s: %s", self->settings.shown, sqlite3_errstr(rc),
        simba__sqlite_errno_words(why));
}

bool simba__sqlite_is_busy(int rc)
{
    rc &= 0xff;
    return rc == SQLITE_BUSY || rc == SQLITE_LOCKED || rc == SQLITE_PROTOCOL;
}

bool simba__sqlite_nap(int64_t deadline_ms, unsigned tries)
{
    unsigned doublings = tries / TRIES_PER_SPAN;
    /* Hundreds of processes that look every few milliseconds leave no CPU to
     * the one that has the lock. */
    long span = NAP_SPAN_US
                << (doublings < NAP_DOUBLINGS ? doublings : NAP_DOUBLINGS);
    struct timespec nap = {0, 0};

    if (simba_loop_now_ms() >= deadline_ms) {
        return false;
    }
    /* Processes that woke up together must not come back together; the
     * nanoseconds of a clock are random enough for that. */
    clock_gettime(CLOCK_MONOTONIC, &nap);
    nap.tv_sec = 0;
    nap.tv_nsec = (NAP_LEAST_US + nap.tv_nsec / 64 % span) * 1000L;
    nanosleep(&nap, NULL);
    return true;
}

/* Returns the process that has a part of this file locked for writing; 0: not
 * to be seen. It reads /proc/locks, because fcntl() would need a descriptor of
 * our own, and closing that would let go of SQLite's locks. */
static int find_lock_holder(const char *database, const char *suffix)
{
    char path[4096], line[256], kind[16], mode[16];
    unsigned long inode;
    unsigned device[2];
    struct stat file;
    FILE *locks;
    int pid, holder = 0;

    snprintf(path, sizeof path, "%s%s", database, suffix);
    locks = stat(path, &file) == 0 ? fopen("/proc/locks", "re") : NULL;
    while (locks != NULL && holder == 0 &&
           fgets(line, sizeof line, locks) != NULL) {
        /* NOLINTNEXTLINE(cert-err34-c): the kernel writes numbers that fit */
        if (sscanf(line, "%*d: %15s %*s %15s %d %x:%x:%lu", kind, mode, &pid,
                   &device[0], &device[1], &inode) == 6 &&
            strcmp(kind, "POSIX") == 0 && strcmp(mode, "WRITE") == 0 &&
            pid > 0 && pid != getpid() && inode == file.st_ino &&
            device[0] == major(file.st_dev) &&
            device[1] == minor(file.st_dev)) {
            holder = pid;
        }
    }
    if (locks != NULL) {
        fclose(locks);
    }
    return holder;
}

/* The database was locked for too long: the message says by whom. */
static int fail_locked(const struct simba__sqlite *self,
                       int rc,
                       simba_error *error)
{
    char path[64], name[32] = "a program";
    int pid = 0;
    FILE *file;

    /* The kernel stops all locking while it tells of the locks: hundreds of
     * processes of ours that ask for them would bring each other down. */
    if (!simba__sqlite_is_crowded(self)) {
        pid = find_lock_holder(self->settings.path, "-shm");
        pid = pid != 0 ? pid : find_lock_holder(self->settings.path, "");
    }
    if (pid == 0) {
        return simba_error_set(error, SIMBA_EUNAVAIL, rc,
                               "sqlite %s: kept locked by another program",
                               self->settings.shown);
    }
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    file = fopen(path, "re");
    if (file != NULL && fgets(name, sizeof name, file) != NULL) {
        name[strcspn(name, "\n")] = '\0';
    }
    if (file != NULL) {
        fclose(file);
    }
    return simba_error_set(error, SIMBA_EUNAVAIL, rc,
                           "sqlite %s: kept locked by %s, process %d",
                           self->settings.shown, name, pid);
}

/* --- statements ---------------------------------------------------------- */

static sqlite3_stmt *prepare(struct simba__sqlite *self,
                             enum simba__sqlite_statement which,
                             simba_error *error)
{
    static const char *const texts[] = {
#define X(name, text) text,
        SIMBA__SQLITE_STATEMENTS(X)
#undef X
    };
    sqlite3_stmt **statement = &self->db.statements[which];

    assert(self->db.handle != NULL);
    if (*statement == NULL) {
        int rc = sqlite3_prepare_v3(self->db.handle, texts[which], -1,
                                    SQLITE_PREPARE_PERSISTENT, statement, NULL);

        (void)simba__sqlite_result(self, rc, error);
    }
    return *statement;
}

/* The bytes of an attempt lie in the store until the statement was stepped.
 * SQLite's own copy could fail for want of memory; then NULL would be bound,
 * which no tombstone equals. */
static void bind(struct simba__sqlite_db *db,
                 sqlite3_stmt *statement,
                 const char *types,
                 va_list values)
{
    simba_attempt attempt;

    for (int i = 1; statement != NULL && *types != '\0'; i++, types++) {
        if (*types == 'n') {
            sqlite3_bind_int64(statement, i, va_arg(values, int64_t));
        } else if (*types == 't') {
            sqlite3_bind_text(statement, i, va_arg(values, const char *), -1,
                              SQLITE_STATIC);
        } else {
            assert(*types == 'a');
            attempt = va_arg(values, simba_attempt);
            for (int j = 7; j >= 0; j--) { /* big endian */
                db->attempt[j] = (unsigned char)attempt.high;
                db->attempt[8 + j] = (unsigned char)attempt.low;
                attempt.high >>= 8;
                attempt.low >>= 8;
            }
            sqlite3_bind_blob(statement, i, db->attempt, sizeof db->attempt,
                              SQLITE_STATIC);
        }
    }
}

sqlite3_stmt *simba__sqlite_prepare(struct simba__sqlite *self,
                                    enum simba__sqlite_statement which,
                                    simba_error *error,
                                    const char *types,
                                    ...)
{
    sqlite3_stmt *statement = prepare(self, which, error);
    va_list values;

    va_start(values, types);
    bind(&self->db, statement, types, values);
    va_end(values);
    return statement;
}

int simba__sqlite_execute(struct simba__sqlite *self,
                          enum simba__sqlite_statement which,
                          simba_error *error,
                          const char *types,
                          ...)
{
    sqlite3_stmt *statement = prepare(self, which, error);
    va_list values;
    int rc;

    va_start(values, types);
    bind(&self->db, statement, types, values);
    va_end(values);
    if (statement == NULL) {
        return error->code;
    }
    rc = sqlite3_step(statement);
    sqlite3_reset(statement);
    return simba__sqlite_result(self, rc, error);
}

/* --- transactions -------------------------------------------------------- */

/* Repeats a statement while others keep it from running; returns SQLite's code.
 * The data version changes when others have committed. If nobody commits for
 * STUCK_MS, somebody has locked the database and does not let go. */
static int step_when_free(struct simba__sqlite *self,
                          sqlite3_stmt *statement,
                          int64_t deadline_ms)
{
    sqlite3 *handle = self->db.handle;
    int64_t stuck_ms = simba_loop_now_ms() + STUCK_MS;
    unsigned before = 0, now = 0, tries = 0;
    int rc;

    sqlite3_file_control(handle, "main", SQLITE_FCNTL_DATA_VERSION, &before);
    do {
        rc = sqlite3_step(statement);
        sqlite3_reset(statement);
        sqlite3_file_control(handle, "main", SQLITE_FCNTL_DATA_VERSION, &now);
        if (now != before) {
            before = now;
            stuck_ms = simba_loop_now_ms() + STUCK_MS;
        }
    } while (simba__sqlite_is_busy(rc) &&
             simba__sqlite_nap(stuck_ms < deadline_ms ? stuck_ms : deadline_ms,
                               tries++));
    return rc;
}

int simba__sqlite_begin(struct simba__sqlite *self,
                        enum simba__sqlite_statement which,
                        int64_t deadline_ms,
                        simba_error *error)
{
    int64_t stuck_ms = simba_loop_now_ms() + STUCK_MS;
    sqlite3_stmt *statement;
    int rc;

    assert(which == SIMBA__SQLITE_BEGIN || which == SIMBA__SQLITE_BEGIN_READ);
    simba__sqlite_rollback(self); /* only if something went wrong */
    statement = simba__sqlite_prepare(self, which, error, "");
    if (statement == NULL) {
        return error->code;
    }
    rc = step_when_free(self, statement, deadline_ms);
    if (simba__sqlite_is_busy(rc) && simba_loop_now_ms() >= stuck_ms) {
        return fail_locked(self, rc, error);
    }
    return simba__sqlite_result(self, rc, error);
}

/* Busy, and full before the last page was written, are sure to have no effect
 * once rolled back. After any other failure the pages may be in the log, and
 * the next process that recovers it may take them for committed. */
int simba__sqlite_commit(struct simba__sqlite *self,
                         int64_t deadline_ms,
                         simba_error *error)
{
    sqlite3_stmt *statement =
        simba__sqlite_prepare(self, SIMBA__SQLITE_COMMIT, error, "");
    int rc, code;

    assert(!sqlite3_get_autocommit(self->db.handle));
    if (statement == NULL) {
        simba__sqlite_rollback(self);
        return error->code;
    }
    rc = step_when_free(self, statement, deadline_ms);
    if (rc == SQLITE_DONE) {
        return SIMBA_OK;
    }
    code = simba__sqlite_result(self, rc, error);
    simba__sqlite_rollback(self);
    if (!simba__sqlite_is_busy(rc) && (rc & 0xff) != SQLITE_FULL) {
        code = error->code = SIMBA_EUNKNOWN;
    }
    return code;
}

void simba__sqlite_rollback(struct simba__sqlite *self)
{
    simba_error ignored;

    if (!sqlite3_get_autocommit(self->db.handle)) {
        (void)simba__sqlite_execute(self, SIMBA__SQLITE_ROLLBACK, &ignored, "");
    }
}

/* --- the schema ---------------------------------------------------------- */

/* As schema.sql says. */
enum { APPLICATION = 0x536D6261, VERSION = 3 };

/* Small pages, for every commit writes two or three of them. The size can be
 * chosen in an empty file only.
 *
 * The write-ahead log needs memory shared by all who use the file. Between
 * machines there is none, so where the file system is only trusted, the slower
 * rollback journal is used, which needs working locks and nothing else. */
#define SCHEMA         SIMBA__SQL_RESERVE_TABLE SIMBA__SQL_TABLES
#define LOCAL_JOURNAL  "PRAGMA page_size=1024;\nPRAGMA journal_mode=WAL;\n"
#define SHARED_JOURNAL "PRAGMA page_size=1024;\nPRAGMA journal_mode=DELETE;\n"

/* Half of what SQLite would keep of the pages it has read, in KiB. With 10,000
 * mutexes at work that costs no more than 2 % of the CPU time. */
#define CACHE "PRAGMA cache_size=-1000"

/* A process of an older version that has the file open already goes on using
 * it. What it writes is right for us, too: it flushes each of its tokens. After
 * a reboot no such process opens the file any more. */
#define TO_SECOND                                                              \
    "ALTER TABLE simba_tenure ADD COLUMN former INTEGER NOT NULL DEFAULT 0;"
#define TO_THIRD SIMBA__SQL_RESERVE_TABLE "PRAGMA user_version = 3"
#define TO_LATEST                                                              \
    "ALTER TABLE simba_tenure ADD COLUMN asked TEXT NOT NULL DEFAULT '';"      \
    "ALTER TABLE simba_line ADD COLUMN slots INTEGER NOT NULL DEFAULT 0;"      \
    "ALTER TABLE simba_line ADD COLUMN rank INTEGER NOT NULL DEFAULT 0"

enum found {
    FOUND_OURS,
    FOUND_FIRST, /* an older version */
    FOUND_SECOND,
    FOUND_THIRD, /* this version, but without what it got later */
    FOUND_EMPTY,
    FOUND_BUSY,
    FOUND_BAD /* `error` says what is wrong */
};

struct facts {
    int values[3]; /* application id, version, number of tables and indexes */
    int count;
};

static int take_fact(void *argument, int count, char **values, char **names)
{
    struct facts *facts = argument;

    (void)names;
    if (count == 1 && facts->count < 3) {
        facts->values[facts->count++] =
            values[0] == NULL ? 0 : (int)strtol(values[0], NULL, 10);
    }
    return 0;
}

static enum found run(struct simba__sqlite *self,
                      const char *text,
                      struct facts *facts,
                      simba_error *error)
{
    int rc;

    if (facts != NULL) {
        *facts = (struct facts){{0, 0, 0}, 0};
    }
    rc = sqlite3_exec(self->db.handle, text, facts == NULL ? NULL : take_fact,
                      facts, NULL);
    if (simba__sqlite_result(self, rc, error) == SIMBA_OK) {
        return FOUND_OURS;
    }
    return simba__sqlite_is_busy(rc) ? FOUND_BUSY : FOUND_BAD;
}

/* What is in the file. Plain pragmas: the same in one SELECT takes thrice as
 * long, and every start of a program pays it. When they do not say that all is
 * well, look again, at one state of the file: somebody may be making it at this
 * moment. */
static enum found look(struct simba__sqlite *self, simba_error *error)
{
    struct facts facts;
    enum found found =
        run(self, "PRAGMA application_id; PRAGMA user_version", &facts, error);

    if (found == FOUND_OURS && facts.values[0] != APPLICATION) {
        found = run(self,
                    "SAVEPOINT look; PRAGMA application_id;"
                    "PRAGMA user_version; SELECT count(*) FROM sqlite_schema;"
                    "RELEASE look",
                    &facts, error);
    }
    if (found != FOUND_OURS) {
        simba__sqlite_rollback(self);
        return found;
    }
    if (facts.values[0] == 0 && facts.values[1] == 0 && facts.values[2] == 0) {
        return FOUND_EMPTY;
    }
    if (facts.values[0] != APPLICATION) {
        simba_error_set(error, SIMBA_EMISCONFIG, 0,
                        "sqlite %s: is the database of another program",
                        self->settings.shown);
        return FOUND_BAD;
    }
    if (facts.values[1] > VERSION) {
        simba_error_set(
            error, SIMBA_EMISCONFIG, 0,
            "sqlite %s: made by a newer simba (schema %d, known is %d): "
            "update this one, or name another file",
            self->settings.shown, facts.values[1], VERSION);
        return FOUND_BAD;
    }
    if (facts.values[1] == VERSION) {
        /* The statement is needed anyway, and prepared but once. */
        sqlite3_stmt *row = simba__sqlite_prepare(
            self, SIMBA__SQLITE_LOAD_MUTEX, error, "t", "");

        sqlite3_reset(row);
        return row != NULL                              ? FOUND_OURS
               : (error->native & 0xff) == SQLITE_ERROR ? FOUND_THIRD
               : simba__sqlite_is_busy(error->native)   ? FOUND_BUSY
                                                        : FOUND_BAD;
    }
    return facts.values[1] == 2 ? FOUND_SECOND : FOUND_FIRST;
}

/* Two processes may open such a file at once. The second to get the lock finds
 * that all is done, or has to look again. */
static enum found change(struct simba__sqlite *self,
                         enum found from,
                         const char *text,
                         simba_error *error)
{
    enum found found = run(self, "BEGIN IMMEDIATE", NULL, error);

    if (found != FOUND_OURS) {
        return found;
    }
    found = look(self, error);
    if (found == from) {
        found = run(self, text, NULL, error);
    } else if (found != FOUND_OURS && found != FOUND_BAD) {
        found = FOUND_BUSY;
        (void)simba__sqlite_result(self, SQLITE_BUSY, error);
    }
    if (found == FOUND_OURS) {
        found = run(self, "COMMIT", NULL, error);
    }
    simba__sqlite_rollback(self);
    return found;
}

static int ensure_schema(struct simba__sqlite *self,
                         int64_t deadline_ms,
                         simba_error *error)
{
    int64_t stuck_ms = simba_loop_now_ms() + STUCK_MS;
    enum found found, before;
    unsigned tries = 0;
    bool is_local;

    do {
        before = found = look(self, error);
        if (found == FOUND_EMPTY ||
            (found == FOUND_OURS && self->settings.is_trusted)) {
            simba__sqlite_file_system(self->settings.path, &is_local);
            found = run(self, is_local ? LOCAL_JOURNAL : SHARED_JOURNAL, NULL,
                        error);
            if (found == FOUND_OURS && before == FOUND_EMPTY) {
                found = change(self, FOUND_EMPTY, SCHEMA, error);
            }
        } else if (found == FOUND_FIRST || found == FOUND_SECOND ||
                   found == FOUND_THIRD) {
            found = change(self, found,
                           found == FOUND_FIRST    ? TO_SECOND TO_THIRD
                           : found == FOUND_SECOND ? TO_THIRD
                                                   : TO_LATEST,
                           error);
            if (found == FOUND_OURS) {
                found = look(self, error); /* one step at a time */
            }
        }
    } while (found == FOUND_THIRD ||
             (found == FOUND_BUSY &&
              simba__sqlite_nap(stuck_ms < deadline_ms ? stuck_ms : deadline_ms,
                                tries++)));
    if (found == FOUND_BUSY && simba_loop_now_ms() >= stuck_ms) {
        return fail_locked(self, error->native, error);
    }
    return found == FOUND_OURS ? SIMBA_OK : error->code;
}

/* Opening an older file brings it up to date, so there is no text for it. */
char *simba__sqlite_schema_text(const simba_backend_config *config,
                                bool upgrade,
                                simba_error *error)
{
    char *text = strdup(upgrade ? "" : LOCAL_JOURNAL SCHEMA);

    (void)config;
    if (text == NULL) {
        simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    return text;
}

/* --- the connection ------------------------------------------------------ */

static int note_log_pages(void *db, sqlite3 *handle, const char *name, int n)
{
    (void)handle;
    (void)name;
    ((struct simba__sqlite_db *)db)->log_pages = n;
    return SQLITE_OK;
}

/* Somebody else may have written the file: what it brings along is not run, and
 * no value is longer than any of ours. */
static void distrust(sqlite3 *handle)
{
    enum { LENGTH_MOST = 1 << 20 };

    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, LENGTH_MOST);
}

int simba__sqlite_connect(struct simba__sqlite *self,
                          int64_t deadline_ms,
                          simba_error *error)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW;
    struct simba__sqlite_db *db = &self->db;
    int rc;

    assert(db->handle == NULL);
    *db = (struct simba__sqlite_db){.log_fd = -1,
                                    .cut_pages = SIMBA__SQLITE_LOG_PAGES_MOST};
    rc = sqlite3_open_v2(self->settings.path, &db->handle, flags, NULL);
    if (db->handle == NULL) {
        return SIMBA_ENOMEM;
    }
    distrust(db->handle);
    rc = simba__sqlite_result(self, rc, error);
    if (rc == SIMBA_OK && simba__is_set_user_id()) {
        /* It would believe $TMPDIR. */
        (void)run(self, "PRAGMA temp_store=MEMORY", NULL, error);
    }
    if (rc == SIMBA_OK) {
        rc = ensure_schema(self, deadline_ms, error);
    }
    if (rc == SIMBA_OK) {
        (void)run(self, CACHE, NULL, error); /* it is of no matter */
    }
    if (rc == SIMBA_OK && sqlite3_db_readonly(db->handle, "main") != 0) {
        rc = simba__sqlite_result(self, SQLITE_READONLY, error);
    }
    if (rc == SIMBA_OK) {
        sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1,
                          NULL);
        sqlite3_wal_hook(db->handle, note_log_pages, db);
        rc = simba__sqlite_wal_open(self, error);
    }
    if (rc != SIMBA_OK) {
        simba__sqlite_disconnect(self);
    }
    return rc;
}

void simba__sqlite_disconnect(struct simba__sqlite *self)
{
    struct simba__sqlite_db *db = &self->db;

    if (db->handle == NULL) {
        return;
    }
    if (db->log_fd >= 0) {
        close(db->log_fd);
    }
    db->log_fd = -1;
    for (size_t i = 0; i < SIMBA__SQLITE_STATEMENT_COUNT; i++) {
        sqlite3_finalize(db->statements[i]);
        db->statements[i] = NULL;
    }
    sqlite3_close(db->handle);
    db->handle = NULL;
}
