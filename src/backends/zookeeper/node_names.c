/* Names of nodes: mutexes as path elements, attempts as latch nodes, the order
 * of latches, and the serial numbers that observers compare. Pure. */
#include "backends/zookeeper/zookeeper.h"

#include "util/text.h"

#include <assert.h>
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

static int by_sequence(const void *a, const void *b)
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

/* The servers count with 32 bits. */
uint64_t simba__zk_position(const char *node)
{
    const char *sequence = simba__zk_sequence(node);

    return sequence == NULL
               ? 1
               : (uint64_t)(uint32_t)strtol(sequence, NULL, 10) + 1;
}

void simba__zk_sequence_of(uint64_t position,
                           char sequence[SIMBA__ZK_SEQUENCE_SIZE])
{
    snprintf(sequence, SIMBA__ZK_SEQUENCE_SIZE, "%010d",
             (int)(int32_t)(uint32_t)(position - 1));
}

/* --- the queue ----------------------------------------------------------- */

/* Ten figures, so that the order of the texts is that of the numbers. */
static bool is_plain(const char *sequence)
{
    return strspn(sequence, "0123456789") == 10 && sequence[10] == '\0';
}

void simba__zk_queue_read(simba__zk_queue *queue, char **children, int count)
{
    simba_crowd crowd = {0};
    const char *sequence;

    *queue = (simba__zk_queue){.nodes = children, .is_plain = true};
    if (count > 0) { /* what is no latch comes last */
        qsort(children, (size_t)count, sizeof(char *), by_sequence);
    }
    while (queue->count < count &&
           (sequence = simba__zk_sequence(children[queue->count])) != NULL) {
        uint32_t slots = slots_before(children[queue->count], sequence);

        simba_crowd_add(&crowd, slots);
        queue->is_plain &= slots == 0 && is_plain(sequence);
        queue->count++;
    }
    queue->owned = (int)crowd.owned;
    queue->slots = crowd.slots;
}

int simba__zk_find(const simba__zk_queue *queue, uint64_t position)
{
    char sequence[SIMBA__ZK_SEQUENCE_SIZE];
    int begin = 0, end = queue->count;

    simba__zk_sequence_of(position, sequence);
    while (begin < end) {
        int middle = begin + (end - begin) / 2;
        int order = strcmp(simba__zk_sequence(queue->nodes[middle]), sequence);

        if (order == 0) {
            return middle;
        }
        begin = order < 0 ? middle + 1 : begin;
        end = order < 0 ? end : middle;
    }
    return -1;
}

int simba__zk_find_prefix(const simba__zk_queue *queue, const char *prefix)
{
    int found = -1;

    for (int i = 0; i < queue->count; i++) {
        if (strncmp(queue->nodes[i], prefix, strlen(prefix)) == 0 &&
            (found < 0 || simba__zk_position(queue->nodes[i]) >
                              simba__zk_position(queue->nodes[found]))) {
            found = i;
        }
    }
    return found;
}

simba_crowd_watched simba__zk_watched(const simba__zk_queue *queue, int own)
{
    uint32_t before = (uint32_t)own - 1;
    simba_crowd_watched watched = {before, (uint32_t)own, (uint32_t)own};
    simba_crowd crowd = {0};

    assert(own >= queue->owned && own < queue->count);
    if (!queue->is_plain) { /* else the one before it, of thousands */
        for (int i = 0; i <= own; i++) {
            simba_crowd_add(&crowd, simba__zk_slots(queue->nodes[i]));
        }
        simba_crowd_watch(&crowd, &watched);
    }
    return watched;
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
