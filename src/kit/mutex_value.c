/* A mutex record as one text, and the model run on it. */
#define _GNU_SOURCE
#include <simba/sys/mutex_value.h>

#include "core/mutex_record.h"
#include "core/name.h"
#include "util/array.h"
#include "util/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char version[] = "simba 1";

/* --- writing ------------------------------------------------------------- */

static void put_waiter(struct simba__text *text,
                       const char *kind,
                       int64_t until_ms,
                       const struct simba__waiter *waiter)
{
    simba__text_printf(text,
                       "%s %016" PRIx64 "%016" PRIx64 " %" PRIu64 " %" PRIx64
                       " %" PRId64 " %" PRId64 " %s\n",
                       kind, waiter->attempt.high, waiter->attempt.low,
                       waiter->position, waiter->connection, waiter->lapses_ms,
                       until_ms, waiter->id);
}

static char *encode(const struct simba__mutex_record *record, size_t *size)
{
    struct simba__text text = {0};
    char *bytes;

    simba__text_printf(
        &text, "%s\nlast %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
        version, record->last_token, record->tenure_token, record->former_token,
        record->last_position);
    if (record->owner.id[0] != '\0') {
        simba__text_printf(&text,
                           "owner %016" PRIx64 "%016" PRIx64 " %" PRIu64
                           " %" PRId64 " %" PRId64 " %" PRId64 " %d %s\n",
                           record->attempt.high, record->attempt.low,
                           record->owner.token, record->owner.acquired_at_ms,
                           record->owner.ttl_at_ms,
                           record->owner.transition_at_ms,
                           record->owner.is_broken, record->owner.id);
    }
    if (record->is_offered) {
        put_waiter(&text, "offered", record->offered_until_ms,
                   &record->offered);
    }
    for (size_t i = 0; i < record->queue_count; i++) {
        put_waiter(&text, "waiter", 0, &record->queue[i]);
    }
    for (size_t i = 0; i < record->tombstone_count; i++) {
        const struct simba__tombstone *one = &record->tombstones[i];

        simba__text_printf(
            &text, "tombstone %016" PRIx64 "%016" PRIx64 " %" PRId64 "\n",
            one->attempt.high, one->attempt.low, one->until_ms);
    }
    *size = text.length;
    bytes = simba__text_take(&text);
    return bytes;
}

/* --- reading ------------------------------------------------------------- */

/* The words of one line; a failure stays. */
struct line {
    char *at;
    bool is_bad;
};

static const char *next_word(struct line *line)
{
    char *word = line->at, *end = strchr(word, ' ');

    line->is_bad |= *word == '\0' || *word == ' ';
    if (end == NULL) {
        line->at = word + strlen(word);
    } else {
        *end = '\0';
        line->at = end + 1;
    }
    return word;
}

static uint64_t next_number(struct line *line, int base, uint64_t most)
{
    const char *word = next_word(line);
    uint64_t number = 0;

    for (; !line->is_bad && *word != '\0'; word++) {
        int digit = simba__text_hex(*word);

        line->is_bad |= digit < 0 || digit >= base ||
                        number > (most - (uint64_t)digit) / (uint64_t)base;
        number = number * (uint64_t)base + (uint64_t)digit;
    }
    return number;
}

static int64_t next_time(struct line *line)
{
    return (int64_t)next_number(line, 10, INT64_MAX);
}

static simba_attempt next_attempt(struct line *line)
{
    const char *word = next_word(line);
    simba_attempt attempt = {0, 0};

    line->is_bad |= strlen(word) != 32;
    for (int i = 0; !line->is_bad && i < 32; i++) {
        int digit = simba__text_hex(word[i]);
        uint64_t *half = i < 16 ? &attempt.high : &attempt.low;

        line->is_bad |= digit < 0;
        *half = *half << 4 | (uint64_t)digit;
    }
    return attempt;
}

/* The rest of the line, for an id may have blanks. */
static void next_id(struct line *line, char id[SIMBA_ID_MAX + 1])
{
    size_t length = strlen(line->at);

    line->is_bad |= simba__name_check_id(line->at, length) != SIMBA__NAME_FINE;
    if (!line->is_bad) {
        memcpy(id, line->at, length + 1);
    }
}

static struct simba__waiter next_waiter(struct line *line, int64_t *until_ms)
{
    struct simba__waiter waiter = {.attempt = next_attempt(line)};

    waiter.position = next_number(line, 10, UINT64_MAX);
    waiter.connection = next_number(line, 16, UINT64_MAX);
    waiter.lapses_ms = next_time(line);
    *until_ms = next_time(line);
    next_id(line, waiter.id);
    return waiter;
}

/* False: no memory. Positions must rise, as the record expects of its queue. */
static bool add_waiter(struct simba__mutex_record *record, struct line *line)
{
    int64_t until_ms;
    struct simba__waiter waiter = next_waiter(line, &until_ms);
    size_t count = record->queue_count;

    line->is_bad |=
        count > 0 && record->queue[count - 1].position > waiter.position;
    if (!simba__array_reserve(&record->queue, &record->queue_room, count + 1,
                              sizeof *record->queue)) {
        return false;
    }
    record->queue[record->queue_count++] = waiter;
    return true;
}

static bool add_tombstone(struct simba__mutex_record *record, struct line *line)
{
    struct simba__tombstone tombstone = {.attempt = next_attempt(line)};

    tombstone.until_ms = next_time(line);
    if (!simba__array_reserve(&record->tombstones, &record->tombstone_room,
                              record->tombstone_count + 1,
                              sizeof *record->tombstones)) {
        return false;
    }
    record->tombstones[record->tombstone_count++] = tombstone;
    return true;
}

static void read_owner(struct simba__mutex_record *record, struct line *line)
{
    simba_owner *owner = &record->owner;

    record->attempt = next_attempt(line);
    owner->token = next_number(line, 10, UINT64_MAX);
    owner->acquired_at_ms = next_time(line);
    owner->ttl_at_ms = next_time(line);
    owner->transition_at_ms = next_time(line);
    owner->is_broken = next_number(line, 2, 1) == 1;
    next_id(line, owner->id);
}

/* False: no memory. */
static bool read_line(struct simba__mutex_record *record, struct line *line)
{
    const char *kind = next_word(line);

    if (strcmp(kind, "last") == 0) {
        record->last_token = next_number(line, 10, UINT64_MAX);
        record->tenure_token = next_number(line, 10, UINT64_MAX);
        record->former_token = next_number(line, 10, UINT64_MAX);
        record->last_position = next_number(line, 10, UINT64_MAX);
    } else if (strcmp(kind, "owner") == 0) {
        read_owner(record, line);
    } else if (strcmp(kind, "offered") == 0) {
        record->is_offered = true;
        record->offered = next_waiter(line, &record->offered_until_ms);
    } else if (strcmp(kind, "waiter") == 0) {
        return add_waiter(record, line);
    } else if (strcmp(kind, "tombstone") == 0) {
        return add_tombstone(record, line);
    } else {
        line->is_bad = true;
    }
    return true;
}

/* SIMBA_OK, SIMBA_EMISCONFIG or SIMBA_ENOMEM. */
static int decode(struct simba__mutex_record *record,
                  const char *value,
                  size_t size)
{
    char *copy, *at, *end;
    int rc = SIMBA_OK;

    memset(record, 0, sizeof *record);
    if (value == NULL || size == 0) {
        return SIMBA_OK;
    }
    if (memchr(value, '\0', size) != NULL || value[size - 1] != '\n') {
        return SIMBA_EMISCONFIG;
    }
    copy = at = strndup(value, size);
    if (copy == NULL) {
        return SIMBA_ENOMEM;
    }
    for (bool is_first = true; rc == SIMBA_OK && *at != '\0';
         at = end + 1, is_first = false) {
        struct line line = {.at = at};

        end = strchr(at, '\n');
        *end = '\0';
        if (is_first) {
            line.is_bad = strcmp(at, version) != 0;
        } else if (!read_line(record, &line)) {
            rc = SIMBA_ENOMEM;
        }
        rc = line.is_bad ? SIMBA_EMISCONFIG : rc;
    }
    free(copy);
    return rc;
}

/* --- serving ------------------------------------------------------------- */

struct serving {
    const simba_value_host *host;
    simba_value_change *change;
};

static bool is_connected(void *self, uint64_t connection)
{
    const simba_value_host *host = ((struct serving *)self)->host;

    return host->is_connected == NULL || connection == host->connection ||
           host->is_connected(host->self, connection);
}

static void wake(void *self, const struct simba__waiter *waiter)
{
    simba_value_change *change = ((struct serving *)self)->change;

    assert(change->wake_count < 2);
    change->wake[change->wake_count++] = waiter->connection;
}

int simba_value_serve(const simba_value_host *host,
                      simba_request *request,
                      simba_value_change *change,
                      simba_error *error)
{
    struct serving serving = {host, change};
    struct simba__mutex_host record_host = {&serving, is_connected, wake};
    struct simba__mutex_request given = {.request = request,
                                         .connection = host->connection,
                                         .now_ms = host->now_ms};
    struct simba__mutex_record record;
    int rc = decode(&record, host->value, host->size);
    struct simba__waiter_walk walk = {&record, &record_host, host->now_ms, 0};
    simba_reply reply = SIMBA_REPLY_INIT;
    uint64_t owner = record.owner.token;
    simba_waiter waiter;

    assert(host->connection != 0);
    *change = (simba_value_change){0};
    if (rc == SIMBA_OK &&
        !simba__mutex_serve(&record, &record_host, &given, &reply)) {
        rc = SIMBA_ENOMEM;
    }
    while (rc == SIMBA_OK && request->want_queue &&
           simba__mutex_next_waiter(&walk, &waiter)) {
        simba_request_add_waiter(request, &waiter);
    }
    if (rc == SIMBA_OK && request->kind != SIMBA_READ) {
        change->bytes = encode(&record, &change->size);
        rc = change->bytes == NULL ? SIMBA_ENOMEM : SIMBA_OK;
    }
    if (change->bytes != NULL && change->size == host->size &&
        memcmp(change->bytes, host->value, host->size) == 0) {
        free(change->bytes);
        change->bytes = NULL;
    }
    if (rc == SIMBA_OK) {
        simba_reply_copy(&request->reply, &reply);
        change->is_owner_changed =
            change->bytes != NULL && record.owner.token != owner;
    }
    simba__mutex_fini(&record);
    if (rc == SIMBA_EMISCONFIG) {
        return simba_error_set(error, rc, 0,
                               "what is stored of \"%s\" is not a mutex of "
                               "this version",
                               request->mutex);
    }
    return rc == SIMBA_OK ? rc : simba_error_set(error, rc, 0, "no memory");
}

void simba_value_list(const char *mutex,
                      const simba_value_host *host,
                      simba_request *request)
{
    struct serving serving = {host, NULL};
    struct simba__mutex_host record_host = {&serving, is_connected, wake};
    struct simba__mutex_record record;
    struct simba__waiter_walk walk = {&record, &record_host, host->now_ms, 0};
    int waiting = 0;

    if (decode(&record, host->value, host->size) == SIMBA_OK) {
        bool is_held = simba__mutex_is_held(&record, host->now_ms);
        simba_owner owner = is_held ? record.owner : simba_owner_none();

        while (simba__mutex_next_waiter(&walk, NULL)) {
            waiting++;
        }
        if (is_held || waiting > 0) {
            simba_request_add_mutex(request, mutex, &owner, waiting);
        }
    }
    simba__mutex_fini(&record);
}
