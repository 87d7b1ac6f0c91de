/* What must not be across boots and hosts: one token for two tenures, one beat
 * run twice, tokens against the order of the store's clock, and two owners at
 * once by that clock (S1, S4). */
#include "verify/across.h"

#include "core/lease.h"
#include "verify/track.h"

#include <assert.h>
#include <string.h>

/* How many tenures of a mutex are compared with the next: those relied on
 * longest. */
enum { COMPARED_MOST = 16 };

/* --- noting -------------------------------------------------------------- */

static struct simba__across_entry entry_of(const struct simba__track *track,
                                           enum simba__across_kind kind,
                                           uint64_t number)
{
    return (struct simba__across_entry){.mutex = track->mutex,
                                        .number = number,
                                        .boot = track->boot,
                                        .kind = (uint8_t)kind};
}

static void set_id(struct simba__across_entry *entry, const char *id)
{
    entry->id_length = (uint8_t)strlen(id);
    memcpy(entry->id, id, entry->id_length);
}

/* Until when it was surely relied on, by the store's clock. That is ahead of
 * the boot clock by what its newest yes has told, at least: the store said it
 * before it was heard. From there on rates may differ. Beyond its last sign of
 * life the owner may be dead. */
static int64_t until_of(const struct simba__tenure *t)
{
    int64_t end_us = t->until_us < t->alive_us ? t->until_us : t->alive_us;
    struct simba__lease span = {.ttl_ms = (end_us - t->store_us) / 1000};
    int64_t until_ms =
        t->store_ms + span.ttl_ms - simba__lease_margin_ms(&span);

    if (end_us < t->store_us) {
        return t->store_from_ms;
    }
    return until_ms > t->store_ms ? until_ms : t->store_ms;
}

void simba__across_note(struct simba__history *history,
                        const struct simba__track *track,
                        const struct simba__tenure *t)
{
    struct simba__across_entry entry =
        entry_of(track, SIMBA__ACROSS_TENURE, t->token);

    if (t->token == 0) {
        return; /* a tombstone */
    }
    entry.token = t->token;
    entry.where = t->where;
    entry.slots = t->slots;
    entry.slot = t->slot;
    entry.from_ms = t->store_from_ms;
    entry.until_ms = t->store_from_ms == 0 ? 0 : until_of(t);
    set_id(&entry, t->id);
    simba__across_add(&history->across, &entry);
}

void simba__across_note_beat(const struct simba__step *step)
{
    struct simba__across_entry entry = entry_of(step->track, SIMBA__ACROSS_BEAT,
                                                (uint64_t)step->deed->beat_ms);

    entry.token = step->deed->token;
    entry.where = step->deed->where;
    set_id(&entry, step->deed->id);
    simba__across_add(&step->history->across, &entry);
}

void simba__across_note_forced(const struct simba__step *step, uint64_t token)
{
    struct simba__across_entry entry =
        entry_of(step->track, SIMBA__ACROSS_FORCED, token);

    simba__across_add(&step->history->across, &entry);
}

/* --- comparing ----------------------------------------------------------- */

struct sweep {
    struct simba__history *history;
    struct simba__across_entry last; /* its mutex is NULL: there is none yet */
    bool is_told;                    /* something of this number */
    struct simba__across_entry compared[COMPARED_MOST];
    size_t compared_count;
    uint64_t forced; /* the token last ended by force */
};

/* Each tenure once: it may be seen twice, by its user and in a trace. */
static void tell(struct sweep *sweep,
                 enum simba__finding_kind kind,
                 const struct simba__across_entry *entry,
                 const struct simba__across_entry *other)
{
    struct simba__deed deed = {.where = entry->where, .token = entry->token};
    struct simba__tenure tenure = {.where = other->where,
                                   .token = other->token};
    struct simba__step step = {sweep->history, NULL, &deed};

    if (sweep->is_told) {
        return;
    }
    sweep->is_told = true;
    memcpy(deed.mutex, entry->mutex->link.key, strlen(entry->mutex->link.key));
    memcpy(deed.id, entry->id, entry->id_length);
    memcpy(tenure.id, other->id, other->id_length);
    simba__history_tell(&step, kind, &tenure);
}

/* Within a boot its own clock has told already. What does not go with many is
 * told once. */
static void check_times(struct sweep *sweep,
                        const struct simba__across_entry *entry)
{
    for (size_t i = 0; i < sweep->compared_count; i++) {
        struct simba__across_entry *other = &sweep->compared[i];

        assert(other->token <= entry->token);
        if (other->boot == entry->boot || other->token == entry->token ||
            SIMBA__MAY_OVERLAP(other, entry) ||
            entry->from_ms >= other->until_ms) {
            continue;
        }
        if (entry->from_ms < other->from_ms) {
            tell(sweep, SIMBA__TOKEN_BACK, other, entry);
        } else {
            tell(sweep, SIMBA__OVERLAP, entry, other);
        }
        *other = sweep->compared[--sweep->compared_count];
        return;
    }
}

/* In the place of the one that was relied on least long. */
static void keep(struct sweep *sweep, const struct simba__across_entry *entry)
{
    struct simba__across_entry *place = &sweep->compared[0];

    if (sweep->compared_count < COMPARED_MOST) {
        sweep->compared[sweep->compared_count++] = *entry;
        return;
    }
    for (size_t i = 1; i < COMPARED_MOST; i++) {
        if (sweep->compared[i].until_ms < place->until_ms) {
            place = &sweep->compared[i];
        }
    }
    *place = *entry;
}

static void take_tenure(struct sweep *sweep,
                        const struct simba__across_entry *entry)
{
    bool is_twice = sweep->is_told;

    if (entry->from_ms == 0 || entry->mutex->is_stepped) {
        sweep->history->untimed_count++;
        return;
    }
    check_times(sweep, entry);
    /* What is freed by force may overlap, while its owner believes. */
    if (entry->number != sweep->forced && !is_twice) {
        keep(sweep, entry);
    }
}

static void take(void *user, const struct simba__across_entry *entry)
{
    struct sweep *sweep = user;
    const struct simba__across_entry *last = &sweep->last;
    bool is_beat = entry->kind == SIMBA__ACROSS_BEAT;
    bool is_again = last->mutex == entry->mutex && last->kind == entry->kind &&
                    last->number == entry->number;

    if (last->mutex != entry->mutex) {
        sweep->compared_count = 0;
        sweep->forced = 0;
    }
    sweep->is_told &= is_again;
    if (is_again && last->boot != entry->boot) {
        tell(sweep, is_beat ? SIMBA__BEAT_TWICE : SIMBA__TOKEN_TWICE, entry,
             last);
    }
    if (entry->kind == SIMBA__ACROSS_FORCED) {
        sweep->forced = entry->number;
    } else if (!is_beat) {
        take_tenure(sweep, entry);
    }
    sweep->last = *entry;
}

bool simba__history_finish(struct simba__history *history)
{
    struct simba__hash_link *link = NULL;
    struct sweep sweep = {.history = history};

    while ((link = simba__hash_next(&history->tracks, link)) != NULL) {
        const struct simba__track *track = (const struct simba__track *)link;

        for (size_t i = 0; i < track->tenure_count; i++) {
            if (!simba__across_reserve(&history->across, 1)) {
                return false;
            }
            simba__across_note(history, track, &track->tenures[i]);
        }
    }
    return simba__across_each(&history->across, take, &sweep);
}
