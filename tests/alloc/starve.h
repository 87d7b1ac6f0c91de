/* A system that gives no thread and no descriptor when it is told not to. The
 * library is linked with its calls led through here (see CMakeLists.txt). */
#ifndef SIMBA_TESTS_ALLOC_STARVE_H
#define SIMBA_TESTS_ALLOC_STARVE_H

#include <stdbool.h>

/** Let the n-th thread or descriptor from now fail, counted from 1; 0: none. */
void starve_at(long n);

/** Did it come so far? */
bool has_starved(void);

/** Let every thread fail, or none. Returns how many have failed since. */
long starve_threads(bool is_on);

#endif
