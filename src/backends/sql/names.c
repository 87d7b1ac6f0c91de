/* Names of hosts. The client libraries ask for them themselves, but inside the
 * loop, and a name server that does not answer would hold up every renewal. So
 * a thread of its own asks beforehand, and no library is told to connect before
 * there was an answer. What it asks again then, name servers remember. */
#define _GNU_SOURCE
#include "backends/sql/engine.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

static void forget_hosts(struct simba__sql_session *session)
{
    free(session->hosts);
    session->hosts = NULL;
}

void simba__sql_names_cancel(struct simba__sql_session *session)
{
    simba__lookup_cancel(session->lookup);
    session->lookup = NULL;
    forget_hosts(session);
}

/* Of several, one will do: the library tries them in turn. */
static void found_all(struct simba__sql_session *session)
{
    simba_error error;

    forget_hosts(session);
    if (session->is_found || session->not_found == NULL) {
        session->self->dialect->dial(session);
        return;
    }
    simba_error_set(&error, SIMBA_EUNAVAIL, 0, "%s: host name: %s",
                    session->self->shown, session->not_found);
    simba__sql_broken(session, SIMBA_EUNAVAIL, &error);
}

static void ask_next(struct simba__sql_session *session);

static void on_found(void *self, struct addrinfo *list, const char *why)
{
    struct simba__sql_session *session = self;

    session->lookup = NULL;
    if (list != NULL) {
        session->is_found = true;
        freeaddrinfo(list);
    } else {
        session->not_found = why;
    }
    ask_next(session);
}

/* An address in figures is answered from within, so this may be deeper than it
 * looks. Sockets have no names. */
static void ask_next(struct simba__sql_session *session)
{
    struct simba__asker asker = {on_found, session};
    simba__lookup *lookup;
    const char *host;

    do {
        host = session->next_host == NULL ? NULL
                                          : strsep(&session->next_host, ",");
    } while (host != NULL && simba__sql_is_local(host));
    if (host == NULL) {
        found_all(session);
        return;
    }
    lookup = simba__lookup_start(session->self->base.loop, host, 0, asker);
    if (lookup != NULL) {
        session->lookup = lookup;
    }
}

void simba__sql_names_ask(struct simba__sql_session *session, const char *hosts)
{
    session->is_found = false;
    session->not_found = NULL;
    session->hosts = simba__sql_is_local(hosts) ? NULL : strdup(hosts);
    session->next_host = session->hosts;
    ask_next(session);
}
