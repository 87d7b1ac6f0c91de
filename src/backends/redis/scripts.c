/* The scripts, the keys of a mutex, the cluster's slot they are in, and how a
 * script is called. scripts.lua, crowd.lua and look.lua say what they do. */
#include "backends/redis/redis.h"

#include "backends/redis/crowd_lua.h"   /* made from crowd.lua */
#include "backends/redis/look_lua.h"    /* made from look.lua */
#include "backends/redis/scripts_lua.h" /* made from scripts.lua */

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What stands before QUEUE is done without its functions, which would be made
 * each time. */
#define QUEUE                                                                  \
    SIMBA__REDIS_LUA_QUEUE, SIMBA__REDIS_LUA_JVM, SIMBA__REDIS_LUA_OFFER

static struct simba__redis_script scripts[SIMBA__REDIS_SCRIPTS] = {
    [SIMBA__REDIS_ACQUIRE] =
        {.own = {SIMBA__REDIS_LUA_GRANT, SIMBA__REDIS_LUA_ACQUIRE_ALONE,
                 SIMBA__REDIS_LUA_ACQUIRE_OFFERED, SIMBA__REDIS_LUA_HAND, QUEUE,
                 SIMBA__REDIS_LUA_EXTEND, SIMBA__REDIS_LUA_ACQUIRE,
                 SIMBA__REDIS_LUA_ACQUIRE_BEGIN, SIMBA__REDIS_LUA_SETTLE,
                 SIMBA__REDIS_LUA_ACQUIRE_DECISION}},
    [SIMBA__REDIS_RENEW] = {.own = {SIMBA__REDIS_LUA_EXTEND,
                                    SIMBA__REDIS_LUA_RENEW}},
    [SIMBA__REDIS_RELEASE] = {.own = {SIMBA__REDIS_LUA_RELEASE_ALONE,
                                      SIMBA__REDIS_LUA_HAND,
                                      SIMBA__REDIS_LUA_RELEASE_TO_OURS, QUEUE,
                                      SIMBA__REDIS_LUA_RELEASE}},
    [SIMBA__REDIS_READ] = {.own = {SIMBA__REDIS_LUA_MEMBERS,
                                   SIMBA__REDIS_LUA_READ}},
    [SIMBA__REDIS_BREAK] = {.own = {SIMBA__REDIS_LUA_HAND, QUEUE,
                                    SIMBA__REDIS_LUA_MEMBERS,
                                    SIMBA__REDIS_LUA_BREAK}},
    [SIMBA__REDIS_CROWD] =
        {.own = {SIMBA__REDIS_LUA_EXTEND, SIMBA__REDIS_LUA_GRANT,
                 SIMBA__REDIS_LUA_HAND, QUEUE, SIMBA__REDIS_LUA_ACQUIRE,
                 SIMBA__REDIS_LUA_CROWD_BEGIN, SIMBA__REDIS_LUA_SETTLE,
                 SIMBA__REDIS_LUA_MEMBERS, SIMBA__REDIS_LUA_CROWD,
                 SIMBA__REDIS_LUA_CROWD_OFFER, SIMBA__REDIS_LUA_CROWD_CLAIM,
                 SIMBA__REDIS_LUA_CROWD_RENEW, SIMBA__REDIS_LUA_CROWD_END}},
    [SIMBA__REDIS_LOOK] = {.own = {SIMBA__REDIS_LUA_LOOK}},
    [SIMBA__REDIS_NOTES] = {.own = {SIMBA__REDIS_LUA_NOTES}},
    [SIMBA__REDIS_DOCTOR] = {.own = {SIMBA__REDIS_LUA_DOCTOR}},
};

/* Redis knows a script by the SHA-1 of its text. */
static void make_script(struct simba__redis_script *script)
{
    script->length =
        (size_t)snprintf(script->text, sizeof script->text, "%s%s",
                         SIMBA__REDIS_LUA_COMMON, SIMBA__REDIS_LUA_TENURE);
    for (int i = 0; i < SIMBA__REDIS_SECTIONS && script->own[i] != NULL; i++) {
        script->length += (size_t)snprintf(script->text + script->length,
                                           sizeof script->text - script->length,
                                           "%s", script->own[i]);
        assert(script->length < sizeof script->text);
    }
    simba__sha1(script->text, script->length, script->sha);
    atomic_store_explicit(&script->is_made, true, memory_order_release);
}

/* Made when it is first wanted: a command that runs for milliseconds wants two
 * of them, and hashing all would be a tenth of what it takes. */
const struct simba__redis_script *simba__redis_script(
    enum simba__redis_script_name name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct simba__redis_script *script = &scripts[name];

    if (!atomic_load_explicit(&script->is_made, memory_order_acquire)) {
        pthread_mutex_lock(&lock);
        if (!atomic_load_explicit(&script->is_made, memory_order_relaxed)) {
            make_script(script);
        }
        pthread_mutex_unlock(&lock);
    }
    return script;
}

void simba__redis_attempt_text(const simba_attempt *attempt,
                               char text[SIMBA__REDIS_ATTEMPT + 1])
{
    static const char digits[] = "0123456789abcdef";
    enum { HALF = SIMBA__REDIS_ATTEMPT / 2 };

    for (int i = 0; i < HALF; i++) {
        int shift = 4 * (HALF - 1 - i);

        text[i] = digits[attempt->high >> shift & 15];
        text[HALF + i] = digits[attempt->low >> shift & 15];
    }
    text[SIMBA__REDIS_ATTEMPT] = '\0';
}

/* Which of the keys ends with an attempt. */
enum { TOMBSTONE = 3 };

void simba__redis_keys_init(struct simba__redis_keys *keys,
                            const char *mutex,
                            const simba_attempt *attempt)
{
    const char *endings[SIMBA__REDIS_KEYS] = {
        "",       ":tenure",    ":next",    ":undone:",  ":token",
        ":fence", ":contender", ":waiters", ":attempts", ":owners"};
    char base[SIMBA__REDIS_KEY_MAX];
    size_t base_length =
        (size_t)snprintf(base, sizeof base, "simba:{%s}", mutex);

    if (attempt == NULL) {
        endings[TOMBSTONE] = ":broken";
    }
    for (int i = 0; i < SIMBA__REDIS_KEYS; i++) {
        /* It is filled here, and only its address is taken. */
        /* cppcheck-suppress uninitvar */
        char *text = keys->text[i];
        size_t length = strlen(endings[i]);

        memcpy(text, base, base_length);
        memcpy(text + base_length, endings[i], length + 1);
        keys->length[i] = base_length + length;
    }
    if (attempt != NULL) {
        simba__redis_attempt_text(attempt, keys->text[TOMBSTONE] +
                                               keys->length[TOMBSTONE]);
        keys->length[TOMBSTONE] += SIMBA__REDIS_ATTEMPT;
    }
}

void simba__redis_keys_of_notes(struct simba__redis_keys *keys,
                                const char *mutex,
                                enum simba_request_kind kind)
{
    simba__redis_keys_init(keys, mutex, NULL);
    if (kind != SIMBA_BREAKS) {
        size_t base = keys->length[TOMBSTONE] - strlen(":broken");

        memcpy(keys->text[TOMBSTONE] + base, ":who", sizeof ":who");
        keys->length[TOMBSTONE] = base + strlen(":who");
    }
}

const char *simba__redis_notes_verb(enum simba_request_kind kind)
{
    return kind == SIMBA_TELL ? "tell" : kind == SIMBA_TOLD ? "told" : "breaks";
}

/* CRC-16 (XMODEM) of the hash tag, as the cluster specification has it. The
 * keys begin with "simba:{mutex}"; the tag ends at the first "}", which a mutex
 * may contain but not begin with. */
unsigned simba__redis_slot_of(const char *mutex)
{
    size_t length = strcspn(mutex, "}");
    unsigned crc = 0;

    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned)(unsigned char)mutex[i] << 8;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 0x8000U) != 0 ? crc << 1 ^ 0x1021U : crc << 1;
        }
        crc &= 0xffffU;
    }
    return crc % SIMBA__REDIS_SLOTS;
}

/* --- a call of a script --------------------------------------------------- */

enum { ARGUMENTS_MOST = 16 };
static_assert((int)SIMBA__REDIS_STILL > (int)SIMBA__REDIS_ATTEMPT, "too short");

/* The words of a command that runs a script. */
struct words {
    struct simba__redis_command command;
    const char *word[3 + SIMBA__REDIS_KEYS + ARGUMENTS_MOST];
    size_t length[3 + SIMBA__REDIS_KEYS + ARGUMENTS_MOST];
    char texts[ARGUMENTS_MOST][SIMBA__REDIS_STILL]; /* were no text before: the
                                                     * longest is that of a
                                                     * tenure, or an attempt */
    int text_count;
};

static void add_word(struct words *words, const char *word, size_t length)
{
    assert((size_t)words->command.count <
           sizeof words->length / sizeof(size_t));
    words->word[words->command.count] = word;
    words->length[words->command.count++] = length;
}

/* Times, positions and tokens: none is below 0. */
static void add_number(struct words *words, int64_t value)
{
    char *text = words->texts[words->text_count++];

    add_word(words, text, simba__redis_put_number(text, (uint64_t)value));
}

const char *simba__redis_letters(const struct simba__redis *store)
{
    static const char *const letters[2][2] = {{"", "j"}, {"c", "cj"}};

    return letters[store->settings.shape == SIMBA__REDIS_CLUSTER]
                  [store->settings.is_jvm_expected];
}

static void add_text(struct words *words, const char *text)
{
    add_word(words, text == NULL ? "" : text, text == NULL ? 0 : strlen(text));
}

/* The arguments of acquire, and with `is_all` each of them. */
static void add_claim(struct words *words,
                      struct simba__redis_request *r,
                      bool is_all)
{
    const simba_request *request = r->request;
    char *still = words->texts[words->text_count++];

    add_number(words, request->ttl_ms + request->transition_ms);
    add_number(words, request->transition_ms);
    add_number(words, r->is_joining ? request->waiter_ms : 0);
    add_number(words, (int64_t)(request->position != 0 ? request->position
                                                       : r->position));
    r->is_ending = r->is_joining &&
                   simba__redis_still_tenure(r->store, request->mutex, still);
    if (request->token_above != 0) {
        add_number(words, (int64_t)request->token_above);
    } else if (r->is_ending || is_all) {
        add_text(words, NULL);
    }
    if (r->is_ending || is_all) {
        add_text(words, r->is_ending ? still : NULL);
    }
}

/* The script crowd does what any other does. */
static void add_verb(struct words *words, struct simba__redis_request *r)
{
    static const char *const verbs[] = {
        [SIMBA_ACQUIRE] = "acquire", [SIMBA_RENEW] = "renew",
        [SIMBA_RELEASE] = "release", [SIMBA_LEAVE] = "release",
        [SIMBA_BREAK] = "break",     [SIMBA_HAND_OVER] = "hand_over"};
    const simba_request *request = r->request;
    bool is_admin =
        request->kind == SIMBA_BREAK || request->kind == SIMBA_HAND_OVER;
    char *slots = words->texts[words->text_count++];

    add_claim(words, r, true);
    slots[0] = '\0';
    if (request->slots > 1) {
        snprintf(slots, sizeof words->texts[0], ":%" PRIu32, request->slots);
    }
    add_text(words, slots);
    add_text(words, r->granted != 0 ? "release" : verbs[request->kind]);
    add_number(words, request->tombstone_ms);
    add_number(words, (int64_t)(is_admin ? request->token : r->granted));
    add_text(words, request->to);
    add_number(words, request->now ? 1 : 0);
    add_text(words, request->reason);
}

bool simba__redis_send_script(struct simba__redis_request *r,
                              struct simba__redis_connection *conn)
{
    const struct simba__redis_script *script = simba__redis_script(r->script);
    const simba_request *request = r->request;
    const char *command = r->sends_text ? "EVAL" : "EVALSHA";
    bool is_break = request->kind == SIMBA_BREAK;
    bool is_of_one = r->script == SIMBA__REDIS_ACQUIRE ||
                     r->script == SIMBA__REDIS_RENEW ||
                     r->script == SIMBA__REDIS_RELEASE;
    struct simba__redis_keys keys;
    struct words words;

    words.command = (struct simba__redis_command){0, words.word, words.length};
    words.text_count = 0;
    add_word(&words, command, strlen(command));
    if (r->sends_text) {
        add_word(&words, script->text, script->length);
    } else {
        add_word(&words, script->sha, sizeof script->sha - 1);
    }
    add_text(&words, is_of_one ? "9" : "10");
    if (r->script == SIMBA__REDIS_NOTES) {
        simba__redis_keys_of_notes(&keys, request->mutex, request->kind);
    } else {
        simba__redis_keys_init(&keys, request->mutex,
                               is_break ? NULL : &request->attempt);
    }
    for (int i = 0;
         i < (is_of_one ? SIMBA__REDIS_KEYS_OF_ONE : SIMBA__REDIS_KEYS); i++) {
        add_word(&words, keys.text[i], keys.length[i]);
    }
    add_text(&words, simba__redis_letters(r->store));
    if (is_of_one || r->script == SIMBA__REDIS_CROWD) {
        char *attempt = words.texts[words.text_count++];

        simba__redis_attempt_text(&request->attempt, attempt);
        add_text(&words, request->id);
        add_word(&words, attempt, SIMBA__REDIS_ATTEMPT);
    }
    switch (r->script) {
    case SIMBA__REDIS_ACQUIRE:
        add_claim(&words, r, false);
        break;
    case SIMBA__REDIS_CROWD:
        add_verb(&words, r);
        break;
    case SIMBA__REDIS_RENEW:
        add_number(&words, request->ttl_ms + request->transition_ms);
        break;
    case SIMBA__REDIS_RELEASE:
        add_number(&words, request->tombstone_ms);
        if (r->granted != 0) {
            add_number(&words, (int64_t)r->granted);
        } else if (request->to != NULL) {
            add_text(&words, NULL);
            add_text(&words, request->to);
        }
        break;
    case SIMBA__REDIS_READ:
        add_number(&words, request->want_queue ? 1 : 0);
        break;
    case SIMBA__REDIS_NOTES:
        add_text(&words, request->mutex);
        add_text(&words, simba__redis_notes_verb(request->kind));
        add_number(&words, (int64_t)request->token);
        add_number(&words, request->ttl_ms + request->transition_ms);
        add_text(&words, request->reason);
        break;
    default:
        add_number(&words, (int64_t)request->token);
        add_number(&words, request->now ? 1 : 0);
        add_text(&words, request->reason);
        break;
    }
    return simba__redis_send(conn, &words.command, &r->pending);
}
