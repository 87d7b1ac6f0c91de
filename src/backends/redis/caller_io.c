/* A caller that awaits its own reply alone reads it on its own thread, in the
 * loop's place.
 *
 * While one drives, the loop waits for no input of the sockets that the driver
 * reads, so that nobody else is woken. The command socket stays so between two
 * requests; the subscriber's is given back when the driver leaves.
 *
 * A driver polls the two sockets of one server: in a cluster, of the one that
 * its last request went to. What overlaps elsewhere is read by the loop. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include <assert.h>
#include <poll.h>

/* The driver goes; what it awaited is read by the loop. */
static void leave(struct simba__redis_server *server)
{
    if (server->command.pending_count > 0) {
        simba__redis_set_driven(&server->command, false);
    }
    simba__redis_set_driven(&server->subscriber, false);
}

void simba__redis_choose_reader(struct simba__redis_server *server,
                                bool is_driven)
{
    struct simba__redis *store = server->store;
    struct simba__redis_connection *conn = &server->command;

    assert(conn->pending_count > 0);
    if (is_driven && store->driven != server) {
        if (store->driven != NULL) {
            leave(store->driven);
        }
        store->driven = server;
    }
    simba__redis_set_driven(
        conn, is_driven && conn->pending_count == 1 &&
                  conn->lone_replies >= SIMBA__REDIS_LONE_ENOUGH &&
                  (store->polled == NULL || store->polled == server));
}

void simba__redis_caller_io_forget(const struct simba__redis_server *server)
{
    struct simba__redis *store = server->store;

    store->driven = store->driven == server ? NULL : store->driven;
    store->polled = store->polled == server ? NULL : store->polled;
}

static void read_polled(struct simba__redis_connection *conn,
                        const struct pollfd *set)
{
    /* Another may have broken it meanwhile, and its descriptor be reused. */
    if (set->revents != 0 && conn->is_driven && conn->io.fd == set->fd &&
        conn->state == SIMBA__REDIS_READY) {
        simba__redis_read(conn);
    }
}

bool simba__redis_drive(simba_backend *self, int64_t until_ms)
{
    struct simba__redis *store = (struct simba__redis *)self;
    struct simba__redis_server *server;
    struct pollfd set[3] = {
        {.fd = -1, .events = POLLIN},
        {.fd = -1, .events = POLLIN},
        {.fd = simba_loop_nudge_fd(self->loop), .events = POLLIN}};
    int64_t left_ms;
    bool goes_on;

    simba_loop_enter(self->loop);
    server = store->driven;
    goes_on = server != NULL && until_ms != 0 && server->command.is_driven &&
              server->command.state == SIMBA__REDIS_READY;
    if (goes_on) {
        set[0].fd = server->command.io.fd;
        if (server->subscriber.is_wanted) {
            simba__redis_set_driven(&server->subscriber, true);
            set[1].fd =
                server->subscriber.is_driven ? server->subscriber.io.fd : -1;
        }
        assert(store->polled == NULL); /* only one drives */
        store->polled = server;
        simba_loop_leave(self->loop);
        left_ms = until_ms - simba_loop_now_ms();
        left_ms = left_ms < 0 ? 0 : left_ms > INT32_MAX ? -1 : left_ms;
        poll(set, 3, (int)left_ms);
        simba_loop_enter(self->loop);
        /* Meanwhile the server may have gone, or another be driven instead. */
        if (store->polled == server && store->driven == server) {
            simba__redis_cork(store);
            read_polled(&server->command, &set[0]);
            read_polled(&server->subscriber, &set[1]);
            simba__redis_uncork(store);
        }
        store->polled = NULL;
    } else if (server != NULL) {
        leave(server);
    }
    simba_loop_leave(self->loop);
    return goes_on;
}
