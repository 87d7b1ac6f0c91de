/* Plays a contender of Simba on the JVM on Redis, with its keys, channels and
 * messages, and waits as it does:
 *
 *   interop_redis_player 3.1|3.3 URL MUTEX ID TTL_MS TRANSITION_MS HOLD_MS
 * SECONDS
 *
 * 3.1 keeps a queue and wakes its head; 3.3 has tokens, wakes all, and leaves
 * no trace of a try that failed. Both poll besides. A JVM asks 2 to 8 ms after
 * it was woken, from one thread to the next; who is faster passes ours, which
 * no JVM that was seen does. */
#define _GNU_SOURCE
#include "contender.h"

#include <hiredis/hiredis.h>
#include <poll.h>

enum {
    REACTION_LEAST_NS = 2000000,
    REACTION_SPREAD_NS = 6000000,
    STOP_SPREAD_NS = 3000000,
    STOP_MS = 20, /* until it has been stopped */
};

/* KEYS: the lease. ARGV: id, lease ms, 1 for a version with a queue. */
#define ACQUIRE                                                                \
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then "        \
    "  if ARGV[3] == '0' then "                                                \
    "    redis.call('SET', KEYS[1] .. ':token', "                              \
    "      redis.call('INCR', KEYS[1] .. ':fence'), 'PX', ARGV[2]) end "       \
    "  redis.call('PUBLISH', KEYS[1], 'acquired@@' .. ARGV[1]) "               \
    "  return -1 end "                                                         \
    "if ARGV[3] == '1' then redis.call('ZADD', KEYS[1] .. ':contender', 'NX'," \
    "  redis.call('TIME')[1], ARGV[1]) end "                                   \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return -1 end "             \
    "return redis.call('PTTL', KEYS[1])"

#define RENEW                                                                  \
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end "              \
    "if ARGV[3] == '0' then "                                                  \
    "  redis.call('PEXPIRE', KEYS[1] .. ':token', ARGV[2]) end "               \
    "redis.call('SET', KEYS[1], ARGV[1], 'XX', 'PX', ARGV[2]) "                \
    "return 1"

#define RELEASE                                                                \
    "local queue = KEYS[1] .. ':contender' "                                   \
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then "                           \
    "  redis.call('ZREM', queue, ARGV[1]) return 0 end "                       \
    "redis.call('DEL', KEYS[1]) "                                              \
    "if ARGV[3] == '0' then "                                                  \
    "  redis.call('DEL', KEYS[1] .. ':token', queue) "                         \
    "  redis.call('PUBLISH', KEYS[1], 'released@@' .. ARGV[1]) return 1 end "  \
    "local head = redis.call('ZREVRANGE', queue, -1, -1) "                     \
    "if head[1] then redis.call('ZREM', queue, head[1]) "                      \
    "  redis.call('PUBLISH', KEYS[1] .. ':' .. head[1], "                      \
    "    'released@@' .. ARGV[1]) end "                                        \
    "return 1"

struct player {
    struct plan plan;
    const char *has_queue;
    redisContext *requests, *channels;
    int64_t ttl_at_ns;
    bool stops_before_reply;
};

static long long run(const struct player *player, const char *script)
{
    const struct plan *plan = &player->plan;
    redisReply *reply = NULL;
    int is_sent = 0;
    long long number;

    redisAppendCommand(player->requests, "EVAL %s 1 simba:{%s} %s %d %s",
                       script, plan->mutex, plan->id,
                       plan->ttl_ms + plan->transition_ms, player->has_queue);
    while (!is_sent &&
           redisBufferWrite(player->requests, &is_sent) == REDIS_OK) {
    }
    if (player->stops_before_reply) {
        stop_in(plan, 0);
        nap_ms(STOP_MS);
    }
    redisGetReply(player->requests, (void **)&reply);
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER) {
        fprintf(stderr, "redis: %s\n",
                reply == NULL ? player->requests->errstr : reply->str);
        exit(1);
    }
    number = reply->integer;
    freeReplyObject(reply);
    return number;
}

/* Asks for a lease, or for one more; its ttl runs from when it is told, as a
 * JVM's does. What was told. */
static long long ask(struct player *player, const char *script, long long yes)
{
    const struct plan *plan = &player->plan;
    int64_t sent_ns;
    long long told;

    if (is_to_stop()) {
        player->stops_before_reply = random() % 2 == 0;
        if (!player->stops_before_reply) {
            stop_in(plan, random() % STOP_SPREAD_NS);
        }
    }
    sent_ns = now_ns();
    told = run(player, script);
    player->stops_before_reply = false;
    if (told == yes) {
        say_granted(plan, sent_ns);
        player->ttl_at_ns = now_ns() + (int64_t)plan->ttl_ms * 1000000;
    }
    return told;
}

/* It renews when its ttl is over, and believes to own it until it is told. */
static bool is_owner(void *user)
{
    struct player *player = user;

    return now_ns() < player->ttl_at_ns || ask(player, RENEW, 1) == 1;
}

/* Reads what has come. Did anybody release it? */
static bool has_heard(const struct player *player)
{
    bool is_released = false;
    void *reply = NULL;

    while (redisGetReplyFromReader(player->channels, &reply) == REDIS_OK &&
           reply != NULL) {
        const redisReply *message = reply;

        is_released |= message->elements == 3 &&
                       message->element[2]->type == REDIS_REPLY_STRING &&
                       strncmp(message->element[2]->str, "released@@", 10) == 0;
        freeReplyObject(reply);
    }
    return is_released;
}

/* Until somebody releases it, or it is time to poll. */
static void wait_for(const struct player *player, int64_t ms)
{
    struct pollfd fd = {player->channels->fd, POLLIN, 0};
    int64_t until_ns = now_ns() + ms * 1000000;
    int64_t left_ms;

    while ((left_ms = (until_ns - now_ns()) / 1000000) > 0) {
        if (has_heard(player)) {
            nap_ns(REACTION_LEAST_NS + random() % REACTION_SPREAD_NS);
            break;
        }
        if (poll(&fd, 1, (int)left_ms) > 0 &&
            redisBufferRead(player->channels) != REDIS_OK) {
            exit(1);
        }
    }
}

/* To both at once: a second command would not be sent while a message of the
 * first channel is there to be read. */
static void subscribe(const struct player *player)
{
    const struct plan *plan = &player->plan;

    freeReplyObject(redisCommand(player->channels,
                                 "SUBSCRIBE simba:{%s} simba:{%s}:%s",
                                 plan->mutex, plan->mutex, plan->id));
}

int main(int argc, char **argv)
{
    struct player player = {.has_queue = "1"};
    const struct plan *plan = &player.plan;
    static const char local[] = "redis://127.0.0.1:";
    int port;

    if (argc != 9 || strncmp(argv[2], local, sizeof local - 1) != 0) {
        return 64;
    }
    port = (int)strtol(argv[2] + sizeof local - 1, NULL, 10);
    player.has_queue = strcmp(argv[1], "3.1") == 0 ? "1" : "0";
    player.plan = read_plan(argv + 2);
    player.requests = redisConnect("127.0.0.1", port);
    player.channels = redisConnect("127.0.0.1", port);
    srandom((unsigned)getpid());
    subscribe(&player);
    while (is_time_left(plan)) {
        long long left_ms;

        say('W');
        while ((left_ms = ask(&player, ACQUIRE, -1)) != -1 &&
               is_time_left(plan)) {
            left_ms += random() % 1200 - 200;
            wait_for(&player, left_ms > 0 ? left_ms : 0);
        }
        if (left_ms == -1) {
            work(plan, is_owner, &player);
        }
        run(&player, RELEASE);
        nap_ms(5);
    }
    say('E');
    return 0;
}
