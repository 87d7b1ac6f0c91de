/* A JSON object on one line, member by member. */
#ifndef SIMBA_CLI_OBJECT_H
#define SIMBA_CLI_OBJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct simba__object {
    FILE *out;
    bool has_any;   /* members */
    bool is_nested; /* no newline behind it */
};

/** A line of its own. */
void simba__object_begin(struct simba__object *object, FILE *out);

/** Members; a NULL text is null. */
void simba__object_text(struct simba__object *object,
                        const char *key,
                        const char *text);
void simba__object_number(struct simba__object *object,
                          const char *key,
                          int64_t number);
/** Up to 2^64 - 1. */
void simba__object_count(struct simba__object *object,
                         const char *key,
                         uint64_t count);
void simba__object_null(struct simba__object *object, const char *key);
void simba__object_flag(struct simba__object *object,
                        const char *key,
                        bool is_set);
/** A fencing token; null for 0, which means none. */
void simba__object_token(struct simba__object *object,
                         const char *key,
                         uint64_t token);

/** A list of objects: open it, for each object begin and end one, close it. */
void simba__object_list(struct simba__object *object, const char *key);
void simba__object_item(struct simba__object *item,
                        struct simba__object *object,
                        bool is_first);
void simba__object_list_end(struct simba__object *object);

void simba__object_end(struct simba__object *object);

/** Members "unix_ms", "boot_ms" and "boot": when it happened on both clocks,
 * the second one being given, and which boot that counts from. */
void simba__object_times(struct simba__object *object, int64_t boot_ms);

#endif
