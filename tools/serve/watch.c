/* Asking stores, observing mutexes, and jobs; see serve.h. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "serve/serve.h"
#include "util/array.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    /* A list is asked for again so soon, and later where it takes long: it may
     * cost a tenth of the time. Where observers are told of changes, so long
     * for each mutex: a look at one costs a store some 30 us, and so a
     * thousandth of the time, which is little beside what they cost. */
    LOOK_LEAST_MS = 400,
    LOOK_PART = 10,
    LOOK_MOST_MS = 10000,
    LOOK_EACH_MS = 30,
    LOOK_EACH_MOST_MS = 30000,
    LOOK_DOWN_MS = 1000,
    /* An observer is told of changes; the list sees what nobody tells. */
    OBSERVER_POLL_MS = 10 * 60 * 1000,
    OBSERVED_MOST = 10000,
    /* What nobody owns or waits for is shown for so long. */
    FREE_KEPT_MS = 10 * 60 * 1000,
    /* How long after a change owners may tell about themselves; to ask all of
     * them costs a store as much as a list, and is done half as often. */
    TOLD_YOUNG_MS = 3000,
    TOLD_EVERY_MS = 10 * 1000,
    TOLD_PART = 200,
    TOLD_LISTS = 2,
    DOCTOR_EVERY_MS = 60 * 1000,
    DOCTOR_RETRY_MS = 5 * 1000,
    JOBS_MOST = 256
};

/* --- jobs ---------------------------------------------------------------- */

void simba__serve_wait(pthread_cond_t *told, pthread_mutex_t *lock, int64_t ms)
{
    struct timespec until;

    ms = ms < 1 ? 1 : ms;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms % 1000 * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_clockwait(told, lock, CLOCK_MONOTONIC, &until);
}

static void *work(void *argument)
{
    struct simba__worker *worker = argument;
    int64_t next_ms = worker->idle == NULL ? SIMBA__CLOCK_NEVER : 0;

    for (;;) {
        struct simba__job *job;
        bool is_due;

        (void)pthread_mutex_lock(&worker->lock);
        while (worker->first == NULL && simba__clock_ms() < next_ms) {
            if (next_ms == SIMBA__CLOCK_NEVER) {
                (void)pthread_cond_wait(&worker->told, &worker->lock);
            } else {
                simba__serve_wait(&worker->told, &worker->lock,
                                  next_ms - simba__clock_ms());
            }
        }
        job = worker->first;
        if (job != NULL) {
            worker->first = job->next;
            worker->count--;
        }
        is_due = worker->idle != NULL && simba__clock_ms() >= next_ms;
        (void)pthread_mutex_unlock(&worker->lock);
        if (job != NULL) {
            job->run(job);
        }
        if (is_due) {
            next_ms = worker->idle(worker->user);
        }
    }
    return NULL;
}

struct simba__worker *simba__worker_open(int64_t (*idle)(void *user),
                                         void *user)
{
    struct simba__worker *worker = calloc(1, sizeof *worker);

    if (worker == NULL) {
        return NULL;
    }
    (void)pthread_mutex_init(&worker->lock, NULL);
    (void)pthread_cond_init(&worker->told, NULL);
    worker->idle = idle;
    worker->user = user;
    if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
        free(worker);
        return NULL;
    }
    return worker;
}

bool simba__worker_post(struct simba__worker *worker, struct simba__job *job)
{
    bool is_taken;

    job->next = NULL;
    (void)pthread_mutex_lock(&worker->lock);
    is_taken = worker->count < JOBS_MOST;
    if (is_taken) {
        if (worker->first == NULL) {
            worker->first = job;
        } else {
            worker->last->next = job;
        }
        worker->last = job;
        worker->count++;
        (void)pthread_cond_signal(&worker->told);
    }
    (void)pthread_mutex_unlock(&worker->lock);
    return is_taken;
}

/* --- observing ----------------------------------------------------------- */

/* Changes come in order, but those of the list come between them: what is not
 * about the owner we know is over. A row has one owner, of several the oldest:
 * the list tells who that is. */
static void on_changed(void *user, const simba_state *state)
{
    struct simba__row *row = user;
    struct simba__board *board = row->source->board;
    bool is_over, is_of_several;

    (void)pthread_mutex_lock(&board->lock);
    if (state->has_gap) {
        row->gap_count++;
        row->has_gap = true;
    }
    is_over =
        state->after.id[0] == '\0' && state->before.token != row->owner.token;
    is_of_several = state->owned > (state->after.id[0] != '\0');
    if (state->before.id[0] != '\0' &&
        state->before.token != state->after.token) {
        simba__board_end(row, &state->before);
    }
    if (!is_over && !is_of_several) {
        simba__board_see(row, &state->after, simba__clock_ms());
    } else if (is_of_several && state->after.id[0] != '\0') {
        simba__board_begin(row, &state->after);
    }
    if (!is_over || is_of_several) {
        simba__board_count(row, state->owned);
    }
    (void)pthread_mutex_unlock(&board->lock);
}

static bool can_observe(const struct simba__source *source)
{
    return (simba_store_capabilities(source->store) & SIMBA_CAN_OBSERVE) != 0;
}

static void observe(struct simba__source *source, struct simba__row *row)
{
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;

    if (row->retrieval != NULL || source->observed >= OBSERVED_MOST ||
        !can_observe(source)) {
        return;
    }
    retriever.mutex = row->link.key;
    retriever.poll_ms = OBSERVER_POLL_MS;
    retriever.on_changed = on_changed;
    retriever.user = row;
    if (simba_retrieval_open(source->store, &retriever, &row->retrieval,
                             NULL) != SIMBA_OK) {
        row->retrieval = NULL;
    } else if (simba_retrieval_start(row->retrieval, NULL) != SIMBA_OK) {
        simba_retrieval_close(row->retrieval);
        row->retrieval = NULL;
    } else {
        source->observed++;
    }
}

/* --- looking ------------------------------------------------------------- */

/* Who owns it beside the oldest. What an observer told since we asked is newer
 * than that. */
static void see_others(struct simba__row *row,
                       const simba_report *report,
                       size_t index,
                       int64_t asked_ms)
{
    const simba_owner *owner;
    size_t k = 1;

    if (row->begun_ms > asked_ms || row->changed_ms > asked_ms) {
        return;
    }
    for (; (owner = simba_report_mutex_owner(report, index, k)) != NULL; k++) {
        simba__board_begin(row, owner);
    }
    simba__board_end_others(row, report, index);
    simba__board_count(row, simba_report_mutex(report, index)->owned);
}

/* Under the lock. */
static void merge(struct simba__source *source,
                  const simba_report *report,
                  int64_t asked_ms)
{
    const simba_owner nobody = simba_owner_none();
    const simba_listed *listed;
    struct simba__row *row;

    source->skew_ms =
        simba__unix_ms() - simba__view_now(simba_report_store_ms(report));
    source->look++;
    for (size_t i = 0; (listed = simba_report_mutex(report, i)) != NULL; i++) {
        row = simba__board_row(source, listed->mutex);
        if (row == NULL) {
            continue;
        }
        row->look = source->look;
        if (row->waiting != listed->waiting) {
            row->waiting = listed->waiting;
            simba__board_touch(row);
        }
        simba__board_see(row, &listed->owner, asked_ms);
        see_others(row, report, i, asked_ms);
    }
    for (struct simba__hash_link *link = simba__hash_next(&source->rows, NULL);
         link != NULL; link = simba__hash_next(&source->rows, link)) {
        row = (struct simba__row *)link;
        if (row->look != source->look) {
            if (row->waiting > 0) {
                row->waiting = 0;
                simba__board_touch(row);
            }
            simba__board_see(row, &nobody, asked_ms);
            if (row->owner.id[0] == '\0') {
                simba__board_count(row, 0);
            }
        }
    }
}

/* Observe what is new, forget what is unused. Rows are added and removed by
 * this thread only; a callback that runs while its retrieval is closed wants
 * the lock. */
static void tend(struct simba__source *source)
{
    struct simba__board *board = source->board;
    int64_t now_ms = simba__clock_ms();
    struct simba__hash_link *link, *next;

    for (link = simba__hash_next(&source->rows, NULL); link != NULL;
         link = next) {
        struct simba__row *row = (struct simba__row *)link;
        bool is_unused;

        next = simba__hash_next(&source->rows, link);
        (void)pthread_mutex_lock(&board->lock);
        is_unused = row->look != source->look && row->owner.id[0] == '\0' &&
                    now_ms - row->changed_ms > FREE_KEPT_MS;
        (void)pthread_mutex_unlock(&board->lock);
        if (!is_unused) {
            observe(source, row);
            continue;
        }
        if (row->retrieval != NULL) {
            simba_retrieval_close(row->retrieval);
            row->retrieval = NULL;
            source->observed--;
        }
        (void)pthread_mutex_lock(&board->lock);
        simba__board_drop(row);
        (void)pthread_mutex_unlock(&board->lock);
    }
}

/* Owners tell soon after they have come; what was missed is asked for seldom.
 */
static bool is_to_be_told(struct simba__source *source)
{
    int64_t now_ms = simba__clock_ms(), changed_ms;

    (void)pthread_mutex_lock(&source->board->lock);
    changed_ms = source->changed_ms;
    (void)pthread_mutex_unlock(&source->board->lock);
    if (can_observe(source) && source->told_ms != 0 &&
        ++source->untold < TOLD_LISTS) {
        return false;
    }
    return now_ms - source->told_ms >= (now_ms - changed_ms < TOLD_YOUNG_MS
                                            ? source->told_pause_ms
                                            : TOLD_EVERY_MS);
}

static simba_report *ask_told(struct simba__source *source)
{
    int64_t asked_ms = simba__clock_ms();
    simba_report *told = simba__view_ask_told(source->store, NULL);
    int64_t pause_ms;

    source->told_ms = simba__clock_ms();
    pause_ms = (source->told_ms - asked_ms) * TOLD_PART;
    source->told_pause_ms = pause_ms < TOLD_EVERY_MS ? pause_ms : TOLD_EVERY_MS;
    source->untold = 0;
    return told;
}

/* One list; answers when to ask for the next. */
static int64_t look(struct simba__source *source)
{
    struct simba__board *board = source->board;
    int64_t asked_ms = simba__clock_ms(), took_ms, pause_ms, most_ms;
    simba_report *report = NULL;
    simba_error error = {0};
    int rc = simba_admin_list(source->store, NULL, &report, &error);
    simba_report *told;

    took_ms = simba__clock_ms() - asked_ms;
    told = rc == SIMBA_OK && is_to_be_told(source) ? ask_told(source) : NULL;
    (void)pthread_mutex_lock(&board->lock);
    if (rc == SIMBA_OK) {
        source->listed_unix_ms = simba__unix_ms();
        source->list_ms = took_ms;
        merge(source, report, asked_ms);
        if (told != NULL) {
            simba__board_tell(source, told);
        }
    }
    simba__board_set_up(source, rc == SIMBA_OK,
                        rc == SIMBA_OK ? "" : error.message);
    (void)pthread_mutex_unlock(&board->lock);
    if (rc != SIMBA_OK) {
        simba_report_close(report);
        return LOOK_DOWN_MS;
    }
    pause_ms = took_ms * LOOK_PART;
    most_ms = LOOK_MOST_MS;
    if (can_observe(source)) {
        pause_ms = (int64_t)simba_report_mutex_count(report) * LOOK_EACH_MS;
        most_ms = LOOK_EACH_MOST_MS;
    }
    simba_report_close(report);
    tend(source);
    return pause_ms < LOOK_LEAST_MS ? LOOK_LEAST_MS
           : pause_ms > most_ms     ? most_ms
                                    : pause_ms;
}

static int open_store(struct simba__source *source, simba_error *error)
{
    static struct simba__live quiet = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const struct simba__opening opening = {
        .look = true, .log = simba__live_log, .user = &quiet};
    simba_store *store = NULL;
    int rc = simba__command_open(source->cli, &opening, &store, error);

    (void)pthread_mutex_lock(&source->board->lock);
    source->store = store;
    if (rc != SIMBA_OK) {
        simba__board_set_up(source, false, error->message);
    }
    (void)pthread_mutex_unlock(&source->board->lock);
    return rc;
}

static void *watch(void *argument)
{
    struct simba__source *source = argument;

    for (;;) {
        simba_error error;

        if (source->store == NULL && open_store(source, &error) != SIMBA_OK) {
            simba__clock_pause(LOOK_DOWN_MS);
            continue;
        }
        simba__clock_pause(look(source));
    }
    return NULL;
}

/* --- the doctor ---------------------------------------------------------- */

static int64_t ask_doctor(void *user)
{
    struct simba__source *source = user;
    struct simba__board *board = source->board;
    simba_report *report = NULL;
    simba_store *store;
    bool is_up;

    (void)pthread_mutex_lock(&board->lock);
    store = source->store;
    is_up = source->is_up;
    (void)pthread_mutex_unlock(&board->lock);
    if (!is_up || simba_admin_doctor(store, &report, NULL) != SIMBA_OK) {
        return simba__clock_ms() +
               (source->doctor == NULL ? 200 : DOCTOR_RETRY_MS);
    }
    (void)pthread_mutex_lock(&board->lock);
    simba_report_close(source->doctor);
    source->doctor = report;
    board->has_news = true;
    (void)pthread_cond_signal(&board->changed);
    (void)pthread_mutex_unlock(&board->lock);
    return simba__clock_ms() + DOCTOR_EVERY_MS;
}

/* --- all ----------------------------------------------------------------- */

int simba__watch_start(struct simba__board *board)
{
    for (size_t i = 0; i < board->count; i++) {
        struct simba__source *source = &board->sources[i];
        simba_error error = {0};
        int rc = open_store(source, &error);

        if (rc == SIMBA_ENOTINIT) {
            simba__command_say_absent(source->cli, &error);
        } else if (rc != SIMBA_OK) {
            return simba__command_fail(source->cli, "serve", &error);
        } else if ((simba_store_capabilities(source->store) & SIMBA_CAN_LIST) ==
                   0) {
            simba__say("%s: this store cannot tell which mutexes there are, "
                       "so there is nothing to show",
                       source->shown);
            return SIMBA__EXIT_CONFIG;
        }
    }
    for (size_t i = 0; i < board->count; i++) {
        struct simba__source *source = &board->sources[i];

        source->worker = simba__worker_open(ask_doctor, source);
        if (source->worker == NULL ||
            pthread_create(&source->watcher, NULL, watch, source) != 0) {
            simba__say("cannot start a thread");
            return SIMBA__EXIT_FAULT;
        }
    }
    return 0;
}
