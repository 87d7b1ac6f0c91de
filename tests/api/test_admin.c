/* What an admin asks, on any store that can do all of it. */
#include "fixtures/api_harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* A lease with time to act in, and yet short enough to be waited for. A server
 * needs a longer one, and is set up for tests, not for safety. */
static int64_t lease_ms = 2000;
static bool is_server;

struct person {
    simba_locker *locker;
    _Atomic bool is_lost;
    _Atomic bool is_done;
    int rc;
    uint64_t token;
    int64_t acquired_ms;
    pthread_t thread;
};

static void on_lost(void *user, const simba_error *why)
{
    (void)why;
    atomic_store(&((struct person *)user)->is_lost, true);
}

static void enter(struct person *p,
                  simba_store *store,
                  const char *mutex,
                  const char *id)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    memset(p, 0, sizeof *p);
    options.mutex = mutex;
    options.id = id;
    options.times.ttl_ms = lease_ms * 3 / 4;
    options.times.transition_ms = lease_ms / 4;
    options.on_lost = on_lost;
    options.user = p;
    p->locker = must_open_locker(store, &options);
}

static void acquire(struct person *p)
{
    assert_int_equal(simba_locker_acquire(p->locker, -1, &p->token, NULL),
                     SIMBA_OK);
}

static void *wait_in_line(void *argument)
{
    struct person *p = argument;

    p->rc = simba_locker_acquire(p->locker, PATIENCE_MS, &p->token, NULL);
    p->acquired_ms = now_ms();
    atomic_store(&p->is_done, true);
    return NULL;
}

/* How many wait, as the store shows it. */
static size_t waiting(simba_store *store, const char *mutex)
{
    simba_report *report;
    size_t count;

    assert_int_equal(simba_admin_show(store, mutex, &report, NULL), SIMBA_OK);
    count = simba_report_waiter_count(report);
    simba_report_close(report);
    return count;
}

/* Joins the queue, and is seen in it. */
static void join(struct person *p, simba_store *store, const char *mutex)
{
    size_t before = waiting(store, mutex);

    assert_int_equal(pthread_create(&p->thread, NULL, wait_in_line, p), 0);
    await(waiting(store, mutex) > before);
}

static int break_it(simba_store *store,
                    const char *mutex,
                    uint64_t token,
                    bool now)
{
    simba_break wish = SIMBA_BREAK_INIT;

    wish.mutex = mutex;
    wish.token = token;
    wish.reason = "it hangs, says \"somebody\"";
    wish.now = now;
    return simba_admin_break(store, &wish, NULL, NULL);
}

/* --- list and show ------------------------------------------------------- */

TEST(test_admin__lists_what_is_owned_in_order)
{
    simba_store *store = open_store();
    struct person people[3];
    char names[3][96];
    char glob[80];
    simba_report *report;

    snprintf(glob, sizeof glob, "%s *", fresh_mutex());
    for (int i = 0; i < 3; i++) {
        snprintf(names[i], sizeof names[i], "%.*s%c", (int)strlen(glob) - 1,
                 glob, "cab"[i]);
        enter(&people[i], store, names[i], "me");
        acquire(&people[i]);
    }
    assert_int_equal(simba_locker_release(people[2].locker, NULL), SIMBA_OK);
    assert_int_equal(simba_admin_list(store, glob, &report, NULL), SIMBA_OK);
    assert_int_equal(simba_report_mutex_count(report), 2);
    assert_string_equal(simba_report_mutex(report, 0)->mutex, names[1]);
    assert_string_equal(simba_report_mutex(report, 1)->mutex, names[0]);
    assert_string_equal(simba_report_mutex(report, 0)->owner.id, "me");
    assert_true(simba_report_mutex(report, 0)->owner.token == people[1].token);
    assert_int_equal(simba_report_mutex(report, 0)->waiting, 0);
    assert_null(simba_report_mutex(report, 2));
    assert_true(simba_report_store_ms(report) > 0);
    simba_report_close(report);
    for (int i = 0; i < 3; i++) {
        simba_locker_close(people[i].locker);
    }
    assert_int_equal(simba_admin_list(store, glob, &report, NULL), SIMBA_OK);
    assert_int_equal(simba_report_mutex_count(report), 0);
    simba_report_close(report);
    simba_store_close(store);
}

TEST(test_admin__list_without_glob_tells_all)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    struct person person;
    simba_report *report;
    bool is_seen = false;

    enter(&person, store, mutex, "me");
    acquire(&person);
    assert_int_equal(simba_admin_list(store, NULL, &report, NULL), SIMBA_OK);
    for (size_t i = 0; i < simba_report_mutex_count(report); i++) {
        is_seen |= strcmp(simba_report_mutex(report, i)->mutex, mutex) == 0;
    }
    assert_true(is_seen);
    simba_report_close(report);
    simba_locker_close(person.locker);
    simba_store_close(store);
}

TEST(test_admin__shows_owner_and_queue)
{
    simba_store *store = open_store();
    simba_store *other = open_store();
    const char *mutex = fresh_mutex();
    struct person owner, first, second;
    simba_report *report;

    enter(&owner, store, mutex, "owner");
    enter(&first, other, mutex, "first \"é\"");
    enter(&second, store, mutex, "second");
    acquire(&owner);
    join(&first, store, mutex);
    join(&second, store, mutex);
    assert_int_equal(simba_admin_show(other, mutex, &report, NULL), SIMBA_OK);
    assert_string_equal(simba_report_owner(report)->id, "owner");
    assert_true(simba_report_owner(report)->token == owner.token);
    assert_int_equal(simba_report_waiter_count(report), 2);
    assert_string_equal(simba_report_waiter(report, 0)->id, "first \"é\"");
    assert_string_equal(simba_report_waiter(report, 1)->id, "second");
    assert_true(simba_report_waiter(report, 0)->position <
                simba_report_waiter(report, 1)->position);
    assert_false(simba_report_waiter(report, 0)->is_offered);
    assert_true(simba_report_waiter(report, 0)->joined_at_ms <=
                simba_report_store_ms(report));
    assert_null(simba_report_waiter(report, 2));
    simba_report_close(report);
    assert_int_equal(simba_locker_release(owner.locker, NULL), SIMBA_OK);
    pthread_join(first.thread, NULL);
    assert_int_equal(simba_locker_release(first.locker, NULL), SIMBA_OK);
    pthread_join(second.thread, NULL);
    assert_true(second.token > first.token);
    simba_locker_close(owner.locker);
    simba_locker_close(first.locker);
    simba_locker_close(second.locker);
    simba_store_close(other);
    simba_store_close(store);
}

TEST(test_admin__shows_an_unknown_mutex_as_free)
{
    simba_store *store = open_store();
    simba_report *report;
    simba_error error;

    assert_int_equal(simba_admin_show(store, fresh_mutex(), &report, NULL),
                     SIMBA_OK);
    assert_string_equal(simba_report_owner(report)->id, "");
    assert_int_equal(simba_report_waiter_count(report), 0);
    assert_int_equal(simba_report_finding_count(report), 0);
    simba_report_close(report);
    assert_int_equal(simba_admin_show(store, "}", &report, &error),
                     SIMBA_EINVAL);
    assert_null(report);
    assert_int_equal(simba_admin_show(store, NULL, &report, &error),
                     SIMBA_EINVAL);
    simba_report_close(NULL);
    simba_store_close(store);
}

/* --- break --------------------------------------------------------------- */

TEST(test_admin__break_names_the_tenure_that_is_there)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    simba_break wish = SIMBA_BREAK_INIT;
    struct person person;
    simba_owner present;
    simba_error error;
    char token[32];

    enter(&person, store, mutex, "me");
    acquire(&person);
    wish.mutex = mutex;
    wish.token = person.token + 1;
    assert_int_equal(simba_admin_break(store, &wish, &present, &error),
                     SIMBA_ELOST);
    assert_string_equal(present.id, "me");
    assert_true(present.token == person.token);
    snprintf(token, sizeof token, "%llu", (unsigned long long)person.token);
    assert_non_null(strstr(error.message, token));
    assert_true(simba_locker_is_owner(person.locker));
    assert_int_equal(simba_locker_release(person.locker, NULL), SIMBA_OK);
    wish.token = person.token;
    assert_int_equal(simba_admin_break(store, &wish, &present, &error),
                     SIMBA_ELOST);
    assert_string_equal(present.id, "");
    assert_non_null(strstr(error.message, "nobody"));
    simba_locker_close(person.locker);
    simba_store_close(store);
}

TEST(test_admin__break_refuses_what_makes_no_sense)
{
    simba_store *store = open_store();
    simba_break wish = SIMBA_BREAK_INIT;

    assert_int_equal(simba_admin_break(store, NULL, NULL, NULL), SIMBA_EINVAL);
    wish.mutex = "m";
    assert_int_equal(simba_admin_break(store, &wish, NULL, NULL), SIMBA_EINVAL);
    wish.token = 1;
    wish.mutex = NULL;
    assert_int_equal(simba_admin_break(store, &wish, NULL, NULL), SIMBA_EINVAL);
    wish.size = 0;
    wish.mutex = "m";
    assert_int_equal(simba_admin_break(store, &wish, NULL, NULL), SIMBA_EINVAL);
    simba_store_close(store);
}

/* No renewal any more: the owner hears of it, and the next one comes without
 * an overlap. */
TEST(test_admin__break_ends_a_tenure_with_its_lease)
{
    simba_store *store = open_store();
    simba_store *other = open_store();
    const char *mutex = fresh_mutex();
    struct person owner, next;

    enter(&owner, store, mutex, "owner");
    enter(&next, other, mutex, "next");
    acquire(&owner);
    join(&next, store, mutex);
    assert_int_equal(break_it(other, mutex, owner.token, false), SIMBA_OK);
    assert_true(simba_locker_is_owner(owner.locker));
    assert_false(atomic_load(&next.is_done));
    await(atomic_load(&owner.is_lost));
    assert_false(simba_locker_is_owner(owner.locker));
    pthread_join(next.thread, NULL);
    assert_int_equal(next.rc, SIMBA_OK);
    assert_true(next.token > owner.token);
    assert_int_equal(break_it(other, mutex, owner.token, false), SIMBA_ELOST);
    simba_locker_close(owner.locker);
    simba_locker_close(next.locker);
    simba_store_close(other);
    simba_store_close(store);
}

TEST(test_admin__break_now_frees_at_once)
{
    simba_store *store = open_store();
    simba_store *other = open_store();
    const char *mutex = fresh_mutex();
    struct person owner, next;
    int64_t broken_ms;

    enter(&owner, store, mutex, "owner");
    enter(&next, other, mutex, "next");
    acquire(&owner);
    join(&next, store, mutex);
    broken_ms = now_ms();
    assert_int_equal(break_it(store, mutex, owner.token, true), SIMBA_OK);
    pthread_join(next.thread, NULL);
    assert_int_equal(next.rc, SIMBA_OK);
    assert_true(next.acquired_ms - broken_ms < lease_ms / 2);
    assert_true(next.token > owner.token);
    await(atomic_load(&owner.is_lost));
    assert_true(simba_locker_is_owner(next.locker));
    simba_locker_close(owner.locker);
    assert_true(simba_locker_is_owner(next.locker)); /* not by its release */
    simba_locker_close(next.locker);
    simba_store_close(other);
    simba_store_close(store);
}

/* --- doctor and the rest ------------------------------------------------- */

TEST(test_admin__doctor_says_what_holds)
{
    simba_store *store = open_store();
    simba_report *report;
    enum simba_gravity gravest = SIMBA_FINDING_OK;

    assert_int_equal(simba_admin_doctor(store, &report, NULL), SIMBA_OK);
    assert_true(simba_report_finding_count(report) >= 4);
    for (size_t i = 0; i < simba_report_finding_count(report); i++) {
        const simba_finding *finding = simba_report_finding(report, i);

        assert_true(strlen(finding->name) > 0 && strlen(finding->text) > 0);
        assert_null(strchr(finding->text, '\n'));
        gravest = finding->gravity > gravest ? finding->gravity : gravest;
        for (size_t k = 0; k < i; k++) {
            const simba_finding *other = simba_report_finding(report, k);

            /* Of several servers each may have its say. */
            assert_true(strcmp(finding->name, other->name) != 0 ||
                        strcmp(finding->text, other->text) != 0);
        }
    }
    assert_int_equal(simba_report_gravity(report), gravest);
    assert_true(is_server || gravest < SIMBA_FINDING_SERIOUS);
    simba_report_close(report);
    simba_store_close(store);
}

/* As often as one likes; afterwards it can be used. */
TEST(test_admin__init_makes_what_is_needed)
{
    simba_store *store = open_store();
    simba_report *report;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(simba_admin_init(store, i == 1, &report, NULL),
                         SIMBA_OK);
        assert_int_equal(simba_report_finding_count(report) > 0,
                         (simba_store_capabilities(store) & SIMBA_CAN_INIT) !=
                             0);
        assert_int_equal(simba_report_gravity(report), SIMBA_FINDING_OK);
        simba_report_close(report);
    }
    assert_int_equal(waiting(store, "unused"), 0);
    simba_store_close(store);
}

TEST(test_admin__schema_is_told_without_a_store)
{
    simba_store *store = open_store();
    bool needs_some = (simba_store_capabilities(store) & SIMBA_CAN_INIT) != 0;
    simba_error error;
    char *text;

    assert_int_equal(simba_admin_schema(store_url, false, &text, &error),
                     SIMBA_OK);
    assert_int_equal(strlen(text) > 0, needs_some);
    free(text);
    assert_int_equal(simba_admin_schema(store_url, true, &text, NULL),
                     SIMBA_OK);
    free(text);
    simba_store_close(store);
    assert_int_equal(simba_admin_schema("nosuch:x", false, &text, &error),
                     SIMBA_EINVAL);
    assert_null(text);
    assert_non_null(strstr(error.message, "nosuch"));
}

TEST(test_admin__help_tells_what_urls_may_say)
{
    simba_error error;
    char *text;

    assert_int_equal(simba_admin_help("sqlite:", &text, NULL), SIMBA_OK);
    assert_memory_equal(text, "sqlite:", 7);
    assert_non_null(strstr(text, "\n  synchronous  "));
    free(text);
    assert_int_equal(simba_admin_help("memory:x", &text, NULL), SIMBA_OK);
    assert_string_equal(text, "");
    free(text);
    assert_int_equal(simba_admin_help("nosuch:", &text, &error), SIMBA_EINVAL);
    assert_null(text);
    assert_non_null(strstr(error.message, "nosuch"));
}

TEST(test_admin__tells_what_the_store_offers)
{
    simba_store *store = open_store();
    unsigned capabilities = simba_store_capabilities(store);

    assert_true(capabilities & SIMBA_CAN_LIST);
    assert_true(capabilities & SIMBA_CAN_BREAK);
    assert_true(capabilities & SIMBA_CAN_DOCTOR);
    assert_true(capabilities & SIMBA_CAN_PUSH);
    simba_store_close(store);
}

TEST(test_admin__refuses_in_a_forked_child)
{
    simba_store *store = open_store();
    simba_report *report;
    int status;
    pid_t child;

    child = fork();
    if (child == 0) {
        _exit(simba_admin_list(store, NULL, &report, NULL) == SIMBA_EFORKED &&
                      report == NULL
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    simba_store_close(store);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        store_url = argv[1];
    }
    if (argc > 2) {
        is_server = true;
        lease_ms = 4000;
    }
    return run_unit_tests(NULL, NULL);
}
