#include "util/text.h"

#include "util/array.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>

struct simba__text simba__text_fixed(char *bytes, size_t room)
{
    assert(room > 0);
    bytes[0] = '\0';
    return (struct simba__text){.bytes = bytes, .room = room, .is_fixed = true};
}

struct simba__text simba__text_file(FILE *file)
{
    return (struct simba__text){.file = file};
}

void simba__text_add(struct simba__text *text, const char *bytes, size_t count)
{
    if (text->file != NULL) {
        (void)fwrite(bytes, 1, count, text->file);
        return;
    }
    if (text->is_failed) {
        return;
    }
    if (text->is_fixed && count > text->room - 1 - text->length) {
        text->is_failed = true;
        count = text->room - 1 - text->length;
    } else if (!text->is_fixed &&
               !simba__array_reserve(&text->bytes, &text->room,
                                     text->length + count + 1, 1)) {
        text->is_failed = true;
        return;
    }
    memcpy(text->bytes + text->length, bytes, count);
    text->length += count;
    text->bytes[text->length] = '\0';
}

void simba__text_put(struct simba__text *text, const char *string)
{
    simba__text_add(text, string, strlen(string));
}

void simba__text_printf(struct simba__text *text, const char *format, ...)
{
    char stack[256];
    char *longer;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(stack, sizeof stack, format, arguments);
    va_end(arguments);
    assert(length >= 0);
    if ((size_t)length < sizeof stack) {
        simba__text_add(text, stack, (size_t)length);
        return;
    }
    longer = malloc((size_t)length + 1);
    if (longer == NULL) {
        text->is_failed = true;
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(longer, (size_t)length + 1, format, arguments);
    va_end(arguments);
    simba__text_add(text, longer, (size_t)length);
    free(longer);
}

char *simba__text_take(struct simba__text *text)
{
    char *bytes;

    assert(!text->is_fixed && text->file == NULL);
    simba__text_add(text, "", 0);
    if (text->is_failed) {
        simba__text_fini(text);
        return NULL;
    }
    bytes = text->bytes;
    *text = (struct simba__text){0};
    return bytes;
}

void simba__text_fini(struct simba__text *text)
{
    assert(!text->is_fixed);
    free(text->bytes);
    *text = (struct simba__text){0};
}

int simba__text_hex(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool simba__text_unescape(char *text)
{
    char *to = text;

    assert(text != NULL);
    for (const char *from = text; *from != '\0'; from++) {
        int high, low;

        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        high = simba__text_hex(from[1]);
        low = high < 0 ? -1 : simba__text_hex(from[2]);
        if (low < 0 || high * 16 + low == 0) {
            return false;
        }
        *to++ = (char)(high * 16 + low);
        from += 2;
    }
    *to = '\0';
    return true;
}

void simba__text_escape(struct simba__text *text, const char *part)
{
    for (; *part != '\0'; part++) {
        unsigned char c = (unsigned char)*part;

        if ((c < 0x80 && isalnum(c)) || strchr("-._~", c) != NULL) {
            simba__text_add(text, part, 1);
        } else {
            simba__text_printf(text, "%%%02X", c);
        }
    }
}

bool simba__text_number(const char *text, uint64_t most, uint64_t *number)
{
    char *end = NULL;

    errno = 0;
    *number = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 &&
           *number <= most;
}
