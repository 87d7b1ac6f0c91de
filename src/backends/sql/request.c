/* One request: which statement comes next, and what its answer means.
 *
 * What a request changes is decided by the model of one mutex
 * (core/mutex_record.h), on what LOAD has read; nothing is locked meanwhile.
 * The write takes effect only if the mutex is still as it was loaded, and else
 * all is done anew. */
#include "backends/sql/waiters.h"

#include <assert.h>
#include <string.h>

/* Where tables of an older make were met, how long until they are tried as if
 * they had been upgraded since: an owner is not asked to hand over before. */
#define LOOK_FOR_SLOTS_MS 60000

/* Who has lost more races in a row does not wait for longer; nor does anybody
 * wait for longer than that. */
enum { RACES_MOST = 10, LATE_MOST_MS = 5000 };

/* Where the marks of a mutex are; two that share them cost each other a round
 * trip now and then. */
static uint32_t mark_of(const struct simba__sql_request *request)
{
    const char *mutex = request->asked->mutex;

    return simba__fnv32(mutex, strlen(mutex)) % SIMBA__SQL_MARKS;
}

/* How much of what ours has is known to be missing in simba_mutex. */
static int count_missing(const struct simba__sql *self)
{
    return self->has_no_quiet + self->has_no_token;
}

static void send(struct simba__sql_request *request,
                 enum simba__sql_statement statement)
{
    assert(request->session != NULL);
    request->statement = statement;
    request->missing = count_missing(request->self);
    request->is_written |= simba__sql_is_write(statement);
    if (statement == SIMBA__SQL_LOAD) {
        request->begun_ms = simba_loop_now_ms();
    }
    request->self->dialect->send(request->session, statement);
}

/* They may have been upgraded since the columns for these were missed. */
static bool wants_slots(const struct simba__sql_request *request)
{
    return request->asked->slots > 1 || request->asked->kind == SIMBA_HAND_OVER;
}

/* Others of this process wait for it, so who comes anew is not granted. */
static bool is_newcomer(const struct simba__sql_request *request)
{
    const struct simba__sql_subscription *at =
        simba__sql_subscription_find(request->self, request->asked->mutex);

    return request->asked->position == 0 && at != NULL && at->waiter_count > 0;
}

/* What is uncontended takes one round trip, by the fast path, unless that did
 * nothing last time. */
void simba__sql_start(struct simba__sql_request *request)
{
    struct simba__sql *self = request->self;
    const simba_request *asked = request->asked;
    uint32_t mark = mark_of(request);
    bool is_quiet = !self->has_no_quiet && !self->is_loud[mark];
    enum simba__sql_statement first = SIMBA__SQL_LOAD;

    if (asked->kind == SIMBA_REACH) { /* it has a session: that is all */
        simba__sql_end(request, SIMBA_OK, NULL);
        return;
    }
    if (asked == &self->heartbeat) {
        first = self->is_poll ? SIMBA__SQL_POLL : SIMBA__SQL_HEARTBEAT;
    } else if (asked->kind == SIMBA_INIT) {
        first = SIMBA__SQL_SCHEMA;
    } else if (asked->kind == SIMBA_LIST) {
        first = SIMBA__SQL_LIST;
    } else if (asked->kind == SIMBA_DOCTOR) {
        first = SIMBA__SQL_DOCTOR;
    } else if (asked->kind == SIMBA_TELL) {
        first = SIMBA__SQL_TELL;
    } else if (asked->kind == SIMBA_TOLD) {
        first = SIMBA__SQL_TOLD;
    } else if (asked->kind == SIMBA_BREAKS) {
        first = SIMBA__SQL_BREAKS;
    } else if (request->is_slow || self->is_shared[mark]) {
        first = SIMBA__SQL_LOAD;
    } else if (asked->slots > 1) {
        first = asked->kind == SIMBA_RENEW ? SIMBA__SQL_SLOT_RENEW
                                           : SIMBA__SQL_LOAD;
    } else if (asked->kind == SIMBA_ACQUIRE && !self->has_no_token &&
               asked->token_above == 0 && !is_newcomer(request)) {
        first = is_quiet ? SIMBA__SQL_QUIET_ACQUIRE : SIMBA__SQL_FAST_ACQUIRE;
    } else if (asked->kind == SIMBA_RENEW) {
        first = is_quiet ? SIMBA__SQL_QUIET_RENEW : SIMBA__SQL_FAST_RENEW;
    } else if (simba__sql_can_offer(request, self->offers[mark])) {
        first = SIMBA__SQL_OFFER;
    } else if (asked->kind == SIMBA_RELEASE && asked->tombstone_ms == 0 &&
               (is_quiet || self->has_no_quiet) && !self->has_queue[mark]) {
        first = is_quiet ? SIMBA__SQL_QUIET_RELEASE : SIMBA__SQL_FAST_RELEASE;
    }
    self->has_no_slots &=
        !wants_slots(request) && simba_loop_now_ms() < self->look_for_slots_ms;
    request->is_written = false;
    send(request, first);
}

/* One of several owners has renewed. */
static void tell_slot(simba_reply *reply,
                      const simba_request *asked,
                      const struct simba__sql_rows *rows)
{
    reply->slot = reply->owner.slot =
        (uint32_t)simba__sql_number(rows, 0, SIMBA__SQL_DONE_SLOT);
    reply->owner.slots = asked->slots;
    reply->slots = (uint32_t)simba__sql_number(rows, 0, SIMBA__SQL_DONE_SLOTS);
    reply->owned = (uint32_t)simba__sql_number(rows, 0, SIMBA__SQL_DONE_OWNED);
}

/* The fast path has answered. Who owns a mutex that is no longer quiet renews
 * in one round trip still. */
static void tried(struct simba__sql_request *request,
                  const struct simba__sql_rows *rows)
{
    const simba_request *asked = request->asked;
    simba_reply *reply = &request->asked->reply;

    request->is_written = false;
    if (rows->count == 0 || rows->cell(rows, 0, SIMBA__SQL_DONE_US) == NULL) {
        bool is_renewal = request->statement == SIMBA__SQL_QUIET_RENEW;

        request->self->is_loud[mark_of(request)] |= is_renewal;
        if (request->statement == SIMBA__SQL_OFFER) {
            request->self->offers[mark_of(request)] = 0;
        }
        send(request, is_renewal ? SIMBA__SQL_FAST_RENEW : SIMBA__SQL_LOAD);
        return;
    }
    request->self->was_primary = true;
    reply->store_ms = simba__sql_number(rows, 0, SIMBA__SQL_DONE_US) / 1000;
    if (asked->kind != SIMBA_RELEASE) {
        reply->mine = true;
        reply->token =
            (uint64_t)simba__sql_number(rows, 0, SIMBA__SQL_DONE_TOKEN);
        memcpy(reply->owner.id, asked->id, strlen(asked->id) + 1);
        reply->owner.token = reply->token;
        reply->owner.acquired_at_ms =
            simba__sql_number(rows, 0, SIMBA__SQL_DONE_ACQUIRED_AT);
        reply->owner.ttl_at_ms = reply->store_ms + asked->ttl_ms;
        reply->owner.transition_at_ms =
            reply->owner.ttl_at_ms + asked->transition_ms;
        if (reply->size >= offsetof(simba_reply, session_ms)) {
            reply->owned = 1;
            if (request->statement == SIMBA__SQL_SLOT_RENEW) {
                tell_slot(reply, asked, rows);
            }
        }
    } else if (request->statement == SIMBA__SQL_OFFER) {
        simba__sql_offered(request, rows);
    }
    simba__sql_end(request, SIMBA_OK, NULL);
}

/* --- which make simba_mutex is of ---------------------------------------- */

/* If it is known by now, or by these rows, that simba_mutex is of another make
 * than what was asked for, the request begins anew: true. Unless it was so
 * once, and is no more: its tokens would be old ones (S4), and the request
 * ends. */
static bool learn(struct simba__sql_request *request,
                  const struct simba__sql_rows *rows)
{
    struct simba__sql *self = request->self;
    bool is_news = request->missing != count_missing(self);
    /* Somebody has made of simba_mutex what ours are. S4: to whom the versions
     * are tokens must not go on so once there are true ones, which are greater.
     * Who does not know what quiet means must learn it before the first that
     * is. */
    bool is_upgraded =
        rows->count > 0 &&
        ((self->has_no_token &&
          (simba__sql_number(rows, 0, SIMBA__SQL_HAS_TOKENS) != 0 ||
           simba__sql_number(rows, 0, SIMBA__SQL_TENURE_TOKEN) >
               SIMBA__SQL_VERSIONS)) ||
         (self->has_no_quiet &&
          simba__sql_number(rows, 0, SIMBA__SQL_TENURE_VERSION) ==
              SIMBA__SQL_SILENT));
    simba_error error;

    if (is_news) { /* the rows lack what is known by now */
        simba__sql_start(request);
    } else if (is_upgraded && !request->was_learnt) {
        request->was_learnt = true;
        self->has_no_token = self->has_no_quiet = false;
        simba__sql_start(request);
    } else if (is_upgraded) {
        simba_error_set(
            &error, SIMBA_EMISCONFIG, 0,
            "%s: simba_mutex is of an older make than what simba_tenure "
            "knows of it: run `simba init --upgrade`",
            self->shown);
        simba__sql_end(request, SIMBA_EMISCONFIG, &error);
    }
    return is_news || is_upgraded;
}

/* Slots and hand-over need columns that tables of an older make lack. */
static void end_for_upgrade(struct simba__sql_request *request)
{
    simba_error error;

    simba_error_set(&error, SIMBA_EMISCONFIG, 0,
                    "%s: the tables are of an older make, without slots and "
                    "hand-over: run `simba init --upgrade`",
                    request->self->shown);
    simba__sql_end(request, SIMBA_EMISCONFIG, &error);
}

/* --- deciding ------------------------------------------------------------ */

static bool is_connected(void *argument, uint64_t connection)
{
    const struct simba__sql_request *request = argument;

    return connection == 0 || request->record.peers[connection].is_live;
}

static void wake_later(void *argument, const struct simba__waiter *waiter)
{
    struct simba__sql_change *change =
        &((struct simba__sql_request *)argument)->change;

    if (change->wake_count < sizeof change->wakes / sizeof change->wakes[0]) {
        change->wakes[change->wake_count++] = (size_t)waiter->connection;
    }
}

static void fill_reply(struct simba__sql_request *request)
{
    simba_request *asked = request->asked;
    struct simba__mutex_host host = {request, is_connected, wake_later};
    int64_t now_ms = request->record.now_us / 1000;
    struct simba__waiter_walk walk = {&request->record.mutex, &host, now_ms, 0};
    const simba_owner *owner;
    simba_waiter waiter;
    size_t next = 0;

    /* Of several the one that is meant has been told. */
    if (asked->kind == SIMBA_READ || !simba__sql_is_crowd(walk.record)) {
        simba__mutex_read(walk.record, now_ms, &asked->reply);
    }
    if (request->record.is_jvm_seen && asked->reply.mine &&
        asked->kind <= SIMBA_RENEW) { /* what was asked for, it can rely on */
        asked->reply.owner.ttl_at_ms = now_ms + asked->ttl_ms;
        asked->reply.owner.transition_at_ms =
            now_ms + asked->ttl_ms + asked->transition_ms;
    }
    while (asked->kind == SIMBA_READ && simba__sql_is_crowd(walk.record) &&
           (owner = simba__mutex_next_owner(walk.record, now_ms, &next)) !=
               NULL) {
        simba_request_add_owner(asked, owner);
    }
    while (asked->want_queue && asked->kind == SIMBA_READ &&
           simba__mutex_next_waiter(&walk, &waiter)) {
        simba_request_add_waiter(asked, &waiter);
    }
    if (asked->reply.is_queued) {
        simba__sql_waiter_note(request);
    }
}

/* If the owner is dead though its lease seems to run, the lease has lapsed. Of
 * several it is seen only when all are. */
static void find_dead_owner(struct simba__sql_request *request)
{
    struct simba__sql *self = request->self;
    struct simba__sql_record *record = &request->record;
    struct simba__mutex_record *mutex = &record->mutex;
    struct simba__sql_subscription *at =
        simba__sql_subscription_find(self, request->asked->mutex);
    int64_t now_ms = record->now_us / 1000;
    struct simba__tenure *tenure;

    if (at == NULL || request->asked->kind != SIMBA_ACQUIRE ||
        simba__mutex_find_tenure(mutex, request->asked->attempt) != NULL) {
        return;
    }
    simba__sql_waiter_look(request, at);
    /* Its answer may have come late: what counts is when it was asked for. */
    if (simba__mutex_is_held(mutex, now_ms) &&
        simba__sql_is_over(&at->sighting, request->begun_ms)) {
        simba__log(&self->log, SIMBA_LOG_WARN,
                   "%s: the clock of the server has gone back: the lease of "
                   "'%s' for '%s' is over by ours, and has %lld ms to run by "
                   "its own: it is ended",
                   self->shown, record->row.id, request->asked->mutex,
                   (long long)(record->row.transition_at_ms - now_ms));
        for (size_t i = 0; (tenure = simba__mutex_tenure(mutex, i)) != NULL;
             i++) {
            tenure->owner.ttl_at_ms = tenure->owner.transition_at_ms =
                now_ms - 1;
        }
    }
}

/* The mutex becomes free and is left to JVM contenders for a while: the first
 * two of ours must know until when. */
static void tell_of_room(struct simba__sql_request *request)
{
    const struct simba__sql_record *record = &request->record;
    const struct simba__mutex_record *mutex = &record->mutex;

    for (size_t i = 0;
         i < mutex->queue_count && mutex->is_offered &&
         simba__sql_is_jvm(&mutex->offered) && request->change.wake_count < 2;
         i++) {
        if (mutex->queue[i].lapses_ms >= record->now_us / 1000 &&
            is_connected(request, mutex->queue[i].connection)) {
            wake_later(request, &mutex->queue[i]);
        }
    }
}

/* Who owns it is asked by a row that says so of its attempt. */
static bool can_be_asked(const struct simba__sql_record *record)
{
    const struct simba__mutex_record *mutex = &record->mutex;

    return mutex->attempt.high != 0 || mutex->attempt.low != 0 ||
           !simba__mutex_is_held(mutex, record->now_us / 1000);
}

static void send_change(struct simba__sql_request *request)
{
    send(request,
         request->change.has_slots ? SIMBA__SQL_APPLY_SLOTS : SIMBA__SQL_APPLY);
}

static void decide(struct simba__sql_request *request)
{
    struct simba__sql *self = request->self;
    struct simba__sql_record *record = &request->record;
    struct simba__mutex_record *mutex = &record->mutex;
    simba_request *asked = request->asked;
    struct simba__mutex_host host = {request, is_connected, wake_later};
    struct simba__mutex_request given = {
        .request = asked, .connection = 0, .now_ms = record->now_us / 1000};
    simba_error error;

    assert(record->peer_count > 0);
    if (asked->kind == SIMBA_HAND_OVER && !can_be_asked(record)) {
        simba_error_set(&error, SIMBA_EINVAL, 0,
                        "%s: '%s' owns it, which is of another implementation "
                        "and cannot be asked",
                        asked->mutex, mutex->owner.id);
        simba__sql_end(request, SIMBA_EINVAL, &error);
        return;
    }
    if (self->has_no_token && asked->slots > 1) {
        end_for_upgrade(request);
        return;
    }
    memcpy(record->peers[0].process, self->process, sizeof self->process);
    record->peers[0].can_notify = self->notify == SIMBA__SQL_NOTIFY_READY;
    request->change.wake_count = 0;
    find_dead_owner(request);
    simba__sql_jvm_look(request);
    if (!simba__mutex_serve(mutex, &host, &given, &asked->reply)) {
        simba__sql_end(request, SIMBA_ENOMEM, NULL);
        return;
    }
    simba__sql_jvm_align(request);
    if (asked->kind == SIMBA_RELEASE) {
        tell_of_room(request);
    }
    if (!simba__sql_change_find(&request->change, record, asked)) {
        simba__sql_end(request, SIMBA_ENOMEM, NULL);
        return;
    }
    if (self->has_no_token && asked->reply.mine &&
        mutex->owner.token != record->was.owner.token) {
        /* Where simba_mutex has no column for it, the token is the version that
         * the acquire leaves. */
        mutex->owner.token = mutex->last_token =
            (uint64_t)request->change.version;
        mutex->tenure_token = mutex->last_token;
        asked->reply.token = mutex->owner.token;
    }
    if (asked->kind == SIMBA_RELEASE) {
        self->has_queue[mark_of(request)] = record->was.queue_count > 0;
        simba__sql_count_offers(request, &self->offers[mark_of(request)]);
    }
    self->is_loud[mark_of(request)] = !record->is_quiet;
    self->is_shared[mark_of(request)] = record->is_jvm_seen;
    if (asked->reply.is_queued &&
        (self->notify == SIMBA__SQL_NOTIFY_NONE ||
         self->notify == SIMBA__SQL_NOTIFY_STARTING)) {
        simba__sql_park(request); /* no offer before we can hear of it */
    } else if (asked->kind == SIMBA_READ || !request->change.is_any) {
        fill_reply(request);
        simba__sql_end(request, SIMBA_OK, NULL);
    } else if (asked->kind == SIMBA_BREAK && asked->reply.mine &&
               !request->was_booked) {
        request->was_booked = true; /* no break without its audit */
        send(request, SIMBA__SQL_RECORD_BREAK);
    } else {
        send_change(request);
    }
}

/* --- loading and writing ------------------------------------------------- */

/* Who only looks makes nothing; nor does who breaks or asks for a hand-over,
 * before there is something to break or to ask. */
static bool is_looking(const struct simba__sql_request *request)
{
    enum simba_request_kind kind = request->asked->kind;

    return kind == SIMBA_READ || kind == SIMBA_LIST ||
           ((kind == SIMBA_BREAK || kind == SIMBA_HAND_OVER) &&
            request->statement != SIMBA__SQL_RECORD_BREAK &&
            request->statement != SIMBA__SQL_APPLY_SLOTS);
}

static void loaded(struct simba__sql_request *request,
                   const struct simba__sql_rows *rows)
{
    bool is_whole = request->statement == SIMBA__SQL_LOAD_ALL;
    enum simba__sql_loaded result;
    simba_error error;

    if (learn(request, rows)) {
        return;
    }
    result = simba__sql_record_load(&request->record, rows, request->asked);
    if (result == SIMBA__SQL_NO_MEMORY) {
        simba__sql_end(request, SIMBA_ENOMEM, NULL);
    } else if (result == SIMBA__SQL_NO_ROW && is_looking(request)) {
        simba__sql_end(request, SIMBA_OK, NULL);
    } else if (result == SIMBA__SQL_LOADED || result == SIMBA__SQL_IN_PART) {
        if (!is_whole &&
            (result == SIMBA__SQL_IN_PART || request->asked->want_queue)) {
            send(request, SIMBA__SQL_LOAD_ALL);
        } else if (request->record.has_slots) {
            send(request, SIMBA__SQL_LOAD_SLOTS);
        } else {
            decide(request);
        }
    } else if (!request->was_ensured) {
        request->was_ensured = true;
        send(request, SIMBA__SQL_INSERT_MUTEX);
    } else {
        /* A row that is there for the server's insert and not for our search
         * bears another name, which the server takes for the same (S14). */
        simba_error_set(&error, SIMBA_EMISCONFIG, 0,
                        "%s: simba_mutex does not tell this name from another: "
                        "its collation or its character set",
                        request->self->shown);
        simba__sql_end(request, SIMBA_EMISCONFIG, &error);
    }
}

/* It was offered the mutex, or is the first to have it. */
static bool is_next(const struct simba__sql_request *request)
{
    const struct simba__mutex_record *was = &request->record.was;
    simba_attempt mine = request->asked->attempt;

    return (was->is_offered &&
            simba__attempt_equal(was->offered.attempt, mine)) ||
           (was->queue_count > 0 &&
            simba__attempt_equal(was->queue[0].attempt, mine));
}

bool simba__sql_is_one_of_many(const struct simba__sql_request *request)
{
    return request->asked->kind == SIMBA_ACQUIRE && request->asked->join &&
           request->self->races_lost[mark_of(request)] > 0 && !is_next(request);
}

int64_t simba__sql_lose_race(const struct simba__sql_request *request)
{
    struct simba__sql *self = request->self;
    const simba_request *asked = request->asked;
    uint32_t mark = mark_of(request);
    int64_t now_ms = simba_loop_now_ms();
    int64_t most_ms = asked->ttl_ms + asked->transition_ms;
    int64_t wait_ms = 0;

    most_ms = most_ms < LATE_MOST_MS ? most_ms : LATE_MOST_MS;
    if (self->races_lost[mark] < RACES_MOST) {
        self->races_lost[mark]++;
    }
    if (self->races_lost[mark] > 1) {
        wait_ms = (now_ms - request->begun_ms + 1) << self->races_lost[mark];
        wait_ms = (int64_t)simba__rng_below(
            &self->rng, (uint64_t)(wait_ms < most_ms ? wait_ms : most_ms));
    }
    self->late_for = simba__fnv64(asked->mutex, strlen(asked->mutex));
    self->late_until_ms = now_ms + wait_ms;
    return wait_ms;
}

/* Somebody was faster. Once that may happen. But of hundreds who come at once
 * all but one would try in vain again and again, and be in the way of the
 * owners: so who is not the next to have it waits before it tries again, longer
 * each time, and the longer the slower the server is. If that is longer than
 * there is time, it is answered by what it has read, and has no position yet.
 */
static void try_again(struct simba__sql_request *request, bool is_decided)
{
    simba_request *asked = request->asked;
    int64_t now_ms = simba_loop_now_ms();
    int64_t left_ms = (asked->deadline_ms - now_ms) / 2;
    bool is_one_of_many = simba__sql_is_one_of_many(request);
    int64_t wait_ms = simba__sql_lose_race(request);

    request->is_written = false;
    if (!is_one_of_many) {
        send(request, SIMBA__SQL_LOAD);
        return;
    }
    if (wait_ms <= left_ms) {
        simba__sql_put_off(request, now_ms + wait_ms);
        return;
    }
    if (!is_decided || asked->reply.mine) { /* whose it is, we have not read */
        asked->reply = (simba_reply){.size = asked->reply.size,
                                     .owner = simba_owner_none(),
                                     .store_ms = request->record.now_us / 1000};
    } else {
        asked->reply.is_queued = asked->reply.is_head = false;
        fill_reply(request);
    }
    asked->reply.wait_ms = wait_ms;
    simba__sql_end(request, SIMBA_OK, NULL);
}

static void slots_loaded(struct simba__sql_request *request,
                         const struct simba__sql_rows *rows)
{
    enum simba__sql_loaded result;

    if (request->missing != count_missing(request->self)) {
        simba__sql_start(request); /* the rows lack what is known by now */
        return;
    }
    result = simba__sql_load_slots(request, rows);
    if (result == SIMBA__SQL_NO_MEMORY) {
        simba__sql_end(request, SIMBA_ENOMEM, NULL);
    } else if (result == SIMBA__SQL_NO_ROW) {
        try_again(request, false); /* it has changed since */
    } else {
        decide(request);
    }
}

/* One of ours is to hear of what was written. Who comes after one of another
 * process that was offered the mutex need not ask the server: it would be
 * answered what we know. */
static void wake_ours(const struct simba__sql_request *request)
{
    struct simba__sql *self = request->self;
    const struct simba__sql_record *record = &request->record;
    const struct simba__mutex_record *mutex = &record->mutex;
    bool is_known = mutex->is_offered && !simba__sql_is_jvm(&mutex->offered) &&
                    strcmp(record->peers[mutex->offered.connection].process,
                           self->process) != 0;

    simba__sql_wake_until(
        self, request->asked->mutex,
        is_known ? mutex->offered_until_ms - record->now_us / 1000 : 0);
}

static void applied(struct simba__sql_request *request,
                    const struct simba__sql_rows *rows)
{
    struct simba__sql *self = request->self;

    if (rows->count == 0) {
        try_again(request, true);
        return;
    }
    request->is_written = false;
    self->races_lost[mark_of(request)] = 0;
    self->late_until_ms = 0;
    self->was_primary = true;
    self->is_loud[mark_of(request)] = !request->change.is_quiet;
    fill_reply(request);
    /* Wake-ups to contenders of our own need no server. */
    for (size_t i = 0; i < request->change.wake_count; i++) {
        size_t peer = request->change.wakes[i];

        if (strcmp(request->record.peers[peer].process, self->process) == 0) {
            wake_ours(request);
        }
    }
    simba__sql_end(request, SIMBA_OK, NULL);
}

static void make_tables(struct simba__sql_request *request)
{
    request->was_created = true;
    request->was_booked = false;
    request->is_written = false;
    send(request, SIMBA__SQL_SCHEMA);
}

/* --- answers ------------------------------------------------------------- */

static void fine(struct simba__sql_request *request,
                 const struct simba__sql_rows *rows)
{
    simba_request *asked = request->asked;

    switch (request->statement) {
    case SIMBA__SQL_LOAD:
    case SIMBA__SQL_LOAD_ALL:
        loaded(request, rows);
        break;
    case SIMBA__SQL_LOAD_SLOTS:
        slots_loaded(request, rows);
        break;
    case SIMBA__SQL_APPLY:
    case SIMBA__SQL_APPLY_SLOTS:
        applied(request, rows);
        break;
    case SIMBA__SQL_RECORD_BREAK:
        if (request->missing != count_missing(request->self)) {
            send(request, SIMBA__SQL_LOAD);
        } else {
            send_change(request);
        }
        break;
    case SIMBA__SQL_INSERT_MUTEX:
        send(request, SIMBA__SQL_LOAD);
        break;
    case SIMBA__SQL_SCHEMA:
        if (asked->kind != SIMBA_INIT) {
            simba__sql_start(request);
        } else {
            send(request, asked->upgrade ? SIMBA__SQL_UPGRADE
                                         : SIMBA__SQL_DOCTOR_TABLES);
        }
        break;
    case SIMBA__SQL_LIST:
        if (simba__sql_lists_crowd(rows)) {
            send(request, SIMBA__SQL_LIST_SLOTS);
            break;
        }
        /* fall through */
    case SIMBA__SQL_LIST_SLOTS:
    case SIMBA__SQL_LIST_BARE:
        if (asked->kind == SIMBA_LIST) {
            simba__sql_add_list(request, rows);
        } else if (simba__sql_read_bare(request, rows) &&
                   asked->kind == SIMBA_BREAK) {
            asked->reply.owner.id[0] = '\0';
            make_tables(request);
            break;
        }
        simba__sql_end(request, SIMBA_OK, NULL);
        break;
    case SIMBA__SQL_DOCTOR:
        simba__sql_add_findings(request, rows);
        /* fall through */
    case SIMBA__SQL_UPGRADE:
        send(request, SIMBA__SQL_DOCTOR_TABLES);
        break;
    case SIMBA__SQL_TOLD:
    case SIMBA__SQL_BREAKS:
        simba__sql_add_notes(request, rows);
        /* fall through */
    case SIMBA__SQL_TELL:
        simba__sql_end(request, SIMBA_OK, NULL);
        break;
    case SIMBA__SQL_DOCTOR_TABLES:
        simba__sql_add_findings(request, rows);
        simba__sql_end(request, SIMBA_OK, NULL);
        break;
    case SIMBA__SQL_POLL:
    case SIMBA__SQL_HEARTBEAT:
        simba__sql_heartbeat_answered(request, rows);
        break;
    default:
        tried(request, rows);
        break;
    }
}

/* Does it leave simba_mutex alone? Then a column that it misses is one of
 * simba_told or simba_broken, which somebody else has made. */
static bool is_beside_mutex(enum simba__sql_statement statement)
{
    return statement == SIMBA__SQL_TELL || statement == SIMBA__SQL_TOLD ||
           statement == SIMBA__SQL_BREAKS ||
           statement == SIMBA__SQL_RECORD_BREAK;
}

void simba__sql_answered(struct simba__sql_session *session,
                         const struct simba__sql_result *result)
{
    struct simba__sql_request *request = session->request;
    struct simba__sql *self = session->self;
    simba_error error = result->error;
    int status = result->status;

    if (request == NULL) {
        if (simba__sql_is_overdue(session)) {
            simba_timer_clear(self->base.loop, &session->timer);
            session->state = SIMBA__SQL_IDLE;
            simba__sql_pump(self);
        }
        return;
    }
    switch (result->verdict) {
    case SIMBA__SQL_FINE:
        fine(request, &result->rows);
        return;
    case SIMBA__SQL_AGAIN:
        if (simba__sql_is_apply(request->statement)) {
            try_again(request, true);
        } else {
            send(request, request->statement);
        }
        return;
    case SIMBA__SQL_NO_COLUMN:
        if (strstr(error.message, ".slots") != NULL) {
            self->has_no_slots = true;
            self->look_for_slots_ms = simba_loop_now_ms() + LOOK_FOR_SLOTS_MS;
            if (wants_slots(request)) {
                end_for_upgrade(request);
            } else {
                simba__sql_start(request);
            }
            return;
        }
        if (is_beside_mutex(request->statement)) {
            break;
        }
        /* A column is missing in simba_mutex, if nothing more can be. If
         * another request has noted it since this one was sent, that is all:
         * what is there must not be taken for missing as well, or the versions
         * become tokens again (S4). */
        if (request->missing == count_missing(self)) {
            if (self->has_no_token) {
                break;
            }
            self->has_no_token = self->has_no_quiet;
            self->has_no_quiet = true;
        }
        simba__sql_start(request);
        return;
    case SIMBA__SQL_NO_TABLE:
        if (request->statement == SIMBA__SQL_LIST_BARE ||
            request->statement == SIMBA__SQL_TOLD ||
            request->statement == SIMBA__SQL_BREAKS) {
            simba__sql_end(request, SIMBA_OK, NULL); /* nobody ever had any */
            return;
        }
        if (!request->was_created) {
            if (is_looking(request)) {
                send(request, SIMBA__SQL_LIST_BARE);
            } else {
                make_tables(request);
            }
            return;
        }
        break;
    case SIMBA__SQL_READ_ONLY:
        /* A server that took changes before has stepped down: there will be
         * another, or it comes back. Who never did is not the one that is
         * meant. */
        error.code = self->was_primary ? SIMBA_EUNAVAIL : status;
        request->is_written = false;
        simba__sql_session_leave(self, &error);
        simba__sql_lost(session, error.code, &error);
        return;
    case SIMBA__SQL_REFUSED:
        break;
    }
    /* Who may use the tables need not be one who may make them. */
    if (request->statement == SIMBA__SQL_SCHEMA && status == SIMBA_EDENIED &&
        request->asked->kind != SIMBA_INIT) {
        status = simba_error_set(
            &error, SIMBA_ENOTINIT, error.native,
            "%s: no table simba_mutex, or not all that belong to it, and no "
            "right to make them: run `simba init` as somebody who may",
            self->shown);
    }
    simba__sql_end(request, status, &error);
}
