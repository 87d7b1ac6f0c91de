/* Text that is put together piece by piece, and percent-escapes.
 *
 * A struct simba__text writes into memory that grows, into room of a fixed
 * size, or into a file. Its first failure is kept and what follows is dropped,
 * so that one look at the end will do. */
#ifndef SIMBA_UTIL_TEXT_H
#define SIMBA_UTIL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Zeroed, it is an empty text that grows. */
struct simba__text {
    char *bytes;   /* with a NUL behind them; NULL: none yet, or a file */
    size_t length; /* without the NUL */
    size_t room;
    FILE *file;
    bool is_fixed;  /* the bytes are the caller's */
    bool is_failed; /* cut, or no memory */
};

/** A text of at most room - 1 bytes, which is cut when it gets longer. */
struct simba__text simba__text_fixed(char *bytes, size_t room);
/** What is added goes to a file at once; errors stay with the file. */
struct simba__text simba__text_file(FILE *file);

void simba__text_add(struct simba__text *text, const char *bytes, size_t count);
void simba__text_put(struct simba__text *text, const char *string);
void simba__text_printf(struct simba__text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** The text, to be freed, leaving an empty one; NULL: it failed. For one that
 * grows. */
char *simba__text_take(struct simba__text *text);
/** Free one that grows. */
void simba__text_fini(struct simba__text *text);

/** The value of a hexadecimal digit of either case; -1 for anything else. */
int simba__text_hex(char c);

/**
 * How many bytes the character of UTF-8 has that a text of at least one byte
 * begins with; 0 when it begins with none. Overlong forms, which would let two
 * spellings name one mutex, and surrogates, which some stores refuse and others
 * repair, are none. In a header, so that the pure layers can use it.
 */
static inline size_t simba__text_sequence(const char *text, size_t room)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t length = at[0] < 0x80 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;

    if (length > room || (at[0] >= 0x80 && at[0] < 0xc2) || at[0] > 0xf4) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
                   (at[0] == 0xf0 && at[1] < 0x90) ||
                   (at[0] == 0xf4 && at[1] > 0x8f)
               ? 0
               : length;
}

/**
 * Decode the percent-escapes of a URL, in place. False for a broken escape or
 * an encoded NUL; what became of the text then is of no use.
 */
bool simba__text_unescape(char *text);

/** Add a text as a part of a URL, with everything escaped that could mean
 * something there. */
void simba__text_escape(struct simba__text *text, const char *part);

/** Read a decimal number without a sign or anything behind it. False for
 * anything else, and for more than `most`. */
bool simba__text_number(const char *text, uint64_t most, uint64_t *number);

#endif
