#define _GNU_SOURCE
#include "no_memory.h"
#include "util/container.h"
#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/unit_test.h"

struct thing {
    int number;
    struct simba__hash_link link;
    char name[24];
};

enum { THINGS = 500 };

static struct thing things[THINGS];

static struct thing *thing_of(struct simba__hash_link *link)
{
    return link == NULL ? NULL : container_of(link, struct thing, link);
}

static void add(struct simba__hash *table, struct thing *thing, int number)
{
    thing->number = number;
    snprintf(thing->name, sizeof thing->name, "thing %d", number);
    assert_true(simba__hash_add(table, &thing->link, thing->name));
}

/* Figures of the authors of the hash: other processes must find the same. */
/* Those of the standard, and texts on both sides of where a block ends. */
TEST(test_hash__sha1_is_that_of_the_standard)
{
    static const struct {
        size_t length; /* of the letter a, so often; 0: the text */
        const char *text, *sha;
    } cases[] = {
        {0, "", "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
        {0, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {0, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
        {55, NULL, "c1c8bbdc22796e28c0e15163d20899b65621d65a"},
        {64, NULL, "0098ba824b5c16427bd7a1122a5a442a25ec644d"},
        {1000000, NULL, "34aa973cd4c4daa4f61eeb2bdbad27316534016f"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t length = cases[i].length;
        char *letters = malloc(length + 1);
        char sha[SIMBA__SHA1_TEXT + 1];

        assert_non_null(letters);
        memset(letters, 'a', length);
        if (length == 0) {
            simba__sha1(cases[i].text, strlen(cases[i].text), sha);
        } else {
            simba__sha1(letters, length, sha);
        }
        assert_string_equal(sha, cases[i].sha);
        free(letters);
    }
}

TEST(test_hash__fnv_is_the_same_everywhere)
{
    assert_true(simba__fnv64("", 0) == UINT64_C(0xcbf29ce484222325));
    assert_true(simba__fnv64("a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(simba__fnv64("foobar", 6) == UINT64_C(0x85944171f73967e8));
    assert_true(simba__fnv32("", 0) == UINT32_C(0x811c9dc5));
    assert_true(simba__fnv32("a", 1) == UINT32_C(0xe40c292c));
    assert_true(simba__fnv32("foobar", 6) == UINT32_C(0xbf9cf968));
    assert_true(simba__fnv32("\xff", 1) != simba__fnv32("\x7f", 1));
}

TEST(test_hash__finds_all_and_only_what_is_in_it)
{
    struct simba__hash table = {0};
    char name[24];

    assert_null(simba__hash_find(&table, "thing 1"));
    for (int i = 0; i < THINGS; i++) {
        add(&table, &things[i], i);
    }
    for (int i = 0; i < THINGS; i += 2) {
        simba__hash_remove(&table, &things[i].link);
    }
    assert_int_equal(table.count, THINGS / 2);
    for (int i = 0; i < THINGS; i++) {
        snprintf(name, sizeof name, "thing %d", i);
        assert_ptr_equal(thing_of(simba__hash_find(&table, name)),
                         i % 2 == 0 ? NULL : &things[i]);
    }
    assert_ptr_equal(thing_of(simba__hash_find_bytes(&table, "thing 123", 7)),
                     &things[1]);
    simba__hash_fini(&table);
    assert_null(simba__hash_find(&table, "thing 1"));
}

/* What a server says may have any bytes: none is read behind a shorter key. */
TEST(test_hash__finds_no_key_that_goes_on_behind_a_nul)
{
    static const char said[] = "one\0 and more than a block of a key has";
    struct simba__hash table = {0};
    struct simba__hash_link link;
    char *key = strdup("one");

    assert_non_null(key);
    assert_true(simba__hash_add(&table, &link, key));
    assert_null(simba__hash_find_bytes(&table, said, sizeof said - 1));
    assert_ptr_equal(simba__hash_find_bytes(&table, said, 3), &link);
    simba__hash_fini(&table);
    free(key);
}

TEST(test_hash__goes_through_all_once)
{
    struct simba__hash table = {0};
    struct simba__hash_link *next;
    int seen[THINGS] = {0};

    assert_null(simba__hash_next(&table, NULL));
    for (int i = 0; i < THINGS; i++) {
        add(&table, &things[i], i);
    }
    for (struct simba__hash_link *l = simba__hash_next(&table, NULL); l != NULL;
         l = next) {
        next = simba__hash_next(&table, l);
        seen[thing_of(l)->number]++;
        simba__hash_remove(&table, l);
    }
    for (int i = 0; i < THINGS; i++) {
        assert_int_equal(seen[i], 1);
    }
    assert_int_equal(table.count, 0);
    simba__hash_fini(&table);
}

TEST(test_hash__keys_may_be_bytes_of_one_size)
{
    struct simba__hash table = {.key_size = 4};

    assert_true(simba__hash_add(&table, &things[0].link, "a\0b\0c"));
    assert_true(simba__hash_add(&table, &things[1].link, "a\0c\0c"));
    assert_ptr_equal(thing_of(simba__hash_find(&table, "a\0b\0x")), &things[0]);
    assert_ptr_equal(thing_of(simba__hash_find(&table, "a\0c\0x")), &things[1]);
    assert_null(simba__hash_find(&table, "a\0d\0c"));
    simba__hash_fini(&table);
}

TEST(test_hash__several_may_have_one_key)
{
    struct simba__hash table = {0};
    int sum = 0;

    for (int i = 0; i < 60; i++) {
        things[i].number = i;
        assert_true(simba__hash_add(&table, &things[i].link,
                                    i % 3 == 0 ? "fizz" : "other"));
    }
    for (struct simba__hash_link *l = simba__hash_find(&table, "fizz");
         l != NULL; l = simba__hash_find_next(&table, l)) {
        assert_int_equal(thing_of(l)->number % 3, 0);
        sum++;
    }
    assert_int_equal(sum, 20);
    simba__hash_fini(&table);
}

TEST(test_hash__without_memory_it_gets_slower_only)
{
    struct simba__hash table = {0};

    no_memory = true;
    assert_false(simba__hash_add(&table, &things[0].link, "none yet"));
    assert_int_equal(table.count, 0);
    no_memory = false;
    add(&table, &things[0], 0);
    no_memory = true;
    for (int i = 1; i < THINGS; i++) {
        add(&table, &things[i], i);
    }
    no_memory = false;
    assert_int_equal(table.count, THINGS);
    assert_ptr_equal(thing_of(simba__hash_find(&table, "thing 77")),
                     &things[77]);
    simba__hash_fini(&table);
}

TEST(test_hash__makes_things_with_a_key_of_their_own)
{
    struct simba__hash table = {0};
    struct {
        struct simba__hash_link link;
        int number;
    } * thing;
    char key[] = "key";

    no_memory = true;
    assert_null(simba__hash_new(&table, sizeof *thing, key));
    no_memory = false;
    thing = simba__hash_new(&table, sizeof *thing, key);
    assert_non_null(thing);
    assert_int_equal(thing->number, 0);
    key[0] = 'K';
    assert_string_equal(thing->link.key, "key");
    assert_ptr_equal(simba__hash_find(&table, "key"), &thing->link);
    simba__hash_remove(&table, &thing->link);
    free(thing);
    simba__hash_fini(&table);
}
