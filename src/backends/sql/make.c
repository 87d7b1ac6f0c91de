/* Whether simba_mutex is of our make, of another or of an old one: found out by
 * what is missing there, and again when somebody has upgraded it. */
#include "backends/sql/engine.h"

int simba__sql_missing(const struct simba__sql *self)
{
    return self->has_no_quiet + self->has_no_token;
}

bool simba__sql_is_news(const struct simba__sql_turn *turn)
{
    return turn->missing != simba__sql_missing(turn->self);
}

/* If another turn has noted it since this one was sent, that is all: what is
 * there must not be taken for missing as well, or the versions become tokens
 * again (S4). */
bool simba__sql_note_missing(const struct simba__sql_turn *turn)
{
    struct simba__sql *self = turn->self;

    if (!simba__sql_is_news(turn)) {
        if (self->has_no_token) {
            return false;
        }
        self->has_no_token = self->has_no_quiet;
        self->has_no_quiet = true;
    }
    return true;
}

/* Somebody has made of simba_mutex what ours are. S4: to whom the versions are
 * tokens must not go on so once there are true ones, which are greater. Who
 * does not know what quiet means must learn it before the first that is. */
static bool is_upgraded(const struct simba__sql_turn *turn,
                        const struct simba__sql_rows *rows)
{
    const struct simba__sql *self = turn->self;

    return rows->count > 0 &&
           ((self->has_no_token &&
             (simba__sql_number(rows, 0, SIMBA__SQL_HAS_TOKENS) != 0 ||
              simba__sql_number(rows, 0, SIMBA__SQL_TENURE_TOKEN) >
                  SIMBA__SQL_VERSIONS)) ||
            (self->has_no_quiet &&
             simba__sql_number(rows, 0, SIMBA__SQL_TENURE_VERSION) ==
                 SIMBA__SQL_SILENT));
}

/* Unless it was so once, and is no more: its tokens would be old ones (S4). */
bool simba__sql_learn(struct simba__sql_turn *turn,
                      const struct simba__sql_rows *rows)
{
    struct simba__sql *self = turn->self;
    simba_error error;

    if (simba__sql_is_news(turn)) { /* the rows lack what is known by now */
        simba__sql_turn_start(turn);
        return true;
    }
    if (!is_upgraded(turn, rows)) {
        return false;
    }
    if (!turn->was_learnt) {
        turn->was_learnt = true;
        self->has_no_token = self->has_no_quiet = false;
        simba__sql_turn_start(turn);
        return true;
    }
    simba_error_set(
        &error, SIMBA_EMISCONFIG, 0,
        "%s: simba_mutex is of an older make than what simba_tenure "
        "knows of it: run `simba init --upgrade`",
        self->shown);
    simba__sql_turn_end(turn, SIMBA_EMISCONFIG, &error);
    return true;
}
