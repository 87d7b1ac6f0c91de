/* What the kernel knows and the row does not: who is dead, and which times
 * belong to another boot. */
#include "backends/sqlite/instance.h"

#include <string.h>

static void vacate(struct simba__mutex_record *row)
{
    memset(&row->owner, 0, sizeof row->owner);
    memset(&row->attempt, 0, sizeof row->attempt);
}

/* --- another machine's tenures (fs=trust) -------------------------------- */

static struct simba__sqlite_sighting *find_sighting(struct simba__sqlite *self,
                                                    const char *mutex)
{
    for (size_t i = 0; i < self->sighting_count; i++) {
        if (strcmp(self->sightings[i].mutex, mutex) == 0) {
            return &self->sightings[i];
        }
    }
    return NULL;
}

static void forget_sighting(struct simba__sqlite *self, const char *mutex)
{
    struct simba__sqlite_sighting *sighting = find_sighting(self, mutex);

    if (sighting != NULL) {
        *sighting = self->sightings[--self->sighting_count];
    }
}

/* The sighting of this tenure, unchanged since; a new one when it is not. */
static struct simba__sqlite_sighting *sight(struct simba__sqlite *self,
                                            const char *mutex,
                                            int64_t now_ms)
{
    const struct simba__sqlite_record *record = &self->record;
    struct simba__sqlite_sighting *sighting = find_sighting(self, mutex);

    if (sighting != NULL && sighting->token == record->token &&
        sighting->version == record->version) {
        return sighting;
    }
    if (sighting == NULL) {
        if (!simba__sqlite_grow((void **)&self->sightings, self->sighting_count,
                                &self->sighting_room,
                                sizeof *self->sightings)) {
            return NULL;
        }
        sighting = &self->sightings[self->sighting_count++];
        memcpy(sighting->mutex, mutex, strlen(mutex) + 1);
    }
    sighting->token = record->token;
    sighting->version = record->version;
    sighting->since_ms = now_ms;
    return sighting;
}

/* We do not know the clock by which it counts. But a tenure that we have seen
 * unchanged for its whole lease, and two clocks' worth of drift, is over. Until
 * then it is held, by our clock, for the rest of that time. */
static int wait_and_see(struct simba__sqlite *self,
                        const char *mutex,
                        int64_t now_ms)
{
    struct simba__sqlite_record *record = &self->record;
    struct simba__sqlite_sighting *sighting = sight(self, mutex, now_ms);
    int64_t until_ms;

    if (sighting == NULL) {
        return SIMBA_ENOMEM;
    }
    until_ms = sighting->since_ms + record->lease_ms +
               record->lease_ms * 21 / 1000 + 10;
    if (now_ms > until_ms) {
        forget_sighting(self, mutex);
        vacate(&record->row);
        return SIMBA_OK;
    }
    /* In both, so that nothing seems to have changed. */
    record->owner.transition_at_ms = record->row.owner.transition_at_ms =
        until_ms;
    record->owner.ttl_at_ms = record->row.owner.ttl_at_ms = until_ms;
    record->owner.acquired_at_ms = record->row.owner.acquired_at_ms =
        sighting->since_ms;
    return SIMBA_OK;
}

/* --- this machine's ------------------------------------------------------ */

static int judge_owner(struct simba__sqlite *self,
                       const char *mutex,
                       int64_t now_ms)
{
    struct simba__sqlite_record *record = &self->record;
    const struct simba__sqlite_peer *peer = &record->peers[SIMBA__SQLITE_OWNER];
    bool is_other_boot =
        peer->boot[0] != '\0' && strcmp(peer->boot, self->clock.boot) != 0;
    enum simba__sqlite_life life;

    if (is_other_boot && self->settings.is_trusted) {
        return wait_and_see(self, mutex, now_ms);
    }
    forget_sighting(self, mutex);
    if (!is_other_boot && !simba__mutex_is_held(&record->row, now_ms)) {
        return SIMBA_OK;
    }
    life = simba__sqlite_presence_look(&self->presence, peer->process);
    if (is_other_boot && life != SIMBA__SQLITE_ALIVE) {
        vacate(&record->row); /* a reboot frees every mutex */
    }
    if (life == SIMBA__SQLITE_DEAD) {
        self->is_burial_due = true;
        if (record->is_handover) {
            vacate(&record->row);
        }
    }
    return SIMBA_OK;
}

/* Who was called and died will not come. */
static void judge_called(struct simba__sqlite *self)
{
    struct simba__mutex_record *row = &self->record.row;
    const char *process;

    if (!row->is_offered) {
        return;
    }
    process = self->record.peers[row->offered.connection].process;
    if (simba__sqlite_presence_look(&self->presence, process) ==
        SIMBA__SQLITE_DEAD) {
        row->is_offered = false;
        self->is_burial_due = true;
    }
}

int simba__sqlite_judge(struct simba__sqlite *self,
                        const char *mutex,
                        int64_t now_ms)
{
    judge_called(self);
    if (self->record.row.owner.id[0] == '\0') {
        return SIMBA_OK;
    }
    return judge_owner(self, mutex, now_ms);
}
