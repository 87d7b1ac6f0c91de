/* FNV-1a, and a table of things by name whose links live in the things. */
#ifndef SIMBA_UTIL_HASH_H
#define SIMBA_UTIL_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** FNV-1a. What stands in files and stores depends on both. */
uint32_t simba__fnv32(const void *bytes, size_t length);
uint64_t simba__fnv64(const void *bytes, size_t length);

/* There may be 100,000 in several tables: neither the hash is kept nor how long
 * the key is. */
struct simba__hash_link {
    struct simba__hash_link *next;
    const char *key; /* lives as long as the link is in the table */
};

/** Zeroed, it is an empty table. */
struct simba__hash {
    struct simba__hash_link **buckets;
    size_t room; /* a power of two, or 0 */
    size_t count;
    size_t key_size; /* keys are so many bytes each; 0: they are texts */
};

/** The link that was added last with this key; NULL: none. */
struct simba__hash_link *simba__hash_find(const struct simba__hash *table,
                                          const char *key);
/** The same of a text that ends with no NUL. */
struct simba__hash_link *simba__hash_find_bytes(const struct simba__hash *table,
                                                const char *key,
                                                size_t length);

/** The next with the same key; NULL: no more. */
struct simba__hash_link *simba__hash_find_next(
    const struct simba__hash *table,
    const struct simba__hash_link *link);

/** Add a link; several may have one key. False: no memory. */
bool simba__hash_add(struct simba__hash *table,
                     struct simba__hash_link *link,
                     const char *key);

/** Make a thing of so many bytes, zeroed, that begins with its link, and add it
 * by a copy of the key, which is freed with it. NULL: no memory. */
void *simba__hash_new(struct simba__hash *table, size_t size, const char *key);

/** The link must be in the table. */
void simba__hash_remove(struct simba__hash *table,
                        struct simba__hash_link *link);

/** All of them, in no order: the first with NULL, else the one after a link;
 * NULL: no more. Nothing may be added meanwhile; a link may be removed once the
 * next is known. */
struct simba__hash_link *simba__hash_next(const struct simba__hash *table,
                                          const struct simba__hash_link *link);

/** Free the table and all things, which begin with their links and came from
 * malloc(). */
void simba__hash_free(struct simba__hash *table);

/** Free the table; the things are the caller's. */
void simba__hash_fini(struct simba__hash *table);

/** SHA-1 in figures and small letters. Not for secrets: it is broken. */
enum { SIMBA__SHA1_TEXT = 40 };
void simba__sha1(const void *bytes,
                 size_t size,
                 char text[SIMBA__SHA1_TEXT + 1]);

#endif
