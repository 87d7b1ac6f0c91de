/* The history checker: mutexes, operations under way, and what an answer is
 * about; see history.h. */
#include "verify/history.h"

#include "verify/track.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS_LEAST = 64 };

const char *simba__finding_word(enum simba__finding_kind kind)
{
    static const char *const words[SIMBA__FINDING_KINDS] = {
        "overlap",       "token-back",  "token-twice",
        "token-changed", "after-end",   "after-break",
        "unfair",        "run-overlap", "beat-twice"};

    return words[kind];
}

void simba__history_tell(const struct simba__turn *turn,
                         enum simba__finding_kind kind,
                         const struct simba__tenure *other)
{
    struct simba__history_finding finding = {
        .kind = kind, .deed = turn->deed, .token = turn->deed->token};

    if (other != NULL) {
        finding.other = other->where;
        finding.other_token = other->token;
        memcpy(finding.other_id, other->id, sizeof finding.other_id);
    }
    turn->history->finding_count++;
    turn->history->found(turn->history->user, &finding);
}

/* --- suspicions ---------------------------------------------------------- */

static bool reserve_suspicion(struct simba__history *history)
{
    size_t room =
        history->suspicion_room == 0 ? 4 : history->suspicion_room * 2;
    struct simba__suspicion *grown;

    if (history->suspicion_count < history->suspicion_room) {
        return true;
    }
    grown = realloc(history->suspicions, room * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    history->suspicions = grown;
    history->suspicion_room = room;
    return true;
}

bool simba__history_suspect(const struct simba__turn *turn,
                            const struct simba__tenure *other)
{
    struct simba__history *history = turn->history;

    if (other->handle == turn->deed->handle) {
        simba__history_tell(turn, SIMBA__OVERLAP, other);
        return true;
    }
    if (!reserve_suspicion(history)) {
        return false;
    }
    history->suspicions[history->suspicion_count++] =
        (struct simba__suspicion){other->handle, *turn->deed, *other};
    return true;
}

/* Who does something was alive before. */
static void confirm(struct simba__history *history,
                    const struct simba__deed *deed)
{
    size_t i = 0;

    while (i < history->suspicion_count) {
        struct simba__suspicion s = history->suspicions[i];
        struct simba__turn turn = {history, NULL, &s.deed};

        if (s.handle != deed->handle ||
            strcmp(s.deed.scope, deed->scope) != 0) {
            i++;
            continue;
        }
        history->suspicions[i] =
            history->suspicions[--history->suspicion_count];
        simba__history_tell(&turn, SIMBA__OVERLAP, &s.other);
    }
}

/* --- mutexes ------------------------------------------------------------- */

static size_t hash(const char *scope, const char *mutex)
{
    size_t value = 5381;

    for (const char *c = scope; *c != '\0'; c++) {
        value = value * 33 ^ (unsigned char)*c;
    }
    for (const char *c = mutex; *c != '\0'; c++) {
        value = value * 33 ^ (unsigned char)*c;
    }
    return value;
}

static void link_track(struct simba__history *history,
                       struct simba__track *track)
{
    size_t bucket =
        hash(track->scope, track->mutex) & (history->bucket_count - 1);

    track->next = history->buckets[bucket];
    history->buckets[bucket] = track;
}

/* Slower when it fails, but right. */
static void spread(struct simba__history *history)
{
    size_t before = history->bucket_count;
    struct simba__track **old = history->buckets;
    struct simba__track **grown =
        calloc(before * 2, sizeof(struct simba__track *));

    if (grown == NULL) {
        return;
    }
    history->buckets = grown;
    history->bucket_count = before * 2;
    for (size_t i = 0; i < before; i++) {
        for (struct simba__track *t = old[i], *next; t != NULL; t = next) {
            next = t->next;
            link_track(history, t);
        }
    }
    free(old);
}

static struct simba__track *make_track(struct simba__history *history,
                                       const struct simba__deed *deed)
{
    struct simba__track *track = calloc(1, sizeof *track);

    if (track == NULL) {
        return NULL;
    }
    memcpy(track->scope, deed->scope, sizeof track->scope);
    memcpy(track->mutex, deed->mutex, sizeof track->mutex);
    track->forced_until_us = INT64_MIN;
    if (history->track_count >= history->bucket_count) {
        spread(history);
    }
    link_track(history, track);
    history->track_count++;
    return track;
}

static struct simba__track *find_track(struct simba__history *history,
                                       const struct simba__deed *deed)
{
    size_t bucket =
        hash(deed->scope, deed->mutex) & (history->bucket_count - 1);
    struct simba__track *track = history->buckets[bucket];

    while (track != NULL && (strcmp(track->mutex, deed->mutex) != 0 ||
                             strcmp(track->scope, deed->scope) != 0)) {
        track = track->next;
    }
    return track != NULL ? track : make_track(history, deed);
}

/* --- operations ---------------------------------------------------------- */

static struct simba__pending *find_pending(struct simba__track *track,
                                           const struct simba__deed *deed)
{
    for (size_t i = track->pending_count; i > 0; i--) {
        struct simba__pending *p = &track->pendings[i - 1];
        if (p->number == deed->number && p->handle == deed->handle) {
            return p;
        }
    }
    return NULL;
}

static bool reserve_pending(struct simba__track *track)
{
    size_t room = track->pending_room == 0 ? 4 : track->pending_room * 2;
    struct simba__pending *grown;

    if (track->pending_count < track->pending_room) {
        return true;
    }
    grown = realloc(track->pendings, room * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    track->pendings = grown;
    track->pending_room = room;
    return true;
}

static bool add_sent(const struct simba__turn *turn)
{
    const struct simba__deed *deed = turn->deed;
    struct simba__track *track = turn->track;

    if (!reserve_pending(track)) {
        return false;
    }
    track->pendings[track->pending_count++] = (struct simba__pending){
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
        simba__tenure_release_sent(turn);
    }
    if (deed->request == SIMBA__DEED_RELEASE ||
        deed->request == SIMBA__DEED_LEAVE) {
        simba__standing_gone(turn);
    }
    return deed->request != SIMBA__DEED_ACQUIRE || simba__standing_asked(turn);
}

static bool hear_acquire(const struct simba__turn *turn,
                         const struct simba__pending *asked)
{
    if (turn->deed->mine) {
        if (simba__tenure_granted(turn, asked)) {
            simba__standing_granted(turn, asked);
        }
        simba__standing_served(turn, asked);
        return true;
    }
    if (!simba__tenure_refused(turn, asked)) {
        return true;
    }
    if (turn->deed->is_queued) {
        simba__standing_heard(turn, asked);
        return true;
    }
    simba__standing_gone(turn);
    return true;
}

/* An answer that is one. */
static bool hear(const struct simba__turn *turn,
                 const struct simba__pending *asked)
{
    switch (asked->request) {
    case SIMBA__DEED_ACQUIRE:
        return hear_acquire(turn, asked);
    case SIMBA__DEED_RENEW:
        if (turn->deed->mine) {
            (void)simba__tenure_granted(turn, asked);
        } else {
            (void)simba__tenure_refused(turn, asked);
        }
        return true;
    case SIMBA__DEED_BREAK:
        if (turn->deed->mine) {
            simba__tenure_broken(turn, asked);
        }
        return true;
    default:
        return true;
    }
}

static bool add_answered(const struct simba__turn *turn)
{
    struct simba__track *track = turn->track;
    struct simba__pending *found = find_pending(track, turn->deed);
    struct simba__turn answer = *turn;
    struct simba__pending asked;
    struct simba__deed heard;

    if (found == NULL) {
        return true; /* the log begins in the middle */
    }
    asked = *found;
    heard = *turn->deed;
    heard.attempt = asked.attempt; /* it is the question that counts */
    answer.deed = &heard;
    *found = track->pendings[--track->pending_count];
    if (turn->deed->outcome == SIMBA__DEED_UNKNOWN &&
        asked.request == SIMBA__DEED_ACQUIRE) {
        simba__standing_doubt(&answer);
    }
    return turn->deed->outcome != SIMBA__DEED_HEARD || hear(&answer, &asked);
}

/* --- the whole ----------------------------------------------------------- */

bool simba__history_add(struct simba__history *history,
                        const struct simba__deed *deed)
{
    struct simba__turn turn = {history, NULL, deed};

    if (deed->handle != 0) {
        confirm(history, deed);
    }
    if (deed->kind == SIMBA__DEED_ALIVE) {
        return true;
    }
    turn.track = find_track(history, deed);
    if (turn.track == NULL || !simba__tenure_reserve(turn.track)) {
        return false;
    }
    switch (deed->kind) {
    case SIMBA__DEED_SENT:
        return add_sent(&turn);
    case SIMBA__DEED_ANSWERED:
        return add_answered(&turn);
    case SIMBA__DEED_ACQUIRED:
        simba__tenure_whole(&turn);
        break;
    case SIMBA__DEED_ENDED:
        simba__tenure_whole_ended(&turn);
        break;
    case SIMBA__DEED_STARTED:
        simba__run_started(&turn);
        break;
    case SIMBA__DEED_OVER:
        simba__run_ended(&turn);
        break;
    case SIMBA__DEED_ALIVE:
        break;
    case SIMBA__DEED_FORCED:
        if (deed->until_us > turn.track->forced_until_us) {
            turn.track->forced_until_us = deed->until_us;
        }
        break;
    }
    return true;
}

struct simba__history *simba__history_open(simba__finding_fn found, void *user)
{
    struct simba__history *history = calloc(1, sizeof *history);

    if (history == NULL) {
        return NULL;
    }
    history->buckets = calloc(BUCKETS_LEAST, sizeof(struct simba__track *));
    if (history->buckets == NULL) {
        free(history);
        return NULL;
    }
    history->bucket_count = BUCKETS_LEAST;
    history->found = found;
    history->user = user;
    return history;
}

void simba__history_close(struct simba__history *history)
{
    if (history == NULL) {
        return;
    }
    for (size_t i = 0; i < history->bucket_count; i++) {
        for (struct simba__track *t = history->buckets[i], *next; t != NULL;
             t = next) {
            next = t->next;
            free(t->tenures);
            free(t->pendings);
            free(t->standers);
            free(t);
        }
    }
    free(history->suspicions);
    free(history->buckets);
    free(history);
}

size_t simba__history_mutexes(const struct simba__history *history)
{
    return history->track_count;
}

uint64_t simba__history_findings(const struct simba__history *history)
{
    return history->finding_count;
}
