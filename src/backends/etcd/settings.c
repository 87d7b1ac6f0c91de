/* What the URL of an etcd store says:
 *
 *   etcd://[user:password@]host[:2379][,host[:2379]...][/namespace]
 *          [?tls=on&ca=file&cert=file&key=file…] */
#include "backends/etcd/etcd.h"

#include <stdio.h>
#include <string.h>

static const struct simba__parameter parameters[] = {{0}};

static const struct simba__url_form form = {
    .store = "etcd",
    .example = "etcd://host:2379,host:2379/namespace",
    .parameters = parameters,
    .is_networked = true,
    .port = 2379,
    .tls_offset = SIMBA__SERVERS_TLS};

int simba__etcd_settings_init(simba__etcd_settings *settings,
                              const char *rest,
                              simba_error *error)
{
    const struct simba__url *url = &settings->servers.url;
    const char *problem = NULL, *path;
    int rc;

    *settings = (simba__etcd_settings){0};
    rc = simba__servers_read(&settings->servers, &form, rest, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    settings->servers.tls.protocol = "h2";
    path = url->path + strspn(url->path, "/");
    if (strlen(path) > SIMBA__ETCD_NAMESPACE_MOST) {
        problem = "a namespace has at most 128 bytes";
    } else if (strchr(path, '/') != NULL) {
        /* The keys of "a/q" would be in a queue of "a". */
        problem = "a namespace has no slash in it";
    } else if ((url->user == NULL) != (url->password == NULL)) {
        problem = "a user needs a password, and a password a user";
    }
    snprintf(settings->prefix, sizeof settings->prefix, "%s/",
             path[0] != '\0' ? path : "simba");
    return problem == NULL ? SIMBA_OK
                           : simba__url_refuse(&form, problem, error);
}

char *simba__etcd_help(void)
{
    return simba__parameters_help(&form);
}
