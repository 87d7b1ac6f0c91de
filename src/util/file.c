#define _GNU_SOURCE
#include "util/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int read_all(struct simba__file *file, int fd, size_t most)
{
    ssize_t count = 1;

    if (fstat(fd, &file->status) != 0) {
        return errno;
    }
    if (!S_ISREG(file->status.st_mode)) {
        return S_ISDIR(file->status.st_mode) ? EISDIR : ENOTSUP;
    }
    /* It may grow meanwhile; one byte more than the most tells that. */
    file->bytes = calloc(1, most + 2);
    if (file->bytes == NULL) {
        return ENOMEM;
    }
    while (count != 0 && file->size <= most) {
        count = read(fd, file->bytes + file->size, most + 1 - file->size);
        if (count < 0 && errno != EINTR) {
            return errno;
        }
        file->size += count < 0 ? 0 : (size_t)count;
    }
    return file->size <= most ? 0 : EFBIG;
}

int simba__file_read(struct simba__file *file, const char *path, size_t most)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int rc;

    assert(most > 0);
    *file = (struct simba__file){0};
    if (fd < 0) {
        return errno;
    }
    rc = read_all(file, fd, most);
    (void)close(fd);
    if (rc != 0) {
        simba__file_fini(file);
    }
    return rc;
}

void simba__file_fini(struct simba__file *file)
{
    if (file->bytes != NULL) {
        explicit_bzero(file->bytes, file->size);
        free(file->bytes);
    }
    *file = (struct simba__file){0};
}

void simba__secret_free(char *secret)
{
    if (secret != NULL) {
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
}
