/* Runs of a command under a mutex, as `simba lead` and `every` log them: one at
 * a time, whoever leads, and each beat once. */
#include "verify/track.h"

#include <string.h>

static bool is_run_of(const struct simba__run *run,
                      const struct simba__deed *deed)
{
    return run->number == deed->number && run->token == deed->token &&
           strcmp(run->id, deed->id) == 0;
}

/* The other side of a finding. */
static void tell(const struct simba__turn *turn,
                 enum simba__finding_kind kind,
                 const struct simba__run *run)
{
    struct simba__tenure other = {.token = run->token, .where = run->where};

    memcpy(other.id, run->id, sizeof other.id);
    simba__history_tell(turn, kind, &other);
}

/* When the end of one is told, it is known whether another had begun by then.
 * The oldest is forgotten: its end will not come any more, for its process was
 * killed. */
void simba__run_started(const struct simba__turn *turn)
{
    struct simba__track *track = turn->track;
    const struct simba__deed *deed = turn->deed;
    struct simba__run *run = &track->runs[track->run_next];

    if (deed->beat_ms != 0 && deed->beat_ms <= track->beat.beat_ms) {
        tell(turn, SIMBA__BEAT_TWICE, &track->beat);
    }
    *run = (struct simba__run){.number = deed->number,
                               .token = deed->token,
                               .where = deed->where,
                               .from_us = deed->at_us,
                               .beat_ms = deed->beat_ms,
                               .is_open = true};
    memcpy(run->id, deed->id, sizeof run->id);
    if (deed->beat_ms > track->beat.beat_ms) {
        track->beat = *run;
    }
    track->run_next = (track->run_next + 1) % SIMBA__RUNS_MOST;
}

static bool is_during(const struct simba__run *other,
                      const struct simba__run *run,
                      int64_t until_us)
{
    return other != run && other->from_us >= run->from_us &&
           other->from_us < until_us && other->where.line != 0;
}

void simba__run_ended(const struct simba__turn *turn)
{
    struct simba__track *track = turn->track;
    struct simba__run *run = NULL;

    for (size_t i = 0; i < SIMBA__RUNS_MOST; i++) {
        if (track->runs[i].is_open && is_run_of(&track->runs[i], turn->deed)) {
            run = &track->runs[i];
        }
    }
    if (run == NULL) {
        return; /* the log begins in the middle */
    }
    run->is_open = false;
    for (size_t i = 0; i < SIMBA__RUNS_MOST; i++) {
        if (is_during(&track->runs[i], run, turn->deed->until_us)) {
            tell(turn, SIMBA__RUN_OVERLAP, &track->runs[i]);
        }
    }
}
