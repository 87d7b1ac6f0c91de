/* What is compared across boots and hosts, whose boot clocks have nothing in
 * common: tokens and beats by their numbers alone, and times by the store's
 * clock, where the logs tell it.
 *
 * All tenures and beats of all boots are sorted by their numbers. What does not
 * fit into a little memory is sorted in pieces, in temporary files; so the
 * order in which logs are read does not matter, nor how far apart in them two
 * lines stand. */
#ifndef SIMBA_VERIFY_ACROSS_H
#define SIMBA_VERIFY_ACROSS_H

#include "util/hash.h"
#include "verify/history.h"

#include <stdio.h>

enum simba__across_kind {
    SIMBA__ACROSS_FORCED, /* the tenure with this token was ended by force */
    SIMBA__ACROSS_TENURE, /* `number` is its token */
    SIMBA__ACROSS_BEAT,   /* `number` is when a run was due, by the store */
};

/** A mutex, whatever the boot. */
struct simba__mutex {
    struct simba__hash_link link; /* its key is the name */
    size_t index;                 /* in the order of their first mention */
    /* The store's clock made a step: times by it mean nothing. */
    bool is_stepped;
};

/** One tenure or beat. */
struct simba__across_entry {
    const struct simba__mutex *mutex;
    uint64_t number;
    uint64_t token;
    uint64_t boot; /* a hash of its id */
    struct simba__where where;
    int64_t from_ms;  /* when the store said yes, by its clock; 0: not told */
    int64_t until_ms; /* relied on at least so long, by the store's clock */
    uint64_t slots, slot;
    uint8_t kind; /* enum simba__across_kind */
    uint8_t id_length;
    char id[SIMBA_ID_MAX]; /* without a NUL */
};

/* How many are sorted in memory, and how many sorted files become one. */
enum { SIMBA__ACROSS_BATCH = 16384, SIMBA__ACROSS_FANIN = 16 };
enum { SIMBA__ACROSS_LEVELS = 8 };

struct simba__across {
    struct simba__across_entry *batch;
    size_t count, room;
    /* Sorted files: one of level n + 1 has been SIMBA__ACROSS_FANIN of level
     * n. */
    FILE *files[SIMBA__ACROSS_LEVELS][SIMBA__ACROSS_FANIN];
    size_t file_counts[SIMBA__ACROSS_LEVELS];
};

/** Make room for so many more, so that adding cannot fail. False with errno. */
bool simba__across_reserve(struct simba__across *across, size_t more);
void simba__across_add(struct simba__across *across,
                       const struct simba__across_entry *entry);

/** Give all to `take`, by mutex, tenures and beats apart, by number; of one
 * number what was ended by force comes first. False with errno. */
bool simba__across_each(struct simba__across *across,
                        void (*take)(void *user,
                                     const struct simba__across_entry *entry),
                        void *user);
void simba__across_fini(struct simba__across *across);

#endif
