/* The judge of a storm: it reads what sections wrote, and what the nemesis says
 * is no excuse for the lock. It shares no code with libsimba. */
#ifndef TESTS_FAULTS_ORACLE_H
#define TESTS_FAULTS_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A condition of S1 that did not hold (docs/safety.md): for everybody for a
 * while, or for one process from then on. */
struct excuse {
    const char *why;
    int64_t from_us, until_us; /* until 0: it excuses no overlap, but tokens
                                * that begin anew after it */
    pid_t pid;                 /* 0: for all */
    size_t count;              /* of overlaps that it excused */
};

struct verdict {
    size_t sections;
    size_t overlaps, excused;
    size_t tokens_back;       /* a later section with a token not above */
    size_t added[2], lost[2]; /* to the set, and to the fenced one */
    int64_t longest_us;       /* without anybody inside */
    int64_t span_us;          /* from the first section to the last */
    int64_t excused_us;       /* of these, while everybody was excused */
    int64_t partly_us;        /* and while only some process was */
};

/** Prints what it finds as comments of TAP; counts in the excuses. */
struct verdict oracle_judge(const char *directory,
                            struct excuse *excuses,
                            size_t excuse_count);

/** How many elements that were said to be in a set are not: of "set", or of
 * "fenced". */
size_t oracle_count_lost(const char *directory,
                         const char *name,
                         size_t *added);

/** How many sections of this mutex have begun since then. */
size_t oracle_count_since(const char *directory,
                          const char *mutex,
                          int64_t since_us);

#endif
