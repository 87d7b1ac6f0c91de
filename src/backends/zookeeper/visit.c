#define _GNU_SOURCE
#include "backends/zookeeper/visit.h"

#include "backends/zookeeper/errand.h"

#include <signal.h>
#include <stdlib.h>

/* Of the session: longer than any of the calls. */
enum { SESSION_MS = 16000 };

static int carry_out(struct simba__zk_visit *visit, simba_error *error)
{
    const struct simba__zk_settings *settings = &visit->self->settings;
    int status;

    if (!simba__zk_plain_open(&visit->plain, settings, SESSION_MS,
                              visit->connect_until_ms)) {
        return simba_error_set(error, SIMBA_EUNAVAIL, 0,
                               "zookeeper %.120s: no server answers",
                               settings->hosts);
    }
    status = visit->request->kind == SIMBA_INIT
                 ? simba__zk_init(visit, error)
                 : simba__zk_examine(visit, error);
    simba__zk_plain_close(&visit->plain);
    return status;
}

static void *run(void *argument)
{
    struct simba__zk_visit *visit = argument;
    struct simba__zk *self = visit->self;
    simba_error error;
    int status;

    pthread_setname_np(pthread_self(), "simba-zk-admin");
    status = carry_out(visit, &error);
    simba_loop_enter(self->base.loop);
    self->is_visited = false;
    simba_request_done(visit->request, status,
                       status == SIMBA_OK ? NULL : &error);
    simba_loop_leave(self->base.loop);
    free(visit);
    return NULL;
}

void simba__zk_visit_join(struct simba__zk *self)
{
    if (self->has_visitor) {
        pthread_join(self->visitor, NULL);
        self->has_visitor = false;
    }
}

static bool begin(struct simba__zk *self, struct simba__zk_visit *visit)
{
    sigset_t all, before;

    simba__zk_visit_join(self); /* it has left the loop already */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    self->has_visitor = pthread_create(&self->visitor, NULL, run, visit) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    self->is_visited = self->has_visitor;
    return self->has_visitor;
}

void simba__zk_visit(struct simba__zk *self, simba_request *request)
{
    struct simba__zk_visit *visit =
        self->is_visited ? NULL : calloc(1, sizeof *visit);
    simba_error error;

    if (visit != NULL) {
        visit->self = self;
        visit->request = request;
        visit->connect_until_ms =
            simba__zk_waits_until(self, request, simba_loop_now_ms());
        if (begin(self, visit)) {
            return;
        }
    }
    free(visit);
    simba_error_set(&error, SIMBA_EUNAVAIL, 0,
                    "zookeeper: another admin's question is under way; ask "
                    "again");
    simba_request_done(request, SIMBA_EUNAVAIL, &error);
}
