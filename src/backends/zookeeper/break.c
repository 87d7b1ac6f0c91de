/* Ending a tenure by force: the node whose czxid is the token is deleted. */
#include "backends/zookeeper/errand.h"

/* Audited where it is done. Who owns the mutex now is told as well. */
static void broken(struct simba__zk_errand *errand)
{
    simba_request *request = errand->request;
    bool has_reason = request->reason != NULL && request->reason[0] != '\0';

    request->reply.mine = true;
    simba__zk_log(errand->self, SIMBA_LOG_WARN,
                  "broke the tenure %llu of \"%s\": %s",
                  (unsigned long long)request->token, request->mutex,
                  has_reason ? request->reason : "no reason given");
    simba__zk_read_start(errand);
}

/* That tenure is over; by our doing, if we struck on a connection that was
 * lost before the answer came. */
static void is_over(struct simba__zk_errand *errand)
{
    if (errand->strikes > 0) {
        broken(errand);
    } else {
        simba__zk_read_start(errand);
    }
}

static void struck(struct simba__zk_errand *errand, int rc)
{
    if (rc == ZOK) {
        broken(errand);
    } else if (rc == ZNONODE) {
        errand->strikes--; /* not by this one */
        is_over(errand);
    } else {
        errand->strikes--;
        simba__zk_errand_fail(errand, rc);
    }
}

static void strike(struct simba__zk_errand *errand)
{
    errand->step = struck;
    if (simba__zk_errand_delete(errand, errand->items[0].path)) {
        errand->strikes++;
    } else {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    }
}

static void heard_owner(struct simba__zk_errand *errand, int rc)
{
    if (rc == ZNONODE) {
        simba__zk_break_start(errand); /* it went meanwhile: who is next? */
    } else if (rc != ZOK) {
        simba__zk_errand_fail(errand, rc);
    } else if (errand->items[0].owner.token == errand->request->token) {
        strike(errand);
    } else {
        is_over(errand);
    }
}

static void heard_line(struct simba__zk_errand *errand, int rc)
{
    if (rc != ZOK && rc != ZNONODE) {
        simba__zk_errand_fail(errand, rc);
    } else if (rc == ZNONODE || errand->count == 0) {
        is_over(errand);
    } else {
        errand->step = heard_owner;
        if (!simba__zk_errand_data(errand, 0)) {
            simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
        }
    }
}

void simba__zk_break_start(struct simba__zk_errand *errand)
{
    errand->step = heard_line;
    if (!simba__zk_errand_line(errand)) {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    }
}

/* A latch stands or is gone: there is no lease that could run out. */
void simba__zk_break(struct simba__zk *self, simba_request *request)
{
    simba_error error;

    if (request->now) {
        simba__zk_errand(self, request);
        return;
    }
    simba_error_set(
        &error, SIMBA_EINVAL, 0,
        "zookeeper: a tenure cannot be left to the end of its lease "
        "here; break it at once (now)");
    simba_request_done(request, SIMBA_EINVAL, &error);
}
