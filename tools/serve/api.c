/* Answers as JSON, of docs/json.md, and breaking a tenure; see serve.h. */
#define _GNU_SOURCE
#include "cli/admin.h"
#include "cli/clock.h"
#include "serve/serve.h"

#include <simba/version.h>

#include <microhttpd.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char type_json[] = "application/json; charset=utf-8";

void simba__api_fail(struct simba__ask *ask, int status, const char *message)
{
    struct simba__json json;

    simba__text_fini(&ask->reply);
    ask->reply = (struct simba__text){0};
    ask->status = status;
    ask->type = type_json;
    simba__json_begin(&json, &ask->reply);
    simba__json_text(&json, "event", "failed");
    simba__json_text(&json, "message", message);
    simba__json_line(&json);
}

static void fail_with(struct simba__ask *ask, const simba_error *error)
{
    static const int statuses[][2] = {
        {SIMBA_EINVAL, MHD_HTTP_BAD_REQUEST},
        {SIMBA_ELOST, MHD_HTTP_CONFLICT},
        {SIMBA_EDENIED, MHD_HTTP_BAD_GATEWAY},
        {SIMBA_EUNKNOWN, MHD_HTTP_GATEWAY_TIMEOUT}};
    struct simba__json json;

    ask->status = MHD_HTTP_SERVICE_UNAVAILABLE;
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (statuses[i][0] == error->code) {
            ask->status = statuses[i][1];
        }
    }
    ask->type = type_json;
    simba__json_begin(&json, &ask->reply);
    simba__json_text(&json, "event", "failed");
    simba__json_text(&json, "status", simba_status_name(error->code));
    simba__json_text(&json, "message", error->message);
    simba__json_line(&json);
}

static void begin(struct simba__ask *ask, struct simba__json *json)
{
    ask->status = MHD_HTTP_OK;
    ask->type = type_json;
    simba__json_begin(json, &ask->reply);
}

void simba__api_session(struct simba__ask *ask)
{
    struct simba__json json;
    bool may_break = simba__access_may_break();

    begin(ask, &json);
    simba__json_text(&json, "version", SIMBA_VERSION_STRING);
    simba__json_text(&json, "user", ask->user[0] == '\0' ? NULL : ask->user);
    simba__json_flag(&json, "may_break", may_break);
    simba__json_text(&json, "key", may_break ? simba__access_key() : NULL);
    simba__json_line(&json);
}

/* --- stores -------------------------------------------------------------- */

void simba__api_put_store(struct simba__json *json,
                          const struct simba__source *source)
{
    const simba_finding *finding;
    struct simba__json item;

    simba__json_number(json, "index", (int64_t)source->index);
    simba__json_text(json, "store", source->shown);
    simba__json_flag(json, "up", source->is_up);
    simba__json_number(json, "since_unix_ms", source->since_unix_ms);
    simba__json_text(json, "message",
                     source->problem[0] == '\0' ? NULL : source->problem);
    simba__json_number(json, "mutexes", (int64_t)source->rows.count);
    if (source->store != NULL) {
        simba__admin_put_capabilities(json, source->store);
    }
    simba__json_text(
        json, "gravity",
        source->doctor == NULL
            ? NULL
            : simba__admin_gravity(simba_report_gravity(source->doctor)));
    simba__json_list(json, "findings");
    for (size_t i = 0;
         source->doctor != NULL &&
         (finding = simba_report_finding(source->doctor, i)) != NULL;
         i++) {
        simba__json_item(&item, json);
        simba__admin_put_finding(&item, finding);
        simba__json_end(&item);
    }
    simba__json_list_end(json);
}

void simba__api_stores(struct simba__ask *ask)
{
    struct simba__json json, item;

    begin(ask, &json);
    simba__json_list(&json, "stores");
    (void)pthread_mutex_lock(&ask->board->lock);
    for (size_t i = 0; i < ask->board->count; i++) {
        simba__json_item(&item, &json);
        simba__api_put_store(&item, &ask->board->sources[i]);
        simba__json_end(&item);
    }
    (void)pthread_mutex_unlock(&ask->board->lock);
    simba__json_list_end(&json);
    simba__json_line(&json);
}

void simba__api_ready(struct simba__ask *ask)
{
    const struct simba__source *absent = NULL;

    (void)pthread_mutex_lock(&ask->board->lock);
    for (size_t i = 0; i < ask->board->count; i++) {
        if (!ask->board->sources[i].is_up) {
            absent = &ask->board->sources[i];
        }
    }
    (void)pthread_mutex_unlock(&ask->board->lock);
    ask->status = absent == NULL ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    ask->type = "text/plain; charset=utf-8";
    if (absent == NULL) {
        simba__text_put(&ask->reply, "ready\n");
    } else {
        simba__text_printf(&ask->reply, "store %zu cannot be reached\n",
                           absent->index);
    }
}

/* --- mutexes ------------------------------------------------------------- */

static const char *argument(struct simba__ask *ask, const char *name)
{
    return MHD_lookup_connection_value(ask->connection, MHD_GET_ARGUMENT_KIND,
                                       name);
}

/* The store of this number, or the first; NULL: there is none. */
static struct simba__source *source_of(struct simba__ask *ask,
                                       const char *number)
{
    struct simba__source *source;
    uint64_t index = 0;
    bool is_there;

    if (number != NULL &&
        !simba__text_number(number, ask->board->count - 1, &index)) {
        return NULL;
    }
    source = &ask->board->sources[index];
    (void)pthread_mutex_lock(&ask->board->lock);
    is_there = source->store != NULL;
    (void)pthread_mutex_unlock(&ask->board->lock);
    return is_there ? source : NULL;
}

static void put_listed(struct simba__json *list, const struct simba__row *row)
{
    const struct simba__source *source = row->source;
    struct simba__view view =
        simba__view_of(row->link.key, &row->owner, row->waiting,
                       simba__unix_ms() - source->skew_ms);
    struct simba__json item;

    view.has_told = true;
    view.told = source->told;
    view.owned = row->owned;
    simba__json_item(&item, list);
    simba__json_number(&item, "store", (int64_t)source->index);
    simba__view_members(&item, &view);
    simba__json_unsigned(&item, "tenures_seen", row->tenure_count);
    simba__json_end(&item);
}

void simba__api_mutexes(struct simba__ask *ask)
{
    const char *number = argument(ask, "store");
    const struct simba__source *only =
        number == NULL ? NULL : source_of(ask, number);
    struct simba__json json;

    if (number != NULL && only == NULL) {
        simba__api_fail(ask, MHD_HTTP_NOT_FOUND, "there is no such store");
        return;
    }
    begin(ask, &json);
    simba__json_list(&json, "mutexes");
    (void)pthread_mutex_lock(&ask->board->lock);
    for (size_t i = 0; i < ask->board->count; i++) {
        const struct simba__hash *rows = &ask->board->sources[i].rows;

        for (struct simba__hash_link *link = simba__hash_next(rows, NULL);
             link != NULL && (only == NULL || only->index == i);
             link = simba__hash_next(rows, link)) {
            put_listed(&json, (struct simba__row *)link);
        }
    }
    (void)pthread_mutex_unlock(&ask->board->lock);
    simba__json_list_end(&json);
    simba__json_line(&json);
}

/* --- one mutex ----------------------------------------------------------- */

static void put_tenures(struct simba__json *json, const struct simba__row *row)
{
    struct simba__json item;

    simba__json_list(json, "tenures");
    for (size_t i = 0; i < row->count; i++) {
        const struct simba__tenure *tenure = &row->tenures[i];

        simba__json_item(&item, json);
        simba__json_text(&item, "id", tenure->id);
        simba__json_token(&item, "token", tenure->token);
        simba__json_number(&item, "began_unix_ms", tenure->began_ms);
        simba__put_ms(&item, "ended_unix_ms",
                      tenure->ended_ms == 0 ? SIMBA__UNKNOWN
                                            : tenure->ended_ms);
        simba__put_ms(&item, "handed_over_ms", tenure->handed_ms);
        simba__json_flag(&item, "broken", tenure->is_broken);
        simba__json_text(&item, "broken_by", tenure->broken);
        simba__json_flag(&item, "gap", tenure->has_gap);
        simba__put_ms(&item, "slot",
                      tenure->slot == SIMBA_NO_SLOT ? SIMBA__UNKNOWN
                                                    : (int64_t)tenure->slot);
        simba__json_end(&item);
    }
    simba__json_list_end(json);
}

/* Asks the store, on its worker. */
static void show(struct simba__job *job)
{
    struct simba__ask *ask = (struct simba__ask *)job;
    struct simba__source *source = source_of(ask, argument(ask, "store"));
    const char *mutex = argument(ask, "mutex");
    simba_report *report = NULL, *told = NULL, *breaks = NULL;
    simba_error error = {0};
    struct simba__view view;
    struct simba__row *row;
    struct simba__json json;

    if (simba_admin_show(source->store, mutex, &report, &error) != SIMBA_OK) {
        fail_with(ask, &error);
    } else {
        told = simba__view_ask_told(source->store, mutex);
        breaks = simba__admin_ask_breaks(source->store, mutex);
        view = simba__view_shown(mutex, report);
        view.has_told = true;
        view.told = told;
        begin(ask, &json);
        simba__json_number(&json, "store", (int64_t)source->index);
        simba__view_members(&json, &view);
        simba__admin_put_waiters(&json, report);
        simba__admin_put_breaks(&json, breaks);
        (void)pthread_mutex_lock(&ask->board->lock);
        row = (struct simba__row *)simba__hash_find(&source->rows, mutex);
        if (row != NULL) {
            simba__json_unsigned(&json, "tenures_seen", row->tenure_count);
            simba__json_unsigned(&json, "breaks_seen", row->break_count);
            simba__json_unsigned(&json, "gaps_seen", row->gap_count);
            put_tenures(&json, row);
        }
        (void)pthread_mutex_unlock(&ask->board->lock);
        simba__json_line(&json);
    }
    simba_report_close(breaks);
    simba_report_close(told);
    simba_report_close(report);
    simba__http_resume(ask);
}

static void post(struct simba__ask *ask,
                 struct simba__source *source,
                 void (*run)(struct simba__job *job))
{
    ask->job.run = run;
    ask->is_posted = true;
    MHD_suspend_connection(ask->connection);
    if (!simba__worker_post(source->worker, &ask->job)) {
        simba__api_fail(ask, MHD_HTTP_SERVICE_UNAVAILABLE,
                        "too many wait for this store");
        simba__http_resume(ask);
    }
}

void simba__api_mutex(struct simba__ask *ask)
{
    struct simba__source *source = source_of(ask, argument(ask, "store"));

    if (source == NULL) {
        simba__api_fail(ask, MHD_HTTP_NOT_FOUND, "there is no such store");
    } else if (argument(ask, "mutex") == NULL) {
        simba__api_fail(ask, MHD_HTTP_BAD_REQUEST, "which mutex?");
    } else {
        post(ask, source, show);
    }
}

/* --- breaking a tenure --------------------------------------------------- */

/* What the body says: application/x-www-form-urlencoded. */
struct form {
    char *store, *mutex, *token, *reason, *now;
};

/* In place; false: it is none. */
static bool read_form(char *body, struct form *form)
{
    char *pair;

    *form = (struct form){0};
    while ((pair = strsep(&body, "&")) != NULL) {
        char *name = strsep(&pair, "=");
        const struct {
            const char *name;
            char **to;
        } known[] = {{"store", &form->store},
                     {"mutex", &form->mutex},
                     {"token", &form->token},
                     {"reason", &form->reason},
                     {"now", &form->now}};

        for (char *c = pair; c != NULL && *c != '\0'; c++) {
            if (*c == '+') {
                *c = ' ';
            }
        }
        if (pair == NULL || !simba__text_unescape(pair)) {
            return false;
        }
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            if (strcmp(known[i].name, name) == 0) {
                *known[i].to = pair;
            }
        }
    }
    return form->mutex != NULL && form->token != NULL && form->reason != NULL;
}

static bool is_text(const char *text)
{
    size_t length;

    for (; *text != '\0'; text += length) {
        length = simba__text_sequence(text, strlen(text));
        if (length == 0) {
            return false;
        }
    }
    return true;
}

static void break_it(struct simba__job *job)
{
    struct simba__ask *ask = (struct simba__ask *)job;
    struct simba__break_wish wish = {0};
    struct simba__broken broken;
    struct simba__source *source;
    struct simba__row *row;
    struct simba__json json;
    struct form form;
    simba_error error = {0};
    char host[65] = "?", words[SIMBA__BY_ROOM + SIMBA__REASON_MOST + 3];

    (void)read_form(ask->body, &form); /* it was read before */
    source = source_of(ask, form.store);
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(wish.by, sizeof wish.by, "%s@%s, by simba serve", ask->user,
                   host);
    (void)simba__text_number(form.token, UINT64_MAX, &wish.token);
    wish.mutex = form.mutex;
    wish.reason = form.reason;
    wish.is_now = form.now != NULL && strcmp(form.now, "1") == 0;
    if (simba__break_do(source->store, &wish, &broken, &error) != SIMBA_OK) {
        fail_with(ask, &error);
    } else {
        begin(ask, &json);
        simba__break_members(&json, &broken);
        simba__json_line(&json);
        (void)snprintf(words, sizeof words, "%s: %s", ask->user, form.reason);
        (void)pthread_mutex_lock(&ask->board->lock);
        row = (struct simba__row *)simba__hash_find(&source->rows, form.mutex);
        if (row != NULL) {
            simba__board_note_break(row, wish.token, words);
        }
        (void)pthread_mutex_unlock(&ask->board->lock);
    }
    simba__http_resume(ask);
}

/* All is checked here, on a copy, before the store has anything to do with it.
 */
void simba__api_break(struct simba__ask *ask)
{
    char copy[SIMBA__BODY_MOST + 1];
    struct simba__source *source;
    const char *problem;
    struct form form;
    uint64_t token = 0;

    if (!simba__access_may_break()) {
        simba__api_fail(ask, MHD_HTTP_FORBIDDEN,
                        "this page only looks; --allow-break allows more");
        return;
    }
    if (!simba__access_is_ours(ask->connection)) {
        simba__api_fail(ask, MHD_HTTP_FORBIDDEN,
                        "this does not come from a page of this server; load "
                        "it again");
        return;
    }
    memcpy(copy, ask->body, sizeof copy);
    if (memchr(copy, '\0', ask->length) != NULL || !read_form(copy, &form) ||
        !simba__text_number(form.token, UINT64_MAX, &token) || token == 0 ||
        !is_text(form.reason)) {
        simba__api_fail(ask, MHD_HTTP_BAD_REQUEST,
                        "mutex, token and reason are wanted");
        return;
    }
    source = source_of(ask, form.store);
    problem = simba__break_problem(form.reason);
    if (source == NULL) {
        simba__api_fail(ask, MHD_HTTP_NOT_FOUND, "there is no such store");
    } else if (problem != NULL) {
        simba__api_fail(ask, MHD_HTTP_BAD_REQUEST, problem);
    } else {
        post(ask, source, break_it);
    }
}
