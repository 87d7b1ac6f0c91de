/* One open SQLite store, and the turn of one operation. */
#ifndef SIMBA_SQLITE_INSTANCE_H
#define SIMBA_SQLITE_INSTANCE_H

#include "backends/sqlite/clock.h"
#include "backends/sqlite/database.h"
#include "backends/sqlite/eye.h"
#include "backends/sqlite/forked.h"
#include "backends/sqlite/presence.h"
#include "backends/sqlite/record.h"
#include "backends/sqlite/reserve.h"
#include "backends/sqlite/watch.h"

#include <simba/sys/backend.h>

/* A tenure of another boot, as long as we see it unchanged (fs=trust). */
struct simba__sqlite_sighting {
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
    uint64_t token;
    int64_t version;
    int64_t since_ms; /* by our clock */
};

struct simba__sqlite {
    simba_backend base;
    simba_log_fn log;
    void *log_user;
    struct simba__sqlite_settings settings;
    struct simba__sqlite_clock clock;
    struct simba__sqlite_presence presence;
    struct simba__sqlite_watch watch;
    struct simba__sqlite_eyes eyes;
    simba_worker *worker;
    struct simba__sqlite_inherited inherited; /* used in a forked child */

    /* The worker's alone. */
    struct simba__sqlite_db db;
    struct simba__sqlite_record record;
    struct simba__sqlite_reserve reserve;
    struct simba__sqlite_sighting *sightings;
    size_t sighting_count, sighting_room;
    bool is_burial_due; /* somebody was found dead */
    bool is_deaf;       /* it was said that there are no wake-ups */
};

/** Carry out one operation; for simba_worker_open(). */
int simba__sqlite_serve(void *self, simba_request *request, simba_error *error);

/**
 * Before the row is served: what the kernel knows and the row does not. Frees
 * it when its owner is dead or of an earlier boot; forgets who was called and
 * died.
 *
 * @return SIMBA_OK or SIMBA_ENOMEM
 */
int simba__sqlite_judge(struct simba__sqlite *self,
                        const char *mutex,
                        int64_t now_ms);

/** Carry out a list. */
int simba__sqlite_list(struct simba__sqlite *self,
                       simba_request *request,
                       simba_error *error);

/** Tell what the opening of the file has made sure of. */
int simba__sqlite_tell_schema(const struct simba__sqlite *self,
                              simba_request *request);

/** Carry out a doctor's visit. */
int simba__sqlite_doctor(struct simba__sqlite *self,
                         simba_request *request,
                         simba_error *error);

/**
 * End a tenure by force, in the loaded record and in the tables it does not
 * cover; reply.store_ms is set, reply.mine tells whether it was there. Within a
 * transaction, before simba__sqlite_record_store().
 */
int simba__sqlite_break(struct simba__sqlite *self,
                        const struct simba__mutex_host *host,
                        simba_request *request,
                        simba_error *error);

/** Log it, when it is committed. */
void simba__sqlite_log_break(struct simba__sqlite *self,
                             const simba_request *request);

/** Take away what dead processes have left, rows and files. */
void simba__sqlite_bury(struct simba__sqlite *self);

#endif
