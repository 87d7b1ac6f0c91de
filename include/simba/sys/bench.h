/**
 * @file simba/sys/bench.h
 * For authors of stores: the floor that `simba bench` compares a store with,
 * which is the least exchange with the bare client library that does the same
 * for one mutex, with none of our code between. A module of its own,
 * simba-floor-<name>.so, has it for the store of that name. simba-bench
 * looks for it in its own directory, then in $SIMBA_MODULE_PATH.
 */
#ifndef SIMBA_SYS_BENCH_H
#define SIMBA_SYS_BENCH_H

#include <simba/error.h>
#include <simba/export.h>

#include <stdint.h>

SIMBA_BEGIN_DECLS

enum simba_floor_step {
    SIMBA_FLOOR_PAIR = 0,   /**< what an acquire and a release cannot avoid */
    SIMBA_FLOOR_ARM = 1,    /**< get ready to be woken */
    SIMBA_FLOOR_NOTIFY = 2, /**< release, and wake who is armed */
    SIMBA_FLOOR_AWAIT = 3,  /**< armed: be woken, then acquire */
};

enum { SIMBA_FLOOR_STEPS = 4 };

typedef struct simba_floor simba_floor; /* the module's own */

#define SIMBA_FLOOR_ABI 1

/** The table of a module; all functions MUST be there. */
typedef struct simba_floor_ops {
    uint32_t abi;  /**< SIMBA_FLOOR_ABI */
    uint32_t size; /**< of a simba_floor, which is given zeroed */

    /** Connect. Processes that give the same mutex exchange with each other.
     * `url` is that of the store itself: no name, no shim before it. `mutex` is
     * a name nobody uses otherwise; names that differ behind a # only are
     * mutexes of one measurement. SIMBA_EINVAL: this store, as the URL
     * describes it, has no floor. */
    int (*open)(simba_floor *floor,
                const char *url,
                const char *mutex,
                simba_error *error);
    /** Disconnect, and remove what it needed in the store; also after open()
     * has failed. The memory is the caller's. */
    void (*close)(simba_floor *floor);
    /** By enum simba_floor_step; each blocks until it is done. One at a time.
     */
    int (*steps[SIMBA_FLOOR_STEPS])(simba_floor *floor, simba_error *error);
} simba_floor_ops;

/** What a floor's module defines and exports. */
SIMBA_API extern const simba_floor_ops simba_floor_module;
#define SIMBA_FLOOR_SYMBOL "simba_floor_module"

/**
 * Find the store itself: the name of a store in the config file is resolved,
 * and shims are taken off.
 *
 * @param store         as for simba_store_open(); may be NULL
 * @param[out] url      its URL with all secrets, or NULL on failure; overwrite
 *                      and free() it
 * @param[out] backend  the scheme of its backend, such as "redis"; static
 * @param[out] error    filled on failure; may be NULL
 * @return SIMBA_OK; else as simba_store_open()
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_bench_bare_url(const char *store,
                                                  char **url,
                                                  const char **backend,
                                                  simba_error *error);

SIMBA_END_DECLS

#endif
