/* Whom an operation wakes, and for whom it listens. */
#include "backends/sqlite/turn.h"

bool simba__sqlite_is_connected(void *argument, uint64_t connection)
{
    struct simba__sqlite_turn *turn = argument;
    struct simba__sqlite *self = turn->self;
    enum simba__sqlite_life life = simba__sqlite_presence_look(
        &self->presence, self->record.peers[connection].process);

    self->is_burial_due |= life == SIMBA__SQLITE_DEAD;
    return life != SIMBA__SQLITE_DEAD;
}

void simba__sqlite_ring_later(void *argument,
                              const struct simba__waiter *waiter)
{
    struct simba__sqlite_turn *turn = argument;

    if (turn->ring_count < SIMBA__SQLITE_RINGS) {
        turn->rings[turn->ring_count++] = (size_t)waiter->connection;
    }
}

void simba__sqlite_ring_now(const struct simba__sqlite_turn *turn)
{
    const struct simba__sqlite *self = turn->self;

    for (size_t i = 0; i < turn->ring_count; i++) {
        simba__sqlite_presence_ring(&self->presence,
                                    self->record.peers[turn->rings[i]].process,
                                    turn->request->mutex);
    }
}

static bool is_live(struct simba__sqlite_turn *turn,
                    const struct simba__waiter *waiter)
{
    return waiter->lapses_ms >= turn->wish.now_ms &&
           simba__sqlite_is_connected(turn, waiter->connection);
}

/* Some changes nobody in the queue hears of, and yet who is before whom is
 * another: somebody took the mutex without having been called, because its
 * owner is dead or late; or somebody went out of the line. Who is then the
 * first behind that place asks again, and so comes to watch the right one. */
static void wake_behind(struct simba__sqlite_turn *turn, uint64_t position)
{
    const struct simba__mutex_record *row = &turn->self->record.row;

    for (size_t i = 0; i < row->queue_count; i++) {
        if (row->queue[i].position >= position &&
            is_live(turn, &row->queue[i])) {
            simba__sqlite_ring_later(turn, &row->queue[i]);
            return;
        }
    }
}

static bool is_taken_uncalled(const struct simba__sqlite_turn *turn)
{
    const struct simba__sqlite_record *record = &turn->self->record;
    bool is_offered =
        record->is_offered &&
        simba__attempt_equal(record->called.attempt,
                             simba__sqlite_attempt(turn->request));

    return turn->reply.mine && !is_offered &&
           record->row.owner.token != record->owner.token;
}

void simba__sqlite_wake_successor(struct simba__sqlite_turn *turn)
{
    const struct simba__sqlite_record *record = &turn->self->record;
    struct simba__attempt me = simba__sqlite_attempt(turn->request);

    if (is_taken_uncalled(turn)) {
        wake_behind(turn, 0);
    }
    if (turn->request->kind != SIMBA_RELEASE &&
        turn->request->kind != SIMBA_LEAVE) {
        return;
    }
    for (size_t i = 0; i < record->line_count; i++) {
        if (simba__attempt_equal(record->line[i].attempt, me)) {
            wake_behind(turn, record->line[i].position);
        }
    }
}

/* Who is refused watches the one before it in the queue: the death of an owner
 * then wakes one waiter and not all of them, and who was before us and became
 * the owner is watched already. The first watches the owner, unless its death
 * is not to be used, or the called one, who will be the owner. */
static const char *find_obstacle(struct simba__sqlite_turn *turn)
{
    const struct simba__sqlite_record *record = &turn->self->record;
    const struct simba__mutex_record *row = &record->row;
    size_t i = row->queue_count;

    while (i > 0 && row->queue[i - 1].position >= turn->reply.position) {
        i--;
    }
    for (; i > 0; i--) {
        if (is_live(turn, &row->queue[i - 1])) {
            return record->peers[row->queue[i - 1].connection].process;
        }
    }
    if (!simba__mutex_is_held(row, turn->wish.now_ms)) {
        return row->is_offered ? record->peers[row->offered.connection].process
                               : "";
    }
    return record->is_handover ? record->peers[SIMBA__SQLITE_OWNER].process
                               : "";
}

void simba__sqlite_watch_or_forget(struct simba__sqlite_turn *turn)
{
    struct simba__sqlite *self = turn->self;

    if (turn->request->kind == SIMBA_RENEW) {
        return;
    }
    if (turn->request->kind != SIMBA_ACQUIRE || !turn->reply.is_queued) {
        simba__sqlite_watch_forget(&self->watch, turn->request);
        return;
    }
    if (!simba__sqlite_watch_wait(&self->watch, turn->request,
                                  find_obstacle(turn), turn->reply.is_head) &&
        !self->is_deaf) {
        self->is_deaf = true;
        self->log(self->log_user, SIMBA_LOG_INFO, "sqlite",
                  "no hints: inotify or the bell cannot be had; waiters poll");
    }
}
