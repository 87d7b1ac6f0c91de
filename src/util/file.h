/* Reading small files whole, and secrets in memory. */
#ifndef SIMBA_UTIL_FILE_H
#define SIMBA_UTIL_FILE_H

#include <stddef.h>
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

/** Wipe a string and free it; NULL is a no-op. */
void simba__secret_free(char *secret);

#endif
