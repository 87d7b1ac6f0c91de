/* The opener: a thread for what may block in the client library. It makes
 * handles, which looks up host names, and closes those that are of no use any
 * more, which waits for their threads. It lives while there is such work. */
#define _GNU_SOURCE
#include "backends/zookeeper/instance.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* What the client library says goes nowhere: it knows no levels of ours, and
 * what matters is told by the session. It is told to say nothing as well: it
 * puts its words together in one buffer for all threads. */
static void drop_message(const char *message)
{
    (void)message;
}

/* Threads inherit the mask and the name of the one that starts them. */
zhandle_t *simba__zk_handle_make(const char *hosts,
                                 int64_t timeout_ms,
                                 watcher_fn watcher,
                                 void *context)
{
    /* It multiplies this by two in an int. */
    int timeout = timeout_ms < INT32_MAX / 2 ? (int)timeout_ms : INT32_MAX / 2;
    sigset_t all, before;
    zhandle_t *handle;

    zoo_set_debug_level((ZooLogLevel)0);
    zoo_deterministic_conn_order(1);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    handle = zookeeper_init2(hosts, watcher, timeout, NULL, context,
                             ZOO_NO_LOG_CLIENTENV, drop_message);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (handle != NULL) {
        /* Else it looks up every host at every turn of its thread; names are
         * still looked up when a connection is lost. */
        zoo_set_servers_resolution_delay(handle, -1);
    }
    return handle;
}

static void on_auth(int rc, const void *data)
{
    (void)rc; /* a refusal becomes a state of the session */
    (void)data;
}

static zhandle_t *make(struct simba__zk *self,
                       unsigned first_host,
                       int64_t timeout_ms,
                       int *cause)
{
    const char *auth = self->settings.auth;
    char *hosts = simba__zk_hosts_from(self->settings.hosts, first_host);
    zhandle_t *handle = hosts == NULL
                            ? NULL
                            : simba__zk_handle_make(hosts, timeout_ms,
                                                    simba__zk_on_session, self);

    *cause = handle == NULL ? errno : 0;
    free(hosts);
    if (handle != NULL && auth != NULL) {
        zoo_add_auth(handle, "digest", auth, (int)strlen(auth), on_auth, NULL);
    }
    return handle;
}

static void close_all(zhandle_t **handles, int count)
{
    for (int i = 0; i < count; i++) {
        zookeeper_close(handles[i]);
    }
    free(handles);
}

/* One round: inside the loop before and after, outside while it works. */
static void work(struct simba__zk *self)
{
    bool wants = self->wants_session;
    int64_t timeout_ms = self->asked_ms, born_ms;
    zhandle_t **old = self->old, *handle = NULL;
    int old_count = self->old_count, cause = 0;
    unsigned first_host = self->first_host;

    self->wants_session = false;
    self->is_making = wants;
    self->old = NULL;
    self->old_count = 0;
    simba_loop_leave(self->base.loop);
    born_ms = simba_loop_now_ms();
    if (wants) {
        handle = make(self, first_host, timeout_ms, &cause);
        simba_loop_enter(self->base.loop);
        simba__zk_session_made(self, handle, born_ms, cause);
        simba_loop_leave(self->base.loop);
    }
    close_all(old, old_count);
    simba_loop_enter(self->base.loop);
}

static void *run(void *argument)
{
    struct simba__zk *self = argument;

    pthread_setname_np(pthread_self(), "simba-zk");
    simba_loop_enter(self->base.loop);
    while ((self->wants_session && !self->is_closing) || self->old_count > 0) {
        work(self);
    }
    self->is_opening = false;
    simba_loop_leave(self->base.loop);
    return NULL;
}

void simba__zk_opener_start(struct simba__zk *self)
{
    sigset_t all, before;

    if (self->is_opening) {
        return;
    }
    if (self->has_opener) {
        pthread_join(self->opener, NULL); /* it has left the loop already */
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    self->has_opener = pthread_create(&self->opener, NULL, run, self) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    self->is_opening = self->has_opener;
    if (!self->has_opener) {
        simba_timer_set(self->base.loop, &self->retrying,
                        simba_loop_now_ms() + 100);
    }
}

void simba__zk_opener_join(struct simba__zk *self)
{
    if (self->has_opener) {
        pthread_join(self->opener, NULL);
        self->has_opener = false;
    }
}
