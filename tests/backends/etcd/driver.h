/* Store handles on the servers of with_etcd, people who contend through them,
 * and a wire on which single transactions go wrong. A program that includes
 * this is linked with --wrap=simba__rpc_submit and --wrap=calloc. */
#ifndef TESTS_BACKENDS_ETCD_DRIVER_H
#define TESTS_BACKENDS_ETCD_DRIVER_H

#include "backends/etcd/etcd.h"
#include "util/container.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static char mutex[64];

#define MUTEX       mutex
#define TTL         2000
#define LEASE       3000
#define WAITER_MS   (2 * LEASE)
#define PATIENCE_MS 20000
#define ANSWER_MS   PATIENCE_MS
#define MAY_PASS(status)                                                       \
    ((status) == SIMBA_EUNAVAIL || (status) == SIMBA_EUNKNOWN ||               \
     (status) == SIMBA_ENOMEM)
#include "fixtures/contenders.h"
#include "fixtures/unit_test.h"

static struct handle first, second;

static inline void open_handle(struct handle *handle)
{
    const char *url = getenv("SIMBA_SERVER_URL");

    assert_non_null(url);
    assert_int_equal(
        handle_open(handle, &simba_module, strchr(url, ':') + 1, &why),
        SIMBA_OK);
}

static inline int open_handles(void **state)
{
    static int count;

    (void)state;
    snprintf(mutex, sizeof mutex, "m%d", ++count);
    open_handle(&first);
    open_handle(&second);
    return 0;
}

static inline int close_handles(void **state)
{
    (void)state;
    handle_close(&first);
    handle_close(&second);
    return 0;
}

/* --- memory -------------------------------------------------------------- */

/* What contenders need only now and then, and which of it is refused. */
static atomic_int wanted, refused_at;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    bool is_it = size == sizeof(simba__etcd_step) ||
                 size == sizeof(simba__etcd_before) ||
                 size == sizeof(simba__etcd_first);

    return is_it && ++wanted == refused_at ? NULL : __real_calloc(count, size);
}

/* --- a wire with faults -------------------------------------------------- */

/* What becomes of one transaction. */
enum fault {
    NO_FAULT,
    LOST,    /* it is carried out, and the reply is lost */
    UNSENT,  /* it is surely not carried out, and that is said */
    LATE,    /* it arrives when the next one is answered */
    LATEST,  /* it arrives when all is over */
    FULL,    /* it is carried out, but is told "no space" */
    REFUSED, /* it is not, and is told the same */
    HELD,    /* it is carried out, and told when the test lets it go */
};

/* Two loops and the test meet here: who counts has the lock, and a fault is set
 * when the one before has been told. */
static pthread_mutex_t wire_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool wire_is_open; /* it has happened, and was not told yet */

static struct {
    enum fault fault;
    int at; /* of which transaction, the first being 1 */
    int count;
    simba__rpc *rpc; /* that it has happened to */
    atomic_bool is_held;
    simba__grpc *grpc;
    void (*done)(simba__rpc *rpc, int status, const simba_error *error);
    simba_timer timer;
    char message[65536]; /* that was not sent yet */
    _Atomic size_t length;
    simba__rpc late;
} wire;

void __real_simba__rpc_submit(simba__grpc *grpc, simba__rpc *rpc);
void __wrap_simba__rpc_submit(simba__grpc *grpc, simba__rpc *rpc);

static inline simba_loop *loop_of(simba__grpc *grpc)
{
    return container_of(grpc, simba__etcd, grpc)->base.base.loop;
}

static inline void on_late(simba__rpc *rpc,
                           int status,
                           const simba_error *error)
{
    (void)rpc;
    (void)status;
    (void)error;
    wire.length = 0;
}

/* Inside the loop. */
static inline void send_late(void)
{
    if (wire.length > 0 && wire.late.grpc == NULL) {
        simba__text_add(simba__rpc_begin(&wire.late), wire.message,
                        wire.length);
        wire.late.method = SIMBA__ETCD_METHOD("KV/Txn");
        wire.late.done = on_late;
        wire.late.exchange.deadline_ms = simba_loop_now_ms() + ANSWER_MS;
        __real_simba__rpc_submit(wire.grpc, &wire.late);
    }
}

/* The reply has come, and is lost; or it seemed to be sent. */
static inline void tell(simba__rpc *rpc, int status, const simba_error *error)
{
    simba__rpc_done *done = wire.done;
    bool is_full = wire.fault == FULL || wire.fault == REFUSED;
    simba_error lie;

    (void)status;
    (void)error;
    simba_error_set(&lie,
                    wire.fault == UNSENT ? SIMBA_EUNAVAIL : SIMBA_EUNKNOWN,
                    is_full ? 8 : 0, "a fault of the test");
    wire_is_open = false;
    done(rpc, lie.code, &lie);
}

static inline void hold(simba__rpc *rpc, int status, const simba_error *error)
{
    (void)error;
    assert_ptr_equal(rpc, wire.rpc);
    assert_int_equal(status, SIMBA_OK);
    wire.is_held = true;
}

static inline void let_go(void)
{
    simba_loop_enter(loop_of(wire.grpc));
    wire_is_open = false;
    wire.done(wire.rpc, SIMBA_OK, NULL);
    simba_loop_leave(loop_of(wire.grpc));
}

static inline void on_unsent(simba_timer *timer)
{
    (void)timer;
    if (wire.rpc->grpc == wire.grpc) {
        wire.rpc->grpc = NULL;
        tell(wire.rpc, 0, NULL);
    }
    wire_is_open = false;
}

/* Others come and go: o of the mutex changes just before each transaction of
 * one that is not in the queue. */
static struct {
    atomic_bool is_on;
    simba__rpc put, *rpc;
} churn;

static inline void on_churned(simba__rpc *put,
                              int status,
                              const simba_error *error)
{
    simba__grpc *grpc = churn.rpc->grpc;

    (void)error;
    assert_int_equal(status, SIMBA_OK);
    simba__rpc_fini(put);
    churn.rpc->grpc = NULL;
    __real_simba__rpc_submit(grpc, churn.rpc);
}

/* PutRequest: 1 key, 5: its value stays. */
static inline void churn_before(simba__grpc *grpc, simba__rpc *rpc)
{
    struct simba__text *text = simba__rpc_begin(&churn.put);
    char key[96];

    snprintf(key, sizeof key, "simba/o/%s", mutex);
    simba__pb_text(text, 1, key);
    simba__pb_number(text, 5, 1);
    churn.put.method = SIMBA__ETCD_METHOD("KV/Put");
    churn.put.done = on_churned;
    churn.put.exchange.deadline_ms = simba_loop_now_ms() + ANSWER_MS;
    churn.rpc = rpc;
    rpc->grpc = grpc; /* as if it were under way */
    __real_simba__rpc_submit(grpc, &churn.put);
}

void __wrap_simba__rpc_submit(simba__grpc *grpc, simba__rpc *rpc)
{
    bool is_txn = strcmp(rpc->method, SIMBA__ETCD_METHOD("KV/Txn")) == 0 &&
                  rpc != &container_of(grpc, simba__etcd, grpc)->session.rpc;
    int count;

    if (is_txn && churn.is_on &&
        container_of(rpc, simba__etcd_txn, rpc)->create == 0) {
        churn_before(grpc, rpc);
        return;
    }
    if (!is_txn || wire.fault == NO_FAULT) {
        __real_simba__rpc_submit(grpc, rpc);
        return;
    }
    pthread_mutex_lock(&wire_lock);
    count = ++wire.count;
    wire_is_open |= count == wire.at;
    pthread_mutex_unlock(&wire_lock);
    if (count >= wire.at + 2 && wire.fault == LATE && grpc == wire.grpc) {
        send_late(); /* not from within the loop of another handle */
    }
    if (count != wire.at) {
        __real_simba__rpc_submit(grpc, rpc);
        return;
    }
    wire.rpc = rpc;
    wire.grpc = grpc;
    wire.done = rpc->done;
    if (wire.fault == LOST || wire.fault == FULL || wire.fault == HELD) {
        rpc->done = wire.fault == HELD ? hold : tell;
        __real_simba__rpc_submit(grpc, rpc);
        return;
    }
    if (wire.fault == LATE || wire.fault == LATEST) {
        wire.length = rpc->output.length - 5; /* behind gRPC's prefix */
        assert_true(wire.length < sizeof wire.message);
        memcpy(wire.message, rpc->output.bytes + 5, wire.length);
    }
    rpc->grpc = grpc; /* as if it were under way */
    wire.timer.fire = on_unsent;
    simba_timer_set(loop_of(grpc), &wire.timer, simba_loop_now_ms());
}

/* Let the transaction of this number go wrong, counted from here. */
static inline void expect_fault(enum fault fault, int at)
{
    await(!wire_is_open);
    pthread_mutex_lock(&wire_lock);
    memset(&wire, 0, sizeof wire);
    wire.fault = fault;
    wire.at = at;
    pthread_mutex_unlock(&wire_lock);
}

/* What was late arrives now, if it has not yet. */
static inline void let_late_arrive(void)
{
    if (wire.grpc != NULL) {
        simba_loop_enter(loop_of(wire.grpc));
        send_late();
        simba_loop_leave(loop_of(wire.grpc));
        await(wire.length == 0);
        simba_loop_enter(loop_of(wire.grpc));
        simba__rpc_fini(&wire.late);
        simba_loop_leave(loop_of(wire.grpc));
    }
    wire.count = wire.at + 2; /* nothing goes wrong any more */
}

#endif
