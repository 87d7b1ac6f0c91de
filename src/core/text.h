/* Texts: small things that every layer does with them. */
#ifndef SIMBA_CORE_TEXT_H
#define SIMBA_CORE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/** A hash, to find things by name (FNV-1a). The same in every process. */
uint64_t simba__text_hash(const char *text);

/** The value of a hexadecimal digit of either case; -1 for anything else. */
int simba__text_hex(char c);

/**
 * Decode the percent-escapes of a URL, in place. False for a broken escape or
 * an encoded NUL; what became of the text then is of no use.
 */
bool simba__text_unescape(char *text);

#endif
