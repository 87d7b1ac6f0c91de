/* Backends that are broken on purpose: `broken:FAULT`. Each is the memory store
 * with one mistake that an author of a backend could make, and each is caught
 * by a test of the contract (test_broken.c).
 *
 * The memory store is compiled into this module once more; what it is asked,
 * what it answers and whom it wakes comes by here. The mistakes are in
 * broken_tenure.c and broken_line.c; those in the row itself are the ones that
 * the simulator plants (src/core/plant.h). */
#define _GNU_SOURCE
#include <simba/sys/backend.h>

static void broken_hint(simba_loop *loop, const char *mutex);
static void broken_post(simba_loop *loop, void (*run)(void *), void *argument);
static void broken_add_mutex(simba_op *op,
                             const char *mutex,
                             const simba_owner *owner,
                             int waiting);

#define simba_hint         broken_hint
#define simba_loop_post    broken_post
#define simba_op_add_mutex broken_add_mutex
#include "backends/memory/memory.c"
#include "backends/memory/ring.c"
#include "backends/memory/space.c"
#undef simba_hint
#undef simba_loop_post
#undef simba_op_add_mutex

#include "broken.h"

#include <stdio.h>

enum simba__plant simba__plant;

static const struct fault *fault;

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

/* How many were rung, or listed, by the operation in hand; with the space
 * locked. */
static int rung, listed;

static void broken_post(simba_loop *loop, void (*run)(void *), void *argument)
{
    if (fault->one_hint && rung++ > 0) {
        free(argument);
        return;
    }
    simba_loop_post(loop, run, argument);
}

static void broken_add_mutex(simba_op *op,
                             const char *mutex,
                             const simba_owner *owner,
                             int waiting)
{
    static simba_owner first;

    if (listed++ == 0) {
        first = *owner;
    }
    if (!fault->list_ends_early || listed <= 2) {
        simba_op_add_mutex(op, mutex, fault->list_mixes_owners ? &first : owner,
                           waiting);
    }
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

static int serve_broken(struct simba__memory *m, simba_op *op)
{
    struct simba__memory_row *entry = simba__memory_find(m->space, op->mutex);
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

/* Operations that are never completed; here, so that they are not lost. */
static simba_op *forgotten;

static bool is_forgotten(simba_op *op)
{
    if (fault->never_done != op->kind && (int)fault->never_done != MUTE) {
        return false;
    }
    pthread_mutex_lock(&kept_lock);
    op->next = forgotten;
    forgotten = op;
    pthread_mutex_unlock(&kept_lock);
    return true;
}

static void submit_broken(simba_backend *self, simba_op *op)
{
    bool is_acquire = op->kind == SIMBA_OP_ACQUIRE;
    const char *given = op->mutex;
    struct simba__memory *m = (struct simba__memory *)self;
    char name[SIMBA_MUTEX_MAX_BYTES + 1];
    int rc = SIMBA_OK;

    if (is_forgotten(op)) {
        return;
    }
    snprintf(name, sizeof name, "%s", op->mutex);
    if (fault->rename != NULL) {
        fault->rename(name);
    }
    op->mutex = name;
    pthread_mutex_lock(&m->space->lock);
    rung = listed = 0;
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

static const struct fault *find_fault(const char *name)
{
    const struct fault *const tables[] = {broken_tenures, broken_others};

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (const struct fault *f = tables[i]; f->name != NULL; f++) {
            if (strcmp(f->name, name) == 0) {
                return f;
            }
        }
    }
    return NULL;
}

static int open_broken(const simba_backend_config *config,
                       simba_backend **backend,
                       simba_error *error)
{
    int rc;

    fault = find_fault(config->rest);
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
