#define _GNU_SOURCE
#include "kit/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Nobody writes so much by hand; a wrong file may have more. */
enum { SIZE_MOST = 64 * 1024 };

/* --- files --------------------------------------------------------------- */

static int refuse(const char *path, const char *why, simba_error *error)
{
    return simba_error_set(error, SIMBA_EMISCONFIG, 0, "%.120s: %s", path, why);
}

int simba__guarded_file_read(struct simba__file *file,
                             const char *path,
                             simba_error *error)
{
    int rc = simba__file_read(file, path, SIZE_MOST);

    switch (rc) {
    case 0:
        break;
    case ENOMEM:
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    case EFBIG:
        return refuse(path, "larger than 64 KiB", error);
    case ENOTSUP:
        return refuse(path, "not a regular file", error);
    default:
        return simba_error_set(error,
                               rc == EACCES || rc == EPERM ? SIMBA_EDENIED
                                                           : SIMBA_EMISCONFIG,
                               rc, "%.120s: %s", path, strerror(rc));
    }
    if ((file->status.st_mode & S_IWOTH) != 0) {
        simba__file_fini(file);
        return refuse(path, "anybody can write this file; chmod o= it", error);
    }
    return SIMBA_OK;
}

int simba__secret_read(const char *path, char **secret, simba_error *error)
{
    struct simba__file file;
    const char *problem = NULL;
    int rc = simba__guarded_file_read(&file, path, error);

    *secret = NULL;
    if (rc != SIMBA_OK) {
        return rc;
    }
    if ((file.status.st_mode & S_IROTH) != 0) {
        problem = "others can read this password; chmod o= it";
    } else if (file.status.st_uid != 0 && file.status.st_uid != geteuid() &&
               geteuid() != 0) {
        problem = "belongs to somebody else; chown it to root or to the user "
                  "who reads it";
    } else if (strlen(file.bytes) != file.size) {
        problem = "not a text file";
    } else if (strcspn(file.bytes, "\r\n") == 0) {
        problem = "its first line is empty";
    }
    if (problem != NULL) {
        rc = refuse(path, problem, error);
    } else {
        file.bytes[strcspn(file.bytes, "\r\n")] = '\0';
        *secret = strdup(file.bytes);
        if (*secret == NULL) {
            rc = simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
        }
    }
    simba__file_fini(&file);
    return rc;
}

/* --- URLs ---------------------------------------------------------------- */

/* Where user and password end: the @ before the host. One that is not encoded
 * as it should be may hold anything, so with a colon before it the last @ of
 * all counts. NULL: there is none. */
static char *end_of_user(const char *start)
{
    const char *last = strrchr(start, '@');
    const char *colon = strchr(start, ':');

    if (last != NULL && colon != NULL && colon < last) {
        return (char *)last;
    }
    return memrchr(start, '@', strcspn(start, "/?"));
}

/* Behind "scheme://", or behind "scheme:" where somebody forgot the slashes;
 * NULL: neither. */
static char *start_of_user(const char *url)
{
    const char *slashes = strstr(url, "://");
    const char *colon = strchr(url, ':');

    if (slashes != NULL) {
        return (char *)slashes + 3;
    }
    return colon == NULL ? NULL : (char *)colon + 1;
}

void simba__url_hide(char *url)
{
    size_t length = strlen(url);
    char *start = start_of_user(url);
    char *at = start == NULL ? NULL : end_of_user(start);
    const char *from;
    char *to;

    if (at != NULL) {
        memmove(start, at + 1, strlen(at + 1) + 1);
    }
    /* A word that is no name=value may be a value, too. */
    to = strchrnul(url, '?');
    to += *to == '?';
    for (from = to; *from != '\0';) {
        size_t word = strcspn(from, "&");
        size_t name = strcspn(from, "=&");

        name = name < word ? name + 1 : 0;
        memmove(to, from, name);
        to += name;
        if (name < word) {
            *to++ = '*';
        }
        from += word;
        if (*from == '&') {
            *to++ = *from++;
        }
    }
    *to = '\0';
    explicit_bzero(to, length - (size_t)(to - url));
}

bool simba__url_has_secret(const char *url)
{
    const char *start = start_of_user(url);
    const char *query = strchr(url, '?');
    const char *at = start == NULL ? NULL : end_of_user(start);

    return (query != NULL && strcasestr(query, "password") != NULL) ||
           (at != NULL && memchr(start, ':', (size_t)(at - start)) != NULL);
}
