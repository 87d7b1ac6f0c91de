/* With which statement an operation on a mutex begins, by what is remembered of
 * how it went last. */
#include "backends/sql/engine.h"

/* Where the mark of a mutex is; two that share it cost each other a round trip
 * now and then. */
static unsigned mark_of(const struct simba__sql_turn *turn)
{
    unsigned hash = 5381;

    for (const char *c = turn->request->mutex; *c != '\0'; c++) {
        hash = hash * 33 + (unsigned char)*c;
    }
    return hash % SIMBA__SQL_MARKS;
}

void simba__sql_mark_loud(const struct simba__sql_turn *turn, bool is_loud)
{
    turn->self->is_loud[mark_of(turn)] = is_loud;
}

void simba__sql_mark_line(const struct simba__sql_turn *turn, bool has_line)
{
    turn->self->has_line[mark_of(turn)] = has_line;
}

enum simba__sql_statement simba__sql_first_try(
    const struct simba__sql_turn *turn)
{
    const struct simba__sql *self = turn->self;
    const simba_request *request = turn->request;
    unsigned mark = mark_of(turn);
    bool is_quick = !self->has_no_quiet && !self->is_loud[mark];

    if (turn->is_slow) {
        return SIMBA__SQL_LOAD;
    }
    if (request->kind == SIMBA_ACQUIRE && !self->has_no_token) {
        return is_quick ? SIMBA__SQL_QUIET_ACQUIRE : SIMBA__SQL_FAST_ACQUIRE;
    }
    if (request->kind == SIMBA_RENEW) {
        return is_quick ? SIMBA__SQL_QUIET_RENEW : SIMBA__SQL_FAST_RENEW;
    }
    if (request->kind == SIMBA_RELEASE && request->tombstone_ms == 0 &&
        (is_quick || self->has_no_quiet) && !self->has_line[mark]) {
        return is_quick ? SIMBA__SQL_QUIET_RELEASE : SIMBA__SQL_FAST_RELEASE;
    }
    return SIMBA__SQL_LOAD;
}
