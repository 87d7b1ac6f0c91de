/* A picture of event logs: who owned what when, who waited, renewals, faults
 * and findings. It is told the same deeds as the history checker, in the same
 * order, and keeps all of them: about 100 bytes for each tenure.
 *
 * A contender has a lane while it is heard of; one that comes later takes over
 * the lane of one that has gone. */
#ifndef SIMBA_VERIFY_TIMELINE_H
#define SIMBA_VERIFY_TIMELINE_H

#include "verify/history.h"

#include "util/hash.h"

#include <stdio.h>

/* Times are those of merge_us: one axis for all boots. */
struct simba__picture_span {
    int64_t from_us, until_us;
    int64_t alive_us; /* not heard of after that, though it has no end */
    uint64_t token;   /* 0: it waits */
    size_t who;
};

enum simba__picture_mark_kind {
    SIMBA__MARK_RENEWED,
    SIMBA__MARK_DOUBT, /* a request of unknown outcome */
    SIMBA__MARK_FORCED,
    SIMBA__MARK_FINDING
};

struct simba__picture_mark {
    int64_t at_us;
    size_t who;
    enum simba__picture_mark_kind kind;
};

/* A contender of one mutex. */
struct simba__picture_contender {
    struct simba__hash_link link; /* by its id */
    size_t lane;
    int64_t first_us, last_us; /* what there is to be seen of it */
    bool is_waiting;           /* since wait_us */
    int64_t wait_us;
    int64_t sent_us, use_us; /* its last acquire or renew */
    size_t tenure;           /* its open span, and one; 0: none */
};

struct simba__picture_mutex {
    struct simba__hash_link link; /* by its name */
    struct simba__hash ids;
    struct simba__picture_contender **contenders;
    size_t contender_count, contender_room;
    struct simba__picture_span *spans;
    size_t span_count, span_room;
    struct simba__picture_mark *marks;
    size_t mark_count, mark_room;
    size_t lane_count;
};

struct simba__picture_note { /* a fault, or a finding */
    int64_t from_us, until_us;
    struct simba__picture_mutex *mutex; /* NULL: a fault */
    char *text;
};

struct simba__timeline {
    struct simba__hash names;
    struct simba__picture_mutex **mutexes;
    size_t mutex_count, mutex_room;
    struct simba__picture_note *notes;
    size_t note_count, note_room;
    bool has_any; /* deeds, from first_us to last_us */
    int64_t first_us, last_us;
    bool is_failed; /* no memory: it is not written */
};

void simba__timeline_add(struct simba__timeline *timeline,
                         const struct simba__deed *deed);

/** The text for people; the finding is marked where its deed is, or at the
 * tenure of its token. */
void simba__timeline_found(struct simba__timeline *timeline,
                           const struct simba__history_finding *finding,
                           const char *text);

/** All was added: give everybody a lane. False: no memory, now or before. */
bool simba__timeline_finish(struct simba__timeline *timeline);

void simba__timeline_write_html(const struct simba__timeline *timeline,
                                FILE *file);
void simba__timeline_write_svg(const struct simba__timeline *timeline,
                               FILE *file);

void simba__timeline_fini(struct simba__timeline *timeline);

#endif
