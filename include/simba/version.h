/**
 * @file simba/version.h
 * The version of these headers, and of the library that runs. From 1.0 on only
 * a major version may break callers (docs/abi.md); before, a minor one might.
 */
#ifndef SIMBA_VERSION_H
#define SIMBA_VERSION_H

#include <simba/export.h>

SIMBA_BEGIN_DECLS

#define SIMBA_VERSION_MAJOR  0
#define SIMBA_VERSION_MINOR  1
#define SIMBA_VERSION_PATCH  0
#define SIMBA_VERSION_STRING "0.1.0"

/** For comparison in #if: 0.1.0 is 100, 1.2.3 is 10203. */
#define SIMBA_VERSION_NUMBER                                                   \
    (SIMBA_VERSION_MAJOR * 10000 + SIMBA_VERSION_MINOR * 100 +                 \
     SIMBA_VERSION_PATCH)

/**
 * The version of the library that runs, which may be another than that of the
 * headers: SIMBA_VERSION_NUMBER as it was when the library was built. Who reads
 * what came with a later version than the oldest library it is to run with,
 * such as a new member of a struct that the library lends, asks this first.
 *
 * @return 10203 of 1.2.3
 *
 * Threads: any thread.
 */
SIMBA_API int simba_version_number(void);

SIMBA_END_DECLS

#endif
