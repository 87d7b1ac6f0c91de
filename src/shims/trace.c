/* The trace shim: `trace:/path/file.jsonl:INNER-URL` writes a line of JSON for
 * every request sent, every reply and every wake-up. Lines are appended,
 * each by one call, so several processes may share a file; docs/testing.md
 * lists the members, and `simba verify` reads them. */
#define _GNU_SOURCE
#include "shims/shim.h"
#include "util/json.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { BOOT_LENGTH = 36 };

struct trace {
    struct simba__shim shim;
    int fd;
    char handle[17]; /* which handle of which process */
    char boot[BOOT_LENGTH + 1];
    bool is_failing;         /* the log was told */
    struct simba__text text; /* the line in hand, inside the loop */
    struct simba__json line;
};

/* --- lines --------------------------------------------------------------- */

static struct simba__json *begin_line(struct trace *trace, const char *what)
{
    struct simba__json *line = &trace->line;

    trace->text.length = 0;
    simba__json_begin(line, &trace->text);
    simba__json_text(line, "trace", what);
    simba__json_number(line, "us", simba__shim_now_us());
    simba__json_text(line, "boot", trace->boot);
    simba__json_number(line, "pid", getpid());
    simba__json_text(line, "handle", trace->handle);
    return line;
}

/* A full disk must not stop the contention, nor a lack of memory. */
static void write_line(struct trace *trace)
{
    ssize_t length;

    assert(trace->fd >= 0);
    simba__json_line(&trace->line);
    length = (ssize_t)trace->text.length;
    if ((trace->text.is_failed ||
         write(trace->fd, trace->text.bytes, trace->text.length) != length) &&
        !trace->is_failing) {
        trace->is_failing = true;
        trace->shim.log(trace->shim.log_user, SIMBA_LOG_ERROR, "trace",
                        "the trace has gaps: it cannot be written");
    }
    trace->text.is_failed = false;
}

static void put_request(struct simba__json *line,
                        const struct simba__shim_request *passing)
{
    const simba_request *request = passing->request;
    char attempt[33];

    simba__json_unsigned(line, "n", passing->number);
    simba__json_text(line, "request", simba__shim_request_name(request->kind));
    simba__json_text_if(line, "mutex", request->mutex);
    simba__json_text_if(line, "id", request->id);
    if (request->attempt.high != 0 || request->attempt.low != 0) {
        snprintf(attempt, sizeof attempt, "%016" PRIx64 "%016" PRIx64,
                 request->attempt.high, request->attempt.low);
        simba__json_text(line, "attempt", attempt);
    }
}

/* What is 0 or false is left out. */
static void put_unsigned(struct simba__json *line, const char *key, uint64_t n)
{
    if (n != 0) {
        simba__json_unsigned(line, key, n);
    }
}

static void put_flag(struct simba__json *line, const char *key, bool is_so)
{
    if (is_so) {
        simba__json_flag(line, key, true);
    }
}

static void write_sent(const struct simba__shim_request *passing)
{
    struct trace *trace = (struct trace *)passing->shim;
    const simba_request *request = passing->request;
    struct simba__json *line = begin_line(trace, "sent");

    put_request(line, passing);
    put_unsigned(line, "token", request->token);
    put_unsigned(line, "position", request->position);
    simba__json_number_if(line, "ttl_ms", request->ttl_ms);
    simba__json_number_if(line, "transition_ms", request->transition_ms);
    simba__json_number_if(line, "waiter_ms", request->waiter_ms);
    simba__json_number_if(line, "tombstone_ms", request->tombstone_ms);
    simba__json_number_if(line, "deadline_ms", request->deadline_ms);
    put_flag(line, "join", request->join);
    put_flag(line, "now", request->now);
    put_unsigned(line, "slots", request->slots);
    simba__json_text_if(line, "to", request->to);
    write_line(trace);
}

static void write_answered(const struct simba__shim_request *passing,
                           const simba_reply *reply,
                           int status)
{
    struct trace *trace = (struct trace *)passing->shim;
    struct simba__json *line = begin_line(trace, "answered");

    put_request(line, passing);
    simba__json_text(line, "status", simba_status_name(status));
    if (status == SIMBA_OK) {
        put_flag(line, "mine", reply->mine);
        put_unsigned(line, "token", reply->token);
        if (reply->mine && passing->request->slots > 1) {
            simba__json_unsigned(line, "slots", passing->request->slots);
        }
        if (reply->mine && passing->request->slots > 1 &&
            reply->slot != SIMBA_NO_SLOT) {
            simba__json_unsigned(line, "slot", reply->slot);
        }
        put_flag(line, "queued", reply->is_queued);
        put_flag(line, "head", reply->is_head);
        put_unsigned(line, "position", reply->position);
        simba__json_number_if(line, "wait_ms", reply->wait_ms);
        simba__json_number_if(line, "store_ms", reply->store_ms);
        simba__json_number_if(line, "lease_ms", reply->lease_ms);
        if (reply->owner.id[0] != '\0') {
            simba__json_text(line, "owner", reply->owner.id);
            simba__json_unsigned(line, "owner_token", reply->owner.token);
        }
    }
    write_line(trace);
}

static void write_wake(struct simba__wake_filter *filter, const char *mutex)
{
    struct simba__shim *shim = container_of(filter, struct simba__shim, filter);
    struct trace *trace = (struct trace *)shim;
    struct simba__json *line = begin_line(trace, "wake_up");

    simba__json_text_if(line, "mutex", mutex);
    write_line(trace);
    simba__wake_pass(shim->base.loop, filter, mutex);
}

/* The time of day is for merging the logs of several boots. */
static void write_mark(struct trace *trace, const char *what)
{
    struct simba__json *line = begin_line(trace, what);
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    simba__json_number(line, "unix_ms",
                       now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000);
    write_line(trace);
}

/* --- life ---------------------------------------------------------------- */

static int open_file(struct simba__shim *shim, char *path, simba_error *error)
{
    struct trace *trace = (struct trace *)shim;
    uint64_t number;
    ssize_t length;
    int fd;

    trace->fd = -1;
    if (path[0] == '\0') {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "trace: which file? As in trace:/path:URL");
    }
    trace->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (trace->fd < 0 ||
        getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        return simba_error_set(
            error, errno == EACCES ? SIMBA_EDENIED : SIMBA_EMISCONFIG, errno,
            "trace: %.128s: %s", path, strerrordesc_np(errno));
    }
    snprintf(trace->handle, sizeof trace->handle, "%016" PRIx64, number);
    fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    length = fd < 0 ? -1 : read(fd, trace->boot, BOOT_LENGTH);
    trace->boot[length == BOOT_LENGTH ? BOOT_LENGTH : 0] = '\0';
    if (fd >= 0) {
        close(fd);
    }
    write_mark(trace, "opened");
    return SIMBA_OK;
}

static void close_file(struct simba__shim *shim, bool was_open)
{
    struct trace *trace = (struct trace *)shim;

    if (was_open) {
        write_mark(trace, "closed");
    }
    if (trace->fd >= 0) {
        close(trace->fd);
    }
    simba__text_fini(&trace->text);
}

static void forked(simba_backend *self)
{
    struct trace *trace = (struct trace *)self;

    close(trace->fd);
    trace->fd = -1;
}

const struct simba__shim_kind simba__trace_kind = {"trace",
                                                   sizeof(struct trace),
                                                   open_file,
                                                   write_wake,
                                                   .closed = close_file,
                                                   .forked = forked,
                                                   .sent = write_sent,
                                                   .answered = write_answered};
