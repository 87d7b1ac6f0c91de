/* xoshiro256** by Blackman and Vigna, seeded through splitmix64 as its authors
 * advise: fast, tiny, and good enough for jitter and identifiers. */
#include "core/rng.h"

#include <assert.h>

static uint64_t rotate_left(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void simba__rng_seed(struct simba__rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        rng->word[i] = splitmix(&seed);
    }
}

void simba__rng_load(struct simba__rng *rng, const uint64_t entropy[4])
{
    uint64_t any = 0;

    for (int i = 0; i < 4; i++) {
        rng->word[i] = entropy[i];
        any |= entropy[i];
    }
    if (any == 0) { /* the one state the generator never leaves */
        simba__rng_seed(rng, 0);
    }
}

uint64_t simba__rng_next(struct simba__rng *rng)
{
    uint64_t *w = rng->word;
    uint64_t result = rotate_left(w[1] * 5, 7) * 9;
    uint64_t t = w[1] << 17;

    assert((w[0] | w[1] | w[2] | w[3]) != 0);
    w[2] ^= w[0];
    w[3] ^= w[1];
    w[1] ^= w[2];
    w[0] ^= w[3];
    w[2] ^= t;
    w[3] = rotate_left(w[3], 45);
    return result;
}

uint64_t simba__rng_below(struct simba__rng *rng, uint64_t bound)
{
    /* The bias of the remainder is bound / 2^64: nothing for jitter. */
    return bound == 0 ? 0 : simba__rng_next(rng) % bound;
}
