/* Telling what was measured. */
#ifndef SIMBA_CLI_BENCH_PRINT_H
#define SIMBA_CLI_BENCH_PRINT_H

#include "bench.h"
#include "opt.h"

/** In words, or as an object. */
void simba__bench_print(const struct simba__cli *cli,
                        const char *scenario,
                        const struct simba__bench_result *result);

#endif
