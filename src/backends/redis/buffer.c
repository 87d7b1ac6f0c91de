/* Bytes on their way out; see buffer.h. */
#include "backends/redis/buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_LEAST = 4096 };

char *simba__redis_buffer_grow(struct simba__redis_buffer *buffer, size_t more)
{
    size_t room = buffer->room < ROOM_LEAST ? ROOM_LEAST : buffer->room;
    char *grown;

    while (room - buffer->length < more) {
        room *= 2;
    }
    if (room != buffer->room) {
        grown = realloc(buffer->data, room);
        if (grown == NULL) {
            return NULL;
        }
        buffer->data = grown;
        buffer->room = room;
    }
    return buffer->data + buffer->length;
}

bool simba__redis_buffer_add(struct simba__redis_buffer *buffer,
                             const char *bytes,
                             size_t count)
{
    char *end = simba__redis_buffer_grow(buffer, count);

    if (end == NULL) {
        return false;
    }
    memcpy(end, bytes, count);
    buffer->length += count;
    return true;
}

void simba__redis_buffer_take(struct simba__redis_buffer *buffer, size_t count)
{
    assert(count <= simba__redis_buffer_left(buffer));
    buffer->from += count;
    if (buffer->from == buffer->length) {
        simba__redis_buffer_clear(buffer);
    }
}

size_t simba__redis_buffer_left(const struct simba__redis_buffer *buffer)
{
    return buffer->length - buffer->from;
}

void simba__redis_buffer_clear(struct simba__redis_buffer *buffer)
{
    buffer->from = 0;
    buffer->length = 0;
}

void simba__redis_buffer_fini(struct simba__redis_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct simba__redis_buffer){NULL, 0, 0, 0};
}
