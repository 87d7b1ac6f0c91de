/* Reading what INFO tells. */
#ifndef SIMBA_REDIS_INFO_H
#define SIMBA_REDIS_INFO_H

#include <stdbool.h>
#include <stddef.h>

/** The value of a line "name:value"; "" when there is none, cut when it does
 * not fit. */
void simba__redis_info_field(const char *info,
                             const char *name,
                             char *value,
                             size_t room);

bool simba__redis_info_is(const char *info,
                          const char *name,
                          const char *wanted);

#endif
