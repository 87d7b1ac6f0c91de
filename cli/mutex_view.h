/* How a mutex stands now: as a row of a table, and as members of JSON; and
 * mutexes that are looked at over and over. */
#ifndef SIMBA_CLI_MUTEX_VIEW_H
#define SIMBA_CLI_MUTEX_VIEW_H

#include "cli/output.h"

#include <simba/admin.h>

struct simba__view {
    const char *mutex;
    const simba_owner *owner; /* of several the oldest */
    const simba_report
        *report;    /* has all of them; NULL: there is one at most */
    bool is_listed; /* the report is a list, and it is this one */
    size_t index;
    bool has_told;            /* what owners tell is a part of it, */
    const simba_report *told; /* and here; NULL: nobody knows */
    size_t owned;             /* how many own it */
    int waiting;              /* -1: unknown */
    int64_t age_ms;           /* of the tenure */
    int64_t ttl_left_ms;      /* until it should have been renewed */
    int64_t lease_left_ms;    /* until it is free */
};

/** The time to compare the times of owners and waiters with: what the store has
 * told, or, for 0, that of this machine. */
int64_t simba__view_now(int64_t store_ms);

/** @param store_ms  the store's clock when it told the owner; 0: not told */
struct simba__view simba__view_of(const char *mutex,
                                  const simba_owner *owner,
                                  int waiting,
                                  int64_t store_ms);

/** One of its owners, from 0 on, the oldest first; NULL beyond the last. */
const simba_owner *simba__view_owner(const struct simba__view *view, size_t i);

/** The same of what simba_admin_show() found. */
struct simba__view simba__view_shown(const char *mutex,
                                     const simba_report *report);

/** Put which slot it has; null: none, or the store does not number them. */
void simba__put_slot(struct simba__json *json, const simba_owner *owner);
/** How many may own it at once; of any number null. */
void simba__put_slots(struct simba__json *json, uint32_t slots);

/** What the owner with this token told about itself; NULL: nothing.
 *  @param told  as simba_admin_told() found it; may be NULL */
const simba_told *simba__view_find_told(const simba_report *told,
                                        const char *mutex,
                                        uint64_t token);

/** What all owners of a mutex tell, NULL: of any; NULL where the store cannot
 * say. */
simba_report *simba__view_ask_told(simba_store *store, const char *mutex);

/** Members: host, pid, user, command; null: it was not told. */
void simba__put_told(struct simba__json *json, const simba_told *told);

/** Members: mutex, id, token, age_ms, ttl_left_ms, lease_left_ms, broken, what
 * is told, owned, slots, owners, waiting. */
void simba__view_members(struct simba__json *json,
                         const struct simba__view *view);

/** Some of them. */
struct simba__views {
    struct simba__view *rows; /* to be freed */
    size_t count;
};

/** One of those that simba_admin_list() found. */
struct simba__view simba__view_row(const simba_report *report, size_t index);

/** What simba_admin_list() found; none when there is no memory. */
struct simba__views simba__view_listed(const simba_report *report);

/** With what owners tell, as simba_admin_told() found it; NULL: nobody knows.
 */
void simba__view_tell(struct simba__views *views, const simba_report *told);

enum {
    SIMBA__VIEW_BAR = 1, /* the lease is drawn, too */
    SIMBA__VIEW_WIDE = 2 /* with tokens */
};

/** A table of them. */
void simba__view_table(struct simba__table *table,
                       const struct simba__views *views,
                       simba_store *store,
                       unsigned how);

/* --- over and over: list.c ----------------------------------------------- */

struct simba__follow {
    const struct simba__cli *cli;
    simba_store *store;
    struct simba__live *live;
    const char *glob; /* which mutexes; NULL: all */
    bool is_wide;     /* tokens are shown, and nothing is cut */
    bool was_up;      /* a look has succeeded */
    bool is_down;     /* the last one has not, which was told */
};

/** The shortest --interval: nobody reads faster, and stores have better things
 * to do. */
enum { SIMBA__INTERVAL_LEAST_MS = 50 };

/** Draw these as the block of the live view, not taller than it may be. */
void simba__follow_draw(struct simba__follow *follow,
                        const struct simba__views *views);

/**
 * List. A store that cannot be reached any more is told once, and waited for.
 *
 * @param[out] report  NULL when there is none this time
 * @return SIMBA_OK, or what time does not mend; `error` says it
 */
int simba__follow_look(struct simba__follow *follow,
                       simba_report **report,
                       simba_error *error);

/** Open the store; wait for one that is not there yet, after saying so. */
int simba__follow_open(struct simba__follow *follow,
                       int64_t interval_ms,
                       simba_error *error);

#endif
