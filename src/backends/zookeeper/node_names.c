/* Names of nodes: mutexes as path elements, attempts as latch nodes, the order
 * of latches, and the serial numbers that observers compare. Pure. */
#include "backends/zookeeper/zookeeper.h"

#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- mutexes as path elements -------------------------------------------- */

static bool is_escape(const char *at)
{
    return at[0] == '%' && simba__text_hex(at[1]) >= 0 &&
           simba__text_hex(at[2]) >= 0;
}

/* The code point at the start of valid UTF-8, and how many bytes it takes. */
static uint32_t code_point(const char *text, size_t *length)
{
    unsigned char first = (unsigned char)*text;
    uint32_t code;

    *length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    code = *length == 1 ? first : first & (0xffU >> (*length + 1));
    for (size_t i = 1; i < *length; i++) {
        code = code << 6 | ((unsigned char)text[i] & 0x3f);
    }
    return code;
}

/* The server checks paths as UTF-16: what needs two units there is refused, and
 * so are private and special characters. A percent sign is escaped only where
 * it would be read as an escape. */
void simba__zk_escape(const char *mutex, char escaped[SIMBA__ZK_ESCAPED_SIZE])
{
    bool is_dots = strcmp(mutex, ".") == 0 || strcmp(mutex, "..") == 0;
    size_t length;

    for (; *mutex != '\0'; mutex += length) {
        uint32_t code = code_point(mutex, &length);
        bool is_refused = code == '/' || (code >= 0x7f && code <= 0x9f) ||
                          (code >= 0xd800 && code <= 0xf8ff) ||
                          code >= 0xfff0 || is_escape(mutex) ||
                          (is_dots && code == '.');

        for (size_t i = 0; i < length; i++) {
            if (is_refused) {
                snprintf(escaped, 4, "%%%02X", (unsigned char)mutex[i]);
                escaped += 3;
            } else {
                *escaped++ = mutex[i];
            }
        }
    }
    *escaped = '\0';
}

bool simba__zk_unescape(const char *escaped,
                        char mutex[SIMBA_MUTEX_MAX_BYTES + 1])
{
    size_t length = 0;

    while (*escaped != '\0') {
        if (length == SIMBA_MUTEX_MAX_BYTES) {
            return false;
        }
        if (is_escape(escaped)) {
            int byte =
                simba__text_hex(escaped[1]) * 16 + simba__text_hex(escaped[2]);

            mutex[length++] = (char)byte;
            escaped += 3;
        } else {
            mutex[length++] = *escaped++;
        }
    }
    mutex[length] = '\0';
    return length > 0 && strlen(mutex) == length;
}

/* --- latches ------------------------------------------------------------- */

/* A version 4 UUID: six of the 128 bits are given. */
void simba__zk_prefix(simba_attempt attempt,
                      uint32_t slots,
                      char prefix[SIMBA__ZK_PREFIX_SIZE])
{
    char limit[13] = "";
    uint64_t high = (attempt.high & ~UINT64_C(0xf000)) | UINT64_C(0x4000);
    uint64_t low = (attempt.low & ~(UINT64_C(3) << 62)) | UINT64_C(1) << 63;

    if (slots > 1) {
        snprintf(limit, sizeof limit, "-n%u", (unsigned)slots);
    }
    snprintf(prefix, SIMBA__ZK_PREFIX_SIZE,
             "_c_%08x-%04x-%04x-%04x-%012llx%s-latch-", (unsigned)(high >> 32),
             (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xffff),
             (unsigned)(low >> 48),
             (unsigned long long)(low & UINT64_C(0xffffffffffff)), limit);
}

static const char mark[] = "latch-";

/* What follows the last "latch-", as Curator sorts. What stands before it is
 * free: there it says how many may own (`_c_<uuid>-n3-latch-`). Who does not
 * know that stands in the same queue. */
const char *simba__zk_sequence(const char *node)
{
    const size_t length = sizeof mark - 1;
    const char *at = node + strlen(node);

    /* From the end: a thousand names are gone through, and it is near. */
    while ((size_t)(at - node) >= length) {
        if (at[-1] == mark[length - 1] &&
            memcmp(at - length, mark, length) == 0) {
            return at;
        }
        at--;
    }
    return NULL;
}

int simba__zk_by_sequence(const void *a, const void *b)
{
    const char *one = *(char *const *)a, *other = *(char *const *)b;
    const char *first = simba__zk_sequence(one);
    const char *second = simba__zk_sequence(other);
    int order = first == NULL || second == NULL
                    ? (first == NULL) - (second == NULL)
                    : strcmp(first, second);

    return order != 0 ? order : strcmp(one, other);
}

/* Whatever does not say so in these very words is exclusive. `end` is where the
 * sequence number begins. */
static uint32_t slots_before(const char *node, const char *end)
{
    const char *at;
    uint64_t slots = 0;

    if (end == NULL || end - node < (ptrdiff_t)sizeof mark + 3) {
        return 0;
    }
    at = end -= sizeof mark; /* the dash before it */
    while (at > node && at[-1] >= '0' && at[-1] <= '9' && end - at < 10) {
        at--;
    }
    if (*end != '-' || at - node < 2 || at[-1] != 'n' || at[-2] != '-') {
        return 0;
    }
    while (at < end) {
        slots = slots * 10 + (uint64_t)(*at++ - '0');
    }
    return slots > 1 && slots <= UINT32_MAX ? (uint32_t)slots : 0;
}

uint32_t simba__zk_slots(const char *node)
{
    return slots_before(node, simba__zk_sequence(node));
}

bool simba__zk_is_wrapped(const char *node)
{
    const char *sequence = simba__zk_sequence(node);

    return sequence != NULL && sequence[0] == '-';
}

uint64_t simba__zk_position(const char *node)
{
    const char *sequence = simba__zk_sequence(node);

    return sequence == NULL ? 1 : strtoull(sequence, NULL, 10) + 1;
}

/* The children are in order. */
static void stand_in_crowd(char *const *children, simba__zk_standing *standing)
{
    simba_crowd crowd = {0};

    for (int i = 0; i < standing->latches; i++) {
        simba_crowd_add(&crowd, simba__zk_slots(children[i]));
        if (i == standing->own) {
            standing->is_owner = crowd.owned == crowd.count;
            standing->is_head = crowd.owned + 1 == crowd.count;
        }
        if (i == standing->own && !standing->is_owner) {
            simba_crowd_watch(&crowd, &standing->watched);
        }
    }
    standing->owned = crowd.owned;
    standing->slots = crowd.slots;
}

static int find_own(char *const *children, int count, const char *own)
{
    size_t length = own == NULL ? 0 : strlen(own);
    int found = -1;

    for (int i = 0; own != NULL && i < count; i++) {
        if (strncmp(children[i], own, length) == 0 &&
            (found < 0 || simba__zk_position(children[i]) >
                              simba__zk_position(children[found]))) {
            found = i;
        }
    }
    return found;
}

/* Once along all of them, for there may be thousands. Those of a mutex that
 * nobody shares are not sorted for it. */
void simba__zk_stand(char **children,
                     int count,
                     const char *own,
                     simba__zk_standing *standing)
{
    int mine_at = find_own(children, count, own);
    const char *mine =
        mine_at < 0 ? NULL : simba__zk_sequence(children[mine_at]);
    const char *lowest = NULL, *before = NULL;
    uint32_t slots = 0;

    *standing =
        (simba__zk_standing){.lowest = -1, .before = -1, .own = mine_at};
    for (int i = 0; i < count; i++) {
        const char *sequence = simba__zk_sequence(children[i]);

        if (sequence == NULL) {
            continue; /* no latch: none of our business */
        }
        standing->latches++;
        slots |= slots_before(children[i], sequence);
        if (lowest == NULL || strcmp(sequence, lowest) < 0) {
            lowest = sequence;
            standing->lowest = i;
        }
        if (mine != NULL && (before == NULL || strcmp(sequence, before) > 0) &&
            strcmp(sequence, mine) < 0) {
            before = sequence;
            standing->before = i;
        }
    }
    standing->is_sorted = slots != 0;
    if (standing->is_sorted) { /* latches are the first then */
        qsort(children, (size_t)count, sizeof(char *), simba__zk_by_sequence);
        standing->own = find_own(children, count, own);
        standing->lowest = 0;
        standing->before = before == NULL ? -1 : standing->own - 1;
        stand_in_crowd(children, standing);
    } else {
        standing->owned = standing->latches > 0;
        standing->is_owner = mine != NULL && mine_at == standing->lowest;
        standing->is_head =
            mine != NULL && standing->before == standing->lowest;
        standing->watched.other = (uint32_t)standing->before;
    }
    if (standing->lowest >= 0) {
        standing->lowest_at = simba__zk_position(children[standing->lowest]);
    }
    if (standing->before >= 0) {
        standing->before_at = simba__zk_position(children[standing->before]);
    }
}

/* As nearly all are: exclusive, with ten figures, so that their order is that
 * of their numbers. */
static bool is_plain(const char *node, const char *sequence)
{
    return strspn(sequence, "0123456789") == 10 && sequence[10] == '\0' &&
           slots_before(node, sequence) == 0;
}

/* The first of these that is no less. */
static int first_from(const simba__zk_standing *all,
                      int count,
                      uint64_t position)
{
    int begin = 0;

    while (begin < count) {
        int middle = begin + (count - begin) / 2;

        if (all[middle].own_at < position) {
            begin = middle + 1;
        } else {
            count = middle;
        }
    }
    return begin;
}

/* Each child is ours, or stands between two of ours. */
bool simba__zk_stand_all(char *const *children,
                         int count,
                         simba__zk_standing *standings,
                         int own_count)
{
    simba__zk_standing all = {.lowest = -1, .before = -1, .own = -1};

    for (int i = 0; i < own_count; i++) {
        uint64_t at = standings[i].own_at;

        standings[i] = all;
        standings[i].own_at = at;
    }
    for (int i = 0; i < count; i++) {
        const char *sequence = simba__zk_sequence(children[i]);
        simba__zk_standing *one;
        uint64_t at;

        if (sequence == NULL) {
            continue;
        }
        if (!is_plain(children[i], sequence)) {
            return false;
        }
        at = strtoull(sequence, NULL, 10) + 1;
        all.latches++;
        if (all.lowest < 0 || at < all.lowest_at) {
            all.lowest = i;
            all.lowest_at = at;
        }
        one = &standings[first_from(standings, own_count, at)];
        if (one == &standings[own_count]) {
            continue; /* behind all of ours */
        }
        if (at == one->own_at) {
            one->own = i;
        } else if (one->before < 0 || at > one->before_at) {
            one->before = i;
            one->before_at = at;
        }
    }
    for (int i = 0; i < own_count; i++) {
        simba__zk_standing *one = &standings[i];

        if (one->before < 0) {
            one->before = all.before;
            one->before_at = all.before_at;
        }
        all.before = one->own < 0 ? one->before : one->own;
        all.before_at = one->own < 0 ? one->before_at : one->own_at;
        one->lowest = all.lowest;
        one->lowest_at = all.lowest_at;
        one->latches = all.latches;
        one->owned = all.latches > 0;
        one->is_owner = one->own >= 0 && one->own == one->lowest;
        one->is_head = one->before >= 0 && one->before == one->lowest;
        one->watched.other = (uint32_t)one->before;
    }
    return true;
}

/* --- serial numbers ------------------------------------------------------ */

uint64_t simba__zk_children_made(const simba__zk_stat *stat)
{
    return ((uint64_t)(uint32_t)stat->cversion +
            (uint64_t)(uint32_t)stat->child_count) /
           2;
}

void simba__zk_serials_watched(simba__zk_serials *serials,
                               const simba__zk_view *found)
{
    serials->found = *found;
    serials->is_watched = true;
}

void simba__zk_serials_changed(simba__zk_serials *serials, bool is_gone)
{
    if (is_gone && serials->is_watched) {
        serials->ended = serials->found;
    }
    serials->is_watched = serials->is_calm = false;
}

void simba__zk_serials_read(simba__zk_serials *serials,
                            const simba__zk_view *view)
{
    const simba__zk_view *seen = &serials->seen;
    bool is_same = view->czxid == seen->czxid &&
                   (view->czxid != 0 || serials->is_calm ||
                    view->mutexes_made == seen->mutexes_made);
    /* The node seen last is gone: is it certain that the one to be seen now, or
     * none, came next? */
    bool is_next =
        seen->czxid != 0
            ? serials->ended.czxid == seen->czxid
            : view->czxid != 0 && view->mutexes_made - seen->mutexes_made <= 1;

    if (serials->is_begun && !is_same) {
        if (!is_next) {
            serials->base += seen->latches_made + 1;
        } else if (seen->czxid != 0) {
            serials->base += serials->ended.latches_made;
        }
    }
    serials->is_begun = true;
    serials->seen = *view;
    serials->is_calm =
        view->czxid == 0 && serials->is_watched && serials->found.czxid == 0;
}

uint64_t simba__zk_serial(const simba__zk_serials *serials, uint64_t position)
{
    return serials->base + position;
}
