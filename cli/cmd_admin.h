/* The commands for those who look after a store. Each takes the options that
 * stood before it, and its own arguments, its name first; answers the exit
 * code. */
#ifndef SIMBA_CLI_CMD_ADMIN_H
#define SIMBA_CLI_CMD_ADMIN_H

#include "opt.h"

int simba__cmd_list(struct simba__cli *cli, int argc, char **argv);
int simba__cmd_show(struct simba__cli *cli, int argc, char **argv);
int simba__cmd_watch(struct simba__cli *cli, int argc, char **argv);
int simba__cmd_break(struct simba__cli *cli, int argc, char **argv);
int simba__cmd_doctor(struct simba__cli *cli, int argc, char **argv);
int simba__cmd_init(struct simba__cli *cli, int argc, char **argv);

#endif
