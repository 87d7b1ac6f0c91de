/* What admins ask: which mutexes are there, and what can this store promise? */
#ifndef SIMBA_REDIS_ADMIN_H
#define SIMBA_REDIS_ADMIN_H

#include "backends/redis/instance.h"

/* One such question, to every server of the store. */
struct simba__redis_errand {
    struct simba__redis *store;
    simba_request *request; /* NULL: its deadline has passed */
    simba_timer deadline;
    simba_timer begin;                /* when all servers are there */
    struct simba__redis_errand *next; /* of the store */
    struct simba__redis_hash found;   /* names of mutexes */
    int open;                         /* answers awaited */
    simba_error why;                  /* code 0: well so far */
};

/** Start a list or a doctor. */
void simba__redis_admin_start(struct simba__redis *store,
                              simba_request *request);

/** End all errands: the loop is about to end. */
void simba__redis_admin_end(struct simba__redis *store);

/** Send a command of plain words to a server. When it is answered, `answered`
 * is called, unless the errand's deadline has passed or there was no answer. */
void simba__redis_errand_ask(struct simba__redis_errand *errand,
                             struct simba__redis_node *node,
                             void (*answered)(struct simba__redis_errand *,
                                              struct simba__redis_node *,
                                              const redisReply *reply),
                             const char *const *words);

/* list.c */
void simba__redis_list(struct simba__redis_errand *errand,
                       struct simba__redis_node *node);
void simba__redis_list_fini(struct simba__redis_errand *errand);

/* doctor.c */
void simba__redis_doctor(struct simba__redis_errand *errand,
                         struct simba__redis_node *node);

#endif
