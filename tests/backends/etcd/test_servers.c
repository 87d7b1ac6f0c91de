/* What servers do to a store: they are restored from a snapshot, have no space
 * left, forget leases and history, or are cut off. */
#define _GNU_SOURCE
#include "driver.h"

#include "fixtures/tcp_proxy.h"

/* A command of the shell, with `server` to control it. */
static void sh(const char *command)
{
    char *line;

    assert_true(asprintf(&line,
                         "cd \"$SIMBA_SERVER_DIR\" && "
                         "server=$SIMBA_SERVER_CONTROL && { %s; } >sh.log 2>&1 "
                         "|| { cat sh.log >&2; exit 1; }",
                         command) > 0);
    if (system(line) != 0) {
        fail_msg("failed: %s", command);
    }
    free(line);
}

static void await_mine(struct who *who)
{
    await((ask(who), got.mine || (handle_woken(who->at, mutex, 20), false)));
}

/* Revisions come again then, tenures do not: neither is one renewed nor ended
 * by who had the same revision before. */
TEST_AROUND(test_etcd__a_restore_gives_no_tenure_to_another,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who c = person(&first, "c"), d = person(&second, "d");

    a.transition_ms = b.transition_ms = 60000;
    snprintf(mutex, sizeof mutex, "warm-a");
    ask(&c);
    snprintf(mutex, sizeof mutex, "warm-b");
    ask(&d);
    snprintf(mutex, sizeof mutex, "restored");
    ask(&a);
    release(&a);
    a = person(&first, "a");
    a.transition_ms = 60000;
    sh("etcdctl snapshot save snapshot");
    ask(&a);
    assert_true(got.mine);
    sh("$server --stop 1; data=$(sed -n 's/--data-dir=//p' 1.options); "
       "rm -rf \"$data\"; "
       "etcdctl snapshot restore snapshot --data-dir=\"$data\" $(grep "
       "'^--name\\|^--initial-cluster=\\|^--initial-advertise' 1.options); "
       "$server --start 1");
    ask(&b);
    assert_true(got.mine);
    renew(&a);
    assert_false(got.mine);
    release(&a);
    renew(&b);
    assert_true(got.mine);
    release(&b);
}

/* The lease of the session clears away who waits; an owner it only ends, and
 * nobody has the mutex before the owner's own lease is over. */
TEST_AROUND(test_etcd__a_lease_that_ends_ends_the_tenure,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    int64_t sent_ms;

    ask(&a);
    sent_ms = simba_loop_now_ms();
    renew(&a);
    assert_true(got.mine);
    ask(&b);
    assert_true(got.is_queued);
    sh("etcdctl lease list | sed 1d | xargs -n1 etcdctl lease revoke");
    renew(&a);
    assert_false(got.mine);
    await_mine(&b);
    assert_true(simba_loop_now_ms() >= sent_ms + LEASE);
    release(&b);
}

/* What they had seen of several owners goes with it, and they go on. */
TEST_AROUND(test_etcd__those_who_wait_for_a_slot_outlive_a_session,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who c = person(&second, "c");

    a.slots = b.slots = c.slots = 2;
    ask(&a);
    ask(&b);
    assert_true(got.mine);
    ask(&c);
    assert_true(got.is_queued);
    sh("etcdctl lease list | sed 1d | xargs -n1 etcdctl lease revoke");
    renew(&b);
    assert_false(got.mine);
    ask(&c);
    assert_true(got.is_queued);
    leave(&c);
    run(&c,
        (simba_request){.kind = SIMBA_BREAK, .token = a.token, .now = true});
    run(&c,
        (simba_request){.kind = SIMBA_BREAK, .token = b.token, .now = true});
}

/* Whoever finds out that it has ended, and whatever session comes next: nobody
 * who waits watches that one. */
TEST_AROUND(test_etcd__no_other_session_renews_a_tenure,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), other = person(&first, "other");

    ask(&a);
    assert_true(got.mine);
    sh("etcdctl lease list | sed 1d | xargs -n1 etcdctl lease revoke");
    await((run(&other, (simba_request){.kind = SIMBA_ACQUIRE,
                                       .mutex = "another",
                                       .join = true}),
           got.mine)); /* in a session that is new */
    renew(&a);
    assert_false(got.mine);
    run(&other, (simba_request){.kind = SIMBA_RELEASE, .mutex = "another"});
}

/* A process of this machine has died; others only try, and all together need
 * its lease to see that. */
TEST_AROUND(test_etcd__those_who_only_try_count_together,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a");
    int64_t since_ms = simba_loop_now_ms(), until_ms = since_ms + 3 * LEASE;
    simba_request request;
    int tries = 0;

    ask(&a);
    assert_true(got.mine);
    do {
        struct who b = person(&second, "b");

        handle_close(&second); /* as if it were another process */
        open_handle(&second);
        request = asking(&b);
        request.join = false;
        run(&b, request);
        tries++;
    } while (!got.mine && simba_loop_now_ms() < until_ms);
    assert_true(got.mine);
    assert_true(simba_loop_now_ms() >= since_ms + LEASE);
    assert_true(simba_loop_now_ms() < since_ms + 2 * LEASE);
    assert_true(tries > 3);
}

/* --- what others write --------------------------------------------------- */

/* Whoever wrote that: nobody owns without a token. */
TEST_AROUND(test_etcd__an_owner_without_a_token_is_not_believed,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a");
    char *command;

    assert_true(asprintf(&command,
                         "etcdctl put simba/o/%s '%016llx%016llx "
                         "0000000000000000 1 100 0 0 a'",
                         mutex, (unsigned long long)a.attempt.high,
                         (unsigned long long)a.attempt.low) > 0);
    sh(command);
    free(command);
    ask(&a);
    assert_false(got.mine);
    await_mine(&a);
    assert_true(a.token != 0);
    release(&a);
}

static void sh_of_mutex(const char *command)
{
    char *line;

    assert_true(asprintf(&line, "o=simba/o/%s; %s", mutex, command) > 0);
    sh(line);
    free(line);
}

/* Versions that know of one owner only read one with a valid id, which has no
 * session to be silent and whose lease does not end. */
TEST_AROUND(test_etcd__several_are_one_owner_that_is_never_silent,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");

    a.slots = b.slots = 2;
    ask(&a);
    ask(&b);
    assert_true(got.mine);
    release(&a);
    sh_of_mutex("etcdctl get $o --print-value-only | grep -Eqx '[0-9a-f]{32} "
                "[0-9a-f]{16} 0 [0-9]{12,18} [0-9]{1,18} 0 [^@]+'");
    release(&b);
    sh_of_mutex("[ -z \"$(etcdctl get $o)\" ]");
}

/* If such a one owns it all the same, nobody renews beside it, and it stays the
 * owner when those who were there before go. */
TEST_AROUND(test_etcd__who_owns_alone_has_taken_it_from_several,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");

    a.slots = b.slots = 2;
    ask(&a);
    ask(&b);
    assert_true(got.mine);
    sh_of_mutex("etcdctl put $o \"$(printf %032x 7) $(printf %016x 7) 1 9999 0 "
                "0 old\"");
    renew(&a);
    assert_false(got.mine);
    release(&b);
    release(&a);
    run(&a, (simba_request){.kind = SIMBA_READ});
    assert_string_equal(got.owner.id, "old");
    sh_of_mutex("etcdctl del $o; etcdctl del --prefix simba/m");
}

/* The guard of docs/guards.md lets an owner write, also one that another named.
 */
TEST_AROUND(test_etcd__guards_know_a_named_successor,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who c = person(&second, "c");
    char *guard;

    ask(&a);
    ask(&b);
    ask(&c);
    assert_true(got.is_queued);
    run(&a, (simba_request){.kind = SIMBA_RELEASE, .to = "c"});
    assert_string_equal(got.to, "c");
    await((ask(&c), got.mine));
    assert_true(asprintf(&guard,
                         "printf 'value(\"simba/t/%s\") < \"%%016xo\"\\n"
                         "\\nput written yes\\n\\n\\n' %" PRIu64
                         " | etcdctl txn | grep -qx SUCCESS",
                         mutex, got.token) > 0);
    sh(guard);
    free(guard);
    release(&c);
    await_mine(&b);
    release(&b);
}

/* Nor does it oust one of several that has died: who waits behind it does. */
TEST_AROUND(test_etcd__a_dead_one_of_several_is_ousted_by_any_waiter,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&first, "b");
    struct who c = person(&second, "c");
    simba_request request = asking(&b);

    a.slots = c.slots = 2;
    b.transition_ms = request.waiter_ms = 60000;
    ask(&a);
    assert_true(got.mine);
    handle_close(&first);
    open_handle(&first);
    run(&b, request); /* once */
    assert_true(got.is_queued);
    await_mine(&c);
    release(&c);
}

/* A page has 1,000. */
TEST_AROUND(test_etcd__lists_more_than_a_page, open_handles, close_handles)
{
    struct who a = person(&first, "a");

    sh("for b in $(seq 0 127 1000); do { echo; "
       "for i in $(seq $b $((b + 126))); do echo put simba/o/page$i x; done; "
       "echo; echo; } | etcdctl txn; done");
    told.mutex_count = 0;
    expect_fault(LOST, 1000);
    run(&a, (simba_request){.kind = SIMBA_LIST, .mutex = ""});
    sh("etcdctl del --prefix simba/o/page");
    assert_in_range(told.mutex_count, 1016, 1030);
    assert_int_equal(wire.count, 2);
}

/* --- sessions ------------------------------------------------------------ */

static int64_t lease_of(struct handle *handle)
{
    const simba__etcd *self = SIMBA__ETCD(handle->backend);
    int64_t lease;

    simba_loop_enter(handle->loop);
    lease = self->create == 0 ? 0 : self->lease;
    simba_loop_leave(handle->loop);
    return lease;
}

/* A leader that lags does not know of a lease yet. */
TEST_AROUND(test_etcd__a_session_ends_by_the_word_of_a_quorum,
            open_handles,
            close_handles)
{
    simba__etcd *self = SIMBA__ETCD(first.backend);
    struct who a = person(&first, "a");
    struct simba__text text = {0};
    int64_t lease;

    ask(&a);
    lease = lease_of(&first);
    simba__pb_number(&text, 2, lease);
    simba_loop_enter(first.loop);
    self->keep_alive.reply = (simba__pb_bytes){text.bytes, text.length};
    self->keep_alive.done(&self->keep_alive, SIMBA_OK, NULL);
    simba_loop_leave(first.loop);
    renew(&a);
    assert_true(got.mine);
    assert_int_equal(lease_of(&first), lease);
    release(&a);
    simba__text_fini(&text);
}

TEST_AROUND(test_etcd__sessions_that_end_at_once_are_made_more_slowly,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a");
    int64_t since_ms;

    ask(&a);
    since_ms = simba_loop_now_ms();
    for (int i = 0; i < 4; i++) {
        await(lease_of(&first) != 0);
        simba_loop_enter(first.loop);
        simba__etcd_session_end(SIMBA__ETCD(first.backend), "a test");
        simba_loop_leave(first.loop);
    }
    assert_true(simba_loop_now_ms() - since_ms >= 300);
    release(&a);
}

/* --- a token that is no longer known ------------------------------------- */

static bool is_watched(struct handle *handle)
{
    simba_session_mutex *watched;
    bool is_sure;

    simba_loop_enter(handle->loop);
    watched = simba_session_mutex_get((simba_session_store *)handle->backend,
                                      mutex, false);
    is_sure = ((simba__etcd_mutex *)watched)->owner.sure_revision != 0;
    simba_loop_leave(handle->loop);
    return is_sure;
}

/* Its watches are refused then, in words that do not say so. */
TEST_AROUND(test_etcd__watches_with_another_token, open_handles, close_handles)
{
    struct handle user;
    struct who a = person(&user, "a");
    char *rest;

    sh("etcdctl user add root:root && etcdctl user grant-role root root");
    assert_true(
        asprintf(&rest, "//root:root@%s", getenv("SIMBA_SERVER_HOSTS")) > 0);
    sh("etcdctl auth enable");
    assert_int_equal(handle_open(&user, &simba_module, rest, &why), SIMBA_OK);
    run(&a, (simba_request){.kind = SIMBA_READ});
    sh("echo root | etcdctl --user root:root user passwd root "
       "--interactive=false");
    simba_loop_enter(user.loop);
    user.backend->ops->subscription(user.backend, mutex,
                                    SIMBA_SUBSCRIBE_OBSERVE);
    simba_loop_leave(user.loop);
    await(is_watched(&user));
    sh("etcdctl --user root:root auth disable && etcdctl user delete root");
    handle_close(&user);
    free(rest);
}

/* --- a wire that is cut -------------------------------------------------- */

static struct proxy *proxy;
static struct handle third; /* behind it */

static int open_proxied(void **state)
{
    const char *hosts = getenv("SIMBA_SERVER_HOSTS");
    char rest[64];

    (void)open_handles(state);
    proxy = proxy_open(atoi(strrchr(hosts, ':') + 1));
    snprintf(rest, sizeof rest, "//127.0.0.1:%d", proxy_port(proxy));
    assert_int_equal(handle_open(&third, &simba_module, rest, &why), SIMBA_OK);
    return 0;
}

static int close_proxied(void **state)
{
    handle_close(&third);
    proxy_close(proxy);
    return close_handles(state);
}

/* The session is gone, and what undid an attempt would stay for ever. */
TEST_AROUND(test_etcd__no_tombstone_outlives_a_session_that_is_closed,
            open_proxied,
            close_proxied)
{
    struct who a = person(&third, "a");
    simba_request request = asking(&a);
    simba_request release = {.kind = SIMBA_RELEASE, .tombstone_ms = LEASE};
    simba_request close = {.kind = SIMBA_CLOSE, .mutex = ""};

    fill_request(&a, &release);
    fill_request(&a, &close);
    expect_fault(LOST, 2); /* the first finds that there is no token yet */
    assert_int_equal(try_run(&a, request), SIMBA_EUNKNOWN);
    proxy_hold(proxy, false, true);
    handle_start(&third, &release);
    sh("until etcdctl get --prefix simba/x/ | grep .; do :; done");
    handle_start(&third, &close);
    proxy_hold(proxy, false, false);
    assert_int_equal(handle_join(&third, &release, &why), SIMBA_OK);
    assert_int_equal(handle_join(&third, &close, &why), SIMBA_OK);
    sh("test -z \"$(etcdctl get --prefix simba/x/)\"");
    run(&a, (simba_request){.kind = SIMBA_READ});
    assert_string_equal(got.owner.id, "");
}

/* What happened meanwhile is not known any more: they look, and go on. */
TEST_AROUND(test_etcd__goes_on_after_a_gap_that_was_compacted,
            open_proxied,
            close_proxied)
{
    struct who a = person(&first, "a"), b = person(&third, "b");
    struct who c = person(&third, "c");
    int told_of;

    simba_loop_enter(third.loop);
    third.backend->ops->subscription(third.backend, mutex,
                                     SIMBA_SUBSCRIBE_OBSERVE);
    simba_loop_leave(third.loop);
    ask(&a);
    ask(&b);
    ask(&c);
    assert_true(got.is_queued);
    told_of = handle_wakes(&third);
    proxy_hold(proxy, true, true);
    proxy_cut(proxy);
    release(&a);
    sh("for i in 1 2 3; do etcdctl put other $i; done; "
       "etcdctl compact $(etcdctl get other -w fields | "
       "sed -n 's/\"ModRevision\" : //p')");
    proxy_hold(proxy, false, false);
    await(handle_wakes(&third) > told_of);
    await_mine(&b);
    release(&b);
    await_mine(&c);
    release(&c);
}

static bool watches_all(struct handle *handle)
{
    const simba__etcd *self = SIMBA__ETCD(handle->backend);
    bool is_sure;

    simba_loop_enter(handle->loop);
    is_sure = self->is_watching;
    for (size_t i = 0; i < self->watch_room; i++) {
        is_sure &=
            self->watches[i] == NULL || self->watches[i]->sure_revision != 0;
    }
    simba_loop_leave(handle->loop);
    return is_sure;
}

/* The one before may have gone in the gap: whoever stands behind another of its
 * process looks as well, whatever was seen just before. */
TEST_AROUND(test_etcd__looks_after_a_gap_for_the_one_before,
            open_proxied,
            close_proxied)
{
    struct who a = person(&first, "a"), b = person(&third, "b");
    struct who c = person(&second, "c"), d = person(&third, "d");

    ask(&a);
    ask(&b);
    ask(&c);
    ask(&d);
    assert_true(got.is_queued);
    proxy_hold(proxy, true, true);
    proxy_cut(proxy);
    await(!watches_all(&third));
    leave(&c);
    proxy_hold(proxy, false, false);
    await(watches_all(&third));
    expect_fault(LOST, 1000);
    ask(&d);
    assert_true(got.is_queued);
    assert_true(wire.count > 0);
    leave(&d);
    leave(&b);
    release(&a);
}

/* Nobody waits longer than the request does, and would complete it. */
TEST_AROUND(test_etcd__closes_while_a_server_is_silent,
            open_proxied,
            close_proxied)
{
    struct who a = person(&third, "a");
    int64_t since_ms;

    ask(&a);
    assert_true(got.mine);
    proxy_hold(proxy, true, true);
    since_ms = simba_loop_now_ms();
    run(&a, (simba_request){.kind = SIMBA_CLOSE,
                            .mutex = "",
                            .deadline_ms = since_ms + 100});
    assert_true(simba_loop_now_ms() - since_ms < 1500);
    proxy_cut(proxy);
}

/* Who closes it is answered, and its lease does not have to run out. */
TEST_AROUND(test_etcd__a_session_that_ends_while_it_is_closed_is_revoked,
            open_proxied,
            close_proxied)
{
    simba__etcd *self = SIMBA__ETCD(third.backend);
    struct who a = person(&third, "a");
    simba_request close = {.kind = SIMBA_CLOSE, .mutex = ""};
    bool is_revoked;

    ask(&a);
    fill_request(&a, &close);
    proxy_hold(proxy, false, true);
    handle_start(&third, &close);
    simba_loop_enter(third.loop);
    simba__etcd_session_end(self, "a test");
    is_revoked = self->session.rpc.grpc != NULL;
    simba_loop_leave(third.loop);
    proxy_hold(proxy, false, false);
    assert_true(is_revoked);
    assert_int_equal(handle_join(&third, &close, &why), SIMBA_OK);
}

/* Nobody is woken by what happens during its own request: that goes on by what
 * was heard meanwhile. It would wait for the lease of the owner before, else.
 */
TEST_AROUND(test_etcd__an_offer_is_not_missed_by_who_is_looking,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    simba_request look;

    ask(&a);
    ask(&b);
    assert_true(got.is_queued);
    look = asking(&b);
    fill_request(&b, &look);
    expect_fault(HELD, 2); /* it tries, and then it looks */
    handle_start(&second, &look);
    await(wire.is_held);
    run(&a, (simba_request){.kind = SIMBA_RELEASE, .to = "b"});
    assert_string_equal(got.to, "b");
    for (int i = 0; i < 20; i++) { /* what was written has been told by then */
        run(&b, (simba_request){.kind = SIMBA_READ, .mutex = "another"});
    }
    let_go();
    assert_int_equal(handle_join(&second, &look, &why), SIMBA_OK);
    if (!look.reply.mine) {
        assert_true(handle_woken(&second, mutex, LEASE / 2));
        ask(&b);
        assert_true(got.mine);
    }
    b.token = look.reply.mine ? look.reply.token : b.token;
    release(&b);
}

/* --- no space ------------------------------------------------------------ */

TEST_AROUND(test_etcd__releases_when_the_quota_is_full,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who c = person(&second, "c");
    simba_request request = asking(&c);
    int status;

    ask(&a);
    assert_true(got.mine);
    ask(&b);
    assert_true(got.is_queued);
    sh("head -c 1400000 /dev/zero | tr '\\0' x >big; "
       "for i in $(seq 100); do etcdctl put big$i <big || break; done; "
       "etcdctl alarm list | grep NOSPACE");
    assert_int_equal(try_run(&a, (simba_request){.kind = SIMBA_RELEASE,
                                                 .tombstone_ms = LEASE}),
                     SIMBA_OK);
    run(&b, (simba_request){.kind = SIMBA_READ});
    assert_string_equal(got.owner.id, "");
    request.join = false;
    request.deadline_ms = simba_loop_now_ms() + 2000;
    status = try_run(&c, request);
    assert_false(got.mine);
    assert_true(status == SIMBA_OK || status == SIMBA_EUNAVAIL);
    told.finding_count = 0;
    run(&b, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    assert_true(told.finding_count > 0);
    sh("etcdctl del --prefix big; "
       "etcdctl compact --physical $(etcdctl get --prefix simba/t -w fields | "
       "sed -n 's/\"Revision\" : //p'); etcdctl defrag; etcdctl alarm disarm");
    await_mine(&b);
    release(&b);
}

int main(void)
{
    return run_unit_tests(NULL, NULL);
}
