/* What goes wrong with database servers and those who run them: it passes when
 * its cause does, and holds up nobody else. */
#define _GNU_SOURCE
#include "driver.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

SQL_TEST(test_sql_faults__a_tenure_survives_a_restart)
{
    struct who a = person(&first, "a");

    ask(&a);
    server_control("--restart");
    renew_in_the_end(&a);
    release(&a);
}

SQL_TEST(test_sql_faults__says_when_the_server_is_down)
{
    struct who a = person(&first, "a");
    int status;

    ask(&a);
    server_control("--stop");
    status = try_run(&a, (simba_request){.kind = SIMBA_RENEW});
    assert_true(status == SIMBA_EUNAVAIL || status == SIMBA_EUNKNOWN);
    status = try_run(&a, (simba_request){.kind = SIMBA_RENEW});
    assert_int_equal(status, SIMBA_EUNAVAIL);
    assert_true(strlen(why.message) > 10);
    server_control("--start");
    renew_in_the_end(&a);
}

SQL_TEST(test_sql_faults__outlives_killed_sessions)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    ask(&a);
    ask(&b);
    expect_queued(true);
    server_kill_sessions();
    renew_in_the_end(&a);
    /* The notify session is made anew, and tells so by a wake-up. */
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    ask(&b);
    expect_queued(true);
    handle_woken(&second, mutex, 0);
    release(&a);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    ask(&b);
    expect_mine(&b);
}

/* By what name the server knows it; another with each notify session. */
static void read_process(const struct handle *at, char *name)
{
    simba_loop_enter(at->loop);
    memcpy(name, ((struct simba__sql *)at->backend)->process,
           SIMBA__SQL_HEX + 1);
    simba_loop_leave(at->loop);
}

/* Is there another notify connection than that one, and in use? */
static bool is_connected_anew(const struct handle *at, const char *before)
{
    const struct simba__sql *self = (struct simba__sql *)at->backend;
    bool is_ready;

    simba_loop_enter(at->loop);
    is_ready = self->notify == SIMBA__SQL_NOTIFY_READY &&
               strcmp(self->notify_name, before) != 0;
    simba_loop_leave(at->loop);
    return is_ready;
}

/* A server that is cut off from us keeps the lock of a connection that is no
 * more. */
SQL_TEST(test_sql_faults__connects_for_wake_ups_beside_a_ghost)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    char process[SIMBA__SQL_HEX + 1];

    ask(&a);
    ask(&b);
    read_process(&second, process);
    server_haunt(process);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS)); /* made anew */
    ask(&b);
    expect_queued(true);
    handle_woken(&second, mutex, 0);
    release(&a);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    assert_int_equal(((struct simba__sql *)second.backend)->notify,
                     SIMBA__SQL_NOTIFY_READY);
    ask(&b);
    expect_mine(&b);
}

/* S11: when it is back, all who wait through it are, each in its position,
 * before any of them could ask. */
SQL_TEST(test_sql_faults__a_new_notify_connection_wakes_all)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b"), c = person(&second, "c");
    struct who d = person(&third, "d");
    char process[SIMBA__SQL_HEX + 1];

    ask(&a);
    ask(&b);
    ask(&c);
    ask(&d);
    expect_queued(false);
    read_process(&second, process);
    server_haunt(process);
    server_let_go();
    await(is_connected_anew(&second, process)); /* woken or not */
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    release(&a);
    assert_int_equal(server_sql("SELECT count(*) FROM simba_tenure "
                                "WHERE called_id = 'b' AND mutex LIKE '%.*s%%'",
                                (int)strcspn(mutex, " ") + 1, mutex),
                     1);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
}

#ifndef SERVER_IS_POSTGRES
/* MariaDB calls it a deadlock now and then when a notify session waits for
 * its lock. It is none for us, and the connection stays. */
SQL_TEST(test_sql_faults__a_deadlock_ends_no_notify_connection)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    char process[SIMBA__SQL_HEX + 1], later[SIMBA__SQL_HEX + 1];

    ask(&a);
    ask(&b);
    expect_queued(true);
    await_notify_connections(1);
    read_process(&second, process);
    server_cross(process);
    server_let_go();
    handle_woken(&second, mutex, 0);
    release(&a);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    read_process(&second, later);
    assert_string_equal(later, process);
}
#endif

/* Firewalls and administrators end what is idle. A notify session is meant
 * to be. */
SQL_TEST(test_sql_faults__outlives_an_impatient_server)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    char process[SIMBA__SQL_HEX + 1], later[SIMBA__SQL_HEX + 1];

    server_set_impatient(true);
    ask(&a);
    ask(&b);
    expect_queued(true);
    await_notify_connections(1);
    read_process(&second, process);
    nap_ms(3000);
    renew_in_the_end(&a);
    release(&a);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    read_process(&second, later);
    assert_string_equal(later, process); /* it is the same */
    server_set_impatient(false);
}

/* Who waits does so for hours; what it has seen must not be kept for it. */
SQL_TEST(test_sql_faults__a_notify_connection_keeps_no_snapshot)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    ask(&a);
    ask(&b);
    expect_queued(true);
    await_notify_connections(1);
    nap_ms(500); /* MariaDB tells of transactions as they were a while ago */
    assert_int_equal(server_count_snapshots(), 0);
    server_sql(CHANGE_TENURE); /* it keeps no lock of the table either */
    await_notify_connections(1);
}

/* A renewal is not held up by who waits for the same mutex in its process. */
SQL_TEST(test_sql_faults__a_stuck_waiter_holds_up_no_renewal)
{
    struct who a = person(&first, "a");
    struct who b = person(&first, "b");
    simba_request stuck = asking(&b);
    int64_t began_ms;

    ask(&a);
    ask(&b); /* everything is prepared, wake-ups come */
    leave(&b);
    server_hold(LOCK_LINE);
    fill_request(&b, &stuck);
    stuck.deadline_ms = simba_loop_now_ms() + 1500;
    handle_start(&first, &stuck);
    began_ms = simba_loop_now_ms();
    renew(&a);
    expect_mine(&a);
    assert_true(simba_loop_now_ms() - began_ms < 700);
    handle_join(&first, &stuck, &why);
    server_let_go();
}

SQL_TEST(test_sql_faults__a_locked_row_holds_up_no_other)
{
    struct who a = person(&first, "a");
    struct who b = person(&first, "b");
    simba_request ask_other = asking(&b);
    simba_request renew_other = {.kind = SIMBA_RENEW, .mutex = "another"};
    simba_request renew_held = {.kind = SIMBA_RENEW};
    int64_t began_ms;

    ask_other.mutex = "another";
    ask(&a);
    run(&b, ask_other);
    b.token = got.token;
    server_hold("SELECT 1 FROM simba_mutex WHERE owner_id = 'a' FOR UPDATE");
    began_ms = simba_loop_now_ms();
    renew_held.deadline_ms = began_ms + 5000;
    assert_int_equal(try_run(&a, renew_held), SIMBA_EUNAVAIL);
    assert_true(simba_loop_now_ms() - began_ms < 3000);
    began_ms = simba_loop_now_ms();
    run(&b, renew_other);
    assert_true(got.mine);
    assert_true(simba_loop_now_ms() - began_ms < 500);
    server_let_go();
    renew_in_the_end(&a);
}

/* Who waits until another of its process is done with the mutex keeps its
 * deadline, and those behind it come in the order they came in (S11). */
SQL_TEST(test_sql_faults__a_crowd_keeps_its_order_and_deadlines)
{
    enum { MANY = 6, LATE = 3 };
    struct who a = person(&first, "a"), b = person(&first, "b");
    simba_request requests[MANY];
    uint64_t last = 0;

    ask(&a);
    ask(&b); /* everything is prepared, wake-ups come */
    leave(&b);
    server_hold(LOCK_LINE);
    for (int i = 0; i < MANY; i++) {
        b = person(&first, "b");
        requests[i] = asking(&b);
        if (i == LATE) {
            requests[i].deadline_ms = simba_loop_now_ms() + 100;
        }
        fill_request(&b, &requests[i]);
        handle_start(&first, &requests[i]);
    }
    assert_int_equal(handle_join(&first, &requests[LATE], &why),
                     SIMBA_EUNAVAIL);
    server_let_go();
    for (int i = 0; i < MANY; i++) {
        if (i != LATE) {
            assert_int_equal(handle_join(&first, &requests[i], &why), SIMBA_OK);
            assert_true(requests[i].reply.is_queued);
            assert_true(requests[i].reply.position > last);
            last = requests[i].reply.position;
        }
    }
}

SQL_TEST(test_sql_faults__a_deadline_is_kept)
{
    struct who a = person(&first, "a");
    simba_request request = {.kind = SIMBA_RENEW};
    int64_t began_ms;

    ask(&a);
    server_hold("SELECT 1 FROM simba_mutex WHERE owner_id = 'a' FOR UPDATE");
    began_ms = simba_loop_now_ms();
    request.deadline_ms = began_ms + 100;
    assert_int_equal(try_run(&a, request), SIMBA_EUNKNOWN);
    assert_in_range(simba_loop_now_ms() - began_ms, 99, 600);
    server_let_go();
    renew_in_the_end(&a);
}

/* A server that is slow is not made slower by those who hang up and connect
 * again. */
SQL_TEST(test_sql_faults__who_is_answered_too_late_keeps_its_session)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    simba_request late;
    int64_t moment, sessions;

    ask(&a);
    ask(&b);
    leave(&b);
    moment = server_moment();
    sessions = server_count_since(moment);
    for (int i = 0; i < 3; i++) {
        server_hold("SELECT 1 FROM simba_mutex WHERE owner_id = 'a' "
                    "FOR UPDATE");
        b = person(&second, "b");
        late = asking(&b);
        late.deadline_ms = simba_loop_now_ms() + 300;
        assert_int_not_equal(try_run(&b, late), SIMBA_OK);
        server_let_go();
        ask(&b); /* when its session is back */
        expect_queued(true);
        leave(&b);
    }
    assert_int_equal(server_count_since(moment), sessions);
}

/* Many would ask a server again and again that can let but one of them write
 * at a time. */
SQL_TEST(test_sql_faults__who_is_too_late_asks_ever_less_often)
{
    enum { FEW = 80 };
    struct who a = person(&first, "a"), b = person(&second, "b");
    simba_request request;
    int64_t asked;

    ask(&a);
    ask(&b);
    leave(&b);
    server_sql("%s", FORBID_QUEUE);
    server_log_statements();
    asked = server_count_asks();
    for (int i = 0; i < 3; i++) {
        b = person(&second, "b");
        request = asking(&b);
        request.deadline_ms = simba_loop_now_ms() + 1000;
        run(&b, request);
        assert_false(got.mine);
        assert_false(got.is_queued);
        assert_true(got.wait_ms > 0);
        assert_true(i > 0 || strcmp(got.owner.id, "a") == 0);
    }
    server_sql("%s", ALLOW_QUEUE);
    assert_in_range(server_count_asks() - asked, 3, FEW);
    for (int i = 0; i < FEW && !got.is_queued; i++) {
        nap_ms((int)got.wait_ms);
        ask(&b);
    }
    expect_queued(true);
}

/* --- many at once -------------------------------------------------------- */

enum { HANDLES = 200, FILES_MOST = 4096 };

static bool may_open_many(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < FILES_MOST) {
        limit.rlim_cur =
            limit.rlim_max < FILES_MOST ? limit.rlim_max : FILES_MOST;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur >= FILES_MOST;
}

/* One of many processes, as far as the server can tell. */
struct newcomer {
    struct handle handle;
    pthread_t thread;
    pthread_barrier_t *gate;
    int index, status;
    simba_error error;
};

/* A slow machine may not let them all in at once; the core would try again. A
 * deadlock is no such thing. */
static bool is_overload(const struct newcomer *one)
{
    return (one->status == SIMBA_EUNAVAIL || one->status == SIMBA_EUNKNOWN) &&
           strstr(one->error.message, DEADLOCK) == NULL;
}

/* Every third mutex is used by two of them. */
static void *use_new_mutex(void *argument)
{
    struct newcomer *one = argument;
    char name[96];
    simba_request request = {.kind = SIMBA_ACQUIRE, .join = true, .id = "x"};
    int64_t until_ms;

    snprintf(name, sizeof name, "%s %d", mutex,
             one->index % 3 == 1 ? one->index - 1 : one->index);
    request.mutex = name;
    request.attempt = (simba_attempt){1, (uint64_t)one->index + 1};
    request.ttl_ms = request.transition_ms = request.waiter_ms = 60000;
    pthread_barrier_wait(one->gate);
    until_ms = simba_loop_now_ms() + 2 * PATIENCE_MS;
    do {
        request.deadline_ms = until_ms;
        one->status = handle_run(&one->handle, &request, &one->error);
    } while (is_overload(one) && simba_loop_now_ms() < until_ms);
    return NULL;
}

/* Not even the tables are there yet. */
SQL_TEST(test_sql_faults__two_hundred_first_uses_at_once)
{
    struct newcomer *all = calloc(HANDLES, sizeof *all);
    pthread_barrier_t gate;

    if (!may_open_many()) {
        free(all);
        skip();
    }
    pthread_barrier_init(&gate, NULL, HANDLES);
    server_sql("DROP TABLE IF EXISTS simba_mutex, simba_tenure, simba_line, "
               "simba_tombstone, simba_broken");
    for (int i = 0; i < HANDLES; i++) {
        all[i].index = i;
        all[i].gate = &gate;
        must_open(&all[i].handle);
        assert_int_equal(
            pthread_create(&all[i].thread, NULL, use_new_mutex, &all[i]), 0);
    }
    for (int i = 0; i < HANDLES; i++) {
        pthread_join(all[i].thread, NULL);
        handle_close(&all[i].handle);
    }
    for (int i = 0; i < HANDLES; i++) {
        if (all[i].status != SIMBA_OK) {
            fail_msg("%d: %s", all[i].status, all[i].error.message);
        }
    }
    assert_int_equal(server_sql("SELECT count(*) FROM simba_mutex "
                                "WHERE owner_id = 'x'"),
                     HANDLES - (HANDLES + 1) / 3);
    pthread_barrier_destroy(&gate);
    free(all);
}

/* --- a waiter that is stopped -------------------------------------------- */

/* In another process: joins the queue and leaves it, without end. */
static _Noreturn void play_restless(const char *name)
{
    struct who who;

    snprintf(mutex, sizeof mutex, "%s", name);
    must_open(&first);
    for (;;) {
        who = person(&first, "restless");
        (void)try_run(&who, asking(&who));
        (void)try_run(&who, (simba_request){.kind = SIMBA_LEAVE});
    }
}

/* Wherever it is stopped, it holds nothing that a renewal waits for: that would
 * fail when the wait for the lock is over. */
SQL_TEST(test_sql_faults__a_stopped_waiter_blocks_no_renewal)
{
    struct who a = person(&second, "a");
    char self[] = "/proc/self/exe";
    char *arguments[] = {self, mutex, NULL};
    pid_t pid;

    ask(&a);
    assert_int_equal(posix_spawn(&pid, self, NULL, NULL, arguments, environ),
                     0);
    for (int i = 0; i < 60; i++) {
        nap_ms(i % 7);
        kill(pid, SIGSTOP);
        renew(&a);
        expect_mine(&a);
        kill(pid, SIGCONT);
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        play_restless(argv[1]);
    }
    return run_unit_tests(NULL, NULL);
}
