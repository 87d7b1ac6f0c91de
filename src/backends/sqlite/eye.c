#define _GNU_SOURCE
#include "backends/sqlite/eye.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Another may take the directory away because it is empty still. */
enum { TRIES = 16 };

/* Who cannot be rung looks so often, and tries again to hang up a bell. */
enum { LOOK_MS = 200 };

/* Of a directory of eyes: sixteen digits and ".eyes". */
enum { NAME = 16 + 6 };

static void name_of(const char *mutex, char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

    for (; *mutex != '\0'; mutex++) {
        hash = (hash ^ (unsigned char)*mutex) * UINT64_C(1099511628211);
    }
    snprintf(name, NAME, "%016" PRIx64 ".eyes", hash);
}

static int open_dir(const struct simba__sqlite_presence *presence,
                    const char *name)
{
    return openat(presence->dir_fd, name,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* --- opening and closing ------------------------------------------------- */

static int make_dir(const struct simba__sqlite_presence *presence,
                    const char *name)
{
    int fd = open_dir(presence, name);

    if (fd < 0 && errno == ENOENT &&
        (mkdirat(presence->dir_fd, name, 0700) == 0 || errno == EEXIST)) {
        fd = open_dir(presence, name);
        if (fd >= 0) {
            simba__sqlite_presence_share(presence, fd);
        }
    }
    return fd;
}

/* False: the directory was taken away meanwhile. */
static bool try_open(const struct simba__sqlite_presence *presence,
                     const char *name)
{
    int dir_fd = make_dir(presence, name), fd, why;

    if (dir_fd < 0) {
        return errno != ENOENT;
    }
    fd = openat(dir_fd, presence->process,
                O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    why = errno;
    if (fd >= 0) {
        simba__sqlite_presence_share(presence, fd);
        close(fd);
    }
    close(dir_fd);
    return fd >= 0 || why != ENOENT;
}

/* Without it the watcher learns by its own looking. */
static void open_eye(struct simba__sqlite_eyes *eyes,
                     struct simba__sqlite_eye *eye)
{
    char name[NAME];

    eye->is_open = true;
    if (!simba__sqlite_watch_attend(eyes->watch)) {
        eyes->is_deaf = true;
        return;
    }
    name_of(eye->mutex, name);
    for (int i = 0; i < TRIES && !try_open(eyes->presence, name); i++) {
    }
}

static void close_eye(const struct simba__sqlite_eyes *eyes,
                      const struct simba__sqlite_eye *eye)
{
    char path[NAME + 1 + SIMBA__SQLITE_PROCESS], name[NAME];

    name_of(eye->mutex, name);
    snprintf(path, sizeof path, "%s/%s", name, eyes->presence->process);
    unlinkat(eyes->presence->dir_fd, path, 0);
    unlinkat(eyes->presence->dir_fd, name, AT_REMOVEDIR); /* if empty */
}

/* --- what is wanted ------------------------------------------------------ */

void simba__sqlite_eyes_init(struct simba__sqlite_eyes *eyes,
                             const struct simba__sqlite_presence *presence,
                             struct simba__sqlite_watch *watch)
{
    *eyes = (struct simba__sqlite_eyes){.presence = presence, .watch = watch};
    pthread_mutex_init(&eyes->lock, NULL);
}

void simba__sqlite_eyes_fini(struct simba__sqlite_eyes *eyes)
{
    for (struct simba__sqlite_eye *eye = eyes->first, *next; eye != NULL;
         eye = next) {
        next = eye->next;
        if (eye->is_open) {
            close_eye(eyes, eye);
        }
        free(eye);
    }
    pthread_mutex_destroy(&eyes->lock);
}

static struct simba__sqlite_eye *find(struct simba__sqlite_eyes *eyes,
                                      const char *mutex)
{
    struct simba__sqlite_eye *eye = eyes->first;

    while (eye != NULL && strcmp(eye->mutex, mutex) != 0) {
        eye = eye->next;
    }
    return eye;
}

void simba__sqlite_eyes_want(struct simba__sqlite_eyes *eyes,
                             const char *mutex,
                             bool is_wanted)
{
    struct simba__sqlite_eye *eye;

    pthread_mutex_lock(&eyes->lock);
    eye = find(eyes, mutex);
    if (eye == NULL && is_wanted && (eye = calloc(1, sizeof *eye)) != NULL) {
        memcpy(eye->mutex, mutex, strlen(mutex) + 1);
        eye->next = eyes->first;
        eyes->first = eye;
    }
    if (eye != NULL) {
        eye->is_wanted = is_wanted;
        atomic_store(&eyes->is_stirred, true);
    }
    pthread_mutex_unlock(&eyes->lock);
}

/* The lock is not held over a disk's work: the loop wants it. */
static struct simba__sqlite_eye *find_unsettled(struct simba__sqlite_eyes *eyes,
                                                bool *is_wanted)
{
    struct simba__sqlite_eye *eye, **link;

    pthread_mutex_lock(&eyes->lock);
    for (link = &eyes->first; (eye = *link) != NULL; link = &eye->next) {
        *is_wanted = eye->is_wanted;
        if (eye->is_wanted != eye->is_open) {
            break;
        }
    }
    if (eye != NULL && !eye->is_wanted) {
        *link = eye->next;
    }
    pthread_mutex_unlock(&eyes->lock);
    return eye;
}

/* --- without a bell, inside the loop ------------------------------------- */

/* One that is due, and no longer. */
static bool take_due(struct simba__sqlite_eyes *eyes, char *mutex)
{
    struct simba__sqlite_eye *eye;

    pthread_mutex_lock(&eyes->lock);
    eye = eyes->first;
    while (eye != NULL && !eye->is_due) {
        eye = eye->next;
    }
    if (eye != NULL) {
        eye->is_due = false;
        memcpy(mutex, eye->mutex, strlen(eye->mutex) + 1);
    }
    pthread_mutex_unlock(&eyes->lock);
    return eye != NULL;
}

/* Everybody looks, and with the looking the worker tries again. */
static void look_now(simba_timer *timer)
{
    struct simba__sqlite_eyes *eyes =
        (struct simba__sqlite_eyes *)((char *)timer -
                                      offsetof(struct simba__sqlite_eyes,
                                               again));
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];

    pthread_mutex_lock(&eyes->lock);
    for (struct simba__sqlite_eye *eye = eyes->first; eye != NULL;
         eye = eye->next) {
        eye->is_due = eye->is_wanted;
    }
    pthread_mutex_unlock(&eyes->lock);
    while (take_due(eyes, mutex)) {
        simba_observed(eyes->watch->loop, mutex, NULL, 0);
    }
}

static void look_soon(struct simba__sqlite_eyes *eyes)
{
    if (!eyes->is_detached && !eyes->again.is_set) {
        eyes->again.fire = look_now;
        simba_timer_set(eyes->watch->loop, &eyes->again,
                        simba_loop_now_ms() + LOOK_MS);
    }
}

void simba__sqlite_eyes_detach(struct simba__sqlite_eyes *eyes)
{
    eyes->is_detached = true;
    simba_timer_clear(eyes->watch->loop, &eyes->again);
}

/* --- settling, on the worker --------------------------------------------- */

static void close_all(struct simba__sqlite_eyes *eyes)
{
    pthread_mutex_lock(&eyes->lock);
    for (struct simba__sqlite_eye *eye = eyes->first; eye != NULL;
         eye = eye->next) {
        eye->is_open = false;
    }
    pthread_mutex_unlock(&eyes->lock);
}

void simba__sqlite_eyes_renew(struct simba__sqlite_eyes *eyes)
{
    close_all(eyes);
    atomic_store(&eyes->is_stirred, true);
}

void simba__sqlite_eyes_settle(struct simba__sqlite_eyes *eyes)
{
    struct simba__sqlite_eye *eye;
    bool is_wanted;

    if (!atomic_exchange(&eyes->is_stirred, false) && !eyes->is_deaf) {
        return;
    }
    if (eyes->is_deaf) { /* try again */
        eyes->is_deaf = false;
        close_all(eyes);
    }
    while ((eye = find_unsettled(eyes, &is_wanted)) != NULL) {
        if (is_wanted) {
            open_eye(eyes, eye);
        } else {
            close_eye(eyes, eye);
            free(eye);
        }
    }
    if (eyes->is_deaf) {
        simba_loop_enter(eyes->watch->loop);
        look_soon(eyes);
        simba_loop_leave(eyes->watch->loop);
    }
}

/* --- ringing ------------------------------------------------------------- */

/* A file that is missing is no proof of death elsewhere; here nothing hangs on
 * it, for who lives opens its eyes again when it finds its file gone. */
static bool ring_one(const struct simba__sqlite_eyes *eyes,
                     const char *process,
                     const char *line)
{
    if (simba__sqlite_presence_look(eyes->presence, process) !=
        SIMBA__SQLITE_ALIVE) {
        return false;
    }
    simba__sqlite_presence_ring(eyes->presence, process, line);
    return true;
}

/* True when nobody is left. */
static bool ring_all(const struct simba__sqlite_eyes *eyes,
                     DIR *directory,
                     const char *line)
{
    const struct dirent *entry;
    bool is_empty = true;

    /* A directory stream of our own: no other thread reads it. */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    while ((entry = readdir(directory)) != NULL) {
        if (!simba__sqlite_presence_is_name(entry->d_name)) {
            continue;
        }
        if (ring_one(eyes, entry->d_name, line)) {
            is_empty = false;
        } else {
            unlinkat(dirfd(directory), entry->d_name, 0);
        }
    }
    return is_empty;
}

/* The mutex, and what a read would answer now. */
static void write_line(const simba_request *request, char *line)
{
    const simba_owner *owner = &request->reply.owner;

    snprintf(line, SIMBA__SQLITE_LINE,
             "\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRId64 "\t%" PRId64
             "\t%" PRId64 "\t%s",
             request->mutex, request->reply.ended, owner->token,
             owner->acquired_at_ms, owner->ttl_at_ms, owner->transition_at_ms,
             owner->id);
}

void simba__sqlite_eyes_ring(const struct simba__sqlite_eyes *eyes,
                             const simba_request *request)
{
    char name[NAME], line[SIMBA__SQLITE_LINE];
    DIR *directory;
    int fd;

    name_of(request->mutex, name);
    fd = open_dir(eyes->presence, name);
    if (fd < 0) {
        return; /* as a rule: nobody watches */
    }
    directory = fdopendir(fd);
    if (directory == NULL) {
        close(fd);
        return;
    }
    write_line(request, line);
    if (ring_all(eyes, directory, line)) {
        unlinkat(eyes->presence->dir_fd, name, AT_REMOVEDIR);
    }
    closedir(directory);
}

/* --- being told ---------------------------------------------------------- */

/* The number up to the next tab. False: there is none. */
static bool take_number(char **text, uint64_t *number)
{
    char *end;

    *number = strtoull(*text, &end, 10);
    if (end == *text || *end != SIMBA__SQLITE_CHANGED) {
        return false;
    }
    *text = end + 1;
    return true;
}

void simba__sqlite_eyes_tell(simba_loop *loop, char *line)
{
    char *text = strchr(line, SIMBA__SQLITE_CHANGED);
    simba_owner owner = simba_owner_none();
    uint64_t numbers[5];
    bool is_whole = text != NULL;

    if (is_whole) {
        *text++ = '\0';
    }
    for (int i = 0; i < 5 && is_whole; i++) {
        is_whole = take_number(&text, &numbers[i]);
    }
    if (!is_whole || !simba_owner_set_id(&owner, text)) {
        simba_observed(loop, line, NULL, 0);
        return;
    }
    owner.token = numbers[1];
    owner.acquired_at_ms = (int64_t)numbers[2];
    owner.ttl_at_ms = (int64_t)numbers[3];
    owner.transition_at_ms = (int64_t)numbers[4];
    simba_observed(loop, line, &owner, numbers[0]);
}
