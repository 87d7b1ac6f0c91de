/* What the URL of an etcd store says:
 *
 *   etcd://[user:password@]host[:2379][,host[:2379]...][/namespace]
 *          [?tls=on&ca=file&cert=file&key=file…] */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_MOST = 128 };

static const struct simba__parameter parameters[] = {{0}};

static const struct simba__url_form form = {
    .store = "etcd",
    .example = "etcd://host:2379,host:2379/namespace",
    .parameters = parameters,
    .is_networked = true,
    .port = 2379,
    .tls_offset = offsetof(simba__etcd_settings, tls)};

/* Says what is wrong, or NULL. */
static const char *check(const struct simba__url *url)
{
    if (url->host_count == 0) {
        return "the URL names no host";
    }
    if (!simba__text_unescape(url->path)) {
        return "broken %-escape in the namespace";
    }
    if (strlen(url->path) > PREFIX_MOST) {
        return "a namespace has at most 128 bytes";
    }
    return (url->user == NULL) != (url->password == NULL)
               ? "a user needs a password, and a password a user"
               : NULL;
}

int simba__etcd_settings_init(simba__etcd_settings *settings,
                              const char *rest,
                              simba_error *error)
{
    struct simba__url *url = &settings->url;
    const char *problem, *path;
    size_t length;
    int rc;

    *settings = (simba__etcd_settings){.tls = SIMBA__TLS_DEFAULTS};
    rc = simba__url_read(url, &form, rest, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    problem = check(url);
    path = url->path + strspn(url->path, "/");
    length = strcspn(path, "/");
    if (problem == NULL && path[length + strspn(path + length, "/")] != '\0') {
        /* The keys of "a/q" would be in a queue of "a". */
        problem = "a namespace has no slash in it";
    }
    if (problem != NULL) {
        return simba__url_refuse(&form, problem, error);
    }
    if (asprintf(&settings->prefix, "%.*s/", (int)(length > 0 ? length : 5),
                 length > 0 ? path : "simba") < 0) {
        settings->prefix = NULL;
        return simba_error_set(error, SIMBA_ENOMEM, 0, "etcd: no memory");
    }
    settings->tls.protocol = "h2";
    return simba__tls_settle(&settings->tls, &form, false, error);
}

void simba__etcd_settings_fini(simba__etcd_settings *settings)
{
    simba__url_fini(&settings->url);
    free(settings->prefix);
    *settings = (simba__etcd_settings){0};
}

char *simba__etcd_help(void)
{
    return simba__parameters_help(&form);
}
