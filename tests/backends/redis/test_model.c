/* The Redis store against the record in memory: thousands of random requests,
 * one after the other, must be answered alike. */
#define _GNU_SOURCE
#include "driver.h"
#include "fixtures/model_requests.h"

enum { SHORT_LEASE = 25 };

static struct simba__mutex_record record;
static struct who who[PEOPLE];
static uint32_t slots[PEOPLE]; /* of each attempt */
static bool has_slots;

static struct simba__waiter *find_waiter(const char *id)
{
    for (size_t i = 0; i < record.queue_count; i++) {
        if (strcmp(record.queue[i].id, id) == 0) {
            return &record.queue[i];
        }
    }
    return NULL;
}

/* The same request to a record in memory. The positions are the store's: it
 * counts in microseconds. */
static void replay(const struct who *one,
                   const simba_request *request,
                   simba_reply *reply)
{
    simba_request asked = *request;

    asked.position = got.is_queued ? got.position : 0;
    serve_record(&record, one, &asked, reply);
}

static bool is_near(int64_t a, int64_t b)
{
    return a - b <= 5 && b - a <= 5;
}

/* A release tells no time: the record gets to know it from a look that follows.
 */
static bool is_about(int64_t a, int64_t b)
{
    return a - b <= 100 && b - a <= 100;
}

/* Within a millisecond of an end, the two may see different sides of it. */
static bool is_at_an_edge(int64_t now_ms)
{
    const struct simba__tenure *tenure;
    bool is_edge =
        (record.is_offered && is_about(record.offered_until_ms, now_ms)) ||
        (record.is_offered && is_near(record.offered.lapses_ms, now_ms));

    for (size_t i = 0; (tenure = simba__mutex_tenure(&record, i)) != NULL;
         i++) {
        is_edge |= is_near(tenure->owner.transition_at_ms, now_ms);
    }
    for (size_t i = 0; i < record.queue_count; i++) {
        is_edge |= is_near(record.queue[i].lapses_ms, now_ms);
    }
    for (size_t i = 0; i < record.tombstone_count; i++) {
        is_edge |= is_about(record.tombstones[i].until_ms, now_ms);
    }
    return is_edge;
}

/* The next in the queue of the record from `at` on that has not lapsed. */
static size_t next_standing(size_t at, int64_t now_ms)
{
    while (at < record.queue_count && record.queue[at].lapses_ms < now_ms) {
        at++;
    }
    return at;
}

static void compare_line(int64_t asked_ms)
{
    size_t at = 0;

    told.waiter_count = 0;
    run(&who[0], (simba_request){.kind = SIMBA_READ, .want_queue = true});
    if (got.store_ms - asked_ms > 1 || is_at_an_edge(got.store_ms)) {
        return; /* too late to compare: some have lapsed meanwhile */
    }
    for (int i = 0; i < told.waiter_count; i++) {
        struct simba__waiter *waiter = find_waiter(told.waiters[i].id);

        if (told.waiters[i].is_offered || waiter == NULL ||
            waiter->lapses_ms < got.store_ms) {
            continue; /* lapsed, and not yet thrown out */
        }
        at = next_standing(at, got.store_ms);
        assert_ptr_equal(waiter, &record.queue[at]);
        waiter->position = told.waiters[i].position;
        at++;
    }
    assert_int_equal(next_standing(at, got.store_ms), record.queue_count);
}

static bool is_alike(const simba_reply *reply)
{
    bool is_exact = reply->owned > 0 && !record.is_offered;

    return got.mine == reply->mine && has_same_token(reply) &&
           got.is_queued == reply->is_queued && got.is_head == reply->is_head &&
           (is_exact ? is_near(got.wait_ms, reply->wait_ms)
                     : is_about(got.wait_ms, reply->wait_ms)) &&
           got.owned == reply->owned && got.slots == reply->slots &&
           got.slot == reply->slot && got.owner.slot == reply->owner.slot &&
           strcmp(got.asked, reply->asked) == 0 &&
           strcmp(got.owner.id, reply->owner.id) == 0;
}

static void begin_anew(void)
{
    simba__mutex_fini(&record);
    record = (struct simba__mutex_record){0};
    redis_number(&server, "FLUSHALL");
    for (int i = 0; i < PEOPLE; i++) {
        who[i] = newcomer(&first, ids[i], SHORT_LEASE);
        slots[i] = 0;
    }
}

/* `is_lost`: the two may have parted; at first, that the server was slow, and
 * may have told one time and decided by another. */
static void check(int i,
                  struct who *one,
                  const simba_request *request,
                  bool *is_lost)
{
    simba_reply reply;
    bool is_edge;

    if (request->kind != SIMBA_ACQUIRE && request->kind != SIMBA_RENEW) {
        simba_reply answer = got;
        int64_t from = simba_loop_now_ms();

        look(one); /* a release tells no time */
        *is_lost |= simba_loop_now_ms() - from > 1;
        answer.store_ms = got.store_ms;
        got = answer;
    }
    is_edge = is_at_an_edge(got.store_ms) || *is_lost;
    replay(one, request, &reply);
    if (request->kind != SIMBA_ACQUIRE && request->kind != SIMBA_RENEW) {
        *is_lost |= is_edge;
        if (!is_edge && request->kind != SIMBA_LEAVE &&
            (request->to != NULL || request->slots > 1)) {
            assert_string_equal(got.to, reply.to);
        }
    } else if (!is_alike(&reply)) {
        if (!is_edge) {
            fail_msg("request %d, kind %d of %s: mine %d/%d queued %d/%d head "
                     "%d/%d wait %d/%d owner %s/%s owned %u/%u of %u/%u slot "
                     "%u/%u asked %s/%s",
                     i, request->kind, one->id, got.mine, reply.mine,
                     got.is_queued, reply.is_queued, got.is_head, reply.is_head,
                     (int)got.wait_ms, (int)reply.wait_ms, got.owner.id,
                     reply.owner.id, got.owned, reply.owned, got.slots,
                     reply.slots, got.slot, reply.slot, got.asked, reply.asked);
        }
        *is_lost = true;
    } else if (request->kind == SIMBA_ACQUIRE && got.is_queued && !is_edge) {
        simba_reply answer = got;

        compare_line(answer.store_ms);
        got = answer;
    }
}

/* A contender keeps its slots; a renewal may let more in. Now and then one is
 * asked to hand over, and who releases names its successor. */
static void add_slots(int i, simba_request *request, unsigned dice)
{
    static const uint32_t some[] = {1, 2, 3, 3, UINT32_MAX};

    if (slots[i] == 0 && request->kind == SIMBA_ACQUIRE) {
        slots[i] = some[dice / 10 % 5];
    }
    request->slots = slots[i];
    if (request->kind == SIMBA_RENEW && dice / 10 % 4 == 0) {
        request->slots = UINT32_MAX;
    } else if (request->kind == SIMBA_RENEW && dice / 10 % 4 == 1) {
        request->kind = SIMBA_HAND_OVER;
    }
    if (dice / 20 % 2 == 0 &&
        (request->kind == SIMBA_RELEASE || request->kind == SIMBA_HAND_OVER)) {
        request->to = ids[dice / 40 % PEOPLE];
    }
}

static void play(int requests)
{
    unsigned dice = 12345;
    int anew = 0;
    struct who admin = person(&first, "admin");

    must_open(&first);
    begin_anew();
    for (int i = 0; i < requests; i++) {
        struct who *one;
        int64_t from;
        bool is_lost;
        simba_request request;

        dice = dice * 1103515245 + 12345;
        one = &who[dice / 65536 % PEOPLE];
        dice = dice * 1103515245 + 12345;
        request = any_request(one, SHORT_LEASE, dice / 65536);
        if (has_slots) {
            add_slots((int)(one - who), &request, dice / 65536);
        }
        if (request.kind == SIMBA_HAND_OVER) {
            one = &admin;
        }
        from = simba_loop_now_ms();
        run(one, request);
        is_lost = simba_loop_now_ms() - from > 1;
        check(i, one, &request, &is_lost);
        one->position = got.is_queued ? got.position : one->position;
        if (request.kind == SIMBA_LEAVE || request.kind == SIMBA_RELEASE) {
            *one = newcomer(&first, one->id, SHORT_LEASE);
            slots[one - who] = 0;
        }
        if (is_lost) {
            begin_anew();
            anew++;
        }
        if (dice / 65536 % 50 == 0) {
            redis_nap_ms(dice / 65536 % 500 < 20 ? 310 : dice / 65536 % 30);
        }
    }
    assert_true(anew < requests * 9 / 10);
    simba__mutex_fini(&record);
}

REDIS_TEST(test_redis_model__does_as_the_model_does)
{
    has_slots = false;
    play(REQUESTS);
}

REDIS_TEST(test_redis_model__does_so_with_slots_and_successors)
{
    has_slots = true;
    play(REQUESTS / 2);
}

int main(void)
{
    return run_unit_tests(start_server, remove_server);
}
