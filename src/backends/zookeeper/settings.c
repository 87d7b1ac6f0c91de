/* What the URL of a ZooKeeper store says:
 *
 *   zookeeper://[user[:password]@]host[:port][,host[:port]...][/chroot]
 *               [?acl=open|creator|shared][&password_file=path][&tls=off] */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "util/file.h"
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct simba__parameter parameters[] = {
    {"acl", SIMBA__PARAMETER_CHOICE, offsetof(struct simba__zk_settings, acl),
     "open creator shared", 0,
     "who may use the nodes we make: anybody; who gives this user and "
     "password; the same, but anybody may read"},
    {"tls", SIMBA__PARAMETER_CHOICE, offsetof(struct simba__zk_settings, tls),
     SIMBA__OFF_ON, 0, "on is refused: the client library has no TLS"},
    {0}};

static const struct simba__url_form form = {
    .store = "zookeeper",
    .example = "zookeeper://host:2181,host:2181/chroot",
    .parameters = parameters,
    .is_networked = true};

char *simba__zk_hosts_from(const struct simba__zk_settings *settings,
                           unsigned first)
{
    size_t count = settings->url.host_count;
    struct simba__text text = {0};

    for (size_t i = 0; i < count; i++) {
        const simba_connection_host *host =
            &settings->url.hosts[(first + i) % count];
        bool is_v6 = strchr(host->name, ':') != NULL;

        simba__text_printf(&text, "%s%s%s%s:%d", i == 0 ? "" : ",",
                           is_v6 ? "[" : "", host->name, is_v6 ? "]" : "",
                           host->port == 0 ? SIMBA__ZK_PORT : host->port);
    }
    return simba__text_take(&text);
}

/* Says what is wrong, or NULL. */
static const char *check(const struct simba__zk_settings *settings)
{
    const struct simba__url *url = &settings->url;

    if (url->host_count == 0) {
        return "the URL names no host";
    }
    if (!simba__text_unescape(url->path)) {
        return "broken %-escape in the chroot";
    }
    if (strstr(url->path, "//") != NULL) {
        return "empty name in the chroot";
    }
    if (url->user == NULL ? url->password != NULL && url->own_password == NULL
                          : strchr(url->user, ':') != NULL) {
        return "a user name has at least one character and no colon";
    }
    return url->user == NULL && settings->acl > (int)SIMBA__ZK_ACL_OPEN
               ? "acl=creator and acl=shared need a user"
               : NULL;
}

int simba__zk_settings_init(struct simba__zk_settings *settings,
                            const char *rest,
                            simba_error *error)
{
    struct simba__url *url = &settings->url;
    const char *problem;
    size_t length;
    int rc;

    *settings = (struct simba__zk_settings){.acl = -1};
    rc = simba__url_read(url, &form, rest, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    length = strlen(url->path);
    while (length > 0 && url->path[length - 1] == '/') {
        url->path[--length] = '\0';
    }
    problem = check(settings);
    if (problem != NULL) {
        return simba__url_refuse(&form, problem, error);
    }
    if (settings->tls != 0) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "zookeeper: this client library was built "
                               "without TLS; say tls=off, or nothing, and go "
                               "through a tunnel where it is needed");
    }
    if (settings->acl < 0) {
        settings->acl =
            url->user == NULL ? SIMBA__ZK_ACL_OPEN : SIMBA__ZK_ACL_CREATOR;
    }
    settings->hosts = simba__zk_hosts_from(settings, 0);
    settings->chroot = url->path;
    if (asprintf(&settings->base, "%s/simba", url->path) < 0) {
        settings->base = NULL;
    }
    if (url->user != NULL &&
        asprintf(&settings->auth, "%s:%s", url->user,
                 url->password == NULL ? "" : url->password) < 0) {
        settings->auth = NULL;
    }
    return settings->hosts == NULL || settings->base == NULL ||
                   (url->user != NULL && settings->auth == NULL)
               ? simba_error_set(error, SIMBA_ENOMEM, 0, "zookeeper: no memory")
               : SIMBA_OK;
}

void simba__zk_settings_fini(struct simba__zk_settings *settings)
{
    simba__url_fini(&settings->url);
    simba__secret_free(settings->auth);
    free(settings->hosts);
    free(settings->base);
    *settings = (struct simba__zk_settings){0};
}

char *simba__zk_help(void)
{
    return simba__parameters_help(&form);
}
