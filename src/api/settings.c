#define _GNU_SOURCE
#include "api/settings.h"

#include "api/config_file.h"
#include "api/store.h"
#include "kit/secret.h"
#include "util/text.h"

#include <simba/duration.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the URL ------------------------------------------------------------- */

void simba_url_hide_secrets(char *url)
{
    simba__url_hide(url);
}

/* Puts user and password, or NULL, before the @ of a URL. Returns what is
 * wrong, or NULL; *whole NULL: no memory. */
static const char *put_in(const char *url,
                          const char *user,
                          const char *password,
                          char **whole)
{
    const char *start = strstr(url, "://");
    struct simba__text text = {0};
    const char *at;

    *whole = NULL;
    if (user == NULL && password == NULL) {
        *whole = strdup(url);
        return NULL;
    }
    if (start == NULL) {
        return "this store knows no user or password";
    }
    start += strlen("://");
    at = memrchr(start, '@', strcspn(start, "/?"));
    if (at != NULL && user != NULL) {
        return "the URL names a user already";
    }
    if (at != NULL && memchr(start, ':', (size_t)(at - start)) != NULL) {
        return "the URL has a password already";
    }
    simba__text_add(&text, url, (size_t)((at != NULL ? at : start) - url));
    simba__text_escape(&text, user != NULL ? user : "");
    if (password != NULL) {
        simba__text_put(&text, ":");
        simba__text_escape(&text, password);
    }
    simba__text_put(&text, "@");
    simba__text_put(&text, at != NULL ? at + 1 : start);
    *whole = simba__text_take(&text);
    return NULL;
}

/* --- from the file ------------------------------------------------------- */

/* The URL that a section, or the head, stands for. */
static int url_of_section(struct simba__settings *settings,
                          const struct simba__config_file *config,
                          const struct simba__config_section *section,
                          simba_error *error)
{
    enum simba__config_key key =
        section->name == NULL ? SIMBA__CONFIG_STORE : SIMBA__CONFIG_URL;
    const char *file = section->values[SIMBA__CONFIG_PASSWORD_FILE];
    const char *given = section->values[SIMBA__CONFIG_PASSWORD];
    char *password = NULL;
    const char *problem;
    simba_error why;
    int rc =
        file == NULL ? SIMBA_OK : simba__secret_read(file, &password, &why);

    assert(section->values[key] != NULL && settings->url == NULL);
    if (rc != SIMBA_OK) {
        return simba_error_set(
            error, rc, why.native, "%s:%d: password_file: %s", config->path,
            section->lines[SIMBA__CONFIG_PASSWORD_FILE], why.message);
    }
    problem = put_in(section->values[key], section->values[SIMBA__CONFIG_USER],
                     password != NULL ? password : given, &settings->url);
    simba__secret_free(password);
    if (problem != NULL) {
        return simba__config_fail(config, section->lines[key], problem, error);
    }
    return settings->url == NULL ? simba__fail_memory(error) : SIMBA_OK;
}

/* They were checked when the file was read. */
static void take_times(struct simba__settings *settings,
                       const struct simba__config_section *section)
{
    const char *ttl = section->values[SIMBA__CONFIG_TTL];
    const char *transition = section->values[SIMBA__CONFIG_TRANSITION];

    if (ttl != NULL) {
        (void)!simba_duration_parse(ttl, &settings->ttl_ms, NULL);
    }
    if (transition != NULL) {
        (void)!simba_duration_parse(transition, &settings->transition_ms, NULL);
    }
}

static int take_config(struct simba__settings *settings,
                       const struct simba__config_file *config,
                       const char *given,
                       simba_error *error)
{
    const char *store = config->head.values[SIMBA__CONFIG_STORE];
    const char *level = config->head.values[SIMBA__CONFIG_LOG_LEVEL];
    const char *name = given != NULL ? given : store;
    char *path;

    take_times(settings, &config->head);
    if (level != NULL) {
        (void)simba__log_level_of(level, &settings->log_level);
    }
    if (name == NULL && simba__is_set_user_id()) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "which store? a set-user-id program has no "
                               "default: name one, or write store = URL into "
                               "/etc/simba.conf");
    }
    if (name == NULL) { /* the embedded store of this user */
        path = simba__path_of_user("XDG_STATE_HOME", "/.local/state",
                                   "simba/simba.db");
        if (path == NULL || asprintf(&settings->url, "sqlite:%s", path) < 0) {
            settings->url = NULL;
        }
        free(path);
    } else if (strchr(name, ':') == NULL) { /* it leads to its section */
        const struct simba__config_section *section =
            simba__config_file_find(config, name);

        if (section == NULL && given == NULL) {
            return simba__config_fail(config,
                                      config->head.lines[SIMBA__CONFIG_STORE],
                                      "store: neither a store URL, such as "
                                      "sqlite:path, nor the name of a section",
                                      error);
        }
        if (section == NULL && !simba__config_is_name(name)) {
            return simba_error_set(error, SIMBA_EINVAL, 0,
                                   "not a store URL: it should begin as in "
                                   "sqlite:path or redis://host");
        }
        if (section == NULL) {
            return simba_error_set(
                error, SIMBA_EINVAL, 0,
                "'%s' is not a store URL, such as sqlite:path, and there is no "
                "[store %s] in %s",
                name, name,
                config->path != NULL ? config->path : "a config file");
        }
        take_times(settings, section);
        return url_of_section(settings, config, section, error);
    } else if (given == NULL) {
        return url_of_section(settings, config, &config->head, error);
    } else {
        settings->url = strdup(given);
    }
    return settings->url == NULL ? simba__fail_memory(error) : SIMBA_OK;
}

/* --- all together -------------------------------------------------------- */

int simba__settings_find(struct simba__settings *settings,
                         const char *given,
                         enum simba_config_use use,
                         simba_error *error)
{
    struct simba__config_file config = {0};
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
        rc = simba__config_file_load(&config, error);
    }
    if (rc == SIMBA_OK) {
        rc = take_config(settings, &config, given, error);
    }
    simba__config_file_free(&config);
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
