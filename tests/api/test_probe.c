/* Single requests by programs that know other versions of the structs: the
 * library neither reads nor writes beyond what the caller has. */
#include "fixtures/api_harness.h"

#include <simba/sys/probe.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char name[] = "sized";
static simba_attempt attempt = {7, 7};

/* As many bytes, the next one of which cannot be touched. */
static void *allot(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    return pages + page - size;
}

static void give_back(void *allotted)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    munmap((char *)allotted - (uintptr_t)allotted % page, 2 * page);
}

/* A request of a version whose reply has so many bytes. */
static simba_request *make(size_t reply_size)
{
    size_t size = offsetof(simba_request, reply) + reply_size;
    simba_request init = SIMBA_REQUEST_INIT;
    simba_request *request = allot(size);

    memcpy(request, &init, size < sizeof init ? size : sizeof init);
    request->size = (uint32_t)size;
    request->reply.size = (uint32_t)reply_size;
    request->mutex = name;
    request->id = "me";
    request->attempt = attempt;
    request->ttl_ms = request->transition_ms = 5000;
    return request;
}

static void check(simba_store *store,
                  enum simba_request_kind kind,
                  size_t reply_size)
{
    simba_request *request = make(reply_size);
    unsigned char *beyond = (unsigned char *)&request->reply;
    simba_error error;

    request->kind = kind;
    for (size_t i = sizeof request->reply; i < reply_size; i++) {
        beyond[i] = 0xa5;
    }
    if (simba_probe(store, request, &error) != SIMBA_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(request->size,
                     offsetof(simba_request, reply) + reply_size);
    assert_int_equal(request->reply.size, reply_size);
    assert_string_equal(request->reply.owner.id,
                        kind == SIMBA_RELEASE ? "" : "me");
    assert_int_equal(request->reply.mine, kind != SIMBA_RELEASE);
    for (size_t i = sizeof request->reply; i < reply_size; i++) {
        assert_int_equal(beyond[i], 0xa5);
    }
    give_back(request);
}

TEST(test_probe__takes_requests_of_older_and_newer_versions)
{
    static const size_t sizes[] = {SIMBA_REPLY_SIZE_LEAST,
                                   offsetof(simba_reply, asked),
                                   sizeof(simba_reply) - 8, sizeof(simba_reply),
                                   sizeof(simba_reply) + 256};
    simba_store *store = open_store();

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        attempt.low++;
        check(store, SIMBA_ACQUIRE, sizes[i]);
        check(store, SIMBA_RENEW, sizes[i]);
        check(store, SIMBA_RELEASE, sizes[i]);
    }
    simba_store_close(store);
}

TEST(test_probe__grants_tokens_above_what_is_asked)
{
    static const uint64_t above[] = {8999999999999995, 9100000000000000000,
                                     9100000000000000004};
    simba_store *store = open_store();
    simba_request *request = make(sizeof(simba_reply));
    simba_error error;

    for (size_t i = 0; i < sizeof above / sizeof *above; i++) {
        request->attempt.high = 8 + i;
        request->token_above = above[i];
        request->kind = SIMBA_ACQUIRE;
        assert_int_equal(simba_probe(store, request, &error), SIMBA_OK);
        assert_true(request->reply.mine);
        assert_true(request->reply.token > above[i]); /* or than the last */
        request->kind = SIMBA_RELEASE;
        assert_int_equal(simba_probe(store, request, &error), SIMBA_OK);
    }
    request->kind = SIMBA_ACQUIRE;
    request->token_above = INT64_MAX;
    assert_int_equal(simba_probe(store, request, &error), SIMBA_EINVAL);
    give_back(request);
    simba_store_close(store);
}

TEST(test_probe__refuses_sizes_that_no_version_has)
{
    static const struct {
        size_t size, reply_size;
    } impossible[] = {
        {0, sizeof(simba_reply)},
        {sizeof(simba_request), 0},
        {0, 0},
        {offsetof(simba_request, reply) + SIMBA_REPLY_SIZE_LEAST - 1,
         SIMBA_REPLY_SIZE_LEAST},
        {sizeof(simba_request), SIMBA_REPLY_SIZE_LEAST - 1},
        {sizeof(simba_request), sizeof(simba_reply) + 8},
    };
    simba_store *store = open_store();

    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
        simba_request *request = make(sizeof(simba_reply));
        simba_error error;

        request->kind = SIMBA_READ;
        request->size = (uint32_t)impossible[i].size;
        request->reply.size = (uint32_t)impossible[i].reply_size;
        assert_int_equal(simba_probe(store, request, &error), SIMBA_EMISUSE);
        assert_non_null(strstr(error.message, "SIMBA_REQUEST_INIT"));
        assert_int_equal(request->size, impossible[i].size);
        assert_int_equal(request->reply.size, impossible[i].reply_size);
        give_back(request);
    }
    simba_store_close(store);
}
