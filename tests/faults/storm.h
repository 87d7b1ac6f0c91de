#ifndef SIMBA_TEST_FAULTS_STORM_H
#define SIMBA_TEST_FAULTS_STORM_H
/* One storm: who contends, what befell them, and what may excuse a breach. The
 * run is storm.c's, the faults are those of nemeses.c. */
#include "oracle.h"
#include "section.h"
#include "stores.h"

#include <stdio.h>
#include <sys/types.h>

enum { CONTENDERS_MOST = 16, TREE_MOST = 64 };

struct contender {
    pid_t pid;
    bool is_command; /* of the command line, else of the API */
    int mutex;
};

extern struct storm {
    const struct store *store;
    char directory[256], boot[40];
    uint64_t state, contenders_state; /* of chance */
    struct contender contenders[CONTENDERS_MOST];
    int contender_count;
    bool is_over;
    bool is_short;   /* with few contenders and no trace: nobody keeps it */
    uint64_t longer; /* 7: all sections are long, to be seen in a limit */
    struct excuse *excuses;
    size_t excuse_count, excuse_room;
    int outlived; /* leases that were outlived by a stopped command */
    FILE *faults; /* a log that simba verify reads */
} storm;

int storm_lease_ms(void);

/** Meanwhile who has ended comes again. */
void storm_rest_ms(int64_t ms);

/** A process and all below it, itself first; the new count of `pids`. */
int storm_find_tree(pid_t root, pid_t *pids, int count);

/* --- faults -------------------------------------------------------------- */

struct nemesis {
    const char *name;
    bool (*strike)(void); /* false: this store has none, or nobody was there */
    int weight;           /* 0: a limit, by its name only */
    int count;
};

/** Ends with one without a name. */
extern struct nemesis nemeses[];

uint64_t nemesis_draw_by(uint64_t *state);

/** A number below this one, for the nemesis. */
uint64_t nemesis_draw(uint64_t below);

/** By weight. */
struct nemesis *nemesis_draw_any(void);

void nemesis_strike(struct nemesis *nemesis);
int nemesis_count_faults(void);

/** The processes of one machine stop while the command holds this mutex (any:
 * below 0), and go on when its lease is over; false: nobody was inside. */
bool nemesis_stop_whole(int mutex);

#endif
