/* Commands that are programs of their own: `simba NAME` runs simba-NAME.
 *
 * It is looked for in the libexec directory beside this program, then in $PATH.
 * A set-user-id process looks in no directory that others can write to, and
 * never in $PATH. What stood before NAME, and the store wherever it stands, go
 * by the environment, never by arguments, which everybody can read (S13). */
#ifndef SIMBA_CLI_EXTERNAL_H
#define SIMBA_CLI_EXTERNAL_H

#include "opt.h"

/** Those that are made with simba, ended by NULL. */
extern const char *const simba__external_ours[];

/** Become simba-NAME; NAME is argv[0]. Returns its exit code when it cannot be
 * run, after telling why; -1: there is no such program. */
int simba__external_run(const struct simba__cli *cli, int argc, char **argv);

/** Call `each` for every program that is found, until it answers true: for a
 * name that several directories have, only the first. */
void simba__external_list(bool (*each)(void *user,
                                       const char *name,
                                       const char *path),
                          void *user);

#endif
