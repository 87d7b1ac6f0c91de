/* The bytes of a connection: those to be sent, and those that have come. See
 * simba/sys/connection.h. */
#define _GNU_SOURCE
#include "kit/connection.h"

#include "util/array.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    CHUNK = 16384,
    CHUNKS_MOST = 16,     /* read at once: others want to get on, too */
    KEPT_MOST = 4 * CHUNK /* of an empty buffer */
};

/* --- buffers ------------------------------------------------------------- */

static size_t left_in(const struct simba__bytes *buffer)
{
    return buffer->length - buffer->done;
}

static bool make_room(struct simba__bytes *buffer, size_t size)
{
    if (buffer->done > 0 && buffer->done >= buffer->length / 2) {
        memmove(buffer->bytes, buffer->bytes + buffer->done, left_in(buffer));
        buffer->length -= buffer->done;
        buffer->done = 0;
    }
    return size <= SIZE_MAX - buffer->length &&
           simba__array_reserve(&buffer->bytes, &buffer->room,
                                buffer->length + size, 1);
}

static void use_up(struct simba__bytes *buffer, size_t size)
{
    assert(size <= left_in(buffer));
    buffer->done += size;
    if (buffer->done == buffer->length) {
        buffer->done = buffer->length = 0;
    }
    if (buffer->length == 0 && buffer->room > KEPT_MOST) {
        free(buffer->bytes);
        *buffer = (struct simba__bytes){0};
    }
}

/* --- output -------------------------------------------------------------- */

void simba__connection_update_events(simba_connection *conn)
{
    bool has_output = left_in(&conn->plain) > 0 || left_in(&conn->wire) > 0;

    if (conn->state >= SIMBA__CONNECTION_SECURING) {
        simba_io_set(conn->config.loop, &conn->io,
                     (conn->is_driven ? 0 : (uint32_t)EPOLLIN) |
                         (has_output ? (uint32_t)EPOLLOUT : 0));
    }
}

/* Has the filter turn plain bytes into those of the wire. False: it broke. */
static bool filter_output(simba_connection *conn)
{
    const simba_connection_filter *filter = conn->config.filter;
    struct simba__bytes *plain = &conn->plain, *wire = &conn->wire;
    size_t size = left_in(plain), drained;

    if (size > 0 && conn->state >= SIMBA__CONNECTION_GREETING) {
        conn->gone += size;
        if (!filter->write(conn->filter, plain->bytes + plain->done, size)) {
            simba_connection_break(conn, SIMBA_EUNAVAIL, 0,
                                   "cannot be encrypted");
            return false;
        }
        use_up(plain, size);
    }
    do {
        if (!make_room(wire, CHUNK)) {
            simba_connection_break(conn, SIMBA_ENOMEM, 0, "out of memory");
            return false;
        }
        drained =
            filter->drain(conn->filter, wire->bytes + wire->length, CHUNK);
        assert(drained <= CHUNK);
        wire->length += drained;
    } while (drained > 0);
    return true;
}

void simba__connection_flush(simba_connection *conn)
{
    struct simba__bytes *buffer =
        conn->filter == NULL ? &conn->plain : &conn->wire;

    if (conn->state < SIMBA__CONNECTION_SECURING ||
        (conn->filter != NULL && !filter_output(conn))) {
        return;
    }
    while (left_in(buffer) > 0) {
        ssize_t count = send(conn->io.fd, buffer->bytes + buffer->done,
                             left_in(buffer), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (count >= 0) {
            conn->gone += conn->filter == NULL ? (uint64_t)count : 0;
            use_up(buffer, (size_t)count);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            simba_connection_break(conn, SIMBA_EUNAVAIL, errno, "%s",
                                   strerror(errno));
            return;
        }
    }
    simba__connection_update_events(conn);
}

void simba__connection_send_bare(simba_connection *conn, size_t size)
{
    struct simba__bytes *wire = &conn->wire;

    if (!make_room(wire, size)) {
        simba_connection_break(conn, SIMBA_ENOMEM, 0, "out of memory");
        return;
    }
    memset(wire->bytes + wire->length, 0, size);
    wire->length += size;
    simba__connection_flush(conn);
}

uint64_t simba__connection_offset(const simba_connection *conn)
{
    return conn->gone + left_in(&conn->plain);
}

const char *simba__connection_torn(int why)
{
    return why == SIMBA_ENOMEM ? "out of memory" : "too much waits to be sent";
}

bool simba_connection_write(simba_connection *conn,
                            const void *bytes,
                            size_t size)
{
    struct simba__bytes *plain = &conn->plain;
    size_t waiting = left_in(plain) + left_in(&conn->wire);

    if (conn->state < SIMBA__CONNECTION_GREETING) {
        return false;
    }
    simba__connection_post(conn);
    if (size > conn->config.output_most ||
        waiting > conn->config.output_most - size) {
        conn->torn = SIMBA_EUNAVAIL;
        return false;
    }
    if (!make_room(plain, size)) {
        conn->torn = SIMBA_ENOMEM;
        return false;
    }
    if (size > 0) {
        memcpy(plain->bytes + plain->length, bytes, size);
        plain->length += size;
    }
    return true;
}

/* --- input --------------------------------------------------------------- */

/* Gives what has come to the store. False: the connection broke. */
static bool deliver(simba_connection *conn)
{
    const simba_connection_config *config = &conn->config;
    struct simba__bytes *input = &conn->input;
    unsigned generation = conn->generation;
    size_t used = 1;

    while (used > 0 && left_in(input) > 0) {
        used = config->received(config->self, conn, input->bytes + input->done,
                                left_in(input));
        if (conn->generation == generation) {
            use_up(input, used);
            simba__connection_settle(conn);
        }
        if (conn->generation != generation) {
            return false;
        }
    }
    if (left_in(input) > config->input_most) {
        simba_connection_break(conn, SIMBA_EMISCONFIG, 0,
                               "sends more than %zu bytes at once",
                               config->input_most);
        return false;
    }
    return true;
}

/* False: the connection broke. */
static bool filter_input(simba_connection *conn, const char *bytes, size_t size)
{
    const simba_connection_filter *filter = conn->config.filter;
    unsigned generation = conn->generation;
    struct simba__bytes *input = &conn->input;
    simba_error why;
    int count;

    simba__connection_post(conn); /* it may have something to say to that */
    if (!filter->feed(conn->filter, bytes, size)) {
        simba_connection_break(conn, SIMBA_ENOMEM, 0, "out of memory");
        return false;
    }
    if (conn->state == SIMBA__CONNECTION_SECURING) {
        simba__connection_secure(conn);
    }
    if (conn->generation != generation ||
        conn->state == SIMBA__CONNECTION_SECURING) {
        return conn->generation == generation;
    }
    do {
        if (!make_room(input, CHUNK)) {
            simba_connection_break(conn, SIMBA_ENOMEM, 0, "out of memory");
            return false;
        }
        count = filter->read(conn->filter, input->bytes + input->length, CHUNK,
                             &why);
        input->length += count > 0 ? (size_t)count : 0;
        if (count > 0 && !deliver(conn)) {
            return false;
        }
    } while (count > 0);
    if (count < 0) {
        simba__connection_filter_failed(conn, &why);
    }
    return count == 0;
}

void simba__connection_read(simba_connection *conn)
{
    char bytes[CHUNK];
    ssize_t count;
    int chunks = 0;

    do {
        count = recv(conn->io.fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (count <= 0) {
            continue;
        }
        if (conn->filter != NULL) {
            if (!filter_input(conn, bytes, (size_t)count)) {
                return;
            }
        } else if (!make_room(&conn->input, (size_t)count)) {
            simba_connection_break(conn, SIMBA_ENOMEM, 0, "out of memory");
            return;
        } else {
            memcpy(conn->input.bytes + conn->input.length, bytes,
                   (size_t)count);
            conn->input.length += (size_t)count;
            if (!deliver(conn)) {
                return;
            }
        }
        conn->due_since_ms = conn->sent_count > 0 ? simba_loop_now_ms() : 0;
        if (conn->config.flush != NULL) {
            simba__connection_post(conn);
        }
    } while ((count == CHUNK && ++chunks < CHUNKS_MOST) ||
             (count < 0 && errno == EINTR));
    if (count == 0 || (count < 0 && errno != EAGAIN)) {
        const char *hint = conn->state == SIMBA__CONNECTION_GREETING
                               ? conn->config.hang_up_hint
                           : conn->state == SIMBA__CONNECTION_SECURING
                               ? ": does it speak TLS?"
                               : NULL;

        simba_connection_break(
            conn, SIMBA_EUNAVAIL, count == 0 ? 0 : errno, "%s%s",
            count == 0 ? "the server closed the connection" : strerror(errno),
            hint == NULL ? "" : hint);
    }
}
