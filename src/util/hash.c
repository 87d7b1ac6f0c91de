#include "util/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 16 };

uint32_t simba__fnv32(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint32_t hash = UINT32_C(2166136261);

    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ at[i]) * UINT32_C(16777619);
    }
    return hash;
}

uint64_t simba__fnv64(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

static size_t length_of(const struct simba__hash *table, const char *key)
{
    return table->key_size != 0 ? table->key_size : strlen(key);
}

static struct simba__hash_link **bucket_of(const struct simba__hash *table,
                                           const char *key,
                                           size_t length)
{
    assert(table->room > 0);
    return &table->buckets[simba__fnv32(key, length) & (table->room - 1)];
}

static bool is_key(const struct simba__hash *table,
                   const struct simba__hash_link *link,
                   const char *key,
                   size_t length)
{
    /* What is looked for may come from a server, and have a NUL in it. */
    return (table->key_size != 0 || strlen(link->key) == length) &&
           memcmp(link->key, key, length) == 0;
}

struct simba__hash_link *simba__hash_find(const struct simba__hash *table,
                                          const char *key)
{
    return simba__hash_find_bytes(table, key, length_of(table, key));
}

struct simba__hash_link *simba__hash_find_bytes(const struct simba__hash *table,
                                                const char *key,
                                                size_t length)
{
    struct simba__hash_link *link =
        table->room == 0 ? NULL : *bucket_of(table, key, length);

    while (link != NULL && !is_key(table, link, key, length)) {
        link = link->next;
    }
    return link;
}

struct simba__hash_link *simba__hash_find_next(
    const struct simba__hash *table,
    const struct simba__hash_link *link)
{
    size_t length = length_of(table, link->key);
    struct simba__hash_link *next = link->next;

    while (next != NULL && !is_key(table, next, link->key, length)) {
        next = next->next;
    }
    return next;
}

static bool grow(struct simba__hash *table)
{
    struct simba__hash old = *table;

    table->room = old.room == 0 ? ROOM_FIRST : old.room * 2;
    table->buckets = calloc(table->room, sizeof(struct simba__hash_link *));
    if (table->buckets == NULL) {
        *table = old;
        return false;
    }
    for (size_t i = 0; i < old.room; i++) {
        struct simba__hash_link *next;

        for (struct simba__hash_link *l = old.buckets[i]; l != NULL; l = next) {
            struct simba__hash_link **bucket =
                bucket_of(table, l->key, length_of(table, l->key));

            next = l->next;
            l->next = *bucket;
            *bucket = l;
        }
    }
    free(old.buckets);
    return true;
}

bool simba__hash_add(struct simba__hash *table,
                     struct simba__hash_link *link,
                     const char *key)
{
    struct simba__hash_link **bucket;

    /* A table that cannot grow gets slower, and fails only when it is none. */
    if (table->count >= table->room && !grow(table) && table->room == 0) {
        return false;
    }
    link->key = key;
    bucket = bucket_of(table, key, length_of(table, key));
    link->next = *bucket;
    *bucket = link;
    table->count++;
    return true;
}

void *simba__hash_new(struct simba__hash *table, size_t size, const char *key)
{
    size_t key_size = strlen(key) + 1;
    char *thing = calloc(1, size + key_size);

    assert(size >= sizeof(struct simba__hash_link));
    if (thing == NULL) {
        return NULL;
    }
    memcpy(thing + size, key, key_size);
    if (!simba__hash_add(table, (struct simba__hash_link *)(void *)thing,
                         thing + size)) {
        free(thing);
        return NULL;
    }
    return thing;
}

void simba__hash_remove(struct simba__hash *table,
                        struct simba__hash_link *link)
{
    struct simba__hash_link **at =
        bucket_of(table, link->key, length_of(table, link->key));

    while (*at != link) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = link->next;
    table->count--;
}

struct simba__hash_link *simba__hash_next(const struct simba__hash *table,
                                          const struct simba__hash_link *link)
{
    size_t bucket = 0;

    if (link != NULL) {
        if (link->next != NULL) {
            return link->next;
        }
        bucket =
            (size_t)(bucket_of(table, link->key, length_of(table, link->key)) -
                     table->buckets) +
            1;
    }
    while (bucket < table->room && table->buckets[bucket] == NULL) {
        bucket++;
    }
    return bucket < table->room ? table->buckets[bucket] : NULL;
}

void simba__hash_free(struct simba__hash *table)
{
    struct simba__hash_link *link = simba__hash_next(table, NULL), *next;

    for (; link != NULL; link = next) {
        next = simba__hash_next(table, link);
        free(link);
    }
    simba__hash_fini(table);
}

void simba__hash_fini(struct simba__hash *table)
{
    free(table->buckets);
    *table = (struct simba__hash){.key_size = table->key_size};
}

/* --- SHA-1 --------------------------------------------------------------- */

static uint32_t rotate(uint32_t word, int bits)
{
    return word << bits | word >> (32 - bits);
}

/* One block of 64 bytes, as FIPS 180 has it. */
static void mix(uint32_t state[5], const unsigned char *block)
{
    uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3],
                    e = state[4];

    for (size_t i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    }
    for (size_t i = 16; i < 80; i++) {
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    for (size_t i = 0; i < 80; i++) {
        uint32_t f = i < 20              ? (b & c) | (~b & d)
                     : i >= 40 && i < 60 ? (b & c) | (b & d) | (c & d)
                                         : b ^ c ^ d;
        uint32_t k = i < 20   ? 0x5a827999U
                     : i < 40 ? 0x6ed9eba1U
                     : i < 60 ? 0x8f1bbcdcU
                              : 0xca62c1d6U;

        f += rotate(a, 5) + e + k + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = f;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void simba__sha1(const void *bytes,
                 size_t size,
                 char text[SIMBA__SHA1_TEXT + 1])
{
    uint32_t state[5] = {0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U,
                         0xc3d2e1f0U};
    const unsigned char *at = bytes;
    size_t left = size % 64;
    size_t padded = left < 56 ? 64 : 128; /* the rest, a bit and the length */
    unsigned char end[128] = {0};

    for (size_t i = 0; i + 64 <= size; i += 64) {
        mix(state, at + i);
    }
    memcpy(end, at + size - left, left);
    end[left] = 0x80;
    for (size_t i = 0; i < 8; i++) {
        end[padded - 1 - i] = (unsigned char)((uint64_t)size * 8 >> (8 * i));
    }
    mix(state, end);
    if (padded > 64) {
        mix(state, end + 64);
    }
    for (size_t i = 0; i < SIMBA__SHA1_TEXT; i++) {
        text[i] = "0123456789abcdef"[state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    }
    text[SIMBA__SHA1_TEXT] = '\0';
}
