#include "backends/zookeeper/turns.h"

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
