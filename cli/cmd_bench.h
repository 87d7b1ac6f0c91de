/* simba bench. */
#ifndef SIMBA_CLI_CMD_BENCH_H
#define SIMBA_CLI_CMD_BENCH_H

#include "opt.h"

int simba__cmd_bench(struct simba__cli *cli, int argc, char **argv);

#endif
