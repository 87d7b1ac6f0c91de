/* The second half of a run: faults have ended, and now everything must go
 * well, within bounds. First somebody must own the mutex (progress), then it
 * must change hands as fast as the store's round trips allow (S10), and after
 * everybody stopped it must be free. */
#include "sim/world.h"

#include <string.h>

/* HASTE_US: who was woken in vain again and again hears so much later that it
 * is asked to hand over. */
enum { ROUNDS = 4, SLACK_US = 100000, HASTE_US = 850000 };

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
        for (int i = 0; i < w->node_count; i++) {
            if (i != not &&world_is_owner(w, i)) {
                return i;
            }
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
        if (w->node[i].c.phase == SIMBA__WAITING) {
            swarm_crash(w, i);
            killed++;
        }
    }
    hand_over(w, false);
}

static int count_owners(const struct world *w)
{
    int owners = 0;

    for (int i = 0; i < w->node_count; i++) {
        owners += world_is_owner(w, i);
    }
    return owners;
}

/* S10 with slots: those who leave at once are all succeeded at once. */
static void hand_over_all(struct world *w)
{
    int slots = (int)w->node[0].slots;
    int64_t deadline;

    if (w->sharing != SLOTTED || w->node_count < 2 * slots ||
        w->config.max_hold_ms > 0) {
        return;
    }
    run_for(w, hand_over_bound_us(w));
    w->callback_us = 1;
    for (int i = 0; i < w->node_count; i++) {
        if (world_is_owner(w, i)) {
            w->node[i].wants = false;
            world_post_local(w, i, SIMBA__STOP, 0);
        }
    }
    run_for(w, 1);
    deadline = w->now_us + hand_over_bound_us(w);
    while (w->now_us < deadline && count_owners(w) < slots) {
        world_tick(w);
    }
    if (count_owners(w) < slots) {
        violate(w, S10, "%d owners of %d slots", count_owners(w), slots);
    }
    w->callback_us = 0;
    wake_everybody(w);
    run_for(w, w->config.initial_delay_ms * 1020 + SLACK_US);
}

/* S10: who is asked to hand over does, and to the one that was named, also to
 * the last of the queue. Without wake-ups it hears of it by its next renewal.
 */
static void hand_over_when_asked(struct world *w)
{
    const struct simba__mutex_record *record = &w->record;
    int64_t bound = hand_over_bound_us(w) + SLACK_US + HASTE_US;
    /* Else it may not fit, or not hear that it is offered it. */
    bool is_certain = w->sharing == EXCLUSIVE && w->weather.wake_loss == 0;
    uint64_t token = record->owner.token;
    char to[sizeof w->node[0].id];
    int64_t deadline;

    if (w->config.max_hold_ms > 0 || record->queue_count == 0 ||
        record->owner.is_broken) {
        return;
    }
    memcpy(to, record->queue[record->queue_count - 1].id, sizeof to);
    if (!store_ask_to_hand_over(w, &record->first, to)) {
        return;
    }
    if (w->weather.wake_loss > 0) {
        bound += lease_bound_us(w);
    }
    deadline = w->now_us + bound;
    while (w->now_us < deadline &&
           (record->owner.token == token ||
            (is_certain && strcmp(record->owner.id, to) != 0))) {
        world_tick(w);
    }
    if (record->owner.token == token) {
        violate(w, S10, "%s was asked to hand over and did not",
                record->owner.id);
    } else if (is_certain && strcmp(record->owner.id, to) != 0) {
        violate(w, S10, "%s was to have it, and %s has", to, record->owner.id);
    }
    run_for(w, hand_over_bound_us(w));
}

/* S10: a dead successor is not waited for. */
static void hand_over_to_the_dead(struct world *w)
{
    struct message m = {.kind = MSG_LOCAL};
    int owner, dead = -1;

    if (w->node_count < 3 || w->config.max_hold_ms > 0 ||
        w->sharing != EXCLUSIVE) {
        return;
    }
    /* Those that crashed are back. */
    run_for(w, lease_bound_us(w) + w->config.initial_delay_ms * 1020);
    owner = run_until_owned(w, -1, hand_over_bound_us(w));
    for (int i = 0; i < w->node_count; i++) {
        if (w->node[i].queued.is_in && w->node[i].c.phase == SIMBA__WAITING) {
            dead = i;
        }
    }
    if (owner < 0 || dead < 0) {
        return;
    }
    swarm_crash(w, dead);
    m.node = owner;
    m.life = w->node[owner].life;
    m.event.type = SIMBA__HAND_OVER;
    memcpy(m.to, w->node[dead].id, sizeof m.to);
    world_post(w, &m, 0);
    run_for(w, 1);
    if (run_until_owned(w, -1, hand_over_bound_us(w)) < 0) {
        violate(w, S10, "nobody took over from n%d, which named the dead n%d",
                owner, dead);
    }
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

    run_for(w, lease_bound_us(w));
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
    hand_over_all(w);
    w->is_queue_hidden = true; /* who is named passes others */
    hand_over_when_asked(w);
    hand_over_past_the_dead(w);
    hand_over_to_the_dead(w);
    stop_all(w);
}
