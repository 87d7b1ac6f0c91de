/* Guards: what a resource needs so that it refuses the writes of a stale owner.
 * Those that are text (SQL, a Redis script, marks), and a file that keeps a
 * mark. */
#define _GNU_SOURCE
#include <simba/guard.h>

#include "api/store.h"
#include "util/hash.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const sql[][3] = {
    [SIMBA_GUARD_POSTGRES] =
        {[SIMBA_GUARD_CREATE] =
             "CREATE TABLE IF NOT EXISTS simba_guard ("
             "resource varchar(255) PRIMARY KEY, token bigint NOT NULL)",
         [SIMBA_GUARD_RAISE] =
             "INSERT INTO simba_guard (resource, token) VALUES ($1, $2) "
             "ON CONFLICT (resource) DO UPDATE SET "
             "token = greatest(simba_guard.token, excluded.token)",
         [SIMBA_GUARD_ASK] = "SELECT CASE WHEN token = $1 THEN 1 ELSE 0 END "
                             "FROM simba_guard WHERE resource = $2"},
    [SIMBA_GUARD_MYSQL] =
        {[SIMBA_GUARD_CREATE] =
             "CREATE TABLE IF NOT EXISTS simba_guard ("
             "resource varbinary(255) PRIMARY KEY, token bigint NOT NULL)",
         [SIMBA_GUARD_RAISE] =
             "INSERT INTO simba_guard (resource, token) VALUES (?, ?) "
             "ON DUPLICATE KEY UPDATE token = greatest(token, VALUES(token))",
         [SIMBA_GUARD_ASK] = "SELECT CASE WHEN token = ? THEN 1 ELSE 0 END "
                             "FROM simba_guard WHERE resource = ? FOR UPDATE"},
    [SIMBA_GUARD_SQLITE] =
        {[SIMBA_GUARD_CREATE] =
             "CREATE TABLE IF NOT EXISTS simba_guard ("
             "resource TEXT PRIMARY KEY, token INTEGER NOT NULL) WITHOUT ROWID",
         [SIMBA_GUARD_RAISE] =
             "INSERT INTO simba_guard (resource, token) VALUES (?1, ?2) "
             "ON CONFLICT (resource) DO UPDATE SET "
             "token = max(token, excluded.token)",
         [SIMBA_GUARD_ASK] = "SELECT CASE WHEN token = ?1 THEN 1 ELSE 0 END "
                             "FROM simba_guard WHERE resource = ?2"},
};

const char *simba_guard_sql(enum simba_guard_dialect dialect,
                            enum simba_guard_statement statement)
{
    if ((size_t)dialect >= sizeof sql / sizeof sql[0] ||
        (size_t)statement >= sizeof sql[0] / sizeof sql[0][0]) {
        return NULL;
    }
    return sql[dialect][statement];
}

/* Tokens are compared as text of one length: Lua's numbers are too small. */
const char *simba_guard_redis_script(void)
{
    return "local function wide(token)\n"
           "  return string.rep('0', 20 - #token) .. token\n"
           "end\n"
           "if not ARGV[1]:find('^%d+$') or #ARGV[1] > 20 or\n"
           "    wide(ARGV[1]) == wide('0') then\n"
           "  return redis.error_reply('BADTOKEN that is no token')\n"
           "end\n"
           "local mark = redis.call('GET', KEYS[1])\n"
           "if mark and wide(mark) > wide(ARGV[1]) then\n"
           "  return redis.error_reply('STALETOKEN the mark is ' .. mark)\n"
           "end\n"
           "redis.call('SET', KEYS[1], ARGV[1])\n"
           "return redis.call(ARGV[2], KEYS[2], unpack(ARGV, 3))\n";
}

void simba_guard_format(uint64_t token, char *text)
{
    (void)snprintf(text, SIMBA_GUARD_TEXT, "%020" PRIu64, token);
}

int simba_guard_judge(const char *mark,
                      size_t length,
                      uint64_t token,
                      simba_error *error)
{
    uint64_t seen = 0;

    for (size_t i = 0; i < length; i++) {
        uint64_t digit = (uint64_t)(unsigned char)mark[i] - '0';

        if (digit > 9 || seen > (UINT64_MAX - digit) / 10) {
            return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                                   "the mark of this resource is no token");
        }
        seen = seen * 10 + digit;
    }
    if (seen > token) {
        return simba_error_set(error, SIMBA_ELOST, 0,
                               "token %" PRIu64 " is stale: this resource has "
                               "seen %" PRIu64,
                               token, seen);
    }
    return SIMBA_OK;
}

/* --- the file that keeps a mark ------------------------------------------ */

/* Two slots, written in turn, each with a checksum. A write that power loss
 * cuts in half leaves the other slot as it was, and that is the mark from
 * before a write that never happened. */

/* Slots are far apart, so that no sector holds both. */
enum { SLOTS = 2, SLOT_APART = 4096, SLOT_SIZE = 64 };

struct simba_guard_file {
    int fd;
    char *path;
    bool is_inside;
};

struct mark {
    uint64_t token; /* 0: none */
    int slot;       /* where it is kept */
};

static int fail_file(const simba_guard_file *guard, simba_error *error)
{
    int cause = errno;

    return simba_error_set(error, SIMBA_EDENIED, cause, "%s: %s", guard->path,
                           strerror(cause));
}

/* --- slots --------------------------------------------------------------- */

static void write_text(char *text, uint64_t token)
{
    unsigned char bytes[8]; /* the lowest first, on every machine */

    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(token >> (8 * i));
    }
    memset(text, ' ', SLOT_SIZE);
    (void)snprintf(text, SLOT_SIZE, "simba-guard 1 %020" PRIu64 " %08" PRIx32,
                   token, simba__fnv32(bytes, sizeof bytes));
    text[strlen(text)] = ' ';
    text[SLOT_SIZE - 1] = '\n';
}

static int read_mark(const simba_guard_file *guard,
                     struct mark *mark,
                     simba_error *error)
{
    bool is_empty = true;

    *mark = (struct mark){0, 1};
    for (int i = 0; i < SLOTS; i++) {
        char text[SLOT_SIZE] = {0}, whole[SLOT_SIZE];
        ssize_t size =
            pread(guard->fd, text, sizeof text, (off_t)i * SLOT_APART);
        uint64_t token = 0;

        if (size < 0) {
            return fail_file(guard, error);
        }
        /* What lies between the slots reads as zeros. */
        is_empty = is_empty && text[0] == '\0';
        for (int at = 14; at < 34; at++) {
            token = token * 10 + (uint64_t)(unsigned char)text[at] - '0';
        }
        write_text(whole, token); /* anything else is no slot, or half of one */
        if (token > mark->token && memcmp(text, whole, SLOT_SIZE) == 0) {
            *mark = (struct mark){token, i};
        }
    }
    if (mark->token == 0 && !is_empty) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "%s: not a guard file, or a damaged one",
                               guard->path);
    }
    return SIMBA_OK;
}

/* --- entering ------------------------------------------------------------ */

/* Of the open file, not of the process: threads exclude each other as well, and
 * closing another descriptor of the file does not let go. */
static bool lock_file(const simba_guard_file *guard, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

    return fcntl(guard->fd, F_OFD_SETLK, &lock) == 0;
}

static int wait_for_lock(const simba_guard_file *guard,
                         int64_t timeout_ms,
                         simba_error *error)
{
    int64_t until_ms = simba_loop_now_ms() + timeout_ms;
    struct timespec nap = {0, 200000};

    while (!lock_file(guard, F_WRLCK)) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
            return fail_file(guard, error);
        }
        if (timeout_ms >= 0 && simba_loop_now_ms() >= until_ms) {
            return simba_error_set(
                error, timeout_ms == 0 ? SIMBA_EBUSY : SIMBA_ETIMEDOUT, 0,
                "%s: somebody else is inside", guard->path);
        }
        (void)nanosleep(&nap, NULL);
        if (nap.tv_nsec < 20000000) {
            nap.tv_nsec *= 2;
        }
    }
    return SIMBA_OK;
}

static int pass(const simba_guard_file *guard,
                uint64_t token,
                simba_error *error)
{
    char text[SLOT_SIZE], *path;
    struct mark mark;
    int fd, rc = read_mark(guard, &mark, error);

    assert(token != 0);
    if (rc == SIMBA_OK && mark.token > token) {
        return simba_error_set(error, SIMBA_ELOST, 0,
                               "token %" PRIu64 " is stale: %s has seen "
                               "%" PRIu64,
                               token, guard->path, mark.token);
    }
    if (rc != SIMBA_OK || mark.token == token) {
        return rc;
    }
    /* On disk before anything is written under it, or a power loss would take
     * the mark back and leave what was written. */
    write_text(text, token);
    if (pwrite(guard->fd, text, sizeof text,
               (off_t)(1 - mark.slot) * SLOT_APART) != (ssize_t)sizeof text ||
        fdatasync(guard->fd) != 0) {
        return fail_file(guard, error);
    }
    if (mark.token != 0) {
        return SIMBA_OK;
    }
    /* The first mark is lost with its file, unless the directory knows of it.
     */
    path = strdup(guard->path);
    if (path == NULL) {
        return simba__fail_memory(error);
    }
    fd = open(dirname(path), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        rc = fail_file(guard, error);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    free(path);
    return rc;
}

int simba_guard_file_enter(simba_guard_file *guard,
                           uint64_t token,
                           int64_t timeout_ms,
                           simba_error *error)
{
    int rc;

    if (guard->is_inside || token == 0) {
        return simba_error_set(error, SIMBA_EMISUSE, 0,
                               guard->is_inside
                                   ? "this guard is entered already"
                                   : "0 is no token");
    }
    rc = wait_for_lock(guard, timeout_ms, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    rc = pass(guard, token, error);
    guard->is_inside = rc == SIMBA_OK;
    if (rc != SIMBA_OK) {
        (void)lock_file(guard, F_UNLCK);
    }
    return rc;
}

void simba_guard_file_leave(simba_guard_file *guard)
{
    if (guard->is_inside) {
        guard->is_inside = false;
        (void)lock_file(guard, F_UNLCK);
    }
}

/* --- life ---------------------------------------------------------------- */

void simba_guard_file_close(simba_guard_file *guard)
{
    if (guard != NULL) {
        if (guard->fd >= 0) {
            (void)close(guard->fd);
        }
        free(guard->path);
        free(guard);
    }
}

int simba_guard_file_open(const char *path,
                          simba_guard_file **out,
                          simba_error *error)
{
    simba_guard_file *guard = calloc(1, sizeof *guard);
    struct mark mark;
    int rc;

    *out = NULL;
    if (guard == NULL || (guard->path = strdup(path)) == NULL) {
        free(guard);
        return simba__fail_memory(error);
    }
    guard->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    rc = guard->fd < 0 ? fail_file(guard, error)
                       : read_mark(guard, &mark, error);
    if (rc != SIMBA_OK) {
        simba_guard_file_close(guard);
        return rc;
    }
    *out = guard;
    return SIMBA_OK;
}
