/* The backstop: those in the queue ask now and then whether a wake-up was lost.
 * One of them looks, and what it finds answers all who wait for the same mutex
 * here: a thousand looks at a thousand children each would be a million names.
 */
#include "backends/zookeeper/instance.h"

#include <stdlib.h>
#include <string.h>

static bool is_watching(const struct simba__zk_latch *latch)
{
    return latch->position == SIMBA__ZK_STANDING && latch->before != NULL &&
           !latch->is_blind && !latch->is_doomed && !latch->was_granted;
}

static bool is_in_case(const struct simba__zk_latch *latch)
{
    return latch->asking != NULL && latch->asking->is_backstop &&
           latch->asking->join && is_watching(latch);
}

/* As long as a guard is good for, no longer. */
static bool is_fresh(const struct simba__zk_latch *latch)
{
    return latch->confirmed_ms != 0 &&
           simba_loop_now_ms() - latch->confirmed_ms <
               latch->self->guard.timeout_ms / 4;
}

enum simba__zk_backstop simba__zk_backstop(struct simba__zk_latch *latch)
{
    struct simba__zk_room *room = latch->room;

    if (!is_in_case(latch)) {
        return SIMBA__ZK_LOOKS;
    }
    if (room->looker != NULL && room->looker != latch) {
        return SIMBA__ZK_WAITS;
    }
    if (is_fresh(latch)) {
        latch->owner = room->owner;
        return SIMBA__ZK_CONFIRMED;
    }
    room->looker = latch;
    return SIMBA__ZK_LOOKS;
}

/* --- what the look has found --------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has(char *const *names, int count, const char *name)
{
    return bsearch(&name, names, (size_t)count, sizeof names[0], by_name) !=
           NULL;
}

/* Who is still there, behind the same one, waits on. Who is not has missed
 * something, and looks for itself. */
static void confirm(struct simba__zk_latch *latch,
                    char *const *names,
                    int count)
{
    if (!is_watching(latch)) {
        return;
    }
    if (has(names, count, latch->node) && has(names, count, latch->before)) {
        latch->confirmed_ms = simba_loop_now_ms();
    } else {
        latch->is_blind = true;
    }
}

void simba__zk_backstop_heard(struct simba__zk_latch *latch,
                              const struct String_vector *children)
{
    struct simba__zk_room *room = latch->room;
    size_t size = sizeof(char *) * (size_t)(children->count + 1);
    char **names;

    if (room == NULL || room->looker != latch || children->count == 0) {
        return;
    }
    names = malloc(size);
    if (names == NULL) {
        return; /* each looks for itself */
    }
    memcpy(names, children->data, size - sizeof(char *));
    qsort(names, (size_t)children->count, sizeof names[0], by_name);
    for (struct simba__zk_latch *l = room->latches; l != NULL; l = l->next) {
        confirm(l, names, children->count);
        l->is_second = l->before != NULL && latch->lowest != NULL &&
                       strcmp(l->before, latch->lowest) == 0;
    }
    free(names);
}

/* What it has found may be that it has to be forgotten, and with it the room;
 * not while others wait in there. */
struct simba__zk_room *simba__zk_backstop_hold(struct simba__zk_latch *latch)
{
    struct simba__zk_room *room = latch->room;

    if (room == NULL || room->looker != latch) {
        return NULL;
    }
    room->holds++;
    return room;
}

static bool is_looking(const struct simba__zk_latch *latch)
{
    return latch->room != NULL &&
           (latch->flight == SIMBA__ZK_LOOK || latch->flight == SIMBA__ZK_LINE);
}

void simba__zk_backstop_free(struct simba__zk_latch *latch,
                             struct simba__zk_room *room)
{
    if (room == NULL) {
        return;
    }
    if (!is_looking(latch)) {
        room->looker = room->looker == latch ? NULL : room->looker;
        if (latch->owner.id[0] != '\0') {
            room->owner = latch->owner;
        }
        simba__zk_room_each(latch->self, room, simba__zk_latch_go);
    }
    room->holds--;
    simba__zk_room_tidy(latch->self, room);
}
