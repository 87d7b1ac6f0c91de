/* The client library as we use it: making a handle, blocking calls on a thread
 * of their own, and the system calls it makes. Outside the loop. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* --- handles ------------------------------------------------------------- */

/* What the client library logs goes nowhere: it knows no levels of ours, and
 * what matters is told by the session. It is told to be silent as well: it
 * writes its messages into one buffer for all threads. */
static void drop_message(const char *message)
{
    (void)message;
}

/* Of all hosts of the handle that this thread makes: one that may be known
 * later counts. */
static _Thread_local int lookup_problem;

int simba__zk_lookup_problem(void)
{
    return lookup_problem == 0 ? EAI_MEMORY : lookup_problem;
}

zhandle_t *simba__zk_handle_open(const struct simba__zk_settings *settings,
                                 unsigned first_host,
                                 int64_t timeout_ms,
                                 struct simba__zk *self)
{
    /* The client library multiplies this by two in an int. */
    int timeout = timeout_ms < INT32_MAX / 2 ? (int)timeout_ms : INT32_MAX / 2;
    char *hosts = simba__zk_hosts_from(settings, first_host);
    sigset_t all, before;
    zhandle_t *handle;

    lookup_problem = 0;
    if (hosts == NULL) {
        return NULL;
    }
    zoo_set_debug_level((ZooLogLevel)0);
    zoo_deterministic_conn_order(1);
    /* Threads inherit the mask of the one that starts them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    handle = zookeeper_init2(hosts, self == NULL ? NULL : simba__zk_on_session,
                             timeout, NULL, self, ZOO_NO_LOG_CLIENTENV,
                             drop_message);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(hosts);
    if (handle == NULL) {
        return NULL;
    }
    /* Else it looks up every host each time its thread wakes; names are still
     * looked up when a connection is lost. */
    zoo_set_servers_resolution_delay(handle, -1);
    if (settings->auth != NULL) { /* a refusal becomes a state of the session */
        zoo_add_auth(handle, "digest", settings->auth,
                     (int)strlen(settings->auth), NULL, NULL);
    }
    return handle;
}

/* The client library waits two thirds of the session's timeout for a server
 * that does not answer, as one without power, before it tries the next. So it
 * is told the order, and begun anew with the next one first, long before. Three
 * moments fit into what is waited for an ensemble that never answered. */
int64_t simba__zk_host_wait_ms(const struct simba__zk_settings *settings,
                               unsigned tried,
                               int64_t timeout_ms)
{
    enum { MOMENT_MS = 800, DOUBLED_MOST = 8 };
    unsigned count = (unsigned)settings->url.host_count;
    unsigned doubled = tried / count;
    int64_t wait_ms = MOMENT_MS, most_ms = timeout_ms / 3;

    wait_ms <<= doubled < DOUBLED_MOST ? doubled : DOUBLED_MOST;
    return count > 1 && wait_ms < most_ms ? wait_ms : most_ms;
}

/* One address: connected, not in time, or why not. */
static int try_connect(const struct addrinfo *to)
{
    enum { MOMENT_MS = 300 };
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct pollfd waits = {.fd = fd, .events = POLLOUT};
    int problem = 0;
    socklen_t size = sizeof problem;

    if (fd < 0) {
        return errno;
    }
    if (connect(fd, to->ai_addr, to->ai_addrlen) < 0) {
        problem = errno;
    }
    if (problem == EINPROGRESS) {
        problem =
            poll(&waits, 1, MOMENT_MS) == 1 &&
                    getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size) == 0
                ? problem
                : ETIMEDOUT;
    }
    close(fd);
    return problem;
}

/* The client library tries on in silence. */
bool simba__zk_is_refused(const struct simba__zk_settings *settings)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG};
    bool is_refused = true;

    for (size_t i = 0; i < settings->url.host_count && is_refused; i++) {
        const simba_connection_host *host = &settings->url.hosts[i];
        struct addrinfo *found = NULL;
        char port[16];

        (void)snprintf(port, sizeof port, "%d",
                       host->port == 0 ? SIMBA__ZK_PORT : host->port);
        if (getaddrinfo(host->name, port, &wanted, &found) != 0) {
            continue; /* it cannot answer either */
        }
        for (const struct addrinfo *to = found; to != NULL && is_refused;
             to = to->ai_next) {
            is_refused = try_connect(to) == ECONNREFUSED;
        }
        freeaddrinfo(found);
    }
    return is_refused;
}

/* --- blocking calls ------------------------------------------------------ */

static void on_answer(int rc, const struct Stat *stat, const void *data)
{
    (void)stat;
    bool is_nonsense = rc == ZRUNTIMEINCONSISTENCY || rc == ZMARSHALLINGERROR;

    atomic_store((_Atomic int *)data,
                 simba__zk_is_lost(rc) || is_nonsense ? -1 : 1);
}

/* Blocking calls wait as long as the server keeps the connection, so it is
 * tried first whether it answers anything at all. */
zhandle_t *simba__zk_connect(const struct simba__zk_settings *settings,
                             int64_t timeout_ms,
                             int64_t until_ms)
{
    const struct timespec nap = {0, 2000000};
    unsigned first = (unsigned)simba_loop_now_ms();

    /* As long as there is time, and each server for a while. */
    for (unsigned tried = 0; simba_loop_now_ms() < until_ms; tried++) {
        int64_t next_ms = simba_loop_now_ms() +
                          simba__zk_host_wait_ms(settings, tried, timeout_ms);
        zhandle_t *handle =
            simba__zk_handle_open(settings, first + tried, timeout_ms, NULL);
        _Atomic int answer = 0;
        bool is_asked = false;

        if (handle == NULL) {
            return NULL;
        }
        while (atomic_load(&answer) == 0 && simba_loop_now_ms() < next_ms &&
               simba_loop_now_ms() < until_ms) {
            if (!is_asked && zoo_state(handle) == ZOO_CONNECTED_STATE) {
                is_asked =
                    zoo_aexists(handle, "/", 0, on_answer, &answer) == ZOK;
            }
            nanosleep(&nap, NULL);
        }
        if (atomic_load(&answer) > 0) {
            return handle;
        }
        zookeeper_close(handle);
    }
    return NULL;
}

int simba__zk_perms_of_anyone(zhandle_t *handle, const char *path, int *perms)
{
    struct ACL_vector acl = {0, NULL};
    struct Stat stat;
    int rc = zoo_get_acl(handle, path, &acl, &stat);

    *perms = 0;
    for (int i = 0; i < acl.count; i++) {
        if (strcmp(acl.data[i].id.scheme, "world") == 0) {
            *perms |= acl.data[i].perms;
        }
    }
    deallocate_ACL_vector(&acl);
    return rc;
}

/* --- system calls -------------------------------------------------------- */

/* The linker gives the client library our own of these functions instead of the
 * system's (see sources.cmake). Its descriptors become close-on-exec, and
 * known, so that a forked child can close them; what a server says has limits;
 * a write to a closed connection raises no signal; and a numeric address is not
 * looked up, for the resolver has locks, and a process that forks while its
 * thread holds them leaves them locked in the child. */
enum { DESCRIPTORS_MOST = 1024, ANSWER_MOST = 32 << 20 };

/* Descriptors plus one, so that 0 is a free slot. No lock: a forked child must
 * be able to read it, whatever the parent's threads were doing. */
static _Atomic int descriptors[DESCRIPTORS_MOST];

/* What passes there: messages, each with its length in four bytes before it,
 * and, but for the first, the number of a request in the first four of its own.
 * Only who reads, or writes, looks at its way. */
struct way {
    unsigned known;          /* bytes of length and number that have come */
    uint32_t length, number; /* as far as they tell */
    uint32_t left;           /* of the message */
    bool is_greeted;         /* the first has passed */
};

static struct traffic {
    struct way in, out;
    _Atomic int asked; /* requests without an answer */
} traffics[DESCRIPTORS_MOST];

/* Puts `to` where `from` is; returns where, or -1. */
static int replace_descriptor(int from, int to)
{
    for (int i = 0; i < DESCRIPTORS_MOST; i++) {
        int expected = from;

        if (atomic_compare_exchange_strong(&descriptors[i], &expected, to)) {
            return i;
        }
    }
    return -1;
}

/* Events, pings, credentials and watches have numbers of their own. */
static bool is_request(uint32_t number)
{
    int32_t n = (int32_t)number;

    return n != -1 && n != -2 && n != -4 && n != -8;
}

static bool is_length_fine(const struct way *way, bool is_in)
{
    enum { HEADER = 16 };

    return !is_in || (way->length <= ANSWER_MOST &&
                      (!way->is_greeted || way->length >= HEADER));
}

/* The library makes room for as much as a server announces, and aborts the
 * process when something is answered that nobody asked for. False: it must not
 * hear this. */
static bool follow(struct traffic *traffic,
                   bool is_in,
                   const unsigned char *bytes,
                   size_t count)
{
    enum { LENGTH = 4, BOTH = 8 };
    struct way *way = is_in ? &traffic->in : &traffic->out;

    while (count > 0) {
        size_t part = 1;

        if (way->known < LENGTH) {
            way->length = way->length << 8 | *bytes;
            way->left = ++way->known < LENGTH ? 1 : way->length;
            if (way->known == LENGTH && !is_length_fine(way, is_in)) {
                return false;
            }
        } else if (way->known < BOTH) {
            way->number = way->number << 8 | *bytes;
            way->left--;
            if (++way->known == BOTH && way->is_greeted &&
                is_request(way->number) &&
                atomic_fetch_add(&traffic->asked, is_in ? -1 : 1) <= 0 &&
                is_in) {
                return false;
            }
        } else {
            part = way->left < count ? way->left : count;
            way->left -= (uint32_t)part;
        }
        bytes += part;
        count -= part;
        if (way->left == 0) {
            *way = (struct way){.is_greeted = true};
        }
    }
    return true;
}

void simba__zk_descriptors_close(void)
{
    for (int i = 0; i < DESCRIPTORS_MOST; i++) {
        int known = atomic_exchange(&descriptors[i], 0);

        if (known != 0) {
            close(known - 1);
        }
    }
}

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the
 * linker's names. */
int __real_socket(int domain, int type, int protocol);
int __real_close(int fd);
ssize_t __real_recv(int fd, void *data, size_t size, int flags);
ssize_t __real_send(int fd, const void *data, size_t size, int flags);
int __real_getaddrinfo(const char *host,
                       const char *port,
                       const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_pipe(int ends[2]);
int __wrap_close(int fd);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
int __wrap_getaddrinfo(const char *host,
                       const char *port,
                       const struct addrinfo *hints,
                       struct addrinfo **found);

int __wrap_socket(int domain, int type, int protocol)
{
    int fd = __real_socket(domain, type | SOCK_CLOEXEC, protocol);

    int slot = fd < 0 ? -1 : replace_descriptor(0, fd + 1);

    if (slot >= 0) {
        traffics[slot].in = traffics[slot].out = (struct way){0};
        atomic_store(&traffics[slot].asked, 0);
    }
    return fd;
}

int __wrap_pipe(int ends[2])
{
    int rc = pipe2(ends, O_CLOEXEC);

    if (rc == 0) {
        (void)replace_descriptor(0, ends[0] + 1);
        (void)replace_descriptor(0, ends[1] + 1);
    }
    return rc;
}

int __wrap_close(int fd)
{
    (void)replace_descriptor(fd + 1, 0);
    return __real_close(fd);
}

ssize_t __wrap_recv(int fd, void *data, size_t size, int flags)
{
    ssize_t count = __real_recv(fd, data, size, flags);
    int slot = replace_descriptor(fd + 1, fd + 1);

    if (count > 0 && slot >= 0 &&
        !follow(&traffics[slot], true, data, (size_t)count)) {
        errno = ECONNRESET;
        return -1;
    }
    return count;
}

ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    ssize_t count = __real_send(fd, data, size, flags | MSG_NOSIGNAL);
    int slot = replace_descriptor(fd + 1, fd + 1);

    if (count > 0 && slot >= 0) {
        (void)follow(&traffics[slot], false, data, (size_t)count);
    }
    return count;
}

/* The client library looks up an IPv6 address with the brackets of the URL. */
int __wrap_getaddrinfo(const char *host,
                       const char *port,
                       const struct addrinfo *hints,
                       struct addrinfo **found)
{
    size_t length = host == NULL ? 0 : strlen(host);
    struct addrinfo numeric = {0};
    char bare[INET6_ADDRSTRLEN];
    int problem;

    if (hints != NULL) {
        numeric = *hints;
    }
    if (length >= 2 && length - 2 < sizeof bare && host[0] == '[' &&
        host[length - 1] == ']') {
        memcpy(bare, host + 1, length - 2);
        bare[length - 2] = '\0';
        host = bare;
    }
    numeric.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    if (__real_getaddrinfo(host, port, &numeric, found) == 0) {
        return 0;
    }
    problem = __real_getaddrinfo(host, port, hints, found);
    if (problem != 0 &&
        (lookup_problem == 0 || simba__lookup_native(lookup_problem) != 0)) {
        lookup_problem = problem;
    }
    return problem;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
