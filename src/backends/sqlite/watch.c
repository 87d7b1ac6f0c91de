/* Who of this handle waits for whom: the worker's side of watch.h. */
#define _GNU_SOURCE
#include "backends/sqlite/watch.h"

#include "backends/sqlite/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

void simba__sqlite_watch_init(struct simba__sqlite_watch *watch,
                              const struct simba__sqlite_presence *presence,
                              simba_loop *loop)
{
    *watch = (struct simba__sqlite_watch){.presence = presence,
                                          .loop = loop,
                                          .fd = -1,
                                          .bell_fd = -1,
                                          .bell_wd = -1};
    pthread_mutex_init(&watch->lock, NULL);
}

void simba__sqlite_watch_fini(struct simba__sqlite_watch *watch)
{
    simba__sqlite_watch_forked(watch);
    free(watch->waiting);
    pthread_mutex_destroy(&watch->lock);
}

void simba__sqlite_watch_forked(struct simba__sqlite_watch *watch)
{
    if (watch->fd >= 0) {
        close(watch->fd);
    }
    if (watch->bell_fd >= 0) {
        close(watch->bell_fd);
    }
    watch->fd = watch->bell_fd = -1;
}

/* --- files under watch --------------------------------------------------- */

/* inotify knows paths only; a name below an open directory is one. */
static int add_watch(const struct simba__sqlite_watch *watch,
                     const char *name,
                     uint32_t events)
{
    char path[64 + SIMBA__SQLITE_BELL];

    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", watch->presence->dir_fd,
             name);
    return inotify_add_watch(watch->fd, path, events | IN_DONT_FOLLOW);
}

static void take_bell_down(struct simba__sqlite_watch *watch)
{
    if (watch->bell_fd >= 0) {
        close(watch->bell_fd);
    }
    watch->bell_fd = watch->bell_wd = -1;
    watch->bell_read = 0;
}

static bool hang_bell(struct simba__sqlite_watch *watch)
{
    char name[SIMBA__SQLITE_BELL];

    take_bell_down(watch);
    watch->bell_fd = simba__sqlite_presence_make_bell(watch->presence);
    if (watch->bell_fd < 0) {
        return false;
    }
    simba__sqlite_presence_bell_name(watch->presence->process, name);
    watch->bell_wd = add_watch(watch, name, IN_MODIFY | IN_ATTRIB);
    if (watch->bell_wd < 0) {
        take_bell_down(watch);
    }
    return watch->bell_wd >= 0;
}

/* What fails for want of descriptors or watches is tried again with the next
 * who waits. */
static bool start(struct simba__sqlite_watch *watch)
{
    if (watch->fd < 0) {
        watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (watch->fd < 0) {
            return false;
        }
        watch->is_unheard = true;
    }
    return watch->bell_fd >= 0 || hang_bell(watch);
}

/* After start(), with the lock free. Entered rather than posted: a letter needs
 * memory. */
static void listen_if_new(struct simba__sqlite_watch *watch)
{
    if (watch->is_unheard) {
        watch->is_unheard = false;
        simba_loop_enter(watch->loop);
        simba__sqlite_watch_listen(watch);
        simba_loop_leave(watch->loop);
    }
}

static void drop_watch(struct simba__sqlite_watch *watch, int wd)
{
    for (size_t i = 0; i < watch->count; i++) {
        if (watch->waiting[i].wd == wd) {
            return; /* others wait for the same process */
        }
    }
    if (wd >= 0) {
        inotify_rm_watch(watch->fd, wd);
    }
}

/* --- who waits ----------------------------------------------------------- */

static struct simba__sqlite_waiting *find(struct simba__sqlite_watch *watch,
                                          const simba_request *request)
{
    for (size_t i = 0; i < watch->count; i++) {
        struct simba__sqlite_waiting *one = &watch->waiting[i];

        if (one->attempt.high == request->attempt.high &&
            one->attempt.low == request->attempt.low &&
            strcmp(one->mutex, request->mutex) == 0) {
            return one;
        }
    }
    return NULL;
}

static void forget(struct simba__sqlite_watch *watch, size_t i)
{
    int wd = watch->waiting[i].wd;

    watch->waiting[i] = watch->waiting[--watch->count];
    drop_watch(watch, wd);
}

/* Those who gave up without a word: they had no position in the queue to give
 * back. */
static void forget_lapsed(struct simba__sqlite_watch *watch)
{
    int64_t now_ms = simba_loop_now_ms();

    for (size_t i = watch->count; i > 0; i--) {
        if (watch->waiting[i - 1].lapses_ms < now_ms) {
            forget(watch, i - 1);
        }
    }
}

static struct simba__sqlite_waiting *find_or_add(
    struct simba__sqlite_watch *watch,
    const simba_request *request)
{
    struct simba__sqlite_waiting *one = find(watch, request);

    if (one != NULL) {
        return one;
    }
    forget_lapsed(watch);
    if (!simba__sqlite_grow((void **)&watch->waiting, watch->count,
                            &watch->room, sizeof *watch->waiting)) {
        return NULL;
    }
    one = &watch->waiting[watch->count++];
    memset(one, 0, sizeof *one);
    memcpy(one->mutex, request->mutex, strlen(request->mutex) + 1);
    one->attempt = request->attempt;
    one->wd = -1;
    return one;
}

/* Wait for another process than before. It may have died after it was last
 * looked at and before the watch was there, so that it must be looked at once
 * more; once only, or a file that cannot be watched would have us ask without
 * end. True when it must. */
static bool turn_to(struct simba__sqlite_watch *watch,
                    struct simba__sqlite_waiting *one,
                    const char *process)
{
    int old_wd = one->wd;

    if (strcmp(one->process, process) == 0) {
        return false;
    }
    one->wd = -1;
    drop_watch(watch, old_wd);
    memcpy(one->process, process, strlen(process) + 1);
    if (!simba__sqlite_presence_is_name(process) ||
        strcmp(process, watch->presence->process) == 0) {
        return false;
    }
    one->wd = add_watch(watch, process, IN_CLOSE_WRITE);
    if (simba__sqlite_presence_look(watch->presence, process) ==
        SIMBA__SQLITE_ALIVE) {
        return false;
    }
    one->looks = 1;
    return true;
}

/* Posted outside the lock. */
struct errands {
    bool look, poll;
};

static struct errands note_waiting(struct simba__sqlite_watch *watch,
                                   struct simba__sqlite_waiting *one,
                                   const char *process)
{
    struct errands errands = {false, false};

    if (!watch->is_deaf) {
        errands.look = turn_to(watch, one, process);
    } else {
        errands.poll = !watch->is_polling || one->is_head;
        watch->is_polling = true;
    }
    return errands;
}

bool simba__sqlite_watch_wait(struct simba__sqlite_watch *watch,
                              const simba_request *request,
                              const char *process,
                              bool is_head)
{
    struct simba__sqlite_waiting *one;
    struct errands errands = {false, false};
    bool is_deaf;

    pthread_mutex_lock(&watch->lock);
    one = find_or_add(watch, request);
    watch->is_deaf = is_deaf = !start(watch);
    if (one != NULL) {
        one->lapses_ms = simba_loop_now_ms() + request->waiter_ms;
        one->is_head = is_head;
        errands = note_waiting(watch, one, process);
    }
    pthread_mutex_unlock(&watch->lock);
    listen_if_new(watch);
    if (errands.look) {
        simba_loop_post(watch->loop, simba__sqlite_watch_look, watch);
    }
    if (errands.poll) {
        simba_loop_post(watch->loop, simba__sqlite_watch_poll, watch);
    }
    return !is_deaf;
}

bool simba__sqlite_watch_attend(struct simba__sqlite_watch *watch)
{
    bool is_fine;

    pthread_mutex_lock(&watch->lock);
    is_fine = start(watch);
    pthread_mutex_unlock(&watch->lock);
    listen_if_new(watch);
    return is_fine;
}

void simba__sqlite_watch_forget(struct simba__sqlite_watch *watch,
                                const simba_request *request)
{
    struct simba__sqlite_waiting *one;

    if (watch->count == 0) {
        return; /* the worker's own number: no lock is needed to read it */
    }
    pthread_mutex_lock(&watch->lock);
    one = find(watch, request);
    if (one != NULL) {
        forget(watch, (size_t)(one - watch->waiting));
    }
    pthread_mutex_unlock(&watch->lock);
}

void simba__sqlite_watch_renew(struct simba__sqlite_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    if (watch->fd >= 0) {
        hang_bell(watch);
    }
    pthread_mutex_unlock(&watch->lock);
}
