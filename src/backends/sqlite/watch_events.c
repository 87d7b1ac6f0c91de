/* What inotify says: the loop's side of watch.h. */
#define _GNU_SOURCE
#include "backends/sqlite/eye.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

/* A bell is emptied when it has grown to this. */
enum { BELL_MOST = 32 * 1024 };

/* Between two looks at a process that let go of its file: soon, then later. */
enum { LOOK_AGAIN_MS = 1, LOOK_LATER_MS = 50 };

/* Between two made-up wake-ups: less than a reservation, so that who is called
 * comes in time; and often for the head of a line, of which there is but one
 * among all processes. */
enum { POLL_MS = 200, POLL_HEAD_MS = 10 };

#define watch_of(pointer, member)                                              \
    ((struct simba__sqlite_watch *)((char *)(pointer)-offsetof(                \
        struct simba__sqlite_watch, member)))

/* --- wake-ups ---------------------------------------------------------------
 */

/* One mutex for which a wake-up is due, and no longer due for anyone. */
static bool take_due(struct simba__sqlite_watch *watch, char *mutex)
{
    bool is_found = false;

    pthread_mutex_lock(&watch->lock);
    for (size_t i = 0; i < watch->count; i++) {
        struct simba__sqlite_waiting *one = &watch->waiting[i];

        if (one->is_due && !is_found) {
            memcpy(mutex, one->mutex, strlen(one->mutex) + 1);
            is_found = true;
        }
        if (one->is_due && strcmp(one->mutex, mutex) == 0) {
            one->is_due = false;
        }
    }
    pthread_mutex_unlock(&watch->lock);
    return is_found;
}

static void wake_due(struct simba__sqlite_watch *watch)
{
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];

    while (take_due(watch, mutex)) {
        simba_wake(watch->loop, mutex);
    }
}

/* --- the bell ------------------------------------------------------------ */

/* Whom a line of the bell is for. */
static void wake_line(struct simba__sqlite_watch *watch, char *line)
{
    if (line[0] == SIMBA__SQLITE_CHANGED) {
        simba__sqlite_eyes_tell(watch->loop, line + 1);
    } else if (strlen(line) <= SIMBA_MUTEX_MAX_BYTES) {
        simba_wake(watch->loop, line);
    }
}

/* Each line names a mutex. */
static void wake_lines(struct simba__sqlite_watch *watch,
                       char *text,
                       size_t length)
{
    char *line = text, *end;

    while ((end = memchr(line, '\n', length - (size_t)(line - text))) != NULL) {
        *end = '\0';
        wake_line(watch, line);
        line = end + 1;
    }
}

/* Takes the next whole lines; 0 when there are none. A buffer without the end
 * of a line is nothing of ours. The worker may exchange the bell, therefore
 * the lock. */
static size_t read_bell(struct simba__sqlite_watch *watch,
                        char *text,
                        size_t room)
{
    ssize_t length;
    size_t whole = 0;

    pthread_mutex_lock(&watch->lock);
    length = pread(watch->bell_fd, text, room, watch->bell_read);
    if (length > 0) {
        const char *last = memrchr(text, '\n', (size_t)length);

        whole = last != NULL ? (size_t)(last - text) + 1
                             : (size_t)length / room * room;
        watch->bell_read += (int64_t)whole;
    }
    pthread_mutex_unlock(&watch->lock);
    return whole;
}

/* What is written between our last look and the emptying is lost: so after it
 * every mutex is due. True when it was emptied. */
static bool empty_bell(struct simba__sqlite_watch *watch)
{
    bool is_full;

    pthread_mutex_lock(&watch->lock);
    is_full = watch->bell_read > BELL_MOST && ftruncate(watch->bell_fd, 0) == 0;
    if (is_full) {
        watch->bell_read = 0;
    }
    pthread_mutex_unlock(&watch->lock);
    return is_full;
}

static void answer_bell(struct simba__sqlite_watch *watch, bool is_touched)
{
    char text[4096];
    size_t length;

    while ((length = read_bell(watch, text, sizeof text)) > 0) {
        wake_lines(watch, text, length);
    }
    if (empty_bell(watch) || is_touched) {
        simba_wake(watch->loop, NULL);
    }
}

/* --- deaths -------------------------------------------------------------- */

static int64_t until_next_look(const struct simba__sqlite_waiting *one)
{
    bool is_quick =
        one->looks > SIMBA__SQLITE_LOOKS - SIMBA__SQLITE_LOOKS_QUICK;

    return is_quick ? LOOK_AGAIN_MS : LOOK_LATER_MS;
}

/* Looks once at each process under suspicion. Returns when to look again, or 0.
 * One that lives after all those looks has been slandered. */
static int64_t look_once(struct simba__sqlite_watch *watch)
{
    int64_t again_ms = 0;

    pthread_mutex_lock(&watch->lock);
    for (size_t i = 0; i < watch->count; i++) {
        struct simba__sqlite_waiting *one = &watch->waiting[i];

        if (one->looks == 0) {
            continue;
        }
        if (simba__sqlite_presence_look(watch->presence, one->process) !=
            SIMBA__SQLITE_ALIVE) {
            one->looks = 0;
            one->is_due = true;
        } else if (--one->looks > 0 &&
                   (again_ms == 0 || until_next_look(one) < again_ms)) {
            again_ms = until_next_look(one);
        }
    }
    pthread_mutex_unlock(&watch->lock);
    return again_ms;
}

void simba__sqlite_watch_look(void *argument)
{
    struct simba__sqlite_watch *watch = argument;
    int64_t again_ms;

    if (watch->is_detached) {
        return;
    }
    again_ms = look_once(watch);
    if (again_ms > 0) {
        simba_timer_set(watch->loop, &watch->again,
                        simba_loop_now_ms() + again_ms);
    }
    wake_due(watch);
}

static void look_again(simba_timer *timer)
{
    simba__sqlite_watch_look(watch_of(timer, again));
}

/* --- inotify ------------------------------------------------------------- */

struct news {
    bool is_rung, is_touched, is_closed;
};

static void take_in(struct simba__sqlite_watch *watch,
                    const struct inotify_event *event,
                    struct news *news)
{
    if ((event->mask & IN_Q_OVERFLOW) != 0 || event->wd == watch->bell_wd) {
        news->is_rung = true;
        news->is_touched |= (event->mask & (IN_ATTRIB | IN_Q_OVERFLOW)) != 0;
    }
    for (size_t i = 0; i < watch->count; i++) {
        struct simba__sqlite_waiting *one = &watch->waiting[i];

        if (one->wd != event->wd) {
            continue;
        }
        if ((event->mask & IN_CLOSE_WRITE) != 0) {
            one->looks = SIMBA__SQLITE_LOOKS;
            news->is_closed = true;
        }
        if ((event->mask & IN_IGNORED) != 0) {
            one->wd = -1; /* the file is gone, and the watch with it */
        }
    }
}

/* One buffer full of events; false when there was none. */
static bool read_events(struct simba__sqlite_watch *watch, struct news *news)
{
    _Alignas(struct inotify_event) char events[4096];
    const struct inotify_event *event;
    ssize_t length = read(watch->fd, events, sizeof events);

    pthread_mutex_lock(&watch->lock);
    for (ssize_t at = 0; at < length;
         at += (ssize_t)(sizeof *event + event->len)) {
        event = (const struct inotify_event *)(const void *)(events + at);
        take_in(watch, event, news);
    }
    pthread_mutex_unlock(&watch->lock);
    return length > 0;
}

static void on_readable(simba_io *io, uint32_t events)
{
    struct simba__sqlite_watch *watch = watch_of(io, readable);
    struct news news = {false, false, false};

    (void)events;
    while (read_events(watch, &news)) {
    }
    if (news.is_rung) {
        answer_bell(watch, news.is_touched);
    }
    if (news.is_closed) {
        simba__sqlite_watch_look(watch);
    }
}

/* --- without inotify ----------------------------------------------------- */

static bool has_head(struct simba__sqlite_watch *watch)
{
    bool is_found = false;

    pthread_mutex_lock(&watch->lock);
    for (size_t i = 0; i < watch->count; i++) {
        is_found |= watch->waiting[i].is_head;
    }
    pthread_mutex_unlock(&watch->lock);
    return is_found;
}

static void start_poll(struct simba__sqlite_watch *watch)
{
    int64_t at_ms =
        simba_loop_now_ms() + (has_head(watch) ? POLL_HEAD_MS : POLL_MS);

    if (!watch->poll.is_set || watch->poll.at_ms > at_ms) {
        simba_timer_set(watch->loop, &watch->poll, at_ms);
    }
}

/* Every waiter asks, and with its asking the worker tries again to listen. */
static void on_poll(simba_timer *timer)
{
    struct simba__sqlite_watch *watch = watch_of(timer, poll);
    bool is_over;

    pthread_mutex_lock(&watch->lock);
    is_over = !watch->is_deaf || watch->count == 0;
    watch->is_polling = !is_over;
    for (size_t i = 0; i < watch->count; i++) {
        watch->waiting[i].is_due = true;
    }
    pthread_mutex_unlock(&watch->lock);
    if (!is_over) {
        start_poll(watch);
    }
    wake_due(watch);
}

void simba__sqlite_watch_poll(void *argument)
{
    struct simba__sqlite_watch *watch = argument;

    if (!watch->is_detached) {
        watch->poll.fire = on_poll;
        start_poll(watch);
    }
}

/* --- the loop ------------------------------------------------------------ */

/* What was rung meanwhile waits in the descriptor. */
void simba__sqlite_watch_listen(struct simba__sqlite_watch *watch)
{
    if (watch->is_detached) {
        return;
    }
    pthread_mutex_lock(&watch->lock);
    watch->readable.fd = watch->fd;
    pthread_mutex_unlock(&watch->lock);
    watch->again.fire = look_again;
    watch->readable.ready = on_readable;
    simba_io_set(watch->loop, &watch->readable, EPOLLIN);
}

void simba__sqlite_watch_detach(struct simba__sqlite_watch *watch)
{
    watch->is_detached = true;
    simba_io_clear(watch->loop, &watch->readable);
    simba_timer_clear(watch->loop, &watch->again);
    simba_timer_clear(watch->loop, &watch->poll);
}
