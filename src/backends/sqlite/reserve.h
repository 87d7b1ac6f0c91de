/* The reserve: tokens that can be given out without a flush. */
#ifndef SIMBA_SQLITE_RESERVE_H
#define SIMBA_SQLITE_RESERVE_H

#include <simba/error.h>

#include <stdbool.h>
#include <stdint.h>

struct simba__sqlite;

struct simba__sqlite_reserve {
    /* As this transaction has it. */
    uint64_t floor;
    uint64_t reserved;
    uint64_t flushed;
    bool is_ours; /* was written in this boot */

    uint64_t seen_flushed; /* by ourselves; need not be in the table yet */
    bool is_untold;        /* and is not */
};

/** Read it. Within a transaction, before a token is chosen: that must be above
 * `floor`. */
int simba__sqlite_reserve_load(struct simba__sqlite *self, simba_error *error);

/**
 * This token is to be given out: take care that no later boot gives it again.
 * Within the transaction that loaded.
 *
 * @param[out] is_changed  set when something was written
 */
int simba__sqlite_reserve_cover(struct simba__sqlite *self,
                                uint64_t token,
                                bool *is_changed,
                                simba_error *error);

/** Flush, once that is committed, if this token needs it. */
int simba__sqlite_reserve_keep(struct simba__sqlite *self,
                               uint64_t token,
                               simba_error *error);

/** Tell the others what we have flushed, in a transaction that writes anyway;
 * and that it was committed. */
int simba__sqlite_reserve_tell(struct simba__sqlite *self, simba_error *error);
void simba__sqlite_reserve_told(struct simba__sqlite *self);

#endif
