/* What a contender takes that only waits: there may be 100,000 in a process, so
 * what is added to each shows here. Two crowds are compared, so that what a
 * handle takes once does not count; nor does what SQLite keeps of its file.
 *
 *   bytes_walk URL MOST     MOST: bytes that each may take */
#include <simba/metrics.h>
#include <simba/service.h>
#include <simba/sys/probe.h>

#include "fixtures/await.h"
#include "fixtures/unit_test.h"

#include <malloc.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FEW = 200, MANY = 1200, LEASE_MS = 3600000 };

static long most;
static simba_store *owners, *waiters;
static simba_service *services[MANY];

static void own(size_t i)
{
    char mutex[32];
    simba_request request = SIMBA_REQUEST_INIT;

    snprintf(mutex, sizeof mutex, "bytes-%06zu", i);
    request.kind = SIMBA_ACQUIRE;
    request.mutex = mutex;
    request.id = "the owner of them all, elsewhere";
    request.attempt = (simba_attempt){1, i + 1};
    request.ttl_ms = request.transition_ms = LEASE_MS;
    assert_int_equal(simba_probe(owners, &request, NULL), SIMBA_OK);
    assert_true(request.reply.mine);
}

static void wait_for(size_t i)
{
    char mutex[32], id[64];
    simba_contender contender = SIMBA_CONTENDER_INIT;

    snprintf(mutex, sizeof mutex, "bytes-%06zu", i);
    snprintf(id, sizeof id, "%06zu:1234567@some-host-0123456789ab", i);
    contender.mutex = mutex;
    contender.id = id;
    assert_int_equal(
        simba_service_open(waiters, &contender, &services[i], NULL), SIMBA_OK);
    assert_int_equal(simba_service_start(services[i], NULL), SIMBA_OK);
}

static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd - (size_t)sqlite3_memory_used();
}

/* Whoever was answered has put away by then what it needed for asking. */
static size_t heap_of(size_t count)
{
    simba_metrics *metrics;

    for (size_t i = 0; i < count; i++) {
        await(simba_service_status(services[i]) == SIMBA_RUNNING);
    }
    assert_int_equal(simba_metrics_read(waiters, &metrics, NULL), SIMBA_OK);
    simba_metrics_free(metrics);
    return heap_bytes();
}

TEST(test_bytes__of_a_contender_that_waits_are_few)
{
    size_t few, many;
    long each;

    assert_int_equal(simba_store_open(store_url, NULL, &owners, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_store_open(store_url, NULL, &waiters, NULL),
                     SIMBA_OK);
    for (size_t i = 0; i < MANY; i++) {
        own(i);
    }
    for (size_t i = 0; i < FEW; i++) {
        wait_for(i);
    }
    few = heap_of(FEW);
    for (size_t i = FEW; i < MANY; i++) {
        wait_for(i);
    }
    many = heap_of(MANY);
    each = ((long)many - (long)few) / (MANY - FEW);
    for (size_t i = 0; i < MANY; i++) {
        simba_service_close(services[i]);
    }
    simba_store_close(waiters);
    simba_store_close(owners);
    if (each <= 0) { /* what SQLite keeps is subtracted all the same */
        print_message("the heap is not the C library's\n");
        skip();
    }
    print_message("%ld bytes of at most %ld\n", each, most);
    assert_in_range(each, 1, most);
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/simba-bytes.XXXXXX", command[64];
    int rc;

    if (argc != 3 || mkdtemp(directory) == NULL || chdir(directory) != 0) {
        return 2;
    }
    store_url = argv[1];
    most = strtol(argv[2], NULL, 10);
    rc = run_unit_tests(NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return chdir("/") == 0 && system(command) == 0 ? rc : 1;
}
