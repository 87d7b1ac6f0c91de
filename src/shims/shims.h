/* The shims that are part of the library; see docs/testing.md. */
#ifndef SIMBA_SHIMS_SHIMS_H
#define SIMBA_SHIMS_SHIMS_H

#include <simba/sys/backend.h>

extern const simba_backend_ops simba__fault_ops;
extern const simba_backend_ops simba__trace_ops;
extern const simba_backend_ops simba__stat_ops;

#endif
