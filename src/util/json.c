#include "util/json.h"

#include <assert.h>
#include <inttypes.h>

/* --- strings ------------------------------------------------------------- */

void simba__json_quote(struct simba__text *out, const char *string)
{
    simba__text_add(out, "\"", 1);
    while (*string != '\0') {
        unsigned char c = (unsigned char)*string;
        size_t length = simba__text_sequence(string, 4);

        if (length == 0) {
            simba__text_put(out, "\\ufffd");
            length = 1;
        } else if (c == '"' || c == '\\') {
            simba__text_printf(out, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            simba__text_printf(out, "\\u%04x", c);
        } else {
            simba__text_add(out, string, length);
        }
        string += length;
    }
    simba__text_add(out, "\"", 1);
}

/* --- members ------------------------------------------------------------- */

static void put_key(struct simba__json *json, const char *key)
{
    assert(key != NULL && json->out != NULL);
    simba__text_put(json->out, json->has_any ? ",\"" : "\"");
    simba__text_put(json->out, key);
    simba__text_put(json->out, "\":");
    json->has_any = true;
}

void simba__json_begin(struct simba__json *json, struct simba__text *out)
{
    *json = (struct simba__json){.out = out};
    simba__text_put(out, "{");
}

void simba__json_print(struct simba__json *json, FILE *file)
{
    *json = (struct simba__json){.file = simba__text_file(file)};
    json->out = &json->file;
    simba__text_put(json->out, "{");
}

void simba__json_text(struct simba__json *json,
                      const char *key,
                      const char *text)
{
    put_key(json, key);
    if (text == NULL) {
        simba__text_put(json->out, "null");
    } else {
        simba__json_quote(json->out, text);
    }
}

void simba__json_number(struct simba__json *json,
                        const char *key,
                        int64_t number)
{
    put_key(json, key);
    simba__text_printf(json->out, "%" PRId64, number);
}

void simba__json_unsigned(struct simba__json *json,
                          const char *key,
                          uint64_t number)
{
    put_key(json, key);
    simba__text_printf(json->out, "%" PRIu64, number);
}

void simba__json_real(struct simba__json *json,
                      const char *key,
                      double number,
                      int digits)
{
    put_key(json, key);
    simba__text_printf(json->out, "%.*f", digits, number);
}

void simba__json_flag(struct simba__json *json, const char *key, bool is_set)
{
    put_key(json, key);
    simba__text_put(json->out, is_set ? "true" : "false");
}

void simba__json_token(struct simba__json *json,
                       const char *key,
                       uint64_t token)
{
    if (token == 0) {
        simba__json_text(json, key, NULL);
    } else {
        simba__json_unsigned(json, key, token);
    }
}

void simba__json_text_if(struct simba__json *json,
                         const char *key,
                         const char *text)
{
    if (text != NULL && *text != '\0') {
        simba__json_text(json, key, text);
    }
}

void simba__json_number_if(struct simba__json *json,
                           const char *key,
                           int64_t number)
{
    if (number != 0) {
        simba__json_number(json, key, number);
    }
}

/* --- lists --------------------------------------------------------------- */

void simba__json_list(struct simba__json *json, const char *key)
{
    put_key(json, key);
    simba__text_put(json->out, "[");
    json->has_any = false;
}

void simba__json_item(struct simba__json *item, struct simba__json *list)
{
    if (list->has_any) {
        simba__text_put(list->out, ",");
    }
    list->has_any = true;
    simba__json_begin(item, list->out);
}

void simba__json_list_end(struct simba__json *json)
{
    simba__text_put(json->out, "]");
    json->has_any = true;
}

void simba__json_end(struct simba__json *json)
{
    simba__text_put(json->out, "}");
}

void simba__json_line(struct simba__json *json)
{
    simba__text_put(json->out, "}\n");
}
