/* Planted faults: each is a mistake this library must never make, kept behind
 * a compile-time switch so that the simulator can prove it would be seen.
 *
 * In a normal build PLANTED() is the constant false and leaves no trace in the
 * object. tests/sim compiles the sources once more with SIMBA_PLANTABLE, plants
 * one fault after the other, and expects the checker of the broken rule to
 * speak up. */
#ifndef SIMBA_CORE_PLANT_H
#define SIMBA_CORE_PLANT_H

#include <stdbool.h>

/* X(fault, the rule whose checker must see it, what is wrong) */
#define SIMBA__PLANT_MAP(X)                                                    \
    X(LEASE_FROM_REPLY, S1, "the lease counted from the answer")               \
    X(OWNER_FLAG, S1, "ownership as a stored flag")                            \
    X(STALE_REPLIES, S1, "answers to old requests believed")                   \
    X(NO_MARGIN, S1, "no allowance for clock rates")                           \
    X(REPEAT_NO_EXTEND, S1, "a repeated acquire keeps the old lease")          \
    X(GRANT_STRETCHED, S1, "a shorter lease taken for the one asked for")      \
    X(LIMIT_IGNORED, S1, "slots without a limit")                              \
    X(LIMIT_MINE_ONLY, S1, "one's own limit, not the least of all")            \
    X(CROWD_ENDS_FIRST, S1, "several owners shown to end with the first")      \
    X(SLOT_TWICE, S1, "one slot told to two owners")                           \
    X(TOKEN_COUNTS, S4, "a token that is forgotten with the data")             \
    X(TOKEN_STUCK, S4, "a token kept over the end of a tenure")                \
    X(RELEASE_BY_ID, S5, "release compares the id only")                       \
    X(RENEW_BY_ID, S5, "renewal compares the id only")                         \
    X(RENEW_CREATES, S5, "renewal revives a dead tenure")                      \
    X(ACQUIRE_BY_ID, S5, "an id proves a tenure")                              \
    X(BREAK_RENEWS, S5, "a broken tenure can be renewed")                      \
    X(RELEASE_FIRST, S6, "the store told before on_released")                  \
    X(NO_BUDGET, S6, "a loss announced at H, not at U")                        \
    X(WAKE_IS_GRANT, S7, "a wake-up taken as a grant")                         \
    X(UNKNOWN_IS_LOST, S8, "an unanswered renewal taken as a loss")            \
    X(FORGET_ON_STOP, S8, "stop leaves an acquire behind")                     \
    X(NO_TOMBSTONE, S8, "a late acquire outlives its undoing")                 \
    X(TELL_TWICE, S9, "a renewal told as a tenure")                            \
    X(TOLD_AFTER_STOP, S9, "acquired told when stopped")                       \
    X(WAKE_DROPPED, S10, "a wake-up lost while asking")                        \
    X(DEAD_OFFERED, S10, "the dead are offered it")                            \
    X(NO_OFFER, S10, "a release that offers nothing")                          \
    X(GRANT_OFFERS_NONE, S10, "a slot that is left is offered to nobody")      \
    X(SUCCESSOR_DEAD_WAITED_FOR, S10, "a dead successor is offered it")        \
    X(ASKED_FORGOTTEN, S10, "who is asked to hand over is not told")           \
    X(BARGING, S11, "newcomers pass the queue")                                \
    X(QUEUE_REVERSED, S11, "last come, first served")                          \
    X(OFFER_FORGOTTEN, S11, "the offer is not honoured")                       \
    X(SHARED_PASSES, S11, "those who share pass who wants to be alone")        \
    X(SUCCESSOR_PASSED, S11, "the named successor is not the next")            \
    X(NO_RETRY, PROGRESS, "one failure ends the asking")

#define SIMBA__PLANT_ENUM(fault, rule, text) SIMBA__PLANT_##fault,
enum simba__plant {
    SIMBA__PLANT_NONE,
    SIMBA__PLANT_MAP(SIMBA__PLANT_ENUM) SIMBA__PLANT_COUNT
};

#ifdef SIMBA_PLANTABLE
extern enum simba__plant simba__plant;
#define PLANTED(fault)     (simba__plant == SIMBA__PLANT_##fault)
#define ANYTHING_PLANTED() (simba__plant != SIMBA__PLANT_NONE)
#else
#define PLANTED(fault)     false
#define ANYTHING_PLANTED() false
#endif

#endif
