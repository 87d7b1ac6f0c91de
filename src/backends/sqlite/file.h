/* Where the database lies: the file, its directories, its file system. */
#ifndef SIMBA_SQLITE_FILE_H
#define SIMBA_SQLITE_FILE_H

#include "backends/sqlite/settings.h"

/** Would simba__sqlite_file_prepare() have to make it? */
bool simba__sqlite_file_is_missing(
    const struct simba__sqlite_settings *settings);

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

/**
 * Does the canonical path lie on a file system of the list? Without that, and
 * trusted by the user, it may be shared between machines.
 */
bool simba__sqlite_file_is_local(const char *path);

/** The name of its file system, static; "unknown" when it is not listed. */
const char *simba__sqlite_file_system(const char *path);

/** What a failed system call means: denied, disk full, or else. */
int simba__sqlite_file_status(int errno_value);

/** The same in words, static. */
const char *simba__sqlite_file_words(int errno_value);

#endif
