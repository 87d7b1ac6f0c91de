#ifndef SIMBA_TEST_FAULTS_STORM_H
#define SIMBA_TEST_FAULTS_STORM_H
/* One storm: who contends, what befell them, and what may excuse a breach. The
 * run is storm.c's, the faults are those of nemeses.c. */
#include "oracle.h"
#include "section.h"
#include "stores.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>

enum { CONTENDERS_MOST = 16, TREE_MOST = 64 };

struct contender {
    _Atomic pid_t pid; /* 0: it comes again at once */
    bool is_command;   /* of the command line, else of the API */
    int mutex;
    int side; /* of the network */
};

/** Shared with their keeper, a process of its own, so that they come again
 * whatever a nemesis is busy with. */
struct fleet {
    struct contender contenders[CONTENDERS_MOST];
    int count;
    atomic_bool is_over;
    atomic_int crashed; /* ended by a signal that no nemesis sends */
};

extern struct storm {
    const struct store *store;
    char directory[256], boot[40];
    struct fleet *fleet;
    pid_t keeper;                     /* of the contenders */
    volatile sig_atomic_t stopped_by; /* a signal, or 0 */
    bool is_short;   /* with few contenders and no trace: nobody keeps it */
    uint64_t longer; /* 7: all sections are long, to be seen in a limit */
    struct excuse *excuses;
    size_t excuse_count, excuse_room;
    FILE *faults; /* a log that simba verify reads */
} storm;

/** Says what failed, by errno too: no storm ends without a word. */
_Noreturn void storm_die(const char *what);

int storm_lease_ms(void);

/** No signal has come, and somebody keeps the contenders. */
bool storm_goes_on(void);

void storm_rest_ms(int64_t ms);

/** A process and all below it, itself first; the new count of `pids`. */
int storm_find_tree(pid_t root, pid_t *pids, int count);

/* --- faults -------------------------------------------------------------- */

/** Those of one kind strike one after the other, kinds side by side. */
enum nemesis_kind { OF_PROCESSES, OF_SERVERS, OF_NETWORK, NEMESIS_KINDS };

struct nemesis {
    const char *name;
    bool (*strike)(void); /* false: nobody was there */
    int weight;           /* 0: a limit, by its name only */
    enum nemesis_kind kind;
    size_t needs; /* what of struct store it takes */
    int count;
};

/** Ends with one without a name. */
extern struct nemesis nemeses[];

/** Can it be on this store? */
bool nemesis_is_possible(const struct nemesis *nemesis,
                         const struct store *store);

/** Of this name, if it can be on the store of the storm; NULL: there is none.
 */
struct nemesis *nemesis_find(const char *name);

uint64_t nemesis_draw_by(uint64_t *state);

/** Until so many have struck, or it is late, or the storm is stopped; of this
 * one only, or (NULL) of all. */
void nemesis_strike_all(int faults,
                        int64_t end_us,
                        uint64_t seed,
                        struct nemesis *only);

int nemesis_count_faults(void);

/** Owners outlive their leases, for want of time and of the network. */
void nemesis_outlive(void);

/** The processes of one machine stop while the command holds this mutex (any:
 * below 0), and go on when its lease is over; false: nobody was inside. */
bool nemesis_stop_whole(int mutex);

#endif
