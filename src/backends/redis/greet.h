/* The first words over a connection: who we are, and who is there. */
#ifndef SIMBA_REDIS_GREET_H
#define SIMBA_REDIS_GREET_H

#include "backends/redis/conn.h"

/* What a server tells of itself. */
struct simba__redis_facts {
    char version[24];
    bool is_master;
    bool is_cluster;
    bool is_loading;
    bool keeps_data;     /* over a restart, but perhaps the last of it */
    bool is_new;         /* was started a few seconds ago */
    int64_t up_since_ms; /* boot clock; not later than this */
    int64_t learned_ms;  /* when all this was so */
};

struct simba__redis_greeting {
    struct simba__redis_conn *conn;
    const char *user, *password; /* NULL: none */
    int database;                /* 0: needs no choosing */
    bool is_curious;             /* learn the facts as well */
    struct simba__redis_facts facts;

    struct simba__redis_ask auth, select, server, persistence, replication;
    struct simba__redis_ask *final;
};

/** Say hello; ends with simba__redis_conn_greeted() or _fail(). */
void simba__redis_greet(struct simba__redis_greeting *greeting);

#endif
