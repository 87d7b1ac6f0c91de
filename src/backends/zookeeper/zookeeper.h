/* One open ZooKeeper store, as its files share it.
 *
 *   zookeeper.c    open, close, the table; renewals; errors, owners
 *   session.c      one session: greeting, requests in batches, pings
 *   messages.c     pure: the bytes of ZooKeeper's requests and replies
 *   request.c      put, look, remove: what follows from the replies
 *   step.c         what a latch has asked for; one list for all; who is before
 *   node_names.c   pure: names of nodes, the queue, serial numbers
 *   notify.c       watches, wake-ups, observers
 *   admin.c        read, list, break
 *   doctor.c       what this ensemble can promise
 *   init.c         making /simba, by requests or as commands
 *   settings.c     the URL
 *
 * Everything is touched inside the loop only. */
#ifndef SIMBA_ZOOKEEPER_ZOOKEEPER_H
#define SIMBA_ZOOKEEPER_ZOOKEEPER_H

#include <simba/sys/connection.h>
#include <simba/sys/session_store.h>

#include "backends/zookeeper/messages.h"
#include "kit/backoff.h"
#include "kit/log.h"
#include "kit/servers.h"
#include "kit/session_admin.h"

typedef struct simba__zk simba__zk;
typedef struct simba__zk_session simba__zk_session;
typedef struct simba__zk_batch simba__zk_batch;
typedef struct simba__zk_latch simba__zk_latch;
typedef struct simba__zk_admin simba__zk_admin;
typedef void simba__zk_admin_step(simba__zk_admin *admin);

/* --- settings.c ---------------------------------------------------------- */

/* Who may do what with the nodes we make. */
enum simba__zk_acl {
    SIMBA__ZK_ACL_OPEN,    /* anybody everything, as Curator's */
    SIMBA__ZK_ACL_CREATOR, /* only who has our name and password */
    SIMBA__ZK_ACL_SHARED   /* the same, but anybody may read */
};

typedef struct simba__zk_settings {
    struct simba__servers servers; /* its path is the chroot, "" or "/a/b" */
    char *base; /* where the mutexes are: chroot and "/simba" */
    char *auth; /* "user:password", or NULL */
    int acl;    /* enum simba__zk_acl */
} simba__zk_settings;

int simba__zk_settings_init(simba__zk_settings *settings,
                            const char *rest,
                            simba_error *error);

/** Free what it holds; copes with a half-read one. */
void simba__zk_settings_fini(simba__zk_settings *settings);
/** As simba_backend_ops has it. */
char *simba__zk_help(void);

/* --- node_names.c: pure -------------------------------------------------- */

enum {
    /* Every byte of a mutex name as %XX, and the NUL. */
    SIMBA__ZK_ESCAPED_SIZE = SIMBA_MUTEX_MAX_BYTES * 3 + 1,
    /* "_c_", a UUID, "-n" and a limit, "-latch-", and the NUL. */
    SIMBA__ZK_PREFIX_SIZE = 3 + 36 + 12 + 7 + 1,
    /* The ten digits, or eleven, that the server appends, and the NUL. */
    SIMBA__ZK_SEQUENCE_SIZE = 11 + 1,
    SIMBA__ZK_NODE_SIZE = SIMBA__ZK_PREFIX_SIZE + 11
};

/** Write the path element that stands for a mutex. Two mutexes never share one;
 * a name that ZooKeeper takes as it is stays as it is, for Curator's sake. */
void simba__zk_escape(const char *mutex, char escaped[SIMBA__ZK_ESCAPED_SIZE]);

/** The way back. False: no mutex of ours can have this name. */
bool simba__zk_unescape(const char *escaped,
                        char mutex[SIMBA_MUTEX_MAX_BYTES + 1]);

/** Write what the latch node of an attempt begins with. */
void simba__zk_prefix(simba_attempt attempt,
                      uint32_t slots,
                      char prefix[SIMBA__ZK_PREFIX_SIZE]);

/** What latch nodes are ordered by; NULL: no latch. */
const char *simba__zk_sequence(const char *node);
/** How many may own beside a latch, itself included; 0: it alone. */
uint32_t simba__zk_slots(const char *node);

/** A latch's sequence number as a position in the queue: never 0, and of 33
 * bits at most; and the way back, as servers write it. */
uint64_t simba__zk_position(const char *node);
void simba__zk_sequence_of(uint64_t position,
                           char sequence[SIMBA__ZK_SEQUENCE_SIZE]);

/* The latches of a mutex, in their order. */
typedef struct simba__zk_queue {
    char **nodes; /* and behind them other children */
    int count;
    int owned;      /* so many of the first own it */
    uint32_t slots; /* as in simba_crowd */
    bool is_plain;  /* all are exclusive and were numbered by servers, before
                     * their counter wrapped */
} simba__zk_queue;

/** Bring the children of a mutex into their order. They stay the caller's. */
void simba__zk_queue_read(simba__zk_queue *queue, char **children, int count);
/** Where the latch with a position is; -1: nowhere. */
int simba__zk_find(const simba__zk_queue *queue, uint64_t position);
/** Where one is that begins so: the last that was made, for a former session of
 * ours may have left one, too; -1: nowhere. */
int simba__zk_find_prefix(const simba__zk_queue *queue, const char *prefix);
/** Whom a latch has to watch that does not own. */
simba_crowd_watched simba__zk_watched(const simba__zk_queue *queue, int own);

/* What is to be seen of the node of a mutex. */
typedef struct simba__zk_view {
    int64_t czxid;         /* 0: there is no node */
    uint64_t latches_made; /* children the node has ever had */
    uint64_t mutexes_made; /* nodes of mutexes there ever were, of all */
} simba__zk_view;

/* Serial numbers of latches, by which observers see whether they missed one.
 *
 * The servers number the children of a node, and the lowest owns: so the names
 * tell who owns and who is next. But a node that nobody uses is removed, and
 * when it is made again the numbers begin again. This makes one sequence of
 * them over all nodes of the mutex of which it is certain that there was no
 * other in between, and leaves a number out where it is not.
 *
 * What makes it certain is a watch, set anew each time it fires:
 *
 *   - set on a node, and the first event is that the node is gone: the node had
 *     no more children than when the watch was set;
 *   - set on no node, and silent: there was none;
 *   - told of a new node: it is the next one, if no more than one mutex was
 *     ever made since the last read. (The servers' reaper needs a round to
 *     remove a node, and two rounds are further apart than a session lasts.) */
typedef struct simba__zk_serials {
    uint64_t base; /* of this node: to be added to positions */
    bool is_begun;
    simba__zk_view seen;  /* by the last read */
    bool is_watched;      /* since `found` was to be seen */
    bool is_calm;         /* no node at the last read, and none since */
    simba__zk_view found; /* when the watch was set; latches only */
    simba__zk_view ended; /* the last node whose end is certain */
} simba__zk_serials;

/** How many children a node has ever had, from what its Stat says: changes
 * count those that came and those that went. */
uint64_t simba__zk_children_made(const simba__zk_stat *stat);

/** The watch was set; this was to be seen then. */
void simba__zk_serials_watched(simba__zk_serials *serials,
                               const simba__zk_view *found);

/** The watch fired: something changed, or the node is gone; or the watch may
 * have missed something. */
void simba__zk_serials_changed(simba__zk_serials *serials, bool is_gone);

/** A read has seen this. */
void simba__zk_serials_read(simba__zk_serials *serials,
                            const simba__zk_view *view);

/* --- session.c ----------------------------------------------------------- */

/* Requests that are sent together, and answered in order. Zeroed first. */
struct simba__zk_batch {
    simba_exchange exchange; /* first */
    simba__zk *self;
    simba__zk_session *session; /* over which it was sent */
    void *user;
    struct simba__text packets;
    size_t begin;     /* of the last packet */
    const char *data; /* of the latches that are made */
    simba__zk_reply *replies;
    size_t room;
    int count, replied;
    bool is_multi; /* what is asked is a part of one request */
    int64_t sent_ms;
    /* All were answered; or how it failed, as of simba_exchange. */
    void (*done)(simba__zk_batch *batch);
    int status;
    const simba_error *error; /* in done() */
};

/* A session, and the connections that it has one after the other. */
struct simba__zk_session {
    simba__zk_session *next; /* of the store's */
    simba__zk *self;
    simba_connection *connection;
    bool is_new; /* it has had no connection before */
    bool is_greeted, is_ready;
    int64_t id; /* 0: none yet */
    char password[SIMBA__ZK_PASSWORD];
    int64_t asked_ms, timeout_ms; /* T, as asked for and as agreed upon */
    int64_t made_ms;              /* when it was asked for */
    int64_t zxid;                 /* the last that we have heard of */
    int32_t xid;                  /* of the last packet */
    int unanswered;               /* connections since the last reply */
    size_t downs;                 /* tries in vain since the last connection */
    simba_timer pinging;
    int64_t sent_ms; /* when the last packet was written */
    simba__zk_batch greeting, ping, end;
    simba_request *closing; /* to be completed when it has ended */
};

/** Begin a session, after a while; NULL: no memory. Hooks are called later, of
 * the store's main one. */
simba__zk_session *simba__zk_session_open(simba__zk *self,
                                          int64_t asked_ms,
                                          int64_t delay_ms);
/** Give it up: what is open in it fails, no hook is called, it is freed. */
void simba__zk_session_close(simba__zk_session *session);
/** Tell the server that it is over, then close it and complete the request, if
 * there is one. No hook is called any more. */
void simba__zk_session_end(simba__zk_session *session, simba_request *request);

/** Begin a batch; what was in it is forgotten. */
void simba__zk_begin(simba__zk_batch *batch, simba__zk *self);
/** Add a request about a child of a mutex; the mutex itself; without one a
 * child of /simba, /simba, or any node whose name is a path. */
void simba__zk_ask(simba__zk_batch *batch,
                   int op,
                   const char *mutex,
                   const char *node);
/** What is asked between these is carried out whole or not at all. */
void simba__zk_multi_begin(simba__zk_batch *batch);
void simba__zk_multi_end(simba__zk_batch *batch);
/** Make the nodes above and at the end of /simba, or of a mutex, from the top
 * down; with `is_plain` none that vanishes when empty. Each is followed by the
 * question whether it is there. */
void simba__zk_ask_parents(simba__zk_batch *batch,
                           const char *mutex,
                           bool is_plain);

/** Send it over a session, if there is one. A request tells whether its caller
 * drives, and may be NULL. */
void simba__zk_send(simba__zk_batch *batch,
                    simba__zk_session *session,
                    const simba_request *request,
                    void (*done)(simba__zk_batch *batch));

/** Nobody awaits it any more, and what it holds is freed. */
void simba__zk_batch_fini(simba__zk_batch *batch);

/* --- what the store keeps ------------------------------------------------ */

/* The children are known. */
typedef void simba__zk_listed(simba__zk_latch *latch, simba__zk_queue *queue);

/* What a latch has asked for, while it waits for the answer. Thousands who wait
 * for their turn have none. */
typedef struct simba__zk_task {
    simba__zk_batch batch; /* its user is the latch */
    /* When all were answered; and when the children are known. */
    void (*taken)(simba__zk_latch *latch);
    simba__zk_listed *listed;
    simba__zk_latch *next; /* of those who await a list */
    uint32_t list;         /* the number of the list that tells of it */
    int rounds;            /* batches for this step */
    uint32_t lowest_at, lowest_slots;
    int asked_count; /* so many of those before are watched from now on */
    bool is_asking;  /* who else is there, so that failures may be */
    bool is_joining; /* and watches those before, */
    bool has_gone;   /* of which one has gone meanwhile */
    bool is_told;    /* the owner was told before */
} simba__zk_task;

/* One attempt: its node. The name of that follows from the attempt and the
 * position. Thousands wait: every byte counts. */
struct simba__zk_latch {
    simba_entry base;
    int64_t ctime_ms; /* its czxid is the token */
    simba__zk_task *task;
    /* Those that are to be watched, each with its NUL, and an empty name; NULL:
     * it is one, of this process, whose own watch will do. */
    char *before;
    uint32_t before_from; /* no position of them is lower; UINT32_MAX: none */
    bool are_watched;     /* all of them are */
    bool is_watched;      /* our own node is */
    bool is_due;          /* it will be, soon */
};

/* One mutex, in which this process has latches or which it observes. */
typedef struct simba__zk_mutex {
    simba_session_mutex base;
    struct simba__zk_observing *observing; /* NULL: nobody does */
    /* One list of the children serves all who have asked before it. */
    simba__zk_latch *lister;           /* who has asked for it */
    simba__zk_latch *awaiting, **last; /* those who want one */
    uint32_t lists;                    /* that were ever asked for */
    uint32_t floor;   /* no latch has a lower position; 0: not known */
    uint32_t told_at; /* the position of the owner that was told last */
    bool is_serving;
} simba__zk_mutex;

/* What an observer needs of a mutex. */
struct simba__zk_observing {
    simba__zk_batch batch;
    bool is_watched; /* its children, or that it is made; or is about to be */
    simba__zk_serials serials;
};

struct simba__zk {
    simba_session_store base;
    simba__zk_settings settings;
    struct simba__log log;
    simba__zk_session *session;   /* the main one, or NULL */
    simba__zk_session *sessions;  /* all, also those that are ending */
    int64_t asked_ms;             /* T as asked for; 0: nothing yet */
    struct simba__backoff losses; /* of sessions that did not last */
    bool is_closing;
    bool is_cut_off;   /* a session was lost, and none is there yet */
    bool has_failed;   /* somebody was told that there is no connection */
    bool is_told;      /* so was the log */
    bool was_answered; /* ever: there is an ensemble at this address */
    bool is_base_made; /* /simba was there when we looked last */

    simba__zk_batch check; /* that nobody asked for */
    simba__zk_batch renewals;
    struct simba__zk_watching *watching; /* watches that are being set */
    simba_timer checking; /* the next check that nobody asked for */

    int admins; /* read, list, break, doctor, init under way */
};

#define SIMBA__ZK(store)       ((simba__zk *)(store))
#define SIMBA__ZK_MUTEX(mutex) ((simba__zk_mutex *)(mutex))

/* --- zookeeper.c --------------------------------------------------------- */

/** Hooks of the main session: there is a connection; the session has ended, or
 * is of no use any more; a connection broke, or could not be made. */
void simba__zk_ready(simba__zk *self);
void simba__zk_lost(simba__zk *self, const char *why);
void simba__zk_down(simba__zk *self, const simba_error *why);
/** A quorum write was sent, or answered. */
void simba__zk_written(simba__zk *self);
void simba__zk_answered(simba__zk *self, int rc, int64_t sent_ms);

/** Whether a reply to a create or a multi of checks is the leader's, agreed
 * upon by a quorum. Other replies may be the follower's own, such as that it
 * has too much to do. */
bool simba__zk_is_by_quorum(int rc);

/** The server that we speak to, or try to. */
const char *simba__zk_where(const simba__zk *self);
/** Describe a failure by its code; returns its status. */
int simba__zk_fail(const simba__zk *self, int rc, simba_error *error);
/** The same for one without an answer: `why` is the connection's. */
int simba__zk_unanswered(const simba__zk *self,
                         const simba_error *why,
                         simba_error *error);

/** The lease that was asked for, or the session's if that is shorter. */
int64_t simba__zk_full_lease_ms(const simba_entry *entry);
/** The longest release budget that the shortest grant leaves time beside. */
int64_t simba__zk_budget_most_ms(int64_t lease_ms);

/** See to it that there is a session, for who only looks. */
void simba__zk_want_any(simba__zk *self);

/** Whose a latch is, by its data and its slots. */
simba_owner simba__zk_owner_of(const simba__zk_reply *reply, uint32_t slots);

/* --- request.c: the author's part of a session store --------------------- */

/** Put, look or remove, whichever step it is in. */
void simba__zk_step(simba_entry *entry);

/* --- step.c -------------------------------------------------------------- */

/** The name of its node, when it is PRESENT. */
void simba__zk_node(const simba__zk_latch *latch,
                    char node[SIMBA__ZK_NODE_SIZE]);
/** As of simba_session_ops. */
void simba__zk_forget(simba_entry *entry);

/** Begin a step; false: no memory, and it is done. */
bool simba__zk_step_begin(simba__zk_latch *latch);
/** Begin a batch for it, ask about a child of its mutex or about that, and send
 * it; `taken` comes when all were answered, the last by a quorum. */
void simba__zk_step_clear(simba__zk_latch *latch);
void simba__zk_step_ask(simba__zk_latch *latch, int op, const char *node);
void simba__zk_step_send(simba__zk_latch *latch,
                         void (*taken)(simba__zk_latch *latch));
/** The same, and `listed` comes when the children are known: at once after
 * that or, if there is a `taken`, when it calls simba__zk_step_await(). */
void simba__zk_step_send_listed(simba__zk_latch *latch,
                                void (*taken)(simba__zk_latch *latch),
                                simba__zk_listed *listed);
void simba__zk_step_await(simba__zk_latch *latch);
/** The last reply of the batch, the children apart. */
const simba__zk_reply *simba__zk_step_reply(const simba__zk_latch *latch);

/** The end of a step: it stands so; or it failed, by a code. The task is gone
 * then, and the next step may have begun. */
void simba__zk_step_stands(simba__zk_latch *latch,
                           enum simba_standing standing);
void simba__zk_step_finish(simba__zk_latch *latch,
                           int status,
                           const simba_error *error);
void simba__zk_step_fail(simba__zk_latch *latch, int rc);

/** Must it be the lowest, if it is there? */
bool simba__zk_is_lowest(const simba__zk_latch *latch);
/** A node has gone: if it was the lowest, all are above it. */
void simba__zk_gone(simba__zk_mutex *mutex, uint64_t position);
/** The one before it, where that is of this process: the entry before, for they
 * come in order. NULL: it has left. */
simba__zk_latch *simba__zk_previous(const simba__zk_latch *latch);
/** Find whom it has to watch, where it stands; false: no memory. */
bool simba__zk_keep_others(simba__zk_latch *latch,
                           const simba__zk_queue *queue,
                           int own);
/** It has to watch nobody. */
void simba__zk_forget_others(simba__zk_latch *latch);
/** If it looks for all who wait, tell them. */
void simba__zk_confirm(const simba__zk_latch *latch, simba__zk_queue *queue);

/* --- notify.c ------------------------------------------------------------ */

/** Where a node is among those before a latch; NULL: nowhere. */
char *simba__zk_before(char *before, const char *node);
/** The end: no watch is set any more. */
void simba__zk_watching_fini(simba__zk *self);

/** Watch our own node, soon. A mutex held for a moment is spared that. */
void simba__zk_watch_own(simba__zk_latch *latch);
/** A watch has fired. */
void simba__zk_event(simba__zk *self, int type, const char *path);
/** There is a connection; with `is_new` in a new session: ask for all watches
 * again. */
void simba__zk_watches_set(simba__zk *self, bool is_new);
/** The connection is lost: what the watches of observers tell now may be half
 * of it. */
void simba__zk_watches_lost(simba__zk *self);
void simba__zk_observe(simba_session_mutex *mutex);

/* --- admin.c, doctor.c, init.c ------------------------------------------- */

enum { SIMBA__ZK_STEPS = 3 };

/* A request without an entry, which sends in steps. One whose connection is
 * lost begins again. */
struct simba__zk_admin {
    struct simba__admin base;
    simba__zk *self;
    simba__zk_batch batches[SIMBA__ZK_STEPS]; /* of each step */
    simba__zk_admin_step *begin;
    simba__zk_admin_step *step; /* when all were answered */
    int rounds;                 /* how often it began again */
    bool is_numbered;           /* also of all mutexes */
    simba__zk_session *probe;
    int64_t least_ms, most_ms; /* how long sessions last */
};

/** As of simba_session_ops. */
void simba__zk_serve(simba_session_store *store, simba_request *request);
/** Begin the batch of a step; its replies stay until it comes again. */
simba__zk_batch *simba__zk_admin_begin(simba__zk_admin *admin, int which);
/** Send it, over the probe if there is one; `step` comes when all are answered.
 */
void simba__zk_admin_send(simba__zk_admin *admin,
                          simba__zk_batch *batch,
                          simba__zk_admin_step *step);
/** Complete the request, by a code; after that it is gone. */
void simba__zk_admin_finish(simba__zk_admin *admin, int rc);

void simba__zk_doctor(simba__zk_admin *admin);
void simba__zk_doctor_end(simba__zk_admin *admin);
void simba__zk_init(simba__zk_admin *admin);

/** Init as commands of the servers' shell; to be freed. */
char *simba__zk_schema(const simba_backend_config *config,
                       bool upgrade,
                       simba_error *error);

#endif
