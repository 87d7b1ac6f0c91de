/* The scripts, the keys of a mutex, and the cluster's slot they are in.
 * scripts.lua says what the scripts do. */
#include "backends/redis/redis.h"

#include "backends/redis/scripts_lua.h" /* made from scripts.lua */

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct simba__redis_script scripts[SIMBA__REDIS_SCRIPTS] = {
    [SIMBA__REDIS_ACQUIRE] = {.own = SIMBA__REDIS_LUA_ACQUIRE,
                              .rest = SIMBA__REDIS_LUA_ACQUIRE_DECISION},
    [SIMBA__REDIS_RENEW] = {.own = SIMBA__REDIS_LUA_RENEW},
    [SIMBA__REDIS_RELEASE] = {.own = SIMBA__REDIS_LUA_RELEASE},
    [SIMBA__REDIS_READ] = {.own = SIMBA__REDIS_LUA_READ},
    [SIMBA__REDIS_BREAK] = {.own = SIMBA__REDIS_LUA_BREAK},
    [SIMBA__REDIS_DOCTOR] = {.own = SIMBA__REDIS_LUA_DOCTOR},
};

/* Redis knows a script by the SHA-1 of its text. */
static void make_scripts(void)
{
    for (int i = 0; i < SIMBA__REDIS_SCRIPTS; i++) {
        struct simba__redis_script *script = &scripts[i];

        script->length = (size_t)snprintf(
            script->text, sizeof script->text, "%s%s%s%s%s%s",
            SIMBA__REDIS_LUA_COMMON, SIMBA__REDIS_LUA_QUEUE,
            SIMBA__REDIS_LUA_OFFER, SIMBA__REDIS_LUA_TENURE, script->own,
            script->rest == NULL ? "" : script->rest);
        assert(script->length < sizeof script->text);
        simba__sha1(script->text, script->length, script->sha);
    }
}

const struct simba__redis_script *simba__redis_scripts(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_scripts);
    return scripts;
}

void simba__redis_attempt_text(const simba_attempt *attempt,
                               char text[SIMBA__REDIS_ATTEMPT + 1])
{
    snprintf(text, SIMBA__REDIS_ATTEMPT + 1, "%016" PRIx64 "%016" PRIx64,
             attempt->high, attempt->low);
}

/* Which of the keys ends with an attempt. */
enum { TOMBSTONE = 3 };

void simba__redis_keys_init(struct simba__redis_keys *keys,
                            const char *mutex,
                            const simba_attempt *attempt)
{
    const char *endings[SIMBA__REDIS_KEYS] = {
        "",       ":tenure",    ":next",    ":undone:", ":token",
        ":fence", ":contender", ":waiters", ":attempts"};
    char base[SIMBA__REDIS_KEY_MAX];
    size_t base_length =
        (size_t)snprintf(base, sizeof base, "simba:{%s}", mutex);

    if (attempt == NULL) {
        endings[TOMBSTONE] = ":broken";
    }
    for (int i = 0; i < SIMBA__REDIS_KEYS; i++) {
        size_t length = strlen(endings[i]);

        memcpy(keys->text[i], base, base_length);
        memcpy(keys->text[i] + base_length, endings[i], length + 1);
        keys->length[i] = base_length + length;
    }
    if (attempt != NULL) {
        simba__redis_attempt_text(attempt, keys->text[TOMBSTONE] +
                                               keys->length[TOMBSTONE]);
        keys->length[TOMBSTONE] += SIMBA__REDIS_ATTEMPT;
    }
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
