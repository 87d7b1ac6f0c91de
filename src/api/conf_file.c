/* Where the config file is, and reading it and password files with care. */
#define _GNU_SOURCE
#include "api/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Nobody writes so much by hand; a device or a wrong file may have more. */
enum { SIZE_MOST = 1 << 20 };

char *simba__home_directory(void)
{
    const char *home = secure_getenv("HOME");
    struct passwd entry, *found = NULL;
    char buffer[4096];

    if (home != NULL && home[0] == '/') {
        return strdup(home);
    }
    getpwuid_r(getuid(), &entry, buffer, sizeof buffer, &found);
    return strdup(found != NULL ? found->pw_dir : "/nonexistent");
}

/* --- where --------------------------------------------------------------- */

/* NULL when there is no memory. */
static char *user_path(void)
{
    const char *config = secure_getenv("XDG_CONFIG_HOME");
    bool is_given = config != NULL && config[0] == '/';
    char *home = is_given ? strdup(config) : simba__home_directory();
    char *path = NULL;

    if (home != NULL && asprintf(&path, "%s%s/simba/simba.conf", home,
                                 is_given ? "" : "/.config") < 0) {
        path = NULL;
    }
    free(home);
    return path;
}

/* One that is there but cannot be read is an error later, not a reason to go
 * on with another. */
static bool is_there(const char *path)
{
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

int simba__conf_path(char **path, simba_error *error)
{
    const char *given = secure_getenv("SIMBA_CONFIG");

    if (given != NULL && given[0] != '\0') {
        *path = strdup(given);
    } else {
        *path = user_path();
        if (*path != NULL && !is_there(*path)) {
            free(*path);
            *path = strdup("/etc/simba.conf");
            if (*path != NULL && !is_there(*path)) {
                free(*path);
                *path = NULL;
                return SIMBA_OK;
            }
        }
    }
    return *path != NULL
               ? SIMBA_OK
               : simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
}

/* --- reading ------------------------------------------------------------- */

static int fail_file(const char *path, int code, simba_error *error)
{
    return simba_error_set(error,
                           code == EACCES || code == EPERM ? SIMBA_EDENIED
                                                           : SIMBA_EMISCONFIG,
                           code, "%s: %s", path, strerror(code));
}

static int read_all(struct simba__conf_text *text,
                    int fd,
                    const char *path,
                    simba_error *error)
{
    ssize_t count = 1;

    text->bytes = calloc(1, SIZE_MOST + 1);
    if (text->bytes == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    while (count > 0 && text->size < SIZE_MOST) {
        count = read(fd, text->bytes + text->size, SIZE_MOST - text->size);
        if (count < 0 && errno == EINTR) {
            count = 1;
        } else if (count < 0) {
            return fail_file(path, errno, error);
        } else {
            text->size += (size_t)count;
        }
    }
    return text->size < SIZE_MOST ? SIMBA_OK : fail_file(path, EFBIG, error);
}

static int check_access(struct simba__conf_text *text,
                        int fd,
                        const char *path,
                        simba_error *error)
{
    struct stat status;

    if (fstat(fd, &status) != 0) {
        return fail_file(path, errno, error);
    }
    if (S_ISREG(status.st_mode) && (status.st_mode & S_IWOTH) != 0) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "%s: anybody can write this file; chmod o= it",
                               path);
    }
    text->is_open_to_others =
        S_ISREG(status.st_mode) && (status.st_mode & S_IROTH) != 0;
    return SIMBA_OK;
}

int simba__conf_text_read(struct simba__conf_text *text,
                          const char *path,
                          simba_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int rc;

    *text = (struct simba__conf_text){0};
    if (fd < 0) {
        return fail_file(path, errno, error);
    }
    rc = check_access(text, fd, path, error);
    if (rc == SIMBA_OK) {
        rc = read_all(text, fd, path, error);
    }
    (void)close(fd);
    if (rc != SIMBA_OK) {
        simba__conf_text_free(text);
    }
    return rc;
}

void simba__conf_text_free(struct simba__conf_text *text)
{
    if (text->bytes != NULL) {
        explicit_bzero(text->bytes, text->size);
        free(text->bytes);
        text->bytes = NULL;
    }
}
