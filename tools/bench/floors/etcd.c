/* What a benchmark compares with: nghttp2 on a blocking socket, and none of our
 * code between but the messages' encoder. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include <simba/sys/bench.h>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PREFIX = 5 };

struct simba_floor {
    simba__etcd_settings settings;
    nghttp2_session *session;
    int fd;
    char key[512], watched[528];
    struct simba__text sending; /* one message, with its prefix */
    size_t sent;
    struct simba__text watching; /* what the stream of watches sends */
    size_t watch_sent;
    int32_t call, watch; /* streams */
    bool is_answered, is_watched, is_woken;
    struct simba__text received; /* on the stream of watches */
};

/* --- HTTP/2 -------------------------------------------------------------- */

/* NOLINTNEXTLINE(readability-function-size): nghttp2's parameters */
static ssize_t read_body(nghttp2_session *session,
                         int32_t stream,
                         uint8_t *room,
                         size_t size,
                         uint32_t *flags,
                         nghttp2_data_source *source,
                         void *self)
{
    simba_floor *floor = self;
    bool is_watch = source->ptr == &floor->watching;
    struct simba__text *text = source->ptr;
    size_t *sent = is_watch ? &floor->watch_sent : &floor->sent;
    size_t count = text->length - *sent < size ? text->length - *sent : size;

    (void)session;
    (void)stream;
    if (count == 0 && is_watch) {
        return NGHTTP2_ERR_DEFERRED;
    }
    memcpy(room, text->bytes + *sent, count);
    *sent += count;
    if (!is_watch && *sent == text->length) {
        *flags = NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)count;
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2's parameters */
static ssize_t on_send(nghttp2_session *session,
                       const uint8_t *bytes,
                       size_t size,
                       int flags,
                       void *self)
{
    (void)session;
    (void)flags;
    return send(((simba_floor *)self)->fd, bytes, size, MSG_NOSIGNAL);
}

/* Of the messages on the stream of watches only their kind counts. */
/* NOLINTNEXTLINE(readability-function-size): nghttp2's parameters */
static int on_data(nghttp2_session *session,
                   uint8_t flags,
                   int32_t stream,
                   const uint8_t *bytes,
                   size_t size,
                   void *self)
{
    simba_floor *floor = self;

    (void)session;
    (void)flags;
    if (stream != floor->watch) {
        return 0;
    }
    simba__text_add(&floor->received, (const char *)bytes, size);
    while (floor->received.length > PREFIX) {
        const unsigned char *at = (unsigned char *)floor->received.bytes;
        size_t length = (size_t)at[3] << 8 | at[4];
        simba__pb_fields reply;

        if (floor->received.length < PREFIX + length) {
            break;
        }
        reply = simba__pb_read(
            (simba__pb_bytes){(const char *)at + PREFIX, length});
        floor->is_watched |= reply.number[3] != 0; /* created */
        floor->is_woken |= reply.count[11] > 0;    /* events */
        floor->received.length -= PREFIX + length;
        memmove(floor->received.bytes, floor->received.bytes + PREFIX + length,
                floor->received.length);
    }
    return 0;
}

static int on_close(nghttp2_session *session,
                    int32_t stream,
                    uint32_t code,
                    void *self)
{
    simba_floor *floor = self;

    (void)session;
    (void)code;
    floor->is_answered |= stream == floor->call;
    return 0;
}

static int fail(simba_error *error, const char *why)
{
    return simba_error_set(error, SIMBA_EUNAVAIL, 0, "etcd: %s", why);
}

/* Sends what there is, and reads until this is true. */
static int run(simba_floor *floor, const bool *is_done, simba_error *error)
{
    uint8_t bytes[16384];

    do {
        ssize_t count;

        if (nghttp2_session_send(floor->session) != 0) {
            return fail(error, "cannot send");
        }
        if (*is_done) {
            break;
        }
        count = recv(floor->fd, bytes, sizeof bytes, 0);
        if (count <= 0 || nghttp2_session_mem_recv(floor->session, bytes,
                                                   (size_t)count) != count) {
            return fail(error, "the server closed the connection");
        }
    } while (!*is_done);
    return SIMBA_OK;
}

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static int32_t open_stream(simba_floor *floor,
                           const char *method,
                           struct simba__text *body)
{
    nghttp2_data_provider source = {.source.ptr = body,
                                    .read_callback = read_body};
    nghttp2_nv headers[] = {
        header(":method", "POST"), header(":scheme", "http"),
        header(":path", method),   header(":authority", "etcd"),
        header("te", "trailers"),  header("content-type", "application/grpc"),
    };

    return nghttp2_submit_request(floor->session, NULL, headers, 6, &source,
                                  NULL);
}

/* --- messages ------------------------------------------------------------ */

static void begin(struct simba__text *text)
{
    text->length = 0;
    simba__text_add(text, "\0\0\0\0", PREFIX);
}

static void end(struct simba__text *text)
{
    size_t length = text->length - PREFIX;

    text->bytes[3] = (char)(length >> 8);
    text->bytes[4] = (char)length;
}

static int call(simba_floor *floor, const char *method, simba_error *error)
{
    end(&floor->sending);
    floor->sent = 0;
    floor->is_answered = false;
    floor->call = open_stream(floor, method, &floor->sending);
    return run(floor, &floor->is_answered, error);
}

/* Put the key if it is not there: what an acquire cannot avoid. Fields of a
 * transaction: 1 conditions, 2 what is done then; the latter: 2 put, 3 delete.
 */
static int put(simba_floor *floor, const char *key, simba_error *error)
{
    struct simba__text *text = &floor->sending;
    size_t began, op;

    begin(text);
    began = simba__pb_begin(text, 1);
    simba__pb_number(text, 2, 1); /* its create revision is 0 */
    simba__pb_text(text, 3, key);
    simba__pb_end(text, began);
    began = simba__pb_begin(text, 2);
    op = simba__pb_begin(text, 2);
    simba__pb_text(text, 1, key);
    simba__pb_text(text, 2, "floor");
    simba__pb_end(text, op);
    simba__pb_end(text, began);
    return call(floor, SIMBA__ETCD_METHOD("KV/Txn"), error);
}

static int drop(simba_floor *floor, const char *key, simba_error *error)
{
    struct simba__text *text = &floor->sending;
    size_t began, op;

    begin(text);
    began = simba__pb_begin(text, 2);
    op = simba__pb_begin(text, 3);
    simba__pb_text(text, 1, key);
    simba__pb_end(text, op);
    simba__pb_end(text, began);
    return call(floor, SIMBA__ETCD_METHOD("KV/Txn"), error);
}

/* --- the floor ----------------------------------------------------------- */

static int connect_to(const simba_connection_host *host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct timeval patience = {.tv_sec = 10};
    char port[8];
    int fd = -1, on = 1;

    snprintf(port, sizeof port, "%d", host->port);
    if (getaddrinfo(host->name, port, &hints, &found) != 0) {
        return -1;
    }
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    }
    return fd;
}

static void close_floor(simba_floor *floor)
{
    nghttp2_session_del(floor->session);
    if (floor->fd > 0) {
        close(floor->fd);
    }
    simba__servers_fini(&floor->settings.servers);
    simba__text_fini(&floor->sending);
    simba__text_fini(&floor->watching);
    simba__text_fini(&floor->received);
}

static int open_floor(simba_floor *floor,
                      const char *url,
                      const char *mutex,
                      simba_error *error)
{
    nghttp2_session_callbacks *callbacks;
    int rc = simba__etcd_settings_init(&floor->settings, strchr(url, ':') + 1,
                                       error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (floor->settings.servers.tls.is_on ||
        floor->settings.servers.url.user != NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "etcd: no floor with TLS or a user");
    }
    snprintf(floor->key, sizeof floor->key, "%sfloor/%s",
             floor->settings.prefix, mutex);
    snprintf(floor->watched, sizeof floor->watched, "%s/watched", floor->key);
    floor->fd = connect_to(&floor->settings.servers.url.hosts[0]);
    if (floor->fd < 0 || nghttp2_session_callbacks_new(&callbacks) != 0) {
        return fail(error, "cannot connect");
    }
    nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks,
                                                              on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_client_new(&floor->session, callbacks, floor);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(floor->session, NGHTTP2_FLAG_NONE, NULL, 0);
    return drop(floor, floor->key, error);
}

static int pair(simba_floor *floor, simba_error *error)
{
    int rc = put(floor, floor->key, error);

    return rc == SIMBA_OK ? drop(floor, floor->key, error) : rc;
}

static int arm(simba_floor *floor, simba_error *error)
{
    int rc = put(floor, floor->watched, error);
    size_t began;

    floor->is_watched = floor->is_woken = false;
    begin(&floor->watching);
    began = simba__pb_begin(&floor->watching, 1);
    simba__pb_text(&floor->watching, 1, floor->watched);
    simba__pb_end(&floor->watching, began);
    end(&floor->watching);
    floor->watch_sent = 0;
    floor->received.length = 0;
    floor->watch =
        open_stream(floor, SIMBA__ETCD_METHOD("Watch/Watch"), &floor->watching);
    return rc == SIMBA_OK ? run(floor, &floor->is_watched, error) : rc;
}

static int notify(simba_floor *floor, simba_error *error)
{
    return drop(floor, floor->watched, error);
}

static int await(simba_floor *floor, simba_error *error)
{
    int rc = run(floor, &floor->is_woken, error);

    nghttp2_submit_rst_stream(floor->session, NGHTTP2_FLAG_NONE, floor->watch,
                              NGHTTP2_CANCEL);
    return rc == SIMBA_OK ? put(floor, floor->key, error) : rc;
}

const simba_floor_ops simba_floor_module = {SIMBA_FLOOR_ABI,
                                            sizeof(simba_floor),
                                            open_floor,
                                            close_floor,
                                            {pair, arm, notify, await}};
