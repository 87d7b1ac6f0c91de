/* Our file beside the database, and how others are told alive; presence.h. */
#define _GNU_SOURCE
#include "backends/sqlite/presence.h"

#include "backends/sqlite/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new file may be taken for a dead one's before it is locked. */
enum { TRIES = 16 };

/* In a mode: whatever group and others may do. */
enum { ALL_OTHERS = 077 };

void simba__sqlite_presence_init(struct simba__sqlite_presence *presence)
{
    *presence = (struct simba__sqlite_presence){.dir_fd = -1, .life_fd = -1};
}

static void close_if_open(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* --- our own file -------------------------------------------------------- */

/* To make a file and to delete it again is dear, and every lock on a shell's
 * command line would: so one is left for the next. Whoever has it is another
 * process, under another name. */
#define SPARE ".spare"

static bool draw_name(char *name)
{
    unsigned char bytes[SIMBA__SQLITE_PROCESS / 2];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return false;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(name + 2 * i, 3, "%02x", bytes[i]);
    }
    return true;
}

static bool try_lock(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool simba__sqlite_presence_is_linked(
    const struct simba__sqlite_presence *presence,
    int fd,
    const char *name)
{
    struct stat open_one, named;

    return fstat(fd, &open_one) == 0 &&
           fstatat(presence->dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

/* Root at a user's database: the user's processes must be able to look. A
 * database that several users share: so must theirs. */
void simba__sqlite_presence_share(const struct simba__sqlite_presence *presence,
                                  int fd)
{
    struct stat directory, made;
    int ignored = 0;

    if (fstat(presence->dir_fd, &directory) != 0 || fstat(fd, &made) != 0) {
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

/* The file of one who is gone, under our name. It is locked before it has that
 * name; -1 when there is none, or the other's child still has it open. */
static int take_spare(const struct simba__sqlite_presence *presence)
{
    int fd = openat(presence->dir_fd, SPARE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0) {
        return -1;
    }
    if (!try_lock(fd) ||
        !simba__sqlite_presence_is_linked(presence, fd, SPARE) ||
        renameat2(presence->dir_fd, SPARE, presence->dir_fd, presence->process,
                  RENAME_NOREPLACE) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int make_file(const struct simba__sqlite_presence *presence,
                     const char *name)
{
    return openat(presence->dir_fd, name,
                  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Nobody knows the name before the file is locked, but somebody who cleans up
 * may find the file in between: then take another. */
static int make_life(struct simba__sqlite_presence *presence)
{
    bool is_new = presence->process[0] == '\0';

    for (int i = 0; i < TRIES; i++) {
        int fd = -1;

        if (is_new && !draw_name(presence->process)) {
            return -1;
        }
        if (is_new && i == 0) {
            fd = take_spare(presence);
        }
        fd = fd >= 0 ? fd : make_file(presence, presence->process);
        if (fd < 0) {
            return -1;
        }
        simba__sqlite_presence_share(presence, fd);
        if (try_lock(fd) &&
            simba__sqlite_presence_is_linked(presence, fd, presence->process)) {
            return fd;
        }
        close(fd);
    }
    errno = EAGAIN;
    return -1;
}

/* Somebody else's directory would let him play dead or alive for us; unless he
 * may write to the database, where he can do worse. */
static bool is_ours(int dir_fd, const struct stat *file)
{
    struct stat directory;

    return fstat(dir_fd, &directory) == 0 &&
           (directory.st_uid == file->st_uid || directory.st_uid == geteuid() ||
            directory.st_uid == 0 || (file->st_mode & S_IWOTH) != 0 ||
            ((file->st_mode & S_IWGRP) != 0 &&
             directory.st_gid == file->st_gid));
}

/* For those who may use the database: what they can read there they can search
 * here, and what is made here belongs to the same group. */
static int make_directory(const char *path, const struct stat *file)
{
    mode_t mode = file->st_mode & 0666;
    int fd, ignored;

    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return -1;
    }
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (mode & ALL_OTHERS) != 0) {
        ignored = fchown(fd, (uid_t)-1, file->st_gid);
        ignored |= fchmod(fd, mode | (mode & 0444) >> 2 | S_ISGID);
        (void)ignored; /* whoever can't get in will say so */
    }
    return fd;
}

static int open_directory(const char *database)
{
    size_t room = strlen(database) + sizeof "-simba.d";
    char *path = malloc(room);
    struct stat file;
    int fd;

    if (path == NULL) {
        errno = ENOMEM;
        return -1;
    }
    snprintf(path, room, "%s-simba.d", database);
    fd = stat(database, &file) != 0
             ? -1
             : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        fd = make_directory(path, &file);
    }
    free(path);
    if (fd >= 0 && !is_ours(fd, &file)) {
        close(fd);
        fd = -1;
        errno = EPERM;
    }
    return fd;
}

/* A new descriptor takes the number of the old one: it was handed out. */
static bool put_in_place(int *position, int fd)
{
    if (fd < 0) {
        return false;
    }
    if (*position < 0) {
        *position = fd;
        return true;
    }
    if (dup3(fd, *position, O_CLOEXEC) < 0) {
        close(fd);
        return false;
    }
    close(fd);
    return true;
}

int simba__sqlite_presence_open(struct simba__sqlite_presence *presence,
                                const struct simba__sqlite_settings *settings,
                                simba_error *error)
{
    int why;

    if (put_in_place(&presence->dir_fd, open_directory(settings->path)) &&
        (simba__sqlite_presence_is_linked(presence, presence->life_fd,
                                          presence->process) ||
         put_in_place(&presence->life_fd, make_life(presence)))) {
        return SIMBA_OK;
    }
    why = errno;
    return SIMBA__SQLITE_FAIL(settings, error, simba__sqlite_file_status(why),
                              why, "its directory, the same with -simba.d: %s",
                              simba__sqlite_file_words(why));
}

bool simba__sqlite_presence_is_lost(
    const struct simba__sqlite_presence *presence)
{
    struct stat about;

    return fstat(presence->life_fd, &about) == 0 && about.st_nlink == 0;
}

/* --- going away ---------------------------------------------------------- */

static void give_up_names(const struct simba__sqlite_presence *presence)
{
    char bell[SIMBA__SQLITE_BELL];

    simba__sqlite_presence_bell_name(presence->process, bell);
    unlinkat(presence->dir_fd, bell, 0);
    if (renameat2(presence->dir_fd, presence->process, presence->dir_fd, SPARE,
                  RENAME_NOREPLACE) != 0) {
        unlinkat(presence->dir_fd, presence->process, 0);
    }
}

/* The name goes before the lock: a file without a lock is a dead one's. */
void simba__sqlite_presence_close(struct simba__sqlite_presence *presence)
{
    if (presence->life_fd >= 0) {
        give_up_names(presence);
    }
    simba__sqlite_presence_forked(presence);
}

void simba__sqlite_presence_forked(struct simba__sqlite_presence *presence)
{
    close_if_open(&presence->life_fd);
    close_if_open(&presence->dir_fd);
}

/* --- the others ---------------------------------------------------------- */

bool simba__sqlite_presence_is_name(const char *name)
{
    return strlen(name) == SIMBA__SQLITE_PROCESS &&
           strspn(name, "0123456789abcdef") == SIMBA__SQLITE_PROCESS;
}

/* Opened for reading only: closing a file that was open for writing is what
 * the waiters listen for. */
enum simba__sqlite_life simba__sqlite_presence_look(
    const struct simba__sqlite_presence *presence,
    const char *process)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd, rc;

    if (strcmp(process, presence->process) == 0) {
        return SIMBA__SQLITE_ALIVE;
    }
    if (!simba__sqlite_presence_is_name(process)) {
        return SIMBA__SQLITE_UNSURE;
    }
    fd = openat(presence->dir_fd, process, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
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
