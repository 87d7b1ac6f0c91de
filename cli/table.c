/* Columns that line up; see output.h. */
#define _GNU_SOURCE
#include "cli/output.h"
#include "util/array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 2 };          /* between columns */
enum { CUT_LEAST = 8 };    /* characters that are left of a cell */
enum { WORDS_LEAST = 20 }; /* less room is not worth breaking lines for */

struct simba__table_row {
    enum simba__tint tint;
    char *cells[SIMBA__TABLE_COLUMNS];
};

static bool is_start(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

/* Characters, not bytes; that some are wide is not known here. */
static size_t width_of(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++) {
        width += is_start(*text);
    }
    return width;
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
    struct simba__table_row row = {.tint = tint};

    assert(table->columns > 0 && table->columns <= SIMBA__TABLE_COLUMNS);
    if (!simba__array_reserve(&table->rows, &table->room, table->count + 1,
                              sizeof row)) {
        table->is_short = true;
        return;
    }
    for (size_t i = 0; i < table->columns; i++) {
        row.cells[i] = strdup(texts[i]);
        if (row.cells[i] == NULL) {
            table->is_short = true;
            free_cells(&row);
            return;
        }
        simba__calm(row.cells[i]);
    }
    table->rows[table->count++] = row;
}

void simba__print_words(FILE *out,
                        const char *text,
                        size_t column,
                        size_t width)
{
    size_t room = width > column + WORDS_LEAST ? width - column : 0;

    while (room > 0 && width_of(text) > room) {
        size_t left = room, end = 0, length = 0;

        /* The last blank up to there, else the next one behind. */
        for (; text[length] != '\0' && (left > 0 || end == 0); length++) {
            left -= left > 0 && is_start(text[length]) ? 1 : 0;
            end = text[length + 1] == ' ' ? length + 1 : end;
        }
        if (end == 0) {
            break;
        }
        fprintf(out, "%.*s\n%*s", (int)end, text, (int)column, "");
        text += end;
        text += strspn(text, " ");
    }
    (void)fputs(text, out);
}

static bool is_set(unsigned bits, size_t column)
{
    return (bits >> column & 1) != 0;
}

/* When there is too little room the widest of those that may be cut is, again
 * and again; one that is narrow already stays. */
static void find_widths(const struct simba__table *table, size_t *widths)
{
    size_t sum = 0, which = 0;

    for (size_t i = 0; i < table->columns; i++) {
        widths[i] = 0;
        for (size_t row = 0; row < table->count; row++) {
            size_t one = width_of(table->rows[row].cells[i]);

            widths[i] = one > widths[i] ? one : widths[i];
        }
        sum += is_set(table->hidden, i) ? 0 : widths[i] + (i > 0 ? GAP : 0);
    }
    while (table->room_most > 0 && sum > table->room_most &&
           which < table->columns) {
        which = table->columns;
        for (size_t i = 0; i < table->columns; i++) {
            if (is_set(table->soft, i) && widths[i] > CUT_LEAST &&
                (which == table->columns || widths[i] > widths[which])) {
                which = i;
            }
        }
        if (which < table->columns) {
            widths[which]--;
            sum--;
        }
    }
}

/* A text that is too wide, with a sign of what is cut away: of 0:4711@host the
 * beginning, as long as that is enough. */
static void print_cut(FILE *out, const char *text, size_t width, bool has_host)
{
    const char *at = has_host ? strrchr(text, '@') : NULL;
    size_t over = width_of(text) - width + 1;
    int bytes = 0;

    if (at != NULL && width_of(at) < width) {
        while (over > 0 || !is_start(*text)) {
            text++;
            over -= over > 0 && is_start(*text) ? 1 : 0;
        }
        fprintf(out, "…%s", text);
        return;
    }
    text = at != NULL ? at + 1 : text;
    if (width_of(text) <= width) {
        fprintf(out, "%s%*s", text, (int)(width - width_of(text)), "");
        return;
    }
    for (size_t left = width - 1; left > 0 || !is_start(text[bytes]); bytes++) {
        left -= is_start(text[bytes]);
    }
    fprintf(out, "%.*s…", bytes, text);
}

static void print_row(const struct simba__table *table,
                      FILE *out,
                      const struct simba__table_row *row,
                      const size_t *widths)
{
    static const char *const codes[] = {"",         "\033[1m",  "\033[2m",
                                        "\033[32m", "\033[33m", "\033[31m"};
    bool is_tinted = table->has_colour && row->tint != SIMBA__TINT_NONE;
    size_t count = table->columns, column = 0;

    while (count > 1 && row->cells[count - 1][0] == '\0') {
        count--; /* nothing is printed behind the last one */
    }
    (void)fputs(is_tinted ? codes[row->tint] : "", out);
    for (size_t i = 0; i < count; i++) {
        const char *text = row->cells[i];
        size_t width = width_of(text);
        int rest = width < widths[i] ? (int)(widths[i] - width) : 0;
        bool is_right = is_set(table->right, i);

        if (is_set(table->hidden, i)) {
            continue;
        }
        fprintf(out, "%*s", is_right ? rest : 0, "");
        if (table->has_words && i + 1 == table->columns) {
            simba__print_words(out, text, column, table->room_most);
        } else if (width <= widths[i]) {
            (void)fputs(text, out);
        } else {
            print_cut(out, text, widths[i], is_set(table->hosts, i));
        }
        fprintf(out, "%*s", i + 1 == count ? 0 : (is_right ? 0 : rest) + GAP,
                "");
        column += widths[i] + GAP;
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
