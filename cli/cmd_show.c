/* simba show: who owns a mutex, and who waits in which order. */
#define _GNU_SOURCE
#include "cmd_admin.h"
#include "command.h"
#include "standing.h"
#include "words.h"

#include <simba/admin.h>

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const char help[] =
    "usage: simba show [OPTION…] NAME\n"
    "\n"
    "Show who owns the mutex NAME, since when, how long the lease still runs\n"
    "if it is not renewed, the fencing token, and who waits, first come\n"
    "first. The token is what 'simba break' asks for.\n"
    "\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                   see 'simba --help'\n"
    "\n"
    "With --json one object: mutex, id, token, age_ms, ttl_left_ms,\n"
    "lease_left_ms, broken, waiting, and waiters, a list of objects with id,\n"
    "place, waited_ms and called; what is not known, or not there, is null.\n"
    "\n"
    "exit codes: 0 shown, even if nobody owns it; 64 usage; 69 store\n"
    "unreachable; 70 a fault of simba; 77 access denied; 78 wrong\n"
    "configuration, URL or name\n";

static const struct option options[] = {SIMBA__OPT_SHARED_LONG,
                                        {NULL, 0, NULL, 0}};

/* What was found, and how long a full bar is. */
struct view {
    const simba_report *report;
    struct simba__standing standing;
    int64_t full_ms;
};

static int64_t waited_ms(const struct view *view, const simba_waiter *waiter)
{
    int64_t now_ms = simba__standing_now(simba_report_store_ms(view->report));

    if (waiter->joined_at_ms == 0 || now_ms < waiter->joined_at_ms) {
        return SIMBA__STANDING_UNKNOWN;
    }
    return now_ms - waiter->joined_at_ms;
}

/* --- for programs -------------------------------------------------------- */

static void print_waiter(const struct view *view,
                         struct simba__object *object,
                         size_t index)
{
    const simba_waiter *waiter = simba_report_waiter(view->report, index);
    int64_t waited = waited_ms(view, waiter);
    struct simba__object item;

    simba__object_item(&item, object, index == 0);
    simba__object_text(&item, "id", waiter->id);
    simba__object_number(&item, "place", (int64_t)index + 1);
    if (waited == SIMBA__STANDING_UNKNOWN) {
        simba__object_null(&item, "waited_ms");
    } else {
        simba__object_number(&item, "waited_ms", waited);
    }
    simba__object_flag(&item, "called", waiter->is_offered);
    simba__object_end(&item);
}

static void print_object(const struct view *view)
{
    size_t count = simba_report_waiter_count(view->report);
    struct simba__object object;

    simba__object_begin(&object, stdout);
    simba__standing_members(&object, &view->standing);
    simba__object_list(&object, "waiters");
    for (size_t i = 0; i < count; i++) {
        print_waiter(view, &object, i);
    }
    simba__object_list_end(&object);
    simba__object_end(&object);
}

/* --- for people ---------------------------------------------------------- */

static void print_since(const struct simba__standing *standing)
{
    char age[SIMBA__WORDS_ROOM], since[SIMBA__WORDS_ROOM];

    if (standing->age_ms == SIMBA__STANDING_UNKNOWN) {
        printf("since    unknown\n");
        return;
    }
    simba__words_duration(standing->age_ms, age);
    simba__words_time(simba__words_unix_ms() - standing->age_ms, false, since);
    printf("since    %s, %s ago\n", since, age);
}

static void print_lease(const struct view *view)
{
    const struct simba__standing *standing = &view->standing;
    char left[SIMBA__WORDS_ROOM], ttl[SIMBA__WORDS_ROOM];
    char bar[SIMBA__WORDS_ROOM] = "";

    if (standing->lease_left_ms == SIMBA__STANDING_UNKNOWN) {
        printf("lease    as long as the session of its owner lives\n");
        return;
    }
    simba__words_duration(standing->lease_left_ms, left);
    simba__words_duration(standing->ttl_left_ms, ttl);
    if (simba__words_is_live(STDOUT_FILENO)) {
        simba__words_bar(standing->lease_left_ms, view->full_ms, bar);
    }
    printf("lease    %s left, of it %s ttl%s%s\n", left, ttl,
           *bar == '\0' ? "" : "  ", bar);
}

static void print_owner(const struct view *view)
{
    const simba_owner *owner = view->standing.owner;

    if (owner->id[0] == '\0') {
        printf("owner    nobody\n");
        return;
    }
    printf("owner    ");
    simba__table_text(stdout, owner->id);
    printf("\ntoken    ");
    if (owner->token == 0) {
        printf("unknown: not one of ours\n");
    } else {
        printf("%" PRIu64 "\n", owner->token);
    }
    print_since(&view->standing);
    print_lease(view);
    if (owner->is_broken) {
        printf("broken   ended by force: it is not renewed any more\n");
    }
}

static void print_line(const struct view *view)
{
    struct simba__table table = {.columns = 4, .right = 1 | 4};
    const simba_waiter *waiter;

    for (size_t i = 0; (waiter = simba_report_waiter(view->report, i)) != NULL;
         i++) {
        char position[24], waited[SIMBA__WORDS_ROOM] = "";
        int64_t ms = waited_ms(view, waiter);
        const char *texts[] = {position, waiter->id, waited,
                               waiter->is_offered ? "called" : ""};

        (void)snprintf(position, sizeof(position), "%9zu.", i + 1);
        if (ms != SIMBA__STANDING_UNKNOWN) {
            simba__words_duration(ms, waited);
        }
        simba__table_add(&table, SIMBA__TINT_NONE, texts);
    }
    simba__table_print(&table, stdout, table.count);
    simba__table_fini(&table);
}

static void print_all(const struct view *view)
{
    printf("mutex    ");
    simba__table_text(stdout, view->standing.mutex);
    (void)fputc('\n', stdout);
    print_owner(view);
    printf("waiting  %d\n", view->standing.waiting);
    print_line(view);
}

/* --- the command --------------------------------------------------------- */

static int show(const struct simba__command *command,
                const struct simba__words *words,
                simba_store *store)
{
    const char *mutex = words->words[0];
    simba_report *report = NULL;
    simba_error error = {0};
    struct view view;
    int64_t ttl_ms, transition_ms;

    if (simba_admin_show(store, mutex, &report, &error) != SIMBA_OK) {
        return simba__command_fail(&words->cli, command->name, &error);
    }
    simba_store_lease(store, &ttl_ms, &transition_ms);
    view = (struct view){
        .report = report,
        .standing = simba__standing_of(mutex, simba_report_owner(report),
                                       (int)simba_report_waiter_count(report),
                                       simba_report_store_ms(report)),
        .full_ms = ttl_ms + transition_ms,
    };
    if (words->cli.is_json) {
        print_object(&view);
    } else {
        print_all(&view);
    }
    simba_report_close(report);
    return simba__command_end();
}

int simba__cmd_show(struct simba__cli *cli, int argc, char **argv)
{
    static const struct simba__command command = {
        .name = "show",
        .reach = SIMBA__REACH_LOOK,
        .help = help,
        .options = options,
        .letters = "",
        .least = 1,
        .most = 1,
        .wanted = "the NAME of one mutex",
    };
    struct simba__words words = {*cli, argc, argv};

    return simba__command_run(&command, &words, show);
}
