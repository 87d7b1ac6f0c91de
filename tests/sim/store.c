/* The model store and the network to it: requests and replies are lost, late,
 * doubled and reordered; connections break; the store restarts, with or
 * without its data. */
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_connected(void *self, uint64_t connection)
{
    struct world *w = self;
    struct node *n = &w->node[connection % WORLD_NODES_MOST];

    if (connection == n->connection) {
        return n->is_up;
    }
    return connection == n->ghost && w->now_us < n->ghost_until_us;
}

static int64_t latency_us(struct world *w)
{
    int64_t base = w->weather.latency_us;
    int64_t us = base + (int64_t)world_random(w, (uint64_t)base + 1);

    if (w->is_told) {
        return base;
    }
    if (world_chance(w, w->weather.late)) {
        us += (int64_t)world_random(w, (uint64_t)w->weather.late_us);
    }
    return us;
}

/* Reorder comes for free: two messages have latencies of their own. */
static void transmit(struct world *w, struct message *m)
{
    if (world_chance(w, w->weather.copy)) {
        m->is_copy = true; /* either may be the one that is answered */
        world_post(w, m, latency_us(w) + w->weather.latency_us);
    }
    if (!world_chance(w, w->weather.drop)) {
        world_post(w, m, latency_us(w));
    }
}

void store_wake(struct world *w, int node)
{
    struct message m = {.kind = MSG_WAKE,
                        .node = node,
                        .life = w->node[node].life,
                        .store_epoch = w->store_epoch};

    w->wakes++;
    m.event.type = SIMBA__WAKE_UP;
    if (!world_chance(w, w->weather.wake_loss)) {
        world_post(w, &m, latency_us(w));
    }
}

static void wake_waiter(void *self, const struct simba__waiter *waiter)
{
    struct world *w = self;
    int node = (int)(waiter->connection % WORLD_NODES_MOST);

    if (waiter->connection == w->node[node].connection) {
        store_wake(w, node);
    }
}

void store_open(struct world *w)
{
    w->is_store_up = true;
    w->host = (struct simba__mutex_host){
        .self = w, .is_connected = is_connected, .wake = wake_waiter};
}

static void post_outcome(struct world *w,
                         int node,
                         uint64_t seq,
                         enum simba__outcome outcome)
{
    struct message m = {.kind = MSG_REPLY,
                        .node = node,
                        .life = w->node[node].life,
                        .store_epoch = w->store_epoch};

    m.event.type = SIMBA__REPLIED;
    m.event.seq = seq;
    m.event.outcome = outcome;
    world_post(w, &m, 100);
}

void store_send(struct world *w, int i, const simba_request *request)
{
    struct message m = {.kind = MSG_REQUEST,
                        .node = i,
                        .life = w->node[i].life,
                        .store_epoch = w->store_epoch,
                        .connection = w->node[i].connection,
                        .request = *request};

    w->sent[request->kind]++;
    w->backstops += request->is_backstop;
    m.request.id = w->node[i].id;
    if (request->to != NULL) {
        snprintf(m.to, sizeof m.to, "%s", request->to);
    }
    if (!w->is_store_up) { /* connection refused: surely without effect */
        post_outcome(w, i, request->seq, SIMBA__FAILED);
    } else {
        transmit(w, &m);
    }
}

static void reply_to(struct world *w,
                     const struct message *m,
                     const simba_reply *reply)
{
    struct message answer = {.kind = MSG_REPLY,
                             .node = m->node,
                             .life = m->life,
                             .store_epoch = m->store_epoch};

    answer.event.type = SIMBA__REPLIED;
    answer.event.seq = m->request.seq;
    answer.event.outcome = SIMBA__ANSWERED;
    answer.request.reply = *reply;
    transmit(w, &answer);
}

static uint64_t position_of(const struct simba__mutex_record *record,
                            simba_attempt attempt)
{
    for (size_t i = 0; i < record->queue_count; i++) {
        if (simba__attempt_equal(record->queue[i].attempt, attempt)) {
            return record->queue[i].position;
        }
    }
    return 0;
}

/* What a stingy store is willing to grant this time: half of it at least, more
 * than the budget takes, and no less than it has granted already. */
static struct simba__lease lease_offered(struct world *w,
                                         const struct message *m)
{
    const struct simba__lease *asked = &w->config.lease;
    int64_t most = simba__lease_length_ms(asked);
    const struct simba__tenure *mine =
        simba__mutex_find_tenure(&w->record, m->request.attempt);
    int64_t left =
        mine == NULL ? 0 : mine->owner.transition_at_ms - world_store_ms(w);
    int64_t granted = most / 2;
    struct simba__lease offered;

    if (!world_chance(w, w->weather.stingy)) {
        return *asked;
    }
    granted += (int64_t)world_random(w, (uint64_t)(most - granted));
    if (granted < left) {
        granted = left;
    }
    offered = simba__lease_shorten(asked, granted);
    return simba__lease_use_ms(&offered) > 0 ? offered : *asked;
}

/* What the checkers compare with: its tenures are copies. */
static struct simba__mutex_record copy_of(
    const struct simba__mutex_record *record)
{
    struct simba__mutex_record copy = *record;
    size_t size = record->other_count * sizeof *copy.others;

    if (size > 0) {
        copy.others = malloc(size);
        if (copy.others == NULL) {
            abort();
        }
        memcpy(copy.others, record->others, size);
    } else {
        copy.others = NULL;
    }
    return copy;
}

/* An admin asks; false: nobody is there to ask, or to hand over to. */
bool store_ask_to_hand_over(struct world *w,
                            const struct simba__tenure *tenure,
                            const char *to)
{
    simba_request request = {.kind = SIMBA_HAND_OVER,
                             .token = tenure->owner.token,
                             .to = to,
                             .reply = SIMBA_REPLY_INIT};
    struct simba__mutex_request given = {.request = &request,
                                         .now_ms = world_store_ms(w)};

    if (!w->is_store_up ||
        !simba__mutex_serve(&w->record, &w->host, &given, &request.reply) ||
        request.reply.to[0] == '\0') {
        return false;
    }
    world_say(w, "admin asks %s to hand over to %s", tenure->owner.id,
              request.reply.to);
    return true;
}

void store_receive(struct world *w, const struct message *m)
{
    struct simba__mutex_record before;
    simba_reply reply = SIMBA_REPLY_INIT;
    struct simba__lease lease = lease_offered(w, m);
    simba_request request = m->request;
    struct simba__mutex_request given = {.request = &request,
                                         .connection = m->connection,
                                         .now_ms = world_store_ms(w)};

    request.ttl_ms = lease.ttl_ms;
    request.transition_ms = lease.transition_ms;
    if (!w->is_store_up || m->store_epoch != w->store_epoch) {
        return;
    }
    if (m->request.kind == SIMBA_ACQUIRE && w->now_us < w->grace_until_us) {
        post_outcome(w, m->node, m->request.seq, SIMBA__FAILED);
        return;
    }
    request.to = w->successor = m->to[0] == '\0' ? NULL : m->to;
    w->position_before = position_of(&w->record, m->request.attempt);
    before = copy_of(&w->record);
    if (simba__mutex_serve(&w->record, &w->host, &given, &reply)) {
        check_served(w, &before, m, &reply);
        if (reply.mine) {
            reply.lease_ms = simba__lease_length_ms(&lease);
        }
        reply_to(w, m, &reply);
    }
    w->successor = NULL;
    free(before.others);
}

/* The request under way may or may not have arrived; the contender only sees
 * that its connection broke, and, once reconnected, looks again. */
void store_reset_connection(struct world *w, int i)
{
    struct node *n = &w->node[i];

    n->ghost = n->connection;
    n->ghost_until_us = w->now_us + w->weather.half_open_us;
    n->connection = ++w->posted * WORLD_NODES_MOST + (uint64_t)i;
    if (n->is_up && n->c.inflight != SIMBA_NO_REQUEST) {
        post_outcome(w, i, n->c.seq, SIMBA__UNKNOWN);
    }
    store_wake(w, i);
}

void store_restart(struct world *w, bool loses_data, int64_t down_us)
{
    struct message up = {.kind = MSG_STORE_UP};

    world_say(w, "store restarts%s", loses_data ? ", its data lost" : "");
    w->store_epoch++;
    if (loses_data) {
        simba__mutex_fini(&w->record);
        w->record = (struct simba__mutex_record){0};
        /* Nobody is granted anything before every old lease is over. */
        w->grace_until_us = w->now_us + down_us + world_lease_us(w) / 100 * 103;
        check_wiped(w);
    }
    for (int i = 0; i < w->node_count; i++) {
        store_reset_connection(w, i);
        w->node[i].ghost_until_us = 0;
    }
    w->is_store_up = false;
    world_post(w, &up, down_us);
}
