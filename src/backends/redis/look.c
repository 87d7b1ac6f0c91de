/* One look for many who wait: their backstops, as calls of the script look. A
 * cluster runs a script for the keys of one slot only, so there it is a call
 * for each slot. */
#include "backends/redis/redis.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEYS_OF_LOOK = 5,
    /* Of words: the command, the script, the number of keys, letters; of a
     * mutex its keys, waiter ms and number of ids; of an id it and its attempt.
     */
    WORDS_OF_CALL = 4,
    WORDS_OF_ONE = KEYS_OF_LOOK + 2 + 2,
    PREFIX = sizeof "simba:{" - 1,
    KEY_EXTRA = PREFIX + sizeof "}:contender",
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

/* --- words --------------------------------------------------------------- */

/* All words, pointers, lengths and texts, in one piece of memory. */
struct words {
    struct simba__redis_command command;
    const char **word;
    size_t *length;
    char *text; /* the next one to be made */
};

static bool words_init(struct words *words,
                       const simba_look *look,
                       size_t count)
{
    size_t most = WORDS_OF_CALL + count * WORDS_OF_ONE, bytes = 0;
    char *memory;

    for (size_t i = 0; i < count; i++) {
        bytes += KEYS_OF_LOOK * (strlen(look[i].mutex) + KEY_EXTRA) +
                 SIMBA__REDIS_ATTEMPT + 1 + (size_t)2 * SIMBA__REDIS_DIGITS;
    }
    memory =
        malloc(most * (sizeof *words->word + sizeof *words->length) + bytes);
    if (memory == NULL) {
        return false;
    }
    words->word = (const char **)(void *)memory;
    words->length = (size_t *)(void *)(words->word + most);
    words->text = (char *)(words->length + most);
    words->command =
        (struct simba__redis_command){0, words->word, words->length};
    return true;
}

static void add(struct words *words, const char *text, size_t length)
{
    words->word[words->command.count] = text;
    words->length[words->command.count++] = length;
}

static void add_made(struct words *words, size_t length)
{
    add(words, words->text, length);
    words->text += length + 1;
}

static void add_number(struct words *words, uint64_t number)
{
    add_made(words, simba__redis_put_number(words->text, number));
}

static void add_keys(struct words *words, const char *mutex)
{
    static const char *const endings[KEYS_OF_LOOK] = {
        "}", "}:tenure", "}:contender", "}:waiters", "}:attempts"};
    size_t length = strlen(mutex);

    for (int i = 0; i < KEYS_OF_LOOK; i++) {
        size_t ending = strlen(endings[i]);

        memcpy(words->text, "simba:{", PREFIX);
        memcpy(words->text + PREFIX, mutex, length);
        memcpy(words->text + PREFIX + length, endings[i], ending + 1);
        add_made(words, PREFIX + length + ending);
    }
}

/* How many from here on are of one mutex, and ask for the same. */
static size_t count_of(const simba_look *look, size_t count)
{
    size_t same = 1;

    while (same < count && look[same].waiter_ms == look[0].waiter_ms &&
           strcmp(look[same].mutex, look[0].mutex) == 0) {
        same++;
    }
    return same;
}

static void add_looks(struct words *words, struct call *call)
{
    const simba_look *look = call->looking->looks->look + call->first;
    size_t same;

    for (size_t i = 0; i < call->count; i += same) {
        same = count_of(look + i, call->count - i);
        call->is_first[i] = true;
        add_keys(words, look[i].mutex);
    }
    add(words, simba__redis_letters(call->looking->store),
        strlen(simba__redis_letters(call->looking->store)));
    for (size_t i = 0; i < call->count; i++) {
        if (call->is_first[i]) {
            add_number(words, (uint64_t)look[i].waiter_ms);
            add_number(words, count_of(look + i, call->count - i));
        }
        add(words, look[i].id, strlen(look[i].id));
        simba__redis_attempt_text(&look[i].attempt, words->text);
        add_made(words, SIMBA__REDIS_ATTEMPT);
    }
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

/* A text of numbers. What it lacks is read as 0 and asks for itself. */
static void read_text(const struct call *call, const char *text)
{
    simba_look *look = call->looking->looks->look + call->first;
    struct simba__redis_seen seen = {.left_ms = IS_FREE};
    bool is_asked = false;
    char *at = (char *)(uintptr_t)text;

    for (size_t i = 0; i < call->count && *at != '\0'; i++) {
        int64_t place;

        if (call->is_first[i]) {
            seen.left_ms = strtoll(at, &at, 10);
            seen.token = strtoull(at, &at, 10);
            seen.lease_ms = strtoll(at, &at, 10);
            seen.renewals = strtoull(at, &at, 10);
            is_asked = false;
        }
        place = *at == '\0' ? -1 : strtoll(at, &at, 10);
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
    const struct simba__redis_script *script =
        simba__redis_script(SIMBA__REDIS_LOOK);
    struct words words;
    size_t mutexes = 0;
    char keys[SIMBA__REDIS_DIGITS];
    bool is_sent;

    if (!words_init(&words, call->looking->looks->look + call->first,
                    call->count)) {
        return false;
    }
    if (server->knows_look) {
        add(&words, "EVALSHA", 7);
        add(&words, script->sha, sizeof script->sha - 1);
    } else {
        add(&words, "EVAL", 4);
        add(&words, script->text, script->length);
    }
    add(&words, keys, 0);
    add_looks(&words, call);
    for (size_t i = 0; i < call->count; i++) {
        mutexes += call->is_first[i];
    }
    words.length[2] = simba__redis_put_number(keys, mutexes * KEYS_OF_LOOK);
    is_sent =
        simba__redis_send(&server->command, &words.command, &call->pending);
    free((void *)words.word);
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

/* How many from here on go into one call. */
static size_t count_together(const struct looking *looking, size_t first)
{
    const simba_looks *looks = looking->looks;
    size_t count = looks->count - first;

    if (looking->store->cluster != NULL) {
        unsigned slot = simba__redis_slot_of(looks->look[first].mutex);

        count = 1;
        while (first + count < looks->count &&
               simba__redis_slot_of(looks->look[first + count].mutex) == slot) {
            count++;
        }
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
