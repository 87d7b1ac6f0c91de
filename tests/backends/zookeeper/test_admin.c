/* What people and admins see and do on a real single server: who owns, who
 * waits, lists, force, nodes that they change by hand. */
#define _GNU_SOURCE
#include "driver.h"

/* --- looking ------------------------------------------------------------- */

ZK_TEST(test_admin__tells_owner_and_queue)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob"),
               cid = person(&first, "cid"), eve = person(&second, "eve");

    open_handles();
    look(&eve);
    assert_string_equal(got.owner.id, "");
    ask(&ann);
    ask(&bob);
    ask(&cid);
    look(&eve);
    assert_string_equal(got.owner.id, "ann");
    assert_int_equal(got.owner.token, ann.token);
    assert_string_equal(noted, "[bob][cid]");
}

static struct who with_slots(struct handle *at, const char *id, uint32_t slots)
{
    struct who who = person(at, id);

    who.slots = slots;
    return who;
}

ZK_TEST(test_admin__tells_all_owners_and_breaks_any)
{
    struct who ann = with_slots(&first, "ann", 3);
    struct who bob = with_slots(&second, "bob", 2);
    struct who cid = with_slots(&first, "cid", 2), eve = person(&second, "eve");
    simba_request request = {.kind = SIMBA_BREAK, .now = true};

    open_handles();
    ask(&ann);
    ask(&bob);
    assert_true(got.mine && bob.token > ann.token);
    ask(&cid);
    expect_queued(true, "ann");
    look(&eve);
    assert_string_equal(noted, "[cid]{ann 3}{bob 2}");
    assert_int_equal(got.owned, 2);
    assert_int_equal(got.slots, 2);
    noted[0] = '\0';
    run(&eve, (simba_request){.kind = SIMBA_LIST, .mutex = ""});
    assert_non_null(strstr(noted, " ann 1]"));
    request.token = bob.token;
    run(&eve, request);
    assert_true(got.mine);
    assert_string_equal(got.owner.id, "ann");
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    ask(&cid);
    expect_mine(&cid);
    renew(&ann);
    expect_mine(&ann);
}

ZK_TEST(test_admin__lists_mutexes_of_any_name)
{
    static const char *const names[] = {"a/b", "..", "50% {x} 'y' \"z\"", "%2F",
                                        "\xf0\x9f\xa6\x81"};
    struct who ann = person(&first, "ann");

    open_handles();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        simba_request request = asking(&ann);

        request.mutex = names[i];
        ann.attempt.low++;
        run(&ann, request);
        assert_true(got.mine);
    }
    noted[0] = '\0';
    run(&ann, (simba_request){.kind = SIMBA_LIST, .mutex = ""});
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char entry[64];

        snprintf(entry, sizeof entry, "[%s ann 0]", names[i]);
        assert_non_null(strstr(noted, entry));
    }
}

ZK_TEST(test_admin__observer_hears_of_changes)
{
    struct who ann = person(&first, "ann"), eve = person(&second, "eve");

    open_handles();
    simba_loop_enter(second.loop);
    second.backend->ops->subscription(second.backend, mutex,
                                      SIMBA_SUBSCRIBE_OBSERVE);
    simba_loop_leave(second.loop);
    look(&eve);
    ask(&ann);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    await((look(&eve), strcmp(got.owner.id, "ann") == 0));
    handle_woken(&second, mutex, 0);
    release(&ann);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
}

ZK_TEST(test_admin__doctor_names_what_it_finds)
{
    struct who ann = person(&first, "ann");

    open_handles();
    ask(&ann);
    noted[0] = '\0';
    run(&ann, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    assert_non_null(strstr(noted, "[ensemble 1]")); /* as on other stores */
    assert_non_null(strstr(noted, "[session 0]"));
    assert_non_null(strstr(noted, "[containers 0]"));
    assert_non_null(strstr(noted, "[acl 2]"));
    assert_non_null(strstr(noted, "[tls 0]")); /* this machine */
}

/* --- nodes of others ----------------------------------------------------- */

/* As a Curator latch has it that was given no id. */
static void put_latch(const char *name, const char *data, int length)
{
    char path[160];

    snprintf(path, sizeof path, "%s/%s", mutex_path, name);
    assert_int_equal(zoo_create(admin.handle, path, data, length,
                                &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0),
                     ZOK);
}

static void drop_latch(const char *name)
{
    char path[160];

    snprintf(path, sizeof path, "%s/%s", mutex_path, name);
    assert_int_equal(zoo_delete(admin.handle, path, -1), ZOK);
}

static void expect_owner(struct who *eve, const char *id)
{
    char entry[160];

    look(eve);
    assert_string_equal(got.owner.id, id);
    snprintf(entry, sizeof entry, "[%s %s 1]", mutex, id);
    noted[0] = '\0';
    run(eve, (simba_request){.kind = SIMBA_LIST, .mutex = ""});
    assert_non_null(strstr(noted, entry));
}

/* Before ann's, whose latch keeps the parent from being reaped. */
ZK_TEST(test_admin__latch_of_anybody_has_an_owner)
{
    struct who ann = person(&first, "ann"), bob = person(&first, "bob"),
               eve = person(&second, "eve");

    open_handles();
    ask(&ann);
    put_latch("_c_x-latch-00000000", NULL, -1);
    expect_owner(&eve, "(unnamed)");
    ask(&bob);
    expect_queued(false, "(unnamed)");
    leave(&bob);
    drop_latch("_c_x-latch-00000000");
    put_latch("_c_y-latch-00000000", "a\tb", 3);
    expect_owner(&eve, "(unreadable)");
    drop_latch("_c_y-latch-00000000");
    put_latch("_c_z-latch-00000000", "a\0b", 3);
    expect_owner(&eve, "(unreadable)");
    drop_latch("_c_z-latch-00000000");
}

/* --- force --------------------------------------------------------------- */

ZK_TEST(test_admin__breaks_by_token_only)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");
    simba_request request = {
        .kind = SIMBA_BREAK, .now = true, .reason = "test"};

    open_handles();
    ask(&ann);
    ask(&bob);
    request.token = ann.token + 1;
    run(&bob, request);
    assert_false(got.mine);
    renew(&ann);
    expect_mine(&ann);
    request.token = ann.token;
    run(&bob, request);
    assert_true(got.mine);
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    renew(&ann);
    assert_false(got.mine);
    ask(&bob);
    expect_mine(&bob);
}

ZK_TEST(test_admin__break_tells_who_owns_now)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");
    simba_request request = {.kind = SIMBA_BREAK, .now = true};

    open_handles();
    ask(&ann);
    ask(&bob);
    request.token = ann.token + 1;
    run(&bob, request);
    assert_string_equal(got.owner.id, "ann");
    request.token = ann.token;
    run(&bob, request);
    assert_true(got.mine);
    assert_string_equal(got.owner.id, "bob");
    run(&bob, request); /* never twice */
    assert_false(got.mine);
    request.token = got.owner.token;
    run(&bob, request);
    assert_true(got.mine);
    assert_string_equal(got.owner.id, "");
}

ZK_TEST(test_admin__break_is_now_or_never)
{
    struct who ann = person(&first, "ann");
    simba_request request = {.kind = SIMBA_BREAK};

    open_handles();
    ask(&ann);
    request.token = ann.token;
    assert_int_equal(try_run(&ann, request), SIMBA_EINVAL);
    assert_non_null(strstr(why.message, "now"));
    renew(&ann);
    expect_mine(&ann);
}

/* Its own watch was used up by the change. */
ZK_TEST(test_admin__node_changed_then_deleted_is_told)
{
    struct who ann = person(&first, "ann");
    const char *node;

    open_handles();
    ask(&ann);
    node = node_of(&ann);
    for (int i = 0; i < 2; i++) {
        /* As soon as it is watched; it is from a moment after it was made. */
        await((assert_int_equal(zoo_set(admin.handle, node, "x", 1, -1), ZOK),
               handle_woken(&first, mutex, 20)));
        renew(&ann);
        expect_mine(&ann);
    }
    assert_int_equal(zoo_delete(admin.handle, node, -1), ZOK);
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    renew(&ann);
    assert_false(got.mine);
}

int main(void)
{
    return run_beside_server();
}
