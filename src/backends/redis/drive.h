/* A caller that waits for its own reply alone reads it itself. */
#ifndef SIMBA_REDIS_DRIVE_H
#define SIMBA_REDIS_DRIVE_H

#include <simba/backend.h>

/** See `drive` in simba/backend.h. */
bool simba__redis_drive(simba_backend *self, int64_t until_ms);

#endif
