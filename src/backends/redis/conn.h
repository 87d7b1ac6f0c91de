/* One connection to a Redis server: found, connected, secured, greeted, and
 * made again when it breaks.
 *
 *     DOWN -> LOOKING -> CONNECTING -> [SECURING] -> GREETING -> READY
 *      ^---------------------------------------------------------'
 *          with a pause that grows from 10 to 200 ms
 *
 * Commands are answered in their order. All functions: inside the loop. */
#ifndef SIMBA_REDIS_CONN_H
#define SIMBA_REDIS_CONN_H

#include "backends/lookup/lookup.h"
#include "backends/redis/buffer.h"
#include "backends/redis/settings.h"
#include "backends/redis/tls.h"

#include <hiredis/hiredis.h>

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

#endif
