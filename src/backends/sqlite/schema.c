/* Is this our database? And if there is nothing yet: make it. */
#define _GNU_SOURCE
#include "backends/sqlite/database.h"
#include "backends/sqlite/file.h"
#include "backends/sqlite/sql.h"

#include <stdlib.h>
#include <string.h>

/* As schema.sql says. */
enum { APPLICATION = 0x536D6261, VERSION = 3 };

enum found {
    FOUND_OURS,
    FOUND_FIRST, /* an older version */
    FOUND_SECOND,
    FOUND_EMPTY,
    FOUND_BUSY,
    FOUND_BAD
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

static int read_by(struct simba__sqlite_db *db,
                   const char *text,
                   struct facts *facts)
{
    int rc;

    *facts = (struct facts){{0, 0, 0}, 0};
    rc = sqlite3_exec(db->handle, text, take_fact, facts, NULL);
    if (rc != SQLITE_OK) {
        simba__sqlite_db_rollback(db);
    }
    return rc;
}

/* Plain pragmas: the same in one SELECT takes thrice as long, and every start
 * of a program pays it. When they do not say that all is well, look again, at
 * one state of the file: somebody may be making it at this moment. */
static int read_facts(struct simba__sqlite_db *db, struct facts *facts)
{
    int rc = read_by(db, "PRAGMA application_id; PRAGMA user_version", facts);

    if (rc == SQLITE_OK && facts->values[0] != APPLICATION) {
        rc = read_by(db,
                     "SAVEPOINT look; PRAGMA application_id;"
                     "PRAGMA user_version; SELECT count(*) FROM sqlite_schema;"
                     "RELEASE look",
                     facts);
    }
    return rc;
}

/* What is in the file. With FOUND_BAD, `error` says what is wrong with it. */
static enum found look(struct simba__sqlite_db *db, simba_error *error)
{
    struct facts facts;
    int rc = read_facts(db, &facts);

    if (rc != SQLITE_OK) {
        simba__sqlite_db_fail(db, rc, error);
        return simba__sqlite_db_is_busy(rc) ? FOUND_BUSY : FOUND_BAD;
    }
    if (facts.values[0] == 0 && facts.values[1] == 0 && facts.values[2] == 0) {
        return FOUND_EMPTY;
    }
    if (facts.values[0] != APPLICATION) {
        SIMBA__SQLITE_FAIL(db->settings, error, SIMBA_EMISCONFIG, 0,
                           "is the database of another program");
        return FOUND_BAD;
    }
    if (facts.values[1] > VERSION) {
        SIMBA__SQLITE_FAIL(db->settings, error, SIMBA_EMISCONFIG, 0,
                           "made by a newer simba (schema %d, known is %d): "
                           "update this one, or name another file",
                           facts.values[1], VERSION);
        return FOUND_BAD;
    }
    if (facts.values[1] == VERSION) {
        return FOUND_OURS;
    }
    return facts.values[1] == 2 ? FOUND_SECOND : FOUND_FIRST;
}

static enum found run(struct simba__sqlite_db *db,
                      const char *text,
                      simba_error *error)
{
    int rc = sqlite3_exec(db->handle, text, NULL, NULL, NULL);

    if (rc == SQLITE_OK) {
        return FOUND_OURS;
    }
    simba__sqlite_db_fail(db, rc, error);
    return simba__sqlite_db_is_busy(rc) ? FOUND_BUSY : FOUND_BAD;
}

/* Small pages, for every commit writes two or three of them. The size can be
 * chosen in an empty file only.
 *
 * The write-ahead log needs memory shared by all who use the file. Between
 * machines there is none, so where the file system is only trusted, the slower
 * rollback journal is used, which needs working locks and nothing else. */
#define SCHEMA        SIMBA__SQL_RESERVE_TABLE SIMBA__SQL_SCHEMA
#define LOCAL_JOURNAL "PRAGMA page_size=1024;\nPRAGMA journal_mode=WAL;\n"

static enum found choose_journal(struct simba__sqlite_db *db,
                                 simba_error *error)
{
    return run(db,
               simba__sqlite_file_is_local(db->settings->path)
                   ? LOCAL_JOURNAL
                   : "PRAGMA page_size=1024; PRAGMA journal_mode=DELETE",
               error);
}

/* Two processes may come to such a file together: who gets the lock second
 * finds that all is done, or has to look again. */
static enum found change(struct simba__sqlite_db *db,
                         enum found from,
                         const char *text,
                         simba_error *error)
{
    enum found found = run(db, "BEGIN IMMEDIATE", error);

    if (found != FOUND_OURS) {
        return found;
    }
    found = look(db, error);
    if (found == from) {
        found = run(db, text, error);
    } else if (found != FOUND_OURS && found != FOUND_BAD) {
        found = FOUND_BUSY;
        simba__sqlite_db_fail(db, SQLITE_BUSY, error);
    }
    if (found == FOUND_OURS) {
        found = run(db, "COMMIT", error);
    }
    simba__sqlite_db_rollback(db);
    return found;
}

static enum found make(struct simba__sqlite_db *db, simba_error *error)
{
    enum found found = choose_journal(db, error);

    return found == FOUND_OURS ? change(db, FOUND_EMPTY, SCHEMA, error) : found;
}

#define TO_SECOND                                                              \
    "ALTER TABLE simba_tenure ADD COLUMN former INTEGER NOT NULL DEFAULT 0;"
#define TO_THIRD SIMBA__SQL_RESERVE_TABLE "PRAGMA user_version = 3"

/* What processes of the versions before write is right for us, too: they flush
 * each of their tokens. After a reboot they do not open the file any more. */
static enum found upgrade(struct simba__sqlite_db *db,
                          enum found from,
                          simba_error *error)
{
    return change(db, from, from == FOUND_FIRST ? TO_SECOND TO_THIRD : TO_THIRD,
                  error);
}

int simba__sqlite_schema_ensure(struct simba__sqlite_db *db,
                                int64_t deadline_ms,
                                simba_error *error)
{
    int64_t stuck_ms = simba_loop_now_ms() + SIMBA__SQLITE_STUCK_MS;
    enum found found;
    unsigned tries = 0;

    do {
        found = look(db, error);
        if (found == FOUND_EMPTY) {
            found = make(db, error);
        } else if (found == FOUND_FIRST || found == FOUND_SECOND) {
            found = upgrade(db, found, error);
        } else if (found == FOUND_OURS && db->settings->is_trusted) {
            found = choose_journal(db, error);
        }
    } while (found == FOUND_BUSY &&
             simba__sqlite_db_wait(
                 stuck_ms < deadline_ms ? stuck_ms : deadline_ms, tries++));
    if (found == FOUND_BUSY && simba_loop_now_ms() >= stuck_ms) {
        return simba__sqlite_db_fail_locked(db, error->native, error);
    }
    return found == FOUND_OURS ? SIMBA_OK : error->code;
}

/* Older files are brought up to date by whoever opens them. */
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
