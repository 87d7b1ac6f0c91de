/* One look for many who wait.
 *
 * Each who waits asks once in a lease, in case a wake-up was lost or the owner
 * has died. Of a hundred thousand that would be six thousand acquires a second.
 * Where a backend can look for many at once, their timers are in a wheel, not
 * among all others; when one comes to its end, those in it are handed to the
 * backend together, and only who hears that something has changed asks.
 *
 *     WAITING, refused --> wheel --> under way --> stands: wheel
 *                            |           '-------> else: asks
 *                            '-- whatever else happens to it: out
 */
#include "runtime/contention.h"

#include "core/mutex_model.h"
#include "util/container.h"

#include <assert.h>
#include <stdlib.h>

enum {
    /* With fewer each asks for itself, right when the lease ends. */
    LOOKS_FROM = 64,
    /* The wheel: 16 s in steps that are short against a lease. What is due
     * later comes round again. */
    GRAIN_MS = 32,
    GRAINS = 512,
    /* A server should not be busy with one call for longer than with a few
     * others, nor should we ask on while it does not answer. */
    LOOKS_MOST = 128,
    CALLS_MOST = 4
};

/* Handed to the backend. */
struct call {
    simba_looks looks; /* first */
    struct simba__wheel *wheel;
    struct call *next;
    struct simba__contention *who[LOOKS_MOST]; /* NULL: no more */
    simba_look look[LOOKS_MOST];
};

struct simba__wheel {
    simba_loop *loop;
    void (*look)(simba_backend *self, simba_looks *looks);
    simba_backend *self;
    simba_timer tick;
    int64_t grain; /* the first that may hold somebody */
    size_t count;  /* in it */
    struct call *calls;
    int call_count;
    simba_timer *grains[GRAINS]; /* rings of timers of contentions */
};

static struct simba__contention *contention_of(simba_timer *timer)
{
    return container_of(timer, struct simba__contention, timer);
}

static simba_timer **ring_of(struct simba__wheel *wheel, int64_t grain)
{
    return &wheel->grains[grain % GRAINS];
}

/* --- in and out ---------------------------------------------------------- */

bool simba__look_suits(const struct simba__contention *c)
{
    const struct simba__contend *core = &c->core;
    const struct simba__wheel *wheel = c->loop->wheel;

    return wheel != NULL && core->phase == SIMBA__WAITING && core->is_queued &&
           core->is_backstop && core->inflight == SIMBA_NO_REQUEST &&
           !core->is_calling && core->join && core->config->slots <= 1 &&
           !c->hooks->hears_owners &&
           c->loop->metrics.contenders >= LOOKS_FROM &&
           c->loop->front == wheel->self && c->loop->filters == NULL;
}

/* The tick comes at the end of a grain. While too many calls are under way it
 * waits for their answers. */
static void tick_after(struct simba__wheel *wheel, int64_t grain)
{
    int64_t at_ms = (grain + 1) * GRAIN_MS;
    int64_t now_ms;

    if (wheel->call_count < CALLS_MOST &&
        (!wheel->tick.is_set || at_ms < wheel->tick.at_ms)) {
        now_ms = simba_loop_now_ms();
        /* Not at once: there may be no memory for more. */
        simba_timer_set(wheel->loop, &wheel->tick,
                        at_ms > now_ms ? at_ms : now_ms + 1);
    }
}

static void tick_next(struct simba__wheel *wheel)
{
    int64_t grain = wheel->grain;

    if (wheel->count > 0) {
        while (*ring_of(wheel, grain) == NULL) {
            grain++;
        }
        tick_after(wheel, grain);
    }
}

/* Returns the grain. */
static int64_t put_in(struct simba__wheel *wheel, simba_timer *timer)
{
    int64_t grain = timer->at_ms / GRAIN_MS;

    if (wheel->count == 0) {
        wheel->grain = simba_loop_now_ms() / GRAIN_MS;
    }
    if (grain < wheel->grain) {
        grain = wheel->grain;
    } else if (grain >= wheel->grain + GRAINS) {
        grain = wheel->grain + GRAINS - 1;
    }
    timer->child = (simba_timer *)ring_of(wheel, grain); /* is free for it */
    simba__ring_add(ring_of(wheel, grain), timer);
    wheel->count++;
    return grain;
}

static void take_out(struct simba__wheel *wheel, simba_timer *timer)
{
    simba__ring_remove((simba_timer **)timer->child, timer);
    timer->child = NULL;
    wheel->count--;
}

void simba__look_later(struct simba__contention *c, int64_t at_ms)
{
    struct simba__wheel *wheel = c->loop->wheel;

    assert(c->look == SIMBA__NO_LOOK && !c->timer.is_set);
    c->look = SIMBA__LOOK_LATER;
    simba__timer_at(&c->timer, at_ms);
    tick_after(wheel, put_in(wheel, &c->timer));
}

void simba__look_forget(struct simba__contention *c)
{
    struct simba__wheel *wheel = c->loop->wheel;

    if (c->look == SIMBA__LOOK_LATER) {
        take_out(wheel, &c->timer);
    } else if (c->look == SIMBA__LOOKING) {
        for (struct call *call = wheel->calls; call != NULL;
             call = call->next) {
            for (size_t i = 0; i < call->looks.count; i++) {
                if (call->who[i] == c) {
                    call->who[i] = NULL;
                    call->look[i].mutex = call->look[i].id = NULL;
                }
            }
        }
    }
    c->look = SIMBA__NO_LOOK;
}

/* --- calls --------------------------------------------------------------- */

/* By waiter leases, then by their mutexes: each has one copy of its name. */
static int compare(const void *a, const void *b)
{
    const struct simba__contention *one = *(struct simba__contention *const *)a;
    const struct simba__contention *other =
        *(struct simba__contention *const *)b;
    int64_t ms = simba__contention_waiter_ms(one);
    int64_t other_ms = simba__contention_waiter_ms(other);

    return ms != other_ms ? (ms > other_ms) - (ms < other_ms)
                          : (one->subscriber.of > other->subscriber.of) -
                                (one->subscriber.of < other->subscriber.of);
}

/* Each for a mutex of its own, as far as we know, and with one waiter lease:
 * then they need not be put in order. */
static bool is_in_order(const struct call *call)
{
    int64_t waiter_ms = simba__contention_waiter_ms(call->who[0]);

    for (size_t i = 0; i < call->looks.count; i++) {
        const struct simba__contention *c = call->who[i];

        if (c->subscriber.of->queue != &c->subscriber.place ||
            c->subscriber.place.child != NULL ||
            simba__contention_waiter_ms(c) != waiter_ms) {
            return false;
        }
    }
    return true;
}

static void send(struct call *call)
{
    struct simba__wheel *wheel = call->wheel;

    if (!is_in_order(call)) {
        qsort(call->who, call->looks.count, sizeof(struct simba__contention *),
              compare);
    }
    for (size_t i = 0; i < call->looks.count; i++) {
        const struct simba__contention *c = call->who[i];

        call->look[i] =
            (simba_look){.mutex = simba__contention_mutex(c),
                         .id = simba__contention_id(c),
                         .attempt = c->core.attempt,
                         .waiter_ms = simba__contention_waiter_ms(c),
                         .wait_ms = -1};
    }
    call->looks.look = call->look;
    call->next = wheel->calls;
    wheel->calls = call;
    wheel->call_count++;
    wheel->look(wheel->self, &call->looks);
}

/* Of a hundred thousand hardly one is in the CPU's cache: what will be read of
 * it comes while the others are collected. */
static void fetch(const struct simba__contention *c)
{
    __builtin_prefetch(c->timer.sibling);
    __builtin_prefetch(&c->core);
    __builtin_prefetch(&c->core.attempt);
    __builtin_prefetch(c->subscriber.of);
    __builtin_prefetch(c->subscriber.of + 1); /* its name is behind it */
    __builtin_prefetch(simba__contention_id(c));
}

/* As many as there is room for, of whose time has come. NULL: none, or no
 * memory. */
static struct call *collect(struct simba__wheel *wheel)
{
    int64_t now = simba_loop_now_ms() / GRAIN_MS;
    struct call *call = NULL;

    while (wheel->count > 0 && wheel->grain < now) {
        simba_timer *timer = *ring_of(wheel, wheel->grain);

        if (timer == NULL) {
            wheel->grain++;
            continue;
        }
        if (call == NULL) {
            call = malloc(sizeof *call);
            if (call == NULL) {
                return NULL;
            }
            call->wheel = wheel;
            call->looks.count = 0;
        }
        if (call->looks.count == LOOKS_MOST) {
            break;
        }
        fetch(contention_of(timer));
        take_out(wheel, timer);
        if (timer->at_ms / GRAIN_MS > wheel->grain) {
            (void)put_in(wheel, timer); /* it comes round again */
            continue;
        }
        contention_of(timer)->look = SIMBA__LOOKING;
        call->who[call->looks.count++] = contention_of(timer);
    }
    if (call != NULL && call->looks.count == 0) {
        free(call);
        call = NULL;
    }
    return call;
}

static void on_tick(simba_timer *timer)
{
    struct simba__wheel *wheel = container_of(timer, struct simba__wheel, tick);
    struct call *call;

    while (wheel->call_count < CALLS_MOST && (call = collect(wheel)) != NULL) {
        send(call);
    }
    tick_next(wheel);
}

/* It stands as it did: as the core has it, the first in the queue comes right
 * when the lease ends, who stands behind it one offer later. */
static void stand(struct simba__contention *c,
                  const simba_look *look,
                  int64_t now_ms)
{
    int64_t most = simba__lease_length_ms(&c->core.config->lease);
    int64_t wait = look->wait_ms < most ? look->wait_ms : most;

    simba__look_later(c, now_ms + wait + (look->is_head ? 1 : SIMBA__OFFER_MS));
}

void simba_looks_done(simba_looks *looks)
{
    struct call *call = (struct call *)looks;
    struct simba__wheel *wheel = call->wheel;
    struct call **at = &wheel->calls;
    int64_t now_ms = simba_loop_now_ms();

    for (size_t i = 0; i < looks->count; i++) {
        struct simba__contention *c = call->who[i];

        if (c == NULL) {
            continue;
        }
        call->who[i] = NULL;
        c->look = SIMBA__NO_LOOK;
        if (call->look[i].wait_ms >= 0 && simba__look_suits(c)) {
            stand(c, &call->look[i], now_ms);
        } else {
            c->timer.fire(&c->timer);
        }
    }
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    wheel->call_count--;
    free(call);
    tick_next(wheel);
}

void simba_loop_look(simba_loop *loop,
                     void (*look)(simba_backend *self, simba_looks *looks),
                     simba_backend *self)
{
    struct simba__wheel *wheel = calloc(1, sizeof *wheel);

    assert(simba__loop_is_inside(loop) && loop->wheel == NULL);
    if (wheel != NULL) { /* else each asks for itself */
        wheel->loop = loop;
        wheel->look = look;
        wheel->self = self;
        wheel->tick.fire = on_tick;
        loop->wheel = wheel;
    }
}
