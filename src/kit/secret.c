#define _GNU_SOURCE
#include "kit/secret.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Nobody writes so much by hand; a wrong file may have more. Certificates of
 * all the world are larger. */
enum { SIZE_MOST = 64 * 1024, LIBRARY_SIZE_MOST = 4096 * 1024 };

/* --- files --------------------------------------------------------------- */

static int refuse(const char *path, const char *why, simba_error *error)
{
    return simba_error_set(error, SIMBA_EMISCONFIG, 0, "%.120s: %s", path, why);
}

static int read_guarded(struct simba__file *file,
                        const char *path,
                        size_t most,
                        simba_error *error)
{
    const char *problem = NULL;
    int rc = simba__file_read(file, path, most);

    switch (rc) {
    case 0:
        break;
    case ENOMEM:
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    case EFBIG:
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "%.120s: larger than %zu KiB", path,
                               most / 1024);
    case ENOTSUP:
        return refuse(path, "not a regular file", error);
    default:
        return simba_error_set(error,
                               rc == EACCES || rc == EPERM ? SIMBA_EDENIED
                                                           : SIMBA_EMISCONFIG,
                               rc, "%.120s: %s", path, strerror(rc));
    }
    if ((file->status.st_mode & S_IWOTH) != 0) {
        problem = "anybody can write this file; chmod o= it";
    } else if (file->status.st_uid != 0 && file->status.st_uid != geteuid() &&
               geteuid() != 0) {
        problem = "belongs to somebody else; chown it to root or to the user "
                  "who reads it";
    }
    if (problem != NULL) {
        simba__file_fini(file);
        return refuse(path, problem, error);
    }
    return SIMBA_OK;
}

int simba__guarded_file_read(struct simba__file *file,
                             const char *path,
                             simba_error *error)
{
    return read_guarded(file, path, SIZE_MOST, error);
}

int simba__library_file_check(const char *store,
                              const char *path,
                              bool is_key,
                              simba_error *error)
{
    struct simba__file file;
    simba_error why;
    int rc;

    if (path == NULL || strcmp(path, "/dev/null") == 0 ||
        access(path, F_OK) != 0) {
        return SIMBA_OK;
    }
    rc = read_guarded(&file, path, LIBRARY_SIZE_MOST, &why);
    if (rc == SIMBA_OK) {
        if (is_key && (file.status.st_mode & S_IROTH) != 0) {
            rc = refuse(path, "others can read this key; chmod o= it", &why);
        }
        simba__file_fini(&file);
    }
    return rc == SIMBA_OK ? SIMBA_OK
                          : simba_error_set(error, rc, why.native, "%s: %s",
                                            store, why.message);
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
 * as it should be may hold anything, so where there is a password the last @ of
 * all counts. NULL: there is none. */
static char *end_of_user(const char *start, bool has_password)
{
    const char *last = strrchr(start, '@');
    const char *colon = strchr(start, ':');

    if (last != NULL && (has_password || (colon != NULL && colon < last))) {
        return (char *)last;
    }
    return memrchr(start, '@', strcspn(start, "/?"));
}

/* Finds user and password: behind "scheme://", or behind the first colon where
 * somebody forgot the slashes or the scheme, of what the shims before it wrap.
 * Returns where they end; NULL: there are none. */
static char *find_user(const char *url, char **start)
{
    static const char *const shims[] = {"fault:", "trace:", "stat:"};
    bool is_path = strncasecmp(url, "sqlite:", strlen("sqlite:")) == 0;
    const char *colon = strchr(url, ':');
    bool is_bare = strncmp(url, "//", 2) != 0;

    for (size_t i = 0; i < sizeof shims / sizeof shims[0]; i++) {
        if (strncasecmp(url, shims[i], strlen(shims[i])) == 0) {
            colon = strchr(colon + 1, ':');
            return colon == NULL ? NULL : find_user(colon + 1, start);
        }
    }
    if (is_bare && colon == NULL) {
        return NULL;
    }
    *start = (char *)(is_bare ? colon + 1 : url);
    is_bare = strncmp(*start, "//", 2) != 0;
    *start += is_bare ? 0 : 2;
    return is_bare && is_path ? NULL : end_of_user(*start, is_bare);
}

/* PostgreSQL is also named by words, as "host=h password=pw". */
static char *find_password(const char *url)
{
    return strstr(url, "//") == NULL &&
                   strncasecmp(url, "sqlite:", strlen("sqlite:")) != 0
               ? strcasestr(url, "password")
               : NULL;
}

/* Where user and password end if not even the @ should be one. */
static char *end_of_escaped(const char *start)
{
    char *at = strstr(start, "%40");

    return at != NULL && at < start + strcspn(start, "/?") ? at + 2 : NULL;
}

void simba__url_hide(char *url)
{
    size_t length = strlen(url);
    char *start = NULL, *password = find_password(url);
    char *at = find_user(url, &start);
    const char *from;
    char *to;

    if (password != NULL) { /* what follows may belong to it */
        to = password + strcspn(password, "=");
        to += *to == '=';
        if (*to != '\0') {
            *to++ = '*';
        }
        explicit_bzero(to, length - (size_t)(to - url));
        return;
    }
    at = at == NULL && start != NULL ? end_of_escaped(start) : at;
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

bool simba__url_is_torn(const char *user)
{
    const char *at = end_of_user(user, false);

    return at != NULL && at > user + strcspn(user, "/?");
}

bool simba__url_has_secret(const char *url)
{
    const char *query = strchr(url, '?');
    char *start, *at = find_user(url, &start);

    return (query != NULL && strcasestr(query, "password") != NULL) ||
           find_password(url) != NULL ||
           (at != NULL && (start[-1] == ':' ||
                           memchr(start, ':', (size_t)(at - start)) != NULL));
}
