/* What is known of mutexes; see serve.h. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "serve/serve.h"
#include "util/array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const int64_t simba__hand_over_bounds_ms[SIMBA__HAND_OVER_BUCKETS - 1] = {
    1, 2, 5, 10, 25, 50, 100, 250, 1000, 5000, 30000};

int64_t simba__board_unix(const struct simba__source *source, int64_t store_ms)
{
    int64_t unix_ms;

    return store_ms <= 0 || store_ms == INT64_MAX ||
                   __builtin_add_overflow(store_ms, source->skew_ms, &unix_ms)
               ? SIMBA__UNKNOWN
               : unix_ms;
}

void simba__board_touch(struct simba__row *row)
{
    struct simba__board *board = row->source->board;

    if (!row->is_dirty) {
        row->is_dirty = true;
        row->next_dirty = board->dirty;
        board->dirty = row;
        (void)pthread_cond_signal(&board->changed);
    }
}

/* --- tenures ------------------------------------------------------------- */

static void free_tenure(struct simba__tenure *tenure)
{
    free(tenure->id);
    free(tenure->broken);
}

/* One of another implementation has no token, and is known while it lasts. */
static struct simba__tenure *find_tenure(struct simba__row *row,
                                         const simba_owner *owner)
{
    for (size_t i = row->count; i-- > 0;) {
        struct simba__tenure *tenure = &row->tenures[i];

        if (tenure->token == owner->token &&
            (owner->token != 0 ||
             (tenure->ended_ms == 0 && strcmp(tenure->id, owner->id) == 0))) {
            return tenure;
        }
    }
    return NULL;
}

static void end_tenure(struct simba__tenure *tenure)
{
    if (tenure != NULL && tenure->ended_ms == 0) {
        tenure->ended_ms = simba__unix_ms();
    }
}

/* The more mutexes there are, the fewer tenures are kept of each. */
static void forget_oldest(struct simba__row *row)
{
    size_t rows = row->source->board->rows;
    size_t most = SIMBA__TENURES_ALL / (rows == 0 ? 1 : rows);
    size_t over;

    most = most > SIMBA__TENURES_MOST    ? SIMBA__TENURES_MOST
           : most < SIMBA__TENURES_LEAST ? SIMBA__TENURES_LEAST
                                         : most;
    if (row->count < most) {
        return;
    }
    over = row->count - most + 1;
    for (size_t i = 0; i < over; i++) {
        free_tenure(&row->tenures[i]);
    }
    row->count -= over;
    memmove(row->tenures, row->tenures + over,
            row->count * sizeof *row->tenures);
}

static void begin_tenure(struct simba__row *row,
                         const simba_owner *owner,
                         int64_t handed_ms)
{
    int64_t began_ms = simba__board_unix(row->source, owner->acquired_at_ms);
    struct simba__tenure tenure = {
        .id = strdup(owner->id),
        .token = owner->token,
        .slot = owner->slots > 1 ? owner->slot : SIMBA_NO_SLOT,
        .began_ms = began_ms == SIMBA__UNKNOWN ? simba__unix_ms() : began_ms,
        .handed_ms = handed_ms,
        .has_gap = row->has_gap};

    row->has_gap = false;
    row->tenure_count++;
    row->begun_ms = row->source->changed_ms = simba__clock_ms();
    forget_oldest(row);
    if (tenure.id == NULL ||
        !simba__array_reserve(&row->tenures, &row->room, row->count + 1,
                              sizeof *row->tenures)) {
        free_tenure(&tenure);
        return;
    }
    row->tenures[row->count++] = tenure;
}

static void count_hand_over(struct simba__row *row, int64_t ms)
{
    size_t i = 0;

    while (i < SIMBA__HAND_OVER_BUCKETS - 1 &&
           ms > simba__hand_over_bounds_ms[i]) {
        i++;
    }
    row->hand_overs[i]++;
    row->hand_over_sum_ms += (uint64_t)ms;
}

/* Only a free moment that somebody waited in is a hand-over, and only one that
 * was seen has a length. */
static void change_owner(struct simba__row *row, const simba_owner *owner)
{
    bool was_owned = row->owner.id[0] != '\0';
    bool is_owned = owner->id[0] != '\0';
    int64_t now_ms = simba__clock_ms(), handed_ms = SIMBA__UNKNOWN;

    if (was_owned) { /* the oldest of several is another when it is over */
        end_tenure(find_tenure(row, &row->owner));
    }
    if (is_owned && !was_owned && row->is_waited) {
        handed_ms = now_ms - row->changed_ms;
        count_hand_over(row, handed_ms);
    }
    row->is_waited = was_owned && !is_owned && row->waiting > 0;
    row->owner = *owner;
    row->owned = !is_owned ? 0 : row->owned == 0 ? 1 : row->owned;
    row->changed_ms = now_ms;
    row->lease_ms = 0;
    if (is_owned) {
        row->token_seen =
            owner->token > row->token_seen ? owner->token : row->token_seen;
        if (find_tenure(row, owner) == NULL) {
            begin_tenure(row, owner, handed_ms);
        }
    }
}

void simba__board_begin(struct simba__row *row, const simba_owner *owner)
{
    struct simba__tenure *tenure = find_tenure(row, owner);

    if (tenure == NULL) {
        begin_tenure(row, owner, SIMBA__UNKNOWN);
        simba__board_touch(row);
    } else if (owner->is_broken && !tenure->is_broken) {
        row->break_count++;
        tenure->is_broken = true;
        simba__board_touch(row);
    }
}

void simba__board_end(struct simba__row *row, const simba_owner *owner)
{
    struct simba__tenure *tenure = find_tenure(row, owner);

    if (tenure != NULL && tenure->ended_ms == 0) {
        end_tenure(tenure);
        simba__board_touch(row);
    }
}

void simba__board_count(struct simba__row *row, size_t owned)
{
    if (row->owned != owned) {
        row->owned = owned;
        simba__board_touch(row);
    }
}

void simba__board_end_others(struct simba__row *row,
                             const simba_report *report,
                             size_t index)
{
    for (size_t i = 0; i < row->count; i++) {
        struct simba__tenure *tenure = &row->tenures[i];
        const simba_owner *owner;
        bool is_there = tenure->ended_ms != 0 || tenure->token == 0 ||
                        tenure->token == row->owner.token;

        for (size_t k = 0;
             !is_there &&
             (owner = simba_report_mutex_owner(report, index, k)) != NULL;
             k++) {
            is_there = owner->token == tenure->token;
        }
        if (!is_there) {
            end_tenure(tenure);
            simba__board_touch(row);
        }
    }
}

/* Pages are told of those that they do not know of. */
void simba__board_tell(struct simba__source *source, simba_report *told)
{
    const simba_told *one;

    simba_report_close(source->told);
    source->told = told;
    for (size_t i = 0; (one = simba_report_told(told, i)) != NULL; i++) {
        struct simba__row *row =
            (struct simba__row *)simba__hash_find(&source->rows, one->mutex);

        if (row != NULL && row->owner.token == one->token &&
            row->told_token != one->token) {
            row->told_token = one->token;
            simba__board_touch(row);
        }
    }
}

void simba__board_see(struct simba__row *row,
                      const simba_owner *owner,
                      int64_t since_ms)
{
    const simba_state state = {.before = row->owner, .after = *owner};
    int64_t until_ms = simba__board_unix(row->source, owner->transition_at_ms);
    struct simba__tenure *last;

    if (simba_state_is_changed(&state)) {
        /* What was on its way while we learned of a later tenure. */
        if (row->changed_ms > since_ms ||
            (owner->token != 0 && owner->token <= row->token_seen)) {
            return;
        }
        change_owner(row, owner);
    } else if (row->owner.transition_at_ms == owner->transition_at_ms &&
               row->owner.is_broken == owner->is_broken) {
        return;
    }
    last = owner->is_broken ? find_tenure(row, owner) : NULL;
    if (last != NULL && !last->is_broken) {
        row->break_count++;
        last->is_broken = true;
    }
    row->owner = *owner;
    if (owner->id[0] != '\0' && until_ms != SIMBA__UNKNOWN &&
        until_ms - simba__unix_ms() > row->lease_ms) {
        row->lease_ms = until_ms - simba__unix_ms();
    }
    simba__board_touch(row);
}

void simba__board_note_break(struct simba__row *row,
                             uint64_t token,
                             const char *words)
{
    for (size_t i = row->count; i-- > 0;) {
        struct simba__tenure *tenure = &row->tenures[i];

        if (tenure->token == token) {
            row->break_count += !tenure->is_broken;
            tenure->is_broken = true;
            free(tenure->broken);
            tenure->broken = strdup(words);
            simba__board_touch(row);
            return;
        }
    }
}

/* --- rows and stores ----------------------------------------------------- */

struct simba__row *simba__board_row(struct simba__source *source,
                                    const char *mutex)
{
    struct simba__row *row =
        (struct simba__row *)simba__hash_find(&source->rows, mutex);

    if (row != NULL) {
        return row;
    }
    row = source->rows.count >= SIMBA__ROWS_MOST
              ? NULL
              : simba__hash_new(&source->rows, sizeof *row, mutex);
    if (row != NULL) {
        row->source = source;
        row->waiting = SIMBA__UNKNOWN;
        source->board->rows++;
    }
    return row;
}

void simba__board_drop(struct simba__row *row)
{
    struct simba__board *board = row->source->board;
    size_t room = strlen(row->link.key) + 1;
    struct simba__gone *gone = malloc(sizeof *gone + room);
    struct simba__row **at = &board->dirty;

    assert(row->retrieval == NULL);
    while (row->is_dirty && *at != row) {
        at = &(*at)->next_dirty;
    }
    if (row->is_dirty) {
        *at = row->next_dirty;
    }
    if (gone != NULL) {
        gone->source = row->source->index;
        memcpy(gone->mutex, row->link.key, room);
        gone->next = board->gone;
        board->gone = gone;
        (void)pthread_cond_signal(&board->changed);
    }
    for (size_t i = 0; i < row->count; i++) {
        free_tenure(&row->tenures[i]);
    }
    free(row->tenures);
    board->rows--;
    simba__hash_remove(&row->source->rows, &row->link);
    free(row);
}

void simba__board_set_up(struct simba__source *source,
                         bool is_up,
                         const char *problem)
{
    bool is_news =
        source->since_unix_ms == 0 || source->is_up != is_up ||
        strncmp(source->problem, problem, sizeof source->problem - 1) != 0;

    source->failure_count += !is_up;
    if (!is_news) {
        return;
    }
    if (source->since_unix_ms == 0 || source->is_up != is_up) {
        source->since_unix_ms = simba__unix_ms();
    }
    source->is_up = is_up;
    source->was_up = source->was_up || is_up;
    (void)snprintf(source->problem, sizeof source->problem, "%s", problem);
    source->board->has_news = true;
    (void)pthread_cond_signal(&source->board->changed);
}
