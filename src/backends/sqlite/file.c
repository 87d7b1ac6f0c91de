/* Where the database lies; see file.h. */
#define _GNU_SOURCE
#include "backends/sqlite/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* --- file systems -------------------------------------------------------- */

struct filesystem {
    unsigned long magic;
    const char *name;
    bool is_good;
};

/* Good ones have working locks, shared memory maps and inotify, and belong to
 * one kernel. The others are listed only to be named. */
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

static const struct filesystem *find_filesystem(unsigned long magic)
{
    for (size_t i = 0; i < sizeof filesystems / sizeof filesystems[0]; i++) {
        if (filesystems[i].magic == magic) {
            return &filesystems[i];
        }
    }
    return NULL;
}

/* NULL: not listed, or it cannot be looked at. */
static const struct filesystem *look_at(const char *path)
{
    struct statfs about;

    return statfs(path, &about) == 0
               ? find_filesystem((unsigned long)about.f_type & 0xFFFFFFFFUL)
               : NULL;
}

bool simba__sqlite_file_is_local(const char *path)
{
    const struct filesystem *found = look_at(path);

    return found != NULL && found->is_good;
}

const char *simba__sqlite_file_system(const char *path)
{
    const struct filesystem *found = look_at(path);

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
        return SIMBA__SQLITE_FAIL(settings, error,
                                  simba__sqlite_file_status(errno), errno,
                                  "cannot look at its file system: %s",
                                  simba__sqlite_file_words(errno));
    }
    magic = (unsigned long)about.f_type & 0xFFFFFFFFUL;
    found = find_filesystem(magic);
    if (found != NULL && found->is_good) {
        return SIMBA_OK;
    }
    return SIMBA__SQLITE_FAIL(settings, error, SIMBA_EMISCONFIG, 0,
                              "file system %s (0x%lx) is not known to be safe; "
                              "?fs=trust uses it all the same",
                              found == NULL ? "of unknown type" : found->name,
                              magic);
}

/* --- failures ------------------------------------------------------------ */

int simba__sqlite_file_status(int errno_value)
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
const char *simba__sqlite_file_words(int errno_value)
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

static int failed(const struct simba__sqlite_settings *settings,
                  const char *what,
                  simba_error *error)
{
    int why = errno;

    return SIMBA__SQLITE_FAIL(settings, error, simba__sqlite_file_status(why),
                              why, "%s: %s", what,
                              simba__sqlite_file_words(why));
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

/* By mknod(), not open(): closing a descriptor of the database drops every
 * POSIX lock of this process on it, those of other connections included. It
 * follows no symlink and never touches what is there. */
static int make_file(char *path)
{
    if (mknod(path, S_IFREG | 0600, 0) != 0) {
        return errno == EEXIST ? 0 : -1;
    }
    return chmod(path, 0600); /* whatever the umask says */
}

/* The log and our directory are found by the name of the file: who comes by
 * another name finds others, and both would grant the same mutexes. Symlinks
 * are resolved; hard links and files mounted by themselves cannot be. */
static int check_name(const struct simba__sqlite_settings *settings,
                      const struct stat *about,
                      simba_error *error)
{
    struct statx more;

    if (!S_ISREG(about->st_mode)) {
        return SIMBA__SQLITE_FAIL(settings, error, SIMBA_EMISCONFIG, 0,
                                  "is not a file");
    }
    if (about->st_nlink > 1) {
        return SIMBA__SQLITE_FAIL(
            settings, error, SIMBA_EMISCONFIG, 0,
            "has %lu names (hard links); it may have one only",
            (unsigned long)about->st_nlink);
    }
    if (statx(AT_FDCWD, settings->path, 0, STATX_TYPE, &more) == 0 &&
        (more.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {
        return SIMBA__SQLITE_FAIL(settings, error, SIMBA_EMISCONFIG, 0,
                                  "is mounted as a single file; mount its "
                                  "directory instead");
    }
    return SIMBA_OK;
}

bool simba__sqlite_file_is_missing(
    const struct simba__sqlite_settings *settings)
{
    struct stat about;

    return stat(settings->path, &about) != 0 && errno == ENOENT;
}

int simba__sqlite_file_prepare(struct simba__sqlite_settings *settings,
                               simba_error *error)
{
    struct stat about;
    char *canonical;
    int rc = make_file(settings->path);

    if (rc != 0 && errno == ENOENT) {
        if (make_parents(settings->path) != 0) {
            return failed(settings, "cannot make its directory", error);
        }
        rc = make_file(settings->path);
    }
    if (rc != 0) {
        return failed(settings, "cannot create it", error);
    }
    /* Two ways to one file must lead to one directory beside it. */
    canonical = realpath(settings->path, NULL);
    if (canonical == NULL) {
        return failed(settings, "cannot find it", error);
    }
    simba__sqlite_settings_take_path(settings, canonical);
    if (stat(settings->path, &about) != 0) {
        return failed(settings, "cannot find it", error);
    }
    rc = check_name(settings, &about, error);
    return rc == SIMBA_OK ? check_filesystem(settings, error) : rc;
}
