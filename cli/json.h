/* Writing strings of JSON. */
#ifndef SIMBA_CLI_JSON_H
#define SIMBA_CLI_JSON_H

#include <stddef.h>
#include <stdio.h>

/** Room for one character as JSON writes it, and a NUL. */
enum { SIMBA__JSON_ESCAPED = 8 };

/**
 * Write the first character of a text as JSON does; what is no UTF-8 becomes
 * U+FFFD.
 *
 * @param text  not empty
 * @return how many bytes of the text it was
 */
size_t simba__json_escape(const char *text, char escaped[SIMBA__JSON_ESCAPED]);

/** Write a text with its quotes. */
void simba__json_string(FILE *out, const char *text);

#endif
