#include <simba/sys/stat.h>

#include "api/store.h"
#include "shims/stat.h"

#include <string.h>

int simba_stat_read(simba_store *store,
                    const char *kind,
                    simba_stat *stat,
                    simba_error *error)
{
    int rc = simba__store_check(store, error);
    simba_backend *shim;

    memset(stat, 0, sizeof *stat);
    if (rc != SIMBA_OK) {
        return rc;
    }
    shim = simba__stat_find(store->backend);
    if (shim == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "this store is not opened as stat::URL");
    }
    simba_loop_enter(store->loop);
    if (!simba__stat_figures(shim, kind, stat)) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "no kind of operation is called '%.32s'", kind);
    }
    simba_loop_leave(store->loop);
    return rc;
}
