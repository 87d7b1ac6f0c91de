/* What the commands for admins and simba serve do and tell alike; see
 * admin.h. */
#define _GNU_SOURCE
#include "cli/admin.h"
#include "cli/clock.h"

#include <inttypes.h>
#include <pwd.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

int64_t simba__admin_waited_ms(const simba_report *report,
                               const simba_waiter *waiter)
{
    int64_t now_ms = simba__view_now(simba_report_store_ms(report));

    return waiter->joined_at_ms <= 0 || now_ms < waiter->joined_at_ms
               ? SIMBA__UNKNOWN
               : now_ms - waiter->joined_at_ms;
}

void simba__admin_put_waiters(struct simba__json *json,
                              const simba_report *report)
{
    const simba_waiter *waiter;
    struct simba__json item;

    simba__json_list(json, "waiters");
    for (size_t i = 0; (waiter = simba_report_waiter(report, i)) != NULL; i++) {
        simba__json_item(&item, json);
        simba__json_text(&item, "id", waiter->id);
        simba__json_number(&item, "position", (int64_t)i + 1);
        simba__put_ms(&item, "waited_ms",
                      simba__admin_waited_ms(report, waiter));
        simba__json_flag(&item, "offered", waiter->is_offered);
        simba__put_slots(&item, waiter->slots);
        simba__json_end(&item);
    }
    simba__json_list_end(json);
}

/* --- findings ------------------------------------------------------------ */

const char *simba__admin_gravity(enum simba_gravity gravity)
{
    static const char *const words[] = {"ok", "note", "weak", "serious"};

    return words[gravity];
}

void simba__admin_put_finding(struct simba__json *json,
                              const simba_finding *finding)
{
    simba__json_text(json, "finding", finding->name);
    simba__json_text(json, "gravity", simba__admin_gravity(finding->gravity));
    simba__json_text(json, "text", finding->text);
}

void simba__admin_put_capabilities(struct simba__json *json,
                                   const simba_store *store)
{
    static const struct {
        const char *key;
        unsigned capability;
    } known[] = {{"push", SIMBA_CAN_PUSH},
                 {"crash", SIMBA_CAN_SEE_CRASH},
                 {"steady_clock", SIMBA_HAS_STEADY_CLOCK},
                 {"list", SIMBA_CAN_LIST},
                 {"break", SIMBA_CAN_BREAK}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        simba__json_flag(
            json, known[i].key,
            (simba_store_capabilities(store) & known[i].capability) != 0);
    }
}

/* --- the book of breaks -------------------------------------------------- */

simba_report *simba__admin_ask_breaks(simba_store *store, const char *mutex)
{
    simba_report *breaks = NULL;

    return (simba_store_capabilities(store) & SIMBA_TELLS_BREAKS) != 0 &&
                   simba_admin_breaks(store, mutex, &breaks, NULL) == SIMBA_OK
               ? breaks
               : NULL;
}

/* As simba__break_do() writes it: who, a colon, and why. */
static void put_break(struct simba__json *json, const simba_broken *broken)
{
    const char *colon = strstr(broken->reason, ": ");
    char by[sizeof broken->reason];

    (void)snprintf(by, sizeof by, "%.*s",
                   colon == NULL ? 0 : (int)(colon - broken->reason),
                   broken->reason);
    simba__json_text(json, "mutex", broken->mutex);
    simba__json_token(json, "token", broken->token);
    simba__json_text(json, "id", broken->id[0] == '\0' ? NULL : broken->id);
    simba__put_ms(json, "unix_ms",
                  broken->unix_ms == 0 ? SIMBA__UNKNOWN : broken->unix_ms);
    simba__json_flag(json, "now", broken->now);
    simba__json_text(json, "by", by[0] == '\0' ? NULL : by);
    simba__json_text(json, "reason",
                     colon == NULL ? broken->reason : colon + 2);
}

void simba__admin_put_breaks(struct simba__json *json,
                             const simba_report *breaks)
{
    const simba_broken *broken;
    struct simba__json item;

    if (breaks == NULL) {
        simba__json_text(json, "breaks", NULL);
        return;
    }
    simba__json_list(json, "breaks");
    for (size_t i = 0; (broken = simba_report_broken(breaks, i)) != NULL; i++) {
        simba__json_item(&item, json);
        put_break(&item, broken);
        simba__json_end(&item);
    }
    simba__json_list_end(json);
}

/* --- breaking a tenure --------------------------------------------------- */

const char *simba__break_problem(const char *reason)
{
    if (reason[strspn(reason, " \t")] == '\0') {
        return "say why, for those who ask later";
    }
    for (const char *c = reason; *c != '\0'; c++) {
        /* In a log they could draw what is not there. */
        if ((unsigned char)*c < ' ' || *c == '\177' ||
            c - reason >= SIMBA__REASON_MOST) {
            return "one line, at most 512 bytes, without control characters";
        }
    }
    return NULL;
}

void simba__break_by(char by[SIMBA__BY_ROOM])
{
    const struct passwd *user = getpwuid(getuid());
    char host[65] = "?", uid[24];

    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(uid, sizeof uid, "%ju", (uintmax_t)getuid());
    (void)snprintf(by, SIMBA__BY_ROOM, "%s@%s",
                   user == NULL ? uid : user->pw_name, host);
}

/* Looks first: afterwards nobody knows how long the lease would have run. The
 * reason goes to the store together with who gives it, and to syslog, where
 * those who look after this machine look first. */
int simba__break_do(simba_store *store,
                    const struct simba__break_wish *wish,
                    struct simba__broken *broken,
                    simba_error *error)
{
    char reason[SIMBA__BY_ROOM + SIMBA__REASON_MOST + 3];
    simba_break order = SIMBA_BREAK_INIT;
    simba_report *report = NULL;
    int rc = simba_admin_show(store, wish->mutex, &report, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    *broken = (struct simba__broken){
        .wish = wish,
        .owner = *simba_report_owner(report),
        .lease_left_ms = simba__view_shown(wish->mutex, report).lease_left_ms,
        .asked_ms = simba__clock_ms()};
    for (size_t i = 1; i < simba_report_owner_count(report); i++) {
        const simba_owner *other = simba_report_owner_at(report, i);

        if (other->token == wish->token) {
            broken->owner = *other;
            broken->lease_left_ms =
                simba__view_of(wish->mutex, other, 0,
                               simba_report_store_ms(report))
                    .lease_left_ms;
        }
    }
    simba_report_close(report);
    (void)snprintf(reason, sizeof reason, "%s: %s", wish->by, wish->reason);
    order.mutex = wish->mutex;
    order.token = wish->token;
    order.reason = reason;
    order.now = wish->is_now;
    rc = simba_admin_break(store, &order, NULL, error);
    if (rc == SIMBA_OK) {
        openlog("simba", LOG_PID, LOG_USER);
        syslog(LOG_NOTICE,
               "%s broke the tenure %" PRIu64 " of '%s', mutex '%s'%s: %s",
               wish->by, wish->token, broken->owner.id, wish->mutex,
               wish->is_now ? ", at once" : "", wish->reason);
        closelog();
    }
    return rc;
}

void simba__break_members(struct simba__json *json,
                          const struct simba__broken *broken)
{
    const struct simba__break_wish *wish = broken->wish;

    simba__json_text(json, "event", "broken");
    simba__json_text(json, "mutex", wish->mutex);
    simba__json_text(json, "id", broken->owner.id);
    simba__json_token(json, "token", wish->token);
    simba__json_flag(json, "now", wish->is_now);
    simba__json_text(json, "by", wish->by);
    simba__json_text(json, "reason", wish->reason);
    simba__put_ms(json, "free_in_ms", wish->is_now ? 0 : broken->lease_left_ms);
    simba__put_ms(json, "believes_ms", broken->lease_left_ms);
    simba__put_times(json, broken->asked_ms);
}
