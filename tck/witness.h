/* A contender with callbacks that keep book, and its service. */
#ifndef SIMBA_TCK_WITNESS_H
#define SIMBA_TCK_WITNESS_H

#include "kit.h"

struct tck_witness {
    struct tck *t;
    simba_contender contender; /* to be changed before tck_open() */
    simba_service *service;
    _Atomic int acquired, released, changed;
    _Atomic uint64_t token; /* of the last tenure told */
    _Atomic bool is_inside; /* between on_acquired and on_released */
    /* Something came that must not: two of a kind in a row, a token that did
     * not grow, two callbacks at once. NULL: nothing. */
    const char *_Atomic offence;
    _Atomic bool is_busy;    /* a callback runs */
    _Atomic bool is_held_up; /* callbacks wait until it is false */
    char id[40];
};

/** A contender of the test's mutex, on the long lease. */
struct tck_witness *tck_witness(struct tck *t);

/** Make its service; it is closed when the test ends. */
void tck_open(struct tck_witness *w, simba_store *store);

/** Make and start it. */
void tck_contend(struct tck_witness *w, simba_store *store);

void tck_start(struct tck_witness *w);
void tck_stop(struct tck_witness *w);
void tck_close(struct tck_witness *w);

/** Whoever of them owns the mutex stops and starts again, until each has owned
 * it so often. */
void tck_pass_around(struct tck_witness **w, int count, int times);

/** Fail when its callbacks were not as they must be. */
#define EXPECT_ORDERLY(w)                                                      \
    (atomic_load(&(w)->offence) == NULL                                        \
         ? (void)0                                                             \
         : tck_fail((w)->t, TCK_HERE, "%s", atomic_load(&(w)->offence)))

/** A locker of the test's mutex, on the long lease. */
simba_locker_options tck_locker_options(struct tck *t);
simba_locker *tck_locker(struct tck *t, simba_store *store);
simba_locker *tck_locker_with(struct tck *t,
                              simba_store *store,
                              const simba_locker_options *options);

#endif
