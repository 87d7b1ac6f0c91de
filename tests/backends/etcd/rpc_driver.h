/* A client of etcd without a store: requests, one by one, and what became of
 * them. */
#ifndef TESTS_BACKENDS_ETCD_RPC_DRIVER_H
#define TESTS_BACKENDS_ETCD_RPC_DRIVER_H

#include "backends/etcd/grpc.h"
#include "fixtures/await.h"
#include "runtime/loop.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN = 1 }; /* status of a request that has not ended */

#define TXN SIMBA__ETCD_METHOD("KV/Txn")

struct ask {
    simba__rpc rpc; /* first */
    simba_error error;
    /* Looks at the answer while its bytes are there; may be NULL. */
    void (*look)(struct ask *ask);
    _Atomic int status, messages;
    simba__pb_fields fields; /* of the last reply; its bytes are gone */
    int64_t revision;
    /* What tests have looked up: */
    bool flag;
    int64_t number;
    char text[64];
};

struct client {
    simba__grpc grpc; /* first */
    simba_loop *loop;
    simba_connection_config config;
    simba_connection_host hosts[3];
    _Atomic int readies, downs;
    simba_error why;
};

#define inside(client, statement)                                              \
    do {                                                                       \
        simba_loop_enter((client)->loop);                                      \
        statement;                                                             \
        simba_loop_leave((client)->loop);                                      \
    } while (0)

static inline void is_ready(void *self, simba_connection *connection)
{
    (void)connection;
    ((struct client *)self)->readies++;
}

static inline void is_down(void *self,
                           simba_connection *connection,
                           const simba_error *why)
{
    struct client *client = self;

    (void)connection;
    client->why = *why;
    client->downs++;
}

/* Why it went down last, once it has; valid until the next call. */
static inline const simba_error *why_down(struct client *client)
{
    static simba_error why;

    await(client->downs > 0);
    inside(client, why = client->why);
    return &why;
}

static inline void is_done(simba__rpc *rpc,
                           int status,
                           const simba_error *error)
{
    struct ask *ask = (struct ask *)rpc;

    if (status != SIMBA_OK) {
        ask->error = *error;
        assert_int_equal(error->code, status);
    } else {
        ask->fields = simba__pb_read(rpc->reply);
        ask->revision = simba__pb_read(ask->fields.bytes[1]).number[3];
        if (ask->look != NULL) {
            ask->look(ask);
        }
    }
    ask->messages++;
    if (!rpc->is_stream || status != SIMBA_OK) {
        ask->status = status;
    }
}

/* Hosts are in the config already. */
static inline void client_open(struct client *client)
{
    simba_error error;

    assert_int_equal(simba__loop_open(&client->loop, &error), SIMBA_OK);
    client->config.size = sizeof client->config;
    client->config.loop = client->loop;
    client->config.hosts = client->hosts;
    client->config.ready = is_ready;
    client->config.down = is_down;
    simba_loop_enter(client->loop);
    assert_int_equal(simba__grpc_open(&client->grpc, &client->config, &error),
                     SIMBA_OK);
    simba_loop_leave(client->loop);
}

static inline void detach(void *argument)
{
    simba__grpc_close(argument);
}

static inline void client_close(struct client *client)
{
    simba__loop_end(client->loop, detach, &client->grpc);
    simba__loop_close(client->loop);
}

/* What to write the request into. */
static inline struct simba__text *begin(struct ask *ask, const char *method)
{
    *ask = (struct ask){
        .rpc = {.method = method,
                .done = is_done,
                .exchange.deadline_ms = now_ms() + PATIENCE_MS / 2},
        .status = OPEN};
    return simba__rpc_begin(&ask->rpc);
}

static inline void finish(struct client *client, struct ask *ask)
{
    await(ask->status != OPEN);
    inside(client, simba__rpc_fini(&ask->rpc));
}

static inline int run(struct client *client, struct ask *ask)
{
    inside(client, simba__rpc_submit(&client->grpc, &ask->rpc));
    finish(client, ask);
    return ask->status;
}

#endif
