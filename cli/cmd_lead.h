/* The commands of simba(1). Each gets its own argv, argv[0] being its name,
 * and returns the exit code. */
#ifndef SIMBA_CLI_CMD_LEAD_H
#define SIMBA_CLI_CMD_LEAD_H

#include "opt.h"

int simba__cmd_lead(struct simba__cli *cli, int argc, char **argv);

#endif
