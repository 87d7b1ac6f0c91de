/* What may have been meant by a word that was mistyped. */
#ifndef SIMBA_UTIL_GUESS_H
#define SIMBA_UTIL_GUESS_H

#include <stdbool.h>

/** Is the word the beginning of the name, or as good as the name: but for one
 * letter missing, added or replaced, or two that changed places? Of a long name
 * for two such things. */
bool simba__guess_is_near(const char *word, const char *name);

#endif
