#define _GNU_SOURCE
#include "runtime/contention.h"

#include "runtime/fork.h"
#include "util/container.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* How long a store may take to keep what is told. */
enum { TELL_MS = 5000 };

/* --- configs ------------------------------------------------------------- */

/* Most contenders of a loop are made alike, one after the other, and share. */
struct simba__shared_config {
    struct simba__contend_config config; /* first: machines point to it */
    size_t users;
    int64_t waiter_ms; /* of their acquires */
};

static struct simba__shared_config *shared_config_of(
    const struct simba__contend_config *config)
{
    return (struct simba__shared_config *)(uintptr_t)config;
}

int64_t simba__contention_waiter_ms(const struct simba__contention *c)
{
    return shared_config_of(c->core.config)->waiter_ms;
}

/* NULL: no memory. */
static const struct simba__contend_config *share_config(
    simba_loop *loop,
    const struct simba__contend_config *config)
{
    struct simba__shared_config *shared = loop->last_config;

    if (shared == NULL ||
        !simba__contend_config_is_same(&shared->config, config)) {
        shared = malloc(sizeof *shared);
        if (shared == NULL) {
            return NULL;
        }
        *shared = (struct simba__shared_config){.config = *config};
        loop->last_config = shared;
    }
    shared->users++;
    return &shared->config;
}

static void unshare_config(simba_loop *loop,
                           const struct simba__contend_config *config)
{
    struct simba__shared_config *shared = shared_config_of(config);

    if (--shared->users == 0) {
        if (loop->last_config == shared) {
            loop->last_config = NULL;
        }
        free(shared);
    }
}

/* --- the machine --------------------------------------------------------- */

static void publish(struct simba__contention *c)
{
    const struct simba__contend *core = &c->core;
    int64_t until = simba__contend_owner_until(core);

    atomic_store(&c->token, until == 0 ? 0 : simba__contend_token(core));
    atomic_store(&c->owner_until_ms, until);
    atomic_store(&c->is_heard, core->is_heard);
    atomic_store(&c->is_held_back, core->is_progress_asked && until != 0 &&
                                       core->inflight == SIMBA_NO_REQUEST &&
                                       core->due_ms == SIMBA__NEVER);
    if (c->hooks->published != NULL) {
        c->hooks->published(c);
    }
}

/* A slow store must not get more and more to do; what is told is told again
 * with the next renewal. */
static void tell(struct simba__contention *c, uint64_t token, const char *text)
{
    const struct simba__lease *lease = &c->core.config->lease;
    const simba_request request = {.kind = SIMBA_TELL,
                                   .mutex = simba__contention_mutex(c),
                                   .id = simba__contention_id(c),
                                   .token = token,
                                   .ttl_ms = lease->ttl_ms,
                                   .transition_ms = lease->transition_ms,
                                   .deadline_ms = simba_loop_now_ms() + TELL_MS,
                                   .reason = text};
    struct simba__pending *pending =
        text != NULL && c->teller->caller.pending != NULL
            ? NULL
            : simba__request_make(&request);

    if (pending != NULL) {
        c->teller->token = text == NULL ? 0 : token;
        simba__request_send(pending, &c->teller->caller, c->loop->front);
    }
}

static void told(struct simba__caller *caller,
                 const struct simba__pending *pending,
                 int status,
                 const simba_error *error)
{
    struct simba__contention *c =
        container_of(caller, struct simba__teller, caller)->contention;

    (void)pending;
    if (status != SIMBA_OK && !c->teller->is_failing) {
        c->teller->untold(c, status, error);
    }
    c->teller->is_failing = status != SIMBA_OK;
}

bool simba__contention_was_broken(const struct simba__contention *c,
                                  const struct simba__contend_update *update)
{
    const simba_owner *heard = simba__contention_heard(c);

    return update->cause == SIMBA__CAUSE_GONE && heard != NULL &&
           heard->is_broken && heard->token == update->token;
}

static void find_metrics(struct simba__contention *c)
{
    if (c->metrics.counts == NULL) {
        simba__metrics_find(&c->metrics, &c->loop->metrics,
                            simba__contention_mutex(c));
    }
}

static void set_timer(struct simba__contention *c)
{
    int64_t at_ms = simba__contend_wake_at(&c->core);

    if (simba__look_suits(c)) {
        simba_timer_clear(c->loop, &c->timer);
        simba__look_later(c, at_ms);
    } else {
        simba_timer_set(c->loop, &c->timer, at_ms);
    }
}

/* What comes last may feed the machine again: a backend that answers at once
 * does so from within submit. */
static void feed(struct simba__contention *c, struct simba__contend_event event)
{
    const struct simba__contend *core = &c->core;
    struct simba__contend_update update;
    simba_request *request = &update.send;
    enum simba_subscription wanted;
    struct simba__pending *pending;
    simba_error error;
    int64_t now_us = simba__loop_now_us();

    assert(simba__loop_is_inside(c->loop));
    event.now_ms = now_us / 1000;
    event.rng = &c->loop->rng;
    event.is_full = simba__request_is_full(c->loop);
    simba__look_forget(c);
    simba__contend_step(&c->core, &event, &update);
    publish(c);
    if (core->is_held) {
        assert(simba__contend_wake_at(core) == SIMBA__NEVER);
        simba_timer_clear(c->loop, &c->timer);
        simba__request_hold(c->loop, &c->timer);
    } else {
        if (simba__ring_has(&c->timer)) {
            simba__request_unhold(c->loop, &c->timer);
        }
        set_timer(c);
    }
    /* Who was refused wants to be woken when it may be granted. */
    simba__subscriber_move(&c->subscriber,
                           core->phase == SIMBA__WAITING ? core->position : 0);
    wanted = core->phase == SIMBA__WAITING && core->is_heard && core->join
                 ? SIMBA_SUBSCRIBE_WAIT
                 : SIMBA_SUBSCRIBE_NONE;
    if (c->subscriber.subscription != wanted) {
        simba__subscribe(c->loop, &c->subscriber, wanted);
    }
    if (update.tell != 0) {
        find_metrics(c);
        c->metrics.was_broken = simba__contention_was_broken(c, &update);
        simba__metrics_tell(&c->metrics, &c->loop->metrics, &update, now_us);
        c->hooks->told(c, &update);
    }
    if (request->kind == SIMBA_NO_REQUEST) {
        return;
    }
    request->mutex = simba__contention_mutex(c);
    request->id = simba__contention_id(c);
    request->is_driven = simba__loop_is_driver(c->loop);
    if (request->kind == SIMBA_RELEASE && c->teller != NULL &&
        c->teller->token != 0) {
        tell(c, c->teller->token, NULL);
    }
    pending = request->kind != SIMBA_ACQUIRE || c->hooks->prepare == NULL ||
                      c->hooks->prepare(c)
                  ? simba__request_make(request)
                  : NULL;
    if (pending != NULL) {
        if (request->kind == SIMBA_ACQUIRE) {
            simba__metrics_ask(&c->metrics, now_us);
            shared_config_of(core->config)->waiter_ms = request->waiter_ms;
        }
        pending->sent_ms = event.now_ms;
        simba__request_send(pending, &c->caller, c->loop->front);
        return;
    }
    /* It had no effect, and the machine will try again. A caller that waits can
     * hear of it at once. */
    simba_error_set(&error, SIMBA_ENOMEM, 0, "out of memory");
    feed(c, (struct simba__contend_event){.type = SIMBA__REPLIED,
                                          .seq = request->seq,
                                          .outcome = SIMBA__FAILED});
    if (c->hooks->answered != NULL) {
        c->hooks->answered(c, request, SIMBA_ENOMEM, &error);
    }
}

/* Who has this place among the subscribers. */
static struct simba__contention *contention_at(simba_timer *place)
{
    return container_of(place, struct simba__contention, subscriber.place);
}

/* The mutex is offered to one behind us. If it is of this handle, it was not
 * among the two that the wake-up was passed on to. */
static void wake_successor(const struct simba__contention *c, const char *id)
{
    simba_timer *one = c->subscriber.of->queue;

    while (one != NULL &&
           strcmp(simba__contention_id(contention_at(one)), id) != 0) {
        one = simba__heap_next(one);
    }
    if (one != NULL) {
        one->fire(one);
    }
}

/* An answer in hand. Before all have heard of it another may come, to another
 * contender or to the same. */
struct simba__heard {
    const struct simba__contention *by; /* NULL: it has heard a newer one */
    const simba_owner *owner;
    struct simba__heard *before;
};

const simba_owner *simba__contention_heard(const struct simba__contention *c)
{
    const struct simba__heard *heard = c->loop->heard;

    while (heard != NULL && heard->by != c) {
        heard = heard->before;
    }
    return heard == NULL ? NULL : heard->owner;
}

static void forget_heard(simba_loop *loop, const struct simba__heard *heard)
{
    assert(loop->heard == heard);
    loop->heard = heard->before;
    for (struct simba__heard *h = heard->before; h != NULL; h = h->before) {
        if (h->by == heard->by) {
            h->by = NULL;
        }
    }
}

static void done(struct simba__caller *caller,
                 const struct simba__pending *pending,
                 int status,
                 const simba_error *error)
{
    struct simba__contention *c =
        container_of(caller, struct simba__contention, caller);
    const simba_request *request = &pending->request;
    bool is_mine = status == SIMBA_OK && request->reply.mine;
    /* An answer that was given up by the machine is old news: somebody else
     * may have owned the mutex then, and we do now. */
    bool is_awaited =
        c->core.inflight != SIMBA_NO_REQUEST && request->seq == c->core.seq;
    /* But why it failed the user still wants to know. */
    bool is_heard =
        is_awaited ||
        (status != SIMBA_OK && request->attempt.high == c->core.attempt.high &&
         request->attempt.low == c->core.attempt.low);
    bool is_news = is_awaited && status == SIMBA_OK &&
                   request->kind != SIMBA_RELEASE &&
                   request->kind != SIMBA_LEAVE;
    struct simba__heard heard = {c, &request->reply.owner, c->loop->heard};

    if (is_news) {
        c->loop->heard = &heard;
    }
    /* Counted before the machine hears of it, from what was. */
    if (is_heard && request->kind == SIMBA_ACQUIRE && status == SIMBA_OK &&
        !is_mine) {
        c->metrics.was_refused = true;
    } else if (is_heard && request->kind == SIMBA_RENEW &&
               c->metrics.is_owner) {
        find_metrics(c);
        simba__metrics_renewed(&c->metrics, is_mine,
                               simba__contend_owner_until(&c->core) -
                                   simba_loop_now_ms());
    }
    feed(c, (struct simba__contend_event){
                .type = SIMBA__REPLIED,
                .seq = request->seq,
                .outcome = status == SIMBA_OK         ? SIMBA__ANSWERED
                           : status == SIMBA_EUNKNOWN ? SIMBA__UNKNOWN
                                                      : SIMBA__FAILED,
                .reply = &request->reply});
    if (status == SIMBA_OK && request->kind == SIMBA_ACQUIRE && !is_mine &&
        request->reply.to[0] != '\0') {
        wake_successor(c, request->reply.to);
    }
    if (is_heard && c->hooks->answered != NULL) {
        c->hooks->answered(c, request, status, error);
    }
    if (is_news) {
        forget_heard(c->loop, &heard);
    }
    if (c->teller != NULL && is_awaited && is_mine &&
        simba__contend_owner_until(&c->core) != 0) {
        tell(c, simba__contend_token(&c->core), c->teller->text);
    }
}

static void hear_progress(struct simba__contention *c)
{
    int64_t given = atomic_load(&c->progress_ms);

    if (c->core.is_progress_asked && c->core.tenure != NULL &&
        given > c->core.tenure->progress_ms) {
        feed(c, (struct simba__contend_event){.type = SIMBA__PROGRESS,
                                              .progress_ms = given});
    }
}

static void on_timer(simba_timer *timer)
{
    struct simba__contention *c =
        container_of(timer, struct simba__contention, timer);

    hear_progress(c);
    feed(c, (struct simba__contend_event){.type = SIMBA__TIMER});
}

static void on_wake(simba_timer *place)
{
    feed(contention_at(place),
         (struct simba__contend_event){.type = SIMBA__WAKE_UP});
}

static void on_message(struct simba__message *message)
{
    struct simba__contention *c =
        container_of(message, struct simba__contention, message);

    atomic_store(&c->is_message_due, false);
    if (atomic_exchange(&c->is_returned, false)) {
        feed(c, (struct simba__contend_event){.type = SIMBA__RETURNED});
    }
    hear_progress(c);
}

static void send_message(struct simba__contention *c)
{
    if (!atomic_exchange(&c->is_message_due, true)) {
        simba__loop_send(c->loop, &c->message);
    }
}

/* --- life ---------------------------------------------------------------- */

int simba__contention_open(struct simba__contention *c,
                           const struct simba__contend_config *config,
                           const char *mutex,
                           simba_error *error)
{
    const struct simba__contend_config *shared = share_config(c->loop, config);

    assert(c->hooks->told != NULL && c->subscriber.of == NULL);
    c->caller.done = done;
    c->subscriber.place.fire = on_wake;
    c->timer.fire = on_timer;
    if (c->teller != NULL) {
        c->teller->contention = c;
        c->teller->caller.done = told;
    }
    c->message.run = on_message;
    if (shared == NULL ||
        !simba__subscriber_add(c->loop, &c->subscriber, mutex)) {
        if (shared != NULL) {
            unshare_config(c->loop, shared);
        }
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    c->loop->metrics.contenders++;
    simba__contend_init(&c->core, shared);
    return SIMBA_OK;
}

void simba__contention_close(struct simba__contention *c)
{
    assert(c->core.phase == SIMBA__IDLE && c->look == SIMBA__NO_LOOK);
    simba_timer_clear(c->loop, &c->timer);
    simba__caller_leave(&c->caller);
    if (c->teller != NULL) {
        simba__caller_leave(&c->teller->caller);
        free(c->teller);
        c->teller = NULL;
    }
    c->loop->metrics.contenders--;
    simba__subscriber_remove(c->loop, &c->subscriber); /* with the name */
    unshare_config(c->loop, c->core.config);
}

void simba__contention_start(struct simba__contention *c, bool join)
{
    assert(c->core.phase == SIMBA__IDLE);
    c->core.join = join;
    feed(c, (struct simba__contend_event){.type = SIMBA__START});
}

void simba__contention_stop(struct simba__contention *c)
{
    assert(c->core.phase != SIMBA__IDLE);
    feed(c, (struct simba__contend_event){.type = SIMBA__STOP});
}

bool simba__contention_rests(const struct simba__contention *c)
{
    return c->core.phase == SIMBA__WAITING && !c->core.is_calling &&
           c->core.inflight == SIMBA_NO_REQUEST;
}

bool simba__contention_hand_over(struct simba__contention *c, const char *to)
{
    bool is_owner = c->core.phase == SIMBA__OWNER &&
                    simba_loop_now_ms() < simba__contend_owner_until(&c->core);

    if (is_owner) {
        feed(c,
             (struct simba__contend_event){.type = SIMBA__HAND_OVER, .to = to});
    }
    return is_owner;
}

void simba__contention_returned(struct simba__contention *c)
{
    atomic_store(&c->is_returned, true);
    send_message(c);
}

void simba__contention_ask_progress(struct simba__contention *c, bool is_asked)
{
    is_asked = is_asked && c->core.config->progress_ms > 0;
    if (c->core.is_progress_asked != is_asked) {
        c->core.is_progress_asked = is_asked;
        feed(c, (struct simba__contend_event){.type = SIMBA__PROGRESS});
    }
}

void simba__contention_progress(struct simba__contention *c)
{
    if (simba__is_forked(c->loop->mark)) {
        return;
    }
    atomic_store(&c->progress_ms, simba_loop_now_ms());
    if (atomic_load(&c->is_held_back)) {
        send_message(c);
    }
}

bool simba__contention_is_owner(const struct simba__contention *c)
{
    int64_t until = atomic_load(&c->owner_until_ms);

    return until != 0 && simba_loop_now_ms() < until &&
           !simba__is_forked(c->loop->mark);
}

/* Another tenure may begin while we look, and then the answer to the question
 * in between was about that one. Tokens never come again, so if it is the same
 * before and after, nothing changed. */
uint64_t simba__contention_token(const struct simba__contention *c)
{
    uint64_t token = atomic_load(&c->token);

    return simba__contention_is_owner(c) && atomic_load(&c->token) == token
               ? token
               : 0;
}
