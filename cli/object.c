/* JSON objects, member by member; see object.h. */
#define _GNU_SOURCE
#include "object.h"
#include "clock.h"
#include "json.h"
#include "words.h"

#include <inttypes.h>
#include <string.h>

static void put_key(struct simba__object *object, const char *key)
{
    fprintf(object->out, "%s\"%s\":", object->has_any ? "," : "", key);
    object->has_any = true;
}

void simba__object_begin(struct simba__object *object, FILE *out)
{
    *object = (struct simba__object){.out = out};
    (void)fputc('{', out);
}

void simba__object_text(struct simba__object *object,
                        const char *key,
                        const char *text)
{
    if (text == NULL) {
        simba__object_null(object, key);
        return;
    }
    put_key(object, key);
    simba__json_string(object->out, text);
}

void simba__object_number(struct simba__object *object,
                          const char *key,
                          int64_t number)
{
    put_key(object, key);
    fprintf(object->out, "%" PRId64, number);
}

void simba__object_count(struct simba__object *object,
                         const char *key,
                         uint64_t count)
{
    put_key(object, key);
    fprintf(object->out, "%" PRIu64, count);
}

void simba__object_null(struct simba__object *object, const char *key)
{
    put_key(object, key);
    (void)fputs("null", object->out);
}

void simba__object_flag(struct simba__object *object,
                        const char *key,
                        bool is_set)
{
    put_key(object, key);
    (void)fputs(is_set ? "true" : "false", object->out);
}

void simba__object_token(struct simba__object *object,
                         const char *key,
                         uint64_t token)
{
    if (token == 0) {
        simba__object_null(object, key);
    } else {
        simba__object_count(object, key, token);
    }
}

void simba__object_list(struct simba__object *object, const char *key)
{
    put_key(object, key);
    (void)fputc('[', object->out);
}

void simba__object_item(struct simba__object *item,
                        struct simba__object *object,
                        bool is_first)
{
    if (!is_first) {
        (void)fputc(',', object->out);
    }
    simba__object_begin(item, object->out);
    item->is_nested = true;
}

void simba__object_list_end(struct simba__object *object)
{
    (void)fputc(']', object->out);
}

void simba__object_end(struct simba__object *object)
{
    (void)fputs(object->is_nested ? "}" : "}\n", object->out);
}

void simba__object_times(struct simba__object *object, int64_t boot_ms)
{
    char boot[SIMBA__CLOCK_BOOT];
    int64_t ago_ms = simba__clock_ms() - boot_ms;

    simba__object_number(object, "unix_ms", simba__words_unix_ms() - ago_ms);
    simba__object_number(object, "boot_ms", boot_ms);
    simba__object_text(object, "boot", simba__clock_boot(boot) ? boot : NULL);
}
