#include "kit/servers.h"

#include "util/text.h"

#include <string.h>

int simba__servers_read(struct simba__servers *servers,
                        const struct simba__url_form *form,
                        const char *rest,
                        simba_error *error)
{
    struct simba__url *url = &servers->url;
    const char *problem;
    size_t length;
    int rc;

    servers->tls = SIMBA__TLS_DEFAULTS;
    rc = simba__url_read(url, form, rest, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    problem = url->host_count == 0               ? "the URL names no host"
              : !simba__text_unescape(url->path) ? "the path has a broken "
                                                   "%-escape"
                                                 : NULL;
    for (length = strlen(url->path); length > 0 && url->path[length - 1] == '/';
         length--) {
        url->path[length - 1] = '\0';
    }
    return problem != NULL
               ? simba__url_refuse(form, problem, error)
               : simba__tls_settle(&servers->tls, form, false, error);
}

void simba__servers_fini(struct simba__servers *servers)
{
    simba__tls_context_close(servers->tls_context);
    servers->tls_context = NULL;
    simba__url_fini(&servers->url);
}

simba_connection_config simba__servers_connection(
    const struct simba__servers *servers,
    const simba_session_store *store)
{
    bool is_plain = servers->tls_context == NULL;

    return (simba_connection_config){
        .size = sizeof(simba_connection_config),
        .store = store->ops->name,
        .loop = store->base.loop,
        .hosts = servers->url.hosts,
        .host_count = servers->url.host_count,
        .first_host = SIMBA_CONNECTION_ANY_HOST,
        .filter = is_plain ? NULL : &simba__tls_filter,
        .filter_context = servers->tls_context,
        .has_pushes = true,
        .fails_unsent = true,
        .hang_up_hint = is_plain ? ": does it want TLS?" : NULL};
}

/* --- findings of a doctor ------------------------------------------------ */

void simba__servers_find_tls(const struct simba__servers *servers,
                             simba_request *request)
{
    bool is_local = true;

    for (size_t i = 0; i < servers->url.host_count; i++) {
        is_local &= simba__url_is_local(servers->url.hosts[i].name);
    }
    simba_request_add_finding(
        request,
        servers->tls.is_on || is_local ? SIMBA_FINDING_OK : SIMBA_FINDING_WEAK,
        "tls", "%s",
        servers->tls.is_on ? "what is sent is encrypted"
        : is_local         ? "not needed: this machine"
                           : "not encrypted, passwords neither: say tls=on");
}

void simba__servers_find_quorum(simba_request *request,
                                const char *name,
                                int voters,
                                enum simba_gravity alone)
{
    if (voters <= 1) {
        simba_request_add_finding(
            request, alone, name,
            "a single server: while it is down nobody acquires");
    } else {
        simba_request_add_finding(
            request, voters % 2 == 0 ? SIMBA_FINDING_NOTE : SIMBA_FINDING_OK,
            name, "%d servers vote: mutexes survive the loss of %d", voters,
            (voters - 1) / 2);
    }
}
