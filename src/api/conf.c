#define _GNU_SOURCE
#include "api/conf.h"

#include "api/ini.h"
#include "api/settings.h"
#include "core/lease.h"
#include "kit/secret.h"

#include <simba/duration.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    int64_t ms;

    if (problem == NULL && simba_duration_parse(value, &ms, NULL) == SIMBA_OK &&
        ms < SIMBA__TTL_LEAST_MS) {
        problem = "shorter than 100ms";
    }
    return problem;
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

static const char *check_url(const char *value)
{
    return strchr(value, ':') == NULL ? "must be a store URL, as in sqlite:path"
                                      : NULL;
}

enum position { IN_HEAD = 1, IN_SECTION = 2 };

static const struct {
    const char *name;
    unsigned positions;
    const char *(*check)(const char *value); /* says what is wrong, or NULL */
} keys[SIMBA__CONF_KEYS] = {
    [SIMBA__CONF_STORE] = {"store", IN_HEAD, check_text},
    [SIMBA__CONF_LOG_LEVEL] = {"log_level", IN_HEAD, check_log_level},
    [SIMBA__CONF_URL] = {"url", IN_SECTION, check_url},
    [SIMBA__CONF_USER] = {"user", IN_HEAD | IN_SECTION, check_text},
    [SIMBA__CONF_PASSWORD] = {"password", IN_HEAD | IN_SECTION, check_text},
    [SIMBA__CONF_PASSWORD_FILE] = {"password_file", IN_HEAD | IN_SECTION,
                                   check_path},
    [SIMBA__CONF_TTL] = {"ttl", IN_HEAD | IN_SECTION, check_ttl},
    [SIMBA__CONF_TRANSITION] = {"transition", IN_HEAD | IN_SECTION,
                                check_transition},
};

/* --- errors -------------------------------------------------------------- */

bool simba__conf_is_name(const char *text)
{
    size_t length = strlen(text);

    return length > 0 && length <= 64 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789_.-") == length;
}

int simba__conf_fail(const struct simba__conf *conf,
                     int line,
                     const char *what,
                     simba_error *error)
{
    return simba_error_set(error, SIMBA_EMISCONFIG, 0, "%s:%d: %s", conf->path,
                           line, what);
}

static int fail_key(const struct simba__conf *conf,
                    const struct simba__ini_line *line,
                    const char *what,
                    simba_error *error)
{
    char text[192];

    /* A URL without a key looks like one, up to its =. */
    (void)snprintf(text, sizeof text, "%s: %s",
                   simba__conf_is_name(line->key) ? line->key : "a key", what);
    return simba__conf_fail(conf, line->number, text, error);
}

static int fail_memory(simba_error *error)
{
    return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
}

/* --- taking lines -------------------------------------------------------- */

static int open_section(struct simba__conf *conf,
                        const struct simba__ini_line *line,
                        simba_error *error)
{
    static const char prefix[] = "store ";
    struct simba__conf_section *section;
    const char *name = line->value + strlen(prefix);

    if (strncmp(line->value, prefix, strlen(prefix)) != 0 ||
        !simba__conf_is_name(name += strspn(name, " \t"))) {
        return simba__conf_fail(conf, line->number,
                                "a section is called [store NAME]", error);
    }
    if (simba__conf_find(conf, name) != NULL) {
        return simba__conf_fail(conf, line->number,
                                "there is a section of this name already",
                                error);
    }
    section = calloc(1, sizeof *section);
    if (section == NULL || (section->name = strdup(name)) == NULL) {
        free(section);
        return fail_memory(error);
    }
    section->line = line->number;
    conf->last->next = section;
    conf->last = section;
    return SIMBA_OK;
}

/* A secret keeps the file from being readable by others. */
static bool is_secret(int key, const char *value)
{
    return key == SIMBA__CONF_PASSWORD ||
           ((key == SIMBA__CONF_URL || key == SIMBA__CONF_STORE) &&
            simba__url_has_secret(value));
}

static int take_value(struct simba__conf *conf,
                      const struct simba__ini_line *line,
                      int key,
                      simba_error *error)
{
    struct simba__conf_section *section = conf->last;
    enum position position = section->name == NULL ? IN_HEAD : IN_SECTION;
    const char *problem = keys[key].check(line->value);

    if ((keys[key].positions & position) == 0) {
        problem = position == IN_HEAD ? "belongs into a section [store NAME]"
                                      : "belongs to the head of the file";
    } else if (section->values[key] != NULL) {
        problem = "is given twice";
    }
    if (problem != NULL) {
        return fail_key(conf, line, problem, error);
    }
    if (is_secret(key, line->value)) {
        conf->secret_line = line->number;
    }
    section->lines[key] = line->number;
    section->values[key] = strdup(line->value);
    return section->values[key] == NULL ? fail_memory(error) : SIMBA_OK;
}

static int take_line(void *user,
                     const struct simba__ini_line *line,
                     simba_error *error)
{
    struct simba__conf *conf = user;

    if (line->key == NULL) {
        return open_section(conf, line, error);
    }
    for (int i = 0; i < SIMBA__CONF_KEYS; i++) {
        if (strcmp(keys[i].name, line->key) == 0) {
            return take_value(conf, line, i, error);
        }
    }
    return fail_key(conf, line, "there is no such key", error);
}

/* --- the whole ----------------------------------------------------------- */

static int check_section(const struct simba__conf *conf,
                         const struct simba__conf_section *section,
                         simba_error *error)
{
    if (section->name != NULL && section->values[SIMBA__CONF_URL] == NULL) {
        return simba__conf_fail(conf, section->line, "this section has no url",
                                error);
    }
    if (section->values[SIMBA__CONF_PASSWORD] != NULL &&
        section->values[SIMBA__CONF_PASSWORD_FILE] != NULL) {
        return simba__conf_fail(conf, section->lines[SIMBA__CONF_PASSWORD_FILE],
                                "password_file: there is a password already",
                                error);
    }
    return SIMBA_OK;
}

/* Some editors put a byte order mark before the text. */
static char *after_mark(char *text)
{
    static const char mark[] = "\xef\xbb\xbf";

    return strncmp(text, mark, strlen(mark)) == 0 ? text + strlen(mark) : text;
}

static int read_text(struct simba__conf *conf,
                     struct simba__conf_text *text,
                     simba_error *error)
{
    simba_error found = {0, 0, ""};
    int rc;

    if (strlen(text->bytes) != text->size) {
        return simba__conf_fail(conf, 1, "not a text file", error);
    }
    rc = simba__ini_read(after_mark(text->bytes), take_line, conf, &found);
    if (rc == SIMBA_EINVAL) { /* the reader does not know the file's name */
        return simba_error_set(error, SIMBA_EMISCONFIG, 0, "%s:%s", conf->path,
                               found.message);
    }
    if (rc == SIMBA_OK && conf->secret_line != 0 && text->is_open_to_others) {
        rc = simba__conf_fail(conf, conf->secret_line,
                              "a password, and others can read this file; "
                              "chmod o= it, or use password_file",
                              &found);
    }
    for (const struct simba__conf_section *s = &conf->head;
         s != NULL && rc == SIMBA_OK; s = s->next) {
        rc = check_section(conf, s, &found);
    }
    return rc == SIMBA_OK ? rc
                          : simba_error_set(error, rc, 0, "%s", found.message);
}

int simba__conf_load(struct simba__conf *conf, simba_error *error)
{
    struct simba__conf_text text;
    int rc;

    *conf = (struct simba__conf){0};
    conf->last = &conf->head;
    rc = simba__conf_path(&conf->path, error);
    if (rc != SIMBA_OK || conf->path == NULL) {
        return rc;
    }
    rc = simba__conf_text_read(&text, conf->path, error);
    if (rc == SIMBA_OK) {
        rc = read_text(conf, &text, error);
        simba__conf_text_free(&text);
    }
    return rc;
}

static void free_values(struct simba__conf_section *section)
{
    for (int i = 0; i < SIMBA__CONF_KEYS; i++) {
        simba__secret_free(section->values[i]);
    }
}

void simba__conf_free(struct simba__conf *conf)
{
    struct simba__conf_section *next;

    free_values(&conf->head);
    for (struct simba__conf_section *s = conf->head.next; s != NULL; s = next) {
        next = s->next;
        free_values(s);
        free(s->name);
        free(s);
    }
    free(conf->path);
}

const struct simba__conf_section *simba__conf_find(
    const struct simba__conf *conf,
    const char *name)
{
    for (const struct simba__conf_section *s = conf->head.next; s != NULL;
         s = s->next) {
        if (strcmp(s->name, name) == 0) {
            return s;
        }
    }
    return NULL;
}
