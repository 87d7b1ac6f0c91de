/* A connection to one of several servers: found, connected, secured, greeted,
 * and made again when it breaks. See simba/sys/connection.h. */
#define _GNU_SOURCE
#include "kit/connection.h"

#include "core/saturate.h"
#include "kit/log.h"
#include "kit/url.h"
#include "util/container.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    COME_UP_MS = 3000,
    SILENCE_MS = 2000,
    BARE_MS = 500, /* to answer what is not filtered */
    PAUSE_FIRST_MS = 10,
    PAUSE_MOST_MS = 200,
    BYTES_MOST = 16 * 1024 * 1024,
    LOST_MS = 5000, /* a server that vanished is noticed within this time */
};

/* --- holding ------------------------------------------------------------- */

static void destroy(simba_connection *conn)
{
    for (size_t i = 0; i < conn->config.host_count; i++) {
        free((char *)conn->config.hosts[i].name);
    }
    free((simba_connection_host *)conn->config.hosts);
    free(conn->input.bytes);
    free(conn->plain.bytes);
    free(conn->wire.bytes);
    free(conn);
}

void simba__connection_hold(simba_connection *conn)
{
    conn->holds++;
}

void simba__connection_release(simba_connection *conn)
{
    assert(conn->holds > 0);
    if (--conn->holds == 0 && conn->is_closed) {
        destroy(conn);
    }
}

static void say(const simba_connection *conn,
                enum simba_log_level level,
                const char *words)
{
    const simba_connection_config *config = &conn->config;
    struct simba__log log = {config->log, config->log_user, config->store};

    if (config->log != NULL) {
        simba__log(&log, level, "%s %s: %s", config->store, conn->where, words);
    }
}

/* --- what is done before the loop is left -------------------------------- */

void simba__connection_limit_silence(simba_connection *conn)
{
    simba_timer_set(
        conn->config.loop, &conn->timer,
        simba__add_saturating(conn->due_since_ms, conn->config.silence_ms));
}

void simba__connection_settle(simba_connection *conn)
{
    const simba_connection_config *config = &conn->config;
    unsigned generation = conn->generation;

    if (!conn->is_greeted) {
        return;
    }
    assert(conn->state == SIMBA__CONNECTION_GREETING);
    conn->is_greeted = false;
    conn->state = SIMBA__CONNECTION_READY;
    conn->ready_since_ms = simba_loop_now_ms();
    conn->lone_replies = INT_MAX; /* until something overlaps */
    if (conn->due_since_ms == 0) {
        simba_timer_clear(config->loop, &conn->timer);
    } else {
        simba__connection_limit_silence(conn);
    }
    if (conn->logged != SIMBA_OK) {
        conn->logged = SIMBA_OK;
        say(conn, SIMBA_LOG_INFO, "back again");
    }
    if (config->ready != NULL) {
        config->ready(config->self, conn);
    }
    if (conn->generation == generation) {
        if (conn->was_up) {
            simba_count_reconnect(config->loop);
        }
        conn->was_up = true;
        simba__exchanges_send(conn);
    }
}

static void run_post(struct simba__message *message)
{
    simba_connection *conn = container_of(message, simba_connection, post);
    const simba_connection_config *config = &conn->config;

    simba__connection_settle(conn);
    simba__exchanges_fail_refused(conn);
    if (conn->state >= SIMBA__CONNECTION_GREETING && config->flush != NULL) {
        config->flush(config->self, conn);
    }
    if (conn->torn != SIMBA_OK) {
        simba_connection_break(conn, conn->torn, 0, "%s",
                               simba__connection_torn(conn->torn));
    }
    simba__connection_flush(conn);
    conn->is_posted = false;
    if (conn->refused.first != NULL || conn->is_greeted) {
        simba__connection_post(conn); /* they came since */
    }
    simba__connection_release(conn);
}

void simba__connection_post(simba_connection *conn)
{
    if (!conn->is_posted) {
        conn->is_posted = true;
        simba__connection_hold(conn);
        conn->post.run = run_post;
        simba__loop_send(conn->config.loop, &conn->post);
    }
}

void simba_connection_ready(simba_connection *conn)
{
    if (conn->state == SIMBA__CONNECTION_GREETING) {
        conn->is_greeted = true;
        simba__connection_post(conn);
    }
}

/* --- coming down --------------------------------------------------------- */

static void close_socket(simba_connection *conn)
{
    if (conn->io.fd >= 0) {
        simba_io_clear(conn->config.loop, &conn->io);
        close(conn->io.fd);
        conn->io.fd = -1;
    }
}

static void drop(simba_connection *conn)
{
    simba_timer_clear(conn->config.loop, &conn->timer);
    simba__lookup_cancel(conn->lookup);
    conn->lookup = NULL;
    if (conn->found != NULL) {
        freeaddrinfo(conn->found);
        conn->found = conn->trying = NULL;
    }
    close_socket(conn);
    if (conn->filter != NULL) {
        conn->config.filter->close(conn->filter);
        conn->filter = NULL;
    }
    /* Not freed: whoever breaks it may still look at what has come. */
    conn->input.done = conn->input.length = 0;
    conn->plain.done = conn->plain.length = 0;
    conn->wire.done = conn->wire.length = 0;
    conn->state = SIMBA__CONNECTION_DOWN;
    conn->is_aiming = conn->is_greeted = conn->is_driven = false;
    conn->torn = SIMBA_OK;
    conn->due_since_ms = 0;
    conn->generation++;
}

/* Who breaks right after it was ready is waited for longer and longer, too. */
static int64_t next_try_ms(simba_connection *conn, bool was_ready)
{
    const simba_connection_config *config = &conn->config;
    int64_t now_ms = simba_loop_now_ms();

    if (was_ready && now_ms - conn->ready_since_ms > config->pause_most_ms) {
        conn->failures = 0;
        simba__backoff_reset(&conn->backoff);
    }
    conn->failures++;
    return conn->failures % config->host_count == 0
               ? simba__backoff_until(&conn->backoff)
               : now_ms + config->pause_first_ms;
}

void simba_connection_break(simba_connection *conn,
                            int code,
                            int native,
                            const char *format,
                            ...)
{
    const simba_connection_config *config = &conn->config;
    bool was_ready = conn->state == SIMBA__CONNECTION_READY;
    char words[160];
    va_list arguments;

    if (conn->state == SIMBA__CONNECTION_DOWN) {
        return;
    }
    assert(code != SIMBA_OK);
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    simba__connection_hold(conn);
    drop(conn);
    simba_error_set(&conn->why, code, native, "%s %s: %s", config->store,
                    conn->where, words);
    simba_timer_set(config->loop, &conn->timer, next_try_ms(conn, was_ready));
    conn->which = (conn->which + 1) % config->host_count;
    if (conn->was_up &&
        (conn->failures <= config->host_count || conn->logged != code)) {
        conn->logged = code;
        say(conn, SIMBA_LOG_WARN, words);
    }
    simba__exchanges_break(conn);
    if (!conn->is_closed && config->down != NULL) {
        simba_error why = conn->why;

        config->down(config->self, conn, &why);
    }
    simba__connection_release(conn);
}

/* --- coming up ----------------------------------------------------------- */

static void begin_greeting(simba_connection *conn)
{
    const simba_connection_config *config = &conn->config;

    conn->state = SIMBA__CONNECTION_GREETING;
    simba_timer_set(config->loop, &conn->timer, conn->come_up_at_ms);
    simba__connection_update_events(conn);
    if (config->connected == NULL) {
        conn->is_greeted = true;
    } else {
        config->connected(config->self, conn);
    }
    simba__connection_settle(conn);
}

/* Who was slow and has been sent what no filter made refuses that, and not us.
 */
void simba__connection_filter_failed(simba_connection *conn,
                                     const simba_error *why)
{
    bool is_ours = conn->is_bare && why->code == SIMBA_EDENIED;

    simba_connection_break(conn, is_ours ? SIMBA_EUNAVAIL : why->code,
                           why->native, "%s", why->message);
}

void simba__connection_secure(simba_connection *conn)
{
    simba_error why;
    int rc = conn->config.filter->handshake(conn->filter, &why);

    simba__connection_post(conn); /* what it wants to be sent */
    if (rc < 0) {
        simba__connection_filter_failed(conn, &why);
    } else if (rc == 1) {
        begin_greeting(conn);
    } else {
        simba__connection_update_events(conn);
    }
}

/* A socket that is connected or about to be. Returns 0 or errno. */
static int open_socket(simba_connection *conn,
                       int family,
                       const struct sockaddr *where,
                       socklen_t size)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, LOST_MS / 1000},
        {IPPROTO_TCP, TCP_KEEPINTVL, 2},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, LOST_MS},
    };
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int problem = fd < 0 ? errno : 0;

    for (size_t i = 0;
         fd >= 0 && family != AF_UNIX && i < sizeof options / sizeof options[0];
         i++) {
        /* Where the system has no such option, it goes without. */
        (void)setsockopt(fd, options[i].level, options[i].name,
                         &options[i].value, sizeof options[i].value);
    }
    if (fd >= 0 && connect(fd, where, size) < 0 && errno != EINPROGRESS) {
        problem = errno;
        close(fd);
        fd = -1;
    }
    conn->io.fd = fd;
    return problem;
}

/* Each address has its share of the time: one that swallows everything must not
 * keep us from the others. */
static void limit_address(simba_connection *conn)
{
    int64_t now_ms = simba_loop_now_ms();
    int left = 1;

    for (const struct addrinfo *a = conn->trying; a != NULL; a = a->ai_next) {
        left++;
    }
    simba_timer_set(conn->config.loop, &conn->timer,
                    now_ms + (conn->come_up_at_ms - now_ms) / left);
}

/* Starts to connect to the next address, or to the socket's path. */
static void try_next_address(simba_connection *conn)
{
    const simba_connection_host *host = &conn->config.hosts[conn->which];
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    size_t length = strlen(host->name);
    int problem = ECONNREFUSED;

    close_socket(conn);
    conn->state = SIMBA__CONNECTION_CONNECTING;
    if (host->port != 0) {
        while (problem != 0 && conn->trying != NULL) {
            const struct addrinfo *to = conn->trying;

            conn->trying = to->ai_next;
            problem =
                open_socket(conn, to->ai_family, to->ai_addr, to->ai_addrlen);
        }
    } else if (length >= sizeof path.sun_path) {
        problem = ENAMETOOLONG;
    } else {
        memcpy(path.sun_path, host->name, length + 1);
        problem = open_socket(conn, AF_UNIX, (const struct sockaddr *)&path,
                              sizeof path);
    }
    if (problem == 0 && !simba_io_set(conn->config.loop, &conn->io, EPOLLOUT)) {
        problem = errno;
    }
    if (problem == 0) {
        limit_address(conn);
    } else {
        simba_connection_break(
            conn, problem == EACCES ? SIMBA_EDENIED : SIMBA_EUNAVAIL, problem,
            "%s", strerror(problem));
    }
}

/* The system has connected us, or has failed to. */
static void check_connected(simba_connection *conn)
{
    const simba_connection_config *config = &conn->config;
    int problem = 0;
    socklen_t size = sizeof problem;

    if (getsockopt(conn->io.fd, SOL_SOCKET, SO_ERROR, &problem, &size) < 0) {
        problem = errno;
    }
    if (problem != 0 && conn->trying != NULL) {
        try_next_address(conn);
    } else if (problem != 0) {
        simba_connection_break(conn, SIMBA_EUNAVAIL, problem, "%s",
                               strerror(problem));
    } else if (config->filter == NULL) {
        begin_greeting(conn);
    } else {
        conn->state = SIMBA__CONNECTION_SECURING;
        simba_timer_set(config->loop, &conn->timer, conn->come_up_at_ms);
        conn->filter = config->filter->open(config->filter_context,
                                            config->hosts[conn->which].name);
        if (conn->filter == NULL) {
            simba_connection_break(conn, SIMBA_ENOMEM, 0, "out of memory");
        } else {
            simba__connection_secure(conn);
        }
    }
}

static void on_found(void *self, struct addrinfo *list, int problem)
{
    simba_connection *conn = self;

    simba__connection_hold(conn);
    conn->lookup = NULL;
    conn->found = conn->trying = list;
    if (list == NULL) {
        simba_connection_break(conn, SIMBA_EUNAVAIL,
                               simba__lookup_native(problem), "%s",
                               gai_strerror(problem));
    } else {
        try_next_address(conn);
    }
    simba__connection_release(conn);
}

/* While there are others that were not tried, none is given much time. */
static void begin_try(simba_connection *conn)
{
    const simba_connection_config *config = &conn->config;
    bool has_others = conn->failures + 1 < config->host_count;

    conn->gone = 0;
    conn->is_bare = false;
    conn->state = SIMBA__CONNECTION_RESOLVING;
    conn->limit_ms = has_others ? config->come_up_ms / 3 : config->come_up_ms;
    conn->come_up_at_ms = simba_loop_now_ms() + conn->limit_ms;
    simba_timer_set(config->loop, &conn->timer, conn->come_up_at_ms);
}

static void try_host(simba_connection *conn)
{
    const simba_connection_host *host = &conn->config.hosts[conn->which];
    struct simba__asker asker = {on_found, conn};
    simba__lookup *lookup;

    begin_try(conn);
    conn->is_aiming = false;
    simba__url_show(host->name, host->port, conn->where, sizeof conn->where);
    if (host->port == 0) {
        try_next_address(conn);
        return;
    }
    lookup =
        simba__lookup_start(conn->config.loop, host->name, host->port, asker);
    if (lookup != NULL) { /* else it was found from within */
        conn->lookup = lookup;
    }
}

void simba_connection_aim(simba_connection *conn,
                          const simba_connection_host *host)
{
    simba_connection_host *ours =
        (simba_connection_host *)&conn->config.hosts[conn->which];
    char *name;

    if (!conn->is_aiming) {
        return;
    }
    simba__connection_hold(conn);
    name = strdup(host->name);
    if (name == NULL) {
        simba_connection_break(conn, SIMBA_ENOMEM, 0, "out of memory");
    } else {
        free((char *)ours->name);
        *ours = (simba_connection_host){name, host->port};
        try_host(conn);
    }
    simba__connection_release(conn);
}

/* --- events -------------------------------------------------------------- */

static void on_io(simba_io *io, uint32_t events)
{
    simba_connection *conn = container_of(io, simba_connection, io);
    unsigned generation = conn->generation;

    simba__connection_hold(conn);
    if (conn->state == SIMBA__CONNECTION_CONNECTING) {
        check_connected(conn);
    } else {
        if ((events & (uint32_t)EPOLLOUT) != 0) {
            simba__connection_flush(conn);
        }
        if ((events & ~(uint32_t)EPOLLOUT) != 0 &&
            conn->generation == generation) {
            simba__connection_read(conn);
        }
    }
    simba__connection_release(conn);
}

static void check_silence(simba_connection *conn)
{
    int64_t silent_ms = simba_loop_now_ms() - conn->due_since_ms;

    if (conn->due_since_ms == 0) {
        return;
    }
    if (silent_ms >= conn->config.silence_ms) {
        simba_connection_break(conn, SIMBA_EUNAVAIL, ETIMEDOUT,
                               "silent for %d ms", (int)silent_ms);
    } else {
        simba__connection_limit_silence(conn);
    }
}

static void on_timer(simba_timer *timer)
{
    simba_connection *conn = container_of(timer, simba_connection, timer);

    simba__connection_hold(conn);
    if (conn->state == SIMBA__CONNECTION_DOWN && conn->config.aim != NULL) {
        begin_try(conn);
        conn->is_aiming = true;
        conn->config.aim(conn->config.self, conn);
    } else if (conn->state == SIMBA__CONNECTION_DOWN) {
        try_host(conn);
    } else if (conn->state == SIMBA__CONNECTION_READY) {
        check_silence(conn);
    } else if (conn->state == SIMBA__CONNECTION_CONNECTING &&
               conn->trying != NULL) {
        try_next_address(conn);
    } else if (conn->state == SIMBA__CONNECTION_SECURING && !conn->is_bare &&
               conn->config.bare_size > 0) {
        conn->is_bare = true;
        simba_timer_set(conn->config.loop, &conn->timer,
                        simba_loop_now_ms() + BARE_MS);
        simba__connection_send_bare(conn, conn->config.bare_size);
    } else {
        simba_connection_break(conn, SIMBA_EUNAVAIL, ETIMEDOUT,
                               "no answer within %d ms%s", (int)conn->limit_ms,
                               conn->state == SIMBA__CONNECTION_SECURING
                                   ? ": does it speak TLS?"
                                   : "");
    }
    simba__connection_release(conn);
}

/* --- opening and closing ------------------------------------------------- */

static bool copy_hosts(simba_connection *conn,
                       const simba_connection_host *hosts,
                       size_t count)
{
    simba_connection_host *copies = calloc(count, sizeof *copies);

    conn->config.hosts = copies;
    conn->config.host_count = copies == NULL ? 0 : count;
    for (size_t i = 0; i < conn->config.host_count; i++) {
        copies[i] = hosts[i];
        copies[i].name = strdup(hosts[i].name);
        if (copies[i].name == NULL) {
            conn->config.host_count = i;
        }
    }
    return conn->config.host_count == count;
}

static void set_defaults(simba_connection_config *config)
{
    const struct {
        int64_t *value, otherwise;
    } times[] = {
        {&config->come_up_ms, COME_UP_MS},
        {&config->silence_ms, SILENCE_MS},
        {&config->pause_first_ms, PAUSE_FIRST_MS},
        {&config->pause_most_ms, PAUSE_MOST_MS},
    };

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        *times[i].value =
            *times[i].value == 0 ? times[i].otherwise : *times[i].value;
    }
    if (config->input_most == 0) {
        config->input_most = BYTES_MOST;
    }
    if (config->output_most == 0) {
        config->output_most = BYTES_MOST;
    }
    if (config->first_host == SIMBA_CONNECTION_ANY_HOST &&
        getrandom(&config->first_host, sizeof config->first_host, 0) < 0) {
        config->first_host = 0;
    }
    config->first_host %= config->host_count;
}

static bool is_config(const simba_connection_config *config)
{
    bool is_good =
        config->size >= sizeof *config && config->store != NULL &&
        config->loop != NULL && config->received != NULL &&
        config->host_count > 0 &&
        (config->filter == NULL || config->filter->abi == SIMBA_BACKEND_ABI);

    for (size_t i = 0; is_good && i < config->host_count; i++) {
        is_good = config->hosts[i].name != NULL && config->hosts[i].port >= 0 &&
                  config->hosts[i].port <= UINT16_MAX;
    }
    return is_good;
}

int simba_connection_open(const simba_connection_config *config,
                          simba_connection **out,
                          simba_error *error)
{
    const simba_connection_host *first;
    simba_connection *conn;

    *out = NULL;
    if (!is_config(config)) {
        return simba_error_set(error, SIMBA_EMISUSE, 0,
                               "simba_connection_open: this is no config");
    }
    conn = calloc(1, sizeof *conn);
    if (conn != NULL) {
        conn->config = *config;
        if (!copy_hosts(conn, config->hosts, config->host_count)) {
            destroy(conn);
            conn = NULL;
        }
    }
    if (conn == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "%s: out of memory",
                               config->store);
    }
    set_defaults(&conn->config);
    conn->which = conn->config.first_host;
    conn->backoff =
        (struct simba__backoff){.first_ms = conn->config.pause_first_ms,
                                .most_ms = conn->config.pause_most_ms};
    conn->io = (simba_io){.ready = on_io, .fd = -1};
    conn->timer.fire = on_timer;
    simba__exchanges_init(conn);
    first = &conn->config.hosts[conn->which];
    simba__url_show(first->name, first->port, conn->where, sizeof conn->where);
    simba_error_set(&conn->why, SIMBA_EUNAVAIL, 0, "%s %s: not connected yet",
                    config->store, conn->where);
    simba_timer_set(config->loop, &conn->timer,
                    simba_loop_now_ms() + config->delay_ms);
    *out = conn;
    return SIMBA_OK;
}

void simba_connection_close(simba_connection *conn)
{
    if (conn == NULL || conn->is_closed) {
        return;
    }
    simba__connection_hold(conn);
    conn->is_closed = true;
    drop(conn);
    simba_error_set(&conn->why, SIMBA_EUNAVAIL, 0, "%s %s: closed",
                    conn->config.store, conn->where);
    simba__exchanges_close(conn);
    simba__connection_release(conn);
}

void simba_connection_forked(simba_connection *conn)
{
    if (conn != NULL && conn->io.fd >= 0) {
        close(conn->io.fd);
        conn->io.fd = -1;
    }
}

void simba_connection_silence(simba_connection *conn, int64_t silence_ms)
{
    conn->config.silence_ms = silence_ms;
}

bool simba_connection_is_ready(const simba_connection *conn)
{
    return conn->state == SIMBA__CONNECTION_READY;
}

const char *simba_connection_where(const simba_connection *conn)
{
    return conn->where;
}

const simba_error *simba_connection_why(const simba_connection *conn)
{
    return &conn->why;
}
