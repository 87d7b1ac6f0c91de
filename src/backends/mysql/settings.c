/* What the URL of a MySQL or MariaDB store says:
 *
 *     mysql://user:password@host:port/database?socket=/path&tls=on */
#define _GNU_SOURCE
#include "backends/mysql/mysql.h"

#include "kit/secret.h"
#include "util/text.h"

#include <string.h>

#define OFFSET(member) offsetof(struct simba__my_settings, member)
#define TEXT(name, member, help)                                               \
    {                                                                          \
        name, SIMBA__PARAMETER_TEXT, OFFSET(member), NULL, 0, help             \
    }

static const struct simba__parameter parameters[] = {
    TEXT("socket", socket, "the path of a local socket"),
    {"jvm", SIMBA__PARAMETER_FLAG, OFFSET(is_jvm_expected), "auto fair", 0,
     "fair: leave room for JVM contenders, also while none is seen"},
    TEXT("option_file", option_file, "read instead of the usual option files"),
    TEXT("tls_ca", tls.ca, NULL),
    TEXT("tls_cert", tls.cert, NULL),
    TEXT("tls_key", tls.key, NULL),
    {0}};

static const struct simba__url_form form = {
    .store = "mysql",
    .example = "mysql://user@host:3306/database",
    .parameters = parameters,
    .is_networked = true,
    .tls_offset = offsetof(struct simba__my_settings, tls)};

static const char *or_null(const char *text)
{
    return text == NULL || text[0] == '\0' ? NULL : text;
}

int simba__my_settings_read(struct simba__my_settings *settings,
                            const char *rest,
                            simba_error *error)
{
    struct simba__url *url = &settings->url;
    struct simba__tls_settings *tls = &settings->tls;
    int rc;

    *settings = (struct simba__my_settings){.tls = SIMBA__TLS_DEFAULTS};
    rc = simba__url_read(url, &form, rest, error);
    if (rc == SIMBA_OK && url->host_count > 1) {
        rc = simba__url_refuse(&form, "one server only", error);
    } else if (rc == SIMBA_OK &&
               (strlen(url->path) < 2 || !simba__text_unescape(url->path))) {
        rc = simba__url_refuse(&form, "the URL names no database", error);
    }
    if (rc == SIMBA_OK) {
        if (url->host_count > 0) {
            settings->host = or_null(url->hosts[0].name);
            settings->port = (unsigned)url->hosts[0].port;
        }
        settings->user = or_null(url->user);
        settings->password = or_null(url->password);
        settings->database = url->path + 1;
        /* Who says nothing about TLS gets it to any other machine. */
        rc = simba__tls_settle(tls, &form,
                               tls->ca != NULL || tls->cert != NULL ||
                                   !simba__url_is_local(settings->host),
                               error);
    }
    if (rc == SIMBA_OK) {
        rc = simba__library_file_check(form.store, settings->option_file, false,
                                       error);
    }
    if (rc != SIMBA_OK) {
        simba__my_settings_fini(settings);
    }
    return rc;
}

void simba__my_settings_fini(struct simba__my_settings *settings)
{
    simba__url_fini(&settings->url);
}

char *simba__my_help(void)
{
    return simba__parameters_help(&form);
}
