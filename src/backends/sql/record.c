/* One mutex between the tables and the model that knows the rules: the answer
 * of `load` becomes a mutex record; what the model has changed in it is found,
 * and becomes the parameters of a statement. What has not changed is not
 * written, so that those who merely wait cost no disk. */
#include "backends/sql/waiters.h"

#include "core/saturate.h"
#include "util/array.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How much of a long queue `load` reads at first: three that live are enough,
 * and two of the five may be dead. */
enum { LOADED_FIRST = 5 };

/* --- cells --------------------------------------------------------------- */

const char *simba__sql_text(const struct simba__sql_rows *rows,
                            int row,
                            int column)
{
    const char *text = rows->cell(rows, row, column);

    return text == NULL ? "" : text;
}

int64_t simba__sql_number(const struct simba__sql_rows *rows,
                          int row,
                          int column)
{
    return (int64_t)strtoll(simba__sql_text(rows, row, column), NULL, 10);
}

/* Of the first row. */
static int64_t number_of(const struct simba__sql_rows *rows, int column)
{
    return simba__sql_number(rows, 0, column);
}

static uint64_t token_of(const struct simba__sql_rows *rows, int column)
{
    return (uint64_t)number_of(rows, column);
}

simba_owner simba__sql_read_owner(const struct simba__sql_rows *rows, int row)
{
    const char *id = simba__sql_text(rows, row, SIMBA__SQL_MUTEX_OWNER);
    simba_owner owner = simba_owner_none();

    owner.transition_at_ms =
        simba__sql_number(rows, row, SIMBA__SQL_MUTEX_TRANSITION_AT);
    if (id[0] == '\0' || strlen(id) > SIMBA_ID_MAX ||
        owner.transition_at_ms <
            simba__sql_number(rows, row, SIMBA__SQL_MUTEX_NOW)) {
        return simba_owner_none();
    }
    memcpy(owner.id, id, strlen(id) + 1);
    owner.acquired_at_ms =
        simba__sql_number(rows, row, SIMBA__SQL_MUTEX_ACQUIRED_AT);
    owner.ttl_at_ms = simba__sql_number(rows, row, SIMBA__SQL_MUTEX_TTL_AT);
    owner.token =
        (uint64_t)simba__sql_number(rows, row, SIMBA__SQL_MUTEX_TOKEN);
    owner.is_broken =
        simba__sql_number(rows, row, SIMBA__SQL_MUTEX_BROKEN) != 0;
    return owner;
}

void simba__sql_copy(char *to, size_t room, const char *text)
{
    size_t length = strlen(text);

    if (length >= room) {
        length = 0;
    }
    memcpy(to, text, length);
    to[length] = '\0';
}

simba_attempt simba__sql_read_attempt(const char *text)
{
    simba_attempt attempt = {0, 0};
    char half[17] = "";

    if (strlen(text) == SIMBA__SQL_HEX) {
        memcpy(half, text, 16);
        attempt.high = strtoull(half, NULL, 16);
        attempt.low = strtoull(text + 16, NULL, 16);
    }
    return attempt;
}

void simba__sql_write_attempt(simba_attempt attempt,
                              char text[SIMBA__SQL_HEX + 1])
{
    text[0] = '\0';
    if (attempt.high != 0 || attempt.low != 0) {
        snprintf(text, SIMBA__SQL_HEX + 1, "%016" PRIx64 "%016" PRIx64,
                 attempt.high, attempt.low);
    }
}

/* --- loading ------------------------------------------------------------- */

void simba__sql_record_fini(struct simba__sql_record *record)
{
    simba__mutex_fini(&record->mutex);
    simba__mutex_fini(&record->was);
    free(record->peers);
    memset(record, 0, sizeof *record);
}

/* Reads the columns of a waiter from `first` on, and adds the process through
 * which it waits. The last position given need not be kept: who comes when
 * nobody waits gets one by the clock, which has gone on. */
static struct simba__waiter read_waiter(struct simba__sql_record *record,
                                        const struct simba__sql_rows *rows,
                                        int row,
                                        int first)
{
    struct simba__sql_peer *peer = &record->peers[record->peer_count];
    int live =
        first == SIMBA__SQL_OFFERED ? SIMBA__SQL_OFFERED_LIVE : first + 6;
    struct simba__waiter waiter = {
        .attempt = simba__sql_read_attempt(simba__sql_text(rows, row, first)),
        .position = (uint64_t)simba__sql_number(rows, row, first + 4),
        .connection = record->peer_count++,
        .lapses_ms = simba__sql_number(rows, row, first + 5)};

    if (first != SIMBA__SQL_OFFERED) { /* of that one simba_slot tells */
        waiter.slots = (uint32_t)simba__sql_number(
            rows, row,
            first == SIMBA__SQL_SELF ? SIMBA__SQL_SELF_SLOTS
                                     : SIMBA__SQL_WAITER_SLOTS);
    }

    assert(record->peer_count <= record->peer_room);
    simba__sql_copy(waiter.id, sizeof waiter.id,
                    simba__sql_text(rows, row, first + 1));
    simba__sql_copy(peer->process, sizeof peer->process,
                    simba__sql_text(rows, row, first + 2));
    peer->can_notify = simba__sql_number(rows, row, first + 3) != 0;
    peer->notify_id = (uint64_t)simba__sql_number(rows, row, live);
    peer->is_live = peer->notify_id != 0;
    if (waiter.position > record->was.last_position) {
        record->was.last_position = waiter.position;
    }
    return waiter;
}

/* The queue; who asks may stand further behind than what was loaded. */
static void load_queue(struct simba__sql_record *record,
                       const struct simba__sql_rows *rows)
{
    struct simba__mutex_record *was = &record->was;
    uint64_t last = token_of(rows, SIMBA__SQL_LAST_POSITION);

    for (int i = 0;
         i < rows->count && rows->cell(rows, i, SIMBA__SQL_WAITER) != NULL;
         i++) {
        struct simba__waiter waiter =
            read_waiter(record, rows, i, SIMBA__SQL_WAITER);

        if (simba__sql_is_jvm(&waiter)) {
            record->jvm = waiter;
            record->has_jvm = true;
        } else {
            was->queue[was->queue_count++] = waiter;
        }
    }
    if (rows->cell(rows, 0, SIMBA__SQL_SELF) != NULL &&
        simba__mutex_find_waiter(was, simba__sql_read_attempt(simba__sql_text(
                                          rows, 0, SIMBA__SQL_SELF))) == NULL) {
        was->queue[was->queue_count++] =
            read_waiter(record, rows, 0, SIMBA__SQL_SELF);
    }
    assert(was->queue_count <= was->queue_room);
    if (last > was->last_position) {
        was->last_position = last;
    }
}

/* The owner, and for observers which tenure came before which; of those who do
 * not know us it is not known. */
static void load_owner(struct simba__sql_record *record,
                       const struct simba__sql_rows *rows)
{
    struct simba__mutex_record *was = &record->was;
    simba_owner *owner = &was->owner;
    /* Nobody who does not know us was there since. */
    bool is_ours =
        record->is_quiet ||
        (rows->cell(rows, 0, SIMBA__SQL_TENURE_VERSION) != NULL &&
         record->version == number_of(rows, SIMBA__SQL_TENURE_VERSION));

    if (record->is_quiet) {
        was->tenure_token = record->token;
        was->former_token = token_of(rows, SIMBA__SQL_QUIET_FORMER);
    } else if (is_ours) {
        was->tenure_token = token_of(rows, SIMBA__SQL_TENURE_TOKEN);
        was->former_token = token_of(rows, SIMBA__SQL_FORMER_TOKEN);
    } else if (record->version != 0) { /* somebody had it ever */
        was->tenure_token = was->former_token = SIMBA__SQL_ANOTHER;
    }
    simba__sql_copy(owner->id, sizeof owner->id,
                    simba__sql_text(rows, 0, SIMBA__SQL_OWNER_ID));
    if (owner->id[0] == '\0') {
        return;
    }
    owner->former =
        was->former_token == SIMBA__SQL_ANOTHER ? 0 : was->former_token;
    owner->acquired_at_ms = number_of(rows, SIMBA__SQL_ACQUIRED_AT);
    owner->ttl_at_ms = number_of(rows, SIMBA__SQL_TTL_AT);
    owner->transition_at_ms = record->transition_at_ms;
    owner->token = record->token;
    if (record->is_quiet) {
        was->attempt = simba__sql_read_attempt(
            simba__sql_text(rows, 0, SIMBA__SQL_QUIET_ATTEMPT));
    } else if (is_ours) {
        owner->token = was->tenure_token;
        was->attempt = simba__sql_read_attempt(
            simba__sql_text(rows, 0, SIMBA__SQL_ATTEMPT));
        owner->is_broken = number_of(rows, SIMBA__SQL_BROKEN) != 0;
        record->is_crowd = strcmp(owner->id, SIMBA__CROWD_ID) == 0;
    }
}

/* Is there more to be read, in simba_slot? */
static void load_more(struct simba__sql_record *record,
                      const struct simba__sql_rows *rows)
{
    record->row = record->was.owner;
    record->has_slots = record->is_crowd ||
                        (!record->is_quiet &&
                         simba__sql_text(rows, 0, SIMBA__SQL_MORE)[0] != '\0');
}

enum simba__sql_loaded simba__sql_record_load(
    struct simba__sql_record *record,
    const struct simba__sql_rows *rows,
    const simba_request *asked)
{
    struct simba__mutex_record *was = &record->was, *mutex = &record->mutex;
    struct simba__mutex_record room; /* what the record to be has */
    int64_t tomb_until_ms;
    size_t most; /* in the queue, who asks included */
    int live = 0;
    bool is_left = false; /* to those who notify nobody */

    /* Empty, but with the room it had. */
    simba__mutex_clear(was);
    *record = (struct simba__sql_record){.was = *was,
                                         .mutex = *mutex,
                                         .peers = record->peers,
                                         .peer_room = record->peer_room};
    if (rows->count == 0 || rows->cell(rows, 0, SIMBA__SQL_OWNER_ID) == NULL) {
        return SIMBA__SQL_NO_ROW;
    }
    if (rows->cell(rows, 0, SIMBA__SQL_TENURE_VERSION) == NULL &&
        asked->kind != SIMBA_READ) {
        return SIMBA__SQL_NO_TENURE;
    }
    most = (size_t)rows->count + 1;
    if (!simba__array_reserve(&record->peers, &record->peer_room, most + 3,
                              sizeof *record->peers) ||
        !simba__array_reserve(&was->queue, &was->queue_room, most,
                              sizeof *was->queue) ||
        !simba__array_reserve(&mutex->queue, &mutex->queue_room, most,
                              sizeof *mutex->queue) ||
        !simba__array_reserve(&mutex->tombstones, &mutex->tombstone_room, 1,
                              sizeof *mutex->tombstones)) {
        return SIMBA__SQL_NO_MEMORY;
    }
    record->now_us = number_of(rows, SIMBA__SQL_NOW_US);
    record->token = token_of(rows, SIMBA__SQL_FENCING_TOKEN);
    record->version = number_of(rows, SIMBA__SQL_VERSION);
    record->transition_at_ms = number_of(rows, SIMBA__SQL_TRANSITION_AT);
    record->account = number_of(rows, SIMBA__SQL_TENURE_ACCOUNT);
    record->is_quiet = number_of(rows, SIMBA__SQL_QUIET) == record->version;
    record->is_waiting =
        !record->is_quiet && number_of(rows, SIMBA__SQL_WAITING) != 0;
    was->is_offered = !record->is_quiet &&
                      simba__sql_text(rows, 0, SIMBA__SQL_OFFERED)[0] != '\0';
    memset(&record->peers[0], 0, sizeof record->peers[0]);
    record->peer_count = 1;
    if (was->is_offered) {
        was->offered = read_waiter(record, rows, 0, SIMBA__SQL_OFFERED);
        was->offered_until_ms = number_of(rows, SIMBA__SQL_OFFERED_UNTIL);
        is_left = simba__sql_is_jvm(&was->offered);
        record->peers[was->offered.connection].is_live &= !is_left;
    }
    load_queue(record, rows);
    record->tombs_until_ms = number_of(rows, SIMBA__SQL_TOMBS_UNTIL);
    load_owner(record, rows);
    load_more(record, rows);
    /* Does nobody notify us when its owner is done? Other implementations do
     * not, and have no attempt. */
    record->is_foreign = record->transition_at_ms >= record->now_us / 1000 &&
                         ((was->attempt.high == 0 && was->attempt.low == 0) ||
                          number_of(rows, SIMBA__SQL_FOREIGN) != 0);
    record->is_foreign |= is_left;
    /* S4: the clock carries the token over lost data; the version over the
     * tokens of implementations that take it for one. */
    was->last_token = record->token;
    if (was->last_token < (uint64_t)record->version) {
        was->last_token = (uint64_t)record->version;
    }
    if (was->last_token + 1 < (uint64_t)record->now_us) {
        was->last_token = (uint64_t)record->now_us - 1;
    }
    room = *mutex;
    *mutex = *was;
    mutex->queue = room.queue;
    mutex->queue_room = room.queue_room;
    memcpy(mutex->queue, was->queue, was->queue_count * sizeof *was->queue);
    mutex->tombstones = room.tombstones;
    mutex->tombstone_room = room.tombstone_room;
    mutex->others = room.others;
    mutex->other_room = room.other_room;
    /* An offer far longer than any was made before the clock went back. */
    if (simba__subtract_saturating(mutex->offered_until_ms,
                                   record->now_us / 1000) >
        INT64_C(10) * SIMBA__OFFER_MS) {
        mutex->offered_until_ms = record->now_us / 1000 - 1;
    }
    tomb_until_ms = number_of(rows, SIMBA__SQL_TOMB_UNTIL);
    if (tomb_until_ms != 0) {
        mutex->tombstones[mutex->tombstone_count++] =
            (struct simba__tombstone){asked->attempt, tomb_until_ms};
    }
    /* An offer goes to the first who is alive, and the second is told; one of
     * them may be the one who asks, from further behind. A named successor may
     * be anywhere. */
    for (size_t i = 0; i < was->queue_count; i++) {
        live += was->queue[i].lapses_ms >= record->now_us / 1000 &&
                record->peers[was->queue[i].connection].is_live;
    }
    return rows->count < LOADED_FIRST || (live >= 3 && asked->to == NULL)
               ? SIMBA__SQL_LOADED
               : SIMBA__SQL_IN_PART;
}

/* --- what has changed ---------------------------------------------------- */

/* Of a waiter that merely asks again the row is left alone, as long as over
 * half of its waiter lease is left; of one that does not ask, always, also if
 * it has lapsed. */
static bool is_fresh(const struct simba__sql_record *record,
                     const struct simba__waiter *was,
                     const struct simba__waiter *is)
{
    const struct simba__sql_peer *before = &record->peers[was->connection];
    const struct simba__sql_peer *after = &record->peers[is->connection];
    int64_t now_ms = record->now_us / 1000;

    return was->position == is->position && was->slots == is->slots &&
           (was->lapses_ms == is->lapses_ms ||
            was->lapses_ms - now_ms > (is->lapses_ms - now_ms) / 2) &&
           before->can_notify == after->can_notify &&
           strcmp(before->process, after->process) == 0;
}

/* Must those who come go the slow way? */
static bool is_waited_for(const struct simba__sql_record *record)
{
    return record->mutex.queue_count > 0 || record->mutex.is_offered ||
           record->is_jvm_seen;
}

int64_t simba__sql_change_life(const struct simba__sql_change *change,
                               const simba_request *asked,
                               const struct simba__sql_record *record)
{
    const struct simba__waiter *was =
        simba__mutex_find_waiter(&record->was, asked->attempt);

    for (size_t i = 0; i < change->come_count; i++) {
        if (simba__attempt_equal(change->come[i]->attempt, asked->attempt)) {
            return asked->waiter_ms;
        }
    }
    return was == NULL ? 0 : was->lapses_ms - record->now_us / 1000;
}

static void put_gone(struct simba__sql_change *change,
                     const struct simba__waiter *waiter)
{
    if (change->gone_count == 0 || waiter->position < change->gone_first) {
        change->gone_first = waiter->position;
    }
    if (change->gone_count == 0 || waiter->position > change->gone_last) {
        change->gone_last = waiter->position;
    }
    change->gone[change->gone_count++] = waiter->attempt;
}

bool simba__sql_change_find(struct simba__sql_change *change,
                            const struct simba__sql_record *record,
                            const simba_request *asked)
{
    const struct simba__mutex_record *was = &record->was;
    const struct simba__mutex_record *mutex = &record->mutex;
    int64_t now_ms = record->now_us / 1000;
    bool is_waiting = is_waited_for(record);
    bool is_other_tenure = simba__sql_change_tenures(change, record, asked);

    change->come_count = change->gone_count = 0;
    change->version = (record->version + 1) % SIMBA__SQL_VERSIONS;
    change->tomb_until_ms =
        asked->tombstone_ms == 0 ? 0 : now_ms + asked->tombstone_ms;
    /* A request puts at most two into the queue: the one who asks, and one who
     * was offered the mutex and did not come. */
    for (size_t i = 0; i < mutex->queue_count && change->come_count < 2; i++) {
        const struct simba__waiter *is = &mutex->queue[i];
        const struct simba__waiter *before =
            simba__mutex_find_waiter(was, is->attempt);

        if (before == NULL || !is_fresh(record, before, is)) {
            change->come[change->come_count++] = is;
            change->has_slots |= is->slots > 1;
        }
    }
    if (record->is_jvm_noted && change->come_count < 2) {
        change->come[change->come_count++] = &record->jvm;
    }
    if (!simba__array_reserve(&change->gone, &change->gone_room,
                              was->queue_count + 1, sizeof *change->gone)) {
        return false;
    }
    for (size_t i = 0; i < was->queue_count; i++) {
        if (simba__mutex_find_waiter(mutex, was->queue[i].attempt) == NULL) {
            put_gone(change, &was->queue[i]);
        }
    }
    if (record->has_jvm && !record->is_jvm_seen) {
        put_gone(change, &record->jvm);
    }
    /* Will simba_mutex alone say it all? Not of a tenure that is not ours. */
    change->is_quiet = !is_waiting && !mutex->owner.is_broken &&
                       change->tomb_until_ms == 0 &&
                       record->tombs_until_ms < now_ms &&
                       mutex->tenure_token != SIMBA__SQL_ANOTHER &&
                       mutex->former_token != SIMBA__SQL_ANOTHER &&
                       !simba__sql_needs_slots(mutex);
    change->is_any =
        is_other_tenure || !simba__mutex_is_same_offer(was, mutex) ||
        change->come_count > 0 || change->gone_count > 0 ||
        change->tomb_until_ms != 0 || is_waiting != record->is_waiting;
    return true;
}

/* --- parameters ---------------------------------------------------------- */

void simba__sql_add_text(struct simba__sql_params *params, const char *text)
{
    assert(params->count < SIMBA__SQL_PARAMS);
    params->is_number[params->count] = false;
    params->values[params->count++] = text;
}

void simba__sql_add_number(struct simba__sql_params *params, int64_t number)
{
    char *text = params->texts[params->count];

    snprintf(text, sizeof params->texts[0], "%" PRId64, number);
    params->numbers[params->count] = number;
    simba__sql_add_text(params, text);
    params->is_number[params->count - 1] = true;
}

void simba__sql_add_attempt(struct simba__sql_params *params,
                            simba_attempt attempt)
{
    char *text = params->texts[params->count];

    simba__sql_write_attempt(attempt, text);
    simba__sql_add_text(params, text);
}

static void add_waiter(struct simba__sql_params *params,
                       const struct simba__sql_record *record,
                       const struct simba__waiter *waiter)
{
    static const struct simba__waiter nobody;
    const struct simba__sql_peer *peer;

    waiter = waiter == NULL ? &nobody : waiter;
    peer = &record->peers[waiter->connection];
    simba__sql_add_attempt(params, waiter->attempt);
    simba__sql_add_text(params, waiter->id);
    simba__sql_add_text(params, peer->process);
    simba__sql_add_number(params, peer->can_notify);
    simba__sql_add_number(params, (int64_t)waiter->position);
    simba__sql_add_number(params, waiter->lapses_ms);
}

/* The parameters of `apply`, after the mutex; they are named there. */
static bool bind_apply(struct simba__sql_params *params,
                       const struct simba__sql_request *request)
{
    static const simba_attempt crowd = {0, 1};
    const struct simba__sql_record *record = &request->record;
    const struct simba__sql_change *change = &request->change;
    const struct simba__mutex_record *mutex = &record->mutex;
    const simba_owner *shown = &change->shown;
    bool is_free = mutex->owner.id[0] == '\0';
    bool is_crowd = simba__sql_is_crowd(mutex);
    char *end = malloc((change->gone_count + mutex->other_count + 2) *
                           (SIMBA__SQL_HEX + 1) +
                       2);

    if (end == NULL) {
        return false;
    }
    params->gone = end;
    *end = '\0';
    for (size_t i = 0; i < change->gone_count; i++) {
        if (i > 0) {
            *end++ = ',';
        }
        simba__sql_write_attempt(change->gone[i], end);
        end += strlen(end);
    }
    simba__sql_add_number(params, record->version);
    simba__sql_add_number(params, record->transition_at_ms);
    simba__sql_add_text(params, record->row.id);
    simba__sql_add_number(params, shown->acquired_at_ms);
    simba__sql_add_number(params, shown->ttl_at_ms);
    simba__sql_add_number(params, shown->transition_at_ms);
    simba__sql_add_text(params, shown->id);
    simba__sql_add_number(params, change->version);
    simba__sql_add_number(params, (int64_t)(is_free    ? record->token
                                            : is_crowd ? mutex->tenure_token
                                                       : mutex->owner.token));
    /* Of several it is nobody's: no fast statement must take it for its own. */
    simba__sql_add_attempt(params, is_crowd ? crowd : mutex->attempt);
    simba__sql_add_number(params, shown->is_broken);
    simba__sql_add_number(params, is_waited_for(record));
    add_waiter(params, record, mutex->is_offered ? &mutex->offered : NULL);
    simba__sql_add_number(params,
                          mutex->is_offered ? mutex->offered_until_ms : 0);
    simba__sql_add_attempt(params, request->asked->attempt);
    simba__sql_add_number(params, change->tomb_until_ms);
    params->list = params->count;
    simba__sql_add_text(params, params->gone);
    add_waiter(params, record, change->come_count > 0 ? change->come[0] : NULL);
    add_waiter(params, record, change->come_count > 1 ? change->come[1] : NULL);
    /* Processes to notify; our own contenders are told without. */
    for (size_t i = 0; i < 2; i++) {
        const struct simba__sql_peer *peer =
            i < change->wake_count ? &record->peers[change->wakes[i]] : NULL;
        bool is_told = peer != NULL && peer->can_notify &&
                       strcmp(peer->process, request->self->process) != 0;
        bool is_asking = i == 0 && request->asked->kind == SIMBA_HAND_OVER;

        simba__sql_add_text(params, is_asking ? "asked"
                                    : is_told ? peer->process
                                              : "");
    }
    simba__sql_add_number(params, record->now_us / 1000);
    simba__sql_add_number(params, (int64_t)mutex->former_token);
    simba__sql_add_number(params,
                          is_free && mutex->tenure_token == SIMBA__SQL_ANOTHER
                              ? SIMBA__SQL_ANOTHER
                              : 0);
    simba__sql_add_number(params, change->is_quiet ? change->version : -1);
    if (is_crowd) { /* where not all can notify all, who waits must poll */
        simba__sql_add_number(params, record->is_foreign ? 0 : -1);
    } else {
        simba__sql_add_number(params,
                              mutex->owner.token == record->was.owner.token
                                  ? record->account
                                  : -1);
    }
    simba__sql_add_number(params, (int64_t)change->gone_first);
    simba__sql_add_number(params, (int64_t)change->gone_last);
    if (change->has_slots) {
        simba__sql_bind_slots(params, request, end + 1);
    }
    return true;
}

/* Whose tenure is to be ended by force. */
static const char *name_broken(const struct simba__sql_request *request)
{
    const struct simba__tenure *tenure;
    size_t i = 0;

    while ((tenure = simba__mutex_tenure(&request->record.was, i)) != NULL &&
           tenure->owner.token != request->asked->token) {
        i++;
    }
    return tenure == NULL ? "" : tenure->owner.id;
}

bool simba__sql_bind(struct simba__sql_params *params,
                     const struct simba__sql_request *request,
                     enum simba__sql_statement statement)
{
    const simba_request *asked = request->asked;

    params->count = 0;
    params->gone = NULL;
    params->list = 0;
    switch (statement) {
    case SIMBA__SQL_SCHEMA:
    case SIMBA__SQL_UPGRADE:
    case SIMBA__SQL_LIST:
    case SIMBA__SQL_LIST_SLOTS:
    case SIMBA__SQL_DOCTOR:
    case SIMBA__SQL_DOCTOR_TABLES:
        return true;
    case SIMBA__SQL_POLL:
        simba__sql_add_text(params, request->self->process);
        return true;
    case SIMBA__SQL_HEARTBEAT:
        simba__sql_add_text(params, request->self->process);
        simba__sql_add_number(params, asked->waiter_ms);
        params->gone = simba__sql_heartbeat_kept(request->self);
        params->list = params->count;
        simba__sql_add_text(params, params->gone);
        return params->gone != NULL;
    default:
        break;
    }
    simba__sql_add_text(params, asked->mutex);
    switch (statement) {
    case SIMBA__SQL_INSERT_MUTEX:
    case SIMBA__SQL_LIST_BARE:
    case SIMBA__SQL_TOLD:
    case SIMBA__SQL_BREAKS:
        return true;
    case SIMBA__SQL_TELL:
        simba__sql_add_number(params, (int64_t)asked->token);
        simba__sql_add_number(params, asked->ttl_ms + asked->transition_ms);
        simba__sql_add_text(params, asked->reason == NULL ? "" : asked->reason);
        return true;
    case SIMBA__SQL_LOAD_SLOTS:
        simba__sql_add_number(params, request->record.version);
        return true;
    case SIMBA__SQL_APPLY:
    case SIMBA__SQL_APPLY_SLOTS:
        return bind_apply(params, request);
    case SIMBA__SQL_RECORD_BREAK:
        simba__sql_add_number(params, (int64_t)asked->token);
        simba__sql_add_text(params, name_broken(request));
        simba__sql_add_number(params, asked->now);
        simba__sql_add_text(params, asked->reason == NULL ? "" : asked->reason);
        return true;
    default:
        break;
    }
    simba__sql_add_attempt(params, asked->attempt);
    if (statement < SIMBA__SQL_FAST_PATH && asked->kind == SIMBA_ACQUIRE) {
        simba__sql_add_text(params, asked->id);
    }
    if (simba__sql_is_write(statement) && asked->kind != SIMBA_RELEASE) {
        simba__sql_add_number(params, asked->ttl_ms);
        simba__sql_add_number(params, asked->transition_ms);
    }
    if (statement == SIMBA__SQL_SLOT_RENEW) {
        simba__sql_add_number(params, (int32_t)asked->slots);
    }
    if (statement == SIMBA__SQL_OFFER) {
        simba__sql_add_text(params, request->self->process);
        simba__sql_add_number(params, SIMBA__OFFER_MS);
        simba__sql_add_text(params, asked->to == NULL ? "" : asked->to);
    }
    return true;
}

/* --- texts --------------------------------------------------------------- */

void simba__sql_edit_slots(char *text, enum simba__sql_statement statement)
{
    static const char before[] = "/*slots ", after[] = " slots*/";
    const size_t length = sizeof before - 1;
    bool is_in = statement == SIMBA__SQL_APPLY_SLOTS ||
                 statement == SIMBA__SQL_LIST_SLOTS;

    while ((text = strstr(text, before)) != NULL) {
        char *end = strstr(text, after);

        assert(end != NULL && sizeof after == sizeof before);
        memmove(end, end + length, strlen(end + length) + 1);
        memmove(text, is_in ? text + length : end,
                strlen(is_in ? text + length : end) + 1);
    }
}

void simba__sql_edit(char *text,
                     size_t room,
                     const struct simba__sql_edit *edits)
{
    for (; edits->from != NULL; edits++) {
        size_t from = strlen(edits->from), to = strlen(edits->to);

        for (char *at = text; (at = strstr(at, edits->from)) != NULL;
             at += to) {
            assert(strlen(text) - from + to < room);
            memmove(at + to, at + from, strlen(at + from) + 1);
            memcpy(at, edits->to, to);
        }
    }
}
