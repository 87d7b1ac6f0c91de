/* What an owner tells about itself, as the text that stores keep: a line for
 * each thing, its name, a blank and its value. Older versions pass over names
 * that they do not know. */
#ifndef SIMBA_CORE_TOLD_H
#define SIMBA_CORE_TOLD_H

#include <simba/report.h>

enum {
    /* Names, values and a number, each with a blank and a newline. */
    SIMBA__TOLD_ROOM = 2 * SIMBA_TOLD_WORD_MAX + SIMBA_TOLD_COMMAND_MAX + 64
};

/** Copy a text of any length: what is no UTF-8 becomes "?", and what does not
 * fit is left out at the end, with "…" for it. */
void simba__told_copy(char *to, size_t room, const char *from);

/** Write what is known of it, mutex and token apart. A newline in a value
 * becomes a blank. */
void simba__told_write(char text[SIMBA__TOLD_ROOM], const simba_told *told);

/** Read the same, whoever wrote it; what is not there stays as it is. */
void simba__told_read(simba_told *told, const char *text);

#endif
