/* The floor under the SQLite store; see simba/sys/backend.h. */
#ifndef SIMBA_SQLITE_FLOOR_H
#define SIMBA_SQLITE_FLOOR_H

#include <simba/sys/backend.h>

int simba__sqlite_floor_open(const simba_backend_config *config,
                             const char *mutex,
                             simba_floor **floor,
                             simba_error *error);
int simba__sqlite_floor_step(simba_floor *floor,
                             enum simba_floor_step step,
                             simba_error *error);
void simba__sqlite_floor_close(simba_floor *floor);

#endif
