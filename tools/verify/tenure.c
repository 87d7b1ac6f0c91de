/* Tenures: when somebody relies on a mutex, under which token, and what must
 * not happen afterwards (S1, S4, S5, S8). */
#include "verify/track.h"

#include "util/array.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* So many owners at once are told apart; of those that crashed no end comes. */
enum { LASTING_MOST = 1000 };

bool simba__tenure_reserve(struct simba__track *track)
{
    if (!simba__array_reserve(&track->tenures, &track->tenure_room,
                              track->tenure_count + 1,
                              sizeof *track->tenures)) {
        errno = ENOMEM;
        return false;
    }
    return true;
}

static struct simba__tenure *find_tenure(struct simba__track *track,
                                         struct simba__deed_attempt attempt)
{
    for (size_t i = 0; i < track->tenure_count; i++) {
        struct simba__tenure *t = &track->tenures[i];
        if (!t->is_whole && !t->is_former &&
            simba__deed_attempt_equal(t->attempt, attempt)) {
            return t;
        }
    }
    return NULL;
}

bool simba__tenure_is_known(struct simba__track *track,
                            struct simba__deed_attempt attempt)
{
    return find_tenure(track, attempt) != NULL;
}

static struct simba__tenure *find_token(struct simba__track *track,
                                        uint64_t token)
{
    for (size_t i = 0; i < track->tenure_count; i++) {
        struct simba__tenure *t = &track->tenures[i];
        if (t->token == token) {
            return t;
        }
    }
    return NULL;
}

/* A new one; when there are enough, in the place of the one that has not been
 * relied on for longest. */
static struct simba__tenure *choose_entry(const struct simba__step *step)
{
    struct simba__track *track = step->track;
    struct simba__tenure *oldest = NULL;
    size_t lasting = 0;

    for (size_t i = 0; i < track->tenure_count; i++) {
        struct simba__tenure *t = &track->tenures[i];

        lasting += t->slots > 1 && t->until_us > step->deed->at_us &&
                   lasting < LASTING_MOST;
        if (oldest == NULL || t->until_us < oldest->until_us) {
            oldest = t;
        }
    }
    if (track->tenure_count <
        SIMBA__TENURES_MOST + lasting * SIMBA__TENURES_EACH) {
        assert(track->tenure_count < track->tenure_room);
        return &track->tenures[track->tenure_count++];
    }
    simba__across_note(step->history, track, oldest);
    return oldest;
}

static struct simba__tenure *begin_tenure(const struct simba__step *step)
{
    const struct simba__deed *deed = step->deed;
    struct simba__tenure *t = choose_entry(step);

    *t = (struct simba__tenure){.attempt = deed->attempt,
                                .token = deed->token,
                                .handle = deed->handle,
                                .where = deed->where,
                                .from_us = deed->at_us,
                                .until_us = deed->at_us,
                                .alive_us = deed->at_us,
                                .released_us = SIMBA__UNENDED,
                                .ended_us = SIMBA__UNENDED,
                                .broken_us = SIMBA__UNENDED,
                                .overtaken_us = SIMBA__UNENDED,
                                .slots = deed->slots,
                                .slot = deed->slot};
    memcpy(t->id, deed->id, sizeof t->id);
    return t;
}

/* One tenure may be seen twice: by its user, and by a trace of its store. */
static bool is_same_tenure(const struct simba__tenure *a,
                           const struct simba__tenure *b)
{
    return a == b || (a->is_whole != b->is_whole && a->token == b->token &&
                      strcmp(a->id, b->id) == 0);
}

/* S4. `newest` was known when this tenure was asked for. */
static void check_token(const struct simba__step *step,
                        const struct simba__tenure *mine,
                        uint64_t newest)
{
    struct simba__track *track = step->track;

    for (size_t i = 0; i < track->tenure_count; i++) {
        const struct simba__tenure *t = &track->tenures[i];
        if (t->token == mine->token && mine->token != 0 &&
            !is_same_tenure(t, mine)) {
            simba__history_tell(step, SIMBA__TOKEN_TWICE, t);
            return;
        }
    }
    /* With slots it may have been granted when it asked before, and others
     * since. */
    if (mine->token <= newest && mine->token != 0 && mine->slots <= 1) {
        const struct simba__tenure *last = find_token(track, newest);
        if (last == NULL || !is_same_tenure(last, mine)) {
            simba__history_tell(step, SIMBA__TOKEN_BACK, last);
        }
    }
    if (mine->token > track->newest_token) {
        track->newest_token = mine->token;
    }
}

/* S1: from now on somebody relies on this tenure; does anybody else as well?
 * Of a whole tenure the end is not known before it is told: it is only noted
 * that another began. */
static void check_overlap(const struct simba__step *step,
                          struct simba__tenure *mine)
{
    struct simba__track *track = step->track;
    int64_t now_us = step->deed->at_us;

    assert(!mine->is_former && mine->until_us > now_us);
    for (size_t i = 0; i < track->tenure_count; i++) {
        struct simba__tenure *t = &track->tenures[i];

        if (is_same_tenure(t, mine) || SIMBA__MAY_OVERLAP(t, mine) ||
            t->until_us <= now_us || now_us < track->forced_until_us ||
            (t->is_told && mine->is_told)) {
            continue;
        }
        if (!t->is_whole) {
            t->is_told = mine->is_told = simba__history_suspect(step, t);
        } else if (t->overtaken_us == SIMBA__UNENDED) {
            t->overtaken_us = now_us;
            t->overtaker = mine->where;
            t->overtaker_token = mine->token;
            memcpy(t->overtaker_id, mine->id, sizeof t->overtaker_id);
        }
    }
}

/* Until when it was surely relied on: beyond its last sign of life its owner
 * may be dead. */
static int64_t sure_until(const struct simba__tenure *t)
{
    return t->until_us == SIMBA__UNENDED ? t->from_us
           : t->alive_us < t->until_us   ? t->alive_us
                                         : t->until_us;
}

/* S1: how many owned it when this one began, as far as is known, and the least
 * number that one of them suffers? One of the others, if they are too many. */
static const struct simba__tenure *find_crowding(
    const struct simba__track *track,
    const struct simba__tenure *mine)
{
    uint64_t count = 1, least = mine->slots;
    const struct simba__tenure *other = NULL;

    for (size_t i = 0; i < track->tenure_count; i++) {
        const struct simba__tenure *t = &track->tenures[i];

        if (t->slots > 1 && t->token != 0 && !is_same_tenure(t, mine) &&
            t->from_us <= mine->from_us && mine->from_us < sure_until(t)) {
            count++;
            least = t->slots < least ? t->slots : least;
            other = t;
        }
    }
    return count > least ? other : NULL;
}

/* It is known now when this one ended: were there too many since it began? Two
 * that do not go together are told otherwise. Who is told of owned it then:
 * what ended it may not say its token, and with itself it does not overlap. */
static void check_crowd(const struct simba__step *step,
                        const struct simba__tenure *ended)
{
    struct simba__track *track = step->track;
    struct simba__deed deed = *step->deed;
    const struct simba__step told = {step->history, track, &deed};

    deed.token = ended->token;
    for (size_t i = 0; i < track->tenure_count && ended->slots > 1; i++) {
        struct simba__tenure *t = &track->tenures[i];
        const struct simba__tenure *other;

        if (t->slots > 1 && t->token != 0 && !t->is_told &&
            t->until_us > t->from_us && /* its yes did not come too late */
            t->from_us >= ended->from_us && t->from_us < sure_until(ended) &&
            t->from_us >= track->forced_until_us &&
            (other = find_crowding(track, t)) != NULL) {
            t->is_told = true;
            simba__history_tell(&told, SIMBA__OVERLAP,
                                is_same_tenure(t, ended) ? other : t);
        }
    }
}

/* The answer counts from when it was asked for. One that comes when that time
 * is up is given back, and no renewal brings back what has lapsed. */
static void rely_on(const struct simba__step *step,
                    struct simba__tenure *t,
                    const struct simba__traced_request *asked)
{
    int64_t granted_us = step->deed->use_us;
    bool is_less = granted_us > 0 && granted_us < asked->use_us;
    int64_t until_us = asked->sent_us + (is_less ? granted_us : asked->use_us);
    bool is_new = t->from_us == step->deed->at_us;
    bool is_lapsed = !is_new && t->until_us <= step->deed->at_us;

    assert(!t->is_whole);
    if (until_us > t->until_us && !is_lapsed && until_us > step->deed->at_us &&
        t->ended_us == SIMBA__UNENDED) {
        t->until_us = until_us;
        check_overlap(step, t);
    }
}

/* An attempt may come to the mutex a second time: its yes came too late to be
 * used, the tenure lapsed, and it went on asking. Not when it was released:
 * what was undone stays undone (S8). */
static bool is_over(const struct simba__tenure *t,
                    const struct simba__step *step,
                    const struct simba__traced_request *asked)
{
    int64_t now_us = step->deed->at_us;
    bool may_be = t->until_us <= now_us || t->broken_us != SIMBA__UNENDED ||
                  now_us < step->track->forced_until_us;

    bool is_undone = asked->sent_us > t->released_us;

    return may_be && asked->request == SIMBA__DEED_ACQUIRE && !is_undone &&
           t->token != step->deed->token;
}

static void check_going_on(const struct simba__step *step,
                           const struct simba__tenure *t,
                           const struct simba__traced_request *asked)
{
    bool is_same = t->token == step->deed->token;
    bool is_forced = asked->sent_us < step->track->forced_until_us;
    bool is_unused =
        asked->sent_us <= t->until_us && t->until_us <= step->deed->at_us;

    if (is_forced || (t->released_us != SIMBA__UNENDED &&
                      asked->sent_us <= t->released_us)) {
        return; /* what crosses the release means nothing any more */
    }
    if (!is_same && (is_unused || (t->ended_us != SIMBA__UNENDED &&
                                   asked->sent_us <= t->ended_us))) {
        return; /* a doubled request has got it again, for nobody */
    }
    if (asked->sent_us > t->ended_us) {
        simba__history_tell(step, SIMBA__AFTER_END, t);
    } else if (is_same && asked->sent_us > t->broken_us) {
        simba__history_tell(step, SIMBA__AFTER_BREAK, t);
    } else if (!is_same && t->token != 0) {
        simba__history_tell(step, SIMBA__TOKEN_CHANGED, t);
    }
}

/* A yes of an earlier tenure of this attempt, heard after that of a newer. */
static bool is_stale(const struct simba__tenure *t,
                     const struct simba__step *step,
                     const struct simba__traced_request *asked)
{
    for (size_t i = 0; i < step->track->tenure_count; i++) {
        const struct simba__tenure *former = &step->track->tenures[i];

        if (former->is_former && former->token == step->deed->token &&
            simba__deed_attempt_equal(former->attempt, asked->attempt)) {
            return true;
        }
    }
    return asked->sent_us < t->asked_us && step->deed->token < t->token;
}

/* The tenure that this yes is about; NULL: none that matters any more. */
static struct simba__tenure *tenure_of(
    const struct simba__step *step,
    const struct simba__traced_request *asked)
{
    struct simba__tenure *t = find_tenure(step->track, asked->attempt);
    bool is_again = t != NULL && is_over(t, step, asked);
    int64_t released_us = is_again ? t->released_us : SIMBA__UNENDED;

    if (t != NULL && is_stale(t, step, asked)) {
        return NULL;
    }
    if (t != NULL && !is_again) {
        check_going_on(step, t, asked);
        return t;
    }
    if (is_again) {
        t->is_former = true;
    }
    t = begin_tenure(step);
    t->token = 0;
    t->released_us = released_us; /* the yes has crossed the release */
    t->ended_us = released_us;
    return t;
}

static void note_clock(const struct simba__step *step, struct simba__tenure *t)
{
    if (step->deed->store_ms == 0) {
        return;
    }
    if (t->store_from_ms == 0) {
        t->store_from_ms = step->deed->store_ms;
    }
    t->store_ms = step->deed->store_ms;
    t->store_us = step->deed->at_us;
}

bool simba__tenure_granted(const struct simba__step *step,
                           const struct simba__traced_request *asked)
{
    struct simba__tenure *t = tenure_of(step, asked);
    bool is_new = t != NULL && t->token == 0;

    if (t == NULL) {
        return false;
    }
    if (is_new) {
        t->token = step->deed->token;
        t->where = step->deed->where;
    }
    if (is_new && asked->request == SIMBA__DEED_ACQUIRE) {
        check_token(step, t, asked->newest_token);
    } /* else the log begins in the middle */
    if (asked->sent_us > t->asked_us) {
        t->asked_us = asked->sent_us;
    }
    t->heard_us = t->alive_us = step->deed->at_us;
    note_clock(step, t);
    rely_on(step, t, asked);
    return is_new && asked->request == SIMBA__DEED_ACQUIRE;
}

static void end_at(struct simba__tenure *t, int64_t at_us)
{
    if (t->until_us > at_us) {
        t->until_us = at_us;
    }
}

bool simba__tenure_refused(const struct simba__step *step,
                           const struct simba__traced_request *asked)
{
    struct simba__tenure *t = find_tenure(step->track, asked->attempt);

    if (t != NULL && t->token != 0 && asked->sent_us <= t->heard_us) {
        return false;
    }
    if (t != NULL) {
        t->alive_us = step->deed->at_us;
        end_at(t, step->deed->at_us);
        if (t->ended_us == SIMBA__UNENDED) {
            t->ended_us = step->deed->at_us;
            check_crowd(step, t);
        }
    }
    return true;
}

/* An attempt that was broken by force and came to the mutex again by a doubled
 * request has several tenures, and one release. */
static void end_former(const struct simba__step *step)
{
    for (size_t i = 0; i < step->track->tenure_count; i++) {
        struct simba__tenure *t = &step->track->tenures[i];

        if (t->is_former &&
            simba__deed_attempt_equal(t->attempt, step->deed->attempt)) {
            end_at(t, step->deed->at_us);
        }
    }
}

/* Also of a tenure that was not heard of yet: when its yes comes after this,
 * nobody relies on it, and what was undone stays undone (S8). */
void simba__tenure_release_sent(const struct simba__step *step)
{
    struct simba__tenure *t = find_tenure(step->track, step->deed->attempt);

    simba__queue_named(step);
    if (t == NULL && !step->deed->undoes) {
        return; /* it has no doubt that there is none */
    }
    if (t == NULL) {
        t = begin_tenure(step);
        t->token = 0;
    }
    t->alive_us = step->deed->at_us;
    end_at(t, step->deed->at_us);
    end_former(step);
    if (t->released_us == SIMBA__UNENDED) {
        t->released_us = step->deed->at_us;
    }
    if (t->ended_us == SIMBA__UNENDED) {
        t->ended_us = step->deed->at_us;
        check_crowd(step, t);
    }
}

void simba__tenure_broken(const struct simba__step *step,
                          const struct simba__traced_request *asked)
{
    struct simba__tenure *t = find_token(step->track, asked->token);

    if (t == NULL) {
        return;
    }
    if (t->broken_us == SIMBA__UNENDED) {
        t->broken_us = step->deed->at_us;
    }
    if (asked->now && t->is_whole) {
        end_at(t, step->deed->at_us); /* its user may believe a while longer */
    } else if (asked->now && t->until_us > step->track->forced_until_us) {
        step->track->forced_until_us = t->until_us;
    }
}

/* --- whole tenures ------------------------------------------------------- */

void simba__tenure_whole(const struct simba__step *step)
{
    uint64_t newest = step->track->newest_token;
    struct simba__tenure *t = begin_tenure(step);

    t->is_whole = true;
    note_clock(step, t);
    t->until_us = SIMBA__UNENDED;
    check_token(step, t, newest);
    check_overlap(step, t);
}

static struct simba__tenure *find_whole(struct simba__track *track,
                                        const struct simba__deed *deed)
{
    for (size_t i = 0; i < track->tenure_count; i++) {
        struct simba__tenure *t = &track->tenures[i];
        if (t->is_whole && t->token == deed->token &&
            t->until_us == SIMBA__UNENDED && strcmp(t->id, deed->id) == 0) {
            return t;
        }
    }
    return NULL;
}

void simba__tenure_whole_ended(const struct simba__step *step)
{
    struct simba__tenure *t = find_whole(step->track, step->deed);
    struct simba__tenure other = {.token = 0};

    if (t == NULL) {
        return; /* the log begins in the middle */
    }
    t->until_us = t->alive_us = step->deed->until_us;
    if (t->overtaken_us < t->until_us) {
        other.where = t->overtaker;
        other.token = t->overtaker_token;
        memcpy(other.id, t->overtaker_id, sizeof other.id);
        simba__history_tell(step, SIMBA__OVERLAP, &other);
    } else {
        check_crowd(step, t);
    }
}
