/* Keys, owners, and transactions put together by the letters of keys. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include "core/name.h"
#include "util/container.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGE = 1000 }; /* keys of a list: at most 1.5 MB */

/* --- keys and owners ----------------------------------------------------- */

int64_t simba__etcd_wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

const char *simba__etcd_key(simba__etcd_txn *txn, char letter)
{
    struct simba__text text = simba__text_fixed(txn->key, sizeof txn->key);
    uint64_t session =
        (uint64_t)(letter == 'S' ? txn->session : txn->self->lease);

    simba__text_printf(&text, "%s%c/", txn->self->settings.prefix,
                       letter == 'S'                      ? 's'
                       : strchr("pfRNQW", letter) != NULL ? 'q'
                       : letter == 'O'                    ? 'o'
                                                          : letter);
    if (strchr("sSOW", letter) == NULL) {
        simba__text_escape(&text, txn->mutex);
    }
    if (strchr("xqpfvbRNQ", letter) != NULL) {
        simba__text_put(&text, "/");
    }
    if (letter == 's' || letter == 'S') {
        simba__text_printf(&text, "%" PRIx64, session);
    } else if (letter == 'x') {
        simba__text_printf(&text, "%016" PRIx64 "%016" PRIx64,
                           txn->attempt.high, txn->attempt.low);
    } else if (letter == 'q') {
        simba__text_printf(&text, "%" PRIx64 "-%u", session, txn->number);
    } else if (letter == 'p' || letter == 'f') {
        simba__text_put(&text, letter == 'p' ? txn->before : txn->first);
    } else if (letter == 'v') {
        simba__text_put(&text, txn->self->clock_id);
    } else if (letter == 'b') {
        simba__text_printf(&text, "%016" PRIx64, txn->token);
    }
    assert(!text.is_failed);
    return txn->key;
}

const char *simba__etcd_owner_write(simba__etcd_owner *owner)
{
    snprintf(owner->text, sizeof owner->text,
             "%016" PRIx64 "%016" PRIx64 " %016" PRIx64 " %" PRIx64 " %" PRId64
             " %" PRId64 " %d %s",
             owner->attempt.high, owner->attempt.low, owner->token,
             owner->session, owner->lease_ms, owner->acquired_at_ms,
             owner->is_broken, owner->id);
    return owner->text;
}

simba__etcd_owner simba__etcd_owner_read(const simba__etcd_kv *kv)
{
    simba__etcd_owner owner = {.is_there = kv->mod != 0, .mod = kv->mod};
    int is_broken = 0, at = 0;

    if (kv->value.length > 0 && kv->value.length < sizeof owner.text) {
        memcpy(owner.text, kv->value.at, kv->value.length);
    }
    if (owner.is_there &&
        /* NOLINTNEXTLINE(cert-err34-c): so many digits fit */
        sscanf(owner.text,
               "%16" SCNx64 "%16" SCNx64 " %16" SCNx64 " %16" SCNx64
               " %18" SCNd64 " %18" SCNd64 " %1d%n",
               &owner.attempt.high, &owner.attempt.low, &owner.token,
               &owner.session, &owner.lease_ms, &owner.acquired_at_ms,
               &is_broken, &at) == 7 &&
        owner.text[at++] == ' ' &&
        simba__name_check_id(owner.text + at, strlen(owner.text + at)) ==
            SIMBA__NAME_FINE) {
        owner.is_broken = is_broken != 0;
        memcpy(owner.id, owner.text + at, strlen(owner.text + at) + 1);
    } else if (owner.is_there) { /* whoever wrote it, it is respected */
        owner.is_unreadable = true;
        owner.lease_ms = SIMBA__ETCD_LEASE_ANY_MS;
        snprintf(owner.id, sizeof owner.id, "(unreadable)");
    }
    return owner;
}

simba_owner simba__etcd_owner_told(const simba__etcd_owner *owner)
{
    simba_owner told = simba_session_owner(owner->is_there ? owner->id : "",
                                           owner->token, owner->acquired_at_ms);

    told.is_broken = owner->is_broken;
    return told;
}

/* --- writing them -------------------------------------------------------- */

void simba__etcd_begin(simba__etcd_txn *txn)
{
    txn->text = simba__rpc_begin(&txn->rpc);
    memset(txn->asked, 0, sizeof txn->asked);
}

/* Compare: 1 result, 2: less; 2 target; 3 key; 5 create, 6 mod, 7 value. */
/* NOLINTNEXTLINE(readability-function-size): each is a part of a Compare */
void simba__etcd_if(simba__etcd_txn *txn,
                    char letter,
                    int condition,
                    int64_t revision,
                    const char *value)
{
    bool is_below = condition == BELOW;
    size_t began = simba__pb_begin(txn->text, 1);

    simba__pb_number(txn->text, 1, is_below ? 2 : 0);
    simba__pb_number(txn->text, 2, is_below ? VALUE : condition);
    simba__pb_text(txn->text, 3, simba__etcd_key(txn, letter));
    simba__pb_number(txn->text, condition == MOD ? 6 : 5, revision);
    simba__pb_text(txn->text, 7, value == NULL ? "" : value);
    simba__pb_end(txn->text, began);
}

/* RequestOp: 1 range, 2 put, 3 delete, 4 transaction. PutRequest: 1 key, 2
 * value, 3 lease. Waiters, tombstones and heartbeats go with their session. */
void simba__etcd_put(simba__etcd_txn *txn,
                     int branch,
                     char letter,
                     const char *value)
{
    size_t began = simba__pb_begin(txn->text, branch);
    size_t put = simba__pb_begin(txn->text, 2);

    simba__pb_text(txn->text, 1, simba__etcd_key(txn, letter));
    simba__pb_text(txn->text, 2, value);
    simba__pb_number(txn->text, 3,
                     strchr("qxs", letter) != NULL ? txn->self->lease : 0);
    simba__pb_end(txn->text, put);
    simba__pb_end(txn->text, began);
}

void simba__etcd_delete(simba__etcd_txn *txn, char letter)
{
    size_t began = simba__pb_begin(txn->text, THEN);
    size_t deletion = simba__pb_begin(txn->text, 3);

    simba__pb_text(txn->text, 1, simba__etcd_key(txn, letter));
    simba__pb_end(txn->text, deletion);
    simba__pb_end(txn->text, began);
}

void simba__etcd_delete_w(simba__etcd_txn *txn)
{
    size_t began = simba__pb_begin(txn->text, THEN);
    size_t nested = simba__pb_begin(txn->text, 4);

    simba__etcd_if(txn, 'w', MOD, txn->create, NULL);
    simba__etcd_delete(txn, 'w');
    simba__pb_end(txn->text, nested);
    simba__pb_end(txn->text, began);
}

/* RangeRequest: 1 key, 2 end, 3 limit, 5 order (1 up, 2 down), 6 by (2
 * creation), 8 keys only, 9 count only, 13 greatest create revision. */
void simba__etcd_get(simba__etcd_txn *txn, int branch, const char *letters)
{
    char *asked = txn->asked[branch - THEN];

    assert(strlen(asked) + strlen(letters) <= SIMBA__ETCD_ASKED);
    memcpy(asked + strlen(asked), letters, strlen(letters) + 1);
    for (; *letters != '\0'; letters++) {
        size_t began = simba__pb_begin(txn->text, branch);
        size_t range = simba__pb_begin(txn->text, 1);
        bool is_order = *letters == 'R';

        (void)simba__etcd_key(txn, *letters);
        simba__pb_text(txn->text, 1, txn->from != NULL ? txn->from : txn->key);
        if (strchr("RNQOW", *letters) != NULL) {
            txn->key[strlen(txn->key) - 1]++; /* what follows on the slash */
            simba__pb_text(txn->text, 2, txn->key);
            simba__pb_number(txn->text, 3,
                             is_order && !txn->is_whole       ? 3
                             : strchr("OW", *letters) != NULL ? PAGE
                                                              : 0);
            simba__pb_number(txn->text, 5, is_order ? 2 : *letters == 'Q');
            simba__pb_number(txn->text, 6, is_order || *letters == 'Q' ? 2 : 0);
            simba__pb_number(txn->text, 8, *letters == 'W');
            simba__pb_number(txn->text, 9, *letters == 'N');
            simba__pb_number(txn->text, 13, is_order ? txn->create : 0);
        }
        simba__pb_end(txn->text, range);
        simba__pb_end(txn->text, began);
    }
}

/* --- replies ------------------------------------------------------------- */

bool simba__etcd_next_kv(simba__pb_bytes *all, simba__etcd_kv *kv)
{
    simba__pb_bytes item;
    simba__pb_fields fields;

    if (!simba__pb_next(all, 2, &item)) {
        return false;
    }
    fields = simba__pb_read(item);
    *kv = (simba__etcd_kv){fields.bytes[1], fields.bytes[5], fields.number[2],
                           fields.number[3], fields.number[4]};
    return !fields.is_broken;
}

/* ResponseOp: 1 range, which has 2 keys and 4 their count. */
bool simba__etcd_next_got(simba__pb_bytes *reply, simba__etcd_got *got)
{
    simba__pb_bytes response, all;
    simba__pb_fields fields;

    do {
        if (!simba__pb_next(reply, 3, &response)) {
            return false;
        }
        fields = simba__pb_read(response);
    } while (!fields.is_broken && fields.count[1] == 0);
    all = fields.bytes[1];
    *got = (simba__etcd_got){.all = all};
    if (!fields.is_broken) {
        fields = simba__pb_read(all);
        got->count = fields.number[4];
        got->here = fields.count[2];
    }
    return !fields.is_broken &&
           (fields.count[2] == 0 || simba__etcd_next_kv(&all, &got->kv));
}

const simba__etcd_got *simba__etcd_got_of(const simba__etcd_txn *txn,
                                          char letter)
{
    static const simba__etcd_got none = {.count = -1};
    const char *asked = txn->asked[txn->is_done ? 0 : 1];
    const char *at = strchr(asked, letter);

    return at == NULL ? &none : &txn->got[at - asked];
}

/* TxnResponse: 1 header, which has 3 the revision; 2 succeeded; 3 responses. */
static bool take(simba__etcd_txn *txn)
{
    simba__pb_bytes rest = txn->rpc.reply;
    simba__pb_fields reply = simba__pb_read(rest);
    const char *asked;

    txn->is_done = reply.number[2] != 0;
    txn->revision = simba__pb_read(reply.bytes[1]).number[3];
    asked = txn->asked[txn->is_done ? 0 : 1];
    for (size_t i = 0; asked[i] != '\0'; i++) {
        if (!simba__etcd_next_got(&rest, &txn->got[i])) {
            return false;
        }
    }
    return true;
}

static void on_reply(simba__rpc *rpc, int status, const simba_error *error)
{
    simba__etcd_txn *txn = container_of(rpc, simba__etcd_txn, rpc);
    simba_error broken;

    if (status == SIMBA_OK && !take(txn)) {
        status = simba_error_set(&broken, SIMBA_EUNKNOWN, 0,
                                 "etcd: a reply that is none");
        error = &broken;
    }
    txn->done(txn, status, error);
}

void simba__etcd_submit(simba__etcd_txn *txn,
                        const simba_request *request,
                        int64_t otherwise_ms)
{
    txn->rpc.method = SIMBA__ETCD_METHOD("KV/Txn");
    txn->rpc.done = on_reply;
    txn->rpc.exchange.deadline_ms = request != NULL
                                        ? request->deadline_ms
                                        : simba_loop_now_ms() + otherwise_ms;
    txn->rpc.exchange.is_driven = request != NULL && request->is_driven;
    simba__rpc_submit(&txn->self->grpc, &txn->rpc);
}
