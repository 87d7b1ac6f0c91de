/* Each backend that is broken on purpose (broken*.c) is caught by the test of
 * the contract that is named here, and the store of which it is made passes
 * that test. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

#include "fixtures/unit_test.h"

#include <simba/sys/tck.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a broken store owes never comes; a sound one has all the time. */
enum { PATIENCE_MS = 3000 };

/* X(fault, the test that catches it) */
#define BROKEN_MAP(X)                                                          \
    X(limit_ignored, "slots.so_many_own_it")                                   \
    X(limit_mine_only, "slots.least_limit_counts")                             \
    X(slot_twice, "slots.each_has_a_number_of_its_own")                        \
    X(shared_passes, "shared.nobody_passes")                                   \
    X(successor_passed, "hand_over.successor_is_the_next")                     \
    X(successor_dead, "hand_over.dead_successor_is_passed")                    \
    X(asked_forgotten, "hand_over.owner_is_told")                              \
    X(told_of_another, "tell.is_read_back")                                    \
    X(told_kept, "tell.is_told_anew_and_forgotten")                            \
    X(told_lasts, "tell.is_gone_with_its_lease")                               \
    X(breaks_untold, "admin.breaks_are_written_down")                          \
    X(asked_in_vain, "hand_over.who_does_not_fit_is_not_asked_for")            \
    X(token_stuck, "token.grows_with_every_tenure")                            \
    X(token_counts, "token.follows_the_clock")                                 \
    X(token_grows_by_renewal, "renew.token_is_kept")                           \
    X(acquire_by_id, "acquire.other_attempt_of_one_id_is_refused")             \
    X(acquire_not_idempotent, "acquire.same_attempt_is_granted_again")         \
    X(acquire_revives, "expire.lapsed_attempt_gets_a_new_token")               \
    X(everybody_is_granted, "storm.nothing_unsafe_happens")                    \
    X(repeat_does_not_extend, "acquire.asking_again_extends_the_lease")        \
    X(repeat_lies, "acquire.lease_runs_from_asking_again")                     \
    X(renew_steals, "renew.nothing_is_stolen")                                 \
    X(renew_by_id, "renew.other_attempt_of_one_id_is_refused")                 \
    X(renew_creates, "renew.nothing_is_created")                               \
    X(renew_revives, "renew.lapsed_tenure_is_over")                            \
    X(lease_from_reply, "renew.lease_runs_from_the_renewal")                   \
    X(lease_rounded, "expire.lease_is_not_rounded")                            \
    X(lease_rounded_up, "expire.lease_is_not_rounded")                         \
    X(lease_capped, "acquire.long_lease_is_kept")                              \
    X(release_by_id, "release.late_release_of_an_earlier_tenure_is_ignored")   \
    X(release_by_anybody, "release.other_owner_is_left_alone")                 \
    X(no_tombstone, "release.tombstone_refuses_a_late_acquire")                \
    X(short_tomb, "release.tombstone_lasts_its_time")                          \
    X(one_tomb, "release.tombstones_of_several")                               \
    X(tomb_cleared, "release.tombstone_outlives_a_tenure")                     \
    X(leave_frees_the_owner, "queue.leaving_leaves_the_owner_alone")           \
    X(no_transition, "transition.others_are_refused")                          \
    X(never_expires, "expire.unrenewed_mutex_passes_on")                       \
    X(lost_wake_up, "wake_ups.release_wakes_the_next")                         \
    X(never_wakes, "wake_ups.release_is_not_waited_out")                       \
    X(wakes_too_late, "wake_ups.release_is_not_waited_out")                    \
    X(wakes_the_second_only, "wake_ups.release_is_not_waited_out")             \
    X(wake_is_grant, "wake_ups.wake_up_alone_grants_nothing")                  \
    X(queue_ignores_death, "queue.dead_waiter_is_skipped")                     \
    X(queue_ignores_silence, "queue.lapsed_position_is_skipped")               \
    X(queue_reversed, "queue.first_come_first_served")                         \
    X(newcomers_pass, "expire.queue_goes_before_newcomers")                    \
    X(offer_forgotten, "queue.newcomer_does_not_pass")                         \
    X(reading_takes, "observer.takes_nothing")                                 \
    X(case_folded, "names.case_matters")                                       \
    X(names_trimmed, "names.spaces_at_the_end_matter")                         \
    X(ids_cut, "names.longest_id_works")                                       \
    X(broken_tenure_renews, "admin.break_ends_with_the_lease")                 \
    X(second_not_told, "wake_ups.second_in_the_queue_is_woken_too")            \
    X(offer_short, "offer.offered_one_has_its_time")                           \
    X(offer_long, "offer.is_over_in_time")                                     \
    X(missed_offer_keeps_position, "offer.missed_one_costs_the_position")      \
    X(position_ignored, "queue.position_is_brought_back")                      \
    X(joins_where_one_left, "queue.who_comes_after_one_that_left_is_last")     \
    X(break_drops_the_queue, "admin.break_keeps_the_queue")                    \
    X(wait_nothing, "times.wait_is_what_is_left")                              \
    X(wait_whole_lease, "times.wait_is_what_is_left")                          \
    X(read_without_times, "times.stand_in_order")                              \
    X(refusal_begins_now, "times.are_told_alike_to_everybody")                 \
    X(repeat_begins_anew, "times.only_the_end_moves")                          \
    X(clock_goes_back, "scheduler.keeps_the_beat")                             \
    X(ended_is_owner, "observer.read_tells_what_ended")                        \
    X(former_untold, "observer.owners_tell_who_began_before")                  \
    X(only_the_oldest_is_told, "observer.tells_each_tenure_of_several")        \
    X(list_ends_early, "admin.list_shows_all_of_them")                         \
    X(list_mixes_owners, "admin.list_shows_all_of_them")                       \
    X(names_trimmed_in_front, "names.spaces_at_the_front_matter")              \
    X(names_cut, "names.last_byte_matters")                                    \
    X(token_is_the_clock, "token.grows_ahead_of_the_clock")                    \
    X(renews_one_of_many, "expire.service_keeps_its_mutex")                    \
    X(observers_not_told, "observer.sees_every_change_in_order")               \
    X(break_wakes_nobody, "admin.break_wakes_the_next")                        \
    X(list_has_a_page, "many.thousand_mutexes_on_one_handle")                  \
    X(list_escapes, "admin.list_tells_names_as_given")                         \
    X(gives_up, "queue.first_come_first_served")                               \
    X(attempt_halved, "acquire.whole_attempt_counts")                          \
    X(attempt_rounded, "acquire.whole_attempt_counts")                         \
    X(tomb_overwritten, "release.tombstone_refuses_a_late_acquire")            \
    X(few_tombs, "release.tombstones_of_several")                              \
    X(leave_by_id, "queue.positions_belong_to_attempts")                       \
    X(repeat_drops_the_queue, "queue.owner_leaves_them_alone")                 \
    X(renewal_drops_the_queue, "queue.owner_leaves_them_alone")                \
    X(leave_drops_the_offer, "queue.offer_outlives_who_leaves")                \
    X(position_from_joining, "queue.asking_again_keeps_it_alive")              \
    X(release_keeps_the_offer, "queue.offered_one_that_releases_passes_it_on") \
    X(undo_keeps_the_position, "release.tombstone_takes_no_position")          \
    X(offered_is_owner, "offer.offered_one_has_its_time")                      \
    X(nothing_offered, "offer.offered_one_has_its_time")                       \
    X(renewal_forgets_the_limit, "slots.so_many_own_it")                       \
    X(limit_of_the_first_asking, "observer.owners_tell_who_began_before")      \
    X(repeat_counts_twice, "slots.so_many_own_it")                             \
    X(lapsed_are_counted, "slots.first_that_ends_makes_room")                  \
    X(wait_for_the_last, "slots.first_that_ends_makes_room")                   \
    X(break_ends_the_oldest, "slots.break_ends_the_one_that_is_named")         \
    X(all_are_asked, "hand_over.who_does_not_fit_is_not_asked_for")            \
    X(slot_offered_to_nobody, "shared.all_who_fit_are_woken")                  \
    X(dead_are_told, "queue.dead_waiter_is_skipped")                           \
    X(list_omits_the_free, "admin.list_shows_who_owns")                        \
    X(list_tells_one_owner, "slots.list_tells_each_owner")                     \
    X(show_tells_one_owner, "observer.owners_tell_who_began_before")           \
    X(breaks_say_now, "admin.breaks_are_written_down")                         \
    X(breaks_in_seconds, "admin.breaks_are_written_down")                      \
    X(told_cut, "tell.is_told_anew_and_forgotten")                             \
    X(hand_over_wakes_nobody, "hand_over.owner_is_woken")                      \
    X(leave_wakes_nobody, "wake_ups.leaving_wakes_the_next")                   \
    X(unsubscribes_all, "observer.stop_of_one_is_no_other_s")                  \
    X(mute_renew, "renew.token_is_kept")                                       \
    X(mute_release, "release.mutex_is_free_at_once")

/* The same of session stores, made of examples/backend/simba-rank.c. */
#define BROKEN_RANK_MAP(X)                                                     \
    X(lease_never_filled, "network.owner_cut_off_answers_no_in_time")          \
    X(head_never_evicted, "queue.silent_head_is_passed")                       \
    X(session_left, "queue.closed_handle_is_gone_at_once")                     \
    X(no_forked, "network.forked_child_keeps_no_connection")                   \
    X(watches_not_set_again, "network.waiter_is_woken_after_a_reconnection")   \
    X(failed_for_unknown, "network.lost_reply_is_unknown")                     \
    X(renews_from_memory, "network.owner_cut_off_answers_no_in_time")          \
    X(session_not_resumed, "network.short_cut_costs_no_tenure")                \
    X(no_wake_when_back, "network.release_in_an_outage_is_heard_of")           \
    X(watch_after_refusal, "network.release_before_the_refusal_is_heard_of")   \
    X(deaf, "wake_ups.release_is_not_waited_out")                              \
    X(tombstone_ignored, "network.late_requests_have_no_effect")               \
    X(second_key_in_doubt, "network.lost_reply_is_unknown")                    \
    X(late_reply_for_the_next, "network.lost_reply_is_unknown")                \
    X(release_unanswered, "network.silence_is_no_answer")                      \
    X(wakes_by_key, "names.odd_ones_are_woken_too")                            \
    X(watches_once, "wake_ups.nothing_uses_them_up")                           \
    X(polls, "wake_ups.come_at_once")                                          \
    X(open_over_exec, "lifecycle.descriptors_are_its_own")                     \
    X(leaks_a_descriptor, "lifecycle.descriptors_are_its_own")                 \
    X(asks_all_the_time, "expire.refusal_tells_how_long_to_wait")              \
    X(everybody_is_head, "queue.only_the_first_is_head")                       \
    X(reads_nothing, "token.is_told_to_the_contender")                         \
    X(session_owns, "acquire.two_on_one_handle_exclude_each_other")            \
    X(token_of_the_session, "token.grows_with_every_tenure")                   \
    X(positions_of_the_handle, "queue.many_stand_in_order")                    \
    X(owner_remembered, "queue.who_waits_hears_of_the_new_owner")              \
    X(grants_from_memory, "storm.nothing_unsafe_happens")                      \
    X(child_ends_session, "lifecycle.forked_child_owns_nothing")               \
    X(unknown_is_refused, "network.silence_is_no_answer")                      \
    X(failed_removal_is_done, "network.silence_is_no_answer")                  \
    X(leave_unanswered, "network.silence_is_no_answer")                        \
    X(renewal_unknown_is_lost, "network.late_requests_have_no_effect")         \
    X(one_woken_when_back, "network.release_at_a_reconnection_is_heard_of")    \
    X(never_pings, "queue.quiet_waiter_keeps_its_session")                     \
    X(leaves_with_session, "queue.who_left_is_skipped")

/* And of clock stores that have the model from the kit, made of
 * examples/backend/simba-shelf.c. */
#define BROKEN_SHELF_MAP(X)                                                    \
    X(clocks_differ, "expire.not_before_its_time")                             \
    X(clock_stands, "expire.unrenewed_mutex_passes_on")                        \
    X(one_number_for_all, "wake_ups.release_wakes_one_after_the_other")        \
    X(value_cut, "queue.asking_again_keeps_the_position")                      \
    X(renewal_unwritten, "renew.lease_runs_from_the_renewal")                  \
    X(free_is_deleted, "queue.first_come_first_served")                        \
    X(written_blindly, "many.one_of_those_who_come_at_once")                   \
    X(nobody_notified, "wake_ups.release_is_not_waited_out")                   \
    X(tries_join, "acquire.trying_takes_no_position")                          \
    X(ids_folded, "names.ids_are_told_as_given")                               \
    X(leave_unwritten, "queue.who_left_is_skipped")                            \
    X(break_unwritten, "admin.break_now_frees_at_once")                        \
    X(waiter_not_released, "release.position_in_the_queue_is_given_up_too")

static void print_failure(void *user, const simba_tck_result *result)
{
    if (result->verdict == SIMBA_TCK_FAILED) {
        printf("# %s, %s: %s\n", (const char *)user, result->test->name,
               result->message);
    }
}

/* Whether the one test was run and has failed, or passed. */
static bool is_as_expected(char *url, const char *test, bool is_sound)
{
    simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    simba_tck_summary summary;
    simba_error error = {0};

    options.store = url;
    options.pattern = test;
    options.patience_ms = is_sound ? 0 : PATIENCE_MS;
    options.report = print_failure;
    options.user = url;
    if (simba_tck_run(&options, &summary, &error) != SIMBA_OK) {
        printf("# %s: %s\n", url, error.message);
        return false;
    }
    return summary.passed == (is_sound ? 1 : 0) &&
           summary.failed == (is_sound ? 0 : 1);
}

/* --- all at once: the tests mostly wait ---------------------------------- */

/* What it is made of, which is sound, and the URL of a fault up to its name. */
struct kind {
    const char *sound, *broken;
};

static const struct kind memory_kind = {"memory:sound", "broken:"};
static const struct kind shelf_kind = {"shelf:sound", "brokenshelf:"};
static char rank_sound[64], rank_broken[64];
static const struct kind rank_kind = {rank_sound, rank_broken};

struct broken {
    const struct kind *kind;
    const char *fault, *test;
    pid_t pid;
};

#define OF_MEMORY(fault, test) {&memory_kind, #fault, test, 0},
#define OF_RANK(fault, test)   {&rank_kind, #fault, test, 0},
#define OF_SHELF(fault, test)  {&shelf_kind, #fault, test, 0},
static struct broken all[] = {BROKEN_MAP(OF_MEMORY) BROKEN_RANK_MAP(OF_RANK)
                                  BROKEN_SHELF_MAP(OF_SHELF)};

static void try_one(const struct broken *broken)
{
    char sound[64], url[160];
    bool is_caught;

    snprintf(sound, sizeof sound, "%s", broken->kind->sound);
    snprintf(url, sizeof url, "%s%s", broken->kind->broken, broken->fault);
    is_caught = is_as_expected(sound, broken->test, true);
    if (is_caught) {
        /* A busy machine may see nothing, but hardly so three times. */
        is_caught = is_as_expected(url, broken->test, false) ||
                    is_as_expected(url, broken->test, false) ||
                    is_as_expected(url, broken->test, false);
    }
    fflush(stdout);
    _exit(is_caught ? 0 : 1);
}

static pid_t server;

/* Dies with us, come what may. */
static bool start_server(void)
{
    char port[16] = "";
    int tell[2];
    ssize_t count;

    assert_int_equal(pipe(tell), 0);
    server = fork();
    if (server == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(tell[1], STDOUT_FILENO);
        (void)close(tell[0]);
        (void)close(tell[1]);
        execl(RANK_SERVER, RANK_SERVER, (char *)NULL);
        _exit(127);
    }
    (void)close(tell[1]);
    count = read(tell[0], port, sizeof port - 1);
    (void)close(tell[0]);
    if (count <= 1 || port[count - 1] != '\n') {
        return false;
    }
    port[count - 1] = '\0';
    snprintf(rank_sound, sizeof rank_sound, "rank://127.0.0.1:%s", port);
    snprintf(rank_broken, sizeof rank_broken, "brokenrank://127.0.0.1:%s/",
             port);
    return true;
}

static int stop_server(void **state)
{
    (void)state;
    (void)kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0);
    return 0;
}

static int start_all(void **state)
{
    (void)state;
    fflush(stdout);
    if (!start_server()) {
        return -1;
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        all[i].pid = fork();
        if (all[i].pid == 0) {
            try_one(&all[i]);
        }
    }
    return 0;
}

static void expect_caught(const char *fault)
{
    int status = -1;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].fault, fault) == 0) {
            assert_int_equal(waitpid(all[i].pid, &status, 0), all[i].pid);
        }
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define DEFINE(fault, test)                                                    \
    static void test_broken__##fault##_is_caught(void **state)                 \
    {                                                                          \
        (void)state;                                                           \
        expect_caught(#fault);                                                 \
    }
BROKEN_MAP(DEFINE)
BROKEN_RANK_MAP(DEFINE)
BROKEN_SHELF_MAP(DEFINE)

/* One that completes nothing is waited for once, not in every test. */
static void test_broken__mute_is_waited_for_once(void **state)
{
    char url[] = "broken:mute";
    simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    simba_tck_summary summary;

    (void)state;
    options.store = url;
    options.pattern = "acquire.*";
    options.patience_ms = PATIENCE_MS;
    options.report = print_failure;
    options.user = url;
    assert_int_equal(simba_tck_run(&options, &summary, NULL), SIMBA_OK);
    assert_true(summary.failed > 10);
    assert_true(summary.elapsed_ms < 30000); /* two alone would take 32 s */
}

/* It is no fault to tell no time: each leader has beats of its own then, and
 * this store passes the mutex on within a millisecond. */
static void test_broken__tells_no_time_is_allowed(void **state)
{
    char url[] = "broken:tells_no_time";

    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_true(is_as_expected(url, "scheduler.keeps_the_beat", true));
    }
}

/* Nor is it one to say after a second that a request was not done. */
static void test_broken__gives_up_late_is_allowed(void **state)
{
    char url[] = "broken:gives_up_late";

    (void)state;
    assert_true(is_as_expected(url, "queue.first_come_first_served", true));
}

/* Also of what the functions for admins ask. */
static void test_broken__admins_may_be_given_up_late(void **state)
{
    static const char *const pairs[][2] = {
        {"broken:gives_up_told", "tell.is_read_back"},
        {"broken:gives_up_book", "admin.breaks_are_written_down"},
        {"broken:gives_up_break", "admin.breaks_are_written_down"}};
    char url[32];

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        snprintf(url, sizeof url, "%s", pairs[i][0]);
        assert_true(is_as_expected(url, pairs[i][1], true));
    }
}

int main(void)
{
#define ENTRY(fault, test) cmocka_unit_test(test_broken__##fault##_is_caught),
    /* The first takes its time while the others run. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken__mute_is_waited_for_once),
        cmocka_unit_test(test_broken__tells_no_time_is_allowed),
        cmocka_unit_test(test_broken__gives_up_late_is_allowed),
        cmocka_unit_test(test_broken__admins_may_be_given_up_late),
        BROKEN_MAP(ENTRY) BROKEN_RANK_MAP(ENTRY) BROKEN_SHELF_MAP(ENTRY)};

    return cmocka_run_group_tests(tests, start_all, stop_server);
}
