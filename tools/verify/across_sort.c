/* Sorting the tenures and beats of all boots in little memory; see across.h. */
#define _GNU_SOURCE
#include "verify/across.h"

#include "util/array.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { HEAD = offsetof(struct simba__across_entry, id) };

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare(const void *left, const void *right)
{
    const struct simba__across_entry *a = left, *b = right;
    const uint64_t keys[][2] = {
        {a->mutex->index, b->mutex->index},
        {a->kind == SIMBA__ACROSS_BEAT, b->kind == SIMBA__ACROSS_BEAT},
        {a->number, b->number},
        {a->kind, b->kind},
        {(uint64_t)a->where.file, (uint64_t)b->where.file},
        {a->where.line, b->where.line}};
    int order = 0;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && order == 0; i++) {
        order = compare_numbers(keys[i][0], keys[i][1]);
    }
    return order;
}

/* --- files --------------------------------------------------------------- */

/* It has no name, and so is gone with us, come what may. */
static FILE *new_file(void)
{
    const char *directory = secure_getenv("TMPDIR");
    FILE *file;
    int fd = open(directory == NULL ? "/tmp" : directory,
                  O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0) {
        return tmpfile(); /* where a file system knows none without a name */
    }
    file = fdopen(fd, "w+");
    if (file == NULL) {
        (void)close(fd);
    }
    return file;
}

static bool write_entry(FILE *file, const struct simba__across_entry *entry)
{
    return fwrite(entry, HEAD, 1, file) == 1 &&
           fwrite(entry->id, 1, entry->id_length, file) == entry->id_length;
}

/* False with errno, which is 0 at the end. */
static bool read_entry(FILE *file, struct simba__across_entry *entry)
{
    errno = 0;
    return fread(entry, HEAD, 1, file) == 1 &&
           fread(entry->id, 1, entry->id_length, file) == entry->id_length;
}

/* --- merging ------------------------------------------------------------- */

/* A sorted sequence: a file, or with none the batch in memory. */
struct source {
    FILE *file;
    const struct simba__across_entry *batch, *end;
    struct simba__across_entry head;
    bool is_over;
};

static bool advance(struct source *source)
{
    if (source->file != NULL) {
        source->is_over = !read_entry(source->file, &source->head);
        return !source->is_over || errno == 0;
    }
    source->is_over = source->batch == source->end;
    if (!source->is_over) {
        source->head = *source->batch++;
    }
    return true;
}

typedef bool (*take_fn)(void *user, const struct simba__across_entry *entry);

static bool merge(struct source *sources,
                  size_t count,
                  take_fn take,
                  void *user)
{
    for (size_t i = 0; i < count; i++) {
        if (sources[i].file != NULL) {
            rewind(sources[i].file);
        }
        if (!advance(&sources[i])) {
            return false;
        }
    }
    for (;;) {
        struct source *first = NULL;

        for (size_t i = 0; i < count; i++) {
            if (!sources[i].is_over &&
                (first == NULL ||
                 compare(&sources[i].head, &first->head) < 0)) {
                first = &sources[i];
            }
        }
        if (first == NULL) {
            return true;
        }
        if (!take(user, &first->head) || !advance(first)) {
            return false;
        }
    }
}

static bool take_into_file(void *user, const struct simba__across_entry *entry)
{
    return write_entry(user, entry);
}

/* One file of the next level out of these sources. */
static bool add_file(struct simba__across *across,
                     size_t level,
                     struct source *sources,
                     size_t count)
{
    FILE *file = new_file();

    if (file == NULL) {
        return false;
    }
    if (!merge(sources, count, take_into_file, file) || fflush(file) != 0) {
        (void)fclose(file);
        return false;
    }
    assert(across->file_counts[level] < SIMBA__ACROSS_FANIN);
    across->files[level][across->file_counts[level]++] = file;
    return true;
}

static void close_files(struct simba__across *across, size_t level)
{
    while (across->file_counts[level] > 0) {
        (void)fclose(across->files[level][--across->file_counts[level]]);
    }
}

/* Put what is in memory into a file; full levels become one of the next. */
static bool spill(struct simba__across *across)
{
    struct source sources[SIMBA__ACROSS_FANIN];

    qsort(across->batch, across->count, sizeof *across->batch, compare);
    sources[0] = (struct source){.batch = across->batch,
                                 .end = across->batch + across->count};
    if (!add_file(across, 0, sources, 1)) {
        return false;
    }
    across->count = 0;
    for (size_t level = 0; across->file_counts[level] == SIMBA__ACROSS_FANIN &&
                           level + 1 < SIMBA__ACROSS_LEVELS;
         level++) {
        for (size_t i = 0; i < SIMBA__ACROSS_FANIN; i++) {
            sources[i] = (struct source){.file = across->files[level][i]};
        }
        if (!add_file(across, level + 1, sources, SIMBA__ACROSS_FANIN)) {
            return false;
        }
        close_files(across, level);
    }
    return true;
}

/* --- the whole ----------------------------------------------------------- */

bool simba__across_reserve(struct simba__across *across, size_t more)
{
    if (across->count + more > SIMBA__ACROSS_BATCH && !spill(across)) {
        return false;
    }
    if (!simba__array_reserve(&across->batch, &across->room,
                              across->count + more, sizeof *across->batch)) {
        errno = ENOMEM;
        return false;
    }
    return true;
}

void simba__across_add(struct simba__across *across,
                       const struct simba__across_entry *entry)
{
    assert(across->count < across->room);
    across->batch[across->count++] = *entry;
}

struct taker {
    void (*take)(void *user, const struct simba__across_entry *entry);
    void *user;
};

static bool hand_on(void *user, const struct simba__across_entry *entry)
{
    const struct taker *taker = user;

    taker->take(taker->user, entry);
    return true;
}

bool simba__across_each(struct simba__across *across,
                        void (*take)(void *user,
                                     const struct simba__across_entry *entry),
                        void *user)
{
    struct source *sources =
        calloc(SIMBA__ACROSS_LEVELS * SIMBA__ACROSS_FANIN + 1, sizeof *sources);
    struct taker taker = {take, user};
    size_t count = 1;
    bool is_done;

    if (sources == NULL) {
        errno = ENOMEM;
        return false;
    }
    if (across->count > 0) {
        qsort(across->batch, across->count, sizeof *across->batch, compare);
        sources[0].batch = across->batch;
        sources[0].end = across->batch + across->count;
    }
    for (size_t level = 0; level < SIMBA__ACROSS_LEVELS; level++) {
        for (size_t i = 0; i < across->file_counts[level]; i++) {
            sources[count++].file = across->files[level][i];
        }
    }
    is_done = merge(sources, count, hand_on, &taker);
    free(sources);
    return is_done;
}

void simba__across_fini(struct simba__across *across)
{
    for (size_t level = 0; level < SIMBA__ACROSS_LEVELS; level++) {
        close_files(across, level);
    }
    free(across->batch);
}
