/* The seeded generator: the published sequences, and its corners. */
#include "core/rng.h"

#include <stddef.h>

#include "fixtures/unit_test.h"

/* The first numbers that the authors' own program gives. */
TEST(test_rng__follows_the_published_sequence)
{
    static const uint64_t entropy[4] = {1, 2, 3, 4};
    static const uint64_t expected[] = {
        UINT64_C(11520),
        UINT64_C(0),
        UINT64_C(1509978240),
        UINT64_C(1215971899390074240),
        UINT64_C(1216172134540287360),
        UINT64_C(607988272756665600),
        UINT64_C(16172922978634559625),
        UINT64_C(8476171486693032832),
        UINT64_C(10595114339597558777),
        UINT64_C(2904607092377533576),
    };
    struct simba__rng rng;

    simba__rng_load(&rng, entropy);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_true(simba__rng_next(&rng) == expected[i]);
    }
}

TEST(test_rng__seed_is_spread_by_splitmix)
{
    struct simba__rng rng;

    simba__rng_seed(&rng, 0);
    assert_true(rng.word[0] == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(rng.word[1] == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(rng.word[2] == UINT64_C(0x06c45d188009454f));
    assert_true(rng.word[3] == UINT64_C(0xf88bb8a8724c81ec));
}

TEST(test_rng__same_seed_gives_the_same_numbers)
{
    struct simba__rng a, b, other;
    int differences = 0;

    simba__rng_seed(&a, 42);
    simba__rng_seed(&b, 42);
    simba__rng_seed(&other, 43);
    for (int i = 0; i < 100; i++) {
        uint64_t x = simba__rng_next(&a);

        assert_true(x == simba__rng_next(&b));
        differences += x != simba__rng_next(&other);
    }
    assert_int_equal(differences, 100);
}

/* The state the generator never leaves by itself. */
TEST(test_rng__entropy_of_zero_is_mended)
{
    static const uint64_t zero[4];
    struct simba__rng rng, seeded;

    simba__rng_load(&rng, zero);
    simba__rng_seed(&seeded, 0);
    assert_memory_equal(&rng, &seeded, sizeof rng);
}

TEST(test_rng__any_word_of_entropy_is_kept)
{
    for (int i = 0; i < 4; i++) {
        uint64_t entropy[4] = {0};
        struct simba__rng rng;

        entropy[i] = 1;
        simba__rng_load(&rng, entropy);
        assert_memory_equal(rng.word, entropy, sizeof entropy);
    }
}

TEST(test_rng__below_stays_below_and_gets_everywhere)
{
    struct simba__rng rng;
    unsigned seen = 0;

    simba__rng_seed(&rng, 1);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = simba__rng_below(&rng, 7);

        assert_true(x < 7);
        seen |= 1U << x;
    }
    assert_int_equal(seen, 0x7f);
    assert_int_equal(simba__rng_below(&rng, 1), 0);
}

TEST(test_rng__below_zero_is_zero_and_draws_nothing)
{
    struct simba__rng rng, before;

    simba__rng_seed(&rng, 1);
    before = rng;
    assert_int_equal(simba__rng_below(&rng, 0), 0);
    assert_memory_equal(&rng, &before, sizeof rng);
}
