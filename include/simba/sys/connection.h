/**
 * @file simba/sys/connection.h
 * For authors of backends: a connection to one of several servers, made again
 * whenever it breaks, and the requests that are sent over it.
 *
 * What is left to a store is its protocol: it writes bytes and is given bytes.
 * The connection finds the server, reconnects with growing pauses, goes on to
 * the next server when one fails or falls silent, keeps deadlines, and knows of
 * each request whether it was sent, which is what tells "failed" from "unknown"
 * (S8). It counts what it makes anew: simba_count_reconnect() is not for it.
 *
 *     RESOLVING -> CONNECTING -> [SECURING] -> connected() -> ready() -+
 *         ^                                                            |
 *         +------- down(), a pause, the next server <------------------+
 *
 * A store for a server that answers a line with a line, in order:
 *
 *     static bool send_ask(simba_exchange *e, simba_connection *c)
 *     {
 *         const struct ask *ask = (const struct ask *)e;
 *         return simba_connection_write(c, ask->line, strlen(ask->line));
 *     }
 *
 *     static size_t received(void *self, simba_connection *c,
 *                            const char *bytes, size_t size)
 *     {
 *         const char *end = memchr(bytes, '\n', size);
 *         simba_exchange *e;
 *
 *         if (end == NULL) {
 *             return 0; // come again with more
 *         }
 *         if (!simba_connection_take(c, &e)) {
 *             simba_connection_break(c, SIMBA_EMISCONFIG, 0, "nobody asked");
 *         } else if (e != NULL) { // NULL: too late for it
 *             answer((struct ask *)e, bytes, (size_t)(end - bytes));
 *         }
 *         return (size_t)(end + 1 - bytes);
 *     }
 *
 *     simba_connection_config config = {
 *         .size = sizeof config, .store = "lines", .loop = loop,
 *         .hosts = hosts, .host_count = 2, .self = store,
 *         .received = received};
 *     rc = simba_connection_open(&config, &store->connection, error);
 *     ...
 *     ask->exchange = (simba_exchange){.send = send_ask, .failed = ask_failed,
 *                                      .deadline_ms = request->deadline_ms,
 *                                      .is_driven = request->is_driven};
 *     simba_connection_submit(store->connection, &ask->exchange);
 *
 * Threads: everything here happens inside the loop, unless it says otherwise.
 *
 * Re-entrance: a hook, send() and failed() may call anything of this file but
 * simba_connection_drive(); also break and close the connection they are called
 * for. No hook and no failed() is called from
 * within open, submit, write, ready, end or cancel, but submit may call send();
 * break and close do call failed(), and break calls down(), before they return.
 * What is submitted while a connection is being closed fails at once.
 */
#ifndef SIMBA_SYS_CONNECTION_H
#define SIMBA_SYS_CONNECTION_H

#include <simba/error.h>
#include <simba/export.h>
#include <simba/log.h>
#include <simba/sys/backend.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

typedef struct simba_connection simba_connection;
typedef struct simba_exchange simba_exchange;

/* --- requests ------------------------------------------------------------ */

/**
 * One request on a connection, and its reply. Lives in its user's memory,
 * zeroed first; the user's again when it has ended, has failed or was
 * cancelled, and may be submitted again at once, for something else: from
 * failed(), or from received() after simba_connection_take(). Most have it as
 * the first member of a struct of their own.
 *
 * A simba_request that takes several exchanges, first a read and then a write,
 * is unknown only if one that writes is: of a read that fails as SIMBA_EUNKNOWN
 * it is completed with SIMBA_EUNAVAIL.
 */
struct simba_exchange {
    /**
     * MUST, or `text`. Write the request with simba_connection_write(), and set
     * `tag` where replies have one. Called once the connection is ready; again
     * on the next one if that breaks before a byte of it has left. It does not
     * end or cancel itself here.
     *
     * @return false: it cannot be written; what was written of it is taken
     *         back, and it fails as not sent
     */
    bool (*send)(simba_exchange *self, simba_connection *connection);
    /**
     * MUST. There will be no reply. Called exactly once, unless it has ended or
     * was cancelled before; it may be freed from here.
     *
     * @param status  SIMBA_EUNKNOWN: it was sent, and may have taken effect or
     *                may yet. Any other: it surely was not sent
     * @param error   says why, `status` is its code; borrowed
     */
    void (*failed)(simba_exchange *self, int status, const simba_error *error);
    int64_t deadline_ms; /**< boot clock, when it fails; 0: no deadline */
    uint64_t tag;        /**< the user's: for simba_connection_find() */
    /** Its caller comes to simba_connection_drive(), as of simba_request. */
    bool is_driven;
    /** Nobody awaits its reply: that it comes beside another is no sign that
     * several callers share the connection. */
    bool is_unheard;
    /** Sent while the server is being greeted: from connected() until
     * simba_connection_ready(). It fails when the connection breaks. */
    bool is_greeting;
    /** MAY be NULL: what is written where there is no send(). */
    const char *text;
    int64_t sent_ms; /**< told: when it was written last */

    /* The connection's own. */
    bool is_sent;      /**< written; what has left, it alone knows */
    int refusal;       /**< not 0: why it could not be written */
    uint32_t given_up; /**< replies due before its own that nobody awaits */
    simba_connection *connection; /**< NULL: it has ended */
    simba_exchange *next, **link;
    uint64_t offset; /**< where in the stream it begins */
    simba_timer timer;
    uint64_t reserved[2];
};

/**
 * Submit a request: it is sent now, or as soon as the connection is ready, in
 * the order of their submission. It fails at its deadline: as not sent, with
 * the reason why there is no connection, if it had to wait; else as unknown.
 */
SIMBA_API void simba_connection_submit(simba_connection *connection,
                                       simba_exchange *exchange);

/**
 * Whose reply is this? For servers that answer in the order of requests. The
 * exchange is taken out, as by simba_exchange_end().
 *
 * @param[out] exchange  NULL: it has failed at its deadline or was cancelled,
 *                       so that the reply is of no use
 * @return false: no reply is due
 */
SIMBA_API bool simba_connection_take(simba_connection *connection,
                                     simba_exchange **exchange);

/** The one that simba_connection_take() would take, which stays: for replies of
 * several parts. NULL: it was given up, or none is due. */
SIMBA_API simba_exchange *simba_connection_first(
    const simba_connection *connection);

/** The oldest with this tag that was sent, for servers that answer in any
 * order. NULL: there is none; perhaps its deadline has passed. It stays until
 * simba_exchange_end(). Looks through those that are older. */
SIMBA_API simba_exchange *simba_connection_find(
    const simba_connection *connection,
    uint64_t tag);

/** It was answered. Does nothing when it is no longer open. */
SIMBA_API void simba_exchange_end(simba_exchange *exchange);

/** Nobody awaits it any more: failed() is not called. If it was sent, its reply
 * is still due. Does nothing when it is no longer open. */
SIMBA_API void simba_exchange_cancel(simba_exchange *exchange);

/* --- filters of bytes, such as TLS --------------------------------------- */

/** What stands between a store's bytes and those on the wire. It touches no
 * socket. All MUST be there. */
typedef struct simba_connection_filter {
    uint32_t abi; /**< SIMBA_BACKEND_ABI */
    /** For one connection to this host. NULL: no memory. */
    void *(*open)(void *context, const char *host);
    /** Go on with the opening. 1: done, 0: more must come first, negative: a
     * code, with `error`, whose message is without store and host. */
    int (*handshake)(void *filter, simba_error *error);
    /** Take in what came over the wire. False: no memory. */
    bool (*feed)(void *filter, const char *bytes, size_t size);
    /** Plain bytes of what came: how many, at most `room`; 0: none yet,
     * negative: a code, with `error`. */
    int (*read)(void *filter, char *bytes, size_t room, simba_error *error);
    /** Take in plain bytes to be sent: all of them. False: it failed. */
    bool (*write)(void *filter, const char *bytes, size_t size);
    /** What is to go over the wire, after any of the others: how much, at most
     * `room`. */
    size_t (*drain)(void *filter, char *bytes, size_t room);
    void (*close)(void *filter);
} simba_connection_filter;

/* --- the connection ------------------------------------------------------ */

/** A server. */
typedef struct simba_connection_host {
    const char *name; /**< or an address, without brackets; or a path */
    int port;         /**< 0: the name is the path of a unix socket */
} simba_connection_host;

/** simba_connection_config.first_host: one chosen at random, so that not all
 * clients go to the same one. */
#define SIMBA_CONNECTION_ANY_HOST SIZE_MAX

/** What a connection is opened with; zeroed first. It is copied, and the hosts
 * with it; other texts are static. What is 0 has a default. Grows at the end.
 */
typedef struct simba_connection_config {
    uint32_t size;     /**< MUST: of this struct */
    const char *store; /**< MUST: its name, which begins messages */
    simba_loop *loop;  /**< MUST */
    const simba_connection_host *hosts; /**< MUST */
    size_t host_count;                  /**< MUST: one at least */
    size_t first_host;                  /**< which is tried first */
    void *self;                         /**< first argument of the hooks */

    /** MAY be NULL: the hosts are tried in turn. Called before each try: find
     * out where the server is now, and call simba_connection_aim() or
     * simba_connection_break(), here or later. */
    void (*aim)(void *self, simba_connection *connection);
    /** MAY be NULL: the connection is ready at once. It is connected: greet the
     * server, and call simba_connection_ready() when it has answered, here or
     * later. */
    void (*connected)(void *self, simba_connection *connection);
    /** MUST. Bytes have come: all that are not yet used, one at least.
     *
     * @return how many were used. The rest comes again with more: MAY be 0 when
     *         the bytes are the beginning of something. What is returned counts
     *         no more once the connection is broken. Called again at once if
     *         some were used and some are left */
    size_t (*received)(void *self,
                       simba_connection *connection,
                       const char *bytes,
                       size_t size);
    /** MAY be NULL. It is ready; what was submitted meanwhile is sent after
     * this, so that what is written here comes before it. Set watches again,
     * and simba_wake(): much may have happened meanwhile. */
    void (*ready)(void *self, simba_connection *connection);
    /** MAY be NULL. It broke, or could not be made. What was sent has failed;
     * what was not is sent to the next server. */
    void (*down)(void *self,
                 simba_connection *connection,
                 const simba_error *why);
    /** MAY be NULL. What was written is about to be sent: add to it. Called at
     * the end of each entry of the loop in which anything was written or
     * received, or simba_connection_write() was called with 0 bytes. */
    void (*flush)(void *self, simba_connection *connection);

    /** MAY be NULL: what breaks is told to `down` only. Else it is a warning,
     * of each server once, and there is a message when it is back. Who was
     * never connected is told by the requests that fail. */
    simba_log_fn log;
    void *log_user;

    const simba_connection_filter *filter; /**< MAY be NULL: plain bytes */
    void *filter_context;

    /** From the first step until it is ready; 3000. While there are others to
     * try, a third of it. */
    int64_t come_up_ms;
    /** Without a byte while a reply is due: it breaks; 2000. INT64_MAX: never.
     * Where none is due, TCP notices within ten seconds that the server has
     * vanished. A ping would see it sooner, and a server that hangs: for
     * waiters and observers it is not needed, who ask now and then themselves.
     */
    int64_t silence_ms;
    /** The first pause, and the longest, before a server is tried again; 10 and
     * 200. */
    int64_t pause_first_ms, pause_most_ms;
    /** The most bytes that are kept for received(); 16 MiB. A server that sends
     * more without their being used is disconnected. */
    size_t input_most;
    /** The most bytes that wait to be sent; 16 MiB. */
    size_t output_most;
    /** The server may send without being asked: the loop reads unless a caller
     * that drives awaits a reply. */
    bool has_pushes;
    /** Nothing is kept for a server that is not there: when each was tried in
     * vain, what is unsent fails, with the reason; what is submitted in the
     * pause then, when the next try is in vain as well. Else it waits for its
     * deadline. For backends with SIMBA_HAS_SERVER, which call simba_wake() in
     * ready(). */
    bool fails_unsent;
    /** MAY be NULL. Ends the message when the server hangs up before it is
     * ready, as in ": does it want TLS?". */
    const char *hang_up_hint;
    /** So many bytes of 0 are answered by a server that knows no filter, if
     * only by refusing them; 0: none are. One that says nothing to the filter's
     * greeting is sent them before it is given up, and the filter tells by the
     * answer what is wrong. */
    size_t bare_size;
    /** So long before the first try of all; 0: at once. For one connection
     * after another, each of which fails soon. */
    int64_t delay_ms;
} simba_connection_config;

/**
 * Open a connection. The first server is tried soon; no hook is called from
 * within. Inside the loop as all else: open() of a backend enters it for this.
 *
 * @return SIMBA_OK; SIMBA_ENOMEM; SIMBA_EMISUSE for what no config can be
 */
SIMBA_API SIMBA_MUST_USE int simba_connection_open(
    const simba_connection_config *config,
    simba_connection **connection,
    simba_error *error);

/** End it, for `detach` of a backend: what is open fails, down() is not called.
 * NULL does nothing. */
SIMBA_API void simba_connection_close(simba_connection *connection);

/** For `forked` of a backend: closes the descriptor of a child, and nothing
 * else; neither failed() nor a hook is called. The child has no more use for
 * the connection. */
SIMBA_API void simba_connection_forked(simba_connection *connection);

/** For aim(): try this host, which is copied. Does nothing if the connection is
 * not waiting to be told. */
SIMBA_API void simba_connection_aim(simba_connection *connection,
                                    const simba_connection_host *host);

/** The server has been greeted: the connection is fit for use. ready() is
 * called and requests are sent, soon. */
SIMBA_API void simba_connection_ready(simba_connection *connection);

/** Give this connection up and go on to the next server, after a pause. What
 * was sent fails as unknown.
 *
 * @param code    of enum simba_status: the reason, for those not sent in time
 * @param native  the store's own code, or 0
 * @param format  as printf: the reason in words, without store and server */
SIMBA_API void simba_connection_break(simba_connection *connection,
                                      int code,
                                      int native,
                                      const char *format,
                                      ...)
    __attribute__((format(printf, 4, 5)));

/**
 * Add to what is sent. All that is written in one entry of the loop goes out
 * together when it is left.
 *
 * @return false: there is no memory or no room, or the connection is not there.
 *         A send() returns false then; anywhere else it need not be looked at:
 *         a connection that lacks bytes breaks by itself
 */
SIMBA_API bool simba_connection_write(simba_connection *connection,
                                      const void *bytes,
                                      size_t size);

/** Let it be silent for so long from now on, as of `silence_ms`: where servers
 * say how long. */
SIMBA_API void simba_connection_silence(simba_connection *connection,
                                        int64_t silence_ms);

/** Is it connected, greeted and fit for use? */
SIMBA_API bool simba_connection_is_ready(const simba_connection *connection);

/** "host:port" or a path, of the server that it is connected to or tries, for
 * messages; valid until it breaks. */
SIMBA_API const char *simba_connection_where(
    const simba_connection *connection);

/** Why it broke last, or is not there yet. */
SIMBA_API const simba_error *simba_connection_why(
    const simba_connection *connection);

/**
 * What a backend with a connection does in drive(): a caller that awaits the
 * reply to a request of its own (is_driven), and nobody else's, reads it on its
 * own thread. The loop does not wait for input of the connection meanwhile.
 *
 *     simba_loop_enter(self->loop);
 *     goes_on = simba_connection_drive(store->connection, NULL, until_ms);
 *     simba_loop_leave(self->loop);
 *     return goes_on;
 *
 * @param also      MAY be NULL. Another connection of the same loop that is
 *                  read along, such as one for pushes
 * @param until_ms  as of drive(); 0: the caller leaves
 * @return as of drive(); true: something may have happened
 *
 * Threads: that of drive(), inside the loop, which is left while it waits.
 */
SIMBA_API bool simba_connection_drive(simba_connection *connection,
                                      simba_connection *also,
                                      int64_t until_ms);

SIMBA_END_DECLS

#endif
