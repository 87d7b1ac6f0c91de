/* Remote procedures of etcd, by gRPC over HTTP/2: frames and headers by
 * nghttp2, bytes by simba/sys/connection.h. There are no threads, and nothing
 * waits.
 *
 * A user is authenticated whenever the connection is made. A request that a
 * server surely has not looked at, because it has no leader, goes away or no
 * longer knows our token, is sent to the next one. Everything is inside the
 * loop. */
#ifndef SIMBA_BACKENDS_ETCD_GRPC_H
#define SIMBA_BACKENDS_ETCD_GRPC_H

#include "backends/etcd/protobuf.h"

#include <simba/sys/connection.h>

#include <nghttp2/nghttp2.h>

typedef struct simba__grpc simba__grpc;
typedef struct simba__rpc simba__rpc;

/**
 * It has ended, and may be submitted again, ended and freed here. For a stream:
 * also called with SIMBA_OK for each message that came. It must neither break
 * nor close the connection.
 *
 * @param status  SIMBA_OK: `reply` is there until this returns; else it is
 *                empty. SIMBA_EUNKNOWN: it may have taken effect, or may yet;
 *                any other: it surely had none
 * @param error   its native code is gRPC's status, or 0; NULL: SIMBA_OK
 */
typedef void simba__rpc_done(simba__rpc *self,
                             int status,
                             const simba_error *error);

#define SIMBA__ETCD_METHOD(name) "/etcdserverpb." name

/** One request and its reply, or a stream of both. Lives in its user's memory,
 * zeroed first. */
struct simba__rpc {
    /** The user sets deadline_ms and is_driven, but not of a stream. */
    simba_exchange exchange;
    const char *method; /* static: SIMBA__ETCD_METHOD("KV/Txn") */
    bool is_stream;
    bool is_leaderless;    /* any server can tell */
    simba__rpc_done *done; /* MUST */
    simba__pb_bytes reply; /* a message; what is in it was not looked at */

    /* The rest is not the user's. */
    simba__grpc *grpc; /* NULL: it is not open */
    struct simba__text output, input;
    size_t message_at;       /* where the last message begins */
    size_t sent;             /* how much of the output is out */
    int32_t stream_id;       /* in a session, 0: none or closed */
    unsigned session_number; /* which that was */
    int http_status, status; /* -1: not yet known */
    bool is_again;           /* nothing came of it; to be sent once more */
    char words[128];         /* grpc-message */
};

/** The way to one of several servers. Zeroed first. */
struct simba__grpc {
    const char *user, *password;  /* the user's, borrowed; NULL: none */
    simba_connection *connection; /* for await, drive, is_ready, forked */
    /* The rest is not the user's. */
    const char *scheme;
    void (*down)(void *, simba_connection *, const simba_error *);
    nghttp2_session *session; /* NULL: it is down */
    unsigned session_number;
    size_t heard; /* bytes of this session */
    bool is_greeted;
    char *token; /* NULL: none */
    simba__rpc authentication;
    simba_error why; /* not SIMBA_OK: it is to be broken */
};

/** Open it. Of the config's hooks `ready` and `down` count; their first
 * argument is `grpc`. */
int simba__grpc_open(simba__grpc *grpc,
                     const simba_connection_config *config,
                     simba_error *error);

/** End it, for `detach` of a backend: what is open is done, as by a connection
 * that breaks. Not from within done(). */
void simba__grpc_close(simba__grpc *grpc);

/** Begin a message: what to write it into. */
struct simba__text *simba__rpc_begin(simba__rpc *rpc);

/** Send the request that was written, now or when the connection is ready. */
void simba__rpc_submit(simba__grpc *grpc, simba__rpc *rpc);

/** Send what was written on a stream, which this opens if need be. False: there
 * is no connection or no memory. A stream that the server ends breaks the
 * connection; one whose connection breaks is told nothing: its user begins anew
 * with the next, when `ready` is called. */
bool simba__rpc_send(simba__grpc *grpc, simba__rpc *rpc);

/** Break the connection as soon as nobody is in it, for another server or
 * another token; also from within done(). Returns what callbacks of nghttp2 do
 * then. */
int simba__grpc_give_up(simba__grpc *grpc,
                        int code,
                        int native,
                        const char *words);

/** Nobody awaits it any more: done() is not called. Frees what it holds. */
void simba__rpc_fini(simba__rpc *rpc);

/** What a status of gRPC says of the request: SIMBA_EUNKNOWN, a code for what
 * surely had no effect, or SIMBA__GRPC_ELSEWHERE: it had none, and another
 * server or authentication will do. Pure. */
enum { SIMBA__GRPC_ELSEWHERE = 1 };
int simba__grpc_outcome(int status, const char *words);

#endif
