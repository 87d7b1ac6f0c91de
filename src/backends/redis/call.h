/* One operation on its way through the store. */
#ifndef SIMBA_REDIS_CALL_H
#define SIMBA_REDIS_CALL_H

#include "backends/redis/instance.h"
#include "backends/redis/script.h"

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

#endif
