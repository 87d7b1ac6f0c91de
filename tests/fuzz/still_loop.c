/* The runtime without threads, and a server of pieces; see still_loop.h. */
#define _GNU_SOURCE
#include "fuzz/still_loop.h"

#include "kit/lookup.h"
#include "runtime/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MOST = 64,
    HANG_UP = 0xffff,
    START_MS = 1000000,
    SOCKET_ROOM = 1 << 20, /* a piece must fit in whole */
};

int still_status = INT32_MAX;

static struct {
    int64_t now_ms;
    simba_timer *timers; /* by sibling, in no order */
    simba_io *ios[MOST];
    int io_count;
    struct {
        void (*run)(void *argument);
        void *argument;
    } posted[MOST];
    int posted_count;
    /* The server. */
    int ends[MOST];
    int end_count;
    const uint8_t *pieces;
    size_t left;
    bool server_begins;
} still;

/* --- the server ---------------------------------------------------------- */

void still_begin(const uint8_t *pieces, size_t size, bool server_begins)
{
    memset(&still, 0, sizeof still);
    still.now_ms = START_MS;
    still.pieces = pieces;
    still.left = size;
    still.server_begins = server_begins;
    still_status = INT32_MAX;
}

static void hang_up(int which)
{
    close(still.ends[which]);
    still.ends[which] = still.ends[--still.end_count];
}

/* False: it hung up instead. */
static bool say_piece(int which)
{
    size_t length;

    if (still.left < 2) {
        hang_up(which);
        return false;
    }
    length = still.pieces[0] | (size_t)still.pieces[1] << 8;
    still.pieces += 2;
    still.left -= 2;
    if (length == HANG_UP) {
        hang_up(which);
        return false;
    }
    length = length < still.left ? length : still.left;
    (void)!send(still.ends[which], still.pieces, length,
                MSG_DONTWAIT | MSG_NOSIGNAL);
    still.pieces += length;
    still.left -= length;
    return true;
}

/* Answers whoever has said something. */
static bool serve(void)
{
    bool is_any = false;
    char bytes[65536];

    for (int i = 0; i < still.end_count; i++) {
        ssize_t count, all = 0;

        while ((count = recv(still.ends[i], bytes, sizeof bytes,
                             MSG_DONTWAIT)) > 0) {
            all += count;
        }
        is_any |= all > 0 || count == 0;
        if (all > 0 ? !say_piece(i) : count == 0) {
            if (all == 0) {
                hang_up(i);
            }
            i--;
        }
    }
    return is_any;
}

/* In place of the system's, for client libraries, too: whoever connects gets
 * us. */
__attribute__((visibility("default"))) int connect(int fd,
                                                   const struct sockaddr *to,
                                                   socklen_t length)
{
    int room = SOCKET_ROOM;
    int flags = fcntl(fd, F_GETFL);
    int close_on_exec = fcntl(fd, F_GETFD);
    int pair[2];

    (void)to;
    (void)length;
    if (still.left < 2 || still.end_count == MOST ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        errno = ECONNREFUSED;
        return -1;
    }
    (void)setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    dup3(pair[0], fd, (close_on_exec & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
    close(pair[0]);
    fcntl(fd, F_SETFL, flags);
    still.ends[still.end_count++] = pair[1];
    if (still.server_begins) {
        (void)say_piece(still.end_count - 1);
    }
    return 0;
}

/* --- the loop ------------------------------------------------------------ */

void simba_loop_enter(simba_loop *loop)
{
    (void)loop;
}

void simba_loop_leave(simba_loop *loop)
{
    (void)loop;
}

void simba_loop_post(simba_loop *loop, void (*run)(void *), void *argument)
{
    (void)loop;
    if (still.posted_count == MOST) {
        abort();
    }
    still.posted[still.posted_count].run = run;
    still.posted[still.posted_count++].argument = argument;
}

static void run_message(void *argument)
{
    struct simba__message *message = argument;

    message->run(message);
}

void simba__loop_send(simba_loop *loop, struct simba__message *message)
{
    simba_loop_post(loop, run_message, message);
}

int64_t simba_loop_now_ms(void)
{
    return still.now_ms;
}

int simba_loop_nudge_fd(const simba_loop *loop)
{
    (void)loop;
    return -1;
}

int simba_loop_poll(simba_loop *loop,
                    struct pollfd *set,
                    size_t count,
                    int timeout_ms)
{
    (void)loop;
    (void)set;
    (void)count;
    (void)timeout_ms;
    return 0;
}

void simba_count_reconnect(simba_loop *loop)
{
    (void)loop;
}

bool simba_io_set(simba_loop *loop, simba_io *io, uint32_t events)
{
    (void)loop;
    if (!io->is_set) {
        if (still.io_count == MOST) {
            abort();
        }
        still.ios[still.io_count++] = io;
        io->is_set = true;
    }
    io->events = events;
    return true;
}

void simba_io_clear(simba_loop *loop, simba_io *io)
{
    (void)loop;
    for (int i = 0; i < still.io_count; i++) {
        if (still.ios[i] == io) {
            still.ios[i] = still.ios[--still.io_count];
        }
    }
    io->is_set = false;
}

void simba_timer_clear(simba_loop *loop, simba_timer *timer)
{
    simba_timer **at = &still.timers;

    (void)loop;
    while (timer->is_set && *at != timer) {
        at = &(*at)->sibling;
    }
    if (timer->is_set) {
        *at = timer->sibling;
        timer->is_set = false;
    }
}

void simba_timer_set(simba_loop *loop, simba_timer *timer, int64_t at_ms)
{
    simba_timer_clear(loop, timer);
    if (at_ms != INT64_MAX) {
        timer->at_ms = at_ms;
        timer->is_set = true;
        timer->sibling = still.timers;
        still.timers = timer;
    }
}

/* --- names --------------------------------------------------------------- */

simba__lookup *simba__lookup_start(simba_loop *loop,
                                   const char *host,
                                   int port,
                                   struct simba__asker asker)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char service[16];

    (void)loop;
    if (port < 0 || port > UINT16_MAX) {
        abort();
    }
    (void)snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &hints, &list) != 0) {
        list = NULL;
    }
    asker.found(asker.self, list, list == NULL ? EAI_NONAME : 0);
    return NULL;
}

int simba__lookup_native(int problem)
{
    return problem == EAI_NONAME ? SIMBA__UNKNOWN_HOST : 0;
}

void simba__lookup_cancel(simba__lookup *lookup)
{
    (void)lookup;
}

/* --- what becomes of requests -------------------------------------------- */

void simba_wake(simba_loop *loop, const char *mutex)
{
    (void)loop;
    (void)mutex;
}

void simba_wake_waiter(simba_loop *loop, const char *mutex, uint64_t position)
{
    (void)loop;
    (void)mutex;
    (void)position;
}

void simba_wake_first(simba_loop *loop, const char *mutex)
{
    (void)loop;
    (void)mutex;
}

void simba_loop_look(simba_loop *loop,
                     void (*look)(simba_backend *self, simba_looks *looks),
                     simba_backend *self)
{
    (void)loop;
    (void)look;
    (void)self;
}

void simba_looks_done(simba_looks *looks)
{
    (void)looks;
}

void simba_observed(simba_loop *loop,
                    const char *mutex,
                    const simba_owner *owner,
                    uint64_t ended)
{
    (void)loop;
    (void)mutex;
    (void)owner;
    (void)ended;
}

void simba_request_done(simba_request *request,
                        int status,
                        const simba_error *error)
{
    (void)request;
    if (still_status != INT32_MAX ||
        (error != NULL && strlen(error->message) >= sizeof error->message)) {
        abort(); /* done twice, or a message without an end */
    }
    still_status = status;
}

void simba_request_add_waiter(simba_request *request,
                              const simba_waiter *waiter)
{
    (void)request;
    if (strlen(waiter->id) > SIMBA_ID_MAX) {
        abort();
    }
}

void simba_request_add_owner(simba_request *request, const simba_owner *owner)
{
    (void)request;
    if (strlen(owner->id) > SIMBA_ID_MAX) {
        abort();
    }
}

void simba_request_add_told(simba_request *request,
                            const char *mutex,
                            uint64_t token,
                            const char *text)
{
    (void)request;
    (void)token;
    if (strlen(mutex) + strlen(text) > SIZE_MAX / 2) {
        abort();
    }
}

void simba_request_add_broken(simba_request *request,
                              const simba_broken *broken)
{
    (void)request;
    if (strlen(broken->id) > SIMBA_ID_MAX ||
        strlen(broken->reason) >= sizeof broken->reason) {
        abort();
    }
}

/* The runtime cuts what is too long, and so must whoever takes its place. */
void simba_request_add_mutex(simba_request *request,
                             const char *mutex,
                             const simba_owner *owner,
                             int waiting)
{
    (void)request;
    (void)waiting;
    if (strlen(mutex) == SIZE_MAX || strlen(owner->id) > SIMBA_ID_MAX) {
        abort();
    }
}

void simba_request_add_finding(simba_request *request,
                               enum simba_gravity gravity,
                               const char *name,
                               const char *format,
                               ...)
{
    char text[512];
    va_list args;

    (void)request;
    (void)gravity;
    (void)name;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
}

/* --- steps --------------------------------------------------------------- */

static bool run_posted(void)
{
    bool is_any = still.posted_count > 0;

    while (still.posted_count > 0) {
        still.posted_count--;
        still.posted[still.posted_count].run(
            still.posted[still.posted_count].argument);
    }
    return is_any;
}

/* Of several that are ready the first one: what it does may end the others. */
static bool run_io(void)
{
    struct pollfd set[MOST];
    int count = still.io_count;

    for (int i = 0; i < count; i++) {
        set[i] = (struct pollfd){
            .fd = still.ios[i]->fd,
            .events = (short)(still.ios[i]->events &
                              (uint32_t)(EPOLLIN | EPOLLOUT | EPOLLRDHUP))};
    }
    if (poll(set, (nfds_t)count, 0) <= 0) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (set[i].revents != 0) {
            simba_io *io = still.ios[i];

            /* The next time it is another's turn. */
            memmove(&still.ios[i], &still.ios[i + 1],
                    (size_t)(count - i - 1) * sizeof still.ios[0]);
            still.ios[count - 1] = io;
            io->ready(io, (uint32_t)set[i].revents);
            return true;
        }
    }
    return false;
}

static bool run_timer(void)
{
    simba_timer *first = still.timers;

    for (simba_timer *t = first; t != NULL; t = t->sibling) {
        first = t->at_ms < first->at_ms ? t : first;
    }
    if (first == NULL) {
        return false;
    }
    still.now_ms = first->at_ms > still.now_ms ? first->at_ms : still.now_ms;
    simba_timer_clear(NULL, first);
    first->fire(first);
    return true;
}

bool still_step(void)
{
    return run_posted() || serve() || run_io() || run_timer();
}

void still_end(void)
{
    while (run_posted()) {
    }
    while (still.end_count > 0) {
        hang_up(0);
    }
    if (still.timers != NULL || still.io_count > 0) {
        abort(); /* the store has left something behind */
    }
}
