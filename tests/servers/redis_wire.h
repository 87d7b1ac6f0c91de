/* A bad wire to a server: a proxy that now and then, by turns, cuts what the
 * server says, says something else, loses half of it, or says nothing more. */
#ifndef TESTS_SERVERS_REDIS_WIRE_H
#define TESTS_SERVERS_REDIS_WIRE_H

enum redis_wire_fault {
    REDIS_WIRE_GOOD,
    REDIS_WIRE_CUT,
    REDIS_WIRE_GARBAGE,
    REDIS_WIRE_HALF,
    REDIS_WIRE_MUTE, /* nothing comes any more, and it ends a second later */
};

/** Listen in front of this port; returns the port of the wire. One for each
 * process, there until it ends. */
int redis_wire_start(int port);

/** What happens to one in fifty messages of the server from now on. */
void redis_wire_set(enum redis_wire_fault fault);

#endif
