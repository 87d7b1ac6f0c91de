/* The scripts, and the keys of a mutex; see script.h. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include "backends/redis/lua.h" /* made from the .lua files */

#include <openssl/evp.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#define SCRIPT(name)                                                           \
    {                                                                          \
        .text = simba__redis_lua_##name,                                       \
        .length = sizeof simba__redis_lua_##name - 1                           \
    }

static struct simba__redis_script scripts[SIMBA__REDIS_SCRIPTS] = {
    [SIMBA__REDIS_ACQUIRE] = SCRIPT(acquire),
    [SIMBA__REDIS_RENEW] = SCRIPT(renew),
    [SIMBA__REDIS_RELEASE] = SCRIPT(release),
    [SIMBA__REDIS_READ] = SCRIPT(read),
    [SIMBA__REDIS_BREAK] = SCRIPT(break),
    [SIMBA__REDIS_DOCTOR] = SCRIPT(doctor),
};

/* Redis knows a script by the SHA-1 of its text. */
static void name_scripts(void)
{
    for (int i = 0; i < SIMBA__REDIS_SCRIPTS; i++) {
        unsigned char digest[EVP_MAX_MD_SIZE];
        unsigned int length = 0;

        EVP_Digest(scripts[i].text, scripts[i].length, digest, &length,
                   EVP_sha1(), NULL);
        for (unsigned int j = 0; j < length && j < 20; j++) {
            snprintf(scripts[i].sha + (size_t)j * 2, 3, "%02x", digest[j]);
        }
    }
}

const struct simba__redis_script *simba__redis_scripts(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, name_scripts);
    return scripts;
}

void simba__redis_attempt_text(const simba_attempt *attempt,
                               char text[SIMBA__REDIS_ATTEMPT + 1])
{
    snprintf(text, SIMBA__REDIS_ATTEMPT + 1, "%016" PRIx64 "%016" PRIx64,
             attempt->high, attempt->low);
}

/* Which of the keys ends with an attempt. */
enum { TOMB = 3 };

void simba__redis_keys_init(struct simba__redis_keys *keys,
                            const char *mutex,
                            const simba_attempt *attempt)
{
    static const char *const endings[SIMBA__REDIS_KEYS] = {
        "",       ":tenure",    ":next",    ":undone:", ":token",
        ":fence", ":contender", ":waiters", ":attempts"};
    char base[SIMBA__REDIS_KEY_MAX];
    size_t base_length =
        (size_t)snprintf(base, sizeof base, "simba:{%s}", mutex);

    for (int i = 0; i < SIMBA__REDIS_KEYS; i++) {
        size_t length = strlen(endings[i]);

        memcpy(keys->text[i], base, base_length);
        memcpy(keys->text[i] + base_length, endings[i], length + 1);
        keys->length[i] = base_length + length;
    }
    simba__redis_attempt_text(attempt, keys->text[TOMB] + keys->length[TOMB]);
    keys->length[TOMB] += SIMBA__REDIS_ATTEMPT;
}

void simba__redis_keys_take_book(struct simba__redis_keys *keys)
{
    static const char ending[] = ":broken";

    memcpy(keys->text[TOMB], keys->text[0], keys->length[0]);
    memcpy(keys->text[TOMB] + keys->length[0], ending, sizeof ending);
    keys->length[TOMB] = keys->length[0] + sizeof ending - 1;
}
/* The slot of a mutex: CRC-16 (XMODEM) of the hash tag, as the cluster
 * specification has it. */

enum { SLOTS = 16384, POLYNOMIAL = 0x1021 };

/* The keys begin with "simba:{mutex}"; the tag ends at the first "}", which a
 * mutex may contain but not begin with. */
unsigned simba__redis_slot_of(const char *mutex)
{
    size_t length = strcspn(mutex, "}");
    unsigned crc = 0;

    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned)(unsigned char)mutex[i] << 8;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 0x8000U) != 0 ? crc << 1 ^ POLYNOMIAL : crc << 1;
        }
        crc &= 0xffffU;
    }
    return crc % SLOTS;
}
