/* The stat shim's figures, for simba_stat_read(). */
#ifndef SIMBA_SHIMS_STAT_H
#define SIMBA_SHIMS_STAT_H

#include <simba/sys/backend.h>
#include <simba/sys/stat.h>

/** The outermost stat shim at or behind this backend; NULL: there is none. */
simba_backend *simba__stat_find(simba_backend *backend);

/** Its figures of a kind; false: no such kind. Inside the loop. */
bool simba__stat_figures(simba_backend *shim,
                         const char *kind,
                         simba_stat *stat);

#endif
