/* The numbering of turns, for those who observe a mutex. Pure.
 *
 * The servers number the children of a node, and the lowest owns: so whose turn
 * it is, and whose it is next, is in their names. But a node that nobody uses
 * is removed, and in its next life the numbers begin again. This makes one
 * sequence of them, over all lives of which it is certain that there was no
 * other in between, and leaves a number out where it is not.
 *
 * What makes it certain is a watch, set anew each time it tells something:
 *
 *   set on a node, and told first that the node is gone: it had no more
 * children than when the watch was set; set on no node, and silent: there was
 * none; told of a new node: it is the next one, if no more than one mutex was
 * ever made since we looked. (A life needs a round of the servers' reaper to
 * end, and two rounds are further apart than a session lasts.) */
#ifndef SIMBA_ZOOKEEPER_TURNS_H
#define SIMBA_ZOOKEEPER_TURNS_H

#include <stdbool.h>
#include <stdint.h>

/* What is to be seen of a mutex. */
struct simba__zk_look {
    int64_t life;    /* czxid of its node; 0: it has none */
    uint64_t made;   /* children the node has ever had */
    uint64_t births; /* mutexes that were ever made, this one or others */
};

struct simba__zk_turns {
    uint64_t base; /* turns before this life */
    bool is_begun;
    struct simba__zk_look seen;  /* at the last look */
    bool is_watched;             /* since `found` was to be seen */
    bool is_calm;                /* no node at the last look, and none since */
    struct simba__zk_look found; /* when the watch was set; without births */
    struct simba__zk_look ended; /* the last life whose end is certain */
};

/** How many children a node has ever had, from what its Stat says: children
 * that came and went, and those that are there. */
uint64_t simba__zk_ever(int32_t changes, int32_t present);

/** The watch was set; this was to be seen then. */
void simba__zk_turns_watch(struct simba__zk_turns *turns,
                           const struct simba__zk_look *found);

/** The watch has told that something changed, or that the node is gone; or it
 * may have missed something. */
void simba__zk_turns_stir(struct simba__zk_turns *turns, bool is_gone);

/** We have looked. */
void simba__zk_turns_look(struct simba__zk_turns *turns,
                          const struct simba__zk_look *look);

/** The number of a position in the queue, places being counted from 1. */
uint64_t simba__zk_turn(const struct simba__zk_turns *turns, uint64_t position);

/** The number that will be given next. */
uint64_t simba__zk_turn_next(const struct simba__zk_turns *turns);

#endif
