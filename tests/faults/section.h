/* What the lock guards in a storm, and what it tells of itself. Nothing of
 * libsimba is in here: the oracle reads what this wrote, and nothing else.
 *
 * In the directory of a run, by the name of the mutex:
 *
 *     sections     lines "PID STARTED TOKEN MUTEX FROM UNTIL .": at some
 * instant from FROM to UNTIL it was inside; microseconds of the boot clock, one
 * line every few milliseconds set…         a file of elements, read, added to
 * and written back fenced…      the same, but its first line is the greatest
 * token that it has seen, and it refuses who comes with less MUTEX.acks   the
 * elements that were said to be in it
 *
 * Who is killed while it writes may leave the beginning of a line: so each
 * begins with its newline, and ends with a point. */
#ifndef TESTS_FAULTS_SECTION_H
#define TESTS_FAULTS_SECTION_H

#include <stdbool.h>
#include <stdint.h>

struct section {
    const char *directory;
    const char *mutex;
    uint64_t token;
    int length_ms;
    /** Is it still ours? NULL: who runs is inside. */
    bool (*is_owner)(void *user);
    void *user;
};

enum {
    SECTION_LEASES = 2,       /* how many one may last */
    SECTION_SHORT_US = 60000, /* most are not longer */
};

int64_t section_now_us(void);

/** Most are short, so that the mutex changes hands; some outlast their lease
 * and must be renewed. */
int section_length_ms(uint64_t chance, int lease_ms);

/** Be inside once; ends early when it is not ours any more. */
void section_run(const struct section *section);

#endif
