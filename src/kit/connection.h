/* What the files of simba/sys/connection.h share. They are part of the library
 * itself, not of the modules, which find them there, and use nothing of it but
 * what backends may use, too, and the loop's messages. */
#ifndef SIMBA_KIT_CONNECTION_H
#define SIMBA_KIT_CONNECTION_H

#include <simba/sys/connection.h>

#include "kit/backoff.h"
#include "kit/lookup.h"
#include "runtime/loop.h"

enum {
    SIMBA__CONNECTION_WHERE = 100,
    /* A caller reads for itself again when so many replies in a row came one by
     * one to callers that waited. */
    SIMBA__CONNECTION_LONE_ENOUGH = 64,
};

enum simba__connection_state {
    SIMBA__CONNECTION_DOWN, /* between two tries */
    SIMBA__CONNECTION_RESOLVING,
    SIMBA__CONNECTION_CONNECTING,
    SIMBA__CONNECTION_SECURING,
    SIMBA__CONNECTION_GREETING,
    SIMBA__CONNECTION_READY,
};

/* Bytes on their way. */
struct simba__bytes {
    char *bytes;
    size_t done; /* of the first, so many are done with */
    size_t length;
    size_t room;
};

struct simba__exchanges {
    simba_exchange *first, **last;
};

struct simba_connection {
    simba_connection_config config; /* with its defaults; hosts are ours */
    size_t which;                   /* of the hosts */
    char where[SIMBA__CONNECTION_WHERE + 1];

    enum simba__connection_state state;
    bool is_closed;
    bool is_aiming;      /* aim() was called, and has not told where to */
    bool is_greeted;     /* ready was said, and not yet told */
    bool is_bare;        /* what it says without the filter was asked */
    bool was_up;         /* so the next time it is made anew */
    unsigned generation; /* grows whenever it breaks */
    int holds;           /* who works on it; it is not freed meanwhile */
    simba_error why;     /* it broke last */
    int logged;          /* the code of what was logged since it was up */

    /* Coming up. */
    simba_timer timer; /* the next try, its limit, or the end of silence */
    int64_t limit_ms, come_up_at_ms, ready_since_ms;
    struct simba__backoff backoff;
    size_t failures; /* since it was last good */
    simba__lookup *lookup;
    struct addrinfo *found, *trying;

    /* Bytes. */
    simba_io io;
    void *filter;                           /* NULL: none */
    struct simba__bytes input, plain, wire; /* wire: with a filter only */
    uint64_t gone;                          /* plain bytes that may have left */
    int torn; /* why something could not be written; 0: all was */
    struct simba__message post; /* to the loop: takes no memory to send */
    bool is_posted;

    /* Requests. */
    struct simba__exchanges unsent, sent, refused;
    size_t sent_count;
    uint32_t given_up;    /* replies due behind the last one sent */
    int64_t due_since_ms; /* silent, and a reply is due; 0: none is */
    bool is_driven;       /* a caller reads, not the loop */
    int lone_replies;     /* in a row, each to a caller that waited for it */
};

/* --- connection.c -------------------------------------------------------- */

void simba__connection_hold(simba_connection *conn);
/** The last one frees what is closed. */
void simba__connection_release(simba_connection *conn);

/** See to what is left to do before the loop is left. */
void simba__connection_post(simba_connection *conn);

/** Go on with the filter's handshake. */
void simba__connection_secure(simba_connection *conn);

/** Break it for what the filter said. */
void simba__connection_filter_failed(simba_connection *conn,
                                     const simba_error *why);

/** Set the timer for the end of a silence that is too long. */
void simba__connection_limit_silence(simba_connection *conn);

/** If the server has been greeted, say so and send what waits. */
void simba__connection_settle(simba_connection *conn);

/* --- connection_bytes.c -------------------------------------------------- */

/** Let the loop wait for what this connection waits for. A caller that drives
 * reads alone. */
void simba__connection_update_events(simba_connection *conn);

/** Send what was written, as far as the system takes it. */
void simba__connection_flush(simba_connection *conn);

/** Send bytes of 0 past the filter. */
void simba__connection_send_bare(simba_connection *conn, size_t size);

/** Read what has come, and give it to the store. Who calls it holds the
 * connection. */
void simba__connection_read(simba_connection *conn);

/** Why something could not be written, in words. */
const char *simba__connection_torn(int why);

/** Where in the stream the next byte is written. */
uint64_t simba__connection_offset(const simba_connection *conn);

/* --- exchange.c ---------------------------------------------------------- */

void simba__exchanges_init(simba_connection *conn);

/** It is ready: send those that wait. */
void simba__exchanges_send(simba_connection *conn);

/** It broke: what may have left fails as unknown, greetings fail, the rest
 * waits for the next connection. */
void simba__exchanges_break(simba_connection *conn);

/** Fail those that could not be written. */
void simba__exchanges_fail_refused(simba_connection *conn);

/** It is closed: fail all. */
void simba__exchanges_close(simba_connection *conn);

/* --- caller_thread.c ----------------------------------------------------- */

/** A request was written: its caller reads the reply if nothing overlaps; else
 * the loop does. */
void simba__connection_choose_reader(simba_connection *conn, bool is_driven);

#endif
