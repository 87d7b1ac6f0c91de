/* Names in the tree: mutexes as path elements, attempts as latch nodes, and the
 * order of latches. Pure. */
#ifndef SIMBA_ZOOKEEPER_NAMES_H
#define SIMBA_ZOOKEEPER_NAMES_H

#include <simba/sys/backend.h>

enum {
    /* Every byte of a mutex name as %XX, and the NUL. */
    SIMBA__ZK_ESCAPED_SIZE = SIMBA_MUTEX_MAX_BYTES * 3 + 1,
    /* "_c_", a UUID, "-latch-", and the NUL. */
    SIMBA__ZK_PREFIX_SIZE = 3 + 36 + 7 + 1,
    /* ... and the ten digits, or eleven, that the server appends. */
    SIMBA__ZK_NODE_SIZE = SIMBA__ZK_PREFIX_SIZE + 11
};

/** Write the path element that stands for a mutex. Two mutexes never share one;
 * a name that ZooKeeper takes as it is stays as it is, for Curator's sake. */
void simba__zk_escape(const char *mutex, char escaped[SIMBA__ZK_ESCAPED_SIZE]);

/** The way back. False: no mutex of ours can have this name. */
bool simba__zk_unescape(const char *escaped,
                        char mutex[SIMBA_MUTEX_MAX_BYTES + 1]);

/** Write what the latch of an attempt begins with. */
void simba__zk_prefix(simba_attempt attempt,
                      char prefix[SIMBA__ZK_PREFIX_SIZE]);

/** What latches are ordered by; NULL: no latch. */
const char *simba__zk_sequence(const char *child);

/** The servers' counter of this mutex has passed its end: a latch with such a
 * number sorts before those that came earlier. */
bool simba__zk_is_wrapped(const char *child);

/** A latch's sequence number as a position in the queue: never 0. */
uint64_t simba__zk_place(const char *child);

/* Where a latch stands among the children of its mutex. */
struct simba__zk_standing {
    int lowest; /* indices of children; -1: none */
    int before; /* the one just before ours */
    int own;
    int latches; /* how many */
};

/** Look through the children for one that begins with `own`. */
void simba__zk_stand(char *const *children,
                     int count,
                     const char *own,
                     struct simba__zk_standing *standing);

#endif
