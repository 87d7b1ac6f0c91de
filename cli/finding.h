/* Findings about a store, of doctor and init. */
#ifndef SIMBA_CLI_FINDING_H
#define SIMBA_CLI_FINDING_H

#include <simba/report.h>

/** "ok", "note", "weak" or "serious". */
const char *simba__gravity_word(enum simba_gravity gravity);

/** Each as a line of JSON on stdout: finding, gravity, text. */
void simba__finding_objects(const simba_report *report);

/** Those that are at least so grave, as a table on stdout. */
void simba__finding_table(const simba_report *report, enum simba_gravity least);

#endif
