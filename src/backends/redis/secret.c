/* A password in a file; see secret.h. */
#define _GNU_SOURCE
#include "backends/redis/secret.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int refuse(simba_error *error, const char *path, const char *why)
{
    return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                           "redis: password file %.100s: %s", path, why);
}

static int read_line(FILE *file,
                     const char *path,
                     char **secret,
                     simba_error *error)
{
    struct stat status;
    char *line = NULL;
    size_t room = 0;

    if (fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) &&
        (status.st_mode & S_IROTH) != 0) {
        return refuse(error, path, "others can read it; chmod o= it");
    }
    errno = 0;
    if (getline(&line, &room, file) < 0) {
        int problem = errno;

        free(line);
        return refuse(error, path,
                      problem == 0 ? "it is empty" : strerror(problem));
    }
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0') {
        free(line);
        return refuse(error, path, "its first line is empty");
    }
    simba__redis_secret_free(*secret);
    *secret = line;
    return SIMBA_OK;
}

int simba__redis_secret_read(const char *path,
                             char **secret,
                             simba_error *error)
{
    FILE *file = fopen(path, "re");
    int rc;

    if (file == NULL) {
        return refuse(error, path, strerror(errno));
    }
    rc = read_line(file, path, secret, error);
    fclose(file);
    return rc;
}

void simba__redis_secret_free(char *secret)
{
    if (secret != NULL) {
        explicit_bzero(secret, strlen(secret));
    }
    free(secret);
}
