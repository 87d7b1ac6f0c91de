/* The line: who waits, and whether anybody was passed (S11).
 *
 * A waiter was passed when it was told its place before the other asked, is
 * told the very same place after the other was granted, and its waiter lease
 * ran all the while. One that was called and did not come has another place
 * then, one whose request came to an unknown end may have had the mutex. */
#include "history/track.h"

#include <stdlib.h>
#include <string.h>

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

static struct simba__stander *add_stander(struct simba__track *track,
                                          struct simba__deed_attempt attempt)
{
    size_t room = track->stander_room == 0 ? 4 : track->stander_room * 2;
    struct simba__stander *grown = track->standers;
    struct simba__stander *stander;

    if (track->stander_count == track->stander_room) {
        grown = realloc(track->standers, room * sizeof *grown);
        if (grown == NULL) {
            return NULL;
        }
        track->standers = grown;
        track->stander_room = room;
    }
    stander = &grown[track->stander_count++];
    *stander = (struct simba__stander){.attempt = attempt};
    return stander;
}

static void tell_unfair(const struct simba__turn *turn,
                        const struct simba__stander *passed)
{
    struct simba__tenure passer = {.where = passed->passer,
                                   .token = passed->passer_token};

    memcpy(passer.id, passed->passer_id, sizeof passer.id);
    simba__history_tell(turn, SIMBA__UNFAIR, &passer);
}

bool simba__standing_heard(const struct simba__turn *turn,
                           const struct simba__pending *asked)
{
    const struct simba__deed *deed = turn->deed;
    struct simba__stander *s = find_stander(turn->track, asked->attempt);

    if (s == NULL) {
        s = add_stander(turn->track, asked->attempt);
    }
    if (s == NULL) {
        return false;
    }
    if (s->is_passed && !s->is_doubtful && s->place == deed->place &&
        asked->sent_us > s->passed_us) {
        tell_unfair(turn, s);
    }
    if (asked->sent_us > s->passed_us) {
        s->is_passed = false;
        s->is_doubtful = false;
    }
    s->place = deed->place;
    s->asked_us = asked->sent_us;
    s->heard_us = deed->at_us;
    s->waiter_us = asked->waiter_us;
    return true;
}

void simba__standing_doubt(const struct simba__turn *turn)
{
    struct simba__stander *s = find_stander(turn->track, turn->deed->attempt);

    if (s != NULL) {
        s->is_doubtful = true;
    }
}

void simba__standing_gone(const struct simba__turn *turn)
{
    struct simba__track *track = turn->track;
    struct simba__stander *s = find_stander(track, turn->deed->attempt);

    if (s != NULL) {
        *s = track->standers[--track->stander_count];
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

void simba__standing_granted(const struct simba__turn *turn,
                             const struct simba__pending *asked)
{
    struct simba__track *track = turn->track;
    const struct simba__stander *mine = find_stander(track, asked->attempt);
    uint64_t place = mine == NULL ? UINT64_MAX : mine->place;

    for (size_t i = 0; i < track->stander_count; i++) {
        struct simba__stander *s = &track->standers[i];
        bool is_live = s->asked_us + s->waiter_us >= turn->deed->at_us;

        if (s != mine && s->place < place && s->heard_us < asked->sent_us &&
            is_live && !s->is_passed && !s->is_doubtful) {
            note_passed(turn, s);
        }
    }
}
