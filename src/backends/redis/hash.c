/* A table of things by name; see hash.h. */
#include "backends/redis/redis.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 16 };

/* FNV-1a: names come from the program, not from strangers. */
static uint32_t hash_of(const char *name, size_t length)
{
    uint32_t hash = 2166136261U;

    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)name[i]) * 16777619U;
    }
    return hash;
}

struct simba__redis_link *simba__redis_hash_find(
    const struct simba__redis_hash *table,
    const char *name,
    size_t length)
{
    uint32_t hash = hash_of(name, length);
    struct simba__redis_link *link;

    if (table->room == 0) {
        return NULL;
    }
    link = table->buckets[hash & (table->room - 1)];
    while (link != NULL && (link->hash != hash || link->length != length ||
                            memcmp(link->name, name, length) != 0)) {
        link = link->next;
    }
    return link;
}

static void insert(struct simba__redis_hash *table,
                   struct simba__redis_link *link)
{
    struct simba__redis_link **bucket =
        &table->buckets[link->hash & (table->room - 1)];

    link->next = *bucket;
    *bucket = link;
}

static bool grow(struct simba__redis_hash *table)
{
    struct simba__redis_hash old = *table;

    table->room = old.room == 0 ? ROOM_FIRST : old.room * 2;
    table->buckets = calloc(table->room, sizeof(struct simba__redis_link *));
    if (table->buckets == NULL) {
        *table = old;
        return false;
    }
    for (size_t i = 0; i < old.room; i++) {
        struct simba__redis_link *next;

        for (struct simba__redis_link *l = old.buckets[i]; l != NULL;
             l = next) {
            next = l->next;
            insert(table, l);
        }
    }
    free(old.buckets);
    return true;
}

bool simba__redis_hash_add(struct simba__redis_hash *table,
                           struct simba__redis_link *link)
{
    /* A table that cannot grow gets slower, and fails only when it is none. */
    if (table->count >= table->room && !grow(table) && table->room == 0) {
        return false;
    }
    link->length = (uint32_t)strlen(link->name);
    link->hash = hash_of(link->name, link->length);
    insert(table, link);
    table->count++;
    return true;
}

void simba__redis_hash_remove(struct simba__redis_hash *table,
                              struct simba__redis_link *link)
{
    struct simba__redis_link **at =
        &table->buckets[link->hash & (table->room - 1)];

    while (*at != link) {
        at = &(*at)->next;
    }
    *at = link->next;
    table->count--;
}

struct simba__redis_link *simba__redis_hash_next(
    const struct simba__redis_hash *table,
    const struct simba__redis_link *link)
{
    size_t bucket = 0;

    if (link != NULL) {
        if (link->next != NULL) {
            return link->next;
        }
        bucket = (link->hash & (table->room - 1)) + 1;
    }
    while (bucket < table->room && table->buckets[bucket] == NULL) {
        bucket++;
    }
    return bucket < table->room ? table->buckets[bucket] : NULL;
}

void simba__redis_hash_fini(struct simba__redis_hash *table)
{
    free(table->buckets);
    *table = (struct simba__redis_hash){NULL, 0, 0};
}
