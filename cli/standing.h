/* How a mutex stands: as a row of a table, and as members of JSON. */
#ifndef SIMBA_CLI_STANDING_H
#define SIMBA_CLI_STANDING_H

#include "object.h"
#include "table.h"

#include <simba/owner.h>

#include <stdint.h>

/** A length of time that is not known, or has no end. */
enum { SIMBA__STANDING_UNKNOWN = -1 };

struct simba__standing {
    const char *mutex;
    const simba_owner *owner;
    int waiting;           /* -1: unknown */
    int64_t age_ms;        /* of the tenure */
    int64_t ttl_left_ms;   /* until it should have been renewed */
    int64_t lease_left_ms; /* until it is free */
};

/** The time to compare the times of owners and waiters with: what the store has
 * told, or, for 0, that of this machine. */
int64_t simba__standing_now(int64_t store_ms);

/** @param store_ms  the store's clock when it told the owner; 0: not told */
struct simba__standing simba__standing_of(const char *mutex,
                                          const simba_owner *owner,
                                          int waiting,
                                          int64_t store_ms);

/** Set up the table, with its first line. With `bar_ms` the lease is drawn as a
 * bar, which is full at this length. */
void simba__standing_head(struct simba__table *table, int64_t bar_ms);

void simba__standing_row(struct simba__table *table,
                         const struct simba__standing *standing,
                         int64_t bar_ms);

/** mutex, id, token, age_ms, ttl_left_ms, lease_left_ms, broken, waiting. */
void simba__standing_members(struct simba__object *object,
                             const struct simba__standing *standing);

#endif
