/* Operations without a latch: read, list, break, doctor. An errand waits for a
 * connection, makes requests in rounds, and answers once. One whose connection
 * is lost begins again on the next. */
#ifndef SIMBA_ZOOKEEPER_ERRAND_H
#define SIMBA_ZOOKEEPER_ERRAND_H

#include "backends/zookeeper/instance.h"

/* One node that is looked at: a latch, or a mutex in a list. */
struct simba__zk_item {
    char *path;
    int rc;
    simba_owner owner; /* of a latch: who waits or owns there */
    int latches;       /* of a mutex */
    char *lowest;      /* of a mutex: path of its lowest latch */
};

struct simba__zk_errand {
    struct simba__zk_errand *next; /* while parked */
    struct simba__zk *self;
    simba_request *request; /* NULL: answered; only completions are left */
    uint64_t generation;
    int64_t since_ms; /* when it came */
    simba_timer deadline;
    bool is_parked;
    bool is_lost; /* by a connection: it begins again */
    int calls;    /* completions it waits for */
    int rounds;   /* how often it began again */
    int strikes;  /* break: deletes sent, of which one may have been it */
    void (*step)(struct simba__zk_errand *errand, int rc);
    char *path;
    struct simba__zk_item *items;
    int count;
    bool is_numbered;           /* the look tells of births as well */
    struct simba__zk_look look; /* at `path` */
};

/** Begin, or begin again. */
void simba__zk_read_start(struct simba__zk_errand *errand);
void simba__zk_list_start(struct simba__zk_errand *errand);
void simba__zk_break_start(struct simba__zk_errand *errand);

/** End a tenure, if it is asked for rightly. */
void simba__zk_break(struct simba__zk *self, simba_request *request);

/** Doctor and init: have a thread do it, which completes the operation. */
void simba__zk_visit(struct simba__zk *self, simba_request *request);

/** Wait for the thread to end. */
void simba__zk_visit_join(struct simba__zk *self);

/** Answer; after that the errand is gone. */
void simba__zk_errand_done(struct simba__zk_errand *errand);
void simba__zk_errand_fail(struct simba__zk_errand *errand, int rc);

/** Ask for the children of a node, item `index`, or of the errand's path when
 * it is -1: `heard` gets them. False: not sent. */
bool simba__zk_errand_children(struct simba__zk_errand *errand,
                               int index,
                               void (*heard)(struct simba__zk_errand *errand,
                                             int index,
                                             const struct String_vector *list));

/** Ask for the latches of the errand's mutex: they become its items, in the
 * order of the line. False: not sent, or too often. */
bool simba__zk_errand_line(struct simba__zk_errand *errand);

/** Ask for the data of item `index`: fills its owner and rc. */
bool simba__zk_errand_data(struct simba__zk_errand *errand, int index);

/** Delete a node; what came of it is the rc of the next step. */
bool simba__zk_errand_delete(struct simba__zk_errand *errand, const char *path);

/** Make room for so many items; false: no memory. */
bool simba__zk_errand_items(struct simba__zk_errand *errand, int count);

#endif
