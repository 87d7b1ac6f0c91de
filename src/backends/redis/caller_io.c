/* Driving: a caller's thread polls our sockets in the loop's place.
 *
 * While one drives, the loop waits for no input of the sockets that the driver
 * reads, so that nobody else is woken. The command socket stays so between two
 * operations; the subscriber's is given back when the driver leaves.
 *
 * A driver polls the two sockets of one server: in a cluster, of the one that
 * its last operation went to. What overlaps elsewhere is read by the loop. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include <poll.h>
static void listen_alone(struct simba__redis_conn *conn, bool is_alone)
{
    bool is_solo = is_alone && conn->state == SIMBA__REDIS_READY;

    if (conn->is_solo != is_solo) {
        conn->is_solo = is_solo;
        simba__redis_conn_watch(conn);
    }
}

/* The driver goes; what it awaited is read by the loop. */
static void leave(struct simba__redis_node *node)
{
    struct simba__redis_conn *command = &node->command.conn;

    if (command->asks > 0) {
        listen_alone(command, false);
    }
    listen_alone(&node->subscriber.conn, false);
}

void simba__redis_drive_choose(struct simba__redis_node *node, bool is_driven)
{
    struct simba__redis *store = node->store;
    const struct simba__redis_conn *conn = &node->command.conn;

    if (is_driven && store->driven != node) {
        if (store->driven != NULL) {
            leave(store->driven);
        }
        store->driven = node;
    }
    listen_alone(&node->command.conn,
                 is_driven && conn->asks == 1 &&
                     conn->solo_streak >= SIMBA__REDIS_SOLO_AFTER &&
                     (store->polled == NULL || store->polled == node));
}

void simba__redis_drive_share(struct simba__redis_conn *conn)
{
    listen_alone(conn, false);
}

void simba__redis_drive_forget(const struct simba__redis_node *node)
{
    struct simba__redis *store = node->store;

    store->driven = store->driven == node ? NULL : store->driven;
    store->polled = store->polled == node ? NULL : store->polled;
}

/* What to poll; false: nothing that a driver could do. */
static bool choose(struct simba__redis_node *node, struct pollfd *set)
{
    struct simba__redis_conn *command = &node->command.conn;
    struct simba__redis_conn *subscriber = &node->subscriber.conn;

    if (!command->is_solo || command->state != SIMBA__REDIS_READY) {
        return false;
    }
    set[0].fd = command->io.fd;
    if (subscriber->is_wanted) {
        listen_alone(subscriber, true);
        set[1].fd = subscriber->is_solo ? subscriber->io.fd : -1;
    }
    return true;
}

static void read_ready(struct simba__redis_conn *conn, const struct pollfd *set)
{
    /* Another may have broken it meanwhile, and its descriptor be reused. */
    if (set->revents != 0 && conn->is_solo && conn->io.fd == set->fd &&
        conn->state == SIMBA__REDIS_READY) {
        simba__redis_conn_read(conn);
    }
}

static int timeout_of(int64_t until_ms)
{
    int64_t left_ms = until_ms - simba_loop_now_ms();

    if (left_ms < 0) {
        return 0;
    }
    return until_ms == INT64_MAX || left_ms > INT32_MAX ? -1 : (int)left_ms;
}

/* Outside the loop the server may go, or another be driven instead. */
static void poll_once(struct simba__redis *store,
                      struct pollfd *set,
                      int64_t until_ms)
{
    struct simba__redis_node *node = store->driven;

    store->polled = node;
    simba_loop_leave(store->base.loop);
    poll(set, 3, timeout_of(until_ms));
    simba_loop_enter(store->base.loop);
    if (store->polled == node && store->driven == node) {
        simba__redis_turn_begin(&store->env);
        read_ready(&node->command.conn, &set[0]);
        read_ready(&node->subscriber.conn, &set[1]);
        simba__redis_turn_end(&store->env);
    }
    store->polled = NULL;
}

bool simba__redis_drive(simba_backend *self, int64_t until_ms)
{
    struct simba__redis *store = (struct simba__redis *)self;
    struct simba__redis_node *node;
    struct pollfd set[3] = {
        {.fd = -1, .events = POLLIN},
        {.fd = -1, .events = POLLIN},
        {.fd = simba_loop_nudge_fd(self->loop), .events = POLLIN}};
    bool goes_on = false;

    simba_loop_enter(self->loop);
    node = store->driven;
    if (node != NULL && until_ms != 0) {
        goes_on = choose(node, set);
    }
    if (goes_on) {
        poll_once(store, set, until_ms);
    } else if (node != NULL) {
        leave(node);
    }
    simba_loop_leave(self->loop);
    return goes_on;
}
