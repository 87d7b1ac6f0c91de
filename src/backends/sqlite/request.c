/* One request: one transaction. Runs on the store's worker.
 *
 * The clock is read when the write lock is held, so that the order of times is
 * the order of commits. Then the mutex is read and corrected by who is dead,
 * the model serves the request, and what has changed is written back. Waiters
 * and observers are notified after the commit. */
#define _GNU_SOURCE
#include "backends/sqlite/sqlite.h"

#include <assert.h>
#include <time.h>

/* How long a request that is driven waits for other writers. */
enum { DRIVEN_PATIENCE_MS = 2 };

/* --- the clocks ---------------------------------------------------------- */

int64_t simba__sqlite_now_ms(const struct simba__sqlite *self)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec -
            self->clock_offset_ns) /
           1000000;
}

uint64_t simba__sqlite_wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec < 0
               ? 0
               : (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* --- whom a request wakes, and whom it watches --------------------------- */

static bool is_connected(void *argument, uint64_t connection)
{
    struct simba__sqlite *self = argument;
    bool is_dead;

    assert(connection < self->record.peer_count);
    is_dead =
        connection != SIMBA__SQLITE_SELF &&
        simba__sqlite_life_seen(self, self->record.peers[connection].process) ==
            SIMBA__SQLITE_DEAD;
    self->has_dead |= is_dead;
    return !is_dead;
}

static void wake_later(void *argument, const struct simba__waiter *waiter)
{
    struct simba__sqlite_record *record =
        &((struct simba__sqlite *)argument)->record;

    if (record->wake_count < sizeof record->wakes / sizeof record->wakes[0]) {
        record->wakes[record->wake_count++] = (size_t)waiter->connection;
    }
}

struct simba__mutex_host simba__sqlite_host(struct simba__sqlite *self)
{
    return (struct simba__mutex_host){self, is_connected, wake_later};
}

static bool is_live(struct simba__sqlite *self,
                    const struct simba__waiter *waiter)
{
    return waiter->lapses_ms >= self->record.now_ms &&
           is_connected(self, waiter->connection);
}

static void wake_behind(struct simba__sqlite *self, uint64_t position)
{
    const struct simba__mutex_record *after = &self->record.after;

    for (size_t i = 0; i < after->queue_count; i++) {
        if (after->queue[i].position >= position &&
            is_live(self, &after->queue[i])) {
            wake_later(self, &after->queue[i]);
            return;
        }
    }
}

/* Two changes reach nobody in the queue by themselves, and yet the process in
 * somebody's way is another: the mutex was taken without an offer, because its
 * owner is dead or late, or a waiter has left the queue. The first live waiter
 * behind is woken. It asks again, and so comes to watch the right process. */
static void wake_successor(struct simba__sqlite *self,
                           const simba_request *request)
{
    const struct simba__mutex_record *before = &self->record.before;
    simba_attempt me = request->attempt;
    bool was_offered =
        before->is_offered && simba__attempt_equal(before->offered.attempt, me);

    if (request->reply.mine && !was_offered &&
        self->record.after.owner.token != before->owner.token) {
        wake_behind(self, 0);
    }
    if (request->kind != SIMBA_RELEASE && request->kind != SIMBA_LEAVE) {
        return;
    }
    for (size_t i = 0; i < before->queue_count; i++) {
        if (simba__attempt_equal(before->queue[i].attempt, me)) {
            wake_behind(self, before->queue[i].position);
        }
    }
}

/* Returns the process that a refused waiter watches: that of the waiter before
 * it in the queue. So the death of an owner wakes one waiter and not all, and
 * when the one before becomes the owner, it is watched already. The first
 * watches the owner (but not with crash_handover=off), or the waiter that has
 * an offer. "": none. */
static const char *find_obstacle(struct simba__sqlite *self, uint64_t position)
{
    const struct simba__sqlite_record *record = &self->record;
    const struct simba__mutex_record *after = &record->after;

    for (size_t i = after->queue_count; i > 0; i--) {
        if (after->queue[i - 1].position < position &&
            is_live(self, &after->queue[i - 1])) {
            return record->peers[after->queue[i - 1].connection].process;
        }
    }
    if (simba__mutex_is_held(after, record->now_ms)) {
        return record->is_handover ||
                       record->peers[SIMBA__SQLITE_OWNER].is_handover
                   ? record->peers[SIMBA__SQLITE_OWNER].process
                   : "";
    }
    return after->is_offered ? record->peers[after->offered.connection].process
                             : "";
}

/* --- a change ------------------------------------------------------------ */

/* Within the transaction: everything up to the commit. */
static int decide(struct simba__sqlite *self,
                  simba_request *request,
                  bool *is_changed,
                  simba_error *error)
{
    struct simba__sqlite_record *record = &self->record;
    simba_reply *reply = &request->reply;
    struct simba__mutex_host host = simba__sqlite_host(self);
    struct simba__mutex_request given = {.request = request,
                                         .connection = SIMBA__SQLITE_SELF,
                                         .spare_ms = request->waiter_ms / 2};
    int rc;

    record->now_ms = given.now_ms = simba__sqlite_now_ms(self);
    record->wake_count = 0;
    rc = simba__sqlite_record_load(self, request, request->kind == SIMBA_RENEW,
                                   error);
    /* S4: tokens grow also when the file was lost. The boot clock begins anew
     * with every boot, so the wall clock carries them. It is compared with
     * other tokens only, never with a lease; when it steps back, the counter
     * goes on. They grow over a loss of power, too: see durability.c. */
    if (rc == SIMBA_OK && request->kind == SIMBA_ACQUIRE) {
        uint64_t wall_us = simba__sqlite_wall_us();

        rc = simba__sqlite_reserve_load(self, error);
        if (record->after.last_token + 1 < wall_us) {
            record->after.last_token = wall_us - 1;
        }
        if (record->after.last_token < self->reserve.floor) {
            record->after.last_token = self->reserve.floor;
        }
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    if (!simba__mutex_serve(&record->after, &host, &given, reply)) {
        return simba__sqlite_result(self, SQLITE_NOMEM, error);
    }
    if (request->kind == SIMBA_BREAK && reply->mine) {
        rc = simba__sqlite_break(self, request, error);
    } else if (request->kind == SIMBA_HAND_OVER && reply->to[0] != '\0' &&
               !record->is_crowd) {
        rc = simba__sqlite_execute(self, SIMBA__SQLITE_ASK_TENURE, error, "tnt",
                                   request->mutex, record->before.owner.token,
                                   record->after.first.asked);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    wake_successor(self, request);
    if (request->kind == SIMBA_ACQUIRE && reply->is_queued) {
        if (!simba__sqlite_watch_wait(self, request,
                                      find_obstacle(self, reply->position),
                                      reply->is_head) &&
            !self->is_poll_logged) {
            self->is_poll_logged = true;
            simba__log(&self->log, SIMBA_LOG_INFO,
                       "no wake-ups: inotify cannot be had; waiters poll");
        }
    } else if (request->kind != SIMBA_RENEW && self->watch.waiting.count > 0) {
        simba__sqlite_watch_forget(self, request);
    }
    rc = simba__sqlite_record_store(self, request, is_changed, error);
    if (rc == SIMBA_OK && request->kind == SIMBA_ACQUIRE && reply->mine) {
        rc = simba__sqlite_reserve_cover(self, reply->token, is_changed, error);
    }
    *is_changed |= (request->kind == SIMBA_BREAK && reply->mine) ||
                   (request->kind == SIMBA_HAND_OVER && reply->to[0] != '\0');
    return rc == SIMBA_OK && *is_changed
               ? simba__sqlite_reserve_tell(self, error)
               : rc;
}

/* A caller that lends its thread is not kept waiting for other writers: while
 * they are in the way, the request is put off for the worker. */
static int64_t patience(const simba_request *request)
{
    int64_t soon_ms = simba_loop_now_ms() + DRIVEN_PATIENCE_MS;

    return request->is_driven && soon_ms < request->deadline_ms
               ? soon_ms
               : request->deadline_ms;
}

static int put_off(const simba_request *request,
                   int rc,
                   const simba_error *error)
{
    return request->is_driven && rc == SIMBA_EUNAVAIL &&
                   simba__sqlite_is_busy(error->native)
               ? SIMBA_EBUSY
               : rc;
}

static int serve_change(struct simba__sqlite *self,
                        simba_request *request,
                        simba_error *error)
{
    const struct simba__sqlite_record *record = &self->record;
    const simba_reply *reply = &request->reply;
    bool is_changed = false, is_broken;
    int rc = simba__sqlite_begin(self, SIMBA__SQLITE_BEGIN, patience(request),
                                 error);

    if (rc != SIMBA_OK) {
        return put_off(request, rc, error);
    }
    rc = decide(self, request, &is_changed, error);
    if (rc == SIMBA_OK && is_changed) {
        rc = simba__sqlite_commit(self, request->deadline_ms, error);
        self->reserve.is_untold &= rc != SIMBA_OK;
    } else {
        simba__sqlite_rollback(self);
    }
    /* What must outlast a loss of power is flushed: see durability.c. Of tokens
     * also that of an acquire that finds its tenure there already: the request
     * before it may have failed to flush it. */
    is_broken = request->kind == SIMBA_BREAK && reply->mine;
    if (rc == SIMBA_OK && is_broken) {
        rc = simba__sqlite_wal_flush(self, error);
    } else if (rc == SIMBA_OK && request->kind == SIMBA_ACQUIRE &&
               reply->mine) {
        rc = simba__sqlite_reserve_flush(self, reply->token, error);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    for (size_t i = 0; i < record->wake_count; i++) {
        simba__sqlite_notify(self, record->peers[record->wakes[i]].process,
                             request->mutex);
    }
    if (is_broken) {
        simba__sqlite_log_break(self, request);
    }
    if (simba__mutex_is_other(simba__mutex_owners(&record->before),
                              simba__mutex_owners(&record->after))) {
        simba__sqlite_observers_notify(self, request);
    }
    return SIMBA_OK;
}

static int serve_read(struct simba__sqlite *self,
                      simba_request *request,
                      simba_error *error)
{
    struct simba__sqlite_record *record = &self->record;
    struct simba__mutex_host host = simba__sqlite_host(self);
    struct simba__waiter_walk walk = {.record = &record->after, .host = &host};
    simba_waiter waiter;
    int rc = simba__sqlite_begin(self, SIMBA__SQLITE_BEGIN_READ,
                                 request->deadline_ms, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    record->now_ms = simba__sqlite_now_ms(self);
    rc = simba__sqlite_record_load(self, request, !request->want_queue, error);
    simba__sqlite_rollback(self);
    if (rc == SIMBA_OK) {
        simba__mutex_read(&record->after, record->now_ms, &request->reply);
        walk.now_ms = record->now_ms;
        simba__sqlite_add_owners(self, request, request->reply.owned);
        while (simba__mutex_next_waiter(&walk, &waiter)) {
            simba_request_add_waiter(request, &waiter);
        }
    }
    return rc;
}

/* --- the whole ----------------------------------------------------------- */

/* If somebody deleted or replaced the file or our directory, it is opened anew:
 * on the old one we could own mutexes that others own on the new one. A file
 * that was locked when the store was opened is opened here, too. */
static int follow_file(struct simba__sqlite *self,
                       const simba_request *request,
                       simba_error *error)
{
    bool was_open = self->db.handle != NULL;
    int has_moved = 0;
    bool is_moved =
        !was_open ||
        (sqlite3_file_control(self->db.handle, "main", SQLITE_FCNTL_HAS_MOVED,
                              &has_moved) == SQLITE_OK &&
         has_moved != 0);
    struct stat life;
    int rc = SIMBA_OK;

    if (!is_moved && (fstat(self->life_fd, &life) != 0 || life.st_nlink > 0)) {
        return SIMBA_OK;
    }
    if (was_open) {
        simba__log(&self->log, SIMBA_LOG_WARN, "%s",
                   is_moved
                       ? "the database was deleted or replaced: opening it anew"
                       : "the directory beside the database was cleaned up");
    }
    if (is_moved) {
        simba__sqlite_disconnect(self);
        self->reserve = (struct simba__sqlite_reserve){0};
        rc = simba__sqlite_file_prepare(&self->settings, error);
        if (rc == SIMBA_OK) {
            rc = simba__sqlite_connect(self, patience(request), error);
            rc = put_off(request, rc, error);
        }
    }
    if (rc == SIMBA_OK) {
        rc = simba__sqlite_life_open(self, error);
        simba__sqlite_watch_renew(self);
        simba__sqlite_observers_renew(self);
    }
    return rc;
}

int simba__sqlite_serve(void *argument,
                        simba_request *request,
                        simba_error *error)
{
    struct simba__sqlite *self = argument;
    bool is_urgent = request->kind == SIMBA_ACQUIRE;
    int rc;

    if (self->is_absent) {
        return request->kind == SIMBA_DOCTOR
                   ? simba__sqlite_doctor(self, request)
                   : simba__sqlite_fail_absent(self, error);
    }
    if (request->slots > 1 && self->settings.is_trusted) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "sqlite: several owners need a file system of "
                               "one machine, not fs=trust");
    }
    rc = follow_file(self, request, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    assert(self->db.handle != NULL && self->life_fd >= 0);
    if (atomic_load(&self->observers.is_unsettled) ||
        self->observers.lacks_wake_file) {
        simba__sqlite_observers_settle(self);
    }
    switch (request->kind) {
    case SIMBA_READ:
        return serve_read(self, request, error);
    case SIMBA_LIST:
        return simba__sqlite_list(self, request, error);
    case SIMBA_DOCTOR:
        return simba__sqlite_doctor(self, request);
    case SIMBA_INIT: /* a file is made, and brought up to date, when opened */
        simba_request_add_finding(request, SIMBA_FINDING_OK, "schema",
                                  "the tables of %s are there",
                                  self->settings.path);
        return SIMBA_OK;
    case SIMBA_TELL:
        return simba__sqlite_tell(self, request, error);
    case SIMBA_TOLD:
    case SIMBA_BREAKS:
        return simba__sqlite_notes(self, request, error);
    default:
        break;
    }
    rc = serve_change(self, request, error);
    /* The caller of an acquire waits for the answer: leave this to others. */
    if (self->has_dead && !is_urgent) {
        simba__sqlite_remove_dead(self);
    }
    if (self->db.log_pages >=
        (is_urgent ? SIMBA__SQLITE_LOG_PAGES_MOST : SIMBA__SQLITE_LOG_PAGES)) {
        simba__sqlite_wal_shorten(self);
    }
    return rc;
}
