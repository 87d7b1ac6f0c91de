/* One mutex between a database server and the row that knows the rules.
 *
 * What a store does with a request is said once, in core/mutex_record.c,
 * where the simulator proves it. Here the answer of a load statement is made
 * into such a row, and what has changed in it afterwards is found. Nothing is
 * locked meanwhile: the write takes effect only if the mutex is still as it was
 * loaded (apply.sql), and else all is done anew. */
#ifndef SIMBA_SQL_RECORD_H
#define SIMBA_SQL_RECORD_H

#include "core/mutex_record.h"

#include <simba/sys/backend.h>

/** Length of a process's name and of an attempt, in hexadecimal. */
enum { SIMBA__SQL_HEX = 32 };

/** How much of a long line is loaded at first. */
enum { SIMBA__SQL_FIRST = 32 };

/** Stands for the token of a tenure that is not ours, where it is told which
 * came before which. */
enum { SIMBA__SQL_ANOTHER = 1 };

/** The version in simba_tenure when it says nothing, for the mutex is quiet. */
enum { SIMBA__SQL_SILENT = -2 };

/** Versions of rows go round before they leave what `int` can hold. */
#define SIMBA__SQL_VERSIONS INT64_C(2147483647)

/* The columns of load.sql, in their order. */
enum simba__sql_column {
    SIMBA__SQL_DONE_US, /* NULL: the fast statement has done nothing */
    SIMBA__SQL_DONE_TOKEN,
    SIMBA__SQL_DONE_ACQUIRED_AT,
    SIMBA__SQL_NOW_US,
    SIMBA__SQL_OWNER_ID, /* NULL: no such row */
    SIMBA__SQL_ACQUIRED_AT,
    SIMBA__SQL_TTL_AT,
    SIMBA__SQL_TRANSITION_AT,
    SIMBA__SQL_FENCING_TOKEN,
    SIMBA__SQL_VERSION,
    SIMBA__SQL_TENURE_VERSION, /* NULL: no such row */
    SIMBA__SQL_TENURE_TOKEN,
    SIMBA__SQL_ATTEMPT,
    SIMBA__SQL_BROKEN,
    SIMBA__SQL_WAITING,
    SIMBA__SQL_CALLED_ATTEMPT,
    SIMBA__SQL_CALLED_ID,
    SIMBA__SQL_CALLED_PROCESS,
    SIMBA__SQL_CALLED_BELL,
    SIMBA__SQL_CALLED_PLACE,
    SIMBA__SQL_CALLED_LAPSES,
    SIMBA__SQL_CALLED_UNTIL,
    SIMBA__SQL_CALLED_LIVE,
    SIMBA__SQL_TOMBS_UNTIL,
    SIMBA__SQL_TOMB_UNTIL,
    SIMBA__SQL_WAITER, /* NULL: nobody is in the queue */
    SIMBA__SQL_WAITER_ID,
    SIMBA__SQL_WAITER_PROCESS,
    SIMBA__SQL_WAITER_BELL,
    SIMBA__SQL_WAITER_PLACE,
    SIMBA__SQL_WAITER_LAPSES,
    SIMBA__SQL_WAITER_LIVE,
    SIMBA__SQL_LAST_PLACE,
    SIMBA__SQL_SELF_ATTEMPT, /* NULL: who asks is not in the queue */
    SIMBA__SQL_SELF_ID,
    SIMBA__SQL_SELF_PROCESS,
    SIMBA__SQL_SELF_BELL,
    SIMBA__SQL_SELF_PLACE,
    SIMBA__SQL_SELF_LAPSES,
    SIMBA__SQL_SELF_LIVE,
    SIMBA__SQL_FORMER_TOKEN,
    SIMBA__SQL_FOREIGN, /* who owns it may not ring us */
    SIMBA__SQL_QUIET,   /* the version: simba_tenure says nothing of it */
    SIMBA__SQL_QUICK_ATTEMPT,
    SIMBA__SQL_QUICK_FORMER,
    SIMBA__SQL_TENURE_ACCOUNT,
    SIMBA__SQL_HAS_TOKENS, /* simba_mutex has a column for them */
    SIMBA__SQL_COLUMNS
};

/** What a statement has answered: `cell` gives a text or NULL. */
struct simba__sql_rows {
    int count;
    const char *(*cell)(const struct simba__sql_rows *rows,
                        int row,
                        int column);
    void *result; /* the client library's */
};

/* Through which process somebody waits. A waiter's `connection` is an index of
 * these. */
struct simba__sql_peer {
    char process[SIMBA__SQL_HEX + 1];
    bool has_bell; /* it can be woken, and its death be seen */
    bool is_live;
    uint64_t bell; /* how the server calls its connection, if it tells */
};

/* The index of our own process. */
enum { SIMBA__SQL_SELF = 0 };

struct simba__sql_record {
    struct simba__mutex_record row; /* as it is to be */

    /* As it was. */
    int64_t now_us;
    simba_owner owner;
    simba_attempt attempt;
    uint64_t token; /* the last one, also of a free mutex */
    int64_t version;
    int64_t transition_at_ms; /* of the table, also when nobody owns it */
    bool is_quiet;            /* simba_mutex alone says it all */
    bool is_ours;             /* nobody who does not know us was there since */
    bool is_foreign;          /* nobody will ring when its owner is done */
    bool is_waiting;          /* the mark that somebody may be in the queue */
    bool is_offered;
    struct simba__waiter called;
    int64_t called_until_ms;
    struct simba__waiter *line;
    size_t line_count, line_room;
    int64_t tomb_until_ms;  /* of this attempt; 0: none */
    int64_t tombs_until_ms; /* of all of them */
    int64_t account;        /* whose tenure it is, if that matters */

    struct simba__sql_peer *peers;
    size_t peer_count, peer_room;
};

/* What is to be written. */
struct simba__sql_change {
    bool is_any;
    bool is_quiet; /* then simba_mutex alone will say it all */
    int64_t version;
    int64_t tomb_until_ms;               /* 0: no tombstone is to be left */
    const struct simba__waiter *come[2]; /* in the queue anew, or moved */
    size_t come_count;
    simba_attempt *gone; /* out of the line */
    size_t gone_count, gone_room;
    size_t rings[2]; /* peers to wake after the commit */
    size_t ring_count;
};

enum simba__sql_loaded {
    SIMBA__SQL_LOADED,
    SIMBA__SQL_NO_ROW,    /* nobody ever had it */
    SIMBA__SQL_NO_TENURE, /* none of ours ever had it, but somebody else may */
    SIMBA__SQL_IN_PART,   /* among the first in the queue too few are alive */
    SIMBA__SQL_NO_MEMORY
};

/** Read the answer of a load statement. */
enum simba__sql_loaded simba__sql_record_load(
    struct simba__sql_record *record,
    const struct simba__sql_rows *rows,
    const simba_request *request);

void simba__sql_record_fini(struct simba__sql_record *record);

/** Find what has changed. False when memory ran out. */
bool simba__sql_change_find(struct simba__sql_change *change,
                            const struct simba__sql_record *record,
                            const simba_request *request);

/** How long the place of who asks will live, if it does not ask again. */
int64_t simba__sql_change_life(const struct simba__sql_change *change,
                               const simba_request *request,
                               const struct simba__sql_record *record);

/** The token to write: the owner's, or of a free mutex the last one. */
uint64_t simba__sql_token_after(const struct simba__sql_record *record);

/** An attempt as it stands in the tables; "" for none. */
void simba__sql_write_attempt(simba_attempt attempt,
                              char text[SIMBA__SQL_HEX + 1]);

/** A number in a cell; 0 for NULL. */
int64_t simba__sql_number(const struct simba__sql_rows *rows,
                          int row,
                          int column);

#endif
