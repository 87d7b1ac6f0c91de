/* A release that is waited for, by any or by a named successor. By `load` and
 * `apply` it takes two round trips, and who comes next waits for both. Where
 * the last ones of this mutex came to nothing but an offer, the next is tried
 * by one statement that can do just that. It does nothing where there is more
 * to consider; then all is done as before. */
#include "backends/sql/sql.h"

#include <string.h>

/* After so many in a row: who waited once may have been the only one. */
enum { OFFERS_LEAST = 2 };

static bool knows_offers(const struct simba__sql *self)
{
    return !self->has_no_quiet && !self->has_no_token && !self->has_no_slots &&
           !self->cannot_offer;
}

bool simba__sql_can_offer(const struct simba__sql_request *request,
                          unsigned offers)
{
    const simba_request *asked = request->asked;

    return asked->kind == SIMBA_RELEASE && asked->tombstone_ms == 0 &&
           offers >= OFFERS_LEAST && knows_offers(request->self);
}

void simba__sql_count_offers(const struct simba__sql_request *request,
                             uint8_t *offers)
{
    const struct simba__sql_record *record = &request->record;
    const struct simba__sql_change *change = &request->change;
    const struct simba__mutex_record *mutex = &record->mutex;
    bool is_plain = mutex->is_offered && !simba__sql_is_jvm(&mutex->offered) &&
                    record->peers[mutex->offered.connection].can_notify &&
                    !record->has_jvm && !record->has_slots &&
                    !change->has_slots && change->gone_count == 1 &&
                    change->come_count == 0;

    if (!is_plain) {
        *offers = 0;
    } else if (*offers < OFFERS_LEAST) {
        ++*offers;
    }
}

void simba__sql_offered(struct simba__sql_request *request,
                        const struct simba__sql_rows *rows)
{
    struct simba__sql *self = request->self;
    simba_request *asked = request->asked;
    simba_reply *reply = &asked->reply;
    bool is_first_ours = strcmp(simba__sql_text(rows, 0, SIMBA__SQL_DONE_FIRST),
                                self->process) == 0;
    bool is_second_ours =
        strcmp(simba__sql_text(rows, 0, SIMBA__SQL_DONE_SECOND),
               self->process) == 0;

    if (reply->size >= offsetof(simba_reply, to) + sizeof reply->to) {
        simba__sql_copy(reply->to, sizeof reply->to,
                        simba__sql_text(rows, 0, SIMBA__SQL_DONE_TO));
    }
    if (is_first_ours) {
        simba__sql_wake_until(self, asked->mutex, 0);
    }
    if (is_second_ours) {
        simba__sql_wake_until(self, asked->mutex,
                              is_first_ours ? 0 : SIMBA__OFFER_MS);
    }
}

bool simba__sql_wakes_others(const struct simba__sql_request *request)
{
    return request->statement == SIMBA__SQL_OFFER ||
           (simba__sql_is_apply(request->statement) &&
            request->change.wake_count > 0);
}
