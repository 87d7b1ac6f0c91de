/* Mutexes that are looked at over and over; see follow.h. */
#define _GNU_SOURCE
#include "follow.h"
#include "patience.h"
#include "say.h"
#include "standing.h"
#include "words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Nobody reads faster, and stores have better things to do. */
enum { LEAST_MS = 50 };

bool simba__follow_interval(const char *text, int64_t *ms)
{
    if (!simba__opt_duration("--interval", text, ms)) {
        return false;
    }
    if (*ms < LEAST_MS) {
        simba__say("--interval: '%s' is too short; at least %dms", text,
                   LEAST_MS);
        return false;
    }
    return true;
}

static struct simba__standing standing_of(const simba_listed *listed,
                                          int64_t store_ms)
{
    return simba__standing_of(listed->mutex, &listed->owner, listed->waiting,
                              store_ms);
}

void simba__follow_object(const simba_listed *listed, int64_t store_ms)
{
    struct simba__standing standing = standing_of(listed, store_ms);
    struct simba__object object;

    simba__object_begin(&object, stdout);
    simba__standing_members(&object, &standing);
    simba__object_end(&object);
}

/* --- tables -------------------------------------------------------------- */

static struct simba__standing *rows_of(const simba_report *report)
{
    size_t count = simba_report_mutex_count(report);
    struct simba__standing *rows =
        count == 0 ? NULL : calloc(count, sizeof(*rows));

    for (size_t i = 0; rows != NULL && i < count; i++) {
        rows[i] = standing_of(simba_report_mutex(report, i),
                              simba_report_store_ms(report));
    }
    return rows;
}

/* A full bar is the usual lease, or the longest of those shown. */
static int64_t full_bar_ms(const struct simba__standing *rows,
                           size_t count,
                           simba_store *store)
{
    int64_t ttl_ms, full_ms;

    simba_store_lease(store, &ttl_ms, &full_ms);
    full_ms += ttl_ms;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].lease_left_ms > full_ms) {
            full_ms = rows[i].lease_left_ms;
        }
    }
    return full_ms;
}

static void fill(struct simba__table *table,
                 const struct simba__standing *rows,
                 size_t count,
                 int64_t bar_ms)
{
    table->has_colour = simba__words_has_colour(STDOUT_FILENO);
    simba__standing_head(table, bar_ms);
    for (size_t i = 0; i < count; i++) {
        simba__standing_row(table, &rows[i], bar_ms);
    }
}

void simba__follow_print(const simba_report *report, simba_store *store)
{
    struct simba__standing *rows = rows_of(report);
    size_t count = rows == NULL ? 0 : simba_report_mutex_count(report);
    bool has_bar = simba__words_is_live(STDOUT_FILENO);
    struct simba__table table = {0};

    fill(&table, rows, count, has_bar ? full_bar_ms(rows, count, store) : 0);
    simba__table_print(&table, stdout, table.count);
    simba__table_fini(&table);
    free(rows);
}

static void print_block(FILE *out, const struct simba__table *table)
{
    size_t room = simba__live_room();

    if (table->count <= 1) {
        (void)fputs("no mutex is owned or waited for\n", out);
    } else if (table->count <= room) {
        simba__table_print(table, out, table->count);
    } else {
        simba__table_print(table, out, room - 1);
        fprintf(out, "and %zu more\n", table->count - (room - 1));
    }
}

char *simba__follow_block(const struct simba__standing *rows,
                          size_t count,
                          simba_store *store)
{
    struct simba__table table = {.room_most = simba__live_width()};
    size_t length = 0;
    char *block = NULL;
    FILE *out = open_memstream(&block, &length);

    if (out == NULL) {
        return NULL;
    }
    fill(&table, rows, count, full_bar_ms(rows, count, store));
    print_block(out, &table);
    simba__table_fini(&table);
    return fclose(out) == 0 ? block : NULL;
}

/* --- changes ------------------------------------------------------------- */

static void tell(const struct simba__follow *follow,
                 const simba_listed *listed,
                 int64_t store_ms)
{
    char when[SIMBA__WORDS_ROOM];

    if (follow->cli->is_json) {
        simba__follow_object(listed, store_ms);
        return;
    }
    simba__words_time(simba__words_unix_ms(), true, when);
    printf("%s  ", when);
    simba__table_text(stdout, listed->mutex);
    if (listed->owner.id[0] == '\0') {
        printf("  free");
    } else {
        printf("  owned by ");
        simba__table_text(stdout, listed->owner.id);
        printf(" (token %" PRIu64 ")%s", listed->owner.token,
               listed->owner.is_broken ? ", broken" : "");
    }
    if (listed->waiting > 0) {
        printf(", %d waiting", listed->waiting);
    }
    (void)fputc('\n', stdout);
}

static void tell_gone(const struct simba__follow *follow,
                      const simba_listed *gone)
{
    simba_listed freed = {.owner = simba_owner_none(), .waiting = 0};

    memcpy(freed.mutex, gone->mutex, sizeof(freed.mutex));
    tell(follow, &freed, 0);
}

static bool is_same(const simba_listed *one, const simba_listed *other)
{
    return strcmp(one->owner.id, other->owner.id) == 0 &&
           one->owner.token == other->owner.token &&
           one->owner.is_broken == other->owner.is_broken &&
           one->waiting == other->waiting;
}

/* Both are sorted by name. */
static void tell_changes(const struct simba__follow *follow,
                         const simba_report *before,
                         const simba_report *after)
{
    size_t i = 0, j = 0;

    for (;;) {
        const simba_listed *old =
            before == NULL ? NULL : simba_report_mutex(before, i);
        const simba_listed *new = simba_report_mutex(after, j);
        int order;

        if (old == NULL && new == NULL) {
            return;
        }
        order = old == NULL   ? 1
                : new == NULL ? -1
                              : strcmp(old->mutex, new->mutex);
        if (order < 0) {
            tell_gone(follow, old);
        } else if (order > 0 || !is_same(old, new)) {
            tell(follow, new, simba_report_store_ms(after));
        }
        i += order <= 0;
        j += order >= 0;
    }
}

/* --- over and over ------------------------------------------------------- */

static void pause_for(int64_t ms)
{
    struct timespec length = {.tv_sec = ms / 1000,
                              .tv_nsec = ms % 1000 * 1000000};

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL);
}

int simba__follow_open(struct simba__follow *follow,
                       int64_t interval_ms,
                       simba_error *error)
{
    struct simba__command_log subscriber = {simba__live_log, follow->live};
    bool is_said = false;
    int rc;

    while ((rc = simba__command_look(follow->cli, &subscriber, &follow->store,
                                     error)) == SIMBA_ENOTINIT) {
        if (!is_said) {
            simba__command_say_absent(follow->cli, error);
            is_said = true;
        }
        pause_for(interval_ms);
    }
    return rc;
}

int simba__follow_look(struct simba__follow *follow,
                       simba_report **report,
                       simba_error *error)
{
    struct simba__patience patience;
    int rc;

    simba__patience_begin(&patience, follow->was_up ? NULL : follow->cli);
    rc = simba_admin_list(follow->store, follow->glob, report, error);
    simba__patience_end(&patience);
    if (rc == SIMBA_OK) {
        follow->was_up = true;
        follow->is_down = false;
        return SIMBA_OK;
    }
    if (rc != SIMBA_EUNAVAIL || !follow->was_up) {
        return rc;
    }
    if (!follow->is_down) {
        simba__live_log(follow->live, SIMBA_LOG_ERROR, error->message,
                        "going on when it is back");
    }
    follow->is_down = true;
    return SIMBA_OK;
}

void simba__follow_draw(struct simba__follow *follow,
                        const simba_report *report)
{
    struct simba__standing *rows = rows_of(report);
    size_t count = rows == NULL ? 0 : simba_report_mutex_count(report);

    simba__live_draw(follow->live,
                     simba__follow_block(rows, count, follow->store));
    free(rows);
}

static void show(struct simba__follow *follow,
                 const simba_report *before,
                 const simba_report *now)
{
    if (follow->live->is_live) {
        simba__follow_draw(follow, now);
    } else {
        tell_changes(follow, before, now);
    }
}

int simba__follow_run(struct simba__follow *follow, int64_t interval_ms)
{
    simba_report *before = NULL, *now = NULL;
    simba_error error = {0};
    int rc;

    while ((rc = simba__follow_look(follow, &now, &error)) == SIMBA_OK) {
        if (now != NULL) {
            show(follow, before, now);
            simba_report_close(before);
            before = now;
        }
        if (!simba__command_flush() || !simba__live_is_read()) {
            break;
        }
        pause_for(interval_ms);
    }
    simba_report_close(before);
    return rc == SIMBA_OK ? simba__command_end()
                          : simba__command_fail(follow->cli, "list", &error);
}
