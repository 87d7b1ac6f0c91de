/* Written by hand, because the library at hand for this cuts lines at 200 bytes
 * and does not say in which line a key stands. */
#define _GNU_SOURCE
#include "api/config_file.h"

#include "api/store.h"
#include "core/lease.h"
#include "kit/secret.h"
#include "util/guess.h"

#include <simba/duration.h>

#include <assert.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- what a value must be ------------------------------------------------ */

static const char *check_text(const char *value)
{
    return *value == '\0' ? "has no value" : NULL;
}

static const char *check_transition(const char *value)
{
    int64_t ms;

    return simba_duration_parse(value, &ms, NULL) == SIMBA_OK
               ? NULL
               : "no duration of up to ten years; write a number and a unit, "
                 "such as 250ms or 10s";
}

static const char *check_ttl(const char *value)
{
    const char *problem = check_transition(value);
    int64_t ms = 0;

    if (problem == NULL && simba_duration_parse(value, &ms, NULL) == SIMBA_OK &&
        ms < SIMBA__TTL_LEAST_MS) {
        problem = "shorter than 100ms";
    }
    return problem;
}

bool simba__log_level_of(const char *name, enum simba_log_level *level)
{
    for (int i = SIMBA_LOG_ERROR; i <= (int)SIMBA_LOG_DEBUG; i++) {
        *level = (enum simba_log_level)i;
        if (strcmp(simba_log_level_name(*level), name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *check_log_level(const char *value)
{
    enum simba_log_level level;

    return simba__log_level_of(value, &level)
               ? NULL
               : "must be error, warn, info or debug";
}

/* Else it would be another file in every directory. */
static const char *check_path(const char *value)
{
    return value[0] == '/' ? NULL : "must be a path from the root on";
}

static const char *check_choice(const char *value)
{
    return strcmp(value, "yes") == 0 || strcmp(value, "no") == 0
               ? NULL
               : "must be yes or no";
}

static const char *check_url(const char *value)
{
    return strchr(value, ':') == NULL ? "must be a store URL, as in sqlite:path"
                                      : NULL;
}

enum part { IN_HEAD = 1, IN_SECTION = 2, IN_BOTH = 3 };

static const struct {
    const char *name;
    enum part part;
    const char *(*check)(const char *value); /* says what is wrong, or NULL */
} keys[SIMBA__CONFIG_KEYS] = {
    [SIMBA__CONFIG_STORE] = {"store", IN_HEAD, check_text},
    [SIMBA__CONFIG_STORE_REQUIRED] = {"store_required", IN_HEAD, check_choice},
    [SIMBA__CONFIG_LOG_LEVEL] = {"log_level", IN_HEAD, check_log_level},
    [SIMBA__CONFIG_URL] = {"url", IN_SECTION, check_url},
    [SIMBA__CONFIG_USER] = {"user", IN_BOTH, check_text},
    [SIMBA__CONFIG_PASSWORD] = {"password", IN_BOTH, check_text},
    [SIMBA__CONFIG_PASSWORD_FILE] = {"password_file", IN_BOTH, check_path},
    [SIMBA__CONFIG_TTL] = {"ttl", IN_BOTH, check_ttl},
    [SIMBA__CONFIG_TRANSITION] = {"transition", IN_BOTH, check_transition},
};

/* --- errors -------------------------------------------------------------- */

bool simba__config_is_name(const char *text)
{
    size_t length = strlen(text);

    return length > 0 && length <= 64 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789_.-") == length;
}

int simba__config_fail(const struct simba__config_file *config,
                       int line,
                       const char *what,
                       simba_error *error)
{
    return simba_error_set(error, SIMBA_EMISCONFIG, 0, "%s:%d: %s",
                           config->path, line, what);
}

/* --- reading ------------------------------------------------------------- */

static int open_section(struct simba__config_file *config,
                        int line,
                        const char *text,
                        simba_error *error)
{
    static const char prefix[] = "store ";
    struct simba__config_section *section;
    const char *name = text + strlen(prefix);

    if (strncmp(text, prefix, strlen(prefix)) != 0 ||
        !simba__config_is_name(name += strspn(name, " \t"))) {
        return simba__config_fail(config, line,
                                  "a section is called [store NAME], without "
                                  "quotes",
                                  error);
    }
    if (strcmp(name, SIMBA__STORE_REQUIRED) == 0) {
        return simba__config_fail(config, line,
                                  "no section can be called so: --store "
                                  "required means that one must be named",
                                  error);
    }
    if (simba__config_file_find(config, name) != NULL) {
        return simba__config_fail(
            config, line, "there is a section of this name already", error);
    }
    section = calloc(1, sizeof *section);
    if (section == NULL || (section->name = strdup(name)) == NULL) {
        free(section);
        return simba__fail_memory(error);
    }
    assert(config->last->next == NULL);
    section->line = line;
    config->last->next = section;
    config->last = section;
    return SIMBA_OK;
}

static int take_value(struct simba__config_file *config,
                      int line,
                      const char *const pair[2],
                      simba_error *error)
{
    struct simba__config_section *section = config->last;
    enum part part = section->name == NULL ? IN_HEAD : IN_SECTION;
    const char *problem;
    char near[64], text[192];
    int key = 0;

    assert(line > 0);
    while (key < SIMBA__CONFIG_KEYS && strcmp(keys[key].name, pair[0]) != 0) {
        key++;
    }
    if (key == SIMBA__CONFIG_KEYS) {
        problem = "there is no such key";
        for (int i = SIMBA__CONFIG_KEYS - 1; i >= 0; i--) {
            if (simba__guess_is_near(pair[0], keys[i].name)) {
                (void)snprintf(near, sizeof near,
                               "there is no such key; did you mean %s?",
                               keys[i].name);
                problem = near;
            }
        }
    } else if ((keys[key].part & part) == 0) {
        problem = part == IN_HEAD ? "belongs into a section [store NAME]"
                                  : "belongs to the head of the file";
    } else if (section->values[key] != NULL) {
        problem = "is given twice";
    } else if (key != SIMBA__CONFIG_USER && key != SIMBA__CONFIG_PASSWORD &&
               strchr("\"'", pair[1][0]) != NULL && pair[1][0] != '\0') {
        problem = "values are not quoted";
    } else if ((key == SIMBA__CONFIG_STORE || key == SIMBA__CONFIG_URL) &&
               (strstr(pair[1], " #") != NULL ||
                strstr(pair[1], " ;") != NULL)) {
        problem = "a comment has a line of its own";
    } else {
        problem = keys[key].check(pair[1]);
    }
    if (problem != NULL) {
        /* A URL without a key looks like one, up to its =. */
        (void)snprintf(text, sizeof text, "%s: %s",
                       simba__config_is_name(pair[0]) ? pair[0] : "a key",
                       problem);
        return simba__config_fail(config, line, text, error);
    }
    /* A secret keeps the file from being readable by others. */
    if (key == SIMBA__CONFIG_PASSWORD ||
        ((key == SIMBA__CONFIG_URL || key == SIMBA__CONFIG_STORE) &&
         simba__url_has_secret(pair[1]))) {
        config->secret_line = line;
    }
    section->lines[key] = line;
    section->values[key] = strdup(pair[1]);
    return section->values[key] == NULL ? simba__fail_memory(error) : SIMBA_OK;
}

static char *trim(char *text)
{
    static const char blanks[] = " \t\r\v\f";
    size_t length;

    text += strspn(text, blanks);
    length = strlen(text);
    while (length > 0 && strchr(blanks, text[length - 1]) != NULL) {
        length--;
    }
    text[length] = '\0';
    return text;
}

/* A comment, a [section], or key = value. A value may hold # and ;, so comments
 * have lines of their own. */
static int take_line(struct simba__config_file *config,
                     int line,
                     char *text,
                     simba_error *error)
{
    size_t length = strlen(text);
    char *equals = strchr(text, '=');

    if (length == 0 || *text == '#' || *text == ';') {
        return SIMBA_OK;
    }
    if (*text == '[' && length >= 2 && text[length - 1] == ']') {
        text[length - 1] = '\0';
        return open_section(config, line, trim(text + 1), error);
    }
    if (*text != '[' && equals != NULL) {
        *equals = '\0';
        text = trim(text);
        if (*text != '\0') {
            const char *const pair[2] = {text, trim(equals + 1)};

            return take_value(config, line, pair, error);
        }
    }
    /* It is not shown: it may hold a password. */
    return simba__config_fail(config, line, "neither [section] nor key = value",
                              error);
}

static int read_text(struct simba__config_file *config,
                     char *text,
                     simba_error *error)
{
    static const char mark[] = "\xef\xbb\xbf"; /* some editors put it first */
    int rc = SIMBA_OK;
    char *one;

    if (strncmp(text, mark, strlen(mark)) == 0) {
        text += strlen(mark);
    }
    for (int line = 1; rc == SIMBA_OK && (one = strsep(&text, "\n")) != NULL;
         line++) {
        rc = take_line(config, line, trim(one), error);
    }
    for (const struct simba__config_section *s = &config->head;
         s != NULL && rc == SIMBA_OK; s = s->next) {
        if (s->name != NULL && s->values[SIMBA__CONFIG_URL] == NULL) {
            rc = simba__config_fail(config, s->line, "this section has no url",
                                    error);
        } else if (s->values[SIMBA__CONFIG_PASSWORD] != NULL &&
                   s->values[SIMBA__CONFIG_PASSWORD_FILE] != NULL) {
            rc = simba__config_fail(
                config, s->lines[SIMBA__CONFIG_PASSWORD_FILE],
                "password_file: there is a password already", error);
        }
    }
    return rc;
}

/* --- where --------------------------------------------------------------- */

char *simba__path_of_user(const char *variable,
                          const char *or_else,
                          const char *rest)
{
    const char *given = variable == NULL ? NULL : secure_getenv(variable);
    const char *home = variable == NULL ? NULL : secure_getenv("HOME");
    bool is_given = given != NULL && given[0] == '/';
    struct passwd entry, *found = NULL;
    char buffer[4096], *path = NULL;

    if (!is_given && (home == NULL || home[0] != '/')) {
        getpwuid_r(getuid(), &entry, buffer, sizeof buffer, &found);
        home = found != NULL ? found->pw_dir : "/nonexistent";
    }
    return asprintf(&path, "%s%s/%s", is_given ? given : home,
                    is_given ? "" : or_else, rest) < 0
               ? NULL
               : path;
}

/* One that is there but cannot be read is an error later, not a reason to go
 * on with another. */
static bool is_there(const char *path)
{
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* --- the whole ----------------------------------------------------------- */

static const char of_all[] = "/etc/simba.conf";

/* The file at the path of `config`, which is not NULL. */
static int read_file(struct simba__config_file *config, simba_error *error)
{
    struct simba__file file;
    struct stat about;
    int rc = simba__guarded_file_read(&file, config->path, error);

    if (rc != SIMBA_OK) {
        bool is_foreign = stat(config->path, &about) == 0 &&
                          about.st_uid != 0 && about.st_uid != geteuid();

        /* As su(1) and sudo(8) leave it. */
        return config->is_of_user && (rc == SIMBA_EDENIED || is_foreign)
                   ? simba_error_set(
                         error, rc, 0,
                         "%.100s: %s: $HOME or $XDG_CONFIG_HOME leads there; "
                         "set it to your own, or SIMBA_CONFIG=/dev/null for no "
                         "config file",
                         config->path,
                         is_foreign ? "belongs to somebody else"
                                    : strerror(EACCES))
                   : rc;
    }
    config->last = &config->head;
    rc = strlen(file.bytes) == file.size
             ? read_text(config, file.bytes, error)
             : simba__config_fail(config, 1, "not a text file", error);
    if (rc == SIMBA_OK && config->secret_line != 0 &&
        (file.status.st_mode & S_IROTH) != 0) {
        rc = simba__config_fail(config, config->secret_line,
                                "a password, and others can read this file; "
                                "chmod o= it, or use password_file",
                                error);
    }
    simba__file_fini(&file);
    return rc;
}

int simba__config_file_load(struct simba__config_file *config,
                            simba_error *error)
{
    const char *given = secure_getenv("SIMBA_CONFIG");
    bool is_given = given != NULL && given[0] != '\0';

    *config = (struct simba__config_file){0};
    if (is_given && strcmp(given, "/dev/null") == 0) {
        return SIMBA_OK;
    }
    config->is_of_user = !is_given && !simba__is_set_user_id();
    config->path = is_given ? strdup(given)
                   : config->is_of_user
                       ? simba__path_of_user("XDG_CONFIG_HOME", "/.config",
                                             "simba/simba.conf")
                       : strdup(of_all);
    if (config->path != NULL && !is_given && !is_there(config->path)) {
        free(config->path);
        *config = (struct simba__config_file){0};
        if (!is_there(of_all)) {
            return SIMBA_OK;
        }
        config->path = strdup(of_all);
    }
    return config->path == NULL ? simba__fail_memory(error)
                                : read_file(config, error);
}

int simba__config_file_allow_default(const struct simba__config_file *config,
                                     simba_error *error)
{
    enum simba__config_key key = SIMBA__CONFIG_STORE_REQUIRED;
    const struct simba__config_file *asked = config;
    struct simba__config_file all = {0};
    int rc = SIMBA_OK;

    if (config->is_of_user && config->head.values[key] == NULL &&
        is_there(of_all)) {
        asked = &all;
        all.path = strdup(of_all);
        rc = all.path == NULL ? simba__fail_memory(error)
                              : read_file(&all, error);
    }
    if (rc == SIMBA_OK && asked->head.values[key] != NULL &&
        strcmp(asked->head.values[key], "yes") == 0) {
        rc = simba__config_fail(asked, asked->head.lines[key],
                                "store_required: no store is named; give "
                                "--store URL, set $SIMBA_STORE, or write "
                                "store = URL here",
                                error);
    }
    simba__config_file_free(&all);
    return rc;
}

static void free_values(struct simba__config_section *section)
{
    for (int i = 0; i < SIMBA__CONFIG_KEYS; i++) {
        simba__secret_free(section->values[i]);
    }
}

void simba__config_file_free(struct simba__config_file *config)
{
    struct simba__config_section *next;

    free_values(&config->head);
    for (struct simba__config_section *s = config->head.next; s != NULL;
         s = next) {
        next = s->next;
        free_values(s);
        free(s->name);
        free(s);
    }
    free(config->path);
}

const struct simba__config_section *simba__config_file_find(
    const struct simba__config_file *config,
    const char *name)
{
    const struct simba__config_section *s = config->head.next;

    while (s != NULL && strcmp(s->name, name) != 0) {
        s = s->next;
    }
    return s;
}
