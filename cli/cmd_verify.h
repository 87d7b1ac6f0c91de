/* simba verify: find in event logs what must never be. */
#ifndef SIMBA_CLI_CMD_VERIFY_H
#define SIMBA_CLI_CMD_VERIFY_H

#include "opt.h"

int simba__cmd_verify(struct simba__cli *cli, int argc, char **argv);

#endif
