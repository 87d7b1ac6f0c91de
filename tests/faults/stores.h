/* The stores of a storm, and what can be done to their servers. */
#ifndef TESTS_FAULTS_STORES_H
#define TESTS_FAULTS_STORES_H

#include "fixtures/tcp_proxy.h"

#include <stdbool.h>
#include <stddef.h>

enum { NODES_MOST = 3, PROXIES_MOST = 6, SIDES = 2 };

/* What a store does not have is NULL. */
struct store {
    const char *name;
    int ttl_ms, transition_ms;
    int nodes; /* with a network between them and contenders; 0: it has none */
    size_t sides; /* SIDES: each half of the contenders has proxies of its own,
                   * first those of one half */
    /** Start it in this directory; SQL servers and etcd run already. */
    void (*open)(const char *directory);
    void (*close)(void);
    void (*kill)(int node);              /**< as kill -9 does */
    void (*run)(int node);               /**< again, and wait for it */
    void (*stop)(int node);              /**< orderly */
    void (*pause)(int node, bool is_on); /**< SIGSTOP, SIGCONT */
    int (*leader)(void);  /**< where there is a failover; -1: not known */
    void (*settle)(void); /**< wait until it is over */
    void (*step_clock)(long ahead_ms); /**< of the server */
    void (*set_read_only)(bool is_on);
    void (*fill_disk)(int node, bool is_full);
    void (*end_sessions)(void); /**< as an administrator may */
    void (*forget)(void);       /**< all it kept of mutexes */
    void (*remove)(void);       /**< what it keeps them in */
    void (*disagree)(int node); /**< with the other members from now on */
    bool (*agree)(void);        /**< have all members the same? */
};

/* Set by open: where either half of the contenders finds it, and proxies on
 * their way. */
extern char store_urls[SIDES][1200];
extern struct proxy *store_proxies[PROXIES_MOST];
extern int store_proxy_count;

/** By its name; NULL: it was not built, or there is none. */
const struct store *store_find(const char *name);

/** The n-th; NULL: there are no more. */
const struct store *store_at(size_t n);

/** Once contenders have ended. */
void store_close_proxies(void);

/** Run a shell line; false: it failed. */
bool shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
