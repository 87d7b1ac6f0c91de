/* The weather: one seed draws not only the faults but how often they come, so
 * that runs differ in kind and not just in luck. */
#include "sim/world.h"

#include <stdio.h>
#include <string.h>

/* Half of all worlds have none of a fault, the others up to `most`. */
static int maybe(struct world *w, int most)
{
    return world_random(w, 2) == 0 ? 0 : (int)world_random(w, (uint64_t)most);
}

static int64_t pick(struct world *w, const int64_t *from, size_t count)
{
    return from[world_random(w, count)];
}

static int64_t draw_budget(struct world *w, const struct simba__lease *lease)
{
    switch (world_random(w, 4)) {
    case 0:
        return 1;
    case 1:
        return simba__lease_budget_most_ms(lease);
    default:
        return simba__lease_budget_default_ms(lease);
    }
}

/* Within +-1 %, and often right at the ends, where the margin is needed. */
static int draw_rate(struct world *w)
{
    switch (world_random(w, 3)) {
    case 0:
        return -10000;
    case 1:
        return 10000;
    default:
        return (int)world_random(w, 20001) - 10000;
    }
}

static void draw_config(struct world *w)
{
    static const int64_t ttls[] = {100, 300, 1000, 2000, 10000};
    static const int64_t shares[] = {0, 25, 50, 60, 100, 300};
    struct simba__contend_config *c = &w->config;
    struct simba__lease *lease = &c->lease;

    lease->ttl_ms = pick(w, ttls, 5);
    lease->transition_ms = lease->ttl_ms * pick(w, shares, 6) / 100;
    lease->budget_ms = draw_budget(w, lease);
    c->join = world_random(w, 8) != 0;
    c->initial_delay_ms = maybe(w, 500);
    if (world_random(w, 4) == 0) {
        c->max_hold_ms = lease->ttl_ms * (1 + maybe(w, 5));
    }
    if (world_random(w, 4) == 0) {
        c->min_hold_ms = (int64_t)world_random(w, (uint64_t)lease->ttl_ms);
    }
    if (world_random(w, 4) == 0) {
        c->progress_ms = lease->ttl_ms / 2;
    }
}

static void draw_weather(struct world *w)
{
    struct weather *x = &w->weather;
    int64_t lease_us = world_lease_us(w);

    x->drop = maybe(w, 400);
    x->copy = maybe(w, 200);
    x->late = maybe(w, 100);
    x->late_us = 1 + (int64_t)world_random(w, (uint64_t)lease_us * 2);
    x->latency_us = 100 + (int64_t)world_random(w, (uint64_t)lease_us / 40);
    x->wake_loss = maybe(w, 1000);
    x->crash = maybe(w, 200);
    x->pause = maybe(w, 300);
    x->stop = maybe(w, 300);
    x->forge = maybe(w, 300);
    x->reset = maybe(w, 200);
    x->store_restart = maybe(w, 100);
    x->store_wipe = maybe(w, 50);
    x->admin_break = maybe(w, 100);
    x->admin_force = maybe(w, 30);
    x->stuck = maybe(w, 100);
    x->mischief_us = lease_us / 20 + 1 + maybe(w, (int)(lease_us / 2));
    x->half_open_us = maybe(w, (int)(lease_us / 2));
    x->slow_callback = maybe(w, 100);
    x->stingy = w->seed % 3 == 0 ? (int)(w->seed / 3 % 1000) : 0;
    x->full = w->seed % 7 == 5 ? (int)(w->seed / 7 % 1000) : 0;
    if (w->seed % 5 >= 3) {
        x->hand_over = maybe(w, 200);
        x->admin_ask = maybe(w, 200);
    }
}

/* Half of all worlds have one owner at a time. */
static void draw_sharing(struct world *w)
{
    static const int64_t limits[] = {0, 0, 1, 2, 3, 5, UINT32_MAX, UINT32_MAX};
    uint32_t slots = 2 + (uint32_t)(w->seed / 4 % 2);

    w->sharing = w->seed % 4 == 2   ? SLOTTED
                 : w->seed % 4 == 3 ? DISAGREEING
                                    : EXCLUSIVE;
    for (int i = 0; i < w->node_count && w->sharing != EXCLUSIVE; i++) {
        w->node[i].slots =
            w->sharing == SLOTTED ? slots : (uint32_t)pick(w, limits, 8);
    }
}

static void draw_node(struct world *w, int i)
{
    struct node *n = &w->node[i];

    snprintf(n->id, sizeof n->id, "node-%d", i);
    n->rate_ppm = draw_rate(w);
    n->offset_ms = (int64_t)world_random(w, 1000000000);
}

void swarm_draw(struct world *w)
{
    w->node_count = 2 + (int)world_random(w, WORLD_NODES_MOST - 1);
    draw_config(w);
    draw_weather(w);
    w->store_ppm = draw_rate(w);
    w->store_offset_ms = (int64_t)world_random(w, 1000000000000);
    draw_sharing(w);
    for (int i = 0; i < w->node_count; i++) {
        draw_node(w, i);
        world_boot(w, i);
    }
}

/* The sun comes out. Wake-ups may stay lost: then the backstop must do. */
void swarm_calm(struct world *w)
{
    int wake_loss = w->weather.wake_loss > 500 ? 1000 : 0;

    memset(&w->weather, 0, sizeof w->weather);
    w->weather.wake_loss = wake_loss;
    w->weather.latency_us = 500;
    w->weather.mischief_us = 1000000;
    for (int i = 0; i < w->node_count; i++) {
        w->node[i].paused_until_us = 0;
        w->node[i].is_stuck = false;
    }
}

void swarm_crash(struct world *w, int i)
{
    struct node *n = &w->node[i];
    struct message m = {.kind = MSG_BOOT, .node = i};
    int64_t lease_us = world_lease_us(w);

    if (!n->is_up) {
        return;
    }
    world_say(w, "n%d crashes", i);
    n->is_up = false;
    n->ghost = n->connection;
    n->ghost_until_us = w->now_us + w->weather.half_open_us;
    n->is_told = n->is_calling = n->is_inside = false;
    n->queued.is_in = false;
    n->paused_until_us = 0;
    world_post(w, &m, (int64_t)world_random(w, (uint64_t)lease_us));
}

static void pause_node(struct world *w, int i)
{
    struct node *n = &w->node[i];
    int64_t lease_us = world_lease_us(w);

    if (n->is_up && n->paused_until_us <= w->now_us) {
        n->paused_until_us =
            w->now_us + (int64_t)world_random(w, (uint64_t)lease_us * 2);
        n->is_excused = true;
        world_say(w, "n%d pauses for %lld ms", i,
                  (long long)(n->paused_until_us - w->now_us) / 1000);
    }
}

static void change_mind(struct world *w, int i)
{
    struct node *n = &w->node[i];

    n->wants = !n->wants;
    world_post_local(w, i, n->wants ? SIMBA__START : SIMBA__STOP, 0);
}

/* Any of them; NULL: there is none. */
static const struct simba__tenure *any_tenure(struct world *w)
{
    size_t others = w->record.other_count;

    return simba__mutex_tenure(&w->record,
                               others == 0 ? 0 : world_random(w, others + 1));
}

/* Anybody of those who may wait, or whoever is next. */
static const char *any_successor(struct world *w)
{
    uint64_t i = world_random(w, (uint64_t)w->node_count + 1);

    return i == 0 ? NULL : w->node[i - 1].id;
}

static void ask_to_hand_over(struct world *w)
{
    const struct simba__tenure *tenure = any_tenure(w);

    if (tenure != NULL) {
        store_ask_to_hand_over(w, tenure, any_successor(w));
    }
}

static void hand_over(struct world *w, int i)
{
    struct message m = {.kind = MSG_LOCAL, .node = i, .life = w->node[i].life};
    const char *to = any_successor(w);

    m.event.type = SIMBA__HAND_OVER;
    snprintf(m.to, sizeof m.to, "%s", to == NULL ? "" : to);
    world_post(w, &m, 0);
}

static void break_tenure(struct world *w, bool at_once)
{
    const struct simba__tenure *tenure = any_tenure(w);
    simba_request request = {.kind = SIMBA_BREAK,
                             .token = tenure == NULL ? 0 : tenure->owner.token,
                             .now = at_once,
                             .reply = SIMBA_REPLY_INIT};
    struct simba__mutex_request given = {.request = &request,
                                         .now_ms = world_store_ms(w)};

    if (w->is_store_up &&
        simba__mutex_serve(&w->record, &w->host, &given, &request.reply) &&
        request.reply.mine) {
        world_say(w, "admin breaks the tenure%s", at_once ? " by force" : "");
        check_offered(w);
        if (at_once) {
            w->forced_until_us =
                w->now_us + world_lease_us(w) / 100 * 103 + 100000;
        }
        record_broken(w, request.token, at_once);
    }
}

static void spread(struct world *w, int i)
{
    const struct weather *x = &w->weather;

    if (world_chance(w, x->crash)) {
        swarm_crash(w, i);
    }
    if (world_chance(w, x->pause)) {
        pause_node(w, i);
    }
    if (world_chance(w, x->stop) && w->node[i].is_up) {
        change_mind(w, i);
    }
    if (world_chance(w, x->forge)) {
        store_wake(w, i);
    }
    if (world_chance(w, x->reset)) {
        store_reset_connection(w, i);
    }
    if (world_chance(w, x->stuck)) {
        w->node[i].is_stuck = !w->node[i].is_stuck;
    }
    if (world_chance(w, x->hand_over)) {
        hand_over(w, i);
    }
}

void swarm_mischief(struct world *w)
{
    const struct weather *x = &w->weather;
    uint64_t spacing = (uint64_t)x->mischief_us * 2;
    int64_t down = (int64_t)world_random(w, spacing + 1);

    spread(w, (int)world_random(w, (uint64_t)w->node_count));
    if (world_chance(w, x->store_restart) && w->is_store_up) {
        store_restart(w, world_chance(w, x->store_wipe * 10), down);
    }
    if (world_chance(w, x->admin_break)) {
        break_tenure(w, false);
    }
    if (world_chance(w, x->admin_force)) {
        break_tenure(w, true);
    }
    if (world_chance(w, x->admin_ask)) {
        ask_to_hand_over(w);
    }
    w->next_mischief_us = w->now_us + 1 + (int64_t)world_random(w, spacing);
}
