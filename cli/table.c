/* Columns that line up; see table.h. */
#define _GNU_SOURCE
#include "table.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

enum { GAP = 2 };       /* between columns */
enum { CUT_LEAST = 8 }; /* characters that are left of a cell */

struct simba__table_row {
    enum simba__tint tint;
    char *cells[SIMBA__TABLE_COLUMNS];
};

/* --- texts of others ----------------------------------------------------- */

/* C0, DEL, and C1 as UTF-8 has it: what a terminal may obey. */
static size_t control_length(const char *at)
{
    unsigned char first = (unsigned char)at[0], second = (unsigned char)at[1];

    if (first < 0x20 || first == 0x7f) {
        return 1;
    }
    return first == 0xc2 && second >= 0x80 && second < 0xa0 ? 2 : 0;
}

void simba__table_calm(char *text)
{
    char *to = text;

    while (*text != '\0') {
        size_t length = control_length(text);

        if (length == 0) {
            *to++ = *text++;
        } else {
            *to++ = '?';
            text += length;
        }
    }
    *to = '\0';
}

void simba__table_text(FILE *out, const char *text)
{
    char *copy = strdup(text);

    if (copy != NULL) {
        simba__table_calm(copy);
        (void)fputs(copy, out);
        free(copy);
    }
}

/* --- the table ----------------------------------------------------------- */

static struct simba__table_row *new_row(struct simba__table *table)
{
    if (table->count == table->room) {
        size_t room = table->room == 0 ? 16 : table->room * 2;
        struct simba__table_row *grown =
            realloc(table->rows, room * sizeof(*table->rows));

        if (grown == NULL) {
            table->is_short = true;
            return NULL;
        }
        table->rows = grown;
        table->room = room;
    }
    return &table->rows[table->count];
}

static void free_cells(struct simba__table_row *row)
{
    for (size_t i = 0; i < SIMBA__TABLE_COLUMNS; i++) {
        free(row->cells[i]);
    }
}

void simba__table_add(struct simba__table *table,
                      enum simba__tint tint,
                      const char *const *texts)
{
    struct simba__table_row *row = new_row(table);

    if (row == NULL) {
        return;
    }
    *row = (struct simba__table_row){.tint = tint};
    for (size_t i = 0; i < table->columns; i++) {
        row->cells[i] = strdup(texts[i]);
        if (row->cells[i] == NULL) {
            table->is_short = true;
            free_cells(row);
            return;
        }
        simba__table_calm(row->cells[i]);
    }
    table->count++;
}

static size_t width_of(const struct simba__table *table, size_t column)
{
    size_t width = 0;

    for (size_t i = 0; i < table->count; i++) {
        size_t one = simba__words_width(table->rows[i].cells[column]);

        width = one > width ? one : width;
    }
    return width;
}

static bool is_last(const struct simba__table *table,
                    const struct simba__table_row *row,
                    size_t column)
{
    for (size_t i = column + 1; i < table->columns; i++) {
        if (row->cells[i][0] != '\0') {
            return false;
        }
    }
    return true;
}

/* The widest of those that may be; one that is narrow already stays. */
static size_t softest(const struct simba__table *table, const size_t *widths)
{
    size_t found = table->columns;

    for (size_t i = 0; i < table->columns; i++) {
        if ((table->soft >> i & 1) != 0 && widths[i] > CUT_LEAST &&
            (found == table->columns || widths[i] > widths[found])) {
            found = i;
        }
    }
    return found;
}

static void find_widths(const struct simba__table *table, size_t *widths)
{
    size_t sum = 0, which;

    for (size_t i = 0; i < table->columns; i++) {
        widths[i] = width_of(table, i);
        sum += widths[i] + (i > 0 ? GAP : 0);
    }
    while (table->room_most > 0 && sum > table->room_most &&
           (which = softest(table, widths)) < table->columns) {
        widths[which]--;
        sum--;
    }
}

/* How many bytes so many characters have. */
static int bytes_of(const char *text, size_t characters)
{
    int bytes = 0;

    while (text[bytes] != '\0' &&
           (((unsigned char)text[bytes] & 0xc0) == 0x80 || characters > 0)) {
        characters -= ((unsigned char)text[bytes] & 0xc0) != 0x80;
        bytes++;
    }
    return bytes;
}

static void print_cell(FILE *out, const char *text, size_t width)
{
    if (simba__words_width(text) <= width) {
        (void)fputs(text, out);
    } else {
        fprintf(out, "%.*s…", bytes_of(text, width - 1), text);
    }
}

static void print_row(const struct simba__table *table,
                      FILE *out,
                      const struct simba__table_row *row,
                      const size_t *widths)
{
    static const char *const codes[] = {"",         "\033[1m",  "\033[2m",
                                        "\033[32m", "\033[33m", "\033[31m"};
    bool is_tinted = table->has_colour && row->tint != SIMBA__TINT_NONE;

    (void)fputs(is_tinted ? codes[row->tint] : "", out);
    for (size_t i = 0, is_over = 0; i < table->columns && !is_over; i++) {
        const char *cell = row->cells[i];
        size_t width = simba__words_width(cell);
        int rest = width < widths[i] ? (int)(widths[i] - width) : 0;
        bool is_right = (table->right >> i & 1) != 0;

        is_over = is_last(table, row, i);
        fprintf(out, "%*s", is_right ? rest : 0, "");
        print_cell(out, cell, widths[i]);
        fprintf(out, "%*s", is_over ? 0 : (is_right ? 0 : rest) + GAP, "");
    }
    (void)fputs(is_tinted ? "\033[0m\n" : "\n", out);
}

void simba__table_print(const struct simba__table *table,
                        FILE *out,
                        size_t most)
{
    size_t widths[SIMBA__TABLE_COLUMNS];

    find_widths(table, widths);
    for (size_t i = 0; i < table->count && i < most; i++) {
        print_row(table, out, &table->rows[i], widths);
    }
}

void simba__table_fini(struct simba__table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        free_cells(&table->rows[i]);
    }
    free(table->rows);
    table->rows = NULL;
    table->count = table->room = 0;
}
