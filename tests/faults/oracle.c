#define _GNU_SOURCE
#include "oracle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 32, TOLD_MOST = 10 };

static _Noreturn void die(void)
{
    perror("oracle");
    abort();
}

/* A line that was cut when its writer was killed is none. */
static bool is_whole(const char *line)
{
    size_t length = strcspn(line, "\n");

    return length > 2 && strncmp(line + length - 2, " .", 2) == 0;
}

/* A line, and then a whole section: surely inside from one to the other, as it
 * was at some instant of its first line and of its last. One of a single line,
 * which ends before it begins, was inside at some instant between. */
struct stay {
    int pid;
    int64_t started_us;
    uint64_t token;
    char mutex[NAME_MOST];
    int64_t from_us, until_us;
};

struct stays {
    struct stay *items;
    size_t count, room;
};

static struct stays read_lines(const char *directory)
{
    struct stays lines = {NULL, 0, 0};
    char path[512], text[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/sections", directory);
    file = fopen(path, "re");
    while (file != NULL && fgets(text, sizeof text, file) != NULL) {
        struct stay s;
        int64_t from, until;

        if (!is_whole(text) ||
            sscanf(text, "%d %" SCNd64 " %" SCNu64 " %31s %" SCNd64 " %" SCNd64,
                   &s.pid, &s.started_us, &s.token, s.mutex, &from,
                   &until) != 6) {
            continue;
        }
        s.from_us = until;
        s.until_us = from;
        if (lines.count == lines.room) {
            lines.room = lines.room == 0 ? 4096 : 2 * lines.room;
            lines.items =
                realloc(lines.items, lines.room * sizeof *lines.items);
            if (lines.items == NULL) {
                die();
            }
        }
        lines.items[lines.count++] = s;
    }
    if (file != NULL) {
        fclose(file);
    }
    return lines;
}

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_section(const void *left, const void *right)
{
    const struct stay *a = left, *b = right;
    int order = compare_numbers(a->started_us, b->started_us);

    order = order != 0 ? order : compare_numbers(a->pid, b->pid);
    order = order != 0 ? order : strcmp(a->mutex, b->mutex);
    return order != 0 ? order : compare_numbers(a->until_us, b->until_us);
}

static int by_time(const void *left, const void *right)
{
    const struct stay *a = left, *b = right;
    int order = strcmp(a->mutex, b->mutex);

    return order != 0 ? order : compare_numbers(a->from_us, b->from_us);
}

/* Lines become sections. */
static struct stays read_sections(const char *directory)
{
    struct stays all = read_lines(directory);
    size_t kept = 0;

    if (all.count > 0) {
        qsort(all.items, all.count, sizeof *all.items, by_section);
    }
    for (size_t i = 0; i < all.count; i++) {
        struct stay *last = kept == 0 ? NULL : &all.items[kept - 1];

        if (last != NULL && last->pid == all.items[i].pid &&
            last->started_us == all.items[i].started_us) {
            last->until_us = all.items[i].until_us;
        } else {
            all.items[kept++] = all.items[i];
        }
    }
    all.count = kept;
    if (kept > 0) {
        qsort(all.items, kept, sizeof *all.items, by_time);
    }
    return all;
}

size_t oracle_count_since(const char *directory,
                          const char *mutex,
                          int64_t since_us)
{
    struct stays all = read_lines(directory);
    size_t count = 0;

    for (size_t i = 0; i < all.count; i++) {
        count += strcmp(all.items[i].mutex, mutex) == 0 &&
                 all.items[i].started_us >= since_us;
    }
    free(all.items);
    return count;
}

/* --- exclusion ----------------------------------------------------------- */

struct judgement {
    struct excuse *excuses;
    size_t excuse_count;
    struct verdict verdict;
};

static struct excuse *find_excuse(const struct judgement *j,
                                  const struct stay *a,
                                  const struct stay *b)
{
    int64_t until = a->until_us < b->until_us ? a->until_us : b->until_us;

    for (size_t i = 0; i < j->excuse_count; i++) {
        struct excuse *e = &j->excuses[i];
        bool is_theirs = e->pid == 0 || e->pid == a->pid || e->pid == b->pid;

        if (is_theirs && until >= e->from_us && b->from_us <= e->until_us) {
            return e;
        }
    }
    return NULL;
}

/* Tokens may begin anew when what was granted is forgotten, and a clock was set
 * back. */
static bool is_excused_between(const struct judgement *j,
                               const struct stay *a,
                               const struct stay *b)
{
    for (size_t i = 0; i < j->excuse_count; i++) {
        const struct excuse *e = &j->excuses[i];

        if (e->pid == 0 && e->from_us >= a->from_us &&
            e->from_us <= b->from_us) {
            return true;
        }
    }
    return false;
}

static void tell(struct judgement *j,
                 const struct stay *a,
                 const struct stay *b)
{
    struct excuse *excuse = find_excuse(j, a, b);
    int64_t until = a->until_us < b->until_us ? a->until_us : b->until_us;

    if (excuse != NULL) {
        j->verdict.excused++;
        excuse->count++;
        return;
    }
    if (j->verdict.overlaps++ < TOLD_MOST) {
        printf("# OVERLAP in %s: %d (token %" PRIu64 ") from %" PRId64
               " to %" PRId64 ", %d (token %" PRIu64 ") from %" PRId64
               " to %" PRId64 ": %" PRId64 " us\n",
               a->mutex, a->pid, a->token, a->from_us, a->until_us, b->pid,
               b->token, b->from_us, b->until_us, until - b->from_us);
    }
}

/* Were both inside at once? The other began no later. */
static bool is_overlap(const struct stay *other, const struct stay *s)
{
    bool is_instant = s->until_us < s->from_us;

    return other->pid != s->pid && other->until_us >= s->from_us &&
           other->from_us <= (is_instant ? s->until_us : s->from_us);
}

static void judge_exclusion(struct judgement *j, const struct stays *all)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct stay *s = &all->items[i];
        int64_t latest = 0;

        for (size_t k = i; k-- > 0;) {
            const struct stay *other = &all->items[k];

            if (strcmp(other->mutex, s->mutex) != 0 || i - k > 64) {
                break;
            }
            latest = other->until_us > latest ? other->until_us : latest;
            if (is_overlap(other, s)) {
                tell(j, other, s);
            }
            if (k + 1 == i && other->token >= s->token &&
                find_excuse(j, other, s) == NULL &&
                !is_excused_between(j, other, s)) {
                j->verdict.tokens_back++;
            }
        }
        if (latest > 0 && s->from_us - latest > j->verdict.longest_us) {
            j->verdict.longest_us = s->from_us - latest;
        }
    }
}

/* --- how long it excuses ------------------------------------------------- */

static int by_number(const void *left, const void *right)
{
    return compare_numbers(*(const int64_t *)left, *(const int64_t *)right);
}

/* Who is excused at this time: nobody, some process, or (2) everybody? */
static int find_excused(const struct judgement *j, int64_t us)
{
    int excused = 0;

    for (size_t i = 0; i < j->excuse_count && excused < 2; i++) {
        const struct excuse *e = &j->excuses[i];

        if (e->from_us <= us && us < e->until_us) {
            excused = e->pid == 0 ? 2 : 1;
        }
    }
    return excused;
}

static int64_t within(int64_t us, int64_t from_us, int64_t until_us)
{
    return us < from_us ? from_us : us > until_us ? until_us : us;
}

/* Between two times at which an excuse begins or ends nothing changes. */
static void judge_excuses(struct judgement *j, const struct stays *all)
{
    int64_t from_us = INT64_MAX, until_us = 0, *times;
    size_t count = 0;

    for (size_t i = 0; i < all->count; i++) {
        const struct stay *s = &all->items[i];

        from_us = s->from_us < from_us ? s->from_us : from_us;
        until_us = s->until_us > until_us ? s->until_us : until_us;
    }
    if (from_us >= until_us) {
        return;
    }
    j->verdict.span_us = until_us - from_us;
    times = malloc((2 * j->excuse_count + 1) * sizeof *times);
    if (times == NULL) {
        die();
    }
    for (size_t i = 0; i < j->excuse_count; i++) {
        times[count++] = within(j->excuses[i].from_us, from_us, until_us);
        times[count++] = within(j->excuses[i].until_us, from_us, until_us);
    }
    times[count++] = until_us;
    qsort(times, count, sizeof *times, by_number);
    for (size_t i = 0; i + 1 < count; i++) {
        int excused = find_excused(j, times[i]);

        j->verdict.excused_us += excused == 2 ? times[i + 1] - times[i] : 0;
        j->verdict.partly_us += excused == 1 ? times[i + 1] - times[i] : 0;
    }
    free(times);
}

/* --- sets ---------------------------------------------------------------- */

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* The elements in a file, sorted. */
static size_t read_words(const char *directory, const char *name, char ***words)
{
    char path[512], text[256];
    size_t count = 0, room = 0;
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "re");
    *words = NULL;
    while (file != NULL && fgets(text, sizeof text, file) != NULL) {
        if (!is_whole(text)) {
            continue;
        }
        text[strcspn(text, "\n")] = '\0';
        if (count == room) {
            room = room == 0 ? 1024 : 2 * room;
            *words = realloc(*words, room * sizeof **words);
        }
        if (*words == NULL || ((*words)[count++] = strdup(text)) == NULL) {
            die();
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    if (count > 0) {
        qsort(*words, count, sizeof **words, compare_texts);
    }
    return count;
}

size_t oracle_count_lost(const char *directory, const char *name, size_t *added)
{
    char acks[64], **said, **kept;
    size_t kept_count = read_words(directory, name, &kept), lost = 0;

    snprintf(acks, sizeof acks, "%s.acks", name);
    *added = read_words(directory, acks, &said);
    for (size_t i = 0; i < *added; i++) {
        lost += kept_count == 0 || bsearch(&said[i], kept, kept_count,
                                           sizeof *kept, compare_texts) == NULL;
        free(said[i]);
    }
    for (size_t i = 0; i < kept_count; i++) {
        free(kept[i]);
    }
    free(said);
    free(kept);
    return lost;
}

struct verdict oracle_judge(const char *directory,
                            struct excuse *excuses,
                            size_t excuse_count)
{
    struct judgement j = {.excuses = excuses, .excuse_count = excuse_count};
    struct stays all = read_sections(directory);

    j.verdict.sections = all.count;
    judge_exclusion(&j, &all);
    judge_excuses(&j, &all);
    j.verdict.lost[0] =
        oracle_count_lost(directory, "set", &j.verdict.added[0]);
    j.verdict.lost[1] =
        oracle_count_lost(directory, "fenced", &j.verdict.added[1]);
    free(all.items);
    return j.verdict;
}
