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
 *   visit.c doctor.c init.c schema.c floor.c  what blocks, or touches nothing
 *   names.c owner.c guard.c turns.c hosts.c settings.c  pure: names, owners,
 *                deadlines, whose turn it is, which server, the URL
 *   fds.c        the client library's system calls
 *
 * Everything below is touched inside the loop only, unless it says otherwise.
 * Completions come on a thread of the client library, which enters the loop. */
#ifndef SIMBA_ZOOKEEPER_INSTANCE_H
#define SIMBA_ZOOKEEPER_INSTANCE_H

#include <simba/sys/backend.h>

#include "backends/zookeeper/guard.h"
#include "backends/zookeeper/hosts.h"
#include "backends/zookeeper/names.h"
#include "backends/zookeeper/settings.h"
#include "backends/zookeeper/turns.h"

#include <zookeeper/zookeeper.h>

#include <pthread.h>

enum { SIMBA__ZK_BUCKETS = 256 };

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

int simba__zk_floor_open(const simba_backend_config *config,
                         const char *mutex,
                         simba_floor **floor,
                         simba_error *error);
int simba__zk_floor_step(simba_floor *floor,
                         enum simba_floor_step step,
                         simba_error *error);
void simba__zk_floor_close(simba_floor *floor);

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

#endif
