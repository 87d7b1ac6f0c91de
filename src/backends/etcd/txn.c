/* Keys, owners, and transactions put together by the letters of keys. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include "core/name.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char letters[] = "otwxqvbsSp"; /* of single keys */

int64_t simba__etcd_wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

/* --- keys and owners ----------------------------------------------------- */

void simba__etcd_clock_id(char id[SIMBA__ETCD_CLOCK_ID])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    struct stat namespace = {0};

    if (fd < 0 || read(fd, id, 36) != 36) {
        snprintf(id, SIMBA__ETCD_CLOCK_ID, "%018ld%018" PRId64, (long)getpid(),
                 simba__etcd_wall_us());
    }
    if (fd >= 0) {
        close(fd);
    }
    (void)stat("/proc/self/ns/time", &namespace);
    snprintf(id + 36, SIMBA__ETCD_CLOCK_ID - 36, "-%" PRIx64,
             (uint64_t) namespace.st_ino);
}

void simba__etcd_key(const struct simba__etcd_transaction *txn,
                     char letter,
                     char key[SIMBA__ETCD_KEY_SIZE])
{
    struct simba__text text = simba__text_fixed(key, SIMBA__ETCD_KEY_SIZE);
    int64_t session = letter == 'S' ? txn->session : txn->self->lease;

    if (letter == 'p') {
        simba__text_put(&text, txn->before);
        return;
    }
    simba__text_printf(&text, "%s%c/", txn->self->settings.prefix,
                       letter == 'S' ? 's' : letter);
    if (letter == 's' || letter == 'S') {
        simba__text_printf(&text, "%" PRIx64, session);
        return;
    }
    simba__text_escape(&text, txn->mutex);
    if (letter == 'x') {
        simba__text_printf(&text, "/%016" PRIx64 "%016" PRIx64,
                           txn->attempt.high, txn->attempt.low);
    } else if (letter == 'q') {
        simba__text_printf(&text, "/%" PRIx64 "-%u", session, txn->waiter);
    } else if (letter == 'v' || letter == 'b') {
        simba__text_printf(&text, "/%s",
                           letter == 'v' ? txn->self->clock_id : txn->book);
    }
    assert(!text.is_failed);
}

/* They are used again when they are free: names that were never used before
 * would fill the server's index until it is compacted. */
unsigned simba__etcd_free_number(const simba_entry *entry)
{
    const struct simba__etcd_entry *all =
        (struct simba__etcd_entry *)entry->mutex->entries;
    unsigned number = ((const struct simba__etcd_entry *)entry)->txn.waiter + 1;
    unsigned most = number + 1;
    bool *used;

    for (const simba_entry *e = &all->base; e != NULL; e = e->next) {
        most++;
    }
    used = calloc(most, sizeof *used);
    for (const simba_entry *e = &all->base; used != NULL && e != NULL;
         e = e->next) {
        unsigned waiter = ((const struct simba__etcd_entry *)e)->txn.waiter;

        used[waiter < most ? waiter : 0] = true;
    }
    while (used != NULL && used[number]) {
        number++;
    }
    free(used);
    return number;
}

void simba__etcd_owner_write(const struct simba__etcd_owner *owner,
                             char value[SIMBA__ETCD_KEY_SIZE])
{
    snprintf(value, SIMBA__ETCD_KEY_SIZE,
             "%016" PRIx64 "%016" PRIx64 " %016" PRIx64 " %" PRIx64 " %" PRId64
             " %" PRId64 " %d %s",
             owner->attempt.high, owner->attempt.low, owner->token,
             owner->session, owner->lease_ms, owner->acquired_at_ms,
             owner->is_broken, owner->id);
}

struct simba__etcd_owner simba__etcd_owner_read(const simba__etcd_kv *kv)
{
    struct simba__etcd_owner owner = {.is_there = kv->mod_revision != 0,
                                      .mod = kv->mod_revision};
    char text[SIMBA__ETCD_KEY_SIZE] = "";
    int is_broken = 0, at = 0;

    if (kv->value.length > 0 && kv->value.length < sizeof text) {
        memcpy(text, kv->value.at, kv->value.length);
    }
    if (owner.is_there &&
        sscanf(text,
               "%16" SCNx64 "%16" SCNx64 " %16" SCNx64 " %16" SCNx64
               " %18" SCNd64 " %18" SCNd64 " %1d%n",
               &owner.attempt.high, &owner.attempt.low, &owner.token,
               &owner.session, &owner.lease_ms, &owner.acquired_at_ms,
               &is_broken, &at) == 7 &&
        text[at++] == ' ' &&
        simba__name_check_id(text + at, strlen(text + at)) ==
            SIMBA__NAME_FINE) {
        owner.is_broken = is_broken != 0;
        memcpy(owner.id, text + at, strlen(text + at) + 1);
    } else if (owner.is_there) { /* whoever wrote it, it is respected */
        owner.is_unreadable = true;
        owner.lease_ms = SIMBA__ETCD_LEASE_ANY_MS;
        snprintf(owner.id, sizeof owner.id, "(unreadable)");
    }
    return owner;
}

simba_owner simba__etcd_owner_told(const struct simba__etcd_owner *owner)
{
    simba_owner told = {.is_broken = owner->is_broken,
                        .acquired_at_ms = owner->acquired_at_ms,
                        .ttl_at_ms = INT64_MAX,
                        .transition_at_ms = INT64_MAX,
                        .token = owner->token};

    return owner->is_there && simba_owner_set_id(&told, owner->id)
               ? told
               : simba_owner_none();
}

/* S4: above every token that was ever granted, as far as the clocks of those
 * who are granted did not go back over a restore. */
uint64_t simba__etcd_next_token(uint64_t last, const simba_request *request)
{
    uint64_t token = (uint64_t)simba__etcd_wall_us();
    uint64_t above = request == NULL ? 0 : request->token_above;

    above = above > last ? above : last;
    return token > above ? token : above + 1;
}

uint64_t simba__etcd_token_read(const simba__etcd_kv *kv)
{
    char digits[17] = "";

    if (kv->value.length == sizeof digits - 1) {
        memcpy(digits, kv->value.at, sizeof digits - 1);
    }
    return strtoull(digits, NULL, 16);
}

/* --- transactions -------------------------------------------------------- */

void simba__etcd_begin(struct simba__etcd_transaction *txn)
{
    txn->text = simba__rpc_begin(&txn->rpc);
    memset(txn->asked, 0, sizeof txn->asked);
}

void simba__etcd_if(struct simba__etcd_transaction *txn,
                    char letter,
                    int target,
                    int64_t revision)
{
    char key[SIMBA__ETCD_KEY_SIZE];
    simba__etcd_compare compare = {.target = target,
                                   .has = SIMBA__ETCD_HAS(4 + target)};

    *(target == SIMBA__ETCD_CREATE ? &compare.create_revision
                                   : &compare.mod_revision) = revision;
    simba__etcd_key(txn, letter, key);
    compare.key = simba__etcd_text(key);
    simba__etcd_add(txn->text, SIMBA__ETCD_IF, SIMBA__ETCD_compare, &compare);
}

void simba__etcd_if_value(struct simba__etcd_transaction *txn,
                          char letter,
                          int result,
                          const char *value)
{
    char key[SIMBA__ETCD_KEY_SIZE];
    simba__etcd_compare compare = {.has = SIMBA__ETCD_HAS(7),
                                   .result = result,
                                   .target = SIMBA__ETCD_VALUE,
                                   .value = simba__etcd_text(value)};

    simba__etcd_key(txn, letter, key);
    compare.key = simba__etcd_text(key);
    simba__etcd_add(txn->text, SIMBA__ETCD_IF, SIMBA__ETCD_compare, &compare);
}

/* Waiters, tombstones and heartbeats go with their session. */
void simba__etcd_do_put(struct simba__etcd_transaction *txn,
                        int branch,
                        char letter,
                        const char *value)
{
    simba__etcd_op op = {.has = SIMBA__ETCD_HAS(2)};
    char key[SIMBA__ETCD_KEY_SIZE];

    simba__etcd_key(txn, letter, key);
    op.put.key = simba__etcd_text(key);
    op.put.value = simba__etcd_text(value);
    op.put.lease = strchr("qxs", letter) != NULL ? txn->self->lease : 0;
    simba__etcd_add(txn->text, (uint32_t)branch, SIMBA__ETCD_op, &op);
}

void simba__etcd_do_delete(struct simba__etcd_transaction *txn, char letter)
{
    simba__etcd_op op = {.has = SIMBA__ETCD_HAS(3)};
    char key[SIMBA__ETCD_KEY_SIZE];

    simba__etcd_key(txn, letter, key);
    op.delete_range.key = simba__etcd_text(key);
    simba__etcd_add(txn->text, SIMBA__ETCD_THEN, SIMBA__ETCD_op, &op);
}

/* R: the newest three waiters of the mutex that are no newer than ours; Q: all
 * of them, the oldest first; O, W: all owners and all waiters of the store. */
static void get_range(struct simba__etcd_transaction *txn,
                      int branch,
                      char letter)
{
    char key[SIMBA__ETCD_KEY_SIZE], end[SIMBA__ETCD_KEY_SIZE];
    simba__etcd_op op = {.has = SIMBA__ETCD_HAS(1)};
    struct simba__text text = simba__text_fixed(key, sizeof key);

    simba__text_printf(&text, "%s%c/", txn->self->settings.prefix,
                       letter == 'O' ? 'o' : 'q');
    if (letter == 'R' || letter == 'Q') {
        simba__text_escape(&text, txn->mutex);
        simba__text_put(&text, "/");
    }
    memcpy(end, key, text.length + 1);
    end[text.length - 1]++; /* what follows on the slash */
    op.range = (simba__etcd_range){
        .key = simba__etcd_text(key),
        .range_end = simba__etcd_text(end),
        .limit = letter == 'R' ? 3 : 0,
        .sort_order = letter == 'R' ? 2 : 1, /* down, up */
        .sort_target = 2,                    /* by creation */
        .keys_only = letter == 'W',
        .max_create_revision = letter == 'R' ? txn->create : 0};
    simba__etcd_add(txn->text, (uint32_t)branch, SIMBA__ETCD_op, &op);
}

void simba__etcd_do_get(struct simba__etcd_transaction *txn,
                        int branch,
                        const char *which)
{
    char *asked = txn->asked[branch - SIMBA__ETCD_THEN];
    char key[SIMBA__ETCD_KEY_SIZE];

    assert(strlen(asked) + strlen(which) < sizeof txn->asked[0]);
    strcat(asked, which);
    for (; *which != '\0'; which++) {
        simba__etcd_op op = {.has = SIMBA__ETCD_HAS(1)};

        if (strchr(letters, *which) == NULL) {
            get_range(txn, branch, *which);
            continue;
        }
        simba__etcd_key(txn, *which, key);
        op.range.key = simba__etcd_text(key);
        simba__etcd_add(txn->text, (uint32_t)branch, SIMBA__ETCD_op, &op);
    }
}

void simba__etcd_submit(struct simba__etcd_transaction *txn,
                        const simba_request *request,
                        int64_t otherwise_ms,
                        void (*done)(struct simba__rpc *rpc,
                                     int status,
                                     const simba_error *error))
{
    txn->rpc.method = SIMBA__ETCD_TXN;
    txn->rpc.answer = &txn->reply;
    txn->rpc.done = done;
    txn->rpc.exchange.deadline_ms = request != NULL
                                        ? request->deadline_ms
                                        : simba_loop_now_ms() + otherwise_ms;
    txn->rpc.exchange.is_driven = request != NULL && request->is_driven;
    simba__rpc_submit(&txn->self->grpc, &txn->rpc);
}

static simba__etcd_kv *slot(struct simba__etcd_transaction *txn, char letter)
{
    const char *at = strchr(letters, letter);

    assert(at != NULL && sizeof letters - 1 <= SIMBA__ETCD_LETTERS);
    return &txn->got[at - letters];
}

const simba__etcd_kv *simba__etcd_got(struct simba__etcd_transaction *txn,
                                      char letter)
{
    return slot(txn, letter);
}

void simba__etcd_take(struct simba__etcd_transaction *txn)
{
    const char *asked = txn->asked[txn->reply.succeeded ? 0 : 1];
    simba__etcd_op_reply reply;

    memset(txn->got, 0, sizeof txn->got);
    memset(txn->ranges, 0, sizeof txn->ranges);
    while (*asked != '\0' && simba__etcd_next(&txn->reply.responses, &reply)) {
        if ((reply.has & SIMBA__ETCD_HAS(1)) == 0) {
            continue; /* of a put or a deletion */
        }
        if (strchr(letters, *asked) != NULL) {
            (void)simba__etcd_next(&reply.range.kvs, slot(txn, *asked));
        } else {
            txn->ranges[*asked == 'W'] = reply.range.kvs;
        }
        asked++;
    }
}

simba__etcd_kv simba__etcd_next_kv(simba__etcd_txn_reply *reply)
{
    simba__etcd_op_reply each = {0};
    simba__etcd_kv kv = {0};

    (void)simba__etcd_next(&reply->responses, &each);
    (void)simba__etcd_next(&each.range.kvs, &kv);
    return kv;
}
