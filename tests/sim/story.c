#include "sim/story.h"

#include <stdio.h>

void story_begin(struct world *w, int node_count, FILE *trace)
{
    world_init(w, 1, trace);
    w->now_us = 0;
    w->is_told = true;
    w->next_mischief_us = SIMBA__NEVER;
    w->callback_us = 20000;
    w->weather.latency_us = 5000;
    w->node_count = node_count;
    w->config.join = true;
    w->config.lease.ttl_ms = 2000;
    w->config.lease.transition_ms = 1000;
    w->config.lease.budget_ms =
        simba__lease_budget_default_ms(&w->config.lease);
    for (int i = 0; i < node_count; i++) {
        snprintf(w->node[i].id, sizeof w->node[i].id, "node-%d", i);
    }
}

void story_start(struct world *w, int i)
{
    world_boot(w, i);
}

void story_stop(struct world *w, int i)
{
    world_say(w, "n%d is asked to stop", i);
    w->node[i].wants = false;
    world_post_local(w, i, SIMBA__STOP, 0);
}

void story_start_again(struct world *w, int i)
{
    world_say(w, "n%d is asked to start", i);
    w->node[i].wants = true;
    world_post_local(w, i, SIMBA__START, 0);
}

void story_kill(struct world *w, int i)
{
    world_say(w, "n%d is killed", i);
    w->node[i].is_up = false;
    w->node[i].is_told = false;
    w->node[i].is_inside = false;
}

void story_cut(struct world *w, bool is_cut)
{
    world_say(w, is_cut ? "the network is cut" : "the network is back");
    w->weather.drop = is_cut ? 1000 : 0;
    w->weather.wake_loss = is_cut ? 1000 : 0;
}

void story_run_to(struct world *w, int64_t ms)
{
    world_run_until(w, ms * 1000);
}
