/* Redis in all its shapes; see redis_shapes.h. */
#define _GNU_SOURCE
#include "servers/redis_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_STEPS = 9000, STEP_MS = 10 };

const char redis_acl[] =
    "+evalsha +eval +select +info +subscribe +unsubscribe +mget +get +set "
    "+incr +del +exists +pttl +pexpire +time +hget +hset +hdel +zadd +zrem "
    "+zrange +zscore +zmscore +zcard +publish +pubsub|numsub +scan +wait";

static void die(const char *what)
{
    fprintf(stderr, "redis shape: %s\n", what);
    abort();
}

static void shell(const char *command)
{
    if (system(command) != 0) {
        die(command);
    }
}

static const char *text_of(int number)
{
    static char text[16];

    snprintf(text, sizeof text, "%d", number);
    return text;
}

/* --- one server ---------------------------------------------------------- */

static void start_single(struct redis_shape *shape)
{
    redis_start(&shape->nodes[0], NULL);
    shape->node_count = 1;
    snprintf(shape->url, sizeof shape->url, "%s",
             redis_url(&shape->nodes[0], "/0?restart_grace=0"));
}

static void start_unix(struct redis_shape *shape)
{
    struct redis *node = &shape->nodes[0];
    char path[96];

    redis_prepare(node);
    shape->node_count = 1;
    snprintf(path, sizeof path, "%s/socket", node->directory);
    redis_option(node, "--unixsocket", path);
    redis_run(node);
    snprintf(shape->url, sizeof shape->url,
             "redis+unix://%s?restart_grace=0&db=2", path);
}

/* A CA, a server's certificate and a client's, and a CA of somebody else. */
static void make_certificates(const char *directory)
{
    char command[2048];

    snprintf(
        command, sizeof command,
        "cd '%s' && exec >certificates.log 2>&1 && set -e\n"
        "new='openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
        "-nodes'\n"
        "for ca in ca other; do\n"
        "$new -x509 -days 3 -subj /CN=$ca -keyout $ca.key -out $ca.crt\n"
        "done\n"
        "for who in server client; do\n"
        "$new -subj /CN=$who -addext subjectAltName=IP:127.0.0.1 "
        "-keyout $who.key -out $who.csr\n"
        "openssl x509 -req -in $who.csr -CA ca.crt -CAkey ca.key -days 3 "
        "-CAcreateserial -copy_extensions copy -out $who.crt\n"
        "done\n",
        directory);
    shell(command);
}

static void start_tls(struct redis_shape *shape)
{
    struct redis *node = &shape->nodes[0];
    const char *in = node->directory;

    redis_prepare(node);
    shape->node_count = 1;
    shape->tls_port = redis_free_port();
    make_certificates(in);
    redis_option(node, "--tls-port", text_of(shape->tls_port));
    redis_option(node, "--tls-cert-file", "server.crt");
    redis_option(node, "--tls-key-file", "server.key");
    redis_option(node, "--tls-ca-cert-file", "ca.crt");
    redis_option(node, "--requirepass", "admin");
    node->password = "admin";
    redis_run(node);
    redis_number(node, "ACL SETUSER simba on >s3cr:t@ resetkeys ~simba:* "
                       "resetchannels &simba:*");
    for (const char *word = redis_acl; *word != '\0';) {
        size_t length = strcspn(word, " ");

        redis_number(node, "ACL SETUSER simba %b", word, length);
        word += length + (word[length] == ' ');
    }
    snprintf(shape->url, sizeof shape->url,
             "rediss://simba:s3cr%%3At%%40@127.0.0.1:%d?ca=%s/ca.crt"
             "&cert=%s/client.crt&key=%s/client.key&restart_grace=0",
             shape->tls_port, in, in, in);
}

/* --- Sentinel ------------------------------------------------------------ */

void redis_sentinel_start(struct redis *node, int master_port, int quorum)
{
    char path[96];
    FILE *file;

    redis_prepare(node);
    node->is_sentinel = true;
    snprintf(path, sizeof path, "%s/sentinel.conf", node->directory);
    file = fopen(path, "we");
    if (file == NULL) {
        die(path);
    }
    fprintf(file,
            "port %d\nbind 127.0.0.1\n"
            "sentinel monitor simba 127.0.0.1 %d %d\n"
            "sentinel down-after-milliseconds simba 600\n"
            "sentinel failover-timeout simba 4000\n",
            node->port, master_port, quorum);
    fclose(file);
    redis_run(node);
}

static void await_field(const struct redis *node,
                        const char *section,
                        const char *field)
{
    for (int i = 0; i < PATIENCE_STEPS; i++) {
        if (strstr(redis_text(node, "INFO %s", section), field) != NULL) {
            return;
        }
        redis_nap_ms(STEP_MS);
    }
    die(field);
}

static void start_sentinels(struct redis_shape *shape)
{
    struct redis *nodes = shape->nodes;

    for (int i = 0; i < 3; i++) {
        redis_prepare(&nodes[i]);
        if (i > 0) {
            redis_option(&nodes[i], "--replicaof", "127.0.0.1");
            redis_option(&nodes[i], text_of(nodes[0].port), NULL);
        }
        redis_option(&nodes[i], "--repl-diskless-sync-delay", "0");
        redis_run(&nodes[i]);
    }
    await_field(&nodes[0], "replication", "connected_slaves:2");
    for (int i = 3; i < 6; i++) {
        redis_sentinel_start(&nodes[i], nodes[0].port, 2);
    }
    for (int i = 3; i < 6; i++) {
        await_field(&nodes[i], "sentinel", "slaves=2,sentinels=3");
    }
    shape->node_count = 6;
    snprintf(shape->url, sizeof shape->url,
             "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/simba"
             "?restart_grace=0",
             nodes[3].port, nodes[4].port, nodes[5].port);
}

/* --- Cluster ------------------------------------------------------------- */

static void await_cluster(const struct redis *node)
{
    for (int i = 0; i < PATIENCE_STEPS; i++) {
        const char *info = redis_text(node, "CLUSTER INFO");

        if (strstr(info, "cluster_state:ok") != NULL &&
            strstr(info, "cluster_known_nodes:6") != NULL &&
            strstr(info, "cluster_size:3") != NULL) {
            return;
        }
        redis_nap_ms(STEP_MS);
    }
    die("the cluster does not come together");
}

static void start_cluster(struct redis_shape *shape)
{
    char command[512];
    size_t length = 0;

    for (int i = 0; i < 6; i++) {
        struct redis *node = &shape->nodes[i];

        redis_prepare(node);
        redis_option(node, "--cluster-enabled", "yes");
        if (redis_is_before_7()) { /* its other port is 10,000 higher */
            while (node->port > 55000) {
                node->port = redis_free_port();
            }
        } else {
            redis_option(node, "--cluster-port", text_of(redis_free_port()));
        }
        redis_option(node, "--cluster-node-timeout", "1000");
        redis_option(node, "--repl-diskless-sync-delay", "0");
        redis_run(node);
    }
    length +=
        (size_t)snprintf(command, sizeof command, "redis-cli --cluster create");
    for (int i = 0; i < 6; i++) {
        length += (size_t)snprintf(command + length, sizeof command - length,
                                   " 127.0.0.1:%d", shape->nodes[i].port);
    }
    snprintf(command + length, sizeof command - length,
             " --cluster-replicas 1 --cluster-yes >'%s/create.log' 2>&1",
             shape->nodes[0].directory);
    shell(command);
    for (int i = 0; i < 6; i++) {
        await_cluster(&shape->nodes[i]);
    }
    for (int i = 3; i < 6; i++) {
        await_field(&shape->nodes[i], "replication", "master_link_status:up");
    }
    shape->node_count = 6;
    snprintf(shape->url, sizeof shape->url,
             "redis+cluster://127.0.0.1:%d,127.0.0.1:%d?restart_grace=0",
             shape->nodes[0].port, shape->nodes[1].port);
}

struct redis *redis_shape_keeper(struct redis_shape *shape, unsigned slot)
{
    for (int i = 0; i < shape->node_count; i++) {
        struct redis *node = &shape->nodes[i];
        redisReply *ranges;
        int port = 0;

        if (node->pid == 0) {
            continue;
        }
        ranges = redis_do(node, "CLUSTER SLOTS");
        for (size_t j = 0; j < ranges->elements; j++) {
            redisReply **range = ranges->element[j]->element;

            if (range[0]->integer <= slot && slot <= range[1]->integer) {
                port = (int)range[2]->element[1]->integer;
            }
        }
        freeReplyObject(ranges);
        for (int j = 0; j < shape->node_count; j++) {
            if (shape->nodes[j].port == port) {
                return &shape->nodes[j];
            }
        }
    }
    return NULL;
}

/* --- all ----------------------------------------------------------------- */

void redis_shape_start(struct redis_shape *shape, const char *name)
{
    static const struct {
        const char *name;
        void (*start)(struct redis_shape *shape);
    } shapes[] = {{"single", start_single},
                  {"unix", start_unix},
                  {"tls", start_tls},
                  {"sentinel", start_sentinels},
                  {"cluster", start_cluster}};

    memset(shape, 0, sizeof *shape);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        if (strcmp(shapes[i].name, name) == 0) {
            shapes[i].start(shape);
            return;
        }
    }
    die(name);
}

void redis_shape_remove(struct redis_shape *shape)
{
    for (int i = REDIS_NODES_MOST - 1; i >= 0; i--) {
        redis_remove(&shape->nodes[i]);
    }
}
