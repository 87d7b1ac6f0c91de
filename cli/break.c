/* simba break: end a tenure by force, and say who did it and why. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "cli/mutex_view.h"

#include <inttypes.h>
#include <pwd.h>
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
    "simba:{NAME}:broken, on etcd keys b/NAME/; ZooKeeper has no place for\n"
    "it).\n"
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

enum { REASON_MOST = 512 };

struct break_wish {
    uint64_t token;
    const char *reason;
    bool is_now;
};

static bool is_complete(const void *user)
{
    const struct break_wish *wish = user;

    if (wish->token == 0 || wish->reason == NULL) {
        simba__say("break needs --token and --reason; 'simba show NAME' tells "
                   "the token; see 'simba break --help'");
        return false;
    }
    if (wish->reason[strspn(wish->reason, " \t")] == '\0') {
        simba__say("--reason: say why, for those who ask later");
        return false;
    }
    for (const char *c = wish->reason; *c != '\0'; c++) {
        /* In a log they could draw what is not there. */
        if ((unsigned char)*c < ' ' || *c == '\177' ||
            c - wish->reason >= REASON_MOST) {
            simba__say("--reason: one line, at most %d bytes, without control "
                       "characters",
                       REASON_MOST);
            return false;
        }
    }
    return true;
}

/* What was done, and to whom. */
struct deed {
    const struct break_wish *wish;
    struct simba__view before;
    int64_t asked_ms; /* boot clock; nothing came of it earlier */
    char by[256];
};

static void print_object(const struct deed *deed)
{
    int64_t left_ms = deed->before.lease_left_ms;
    bool is_now = deed->wish->is_now;
    struct simba__json json;

    simba__json_print(&json, stdout);
    simba__json_text(&json, "event", "broken");
    simba__json_text(&json, "mutex", deed->before.mutex);
    simba__json_text(&json, "id", deed->before.owner->id);
    simba__json_token(&json, "token", deed->wish->token);
    simba__json_flag(&json, "now", is_now);
    simba__json_text(&json, "by", deed->by);
    simba__json_text(&json, "reason", deed->wish->reason);
    simba__put_ms(&json, "free_in_ms", is_now ? 0 : left_ms);
    simba__put_ms(&json, "believes_ms", left_ms);
    simba__put_times(&json, deed->asked_ms);
    simba__json_line(&json);
}

static void print_line(const struct deed *deed)
{
    char left[SIMBA__FORMAT_ROOM] = "one lease";

    if (deed->before.lease_left_ms != SIMBA__UNKNOWN) {
        simba__format_duration(deed->before.lease_left_ms, left);
    }
    simba__print_calm(stdout, deed->before.mutex);
    printf(": broke the tenure %" PRIu64 " of '", deed->wish->token);
    simba__print_calm(stdout, deed->before.owner->id);
    if (deed->wish->is_now) {
        printf("'; free now, but it may still believe that it is the owner, "
               "for up to %s\n",
               left);
    } else {
        printf("'; free in %s at most, at the end of its lease\n", left);
    }
}

/* Looks first: afterwards nobody knows how long the lease would have run. The
 * reason goes to the store together with who gives it, and to syslog, where
 * those who look after this machine look first. */
static int break_it(const struct simba__command *command,
                    const struct simba__words *words,
                    simba_store *store)
{
    struct deed deed = {.wish = command->user};
    const char *mutex = words->words[0];
    const struct passwd *user = getpwuid(getuid());
    char host[65] = "?", uid[24];
    char reason[sizeof deed.by + REASON_MOST + 3];
    simba_break order = SIMBA_BREAK_INIT;
    simba_report *report = NULL;
    simba_error error = {0};
    int rc = simba_admin_show(store, mutex, &report, &error);

    if (rc == SIMBA_OK) {
        deed.before = simba__view_shown(mutex, report);
        deed.asked_ms = simba__clock_ms();
        (void)gethostname(host, sizeof host - 1);
        (void)snprintf(uid, sizeof uid, "%ju", (uintmax_t)getuid());
        (void)snprintf(deed.by, sizeof deed.by, "%s@%s",
                       user == NULL ? uid : user->pw_name, host);
        (void)snprintf(reason, sizeof reason, "%s: %s", deed.by,
                       deed.wish->reason);
        order.mutex = mutex;
        order.token = deed.wish->token;
        order.reason = reason;
        order.now = deed.wish->is_now;
        rc = simba_admin_break(store, &order, NULL, &error);
    }
    if (rc != SIMBA_OK) {
        simba_report_close(report);
        return simba__command_fail(&words->cli, command->name, &error);
    }
    openlog("simba", LOG_PID, LOG_USER);
    syslog(LOG_NOTICE,
           "%s broke the tenure %" PRIu64 " of '%s', mutex '%s'%s: %s", deed.by,
           deed.wish->token, deed.before.owner->id, mutex,
           deed.wish->is_now ? ", at once" : "", deed.wish->reason);
    closelog();
    if (words->cli.is_json) {
        print_object(&deed);
    } else if (words->cli.verbosity >= 0) {
        print_line(&deed);
    }
    simba_report_close(report);
    return simba__command_end();
}

int simba__cmd_break(struct simba__words *words)
{
    struct break_wish wish = {0};
    const struct simba__option options[] = {
        {.name = "token",
         .kind = SIMBA__NUMBER,
         .to = &wish.token,
         .wrong = "no token; 'simba show NAME' tells it"},
        {.name = "reason", .kind = SIMBA__TEXT, .to = &wish.reason},
        {.name = "now", .kind = SIMBA__FLAG, .to = &wish.is_now},
        {.name = NULL}};
    const struct simba__command command = {.name = "break",
                                           .help = help,
                                           .reach = SIMBA__REACH_LOOK,
                                           .options = options,
                                           .check = is_complete,
                                           .user = &wish,
                                           .least = 1,
                                           .most = 1,
                                           .wanted = "the NAME of one mutex"};

    return simba__command_run(&command, words, break_it);
}
