/* The clock of all deadlines: CLOCK_BOOTTIME, which also counts while the
 * machine sleeps, as leases do. */
#ifndef SIMBA_CLI_CLOCK_H
#define SIMBA_CLI_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/** Later than any deadline. */
#define SIMBA__CLOCK_NEVER INT64_MAX

/** Milliseconds of CLOCK_BOOTTIME. */
int64_t simba__clock_ms(void);

/** Room for the name of a boot, and a NUL. */
enum { SIMBA__CLOCK_BOOT = 37 };

/** Which boot the clock counts from, so that logs can be merged; false when it
 * cannot be told. */
bool simba__clock_boot(char boot[SIMBA__CLOCK_BOOT]);

/** A timer descriptor on that clock; -1 with errno when there is none. */
int simba__clock_timer(void);

/** Make the timer readable at this instant, or SIMBA__CLOCK_NEVER. */
void simba__clock_arm(int timer, int64_t at_ms);

/** Forget that the timer fired. */
void simba__clock_calm(int timer);

/** Wait so long; a signal ends it. */
void simba__clock_pause(int64_t ms);

/* A flag that one thread sets and others wait for, under a lock. */

void simba__flag_set(bool *flag, pthread_mutex_t *lock, pthread_cond_t *told);

/** Wait until it is set, so long at most; is it? */
bool simba__flag_wait(const bool *flag,
                      pthread_mutex_t *lock,
                      pthread_cond_t *told,
                      int64_t most_ms);

#endif
