/* How a mutex stands now; see mutex_view.h. */
#define _GNU_SOURCE
#include "cli/mutex_view.h"

#include <assert.h>
#include <simba/contender.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum view_column { MUTEX, OWNER, TOKEN, AGE, LEASE, WAITING, TOLD, COLUMNS };

/* ZooKeeper writes down when a node was made, by the time of day, but does not
 * tell what time it is. */
/* A clock that is before its beginning, or at its end, tells nothing. */
int64_t simba__view_now(int64_t store_ms)
{
    return store_ms <= 0 || store_ms > INT64_MAX / 2 ? simba__unix_ms()
                                                     : store_ms;
}

static int64_t time_until(int64_t at_ms, int64_t now_ms)
{
    if (at_ms == INT64_MAX || at_ms == 0) {
        return SIMBA__UNKNOWN;
    }
    return at_ms > now_ms ? at_ms - now_ms : 0;
}

struct simba__view simba__view_of(const char *mutex,
                                  const simba_owner *owner,
                                  int waiting,
                                  int64_t store_ms)
{
    struct simba__view view = {.mutex = mutex,
                               .owner = owner,
                               .owned = owner->id[0] != '\0',
                               .waiting = waiting,
                               .age_ms = SIMBA__UNKNOWN,
                               .ttl_left_ms = SIMBA__UNKNOWN,
                               .lease_left_ms = SIMBA__UNKNOWN};

    assert(mutex != NULL && owner != NULL && waiting >= SIMBA__UNKNOWN);
    if (owner->id[0] != '\0') {
        int64_t now_ms = simba__view_now(store_ms);

        if (owner->acquired_at_ms > 0) {
            view.age_ms = now_ms > owner->acquired_at_ms
                              ? now_ms - owner->acquired_at_ms
                              : 0;
        }
        view.ttl_left_ms = time_until(owner->ttl_at_ms, now_ms);
        view.lease_left_ms = time_until(owner->transition_at_ms, now_ms);
    }
    return view;
}

struct simba__view simba__view_shown(const char *mutex,
                                     const simba_report *report)
{
    struct simba__view view = simba__view_of(
        mutex, simba_report_owner(report),
        (int)simba_report_waiter_count(report), simba_report_store_ms(report));

    view.report = report;
    view.owned = simba_report_owner_count(report);
    return view;
}

const simba_owner *simba__view_owner(const struct simba__view *view, size_t i)
{
    if (view->report == NULL) {
        return i == 0 && view->owned > 0 ? view->owner : NULL;
    }
    return view->is_listed
               ? simba_report_mutex_owner(view->report, view->index, i)
               : simba_report_owner_at(view->report, i);
}

struct simba__view simba__view_row(const simba_report *report, size_t index)
{
    const simba_listed *listed = simba_report_mutex(report, index);
    struct simba__view view =
        simba__view_of(listed->mutex, &listed->owner, listed->waiting,
                       simba_report_store_ms(report));

    view.report = report;
    view.is_listed = true;
    view.index = index;
    view.owned = listed->owned;
    return view;
}

struct simba__views simba__view_listed(const simba_report *report)
{
    size_t count = simba_report_mutex_count(report);
    struct simba__views views = {calloc(count + 1, sizeof *views.rows), 0};

    for (; views.rows != NULL && views.count < count; views.count++) {
        views.rows[views.count] = simba__view_row(report, views.count);
    }
    return views;
}

/* --- what owners tell ----------------------------------------------------- */

simba_report *simba__view_ask_told(simba_store *store, const char *mutex)
{
    simba_report *told = NULL;

    return (simba_store_capabilities(store) & SIMBA_CAN_TELL) != 0 &&
                   simba_admin_told(store, mutex, &told, NULL) == SIMBA_OK
               ? told
               : NULL;
}

/* They are in the order of mutexes and tokens. */
const simba_told *simba__view_find_told(const simba_report *told,
                                        const char *mutex,
                                        uint64_t token)
{
    size_t from = 0, to = told == NULL ? 0 : simba_report_told_count(told);

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        const simba_told *one = simba_report_told(told, middle);
        int order = strcmp(one->mutex, mutex);

        if (order == 0 && one->token == token) {
            return one;
        }
        if (order < 0 || (order == 0 && one->token < token)) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return NULL;
}

void simba__view_tell(struct simba__views *views, const simba_report *told)
{
    for (size_t i = 0; i < views->count; i++) {
        views->rows[i].has_told = true;
        views->rows[i].told = told;
    }
}

static const char *text_or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

void simba__put_told(struct simba__json *json, const simba_told *told)
{
    static const simba_told nothing;

    told = told == NULL ? &nothing : told;
    simba__json_text(json, "host", text_or_null(told->host));
    simba__put_ms(json, "pid", told->pid == 0 ? SIMBA__UNKNOWN : told->pid);
    simba__json_text(json, "user", text_or_null(told->user));
    simba__json_text(json, "command", text_or_null(told->command));
}

/* For people: who, and what. */
static void describe(const struct simba__view *view, char *text, size_t room)
{
    const simba_told *told =
        simba__view_find_told(view->told, view->mutex, view->owner->token);
    struct simba__text out = simba__text_fixed(text, room);

    if (told == NULL) {
        simba__text_put(&out, "-");
        return;
    }
    simba__text_put(&out, told->user);
    if (told->host[0] != '\0') {
        simba__text_printf(&out, "%s%s", out.length > 0 ? "@" : "", told->host);
    }
    if (told->pid != 0) {
        simba__text_printf(&out, "%spid %" PRId64, out.length > 0 ? " " : "",
                           told->pid);
    }
    if (told->command[0] != '\0') {
        simba__text_printf(&out, "%s%s", out.length > 0 ? ": " : "",
                           told->command);
    }
}

/* --- for programs -------------------------------------------------------- */

static void put_tenure(struct simba__json *json, const struct simba__view *view)
{
    bool is_free = view->owner->id[0] == '\0';

    simba__json_text(json, "id", is_free ? NULL : view->owner->id);
    simba__json_token(json, "token", is_free ? 0 : view->owner->token);
    simba__put_ms(json, "age_ms", view->age_ms);
    simba__put_ms(json, "ttl_left_ms", view->ttl_left_ms);
    simba__put_ms(json, "lease_left_ms", view->lease_left_ms);
    simba__json_flag(json, "broken", view->owner->is_broken);
    if (view->has_told) {
        simba__put_told(json,
                        is_free ? NULL
                                : simba__view_find_told(view->told, view->mutex,
                                                        view->owner->token));
    }
}

void simba__put_slot(struct simba__json *json, const simba_owner *owner)
{
    simba__put_ms(json, "slot",
                  owner->slots > 1 && owner->slot != SIMBA_NO_SLOT
                      ? (int64_t)owner->slot
                      : SIMBA__UNKNOWN);
}

void simba__put_slots(struct simba__json *json, uint32_t slots)
{
    simba__put_ms(json, "slots",
                  slots == SIMBA_SHARED ? SIMBA__UNKNOWN
                                        : (int64_t)(slots > 1 ? slots : 1));
}

static void put_owner(struct simba__json *json, const struct simba__view *view)
{
    const simba_owner *owner = view->owner;
    struct simba__json item;

    simba__json_item(&item, json);
    put_tenure(&item, view);
    simba__put_slot(&item, owner);
    simba__json_end(&item);
}

/* A mutex with one slot has no number for it; one that any number share has no
 * number of slots. */
void simba__view_members(struct simba__json *json,
                         const struct simba__view *view)
{
    uint32_t slots = view->owner->slots > 1 ? view->owner->slots : 1;
    const simba_owner *owner;

    for (size_t i = 1; (owner = simba__view_owner(view, i)) != NULL; i++) {
        slots = owner->slots < slots ? owner->slots : slots;
    }
    simba__json_text(json, "mutex", view->mutex);
    put_tenure(json, view);
    simba__put_ms(json, "owned", (int64_t)view->owned);
    simba__put_slots(json, slots);
    simba__json_list(json, "owners");
    for (size_t i = 0; (owner = simba__view_owner(view, i)) != NULL; i++) {
        struct simba__view one = *view;

        if (i > 0) {
            one = simba__view_of(view->mutex, owner, view->waiting,
                                 simba_report_store_ms(view->report));
            one.has_told = view->has_told;
            one.told = view->told;
        }
        put_owner(json, &one);
    }
    simba__json_list_end(json);
    simba__put_ms(json, "waiting", view->waiting);
}

/* --- for people ---------------------------------------------------------- */

static void format_time(int64_t ms, char text[SIMBA__FORMAT_ROOM])
{
    if (ms == SIMBA__UNKNOWN) {
        memcpy(text, "-", 2);
    } else {
        simba__format_duration(ms, text);
    }
}

static void add_row(struct simba__table *table,
                    const struct simba__view *view,
                    int64_t bar_ms)
{
    const simba_owner *owner = view->owner;
    bool is_free = owner->id[0] == '\0';
    char token[24] = "-", waiting[16] = "?", who[SIMBA_ID_MAX + 48];
    char age[SIMBA__FORMAT_ROOM], left[SIMBA__FORMAT_ROOM];
    char lease[2 * SIMBA__FORMAT_ROOM], bar[SIMBA__FORMAT_ROOM];
    char told[SIMBA_TOLD_COMMAND_MAX + 3 * SIMBA_TOLD_WORD_MAX];
    const char *texts[COLUMNS] = {view->mutex, who,     token, age,
                                  lease,       waiting, told};

    int length = snprintf(who, sizeof who, "%s%s", is_free ? "-" : owner->id,
                          owner->is_broken ? " (broken)" : "");

    if (view->owned > 1) {
        (void)snprintf(who + length, sizeof who - (size_t)length, " +%zu",
                       view->owned - 1);
    }
    describe(view, told, sizeof told);
    if (owner->token != 0) {
        (void)snprintf(token, sizeof token, "%" PRIu64, owner->token);
    }
    if (view->waiting >= 0) {
        (void)snprintf(waiting, sizeof waiting, "%d", view->waiting);
    }
    format_time(view->age_ms, age);
    format_time(view->lease_left_ms, left);
    if (bar_ms > 0 && view->lease_left_ms != SIMBA__UNKNOWN) {
        simba__format_bar(view->lease_left_ms, bar_ms, bar);
        (void)snprintf(lease, sizeof lease, "%s %6s", bar, left);
    } else {
        (void)snprintf(lease, sizeof lease, "%s", left);
    }
    /* Whoever is in its ttl is well; whoever is not may still renew, unless it
     * was broken. */
    simba__table_add(table,
                     is_free                  ? SIMBA__TINT_FAINT
                     : owner->is_broken       ? SIMBA__TINT_RED
                     : view->ttl_left_ms == 0 ? SIMBA__TINT_YELLOW
                                              : SIMBA__TINT_NONE,
                     texts);
}

/* A full bar is the usual lease, or the longest of those shown. */
void simba__view_table(struct simba__table *table,
                       const struct simba__views *views,
                       simba_store *store,
                       unsigned how)
{
    bool has_bar = (how & SIMBA__VIEW_BAR) != 0, has_told = false;
    const char *texts[COLUMNS] = {
        "MUTEX",   "OWNER", "TOKEN", "AGE", has_bar ? "LEASE LEFT" : "LEASE",
        "WAITING", "TOLD"};
    int64_t ttl_ms, full_ms;

    simba_store_lease(store, &ttl_ms, &full_ms);
    full_ms += ttl_ms;
    for (size_t i = 0; i < views->count; i++) {
        const struct simba__view *view = &views->rows[i];

        has_told = has_told || simba__view_find_told(view->told, view->mutex,
                                                     view->owner->token);
        full_ms = views->rows[i].lease_left_ms > full_ms
                      ? views->rows[i].lease_left_ms
                      : full_ms;
    }
    table->has_colour = simba__has_colour(STDOUT_FILENO);
    table->columns = has_told ? COLUMNS : TOLD; /* it is the last */
    table->right = 1U << TOKEN | 1U << AGE | 1U << LEASE | 1U << WAITING;
    table->soft = 1U << MUTEX | 1U << OWNER;
    table->hosts = 1U << OWNER;
    table->hidden = (how & SIMBA__VIEW_WIDE) != 0 ? 0 : 1U << TOKEN;
    simba__table_add(table, SIMBA__TINT_BOLD, texts);
    for (size_t i = 0; i < views->count; i++) {
        add_row(table, &views->rows[i], has_bar ? full_ms : 0);
    }
}
