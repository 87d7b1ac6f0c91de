/* The clock of an SQLite store: the machine's boot clock, the same for all its
 * processes, and the name of the boot it counts from. */
#ifndef SIMBA_SQLITE_CLOCK_H
#define SIMBA_SQLITE_CLOCK_H

#include "backends/sqlite/settings.h"

#include <stdint.h>

enum { SIMBA__SQLITE_BOOT = 36 };

struct simba__sqlite_clock {
    int64_t offset_ns; /* of this process's time namespace */
    char boot[SIMBA__SQLITE_BOOT + 1];
};

/** @return SIMBA_OK, or SIMBA_EMISCONFIG where the kernel does not tell */
int simba__sqlite_clock_init(struct simba__sqlite_clock *clock,
                             const struct simba__sqlite_settings *settings,
                             simba_error *error);

/** Milliseconds since boot, rounded down: the store's time. */
int64_t simba__sqlite_clock_now_ms(const struct simba__sqlite_clock *clock);

/** Microseconds since 1970: for tokens only, never for leases. */
uint64_t simba__sqlite_clock_wall_us(void);

#endif
