/* Wake-ups, by inotify: our wake-up file, and the death of those we wait for.
 *
 * A handle that waits has a second file in the directory of liveness.c,
 * "<process>.bell", to which others append the name of the mutex it should ask
 * for. It watches that, and the file of the process in its way.
 *
 * Nothing is set up before somebody really waits: a descriptor of inotify that
 * had a watch takes the kernel up to 18 ms to close.
 *
 * The worker says who waits for whom, inside the transaction in which it was
 * refused: so nobody can notify us, and no owner can be told dead, in between.
 * The loop reads what inotify says. A lock guards what both of them see; no
 * call out of this file is made while it is held. */
#define _GNU_SOURCE
#include "backends/sqlite/sqlite.h"

#include "util/container.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/uio.h>
#include <unistd.h>

/* A wake-up file is emptied when it has grown to this. */
enum { WAKE_FILE_MOST = 32 * 1024 };

/* The kernel tells that a file was closed shortly before it drops the lock, and
 * on a busy machine the dying process may lose the processor in between. So the
 * process is looked at so often: some times soon, then later. */
enum { LOOKS = 150, LOOKS_QUICK = 50, LOOK_AGAIN_MS = 1, LOOK_LATER_MS = 50 };

/* Time between two wake-ups that are made up: less than an offer lasts, so that
 * a waiter comes in time; and little for the head of a queue, of which there is
 * only one among all processes. */
enum { POLL_MS = 200, POLL_HEAD_MS = 10 };

/* Time between two looks for entries that have lapsed. */
enum { SWEEP_MS = 1000 };

/* --- who waits, with the lock held --------------------------------------- */

/* All of them, in no order: the first after NULL; NULL: no more. */
static struct simba__sqlite_waiting *next_waiting(
    const struct simba__sqlite_watch *watch,
    const struct simba__sqlite_waiting *one)
{
    return (struct simba__sqlite_waiting *)simba__hash_next(
        &watch->waiting, one == NULL ? NULL : &one->link);
}

static struct simba__sqlite_obstacle *next_obstacle(
    const struct simba__sqlite_watch *watch,
    const struct simba__sqlite_obstacle *one)
{
    return (struct simba__sqlite_obstacle *)simba__hash_next(
        &watch->obstacles, one == NULL ? NULL : &one->link);
}

static void set_due(struct simba__sqlite_watch *watch,
                    struct simba__sqlite_waiting *one,
                    bool is_due)
{
    watch->due += is_due;
    watch->due -= one->is_due;
    one->is_due = is_due;
}

/* Takes the mutex of one that is due, and all who wait for it are so no more.
 * False: nobody is. */
static bool take_due(struct simba__sqlite_watch *watch,
                     char mutex[SIMBA_MUTEX_MAX_BYTES + 1])
{
    struct simba__sqlite_waiting *one = NULL;
    struct simba__hash_link *link;

    if (watch->due == 0) {
        return false;
    }
    do {
        one = next_waiting(watch, one);
    } while (!one->is_due);
    memcpy(mutex, one->link.key, strlen(one->link.key) + 1);
    for (link = simba__hash_find(&watch->waiting, mutex); link != NULL;
         link = simba__hash_find_next(&watch->waiting, link)) {
        set_due(watch, (struct simba__sqlite_waiting *)link, false);
    }
    return true;
}

/* --- notifying others ---------------------------------------------------- */

void simba__sqlite_wake_name(const char *process, char *name)
{
    snprintf(name, SIMBA__SQLITE_WAKE_NAME, "%.*s.bell", SIMBA__SQLITE_PROCESS,
             process);
}

/* The line names the mutex, so that a process that waits for a thousand asks
 * for one. On a full disk the file is touched instead. If there is no file,
 * nobody listens. */
void simba__sqlite_notify(const struct simba__sqlite *self,
                          const char *process,
                          const char *line)
{
    char name[SIMBA__SQLITE_WAKE_NAME];
    char newline[] = "\n";
    struct iovec parts[2] = {{(void *)(uintptr_t)line, strlen(line)},
                             {newline, 1}};
    int fd;

    simba__sqlite_wake_name(process, name);
    fd = openat(self->dir_fd, name,
                O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    if (writev(fd, parts, 2) != (ssize_t)parts[0].iov_len + 1) {
        futimens(fd, NULL);
    }
    close(fd);
}

/* --- the loop: what is read ---------------------------------------------- */

static void wake_due(struct simba__sqlite *self)
{
    struct simba__sqlite_watch *watch = &self->watch;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
    bool is_found;

    do { /* one mutex after the other, each once */
        pthread_mutex_lock(&watch->lock);
        is_found = take_due(watch, mutex);
        pthread_mutex_unlock(&watch->lock);
        if (is_found) {
            simba_wake(self->base.loop, mutex);
        }
    } while (is_found);
}

/* Takes the next whole lines; 0 when there are none. A buffer full without the
 * end of a line was not written by us. The worker may exchange the file,
 * therefore the lock. */
static size_t read_lines(struct simba__sqlite_watch *watch,
                         char *text,
                         size_t room)
{
    ssize_t length;
    size_t whole = 0;

    pthread_mutex_lock(&watch->lock);
    length = pread(watch->wake_fd, text, room, watch->wake_read);
    if (length > 0) {
        const char *last = memrchr(text, '\n', (size_t)length);

        whole = last != NULL ? (size_t)(last - text) + 1
                             : (size_t)length / room * room;
        watch->wake_read += (int64_t)whole;
    }
    pthread_mutex_unlock(&watch->lock);
    return whole;
}

/* It is for the first of this handle, unless one with slots may fit in behind
 * it. A second that asked with the first would keep it from the database. */
static void wake_named(struct simba__sqlite *self, const char *mutex)
{
    bool is_shared;

    pthread_mutex_lock(&self->watch.lock);
    is_shared = self->watch.shared > 0;
    pthread_mutex_unlock(&self->watch.lock);
    if (is_shared) {
        simba_wake(self->base.loop, mutex);
    } else {
        simba_wake_first(self->base.loop, mutex);
    }
}

static void read_wake_file(struct simba__sqlite *self, bool is_touched)
{
    struct simba__sqlite_watch *watch = &self->watch;
    char text[4096], *line, *end;
    size_t length;

    while ((length = read_lines(watch, text, sizeof text)) > 0) {
        for (line = text;
             (end = memchr(line, '\n', length - (size_t)(line - text))) != NULL;
             line = end + 1) {
            *end = '\0';
            if (line[0] == SIMBA__SQLITE_CHANGED) {
                simba__sqlite_observers_tell(self, line + 1);
            } else if (strlen(line) <= SIMBA_MUTEX_MAX_BYTES) {
                wake_named(self, line);
            }
        }
    }
    /* Lines that come between our last read and the emptying are lost, so after
     * it every mutex is due. */
    pthread_mutex_lock(&watch->lock);
    if (watch->wake_read > WAKE_FILE_MOST &&
        ftruncate(watch->wake_fd, 0) == 0) {
        watch->wake_read = 0;
        is_touched = true;
    }
    pthread_mutex_unlock(&watch->lock);
    if (is_touched) {
        simba_wake(self->base.loop, NULL);
    }
}

static void call_waiters(struct simba__sqlite_watch *watch,
                         const struct simba__sqlite_obstacle *obstacle)
{
    struct simba__sqlite_waiting *one = NULL;

    while ((one = next_waiting(watch, one)) != NULL) {
        if (one->obstacle == obstacle) {
            set_due(watch, one, true);
        }
    }
}

/* Looks once at each process that let go of its file, and sets the timer if one
 * is alive still. One that lives after all its looks is not dead. */
static void look(void *argument)
{
    struct simba__sqlite *self = argument;
    struct simba__sqlite_watch *watch = &self->watch;
    struct simba__sqlite_obstacle *one = NULL;
    int64_t again_ms = 0;

    if (watch->is_detached) {
        return;
    }
    pthread_mutex_lock(&watch->lock);
    while ((one = next_obstacle(watch, one)) != NULL) {
        if (one->looks == 0) {
            continue;
        }
        if (simba__sqlite_life_of(self, one->link.key) != SIMBA__SQLITE_ALIVE) {
            one->looks = 0;
            call_waiters(watch, one);
        } else if (--one->looks > LOOKS - LOOKS_QUICK) {
            again_ms = LOOK_AGAIN_MS;
        } else if (one->looks > 0 && again_ms == 0) {
            again_ms = LOOK_LATER_MS;
        }
    }
    pthread_mutex_unlock(&watch->lock);
    if (again_ms > 0) {
        simba_timer_set(self->base.loop, &watch->again,
                        simba_loop_now_ms() + again_ms);
    }
    wake_due(self);
}

static void look_again(simba_timer *timer)
{
    look(container_of(timer, struct simba__sqlite, watch.again));
}

static void on_readable(simba_io *io, uint32_t events)
{
    struct simba__sqlite *self =
        container_of(io, struct simba__sqlite, watch.readable);
    struct simba__sqlite_watch *watch = &self->watch;
    _Alignas(struct inotify_event) char buffer[4096];
    bool is_notified = false, is_touched = false, is_closed = false;
    const struct inotify_event *event;
    struct simba__sqlite_obstacle *one;
    ssize_t length;

    (void)events;
    while ((length = read(watch->fd, buffer, sizeof buffer)) > 0) {
        pthread_mutex_lock(&watch->lock);
        for (ssize_t at = 0; at < length;
             at += (ssize_t)(sizeof *event + event->len)) {
            event = (const struct inotify_event *)(const void *)(buffer + at);
            if ((event->mask & IN_Q_OVERFLOW) != 0 ||
                event->wd == watch->wake_wd) {
                is_notified = true;
                is_touched |= (event->mask & (IN_ATTRIB | IN_Q_OVERFLOW)) != 0;
            }
            for (one = NULL; (one = next_obstacle(watch, one)) != NULL;) {
                if (one->wd == event->wd &&
                    (event->mask & IN_CLOSE_WRITE) != 0) {
                    one->looks = LOOKS;
                    is_closed = true;
                }
                if (one->wd == event->wd && (event->mask & IN_IGNORED) != 0) {
                    one->wd = -1; /* the file is gone, and the watch with it */
                }
            }
        }
        pthread_mutex_unlock(&watch->lock);
    }
    if (is_notified) {
        read_wake_file(self, is_touched);
    }
    if (is_closed) {
        look(self);
    }
}

/* --- the loop: without inotify ------------------------------------------- */

static void on_poll(simba_timer *timer);

/* Makes up wake-ups when there is no inotify: a user has only 128 descriptors
 * of it on most machines. */
static void start_poll(void *argument)
{
    struct simba__sqlite *self = argument;
    struct simba__sqlite_watch *watch = &self->watch;
    const struct simba__sqlite_waiting *one = NULL;
    int64_t at_ms = POLL_MS;

    if (watch->is_detached) {
        return;
    }
    pthread_mutex_lock(&watch->lock);
    while (at_ms == POLL_MS && (one = next_waiting(watch, one)) != NULL) {
        if (one->is_head) {
            at_ms = POLL_HEAD_MS;
        }
    }
    pthread_mutex_unlock(&watch->lock);
    at_ms += simba_loop_now_ms();
    if (!watch->poll.is_set || watch->poll.at_ms > at_ms) {
        watch->poll.fire = on_poll;
        simba_timer_set(self->base.loop, &watch->poll, at_ms);
    }
}

/* Every waiter asks, and with each request the worker tries again to listen. */
static void on_poll(simba_timer *timer)
{
    struct simba__sqlite *self =
        container_of(timer, struct simba__sqlite, watch.poll);
    struct simba__sqlite_watch *watch = &self->watch;
    struct simba__sqlite_waiting *one = NULL;
    bool is_over;

    pthread_mutex_lock(&watch->lock);
    is_over = !watch->lacks_inotify || watch->waiting.count == 0;
    watch->is_polling = !is_over;
    while ((one = next_waiting(watch, one)) != NULL) {
        set_due(watch, one, true);
    }
    pthread_mutex_unlock(&watch->lock);
    if (!is_over) {
        start_poll(self);
    }
    wake_due(self);
}

/* --- the worker: what is watched ----------------------------------------- */

/* inotify takes paths only; a name below an open directory is made one. */
static int add_watch(const struct simba__sqlite *self,
                     const char *name,
                     uint32_t events)
{
    char path[64 + SIMBA__SQLITE_WAKE_NAME];

    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", self->dir_fd, name);
    return inotify_add_watch(self->watch.fd, path, events | IN_DONT_FOLLOW);
}

static void close_wake_file(struct simba__sqlite_watch *watch)
{
    if (watch->wake_fd >= 0) {
        close(watch->wake_fd);
    }
    watch->wake_fd = watch->wake_wd = -1;
    watch->wake_read = 0;
}

static bool make_wake_file(struct simba__sqlite *self)
{
    struct simba__sqlite_watch *watch = &self->watch;
    char name[SIMBA__SQLITE_WAKE_NAME];

    close_wake_file(watch);
    simba__sqlite_wake_name(self->process, name);
    unlinkat(self->dir_fd, name, 0);
    watch->wake_fd =
        openat(self->dir_fd, name,
               O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (watch->wake_fd < 0) {
        return false;
    }
    simba__sqlite_share(self, watch->wake_fd);
    watch->wake_wd = add_watch(self, name, IN_MODIFY | IN_ATTRIB);
    if (watch->wake_wd < 0) {
        close_wake_file(watch);
    }
    return watch->wake_wd >= 0;
}

/* With the lock held. If there are no descriptors or watches left, the next
 * waiter tries again. */
static bool start(struct simba__sqlite *self)
{
    struct simba__sqlite_watch *watch = &self->watch;

    if (watch->fd < 0) {
        watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (watch->fd < 0) {
            return false;
        }
        watch->is_new = true;
    }
    return watch->wake_fd >= 0 || make_wake_file(self);
}

/* After start(), with the lock free. The loop is entered rather than posted to:
 * a message needs memory. What was written meanwhile waits in the descriptor.
 */
static void listen_if_new(struct simba__sqlite *self)
{
    struct simba__sqlite_watch *watch = &self->watch;

    if (!watch->is_new) {
        return;
    }
    watch->is_new = false;
    simba_loop_enter(self->base.loop);
    if (!watch->is_detached) {
        watch->readable.fd = watch->fd; /* only the worker changes it */
        watch->again.fire = look_again;
        watch->readable.ready = on_readable;
        simba_io_set(self->base.loop, &watch->readable, EPOLLIN);
    }
    simba_loop_leave(self->base.loop);
}

bool simba__sqlite_watch_start(struct simba__sqlite *self)
{
    bool is_fine;

    pthread_mutex_lock(&self->watch.lock);
    is_fine = start(self);
    pthread_mutex_unlock(&self->watch.lock);
    listen_if_new(self);
    return is_fine;
}

/* A waiter has another process in its way than before, or none. */
static void drop_obstacle(struct simba__sqlite_watch *watch,
                          struct simba__sqlite_obstacle *obstacle)
{
    if (obstacle == NULL || --obstacle->waiters > 0) {
        return;
    }
    if (obstacle->wd >= 0) {
        inotify_rm_watch(watch->fd, obstacle->wd);
    }
    simba__hash_remove(&watch->obstacles, &obstacle->link);
    free(obstacle);
}

static void forget(struct simba__sqlite_watch *watch,
                   struct simba__sqlite_waiting *one)
{
    set_due(watch, one, false);
    watch->shared -= one->is_shared;
    simba__hash_remove(&watch->waiting, &one->link);
    drop_obstacle(watch, one->obstacle);
    free(one);
}

/* A waiter without a position in the queue may give up without a request: its
 * entry goes when it has lapsed. */
static void sweep(struct simba__sqlite_watch *watch)
{
    int64_t now_ms = simba_loop_now_ms();
    struct simba__sqlite_waiting *one, *next;

    if (now_ms - watch->swept_ms < SWEEP_MS) {
        return;
    }
    watch->swept_ms = now_ms;
    for (one = next_waiting(watch, NULL); one != NULL; one = next) {
        next = next_waiting(watch, one);
        if (one->lapses_ms < now_ms) {
            forget(watch, one);
        }
    }
}

static struct simba__sqlite_waiting *find(
    const struct simba__sqlite_watch *watch,
    const simba_request *request)
{
    struct simba__hash_link *link =
        simba__hash_find(&watch->waiting, request->mutex);

    while (link != NULL && !simba__attempt_equal(
                               ((struct simba__sqlite_waiting *)link)->attempt,
                               request->attempt)) {
        link = simba__hash_find_next(&watch->waiting, link);
    }
    return (struct simba__sqlite_waiting *)link;
}

/* NULL: no memory. */
static struct simba__sqlite_waiting *find_or_add(
    struct simba__sqlite_watch *watch,
    const simba_request *request)
{
    struct simba__sqlite_waiting *one = find(watch, request);

    if (one != NULL) {
        return one;
    }
    sweep(watch);
    one = simba__hash_new(&watch->waiting, sizeof *one, request->mutex);
    if (one != NULL) {
        one->attempt = request->attempt;
        one->is_shared = request->slots > 1;
        watch->shared += one->is_shared;
    }
    return one;
}

/* NULL: no memory. */
static struct simba__sqlite_obstacle *find_obstacle(
    struct simba__sqlite_watch *watch,
    const char *process)
{
    struct simba__sqlite_obstacle *obstacle =
        (struct simba__sqlite_obstacle *)simba__hash_find(&watch->obstacles,
                                                          process);

    if (obstacle == NULL) {
        obstacle =
            simba__hash_new(&watch->obstacles, sizeof *obstacle, process);
        if (obstacle != NULL) {
            obstacle->wd = -1;
        }
    }
    return obstacle;
}

/* Watches another process than before. True: its waiter must ask, for the
 * process may have died before the watch was there. Once only, or a file that
 * cannot be watched would have us ask without end. */
static bool watch_process(struct simba__sqlite *self,
                          struct simba__sqlite_waiting *one,
                          const char *process)
{
    struct simba__sqlite_obstacle *old = one->obstacle;
    int wd;

    if (old != NULL && strcmp(old->link.key, process) == 0) {
        return false;
    }
    one->obstacle = find_obstacle(&self->watch, process);
    if (one->obstacle != NULL) { /* else the backstop will do */
        one->obstacle->waiters++;
    }
    drop_obstacle(&self->watch, old);
    if (one->obstacle == NULL || !simba__sqlite_is_process(process) ||
        strcmp(process, self->process) == 0) {
        return false;
    }
    wd = add_watch(self, process, IN_CLOSE_WRITE);
    if (wd >= 0) { /* else what its watch had to tell is still to be read */
        one->obstacle->wd = wd;
    }
    if (simba__sqlite_life_of(self, process) == SIMBA__SQLITE_ALIVE) {
        return false;
    }
    set_due(&self->watch, one, true);
    return true;
}

bool simba__sqlite_watch_wait(struct simba__sqlite *self,
                              const simba_request *request,
                              const char *process,
                              bool is_head)
{
    struct simba__sqlite_watch *watch = &self->watch;
    struct simba__sqlite_waiting *one;
    bool is_polling, must_look = false, must_poll = false;

    pthread_mutex_lock(&watch->lock);
    one = find_or_add(watch, request);
    watch->lacks_inotify = is_polling = !start(self);
    if (one != NULL) {
        one->lapses_ms = simba_loop_now_ms() + request->waiter_ms;
        one->is_head = is_head;
    }
    if (one != NULL && !is_polling) {
        must_look = watch_process(self, one, process);
    } else if (one != NULL) {
        must_poll = !watch->is_polling || is_head;
        watch->is_polling = true;
    }
    pthread_mutex_unlock(&watch->lock);
    listen_if_new(self);
    if (must_look) {
        simba_loop_post(self->base.loop, look, self);
    }
    if (must_poll) {
        simba_loop_post(self->base.loop, start_poll, self);
    }
    return !is_polling;
}

bool simba__sqlite_watch_has(struct simba__sqlite *self,
                             const simba_request *request)
{
    bool has;

    pthread_mutex_lock(&self->watch.lock);
    has = find(&self->watch, request) != NULL;
    pthread_mutex_unlock(&self->watch.lock);
    return has;
}

void simba__sqlite_watch_forget(struct simba__sqlite *self,
                                const simba_request *request)
{
    struct simba__sqlite_watch *watch = &self->watch;
    struct simba__sqlite_waiting *one;

    pthread_mutex_lock(&watch->lock);
    one = find(watch, request);
    if (one != NULL) {
        forget(watch, one);
    }
    pthread_mutex_unlock(&watch->lock);
}

void simba__sqlite_watch_renew(struct simba__sqlite *self)
{
    pthread_mutex_lock(&self->watch.lock);
    if (self->watch.fd >= 0) {
        (void)make_wake_file(self);
    }
    pthread_mutex_unlock(&self->watch.lock);
}

/* --- beginning and end --------------------------------------------------- */

void simba__sqlite_watch_detach(struct simba__sqlite *self)
{
    self->watch.is_detached = true;
    simba_io_clear(self->base.loop, &self->watch.readable);
    simba_timer_clear(self->base.loop, &self->watch.again);
    simba_timer_clear(self->base.loop, &self->watch.poll);
}

void simba__sqlite_watch_forked(struct simba__sqlite *self)
{
    if (self->watch.fd >= 0) {
        close(self->watch.fd);
    }
    self->watch.fd = -1;
    close_wake_file(&self->watch);
}

void simba__sqlite_watch_fini(struct simba__sqlite *self)
{
    simba__sqlite_watch_forked(self);
    simba__hash_free(&self->watch.waiting);
    simba__hash_free(&self->watch.obstacles);
    pthread_mutex_destroy(&self->watch.lock);
}
