/* Which backend speaks for a URL. The embedded ones are linked in; the others
 * are modules, loaded when one of their schemes is first opened, so that a
 * program gets no client library it never uses. */
#define _GNU_SOURCE
#include "api/store.h"

#include "backends/memory/memory.h"
#include "backends/sqlite/sqlite.h"
#include "shims/shim.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_ROOM = 4096, SCHEME_MOST = 32 };

/* A module may speak several schemes; any other is asked of its namesake. */
static const char *module_of(const char *scheme)
{
    static const char *const names[][2] = {
        {"rediss", "redis"},         {"redis+unix", "redis"},
        {"redis+sentinel", "redis"}, {"redis+cluster", "redis"},
        {"mariadb", "mysql"},        {"postgresql", "postgres"},
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i][0], scheme) == 0) {
            return names[i][1];
        }
    }
    return scheme;
}

/* --- where they are ------------------------------------------------------ */

/* What one search found. */
struct search {
    const char *name;
    void *module;
    char why[192]; /* a file that is there but cannot be loaded */
};

static bool try_directory(struct search *search,
                          const char *directory,
                          size_t length)
{
    char path[PATH_ROOM];
    int count = snprintf(path, sizeof path, "%.*s/simba-%s.so", (int)length,
                         directory, search->name);

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

/* Where this very library or program is, links followed. A program's own name
 * may be what a shell was given, which says nothing of where it lies. */
static bool find_myself(char *path)
{
    static const char here;
    struct link_map *map = NULL;
    Dl_info self;

    if (dladdr1(&here, &self, (void **)&map, RTLD_DL_LINKMAP) == 0) {
        return false;
    }
    return realpath(map->l_name[0] == '\0' ? "/proc/self/exe" : map->l_name,
                    path) != NULL;
}

/* A program that has loaded the library for itself alone, as interpreters do,
 * shares it with the module that way. */
static bool try_beside(struct search *search)
{
    static const char *const below[] = {"", "/simba", "/../lib/simba",
                                        "/../../lib/simba"};
    char myself[PATH_MAX], path[PATH_ROOM];
    const char *slash;

    if (!find_myself(myself) || (slash = strrchr(myself, '/')) == NULL) {
        return false;
    }
    (void)dlopen(myself, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        int count = snprintf(path, sizeof path, "%.*s%s", (int)(slash - myself),
                             myself, below[i]);

        if (count < (int)sizeof path &&
            try_directory(search, path, (size_t)count)) {
            return true;
        }
    }
    return false;
}

/* --- loading ------------------------------------------------------------- */

/* Those that we make but that may not be installed, and those we never heard
 * of. */
static int not_found(const char *scheme, const char *name, simba_error *error)
{
    static const char *const ours[] = {"mysql", "postgres", "redis",
                                       "zookeeper"};

    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if (strcmp(ours[i], name) == 0) {
            return simba_error_set(
                error, SIMBA_EINVAL, 0,
                "the module of \"%s:\", simba-%s.so, is not installed in %s "
                "nor in $SIMBA_MODULE_PATH nor beside this program: 'make "
                "install' makes it where its client library is",
                scheme, name, SIMBA_MODULE_DIR);
        }
    }
    return simba_error_set(
        error, SIMBA_EINVAL, 0,
        "no store speaks \"%s:\"; there are sqlite:, redis:, "
        "postgres:, mysql:, zookeeper: and memory:",
        scheme);
}

static int load_module(const char *scheme,
                       const simba_backend_ops **out,
                       simba_error *error)
{
    struct search search = {.name = module_of(scheme)};
    const simba_backend_ops *ops;

    if (!try_path(&search, secure_getenv("SIMBA_MODULE_PATH")) &&
        !try_beside(&search)) {
        (void)try_path(&search, SIMBA_MODULE_DIR);
    }
    if (search.module == NULL && search.why[0] != '\0') {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "the store of \"%s:\" cannot be loaded: %s",
                               scheme, search.why);
    }
    if (search.module == NULL) {
        return not_found(scheme, search.name, error);
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

static int take_scheme(const char *url,
                       char *scheme,
                       const char **rest,
                       simba_error *error)
{
    const char *colon = strchr(url, ':');
    size_t length = colon == NULL ? 0 : (size_t)(colon - url);

    if (length == 0 || length >= SCHEME_MOST) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "not a store URL: it should begin as in "
                               "sqlite:path or redis://host");
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)url[i];
        if (!isalnum(c) && c != '+' && c != '-') {
            return simba_error_set(error, SIMBA_EINVAL, 0,
                                   "not a store URL: bad scheme");
        }
        scheme[i] = (char)tolower(c);
    }
    scheme[length] = '\0';
    *rest = colon + 1;
    return SIMBA_OK;
}

int simba__backend_find(const char *url,
                        const simba_backend_ops **ops,
                        const char **rest,
                        simba_error *error)
{
    static const simba_backend_ops *const embedded[] = {
        &simba__memory_ops, &simba__sqlite_ops, &simba__fault_ops,
        &simba__trace_ops, &simba__stat_ops};
    char scheme[SCHEME_MOST];
    int rc = take_scheme(url, scheme, rest, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    for (size_t i = 0; i < sizeof embedded / sizeof embedded[0]; i++) {
        if (strcmp(embedded[i]->scheme, scheme) == 0) {
            *ops = embedded[i];
            return SIMBA_OK;
        }
    }
    return load_module(scheme, ops, error);
}

char *simba__backend_schema(const char *url, bool upgrade, simba_error *error)
{
    simba_backend_config config = {
        .url = url, .log = simba__log_nothing, .find = simba__backend_find};
    const simba_backend_ops *ops;
    char *text;

    if (simba__backend_find(url, &ops, &config.rest, error) != SIMBA_OK) {
        return NULL;
    }
    if (ops->schema != NULL) {
        text = ops->schema(&config, upgrade, error);
    } else if ((text = strdup("")) == NULL) {
        simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    /* cppcheck takes the text for a part of what it was made from. */
    // cppcheck-suppress returnDanglingLifetime
    return text;
}
