/* How a mutex stands; see standing.h. */
#define _GNU_SOURCE
#include "standing.h"
#include "words.h"

#include <inttypes.h>
#include <string.h>

enum column { MUTEX, OWNER, TOKEN, AGE, LEASE, WAITING, COLUMNS };

/* --- times --------------------------------------------------------------- */

/* ZooKeeper writes down when a node was made, by the time of day, but does not
 * tell what time it is. */
int64_t simba__standing_now(int64_t store_ms)
{
    return store_ms == 0 ? simba__words_unix_ms() : store_ms;
}

static int64_t time_until(int64_t at_ms, int64_t now_ms)
{
    if (at_ms == INT64_MAX || at_ms == 0) {
        return SIMBA__STANDING_UNKNOWN;
    }
    return at_ms > now_ms ? at_ms - now_ms : 0;
}

static int64_t time_since(int64_t at_ms, int64_t now_ms)
{
    if (at_ms == 0) {
        return SIMBA__STANDING_UNKNOWN;
    }
    return at_ms < now_ms ? now_ms - at_ms : 0;
}

struct simba__standing simba__standing_of(const char *mutex,
                                          const simba_owner *owner,
                                          int waiting,
                                          int64_t store_ms)
{
    struct simba__standing standing = {
        .mutex = mutex,
        .owner = owner,
        .waiting = waiting,
        .age_ms = SIMBA__STANDING_UNKNOWN,
        .ttl_left_ms = SIMBA__STANDING_UNKNOWN,
        .lease_left_ms = SIMBA__STANDING_UNKNOWN,
    };

    if (owner->id[0] != '\0') {
        int64_t now_ms = simba__standing_now(store_ms);

        standing.age_ms = time_since(owner->acquired_at_ms, now_ms);
        standing.ttl_left_ms = time_until(owner->ttl_at_ms, now_ms);
        standing.lease_left_ms = time_until(owner->transition_at_ms, now_ms);
    }
    return standing;
}

/* --- for people ---------------------------------------------------------- */

void simba__standing_head(struct simba__table *table, int64_t bar_ms)
{
    const char *texts[COLUMNS] = {
        "MUTEX",   "OWNER", "TOKEN", "AGE", bar_ms > 0 ? "LEASE LEFT" : "LEASE",
        "WAITING",
    };

    table->columns = COLUMNS;
    table->right = 1U << TOKEN | 1U << AGE | 1U << LEASE | 1U << WAITING;
    table->soft = 1U << MUTEX | 1U << OWNER;
    simba__table_add(table, SIMBA__TINT_BOLD, texts);
}

static void word_time(int64_t ms, char text[SIMBA__WORDS_ROOM])
{
    if (ms == SIMBA__STANDING_UNKNOWN) {
        memcpy(text, "-", 2);
    } else {
        simba__words_duration(ms, text);
    }
}

static void word_lease(int64_t left_ms,
                       int64_t bar_ms,
                       char text[SIMBA__WORDS_ROOM])
{
    char left[SIMBA__WORDS_ROOM], bar[SIMBA__WORDS_ROOM];

    word_time(left_ms, left);
    if (bar_ms <= 0 || left_ms == SIMBA__STANDING_UNKNOWN) {
        memcpy(text, left, sizeof(left));
        return;
    }
    simba__words_bar(left_ms, bar_ms, bar);
    (void)snprintf(text, SIMBA__WORDS_ROOM, "%.16s %6.16s", bar, left);
}

/* Whoever is in its ttl is well; whoever is not may still renew, unless it was
 * broken. */
static enum simba__tint tint_of(const struct simba__standing *standing)
{
    if (standing->owner->id[0] == '\0') {
        return SIMBA__TINT_FAINT;
    }
    if (standing->owner->is_broken) {
        return SIMBA__TINT_RED;
    }
    return standing->ttl_left_ms == 0 ? SIMBA__TINT_YELLOW : SIMBA__TINT_NONE;
}

static void word_owner(const simba_owner *owner, char *text, size_t room)
{
    (void)snprintf(text, room, "%s%s", owner->is_broken ? "(broken) " : "",
                   owner->id[0] == '\0' ? "-" : owner->id);
}

void simba__standing_row(struct simba__table *table,
                         const struct simba__standing *standing,
                         int64_t bar_ms)
{
    char token[24] = "-", age[SIMBA__WORDS_ROOM], lease[SIMBA__WORDS_ROOM];
    char waiting[16] = "?", owner[SIMBA_ID_MAX + 16];
    const char *texts[COLUMNS] = {standing->mutex, owner,  token, age,
                                  lease,           waiting};

    word_owner(standing->owner, owner, sizeof(owner));
    if (standing->owner->token != 0) {
        (void)snprintf(token, sizeof(token), "%" PRIu64,
                       standing->owner->token);
    }
    if (standing->waiting >= 0) {
        (void)snprintf(waiting, sizeof(waiting), "%d", standing->waiting);
    }
    word_time(standing->age_ms, age);
    word_lease(standing->lease_left_ms, bar_ms, lease);
    simba__table_add(table, tint_of(standing), texts);
}

/* --- for programs -------------------------------------------------------- */

static void put_time(struct simba__object *object, const char *key, int64_t ms)
{
    if (ms == SIMBA__STANDING_UNKNOWN) {
        simba__object_null(object, key);
    } else {
        simba__object_number(object, key, ms);
    }
}

void simba__standing_members(struct simba__object *object,
                             const struct simba__standing *standing)
{
    bool is_free = standing->owner->id[0] == '\0';

    simba__object_text(object, "mutex", standing->mutex);
    simba__object_text(object, "id", is_free ? NULL : standing->owner->id);
    simba__object_token(object, "token", is_free ? 0 : standing->owner->token);
    put_time(object, "age_ms", standing->age_ms);
    put_time(object, "ttl_left_ms", standing->ttl_left_ms);
    put_time(object, "lease_left_ms", standing->lease_left_ms);
    simba__object_flag(object, "broken", standing->owner->is_broken);
    put_time(object, "waiting", standing->waiting);
}
