/* Backends that are broken on purpose: `broken:FAULT`. Each is the memory store
 * with one mistake that an author of a backend could make, and each is caught
 * by a test of the contract (test_broken.c).
 *
 * The memory store is a source of this module, too. Some functions that it
 * calls have other names there (CMakeLists.txt), so that what it is asked, what
 * it answers and whom it wakes comes by here. The mistakes are in
 * broken_tenure.c, broken_queue.c and broken_more.c; those in the model itself
 * are the ones that the simulator plants (src/core/plant.h). */
#define _GNU_SOURCE
#include "broken.h"

#include "backends/memory/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum simba__plant simba__plant;

static const struct fault *fault;

/* --- between the runtime and the memory store ---------------------------- */

enum { WOKEN_MOST = 64 };

/* Mutexes that a handle has been woken for, when it takes wake-ups for grants.
 */
static struct woken {
    simba_loop *loop;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
} woken[WOKEN_MOST];
static size_t woken_count;
static pthread_mutex_t woken_lock = PTHREAD_MUTEX_INITIALIZER;

/* A wake-up on its way, for as long as the process lives. */
struct late_wake {
    simba_timer timer;
    simba_loop *loop;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

static void wake_late(simba_timer *timer)
{
    struct late_wake *late = (struct late_wake *)timer;

    simba_wake(late->loop, late->mutex);
    free(late);
}

void broken_wake(simba_loop *loop, const char *mutex)
{
    struct late_wake *late;

    if (fault->no_wakes) {
        return;
    }
    if (fault->wakes_late_ms > 0) {
        late = calloc(1, sizeof *late);
        if (late != NULL) {
            late->loop = loop;
            late->timer.fire = wake_late;
            snprintf(late->mutex, sizeof late->mutex, "%s", mutex);
            simba_timer_set(loop, &late->timer,
                            simba_loop_now_ms() + fault->wakes_late_ms);
        }
        return;
    }
    pthread_mutex_lock(&woken_lock);
    if (fault->wake_grants && woken_count < WOKEN_MOST) {
        woken[woken_count].loop = loop;
        snprintf(woken[woken_count++].mutex, sizeof woken[0].mutex, "%s",
                 mutex);
    }
    pthread_mutex_unlock(&woken_lock);
    simba_wake(loop, mutex);
}

/* The request in hand, which the memory store carries out within submit(). Who
 * hears its reply may send the next at once. */
static _Thread_local struct hand {
    simba_request *request;
    const char *mutex; /* as it was asked for */
    int woken, listed; /* how many were, by it */
} hand;

void broken_post(simba_loop *loop, void (*run)(void *), void *argument)
{
    int before = hand.woken++;

    if ((fault->one_wake && before > 0) || (fault->wrong_wake && before == 0) ||
        fault->wakes_nobody == hand.request->kind) {
        free(argument);
        return;
    }
    simba_loop_post(loop, run, argument);
}

/* Not within submit(): an observer of the same handle would ask at once, and
 * where a read takes the mutex that would never end. */
void broken_observed(simba_loop *loop,
                     const char *mutex,
                     const simba_owner *owner,
                     uint64_t ended)
{
    if (hand.request == NULL && !fault->no_observed) {
        simba_observed(loop, mutex, owner, ended);
    }
}

void broken_add_mutex(simba_request *request,
                      const char *mutex,
                      const simba_owner *owner,
                      int waiting)
{
    static simba_owner first;
    char name[SIMBA_MUTEX_MAX_BYTES + 1];

    snprintf(name, sizeof name, "%s", mutex);
    for (char *c = name; fault->list_escapes && *c != '\0'; c++) {
        *c = *c == '/' ? ':' : *c;
    }
    if (hand.listed++ == 0) {
        first = *owner;
    }
    if (fault->list_omits_free && owner->id[0] == '\0') {
        return;
    }
    if (fault->list_most == 0 || hand.listed <= fault->list_most) {
        simba_request_add_mutex(
            request, name, fault->list_mixes_owners ? &first : owner, waiting);
    }
}

void broken_add_told(simba_request *request,
                     const char *mutex,
                     uint64_t token,
                     const char *text)
{
    char cut[256];

    snprintf(cut, sizeof cut, "%s", text);
    simba_request_add_told(request, mutex, token + fault->told_mixed,
                           fault->told_cut ? cut : text);
}

void broken_add_broken(simba_request *request, const simba_broken *broken)
{
    simba_broken told = *broken;

    told.now |= fault->breaks_say_now;
    told.unix_ms /= fault->breaks_in_seconds ? 1000 : 1;
    if (!fault->breaks_untold) {
        simba_request_add_broken(request, &told);
    }
}

void broken_add_owner(simba_request *request, const simba_owner *owner)
{
    if (fault->owners_untold != request->kind) {
        simba_request_add_owner(request, owner);
    }
}

bool broken_next_waiter(struct simba__waiter_walk *walk, simba_waiter *told)
{
    const struct simba__waiter *waiter;

    if (!fault->dead_told) {
        return simba__mutex_next_waiter(walk, told);
    }
    if (walk->next >= walk->record->queue_count) {
        return false;
    }
    waiter = &walk->record->queue[walk->next++];
    if (told != NULL) {
        *told = (simba_waiter){.position = waiter->position,
                               .slots = waiter->slots};
        memcpy(told->id, waiter->id, sizeof told->id);
    }
    return true;
}

static bool is_woken(const simba_backend *self, const simba_request *request)
{
    bool is_found = false;

    pthread_mutex_lock(&woken_lock);
    for (size_t i = 0; i < woken_count; i++) {
        is_found |= woken[i].loop == self->loop &&
                    strcmp(woken[i].mutex, request->mutex) == 0;
    }
    pthread_mutex_unlock(&woken_lock);
    return is_found;
}

bool broken_serve(struct simba__mutex_record *record,
                  const struct simba__mutex_host *host,
                  const struct simba__mutex_request *given,
                  simba_reply *reply)
{
    bool is_served;

    if (fault->before != NULL) {
        fault->before(record, hand.request);
    }
    is_served = simba__mutex_serve(record, host, given, reply);
    if (fault->after != NULL) {
        fault->after(record, hand.request);
    }
    return is_served;
}

/* Refusals that are not told yet; inside the loop of one handle. */
static simba_request *kept_requests;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_kept_back(simba_request *request, int rc)
{
    if (!fault->late_refusals || request->kind != SIMBA_ACQUIRE ||
        request->reply.mine || rc != SIMBA_OK) {
        return false;
    }
    pthread_mutex_lock(&kept_lock);
    request->next = kept_requests;
    kept_requests = request;
    pthread_mutex_unlock(&kept_lock);
    return true;
}

static void tell_kept(void)
{
    simba_request *request;

    pthread_mutex_lock(&kept_lock); /* the handles have loops of their own */
    request = kept_requests;
    kept_requests = NULL;
    pthread_mutex_unlock(&kept_lock);
    while (request != NULL) {
        simba_request *next = request->next;

        simba_request_done(request, SIMBA_OK, NULL);
        request = next;
    }
}

/* Requests that are never completed; here, so that they are not lost. */
static simba_request *forgotten;

static bool is_forgotten(simba_request *request)
{
    if (fault->never_done != request->kind && (int)fault->never_done != MUTE) {
        return false;
    }
    pthread_mutex_lock(&kept_lock);
    request->next = forgotten;
    forgotten = request;
    pthread_mutex_unlock(&kept_lock);
    return true;
}

/* The tenth is one of a test: the contract looks at a store by five, but by
 * none of some kinds. */
static bool is_given_up(simba_request *request)
{
    static _Atomic int count;
    bool is_one = fault->gives_up_ms != 0 &&
                  (fault->gives_up == 0 || fault->gives_up == request->kind);
    simba_error error;

    if (!is_one || ++count != (fault->gives_up == 0 ? 10 : 1)) {
        return false;
    }
    nanosleep(&(struct timespec){.tv_sec = fault->gives_up_ms / 1000,
                                 .tv_nsec = fault->gives_up_ms % 1000 *
                                            INT64_C(1000000)},
              NULL);
    simba_request_done(
        request, SIMBA_EUNAVAIL,
        (simba_error_set(&error, SIMBA_EUNAVAIL, 0, "it was not done"),
         &error));
    return true;
}

void broken_done(simba_request *request, int status, const simba_error *error)
{
    bool is_acquire = request->kind == SIMBA_ACQUIRE;

    request->mutex = hand.mutex;
    if (is_kept_back(request, status)) {
        return;
    }
    simba_request_done(request, status, error);
    if (is_acquire) {
        tell_kept();
    }
}

static void submit_broken(simba_backend *self, simba_request *request)
{
    struct hand before = hand;
    char name[SIMBA_MUTEX_MAX_BYTES + 1];

    if (is_forgotten(request) || is_given_up(request)) {
        return;
    }
    hand = (struct hand){.request = request, .mutex = request->mutex};
    snprintf(name, sizeof name, "%s", request->mutex);
    if (fault->rename != NULL) {
        fault->rename(name);
    }
    request->mutex = name;
    if (request->kind == SIMBA_TELL && fault->told_lasts) {
        request->ttl_ms = INT64_C(1000000);
    }
    if (request->kind == SIMBA_TELL && fault->told_kept) {
        static char kept[64];

        snprintf(kept, sizeof kept, "%s",
                 request->reason == NULL ? kept : request->reason);
        request->reason = kept;
    }
    if (request->kind == SIMBA_ACQUIRE && is_woken(self, request)) {
        request->reply.mine = true;
        request->reply.token = (uint64_t)simba_loop_now_ms() * 1000;
        broken_done(request, SIMBA_OK, NULL);
    } else {
        simba__memory_ops.submit(self, request);
    }
    hand = before;
}

static void close_broken(simba_backend *self)
{
    simba__memory_ops.close(self);
}

/* Who ends one subscription ends them all. */
static void subscribe_broken(simba_backend *self,
                             const char *mutex,
                             enum simba_subscription subscription)
{
    static char last[SIMBA_MUTEX_MAX_BYTES + 1];

    if (subscription == SIMBA_SUBSCRIBE_OBSERVE) {
        snprintf(last, sizeof last, "%s", mutex);
    } else if (fault->unsubscribes_all) {
        simba__memory_ops.subscription(self, last, SIMBA_SUBSCRIBE_NONE);
    }
    simba__memory_ops.subscription(self, mutex, subscription);
}

static simba_backend_ops own_ops; /* the memory store's, with our submit */

static const struct fault *find_fault(const char *name)
{
    const struct fault *const tables[] = {broken_tenures, broken_others,
                                          broken_more};

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
    const struct fault *named = find_fault(config->rest);
    int rc;

    if (named == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "no fault \"%s\"",
                               config->rest);
    }
    if (named != fault) { /* other handles may be at work */
        fault = named;
        simba__plant = fault->plant;
        own_ops = simba__memory_ops;
        own_ops.submit = submit_broken;
        own_ops.subscription = subscribe_broken;
    }
    pthread_mutex_lock(&woken_lock);
    woken_count = 0;
    pthread_mutex_unlock(&woken_lock);
    rc = simba__memory_ops.open(config, backend, error);
    if (rc == SIMBA_OK) {
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
    .close = close_broken,
};
