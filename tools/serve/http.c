/* Connections, their limits, and who is answered what; see serve.h.
 *
 * A connection that has sent no whole request yet, or no further one, is idle:
 * it has IDLE_MS for it, however slowly it sends, and when there are too many
 * the one that has been so for longest gives way to a new one. So nobody who
 * asks is kept out by thousands that do not. A reply must have been taken
 * within REPLY_MS; events have no end, but see stream.c. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "serve/serve.h"
#include "util/file.h"

#include "serve_web.h"
#include <microhttpd.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    IDLE_MS = 10 * 1000,
    REPLY_MS = 30 * 1000,
    IDLE_MOST = 1000,
    REPLIES_MOST = 512, /* beyond them 503 */
    CONNECTIONS_MOST = 4000,
    DESCRIPTORS = 8000, /* that the system shall allow */
    CONNECTION_BYTES = 16 << 10,
    SILENCE_S = 20,
    BACKLOG = 1024,
    KEY_MOST = 1 << 20
};

/* --- connections --------------------------------------------------------- */

struct link {
    struct link *previous, *next;
    struct links *in;
    struct MHD_Connection *connection;
    int fd;
    int64_t since_ms;
};

/* In the order of their times. */
struct links {
    struct link *first, *last;
    size_t count;
};

static struct {
    pthread_mutex_t lock;
    struct links idle, replies, streams;
    struct simba__worker *passwords;
    struct simba__board *board;
    bool is_tls;
} http = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Under the lock; `to` NULL: it goes. */
static void move(struct link *link, struct links *to)
{
    struct links *from = link->in;

    if (from != NULL) {
        *(link->previous == NULL ? &from->first : &link->previous->next) =
            link->next;
        *(link->next == NULL ? &from->last : &link->next->previous) =
            link->previous;
        from->count--;
    }
    link->in = to;
    link->since_ms = simba__clock_ms();
    link->next = NULL;
    if (to != NULL) {
        link->previous = to->last;
        *(to->last == NULL ? &to->first : &to->last->next) = link;
        to->last = link;
        to->count++;
    }
}

static void put_into(struct MHD_Connection *connection, struct links *to)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    (void)pthread_mutex_lock(&http.lock);
    if (info != NULL && info->socket_context != NULL) {
        move(info->socket_context, to);
    }
    (void)pthread_mutex_unlock(&http.lock);
}

/* Its socket is closed by libmicrohttpd, after on_connection() was told. */
static void cut_first(const struct links *links)
{
    (void)shutdown(links->first->fd, SHUT_RDWR);
}

static void on_connection(void *user,
                          struct MHD_Connection *connection,
                          void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct link *link = *context;

    (void)user;
    (void)pthread_mutex_lock(&http.lock);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED && link != NULL) {
        move(link, NULL);
        free(link);
        *context = NULL;
    } else if (code == MHD_CONNECTION_NOTIFY_STARTED &&
               (link = calloc(1, sizeof *link)) != NULL) {
        link->connection = connection;
        link->fd = MHD_get_connection_info(connection,
                                           MHD_CONNECTION_INFO_CONNECTION_FD)
                       ->connect_fd;
        *context = link;
        if (http.idle.count >= IDLE_MOST) {
            cut_first(&http.idle);
            move(http.idle.first, &http.idle);
        }
        move(link, &http.idle);
    }
    (void)pthread_mutex_unlock(&http.lock);
}

static void sweep(struct links *links, int64_t before_ms)
{
    while (links->first != NULL && links->first->since_ms < before_ms) {
        cut_first(links);
        move(links->first, links); /* again, if that was in vain */
    }
}

void simba__http_sweep(void)
{
    int64_t now_ms = simba__clock_ms();

    (void)pthread_mutex_lock(&http.lock);
    sweep(&http.idle, now_ms - IDLE_MS);
    sweep(&http.replies, now_ms - REPLY_MS);
    (void)pthread_mutex_unlock(&http.lock);
}

size_t simba__http_count(void)
{
    size_t count;

    (void)pthread_mutex_lock(&http.lock);
    count = http.idle.count + http.replies.count + http.streams.count;
    (void)pthread_mutex_unlock(&http.lock);
    return count;
}

/* --- replies ------------------------------------------------------------- */

struct header {
    const char *name, *value;
};

static enum MHD_Result take_header(void *user,
                                   enum MHD_ValueKind kind,
                                   const char *name,
                                   const char *value)
{
    struct header *header = user;

    (void)kind;
    if (strcasecmp(name, header->name) == 0) {
        header->value = header->value != NULL || value == NULL ? "" : value;
    }
    return MHD_YES;
}

const char *simba__http_header(struct MHD_Connection *connection,
                               const char *name)
{
    struct header header = {.name = name};

    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, take_header,
                                    &header);
    return header.value;
}

/* Nothing from elsewhere, nothing inline, no text becomes HTML. */
static const char *const headers[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; "
     "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
     "frame-ancestors 'none'; require-trusted-types-for 'script'; "
     "trusted-types 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"}};

static enum MHD_Result send_reply(struct MHD_Connection *connection,
                                  int status,
                                  struct MHD_Response *response)
{
    enum MHD_Result rc;

    if (response == NULL) {
        return MHD_NO;
    }
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        (void)MHD_add_response_header(response, headers[i][0], headers[i][1]);
    }
    rc = status == MHD_HTTP_UNAUTHORIZED
             ? MHD_queue_basic_auth_fail_response(connection, "simba", response)
             : MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return rc;
}

static enum MHD_Result send_text(struct simba__ask *ask)
{
    size_t length = ask->reply.length;
    char *text = simba__text_take(&ask->reply);
    struct MHD_Response *response = MHD_create_response_from_buffer(
        text == NULL ? 0 : length, text, MHD_RESPMEM_MUST_FREE);

    if (response != NULL) {
        (void)MHD_add_response_header(response, "Content-Type", ask->type);
        (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    }
    if (response != NULL && ask->status == MHD_HTTP_SERVICE_UNAVAILABLE) {
        (void)MHD_add_response_header(response, "Retry-After", "2");
    }
    return send_reply(
        ask->connection,
        text == NULL ? MHD_HTTP_INTERNAL_SERVER_ERROR : ask->status, response);
}

static enum MHD_Result send_file(struct simba__ask *ask,
                                 const struct simba__web_file *file)
{
    const char *known = simba__http_header(ask->connection, "If-None-Match");
    char tag[24];
    bool is_known;
    struct MHD_Response *response;

    (void)snprintf(tag, sizeof tag, "\"%016llx\"",
                   (unsigned long long)simba__fnv64(file->bytes, file->size));
    is_known = known != NULL && strcmp(known, tag) == 0;
    response = MHD_create_response_from_buffer(is_known ? 0 : file->size,
                                               (void *)(uintptr_t)file->bytes,
                                               MHD_RESPMEM_PERSISTENT);
    if (response != NULL) {
        (void)MHD_add_response_header(response, "Content-Type", file->type);
        (void)MHD_add_response_header(response, "Cache-Control", "no-cache");
        (void)MHD_add_response_header(response, "ETag", tag);
    }
    return send_reply(ask->connection,
                      is_known ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, response);
}

static enum MHD_Result send_events(struct simba__ask *ask)
{
    struct MHD_Response *response = simba__stream_open(ask->connection);

    if (response == NULL) {
        simba__api_fail(ask, MHD_HTTP_SERVICE_UNAVAILABLE,
                        "too many pages are open; --max-pages allows more");
        return send_text(ask);
    }
    put_into(ask->connection, &http.streams);
    (void)MHD_add_response_header(response, "Content-Type",
                                  "text/event-stream; charset=utf-8");
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    (void)MHD_add_response_header(response, "X-Accel-Buffering", "no");
    return send_reply(ask->connection, MHD_HTTP_OK, response);
}

/* --- requests ------------------------------------------------------------ */

static void healthy(struct simba__ask *ask)
{
    bool is_alive = simba__stream_is_alive();

    ask->status = is_alive ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    ask->type = "text/plain; charset=utf-8";
    simba__text_put(&ask->reply, is_alive ? "ok\n" : "stuck\n");
}

static const struct route {
    const char *path;
    void (*answer)(struct simba__ask *ask);
    bool is_open; /* to everybody: it tells nothing */
    bool is_post;
} routes[] = {{"/healthz", healthy, true, false},
              {"/readyz", simba__api_ready, true, false},
              {"/metrics", simba__figures, false, false},
              {"/api/session", simba__api_session, false, false},
              {"/api/stores", simba__api_stores, false, false},
              {"/api/mutexes", simba__api_mutexes, false, false},
              {"/api/mutex", simba__api_mutex, false, false},
              {"/api/events", NULL, false, false},
              {"/api/break", simba__api_break, false, true}};

static const struct route *find_route(const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (strcmp(routes[i].path, path) == 0) {
            return &routes[i];
        }
    }
    return NULL;
}

static const struct simba__web_file *find_file(const char *path)
{
    for (size_t i = 0; i < sizeof simba__web / sizeof simba__web[0]; i++) {
        if (strcmp(simba__web[i].path, path) == 0) {
            return &simba__web[i];
        }
    }
    return NULL;
}

void simba__http_resume(struct simba__ask *ask)
{
    MHD_resume_connection(ask->connection);
}

static void check_password(struct simba__job *job)
{
    struct simba__ask *ask = (struct simba__ask *)job;

    ask->is_allowed = simba__access_check(ask->connection, ask->user);
    if (!ask->is_allowed) {
        simba__api_fail(ask, MHD_HTTP_UNAUTHORIZED,
                        "no such user and password");
    }
    simba__http_resume(ask);
}

/* May it be answered? Else it has been, or is being looked into. */
static bool is_allowed(struct simba__ask *ask)
{
    switch (ask->is_allowed ? SIMBA__ACCESS_YES
                            : simba__access_of(ask->connection, ask->user)) {
    case SIMBA__ACCESS_YES:
        return true;
    case SIMBA__ACCESS_NO:
        simba__api_fail(ask, MHD_HTTP_UNAUTHORIZED, "who are you?");
        return false;
    case SIMBA__ACCESS_CHECK:
        break;
    }
    ask->job.run = check_password;
    ask->is_posted = true;
    MHD_suspend_connection(ask->connection);
    if (!simba__worker_post(http.passwords, &ask->job)) {
        simba__api_fail(ask, MHD_HTTP_SERVICE_UNAVAILABLE,
                        "too many passwords are being checked");
        simba__http_resume(ask);
    }
    return false;
}

/* While a job has the request, its thread may write there, and even have had
 * it resumed already: then we are called again. */
static enum MHD_Result finish(struct simba__ask *ask)
{
    return ask->is_posted ? MHD_YES : send_text(ask);
}

/* The request is whole, or a job of it is done. */
static enum MHD_Result answer(struct simba__ask *ask,
                              const char *path,
                              const char *method)
{
    const struct route *route = find_route(path);
    const struct simba__web_file *file = find_file(path);
    bool is_get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;

    if (ask->status != 0) {
        return send_text(ask);
    }
    if (!simba__access_is_host(simba__http_header(ask->connection, "Host"))) {
        simba__api_fail(ask, MHD_HTTP_MISDIRECTED_REQUEST,
                        "this server is not known by that name; --host NAME "
                        "tells it");
    } else if (route == NULL && file == NULL) {
        simba__api_fail(ask, MHD_HTTP_NOT_FOUND, "there is nothing here");
    } else if (ask->is_too_long) {
        simba__api_fail(ask, MHD_HTTP_CONTENT_TOO_LARGE, "too long");
    } else if (route != NULL && route->is_post ? strcmp(method, "POST") != 0
                                               : !is_get) {
        simba__api_fail(ask, MHD_HTTP_METHOD_NOT_ALLOWED, "not in this way");
    } else if ((route == NULL || !route->is_open) && !is_allowed(ask)) {
        return finish(ask);
    } else if (file != NULL) {
        return send_file(ask, file);
    } else if (route->answer == NULL) {
        return send_events(ask);
    } else {
        route->answer(ask);
    }
    return finish(ask);
}

/* A reply that is not taken keeps its memory, so there are not too many. */
static void begin_reply(struct simba__ask *ask)
{
    size_t count;

    put_into(ask->connection, &http.replies);
    (void)pthread_mutex_lock(&http.lock);
    count = http.replies.count;
    (void)pthread_mutex_unlock(&http.lock);
    ask->is_begun = true;
    if (count > REPLIES_MOST) {
        simba__api_fail(ask, MHD_HTTP_SERVICE_UNAVAILABLE, "too busy");
    }
}

// NOLINTNEXTLINE(readability-function-size): libmicrohttpd's parameters
static enum MHD_Result on_request(void *user,
                                  struct MHD_Connection *connection,
                                  const char *path,
                                  const char *method,
                                  const char *version,
                                  const char *body,
                                  size_t *length,
                                  void **context)
{
    struct simba__ask *ask = *context;

    (void)user;
    (void)version;
    if (ask == NULL) {
        ask = calloc(1, sizeof *ask);
        *context = ask;
        if (ask == NULL) {
            return MHD_NO;
        }
        ask->connection = connection;
        ask->board = http.board;
        return MHD_YES;
    }
    if (*length > 0) {
        size_t room = SIMBA__BODY_MOST - ask->length;

        ask->is_too_long = ask->is_too_long || *length > room;
        if (!ask->is_too_long) {
            memcpy(ask->body + ask->length, body, *length);
            ask->length += *length;
        }
        *length = 0;
        return MHD_YES;
    }
    ask->is_posted = false; /* it is done, if there was one */
    if (!ask->is_begun) {
        begin_reply(ask);
    }
    return answer(ask, path, method);
}

static void on_completed(void *user,
                         struct MHD_Connection *connection,
                         void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct simba__ask *ask = *context;

    (void)user;
    (void)code;
    put_into(connection, &http.idle);
    if (ask != NULL) {
        simba__text_fini(&ask->reply);
        explicit_bzero(ask->body, sizeof ask->body);
        free(ask);
    }
    *context = NULL;
}

/* --- listening ----------------------------------------------------------- */

/* Takes "host:port", "[v6]:port" or ":port" apart, in place; false: it is
 * none. */
static bool split(char *text, const char **host, const char **port)
{
    char *colon = strrchr(text, ':');
    uint64_t number;

    if (colon == NULL || !simba__text_number(colon + 1, UINT16_MAX, &number)) {
        return false;
    }
    *colon = '\0';
    *port = colon + 1;
    *host = text;
    if (*text == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        *host = text + 1;
    } else if (strchr(text, ':') != NULL) {
        return false;
    }
    return true;
}

bool simba__http_is_address(const char *listen)
{
    char text[512];
    const char *host, *port;

    if (strncmp(listen, "unix:", 5) == 0) {
        return listen[5] != '\0'; /* else the kernel makes one for everybody */
    }
    (void)snprintf(text, sizeof text, "%s", listen);
    return split(text, &host, &port);
}

/* Any other name may point anywhere. */
bool simba__http_is_local(const char *listen)
{
    struct in_addr address;
    char text[512];
    const char *host, *port;

    if (strncmp(listen, "unix:", 5) == 0) {
        return true;
    }
    (void)snprintf(text, sizeof text, "%s", listen);
    return split(text, &host, &port) &&
           (strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
            (inet_pton(AF_INET, host, &address) == 1 &&
             ntohl(address.s_addr) >> 24 == 127));
}

static int listen_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    mode_t mask;
    int fd;

    if (strlen(path) >= sizeof address.sun_path) {
        simba__say("--listen unix:%s: the path is too long", path);
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    /* One that nobody listens on is left from an earlier run. */
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && lstat(path, &status) == 0 && S_ISSOCK(status.st_mode) &&
        connect(fd, (struct sockaddr *)&address, sizeof address) != 0 &&
        errno == ECONNREFUSED) {
        (void)unlink(path);
    }
    mask = umask(0117); /* for its owner and group */
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, BACKLOG) != 0) {
        simba__say("--listen unix:%s: %s", path, strerror(errno));
        if (fd >= 0) {
            (void)close(fd);
        }
        fd = -1;
    }
    (void)umask(mask);
    return fd;
}

static int listen_tcp(const char *given, const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    int on = 1, fd = -1;
    int rc = getaddrinfo(*host == '\0' ? NULL : host, port, &hints, &found);

    if (rc != 0) {
        simba__say("--listen %s: %s", given, gai_strerror(rc));
        return -1;
    }
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 ||
        listen(fd, BACKLOG) != 0) {
        simba__say("--listen %s: %s%s", given, strerror(errno),
                   errno == EADDRINUSE ? "; --listen ADDRESS:0 takes a free "
                                         "port"
                                       : "");
        if (fd >= 0) {
            (void)close(fd);
        }
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

static void show_url(int fd, const char *listen, char *url, size_t room)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    bool is_v6;

    if (strncmp(listen, "unix:", 5) == 0) {
        (void)snprintf(url, room, "%s", listen);
        return;
    }
    (void)getsockname(fd, (struct sockaddr *)&address, &length);
    (void)getnameinfo((struct sockaddr *)&address, length, host, sizeof host,
                      port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    is_v6 = strchr(host, ':') != NULL;
    (void)snprintf(url, room, "%s://%s%s%s:%s/", http.is_tls ? "https" : "http",
                   is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

static int open_socket(const char *listen)
{
    char text[512];
    const char *host, *port;

    if (strncmp(listen, "unix:", 5) == 0) {
        return listen_unix(listen + 5);
    }
    (void)snprintf(text, sizeof text, "%s", listen);
    return split(text, &host, &port) ? listen_tcp(listen, host, port) : -1;
}

static void allow_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < DESCRIPTORS) {
        limit.rlim_cur =
            limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* libmicrohttpd tells of each client that goes away. */
static void log_nothing(void *user, const char *format, va_list arguments)
{
    (void)user;
    (void)format;
    (void)arguments;
}

static bool read_pem(const char *option, const char *path, char **text)
{
    struct simba__file file;
    int rc = simba__file_read(&file, path, KEY_MOST);

    if (rc != 0) {
        simba__say("%s %s: %s", option, path, simba__file_problem(rc));
        return false;
    }
    *text = file.bytes; /* as long as the process lives */
    return true;
}

bool simba__http_start(struct simba__board *board,
                       const struct simba__listening *listening,
                       char *url,
                       size_t room)
{
    struct MHD_OptionItem options[12];
    size_t count = 0;
    char *cert = NULL, *key = NULL;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                     MHD_USE_ERROR_LOG;
    int fd;

    http.board = board;
    http.is_tls = listening->tls_cert != NULL;
    if (http.is_tls && (!read_pem("--tls-cert", listening->tls_cert, &cert) ||
                        !read_pem("--tls-key", listening->tls_key, &key))) {
        return false;
    }
    allow_descriptors();
    http.passwords = simba__worker_open(NULL, NULL);
    fd = open_socket(listening->listen);
    if (http.passwords == NULL || fd < 0) {
        return false;
    }
    options[count++] =
        (struct MHD_OptionItem){MHD_OPTION_LISTEN_SOCKET, fd, NULL};
    options[count++] = (struct MHD_OptionItem){MHD_OPTION_CONNECTION_LIMIT,
                                               CONNECTIONS_MOST, NULL};
    options[count++] = (struct MHD_OptionItem){
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, NULL};
    options[count++] =
        (struct MHD_OptionItem){MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_S, NULL};
    if (http.is_tls) {
        flags |= MHD_USE_TLS;
        options[count++] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, cert};
        options[count++] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, key};
    }
    options[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    if (MHD_start_daemon(flags, 0, NULL, NULL, on_request, NULL,
                         MHD_OPTION_EXTERNAL_LOGGER, log_nothing, NULL,
                         MHD_OPTION_NOTIFY_CONNECTION, on_connection, NULL,
                         MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
                         MHD_OPTION_ARRAY, options, MHD_OPTION_END) == NULL) {
        simba__say("cannot serve on %s%s", listening->listen,
                   http.is_tls ? ": are --tls-cert and --tls-key a pair, in "
                                 "PEM?"
                               : "");
        return false;
    }
    show_url(fd, listening->listen, url, room);
    return true;
}
