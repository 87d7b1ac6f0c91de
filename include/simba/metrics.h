/**
 * @file simba/metrics.h
 * What a store handle and its mutexes have seen: counters and histograms since
 * the handle was opened, as a snapshot, and as text for Prometheus.
 *
 * Everything is counted where it happens, under the lock that is held there
 * anyway. Only this process's own contenders are counted.
 */
#ifndef SIMBA_METRICS_H
#define SIMBA_METRICS_H

#include <simba/error.h>
#include <simba/export.h>
#include <simba/store.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

SIMBA_BEGIN_DECLS

/** Buckets of a histogram; the last one has no upper bound. */
#define SIMBA_HISTOGRAM_BUCKETS 22

/** Durations, sorted into fixed buckets. */
typedef struct simba_histogram {
    uint64_t count;
    uint64_t sum_us;
    uint64_t buckets[SIMBA_HISTOGRAM_BUCKETS]; /**< each for itself */
} simba_histogram;

/** What was seen of one mutex, or of several together. */
typedef struct simba_counts {
    uint64_t acquires;         /**< tenures that began */
    uint64_t hand_overs;       /**< of these: after somebody else's */
    uint64_t abandoned;        /**< waits that ended without the mutex */
    uint64_t releases;         /**< tenures that ended because we wanted */
    uint64_t lost_expired;     /**< no renewal was answered in time */
    uint64_t lost_taken;       /**< the store says that it is not ours */
    uint64_t lost_broken;      /**< somebody broke it */
    uint64_t lost_max_hold;    /**< max_hold was reached */
    uint64_t lost_stalled;     /**< no progress was made */
    uint64_t renewals;         /**< that were granted */
    uint64_t renewal_failures; /**< unanswered, or failed; retried */
    uint64_t overruns;         /**< on_released took longer than its budget */
    uint64_t unreleased;       /**< releases the store never answered */
    uint64_t clock_jumps;      /**< steps of the store's clock */
    simba_histogram wait;      /**< from the first request to the grant */
    simba_histogram hold;      /**< from the grant to the end of the tenure */
    /** How long we would still have been owner when a renewal was granted. The
     * smaller, the closer to a loss. */
    simba_histogram renewal_margin;
    uint64_t backstops; /**< of the acquires: no wake-up had come, but who
                           waited asked by itself when a lease was to end */
} simba_counts;

/** What was seen of the store itself. */
typedef struct simba_store_counts {
    uint64_t reconnects;     /**< connections that were made anew */
    uint64_t callback_waits; /**< times callbacks had to wait because all
                                callback threads were busy */
    uint64_t contenders;     /**< open at this instant */
    uint64_t owned;          /**< mutexes owned at this instant */
    uint64_t requests;       /**< that the store was asked for */
    uint64_t spins;         /**< times one looked for a reply before sleeping */
    uint64_t spins_in_vain; /**< of these: it slept in the end */
    uint64_t spin_us;       /**< CPU time that took, in microseconds */
} simba_store_counts;

typedef struct simba_metrics simba_metrics; /* opaque, a snapshot */

/**
 * Take a snapshot.
 *
 * @param store         not NULL
 * @param[out] metrics  the snapshot, or NULL on failure; free it
 * @param[out] error    filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_ENOMEM; SIMBA_EFORKED
 *
 * Threads: any thread; may be called from callbacks.
 */
SIMBA_API SIMBA_MUST_USE int simba_metrics_read(simba_store *store,
                                                simba_metrics **metrics,
                                                simba_error *error);

/** NULL is a no-op. */
SIMBA_API void simba_metrics_free(simba_metrics *metrics);

/** Of the store itself; lives as long as the snapshot. */
SIMBA_API const simba_store_counts *simba_metrics_store(
    const simba_metrics *metrics);

/** How many mutexes there are in it: those of which something was seen. Beyond
 * 1,000 mutexes the others are counted together, under the name "". */
SIMBA_API size_t simba_metrics_count(const simba_metrics *metrics);

/** The name of a mutex, by index from 0; lives as long as the snapshot. */
SIMBA_API const char *simba_metrics_mutex(const simba_metrics *metrics,
                                          size_t index);

/** What was seen of it; lives as long as the snapshot. */
SIMBA_API const simba_counts *simba_metrics_counts(const simba_metrics *metrics,
                                                   size_t index);

/** What was seen of one by name; zeros for one that is not in it. */
SIMBA_API const simba_counts *simba_metrics_of(const simba_metrics *metrics,
                                               const char *mutex);

/** Upper bound of a bucket, inclusive; UINT64_MAX for the last. */
SIMBA_API uint64_t simba_histogram_bound_us(size_t bucket);

/**
 * Write a snapshot in the text format of Prometheus: counters
 * `simba_acquires_total{store="…",mutex="…"}` and so on, and histograms in
 * seconds.
 *
 * @return SIMBA_OK; SIMBA_EIO when the stream fails
 */
SIMBA_API int simba_metrics_print(const simba_metrics *metrics, FILE *out);

/**
 * Take a snapshot and write it to a file, which appears whole or not at all:
 * for the textfile collector of Prometheus' node exporter.
 *
 * @param store       not NULL
 * @param path        replaced if it is a regular file; anything else that is
 *                    there, a device, a FIFO or a symbolic link, is refused
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EDENIED for one that must not be written, SIMBA_EIO
 *         for one that cannot be, as on a full disk, both naming it;
 *         SIMBA_ENOMEM; SIMBA_EFORKED
 *
 * Threads: any thread. It blocks for as long as the disk does.
 */
SIMBA_API SIMBA_MUST_USE int simba_metrics_save(simba_store *store,
                                                const char *path,
                                                simba_error *error);

SIMBA_END_DECLS

#endif
