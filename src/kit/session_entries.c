/* The mutexes and entries of a session store, and attempts that are over. */
#define _GNU_SOURCE
#include "kit/session_entries.h"

#include "core/mutex_model.h"
#include "util/container.h"
#include "util/hash.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_MS = 5000 }; /* of a step that nobody asked for */

/* --- mutexes ------------------------------------------------------------- */

struct simba_session_table {
    struct simba__hash by_name, by_attempt;
};

/* A mutex is an author's struct of any size; its link stands before it. */
struct linked_mutex {
    struct simba__hash_link by_name; /* first */
    _Alignas(max_align_t) simba_session_mutex mutex;
};

static simba_session_mutex *of_link(const struct simba__hash_link *link)
{
    return link == NULL ? NULL : &((struct linked_mutex *)link)->mutex;
}

static struct simba__hash_link *to_link(const simba_session_mutex *mutex)
{
    return &container_of(mutex, struct linked_mutex, mutex)->by_name;
}

const char *simba_session_mutex_name(const simba_session_mutex *mutex)
{
    return to_link(mutex)->key;
}

simba_session_mutex *simba_session_mutex_get(simba_session_store *self,
                                             const char *name,
                                             bool is_wanted)
{
    size_t size = offsetof(struct linked_mutex, mutex) + self->ops->mutex_size;
    struct simba__hash_link *link;

    assert(self->ops->mutex_size >= sizeof(simba_session_mutex));
    if (self->mutexes == NULL) {
        self->mutexes = calloc(1, sizeof *self->mutexes);
        if (self->mutexes == NULL) {
            return NULL;
        }
        self->mutexes->by_attempt.key_size = sizeof(simba_attempt);
    }
    link = simba__hash_find(&self->mutexes->by_name, name);
    if (link == NULL && is_wanted) {
        link = simba__hash_new(&self->mutexes->by_name, size, name);
        if (link != NULL) {
            of_link(link)->store = self;
        }
    }
    return of_link(link);
}

simba_session_mutex *simba_session_mutex_next(const simba_session_store *self,
                                              const simba_session_mutex *mutex)
{
    return self->mutexes == NULL ? NULL
                                 : of_link(simba__hash_next(
                                       &self->mutexes->by_name,
                                       mutex == NULL ? NULL : to_link(mutex)));
}

void simba_session_mutex_tidy(simba_session_store *self,
                              simba_session_mutex *mutex)
{
    if (mutex->entries == NULL && !mutex->is_observed && mutex->holds == 0) {
        struct simba__hash_link *link = to_link(mutex);

        simba__session_tell(&mutex->owner, NULL);
        free(mutex->more_numbers);
        simba__hash_remove(&self->mutexes->by_name, link);
        free(link);
    }
}

void simba_session_subscription(simba_backend *base,
                                const char *name,
                                enum simba_subscription subscription)
{
    simba_session_store *self = (simba_session_store *)base;
    simba_session_mutex *mutex = simba_session_mutex_get(self, name, true);
    bool was_observed = mutex != NULL && mutex->is_observed;

    if (mutex != NULL) {
        mutex->is_observed = subscription == SIMBA_SUBSCRIBE_OBSERVE;
        if (mutex->is_observed != was_observed && self->ops->observe != NULL) {
            self->ops->observe(mutex);
        }
        simba_session_mutex_tidy(self, mutex);
    }
}

/* --- where they stand ---------------------------------------------------- */

/* By rank; so the first of those who are sought is found from where it was
 * found last, and nobody has to go through thousands of others. */
static const uint64_t no_rank = UINT64_MAX;

static void link_behind(simba_entry *entry, simba_entry *before)
{
    simba_session_mutex *mutex = entry->mutex;

    entry->previous = before;
    entry->next = before == NULL ? mutex->entries : before->next;
    *(before == NULL ? &mutex->entries : &before->next) = entry;
    *(entry->next == NULL ? &mutex->last : &entry->next->previous) = entry;
    if (before == mutex->placed && entry->rank != no_rank) {
        mutex->placed = entry;
    }
}

static void take_out(simba_entry *entry)
{
    simba_session_mutex *mutex = entry->mutex;

    for (int i = 0; i < SIMBA__ENTRIES_SOUGHT; i++) {
        if (mutex->from[i] == entry) {
            mutex->from[i] = entry->next;
        }
    }
    if (mutex->placed == entry) {
        mutex->placed = entry->previous;
    }
    *(entry->previous == NULL ? &mutex->entries : &entry->previous->next) =
        entry->next;
    *(entry->next == NULL ? &mutex->last : &entry->next->previous) =
        entry->previous;
}

/* It may be one of those who are sought. */
static void seek(simba_entry *entry, enum simba__sought sought)
{
    simba_session_mutex *mutex = entry->mutex;
    simba_entry **from = &mutex->from[sought];

    if (*from == NULL || entry->rank < (*from)->rank) {
        *from = entry;
    }
    if (sought == SIMBA__ENTRY_UNWATCHED && entry->rank > mutex->unwatched_to) {
        mutex->unwatched_to = entry->rank;
    }
}

/* It comes for a key, behind all others. */
static void come(simba_entry *entry)
{
    entry->rank = no_rank;
    entry->is_passed = false;
    link_behind(entry, entry->mutex->last);
    seek(entry, SIMBA__ENTRY_COMING);
}

/* Most come to stand behind all who have a position. An owner may have none any
 * more. */
void simba__session_place(simba_entry *entry)
{
    simba_entry *before;

    if (entry->rank != entry->position &&
        (entry->rank == no_rank || entry->position != 0)) {
        take_out(entry);
        entry->rank = entry->position;
        before = entry->mutex->placed;
        while (before != NULL && before->rank > entry->rank) {
            before = before->previous;
        }
        link_behind(entry, before);
    }
    seek(entry, SIMBA__ENTRY_QUEUED);
    if (entry->is_unwatched) {
        seek(entry, SIMBA__ENTRY_UNWATCHED);
    }
}

void simba__session_displace(simba_session_mutex *mutex)
{
    for (simba_entry *e = mutex->entries; e != NULL; e = e->next) {
        e->rank = no_rank;
        e->is_passed = false;
    }
    mutex->placed = NULL;
    mutex->unwatched_to = 0;
    mutex->from[SIMBA__ENTRY_COMING] = mutex->entries;
    mutex->from[SIMBA__ENTRY_QUEUED] = NULL;
    mutex->from[SIMBA__ENTRY_UNWATCHED] = NULL;
}

static bool is_queued(const simba_entry *entry)
{
    return entry->state == SIMBA_KEY_PRESENT && !entry->is_leaving &&
           !entry->was_granted && entry->position != 0;
}

static bool is_sought(const simba_entry *entry, enum simba__sought sought)
{
    return sought == SIMBA__ENTRY_COMING ? simba__session_is_coming(entry)
           : sought == SIMBA__ENTRY_QUEUED
               ? is_queued(entry)
               : entry->is_unwatched && entry->state == SIMBA_KEY_PRESENT;
}

/* Mostly one is unwatched, and no other is sought behind it. */
simba_entry *simba__session_first(simba_session_mutex *mutex,
                                  enum simba__sought sought)
{
    simba_entry *e = mutex->from[sought];

    while (e != NULL && !is_sought(e, sought)) {
        e->is_passed |= sought == SIMBA__ENTRY_COMING;
        e = e->next;
        if (sought == SIMBA__ENTRY_UNWATCHED && e != NULL &&
            e->rank > mutex->unwatched_to) {
            e = NULL;
        }
    }
    if (sought == SIMBA__ENTRY_UNWATCHED && e == NULL) {
        mutex->unwatched_to = 0;
    }
    return mutex->from[sought] = e;
}

/* --- entries ------------------------------------------------------------- */

/* As a mutex; the key is the attempt, byte for byte. */
struct linked_entry {
    struct simba__hash_link by_attempt; /* first */
    _Alignas(max_align_t) simba_entry entry;
};

static struct linked_entry *entry_link(simba_entry *entry)
{
    return container_of(entry, struct linked_entry, entry);
}

simba_entry *simba__session_find(const simba_session_store *self,
                                 const simba_request *request)
{
    struct simba__hash_link *link = NULL;

    if (self->mutexes != NULL) {
        link = simba__hash_find(&self->mutexes->by_attempt,
                                (const char *)&request->attempt);
    }
    while (link != NULL &&
           strcmp(simba_session_mutex_name(
                      ((struct linked_entry *)link)->entry.mutex),
                  request->mutex) != 0) {
        link = simba__hash_find_next(&self->mutexes->by_attempt, link);
    }
    return link == NULL ? NULL : &((struct linked_entry *)link)->entry;
}

/* Most mutexes have one or two entries. NULL: no memory. */
enum { NUMBER_WORDS = SIMBA_SESSION_NUMBERS / 64 };
static uint64_t *numbers_of(simba_session_mutex *mutex, unsigned word)
{
    if (word > 0 && mutex->more_numbers == NULL) {
        mutex->more_numbers = calloc(NUMBER_WORDS - 1, sizeof(uint64_t));
    }
    return word == 0                     ? &mutex->numbers
           : mutex->more_numbers == NULL ? NULL
                                         : &mutex->more_numbers[word - 1];
}

static unsigned take_number(simba_session_mutex *mutex)
{
    for (unsigned i = 0; i < NUMBER_WORDS; i++) {
        uint64_t *word = numbers_of(mutex, i);

        if (word != NULL && *word != UINT64_MAX) {
            unsigned bit = (unsigned)__builtin_ctzll(~*word);

            *word |= UINT64_C(1) << bit;
            return i * 64 + bit + 1;
        }
    }
    return SIMBA_SESSION_NUMBERS + (unsigned)++mutex->beyond;
}

static void drop_number(simba_session_mutex *mutex, unsigned number)
{
    if (number <= SIMBA_SESSION_NUMBERS) {
        *numbers_of(mutex, (number - 1) / 64) &=
            ~(UINT64_C(1) << (number - 1) % 64);
    }
}

/* NULL: no memory. */
simba_entry *simba__session_entry(simba_session_store *self,
                                  const simba_request *request)
{
    simba_session_mutex *mutex =
        simba_session_mutex_get(self, request->mutex, true);
    simba_entry *entry =
        mutex == NULL ? NULL : simba__session_find(self, request);
    size_t size = offsetof(struct linked_entry, entry) + self->ops->entry_size;
    struct linked_entry *linked;

    if (mutex == NULL || entry != NULL) {
        return entry;
    }
    assert(self->ops->entry_size >= sizeof *entry);
    linked = calloc(1, size);
    if (linked != NULL) {
        linked->entry.attempt = request->attempt;
    }
    if (linked == NULL ||
        !simba__hash_add(&self->mutexes->by_attempt, &linked->by_attempt,
                         (const char *)&linked->entry.attempt)) {
        free(linked);
        simba_session_mutex_tidy(self, mutex);
        return NULL;
    }
    entry = &linked->entry;
    entry->store = self;
    entry->mutex = mutex;
    entry->references = 1;
    entry->number = take_number(mutex);
    entry->slots = request->slots > 1 ? request->slots : 0;
    entry->id_hash = simba__fnv32(request->id, strlen(request->id));
    come(entry);
    self->entry_count++;
    return entry;
}

void simba_entry_hold(simba_entry *entry)
{
    entry->references++;
}

void simba_entry_drop(simba_entry *entry)
{
    assert(entry->references > 0);
    if (--entry->references == 0) {
        assert(entry->mutex == NULL);
        free(entry_link(entry));
    }
}

int64_t simba_entry_until_ms(const simba_entry *entry)
{
    const simba_request *request =
        entry->acquire != NULL ? entry->acquire : entry->release;

    return request != NULL ? request->deadline_ms
                           : simba_loop_now_ms() + STEP_MS;
}

void simba__session_cancel(simba_exchange **exchange)
{
    if (*exchange != NULL) {
        simba_exchange_cancel(*exchange);
        *exchange = NULL;
    }
}

/* --- owners --------------------------------------------------------------- */

/* Thousands wait for one owner. Its id is as long as it is, not as it may be.
 */
enum { TOLD_REST = sizeof(simba_owner) - offsetof(simba_owner, is_broken) };
struct simba_told_owner {
    unsigned references;
    char rest[TOLD_REST]; /* as in simba_owner, behind its id */
    char id[];
};

void simba__session_tell(simba_told_owner **whom, simba_told_owner *owner)
{
    simba_told_owner *former = *whom;

    if (owner != NULL) {
        owner->references++;
    }
    *whom = owner;
    if (former != NULL && --former->references == 0) {
        free(former);
    }
}

simba_owner simba_told_owner_read(const simba_told_owner *told)
{
    simba_owner owner = simba_owner_none();

    if (told != NULL) {
        memcpy(owner.id, told->id, strlen(told->id) + 1);
        memcpy(&owner.is_broken, told->rest, sizeof told->rest);
    }
    return owner;
}

void simba_entry_owner(simba_entry *entry, const simba_owner *owner)
{
    size_t length = strlen(owner->id);
    simba_told_owner *told = entry->mutex->owner;

    if (length == 0) {
        simba__session_tell(&entry->owner, NULL);
        return;
    }
    if (told == NULL || strcmp(told->id, owner->id) != 0 ||
        memcmp(told->rest, &owner->is_broken, sizeof told->rest) != 0) {
        told = malloc(offsetof(struct simba_told_owner, id) + length + 1);
        if (told != NULL) { /* else nobody is told */
            told->references = 0;
            memcpy(told->rest, &owner->is_broken, sizeof told->rest);
            memcpy(told->id, owner->id, length + 1);
            simba__session_tell(&entry->mutex->owner, told);
        }
    }
    simba__session_tell(&entry->owner, told);
}

/* --- who comes ----------------------------------------------------------- */

/* Has it asked for a position, and has no key yet? */
bool simba__session_is_coming(const simba_entry *entry)
{
    return entry->acquire != NULL && entry->acquire->join &&
           entry->state != SIMBA_KEY_PRESENT && !entry->is_leaving;
}

/* Can those who come put their keys side by side? The first of them makes what
 * they need: were they all refused for want of it, they would come again in
 * another order. */
bool simba__session_come_together(const simba_session_mutex *mutex)
{
    return mutex->store->ops->is_ordered && mutex->entries != NULL &&
           mutex->entries->state == SIMBA_KEY_PRESENT;
}

void simba__session_come(simba_entry *entry)
{
    if (simba__session_is_coming(entry) &&
        (entry->rank != no_rank || entry->is_passed)) {
        take_out(entry); /* it had a key, or had not come yet */
        come(entry);
    }
}

/* S11: a server may carry out in any order what is sent side by side. So those
 * of one process that come for a mutex put their keys one after the other; or
 * after the one before was sent, which one in doubt is not yet. */
bool simba__session_has_to_let_come(simba_entry *entry)
{
    simba_entry *before;

    if (!simba__session_is_coming(entry)) {
        return false;
    }
    simba__session_come(entry);
    if (simba__session_first(entry->mutex, SIMBA__ENTRY_COMING) == entry) {
        return false;
    }
    before = entry->previous;
    while (before != NULL && !simba__session_is_coming(before)) {
        before = before->previous;
    }
    return !simba__session_come_together(entry->mutex) ||
           (before != NULL && (before->step != SIMBA_STEP_PUT ||
                               before->state != SIMBA_KEY_ABSENT));
}

/* --- who lost one that it watched ---------------------------------------- */

void simba_entry_unwatched(simba_entry *entry)
{
    entry->is_unwatched = true;
    if (entry->rank != no_rank) { /* else once it is placed */
        seek(entry, SIMBA__ENTRY_UNWATCHED);
    }
}

/* --- forgetting, and who is before whom ---------------------------------- */

void simba__session_forget(simba_entry *entry)
{
    simba_session_store *self = entry->store;
    simba_session_mutex *mutex = entry->mutex;

    assert(mutex != NULL && entry->acquire == NULL && entry->release == NULL &&
           entry->renewal == NULL);
    if (self->ops->forget != NULL) {
        self->ops->forget(entry);
    }
    simba__session_cancel(&entry->exchange);
    take_out(entry);
    simba__hash_remove(&self->mutexes->by_attempt,
                       &entry_link(entry)->by_attempt);
    drop_number(mutex, entry->number);
    if (mutex->looker == entry) {
        mutex->looker = NULL;
    }
    entry->mutex = NULL;
    self->entry_count--;
    simba_timer_clear(self->base.loop, &entry->deadline);
    simba__session_tell(&entry->owner, NULL);
    simba_session_mutex_tidy(self, mutex);
    simba_entry_drop(entry);
}

bool simba__session_is_waiting(const simba_entry *entry)
{
    return is_queued(entry) && !entry->is_unwatched;
}

bool simba__session_is_behind_ours(const simba_entry *entry)
{
    const simba_entry *first =
        simba__session_first(entry->mutex, SIMBA__ENTRY_QUEUED);

    return first != NULL && first->position < entry->position;
}

void simba__session_wake_next(simba_session_mutex *mutex)
{
    if (simba__session_first(mutex, SIMBA__ENTRY_UNWATCHED) != NULL) {
        simba_wake(mutex->store->base.loop, simba_session_mutex_name(mutex));
    }
}

/* The function may complete requests, and who hears the reply may come with the
 * next one: so first all entries are taken hold of, then it is called for each.
 * Without memory for that, the deadlines of the requests will do. */
void simba__session_each(simba_session_store *self,
                         simba_session_mutex *mutex,
                         void (*each)(simba_entry *entry))
{
    simba_entry **all =
        calloc((size_t)self->entry_count + 1, sizeof(simba_entry *));
    simba_session_mutex *from =
        mutex == NULL ? simba_session_mutex_next(self, NULL) : mutex;
    int count = 0;

    while (all != NULL && from != NULL) {
        for (simba_entry *e = from->entries; e != NULL; e = e->next) {
            assert(count < self->entry_count);
            simba_entry_hold(e);
            all[count++] = e;
        }
        from = mutex != NULL ? NULL : simba_session_mutex_next(self, from);
    }
    for (int i = 0; i < count; i++) {
        if (all[i]->mutex != NULL) {
            each(all[i]);
        }
        simba_entry_drop(all[i]);
    }
    free(all);
}

/* --- tombstones ---------------------------------------------------------- */

/* Of attempts that this process has undone itself: no other can bring them. */
struct simba_session_tombstone {
    struct simba_session_tombstone *next;
    simba_attempt attempt;
    int64_t until_ms;
};

bool simba__session_is_entombed(simba_session_store *self,
                                simba_attempt attempt)
{
    struct simba_session_tombstone **at = &self->tombstones, *tombstone;
    int64_t now_ms = simba_loop_now_ms();
    bool is_found = false;

    while ((tombstone = *at) != NULL) {
        if (tombstone->until_ms < now_ms) {
            *at = tombstone->next;
            free(tombstone);
            continue;
        }
        is_found |= simba__attempt_equal(tombstone->attempt, attempt);
        at = &tombstone->next;
    }
    return is_found;
}

void simba__session_entomb(simba_session_store *self,
                           const simba_request *request)
{
    struct simba_session_tombstone *tombstone =
        request->kind == SIMBA_RELEASE && request->tombstone_ms > 0
            ? malloc(sizeof *tombstone)
            : NULL;

    if (tombstone != NULL) {
        *tombstone = (struct simba_session_tombstone){
            .next = self->tombstones,
            .attempt = request->attempt,
            .until_ms = simba_loop_now_ms() + request->tombstone_ms};
        self->tombstones = tombstone;
    }
}

/* --- the end ------------------------------------------------------------- */

void simba__session_entries_fini(simba_session_store *self)
{
    struct simba_session_tombstone *tombstone;

    while ((tombstone = self->tombstones) != NULL) {
        self->tombstones = tombstone->next;
        free(tombstone);
    }
    if (self->mutexes != NULL) {
        simba__hash_fini(&self->mutexes->by_name);
        simba__hash_fini(&self->mutexes->by_attempt);
        free(self->mutexes);
        self->mutexes = NULL;
    }
}
