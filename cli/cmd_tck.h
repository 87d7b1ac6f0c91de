/* simba tck. */
#ifndef SIMBA_CLI_CMD_TCK_H
#define SIMBA_CLI_CMD_TCK_H

#include "opt.h"

/** Run the command; the arguments begin with its name. */
int simba__cmd_tck(struct simba__cli *cli, int argc, char **argv);

#endif
