/* What this server, set up as it is, can promise. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void on_info(struct simba__redis_admin_request *admin,
                    struct simba__redis_server *server,
                    const redisReply *reply)
{
    const struct simba__redis_settings *settings = &admin->store->settings;
    simba_request *request = admin->request;
    const char *shown = server->command.shown, *info = reply->str;
    char version[32], kind[32], count[16];
    int wanted = settings->replicas, there;

    if (reply->type != REDIS_REPLY_STRING) {
        simba_request_add_finding(request, SIMBA_FINDING_NOTE, "acl",
                                  "%s: INFO is not allowed: version, "
                                  "persistence and replicas cannot be seen",
                                  shown);
        return;
    }
    simba__redis_info_field(info, "valkey_version", version, sizeof version);
    simba__redis_info_field(info, "server_name", kind, sizeof kind);
    if (version[0] == '\0') {
        simba__redis_info_field(info, "redis_version", version, sizeof version);
    }
    simba_request_add_finding(request,
                              strverscmp(version, "6.2") < 0
                                  ? SIMBA_FINDING_SERIOUS
                                  : SIMBA_FINDING_OK,
                              "version", "%s: %s %s; 6.2 or newer is needed",
                              shown, kind[0] == '\0' ? "redis" : kind, version);
    if (!simba__redis_info_is(info, "aof_enabled", "1")) {
        simba_request_add_finding(
            request,
            settings->grace_ms != 0 ? SIMBA_FINDING_WEAK
                                    : SIMBA_FINDING_SERIOUS,
            "persistence",
            settings->grace_ms != 0
                ? "%s: no append-only file, a restart forgets owners: nobody "
                  "acquires for %g s after one, and no owner is certain for "
                  "longer (restart_grace, which must be the same on all hosts)"
                : "%s: no append-only file, a restart forgets owners; and "
                  "restart_grace is off",
            shown, (double)settings->grace_ms / 1000);
    }
    if (simba__redis_info_is(info, "aof_last_write_status", "err")) {
        simba_request_add_finding(request, SIMBA_FINDING_SERIOUS, "disk",
                                  "%s: its append-only file cannot be written: "
                                  "nothing can be acquired or renewed",
                                  shown);
    } else if (simba__redis_info_is(info, "rdb_last_bgsave_status", "err")) {
        simba_request_add_finding(request, SIMBA_FINDING_WEAK, "disk",
                                  "%s: its last snapshot failed; it may refuse "
                                  "changes until one succeeds",
                                  shown);
    }
    simba__redis_info_field(info, "connected_slaves", count, sizeof count);
    there = simba__redis_number(count, INT32_MAX);
    if (wanted > there) {
        simba_request_add_finding(request, SIMBA_FINDING_SERIOUS, "replicas",
                                  "%s: replicas=%d but %d are connected: "
                                  "nothing can be acquired",
                                  shown, wanted, there);
    } else if (there > 0 && wanted == 0) {
        simba_request_add_finding(request, SIMBA_FINDING_WEAK, "replicas",
                                  "%s: %d replicas; a failover may forget the "
                                  "last owners, unless replicas=n is given",
                                  shown, there);
    } else if (wanted < there) {
        simba_request_add_finding(
            request, SIMBA_FINDING_WEAK, "replicas",
            "%s: an acquire is on %d of %d replicas before it counts; a "
            "failover to another may forget it, unless replicas=%d is given",
            shown, wanted, there, there);
    } else if (wanted > 0) {
        simba_request_add_finding(
            request, SIMBA_FINDING_OK, "replicas",
            "%s: an acquire is on all %d replicas before it counts", shown,
            there);
    } else {
        simba_request_add_finding(request, SIMBA_FINDING_NOTE, "replicas",
                                  "%s: none; when it is down nobody acquires",
                                  shown);
    }
}

/* The value of a CONFIG GET; NULL: not allowed, or no such setting. */
static const char *config_value(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2
               ? reply->element[1]->str
               : NULL;
}

static void on_policy(struct simba__redis_admin_request *admin,
                      struct simba__redis_server *server,
                      const redisReply *reply)
{
    const char *policy = config_value(reply);
    const char *shown = server->command.shown;

    if (policy == NULL) {
        simba_request_add_finding(
            admin->request, SIMBA_FINDING_NOTE, "eviction",
            "%s: CONFIG GET is not allowed: see to it that maxmemory-policy is "
            "noeviction",
            shown);
    } else if (strcmp(policy, "noeviction") != 0) {
        simba_request_add_finding(
            admin->request, SIMBA_FINDING_SERIOUS, "eviction",
            "%s: maxmemory-policy %s may throw away who owns a mutex; "
            "noeviction does not",
            shown, policy);
    } else {
        simba_request_add_finding(admin->request, SIMBA_FINDING_OK, "eviction",
                                  "%s: nothing is evicted", shown);
    }
}

static void on_fsync(struct simba__redis_admin_request *admin,
                     struct simba__redis_server *server,
                     const redisReply *reply)
{
    const char *when = config_value(reply);

    if (!server->command.facts.keeps_data) {
        return; /* reported already */
    }
    if (when == NULL) {
        simba_request_add_finding(
            admin->request, SIMBA_FINDING_NOTE, "persistence",
            "%s: CONFIG GET is not allowed: whether appendfsync is always "
            "cannot be seen",
            server->command.shown);
    } else if (strcmp(when, "always") == 0) {
        simba_request_add_finding(
            admin->request, SIMBA_FINDING_OK, "persistence",
            "%s: every write is on disk before it is answered",
            server->command.shown);
    } else {
        simba_request_add_finding(
            admin->request, SIMBA_FINDING_WEAK, "persistence",
            "%s: appendfsync %s: a crash of its machine may forget the last "
            "owners; always does not",
            server->command.shown, when);
    }
}

/* Another host may be passed here, or pass ours there. */
static void on_graces(struct simba__redis_admin_request *admin,
                      struct simba__redis_server *server,
                      const redisReply *reply)
{
    int64_t ours_ms = admin->store->settings.grace_ms;

    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements;
         i++) {
        const char *text = reply->element[i]->str;
        int64_t theirs_ms = text == NULL ? ours_ms : strtoll(text, NULL, 10);

        if (theirs_ms != ours_ms && !server->command.facts.keeps_data) {
            simba_request_add_finding(
                admin->request, SIMBA_FINDING_SERIOUS, "restart_grace",
                "%s: it is %g s for others and %g s here: after a restart two "
                "may own a mutex; when all agree, DEL " SIMBA__REDIS_GRACES,
                server->command.shown, (double)theirs_ms / 1000,
                (double)ours_ms / 1000);
        }
    }
}

static void on_time(struct simba__redis_admin_request *admin,
                    struct simba__redis_server *server,
                    const redisReply *reply)
{
    struct timespec here;
    int64_t here_ms, there_ms;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->str == NULL || reply->element[1]->str == NULL) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &here);
    here_ms = (int64_t)here.tv_sec * 1000 + here.tv_nsec / 1000000;
    there_ms = strtoll(reply->element[0]->str, NULL, 10) * 1000 +
               strtoll(reply->element[1]->str, NULL, 10) / 1000;
    simba_request_add_finding(admin->request, SIMBA_FINDING_NOTE, "clock",
                              "%s: a wall clock, %" PRId64
                              " ms from ours; a step forward beyond the margin "
                              "ends leases too early",
                              server->command.shown, there_ms - here_ms);
}

/* Which commands of the scripts were refused, and why the first of them. */
static void on_tried(struct simba__redis_admin_request *admin,
                     struct simba__redis_server *server,
                     const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        simba_request_add_finding(admin->request, SIMBA_FINDING_SERIOUS, "acl",
                                  "%s: %.120s", server->command.shown,
                                  reply->str);
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
               reply->element[0]->len > 0) {
        simba_request_add_finding(admin->request, SIMBA_FINDING_SERIOUS, "acl",
                                  "%s: refuses %.80s (%.80s)",
                                  server->command.shown, reply->element[0]->str,
                                  reply->element[1]->str);
    }
}

static void on_user(struct simba__redis_admin_request *admin,
                    struct simba__redis_server *server,
                    const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_STRING) {
        simba_request_add_finding(admin->request, SIMBA_FINDING_NOTE, "acl",
                                  "%s: we are its user \"%.64s\"",
                                  server->command.shown, reply->str);
    }
}

void simba__redis_doctor(struct simba__redis_admin_request *admin,
                         struct simba__redis_server *server)
{
    const struct simba__redis_settings *settings = &admin->store->settings;
    const struct simba__redis_address *address = &server->command.address;
    const struct {
        simba__redis_admin_fn *replied;
        const char *words[5];
    } questions[] = {
        {on_info, {"INFO"}},
        {on_policy, {"CONFIG", "GET", "maxmemory-policy"}},
        {on_fsync, {"CONFIG", "GET", "appendfsync"}},
        {on_graces, {"ZRANGE", SIMBA__REDIS_GRACES, "0", "-1"}},
        {on_time, {"TIME"}},
        /* What contenders do, on a key that none of them has. */
        {on_tried,
         {"EVAL", simba__redis_script(SIMBA__REDIS_DOCTOR)->text, "1",
          "simba:{doctor}:doctor"}},
        {on_user, {"ACL", "WHOAMI"}},
    };

    if (address->port == 0 || simba__url_is_local(address->host)) {
        simba_request_add_finding(
            admin->request, SIMBA_FINDING_OK, "wire", "%s: %s",
            server->command.shown,
            settings->tls.is_on ? "encrypted" : "this machine, no TLS needed");
    } else {
        simba_request_add_finding(
            admin->request,
            settings->tls.is_verified ? SIMBA_FINDING_OK : SIMBA_FINDING_WEAK,
            "wire", "%s: %s", server->command.shown,
            settings->tls.is_verified ? "TLS, its certificate verified"
            : settings->tls.is_on     ? "TLS, but anybody could be the server"
                                      : "not encrypted; rediss:// does it");
    }
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        /* In a cluster one server keeps that key. */
        if (questions[i].replied != on_tried ||
            simba__redis_server_of(admin->store, "doctor") == server) {
            simba__redis_admin_send(admin, server, questions[i].replied,
                                    questions[i].words);
        }
    }
}
