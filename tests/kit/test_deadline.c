#include "kit/deadline.h"

#include "fixtures/unit_test.h"

#include <stdio.h>

static int status_told;
static char message_told[256];

static void on_done(simba_request *request,
                    int status,
                    const simba_error *error)
{
    (void)request;
    status_told = status;
    snprintf(message_told, sizeof message_told, "%s",
             error == NULL ? "" : error->message);
}

TEST(test_deadline__what_only_reads_has_no_unknown_outcome)
{
    simba_request read = {.kind = SIMBA_READ, .done = on_done};
    simba_request renew = {.kind = SIMBA_RENEW, .done = on_done};
    simba_request *slot = &read;

    simba__deadline_complete(&slot, SIMBA_EUNKNOWN, NULL);
    assert_null(slot);
    assert_int_equal(status_told, SIMBA_EUNAVAIL);
    slot = &renew;
    simba__deadline_complete(&slot, SIMBA_EUNKNOWN, NULL);
    assert_int_equal(status_told, SIMBA_EUNKNOWN);
    simba__deadline_complete(&slot, SIMBA_OK, NULL); /* empty: nobody is told */
    assert_int_equal(status_told, SIMBA_EUNKNOWN);
}

TEST(test_deadline__only_what_is_late_expires)
{
    simba_request renew = {.kind = SIMBA_RENEW,
                           .deadline_ms = simba_loop_now_ms() + 60000,
                           .done = on_done};
    simba_request *slot = &renew;

    status_told = SIMBA_OK;
    simba__deadline_expire(&slot, "redis", "h:1");
    assert_ptr_equal(slot, &renew);
    renew.deadline_ms = simba_loop_now_ms();
    simba__deadline_expire(&slot, "redis", "h:1");
    assert_null(slot);
    assert_int_equal(status_told, SIMBA_EUNKNOWN);
    assert_string_equal(message_told, "redis h:1: no answer in time");
    simba__deadline_expire(&slot, "redis", "h:1");
}
