/* What an SQLite store, set up as it is, can and cannot promise. */
#define _GNU_SOURCE
#include "backends/sqlite/sqlite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Below this much room a commit may fail any moment. */
#define ROOM_LEAST_BYTES (UINT64_C(4) * 1024 * 1024)

/* The value of a pragma as text; "" when it cannot be had. */
static void ask_pragma(const struct simba__sqlite *self,
                       const char *sql,
                       char *value,
                       size_t room)
{
    sqlite3_stmt *row = NULL;

    value[0] = '\0';
    if (sqlite3_prepare_v2(self->db.handle, sql, -1, &row, NULL) == SQLITE_OK &&
        sqlite3_step(row) == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(row, 0);
        snprintf(value, room, "%s", text == NULL ? "" : (const char *)text);
    }
    sqlite3_finalize(row);
}

/* The file system of the database, or of the directory where it would be; says
 * whether a reboot empties it. */
static bool examine_disk(const struct simba__sqlite *self,
                         const char *where,
                         simba_request *request)
{
    bool is_trusted = self->settings.is_trusted, is_good;
    const char *name = simba__sqlite_file_system(where, &is_good);
    bool is_tmpfs = is_good && strcmp(name, "tmpfs") == 0;
    struct statvfs disk;

    simba_request_add_finding(
        request,
        is_tmpfs  ? SIMBA_FINDING_NOTE
        : is_good ? SIMBA_FINDING_OK
                  : SIMBA_FINDING_SERIOUS,
        "file-system",
        is_tmpfs  ? "%s: gone after a reboot, which frees every mutex anyway"
        : is_good ? "%s: locks, shared memory and inotify work"
        : is_trusted
            ? "%s is trusted by ?fs=trust only; if its locks do not exclude, "
              "neither does this store"
            : "%s is not known to be safe, and is refused without ?fs=trust",
        name);
    if (statvfs(where, &disk) == 0) {
        uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize;

        if (room < ROOM_LEAST_BYTES) {
            simba_request_add_finding(
                request, SIMBA_FINDING_SERIOUS, "room",
                "only %llu KiB left on its disk: when it is full nothing can "
                "be acquired or renewed",
                (unsigned long long)(room / 1024));
        } else {
            simba_request_add_finding(request, SIMBA_FINDING_OK, "room",
                                      "%llu MiB left on its disk",
                                      (unsigned long long)(room / 1024 / 1024));
        }
    }
    return is_tmpfs;
}

/* Nobody has made the file yet. Could one be made? */
static void examine_absent(const struct simba__sqlite *self,
                           simba_request *request)
{
    const struct simba__sqlite_settings *settings = &self->settings;
    char *where = strdup(settings->path);
    char *slash;
    bool is_able;

    simba_request_add_finding(
        request, SIMBA_FINDING_NOTE, "file",
        "%s is not there yet: the first lock makes it, or `simba init`",
        settings->shown);
    /* The nearest directory above that is there. */
    while (where != NULL && (slash = strrchr(where, '/')) != NULL) {
        slash[slash == where ? 1 : 0] = '\0';
        if (slash == where || access(where, F_OK) == 0) {
            break;
        }
    }
    if (where != NULL) {
        const char *directory = slash == NULL ? "." : where;

        is_able = access(directory, W_OK | X_OK) == 0;
        simba_request_add_finding(
            request, is_able ? SIMBA_FINDING_OK : SIMBA_FINDING_SERIOUS,
            "permissions", "%.150s: %s", directory,
            is_able ? "what is missing can be made there"
                    : simba__sqlite_errno_words(errno));
        examine_disk(self, directory, request);
    }
    free(where);
}

static void examine_database(const struct simba__sqlite *self,
                             bool is_tmpfs,
                             simba_request *request)
{
    char value[128];
    bool is_good;

    ask_pragma(self, "PRAGMA journal_mode", value, sizeof value);
    is_good = strcmp(value, "wal") == 0;
    simba_request_add_finding(
        request, is_good ? SIMBA_FINDING_OK : SIMBA_FINDING_NOTE, "journal",
        is_good ? "%s: readers and the writer do not block each other"
                : "%s: slower than wal, readers wait for the writer",
        value);
    is_good = self->settings.is_full && !is_tmpfs;
    simba_request_add_finding(
        request, is_good ? SIMBA_FINDING_OK : SIMBA_FINDING_NOTE, "synchronous",
        "%s",
        is_good
            ? "full: no token comes again after a power loss; the rest need "
              "not be on disk, as a reboot frees every mutex"
            : "a power loss may take the last changes along; exclusion "
              "holds, as a reboot frees every mutex, and tokens go on by the "
              "wall clock");
    ask_pragma(self, "PRAGMA quick_check(1)", value, sizeof value);
    is_good = strcmp(value, "ok") == 0;
    simba_request_add_finding(
        request, is_good ? SIMBA_FINDING_OK : SIMBA_FINDING_SERIOUS,
        "integrity", "the database is %s%s", is_good ? "sound" : "damaged: ",
        is_good            ? ""
        : value[0] == '\0' ? "unreadable"
                           : value);
}

static void examine_clock_and_wake_ups(const struct simba__sqlite *self,
                                       simba_request *request)
{
    bool is_on = self->settings.is_handover;
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

    simba_request_add_finding(
        request, SIMBA_FINDING_OK, "clock",
        "the boot clock: steps of the wall clock do nothing to a lease");
    simba_request_add_finding(request, SIMBA_FINDING_OK, "boot",
                              "boot id %s: a reboot frees every mutex",
                              self->boot);
    if (self->clock_offset_ns != 0) {
        simba_request_add_finding(request, SIMBA_FINDING_NOTE, "time-namespace",
                                  "this process counts %+.3f s off the "
                                  "machine; taken into account",
                                  (double)self->clock_offset_ns / 1e9);
    }
    simba_request_add_finding(
        request, is_on ? SIMBA_FINDING_OK : SIMBA_FINDING_NOTE,
        "crash-handover", "%s",
        is_on ? "on: what a dead process owned is free at once; children that "
                "do its work must be gone first, else ?crash_handover=off"
              : "off: what a dead process owned is free at the end of its "
                "lease");
    if (fd >= 0 && !self->is_poll_logged) {
        simba_request_add_finding(
            request, SIMBA_FINDING_OK, "push",
            "inotify: a release or a death wakes the next in the queue");
    } else {
        simba_request_add_finding(
            request, SIMBA_FINDING_NOTE, "push",
            "no inotify to be had (%s): waiters poll; raise "
            "fs.inotify.max_user_instances",
            fd < 0 ? simba__sqlite_errno_words(errno) : "seen earlier");
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* Whoever may write to the file may also end tenures, or the file. */
static void examine_file(const struct simba__sqlite *self,
                         simba_request *request)
{
    const struct simba__sqlite_settings *settings = &self->settings;
    struct stat about;

    if (stat(settings->path, &about) != 0) {
        simba_request_add_finding(request, SIMBA_FINDING_SERIOUS, "permissions",
                                  "%s: cannot be looked at: %s",
                                  settings->shown,
                                  simba__sqlite_errno_words(errno));
    } else {
        simba_request_add_finding(
            request,
            about.st_mode & S_IWOTH ? SIMBA_FINDING_WEAK : SIMBA_FINDING_OK,
            "permissions", "%s has mode %03o%s", settings->shown,
            (unsigned)about.st_mode & 0777U,
            about.st_mode & S_IWOTH
                ? ": everybody on this machine may change it"
                : "");
    }
    simba_request_add_finding(
        request, settings->is_trusted ? SIMBA_FINDING_WEAK : SIMBA_FINDING_NOTE,
        "sharing", "%s",
        settings->is_trusted ? "machines that share this file wait out each "
                               "other's leases and are not in one queue"
                             : "processes of this machine only");
}

int simba__sqlite_doctor(struct simba__sqlite *self, simba_request *request)
{
    if (self->is_absent) {
        examine_absent(self, request);
    } else {
        examine_database(self, examine_disk(self, self->settings.path, request),
                         request);
        examine_file(self, request);
    }
    examine_clock_and_wake_ups(self, request);
    request->reply.store_ms = simba__sqlite_now_ms(self);
    return SIMBA_OK;
}
