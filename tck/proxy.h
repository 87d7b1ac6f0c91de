/* A TCP proxy of the contract's own, between a handle and the servers that its
 * URL names: what befalls a network can be made to befall one handle, on every
 * store whose URL has hosts. */
#ifndef SIMBA_TCK_PROXY_H
#define SIMBA_TCK_PROXY_H

#include "kit.h"

/* What befalls all that passes, old connections and new ones. */
enum tck_weather {
    TCK_FAIR,        /* everything passes; what was held goes on its way */
    TCK_STALLED,     /* nothing does, and nobody is told */
    TCK_NO_REQUESTS, /* one way only: what the store sends is held */
    TCK_NO_REPLIES,  /* one way only: what the servers send is held */
    TCK_HALF_OPEN,   /* the servers are told that it is over, the store is not,
                      * and what it sends is lost */
    TCK_CUT,         /* both are told, and nobody gets through any more */
};

struct tck_proxy;

/** Can a proxy stand between this store and its servers? Found out once; opens
 * a handle for that. */
bool tck_can_proxy(struct tck *t);

/** One before each server; ended with the test. */
struct tck_proxy *tck_proxy(struct tck *t);

/** A new handle that goes through it. */
simba_store *tck_store_through(struct tck *t, struct tck_proxy *proxy);

/** Wait until it is answered again after a disturbance. */
void tck_await_answer(struct tck *t, simba_store *store);

void tck_proxy_set(struct tck_proxy *proxy, enum tck_weather weather);

/** End every connection that there is; new ones are taken. */
void tck_proxy_cut(struct tck_proxy *proxy);

/** With TCK_NO_REQUESTS: what was sent and has not passed is kept back, and the
 * store is told that its connections are over; new ones pass. */
void tck_proxy_keep_back(struct tck_proxy *proxy);

/** What was kept back arrives at the servers, late. */
void tck_proxy_let_go(struct tck_proxy *proxy);

/** Let replies take so long, from now on. */
void tck_proxy_delay(struct tck_proxy *proxy, int64_t delay_ms);

/** How many connections the store has open: until it hangs up itself. */
int tck_proxy_count(const struct tck_proxy *proxy);

/** Rest until nothing has passed for a while, or not for ever: so what follows
 * a reconnection is done, most likely. */
void tck_proxy_await_quiet(struct tck_proxy *proxy);

#endif
