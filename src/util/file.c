#define _GNU_SOURCE
#include "util/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
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

int simba__file_begin(const char *path, char **temporary, FILE **out)
{
    struct stat status;
    int fd;

    *temporary = NULL;
    *out = NULL;
    if (lstat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        return ENOTSUP;
    }
    if (asprintf(temporary, "%s.XXXXXX", path) < 0) {
        *temporary = NULL;
        return ENOMEM;
    }
    fd = mkostemp(*temporary, O_CLOEXEC);
    if (fd < 0) {
        int rc = errno;

        free(*temporary);
        *temporary = NULL;
        return rc;
    }
    (void)fchmod(fd, 0644); /* who reads it is another user */
    *out = fdopen(fd, "w");
    if (*out == NULL) {
        (void)close(fd);
    }
    return *out == NULL ? ENOMEM : 0;
}

int simba__file_end(const char *path, char *temporary, FILE *out, int rc)
{
    bool is_whole = out != NULL && ferror(out) == 0;

    if (out != NULL && (fclose(out) != 0 || !is_whole) && rc == 0) {
        rc = errno != 0 ? errno : EIO;
    }
    if (rc == 0 && rename(temporary, path) != 0) {
        rc = errno;
    }
    if (temporary != NULL && rc != 0) {
        (void)unlink(temporary);
    }
    free(temporary);
    return rc;
}

const char *simba__file_problem(int rc)
{
    return rc == ENOTSUP ? "is no regular file; name one, or a new one"
                         : strerror(rc);
}

bool simba__is_set_user_id(void)
{
    return getauxval(AT_SECURE) != 0;
}

void simba__environment_drop(bool (*is_dropped)(const char *variable))
{
    char **to = environ;

    for (char **from = environ; from != NULL && *from != NULL; from++) {
        if (!is_dropped(*from)) {
            *to++ = *from;
        }
    }
    if (to != NULL) {
        *to = NULL;
    }
}

void simba__secret_free(char *secret)
{
    if (secret != NULL) {
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
}
