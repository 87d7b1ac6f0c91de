/* What the files of the Redis store share. All functions run inside the loop
 * unless they say otherwise. */
#ifndef SIMBA_REDIS_REDIS_H
#define SIMBA_REDIS_REDIS_H

#include "kit/deadline.h"
#include "kit/log.h"
#include "kit/lookup.h"
#include "kit/tls.h"
#include "kit/url.h"
#include "util/container.h"
#include "util/hash.h"

#include <simba/sys/backend.h>
#include <simba/sys/connection.h>

#include <hiredis/hiredis.h>

#include <pthread.h>
#include <stdatomic.h>

struct simba__redis;
struct simba__redis_connection;
struct simba__redis_request;
struct simba__redis_server;

/* --- settings.c: the URL, and addresses of servers ----------------------- */

enum {
    SIMBA__REDIS_HOST_MAX = 255,
    SIMBA__REDIS_SHOWN = 100,
    SIMBA__REDIS_GRACE_MS = 16000, /* the lease of who asks for none */
};

/* Which graces are in use: milliseconds, for the doctor. */
#define SIMBA__REDIS_GRACES "simba:grace"

enum simba__redis_shape {
    SIMBA__REDIS_SINGLE,
    SIMBA__REDIS_SENTINEL,
    SIMBA__REDIS_CLUSTER,
};

/* A server. */
struct simba__redis_address {
    char host[SIMBA__REDIS_HOST_MAX + 1]; /* or the path of a socket */
    int port;                             /* 0: a unix socket */
};

struct simba__redis_settings {
    struct simba__url url; /* which the strings below point into */
    enum simba__redis_shape shape;
    struct simba__redis_address *addresses; /* of servers or sentinels */
    int address_count;
    const char *master; /* the name the sentinels know it by */
    int database;
    const char *user, *password; /* NULL: none */
    const char *sentinel_user, *sentinel_password;
    struct simba__tls_settings tls;
    int replicas;              /* that must have an acquire; 0: none */
    const char *restart_grace; /* as given, or NULL */
    /* So long nobody acquires on a server that may have forgotten owners, and
     * for so long at most an owner is certain of one that may: 0: neither. */
    int64_t grace_ms;
    bool is_jvm_expected; /* room is left for JVM contenders, seen or not */
    char shown[SIMBA__REDIS_SHOWN + 1]; /* for messages, without secrets */
};

/**
 * Read a URL, the environment and the files they name.
 *
 * @param[out] settings  to be given to simba__redis_settings_fini(), also
 *                       after a failure
 * @return SIMBA_OK or what simba__url_read() returns
 */
int simba__redis_settings_init(struct simba__redis_settings *settings,
                               const char *url,
                               simba_error *error);

void simba__redis_settings_fini(struct simba__redis_settings *settings);
/** As simba_backend_ops has it. */
char *simba__redis_help(void);

/** A number without sign or anything behind it, at most `most`; -1: none. */
int simba__redis_number(const char *text, int most);

/** Fill an address; false when the host is too long. */
bool simba__redis_put_address(struct simba__redis_address *address,
                              const char *host,
                              int port);

/* --- connection.c -------------------------------------------------------- */

/* One connection to a Redis server, made again when it breaks:
 *
 *     DOWN -> RESOLVING -> CONNECTING -> HANDSHAKE -> READY
 *      ^-----------------------------------------------'
 *
 * Commands are replied to in their order. */
enum simba__redis_connection_state {
    SIMBA__REDIS_DOWN,
    SIMBA__REDIS_RESOLVING,
    SIMBA__REDIS_CONNECTING,
    SIMBA__REDIS_HANDSHAKE,
    SIMBA__REDIS_READY,
};

/* A command whose reply is awaited; embedded in whoever awaits it. */
struct simba__redis_pending {
    simba_exchange exchange;
    struct simba__redis_connection *conn;
    /** The reply, valid during the call; NULL: there is none, see conn->why. */
    void (*replied)(struct simba__redis_connection *conn,
                    struct simba__redis_pending *self,
                    const redisReply *reply);
    bool is_driven;     /* its caller reads the reply itself, if it can */
    size_t most_values; /* that may be in the reply; 0: as most have */
};

struct simba__redis_hooks {
    void (*ready)(struct simba__redis_connection *conn);
    /** It broke, or could not be made (conn->why); it reconnects by itself. */
    void (*down)(struct simba__redis_connection *conn);
    /** A message that no command awaits. NULL: replies only. */
    void (*message)(struct simba__redis_connection *conn,
                    const redisReply *message);
};

/* What a server says of itself. */
struct simba__redis_facts {
    bool is_master;
    bool is_cluster;
    bool is_loading;
    bool keeps_data;     /* over a restart, but perhaps not the last of it */
    bool is_new;         /* was started a few seconds ago */
    int64_t up_since_ms; /* boot clock; not later than this */
    int64_t learned_ms;  /* when all this was so */
    char run[41];        /* another one after each start; "": not told */
};

enum {
    SIMBA__REDIS_SILENCE_MS = 2000, /* no reply for so long: reconnect */
    SIMBA__REDIS_HANDSHAKE_STEPS = 5,
    /* Replies that may be longer than most: the names of one SCAN, for which
     * COUNT is 1000; a queue, a map of slots. */
    SIMBA__REDIS_VALUES_OF_SCAN = 4096,
    SIMBA__REDIS_VALUES_MOST = 1 << 20,
};

struct simba__redis_connection {
    const struct simba__redis_hooks *hooks;
    struct simba__redis *store;
    struct simba__redis_server *server; /* NULL: to a sentinel */
    struct simba__redis_address address;
    char shown[SIMBA__REDIS_SHOWN + 1]; /* the address, for messages */

    /* The handshake: set before the connection is opened. */
    const char *user, *password; /* NULL: none */
    int database;                /* 0: needs no SELECT */
    bool wants_facts;
    struct simba__redis_facts facts;
    struct simba__redis_pending handshake[SIMBA__REDIS_HANDSHAKE_STEPS];
    struct simba__redis_pending *last_step;

    enum simba__redis_connection_state state;
    simba_connection *link;                            /* NULL: closed */
    redisReader *reader;                               /* NULL: it is down */
    redisReplyObjectFunctions makers, *default_makers; /* of its values */
    size_t values, bytes; /* of the reply that is being read, so far */
    const char *text;     /* of the command that is being sent */
    size_t text_length;
    bool is_sent;
    int64_t silent_since_ms; /* while replies are awaited */
    simba_error why;         /* it broke last */
};

void simba__redis_connection_init(struct simba__redis_connection *conn,
                                  struct simba__redis *store,
                                  const struct simba__redis_hooks *hooks,
                                  struct simba__redis_server *server);

/** Bring it up and keep it up; no-op when it is opened already. */
void simba__redis_connection_open(struct simba__redis_connection *conn);

/** End it; whoever awaits a reply gets none, and `down` is not called. */
void simba__redis_connection_close(struct simba__redis_connection *conn);

/** Sentinels have told where the master is: connect to this address. */
void simba__redis_connect(struct simba__redis_connection *conn,
                          const struct simba__redis_address *address);

/** Give this connection up, and reconnect later: code, native, format, … */
#define simba__redis_disconnect(conn, ...)                                     \
    simba_connection_break((conn)->link, __VA_ARGS__)

/** Write a number in figures; returns how many. Any thread. */
enum { SIMBA__REDIS_DIGITS = 21 };
size_t simba__redis_put_number(char *text, uint64_t number);

/** Write the parts of a command as RESP has them: "*3\r\n" or "$3\r\n", and
 * a word with that before it; they return what is behind them. Any thread. */
enum { SIMBA__REDIS_WORD_EXTRA = SIMBA__REDIS_DIGITS + 5 }; /* beyond a word */
char *simba__redis_put_count(char *at, char kind, size_t count);
char *simba__redis_put_word(char *at, const char *word, size_t length);

/** A command, in parts. */
struct simba__redis_command {
    int count;
    const char **word;
    const size_t *length;
};

/** Send a command. False: no memory, and nothing happened.
 *
 * @param pending  awaits the reply; NULL for a subscriber's commands, without
 *                 which the connection is given up */
bool simba__redis_send(struct simba__redis_connection *conn,
                       const struct simba__redis_command *command,
                       struct simba__redis_pending *pending);

/** Send one that is written already; likewise. Of a subscriber's the caller
 * sees to the connection. */
bool simba__redis_send_text(struct simba__redis_connection *conn,
                            const char *text,
                            size_t length,
                            struct simba__redis_pending *pending);

/** Send a command of plain words, NULL at the end. */
bool simba__redis_send_words(struct simba__redis_connection *conn,
                             struct simba__redis_pending *pending,
                             const char *const *words);

/** The same, and its reply does not matter. */
bool simba__redis_send_unheard(struct simba__redis_connection *conn,
                               const char *const *words);

/** Is a reply awaited? */
bool simba__redis_is_due(const struct simba__redis_connection *conn);

/** Disconnect if it has owed replies for long: perhaps another server has taken
 * its place. */
void simba__redis_check_silence(struct simba__redis_connection *conn);

/* --- limits.c ------------------------------------------------------------ */

/** A new connection has its reader. */
void simba__redis_limits_begin(struct simba__redis_connection *conn);

/** Has the reply that is being read more in it than was asked for? */
bool simba__redis_is_too_much(const struct simba__redis_connection *conn);

/* --- handshake.c --------------------------------------------------------- */

/** Authenticate, choose the database, learn the facts, as far as wanted; ends
 * with simba_connection_ready() or simba__redis_disconnect(). */
void simba__redis_handshake(struct simba__redis_connection *conn);

/** The value of a line "name:value" of INFO; "" when there is none, cut when it
 * does not fit. */
void simba__redis_info_field(const char *info,
                             const char *name,
                             char *value,
                             size_t room);
bool simba__redis_info_is(const char *info,
                          const char *name,
                          const char *wanted);

/* --- server.c ------------------------------------------------------------ */

/* Requests that wait for a connection, in their order. */
struct simba__redis_backlog {
    struct simba__redis_request *first, **last;
};

/* A master that keeps mutexes. */
struct simba__redis_server {
    struct simba__redis *store;
    struct simba__redis_server *next;
    struct simba__redis_address address;
    struct simba__redis_connection command;
    struct simba__redis_connection subscriber;  /* opened when one waits */
    struct simba__redis_connection replication; /* WAIT holds it up; likewise */
    struct simba__redis_backlog backlog;
    bool was_ready;
    bool has_noted_grace; /* since the connection came up */
    bool knows_look;      /* the script, likewise */
    int told;             /* why it is down, as was logged; 0: it is not */
};

/** Add a server; NULL: no memory. Its connection is begun at once. */
struct simba__redis_server *simba__redis_server_add(
    struct simba__redis *store,
    const struct simba__redis_address *address);

/** Write down which restart_grace contenders of ours have, once a connection:
 * hosts that differ in it might pass each other's owners. */
void simba__redis_note_grace(struct simba__redis_server *server);

/** End its connections and forget it; requests that wait for it fail. */
void simba__redis_server_remove(struct simba__redis_server *server);

/* --- redis.c ------------------------------------------------------------- */

/* An open store. */
struct simba__redis {
    simba_backend base;
    struct simba__redis_settings settings;
    simba__tls_context *tls; /* NULL: none */
    struct simba__log log;
    struct simba__redis_server *servers;
    struct simba__redis_sentinel *sentinel; /* NULL: no such */
    struct simba__redis_cluster *cluster;   /* NULL: no such */

    struct simba__redis_server *driven; /* where a caller reads for itself */
    const void *polled; /* and does so right now; perhaps it is gone */

    struct simba__redis_request *requests;
    struct simba__redis_backlog backlog; /* until the cluster is known */
    simba_timer grace;                   /* ask again: a restart is long past */
    struct simba__redis_admin_request *admin_requests;

    struct simba__hash subscriptions; /* by mutex */
    struct simba__hash channels;      /* by name */
    simba_timer sweep;                /* channels that nobody needs */

    simba_error unheard; /* why it is not reached, before anybody asks */
    bool was_reached;    /* ever: there is a server at this address */
    bool has_failed; /* and before that, somebody was told that there is none */
};

/** The server that keeps this mutex; NULL: not known now. */
struct simba__redis_server *simba__redis_server_of(struct simba__redis *store,
                                                   const char *mutex);

/** A request of a caller that drives goes to this server. False: the caller is
 * about to read another's replies, and the loop must read this one. */
bool simba__redis_drive_here(struct simba__redis_server *server);

/** The server, or the cluster, is there; or is not, and nothing is under way
 * that may find it. */
void simba__redis_reached(struct simba__redis *store);
void simba__redis_unreachable(struct simba__redis *store,
                              const simba_error *why);

/* --- scripts.c: any thread ----------------------------------------------- */

enum simba__redis_script_name {
    SIMBA__REDIS_ACQUIRE,
    SIMBA__REDIS_RENEW,
    SIMBA__REDIS_RELEASE,
    SIMBA__REDIS_READ,
    SIMBA__REDIS_BREAK,
    SIMBA__REDIS_CROWD, /* any of them, with several owners or a successor */
    SIMBA__REDIS_LOOK,  /* for many who wait */
    SIMBA__REDIS_NOTES, /* what owners tell, and the record of breaks */
    SIMBA__REDIS_DOCTOR,
    SIMBA__REDIS_SCRIPTS
};

enum { SIMBA__REDIS_SECTIONS = 16 };

struct simba__redis_script {
    const char *own[SIMBA__REDIS_SECTIONS]; /* without the common ones */
    char text[30720];
    size_t length;
    char sha[41];
    _Atomic bool is_made; /* text, length and sha are there */
};

/** Any thread. */
const struct simba__redis_script *simba__redis_script(
    enum simba__redis_script_name name);

enum {
    SIMBA__REDIS_KEYS = 10,
    SIMBA__REDIS_KEYS_OF_ONE = 9, /* of a mutex with one owner */
    SIMBA__REDIS_ATTEMPT = 32,    /* characters of an attempt id */
    /* "simba:{", "}", the longest ending, and the NUL */
    SIMBA__REDIS_KEY_MAX = SIMBA_MUTEX_MAX_BYTES + 8 + 48 + 1,
    SIMBA__REDIS_CHANNEL_MAX = SIMBA_MUTEX_MAX_BYTES + 9 + SIMBA_ID_MAX + 1,
};

/* The keys of a mutex, in the order the scripts want them. */
struct simba__redis_keys {
    char text[SIMBA__REDIS_KEYS][SIMBA__REDIS_KEY_MAX];
    size_t length[SIMBA__REDIS_KEYS];
};

/** @param attempt  NULL: a break, which leaves no tombstone, but has the record
 *                  of breaks in its place */
void simba__redis_keys_init(struct simba__redis_keys *keys,
                            const char *mutex,
                            const simba_attempt *attempt);

/** The same for tell, told and breaks: with what is noted in that place. */
void simba__redis_keys_of_notes(struct simba__redis_keys *keys,
                                const char *mutex,
                                enum simba_request_kind kind);

/** How the script calls them. */
const char *simba__redis_notes_verb(enum simba_request_kind kind);

/** What the scripts must know of the store: their first argument. */
const char *simba__redis_letters(const struct simba__redis *store);

/** An attempt as the scripts know it. */
void simba__redis_attempt_text(const simba_attempt *attempt,
                               char text[SIMBA__REDIS_ATTEMPT + 1]);

enum { SIMBA__REDIS_SLOTS = 16384 };

/** The cluster's slot of a mutex. */
unsigned simba__redis_slot_of(const char *mutex);

/* --- request.c ----------------------------------------------------------- */

/* A request on its way:
 *
 *     start -> route -> UNSENT (no connection) -> SENT -> finish
 *                 ^                                |
 *                 |- SUBSCRIBING: refused, must subscribe before it joins
 *                 '- PAUSED: told to try again
 */
enum simba__redis_request_state {
    SIMBA__REDIS_UNSENT,
    SIMBA__REDIS_SENT,
    SIMBA__REDIS_SUBSCRIBING,
    SIMBA__REDIS_PAUSED,
};

struct simba__redis_request {
    struct simba__redis_pending pending;
    struct simba__redis *store;
    struct simba__redis_server *server;
    struct simba__redis_request *next, **link; /* of the store */
    struct simba__redis_request *next_waiting; /* of a backlog, of a channel */
    struct simba__redis_channel *channel; /* it waits for, while SUBSCRIBING */
    simba_timer pause, deadline;
    simba_request *request; /* NULL: its deadline passed before the reply */
    enum simba__redis_request_state state;
    enum simba__redis_script_name script;
    bool is_joining;   /* acquire: with a position in the queue */
    uint64_t position; /* that it would have got when it first asked */
    bool sends_text;   /* of the script, not its SHA */
    bool is_asking;    /* a server that only imports the slot */
    bool is_ending;    /* acquire: the tenure that was seen to stand still */
    int tries;         /* how often it was sent elsewhere, or again */
    int had_replicas;  /* so many have it; negative: WAIT was refused */
    uint64_t granted; /* acquire: the token of the tenure that it began, or 0 */
};

/** How long its owners are certain at most; INT64_MAX: as long as a lease. */
int64_t simba__redis_certain_ms(const struct simba__redis_server *server);

/** Send its script over this connection; false: no memory. */
bool simba__redis_send_script(struct simba__redis_request *r,
                              struct simba__redis_connection *conn);

/** Start a request that a script carries out. */
void simba__redis_request_start(struct simba__redis *store,
                                simba_request *request);

/** Send it to the server that keeps the mutex. */
void simba__redis_request_route(struct simba__redis_request *r);

/** Its channel is subscribed now, or cannot be: then with why. */
void simba__redis_request_subscribed(struct simba__redis_request *r,
                                     const simba_error *why);

/** Complete it with these words of ours, as printf has them. */
void simba__redis_request_fail(struct simba__redis_request *r,
                               int code,
                               const char *format,
                               ...) __attribute__((format(printf, 3, 4)));

/** Send, or fail, all of a backlog. */
void simba__redis_backlog_send(struct simba__redis_backlog *backlog);
void simba__redis_backlog_fail(struct simba__redis_backlog *backlog,
                               const simba_error *why);

/** The server goes, and no request is sent to it or waits in its backlog:
 * those that pause or subscribe find another. */
void simba__redis_requests_forget(const struct simba__redis_server *server);

/** End all of them: the loop is about to end. */
void simba__redis_requests_end(struct simba__redis *store,
                               const simba_error *why);

/* --- reply.c ------------------------------------------------------------- */

/* What to do about an error reply, beyond failing. */
enum simba__redis_remedy {
    SIMBA__REDIS_NONE,
    SIMBA__REDIS_SEND_SCRIPT, /* it does not know the script: send its text */
    SIMBA__REDIS_MOVED,       /* ask another server, from now on */
    SIMBA__REDIS_ASK,         /* ask another server, this once */
    SIMBA__REDIS_AGAIN,       /* ask again shortly */
    SIMBA__REDIS_RECONNECT,   /* this connection leads to the wrong server */
};

struct simba__redis_failure {
    enum simba__redis_remedy remedy;
    int code;
    const char *words; /* what it means; then Redis's own text follows */
};

/** Understand an error reply. Any thread. */
struct simba__redis_failure simba__redis_understand(const char *text);

/** Say it: "redis host:port: words (text)". Returns the code. Any thread. */
int simba__redis_explain(simba_error *error,
                         const char *shown,
                         const char *text);

/** What a script replied, for all but release. */
struct simba__redis_script_reply {
    bool is_mine;
    bool has_tenure; /* the owner is one of ours */
    bool is_head;
    bool has_missed;       /* acquire: one that was offered it did not come */
    const char *passed_by; /* acquire: the named successor behind us, or "" */
    uint64_t position;
    int64_t wait_ms;
    int64_t now_us;
    simba_owner owner;
    uint32_t owned, slots;  /* as simba_reply has them */
    uint64_t ended;         /* read: likewise */
    const char *asked, *to; /* likewise; valid as the reply is */
    /* Of a tenure that counts its renewals: */
    int64_t lease_ms; /* that its owner asked for; 0: it does not count */
    uint64_t renewals;
};

/** False: no such reply. */
bool simba__redis_script_reply_read(struct simba__redis_script_reply *read,
                                    const redisReply *reply,
                                    int64_t transition_ms);

/** What the script crowd replied, for all but release. */
bool simba__redis_crowd_reply_read(struct simba__redis_script_reply *read,
                                   const redisReply *reply,
                                   int64_t transition_ms);

/** Of several owners that a read answers with, the oldest; and all of them to
 * the reply of this request, unless it is NULL. */
void simba__redis_read_owners(struct simba__redis_script_reply *read,
                              const redisReply *reply,
                              simba_request *request);

/** Adds what the script notes replies; false: it is something else. */
bool simba__redis_read_notes(const redisReply *reply, simba_request *request);

/** Add the queue that a read answers with to the request's reply. */
void simba__redis_read_queue(const redisReply *reply, simba_request *request);

/* --- notify.c ------------------------------------------------------------ */

/* One channel: the personal one of a waiter, or a mutex's broadcast. */
struct simba__redis_channel {
    struct simba__hash_link link; /* by name, without what all begin with */
    struct simba__redis_subscription *subscription;
    struct simba__redis_channel *sibling; /* of the same mutex */
    struct simba__redis_request *last; /* that waits for the subscription, and
                                        * after it the first; NULL: none */
    uint64_t position;                 /* of the waiter; 0: not known */
    bool is_sent;                      /* SUBSCRIBE was */
    bool is_open;                      /* the server has confirmed it */
    bool is_broadcast;
    bool is_mark; /* that we hear broadcasts; nothing is said there */
};

/* One mutex, and what this process wants to hear about it. */
struct simba__redis_subscription {
    struct simba__hash_link link; /* by mutex */
    struct simba__redis_channel *channels;
    struct simba__redis_server *server; /* where they are subscribed */
    int64_t keep_until_ms; /* if not wanted; subscribing anew is dear */
    /* The tenure that keeps waiters waiting, as they saw it. Its token is its
     * name: no other ever has it (S4). */
    uint64_t seen_token;
    int64_t still_until_ms; /* it may stand still and be owned; boot clock; 0:
                             * there is none */
    uint32_t seen_renewals; /* of an owner that has more nothing is ended */
    enum simba_subscription wanted;
    /* To wake the waiters; NULL: all who were offered it have come. */
    struct simba__redis_lapse *lapse;
};

/** The personal channel of a waiter, or with id NULL the broadcast channel;
 * NULL: there is none. */
struct simba__redis_channel *simba__redis_channel_find(
    struct simba__redis *store,
    const char *mutex,
    const char *id);

/** The same, subscribed if it is not; NULL: no memory. */
struct simba__redis_channel *simba__redis_channel_open(
    struct simba__redis *store,
    const char *mutex,
    const char *id);

/** Wait for its subscription; or no more. */
void simba__redis_channel_await(struct simba__redis_channel *channel,
                                struct simba__redis_request *r);
void simba__redis_channel_leave(struct simba__redis_channel *channel,
                                const struct simba__redis_request *r);

/** What is subscribed of a mutex; NULL: nothing. */
struct simba__redis_subscription *simba__redis_subscription_find(
    struct simba__redis *store,
    const char *mutex);

/** One waits, or owns it: keep its channels for so long at least. */
void simba__redis_subscription_keep(struct simba__redis *store,
                                    const char *mutex,
                                    int64_t keep_ms);

/** Wake the waiters of a mutex after this time. */
void simba__redis_retry_later(struct simba__redis *store,
                              const char *mutex,
                              uint64_t position,
                              int64_t wait_ms);

/** A timer of the store: unsubscribe what nobody needs. */
void simba__redis_sweep(simba_timer *timer);

/** See `subscription` in simba/sys/backend.h. */
void simba__redis_subscribe(simba_backend *self,
                            const char *mutex,
                            enum simba_subscription wanted);

/** The subscriber connection is up, is down, or has a message. */
void simba__redis_subscriber_ready(struct simba__redis_connection *conn);
void simba__redis_subscriber_down(struct simba__redis_connection *conn);
void simba__redis_subscriber_message(struct simba__redis_connection *conn,
                                     const redisReply *message);

/** Subscribe every mutex at the server that keeps it now. */
void simba__redis_subscriptions_move(struct simba__redis *store);

/** The server goes. */
void simba__redis_subscriptions_forget(struct simba__redis_server *server);

/* --- liveness.c ---------------------------------------------------------- */

enum { SIMBA__REDIS_STILL = 2 * SIMBA__REDIS_DIGITS };

/** The tenure that may be ended now, as the script acquire wants it; false:
 * none. */
bool simba__redis_still_tenure(struct simba__redis *store,
                               const char *mutex,
                               char text[SIMBA__REDIS_STILL]);

/** An acquire that waits was answered: look at the tenure, and come back when
 * it may be ended, if that is before the server's clock ends it. */
void simba__redis_sight(struct simba__redis_request *r,
                        const struct simba__redis_script_reply *read);

/* What a look tells of the tenure that keeps them waiting. */
struct simba__redis_seen {
    int64_t left_ms; /* below 0: there is none of ours */
    uint64_t token;
    int64_t lease_ms; /* that its owner asked for; 0: it does not count */
    uint64_t renewals;
};

/** The same after a look. How long to wait; below 0: it is another tenure, or
 * may be ended, so that who waits must ask. */
int64_t simba__redis_sight_again(struct simba__redis *store,
                                 const char *mutex,
                                 const struct simba__redis_seen *seen);

/* --- look.c -------------------------------------------------------------- */

/** See simba_loop_look(). */
void simba__redis_look(simba_backend *self, simba_looks *looks);

/* --- sentinel.c ---------------------------------------------------------- */

/* The connections of a server: command, subscriber, replication. */
enum { SIMBA__REDIS_SEEKERS = 3 };

struct simba__redis_sentinel {
    struct simba__redis *store;
    struct simba__redis_connection connection; /* to the one that is asked */
    struct simba__redis_pending pending;
    struct simba__redis_connection *seekers[SIMBA__REDIS_SEEKERS];
    int which;  /* sentinel is asked */
    int tried;  /* without success, in this round */
    int misled; /* answers in a row that led to no master, the last included
                   until it proves good */
    bool is_unknown; /* no sentinel knew, the last time */
    simba_error why; /* what those that were tried say */
};

/** NULL: no memory. Any thread. */
struct simba__redis_sentinel *simba__redis_sentinel_make(
    struct simba__redis *store);

/** Find the master and let this connection connect to it. */
void simba__redis_sentinel_aim(struct simba__redis_sentinel *sentinel,
                               struct simba__redis_connection *conn);

/** All of them were asked, and none has led to a master. */
bool simba__redis_sentinel_is_hopeless(
    const struct simba__redis_sentinel *sentinel);

/* --- cluster.c: which server keeps which slot ---------------------------- */

/** NULL: no memory. The servers of the URL are asked at once. Any thread. */
struct simba__redis_cluster *simba__redis_cluster_make(
    struct simba__redis *store);

/** The server that keeps a mutex; NULL: not known now. */
struct simba__redis_server *simba__redis_cluster_find(
    const struct simba__redis_cluster *cluster,
    const char *mutex);

/** A server is there, or is gone. */
void simba__redis_cluster_ready(struct simba__redis_server *server);
void simba__redis_cluster_down(struct simba__redis_server *server);

/** MOVED or ASK: send the request where the server says. Also when the store is
 * no cluster. */
void simba__redis_cluster_redirect(struct simba__redis_request *r,
                                   const char *text);

/** Ask again soon which server keeps what. */
void simba__redis_cluster_refresh(struct simba__redis_cluster *cluster);

void simba__redis_cluster_stop(struct simba__redis_cluster *cluster);

/* --- admin.c ------------------------------------------------------------- */

/* A list or a doctor: a request that goes to every server of the store. */
struct simba__redis_admin_request {
    struct simba__redis *store;
    simba_request *request; /* NULL: its deadline has passed */
    simba_timer deadline;
    simba_timer begin; /* when all servers are there */
    struct simba__redis_admin_request *next;
    struct simba__hash found; /* names of mutexes */
    int open;                 /* replies awaited */
    simba_error why;          /* code 0: well so far */
};

/** Start a list or a doctor. */
void simba__redis_admin_start(struct simba__redis *store,
                              simba_request *request);

/** Fail those that wait for their servers. */
void simba__redis_admin_fail(struct simba__redis *store,
                             const simba_error *why);

typedef void simba__redis_admin_fn(struct simba__redis_admin_request *admin,
                                   struct simba__redis_server *server,
                                   const redisReply *reply);

/** Send a command of plain words to a server; `replied` is called unless the
 * deadline has passed by then or there is no reply. */
void simba__redis_admin_send(struct simba__redis_admin_request *admin,
                             struct simba__redis_server *server,
                             simba__redis_admin_fn *replied,
                             const char *const *words);

/* --- doctor.c ------------------------------------------------------------ */

void simba__redis_doctor(struct simba__redis_admin_request *admin,
                         struct simba__redis_server *server);

#endif
