/* What an admin asks: one request each, and a wait for its reply. */
#define _GNU_SOURCE
#include <simba/admin.h>

#include "api/ask.h"
#include "api/contender.h"
#include "api/settings.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* How long a store may take, and how much longer we listen. */
enum { PATIENCE_MS = 10000, SLACK_MS = 1000 };

/* Says what went wrong, if anything; the report of a success is the caller's.
 */
static int ask(simba_store *store,
               const simba_request *request,
               struct simba__answer *answer,
               simba_error *error)
{
    bool is_change = request->kind == SIMBA_BREAK ||
                     request->kind == SIMBA_HAND_OVER ||
                     request->kind == SIMBA_INIT;
    struct simba__pending *pending = simba__request_make(request);
    const char *why;
    int rc;

    assert(request->mutex != NULL);
    if (pending == NULL) {
        return simba__fail_memory(error);
    }
    pending->request.deadline_ms = simba_loop_now_ms() + PATIENCE_MS;
    simba__ask(store, pending, SLACK_MS, answer);
    rc = answer->status;
    if (rc == SIMBA_EUNKNOWN && !is_change) {
        rc = SIMBA_EUNAVAIL; /* what only asked leaves no doubt behind */
    }
    if (rc != SIMBA_OK) {
        why = answer->error.message[0] != '\0' ? answer->error.message
              : answer->is_answered            ? simba_strerror(rc)
                                    : "the store has not answered in time";
        return simba_error_set(error, rc, answer->error.native, "%s", why);
    }
    if (answer->report == NULL || answer->report->is_short) {
        simba_report_close(answer->report);
        answer->report = NULL;
        return simba_error_set(error, SIMBA_ENOMEM, 0,
                               "out of memory: the store had more to tell");
    }
    return SIMBA_OK;
}

static int check_offered(const simba_store *store,
                         enum simba_request_kind kind,
                         simba_error *error)
{
    static const struct {
        const char *name;
        uint32_t capability; /* that the store must have for it */
    } kinds[] = {[SIMBA_LIST] = {"list", SIMBA_CAN_LIST},
                 [SIMBA_BREAK] = {"break", SIMBA_CAN_BREAK},
                 [SIMBA_DOCTOR] = {"doctor", SIMBA_CAN_DOCTOR},
                 [SIMBA_INIT] = {"init", 0},
                 [SIMBA_HAND_OVER] = {"hand-over", SIMBA_CAN_HAND_OVER},
                 [SIMBA_TOLD] = {"what owners tell", SIMBA_CAN_TELL},
                 [SIMBA_BREAKS] = {"a book of breaks", SIMBA_TELLS_BREAKS}};
    uint32_t lacking =
        kinds[kind].capability & ~store->backend->ops->capabilities;

    assert((size_t)kind < sizeof kinds / sizeof kinds[0]);
    return lacking == 0 ? SIMBA_OK
                        : simba_error_set(error, SIMBA_EINVAL, 0,
                                          "%s is not offered by this store",
                                          kinds[kind].name);
}

static int ask_for_report(simba_store *store,
                          const simba_request *request,
                          simba_report **report,
                          simba_error *error)
{
    struct simba__answer answer = {.report = NULL};
    int rc = simba__store_check(store, error);

    if (rc == SIMBA_OK) {
        rc = check_offered(store, request->kind, error);
    }
    if (rc == SIMBA_OK &&
        (request->kind == SIMBA_READ || request->mutex[0] != '\0')) {
        rc = simba__config_mutex(request->mutex, error);
    }
    if (rc == SIMBA_OK) {
        rc = ask(store, request, &answer, error);
    }
    *report = answer.report;
    return rc;
}

int simba_admin_list(simba_store *store,
                     const char *glob,
                     simba_report **report,
                     simba_error *error)
{
    int rc =
        ask_for_report(store, &(simba_request){.kind = SIMBA_LIST, .mutex = ""},
                       report, error);

    if (rc == SIMBA_OK) {
        simba__report_sort(*report, glob);
    }
    return rc;
}

int simba_admin_show(simba_store *store,
                     const char *mutex,
                     simba_report **report,
                     simba_error *error)
{
    return ask_for_report(store,
                          &(simba_request){.kind = SIMBA_READ,
                                           .mutex = mutex,
                                           .want_queue = true},
                          report, error);
}

int simba_admin_told(simba_store *store,
                     const char *mutex,
                     simba_report **report,
                     simba_error *error)
{
    int rc =
        ask_for_report(store,
                       &(simba_request){.kind = SIMBA_TOLD,
                                        .mutex = mutex == NULL ? "" : mutex},
                       report, error);

    if (rc == SIMBA_OK) {
        simba__report_sort_told(*report);
    }
    return rc;
}

int simba_admin_breaks(simba_store *store,
                       const char *mutex,
                       simba_report **report,
                       simba_error *error)
{
    int rc =
        ask_for_report(store,
                       &(simba_request){.kind = SIMBA_BREAKS,
                                        .mutex = mutex == NULL ? "" : mutex},
                       report, error);

    if (rc == SIMBA_OK) {
        simba__report_sort_breaks(*report);
    }
    return rc;
}

int simba_admin_doctor(simba_store *store,
                       simba_report **report,
                       simba_error *error)
{
    return ask_for_report(store,
                          &(simba_request){.kind = SIMBA_DOCTOR, .mutex = ""},
                          report, error);
}

/* Where nothing is to be made, all is made. */
int simba_admin_init(simba_store *store,
                     bool upgrade,
                     simba_report **report,
                     simba_error *error)
{
    int rc = simba__store_check(store, error);

    *report = NULL;
    if (rc == SIMBA_OK &&
        !(store->backend->ops->capabilities & SIMBA_CAN_INIT)) {
        *report = simba__report_make();
        return *report != NULL ? SIMBA_OK : simba__fail_memory(error);
    }
    return ask_for_report(
        store,
        &(simba_request){.kind = SIMBA_INIT, .mutex = "", .upgrade = upgrade},
        report, error);
}

int simba_admin_schema(const char *url,
                       bool upgrade,
                       char **text,
                       simba_error *error)
{
    simba_backend_config config = {.log = simba__log_nothing};
    const simba_backend_ops *ops;
    struct simba__settings settings;
    simba_error why = {0};
    int rc =
        simba__settings_find(&settings, url, SIMBA_CONFIG_WHEN_ASKED, &why);

    *text = NULL;
    if (rc == SIMBA_OK) {
        config.url = settings.url;
        rc = simba__settings_blame(
            &settings,
            simba__backend_find_bare(&config.url, &ops, &config.rest, &why),
            &why);
    }
    if (rc == SIMBA_OK) {
        (void)simba__fail_memory(&why);
        *text = ops->schema != NULL ? ops->schema(&config, upgrade, &why)
                                    : strdup("");
        rc = *text != NULL ? SIMBA_OK : why.code;
    }
    simba__settings_free(&settings);
    if (error != NULL && rc != SIMBA_OK) {
        *error = why;
    }
    return rc;
}

int simba_admin_help(const char *url, char **text, simba_error *error)
{
    const simba_backend_ops *ops;
    const char *rest;
    int rc = simba__backend_find(url, &ops, &rest, error);

    *text = NULL;
    if (rc == SIMBA_OK) {
        *text = ops->help != NULL ? ops->help() : strdup("");
        rc = *text != NULL ? SIMBA_OK : simba__fail_memory(error);
    }
    return rc;
}

/* --- break --------------------------------------------------------------- */

int simba_admin_break(simba_store *store,
                      const simba_break *given,
                      simba_owner *present,
                      simba_error *error)
{
    struct simba__answer answer = {.report = NULL};
    simba_break wish = SIMBA_BREAK_INIT;
    const simba_owner *owner = &answer.reply.owner;
    const struct simba__given take = {given, "SIMBA_BREAK_INIT", &wish,
                                      sizeof wish,
                                      offsetof(simba_break, reserved)};
    int rc = simba__given_take(store, &take, error);

    if (present != NULL) {
        *present = simba_owner_none();
    }
    if (rc == SIMBA_OK) {
        rc = check_offered(store, SIMBA_BREAK, error);
    }
    if (rc == SIMBA_OK && wish.token == 0) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "a break needs the token of the tenure");
    }
    if (rc == SIMBA_OK) {
        rc = simba__config_mutex(wish.mutex, error);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    rc = ask(store,
             &(simba_request){.kind = SIMBA_BREAK,
                              .mutex = wish.mutex,
                              .token = wish.token,
                              .now = wish.now,
                              .reason = wish.reason != NULL ? wish.reason : ""},
             &answer, error);
    simba_report_close(answer.report);
    if (rc != SIMBA_OK) {
        return rc;
    }
    if (present != NULL) {
        *present = *owner;
    }
    if (answer.reply.mine) {
        return SIMBA_OK;
    }
    if (owner->id[0] == '\0') {
        return simba_error_set(error, SIMBA_ELOST, 0,
                               "%s: the tenure with token %" PRIu64
                               " is over; nobody owns it now",
                               wish.mutex, wish.token);
    }
    return simba_error_set(error, SIMBA_ELOST, 0,
                           "%s: no tenure with token %" PRIu64
                           "; the present token is %" PRIu64 ", of '%s'",
                           wish.mutex, wish.token, owner->token, owner->id);
}

/* --- hand-over ----------------------------------------------------------- */

/* As much as the caller knows of it; NULL: it does not want to. */
static void give_asked(simba_asked *to, const simba_asked *from)
{
    if (to != NULL) {
        uint32_t size = to->size;

        memcpy(to, from, size < sizeof *from ? size : sizeof *from);
        to->size = size;
    }
}

/* Why the store found no successor, for people. It does not say so itself: the
 * mutex is looked at again, and if that fails both reasons are told. Whoever
 * waits has a place when the only owner goes. */
static const char *why_nobody(simba_store *store,
                              const simba_hand_over *wish,
                              uint32_t owned)
{
    const char *why = wish->to == NULL ? "waits" : "does not wait";
    simba_report *report = NULL;
    const simba_waiter *waiter;
    const simba_owner *owner;

    if (simba_admin_show(store, wish->mutex, &report, NULL) != SIMBA_OK) {
        return wish->to == NULL ? "waits who has a place"
                                : "does not wait, or has no place beside the "
                                  "others who own it";
    }
    for (size_t i = 0;
         wish->to != NULL && (owner = simba_report_owner_at(report, i)) != NULL;
         i++) {
        if (strcmp(owner->id, wish->to) == 0) {
            why = "does not wait: it owns it";
        }
    }
    for (size_t i = 0;
         owned > 1 && (waiter = simba_report_waiter(report, i)) != NULL; i++) {
        if (wish->to == NULL) {
            why = "who waits has a place beside the others who own it; ask "
                  "again when they have gone";
        } else if (strcmp(waiter->id, wish->to) == 0) {
            why = "waits, but has no place beside the others who own it; ask "
                  "again when they have gone";
        }
    }
    simba_report_close(report);
    return why;
}

int simba_admin_hand_over(simba_store *store,
                          const simba_hand_over *given,
                          simba_asked *asked,
                          simba_error *error)
{
    struct simba__answer answer = {.report = NULL};
    simba_hand_over wish = SIMBA_HAND_OVER_INIT;
    const simba_owner *owner = &answer.reply.owner;
    const struct simba__given take = {given, "SIMBA_HAND_OVER_INIT", &wish,
                                      sizeof wish, 0};
    simba_asked told = SIMBA_ASKED_INIT;
    const struct simba__given give = {asked, "SIMBA_ASKED_INIT", &told,
                                      sizeof told, 0};
    char id[SIMBA_ID_MAX + 1] = "";
    int rc = simba__given_take(store, &take, error);

    if (rc == SIMBA_OK && asked != NULL) {
        rc = simba__given_take(NULL, &give, error);
        told.owner = simba_owner_none();
        told.to[0] = '\0';
        give_asked(asked, &told);
    }
    if (rc == SIMBA_OK) {
        rc = check_offered(store, SIMBA_HAND_OVER, error);
    }
    if (rc == SIMBA_OK) {
        rc = simba__config_mutex(wish.mutex, error);
    }
    if (rc == SIMBA_OK && wish.to != NULL) {
        rc = simba__config_id(wish.to, id, error);
    }
    if (rc == SIMBA_OK) {
        rc = ask(store,
                 &(simba_request){.kind = SIMBA_HAND_OVER,
                                  .mutex = wish.mutex,
                                  .token = wish.token,
                                  .to = wish.to},
                 &answer, error);
        simba_report_close(answer.report);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    told.owner = *owner;
    memcpy(told.to, answer.reply.to, sizeof told.to);
    give_asked(asked, &told);
    if (!answer.reply.mine) {
        return simba_error_set(error, SIMBA_ELOST, 0,
                               owner->id[0] == '\0'
                                   ? "%s: nobody owns it"
                                   : "%s: no such tenure is there any more",
                               wish.mutex);
    }
    if (answer.reply.to[0] == '\0') {
        return simba_error_set(error, SIMBA_EINVAL, 0, "%s: %s%s%s %s",
                               wish.mutex, id[0] == '\0' ? "" : "'", id,
                               id[0] == '\0' ? "nobody" : "'",
                               why_nobody(store, &wish, answer.reply.owned));
    }
    return SIMBA_OK;
}
