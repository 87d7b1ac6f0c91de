/* What may have been meant by a word that was mistyped. */
#ifndef SIMBA_CLI_GUESS_H
#define SIMBA_CLI_GUESS_H

#include "util/guess.h"

/** The command that does what other programs call so; NULL: none. */
const char *simba__guess_of_others(const char *word);

#endif
