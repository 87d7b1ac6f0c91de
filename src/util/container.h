/* From a member of a struct to the struct. */
#ifndef SIMBA_UTIL_CONTAINER_H
#define SIMBA_UTIL_CONTAINER_H

#include <stddef.h>

/** The `type` whose `member` the pointer points to; the pointer is not NULL. */
#define container_of(pointer, type, member)                                    \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
