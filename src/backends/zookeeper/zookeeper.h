/* One open ZooKeeper store, as its files share it.
 *
 *   zookeeper.c  the table of functions, the way of an operation
 *   session.c    the session: made, connected, lost, made anew
 *   opener.c     the thread that makes and buries client handles
 *   room.c       mutexes and the latches of this process in them
 *   ask.c        operations of latches, their deadlines
 *   latch.c      one latch: what follows from what the flights bring
 *   backstop.c   one look for all who wait for a mutex
 *   flight.c     requests of a latch to the server
 *   landing.c    and what is answered to them
 *   renew.c      guards: one write for all renewals of a session
 *   watch.c      nodes that vanish, mutexes that are observed
 *   errand.c read.c list.c break.c  what needs no latch
 *   visit.c doctor.c init.c schema.c  what blocks, or touches nothing
 *   names.c owner.c guard.c turns.c hosts.c settings.c  pure: names, owners,
 *                deadlines, whose turn it is, which server, the URL
 *   fds.c        the client library's system calls
 *
 * Everything below is touched inside the loop only, unless it says otherwise.
 * Completions come on a thread of the client library, which enters the loop. */
#ifndef SIMBA_ZOOKEEPER_ZOOKEEPER_H
#define SIMBA_ZOOKEEPER_ZOOKEEPER_H

#include <simba/sys/backend.h>

#include "backends/zookeeper/hosts.h"
#include "backends/zookeeper/settings.h"

#define THREADED /* the blocking calls as well */
#include <zookeeper/zookeeper.h>

#include <pthread.h>

enum { SIMBA__ZK_BUCKETS = 256 };

/* Names in the tree: mutexes as path elements, attempts as latch nodes, and the
 * order of latches. Pure. */
enum {
    /* Every byte of a mutex name as %XX, and the NUL. */
    SIMBA__ZK_ESCAPED_SIZE = SIMBA_MUTEX_MAX_BYTES * 3 + 1,
    /* "_c_", a UUID, "-latch-", and the NUL. */
    SIMBA__ZK_PREFIX_SIZE = 3 + 36 + 7 + 1,
    /* ... and the ten digits, or eleven, that the server appends. */
    SIMBA__ZK_NODE_SIZE = SIMBA__ZK_PREFIX_SIZE + 11
};

/** Write the path element that stands for a mutex. Two mutexes never share one;
 * a name that ZooKeeper takes as it is stays as it is, for Curator's sake. */
void simba__zk_escape(const char *mutex, char escaped[SIMBA__ZK_ESCAPED_SIZE]);

/** The way back. False: no mutex of ours can have this name. */
bool simba__zk_unescape(const char *escaped,
                        char mutex[SIMBA_MUTEX_MAX_BYTES + 1]);

/** Write what the latch of an attempt begins with. */
void simba__zk_prefix(simba_attempt attempt,
                      char prefix[SIMBA__ZK_PREFIX_SIZE]);

/** What latches are ordered by; NULL: no latch. */
const char *simba__zk_sequence(const char *child);

/** The servers' counter of this mutex has passed its end: a latch with such a
 * number sorts before those that came earlier. */
bool simba__zk_is_wrapped(const char *child);

/** A latch's sequence number as a position in the queue: never 0. */
uint64_t simba__zk_place(const char *child);

/* Where a latch stands among the children of its mutex. */
struct simba__zk_standing {
    int lowest; /* indices of children; -1: none */
    int before; /* the one just before ours */
    int own;
    int latches; /* how many */
};

/** Look through the children for one that begins with `own`. */
void simba__zk_stand(char *const *children,
                     int count,
                     const char *own,
                     struct simba__zk_standing *standing);

/* The numbering of turns, for those who observe a mutex. Pure.
 *
 * The servers number the children of a node, and the lowest owns: so whose turn
 * it is, and whose it is next, is in their names. But a node that nobody uses
 * is removed, and in its next life the numbers begin again. This makes one
 * sequence of them, over all lives of which it is certain that there was no
 * other in between, and leaves a number out where it is not.
 *
 * What makes it certain is a watch, set anew each time it tells something:
 *
 *   set on a node, and told first that the node is gone: it had no more
 * children than when the watch was set; set on no node, and silent: there was
 * none; told of a new node: it is the next one, if no more than one mutex was
 * ever made since we looked. (A life needs a round of the servers' reaper to
 * end, and two rounds are further apart than a session lasts.) */
/* What is to be seen of a mutex. */
struct simba__zk_look {
    int64_t life;    /* czxid of its node; 0: it has none */
    uint64_t made;   /* children the node has ever had */
    uint64_t births; /* mutexes that were ever made, this one or others */
};

struct simba__zk_turns {
    uint64_t base; /* turns before this life */
    bool is_begun;
    struct simba__zk_look seen;  /* at the last look */
    bool is_watched;             /* since `found` was to be seen */
    bool is_calm;                /* no node at the last look, and none since */
    struct simba__zk_look found; /* when the watch was set; without births */
    struct simba__zk_look ended; /* the last life whose end is certain */
};

/** How many children a node has ever had, from what its Stat says: children
 * that came and went, and those that are there. */
uint64_t simba__zk_ever(int32_t changes, int32_t present);

/** The watch was set; this was to be seen then. */
void simba__zk_turns_watch(struct simba__zk_turns *turns,
                           const struct simba__zk_look *found);

/** The watch has told that something changed, or that the node is gone; or it
 * may have missed something. */
void simba__zk_turns_stir(struct simba__zk_turns *turns, bool is_gone);

/** We have looked. */
void simba__zk_turns_look(struct simba__zk_turns *turns,
                          const struct simba__zk_look *look);

/** The number of a position in the queue, places being counted from 1. */
uint64_t simba__zk_turn(const struct simba__zk_turns *turns, uint64_t position);

/** The number that will be given next. */
uint64_t simba__zk_turn_next(const struct simba__zk_turns *turns);

/* How long a session is certain: the deadline arithmetic of guards. Pure.
 *
 * A guard is an answered quorum write. It proves that the leader had not ended
 * the session when it was served, and no more: a follower passes on that it
 * heard from us only with its next answer to the leader's ping, every half
 * tick, and a session's timeout T is two ticks at least. So
 *
 *   - a session made at c is certain until c + T: its maker, the leader, began
 *     to count after c;
 *   - two guards, the second sent T/4 or more after the first was answered,
 *     make it certain until T after the first was *sent*: by the second one the
 *     leader has heard of the first.
 *
 *   s1      answered          s2     answered                     s1 + T
 *   |----------|--- T/4 or more ---|-----|---- certain --------------|
 */
enum { SIMBA__ZK_MARKS = 16 };

struct simba__zk_guard {
    int64_t timeout_ms; /* T */
    int64_t since_ms;   /* the session is certain until T after this */
    struct simba__zk_mark {
        int64_t sent_ms, heard_ms;
    } marks[SIMBA__ZK_MARKS]; /* answered guards, T/16 apart, newest last */
    int count;
};

/** A session with timeout T was asked for at `born_ms`, and there is one. */
void simba__zk_guard_init(struct simba__zk_guard *guard,
                          int64_t timeout_ms,
                          int64_t born_ms);

/** Whether an answer is the leader's, and was agreed upon by a quorum. Others
 * are given by the server we speak to, such as that it has too much to do. */
bool simba__zk_guard_counts(int rc);

/** A guard was answered, so that it counts. */
void simba__zk_guard_heard(struct simba__zk_guard *guard,
                           int64_t sent_ms,
                           int64_t heard_ms);

/**
 * The lease an operation sent at `sent_ms` is granted, counted from there: what
 * is left of T, less what two clocks at +-1 % can have disagreed about so far.
 * 1 when nothing is left.
 */
int64_t simba__zk_guard_lease(const struct simba__zk_guard *guard,
                              int64_t sent_ms);

/** When another guard would make the session certain for longer. */
int64_t simba__zk_guard_next(const struct simba__zk_guard *guard);

struct simba__zk;
struct simba__zk_room;

/* What is known of a latch node. */
enum simba__zk_place {
    SIMBA__ZK_ABSENT,   /* there is none */
    SIMBA__ZK_DOUBTFUL, /* a create was not answered: there may be one */
    SIMBA__ZK_STANDING  /* it is there, under this name */
};

/* What a latch waits for. */
enum simba__zk_flight {
    SIMBA__ZK_NOTHING,
    SIMBA__ZK_CREATE,   /* the node, and who else is there */
    SIMBA__ZK_LOOK,     /* a guard, and who else is there */
    SIMBA__ZK_FIND,     /* a guard, and whether the node is there after all */
    SIMBA__ZK_IDENTIFY, /* whose the found node is */
    SIMBA__ZK_LINE,     /* the watch on the one before, and who owns */
    SIMBA__ZK_REMOVE
};

/* One attempt of this process: its node, its operations. */
struct simba__zk_latch {
    struct simba__zk_latch *next; /* in its room */
    struct simba__zk *self;
    struct simba__zk_room *room; /* NULL: forgotten, only completions left */
    int references;              /* the room's, and one for each completion */
    simba_attempt attempt;
    char id[SIMBA_ID_MAX + 1];
    char prefix[SIMBA__ZK_PREFIX_SIZE];

    enum simba__zk_place position;
    char node[SIMBA__ZK_NODE_SIZE];
    int64_t czxid, ctime_ms;
    bool is_doomed;   /* to be removed, whatever it takes */
    bool is_watched;  /* our own node has a watch */
    bool was_granted; /* the tenure was told */

    simba_request *asking, *parting, *renewing;
    struct simba__zk_latch *next_renewing; /* in the queue of renewals */
    bool is_queued;
    int64_t asked_ms, renewed_ms; /* when they were submitted */
    int64_t lease_ms;             /* as asked for */
    int64_t lapses_ms;            /* unless it is asked for again */
    int64_t confirmed_ms;         /* it stood behind the same one; 0: never */
    simba_timer deadline;
    simba_timer watching; /* when to watch our own node */

    enum simba__zk_flight flight;
    int calls;  /* completions the flight waits for */
    int rounds; /* flights for this operation */
    int64_t sent_ms;
    int write_rc, read_rc, owner_rc;
    bool is_lowest, is_second;
    bool is_barred;        /* we may not make the parent that is missing */
    bool is_blind;         /* the one before went; nobody is watched instead */
    char *before, *lowest; /* nodes */
    simba_owner owner;
};

/* One mutex. */
struct simba__zk_room {
    struct simba__zk_room *next; /* in its bucket */
    struct simba__zk_latch *latches;
    bool is_observed;
    bool is_watched; /* its children, for those who observe */
    bool is_made;    /* its node was there when we looked last */
    bool is_making;  /* one latch makes it; the others wait for that */
    struct simba__zk_turns turns;   /* for those who observe */
    struct simba__zk_latch *looker; /* looks for all who ask in case */
    int holds;                      /* it is not to be forgotten now */
    simba_owner owner;              /* as the last of them has seen it */
    char *mutex;
    char *path;
};

struct simba__zk_tomb {
    struct simba__zk_tomb *next;
    simba_attempt attempt;
    int64_t until_ms;
};

struct simba__zk_errand;

struct simba__zk {
    simba_backend base;
    struct simba__zk_settings settings;
    simba_log_fn log;
    void *log_user;

    /* The session. */
    zhandle_t *handle;   /* NULL: none */
    uint64_t generation; /* of the session: what an older one brings is stale */
    bool is_connected;
    bool was_connected; /* ever: there is an ensemble at this address */
    bool is_cut_off;    /* there was a connection, and it was lost */
    int unheard;        /* connections since the last answer */
    bool is_closing;
    int64_t asked_ms; /* T as asked for; 0: nothing yet */
    int64_t born_ms;
    struct simba__zk_guard guard;
    int64_t guarded_ms; /* when the newest guard was sent */
    int guards;         /* under way */
    struct simba__zk_latch *renewals, **last_renewal; /* wait for one */
    simba_timer guarding; /* the next guard that nobody asked for */
    simba_timer retrying; /* the next try to make a session */
    simba_timer worrying; /* nobody answers: say so */
    simba_timer hurrying; /* a server does not answer: try another */
    unsigned first_host;  /* to try */
    unsigned tried;       /* in vain, since there was a connection */
    simba_error trouble;  /* why there is no connection */

    /* The opener; started inside the loop. */
    pthread_t opener;
    bool has_opener; /* to be joined */
    bool is_opening; /* it runs */
    bool wants_session;
    bool is_making;  /* it makes a session, and will tell */
    zhandle_t **old; /* to be closed by it */
    int old_count;

    pthread_t visitor; /* an admin's */
    bool has_visitor;  /* to be joined */
    bool is_visited;   /* it runs */

    struct simba__zk_room *rooms[SIMBA__ZK_BUCKETS];
    int latch_count;
    bool is_base_made; /* /simba was there when we looked last */
    struct simba__zk_tomb *tombs;
    struct simba__zk_errand *parked; /* wait for a connection */
};

/* --- everywhere ---------------------------------------------------------- */

void simba__zk_log(const struct simba__zk *self,
                   enum simba_log_level level,
                   const char *format,
                   ...) __attribute__((format(printf, 3, 4)));

/** The connection or the session went: the outcome is unknown. */
bool simba__zk_is_lost(int rc);

/** Describe a failure; returns its status. */
int simba__zk_fail(const struct simba__zk *self, int rc, simba_error *error);

/** Describe why what had no effect was not answered; returns its status. */
int simba__zk_unanswered(const struct simba__zk *self, simba_error *error);

/** Nodes we make: who may do what. */
const struct ACL_vector *simba__zk_acl(const struct simba__zk *self);

/** Whose a latch of ours is, and whose one with this data is. */
simba_owner simba__zk_owner_self(const struct simba__zk_latch *latch);
simba_owner simba__zk_owner_of(const char *data,
                               int length,
                               const struct Stat *stat);

/* --- session.c, opener.c ------------------------------------------------- */

/** See to it that there is a session fit for an operation; SIMBA_EINVAL when
 * its times are not those of the session's latches. */
int simba__zk_session_want(struct simba__zk *self,
                           const simba_request *request,
                           simba_error *error);

/** The opener has made a handle; NULL: it could not, for `cause`. */
void simba__zk_session_made(struct simba__zk *self,
                            zhandle_t *handle,
                            int64_t born_ms,
                            int cause);

/** For the client library: state of the session. */
void simba__zk_on_session(zhandle_t *handle,
                          int type,
                          int state,
                          const char *path,
                          void *context);

/** Look at what was answered in this session. False: that it is no more; then
 * it has been dropped. */
bool simba__zk_session_lives(struct simba__zk *self, int rc);

/** How long an operation waits that came at `since_ms`: to its deadline, but
 * not so long for the first connection of all. Who has never been answered most
 * likely has the wrong address, and who asks wants to know. */
int64_t simba__zk_waits_until(const struct simba__zk *self,
                              const simba_request *request,
                              int64_t since_ms);

/** Give up the session, if there is one; the opener closes it. */
void simba__zk_session_drop(struct simba__zk *self);

/** Make a session, and bury old ones, on another thread. */
void simba__zk_opener_start(struct simba__zk *self);

/** Wait for it to end. Outside the loop. */
void simba__zk_opener_join(struct simba__zk *self);

void simba__zk_session_detach(struct simba__zk *self);

/* --- room.c -------------------------------------------------------------- */

/** The room of a mutex; made when absent; NULL: no memory. */
struct simba__zk_room *simba__zk_room(struct simba__zk *self,
                                      const char *mutex);

/** The room with this path; NULL: none. */
struct simba__zk_room *simba__zk_room_at(struct simba__zk *self,
                                         const char *path);

/** Forget it, if nobody needs it. */
void simba__zk_room_tidy(struct simba__zk *self, struct simba__zk_room *room);

struct simba__zk_latch *simba__zk_latch_find(const struct simba__zk_room *room,
                                             simba_attempt attempt);
struct simba__zk_latch *simba__zk_latch_make(struct simba__zk *self,
                                             struct simba__zk_room *room,
                                             const simba_request *request);
void simba__zk_latch_forget(struct simba__zk_latch *latch);
void simba__zk_latch_unref(struct simba__zk_latch *latch);

/** Call for every latch; it may forget the latch it is given. */
void simba__zk_latches_each(struct simba__zk *self,
                            void (*visit)(struct simba__zk_latch *latch));

void simba__zk_room_each(struct simba__zk *self,
                         const struct simba__zk_room *room,
                         void (*visit)(struct simba__zk_latch *latch));

/** Of path and node; to be freed. */
char *simba__zk_join(const char *path, const char *node);

/* --- ask.c, latch.c, renew.c
 * ---------------------------------------------------- */

void simba__zk_acquire(struct simba__zk *self, simba_request *request);
void simba__zk_part(struct simba__zk *self, simba_request *request);
void simba__zk_renew(struct simba__zk *self, simba_request *request);

/** Go on, if there is something to do and nothing under way. */
void simba__zk_latch_go(struct simba__zk_latch *latch);

/** What the latch waited for has come back. */
void simba__zk_latch_landed(struct simba__zk_latch *latch);

/** Set the timer for the earliest deadline of its operations. */
void simba__zk_latch_arm(struct simba__zk_latch *latch);

/** Its session is gone, and with it the node. */
void simba__zk_latch_lost(struct simba__zk_latch *latch);

/** Complete an operation, if there is one, and forget it. */
void simba__zk_finish(simba_request **slot,
                      int status,
                      const simba_error *error);
void simba__zk_give_up(simba_request **slot, int status, const char *why);

/** Forget a latch that is not there, and of which nothing is asked. */
void simba__zk_latch_tidy(struct simba__zk_latch *latch);

/** Answer a renewal: not yours, not any more. */
void simba__zk_renew_refuse(struct simba__zk_latch *latch);

/** Send what renewals wait, as one guard. */
void simba__zk_guard_flush(struct simba__zk *self);

/** See to it that a guard comes in time, while there are latches. */
void simba__zk_guard_schedule(struct simba__zk *self);

/* --- backstop.c ---------------------------------------------------------- */

/* How a latch that is to be asked about finds out. */
enum simba__zk_backstop {
    SIMBA__ZK_LOOKS,    /* itself */
    SIMBA__ZK_WAITS,    /* another looks right now */
    SIMBA__ZK_CONFIRMED /* another has looked: it waits on, behind `owner` */
};

enum simba__zk_backstop simba__zk_backstop(struct simba__zk_latch *latch);

/** Who is there, as this latch has heard. */
void simba__zk_backstop_heard(struct simba__zk_latch *latch,
                              const struct String_vector *children);

/** If it looks for others: their room, which is kept until it is freed. */
struct simba__zk_room *simba__zk_backstop_hold(struct simba__zk_latch *latch);

/** If it looks no more, those who waited for that go on. NULL is a no-op. */
void simba__zk_backstop_free(struct simba__zk_latch *latch,
                             struct simba__zk_room *room);

/* --- flight.c ------------------------------------------------------------ */

void simba__zk_fly(struct simba__zk_latch *latch, enum simba__zk_flight flight);

/** Watch our own node, soon. A mutex held for a moment is spared that. */
void simba__zk_watch_own(struct simba__zk_latch *latch);

/* --- watch.c ------------------------------------------------------------- */

void simba__zk_on_node(zhandle_t *handle,
                       int type,
                       int state,
                       const char *path,
                       void *context);
void simba__zk_subscription(simba_backend *base,
                            const char *mutex,
                            enum simba_subscription subscription);

/** A latch has left its line: who has not looked since the one before it went
 * may be the next. */
void simba__zk_look_behind(struct simba__zk *self, struct simba__zk_room *room);

/** Watch every observed mutex anew: there is a new session. */
void simba__zk_observe_all(struct simba__zk *self);

/** The connection is lost: what the watches tell now may be half of it. */
void simba__zk_doubt_watches(struct simba__zk *self);

/** The session is gone, and its watches with it. */
void simba__zk_unwatch_all(struct simba__zk *self);

/* --- errands: operations without a latch --------------------------------- */

/** Start what the operation says, now or when there is a connection. */
void simba__zk_errand(struct simba__zk *self, simba_request *request);
void simba__zk_errands_go(struct simba__zk *self);

/** Init as commands of the servers' shell; to be freed. */
char *simba__zk_schema(const simba_backend_config *config,
                       bool upgrade,
                       simba_error *error);

/** Make a client handle, quietly, its threads deaf to signals. It tries the
 * hosts in this order. */
zhandle_t *simba__zk_handle_make(const char *hosts,
                                 int64_t timeout_ms,
                                 watcher_fn watcher,
                                 void *context);

/** In a forked child: close what the client library has open. */
void simba__zk_fds_close(void);

/* The client library by its blocking calls, for what runs on a thread of its
 * own: the doctor, and the floor of a benchmark. */
struct simba__zk_plain {
    zhandle_t *handle;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t timeout_ms;
    int state;  /* of the session */
    int events; /* watches that have fired */
};

/** Connect; false: not by then (boot clock), and there is nothing to close. */
bool simba__zk_plain_open(struct simba__zk_plain *plain,
                          const struct simba__zk_settings *settings,
                          int64_t timeout_ms,
                          int64_t until_ms);
void simba__zk_plain_close(struct simba__zk_plain *plain);

/** Wait until `events` watches have fired; false: not by then. */
bool simba__zk_plain_await(struct simba__zk_plain *plain,
                           int events,
                           int64_t until_ms);

/** A watch that counts, with the plain as its context. */
void simba__zk_plain_watch(zhandle_t *handle,
                           int type,
                           int state,
                           const char *path,
                           void *context);

/* One request of a latch, from sending (flight.c) to landing (landing.c). */
/* One request under way. */
struct simba__zk_call {
    struct simba__zk_latch *latch;
    uint64_t generation;
    zoo_op_result_t result; /* of a multi */
};

/** A request about to be sent, with a hold on the latch; NULL: no memory. */
struct simba__zk_call *simba__zk_call_depart(struct simba__zk_latch *latch);

/** It could not be sent. NULL is a no-op. */
void simba__zk_call_stay(struct simba__zk_call *call);

/** Enter the loop with an answer. NULL: it is of an earlier session, or says
 * that this one is over, and the loop is left again. */
struct simba__zk_latch *simba__zk_call_arrive(const void *data, int rc);

/** Let go of the latch, and leave the loop. */
void simba__zk_call_leave(struct simba__zk_latch *latch);

/* Completions of a flight. */
void simba__zk_on_parent(int rc, const char *path, const void *data);
void simba__zk_on_created(int rc,
                          const char *path,
                          const struct Stat *stat,
                          const void *data);
void simba__zk_on_guarded(int rc, const void *data);
void simba__zk_on_identified(int rc, const struct Stat *stat, const void *data);
void simba__zk_on_removed(int rc, const void *data);
void simba__zk_on_children(int rc,
                           const struct String_vector *children,
                           const void *data);
void simba__zk_on_before(int rc,
                         const char *value,
                         int length,
                         const struct Stat *stat,
                         const void *data);
void simba__zk_on_owner(int rc,
                        const char *value,
                        int length,
                        const struct Stat *stat,
                        const void *data);

/* Operations without a latch: read, list, break, doctor. An errand waits for a
 * connection, makes requests in rounds, and answers once. One whose connection
 * is lost begins again on the next. */
/* One node that is looked at: a latch, or a mutex in a list. */
struct simba__zk_item {
    char *path;
    int rc;
    simba_owner owner; /* of a latch: who waits or owns there */
    int latches;       /* of a mutex */
    char *lowest;      /* of a mutex: path of its lowest latch */
};

struct simba__zk_errand {
    struct simba__zk_errand *next; /* while parked */
    struct simba__zk *self;
    simba_request *request; /* NULL: answered; only completions are left */
    uint64_t generation;
    int64_t since_ms; /* when it came */
    simba_timer deadline;
    bool is_parked;
    bool is_lost; /* by a connection: it begins again */
    int calls;    /* completions it waits for */
    int rounds;   /* how often it began again */
    int strikes;  /* break: deletes sent, of which one may have been it */
    void (*step)(struct simba__zk_errand *errand, int rc);
    char *path;
    struct simba__zk_item *items;
    int count;
    bool is_numbered;           /* the look tells of births as well */
    struct simba__zk_look look; /* at `path` */
};

/** Begin, or begin again. */
void simba__zk_read_start(struct simba__zk_errand *errand);
void simba__zk_list_start(struct simba__zk_errand *errand);
void simba__zk_break_start(struct simba__zk_errand *errand);

/** End a tenure, if it is asked for rightly. */
void simba__zk_break(struct simba__zk *self, simba_request *request);

/** Doctor and init: have a thread do it, which completes the operation. */
void simba__zk_visit(struct simba__zk *self, simba_request *request);

/** Wait for the thread to end. */
void simba__zk_visit_join(struct simba__zk *self);

/** Answer; after that the errand is gone. */
void simba__zk_errand_done(struct simba__zk_errand *errand);
void simba__zk_errand_fail(struct simba__zk_errand *errand, int rc);

/** Ask for the children of a node, item `index`, or of the errand's path when
 * it is -1: `heard` gets them. False: not sent. */
bool simba__zk_errand_children(struct simba__zk_errand *errand,
                               int index,
                               void (*heard)(struct simba__zk_errand *errand,
                                             int index,
                                             const struct String_vector *list));

/** Ask for the latches of the errand's mutex: they become its items, in the
 * order of the line. False: not sent, or too often. */
bool simba__zk_errand_line(struct simba__zk_errand *errand);

/** Ask for the data of item `index`: fills its owner and rc. */
bool simba__zk_errand_data(struct simba__zk_errand *errand, int index);

/** Delete a node; what came of it is the rc of the next step. */
bool simba__zk_errand_delete(struct simba__zk_errand *errand, const char *path);

/** Make room for so many items; false: no memory. */
bool simba__zk_errand_items(struct simba__zk_errand *errand, int count);

/* What an admin asks that takes a while: a thread of its own, with a session of
 * its own, and the client library's blocking calls. */
struct simba__zk_visit {
    struct simba__zk *self; /* of which only the settings are touched */
    simba_request *request;
    int64_t connect_until_ms;
    struct simba__zk_plain plain;
};

/** doctor.c: what these servers can promise. init.c: make what is missing. Both
 * add findings, and return a status. On the visit's thread, connected. */
int simba__zk_examine(struct simba__zk_visit *visit, simba_error *error);
int simba__zk_init(struct simba__zk_visit *visit, simba_error *error);

#endif
