/* Redis servers of a test's own: in a directory of their own, on free loopback
 * ports, gone with the test. */
#ifndef TESTS_SERVERS_REDIS_SERVER_H
#define TESTS_SERVERS_REDIS_SERVER_H

#include <hiredis/hiredis.h>

#include <stdbool.h>
#include <sys/types.h>

enum { REDIS_OPTIONS_MOST = 32 };

struct redis {
    pid_t pid; /* 0: it does not run */
    int port;
    char directory[64];
    const char *options[REDIS_OPTIONS_MOST]; /* of its command line */
    int option_count;
    bool is_sentinel;
    bool is_before_7;            /* known when it runs */
    const char *user, *password; /* for redis_do() */
    char texts[REDIS_OPTIONS_MOST][128];
};

/** Is the program that is run Redis 6.2? $SIMBA_TEST_REDIS_SERVER may name
 * another than the system's, Valkey too. */
bool redis_is_before_7(void);

/** Make its directory and choose its port; it does not run yet. */
void redis_prepare(struct redis *redis);

/** Add an option and its value, both copied; value NULL: none. */
void redis_option(struct redis *redis, const char *name, const char *value);

/** Run it, and wait until it answers. After a stop or a kill, run it again with
 * what it has on disk. */
void redis_run(struct redis *redis);

/** Prepare and run a plain one, with these options and values, NULL last. */
void redis_start(struct redis *redis, const char *const *options);

void redis_stop(struct redis *redis); /**< orderly */
void redis_kill(struct redis *redis); /**< by SIGKILL */
void redis_pause(const struct redis *redis, bool is_paused);

/** Stop it if it runs, and remove its directory. */
void redis_remove(struct redis *redis);

/** Carry out a command over a connection made for it; to be freed with
 * freeReplyObject(). */
redisReply *redis_do(const struct redis *redis, const char *format, ...);

/** The same for those whose answer is a number or does not matter. */
long long redis_number(const struct redis *redis, const char *format, ...);

/** The same for texts: "" for nil; valid until the next call. */
const char *redis_text(const struct redis *redis, const char *format, ...);

/** "redis://127.0.0.1:port" and what follows; valid until the next call. */
const char *redis_url(const struct redis *redis, const char *rest);

/** A free port of 127.0.0.1. */
int redis_free_port(void);

void redis_nap_ms(long ms);

#endif
