#include "core/text.h"

#include <assert.h>
#include <stddef.h>

uint64_t simba__text_hash(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    assert(text != NULL);
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
    return hash;
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
