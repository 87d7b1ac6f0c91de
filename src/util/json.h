/* Writing JSON: objects, member by member, on one line. */
#ifndef SIMBA_UTIL_JSON_H
#define SIMBA_UTIL_JSON_H

#include "util/text.h"

struct simba__json {
    struct simba__text *out;
    struct simba__text file; /* of simba__json_print() */
    bool has_any;            /* members, or items of the open list */
};

/** Begin an object. */
void simba__json_begin(struct simba__json *json, struct simba__text *out);
/** Begin an object that is a line of a file. */
void simba__json_print(struct simba__json *json, FILE *file);

/** Members; a NULL text is null. Keys need no escapes. */
void simba__json_text(struct simba__json *json,
                      const char *key,
                      const char *text);
void simba__json_number(struct simba__json *json,
                        const char *key,
                        int64_t number);
void simba__json_unsigned(struct simba__json *json,
                          const char *key,
                          uint64_t number);
void simba__json_real(struct simba__json *json,
                      const char *key,
                      double number,
                      int digits);
void simba__json_flag(struct simba__json *json, const char *key, bool is_set);
/** A fencing token; null for 0, which means none. */
void simba__json_token(struct simba__json *json,
                       const char *key,
                       uint64_t token);

/** Members that are left out where there is nothing to say: a NULL or empty
 * text, 0. */
void simba__json_text_if(struct simba__json *json,
                         const char *key,
                         const char *text);
void simba__json_number_if(struct simba__json *json,
                           const char *key,
                           int64_t number);

/** A list of objects: open it, for each object begin an item and end it, close
 * the list. */
void simba__json_list(struct simba__json *json, const char *key);
void simba__json_item(struct simba__json *item, struct simba__json *list);
void simba__json_list_end(struct simba__json *json);

/** End an object; simba__json_line() also the line. */
void simba__json_end(struct simba__json *json);
void simba__json_line(struct simba__json *json);

/** Add a string with its quotes; what is no UTF-8 becomes U+FFFD. */
void simba__json_quote(struct simba__text *out, const char *string);

#endif
