/* What a line of an event log says: a line of the trace shim, or of the --json
 * of simba lock, lead, every and break. */
#include "verify/json_line.h"
#include "verify/log.h"

#include "core/lease.h"

#include <stdlib.h>
#include <string.h>

/* The members that matter, as they stand in the line. */
struct members {
    const char *trace, *event, *boot, *mutex, *id, *attempt, *request, *status;
    const char *handle, *fault, *to;
    uint64_t slots, slot;
    uint64_t us, number, token, position, ttl_ms, transition_ms, waiter_ms,
        lease_ms;
    uint64_t store_ms, unix_ms;
    uint64_t boot_ms, until_ms, tombstone_ms, run, beat_ms, believes_ms;
    bool has_us, has_number, has_boot_ms, has_until_ms, has_run;
    bool mine, is_queued, now;
    bool is_out_of_range; /* a number of these */
};

static void take_text(struct members *m, const struct simba__flat_member *f)
{
    struct {
        const char *key;
        const char **to;
    } texts[] = {{"trace", &m->trace},
                 {"event", &m->event},
                 {"boot", &m->boot},
                 {"mutex", &m->mutex},
                 {"id", &m->id},
                 {"attempt", &m->attempt},
                 {"request", &m->request},
                 {"op", &m->request},
                 /* older logs */ {"status", &m->status},
                 {"handle", &m->handle},
                 {"fault", &m->fault},
                 {"to", &m->to}};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(texts[i].key, f->key) == 0) {
            *texts[i].to = f->text;
        }
    }
}

static void take_number(struct members *m, const struct simba__flat_member *f)
{
    struct {
        const char *key;
        uint64_t *to;
        bool *has;
    } numbers[] = {{"us", &m->us, &m->has_us},
                   {"n", &m->number, &m->has_number},
                   {"token", &m->token, NULL},
                   {"position", &m->position, NULL},
                   {"place", &m->position, NULL}, /* older logs */
                   {"ttl_ms", &m->ttl_ms, NULL},
                   {"transition_ms", &m->transition_ms, NULL},
                   {"waiter_ms", &m->waiter_ms, NULL},
                   {"lease_ms", &m->lease_ms, NULL},
                   {"slots", &m->slots, NULL},
                   {"slot", &m->slot, NULL},
                   {"tombstone_ms", &m->tombstone_ms, NULL},
                   {"store_ms", &m->store_ms, NULL},
                   {"unix_ms", &m->unix_ms, NULL},
                   {"run", &m->run, &m->has_run},
                   {"beat_ms", &m->beat_ms, NULL},
                   {"believes_ms", &m->believes_ms, NULL},
                   {"boot_ms", &m->boot_ms, &m->has_boot_ms},
                   {"until_ms", &m->until_ms, &m->has_until_ms}};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(numbers[i].key, f->key) != 0) {
            continue;
        }
        m->is_out_of_range |= !f->is_whole;
        *numbers[i].to = f->number;
        if (numbers[i].has != NULL) {
            *numbers[i].has = true;
        }
    }
}

static void take_member(void *user, const struct simba__flat_member *f)
{
    struct members *m = user;

    if (f->kind == SIMBA__FLAT_TEXT) {
        take_text(m, f);
    } else if (f->kind == SIMBA__FLAT_NUMBER) {
        take_number(m, f);
    } else if (f->kind == SIMBA__FLAT_TRUE) {
        m->mine |= strcmp(f->key, "mine") == 0;
        m->is_queued |= strcmp(f->key, "queued") == 0 ||
                        strcmp(f->key, "in_line") == 0; /* older logs */
        m->now |= strcmp(f->key, "now") == 0;
    }
}

/* --- values -------------------------------------------------------------- */

static bool copy(char *to, size_t room, const char *text)
{
    size_t length = text == NULL ? 0 : strlen(text);

    if (length >= room) {
        return false;
    }
    memcpy(to, text == NULL ? "" : text, length + 1);
    return true;
}

/* Digits, exactly sixteen of them. */
static bool read_word(const char *hex, uint64_t *word)
{
    *word = 0;
    for (int i = 0; i < 16; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *found = hex[i] == '\0' ? NULL : strchr(digits, hex[i]);

        if (found == NULL) {
            return false;
        }
        *word = *word << 4 | (uint64_t)(found - digits);
    }
    return true;
}

static bool read_attempt(const char *text, struct simba__deed_attempt *attempt)
{
    return text == NULL ||
           (strlen(text) == 32 && read_word(text, &attempt->high) &&
            read_word(text + 16, &attempt->low));
}

static enum simba__deed_request read_request(const char *name)
{
    static const char *const names[] = {"",        "acquire", "renew",
                                        "release", "leave",   "break"};

    for (int i = SIMBA__DEED_ACQUIRE; i <= SIMBA__DEED_BREAK; i++) {
        if (strcmp(names[i], name) == 0) {
            return (enum simba__deed_request)i;
        }
    }
    return SIMBA__DEED_OTHER;
}

static enum simba__deed_outcome read_outcome(const char *status)
{
    if (strcmp(status, "ok") == 0) {
        return SIMBA__DEED_HEARD;
    }
    return strcmp(status, "unknown-outcome") == 0 ? SIMBA__DEED_UNKNOWN
                                                  : SIMBA__DEED_FAILED;
}

/* How long an owner relies on a yes, at most: up to H, where its user must be
 * out. U is earlier, by a budget that the store is not told. An answer may
 * grant less than was asked for. */
static int64_t use_us(const struct members *m)
{
    struct simba__lease lease = {.ttl_ms = (int64_t)(m->ttl_ms + m->lease_ms),
                                 .transition_ms = (int64_t)m->transition_ms};

    int64_t use_ms =
        simba__lease_length_ms(&lease) - simba__lease_margin_ms(&lease);

    return use_ms < 1 && m->lease_ms > 0 ? 1 : use_ms * 1000;
}

static int64_t unix_us(const struct members *m)
{
    return m->unix_ms > INT64_MAX / 4000 ? 0 : (int64_t)m->unix_ms * 1000;
}

/* --- lines --------------------------------------------------------------- */

static const char *check_line(const struct members *m)
{
    if (!m->has_us || m->boot == NULL || m->handle == NULL ||
        strlen(m->handle) != 16) {
        return "a trace without us, boot or handle";
    }
    return m->us > INT64_MAX / 4 ? "a time that cannot be" : NULL;
}

static const char *check_request(const struct members *m)
{
    bool is_answered = strcmp(m->trace, "answered") == 0;

    if (!m->has_number || m->request == NULL) {
        return "a request without n or kind";
    }
    if (is_answered && m->status == NULL) {
        return "an answer without status";
    }
    if (m->ttl_ms > SIMBA__LEASE_MOST_MS ||
        m->transition_ms > SIMBA__LEASE_MOST_MS ||
        m->lease_ms > SIMBA__LEASE_MOST_MS || m->store_ms > INT64_MAX / 4000 ||
        m->waiter_ms > SIMBA__LEASE_MOST_MS * 4) {
        return "a time that cannot be";
    }
    return read_request(m->request) != SIMBA__DEED_OTHER && m->mutex == NULL
               ? "a request without mutex"
               : NULL;
}

static void take_request(const struct members *m, struct simba__deed *deed)
{
    bool is_sent = strcmp(m->trace, "sent") == 0;

    deed->kind = is_sent ? SIMBA__DEED_SENT : SIMBA__DEED_ANSWERED;
    deed->number = m->number;
    deed->request = read_request(m->request);
    deed->store_ms = (int64_t)m->store_ms;
    deed->token = m->token;
    deed->position = m->position;
    deed->mine = m->mine;
    deed->is_queued = m->is_queued;
    deed->now = m->now;
    deed->undoes = m->tombstone_ms > 0;
    deed->slots = m->slots;
    deed->slot = m->slot;
    if (m->to != NULL) {
        (void)snprintf(deed->to, sizeof deed->to, "%s", m->to);
    }
    deed->use_us = use_us(m);
    /* A store need not write a longer waiter lease before half of it is over,
     * so half is what a position surely has. */
    deed->waiter_us = (int64_t)m->waiter_ms * 500;
    deed->outcome = is_sent ? SIMBA__DEED_HEARD : read_outcome(m->status);
}

static const char *parse_trace(const struct members *m,
                               struct simba__deed *deed,
                               bool *is_deed)
{
    bool is_request =
        strcmp(m->trace, "sent") == 0 || strcmp(m->trace, "answered") == 0;
    const char *problem = check_line(m);

    if (problem == NULL && is_request) {
        problem = check_request(m);
    }
    if (problem != NULL) {
        return problem;
    }
    *is_deed = true;
    deed->kind = SIMBA__DEED_ALIVE;
    deed->at_us = (int64_t)m->us;
    deed->unix_us = unix_us(m);
    if (is_request && read_request(m->request) != SIMBA__DEED_OTHER) {
        take_request(m, deed);
    }
    deed->is_cut_off =
        m->mutex == NULL && (strcmp(m->trace, "wake_up") == 0 ||
                             strcmp(m->trace, "hint") == 0 /* older logs */);
    return read_word(m->handle, &deed->handle) &&
                   read_attempt(m->attempt, &deed->attempt)
               ? NULL
               : "a handle or attempt that is no number";
}

/* What an event says about ownership, or about a run; ALIVE: neither. */
static enum simba__deed_kind kind_of(const struct members *m)
{
    static const struct {
        const char *name;
        enum simba__deed_kind kind;
    } kinds[] = {
        {"acquired", SIMBA__DEED_ACQUIRED}, {"released", SIMBA__DEED_ENDED},
        {"lost", SIMBA__DEED_ENDED},        {"broken", SIMBA__DEED_FORCED},
        {"started", SIMBA__DEED_STARTED},   {"ended", SIMBA__DEED_OVER},
        {"fault", SIMBA__DEED_FAULT}};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(m->event, kinds[i].name) == 0) {
            return kinds[i].kind;
        }
    }
    return SIMBA__DEED_ALIVE;
}

static const char *check_event(const struct members *m,
                               enum simba__deed_kind kind)
{
    bool is_run = kind == SIMBA__DEED_STARTED || kind == SIMBA__DEED_OVER;

    if (kind == SIMBA__DEED_FAULT) {
        return m->fault == NULL || !m->has_boot_ms ||
                       m->boot_ms > INT64_MAX / 4000 ||
                       m->until_ms > INT64_MAX / 4000
                   ? "a fault without its name or boot_ms"
                   : NULL;
    }
    if (m->mutex == NULL || m->id == NULL || m->token == 0 || !m->has_boot_ms ||
        m->boot_ms > INT64_MAX / 4000 || m->until_ms > INT64_MAX / 4000 ||
        m->believes_ms > INT64_MAX / 4000 || m->store_ms > INT64_MAX / 4000) {
        return "an event without mutex, id, token or boot_ms";
    }
    if (is_run && (!m->has_run || m->beat_ms > INT64_MAX)) {
        return "a run without its number";
    }
    return NULL;
}

static const char *parse_event(const struct members *m,
                               struct simba__deed *deed,
                               bool *is_deed)
{
    enum simba__deed_kind kind = kind_of(m);
    const char *problem;

    if (kind == SIMBA__DEED_ALIVE) {
        return NULL; /* failures, messages, what other commands tell */
    }
    if (kind == SIMBA__DEED_ENDED && m->token == 0 &&
        strcmp(m->event, "lost") == 0) {
        return NULL; /* before it was had */
    }
    if (kind == SIMBA__DEED_FORCED && !m->now) {
        return NULL; /* exclusion holds on */
    }
    problem = check_event(m, kind);
    if (problem != NULL) {
        return problem;
    }
    deed->kind = kind;
    deed->unix_us = unix_us(m);
    /* Rounded down to milliseconds: it has begun after that, and it was relied
     * on no longer than that is sure. */
    deed->at_us = (int64_t)m->boot_ms * 1000 + 999;
    deed->until_us =
        (int64_t)(m->has_until_ms ? m->until_ms : m->boot_ms) * 1000;
    if (kind == SIMBA__DEED_FORCED || kind == SIMBA__DEED_FAULT) {
        deed->at_us -= 999; /* asked for then, and no earlier */
        deed->until_us += (int64_t)m->believes_ms * 1000;
    }
    deed->store_ms = (int64_t)m->store_ms;
    deed->token = m->token;
    deed->slots = m->slots;
    deed->slot = m->slot;
    deed->number = m->run;
    deed->beat_ms = (int64_t)m->beat_ms;
    *is_deed = true;
    return NULL;
}

const char *simba__log_parse(char *line,
                             size_t length,
                             struct simba__deed *deed,
                             bool *is_deed)
{
    struct members m = {.slot = SIMBA_NO_SLOT};
    const char *problem = simba__flat_read(line, length, take_member, &m);

    *is_deed = false;
    memset(deed, 0, sizeof *deed);
    if (problem == NULL && m.is_out_of_range) {
        problem = "a number that is negative, broken or beyond 64 bits";
    }
    if (problem == NULL && m.trace == NULL && m.event == NULL) {
        problem = "neither a trace nor an event";
    }
    if (problem == NULL) {
        problem = m.trace != NULL ? parse_trace(&m, deed, is_deed)
                                  : parse_event(&m, deed, is_deed);
    }
    if (problem == NULL &&
        (!copy(deed->scope, sizeof deed->scope, m.boot) ||
         !copy(deed->mutex, sizeof deed->mutex, m.mutex) ||
         !copy(deed->id, sizeof deed->id,
               deed->kind == SIMBA__DEED_FAULT ? m.fault : m.id))) {
        problem = "a name that is too long";
    }
    return problem;
}
