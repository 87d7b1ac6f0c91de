"""Compiles simba/_simba against the installed library, found by pkg-config.

    python3 build_simba.py DIRECTORY    compiles it there, for tests

CFLAGS and LDFLAGS of the environment are obeyed, where pkg-config knows none.
"""

import shlex
import subprocess
import sys

from cffi import FFI


def _flags(kind: str) -> list[str]:
    try:
        return shlex.split(subprocess.run(
            ["pkg-config", kind, "simba"], check=True, capture_output=True,
            text=True).stdout)
    except (OSError, subprocess.CalledProcessError):
        return []


builder = FFI()
builder.set_source(
    "simba._simba",
    """
    #include <simba.h>

    /* Options with their defaults; NULL: not wanted. */
    static void py_init(simba_store_options *store,
                        simba_locker_options *locker,
                        simba_contender *contender,
                        simba_scheduler_options *scheduler,
                        simba_retriever *retriever)
    {
        static const simba_store_options of_store = SIMBA_STORE_OPTIONS_INIT;
        static const simba_locker_options of_locker =
            SIMBA_LOCKER_OPTIONS_INIT;
        static const simba_contender of_contender = SIMBA_CONTENDER_INIT;
        static const simba_scheduler_options of_scheduler =
            SIMBA_SCHEDULER_OPTIONS_INIT;
        static const simba_retriever of_retriever = SIMBA_RETRIEVER_INIT;

        if (store != NULL) *store = of_store;
        if (locker != NULL) *locker = of_locker;
        if (contender != NULL) *contender = of_contender;
        if (scheduler != NULL) *scheduler = of_scheduler;
        if (retriever != NULL) *retriever = of_retriever;
    }

    /* Closed, and noted that it is, with no line of Python in between. */
    #define PY_CLOSE(kind) \
        static void py_##kind##_close(simba_##kind **handle) \
        { \
            simba_##kind##_close(*handle); \
            *handle = NULL; \
        }
    PY_CLOSE(store)
    PY_CLOSE(locker)
    PY_CLOSE(service)
    PY_CLOSE(scheduler)
    PY_CLOSE(retrieval)
    """,
    libraries=["simba"],
    extra_compile_args=_flags("--cflags"),
    extra_link_args=_flags("--libs-only-L"),
)
# Structs end in "...": the compiler knows what else the header has.
builder.cdef("""
typedef struct simba_store simba_store;
typedef struct simba_locker simba_locker;
typedef struct simba_service simba_service;
typedef struct simba_scheduler simba_scheduler;
typedef struct simba_retrieval simba_retrieval;

enum simba_log_level { SIMBA_LOG_ERROR, ... };
enum simba_cause { SIMBA_CAUSE_NONE, ... };
enum simba_schedule { SIMBA_FIXED_RATE, SIMBA_FIXED_DELAY };
enum simba_service_status { SIMBA_INITIAL, ... };

typedef struct { int code; int native; char message[256]; ...; } simba_error;
const char *simba_status_name(int status);

typedef struct {
    int64_t ttl_ms, transition_ms, budget_ms, max_hold_ms, min_hold_ms,
            progress_ms;
    ...;
} simba_times;

typedef struct {
    char id[...];
    bool is_broken;
    int64_t acquired_at_ms, ttl_at_ms, transition_at_ms;
    uint64_t token;
    ...;
} simba_owner;

typedef struct {
    simba_owner before, after;
    bool has_gap;
    enum simba_cause cause;
    ...;
} simba_state;

typedef struct {
    void *log_user;
    enum simba_log_level log_level;
    bool dispatch;
    int64_t wait_ms;
    void (*log)(void *, enum simba_log_level, const char *, const char *);
    ...;
} simba_store_options;
int simba_store_open(const char *url, const simba_store_options *options,
                     simba_store **store, simba_error *error);
void py_store_close(simba_store **);
int simba_store_fd(const simba_store *store);
int simba_store_dispatch(simba_store *store, simba_error *error);

typedef struct {
    const char *mutex, *id;
    simba_times times;
    void (*on_lost)(void *, const simba_error *);
    void *user;
    ...;
} simba_locker_options;
int simba_locker_open(simba_store *store, const simba_locker_options *options,
                      simba_locker **locker, simba_error *error);
int simba_locker_acquire(simba_locker *locker, int64_t timeout_ms,
                         uint64_t *token, simba_error *error);
int simba_locker_release(simba_locker *locker, simba_error *error);
void simba_locker_cancel(simba_locker *locker);
bool simba_locker_is_owner(const simba_locker *locker);
uint64_t simba_locker_token(const simba_locker *locker);
void simba_locker_progress(simba_locker *locker);
void py_locker_close(simba_locker **);

typedef struct {
    const char *mutex, *id;
    simba_times times;
    int64_t initial_delay_ms;
    void (*on_acquired)(void *, const simba_state *);
    void (*on_released)(void *, const simba_state *);
    void (*on_changed)(void *, const simba_state *);
    void *user;
    ...;
} simba_contender;
int simba_service_open(simba_store *store, const simba_contender *contender,
                       simba_service **service, simba_error *error);
int simba_service_start(simba_service *service, simba_error *error);
int simba_service_stop(simba_service *service, simba_error *error);
void py_service_close(simba_service **);
bool simba_service_is_owner(const simba_service *service);
uint64_t simba_service_token(const simba_service *service);
enum simba_service_status simba_service_status(const simba_service *service);
void simba_service_progress(simba_service *service);

typedef struct {
    uint64_t token, number, skipped;
    int stop_fd;
    ...;
} simba_run;
typedef struct {
    const char *mutex, *id;
    enum simba_schedule schedule;
    int64_t period_ms, initial_delay_ms;
    simba_times times;
    int (*work)(void *, const simba_run *, simba_error *);
    void *user;
    ...;
} simba_scheduler_options;
int simba_scheduler_open(simba_store *store,
                         const simba_scheduler_options *options,
                         simba_scheduler **scheduler, simba_error *error);
int simba_scheduler_start(simba_scheduler *scheduler, simba_error *error);
int simba_scheduler_stop(simba_scheduler *scheduler, simba_error *error);
void py_scheduler_close(simba_scheduler **);
bool simba_scheduler_is_owner(const simba_scheduler *scheduler);
uint64_t simba_scheduler_token(const simba_scheduler *scheduler);
bool simba_run_is_stopped(const simba_run *run);
void simba_run_progress(const simba_run *run);

typedef struct {
    const char *mutex;
    int64_t poll_ms;
    void (*on_changed)(void *, const simba_state *);
    void *user;
    ...;
} simba_retriever;
int simba_retrieval_open(simba_store *store, const simba_retriever *retriever,
                         simba_retrieval **retrieval, simba_error *error);
int simba_retrieval_start(simba_retrieval *retrieval, simba_error *error);
void py_retrieval_close(simba_retrieval **);


void py_init(simba_store_options *, simba_locker_options *, simba_contender *,
             simba_scheduler_options *, simba_retriever *);
extern "Python" {
    void py_log(void *, enum simba_log_level, const char *, const char *);
    void py_lost(void *, const simba_error *);
    void py_acquired(void *, const simba_state *);
    void py_released(void *, const simba_state *);
    void py_changed(void *, const simba_state *);
    int py_work(void *, const simba_run *, simba_error *);
}
""")

if __name__ == "__main__":
    builder.compile(tmpdir=sys.argv[1])
