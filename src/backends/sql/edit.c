/* Small changes to the texts of statements. */
#include "backends/sql/engine.h"

#include <assert.h>
#include <string.h>

static void replace(char *text, const struct simba__sql_edit *edit)
{
    size_t from = strlen(edit->from), to = strlen(edit->to);
    char *at = text;

    assert(to <= from); /* it becomes no longer */
    while ((at = strstr(at, edit->from)) != NULL) {
        memcpy(at, edit->to, to);
        memmove(at + to, at + from, strlen(at + from) + 1);
        at += to;
    }
}

void simba__sql_edit(char *text, const struct simba__sql_edit *edits)
{
    for (; edits->from != NULL; edits++) {
        replace(text, edits);
    }
}
