#include "api/course.h"

#include <assert.h>

enum wish { WISH_REST, WISH_STARTED, WISH_STOPPED };

void simba__course_init(struct simba__course *course,
                        struct simba__contention *contention)
{
    course->contention = contention;
    pthread_cond_init(&course->changed, NULL);
}

void simba__course_fini(struct simba__course *course)
{
    pthread_cond_destroy(&course->changed);
}

int simba__course_start(struct simba__course *course,
                        const char *what,
                        simba_error *error)
{
    struct simba__contention *contention = course->contention;
    int rc = SIMBA_OK;

    simba_loop_enter(contention->loop);
    if (atomic_load(&course->wish) != WISH_REST) {
        rc = simba_error_set(error, SIMBA_EMISUSE, 0,
                             "%s: %s is started already", contention->mutex,
                             what);
    } else {
        atomic_store(&course->wish, WISH_STARTED);
        course->is_contending = true;
        course->is_unreleased = false;
        simba__contention_start(contention, true);
    }
    simba_loop_leave(contention->loop);
    return rc;
}

static void stop_and_wait(struct simba__course *course)
{
    uint64_t rests = course->rests;

    if (atomic_load(&course->wish) == WISH_STARTED) {
        atomic_store(&course->wish, WISH_STOPPED);
        simba__contention_stop(course->contention);
    }
    while (atomic_load(&course->wish) != WISH_REST && course->rests == rests) {
        simba__loop_wait(course->contention->loop, &course->changed, NULL);
    }
}

int simba__course_stop(struct simba__course *course, simba_error *error)
{
    struct simba__contention *contention = course->contention;
    bool is_unreleased;

    simba_loop_enter(contention->loop);
    stop_and_wait(course);
    is_unreleased = course->is_unreleased;
    simba_loop_leave(contention->loop);
    if (is_unreleased) {
        return simba_error_set(error, SIMBA_EUNKNOWN, 0,
                               "%s: the store did not answer the release; "
                               "the lease lapses by itself",
                               contention->mutex);
    }
    return SIMBA_OK;
}

void simba__course_end(struct simba__course *course,
                       const struct simba__update *update)
{
    assert(update->tell & SIMBA__TELL_STOPPED);
    course->is_contending = false;
    course->is_unreleased = (update->tell & SIMBA__TELL_UNRELEASED) != 0;
}

void simba__course_rest(struct simba__course *course)
{
    assert(!course->is_contending);
    atomic_store(&course->wish, WISH_REST);
    course->rests++;
    pthread_cond_broadcast(&course->changed);
}

enum simba_service_status simba__course_status(
    const struct simba__course *course)
{
    int wish = atomic_load(&course->wish);

    if (wish == WISH_REST) {
        return SIMBA_INITIAL;
    }
    if (wish == WISH_STOPPED) {
        return SIMBA_STOPPING;
    }
    return atomic_load(&course->contention->is_heard) ? SIMBA_RUNNING
                                                      : SIMBA_STARTING;
}
