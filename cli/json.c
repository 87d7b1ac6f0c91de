#include "json.h"

#include <string.h>

/* The length of the UTF-8 sequence that starts here, 0 when there is none. */
static size_t sequence_length(const unsigned char *at)
{
    size_t length;
    size_t i;

    if (at[0] < 0x80) {
        return 1;
    }
    if (at[0] < 0xc2 || at[0] > 0xf4) {
        return 0;
    }
    length = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    for (i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f)) {
        return 0; /* overlong, a surrogate, or beyond the last character */
    }
    return length;
}

size_t simba__json_escape(const char *text, char escaped[SIMBA__JSON_ESCAPED])
{
    size_t length = sequence_length((const unsigned char *)text);

    if (length == 0) {
        memcpy(escaped, "\\ufffd", sizeof("\\ufffd"));
        return 1;
    }
    if (*text == '"' || *text == '\\') {
        (void)snprintf(escaped, SIMBA__JSON_ESCAPED, "\\%c", *text);
    } else if ((unsigned char)*text < 0x20 || *text == 0x7f) {
        (void)snprintf(escaped, SIMBA__JSON_ESCAPED, "\\u%04x",
                       (unsigned)(unsigned char)*text);
    } else {
        memcpy(escaped, text, length);
        escaped[length] = '\0';
    }
    return length;
}

void simba__json_string(FILE *out, const char *text)
{
    char escaped[SIMBA__JSON_ESCAPED];

    (void)fputc('"', out);
    while (*text != '\0') {
        text += simba__json_escape(text, escaped);
        (void)fputs(escaped, out);
    }
    (void)fputc('"', out);
}
