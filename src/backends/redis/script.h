/* The scripts, and the keys of a mutex. The Lua files say what they do. */
#ifndef SIMBA_REDIS_SCRIPT_H
#define SIMBA_REDIS_SCRIPT_H

#include <simba/sys/backend.h>

#include <stddef.h>

enum simba__redis_script_name {
    SIMBA__REDIS_ACQUIRE,
    SIMBA__REDIS_RENEW,
    SIMBA__REDIS_RELEASE,
    SIMBA__REDIS_READ,
    SIMBA__REDIS_BREAK,
    SIMBA__REDIS_DOCTOR,
    SIMBA__REDIS_SCRIPTS
};

struct simba__redis_script {
    const char *text;
    size_t length;
    char sha[41];
};

/** All of them, in the order of their names. Any thread. */
const struct simba__redis_script *simba__redis_scripts(void);

enum {
    SIMBA__REDIS_KEYS = 9,
    SIMBA__REDIS_ATTEMPT = 32, /* characters of an attempt id */
    /* "simba:{", "}", the longest ending, and the NUL */
    SIMBA__REDIS_KEY_MAX = SIMBA_MUTEX_MAX_BYTES + 8 + 48 + 1,
    SIMBA__REDIS_CHANNEL_MAX = SIMBA_MUTEX_MAX_BYTES + 9 + SIMBA_ID_MAX + 1,
};

/* The keys of a mutex, in the order the scripts want them. */
struct simba__redis_keys {
    char text[SIMBA__REDIS_KEYS][SIMBA__REDIS_KEY_MAX];
    size_t length[SIMBA__REDIS_KEYS];
};

void simba__redis_keys_init(struct simba__redis_keys *keys,
                            const char *mutex,
                            const simba_attempt *attempt);

/** For a break, which undoes no attempt: the book of breaks in place of the
 * tombstone. */
void simba__redis_keys_take_book(struct simba__redis_keys *keys);

/** An attempt as the scripts know it. */
void simba__redis_attempt_text(const simba_attempt *attempt,
                               char text[SIMBA__REDIS_ATTEMPT + 1]);

#endif
