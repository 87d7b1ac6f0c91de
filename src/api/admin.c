/* What an admin asks: one operation each, and a wait for its answer. */
#define _GNU_SOURCE
#include <simba/admin.h>

#include "api/config.h"
#include "api/given.h"
#include "api/store.h"
#include "runtime/box.h"
#include "runtime/report.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How long a store may take, and how much longer we listen. */
enum { PATIENCE_MS = 10000, SLACK_MS = 1000 };

struct asking {
    struct simba__caller caller;
    pthread_cond_t changed;
    bool is_done;
    int status;
    simba_error error;
    simba_owner owner;
    bool mine;
    simba_report *report;
};

/* --- one operation ------------------------------------------------------- */

/* The report is moved over: the box goes when this returns. */
static void take_report(struct asking *asking, const struct simba__box *box)
{
    asking->report = simba__report_make();
    if (asking->report == NULL) {
        return;
    }
    if (box->report != NULL) {
        simba__report_add(asking->report, box->report);
    }
    asking->report->is_short |= box->is_report_short;
    asking->report->owner = box->request.reply.owner;
    asking->report->store_ms = box->request.reply.store_ms;
}

static void on_done(struct simba__caller *caller,
                    const struct simba__box *box,
                    int status,
                    const simba_error *error)
{
    struct asking *asking = (struct asking *)caller;

    asking->is_done = true;
    asking->status = status;
    asking->owner = box->request.reply.owner;
    asking->mine = box->request.reply.mine;
    if (error != NULL) {
        asking->error = *error;
    }
    if (status == SIMBA_OK) {
        take_report(asking, box);
    }
    pthread_cond_signal(&asking->changed);
}

/* The condition variable counts on CLOCK_MONOTONIC; good enough for a wait. */
static void wait_for(simba_store *store, struct asking *asking)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (PATIENCE_MS + SLACK_MS) / 1000;
    while (!asking->is_done &&
           simba__loop_wait(store->loop, &asking->changed, &until)) {
    }
    if (!asking->is_done) {
        simba__caller_leave(&asking->caller);
        asking->status = SIMBA_EUNKNOWN;
    }
}

static void send_and_wait(simba_store *store,
                          struct simba__box *box,
                          struct asking *asking)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&asking->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    asking->caller.done = on_done;
    box->request.deadline_ms = simba_loop_now_ms() + PATIENCE_MS;
    simba_loop_enter(store->loop);
    simba__box_send(box, &asking->caller, store->backend);
    wait_for(store, asking);
    simba_loop_leave(store->loop);
    pthread_cond_destroy(&asking->changed);
}

/* What only asked has had no effect, so there is no doubt to pass on. */
static int status_of(const struct asking *asking, enum simba_request_kind kind)
{
    bool is_doubtful = asking->status == SIMBA_EUNKNOWN;

    bool is_change = kind == SIMBA_BREAK || kind == SIMBA_INIT;

    return is_doubtful && !is_change ? SIMBA_EUNAVAIL : asking->status;
}

static int ask(simba_store *store,
               struct simba__box *box,
               struct asking *asking,
               simba_error *error)
{
    enum simba_request_kind kind = box->request.kind;
    const char *why;
    int rc;

    send_and_wait(store, box, asking);
    rc = status_of(asking, kind);
    if (rc != SIMBA_OK) {
        why = asking->error.message[0] != '\0' ? asking->error.message
              : asking->is_done                ? simba_strerror(rc)
                                : "the store has not answered in time";
        return simba_error_set(error, rc, asking->error.native, "%s", why);
    }
    if (asking->report == NULL || asking->report->is_short) {
        simba_report_close(asking->report);
        asking->report = NULL;
        return simba_error_set(error, SIMBA_ENOMEM, 0,
                               "out of memory: the store had more to tell");
    }
    return SIMBA_OK;
}

/* --- before it ----------------------------------------------------------- */

uint32_t simba_store_capabilities(const simba_store *store)
{
    return store->backend->ops->capabilities;
}

static int begin(simba_store *store,
                 uint32_t capability,
                 const char *what,
                 simba_error *error)
{
    int rc = simba__store_check(store, error);

    if (rc == SIMBA_OK && capability != 0 &&
        !(store->backend->ops->capabilities & capability)) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "%s is not offered by this store", what);
    }
    return rc;
}

static struct simba__box *make_box(enum simba_request_kind kind,
                                   const char *mutex,
                                   simba_error *error)
{
    struct simba__box *box = simba__box_make(mutex, "");

    if (box == NULL) {
        simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
        return NULL;
    }
    box->request.kind = kind;
    return box;
}

static int ask_for_report(simba_store *store,
                          struct simba__box *box,
                          simba_report **report,
                          simba_error *error)
{
    struct asking asking = {.status = SIMBA_OK};
    int rc;

    if (box == NULL) {
        return SIMBA_ENOMEM;
    }
    rc = ask(store, box, &asking, error);
    *report = asking.report;
    return rc;
}

/* --- the calls ----------------------------------------------------------- */

static bool matches(const char *glob, const char *mutex)
{
    return glob == NULL || fnmatch(glob, mutex, 0) == 0;
}

int simba_admin_list(simba_store *store,
                     const char *glob,
                     simba_report **report,
                     simba_error *error)
{
    int rc = begin(store, SIMBA_CAN_LIST, "list", error);

    *report = NULL;
    if (rc == SIMBA_OK) {
        rc = ask_for_report(store, make_box(SIMBA_LIST, "", error), report,
                            error);
    }
    if (rc == SIMBA_OK) {
        simba__report_sort(*report, matches, glob);
    }
    return rc;
}

int simba_admin_show(simba_store *store,
                     const char *mutex,
                     simba_report **report,
                     simba_error *error)
{
    int rc = begin(store, 0, "show", error);
    struct simba__box *box;

    *report = NULL;
    if (rc == SIMBA_OK) {
        rc = simba__config_mutex(mutex, error);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    box = make_box(SIMBA_READ, mutex, error);
    if (box != NULL) {
        box->request.want_queue = true;
    }
    return ask_for_report(store, box, report, error);
}

int simba_admin_doctor(simba_store *store,
                       simba_report **report,
                       simba_error *error)
{
    int rc = begin(store, SIMBA_CAN_DOCTOR, "doctor", error);

    *report = NULL;
    if (rc == SIMBA_OK) {
        rc = ask_for_report(store, make_box(SIMBA_DOCTOR, "", error), report,
                            error);
    }
    return rc;
}

/* Where nothing is to be made, all is made. */
int simba_admin_init(simba_store *store,
                     bool upgrade,
                     simba_report **report,
                     simba_error *error)
{
    int rc = simba__store_check(store, error);
    struct simba__box *box;

    *report = NULL;
    if (rc != SIMBA_OK) {
        return rc;
    }
    if (!(store->backend->ops->capabilities & SIMBA_CAN_INIT)) {
        *report = simba__report_make();
        return *report != NULL
                   ? SIMBA_OK
                   : simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    box = make_box(SIMBA_INIT, "", error);
    if (box != NULL) {
        box->request.upgrade = upgrade;
    }
    return ask_for_report(store, box, report, error);
}

/* --- break --------------------------------------------------------------- */

static int take_wish(simba_break *wish,
                     const simba_break *given,
                     simba_error *error)
{
    int rc =
        simba__given_take(&(struct simba__given){given, "SIMBA_BREAK_INIT"},
                          wish, sizeof *wish, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (wish->token == 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "a break needs the token of the tenure");
    }
    return simba__config_mutex(wish->mutex, error);
}

/* There a tenure stands or is gone: no lease of its own can run out. */
static int check_manner(const simba_store *store,
                        const simba_break *wish,
                        simba_error *error)
{
    if (!wish->now &&
        (store->backend->ops->capabilities & SIMBA_HAS_SESSION_LEASE) != 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "on this store a tenure can only be broken at "
                               "once (--now)");
    }
    return SIMBA_OK;
}

static struct simba__box *make_break(const simba_break *wish,
                                     simba_error *error)
{
    struct simba__box *box = make_box(SIMBA_BREAK, wish->mutex, error);

    if (box == NULL) {
        return NULL;
    }
    box->request.token = wish->token;
    box->request.now = wish->now;
    box->text = strdup(wish->reason != NULL ? wish->reason : "");
    if (box->text == NULL) {
        free(box);
        simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
        return NULL;
    }
    box->request.reason = box->text;
    return box;
}

/* Names what is there instead. */
static int refuse(const simba_break *wish,
                  const simba_owner *owner,
                  simba_error *error)
{
    if (owner->id[0] == '\0') {
        return simba_error_set(error, SIMBA_ELOST, 0,
                               "%s: the tenure with token %" PRIu64
                               " is over; nobody owns it now",
                               wish->mutex, wish->token);
    }
    return simba_error_set(error, SIMBA_ELOST, 0,
                           "%s: no tenure with token %" PRIu64
                           "; the present token is %" PRIu64 ", of '%s'",
                           wish->mutex, wish->token, owner->token, owner->id);
}

int simba_admin_break(simba_store *store,
                      const simba_break *given,
                      simba_owner *present,
                      simba_error *error)
{
    struct asking asking = {.status = SIMBA_OK};
    simba_break wish = SIMBA_BREAK_INIT;
    struct simba__box *box;
    int rc = begin(store, SIMBA_CAN_BREAK, "break", error);

    if (present != NULL) {
        *present = simba_owner_none();
    }
    if (rc == SIMBA_OK) {
        rc = take_wish(&wish, given, error);
    }
    if (rc == SIMBA_OK) {
        rc = check_manner(store, &wish, error);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    box = make_break(&wish, error);
    if (box == NULL) {
        return SIMBA_ENOMEM;
    }
    rc = ask(store, box, &asking, error);
    simba_report_close(asking.report);
    if (rc == SIMBA_OK && present != NULL) {
        *present = asking.owner;
    }
    if (rc == SIMBA_OK && !asking.mine) {
        rc = refuse(&wish, &asking.owner, error);
    }
    return rc;
}
