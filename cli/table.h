/* Columns that line up. */
#ifndef SIMBA_CLI_TABLE_H
#define SIMBA_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { SIMBA__TABLE_COLUMNS = 8 };

/** How a row looks where there is colour. */
enum simba__tint {
    SIMBA__TINT_NONE,
    SIMBA__TINT_BOLD,
    SIMBA__TINT_FAINT,
    SIMBA__TINT_GREEN,
    SIMBA__TINT_YELLOW,
    SIMBA__TINT_RED
};

struct simba__table_row;

struct simba__table {
    size_t columns;
    unsigned right;   /* bit n: column n is aligned to the right */
    unsigned soft;    /* bit n: column n may be cut, so that the others fit */
    size_t room_most; /* how wide a row may be; 0: any width */
    bool has_colour;
    struct simba__table_row *rows;
    size_t count, room;
    bool is_short; /* there was no memory for some */
};

/** Add a row; the texts are copied, and control characters in them shown as
 * '?', for they come from others and might move the cursor. */
void simba__table_add(struct simba__table *table,
                      enum simba__tint tint,
                      const char *const *texts);

/** Print the first rows, each ended by a newline. */
void simba__table_print(const struct simba__table *table,
                        FILE *out,
                        size_t most);

/** Forget the rows. */
void simba__table_fini(struct simba__table *table);

/** Print a text of somebody else's the same way. */
void simba__table_text(FILE *out, const char *text);

/** Put '?' for what a terminal might obey. */
void simba__table_calm(char *text);

#endif
