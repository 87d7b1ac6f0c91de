/* A caller that awaits its own reply alone reads it on its own thread, in the
 * loop's place.
 *
 * While one reads so, the loop waits for no input of the socket, so that nobody
 * else is woken. It stays so between two requests, unless the server may send
 * without being asked. See simba/sys/connection.h. */
#define _GNU_SOURCE
#include "kit/connection.h"

#include <limits.h>
#include <poll.h>

static void set_driven(simba_connection *conn, bool is_driven)
{
    is_driven = is_driven && conn->state == SIMBA__CONNECTION_READY;
    if (conn->is_driven != is_driven) {
        conn->is_driven = is_driven;
        simba__connection_update_events(conn);
    }
}

static bool is_lone(const simba_connection *conn)
{
    return conn->lone_replies >= SIMBA__CONNECTION_LONE_ENOUGH;
}

void simba__connection_choose_reader(simba_connection *conn, bool is_driven)
{
    set_driven(conn, is_driven && conn->sent_count == 1 && is_lone(conn));
}

static void lend(simba_connection *conn, struct pollfd *set)
{
    simba__connection_hold(conn);
    set_driven(conn, true);
    set->fd = conn->is_driven ? conn->io.fd : -1;
}

static void take_back(simba_connection *conn, const struct pollfd *set)
{
    /* Another may have broken it meanwhile, and its descriptor be reused. */
    if (set->revents != 0 && conn->is_driven && conn->io.fd == set->fd) {
        simba__connection_read(conn);
    }
    simba__connection_release(conn);
}

bool simba_connection_drive(simba_connection *conn,
                            simba_connection *also,
                            int64_t until_ms)
{
    simba_loop *loop = conn->config.loop;
    struct pollfd set[3] = {
        {.fd = -1, .events = POLLIN},
        {.fd = -1, .events = POLLIN},
        {.fd = simba_loop_nudge_fd(loop), .events = POLLIN}};
    int64_t left_ms;
    bool goes_on;

    goes_on = until_ms != 0 && conn->state == SIMBA__CONNECTION_READY &&
              (conn->is_driven || (conn->config.has_pushes &&
                                   conn->sent_count == 0 && is_lone(conn)));
    if (goes_on) {
        lend(conn, &set[0]);
        if (also != NULL) {
            lend(also, &set[1]);
        }
        simba_loop_leave(loop);
        left_ms = until_ms - simba_loop_now_ms();
        left_ms = left_ms < 0 ? 0 : left_ms > INT_MAX ? -1 : left_ms;
        simba_loop_poll(loop, set, 3, (int)left_ms);
        simba_loop_enter(loop);
        take_back(conn, &set[0]);
        if (also != NULL) {
            take_back(also, &set[1]);
        }
    } else {
        if (conn->sent_count > 0 || conn->config.has_pushes) {
            set_driven(conn, false);
        }
        if (also != NULL) {
            set_driven(also, false);
        }
    }
    return goes_on;
}
