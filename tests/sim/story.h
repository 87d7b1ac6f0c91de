/* A world told step by step instead of drawn from a seed: exact clocks, a
 * network that takes 5 ms each way, callbacks that take 20 ms. For golden
 * traces and for showing. */
#ifndef SIMBA_SIM_STORY_H
#define SIMBA_SIM_STORY_H

#include "sim/world.h"

/* Prepares `node_count` contenders with ttl 2 s and transition 1 s, all off. */
void story_begin(struct world *w, int node_count, FILE *trace);

/* Switches a node on: its user wants the mutex. */
void story_start(struct world *w, int node);

/* The user of a node wants the mutex no more, or again. */
void story_stop(struct world *w, int node);
void story_start_again(struct world *w, int node);

/* A node dies, and nobody switches it on again. */
void story_kill(struct world *w, int node);

/* Nothing gets through to the store or back, until it does again. */
void story_cut(struct world *w, bool is_cut);

void story_run_to(struct world *w, int64_t ms);

#endif
