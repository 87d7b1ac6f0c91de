/**
 * @file simba/sys/session_store.h
 * For authors of backends: stores whose clients have sessions and whose keys
 * have an order, such as ZooKeeper and etcd.
 *
 * Each attempt of this process to get a mutex is an *entry*: a key in the
 * store, or the wish for one. The author says how a key is put at the end of
 * the queue, how one looks who stands before it, how it is removed, and how
 * many of them are renewed by one write. What follows from the replies, which
 * is the greater part, is here: doubt after a lost reply, undoing, deadlines,
 * tombstones, entries that nobody asks for any more, one look that answers all
 * who wait, renewals gathered into one write.
 *
 * Everything runs inside the loop. An author's function may complete its step
 * from within; simba_entry_done() may start the next step from within. No
 * function of this file is called on two threads at a time.
 *
 * What a session store must guarantee is in docs/backends.md.
 */
#ifndef SIMBA_SYS_SESSION_STORE_H
#define SIMBA_SYS_SESSION_STORE_H

#include <simba/sys/connection.h>

SIMBA_BEGIN_DECLS

typedef struct simba_entry simba_entry;
typedef struct simba_session_mutex simba_session_mutex;
typedef struct simba_session_store simba_session_store;
/** An owner as an entry was told of it; those who were told the same share it.
 */
typedef struct simba_told_owner simba_told_owner;

/**
 * How long a session is certain, by its answered quorum writes.
 *
 * Of a store in which others take over when they have seen nothing new for a
 * lease, one answered write proves it: certain until the lease after it was
 * sent (`apart_ms` 0). Where a server ends the session, and a write proves only
 * that it had not ended yet, it takes two writes, the second sent `apart_ms` or
 * more after the first was answered: certain until the timeout after the first
 * was sent.
 */
enum { SIMBA_CERTAINTY_WRITES = 16 };
typedef struct simba_certainty {
    int64_t timeout_ms; /**< of the session, or the lease; 0: none yet */
    int64_t apart_ms;
    int64_t since_ms; /**< certain until the timeout after this */
    struct {
        int64_t sent_ms, answered_ms;
    } writes[SIMBA_CERTAINTY_WRITES]; /**< timeout/16 apart, newest last */
    int count;
} simba_certainty;

/**
 * Who owns a mutex with slots, by the order of the keys: as many of the first
 * as all of them suffer. The key with the index i owns it if i + 1 is no more
 * than the least `slots` of its own and of all before it. Those before only
 * become fewer, so who owns it does so until its key is gone, and none of
 * those who own it suffers fewer than there are (S1). Zeroed at first; then all
 * keys are added, the first one first.
 */
typedef struct simba_crowd {
    uint32_t count;           /**< of the keys that were added */
    uint32_t owned;           /**< so many of the first own it */
    uint32_t slots;           /**< the least of these, as in simba_reply */
    uint32_t least, least_at; /**< of all, and the last key that has it */
} simba_crowd;

/** Indices of keys: `other`, and from `begin` to before `end`. */
typedef struct simba_crowd_watched {
    uint32_t other, begin, end;
} simba_crowd_watched;

/** Pure. */
SIMBA_API void simba_crowd_add(simba_crowd *crowd, uint32_t slots);
/** Which keys the last that was added has to watch, while it does not own it:
 * before it can, one of these has gone. They are as many as the least slots, so
 * of an exclusive one that before it. Pure. */
SIMBA_API void simba_crowd_watch(const simba_crowd *crowd,
                                 simba_crowd_watched *watched);

/** What is known of the key of an entry. */
enum simba_key_state {
    SIMBA_KEY_ABSENT = 0, /**< there is none */
    SIMBA_KEY_DOUBTFUL,   /**< a put was not answered: there may be one */
    SIMBA_KEY_PRESENT
};

/** What an entry has asked of the store and waits for. */
enum simba_entry_step {
    SIMBA_STEP_NONE = 0,
    SIMBA_STEP_PUT,
    SIMBA_STEP_LOOK,
    SIMBA_STEP_REMOVE
};

/** What a put or a look has found. */
enum simba_standing {
    /** The entry owns the mutex, perhaps with others; its token is set, and
     * simba_entry_owner() was told of it. */
    SIMBA_STANDS_FIRST,
    /** Its key is there, and somebody stands before it, whose going will wake
     * us: the watch was set before this was seen. `position`, `is_head` and
     * `wait_ms` are set, and the owner. */
    SIMBA_STANDS_BEHIND,
    /** It was refused and has no key. `wait_ms` is set, and the owner. */
    SIMBA_STANDS_NOWHERE,
    /** Its key has vanished: it has to be put once more. */
    SIMBA_STANDS_VANISHED
};

/** One attempt of this process. Begins the author's own struct, of
 * `entry_size` bytes, zeroed at first. */
struct simba_entry {
    simba_session_store *store;
    simba_session_mutex *mutex;
    simba_attempt attempt;
    /** No other of this process that is there for the mutex has it; from 1 on,
     * and used again. With the session it can name the key: a server's index
     * may keep names that were never used before for long. */
    unsigned number;
    uint32_t slots; /**< as asked for at first; 0: it alone */

    /** The requests under way, or NULL. An author reads them in put(). */
    simba_request *acquire, *release, *renewal; /**< release: or leave */
    int64_t asked_ms; /**< when the acquire or the renewal came */

    /** MAY be set by the author in a step: what it has submitted for it, in the
     * memory of the entry. It is cancelled when nobody awaits it any more. */
    simba_exchange *exchange;

    /* Set by the author before simba_entry_done(). */
    uint64_t token;    /**< of the tenure */
    uint64_t position; /**< in the queue: smaller is earlier; not 0 */
    int64_t wait_ms;   /**< asking again earlier makes no sense; 0: the lease */
    uint32_t owned, least; /**< with slots: `owned`, `slots` of simba_crowd */
    /** An author may find out more at any time. */
    enum simba_key_state state : 8;
    enum simba_entry_step step : 8; /**< the author's to be done with */
    bool is_head : 1;      /**< nobody stands before it but the owner */
    bool is_unwatched : 1; /**< set by simba_entry_unwatched(); an author clears
                              it when it watches again */

    /* The rest is this file's own; authors may read. */
    bool is_leaving : 1;  /**< to be removed, whatever it takes */
    bool was_granted : 1; /**< the tenure was told */
    bool is_doubted : 1;  /**< a step was not answered, and may come late */
    bool is_renewal_queued : 1;
    bool is_passed : 1; /**< when it was sought who comes, it did not */
    uint8_t rounds;     /**< steps of this acquire */
    uint32_t references;
    uint32_t id_hash;     /**< of the contender's id, by FNV-1a */
    int64_t lease_ms;     /**< as asked for */
    int64_t lapses_ms;    /**< unless it is asked for again */
    int64_t confirmed_ms; /**< it stands as before; 0: not looked */
    simba_entry *next, *previous, *next_renewal;
    uint64_t rank; /**< the position it stands at; UINT64_MAX: not yet known */
    simba_timer deadline;
    simba_told_owner *owner; /**< simba_entry_owner(); NULL: none */
};

/** So many numbers of entries are used again; who has a higher one is alone
 * with it. */
enum { SIMBA_SESSION_NUMBERS = 1024 };

/** A mutex in which this process has entries or which it observes. Begins the
 * author's own struct, of `mutex_size` bytes, zeroed at first. */
struct simba_session_mutex {
    simba_session_store *store;
    /** By their positions; behind them who has none, in the order they came
     * (S11). */
    simba_entry *entries, *last;
    simba_entry *placed;  /**< the last that has a position; NULL: none has */
    simba_entry *from[3]; /**< of each kind that is sought, none is before it */
    uint64_t unwatched_to;   /**< nobody behind this position is unwatched */
    simba_entry *looker;     /**< looks for all who ask in case */
    simba_told_owner *owner; /**< as it was told last; NULL: never */
    uint64_t numbers;        /**< in use, a bit for each of the first 64 */
    uint64_t *more_numbers;  /**< of those behind them; NULL: none was used */
    bool is_observed : 1;
    unsigned beyond : 31; /**< how many have got a higher one */
    int holds;            /**< it must not be forgotten now */
};

/** A session store: the author's part. All MUST be there unless it says MAY; a
 * star: or unless the store is opened by simba_session_open(). */
typedef struct simba_session_ops {
    uint32_t size; /**< of this struct */
    uint32_t entry_size, mutex_size;
    /** The store's name, for messages. */
    const char *name;

    /** * See to it that there is a session fit for this request, or that one is
     * being made: simba_session_ready() tells. May refuse the request. Else:
     * the session lasts as long as the first lease that is asked for. */
    int (*want)(simba_session_store *self,
                const simba_request *request,
                simba_error *error);
    /** * Is there a session over which steps can be sent now? Else: is the
     * connection ready? */
    bool (*is_ready)(const simba_session_store *self);
    /** * Why a request that was never sent was not answered. Else: why there is
     * no connection, or with one the store's `failure`. */
    int (*unready)(const simba_session_store *self, simba_error *error);

    /** Put the key of an entry at the end of the queue, unless it is there
     * already (DOUBTFUL), and find where it stands. Without `acquire->join` it
     * only tries. */
    void (*put)(simba_entry *entry);
    /** The key is there, as far as we know: confirm it by a quorum, and find
     * where it stands. */
    void (*look)(simba_entry *entry);
    /** Remove the key; what it owned is free then. It may be DOUBTFUL. With
     * `release->tombstone_ms` a put of it that arrives later must fail. */
    void (*remove)(simba_entry *entry);
    /** Renew these, by one write that a quorum agrees to, and answer each by
     * simba_entry_renewed(), then simba_session_renewed(). At most `renew_most`
     * of them; until then they are the store's `renewing`. */
    void (*renew)(simba_session_store *self,
                  simba_entry *const *entries,
                  int count);
    int renew_most;
    /** A tenure outlives its session: the key of an owner stays until it is
     * removed or taken over. */
    bool is_tenure_lasting;
    /** What is sent is carried out in the order in which it was sent. So those
     * who come for a mutex in which the oldest of this process has its key do
     * not wait for each other's replies: put() is called for them side by
     * side, in their order (S11). */
    bool is_ordered;

    /** * What is certain of a tenure whose acquire or renewal was submitted at
     * `since_ms` and has just been answered: the lease from there on. 0: not
     * enough to work with; ask again after *wait_ms. Else: by `certainty` of
     * the store, at most the lease that was asked for. */
    int64_t (*lease_ms)(const simba_entry *entry,
                        int64_t since_ms,
                        int64_t *wait_ms);
    /** MAY be NULL. The entry is about to be forgotten, and its memory with it:
     * free what it holds. No reply of the store may reach it any more. */
    void (*forget)(simba_entry *entry);
    /** MAY be NULL. Whether a mutex is observed has changed. */
    void (*observe)(simba_session_mutex *mutex);
    /** MAY be NULL. Requests without an entry: read, list, break, doctor,
     * init. */
    void (*admin)(simba_session_store *self, simba_request *request);
    /** MAY be NULL. SIMBA_CLOSE: end the session, so that nobody has to wait
     * until it runs out, and complete the request. */
    void (*close_session)(simba_session_store *self, simba_request *request);

    /* For simba_session_open(). */
    uint32_t store_size;            /**< of the author's struct */
    const simba_backend_ops *table; /**< the author's */
    /** The hooks of the connection, whose `self` is the store, and how it is
     * made; what is of the URL and of the loop is filled in. MAY be NULL: the
     * store makes its connections itself. */
    const simba_connection_config *connection;
    /** An example of its URLs, with the port that is meant where none is named:
     * "rank://host:7265". */
    const char *url;
    /** MAY be NULL. Give a sign of life: four times in the time that the
     * session lasts. */
    void (*ping)(simba_session_store *self);
} simba_session_ops;

/** Begins the author's backend; zeroed at first, then `base` and `ops` are
 * set. */
struct simba_session_store {
    simba_backend base;
    const simba_session_ops *ops;
    /** Nobody has ever been answered: requests are given up after this time,
     * for the address may be wrong. 0: at their deadlines. */
    int64_t first_ms;
    bool was_ready;
    /** How long a look is good for all who wait on one mutex. */
    int64_t fresh_ms;
    /** As simba_entry has it, of a renewal; in the memory of the store. */
    simba_exchange *exchange;

    /* Of simba_session_open(). */
    simba_connection *connection;
    simba_certainty certainty; /**< of the session */
    simba_session_ops own_ops; /**< with what was left out */
    simba_timer pinging;

    /* This file's own. */
    int entry_count;
    simba_entry **renewing; /**< by one write now; NULL: none */
    int renewing_count;
    simba_entry *renewals, **last_renewal;
    struct simba_session_table *mutexes; /**< by name */
    struct simba_session_tombstone *tombstones;

    /** MAY be set by the author: why there is no session. Last, for modules
     * that were made before it. */
    simba_error failure;
};

/**
 * What open() does for a store with one connection: the store is made, its
 * hosts are those of the URL, and it is ready when its connection is; then all
 * who wait ask, and so watch again. The functions below are for the same table.
 *
 * @param ops  what it leaves out of what has a star is filled in
 */
SIMBA_API SIMBA_MUST_USE int simba_session_open(
    const simba_backend_config *config,
    const simba_session_ops *ops,
    simba_backend **backend,
    simba_error *error);
SIMBA_API void simba_session_detach(simba_backend *self);
SIMBA_API void simba_session_close(simba_backend *self);
SIMBA_API void simba_session_forked(simba_backend *self);
SIMBA_API bool simba_session_drive(simba_backend *self, int64_t until_ms);

/** What these are in the author's table: the beginning of its initializer. */
#define SIMBA_SESSION_TABLE                                                    \
    .abi = SIMBA_BACKEND_ABI, .submit = simba_session_submit,                  \
    .close = simba_session_close, .detach = simba_session_detach,              \
    .forked = simba_session_forked, .drive = simba_session_drive,              \
    .subscription = simba_session_subscription

/** An owner, of whom no times are known but perhaps one: by whichever clock it
 * was granted. */
SIMBA_API simba_owner simba_session_owner(const char *id,
                                          uint64_t token,
                                          int64_t acquired_at_ms);

/** What simba_backend_ops asks for. */
SIMBA_API void simba_session_submit(simba_backend *self,
                                    simba_request *request);
SIMBA_API void simba_session_subscription(simba_backend *self,
                                          const char *mutex,
                                          enum simba_subscription subscription);

/** Call for it in close(): requests that are open are completed, everything is
 * freed but the store itself. */
SIMBA_API void simba_session_fini(simba_session_store *self);

/** There is a session, or a connection again: go on. */
SIMBA_API void simba_session_ready(simba_session_store *self);

/** The session has ended, and with it every key: those who contend begin anew.
 * (A connection that was lost is told by the steps that fail with it.) */
SIMBA_API void simba_session_lost(simba_session_store *self);

/** No session can be made now: those who wait for one, and have had no effect
 * yet, are told why by unready(). Once it can, wake them: simba_wake(). */
SIMBA_API void simba_session_failed(simba_session_store *self);

/**
 * A step is done, whichever is under way.
 *
 * @param status    SIMBA_OK: `standing` says what came of it. SIMBA_EUNKNOWN:
 *                  it may have taken effect, or may yet. Any other: it surely
 *                  had none
 * @param standing  of a put or a look. If a put failed, but the key is there
 *                  and must go again, SIMBA_STANDS_BEHIND
 */
SIMBA_API void simba_entry_done(simba_entry *entry,
                                int status,
                                const simba_error *error,
                                enum simba_standing standing);

/** Who owns the mutex, or none, as the step of this entry has seen it: to be
 * told with the reply to its acquire, and while it owns the mutex with those to
 * renewals. Before simba_entry_done(). Copied. */
SIMBA_API void simba_entry_owner(simba_entry *entry, const simba_owner *owner);
/** What it was told; NULL: none. Pure. */
SIMBA_API simba_owner simba_told_owner_read(const simba_told_owner *told);

/** A renewal was answered: SIMBA_OK and `is_mine`, or not ours any more; or it
 * failed. SIMBA_EBUSY: it was not tried, and will be with the next. */
SIMBA_API void simba_entry_renewed(simba_entry *entry,
                                   int status,
                                   const simba_error *error,
                                   bool is_mine);
/** All entries of a renew() were answered. */
SIMBA_API void simba_session_renewed(simba_session_store *self);

/**
 * A look has told who is in the queue: all who wait for this mutex here and
 * stand as before need not look themselves for `fresh_ms`.
 *
 * @param stands  is the key of this entry there, behind the same one, which is
 *                still watched?
 */
SIMBA_API void simba_session_confirm(simba_session_mutex *mutex,
                                     bool (*stands)(const simba_entry *entry,
                                                    void *with),
                                     void *with);

/** The key of an entry has vanished without our doing; wakes its contender. */
SIMBA_API void simba_entry_vanished(simba_entry *entry);

/** One that it watched has gone: `is_unwatched`. Its contender is not woken by
 * this, but at the latest when those of this process before it have left. */
SIMBA_API void simba_entry_unwatched(simba_entry *entry);

/** When a step that it begins now is of no use any more. */
SIMBA_API int64_t simba_entry_until_ms(const simba_entry *entry);

/** Keep an entry's memory while a reply is due that names it, and let go. */
SIMBA_API void simba_entry_hold(simba_entry *entry);
SIMBA_API void simba_entry_drop(simba_entry *entry);

/** The mutex of this name; NULL: there is none, or with `is_wanted` no memory
 * to make it. */
SIMBA_API simba_session_mutex *simba_session_mutex_get(
    simba_session_store *self,
    const char *name,
    bool is_wanted);
/** All of them: the first with NULL, else the one after; NULL: no more. */
SIMBA_API simba_session_mutex *simba_session_mutex_next(
    const simba_session_store *self,
    const simba_session_mutex *mutex);
/** Its name. */
SIMBA_API const char *simba_session_mutex_name(
    const simba_session_mutex *mutex);
/** Forget it, if nobody needs it. */
SIMBA_API void simba_session_mutex_tidy(simba_session_store *self,
                                        simba_session_mutex *mutex);

/** A quorum write that was sent then has been answered now. Pure. */
SIMBA_API void simba_certainty_answered(simba_certainty *certainty,
                                        int64_t sent_ms,
                                        int64_t now_ms);
/** The lease of a request submitted then: what is left of the timeout, less
 * what two clocks at +-1 % may have disagreed about. 1: nothing is left. Pure.
 */
SIMBA_API int64_t simba_certainty_lease(const simba_certainty *certainty,
                                        int64_t since_ms);
/** When another quorum write would make it certain for longer. Pure. */
SIMBA_API int64_t simba_certainty_next(const simba_certainty *certainty);

/**
 * The other side of it, for stores in which others take over when they have
 * seen nothing new for a lease: what one who waits has seen of an owner, as two
 * numbers that change with every write of the owner's, of its key and of its
 * heartbeat. An owner is certain for its lease after it *sent* a write; it is
 * seen later than that, so that the lease from there on, by the boot clock of
 * who has seen it, is enough (S1). Whoever takes over does so on the condition
 * that both numbers are still the same.
 */
typedef struct simba_sighting {
    int64_t owner, beat; /**< beat: 0: there is none, -1: not seen */
    int64_t since_ms;    /**< so they are since then, at least */
} simba_sighting;

enum {
    SIMBA_SIGHTING_TEXT = 80,
    SIMBA_CLOCK_ID = 56,
    SIMBA_SIGHTING_MARGIN_MS = 10 /**< for times that were rounded */
};

/** This was seen now: if anything has changed, it counts from here. Pure. */
SIMBA_API void simba_sighting_note(simba_sighting *sighting,
                                   int64_t owner,
                                   int64_t beat,
                                   int64_t now_ms);
/** How long until an owner with this lease may be taken over from; 0 or less:
 * now. Pure. */
SIMBA_API int64_t simba_sighting_left_ms(const simba_sighting *sighting,
                                         int64_t owner,
                                         int64_t lease_ms,
                                         int64_t now_ms);
/** As a text to be kept in the store, under the name of the clock, so that a
 * later process of this boot counts on from it. Pure. */
SIMBA_API void simba_sighting_write(const simba_sighting *sighting,
                                    char text[SIMBA_SIGHTING_TEXT]);
/** Count on from what was kept; false: that was of something else. Pure. */
SIMBA_API bool simba_sighting_read(simba_sighting *sighting,
                                   const char *text,
                                   size_t length);
/** What names the boot clock of this machine, or of this namespace; "": that
 * cannot be told, and nothing should be kept by it. */
SIMBA_API void simba_clock_id(char id[SIMBA_CLOCK_ID]);

SIMBA_END_DECLS

#endif
