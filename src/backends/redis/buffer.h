/* Bytes on their way out. */
#ifndef SIMBA_REDIS_BUFFER_H
#define SIMBA_REDIS_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct simba__redis_buffer {
    char *data;
    size_t from; /* what is before it has been taken */
    size_t length;
    size_t room;
};

/** Room for so many more bytes behind the last; NULL: no memory. */
char *simba__redis_buffer_grow(struct simba__redis_buffer *buffer, size_t more);

/** False: no memory, and nothing was added. */
bool simba__redis_buffer_add(struct simba__redis_buffer *buffer,
                             const char *bytes,
                             size_t count);

/** So many of the first bytes are done with. */
void simba__redis_buffer_take(struct simba__redis_buffer *buffer, size_t count);

/** How many bytes are left. */
size_t simba__redis_buffer_left(const struct simba__redis_buffer *buffer);

void simba__redis_buffer_clear(struct simba__redis_buffer *buffer);
void simba__redis_buffer_fini(struct simba__redis_buffer *buffer);

#endif
