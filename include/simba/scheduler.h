/**
 * @file simba/scheduler.h
 * Periodic work that runs only where the mutex is owned.
 *
 * A scheduler contends for a mutex. Whoever owns it is the leader, and on the
 * leader alone the work runs: at a fixed rate, or with a fixed delay between
 * two runs. When leadership ends the running work is told, and has `budget_ms`
 * to come to its end; only then may the next leader begin (S6).
 *
 *     static int work(void *user, const simba_run *run, simba_error *error)
 *     {
 *         while (more() && !simba_run_is_stopped(run)) { step(run->token); }
 *         return SIMBA_OK;
 *     }
 */
#ifndef SIMBA_SCHEDULER_H
#define SIMBA_SCHEDULER_H

#include <simba/error.h>
#include <simba/export.h>
#include <simba/service.h>
#include <simba/store.h>

#include <stdbool.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

typedef struct simba_scheduler simba_scheduler; /* opaque */

/** When the work runs. */
enum simba_schedule {
    /** At multiples of the period in the *store's* time, so that a change of
     * leader keeps the beat. A beat that comes while the work runs is skipped,
     * not caught up; none is run twice, not by two leaders either. A store that
     * tells no time (ZooKeeper) has no beat to keep: there each leader counts
     * its beats from its own beginning, the first when its initial delay is
     * over. */
    SIMBA_FIXED_RATE = 0,
    /** One period after the end of the last run; the first run of a leader
     * comes when its initial delay is over. */
    SIMBA_FIXED_DELAY = 1
};

/** One run of the work, as the work sees it. Made by the library; it grows at
 * the end only. */
typedef struct simba_run {
    uint64_t token;   /**< fencing token of the tenure it belongs to */
    uint64_t number;  /**< counted from 1 by this scheduler */
    uint64_t skipped; /**< beats that were skipped since the run before */
    int64_t beat_ms;  /**< when it was due: by the store's clock at a fixed
                         rate (by ours if the store tells no time: those of
                         two leaders cannot be compared then), by ours after
                         a fixed delay */
    int stop_fd;      /**< becomes readable when the work must end; to be polled
                         only, and only during the run */
    simba_scheduler *scheduler; /**< whose run it is */
} simba_run;

/**
 * The work.
 *
 * @param user        as given in the options
 * @param run         borrowed; gone when the work returns
 * @param[out] error  may be filled to say why it failed
 * @return SIMBA_OK; anything else is logged and counted, and the schedule is
 *         kept: the next run comes at its time
 *
 * Threads: on a thread of the scheduler that exists only while it leads, one
 * run at a time. No lock of ours is held. Everything may be called but the stop
 * and close of its own scheduler.
 */
typedef int (*simba_work_fn)(void *user,
                             const simba_run *run,
                             simba_error *error);

typedef struct simba_scheduler_options {
    uint32_t size;     /**< set by SIMBA_SCHEDULER_OPTIONS_INIT */
    const char *mutex; /**< required; copied */
    const char *id;    /**< NULL: made as simba_id_host() does; copied */
    enum simba_schedule schedule;
    int64_t period_ms;        /**< at a fixed rate at least 1 */
    int64_t initial_delay_ms; /**< from each beginning of leadership to its
                                 first run */
    simba_times times;        /**< budget_ms is what the work has to end when
                                 it is told; with progress_ms leadership is
                                 kept only so long after the beginning of the
                                 work or its last simba_run_progress() */
    simba_work_fn work;       /**< required */
    void *user;               /**< first argument of the work */
} simba_scheduler_options;

/* clang-format off */
#define SIMBA_SCHEDULER_OPTIONS_INIT \
    {(uint32_t)sizeof(simba_scheduler_options), 0, 0, SIMBA_FIXED_RATE, \
     0, 0, SIMBA_TIMES_INIT, 0, 0}
/* clang-format on */

/**
 * Make a scheduler; it does nothing before it is started.
 *
 * @param store           must outlive the scheduler
 * @param options         copied, its strings too
 * @param[out] scheduler  the handle, or NULL on failure; close it
 * @param[out] error      filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EINVAL naming the value and why; SIMBA_ENOMEM;
 *         SIMBA_EINTERNAL when the system gives no descriptor; SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_scheduler_open(
    simba_store *store,
    const simba_scheduler_options *options,
    simba_scheduler **scheduler,
    simba_error *error);

/**
 * Start to contend, and to work when leading. Returns at once.
 *
 * @param scheduler   not NULL
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EMISUSE when it is not INITIAL; SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_scheduler_start(simba_scheduler *scheduler,
                                                   simba_error *error);

/**
 * Tell the work to end, pass the mutex on when it has ended or its budget has
 * passed, and wait for both: the store knows, and no work runs. The scheduler
 * can be started again.
 *
 * @param scheduler   not NULL
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK, also when it was not started; SIMBA_EUNKNOWN when the store
 *         did not answer: the lease will lapse by itself; SIMBA_EMISUSE from
 *         its own work; SIMBA_EFORKED
 *
 * Threads: any thread, but not the work of this scheduler.
 */
SIMBA_API SIMBA_MUST_USE int simba_scheduler_stop(simba_scheduler *scheduler,
                                                  simba_error *error);

/**
 * Stop if need be, then free. No work runs or starts afterwards.
 *
 * @param scheduler  NULL is a no-op
 *
 * Threads: one at a time; its own work calling it aborts.
 */
SIMBA_API void simba_scheduler_close(simba_scheduler *scheduler);

/** Do we lead at this very instant? Computed from the clock. Threads: any
 * thread; wait-free; signal-safe. */
SIMBA_API bool simba_scheduler_is_owner(const simba_scheduler *scheduler);

/** Fencing token, 0 when not owner. Threads: any thread; wait-free. */
SIMBA_API uint64_t simba_scheduler_token(const simba_scheduler *scheduler);

/** Where the scheduler stands, as a service does; STOPPING until no work runs.
 * Threads: any thread. */
SIMBA_API enum simba_service_status simba_scheduler_status(
    const simba_scheduler *scheduler);

/**
 * Must this run come to its end? True as soon as the mutex is not ours any
 * more, by the clock: also in a process that was stopped for an hour and has
 * not heard of its loss yet.
 *
 * @param run  not NULL, and during the run
 *
 * Threads: any thread; wait-free; signal-safe.
 */
SIMBA_API bool simba_run_is_stopped(const simba_run *run);

/** Say that the work is getting on (options.times.progress_ms). Work that hangs
 * says nothing, and another leader takes over.
 *
 * @param run  not NULL, and during the run
 *
 * Threads: any thread. */
SIMBA_API void simba_run_progress(const simba_run *run);

/** What a scheduler has seen since it was made. */
typedef struct simba_scheduler_counts {
    uint32_t size;     /**< set by SIMBA_SCHEDULER_COUNTS_INIT */
    uint64_t tenures;  /**< times that it led */
    uint64_t runs;     /**< runs begun */
    uint64_t failures; /**< runs that returned an error */
    uint64_t skipped;  /**< beats skipped */
    uint64_t overruns; /**< runs that were told to end and did not in time */
} simba_scheduler_counts;

#define SIMBA_SCHEDULER_COUNTS_INIT                                            \
    {                                                                          \
        (uint32_t)sizeof(simba_scheduler_counts), 0, 0, 0, 0, 0                \
    }

/**
 * Read the counts.
 *
 * @param scheduler    not NULL
 * @param[out] counts  set up by its _INIT macro
 * @return SIMBA_OK; SIMBA_EINVAL when `counts` was not set up; SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API int simba_scheduler_count(simba_scheduler *scheduler,
                                    simba_scheduler_counts *counts);

/** For SIMBA_SCHEDULER_SCOPE. */
static inline void simba_scheduler_close_scope(simba_scheduler **scheduler)
{
    simba_scheduler_close(*scheduler);
}

/** Marks a local `simba_scheduler *`, set to NULL at first, that is closed when
 * its scope ends. Declare it after its store. */
#if defined(__GNUC__)
#define SIMBA_SCHEDULER_SCOPE                                                  \
    __attribute__((cleanup(simba_scheduler_close_scope)))
#endif

SIMBA_END_DECLS

#endif
