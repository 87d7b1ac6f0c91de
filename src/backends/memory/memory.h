/* The memory store: mutexes of one process, for tests and examples. */
#ifndef SIMBA_MEMORY_MEMORY_H
#define SIMBA_MEMORY_MEMORY_H

#include <simba/sys/backend.h>

extern const simba_backend_ops simba__memory_ops;

#endif
