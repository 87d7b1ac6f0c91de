/* What the contenders of a world ask and hear, for the history checker that
 * also reads the logs of real runs (tools/verify). It is told no more than a
 * trace tells. */
#include "sim/world.h"
#include "verify/history.h"

#include <stdlib.h>
#include <string.h>

static void on_found(void *user, const struct simba__history_finding *finding)
{
    struct world *w = user;

    if (finding->kind == SIMBA__UNFAIR && w->is_queue_hidden) {
        return;
    }
    violate(w, HISTORY, "%s: %s, token %llu, and %s, token %llu",
            simba__finding_word(finding->kind), finding->deed->id,
            (unsigned long long)finding->token, finding->other_id,
            (unsigned long long)finding->other_token);
}

void record_begin(struct world *w)
{
    /* Where requests are doubled, connections break or data is lost, a waiter
     * may have had the mutex, or looked dead, and no trace tells. */
    w->is_queue_hidden = w->weather.copy > 0 || w->weather.reset > 0 ||
                         w->weather.store_restart > 0 ||
                         w->weather.hand_over > 0 || w->weather.admin_ask > 0;
    w->history = simba__history_open(on_found, w);
    if (w->history == NULL) {
        abort();
    }
}

void record_end(struct world *w)
{
    simba__history_close(w->history);
    w->history = NULL;
}

static void add(struct world *w, struct simba__deed *deed)
{
    deed->at_us = w->now_us;
    deed->where.line = 1;
    deed->mutex[0] = 'm';
    if (!simba__history_add(w->history, deed)) {
        abort();
    }
}

static void name_node(const struct world *w, int i, struct simba__deed *deed)
{
    const struct node *n = &w->node[i];

    deed->handle = n->life * WORLD_NODES_MOST + (uint64_t)i;
    memcpy(deed->id, n->id, sizeof n->id);
}

static enum simba__deed_request op_of(enum simba_request_kind kind)
{
    static const enum simba__deed_request ops[] = {
        SIMBA__DEED_OTHER, SIMBA__DEED_ACQUIRE, SIMBA__DEED_RENEW,
        SIMBA__DEED_RELEASE, SIMBA__DEED_LEAVE};

    return ops[kind];
}

static struct simba__deed_attempt attempt_of(simba_attempt attempt)
{
    return (struct simba__deed_attempt){attempt.high, attempt.low};
}

/* A span of this node's clock in true time. */
static int64_t true_us(const struct node *n, int64_t local_ms)
{
    return (int64_t)((double)local_ms * 1000.0 / (1.0 + n->rate_ppm / 1e6));
}

/* How long a yes is relied on at most. */
static int64_t use_of(const struct node *n, const struct simba__lease *lease)
{
    return true_us(n, simba__lease_length_ms(lease) -
                          simba__lease_margin_ms(lease));
}

void record_sent(struct world *w, int i, const simba_request *request)
{
    struct simba__deed deed = {.kind = SIMBA__DEED_SENT};

    if (w->history == NULL) {
        return;
    }
    name_node(w, i, &deed);
    deed.number = request->seq;
    deed.request = op_of(request->kind);
    deed.attempt = attempt_of(request->attempt);
    deed.use_us = use_of(&w->node[i], &w->config.lease);
    deed.waiter_us = request->waiter_ms * 500;
    deed.undoes = request->tombstone_ms > 0;
    add(w, &deed);
}

void record_heard(struct world *w, int i, const struct message *m)
{
    const simba_reply *reply = &m->request.reply;
    struct simba__deed deed = {.kind = SIMBA__DEED_ANSWERED};

    if (w->history == NULL) {
        return;
    }
    name_node(w, i, &deed);
    deed.number = m->event.seq;
    deed.outcome = m->event.outcome == SIMBA__ANSWERED ? SIMBA__DEED_HEARD
                   : m->event.outcome == SIMBA__FAILED ? SIMBA__DEED_FAILED
                                                       : SIMBA__DEED_UNKNOWN;
    deed.mine = reply->mine;
    if (reply->mine && reply->lease_ms > 0) {
        struct simba__lease granted =
            simba__lease_shorten(&w->config.lease, reply->lease_ms);

        deed.use_us = use_of(&w->node[i], &granted);
        if (deed.use_us < 1) {
            deed.use_us = 1; /* of no use, but granted */
        }
    }
    deed.token = reply->token;
    deed.is_queued = reply->is_queued;
    deed.position = reply->position;
    deed.slots = w->node[i].slots;
    deed.slot = reply->slot;
    add(w, &deed);
}

void record_broken(struct world *w, uint64_t token, bool at_once)
{
    struct simba__deed deed = {.kind = SIMBA__DEED_SENT,
                               .request = SIMBA__DEED_BREAK,
                               .token = token,
                               .now = at_once};

    if (w->history == NULL) {
        return;
    }
    add(w, &deed);
    deed.kind = SIMBA__DEED_ANSWERED;
    deed.mine = true;
    add(w, &deed);
    if (at_once) {
        deed.kind = SIMBA__DEED_FORCED;
        deed.until_us = w->forced_until_us;
        add(w, &deed);
    }
}
