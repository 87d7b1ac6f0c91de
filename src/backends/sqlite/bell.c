/* Bells, and the burial of the dead: the rest of presence.h. */
#define _GNU_SOURCE
#include "backends/sqlite/presence.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

void simba__sqlite_presence_bell_name(const char *process, char *name)
{
    snprintf(name, SIMBA__SQLITE_BELL, "%.*s.bell", SIMBA__SQLITE_PROCESS,
             process);
}

int simba__sqlite_presence_make_bell(
    const struct simba__sqlite_presence *presence)
{
    char name[SIMBA__SQLITE_BELL];
    int fd;

    simba__sqlite_presence_bell_name(presence->process, name);
    unlinkat(presence->dir_fd, name, 0);
    fd = openat(presence->dir_fd, name,
                O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        simba__sqlite_presence_share(presence, fd);
    }
    return fd;
}

/* The name of the mutex is appended, so that a process that waits for a
 * thousand asks for one. On a full disk touching the bell must do. No bell:
 * nobody listens there. */
void simba__sqlite_presence_ring(const struct simba__sqlite_presence *presence,
                                 const char *process,
                                 const char *mutex)
{
    char name[SIMBA__SQLITE_BELL];
    char newline[] = "\n";
    struct iovec line[2] = {{(void *)(uintptr_t)mutex, strlen(mutex)},
                            {newline, 1}};
    int fd;

    simba__sqlite_presence_bell_name(process, name);
    fd = openat(presence->dir_fd, name,
                O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    if (writev(fd, line, 2) != (ssize_t)line[0].iov_len + 1) {
        futimens(fd, NULL);
    }
    close(fd);
}

/* --- the dead ------------------------------------------------------------ */

/* Locks the file of a dead one; -1 for the living. It must still be the file
 * of that name once it is locked: another may have been here before us. */
static int seize(const struct simba__sqlite_presence *presence,
                 const char *process)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd;

    if (simba__sqlite_presence_look(presence, process) != SIMBA__SQLITE_DEAD) {
        return -1;
    }
    fd = openat(presence->dir_fd, process, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    if (fcntl(fd, F_OFD_SETLK, &lock) != 0 ||
        !simba__sqlite_presence_is_linked(presence, fd, process)) {
        close(fd);
        return -1;
    }
    return fd;
}

static DIR *list(const struct simba__sqlite_presence *presence)
{
    int fd = openat(presence->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && directory == NULL) {
        close(fd);
    }
    return directory;
}

size_t simba__sqlite_presence_find_dead(
    const struct simba__sqlite_presence *presence,
    struct simba__sqlite_dead *dead,
    size_t most)
{
    DIR *directory = list(presence);
    struct dirent *entry;
    size_t n = 0;

    if (directory == NULL) {
        return 0;
    }
    /* A directory stream of our own: no other thread reads it. */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    while (n < most && (entry = readdir(directory)) != NULL) {
        int fd = simba__sqlite_presence_is_name(entry->d_name)
                     ? seize(presence, entry->d_name)
                     : -1;

        if (fd >= 0) {
            memcpy(dead[n].process, entry->d_name, SIMBA__SQLITE_PROCESS + 1);
            dead[n++].fd = fd;
        }
    }
    closedir(directory);
    return n;
}

/* The bell first: while the file is there, somebody will come back for it. */
void simba__sqlite_presence_bury(const struct simba__sqlite_presence *presence,
                                 struct simba__sqlite_dead *dead,
                                 bool with_files)
{
    char bell[SIMBA__SQLITE_BELL];

    if (with_files) {
        simba__sqlite_presence_bell_name(dead->process, bell);
        unlinkat(presence->dir_fd, bell, 0);
        unlinkat(presence->dir_fd, dead->process, 0);
    }
    close(dead->fd);
}
