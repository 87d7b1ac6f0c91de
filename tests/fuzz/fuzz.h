/* What the targets share. Each is a program of its own: libFuzzer's main()
 * calls LLVMFuzzerTestOneInput() with one input after the other. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** The input as a text, up to its first NUL; to be freed. As long as it is and
 * no longer, so that reading beyond its end is seen. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    size_t length = size == 0 ? 0 : strnlen((const char *)data, size);
    char *text = malloc(length + 1);

    if (text == NULL) {
        abort();
    }
    if (length > 0) {
        memcpy(text, data, length);
    }
    text[length] = '\0';
    return text;
}

/** What must hold. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

#endif
