/* What an admin makes beforehand, and what the doctor says of what there is. */
#define _GNU_SOURCE
#include "driver.h"

/* What a node is, and who may do what with it. */
struct found {
    bool is_there;
    int anyone; /* permissions of those who give no password */
};

static struct found find(const char *path)
{
    struct found found = {false, 0};
    struct ACL_vector acl = {0, NULL};
    struct Stat stat;

    zoo_add_auth(admin.handle, "digest", "ann:secret", 10, NULL, NULL);
    if (zoo_get_acl(admin.handle, path, &acl, &stat) == ZOK) {
        found.is_there = true;
        for (int i = 0; i < acl.count; i++) {
            found.anyone |= strcmp(acl.data[i].id.scheme, "world") == 0
                                ? acl.data[i].perms
                                : 0;
        }
        deallocate_ACL_vector(&acl);
    }
    return found;
}

static void open_as_ann(const char *chroot)
{
    assert_int_equal(
        try_open(&first, "//ann:secret@%s%s", servers.hosts, chroot), SIMBA_OK);
}

static void init(bool upgrade)
{
    struct who ann = person(&first, "ann");

    noted[0] = '\0';
    run(&ann,
        (simba_request){.kind = SIMBA_INIT, .mutex = "", .upgrade = upgrade});
}

static void make(const char *path, int kind)
{
    assert_int_equal(zoo_create(admin.handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE,
                                kind, NULL, 0),
                     ZOK);
}

/* The servers' reaper takes a container that had a child and has none. */
static void use(const char *path)
{
    char child[64];

    snprintf(child, sizeof child, "%s/child", path);
    make(child, ZOO_PERSISTENT);
    assert_int_equal(zoo_delete(admin.handle, child, -1), ZOK);
}

/* True when it is still there after the reaper has gone round. */
static bool stays(const char *path)
{
    use(path);
    for (int i = 0; i < 2; i++) {
        make("/reaped", ZOO_CONTAINER);
        use("/reaped");
        await(!find("/reaped").is_there);
    }
    return find(path).is_there;
}

/* --- init ---------------------------------------------------------------- */

ZK_TEST(test_init__makes_a_base_that_stays)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");

    open_as_ann("/a/b?acl=shared");
    assert_false(find("/a/b/simba").is_there);
    init(false);
    assert_string_equal(noted, "[base 0][acl 0]");
    assert_true(stays("/a/b/simba"));
    assert_int_equal(find("/a/b/simba").anyone, ZOO_PERM_READ);
    init(false); /* and again */
    assert_string_equal(noted, "[base 0][acl 0]");
    ask(&ann);
    expect_mine(&ann);
    assert_int_equal(try_open(&second, "//%s/a/b", servers.hosts), SIMBA_OK);
    assert_int_equal(try_run(&bob, asking(&bob)), SIMBA_EDENIED);
    look(&bob);
    assert_string_equal(got.owner.id, "ann");
}

ZK_TEST(test_init__replaces_an_empty_container)
{
    make("/c", ZOO_PERSISTENT);
    make("/c/simba", ZOO_CONTAINER);
    open_as_ann("/c?acl=open");
    init(false);
    assert_string_equal(noted, "[base 0][acl 0]");
    init(true);
    assert_string_equal(noted, "[base 0][acl 0]");
    assert_true(stays("/c/simba"));
}

ZK_TEST(test_init__leaves_what_is_in_use)
{
    struct who ann = person(&first, "ann");

    open_as_ann("/used");
    ask(&ann);
    init(true);
    assert_string_equal(noted, "[base 2][acl 0]");
    renew(&ann);
    expect_mine(&ann);
}

ZK_TEST(test_init__closes_what_was_open)
{
    make("/open", ZOO_PERSISTENT);
    make("/open/simba", ZOO_PERSISTENT);
    open_as_ann("/open");
    init(false);
    assert_string_equal(noted, "[base 0][acl 2]");
    assert_int_equal(find("/open/simba").anyone, ZOO_PERM_ALL);
    init(true);
    assert_string_equal(noted, "[base 0][acl 0]");
    assert_int_equal(find("/open/simba").anyone, 0);
}

static void close_node(const char *path)
{
    assert_int_equal(zoo_set_acl(admin.handle, path, -1, &ZOO_READ_ACL_UNSAFE),
                     ZOK);
}

/* Who may not make nodes beside it need not. */
ZK_TEST(test_init__takes_what_is_there_as_made)
{
    struct who bob = person(&first, "bob");

    make("/fort", ZOO_PERSISTENT);
    make("/fort/town", ZOO_PERSISTENT);
    close_node("/fort");
    assert_int_equal(try_open(&first, "//%s/fort/town", servers.hosts),
                     SIMBA_OK);
    init(false);
    assert_string_equal(noted, "[base 0][acl 0]");
    close_node("/fort/town");
    init(false);
    assert_string_equal(noted, "[base 0][acl 0]");
    ask(&bob);
    expect_mine(&bob);
}

ZK_TEST(test_init__says_who_may_not)
{
    struct who eve = person(&second, "eve");

    open_as_ann("/mine");
    init(false);
    assert_int_equal(
        try_open(&second, "//eve:wrong@%s/mine/too", servers.hosts), SIMBA_OK);
    assert_int_equal(try_run(&eve, (simba_request){.kind = SIMBA_INIT}),
                     SIMBA_EDENIED);
    assert_null(strstr(why.message, "wrong"));
}

/* --- the same, by hand --------------------------------------------------- */

/* In the servers' own shell, with the password that is not printed. */
static void type_in(const char *rest, bool upgrade)
{
    simba_backend_config config = {.url = rest, .rest = rest};
    char *text = simba_module.schema(&config, upgrade, &why), lines[2048];
    const char *gap;

    assert_non_null(text);
    assert_null(strstr(text, "secret"));
    gap = strstr(text, "PASSWORD");
    assert_non_null(gap);
    snprintf(lines, sizeof lines, "%.*ssecret%s", (int)(gap - text), text,
             gap + strlen("PASSWORD"));
    free(text);
    assert_true(servers_shell(&servers, lines));
}

ZK_TEST(test_init__can_be_typed_in)
{
    type_in("//ann:secret@host/by%20hand/it's?acl=shared", false);
    assert_true(stays("/by hand/it's/simba"));
    assert_int_equal(find("/by hand/it's/simba").anyone, ZOO_PERM_READ);
    open_as_ann("/by%20hand/it's?acl=shared");
    init(false);
    assert_string_equal(noted, "[base 0][acl 0]");
}

ZK_TEST(test_init__upgrade_can_be_typed_in)
{
    make("/old", ZOO_PERSISTENT);
    make("/old/simba", ZOO_CONTAINER);
    type_in("//ann:secret@host/old", true);
    assert_true(stays("/old/simba"));
    assert_int_equal(find("/old/simba").anyone, 0);
}

/* --- the doctor ---------------------------------------------------------- */

ZK_TEST(test_init__doctor_names_wrong_credentials)
{
    struct who eve = person(&second, "eve");

    open_as_ann("/sick");
    init(false);
    assert_int_equal(try_open(&second, "//eve:wrong@%s/sick", servers.hosts),
                     SIMBA_OK);
    noted[0] = '\0';
    run(&eve, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    assert_non_null(strstr(noted, "[acl 3]"));
}

int main(void)
{
    return run_beside_server();
}
