/* Memory that runs out when it is told to. The library is linked with its
 * allocations led through here (see CMakeLists.txt). */
#ifndef SIMBA_TESTS_ALLOC_FAIL_H
#define SIMBA_TESTS_ALLOC_FAIL_H

#include <stdbool.h>

/** Let the n-th allocation from now fail, counted from 1; 0: none. */
void fail_at(long n);

/** Did it come so far? */
bool has_failed(void);

/** Blocks that were allocated and not freed. */
long live_blocks(void);

/** Have SQLite's own allocations counted as well. Once, at first. */
void fail_in_sqlite(void);

#endif
