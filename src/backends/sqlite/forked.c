/* Letting go of the database in a forked child, for good.
 *
 * SQLite keeps account of the files of a process, with locks that a child does
 * not inherit. A connection that the child opened to the same file would lean
 * on them: it would take locks for its own that nobody holds, and find others
 * held for ever that were in use when it was forked. So it may not. */
#include "backends/sqlite/forked.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Written in the child while it has but one thread. */
static struct simba__sqlite_inherited *inherited;

/* SQLite does not tell its descriptors, but they are those of its files. */
static void close_copies(const struct stat *file)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        int fd = (int)strtol(entry->d_name, NULL, 10);
        struct stat open_file;

        if (entry->d_name[0] != '.' && fstat(fd, &open_file) == 0 &&
            open_file.st_dev == file->st_dev &&
            open_file.st_ino == file->st_ino) {
            close(fd);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

void simba__sqlite_forked(const struct simba__sqlite_settings *settings,
                          struct simba__sqlite_inherited *entry)
{
    static const char *const suffixes[] = {"-wal", "-shm", ""};
    char path[4096];

    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        int length =
            snprintf(path, sizeof path, "%s%s", settings->path, suffixes[i]);

        if (length > 0 && length < (int)sizeof path &&
            stat(path, &entry->file) == 0) {
            close_copies(&entry->file);
        }
    }
    entry->next = inherited;
    inherited = entry;
}

bool simba__sqlite_is_inherited(const struct simba__sqlite_settings *settings)
{
    struct stat file;

    if (inherited == NULL || stat(settings->path, &file) != 0) {
        return false;
    }
    for (const struct simba__sqlite_inherited *i = inherited; i != NULL;
         i = i->next) {
        if (i->file.st_dev == file.st_dev && i->file.st_ino == file.st_ino) {
            return true;
        }
    }
    return false;
}
