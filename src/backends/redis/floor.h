/* The bare exchange, for `simba bench`: see enum simba_floor_step. */
#ifndef SIMBA_REDIS_FLOOR_H
#define SIMBA_REDIS_FLOOR_H

#include "backends/redis/settings.h"

#include <hiredis/hiredis.h>

int simba__redis_floor_open(const simba_backend_config *config,
                            const char *mutex,
                            simba_floor **floor,
                            simba_error *error);
int simba__redis_floor_step(simba_floor *floor,
                            enum simba_floor_step step,
                            simba_error *error);
void simba__redis_floor_close(simba_floor *floor);

/** Ask the sentinels or the cluster of the settings which server keeps the
 * mutex, and put it first of their addresses. */
int simba__redis_floor_find(struct simba__redis_settings *settings,
                            const char *mutex,
                            simba_error *error);

#endif
