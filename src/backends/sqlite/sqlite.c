/* The SQLite store's table of functions: opening, closing, and the way of a
 * request to the worker. */
#include "backends/sqlite/sqlite.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>

/* How long opening waits for others that make, repair or lock the database. */
enum { OPEN_PATIENCE_MS = 100 };

/* One in so many handles looks for what killed processes have left, even if
 * nobody waited for them. */
enum { SWEEP_ONE_IN = 16 };

static void close_store(simba_backend *base)
{
    struct simba__sqlite *self = (struct simba__sqlite *)base;

    if (self->worker != NULL) {
        simba_worker_close(self->worker);
    }
    simba__sqlite_observers_fini(self);
    simba__sqlite_watch_fini(self);
    simba__sqlite_life_close(self);
    simba__sqlite_disconnect(self);
    simba__sqlite_record_fini(&self->record);
    simba__hash_free(&self->sightings);
    simba__sqlite_settings_fini(&self->settings);
    free(self);
}

int simba__sqlite_fail_absent(const struct simba__sqlite *self,
                              simba_error *error)
{
    return simba_error_set(error, SIMBA_ENOTINIT, 0,
                           "sqlite %s: is not there yet", self->settings.shown);
}

static int build(struct simba__sqlite *self,
                 const simba_backend_config *config,
                 simba_error *error)
{
    struct simba__sqlite_settings *settings = &self->settings;
    int rc = simba__sqlite_settings_init(settings, config->rest, error);
    struct stat about;

    self->is_absent = rc == SIMBA_OK && config->look &&
                      stat(settings->path, &about) != 0 && errno == ENOENT;
    if (self->is_absent && config->examine) {
        rc = simba__sqlite_clock_init(self, error);
        return rc != SIMBA_OK
                   ? rc
                   : simba_worker_open(self->base.loop, simba__sqlite_serve,
                                       self, &self->worker);
    }
    if (self->is_absent) {
        rc = simba__sqlite_fail_absent(self, error);
    }
    if (rc == SIMBA_OK) {
        rc = simba__sqlite_file_prepare(settings, error);
    }
    if (rc == SIMBA_OK && simba__sqlite_file_is_inherited(settings)) {
        rc = simba_error_set(
            error, SIMBA_EFORKED, 0,
            "sqlite %s: was open in the parent process: open it after "
            "fork only, or exec first",
            settings->shown);
    }
    if (rc == SIMBA_OK) {
        rc = simba__sqlite_clock_init(self, error);
    }
    if (rc == SIMBA_OK) {
        rc = simba__sqlite_connect(self, simba_loop_now_ms() + OPEN_PATIENCE_MS,
                                   error);
        /* A database that others keep locked is opened by the first request:
         * that has its time, can be called off, and names who is in the way. */
        if (rc == SIMBA_EUNAVAIL && simba__sqlite_is_busy(error->native)) {
            *error = (simba_error){0, 0, ""};
            rc = SIMBA_OK;
        }
    }
    if (rc == SIMBA_OK) {
        rc = simba__sqlite_life_open(self, error);
    }
    if (rc == SIMBA_OK) {
        self->has_dead = self->process[0] % SWEEP_ONE_IN == 0;
        rc = simba_worker_open(self->base.loop, simba__sqlite_serve, self,
                               &self->worker);
    }
    return rc;
}

static int open_store(const simba_backend_config *config,
                      simba_backend **backend,
                      simba_error *error)
{
    struct simba__sqlite *self = calloc(1, sizeof *self);
    simba_error unused = {0, 0, ""};
    int rc;

    *backend = NULL;
    error = error == NULL ? &unused : error;
    /* Every request has two peers, ourselves and the owner. */
    if (self == NULL ||
        !simba__array_reserve(&self->record.peers, &self->record.peer_room, 2,
                              sizeof *self->record.peers)) {
        free(self);
        return simba_error_set(error, SIMBA_ENOMEM, 0, "sqlite: no memory");
    }
    self->base.ops = &simba__sqlite_ops;
    self->base.loop = config->loop;
    self->log = (struct simba__log){config->log, config->log_user, "sqlite"};
    self->dir_fd = self->life_fd = -1;
    self->watch.fd = self->watch.wake_fd = self->watch.wake_wd = -1;
    pthread_mutex_init(&self->watch.lock, NULL);
    pthread_mutex_init(&self->observers.lock, NULL);
    rc = build(self, config, error);
    if (rc != SIMBA_OK) {
        close_store(&self->base);
        return rc;
    }
    /* Another machine's locks may not be visible, and its waiters are not in
     * our queue: there one owner at a time is all that can be promised, and
     * nobody can be named to be the next. */
    if (self->settings.is_trusted) {
        self->trusted = simba__sqlite_ops;
        self->trusted.capabilities &=
            ~(uint32_t)(SIMBA_CAN_SLOTS | SIMBA_NUMBERS_SLOTS |
                        SIMBA_CAN_HAND_OVER);
        self->base.ops = &self->trusted;
    }
    *backend = &self->base;
    return SIMBA_OK;
}

static void submit(simba_backend *base, simba_request *request)
{
    simba_worker_submit(((struct simba__sqlite *)base)->worker, request);
}

static bool drive(simba_backend *base, int64_t until_ms)
{
    return simba_worker_drive(((struct simba__sqlite *)base)->worker, until_ms);
}

static void detach(simba_backend *base)
{
    simba__sqlite_watch_detach((struct simba__sqlite *)base);
    simba__sqlite_observers_detach((struct simba__sqlite *)base);
}

static void forked(simba_backend *base)
{
    struct simba__sqlite *self = (struct simba__sqlite *)base;

    simba__sqlite_file_forked(&self->settings, &self->inherited);
    simba__sqlite_watch_forked(self);
    simba__sqlite_life_forked(self);
}

static int life_fd(simba_backend *base)
{
    return ((struct simba__sqlite *)base)->life_fd;
}

const simba_backend_ops simba__sqlite_ops = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "sqlite",
    .least_lease_ms = 100,
    .open = open_store,
    .submit = submit,
    .close = close_store,
    .detach = detach,
    .forked = forked,
    .life_fd = life_fd,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_CAN_LIST | SIMBA_CAN_BREAK |
                    SIMBA_CAN_DOCTOR | SIMBA_CAN_SEE_CRASH |
                    SIMBA_HAS_STEADY_CLOCK | SIMBA_CAN_OBSERVE |
                    SIMBA_TELLS_ENDED | SIMBA_CAN_SLOTS | SIMBA_NUMBERS_SLOTS |
                    SIMBA_CAN_HAND_OVER | SIMBA_CAN_INIT | SIMBA_CAN_TELL |
                    SIMBA_TELLS_BREAKS,
    .subscription = simba__sqlite_observe,
    .drive = drive,
    .schema = simba__sqlite_schema_text,
    .help = simba__sqlite_help,
};
