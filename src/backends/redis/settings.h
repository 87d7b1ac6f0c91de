/* What the URL of a Redis store says. */
#ifndef SIMBA_REDIS_SETTINGS_H
#define SIMBA_REDIS_SETTINGS_H

#include <simba/sys/backend.h>

#include <stdbool.h>

enum { SIMBA__REDIS_HOST_MAX = 255, SIMBA__REDIS_SHOWN = 100 };

enum simba__redis_shape {
    SIMBA__REDIS_SINGLE,
    SIMBA__REDIS_SENTINEL,
    SIMBA__REDIS_CLUSTER,
};

/* A server. */
struct simba__redis_address {
    char host[SIMBA__REDIS_HOST_MAX + 1]; /* or the path of a socket */
    int port;                             /* 0: a unix socket */
};

struct simba__redis_settings {
    char *text; /* a copy of the URL, which the strings below point into */
    size_t text_length;
    enum simba__redis_shape shape;
    struct simba__redis_address *addresses; /* of servers or sentinels */
    int address_count;
    const char *master; /* the name the sentinels know it by */
    int database;
    char *user;     /* NULL: none */
    char *password; /* NULL: none */
    char *sentinel_user, *sentinel_password;
    bool is_tls;
    bool is_verified;
    const char *ca, *cert, *key; /* files, or NULL */
    int replicas;                /* that must have an acquire; 0: none */
    bool has_grace;              /* after a restart that may have lost data */
    char shown[SIMBA__REDIS_SHOWN + 1]; /* for messages, without secrets */
};

/**
 * Read a URL, the environment and the files they name.
 *
 * @param[out] settings  to be given to simba__redis_settings_fini(), also
 *                       after a failure
 * @return SIMBA_OK, SIMBA_EINVAL, SIMBA_EMISCONFIG or SIMBA_ENOMEM
 */
int simba__redis_settings_init(struct simba__redis_settings *settings,
                               const char *url,
                               simba_error *error);

void simba__redis_settings_fini(struct simba__redis_settings *settings);

#endif
