/* What the URL of a ZooKeeper store says:
 *
 *   zookeeper://[user[:password]@]host[:port][,host[:port]...][/chroot]
 *               [?acl=open|creator|shared][&password_file=path][&tls=on…] */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "util/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct simba__parameter parameters[] = {
    {"acl", SIMBA__PARAMETER_CHOICE, offsetof(simba__zk_settings, acl),
     "open creator shared", 0,
     "who may use the nodes we make: anybody; who gives this user and "
     "password; the same, but anybody may read"},
    {0}};

static const struct simba__url_form form = {
    .store = "zookeeper",
    .example = "zookeeper://host:2181,host:2181/chroot",
    .parameters = parameters,
    .is_networked = true,
    .port = 2181,
    .tls_offset = SIMBA__SERVERS_TLS};

/* Says what is wrong, or NULL. */
static const char *check(const simba__zk_settings *settings)
{
    const struct simba__url *url = &settings->servers.url;

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

int simba__zk_settings_init(simba__zk_settings *settings,
                            const char *rest,
                            simba_error *error)
{
    const struct simba__url *url = &settings->servers.url;
    const char *problem;
    int rc;

    *settings = (simba__zk_settings){.acl = -1};
    rc = simba__servers_read(&settings->servers, &form, rest, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    problem = check(settings);
    if (problem != NULL) {
        return simba__url_refuse(&form, problem, error);
    }
    if (settings->acl < 0) {
        settings->acl =
            url->user == NULL ? SIMBA__ZK_ACL_OPEN : SIMBA__ZK_ACL_CREATOR;
    }
    if (asprintf(&settings->base, "%s/simba", url->path) < 0) {
        settings->base = NULL;
    } else if (url->user == NULL ||
               asprintf(&settings->auth, "%s:%s", url->user,
                        url->password == NULL ? "" : url->password) >= 0) {
        return SIMBA_OK;
    }
    settings->auth = NULL;
    return simba_error_set(error, SIMBA_ENOMEM, 0, "zookeeper: no memory");
}

void simba__zk_settings_fini(simba__zk_settings *settings)
{
    simba__servers_fini(&settings->servers);
    simba__secret_free(settings->auth);
    free(settings->base);
    *settings = (simba__zk_settings){0};
}

char *simba__zk_help(void)
{
    return simba__parameters_help(&form);
}
