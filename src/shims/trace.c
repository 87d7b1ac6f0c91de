/* The trace shim: `trace:/path/file.jsonl:INNER-URL` writes a line of JSON for
 * every operation sent, every answer and every wake-up. Lines are appended,
 * each by one call, so several processes may share a file; docs/testing.md
 * lists the members, and `simba verify` reads them. */
#define _GNU_SOURCE
#include "shims/line.h"
#include "shims/shim.h"
#include "shims/shims.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { BOOT_LENGTH = 36 };

struct trace {
    struct simba__shim shim;
    int fd;
    uint64_t count;  /* operations so far */
    char handle[17]; /* which handle of which process */
    char boot[BOOT_LENGTH + 1];
    bool is_failing; /* the log was told */
    simba_log_fn log;
    void *log_user;
    struct simba__line line; /* inside the loop */
};

struct passage {
    struct simba__caller caller;
    struct trace *trace;
    simba_request *request;
    uint64_t number;
};

/* --- lines --------------------------------------------------------------- */

static void begin_line(struct trace *trace, const char *what, int64_t us)
{
    struct simba__line *line = &trace->line;

    simba__line_begin(line);
    simba__line_text(line, "trace", what);
    simba__line_number(line, "us", us);
    simba__line_text(line, "boot", trace->boot);
    simba__line_number(line, "pid", getpid());
    simba__line_text(line, "handle", trace->handle);
}

/* A full disk must not stop the contention. */
static void write_line(struct trace *trace)
{
    ssize_t written;

    simba__line_end(&trace->line);
    written = write(trace->fd, trace->line.text, trace->line.length);
    if (written != (ssize_t)trace->line.length && !trace->is_failing) {
        trace->is_failing = true;
        trace->log(trace->log_user, SIMBA_LOG_ERROR, "trace",
                   "the trace has gaps: it cannot be written");
    }
}

static void put_attempt(struct simba__line *line, const simba_attempt *attempt)
{
    char text[33];

    if (attempt->high != 0 || attempt->low != 0) {
        snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, attempt->high,
                 attempt->low);
        simba__line_text(line, "attempt", text);
    }
}

static void put_op(struct simba__line *line,
                   const simba_request *request,
                   uint64_t n)
{
    simba__line_unsigned(line, "n", n);
    simba__line_text(line, "op", simba__shim_request_name(request->kind));
    if (request->mutex[0] != '\0') {
        simba__line_text(line, "mutex", request->mutex);
    }
    if (request->id[0] != '\0') {
        simba__line_text(line, "id", request->id);
    }
    put_attempt(line, &request->attempt);
}

static void put_if(struct simba__line *line, const char *key, int64_t n)
{
    if (n != 0) {
        simba__line_number(line, key, n);
    }
}

static void put_flag(struct simba__line *line, const char *key, bool is_so)
{
    if (is_so) {
        simba__line_true(line, key);
    }
}

static void write_sent(struct trace *trace, const struct passage *passage)
{
    const simba_request *request = passage->request;
    struct simba__line *line = &trace->line;

    begin_line(trace, "sent", simba__shim_now_us());
    put_op(line, request, passage->number);
    if (request->token != 0) {
        simba__line_unsigned(line, "token", request->token);
    }
    if (request->position != 0) {
        simba__line_unsigned(line, "place", request->position);
    }
    put_if(line, "ttl_ms", request->ttl_ms);
    put_if(line, "transition_ms", request->transition_ms);
    put_if(line, "waiter_ms", request->waiter_ms);
    put_if(line, "tombstone_ms", request->tombstone_ms);
    put_if(line, "deadline_ms", request->deadline_ms);
    put_flag(line, "join", request->join);
    put_flag(line, "now", request->now);
    write_line(trace);
}

static void put_reply(struct simba__line *line, const simba_reply *reply)
{
    put_flag(line, "mine", reply->mine);
    if (reply->token != 0) {
        simba__line_unsigned(line, "token", reply->token);
    }
    put_flag(line, "in_line", reply->is_queued);
    put_flag(line, "head", reply->is_head);
    if (reply->position != 0) {
        simba__line_unsigned(line, "place", reply->position);
    }
    put_if(line, "wait_ms", reply->wait_ms);
    put_if(line, "store_ms", reply->store_ms);
    put_if(line, "lease_ms", reply->lease_ms);
    if (reply->owner.id[0] != '\0') {
        simba__line_text(line, "owner", reply->owner.id);
        simba__line_unsigned(line, "owner_token", reply->owner.token);
    }
}

static void write_answered(struct trace *trace,
                           const struct passage *passage,
                           const struct simba__box *copy,
                           int status)
{
    begin_line(trace, "answered", simba__shim_now_us());
    put_op(&trace->line, passage->request, passage->number);
    simba__line_text(&trace->line, "status", simba_status_name(status));
    if (status == SIMBA_OK) {
        put_reply(&trace->line, &copy->request.reply);
    }
    write_line(trace);
}

static void write_mark(struct trace *trace, const char *what)
{
    begin_line(trace, what, simba__shim_now_us());
    write_line(trace);
}

/* --- passing by ---------------------------------------------------------- */

static void on_done(struct simba__caller *caller,
                    const struct simba__box *copy,
                    int status,
                    const simba_error *error)
{
    struct passage *passage = (struct passage *)caller;
    simba_request *request = passage->request;

    write_answered(passage->trace, passage, copy, status);
    free(passage);
    simba__shim_answer(request, copy, status, error);
}

static void submit(simba_backend *self, simba_request *request)
{
    struct trace *trace = (struct trace *)self;
    struct passage *passage = calloc(1, sizeof *passage);
    struct simba__box *copy =
        passage == NULL ? NULL : simba__shim_copy(request);

    if (copy == NULL) {
        free(passage);
        simba__shim_no_memory(request);
        return;
    }
    passage->caller.done = on_done;
    passage->trace = trace;
    passage->request = request;
    passage->number = ++trace->count;
    write_sent(trace, passage);
    simba__box_send(copy, &passage->caller, trace->shim.inner);
}

static void write_wake(struct simba__wake_filter *filter, const char *mutex)
{
    struct simba__shim *shim =
        (struct simba__shim *)((char *)filter -
                               offsetof(struct simba__shim, filter));
    struct trace *trace = (struct trace *)shim;

    begin_line(trace, "hint", simba__shim_now_us());
    if (mutex != NULL) {
        simba__line_text(&trace->line, "mutex", mutex);
    }
    write_line(trace);
    simba__wake_pass(shim->base.loop, filter, mutex);
}

/* --- life ---------------------------------------------------------------- */

static void read_boot(struct trace *trace)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, trace->boot, BOOT_LENGTH);

    trace->boot[length == BOOT_LENGTH ? BOOT_LENGTH : 0] = '\0';
    if (fd >= 0) {
        close(fd);
    }
}

static bool name_handle(struct trace *trace)
{
    uint64_t number;

    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        return false;
    }
    snprintf(trace->handle, sizeof trace->handle, "%016" PRIx64, number);
    return true;
}

static int open_file(struct trace *trace, const char *path, simba_error *error)
{
    if (path[0] == '\0') {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "trace: which file? As in trace:/path:URL");
    }
    trace->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (trace->fd < 0 || !name_handle(trace)) {
        return simba_error_set(
            error, errno == EACCES ? SIMBA_EDENIED : SIMBA_EMISCONFIG, errno,
            "trace: %.128s: %s", path, strerrordesc_np(errno));
    }
    read_boot(trace);
    return SIMBA_OK;
}

static void free_trace(struct trace *trace)
{
    if (trace->fd >= 0) {
        close(trace->fd);
    }
    free(trace);
}

static void close_trace(simba_backend *self)
{
    struct trace *trace = (struct trace *)self;

    simba__shim_close(&trace->shim);
    write_mark(trace, "closed");
    free_trace(trace);
}

static void forked(simba_backend *self)
{
    struct trace *trace = (struct trace *)self;

    close(trace->fd);
    trace->fd = -1;
}

static const struct simba__shim_kind kind = {.ops = &simba__trace_ops,
                                             .wake = write_wake,
                                             .forked = forked};

static int open_trace(const simba_backend_config *config,
                      simba_backend **backend,
                      simba_error *error)
{
    struct trace *trace = calloc(1, sizeof *trace);
    const simba_backend_ops *ops;
    const char *inner_url, *rest;
    char *path = NULL;
    int rc;

    *backend = NULL;
    if (trace == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    trace->fd = -1;
    trace->log = config->log;
    trace->log_user = config->log_user;
    rc = simba__shim_split(config->rest, &path, &inner_url, error);
    if (rc == SIMBA_OK) { /* who forgot the path shall not get a file */
        rc = config->find(inner_url, &ops, &rest, error);
    }
    if (rc == SIMBA_OK) {
        rc = open_file(trace, path, error);
    }
    free(path);
    if (rc == SIMBA_OK) {
        write_mark(trace, "opened");
        rc = simba__shim_open(&trace->shim, &kind, config, error);
    }
    if (rc != SIMBA_OK) {
        free_trace(trace);
        return rc;
    }
    *backend = &trace->shim.base;
    return SIMBA_OK;
}

const simba_backend_ops simba__trace_ops = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "trace",
    .open = open_trace,
    .submit = submit,
    .close = close_trace,
    .schema = simba__shim_schema,
};
