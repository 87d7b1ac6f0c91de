/* One look for many who wait: their backstops, as calls of the script look. A
 * cluster runs a script for the keys of one slot only, so there it is a call
 * for each slot. */
#include "backends/redis/redis.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* The command, the script, the number of keys; letters, waiter ms. */
    WORDS_OF_CALL = 5,
    /* Its lease key; its attempt and id. */
    WORDS_OF_ONE = 2,
    PREFIX = sizeof "simba:{" - 1,
    /* The mutex is free, and another of the same queue asks. */
    LATE_MS = 1000,
};

/* What the script tells of a mutex that it is not owned by one of ours. */
enum { IS_FREE = -1 };

/* All calls for one look. */
struct looking {
    struct simba__redis *store;
    simba_looks *looks;
    int open; /* replies awaited, and whoever still sends */
};

/* One call: for `count` of them. */
struct call {
    struct simba__redis_pending pending;
    struct looking *looking;
    simba_timer silence;
    size_t first, count;
    bool is_first[]; /* of its mutex: names may go meanwhile */
};

static void close_looking(struct looking *looking)
{
    if (--looking->open == 0) {
        simba_looks_done(looking->looks);
        free(looking);
    }
}

/* --- the command --------------------------------------------------------- */

/* How many bytes it takes at most. */
static size_t room_of(const simba_look *look, size_t count, size_t script)
{
    size_t room =
        (WORDS_OF_CALL + WORDS_OF_ONE * count + 1) * SIMBA__REDIS_WORD_EXTRA +
        script + (size_t)SIMBA__REDIS_DIGITS * WORDS_OF_CALL;

    for (size_t i = 0; i < count; i++) {
        room += PREFIX + strlen(look[i].mutex) + 1 + SIMBA__REDIS_ATTEMPT +
                strlen(look[i].id);
    }
    return room;
}

static char *put_number(char *at, uint64_t number)
{
    char digits[SIMBA__REDIS_DIGITS];

    return simba__redis_put_word(at, digits,
                                 simba__redis_put_number(digits, number));
}

static char *put_bytes(char *at, const char *bytes, size_t length)
{
    memcpy(at, bytes, length);
    return at + length;
}

static char *put_key(char *at, const char *mutex)
{
    size_t length = strlen(mutex);

    at = simba__redis_put_count(at, '$', PREFIX + length + 1);
    at = put_bytes(at, "simba:{", PREFIX);
    at = put_bytes(at, mutex, length);
    return put_bytes(at, "}\r\n", 3);
}

static char *put_waiter(char *at, const simba_look *look)
{
    size_t length = strlen(look->id);

    at = simba__redis_put_count(at, '$', SIMBA__REDIS_ATTEMPT + length);
    simba__redis_attempt_text(&look->attempt, at);
    at = put_bytes(at + SIMBA__REDIS_ATTEMPT, look->id, length);
    return put_bytes(at, "\r\n", 2);
}

/* There may be a hundred thousand who wait: this is written into one piece, and
 * not put together from words. */
static size_t put_call(char *text, struct call *call, bool is_known)
{
    const struct simba__redis_script *script =
        simba__redis_script(SIMBA__REDIS_LOOK);
    const char *letters = simba__redis_letters(call->looking->store);
    const simba_look *look = call->looking->looks->look + call->first;
    char *at = simba__redis_put_count(
        text, '*', WORDS_OF_CALL + WORDS_OF_ONE * call->count);

    at = is_known ? simba__redis_put_word(at, "EVALSHA", 7)
                  : simba__redis_put_word(at, "EVAL", 4);
    at = is_known
             ? simba__redis_put_word(at, script->sha, sizeof script->sha - 1)
             : simba__redis_put_word(at, script->text, script->length);
    at = put_number(at, call->count);
    for (size_t i = 0; i < call->count; i++) {
        call->is_first[i] =
            i == 0 || strcmp(look[i].mutex, look[i - 1].mutex) != 0;
        at = put_key(at, look[i].mutex);
    }
    at = simba__redis_put_word(at, letters, strlen(letters));
    at = put_number(at, (uint64_t)look[0].waiter_ms);
    for (size_t i = 0; i < call->count; i++) {
        at = put_waiter(at, &look[i]);
    }
    return (size_t)(at - text);
}

/* --- replies ------------------------------------------------------------- */

/* What is read of one of them. */
static void answer(const struct call *call,
                   simba_look *look,
                   const struct simba__redis_seen *seen,
                   bool is_asked)
{
    if (look->mutex == NULL) {
        return;
    }
    if (seen->left_ms >= 0) {
        look->wait_ms =
            simba__redis_sight_again(call->looking->store, look->mutex, seen);
    } else if (seen->left_ms == IS_FREE && is_asked) {
        look->wait_ms = LATE_MS;
    }
}

/* The next number of a text, or 0 at its end. */
static int64_t read_number(const char **text)
{
    const char *at = *text;
    bool is_negative;
    uint64_t number = 0;

    while (*at == ' ') {
        at++;
    }
    is_negative = *at == '-';
    at += is_negative;
    while (*at >= '0' && *at <= '9') {
        number = number * 10 + (uint64_t)(*at++ - '0');
    }
    *text = at;
    return is_negative ? -(int64_t)(number & INT64_MAX)
                       : (int64_t)(number & INT64_MAX);
}

/* A text of numbers. What it lacks asks for itself. */
static void read_text(const struct call *call, const char *text)
{
    simba_look *look = call->looking->looks->look + call->first;
    struct simba__redis_seen seen = {.left_ms = IS_FREE};
    bool is_asked = false;

    for (size_t i = 0; i < call->count && *text != '\0'; i++) {
        int64_t place;

        if (call->is_first[i]) {
            seen.left_ms = read_number(&text);
            seen.token = (uint64_t)read_number(&text);
            seen.lease_ms = read_number(&text);
            seen.renewals = (uint64_t)read_number(&text);
            is_asked = false;
        }
        place = *text == '\0' ? -1 : read_number(&text);
        if (place >= 0) {
            answer(call, &look[i], &seen, is_asked);
            look[i].is_head = place > 0;
        }
        is_asked |= look[i].mutex != NULL && look[i].wait_ms < 0;
    }
}

static void on_reply(struct simba__redis_connection *conn,
                     struct simba__redis_pending *pending,
                     const redisReply *reply)
{
    struct call *call = container_of(pending, struct call, pending);

    simba_timer_clear(conn->store->base.loop, &call->silence);
    if (reply != NULL && reply->type == REDIS_REPLY_STRING) {
        read_text(call, reply->str);
    } else { /* it may have forgotten the script, or keep the slot no more */
        conn->server->knows_look = false;
    }
    close_looking(call->looking);
    free(call);
}

/* Other requests see to a server that is silent; there may be none. */
static void on_silence(simba_timer *timer)
{
    struct call *call = container_of(timer, struct call, silence);
    struct simba__redis_connection *conn = call->pending.conn;

    simba_timer_set(conn->store->base.loop, timer,
                    simba_loop_now_ms() + SIMBA__REDIS_SILENCE_MS);
    simba__redis_check_silence(conn);
}

/* --- calls --------------------------------------------------------------- */

static bool send(struct call *call, struct simba__redis_server *server)
{
    const simba_look *look = call->looking->looks->look + call->first;
    bool is_known = server->knows_look;
    char *text = malloc(
        room_of(look, call->count,
                is_known ? 0 : simba__redis_script(SIMBA__REDIS_LOOK)->length));
    bool is_sent;

    if (text == NULL) {
        return false;
    }
    is_sent = simba__redis_send_text(
        &server->command, text, put_call(text, call, is_known), &call->pending);
    free(text);
    server->knows_look |= is_sent;
    return is_sent;
}

/* For those from `first` on, of one server. */
static void start_call(struct looking *looking, size_t first, size_t count)
{
    struct simba__redis_server *server = simba__redis_server_of(
        looking->store, looking->looks->look[first].mutex);
    struct call *call;

    if (server == NULL || server->command.state != SIMBA__REDIS_READY ||
        server->subscriber.state != SIMBA__REDIS_READY) {
        return; /* they ask for themselves */
    }
    call = calloc(1, sizeof *call + count);
    if (call == NULL) {
        return;
    }
    call->looking = looking;
    call->first = first;
    call->count = count;
    call->pending.replied = on_reply;
    call->silence.fire = on_silence;
    looking->open++;
    if (!send(call, server)) {
        looking->open--;
        free(call);
        return;
    }
    simba_timer_set(looking->store->base.loop, &call->silence,
                    simba_loop_now_ms() + SIMBA__REDIS_SILENCE_MS);
}

/* How many from here on go into one call: those with one waiter lease, and in a
 * cluster of one slot. */
static size_t count_together(const struct looking *looking, size_t first)
{
    const simba_look *look = looking->looks->look + first;
    size_t left = looking->looks->count - first, count = 1;
    bool is_cluster = looking->store->cluster != NULL;
    unsigned slot = is_cluster ? simba__redis_slot_of(look->mutex) : 0;

    while (count < left && look[count].waiter_ms == look->waiter_ms &&
           (!is_cluster || simba__redis_slot_of(look[count].mutex) == slot)) {
        count++;
    }
    return count;
}

void simba__redis_look(simba_backend *self, simba_looks *looks)
{
    struct looking *looking = malloc(sizeof *looking);
    size_t count;

    if (looking == NULL) {
        simba_looks_done(looks);
        return;
    }
    *looking = (struct looking){(struct simba__redis *)self, looks, 1};
    for (size_t i = 0; i < looks->count; i += count) {
        count = count_together(looking, i);
        start_call(looking, i, count);
    }
    close_looking(looking);
}
