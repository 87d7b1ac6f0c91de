/* More mistakes: about attempts, positions and offers, several owners, and what
 * admins and observers are told. */
#include "broken.h"

#include <string.h>

static bool is_kind(const simba_request *request, enum simba_request_kind kind)
{
    return request->kind == kind;
}

/* --- attempts and tombstones --------------------------------------------- */

/* What fits into a column of 64 bits. */
static void attempt_halved(struct simba__mutex_record *record,
                           simba_request *request)
{
    (void)record;
    request->attempt.high = 0;
}

/* As numbers of JSON are read. */
static void attempt_rounded(struct simba__mutex_record *record,
                            simba_request *request)
{
    (void)record;
    request->attempt.low = (uint64_t)(double)(request->attempt.low >> 1);
}

/* A release writes its tombstone, also if that is none. */
static void tomb_overwritten(struct simba__mutex_record *record,
                             simba_request *request)
{
    for (size_t i = 0; i < record->tombstone_count; i++) {
        if (is_kind(request, SIMBA_RELEASE) && request->tombstone_ms == 0 &&
            simba__attempt_equal(record->tombstones[i].attempt,
                                 request->attempt)) {
            record->tombstones[i].until_ms = 0;
        }
    }
}

/* There is room for a few. */
static void few_tombs(struct simba__mutex_record *record,
                      simba_request *request)
{
    enum { MOST = 8 };

    (void)request;
    if (record->tombstone_count > MOST) {
        memmove(record->tombstones, record->tombstones + 1,
                --record->tombstone_count * sizeof *record->tombstones);
    }
}

/* --- positions and offers ------------------------------------------------ */

static void forget_waiter(struct simba__mutex_record *record, size_t i)
{
    memmove(&record->queue[i], &record->queue[i + 1],
            (--record->queue_count - i) * sizeof *record->queue);
}

static void leave_by_id(struct simba__mutex_record *record,
                        simba_request *request)
{
    size_t i = record->queue_count;

    while (is_kind(request, SIMBA_LEAVE) && i-- > 0) {
        if (strcmp(record->queue[i].id, request->id) == 0) {
            forget_waiter(record, i);
        }
    }
}

static void drop_on(struct simba__mutex_record *record,
                    simba_request *request,
                    enum simba_request_kind kind)
{
    if (is_kind(request, kind) && broken_is_present(record, request)) {
        record->queue_count = 0;
    }
}

static void repeat_drops_the_queue(struct simba__mutex_record *record,
                                   simba_request *request)
{
    drop_on(record, request, SIMBA_ACQUIRE);
}

static void renewal_drops_the_queue(struct simba__mutex_record *record,
                                    simba_request *request)
{
    drop_on(record, request, SIMBA_RENEW);
}

static void leave_drops_the_offer(struct simba__mutex_record *record,
                                  simba_request *request)
{
    if (is_kind(request, SIMBA_LEAVE)) {
        record->is_offered = false;
    }
}

/* The position of the one that asks, and the offer, as they were before. */
static struct simba__waiter waited, was_offered;
static bool had_waited, had_offer;
static int64_t offered_until_ms;

static void note_waiter(struct simba__mutex_record *record,
                        simba_request *request)
{
    const struct simba__waiter *found =
        simba__mutex_find_waiter(record, request->attempt);

    had_waited = found != NULL;
    if (had_waited) {
        waited = *found;
    }
    was_offered = record->offered;
    offered_until_ms = record->offered_until_ms;
    had_offer = record->is_offered &&
                simba__attempt_equal(record->offered.attempt, request->attempt);
}

/* It lives for so long from when it came. */
static void position_from_joining(struct simba__mutex_record *record,
                                  simba_request *request)
{
    for (size_t i = 0; had_waited && i < record->queue_count; i++) {
        if (simba__attempt_equal(record->queue[i].attempt, request->attempt)) {
            record->queue[i].lapses_ms = waited.lapses_ms;
        }
    }
}

/* Only who leaves withdraws it. */
static void release_keeps_the_offer(struct simba__mutex_record *record,
                                    simba_request *request)
{
    if (is_kind(request, SIMBA_RELEASE) && had_offer) {
        record->is_offered = true;
        record->offered = was_offered;
        record->offered_until_ms = offered_until_ms;
    }
}

/* The tombstone is all that is written. */
static void undo_keeps_the_position(struct simba__mutex_record *record,
                                    simba_request *request)
{
    if (is_kind(request, SIMBA_RELEASE) && request->tombstone_ms > 0 &&
        had_waited && record->queue_count < record->queue_room) {
        memmove(&record->queue[1], &record->queue[0],
                record->queue_count++ * sizeof *record->queue);
        record->queue[0] = waited;
    }
}

static void offered_is_owner(struct simba__mutex_record *record,
                             simba_request *request)
{
    simba_owner *owner = &request->reply.owner;

    if (is_kind(request, SIMBA_READ) && record->is_offered &&
        owner->id[0] == '\0') {
        memcpy(owner->id, record->offered.id, sizeof owner->id);
    }
}

/* --- several owners ------------------------------------------------------ */

static void renewal_forgets_the_limit(struct simba__mutex_record *record,
                                      simba_request *request)
{
    struct simba__tenure *tenure =
        simba__mutex_find_tenure(record, request->attempt);

    if (is_kind(request, SIMBA_RENEW) && tenure != NULL &&
        tenure->owner.slots > 1) {
        tenure->owner.slots = UINT32_MAX;
    }
}

static void limit_of_the_first_asking(struct simba__mutex_record *record,
                                      simba_request *request)
{
    (void)record;
    if (is_kind(request, SIMBA_RENEW)) {
        request->slots = 0;
    }
}

static void repeat_counts_twice(struct simba__mutex_record *record,
                                simba_request *request)
{
    (void)record;
    if (is_kind(request, SIMBA_ACQUIRE) && request->reply.mine &&
        request->reply.token == request->token) {
        request->reply.owned++;
    }
}

/* Those that are there until somebody else is granted it. */
static uint32_t were_there;

static void count_owners(struct simba__mutex_record *record,
                         simba_request *request)
{
    uint32_t count = (uint32_t)record->other_count + 1;

    if (!is_kind(request, SIMBA_READ) || count > were_there) {
        were_there = count;
    }
}

static void lapsed_are_counted(struct simba__mutex_record *record,
                               simba_request *request)
{
    (void)record;
    if (is_kind(request, SIMBA_READ) && were_there > 1) {
        request->reply.owned = were_there;
    }
}

static void wait_for_the_last(struct simba__mutex_record *record,
                              simba_request *request)
{
    const struct simba__tenure *tenure;
    simba_reply *reply = &request->reply;

    for (size_t i = 0; !reply->mine && reply->wait_ms > 0 &&
                       (tenure = simba__mutex_tenure(record, i)) != NULL;
         i++) {
        int64_t wait_ms = tenure->owner.transition_at_ms - simba_loop_now_ms();

        reply->wait_ms = wait_ms > reply->wait_ms ? wait_ms : reply->wait_ms;
    }
}

static void break_ends_the_oldest(struct simba__mutex_record *record,
                                  simba_request *request)
{
    const struct simba__tenure *tenure;

    for (size_t i = 1; is_kind(request, SIMBA_BREAK) &&
                       (tenure = simba__mutex_tenure(record, i)) != NULL;
         i++) {
        if (tenure->owner.token == request->token) {
            request->token = record->owner.token;
        }
    }
}

static void all_are_asked(struct simba__mutex_record *record,
                          simba_request *request)
{
    struct simba__tenure *tenure;

    for (size_t i = 1; is_kind(request, SIMBA_HAND_OVER) &&
                       (tenure = simba__mutex_tenure(record, i)) != NULL;
         i++) {
        memcpy(tenure->asked, record->first.asked, sizeof tenure->asked);
    }
}

const struct fault broken_more[] = {
    {.name = "attempt_halved", .before = attempt_halved},
    {.name = "attempt_rounded", .before = attempt_rounded},
    {.name = "tomb_overwritten", .before = tomb_overwritten},
    {.name = "few_tombs", .after = few_tombs},
    {.name = "leave_by_id", .before = leave_by_id},
    {.name = "repeat_drops_the_queue", .before = repeat_drops_the_queue},
    {.name = "renewal_drops_the_queue", .before = renewal_drops_the_queue},
    {.name = "leave_drops_the_offer", .after = leave_drops_the_offer},
    {.name = "position_from_joining",
     .before = note_waiter,
     .after = position_from_joining},
    {.name = "release_keeps_the_offer",
     .before = note_waiter,
     .after = release_keeps_the_offer},
    {.name = "undo_keeps_the_position",
     .before = note_waiter,
     .after = undo_keeps_the_position},
    {.name = "offered_is_owner", .after = offered_is_owner},
    {.name = "renewal_forgets_the_limit", .after = renewal_forgets_the_limit},
    {.name = "limit_of_the_first_asking", .before = limit_of_the_first_asking},
    {.name = "repeat_counts_twice", .after = repeat_counts_twice},
    {.name = "lapsed_are_counted",
     .before = count_owners,
     .after = lapsed_are_counted},
    {.name = "wait_for_the_last", .after = wait_for_the_last},
    {.name = "break_ends_the_oldest", .before = break_ends_the_oldest},
    {.name = "all_are_asked", .after = all_are_asked},
    {.name = "slot_offered_to_nobody", PLANT(GRANT_OFFERS_NONE)},
    {.name = "nothing_offered", PLANT(NO_OFFER)},
    {.name = "dead_are_told", .dead_told = true},
    {.name = "list_omits_the_free", .list_omits_free = true},
    {.name = "list_tells_one_owner", .owners_untold = SIMBA_LIST},
    {.name = "show_tells_one_owner", .owners_untold = SIMBA_READ},
    {.name = "breaks_say_now", .breaks_say_now = true},
    {.name = "breaks_in_seconds", .breaks_in_seconds = true},
    {.name = "told_cut", .told_cut = true},
    {.name = "hand_over_wakes_nobody", .wakes_nobody = SIMBA_HAND_OVER},
    {.name = "leave_wakes_nobody", .wakes_nobody = SIMBA_LEAVE},
    {.name = "unsubscribes_all", .unsubscribes_all = true},
    {.name = NULL},
};
