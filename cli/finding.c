/* Findings about a store; see finding.h. */
#define _GNU_SOURCE
#include "finding.h"
#include "object.h"
#include "table.h"
#include "words.h"

#include <stdio.h>
#include <unistd.h>

const char *simba__gravity_word(enum simba_gravity gravity)
{
    static const char *const words[] = {"ok", "note", "weak", "serious"};

    return words[gravity];
}

void simba__finding_objects(const simba_report *report)
{
    const simba_finding *finding;

    for (size_t i = 0; (finding = simba_report_finding(report, i)) != NULL;
         i++) {
        struct simba__object object;

        simba__object_begin(&object, stdout);
        simba__object_text(&object, "finding", finding->name);
        simba__object_text(&object, "gravity",
                           simba__gravity_word(finding->gravity));
        simba__object_text(&object, "text", finding->text);
        simba__object_end(&object);
    }
}

void simba__finding_table(const simba_report *report, enum simba_gravity least)
{
    static const enum simba__tint tints[] = {
        SIMBA__TINT_GREEN, SIMBA__TINT_NONE, SIMBA__TINT_YELLOW,
        SIMBA__TINT_RED};
    struct simba__table table = {
        .columns = 3, .has_colour = simba__words_has_colour(STDOUT_FILENO)};
    const simba_finding *finding;

    for (size_t i = 0; (finding = simba_report_finding(report, i)) != NULL;
         i++) {
        const char *texts[] = {simba__gravity_word(finding->gravity),
                               finding->name, finding->text};

        if (finding->gravity >= least) {
            simba__table_add(&table, tints[finding->gravity], texts);
        }
    }
    simba__table_print(&table, stdout, table.count);
    simba__table_fini(&table);
}
