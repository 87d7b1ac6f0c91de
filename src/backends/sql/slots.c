/* Several owners of one mutex, and what else simba_mutex has no room for.
 *
 * To those who know of one owner, several are one, "slots@", whose lease ends
 * when the last of theirs does; who they are says simba_slot, by a row for each
 * tenure. A row of the same table says who is asked to hand over, and, with the
 * token 0, how many the waiter suffers that the mutex is offered to. It is read
 * when the owner is "slots@" or simba_tenure says so (`asked`). A row counts by
 * its attempt: one that others have left behind says nothing. */
#include "backends/sql/waiters.h"

#include "util/array.h"

#include <assert.h>
#include <string.h>

/* The columns of `load_slots`. */
enum column {
    ATTEMPT, /* NULL: there is none */
    ID,
    TOKEN,
    SLOT,
    SLOTS,
    BROKEN,
    ACQUIRED_AT,
    TTL_AT,
    TRANSITION_AT,
    PROCESS,
    ASKED,
    FORMER
};

bool simba__sql_is_crowd(const struct simba__mutex_record *mutex)
{
    return mutex->owner.id[0] != '\0' && mutex->owner.slots > 1;
}

static bool is_offered_slot(const struct simba__mutex_record *mutex)
{
    return mutex->is_offered && mutex->offered.slots > 1;
}

bool simba__sql_needs_slots(const struct simba__mutex_record *mutex)
{
    return simba__sql_is_crowd(mutex) || mutex->first.asked[0] != '\0' ||
           is_offered_slot(mutex);
}

/* --- loading ------------------------------------------------------------- */

static void read_asked(struct simba__tenure *tenure,
                       const struct simba__sql_rows *rows,
                       int row)
{
    simba__sql_copy(tenure->asked, sizeof tenure->asked,
                    simba__sql_text(rows, row, ASKED));
    tenure->owner.is_asked = tenure->asked[0] != '\0';
}

static void read_tenure(struct simba__tenure *tenure,
                        const struct simba__sql_rows *rows,
                        int row)
{
    simba_owner *owner = &tenure->owner;

    memset(tenure, 0, sizeof *tenure);
    tenure->attempt =
        simba__sql_read_attempt(simba__sql_text(rows, row, ATTEMPT));
    simba__sql_copy(owner->id, sizeof owner->id,
                    simba__sql_text(rows, row, ID));
    owner->token = (uint64_t)simba__sql_number(rows, row, TOKEN);
    owner->slot = (uint32_t)simba__sql_number(rows, row, SLOT);
    owner->slots = (uint32_t)simba__sql_number(rows, row, SLOTS);
    owner->is_broken = simba__sql_number(rows, row, BROKEN) != 0;
    owner->acquired_at_ms = simba__sql_number(rows, row, ACQUIRED_AT);
    owner->ttl_at_ms = simba__sql_number(rows, row, TTL_AT);
    owner->transition_at_ms = simba__sql_number(rows, row, TRANSITION_AT);
    owner->former = (uint64_t)simba__sql_number(rows, row, FORMER);
    read_asked(tenure, rows, row);
}

enum simba__sql_loaded simba__sql_load_slots(struct simba__sql_request *request,
                                             const struct simba__sql_rows *rows)
{
    const struct simba__sql *self = request->self;
    struct simba__sql_record *record = &request->record;
    struct simba__mutex_record *was = &record->was, *mutex = &record->mutex;
    size_t count = 0, most = (size_t)rows->count;

    if (rows->count == 0) {
        return SIMBA__SQL_NO_ROW;
    }
    if (!simba__array_reserve(&was->others, &was->other_room, most,
                              sizeof *was->others) ||
        !simba__array_reserve(&mutex->others, &mutex->other_room, most,
                              sizeof *mutex->others)) {
        return SIMBA__SQL_NO_MEMORY;
    }
    assert(was->other_count == 0);
    record->slot_rows = rows->cell(rows, 0, ATTEMPT) == NULL ? 0 : most;
    for (int i = 0; i < rows->count && rows->cell(rows, i, ATTEMPT) != NULL;
         i++) {
        simba_attempt attempt =
            simba__sql_read_attempt(simba__sql_text(rows, i, ATTEMPT));
        bool is_tenure = simba__sql_number(rows, i, TOKEN) != 0;

        if (is_tenure && record->is_crowd) {
            struct simba__tenure *tenure =
                count++ == 0 ? &was->first : &was->others[was->other_count++];

            read_tenure(tenure, rows, i);
            /* Who knows of one owner only may have broken all. */
            tenure->owner.is_broken |= record->row.is_broken;
            record->is_foreign |=
                self->account != 0 &&
                strncmp(simba__sql_text(rows, i, PROCESS), self->process,
                        SIMBA__SQL_ACCOUNT) != 0;
        } else if (is_tenure && simba__attempt_equal(attempt, was->attempt)) {
            read_asked(&was->first, rows, i);
        } else if (!is_tenure && was->is_offered &&
                   simba__attempt_equal(attempt, was->offered.attempt)) {
            was->offered.slots = (uint32_t)simba__sql_number(rows, i, SLOTS);
        }
    }
    mutex->first = was->first;
    mutex->other_count = was->other_count;
    memcpy(mutex->others, was->others,
           was->other_count * sizeof *mutex->others);
    mutex->offered.slots = was->offered.slots;
    return SIMBA__SQL_LOADED;
}

/* --- what has changed ---------------------------------------------------- */

static bool is_same(const struct simba__tenure *a,
                    const struct simba__tenure *b)
{
    return strcmp(a->owner.id, b->owner.id) == 0 &&
           a->owner.acquired_at_ms == b->owner.acquired_at_ms &&
           a->owner.ttl_at_ms == b->owner.ttl_at_ms &&
           a->owner.transition_at_ms == b->owner.transition_at_ms &&
           a->owner.token == b->owner.token &&
           a->owner.is_broken == b->owner.is_broken &&
           a->owner.slots == b->owner.slots && strcmp(a->asked, b->asked) == 0;
}

static size_t count_tenures(const struct simba__mutex_record *mutex)
{
    return mutex->other_count + (mutex->owner.id[0] != '\0');
}

/* Whom simba_mutex names. For who ends the tenures of dead owners by its own
 * clock (liveness.c) each renewal changes what it says of several, too: by
 * `slot_renew` the end of the lease becomes later each time, so that nobody
 * makes it earlier but with a change of the tenures, which counts like one. */
static simba_owner show(const struct simba__sql_record *record,
                        bool is_any,
                        const simba_request *asked)
{
    const struct simba__mutex_record *mutex = &record->mutex;
    simba_owner shown = simba__mutex_shown(mutex, record->now_us / 1000);
    bool is_crowd = simba__sql_is_crowd(mutex);
    bool is_renewed =
        asked->reply.mine &&
        (asked->kind == SIMBA_ACQUIRE || asked->kind == SIMBA_RENEW) &&
        (is_crowd ? record->is_crowd
                  : mutex->owner.token == record->was.owner.token);

    if (is_crowd) {
        memcpy(shown.id, SIMBA__CROWD_ID, sizeof SIMBA__CROWD_ID);
        shown.is_broken = false; /* their rows say it */
    }
    if (is_crowd && record->is_crowd && !is_any && !is_renewed) {
        shown.ttl_at_ms = record->row.ttl_at_ms;
        shown.transition_at_ms = record->row.transition_at_ms;
    } else if (is_renewed || (is_crowd && record->is_crowd)) {
        shown.ttl_at_ms = simba__sql_counted_ttl_at(&record->row, &shown);
    }
    return shown;
}

bool simba__sql_change_tenures(struct simba__sql_change *change,
                               const struct simba__sql_record *record,
                               const simba_request *asked)
{
    const struct simba__mutex_record *mutex = &record->mutex;
    bool is_any = count_tenures(&record->was) != count_tenures(mutex);
    bool is_same_offer = simba__mutex_is_same_offer(&record->was, mutex);
    bool is_kept;
    size_t kept = is_same_offer && is_offered_slot(mutex);
    const struct simba__tenure *is, *was;

    change->has_slots = record->has_slots || simba__sql_needs_slots(mutex);
    change->is_slot_offered = !is_same_offer && is_offered_slot(mutex);
    change->slot = NULL;
    change->is_beside = true;
    for (size_t i = 0; (was = simba__mutex_tenure(&record->was, i)) != NULL;
         i++) {
        change->is_beside &=
            simba__mutex_find_tenure(mutex, was->attempt) != NULL ||
            simba__attempt_equal(was->attempt, asked->attempt);
    }
    for (size_t i = 0; (is = simba__mutex_tenure(mutex, i)) != NULL; i++) {
        was = simba__mutex_find_tenure(&record->was, is->attempt);
        is_kept = simba__sql_is_crowd(mutex) || is->asked[0] != '\0';
        kept += is_kept && was != NULL &&
                (record->is_crowd || was->asked[0] != '\0');
        if (was != NULL && is_same(was, is)) {
            continue;
        }
        is_any = true;
        change->is_beside &= was == NULL;
        if (is_kept) {
            assert(change->slot == NULL); /* one request, one tenure */
            change->slot = is;
        }
    }
    /* What was not read is to be nobody's, or of others who left it behind. */
    change->is_slot_gone = !record->has_slots || kept != record->slot_rows;
    change->is_beside &= record->is_crowd && simba__sql_is_crowd(mutex);
    change->shown = show(record, is_any, asked);
    if (is_any && asked->kind == SIMBA_HAND_OVER &&
        !simba__sql_is_crowd(mutex)) {
        /* Its renewals are to look for who is asked: the fast ones do nothing
         * where a renewal was counted. */
        change->shown.ttl_at_ms--;
    }
    return is_any || change->shown.ttl_at_ms != record->row.ttl_at_ms;
}

/* --- parameters ---------------------------------------------------------- */

static char *keep(char *end, simba_attempt attempt, bool is_first)
{
    if (!is_first) {
        *end++ = ',';
    }
    simba__sql_write_attempt(attempt, end);
    return end + strlen(end);
}

void simba__sql_bind_slots(struct simba__sql_params *params,
                           const struct simba__sql_request *request,
                           char *kept)
{
    static const struct simba__tenure none;
    const struct simba__sql_change *change = &request->change;
    const struct simba__sql_record *record = &request->record;
    const struct simba__mutex_record *mutex = &record->mutex;
    const struct simba__tenure *slot =
        change->slot == NULL ? &none : change->slot;
    const struct simba__tenure *tenure;
    bool is_mine = simba__attempt_equal(slot->attempt, request->asked->attempt);
    char *end = kept;

    *end = '\0';
    for (size_t i = 0; (tenure = simba__mutex_tenure(mutex, i)) != NULL; i++) {
        if (simba__sql_is_crowd(mutex) || tenure->asked[0] != '\0') {
            end = keep(end, tenure->attempt, end == kept);
        }
    }
    if (is_offered_slot(mutex)) {
        keep(end, mutex->offered.attempt, end == kept);
    }
    simba__sql_add_text(params, kept);
    simba__sql_add_attempt(params, slot->attempt);
    simba__sql_add_text(params, slot->owner.id);
    simba__sql_add_number(params, (int64_t)slot->owner.token);
    simba__sql_add_number(params, (int32_t)slot->owner.slot);
    simba__sql_add_number(params, (int32_t)slot->owner.slots);
    simba__sql_add_number(params, slot->owner.is_broken);
    simba__sql_add_number(params, slot->owner.acquired_at_ms);
    simba__sql_add_number(params, slot->owner.ttl_at_ms);
    simba__sql_add_number(params, slot->owner.transition_at_ms);
    simba__sql_add_text(params, is_mine ? request->self->process : "");
    simba__sql_add_text(params, slot->asked);
    simba__sql_add_number(
        params, is_offered_slot(mutex) ? (int32_t)mutex->offered.slots : 0);
    for (size_t i = 0; i < 2; i++) {
        simba__sql_add_number(params, i < change->come_count
                                          ? (int32_t)change->come[i]->slots
                                          : 0);
    }
    simba__sql_add_text(params,
                        simba__sql_needs_slots(mutex) ? SIMBA__CROWD_ID : "");
    simba__sql_add_number(params, record->is_crowd && record->row.is_broken);
    simba__sql_add_number(params, (int64_t)slot->owner.former);
    simba__sql_add_number(params, change->is_beside);
}
