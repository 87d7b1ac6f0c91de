/* One observation machine: the test plays the runtime and the store, and feeds
 * one event at a time. */
#ifndef TESTS_CORE_OBSERVE_DRIVER_H
#define TESTS_CORE_OBSERVE_DRIVER_H

#include "core/observe.h"

#include <stddef.h>

#include "fixtures/unit_test.h"

static struct simba__observe o;
static struct simba__observe_update up;

/* Who owned it before the last event: the oldest. */
static simba_owner before;

/* Feeds an event with this owner, or nobody; the machine keeps it. */
static inline void feed_owner(struct simba__observe_event event,
                              const char *id,
                              uint64_t token)
{
    static simba_owner kept[2];
    simba_owner *owner = &kept[o.seen == &kept[0]];

    before = o.seen_count == 0 ? simba_owner_none() : o.seen[0];
    *owner = simba_owner_none();
    assert_true(simba_owner_set_id(owner, id));
    owner->token = token;
    event.owners = owner;
    event.owner_count = id[0] != '\0';
    simba__observe_step(&o, &event, &up);
}

static inline void happen(enum simba__observe_event_type type, int64_t now_ms)
{
    struct simba__observe_event event = {.type = type, .now_ms = now_ms};

    simba__observe_step(&o, &event, &up);
}

/* Of a store that knows which tenure ended last. */
static inline void read_after(const char *id,
                              uint64_t token,
                              uint64_t ended,
                              int64_t now_ms)
{
    feed_owner((struct simba__observe_event){.type = SIMBA__OBSERVE_READ,
                                             .now_ms = now_ms,
                                             .seq = o.seq,
                                             .ended = ended},
               id, token);
}

/* Of one that does not. */
static inline void read_is(const char *id, uint64_t token, int64_t now_ms)
{
    read_after(id, token, 0, now_ms);
}

/* Looks at the time of its next poll, and finds this. */
static inline void poll_finds(const char *id, uint64_t token, uint64_t ended)
{
    happen(SIMBA__OBSERVE_TIMER, simba__observe_wake_at(&o));
    assert_true(up.read);
    read_after(id, token, ended, o.now_ms + 5);
}

static inline void read_fails(int64_t now_ms)
{
    struct simba__observe_event event = {
        .type = SIMBA__OBSERVE_FAILED, .now_ms = now_ms, .seq = o.seq};

    simba__observe_step(&o, &event, &up);
}

static inline void expect_change(const char *from, const char *to)
{
    assert_true(up.changed);
    assert_string_equal(before.id, from);
    assert_string_equal(o.seen_count == 0 ? "" : o.seen[0].id, to);
}

static inline void begin(void)
{
    simba__observe_init(&o, 1000, true);
    assert_int_equal(simba__observe_wake_at(&o), INT64_MAX);
    happen(SIMBA__OBSERVE_START, 100);
    assert_true(up.read);
}

#endif
