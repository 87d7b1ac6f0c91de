/* One open etcd store, as its files share it.
 *
 *   etcd.c      open, close, the table; the session and renewals
 *   settings.c  the URL
 *   acquire.c   acquire, look, remove: what follows from what was seen
 *   queue.c     who waits: its position, what it watches; observers
 *   crowd.c     several owners
 *   hand_over.c a successor, and an owner that is asked
 *   txn.c       keys, owners, transactions
 *   watches.c   the set of watches
 *   admin.c     read, list, break, doctor
 *   grpc.c      calls and streams over HTTP/2
 *   protobuf.c  pure: messages
 *
 * Everything is touched inside the loop only. */
#ifndef SIMBA_BACKENDS_ETCD_ETCD_H
#define SIMBA_BACKENDS_ETCD_ETCD_H

#include <simba/sys/session_store.h>

#include "backends/etcd/grpc.h"
#include "core/mutex_model.h"
#include "kit/backoff.h"
#include "kit/log.h"
#include "kit/servers.h"
#include "kit/session_admin.h"
#include "util/hash.h"

typedef struct simba__etcd simba__etcd;
typedef struct simba__etcd_watch simba__etcd_watch;
typedef struct simba__etcd_mutex simba__etcd_mutex;
typedef struct simba__etcd_entry simba__etcd_entry;
typedef struct simba__etcd_step simba__etcd_step;

enum { SIMBA__ETCD_NAMESPACE_MOST = 128 };

typedef struct simba__etcd_settings {
    struct simba__servers servers;
    /* Of all keys: "simba/" or "namespace/". */
    char prefix[SIMBA__ETCD_NAMESPACE_MOST + 2];
} simba__etcd_settings;

int simba__etcd_settings_init(simba__etcd_settings *settings,
                              const char *rest,
                              simba_error *error);
char *simba__etcd_help(void);

/* What an entry does next: transactions, and what ends a step. */
enum simba__etcd_action {
    GRANT,   /* take it: free, or of a silent owner; first, or nobody waits */
    REFRESH, /* it is ours: write it again, so that the lease runs from now */
    JOIN,    /* to the end of the queue */
    LOOK,    /* who owns, and where we are in the queue */
    OUST,    /* one of several owners, which is silent */
    EVICT,   /* the first had its time: it begins anew, if it lives */
    KEEP,    /* what who only tries has seen */
    REMOVE,  /* what we own, or what else may be there */
    NAME,    /* behind it: who is to follow us waits behind others, or not */
    WAIT,
    REFUSE,
    VANISH,
    FAIL
};

/* --- txn.c: keys, owners, transactions ----------------------------------- */

enum {
    SIMBA__ETCD_KEY_SIZE = 1024,
    SIMBA__ETCD_MEMBER = 48, /* "SLOTS-SESSION-N" */
    SIMBA__ETCD_ASKED = 10,
    SIMBA__ETCD_LEASE_ANY_MS = 16000 /* of an owner that nobody can read */
};

typedef struct simba__etcd_kv {
    simba__pb_bytes key, value;
    int64_t create, mod, version; /* 0: it is absent */
    bool is_gone;                 /* told by a watch */
} simba__etcd_kv;

/* The value of o/MUTEX; of a waiter with 0 where only an owner has something;
 * and for a lease how many owners it suffers; of w/MUTEX with the waiter's name
 * for an id. */
typedef struct simba__etcd_owner {
    bool is_there, is_broken, is_unreadable;
    bool is_crowd; /* there are several, each with a key of its own */
    uint32_t slots;
    simba_attempt attempt;
    uint64_t token, session;
    int64_t lease_ms, acquired_at_ms;
    int64_t create, mod;           /* revisions of its key, */
    char name[SIMBA__ETCD_MEMBER]; /* and the last part of that */
    char id[SIMBA_ID_MAX + 1];
    char asked[SIMBA_ID_MAX + 1];        /* to hand over to this one */
    char text[SIMBA__ETCD_KEY_SIZE / 2]; /* as it stands in the store */
} simba__etcd_owner;

/** One that is there and that nobody can read has the id "(unreadable)". */
simba__etcd_owner simba__etcd_owner_read(const simba__etcd_kv *kv);
/** One of several; its name begins with its slots. */
simba__etcd_owner simba__etcd_member_read(const simba__etcd_kv *kv);
simba_owner simba__etcd_owner_told(const simba__etcd_owner *owner);

/* The name of one who waits, "SESSION-N". Without a session: nobody. */
typedef struct simba__etcd_waiter {
    uint64_t session;
    unsigned number;
} simba__etcd_waiter;

/* What was got by a letter: a key, or a range of them. */
typedef struct simba__etcd_got {
    simba__etcd_kv kv; /* the first */
    simba__pb_bytes all;
    size_t here;   /* how many these are */
    int64_t count; /* of the range, beyond any limit too */
} simba__etcd_got;

/* One transaction, and what its keys are made of. It names them by letters:
 *
 *   o/MUTEX            who owns it; no lease
 *   m/MUTEX/MEMBER     one of several who own it: ours, g: of another; no lease
 *   t/MUTEX            the last token, 16 hex digits; kept
 *   w/MUTEX            somebody waits: who came last; no lease
 *   q/MUTEX/WAITER     one who waits, p: the one before, f: the first; with its
 *                      session
 *   x/MUTEX/ATTEMPT    a tombstone; lives with its session
 *   v/MUTEX/CLOCK      what a host has seen of an owner; no lease
 *   b/MUTEX/TOKEN      a break, for the book: "MS ID: WHY", "MS! …": at once;
 *                      kept
 *   s/SESSION          the heartbeat of our session, S: of another; with it
 *
 * A mutex name is escaped as in a URL. Ranges, which can only be got: R: the
 * newest three waiters of the mutex that are no newer than ours; N: how many
 * there are; Q: all, the oldest first; M: so of the members; A: all members,
 * owners and waiters of all mutexes, a page of them; B: the last breaks,
 * without a mutex those of all.
 */
typedef struct simba__etcd_txn {
    simba__rpc rpc;
    simba__etcd *self;
    const char *mutex;
    simba_attempt attempt;            /* x */
    unsigned number;                  /* q: 0: none */
    simba__etcd_waiter before, first; /* p, f */
    const char *member, *silent;      /* m, g: their names */
    bool is_whole;                    /* R: all of them, not three */
    int64_t create;                   /* of q; R: up to this */
    int64_t session;                  /* S */
    uint64_t token;                   /* b */
    const char *from;                 /* A: on from here; NULL: all */
    void (*done)(struct simba__etcd_txn *txn,
                 int status,
                 const simba_error *error);

    struct simba__text *text;
    char asked[2][SIMBA__ETCD_ASKED + 1]; /* letters got by THEN, by ELSE */

    /* The reply. */
    bool is_done; /* its conditions held */
    int64_t revision;
} simba__etcd_txn;

enum { THEN = 2, ELSE };

/** The key of a letter; what it returns is `key`. */
const char *simba__etcd_key(const simba__etcd_txn *txn,
                            char letter,
                            char key[SIMBA__ETCD_KEY_SIZE]);
/** Write a transaction, to be submitted: that of an entry's action; the
 * heartbeat, on the condition that all these keys are as we wrote them; a break
 * with a line in the book, which with `now` removes the key, and else marks it,
 * so that it cannot be renewed and stays for its lease; a look. */
void simba__etcd_write(simba__etcd_entry *entry,
                       enum simba__etcd_action action);
void simba__etcd_write_renewal(simba__etcd_txn *txn,
                               simba_entry *const *entries,
                               int count);
void simba__etcd_write_break(simba__etcd_txn *txn,
                             char letter,
                             simba__etcd_owner *owner,
                             const simba_request *request);
void simba__etcd_write_asked(simba__etcd_txn *txn, simba__etcd_owner *owner);
void simba__etcd_write_look(simba__etcd_txn *txn, const char *letters);
/** Send it, by the deadline of a request, or with NULL so much later; done() is
 * set. */
void simba__etcd_submit(simba__etcd_txn *txn,
                        const simba_request *request,
                        int64_t otherwise_ms);
/** What the reply has of a letter; its count is -1 if nothing was told. */
simba__etcd_got simba__etcd_got_of(const simba__etcd_txn *txn, char letter);
/** The next that was got, of the reply; the next key of what was got; false:
 * there is none. */
bool simba__etcd_next_got(simba__pb_bytes *reply, simba__etcd_got *got);
bool simba__etcd_next_kv(simba__pb_bytes *all, simba__etcd_kv *kv);
/** The last part of a key; "": it does not fit, for a server may say anything.
 */
void simba__etcd_key_name(const simba__etcd_kv *kv,
                          char name[SIMBA__ETCD_MEMBER]);
/** Who waits, by its name; nobody, if that is none. */
simba__etcd_waiter simba__etcd_waiter_read(const char *name);

/* --- the set of watches: watches.c --------------------------------------- */

/* What it is that is watched, and by whom. */
typedef struct simba__etcd_watch_kind {
    /* Something has happened to the key. Without a mod revision: it has just
     * been confirmed, and what is_gone is what happened before. */
    void (*changed)(simba__etcd_watch *watch, const simba__etcd_kv *kv);
    /* What its key is made of: thousands are watched, so none is kept. It stays
     * the same while the watch is set. */
    simba__etcd_txn (*names)(const simba__etcd_watch *watch);
    char letter;
} simba__etcd_watch_kind;

/* A key that is watched. Lives in its user's memory, zeroed first. */
struct simba__etcd_watch {
    const simba__etcd_watch_kind *kind; /* NULL: not set */
    int64_t id;                         /* of the stream */
    int64_t sure_revision; /* what happens later is told; 0: not confirmed */
    int64_t next_revision; /* where to go on; 0: from now on */
    bool has_gap;          /* it was set before, and was lost */
    bool is_history;       /* its user's: it goes on where it was interrupted */
};

/** Watch it; do nothing if it is watched already. NOT_SET: no memory. */
enum simba__etcd_set { NOT_SET, WAS_SET, IS_SET };
enum simba__etcd_set simba__etcd_watch_set(simba__etcd *self,
                                           simba__etcd_watch *watch,
                                           const simba__etcd_watch_kind *kind);
void simba__etcd_watch_clear(simba__etcd *self, simba__etcd_watch *watch);
/** There is a connection: watch all anew. / There is none. */
void simba__etcd_watches_begin(simba__etcd *self);
void simba__etcd_watches_lost(simba__etcd *self);

/* --- what the store keeps ------------------------------------------------ */

/* The heartbeat of a session that owns mutexes which are waited for here: it is
 * watched once for all of them. */
typedef struct simba__etcd_beat {
    struct simba__hash_link by_session; /* first */
    simba__etcd_watch watch;
    simba__etcd *self;
    int64_t session;
    int users;
    int64_t beat, told_ms; /* what was told last, and when; 0: nothing was */
} simba__etcd_beat;

/* Who is the first in the queue of a mutex, while that is free or it is
 * known. */
typedef struct simba__etcd_first {
    simba__etcd_mutex *mutex;
    simba__etcd_waiter who;
    int64_t create, since_ms; /* whom it was seen there by, and since when */
    simba_timer evicting;     /* when it has had its time */
} simba__etcd_first;

struct simba__etcd_mutex {
    simba_session_mutex base;
    simba_sighting sighting;
    uint64_t session;    /* that owned it last, as far as known */
    uint64_t last_token; /* as it was told last */
    bool has_no_token;   /* it was never granted */
    int waiting;         /* how many of this process are in the queue */
    int64_t ahead;       /* waiters that the last one found there, or fewer */
    simba__etcd_watch owner; /* for observers, and those near the head */
    uint64_t observed;       /* token of the last owner observers heard of */
    simba__etcd_beat *beat;  /* of the owner, for the first */
    simba__etcd_entry *head; /* of this process, if it is the first */
    int64_t free_ms;   /* since when it is free, as far as known; 0: not */
    int64_t freed_mod; /* when it became free, or an offer; 0: owned since */
    simba__etcd_first *first; /* NULL: not known, and not waited for */
    simba_sighting *seen;     /* of several owners */
    size_t seen_count;
};

/* Who waits and is named. */
typedef struct simba__etcd_heir {
    simba__etcd_owner who;
    int64_t before_create;        /* of p; 0: it is the first */
    char first[SIMBA_ID_MAX + 1]; /* who is the first */
} simba__etcd_heir;

/* A step of an entry: what it sends, and what it has seen. There while it is
 * under way, and kept by an owner and by who was offered the mutex. */
struct simba__etcd_step {
    simba__etcd_entry *entry;
    simba__etcd_txn txn;       /* one at a time */
    int sent;                  /* which it is */
    int rounds, refusals;      /* transactions, and grants in vain */
    bool is_full;              /* the servers have no space */
    char id[SIMBA_ID_MAX + 1]; /* whose it is */
    simba__etcd_owner owner;
    bool is_sighted;     /* with its heartbeat */
    int64_t crowd_mod;   /* of o, if there are several; 0: there are not */
    bool has_members;    /* and these were read */
    bool has_room;       /* for us, if nobody stands before us */
    bool is_undone;      /* there is a tombstone */
    bool is_vanished;    /* its key is gone */
    int64_t waiting_mod; /* of w; 0: nobody waits */
    bool is_queue_empty; /* nor does anybody if w is there */
    bool was_named;      /* who was granted last, and had it before its time */
    int64_t granted_mod; /* the revision in which that was */
    bool has_looked;     /* who only tries has looked at the owner */
    bool is_kept;        /* and what it saw is kept */
    int64_t heir_create; /* of p, behind which a successor waits; 0: none is */

    /* As an owner. */
    simba__etcd_owner mine; /* as it was or will be written */
    int64_t since_ms; /* its key, or the heartbeat of all, was sent then */
};

/* The one before an entry in the queue. */
typedef struct simba__etcd_before {
    simba__etcd_watch watch;
    simba__etcd_entry *entry;
    simba__etcd_waiter who;
    int64_t create; /* its create revision, and whose it is */
    simba_attempt attempt;
    int64_t gone;         /* in which revision it went; 0: not told */
    int64_t first_create; /* of the first in the queue; 0: not known */
} simba__etcd_before;

/* Thousands wait: what is here each of them has. */
struct simba__etcd_entry {
    simba_entry base; /* its position is the create revision of q */
    simba__etcd_step *step;
    simba__etcd_before *before; /* NULL: none, or not known */
    int64_t revision;           /* of its last reply */
    int ahead;                  /* how many are before it, or fewer */
    bool is_joined;             /* its q may be there */
    bool is_owner;
    bool has_order; /* it knows who is before it */
    bool is_owned;  /* somebody owned the mutex when it looked last */
};

struct simba__etcd {
    simba_session_store base;
    simba__etcd_settings settings;
    struct simba__log log;
    simba__grpc grpc;
    bool is_closing;
    bool has_failed;               /* since the connection was there */
    char clock_id[SIMBA_CLOCK_ID]; /* by which sightings count */

    /* The session. */
    int64_t lease;  /* its id; 0: none */
    int64_t ttl_s;  /* as asked for */
    int64_t create; /* of its key: identity of the session; 0: not made */
    simba__etcd_txn session; /* what makes it, looks for it, ends it */
    simba__rpc keep_alive;
    simba_timer keeping;   /* when to keep the lease alive */
    simba_timer beginning; /* when to make another session */
    struct simba__backoff backoff;
    simba_request *closing; /* to be completed when the session has ended */

    /* Renewals. */
    simba__etcd_txn renewal;

    /* Watches. */
    simba__rpc watch_stream;
    bool is_watching;              /* the stream is there */
    simba__etcd_watch **watches;   /* by their ids; NULL: there is room */
    size_t watch_room, watch_free; /* before this there is none */
    int64_t watch_uses;
    int unconfirmed;          /* how many were asked for and are not sure yet */
    struct simba__hash beats; /* by their sessions */
    simba_timer confirming;   /* when the next of them should be */
    int64_t refused_ms;       /* when one was refused last */
};

#define SIMBA__ETCD(store) ((simba__etcd *)(store))

static inline simba__etcd *simba__etcd_of(const simba__etcd_entry *entry)
{
    return SIMBA__ETCD(entry->base.store);
}

static inline simba__etcd_mutex *simba__etcd_mutex_of(
    const simba__etcd_entry *entry)
{
    return (simba__etcd_mutex *)entry->base.mutex;
}

/** What the keys of a mutex are made of. */
static inline simba__etcd_txn simba__etcd_names(const simba__etcd_mutex *mutex)
{
    return (simba__etcd_txn){.self = SIMBA__ETCD(mutex->base.store),
                             .mutex = simba_session_mutex_name(&mutex->base)};
}

static inline bool simba__etcd_is_mine(const simba__etcd_entry *entry,
                                       const simba__etcd_owner *owner)
{
    return owner->is_there &&
           simba__attempt_equal(owner->attempt, entry->base.attempt);
}

/** A reply has shown that the session is over. */
void simba__etcd_session_end(simba__etcd *self, const char *why);

/* --- queue.c: who waits -------------------------------------------------- */

/** The create revision of its key in the queue; 0: it has none. */
static inline int64_t simba__etcd_create_of(const simba__etcd_entry *entry)
{
    return (int64_t)entry->base.position;
}

void simba__etcd_leave_queue(simba__etcd_entry *entry);
/** Forget who is before it. */
void simba__etcd_clear_before(simba__etcd_entry *entry);
/** Watch what has to be watched. IS_SET: something is only now, or was missed,
 * so that it has to look once more. NOT_SET: no memory. */
enum simba__etcd_set simba__etcd_watch_queue(simba__etcd_entry *entry);
enum simba__etcd_set simba__etcd_watch_owner(simba__etcd_entry *entry);
/** It is free for longer than the first has time to come (S10). */
bool simba__etcd_is_overdue(const simba__etcd_mutex *mutex);
/** Is the first in the queue the one that was seen there? So long that it has
 * had its time, while the mutex was free? */
bool simba__etcd_knows_first(const simba__etcd_entry *entry);
bool simba__etcd_is_first_silent(const simba__etcd_entry *entry);
/** What was told: of the owner's heartbeat; of our own key by q, of the one
 * before by p, of the order by R; by a join that was done. */
void simba__etcd_note_sighting(simba__etcd_entry *entry, int64_t mod);
void simba__etcd_note_waiter(simba__etcd_entry *entry,
                             const simba__etcd_kv *kv);
void simba__etcd_note_before(simba__etcd_entry *entry,
                             const simba__etcd_kv *kv);
void simba__etcd_note_order(simba__etcd_entry *entry,
                            const simba__etcd_got *got);
void simba__etcd_note_joined(simba__etcd_entry *entry);
/** One has looked for all of this process who wait. */
void simba__etcd_confirm(simba__etcd_entry *entry);
void simba__etcd_observe(simba_session_mutex *mutex);

/* --- acquire.c: the author's part of a session store --------------------- */

void simba__etcd_entry_put(simba_entry *entry);
void simba__etcd_entry_look(simba_entry *entry);
void simba__etcd_entry_remove(simba_entry *entry);
void simba__etcd_entry_forget(simba_entry *entry);
/** Its session is over, and so is what is under way. */
void simba__etcd_entry_lose(simba_entry *entry);

/* --- crowd.c: several owners --------------------------------------------- */

/** The next of what was got by M; false: there is none. */
bool simba__etcd_next_member(simba__pb_bytes *all, simba__etcd_owner *who);
/** Fill in who owns it, and how many do. */
void simba__etcd_tell_owners(simba__etcd_entry *entry);
/** What was got by M: is there room, and who is in our way? */
void simba__etcd_note_members(simba__etcd_entry *entry,
                              const simba__etcd_got *got);

/* --- hand_over.c --------------------------------------------------------- */

/** It is our tenure, which is asked to hand over; noted in `mine`. */
bool simba__etcd_is_asked(simba__etcd_entry *entry, const simba__etcd_kv *kv);
/** Of what was got by Q who has this id, NULL: the first; p is set. */
bool simba__etcd_find_heir(simba__etcd_txn *txn,
                           const char *to,
                           simba__etcd_heir *heir);
/** Is it one, and is it ours? */
bool simba__etcd_is_offer(const simba__etcd_owner *owner);
bool simba__etcd_is_offered(const simba__etcd_entry *entry,
                            const simba__etcd_owner *owner);
simba__etcd_owner simba__etcd_offer(const char *to);
/** Whom an owner names that releases it; NULL: nobody. */
const char *simba__etcd_heir_of(const simba__etcd_entry *entry);
/** It was offered to that one, and who waits was read. False: that will do. */
bool simba__etcd_name_heir(simba__etcd_entry *entry);

/* --- admin.c ------------------------------------------------------------- */

void simba__etcd_admin(simba_session_store *store, simba_request *request);

#endif
