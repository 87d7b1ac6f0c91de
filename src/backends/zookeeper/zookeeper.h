/* One open ZooKeeper store, as its files share it.
 *
 *   zookeeper.c    open, close, the table; errors, ACLs, owners
 *   client.c       the client library: handles, blocking calls, descriptors
 *   connection.c   connecting, and one session after another
 *   session.c      how long a session is certain; renewals
 *   request.c      acquire, release, leave: what follows from the replies
 *   latch_io.c     what a latch sends to the servers, and their replies
 *   mutex_nodes.c  the mutexes and latches this process knows
 *   node_names.c   pure: names of nodes, their order, serial numbers
 *   notify.c       watches, wake-ups, the backstop
 *   admin.c        read, list, break
 *   doctor.c       what this ensemble can promise
 *   init.c         making /simba, by calls or as commands
 *   settings.c     the URL
 *
 * Everything is touched inside the loop only, unless it says otherwise. The
 * client library calls back on a thread of its own, which enters the loop. */
#ifndef SIMBA_ZOOKEEPER_ZOOKEEPER_H
#define SIMBA_ZOOKEEPER_ZOOKEEPER_H

#include <simba/sys/backend.h>

#include "kit/backoff.h"
#include "kit/deadline.h"
#include "kit/log.h"
#include "kit/lookup.h"
#include "kit/url.h"
#include "util/hash.h"

#define THREADED /* the blocking calls as well */
#include <zookeeper/zookeeper.h>

#include <pthread.h>

struct simba__zk;

/* --- settings.c ---------------------------------------------------------- */

/* Who may do what with the nodes we make. */
enum simba__zk_acl {
    SIMBA__ZK_ACL_OPEN,    /* anybody everything, as Curator's */
    SIMBA__ZK_ACL_CREATOR, /* only who has our name and password */
    SIMBA__ZK_ACL_SHARED   /* the same, but anybody may read */
};

/* Of a host whose port is not given. */
enum { SIMBA__ZK_PORT = 2181 };

struct simba__zk_settings {
    struct simba__url url;
    char *hosts; /* host:port,host:port: as the client library wants it */
    const char *chroot; /* "" or "/a/b" */
    char *base;         /* where the mutexes are: chroot and "/simba" */
    char *auth;         /* "user:password", or NULL */
    int acl;            /* enum simba__zk_acl */
    int tls;            /* 0: none */
};

int simba__zk_settings_init(struct simba__zk_settings *settings,
                            const char *rest,
                            simba_error *error);

/** Free what it holds; copes with a half-read one. */
void simba__zk_settings_fini(struct simba__zk_settings *settings);
/** As simba_backend_ops has it. */
char *simba__zk_help(void);

/** The hosts, beginning with the one that is number `first`, counted from 0 and
 * round and round; to be freed. NULL: no memory. */
char *simba__zk_hosts_from(const struct simba__zk_settings *settings,
                           unsigned first);

/* --- node_names.c: pure -------------------------------------------------- */

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

/** Write what the latch node of an attempt begins with. */
void simba__zk_prefix(simba_attempt attempt,
                      char prefix[SIMBA__ZK_PREFIX_SIZE]);

/** What latch nodes are ordered by; NULL: no latch. */
const char *simba__zk_sequence(const char *node);

/** The servers' counter of this mutex has passed its end: a latch with such a
 * number sorts before those that came earlier. */
bool simba__zk_is_wrapped(const char *node);

/** A latch's sequence number as a position in the queue: never 0. */
uint64_t simba__zk_position(const char *node);

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

/* What is to be seen of the node of a mutex. */
struct simba__zk_view {
    int64_t czxid;         /* 0: there is no node */
    uint64_t latches_made; /* children the node has ever had */
    uint64_t mutexes_made; /* nodes of mutexes there ever were, of all */
};

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
struct simba__zk_serials {
    uint64_t base; /* given before this node was made */
    bool is_begun;
    struct simba__zk_view seen;  /* by the last read */
    bool is_watched;             /* since `found` was to be seen */
    bool is_calm;                /* no node at the last read, and none since */
    struct simba__zk_view found; /* when the watch was set; latches only */
    struct simba__zk_view ended; /* the last node whose end is certain */
};

/** How many children a node has ever had, from what its Stat says: changes
 * count those that came and those that went. */
uint64_t simba__zk_children_made(const struct Stat *stat);

/** The watch was set; this was to be seen then. */
void simba__zk_serials_watched(struct simba__zk_serials *serials,
                               const struct simba__zk_view *found);

/** The watch fired: something changed, or the node is gone; or the watch may
 * have missed something. */
void simba__zk_serials_changed(struct simba__zk_serials *serials, bool is_gone);

/** A read has seen this. */
void simba__zk_serials_read(struct simba__zk_serials *serials,
                            const struct simba__zk_view *view);

/** The serial number of a position in the queue. */
uint64_t simba__zk_serial(const struct simba__zk_serials *serials,
                          uint64_t position);

/* --- session.c: how long a session is certain; pure ---------------------- */

/* A quorum write that was answered proves that the leader had not ended the
 * session when it served the write, and no more: a follower passes on that it
 * heard from us only with its next reply to the leader's ping, every half tick,
 * and a session's timeout T is two ticks at least. So
 *
 *   - a session made at c is certain until c + T: its maker, the leader, began
 *     to count after c;
 *   - two quorum writes, the second sent T/4 or more after the first was
 *     answered, make it certain until T after the first was *sent*: by the
 *     second one the leader has heard of the first.
 *
 *   s1      answered          s2     answered                     s1 + T
 *   |----------|--- T/4 or more ---|-----|---- certain --------------|
 */
enum { SIMBA__ZK_WRITES_KEPT = 16 };

struct simba__zk_certainty {
    int64_t timeout_ms; /* T; 0: there was no connection yet */
    int64_t since_ms;   /* the session is certain until T after this */
    struct simba__zk_write {
        int64_t sent_ms, answered_ms;
    } writes[SIMBA__ZK_WRITES_KEPT]; /* T/16 apart, newest last */
    int count;
};

/** A session with timeout T was asked for at `made_ms`, and there is one. */
void simba__zk_certainty_init(struct simba__zk_certainty *certainty,
                              int64_t timeout_ms,
                              int64_t made_ms);

/** Whether a reply to a create or a multi of checks is the leader's, agreed
 * upon by a quorum. Other replies may be the follower's own, such as that it
 * has too much to do. */
bool simba__zk_is_by_quorum(int rc);

/** A quorum write was answered now; unless the reply is not by quorum. */
void simba__zk_certainty_answered(struct simba__zk_certainty *certainty,
                                  int rc,
                                  int64_t sent_ms,
                                  int64_t now_ms);

/**
 * The lease a request sent at `sent_ms` is granted, counted from there: what is
 * left of T, less what two clocks at +-1 % can have disagreed about so far.
 * 1 when nothing is left.
 */
int64_t simba__zk_certainty_lease(const struct simba__zk_certainty *certainty,
                                  int64_t sent_ms);

/** The shortest lease that is granted where a longer one would be `lease_ms`:
 * at least what quorum writes every T/4 leave. */
int64_t simba__zk_lease_least_ms(int64_t lease_ms);

/** The longest release budget that such a grant leaves time beside. */
int64_t simba__zk_budget_most_ms(int64_t lease_ms);

/** When another quorum write would make the session certain for longer. */
int64_t simba__zk_certainty_next(const struct simba__zk_certainty *certainty);

/* --- what the store keeps ------------------------------------------------ */

/* What is known of the node of a latch. */
enum simba__zk_node_state {
    SIMBA__ZK_ABSENT,   /* there is none */
    SIMBA__ZK_DOUBTFUL, /* a create was not answered: there may be one */
    SIMBA__ZK_PRESENT   /* it is there, under this name */
};

/* What a latch has sent together and waits for. */
enum simba__zk_batch {
    SIMBA__ZK_NONE,
    SIMBA__ZK_CREATE,   /* the node, and who else is there */
    SIMBA__ZK_CHECK,    /* that the node is there, and who else is */
    SIMBA__ZK_FIND,     /* whether the node is there after all */
    SIMBA__ZK_IDENTIFY, /* whose the found node is */
    SIMBA__ZK_QUEUE,    /* the watch on the one before, and who owns */
    SIMBA__ZK_REMOVE
};

/* One attempt of this process: its node and its requests. */
struct simba__zk_latch {
    struct simba__zk_latch *next; /* in its mutex */
    struct simba__zk *self;
    struct simba__zk_mutex *mutex; /* NULL: forgotten, only replies are due */
    int references;                /* the mutex's, and one for each reply due */
    simba_attempt attempt;
    char id[SIMBA_ID_MAX + 1];
    char prefix[SIMBA__ZK_PREFIX_SIZE];

    enum simba__zk_node_state state;
    char node[SIMBA__ZK_NODE_SIZE];
    int64_t czxid, ctime_ms;
    bool is_leaving;  /* to be removed, whatever it takes */
    bool is_watched;  /* our own node has a watch */
    bool was_granted; /* the tenure was told */

    simba_request *acquire, *release, *renewal; /* release: or leave */
    struct simba__zk_latch *next_renewal;       /* among those to be sent */
    bool is_renewal_queued;
    int64_t acquire_ms, renewal_ms; /* when they were submitted */
    int64_t lease_ms;               /* as asked for */
    int64_t lapses_ms;              /* unless it is asked for again */
    int64_t confirmed_ms;           /* behind the same one; 0: never */
    simba_timer deadline;
    simba_timer watching; /* when to watch our own node */

    enum simba__zk_batch batch;
    int replies_due;
    int rounds; /* batches for this acquire */
    int64_t sent_ms;
    int write_rc, read_rc, owner_rc;
    bool is_lowest, is_second;
    bool is_parent_denied; /* we may not make the parent that is missing */
    bool is_unwatched;     /* the one before went; nobody is watched instead */
    char *before, *lowest; /* nodes */
    simba_owner owner;
};

/* One mutex, in which this process has latches or which it observes. */
struct simba__zk_mutex {
    struct simba__hash_link by_path; /* first */
    struct simba__zk_latch *latches; /* in the order they came, for S11 */
    bool is_observed;
    bool is_watched; /* its children, for observers */
    bool is_made;    /* its node was there when we looked last */
    bool is_making;  /* one latch makes it; the others wait for that */
    struct simba__zk_serials serials; /* for observers */
    struct simba__zk_latch *looker;   /* looks for all who ask in case */
    simba_owner owner;                /* as the last looker has seen it */
    int holds;                        /* it must not be forgotten now */
    char *path;
    char name[];
};

struct simba__zk_tombstone {
    struct simba__zk_tombstone *next;
    simba_attempt attempt;
    int64_t until_ms;
};

struct simba__zk {
    simba_backend base;
    struct simba__zk_settings settings;
    struct simba__log log;

    /* connection.c */
    zhandle_t *handle;   /* NULL: none */
    uint64_t generation; /* of the session: replies to an older one are stale */
    bool is_connected;
    bool was_connected; /* ever: there is an ensemble at this address */
    bool is_cut_off;    /* there was a connection, and it was lost */
    bool is_closing;
    bool has_failed;   /* somebody was told that there is no connection */
    int unanswered;    /* connections since the last reply */
    int64_t asked_ms;  /* T as asked for; 0: nothing yet */
    int64_t made_ms;   /* when the session was asked for */
    simba_timer retry; /* the next try to make a session */
    struct simba__backoff backoff;
    simba_timer warning;  /* nobody answers: log it */
    simba_timer asking;   /* and before: ask why */
    simba_timer failover; /* a server does not answer: try another */
    unsigned first_host;  /* to try */
    unsigned tried;       /* in vain, since there was a connection */
    simba_error failure;  /* why there is no connection */
    pthread_t opener;     /* makes and closes handles */
    bool has_opener;      /* to be joined */
    bool is_opening;      /* it runs */
    bool wants_session, wants_reason;
    bool is_making;  /* it makes a session, and will tell */
    zhandle_t **old; /* to be closed by it */
    size_t old_count, old_room;

    /* session.c */
    struct simba__zk_certainty certainty;
    int64_t written_ms; /* when the newest quorum write was sent */
    int checks;         /* under way */
    struct simba__zk_latch *renewals, **last_renewal; /* wait for a check */
    simba_timer checking; /* the next check that nobody asked for */

    struct simba__hash mutexes; /* by path */
    int latch_count;
    bool is_base_made; /* /simba was there when we looked last */
    struct simba__zk_tombstone *tombstones;

    /* admin.c */
    struct simba__zk_admin_request *parked; /* wait for a connection */
    simba_worker *worker; /* for doctor and init; NULL: none yet */
};

/* --- zookeeper.c --------------------------------------------------------- */

/** The connection or the session went: the outcome is unknown. */
bool simba__zk_is_lost(int rc);

/** Describe a failure; returns its status. */
int simba__zk_fail(const struct simba__zk *self, int rc, simba_error *error);

/** Describe why what had no effect was not answered; returns its status. */
int simba__zk_unanswered(struct simba__zk *self, simba_error *error);

/** Complete the request in a slot, if there is one, with these words of ours.
 */
void simba__zk_give_up(simba_request **slot, int status, const char *why);

/** Nodes we make: who may do what. */
const struct ACL_vector *simba__zk_acl(const struct simba__zk *self);

/** Whose a latch of ours is, and whose one with this data is. */
simba_owner simba__zk_owner_self(const struct simba__zk_latch *latch);
simba_owner simba__zk_owner_of(const char *data,
                               int length,
                               const struct Stat *stat);

/** Of path and node; to be freed. NULL: no memory. */
char *simba__zk_join(const char *path, const char *node);

/* --- connection.c -------------------------------------------------------- */

/** See to it that there is a session fit for a request; SIMBA_EINVAL when its
 * times are not those of the session's latches. */
int simba__zk_session_want(struct simba__zk *self,
                           const simba_request *request,
                           simba_error *error);

/** Look at a reply of this session. False: the session is no more; then it has
 * been dropped. */
bool simba__zk_session_lives(struct simba__zk *self, int rc);

/** How long a request waits that came at `since_ms`: to its deadline, but not
 * so long for the first connection of all. Who has never been answered most
 * likely has the wrong address, and who asks wants to know. */
int64_t simba__zk_waits_until(const struct simba__zk *self,
                              const simba_request *request,
                              int64_t since_ms);

/** For the client library: the state of the session has changed. */
void simba__zk_on_session(zhandle_t *handle,
                          int type,
                          int state,
                          const char *path,
                          void *context);

/** The loop ends: no timer any more. */
void simba__zk_detach(simba_backend *base);

/** Outside the loop: close the session, and wait for the opener. */
void simba__zk_disconnect(struct simba__zk *self);

/* --- session.c ----------------------------------------------------------- */

void simba__zk_renew(struct simba__zk *self, simba_request *request);

/** Answer a renewal: not yours, not any more. */
void simba__zk_renew_refuse(struct simba__zk_latch *latch);

/** Send what renewals wait, as one check; and see to it that a quorum write
 * comes in time, while there are latches. */
void simba__zk_check(struct simba__zk *self);

/* --- mutex_nodes.c ------------------------------------------------------- */

/** The mutex with this name; NULL: there is none, or with `is_wanted` no memory
 * to make it. */
struct simba__zk_mutex *simba__zk_mutex_get(struct simba__zk *self,
                                            const char *name,
                                            bool is_wanted);

/** The mutex with this path; NULL: none. */
struct simba__zk_mutex *simba__zk_mutex_at(const struct simba__zk *self,
                                           const char *path,
                                           size_t length);

/** All of them: the first with NULL, else the one after; NULL: no more. */
struct simba__zk_mutex *simba__zk_mutex_next(
    const struct simba__zk *self,
    const struct simba__zk_mutex *mutex);

/** Forget it, if nobody needs it. */
void simba__zk_mutex_tidy(struct simba__zk *self,
                          struct simba__zk_mutex *mutex);

/** The latch of a request's attempt; NULL: none, or no memory. */
struct simba__zk_latch *simba__zk_latch_find(struct simba__zk *self,
                                             const simba_request *request);
struct simba__zk_latch *simba__zk_latch_get(struct simba__zk *self,
                                            const simba_request *request);
void simba__zk_latch_forget(struct simba__zk_latch *latch);
void simba__zk_latch_unref(struct simba__zk_latch *latch);

/** Call for every latch of a mutex, or of all with NULL; it may forget the
 * latch it is given. */
void simba__zk_latches_each(struct simba__zk *self,
                            const struct simba__zk_mutex *mutex,
                            void (*each)(struct simba__zk_latch *latch));

/* --- request.c ----------------------------------------------------------- */

void simba__zk_acquire(struct simba__zk *self, simba_request *request);
void simba__zk_release(struct simba__zk *self, simba_request *request);

/** Go on, if there is something to do and nothing under way. */
void simba__zk_latch_go(struct simba__zk_latch *latch);

/** Fail its acquire, if it waits for a connection. */
void simba__zk_latch_fail_unsent(struct simba__zk_latch *latch);

/** Every reply to the batch has come. */
void simba__zk_latch_replied(struct simba__zk_latch *latch);

/** Set the timer for the earliest deadline of its requests. */
void simba__zk_latch_arm(struct simba__zk_latch *latch);

/** Its session is gone, and with it the node. */
void simba__zk_latch_lost(struct simba__zk_latch *latch);

/* --- latch_io.c ---------------------------------------------------------- */

void simba__zk_send(struct simba__zk_latch *latch, enum simba__zk_batch batch);

/** Watch our own node, soon. A mutex held for a moment is spared that. */
void simba__zk_watch_own(struct simba__zk_latch *latch);

/* --- notify.c ------------------------------------------------------------ */

/** For the client library: a watch has fired. */
void simba__zk_on_node(zhandle_t *handle,
                       int type,
                       int state,
                       const char *path,
                       void *context);

void simba__zk_subscription(simba_backend *base,
                            const char *name,
                            enum simba_subscription subscription);

/** A latch has left the queue: who has not looked since the one before it went
 * may be the next. */
void simba__zk_wake_next(struct simba__zk *self, struct simba__zk_mutex *mutex);

/** Watch every observed mutex anew: there is a new connection. */
void simba__zk_observe_all(struct simba__zk *self);

/** The connection is lost: what the watches tell now may be half of it. With
 * the session, the watches are gone as well. */
void simba__zk_watches_lost(struct simba__zk *self, bool is_session_lost);

/* How a latch that asks in case a wake-up was lost gets its answer. */
enum simba__zk_backstop {
    SIMBA__ZK_LOOKS,    /* it looks itself */
    SIMBA__ZK_WAITS,    /* another looks right now */
    SIMBA__ZK_CONFIRMED /* another has looked: it waits on, behind `owner` */
};

enum simba__zk_backstop simba__zk_backstop(struct simba__zk_latch *latch);

/** Who is there, as the latch that looks for others has heard. */
void simba__zk_backstop_heard(struct simba__zk_latch *latch,
                              const struct String_vector *children);

/** A latch that looked for others was answered: if it looks no more, they go
 * on. The mutex is held. */
void simba__zk_backstop_end(struct simba__zk_latch *latch,
                            struct simba__zk_mutex *mutex);

/* --- admin.c, doctor.c, init.c ------------------------------------------- */

/** Start read, list, break, doctor or init, now or once connected. */
void simba__zk_admin(struct simba__zk *self, simba_request *request);

/** There is a connection: go on. There is none: fail. */
void simba__zk_admin_go(struct simba__zk *self);
void simba__zk_admin_fail(struct simba__zk *self);

/** The store is closed. */
void simba__zk_admin_close(struct simba__zk *self);

/** What these servers can promise; make what is missing. Both add findings, and
 * return a status. By blocking calls, outside the loop. */
int simba__zk_examine(const struct simba__zk *self,
                      zhandle_t *handle,
                      simba_request *request,
                      simba_error *error);
int simba__zk_init(const struct simba__zk *self,
                   zhandle_t *handle,
                   simba_request *request,
                   simba_error *error);

/** Init as commands of the servers' shell; to be freed. */
char *simba__zk_schema(const simba_backend_config *config,
                       bool upgrade,
                       simba_error *error);

/* --- client.c: the client library, outside the loop ---------------------- */

/** Make a client handle, quietly, its threads deaf to signals. It tries the
 * servers in order, from this one, and tells a store, if there is one, what
 * becomes of the session. NULL: see simba__zk_lookup_problem(). */
zhandle_t *simba__zk_handle_open(const struct simba__zk_settings *settings,
                                 unsigned first_host,
                                 int64_t timeout_ms,
                                 struct simba__zk *self);

/** Why the last handle that this thread could not make has no host; of
 * gai_strerror(3), or 0. */
int simba__zk_lookup_problem(void);

/** Do all servers refuse to be connected to? */
bool simba__zk_is_refused(const struct simba__zk_settings *settings);

/** How long to wait for a first connection when so many tries were in vain:
 * first for each server a moment, so that whoever answers is soon found; then
 * longer, for all may be slow; and never so long that a session would be old
 * before it is of use. A lone one has no other before it. */
int64_t simba__zk_host_wait_ms(const struct simba__zk_settings *settings,
                               unsigned tried,
                               int64_t timeout_ms);

/** A handle for blocking calls to a server that answers; NULL: none does by
 * then (boot clock). */
zhandle_t *simba__zk_connect(const struct simba__zk_settings *settings,
                             int64_t timeout_ms,
                             int64_t until_ms);

/** What anybody may do with a node; returns what the server says. */
int simba__zk_perms_of_anyone(zhandle_t *handle, const char *path, int *perms);

/** In a forked child: close what the client library has open. */
void simba__zk_descriptors_close(void);

#endif
