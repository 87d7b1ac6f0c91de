/* What is said and heard over a connection. */
#define _GNU_SOURCE
#include "backends/redis/conn.h"

#include "backends/redis/turn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { CHUNK = 16384, WORDS_MOST = 16, SILENCE_MS = 2000 };

/* --- saying -------------------------------------------------------------- */

bool simba__redis_conn_send(struct simba__redis_conn *conn,
                            const struct simba__redis_words *words,
                            struct simba__redis_ask *ask)
{
    char *command = NULL;
    int length = redisFormatCommandArgv(&command, words->count, words->text,
                                        words->length);
    bool is_added;

    assert(conn->state >= SIMBA__REDIS_GREETING);
    if (length < 0) {
        return false;
    }
    is_added = simba__redis_buffer_add(&conn->plain, command, (size_t)length);
    free(command);
    if (!is_added) {
        return false;
    }
    if (ask != NULL) {
        ask->next = NULL;
        *conn->last = ask;
        conn->last = &ask->next;
        if (conn->asks++ == 0) {
            conn->silent_since_ms = simba_loop_now_ms();
        }
    }
    simba__redis_turn_add(conn);
    return true;
}

bool simba__redis_conn_say(struct simba__redis_conn *conn,
                           struct simba__redis_ask *ask,
                           const char *const *words)
{
    const char *text[WORDS_MOST];
    size_t length[WORDS_MOST];
    struct simba__redis_words all = {0, text, length};

    while (words[all.count] != NULL) {
        assert(all.count < WORDS_MOST);
        text[all.count] = words[all.count];
        length[all.count] = strlen(words[all.count]);
        all.count++;
    }
    return simba__redis_conn_send(conn, &all, ask);
}

/* False: the connection broke. */
static bool write_out(struct simba__redis_conn *conn,
                      struct simba__redis_buffer *buffer)
{
    while (simba__redis_buffer_left(buffer) > 0) {
        ssize_t count =
            send(conn->io.fd, buffer->data + buffer->from,
                 simba__redis_buffer_left(buffer), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (count >= 0) {
            simba__redis_buffer_take(buffer, (size_t)count);
        } else if (errno == EAGAIN) {
            return true;
        } else if (errno != EINTR) {
            simba__redis_conn_fail(conn, SIMBA_EUNAVAIL, errno, "%s",
                                   strerror(errno));
            return false;
        }
    }
    return true;
}

void simba__redis_conn_flush(struct simba__redis_conn *conn)
{
    bool is_secure = conn->tls != NULL;

    if (conn->state < SIMBA__REDIS_SECURING) {
        return;
    }
    if (is_secure && conn->state != SIMBA__REDIS_SECURING &&
        !simba__redis_tls_write(conn->tls, &conn->plain, &conn->wire)) {
        simba__redis_conn_fail(conn, SIMBA_EUNAVAIL, 0, "TLS failed");
        return;
    }
    if (write_out(conn, is_secure ? &conn->wire : &conn->plain)) {
        simba__redis_conn_watch(conn);
    }
}

/* --- hearing ------------------------------------------------------------- */

static void note_solo(struct simba__redis_conn *conn, bool is_driven)
{
    if (!is_driven || conn->asks > 0) {
        conn->solo_streak = 0;
    } else if (conn->solo_streak < SIMBA__REDIS_SOLO_AFTER) {
        conn->solo_streak++;
    }
}

static void hear(struct simba__redis_conn *conn, const redisReply *reply)
{
    struct simba__redis_ask *ask = conn->first;

    if (!conn->is_answered && reply->type != REDIS_REPLY_ERROR) {
        simba__redis_conn_answered(conn);
    }
    if (conn->state == SIMBA__REDIS_READY && conn->hooks->heard != NULL) {
        conn->hooks->heard(conn, reply);
        return;
    }
    if (ask == NULL) {
        simba__redis_conn_fail(
            conn, SIMBA_EMISCONFIG, 0,
            "answers what was not asked (%.60s): is it a Redis server?",
            reply->str == NULL ? "" : reply->str);
        return;
    }
    conn->first = ask->next;
    if (conn->first == NULL) {
        conn->last = &conn->first;
    }
    conn->asks--;
    note_solo(conn, ask->is_driven);
    ask->answered(ask, reply, NULL);
}

/* False: the connection broke meanwhile. */
static bool hear_all(struct simba__redis_conn *conn)
{
    unsigned breaks = conn->breaks;

    for (;;) {
        void *reply = NULL;

        if (redisReaderGetReply(conn->reader, &reply) != REDIS_OK) {
            simba__redis_conn_fail(conn, SIMBA_EMISCONFIG, 0,
                                   "this is not a Redis server (%s)",
                                   conn->reader->errstr);
            return false;
        }
        if (reply == NULL) {
            return true;
        }
        hear(conn, reply);
        freeReplyObject(reply);
        if (conn->breaks != breaks) {
            return false;
        }
    }
}

static bool take_plain(struct simba__redis_conn *conn,
                       const char *bytes,
                       size_t count)
{
    if (redisReaderFeed(conn->reader, bytes, count) != REDIS_OK) {
        simba__redis_conn_fail(conn, SIMBA_ENOMEM, 0, "out of memory");
        return false;
    }
    return hear_all(conn);
}

static bool take_secure(struct simba__redis_conn *conn)
{
    char bytes[CHUNK];
    simba_error why;
    int count;

    while ((count = simba__redis_tls_read(conn->tls, bytes, CHUNK, &why)) > 0) {
        if (!take_plain(conn, bytes, (size_t)count)) {
            return false;
        }
    }
    if (count < 0) {
        simba__redis_conn_fail(conn, why.code, why.native, "%s", why.message);
        return false;
    }
    return true;
}

/* False: the connection broke meanwhile. */
static bool take(struct simba__redis_conn *conn,
                 const char *bytes,
                 size_t count)
{
    unsigned breaks = conn->breaks;

    if (conn->tls == NULL) {
        return take_plain(conn, bytes, count);
    }
    if (!simba__redis_tls_feed(conn->tls, bytes, count)) {
        simba__redis_conn_fail(conn, SIMBA_ENOMEM, 0, "out of memory");
        return false;
    }
    if (conn->state == SIMBA__REDIS_SECURING) {
        simba__redis_conn_shake(conn);
    }
    return conn->breaks == breaks &&
           (conn->state == SIMBA__REDIS_SECURING || take_secure(conn));
}

/* Who hangs up on our first words may have expected others. */
static void hung_up(struct simba__redis_conn *conn,
                    int native,
                    const char *words)
{
    bool is_odd = conn->state == SIMBA__REDIS_GREETING && conn->tls == NULL;

    simba__redis_conn_fail(conn, SIMBA_EUNAVAIL, native, "%s%s", words,
                           is_odd ? ": does it want TLS?" : "");
}

void simba__redis_conn_read(struct simba__redis_conn *conn)
{
    char bytes[CHUNK];
    ssize_t count;

    do {
        count = recv(conn->io.fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (count > 0) {
            conn->silent_since_ms = simba_loop_now_ms();
            if (!take(conn, bytes, (size_t)count)) {
                return;
            }
        }
    } while (count == CHUNK || (count < 0 && errno == EINTR));
    if (count == 0) {
        hung_up(conn, 0, "the server closed the connection");
    } else if (count < 0 && errno != EAGAIN) {
        hung_up(conn, errno, strerror(errno));
    }
}

void simba__redis_conn_suspect(struct simba__redis_conn *conn)
{
    int64_t silent_ms = simba_loop_now_ms() - conn->silent_since_ms;

    if (conn->asks > 0 && conn->state == SIMBA__REDIS_READY &&
        silent_ms >= SILENCE_MS) {
        simba__redis_conn_fail(conn, SIMBA_EUNAVAIL, 0, "silent for %d ms",
                               (int)silent_ms);
    }
}
