/* Callers who lend their thread to the backend, instead of waking another. */
#define _GNU_SOURCE
#include "runtime/loop.h"

int simba_loop_nudge_fd(const simba_loop *loop)
{
    return loop->nudge_fd;
}

void simba__loop_drive(simba_loop *loop)
{
    if (!loop->is_driven) {
        loop->is_driven = true;
        loop->driver = pthread_self();
    }
}

void simba__loop_part(simba_loop *loop)
{
    loop->is_parting = true;
}

void simba__loop_undrive(simba_loop *loop)
{
    (void)simba__loop_calm(loop);
    loop->is_driven = loop->is_parting = false;
}

bool simba__loop_is_driver(const simba_loop *loop)
{
    return loop->is_driven && !loop->is_parting &&
           pthread_equal(loop->driver, pthread_self());
}

void simba__loop_nudge(simba_loop *loop)
{
    if (simba__loop_is_driver(loop)) {
        loop->is_settled = true;
    } else if (loop->is_driven && !loop->is_nudged) {
        loop->is_nudged = true;
        simba__loop_ring(loop->nudge_fd);
    }
}

bool simba__loop_calm(simba_loop *loop)
{
    bool was_nudged = loop->is_nudged;

    if (was_nudged) {
        loop->is_nudged = false;
        simba__loop_quiet(loop->nudge_fd);
    }
    return was_nudged;
}

bool simba__loop_step_out(simba_loop *loop)
{
    loop->is_settled = false;
    simba_loop_leave(loop);
    return !loop->is_settled;
}
