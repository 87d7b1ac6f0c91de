#define _GNU_SOURCE
#include "verify/log.h"

#include "core/saturate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How many lines may be in disorder, and how long one may be. */
enum { AHEAD = 4096, LINE_MOST = 64 * 1024 };

struct simba__log_slot {
    uint64_t order; /* of reading, for deeds of the same time */
    struct simba__boot *boot;
    struct simba__deed deed;
};

/* Of what happened in the same instant the ends come first: what is sent may
 * be answered at once, and what is released had at once. */
static int rank(const struct simba__deed *deed)
{
    return deed->kind == SIMBA__DEED_ANSWERED ||
           deed->kind == SIMBA__DEED_ACQUIRED ||
           deed->kind == SIMBA__DEED_STARTED;
}

bool simba__deed_is_before(const struct simba__deed *a,
                           const struct simba__deed *b)
{
    return a->merge_us != b->merge_us ? a->merge_us < b->merge_us
                                      : rank(a) < rank(b);
}

static bool is_before(const struct simba__log_slot *a,
                      const struct simba__log_slot *b)
{
    if (simba__deed_is_before(&a->deed, &b->deed)) {
        return true;
    }
    return !simba__deed_is_before(&b->deed, &a->deed) && a->order < b->order;
}

/* --- boots --------------------------------------------------------------- */

/* A boot comes where the time of day says, but not before what stands before it
 * in its log: a machine may not know the time yet. NULL: no memory. */
static struct simba__boot *find_boot(struct simba__trace_log *log,
                                     const struct simba__deed *deed)
{
    struct simba__boot *boot = log->boots->first;
    int64_t merge_us =
        deed->unix_us > log->newest_us ? deed->unix_us : log->newest_us;

    while (boot != NULL && strcmp(boot->id, deed->scope) != 0) {
        boot = boot->next;
    }
    if (boot == NULL) {
        boot = calloc(1, sizeof *boot);
        if (boot == NULL) {
            errno = ENOMEM;
            return NULL;
        }
        memcpy(boot->id, deed->scope, sizeof boot->id);
        boot->ahead_us = merge_us - deed->at_us;
        boot->next = log->boots->first;
        log->boots->first = boot;
        log->boots->count++;
    }
    return boot;
}

void simba__boots_fini(struct simba__boots *boots)
{
    for (struct simba__boot *b = boots->first, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
}

/* --- the heap ------------------------------------------------------------ */

static void swap(struct simba__trace_log *log, size_t i, size_t k)
{
    struct simba__log_slot *kept = log->heap[i];

    log->heap[i] = log->heap[k];
    log->heap[k] = kept;
}

static void rise(struct simba__trace_log *log, size_t i)
{
    while (i > 0 && is_before(log->heap[i], log->heap[(i - 1) / 2])) {
        swap(log, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static void sink(struct simba__trace_log *log, size_t i)
{
    for (;;) {
        size_t first = i;

        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < log->count; k++) {
            if (is_before(log->heap[k], log->heap[first])) {
                first = k;
            }
        }
        if (first == i) {
            return;
        }
        swap(log, i, first);
        i = first;
    }
}

/* The slot behind the last one in use. */
static struct simba__log_slot *spare_slot(struct simba__trace_log *log)
{
    if (log->heap[log->count] == NULL) {
        log->heap[log->count] = calloc(1, sizeof(struct simba__log_slot));
    }
    return log->heap[log->count];
}

/* --- reading ------------------------------------------------------------- */

bool simba__log_open(struct simba__trace_log *log, const char *name, int index)
{
    log->name = name;
    log->index = index;
    log->heap = calloc(AHEAD, sizeof(struct simba__log_slot *));
    log->buffer = malloc(LINE_MOST + 1);
    if (log->heap == NULL || log->buffer == NULL) {
        errno = ENOMEM;
        return false;
    }
    log->file = strcmp(name, "-") == 0 ? stdin : fopen(name, "re");
    return log->file != NULL;
}

void simba__log_close(struct simba__trace_log *log)
{
    for (size_t i = 0; log->heap != NULL && i < AHEAD; i++) {
        free(log->heap[i]);
    }
    free(log->heap);
    free(log->buffer);
    if (log->file != NULL && log->file != stdin) {
        (void)fclose(log->file);
    }
}

/* What is wrong with the line that was read; NULL: nothing. */
static const char *check_line(const struct simba__trace_log *log,
                              size_t length,
                              struct simba__deed *deed,
                              bool *is_deed)
{
    return length > LINE_MOST ? "longer than 64 KiB"
           : memchr(log->buffer, '\0', length) != NULL
               ? "a NUL in it"
               : simba__log_parse(log->buffer, length, deed, is_deed);
}

static void keep_deed(struct simba__trace_log *log,
                      struct simba__log_slot *slot)
{
    slot->deed.merge_us =
        simba__add_saturating(slot->deed.at_us, slot->boot->ahead_us);
    if (slot->deed.merge_us > log->newest_us) {
        log->newest_us = slot->deed.merge_us;
    }
    slot->deed.where.file = log->index;
    slot->deed.where.line = log->line;
    slot->order = log->line;
    log->count++;
    rise(log, log->count - 1);
}

/* As getline(), but that the end of a long line is dropped: a file that is no
 * log may have no lines at all. */
static size_t get_line(struct simba__trace_log *log)
{
    size_t length = 0;
    int c = 0;

    while (c != '\n' && (c = getc_unlocked(log->file)) != EOF) {
        if (length < LINE_MOST) {
            log->buffer[length] = (char)c;
        }
        length++;
    }
    log->buffer[length < LINE_MOST ? length : LINE_MOST] = '\0';
    return length;
}

/* One line; a last one without its end was cut off, and is no event. */
static bool read_line(struct simba__trace_log *log)
{
    struct simba__log_slot *slot = spare_slot(log);
    const char *problem;
    bool is_deed;
    size_t length;

    if (slot == NULL) {
        errno = ENOMEM;
        return false;
    }
    errno = 0;
    length = get_line(log);
    if (length == 0) {
        log->is_ended = true;
        return errno == 0 || errno == EAGAIN;
    }
    log->line++;
    problem = check_line(log, length, &slot->deed, &is_deed);
    if (problem == NULL && is_deed) {
        slot->boot = find_boot(log, &slot->deed);
        if (slot->boot == NULL) {
            return false;
        }
        /* What comes after it in time has been checked already. */
        if (slot->deed.at_us < slot->boot->taken_us) {
            problem = "too far out of order: sort the log by time";
        }
    }
    if (problem != NULL) {
        log->malformed++;
        log->complain(log, problem);
        return true;
    }
    log->events++;
    if (is_deed) {
        keep_deed(log, slot);
    }
    return true;
}

bool simba__log_peek(struct simba__trace_log *log,
                     const struct simba__deed **deed)
{
    while (!log->is_ended && log->count < AHEAD) {
        if (!read_line(log)) {
            return false;
        }
    }
    *deed = log->count == 0 ? NULL : &log->heap[0]->deed;
    return true;
}

void simba__log_take(struct simba__trace_log *log)
{
    log->heap[0]->boot->taken_us = log->heap[0]->deed.at_us;
    log->count--;
    swap(log, 0, log->count);
    sink(log, 0);
}
