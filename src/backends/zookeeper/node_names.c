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

/* The code point at a place in valid UTF-8, and how many bytes it takes. */
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
 * so are private and special characters. */
static bool is_refused(uint32_t code)
{
    return code == '/' || (code >= 0x7f && code <= 0x9f) ||
           (code >= 0xd800 && code <= 0xf8ff) || code >= 0xfff0;
}

/* A percent sign is escaped only where it would be read as an escape. */
static bool needs_escape(const char *at, uint32_t code, bool is_dots)
{
    return is_refused(code) || is_escape(at) || (is_dots && code == '.');
}

void simba__zk_escape(const char *mutex, char escaped[SIMBA__ZK_ESCAPED_SIZE])
{
    bool is_dots = strcmp(mutex, ".") == 0 || strcmp(mutex, "..") == 0;
    size_t length;

    for (; *mutex != '\0'; mutex += length) {
        bool is_plain =
            !needs_escape(mutex, code_point(mutex, &length), is_dots);

        for (size_t i = 0; i < length; i++) {
            if (is_plain) {
                *escaped++ = mutex[i];
            } else {
                snprintf(escaped, 4, "%%%02X", (unsigned char)mutex[i]);
                escaped += 3;
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
void simba__zk_prefix(simba_attempt attempt, char prefix[SIMBA__ZK_PREFIX_SIZE])
{
    uint64_t high = (attempt.high & ~UINT64_C(0xf000)) | UINT64_C(0x4000);
    uint64_t low = (attempt.low & ~(UINT64_C(3) << 62)) | UINT64_C(1) << 63;

    snprintf(prefix, SIMBA__ZK_PREFIX_SIZE,
             "_c_%08x-%04x-%04x-%04x-%012llx-latch-", (unsigned)(high >> 32),
             (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xffff),
             (unsigned)(low >> 48),
             (unsigned long long)(low & UINT64_C(0xffffffffffff)));
}

const char *simba__zk_sequence(const char *child)
{
    static const char mark[] = "latch-";
    const char *found = NULL;

    for (const char *at = strstr(child, mark); at != NULL;
         at = strstr(at + 1, mark)) {
        found = at + sizeof mark - 1;
    }
    return found;
}

bool simba__zk_is_wrapped(const char *child)
{
    const char *sequence = simba__zk_sequence(child);

    return sequence != NULL && sequence[0] == '-';
}

uint64_t simba__zk_place(const char *child)
{
    const char *sequence = simba__zk_sequence(child);

    return sequence == NULL ? 1 : strtoull(sequence, NULL, 10) + 1;
}

static bool is_less(const char *sequence, const char *than)
{
    return than == NULL || strcmp(sequence, than) < 0;
}

static int find_own(char *const *children, int count, const char *own)
{
    size_t length = own == NULL ? 0 : strlen(own);

    for (int i = 0; length > 0 && i < count; i++) {
        if (strncmp(children[i], own, length) == 0) {
            return i;
        }
    }
    return -1;
}

void simba__zk_stand(char *const *children,
                     int count,
                     const char *own,
                     struct simba__zk_standing *standing)
{
    const char *lowest = NULL, *before = NULL, *mine = NULL;

    *standing = (struct simba__zk_standing){-1, -1, -1, 0};
    standing->own = find_own(children, count, own);
    if (standing->own >= 0) {
        mine = simba__zk_sequence(children[standing->own]);
    }
    for (int i = 0; i < count; i++) {
        const char *sequence = simba__zk_sequence(children[i]);

        if (sequence == NULL) {
            continue; /* no latch: none of our business */
        }
        standing->latches++;
        if (is_less(sequence, lowest)) {
            lowest = sequence;
            standing->lowest = i;
        }
        if (mine != NULL && strcmp(sequence, mine) < 0 &&
            (before == NULL || strcmp(sequence, before) > 0)) {
            before = sequence;
            standing->before = i;
        }
    }
}

uint64_t simba__zk_ever(int32_t changes, int32_t present)
{
    return ((uint64_t)(uint32_t)changes + (uint64_t)(uint32_t)present) / 2;
}

void simba__zk_turns_watch(struct simba__zk_turns *turns,
                           const struct simba__zk_look *found)
{
    turns->found = *found;
    turns->is_watched = true;
}

void simba__zk_turns_stir(struct simba__zk_turns *turns, bool is_gone)
{
    if (is_gone && turns->is_watched) {
        turns->ended = turns->found;
    }
    turns->is_watched = turns->is_calm = false;
}

static bool is_same_life(const struct simba__zk_turns *turns,
                         const struct simba__zk_look *look)
{
    if (look->life != turns->seen.life) {
        return false;
    }
    return look->life != 0 || turns->is_calm ||
           look->births == turns->seen.births;
}

/* The life we saw last is over: is it certain that the one we see now, or none,
 * came next? */
static bool is_next_life(const struct simba__zk_turns *turns,
                         const struct simba__zk_look *look)
{
    if (turns->seen.life != 0) {
        return turns->ended.life == turns->seen.life;
    }
    return look->life != 0 && look->births - turns->seen.births <= 1;
}

void simba__zk_turns_look(struct simba__zk_turns *turns,
                          const struct simba__zk_look *look)
{
    const struct simba__zk_look *seen = &turns->seen;

    if (turns->is_begun && !is_same_life(turns, look)) {
        if (!is_next_life(turns, look)) {
            turns->base += seen->made + 1;
        } else if (seen->life != 0) {
            turns->base += turns->ended.made;
        }
    }
    turns->is_begun = true;
    turns->seen = *look;
    turns->is_calm =
        look->life == 0 && turns->is_watched && turns->found.life == 0;
}

uint64_t simba__zk_turn(const struct simba__zk_turns *turns, uint64_t position)
{
    return turns->base + position;
}

uint64_t simba__zk_turn_next(const struct simba__zk_turns *turns)
{
    return simba__zk_turn(turns, turns->seen.made + 1);
}
