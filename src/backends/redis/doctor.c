/* What this server, set up as it is, can promise. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static const char *shown(const struct simba__redis_node *node)
{
    return node->command.conn.shown;
}

/* --- INFO ---------------------------------------------------------------- */

static void judge_version(struct simba__redis_errand *errand,
                          const struct simba__redis_node *node,
                          const char *info)
{
    char version[32], kind[32];

    simba__redis_info_field(info, "valkey_version", version, sizeof version);
    simba__redis_info_field(info, "server_name", kind, sizeof kind);
    if (version[0] == '\0') {
        simba__redis_info_field(info, "redis_version", version, sizeof version);
    }
    simba_request_add_finding(
        errand->request,
        strverscmp(version, "6.2") < 0 ? SIMBA_FINDING_SERIOUS
                                       : SIMBA_FINDING_OK,
        "version", "%s: %s %s; 6.2 or newer is needed", shown(node),
        kind[0] == '\0' ? "redis" : kind, version);
}

static void judge_persistence(struct simba__redis_errand *errand,
                              const struct simba__redis_node *node,
                              const char *info)
{
    const char *grace = errand->store->env.settings.has_grace
                            ? "; after a restart this store waits one lease"
                            : "; and restart_grace is off";

    if (!simba__redis_info_is(info, "aof_enabled", "1")) {
        simba_request_add_finding(
            errand->request,
            errand->store->env.settings.has_grace ? SIMBA_FINDING_WEAK
                                                  : SIMBA_FINDING_SERIOUS,
            "persistence",
            "%s: no append-only file, a restart forgets owners%s", shown(node),
            grace);
    }
    if (simba__redis_info_is(info, "aof_last_write_status", "err") ||
        simba__redis_info_is(info, "rdb_last_bgsave_status", "err")) {
        simba_request_add_finding(errand->request, SIMBA_FINDING_WEAK, "disk",
                                  "%s: its last write to disk failed",
                                  shown(node));
    }
}

static void judge_replicas(struct simba__redis_errand *errand,
                           const struct simba__redis_node *node,
                           const char *info)
{
    int wanted = errand->store->env.settings.replicas;
    char count[16];
    int there;

    simba__redis_info_field(info, "connected_slaves", count, sizeof count);
    there = simba__redis_number(count, INT32_MAX);
    if (wanted > there) {
        simba_request_add_finding(
            errand->request, SIMBA_FINDING_SERIOUS, "replicas",
            "%s: replicas=%d but %d are connected: nothing "
            "can be acquired",
            shown(node), wanted, there);
    } else if (there > 0 && wanted == 0) {
        simba_request_add_finding(
            errand->request, SIMBA_FINDING_WEAK, "replicas",
            "%s: %d replicas; a failover may forget the last "
            "owners, unless replicas=n is given",
            shown(node), there);
    } else if (wanted > 0) {
        simba_request_add_finding(
            errand->request, SIMBA_FINDING_OK, "replicas",
            "%s: an acquire is on %d of %d replicas before "
            "it counts",
            shown(node), wanted, there);
    } else {
        simba_request_add_finding(
            errand->request, SIMBA_FINDING_NOTE, "replicas",
            "%s: none; when it is down nobody acquires", shown(node));
    }
}

static void on_info(struct simba__redis_errand *errand,
                    struct simba__redis_node *node,
                    const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_STRING) {
        simba_request_add_finding(errand->request, SIMBA_FINDING_WEAK, "acl",
                                  "%s: INFO is not allowed: nothing is known",
                                  shown(node));
        return;
    }
    judge_version(errand, node, reply->str);
    judge_persistence(errand, node, reply->str);
    judge_replicas(errand, node, reply->str);
}

/* --- CONFIG -------------------------------------------------------------- */

/* The value of a CONFIG GET; NULL: not allowed, or no such setting. */
static const char *config_value(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2
               ? reply->element[1]->str
               : NULL;
}

static void on_policy(struct simba__redis_errand *errand,
                      struct simba__redis_node *node,
                      const redisReply *reply)
{
    const char *policy = config_value(reply);

    if (policy == NULL) {
        simba_request_add_finding(
            errand->request, SIMBA_FINDING_NOTE, "eviction",
            "%s: CONFIG GET is not allowed: see to it that "
            "maxmemory-policy is noeviction",
            shown(node));
    } else if (strcmp(policy, "noeviction") != 0) {
        simba_request_add_finding(
            errand->request, SIMBA_FINDING_SERIOUS, "eviction",
            "%s: maxmemory-policy %s may throw away who owns "
            "a mutex; noeviction does not",
            shown(node), policy);
    } else {
        simba_request_add_finding(errand->request, SIMBA_FINDING_OK, "eviction",
                                  "%s: nothing is evicted", shown(node));
    }
}

static void on_fsync(struct simba__redis_errand *errand,
                     struct simba__redis_node *node,
                     const redisReply *reply)
{
    const char *when = config_value(reply);

    if (!node->command.greeting.facts.keeps_data || when == NULL) {
        return; /* told already, or not to be known */
    }
    if (strcmp(when, "always") == 0) {
        simba_request_add_finding(
            errand->request, SIMBA_FINDING_OK, "persistence",
            "%s: every write is on disk before it is answered", shown(node));
    } else {
        simba_request_add_finding(
            errand->request, SIMBA_FINDING_WEAK, "persistence",
            "%s: appendfsync %s: a crash of its machine may "
            "forget the last owners; always does not",
            shown(node), when);
    }
}

/* --- the rest ------------------------------------------------------------ */

static void on_time(struct simba__redis_errand *errand,
                    struct simba__redis_node *node,
                    const redisReply *reply)
{
    struct timespec here;
    int64_t there_ms, apart_ms;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &here);
    there_ms = strtoll(reply->element[0]->str, NULL, 10) * 1000 +
               strtoll(reply->element[1]->str, NULL, 10) / 1000;
    apart_ms =
        there_ms - ((int64_t)here.tv_sec * 1000 + here.tv_nsec / 1000000);
    simba_request_add_finding(errand->request, SIMBA_FINDING_NOTE, "clock",
                              "%s: a wall clock, %" PRId64
                              " ms from ours; a step forward beyond the margin "
                              "ends leases too early",
                              shown(node), apart_ms);
}

/* Which commands of the scripts were refused, and why the first of them. */
static void on_tried(struct simba__redis_errand *errand,
                     struct simba__redis_node *node,
                     const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        simba_request_add_finding(errand->request, SIMBA_FINDING_SERIOUS, "acl",
                                  "%s: %.120s", shown(node), reply->str);
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
               reply->element[0]->len > 0) {
        simba_request_add_finding(errand->request, SIMBA_FINDING_SERIOUS, "acl",
                                  "%s: refuses %.80s (%.80s)", shown(node),
                                  reply->element[0]->str,
                                  reply->element[1]->str);
    }
}

/* As contenders do, on a key that none of them has. */
static void try_commands(struct simba__redis_errand *errand,
                         struct simba__redis_node *node)
{
    static const char mutex[] = "doctor";
    const char *words[] = {"EVAL",
                           simba__redis_scripts()[SIMBA__REDIS_DOCTOR].text,
                           "1", "simba:{doctor}:doctor", NULL};

    if (simba__redis_node_of(errand->store, mutex) == node) {
        simba__redis_errand_ask(errand, node, on_tried, words);
    }
}

static void on_user(struct simba__redis_errand *errand,
                    struct simba__redis_node *node,
                    const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_STRING) {
        simba_request_add_finding(errand->request, SIMBA_FINDING_NOTE, "acl",
                                  "%s: we are its user \"%.64s\"", shown(node),
                                  reply->str);
    }
}

static void judge_wire(struct simba__redis_errand *errand,
                       const struct simba__redis_node *node)
{
    bool is_here = node->command.conn.address.port == 0 ||
                   strncmp(node->command.conn.address.host, "127.", 4) == 0 ||
                   strcmp(node->command.conn.address.host, "::1") == 0;

    if (node->store->env.settings.is_tls) {
        simba_request_add_finding(errand->request,
                                  node->store->env.settings.is_verified
                                      ? SIMBA_FINDING_OK
                                      : SIMBA_FINDING_WEAK,
                                  "wire", "%s: TLS%s", shown(node),
                                  node->store->env.settings.is_verified
                                      ? ", its certificate verified"
                                      : ", but anybody could be the server");
    } else if (!is_here) {
        simba_request_add_finding(errand->request, SIMBA_FINDING_NOTE, "wire",
                                  "%s: plain text; rediss:// is not",
                                  shown(node));
    }
}

void simba__redis_doctor(struct simba__redis_errand *errand,
                         struct simba__redis_node *node)
{
    static const char *const info[] = {"INFO", NULL};
    static const char *const policy[] = {"CONFIG", "GET", "maxmemory-policy",
                                         NULL};
    static const char *const fsync[] = {"CONFIG", "GET", "appendfsync", NULL};
    static const char *const time[] = {"TIME", NULL};
    static const char *const user[] = {"ACL", "WHOAMI", NULL};

    judge_wire(errand, node);
    simba__redis_errand_ask(errand, node, on_info, info);
    simba__redis_errand_ask(errand, node, on_policy, policy);
    simba__redis_errand_ask(errand, node, on_fsync, fsync);
    simba__redis_errand_ask(errand, node, on_time, time);
    try_commands(errand, node);
    simba__redis_errand_ask(errand, node, on_user, user);
}
