/* Where the database lies: the file, its directories, its file system; and
 * what a forked child does with the database of its parent. */
#define _GNU_SOURCE
#include "backends/sqlite/sqlite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

/* --- failures ------------------------------------------------------------ */

int simba__sqlite_errno_code(int errno_value)
{
    switch (errno_value) {
    case EACCES:
    case EPERM:
    case EROFS:
        return SIMBA_EDENIED;
    case ENOMEM:
        return SIMBA_ENOMEM;
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOENT:
        return SIMBA_EMISCONFIG;
    default:
        return SIMBA_EUNAVAIL;
    }
}

/* Our own words where they say more; strerror() may not be called from two
 * threads. */
const char *simba__sqlite_errno_words(int errno_value)
{
    const char *words;

    if (errno_value == ENOSPC || errno_value == EDQUOT) {
        return "disk full";
    }
    if (errno_value == EROFS) {
        return "read-only file system";
    }
    words = strerrordesc_np(errno_value);
    return words == NULL ? "unknown failure" : words;
}

int simba__sqlite_fail_errno(const struct simba__sqlite_settings *settings,
                             const char *what,
                             simba_error *error)
{
    int why = errno;

    return simba_error_set(error, simba__sqlite_errno_code(why), why,
                           "sqlite %s: %s: %s", settings->shown, what,
                           simba__sqlite_errno_words(why));
}

/* --- file systems -------------------------------------------------------- */

struct filesystem {
    unsigned long magic;
    const char *name;
    bool is_good;
};

/* A good one has working locks, shared memory maps and inotify, and belongs to
 * one kernel. The others are listed so that the message can name them. */
static const struct filesystem filesystems[] = {
    {0xEF53, "ext4", true},          {0x58465342, "xfs", true},
    {0x9123683E, "btrfs", true},     {0xF2F52010, "f2fs", true},
    {0x2FC12FC1, "zfs", true},       {0x01021994, "tmpfs", true},
    {0x794C7630, "overlay", true},   {0x6969, "nfs", false},
    {0x517B, "smb", false},          {0xFE534D42, "smb", false},
    {0xFF534D42, "cifs", false},     {0x01021997, "9p", false},
    {0x65735546, "fuse", false},     {0x4D44, "vfat", false},
    {0x2011BAB0, "exfat", false},    {0x5346544E, "ntfs", false},
    {0x7366746E, "ntfs", false},     {0x00C36400, "ceph", false},
    {0x01161970, "gfs2", false},     {0x7461636F, "ocfs2", false},
    {0x5346414F, "afs", false},      {0x6B414653, "afs", false},
    {0x0BD00BD0, "lustre", false},   {0x47504653, "gpfs", false},
    {0x786F4256, "vboxsf", false},   {0xBACBACBC, "vmhgfs", false},
    {0x482B, "hfsplus", false},      {0xCA451A4E, "bcachefs", false},
    {0x858458F6, "ramfs", false},    {0xF15F, "ecryptfs", false},
    {0x73717368, "squashfs", false}, {0x9660, "iso9660", false},
    {0x9FA0, "proc", false},         {0x62656572, "sysfs", false},
};

/* NULL: not listed. */
static const struct filesystem *find_filesystem(const struct statfs *about,
                                                unsigned long *magic)
{
    *magic = (unsigned long)about->f_type & 0xFFFFFFFFUL;
    for (size_t i = 0; i < sizeof filesystems / sizeof filesystems[0]; i++) {
        if (filesystems[i].magic == *magic) {
            return &filesystems[i];
        }
    }
    return NULL;
}

const char *simba__sqlite_file_system(const char *path, bool *is_local)
{
    const struct filesystem *found = NULL;
    struct statfs about;
    unsigned long magic;

    if (statfs(path, &about) == 0) {
        found = find_filesystem(&about, &magic);
    }
    *is_local = found != NULL && found->is_good;
    return found == NULL ? "unknown" : found->name;
}

static int check_filesystem(const struct simba__sqlite_settings *settings,
                            simba_error *error)
{
    const struct filesystem *found;
    struct statfs about;
    unsigned long magic;

    if (settings->is_trusted) {
        return SIMBA_OK;
    }
    if (statfs(settings->path, &about) != 0) {
        return simba__sqlite_fail_errno(
            settings, "cannot look at its file system", error);
    }
    found = find_filesystem(&about, &magic);
    if (found != NULL && found->is_good) {
        return SIMBA_OK;
    }
    return simba_error_set(
        error, SIMBA_EMISCONFIG, 0,
        "sqlite %s: file system %s (0x%lx) is not known to be safe; "
        "?fs=trust uses it all the same",
        settings->shown, found == NULL ? "of unknown type" : found->name,
        magic);
}

/* --- making it ----------------------------------------------------------- */

/* Makes every directory above the file that is missing. */
static int make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        int rc;

        *slash = '\0';
        rc = mkdir(path, 0700);
        *slash = '/';
        if (rc != 0 && errno != EEXIST) {
            return -1;
        }
    }
    return 0;
}

/* Uses mknod(), not open(): closing a descriptor of the database drops every
 * POSIX lock of this process on it, those of other connections included. It
 * follows no symlink and never touches what is there. */
static int make_file(char *path)
{
    if (mknod(path, S_IFREG | 0600, 0) != 0) {
        return errno == EEXIST ? 0 : -1;
    }
    return chmod(path, 0600); /* whatever the umask says */
}

/* The log and our directory are found by the name of the file. A process that
 * uses another name finds others, and both would grant the same mutexes.
 * Symlinks are resolved; hard links and files mounted by themselves cannot be.
 */
static int check_name(const struct simba__sqlite_settings *settings,
                      const struct stat *about,
                      simba_error *error)
{
    struct statx more;

    if (!S_ISREG(about->st_mode)) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "sqlite %s: is not a file", settings->shown);
    }
    if (about->st_nlink > 1) {
        return simba_error_set(
            error, SIMBA_EMISCONFIG, 0,
            "sqlite %s: has %lu names (hard links); it may have one only",
            settings->shown, (unsigned long)about->st_nlink);
    }
    if (statx(AT_FDCWD, settings->path, 0, STATX_TYPE, &more) == 0 &&
        (more.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {
        return simba_error_set(
            error, SIMBA_EMISCONFIG, 0,
            "sqlite %s: is mounted as a single file; mount its "
            "directory instead",
            settings->shown);
    }
    return SIMBA_OK;
}

int simba__sqlite_file_prepare(struct simba__sqlite_settings *settings,
                               simba_error *error)
{
    struct stat about;
    char *canonical;
    int rc = make_file(settings->path);
    bool is_link = lstat(settings->path, &about) == 0 && S_ISLNK(about.st_mode);

    if (rc != 0 && errno == ENOENT) {
        if (make_parents(settings->path) != 0) {
            return simba__sqlite_fail_errno(settings,
                                            "cannot make its directory", error);
        }
        rc = make_file(settings->path);
    }
    if (rc != 0) {
        return simba__sqlite_fail_errno(settings, "cannot create it", error);
    }
    /* Two paths to one file must lead to one directory beside it. */
    canonical = realpath(settings->path, NULL);
    if (canonical == NULL) {
        return simba__sqlite_fail_errno(settings, "cannot find it", error);
    }
    simba__sqlite_settings_take_path(settings, canonical);
    if (stat(settings->path, &about) != 0) {
        return simba__sqlite_fail_errno(settings, "cannot find it", error);
    }
    /* Whoever can place a link could have us write to any empty file. */
    if (is_link && about.st_size == 0) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "sqlite %s: is an empty file behind a symbolic "
                               "link; name the file itself",
                               settings->shown);
    }
    rc = check_name(settings, &about, error);
    return rc == SIMBA_OK ? check_filesystem(settings, error) : rc;
}

/* --- a forked child ------------------------------------------------------ */

/* SQLite keeps account of the files of a process, with locks that a child does
 * not inherit. A connection that the child opened to the same file would rely
 * on them: it would take locks for its own that nobody holds, and find others
 * held for ever that were in use when it was forked. So it is refused.
 *
 * The list is written in the child while it has but one thread. */
static struct simba__sqlite_inherited *inherited;

/* SQLite does not tell its descriptors; they are found by their files. */
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

void simba__sqlite_file_forked(const struct simba__sqlite_settings *settings,
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

bool simba__sqlite_file_is_inherited(
    const struct simba__sqlite_settings *settings)
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
