/* The mutexes and entries of a session store, and attempts that are over. */
#define _GNU_SOURCE
#include "kit/session_entries.h"

#include "core/mutex_model.h"
#include "util/container.h"
#include "util/hash.h"

#include <assert.h>
#include <inttypes.h>
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
    }
    if (self->mutexes == NULL) {
        return NULL;
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

/* --- entries ------------------------------------------------------------- */

/* As a mutex, with the attempt in figures. */
enum { ATTEMPT_TEXT = 33 };
struct linked_entry {
    struct simba__hash_link by_attempt; /* first */
    char key[ATTEMPT_TEXT];
    _Alignas(max_align_t) simba_entry entry;
};

static void write_attempt(char key[ATTEMPT_TEXT], simba_attempt attempt)
{
    snprintf(key, ATTEMPT_TEXT, "%016" PRIx64 "%016" PRIx64, attempt.high,
             attempt.low);
}

static struct linked_entry *entry_link(simba_entry *entry)
{
    return container_of(entry, struct linked_entry, entry);
}

simba_entry *simba__session_find(const simba_session_store *self,
                                 const simba_request *request)
{
    struct simba__hash_link *link = NULL;
    char key[ATTEMPT_TEXT];

    write_attempt(key, request->attempt);
    if (self->mutexes != NULL) {
        link = simba__hash_find(&self->mutexes->by_attempt, key);
    }
    while (link != NULL &&
           strcmp(simba_session_mutex_name(
                      ((struct linked_entry *)link)->entry.mutex),
                  request->mutex) != 0) {
        link = simba__hash_find_next(link);
    }
    return link == NULL ? NULL : &((struct linked_entry *)link)->entry;
}

static unsigned take_number(simba_session_mutex *mutex)
{
    for (unsigned i = 0; i < SIMBA_SESSION_NUMBERS / 64; i++) {
        if (mutex->numbers[i] != UINT64_MAX) {
            unsigned bit = (unsigned)__builtin_ctzll(~mutex->numbers[i]);

            mutex->numbers[i] |= UINT64_C(1) << bit;
            return i * 64 + bit + 1;
        }
    }
    return SIMBA_SESSION_NUMBERS + ++mutex->beyond;
}

static void drop_number(simba_session_mutex *mutex, unsigned number)
{
    if (number <= SIMBA_SESSION_NUMBERS) {
        mutex->numbers[(number - 1) / 64] &=
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
    struct linked_entry *linked;

    if (mutex == NULL || entry != NULL) {
        return entry;
    }
    assert(self->ops->entry_size >= sizeof *entry);
    linked =
        calloc(1, offsetof(struct linked_entry, entry) + self->ops->entry_size);
    if (linked != NULL) {
        write_attempt(linked->key, request->attempt);
    }
    if (linked == NULL || !simba__hash_add(&self->mutexes->by_attempt,
                                           &linked->by_attempt, linked->key)) {
        free(linked);
        simba_session_mutex_tidy(self, mutex);
        return NULL;
    }
    entry = &linked->entry;
    entry->store = self;
    entry->mutex = mutex;
    entry->references = 1;
    entry->number = take_number(mutex);
    entry->attempt = request->attempt;
    entry->slots = request->slots > 1 ? request->slots : 0;
    snprintf(entry->id, sizeof entry->id, "%s", request->id);
    entry->arrival = ++mutex->arrivals;
    entry->previous = mutex->last;
    *(mutex->last == NULL ? &mutex->entries : &mutex->last->next) = entry;
    mutex->last = entry;
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

int64_t simba__session_until_ms(const simba_entry *entry)
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

/* --- lines --------------------------------------------------------------- */

static void leave_line(simba_entry *entry, enum simba_line line)
{
    simba_line_link *link = &entry->lines[line];
    simba_session_mutex *mutex = entry->mutex;

    if (link->key != 0) {
        *(link->previous == NULL ? &mutex->lines[line].first
                                 : &link->previous->lines[line].next) =
            link->next;
        *(link->next == NULL ? &mutex->lines[line].last
                             : &link->next->lines[line].previous) =
            link->previous;
        *link = (simba_line_link){0};
    }
}

/* Most come last. */
void simba__session_line_up(simba_entry *entry,
                            enum simba_line line,
                            uint64_t key)
{
    simba_session_mutex *mutex = entry->mutex;
    simba_line_link *link = &entry->lines[line];
    simba_entry *before;

    assert(key != 0);
    if (link->key == key) {
        return;
    }
    leave_line(entry, line);
    before = mutex->lines[line].last;
    while (before != NULL && before->lines[line].key > key) {
        before = before->lines[line].previous;
    }
    link->key = key;
    link->previous = before;
    link->next =
        before == NULL ? mutex->lines[line].first : before->lines[line].next;
    *(before == NULL ? &mutex->lines[line].first : &before->lines[line].next) =
        entry;
    *(link->next == NULL ? &mutex->lines[line].last
                         : &link->next->lines[line].previous) = entry;
}

simba_entry *simba__session_first(simba_session_mutex *mutex,
                                  enum simba_line line,
                                  bool (*is)(const simba_entry *entry))
{
    simba_entry *first;

    while ((first = mutex->lines[line].first) != NULL && !is(first)) {
        leave_line(first, line);
    }
    return first;
}

void simba_entry_unwatched(simba_entry *entry)
{
    entry->is_unwatched = true;
    simba__session_line_up(entry, SIMBA_LINE_UNWATCHED, entry->arrival);
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
    for (int line = 0; line < SIMBA_LINES; line++) {
        leave_line(entry, (enum simba_line)line);
    }
    *(entry->previous == NULL ? &mutex->entries : &entry->previous->next) =
        entry->next;
    *(entry->next == NULL ? &mutex->last : &entry->next->previous) =
        entry->previous;
    simba__hash_remove(&self->mutexes->by_attempt,
                       &entry_link(entry)->by_attempt);
    drop_number(mutex, entry->number);
    if (mutex->looker == entry) {
        mutex->looker = NULL;
    }
    entry->mutex = NULL;
    self->entry_count--;
    simba_timer_clear(self->base.loop, &entry->deadline);
    simba_session_mutex_tidy(self, mutex);
    simba_entry_drop(entry);
}

static bool is_queued(const simba_entry *entry)
{
    return entry->state == SIMBA_KEY_PRESENT && !entry->is_leaving &&
           !entry->was_granted && entry->position != 0;
}

bool simba__session_is_waiting(const simba_entry *entry)
{
    return is_queued(entry) && !entry->is_unwatched;
}

/* In its line by another position, it is put there anew when that is known. */
static bool is_lined_up(const simba_entry *entry)
{
    return is_queued(entry) &&
           entry->lines[SIMBA_LINE_QUEUED].key == entry->position;
}

bool simba__session_is_behind_ours(const simba_entry *entry)
{
    const simba_entry *first =
        simba__session_first(entry->mutex, SIMBA_LINE_QUEUED, is_lined_up);

    return first != NULL && first->position < entry->position;
}

static bool is_unwatched(const simba_entry *entry)
{
    return entry->is_unwatched;
}

void simba__session_wake_next(simba_session_mutex *mutex)
{
    const simba_entry *e =
        simba__session_first(mutex, SIMBA_LINE_UNWATCHED, is_unwatched);

    while (e != NULL && !(e->is_unwatched && e->state == SIMBA_KEY_PRESENT)) {
        e = e->lines[SIMBA_LINE_UNWATCHED].next;
    }
    if (e != NULL) {
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
