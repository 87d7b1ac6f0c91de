/* A real Curator LeaderLatch contends with us for one mutex (interop/curator).
 * argv[1] is its source. */
#define _GNU_SOURCE
#include "driver.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define JARS "/usr/share/java/"
#define CLASS_PATH                                                             \
    JARS "curator-recipes.jar:" JARS "curator-framework.jar:" JARS             \
         "curator-client.jar:" JARS "zookeeper.jar:" JARS                      \
         "zookeeper-jute.jar:" JARS "guava.jar:" JARS "slf4j-api.jar:" JARS    \
         "slf4j-nop.jar:" JARS "netty-all.jar"

static const char *source;

/* --- the JVM ------------------------------------------------------------- */

static struct {
    pid_t pid;
    int to, from;
    char said[4096]; /* what it said and was not yet heard */
} jvm;

static void become_jvm(int in, int out)
{
    int nowhere = open("/dev/null", O_WRONLY);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    execl("/usr/bin/java", "java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp",
          CLASS_PATH, source, servers.hosts, mutex_path, "jvm", (char *)NULL);
    _exit(127);
}

static void start_jvm(void)
{
    int in[2], out[2];

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    jvm.said[0] = '\0';
    jvm.pid = fork();
    if (jvm.pid == 0) {
        become_jvm(in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    jvm.to = in[1];
    jvm.from = out[0];
}

static void tell_jvm(const char *words)
{
    dprintf(jvm.to, "%s\n", words);
}

/* Waits until it says these words, and forgets what came before. */
static bool jvm_says(const char *words, int timeout_ms)
{
    int64_t until = simba_loop_now_ms() + timeout_ms;
    struct pollfd set = {.fd = jvm.from, .events = POLLIN};
    char *found;

    while ((found = strstr(jvm.said, words)) == NULL) {
        size_t length = strlen(jvm.said);
        int64_t left = until - simba_loop_now_ms();
        ssize_t count;

        if (left < 0 || poll(&set, 1, (int)left) <= 0) {
            return false;
        }
        count = read(jvm.from, jvm.said + length, sizeof jvm.said - 1 - length);
        if (count <= 0) {
            return false;
        }
        jvm.said[length + (size_t)count] = '\0';
    }
    found += strlen(words);
    memmove(jvm.said, found, strlen(found) + 1);
    return true;
}

static int end_jvm(void **state)
{
    if (jvm.pid > 0) {
        close(jvm.to);
        close(jvm.from);
        kill(jvm.pid, SIGKILL);
        waitpid(jvm.pid, NULL, 0);
        jvm.pid = 0;
    }
    return close_handles(state);
}

/* --- together ------------------------------------------------------------ */

#define CURATOR_TEST(test) TEST_AROUND(test, new_mutex, end_jvm)

CURATOR_TEST(test_curator__leads_and_hands_over_to_us)
{
    struct who ann = person(&first, "ann");

    open_handles();
    start_jvm();
    assert_true(jvm_says("\nleader\n", PATIENCE_MS));
    ask(&ann);
    expect_queued(true, "jvm");
    tell_jvm("who");
    assert_true(jvm_says("who jvm 2\n", PATIENCE_MS));
    tell_jvm("close");
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    await((ask(&ann), got.mine)); /* it may have been woken for less */
    expect_mine(&ann);
}

/* A JVM may take longer to start than a tenure lasts that nobody renews. */
static void await_jvm(struct who *owner)
{
    await((renew(owner), jvm_says("started\n", LEASE / 20)));
    await((renew(owner), count_children(mutex_path) == 2));
    expect_mine(owner);
}

/* Guards and renewals must not use up the watch that it waits with. */
CURATOR_TEST(test_curator__waits_for_us_and_takes_over)
{
    struct who ann = person(&first, "ann");

    open_handles();
    ask(&ann);
    expect_mine(&ann);
    start_jvm();
    await_jvm(&ann);
    tell_jvm("who");
    assert_true(jvm_says("who ann 2\n", PATIENCE_MS));
    for (int i = 0; i < 5; i++) {
        nap_ms(LEASE / 5);
        renew(&ann);
        expect_mine(&ann);
    }
    assert_false(jvm_says("leader\n", 0));
    release(&ann);
    assert_true(jvm_says("leader\n", PATIENCE_MS));
}

/* Between two of ours, in the order in which they came. */
CURATOR_TEST(test_curator__has_its_position_in_the_queue)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");

    open_handles();
    ask(&ann);
    start_jvm();
    await_jvm(&ann);
    ask(&bob);
    expect_queued(false, "ann");
    look(&bob);
    assert_string_equal(noted, "[jvm][bob]");
    release(&ann);
    assert_true(jvm_says("leader\n", PATIENCE_MS));
    ask(&bob);
    expect_queued(true, "jvm");
    tell_jvm("close");
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    await((ask(&bob), got.mine));
    expect_mine(&bob);
}

/* Several of ours are one predecessor after the other to it, and it is one that
 * wants to be alone to those behind it. */
CURATOR_TEST(test_curator__waits_for_all_who_share_and_is_not_joined)
{
    struct who ann = person(&first, "ann"), bob = person(&second, "bob");
    struct who cid = person(&first, "cid");

    ann.slots = bob.slots = cid.slots = 3;
    open_handles();
    ask(&ann);
    start_jvm();
    await_jvm(&ann);
    ask(&bob);
    expect_queued(false, "ann");
    tell_jvm("who");
    assert_true(jvm_says("who ann 3\n", PATIENCE_MS));
    release(&ann);
    assert_true(jvm_says("leader\n", PATIENCE_MS));
    ask(&bob);
    expect_queued(true, "jvm");
    ask(&cid);
    expect_queued(false, "jvm");
    tell_jvm("again"); /* behind both */
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    await((ask(&bob), got.mine));
    await((ask(&cid), got.mine));
    await((renew(&bob), jvm_says("again\n", LEASE / 20)));
    await((renew(&cid), count_children(mutex_path) == 3));
    release(&cid);
    renew(&bob);
    assert_false(jvm_says("leader\n", LEASE / 20));
    release(&bob);
    assert_true(jvm_says("leader\n", PATIENCE_MS));
}

/* It owned, and stands behind us again when we own. */
static void take_over(struct who *who)
{
    ask(who);
    expect_queued(true, "jvm");
    tell_jvm("again");
    assert_true(handle_woken(who->at, mutex, PATIENCE_MS));
    await((ask(who), got.mine));
    expect_mine(who);
    await((renew(who), jvm_says("again\n", LEASE / 20)));
    await((renew(who), count_children(mutex_path) == 2));
    expect_mine(who);
}

/* By turns, and while one of ours owns the JVM does not lead. */
CURATOR_TEST(test_curator__contends_by_turns_with_ours)
{
    uint64_t token = 0;

    open_handles();
    start_jvm();
    assert_true(jvm_says("\nleader\n", PATIENCE_MS));
    for (int i = 0; i < 10; i++) {
        struct who who = person(i % 2 == 0 ? &first : &second, "ours");

        take_over(&who);
        assert_true(who.token > token);
        token = who.token;
        assert_false(jvm_says("leader\n", 0));
        release(&who);
        assert_true(jvm_says("leader\n", PATIENCE_MS));
    }
}

int main(int argc, char **argv)
{
    if (argc < 2 || !servers_installed() ||
        access(JARS "curator-recipes.jar", R_OK) != 0 ||
        access("/usr/bin/javac", X_OK) != 0) {
        puts("1..0 # SKIP no ZooKeeper, Curator or Java compiler is installed");
        return 77;
    }
    source = argv[1];
    signal(SIGPIPE, SIG_IGN);
    return run_unit_tests(start_server, stop_server);
}
