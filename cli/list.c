/* simba list: who owns what, once or for as long as it is wanted: as a table
 * that is drawn anew, or as a line for each mutex that has changed. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "cli/mutex_view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: simba list [OPTION…] [GLOB]\n"
    "\n"
    "List the mutexes that somebody owns or waits for: owner, age of the\n"
    "tenure, how long the lease still runs if it is not renewed, and how many\n"
    "wait. On a terminal long names are cut to its width. GLOB chooses by\n"
    "name; quote it. A store that is not there yet is not made: it is taken\n"
    "for an empty one.\n"
    "\n"
    "    simba list -f 'nightly-*'\n"
    "\n"
    "  -f, --follow         look again and again: on a terminal the table is\n"
    "                       drawn anew in place, with the lease as a bar;\n"
    "                       elsewhere there is a line for each mutex whose\n"
    "                       owner or queue has changed. Ctrl-C ends it\n"
    "      --interval DUR   how often --follow looks: 250ms, 5m; default: 1s\n"
    "      --wide           with tokens, and with what owners tell about\n"
    "                       themselves (--tell); nothing is cut\n"
    "  -q, --quiet          names only, one a line\n"
    "      --store URL, --json, -v, --help\n"
    "                       see 'simba --help'\n"
    "\n"
    "With --json an object for each: mutex, id, token, age_ms, ttl_left_ms,\n"
    "lease_left_ms, broken, owned, slots, owners, waiting; with --wide host,\n"
    "pid, user and command of who tells them; what is not known is null.\n"
    "\n"
    "exit codes: 0 listed, even if there are none; 64 usage; 69 store\n"
    "unreachable; 70 a fault of simba; 77 access denied; 78 wrong\n"
    "configuration or URL; 128 + N ended by signal N, so 130 by Ctrl-C\n";

static void print_object(const struct simba__view *view)
{
    struct simba__json json;

    simba__json_print(&json, stdout);
    simba__view_members(&json, view);
    simba__json_line(&json);
}

/* --- once ---------------------------------------------------------------- */

static int list_once(const struct simba__command *command,
                     const struct simba__words *words,
                     simba_store *store)
{
    simba_report *report = NULL;
    simba_error error = {0};
    const bool *is_wide = command->user;
    struct simba__table table = {0};
    struct simba__views views;
    simba_report *told = NULL;

    if (simba_admin_list(store, words->words[0], &report, &error) != SIMBA_OK) {
        return simba__command_fail(&words->cli, command->name, &error);
    }
    views = simba__view_listed(report);
    if (*is_wide) {
        told = simba__view_ask_told(store, NULL);
        simba__view_tell(&views, told);
    }
    for (size_t i = 0; i < views.count; i++) {
        if (words->cli.is_json) {
            print_object(&views.rows[i]);
        } else if (words->cli.verbosity < 0) {
            simba__print_calm(stdout, views.rows[i].mutex);
            (void)fputc('\n', stdout);
        }
    }
    if (!words->cli.is_json && words->cli.verbosity >= 0) {
        if (views.count == 0) {
            simba__say("no mutex%s is owned or waited for",
                       words->count > 0 ? " of that name" : "");
        } else {
            size_t lines;

            simba__live_size(&lines, &table.room_most);
            table.room_most = *is_wide ? 0 : table.room_most;
            simba__view_table(
                &table, &views, store,
                (simba__is_live(STDOUT_FILENO) ? SIMBA__VIEW_BAR : 0) |
                    (*is_wide ? SIMBA__VIEW_WIDE : 0));
            simba__table_print(&table, stdout, table.count);
            simba__table_fini(&table);
        }
    }
    free(views.rows);
    simba_report_close(told);
    simba_report_close(report);
    return simba__command_end();
}

/* --- changes ------------------------------------------------------------- */

static void tell(const struct simba__follow *follow,
                 const struct simba__view *view)
{
    const simba_owner *owner = view->owner;
    char when[SIMBA__FORMAT_ROOM];

    if (follow->cli->is_json) {
        print_object(view);
        return;
    }
    simba__format_time(simba__unix_ms(), true, when);
    printf("%s  ", when);
    simba__print_calm(stdout, view->mutex);
    if (owner->id[0] == '\0') {
        printf("  free");
    } else {
        printf("  owned by ");
        simba__print_calm(stdout, owner->id);
        printf(" (token %" PRIu64 ")%s", owner->token,
               owner->is_broken ? ", broken" : "");
        if (view->owned > 1) {
            printf(" and %zu more", view->owned - 1);
        }
    }
    if (view->waiting > 0) {
        printf(", %d waiting", view->waiting);
    }
    (void)fputc('\n', stdout);
}

/* Do the same tenures own it, and is none of them broken since? */
static bool is_same(const struct simba__view *a, const struct simba__view *b)
{
    bool is_same = a->waiting == b->waiting && a->owned == b->owned;

    for (size_t i = 0; is_same && i < a->owned; i++) {
        const simba_owner *one = simba__view_owner(a, i);
        const simba_owner *other = simba__view_owner(b, i);

        is_same = strcmp(one->id, other->id) == 0 &&
                  one->token == other->token &&
                  one->is_broken == other->is_broken;
    }
    return is_same;
}

/* Both are sorted by name. One that is gone is free. */
static void tell_changes(const struct simba__follow *follow,
                         const simba_report *before,
                         const simba_report *after)
{
    const simba_owner nobody = simba_owner_none();
    size_t i = 0, j = 0;

    for (;;) {
        const simba_listed *old =
            before == NULL ? NULL : simba_report_mutex(before, i);
        const simba_listed *new = simba_report_mutex(after, j);
        struct simba__view view, was;
        int order;

        if (old == NULL && new == NULL) {
            return;
        }
        order = old == NULL   ? 1
                : new == NULL ? -1
                              : strcmp(old->mutex, new->mutex);
        if (order < 0) {
            view = simba__view_of(old->mutex, &nobody, 0, 0);
        } else {
            view = simba__view_row(after, j);
        }
        if (order == 0) {
            was = simba__view_row(before, i);
        }
        if (order != 0 || !is_same(&was, &view)) {
            tell(follow, &view);
        }
        i += order <= 0;
        j += order >= 0;
    }
}

/* --- over and over ------------------------------------------------------- */

int simba__follow_open(struct simba__follow *follow,
                       int64_t interval_ms,
                       simba_error *error)
{
    const struct simba__opening opening = {
        .look = true, .log = simba__live_log, .user = follow->live};
    bool is_said = false;
    int rc;

    while ((rc = simba__command_open(follow->cli, &opening, &follow->store,
                                     error)) == SIMBA_ENOTINIT) {
        if (!is_said) {
            simba__command_say_absent(follow->cli, error);
            is_said = true;
        }
        simba__clock_pause(interval_ms);
    }
    return rc;
}

int simba__follow_look(struct simba__follow *follow,
                       simba_report **report,
                       simba_error *error)
{
    struct simba__wait_notice notice;
    int rc;

    simba__wait_notice_begin(&notice, follow->was_up ? NULL : follow->cli);
    rc = simba_admin_list(follow->store, follow->glob, report, error);
    simba__wait_notice_end(&notice);
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
                        const struct simba__views *views)
{
    struct simba__table table = {0};
    size_t lines, length = 0;
    char *block = NULL;
    FILE *out = open_memstream(&block, &length);

    if (out == NULL) {
        simba__live_draw(follow->live, NULL);
        return;
    }
    simba__live_size(&lines, &table.room_most);
    table.room_most = follow->is_wide ? 0 : table.room_most;
    simba__view_table(&table, views, follow->store,
                      SIMBA__VIEW_BAR |
                          (follow->is_wide ? SIMBA__VIEW_WIDE : 0));
    if (table.count <= 1) {
        (void)fputs("no mutex is owned or waited for\n", out);
    } else if (table.count <= lines) {
        simba__table_print(&table, out, table.count);
    } else {
        simba__table_print(&table, out, lines - 1);
        fprintf(out, "and %zu more\n", table.count - (lines - 1));
    }
    simba__table_fini(&table);
    simba__live_draw(follow->live, fclose(out) == 0 ? block : NULL);
}

/* Until it is of no use; answers the exit code. */
static int run_follow(struct simba__follow *follow, int64_t interval_ms)
{
    simba_report *before = NULL, *now = NULL;
    simba_error error = {0};
    int rc = simba__follow_open(follow, interval_ms, &error);

    while (rc == SIMBA_OK &&
           (rc = simba__follow_look(follow, &now, &error)) == SIMBA_OK) {
        if (now != NULL && follow->live->is_live) {
            struct simba__views views = simba__view_listed(now);

            simba__follow_draw(follow, &views);
            free(views.rows);
        } else if (now != NULL) {
            tell_changes(follow, before, now);
        }
        if (now != NULL) {
            simba_report_close(before);
            before = now;
        }
        if (!simba__command_flush() || !simba__live_is_read()) {
            break;
        }
        simba__clock_pause(interval_ms);
    }
    simba_report_close(before);
    return rc == SIMBA_OK ? simba__command_end()
                          : simba__command_fail(follow->cli, "list", &error);
}

int simba__cmd_list(struct simba__words *words)
{
    bool is_follow = false, is_wide = false;
    int64_t interval_ms = 1000;
    const struct simba__option options[] = {
        {"follow", 'f', SIMBA__FLAG, .to = &is_follow},
        {.name = "wide", .kind = SIMBA__FLAG, .to = &is_wide},
        {.name = "interval",
         .kind = SIMBA__DURATION,
         .to = &interval_ms,
         .least_ms = SIMBA__INTERVAL_LEAST_MS},
        {.name = NULL}};
    const struct simba__command command = {
        .name = "list",
        .help = help,
        .reach = SIMBA__REACH_LOOK,
        .options = options,
        .user = &is_wide,
        .most = 1,
        .wanted = "one GLOB; put it in quotes",
    };
    struct simba__live live;
    struct simba__follow follow = {.cli = &words->cli, .live = &live};
    int rc = simba__command_read(&command, words);

    if (rc != SIMBA__GO_ON) {
        return rc;
    }
    if (!is_follow) {
        return simba__command_serve(&command, words, list_once);
    }
    follow.glob = words->words[0];
    follow.is_wide = is_wide;
    simba__live_init(&live, !words->cli.is_json && words->cli.verbosity >= 0);
    rc = run_follow(&follow, interval_ms);
    simba_store_close(follow.store);
    simba__live_fini(&live);
    return rc;
}
