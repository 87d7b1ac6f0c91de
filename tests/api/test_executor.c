/* Callbacks on threads of the program's own, on any store. */
#include "harness.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

/* --- an executor: a queue, and whoever works it off ----------------------- */

enum { WORKERS_MOST = 4 };

struct job {
    void (*run)(void *argument);
    void *argument;
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job jobs[64]; /* more than there are contenders in a test */
    int first, count;
    _Atomic int taken;
    bool is_over;
    pthread_t workers[WORKERS_MOST];
    int worker_count;
};

static bool put(void *user, void (*run)(void *argument), void *argument)
{
    struct queue *queue = user;

    pthread_mutex_lock(&queue->lock);
    queue->jobs[(queue->first + queue->count++) % 64] =
        (struct job){.run = run, .argument = argument};
    atomic_fetch_add(&queue->taken, 1);
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return true;
}

/* False: there is nothing to do. With the lock held. */
static bool work_off_one(struct queue *queue)
{
    struct job job = queue->jobs[queue->first];

    if (queue->count == 0) {
        return false;
    }
    queue->first = (queue->first + 1) % 64;
    queue->count--;
    pthread_mutex_unlock(&queue->lock);
    job.run(job.argument);
    pthread_mutex_lock(&queue->lock);
    return true;
}

/* As an event loop does between other things. */
static void work_off(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (work_off_one(queue)) {
    }
    pthread_mutex_unlock(&queue->lock);
}

static _Thread_local bool is_worker;

static void *work(void *argument)
{
    struct queue *queue = argument;

    is_worker = true;
    pthread_mutex_lock(&queue->lock);
    while (!queue->is_over) {
        if (!work_off_one(queue)) {
            pthread_cond_wait(&queue->changed, &queue->lock);
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

static void start_queue(struct queue *queue, int workers)
{
    *queue = (struct queue){.worker_count = workers};
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    for (int i = 0; i < workers; i++) {
        pthread_create(&queue->workers[i], NULL, work, queue);
    }
}

static void end_queue(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->is_over = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    for (int i = 0; i < queue->worker_count; i++) {
        pthread_join(queue->workers[i], NULL);
    }
    assert_int_equal(queue->count, 0); /* close has waited for all */
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

static simba_store *open_with(simba_executor_fn executor, void *user)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_store *store;

    options.executor = executor;
    options.executor_user = user;
    assert_int_equal(simba_store_open(store_url, &options, &store, NULL),
                     SIMBA_OK);
    return store;
}

/* --- a contender that writes down what it hears ----------------------------
 */

struct ear {
    _Atomic int acquired, released;
    _Atomic bool is_broken;    /* not in turn, or two at once */
    _Atomic bool is_elsewhere; /* not on a worker */
    _Atomic int inside;
};

static void enter(struct ear *ear)
{
    if (atomic_fetch_add(&ear->inside, 1) != 0) {
        atomic_store(&ear->is_broken, true);
    }
    if (!is_worker) {
        atomic_store(&ear->is_elsewhere, true);
    }
}

static void on_acquired(void *user, const simba_state *state)
{
    struct ear *ear = user;

    (void)state;
    enter(ear);
    if (atomic_fetch_add(&ear->acquired, 1) != atomic_load(&ear->released)) {
        atomic_store(&ear->is_broken, true);
    }
    atomic_fetch_sub(&ear->inside, 1);
}

static void on_released(void *user, const simba_state *state)
{
    struct ear *ear = user;

    (void)state;
    enter(ear);
    if (atomic_fetch_add(&ear->released, 1) + 1 !=
        atomic_load(&ear->acquired)) {
        atomic_store(&ear->is_broken, true);
    }
    atomic_fetch_sub(&ear->inside, 1);
}

static simba_service *open_service(simba_store *store,
                                   const char *mutex,
                                   struct ear *ear)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_service *service;

    contender.mutex = mutex;
    contender.on_acquired = on_acquired;
    contender.on_released = on_released;
    contender.user = ear;
    assert_int_equal(simba_service_open(store, &contender, &service, NULL),
                     SIMBA_OK);
    return service;
}

static void start(simba_service *service)
{
    assert_int_equal(simba_service_start(service, NULL), SIMBA_OK);
}

static void stop(simba_service *service)
{
    assert_int_equal(simba_service_stop(service, NULL), SIMBA_OK);
}

/* --- tests --------------------------------------------------------------- */

/* Who it is, or -1. Mostly the next in line, but on a slow machine one that was
 * called may come too late. */
static int owner_of(struct ear *ears, int count)
{
    while (--count >= 0 && atomic_load(&ears[count].acquired) ==
                               atomic_load(&ears[count].released)) {
    }
    return count;
}

static void test_executor__runs_callbacks_in_turn(void **state)
{
    enum { ROUNDS = 20 };
    struct queue queue;
    simba_store *store;
    const char *mutex = fresh_mutex();
    struct ear ears[3] = {0};
    simba_service *services[3];

    (void)state;
    start_queue(&queue, WORKERS_MOST);
    store = open_with(put, &queue);
    for (int i = 0; i < 3; i++) {
        services[i] = open_service(store, mutex, &ears[i]);
        start(services[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int i;

        await((i = owner_of(ears, 3)) >= 0);
        stop(services[i]);
        start(services[i]);
    }
    for (int i = 0; i < 3; i++) {
        simba_service_close(services[i]);
        assert_int_equal(atomic_load(&ears[i].acquired),
                         atomic_load(&ears[i].released));
        assert_false(atomic_load(&ears[i].is_broken));
        assert_false(atomic_load(&ears[i].is_elsewhere));
    }
    simba_store_close(store);
    end_queue(&queue);
    assert_true(atomic_load(&queue.taken) >= 2 * ROUNDS);
}

static bool run_at_once(void *user, void (*run)(void *argument), void *argument)
{
    is_worker = true;
    run(argument);
    is_worker = false;
    atomic_fetch_add((_Atomic int *)user, 1);
    return true;
}

static void test_executor__may_run_them_itself(void **state)
{
    _Atomic int runs = 0;
    simba_store *store = open_with(run_at_once, &runs);
    struct ear ear = {0};
    simba_service *service = open_service(store, fresh_mutex(), &ear);

    (void)state;
    for (int i = 1; i <= 3; i++) {
        start(service);
        await(atomic_load(&ear.acquired) == i);
        stop(service);
    }
    simba_service_close(service);
    simba_store_close(store);
    assert_int_equal(atomic_load(&runs), 6);
    assert_false(atomic_load(&ear.is_broken));
    assert_false(atomic_load(&ear.is_elsewhere));
}

static bool refuse(void *user, void (*run)(void *argument), void *argument)
{
    (void)run;
    (void)argument;
    atomic_fetch_add((_Atomic int *)user, 1);
    return false;
}

static void count_refusals(void *user,
                           enum simba_log_level level,
                           const char *component,
                           const char *message)
{
    (void)level;
    (void)component;
    if (strstr(message, "executor refuses") != NULL) {
        atomic_fetch_add((_Atomic int *)user, 1);
    }
}

/* S9: whatever becomes of the executor, on_released is told. */
static void test_executor__that_refuses_loses_no_callback(void **state)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    _Atomic int asked = 0, logged = 0;
    simba_store *store;
    struct ear ear = {0};
    simba_service *service;

    (void)state;
    options.executor = refuse;
    options.executor_user = &asked;
    options.log = count_refusals;
    options.log_user = &logged;
    assert_int_equal(simba_store_open(store_url, &options, &store, NULL),
                     SIMBA_OK);
    service = open_service(store, fresh_mutex(), &ear);
    start(service);
    await(atomic_load(&ear.acquired) == 1);
    simba_service_close(service);
    assert_int_equal(atomic_load(&ear.released), 1);
    simba_store_close(store);
    assert_int_equal(atomic_load(&asked), 2);
    assert_int_equal(atomic_load(&logged), 1);
}

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
static void test_executor__may_be_an_event_loop(void **state)
{
    struct queue queue;
    simba_store *store;
    struct ear ear = {0};
    simba_service *service;
    struct stopper stopper;

    (void)state;
    start_queue(&queue, 0);
    store = open_with(put, &queue);
    service = open_service(store, fresh_mutex(), &ear);
    is_worker = true;
    start(service);
    await((work_off(&queue), atomic_load(&ear.acquired) == 1));
    begin_to_stop(&stopper, service);
    wait_for_stop(&stopper, &queue);
    assert_int_equal(atomic_load(&ear.released), 1);
    is_worker = false;
    assert_false(atomic_load(&ear.is_elsewhere));
    simba_service_close(service);
    simba_store_close(store);
    end_queue(&queue);
}

/* Nothing is worked off: the lease is kept all the same, and the mutex goes on
 * when the budget of on_released has passed (S6). */
static void test_executor__that_is_late_delays_no_one_else(void **state)
{
    struct queue queue;
    simba_store *store, *other = open_store();
    char mutex[64];
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_service *service;
    struct ear late = {0}, next = {0};
    simba_service *successor;
    simba_metrics *metrics;
    struct stopper stopper;

    (void)state;
    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    start_queue(&queue, 0);
    store = open_with(put, &queue);
    contender.mutex = mutex;
    contender.budget_ms = 50;
    contender.on_acquired = on_acquired;
    contender.on_released = on_released;
    contender.user = &late;
    assert_int_equal(simba_service_open(store, &contender, &service, NULL),
                     SIMBA_OK);
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
static void test_executor__runs_while_more_comes(void **state)
{
    struct keeper keeper = {0};
    struct stopper stopper;
    struct ear ear = {0};
    simba_store *store;
    simba_service *service;

    (void)state;
    pthread_create(&keeper.thread, NULL, run_kept, &keeper);
    store = open_with(keep, &keeper);
    service = open_service(store, fresh_mutex(), &ear);
    start(service);
    await(atomic_load(&keeper.is_kept));
    begin_to_stop(&stopper, service);
    await(simba_service_status(service) == SIMBA_STOPPING);
    atomic_store_explicit(&keeper.may_run, true, memory_order_relaxed);
    pthread_join(stopper.thread, NULL);
    pthread_join(keeper.thread, NULL);
    assert_int_equal(atomic_load(&ear.acquired), 1);
    assert_int_equal(atomic_load(&ear.released), 1);
    assert_false(atomic_load(&ear.is_broken));
    simba_service_close(service);
    simba_store_close(store);
}

/* --- callbacks within callbacks ------------------------------------------- */

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
    simba_service *service;

    contender.mutex = fresh_mutex();
    contender.on_acquired = call;
    contender.user = nest;
    assert_int_equal(simba_service_open(store, &contender, &service, NULL),
                     SIMBA_OK);
    return service;
}

/* A callback that runs the event loop is still on the stack when another one
 * stops its service: that would wait for itself. */
static void test_executor__nested_callbacks_are_still_inside(void **state)
{
    struct queue queue;
    struct nest nest = {.queue = &queue};
    simba_store *store;
    simba_service *inner;
    struct stopper stopper;

    (void)state;
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

/* --- everything that calls back --------------------------------------------
 */

static _Atomic int losses, changes;

static void on_lost(void *user, const simba_error *why)
{
    (void)user;
    (void)why;
    atomic_fetch_add(&losses, is_worker ? 1 : 100);
}

static void on_changed(void *user, const simba_state *state)
{
    (void)user;
    (void)state;
    atomic_fetch_add(&changes, is_worker ? 1 : 100);
}

static void test_executor__serves_lockers_and_retrievals(void **state)
{
    struct queue queue;
    simba_store *store;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_locker *locker;
    simba_retrieval *retrieval;

    (void)state;
    start_queue(&queue, 1);
    store = open_with(put, &queue);
    retriever.mutex = options.mutex = fresh_mutex();
    retriever.on_changed = on_changed;
    retriever.poll_ms = 10;
    options.on_lost = on_lost;
    options.max_hold_ms = 300;
    assert_int_equal(simba_retrieval_open(store, &retriever, &retrieval, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_retrieval_start(retrieval, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_open(store, &options, &locker, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    await(atomic_load(&losses) == 1);
    await(atomic_load(&changes) >= 1);
    simba_locker_close(locker);
    simba_retrieval_close(retrieval);
    simba_store_close(store);
    end_queue(&queue);
    assert_true(atomic_load(&changes) < 100);
}

static void refuse_options(const simba_store_options *options, const char *why)
{
    simba_store *store;
    simba_error error;

    assert_int_equal(simba_store_open(store_url, options, &store, &error),
                     SIMBA_EINVAL);
    assert_null(store);
    assert_non_null(strstr(error.message, why));
}

static void test_store__refuses_bad_options(void **state)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;

    (void)state;
    options.notifier_most = 4;
    options.executor = refuse;
    refuse_options(&options, "notifier_most is 4");
    options.executor = NULL;
    options.notifier_most = -1;
    refuse_options(&options, "notifier_most is -1");
    options.notifier_most = 100000;
    refuse_options(&options, "1024");
    options.notifier_most = 0;
    options.log_level = (enum simba_log_level)7;
    refuse_options(&options, "log_level is 7");
    options.log_level = SIMBA_LOG_DEFAULT;
    options.config = (enum simba_config_use)3;
    refuse_options(&options, "config is 3");
    options.size = 0;
    refuse_options(&options, "_INIT");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_executor__runs_callbacks_in_turn),
        cmocka_unit_test(test_executor__may_run_them_itself),
        cmocka_unit_test(test_executor__that_refuses_loses_no_callback),
        cmocka_unit_test(test_executor__may_be_an_event_loop),
        cmocka_unit_test(test_executor__that_is_late_delays_no_one_else),
        cmocka_unit_test(test_executor__runs_while_more_comes),
        cmocka_unit_test(test_executor__nested_callbacks_are_still_inside),
        cmocka_unit_test(test_executor__serves_lockers_and_retrievals),
        cmocka_unit_test(test_store__refuses_bad_options),
    };

    if (argc > 1) {
        store_url = argv[1];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
