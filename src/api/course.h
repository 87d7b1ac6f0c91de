/* From start to stop, as often as the user likes: the same for services and
 * schedulers. */
#ifndef SIMBA_API_COURSE_H
#define SIMBA_API_COURSE_H

#include <simba/service.h>

#include "runtime/contention.h"

#include <pthread.h>

struct simba__course {
    struct simba__contention *contention;
    _Atomic int wish; /* what the user wants; changed inside the loop */

    /* Inside the loop only. */
    pthread_cond_t changed; /* something of what follows, or of whose course
                               it is, did */
    bool is_contending;     /* from START until STOPPED */
    bool is_unreleased;     /* the store did not answer the last release */
    uint64_t rests;         /* counted: it may be started again before a
                               stopper looks */
};

void simba__course_init(struct simba__course *course,
                        struct simba__contention *contention);
void simba__course_fini(struct simba__course *course);

/** Contend. SIMBA_EMISUSE when that was asked for already, and what it is
 * called that was: "the service". Outside the loop. */
int simba__course_start(struct simba__course *course,
                        const char *what,
                        simba_error *error);

/** Ask for the stop, once, and wait until it rests. SIMBA_EUNKNOWN when the
 * store did not answer the release. Outside the loop. */
int simba__course_stop(struct simba__course *course, simba_error *error);

/** The machine has told that it is stopped. Inside the loop. */
void simba__course_end(struct simba__course *course,
                       const struct simba__update *update);

/** Nothing of it is under way any more. Inside the loop. */
void simba__course_rest(struct simba__course *course);

enum simba_service_status simba__course_status(
    const struct simba__course *course);

#endif
