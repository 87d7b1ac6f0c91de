/**
 * @file simba/report.h
 * What a store tells an admin: its mutexes, who waits for one, and what it can
 * promise. Plain values: copy them, keep them.
 */
#ifndef SIMBA_REPORT_H
#define SIMBA_REPORT_H

#include <simba/export.h>
#include <simba/owner.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

/** One mutex of a list. Grows at the end. */
typedef struct simba_listed {
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
    simba_owner owner; /**< with an empty id: nobody owns it; of several the
                        * oldest */
    int waiting;       /**< how many wait; -1: unknown */
    uint32_t owned;    /**< how many own it: simba_report_mutex_owner() */
    size_t first;      /**< the library's own */
} simba_listed;

/** One who waits for a mutex. Grows at the end. */
typedef struct simba_waiter {
    char id[SIMBA_ID_MAX + 1];
    uint64_t position;    /**< smaller is earlier */
    int64_t joined_at_ms; /**< store's clock, like simba_owner; 0: unknown */
    bool is_offered;      /**< the mutex is kept for it, for 300 ms */
    uint8_t reserved[7];  /**< 0 */
    uint32_t slots;       /**< how many owners it suffers; 0: itself */
    int32_t priority;     /**< reserved: 0 */
} simba_waiter;

/** How grave a finding of the doctor is. */
enum simba_gravity {
    SIMBA_FINDING_OK = 0,     /**< a guarantee that holds */
    SIMBA_FINDING_NOTE = 1,   /**< good to know, or cannot be seen */
    SIMBA_FINDING_WEAK = 2,   /**< one that holds until something goes wrong */
    SIMBA_FINDING_SERIOUS = 3 /**< two may own a mutex at once, or nobody can */
};

/** One finding of the doctor. */
typedef struct simba_finding {
    enum simba_gravity gravity;
    char name[32];  /**< a stable word for programs, such as "persistence" */
    char text[256]; /**< for people, one line, never with a password */
} simba_finding;

/** What is kept of a text that an owner tells; longer ones are cut. */
#define SIMBA_TOLD_WORD_MAX    64
#define SIMBA_TOLD_COMMAND_MAX 512

/** What an owner told about itself: valid UTF-8, but else anything at all may
 * stand in it. Grows at the end. */
typedef struct simba_told {
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
    uint64_t token;                     /**< of its tenure */
    int64_t pid;                        /**< 0: not told */
    char host[SIMBA_TOLD_WORD_MAX + 1]; /**< "": not told, as below */
    char user[SIMBA_TOLD_WORD_MAX + 1];
    char command[SIMBA_TOLD_COMMAND_MAX + 1];
} simba_told;

/** One tenure that was ended by force. Grows at the end. */
typedef struct simba_broken {
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
    char id[SIMBA_ID_MAX + 1]; /**< whose tenure it was; "": not known */
    uint64_t token;
    int64_t unix_ms;   /**< when, by the time of day; 0: not known */
    bool now;          /**< it was free at once */
    char reason[1024]; /**< as it was given; longer ones are cut */
} simba_broken;

/** What one call of simba/admin.h answered; opaque, see there. */
typedef struct simba_report simba_report;

/** How many mutexes, waiters, findings and so on there are in it. 0 where the
 * call asked for something else. Threads: any thread. */
SIMBA_API size_t simba_report_mutex_count(const simba_report *report);
SIMBA_API size_t simba_report_waiter_count(const simba_report *report);
SIMBA_API size_t simba_report_finding_count(const simba_report *report);
SIMBA_API size_t simba_report_told_count(const simba_report *report);
SIMBA_API size_t simba_report_broken_count(const simba_report *report);

/**
 * One of them.
 *
 * @param index  from 0
 * @return it, until the report is closed; NULL beyond the last
 *
 * Threads: any thread.
 */
SIMBA_API const simba_listed *simba_report_mutex(const simba_report *report,
                                                 size_t index);
SIMBA_API const simba_waiter *simba_report_waiter(const simba_report *report,
                                                  size_t index);
SIMBA_API const simba_finding *simba_report_finding(const simba_report *report,
                                                    size_t index);
SIMBA_API const simba_told *simba_report_told(const simba_report *report,
                                              size_t index);
SIMBA_API const simba_broken *simba_report_broken(const simba_report *report,
                                                  size_t index);

/**
 * One of the owners of a mutex of a list, the oldest first.
 *
 * @param index  of the mutex, from 0
 * @param owner  which of them, from 0
 * @return it, until the report is closed; NULL beyond the last
 *
 * Threads: any thread.
 */
SIMBA_API const simba_owner *simba_report_mutex_owner(
    const simba_report *report,
    size_t index,
    size_t owner);

/** The owner that simba_admin_show() found, of several the oldest; with an
 * empty id when there is none. Until the report is closed. Threads: any thread.
 */
SIMBA_API const simba_owner *simba_report_owner(const simba_report *report);

/** How many own the mutex that simba_admin_show() was asked for, and each of
 * them, the oldest first; NULL beyond the last. Until the report is closed.
 * Threads: any thread. */
SIMBA_API size_t simba_report_owner_count(const simba_report *report);
SIMBA_API const simba_owner *simba_report_owner_at(const simba_report *report,
                                                   size_t index);

/** The store's clock when it answered, to be compared with the times of owners
 * and waiters; 0: not told. Threads: any thread. */
SIMBA_API int64_t simba_report_store_ms(const simba_report *report);

/** The gravest of the findings; SIMBA_FINDING_OK when there is none.
 * Threads: any thread. */
SIMBA_API enum simba_gravity simba_report_gravity(const simba_report *report);

/** Free it; NULL is a no-op. Threads: one at a time. */
SIMBA_API void simba_report_close(simba_report *report);

SIMBA_END_DECLS

#endif
