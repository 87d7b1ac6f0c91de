/* What an SQLite store, set up as it is, can and cannot promise. */
#define _GNU_SOURCE
#include "backends/sqlite/file.h"
#include "backends/sqlite/instance.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Below this much room a commit may fail any moment. */
#define ROOM_LEAST_BYTES (UINT64_C(4) * 1024 * 1024)

struct visit {
    struct simba__sqlite *self;
    simba_request *request;
};

static void find_filesystem(const struct visit *v)
{
    const struct simba__sqlite_settings *settings = &v->self->settings;
    const char *name = simba__sqlite_file_system(settings->path);

    if (simba__sqlite_file_is_local(settings->path)) {
        simba_request_add_finding(v->request, SIMBA_FINDING_OK, "file-system",
                                  "%s: locks, shared memory and inotify work",
                                  name);
    } else {
        simba_request_add_finding(
            v->request, SIMBA_FINDING_SERIOUS, "file-system",
            "%s is trusted by ?fs=trust only; if its locks "
            "do not exclude, neither does this store",
            name);
    }
}

/* The value of a pragma as text; "" when it cannot be had. */
static void ask_pragma(const struct visit *v,
                       const char *sql,
                       char *value,
                       size_t room)
{
    sqlite3_stmt *row = NULL;

    value[0] = '\0';
    if (sqlite3_prepare_v2(v->self->db.handle, sql, -1, &row, NULL) ==
            SQLITE_OK &&
        sqlite3_step(row) == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(row, 0);
        snprintf(value, room, "%s", text == NULL ? "" : (const char *)text);
    }
    sqlite3_finalize(row);
}

static void find_journal(const struct visit *v)
{
    char mode[16];
    bool is_wal;

    ask_pragma(v, "PRAGMA journal_mode", mode, sizeof mode);
    is_wal = strcmp(mode, "wal") == 0;
    simba_request_add_finding(
        v->request, is_wal ? SIMBA_FINDING_OK : SIMBA_FINDING_NOTE, "journal",
        is_wal ? "%s: readers and the writer do not block "
                 "each other"
               : "%s: slower than wal, readers wait for the "
                 "writer",
        mode);
}

static void find_synchronous(const struct visit *v)
{
    if (v->self->settings.is_full) {
        simba_request_add_finding(
            v->request, SIMBA_FINDING_OK, "synchronous",
            "full: no token comes again after a power loss; "
            "the rest need not be on disk, as a reboot frees "
            "every mutex");
    } else {
        simba_request_add_finding(
            v->request, SIMBA_FINDING_NOTE, "synchronous",
            "normal: a power loss may take the last changes along; exclusion "
            "holds, as a reboot frees every mutex, and tokens go on by the "
            "wall clock");
    }
}

static void find_integrity(const struct visit *v)
{
    char result[128];

    ask_pragma(v, "PRAGMA quick_check(1)", result, sizeof result);
    if (strcmp(result, "ok") == 0) {
        simba_request_add_finding(v->request, SIMBA_FINDING_OK, "integrity",
                                  "the database is sound");
    } else {
        simba_request_add_finding(v->request, SIMBA_FINDING_SERIOUS,
                                  "integrity", "the database is damaged: %s",
                                  result[0] == '\0' ? "unreadable" : result);
    }
}

static void find_crash(const struct visit *v)
{
    if (v->self->settings.is_handover) {
        simba_request_add_finding(
            v->request, SIMBA_FINDING_OK, "crash-handover",
            "on: what a dead process owned is free at once; children that do "
            "its work must be gone first, else ?crash_handover=off");
    } else {
        simba_request_add_finding(
            v->request, SIMBA_FINDING_NOTE, "crash-handover",
            "off: what a dead process owned is free at the "
            "end of its lease");
    }
}

static void find_clock(const struct visit *v)
{
    const struct simba__sqlite_clock *clock = &v->self->clock;

    simba_request_add_finding(
        v->request, SIMBA_FINDING_OK, "clock",
        "the boot clock: steps of the wall clock do nothing "
        "to a lease");
    simba_request_add_finding(v->request, SIMBA_FINDING_OK, "boot",
                              "boot id %s: a reboot frees every mutex",
                              clock->boot);
    if (clock->offset_ns != 0) {
        simba_request_add_finding(
            v->request, SIMBA_FINDING_NOTE, "time-namespace",
            "this process counts %+.3f s off the machine; "
            "taken into account",
            (double)clock->offset_ns / 1e9);
    }
}

/* Who may write to the file may also end tenures, or the file. */
static void find_permissions(const struct visit *v)
{
    struct stat about;

    if (stat(v->self->settings.path, &about) != 0) {
        simba_request_add_finding(v->request, SIMBA_FINDING_SERIOUS,
                                  "permissions", "%s: cannot be looked at: %s",
                                  v->self->settings.shown,
                                  simba__sqlite_file_words(errno));
        return;
    }
    simba_request_add_finding(
        v->request,
        about.st_mode & S_IWOTH ? SIMBA_FINDING_WEAK : SIMBA_FINDING_OK,
        "permissions",
        about.st_mode & S_IWOTH
            ? "%s has mode %03o: everybody on this machine may change it"
            : "%s has mode %03o",
        v->self->settings.shown, (unsigned)about.st_mode & 0777U);
}

static void find_push(const struct visit *v)
{
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

    if (fd >= 0 && !v->self->is_deaf) {
        simba_request_add_finding(
            v->request, SIMBA_FINDING_OK, "push",
            "inotify: a release or a death wakes the next in "
            "line");
    } else {
        simba_request_add_finding(
            v->request, SIMBA_FINDING_WEAK, "push",
            "no inotify to be had (%s): waiters poll; raise "
            "fs.inotify.max_user_instances",
            fd < 0 ? simba__sqlite_file_words(errno) : "seen earlier");
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void find_room(const struct visit *v)
{
    struct statvfs about;
    uint64_t room;

    if (statvfs(v->self->settings.path, &about) != 0) {
        return;
    }
    room = (uint64_t)about.f_bavail * about.f_frsize;
    if (room < ROOM_LEAST_BYTES) {
        simba_request_add_finding(
            v->request, SIMBA_FINDING_WEAK, "room",
            "only %llu KiB left on its disk: when it is full "
            "nothing can be acquired or renewed",
            (unsigned long long)(room / 1024));
    } else {
        simba_request_add_finding(v->request, SIMBA_FINDING_OK, "room",
                                  "%llu MiB left on its disk",
                                  (unsigned long long)(room / 1024 / 1024));
    }
}

static void find_sharing(const struct visit *v)
{
    if (v->self->settings.is_trusted) {
        simba_request_add_finding(v->request, SIMBA_FINDING_WEAK, "sharing",
                                  "machines that share this file wait out each "
                                  "other's leases and are not in one line");
    } else {
        simba_request_add_finding(v->request, SIMBA_FINDING_NOTE, "sharing",
                                  "processes of this machine only");
    }
}

int simba__sqlite_doctor(struct simba__sqlite *self,
                         simba_request *request,
                         simba_error *error)
{
    static void (*const finders[])(const struct visit *) = {
        find_filesystem, find_journal, find_synchronous, find_integrity,
        find_clock,      find_crash,   find_push,        find_permissions,
        find_room,       find_sharing,
    };
    struct visit visit = {self, request};

    (void)error;
    for (size_t i = 0; i < sizeof finders / sizeof finders[0]; i++) {
        finders[i](&visit);
    }
    request->reply.store_ms = simba__sqlite_clock_now_ms(&self->clock);
    return SIMBA_OK;
}

/* A file is made, and brought up to date, when it is opened. */
int simba__sqlite_tell_schema(const struct simba__sqlite *self,
                              simba_request *request)
{
    simba_request_add_finding(request, SIMBA_FINDING_OK, "schema",
                              "the tables of %s are there",
                              self->settings.path);
    return SIMBA_OK;
}
