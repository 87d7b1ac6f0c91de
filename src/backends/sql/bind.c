/* The parameters of statements, the same for every kind of server. */
#include "backends/sql/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_text(struct simba__sql_params *params, const char *text)
{
    params->is_number[params->count] = false;
    params->values[params->count++] = text;
}

static void add_number(struct simba__sql_params *params, int64_t number)
{
    char *text = params->texts[params->count];

    snprintf(text, sizeof params->texts[0], "%" PRId64, number);
    params->is_number[params->count] = true;
    params->numbers[params->count] = number;
    params->values[params->count++] = text;
}

static void add_attempt(struct simba__sql_params *params,
                        int slot,
                        simba_attempt attempt)
{
    simba__sql_write_attempt(attempt, params->attempts[slot]);
    add_text(params, params->attempts[slot]);
}

static simba_attempt attempt_of(const simba_request *request)
{
    return (simba_attempt){request->attempt.high, request->attempt.low};
}

static void add_waiter(struct simba__sql_params *params,
                       const struct simba__sql_record *record,
                       const struct simba__waiter *waiter,
                       int slot)
{
    static const struct simba__waiter nobody;
    const struct simba__sql_peer *peer;

    waiter = waiter == NULL ? &nobody : waiter;
    peer = &record->peers[waiter->connection];
    add_attempt(params, slot, waiter->attempt);
    add_text(params, waiter->id);
    add_text(params, peer->process);
    add_number(params, peer->has_bell);
    add_number(params, (int64_t)waiter->position);
    add_number(params, waiter->lapses_ms);
}

/* Attempts, with commas between. */
static bool add_gone(struct simba__sql_params *params,
                     const struct simba__sql_change *change)
{
    char *at = malloc(change->gone_count * (SIMBA__SQL_HEX + 1) + 1);

    if (at == NULL) {
        return false;
    }
    params->gone = at;
    *at = '\0';
    for (size_t i = 0; i < change->gone_count; i++) {
        if (i > 0) {
            *at++ = ',';
        }
        simba__sql_write_attempt(change->gone[i], at);
        at += strlen(at);
    }
    add_text(params, params->gone);
    return true;
}

/* Processes to wake; our own contenders are told without. */
static void add_rings(struct simba__sql_params *params,
                      const struct simba__sql_turn *turn)
{
    const struct simba__sql_change *change = &turn->change;

    for (size_t i = 0; i < 2; i++) {
        const struct simba__sql_peer *peer =
            i < change->ring_count ? &turn->record.peers[change->rings[i]]
                                   : NULL;
        bool is_told = peer != NULL && peer->has_bell &&
                       strcmp(peer->process, turn->self->process) != 0;

        add_text(params, is_told ? peer->process : "");
    }
}

static bool bind_apply(struct simba__sql_params *params,
                       const struct simba__sql_turn *turn)
{
    const struct simba__sql_record *record = &turn->record;
    const struct simba__sql_change *change = &turn->change;
    const struct simba__mutex_record *row = &record->row;

    add_number(params, record->version);
    add_number(params, record->transition_at_ms);
    add_text(params, record->owner.id);
    add_number(params, row->owner.acquired_at_ms);
    add_number(params, row->owner.ttl_at_ms);
    add_number(params, row->owner.transition_at_ms);
    add_text(params, row->owner.id);
    add_number(params, change->version);
    add_number(params, (int64_t)simba__sql_token_after(record));
    add_attempt(params, 0, row->attempt);
    add_number(params, row->owner.is_broken);
    add_number(params, row->queue_count > 0 || row->is_offered);
    add_waiter(params, record, row->is_offered ? &row->offered : NULL, 1);
    add_number(params, row->is_offered ? row->offered_until_ms : 0);
    add_text(params, params->op_attempt);
    add_number(params, change->tomb_until_ms);
    if (!add_gone(params, change)) {
        return false;
    }
    add_waiter(params, record, change->come_count > 0 ? change->come[0] : NULL,
               2);
    add_waiter(params, record, change->come_count > 1 ? change->come[1] : NULL,
               3);
    add_rings(params, turn);
    add_number(params, record->now_us / 1000);
    add_number(params, (int64_t)row->former_token);
    add_number(params, row->owner.id[0] == '\0' &&
                               row->tenure_token == SIMBA__SQL_ANOTHER
                           ? SIMBA__SQL_ANOTHER
                           : 0);
    add_number(params, change->is_quiet ? change->version : -1);
    add_number(params,
               row->owner.token == record->owner.token ? record->account : -1);
    return true;
}

static void bind_book(struct simba__sql_params *params,
                      const struct simba__sql_turn *turn)
{
    const simba_request *request = turn->request;

    add_number(params, (int64_t)request->token);
    add_text(params, turn->record.owner.id);
    add_number(params, request->now);
    add_text(params, request->reason == NULL ? "" : request->reason);
}

bool simba__sql_bind(struct simba__sql_params *params,
                     const struct simba__sql_turn *turn,
                     enum simba__sql_statement statement)
{
    const simba_request *request = turn->request;

    params->count = 0;
    params->gone = NULL;
    params->list = 0;
    simba__sql_write_attempt(attempt_of(request), params->op_attempt);
    if (statement == SIMBA__SQL_SCHEMA || statement == SIMBA__SQL_UPGRADE ||
        statement == SIMBA__SQL_LIST || statement == SIMBA__SQL_DOCTOR ||
        statement == SIMBA__SQL_DOCTOR_TABLES) {
        return true;
    }
    if (statement == SIMBA__SQL_POLL || statement == SIMBA__SQL_HEARTBEAT) {
        add_text(params, turn->self->process);
        if (statement == SIMBA__SQL_HEARTBEAT) {
            add_number(params, request->waiter_ms);
            params->gone = simba__sql_waiters_kept(turn->self);
            params->list = params->count;
            add_text(params, params->gone);
        }
        return statement == SIMBA__SQL_POLL || params->gone != NULL;
    }
    add_text(params, request->mutex);
    if (statement == SIMBA__SQL_APPLY) {
        return bind_apply(params, turn);
    }
    if (statement == SIMBA__SQL_RECORD_BREAK) {
        bind_book(params, turn);
        return true;
    }
    if (statement == SIMBA__SQL_INSERT_MUTEX ||
        statement == SIMBA__SQL_LIST_BARE) {
        return true;
    }
    add_text(params, params->op_attempt);
    if (request->kind == SIMBA_ACQUIRE && statement < SIMBA__SQL_LOAD) {
        add_text(params, request->id);
    }
    if (request->kind != SIMBA_RELEASE && statement < SIMBA__SQL_LOAD) {
        add_number(params, request->ttl_ms);
        add_number(params, request->transition_ms);
    }
    return true;
}
