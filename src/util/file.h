/* Small files read whole, files written whole; secrets in memory; the
 * environment. */
#ifndef SIMBA_UTIL_FILE_H
#define SIMBA_UTIL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

struct simba__file {
    char *bytes; /* with a NUL behind them; to be wiped and freed */
    size_t size;
    struct stat status;
};

/**
 * Read a regular file of at most so many bytes. Nothing else is ever read from,
 * and a FIFO without a writer is not waited for.
 *
 * @return 0; EFBIG: it is larger; ENOTSUP: no regular file; else what the
 *         system says, ENOMEM among it. After a failure there is nothing to
 * free
 */
int simba__file_read(struct simba__file *file, const char *path, size_t most);

/** Wipe and free. */
void simba__file_fini(struct simba__file *file);

/**
 * Begin a file that appears whole or not at all, readable for all: what is
 * written to `out` takes the place of a regular file, or of none. Anything else
 * there, a device, a FIFO, a symbolic link, is somebody's and stays.
 *
 * @return 0; ENOTSUP: no regular file; else what the system says
 */
int simba__file_begin(const char *path, char **temporary, FILE **out);

/** End it, whether it could be begun or not. @param rc  0, or an error, then it
 * is given up. @return rc, or what went wrong at last */
int simba__file_end(const char *path, char *temporary, FILE *out, int rc);

/** What such a code means, for people. */
const char *simba__file_problem(int rc);

/** Has this program other rights than its caller, as a set-user-id one has?
 * Then nothing of the environment counts, which is read by secure_getenv()
 * only, and no file of a user. */
bool simba__is_set_user_id(void);

/** Take what `is_dropped` is true of, "NAME=value", out of the environment. */
void simba__environment_drop(bool (*is_dropped)(const char *variable));

/** Wipe a string and free it; NULL is a no-op. */
void simba__secret_free(char *secret);

#endif
