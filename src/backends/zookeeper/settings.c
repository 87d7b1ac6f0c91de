/* What the URL of a ZooKeeper store says:
 *
 *   zookeeper://[user[:password]@]host[:port][,host[:port]...][/chroot]
 *               [?acl=open|creator|shared][&password_file=path][&tls=on…] */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "util/file.h"
#include "util/text.h"

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
    .tls_offset = offsetof(simba__zk_settings, tls)};

/* Says what is wrong, or NULL. */
static const char *check(const simba__zk_settings *settings)
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

int simba__zk_settings_init(simba__zk_settings *settings,
                            const char *rest,
                            simba_error *error)
{
    struct simba__url *url = &settings->url;
    const char *problem;
    size_t length;
    int rc;

    *settings = (simba__zk_settings){.tls = SIMBA__TLS_DEFAULTS, .acl = -1};
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
    if (settings->acl < 0) {
        settings->acl =
            url->user == NULL ? SIMBA__ZK_ACL_OPEN : SIMBA__ZK_ACL_CREATOR;
    }
    settings->chroot = url->path;
    if (asprintf(&settings->base, "%s/simba", url->path) < 0) {
        settings->base = NULL;
    }
    if (url->user != NULL &&
        asprintf(&settings->auth, "%s:%s", url->user,
                 url->password == NULL ? "" : url->password) < 0) {
        settings->auth = NULL;
    }
    return settings->base == NULL ||
                   (url->user != NULL && settings->auth == NULL)
               ? simba_error_set(error, SIMBA_ENOMEM, 0, "zookeeper: no memory")
               : simba__tls_settle(&settings->tls, &form, false, error);
}

void simba__zk_settings_fini(simba__zk_settings *settings)
{
    simba__url_fini(&settings->url);
    simba__secret_free(settings->auth);
    free(settings->base);
    *settings = (simba__zk_settings){0};
}

char *simba__zk_help(void)
{
    return simba__parameters_help(&form);
}
