#define _GNU_SOURCE
#include "api/settings.h"

#include "api/conf.h"

#include <simba/duration.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail_memory(simba_error *error)
{
    return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
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

/* The embedded store of this user; to be freed. */
static char *default_url(void)
{
    const char *state = secure_getenv("XDG_STATE_HOME");
    bool is_given = state != NULL && state[0] == '/';
    char *home = is_given ? strdup(state) : simba__home_directory();
    char *url = NULL;

    if (home != NULL && asprintf(&url, "sqlite:%s%s/simba/simba.db", home,
                                 is_given ? "" : "/.local/state") < 0) {
        url = NULL;
    }
    free(home);
    return url;
}

/* --- from the file ------------------------------------------------------- */

static int fail_password(const char *path, const char *what, simba_error *error)
{
    return simba_error_set(error, SIMBA_EMISCONFIG, 0, "%s: %s", path, what);
}

/* The first line of a file; what follows it is no part of a password. */
static int read_password(const char *path, char **password, simba_error *error)
{
    struct simba__conf_text text;
    int rc = simba__conf_text_read(&text, path, error);

    *password = NULL;
    if (rc != SIMBA_OK) {
        return rc;
    }
    if (text.is_open_to_others) {
        rc = fail_password(path, "others can read this password; chmod o= it",
                           error);
    } else if (strlen(text.bytes) != text.size) {
        rc = fail_password(path, "not a text file", error);
    } else if (strcspn(text.bytes, "\r\n") == 0) {
        rc = fail_password(path, "its first line is empty", error);
    } else {
        text.bytes[strcspn(text.bytes, "\r\n")] = '\0';
        *password = strdup(text.bytes);
        rc = *password == NULL ? fail_memory(error) : SIMBA_OK;
    }
    simba__conf_text_free(&text);
    return rc;
}

/* The password that a section names a file for, if it does. */
static int take_password(const struct simba__conf *conf,
                         const struct simba__conf_section *section,
                         char **password,
                         simba_error *error)
{
    const char *file = section->values[SIMBA__CONF_PASSWORD_FILE];
    simba_error why;
    int rc;

    *password = NULL;
    if (file == NULL) {
        return SIMBA_OK;
    }
    rc = read_password(file, password, &why);
    if (rc == SIMBA_OK || rc == SIMBA_ENOMEM) {
        return rc == SIMBA_OK ? rc : fail_memory(error);
    }
    return simba_error_set(
        error, rc, why.native, "%s:%d: password_file: %s", conf->path,
        section->lines[SIMBA__CONF_PASSWORD_FILE], why.message);
}

/* The URL that a section, or the head, stands for. */
static int url_of_section(struct simba__settings *settings,
                          const struct simba__conf *conf,
                          const struct simba__conf_section *section,
                          simba_error *error)
{
    enum simba__conf_key key =
        section->name == NULL ? SIMBA__CONF_STORE : SIMBA__CONF_URL;
    struct simba__credentials credentials = {
        section->values[SIMBA__CONF_USER],
        section->values[SIMBA__CONF_PASSWORD]};
    char *password;
    int rc = take_password(conf, section, &password, error);

    if (password != NULL) {
        credentials.password = password;
    }
    if (rc == SIMBA_OK) {
        simba_error why;

        rc = simba__url_with(section->values[key], &credentials, &settings->url,
                             &why);
        if (rc == SIMBA_EMISCONFIG) {
            rc =
                simba__conf_fail(conf, section->lines[key], why.message, error);
        } else if (rc != SIMBA_OK) {
            rc = fail_memory(error);
        }
    }
    simba__secret_free(password);
    return rc;
}

static void take_times(struct simba__settings *settings,
                       const struct simba__conf_section *section)
{
    const char *ttl = section->values[SIMBA__CONF_TTL];
    const char *transition = section->values[SIMBA__CONF_TRANSITION];

    /* They were checked when the file was read. */
    if (ttl != NULL) {
        (void)!simba_duration_parse(ttl, &settings->ttl_ms, NULL);
    }
    if (transition != NULL) {
        (void)!simba_duration_parse(transition, &settings->transition_ms, NULL);
    }
}

/* What the program or the environment gave, or the file itself. */
static int no_such_section(const struct simba__conf *conf,
                           const char *name,
                           simba_error *error)
{
    const char *store = conf->head.values[SIMBA__CONF_STORE];

    if (name == store) {
        return simba__conf_fail(conf, conf->head.lines[SIMBA__CONF_STORE],
                                "store: neither a store URL, such as "
                                "sqlite:path, nor the name of a section",
                                error);
    }
    if (!simba__conf_is_name(name)) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "not a store URL: it should begin as in "
                               "sqlite:path or redis://host");
    }
    return simba_error_set(error, SIMBA_EINVAL, 0,
                           "'%s' is not a store URL, such as sqlite:path, and "
                           "there is no [store %s] in %s",
                           name, name,
                           conf->path != NULL ? conf->path : "a config file");
}

/* A name leads to its section, whoever gave it. */
static int take_named(struct simba__settings *settings,
                      const struct simba__conf *conf,
                      const char *name,
                      simba_error *error)
{
    const struct simba__conf_section *section = simba__conf_find(conf, name);

    if (section == NULL) {
        return no_such_section(conf, name, error);
    }
    take_times(settings, section);
    return url_of_section(settings, conf, section, error);
}

static int take_conf(struct simba__settings *settings,
                     const struct simba__conf *conf,
                     const char *given,
                     simba_error *error)
{
    const char *store = conf->head.values[SIMBA__CONF_STORE];
    const char *level = conf->head.values[SIMBA__CONF_LOG_LEVEL];
    const char *name = given != NULL ? given : store;

    take_times(settings, &conf->head);
    if (level != NULL) {
        (void)simba__log_level_of(level, &settings->log_level);
    }
    if (name == NULL) {
        settings->url = default_url();
    } else if (strchr(name, ':') == NULL) {
        return take_named(settings, conf, name, error);
    } else if (given == NULL) {
        return url_of_section(settings, conf, &conf->head, error);
    } else {
        settings->url = strdup(given);
    }
    return settings->url == NULL ? fail_memory(error) : SIMBA_OK;
}

/* --- all together -------------------------------------------------------- */

int simba__settings_find(struct simba__settings *settings,
                         const char *given,
                         enum simba_config_use use,
                         simba_error *error)
{
    struct simba__conf conf = {0};
    bool is_url = given != NULL && strchr(given, ':') != NULL;
    int rc = SIMBA_OK;

    *settings = (struct simba__settings){.transition_ms = -1,
                                         .log_level = SIMBA_LOG_WARN};
    if (given == NULL) {
        given = secure_getenv("SIMBA_STORE");
        given = given != NULL && given[0] == '\0' ? NULL : given;
    }
    if (use == SIMBA_CONFIG_ALWAYS ||
        (use == SIMBA_CONFIG_WHEN_ASKED && !is_url)) {
        rc = simba__conf_load(&conf, error);
    }
    if (rc == SIMBA_OK) {
        rc = take_conf(settings, &conf, given, error);
    }
    simba__conf_free(&conf);
    return rc;
}

void simba__settings_free(struct simba__settings *settings)
{
    simba__secret_free(settings->url);
    settings->url = NULL;
}

int simba_store_describe(const char *url,
                         char *shown,
                         size_t room,
                         simba_error *error)
{
    struct simba__settings settings;
    int rc =
        simba__settings_find(&settings, url, SIMBA_CONFIG_WHEN_ASKED, error);

    if (rc == SIMBA_OK) {
        simba_url_hide_secrets(settings.url);
        (void)snprintf(shown, room, "%s", settings.url);
    }
    simba__settings_free(&settings);
    return rc;
}
