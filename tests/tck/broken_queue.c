/* Mistakes about the queue, wake-ups, names, and what is told. */
#include "broken.h"

#include <ctype.h>
#include <string.h>

static void positions_for_ever(struct simba__mutex_record *record,
                               simba_request *request)
{
    (void)record;
    request->waiter_ms += 3600000;
}

static void position_ignored(struct simba__mutex_record *record,
                             simba_request *request)
{
    (void)record;
    request->position = 0;
}

/* The place of who left is the next one's, as where places are numbered by how
 * many there are. */
static uint64_t left_position;

static void joins_where_one_left(struct simba__mutex_record *record,
                                 simba_request *request)
{
    if (request->kind == SIMBA_ACQUIRE && request->join &&
        request->position == 0) {
        request->position = left_position;
        left_position = 0;
    }
    for (size_t i = 0; request->kind == SIMBA_LEAVE && i < record->queue_count;
         i++) {
        if (simba__attempt_equal(record->queue[i].attempt, request->attempt)) {
            left_position =
                left_position == 0 ? record->queue[i].position : left_position;
        }
    }
}

static void break_drops_the_queue(struct simba__mutex_record *record,
                                  simba_request *request)
{
    if (request->kind == SIMBA_BREAK) {
        record->queue_count = 0;
        record->is_offered = false;
    }
}

/* --- the one it is offered to -------------------------------------------- */

static void offer_short(struct simba__mutex_record *record,
                        simba_request *request)
{
    if (request->kind == SIMBA_RELEASE) {
        record->offered_until_ms -= 150;
    }
}

static void offer_long(struct simba__mutex_record *record,
                       simba_request *request)
{
    if (request->kind == SIMBA_RELEASE) {
        record->offered_until_ms += 1000;
    }
}

/* Whom it was offered to, and has not come when the request begins. */
static struct simba__waiter missing;
static bool is_missing;

static void note_missing(struct simba__mutex_record *record,
                         simba_request *request)
{
    (void)request;
    is_missing =
        record->is_offered && record->offered_until_ms < simba_loop_now_ms();
    missing = record->offered;
}

/* It goes to the front of the queue, not to its end. */
static void position_kept(struct simba__mutex_record *record,
                          simba_request *request)
{
    size_t i = record->queue_count;

    (void)request;
    while (is_missing && i-- > 0) {
        if (simba__attempt_equal(record->queue[i].attempt, missing.attempt)) {
            memmove(&record->queue[1], &record->queue[0],
                    i * sizeof *record->queue);
            record->queue[0] = missing;
            return;
        }
    }
}

/* --- what is told -------------------------------------------------------- */

static void reading_takes(struct simba__mutex_record *record,
                          simba_request *request)
{
    (void)record;
    if (request->kind == SIMBA_READ) {
        request->kind = SIMBA_ACQUIRE;
        request->join = true;
        request->waiter_ms = 60000;
    }
}

static void wait_nothing(struct simba__mutex_record *record,
                         simba_request *request)
{
    (void)record;
    request->reply.wait_ms = 0;
}

static void wait_whole_lease(struct simba__mutex_record *record,
                             simba_request *request)
{
    (void)record;
    if (request->reply.wait_ms > 0) {
        request->reply.wait_ms = request->ttl_ms + request->transition_ms;
    }
}

static void read_without_times(struct simba__mutex_record *record,
                               simba_request *request)
{
    (void)record;
    if (request->kind == SIMBA_READ) {
        request->reply.owner.ttl_at_ms = request->reply.owner.transition_at_ms =
            0;
    }
}

static void refusal_begins_now(struct simba__mutex_record *record,
                               simba_request *request)
{
    (void)record;
    if (request->kind == SIMBA_ACQUIRE && !request->reply.mine) {
        request->reply.owner.acquired_at_ms = request->reply.store_ms;
    }
}

static void repeat_begins_anew(struct simba__mutex_record *record,
                               simba_request *request)
{
    if (request->kind == SIMBA_ACQUIRE && request->reply.mine) {
        record->owner.acquired_at_ms = request->reply.store_ms;
        request->reply.owner = record->owner;
    }
}

static void tells_no_time(struct simba__mutex_record *record,
                          simba_request *request)
{
    (void)record;
    request->reply.store_ms = 0;
}

/* By a second with each tenure. */
static void clock_goes_back(struct simba__mutex_record *record,
                            simba_request *request)
{
    static uint64_t last;
    static int64_t back_ms;

    if (record->tenure_token != last) {
        last = record->tenure_token;
        back_ms += 1000;
    }
    request->reply.store_ms -= back_ms;
}

static void ended_is_owner(struct simba__mutex_record *record,
                           simba_request *request)
{
    request->reply.ended = record->tenure_token;
}

static void former_untold(struct simba__mutex_record *record,
                          simba_request *request)
{
    struct simba__tenure *tenure;

    (void)request;
    for (size_t i = 0; (tenure = simba__mutex_tenure(record, i)) != NULL; i++) {
        tenure->owner.former = 0;
    }
}

static void only_the_oldest_is_told(struct simba__mutex_record *record,
                                    simba_request *request)
{
    (void)record;
    request->reply.owned = request->reply.owned > 0;
}

/* --- names --------------------------------------------------------------- */

static void ids_are_cut(struct simba__mutex_record *record,
                        simba_request *request)
{
    record->owner.id[64] = request->reply.owner.id[64] = '\0';
}

static void fold_case(char *mutex)
{
    for (; *mutex != '\0'; mutex++) {
        *mutex = (char)tolower((unsigned char)*mutex);
    }
}

static void trim(char *mutex)
{
    size_t length = strlen(mutex);

    while (length > 1 && mutex[length - 1] == ' ') {
        mutex[--length] = '\0';
    }
}

static void trim_front(char *mutex)
{
    size_t spaces = strspn(mutex, " ");

    memmove(mutex, mutex + spaces, strlen(mutex + spaces) + 1);
}

static void cut(char *mutex)
{
    if (strlen(mutex) > 255) {
        mutex[255] = '\0';
    }
}

const struct fault broken_others[] = {
    {.name = "lost_wake_up", .no_wakes = true},
    {.name = "never_wakes", .no_wakes = true},
    {.name = "wakes_too_late", .wakes_late_ms = 4000},
    {.name = "wakes_the_second_only", .wrong_wake = true},
    {.name = "wake_is_grant", .wake_grants = true},
    {.name = "queue_ignores_death", PLANT(DEAD_OFFERED)},
    {.name = "queue_ignores_silence", .before = positions_for_ever},
    {.name = "queue_reversed", PLANT(QUEUE_REVERSED)},
    {.name = "newcomers_pass", PLANT(BARGING)},
    {.name = "offer_forgotten", PLANT(OFFER_FORGOTTEN)},
    {.name = "second_not_told", .one_wake = true},
    {.name = "offer_short", .after = offer_short},
    {.name = "offer_long", .after = offer_long},
    {.name = "missed_offer_keeps_position",
     .before = note_missing,
     .after = position_kept},
    {.name = "position_ignored", .before = position_ignored},
    {.name = "joins_where_one_left", .before = joins_where_one_left},
    {.name = "break_drops_the_queue", .after = break_drops_the_queue},
    {.name = "reading_takes", .before = reading_takes},
    {.name = "case_folded", .rename = fold_case},
    {.name = "names_trimmed", .rename = trim},
    {.name = "names_trimmed_in_front", .rename = trim_front},
    {.name = "names_cut", .rename = cut},
    {.name = "wait_nothing", .after = wait_nothing},
    {.name = "wait_whole_lease", .after = wait_whole_lease},
    {.name = "read_without_times", .after = read_without_times},
    {.name = "refusal_begins_now", .after = refusal_begins_now},
    {.name = "repeat_begins_anew", .after = repeat_begins_anew},
    {.name = "clock_goes_back", .after = clock_goes_back},
    {.name = "ended_is_owner", .after = ended_is_owner},
    {.name = "former_untold", .after = former_untold},
    {.name = "only_the_oldest_is_told", .after = only_the_oldest_is_told},
    {.name = "list_ends_early", .list_most = 2},
    {.name = "list_has_a_page", .list_most = 100},
    {.name = "list_escapes", .list_escapes = true},
    {.name = "observers_not_told", .no_observed = true},
    {.name = "break_wakes_nobody", .wakes_nobody = SIMBA_BREAK},
    {.name = "list_mixes_owners", .list_mixes_owners = true},
    {.name = "told_of_another", .told_mixed = true},
    {.name = "told_kept", .told_kept = true},
    {.name = "told_lasts", .told_lasts = true},
    {.name = "breaks_untold", .breaks_untold = true},
    {.name = "ids_cut", .after = ids_are_cut},
    {.name = "gives_up", .gives_up_ms = 1},
    {.name = "mute", .never_done = (enum simba_request_kind)MUTE},
    {.name = "mute_renew", .never_done = SIMBA_RENEW},
    {.name = "mute_release", .never_done = SIMBA_RELEASE},
    /* Not broken, only late: what it refuses it tells when the same attempt has
     * been granted. */
    {.name = "late_refusals", .late_refusals = true},
    /* Not broken either. */
    {.name = "tells_no_time", .after = tells_no_time},
    {.name = "gives_up_late", .gives_up_ms = 1000},
    {.name = "gives_up_told", .gives_up_ms = 1000, .gives_up = SIMBA_TOLD},
    {.name = "gives_up_book", .gives_up_ms = 1000, .gives_up = SIMBA_BREAKS},
    {.name = "gives_up_break", .gives_up_ms = 1000, .gives_up = SIMBA_BREAK},
    {.name = NULL},
};
