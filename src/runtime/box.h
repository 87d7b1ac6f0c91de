/* An operation and whose it is. It outlives a caller that does not wait for it,
 * so it has copies of the names. */
#ifndef SIMBA_RUNTIME_BOX_H
#define SIMBA_RUNTIME_BOX_H

#include <simba/sys/backend.h>

struct simba__box;

/* Who sends operations and hears what came of them, inside the loop. */
struct simba__caller {
    void (*done)(struct simba__caller *self,
                 const struct simba__box *box,
                 int status,
                 const simba_error *error);
    struct simba__box *boxes; /* under way */
};

struct simba__box {
    simba_request request;
    struct simba__caller *caller; /* NULL: nobody waits any more */
    struct simba__box *next;
    simba_report *report; /* list, line, findings; NULL: none */
    bool is_report_short; /* there was no memory for it */
    char *reason;
    char id[SIMBA_ID_MAX + 1];
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

/** Make one like this, with its own copies of the texts, unanswered; NULL: no
 * memory. An `id` of NULL is nobody's. */
struct simba__box *simba__box_make(const simba_request *request);

/** Where a backend puts what it lists; NULL and marked when memory is out. */
simba_report *simba__box_report(simba_request *request);

/** Free one that was not sent; NULL is a no-op. */
void simba__box_free(struct simba__box *box);

/** Give it to the backend, which may complete it at once. */
void simba__box_send(struct simba__box *box,
                     struct simba__caller *caller,
                     simba_backend *backend);

/** The caller is going: what is under way ends unheard. */
void simba__caller_leave(struct simba__caller *caller);

#endif
