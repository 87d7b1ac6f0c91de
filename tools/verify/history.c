/* The history checker: mutexes, requests under way, what an answer is about,
 * and runs of commands; see history.h. */
#include "verify/history.h"

#include "core/lease.h"
#include "util/array.h"
#include "verify/track.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *simba__finding_word(enum simba__finding_kind kind)
{
    static const char *const words[SIMBA__FINDING_KINDS] = {
        "overlap",       "token-back",  "token-twice",
        "token-changed", "after-end",   "after-break",
        "unfair",        "run-overlap", "beat-twice"};

    return words[kind];
}

void simba__history_tell(const struct simba__step *step,
                         enum simba__finding_kind kind,
                         const struct simba__tenure *other)
{
    struct simba__history_finding finding = {
        .kind = kind, .deed = step->deed, .token = step->deed->token};

    assert(kind < SIMBA__FINDING_KINDS);
    if (other != NULL) {
        finding.other = other->where;
        finding.other_token = other->token;
        memcpy(finding.other_id, other->id, sizeof finding.other_id);
    }
    step->history->finding_count++;
    step->history->found(step->history->user, &finding);
}

/* --- suspicions ---------------------------------------------------------- */

bool simba__history_suspect(const struct simba__step *step,
                            const struct simba__tenure *other)
{
    struct simba__history *history = step->history;

    assert(step->track != NULL);
    if (other->handle == step->deed->handle) {
        simba__history_tell(step, SIMBA__OVERLAP, other);
        return true;
    }
    if (!simba__array_reserve(&history->suspicions, &history->suspicion_room,
                              history->suspicion_count + 1,
                              sizeof *history->suspicions)) {
        return false;
    }
    history->suspicions[history->suspicion_count++] =
        (struct simba__suspicion){other->handle, *step->deed, *other};
    return true;
}

/* Who does something was alive before. */
static void confirm(struct simba__history *history,
                    const struct simba__deed *deed)
{
    size_t i = 0;

    while (i < history->suspicion_count) {
        struct simba__suspicion s = history->suspicions[i];
        struct simba__step step = {history, NULL, &s.deed};

        if (s.handle != deed->handle ||
            strcmp(s.deed.scope, deed->scope) != 0) {
            i++;
            continue;
        }
        history->suspicions[i] =
            history->suspicions[--history->suspicion_count];
        simba__history_tell(&step, SIMBA__OVERLAP, &s.other);
    }
}

/* --- mutexes ------------------------------------------------------------- */

static struct simba__mutex *find_mutex(struct simba__history *history,
                                       const char *name)
{
    struct simba__mutex *mutex =
        (struct simba__mutex *)simba__hash_find(&history->mutexes, name);

    if (mutex == NULL) {
        mutex = simba__hash_new(&history->mutexes, sizeof *mutex, name);
        if (mutex != NULL) {
            mutex->index = history->mutexes.count;
        }
    }
    return mutex;
}

/* One mutex has a track for each scope. */
static struct simba__track *find_track(struct simba__history *history,
                                       const struct simba__deed *deed)
{
    struct simba__hash_link *link =
        simba__hash_find(&history->tracks, deed->mutex);
    struct simba__mutex *mutex;
    struct simba__track *track;

    for (; link != NULL; link = simba__hash_find_next(&history->tracks, link)) {
        track = (struct simba__track *)link;
        if (strcmp(track->scope, deed->scope) == 0) {
            return track;
        }
    }
    mutex = find_mutex(history, deed->mutex);
    track = mutex == NULL
                ? NULL
                : simba__hash_new(&history->tracks, sizeof *track, deed->mutex);
    if (track == NULL) {
        errno = ENOMEM;
    } else {
        track->mutex = mutex;
        track->boot = simba__fnv64(deed->scope, strlen(deed->scope));
        memcpy(track->scope, deed->scope, sizeof track->scope);
        track->forced_until_us = INT64_MIN;
    }
    return track;
}

/* --- requests ------------------------------------------------------------ */

static struct simba__traced_request *find_pending(
    struct simba__track *track,
    const struct simba__deed *deed)
{
    for (size_t i = track->pending_count; i > 0; i--) {
        struct simba__traced_request *p = &track->pendings[i - 1];
        if (p->number == deed->number && p->handle == deed->handle) {
            return p;
        }
    }
    return NULL;
}

static bool add_sent(const struct simba__step *step)
{
    const struct simba__deed *deed = step->deed;
    struct simba__track *track = step->track;

    if (!simba__array_reserve(&track->pendings, &track->pending_room,
                              track->pending_count + 1,
                              sizeof *track->pendings)) {
        return false;
    }
    track->pendings[track->pending_count++] = (struct simba__traced_request){
        .handle = deed->handle,
        .number = deed->number,
        .request = deed->request,
        .attempt = deed->attempt,
        .sent_us = deed->at_us,
        .use_us = deed->use_us,
        .waiter_us = deed->waiter_us,
        .newest_token = track->newest_token,
        .token = deed->token,
        .now = deed->now,
    };
    if (deed->request == SIMBA__DEED_RELEASE) {
        simba__tenure_release_sent(step);
    }
    if (deed->request == SIMBA__DEED_RELEASE ||
        deed->request == SIMBA__DEED_LEAVE) {
        simba__queue_gone(step);
    }
    return deed->request != SIMBA__DEED_ACQUIRE || simba__queue_asked(step);
}

static bool hear_acquire(const struct simba__step *step,
                         const struct simba__traced_request *asked)
{
    if (step->deed->mine) {
        if (simba__tenure_granted(step, asked)) {
            simba__queue_granted(step, asked);
        }
        simba__queue_served(step, asked);
        return true;
    }
    if (!simba__tenure_refused(step, asked)) {
        return true;
    }
    if (step->deed->is_queued) {
        simba__queue_heard(step, asked);
    } else {
        simba__queue_not_in(step);
    }
    return true;
}

/* A step of the store's clock shows as two intervals of what it is ahead of
 * ours that rates alone cannot explain. */
static void follow_clock(const struct simba__step *step,
                         const struct simba__traced_request *asked)
{
    struct simba__track *track = step->track;
    int64_t store_ms = step->deed->store_ms;
    int64_t low = store_ms - step->deed->at_us / 1000 - 1;
    int64_t high = store_ms - asked->sent_us / 1000 + 1;
    struct simba__lease span = {
        .ttl_ms = (step->deed->at_us - track->clock_us) / 1000};
    int64_t drift = simba__lease_margin_ms(&span);
    int64_t old_low = track->clock_low_ms - drift;
    int64_t old_high = track->clock_high_ms + drift;

    if (store_ms == 0) {
        return;
    }
    if (track->clock_us != 0 && (low > old_high || high < old_low)) {
        track->mutex->is_stepped = true;
    } else if (track->clock_us != 0) {
        low = low > old_low ? low : old_low;
        high = high < old_high ? high : old_high;
    }
    track->clock_low_ms = low;
    track->clock_high_ms = high;
    track->clock_us = asked->sent_us;
}

/* An answer that is one. */
static bool hear(const struct simba__step *step,
                 const struct simba__traced_request *asked)
{
    follow_clock(step, asked);
    switch (asked->request) {
    case SIMBA__DEED_ACQUIRE:
        return hear_acquire(step, asked);
    case SIMBA__DEED_RENEW:
        if (step->deed->mine) {
            (void)simba__tenure_granted(step, asked);
        } else {
            (void)simba__tenure_refused(step, asked);
        }
        return true;
    case SIMBA__DEED_BREAK:
        if (step->deed->mine) {
            simba__tenure_broken(step, asked);
            if (asked->now) {
                simba__across_note_forced(step, asked->token);
            }
        }
        return true;
    default:
        return true;
    }
}

static bool add_answered(const struct simba__step *step)
{
    struct simba__track *track = step->track;
    struct simba__traced_request *found = find_pending(track, step->deed);
    struct simba__step answer = *step;
    struct simba__traced_request asked;
    struct simba__deed heard;

    if (found == NULL) {
        return true; /* the log begins in the middle */
    }
    asked = *found;
    heard = *step->deed;
    heard.attempt = asked.attempt; /* it is the question that counts */
    answer.deed = &heard;
    assert(track->pending_count > 0);
    *found = track->pendings[--track->pending_count];
    if (step->deed->outcome == SIMBA__DEED_UNKNOWN &&
        asked.request == SIMBA__DEED_ACQUIRE) {
        simba__queue_doubt(&answer);
    }
    if (step->deed->outcome == SIMBA__DEED_FAILED &&
        asked.request == SIMBA__DEED_ACQUIRE) {
        simba__queue_failed(&answer);
    }
    return step->deed->outcome != SIMBA__DEED_HEARD || hear(&answer, &asked);
}

/* Whatever mutexes they wait for. */
static void cut_off(struct simba__history *history,
                    const struct simba__deed *deed)
{
    for (struct simba__hash_link *l = simba__hash_next(&history->tracks, NULL);
         l != NULL; l = simba__hash_next(&history->tracks, l)) {
        simba__queue_cut_off((struct simba__track *)l, deed);
    }
}

/* --- runs ---------------------------------------------------------------- */

/* Runs of a command under a mutex, as `simba lead` and `every` log them: one at
 * a time, whoever leads, and each beat once. */

static bool is_run_of(const struct simba__run *run,
                      const struct simba__deed *deed)
{
    return run->number == deed->number && run->token == deed->token &&
           strcmp(run->id, deed->id) == 0;
}

/* The other side of a finding. */
static void tell_run(const struct simba__step *step,
                     enum simba__finding_kind kind,
                     const struct simba__run *run)
{
    struct simba__tenure other = {.token = run->token, .where = run->where};

    memcpy(other.id, run->id, sizeof other.id);
    simba__history_tell(step, kind, &other);
}

/* When the end of one is told, it is known whether another had begun by then.
 * The oldest is forgotten: its end will not come any more, for its process was
 * killed. */
static void start_run(const struct simba__step *step)
{
    struct simba__track *track = step->track;
    const struct simba__deed *deed = step->deed;
    struct simba__run *run = &track->runs[track->run_next];

    if (deed->beat_ms != 0) {
        simba__across_note_beat(step);
    }
    if (deed->beat_ms != 0 && deed->beat_ms <= track->beat.beat_ms) {
        tell_run(step, SIMBA__BEAT_TWICE, &track->beat);
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

static void end_run(const struct simba__step *step)
{
    struct simba__track *track = step->track;
    struct simba__run *run = NULL;

    for (size_t i = 0; i < SIMBA__RUNS_MOST; i++) {
        if (track->runs[i].is_open && is_run_of(&track->runs[i], step->deed)) {
            run = &track->runs[i];
        }
    }
    if (run == NULL) {
        return; /* the log begins in the middle */
    }
    run->is_open = false;
    for (size_t i = 0; i < SIMBA__RUNS_MOST; i++) {
        if (is_during(&track->runs[i], run, step->deed->until_us)) {
            tell_run(step, SIMBA__RUN_OVERLAP, &track->runs[i]);
        }
    }
}

/* --- the whole ----------------------------------------------------------- */

/* What a deed can add to what is compared in the end: a tenure that makes way
 * for a new one, a beat, the end of one by force. */
enum { ADDED_MOST = 3 };

bool simba__history_add(struct simba__history *history,
                        const struct simba__deed *deed)
{
    struct simba__step step = {history, NULL, deed};

    if (deed->handle != 0) {
        confirm(history, deed);
    }
    if (deed->is_cut_off) {
        cut_off(history, deed);
    }
    if (deed->kind == SIMBA__DEED_ALIVE || deed->kind == SIMBA__DEED_FAULT) {
        return true;
    }
    step.track = find_track(history, deed);
    if (step.track == NULL || !simba__tenure_reserve(step.track) ||
        !simba__across_reserve(&history->across, ADDED_MOST)) {
        return false;
    }
    switch (deed->kind) {
    case SIMBA__DEED_SENT:
        return add_sent(&step);
    case SIMBA__DEED_ANSWERED:
        return add_answered(&step);
    case SIMBA__DEED_ACQUIRED:
        simba__tenure_whole(&step);
        break;
    case SIMBA__DEED_ENDED:
        simba__tenure_whole_ended(&step);
        break;
    case SIMBA__DEED_STARTED:
        start_run(&step);
        break;
    case SIMBA__DEED_OVER:
        end_run(&step);
        break;
    case SIMBA__DEED_ALIVE:
    case SIMBA__DEED_FAULT:
        break;
    case SIMBA__DEED_FORCED:
        simba__across_note_forced(&step, deed->token);
        if (deed->until_us > step.track->forced_until_us) {
            step.track->forced_until_us = deed->until_us;
        }
        break;
    }
    return true;
}

struct simba__history *simba__history_open(simba__finding_fn found, void *user)
{
    struct simba__history *history = calloc(1, sizeof *history);

    assert(found != NULL);
    if (history == NULL) {
        return NULL;
    }
    history->found = found;
    history->user = user;
    return history;
}

void simba__history_close(struct simba__history *history)
{
    struct simba__hash_link *next;

    if (history == NULL) {
        return;
    }
    for (struct simba__hash_link *l = simba__hash_next(&history->tracks, NULL);
         l != NULL; l = next) {
        struct simba__track *track = (struct simba__track *)l;

        next = simba__hash_next(&history->tracks, l);
        free(track->tenures);
        free(track->pendings);
        free(track->waiters);
        free(track);
    }
    simba__hash_fini(&history->tracks);
    simba__hash_free(&history->mutexes);
    simba__across_fini(&history->across);
    free(history->suspicions);
    free(history);
}

size_t simba__history_mutexes(const struct simba__history *history)
{
    return history->mutexes.count;
}

uint64_t simba__history_untimed(const struct simba__history *history)
{
    return history->untimed_count;
}

uint64_t simba__history_findings(const struct simba__history *history)
{
    return history->finding_count;
}
