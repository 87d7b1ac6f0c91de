/* simba watch: a line for every change of owner, and on a terminal below it how
 * things stand. */
#define _GNU_SOURCE
#include "cmd_admin.h"
#include "command.h"
#include "exit.h"
#include "follow.h"
#include "patience.h"
#include "say.h"
#include "sight.h"
#include "standing.h"

#include <simba/admin.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: simba watch [OPTION…] [NAME…]\n"
    "\n"
    "Tell every change of owner that is seen, in order and none twice, of the\n"
    "mutexes NAME, or of all there are. A line says 'owned', by whom, or\n"
    "'free'; the first line of a mutex tells who owns it already. 'gap' comes\n"
    "where owners may have come and gone unseen; some stores cannot tell, and\n"
    "there it may come without cause. On a terminal a table below shows how\n"
    "things stand now: age, lease left, waiters. A store that is not there "
    "yet\n"
    "is waited for, and not made. Ctrl-C ends it.\n"
    "\n"
    "    simba --json watch nightly-report backup >>owners.jsonl\n"
    "\n"
    "      --count N        end after N lines\n"
    "      --interval DUR   how often to look where a store tells nothing by\n"
    "                       itself: 250ms, 5m; default: 1s. Without NAME, new\n"
    "                       mutexes are found so often: one that is owned for\n"
    "                       a shorter time may not be seen at all\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                       see 'simba --help'\n"
    "\n"
    "With --json an object for each line: event (owned, free, gap), mutex,\n"
    "id, token, before_id, before_token, unix_ms, boot_ms, boot.\n"
    "\n"
    "exit codes: 0 N lines were told; 64 usage; 69 store unreachable at the\n"
    "start (later it is waited for); 70 a fault of simba; 77 access denied; "
    "78\n"
    "wrong configuration, URL or name, or no NAME on a store that cannot "
    "list;\n"
    "128 + N ended by signal N, so 130 by Ctrl-C\n";

enum { OPT_COUNT = SIMBA__OPT_OWN, OPT_INTERVAL };

static const struct option options[] = {
    {"count", required_argument, NULL, OPT_COUNT},
    {"interval", required_argument, NULL, OPT_INTERVAL},
    SIMBA__OPT_SHARED_LONG,
    {NULL, 0, NULL, 0}};

struct wish {
    int64_t most, interval_ms;
};

static bool take_count(struct wish *wish, const char *text)
{
    char *end = NULL;

    errno = 0;
    wish->most = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 ||
        wish->most == 0) {
        simba__say("--count: '%s' is no number from 1 on", text);
        return false;
    }
    return true;
}

static bool take(void *user, int choice, char *value)
{
    struct wish *wish = user;

    return choice == OPT_COUNT
               ? take_count(wish, value)
               : simba__follow_interval(value, &wish->interval_ms);
}

/* --- the table below ----------------------------------------------------- */

/* One that was named, and what it was found in. */
struct named {
    struct simba__standing standing;
    simba_report *report;
};

static bool look_at(struct named *named, simba_store *store, const char *mutex)
{
    if (simba_admin_show(store, mutex, &named->report, NULL) != SIMBA_OK) {
        return false;
    }
    named->standing =
        simba__standing_of(mutex, simba_report_owner(named->report),
                           (int)simba_report_waiter_count(named->report),
                           simba_report_store_ms(named->report));
    return true;
}

/* Those that were named, asked one by one. If one fails, all is left as it was:
 * the watching itself waits for the store. */
static void draw_named(struct simba__follow *follow,
                       const struct simba__words *words)
{
    size_t count = (size_t)words->count, found = 0;
    struct named *all = calloc(count, sizeof(*all));
    struct simba__standing *rows = calloc(count, sizeof(*rows));

    while (all != NULL && rows != NULL && found < count &&
           look_at(&all[found], follow->store, words->words[found])) {
        rows[found] = all[found].standing;
        found++;
    }
    if (found == count) {
        simba__live_draw(follow->live,
                         simba__follow_block(rows, count, follow->store));
    }
    while (found > 0) {
        simba_report_close(all[--found].report);
    }
    free(all);
    free(rows);
}

/* --- watching ------------------------------------------------------------ */

static int add_named(struct simba__sight *sight,
                     const struct simba__words *words,
                     simba_error *error)
{
    struct simba__patience patience;
    int rc = SIMBA_OK;

    simba__patience_begin(&patience, &words->cli);
    for (int i = 0; rc == SIMBA_OK && i < words->count; i++) {
        simba_report *report = NULL;

        /* A store that cannot be reached is told now and not waited for. */
        rc = simba_admin_show(sight->store, words->words[i], &report, error);
        simba_report_close(report);
        if (rc == SIMBA_OK) {
            rc = simba__sight_add(sight, words->words[i], error);
        }
    }
    simba__patience_end(&patience);
    return rc;
}

static int add_listed(struct simba__sight *sight,
                      struct simba__follow *follow,
                      simba_error *error)
{
    simba_report *report = NULL;
    const simba_listed *listed;
    int rc = simba__follow_look(follow, &report, error);

    for (size_t i = 0; rc == SIMBA_OK && report != NULL &&
                       (listed = simba_report_mutex(report, i)) != NULL;
         i++) {
        rc = simba__sight_add(sight, listed->mutex, error);
    }
    if (rc == SIMBA_OK && report != NULL && follow->live->is_live) {
        simba__follow_draw(follow, report);
    }
    simba_report_close(report);
    return rc;
}

static int watch_named(struct simba__sight *sight,
                       struct simba__follow *follow,
                       const struct simba__words *words,
                       simba_error *error)
{
    int rc = add_named(sight, words, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    do {
        if (follow->live->is_live) {
            draw_named(follow, words);
        }
    } while (!simba__sight_wait(sight, sight->interval_ms) &&
             simba__live_is_read());
    return SIMBA_OK;
}

static int watch_all(struct simba__sight *sight,
                     struct simba__follow *follow,
                     simba_error *error)
{
    int rc;

    if ((simba_store_capabilities(sight->store) & SIMBA_CAN_LIST) == 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "this store cannot tell which mutexes there "
                               "are: name those to watch");
    }
    do {
        rc = add_listed(sight, follow, error);
    } while (rc == SIMBA_OK && !simba__sight_wait(sight, sight->interval_ms) &&
             simba__live_is_read());
    return rc;
}

/* --- the command --------------------------------------------------------- */

static int watch(const struct simba__words *words,
                 const struct wish *wish,
                 struct simba__follow *follow)
{
    struct simba__sight sight = {.store = follow->store,
                                 .live = follow->live,
                                 .is_json = words->cli.is_json,
                                 .interval_ms = wish->interval_ms,
                                 .most = wish->most};
    simba_error error = {0};
    int rc;

    simba__sight_init(&sight);
    rc = words->count > 0 ? watch_named(&sight, follow, words, &error)
                          : watch_all(&sight, follow, &error);
    simba__sight_fini(&sight);
    return rc == SIMBA_OK ? simba__command_end()
                          : simba__command_fail(&words->cli, "watch", &error);
}

/* A name that cannot be is told before the store is waited for; any store knows
 * it. */
static int check_names(const struct simba__words *words, simba_error *error)
{
    simba_store *any = NULL;
    int rc = simba_store_open("memory:", NULL, &any, error);

    for (int i = 0; rc == SIMBA_OK && i < words->count; i++) {
        simba_report *report = NULL;

        rc = simba_admin_show(any, words->words[i], &report, error);
        simba_report_close(report);
    }
    simba_store_close(any);
    return rc;
}

static int open_and_watch(const struct simba__words *words,
                          const struct wish *wish)
{
    struct simba__live live;
    struct simba__follow follow = {.cli = &words->cli, .live = &live};
    simba_error error = {0};
    int rc;

    simba__live_init(&live, !words->cli.is_json && words->cli.verbosity >= 0);
    rc = check_names(words, &error);
    if (rc == SIMBA_OK) {
        rc = simba__follow_open(&follow, wish->interval_ms, &error);
    }
    rc = rc == SIMBA_OK ? watch(words, wish, &follow)
                        : simba__command_fail(&words->cli, "watch", &error);
    simba_store_close(follow.store);
    simba__live_fini(&live);
    return rc;
}

int simba__cmd_watch(struct simba__cli *cli, int argc, char **argv)
{
    struct wish wish = {.interval_ms = 1000};
    const struct simba__command command = {
        .name = "watch",
        .help = help,
        .options = options,
        .letters = "",
        .take = take,
        .user = &wish,
        .most = -1,
        .wanted = "names of mutexes",
    };
    struct simba__words words = {*cli, argc, argv};
    int rc = simba__command_read(&command, &words);

    return rc == SIMBA__COMMAND_GO_ON ? open_and_watch(&words, &wish) : rc;
}
