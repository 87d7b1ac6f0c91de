/* Observers: who only watches a mutex, and is told when its owner changes.
 *
 * For each mutex that somebody observes there is a directory beside the files
 * of liveness.c, "<hash of the mutex>.eyes", and in it an empty file for each
 * process that observes. Whoever commits a change of owner looks for that
 * directory: where nobody observes that is all it costs. Two mutexes with one
 * hash notify each other's observers, who look and see that nothing changed.
 *
 * The loop says what is wanted; the worker, who may wait for a disk, does it,
 * before it reads the mutex for the observer: so no change falls in between. */
#define _GNU_SOURCE
#include "backends/sqlite/sqlite.h"

#include "util/container.h"
#include "util/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Another process may remove the directory while it is empty. */
enum { TRIES = 16 };

/* An observer that cannot be notified reads the mutex so often. */
enum { LOOK_MS = 200 };

/* Of a directory of observers: sixteen digits and ".eyes". */
enum { NAME = 16 + 6 };

static void name_directory(const char *mutex, char *name)
{
    snprintf(name, NAME, "%016" PRIx64 ".eyes",
             simba__fnv64(mutex, strlen(mutex)));
}

static int open_directory(const struct simba__sqlite *self, const char *name)
{
    return openat(self->dir_fd, name,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* --- our own files ------------------------------------------------------- */

/* False: another process has removed the directory meanwhile. */
static bool try_add_file(const struct simba__sqlite *self, const char *name)
{
    int dir_fd = open_directory(self, name), fd, why;

    if (dir_fd < 0 && errno == ENOENT &&
        (mkdirat(self->dir_fd, name, 0700) == 0 || errno == EEXIST)) {
        dir_fd = open_directory(self, name);
        if (dir_fd >= 0) {
            simba__sqlite_share(self, dir_fd);
        }
    }
    if (dir_fd < 0) {
        return errno != ENOENT;
    }
    fd = openat(dir_fd, self->process,
                O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    why = errno;
    if (fd >= 0) {
        simba__sqlite_share(self, fd);
        close(fd);
    }
    close(dir_fd);
    return fd >= 0 || why != ENOENT;
}

/* If it fails, the observer's own poll sees the changes. */
static void add_file(struct simba__sqlite *self,
                     struct simba__sqlite_observed *one)
{
    char name[NAME];

    one->is_open = true;
    if (!simba__sqlite_watch_start(self)) {
        self->observers.lacks_wake_file = true;
        return;
    }
    name_directory(one->mutex, name);
    for (int i = 0; i < TRIES && !try_add_file(self, name); i++) {
    }
}

static void remove_file(const struct simba__sqlite *self, const char *mutex)
{
    char path[NAME + 1 + SIMBA__SQLITE_PROCESS], name[NAME];

    name_directory(mutex, name);
    snprintf(path, sizeof path, "%s/%s", name, self->process);
    unlinkat(self->dir_fd, path, 0);
    unlinkat(self->dir_fd, name, AT_REMOVEDIR); /* if empty */
}

/* --- the loop: what is wanted -------------------------------------------- */

void simba__sqlite_observers_fini(struct simba__sqlite *self)
{
    for (struct simba__sqlite_observed *one = self->observers.first, *next;
         one != NULL; one = next) {
        next = one->next;
        if (one->is_open) {
            remove_file(self, one->mutex);
        }
        free(one);
    }
    pthread_mutex_destroy(&self->observers.lock);
}

void simba__sqlite_observers_detach(struct simba__sqlite *self)
{
    self->observers.is_detached = true;
    simba_timer_clear(self->base.loop, &self->observers.again);
}

void simba__sqlite_observe(simba_backend *base,
                           const char *mutex,
                           enum simba_subscription subscription)
{
    struct simba__sqlite_observers *observers =
        &((struct simba__sqlite *)base)->observers;
    bool is_wanted = subscription == SIMBA_SUBSCRIBE_OBSERVE;
    struct simba__sqlite_observed *one;

    pthread_mutex_lock(&observers->lock);
    one = observers->first;
    while (one != NULL && strcmp(one->mutex, mutex) != 0) {
        one = one->next;
    }
    if (one == NULL && is_wanted && (one = calloc(1, sizeof *one)) != NULL) {
        memcpy(one->mutex, mutex, strlen(mutex) + 1);
        one->next = observers->first;
        observers->first = one;
    }
    if (one != NULL) {
        one->is_wanted = is_wanted;
        atomic_store(&observers->is_unsettled, true);
    }
    pthread_mutex_unlock(&observers->lock);
}

/* Nobody can notify us: every observer reads its mutex, and with the request
 * the worker tries again. */
static void look_all(simba_timer *timer)
{
    struct simba__sqlite *self =
        container_of(timer, struct simba__sqlite, observers.again);
    struct simba__sqlite_observed *one;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];

    pthread_mutex_lock(&self->observers.lock);
    for (one = self->observers.first; one != NULL; one = one->next) {
        one->is_due = one->is_wanted;
    }
    do { /* the lock is free during the call */
        one = self->observers.first;
        while (one != NULL && !one->is_due) {
            one = one->next;
        }
        if (one != NULL) {
            one->is_due = false;
            memcpy(mutex, one->mutex, strlen(one->mutex) + 1);
            pthread_mutex_unlock(&self->observers.lock);
            simba_observed(self->base.loop, mutex, NULL, 0);
            pthread_mutex_lock(&self->observers.lock);
        }
    } while (one != NULL);
    pthread_mutex_unlock(&self->observers.lock);
}

/* --- the worker: settling ------------------------------------------------ */

static void mark_removed(struct simba__sqlite_observers *observers)
{
    pthread_mutex_lock(&observers->lock);
    for (struct simba__sqlite_observed *one = observers->first; one != NULL;
         one = one->next) {
        one->is_open = false;
    }
    pthread_mutex_unlock(&observers->lock);
}

void simba__sqlite_observers_renew(struct simba__sqlite *self)
{
    mark_removed(&self->observers);
    atomic_store(&self->observers.is_unsettled, true);
}

/* Returns one whose file is not as it is wanted, and takes it out of the list
 * if it is not wanted. The loop needs the lock, so it is not held while the
 * disk works. */
static struct simba__sqlite_observed *find_unsettled(
    struct simba__sqlite_observers *observers,
    bool *is_wanted)
{
    struct simba__sqlite_observed *one, **link;

    pthread_mutex_lock(&observers->lock);
    for (link = &observers->first; (one = *link) != NULL; link = &one->next) {
        *is_wanted = one->is_wanted;
        if (one->is_wanted != one->is_open) {
            break;
        }
    }
    if (one != NULL && !one->is_wanted) {
        *link = one->next;
    }
    pthread_mutex_unlock(&observers->lock);
    return one;
}

void simba__sqlite_observers_settle(struct simba__sqlite *self)
{
    struct simba__sqlite_observers *observers = &self->observers;
    struct simba__sqlite_observed *one;
    bool is_wanted;

    atomic_store(&observers->is_unsettled, false);
    if (observers->lacks_wake_file) { /* try again */
        observers->lacks_wake_file = false;
        mark_removed(observers);
    }
    while ((one = find_unsettled(observers, &is_wanted)) != NULL) {
        if (is_wanted) {
            add_file(self, one);
        } else {
            remove_file(self, one->mutex);
            free(one);
        }
    }
    if (observers->lacks_wake_file) {
        simba_loop_enter(self->base.loop);
        if (!observers->is_detached && !observers->again.is_set) {
            observers->again.fire = look_all;
            simba_timer_set(self->base.loop, &observers->again,
                            simba_loop_now_ms() + LOOK_MS);
        }
        simba_loop_leave(self->base.loop);
    }
}

/* --- the worker: a change ------------------------------------------------ */

/* The line says what a read would answer now. Elsewhere a missing life file is
 * no proof of death. Here it does no harm to take it for one: a process that
 * finds its life file gone adds its observers' files again. */
void simba__sqlite_observers_notify(const struct simba__sqlite *self,
                                    const simba_request *request)
{
    const simba_owner *owner = &request->reply.owner;
    char name[NAME], line[SIMBA__SQLITE_LINE];
    const struct dirent *entry;
    bool is_empty = true;
    DIR *directory;
    int fd;

    name_directory(request->mutex, name);
    fd = open_directory(self, name);
    if (fd < 0) {
        return; /* as a rule: nobody observes */
    }
    directory = fdopendir(fd);
    if (directory == NULL) {
        close(fd);
        return;
    }
    if (self->record.is_crowd || owner->slots > 1) {
        snprintf(line, sizeof line, "\t%s", request->mutex); /* look */
    } else {
        snprintf(line, sizeof line,
                 "\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRId64 "\t%" PRId64
                 "\t%" PRId64 "\t%s",
                 request->mutex, request->reply.ended, owner->token,
                 owner->acquired_at_ms, owner->ttl_at_ms,
                 owner->transition_at_ms, owner->id);
    }
    /* A directory stream of our own: no other thread reads it. */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    while ((entry = readdir(directory)) != NULL) {
        if (!simba__sqlite_is_process(entry->d_name)) {
            continue;
        }
        if (simba__sqlite_life_of(self, entry->d_name) == SIMBA__SQLITE_ALIVE) {
            simba__sqlite_notify(self, entry->d_name, line);
            is_empty = false;
        } else {
            unlinkat(dirfd(directory), entry->d_name, 0);
        }
    }
    if (is_empty) {
        unlinkat(self->dir_fd, name, AT_REMOVEDIR);
    }
    closedir(directory);
}

/* --- the loop: being told ------------------------------------------------ */

void simba__sqlite_observers_tell(const struct simba__sqlite *self, char *line)
{
    char *text = strchr(line, SIMBA__SQLITE_CHANGED), *end;
    simba_owner owner = simba_owner_none();
    uint64_t numbers[5];
    bool is_whole = text != NULL;

    if (is_whole) {
        *text++ = '\0';
    }
    for (int i = 0; i < 5 && is_whole; i++) {
        numbers[i] = strtoull(text, &end, 10);
        is_whole = end != text && *end == SIMBA__SQLITE_CHANGED;
        text = end + 1;
    }
    if (!is_whole || !simba_owner_set_id(&owner, text)) {
        simba_observed(self->base.loop, line, NULL, 0); /* look for yourself */
        return;
    }
    owner.token = numbers[1];
    owner.acquired_at_ms = (int64_t)numbers[2];
    owner.ttl_at_ms = (int64_t)numbers[3];
    owner.transition_at_ms = (int64_t)numbers[4];
    simba_observed(self->base.loop, line, &owner, numbers[0]);
}
