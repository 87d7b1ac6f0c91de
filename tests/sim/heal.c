/* The second half of a run: faults have ended, and now everything must go
 * well, within bounds. First somebody must own the mutex (progress), then it
 * must change hands as fast as the store's round trips allow (S10), and after
 * everybody stopped it must be free. */
#include "sim/world.h"

enum { ROUNDS = 4, SLACK_US = 100000 };

static int64_t lease_bound_us(const struct world *w)
{
    return world_lease_us(w) / 100 * 103 + 2 * SIMBA__OFFER_MS * 1000 +
           SLACK_US;
}

static void run_for(struct world *w, int64_t us)
{
    world_run_until(w, w->now_us + us);
}

/* Runs until somebody but `not` owns the mutex, or the time is up. */
static int run_until_owned(struct world *w, int not, int64_t within_us)
{
    int64_t deadline = w->now_us + within_us;

    while (w->now_us < deadline) {
        int owner = world_owner(w);
        if (owner >= 0 && owner != not ) {
            return owner;
        }
        world_tick(w);
    }
    return -1;
}

static void wake_everybody(struct world *w)
{
    for (int i = 0; i < w->node_count; i++) {
        struct node *n = &w->node[i];
        if (!n->is_up) {
            world_boot(w, i);
        }
        n->wants = true;
        world_post_local(w, i, SIMBA__START, 0);
    }
}

/* Everybody has asked at least once since the faults ended. */
static int64_t settle_us(const struct world *w)
{
    return 5 * lease_bound_us(w) + w->config.initial_delay_ms * 2000 +
           w->config.min_hold_ms * 2000 + 4000000;
}

/* How long a clean hand-over may take. Who has no position in the queue, or
 * hears no wake-up, has only the backstop. */
static int64_t hand_over_bound_us(const struct world *w)
{
    int64_t leave_us =
        (w->config.lease.budget_ms + w->config.min_hold_ms) * 1020;

    if (w->config.join && w->weather.wake_loss == 0) {
        return leave_us + SLACK_US;
    }
    return leave_us + lease_bound_us(w) + 1100000;
}

/* Wake-ups that mean nothing, so that a waiter may well be asking at the very
 * moment the one that counts arrives. */
static void post_idle_wakes(struct world *w)
{
    uint64_t span_us = (uint64_t)w->config.lease.budget_ms * 400 + 2000;

    for (int i = 0; i < w->node_count * 20; i++) {
        struct message m = {.kind = MSG_WAKE,
                            .node = i % w->node_count,
                            .life = w->node[i % w->node_count].life,
                            .store_epoch = w->store_epoch};
        m.event.type = SIMBA__WAKE_UP;
        world_post(w, &m, (int64_t)world_random(w, span_us));
    }
}

static void hand_over(struct world *w, bool has_idle_wakes)
{
    int owner = run_until_owned(w, -1, hand_over_bound_us(w));
    int next;

    if (owner < 0) {
        violate(w, S10, "nobody owns the mutex");
        return;
    }
    world_say(w, "n%d is asked to stop", owner);
    w->node[owner].wants = false;
    world_post_local(w, owner, SIMBA__STOP, 0);
    if (has_idle_wakes) {
        post_idle_wakes(w);
    }
    run_for(w, 1);
    next = run_until_owned(w, owner, hand_over_bound_us(w));
    if (next < 0) {
        violate(w, S10, "nobody took over from n%d", owner);
    }
    w->rotations++;
    w->node[owner].wants = true;
    world_post_local(w, owner, SIMBA__START, 0);
    run_for(w, w->config.initial_delay_ms * 1020 + SLACK_US);
}

/* S10 after somebody left the queue: nobody waits for its position. */
static void hand_over_past_a_leaver(struct world *w)
{
    int owner = world_owner(w);
    int leaver = (owner + 1) % w->node_count;

    if (owner < 0 || w->node_count < 3 || w->config.max_hold_ms > 0) {
        return;
    }
    run_for(w, (int64_t)world_random(w, (uint64_t)lease_bound_us(w)));
    if (leaver == world_owner(w)) {
        return;
    }
    w->node[leaver].wants = false;
    world_post_local(w, leaver, SIMBA__STOP, 0);
    run_for(w, SLACK_US / 2);
    hand_over(w, false);
    w->node[leaver].wants = true;
    world_post_local(w, leaver, SIMBA__START, 0);
    run_for(w, w->config.initial_delay_ms * 1020 + SLACK_US);
}

/* S10 with dead waiters: they are skipped, not waited for. */
static void hand_over_past_the_dead(struct world *w)
{
    int owner = world_owner(w);

    if (owner < 0 || w->node_count < 4 || w->config.max_hold_ms > 0) {
        return;
    }
    for (int i = 0, killed = 0; i < w->node_count && killed < 2; i++) {
        if (i != owner) {
            swarm_crash(w, i);
            killed++;
        }
    }
    hand_over(w, false);
}

static bool is_everybody_idle(const struct world *w)
{
    for (int i = 0; i < w->node_count; i++) {
        if (w->node[i].is_up && w->node[i].c.phase != SIMBA__IDLE) {
            return false;
        }
    }
    return true;
}

static void stop_all(struct world *w)
{
    int64_t leave_us =
        (w->config.lease.budget_ms + w->config.min_hold_ms) * 1020;

    run_for(w, lease_bound_us(w)); /* those that crashed are back */
    for (int i = 0; i < w->node_count; i++) {
        w->node[i].wants = false;
        world_post_local(w, i, SIMBA__STOP, 0);
    }
    run_for(w, 2 * leave_us + 2 * SLACK_US);
    if (!is_everybody_idle(w)) {
        violate(w, PROGRESS, "somebody did not come to rest");
    }
    if (simba__mutex_is_held(&w->record, world_store_ms(w))) {
        violate(w, S8, "the mutex is held by nobody");
    }
}

void heal_and_check(struct world *w)
{
    world_say(w, "faults end");
    swarm_calm(w);
    wake_everybody(w);
    if (!w->is_store_up) {
        run_for(w, SLACK_US);
    }
    if (run_until_owned(w, -1, settle_us(w)) < 0) {
        violate(w, PROGRESS, "nobody acquired after healing");
        return;
    }
    run_for(w, settle_us(w));
    for (int i = 0; i < ROUNDS; i++) {
        hand_over(w, i % 2 == 1);
    }
    hand_over_past_a_leaver(w);
    hand_over_past_the_dead(w);
    stop_all(w);
}
