/* A small seeded generator, so that the core's randomness is data: the same
 * seed gives the same jitter and the same attempt ids, and a simulated run can
 * be replayed. Not for secrets. */
#ifndef SIMBA_CORE_RNG_H
#define SIMBA_CORE_RNG_H

#include <stdint.h>

/* 256 bits of state, because 128-bit attempt ids drawn from less would repeat
 * far earlier than their length promises. */
struct simba__rng {
    uint64_t word[4];
};

/** Fill the state from one number; for simulations and tests. */
void simba__rng_seed(struct simba__rng *rng, uint64_t seed);

/** Fill the state from 32 bytes of real randomness; all-zero is mended. */
void simba__rng_load(struct simba__rng *rng, const uint64_t entropy[4]);

/** The next 64 random bits. */
uint64_t simba__rng_next(struct simba__rng *rng);

/** A number in [0, bound), or 0 when bound is 0. */
uint64_t simba__rng_below(struct simba__rng *rng, uint64_t bound);

#endif
