/* A table of things by name; the links live in the things. */
#ifndef SIMBA_REDIS_HASH_H
#define SIMBA_REDIS_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct simba__redis_link {
    struct simba__redis_link *next;
    uint32_t hash;
    uint32_t length;
    const char *name; /* lives as long as the link is in the table */
};

struct simba__redis_hash {
    struct simba__redis_link **buckets;
    size_t room; /* a power of two, or 0 */
    size_t count;
};

struct simba__redis_link *simba__redis_hash_find(
    const struct simba__redis_hash *table,
    const char *name,
    size_t length);

/** The name must be new and set in the link. False: no memory. */
bool simba__redis_hash_add(struct simba__redis_hash *table,
                           struct simba__redis_link *link);

void simba__redis_hash_remove(struct simba__redis_hash *table,
                              struct simba__redis_link *link);

/** The first that is found, or the next after one; NULL: no more. Nothing may
 * be added meanwhile; what was returned may be removed after its next is
 * known. */
struct simba__redis_link *simba__redis_hash_next(
    const struct simba__redis_hash *table,
    const struct simba__redis_link *link);

void simba__redis_hash_fini(struct simba__redis_hash *table);

#endif
