/* Who of this process is in the queue. The core asks for each of them once a
 * lease, in case a ring was lost. What it asks then we know already: the
 * heartbeat of the process (beat.c) keeps their places and looks for all of
 * them at once. So the server is asked only by who was woken, and by whom the
 * heartbeat could not answer for. */
#include "backends/sql/engine.h"

#include <stdlib.h>
#include <string.h>

/* While the heartbeat is late, ask again so soon. */
enum { LATE_MS = 100 };

static bool is_attempt(const struct simba__sql_waiter *waiter,
                       const simba_request *request)
{
    return waiter->attempt.high == request->attempt.high &&
           waiter->attempt.low == request->attempt.low;
}

static struct simba__sql_waiter **find(struct simba__sql_wish *wish,
                                       const simba_request *request)
{
    struct simba__sql_waiter **at = &wish->waiters;

    while (*at != NULL && !is_attempt(*at, request)) {
        at = &(*at)->next;
    }
    return at;
}

static void take_away(struct simba__sql *self,
                      struct simba__sql_wish *wish,
                      struct simba__sql_waiter **at)
{
    struct simba__sql_waiter *waiter = *at;

    *at = waiter->next;
    free(waiter);
    self->waiter_count--;
    simba__sql_wish_drop(&self->wishes, wish);
}

void simba__sql_waiter_forget(struct simba__sql *self,
                              const simba_request *request)
{
    struct simba__sql_wish *wish =
        simba__sql_wish_find(&self->wishes, request->mutex);
    struct simba__sql_waiter **at = wish == NULL ? NULL : find(wish, request);

    if (at != NULL && *at != NULL) {
        take_away(self, wish, at);
    }
}

/* --- answering ----------------------------------------------------------- */

static bool may_answer(const struct simba__sql *self,
                       const struct simba__sql_waiter *waiter)
{
    bool is_settled = self->bell == SIMBA__SQL_BELL_HUNG ||
                      self->bell == SIMBA__SQL_BELL_REFUSED;

    /* The heartbeat must have time to keep its place. */
    return is_settled && !waiter->must_ask &&
           simba_loop_now_ms() < waiter->lapses_ms - waiter->life_ms / 4;
}

bool simba__sql_waiter_answer(struct simba__sql *self, simba_request *request)
{
    struct simba__sql_wish *wish =
        simba__sql_wish_find(&self->wishes, request->mutex);
    struct simba__sql_waiter **at = wish == NULL ? NULL : find(wish, request);
    int64_t wait_ms;

    if (at == NULL || *at == NULL) {
        return false;
    }
    if (!request->is_backstop || !may_answer(self, *at)) {
        take_away(self, wish, at); /* until the server has answered */
        return false;
    }
    (*at)->has_asked = true;
    simba__sql_beat_asked(self, *at, wish);
    wait_ms = wish->held_until_ms - simba_loop_now_ms();
    request->reply.is_queued = true;
    request->reply.is_head = (*at)->is_head;
    request->reply.position = (*at)->position;
    request->reply.wait_ms = wait_ms > LATE_MS ? wait_ms : LATE_MS;
    request->reply.owner = wish->owner;
    return true;
}

/* Of those who own it or stand in the queue, some cannot or will not ring us.
 */
static bool is_foreign(const struct simba__sql_turn *turn)
{
    const struct simba__sql_record *record = &turn->record;
    bool is_foreign = record->is_foreign;

    for (size_t i = SIMBA__SQL_SELF + 1;
         i < record->peer_count && turn->self->account != 0; i++) {
        is_foreign |= strncmp(record->peers[i].process, turn->self->process,
                              SIMBA__SQL_ACCOUNT) != 0;
    }
    return is_foreign;
}

void simba__sql_waiter_note(const struct simba__sql_turn *turn)
{
    struct simba__sql *self = turn->self;
    const simba_request *request = turn->request;
    struct simba__sql_wish *wish =
        simba__sql_wish_add(&self->wishes, request->mutex);
    struct simba__sql_waiter *waiter =
        wish == NULL ? NULL : calloc(1, sizeof *waiter);
    int64_t now_ms = simba_loop_now_ms();

    if (waiter == NULL) {
        if (wish != NULL) {
            simba__sql_wish_drop(&self->wishes, wish);
        }
        return; /* it asks for itself */
    }
    waiter->attempt = request->attempt;
    waiter->position = request->reply.position;
    waiter->is_head = request->reply.is_head;
    waiter->must_ask = turn->is_woken;
    waiter->since_beat = self->beat_number;
    waiter->life_ms = request->waiter_ms;
    waiter->lapses_ms =
        now_ms + simba__sql_change_life(&turn->change, request, &turn->record);
    waiter->next = wish->waiters;
    wish->waiters = waiter;
    wish->is_foreign = is_foreign(turn);
    self->has_foreign |= wish->is_foreign;
    wish->owner = request->reply.owner;
    wish->held_until_ms = now_ms + request->reply.wait_ms;
    self->waiter_count++;
    simba__sql_beat_asked(self, waiter, wish);
}

/* --- places to be kept --------------------------------------------------- */

struct list {
    char *end;
    int count;
};

/* A statement must go out in one piece: in two, a process that is stopped in
 * between would keep locks. The rest has to wait for the next one. */
enum { KEPT_MOST = 1500 };

/* One statement may be sent more than once. */
static void keep(void *context, struct simba__sql_wish *wish)
{
    struct list *list = context;
    char **at = &list->end;

    for (struct simba__sql_waiter *w = wish->waiters; w != NULL; w = w->next) {
        if (w->has_asked && list->count < KEPT_MOST) {
            w->is_kept = true;
            w->has_asked = false;
        }
        if (w->is_kept) {
            list->count++;
            simba__sql_write_attempt(
                (simba_attempt){w->attempt.high, w->attempt.low}, *at);
            *at += strlen(*at);
            *(*at)++ = ',';
        }
    }
}

char *simba__sql_waiters_kept(const struct simba__sql *self)
{
    char *text = malloc(self->waiter_count * (SIMBA__SQL_HEX + 1) + 1);
    struct list list = {text, 0};

    if (text != NULL) {
        simba__sql_wish_each(self, keep, &list);
        list.end[list.count == 0 ? 0 : -1] = '\0';
    }
    return text;
}

/* --- wake-ups ---------------------------------------------------------------
 */

static void mark_all(void *context, struct simba__sql_wish *wish)
{
    (void)context;
    for (struct simba__sql_waiter *w = wish->waiters; w != NULL; w = w->next) {
        w->must_ask = true;
    }
}

/* The runtime passes a wake-up on to the first two. */
static void mark_first_two(struct simba__sql_wish *wish)
{
    uint64_t first = UINT64_MAX, second = UINT64_MAX;

    for (struct simba__sql_waiter *w = wish->waiters; w != NULL; w = w->next) {
        if (w->position < first) {
            second = first;
            first = w->position;
        } else if (w->position < second) {
            second = w->position;
        }
    }
    for (struct simba__sql_waiter *w = wish->waiters; w != NULL; w = w->next) {
        w->must_ask |= w->position <= second;
    }
}

/* Who is asking just now, will ask again. */
static void mark_turns(struct simba__sql *self, const char *mutex)
{
    for (int i = 0; i < SIMBA__SQL_SESSIONS; i++) {
        const struct simba__sql_session *session = self->sessions[i];

        if (session != NULL && session->turn != NULL &&
            (mutex == NULL ||
             strcmp(session->turn->request->mutex, mutex) == 0)) {
            session->turn->is_woken = true;
        }
    }
}

void simba__sql_wake(struct simba__sql *self, const char *mutex)
{
    struct simba__sql_wish *wish =
        mutex == NULL ? NULL : simba__sql_wish_find(&self->wishes, mutex);

    mark_turns(self, mutex);
    if (mutex == NULL) {
        simba__sql_wish_each(self, mark_all, NULL);
    } else if (wish != NULL) {
        mark_first_two(wish);
    }
    simba_wake(self->base.loop, mutex);
}
