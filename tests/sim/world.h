/* A simulated world: contenders on machines with clocks of their own, one
 * store with its clock, a network between them, and a user on every machine.
 *
 * True time is in microseconds and belongs to nobody but the world. One tick
 * does exactly one thing: the earliest that is due, first posted first. All
 * chance comes from one seed, so a run can be replayed to the letter. */
#ifndef SIMBA_SIM_WORLD_H
#define SIMBA_SIM_WORLD_H

#include "core/contend.h"
#include "core/mutex_record.h"

#include <stdio.h>

#ifndef WORLD_NODES_MOST /* census.c has wider worlds */
#define WORLD_NODES_MOST 8
#endif

enum { WORLD_UNDONE = 32, WORLD_REQUESTS = 16 };

/* The rules the checkers speak for. */
enum rule { S1, S4, S5, S6, S7, S8, S9, S10, S11, PROGRESS, HISTORY, RULES };
extern const char *const rule_names[RULES];

enum message_kind {
    MSG_REQUEST, /* contender to store */
    MSG_REPLY,   /* store to contender */
    MSG_WAKE,    /* store to contender */
    MSG_LOCAL,   /* something inside a node: event.type tells */
    MSG_BOOT,    /* a crashed node comes back */
    MSG_STORE_UP /* a store that went down comes back */
};

struct message {
    enum message_kind kind;
    int node;
    uint64_t life;        /* incarnation of the node concerned */
    uint64_t store_epoch; /* a restart of the store drops older ones */
    uint64_t connection;
    bool is_copy;          /* the network made two of it */
    simba_request request; /* on the way back with its reply */
    char to[16];           /* the request's successor */
    struct simba__contend_event event;
};

/* Where the checkers think a waiter stands in the queue. */
struct queued {
    bool is_in;
    simba_attempt attempt;
    uint64_t position; /* as the store numbered it */
    uint64_t connection;
    int64_t lapses_ms;  /* its waiter lease, store time */
    int64_t offered_ms; /* end of its offer, or 0 */
};

struct node {
    struct simba__contend c;
    struct simba__contend_config config;
    struct simba__rng rng;
    struct simba__contend_tenure tenure;
    char id[16];
    uint32_t slots; /* how many it suffers; 0: none but itself */
    uint64_t life;
    bool is_up;
    bool wants;    /* its user wants the mutex */
    bool is_stuck; /* its user makes no progress */
    int64_t paused_until_us;
    int64_t wake_us; /* true time of the contender's next timer */
    int rate_ppm;
    int64_t offset_ms;
    uint64_t connection; /* the present one */
    uint64_t ghost;      /* an old one the store has not seen die */
    int64_t ghost_until_us;

    /* the user's callbacks, and what the checkers know of them */
    bool is_told;    /* acquired, and not yet released */
    bool is_calling; /* on_released has not returned */
    bool is_inside;  /* from acquired until released returned */
    bool is_excused; /* paused or too slow: S6 can't hold */
    int64_t callback_free_us;
    int64_t was_until_ms; /* newest owner_until */
    bool was_refused;     /* the store refused a renewal of this tenure */
    struct queued queued;
};

/* How bad this world is; drawn from the seed. Chances are per thousand. */
struct weather {
    int drop, copy, late, wake_loss;
    int64_t latency_us, late_us;
    int crash, pause, stop, forge, reset, store_restart, store_wipe;
    int admin_break, admin_force, stuck;
    int64_t mischief_us; /* mean time between two mischiefs */
    int64_t half_open_us;
    int slow_callback;
    int stingy; /* grants less than was asked for */
    int hand_over, admin_ask;
    int full; /* no room for an acquire: others of its handle are under way */
};

/* What the contenders of a world ask for. */
enum sharing {
    EXCLUSIVE,  /* each wants to be alone */
    SLOTTED,    /* all suffer the same number of owners */
    DISAGREEING /* some want to be alone, others suffer a few or any number */
};

struct undone {
    simba_attempt attempt;
    int64_t at_us;
};

struct world {
    uint64_t seed;
    struct simba__rng rng;
    int64_t now_us;
    int node_count;
    struct node node[WORLD_NODES_MOST];
    struct simba__contend_config config;
    struct weather weather;
    enum sharing sharing;
    bool is_told;        /* a story: latencies are what weather says */
    int64_t callback_us; /* a story: how long callbacks take */

    struct simba__mutex_record record;
    struct simba__mutex_host host;
    int store_ppm;
    int64_t store_offset_ms;
    uint64_t store_epoch;
    bool is_store_up;
    int64_t grace_until_us; /* lost its data: grants nothing before */

    /* pending messages: a pool, and a heap of indices into it */
    struct message *pool;
    struct due {
        int64_t at_us;
        uint64_t order;
        int index;
    } * heap;
    int *spare;
    int heap_count, heap_room, spare_count;
    uint64_t posted;
    int64_t next_mischief_us;

    uint64_t sent[WORLD_REQUESTS]; /* requests by their kind, */
    uint64_t backstops;            /* those that nothing was the cause of */
    uint64_t wakes;

    /* the checkers' own knowledge */
    uint64_t grants;
    uint64_t tenures; /* told to users */
    uint64_t newest_token;
    uint64_t newest_position;
    uint64_t position_before; /* of the request being served */
    const char *successor;    /* that it names, or NULL */
    int64_t forced_until_us;  /* S1 may fail for a lease after a force */
    struct undone undone[WORLD_UNDONE];
    int undone_next;
    int violations[RULES];
    int rotations; /* hand-overs watched after healing */

    FILE *trace;                    /* NULL: silent */
    struct simba__history *history; /* NULL: not recorded */
    bool is_queue_hidden; /* from the history: it cannot check fairness */
};

/* world.c */
void world_init(struct world *w, uint64_t seed, FILE *trace);
void world_fini(struct world *w);
uint64_t world_random(struct world *w, uint64_t bound);
bool world_chance(struct world *w, int per_mille);
int64_t world_local_ms(const struct world *w, const struct node *n);
int64_t world_store_ms(const struct world *w);
int64_t world_lease_us(const struct world *w);
void world_post(struct world *w, const struct message *m, int64_t delay_us);
void world_post_local(struct world *w,
                      int node,
                      enum simba__contend_event_type type,
                      int64_t delay_us);
void world_feed(struct world *w, int node, struct simba__contend_event event);
void world_boot(struct world *w, int node);
void world_tick(struct world *w);
void world_run_until(struct world *w, int64_t until_us);
int world_owner(const struct world *w);
bool world_is_owner(const struct world *w, int node);
void world_say(struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* store.c: the model store and the network to it */
void store_open(struct world *w);
void store_send(struct world *w, int node, const simba_request *r);
void store_receive(struct world *w, const struct message *m);
void store_restart(struct world *w, bool loses_data, int64_t down_us);
void store_reset_connection(struct world *w, int node);
void store_wake(struct world *w, int node);
bool store_ask_to_hand_over(struct world *w,
                            const struct simba__tenure *tenure,
                            const char *to);

/* user.c: the callbacks of a simulated user */
void user_hear(struct world *w,
               int node,
               const struct simba__contend_update *up);

/* swarm.c: the weather and the mischief */
void swarm_draw(struct world *w);
void swarm_calm(struct world *w);
void swarm_mischief(struct world *w);
void swarm_crash(struct world *w, int node);

/* heal.c: the second half of a run, when everything must go well */
void heal_and_check(struct world *w);

/* record.c: what the contenders did, for the history checker */
void record_begin(struct world *w);
void record_end(struct world *w);
void record_sent(struct world *w, int node, const simba_request *r);
void record_heard(struct world *w, int node, const struct message *m);
void record_broken(struct world *w, uint64_t token, bool at_once);

/* checkers.c */
void violate(struct world *w, enum rule rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void check_owners(struct world *w);
struct step_before {
    enum simba__contend_phase phase;
    simba_attempt attempt;
    enum simba_request_kind inflight;
};
void check_step(struct world *w,
                int node,
                const struct simba__contend_event *event,
                const struct step_before *before,
                const struct simba__contend_update *up);
void check_served(struct world *w,
                  const struct simba__mutex_record *before,
                  const struct message *m,
                  const simba_reply *reply);
void check_offered(struct world *w);
void check_wiped(struct world *w);

#endif
