/* Executors that run callbacks when they please: an event loop, one that is
 * late, one within another. */
#include "executor_queue.h"

#include <sched.h>

/* Stops from aside, while the queue is worked off here. */
struct stopper {
    simba_service *service;
    pthread_t thread;
    _Atomic bool is_done;
};

static void *stop_it(void *argument)
{
    struct stopper *stopper = argument;

    stop(stopper->service);
    atomic_store(&stopper->is_done, true);
    return NULL;
}

static void begin_to_stop(struct stopper *stopper, simba_service *service)
{
    *stopper = (struct stopper){.service = service};
    pthread_create(&stopper->thread, NULL, stop_it, stopper);
}

static void wait_for_stop(struct stopper *stopper, struct queue *queue)
{
    await((work_off(queue), atomic_load(&stopper->is_done)));
    pthread_join(stopper->thread, NULL);
}

/* The program's only thread works the queue off: whoever stops waits for it,
 * and what is queued runs there. */
TEST(test_executor__may_be_an_event_loop)
{
    struct queue queue;
    simba_store *store;
    struct heard heard = {0};
    simba_service *service;
    struct stopper stopper;

    start_queue(&queue, 0);
    store = open_with(put, &queue);
    service = open_service(store, fresh_mutex(), &heard);
    is_worker = true;
    start(service);
    await((work_off(&queue), atomic_load(&heard.acquired) == 1));
    begin_to_stop(&stopper, service);
    wait_for_stop(&stopper, &queue);
    assert_int_equal(atomic_load(&heard.released), 1);
    is_worker = false;
    assert_false(atomic_load(&heard.is_elsewhere));
    simba_service_close(service);
    simba_store_close(store);
    end_queue(&queue);
}

/* Nothing is worked off: the lease is kept all the same, and the mutex goes on
 * when the budget of on_released has passed (S6). */
TEST(test_executor__that_is_late_delays_no_one_else)
{
    struct queue queue;
    simba_store *store, *other = open_store();
    char mutex[64];
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_service *service;
    struct heard late = {0}, next = {0};
    simba_service *successor;
    simba_metrics *metrics;
    struct stopper stopper;

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    start_queue(&queue, 0);
    store = open_with(put, &queue);
    contender.mutex = mutex;
    contender.times.budget_ms = 50;
    contender.on_acquired = on_acquired;
    contender.on_released = on_released;
    contender.user = &late;
    service = must_open_service(store, &contender);
    start(service);
    await(simba_service_is_owner(service));
    successor = open_service(other, mutex, &next);
    start(successor);
    begin_to_stop(&stopper, service);
    await(simba_service_is_owner(successor));
    assert_int_equal(atomic_load(&late.acquired), 0);
    assert_int_equal(simba_metrics_read(store, &metrics, NULL), SIMBA_OK);
    assert_int_equal(simba_metrics_of(metrics, mutex)->overruns, 1);
    simba_metrics_free(metrics);
    wait_for_stop(&stopper, &queue);
    assert_int_equal(atomic_load(&late.released), 1);
    assert_false(atomic_load(&late.is_broken));
    simba_service_close(successor);
    simba_service_close(service);
    simba_store_close(other);
    simba_store_close(store);
    end_queue(&queue);
}

/* One that keeps what it is given first, until it may run. */
struct keeper {
    struct job job;
    _Atomic bool is_kept, may_run;
    pthread_t thread;
};

static bool keep(void *user, void (*run)(void *argument), void *argument)
{
    struct keeper *keeper = user;

    if (atomic_load(&keeper->is_kept)) {
        run(argument);
        return true;
    }
    keeper->job = (struct job){.run = run, .argument = argument};
    atomic_store(&keeper->is_kept, true);
    return true;
}

/* Relaxed: it learns nothing of what was done since. */
static void *run_kept(void *argument)
{
    struct keeper *keeper = argument;

    await(atomic_load(&keeper->is_kept));
    while (!atomic_load_explicit(&keeper->may_run, memory_order_relaxed)) {
        sched_yield();
    }
    keeper->job.run(keeper->job.argument);
    return NULL;
}

/* What comes while a callback is in the executor's hands is none of its
 * concern. For the thread sanitizer. */
TEST(test_executor__runs_while_more_comes)
{
    struct keeper keeper = {0};
    struct stopper stopper;
    struct heard heard = {0};
    simba_store *store;
    simba_service *service;

    pthread_create(&keeper.thread, NULL, run_kept, &keeper);
    store = open_with(keep, &keeper);
    service = open_service(store, fresh_mutex(), &heard);
    start(service);
    await(atomic_load(&keeper.is_kept));
    begin_to_stop(&stopper, service);
    await(simba_service_status(service) == SIMBA_STOPPING);
    atomic_store_explicit(&keeper.may_run, true, memory_order_relaxed);
    pthread_join(stopper.thread, NULL);
    pthread_join(keeper.thread, NULL);
    assert_int_equal(atomic_load(&heard.acquired), 1);
    assert_int_equal(atomic_load(&heard.released), 1);
    assert_false(atomic_load(&heard.is_broken));
    simba_service_close(service);
    simba_store_close(store);
}

/* --- callbacks within callbacks ------------------------------------------ */

struct nest {
    struct queue *queue;
    simba_service *outer;
    _Atomic int inner_runs;
    _Atomic int rc; /* of stopping the outer one from inside */
};

static void go_on_with_others(void *user, const simba_state *state)
{
    struct nest *nest = user;

    (void)state;
    await((work_off(nest->queue), atomic_load(&nest->inner_runs) > 0));
}

static void stop_outer(void *user, const simba_state *state)
{
    struct nest *nest = user;

    (void)state;
    atomic_store(&nest->rc, simba_service_stop(nest->outer, NULL));
    atomic_fetch_add(&nest->inner_runs, 1);
}

static simba_service *open_nested(simba_store *store,
                                  simba_contender_fn call,
                                  struct nest *nest)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;

    contender.mutex = fresh_mutex();
    contender.on_acquired = call;
    contender.user = nest;
    return must_open_service(store, &contender);
}

/* A callback that runs the event loop is still on the stack when another one
 * stops its service: that would wait for itself. */
TEST(test_executor__nested_callbacks_are_still_inside)
{
    struct queue queue;
    struct nest nest = {.queue = &queue};
    simba_store *store;
    simba_service *inner;
    struct stopper stopper;

    start_queue(&queue, 0);
    store = open_with(put, &queue);
    nest.outer = open_nested(store, go_on_with_others, &nest);
    inner = open_nested(store, stop_outer, &nest);
    start(nest.outer);
    await(atomic_load(&queue.taken) == 1);
    start(inner);
    await(atomic_load(&queue.taken) == 2);
    work_off(&queue);
    assert_int_equal(atomic_load(&nest.rc), SIMBA_EMISUSE);
    begin_to_stop(&stopper, nest.outer);
    wait_for_stop(&stopper, &queue);
    begin_to_stop(&stopper, inner);
    wait_for_stop(&stopper, &queue);
    simba_service_close(inner);
    simba_service_close(nest.outer);
    simba_store_close(store);
    end_queue(&queue);
}
