/* Which backend speaks for a URL. The embedded ones are linked in; the others
 * are modules, loaded when one of their schemes is first opened, so that a
 * program gets no client library it never uses. */
#define _GNU_SOURCE
#include "api/store.h"

#include "backends/memory/memory.h"
#include "backends/sqlite/sqlite.h"
#include "shims/shim.h"
#include "util/file.h"
#include "util/guess.h"

#include <assert.h>
#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_ROOM = 4096, SCHEME_MOST = 32 };

/* --- where they are ------------------------------------------------------ */

/* What one search found. */
struct search {
    const char *name;
    void *module;
    char why[192]; /* a file that is there but cannot be loaded */
};

/* Whoever can link a set-user-id program into a directory of his own can put
 * anything beside it, so that one believes only what nobody but root can write
 * to. */
static bool is_trusted(const char *directory)
{
    struct stat status;

    return !simba__is_set_user_id() ||
           (stat(directory, &status) == 0 && status.st_uid == 0 &&
            (status.st_mode & (S_IWGRP | S_IWOTH)) == 0);
}

static bool try_directory(struct search *search,
                          const char *directory,
                          size_t length)
{
    char path[PATH_ROOM];
    int count = snprintf(path, sizeof path, "%.*s/simba-%s.so", (int)length,
                         directory, search->name);

    assert(search->module == NULL);
    if (length == 0 || count >= (int)sizeof path || access(path, F_OK) != 0) {
        return false;
    }
    search->module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (search->module == NULL && search->why[0] == '\0') {
        snprintf(search->why, sizeof search->why, "%s", dlerror());
    }
    return search->module != NULL;
}

static bool try_path(struct search *search, const char *path)
{
    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");

        if (try_directory(search, path, length)) {
            return true;
        }
        path += length + (path[length] == ':');
    }
    return false;
}

/* A program that has loaded the library for itself alone, as interpreters do,
 * shares it with the module that way. */
static bool try_beside(struct search *search)
{
    static const char *const below[] = {"", "/simba", "/../lib/simba",
                                        "/../../lib/simba"};
    static const char here;
    char myself[PATH_MAX], path[PATH_ROOM];
    struct link_map *map = NULL;
    Dl_info self;
    const char *slash;

    /* Where this very library or program is, links followed. A program's own
     * name may be what a shell was given, which says nothing of where it lies.
     */
    if (dladdr1(&here, &self, (void **)&map, RTLD_DL_LINKMAP) == 0 ||
        realpath(map->l_name[0] == '\0' ? "/proc/self/exe" : map->l_name,
                 myself) == NULL ||
        (slash = strrchr(myself, '/')) == NULL) {
        return false;
    }
    (void)dlopen(myself, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        int count = snprintf(path, sizeof path, "%.*s%s", (int)(slash - myself),
                             myself, below[i]);

        if (count < (int)sizeof path && is_trusted(path) &&
            try_directory(search, path, (size_t)count)) {
            return true;
        }
    }
    return false;
}

/* --- what is none -------------------------------------------------------- */

/* Is it host:port? Then `kind` is the store that listens there as a rule, or
 * NULL. Nothing of a text that may hold a password is taken for it. */
static bool is_address(const char *url, const char **kind)
{
    static const char *const usual[][2] = {{"6379", "redis"},
                                           {"5432", "postgres"},
                                           {"3306", "mysql"},
                                           {"2181", "zookeeper"},
                                           {"2379", "etcd"}};
    const char *port = strrchr(url, ':');

    *kind = NULL;
    if (port == NULL || port == url || port[1] == '\0' ||
        strpbrk(url, "@/ ") != NULL ||
        port[1 + strspn(port + 1, "0123456789")] != '\0') {
        return false;
    }
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        *kind = strcmp(port + 1, usual[i][0]) == 0 ? usual[i][1] : *kind;
    }
    return true;
}

/* What stands behind the scheme may have got what belongs to a shell or to a
 * config file; NULL: it has not. A blank in a path or a password may be meant.
 */
static const char *find_stray(const char *rest)
{
    const char *host = strncmp(rest, "//", 2) == 0 ? rest + 2 : "";
    size_t length = strlen(rest);
    const char *at;

    if (length > 0 && (isblank((unsigned char)rest[0]) ||
                       isblank((unsigned char)rest[length - 1]))) {
        return "the URL has a blank behind its scheme or at its end; write one "
               "that is meant as %20";
    }
    length = strcspn(host, "/?");
    at = memrchr(host, '@', length);
    length -= at == NULL ? 0 : (size_t)(at + 1 - host);
    return strcspn(at == NULL ? host : at + 1, " \t\"'#") < length
               ? "the URL has a blank, a quote or a # in its host"
               : NULL;
}

/* @param scheme  what stands before the colon; NULL: nothing that could be one
 */
static int refuse(const char *url, const char *scheme, simba_error *error)
{
    static const char *const known[] = {
        "sqlite",   "redis",      "rediss",        "redis+unix",
        "postgres", "postgresql", "redis+cluster", "redis+sentinel",
        "mysql",    "mariadb",    "zookeeper",     "etcd",
        "memory"};
    const char *kind;

    if (is_address(url, &kind) && kind != NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "not a store URL but a host and a port; did you "
                               "mean %s://%s?",
                               kind, url);
    }
    if (is_address(url, &kind)) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "not a store URL but a host and a port: write "
                               "which kind it is, as in redis://host:port");
    }
    for (size_t i = 0; scheme != NULL && i < sizeof known / sizeof known[0];
         i++) {
        if (simba__guess_is_near(scheme, known[i])) {
            return simba_error_set(error, SIMBA_EINVAL, 0,
                                   "no store speaks \"%s:\"; did you mean "
                                   "%s:?",
                                   scheme, known[i]);
        }
    }
    if (scheme != NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "no store speaks \"%s:\": no simba-%s.so is in "
                               "$SIMBA_MODULE_PATH, " SIMBA_MODULE_DIR
                               " or beside this program; there are sqlite:, "
                               "redis:, postgres:, mysql:, zookeeper:, etcd: "
                               "and memory:",
                               scheme, scheme);
    }
    return simba_error_set(error, SIMBA_EINVAL, 0,
                           "not a store URL: it should begin as in sqlite:path "
                           "or redis://host%s",
                           strchr(" \t\"'", url[0]) != NULL
                               ? ", without blanks or quotes before it"
                               : "");
}

/* --- loading ------------------------------------------------------------- */

static int load_module(const char *url,
                       const char *scheme,
                       const simba_backend_ops **out,
                       simba_error *error)
{
    /* A module may speak several schemes; any other is asked of its namesake.
     */
    static const char *const names[][2] = {
        {"rediss", "redis"},         {"redis+unix", "redis"},
        {"redis+sentinel", "redis"}, {"redis+cluster", "redis"},
        {"mariadb", "mysql"},        {"postgresql", "postgres"},
    };
    static const char *const ours[] = {"etcd", "mysql", "postgres", "redis",
                                       "zookeeper"};
    struct search search = {.name = scheme};
    const simba_backend_ops *ops;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i][0], scheme) == 0) {
            search.name = names[i][1];
        }
    }
    if (!try_path(&search, secure_getenv("SIMBA_MODULE_PATH")) &&
        !try_beside(&search)) {
        (void)try_path(&search, SIMBA_MODULE_DIR);
    }
    if (search.module == NULL && search.why[0] != '\0') {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "the store of \"%s:\" cannot be loaded: %s",
                               scheme, search.why);
    }
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if (search.module == NULL && strcmp(ours[i], search.name) == 0) {
            return simba_error_set(
                error, SIMBA_EINVAL, 0,
                "the module of \"%s:\" is not installed: 'apt install "
                "simba-%s' "
                "does, or 'make install' where its client library is; no "
                "simba-%s.so in $SIMBA_MODULE_PATH, beside this "
                "program or in %s",
                scheme, search.name, search.name, SIMBA_MODULE_DIR);
        }
    }
    if (search.module == NULL) {
        return refuse(url, scheme, error);
    }
    ops = dlsym(search.module, SIMBA_MODULE_SYMBOL);
    if (ops == NULL || ops->abi != SIMBA_BACKEND_ABI || ops->open == NULL ||
        ops->submit == NULL || ops->close == NULL) {
        dlclose(search.module);
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "simba-%s.so was made for another version of "
                               "simba",
                               search.name);
    }
    *out = ops;
    return SIMBA_OK;
}

/* --- by URL -------------------------------------------------------------- */

int simba__backend_find(const char *url,
                        const simba_backend_ops **ops,
                        const char **rest,
                        simba_error *error)
{
    static const simba_backend_ops *const embedded[] = {
        &simba__memory_ops, &simba__sqlite_ops, &simba__shim_ops[0],
        &simba__shim_ops[1], &simba__shim_ops[2]};
    size_t length = strcspn(url, ":");
    char scheme[SCHEME_MOST];
    const char *stray;

    if (length == 0 || length >= SCHEME_MOST || url[length] == '\0') {
        return refuse(url, NULL, error);
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)url[i];
        if (!isalnum(c) && c != '+' && c != '-') {
            return refuse(url, NULL, error);
        }
        scheme[i] = (char)tolower(c);
    }
    scheme[length] = '\0';
    *rest = url + length + 1;
    stray = find_stray(*rest);
    if (stray != NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "%s: %s", scheme, stray);
    }
    for (size_t i = 0; i < sizeof embedded / sizeof embedded[0]; i++) {
        if (strcmp(embedded[i]->scheme, scheme) == 0) {
            *ops = embedded[i];
            return SIMBA_OK;
        }
    }
    return load_module(url, scheme, ops, error);
}

int simba__backend_find_bare(const char **url,
                             const simba_backend_ops **ops,
                             const char **rest,
                             simba_error *error)
{
    int rc = simba__backend_find(*url, ops, rest, error);

    while (rc == SIMBA_OK && simba__shim_is_one(*ops)) {
        char *options;

        rc = simba__shim_split(*rest, &options, url, error);
        if (rc == SIMBA_OK) {
            free(options);
            rc = simba__backend_find(*url, ops, rest, error);
        }
    }
    return rc;
}
