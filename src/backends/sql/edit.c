/* Small changes to the texts of statements. */
#include "backends/sql/engine.h"

#include <assert.h>
#include <string.h>

static void replace(char *text, size_t room, const struct simba__sql_edit *edit)
{
    size_t from = strlen(edit->from), to = strlen(edit->to);
    char *at = text;

    while ((at = strstr(at, edit->from)) != NULL) {
        assert(strlen(text) - from + to < room);
        memmove(at + to, at + from, strlen(at + from) + 1);
        memcpy(at, edit->to, to);
        at += to;
    }
}

void simba__sql_edit(char *text,
                     size_t room,
                     const struct simba__sql_edit *edits)
{
    for (; edits->from != NULL; edits++) {
        replace(text, room, edits);
    }
}
