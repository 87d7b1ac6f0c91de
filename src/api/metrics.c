/* Snapshots of what was counted, and how Prometheus reads them: version 0.0.4
 * of its text format. */
#define _GNU_SOURCE
#include <simba/metrics.h>
#include <simba/owner.h>

#include "api/store.h"
#include "util/file.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct mutex_metrics {
    simba_counts counts;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

struct simba_metrics {
    char *store_name; /* its URL without secrets */
    simba_store_counts store;
    size_t count;
    struct mutex_metrics *mutexes; /* sorted by name */
};

void simba_metrics_free(simba_metrics *metrics)
{
    if (metrics != NULL) {
        free(metrics->mutexes);
        free(metrics->store_name);
        free(metrics);
    }
}

/* --- inside the loop ----------------------------------------------------- */

static void copy_mutex(simba_metrics *metrics,
                       const char *name,
                       const simba_counts *counts)
{
    struct mutex_metrics *to = &metrics->mutexes[metrics->count++];

    assert(strlen(name) < sizeof to->mutex);
    memcpy(to->mutex, name, strlen(name) + 1);
    to->counts = *counts;
}

static bool copy_all(simba_metrics *metrics, struct simba__loop_metrics *from)
{
    metrics->mutexes =
        calloc(from->mutexes.count + 1, sizeof *metrics->mutexes);
    if (metrics->mutexes == NULL) {
        return false;
    }
    for (const struct simba__hash_link *l =
             simba__hash_next(&from->mutexes, NULL);
         l != NULL; l = simba__hash_next(&from->mutexes, l)) {
        copy_mutex(metrics, l->key,
                   &((const struct simba__mutex_counts *)l)->counts);
    }
    if (from->has_others) {
        copy_mutex(metrics, "", &from->others);
    }
    metrics->store.reconnects = atomic_load(&from->reconnects);
    metrics->store.callback_waits = atomic_load(&from->callback_waits);
    metrics->store.requests = from->requests;
    metrics->store.spins = atomic_load(&from->spins);
    metrics->store.spins_in_vain = atomic_load(&from->spins_in_vain);
    metrics->store.spin_us = atomic_load(&from->spin_ns) / 1000;
    metrics->store.contenders = from->contenders;
    metrics->store.owned = from->owned;
    return true;
}

/* --- reading ------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct mutex_metrics *)a)->mutex,
                  ((const struct mutex_metrics *)b)->mutex);
}

int simba_metrics_read(simba_store *store,
                       simba_metrics **out,
                       simba_error *error)
{
    int rc = simba__store_check(store, error);
    simba_metrics *metrics;
    bool is_copied = false;

    *out = NULL;
    if (rc != SIMBA_OK) {
        return rc;
    }
    metrics = calloc(1, sizeof *metrics);
    if (metrics != NULL) {
        metrics->store_name = strdup(store->name);
    }
    if (metrics != NULL && metrics->store_name != NULL) {
        simba_loop_enter(store->loop);
        is_copied = copy_all(metrics, &store->loop->metrics);
        simba_loop_leave(store->loop);
    }
    if (!is_copied) {
        simba_metrics_free(metrics);
        return simba__fail_memory(error);
    }
    qsort(metrics->mutexes, metrics->count, sizeof *metrics->mutexes, by_name);
    *out = metrics;
    return SIMBA_OK;
}

const simba_store_counts *simba_metrics_store(const simba_metrics *metrics)
{
    return &metrics->store;
}

size_t simba_metrics_count(const simba_metrics *metrics)
{
    return metrics->count;
}

const char *simba_metrics_mutex(const simba_metrics *metrics, size_t index)
{
    return index < metrics->count ? metrics->mutexes[index].mutex : "";
}

static const simba_counts nothing;

const simba_counts *simba_metrics_counts(const simba_metrics *metrics,
                                         size_t index)
{
    return index < metrics->count ? &metrics->mutexes[index].counts : &nothing;
}

const simba_counts *simba_metrics_of(const simba_metrics *metrics,
                                     const char *mutex)
{
    for (size_t i = 0; i < metrics->count; i++) {
        if (strcmp(metrics->mutexes[i].mutex, mutex) == 0) {
            return &metrics->mutexes[i].counts;
        }
    }
    return &nothing;
}

/* --- what Prometheus is told --------------------------------------------- */

struct counter {
    const char *name, *label, *help; /* label: further ones, or "" */
    size_t offset;                   /* in simba_counts */
};

#define COUNT(member) offsetof(simba_counts, member)

/* Those of one name stand together. */
static const struct counter counters[] = {
    {"acquires_total", "", "Tenures that began.", COUNT(acquires)},
    {"hand_overs_total", "", "Tenures that began after somebody else's.",
     COUNT(hand_overs)},
    {"backstop_grants_total", "",
     "Tenures that began by asking again, without a wake-up.",
     COUNT(backstops)},
    {"abandoned_waits_total", "", "Waits that ended without the mutex.",
     COUNT(abandoned)},
    {"releases_total", "", "Tenures that ended because we wanted.",
     COUNT(releases)},
    {"losses_total", ",cause=\"expired\"",
     "Tenures that ended against our will.", COUNT(lost_expired)},
    {"losses_total", ",cause=\"taken\"", NULL, COUNT(lost_taken)},
    {"losses_total", ",cause=\"broken\"", NULL, COUNT(lost_broken)},
    {"losses_total", ",cause=\"max_hold\"", NULL, COUNT(lost_max_hold)},
    {"losses_total", ",cause=\"stalled\"", NULL, COUNT(lost_stalled)},
    {"renewals_total", "", "Renewals that were granted.", COUNT(renewals)},
    {"renewal_failures_total", "", "Renewals that failed or were not answered.",
     COUNT(renewal_failures)},
    {"callback_overruns_total", "",
     "Times on_released took longer than its budget.", COUNT(overruns)},
    {"unanswered_releases_total", "", "Releases that the store never answered.",
     COUNT(unreleased)},
    {"clock_jumps_total", "", "Steps of the store's clock.",
     COUNT(clock_jumps)},
};

static const struct counter histograms[] = {
    {"wait_seconds", "", "From the first request to the grant.", COUNT(wait)},
    {"hold_seconds", "", "From the grant to the end of the tenure.",
     COUNT(hold)},
    {"renewal_margin_seconds", "",
     "What was left of the ownership when a renewal was granted.",
     COUNT(renewal_margin)},
};

static const struct {
    const char *name, *type, *help;
    size_t offset; /* in simba_store_counts */
} of_store[] = {
    {"reconnects_total", "counter", "Connections that were made anew.",
     offsetof(simba_store_counts, reconnects)},
    {"requests_total", "counter", "Requests the store was asked for.",
     offsetof(simba_store_counts, requests)},
    {"callback_waits_total", "counter",
     "Times callbacks waited because all callback threads were busy.",
     offsetof(simba_store_counts, callback_waits)},
    {"spins_total", "counter", "Times one looked for a reply before sleeping.",
     offsetof(simba_store_counts, spins)},
    {"spins_in_vain_total", "counter",
     "Times one looked for a reply and slept in the end.",
     offsetof(simba_store_counts, spins_in_vain)},
    {"spin_seconds_total", "counter", "CPU time of looking for replies.",
     offsetof(simba_store_counts, spin_us)},
    {"contenders", "gauge", "Contenders that are open.",
     offsetof(simba_store_counts, contenders)},
    {"owned_mutexes", "gauge", "Mutexes that are owned.",
     offsetof(simba_store_counts, owned)},
};

/* --- printing ------------------------------------------------------------ */

static void print_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            (void)fputs("\\n", out);
            continue;
        }
        if (*text == '"' || *text == '\\') {
            (void)fputc('\\', out);
        }
        (void)fputc(*text, out);
    }
}

static void print_head(FILE *out,
                       const char *name,
                       const char *type,
                       const char *help)
{
    (void)fprintf(out, "# HELP simba_%s %s\n# TYPE simba_%s %s\n", name, help,
                  name, type);
}

static void print_labels(FILE *out, const simba_metrics *metrics, size_t index)
{
    assert(index < metrics->count);
    (void)fputs("{store=\"", out);
    print_escaped(out, metrics->store_name);
    (void)fputs("\",mutex=\"", out);
    print_escaped(out, metrics->mutexes[index].mutex);
    (void)fputc('"', out);
}

static const void *member(const simba_metrics *metrics,
                          size_t index,
                          size_t offset)
{
    return (const char *)&metrics->mutexes[index].counts + offset;
}

/* Not by %f: its decimal point is the locale's. */
static void print_seconds(FILE *out, uint64_t us)
{
    (void)fprintf(out, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
}

static void print_histogram(FILE *out,
                            const simba_metrics *metrics,
                            size_t index,
                            const struct counter *which)
{
    const simba_histogram *h = member(metrics, index, which->offset);
    uint64_t sum = 0;

    for (size_t i = 0; i < SIMBA_HISTOGRAM_BUCKETS; i++) {
        sum += h->buckets[i];
        (void)fprintf(out, "simba_%s_bucket", which->name);
        print_labels(out, metrics, index);
        (void)fputs(",le=\"", out);
        if (i == SIMBA_HISTOGRAM_BUCKETS - 1) {
            (void)fputs("+Inf", out);
        } else {
            print_seconds(out, simba_histogram_bound_us(i));
        }
        (void)fprintf(out, "\"} %" PRIu64 "\n", sum);
    }
    (void)fprintf(out, "simba_%s_sum", which->name);
    print_labels(out, metrics, index);
    (void)fputs("} ", out);
    print_seconds(out, h->sum_us);
    (void)fprintf(out, "\nsimba_%s_count", which->name);
    print_labels(out, metrics, index);
    (void)fprintf(out, "} %" PRIu64 "\n", h->count);
}

/* Each tenure ends once, in one of these ways. */
static void print_leads(FILE *out, const simba_metrics *metrics)
{
    print_head(out, "leads", "gauge", "Does this process own the mutex?");
    for (size_t i = 0; i < metrics->count; i++) {
        const simba_counts *c = &metrics->mutexes[i].counts;

        (void)fputs("simba_leads", out);
        print_labels(out, metrics, i);
        (void)fprintf(out, "} %" PRIu64 "\n",
                      c->acquires - c->releases - c->lost_expired -
                          c->lost_taken - c->lost_broken - c->lost_max_hold -
                          c->lost_stalled);
    }
}

int simba_metrics_print(const simba_metrics *metrics, FILE *out)
{
    print_leads(out, metrics);
    for (size_t k = 0; k < sizeof counters / sizeof counters[0]; k++) {
        const struct counter *c = &counters[k];

        if (c->help != NULL) {
            print_head(out, c->name, "counter", c->help);
        }
        for (size_t i = 0; i < metrics->count; i++) {
            const uint64_t *value = member(metrics, i, c->offset);

            (void)fprintf(out, "simba_%s", c->name);
            print_labels(out, metrics, i);
            (void)fprintf(out, "%s} %" PRIu64 "\n", c->label, *value);
        }
    }
    for (size_t k = 0; k < sizeof histograms / sizeof histograms[0]; k++) {
        print_head(out, histograms[k].name, "histogram", histograms[k].help);
        for (size_t i = 0; i < metrics->count; i++) {
            print_histogram(out, metrics, i, &histograms[k]);
        }
    }
    for (size_t k = 0; k < sizeof of_store / sizeof of_store[0]; k++) {
        const size_t offset = of_store[k].offset;
        uint64_t value = *(const uint64_t *)((
            const void *)((const char *)&metrics->store + offset));

        print_head(out, of_store[k].name, of_store[k].type, of_store[k].help);
        (void)fprintf(out, "simba_%s{store=\"", of_store[k].name);
        print_escaped(out, metrics->store_name);
        if (offset == offsetof(simba_store_counts, spin_us)) {
            (void)fprintf(out, "\"} %" PRIu64 ".%06" PRIu64 "\n",
                          value / 1000000, value % 1000000);
        } else {
            (void)fprintf(out, "\"} %" PRIu64 "\n", value);
        }
    }
    return fflush(out) == 0 && ferror(out) == 0 ? SIMBA_OK : SIMBA_EIO;
}

/* --- saving -------------------------------------------------------------- */

int simba_metrics_save(simba_store *store, const char *path, simba_error *error)
{
    simba_metrics *metrics;
    char *temporary;
    FILE *out;
    int cause, rc = simba_metrics_read(store, &metrics, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    assert(metrics != NULL);
    cause = simba__file_begin(path, &temporary, &out);
    if (cause == 0) {
        (void)simba_metrics_print(metrics, out);
    }
    cause = simba__file_end(path, temporary, out, cause);
    simba_metrics_free(metrics);
    switch (cause) {
    case 0:
        return SIMBA_OK;
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOTSUP: /* no regular file */
        rc = SIMBA_EDENIED;
        break;
    case ENOMEM:
        rc = SIMBA_ENOMEM;
        break;
    default:
        rc = SIMBA_EIO;
    }
    return simba_error_set(error, rc, cause, "%s: %s", path,
                           simba__file_problem(cause));
}
