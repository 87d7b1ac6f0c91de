/* The requests of a connection: which wait, which were sent, and what is known
 * of those that get no reply. See simba/sys/connection.h. */
#include "kit/connection.h"

#include "util/container.h"

#include <assert.h>

/* --- lists --------------------------------------------------------------- */

static struct simba__exchanges *list_of(const simba_exchange *e)
{
    simba_connection *conn = e->connection;

    return e->refusal != 0 ? &conn->refused
           : e->is_sent    ? &conn->sent
                           : &conn->unsent;
}

/* At the end, unless somewhere else is told. */
static void put(simba_exchange *e, simba_exchange **at)
{
    struct simba__exchanges *list = list_of(e);

    e->link = at == NULL ? list->last : at;
    e->next = *e->link;
    *e->link = e;
    *(e->next == NULL ? &list->last : &e->next->link) = &e->next;
}

static void take_out(simba_exchange *e)
{
    assert(*e->link == e);
    *e->link = e->next;
    *(e->next == NULL ? &list_of(e)->last : &e->next->link) = e->link;
}

static void take_out_sent(simba_exchange *e, uint32_t given_up)
{
    simba_connection *conn = e->connection;

    assert(e->is_sent && conn->sent_count > 0);
    conn->sent_count--;
    given_up += e->given_up;
    *(e->next == NULL ? &conn->given_up : &e->next->given_up) += given_up;
    take_out(e);
}

/* --- the end ------------------------------------------------------------- */

static void finish(simba_exchange *e, bool is_reply_due)
{
    simba_timer_clear(e->connection->config.loop, &e->timer);
    if (e->is_sent) {
        take_out_sent(e, is_reply_due ? 1 : 0);
    } else {
        take_out(e);
    }
    e->connection = NULL;
}

/* What is surely not sent has another reason than an unknown outcome. */
static void fail(simba_exchange *e, bool is_unknown, const simba_error *why)
{
    simba_error error = *why;

    if (is_unknown) {
        error.code = SIMBA_EUNKNOWN;
    } else if (error.code == SIMBA_OK || error.code == SIMBA_EUNKNOWN) {
        error.code = SIMBA_EUNAVAIL;
    }
    finish(e, true);
    e->failed(e, error.code, &error);
}

static void on_deadline(simba_timer *timer)
{
    simba_exchange *e = container_of(timer, simba_exchange, timer);
    const simba_connection *conn = e->connection;
    simba_error why = conn->why;

    if (e->is_sent) {
        simba_error_set(&why, SIMBA_EUNKNOWN, 0, "%s %s: no answer in time",
                        conn->config.store, conn->where);
    }
    fail(e, e->is_sent, &why);
}

void simba_exchange_end(simba_exchange *e)
{
    simba_connection *conn = e->connection;

    if (conn == NULL) {
        return;
    }
    finish(e, false);
    if (e->is_unheard) {
        return;
    }
    if (!e->is_driven || conn->sent_count > 0) {
        conn->lone_replies = 0;
    } else if (conn->lone_replies < SIMBA__CONNECTION_LONE_ENOUGH) {
        conn->lone_replies++;
    }
}

void simba_exchange_cancel(simba_exchange *e)
{
    if (e->connection != NULL) {
        finish(e, true);
    }
}

/* --- replies ------------------------------------------------------------- */

simba_exchange *simba_connection_first(const simba_connection *conn)
{
    simba_exchange *e = conn->sent.first;

    return e == NULL || e->given_up > 0 ? NULL : e;
}

bool simba_connection_take(simba_connection *conn, simba_exchange **exchange)
{
    simba_exchange *first = conn->sent.first;
    uint32_t *given_up = first == NULL ? &conn->given_up : &first->given_up;

    *exchange = NULL;
    if (*given_up > 0) {
        --*given_up;
        return true;
    }
    if (first != NULL) {
        *exchange = first;
        simba_exchange_end(first);
    }
    return first != NULL;
}

simba_exchange *simba_connection_find(const simba_connection *conn,
                                      uint64_t tag)
{
    simba_exchange *e = conn->sent.first;

    while (e != NULL && e->tag != tag) {
        e = e->next;
    }
    return e;
}

/* --- sending ------------------------------------------------------------- */

/* It is in the list of those sent before it is written, so that whoever breaks
 * the connection from within finds it there. */
static void send_exchange(simba_connection *conn, simba_exchange *e)
{
    unsigned generation = conn->generation;
    int was_torn = conn->torn;
    bool is_written;

    e->is_sent = true;
    e->offset = simba__connection_offset(conn);
    e->given_up = conn->given_up;
    conn->given_up = 0;
    conn->sent_count++;
    put(e, NULL);
    e->sent_ms = simba_loop_now_ms();
    is_written = e->send != NULL
                     ? e->send(e, conn)
                     : simba_connection_write(conn, e->text, strlen(e->text));
    if (conn->generation != generation) {
        return; /* broken: it waits for the next one, or has failed */
    }
    if (is_written) {
        simba__connection_post(conn);
        conn->due_since_ms =
            conn->due_since_ms == 0 ? simba_loop_now_ms() : conn->due_since_ms;
        if (conn->state == SIMBA__CONNECTION_READY && !conn->timer.is_set) {
            simba__connection_limit_silence(conn);
        }
        simba__connection_choose_reader(conn, e->is_driven);
        return;
    }
    take_out_sent(e, 0);
    e->is_sent = false;
    e->refusal = conn->torn != SIMBA_OK ? conn->torn : SIMBA_ENOMEM;
    put(e, NULL);
    conn->plain.length -= simba__connection_offset(conn) - e->offset;
    conn->torn = was_torn;
    simba__connection_post(conn);
}

void simba_connection_submit(simba_connection *conn, simba_exchange *e)
{
    assert((e->send != NULL || e->text != NULL) && e->failed != NULL);
    assert(e->connection == NULL);
    e->connection = conn;
    e->is_sent = false;
    e->refusal = SIMBA_OK;
    e->given_up = 0;
    e->timer.fire = on_deadline;
    if (e->deadline_ms != 0) {
        simba_timer_set(conn->config.loop, &e->timer, e->deadline_ms);
    }
    if (conn->state == SIMBA__CONNECTION_READY ||
        (e->is_greeting && conn->state == SIMBA__CONNECTION_GREETING)) {
        send_exchange(conn, e);
        return;
    }
    put(e, NULL);
    if (conn->is_closed) { /* and nobody would come back to it */
        fail(e, false, &conn->why);
    }
}

void simba__exchanges_send(simba_connection *conn)
{
    simba_exchange *e;

    while (conn->state == SIMBA__CONNECTION_READY &&
           (e = conn->unsent.first) != NULL) {
        take_out(e);
        send_exchange(conn, e);
    }
}

/* --- when it breaks ------------------------------------------------------ */

void simba__exchanges_init(simba_connection *conn)
{
    conn->unsent.last = &conn->unsent.first;
    conn->sent.last = &conn->sent.first;
    conn->refused.last = &conn->refused.first;
}

static bool may_have_left(const simba_exchange *e)
{
    return e->is_sent && e->connection->gone > e->offset;
}

static void fail_sent(simba_connection *conn)
{
    while (conn->sent.first != NULL) {
        fail(conn->sent.first, may_have_left(conn->sent.first), &conn->why);
    }
    conn->given_up = 0;
}

void simba__exchanges_break(simba_connection *conn)
{
    simba_exchange **at = &conn->unsent.first, *next;

    assert(conn->state == SIMBA__CONNECTION_DOWN);
    for (simba_exchange *e = conn->sent.first; e != NULL; e = next) {
        next = e->next;
        if (!may_have_left(e) && !e->is_greeting) {
            take_out_sent(e, 0);
            e->is_sent = false;
            e->given_up = 0;
            put(e, at);
            at = &e->next;
        }
    }
    fail_sent(conn);
    if (conn->config.fails_unsent &&
        conn->failures >= conn->config.host_count) {
        size_t count = 0;

        for (simba_exchange *e = conn->unsent.first; e != NULL; e = e->next) {
            count++;
        }
        /* What is submitted from within is for the next try. */
        for (; count > 0 && conn->unsent.first != NULL; count--) {
            fail(conn->unsent.first, false, &conn->why);
        }
    }
}

void simba__exchanges_fail_refused(simba_connection *conn)
{
    simba_exchange *e;
    simba_error why;

    while ((e = conn->refused.first) != NULL) {
        simba_error_set(&why, e->refusal, 0, "%s %s: %s", conn->config.store,
                        conn->where, simba__connection_torn(e->refusal));
        fail(e, false, &why);
    }
}

void simba__exchanges_close(simba_connection *conn)
{
    assert(conn->is_closed && conn->state == SIMBA__CONNECTION_DOWN);
    fail_sent(conn);
    simba__exchanges_fail_refused(conn);
    while (conn->unsent.first != NULL) {
        fail(conn->unsent.first, false, &conn->why);
    }
}
