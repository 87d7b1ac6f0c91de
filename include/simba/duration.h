/**
 * @file simba/duration.h
 * Durations as people write them, on the command line and in the config file.
 */
#ifndef SIMBA_DURATION_H
#define SIMBA_DURATION_H

#include <simba/error.h>
#include <simba/export.h>

#include <stdint.h>

SIMBA_BEGIN_DECLS

/**
 * Read a duration: 250ms, 10s, 5m, 1h; decimals are fine, as in 1.5s, and 0
 * needs no unit.
 *
 * @param text        not NULL
 * @param[out] ms     set on success
 * @param[out] error  filled on failure, without the text; may be NULL
 * @return SIMBA_OK; SIMBA_EINVAL for what is no duration, or more than ten
 *         years
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_duration_parse(const char *text,
                                                  int64_t *ms,
                                                  simba_error *error);

SIMBA_END_DECLS

#endif
