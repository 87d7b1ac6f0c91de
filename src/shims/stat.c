/* The stat shim: `stat::INNER-URL` counts and times what goes by. */
#include "shims/stat.h"

#include "shims/shim.h"
#include "shims/shims.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Times are counted in buckets, sixteen for each power of two. */
enum {
    KINDS = SIMBA_INIT + 1, /* 0 is for wake-ups */
    FINE_BITS = 4,
    FINE = 1 << FINE_BITS,
    BUCKETS = (40 - FINE_BITS) * FINE
};

struct figures {
    simba_stat stat;
    uint64_t buckets[BUCKETS];
};

struct stat_shim {
    struct simba__shim shim;
    struct figures kinds[KINDS];
    simba_log_fn log;
    void *log_user;
};

struct passage {
    struct simba__caller caller;
    struct stat_shim *stat;
    simba_request *request;
    int64_t begun_us;
};

/* --- figures ------------------------------------------------------------- */

static size_t bucket_of(int64_t us)
{
    uint64_t value = us < 0 ? 0 : (uint64_t)us;
    unsigned shift = 0;
    size_t bucket;

    while (value >> shift >= UINT64_C(2) * FINE) {
        shift++;
    }
    bucket = (size_t)shift * FINE + (size_t)(value >> shift);
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* The first time that is not in this bucket any more. */
static int64_t end_of(size_t bucket)
{
    unsigned shift =
        bucket < (size_t)2 * FINE ? 0 : (unsigned)(bucket / FINE) - 1;

    return ((int64_t)bucket - (int64_t)shift * FINE + 1) << shift;
}

static int64_t percentile(const struct figures *figures, unsigned percent)
{
    const simba_stat *stat = &figures->stat;
    uint64_t all = stat->answered + stat->unknown + stat->failed;
    uint64_t seen = 0;

    for (size_t i = 0; i < BUCKETS; i++) {
        seen += figures->buckets[i];
        if (seen > 0 && seen * 100 >= all * percent) {
            return end_of(i) - 1 < stat->most_us ? end_of(i) - 1
                                                 : stat->most_us;
        }
    }
    return 0;
}

static void count_end(struct figures *figures,
                      const simba_reply *reply,
                      int status,
                      int64_t us)
{
    simba_stat *stat = &figures->stat;
    bool is_first = stat->answered + stat->unknown + stat->failed == 0;

    stat->answered += status == SIMBA_OK;
    stat->mine += status == SIMBA_OK && reply->mine;
    stat->unknown += status == SIMBA_EUNKNOWN;
    stat->failed += status != SIMBA_OK && status != SIMBA_EUNKNOWN;
    stat->total_us += us;
    stat->least_us = is_first || us < stat->least_us ? us : stat->least_us;
    stat->most_us = us > stat->most_us ? us : stat->most_us;
    figures->buckets[bucket_of(us)]++;
}

static const char *name_of(size_t kind)
{
    return kind == 0 ? "hint"
                     : simba__shim_request_name((enum simba_request_kind)kind);
}

simba_backend *simba__stat_find(simba_backend *backend)
{
    while (backend != NULL && backend->ops->scheme != simba__stat_ops.scheme) {
        backend = simba__shim_inner(backend);
    }
    return backend;
}

bool simba__stat_figures(simba_backend *shim,
                         const char *kind,
                         simba_stat *stat)
{
    const struct stat_shim *self = (const struct stat_shim *)shim;

    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(name_of(i), kind) == 0) {
            *stat = self->kinds[i].stat;
            stat->p50_us = percentile(&self->kinds[i], 50);
            stat->p99_us = percentile(&self->kinds[i], 99);
            return true;
        }
    }
    return false;
}

/* --- passing by ---------------------------------------------------------- */

static void on_done(struct simba__caller *caller,
                    const struct simba__box *copy,
                    int status,
                    const simba_error *error)
{
    struct passage *passage = (struct passage *)caller;
    simba_request *request = passage->request;

    count_end(&passage->stat->kinds[request->kind], &copy->request.reply,
              status, simba__shim_now_us() - passage->begun_us);
    free(passage);
    simba__shim_answer(request, copy, status, error);
}

static void submit(simba_backend *self, simba_request *request)
{
    struct stat_shim *stat = (struct stat_shim *)self;
    struct passage *passage = calloc(1, sizeof *passage);
    struct simba__box *copy =
        passage == NULL ? NULL : simba__shim_copy(request);

    stat->kinds[request->kind].stat.started++;
    if (copy == NULL) {
        free(passage);
        simba__shim_no_memory(request);
        return;
    }
    passage->caller.done = on_done;
    passage->stat = stat;
    passage->request = request;
    passage->begun_us = simba__shim_now_us();
    simba__box_send(copy, &passage->caller, stat->shim.inner);
}

static void count_wake(struct simba__wake_filter *filter, const char *mutex)
{
    struct simba__shim *shim =
        (struct simba__shim *)((char *)filter -
                               offsetof(struct simba__shim, filter));

    ((struct stat_shim *)shim)->kinds[0].stat.started++;
    simba__wake_pass(shim->base.loop, filter, mutex);
}

/* --- life ---------------------------------------------------------------- */

static void tell(const struct stat_shim *stat, size_t kind)
{
    const struct figures *figures = &stat->kinds[kind];
    const simba_stat *s = &figures->stat;
    char line[256];

    if (s->started == 0) {
        return;
    }
    snprintf(line, sizeof line,
             "%s: %" PRIu64 " started, %" PRIu64 " answered (%" PRIu64
             " mine), %" PRIu64 " unknown, %" PRIu64
             " failed; us: p50 %lld, p99 %lld, most %lld",
             name_of(kind), s->started, s->answered, s->mine, s->unknown,
             s->failed, (long long)percentile(figures, 50),
             (long long)percentile(figures, 99), (long long)s->most_us);
    stat->log(stat->log_user, SIMBA_LOG_INFO, "stat", line);
}

static void close_stat(simba_backend *self)
{
    struct stat_shim *stat = (struct stat_shim *)self;

    simba__shim_close(&stat->shim);
    for (size_t i = 0; i < KINDS; i++) {
        tell(stat, i);
    }
    free(stat);
}

static const struct simba__shim_kind kind = {.ops = &simba__stat_ops,
                                             .wake = count_wake};

static int open_stat(const simba_backend_config *config,
                     simba_backend **backend,
                     simba_error *error)
{
    struct stat_shim *stat = calloc(1, sizeof *stat);
    const char *inner_url;
    char *options = NULL;
    int rc;

    *backend = NULL;
    if (stat == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    stat->log = config->log;
    stat->log_user = config->log_user;
    rc = simba__shim_split(config->rest, &options, &inner_url, error);
    if (rc == SIMBA_OK && options[0] != '\0') {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "stat: it takes no options, as in stat::URL");
    }
    free(options);
    if (rc == SIMBA_OK) {
        rc = simba__shim_open(&stat->shim, &kind, config, error);
    }
    if (rc != SIMBA_OK) {
        free(stat);
        return rc;
    }
    *backend = &stat->shim.base;
    return SIMBA_OK;
}

const simba_backend_ops simba__stat_ops = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "stat",
    .open = open_stat,
    .submit = submit,
    .close = close_stat,
    .schema = simba__shim_schema,
};
