/* The store in a file: mutexes of the processes of one machine, kept in an
 * SQLite database. README.md here tells how; only the table is seen outside. */
#ifndef SIMBA_SQLITE_H
#define SIMBA_SQLITE_H

#include <simba/sys/backend.h>

extern const simba_backend_ops simba__sqlite_ops;

#endif
