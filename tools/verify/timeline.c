/* What a timeline shows: spans, marks and lanes; see timeline.h. */
#define _GNU_SOURCE
#include "verify/timeline.h"

#include "util/array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- what is kept -------------------------------------------------------- */

/* Was there room for one element more? */
static bool has_room(struct simba__timeline *t, bool is_reserved)
{
    t->is_failed |= !is_reserved;
    return is_reserved;
}

#define HAS_ROOM(t, array, count, room)                                        \
    has_room(t, simba__array_reserve(&(array), &(room), (count) + 1,           \
                                     sizeof *(array)))

static struct simba__picture_mutex *find_mutex(struct simba__timeline *t,
                                               const char *name)
{
    struct simba__picture_mutex *mutex =
        (struct simba__picture_mutex *)simba__hash_find(&t->names, name);

    if (mutex != NULL ||
        !has_room(t,
                  simba__array_reserve(&t->mutexes, &t->mutex_room,
                                       t->mutex_count + 1, sizeof(void *)))) {
        return mutex;
    }
    mutex = simba__hash_new(&t->names, sizeof *mutex, name);
    if (has_room(t, mutex != NULL)) {
        t->mutexes[t->mutex_count++] = mutex;
    }
    return mutex;
}

static size_t find_contender(struct simba__timeline *t,
                             struct simba__picture_mutex *mutex,
                             const char *id,
                             int64_t at_us)
{
    struct simba__picture_contender *c =
        (struct simba__picture_contender *)simba__hash_find(&mutex->ids, id);

    if (c != NULL) {
        return c->lane; /* until it has one: its number */
    }
    if (!has_room(t, simba__array_reserve(
                         &mutex->contenders, &mutex->contender_room,
                         mutex->contender_count + 1, sizeof(void *)))) {
        return SIZE_MAX;
    }
    c = simba__hash_new(&mutex->ids, sizeof *c, id);
    if (!has_room(t, c != NULL)) {
        return SIZE_MAX;
    }
    c->lane = mutex->contender_count++;
    c->first_us = c->last_us = at_us;
    mutex->contenders[c->lane] = c;
    return c->lane;
}

/* --- one deed ------------------------------------------------------------ */

struct scene {
    struct simba__timeline *t;
    struct simba__picture_mutex *mutex;
    struct simba__picture_contender *contender;
    size_t who;
    int64_t at_us;
};

static void add_mark(const struct scene *s, enum simba__picture_mark_kind kind)
{
    struct simba__picture_mutex *m = s->mutex;

    if (HAS_ROOM(s->t, m->marks, m->mark_count, m->mark_room)) {
        m->marks[m->mark_count++] =
            (struct simba__picture_mark){s->at_us, s->who, kind};
    }
}

/* Up to now; it may be made longer. NULL: no memory. */
static struct simba__picture_span *add_span(const struct scene *s,
                                            int64_t from_us)
{
    struct simba__picture_mutex *m = s->mutex;

    if (!HAS_ROOM(s->t, m->spans, m->span_count, m->span_room)) {
        return NULL;
    }
    m->spans[m->span_count] = (struct simba__picture_span){
        .from_us = from_us,
        .until_us = s->at_us,
        .alive_us = s->at_us,
        .who = s->who,
    };
    return &m->spans[m->span_count++];
}

static void end_wait(const struct scene *s)
{
    if (s->contender->is_waiting && s->contender->wait_us < s->at_us) {
        (void)add_span(s, s->contender->wait_us);
    }
    s->contender->is_waiting = false;
}

static void end_tenure(const struct scene *s, int64_t until_us)
{
    struct simba__picture_contender *c = s->contender;

    if (c->tenure > 0) {
        struct simba__picture_span *span = &s->mutex->spans[c->tenure - 1];

        until_us = until_us < span->from_us ? span->from_us : until_us;
        if (until_us < span->until_us) {
            span->until_us = until_us;
        }
        span->alive_us = span->until_us;
    }
    c->tenure = 0;
}

/* Granted or renewed; relied on for use_us from when it asked, or for ever. */
static void own(const struct scene *s, uint64_t token, int64_t until_us)
{
    struct simba__picture_contender *c = s->contender;
    struct simba__picture_span *span =
        c->tenure > 0 ? &s->mutex->spans[c->tenure - 1] : NULL;

    if (span != NULL && span->token != token) {
        end_tenure(s, s->at_us);
        span = NULL;
    }
    if (span == NULL) {
        end_wait(s);
        span = add_span(s, s->at_us);
        if (span == NULL) {
            return;
        }
        c->tenure = s->mutex->span_count;
        span->token = token;
    }
    span->until_us = until_us;
    span->alive_us = s->at_us;
}

static void add_sent(const struct scene *s, const struct simba__deed *deed)
{
    struct simba__picture_contender *c = s->contender;

    switch (deed->request) {
    case SIMBA__DEED_ACQUIRE:
        if (!c->is_waiting && c->tenure == 0) {
            c->is_waiting = true;
            c->wait_us = s->at_us;
        }
        c->sent_us = s->at_us;
        c->use_us = deed->use_us;
        break;
    case SIMBA__DEED_RENEW:
        c->sent_us = s->at_us;
        c->use_us = deed->use_us;
        break;
    case SIMBA__DEED_RELEASE:
        end_tenure(s, s->at_us);
        end_wait(s);
        break;
    case SIMBA__DEED_LEAVE:
        end_wait(s);
        break;
    case SIMBA__DEED_BREAK:
    case SIMBA__DEED_OTHER:
        break;
    }
}

static void add_answered(const struct scene *s, const struct simba__deed *deed)
{
    struct simba__picture_contender *c = s->contender;
    int64_t use_us =
        deed->use_us > 0 && deed->use_us < c->use_us ? deed->use_us : c->use_us;
    bool is_renewal = deed->request == SIMBA__DEED_RENEW;

    if (deed->outcome == SIMBA__DEED_UNKNOWN) {
        add_mark(s, SIMBA__MARK_DOUBT);
    }
    if (deed->outcome != SIMBA__DEED_HEARD ||
        (!is_renewal && deed->request != SIMBA__DEED_ACQUIRE)) {
        return;
    }
    if (deed->mine && !(is_renewal && c->tenure == 0)) {
        own(s, deed->token, c->sent_us + use_us);
        if (is_renewal) {
            add_mark(s, SIMBA__MARK_RENEWED);
        }
    } else if (!deed->mine) {
        end_tenure(s, s->at_us);
        if (!deed->is_queued) {
            end_wait(s);
        }
    }
}

static void add_note(struct simba__timeline *t,
                     struct simba__picture_note note,
                     const char *text)
{
    note.text = strdup(text);
    if (has_room(t, note.text != NULL) &&
        HAS_ROOM(t, t->notes, t->note_count, t->note_room)) {
        t->notes[t->note_count++] = note;
    } else {
        free(note.text);
    }
}

void simba__timeline_add(struct simba__timeline *t,
                         const struct simba__deed *deed)
{
    struct scene s = {.t = t, .at_us = deed->merge_us};
    int64_t until_us = deed->until_us + deed->merge_us - deed->at_us;

    if (!t->has_any) {
        t->has_any = true;
        t->first_us = t->last_us = deed->merge_us;
    }
    t->last_us = deed->merge_us > t->last_us ? deed->merge_us : t->last_us;
    if (deed->kind == SIMBA__DEED_FAULT) {
        add_note(t,
                 (struct simba__picture_note){.from_us = deed->merge_us,
                                              .until_us = until_us},
                 deed->id);
        return;
    }
    if (deed->kind == SIMBA__DEED_ALIVE || deed->mutex[0] == '\0' ||
        deed->id[0] == '\0') {
        return;
    }
    s.mutex = find_mutex(t, deed->mutex);
    if (s.mutex == NULL) {
        return;
    }
    s.who = find_contender(t, s.mutex, deed->id, s.at_us);
    if (s.who == SIZE_MAX) {
        return;
    }
    s.contender = s.mutex->contenders[s.who];
    s.contender->last_us = s.at_us;
    if (s.contender->tenure > 0) {
        s.mutex->spans[s.contender->tenure - 1].alive_us = s.at_us;
    }
    switch (deed->kind) {
    case SIMBA__DEED_SENT:
        add_sent(&s, deed);
        break;
    case SIMBA__DEED_ANSWERED:
        add_answered(&s, deed);
        break;
    case SIMBA__DEED_ACQUIRED:
        if (s.contender->tenure == 0 ||
            s.mutex->spans[s.contender->tenure - 1].token != deed->token) {
            own(&s, deed->token, INT64_MAX);
        }
        break;
    case SIMBA__DEED_ENDED:
        end_tenure(&s, until_us);
        break;
    case SIMBA__DEED_FORCED:
        add_mark(&s, SIMBA__MARK_FORCED);
        break;
    case SIMBA__DEED_STARTED:
    case SIMBA__DEED_OVER:
    case SIMBA__DEED_ALIVE:
    case SIMBA__DEED_FAULT:
        break;
    }
}

/* What is compared across boots tells no time: then it is its tenure's. */
void simba__timeline_found(struct simba__timeline *t,
                           const struct simba__history_finding *finding,
                           const char *text)
{
    const struct simba__deed *deed = finding->deed;
    struct scene s = {.t = t, .at_us = deed->merge_us};

    s.mutex = find_mutex(t, deed->mutex);
    if (s.mutex == NULL) {
        return;
    }
    s.who = find_contender(t, s.mutex, deed->id, t->last_us);
    for (size_t i = 0; i < s.mutex->span_count; i++) {
        if (deed->at_us == 0 && s.mutex->spans[i].token == finding->token) {
            s.at_us = s.mutex->spans[i].from_us;
        }
    }
    if (s.who == SIZE_MAX) {
        return;
    }
    add_note(t,
             (struct simba__picture_note){
                 .from_us = s.at_us, .until_us = s.at_us, .mutex = s.mutex},
             text);
    add_mark(&s, SIMBA__MARK_FINDING);
}

/* --- in the end ---------------------------------------------------------- */

static int compare_spans(const void *left, const void *right)
{
    const struct simba__picture_span *a = left, *b = right;

    return (a->from_us > b->from_us) - (a->from_us < b->from_us);
}

/* Who was killed owns it until its lease is over, or another has it. */
static void close_spans(struct simba__timeline *t,
                        struct simba__picture_mutex *mutex)
{
    int64_t next_us = t->last_us;

    for (size_t i = 0; i < mutex->contender_count; i++) {
        struct simba__picture_contender *c = mutex->contenders[i];
        struct scene s = {t, mutex, c, i, c->last_us};

        end_wait(&s);
    }
    if (mutex->span_count > 0) {
        qsort(mutex->spans, mutex->span_count, sizeof *mutex->spans,
              compare_spans);
    }
    for (size_t i = mutex->span_count; i-- > 0;) {
        struct simba__picture_span *span = &mutex->spans[i];
        struct simba__picture_contender *c = mutex->contenders[span->who];

        if (span->token != 0) {
            if (span->alive_us < span->until_us && span->until_us > next_us) {
                span->until_us =
                    next_us > span->alive_us ? next_us : span->alive_us;
            }
            next_us = span->from_us;
        }
        c->last_us = span->until_us > c->last_us ? span->until_us : c->last_us;
        t->last_us = span->until_us > t->last_us ? span->until_us : t->last_us;
    }
}

/* The lane that has been free for longest: a heap of when each becomes free,
 * the earliest on top. */
struct lanes {
    struct lane {
        int64_t free_us;
        size_t number;
    } * heap;
    size_t count, room;
};

static void sift_down(struct lanes *lanes)
{
    struct lane moved = lanes->heap[0];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < lanes->count) {
        child += child + 1 < lanes->count &&
                 lanes->heap[child + 1].free_us < lanes->heap[child].free_us;
        if (lanes->heap[child].free_us >= moved.free_us) {
            break;
        }
        lanes->heap[at] = lanes->heap[child];
        at = child;
    }
    lanes->heap[at] = moved;
}

/* Contenders come in the order in which they were heard of first, so a new lane
 * has the latest end but for those who are still there. */
static void sift_up(struct lanes *lanes)
{
    size_t at = lanes->count - 1;
    struct lane moved = lanes->heap[at];

    for (; at > 0 && lanes->heap[(at - 1) / 2].free_us > moved.free_us;
         at = (at - 1) / 2) {
        lanes->heap[at] = lanes->heap[(at - 1) / 2];
    }
    lanes->heap[at] = moved;
}

static void give_lanes(struct simba__timeline *t,
                       struct simba__picture_mutex *mutex)
{
    struct lanes lanes = {.heap = NULL};

    for (size_t i = 0; i < mutex->contender_count; i++) {
        struct simba__picture_contender *c = mutex->contenders[i];

        if (lanes.count > 0 && lanes.heap[0].free_us < c->first_us) {
            c->lane = lanes.heap[0].number;
            lanes.heap[0].free_us = c->last_us;
            sift_down(&lanes);
        } else {
            if (!HAS_ROOM(t, lanes.heap, lanes.count, lanes.room)) {
                break;
            }
            c->lane = mutex->lane_count++;
            lanes.heap[lanes.count++] = (struct lane){c->last_us, c->lane};
            sift_up(&lanes);
        }
    }
    free(lanes.heap);
}

bool simba__timeline_finish(struct simba__timeline *t)
{
    for (size_t i = 0; i < t->mutex_count; i++) {
        close_spans(t, t->mutexes[i]);
        give_lanes(t, t->mutexes[i]);
    }
    if (t->last_us == t->first_us) {
        t->last_us++;
    }
    return !t->is_failed;
}

void simba__timeline_fini(struct simba__timeline *t)
{
    for (size_t i = 0; i < t->mutex_count; i++) {
        simba__hash_free(&t->mutexes[i]->ids);
        free(t->mutexes[i]->contenders);
        free(t->mutexes[i]->spans);
        free(t->mutexes[i]->marks);
    }
    for (size_t i = 0; i < t->note_count; i++) {
        free(t->notes[i].text);
    }
    free(t->notes);
    free(t->mutexes);
    simba__hash_free(&t->names);
}
