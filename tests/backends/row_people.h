/* People who contend for a mutex that is a row: who owns it can tell until
 * when. Included as people.h is. */
#ifndef TESTS_BACKENDS_ROW_PEOPLE_H
#define TESTS_BACKENDS_ROW_PEOPLE_H

#include "people.h"

static inline void look(struct who *who)
{
    run(who, (simba_request){.kind = SIMBA_READ});
}

static inline void expect_mine(const struct who *who)
{
    assert_true(got.mine);
    assert_true(got.token != 0);
    assert_string_equal(got.owner.id, who->id);
    assert_int_equal(got.owner.token, got.token);
    assert_int_equal(got.owner.ttl_at_ms, got.store_ms + who->ttl_ms);
    assert_int_equal(got.owner.transition_at_ms,
                     got.store_ms + who->ttl_ms + who->transition_ms);
}

static inline void expect_in_line(bool is_head)
{
    assert_false(got.mine);
    assert_true(got.is_queued);
    assert_int_equal(got.is_head, is_head);
    assert_true(got.position != 0);
}

#endif
