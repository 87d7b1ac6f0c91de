/* Protobuf, as far as etcd's API needs it. A message is written field by field,
 * and read into a table of its fields. Pure; what was read points into the
 * bytes it was read from. Fields have the numbers of etcd's rpc.proto and
 * kv.proto. */
#ifndef SIMBA_BACKENDS_ETCD_PROTOBUF_H
#define SIMBA_BACKENDS_ETCD_PROTOBUF_H

#include "util/text.h"

/** Add a field; what is 0 or empty is left out, as by everyone. */
void simba__pb_number(struct simba__text *to, int field, int64_t number);
void simba__pb_text(struct simba__text *to, int field, const char *text);

/** Begin a message in the message; what is returned ends it. A text without
 * memory fails. */
size_t simba__pb_begin(struct simba__text *to, int field);
void simba__pb_end(struct simba__text *to, size_t began);

/** A text or a message, not ended by a NUL. */
typedef struct simba__pb_bytes {
    const char *at;
    size_t length;
} simba__pb_bytes;

enum { SIMBA__PB_FIELDS = 12 };

/** What is in a message, by the numbers of its fields; of one that comes twice
 * the last. What is absent is 0. Fields of higher numbers are passed over. */
typedef struct simba__pb_fields {
    bool is_broken; /* this is no message, and the rest is of no use */
    int64_t number[SIMBA__PB_FIELDS];
    simba__pb_bytes bytes[SIMBA__PB_FIELDS];
    size_t count[SIMBA__PB_FIELDS]; /* how often it came */
} simba__pb_fields;

simba__pb_fields simba__pb_read(simba__pb_bytes message);

/** The next field of this number that is a text or a message; false: there is
 * none. `rest` is what is left of the message. */
bool simba__pb_next(simba__pb_bytes *rest, int field, simba__pb_bytes *item);

#endif
