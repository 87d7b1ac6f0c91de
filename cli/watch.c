/* simba watch: a line for every change of owner, and on a terminal below it how
 * things stand. Each mutex has a retrieval of the library, whose callbacks tell
 * its changes in order, each once. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "cli/mutex_view.h"

#include <simba/retrieval.h>

#include <assert.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: simba watch [OPTION…] [NAME…]\n"
    "\n"
    "Tell every change of owner that is seen, in order and none twice, of the\n"
    "mutexes NAME, or of all there are. A line says 'owned', by whom, or\n"
    "'free'; the first line of a mutex tells who owns it already. Of several\n"
    "owners each has a line when it begins, and 'ended' when it ends and\n"
    "others go on. 'gap' comes where owners may have come and gone unseen;\n"
    "some stores cannot tell, and there it may come without cause. On a\n"
    "terminal a table below shows how things stand now: age, lease left,\n"
    "waiters. A store that is not there yet is waited for, and not made.\n"
    "Ctrl-C ends it.\n"
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
    "With --json an object for each line: event (owned, ended, free, gap),\n"
    "mutex, id, token, before_id, before_token, owned, slots, slot, unix_ms,\n"
    "boot_ms, boot.\n"
    "\n"
    "exit codes: 0 N lines were told; 64 usage; 69 store unreachable at the\n"
    "start (later it is waited for); 70 a fault of simba; 77 access denied; "
    "78\n"
    "wrong configuration, URL or name, or no NAME on a store that cannot "
    "list;\n"
    "128 + N ended by signal N, so 130 by Ctrl-C\n";

/* Mutexes that are watched, and what is told when one changes hands. */
struct watcher {
    struct simba__follow *follow;
    int64_t interval_ms; /* how often to look where nothing is pushed */
    uint64_t most;       /* lines to tell; 0: no end */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t ended; /* is_over has changed */
    uint64_t told;
    bool is_over; /* enough was told, or cannot be written */

    void *watched; /* a tree of them by name; one thread only */
};

struct watched {
    const char *mutex; /* first: what the tree compares; points to `name` */
    struct watcher *watcher;
    simba_retrieval *retrieval;
    char name[];
};

/* How much of a line is when it was: "2026-11-16 06:43:12.123  ". */
enum { TIME = 25 };

/* --- telling ------------------------------------------------------------- */

static void print_owner(FILE *out, const char *what, const simba_owner *owner)
{
    if (owner->id[0] != '\0') {
        (void)fputs(what, out);
        simba__print_calm(out, owner->id);
        if (owner->token != 0) {
            fprintf(out, " (token %" PRIu64 ")", owner->token);
        }
    }
}

static void put_owner(struct simba__json *json,
                      const char *const keys[2],
                      const simba_owner *owner)
{
    bool is_free = owner->id[0] == '\0';

    simba__json_text(json, keys[0], is_free ? NULL : owner->id);
    simba__json_token(json, keys[1], is_free ? 0 : owner->token);
}

/* How many own it; of who began, else of who ended: how many it suffers, and
 * which of them it is. */
static void put_slots(struct simba__json *json, const simba_state *state)
{
    const simba_owner *owner =
        state->after.id[0] != '\0' ? &state->after : &state->before;

    simba__put_ms(json, "owned", state->owned);
    simba__put_slots(json, owner->slots);
    simba__put_slot(json, owner);
}

/* A gap has no state. The newline is the live view's. */
static void print_change(FILE *out,
                         bool is_json,
                         const char *mutex,
                         const simba_state *state)
{
    static const char *const keys[][2] = {{"id", "token"},
                                          {"before_id", "before_token"}};
    const char *event = state == NULL                ? "gap"
                        : state->after.id[0] != '\0' ? "owned"
                        : state->owned > 0           ? "ended"
                                                     : "free";
    char when[SIMBA__FORMAT_ROOM];
    struct simba__json json;

    if (is_json) {
        simba__json_print(&json, out);
        simba__json_text(&json, "event", event);
        simba__json_text(&json, "mutex", mutex);
        if (state != NULL) {
            put_owner(&json, keys[0], &state->after);
            put_owner(&json, keys[1], &state->before);
            put_slots(&json, state);
        }
        simba__put_times(&json, simba__clock_ms());
        simba__json_end(&json);
        return;
    }
    simba__format_time(simba__unix_ms(), true, when);
    fprintf(out, "%s  ", when);
    simba__print_calm(out, mutex);
    fprintf(out, "  %s", event);
    if (state == NULL) {
        (void)fputs(": there may have been owners that were missed", out);
        return;
    }
    print_owner(out, " by ", &state->after);
    print_owner(out, ", was ", &state->before);
    if (state->owned > 1 || state->after.slots > 1 ||
        (state->owned > 0 && state->after.id[0] == '\0')) {
        fprintf(out, ", %" PRIu32 " in all", state->owned);
    }
}

/* All lines go through here, so that there are never more than wanted. */
static void tell(struct watched *watched, const simba_state *state)
{
    struct watcher *watcher = watched->watcher;
    char *line = NULL;
    size_t length = 0;
    bool is_told = false;
    FILE *out = open_memstream(&line, &length);

    (void)pthread_mutex_lock(&watcher->lock);
    if (out != NULL) {
        print_change(out, watcher->follow->cli->is_json, watched->mutex, state);
    }
    if (!watcher->is_over) {
        is_told = out != NULL && fflush(out) == 0 &&
                  simba__live_line(watcher->follow->live, line,
                                   watcher->follow->cli->is_json ? 0 : TIME);
        watcher->is_over = !is_told || ++watcher->told == watcher->most;
        (void)pthread_cond_signal(&watcher->ended);
    }
    (void)pthread_mutex_unlock(&watcher->lock);
    if (out != NULL) {
        (void)fclose(out);
    }
    free(line);
}

static void on_changed(void *user, const simba_state *state)
{
    if (state->has_gap) {
        tell(user, NULL);
    }
    if (simba_state_is_changed(state)) {
        tell(user, state);
    }
}

/* --- watching ------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    const struct watched *one = a, *other = b;

    return strcmp(one->mutex, other->mutex);
}

static void free_watched(void *node)
{
    struct watched *watched = node;

    simba_retrieval_close(watched->retrieval);
    free(watched);
}

/* Watch this one, too; one that is watched already stays. */
static int add(struct watcher *watcher, const char *mutex, simba_error *error)
{
    struct watched wanted = {.mutex = mutex};
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    size_t room = strlen(mutex) + 1;
    struct watched *watched;
    int rc;

    assert(watcher->interval_ms > 0 && watcher->follow->store != NULL);
    if (tfind(&wanted, &watcher->watched, by_name) != NULL) {
        return SIMBA_OK;
    }
    watched = calloc(1, sizeof *watched + room);
    if (watched == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    memcpy(watched->name, mutex, room);
    watched->mutex = watched->name;
    watched->watcher = watcher;
    retriever.mutex = mutex;
    retriever.poll_ms = watcher->interval_ms;
    retriever.on_changed = on_changed;
    retriever.user = watched;
    rc = simba_retrieval_open(watcher->follow->store, &retriever,
                              &watched->retrieval, error);
    if (rc == SIMBA_OK) {
        rc = simba_retrieval_start(watched->retrieval, error);
    }
    if (rc == SIMBA_OK &&
        tsearch(watched, &watcher->watched, by_name) == NULL) {
        rc = simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    if (rc != SIMBA_OK) {
        free_watched(watched);
    }
    return rc;
}

/* Until it is over, or for one interval; is it? */
static bool wait_on(struct watcher *watcher)
{
    return simba__flag_wait(&watcher->is_over, &watcher->lock, &watcher->ended,
                            watcher->interval_ms) ||
           !simba__live_is_read();
}

/* Those that were named, asked one by one. If one fails, all is left as it was:
 * the watching itself waits for the store. */
static void draw_named(struct simba__follow *follow,
                       const struct simba__words *words)
{
    size_t count = (size_t)words->count;
    simba_report **reports = calloc(count, sizeof(simba_report *));
    struct simba__views views = {calloc(count, sizeof *views.rows), 0};

    while (reports != NULL && views.rows != NULL && views.count < count &&
           simba_admin_show(follow->store, words->words[views.count],
                            &reports[views.count], NULL) == SIMBA_OK) {
        views.rows[views.count] =
            simba__view_shown(words->words[views.count], reports[views.count]);
        views.count++;
    }
    if (views.count == count) {
        simba__follow_draw(follow, &views);
    }
    while (views.count > 0) {
        simba_report_close(reports[--views.count]);
    }
    free(reports);
    free(views.rows);
}

static int watch_named(struct watcher *watcher,
                       const struct simba__words *words,
                       simba_error *error)
{
    struct simba__follow *follow = watcher->follow;
    struct simba__wait_notice notice;
    int rc = SIMBA_OK;

    simba__wait_notice_begin(&notice, &words->cli);
    for (int i = 0; rc == SIMBA_OK && i < words->count; i++) {
        simba_report *report = NULL;

        /* A store that cannot be reached is told now and not waited for. */
        rc = simba_admin_show(follow->store, words->words[i], &report, error);
        simba_report_close(report);
        if (rc == SIMBA_OK) {
            rc = add(watcher, words->words[i], error);
        }
    }
    simba__wait_notice_end(&notice);
    if (rc != SIMBA_OK) {
        return rc;
    }
    do {
        if (follow->live->is_live) {
            draw_named(follow, words);
        }
    } while (!wait_on(watcher));
    return SIMBA_OK;
}

static int watch_all(struct watcher *watcher, simba_error *error)
{
    struct simba__follow *follow = watcher->follow;
    int rc;

    if ((simba_store_capabilities(follow->store) & SIMBA_CAN_LIST) == 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "this store cannot tell which mutexes there "
                               "are: name those to watch");
    }
    do {
        simba_report *report = NULL;
        struct simba__views views = {NULL, 0};

        rc = simba__follow_look(follow, &report, error);
        if (rc == SIMBA_OK && report != NULL) {
            views = simba__view_listed(report);
        }
        for (size_t i = 0; rc == SIMBA_OK && i < views.count; i++) {
            rc = add(watcher, views.rows[i].mutex, error);
        }
        if (rc == SIMBA_OK && report != NULL && follow->live->is_live) {
            simba__follow_draw(follow, &views);
        }
        free(views.rows);
        simba_report_close(report);
    } while (rc == SIMBA_OK && !wait_on(watcher));
    return rc;
}

/* --- the command --------------------------------------------------------- */

int simba__cmd_watch(struct simba__words *words)
{
    struct watcher watcher = {.interval_ms = 1000};
    const struct simba__option options[] = {
        {.name = "count", .kind = SIMBA__NUMBER, .to = &watcher.most},
        {.name = "interval",
         .kind = SIMBA__DURATION,
         .to = &watcher.interval_ms,
         .least_ms = SIMBA__INTERVAL_LEAST_MS},
        {.name = NULL}};
    const struct simba__command command = {.name = "watch",
                                           .help = help,
                                           .options = options,
                                           .most = -1,
                                           .wanted = "names of mutexes"};
    struct simba__live live;
    struct simba__follow follow = {.cli = &words->cli, .live = &live};
    simba_store *any = NULL;
    simba_report *report = NULL;
    simba_error error = {0};
    int rc = simba__command_read(&command, words);

    if (rc != SIMBA__GO_ON) {
        return rc;
    }
    watcher.follow = &follow;
    (void)pthread_mutex_init(&watcher.lock, NULL);
    (void)pthread_cond_init(&watcher.ended, NULL);
    simba__live_init(&live, !words->cli.is_json && words->cli.verbosity >= 0);
    /* A name that cannot be is told before the store is waited for; any store
     * knows it. */
    rc = simba_store_open("memory:", NULL, &any, &error);
    for (int i = 0; rc == SIMBA_OK && i < words->count; i++) {
        rc = simba_admin_show(any, words->words[i], &report, &error);
        simba_report_close(report);
    }
    simba_store_close(any);
    if (rc == SIMBA_OK) {
        rc = simba__follow_open(&follow, watcher.interval_ms, &error);
    }
    if (rc == SIMBA_OK) {
        rc = words->count > 0 ? watch_named(&watcher, words, &error)
                              : watch_all(&watcher, &error);
    }
    tdestroy(watcher.watched, free_watched);
    (void)pthread_cond_destroy(&watcher.ended);
    (void)pthread_mutex_destroy(&watcher.lock);
    rc = rc == SIMBA_OK ? simba__command_end()
                        : simba__command_fail(&words->cli, "watch", &error);
    simba_store_close(follow.store);
    simba__live_fini(&live);
    return rc;
}
