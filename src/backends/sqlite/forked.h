/* What a forked child does with the database of its parent: nothing. */
#ifndef SIMBA_SQLITE_FORKED_H
#define SIMBA_SQLITE_FORKED_H

#include "backends/sqlite/settings.h"

#include <stdbool.h>
#include <sys/stat.h>

/* A database that was open in the parent. */
struct simba__sqlite_inherited {
    struct stat file;
    struct simba__sqlite_inherited *next;
};

/** In a forked child: close the descriptors behind SQLite's back, and remember
 * the file. The entry must stay. */
void simba__sqlite_forked(const struct simba__sqlite_settings *settings,
                          struct simba__sqlite_inherited *entry);

/** Was this database open in the parent when this process was forked? */
bool simba__sqlite_is_inherited(const struct simba__sqlite_settings *settings);

#endif
