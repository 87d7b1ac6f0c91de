/* Backends that are broken on purpose: `broken:FAULT`. Each is the memory store
 * with one mistake that an author of a backend could make, and each is caught
 * by a test of the contract (test_broken.c).
 *
 * The memory store is compiled into this module once more; what it is asked,
 * what it answers and whom it wakes comes by here. Mistakes in the row itself
 * are those that the simulator plants (src/core/plant.h). */
#define _GNU_SOURCE
#include <simba/backend.h>

static void broken_hint(simba_loop *loop, const char *mutex);

#define simba_hint broken_hint
#include "backends/memory/memory.c"
#undef simba_hint

#include "core/plant.h"

#include <ctype.h>
#include <stdio.h>

enum simba__plant simba__plant;

/* What is done to an operation before it is carried out, and to its answer;
 * with the space of the mutexes locked. */
struct fault {
    const char *name;
    enum simba__plant plant;
    void (*before)(struct simba__row *row, simba_op *op);
    void (*after)(struct simba__row *row, simba_op *op);
    bool no_hints, hint_grants, late_refusals;
    void (*rename)(char *mutex);
};

static const struct fault *fault;

/* The lease as it was before the operation that is being carried out. */
static simba_owner kept;

static bool is_present(const struct simba__row *row, const simba_op *op)
{
    return row->attempt.high == op->attempt.high &&
           row->attempt.low == op->attempt.low && row->owner.id[0] != '\0';
}

static void be_the_owner(struct simba__row *row, simba_op *op)
{
    op->attempt.high = row->attempt.high;
    op->attempt.low = row->attempt.low;
}

/* --- the mistakes -------------------------------------------------------- */

static void token_stuck(struct simba__row *row, simba_op *op)
{
    (void)row;
    if (op->reply.mine) {
        op->reply.token = op->reply.owner.token = 7;
    }
}

static void token_grows_by_renewal(struct simba__row *row, simba_op *op)
{
    if (op->kind == SIMBA_OP_RENEW && op->reply.mine) {
        op->reply.token = row->owner.token = ++row->last_token;
        op->reply.owner = row->owner;
    }
}

static void renew_steals(struct simba__row *row, simba_op *op)
{
    if (op->kind == SIMBA_OP_RENEW && row->owner.id[0] != '\0') {
        row->attempt.high = op->attempt.high;
        row->attempt.low = op->attempt.low;
        snprintf(row->owner.id, sizeof row->owner.id, "%s", op->id);
    }
}

static void renew_creates(struct simba__row *row, simba_op *op)
{
    if (op->kind == SIMBA_OP_RENEW && row->owner.id[0] == '\0') {
        op->kind = SIMBA_OP_ACQUIRE;
    }
}

static void release_by_anybody(struct simba__row *row, simba_op *op)
{
    if (op->kind == SIMBA_OP_RELEASE) {
        be_the_owner(row, op);
    }
}

static void leave_frees(struct simba__row *row, simba_op *op)
{
    if (op->kind == SIMBA_OP_LEAVE && strcmp(row->owner.id, op->id) == 0) {
        be_the_owner(row, op);
    }
}

/* Counts the lease from its own answer: the renewal is answered out of what the
 * backend knows, and the store never hears of it. */
static void keep_lease(struct simba__row *row, simba_op *op)
{
    (void)op;
    kept = row->owner;
}

static void lease_from_reply(struct simba__row *row, simba_op *op)
{
    if (op->kind == SIMBA_OP_RENEW && op->reply.mine) {
        row->owner = kept;
    }
}

static void not_idempotent(struct simba__row *row, simba_op *op)
{
    if (op->kind == SIMBA_OP_ACQUIRE && is_present(row, op)) {
        op->attempt.low ^= 1;
    }
}

/* Forgets the owner whenever somebody else asks. */
static void grant_everybody(struct simba__row *row, simba_op *op)
{
    if (op->kind == SIMBA_OP_ACQUIRE && !is_present(row, op)) {
        memset(&row->owner, 0, sizeof row->owner);
        memset(&row->attempt, 0, sizeof row->attempt);
    }
}

static void no_tombstone(struct simba__row *row, simba_op *op)
{
    (void)row;
    op->tombstone_ms = 0;
}

static void no_transition(struct simba__row *row, simba_op *op)
{
    (void)row;
    op->transition_ms = 0;
}

static void for_ever(struct simba__row *row, simba_op *op)
{
    (void)row;
    op->transition_ms += 3600000;
}

static void places_for_ever(struct simba__row *row, simba_op *op)
{
    (void)row;
    op->waiter_ms += 3600000;
}

static void reading_takes(struct simba__row *row, simba_op *op)
{
    (void)row;
    if (op->kind == SIMBA_OP_READ) {
        op->kind = SIMBA_OP_ACQUIRE;
        op->join = true;
        op->waiter_ms = 60000;
    }
}

static void ids_are_cut(struct simba__row *row, simba_op *op)
{
    row->owner.id[64] = op->reply.owner.id[64] = '\0';
}

static void fold_case(char *mutex)
{
    for (; *mutex != '\0'; mutex++) {
        *mutex = (char)tolower((unsigned char)*mutex);
    }
}

static void trim(char *mutex)
{
    size_t length = strlen(mutex);

    while (length > 1 && mutex[length - 1] == ' ') {
        mutex[--length] = '\0';
    }
}

#define PLANT(fault) .plant = SIMBA__PLANT_##fault

static const struct fault faults[] = {
    {.name = "token_stuck", .after = token_stuck},
    {.name = "token_grows_by_renewal", .after = token_grows_by_renewal},
    {.name = "acquire_by_id", PLANT(ACQUIRE_BY_ID)},
    {.name = "acquire_not_idempotent", .before = not_idempotent},
    {.name = "everybody_is_granted", .before = grant_everybody},
    {.name = "repeat_does_not_extend", PLANT(REPEAT_NO_EXTEND)},
    {.name = "renew_steals", .before = renew_steals},
    {.name = "renew_by_id", PLANT(RENEW_BY_ID)},
    {.name = "renew_creates", .before = renew_creates},
    {.name = "renew_revives", PLANT(RENEW_CREATES)},
    {.name = "lease_from_reply",
     .before = keep_lease,
     .after = lease_from_reply},
    {.name = "release_by_id", PLANT(RELEASE_BY_ID)},
    {.name = "release_by_anybody", .before = release_by_anybody},
    {.name = "no_tombstone", .before = no_tombstone},
    {.name = "leave_frees_the_owner", .before = leave_frees},
    {.name = "no_transition", .before = no_transition},
    {.name = "never_expires", .before = for_ever},
    {.name = "lost_wake_up", .no_hints = true},
    {.name = "hint_is_grant", .hint_grants = true},
    {.name = "line_ignores_death", PLANT(DEAD_CALLED)},
    {.name = "line_ignores_silence", .before = places_for_ever},
    {.name = "line_reversed", PLANT(LINE_REVERSED)},
    {.name = "newcomers_pass", PLANT(BARGING)},
    {.name = "reservation_forgotten", PLANT(NEXT_FORGOTTEN)},
    {.name = "reading_takes", .before = reading_takes},
    {.name = "case_folded", .rename = fold_case},
    {.name = "names_trimmed", .rename = trim},
    {.name = "ids_cut", .after = ids_are_cut},
    {.name = "broken_tenure_renews", PLANT(BREAK_RENEWS)},
    /* Not broken, only late: what it refuses it tells when the same attempt has
     * been granted. */
    {.name = "late_refusals", .late_refusals = true},
};

/* --- between the runtime and the memory store ---------------------------- */

enum { HINTED_MOST = 64 };

/* Mutexes that a handle has been hinted for, when it takes hints for grants. */
static struct hinted {
    simba_loop *loop;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
} hinted[HINTED_MOST];
static size_t hinted_count;
static pthread_mutex_t hinted_lock = PTHREAD_MUTEX_INITIALIZER;

static void broken_hint(simba_loop *loop, const char *mutex)
{
    if (fault->no_hints) {
        return;
    }
    pthread_mutex_lock(&hinted_lock);
    if (fault->hint_grants && hinted_count < HINTED_MOST) {
        hinted[hinted_count].loop = loop;
        snprintf(hinted[hinted_count++].mutex, sizeof hinted[0].mutex, "%s",
                 mutex);
    }
    pthread_mutex_unlock(&hinted_lock);
    simba_hint(loop, mutex);
}

static bool is_hinted(const simba_backend *self, const simba_op *op)
{
    bool is_found = false;

    pthread_mutex_lock(&hinted_lock);
    for (size_t i = 0; i < hinted_count; i++) {
        is_found |= hinted[i].loop == self->loop &&
                    strcmp(hinted[i].mutex, op->mutex) == 0;
    }
    pthread_mutex_unlock(&hinted_lock);
    return is_found;
}

static int serve_broken(struct memory *m, simba_op *op)
{
    struct entry *entry = find_entry(m->space, op->mutex);
    int rc;

    if (entry == NULL) {
        return SIMBA_ENOMEM;
    }
    if (fault->before != NULL) {
        fault->before(&entry->row, op);
    }
    rc = serve(m, op);
    if (fault->after != NULL) {
        fault->after(&entry->row, op);
    }
    return rc;
}

/* Refusals that are not told yet; inside the loop of one handle. */
static simba_op *kept_ops;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_kept_back(simba_op *op, int rc)
{
    if (!fault->late_refusals || op->kind != SIMBA_OP_ACQUIRE ||
        op->reply.mine || rc != SIMBA_OK) {
        return false;
    }
    pthread_mutex_lock(&kept_lock);
    op->next = kept_ops;
    kept_ops = op;
    pthread_mutex_unlock(&kept_lock);
    return true;
}

static void tell_kept(void)
{
    simba_op *op;

    pthread_mutex_lock(&kept_lock); /* the handles have loops of their own */
    op = kept_ops;
    kept_ops = NULL;
    pthread_mutex_unlock(&kept_lock);
    while (op != NULL) {
        simba_op *next = op->next;

        simba_op_done(op, SIMBA_OK, NULL);
        op = next;
    }
}

static void submit_broken(simba_backend *self, simba_op *op)
{
    bool is_acquire = op->kind == SIMBA_OP_ACQUIRE;
    const char *given = op->mutex;
    struct memory *m = (struct memory *)self;
    char name[SIMBA_MUTEX_MAX_BYTES + 1];
    int rc = SIMBA_OK;

    snprintf(name, sizeof name, "%s", op->mutex);
    if (fault->rename != NULL) {
        fault->rename(name);
    }
    op->mutex = name;
    pthread_mutex_lock(&m->space->lock);
    if (op->kind == SIMBA_OP_ACQUIRE && is_hinted(self, op)) {
        op->reply.mine = true;
        op->reply.token = (uint64_t)simba_loop_now_ms() * 1000;
    } else if (op->mutex[0] == '\0') {
        rc = serve_any(m, op); /* a list, or what the doctor says */
    } else {
        rc = serve_broken(m, op);
    }
    pthread_mutex_unlock(&m->space->lock);
    op->mutex = given;
    if (is_kept_back(op, rc)) {
        return;
    }
    simba_op_done(op, rc, NULL);
    if (is_acquire) {
        tell_kept();
    }
}

static simba_backend_ops own_ops; /* the memory store's, with our submit */

static int open_broken(const simba_backend_config *config,
                       simba_backend **backend,
                       simba_error *error)
{
    int rc;

    fault = NULL;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (strcmp(faults[i].name, config->rest) == 0) {
            fault = &faults[i];
        }
    }
    if (fault == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "no fault \"%s\"",
                               config->rest);
    }
    simba__plant = fault->plant;
    hinted_count = 0;
    rc = simba__memory_ops.open(config, backend, error);
    if (rc == SIMBA_OK) {
        own_ops = simba__memory_ops;
        own_ops.submit = submit_broken;
        (*backend)->ops = &own_ops;
    }
    return rc;
}

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "broken",
    .least_lease_ms = 100,
    .open = open_broken,
    .submit = submit_broken,
    .close = close_memory,
};
