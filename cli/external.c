/* Finding and running simba-NAME; see cli.h. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "cli/output.h"
#include "util/file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "simba-"

enum { NAME_MOST = 64, LISTED_MOST = 256 };

const char *const simba__external_ours[] = {"bench", "verify", "tck", "serve",
                                            NULL};

/* Called for each directory in their order, until it answers true. */
typedef bool simba__directory_fn(void *user, const char *directory);

/* libexec, where this program lies, then $PATH. Whoever can link a set-user-id
 * program into a directory of his own can put anything beside it, so that one
 * believes only a directory that nobody but root can write to. */
static bool walk(simba__directory_fn *look_in, void *user)
{
    bool is_secure = simba__is_set_user_id();
    const char *path = secure_getenv("PATH");
    char beside[2 * PATH_MAX], directory[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", beside, PATH_MAX - 1);
    struct stat status;

    if (length > 0) {
        beside[length] = '\0';
        (void)snprintf(strrchr(beside, '/') + 1, PATH_MAX, "%s", SIMBA_LIBEXEC);
    }
    if (length > 0 && realpath(beside, directory) != NULL &&
        (!is_secure || (stat(directory, &status) == 0 && status.st_uid == 0 &&
                        (status.st_mode & (S_IWGRP | S_IWOTH)) == 0)) &&
        look_in(user, directory)) {
        return true;
    }
    while (path != NULL && *path != '\0') {
        size_t part = strcspn(path, ":");

        /* Not where somebody happens to stand. */
        if (*path == '/' && part < sizeof directory) {
            (void)snprintf(directory, sizeof directory, "%.*s", (int)part,
                           path);
            if (look_in(user, directory)) {
                return true;
            }
        }
        path += part + (path[part] == ':');
    }
    return false;
}

static bool is_program(const char *path)
{
    struct stat status;

    return access(path, X_OK) == 0 && stat(path, &status) == 0 &&
           S_ISREG(status.st_mode);
}

/* --- one ----------------------------------------------------------------- */

struct path_search {
    const char *name;
    char path[PATH_MAX];
};

static bool look(void *user, const char *directory)
{
    struct path_search *search = user;
    int length = snprintf(search->path, sizeof search->path, "%s/" PREFIX "%s",
                          directory, search->name);

    return length < (int)sizeof search->path && is_program(search->path);
}

static bool is_name(const char *name)
{
    size_t length = strlen(name);

    for (const char *c = name; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && strchr("_-", *c) == NULL) {
            return false;
        }
    }
    return length > 0 && length <= NAME_MOST && isalnum((unsigned char)name[0]);
}

/* Takes --store and its value out of the words, wherever it stands before "--",
 * for words become arguments of another program. False: it has no value. */
static bool take_store(struct simba__cli *cli, int *argc, char **argv)
{
    int to = 1;
    bool is_open = true;

    for (int from = 1; from < *argc; from++) {
        char *word = argv[from];
        size_t length = strcspn(word, "=");

        is_open = is_open && strcmp(word, "--") != 0;
        /* As getopt_long() does, it may be cut short. */
        if (!is_open || length < strlen("--st") || length > strlen("--store") ||
            strncmp(word, "--store", length) != 0) {
            argv[to++] = word;
        } else if (word[length] == '=') {
            simba__options_take_store(cli, word + length + 1);
        } else if (from + 1 < *argc) {
            simba__options_take_store(cli, argv[++from]);
        } else {
            return false;
        }
    }
    argv[to] = NULL;
    *argc = to;
    return true;
}

/* Several stores are for a command that wants them; false: no memory. */
static bool pass_stores(void)
{
    const char *const *stores = simba__options_stores();
    struct simba__text all = {0};
    bool is_passed;

    if (stores[0] == NULL || stores[1] == NULL) {
        return true;
    }
    for (; *stores != NULL; stores++) {
        simba__text_put(&all, all.length == 0 ? "" : "\n");
        simba__text_put(&all, *stores);
    }
    is_passed =
        !all.is_failed && setenv(SIMBA__STORES_VARIABLE, all.bytes, 1) == 0;
    simba__text_fini(&all);
    return is_passed;
}

int simba__external_run(const struct simba__cli *given, int argc, char **argv)
{
    struct simba__cli cli = *given;
    struct path_search search = {.name = argv[0]};
    const char *variable = secure_getenv("SIMBA_STORE");
    bool is_left; /* $SIMBA_STORE, to the one that --store required asks for */
    char title[sizeof PREFIX + NAME_MOST], verbosity[16];

    if (!is_name(argv[0])) {
        return -1;
    }
    if (!walk(look, &search)) {
        for (size_t i = 0; simba__external_ours[i] != NULL; i++) {
            if (strcmp(argv[0], simba__external_ours[i]) == 0) {
                simba__say("%s%s is not installed: 'apt install simba-%s' does",
                           PREFIX, argv[0],
                           strcmp(argv[0], "serve") == 0 ? argv[0] : "tools");
                return SIMBA__EXIT_NOT_FOUND;
            }
        }
        return -1;
    }
    if (!take_store(&cli, &argc, argv)) {
        simba__say("option --store needs a value; see 'simba %s --help'",
                   argv[0]);
        return SIMBA__EXIT_USAGE;
    }
    /* Never go on with another store. */
    if (cli.store != NULL && simba__is_set_user_id()) {
        simba__say("a set-user-id program takes no --store for %s%s", PREFIX,
                   argv[0]);
        return SIMBA__EXIT_CONFIG;
    }
    if (cli.store != NULL && *cli.store == '\0') {
        simba__say("--store: an empty one is no store; leave it out for the "
                   "default");
        return SIMBA__EXIT_CONFIG;
    }
    is_left = cli.store != NULL && strcmp(cli.store, "required") == 0 &&
              variable != NULL && *variable != '\0';
    (void)snprintf(verbosity, sizeof verbosity, "%d", cli.verbosity);
    if ((cli.store != NULL && !is_left &&
         (setenv("SIMBA_STORE", cli.store, 1) != 0 ||
          setenv("SIMBA_STORE_IS_OPTION", "1", 1) != 0)) ||
        !pass_stores() ||
        setenv("SIMBA_JSON", cli.is_json ? "1" : "0", 1) != 0 ||
        setenv("SIMBA_VERBOSITY", verbosity, 1) != 0) {
        simba__say("out of memory");
        return SIMBA__EXIT_CONFIG;
    }
    (void)snprintf(title, sizeof title, "%s%s", PREFIX, argv[0]);
    argv[0] = title;
    (void)execv(search.path, argv);
    simba__say("cannot run %s: %s", search.path, strerror(errno));
    return simba__exit_of_exec(errno);
}

/* --- all ----------------------------------------------------------------- */

struct listing {
    bool (*each)(void *user, const char *name, const char *path);
    void *user;
    char seen[LISTED_MOST][NAME_MOST + 1];
    size_t count;
};

static bool list_directory(void *user, const char *directory)
{
    struct listing *l = user;
    DIR *entries = opendir(directory);
    struct dirent *entry;
    char path[PATH_MAX];
    bool is_over = false;
    size_t i;

    while (entries != NULL && !is_over && l->count < LISTED_MOST &&
           (entry = readdir(entries)) != NULL) {
        const char *name = entry->d_name + strlen(PREFIX);

        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 ||
            !is_name(name) ||
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) >=
                (int)sizeof path ||
            !is_program(path)) {
            continue;
        }
        for (i = 0; i < l->count && strcmp(l->seen[i], name) != 0; i++) {
        }
        if (i == l->count) {
            (void)snprintf(l->seen[l->count++], NAME_MOST + 1, "%s", name);
            is_over = l->each(l->user, name, path);
        }
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    return is_over;
}

void simba__external_list(bool (*each)(void *user,
                                       const char *name,
                                       const char *path),
                          void *user)
{
    struct listing listing = {.each = each, .user = user};

    (void)walk(list_directory, &listing);
}
