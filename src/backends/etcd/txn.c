/* Keys, owners, and transactions, which are put together by the letters of
 * keys: their conditions, what they write, and what they read for the next
 * step. */
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

enum {
    PAGE = 1000, /* keys of a list: at most 1.5 MB */
    LONG = 64    /* queues are not counted each time */
};

/* --- keys and owners ----------------------------------------------------- */

/* The wall clock, for people and tokens. */
static int64_t wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

const char *simba__etcd_key(const simba__etcd_txn *txn,
                            char letter,
                            char key[SIMBA__ETCD_KEY_SIZE])
{
    struct simba__text text = simba__text_fixed(key, SIMBA__ETCD_KEY_SIZE);
    simba__etcd_waiter ours = {(uint64_t)txn->self->lease, txn->number};
    const simba__etcd_waiter *waiter = letter == 'q'   ? &ours
                                       : letter == 'p' ? &txn->before
                                       : letter == 'f' ? &txn->first
                                                       : NULL;

    simba__text_printf(&text, "%s%c/", txn->self->settings.prefix,
                       letter == 'S'                     ? 's'
                       : strchr("gMA", letter) != NULL   ? 'm'
                       : strchr("pfRNQ", letter) != NULL ? 'q'
                       : letter == 'B'                   ? 'b'
                                                         : letter);
    if (strchr("sSA", letter) == NULL) {
        simba__text_escape(&text, txn->mutex);
    }
    if (strchr("xqpfvbmgMRNQ", letter) != NULL ||
        (letter == 'B' && txn->mutex[0] != '\0')) {
        simba__text_put(&text, "/");
    }
    if (letter == 's' || letter == 'S') {
        simba__text_printf(&text, "%" PRIx64,
                           letter == 's' ? ours.session
                                         : (uint64_t)txn->session);
    } else if (letter == 'x') {
        simba__text_printf(&text, "%016" PRIx64 "%016" PRIx64,
                           txn->attempt.high, txn->attempt.low);
    } else if (waiter != NULL) {
        simba__text_printf(&text, "%" PRIx64 "-%u", waiter->session,
                           waiter->number);
    } else if (letter == 'm' || letter == 'g') {
        simba__text_put(&text, letter == 'm' ? txn->member : txn->silent);
    } else if (letter == 'v') {
        simba__text_put(&text, txn->self->clock_id);
    } else if (letter == 'b') {
        simba__text_printf(&text, "%016" PRIx64, txn->token);
    }
    assert(!text.is_failed);
    return key;
}

simba__etcd_waiter simba__etcd_waiter_read(const char *name)
{
    simba__etcd_waiter waiter = {0};
    char again[32];

    /* NOLINTNEXTLINE(cert-err34-c): so many digits fit */
    (void)sscanf(name, "%16" SCNx64 "-%9u", &waiter.session, &waiter.number);
    snprintf(again, sizeof again, "%" PRIx64 "-%u", waiter.session,
             waiter.number);
    if (strcmp(name, again) != 0) { /* no other key is to be meant */
        waiter.session = 0;
    }
    return waiter;
}

/* What o says while there are several owners. Whoever knows of one only reads
 * one that never is silent: it has no session to be seen by, and its lease
 * lasts for 3,000 years. */
#define CROWD_ID "(slots)"
#define CROWD_VALUE                                                            \
    "00000000000000000000000000000000 0000000000000000 0 99999999999999 0 "    \
    "0 " CROWD_ID

/* Puts its `text` together. */
static const char *owner_write(simba__etcd_owner *owner)
{
    snprintf(owner->text, sizeof owner->text,
             "%016" PRIx64 "%016" PRIx64 " %016" PRIx64 " %" PRIx64 " %" PRId64
             " %" PRId64 " %d %s%s%s",
             owner->attempt.high, owner->attempt.low, owner->token,
             owner->session, owner->lease_ms, owner->acquired_at_ms,
             owner->is_broken, owner->id, owner->asked[0] != '\0' ? "\n" : "",
             owner->asked);
    return owner->text;
}

void simba__etcd_key_name(const simba__etcd_kv *kv,
                          char name[SIMBA__ETCD_MEMBER])
{
    const char *slash =
        kv->key.length > 0 ? memrchr(kv->key.at, '/', kv->key.length) : NULL;
    size_t length =
        slash == NULL ? 0 : (size_t)(kv->key.at + kv->key.length - slash) - 1;

    length = length < SIMBA__ETCD_MEMBER ? length : 0;
    if (length > 0) {
        memcpy(name, slash + 1, length);
    }
    name[length] = '\0';
}

simba__etcd_owner simba__etcd_owner_read(const simba__etcd_kv *kv)
{
    simba__etcd_owner owner = {
        .is_there = kv->mod != 0, .create = kv->create, .mod = kv->mod};
    int is_broken = 0, at = 0;
    char id[sizeof owner.text], *asked;

    if (kv->value.length > 0 && kv->value.length < sizeof owner.text) {
        memcpy(owner.text, kv->value.at, kv->value.length);
    }
    /* NOLINTNEXTLINE(cert-err34-c): so many digits fit */
    if (sscanf(owner.text,
               "%16" SCNx64 "%16" SCNx64 " %16" SCNx64 " %16" SCNx64
               " %18" SCNd64 " %18" SCNd64 " %1d%n",
               &owner.attempt.high, &owner.attempt.low, &owner.token,
               &owner.session, &owner.lease_ms, &owner.acquired_at_ms,
               &is_broken, &at) != 7 ||
        owner.text[at++] != ' ') {
        at = (int)strlen(owner.text);
    }
    memcpy(id, owner.text + at, sizeof id - (size_t)at);
    asked = strchr(id, '\n');
    if (asked != NULL) {
        *asked++ = '\0';
        snprintf(owner.asked, sizeof owner.asked, "%s", asked);
    }
    if (simba__name_check_id(id, strlen(id)) == SIMBA__NAME_FINE) {
        owner.is_crowd =
            simba__attempt_equal(owner.attempt, (simba_attempt){0, 0}) &&
            owner.token == 0 && strcmp(id, CROWD_ID) == 0;
        owner.is_broken = is_broken != 0;
        memcpy(owner.id, id, strlen(id) + 1);
    } else if (owner.is_there) { /* whoever wrote it, it is respected */
        owner.is_unreadable = true;
        owner.lease_ms = SIMBA__ETCD_LEASE_ANY_MS;
        snprintf(owner.id, sizeof owner.id, "(unreadable)");
    }
    simba__etcd_key_name(kv, owner.name);
    return owner;
}

simba__etcd_owner simba__etcd_member_read(const simba__etcd_kv *kv)
{
    simba__etcd_owner owner = simba__etcd_owner_read(kv);

    owner.slots = (uint32_t)strtoul(owner.name, NULL, 10);
    return owner;
}

simba_owner simba__etcd_owner_told(const simba__etcd_owner *owner)
{
    bool is_offer = owner->is_broken && owner->token == 0;
    simba_owner told = is_offer || !owner->is_there
                           ? simba_owner_none()
                           : simba_session_owner(owner->id, owner->token,
                                                 owner->acquired_at_ms);

    told.is_broken = owner->is_broken && !is_offer;
    told.is_asked = owner->asked[0] != '\0';
    told.slots = owner->slots;
    told.slot = owner->slots != 0 ? SIMBA_NO_SLOT : 0;
    return told;
}

/* --- putting them together ----------------------------------------------- */

static void begin(simba__etcd_txn *txn)
{
    txn->text = simba__rpc_begin(&txn->rpc);
    txn->rpc.method = SIMBA__ETCD_METHOD("KV/Txn");
    memset(txn->asked, 0, sizeof txn->asked);
}

/* Compare: 1 result, 2: less; 2 target; 3 key; 5 create, 6 mod, 7 value. A
 * revision of 0: it is absent. */
enum { CREATE = 1, MOD, VALUE, BELOW };

/* NOLINTNEXTLINE(readability-function-size): each is a part of a Compare */
static void when(simba__etcd_txn *txn,
                 char letter,
                 int condition,
                 int64_t revision,
                 const char *value)
{
    int target = condition == BELOW ? VALUE : condition;
    size_t began = simba__pb_begin(txn->text, 1);
    char key[SIMBA__ETCD_KEY_SIZE];

    simba__pb_number(txn->text, 1, condition == BELOW ? 2 : 0);
    simba__pb_number(txn->text, 2, target);
    simba__pb_text(txn->text, 3, simba__etcd_key(txn, letter, key));
    simba__pb_number(txn->text, target + 4, revision);
    simba__pb_text(txn->text, 7, value == NULL ? "" : value);
    simba__pb_end(txn->text, began);
}

/* RequestOp: 1 range, 2 put, 3 delete, 4 transaction. PutRequest: 1 key, 2
 * value, 3 lease. Waiters, tombstones and heartbeats go with their session. A
 * value of NULL: it is deleted. */
static void put(simba__etcd_txn *txn,
                int branch,
                char letter,
                const char *value)
{
    size_t began = simba__pb_begin(txn->text, branch);
    size_t op = simba__pb_begin(txn->text, value == NULL ? 3 : 2);
    char key[SIMBA__ETCD_KEY_SIZE];

    simba__pb_text(txn->text, 1, simba__etcd_key(txn, letter, key));
    if (value != NULL) {
        simba__pb_text(txn->text, 2, value);
        simba__pb_number(txn->text, 3,
                         strchr("qxs", letter) != NULL ? txn->self->lease : 0);
    }
    simba__pb_end(txn->text, op);
    simba__pb_end(txn->text, began);
}

/* If we came last. */
static void delete_w(simba__etcd_txn *txn)
{
    size_t began = simba__pb_begin(txn->text, THEN);
    size_t nested = simba__pb_begin(txn->text, 4);

    when(txn, 'w', MOD, txn->create, NULL);
    put(txn, THEN, 'w', NULL);
    simba__pb_end(txn->text, nested);
    simba__pb_end(txn->text, began);
}

/* None between these. Compare: 64 end of a range. */
static void when_none(simba__etcd_txn *txn, const char *from, const char *end)
{
    size_t began = simba__pb_begin(txn->text, 1);

    simba__pb_number(txn->text, 2, CREATE);
    simba__pb_text(txn->text, 3, from);
    simba__pb_text(txn->text, 64, end);
    simba__pb_end(txn->text, began);
}

/* There are several owners still, and who knows of one only has not taken it.
 */
static void when_crowd(simba__etcd_txn *txn)
{
    when(txn, 'o', VALUE, 0, CROWD_VALUE);
}

/* One of several owners goes, and with the last of them o, if it is theirs. */
static void delete_member(simba__etcd_txn *txn, char letter)
{
    char key[SIMBA__ETCD_KEY_SIZE], behind[SIMBA__ETCD_KEY_SIZE + 1];
    char first[SIMBA__ETCD_KEY_SIZE], end[SIMBA__ETCD_KEY_SIZE];
    size_t began[2], nested[2];

    put(txn, THEN, letter, NULL);
    began[0] = simba__pb_begin(txn->text, THEN);
    nested[0] = simba__pb_begin(txn->text, 4);
    when_crowd(txn);
    began[1] = simba__pb_begin(txn->text, THEN);
    nested[1] = simba__pb_begin(txn->text, 4);
    when_none(txn, simba__etcd_key(txn, 'M', first),
              simba__etcd_key(txn, letter, key));
    snprintf(behind, sizeof behind, "%s\1", key);
    memcpy(end, first, sizeof end);
    end[strlen(end) - 1]++; /* what follows on the slash */
    when_none(txn, behind, end);
    put(txn, THEN, 'o', NULL);
    put(txn, ELSE, 'o', CROWD_VALUE);
    for (int i = 1; i >= 0; i--) {
        simba__pb_end(txn->text, nested[i]);
        simba__pb_end(txn->text, began[i]);
    }
}

/* All keys and ranges of these letters. RangeRequest: 1 key, 2 end, 3 limit, 5
 * order (1 up, 2 down), 6 by (2 creation), 9 count only, 13 greatest create
 * revision. */
static void get(simba__etcd_txn *txn, int branch, const char *letters)
{
    char *asked = txn->asked[branch - THEN];

    assert(strlen(asked) + strlen(letters) <= SIMBA__ETCD_ASKED);
    memcpy(asked + strlen(asked), letters, strlen(letters) + 1);
    for (; *letters != '\0'; letters++) {
        size_t began = simba__pb_begin(txn->text, branch);
        size_t range = simba__pb_begin(txn->text, 1);
        bool is_newest_first = *letters == 'R' || *letters == 'B';
        bool is_oldest_first = *letters == 'Q' || *letters == 'M';
        char key[SIMBA__ETCD_KEY_SIZE];

        (void)simba__etcd_key(txn, *letters, key);
        simba__pb_text(txn->text, 1, txn->from != NULL ? txn->from : key);
        if (*letters == 'A') { /* from m to q, where only o is between */
            key[strlen(key) - 2] = 'q';
        }
        if (strchr("RNQMAB", *letters) != NULL) {
            key[strlen(key) - 1]++; /* what follows on the slash */
            simba__pb_text(txn->text, 2, key);
            simba__pb_number(txn->text, 3,
                             *letters == 'R' && !txn->is_whole    ? 3
                             : *letters == 'A' || *letters == 'B' ? PAGE
                                                                  : 0);
            simba__pb_number(txn->text, 5,
                             is_newest_first ? 2 : is_oldest_first);
            simba__pb_number(txn->text, 6,
                             is_newest_first || is_oldest_first ? 2 : 0);
            simba__pb_number(txn->text, 9, *letters == 'N');
            simba__pb_number(txn->text, 13, *letters == 'R' ? txn->create : 0);
        }
        simba__pb_end(txn->text, range);
        simba__pb_end(txn->text, began);
    }
}

/* --- the transactions: README.md has them in a table --------------------- */

typedef simba__etcd_entry entry_t;

/* What all writes of an attempt depend on: it was not undone, and our session
 * is the one that it began with. */
static void if_alive(simba__etcd_txn *txn)
{
    when(txn, 'x', CREATE, 0, NULL);
    when(txn, 's', CREATE, txn->self->create, NULL);
}

/* Who suffers others has a key of its own. */
static char own_letter(const simba_entry *entry)
{
    return entry->slots != 0 ? 'm' : 'o';
}

/* Of a silent owner also by its value: after a restore revisions come again.
 * S4: the token is above every one that was ever granted, as far as the clocks
 * of those who are granted did not go back over a restore. */
static void write_grant(entry_t *e)
{
    simba__etcd_step *step = e->step;
    simba__etcd_txn *txn = &step->txn;
    simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);
    const simba__etcd_owner *seen = &step->owner;
    uint64_t above = e->base.acquire == NULL ? 0 : e->base.acquire->token_above;
    uint64_t now_us = (uint64_t)wall_us();
    bool is_queued = txn->create != 0, is_crowd = step->crowd_mod != 0;
    bool is_named = is_queued && !e->base.is_head;
    char token[24];

    above = above > mutex->last_token ? above : mutex->last_token;
    step->mine =
        (simba__etcd_owner){.is_there = true,
                            .attempt = e->base.attempt,
                            .slots = e->base.slots,
                            .token = now_us > above ? now_us : above + 1,
                            .session = (uint64_t)txn->self->lease,
                            .lease_ms = e->base.lease_ms,
                            .acquired_at_ms = (int64_t)now_us / 1000};
    snprintf(step->mine.id, sizeof step->mine.id, "%s", e->step->id);
    e->base.token = step->mine.token; /* should the reply be lost */
    snprintf(token, sizeof token, "%016" PRIx64, step->mine.token);
    when(txn, 'o', MOD, is_crowd ? step->crowd_mod : seen->mod, NULL);
    if (seen->is_there && !seen->is_unreadable && !is_crowd) {
        when(txn, 'o', VALUE, 0, seen->text);
    }
    if (seen->is_there && !seen->is_broken && !is_crowd) {
        txn->session = (int64_t)seen->session;
        when(txn, 'S', MOD, mutex->sighting.beat, NULL);
    }
    when(txn, is_queued ? 'q' : 'w', is_queued ? CREATE : MOD,
         is_queued ? txn->create : step->waiting_mod, NULL);
    if_alive(txn);
    when(txn, 't', mutex->has_no_token ? CREATE : BELOW, 0,
         mutex->has_no_token ? NULL : token);
    if (e->base.slots != 0) {
        snprintf(step->mine.name, sizeof step->mine.name, "%u-%" PRIx64 "-%u",
                 (unsigned)e->base.slots, step->mine.session, e->base.number);
        put(txn, THEN, 'o', CROWD_VALUE);
    }
    put(txn, THEN, own_letter(&e->base), owner_write(&step->mine));
    if (is_named) { /* those behind it are not the first now */
        snprintf(token, sizeof token, "%016" PRIx64 "n", step->mine.token);
    }
    put(txn, THEN, 't', token);
    if (is_queued) {
        put(txn, THEN, 'q', NULL);
    }
    if (is_queued && !is_named) {
        delete_w(txn);
    } else if (!is_queued && step->waiting_mod != 0) {
        put(txn, THEN, 'w', NULL);
    }
    if (step->has_looked && !is_queued) { /* by what was kept of it */
        put(txn, THEN, 'v', NULL);
    }
    /* Short; a look tells the rest. */
    get(txn, ELSE, e->base.slots != 0 ? "otwM" : "otw");
}

static void write_refresh(entry_t *e)
{
    simba__etcd_step *step = e->step;
    simba__etcd_txn *txn = &step->txn;

    if (simba__etcd_is_mine(e, &step->owner)) { /* and was not told */
        step->mine = step->owner;
        e->base.token = step->mine.token;
    }
    when(txn, own_letter(&e->base), VALUE, 0, step->mine.text);
    if (e->base.slots != 0) {
        when_crowd(txn);
    }
    if_alive(txn);
    step->mine.session = (uint64_t)txn->self->lease;
    step->mine.lease_ms = e->base.lease_ms;
    put(txn, THEN, own_letter(&e->base), owner_write(&step->mine));
    get(txn, ELSE, "s");
}

/* Under the number of an earlier join that was not answered. */
static void write_join(entry_t *e)
{
    simba__etcd_txn *txn = &e->step->txn;
    simba__etcd_owner waiter = {.attempt = e->base.attempt,
                                .lease_ms = e->base.slots,
                                .acquired_at_ms = wall_us() / 1000};

    e->is_joined = true;
    txn->number = e->base.number;
    when(txn, 'q', CREATE, 0, NULL);
    if_alive(txn);
    get(txn, THEN, /* before they change */
        simba__etcd_mutex_of(e)->ahead > LONG ? "w" : "wN");
    snprintf(waiter.id, sizeof waiter.id, "%s", e->step->id);
    put(txn, THEN, 'q', owner_write(&waiter));
    snprintf(waiter.id, sizeof waiter.id, "%" PRIx64 "-%u",
             (uint64_t)txn->self->lease, txn->number);
    put(txn, THEN, 'w', owner_write(&waiter));
    get(txn, ELSE, "qxs");
}

/* By the keys that matter to us, and if these do not tell by the whole queue,
 * which a server reads from end to end. */
static void write_look(entry_t *e)
{
    simba__etcd_txn *txn = &e->step->txn;
    char letters[SIMBA__ETCD_ASKED + 1];

    snprintf(letters, sizeof letters, "sotx%c%s%s%s",
             e->step->crowd_mod != 0 ? 'M' : 'S', txn->number != 0 ? "q" : "vw",
             e->before != NULL ? "p" : "", e->has_order ? "" : "R");
    /* Most likely the one before owns it, now that it is gone. */
    txn->session = (int64_t)(e->base.is_unwatched && e->before != NULL
                                 ? e->before->who.session
                                 : simba__etcd_mutex_of(e)->session);
    e->base.is_unwatched = false;
    get(txn, THEN, letters);
}

/* Of an owner by what it wrote; of a waiter, or of one that may be anything
 * after a lost reply, by looking. A tombstone is also for what may come late
 * and was never asked to be undone. */
static void write_remove(entry_t *e)
{
    simba__etcd_step *step = e->step;
    simba__etcd_txn *txn = &step->txn;
    bool is_free = e->is_owner;
    bool is_entombed =
        !step->is_full && !txn->self->is_closing &&
        (e->base.is_doubted ||
         (e->base.release != NULL && e->base.release->tombstone_ms > 0));
    const char *heir = simba__etcd_heir_of(e);
    simba__etcd_owner offer;

    step->owner.is_there = false;
    if (is_free) {
        when(txn, own_letter(&e->base), VALUE, 0, step->mine.text);
    }
    if (is_free && e->base.slots != 0) {
        delete_member(txn, 'm');
    } else if (heir != NULL) {
        offer = simba__etcd_offer(heir);
        offer.acquired_at_ms = wall_us() / 1000;
        put(txn, THEN, 'o', owner_write(&offer));
        get(txn, THEN, "Q");
    } else if (is_free) {
        put(txn, THEN, 'o', NULL);
    } else if (txn->create != 0) {
        when(txn, 'q', CREATE, txn->create, NULL);
        if (e->base.is_head) {
            delete_w(txn);
        }
    }
    if (!is_free && txn->number != 0) {
        put(txn, THEN, 'q', NULL);
    }
    for (int branch = THEN; branch <= ELSE; branch++) {
        if (is_entombed) {
            put(txn, branch, 'x', "");
        }
        if (!is_free || branch == ELSE) {
            get(txn, branch, e->base.slots != 0 ? "m" : "o");
        }
    }
}

/* Of a member by its value as well: after a restore revisions come again. */
static void write_oust(entry_t *e)
{
    const simba__etcd_owner *owner = &e->step->owner;
    simba__etcd_txn *txn = &e->step->txn;

    txn->silent = owner->name;
    when(txn, 'g', MOD, owner->mod, NULL);
    if (!owner->is_unreadable) {
        when(txn, 'g', VALUE, 0, owner->text);
    }
    delete_member(txn, 'g');
}

/* The offer goes, if its successor does not wait. Else it is woken: a put of
 * the key before its own, which changes nothing. PutRequest: 5 and 6: keep the
 * value and lease. */
static void write_name(entry_t *e)
{
    simba__etcd_txn *txn = &e->step->txn;
    struct simba__text *text = txn->text;
    char key[SIMBA__ETCD_KEY_SIZE];
    size_t began, op;

    if (e->step->heir_create == 0) {
        when(txn, 'o', MOD, txn->revision, NULL); /* as we wrote it */
        put(txn, THEN, 'o', NULL);
    } else {
        when(txn, 'p', CREATE, e->step->heir_create, NULL);
        began = simba__pb_begin(text, THEN);
        op = simba__pb_begin(text, 2);
        simba__pb_text(text, 1, simba__etcd_key(txn, 'p', key));
        simba__pb_number(text, 5, 1);
        simba__pb_number(text, 6, 1);
        simba__pb_end(text, op);
        simba__pb_end(text, began);
    }
}

static void write_eviction(entry_t *e)
{
    simba__etcd_txn *txn = &e->step->txn;

    when(txn, 'o', CREATE, 0, NULL);
    when(txn, 'f', CREATE, simba__etcd_mutex_of(e)->first->create, NULL);
    put(txn, THEN, 'f', NULL);
}

static void write_kept(entry_t *e)
{
    char text[SIMBA_SIGHTING_TEXT];

    simba_sighting_write(&simba__etcd_mutex_of(e)->sighting, text);
    put(&e->step->txn, THEN, 'v', text);
}

void simba__etcd_write(simba__etcd_entry *e, enum simba__etcd_action action)
{
    static void (*const write[])(entry_t *) = {
        [GRANT] = write_grant,    [REFRESH] = write_refresh,
        [JOIN] = write_join,      [LOOK] = write_look,
        [EVICT] = write_eviction, [KEEP] = write_kept,
        [REMOVE] = write_remove,  [OUST] = write_oust,
        [NAME] = write_name};

    begin(&e->step->txn);
    write[action](e);
}

void simba__etcd_write_renewal(simba__etcd_txn *txn,
                               simba_entry *const *entries,
                               int count)
{
    char beat[24];

    begin(txn);
    snprintf(beat, sizeof beat, "%lld", (long long)simba_loop_now_ms());
    when(txn, 's', CREATE, txn->self->create, NULL);
    put(txn, THEN, 's', beat);
    get(txn, ELSE, "s");
    for (int i = 0; i < count; i++) {
        const simba__etcd_entry *e = (const simba__etcd_entry *)entries[i];
        const char *mine = e->is_owner ? e->step->mine.text : ""; /* in vain */

        txn->mutex = simba_session_mutex_name(entries[i]->mutex);
        txn->asked[1][0] = '\0'; /* read in on_renewed() */
        if (entries[i]->slots != 0) {
            txn->member = e->is_owner ? e->step->mine.name : "";
            when_crowd(txn);
            put(txn, THEN, 'm', mine);
        }
        when(txn, own_letter(entries[i]), VALUE, 0, mine);
        get(txn, ELSE, entries[i]->slots != 0 ? "om" : "o");
    }
    txn->asked[1][0] = '\0';
}

void simba__etcd_write_break(simba__etcd_txn *txn,
                             char letter,
                             simba__etcd_owner *owner,
                             const simba_request *request)
{
    char line[SIMBA__ETCD_KEY_SIZE];

    txn->token = owner->token;
    txn->silent = owner->name;
    begin(txn);
    when(txn, letter, MOD, owner->mod, NULL);
    if (!request->now) {
        owner->is_broken = true;
        put(txn, THEN, letter, owner_write(owner));
    } else if (letter == 'g') {
        delete_member(txn, 'g');
    } else {
        put(txn, THEN, 'o', NULL);
    }
    snprintf(line, sizeof line, "%lld%s %s\n%.500s",
             (long long)(wall_us() / 1000), request->now ? "!" : "", owner->id,
             request->reason == NULL ? "" : request->reason);
    put(txn, THEN, 'b', line);
}

void simba__etcd_write_asked(simba__etcd_txn *txn, simba__etcd_owner *owner)
{
    begin(txn);
    when(txn, 'o', MOD, owner->mod, NULL);
    put(txn, THEN, 'o', owner_write(owner));
}

void simba__etcd_write_look(simba__etcd_txn *txn, const char *letters)
{
    begin(txn);
    get(txn, THEN, letters);
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
    *kv = (simba__etcd_kv){fields.bytes[1],  fields.bytes[5],  fields.number[2],
                           fields.number[3], fields.number[4], false};
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

simba__etcd_got simba__etcd_got_of(const simba__etcd_txn *txn, char letter)
{
    const char *asked = txn->asked[txn->is_done ? 0 : 1];
    const char *at = strchr(asked, letter);
    simba__pb_bytes rest = txn->rpc.reply;
    simba__etcd_got got = {.count = -1};

    for (; at != NULL && asked <= at; asked++) {
        (void)simba__etcd_next_got(&rest, &got); /* take() has tried it */
    }
    return got;
}

/* TxnResponse: 1 header, which has 3 the revision; 2 succeeded; 3 responses. */
static bool take(simba__etcd_txn *txn)
{
    simba__pb_bytes rest = txn->rpc.reply;
    simba__pb_fields reply = simba__pb_read(rest);
    simba__etcd_got got;
    const char *asked;

    txn->is_done = reply.number[2] != 0;
    txn->revision = simba__pb_read(reply.bytes[1]).number[3];
    asked = txn->asked[txn->is_done ? 0 : 1];
    for (size_t i = 0; asked[i] != '\0'; i++) {
        if (!simba__etcd_next_got(&rest, &got)) {
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
    txn->rpc.done = on_reply;
    txn->rpc.exchange.deadline_ms = request != NULL
                                        ? request->deadline_ms
                                        : simba_loop_now_ms() + otherwise_ms;
    txn->rpc.exchange.is_driven = request != NULL && request->is_driven;
    simba__rpc_submit(&txn->self->grpc, &txn->rpc);
}
