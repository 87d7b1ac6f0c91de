/* Stores on database servers: whether an owner is dead is judged by when the
 * server was asked, not by when the answer was read. */
#define _GNU_SOURCE
#include "driver.h"

enum { LEASE_LEAST = 400, LEASE_MOST = 12800 };

static const struct simba__sql_dialect *prompt;
static int64_t late_ms;

/* The answer is read so much later than it was given. */
static void send_late(struct simba__sql_session *session,
                      enum simba__sql_statement statement)
{
    prompt->send(session, statement);
    if (statement == SIMBA__SQL_LOAD) {
        nap_ms(late_ms);
    }
}

/* Who waits asks shortly before the end of the lease, and reads the answer
 * after it. False: too late, for the machine is slow. */
static bool read_after_the_end(int64_t lease_ms)
{
    static struct simba__sql_dialect late;
    struct simba__sql *self = (struct simba__sql *)second.backend;
    struct who a = person(&first, "a"), b = person(&second, "b");
    int64_t end_ms;
    bool is_in_time;

    a.ttl_ms = b.ttl_ms = lease_ms / 2;
    a.transition_ms = b.transition_ms = lease_ms / 2;
    ask(&a);
    expect_mine(&a);
    end_ms = got.owner.transition_at_ms;
    ask(&b);
    if (got.store_ms > end_ms) {
        return false;
    }
    expect_queued(true);
    nap_ms(end_ms - got.store_ms > lease_ms / 4
               ? end_ms - got.store_ms - lease_ms / 4
               : 0);
    prompt = self->dialect;
    late = *prompt;
    late.send = send_late;
    late_ms = lease_ms;
    self->dialect = &late;
    ask(&b);
    self->dialect = prompt;
    is_in_time = got.store_ms <= end_ms;
    if (is_in_time) {
        expect_queued(true);
        assert_string_equal(got.owner.id, "a");
        assert_int_equal(got.wait_ms, end_ms - got.store_ms);
        ask(&b);
        expect_mine(&b);
    }
    release(&b);
    return is_in_time;
}

SQL_TEST(test_sql_liveness__late_answer_ends_no_lease)
{
    int64_t lease_ms = LEASE_LEAST;

    while (!read_after_the_end(lease_ms)) {
        assert_true(lease_ms < LEASE_MOST);
        lease_ms *= 2;
    }
}
