/* Who is dead.
 *
 * Beside the database lies a directory, "<database>-simba.d". In it each store
 * handle keeps a file under a random name, open for writing and locked. The
 * lock goes when the last copy of the open file goes, however the process ends:
 * the kernel tells dead from alive.
 *
 *     locked              alive
 *     there, not locked   dead: it is locked before it has its name
 *     not there           not known: somebody may have cleaned up. Whoever
 *                         removes a dead one's file removes its rows first. */
#define _GNU_SOURCE
#include "backends/sqlite/sqlite.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Others may take a new file for a dead one's before it is locked. */
enum { TRIES = 16 };

/* In a mode: whatever group and others may do. */
enum { ALL_OTHERS = 077 };

/* So many files of processes: they are in each other's way. */
enum { CROWDED = 100 };

/* How many dead processes are removed at a time, and how long that may wait for
 * others who write. */
enum { DEAD_MOST = 32, REMOVAL_PATIENCE_MS = 5 };

/* Making and deleting a file costs as much as a flush, and every `simba lock`
 * would do both. So a handle that closes leaves its file for the next, which
 * gives it its own name. */
#define SPARE ".spare"

/* --- our own file -------------------------------------------------------- */

static bool try_lock(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* Is this open file still the one of that name in the directory? */
static bool is_linked(const struct simba__sqlite *self,
                      int fd,
                      const char *name)
{
    struct stat open_one, named;

    return fstat(fd, &open_one) == 0 &&
           fstatat(self->dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

/* If root uses a user's database, the user's processes must be able to open the
 * file; if several users share one, theirs must. */
void simba__sqlite_share(const struct simba__sqlite *self, int fd)
{
    struct stat directory, made;
    int ignored = 0;

    if (fstat(self->dir_fd, &directory) != 0 || fstat(fd, &made) != 0) {
        return;
    }
    if (geteuid() == 0 && directory.st_uid != 0) {
        ignored = fchown(fd, directory.st_uid, directory.st_gid);
    }
    if ((directory.st_mode & ALL_OTHERS) != 0) {
        ignored |= fchmod(fd, S_ISDIR(made.st_mode) ? directory.st_mode & 07777
                                                    : directory.st_mode & 0666);
    }
    (void)ignored;
}

/* Gives the spare file our name, after it is locked; -1 when there is none, or
 * a child of its former process still has it open. */
static int take_spare(const struct simba__sqlite *self)
{
    int fd = openat(self->dir_fd, SPARE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && (!try_lock(fd) || !is_linked(self, fd, SPARE) ||
                    renameat2(self->dir_fd, SPARE, self->dir_fd, self->process,
                              RENAME_NOREPLACE) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Nobody knows the name before the file is locked, but a process that removes
 * dead ones may find it in between. Then another is made. */
static int make_life(struct simba__sqlite *self)
{
    bool is_new = self->process[0] == '\0';
    unsigned char bytes[SIMBA__SQLITE_PROCESS / 2];

    for (int i = 0; i < TRIES; i++) {
        int fd = -1;

        if (is_new) {
            if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
                return -1;
            }
            for (size_t j = 0; j < sizeof bytes; j++) {
                snprintf(self->process + 2 * j, 3, "%02x", bytes[j]);
            }
        }
        if (is_new && i == 0) {
            fd = take_spare(self);
        }
        if (fd < 0) {
            fd = openat(self->dir_fd, self->process,
                        O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                        0600);
        }
        if (fd < 0) {
            return -1;
        }
        simba__sqlite_share(self, fd);
        if (try_lock(fd) && is_linked(self, fd, self->process)) {
            return fd;
        }
        close(fd);
    }
    errno = EAGAIN;
    return -1;
}

static int open_directory(const char *database)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    struct stat file, directory;
    char *path = NULL;
    int fd, ignored;

    if (stat(database, &file) != 0) {
        return -1;
    }
    if (asprintf(&path, "%s-simba.d", database) < 0) {
        errno = ENOMEM;
        return -1;
    }
    fd = open(path, flags);
    if (fd < 0 && errno == ENOENT &&
        (mkdir(path, 0700) == 0 || errno == EEXIST)) {
        mode_t mode = file.st_mode & 0666;

        fd = open(path, flags);
        /* It is for all who may use the database: who can read that can search
         * this, and what is made in it belongs to the same group. A process
         * that can't get in will say so. */
        if (fd >= 0 && (mode & ALL_OTHERS) != 0) {
            ignored = fchown(fd, (uid_t)-1, file.st_gid);
            ignored |= fchmod(fd, mode | (mode & 0444) >> 2 | S_ISGID);
            (void)ignored;
        }
    }
    free(path);
    /* The owner of the directory decides who seems dead. So it must be somebody
     * who may write to the database, where he can do worse. */
    if (fd >= 0 &&
        (fstat(fd, &directory) != 0 ||
         (directory.st_uid != file.st_uid && directory.st_uid != geteuid() &&
          directory.st_uid != 0 && (file.st_mode & S_IWOTH) == 0 &&
          ((file.st_mode & S_IWGRP) == 0 ||
           directory.st_gid != file.st_gid)))) {
        close(fd);
        fd = -1;
        errno = EPERM;
    }
    return fd;
}

/* A new descriptor takes the number of the old one, which users may have. */
static bool put_in_place(int *place, int fd)
{
    bool is_done = fd >= 0;

    if (is_done && *place < 0) {
        *place = fd;
    } else if (is_done) {
        is_done = dup3(fd, *place, O_CLOEXEC) >= 0;
        close(fd);
    }
    return is_done;
}

int simba__sqlite_life_open(struct simba__sqlite *self, simba_error *error)
{
    if (put_in_place(&self->dir_fd, open_directory(self->settings.path)) &&
        (is_linked(self, self->life_fd, self->process) ||
         put_in_place(&self->life_fd, make_life(self)))) {
        return SIMBA_OK;
    }
    return simba__sqlite_fail_errno(
        &self->settings, "its directory, the same with -simba.d", error);
}

/* The name goes before the lock: a file that is not locked is a dead one's. */
void simba__sqlite_life_close(struct simba__sqlite *self)
{
    char wake[SIMBA__SQLITE_WAKE_NAME];

    if (self->life_fd >= 0) {
        simba__sqlite_wake_name(self->process, wake);
        unlinkat(self->dir_fd, wake, 0);
        if (renameat2(self->dir_fd, self->process, self->dir_fd, SPARE,
                      RENAME_NOREPLACE) != 0) {
            unlinkat(self->dir_fd, self->process, 0);
        }
    }
    simba__sqlite_life_forked(self);
}

void simba__sqlite_life_forked(struct simba__sqlite *self)
{
    if (self->life_fd >= 0) {
        close(self->life_fd);
    }
    if (self->dir_fd >= 0) {
        close(self->dir_fd);
    }
    self->life_fd = self->dir_fd = -1;
}

/* --- the others ---------------------------------------------------------- */

bool simba__sqlite_is_process(const char *name)
{
    return strlen(name) == SIMBA__SQLITE_PROCESS &&
           strspn(name, "0123456789abcdef") == SIMBA__SQLITE_PROCESS;
}

/* Opens the file for reading only: waiters watch for the closing of one that
 * was open for writing. */
enum simba__sqlite_life simba__sqlite_life_of(const struct simba__sqlite *self,
                                              const char *process)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd, rc;

    if (strcmp(process, self->process) == 0) {
        return SIMBA__SQLITE_ALIVE;
    }
    if (!simba__sqlite_is_process(process)) {
        return SIMBA__SQLITE_UNSURE;
    }
    fd = openat(self->dir_fd, process, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return SIMBA__SQLITE_UNSURE;
    }
    rc = fcntl(fd, F_OFD_GETLK, &lock);
    close(fd);
    if (rc != 0) {
        return SIMBA__SQLITE_UNSURE;
    }
    return lock.l_type == F_UNLCK ? SIMBA__SQLITE_DEAD : SIMBA__SQLITE_ALIVE;
}

enum simba__sqlite_life simba__sqlite_life_seen(struct simba__sqlite *self,
                                                const char *process)
{
    struct simba__sqlite_record *record = &self->record;
    const size_t room = sizeof record->seen / sizeof record->seen[0];
    enum simba__sqlite_life life;

    for (size_t i = 0; i < record->seen_count; i++) {
        if (strcmp(record->seen[i].process, process) == 0) {
            return record->seen[i].life;
        }
    }
    life = simba__sqlite_life_of(self, process);
    if (record->seen_count < room && simba__sqlite_is_process(process)) {
        memcpy(record->seen[record->seen_count].process, process,
               SIMBA__SQLITE_PROCESS + 1);
        record->seen[record->seen_count++].life = life;
    }
    return life;
}

bool simba__sqlite_is_crowded(const struct simba__sqlite *self)
{
    int fd = openat(self->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    size_t n = 0;

    if (directory == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    /* A directory stream of our own: no other thread reads it. */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    while (n < CROWDED && readdir(directory) != NULL) {
        n++;
    }
    closedir(directory);
    return n == CROWDED;
}

/* --- what the dead have left --------------------------------------------- */

struct dead {
    char process[SIMBA__SQLITE_PROCESS + 1];
    int fd; /* locked by us, so that nobody else takes it away */
};

/* Finds dead processes, DEAD_MOST at most, and locks their files. The database
 * is locked meanwhile. */
static size_t find_dead(const struct simba__sqlite *self, struct dead *dead)
{
    int fd = openat(self->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    size_t n = 0;

    if (directory == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return 0;
    }
    /* A directory stream of our own: no other thread reads it. */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    while (n < DEAD_MOST && (entry = readdir(directory)) != NULL) {
        if (!simba__sqlite_is_process(entry->d_name) ||
            simba__sqlite_life_of(self, entry->d_name) != SIMBA__SQLITE_DEAD) {
            continue;
        }
        fd = openat(self->dir_fd, entry->d_name,
                    O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        /* It must still be the file of that name once it is locked: another may
         * have been here before us. */
        if (fd >= 0 && try_lock(fd) && is_linked(self, fd, entry->d_name)) {
            memcpy(dead[n].process, entry->d_name, SIMBA__SQLITE_PROCESS + 1);
            dead[n++].fd = fd;
        } else if (fd >= 0) {
            close(fd);
        }
    }
    closedir(directory);
    return n;
}

/* The rows go first, so that a missing file never stands for a dead owner; then
 * the wake-up file, because somebody comes back for it only while the other is
 * there. All of it can wait, and what fails is left to the next process. */
void simba__sqlite_remove_dead(struct simba__sqlite *self)
{
    struct dead dead[DEAD_MOST];
    char wake[SIMBA__SQLITE_WAKE_NAME];
    simba_error error;
    size_t n;
    int rc;

    self->has_dead = false;
    if (self->settings.is_trusted) {
        return; /* the locks of another machine may not be visible here */
    }
    rc = simba__sqlite_begin(self, SIMBA__SQLITE_BEGIN,
                             simba_loop_now_ms() + REMOVAL_PATIENCE_MS, &error);
    if (rc != SIMBA_OK) {
        self->has_dead = true;
        return;
    }
    n = find_dead(self, dead);
    if (n > 0) { /* else it is made only to be rolled back */
        rc = simba__sqlite_execute(self, SIMBA__SQLITE_SLOT_TABLE, &error, "");
    }
    for (size_t i = 0; i < n && rc == SIMBA_OK; i++) {
        rc = simba__sqlite_execute(self, SIMBA__SQLITE_FREE_PROCESS, &error,
                                   "t", dead[i].process);
        if (rc == SIMBA_OK) {
            rc = simba__sqlite_execute(self, SIMBA__SQLITE_FREE_SLOTS, &error,
                                       "t", dead[i].process);
        }
        if (rc == SIMBA_OK) {
            rc = simba__sqlite_execute(self, SIMBA__SQLITE_DROP_PROCESS, &error,
                                       "t", dead[i].process);
        }
    }
    if (rc == SIMBA_OK && n > 0) {
        rc = simba__sqlite_commit(
            self, simba_loop_now_ms() + REMOVAL_PATIENCE_MS, &error);
    }
    simba__sqlite_rollback(self);
    for (size_t i = 0; i < n; i++) {
        if (rc == SIMBA_OK) {
            simba__sqlite_wake_name(dead[i].process, wake);
            unlinkat(self->dir_fd, wake, 0);
            unlinkat(self->dir_fd, dead[i].process, 0);
        }
        close(dead[i].fd);
    }
}

/* --- dead owners, and other boots ---------------------------------------- */

static void vacate(struct simba__mutex_record *mutex)
{
    memset(&mutex->owner, 0, sizeof mutex->owner);
    memset(&mutex->attempt, 0, sizeof mutex->attempt);
}

static void forget_sighting(struct simba__sqlite *self, const char *mutex)
{
    struct simba__hash_link *link = simba__hash_find(&self->sightings, mutex);

    if (link != NULL) {
        simba__hash_remove(&self->sightings, link);
        free(link);
    }
}

/* Since when is it seen as it stands, by whichever process of this boot? Who
 * only reads leaves nothing in the database. */
static int share_sighting(struct simba__sqlite *self,
                          struct simba__sqlite_sighting *sighting,
                          const char *mutex,
                          simba_error *error)
{
    int64_t token = (int64_t)sighting->token;
    sqlite3_stmt *row;
    int rc, step;

    if (sqlite3_txn_state(self->db.handle, "main") != SQLITE_TXN_WRITE) {
        return SIMBA_OK;
    }
    rc = simba__sqlite_execute(self, SIMBA__SQLITE_SIGHTING_TABLE, error, "");
    if (rc != SIMBA_OK) {
        return rc;
    }
    row = simba__sqlite_prepare(self, SIMBA__SQLITE_LOAD_SIGHTING, error,
                                "ttnnn", mutex, self->boot, token,
                                sighting->version, sighting->since_ms);
    if (row == NULL) {
        return error->code;
    }
    step = sqlite3_step(row);
    if (step == SQLITE_ROW) {
        sighting->since_ms = sqlite3_column_int64(row, 0);
        sighting->is_shared = true;
    }
    sqlite3_reset(row);
    if (step != SQLITE_DONE) {
        return step == SQLITE_ROW ? SIMBA_OK
                                  : simba__sqlite_result(self, step, error);
    }
    self->record.is_sighted = sighting->is_shared = true;
    return simba__sqlite_execute(self, SIMBA__SQLITE_STORE_SIGHTING, error,
                                 "ttnnn", mutex, self->boot, token,
                                 sighting->version, sighting->since_ms);
}

/* Its lease and the drift of two clocks: after that a tenure that was not
 * renewed is over, by whichever clock it counts. */
static int64_t longest_ms(const struct simba__sqlite_record *record)
{
    return record->lease_ms + record->lease_ms * 21 / 1000 + 10;
}

/* A tenure of another boot whose process is not known to be dead: of another
 * machine (fs=trust), or of a container with a boot id of its own whose life
 * file somebody removed. We do not know the clock by which it counts. But once
 * it was seen unchanged for its whole lease and the drift of two clocks, it is
 * over. Until then it is held, by our clock. */
static int wait_and_see(struct simba__sqlite *self,
                        const char *mutex,
                        simba_error *error)
{
    struct simba__sqlite_record *record = &self->record;
    struct simba__sqlite_sighting *sighting =
        (struct simba__sqlite_sighting *)simba__hash_find(&self->sightings,
                                                          mutex);
    int64_t until_ms;

    if (sighting == NULL) {
        sighting = simba__hash_new(&self->sightings, sizeof *sighting, mutex);
        if (sighting == NULL) {
            return simba__sqlite_result(self, SQLITE_NOMEM, error);
        }
        sighting->version = record->version - 1; /* not seen yet */
    }
    if (sighting->token != record->before.last_token ||
        sighting->version != record->version) {
        sighting->token = record->before.last_token;
        sighting->version = record->version;
        sighting->since_ms = record->now_ms;
        sighting->is_shared = false;
    }
    if (!sighting->is_shared) {
        int rc = share_sighting(self, sighting, mutex, error);

        if (rc != SIMBA_OK) {
            return rc;
        }
    }
    until_ms = sighting->since_ms + longest_ms(record);
    if (record->now_ms > until_ms) {
        bool is_shared = sighting->is_shared;

        forget_sighting(self, mutex);
        vacate(&record->after);
        return is_shared && sqlite3_txn_state(self->db.handle, "main") ==
                                SQLITE_TXN_WRITE
                   ? simba__sqlite_execute(self, SIMBA__SQLITE_DROP_SIGHTINGS,
                                           error, "t", mutex)
                   : SIMBA_OK;
    }
    /* In both, so that nothing seems to have changed. */
    record->before.owner.acquired_at_ms = sighting->since_ms;
    record->before.owner.ttl_at_ms = until_ms;
    record->before.owner.transition_at_ms = until_ms;
    record->after.owner = record->before.owner;
    return SIMBA_OK;
}

/* One of several tenures, of another boot and of a process of which nothing is
 * known. After a reboot its times are those of a clock that may have been far
 * ahead of ours. It gets no more than a lease from now on; that is stored, and
 * so it runs out. One of a container with a boot id of its own counts by our
 * clock and never has more. */
static void limit_slot(const struct simba__sqlite_record *record,
                       simba_owner *owner)
{
    int64_t most_ms = record->now_ms + longest_ms(record);

    if (owner->transition_at_ms > most_ms) {
        owner->ttl_at_ms = owner->transition_at_ms = most_ms;
    }
    if (owner->acquired_at_ms > record->now_ms) {
        owner->acquired_at_ms = record->now_ms;
    }
}

/* Of several owners those go whose processes are dead: with a reboot all, else
 * those whose death frees their slots. */
static void free_dead_slots(struct simba__sqlite *self)
{
    struct simba__sqlite_record *record = &self->record;
    struct simba__tenure *tenure;
    size_t i = 0;

    while ((tenure = simba__mutex_tenure(&record->after, i)) != NULL) {
        const struct simba__sqlite_peer *peer =
            &record->peers[tenure->connection];
        enum simba__sqlite_life life =
            simba__sqlite_life_of(self, peer->process);
        bool is_dead = life == SIMBA__SQLITE_DEAD;
        bool is_other_boot = strcmp(peer->boot, self->boot) != 0;

        self->has_dead |= is_dead;
        if (is_dead && (peer->is_handover || is_other_boot)) {
            simba__mutex_end(&record->after, tenure);
            continue;
        }
        if (life == SIMBA__SQLITE_UNSURE && is_other_boot) {
            limit_slot(record, &tenure->owner);
        }
        i++;
    }
}

int simba__sqlite_correct(struct simba__sqlite *self,
                          const char *mutex,
                          simba_error *error)
{
    struct simba__sqlite_record *record = &self->record;
    const struct simba__sqlite_peer *owner =
        &record->peers[SIMBA__SQLITE_OWNER];
    struct simba__mutex_record *after = &record->after;
    enum simba__sqlite_life life;
    bool is_other_boot;

    assert(record->peer_count > SIMBA__SQLITE_OWNER);
    /* A dead waiter does not come for its offer. */
    if (after->is_offered &&
        simba__sqlite_life_of(
            self, record->peers[after->offered.connection].process) ==
            SIMBA__SQLITE_DEAD) {
        after->is_offered = false;
        self->has_dead = true;
    }
    if (record->is_crowd) {
        free_dead_slots(self);
        return SIMBA_OK;
    }
    if (after->owner.id[0] == '\0') {
        return SIMBA_OK;
    }
    is_other_boot =
        owner->boot[0] != '\0' && strcmp(owner->boot, self->boot) != 0;
    if (!is_other_boot && !simba__mutex_is_held(after, record->now_ms)) {
        return SIMBA_OK;
    }
    life = simba__sqlite_life_of(self, owner->process);
    if (is_other_boot &&
        (self->settings.is_trusted || life == SIMBA__SQLITE_UNSURE)) {
        return wait_and_see(self, mutex, error);
    }
    forget_sighting(self, mutex);
    if (life == SIMBA__SQLITE_DEAD) {
        self->has_dead = true;
        /* A reboot ends what was kept for its lease, too. */
        if (record->is_handover || is_other_boot) {
            vacate(after);
        }
    }
    return SIMBA_OK;
}
