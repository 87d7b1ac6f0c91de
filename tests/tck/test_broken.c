/* Each backend that is broken on purpose (broken.c) is caught by the test of
 * the contract that is named here, and the memory store, of which it is made,
 * passes that test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <simba/tck.h>

#include <stdio.h>
#include <string.h>

/* Long enough for what must come, short enough to wait for what never does. */
enum { PATIENCE_MS = 3000 };

/* X(fault, the test that catches it) */
#define BROKEN_MAP(X)                                                          \
    X(token_stuck, "token.grows_with_every_tenure")                            \
    X(token_grows_by_renewal, "renew.token_is_kept")                           \
    X(acquire_by_id, "acquire.other_attempt_of_one_id_is_refused")             \
    X(acquire_not_idempotent, "acquire.same_attempt_is_granted_again")         \
    X(everybody_is_granted, "storm.nothing_unsafe_happens")                    \
    X(repeat_does_not_extend, "acquire.asking_again_extends_the_lease")        \
    X(renew_steals, "renew.nothing_is_stolen")                                 \
    X(renew_by_id, "renew.other_attempt_of_one_id_is_refused")                 \
    X(renew_creates, "renew.nothing_is_created")                               \
    X(renew_revives, "renew.lapsed_tenure_is_over")                            \
    X(lease_from_reply, "renew.lease_runs_from_the_renewal")                   \
    X(release_by_id, "release.late_release_of_an_earlier_tenure_is_ignored")   \
    X(release_by_anybody, "release.other_owner_is_left_alone")                 \
    X(no_tombstone, "release.tombstone_refuses_a_late_acquire")                \
    X(leave_frees_the_owner, "line.leaving_leaves_the_owner_alone")            \
    X(no_transition, "transition.others_are_refused")                          \
    X(never_expires, "expire.unrenewed_mutex_passes_on")                       \
    X(lost_wake_up, "hints.release_wakes_the_next")                            \
    X(hint_is_grant, "hints.hint_alone_grants_nothing")                        \
    X(line_ignores_death, "line.dead_waiter_is_skipped")                       \
    X(line_ignores_silence, "line.lapsed_place_is_skipped")                    \
    X(line_reversed, "line.first_come_first_served")                           \
    X(newcomers_pass, "expire.line_goes_before_newcomers")                     \
    X(reservation_forgotten, "line.newcomer_does_not_pass")                    \
    X(reading_takes, "observer.takes_nothing")                                 \
    X(case_folded, "names.case_matters")                                       \
    X(names_trimmed, "names.spaces_at_the_end_matter")                         \
    X(ids_cut, "names.longest_id_works")                                       \
    X(broken_tenure_renews, "admin.break_ends_with_the_lease")

static void print_failure(void *user, const simba_tck_result *result)
{
    (void)user;
    if (result->verdict == SIMBA_TCK_FAILED) {
        printf("# %s: %s\n", result->test->name, result->message);
    }
}

static simba_tck_summary run(const char *url, const char *test)
{
    simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    simba_tck_summary summary;
    simba_error error = {0};

    options.store = url;
    options.pattern = test;
    options.patience_ms = PATIENCE_MS;
    options.report = print_failure;
    if (simba_tck_run(&options, &summary, &error) != SIMBA_OK) {
        fail_msg("%s: %s", url, error.message);
    }
    return summary;
}

static void expect_caught(const char *fault, const char *test)
{
    simba_tck_summary sound = run("memory:sound", test);
    simba_tck_summary broken;
    char url[80];

    snprintf(url, sizeof url, "broken:%s", fault);
    broken = run(url, test);
    assert_int_equal(sound.passed, 1);
    assert_int_equal(sound.failed, 0);
    assert_int_equal(broken.passed, 0);
    assert_int_equal(broken.failed, 1);
}

#define DEFINE(fault, test)                                                    \
    static void test_broken__##fault##_is_caught(void **state)                 \
    {                                                                          \
        (void)state;                                                           \
        expect_caught(#fault, test);                                           \
    }
BROKEN_MAP(DEFINE)

int main(void)
{
#define ENTRY(fault, test) cmocka_unit_test(test_broken__##fault##_is_caught),
    const struct CMUnitTest tests[] = {BROKEN_MAP(ENTRY)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
