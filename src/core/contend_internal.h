/* What the files of the contention machine share, and nobody else sees.
 *
 *   contend.c        events in, dispatch, timers, invariants
 *   contend_wait.c   WAITING: asking, the line, the backstop
 *   contend_own.c    OWNER: renewing, losing
 *   contend_leave.c  LEAVING and RELEASING: the orderly way out */
#ifndef SIMBA_CORE_CONTEND_INTERNAL_H
#define SIMBA_CORE_CONTEND_INTERNAL_H

#include "core/contend.h"

/* An owner that is woken asks again, but a storm of wake-ups, forged or
 * doubled, must not become a storm of renewals. */
enum { SIMBA__WAKE_SPACING_MS = 50 };

/* Shared pieces (contend.c). */
void simba__contend_send(struct simba__contend *c,
                         enum simba_request_kind kind,
                         int64_t timeout_ms,
                         struct simba__contend_update *up);
int64_t simba__contend_try_ms(int64_t left_ms);
int64_t simba__contend_later(int64_t at_ms, int64_t by_ms);
int64_t simba__contend_backoff_ms(struct simba__contend *c,
                                  int64_t first_ms,
                                  int64_t most_ms);

/* WAITING. */
void simba__contend_begin(struct simba__contend *c, int64_t at_ms);
void simba__contend_ask(struct simba__contend *c,
                        struct simba__contend_update *up);
void simba__contend_asked(struct simba__contend *c,
                          enum simba__outcome outcome,
                          const simba_reply *reply,
                          struct simba__contend_update *up);
int64_t simba__contend_woken_at(const struct simba__contend *c);
void simba__contend_quit(struct simba__contend *c,
                         struct simba__contend_update *up);

/* OWNER. */
void simba__contend_own(struct simba__contend *c,
                        const simba_reply *reply,
                        struct simba__contend_update *up);
void simba__contend_renew(struct simba__contend *c,
                          struct simba__contend_update *up);
void simba__contend_renewed(struct simba__contend *c,
                            const simba_reply *reply,
                            struct simba__contend_update *up);
void simba__contend_lapse(struct simba__contend *c,
                          struct simba__contend_update *up);

/* LEAVING and RELEASING. */
void simba__contend_leave(struct simba__contend *c,
                          enum simba__cause cause,
                          struct simba__contend_update *up);
void simba__contend_left(struct simba__contend *c,
                         struct simba__contend_update *up);
int64_t simba__contend_leave_at(const struct simba__contend *c);
void simba__contend_part(struct simba__contend *c,
                         enum simba_request_kind parting,
                         struct simba__contend_update *up);
void simba__contend_parting(struct simba__contend *c,
                            struct simba__contend_update *up);
void simba__contend_parted(struct simba__contend *c,
                           const simba_reply *reply,
                           struct simba__contend_update *up);
void simba__contend_part_if_over(struct simba__contend *c,
                                 struct simba__contend_update *up);
void simba__contend_finish(struct simba__contend *c,
                           struct simba__contend_update *up);

#endif
