/* Figures of whole stores for Prometheus; see serve.h. Those of one process
 * and its own contenders are simba/metrics.h. */
#define _GNU_SOURCE
#include "cli/admin.h"
#include "serve/serve.h"

#include <microhttpd.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Each mutex is a series, or a dozen; a name that is new each time would make
 * them without end. Those beyond are counted together, under the name "". */
enum { MUTEXES_MOST = 1000 };

struct mutex_figures {
    const struct simba__row *row; /* NULL: all others */
    size_t store;
    uint64_t owned, waiting, tenures, breaks, gaps;
    uint64_t hand_overs[SIMBA__HAND_OVER_BUCKETS], hand_over_sum_ms;
};

/* Prometheus takes nothing of a reply that is not valid UTF-8. */
static void put_label(struct simba__text *out, const char *text)
{
    while (*text != '\0') {
        size_t length = simba__text_sequence(text, 4);

        if (length == 0) {
            simba__text_put(out, "\xef\xbf\xbd"); /* as in JSON */
            length = 1;
        } else if (*text == '\n') {
            simba__text_put(out, "\\n");
        } else {
            simba__text_put(out, *text == '"' || *text == '\\' ? "\\" : "");
            simba__text_add(out, text, length);
        }
        text += length;
    }
}

static void put_head(struct simba__text *out,
                     const char *name,
                     const char *type,
                     const char *help)
{
    simba__text_printf(out, "# HELP simba_%s %s\n# TYPE simba_%s %s\n", name,
                       help, name, type);
}

static void put_store(struct simba__text *out,
                      const char *name,
                      const struct simba__source *source)
{
    simba__text_printf(out, "simba_%s{store=\"", name);
    put_label(out, source->shown);
    simba__text_put(out, "\"");
}

static void put_mutex(struct simba__text *out,
                      const struct simba__board *board,
                      const char *name,
                      const struct mutex_figures *figures)
{
    put_store(out, name, &board->sources[figures->store]);
    simba__text_put(out, ",mutex=\"");
    put_label(out, figures->row == NULL ? "" : figures->row->link.key);
    simba__text_put(out, "\"");
}

/* --- of mutexes ---------------------------------------------------------- */

static void add(struct mutex_figures *to, const struct simba__row *row)
{
    to->owned += row->owned;
    to->waiting += row->waiting > 0 ? (uint64_t)row->waiting : 0;
    to->tenures += row->tenure_count;
    to->breaks += row->break_count;
    to->gaps += row->gap_count;
    to->hand_over_sum_ms += row->hand_over_sum_ms;
    for (size_t i = 0; i < SIMBA__HAND_OVER_BUCKETS; i++) {
        to->hand_overs[i] += row->hand_overs[i];
    }
}

static void put_counts(struct simba__text *out,
                       const struct simba__board *board,
                       const struct mutex_figures *all,
                       size_t count)
{
    static const struct {
        const char *name, *type, *help;
        size_t offset;
    } known[] = {{"mutex_owned", "gauge", "How many own it.",
                  offsetof(struct mutex_figures, owned)},
                 {"mutex_waiting", "gauge", "How many wait for it.",
                  offsetof(struct mutex_figures, waiting)},
                 {"mutex_tenures_total", "counter",
                  "Tenures that were seen to begin.",
                  offsetof(struct mutex_figures, tenures)},
                 {"mutex_breaks_total", "counter", "Tenures that were broken.",
                  offsetof(struct mutex_figures, breaks)},
                 {"mutex_gaps_total", "counter",
                  "Times owners may have come and gone unseen.",
                  offsetof(struct mutex_figures, gaps)}};

    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        put_head(out, known[k].name, known[k].type, known[k].help);
        for (size_t i = 0; i < count; i++) {
            uint64_t value;

            memcpy(&value, (const char *)&all[i] + known[k].offset,
                   sizeof value);
            put_mutex(out, board, known[k].name, &all[i]);
            simba__text_printf(out, "} %" PRIu64 "\n", value);
        }
    }
}

/* Seconds that an owner has been one, and is one still if it does not renew. */
static void put_times(struct simba__text *out,
                      const struct simba__board *board,
                      const struct mutex_figures *all,
                      size_t count)
{
    static const char *const names[] = {"mutex_age_seconds",
                                        "mutex_lease_left_seconds"};
    static const char *const helps[] = {
        "How long its owner has had it.",
        "How long its lease runs if it is not renewed."};

    for (size_t k = 0; k < 2; k++) {
        put_head(out, names[k], "gauge", helps[k]);
        for (size_t i = 0; i < count; i++) {
            const struct simba__row *row = all[i].row;
            struct simba__view view;
            int64_t ms;

            if (row == NULL || row->owner.id[0] == '\0') {
                continue;
            }
            view = simba__view_of(row->link.key, &row->owner, row->waiting,
                                  simba__unix_ms() - row->source->skew_ms);
            ms = k == 0 ? view.age_ms : view.lease_left_ms;
            if (ms != SIMBA__UNKNOWN) {
                put_mutex(out, board, names[k], &all[i]);
                simba__text_printf(out, "} %.3f\n", (double)ms / 1000);
            }
        }
    }
}

static void put_hand_overs(struct simba__text *out,
                           const struct simba__board *board,
                           const struct mutex_figures *all,
                           size_t count)
{
    static const char name[] = "mutex_hand_over_seconds";

    put_head(out, name, "histogram",
             "From the end of a tenure to the next, while somebody waited.");
    for (size_t i = 0; i < count; i++) {
        uint64_t sum = 0;

        for (size_t k = 0; k < SIMBA__HAND_OVER_BUCKETS; k++) {
            sum += all[i].hand_overs[k];
        }
        if (sum == 0) {
            continue;
        }
        sum = 0;
        for (size_t k = 0; k < SIMBA__HAND_OVER_BUCKETS; k++) {
            sum += all[i].hand_overs[k];
            put_mutex(out, board, "mutex_hand_over_seconds_bucket", &all[i]);
            if (k + 1 < SIMBA__HAND_OVER_BUCKETS) {
                simba__text_printf(out, ",le=\"%g\"} %" PRIu64 "\n",
                                   (double)simba__hand_over_bounds_ms[k] / 1000,
                                   sum);
            } else {
                simba__text_printf(out, ",le=\"+Inf\"} %" PRIu64 "\n", sum);
            }
        }
        put_mutex(out, board, "mutex_hand_over_seconds_sum", &all[i]);
        simba__text_printf(out, "} %.3f\n",
                           (double)all[i].hand_over_sum_ms / 1000);
        put_mutex(out, board, "mutex_hand_over_seconds_count", &all[i]);
        simba__text_printf(out, "} %" PRIu64 "\n", sum);
    }
}

/* Those of the lowest names, so that they stay the same. */
static int by_name(const void *a, const void *b)
{
    const struct simba__row *const *one = a, *const *other = b;

    return strcmp((*one)->link.key, (*other)->link.key);
}

static void put_mutexes(struct simba__text *out,
                        const struct simba__board *board)
{
    const struct simba__row **rows =
        calloc(board->rows + 1, sizeof(struct simba__row *));
    struct mutex_figures *all =
        calloc(board->count * (MUTEXES_MOST + 1), sizeof *all);
    size_t count = 0;

    for (size_t s = 0; rows != NULL && all != NULL && s < board->count; s++) {
        const struct simba__hash *table = &board->sources[s].rows;
        struct simba__hash_link *link = simba__hash_next(table, NULL);
        size_t found = 0;

        for (; link != NULL; link = simba__hash_next(table, link)) {
            rows[found++] = (const struct simba__row *)link;
        }
        qsort(rows, found, sizeof(struct simba__row *), by_name);
        for (size_t i = 0; i < found; i++) {
            struct mutex_figures *to = &all[count];

            to->store = s;
            to->row = i < MUTEXES_MOST ? rows[i] : NULL;
            add(to, rows[i]);
            count += i < MUTEXES_MOST || i + 1 == found;
        }
    }
    if (rows != NULL && all != NULL) {
        put_counts(out, board, all, count);
        put_times(out, board, all, count);
        put_hand_overs(out, board, all, count);
    }
    free(rows);
    free(all);
}

/* --- of stores and of ourselves ------------------------------------------ */

static int64_t count_findings(const struct simba__source *source,
                              enum simba_gravity gravity)
{
    const simba_finding *finding;
    int64_t count = 0;

    for (size_t i = 0;
         (finding = simba_report_finding(source->doctor, i)) != NULL; i++) {
        count += finding->gravity == gravity;
    }
    return count;
}

static void put_stores(struct simba__text *out,
                       const struct simba__board *board)
{
    static const char *const helps[][3] = {
        {"up", "gauge", "Has the store answered when it was asked last?"},
        {"store_mutexes", "gauge", "Mutexes that are known."},
        {"store_answered_timestamp_seconds", "gauge",
         "When the store answered last."},
        {"store_list_seconds", "gauge", "How long its last answer took."},
        {"store_failures_total", "counter", "Times it did not answer."}};

    for (size_t k = 0; k < sizeof helps / sizeof helps[0]; k++) {
        put_head(out, helps[k][0], helps[k][1], helps[k][2]);
        for (size_t i = 0; i < board->count; i++) {
            const struct simba__source *source = &board->sources[i];
            const double values[] = {
                source->is_up ? 1 : 0, (double)source->rows.count,
                (double)source->listed_unix_ms / 1000,
                (double)source->list_ms / 1000, (double)source->failure_count};

            put_store(out, helps[k][0], source);
            simba__text_printf(out, "} %.3f\n", values[k]);
        }
    }
    put_head(out, "store_findings", "gauge", "What the doctor finds.");
    for (size_t i = 0; i < board->count; i++) {
        for (int g = SIMBA_FINDING_OK;
             board->sources[i].doctor != NULL && g <= SIMBA_FINDING_SERIOUS;
             g++) {
            put_store(out, "store_findings", &board->sources[i]);
            simba__text_printf(
                out, ",gravity=\"%s\"} %" PRId64 "\n",
                simba__admin_gravity((enum simba_gravity)g),
                count_findings(&board->sources[i], (enum simba_gravity)g));
        }
    }
}

void simba__figures(struct simba__ask *ask)
{
    struct simba__text *out = &ask->reply;

    ask->status = MHD_HTTP_OK;
    ask->type = "text/plain; version=0.0.4; charset=utf-8";
    (void)pthread_mutex_lock(&ask->board->lock);
    put_stores(out, ask->board);
    put_mutexes(out, ask->board);
    (void)pthread_mutex_unlock(&ask->board->lock);
    put_head(out, "serve_pages", "gauge", "Pages that are open.");
    simba__text_printf(out, "simba_serve_pages %zu\n", simba__stream_count());
    put_head(out, "serve_connections", "gauge", "Connections that are open.");
    simba__text_printf(out, "simba_serve_connections %zu\n",
                       simba__http_count());
}
