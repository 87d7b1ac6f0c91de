/* simba show: who owns a mutex, and who waits in which order; and simba held,
 * which only says whether anybody does. */
#define _GNU_SOURCE
#include "cli/admin.h"

#include <simba/contender.h>

#include <inttypes.h>
#include <unistd.h>

enum { BREAKS_SHOWN = 10 };

static const char held_help[] =
    "usage: simba held [OPTION…] NAME\n"
    "\n"
    "Tell by the exit code whether anybody owns the mutex NAME, and print\n"
    "nothing: for scripts. It may be otherwise a moment later; what must not\n"
    "run twice is for 'simba lock'.\n"
    "\n"
    "    if simba held nightly; then echo 'the report is being made'; fi\n"
    "\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                   see 'simba --help'\n"
    "\n"
    "exit codes: 0 held; 1 free; 64 usage; 69 store unreachable; 70 a fault\n"
    "of simba; 77 access denied; 78 wrong configuration, URL or name\n";

static const char help[] =
    "usage: simba show [OPTION…] NAME\n"
    "\n"
    "Show who owns the mutex NAME, since when, how long the lease still runs\n"
    "if it is not renewed, the fencing token, what it tells about itself\n"
    "(--tell), and who waits, first come first. The token is what 'simba\n"
    "break' asks for.\n"
    "\n"
    "      --breaks     and which tenures were ended by force, by whom and\n"
    "                   why: the last ten, with --json all; not on ZooKeeper\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                   see 'simba --help'\n"
    "\n"
    "With --json one object: mutex, id, token, age_ms, ttl_left_ms,\n"
    "lease_left_ms, broken, host, pid, user, command, owned, slots, owners,\n"
    "waiting; waiters, a list of objects with id, position, waited_ms,\n"
    "offered and slots; with --breaks also breaks, a list of objects with\n"
    "token, id, unix_ms, now, by and reason. What is not known, or not\n"
    "there, is null.\n"
    "\n"
    "exit codes: 0 shown, even if nobody owns it; 64 usage; 69 store\n"
    "unreachable; 70 a fault of simba; 77 access denied; 78 wrong\n"
    "configuration, URL or name\n";

static void print_object(const simba_report *report,
                         const struct simba__view *view,
                         bool has_breaks,
                         const simba_report *breaks)
{
    struct simba__json json;

    simba__json_print(&json, stdout);
    simba__view_members(&json, view);
    simba__admin_put_waiters(&json, report);
    if (has_breaks) {
        simba__admin_put_breaks(&json, breaks);
    }
    simba__json_line(&json);
}

/* --- for people ---------------------------------------------------------- */

/* How many others it suffers, if any, and which of them it is. */
static void print_slot(const simba_owner *owner)
{
    if (owner->slots > 1 && owner->slot == SIMBA_NO_SLOT) {
        /* nor is it one of so many: the least counts */
    } else if (owner->slots == SIMBA_SHARED) {
        printf("slot     %" PRIu32 ", shared\n", owner->slot);
    } else if (owner->slots > 1) {
        printf("slot     %" PRIu32 " of %" PRIu32 "\n", owner->slot,
               owner->slots);
    }
}

static void print_word(const char *what, const char *text)
{
    if (text[0] != '\0') {
        printf("%-8s ", what);
        simba__print_calm(stdout, text);
        (void)fputc('\n', stdout);
    }
}

static void print_told(const simba_told *told)
{
    if (told != NULL) {
        print_word("host", told->host);
        if (told->pid != 0) {
            printf("pid      %" PRId64 "\n", told->pid);
        }
        print_word("user", told->user);
        print_word("command", told->command);
    }
}

static void print_owner(const struct simba__view *view, int64_t full_ms)
{
    const simba_owner *owner = view->owner;
    char age[SIMBA__FORMAT_ROOM], since[SIMBA__FORMAT_ROOM];
    char left[SIMBA__FORMAT_ROOM], ttl[SIMBA__FORMAT_ROOM];
    char bar[SIMBA__FORMAT_ROOM] = "";

    if (owner->id[0] == '\0') {
        printf("owner    nobody\n");
        return;
    }
    printf("owner    ");
    simba__print_calm(stdout, owner->id);
    if (owner->token == 0) {
        printf("\ntoken    unknown: not one of ours\n");
    } else {
        printf("\ntoken    %" PRIu64 "\n", owner->token);
    }
    print_slot(owner);
    print_told(simba__view_find_told(view->told, view->mutex, owner->token));
    if (view->age_ms == SIMBA__UNKNOWN) {
        printf("since    unknown\n");
    } else {
        simba__format_duration(view->age_ms, age);
        simba__format_time(simba__unix_ms() - view->age_ms, false, since);
        printf("since    %s, %s ago\n", since, age);
    }
    if (view->lease_left_ms == SIMBA__UNKNOWN) {
        printf("lease    as long as the session of its owner lives\n");
    } else {
        simba__format_duration(view->lease_left_ms, left);
        simba__format_duration(view->ttl_left_ms, ttl);
        if (simba__is_live(STDOUT_FILENO)) {
            simba__format_bar(view->lease_left_ms, full_ms, bar);
        }
        printf("lease    %s left, of it %s ttl%s%s\n", left, ttl,
               *bar == '\0' ? "" : "  ", bar);
    }
    if (owner->is_broken) {
        printf("broken   ended by force: it is not renewed any more\n");
    }
    if (owner->is_asked) {
        printf("asked    to hand over\n");
    }
}

static void print_queue(const simba_report *report)
{
    struct simba__table table = {.columns = 5, .right = 1 | 4};
    const simba_waiter *waiter;

    for (size_t i = 0; (waiter = simba_report_waiter(report, i)) != NULL; i++) {
        char position[24], waited[SIMBA__FORMAT_ROOM] = "", slots[24] = "";
        int64_t ms = simba__admin_waited_ms(report, waiter);
        const char *texts[] = {position, waiter->id, waited, slots,
                               waiter->is_offered ? "offered" : ""};

        (void)snprintf(position, sizeof position, "%9zu.", i + 1);
        if (ms != SIMBA__UNKNOWN) {
            simba__format_duration(ms, waited);
        }
        if (waiter->slots == SIMBA_SHARED) {
            (void)snprintf(slots, sizeof slots, "shared");
        } else if (waiter->slots > 1) {
            (void)snprintf(slots, sizeof slots, "%" PRIu32 " slots",
                           waiter->slots);
        }
        simba__table_add(&table, SIMBA__TINT_NONE, texts);
    }
    simba__table_print(&table, stdout, table.count);
    simba__table_fini(&table);
}

/* The last of them; --json has all. */
static void print_breaks(const simba_report *breaks)
{
    size_t count = breaks == NULL ? 0 : simba_report_broken_count(breaks);
    size_t first = count > BREAKS_SHOWN ? count - BREAKS_SHOWN : 0;

    for (size_t i = first; i < count; i++) {
        const simba_broken *broken = simba_report_broken(breaks, i);
        char when[SIMBA__FORMAT_ROOM];

        simba__format_time(broken->unix_ms, false, when);
        printf("%-8s %s  token %" PRIu64 " of ", i == first ? "breaks" : "",
               when, broken->token);
        simba__print_calm(stdout, broken->id);
        printf("%s, by ", broken->now ? ", at once" : "");
        simba__print_calm(stdout, broken->reason);
        (void)fputc('\n', stdout);
    }
}

static int show(const struct simba__command *command,
                const struct simba__words *words,
                simba_store *store)
{
    const char *mutex = words->words[0];
    const bool *has_breaks = command->user;
    simba_report *report = NULL, *told, *breaks;
    simba_error error = {0};
    struct simba__view view;
    int64_t ttl_ms, transition_ms;

    if (simba_admin_show(store, mutex, &report, &error) != SIMBA_OK) {
        return simba__command_fail(&words->cli, command->name, &error);
    }
    told = simba__view_ask_told(store, mutex);
    breaks = *has_breaks ? simba__admin_ask_breaks(store, mutex) : NULL;
    view = simba__view_shown(mutex, report);
    view.has_told = true;
    view.told = told;
    if (words->cli.is_json) {
        print_object(report, &view, *has_breaks, breaks);
    } else {
        simba_store_lease(store, &ttl_ms, &transition_ms);
        printf("mutex    ");
        simba__print_calm(stdout, mutex);
        (void)fputc('\n', stdout);
        print_owner(&view, ttl_ms + transition_ms);
        for (size_t i = 1; i < view.owned; i++) {
            struct simba__view other =
                simba__view_of(mutex, simba_report_owner_at(report, i), 0,
                               simba_report_store_ms(report));

            other.told = told;
            print_owner(&other, ttl_ms + transition_ms);
        }
        printf("waiting  %d\n", view.waiting);
        print_queue(report);
        print_breaks(breaks);
    }
    simba_report_close(breaks);
    simba_report_close(told);
    simba_report_close(report);
    return simba__command_end();
}

int simba__cmd_show(struct simba__words *words)
{
    bool has_breaks = false;
    const struct simba__option options[] = {
        {.name = "breaks", .kind = SIMBA__FLAG, .to = &has_breaks},
        {.name = NULL}};
    const struct simba__command command = {
        .name = "show",
        .help = help,
        .options = options,
        .user = &has_breaks,
        .reach = SIMBA__REACH_LOOK,
        .least = 1,
        .most = 1,
        .wanted = "the NAME of one mutex",
    };

    return simba__command_run(&command, words, show);
}

static int held(const struct simba__command *command,
                const struct simba__words *words,
                simba_store *store)
{
    simba_report *report = NULL;
    simba_error error = {0};
    bool is_free;

    if (simba_admin_show(store, words->words[0], &report, &error) != SIMBA_OK) {
        return simba__command_fail(&words->cli, command->name, &error);
    }
    is_free = simba_report_owner(report)->id[0] == '\0';
    simba_report_close(report);
    return is_free ? 1 : 0;
}

int simba__cmd_held(struct simba__words *words)
{
    static const struct simba__command command = {
        .name = "held",
        .help = held_help,
        .reach = SIMBA__REACH_LOOK,
        .least = 1,
        .most = 1,
        .wanted = "the NAME of one mutex",
    };

    return simba__command_run(&command, words, held);
}
