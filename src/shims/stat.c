/* The stat shim: `stat::INNER-URL` counts and times what goes by. */
#include "shims/shim.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Times are counted in buckets, sixteen for each power of two. */
enum {
    KINDS = SIMBA_BREAKS + 1, /* 0 is for wake-ups */
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
};

/* --- figures ------------------------------------------------------------- */

/* The first time that is not in this bucket any more. */
static int64_t end_of(size_t bucket)
{
    unsigned shift =
        bucket < (size_t)2 * FINE ? 0 : (unsigned)(bucket / FINE) - 1;

    assert(bucket < BUCKETS);
    return ((int64_t)bucket - (int64_t)shift * FINE + 1) << shift;
}

static int64_t percentile(const struct figures *figures, unsigned percent)
{
    const simba_stat *stat = &figures->stat;
    uint64_t all = stat->answered + stat->unknown + stat->failed;
    uint64_t seen = 0;

    assert(percent <= 100);
    for (size_t i = 0; i < BUCKETS; i++) {
        seen += figures->buckets[i];
        if (seen > 0 && seen * 100 >= all * percent) {
            return end_of(i) - 1 < stat->most_us ? end_of(i) - 1
                                                 : stat->most_us;
        }
    }
    return 0;
}

static const char *name_of(size_t kind)
{
    return kind == 0 ? "wake_up"
                     : simba__shim_request_name((enum simba_request_kind)kind);
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

static struct figures *figures_of(const struct simba__shim_request *passing)
{
    struct stat_shim *stat = (struct stat_shim *)passing->shim;

    assert((size_t)passing->request->kind < KINDS);
    return &stat->kinds[passing->request->kind];
}

static void count_sent(const struct simba__shim_request *passing)
{
    figures_of(passing)->stat.started++;
}

static void count_answered(const struct simba__shim_request *passing,
                           const simba_reply *reply,
                           int status)
{
    struct figures *figures = figures_of(passing);
    simba_stat *stat = &figures->stat;
    bool is_first = stat->answered + stat->unknown + stat->failed == 0;
    int64_t us = simba__shim_now_us() - passing->begun_us;
    unsigned shift = 0;
    size_t bucket;

    stat->answered += status == SIMBA_OK;
    stat->mine += status == SIMBA_OK && reply->mine;
    stat->unknown += status == SIMBA_EUNKNOWN;
    stat->failed += status != SIMBA_OK && status != SIMBA_EUNKNOWN;
    stat->total_us += us;
    stat->least_us = is_first || us < stat->least_us ? us : stat->least_us;
    stat->most_us = us > stat->most_us ? us : stat->most_us;
    while (us >> shift >= (int64_t)2 * FINE) {
        shift++;
    }
    bucket = (size_t)shift * FINE + (size_t)(us >> shift);
    figures->buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
}

static void count_wake(struct simba__wake_filter *filter, const char *mutex)
{
    struct simba__shim *shim = container_of(filter, struct simba__shim, filter);

    ((struct stat_shim *)shim)->kinds[0].stat.started++;
    simba__wake_pass(shim->base.loop, filter, mutex);
}

/* --- life ---------------------------------------------------------------- */

static void tell_figures(struct simba__shim *shim, bool was_open)
{
    const struct stat_shim *stat = (const struct stat_shim *)shim;

    for (size_t i = 0; was_open && i < KINDS; i++) {
        const struct figures *figures = &stat->kinds[i];
        const simba_stat *s = &figures->stat;
        char line[256];

        if (s->started == 0) {
            continue;
        }
        snprintf(line, sizeof line,
                 "%s: %" PRIu64 " started, %" PRIu64 " answered (%" PRIu64
                 " mine), %" PRIu64 " unknown, %" PRIu64
                 " failed; us: p50 %lld, p99 %lld, most %lld",
                 name_of(i), s->started, s->answered, s->mine, s->unknown,
                 s->failed, (long long)percentile(figures, 50),
                 (long long)percentile(figures, 99), (long long)s->most_us);
        shim->log(shim->log_user, SIMBA_LOG_INFO, "stat", line);
    }
}

static int take_no_options(struct simba__shim *shim,
                           char *options,
                           simba_error *error)
{
    (void)shim;
    return options[0] == '\0'
               ? SIMBA_OK
               : simba_error_set(error, SIMBA_EINVAL, 0,
                                 "stat: it takes no options, as in stat::URL");
}

const struct simba__shim_kind simba__stat_kind = {"stat",
                                                  sizeof(struct stat_shim),
                                                  take_no_options,
                                                  count_wake,
                                                  .closed = tell_figures,
                                                  .sent = count_sent,
                                                  .answered = count_answered};
