/* Backends that are broken on purpose: what a mistake is made of. */
#ifndef SIMBA_TESTS_TCK_BROKEN_H
#define SIMBA_TESTS_TCK_BROKEN_H

#include "core/mutex_record.h"
#include "core/plant.h"

#include <simba/sys/backend.h>

/* What is done to a request before it is carried out, and to its answer;
 * with the space of the mutexes locked. */
struct fault {
    const char *name;
    enum simba__plant plant;
    void (*before)(struct simba__mutex_record *record, simba_request *request);
    void (*after)(struct simba__mutex_record *record, simba_request *request);
    bool no_wakes, one_wake, wrong_wake, wake_grants, late_refusals;
    int wakes_late_ms;
    int gives_up_ms; /* 0: never; once a request fails, after so long */
    enum simba_request_kind gives_up;   /* the first of that kind; 0: any */
    enum simba_request_kind never_done; /* 0: all are; MUTE: none */
    bool list_mixes_owners, list_escapes;
    int list_most;    /* 0: all are listed */
    bool no_observed; /* observers are told nothing */
    enum simba_request_kind wakes_nobody, owners_untold; /* of this kind */
    bool dead_told, list_omits_free, breaks_say_now, breaks_in_seconds;
    bool told_cut, unsubscribes_all;
    bool told_mixed, told_kept, told_lasts, breaks_untold;
    void (*rename)(char *mutex);
};

enum { MUTE = 99 };

#define PLANT(fault) .plant = SIMBA__PLANT_##fault

/* The mistakes; each table ends with one that has no name. */
extern const struct fault broken_tenures[];
extern const struct fault broken_others[];
extern const struct fault broken_more[];

/* What the memory store of this module calls instead of the functions that are
 * named like them. */
void broken_wake(simba_loop *loop, const char *mutex);
void broken_post(simba_loop *loop, void (*run)(void *), void *argument);
void broken_observed(simba_loop *loop,
                     const char *mutex,
                     const simba_owner *owner,
                     uint64_t ended);
void broken_add_mutex(simba_request *request,
                      const char *mutex,
                      const simba_owner *owner,
                      int waiting);
void broken_add_told(simba_request *request,
                     const char *mutex,
                     uint64_t token,
                     const char *text);
void broken_add_broken(simba_request *request, const simba_broken *broken);
void broken_add_owner(simba_request *request, const simba_owner *owner);
bool broken_next_waiter(struct simba__waiter_walk *walk, simba_waiter *told);
bool broken_serve(struct simba__mutex_record *record,
                  const struct simba__mutex_host *host,
                  const struct simba__mutex_request *given,
                  simba_reply *reply);
void broken_done(simba_request *request, int status, const simba_error *error);

/** Is this the attempt that the record has for its tenure, lapsed or not? */
bool broken_is_present(const struct simba__mutex_record *record,
                       const simba_request *request);

#endif
