/* Every schedule of two contenders and one mutex, up to a number of choices.
 *
 *   exhaust [DEPTH]            search all; fails at the first broken one. One
 *                              owner at a time to this depth; two who share,
 * and one who shares beside one who does not, to two less exhaust_planted
 * [DEPTH]    plants the faults that this depth must find
 *
 * A choice is: deliver any message under way, lose the oldest one, fire the
 * next timer, let a try or a whole lease pass, stop or start a contender. */
#include "core/contend.h"
#include "core/mutex_record.h"
#include "core/plant.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 2, UNDER_WAY_MOST = 6, QUEUE = 16, DEPTH_MOST = 32 };

enum parcel_kind { TO_STORE, TO_NODE };

struct parcel {
    enum parcel_kind kind;
    int node;
    simba_request request; /* on the way back with its reply */
    struct simba__contend_event event;
};

/* All there is, in one piece, so that a branch is a copy. */
struct state {
    int64_t now;
    struct simba__contend node[NODES];
    struct simba__rng rng[NODES];
    struct simba__contend_tenure tenure[NODES];
    bool is_told[NODES], is_calling[NODES];
    struct simba__mutex_record record;
    uint64_t newest_token;
    const char *broken; /* the first rule broken, or NULL */
    int under_way_count;
    const struct parcel *under_way[UNDER_WAY_MOST];
    /* Only so much of these as is used. */
    struct simba__tenure others[QUEUE];
    struct simba__waiter queue[QUEUE];
    struct simba__tombstone tombstones[QUEUE];
};

static const struct simba__contend_config config = {
    .lease = {.ttl_ms = 400, .transition_ms = 200, .budget_ms = 60},
    .join = true,
};

static struct simba__contend_config configs[NODES]; /* of the present search */
static unsigned long long schedules;
static int path[DEPTH_MOST], path_length;

/* What was posted on the way to the present state: a branch has only to note
 * which of it is still under way. */
enum { PARCELS = 4 * (DEPTH_MOST + 1) };
static struct parcel parcels[PARCELS];
static int parcel_count;

static void blame(struct state *s, const char *what)
{
    if (s->broken == NULL) {
        s->broken = what;
    }
}

static void post(struct state *s, const struct parcel *p)
{
    if (s->under_way_count < UNDER_WAY_MOST) { /* a full network drops */
        assert(parcel_count < PARCELS);
        parcels[parcel_count] = *p;
        s->under_way[s->under_way_count++] = &parcels[parcel_count++];
    }
}

/* --- contenders ---------------------------------------------------------- */

static void hear(struct state *s, int i, const struct simba__contend_update *up)
{
    struct parcel back = {.kind = TO_NODE, .node = i};

    if (up->tell & SIMBA__TELL_RELEASED) {
        if (!s->is_told[i]) {
            blame(s, "S9: released without acquired");
        }
        s->is_told[i] = false;
        s->is_calling[i] = true;
        back.event.type = SIMBA__RETURNED;
        post(s, &back);
    }
    if (up->send.kind == SIMBA_RELEASE && s->is_calling[i] &&
        !s->node[i].is_overrun) {
        blame(s, "S6: store told while on_released runs");
    }
    if (up->tell & SIMBA__TELL_ACQUIRED) {
        if (s->is_told[i] || s->is_calling[i]) {
            blame(s, "S9: acquired twice");
        }
        s->is_told[i] = true;
    }
}

static void feed(struct state *s, int i, struct simba__contend_event event)
{
    struct simba__contend_update up = {0}; /* the reply is not set */
    struct parcel out = {.kind = TO_STORE, .node = i};

    event.now_ms = s->now;
    event.rng = &s->rng[i];
    if (event.type == SIMBA__RETURNED) {
        s->is_calling[i] = false;
    }
    simba__contend_step(&s->node[i], &event, &up);
    hear(s, i, &up);
    if (up.send.kind != SIMBA_NO_REQUEST) {
        out.request = up.send;
        out.request.id = i == 0 ? "a" : "b";
        post(s, &out);
    }
}

/* --- the store ----------------------------------------------------------- */

static bool always_connected(void *self, uint64_t connection)
{
    (void)self;
    (void)connection;
    return true;
}

static void post_wake(void *self, const struct simba__waiter *waiter)
{
    struct parcel wake = {.kind = TO_NODE, .node = (int)waiter->connection};

    wake.event.type = SIMBA__WAKE_UP;
    post(self, &wake);
}

static void check_served(struct state *s,
                         const struct parcel *p,
                         const simba_reply *reply,
                         simba_attempt before)
{
    bool was_same = simba__attempt_equal(before, p->request.attempt);

    if (p->request.kind == SIMBA_RENEW && reply->mine && !was_same) {
        blame(s, "S5: renewed another tenure");
    }
    if (p->request.kind == SIMBA_ACQUIRE && reply->mine && !was_same) {
        if (reply->token <= s->newest_token) {
            blame(s, "S4: token does not grow");
        }
        s->newest_token = reply->token;
    }
}

static void serve(struct state *s, const struct parcel *p)
{
    struct simba__mutex_host host = {
        .self = s, .is_connected = always_connected, .wake = post_wake};
    struct simba__mutex_request given = {
        .request = &p->request,
        .connection = (uint64_t)p->node,
        .now_ms = s->now,
    };
    const struct simba__tenure *mine;
    simba_attempt before = {0, 0};
    struct parcel back = {
        .kind = TO_NODE, .node = p->node, .request = SIMBA_REQUEST_INIT};

    mine = simba__mutex_find_tenure(&s->record, p->request.attempt);
    if (mine != NULL && simba__tenure_is_live(mine, s->now)) {
        before = mine->attempt;
    }
    assert(s->record.queue_count < QUEUE && s->record.tombstone_count < QUEUE &&
           s->record.other_count < QUEUE);
    if (simba__mutex_serve(&s->record, &host, &given, &back.request.reply)) {
        check_served(s, p, &back.request.reply, before);
        back.event.type = SIMBA__REPLIED;
        back.event.seq = p->request.seq;
        back.event.outcome = SIMBA__ANSWERED;
        post(s, &back);
    }
}

/* --- choices ------------------------------------------------------------- */

static const struct parcel *take(struct state *s, int k)
{
    const struct parcel *p = s->under_way[k];

    s->under_way_count--;
    memmove(&s->under_way[k], &s->under_way[k + 1],
            (size_t)(s->under_way_count - k) * sizeof p);
    return p;
}

static void deliver(struct state *s, int k)
{
    const struct parcel *p = take(s, k);
    struct simba__contend_event event = p->event;

    if (p->kind == TO_STORE) {
        serve(s, p);
    } else {
        event.reply = &p->request.reply;
        feed(s, p->node, event);
    }
}

static void fire_timer(struct state *s)
{
    int64_t first = simba__contend_wake_at(&s->node[0]);
    int64_t second = simba__contend_wake_at(&s->node[1]);
    int who = second < first;
    int64_t at = who ? second : first;

    if (at != SIMBA__NEVER) {
        s->now = at > s->now ? at : s->now;
        feed(s, who, (struct simba__contend_event){.type = SIMBA__TIMER});
    }
}

static void toggle(struct state *s)
{
    bool is_idle = s->node[0].phase == SIMBA__IDLE;
    struct simba__contend_event event = {.type = is_idle ? SIMBA__START
                                                         : SIMBA__STOP};

    feed(s, 0, event);
}

static void apply(struct state *s, int choice)
{
    int rest = choice - s->under_way_count;

    if (rest < 0) {
        deliver(s, choice);
    } else if (rest == 0) {
        fire_timer(s);
    } else if (rest == 1) {
        s->now += 120; /* a try is given up */
    } else if (rest == 2) {
        s->now += simba__lease_over_ms(&config.lease);
    } else if (rest == 3) {
        toggle(s);
    } else if (s->under_way_count > 0) {
        take(s, 0); /* lost */
    }
    if (simba__contend_is_owner(&s->node[0], s->now) &&
        simba__contend_is_owner(&s->node[1], s->now) &&
        (configs[0].slots < 2 || configs[1].slots < 2 ||
         s->tenure[0].slot == s->tenure[1].slot)) {
        blame(s, "S1: two owners");
    }
}

static void copy_state(struct state *to, const struct state *from)
{
    memcpy(to, from, offsetof(struct state, others));
    for (int i = 0; i < NODES; i++) {
        to->node[i].tenure = &to->tenure[i];
    }
    memcpy(to->others, from->others,
           from->record.other_count * sizeof *to->others);
    memcpy(to->queue, from->queue,
           from->record.queue_count * sizeof *to->queue);
    memcpy(to->tombstones, from->tombstones,
           from->record.tombstone_count * sizeof *to->tombstones);
    to->record.others = to->others; /* the memory is part of the state */
    to->record.queue = to->queue;
    to->record.tombstones = to->tombstones;
}

/* Returns whether everything below is as it should be. */
static bool explore(const struct state *from, int depth_left)
{
    struct state s;
    int posted = parcel_count;
    int choices = from->under_way_count + 4 + (from->under_way_count > 0);

    if (depth_left == 0) {
        schedules++;
        return true;
    }
    for (int choice = 0; choice < choices; choice++) {
        copy_state(&s, from);
        parcel_count = posted;
        path[path_length++] = choice;
        apply(&s, choice);
        if (s.broken != NULL) {
            printf("# %s, by the choices", s.broken);
            for (int i = 0; i < path_length; i++) {
                printf(" %d", path[i]);
            }
            printf("\n");
            return false;
        }
        if (!explore(&s, depth_left - 1)) {
            return false;
        }
        path_length--;
    }
    return true;
}

static void begin(struct state *s)
{
    memset(s, 0, sizeof *s);
    s->now = 1000;
    s->record.others = s->others;
    s->record.queue = s->queue;
    s->record.tombstones = s->tombstones;
    s->record.other_room = s->record.queue_room = QUEUE;
    s->record.tombstone_room = QUEUE;
    for (int i = 0; i < NODES; i++) {
        simba__rng_seed(&s->rng[i], (uint64_t)i + 1);
        simba__contend_init(&s->node[i], &configs[i]);
        s->node[i].tenure = &s->tenure[i];
        feed(s, i, (struct simba__contend_event){.type = SIMBA__START});
    }
}

static bool search(int depth, uint32_t first, uint32_t second)
{
    static struct state start;
    bool is_fine;

    configs[0] = configs[1] = config;
    configs[0].slots = first;
    configs[1].slots = second;
    schedules = 0;
    path_length = parcel_count = 0;
    begin(&start);
    is_fine = explore(&start, depth);
    printf("# depth %d, %u and %u slots: %llu schedules, %s\n", depth, first,
           second, schedules, is_fine ? "none broken" : "one broken");
    return is_fine;
}

#ifdef SIMBA_PLANTABLE
enum simba__plant simba__plant;

static int run(int depth)
{
    static const enum simba__plant plants[] = {
        SIMBA__PLANT_LEASE_FROM_REPLY, SIMBA__PLANT_OWNER_FLAG,
        SIMBA__PLANT_STALE_REPLIES,    SIMBA__PLANT_RELEASE_FIRST,
        SIMBA__PLANT_TELL_TWICE,       SIMBA__PLANT_RENEW_CREATES,
        SIMBA__PLANT_ACQUIRE_BY_ID,    SIMBA__PLANT_LIMIT_MINE_ONLY,
    };
    int count = (int)(sizeof plants / sizeof *plants), missed = 0;

    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        simba__plant = plants[i];
        bool is_shared = plants[i] == SIMBA__PLANT_LIMIT_MINE_ONLY;
        bool is_found = !search(depth, 0, is_shared ? UINT32_MAX : 0);
        missed += !is_found;
        printf("%s %d - planted fault %d is found\n",
               is_found ? "ok" : "not ok", i + 1, (int)plants[i]);
    }
    return missed > 0;
}
#else
static int run(int depth)
{
    int less = depth > 2 ? depth - 2 : 1;

    return !(search(depth, 0, 0) && search(less, 2, 2) &&
             search(less, UINT32_MAX, 0));
}
#endif

int main(int argc, char **argv)
{
    int depth = argc > 1 ? atoi(argv[1]) : 8;

    if (depth < 1 || depth > DEPTH_MOST) {
        fputs("usage: exhaust [DEPTH]\n", stderr);
        return 64;
    }
    return run(depth);
}
