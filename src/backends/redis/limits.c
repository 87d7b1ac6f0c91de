/* How much a reply may have. A server that is mad, or means harm, must cost
 * neither memory nor time: a reply has no more values and bytes than what was
 * asked for can have. The reader itself refuses what is nested too deep. */
#include "backends/redis/redis.h"

#include <string.h>

enum {
    VALUES_MOST = 1024, /* in a reply, unless more were asked for */
    VALUE_BYTES = 64,   /* of each, and at least so many of all: */
    BYTES_LEAST = 1 << 20,
    LINE_MOST = 1 << 16, /* of all but bulk strings */
};

static size_t values_most(const struct simba__redis_connection *conn)
{
    const simba_exchange *first = simba_connection_first(conn->link);
    size_t most =
        first == NULL
            ? 0
            : container_of(first, struct simba__redis_pending, exchange)
                  ->most_values;

    return most == 0 ? VALUES_MOST : most;
}

bool simba__redis_is_too_much(const struct simba__redis_connection *conn)
{
    const redisReader *reader = conn->reader;
    size_t length = reader->len - reader->pos;
    size_t most = values_most(conn) * VALUE_BYTES;

    return conn->values > values_most(conn) ||
           conn->bytes > (most > BYTES_LEAST ? most : BYTES_LEAST) ||
           /* It looks for the end of a line from its beginning every time. */
           (length > LINE_MOST &&
            (reader->buf[reader->pos] != '$' ||
             memchr(reader->buf + reader->pos, '\n', 32) == NULL));
}

#if HIREDIS_MAJOR < 1
typedef int value_count;
#else
typedef size_t value_count;
#endif

/* The reader makes room for all values as soon as it knows how many. */
static void *make_array(const redisReadTask *task, value_count count)
{
    struct simba__redis_connection *conn = task->privdata;

    conn->values += (size_t)count;
    return simba__redis_is_too_much(conn)
               ? NULL
               : conn->default_makers->createArray(task, count);
}

void simba__redis_limits_begin(struct simba__redis_connection *conn)
{
    conn->values = conn->bytes = 0;
    conn->default_makers = conn->reader->fn;
    conn->makers = *conn->reader->fn;
    conn->makers.createArray = make_array;
    conn->reader->fn = &conn->makers;
    conn->reader->privdata = conn;
}
