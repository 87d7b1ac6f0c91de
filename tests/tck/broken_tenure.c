/* Mistakes about tenures: tokens, leases, renewals, releases, tombstones. */
#include "broken.h"

#include <stdio.h>
#include <string.h>

/* The owner as it was before the request that is being carried out, and what
 * that one asked for; with the space of the mutexes locked. */
static simba_owner kept;
static int64_t asked_ttl_ms, asked_transition_ms;

bool broken_is_present(const struct simba__mutex_record *record,
                       const simba_request *request)
{
    return record->attempt.high == request->attempt.high &&
           record->attempt.low == request->attempt.low &&
           record->owner.id[0] != '\0';
}

static void be_the_owner(struct simba__mutex_record *record,
                         simba_request *request)
{
    request->attempt.high = record->attempt.high;
    request->attempt.low = record->attempt.low;
}

/* --- tokens -------------------------------------------------------------- */

static void token_stuck(struct simba__mutex_record *record,
                        simba_request *request)
{
    (void)record;
    if (request->reply.mine) {
        request->reply.token = request->reply.owner.token = 7;
    }
}

static void token_grows_by_renewal(struct simba__mutex_record *record,
                                   simba_request *request)
{
    if (request->kind == SIMBA_RENEW && request->reply.mine) {
        request->reply.token = record->owner.token = ++record->last_token;
        request->reply.owner = record->owner;
    }
}

/* Only the clock makes it grow. */
static void token_is_the_clock(struct simba__mutex_record *record,
                               simba_request *request)
{
    (void)request;
    record->last_token = 0;
}

/* --- who has it ---------------------------------------------------------- */

static void not_idempotent(struct simba__mutex_record *record,
                           simba_request *request)
{
    if (request->kind == SIMBA_ACQUIRE && broken_is_present(record, request)) {
        request->attempt.low ^= 1;
    }
}

/* Forgets the owner whenever somebody else asks. */
static void grant_everybody(struct simba__mutex_record *record,
                            simba_request *request)
{
    if (request->kind == SIMBA_ACQUIRE && !broken_is_present(record, request)) {
        memset(&record->owner, 0, sizeof record->owner);
        memset(&record->attempt, 0, sizeof record->attempt);
    }
}

/* Takes the attempt for the present one for as long as nobody else came. */
static void acquire_revives(struct simba__mutex_record *record,
                            simba_request *request)
{
    if (request->kind == SIMBA_ACQUIRE && broken_is_present(record, request)) {
        record->owner.transition_at_ms = simba_loop_now_ms() + 1000;
    }
}

static void renew_steals(struct simba__mutex_record *record,
                         simba_request *request)
{
    if (request->kind == SIMBA_RENEW && record->owner.id[0] != '\0') {
        record->attempt.high = request->attempt.high;
        record->attempt.low = request->attempt.low;
        snprintf(record->owner.id, sizeof record->owner.id, "%s", request->id);
    }
}

static void renew_creates(struct simba__mutex_record *record,
                          simba_request *request)
{
    if (request->kind == SIMBA_RENEW && record->owner.id[0] == '\0') {
        request->kind = SIMBA_ACQUIRE;
    }
}

static void release_by_anybody(struct simba__mutex_record *record,
                               simba_request *request)
{
    if (request->kind == SIMBA_RELEASE) {
        be_the_owner(record, request);
    }
}

static void leave_frees(struct simba__mutex_record *record,
                        simba_request *request)
{
    if (request->kind == SIMBA_LEAVE &&
        strcmp(record->owner.id, request->id) == 0) {
        be_the_owner(record, request);
    }
}

/* --- leases -------------------------------------------------------------- */

static void keep_owner(struct simba__mutex_record *record,
                       simba_request *request)
{
    (void)request;
    kept = record->owner;
}

/* Counts the lease from its own answer: the renewal is answered out of what the
 * backend knows, and the store never hears of it. */
static void lease_from_reply(struct simba__mutex_record *record,
                             simba_request *request)
{
    if (request->kind == SIMBA_RENEW && request->reply.mine) {
        record->owner = kept;
    }
}

/* The same, of all renewals of a handle but one: those that are numbered. */
static void renews_one_of_many(struct simba__mutex_record *record,
                               simba_request *request)
{
    const char *space = strrchr(request->mutex, ' ');

    if (space != NULL && strlen(space) == 2 && space[1] != '0') {
        lease_from_reply(record, request);
    }
}

/* The same, of an acquire that is repeated. */
static void repeat_lies(struct simba__mutex_record *record,
                        simba_request *request)
{
    if (request->kind == SIMBA_ACQUIRE && request->reply.mine &&
        request->reply.token == kept.token) {
        record->owner = kept;
    }
}

static void no_transition(struct simba__mutex_record *record,
                          simba_request *request)
{
    (void)record;
    request->transition_ms = 0;
}

static void for_ever(struct simba__mutex_record *record, simba_request *request)
{
    (void)record;
    request->transition_ms += 3600000;
}

/* The store has a lease of another length than the one it was asked for. */
static void give_lease(simba_request *request, int64_t lease_ms)
{
    asked_ttl_ms = request->ttl_ms;
    asked_transition_ms = request->transition_ms;
    request->transition_ms = lease_ms - request->ttl_ms;
}

static void lease_rounded(struct simba__mutex_record *record,
                          simba_request *request)
{
    (void)record;
    give_lease(request,
               (request->ttl_ms + request->transition_ms) / 1000 * 1000);
}

static void lease_rounded_up(struct simba__mutex_record *record,
                             simba_request *request)
{
    (void)record;
    give_lease(request,
               (request->ttl_ms + request->transition_ms + 999) / 1000 * 1000);
}

static void lease_capped(struct simba__mutex_record *record,
                         simba_request *request)
{
    enum { MOST_MS = 60000 };
    int64_t lease_ms = request->ttl_ms + request->transition_ms;

    (void)record;
    give_lease(request, lease_ms < MOST_MS ? lease_ms : MOST_MS);
}

/* But the answer says that all is as was asked for. */
static void say_as_asked(struct simba__mutex_record *record,
                         simba_request *request)
{
    (void)record;
    if (request->reply.mine) {
        request->reply.owner.ttl_at_ms = request->reply.store_ms + asked_ttl_ms;
        request->reply.owner.transition_at_ms =
            request->reply.owner.ttl_at_ms + asked_transition_ms;
    }
}

/* Who is named is asked for, whether or not it fits in beside the others. */
static void asked_in_vain(struct simba__mutex_record *record,
                          simba_request *request)
{
    simba_reply *reply = &request->reply;

    (void)record;
    if (request->kind == SIMBA_HAND_OVER && request->to != NULL &&
        reply->owned > 1) {
        snprintf(reply->to, sizeof reply->to, "%s", request->to);
    }
}

/* --- tombstones ---------------------------------------------------------- */

static void no_tombstone(struct simba__mutex_record *record,
                         simba_request *request)
{
    (void)record;
    request->tombstone_ms = 0;
}

static void short_tomb(struct simba__mutex_record *record,
                       simba_request *request)
{
    (void)record;
    request->tombstone_ms /= 2;
}

static void one_tomb(struct simba__mutex_record *record, simba_request *request)
{
    if (request->tombstone_ms != 0) {
        record->tombstone_count = 0;
    }
}

static void tomb_cleared(struct simba__mutex_record *record,
                         simba_request *request)
{
    if (request->kind == SIMBA_ACQUIRE && request->reply.mine) {
        record->tombstone_count = 0;
    }
}

const struct fault broken_tenures[] = {
    {.name = "token_stuck", .after = token_stuck},
    {.name = "token_counts", PLANT(TOKEN_COUNTS)},
    {.name = "token_is_the_clock", .before = token_is_the_clock},
    {.name = "renews_one_of_many",
     .before = keep_owner,
     .after = renews_one_of_many},
    {.name = "token_grows_by_renewal", .after = token_grows_by_renewal},
    {.name = "acquire_by_id", PLANT(ACQUIRE_BY_ID)},
    {.name = "acquire_not_idempotent", .before = not_idempotent},
    {.name = "acquire_revives", .before = acquire_revives},
    {.name = "everybody_is_granted", .before = grant_everybody},
    {.name = "repeat_does_not_extend", PLANT(REPEAT_NO_EXTEND)},
    {.name = "repeat_lies", .before = keep_owner, .after = repeat_lies},
    {.name = "renew_steals", .before = renew_steals},
    {.name = "renew_by_id", PLANT(RENEW_BY_ID)},
    {.name = "renew_creates", .before = renew_creates},
    {.name = "renew_revives", PLANT(RENEW_CREATES)},
    {.name = "lease_from_reply",
     .before = keep_owner,
     .after = lease_from_reply},
    {.name = "no_transition", .before = no_transition},
    {.name = "never_expires", .before = for_ever},
    {.name = "lease_rounded", .before = lease_rounded, .after = say_as_asked},
    {.name = "lease_rounded_up",
     .before = lease_rounded_up,
     .after = say_as_asked},
    {.name = "lease_capped", .before = lease_capped, .after = say_as_asked},
    {.name = "release_by_id", PLANT(RELEASE_BY_ID)},
    {.name = "release_by_anybody", .before = release_by_anybody},
    {.name = "leave_frees_the_owner", .before = leave_frees},
    {.name = "no_tombstone", .before = no_tombstone},
    {.name = "short_tomb", .before = short_tomb},
    {.name = "one_tomb", .before = one_tomb},
    {.name = "tomb_cleared", .after = tomb_cleared},
    {.name = "broken_tenure_renews", PLANT(BREAK_RENEWS)},
    {.name = "limit_ignored", PLANT(LIMIT_IGNORED)},
    {.name = "limit_mine_only", PLANT(LIMIT_MINE_ONLY)},
    {.name = "slot_twice", PLANT(SLOT_TWICE)},
    {.name = "shared_passes", PLANT(SHARED_PASSES)},
    {.name = "successor_passed", PLANT(SUCCESSOR_PASSED)},
    {.name = "successor_dead", PLANT(SUCCESSOR_DEAD_WAITED_FOR)},
    {.name = "asked_forgotten", PLANT(ASKED_FORGOTTEN)},
    {.name = "asked_in_vain", .after = asked_in_vain},
    {.name = NULL},
};
