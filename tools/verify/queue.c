/* The line: who waits, and whether anybody was passed (S11).
 *
 * A waiter was passed when it was told its place before the other asked, is
 * told the very same place after the other was granted, and its waiter lease
 * ran all the while. One that was called and did not come has another place
 * then, one of whose requests had no answer may have had the mutex. */
#include "verify/track.h"

#include <stdlib.h>
#include <string.h>

/* A turn may be decided so long before it is taken: somebody is called, and
 * the mutex is reserved for it. */
enum { CALLED_US = 310000 };

static struct simba__stander *find_stander(struct simba__track *track,
                                           struct simba__deed_attempt attempt)
{
    for (size_t i = 0; i < track->stander_count; i++) {
        if (simba__deed_attempt_equal(track->standers[i].attempt, attempt)) {
            return &track->standers[i];
        }
    }
    return NULL;
}

static bool reserve_stander(struct simba__track *track)
{
    size_t room = track->stander_room == 0 ? 4 : track->stander_room * 2;
    struct simba__stander *grown;

    if (track->stander_count < track->stander_room) {
        return true;
    }
    grown = realloc(track->standers, room * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    track->standers = grown;
    track->stander_room = room;
    return true;
}

bool simba__standing_asked(const struct simba__turn *turn)
{
    struct simba__track *track = turn->track;
    struct simba__stander *s = find_stander(track, turn->deed->attempt);
    bool is_back;

    if (s != NULL) {
        s->newest_us = turn->deed->at_us;
        if (turn->deed->waiter_us < s->waiter_us) {
            s->waiter_us = turn->deed->waiter_us;
        }
        return true;
    }
    if (!reserve_stander(track)) {
        return false;
    }
    is_back = simba__tenure_is_known(track, turn->deed->attempt);
    track->standers[track->stander_count++] = (struct simba__stander){
        .attempt = turn->deed->attempt,
        .first_us = is_back ? 0 : turn->deed->at_us,
        .newest_us = turn->deed->at_us,
        .waiter_us = turn->deed->waiter_us,
    };
    return true;
}

static void tell_unfair(const struct simba__turn *turn,
                        const struct simba__stander *passed)
{
    struct simba__tenure passer = {.where = passed->passer,
                                   .token = passed->passer_token};

    memcpy(passer.id, passed->passer_id, sizeof passer.id);
    simba__history_tell(turn, SIMBA__UNFAIR, &passer);
}

/* May a question of this attempt still arrive, or have arrived unheard? */
static bool has_open_question(const struct simba__track *track,
                              const struct simba__stander *s)
{
    for (size_t i = 0; i < track->pending_count; i++) {
        const struct simba__pending *p = &track->pendings[i];

        if (p->request == SIMBA__DEED_ACQUIRE &&
            simba__deed_attempt_equal(p->attempt, s->attempt)) {
            return true;
        }
    }
    return s->is_doubtful;
}

/* Surely in the same place since it was told so last: it was not called in vain
 * meanwhile, its waiter lease ran on, and no question is open, by which it
 * could have had the mutex. */
static bool is_standing_still(const struct simba__turn *turn,
                              const struct simba__pending *asked,
                              const struct simba__stander *s)
{
    return s->position == turn->deed->position &&
           !has_open_question(turn->track, s) &&
           asked->sent_us <= s->asked_us + s->waiter_us;
}

void simba__standing_doubt(const struct simba__turn *turn)
{
    struct simba__stander *s = find_stander(turn->track, turn->deed->attempt);

    if (s != NULL) {
        s->is_doubtful = true;
    }
}

void simba__standing_heard(const struct simba__turn *turn,
                           const struct simba__pending *asked)
{
    const struct simba__deed *deed = turn->deed;
    struct simba__stander *s = find_stander(turn->track, asked->attempt);

    if (s == NULL || asked->sent_us < s->asked_us) {
        return; /* it has left, or a newer answer has overtaken this one */
    }
    if (!is_standing_still(turn, asked, s)) {
        s->is_passed = false;
        s->told_us = deed->at_us;
    }
    if (asked->sent_us > s->passed_us) {
        if (s->is_passed) {
            tell_unfair(turn, s);
        }
        s->is_passed = false;
    }
    s->position = deed->position;
    s->asked_us = asked->sent_us;
}

void simba__standing_gone(const struct simba__turn *turn)
{
    struct simba__track *track = turn->track;
    struct simba__stander *s = find_stander(track, turn->deed->attempt);

    if (s != NULL) {
        *s = track->standers[--track->stander_count];
    }
}

void simba__standing_served(const struct simba__turn *turn,
                            const struct simba__pending *asked)
{
    struct simba__stander *s = find_stander(turn->track, asked->attempt);

    if (s != NULL && s->newest_us <= asked->sent_us) {
        simba__standing_gone(turn);
    } else if (s != NULL) {
        s->is_doubtful = true;
    }
}

static void note_passed(const struct simba__turn *turn,
                        struct simba__stander *s)
{
    const struct simba__deed *deed = turn->deed;

    s->is_passed = true;
    s->passed_us = deed->at_us;
    s->passer = deed->where;
    s->passer_token = deed->token;
    memcpy(s->passer_id, deed->id, sizeof s->passer_id);
}

/* Who was not told its place has one behind all that were told theirs before
 * it asked at all. */
static bool is_behind(const struct simba__stander *mine,
                      const struct simba__stander *s)
{
    return mine->position != 0 ? s->position < mine->position
                               : s->told_us < mine->first_us;
}

/* When it may have been granted at the earliest: a question may arrive twice,
 * and be refused first. */
static int64_t earliest_us(const struct simba__stander *mine)
{
    return mine->position != 0 ? mine->asked_us : mine->first_us;
}

void simba__standing_granted(const struct simba__turn *turn,
                             const struct simba__pending *asked)
{
    struct simba__track *track = turn->track;
    const struct simba__stander *mine = find_stander(track, asked->attempt);
    int64_t decided_us;

    if (mine == NULL || asked->sent_us <= mine->asked_us) {
        return; /* the log begins in the middle, or this is old news */
    }
    decided_us = earliest_us(mine) - CALLED_US;
    if (decided_us < track->forced_until_us) {
        return; /* who waits now may have had it a moment ago */
    }
    for (size_t i = 0; i < track->stander_count; i++) {
        struct simba__stander *s = &track->standers[i];
        bool is_live = s->asked_us + s->waiter_us >= turn->deed->at_us;

        if (s != mine && s->position != 0 && s->told_us < decided_us &&
            is_behind(mine, s) && is_live && !s->is_passed) {
            note_passed(turn, s);
        }
    }
}
