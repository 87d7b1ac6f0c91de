/* A server whose clock is about to show an hour for the second time.
 *
 * In New York the clocks went from 2:00 back to 1:00 on November 1st, 2026, at
 * 6:00 UTC. Who takes local times for moments errs by an hour when that hour
 * begins, when it begins again, or when it is over, depending on which of the
 * two he takes it for. */
#ifndef TESTS_BACKENDS_SQL_CLOCK_CHANGE_H
#define TESTS_BACKENDS_SQL_CLOCK_CHANGE_H

#include "fixtures/sql_server.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef SERVER_IS_POSTGRES
#define SERVER_EPOCH "SELECT floor(extract(epoch FROM clock_timestamp()))"
#else
#define SERVER_EPOCH "SELECT unix_timestamp()"
#endif

enum { CHANGES = 3, SLOWEST_START_S = 128 };

static const int64_t clock_changes[CHANGES] = {
    1793509200, /* 5:00 UTC: from here on a local time can mean two moments */
    1793512800, /* 6:00 UTC: the clocks go back */
    1793516400, /* 7:00 UTC: it is over */
};

/* Restarts the server so that it is up a few seconds before this moment; the
 * slower the machine, the earlier its clock must start. */
static inline void server_restart_before(int64_t moment)
{
    char text[32];

    for (int lead = 4; lead < SLOWEST_START_S; lead *= 2) {
        snprintf(text, sizeof text, "%lld", (long long)(moment - lead));
        setenv("SIMBA_SERVER_TIME", text, 1);
        server_control("--restart");
        server_set_time_zone(true);
        if (server_sql(SERVER_EPOCH) < moment - 1) {
            return;
        }
    }
    fail_msg("%s", "the server takes too long to start");
}

#endif
