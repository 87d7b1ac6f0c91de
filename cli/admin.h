/* What the commands for admins and simba serve do and tell alike: who waits,
 * what the doctor finds, and breaking a tenure. */
#ifndef SIMBA_CLI_ADMIN_H
#define SIMBA_CLI_ADMIN_H

#include "cli/mutex_view.h"

/** How long one of the report has waited; SIMBA__UNKNOWN. */
int64_t simba__admin_waited_ms(const simba_report *report,
                               const simba_waiter *waiter);

/** Member: waiters, a list of what simba_admin_show() found. */
void simba__admin_put_waiters(struct simba__json *json,
                              const simba_report *report);

/** The breaks that a store has written down, of a mutex, NULL: of any; NULL
 * where it cannot say. */
simba_report *simba__admin_ask_breaks(simba_store *store, const char *mutex);

/** Member: breaks, a list of what was found; NULL: null. */
void simba__admin_put_breaks(struct simba__json *json,
                             const simba_report *breaks);

/** ok, note, weak, serious. */
const char *simba__admin_gravity(enum simba_gravity gravity);

/** Members: finding, gravity, text. */
void simba__admin_put_finding(struct simba__json *json,
                              const simba_finding *finding);

/** Members: push, crash, steady_clock, list, break. */
void simba__admin_put_capabilities(struct simba__json *json,
                                   const simba_store *store);

/* --- breaking a tenure --------------------------------------------------- */

enum { SIMBA__REASON_MOST = 512, SIMBA__BY_ROOM = 256 };

struct simba__break_wish {
    const char *mutex;
    uint64_t token;
    const char *reason;
    bool is_now;
    char by[SIMBA__BY_ROOM]; /* who breaks it */
};

/** What was done, and to whom. */
struct simba__broken {
    const struct simba__break_wish *wish;
    simba_owner owner;     /* who had it */
    int64_t lease_left_ms; /* of it; SIMBA__UNKNOWN */
    int64_t asked_ms;      /* boot clock; nothing came of it earlier */
};

/** What is wrong with a reason; NULL: nothing. */
const char *simba__break_problem(const char *reason);

/** The user of this process, and the host. */
void simba__break_by(char by[SIMBA__BY_ROOM]);

/** Break it; who and why goes to the store, and to syslog. */
int simba__break_do(simba_store *store,
                    const struct simba__break_wish *wish,
                    struct simba__broken *broken,
                    simba_error *error);

/** Members of the event: event, mutex, id, token, now, by, reason, free_in_ms,
 * believes_ms, and the times. */
void simba__break_members(struct simba__json *json,
                          const struct simba__broken *broken);

#endif
