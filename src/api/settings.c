#define _GNU_SOURCE
#include "api/settings.h"

#include "api/config_file.h"
#include "api/store.h"
#include "core/spin.h"
#include "kit/secret.h"
#include "kit/url.h"
#include "util/text.h"

#include <simba/duration.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    (void)snprintf(settings->place, sizeof settings->place, "%s:%d: %s",
                   config->path, section->lines[key],
                   key == SIMBA__CONFIG_URL ? "url" : "store");
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

/* --- where nobody names a store ------------------------------------------ */

/* Root's file is the machine's: root has another $HOME in sudo, in cron and in
 * a unit, and each would have mutexes of its own. /var/lib is where the state
 * of a machine outlives its reboots, as tokens must. */
static const char of_machine[] = "/var/lib/simba/simba.db";

/* Root's file used to be in a home. `path`, which is freed, is where. One that
 * belongs to somebody else is the default of that user. */
static int refuse_former(char *path, simba_error *error)
{
    struct stat former, now;
    int rc = SIMBA_OK;

    if (path == NULL) {
        return simba__fail_memory(error);
    }
    if (stat(path, &former) == 0 && former.st_uid == 0 &&
        (stat(of_machine, &now) != 0 || former.st_dev != now.st_dev ||
         former.st_ino != now.st_ino)) {
        rc = simba_error_set(
            error, SIMBA_EMISCONFIG, 0,
            "root's default was %s and is %s now; two files are two mutexes: "
            "when nobody uses the first, move its directory there or remove "
            "it, or name one of them in /etc/simba.conf, as store = "
            "sqlite:PATH",
            path, of_machine);
    }
    free(path);
    return rc;
}

static int take_default(struct simba__settings *settings,
                        const struct simba__config_file *config,
                        simba_error *error)
{
    static const char state[] = "/.local/state", file[] = "simba/simba.db";
    bool is_root = geteuid() == 0;
    char *path = NULL;
    int rc = simba__config_file_allow_default(config, error);

    if (rc == SIMBA_OK && simba__is_set_user_id()) {
        rc = simba_error_set(error, SIMBA_EMISCONFIG, 0,
                             "which store? a set-user-id program has no "
                             "default: name one, or write store = URL into "
                             "/etc/simba.conf");
    }
    if (rc == SIMBA_OK && is_root) {
        rc = refuse_former(simba__path_of_user("XDG_STATE_HOME", state, file),
                           error);
        rc = rc == SIMBA_OK
                 ? refuse_former(simba__path_of_user(NULL, state, file), error)
                 : rc;
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    path = is_root ? strdup(of_machine)
                   : simba__path_of_user("XDG_STATE_HOME", state, file);
    if (path == NULL || asprintf(&settings->url, "sqlite:%s", path) < 0) {
        settings->url = NULL;
    }
    free(path);
    return settings->url == NULL ? simba__fail_memory(error) : SIMBA_OK;
}

/* --- all together -------------------------------------------------------- */

/* What is named leads to its URL. */
static int take_named(struct simba__settings *settings,
                      const struct simba__config_file *config,
                      const char *name,
                      simba_error *error)
{
    enum simba__config_key key = SIMBA__CONFIG_STORE;
    bool is_of_file = name == config->head.values[key];
    const struct simba__config_section *section;

    if (strchr(name, ':') != NULL && is_of_file) {
        return url_of_section(settings, config, &config->head, error);
    }
    if (strchr(name, ':') != NULL) {
        settings->url = strdup(name);
        return settings->url == NULL ? simba__fail_memory(error) : SIMBA_OK;
    }
    section = simba__config_file_find(config, name);
    if (section != NULL) {
        size_t length = strlen(settings->origin);

        (void)snprintf(settings->origin + length,
                       sizeof settings->origin - length, ", %s:%d",
                       config->path, section->line);
        take_times(settings, section);
        return url_of_section(settings, config, section, error);
    }
    if (is_of_file) {
        return simba__config_fail(config, config->head.lines[key],
                                  "store: neither a store URL, such as "
                                  "sqlite:path, nor the name of a section",
                                  error);
    }
    if (!simba__config_is_name(name)) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "not a store URL: it should begin as in "
                               "sqlite:path or redis://host");
    }
    return simba_error_set(
        error, SIMBA_EINVAL, 0,
        "'%s' is not a store URL, such as sqlite:path, and there is no "
        "[store %s] in %s",
        name, name, config->path != NULL ? config->path : "a config file");
}

/* The first that names a store counts; "required" leaves it to the next one,
 * but not to the default. */
static int take_config(struct simba__settings *settings,
                       const struct simba__config_file *config,
                       const char *given,
                       simba_error *error)
{
    const char *variable = secure_getenv("SIMBA_STORE");
    /* So simba(1) hands over --store to a command that is another program. */
    bool is_option = secure_getenv("SIMBA_STORE_IS_OPTION") != NULL;
    const char *level = config->head.values[SIMBA__CONFIG_LOG_LEVEL];
    int line = config->head.lines[SIMBA__CONFIG_STORE];
    const char *const named[] = {
        given, variable != NULL && *variable != '\0' ? variable : NULL,
        config->head.values[SIMBA__CONFIG_STORE]};
    size_t room = sizeof settings->origin;
    bool is_required = false;

    take_times(settings, &config->head);
    if (level != NULL) {
        (void)simba__log_level_of(level, &settings->log_level);
    }
    for (int i = 0; i < 3; i++) {
        if (named[i] != NULL && strcmp(named[i], SIMBA__STORE_REQUIRED) != 0) {
            (void)snprintf(settings->origin, room, "%s",
                           i == 0 ? "as given" : "from $SIMBA_STORE");
            (void)snprintf(settings->place, sizeof settings->place, "%s",
                           i == 0      ? ""
                           : is_option ? "--store"
                                       : "$SIMBA_STORE");
            if (i == 2) {
                (void)snprintf(settings->origin, room, "from %s:%d",
                               config->path, line);
            }
            return simba__settings_blame(
                settings, take_named(settings, config, named[i], error), error);
        }
        is_required |= named[i] != NULL;
    }
    if (is_required) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "which store? one is required, and none is "
                               "named: give --store URL, set $SIMBA_STORE, or "
                               "write store = URL into /etc/simba.conf");
    }
    (void)snprintf(settings->origin, room, "the default, for none is named");
    return take_default(settings, config, error);
}

/* The one parameter of a URL that is not the store's but ours. */
static int take_spin(struct simba__settings *settings, simba_error *error)
{
    uint64_t most_us = 0;
    char *value;
    int rc = simba__url_take(settings->url, "spin", &value);

    if (rc == SIMBA_OK && value != NULL && strcmp(value, "off") != 0 &&
        !simba__text_number(value, SIMBA__SPIN_LIMIT_US, &most_us)) {
        rc = SIMBA_EINVAL;
    }
    if (rc == SIMBA_EINVAL) {
        (void)simba_error_set(error, rc, 0,
                              "parameter spin must be off or a number of "
                              "microseconds up to %d",
                              SIMBA__SPIN_LIMIT_US);
    } else if (rc != SIMBA_OK) {
        (void)simba__fail_memory(error);
    } else if (value != NULL) {
        settings->spin_us = (int)most_us;
    }
    free(value);
    return rc;
}

int simba__settings_find(struct simba__settings *settings,
                         const char *given,
                         enum simba_config_use use,
                         simba_error *error)
{
    struct simba__config_file config = {0};
    bool is_url = given != NULL && strchr(given, ':') != NULL;
    int rc = SIMBA_OK;

    *settings = (struct simba__settings){.transition_ms = -1,
                                         .log_level = SIMBA_LOG_WARN,
                                         .spin_us = SIMBA__SPIN_ADAPTS};
    if (use == SIMBA_CONFIG_ALWAYS ||
        (use == SIMBA_CONFIG_WHEN_ASKED && !is_url)) {
        rc = simba__config_file_load(&config, error);
    }
    if (rc == SIMBA_OK) {
        rc = take_config(settings, &config, given, error);
    }
    if (rc == SIMBA_OK) {
        rc = simba__settings_blame(settings, take_spin(settings, error), error);
    }
    simba__config_file_free(&config);
    return rc;
}

int simba__settings_blame(const struct simba__settings *settings,
                          int rc,
                          simba_error *error)
{
    if (rc == SIMBA_EINVAL && error != NULL && settings->place[0] != '\0') {
        const simba_error why = *error;

        (void)simba_error_set(error, rc, why.native, "%s: %s", settings->place,
                              why.message);
    }
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
