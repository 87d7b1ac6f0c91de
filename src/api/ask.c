#define _GNU_SOURCE
#include "api/ask.h"

#include <assert.h>
#include <time.h>

struct asking {
    struct simba__caller caller; /* first: it is what `done` gets */
    struct simba__answer *answer;
    pthread_cond_t changed;
};

static void on_done(struct simba__caller *caller,
                    const struct simba__pending *pending,
                    int status,
                    const simba_error *error)
{
    struct asking *asking = (struct asking *)caller;
    struct simba__answer *answer = asking->answer;

    assert(!answer->is_answered);
    answer->is_answered = true;
    answer->status = status;
    answer->reply = pending->request.reply;
    if (error != NULL) {
        answer->error = *error;
    }
    if (status == SIMBA_OK) {
        answer->report = simba__report_make();
    }
    if (answer->report !=
        NULL) { /* a copy: the pending goes when this returns */
        if (pending->report != NULL) {
            simba__report_add(answer->report, pending->report);
        }
        answer->report->is_short |= pending->is_report_short;
        answer->report->owner = answer->reply.owner;
        answer->report->store_ms = answer->reply.store_ms;
    }
    pthread_cond_signal(&asking->changed);
}

void simba__ask(simba_store *store,
                struct simba__pending *pending,
                int64_t grace_ms,
                struct simba__answer *answer)
{
    struct asking asking = {.caller.done = on_done, .answer = answer};
    int64_t left_ms =
        pending->request.deadline_ms + grace_ms - simba_loop_now_ms();
    struct timespec until;

    assert(grace_ms >= 0 && !simba__loop_is_inside(store->loop));
    *answer = (struct simba__answer){.status = SIMBA_EUNKNOWN};
    pthread_cond_init(&asking.changed, NULL);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(left_ms / 1000 + 1);
    simba_loop_enter(store->loop);
    simba__request_send(pending, &asking.caller, store->backend);
    while (!answer->is_answered &&
           simba__loop_wait(store->loop, &asking.changed, &until)) {
    }
    if (!answer->is_answered) {
        simba__caller_leave(&asking.caller);
    }
    simba_loop_leave(store->loop);
    pthread_cond_destroy(&asking.changed);
}
