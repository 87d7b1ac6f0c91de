/* One open etcd store, as its files share it.
 *
 *   etcd.c      open, close, the table; the session and renewals
 *   settings.c  the URL
 *   txn.c       keys, owners, transactions
 *   request.c   acquire, look, remove: what follows from the replies
 *   queue.c     joining it, looking, watching; step.h is between them
 *   sighting.c  what was seen of an owner, and when it may be taken over from
 *   notify.c    the set of watches
 *   admin.c     read, list, break, doctor
 *   grpc.c      calls and streams over HTTP/2
 *   messages.c  pure: the messages of etcd's API
 *
 * Everything is touched inside the loop only. */
#ifndef SIMBA_BACKENDS_ETCD_ETCD_H
#define SIMBA_BACKENDS_ETCD_ETCD_H

#include <simba/sys/session_store.h>

#include "backends/etcd/grpc.h"
#include "backends/etcd/messages.h"
#include "kit/backoff.h"
#include "kit/log.h"
#include "kit/tls.h"
#include "kit/url.h"

struct simba__etcd;

/* --- settings.c ---------------------------------------------------------- */

struct simba__etcd_settings {
    struct simba__url url;
    struct simba__tls_settings tls;
    char *prefix; /* of all keys: "simba/" or "namespace/" */
};

int simba__etcd_settings_init(struct simba__etcd_settings *settings,
                              const char *rest,
                              simba_error *error);
void simba__etcd_settings_fini(struct simba__etcd_settings *settings);
char *simba__etcd_help(void);

/* --- txn.c: keys, owners, transactions ----------------------------------- */

/* Keys, behind the prefix; a transaction names them by their letters.
 *
 *   o/MUTEX            who owns it; no lease
 *   t/MUTEX            the last token, 16 hex digits; kept
 *   w/MUTEX            somebody waits; no lease
 *   q/MUTEX/WAITER     one who waits; lives with its session
 *   x/MUTEX/ATTEMPT    a tombstone; lives with its session
 *   v/MUTEX/CLOCK      what a host has seen of an owner; no lease
 *   b/MUTEX/TOKEN      a break, for the book; kept
 *   s/SESSION          the heartbeat of our session; S: of another; with it
 *   p                  the waiter before ours
 *
 * A mutex name is escaped as in a URL. */
enum {
    SIMBA__ETCD_KEY_SIZE = 1024,
    SIMBA__ETCD_LETTERS = 10,
    SIMBA__ETCD_CLOCK_ID = 56,
    SIMBA__ETCD_LEASE_ANY_MS = 16000 /* of an owner that nobody can read */
};

/* The value of o/MUTEX, and of a waiter. */
struct simba__etcd_owner {
    bool is_there, is_broken, is_unreadable;
    simba_attempt attempt;
    uint64_t token, session;
    int64_t lease_ms, acquired_at_ms;
    int64_t mod; /* revision of its last change */
    char id[SIMBA_ID_MAX + 1];
};

void simba__etcd_owner_write(const struct simba__etcd_owner *owner,
                             char value[SIMBA__ETCD_KEY_SIZE]);
/** One that is there and that nobody can read has the id "(unreadable)". */
struct simba__etcd_owner simba__etcd_owner_read(const simba__etcd_kv *kv);
simba_owner simba__etcd_owner_told(const struct simba__etcd_owner *owner);
/** The next after this one, and above what the request says, or NULL. */
uint64_t simba__etcd_next_token(uint64_t last, const simba_request *request);
/** The value of t/MUTEX; 0: none. */
uint64_t simba__etcd_token_read(const simba__etcd_kv *kv);

/* One transaction, and what its keys are made of. */
struct simba__etcd_transaction {
    struct simba__rpc rpc;
    simba__etcd_txn_reply reply;
    struct simba__etcd *self;
    const char *mutex;
    simba_attempt attempt; /* x */
    unsigned waiter;       /* q: its number, 0: none */
    int64_t create;        /* R: up to this; the waiter's create revision */
    int64_t session;       /* S */
    const char *before;    /* p */
    const char *book;      /* b */

    struct simba__text *text;
    char asked[2][16]; /* letters got by THEN, by ELSE */
    simba__etcd_kv got[SIMBA__ETCD_LETTERS];
    simba__etcd_list ranges[2]; /* R, Q or O; W */
};

void simba__etcd_key(const struct simba__etcd_transaction *txn,
                     char letter,
                     char key[SIMBA__ETCD_KEY_SIZE]);
/** For the key of a waiter: a number that no other of its mutex has, above the
 * one it had. */
unsigned simba__etcd_free_number(const simba_entry *entry);
void simba__etcd_begin(struct simba__etcd_transaction *txn);
void simba__etcd_if(struct simba__etcd_transaction *txn,
                    char letter,
                    int target,
                    int64_t revision);
void simba__etcd_if_value(struct simba__etcd_transaction *txn,
                          char letter,
                          int result,
                          const char *value);
void simba__etcd_do_put(struct simba__etcd_transaction *txn,
                        int branch,
                        char letter,
                        const char *value);
void simba__etcd_do_delete(struct simba__etcd_transaction *txn, char letter);
/** All keys of these letters; R, Q, O and W are ranges. */
void simba__etcd_do_get(struct simba__etcd_transaction *txn,
                        int branch,
                        const char *which);
/** Send it, by the deadline of a request, or with NULL so much later. */
void simba__etcd_submit(struct simba__etcd_transaction *txn,
                        const simba_request *request,
                        int64_t otherwise_ms,
                        void (*done)(struct simba__rpc *rpc,
                                     int status,
                                     const simba_error *error));
/** Read what was got; what is absent is 0. */
void simba__etcd_take(struct simba__etcd_transaction *txn);
const simba__etcd_kv *simba__etcd_got(struct simba__etcd_transaction *txn,
                                      char letter);
/** The first key of the next response. */
simba__etcd_kv simba__etcd_next_kv(simba__etcd_txn_reply *reply);
/** What names the boot clock of this machine, or of this namespace. */
void simba__etcd_clock_id(char id[SIMBA__ETCD_CLOCK_ID]);
/** The wall clock, for people and tokens. */
int64_t simba__etcd_wall_us(void);

/* --- the set of watches: notify.c ---------------------------------------- */

/* A key that is watched. Lives in its user's memory, zeroed first. */
struct simba__etcd_watched {
    /* Something has happened to the key, or may have: ask. `event` is NULL when
     * the watch has just been set, or set again after a gap. */
    void (*changed)(struct simba__etcd_watched *watch,
                    const simba__etcd_event *event);
    void *user;            /* for it */
    char *key;             /* NULL: not set */
    int64_t id;            /* of the stream */
    bool is_sure;          /* confirmed: what happens from now on is told */
    int64_t next_revision; /* of an observer, to go on at; 0: from now on */
    bool is_history;       /* it goes on where it was interrupted */
    struct simba__etcd_watched *next;
};

/** Watch a key, or do nothing if it is watched already; false: no memory. */
bool simba__etcd_watch_set(struct simba__etcd *self,
                           struct simba__etcd_watched *watch,
                           const char *key);
void simba__etcd_watch_clear(struct simba__etcd *self,
                             struct simba__etcd_watched *watch);
/** There is a connection: watch all anew. / There is none. */
void simba__etcd_watches_begin(struct simba__etcd *self);
void simba__etcd_watches_lost(struct simba__etcd *self);

/* --- what the store keeps; sighting.c ------------------------------------ */

/* What was seen of an owner, since when by our boot clock. */
struct simba__etcd_sighting {
    int64_t owner_mod, beat_mod; /* beat: -1: not seen, 0: absent */
    int64_t since_ms;
};

enum {
    SIMBA__ETCD_SIGHTING = 96, /* as text */
    SIMBA__ETCD_MARGIN_MS = 10 /* for times that were rounded */
};

/** It was seen just now: if anything has changed, it counts from here. */
void simba__etcd_sighting_note(struct simba__etcd_sighting *seen,
                               const struct simba__etcd_owner *owner,
                               int64_t beat_mod);
/** How long until the owner may be taken over from; 0 and less: now. */
int64_t simba__etcd_silent_in_ms(const struct simba__etcd_sighting *seen,
                                 const struct simba__etcd_owner *owner);
/** What is kept in the store, so that a later process of this boot counts on
 * from it. Reading: false: it was another owner or heartbeat. */
void simba__etcd_sighting_write(const struct simba__etcd_sighting *seen,
                                char value[SIMBA__ETCD_SIGHTING]);
bool simba__etcd_sighting_read(struct simba__etcd_sighting *seen,
                               const simba__etcd_kv *kept);

struct simba__etcd_mutex {
    simba_session_mutex base;
    struct simba__etcd_sighting sighting;
    struct simba__etcd_watched watch; /* for observers */
    uint64_t observed_token;          /* of the last owner they were told of */
    simba_loop *loop;
};

/* What a waiter watches: who is before it, the owner, its heartbeat. */
enum {
    SIMBA__ETCD_BEFORE,
    SIMBA__ETCD_OWNER,
    SIMBA__ETCD_BEAT,
    SIMBA__ETCD_WATCHES
};

struct simba__etcd_entry {
    simba_entry base;
    struct simba__etcd_transaction txn; /* one at a time */
    void (*taken)(struct simba__etcd_entry *entry);
    int64_t sent_ms; /* when it was sent */
    int rounds;
    bool is_doubted; /* one was not answered, and may come late */
    bool is_full;    /* the servers have no space */

    /* As seen last. */
    struct simba__etcd_owner owner;
    int64_t waiting_mod; /* of w; 0: nobody waits */
    bool is_queue_empty; /* nor does anybody if w is there */
    uint64_t last_token;
    bool has_no_token;     /* it was never granted */
    bool was_tried;        /* who only tries has looked at the owner */
    bool is_sighting_kept; /* and what it saw is kept */

    /* As an owner. */
    bool is_owner;
    struct simba__etcd_owner mine; /* as it was or will be written */
    int64_t since_ms; /* its key, or the heartbeat of all, was sent then */

    /* As a waiter. */
    char *before;          /* the key of the one before it, or NULL */
    int64_t before_create; /* its create revision, and whose it is */
    simba_attempt before_attempt;
    bool is_before_gone;  /* since the last look */
    bool is_second;       /* the one before is the first */
    int64_t free_ms;      /* since when the mutex is free; 0: it is not */
    simba_timer evicting; /* when the first has had its time */
    struct simba__etcd_watched watches[SIMBA__ETCD_WATCHES];
    bool is_settling; /* waits for its watches to be sure, then looks */
};

struct simba__etcd {
    simba_session_store base;
    struct simba__etcd_settings settings;
    struct simba__log log;
    struct simba__grpc grpc;
    simba__tls_context *tls_context; /* NULL: no TLS */
    bool is_closing;
    bool has_failed;                     /* since the connection was there */
    char clock_id[SIMBA__ETCD_CLOCK_ID]; /* by which sightings count */

    /* The session. */
    int64_t lease;    /* its id; 0: none */
    int64_t ttl_s;    /* as asked for */
    bool is_granting; /* one is being made */
    int64_t create;   /* of its key: identity of the session */
    struct simba__rpc session_call, keep_alive;
    union {
        simba__etcd_lease_reply granted;
        simba__etcd_none put;
    } session_reply;
    simba__etcd_lease_reply kept;
    simba_timer keeping;   /* when to keep the lease alive */
    simba_timer beginning; /* when to try again to make a session */
    struct simba__backoff backoff;
    simba_error failure;
    simba_request *closing; /* to be completed when the session has ended */

    /* Renewals. */
    struct simba__etcd_transaction renewal;
    int64_t renewal_sent_ms;

    /* Watches. */
    struct simba__rpc watch_stream;
    simba__etcd_watch_reply watch_reply;
    bool is_watching; /* the stream is there */
    struct simba__etcd_watched *watches;
    int64_t watch_id;
};

#define SIMBA__ETCD(store) ((struct simba__etcd *)(store))

/* --- etcd.c -------------------------------------------------------------- */

/** A reply has shown that the session is over. */
void simba__etcd_session_end(struct simba__etcd *self, const char *why);

/* --- request.c: the author's part of a session store --------------------- */

void simba__etcd_entry_put(simba_entry *entry);
void simba__etcd_entry_look(simba_entry *entry);
void simba__etcd_entry_remove(simba_entry *entry);
void simba__etcd_entry_forget(simba_entry *entry);

/* --- admin.c ------------------------------------------------------------- */

void simba__etcd_admin(simba_session_store *store, simba_request *request);
void simba__etcd_observe(simba_session_mutex *mutex);

#endif
