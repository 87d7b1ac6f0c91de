/* simba break: end a tenure by force, and say who did it and why. */
#define _GNU_SOURCE
#include "clock.h"
#include "cmd_admin.h"
#include "command.h"
#include "exit.h"
#include "say.h"
#include "standing.h"
#include "words.h"

#include <simba/admin.h>

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

static const char help[] =
    "usage: simba break [OPTION…] NAME --token N --reason TEXT\n"
    "\n"
    "End the tenure of the mutex NAME that has the fencing token N, whoever\n"
    "has it: it can be renewed no more and is free at the end of its lease.\n"
    "'simba show NAME' tells the token; one that is over breaks nothing, and\n"
    "none ever comes again. Who did this, when and why is written down: in\n"
    "syslog here, and in the store (table simba_broken, on Redis the hash\n"
    "simba:{NAME}:broken; ZooKeeper has no place for it).\n"
    "\n"
    "    simba break nightly --token 1794812114026301 --reason 'hangs on NFS'\n"
    "\n"
    "      --token N      required: which tenure is meant\n"
    "      --reason TEXT  required: why, for those who ask later\n"
    "      --now          free it at once. Its owner may still believe that\n"
    "                     it owns NAME, for as long as its lease would have\n"
    "                     run: exclusion does not hold meanwhile, only tokens\n"
    "                     protect. On ZooKeeper there is no other way\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                     see 'simba --help'\n"
    "\n"
    "With --json an object: event (broken), mutex, id, token, now, by, "
    "reason,\n"
    "free_in_ms, believes_ms, unix_ms, boot_ms, boot.\n"
    "\n"
    "exit codes: 0 broken; 64 usage; 69 store unreachable, or it did not\n"
    "answer and may have done it; 70 a fault of simba; 76 there is no such\n"
    "tenure (any more), the message names the present token; 77 access\n"
    "denied; 78 wrong configuration, URL or name, or not offered there\n";

enum { OPT_TOKEN = SIMBA__OPT_OWN, OPT_REASON, OPT_NOW };
enum { REASON_MOST = 512 };

static const struct option options[] = {
    {"token", required_argument, NULL, OPT_TOKEN},
    {"reason", required_argument, NULL, OPT_REASON},
    {"now", no_argument, NULL, OPT_NOW},
    SIMBA__OPT_SHARED_LONG,
    {NULL, 0, NULL, 0}};

struct wish {
    uint64_t token;
    const char *reason;
    bool is_now;
};

/* --- options ------------------------------------------------------------- */

static bool take_token(struct wish *wish, const char *text)
{
    char *end = NULL;

    errno = 0;
    wish->token = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 ||
        wish->token == 0) {
        simba__say("--token: '%s' is no token; 'simba show NAME' tells it",
                   text);
        return false;
    }
    return true;
}

/* In a log they could draw what is not there. */
static bool has_control(const char *text)
{
    while (*text != '\0' && (unsigned char)*text >= ' ' && *text != '\177') {
        text++;
    }
    return *text != '\0';
}

static bool take_reason(struct wish *wish, const char *text)
{
    if (text[strspn(text, " \t")] == '\0') {
        simba__say("--reason: say why, for those who ask later");
        return false;
    }
    if (strlen(text) > REASON_MOST || has_control(text)) {
        simba__say("--reason: one line, at most %d bytes, without control "
                   "characters",
                   REASON_MOST);
        return false;
    }
    wish->reason = text;
    return true;
}

static bool take(void *user, int choice, char *value)
{
    struct wish *wish = user;

    switch (choice) {
    case OPT_TOKEN:
        return take_token(wish, value);
    case OPT_REASON:
        return take_reason(wish, value);
    default:
        wish->is_now = true;
        return true;
    }
}

static bool is_complete(const void *user)
{
    const struct wish *wish = user;

    if (wish->token == 0 || wish->reason == NULL) {
        simba__say("break needs --token and --reason; 'simba show NAME' tells "
                   "the token; see 'simba break --help'");
        return false;
    }
    return true;
}

/* --- telling ------------------------------------------------------------- */

/* What was done, and to whom. */
struct deed {
    const struct wish *wish;
    struct simba__standing before;
    int64_t asked_ms; /* boot clock; nothing came of it earlier */
    char by[256];
};

static void name_doer(char *by, size_t room)
{
    const struct passwd *user = getpwuid(getuid());
    char host[65] = "?";

    (void)gethostname(host, sizeof(host) - 1);
    if (user != NULL) {
        (void)snprintf(by, room, "%s@%s", user->pw_name, host);
    } else {
        (void)snprintf(by, room, "%ju@%s", (uintmax_t)getuid(), host);
    }
}

static void put_time(struct simba__object *object, const char *key, int64_t ms)
{
    if (ms == SIMBA__STANDING_UNKNOWN) {
        simba__object_null(object, key);
    } else {
        simba__object_number(object, key, ms);
    }
}

static void print_object(const struct deed *deed)
{
    int64_t left_ms = deed->before.lease_left_ms;
    bool is_now = deed->wish->is_now;
    struct simba__object object;

    simba__object_begin(&object, stdout);
    simba__object_text(&object, "event", "broken");
    simba__object_text(&object, "mutex", deed->before.mutex);
    simba__object_text(&object, "id", deed->before.owner->id);
    simba__object_token(&object, "token", deed->wish->token);
    simba__object_flag(&object, "now", is_now);
    simba__object_text(&object, "by", deed->by);
    simba__object_text(&object, "reason", deed->wish->reason);
    put_time(&object, "free_in_ms", is_now ? 0 : left_ms);
    put_time(&object, "believes_ms", left_ms);
    simba__object_times(&object, deed->asked_ms);
    simba__object_end(&object);
}

static void print_line(const struct deed *deed)
{
    char left[SIMBA__WORDS_ROOM] = "one lease";

    if (deed->before.lease_left_ms != SIMBA__STANDING_UNKNOWN) {
        simba__words_duration(deed->before.lease_left_ms, left);
    }
    simba__table_text(stdout, deed->before.mutex);
    printf(": broke the tenure %" PRIu64 " of '", deed->wish->token);
    simba__table_text(stdout, deed->before.owner->id);
    if (deed->wish->is_now) {
        printf("'; free now, but it may still believe that it is the owner, "
               "for up to %s\n",
               left);
    } else {
        printf("'; free in %s at most, at the end of its lease\n", left);
    }
}

static void tell(const struct simba__cli *cli, const struct deed *deed)
{
    if (cli->is_json) {
        print_object(deed);
    } else if (cli->verbosity >= 0) {
        print_line(deed);
    }
}

/* On every store, and where those who look after this machine look first. */
static void write_down(const struct deed *deed)
{
    openlog("simba", LOG_PID, LOG_USER);
    syslog(
        LOG_NOTICE, "%s broke the tenure %" PRIu64 " of '%s', mutex '%s'%s: %s",
        deed->by, deed->wish->token, deed->before.owner->id, deed->before.mutex,
        deed->wish->is_now ? ", at once" : "", deed->wish->reason);
    closelog();
}

/* --- the command --------------------------------------------------------- */

/* The reason goes to the store together with who gives it. */
static int ask(struct deed *deed, simba_store *store, simba_error *error)
{
    char reason[sizeof(deed->by) + REASON_MOST + 3];
    simba_break wish = SIMBA_BREAK_INIT;

    (void)snprintf(reason, sizeof(reason), "%s: %s", deed->by,
                   deed->wish->reason);
    wish.mutex = deed->before.mutex;
    wish.token = deed->wish->token;
    wish.reason = reason;
    wish.now = deed->wish->is_now;
    return simba_admin_break(store, &wish, NULL, error);
}

/* Looks first: afterwards nobody knows how long the lease would have run. */
static int break_it(const struct simba__command *command,
                    const struct simba__words *words,
                    simba_store *store)
{
    const char *mutex = words->words[0];
    struct deed deed = {.wish = command->user};
    simba_report *report = NULL;
    simba_error error = {0};
    int rc = simba_admin_show(store, mutex, &report, &error);

    if (rc == SIMBA_OK) {
        deed.before = simba__standing_of(mutex, simba_report_owner(report), 0,
                                         simba_report_store_ms(report));
        deed.asked_ms = simba__clock_ms();
        name_doer(deed.by, sizeof(deed.by));
        rc = ask(&deed, store, &error);
    }
    if (rc == SIMBA_OK) {
        write_down(&deed);
        tell(&words->cli, &deed);
        rc = simba__command_end();
    } else {
        rc = simba__command_fail(&words->cli, command->name, &error);
    }
    simba_report_close(report);
    return rc;
}

int simba__cmd_break(struct simba__cli *cli, int argc, char **argv)
{
    struct wish wish = {0};
    const struct simba__command command = {
        .name = "break",
        .reach = SIMBA__REACH_LOOK,
        .help = help,
        .options = options,
        .letters = "",
        .take = take,
        .check = is_complete,
        .user = &wish,
        .least = 1,
        .most = 1,
        .wanted = "the NAME of one mutex",
    };
    struct simba__words words = {*cli, argc, argv};

    return simba__command_run(&command, &words, break_it);
}
