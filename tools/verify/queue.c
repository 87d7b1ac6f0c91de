/* The queue: who waits, and whether anybody was passed (S11).
 *
 * A waiter was passed when it was told its position before the other asked, is
 * told the very same one after the other was granted, and its waiter lease ran
 * all the while. One that the mutex was offered to and that did not come has
 * another position then, one of whose requests had no answer may have had the
 * mutex. One of whose requests failed, or whose connection was lost, may have
 * been passed until then. */
#include "util/array.h"
#include "verify/track.h"

#include <stdlib.h>
#include <string.h>

/* Who is next may be decided so long before it takes the mutex: it is offered
 * to somebody, and kept for it. */
enum { OFFERED_US = 310000 };

static struct simba__traced_waiter *find_waiter(
    struct simba__track *track,
    struct simba__deed_attempt attempt)
{
    for (size_t i = 0; i < track->waiter_count; i++) {
        if (simba__deed_attempt_equal(track->waiters[i].attempt, attempt)) {
            return &track->waiters[i];
        }
    }
    return NULL;
}

bool simba__queue_asked(const struct simba__step *step)
{
    struct simba__track *track = step->track;
    struct simba__traced_waiter *s = find_waiter(track, step->deed->attempt);
    bool is_back;

    if (s != NULL) {
        s->newest_us = step->deed->at_us;
        if (step->deed->waiter_us < s->waiter_us) {
            s->waiter_us = step->deed->waiter_us;
        }
        return true;
    }
    if (!simba__array_reserve(&track->waiters, &track->waiter_room,
                              track->waiter_count + 1,
                              sizeof *track->waiters)) {
        return false;
    }
    is_back = simba__tenure_is_known(track, step->deed->attempt);
    track->waiters[track->waiter_count++] = (struct simba__traced_waiter){
        .attempt = step->deed->attempt,
        .handle = step->deed->handle,
        .first_us = is_back ? 0 : step->deed->at_us,
        .newest_us = step->deed->at_us,
        .waiter_us = step->deed->waiter_us,
    };
    memcpy(track->waiters[track->waiter_count - 1].id, step->deed->id,
           sizeof step->deed->id);
    return true;
}

void simba__queue_named(const struct simba__step *step)
{
    struct simba__track *track = step->track;
    const char *to = step->deed->to;

    for (size_t i = 0; to[0] != '\0' && i < track->waiter_count; i++) {
        if (strcmp(track->waiters[i].id, to) == 0) {
            track->waiters[i].is_named = true;
        }
    }
}

/* Somebody has the mutex alone: whom it was kept for did not come in time. */
static void forget_named(struct simba__track *track)
{
    for (size_t i = 0; i < track->waiter_count; i++) {
        track->waiters[i].is_named = false;
    }
}

static void tell_unfair(const struct simba__step *step,
                        const struct simba__traced_waiter *passed)
{
    struct simba__tenure passer = {.where = passed->passer,
                                   .token = passed->passer_token};

    memcpy(passer.id, passed->passer_id, sizeof passer.id);
    simba__history_tell(step, SIMBA__UNFAIR, &passer);
}

/* May a question of this attempt still arrive, or have arrived unheard? */
static bool has_open_question(const struct simba__track *track,
                              const struct simba__traced_waiter *s)
{
    for (size_t i = 0; i < track->pending_count; i++) {
        const struct simba__traced_request *p = &track->pendings[i];

        if (p->request == SIMBA__DEED_ACQUIRE &&
            simba__deed_attempt_equal(p->attempt, s->attempt)) {
            return true;
        }
    }
    return s->is_doubtful;
}

/* Surely in the same position since it was told so last: it was not offered in
 * vain meanwhile, its waiter lease ran on, and no question is open, by which it
 * could have had the mutex. */
static bool is_in_old_position(const struct simba__step *step,
                               const struct simba__traced_request *asked,
                               const struct simba__traced_waiter *s)
{
    return s->position == step->deed->position && !s->is_out &&
           !has_open_question(step->track, s) &&
           asked->sent_us <= s->asked_us + s->waiter_us;
}

void simba__queue_doubt(const struct simba__step *step)
{
    struct simba__traced_waiter *s =
        find_waiter(step->track, step->deed->attempt);

    if (s != NULL) {
        s->is_doubtful = true;
    }
}

/* It stands there from now on, as far as is known. */
static void begin_anew(struct simba__traced_waiter *s, int64_t us)
{
    s->is_passed = false;
    s->told_us = us;
}

void simba__queue_failed(const struct simba__step *step)
{
    struct simba__traced_waiter *s =
        find_waiter(step->track, step->deed->attempt);

    if (s != NULL) {
        begin_anew(s, step->deed->at_us);
    }
}

void simba__queue_cut_off(struct simba__track *track,
                          const struct simba__deed *deed)
{
    for (size_t i = 0; i < track->waiter_count; i++) {
        if (track->waiters[i].handle == deed->handle) {
            begin_anew(&track->waiters[i], deed->at_us);
        }
    }
}

void simba__queue_heard(const struct simba__step *step,
                        const struct simba__traced_request *asked)
{
    const struct simba__deed *deed = step->deed;
    struct simba__traced_waiter *s = find_waiter(step->track, asked->attempt);

    if (s == NULL || asked->sent_us < s->asked_us) {
        return; /* it has left, or a newer answer has overtaken this one */
    }
    if (s->is_timed && deed->store_ms == 0) {
        return; /* its own process answers, with what it knew */
    }
    s->is_timed = deed->store_ms != 0;
    if (!is_in_old_position(step, asked, s)) {
        begin_anew(s, deed->at_us);
    }
    if (asked->sent_us > s->passed_us) {
        if (s->is_passed) {
            tell_unfair(step, s);
        }
        s->is_passed = false;
    }
    s->position = deed->position;
    s->asked_us = asked->sent_us;
    s->is_out = false;
}

void simba__queue_not_in(const struct simba__step *step)
{
    struct simba__traced_waiter *s =
        find_waiter(step->track, step->deed->attempt);

    if (s != NULL && s->position != 0) {
        s->is_out = true;
        s->is_passed = false;
    } else {
        simba__queue_gone(step);
    }
}

void simba__queue_gone(const struct simba__step *step)
{
    struct simba__track *track = step->track;
    struct simba__traced_waiter *s = find_waiter(track, step->deed->attempt);

    if (s != NULL) {
        *s = track->waiters[--track->waiter_count];
    }
}

void simba__queue_served(const struct simba__step *step,
                         const struct simba__traced_request *asked)
{
    struct simba__traced_waiter *s = find_waiter(step->track, asked->attempt);

    if (s != NULL && s->newest_us <= asked->sent_us) {
        simba__queue_gone(step);
    } else if (s != NULL) {
        s->is_doubtful = true;
    }
}

static void note_passed(const struct simba__step *step,
                        struct simba__traced_waiter *s)
{
    const struct simba__deed *deed = step->deed;

    s->is_passed = true;
    s->passed_us = deed->at_us;
    s->passer = deed->where;
    s->passer_token = deed->token;
    memcpy(s->passer_id, deed->id, sizeof s->passer_id);
}

/* Who was not told its position has one behind all that were told theirs before
 * it asked at all. */
static bool is_behind(const struct simba__traced_waiter *mine,
                      const struct simba__traced_waiter *s)
{
    return mine->position != 0 ? s->position < mine->position
                               : s->told_us < mine->first_us;
}

/* When it may have been granted at the earliest: a question may arrive twice,
 * and be refused first. */
static int64_t earliest_us(const struct simba__traced_waiter *mine)
{
    return mine->position != 0 ? mine->asked_us : mine->first_us;
}

void simba__queue_granted(const struct simba__step *step,
                          const struct simba__traced_request *asked)
{
    struct simba__track *track = step->track;
    const struct simba__traced_waiter *mine =
        find_waiter(track, asked->attempt);
    bool is_named = mine != NULL && mine->is_named;
    int64_t decided_us;

    if (step->deed->slots <= 1) {
        forget_named(track);
    }
    if (is_named) {
        return;
    }
    if (mine == NULL || asked->sent_us <= mine->asked_us) {
        return; /* the log begins in the middle, or this is old news */
    }
    decided_us = earliest_us(mine) - OFFERED_US;
    if (decided_us < track->forced_until_us) {
        return; /* who waits now may have had it a moment ago */
    }
    for (size_t i = 0; i < track->waiter_count; i++) {
        struct simba__traced_waiter *s = &track->waiters[i];
        bool is_live = s->asked_us + s->waiter_us >= step->deed->at_us;

        if (s != mine && s->position != 0 && s->told_us < decided_us &&
            is_behind(mine, s) && is_live && !s->is_out && !s->is_passed) {
            note_passed(step, s);
        }
    }
}
