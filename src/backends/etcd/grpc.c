#define _GNU_SOURCE
#include "backends/etcd/grpc.h"

#include "util/container.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PREFIX = 5, /* of a message: a flag, and its length */
    MESSAGE_MOST = 8 * 1024 * 1024,
    WINDOW = 1024 * 1024, /* what a server may send ahead */
    FRAME_HEADER = 9      /* of HTTP/2, in bytes */
};

/* What etcd says before it proposes a request to the others, or when it comes
 * to it and changes nothing, had no effect. "database space exceeded" is not
 * among it: the request that fills the quota is carried out, and answered so.
 */
int simba__grpc_outcome(int status, const char *words)
{
    static const struct {
        int status; /* of gRPC */
        const char *begins;
        int outcome;
    } known[] = {
        {2, "raft proposal dropped", SIMBA__GRPC_ELSEWHERE},
        {3, "etcdserver: revision of auth store", SIMBA__GRPC_ELSEWHERE},
        {3, "etcdserver: authentication failed", SIMBA_EDENIED},
        {3, "etcdserver: user name is empty", SIMBA_EDENIED}, /* no token */
        {3, "", SIMBA_EMISCONFIG}, /* invalid argument */
        {5, "", SIMBA_EUNAVAIL},   /* not found */
        {7, "", SIMBA_EDENIED},
        {8, "etcdserver: too many requests", SIMBA__GRPC_ELSEWHERE},
        {9, "etcdserver: not capable", SIMBA__GRPC_ELSEWHERE},
        {9, "etcdserver: rpc not supported",
         SIMBA__GRPC_ELSEWHERE},    /* learner */
        {9, "", SIMBA_EUNAVAIL},    /* failed precondition */
        {11, "", SIMBA_EUNAVAIL},   /* out of range: compacted */
        {12, "", SIMBA_EMISCONFIG}, /* unimplemented */
        {14, "etcdserver: no leader", SIMBA__GRPC_ELSEWHERE},
        {16, "", SIMBA__GRPC_ELSEWHERE}, /* unauthenticated: the token */
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].status == status &&
            strncmp(words, known[i].begins, strlen(known[i].begins)) == 0) {
            return known[i].outcome;
        }
    }
    return SIMBA_EUNKNOWN;
}

/* --- requests ------------------------------------------------------------ */

/* Is its stream of HTTP/2 open, on the connection there is? */
static bool is_open(const simba__rpc *rpc)
{
    return rpc->grpc != NULL && rpc->grpc->session != NULL &&
           rpc->stream_id != 0 &&
           rpc->session_number == rpc->grpc->session_number;
}

/* It is no longer ours. If the server still has it, it is cancelled there. */
static void forget(simba__rpc *rpc)
{
    simba__grpc *grpc = rpc->grpc;

    if (is_open(rpc)) {
        nghttp2_session_set_stream_user_data(grpc->session, rpc->stream_id,
                                             NULL); /* also if not sent yet */
        nghttp2_submit_rst_stream(grpc->session, NGHTTP2_FLAG_NONE,
                                  rpc->stream_id, NGHTTP2_CANCEL);
        simba_connection_write(grpc->connection, "", 0);
    }
    rpc->stream_id = 0;
    rpc->grpc = NULL;
}

static void finish(simba__rpc *rpc, int status, const simba_error *error)
{
    forget(rpc);
    if (status != SIMBA_OK) {
        rpc->reply = (simba__pb_bytes){"", 0};
    }
    rpc->done(rpc, status, error);
}

static void failed(simba_exchange *exchange,
                   int status,
                   const simba_error *error)
{
    simba__rpc *rpc = (simba__rpc *)exchange;
    simba__grpc *grpc = rpc->grpc;
    simba_error why = *error;

    if (why.native > 0) { /* of a socket, or of another's status */
        why.native = 0;
    }
    if (rpc->is_again) {
        forget(rpc);
        rpc->is_again = false;
        simba__rpc_submit(grpc, rpc);
    } else {
        finish(rpc, status, &why);
    }
}

// NOLINTNEXTLINE(readability-function-size): nghttp2's parameters
static ssize_t read_output(nghttp2_session *session,
                           int32_t stream_id,
                           uint8_t *room,
                           size_t size,
                           uint32_t *flags,
                           __attribute__((unused)) nghttp2_data_source *source,
                           __attribute__((unused)) void *self)
{
    simba__rpc *rpc = nghttp2_session_get_stream_user_data(session, stream_id);
    size_t count;

    if (rpc == NULL) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    count = rpc->output.length - rpc->sent;
    if (count == 0) {
        return NGHTTP2_ERR_DEFERRED;
    }
    count = count < size ? count : size;
    memcpy(room, rpc->output.bytes + rpc->sent, count);
    rpc->sent += count;
    if (rpc->sent == rpc->output.length && !rpc->is_stream) {
        *flags = NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)count;
}

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

/* Opens its stream of HTTP/2; flush() writes what that sends. */
static bool open_stream(simba__grpc *grpc, simba__rpc *rpc)
{
    nghttp2_data_provider body = {.read_callback = read_output};
    nghttp2_nv headers[8] = {
        header(":method", "POST"),
        header(":scheme", grpc->scheme),
        header(":path", rpc->method),
        header(":authority", simba_connection_where(grpc->connection)),
        header("te", "trailers"),
        header("content-type", "application/grpc"),
    };
    size_t count = 6;

    if (!rpc->is_leaderless) {
        headers[count++] = header("hasleader", "true");
    }
    if (grpc->token != NULL) {
        headers[count] = header("token", grpc->token);
        headers[count++].flags = NGHTTP2_NV_FLAG_NO_INDEX;
    }
    rpc->sent = rpc->input.length = 0;
    rpc->http_status = rpc->status = -1;
    rpc->is_again = false;
    rpc->words[0] = '\0';
    rpc->session_number = grpc->session_number;
    rpc->stream_id = rpc->output.is_failed
                         ? 0
                         : nghttp2_submit_request(grpc->session, NULL, headers,
                                                  count, &body, rpc);
    simba_connection_write(grpc->connection, "", 0);
    return rpc->stream_id > 0;
}

static bool send_rpc(simba_exchange *exchange,
                     __attribute__((unused)) simba_connection *connection)
{
    simba__rpc *rpc = (simba__rpc *)exchange;

    return open_stream(rpc->grpc, rpc);
}

struct simba__text *simba__rpc_begin(simba__rpc *rpc)
{
    if (rpc->sent == rpc->output.length || !is_open(rpc)) {
        rpc->sent = rpc->output.length = 0;
        rpc->output.is_failed = false;
    }
    rpc->message_at = rpc->output.length;
    simba__text_add(&rpc->output, "\0\0\0\0", PREFIX);
    return &rpc->output;
}

/* The length of the message is known now that it is written. */
static void end_message(simba__rpc *rpc)
{
    size_t length = rpc->output.length - rpc->message_at - PREFIX;

    for (size_t i = 1; i < PREFIX && !rpc->output.is_failed; i++) {
        rpc->output.bytes[rpc->message_at + i] =
            (char)(length >> (8 * (PREFIX - 1 - i)));
    }
}

void simba__rpc_submit(simba__grpc *grpc, simba__rpc *rpc)
{
    assert(rpc->grpc == NULL && !rpc->is_stream);
    end_message(rpc);
    rpc->grpc = grpc;
    rpc->exchange.send = send_rpc;
    rpc->exchange.failed = failed;
    simba_connection_submit(grpc->connection, &rpc->exchange);
}

bool simba__rpc_send(simba__grpc *grpc, simba__rpc *rpc)
{
    assert(rpc->is_stream);
    end_message(rpc);
    if (rpc->output.is_failed || grpc->session == NULL ||
        !simba_connection_is_ready(grpc->connection)) {
        return false;
    }
    if (is_open(rpc)) {
        nghttp2_session_resume_data(grpc->session, rpc->stream_id);
        simba_connection_write(grpc->connection, "", 0);
        return true;
    }
    rpc->grpc = grpc;
    return open_stream(grpc, rpc);
}

void simba__rpc_fini(simba__rpc *rpc)
{
    simba_exchange_cancel(&rpc->exchange);
    if (rpc->grpc != NULL) {
        forget(rpc);
    }
    simba__text_fini(&rpc->output);
    simba__text_fini(&rpc->input);
}

/* --- replies ------------------------------------------------------------- */

/* nghttp2 is not to be closed from within these, so that whoever wants the
 * connection broken only says why. */
int simba__grpc_give_up(simba__grpc *grpc,
                        int code,
                        int native,
                        const char *words)
{
    if (grpc->why.code == SIMBA_OK) {
        simba_error_set(&grpc->why, code, native, "%s", words);
    }
    simba_connection_write(grpc->connection, "", 0); /* flush() comes */
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

// NOLINTNEXTLINE(readability-function-size): nghttp2's parameters
static int on_header(nghttp2_session *session,
                     const nghttp2_frame *frame,
                     const uint8_t *name,
                     __attribute__((unused)) size_t name_length,
                     const uint8_t *value,
                     __attribute__((unused)) size_t value_length,
                     __attribute__((unused)) uint8_t flags,
                     __attribute__((unused)) void *self)
{
    simba__rpc *rpc =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    uint64_t number;

    if (rpc == NULL) {
        return 0;
    }
    if (strcmp((const char *)name, "grpc-message") == 0) {
        snprintf(rpc->words, sizeof rpc->words, "%s", (const char *)value);
    } else if (simba__text_number((const char *)value, 999, &number)) {
        if (strcmp((const char *)name, ":status") == 0) {
            rpc->http_status = (int)number;
        } else if (strcmp((const char *)name, "grpc-status") == 0) {
            rpc->status = (int)number;
        }
    }
    return 0;
}

/* Takes the next message of what has come. 0: it is not whole yet, -1: it will
 * never be one. */
static int next_message(simba__rpc *rpc, size_t *at)
{
    size_t left = rpc->input.length - *at, length;
    const unsigned char *prefix;

    if (left < PREFIX) {
        return 0;
    }
    prefix = (unsigned char *)rpc->input.bytes + *at;
    length = (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 |
             (size_t)prefix[3] << 8 | prefix[4];
    if (prefix[0] != 0 || length > MESSAGE_MOST) {
        return -1;
    }
    if (left - PREFIX < length) {
        return 0;
    }
    *at += PREFIX + length;
    rpc->reply = (simba__pb_bytes){(const char *)prefix + PREFIX, length};
    return simba__pb_read(rpc->reply).is_broken ? -1 : 1;
}

// NOLINTNEXTLINE(readability-function-size): nghttp2's parameters
static int on_data(nghttp2_session *session,
                   __attribute__((unused)) uint8_t flags,
                   int32_t stream_id,
                   const uint8_t *bytes,
                   size_t count,
                   void *self)
{
    simba__rpc *rpc = nghttp2_session_get_stream_user_data(session, stream_id);
    size_t at = 0;
    int rc = 0;

    if (rpc == NULL) {
        return 0;
    }
    simba__text_add(&rpc->input, (const char *)bytes, count);
    if (rpc->input.is_failed) {
        return simba__grpc_give_up(self, SIMBA_ENOMEM, 0, "out of memory");
    }
    while (rpc->is_stream && (rc = next_message(rpc, &at)) == 1) {
        rpc->done(rpc, SIMBA_OK, NULL);
        if (nghttp2_session_get_stream_user_data(session, stream_id) != rpc) {
            return 0; /* its user has ended it */
        }
    }
    memmove(rpc->input.bytes, rpc->input.bytes + at, rpc->input.length - at);
    rpc->input.length -= at;
    return rc < 0 || rpc->input.length > MESSAGE_MOST + PREFIX
               ? simba__grpc_give_up(self, SIMBA_EUNAVAIL, 0,
                                     "a message that is none")
               : 0;
}

/* What has become of a request: SIMBA_OK and the answer is read, a code, or
 * SIMBA__GRPC_ELSEWHERE. */
static int conclude(simba__rpc *rpc, uint32_t reset, const char **words)
{
    size_t at = 0;

    if (reset == NGHTTP2_REFUSED_STREAM) {
        *words = "the server refuses requests";
        return SIMBA__GRPC_ELSEWHERE;
    }
    *words = "no answer of gRPC";
    if (rpc->http_status != 200 || rpc->status < 0) {
        return SIMBA_EUNKNOWN;
    }
    if (rpc->status > 0) {
        *words = rpc->words;
        return simba__grpc_outcome(rpc->status, rpc->words);
    }
    if (rpc->is_stream) {
        *words = "the stream has ended";
        return SIMBA_EUNAVAIL;
    }
    return next_message(rpc, &at) == 1 ? SIMBA_OK : SIMBA_EUNKNOWN;
}

static int on_close(nghttp2_session *session,
                    int32_t stream_id,
                    uint32_t reset,
                    void *self)
{
    simba__grpc *grpc = self;
    simba__rpc *rpc = nghttp2_session_get_stream_user_data(session, stream_id);
    const char *words;
    simba_error error;
    int outcome, native;

    if (rpc == NULL) {
        return 0;
    }
    rpc->stream_id = 0;
    outcome = conclude(rpc, reset, &words);
    native = rpc->status < 0 ? 0 : rpc->status;
    if (outcome == SIMBA__GRPC_ELSEWHERE || rpc->is_stream) {
        simba__grpc_give_up(grpc, SIMBA_EUNAVAIL, native, words);
        if (!rpc->is_stream && !rpc->exchange.is_greeting) {
            rpc->is_again = true; /* when the connection breaks; see failed() */
            return 0;
        }
        outcome = SIMBA_EUNAVAIL;
    }
    simba_exchange_end(&rpc->exchange);
    simba_error_set(&error, outcome, native, "etcd %s: %s",
                    simba_connection_where(grpc->connection), words);
    finish(rpc, outcome, outcome == SIMBA_OK ? NULL : &error);
    return 0;
}

/* --- the connection ------------------------------------------------------ */

static void on_authenticated(simba__rpc *rpc,
                             int status,
                             const simba_error *error)
{
    simba__grpc *grpc = container_of(rpc, simba__grpc, authentication);
    simba__pb_bytes token = simba__pb_read(rpc->reply).bytes[2];

    explicit_bzero(rpc->output.bytes, rpc->output.length); /* the password */
    if (token.length > 0) {
        grpc->token = strndup(token.at, token.length);
    }
    if (grpc->token != NULL ||
        strstr(rpc->words, "authentication is not enabled") != NULL) {
        simba_connection_ready(grpc->connection);
    } else {
        simba__grpc_give_up(grpc,
                            status == SIMBA_OK || status == SIMBA_EUNKNOWN
                                ? SIMBA_EUNAVAIL
                                : status,
                            error == NULL ? 0 : error->native,
                            rpc->words[0] == '\0' ? "no token" : rpc->words);
    }
}

/* It speaks HTTP/2: say who we are. */
static void greet(simba__grpc *grpc)
{
    simba__rpc *rpc = &grpc->authentication;
    struct simba__text *who;

    if (grpc->user == NULL) {
        simba_connection_ready(grpc->connection);
        return;
    }
    rpc->method = SIMBA__ETCD_METHOD("Auth/Authenticate");
    rpc->done = on_authenticated;
    rpc->exchange.is_greeting = true;
    who = simba__rpc_begin(rpc);
    simba__pb_text(who, 1, grpc->user);
    simba__pb_text(who, 2, grpc->password == NULL ? "" : grpc->password);
    simba__rpc_submit(grpc, rpc);
}

static void forget_token(simba__grpc *grpc)
{
    if (grpc->token != NULL) {
        explicit_bzero(grpc->token, strlen(grpc->token));
        free(grpc->token);
        grpc->token = NULL;
    }
}

static void connected(void *self, simba_connection *connection)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
    };
    simba__grpc *grpc = self;
    nghttp2_session_callbacks *hooks = NULL;

    forget_token(grpc);
    grpc->is_greeted = false;
    grpc->heard = 0;
    grpc->session_number++;
    grpc->why.code = SIMBA_OK;
    if (nghttp2_session_callbacks_new(&hooks) == 0) {
        nghttp2_session_callbacks_set_on_header_callback(hooks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(hooks,
                                                                  on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(hooks, on_close);
        (void)nghttp2_session_client_new(&grpc->session, hooks, grpc);
        nghttp2_session_callbacks_del(hooks);
    }
    if (grpc->session == NULL ||
        nghttp2_submit_settings(grpc->session, NGHTTP2_FLAG_NONE, settings,
                                sizeof settings / sizeof *settings) != 0 ||
        nghttp2_session_set_local_window_size(grpc->session, NGHTTP2_FLAG_NONE,
                                              0, WINDOW) != 0) {
        simba_connection_break(connection, SIMBA_ENOMEM, 0, "out of memory");
    }
    simba_connection_write(connection, "", 0);
}

/* Breaks the connection if somebody wants that. */
static void settle(simba__grpc *grpc)
{
    simba_error why = grpc->why;

    if (why.code == SIMBA_OK &&
        !nghttp2_session_check_request_allowed(grpc->session)) {
        simba_error_set(&why, SIMBA_EUNAVAIL, 0, "%s",
                        grpc->is_greeted ? "the server goes away"
                                         : "the server does not speak HTTP/2");
    }
    if (why.code != SIMBA_OK) {
        simba_connection_break(grpc->connection, why.code, why.native, "%s",
                               why.message);
    }
}

static size_t received(void *self,
                       __attribute__((unused)) simba_connection *connection,
                       const char *bytes,
                       size_t size)
{
    simba__grpc *grpc = self;
    ssize_t rc =
        nghttp2_session_mem_recv(grpc->session, (const uint8_t *)bytes, size);

    if (rc < 0) {
        simba__grpc_give_up(grpc, SIMBA_EUNAVAIL, (int)rc,
                            nghttp2_strerror((int)rc));
    }
    grpc->heard += size;
    settle(grpc);
    if (grpc->session != NULL && !grpc->is_greeted &&
        grpc->heard >= FRAME_HEADER) { /* which was looked at */
        grpc->is_greeted = true;
        greet(grpc);
    }
    return size;
}

static void flush(void *self, simba_connection *connection)
{
    simba__grpc *grpc = self;
    const uint8_t *bytes;
    ssize_t count;

    while ((count = nghttp2_session_mem_send(grpc->session, &bytes)) > 0) {
        simba_connection_write(connection, bytes, (size_t)count);
    }
    if (count < 0) {
        simba__grpc_give_up(grpc, SIMBA_ENOMEM, (int)count,
                            nghttp2_strerror((int)count));
    }
    settle(grpc);
}

static void down(void *self,
                 simba_connection *connection,
                 const simba_error *why)
{
    simba__grpc *grpc = self;

    nghttp2_session_del(grpc->session);
    grpc->session = NULL;
    if (grpc->down != NULL) {
        grpc->down(grpc, connection, why);
    }
}

int simba__grpc_open(simba__grpc *grpc,
                     const simba_connection_config *config,
                     simba_error *error)
{
    simba_connection_config ours = *config;

    grpc->scheme = config->filter == NULL ? "http" : "https";
    grpc->down = config->down;
    ours.size = sizeof ours;
    ours.store = "etcd";
    ours.self = grpc;
    ours.connected = connected;
    ours.received = received;
    ours.down = down;
    ours.flush = flush;
    ours.has_pushes = true;
    return simba_connection_open(&ours, &grpc->connection, error);
}

void simba__grpc_close(simba__grpc *grpc)
{
    if (grpc->connection != NULL) {
        simba_connection_close(grpc->connection);
        nghttp2_session_del(grpc->session);
        grpc->session = NULL;
        grpc->connection = NULL;
    }
    simba__rpc_fini(&grpc->authentication);
    forget_token(grpc);
}
