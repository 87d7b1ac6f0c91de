/* The kind of server that a test program is built for. */
#ifndef TESTS_BACKENDS_SQL_SERVER_H
#define TESTS_BACKENDS_SQL_SERVER_H

#include <simba/sys/backend.h>

#include <stdint.h>

#ifdef SERVER_IS_POSTGRES
#include "backends/postgres/postgres.h"
#define SERVER_OPS      (&simba_module)
#define SERVER_SCHEME   "" /* libpq reads all of a URL */
#define SERVER_DATABASE "postgres"
#define SERVER_ADMIN    "simba"
#define LOCK_LINE       "LOCK TABLE simba_line IN ACCESS EXCLUSIVE MODE"
#define LOCK_MUTEX      "LOCK TABLE simba_mutex IN ACCESS EXCLUSIVE MODE"
#define DEADLOCK        "40P01"
#define CHANGE_TENURE   "COMMENT ON TABLE simba_tenure IS 'looked at'"
#define FILL_DISK                                                              \
    "CREATE TABLE filler AS SELECT repeat(n::text, 1000) AS x "                \
    "FROM generate_series(1, 50000) n"
#else
#include "backends/mysql/mysql.h"
#define SERVER_OPS      (&simba_module)
#define SERVER_SCHEME   "mysql:"
#define SERVER_DATABASE "simba"
#define SERVER_ADMIN    "root"
#define LOCK_LINE       "LOCK TABLE simba_line WRITE"
#define LOCK_MUTEX      "LOCK TABLE simba_mutex WRITE"
#define DEADLOCK        "1213"
#define CHANGE_TENURE                                                          \
    "SET STATEMENT lock_wait_timeout = 3 FOR "                                 \
    "ALTER TABLE simba_tenure COMMENT 'looked at'"
#define FILL_DISK                                                              \
    "CREATE TABLE filler AS SELECT repeat(seq, 1000) AS x FROM seq_1_to_50000"
#endif

/** "--restart", "--stop" or "--start". */
void server_control(const char *what);

/** Run SQL as the owner of everything; returns the first column of the first
 * row as a number, or -1. Fails the test when it fails. */
int64_t server_sql(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/** The same, but it may fail: false. */
bool server_try(const char *text);

/** Begin a transaction with this statement and keep it open. */
void server_hold(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Roll it back, if there is one. */
void server_let_go(void);

/** The same, but what was done stays. */
void server_commit(void);

/** The URL of this server for another account ("user:password") or database;
 * static. */
const char *server_url(const char *user, const char *database);

/** An account that may do nothing but come in. */
void server_make_account(const char *user, const char *password);

/** One that may use tables of ours, but not make any. */
void server_make_user_of_tables(const char *user, const char *password);

/** One that may read all tables there are, and nothing else; it may be there
 * already. */
void server_make_reader(const char *user, const char *password);

/** Run a script, as an administrator who reads it somewhere would. */
void server_run(const char *script);

/** Refuse changes to all, as one does that is primary no more; sessions stay.
 * MySQL excepts whom server_sql() speaks as. */
void server_set_read_only(bool is_on);

/** A moment, and how many sessions of then there still are. */
int64_t server_moment(void);
int64_t server_count_since(int64_t moment);

/** Have new sessions live in a time zone with summer time, or not any more. */
void server_set_time_zone(bool is_on);

/** Have the server end new sessions after a second without a statement, or not
 * any more. */
void server_set_impatient(bool is_on);

/** How many processes the server knows to be alive and waiting. */
int64_t server_count_bells(void);

/** How many sessions there are, besides those of server_sql(). */
int64_t server_count_sessions(void);

/** How many sessions keep the server from forgetting old rows. */
int64_t server_count_snapshots(void);

/** From now on, let the server keep a log of all statements. */
void server_log_statements(void);
/** How many there were of those that ask for a mutex, or look for those who
 * wait; renewals and releases do not count. */
int64_t server_count_asks(void);

/** End the bell of a process, and keep its lock until server_let_go(). */
void server_haunt(const char *process);

#ifndef SERVER_IS_POSTGRES
/** Have the bell of a process wait for somebody who waits for it, for half a
 * second. */
void server_cross(const char *process);
#endif

/** End all sessions but our own, as an administrator may. */
void server_kill_sessions(void);

#endif
