/* The world: time, machines, and the queue of what is to come. */
#include "sim/world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void world_say(struct world *w, const char *format, ...)
{
    va_list args;

    if (w->trace == NULL) {
        return;
    }
    fprintf(w->trace, "[%6lld] ", (long long)(w->now_us / 1000));
    va_start(args, format);
    vfprintf(w->trace, format, args);
    va_end(args);
    fputc('\n', w->trace);
}

uint64_t world_random(struct world *w, uint64_t bound)
{
    return simba__rng_below(&w->rng, bound);
}

bool world_chance(struct world *w, int per_mille)
{
    return per_mille > 0 && (int)world_random(w, 1000) < per_mille;
}

int64_t world_lease_us(const struct world *w)
{
    return simba__lease_length_ms(&w->config.lease) * 1000;
}

/* --- clocks -------------------------------------------------------------- */

static int64_t clock_ms(int64_t true_us, int ppm, int64_t offset_ms)
{
    return offset_ms + (true_us + true_us / 1000 * ppm / 1000) / 1000;
}

int64_t world_local_ms(const struct world *w, const struct node *n)
{
    return clock_ms(w->now_us, n->rate_ppm, n->offset_ms);
}

int64_t world_store_ms(const struct world *w)
{
    return clock_ms(w->now_us, w->store_ppm, w->store_offset_ms);
}

/* The first true instant at which the node's clock shows `local_ms`. */
static int64_t true_time_of(const struct node *n, int64_t local_ms)
{
    double us;
    int64_t t;

    if (local_ms == SIMBA__NEVER) {
        return SIMBA__NEVER;
    }
    us = (double)(local_ms - n->offset_ms) * 1000.0;
    t = (int64_t)(us / (1.0 + n->rate_ppm / 1e6)) - 100;
    while (clock_ms(t, n->rate_ppm, n->offset_ms) < local_ms) {
        t += 50;
    }
    return t;
}

/* --- the queue ----------------------------------------------------------- */

static bool is_before(const struct due *a, const struct due *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void swap_due(struct due *a, struct due *b)
{
    struct due t = *a;

    *a = *b;
    *b = t;
}

static void grow_queue(struct world *w)
{
    int room = w->heap_room == 0 ? 64 : w->heap_room * 2;

    w->pool = realloc(w->pool, (size_t)room * sizeof *w->pool);
    w->heap = realloc(w->heap, (size_t)room * sizeof *w->heap);
    w->spare = realloc(w->spare, (size_t)room * sizeof *w->spare);
    if (w->pool == NULL || w->heap == NULL || w->spare == NULL) {
        abort();
    }
    for (int i = room - 1; i >= w->heap_room; i--) {
        w->spare[w->spare_count++] = i;
    }
    w->heap_room = room;
}

void world_post(struct world *w, const struct message *m, int64_t delay_us)
{
    int i;

    if (w->spare_count == 0) {
        grow_queue(w);
    }
    i = w->heap_count++;
    w->heap[i] = (struct due){.at_us = w->now_us + delay_us,
                              .order = w->posted++,
                              .index = w->spare[--w->spare_count]};
    w->pool[w->heap[i].index] = *m;
    while (i > 0 && is_before(&w->heap[i], &w->heap[(i - 1) / 2])) {
        swap_due(&w->heap[i], &w->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

static void take_first(struct world *w, struct message *m)
{
    int i = 0;

    *m = w->pool[w->heap[0].index];
    w->spare[w->spare_count++] = w->heap[0].index;
    w->heap[0] = w->heap[--w->heap_count];
    for (;;) {
        int child = 2 * i + 1;
        if (child >= w->heap_count) {
            return;
        }
        if (child + 1 < w->heap_count &&
            is_before(&w->heap[child + 1], &w->heap[child])) {
            child++;
        }
        if (is_before(&w->heap[i], &w->heap[child])) {
            return;
        }
        swap_due(&w->heap[i], &w->heap[child]);
        i = child;
    }
}

void world_post_local(struct world *w,
                      int node,
                      enum simba__contend_event_type type,
                      int64_t delay_us)
{
    struct message m = {
        .kind = MSG_LOCAL, .node = node, .life = w->node[node].life};

    m.event.type = type;
    world_post(w, &m, delay_us);
}

/* --- nodes --------------------------------------------------------------- */

void world_boot(struct world *w, int i)
{
    struct node *n = &w->node[i];

    simba__rng_seed(&n->rng, world_random(w, UINT64_MAX));
    n->config = w->config;
    n->config.slots = n->slots;
    simba__contend_init(&n->c, &n->config);
    n->tenure = (struct simba__contend_tenure){0};
    n->c.tenure = &n->tenure;
    n->life++;
    n->is_up = true;
    n->wants = true;
    n->is_stuck = false;
    n->wake_us = SIMBA__NEVER;
    n->connection = ++w->posted * WORLD_NODES_MOST + (uint64_t)i;
    world_say(w, "n%d boots", i);
    world_post_local(w, i, SIMBA__START, 0);
    if (w->config.progress_ms > 0) {
        world_post_local(w, i, SIMBA__PROGRESS, 1000);
    }
}

static const char *request_name(enum simba_request_kind kind)
{
    static const char *const names[] = {"nothing", "acquire", "renew",
                                        "release", "leave"};
    return names[kind];
}

static void carry_out(struct world *w,
                      int i,
                      const struct simba__contend_update *up)
{
    if (up->send.kind != SIMBA_NO_REQUEST) {
        world_say(w, "n%d -> %s%s%s%s", i, request_name(up->send.kind),
                  up->send.tombstone_ms > 0 ? " with tombstone" : "",
                  up->send.to == NULL ? "" : " to ",
                  up->send.to == NULL ? "" : up->send.to);
        record_sent(w, i, &up->send);
        store_send(w, i, &up->send);
    }
    user_hear(w, i, up);
}

void world_feed(struct world *w, int i, struct simba__contend_event event)
{
    struct node *n = &w->node[i];
    struct step_before before = {.phase = n->c.phase,
                                 .attempt = n->c.attempt,
                                 .inflight = n->c.inflight};
    struct simba__contend_update up = {0}; /* the reply is not set */

    event.now_ms = world_local_ms(w, n);
    event.rng = &n->rng;
    event.is_full = w->weather.full > 0 && world_chance(w, w->weather.full);
    simba__contend_step(&n->c, &event, &up);
    if (n->c.is_held) {
        world_post_local(w, i, SIMBA__TIMER,
                         1 + (int64_t)world_random(w, 200000));
    }
    check_step(w, i, &event, &before, &up);
    carry_out(w, i, &up);
    if (n->tenure.owner_until_ms != 0) {
        n->was_until_ms = n->tenure.owner_until_ms;
    }
    n->wake_us = true_time_of(n, simba__contend_wake_at(&n->c));
}

static void tick_progress(struct world *w, int i)
{
    struct node *n = &w->node[i];

    if (!n->is_stuck) {
        world_feed(w, i,
                   (struct simba__contend_event){.type = SIMBA__PROGRESS});
    }
    world_post_local(w, i, SIMBA__PROGRESS, w->config.progress_ms * 400);
}

static void happen_locally(struct world *w, const struct message *m)
{
    struct node *n = &w->node[m->node];

    if (m->event.type == SIMBA__PROGRESS) {
        tick_progress(w, m->node);
    } else if (m->event.type != SIMBA__START) {
        struct simba__contend_event event = m->event;

        event.to = m->to[0] == '\0' ? NULL : m->to;
        if (m->event.type == SIMBA__RETURNED) {
            n->is_calling = false;
            n->is_inside = n->is_told;
        }
        world_feed(w, m->node, event);
    } else if (n->wants && n->c.phase == SIMBA__IDLE) {
        world_feed(w, m->node, m->event);
    }
}

static void deliver(struct world *w, const struct message *m)
{
    struct node *n = &w->node[m->node];
    bool is_alive = n->is_up && m->life == n->life;
    struct simba__contend_event event = m->event;

    if (m->kind == MSG_REQUEST) {
        store_receive(w, m);
    } else if (m->kind == MSG_STORE_UP) {
        w->is_store_up = true;
        world_say(w, "store is up");
    } else if (m->kind == MSG_BOOT) {
        if (!n->is_up) {
            world_boot(w, m->node);
        }
    } else if (!is_alive) {
        return;
    } else if (n->paused_until_us > w->now_us) {
        world_post(w, m, n->paused_until_us - w->now_us);
    } else if (m->kind == MSG_LOCAL) {
        happen_locally(w, m);
    } else if (m->store_epoch == w->store_epoch) {
        if (m->kind == MSG_REPLY) {
            record_heard(w, m->node, m);
        }
        event.reply = &m->request.reply;
        world_feed(w, m->node, event);
    }
}

/* --- time ---------------------------------------------------------------- */

static int64_t wake_of(const struct node *n)
{
    if (!n->is_up || n->wake_us == SIMBA__NEVER) {
        return SIMBA__NEVER;
    }
    return n->wake_us > n->paused_until_us ? n->wake_us : n->paused_until_us;
}

static int first_timer(const struct world *w, int64_t *at_us)
{
    int first = -1;

    for (int i = 0; i < w->node_count; i++) {
        int64_t at = wake_of(&w->node[i]);
        if (at < *at_us) {
            *at_us = at;
            first = i;
        }
    }
    return first;
}

/* Do the earliest thing due, exactly that one, unless it is due later than
 * `until_us`; then only time passes. */
static void tick_until(struct world *w, int64_t until_us)
{
    int64_t at = w->next_mischief_us;
    bool is_message = w->heap_count > 0 && w->heap[0].at_us <= at;
    struct message m;
    int timer;

    if (is_message) {
        at = w->heap[0].at_us;
    }
    timer = first_timer(w, &at);
    if (at > until_us) {
        w->now_us = until_us;
        return;
    }
    if (at > w->now_us) {
        w->now_us = at;
    }
    if (timer >= 0) {
        world_feed(w, timer,
                   (struct simba__contend_event){.type = SIMBA__TIMER});
    } else if (is_message) {
        take_first(w, &m);
        deliver(w, &m);
    } else {
        swarm_mischief(w);
    }
    check_owners(w);
}

void world_tick(struct world *w)
{
    tick_until(w, SIMBA__NEVER);
}

void world_run_until(struct world *w, int64_t until_us)
{
    while (w->now_us < until_us) {
        tick_until(w, until_us);
    }
}

bool world_is_owner(const struct world *w, int i)
{
    const struct node *n = &w->node[i];

    return n->is_up && simba__contend_is_owner(&n->c, world_local_ms(w, n));
}

int world_owner(const struct world *w)
{
    for (int i = 0; i < w->node_count; i++) {
        if (world_is_owner(w, i)) {
            return i;
        }
    }
    return -1;
}

void world_init(struct world *w, uint64_t seed, FILE *trace)
{
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->trace = trace;
    w->now_us = 1000000; /* clocks have room below zero offsets */
    simba__rng_seed(&w->rng, seed);
    w->record = (struct simba__mutex_record){0};
    store_open(w);
}

void world_fini(struct world *w)
{
    simba__mutex_fini(&w->record);
    free(w->pool);
    free(w->heap);
    free(w->spare);
}
