/* Arrays that grow. In a header, so that the pure layers can use it. */
#ifndef SIMBA_UTIL_ARRAY_H
#define SIMBA_UTIL_ARRAY_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/**
 * Make room for so many elements, twice as much as before at least. Of small
 * ones there is room for some from the beginning; of large ones there are often
 * just one or two, in thousands of arrays.
 *
 * @param array   address of the pointer to the first element, which may be NULL
 * @param room    how many it has room for; 0 with NULL
 * @param wanted  how many it shall have room for
 * @param size    of one element
 * @return false when there is no memory; nothing has changed then
 */
static inline bool simba__array_reserve(void *array,
                                        size_t *room,
                                        size_t wanted,
                                        size_t size)
{
    size_t first = size < 64 ? 8 : 1;
    size_t grown = *room == 0 ? first : *room;
    void *items;

    assert(size > 0);
    if (wanted <= *room) {
        return true;
    }
    while (grown < wanted || grown == *room) {
        if (grown > SIZE_MAX / 2 / size) {
            return false;
        }
        grown *= 2;
    }
    memcpy(&items, array, sizeof items);
    // cppcheck-suppress memleakOnRealloc; the old ones stay the caller's
    items = realloc(items, grown * size);
    if (items == NULL) {
        return false;
    }
    memcpy(array, &items, sizeof items);
    *room = grown;
    return true;
}

#endif
