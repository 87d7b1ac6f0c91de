/* How processes that share a database know of each other.
 *
 * Beside the database lies a directory, "<database>-simba.d". In it each store
 * handle keeps a file under a random name, open for writing and locked. The
 * lock goes when the last copy of the open file goes, however the process ends:
 * the kernel tells dead from alive. A handle that waits also has a bell there,
 * to which others append the name of the mutex it should ask for.
 *
 *     locked              alive
 *     there, not locked   dead: it is locked before it has its name
 *     not there           not known: somebody may have cleaned up. Who removes
 *                         the file of a dead one takes its rows along. */
#ifndef SIMBA_SQLITE_PRESENCE_H
#define SIMBA_SQLITE_PRESENCE_H

#include "backends/sqlite/settings.h"

#include <simba/owner.h>

#include <stddef.h>

/* Thirty-two hexadecimal digits. */
enum { SIMBA__SQLITE_PROCESS = 32 };

struct simba__sqlite_presence {
    int dir_fd;
    int life_fd;
    char process[SIMBA__SQLITE_PROCESS + 1]; /* our name */
};

enum simba__sqlite_life {
    SIMBA__SQLITE_ALIVE,
    SIMBA__SQLITE_DEAD,
    SIMBA__SQLITE_UNSURE,
};

/** Before everything else, so that a half-built one can be closed. */
void simba__sqlite_presence_init(struct simba__sqlite_presence *presence);

/**
 * Make the directory if need be, and our file in it. Again, after the
 * directory was deleted, keeps the name and the number of life_fd.
 */
int simba__sqlite_presence_open(struct simba__sqlite_presence *presence,
                                const struct simba__sqlite_settings *settings,
                                simba_error *error);

/** Is our file no longer in the directory, or the directory gone? */
bool simba__sqlite_presence_is_lost(
    const struct simba__sqlite_presence *presence);

/** Take our files away. */
void simba__sqlite_presence_close(struct simba__sqlite_presence *presence);

/** In a forked child: close the descriptors and nothing else. */
void simba__sqlite_presence_forked(struct simba__sqlite_presence *presence);

/** Is this open file still the one of that name in the directory? */
bool simba__sqlite_presence_is_linked(
    const struct simba__sqlite_presence *presence,
    int fd,
    const char *name);

/** Is this how processes are named? */
bool simba__sqlite_presence_is_name(const char *name);

/** Is the process of this name alive? We ourselves are. */
enum simba__sqlite_life simba__sqlite_presence_look(
    const struct simba__sqlite_presence *presence,
    const char *process);

/** Make our bell anew; returns its descriptor or -1. The caller closes it. */
int simba__sqlite_presence_make_bell(
    const struct simba__sqlite_presence *presence);

/** Ring a process: it should ask for this mutex. May fail silently. */
void simba__sqlite_presence_ring(const struct simba__sqlite_presence *presence,
                                 const char *process,
                                 const char *mutex);

/** Before the name of a mutex on a bell, and between what follows it: its owner
 * has changed, which is for those who watch; who waits need not ask. No name
 * and no id contains it. */
#define SIMBA__SQLITE_CHANGED '\t'

/** The longest line on a bell: a change, with both names and five numbers. */
enum { SIMBA__SQLITE_LINE = SIMBA_MUTEX_MAX_BYTES + SIMBA_ID_MAX + 128 };

/** Give a new file to the owner of the directory, as far as we can: root at a
 * user's database. */
void simba__sqlite_presence_share(const struct simba__sqlite_presence *presence,
                                  int fd);

/** The name of a process's bell in the directory. */
void simba__sqlite_presence_bell_name(const char *process, char *name);
enum { SIMBA__SQLITE_BELL = SIMBA__SQLITE_PROCESS + 6 };

/* Processes that were found dead. */
struct simba__sqlite_dead {
    char process[SIMBA__SQLITE_PROCESS + 1];
    int fd; /* locked by us, so that nobody else takes it away */
};

/** Find dead ones, `most` at most. Only while the database is locked. */
size_t simba__sqlite_presence_find_dead(
    const struct simba__sqlite_presence *presence,
    struct simba__sqlite_dead *dead,
    size_t most);

/** Let go of one; with its files or, if its rows could not be, without. */
void simba__sqlite_presence_bury(const struct simba__sqlite_presence *presence,
                                 struct simba__sqlite_dead *dead,
                                 bool with_files);

#endif
