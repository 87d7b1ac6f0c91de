/* What the files of the Redis store share. */
#ifndef SIMBA_REDIS_REDIS_H
#define SIMBA_REDIS_REDIS_H

#include "backends/redis/settings.h"
#include "backends/redis/text.h"
#include "kit/lookup.h"

#include <simba/sys/backend.h>

#include <hiredis/hiredis.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define container(pointer, type, member)                                       \
    ((type *)((char *)(pointer)-offsetof(type, member)))

/* Bytes on their way out. */

struct simba__redis_buffer {
    char *data;
    size_t from; /* what is before it has been taken */
    size_t length;
    size_t room;
};

/** Room for so many more bytes behind the last; NULL: no memory. */
char *simba__redis_buffer_grow(struct simba__redis_buffer *buffer, size_t more);

/** False: no memory, and nothing was added. */
bool simba__redis_buffer_add(struct simba__redis_buffer *buffer,
                             const char *bytes,
                             size_t count);

/** So many of the first bytes are done with. */
void simba__redis_buffer_take(struct simba__redis_buffer *buffer, size_t count);

/** How many bytes are left. */
size_t simba__redis_buffer_left(const struct simba__redis_buffer *buffer);

void simba__redis_buffer_clear(struct simba__redis_buffer *buffer);
void simba__redis_buffer_fini(struct simba__redis_buffer *buffer);

/* A table of things by name; the links live in the things. */

struct simba__redis_link {
    struct simba__redis_link *next;
    uint32_t hash;
    uint32_t length;
    const char *name; /* lives as long as the link is in the table */
};

struct simba__redis_hash {
    struct simba__redis_link **buckets;
    size_t room; /* a power of two, or 0 */
    size_t count;
};

struct simba__redis_link *simba__redis_hash_find(
    const struct simba__redis_hash *table,
    const char *name,
    size_t length);

/** The name must be new and set in the link. False: no memory. */
bool simba__redis_hash_add(struct simba__redis_hash *table,
                           struct simba__redis_link *link);

void simba__redis_hash_remove(struct simba__redis_hash *table,
                              struct simba__redis_link *link);

/** The first that is found, or the next after one; NULL: no more. Nothing may
 * be added meanwhile; what was returned may be removed after its next is
 * known. */
struct simba__redis_link *simba__redis_hash_next(
    const struct simba__redis_hash *table,
    const struct simba__redis_link *link);

void simba__redis_hash_fini(struct simba__redis_hash *table);

/* TLS as a filter: bytes of the wire go in and come out, sockets are not its
 * business. */

typedef struct simba__redis_tls simba__redis_tls;
typedef struct simba__redis_tls_context simba__redis_tls_context;

/** The certificates of a store; NULL context when it does not use TLS. */
int simba__redis_tls_context_open(const struct simba__redis_settings *settings,
                                  simba__redis_tls_context **context,
                                  simba_error *error);
void simba__redis_tls_context_close(simba__redis_tls_context *context);

/** One connection to this host; NULL: no memory. */
simba__redis_tls *simba__redis_tls_open(simba__redis_tls_context *context,
                                        const char *host);
void simba__redis_tls_close(simba__redis_tls *tls);

/** Go on with the handshake, writing what it wants to say to `wire`.
 *
 * @return 1: done, 0: more must be heard, negative: a code with `error` */
int simba__redis_tls_shake(simba__redis_tls *tls,
                           struct simba__redis_buffer *wire,
                           simba_error *error);

/** Take in bytes that came over the wire. False: no memory. */
bool simba__redis_tls_feed(simba__redis_tls *tls,
                           const char *bytes,
                           size_t count);

/** Plain bytes: how many, 0: none yet, negative: a code with `error`. */
int simba__redis_tls_read(simba__redis_tls *tls,
                          char *bytes,
                          int room,
                          simba_error *error);

/** Encrypt all of `plain` into `wire`. False: it failed. */
bool simba__redis_tls_write(simba__redis_tls *tls,
                            struct simba__redis_buffer *plain,
                            struct simba__redis_buffer *wire);

/* One connection to a Redis server: found, connected, secured, greeted, and
 * made again when it breaks.
 *
 *     DOWN -> LOOKING -> CONNECTING -> [SECURING] -> GREETING -> READY
 *      ^---------------------------------------------------------'
 *          with a pause that grows from 10 to 200 ms
 *
 * Commands are answered in their order. All functions: inside the loop. */

enum simba__redis_conn_state {
    SIMBA__REDIS_DOWN,
    SIMBA__REDIS_LOOKING,
    SIMBA__REDIS_CONNECTING,
    SIMBA__REDIS_SECURING,
    SIMBA__REDIS_GREETING,
    SIMBA__REDIS_READY,
};

/* A caller reads for itself again when so many replies in a row came one by one
 * to callers that waited. */
enum { SIMBA__REDIS_SOLO_AFTER = 64 };

struct simba__redis_conn;

/* Somebody who awaits a reply; lives in his own memory. */
struct simba__redis_ask {
    struct simba__redis_ask *next;
    /** The reply, valid during the call; or NULL and why there is none. */
    void (*answered)(struct simba__redis_ask *self,
                     const redisReply *reply,
                     const simba_error *why);
    bool is_driven; /* its caller reads the reply itself, if it can */
};

struct simba__redis_conn_hooks {
    /** Find out where to connect to, then call simba__redis_conn_dial() or
     * simba__redis_conn_fail(). NULL: always to the same address. */
    void (*aim)(struct simba__redis_conn *conn);
    /** Connected: say what must be said first, then call
     * simba__redis_conn_greeted(). */
    void (*greet)(struct simba__redis_conn *conn);
    void (*ready)(struct simba__redis_conn *conn);
    /** It broke, or could not be made; it will be tried again by itself. */
    void (*down)(struct simba__redis_conn *conn, const simba_error *why);
    /** A message nobody asked for. NULL: replies only. */
    void (*heard)(struct simba__redis_conn *conn, const redisReply *message);
};

/* What all connections of a store share. */
struct simba__redis_env {
    simba_loop *loop;
    struct simba__redis_settings settings;
    simba__redis_tls_context *tls;
    simba_log_fn log;
    void *log_user;

    /* Output is sent at the end of a turn, so that many commands share a
     * packet; see turn.h. */
    int turn_depth;
    struct simba__redis_conn *unsent;
    struct simba__redis_post *post;
};

struct simba__redis_conn {
    const struct simba__redis_conn_hooks *hooks;
    struct simba__redis_env *env;
    void *owner;
    struct simba__redis_address address;
    char shown[SIMBA__REDIS_SHOWN + 1];

    enum simba__redis_conn_state state;
    bool is_wanted; /* not closed: keep it up */
    simba_io io;
    simba_timer timer; /* for a connection to come up, or the next try */
    simba__lookup *lookup;
    struct addrinfo *found, *trying;
    simba__redis_tls *tls;
    redisReader *reader;
    struct simba__redis_buffer plain, wire; /* wire: with TLS only */
    struct simba__redis_ask *first, **last; /* replies awaited */
    int asks;                               /* how many they are */
    int64_t silent_since_ms;                /* while replies are awaited */
    int64_t pause_ms;
    bool is_answered; /* the server has said something else than errors */
    bool was_up;      /* so the next time it is made anew */
    unsigned breaks;  /* how often it broke: tells one life from the next */
    simba_error why;  /* the last trouble */
    bool is_listed;   /* among env->unsent */
    struct simba__redis_conn *next_unsent;

    /* Who reads: the loop, or a caller that waits for its own reply alone. */
    bool is_solo;
    int solo_streak;
};

void simba__redis_conn_init(struct simba__redis_conn *conn,
                            struct simba__redis_env *env,
                            const struct simba__redis_conn_hooks *hooks,
                            void *owner);

/** Bring it up and keep it up. */
void simba__redis_conn_open(struct simba__redis_conn *conn,
                            const struct simba__redis_address *address);

/** End it; whoever awaits a reply gets none, and `down` is not called. */
void simba__redis_conn_close(struct simba__redis_conn *conn);

/** For `aim`: connect to this address. */
void simba__redis_conn_dial(struct simba__redis_conn *conn,
                            const struct simba__redis_address *address);

/** For `greet`: the connection is fit for use. */
void simba__redis_conn_greeted(struct simba__redis_conn *conn);

/** Give this connection up, with this reason, and try again later. */
void simba__redis_conn_fail(struct simba__redis_conn *conn,
                            int code,
                            int native,
                            const char *format,
                            ...) __attribute__((format(printf, 4, 5)));

/** A command, in parts. */
struct simba__redis_words {
    int count;
    const char **text;
    const size_t *length;
};

/** Send a command. False: no memory, and nothing happened.
 *
 * @param ask  awaits the reply; NULL for a subscriber's commands */
bool simba__redis_conn_send(struct simba__redis_conn *conn,
                            const struct simba__redis_words *words,
                            struct simba__redis_ask *ask);

/** Send a command of plain words, NULL at the end. */
bool simba__redis_conn_say(struct simba__redis_conn *conn,
                           struct simba__redis_ask *ask,
                           const char *const *words);

/** The server has said its first word that is no error. */
void simba__redis_conn_answered(struct simba__redis_conn *conn);

/** It owes answers for long: perhaps another server has taken its place. */
void simba__redis_conn_suspect(struct simba__redis_conn *conn);

/** Read what has come, and answer those who wait for it. */
void simba__redis_conn_read(struct simba__redis_conn *conn);

/** Write what is to be written. */
void simba__redis_conn_flush(struct simba__redis_conn *conn);

/** Let the loop wait for what this connection waits for. */
void simba__redis_conn_watch(struct simba__redis_conn *conn);

/** Go on with the TLS handshake. */
void simba__redis_conn_shake(struct simba__redis_conn *conn);

/* dial.c */

/** Start to connect to `trying`, or to the socket's path. Returns 0, or errno
 * when there is none left to try. */
int simba__redis_dial_next(struct simba__redis_conn *conn);

/* The first words over a connection: who we are, and who is there. */

/* What a server tells of itself. */
struct simba__redis_facts {
    char version[24];
    bool is_master;
    bool is_cluster;
    bool is_loading;
    bool keeps_data;     /* over a restart, but perhaps the last of it */
    bool is_new;         /* was started a few seconds ago */
    int64_t up_since_ms; /* boot clock; not later than this */
    int64_t learned_ms;  /* when all this was so */
};

struct simba__redis_greeting {
    struct simba__redis_conn *conn;
    const char *user, *password; /* NULL: none */
    int database;                /* 0: needs no choosing */
    bool is_curious;             /* learn the facts as well */
    struct simba__redis_facts facts;

    struct simba__redis_ask auth, select, server, persistence, replication;
    struct simba__redis_ask *final;
};

/** Say hello; ends with simba__redis_conn_greeted() or _fail(). */
void simba__redis_greet(struct simba__redis_greeting *greeting);

/* What we listen for: the personal channels of our waiters, and where it must
 * be the broadcast channel of a mutex.
 *
 * Inside the loop, all of it. */

struct simba__redis;
struct simba__redis_node;
struct simba__redis_call;

/* One channel. */
struct simba__redis_ear {
    struct simba__redis_link link; /* by channel */
    struct simba__redis_topic *topic;
    struct simba__redis_ear *sibling;  /* of the same topic */
    struct simba__redis_call *waiting; /* until it is open */
    bool is_sent; /* the server was asked to subscribe it */
    bool is_open; /* and has done so */
    bool is_broadcast;
    char channel[];
};

/* One mutex. */
struct simba__redis_topic {
    struct simba__redis_link link; /* by mutex */
    struct simba__redis_ear *ears;
    struct simba__redis_node *node; /* where they are subscribed */
    enum simba_subscription subscription;
    int64_t keep_until_ms; /* without interest; subscribing anew is dear */
    int64_t again_ms;      /* wake-up it then, 0: no need (again.c) */
    char mutex[];
};

struct simba__redis_ears {
    struct simba__redis_hash channels, topics;
};

/** Open the personal channel of a waiter, or with id NULL the broadcast
 * channel. NULL: no memory, or the server is not known. */
struct simba__redis_ear *simba__redis_ear_open(struct simba__redis *store,
                                               const char *mutex,
                                               const char *id);

/** The same if it is there already; NULL: it is not. */
struct simba__redis_ear *simba__redis_ear_find(struct simba__redis *store,
                                               const char *mutex,
                                               const char *id);

/** A waiter joined the line: listen for so long at least. */
void simba__redis_ears_keep(struct simba__redis *store,
                            const char *mutex,
                            int64_t keep_ms);

/** Close what nobody needs any more. */
void simba__redis_ears_sweep(simba_timer *timer);

void simba__redis_ears_subscription(struct simba__redis *store,
                                    const char *mutex,
                                    enum simba_subscription subscription);

void simba__redis_ears_fini(struct simba__redis *store);

/* subscribe.c */

/** Have the server subscribe the channel, or not any more. */
void simba__redis_ear_listen(struct simba__redis_ear *ear);
void simba__redis_ear_ignore(struct simba__redis_ear *ear);

/** The subscriber connection of a node is up, down, or says something. */
void simba__redis_ears_up(struct simba__redis_node *node);
void simba__redis_ears_down(struct simba__redis_node *node);
void simba__redis_ears_hear(struct simba__redis_node *node,
                            const redisReply *message);

/** The mutex is kept by another server from now on, or by none. */
void simba__redis_ears_move(struct simba__redis *store,
                            struct simba__redis_topic *topic,
                            struct simba__redis_node *node);

/** The node goes. */
void simba__redis_ears_forget(struct simba__redis_node *node);

/* again.c */

/** Wake-up the waiters of a mutex after this time. */
void simba__redis_again_later(struct simba__redis *store,
                              const char *mutex,
                              int64_t wait_ms);

/** Some of these times have come. */
void simba__redis_again(simba_timer *timer);

/* An open Redis store: its servers, its ears, the operations under way. */

struct simba__redis;
struct simba__redis_call;

/* A connection with what it says first. */
struct simba__redis_peer {
    struct simba__redis_conn conn;
    struct simba__redis_greeting greeting;
};

/* Those who wait for a server to be there, in their order. */
struct simba__redis_queue {
    struct simba__redis_call *first, **last;
};

/* One server: a master that keeps mutexes. */
struct simba__redis_node {
    struct simba__redis *store;
    struct simba__redis_node *next;
    struct simba__redis_address address;
    struct simba__redis_peer command;
    struct simba__redis_peer subscriber; /* opened when somebody waits */
    struct simba__redis_peer waiter;     /* for replicas; opened likewise */
    struct simba__redis_queue queue, waiter_queue;
    bool was_ready;
    size_t unheard; /* ears that wait for the server's word */
};

struct simba__redis {
    simba_backend base;
    struct simba__redis_env env;
    struct simba__redis_node *nodes;
    struct simba__redis_ears ears;
    struct simba__redis_sentinel *sentinel; /* NULL: no such */
    struct simba__redis_cluster *cluster;   /* NULL: no such */

    struct simba__redis_node *driven;    /* where a caller reads for itself */
    struct simba__redis_node *polled;    /* and does so right now */
    struct simba__redis_errand *errands; /* of admins */
    struct simba__redis_call *calls;     /* all of them */
    simba_timer deadline;                /* of the first of them */
    simba_timer sweep;                   /* channels that nobody needs */
    simba_timer again;                   /* a reservation is over */
    simba_timer grace;                   /* ask again: a restart is long past */

    /* The opening thread waits here. */
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool is_opened; /* or failed, with why */
    simba_error why;
};

/* node.c */

/** Add a server; NULL: no memory. Its connection is begun at once. */
struct simba__redis_node *simba__redis_node_add(
    struct simba__redis *store,
    const struct simba__redis_address *address);

/** End its connections and forget it; calls that wait for it fail. */
void simba__redis_node_remove(struct simba__redis_node *node);

/** See to it that the connection exists. */
void simba__redis_peer_need(struct simba__redis_peer *peer);

/** The server that keeps this mutex; NULL: not known now. */
struct simba__redis_node *simba__redis_node_of(struct simba__redis *store,
                                               const char *mutex);

/** The opening has come to its end; NULL: well. Inside the loop. */
void simba__redis_opened(struct simba__redis *store, const simba_error *why);

/** Until when no acquire with this lease may be sent, or 0. */
int64_t simba__redis_node_grace(const struct simba__redis_node *node,
                                int64_t lease_ms);

void simba__redis_log(const struct simba__redis_env *env,
                      enum simba_log_level level,
                      const char *format,
                      ...) __attribute__((format(printf, 3, 4)));

/* A turn: what happens in one go inside the loop. Commands written during a
 * turn are sent together at its end. */

/** Enclose whatever may write commands. */
void simba__redis_turn_begin(struct simba__redis_env *env);
void simba__redis_turn_end(struct simba__redis_env *env);

/** Like turn_end, but let the output wait for more of the same turn of the
 * loop, if a reply is awaited anyway. */
void simba__redis_turn_end_later(struct simba__redis_env *env);

/** The connection has output. */
void simba__redis_turn_add(struct simba__redis_conn *conn);

/** It has none any more, or is gone. */
void simba__redis_turn_remove(struct simba__redis_conn *conn);

/** The loop is about to end: nothing will be posted any more. */
void simba__redis_turn_stop(struct simba__redis_env *env);

/* The scripts, and the keys of a mutex. The Lua files say what they do. */

enum simba__redis_script_name {
    SIMBA__REDIS_ACQUIRE,
    SIMBA__REDIS_RENEW,
    SIMBA__REDIS_RELEASE,
    SIMBA__REDIS_READ,
    SIMBA__REDIS_BREAK,
    SIMBA__REDIS_DOCTOR,
    SIMBA__REDIS_SCRIPTS
};

struct simba__redis_script {
    const char *text;
    size_t length;
    char sha[41];
};

/** All of them, in the order of their names. Any thread. */
const struct simba__redis_script *simba__redis_scripts(void);

enum {
    SIMBA__REDIS_KEYS = 9,
    SIMBA__REDIS_ATTEMPT = 32, /* characters of an attempt id */
    /* "simba:{", "}", the longest ending, and the NUL */
    SIMBA__REDIS_KEY_MAX = SIMBA_MUTEX_MAX_BYTES + 8 + 48 + 1,
    SIMBA__REDIS_CHANNEL_MAX = SIMBA_MUTEX_MAX_BYTES + 9 + SIMBA_ID_MAX + 1,
};

/* The keys of a mutex, in the order the scripts want them. */
struct simba__redis_keys {
    char text[SIMBA__REDIS_KEYS][SIMBA__REDIS_KEY_MAX];
    size_t length[SIMBA__REDIS_KEYS];
};

void simba__redis_keys_init(struct simba__redis_keys *keys,
                            const char *mutex,
                            const simba_attempt *attempt);

/** For a break, which undoes no attempt: the book of breaks in place of the
 * tombstone. */
void simba__redis_keys_take_book(struct simba__redis_keys *keys);

/** An attempt as the scripts know it. */
void simba__redis_attempt_text(const simba_attempt *attempt,
                               char text[SIMBA__REDIS_ATTEMPT + 1]);

/* One operation on its way through the store. */

enum simba__redis_call_state {
    SIMBA__REDIS_QUEUED,    /* its server is not there */
    SIMBA__REDIS_SENT,      /* no answer yet */
    SIMBA__REDIS_LISTENING, /* refused; subscribes before it joins the line */
    SIMBA__REDIS_PAUSED,    /* the server said: try again */
};

struct simba__redis_call {
    struct simba__redis_ask ask;
    struct simba__redis *store;
    struct simba__redis_node *node;
    struct simba__redis_call *next, *previous; /* of the store */
    struct simba__redis_call *other;           /* of a queue, of an ear */
    simba_timer pause;
    simba_request
        *request; /* NULL: its deadline has passed, the answer has not come */
    enum simba__redis_call_state state;
    enum simba__redis_script_name script;
    bool is_joining;   /* acquire: with a position in the queue */
    uint64_t position; /* that it would have got when it first asked */
    bool is_whole;     /* send the script's text, not its name */
    bool is_asking;    /* to a node that only imports the slot */
    int turns;         /* how often it was sent elsewhere, or again */
    int had_replicas;  /* so many have it */
};

/** Start an operation of those that scripts carry out. */
void simba__redis_call_start(struct simba__redis *store,
                             simba_request *request);

/** Send what has waited for this connection. */
void simba__redis_queue_send(struct simba__redis_queue *queue);

/** Its ear is open now, or cannot be: then with why. */
void simba__redis_call_heard(struct simba__redis_call *call,
                             const simba_error *why);

/** Fail all of a queue. */
void simba__redis_queue_fail(struct simba__redis_queue *queue,
                             const simba_error *why);

/** Complete what is overdue. */
void simba__redis_calls_overdue(simba_timer *timer);

/** The node goes, and no call is sent to it or queued there any more: those who
 * pause or listen find another. */
void simba__redis_calls_forget(struct simba__redis_node *node);

/** End all of them: the loop is about to end. */
void simba__redis_calls_end(struct simba__redis *store);

/** Send it on its way, to the server that keeps the mutex. */
void simba__redis_call_route(struct simba__redis_call *call);

/** Complete its operation, if it is still there, and forget the call. */
void simba__redis_call_finish(struct simba__redis_call *call,
                              int status,
                              const simba_error *error);

/** Complete it with these words of ours. */
void simba__redis_call_fail(struct simba__redis_call *call,
                            int code,
                            const char *words);

/* send.c */

/** Does it take its connection for waiting for replicas? */
bool simba__redis_call_waits(const struct simba__redis_call *call);

/** Send its script over this connection; false: no memory. */
bool simba__redis_call_script(const struct simba__redis_call *call,
                              struct simba__redis_conn *conn,
                              struct simba__redis_ask *ask);

/** Send it to its server, or queue it there. */
void simba__redis_call_transmit(struct simba__redis_call *call);

/** Route it once more, shortly. */
void simba__redis_call_pause(struct simba__redis_call *call);

/* answer.c */

void simba__redis_call_answered(struct simba__redis_ask *ask,
                                const redisReply *reply,
                                const simba_error *why);

/* reply.c */

/** What a script answered, for all but release. */
struct simba__redis_answer {
    bool is_mine;
    bool has_tenure; /* the owner is one of ours */
    bool is_head;
    bool has_missed; /* acquire: one that was called did not come */
    uint64_t position;
    int64_t wait_ms;
    int64_t now_us;
    simba_owner owner;
    uint64_t ended; /* read: as simba_reply has it */
};

/** False: no such answer. */
bool simba__redis_answer_read(struct simba__redis_answer *answer,
                              const redisReply *reply,
                              int64_t transition_ms);

/** Put it into the operation's reply. */
void simba__redis_answer_fill(const struct simba__redis_answer *answer,
                              simba_request *request);

/** The line that a read answers with. */
void simba__redis_answer_line(const redisReply *reply, simba_request *request);

/* Waiting for replicas: what is not on so many servers is not ours. */

/** The master has granted or renewed; complete the call when enough replicas
 * have it as well. Its operation's reply is filled already. */
void simba__redis_replicas_await(struct simba__redis_call *call);

/* What Redis says when it refuses, in our codes and words. */

/* What to do about it, beyond failing. */
enum simba__redis_remedy {
    SIMBA__REDIS_NONE,
    SIMBA__REDIS_SEND_SCRIPT, /* it does not know the script: send its text */
    SIMBA__REDIS_MOVED,       /* ask another node, from now on */
    SIMBA__REDIS_ASK,         /* ask another node, this once */
    SIMBA__REDIS_AGAIN,       /* ask again shortly */
    SIMBA__REDIS_REMAKE,      /* this connection leads to the wrong server */
};

struct simba__redis_trouble {
    enum simba__redis_remedy remedy;
    int code;
    const char *words; /* what it means; then Redis's own text follows */
};

/** Understand an error reply. */
struct simba__redis_trouble simba__redis_understand(const char *text);

/** Say it: "redis host:port: words (text)". Returns the code. */
int simba__redis_explain(simba_error *error,
                         const char *shown,
                         const char *text);

/* A caller that waits for its own reply alone reads it itself. */

/** An operation was sent to the commands of this node: who reads its answer?
 * The caller that waits for it, if nothing overlaps; else the loop. */
void simba__redis_drive_choose(struct simba__redis_node *node, bool is_driven);

/** Something else was sent over it: the loop reads. */
void simba__redis_drive_share(struct simba__redis_conn *conn);

/** The node goes. */
void simba__redis_drive_forget(const struct simba__redis_node *node);

/** See `drive` in simba/sys/backend.h. */
bool simba__redis_drive(simba_backend *self, int64_t until_ms);

/* Sentinels: they know which server is the master now. */

struct simba__redis_sentinel;

/** NULL: no memory. */
struct simba__redis_sentinel *simba__redis_sentinel_make(
    struct simba__redis *store);

/** Find the master and let this connection dial it. Inside the loop. */
void simba__redis_sentinel_aim(struct simba__redis_sentinel *sentinel,
                               struct simba__redis_conn *conn);

/** The master that was found is one. Inside the loop. */
void simba__redis_sentinel_was_right(struct simba__redis_sentinel *sentinel);

/** All of them were asked, and none has led to a master. Inside the loop. */
bool simba__redis_sentinel_is_hopeless(
    const struct simba__redis_sentinel *sentinel);

/** The connection to the sentinel that is asked, for a forked child. */
struct simba__redis_conn *simba__redis_sentinel_conn(
    struct simba__redis_sentinel *sentinel);

/** Ask no more. Inside the loop. */
void simba__redis_sentinel_stop(struct simba__redis_sentinel *sentinel);

/* Cluster: which server keeps which slot, and what to do when that changes.
 * Inside the loop. For stores that are no cluster all of it does nothing. */

struct simba__redis_cluster;

/** NULL: no memory. The servers of the URL are asked at once. */
struct simba__redis_cluster *simba__redis_cluster_make(
    struct simba__redis *store);

/** The server that keeps a mutex; NULL: not known now. */
struct simba__redis_node *simba__redis_cluster_node(struct simba__redis *store,
                                                    const char *mutex);

/** A server is there, or is gone. */
void simba__redis_cluster_ready(struct simba__redis_node *node);
void simba__redis_cluster_down(struct simba__redis_node *node,
                               const simba_error *why);

/** MOVED or ASK: send the call where the server says. */
void simba__redis_cluster_redirect(struct simba__redis_call *call,
                                   const char *text);

/** Something is odd: look again which server keeps what. */
void simba__redis_cluster_doubt(struct simba__redis *store);

void simba__redis_cluster_stop(struct simba__redis_cluster *cluster);

/** The slot of a mutex. */
unsigned simba__redis_slot_of(const char *mutex);

/* What admins ask: which mutexes are there, and what can this store promise? */

/* One such question, to every server of the store. */
struct simba__redis_errand {
    struct simba__redis *store;
    simba_request *request; /* NULL: its deadline has passed */
    simba_timer deadline;
    simba_timer begin;                /* when all servers are there */
    struct simba__redis_errand *next; /* of the store */
    struct simba__redis_hash found;   /* names of mutexes */
    int open;                         /* answers awaited */
    simba_error why;                  /* code 0: well so far */
};

/** Start a list or a doctor. */
void simba__redis_admin_start(struct simba__redis *store,
                              simba_request *request);

/** End all errands: the loop is about to end. */
void simba__redis_admin_end(struct simba__redis *store);

/** Send a command of plain words to a server. When it is answered, `answered`
 * is called, unless the errand's deadline has passed or there was no answer. */
void simba__redis_errand_ask(struct simba__redis_errand *errand,
                             struct simba__redis_node *node,
                             void (*answered)(struct simba__redis_errand *,
                                              struct simba__redis_node *,
                                              const redisReply *reply),
                             const char *const *words);

/* list.c */
void simba__redis_list(struct simba__redis_errand *errand,
                       struct simba__redis_node *node);
void simba__redis_list_fini(struct simba__redis_errand *errand);

/* doctor.c */
void simba__redis_doctor(struct simba__redis_errand *errand,
                         struct simba__redis_node *node);

/* Reading what INFO tells. */

/** The value of a line "name:value"; "" when there is none, cut when it does
 * not fit. */
void simba__redis_info_field(const char *info,
                             const char *name,
                             char *value,
                             size_t room);

bool simba__redis_info_is(const char *info,
                          const char *name,
                          const char *wanted);

#endif
