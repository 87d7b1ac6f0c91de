/* The heartbeat of a process: one statement for all who wait through it. It
 * keeps their positions in the queue alive, and tells what may have been
 * missed: who owns each mutex until when, and which are worth asking for.
 *
 * It comes every 15 s, and right after the end of the first lease that we know
 * of: its owner has renewed it meanwhile, or is dead. Where nobody can ring, a
 * look ten times a second takes the place of the bell. */
#include "backends/sql/engine.h"

#include <string.h>

enum { BEAT_MS = 15000, LOOK_MS = 100, RETRY_MS = 1000, PATIENCE_MS = 2000 };

/* The columns of beat.sql. */
enum column {
    MUTEX,
    OWNER_ID,
    ACQUIRED_AT,
    TTL_AT,
    TRANSITION_AT,
    TOKEN,
    WAITING, /* so many of us are in the queue or called */
    NOW_MS,
    IS_WORTH_ASKING,
    IS_FOREIGN /* somebody there cannot ring us */
};

/* Is there anything that nobody will ring us for? */
static bool is_ringless(const struct simba__sql *self)
{
    return self->bell == SIMBA__SQL_BELL_REFUSED || self->has_foreign;
}

/* --- when ---------------------------------------------------------------- */

void simba__sql_beat_plan(struct simba__sql *self)
{
    int64_t at_ms = self->beat_due_ms;

    if (self->is_beating || self->is_detached) {
        return;
    }
    if (is_ringless(self) && self->look_due_ms < at_ms) {
        at_ms = self->look_due_ms;
    }
    simba_timer_set(self->base.loop, &self->beat_timer,
                    self->waiter_count == 0 ? INT64_MAX : at_ms);
}

/* The heartbeat must come before a waiter lease runs out that is to be kept,
 * and when the owner's lease does. */
static void hurry(struct simba__sql *self,
                  const struct simba__sql_waiter *waiter,
                  const struct simba__sql_wish *wish)
{
    int64_t soonest_ms = self->beat_sent_ms + LOOK_MS;
    int64_t due_ms = wish->held_until_ms + 1;
    int64_t keep_ms = waiter->lapses_ms - waiter->life_ms / 8;

    if (waiter->life_ms > self->life_ms) {
        self->life_ms = waiter->life_ms;
    }
    if (waiter->has_asked && due_ms > keep_ms) {
        due_ms = keep_ms;
    }
    if (due_ms < soonest_ms) {
        due_ms = soonest_ms;
    }
    if (due_ms < self->beat_due_ms) {
        self->beat_due_ms = due_ms;
    }
}

void simba__sql_beat_asked(struct simba__sql *self,
                           const struct simba__sql_waiter *waiter,
                           const struct simba__sql_wish *wish)
{
    int64_t now_ms = simba_loop_now_ms();

    if (self->waiter_count == 1 && !waiter->has_asked) { /* the first */
        self->beat_due_ms = now_ms + BEAT_MS;
        self->look_due_ms = now_ms + LOOK_MS;
        self->life_ms = 0;
    }
    hurry(self, waiter, wish);
    simba__sql_beat_plan(self);
}

/* --- asking -------------------------------------------------------------- */

static void send_beat(struct simba__sql *self)
{
    simba_request *request = &self->beat_op;
    int64_t now_ms = simba_loop_now_ms();

    memset(request, 0, sizeof *request);
    request->kind = SIMBA_READ;
    request->mutex = request->id = "";
    request->waiter_ms = self->life_ms;
    request->deadline_ms = now_ms + PATIENCE_MS;
    self->is_beating = true;
    self->is_look = is_ringless(self) && now_ms < self->beat_due_ms;
    if (!self->is_look) {
        self->beat_number++;
        self->beat_sent_ms = now_ms;
        self->beat_due_ms = now_ms + RETRY_MS; /* if it fails */
    }
    simba__sql_submit(&self->base, request);
}

void simba__sql_beat_now(struct simba__sql *self)
{
    if (!self->is_beating && !self->is_detached) {
        self->beat_due_ms = 0;
        send_beat(self);
    }
}

void simba__sql_beat_fired(simba_timer *timer)
{
    struct simba__sql *self =
        (struct simba__sql *)((char *)timer -
                              offsetof(struct simba__sql, beat_timer));

    if (self->waiter_count > 0) {
        send_beat(self);
    }
}

static void keep_later(void *context, struct simba__sql_wish *wish)
{
    (void)context;
    for (struct simba__sql_waiter *w = wish->waiters; w != NULL; w = w->next) {
        w->has_asked |= w->is_kept;
        w->is_kept = false;
    }
}

/* Instead of simba_request_done(). */
void simba__sql_beat_done(struct simba__sql *self, int status)
{
    self->is_beating = false;
    if (status != SIMBA_OK) {
        simba__sql_wish_each(self, keep_later, NULL);
    }
    self->look_due_ms = simba_loop_now_ms() + LOOK_MS;
    simba__sql_beat_plan(self);
}

/* --- answers ------------------------------------------------------------- */

static void read_owner(const struct simba__sql_rows *rows,
                       int row,
                       simba_owner *owner)
{
    const char *id = rows->cell(rows, row, OWNER_ID);

    *owner = simba_owner_none();
    if (id != NULL && strlen(id) <= SIMBA_ID_MAX &&
        simba__sql_number(rows, row, TRANSITION_AT) >=
            simba__sql_number(rows, row, NOW_MS)) {
        memcpy(owner->id, id, strlen(id) + 1);
        owner->acquired_at_ms = simba__sql_number(rows, row, ACQUIRED_AT);
        owner->ttl_at_ms = simba__sql_number(rows, row, TTL_AT);
        owner->transition_at_ms = simba__sql_number(rows, row, TRANSITION_AT);
        owner->token = (uint64_t)simba__sql_number(rows, row, TOKEN);
    }
}

static void read_row(struct simba__sql *self,
                     const struct simba__sql_rows *rows,
                     int row)
{
    const char *mutex = rows->cell(rows, row, MUTEX);
    struct simba__sql_wish *wish = simba__sql_wish_find(&self->wishes, mutex);
    int64_t left_ms = simba__sql_number(rows, row, TRANSITION_AT) -
                      simba__sql_number(rows, row, NOW_MS);

    if (wish != NULL) {
        wish->seen_beat = self->beat_number;
        wish->seen_waiting = simba__sql_number(rows, row, WAITING);
        wish->held_until_ms = simba_loop_now_ms() + (left_ms < 0 ? 0 : left_ms);
        wish->is_foreign = simba__sql_number(rows, row, IS_FOREIGN) != 0;
        read_owner(rows, row, &wish->owner);
    }
}

/* Are all of those in the queue that were when we asked? */
static bool is_complete(const struct simba__sql *self,
                        const struct simba__sql_wish *wish)
{
    int64_t expected = 0;

    for (const struct simba__sql_waiter *w = wish->waiters; w != NULL;
         w = w->next) {
        expected += w->since_beat < self->beat_number;
    }
    return expected == 0 || (wish->seen_beat == self->beat_number &&
                             wish->seen_waiting >= expected);
}

/* Who was answered for is sure of its place again; places that are gone,
 * somebody must ask for. */
static void settle(void *context, struct simba__sql_wish *wish)
{
    struct simba__sql *self = context;
    bool is_lost = !is_complete(self, wish);

    self->has_lost_places |= is_lost;
    self->has_foreign |= wish->is_foreign && wish->waiters != NULL;
    for (struct simba__sql_waiter *w = wish->waiters; w != NULL; w = w->next) {
        w->must_ask |= is_lost;
        if (w->is_kept) {
            w->lapses_ms = self->beat_sent_ms + self->beat_op.waiter_ms;
            w->is_kept = false;
        }
        hurry(self, w, wish);
    }
}

static void settle_all(struct simba__sql *self)
{
    self->beat_due_ms = self->beat_sent_ms + BEAT_MS;
    self->life_ms = 0;
    self->has_lost_places = self->has_foreign = false;
    simba__sql_wish_each(self, settle, self);
}

void simba__sql_beaten(struct simba__sql_turn *turn,
                       const struct simba__sql_rows *rows)
{
    struct simba__sql *self = turn->self;

    for (int i = 0; i < rows->count; i++) {
        read_row(self, rows, i);
    }
    settle_all(self);
    /* Who is woken may ask, and so change what we have gone through. */
    for (int i = 0; i < rows->count; i++) {
        if (simba__sql_number(rows, i, IS_WORTH_ASKING) != 0) {
            simba__sql_wake(self, rows->cell(rows, i, MUTEX));
        }
    }
    if (self->has_lost_places) {
        simba_wake(self->base.loop, NULL);
    }
    simba__sql_turn_end(turn, SIMBA_OK, NULL);
}

void simba__sql_looked(struct simba__sql_turn *turn,
                       const struct simba__sql_rows *rows)
{
    struct simba__sql *self = turn->self;

    for (int i = 0; i < rows->count; i++) {
        simba__sql_wake(self, rows->cell(rows, i, MUTEX));
    }
    simba__sql_turn_end(turn, SIMBA_OK, NULL);
}
