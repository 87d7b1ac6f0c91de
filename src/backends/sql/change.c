/* Finds what has changed in a mutex; see record.h. What has not changed is not
 * written, so that those who merely wait cost no disk. */
#include "backends/sql/record.h"

#include <stdlib.h>
#include <string.h>

static bool is_same_owner(const struct simba__sql_record *record)
{
    const struct simba__mutex_record *row = &record->row;

    return strcmp(record->owner.id, row->owner.id) == 0 &&
           record->owner.acquired_at_ms == row->owner.acquired_at_ms &&
           record->owner.ttl_at_ms == row->owner.ttl_at_ms &&
           record->owner.transition_at_ms == row->owner.transition_at_ms &&
           record->owner.token == row->owner.token &&
           record->owner.is_broken == row->owner.is_broken &&
           simba__attempt_equal(record->attempt, row->attempt);
}

static bool is_same_call(const struct simba__sql_record *record)
{
    const struct simba__mutex_record *row = &record->row;

    return record->is_offered == row->is_offered &&
           (!row->is_offered ||
            (record->called_until_ms == row->offered_until_ms &&
             simba__attempt_equal(record->called.attempt,
                                  row->offered.attempt)));
}

/* --- the line ------------------------------------------------------------ */

static const struct simba__waiter *find(const struct simba__waiter *line,
                                        size_t count,
                                        simba_attempt attempt)
{
    for (size_t i = 0; i < count; i++) {
        if (simba__attempt_equal(line[i].attempt, attempt)) {
            return &line[i];
        }
    }
    return NULL;
}

/* Of a waiter that merely asks again the row is left alone, as long as over
 * half of its waiter lease is left. */
static bool is_fresh(const struct simba__sql_record *record,
                     const struct simba__waiter *was,
                     const struct simba__waiter *is)
{
    const struct simba__sql_peer *before = &record->peers[was->connection];
    const struct simba__sql_peer *after = &record->peers[is->connection];
    int64_t now_ms = record->now_us / 1000;

    return was->position == is->position &&
           was->lapses_ms - now_ms > (is->lapses_ms - now_ms) / 2 &&
           before->has_bell == after->has_bell &&
           strcmp(before->process, after->process) == 0;
}

int64_t simba__sql_change_life(const struct simba__sql_change *change,
                               const simba_request *request,
                               const struct simba__sql_record *record)
{
    simba_attempt me = {request->attempt.high, request->attempt.low};
    const struct simba__waiter *was =
        find(record->line, record->line_count, me);

    for (size_t i = 0; i < change->come_count; i++) {
        if (simba__attempt_equal(change->come[i]->attempt, me)) {
            return request->waiter_ms;
        }
    }
    return was == NULL ? 0 : was->lapses_ms - record->now_us / 1000;
}

/* A request puts at most two into the line: the one who asks, and one who was
 * called and did not come. */
static void find_come(struct simba__sql_change *change,
                      const struct simba__sql_record *record)
{
    const struct simba__mutex_record *row = &record->row;

    for (size_t i = 0; i < row->queue_count && change->come_count < 2; i++) {
        const struct simba__waiter *was =
            find(record->line, record->line_count, row->queue[i].attempt);

        if (was == NULL || !is_fresh(record, was, &row->queue[i])) {
            change->come[change->come_count++] = &row->queue[i];
        }
    }
}

static bool find_gone(struct simba__sql_change *change,
                      const struct simba__sql_record *record)
{
    const struct simba__mutex_record *row = &record->row;
    simba_attempt *grown;

    if (record->line_count > change->gone_room) {
        grown = realloc(change->gone, record->line_count * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        change->gone = grown;
        change->gone_room = record->line_count;
    }
    for (size_t i = 0; i < record->line_count; i++) {
        if (find(row->queue, row->queue_count, record->line[i].attempt) ==
            NULL) {
            change->gone[change->gone_count++] = record->line[i].attempt;
        }
    }
    return true;
}

uint64_t simba__sql_token_after(const struct simba__sql_record *record)
{
    const simba_owner *owner = &record->row.owner;

    return owner->id[0] != '\0' ? owner->token : record->token;
}

/* Will simba_mutex alone say it all? Not of a tenure that is not ours. */
static bool is_quiet(const struct simba__sql_change *change,
                     const struct simba__sql_record *record)
{
    const struct simba__mutex_record *row = &record->row;

    return row->queue_count == 0 && !row->is_offered && !row->owner.is_broken &&
           change->tomb_until_ms == 0 &&
           record->tombs_until_ms < record->now_us / 1000 &&
           row->tenure_token != SIMBA__SQL_ANOTHER &&
           row->former_token != SIMBA__SQL_ANOTHER;
}

/* --- the whole ----------------------------------------------------------- */

bool simba__sql_change_find(struct simba__sql_change *change,
                            const struct simba__sql_record *record,
                            const simba_request *request)
{
    const struct simba__mutex_record *row = &record->row;
    bool is_waiting = row->queue_count > 0 || row->is_offered;

    change->come_count = change->gone_count = 0;
    change->version = (record->version + 1) % SIMBA__SQL_VERSIONS;
    change->tomb_until_ms = request->tombstone_ms == 0
                                ? 0
                                : record->now_us / 1000 + request->tombstone_ms;
    find_come(change, record);
    if (!find_gone(change, record)) {
        return false;
    }
    change->is_quiet = is_quiet(change, record);
    change->is_any = !is_same_owner(record) || !is_same_call(record) ||
                     change->come_count > 0 || change->gone_count > 0 ||
                     change->tomb_until_ms != 0 ||
                     is_waiting != record->is_waiting;
    return true;
}
