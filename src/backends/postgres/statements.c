/* The statements of the PostgreSQL store: texts and parameters. */
#define _GNU_SOURCE
#include "backends/postgres/postgres.h"

#include "backends/postgres/sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WITH_LOAD(fast) fast SIMBA__PG_LOAD

static const char *const texts[SIMBA__SQL_STATEMENTS] = {
    [SIMBA__SQL_FAST_ACQUIRE] = WITH_LOAD(SIMBA__PG_FAST_ACQUIRE),
    [SIMBA__SQL_FAST_RENEW] = WITH_LOAD(SIMBA__PG_FAST_RENEW),
    [SIMBA__SQL_FAST_RELEASE] = WITH_LOAD(SIMBA__PG_FAST_RELEASE),
    [SIMBA__SQL_LOAD] = WITH_LOAD(SIMBA__PG_NO_FAST),
    [SIMBA__SQL_LOAD_ALL] = WITH_LOAD(SIMBA__PG_NO_FAST),
    [SIMBA__SQL_APPLY] = SIMBA__PG_APPLY,
    [SIMBA__SQL_ENSURE] = SIMBA__PG_ENSURE,
    [SIMBA__SQL_SCHEMA] = SIMBA__PG_SCHEMA,
    [SIMBA__SQL_LIST] = SIMBA__PG_LIST,
};

/* A statement differs a little from its text when the whole line is asked for,
 * and on tables of an old make. */
const char *simba__pg_text(const struct simba__pg *pg,
                           enum simba__sql_statement statement,
                           char *room)
{
    static const struct simba__sql_edit whole[] = {{"LIMIT 32", ""},
                                                   {NULL, NULL}};
    static const struct simba__sql_edit old[] = {
        {", fencing_token = $10::bigint", ""},
        {"m.fencing_token", "m.version"},
        {NULL, NULL}};

    snprintf(room, SIMBA__PG_TEXT, "%s", texts[statement]);
    if (statement == SIMBA__SQL_LOAD_ALL) {
        simba__sql_edit(room, whole);
    }
    if (pg->sql.has_no_token) {
        simba__sql_edit(room, old);
    }
    return room;
}

/* --- parameters ---------------------------------------------------------- */

static void add_text(struct simba__pg_params *params, const char *text)
{
    params->values[params->count++] = text;
}

static void add_number(struct simba__pg_params *params, int64_t number)
{
    char *text = params->numbers[params->count];

    snprintf(text, sizeof params->numbers[0], "%" PRId64, number);
    params->values[params->count++] = text;
}

static void add_attempt(struct simba__pg_params *params,
                        int slot,
                        struct simba__attempt attempt)
{
    simba__sql_write_attempt(attempt, params->attempts[slot]);
    add_text(params, params->attempts[slot]);
}

static struct simba__attempt attempt_of(const simba_op *op)
{
    return (struct simba__attempt){op->attempt.high, op->attempt.low};
}

static void add_waiter(struct simba__pg_params *params,
                       const struct simba__sql_record *record,
                       const struct simba__row_waiter *waiter,
                       int slot)
{
    static const struct simba__row_waiter nobody;
    const struct simba__sql_peer *peer;

    waiter = waiter == NULL ? &nobody : waiter;
    peer = &record->peers[waiter->connection];
    add_attempt(params, slot, waiter->attempt);
    add_text(params, waiter->id);
    add_text(params, peer->process);
    add_number(params, peer->has_bell);
    add_number(params, (int64_t)waiter->place);
    add_number(params, waiter->lapses_ms);
}

/* An array of attempts. */
static bool add_gone(struct simba__pg_params *params,
                     const struct simba__sql_change *change)
{
    size_t room = change->gone_count * (SIMBA__SQL_HEX + 1) + 3;
    char *at = malloc(room);

    if (at == NULL) {
        return false;
    }
    params->gone = at;
    *at++ = '{';
    for (size_t i = 0; i < change->gone_count; i++) {
        if (i > 0) {
            *at++ = ',';
        }
        simba__sql_write_attempt(change->gone[i], at);
        at += strlen(at);
    }
    memcpy(at, "}", 2);
    add_text(params, params->gone);
    return true;
}

/* Channels of the processes to wake; our own contenders are told without. */
static void add_channels(struct simba__pg_params *params,
                         const struct simba__sql_turn *turn)
{
    const struct simba__sql_change *change = &turn->change;

    for (size_t i = 0; i < 2; i++) {
        const struct simba__sql_peer *peer =
            i < change->ring_count ? &turn->record.peers[change->rings[i]]
                                   : NULL;

        params->channels[i][0] = '\0';
        if (peer != NULL && peer->has_bell &&
            strcmp(peer->process, turn->self->process) != 0) {
            snprintf(params->channels[i], sizeof params->channels[i],
                     "simba_%s", peer->process);
        }
        add_text(params, params->channels[i]);
    }
}

static bool bind_apply(struct simba__pg_params *params,
                       const struct simba__sql_turn *turn)
{
    const struct simba__sql_record *record = &turn->record;
    const struct simba__sql_change *change = &turn->change;
    const struct simba__row *row = &record->row;

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
    add_number(params, row->is_broken);
    add_number(params, row->line_count > 0 || row->is_called);
    add_waiter(params, record, row->is_called ? &row->called : NULL, 1);
    add_number(params, row->is_called ? row->called_until_ms : 0);
    add_text(params, params->op_attempt);
    add_number(params, change->tomb_until_ms);
    if (!add_gone(params, change)) {
        return false;
    }
    add_waiter(params, record, change->come_count > 0 ? change->come[0] : NULL,
               2);
    add_waiter(params, record, change->come_count > 1 ? change->come[1] : NULL,
               3);
    add_channels(params, turn);
    add_number(params, record->now_us / 1000);
    return true;
}

bool simba__pg_bind(struct simba__pg_params *params,
                    const struct simba__sql_turn *turn,
                    enum simba__sql_statement statement)
{
    const simba_op *op = turn->op;

    params->count = 0;
    params->gone = NULL;
    simba__sql_write_attempt(attempt_of(op), params->op_attempt);
    if (statement == SIMBA__SQL_SCHEMA || statement == SIMBA__SQL_LIST) {
        return true;
    }
    add_text(params, op->mutex);
    if (statement == SIMBA__SQL_APPLY) {
        return bind_apply(params, turn);
    }
    if (statement == SIMBA__SQL_ENSURE) {
        return true;
    }
    add_text(params, params->op_attempt);
    if (statement == SIMBA__SQL_FAST_ACQUIRE) {
        add_text(params, op->id);
    }
    if (statement == SIMBA__SQL_FAST_ACQUIRE ||
        statement == SIMBA__SQL_FAST_RENEW) {
        add_number(params, op->ttl_ms);
        add_number(params, op->transition_ms);
    }
    return true;
}
