/* Ctrl-C while a command works: it is noted, so that the command can give back
 * what it has. A second one ends it at once. */
#ifndef SIMBA_CLI_INTERRUPT_H
#define SIMBA_CLI_INTERRUPT_H

#include <stdbool.h>

/** Note INT, TERM and HUP from now on, but for those that are ignored. */
void simba__interrupt_catch(void);

/** Ignore them from now on. */
void simba__interrupt_ignore(void);

/** Which one came; 0: none. */
int simba__interrupt(void);

#endif
