/**
 * @file simba/admin.h
 * For those who look after a store: which mutexes are there, who owns and who
 * waits, ending a tenure by force, and what this store can promise.
 *
 * Every call blocks until the store has answered, for ten seconds at most. What
 * it found comes as a report (simba/report.h), which is a copy: it does not
 * change when the store does, and outlives the store handle. A store need not
 * do list, break or doctor.
 */
#ifndef SIMBA_ADMIN_H
#define SIMBA_ADMIN_H

#include <simba/error.h>
#include <simba/export.h>
#include <simba/report.h>
#include <simba/store.h>

#include <stdbool.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

/**
 * Which mutexes have an owner or a queue, in the order of their names.
 *
 * @param store        not NULL
 * @param glob         which names, by fnmatch(3) without flags; NULL: all
 * @param[out] report  with simba_report_mutex(), or NULL on failure; close it
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EINVAL when this store has no list; SIMBA_EUNAVAIL
 *         or what else the store says; SIMBA_ENOMEM; SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_admin_list(simba_store *store,
                                              const char *glob,
                                              simba_report **report,
                                              simba_error *error);

/**
 * Who owns a mutex, and who waits, in the order of the queue; one whom the
 * mutex is offered to comes first.
 *
 * @param store        not NULL
 * @param mutex        its name
 * @param[out] report  with simba_report_owner() and simba_report_waiter(), or
 *                     NULL on failure; close it
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK, also for a mutex that nobody ever used; SIMBA_EINVAL for
 *         a name that cannot be; else as simba_admin_list()
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_admin_show(simba_store *store,
                                              const char *mutex,
                                              simba_report **report,
                                              simba_error *error);

/**
 * What owners told about themselves, if they were asked to (enum simba_tell),
 * each by the token of its tenure; in the order of mutexes and tokens.
 *
 * @param store        not NULL
 * @param mutex        whose owners; NULL: those of all mutexes
 * @param[out] report  with simba_report_told(), or NULL on failure; close it
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK, also where nobody told anything; SIMBA_EINVAL for a name
 *         that cannot be, or when this store has no place for it; else as
 *         simba_admin_list()
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_admin_told(simba_store *store,
                                              const char *mutex,
                                              simba_report **report,
                                              simba_error *error);

/**
 * Which tenures were ended by force, the oldest first, as the store has written
 * it down; who keeps the store may have removed some.
 *
 * @param store        not NULL
 * @param mutex        whose tenures; NULL: those of all mutexes
 * @param[out] report  with simba_report_broken(), or NULL on failure; close it
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK, also where there were none; SIMBA_EINVAL for a name that
 *         cannot be, or when this store has no book of them; else as
 *         simba_admin_list()
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_admin_breaks(simba_store *store,
                                                const char *mutex,
                                                simba_report **report,
                                                simba_error *error);

/** Which tenure is to be ended, and how. */
typedef struct simba_break {
    uint32_t size;      /**< set by SIMBA_BREAK_INIT */
    const char *mutex;  /**< required */
    uint64_t token;     /**< required: of the tenure that is meant */
    const char *reason; /**< for the store's log, if it has one; may be NULL */
    /** Free it now, not at the end of its lease. Its owner may believe in it
     * for up to one lease more, so exclusion (S1) does not hold meanwhile. */
    bool now;
    uint8_t reserved[7]; /**< 0 */
} simba_break;

/* clang-format off */
#define SIMBA_BREAK_INIT {(uint32_t)sizeof(simba_break), 0, 0, 0, 0, {0}}
/* clang-format on */

/**
 * End a tenure, whoever has it: it is not renewed any more, and free at the end
 * of its lease; with `now` at once. The token never comes again.
 *
 * @param store         not NULL
 * @param wish          copied
 * @param[out] present  who owns the mutex now, after a success and with
 *                      SIMBA_ELOST; else nobody. May be NULL
 * @param[out] error    filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_ELOST when that tenure is over, the message naming
 *         the present token; SIMBA_EINVAL for a wrong name or token, or when
 *         this store has no break; SIMBA_EUNKNOWN when no answer came: it
 *         may have been broken; else as simba_admin_list()
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_admin_break(simba_store *store,
                                               const simba_break *wish,
                                               simba_owner *present,
                                               simba_error *error);

/** Who is to hand over which mutex, and to whom. */
typedef struct simba_hand_over {
    uint32_t size;     /**< set by SIMBA_HAND_OVER_INIT */
    const char *mutex; /**< required */
    uint64_t token;    /**< of the tenure that is meant; 0: the oldest */
    const char *to;    /**< id of the successor; NULL: whoever waits first */
} simba_hand_over;

/* clang-format off */
#define SIMBA_HAND_OVER_INIT {(uint32_t)sizeof(simba_hand_over), 0, 0, 0}
/* clang-format on */

/** Who was asked to hand over, and who would be next if it did so now. */
typedef struct simba_asked {
    uint32_t size; /**< set by SIMBA_ASKED_INIT; nothing is written beyond */
    simba_owner owner;
    char to[SIMBA_ID_MAX + 1]; /**< "": nobody */
    uint8_t reserved[7];       /**< 0 */
} simba_asked;

/* clang-format off */
#define SIMBA_ASKED_INIT                                                       \
    {(uint32_t)sizeof(simba_asked),                                            \
     {"", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "", {0}}
/* clang-format on */

/**
 * Ask an owner to hand over. It hears of it at once where its store can wake
 * it, which takes on most that it has waited through its handle, and else by
 * its next renewal. It ends its work as it does when it is stopped
 * (on_released, or on_lost of a locker), keeps its min_hold, and releases the
 * mutex to the successor. This returns when it was asked, not when it has done
 * so. An owner of an older version or another implementation cannot be asked.
 *
 * @param store       not NULL
 * @param hand_over   what is wished
 * @param[out] asked  who owns it, and its successor; begun with
 *                    SIMBA_ASKED_INIT; may be NULL
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_ELOST when there is no such tenure; SIMBA_EINVAL when
 *         the successor does not wait, or nobody does, or it wants fewer owners
 *         than would be left beside it (one that wants the mutex alone, of
 *         which another slot is owned), and then nobody was asked;
 *         SIMBA_EINVAL when this store has no hand-over; SIMBA_EUNAVAIL or what
 *         else the store says; SIMBA_EUNKNOWN; SIMBA_ENOMEM; SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_admin_hand_over(
    simba_store *store,
    const simba_hand_over *hand_over,
    simba_asked *asked,
    simba_error *error);

/**
 * What this store, set up as it is, can and cannot promise.
 *
 * @param store        not NULL
 * @param[out] report  with simba_report_finding(), or NULL on failure; close it
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK, whatever was found; SIMBA_EINVAL when this store has no
 *         doctor; else as simba_admin_list()
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_admin_doctor(simba_store *store,
                                                simba_report **report,
                                                simba_error *error);

/**
 * Make what the store needs, such as its tables, where it is not there yet.
 * Most stores do so by themselves when they are first used; this is for admins
 * whose programs are not allowed to.
 *
 * @param store        not NULL
 * @param upgrade      also change what is there, if it was made by an older
 *                     version or by the JVM Simba: all programs that use it
 *                     go on working
 * @param[out] report  with simba_report_finding() for each thing the store
 *                     needs, none where it needs nothing; or NULL on failure;
 *                     close it
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EDENIED without the rights; SIMBA_EUNKNOWN when no
 *         answer came; else as simba_admin_list()
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_admin_init(simba_store *store,
                                              bool upgrade,
                                              simba_report **report,
                                              simba_error *error);

/**
 * What simba_admin_init() would do to an empty store, as text in the store's
 * own language, without touching it: no connection is made, no file opened.
 *
 * @param url         as of simba_store_open()
 * @param upgrade     what it would do to an older store instead
 * @param[out] text   free it by free(); "" when nothing is needed; NULL on
 *                    failure
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EINVAL or SIMBA_EMISCONFIG for a wrong URL;
 *         SIMBA_ENOMEM
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_admin_schema(const char *url,
                                                bool upgrade,
                                                char **text,
                                                simba_error *error);

/**
 * Tell how the URLs of a kind of store look and which parameters they take, in
 * lines for people, without touching any store.
 *
 * @param url         a URL, or its beginning, "redis:"
 * @param[out] text   free it by free(); "" when there is nothing to say; NULL
 *                    on failure
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EINVAL where there is no such store; SIMBA_ENOMEM
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_admin_help(const char *url,
                                              char **text,
                                              simba_error *error);

SIMBA_END_DECLS

#endif
