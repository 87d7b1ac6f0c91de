/* Who has locked the database, when it is not let go: for the message. */
#define _GNU_SOURCE
#include "backends/sqlite/database.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A line of /proc/locks. To ask the kernel by fcntl() would take a descriptor
 * of our own, and closing that would let go of SQLite's locks. */
struct held {
    char kind[16], mode[16];
    int pid;
    unsigned major, minor;
    unsigned long inode;
};

static bool read_line(const char *line, struct held *held)
{
    /* NOLINTNEXTLINE(cert-err34-c): the kernel writes numbers that fit */
    return sscanf(line, "%*d: %15s %*s %15s %d %x:%x:%lu", held->kind,
                  held->mode, &held->pid, &held->major, &held->minor,
                  &held->inode) == 6;
}

static bool is_of(const struct held *held, const struct stat *file)
{
    return strcmp(held->kind, "POSIX") == 0 &&
           strcmp(held->mode, "WRITE") == 0 && held->pid > 0 &&
           held->pid != getpid() && held->inode == file->st_ino &&
           held->major == major(file->st_dev) &&
           held->minor == minor(file->st_dev);
}

/* Who has a part of this file locked for writing; 0: not to be seen. */
static int find_holder(const char *database, const char *suffix)
{
    char path[4096], line[256];
    struct held held;
    struct stat file;
    FILE *locks;
    int pid = 0;

    snprintf(path, sizeof path, "%s%s", database, suffix);
    locks = stat(path, &file) == 0 ? fopen("/proc/locks", "re") : NULL;
    while (locks != NULL && pid == 0 &&
           fgets(line, sizeof line, locks) != NULL) {
        pid = read_line(line, &held) && is_of(&held, &file) ? held.pid : 0;
    }
    if (locks != NULL) {
        fclose(locks);
    }
    return pid;
}

static void read_name(int pid, char *name, size_t room)
{
    char path[64];
    FILE *file;

    snprintf(name, room, "a program");
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    file = fopen(path, "re");
    if (file != NULL && fgets(name, (int)room, file) != NULL) {
        name[strcspn(name, "\n")] = '\0';
    }
    if (file != NULL) {
        fclose(file);
    }
}

int simba__sqlite_db_fail_locked(const struct simba__sqlite_db *db,
                                 int rc,
                                 simba_error *error)
{
    const char *path = db->settings->path;
    char name[32];
    int pid = find_holder(path, "-shm");

    pid = pid != 0 ? pid : find_holder(path, "");
    if (pid == 0) {
        return SIMBA__SQLITE_FAIL(db->settings, error, SIMBA_EUNAVAIL, rc,
                                  "kept locked by another program");
    }
    read_name(pid, name, sizeof name);
    return SIMBA__SQLITE_FAIL(db->settings, error, SIMBA_EUNAVAIL, rc,
                              "kept locked by %s, process %d", name, pid);
}
