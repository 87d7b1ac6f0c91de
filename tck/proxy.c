#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SERVERS_MOST = 8, LINKS_MOST = 64, CHUNK = 16384, HOST_ROOM = 256 };
enum { URL_ROOM = 2048, QUIET_MS = 100, QUIET_MOST_MS = 3000, TRY_MS = 300 };

/* Bytes on their way. */
struct chunk {
    struct chunk *next;
    int64_t at_ms; /* not before */
    size_t size;
    char bytes[CHUNK];
};

/* One direction of a connection. */
struct lane {
    int from, to; /* -1: ended; `to` is the other lane's `from` */
    struct chunk *first, **last;
};

enum { REQUESTS, REPLIES };

struct link {
    bool is_used;
    bool is_late; /* the store has gone; what it sent is kept back */
    struct lane lanes[2];
};

struct server {
    struct sockaddr_storage address;
    socklen_t length;
    int listener;
};

struct tck_proxy {
    struct tck *t; /* NULL: none */
    char url[URL_ROOM];
    struct server servers[SERVERS_MOST];
    int server_count;
    pthread_t thread;
    bool is_running;
    int wake;
    struct link links[LINKS_MOST]; /* the thread's own */
    _Atomic int weather, open_count;
    _Atomic int64_t delay_ms;
    _Atomic uint64_t passed; /* bytes */
    _Atomic bool is_cutting, is_ending;
    _Atomic bool is_keeping, is_letting_go;
};

/* --- the thread ---------------------------------------------------------- */

static void hang_up(int *fd)
{
    if (*fd >= 0) {
        /* A forked child may have it, too. */
        (void)shutdown(*fd, SHUT_RDWR);
        (void)close(*fd);
        *fd = -1;
    }
}

static void drop_chunks(struct lane *lane)
{
    struct chunk *chunk;

    while ((chunk = lane->first) != NULL) {
        lane->first = chunk->next;
        free(chunk);
    }
    lane->last = &lane->first;
}

/* The servers' end; the store's stays, and nothing comes of it. */
static void leave_server(struct link *link)
{
    hang_up(&link->lanes[REPLIES].from);
    link->lanes[REQUESTS].to = -1;
    drop_chunks(&link->lanes[REQUESTS]);
    drop_chunks(&link->lanes[REPLIES]);
}

static void end_link(struct tck_proxy *proxy, struct link *link)
{
    if (link->is_used) {
        leave_server(link);
        hang_up(&link->lanes[REQUESTS].from);
        link->is_used = false;
        atomic_fetch_sub(&proxy->open_count, 1);
    }
}

/* What comes in pieces is passed on in pieces. */
static void send_at_once(int fd)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

static int reach(const struct server *server)
{
    int fd = socket(server->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&server->address,
                           server->length) != 0) {
        (void)close(fd);
        fd = -1;
    }
    if (fd >= 0) {
        send_at_once(fd);
    }
    return fd;
}

static void take_in(struct tck_proxy *proxy, const struct server *server)
{
    int weather = atomic_load(&proxy->weather);
    int from = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
    int to = from < 0 || weather == TCK_CUT || weather == TCK_HALF_OPEN
                 ? -1
                 : reach(server);

    for (int i = 0; from >= 0 && i < LINKS_MOST; i++) {
        struct link *link = &proxy->links[i];

        if (!link->is_used && (to >= 0 || weather == TCK_HALF_OPEN)) {
            send_at_once(from);
            *link = (struct link){
                .is_used = true,
                .lanes = {{.from = from, .to = to}, {.from = to, .to = from}}};
            link->lanes[REQUESTS].last = &link->lanes[REQUESTS].first;
            link->lanes[REPLIES].last = &link->lanes[REPLIES].first;
            atomic_fetch_add(&proxy->open_count, 1);
            return;
        }
    }
    hang_up(&from);
    hang_up(&to);
}

/* False: that side has hung up. */
static bool read_lane(struct tck_proxy *proxy, struct link *link, int which)
{
    struct lane *lane = &link->lanes[which];
    struct chunk *chunk = malloc(sizeof *chunk);
    ssize_t count =
        chunk == NULL ? -1 : recv(lane->from, chunk->bytes, CHUNK, 0);

    if (count <= 0 || lane->to < 0) { /* `to`: half open, it is lost */
        free(chunk);
        return count > 0;
    }
    chunk->next = NULL;
    chunk->size = (size_t)count;
    chunk->at_ms = simba_loop_now_ms() +
                   (which == REPLIES ? atomic_load(&proxy->delay_ms) : 0);
    *lane->last = chunk;
    lane->last = &chunk->next;
    return true;
}

static bool is_held(const struct tck_proxy *proxy, int which)
{
    int weather = atomic_load(&proxy->weather);

    return atomic_load(&proxy->is_keeping) || weather == TCK_STALLED ||
           weather == TCK_CUT ||
           weather == (which == REQUESTS ? TCK_NO_REQUESTS : TCK_NO_REPLIES);
}

/* Sends what is due. False: the other side is gone. */
static bool write_lane(struct tck_proxy *proxy, struct lane *lane)
{
    struct chunk *chunk;
    bool is_sent = true;

    while (is_sent && (chunk = lane->first) != NULL &&
           chunk->at_ms <= simba_loop_now_ms()) {
        lane->first = chunk->next;
        if (lane->first == NULL) {
            lane->last = &lane->first;
        }
        for (size_t done = 0; is_sent && done < chunk->size;) {
            ssize_t count = send(lane->to, chunk->bytes + done,
                                 chunk->size - done, MSG_NOSIGNAL);

            is_sent = count > 0;
            done += is_sent ? (size_t)count : 0;
        }
        atomic_fetch_add(&proxy->passed, chunk->size);
        free(chunk);
    }
    return is_sent;
}

/* Takes in what the store has sent up to now, and hangs up on it. */
static void keep_back(struct tck_proxy *proxy, struct link *link)
{
    struct pollfd set = {.fd = link->lanes[REQUESTS].from, .events = POLLIN};

    while (poll(&set, 1, 0) > 0 && read_lane(proxy, link, REQUESTS)) {
    }
    hang_up(&link->lanes[REQUESTS].from);
    link->is_late = true;
}

static void obey(struct tck_proxy *proxy)
{
    int weather = atomic_load(&proxy->weather);
    bool is_cutting = atomic_exchange(&proxy->is_cutting, false);
    bool is_keeping = atomic_exchange(&proxy->is_keeping, false);
    bool is_letting_go = atomic_exchange(&proxy->is_letting_go, false);

    for (int i = 0; i < LINKS_MOST; i++) {
        struct link *link = &proxy->links[i];

        if (link->is_used && is_keeping) {
            keep_back(proxy, link);
        } else if (link->is_used && link->is_late) {
            if (is_letting_go && !write_lane(proxy, &link->lanes[REQUESTS])) {
                end_link(proxy, link); /* the servers have hung up before */
            }
        } else if (link->is_used && !is_cutting && weather == TCK_HALF_OPEN) {
            leave_server(link);
        } else if (link->is_used &&
                   (is_cutting || weather == TCK_CUT ||
                    link->lanes[REPLIES].from < 0)) { /* was half open */
            end_link(proxy, link);
        }
    }
}

/* How long poll() may wait for chunks that are under way, in milliseconds. */
static int next_due(const struct tck_proxy *proxy)
{
    int64_t due = INT64_MAX, now = simba_loop_now_ms();

    for (int i = 0; i < 2 * LINKS_MOST; i++) {
        const struct lane *lane = &proxy->links[i / 2].lanes[i % 2];

        if (proxy->links[i / 2].is_used && !proxy->links[i / 2].is_late &&
            lane->first != NULL && !is_held(proxy, i % 2) &&
            lane->first->at_ms < due) {
            due = lane->first->at_ms;
        }
    }
    return due == INT64_MAX ? -1 : due <= now ? 0 : (int)(due - now);
}

static void pass_once(struct tck_proxy *proxy)
{
    struct pollfd set[1 + SERVERS_MOST + 2 * LINKS_MOST];
    struct pollfd *lanes = set + 1 + proxy->server_count;
    uint64_t count;

    obey(proxy);
    set[0] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
    for (int i = 0; i < proxy->server_count; i++) {
        bool is_deaf = atomic_load(&proxy->weather) == TCK_STALLED;

        set[1 + i] = (struct pollfd){
            .fd = is_deaf ? -1 : proxy->servers[i].listener, .events = POLLIN};
    }
    for (int i = 0; i < 2 * LINKS_MOST; i++) {
        const struct link *link = &proxy->links[i / 2];
        bool is_read =
            link->is_used && !link->is_late && !is_held(proxy, i % 2);

        lanes[i] = (struct pollfd){.fd = is_read ? link->lanes[i % 2].from : -1,
                                   .events = POLLIN};
    }
    count = 1 + (uint64_t)proxy->server_count + 2UL * LINKS_MOST;
    (void)poll(set, count, next_due(proxy));
    if (set[0].revents != 0 && read(proxy->wake, &count, sizeof count) > 0) {
        return; /* the weather has changed: look before anything passes */
    }
    for (int i = 0; i < 2 * LINKS_MOST; i++) {
        struct link *link = &proxy->links[i / 2];

        /* Asked now, for the weather may have changed since. */
        if (!link->is_used || link->is_late || is_held(proxy, i % 2)) {
            continue;
        }
        if ((lanes[i].revents != 0 && !read_lane(proxy, link, i % 2)) ||
            !write_lane(proxy, &link->lanes[i % 2])) {
            end_link(proxy, link);
        }
    }
    for (int i = 0; i < proxy->server_count; i++) {
        if (set[1 + i].revents != 0 &&
            atomic_load(&proxy->weather) != TCK_STALLED) {
            take_in(proxy, &proxy->servers[i]);
        }
    }
}

static void *run(void *argument)
{
    struct tck_proxy *proxy = argument;

    while (!atomic_load(&proxy->is_ending)) {
        pass_once(proxy);
    }
    return NULL;
}

static void wake(const struct tck_proxy *proxy)
{
    (void)!write(proxy->wake, &(uint64_t){1}, sizeof(uint64_t));
}

/* --- the URL ------------------------------------------------------------- */

/* Where a server listens that is named without a port. */
static const char *usual_port(const char *url, const char *colon)
{
    static const struct {
        const char *scheme, *port;
    } usual[] = {
        {"redis", "6379"},   {"rediss", "6379"},    {"mysql", "3306"},
        {"mariadb", "3306"}, {"postgres", "5432"},  {"postgresql", "5432"},
        {"zk", "2181"},      {"zookeeper", "2181"}, {"etcd", "2379"}};
    const char *scheme = colon;

    while (scheme > url && scheme[-1] != ':') {
        scheme--; /* there may be shims before it */
    }
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        if (strlen(usual[i].scheme) == (size_t)(colon - scheme) &&
            strncmp(usual[i].scheme, scheme, (size_t)(colon - scheme)) == 0) {
            return usual[i].port;
        }
    }
    return NULL;
}

static bool find_server(const char *host, const char *port, struct server *s)
{
    struct addrinfo *found = NULL;
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    bool is_found = port != NULL && *host != '\0' &&
                    getaddrinfo(host, port, &wanted, &found) == 0;

    for (struct addrinfo *at = found; is_found && at != NULL;
         at = at->ai_next) {
        int fd;

        memcpy(&s->address, at->ai_addr, at->ai_addrlen);
        s->length = at->ai_addrlen;
        fd = reach(s);
        if (fd >= 0) {
            (void)close(fd);
            break; /* the first that answers, as a store would */
        }
    }
    if (found != NULL) {
        freeaddrinfo(found);
    }
    return is_found;
}

/* A port of our own; 0: there is none. */
static int listen_on(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server->listener, (struct sockaddr *)&address, length) != 0 ||
        listen(server->listener, LINKS_MOST) != 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &length) !=
            0) {
        return 0;
    }
    return ntohs(address.sin_port);
}

/* "host", "host:port" or "[address]:port" of `size` bytes. */
static bool add_server(struct tck_proxy *proxy,
                       const char *at,
                       size_t size,
                       const char *usual)
{
    struct server *server = &proxy->servers[proxy->server_count];
    char text[HOST_ROOM], *host = text, *port;
    size_t used = strlen(proxy->url);
    int own;

    if (size == 0 || size >= sizeof text ||
        proxy->server_count == SERVERS_MOST) {
        return false;
    }
    memcpy(text, at, size);
    text[size] = '\0';
    port = strrchr(text, *text == '[' ? ']' : ':');
    if (*text == '[') {
        if (port == NULL) {
            return false;
        }
        host = text + 1;
        *port = '\0';
        port = port[1] == ':' ? port + 1 : NULL;
    }
    if (port != NULL) {
        *port++ = '\0';
    }
    proxy->server_count++;
    server->listener = -1;
    if (!find_server(host, port != NULL ? port : usual, server)) {
        return false;
    }
    /* A certificate may be for "localhost". */
    own = listen_on(server);
    snprintf(proxy->url + used, sizeof proxy->url - used, "%s%s:%d",
             proxy->server_count > 1 ? "," : "",
             strcmp(host, "localhost") == 0 ? host : "127.0.0.1", own);
    return own != 0;
}

/* Rewrites the URL, so that each of its hosts is one of ours. */
static bool take_url(struct tck_proxy *proxy, const char *url)
{
    const char *colon = url == NULL ? NULL : strstr(url, "://");
    const char *at = colon == NULL ? NULL : colon + 3, *end, *mark;
    bool is_fine = at != NULL && strlen(url) + 256 < sizeof proxy->url;

    if (!is_fine) {
        return false;
    }
    end = at + strcspn(at, "/?#");
    mark = memrchr(at, '@', (size_t)(end - at));
    at = mark != NULL ? mark + 1 : at;
    memcpy(proxy->url, url, (size_t)(at - url));
    while (is_fine && at <= end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t size = (size_t)((comma != NULL ? comma : end) - at);

        is_fine = add_server(proxy, at, size, usual_port(url, colon));
        at += size + 1;
    }
    snprintf(proxy->url + strlen(proxy->url),
             sizeof proxy->url - strlen(proxy->url), "%s", end);
    return is_fine;
}

/* --- from outside -------------------------------------------------------- */

static void end_proxy(void *what)
{
    struct tck_proxy *proxy = what;

    atomic_store(&proxy->is_ending, true);
    wake(proxy);
    if (proxy->is_running) {
        (void)pthread_join(proxy->thread, NULL);
    }
    for (int i = 0; i < LINKS_MOST; i++) {
        end_link(proxy, &proxy->links[i]);
    }
    for (int i = 0; i < proxy->server_count; i++) {
        hang_up(&proxy->servers[i].listener);
    }
    (void)close(proxy->wake);
    free(proxy);
}

/* NULL: there is nothing that it could stand before. */
static struct tck_proxy *open_proxy(const struct tck *t)
{
    struct tck_proxy *proxy = calloc(1, sizeof *proxy);

    if (proxy == NULL) {
        return NULL;
    }
    proxy->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    proxy->is_running = take_url(proxy, t->url) &&
                        pthread_create(&proxy->thread, NULL, run, proxy) == 0;
    if (!proxy->is_running) {
        end_proxy(proxy);
        return NULL;
    }
    return proxy;
}

static int read_through(simba_store *store, int64_t within_ms)
{
    simba_request request = SIMBA_REQUEST_INIT;

    request.kind = SIMBA_READ;
    request.mutex = "tck proxy";
    request.id = "tck";
    request.deadline_ms = simba_loop_now_ms() + within_ms;
    return simba_probe(store, &request, NULL);
}

/* It must be answered through the proxy, and not past it, as one would be that
 * asks a directory where its servers are. */
bool tck_can_proxy(struct tck *t)
{
    struct tck_proxy *proxy;
    simba_store *store = NULL;

    if (t->proxying == TCK_PROXY_UNTRIED) {
        t->proxying = TCK_PROXY_NONE;
        proxy = open_proxy(t);
        if (proxy != NULL &&
            simba_store_open(proxy->url, NULL, &store, NULL) == SIMBA_OK &&
            read_through(store, t->patience_ms) == SIMBA_OK) {
            tck_proxy_set(proxy, TCK_STALLED);
            if (read_through(store, TRY_MS) != SIMBA_OK) {
                t->proxying = TCK_PROXY_FINE;
            }
            tck_proxy_set(proxy, TCK_FAIR);
        }
        simba_store_close(store);
        if (proxy != NULL) {
            end_proxy(proxy);
        }
    }
    return t->proxying == TCK_PROXY_FINE;
}

struct tck_proxy *tck_proxy(struct tck *t)
{
    struct tck_proxy *proxy = open_proxy(t);

    if (proxy != NULL) {
        proxy->t = t;
        tck_later(t, end_proxy, proxy);
        return proxy;
    }
    tck_fail(t, TCK_HERE, "no proxy: %s", strerror(errno));
}

simba_store *tck_store_through(struct tck *t, struct tck_proxy *proxy)
{
    return tck_store_at(t, proxy->url);
}

void tck_await_answer(struct tck *t, simba_store *store)
{
    int64_t until = tck_patience(t);

    while (read_through(store, t->patience_ms) != SIMBA_OK) {
        tck_pause(t, until, TCK_HERE, "an answer after a reconnection");
    }
}

/* What a test that failed has open is given back through it. */
static void clear_up(void *what)
{
    tck_proxy_set(what, TCK_FAIR);
}

void tck_proxy_set(struct tck_proxy *proxy, enum tck_weather weather)
{
    if (weather != TCK_FAIR && proxy->t != NULL) {
        tck_later(proxy->t, clear_up, proxy);
    }
    atomic_store(&proxy->weather, weather);
    wake(proxy);
}

void tck_proxy_cut(struct tck_proxy *proxy)
{
    atomic_store(&proxy->is_cutting, true);
    wake(proxy);
}

void tck_proxy_keep_back(struct tck_proxy *proxy)
{
    atomic_store(&proxy->is_keeping, true);
    tck_proxy_set(proxy, TCK_FAIR);
}

void tck_proxy_let_go(struct tck_proxy *proxy)
{
    atomic_store(&proxy->is_letting_go, true);
    wake(proxy);
}

void tck_proxy_delay(struct tck_proxy *proxy, int64_t delay_ms)
{
    atomic_store(&proxy->delay_ms, delay_ms);
}

int tck_proxy_count(const struct tck_proxy *proxy)
{
    return atomic_load(&proxy->open_count);
}

void tck_proxy_await_quiet(struct tck_proxy *proxy)
{
    int64_t start = simba_loop_now_ms(), since = start;
    uint64_t before = atomic_load(&proxy->passed);

    while (simba_loop_now_ms() - since < QUIET_MS &&
           simba_loop_now_ms() - start < QUIET_MOST_MS) {
        uint64_t now = atomic_load(&proxy->passed);

        if (now != before) {
            before = now;
            since = simba_loop_now_ms();
        }
        tck_sleep_until(simba_loop_now_ms() + 5);
    }
}
