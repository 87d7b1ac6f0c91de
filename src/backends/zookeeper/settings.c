#define _GNU_SOURCE
#include "backends/zookeeper/settings.h"

#include "util/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char default_port[] = ":2181";

static int no_memory(simba_error *error)
{
    return simba_error_set(error, SIMBA_ENOMEM, 0, "zookeeper: no memory");
}

static int broken_escape(simba_error *error)
{
    return simba_error_set(error, SIMBA_EINVAL, 0,
                           "zookeeper: broken %%-escape in the URL");
}

/* --- who we are ---------------------------------------------------------- */

static int read_password_file(const char *path, char **out, simba_error *error)
{
    FILE *file = fopen(path, "re");
    size_t room = 0;
    ssize_t length = -1;

    *out = NULL;
    if (file != NULL) {
        length = getline(out, &room, file);
        fclose(file);
    }
    if (length < 0) {
        free(*out);
        *out = NULL;
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "zookeeper: cannot read the password file");
    }
    (*out)[strcspn(*out, "\r\n")] = '\0';
    return SIMBA_OK;
}

/* The password: from the URL, else a file, else the environment. */
static int find_password(const char *given,
                         const char *file,
                         char **out,
                         simba_error *error)
{
    const char *environment = getenv("SIMBA_ZOOKEEPER_PASSWORD");

    if (given == NULL && file != NULL) {
        return read_password_file(file, out, error);
    }
    if (given == NULL) {
        given = environment == NULL ? "" : environment;
    }
    *out = strdup(given);
    return *out == NULL ? no_memory(error) : SIMBA_OK;
}

static int read_user(struct simba__zk_settings *settings,
                     char *user,
                     const char *file,
                     simba_error *error)
{
    char *given = strchr(user, ':'), *password = NULL;
    int rc;

    if (given != NULL) {
        *given++ = '\0';
    }
    if (!simba__text_unescape(user) ||
        (given != NULL && !simba__text_unescape(given))) {
        return broken_escape(error);
    }
    if (user[0] == '\0' || strchr(user, ':') != NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "zookeeper: a user name has at least one "
                               "character and no colon");
    }
    rc = find_password(given, file, &password, error);
    if (rc == SIMBA_OK &&
        asprintf(&settings->auth, "%s:%s", user, password) < 0) {
        settings->auth = NULL;
        rc = no_memory(error);
    }
    free(password);
    return rc;
}

/* No user in the URL: perhaps in the environment. */
static int read_environment(struct simba__zk_settings *settings,
                            const char *file,
                            simba_error *error)
{
    const char *given = getenv("SIMBA_ZOOKEEPER_USER");
    char *user = given == NULL ? NULL : strdup(given);
    int rc = given == NULL  ? SIMBA_OK
             : user == NULL ? no_memory(error)
                            : read_user(settings, user, file, error);

    free(user);
    return rc;
}

/* --- where --------------------------------------------------------------- */

/* Behind the brackets of an IPv6 address only; NULL: none is given. */
static const char *port_of(const char *host)
{
    const char *bracket = strrchr(host, ']');

    return strchr(bracket == NULL ? host : bracket, ':');
}

static bool is_port(const char *text)
{
    size_t length = strspn(text, "0123456789");
    long port = strtol(text, NULL, 10);

    return length > 0 && length <= 5 && text[length] == '\0' && port > 0 &&
           port <= UINT16_MAX;
}

/* Appends a host, with a port. */
static bool add_host(char **hosts, const char *host)
{
    bool has_port = port_of(host) != NULL;
    char *longer = NULL;

    if (asprintf(&longer, "%s%s%s%s", *hosts == NULL ? "" : *hosts,
                 *hosts == NULL ? "" : ",", host,
                 has_port ? "" : default_port) < 0) {
        return false;
    }
    free(*hosts);
    *hosts = longer;
    return true;
}

static int read_hosts(struct simba__zk_settings *settings,
                      char *hosts,
                      simba_error *error)
{
    char *rest = NULL;

    for (char *host = strtok_r(hosts, ",", &rest); host != NULL;
         host = strtok_r(NULL, ",", &rest)) {
        const char *port = port_of(host);

        if (port == host || (port != NULL && !is_port(port + 1))) {
            return simba_error_set(error, SIMBA_EINVAL, 0,
                                   "zookeeper: a server is host or host:port, "
                                   "with a port from 1 to 65535");
        }
        if (!add_host(&settings->hosts, host)) {
            return no_memory(error);
        }
    }
    if (settings->hosts == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "zookeeper: the URL names no host; write "
                               "zookeeper://host:2181,host:2181/chroot");
    }
    return SIMBA_OK;
}

static int read_chroot(struct simba__zk_settings *settings,
                       const char *path,
                       simba_error *error)
{
    size_t length = strlen(path);

    while (length > 0 && path[length - 1] == '/') {
        length--;
    }
    settings->chroot = strndup(path, length);
    if (settings->chroot == NULL || !simba__text_unescape(settings->chroot)) {
        return settings->chroot == NULL ? no_memory(error)
                                        : broken_escape(error);
    }
    if (strstr(settings->chroot, "//") != NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "zookeeper: empty name in the chroot");
    }
    if (asprintf(&settings->base, "%s/simba", settings->chroot) < 0) {
        settings->base = NULL;
        return no_memory(error);
    }
    return SIMBA_OK;
}

/* --- parameters ---------------------------------------------------------- */

struct parameters {
    const char *acl;
    const char *password_file;
    const char *tls;
};

static const char **slot_of(struct parameters *parameters, const char *name)
{
    if (strcmp(name, "acl") == 0) {
        return &parameters->acl;
    }
    if (strcmp(name, "password_file") == 0) {
        return &parameters->password_file;
    }
    return strcmp(name, "tls") == 0 ? &parameters->tls : NULL;
}

static int read_query(struct parameters *parameters,
                      char *query,
                      simba_error *error)
{
    char *rest = NULL;

    for (char *name = strtok_r(query, "&", &rest); name != NULL;
         name = strtok_r(NULL, "&", &rest)) {
        char *value = strchr(name, '=');
        const char **slot;

        if (value != NULL) {
            *value++ = '\0';
        }
        slot = slot_of(parameters, name);
        if (slot == NULL || value == NULL) {
            return simba_error_set(error, SIMBA_EINVAL, 0,
                                   "zookeeper: unknown parameter \"%.40s\" "
                                   "in the URL",
                                   name);
        }
        if (!simba__text_unescape(value)) {
            return broken_escape(error);
        }
        *slot = value;
    }
    return SIMBA_OK;
}

static int read_acl(struct simba__zk_settings *settings,
                    const char *word,
                    simba_error *error)
{
    bool is_known = settings->auth != NULL;

    settings->acl = is_known ? SIMBA__ZK_ACL_CREATOR : SIMBA__ZK_ACL_OPEN;
    if (word == NULL) {
        return SIMBA_OK;
    }
    if (strcmp(word, "open") == 0) {
        settings->acl = SIMBA__ZK_ACL_OPEN;
        return SIMBA_OK;
    }
    if (strcmp(word, "creator") != 0 && strcmp(word, "shared") != 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "zookeeper: acl is open, creator or shared");
    }
    settings->acl =
        word[0] == 'c' ? SIMBA__ZK_ACL_CREATOR : SIMBA__ZK_ACL_SHARED;
    return is_known ? SIMBA_OK
                    : simba_error_set(error, SIMBA_EINVAL, 0,
                                      "zookeeper: acl=%s needs a user in the "
                                      "URL",
                                      word);
}

static int read_tls(const char *word, simba_error *error)
{
    if (word == NULL || strcmp(word, "off") == 0) {
        return SIMBA_OK;
    }
    return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                           "zookeeper: this client library was built without "
                           "TLS; say tls=off, or nothing, and go through a "
                           "tunnel where it is needed");
}

/* --- the whole ----------------------------------------------------------- */

/* Else the end of such a password would be told as a name of something. */
static int check_end(const char *url, simba_error *error)
{
    if (strchr(url + strcspn(url, "/?"), '@') == NULL) {
        return SIMBA_OK;
    }
    return simba_error_set(error, SIMBA_EINVAL, 0,
                           "zookeeper: in a password / is written %%2F and ? "
                           "%%3F, and behind the servers @ is written %%40");
}

static int read_url(struct simba__zk_settings *settings,
                    char *url,
                    simba_error *error)
{
    struct parameters parameters = {0};
    char *query = strchr(url, '?'), *path, *hosts;
    int rc = check_end(url, error);

    if (rc == SIMBA_OK && query != NULL) {
        *query++ = '\0';
        rc = read_query(&parameters, query, error);
    }
    path = strchr(url, '/');
    if (rc == SIMBA_OK) {
        rc = read_chroot(settings, path == NULL ? "" : path, error);
    }
    if (path != NULL) {
        *path = '\0';
    }
    hosts = strrchr(url, '@');
    if (rc == SIMBA_OK && hosts != NULL) {
        *hosts++ = '\0';
        rc = read_user(settings, url, parameters.password_file, error);
    } else if (rc == SIMBA_OK) {
        rc = read_environment(settings, parameters.password_file, error);
    }
    if (rc == SIMBA_OK) {
        rc = read_hosts(settings, hosts == NULL ? url : hosts, error);
    }
    if (rc == SIMBA_OK) {
        rc = read_acl(settings, parameters.acl, error);
    }
    return rc == SIMBA_OK ? read_tls(parameters.tls, error) : rc;
}

int simba__zk_settings_init(struct simba__zk_settings *settings,
                            const char *rest,
                            simba_error *error)
{
    char *url;
    int rc;

    *settings = (struct simba__zk_settings){0};
    if (strncmp(rest, "//", 2) != 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "zookeeper: write "
                               "zookeeper://host:2181,host:2181/chroot");
    }
    url = strdup(rest + 2);
    if (url == NULL) {
        return no_memory(error);
    }
    rc = read_url(settings, url, error);
    explicit_bzero(url, strlen(url));
    free(url);
    return rc;
}

void simba__zk_settings_fini(struct simba__zk_settings *settings)
{
    if (settings->auth != NULL) {
        explicit_bzero(settings->auth, strlen(settings->auth));
    }
    free(settings->auth);
    free(settings->hosts);
    free(settings->chroot);
    free(settings->base);
    *settings = (struct simba__zk_settings){0};
}
