/* Mistakes about the line, hints, names, and what is told. */
#include "broken.h"

#include <ctype.h>
#include <string.h>

static void places_for_ever(struct simba__row *row, simba_op *op)
{
    (void)row;
    op->waiter_ms += 3600000;
}

static void reading_takes(struct simba__row *row, simba_op *op)
{
    (void)row;
    if (op->kind == SIMBA_OP_READ) {
        op->kind = SIMBA_OP_ACQUIRE;
        op->join = true;
        op->waiter_ms = 60000;
    }
}

/* --- names --------------------------------------------------------------- */

static void ids_are_cut(struct simba__row *row, simba_op *op)
{
    row->owner.id[64] = op->reply.owner.id[64] = '\0';
}

static void fold_case(char *mutex)
{
    for (; *mutex != '\0'; mutex++) {
        *mutex = (char)tolower((unsigned char)*mutex);
    }
}

static void trim(char *mutex)
{
    size_t length = strlen(mutex);

    while (length > 1 && mutex[length - 1] == ' ') {
        mutex[--length] = '\0';
    }
}

const struct fault broken_others[] = {
    {.name = "lost_wake_up", .no_hints = true},
    {.name = "hint_is_grant", .hint_grants = true},
    {.name = "line_ignores_death", PLANT(DEAD_CALLED)},
    {.name = "line_ignores_silence", .before = places_for_ever},
    {.name = "line_reversed", PLANT(LINE_REVERSED)},
    {.name = "newcomers_pass", PLANT(BARGING)},
    {.name = "reservation_forgotten", PLANT(NEXT_FORGOTTEN)},
    {.name = "reading_takes", .before = reading_takes},
    {.name = "case_folded", .rename = fold_case},
    {.name = "names_trimmed", .rename = trim},
    {.name = "ids_cut", .after = ids_are_cut},
    /* Not broken, only late: what it refuses it tells when the same attempt has
     * been granted. */
    {.name = "late_refusals", .late_refusals = true},
    {.name = NULL},
};
